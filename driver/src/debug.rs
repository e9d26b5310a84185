//! What the driver knows, for a report of a timeout.

use core::ptr::NonNull;

use campanile_hw::debug;
use campanile_hw::registers::NODES;
use wddm_ddi::km::DXGKARG_COLLECTDBGINFO;

use crate::adapter::Adapter;
use crate::gpu::Gpu;
use crate::queue::hw_queue::HwQueue;
use crate::refusal::Reason;
use crate::trace;

/// Words to a buffer that need not be aligned, as many as fit.
struct Writer {
    buffer: Option<NonNull<u64>>,
    room: usize,
    written: usize,
}

impl Writer {
    fn put(&mut self, word: u64) {
        if self.written < self.room {
            self.put_at(self.written, word);
            self.written += 1;
        }
    }

    fn put_at(&self, index: usize, word: u64) {
        if let Some(buffer) = self.buffer.filter(|_| index < self.room) {
            // SAFETY: the buffer has `room` words, and `index` is one of them.
            let place = unsafe { buffer.add(index) };
            // SAFETY: as above; the buffer need not be aligned.
            unsafe { place.write_unaligned(word) };
        }
    }
}

/// DxgkDdiCollectDbgInfo: the words of [`debug`], as many as fit. Any level: takes no lock and does not touch the device.
pub(crate) fn collect(adapter: &Adapter, args: &DXGKARG_COLLECTDBGINFO) {
    let buffer = NonNull::new(args.pBuffer.cast::<u64>());
    let mut writer = Writer { buffer, room: args.BufferSize / size_of::<u64>(), written: 0 };
    let gpu = adapter.gpu();
    writer.put(debug::MAGIC);
    // The number of words, which is known at the end.
    writer.put(0);
    writer.put(u64::from(args.Reason) | u64::from(gpu.is_some_and(Gpu::is_running)) << 32);
    writer.put(u64::from(if gpu.is_some() { NODES } else { 0 }) | (Reason::COUNT as u64) << 32);
    for node in gpu.into_iter().flat_map(|gpu| gpu.nodes.iter()) {
        let (submitted, completed) = node.progress();
        writer.put(u64::from(submitted) | u64::from(completed) << 32);
        writer.put(u64::from(node.is_muted()));
    }
    let counts = trace::read(&adapter.trace.refused).into_iter().zip(trace::read(&adapter.trace.passed_over));
    counts.for_each(|(refused, passed_over)| writer.put(refused.saturating_add(passed_over)));
    for queue in gpu.into_iter().flat_map(|gpu| gpu.queues.iter()) {
        if let Ok(queue) = adapter.objects.get::<HwQueue>(queue) {
            writer.put(u64::from(queue.number) | u64::from(queue.node) << 32 | u64::from(queue.is_user()) << 40);
            writer.put(queue.dxgk().addr() as u64);
        }
    }
    writer.put_at(debug::WORDS_AT, writer.written as u64);
    writer.put(debug::END);
}

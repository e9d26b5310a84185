//! DxgkDdiCollectDbgInfo: the state of the driver for a live dump after a timeout, or for the crash dump of a machine that stops.

use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use campanile_hw::debug::{CUT, END, MAGIC, NO_PAGE, POWERED, RUNNING, Section, WORDS_AT};
use campanile_hw::registers::{NODE_COMPUTE, NODES};
use campanile_hw::trace::entry::{TraceEntry, to_words};
use campanile_hw::trace::ring::TraceRing;
use wddm_ddi::km::DXGKARG_COLLECTDBGINFO;
use wddm_ddi::nt::DISPATCH_LEVEL;

use crate::adapter::Adapter;
use crate::fence::object::{NativeFence, OpenFence};
use crate::gpu::Gpu;
use crate::irql::Passive;
use crate::nt;
use crate::queue::doorbell::Doorbell;
use crate::queue::hw_queue::HwQueue;
use crate::refusal::Reason;
use crate::trace;

/// Bug-check codes with which the DDI is called below DISPATCH_LEVEL on a machine that goes on: timeouts of the adapter and of an engine.
/// [bugcheck: VIDEO_TDR_TIMEOUT_DETECTED, VIDEO_ENGINE_TIMEOUT_DETECTED]
const TIMEOUTS: [u32; 2] = [0x117, 0x141];

/// Most objects of each kind that are written.
const OBJECTS: usize = 256;
/// Most events of each ring in the report of a timeout, and in any other report, which may have to fit into a crash dump.
const EVENTS_TIMEOUT: usize = 64;
const EVENTS_OTHER: usize = 16;

/// Words to a buffer that need not be aligned, as many as fit.
struct Writer {
    buffer: Option<NonNull<u64>>,
    capacity: usize,
    written: usize,
    cut: bool,
}

impl Writer {
    fn put(&mut self, word: u64) {
        if self.written < self.capacity {
            self.put_at(self.written, word);
            self.written += 1;
        }
    }

    fn put_at(&self, index: usize, word: u64) {
        if let Some(buffer) = self.buffer.filter(|_| index < self.capacity) {
            // SAFETY: the buffer has `capacity` words, and `index` is one of them.
            let place = unsafe { buffer.add(index) };
            // SAFETY: as above; the buffer need not be aligned.
            unsafe { place.write_unaligned(word) };
        }
    }

    /// Writes the items that `body` hands over, as many as fit into the buffer.
    fn section(&mut self, section: u16, words: usize, body: impl FnOnce(&mut dyn FnMut(&[u64]) -> bool)) {
        let start = self.written;
        if self.capacity - start <= words {
            self.cut = true;
            return;
        }
        self.put(0);
        let mut count = 0u64;
        body(&mut |item| {
            if self.capacity - self.written < words {
                self.cut = true;
                return false;
            }
            item.iter().take(words).for_each(|word| self.put(*word));
            count += 1;
            true
        });
        self.put_at(start, u64::from(section) | (words as u64) << 16 | count << 32);
    }

    fn items(&mut self, section: Section, body: impl FnOnce(&mut dyn FnMut(&[u64]) -> bool)) {
        self.section(section as u16, section.words(), body);
    }
}

/// DxgkDdiCollectDbgInfo: the words of [`campanile_hw::debug`], as many as fit. Only for a timeout the device is asked, and told nothing: where its dispatches stand.
/// For a timeout no object goes while it is looked at; at a level at which nothing can be waited for, the machine is about to stop.
pub(crate) fn collect(adapter: &Adapter, args: &DXGKARG_COLLECTDBGINFO) -> u32 {
    let buffer = NonNull::new(args.pBuffer.cast::<u64>());
    let capacity = if buffer.is_some() { args.BufferSize / size_of::<u64>() } else { 0 };
    let mut writer = Writer { buffer, capacity, written: 0, cut: false };
    let gpu = adapter.gpu();
    writer.put(MAGIC);
    // The number of words and the state, which are known at the end.
    writer.put(0);
    writer.put(0);
    writer.put(adapter.handle().into_bits());
    if let Some(gpu) = gpu {
        device(&mut writer, adapter, gpu);
    }
    reasons(&mut writer, adapter);
    let passive = nt::current_irql().is_some_and(|irql| irql < DISPATCH_LEVEL);
    // SAFETY: asked just now.
    let irql = passive.then(|| unsafe { Passive::assume() });
    let timeout = TIMEOUTS.contains(&args.Reason);
    if let Some(irql) = irql.as_ref().filter(|_| timeout) {
        dispatches(&mut writer, adapter, irql);
    }
    objects(&mut writer, adapter, irql.as_ref());
    let last = if timeout { EVENTS_TIMEOUT } else { EVENTS_OTHER };
    events(&mut writer, adapter, last);
    let state = |flag, bit| if flag { bit } else { 0 };
    let running = state(adapter.engines().any(Gpu::is_running), RUNNING);
    let powered = state(adapter.engines().any(Gpu::is_powered), POWERED);
    writer.put_at(2, u64::from(args.Reason) | running | powered | state(writer.cut, CUT));
    writer.put_at(WORDS_AT, writer.written as u64);
    writer.put(END);
    (writer.written * size_of::<u64>()) as u32
}

fn device(writer: &mut Writer, adapter: &Adapter, gpu: &Gpu) {
    let (counter, frequency) = nt::performance_counter();
    let numbers = u64::from(gpu.hardware.doorbells) | u64::from(gpu.layout.queues) << 32;
    let caps = gpu.hardware.caps.into_bits().into();
    writer.items(Section::Device, |item| {
        item(&[gpu.layout.usable_vram(), caps, numbers, counter, frequency]);
    });
    writer.items(Section::Nodes, |item| {
        for (node, fstate) in adapter.engines().flat_map(|gpu| gpu.nodes.iter().zip(&gpu.fstates)) {
            let (submitted, completed) = node.progress();
            let state = u64::from(node.is_muted()) | u64::from(fstate.load(Ordering::Acquire)) << 32;
            item(&[u64::from(submitted) | u64::from(completed) << 32, state]);
        }
    });
}

/// The dispatches in progress. Each is also noted where a debugger finds it.
fn dispatches(writer: &mut Writer, adapter: &Adapter, irql: &Passive) {
    writer.items(Section::Dispatches, |item| {
        for (engine, gpu) in (0..).zip(adapter.engines()) {
            gpu.dispatches.clear();
            dispatch(item, gpu, irql, [0, NODE_COMPUTE.into(), engine]);
        }
        let mut left = OBJECTS;
        adapter.objects.visit::<HwQueue>(Some(irql), adapter.handle(), |handle, queue| {
            let Ok(gpu) = adapter.engine(queue.engine) else { return true };
            if queue.node != NODE_COMPUTE {
                return true;
            }
            left -= 1;
            dispatch(item, gpu, irql, [handle.into_bits(), queue.number.into(), queue.engine.into()]) && left != 0
        });
    });
}

/// The dispatch in progress of one queue, of which the handle, the number and the engine are given. False if there is no space for it.
fn dispatch(
    item: &mut dyn FnMut(&[u64]) -> bool,
    gpu: &Gpu,
    irql: &Passive,
    [handle, number, engine]: [u64; 3],
) -> bool {
    if !gpu.is_running() {
        return true;
    }
    // Refused: no dispatch is in progress, or the device is lost, of which the recovery learns by itself.
    let Ok(at) = gpu.cmp.query_dispatch(irql, number as u32) else { return true };
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let node = engine * u64::from(NODES) + u64::from(NODE_COMPUTE);
    let flags = u64::from(at.saved & 1) << 40 | u64::from(at.workgroup & 1) << 41;
    let words = [
        handle,
        number | (node & 0xff) << 32 | flags,
        pair(at.workgroup_x, at.workgroup_y),
        pair(at.workgroup_z, at.subgroup),
        pair(at.instruction, at.line),
        pair(at.active, at.alive),
        at.program,
        at.code_low,
        at.code_high,
        at.done,
        at.instructions,
        at.begun,
    ];
    gpu.dispatches.note(words);
    item(&words)
}

fn reasons(writer: &mut Writer, adapter: &Adapter) {
    let refused = trace::read(&adapter.trace.refused);
    let passed_over = trace::read(&adapter.trace.passed_over);
    writer.items(Section::Reasons, |item| {
        for (reason, (refused, passed_over)) in Reason::ALL.iter().zip(refused.into_iter().zip(passed_over)) {
            if refused != 0 || passed_over != 0 {
                item(&[*reason as u64, refused, passed_over]);
            }
        }
    });
    writer.items(Section::Rings, |item| {
        item(&about_ring(&trace::DRIVER.ring));
        for ring in &adapter.trace.rings {
            item(&about_ring(ring));
        }
    });
}

fn about_ring<const N: usize>(ring: &TraceRing<N>) -> [u64; 3] {
    [ring.header.component.into(), ring.written(), ring.header.dropped.load(Ordering::Relaxed)]
}

fn objects(writer: &mut Writer, adapter: &Adapter, irql: Option<&Passive>) {
    let own = adapter.handle();
    writer.items(Section::Queues, |item| {
        let mut left = OBJECTS;
        adapter.objects.visit::<HwQueue>(irql, own, |handle, queue| {
            let flags = u64::from(queue.is_user()) << 40 | u64::from(queue.waiting().min(0xffff)) << 48;
            let node = queue.engine * NODES + queue.node;
            let words = [
                handle.into_bits(),
                queue.dxgk().addr() as u64,
                queue.context.into_bits(),
                u64::from(queue.number) | u64::from(node & 0xff) << 32 | flags,
                queue.doorbell.load(Ordering::Acquire),
                queue.progress_address(),
            ];
            left -= 1;
            item(&words) && left != 0
        });
    });
    writer.items(Section::Doorbells, |item| {
        let mut left = OBJECTS;
        adapter.objects.visit::<Doorbell>(irql, own, |handle, doorbell| {
            let page = adapter.engines().find_map(|gpu| gpu.doorbells.page_of(handle.into_bits()));
            let words =
                [handle.into_bits(), doorbell.dxgk(), doorbell.queue().into_bits(), page.map_or(NO_PAGE, u64::from)];
            left -= 1;
            item(&words) && left != 0
        });
    });
    writer.items(Section::Fences, |item| {
        let mut left = OBJECTS;
        adapter.objects.visit::<NativeFence>(irql, own, |handle, fence| {
            left -= 1;
            item(&[handle.into_bits(), fence.dxgk(), fence.is_always_signaled().into()]) && left != 0
        });
    });
    writer.items(Section::OpenFences, |item| {
        let mut left = OBJECTS;
        adapter.objects.visit::<OpenFence>(irql, own, |handle, open| {
            let (fence, process) = (open.fence.into_bits(), open.process.into_bits());
            left -= 1;
            item(&[handle.into_bits(), fence, process, open.at.current, open.at.monitored]) && left != 0
        });
    });
}

/// The last events of each ring, that of the driver and those of the adapter, in equal parts of what is left of the buffer.
fn events(writer: &mut Writer, adapter: &Adapter, last: usize) {
    let rings = 1 + adapter.trace.rings.len();
    let share = (writer.capacity.saturating_sub(writer.written) / rings).saturating_sub(1) / TraceEntry::WORDS;
    events_of(writer, &trace::DRIVER.ring, last, share);
    for ring in &adapter.trace.rings {
        events_of(writer, ring, last, share);
    }
}

/// The last events of a ring, `share` of them at most.
fn events_of<const N: usize>(writer: &mut Writer, ring: &TraceRing<N>, last: usize, share: usize) {
    writer.cut |= ring.written().min(last as u64) > share as u64;
    let section = Section::Events as u16 + u16::from(ring.header.component);
    writer.section(section, Section::Events.words(), |item| {
        ring.last(last.min(share)).all(|read| item(&to_words(&read)));
    });
}

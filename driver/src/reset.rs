//! Timeouts: engines and the adapter are stopped and started again.

use core::ptr::NonNull;

use campanile_hw::registers::{Command, NODES};
use wddm_ddi::km::*;
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_UNSUCCESSFUL};

use crate::adapter::Adapter;
use crate::cmp::CommandError;
use crate::fence::system;
use crate::gpu::Gpu;
use crate::interrupt::{self, report};
use crate::irql::{Device, Passive};
use crate::queue::context::HwContext;
use crate::queue::hw_queue::{self, HwQueue};
use crate::queue::packet::Node;

/// The node that a DDI names.
fn node(gpu: &Gpu, ordinal: u32, engine: u32) -> Result<&Node, NTSTATUS> {
    if engine != 0 {
        return Err(STATUS_INVALID_PARAMETER);
    }
    gpu.nodes.get(ordinal as usize).ok_or(STATUS_INVALID_PARAMETER)
}

/// Stops what a node runs. Returns the number of the queue that was running.
fn stop_engine(irql: &Passive, gpu: &Gpu, node: &Node) -> Result<Option<u32>, NTSTATUS> {
    let result = gpu.cmp.run(irql, Command::ResetNode, [u64::from(node.ordinal()), 0, 0]);
    match result {
        Ok(queue) => Ok(u32::try_from(queue).ok().filter(|number| *number != u32::MAX)),
        Err(CommandError::Refused(_) | CommandError::Lost | CommandError::PoweredDown) => Err(STATUS_UNSUCCESSFUL),
    }
}

/// DxgkDdiQueryDependentEngineGroup: nodes are reset one by one, so a node depends on itself only.
pub(crate) fn dependent_engines(args: &mut DXGKARG_QUERYDEPENDENTENGINEGROUP) -> Result<(), NTSTATUS> {
    if args.NodeOrdinal >= NODES || args.EngineOrdinal != 0 {
        return Err(STATUS_INVALID_PARAMETER);
    }
    args.DependentNodeOrdinalMask = 1 << args.NodeOrdinal;
    Ok(())
}

/// DxgkDdiQueryEngineStatus: an engine is responsive when the scheduler still executes commands about it.
pub(crate) fn engine_status(irql: &Passive, gpu: &Gpu, args: &mut DXGKARG_QUERYENGINESTATUS) -> Result<(), NTSTATUS> {
    let node = node(gpu, args.NodeOrdinal, args.EngineOrdinal)?;
    let answers = gpu.cmp.run(irql, Command::QueryQueue, [u64::from(node.ordinal()), 0, 0]).is_ok();
    args.EngineStatus = DXGK_ENGINESTATUS::new().with_Responsive(answers);
    Ok(())
}

/// DxgkDdiResetEngine: the node's packet queue starts over, empty. The packet that ran is the one aborted; if none did, the last
/// completed one is named.
///
/// # Errors
/// STATUS_UNSUCCESSFUL when the node does not stop or take work again; the operating system then resets the adapter.
pub(crate) fn reset_engine(
    irql: &Passive,
    adapter: &Adapter,
    gpu: &Gpu,
    args: &mut DXGKARG_RESETENGINE,
) -> Result<(), NTSTATUS> {
    let node = node(gpu, args.NodeOrdinal, args.EngineOrdinal)?;
    stop_engine(irql, gpu, node)?;
    // What completed before the stop is known before the rest is called aborted.
    let drained = gpu.dxgk.synchronize(irql, |device| interrupt::drain(device, adapter, gpu));
    drained.map_err(|_| STATUS_UNSUCCESSFUL)?;
    let aborted = node.restart(irql, &gpu.dxgk, &gpu.cmp).map_err(|_| STATUS_UNSUCCESSFUL)?;
    let (_, completed) = node.progress();
    args.LastAbortedFenceId = aborted.map_or(completed, |packet| packet.fence);
    Ok(())
}

/// DxgkDdiResetHwEngine: the queue that ran is lost with its context; others keep their place. Nothing of the node is reported
/// until [`resume_hw_engine`].
pub(crate) fn reset_hw_engine(
    irql: &Passive,
    adapter: &Adapter,
    gpu: &Gpu,
    args: &DXGKARG_RESETHWENGINE,
) -> Result<(), NTSTATUS> {
    let node = node(gpu, args.NodeOrdinal, args.EngineOrdinal)?;
    gpu.dxgk.synchronize(irql, |_| node.set_muted(true)).map_err(|_| STATUS_UNSUCCESSFUL)?;
    let culprit = stop_engine(irql, gpu, node)?;
    let queue = culprit.and_then(|number| gpu.queues.get(number)).and_then(|q| adapter.objects.get::<HwQueue>(q).ok());
    if let Some(context) = queue.and_then(|queue| adapter.objects.get::<HwContext>(queue.context).ok()) {
        gpu.dxgk.invalidate_hw_context(irql, context.dxgk(), false);
    }
    Ok(())
}

/// DxgkDdiResumeHwEngine: reports are made again, beginning with what may have been missed.
pub(crate) fn resume_hw_engine(
    irql: &Passive,
    adapter: &Adapter,
    gpu: &Gpu,
    args: &DXGKARG_RESUMEHWENGINE,
) -> Result<(), NTSTATUS> {
    let node = node(gpu, args.NodeOrdinal, args.EngineOrdinal)?;
    let contexts = adapter.all::<HwContext>(irql).map_err(|_| STATUS_UNSUCCESSFUL)?;
    let resume = |device: &Device| {
        node.set_muted(false);
        if node.take_unreported() {
            report::completed(device, gpu, node, node.progress().1);
        }
        node.report_preemption(device, &gpu.dxgk);
        interrupt::drain(device, adapter, gpu);
        for context in contexts.iter().filter_map(|handle| adapter.objects.get::<HwContext>(*handle).ok()) {
            if context.node == node.ordinal() {
                context.report(device, gpu);
            }
        }
        if gpu.claims.native_fence {
            report::native(device, gpu, node, &mut []);
        }
        report::monitored(device, gpu, node);
        gpu.dxgk.queue_dpc();
    };
    gpu.dxgk.synchronize(irql, resume).map_err(|_| STATUS_UNSUCCESSFUL)
}

/// DxgkDdiResetFromTimeout: all access to memory stops; everything submitted counts as complete.
pub(crate) fn reset_adapter(irql: &Passive, adapter: &Adapter, gpu: &Gpu) {
    gpu.halt();
    for node in gpu.nodes.iter() {
        node.abandon(irql, &gpu.dxgk);
        node.set_muted(false);
    }
    gpu.doorbells.forget(irql);
    if let Ok(queues) = adapter.all::<HwQueue>(irql) {
        for queue in queues.iter().filter_map(|handle| adapter.objects.get::<HwQueue>(*handle).ok()) {
            hw_queue::forget_mapping(irql, queue);
        }
    }
}

/// DxgkDdiRestartFromTimeout.
pub(crate) fn restart_adapter(irql: &Passive, adapter: &Adapter, gpu: &Gpu) -> Result<(), NTSTATUS> {
    gpu.run(irql)?;
    system::restore(irql, adapter, gpu);
    Ok(())
}

/// First words of the debug information.
const DEBUG_MAGIC: u64 = u64::from_le_bytes(*b"CPDBG001");

/// DxgkDdiCollectDbgInfo: magic, bit 0 running, per node (submitted, completed), refusals; 64-bit words, as many as fit. Any level:
/// takes no lock and does not touch the device.
pub(crate) fn collect(adapter: &Adapter, args: &DXGKARG_COLLECTDBGINFO) {
    let gpu = adapter.gpu();
    let nodes = gpu.into_iter().flat_map(|gpu| gpu.nodes.iter()).map(|node| {
        let (submitted, completed) = node.progress();
        u64::from(submitted) | u64::from(completed) << 32
    });
    let running = u64::from(gpu.is_some_and(Gpu::is_running));
    let words = [DEBUG_MAGIC, running].into_iter().chain(nodes).chain(adapter.refusals());
    let Some(buffer) = NonNull::new(args.pBuffer.cast::<u64>()) else { return };
    for (index, word) in words.take(args.BufferSize / size_of::<u64>()).enumerate() {
        // SAFETY: the buffer has BufferSize bytes, and `index` words fit.
        let place = unsafe { buffer.add(index) };
        // SAFETY: as above; the buffer need not be aligned.
        unsafe { place.write_unaligned(word) };
    }
}

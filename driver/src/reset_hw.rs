//! Timeout recovery of hardware queues: DxgkDdiResetHwEngine stops one node, DxgkDdiResumeHwEngine starts it again.

use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::status::STATUS_UNSUCCESSFUL;

use crate::adapter::Adapter;
use crate::interrupt::{self, report};
use crate::irql::{Device, Passive};
use crate::node::flight::PacketFault;
use crate::queue::context::HwContext;
use crate::queue::hw_queue::HwQueue;
use crate::refusal::{Reason, Refused, refused, refused_with};
use crate::stop::{lost_context, node, stop_engine};

/// DxgkDdiResetHwEngine: the queue that ran is lost with its context; others keep their place, and those that did not are collateral
/// damage. Nothing of the node is reported until [`resume_hw_engine`].
///
/// # Errors
/// STATUS_UNSUCCESSFUL when the node does not stop; the operating system then resets the adapter.
pub(crate) fn reset_hw_engine(irql: &Passive, adapter: &Adapter, args: &DXGKARG_RESETHWENGINE) -> Result<(), Refused> {
    let (gpu, node) = node(adapter, args.NodeOrdinal, args.EngineOrdinal)?;
    // What happened before is told before the node falls silent.
    let mute = |device: &Device| {
        interrupt::drain(device, adapter, gpu);
        node.set_muted(true);
    };
    gpu.dxgk.synchronize(irql, mute).map_err(|_| refused(Reason::SystemService))?;
    let contexts = adapter.all::<HwContext>(irql).map_err(|_| refused_with(Reason::NoMemory, STATUS_UNSUCCESSFUL))?;
    let culprit = stop_engine(irql, gpu, node)?;
    let event = Event::HwEngineReset { node: node.ordinal(), queue: culprit.unwrap_or(u32::MAX) };
    gpu.note(Component::Reset, &event);
    let queue = culprit.and_then(|number| gpu.queues.get(number)).and_then(|q| adapter.objects.get::<HwQueue>(q).ok());
    let culprit = queue.map(|queue| queue.context);
    if let Some(context) = culprit.and_then(|context| adapter.objects.get::<HwContext>(context).ok()) {
        gpu.dxgk.invalidate_hw_context(irql, context.dxgk(), false);
    }
    for handle in contexts.iter().filter(|handle| Some(**handle) != culprit) {
        if let Some(context) = lost_context(irql, adapter, gpu, node, *handle) {
            gpu.dxgk.invalidate_hw_context(irql, context.dxgk(), true);
        }
    }
    Ok(())
}

/// DxgkDdiResumeHwEngine: reports are made again, beginning with what may have been missed.
pub(crate) fn resume_hw_engine(
    irql: &Passive,
    adapter: &Adapter,
    args: &DXGKARG_RESUMEHWENGINE,
) -> Result<(), Refused> {
    let (gpu, node) = node(adapter, args.NodeOrdinal, args.EngineOrdinal)?;
    let contexts = adapter.all::<HwContext>(irql).map_err(|_| refused_with(Reason::NoMemory, STATUS_UNSUCCESSFUL))?;
    gpu.note(Component::Reset, &Event::HwEngineResumed { node: node.ordinal() });
    let resume = |device: &Device| {
        node.set_muted(false);
        let completed = node.take_unreported();
        if let Some(PacketFault { packet, address, info }) = node.take_fault(device) {
            // It tells of everything before it, and nothing came after it.
            report::packet_fault(device, gpu, node, &packet, address, info);
        } else if completed {
            report::completed(device, gpu, node, node.progress().1);
        }
        node.report_preemption(device, &gpu.dxgk);
        interrupt::drain(device, adapter, gpu);
        let queues = gpu.queues.iter().filter_map(|handle| adapter.objects.get::<HwQueue>(handle).ok());
        for queue in queues.filter(|queue| queue.node == node.ordinal()) {
            if let Some((address, info)) = queue.take_fault(device) {
                report::queue_fault(device, gpu, node, queue, address, info);
            }
        }
        for context in contexts.iter().filter_map(|handle| adapter.objects.get::<HwContext>(*handle).ok()) {
            if context.runs_on(node.ordinal(), gpu.dxgk.engine()) {
                context.report(device, gpu);
            }
        }
        if gpu.claims.native_fence {
            report::native(device, gpu, node, &mut []);
        }
        report::monitored(device, gpu, node);
        gpu.dxgk.queue_dpc();
    };
    gpu.dxgk.synchronize(irql, resume).map_err(|_| refused(Reason::SystemService))
}

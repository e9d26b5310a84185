//! Timeout recovery: resets of a node's packet queue and of the adapter, and the queries that precede them.

use campanile_hw::registers::NODES;
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::status::STATUS_UNSUCCESSFUL;

use crate::adapter::Adapter;
use crate::fence::system;
use crate::gpu::Gpu;
use crate::interrupt;
use crate::irql::Passive;
use crate::node::flight::Packet;
use crate::node::packet::Node;
use crate::queue::context::HwContext;
use crate::queue::hw_queue::{self, HwQueue};
use crate::refusal::{Reason, Refused, refused, refused_with};
use crate::stop::{lost_context, node, stop_engine};

/// DxgkDdiQueryDependentEngineGroup: nodes are reset one by one, so a node depends on itself only.
pub(crate) fn dependent_engines(
    adapter: &Adapter,
    args: &mut DXGKARG_QUERYDEPENDENTENGINEGROUP,
) -> Result<(), Refused> {
    if args.NodeOrdinal >= NODES {
        return Err(refused(Reason::NoSuchNode));
    }
    adapter.engine(args.EngineOrdinal)?;
    args.DependentNodeOrdinalMask = 1 << args.NodeOrdinal;
    Ok(())
}

/// DxgkDdiQueryEngineStatus: a node is responsive while it makes progress. [d3dkmddi: DXGK_ENGINESTATUS]
pub(crate) fn engine_status(
    irql: &Passive,
    adapter: &Adapter,
    args: &mut DXGKARG_QUERYENGINESTATUS,
) -> Result<(), Refused> {
    let (gpu, node) = node(adapter, args.NodeOrdinal, args.EngineOrdinal)?;
    let responsive = gpu.makes_progress(irql, node, is_stop_pending(irql, adapter, gpu, node));
    let event = Event::EngineQueried { node: node.ordinal(), responsive: responsive.into() };
    gpu.note(Component::Reset, &event);
    args.EngineStatus = DXGK_ENGINESTATUS::new().with_Responsive(responsive);
    Ok(())
}

/// True for a node that has not answered a preemption or a suspension.
fn is_stop_pending(irql: &Passive, adapter: &Adapter, gpu: &Gpu, node: &Node) -> bool {
    let mut asked = node.is_being_preempted(irql, &gpu.dxgk);
    adapter.objects.visit::<HwQueue>(Some(irql), adapter.handle(), |_, queue| {
        let here = queue.node == node.ordinal() && queue.engine == gpu.dxgk.engine();
        asked = asked || here && queue.is_being_suspended(irql);
        !asked
    });
    asked
}

/// DxgkDdiResetEngine: the node's packet queue starts over, empty. The packet that ran is the one aborted; if none did, the last
/// completed one is named. A hardware queue that ran instead of it, because it did not let itself be preempted, is lost with it, and its
/// context collateral damage.
///
/// # Errors
/// STATUS_UNSUCCESSFUL when the node does not stop or take work again; the operating system then resets the adapter.
pub(crate) fn reset_engine(irql: &Passive, adapter: &Adapter, args: &mut DXGKARG_RESETENGINE) -> Result<(), Refused> {
    let (gpu, node) = node(adapter, args.NodeOrdinal, args.EngineOrdinal)?;
    let contexts = adapter.all::<HwContext>(irql).map_err(|_| refused_with(Reason::NoMemory, STATUS_UNSUCCESSFUL))?;
    node.set_stopping(true);
    let aborted = stop_packets(irql, adapter, gpu, node);
    node.set_stopping(false);
    let aborted = aborted?;
    for handle in contexts.iter() {
        if let Some(context) = lost_context(irql, adapter, gpu, node, *handle) {
            gpu.dxgk.invalidate_hw_context(irql, context.dxgk(), true);
        }
    }
    let (_, completed) = node.progress();
    args.LastAbortedFenceId = aborted.map_or(completed, |packet| packet.fence);
    let event = Event::EngineReset { node: node.ordinal(), aborted: args.LastAbortedFenceId };
    gpu.note(Component::Reset, &event);
    Ok(())
}

/// Stops a node and starts its packet queue over. Returns the packet that was running.
fn stop_packets(irql: &Passive, adapter: &Adapter, gpu: &Gpu, node: &Node) -> Result<Option<Packet>, Refused> {
    stop_engine(irql, gpu, node)?;
    // Submissions that completed before the stop are noted before all others are reported as aborted.
    let drained = gpu.dxgk.synchronize(irql, |device| interrupt::drain(device, adapter, gpu));
    drained.map_err(|_| refused(Reason::SystemService))?;
    node.restart(irql, &gpu.dxgk, &gpu.cmp).map_err(|_| refused(Reason::EngineStuck))
}

/// DxgkDdiResetFromTimeout: all access to memory stops, on every engine; everything submitted counts as complete.
pub(crate) fn reset_adapter(irql: &Passive, adapter: &Adapter) {
    for gpu in adapter.engines().filter(|gpu| gpu.is_started()) {
        gpu.note(Component::Reset, &Event::AdapterReset {});
        gpu.halt();
        for node in gpu.nodes.iter() {
            node.abandon(irql, &gpu.dxgk);
            node.set_muted(false);
        }
        gpu.doorbells.forget(irql);
    }
    if let Ok(queues) = adapter.all::<HwQueue>(irql) {
        for queue in queues.iter().filter_map(|handle| adapter.objects.get::<HwQueue>(*handle).ok()) {
            hw_queue::forget_mapping(irql, queue);
        }
    }
}

/// DxgkDdiRestartFromTimeout.
pub(crate) fn restart_adapter(irql: &Passive, adapter: &Adapter) -> Result<(), Refused> {
    for gpu in adapter.engines() {
        gpu.run(irql)?;
        gpu.note(Component::Reset, &Event::AdapterRestarted {});
        system::restore(irql, adapter, gpu);
    }
    Ok(())
}

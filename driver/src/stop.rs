//! Shared by the resets of packet queues and of hardware queues: finding the node, stopping it, and finding the contexts that lost work.

use campanile_hw::registers::Command;

use crate::adapter::Adapter;
use crate::cmp::CommandError;
use crate::gpu::Gpu;
use crate::handle::Handle;
use crate::irql::Passive;
use crate::node::packet::Node;
use crate::queue::context::HwContext;
use crate::queue::hw_queue::{self, HwQueue};
use crate::refusal::{Reason, Refused, refused};

/// The state Faulted in the result of the command QueryQueue.
const FAULTED: u64 = 5;

/// The engine and node that a DDI names.
///
/// # Errors
/// STATUS_INVALID_PARAMETER if there is no such engine or node; STATUS_DEVICE_REMOVED when the engine was stopped.
pub(crate) fn node(adapter: &Adapter, ordinal: u32, engine: u32) -> Result<(&Gpu, &Node), Refused> {
    let gpu = adapter.started_engine(engine)?;
    Ok((gpu, gpu.nodes.get(ordinal as usize).ok_or(refused(Reason::NoSuchNode))?))
}

/// Stops what a node runs. Returns the number of the queue that was running.
pub(crate) fn stop_engine(irql: &Passive, gpu: &Gpu, node: &Node) -> Result<Option<u32>, Refused> {
    let result = gpu.cmp.ask(irql, Command::ResetNode, &[u64::from(node.ordinal())]);
    match result {
        Ok(queue) => Ok(u32::try_from(queue).ok().filter(|number| *number != u32::MAX)),
        // One engine of a function that was reset cannot be reset: the adapter is, which starts all of it again.
        Err(CommandError::Refused(_) | CommandError::Lost | CommandError::Reset | CommandError::PoweredDown) => {
            Err(refused(Reason::EngineStuck))
        }
    }
}

/// The context behind `handle`, if it belongs to `node` and the hardware runs one of its queues no more. The operating system knows of
/// those that had faulted before.
pub(crate) fn lost_context<'a>(
    irql: &Passive,
    adapter: &'a Adapter,
    gpu: &Gpu,
    node: &Node,
    handle: Handle,
) -> Option<&'a HwContext> {
    let context = adapter.objects.get::<HwContext>(handle).ok()?;
    if !context.runs_on(node.ordinal(), gpu.dxgk.engine()) {
        return None;
    }
    let queues = context.queues.lock(irql);
    let lost = queues.iter().filter_map(|queue| adapter.objects.get::<HwQueue>(*queue).ok()).any(|queue| {
        let asked = [u64::from(queue.number)];
        hw_queue::is_mapped(irql, queue)
            && gpu.cmp.ask(irql, Command::QueryQueue, &asked).is_ok_and(|answer| answer & 0xff == FAULTED)
    });
    lost.then_some(context)
}

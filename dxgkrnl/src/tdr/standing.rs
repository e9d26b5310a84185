//! Hardware queues that stand still for long although their contexts leave the engine whenever that is asked.
//!
//! Such a queue may wait in the system, wait in hardware, be long, or be lost. What cannot be told apart is said in the log, once for each time that a queue stands, and the machine
//! goes on. A submission that leaves an engine unfinished which cannot stop what it has begun, while the node does other work of no more priority, is counted besides. Two things are
//! proven, and stop the machine: DxgkDdiSuspendContext that says again and again that a context was suspended already which was not; and a submission that leaves an engine
//! unfinished which cannot stop what it has begun, while nothing else is done there. [d3dkmddi: DXGKDDI_SUSPENDCONTEXT; d3dkmdt: D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::rescue::Rescue;
use crate::vidsch::{HwQueue, RenderAdapter};

use super::stands::{Stand, Stands};
use super::state::Tdr;
use super::suspects::{is_watched, of_queue, unfinished};

impl Tdr {
    /// Looks at the queues with work. Returns why the machine has to stop.
    pub(super) fn look_at_standing(&self, stands: &mut Stands, now: Duration) -> Option<String> {
        let adapter = self.adapter().ok()?;
        let limit = self.settings.delay * self.settings.limit_count;
        let queues = adapter.vidsch().hw_queues();
        let known = std::mem::take(&mut stands.0);
        let (mut proven, mut done_by_node) = (None, HashMap::new());
        for queue in queues.iter().filter(|queue| is_watched(queue)) {
            let context = queue.context();
            // One that somebody else has taken off its engine can do nothing.
            if context.is_off() && !self.is_probed(context) {
                continue;
            }
            let (key, progress) = (queue.handles().0.raw().addr(), queue.progress().current());
            let done =
                *done_by_node.entry(context.node()).or_insert_with(|| done_on_node(&adapter, &queues, context.node()));
            let fresh =
                Stand { progress, begun: now, node: (done, now), early: context.early_suspensions(), told: false };
            let mut stand = known.get(&key).copied().filter(|stand| stand.progress == progress).unwrap_or(fresh);
            if stand.node.0 != done {
                stand.node = (done, now);
            }
            let stood = now.saturating_sub(stand.begun);
            if stood > limit {
                let found = self.proof(&adapter, queue, &stand, now);
                if found.is_none() && !std::mem::replace(&mut stand.told, true) {
                    let why = match self.is_unfinished(&adapter, queue, &stand) && !is_outranked(queue, &queues) {
                        true => {
                            self.rescued(Rescue::LostSubmission, 1);
                            LOST
                        }
                        false => guess(queue),
                    };
                    self.verifier.log(format!("{}; {why}", of_queue(queue, progress, stood)));
                }
                proven = proven.or(found);
            }
            stands.0.insert(key, stand);
        }
        proven
    }

    /// True if the engine has left a submission unfinished although it cannot stop what it has begun.
    fn is_unfinished(&self, adapter: &RenderAdapter, queue: &HwQueue, stand: &Stand) -> bool {
        let context = queue.context();
        adapter.vidsch().timeouts().limit_of_losses().is_some()
            && context.early_suspensions() == stand.early
            && context.suspensions().1 != 0
            && queue.held() == 0
            && !queue.flags().UserModeSubmission()
            && adapter.caps().cannot_stop_packets(context.node() as usize)
            && !adapter.vidsch().is_busy_by_log(context)
    }

    /// The fault of the driver for which a queue stands, if it can be told.
    fn proof(&self, adapter: &RenderAdapter, queue: &Arc<HwQueue>, stand: &Stand, now: Duration) -> Option<String> {
        let most = adapter.vidsch().timeouts().limit_of_losses()?;
        let (context, node) = (queue.context(), queue.context().node());
        let early = context.early_suspensions() - stand.early;
        if early > u64::from(most) {
            return Some(format!(
                "DxgkDdiSuspendContext has answered STATUS_SUCCESS {early} times for a context of node {node} that was not suspended, and expected was STATUS_PENDING and then \
                 DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED; {} [d3dkmddi: DXGKDDI_SUSPENDCONTEXT]",
                unfinished(queue)
            ));
        }
        let alone = now.saturating_sub(stand.node.1);
        let lost = alone > self.settings.delay * most && self.is_unfinished(adapter, queue, stand);
        lost.then(|| {
            format!(
                "a submission of DxgkDdiSubmitCommandToHwQueue is lost, or the end of it: for {:.1} s nothing was done on node {node}, whose context has left the engine whenever that was asked, \
                 and with D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY one that has begun leaves it when it is done; {}, at HwQueueProgressFenceGpuVa \
                 [d3dkmddi: DXGKARG_SUBMITCOMMANDTOHWQUEUE]",
                alone.as_secs_f64(),
                unfinished(queue)
            )
        })
    }
}

/// True if a context with more priority has work on the node of a queue, or has done some since: the hardware may have left the queue waiting for that.
fn is_outranked(queue: &HwQueue, queues: &[Arc<HwQueue>]) -> bool {
    let (context, own) = (queue.context(), queue.context().priority());
    let mut others = queues.iter().map(|other| other.context()).filter(|other| other.node() == context.node());
    others.any(|other| other.priority().global > own.global || other.priority().in_process > own.in_process)
}

/// A number that changes with everything that is done on a node, and with every reset of its engine.
fn done_on_node(adapter: &RenderAdapter, queues: &[Arc<HwQueue>], node: u32) -> u64 {
    let sch = adapter.vidsch();
    let of_queues =
        queues.iter().filter(|queue| queue.context().node() == node).map(|queue| queue.progress().current());
    let packets = sch.nodes().get(node as usize).map_or(0, |node| node.state().last_completed());
    of_queues.fold(u64::from(packets), u64::wrapping_add).wrapping_add(sch.timeouts().resets_begun(node))
}

/// The finding about a queue whose submission is unfinished while its node does other work, in words.
const LOST: &str = "its context has left the engine whenever that was asked, and with D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY a submission that has begun leaves it when it is done, while the \
     node did other work: its submission is lost, a fault of it was not reported with DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED, or the hardware has never given it the engine, which contexts of one priority share in time slices [d3dkmddi: DXGKARG_SUBMITCOMMANDTOHWQUEUE]";

/// The reasons for which a queue may stand still, in words for the log.
fn guess(queue: &HwQueue) -> &'static str {
    match queue.held() {
        0 => "its work is long, waits in hardware or is lost, which the system cannot tell",
        _ => {
            "its next submission waits in the system for a fence that nobody has signalled, which is no fault of the driver"
        }
    }
}

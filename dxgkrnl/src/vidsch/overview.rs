//! What the scheduler tells to people who look on: who uses the adapter, and what for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use nt::lock::lock;

use super::objects::fence::Fence;
use super::objects::process_adapter::ProcessAdapter;
use super::scheduler::VidSch;

/// Memory, queues and other resources of one adapter that a process has at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessOverview {
    /// Number of the process on its machine.
    pub id: u64,
    /// The name that it was created with.
    pub name: String,
    /// Time for which each node has run its work, those of linked adapters one after the other.
    pub running: Vec<Duration>,
    /// Bytes of its allocations that are in each segment and found by the GPU, segments of linked adapters one after the other.
    pub memory: Vec<u64>,
    /// Contexts of both kinds.
    pub contexts: usize,
    /// Hardware queues.
    pub queues: usize,
    /// Of those, the ones for user-mode submission.
    pub user_mode_queues: usize,
    /// Doorbells that are connected, or about to be.
    pub connected_doorbells: usize,
    /// Fences that it has open.
    pub fences: usize,
}

/// A fence that the processor waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitedFence {
    /// Numbers of the processes that have it open.
    pub processes: Vec<u64>,
    /// Current value of the fence.
    pub current: u64,
    /// The least value that is waited for.
    pub awaited: u64,
    /// Waits for it that are not over.
    pub waits: usize,
}

impl VidSch {
    /// A process uses the adapter from now on, until it is gone.
    pub(crate) fn note_process(&self, process: &Arc<ProcessAdapter>) {
        let mut processes = lock(&self.processes);
        processes.retain(|known| known.strong_count() > 0);
        processes.push(Arc::downgrade(process));
    }

    /// The processes that use the adapter, oldest first.
    pub(crate) fn processes(&self) -> Vec<Arc<ProcessAdapter>> {
        lock(&self.processes).iter().filter_map(Weak::upgrade).collect()
    }

    /// What a process has of the scheduler; `memory` is left empty.
    pub(crate) fn overview_of(&self, process: &ProcessAdapter) -> ProcessOverview {
        let nodes = (0..).map_while(|node| self.node_figures_of(node, process.id));
        let mut told = ProcessOverview {
            id: process.id,
            name: process.name.clone(),
            running: nodes.map(|figures| figures.time).collect(),
            ..ProcessOverview::default()
        };
        for context in self.contexts.all().iter().filter(|context| context.device().process.id == process.id) {
            told.contexts += 1;
            for queue in context.queues() {
                told.queues += 1;
                told.user_mode_queues += usize::from(queue.flags().UserModeSubmission());
                told.connected_doorbells +=
                    usize::from(queue.doorbell().is_some_and(|doorbell| !doorbell.is_disconnected()));
            }
        }
        let packets = self.packet_contexts.all();
        told.contexts += packets.iter().filter(|context| context.device().process.id == process.id).count();
        let fences = self.fences.all();
        let open = fences.iter().flat_map(|fence| fence.opened());
        told.fences = open.filter(|open| open.process() == Some(process.id)).count();
        told
    }

    /// Fences that the processor waits for, in the order of their creation.
    pub(crate) fn waited_fences(&self) -> Vec<WaitedFence> {
        let waited = |fence: &Arc<Fence>| {
            let (awaited, waits) = fence.waited()?;
            let mut processes: Vec<u64> = fence.opened().iter().filter_map(|open| open.process()).collect();
            processes.dedup();
            Some(WaitedFence { processes, current: fence.current(), awaited, waits })
        };
        self.fences.all().iter().filter_map(waited).collect()
    }
}

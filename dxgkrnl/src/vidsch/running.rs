//! How long a node has run packets, and whose they were.
//!
//! A node runs its packets one after the other: what is at the head of those on the hardware has it from when it got there, or from the end of the one before,
//! until it is complete or taken off. Queues that the hardware schedules are not seen here. [d3dkmthk:
//! D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION]

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::vidsch::ProcessAdapter;

/// What a node has done for a process, or altogether.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeFigures {
    /// Time for which its packets have run on the node.
    pub(crate) time: Duration,
    /// Packets handed over, again after a preemption.
    pub(crate) submitted: u32,
    /// Packets that ran to their end.
    pub(crate) completed: u32,
    /// Packets that were taken off.
    pub(crate) preempted: u32,
}

impl NodeFigures {
    fn charge(&mut self, time: Duration, completed: bool) {
        self.time = self.time.saturating_add(time);
        let count = if completed { &mut self.completed } else { &mut self.preempted };
        *count = count.wrapping_add(1);
    }
}

/// The figures of a node.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// Since when the packet at the head has had the node.
    since: Option<Instant>,
    all: NodeFigures,
    /// The paging process.
    system: NodeFigures,
    processes: BTreeMap<u64, (Weak<ProcessAdapter>, NodeFigures)>,
}

impl Running {
    /// A packet of a process, or of the paging process, is handed over.
    pub(super) fn begins(&mut self, process: Option<&Arc<ProcessAdapter>>) {
        self.since.get_or_insert_with(Instant::now);
        self.all.submitted = self.all.submitted.wrapping_add(1);
        let Some(process) = process else {
            self.system.submitted = self.system.submitted.wrapping_add(1);
            return;
        };
        if !self.processes.contains_key(&process.id) {
            self.processes.retain(|_, (process, _)| process.strong_count() > 0);
        }
        let fresh = || (Arc::downgrade(process), NodeFigures::default());
        let (_, figures) = self.processes.entry(process.id).or_insert_with(fresh);
        figures.submitted = figures.submitted.wrapping_add(1);
    }

    /// The packet at the head, of the process with this number, leaves the hardware, `completed` or not. `more`: there are others. Called at device
    /// level.
    pub(super) fn ends(&mut self, process: Option<u64>, completed: bool, more: bool) {
        let now = Instant::now();
        let time = self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.since = more.then_some(now);
        self.all.charge(time, completed);
        let figures = match process {
            None => Some(&mut self.system),
            Some(process) => self.processes.get_mut(&process).map(|(_, figures)| figures),
        };
        if let Some(figures) = figures {
            figures.charge(time, completed);
        }
    }

    /// All that the node has done; and what of that for the paging process.
    pub(super) fn whole(&self) -> (NodeFigures, NodeFigures) {
        (self.all, self.system)
    }

    /// Figures of a process on this node; 0 if it never ran there.
    pub(super) fn of_process(&self, process: u64) -> NodeFigures {
        self.processes.get(&process).map_or_else(NodeFigures::default, |(_, figures)| *figures)
    }
}

//! How long a node has run packets, and whose they were.
//!
//! A node runs its packets one after the other: what is at the head of those on the hardware has it from when it got there, or from the end of the one before,
//! until it is complete or taken off. The time of contexts that the hardware schedules comes from its log: [`super::scheduling_log`]. [d3dkmthk:
//! D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION]

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::vidsch::{Device, ProcessAdapter, VidSch};

/// A command of software in the queue of a context or a hardware queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncCommand {
    Wait,
    Signal,
}

/// Commands of one kind since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandCount {
    pub(crate) submitted: u32,
    /// Waits that are over, and signals that were made.
    pub(crate) completed: u32,
}

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
    /// Waits of its queues for synchronization objects.
    pub(crate) waits: CommandCount,
    /// Signals of its queues.
    pub(crate) signals: CommandCount,
}

impl NodeFigures {
    fn count(&mut self, command: SyncCommand, completed: bool) {
        let counted = match command {
            SyncCommand::Wait => &mut self.waits,
            SyncCommand::Signal => &mut self.signals,
        };
        let count = if completed { &mut counted.completed } else { &mut counted.submitted };
        *count = count.wrapping_add(1);
    }

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
        let figures = self.figures_of(process);
        figures.submitted = figures.submitted.wrapping_add(1);
    }

    fn figures_of(&mut self, process: &Arc<ProcessAdapter>) -> &mut NodeFigures {
        if !self.processes.contains_key(&process.id) {
            self.processes.retain(|_, (process, _)| process.strong_count() > 0);
        }
        let fresh = || (Arc::downgrade(process), NodeFigures::default());
        &mut self.processes.entry(process.id).or_insert_with(fresh).1
    }

    /// A command of a process is submitted to one of its queues, or `completed`.
    fn count(&mut self, process: &Arc<ProcessAdapter>, command: SyncCommand, completed: bool) {
        self.all.count(command, completed);
        self.figures_of(process).count(command, completed);
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

    /// A context of a process had the node for so long, as the hardware that schedules it says.
    pub(super) fn add_time(&mut self, process: &Arc<ProcessAdapter>, time: Duration) {
        self.all.time = self.all.time.saturating_add(time);
        let figures = self.figures_of(process);
        figures.time = figures.time.saturating_add(time);
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

impl VidSch {
    /// A command of a device, if it is one of software, is submitted to a queue on a node, or `completed`.
    pub(super) fn count_command(&self, device: &Device, node: u32, command: Option<SyncCommand>, completed: bool) {
        if let (Some(command), Some(node)) = (command, self.nodes.get(node as usize)) {
            node.state().running.count(&device.process, command, completed);
        }
    }
}

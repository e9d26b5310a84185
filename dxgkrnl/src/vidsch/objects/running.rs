//! How long a node has run packets, and whose they were.
//!
//! A node runs its packets one after the other: what is at the head of those on the hardware has it from when it got there, or from the end of the one before,
//! until it is complete or taken off; whoever asks for figures has it charged for the time until then. Of several packets that one report completes nobody
//! knows when each began: what has not been charged yet is shared between them in equal parts. The time of contexts that the hardware schedules comes from its
//! log: [`scheduling_log`](crate::vidsch::scheduling_log). [d3dkmthk: D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION]

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::packet_context::PacketContext;
use super::process_adapter::ProcessAdapter;
use super::request_queue::SyncCommand;

/// How a packet, or a command buffer of a hardware queue, leaves the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vidsch) enum Leaving {
    /// It is done.
    Completed,
    /// It will be handed over again.
    Preempted,
    /// It is given up: its device is lost, the driver refused it, or the node is reset.
    Faulted,
}

/// Commands of one kind since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandCount {
    pub(crate) submitted: u32,
    /// Waits that are over, signals that were made, and what was dropped with its device.
    pub(crate) completed: u32,
}

/// What a node has done for a process, or altogether.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeFigures {
    /// Time for which its packets have run on the node.
    pub(crate) time: Duration,
    /// Packets handed over, again after a preemption, and command buffers of hardware queues that the kernel submits to.
    pub(crate) submitted: u32,
    /// Those that ran to their end.
    pub(crate) completed: u32,
    /// Packets that were taken off, to be handed over again.
    pub(crate) preempted: u32,
    /// Those that were given up on the hardware.
    pub(crate) faulted: u32,
    /// Number of times that a context of the process got the node after another context had run there.
    pub(crate) switches: u32,
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

    /// These, without what is counted in `part` of them.
    pub(crate) fn without(self, part: Self) -> Self {
        let commands = |whole: CommandCount, part: CommandCount| CommandCount {
            submitted: whole.submitted.wrapping_sub(part.submitted),
            completed: whole.completed.wrapping_sub(part.completed),
        };
        Self {
            time: self.time.saturating_sub(part.time),
            submitted: self.submitted.wrapping_sub(part.submitted),
            completed: self.completed.wrapping_sub(part.completed),
            preempted: self.preempted.wrapping_sub(part.preempted),
            faulted: self.faulted.wrapping_sub(part.faulted),
            switches: self.switches.wrapping_sub(part.switches),
            waits: commands(self.waits, part.waits),
            signals: commands(self.signals, part.signals),
        }
    }

    fn add_time(&mut self, time: Duration) {
        self.time = self.time.saturating_add(time);
    }

    fn end(&mut self, time: Duration, how: Leaving, count: u32) {
        self.add_time(time);
        let ended = match how {
            Leaving::Completed => &mut self.completed,
            Leaving::Preempted => &mut self.preempted,
            Leaving::Faulted => &mut self.faulted,
        };
        *ended = ended.wrapping_add(count);
    }
}

/// The figures of a node.
#[derive(Debug, Default)]
pub(in crate::vidsch) struct Running {
    /// Since when the packet at the head has had the node.
    since: Option<Instant>,
    /// The context whose packet got the node last; that of paging work is none of them.
    last: Option<Weak<PacketContext>>,
    all: NodeFigures,
    /// The paging process.
    system: NodeFigures,
    processes: BTreeMap<u64, (Weak<ProcessAdapter>, NodeFigures)>,
}

impl Running {
    /// A packet of a process, or of the paging process, is handed over.
    pub(in crate::vidsch) fn begins(&mut self, process: Option<&Arc<ProcessAdapter>>) {
        self.since.get_or_insert_with(Instant::now);
        self.all.submitted = self.all.submitted.wrapping_add(1);
        let Some(process) = process else {
            self.system.submitted = self.system.submitted.wrapping_add(1);
            return;
        };
        let figures = self.figures_of(process);
        figures.submitted = figures.submitted.wrapping_add(1);
    }

    /// A packet gets the node. It is one of a context, or paging work, of a process with this number.
    pub(in crate::vidsch) fn gets_node(&mut self, context: Weak<PacketContext>, process: Option<u64>) {
        if self.last.as_ref().is_none_or(|last| !Weak::ptr_eq(last, &context)) {
            self.last = Some(context);
            self.charge(process, |figures| figures.switches = figures.switches.wrapping_add(1));
        }
    }

    fn figures_of(&mut self, process: &Arc<ProcessAdapter>) -> &mut NodeFigures {
        if !self.processes.contains_key(&process.id) {
            self.processes.retain(|_, (process, _)| process.strong_count() > 0);
        }
        let fresh = || (Arc::downgrade(process), NodeFigures::default());
        &mut self.processes.entry(process.id).or_insert_with(fresh).1
    }

    /// A command of a process is submitted to one of its queues, or `completed`.
    pub(in crate::vidsch) fn count(&mut self, process: &Arc<ProcessAdapter>, command: SyncCommand, completed: bool) {
        self.all.count(command, completed);
        self.figures_of(process).count(command, completed);
    }

    /// The packets at the head, of processes with these numbers, leave the hardware. `more`: there are others. Called at device level.
    pub(in crate::vidsch) fn ends(
        &mut self,
        packets: impl ExactSizeIterator<Item = (Option<u64>, Leaving)>,
        more: bool,
    ) {
        let time = self.uncharged(more);
        let count = u32::try_from(packets.len()).unwrap_or(u32::MAX).max(1);
        for (process, how) in packets {
            self.charge(process, |figures| figures.end(time / count, how, 1));
        }
    }

    /// The packet at the head, of the process with this number, is charged for the time until now.
    pub(in crate::vidsch) fn charge_head(&mut self, process: Option<u64>) {
        let time = self.uncharged(true);
        self.charge(process, |figures| figures.add_time(time));
    }

    /// Time that the packet at the head has had the node and was not charged for. `goes_on`: that packet, or another one, has the node from now on.
    fn uncharged(&mut self, goes_on: bool) -> Duration {
        let now = Instant::now();
        let since = core::mem::replace(&mut self.since, goes_on.then_some(now));
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn charge(&mut self, process: Option<u64>, charge: impl Fn(&mut NodeFigures)) {
        charge(&mut self.all);
        match process {
            None => charge(&mut self.system),
            Some(process) => {
                self.processes.get_mut(&process).into_iter().for_each(|(_, figures)| charge(figures));
            }
        }
    }

    /// A context of a process had the node for so long, as the hardware that schedules it says.
    pub(in crate::vidsch) fn add_time(&mut self, process: &Arc<ProcessAdapter>, time: Duration) {
        self.all.add_time(time);
        self.figures_of(process).add_time(time);
    }

    /// The hardware gave the node to a context of a process.
    pub(in crate::vidsch) fn count_switch(&mut self, process: &Arc<ProcessAdapter>) {
        self.all.switches = self.all.switches.wrapping_add(1);
        let figures = self.figures_of(process);
        figures.switches = figures.switches.wrapping_add(1);
    }

    /// So many command buffers of a process were handed over to a hardware queue, or leave the hardware.
    pub(in crate::vidsch) fn count_buffers(
        &mut self,
        process: &Arc<ProcessAdapter>,
        buffers: u32,
        leaving: Option<Leaving>,
    ) {
        let add = |figures: &mut NodeFigures| match leaving {
            Some(how) => figures.end(Duration::ZERO, how, buffers),
            None => figures.submitted = figures.submitted.wrapping_add(buffers),
        };
        add(&mut self.all);
        add(self.figures_of(process));
    }

    /// All that the node has done; and what of that for the paging process.
    pub(in crate::vidsch) fn whole(&self) -> (NodeFigures, NodeFigures) {
        (self.all, self.system)
    }

    /// Figures of a process on this node; 0 if it never ran there.
    pub(in crate::vidsch) fn of_process(&self, process: u64) -> NodeFigures {
        self.processes.get(&process).map_or_else(NodeFigures::default, |(_, figures)| *figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node whose head has had it for a second, and a process with this number on it.
    fn busy(process: u64) -> Running {
        let mut running = Running { since: Instant::now().checked_sub(Duration::from_secs(1)), ..Running::default() };
        running.processes.insert(process, (Weak::new(), NodeFigures::default()));
        running
    }

    #[test]
    fn packets_of_one_report_share_its_time() {
        let mut running = busy(7);
        running.ends([Some(7), None, Some(7), Some(7)].map(|process| (process, Leaving::Completed)).into_iter(), false);
        let (all, system) = running.whole();
        assert_eq!((all.completed, system.completed, running.of_process(7).completed), (4, 1, 3));
        assert_eq!((all.time, running.of_process(7).time), (system.time * 4, system.time * 3));
        assert!(all.time >= Duration::from_millis(999), "{all:?}");
        assert_eq!(running.since, None);
    }

    #[test]
    fn a_packet_under_way_is_charged_once() {
        let mut running = busy(7);
        let began = running.since;
        running.charge_head(Some(7));
        let first = running.of_process(7);
        assert_eq!(first.completed, 0);
        assert!(first.time >= Duration::from_secs(1), "{first:?}");
        assert!(running.since > began, "what was charged is not charged again");
        running.ends([(Some(7), Leaving::Completed)].into_iter(), false);
        let second = running.of_process(7);
        assert!(second.time >= first.time, "{second:?} after {first:?}");
        assert_eq!((second.completed, running.whole().0), (1, second));
    }

    #[test]
    fn a_switch_is_counted_when_another_context_gets_the_node() {
        let mut running = busy(7);
        // Paging work has no context, and such as no longer exist are equal to it.
        running.gets_node(Weak::new(), None);
        running.gets_node(Weak::new(), None);
        assert_eq!((running.whole().0.switches, running.whole().1.switches), (1, 1));
        assert_eq!(running.of_process(7).switches, 0);
    }

    #[test]
    fn a_node_without_packets_is_charged_to_nobody() {
        let mut running = busy(7);
        running.ends([(Some(7), Leaving::Preempted)].into_iter(), false);
        let before = running.whole();
        running.ends([(None, Leaving::Completed)].into_iter(), false);
        assert_eq!(running.whole().0.time, before.0.time);
        assert_eq!(before.0.without(before.1), running.of_process(7));
    }
}

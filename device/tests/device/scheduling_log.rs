//! The scheduling log of a node.

use crate::host::{Host, Space, TestQueue};
use campanile_hw::event::EventKind;
use campanile_hw::log::LogPosition;
use campanile_hw::packet::{Fill, Packet, Wait};
use campanile_hw::page_table::PAGE_4K;
use campanile_hw::queue::Location;
use campanile_hw::registers::{self as reg, Command, CommandStatus};
use campanile_hw::scheduling_log::{ContextState, SchedulingLogEntry, bytes_of, entry_offset};

/// Address of the log in the paging process.
const LOG: u64 = 0x61_0000_0000;
const FENCE: u64 = 0x62_0000_0000;
const ENTRIES: u32 = 200;
/// An interrupt entry that does not exist.
const NEVER: u64 = u64::MAX;

struct Rig {
    host: Host,
    paging: Space,
    space: Space,
    /// Pages of the log.
    log: Location,
    fence: Location,
}

impl Rig {
    fn new() -> Self {
        let mut host = Host::new();
        let (paging, space) = (host.space(), host.space());
        let log = host.map_new_ram(paging, LOG, bytes_of(ENTRIES));
        let fence = host.map_new_ram(space, FENCE, 4096);
        host.set(reg::PAGING_ROOT, 8, paging.root.into_bits());
        Self { host, paging, space, log, fence }
    }

    fn set(&self, node: u32, header: u64, entries: u32, interrupt: u64) -> CommandStatus {
        for (register, argument) in [reg::CMP_ARG0, reg::CMP_ARG1, reg::CMP_ARG2, reg::CMP_ARG3].into_iter().zip([
            u64::from(node),
            header,
            u64::from(entries),
            interrupt,
        ]) {
            self.host.set(register, 8, argument);
        }
        self.host.set(reg::CMP_COMMAND, 4, Command::SetSchedulingLog as u64);
        CommandStatus::from_number(self.host.get(reg::CMP_STATUS, 4) as u32).expect("a status")
    }

    /// A queue of `context` on the compute node.
    fn queue(&mut self, number: u32, context: u64) -> TestQueue {
        self.host.queue_with(number, self.space, |descriptor| descriptor.context = context)
    }

    fn position(&self) -> LogPosition {
        LogPosition::from_bits(self.host.read64(self.log))
    }

    /// Entries from `first` to the position: context and state. Times never decrease.
    fn entries(&self, first: u32) -> Vec<(u64, ContextState)> {
        let mut latest = 0;
        (first..self.position().index())
            .map(|index| {
                let at = self.log.with_address(self.log.address() + entry_offset(index));
                let bytes = self.host.read(at, SchedulingLogEntry::SIZE).try_into().expect("an entry");
                let entry = SchedulingLogEntry::from_bytes(&bytes);
                assert!(entry.timestamp >= latest && entry.operation == 0, "{entry:?} after {latest}");
                latest = entry.timestamp;
                (entry.context, ContextState::from_number(entry.state).expect("a state"))
            })
            .collect()
    }

    fn fill(&self) -> Packet {
        Packet::Fill(Fill { destination: FENCE + 64, size: 8, pattern: 1 })
    }

    fn wait(&self, value: u64) -> Packet {
        Packet::Wait(Wait { handle: 1, current: FENCE, value })
    }
}

use ContextState::{Idle, Ready, Running};

#[test]
fn a_context_runs_while_its_queue_has_the_node_and_is_idle_when_that_is_done() {
    let mut rig = Rig::new();
    assert_eq!(rig.set(0, LOG, ENTRIES, NEVER), CommandStatus::Done);
    let mut queue = rig.queue(4, 0xaaaa);
    let mut nameless = rig.queue(5, 0);
    let fill = rig.fill();
    rig.host.submit(&mut queue, &[fill]);
    rig.host.submit(&mut nameless, &[fill]);
    rig.host.submit(&mut queue, &[fill]);
    assert_eq!(rig.entries(0), [(0xaaaa, Running), (0xaaaa, Idle)].repeat(2));
}

#[test]
fn a_context_that_waits_for_a_fence_is_idle_and_one_that_waits_for_the_node_is_ready() {
    let mut rig = Rig::new();
    assert_eq!(rig.set(0, LOG, ENTRIES, NEVER), CommandStatus::Done);
    let (mut one, mut two) = (rig.queue(4, 1), rig.queue(5, 2));
    let (wait, fill) = (rig.wait(7), rig.fill());
    rig.host.submit(&mut one, &[wait, fill]);
    assert_eq!(rig.entries(0), [(1, Running), (1, Idle)], "the fence is not signalled");
    // Longer than a time slice, so that the other one gets the node meanwhile.
    rig.host.write_packets(&mut two, &[fill; 100]);
    rig.host.ring(&two);
    assert!(rig.host.gpu.step(), "context 2 has the node");
    rig.host.write64(rig.fence, 7);
    rig.host.command(Command::RescanWaits, 0, 0, 0);
    rig.host.run();
    let after = rig.entries(2);
    assert_eq!(after[..2], [(2, Running), (1, Ready)]);
    let last = |context| after.iter().rfind(|(found, _)| *found == context).map(|(_, state)| *state);
    assert_eq!((last(1), last(2)), (Some(Idle), Some(Idle)));
    let both = after.windows(2).filter(|pair| pair[0].1 == Running && pair[1].1 == Running);
    assert_eq!(both.count(), 0, "a node runs one context at a time: {after:?}");
    assert!(after.contains(&(2, Ready)) || after.contains(&(1, Running)), "{after:?}");
}

#[test]
fn two_queues_of_a_context_are_one_context() {
    let mut rig = Rig::new();
    assert_eq!(rig.set(0, LOG, ENTRIES, NEVER), CommandStatus::Done);
    let (mut one, mut two) = (rig.queue(4, 9), rig.queue(5, 9));
    let fill = rig.fill();
    for queue in [&mut one, &mut two] {
        rig.host.write_packets(queue, &[fill]);
        rig.host.ring(queue);
    }
    rig.host.run();
    let found = rig.entries(0);
    let idle = found.iter().filter(|(_, state)| *state == Idle).count();
    assert!(idle == 1 && found.last() == Some(&(9, Idle)), "idle when both are: {found:?}");
}

#[test]
fn suspension_fault_reset_and_unmapping_end_the_time_of_a_context() {
    for ending in 0..4 {
        let mut rig = Rig::new();
        assert_eq!(rig.set(0, LOG, ENTRIES, NEVER), CommandStatus::Done);
        let mut queue = rig.queue(4, 3);
        let fill = rig.fill();
        rig.host.write_packets(&mut queue, &[fill; 1000]);
        rig.host.ring(&queue);
        assert!(rig.host.gpu.step());
        assert_eq!(rig.entries(0), [(3, Running)]);
        match ending {
            0 => drop(rig.host.command(Command::SuspendQueue, 4, 1, 0)),
            1 => drop(rig.host.command(Command::UnmapQueue, 4, 0, 0)),
            2 => drop(rig.host.command(Command::ResetNode, 0, 0, 0)),
            _ => {
                rig.host.set_write_pointer(&queue, 1 << 40);
                rig.host.ring(&queue);
            }
        }
        if ending != 3 {
            assert_eq!(rig.entries(0), [(3, Running), (3, Idle)], "ending {ending}");
            rig.host.run();
        } else {
            rig.host.run();
            assert_eq!(rig.entries(0).last(), Some(&(3, Idle)));
        }
        let end = rig.position();
        rig.host.run();
        assert_eq!(rig.position(), end, "nothing more of a context that does not run");
    }
}

#[test]
fn the_entry_that_was_asked_for_is_told_once_a_round() {
    let mut rig = Rig::new();
    assert_eq!(rig.set(0, LOG, 8, 5), CommandStatus::Done);
    let mut queue = rig.queue(4, 3);
    let fill = rig.fill();
    for submission in 1..=12u64 {
        rig.host.submit(&mut queue, &[fill]);
        let told = rig.host.events();
        let expected = usize::from(submission * 2 % 8 == 6);
        assert_eq!(told.len(), expected, "submission {submission}: {told:?}");
        for event in told {
            let kind = EventKind::from_number(event.kind);
            assert_eq!((kind, event.node, event.queue), (Some(EventKind::SchedulingLog), 0, u32::MAX));
        }
    }
    let position = rig.position();
    assert_eq!((position.index(), position.wraps()), (0, 3), "24 entries in a log of 8");
}

#[test]
fn a_log_that_replaces_another_goes_on_with_what_the_contexts_do_and_a_first_one_begins_with_it() {
    let mut rig = Rig::new();
    let second = rig.host.map_new_ram(rig.paging, LOG + 0x10_0000, bytes_of(8));
    let mut queue = rig.queue(4, 3);
    let fill = rig.fill();
    rig.host.write_packets(&mut queue, &[fill; 200]);
    rig.host.ring(&queue);
    assert!(rig.host.gpu.step());
    assert_eq!(rig.set(0, LOG, ENTRIES, NEVER), CommandStatus::Done);
    assert_eq!(rig.entries(0), [(3, Running)], "it has run since before");
    assert_eq!(rig.set(0, LOG + 0x10_0000, 8, NEVER), CommandStatus::Done);
    rig.host.run();
    assert_eq!(rig.position().index(), 1, "nothing is written to the old log");
    assert_eq!(LogPosition::from_bits(rig.host.read64(second)).index(), 1, "that it is idle");
    assert_eq!(rig.set(0, 0, 0, 0), CommandStatus::Done);
    rig.host.submit(&mut queue, &[fill]);
    assert_eq!(LogPosition::from_bits(rig.host.read64(second)).index(), 1, "nor to one that was taken away");
}

#[test]
fn a_log_may_begin_within_a_page() {
    let mut rig = Rig::new();
    assert_eq!(rig.set(0, LOG + 96, 8, NEVER), CommandStatus::Done);
    let mut queue = rig.queue(4, 3);
    let fill = rig.fill();
    rig.host.submit(&mut queue, &[fill]);
    assert_eq!(rig.position().index(), 0, "nothing is written before the log");
    rig.log = rig.log.with_address(rig.log.address() + 96);
    assert_eq!(rig.entries(0), [(3, Running), (3, Idle)]);
}

#[test]
fn a_log_is_found_in_the_paging_process_as_it_is_at_each_entry() {
    let mut rig = Rig::new();
    let other = rig.host.space();
    let second = rig.host.map_new_ram(other, LOG, bytes_of(ENTRIES));
    assert_eq!(rig.set(0, LOG, ENTRIES, NEVER), CommandStatus::Done);
    let mut queue = rig.queue(4, 3);
    let fill = rig.fill();
    rig.host.submit(&mut queue, &[fill]);
    rig.host.set(reg::PAGING_ROOT, 8, other.root.into_bits());
    rig.host.submit(&mut queue, &[fill]);
    assert_eq!(rig.entries(0), [(3, Running), (3, Idle)], "nothing more in the process that it was");
    rig.log = second;
    assert_eq!(rig.entries(2), [(3, Running), (3, Idle)], "the position goes on");
}

#[test]
fn a_first_log_begins_with_the_contexts_that_run_and_that_wait_for_the_node() {
    let mut rig = Rig::new();
    let queues = [(4, 1), (5, 2), (6, 3)].map(|(number, context)| rig.queue(number, context));
    let fill = rig.fill();
    for mut queue in queues.into_iter().take(2) {
        rig.host.write_packets(&mut queue, &[fill; 200]);
        rig.host.ring(&queue);
    }
    assert!(rig.host.gpu.step());
    assert_eq!(rig.set(0, LOG, ENTRIES, NEVER), CommandStatus::Done);
    let mut found = rig.entries(0);
    found.sort_by_key(|(context, _)| *context);
    let states: Vec<_> = found.iter().map(|(_, state)| *state).collect();
    assert_eq!(found.iter().map(|(context, _)| *context).collect::<Vec<_>>(), [1, 2], "the third has no work");
    assert!(states == [Running, Ready] || states == [Ready, Running], "{found:?}");
}

#[test]
fn a_log_that_cannot_be_is_refused_and_entries_without_a_page_are_dropped() {
    let mut rig = Rig::new();
    for (node, header, entries, expected) in [
        (reg::NODES, LOG, 8, CommandStatus::BadArgument),
        (0, LOG + 8, 8, CommandStatus::BadArgument),
        (0, LOG, 0, CommandStatus::BadArgument),
        (0, 0, 8, CommandStatus::BadArgument),
        (0, LOG, (1 << 20) + 1, CommandStatus::BadArgument),
        (0, (1 << 48) - 32, 8, CommandStatus::BadArgument),
    ] {
        assert_eq!(rig.set(node, header, entries, NEVER), expected, "{node} {header:#x} {entries}");
    }
    assert_eq!(rig.set(0, LOG, ENTRIES, NEVER), CommandStatus::Done);
    let mut queue = rig.queue(4, 3);
    let fill = rig.fill();
    let leaf = rig.host.leaf(rig.paging, LOG, PAGE_4K);
    rig.host.write64(leaf, 0);
    rig.host.command(Command::InvalidateTlb, rig.paging.root.into_bits(), 0, 0);
    rig.host.submit(&mut queue, &[fill]);
    assert_eq!((rig.host.state(&queue), rig.position().index()), (0, 0), "the queue runs all the same");
    rig.host.map(rig.paging, LOG, rig.log, 4096);
    rig.host.submit(&mut queue, &[fill]);
    assert_eq!(rig.entries(0), [(3, Running), (3, Idle)], "the page is there again");
    rig.host.set(reg::PAGING_ROOT, 8, 0);
    assert_eq!(rig.set(0, LOG, 8, NEVER), CommandStatus::BadState);
}

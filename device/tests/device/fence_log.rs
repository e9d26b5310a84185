//! Fence logs: what is written, in which order, and what happens when the log changes or is delayed.

use crate::host::{Host, Space, TestQueue, memory_file, ram, small_variant, vram};
use campanile_device::Variant;
use campanile_hw::event::FaultKind;
use campanile_hw::log::{LogEntry, LogHeader, LogKind, LogOperation, LogPosition, LogTarget, bytes_of, entry_offset};
use campanile_hw::packet::{self, BadPacket, Fill, Packet, Progress, Signal, Timestamp, Wait};
use campanile_hw::page_table::Pte;
use campanile_hw::queue::{Location, QueueDescriptor, QueueFlags};
use campanile_hw::registers::{Command, CommandStatus, NODE_COMPUTE, NODE_COPY};
use std::os::unix::fs::FileExt;

const FENCE: u64 = 0x50_0000_0000;
const LOG: u64 = 0x60_0000_0000;

/// A log in system memory.
struct Log {
    va: u64,
    at: Location,
    entries: u32,
}

impl Log {
    fn new(host: &mut Host, space: Space, va: u64, entries: u32) -> Self {
        Self { va, at: host.map_new_ram(space, va, bytes_of(entries).next_multiple_of(4096)), entries }
    }

    fn give(&self, host: &Host, queue: u32, kind: LogKind) {
        host.command(Command::SetFenceLog, target(queue, kind), self.va, u64::from(self.entries));
    }

    fn position(&self, host: &Host) -> LogPosition {
        LogPosition::from_bits(host.read64(self.at))
    }

    fn entry(&self, host: &Host, index: u32) -> LogEntry {
        let bytes = host.read(self.at.with_address(self.at.address() + entry_offset(index)), LogEntry::SIZE);
        LogEntry::from_bytes(&bytes.try_into().expect("an entry"))
    }

    fn bytes(&self, host: &Host) -> Vec<u8> {
        host.read(self.at, bytes_of(self.entries) as usize)
    }
}

fn target(queue: u32, kind: LogKind) -> u64 {
    LogTarget::new().with_queue(queue).with_kind(kind as u8).into_bits()
}

fn signal(handle: u32, value: u64) -> Packet {
    Packet::Signal(Signal { handle, current: FENCE, monitored: 0, value })
}

fn wait(handle: u32, value: u64) -> Packet {
    Packet::Wait(Wait { handle, current: FENCE, value })
}

/// Takes queue 3 off its node, and maps it again as it was.
fn save_and_restore(host: &mut Host, mut descriptor: QueueDescriptor) {
    let place = vram(host.take_vram(4096, 4096)).into_bits();
    host.command(Command::SuspendQueue, 3, 1, 0);
    host.command(Command::SaveQueue, 3, place, 0);
    host.command(Command::UnmapQueue, 3, 0, 0);
    descriptor.flags = QueueFlags::from_bits(descriptor.flags).with_suspended(true).into_bits();
    host.write_descriptor(3, &descriptor);
    host.command(Command::MapQueue, 3, 0, 0);
    host.command(Command::RestoreQueue, 3, place, 0);
    host.command(Command::ResumeQueue, 3, 0, 0);
}

fn rig(variant: &Variant) -> (Host, Space, TestQueue, Location) {
    let mut host = Host::with(variant);
    let space = host.space();
    let fence = host.map_new_ram(space, FENCE, 4096);
    let queue = host.queue(0, space, NODE_COMPUTE);
    (host, space, queue, fence)
}

#[test]
fn an_entry_lies_between_the_moments_before_and_after_it() {
    let (mut host, space, mut queue, _) = rig(&small_variant());
    let (waits, signals) = (Log::new(&mut host, space, LOG, 84), Log::new(&mut host, space, LOG + 0x10_0000, 84));
    waits.give(&host, 0, LogKind::Waits);
    signals.give(&host, 0, LogKind::Signals);
    let times = host.map_new_ram(space, LOG + 0x20_0000, 4096);
    let moment = |index: u64| Packet::Timestamp(Timestamp { destination: LOG + 0x20_0000 + index * 8 });
    let fill = Packet::Fill(Fill { destination: LOG + 0x20_0800, size: 2048, pattern: 1 });
    host.submit(
        &mut queue,
        &[moment(0), signal(1, 1), moment(1), signal(1, 2), fill, moment(2), wait(1, 2), signal(1, 3), moment(3)],
    );
    let moments = [0, 1, 2, 3].map(|index| host.read64(times.with_address(times.address() + index * 8)));
    assert!(moments.is_sorted() && moments[0] > 0);
    let between = |entry: LogEntry, index: usize| {
        let range = moments[index]..=moments[index + 1];
        assert!(range.contains(&entry.end), "{entry:?} lies outside {range:?}");
    };
    (0..3).for_each(|index| between(signals.entry(&host, index), index as usize));
    between(waits.entry(&host, 0), 2);
    assert!(signals.entry(&host, 2).end >= waits.entry(&host, 0).end);
}

#[test]
fn every_signal_and_every_wait_has_an_entry_with_handle_value_and_time() {
    let (mut host, space, mut queue, _) = rig(&small_variant());
    let (waits, signals) = (Log::new(&mut host, space, LOG, 84), Log::new(&mut host, space, LOG + 0x10_0000, 84));
    waits.give(&host, 0, LogKind::Waits);
    signals.give(&host, 0, LogKind::Signals);
    host.submit(&mut queue, &[signal(0x41, 3), wait(0x42, 2), signal(0x43, 1 << 40), Packet::Nop(packet::Nop {})]);
    assert_eq!((signals.position(&host).index(), waits.position(&host).index()), (2, 1));
    let (first, second, passed) = (signals.entry(&host, 0), signals.entry(&host, 1), waits.entry(&host, 0));
    assert_eq!((first.handle, first.value, first.operation), (0x41, 3, LogOperation::SignalExecuted as u32));
    assert_eq!((second.handle, second.value, second.observed), (0x43, 1 << 40, 0));
    assert_eq!((passed.handle, passed.value, passed.operation), (0x42, 2, LogOperation::WaitUnblocked as u32));
    assert_eq!(passed.observed, 0, "it did not block the queue");
    assert!(first.end != 0 && first.end <= passed.end && passed.end <= second.end);
}

#[test]
fn a_wait_that_held_its_queue_says_since_when() {
    let (mut host, space, mut waiting, _) = rig(&small_variant());
    let log = Log::new(&mut host, space, LOG, 84);
    log.give(&host, 0, LogKind::Waits);
    let mut other = host.queue(1, space, NODE_COPY);
    host.submit(&mut waiting, &[wait(7, 5)]);
    assert_eq!(log.position(&host).index(), 0, "nothing is logged before the wait is over");
    host.submit(&mut other, &[signal(7, 4)]);
    assert_eq!(log.position(&host).index(), 0);
    let before = host.get(campanile_hw::registers::TIMESTAMP, 8);
    host.submit(&mut other, &[signal(7, 5)]);
    let entry = log.entry(&host, 0);
    assert!(entry.observed != 0 && entry.observed <= before && entry.end >= before, "{entry:?} {before}");
    host.submit(&mut waiting, &[wait(7, 5)]);
    assert_eq!(log.entry(&host, 1).observed, 0, "the next wait did not block it");
}

#[test]
fn a_wait_that_was_saved_and_restored_says_since_when_it_holds_its_queue() {
    let mut host = Host::new();
    let space = host.space();
    let fence = host.map_new_ram(space, FENCE, 4096);
    let log = Log::new(&mut host, space, LOG, 84);
    let (mut queue, mut descriptor) = host.prepare_queue(3, space);
    (descriptor.wait_log, descriptor.wait_log_entries) = (LOG, 84);
    host.write_descriptor(3, &descriptor);
    host.command(Command::MapQueue, 3, 0, 0);
    host.write_packets(&mut queue, &[wait(7, 5)]);
    host.command(Command::KickQueue, 3, 0, 0);
    host.run();
    let held = host.get(campanile_hw::registers::TIMESTAMP, 8);
    save_and_restore(&mut host, descriptor);
    host.run();
    host.write64(fence, 5);
    host.command(Command::RescanWaits, 0, 0, 0);
    host.run();
    let entry = log.entry(&host, 0);
    assert!(entry.observed != 0 && entry.observed <= held && entry.end > held, "{entry:?} {held}");
}

#[test]
fn a_queue_that_was_saved_while_it_did_not_wait_is_restored_as_one_that_does_not() {
    let mut host = Host::new();
    let space = host.space();
    host.map_new_ram(space, FENCE, 4096);
    let log = Log::new(&mut host, space, LOG, 84);
    let (mut queue, mut descriptor) = host.prepare_queue(3, space);
    (descriptor.wait_log, descriptor.wait_log_entries) = (LOG, 84);
    host.write_descriptor(3, &descriptor);
    host.command(Command::MapQueue, 3, 0, 0);
    save_and_restore(&mut host, descriptor);
    host.write_packets(&mut queue, &[wait(7, 0)]);
    host.command(Command::KickQueue, 3, 0, 0);
    host.run();
    let entry = log.entry(&host, 0);
    assert!(entry.observed == 0 && entry.end != 0, "{entry:?}");
}

#[test]
fn progress_of_a_native_fence_is_logged_like_any_signal_and_no_other() {
    let mut host = Host::new();
    let space = host.space();
    let at = host.map_new_ram(space, FENCE, 4096);
    host.write64(at.with_address(at.address() + 72), u64::MAX);
    for (number, native) in [(0, false), (1, true)] {
        let log = Log::new(&mut host, space, LOG + 0x10_0000 * u64::from(number), 84);
        let mut queue = host.queue_with(number, space, |descriptor| {
            descriptor.progress_current = FENCE + 64;
            if native {
                descriptor.flags = QueueFlags::new().with_native_progress(true).into_bits();
                descriptor.progress_monitored = FENCE + 72;
            }
        });
        log.give(&host, number, LogKind::Signals);
        // A LOG behind it is no mistake where there is nothing to log.
        let said = packet::Log { handle: 0x51, log: log.va, value: 7, entry: 1, operation: 0 };
        let progress = Packet::Progress(Progress { handle: 0x50, value: 7 });
        host.submit(&mut queue, &[signal(1, 1), progress, Packet::Log(said)]);
        assert_eq!((host.state(&queue), log.position(&host).index()), (0, 1 + u32::from(native)));
        let (signal, progress) = (log.entry(&host, 0), log.entry(&host, 1));
        assert_eq!((signal.handle, signal.value), (1, 1));
        let expected = if native { (0x51, 7, true) } else { (0, 0, false) };
        assert_eq!((progress.handle, progress.value, progress.end >= signal.end), expected);
    }
}

#[test]
fn a_log_packet_says_what_is_logged_and_where_and_stands_nowhere_else() {
    let (mut host, space, mut queue, fence) = rig(&small_variant());
    let (signals, waits) = (Log::new(&mut host, space, LOG, 4), Log::new(&mut host, space, LOG + 0x10_0000, 4));
    signals.give(&host, 0, LogKind::Signals);
    waits.give(&host, 0, LogKind::Waits);
    let entry = |log: &Log, entry, value, operation: LogOperation| {
        let (log, operation) = (log.va, operation as u32);
        Packet::Log(packet::Log { handle: 0x71, log, value, entry, operation })
    };
    let signalled = |at, value| entry(&signals, at, value, LogOperation::SignalExecuted);
    let waited = |at, value| entry(&waits, at, value, LogOperation::WaitUnblocked);
    host.submit(&mut queue, &[signal(1, 1), signalled(0, 1), wait(1, 1), waited(0, 1)]);
    host.submit(&mut queue, &[signal(1, 2), signalled(1, 2), signal(1, 3), signalled(2, 3), signal(1, 4)]);
    let position = |log: &Log, host: &Host| (log.position(host).index(), log.position(host).wraps());
    assert_eq!(
        (position(&signals, &host), position(&waits, &host)),
        ((0, 1), (1, 0)),
        "one without LOG goes behind the last"
    );
    let told = |log: &Log, host: &Host| [0, 1, 2, 3].map(|at| (log.entry(host, at).handle, log.entry(host, at).value));
    assert_eq!(told(&signals, &host), [(0x71, 1), (0x71, 2), (0x71, 3), (1, 4)]);
    assert!(signals.entry(&host, 0).end != 0 && signals.entry(&host, 0).end <= signals.entry(&host, 1).end);
    // An entry before the last one is the next round; one that is not there, or of another log, is the next entry.
    let elsewhere = packet::Log { handle: 5, log: LOG + 8, value: 9, entry: 3, operation: 0 };
    host.submit(
        &mut queue,
        &[signal(1, 5), signalled(0, 5), signal(1, 6), signalled(4, 6), signal(1, 7), Packet::Log(elsewhere)],
    );
    assert_eq!((position(&signals, &host), told(&signals, &host)), ((3, 1), [(0x71, 5), (0x71, 6), (5, 9), (1, 4)]));
    host.submit(&mut queue, &[signal(1, 8), signalled(1, 8)]);
    assert_eq!(position(&signals, &host), (2, 2), "a round that was cut short");
    // A log that took another's place is written in order.
    let fresh = Log::new(&mut host, space, LOG + 0x20_0000, 4);
    fresh.give(&host, 0, LogKind::Signals);
    host.submit(&mut queue, &[signal(1, 9), entry(&fresh, 2, 9, LogOperation::SignalExecuted)]);
    assert_eq!((position(&fresh, &host), fresh.entry(&host, 0).value), ((1, 0), 9));
    for (number, packets, done) in [
        (1, vec![signalled(0, 1)], 9),
        (2, vec![signal(1, 10), signalled(0, 1), signalled(1, 1)], 10),
        (3, vec![signal(1, 11), waited(0, 1)], 11),
    ] {
        let mut queue = host.queue(number, space, NODE_COMPUTE);
        host.submit(&mut queue, &packets);
        let (_, info) = host.fault_of(&queue);
        assert_eq!((info.kind(), info.rule()), (FaultKind::BadPacket as u8, BadPacket::Opcode as u8));
        assert_eq!(host.read64(fence), done);
    }
}

#[test]
fn an_overrun_overwrites_the_oldest_and_counts_the_wraps() {
    let (mut host, space, mut queue, fence) = rig(&small_variant());
    // Entries 84 and up lie on a second page, and one lies on both.
    for (va, entries) in [(LOG, 1), (LOG + 0x10_0000, 3), (LOG + 0x20_0000, 100)] {
        let log = Log::new(&mut host, space, va, entries);
        log.give(&host, 0, LogKind::Signals);
        host.write64(fence, 0);
        let total = 2 * entries + entries / 2;
        for value in 1..=total {
            host.submit(&mut queue, &[signal(9, u64::from(value))]);
        }
        let position = log.position(&host);
        assert_eq!((position.wraps(), position.index()), (total / entries, total % entries));
        for number in total - entries..total {
            assert_eq!(log.entry(&host, number % entries).value, u64::from(number) + 1, "of {entries}");
        }
    }
}

#[test]
fn writing_goes_on_where_the_header_says_and_wraps_modulo_two_to_the_32() {
    let (mut host, space, mut queue, _) = rig(&small_variant());
    let log = Log::new(&mut host, space, LOG, 4);
    for (index, wraps, then) in [(2, 9, (3, 9)), (3, u32::MAX, (0, 0)), (4, 7, (1, 7)), (77, 5, (1, 5))] {
        host.write64(log.at, LogPosition::new().with_index(index).with_wraps(wraps).into_bits());
        log.give(&host, 0, LogKind::Signals);
        host.submit(&mut queue, &[signal(1, 1)]);
        let position = log.position(&host);
        assert_eq!((position.index(), position.wraps()), then);
    }
}

#[test]
fn after_a_switch_nothing_is_written_to_the_old_log() {
    let (mut host, space, mut queue, _) = rig(&small_variant());
    let (old, new) = (Log::new(&mut host, space, LOG, 84), Log::new(&mut host, space, LOG + 0x10_0000, 1000));
    old.give(&host, 0, LogKind::Signals);
    host.submit(&mut queue, &[signal(1, 1)]);
    new.give(&host, 0, LogKind::Signals);
    let before = old.bytes(&host);
    host.submit(&mut queue, &[signal(1, 2)]);
    assert_eq!(old.bytes(&host), before);
    assert_eq!((new.position(&host).index(), new.entry(&host, 0).value), (1, 2));
    host.command(Command::SetFenceLog, target(0, LogKind::Signals), 0, 0);
    host.submit(&mut queue, &[signal(1, 3)]);
    assert_eq!(new.position(&host).index(), 1, "a log that was taken away");
}

#[test]
fn a_queue_has_the_logs_of_its_descriptor_from_its_first_packet_on() {
    let mut host = Host::new();
    let space = host.space();
    host.map_new_ram(space, FENCE, 4096);
    let log = Log::new(&mut host, space, LOG, 84);
    let (mut queue, mut descriptor) = host.prepare_queue(3, space);
    host.write_packets(&mut queue, &[signal(1, 1)]);
    for (address, entries, status) in [
        (LOG, 0, CommandStatus::BadDescriptor),
        (LOG + 4, 84, CommandStatus::BadDescriptor),
        (LOG + 4096, 84, CommandStatus::PageFault),
    ] {
        (descriptor.signal_log, descriptor.signal_log_entries) = (address, entries);
        host.write_descriptor(3, &descriptor);
        assert_eq!(host.try_command(Command::MapQueue, 3, 0, 0).0, status, "{address:#x} {entries}");
    }
    (descriptor.signal_log, descriptor.signal_log_entries) = (LOG, 84);
    host.write_descriptor(3, &descriptor);
    host.command(Command::MapQueue, 3, 0, 0);
    host.run();
    assert_eq!(log.position(&host).index(), 1);
}

#[test]
fn a_log_that_breaks_a_rule_is_refused_and_the_old_one_stays() {
    let (mut host, space, mut queue, _) = rig(&small_variant());
    let log = Log::new(&mut host, space, LOG, 84);
    log.give(&host, 0, LogKind::Signals);
    let good = target(0, LogKind::Signals);
    for (target, address, entries, status) in [
        (target(9, LogKind::Signals), LOG, 84, CommandStatus::BadQueue),
        (0, LOG, 84, CommandStatus::BadArgument),
        (3 << 32, LOG, 84, CommandStatus::BadArgument),
        (good | 1 << 40, LOG, 84, CommandStatus::BadArgument),
        (good, LOG + 4, 83, CommandStatus::BadArgument),
        (good, 0, 84, CommandStatus::BadArgument),
        (good, LOG, 0, CommandStatus::BadArgument),
        (good, LOG, (1 << 20) + 1, CommandStatus::BadArgument),
        (good, (1 << 48) - 64, 84, CommandStatus::BadArgument),
        (good, u64::MAX - 7, 1, CommandStatus::BadArgument),
        (good, LOG, 85, CommandStatus::PageFault),
        (good, LOG + 4096, 1, CommandStatus::PageFault),
    ] {
        let (answered, _) = host.try_command(Command::SetFenceLog, target, address, entries);
        assert_eq!(answered, status, "{target:#x} {address:#x} {entries}");
    }
    assert_eq!(host.try_command(Command::FlushFenceLogs, 9, 0, 0).0, CommandStatus::BadQueue);
    host.submit(&mut queue, &[signal(1, 1)]);
    assert_eq!(log.position(&host).index(), 1);
}

#[test]
fn a_log_may_end_where_its_last_page_ends() {
    let (mut host, space, mut queue, _) = rig(&small_variant());
    let log = Log::new(&mut host, space, LOG, 84);
    let header = LOG + 4096 - bytes_of(84);
    host.command(Command::SetFenceLog, target(0, LogKind::Signals), header, 84);
    host.submit(&mut queue, &[signal(1, 1)]);
    let position = host.read64(log.at.with_address(log.at.address() + (header - LOG)));
    assert_eq!(LogPosition::from_bits(position).index(), 1);
}

#[test]
fn a_log_that_cannot_be_written_faults_the_queue_before_the_signal() {
    let (mut host, space, mut queue, fence) = rig(&small_variant());
    let log = Log::new(&mut host, space, LOG, 84);
    log.give(&host, 0, LogKind::Signals);
    let leaf = host.leaf(space, LOG, 4096);
    host.write64(leaf, 0);
    host.command(Command::InvalidateTlb, space.root.into_bits(), 0, 0);
    host.submit(&mut queue, &[signal(1, 5)]);
    let (address, info) = host.fault_of(&queue);
    assert_eq!((address, info.kind()), (LOG, FaultKind::PageFault as u8));
    assert_eq!(host.read64(fence), 0, "the signal had no effect");
}

#[test]
fn delayed_entries_arrive_with_the_flush_and_the_position_before() {
    let (mut host, space, mut queue, _) = rig(&Variant { delayed_log_writes: true, ..small_variant() });
    let log = Log::new(&mut host, space, LOG, 4);
    log.give(&host, 0, LogKind::Signals);
    for value in 1..=6 {
        host.submit(&mut queue, &[signal(1, value)]);
    }
    let position = log.position(&host);
    assert_eq!((position.wraps(), position.index()), (1, 2));
    let nothing = LogEntry { value: 0, handle: 0, operation: 0, observed: 0, end: 0 };
    assert!((0..4).all(|index| log.entry(&host, index) == nothing), "a reader without the barrier sees nothing");
    host.command(Command::FlushFenceLogs, 0, 0, 0);
    assert_eq!([0, 1, 2, 3].map(|index| log.entry(&host, index).value), [5, 6, 3, 4]);
}

#[test]
fn delayed_entries_are_complete_in_a_log_that_was_replaced_or_whose_queue_is_gone() {
    let (mut host, space, mut queue, _) = rig(&Variant { delayed_log_writes: true, ..small_variant() });
    let (old, new) = (Log::new(&mut host, space, LOG, 8), Log::new(&mut host, space, LOG + 0x10_0000, 8));
    old.give(&host, 0, LogKind::Signals);
    host.submit(&mut queue, &[signal(1, 1)]);
    new.give(&host, 0, LogKind::Signals);
    assert_eq!(old.entry(&host, 0).value, 1);
    host.submit(&mut queue, &[signal(1, 2)]);
    host.command(Command::UnmapQueue, 0, 0, 0);
    assert_eq!(new.entry(&host, 0).value, 2);
}

#[test]
fn a_log_begins_with_a_header_and_its_entries_follow() {
    assert_eq!((LogHeader::SIZE, LogEntry::SIZE, entry_offset(0), entry_offset(2)), (40, 48, 40, 136));
}

/// What an operating system does to the page of a log, and then announces.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Moved,
    Unmapped,
    ReadOnly,
    Zero,
}

/// How it announces that, if at all: pages of system memory may just be gone.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Notice {
    WholeSpace,
    Page,
    Reset,
}

#[test]
fn nothing_is_written_to_the_page_that_a_log_had_once_its_change_was_announced() {
    let good = Pte::new().with_valid(true).with_system(true);
    for kind in [LogKind::Waits, LogKind::Signals] {
        for fate in [Fate::Moved, Fate::Unmapped, Fate::ReadOnly, Fate::Zero] {
            for notice in [Notice::WholeSpace, Notice::Page, Notice::Reset] {
                let (mut host, space, mut queue, _) = rig(&small_variant());
                let log = Log::new(&mut host, space, LOG, 84);
                log.give(&host, 0, kind);
                let logged = |value| if kind == LogKind::Waits { wait(1, 0) } else { signal(1, value) };
                host.submit(&mut queue, &[logged(1), logged(2)]);
                assert_eq!(log.position(&host).index(), 2);
                let (before, other) = (log.bytes(&host), ram(host.take_ram(4096)));
                let leaf = host.leaf(space, LOG, 4096);
                let entry = match fate {
                    Fate::Moved => good.with_address(other.address()),
                    Fate::Unmapped => Pte::new(),
                    Fate::ReadOnly => good.with_read_only(true).with_address(log.at.address()),
                    Fate::Zero => Pte::new().with_valid(true).with_zero(true),
                };
                host.write64(leaf, entry.into_bits());
                match notice {
                    Notice::WholeSpace => host.command(Command::InvalidateTlb, space.root.into_bits(), 0, 0),
                    Notice::Page => host.command(Command::InvalidateTlb, space.root.into_bits(), LOG, LOG + 4096),
                    Notice::Reset => host.command(Command::ResetNode, u64::from(NODE_COMPUTE), 0, 0),
                };
                host.submit(&mut queue, &[logged(3)]);
                let case = format!("{kind:?} {fate:?} {notice:?}");
                assert!(log.bytes(&host) == before, "{case}");
                match fate {
                    Fate::Moved => {
                        let position = LogPosition::from_bits(host.read64(other));
                        assert_eq!(position.index(), 3, "{case}");
                    }
                    Fate::Zero => assert_eq!(host.read64(other), 0, "{case}"),
                    Fate::Unmapped | Fate::ReadOnly => {
                        let fault = if fate == Fate::ReadOnly { FaultKind::ReadOnly } else { FaultKind::PageFault };
                        let (address, info) = host.fault_of(&queue);
                        assert_eq!((address, info.kind()), (LOG, fault as u8), "{case}");
                    }
                }
            }
        }
    }
}

/// Entry 84 of a log lies on its first page and its second, entry 85 on the second.
#[test]
fn an_entry_beyond_the_first_page_is_written_where_that_page_is_now_or_faults_its_queue() {
    let good = Pte::new().with_valid(true).with_system(true);
    for (index, at, rest) in [(84u32, 4096, 24), (85, entry_offset(85), 48)] {
        for fate in [Fate::Moved, Fate::Unmapped, Fate::ReadOnly, Fate::Zero] {
            let (mut host, space, mut queue, fence) = rig(&small_variant());
            let log = Log::new(&mut host, space, LOG, 100);
            host.write64(log.at, LogPosition::new().with_index(83).into_bits());
            log.give(&host, 0, LogKind::Signals);
            // Every page has been written to once.
            (0..17).for_each(|step| host.submit(&mut queue, &[signal(7, step + 1)]));
            host.write64(log.at, LogPosition::new().with_index(index).into_bits());
            log.give(&host, 0, LogKind::Signals);
            let (before, other) = (log.bytes(&host), ram(host.take_ram(4096)));
            let leaf = host.leaf(space, LOG + 4096, 4096);
            let entry = match fate {
                Fate::Moved => good.with_address(other.address()),
                Fate::Unmapped => Pte::new(),
                Fate::ReadOnly => good.with_read_only(true).with_address(log.at.address() + 4096),
                Fate::Zero => Pte::new().with_valid(true).with_zero(true),
            };
            host.write64(leaf, entry.into_bits());
            host.command(Command::InvalidateTlb, space.root.into_bits(), LOG + 4096, LOG + 8192);
            host.submit(&mut queue, &[signal(9, 1000)]);
            let case = format!("{index} {fate:?}");
            let second = |bytes: &[u8]| bytes[4096..].to_vec();
            assert!(second(&log.bytes(&host)) == second(&before), "{case}: the page it had");
            match fate {
                Fate::Moved | Fate::Zero => {
                    assert_eq!((log.position(&host).index(), host.read64(fence)), (index + 1, 1000), "{case}");
                    let end = host.read64(ram(other.address() + at - 4096 + rest - 8));
                    assert_eq!(end != 0, fate == Fate::Moved, "{case}");
                }
                Fate::Unmapped | Fate::ReadOnly => {
                    let fault = if fate == Fate::ReadOnly { FaultKind::ReadOnly } else { FaultKind::PageFault };
                    let (address, info) = host.fault_of(&queue);
                    assert_eq!((address, info.kind()), (LOG + at, fault as u8), "{case}");
                    assert_eq!((log.position(&host).index(), host.read64(fence)), (index, 17), "{case}: no effect");
                }
            }
        }
    }
}

#[test]
fn a_log_in_system_memory_that_is_gone_faults_its_queue_without_any_announcement() {
    for kind in [LogKind::Waits, LogKind::Signals] {
        let (mut host, space, mut queue, _) = rig(&small_variant());
        let log = Log::new(&mut host, space, LOG, 84);
        log.give(&host, 0, kind);
        let logged = |value| if kind == LogKind::Waits { wait(1, 0) } else { signal(1, value) };
        host.submit(&mut queue, &[logged(1)]);
        let before = log.bytes(&host);
        host.gpu.unmap_dma(log.at.address(), 4096);
        host.submit(&mut queue, &[logged(2)]);
        assert_eq!(host.fault_of(&queue).1.kind(), FaultKind::BadPhysical as u8, "{kind:?}");
        assert!(log.bytes(&host) == before, "{kind:?}");
    }
}

#[test]
fn memory_that_comes_and_goes_elsewhere_leaves_a_log_where_it_is() {
    for at in [None, Some(8 << 20)] {
        let (mut host, space, mut queue, _) = rig(&small_variant());
        let log = match at {
            None => Log::new(&mut host, space, LOG, 84),
            Some(at) => {
                host.map(space, LOG, vram(at), 4096);
                Log { va: LOG, at: vram(at), entries: 84 }
            }
        };
        log.give(&host, 0, LogKind::Signals);
        let other = memory_file(4096);
        for round in 0..4 {
            host.submit(&mut queue, &[signal(1, round * 2 + 1)]);
            host.gpu.map_dma(0x40_0000_0000, &other, 0, 4096, true).expect("system memory");
            host.submit(&mut queue, &[signal(1, round * 2 + 2)]);
            host.gpu.unmap_dma(0x40_0000_0000, 4096);
        }
        assert_eq!(log.position(&host).index(), 8);
        assert!((0..8).all(|index| log.entry(&host, index).value == u64::from(index) + 1), "{at:?}");
    }
}

#[test]
fn a_log_whose_memory_is_another_one_now_is_written_there_and_only_there() {
    let (mut host, space, mut queue, _) = rig(&small_variant());
    let log = Log::new(&mut host, space, LOG, 84);
    log.give(&host, 0, LogKind::Signals);
    host.submit(&mut queue, &[signal(1, 1)]);
    let (before, other) = (log.bytes(&host), memory_file(4096));
    // The same bus address, another file behind it: nothing about page tables changes.
    host.gpu.unmap_dma(log.at.address(), 4096);
    host.gpu.map_dma(log.at.address(), &other, 0, 4096, true).expect("system memory");
    host.submit(&mut queue, &[signal(1, 2)]);
    assert!(log.bytes(&host) == before, "what lay there before");
    let mut words = [0; 8];
    other.read_exact_at(&mut words, 0).expect("the new memory");
    assert_eq!(LogPosition::from_bits(u64::from_le_bytes(words)).index(), 2);
    other.read_exact_at(&mut words, entry_offset(1)).expect("the new memory");
    assert_eq!(u64::from_le_bytes(words), 2);
}

#[test]
fn a_wait_whose_log_cannot_be_written_faults_instead_of_passing() {
    let (mut host, space, mut queue, _) = rig(&small_variant());
    let log = Log::new(&mut host, space, LOG, 84);
    log.give(&host, 0, LogKind::Waits);
    let mut other = host.queue(1, space, NODE_COPY);
    let leaf = host.leaf(space, LOG, 4096);
    host.write64(leaf, 0);
    host.command(Command::InvalidateTlb, space.root.into_bits(), 0, 0);
    let after = Packet::Signal(Signal { handle: 0, current: FENCE + 8, monitored: 0, value: 1 });
    host.submit(&mut queue, &[wait(1, 5), after]);
    assert!(host.events().is_empty(), "it waits: there is nothing to log");
    host.submit(&mut other, &[signal(1, 5)]);
    let (address, info) = host.fault_of(&queue);
    assert_eq!((address, info.kind()), (LOG, FaultKind::PageFault as u8));
    assert_eq!(log.position(&host).index(), 0);
}

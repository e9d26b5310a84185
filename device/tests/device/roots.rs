//! SetQueueRoot: an address space whose root page table goes, and comes back elsewhere.

use crate::host::{Host, Space, TestQueue, small_variant, vram};
use campanile_device::Variant;
use campanile_hw::event::FaultKind;
use campanile_hw::log::{LogEntry, LogKind, LogPosition, LogTarget, bytes_of, entry_offset};
use campanile_hw::packet::{Fill, Packet, Progress, Signal, Wait};
use campanile_hw::page_table::TABLE_SIZE;
use campanile_hw::queue::{Location, QueueState, RingEntry, RingFlags};
use campanile_hw::registers::{Command, CommandStatus, NODE_COMPUTE};

const FENCE: u64 = 0x50_0000_0000;
const LOG: u64 = 0x60_0000_0000;

fn signal(word: u64, value: u64) -> Packet {
    Packet::Signal(Signal { handle: 0, current: FENCE + word * 8, monitored: 0, value })
}

fn wait(word: u64, value: u64) -> Packet {
    Packet::Wait(Wait { handle: 0, current: FENCE + word * 8, value })
}

fn word(at: Location, word: u64) -> Location {
    at.with_address(at.address() + word * 8)
}

fn suspend(host: &Host, queue: &TestQueue) {
    host.command(Command::SuspendQueue, queue.number.into(), 1, 0);
}

fn set_root(host: &Host, queue: &TestQueue, bits: u64) -> CommandStatus {
    host.try_command(Command::SetQueueRoot, queue.number.into(), bits, 0).0
}

/// Another root with the same entries; the old one then belongs to somebody else, in whose address space everything lies elsewhere.
fn move_root(host: &mut Host, space: Space) -> Space {
    let entries = host.read(space.root, TABLE_SIZE as usize);
    let (moved, other) = (host.space(), host.space());
    host.write(moved.root, &entries);
    host.map_new_ram(other, FENCE, 4096);
    host.map_new_ram(other, LOG, 4096);
    let foreign = host.read(other.root, TABLE_SIZE as usize);
    host.write(space.root, &foreign);
    host.command(Command::InvalidateTlb, space.root.into_bits(), 0, 0);
    moved
}

#[test]
fn a_queue_goes_on_in_the_middle_of_a_buffer_when_its_root_has_moved() {
    let mut host = Host::new();
    let space = host.space();
    let at = host.map_new_ram(space, FENCE, 4096);
    let mut queue = host.queue_with(4, space, |descriptor| descriptor.progress_current = FENCE + 64);
    host.connect(&mut queue, 0);
    for value in 1..=3 {
        host.write_packets(
            &mut queue,
            &[signal(1, value), wait(0, value), Packet::Progress(Progress { handle: 0, value }), signal(2, value)],
        );
    }
    host.ring(&queue);
    let mut space = space;
    for value in 1..=3u64 {
        host.run();
        assert_eq!((host.read64(word(at, 1)), host.read64(word(at, 2))), (value, value - 1));
        suspend(&host, &queue);
        assert_eq!(set_root(&host, &queue, 0), CommandStatus::Done);
        space = move_root(&mut host, space);
        host.write64(at, value);
        host.command(Command::RescanWaits, 0, 0, 0);
        host.run();
        assert_eq!(set_root(&host, &queue, space.root.into_bits()), CommandStatus::Done);
        host.command(Command::ResumeQueue, 4, 0, 0);
    }
    host.run();
    assert_eq!((host.read64(word(at, 2)), host.read64(word(at, 8))), (3, 3), "work, and its progress");
    assert_eq!(host.read_pointer(&queue), 3);
}

#[test]
fn a_queue_without_a_root_walks_nothing_and_faults_when_it_must() {
    let mut host = Host::new();
    let space = host.space();
    let at = host.map_new_ram(space, FENCE, 4096);
    let mut queue = host.queue(4, space, NODE_COMPUTE);
    host.connect(&mut queue, 0);
    host.submit(&mut queue, &[signal(1, 1)]);
    suspend(&host, &queue);
    assert_eq!(set_root(&host, &queue, 0), CommandStatus::Done);
    move_root(&mut host, space);
    host.write_packets(&mut queue, &[signal(1, 2)]);
    host.ring(&queue);
    let walks = host.gpu.activity().table_walks;
    host.run();
    for (command, status) in [
        (Command::KickQueue, CommandStatus::Done),
        (Command::DiscardQueue, CommandStatus::PageFault),
        (Command::DisconnectDoorbell, CommandStatus::Done),
    ] {
        let (first, second) = if command == Command::DisconnectDoorbell { (0, 4) } else { (4, 0) };
        assert_eq!(host.try_command(command, first, second, 0).0, status, "{command:?}");
    }
    assert_eq!(host.try_command(Command::ConnectDoorbell, 0, 4, 0).0, CommandStatus::PageFault);
    drop(host.events());
    host.command(Command::ResumeQueue, 4, 0, 0);
    host.run();
    assert_eq!(host.gpu.activity().table_walks, walks, "page tables were walked for a queue that has none");
    assert_eq!(host.fault_of(&queue).1.kind(), FaultKind::PageFault as u8);
    assert_eq!(host.read64(word(at, 1)), 1);
}

#[test]
fn only_a_standing_queue_gets_another_root() {
    let mut host = Host::new();
    let (space, other) = (host.space(), host.space());
    host.map_new_ram(space, FENCE, 4096);
    let mut queue = host.queue(4, space, NODE_COMPUTE);
    host.connect(&mut queue, 0);
    let legal = other.root.into_bits();
    assert_eq!(set_root(&host, &queue, legal), CommandStatus::BadState, "an idle queue may look at its ring");
    host.submit(&mut queue, &[wait(0, 1)]);
    assert_eq!(set_root(&host, &queue, legal), CommandStatus::BadState, "a queue that waits");
    suspend(&host, &queue);
    for bad in [legal + 1, legal | 1 << 53, vram(small_variant().vram_size).into_bits(), u64::MAX] {
        assert_eq!(set_root(&host, &queue, bad), CommandStatus::BadArgument, "{bad:#x}");
    }
    for bad in [5, u64::from(u32::MAX) + 5] {
        assert_eq!(host.try_command(Command::SetQueueRoot, bad, legal, 0).0, CommandStatus::BadQueue);
    }
    assert_eq!(set_root(&host, &queue, legal), CommandStatus::Done);
    // Nothing is mapped there, so the queue faults, and a queue that has faulted may get a root too.
    host.command(Command::ResumeQueue, 4, 0, 0);
    host.run();
    assert_eq!(host.state(&queue), 5);
    assert_eq!(set_root(&host, &queue, space.root.into_bits()), CommandStatus::Done);
    assert_eq!(host.state(&queue), 5);
}

#[test]
fn what_a_queue_has_logged_is_complete_before_its_root_goes_and_it_logs_on_at_the_new_one() {
    for log_flush in [false, true] {
        let mut host = Host::with(&Variant { delayed_log_writes: log_flush, ..small_variant() });
        let space = host.space();
        host.map_new_ram(space, FENCE, 4096);
        let log = host.map_new_ram(space, LOG, bytes_of(8).next_multiple_of(4096));
        let mut queue = host.queue(4, space, NODE_COMPUTE);
        host.connect(&mut queue, 0);
        let target = LogTarget::new().with_queue(4).with_kind(LogKind::Signals as u8).into_bits();
        host.command(Command::SetFenceLog, target, LOG, 8);
        let entry = |host: &Host, index: u32| {
            let bytes = host.read(log.with_address(log.address() + entry_offset(index)), LogEntry::SIZE);
            LogEntry::from_bytes(&bytes.try_into().expect("an entry")).value
        };
        host.submit(&mut queue, &[signal(1, 11), signal(1, 12)]);
        suspend(&host, &queue);
        assert_eq!(set_root(&host, &queue, 0), CommandStatus::Done);
        assert_eq!([0, 1].map(|index| entry(&host, index)), [11, 12], "delayed: {log_flush}");
        let moved = move_root(&mut host, space);
        assert_eq!(host.try_command(Command::SetFenceLog, target, LOG, 8).0, CommandStatus::BadState);
        host.command(Command::FlushFenceLogs, 4, 0, 0);
        assert_eq!(set_root(&host, &queue, moved.root.into_bits()), CommandStatus::Done);
        host.command(Command::ResumeQueue, 4, 0, 0);
        host.submit(&mut queue, &[signal(1, 13)]);
        host.command(Command::FlushFenceLogs, 4, 0, 0);
        assert_eq!([0, 1, 2].map(|index| entry(&host, index)), [11, 12, 13]);
        assert_eq!(LogPosition::from_bits(host.read64(log)).index(), 3);
    }
}

#[test]
fn a_buffer_that_named_its_root_keeps_it() {
    let mut host = Host::new();
    let (space, named) = (host.space(), host.space());
    let (own, theirs) = (host.map_new_ram(space, FENCE, 4096), host.map_new_ram(named, FENCE, 4096));
    let mut queue = host.queue_with(4, space, |descriptor| {
        let flags = campanile_hw::queue::QueueFlags::from_bits(descriptor.flags);
        descriptor.flags = flags.with_privileged(true).into_bits();
    });
    let packets = [wait(0, 1), signal(1, 7), Packet::Fill(Fill { destination: FENCE + 64, size: 8, pattern: 3 })];
    let commands = host.write_commands(&mut queue, &crate::host::encode(&packets));
    let page = host.locate(space, commands);
    host.map(named, commands & !4095, page.with_address(page.address() & !4095), 4096);
    let size = crate::host::encode(&packets).len() as u32;
    let flags = RingFlags::new().with_own_root(true).into_bits();
    host.write_entry(&mut queue, &RingEntry { commands, size, flags, tag: 0, root: named.root.into_bits() });
    host.command(Command::KickQueue, 4, 0, 0);
    host.run();
    suspend(&host, &queue);
    let place = host.take_vram(4096, 4096);
    host.command(Command::SaveQueue, 4, vram(place).into_bits(), 0);
    let state = QueueState::from_bytes(&host.read(vram(place), QueueState::SIZE).try_into().expect("a record"));
    assert_eq!(state.root, named.root.into_bits());
    let moved = move_root(&mut host, space);
    assert_eq!(set_root(&host, &queue, moved.root.into_bits()), CommandStatus::Done);
    host.write64(theirs, 1);
    host.command(Command::ResumeQueue, 4, 0, 0);
    host.run();
    assert_eq!((host.read64(word(theirs, 1)), host.read64(word(own, 1))), (7, 0));
}

#[test]
fn a_root_with_bits_that_no_address_has_is_refused() {
    let mut host = Host::new();
    let root = host.space().root.into_bits();
    host.command(Command::InvalidateTlb, root, 0, 0);
    for bit in 53..64 {
        let answer = host.try_command(Command::InvalidateTlb, root | 1 << bit, 0, 0).0;
        assert_eq!(answer, CommandStatus::BadArgument, "bit {bit}");
    }
}

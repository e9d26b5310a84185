//! Descriptors, states, run lists, ring entries, and stopping queues with work in progress.

mod descriptors;
mod preempted;

use crate::host::{Host, Space, TestQueue, encode, ram, vram};
use campanile_hw::event::{Event, EventKind, FaultKind};
use campanile_hw::packet::{Copy, Fill, Nop, Packet, Timestamp, Wait};
use campanile_hw::page_table::PAGE_4K;
use campanile_hw::queue::{QueueDescriptor, QueueFlags, RingEntry, RingFlags};
use campanile_hw::registers::{self as reg, Command, CommandStatus, NODE_COMPUTE, NODE_COPY, NODE_PAGING};

const VA: u64 = 0x40_0000_0000;
const FENCE: u64 = 0x50_0000_0000;

fn fill(destination: u64, pattern: u32) -> Packet {
    Packet::Fill(Fill { destination, size: 4, pattern })
}

fn wait(value: u64) -> Packet {
    Packet::Wait(Wait { handle: 0, current: FENCE, value })
}

fn one_queue() -> (Host, Space, TestQueue) {
    let mut host = Host::new();
    let space = host.space();
    let queue = host.queue(0, space, NODE_COMPUTE);
    host.map_new_ram(space, VA, 8 << 20);
    host.map_new_ram(space, FENCE, 4096);
    (host, space, queue)
}

const PRIVILEGED: u32 = QueueFlags::new().with_privileged(true).into_bits();
const KERNEL: u32 = QueueFlags::new().with_privileged(true).with_physical_ring(true).into_bits();

#[test]
fn a_faulted_queue_that_is_suspended_says_so_and_stays_faulted() {
    let (mut host, _, queue) = one_queue();
    host.set_write_pointer(&queue, 65);
    host.command(Command::KickQueue, 0, 0, 0);
    assert_eq!(host.fault_of(&queue).1.kind(), FaultKind::BadWritePointer as u8);
    host.command(Command::SuspendQueue, 0, 77, 0);
    let events = host.events();
    assert_eq!((events.len(), events[0].kind, events[0].data0), (1, EventKind::Suspended as u8, 77));
    assert_eq!(host.state(&queue), 5);
    assert_eq!(host.try_command(Command::ResumeQueue, 0, 0, 0).0, CommandStatus::BadState);
}

#[test]
fn a_queue_mapped_with_work_in_its_ring_runs_it() {
    let mut host = Host::new();
    let space = host.space();
    let at = host.map_new_ram(space, VA, 4096);
    let (mut queue, descriptor) = host.prepare_queue(0, space);
    host.write_descriptor(0, &descriptor);
    host.write_packets(&mut queue, &[fill(VA, 4)]);
    host.command(Command::MapQueue, 0, 0, 0);
    assert_eq!(host.state(&queue), 1);
    host.run();
    assert_eq!((host.read64(at), host.state(&queue)), (4, 0));
}

#[test]
fn write_pointers_that_jump_fault_the_queue() {
    for pointer in [65, 1 << 20, u64::MAX] {
        let (mut host, _, queue) = one_queue();
        host.set_write_pointer(&queue, pointer);
        host.command(Command::KickQueue, 0, 0, 0);
        let (address, info) = host.fault_of(&queue);
        assert_eq!((address, info.kind()), (pointer, FaultKind::BadWritePointer as u8));
    }
    let (mut host, _, mut queue) = one_queue();
    host.submit(&mut queue, &[]);
    host.submit(&mut queue, &[]);
    host.set_write_pointer(&queue, 1);
    host.command(Command::KickQueue, 0, 0, 0);
    assert_eq!(host.fault_of(&queue).1.kind(), FaultKind::BadWritePointer as u8, "backwards");
    assert_eq!(host.try_command(Command::KickQueue, 0, 0, 0).0, CommandStatus::BadState);
    assert_eq!(host.try_command(Command::ResumeQueue, 0, 0, 0).0, CommandStatus::BadState);
    assert_eq!(host.try_command(Command::ConnectDoorbell, 0, 0, 0).0, CommandStatus::BadState);
    host.command(Command::UnmapQueue, 0, 0, 0);
}

#[test]
fn a_full_ring_runs_and_wraps() {
    let (host, _, mut queue) = one_queue();
    for round in 1..=5 {
        for _ in 0..queue.geometry.entries() {
            host.write_packets(&mut queue, &[Packet::Nop(Nop {})]);
        }
        host.ring(&queue);
        host.run();
        assert_eq!(host.get(reg::COUNT_RETIRED, 8), round * u64::from(queue.geometry.entries()));
        assert_eq!(host.read_pointer(&queue), queue.write);
    }
}

#[test]
fn ring_entries_that_break_a_rule_fault() {
    let base = RingEntry { commands: VA, size: 16, flags: 0, tag: 0, root: 0 };
    let entries = [
        RingEntry { commands: VA + 8, ..base },
        RingEntry { size: 8, ..base },
        RingEntry { size: (1 << 20) + 16, ..base },
        RingEntry { commands: (1 << 48) - 16, size: 32, ..base },
        RingEntry { commands: u64::MAX - 15, ..base },
        RingEntry { flags: RingFlags::new().with_retire_event(true).into_bits(), ..base },
        RingEntry { flags: RingFlags::new().with_own_root(true).into_bits(), root: 0x1000, ..base },
        RingEntry { flags: RingFlags::new().with_write_progress(true).into_bits(), ..base },
        RingEntry { flags: 8, ..base },
    ];
    for entry in entries {
        let (mut host, _, mut queue) = one_queue();
        host.submit(&mut queue, &[]);
        host.write_entry(&mut queue, &entry);
        host.ring(&queue);
        host.run();
        let (address, info) = host.fault_of(&queue);
        assert_eq!((address, info.kind()), (queue.ring + 32, FaultKind::BadRingEntry as u8), "{entry:?}");
        assert_eq!(info.entry(), 1);
    }
}

/// A privileged queue with a physical ring and no address space of its own.
struct KernelQueue {
    number: u32,
    ring: u64,
    control: u64,
    write: u64,
}

impl KernelQueue {
    fn map(host: &mut Host, number: u32, node: u32) -> Self {
        let (ring, control) = (host.take_ram(4096), host.take_ram(4096));
        let descriptor = QueueDescriptor {
            ring: ram(ring).into_bits(),
            control: ram(control).into_bits(),
            ring_entries: 128,
            flags: KERNEL,
            node,
            rank: 1,
            ..QueueDescriptor::ZERO
        };
        host.write_descriptor(number, &descriptor);
        host.command(Command::MapQueue, u64::from(number), 0, 0);
        Self { number, ring, control, write: 0 }
    }

    fn push(&mut self, host: &Host, entry: &RingEntry) {
        host.write(ram(self.ring + self.write % 128 * 32), &entry.to_bytes());
        self.write += 1;
        host.write64(ram(self.control), self.write);
    }

    fn kick(&self, host: &Host) {
        host.command(Command::KickQueue, u64::from(self.number), 0, 0);
        host.run();
    }
}

const RETIRE: u32 = RingFlags::new().with_retire_event(true).into_bits();
const OWN: u32 = RingFlags::new().with_retire_event(true).with_own_root(true).into_bits();

fn tags(events: &[Event]) -> Vec<u64> {
    assert!(events.iter().all(|event| event.kind == EventKind::Retired as u8), "{events:?}");
    events.iter().map(|event| event.data0).collect()
}

#[test]
fn privileged_entries_bring_their_own_address_space_and_report_their_tag() {
    for node in [NODE_COMPUTE, NODE_COPY, NODE_PAGING] {
        let mut host = Host::new();
        let mut queue = KernelQueue::map(&mut host, 5, node);
        let spaces = [host.space(), host.space()];
        let mut targets = Vec::new();
        for (index, space) in spaces.into_iter().enumerate() {
            targets.push(host.map_new_ram(space, VA, 4096));
            let commands = host.map_new_ram(space, VA + 0x1_0000, 4096);
            host.write(commands, &encode(&[fill(VA, index as u32 + 1)]));
            let root = space.root.into_bits();
            let entry = RingEntry { commands: VA + 0x1_0000, size: 32, flags: OWN, tag: 70 + index as u64, root };
            queue.push(&host, &entry);
        }
        queue.push(&host, &RingEntry { commands: 0, size: 0, flags: RETIRE, tag: 99, root: 0 });
        queue.kick(&host);
        assert_eq!((host.read64(targets[0]), host.read64(targets[1])), (1, 2));
        let events = host.events();
        assert!(events.iter().all(|event| event.queue == 5 && u32::from(event.node) == node));
        assert_eq!(tags(&events), [70, 71, 99]);
        assert_eq!(host.interrupts(), 1, "one message for what one slice reported");
    }
}

#[test]
fn a_privileged_buffer_needs_some_address_space() {
    for entry in [
        RingEntry { commands: VA, size: 16, flags: 0, tag: 0, root: 0 },
        RingEntry { commands: VA, size: 16, flags: OWN, tag: 0, root: 0 },
        RingEntry { commands: VA, size: 16, flags: OWN, tag: 0, root: 0x1008 },
        RingEntry { commands: VA, size: 16, flags: OWN, tag: 0, root: crate::host::VRAM_SIZE },
        RingEntry { commands: VA, size: 16, flags: OWN, tag: 0, root: u64::MAX },
    ] {
        let mut host = Host::new();
        let mut queue = KernelQueue::map(&mut host, 5, NODE_PAGING);
        queue.push(&host, &entry);
        queue.kick(&host);
        let events = host.events();
        assert_eq!(events.len(), 1);
        let info = campanile_hw::event::FaultInfo::from_bits(events[0].data1);
        assert_eq!((events[0].kind, info.kind()), (EventKind::Fault as u8, FaultKind::BadRingEntry as u8));
        assert_eq!(events[0].data0, ram(queue.ring).into_bits());
    }
}

#[test]
fn a_queue_mapped_as_suspended_is_not_looked_at_before_it_is_resumed() {
    let mut host = Host::new();
    let space = host.space();
    let (mut queue, mut descriptor) = host.prepare_queue(0, space);
    host.write_packets(&mut queue, &[]);
    descriptor.flags |= QueueFlags::new().with_suspended(true).into_bits();
    host.write_descriptor(0, &descriptor);
    host.command(Command::MapQueue, 0, 0, 0);
    host.connect(&mut queue, 3);
    host.ring(&queue);
    host.run();
    assert_eq!((host.read_pointer(&queue), host.state(&queue)), (0, 4));
    assert!(host.events().is_empty());
    host.command(Command::ResumeQueue, 0, 0, 0);
    host.run();
    assert_eq!((host.read_pointer(&queue), host.state(&queue)), (1, 0));
}

#[test]
fn suspended_queues_ignore_rings_and_catch_up_when_resumed() {
    let (mut host, _, mut queue) = one_queue();
    let at = host.read64(ram(queue.control_location.address()));
    assert_eq!(at, 0);
    host.connect(&mut queue, 3);
    host.command(Command::SuspendQueue, 0, 0xc00c1e, 0);
    let events = host.events();
    assert_eq!((events[0].kind, events[0].data0, events[0].queue), (EventKind::Suspended as u8, 0xc00c1e, 0));
    assert_eq!(host.state(&queue), 4);
    for value in 1..4 {
        host.submit(&mut queue, &[fill(VA, value)]);
    }
    host.command(Command::KickQueue, 0, 0, 0);
    host.run();
    assert_eq!((host.get(reg::COUNT_RETIRED, 8), host.state(&queue)), (0, 4));
    assert_eq!(host.command(Command::QueryQueue, 0, 0, 0), 4 | 1 << 8, "the doorbell stays connected");
    host.command(Command::ResumeQueue, 0, 0, 0);
    host.run();
    assert_eq!((host.get(reg::COUNT_RETIRED, 8), host.state(&queue)), (3, 0));
    host.submit(&mut queue, &[]);
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 4, "and listens to its doorbell again");
}

#[test]
fn suspending_a_suspended_queue_reports_again() {
    let (mut host, _, _) = one_queue();
    host.command(Command::SuspendQueue, 0, 1, 0);
    host.command(Command::SuspendQueue, 0, 2, 0);
    assert_eq!(host.events().iter().map(|event| event.data0).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_waiting_queue_can_be_suspended_resumed_and_unmapped() {
    let (mut host, space, mut queue) = one_queue();
    let fence = host.leaf(space, FENCE, 4096);
    let fence = ram(campanile_hw::page_table::Pte::from_bits(host.read64(fence)).address());
    host.submit(&mut queue, &[wait(1)]);
    assert_eq!(host.state(&queue), 3);
    host.command(Command::SuspendQueue, 0, 0, 0);
    host.write64(fence, 1);
    host.command(Command::FenceChanged, space.root.into_bits(), FENCE, 0);
    host.run();
    assert_eq!((host.state(&queue), host.get(reg::COUNT_WAITS, 8)), (4, 0));
    host.command(Command::ResumeQueue, 0, 0, 0);
    host.run();
    assert_eq!((host.state(&queue), host.get(reg::COUNT_WAITS, 8)), (0, 1));
    host.submit(&mut queue, &[wait(2)]);
    host.command(Command::UnmapQueue, 0, 0, 0);
    host.write64(fence, 2);
    host.command(Command::RescanWaits, 0, 0, 0);
    assert_eq!(host.run(), 0, "nobody waits any more");
}

#[test]
fn a_waiting_queue_keeps_its_wait_through_a_reset_of_its_node_and_can_be_discarded() {
    let (mut host, space, mut queue) = one_queue();
    let fence = host.leaf(space, FENCE, 4096);
    let fence = ram(campanile_hw::page_table::Pte::from_bits(host.read64(fence)).address());
    host.submit(&mut queue, &[wait(1)]);
    assert_eq!(host.command(Command::ResetNode, u64::from(NODE_COMPUTE), 0, 0), u64::MAX, "a wait runs nothing");
    assert_eq!((host.state(&queue), host.events().len()), (3, 0));
    host.write64(fence, 1);
    host.command(Command::FenceChanged, space.root.into_bits(), FENCE, 0);
    host.run();
    assert_eq!((host.state(&queue), host.get(reg::COUNT_WAITS, 8)), (0, 1));
    // What waits behind a wait can be dropped; the wait itself has begun and stays.
    host.submit(&mut queue, &[wait(2)]);
    host.submit(&mut queue, &[wait(9)]);
    host.command(Command::SuspendQueue, 0, 0, 0);
    assert_eq!(host.command(Command::DiscardQueue, 0, 0, 0), 1);
    host.command(Command::ResumeQueue, 0, 0, 0);
    host.write64(fence, 2);
    host.command(Command::FenceChanged, space.root.into_bits(), FENCE, 0);
    host.run();
    assert_eq!((host.state(&queue), host.get(reg::COUNT_WAITS, 8)), (0, 2));
}

/// A queue in the middle of a COPY of 6 MiB.
fn mid_copy() -> (Host, Space, TestQueue) {
    let (host, space, mut queue) = one_queue();
    let copy = Copy {
        source: VA,
        destination: VA + (1 << 20),
        row_bytes: 1 << 20,
        rows: 6,
        source_pitch: 1 << 20,
        destination_pitch: 1 << 20,
    };
    for row in 0..7u8 {
        host.write(host.locate(space, VA + (u64::from(row) << 20)), &vec![row; 1 << 20]);
    }
    host.write_packets(&mut queue, &[Packet::Copy(copy), fill(VA, 0x5555_5555)]);
    host.ring(&queue);
    assert!(host.gpu.step());
    assert!(host.gpu.step());
    assert_eq!(host.state(&queue), 2, "running");
    (host, space, queue)
}

fn progress_of_copy(host: &Host, space: Space) -> usize {
    // Row after row takes over the first one's bytes.
    (1..7u64).take_while(|row| host.read(host.locate(space, VA + (row << 20)), 1) == [0]).count()
}

#[test]
fn a_copy_suspended_half_way_goes_on_where_it_stopped() {
    let (host, space, queue) = mid_copy();
    host.command(Command::SuspendQueue, 0, 0, 0);
    let done = progress_of_copy(&host, space);
    assert!((1..6).contains(&done), "{done} rows");
    host.run();
    assert_eq!(progress_of_copy(&host, space), done, "nothing moves while suspended");
    // The part that was copied before the suspension is not copied again.
    host.write(host.locate(space, VA), &[9; 16]);
    host.command(Command::ResumeQueue, 0, 0, 0);
    host.run();
    assert_eq!(host.read(host.locate(space, VA + (1 << 20)), 1), [0]);
    assert_eq!(progress_of_copy(&host, space), 6);
    assert_eq!((host.state(&queue), host.get(reg::COUNT_RETIRED, 8)), (0, 1));
}

#[test]
fn an_unmapped_queue_touches_nothing_any_more() {
    let (host, space, queue) = mid_copy();
    host.command(Command::UnmapQueue, 0, 0, 0);
    let done = progress_of_copy(&host, space);
    assert_eq!(host.run(), 0);
    assert_eq!(progress_of_copy(&host, space), done);
    assert_eq!(host.read_pointer(&queue), 0);
    assert_eq!(host.try_command(Command::QueryQueue, 0, 0, 0).0, CommandStatus::BadQueue);
}

#[test]
fn reset_node_stops_the_running_queue_and_no_other() {
    let (mut host, space, queue) = mid_copy();
    let mut waiting = host.queue(1, space, NODE_COMPUTE);
    let mut other_node = host.queue(2, space, NODE_COPY);
    host.write_packets(&mut waiting, &[fill(VA + 8, 1)]);
    host.ring(&waiting);
    assert_eq!(host.command(Command::ResetNode, u64::from(NODE_COMPUTE), 0, 0), 0);
    let done = progress_of_copy(&host, space);
    let (address, info) = host.fault_of(&queue);
    assert_eq!((address, info.kind()), (0, FaultKind::Reset as u8));
    host.submit(&mut other_node, &[Packet::Nop(Nop {})]);
    host.run();
    assert_eq!(progress_of_copy(&host, space), done);
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 2, "the others ran");
    assert_eq!(host.command(Command::ResetNode, u64::from(NODE_COMPUTE), 0, 0), u64::MAX, "nothing running");
    assert!(host.events().is_empty());
}

#[test]
fn discard_drops_what_was_not_started() {
    let (mut host, space, mut queue) = one_queue();
    host.submit(&mut queue, &[wait(1), fill(VA, 1)]);
    host.write_packets(&mut queue, &[fill(VA, 2)]);
    host.write_packets(&mut queue, &[fill(VA, 3)]);
    host.ring(&queue);
    host.command(Command::SuspendQueue, 0, 0, 0);
    // Written while suspended, never announced: dropped too.
    host.write_packets(&mut queue, &[fill(VA, 4)]);
    assert_eq!(host.command(Command::DiscardQueue, 0, 0, 0), 3);
    assert_eq!(host.command(Command::DiscardQueue, 0, 0, 0), 0);
    host.command(Command::ResumeQueue, 0, 0, 0);
    host.write64(host.locate(space, FENCE), 1);
    host.command(Command::RescanWaits, 0, 0, 0);
    host.run();
    assert_eq!(host.read64(host.locate(space, VA)), 1, "the buffer that was begun is finished");
    assert_eq!((host.read_pointer(&queue), host.state(&queue)), (4, 0));
    host.submit(&mut queue, &[fill(VA, 5)]);
    assert_eq!(host.read64(host.locate(space, VA)), 5);
    assert!(host.events().iter().all(|event| event.kind == EventKind::Suspended as u8));
}

#[test]
fn discarding_an_idle_queue_moves_its_read_pointer() {
    let (host, _, mut queue) = one_queue();
    host.command(Command::SuspendQueue, 0, 0, 0);
    host.write_packets(&mut queue, &[]);
    host.write_packets(&mut queue, &[]);
    assert_eq!(host.command(Command::DiscardQueue, 0, 0, 0), 2);
    assert_eq!(host.read_pointer(&queue), 2);
}

/// Order in which queues ran, by timestamps they wrote.
fn order(host: &Host, space: Space, slots: &[u64]) -> Vec<usize> {
    let mut stamps: Vec<(u64, usize)> = slots
        .iter()
        .enumerate()
        .map(|(index, slot)| {
            let at = host.locate(space, VA);
            (host.read64(at.with_address(at.address() + slot * 8)), index)
        })
        .collect();
    stamps.sort_unstable();
    stamps.into_iter().map(|(_, index)| index).collect()
}

fn stamp(slot: u64) -> Packet {
    Packet::Timestamp(Timestamp { destination: VA + slot * 8 })
}

#[test]
fn higher_bands_run_first() {
    let mut host = Host::new();
    let space = host.space();
    host.map_new_ram(space, VA, 4096);
    for band in 0..4u32 {
        let (mut queue, mut descriptor) = host.prepare_queue(band, space);
        descriptor.rank = band;
        host.write_descriptor(band, &descriptor);
        host.write_packets(&mut queue, &[stamp(u64::from(band))]);
        host.command(Command::MapQueue, u64::from(band), 0, 0);
    }
    host.run();
    assert_eq!(order(&host, space, &[0, 1, 2, 3]), [3, 2, 1, 0]);
}

#[test]
fn a_higher_band_takes_the_node_between_slices() {
    let (mut host, space, low) = mid_copy();
    let mut high = host.queue_with(1, space, |descriptor| descriptor.rank = 2);
    host.write_packets(&mut high, &[Packet::Nop(Nop {})]);
    host.ring(&high);
    while host.get(reg::COUNT_RETIRED, 8) == 0 {
        assert!(host.gpu.step());
    }
    assert_eq!((host.read_pointer(&high), host.read_pointer(&low)), (1, 0));
    host.run();
    assert_eq!(host.read_pointer(&low), 1);
}

#[test]
fn queues_of_one_band_alternate_of_their_quantum() {
    let mut host = Host::new();
    let space = host.space();
    host.map_new_ram(space, VA, 4096);
    let quanta = [3u64, 5];
    for (number, quantum) in quanta.iter().enumerate() {
        let number = number as u32;
        let (mut queue, mut descriptor) = host.prepare_queue(number, space);
        descriptor.quantum = *quantum as u32;
        host.write_descriptor(number, &descriptor);
        let packets: Vec<Packet> = (0..15).map(|slot| stamp(u64::from(number) * 15 + slot)).collect();
        host.write_packets(&mut queue, &packets);
        host.command(Command::MapQueue, u64::from(number), 0, 0);
    }
    host.run();
    let order = order(&host, space, &(0..30).collect::<Vec<_>>());
    let ran: Vec<usize> = order.iter().map(|slot| slot / 15).collect();
    let slices: Vec<usize> = ran.chunk_by(|left, right| left == right).map(<[usize]>::len).collect();
    assert_eq!(slices, [3, 5, 3, 5, 3, 5, 6]);
}

#[test]
fn queue_states_are_reported() {
    let (host, space, mut queue) = one_queue();
    assert_eq!(host.command(Command::QueryQueue, 0, 0, 0), 0);
    host.connect(&mut queue, 5);
    assert_eq!(host.command(Command::QueryQueue, 0, 0, 0), 1 << 8);
    host.write_packets(&mut queue, &[wait(1)]);
    host.command(Command::KickQueue, 0, 0, 0);
    assert_eq!(host.state(&queue), 1);
    assert_eq!(host.get(reg::NODE_BUSY, 4), 1);
    host.run();
    assert_eq!(host.state(&queue), 3);
    assert_eq!(host.get(reg::NODE_BUSY, 4), 0);
    host.write64(host.locate(space, FENCE), 1);
    host.command(Command::FenceChanged, space.root.into_bits(), FENCE, 0);
    assert_eq!(host.state(&queue), 1, "released, not yet run");
    host.run();
    assert_eq!(host.state(&queue), 0);
}

#[test]
fn the_read_pointer_may_not_be_writable() {
    let (mut host, space, mut queue) = one_queue();
    let leaf = host.leaf(space, queue.control, 4096);
    let entry = campanile_hw::page_table::Pte::from_bits(host.read64(leaf)).with_read_only(true);
    host.write64(leaf, entry.into_bits());
    host.command(Command::InvalidateTlb, space.root.into_bits(), 0, 0);
    host.submit(&mut queue, &[]);
    let (address, info) = host.fault_of(&queue);
    assert_eq!((address, info.kind()), (queue.control + 0x40, FaultKind::ReadOnly as u8));
}

#[test]
fn stopping_the_scheduler_holds_queues_and_starting_lets_them_go_on() {
    let (mut host, _, mut queue) = one_queue();
    host.connect(&mut queue, 0);
    host.set(reg::CONTROL, 4, 0);
    host.write_packets(&mut queue, &[]);
    host.ring(&queue);
    assert_eq!(host.run(), 0);
    host.set(reg::CONTROL, 4, 1);
    host.run();
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 1);
    assert!(host.events().is_empty());
}

#[test]
fn a_kick_faults_a_queue_whose_write_pointer_cannot_be_read_unless_it_is_suspended() {
    let mut host = Host::new();
    let space = host.space();
    let [suspended, idle] = [1, 2].map(|number| host.queue(number, space, NODE_COMPUTE));
    host.command(Command::SuspendQueue, 1, 0, 0);
    for queue in [&suspended, &idle] {
        let leaf = host.leaf(space, queue.control, PAGE_4K);
        host.write64(leaf, 0);
    }
    host.command(Command::InvalidateTlb, space.root.into_bits(), 0, 0);
    drop(host.events());
    host.command(Command::KickQueue, 1, 0, 0);
    host.command(Command::KickQueue, 2, 0, 0);
    let (address, info) = host.fault_of(&idle);
    assert_eq!((address, info.kind()), (idle.control, FaultKind::PageFault as u8));
    assert_eq!(host.state(&suspended), 4, "nothing of a suspended queue need be there");
    assert_eq!(host.try_command(Command::KickQueue, 2, 0, 0).0, CommandStatus::BadState);
}

//! The variant whose scheduler reaches fences through the paging process.

use crate::host::{Host, Space, TestQueue, small_variant};
use campanile_device::Variant;
use campanile_hw::event::{EventKind, FaultKind};
use campanile_hw::log::{LogEntry, LogKind, LogTarget, entry_offset};
use campanile_hw::packet::{Packet, Progress, Signal, Wait};
use campanile_hw::page_table::{PAGE_4K, Pte};
use campanile_hw::queue::{Location, QueueFlags};
use campanile_hw::registers::{self as reg, Caps, Command, CommandStatus};

/// Where the process knows its fence: it has other pages there, with the rights that it shall have.
const PROCESS: (u64, u64) = (0x50_0000_0000, 0x50_0000_1000);
/// Addresses of the fence's current and monitored value in the paging process.
const SYSTEM: (u64, u64) = (0x60_0000_0000, 0x60_0000_1000);
const LOG: u64 = 0x61_0000_0000;

fn variant() -> Variant {
    Variant { system_process_fences: true, ..small_variant() }
}

/// A function with a paging process that has one fence; where its values are.
struct Rig {
    host: Host,
    paging: Space,
    space: Space,
    current: Location,
    monitored: Location,
    /// Page that the process has mapped at the same address at which the paging process has the current value.
    own: Location,
}

impl Rig {
    fn new() -> Self {
        Self::of(&variant())
    }

    fn of(variant: &Variant) -> Self {
        let mut host = Host::with(variant);
        let (paging, space) = (host.space(), host.space());
        let current = host.map_new_ram(paging, SYSTEM.0, 4096);
        let monitored = host.map_new_ram(paging, SYSTEM.1, 4096);
        host.write64(monitored, u64::MAX);
        host.set(reg::PAGING_ROOT, 8, paging.root.into_bits());
        let own = host.map_new_ram(space, PROCESS.0, 4096);
        host.map_new_ram(space, PROCESS.1, 4096);
        Self { host, paging, space, current, monitored, own }
    }

    fn map(&self) {
        assert_eq!(self.host.try_map_fence(self.space, PROCESS, SYSTEM), CommandStatus::Done);
    }

    /// Takes the page of the current value out of the paging process.
    fn break_mapping(&mut self) {
        let leaf = self.host.leaf(self.paging, SYSTEM.0, PAGE_4K);
        self.host.write64(leaf, 0);
        self.host.command(Command::InvalidateTlb, self.paging.root.into_bits(), 0, 0);
    }

    fn queue(&mut self, number: u32) -> TestQueue {
        self.host.queue(number, self.space, reg::NODE_COMPUTE)
    }
}

fn signal(value: u64) -> Packet {
    Packet::Signal(Signal { handle: 7, current: PROCESS.0, monitored: PROCESS.1, value })
}

fn wait(value: u64) -> Packet {
    Packet::Wait(Wait { handle: 7, current: PROCESS.0, value })
}

fn kind(host: &mut Host, queue: &TestQueue) -> (u64, Option<FaultKind>) {
    let (address, info) = host.fault_of(queue);
    (address, FaultKind::from_number(info.kind()))
}

#[test]
fn the_variant_shows_itself_and_others_know_nothing_of_it() {
    for (fences, limit) in [(true, 1 << 18), (false, 0)] {
        let host = Host::with(&Variant { system_process_fences: fences, ..small_variant() });
        assert_eq!(Caps::from_bits(host.get(reg::CAPS, 4) as u32).system_process_fences(), fences);
        assert_eq!(host.get(reg::FENCE_LIMIT, 4), limit);
    }
    let mut host = Host::new();
    let space = host.space();
    host.set(reg::PAGING_ROOT, 8, space.root.into_bits());
    assert_eq!(host.try_map_fence(space, PROCESS, SYSTEM), CommandStatus::UnknownCommand);
    let unmapped = host.try_command(Command::UnmapFence, space.root.into_bits(), PROCESS.0, 0).0;
    assert_eq!(unmapped, CommandStatus::UnknownCommand);
    // The values are where the packet says, in the process of the queue.
    let current = host.map_new_ram(space, PROCESS.0, 4096);
    host.map_new_ram(space, PROCESS.1, 4096);
    let mut queue = host.queue(0, space, reg::NODE_COMPUTE);
    host.submit(&mut queue, &[signal(5), wait(5)]);
    assert_eq!((host.read64(current), host.gpu.activity().system_fences), (5, 0));
}

#[test]
fn signals_and_waits_reach_a_fence_where_the_paging_process_has_it() {
    let mut rig = Rig::new();
    rig.map();
    let mut queue = rig.queue(0);
    rig.host.submit(&mut queue, &[signal(5), wait(5)]);
    assert_eq!((rig.host.read64(rig.current), rig.host.read_pointer(&queue)), (5, 1));
    assert_eq!(rig.host.read64(rig.own), 0, "the process' page is not what is written");
    assert_eq!(rig.host.gpu.activity().system_fences, 2);
    assert!(rig.host.events().is_empty(), "nobody waits");
    rig.host.write64(rig.monitored, 5);
    rig.host.submit(&mut queue, &[signal(6)]);
    let events = rig.host.events();
    assert_eq!(events.len(), 1);
    assert_eq!(EventKind::from_number(events[0].kind), Some(EventKind::FenceSignaled));
    assert_eq!((events[0].data0, events[0].data1), (PROCESS.0, 6), "the fence as its process knows it");
    // A wait is released by a signal of another process that has the fence elsewhere.
    rig.host.submit(&mut queue, &[wait(9)]);
    let other = rig.host.space();
    let elsewhere = (PROCESS.0 + 0x1_0000, PROCESS.1 + 0x1_0000);
    assert_eq!(rig.host.try_map_fence(other, elsewhere, SYSTEM), CommandStatus::Done);
    rig.host.map_new_ram(other, elsewhere.0, 4096);
    let mut signaller = rig.host.queue(1, other, reg::NODE_COPY);
    let packet = Signal { handle: 0, current: elsewhere.0, monitored: elsewhere.1, value: 9 };
    rig.host.submit(&mut signaller, &[Packet::Signal(packet)]);
    assert_eq!(rig.host.read_pointer(&queue), 3);
}

#[test]
fn a_broken_mapping_of_the_paging_process_faults_though_the_process_has_the_fence() {
    let mut rig = Rig::new();
    rig.map();
    let own = rig.own;
    let mut queues: Vec<TestQueue> = (0..2).map(|number| rig.queue(number)).collect();
    rig.host.submit(&mut queues[0], &[signal(1)]);
    assert_eq!(
        (rig.host.read64(own), rig.host.read64(rig.current)),
        (0, 1),
        "the process' page is not what is written"
    );
    rig.break_mapping();
    for (queue, packet) in queues.iter_mut().zip([signal(2), wait(1)]) {
        rig.host.submit(queue, &[packet]);
        assert_eq!(kind(&mut rig.host, queue), (SYSTEM.0, Some(FaultKind::PageFault)));
    }
    assert_eq!(rig.host.read64(own), 0);
}

#[test]
fn a_fence_that_is_not_known_faults_and_a_plain_word_does_not() {
    let mut rig = Rig::new();
    let own = rig.own;
    let mut word = rig.queue(0);
    rig.host.submit(&mut word, &[Packet::Signal(Signal { handle: 0, current: PROCESS.0, monitored: 0, value: 3 })]);
    assert_eq!((rig.host.read64(own), rig.host.read_pointer(&word)), (3, 1));
    for (number, packet, address) in [(1, signal(4), PROCESS.0), (2, wait(0), PROCESS.0)] {
        let mut queue = rig.queue(number);
        rig.host.submit(&mut queue, &[packet]);
        assert_eq!(kind(&mut rig.host, &queue), (address, Some(FaultKind::PageFault)));
    }
    rig.map();
    // Another monitored value than the fence's own, and the same address in another process.
    let mut forger = rig.queue(3);
    let forged = Signal { handle: 0, current: PROCESS.0, monitored: PROCESS.1 + 8, value: 4 };
    rig.host.submit(&mut forger, &[Packet::Signal(forged)]);
    assert_eq!(kind(&mut rig.host, &forger), (PROCESS.1 + 8, Some(FaultKind::PageFault)));
    let other = rig.host.space();
    let mut stranger = rig.host.queue(4, other, reg::NODE_COPY);
    rig.host.submit(&mut stranger, &[signal(4)]);
    assert_eq!(kind(&mut rig.host, &stranger), (PROCESS.0, Some(FaultKind::PageFault)));
    assert_eq!((rig.host.read64(own), rig.host.read64(rig.current)), (3, 0));
}

#[test]
fn the_paging_process_decides_what_may_be_written() {
    let mut rig = Rig::new();
    rig.map();
    let page = rig.current;
    rig.host.map_pages(rig.paging, SYSTEM.0, page, 4096, PAGE_4K, Pte::new().with_read_only(true));
    rig.host.command(Command::InvalidateTlb, rig.paging.root.into_bits(), 0, 0);
    let mut queue = rig.queue(0);
    rig.host.submit(&mut queue, &[wait(0), signal(1)]);
    assert_eq!(kind(&mut rig.host, &queue), (SYSTEM.0, Some(FaultKind::ReadOnly)));
}

#[test]
fn the_process_may_do_with_a_fence_what_its_own_page_tables_allow() {
    let mut rig = Rig::new();
    rig.map();
    rig.host.map_pages(rig.space, PROCESS.0, rig.own, 4096, PAGE_4K, Pte::new().with_read_only(true));
    rig.host.command(Command::InvalidateTlb, rig.space.root.into_bits(), 0, 0);
    let mut reader = rig.queue(0);
    rig.host.submit(&mut reader, &[wait(0), signal(1)]);
    assert_eq!(kind(&mut rig.host, &reader), (PROCESS.0, Some(FaultKind::ReadOnly)));
    assert_eq!(rig.host.gpu.activity().system_fences, 1, "the wait was allowed");
    let leaf = rig.host.leaf(rig.space, PROCESS.0, PAGE_4K);
    rig.host.write64(leaf, 0);
    rig.host.command(Command::InvalidateTlb, rig.space.root.into_bits(), 0, 0);
    for (number, packet) in [(1, wait(0)), (2, signal(1))] {
        let mut queue = rig.queue(number);
        rig.host.submit(&mut queue, &[packet]);
        assert_eq!(kind(&mut rig.host, &queue), (PROCESS.0, Some(FaultKind::PageFault)));
    }
    assert_eq!(rig.host.read64(rig.current), 0);
}

#[test]
fn native_progress_goes_through_the_paging_process_and_monitored_progress_does_not() {
    let mut rig = Rig::new();
    rig.map();
    let own = rig.own;
    for (number, native) in [(0, true), (1, false)] {
        let mut queue = rig.host.queue_with(number, rig.space, |descriptor| {
            descriptor.flags = QueueFlags::new().with_native_progress(native).into_bits();
            descriptor.progress_current = PROCESS.0;
            descriptor.progress_monitored = if native { PROCESS.1 } else { 0 };
        });
        rig.host.submit(&mut queue, &[Packet::Progress(Progress { handle: 0, value: 8 + u64::from(number) })]);
    }
    assert_eq!((rig.host.read64(rig.current), rig.host.read64(own)), (8, 9));
    let kinds: Vec<_> = rig.host.events().iter().map(|event| EventKind::from_number(event.kind)).collect();
    assert_eq!(kinds, [Some(EventKind::Progress)], "native progress is compared");
    let unknown = rig.host.command(Command::UnmapFence, rig.space.root.into_bits(), PROCESS.0, 0);
    assert_eq!(unknown, 0);
    let mut queue = rig.host.queue_with(2, rig.space, |descriptor| {
        descriptor.flags = QueueFlags::new().with_native_progress(true).into_bits();
        (descriptor.progress_current, descriptor.progress_monitored) = PROCESS;
    });
    rig.host.submit(&mut queue, &[Packet::Progress(Progress { handle: 0, value: 10 })]);
    assert_eq!(kind(&mut rig.host, &queue), (PROCESS.0, Some(FaultKind::PageFault)));
}

#[test]
fn logs_lie_in_the_paging_process() {
    let mut rig = Rig::new();
    rig.map();
    let at = rig.host.map_new_ram(rig.paging, LOG, 4096);
    let own = rig.host.map_new_ram(rig.space, LOG + 0x10_0000, 4096);
    let mut queue = rig.queue(0);
    let target = LogTarget::new().with_queue(0).with_kind(LogKind::Signals as u8).into_bits();
    let elsewhere = rig.host.try_command(Command::SetFenceLog, target, LOG + 0x10_0000, 84).0;
    assert_eq!(elsewhere, CommandStatus::PageFault, "an address of the queue's own process");
    rig.host.command(Command::SetFenceLog, target, LOG, 84);
    rig.host.submit(&mut queue, &[signal(5)]);
    let bytes =
        rig.host.read(Location::new().with_system(true).with_address(at.address() + entry_offset(0)), LogEntry::SIZE);
    let entry = LogEntry::from_bytes(&bytes.try_into().expect("an entry"));
    assert_eq!((entry.value, entry.handle, rig.host.read64(own)), (5, 7, 0));
    // A log of the descriptor lies there too.
    let logged = rig.host.queue_with(1, rig.space, |descriptor| {
        (descriptor.signal_log, descriptor.signal_log_entries) = (LOG, 84);
    });
    assert_eq!(logged.number, 1);
}

#[test]
fn a_fence_that_is_unmapped_is_not_touched_and_its_waiters_fault_when_they_look() {
    let mut rig = Rig::new();
    rig.map();
    let (mut waiter, mut signaller) = (rig.queue(0), rig.queue(1));
    rig.host.submit(&mut waiter, &[wait(1)]);
    rig.host.command(Command::UnmapFence, rig.space.root.into_bits(), PROCESS.0, 0);
    let again = rig.host.try_command(Command::UnmapFence, rig.space.root.into_bits(), PROCESS.0, 0).0;
    assert_eq!(again, CommandStatus::BadArgument);
    rig.host.submit(&mut signaller, &[signal(1)]);
    assert_eq!(kind(&mut rig.host, &signaller), (PROCESS.0, Some(FaultKind::PageFault)));
    assert_eq!(rig.host.read64(rig.current), 0);
    rig.host.command(Command::RescanWaits, 0, 0, 0);
    rig.host.run();
    assert_eq!(kind(&mut rig.host, &waiter), (PROCESS.0, Some(FaultKind::PageFault)));
}

#[test]
fn a_signal_of_the_cpu_is_announced_by_the_address_in_the_paging_process() {
    let mut rig = Rig::new();
    rig.map();
    let mut queue = rig.queue(0);
    rig.host.submit(&mut queue, &[wait(4)]);
    rig.host.write64(rig.current, 4);
    rig.host.command(Command::FenceChanged, rig.paging.root.into_bits(), SYSTEM.0, 0);
    rig.host.run();
    assert_eq!(rig.host.read_pointer(&queue), 1);
}

#[test]
fn bad_arguments_full_tables_and_a_missing_paging_process_are_refused() {
    let mut rig = Rig::of(&Variant { fence_limit: 3, ..variant() });
    let bad = [0, 4, 1 << 48, u64::MAX];
    for address in bad {
        for (process, system) in [
            ((address, PROCESS.1), SYSTEM),
            ((PROCESS.0, address), SYSTEM),
            (PROCESS, (address, SYSTEM.1)),
            (PROCESS, (SYSTEM.0, address)),
        ] {
            assert_eq!(rig.host.try_map_fence(rig.space, process, system), CommandStatus::BadArgument, "{address:#x}");
        }
    }
    let nowhere = Space { root: Location::new().with_address(0x123) };
    assert_eq!(rig.host.try_map_fence(nowhere, PROCESS, SYSTEM), CommandStatus::BadArgument);
    rig.map();
    assert_eq!(rig.host.try_map_fence(rig.space, PROCESS, SYSTEM), CommandStatus::BadState, "twice");
    for number in 1..3 {
        let place = (PROCESS.0 + 8 * number, PROCESS.1 + 8 * number);
        assert_eq!(rig.host.try_map_fence(rig.space, place, SYSTEM), CommandStatus::Done);
    }
    let one_more = (PROCESS.0 + 64, PROCESS.1 + 64);
    assert_eq!(rig.host.try_map_fence(rig.space, one_more, SYSTEM), CommandStatus::TableFull);
    rig.host.command(Command::UnmapFence, rig.space.root.into_bits(), PROCESS.0, 0);
    assert_eq!(rig.host.try_map_fence(rig.space, one_more, SYSTEM), CommandStatus::Done);
    for root in [0, 0x123, 1 << 53 | 0x1000] {
        rig.host.set(reg::PAGING_ROOT, 8, root);
        assert_eq!(rig.host.get(reg::PAGING_ROOT, 8), root);
        let refused = rig.host.try_map_fence(rig.space, PROCESS, SYSTEM);
        assert_eq!(refused, CommandStatus::BadState, "no paging process at {root:#x}");
    }
    // A reset forgets fences and paging process.
    rig.host.set(reg::CONTROL, 4, 2);
    assert_eq!(rig.host.get(reg::PAGING_ROOT, 8), 0);
    rig.host.start();
    rig.host.set(reg::PAGING_ROOT, 8, rig.paging.root.into_bits());
    for number in 0..3 {
        let place = (PROCESS.0 + 8 * number, PROCESS.1 + 8 * number);
        assert_eq!(rig.host.try_map_fence(rig.space, place, SYSTEM), CommandStatus::Done);
    }
    let unlimited = campanile_device::Gpu::new(&Variant { fence_limit: 0, ..variant() });
    assert!(unlimited.is_err_and(|error| error.to_string().contains("fence_limit")));
}

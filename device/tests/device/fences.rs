//! Signals, waits and progress: across queues, nodes and address spaces, and what the CPU is told.

use crate::host::{Host, Space, TestQueue, ram, small_variant};
use campanile_device::Variant;
use campanile_hw::event::EventKind;
use campanile_hw::packet::{Fill, Packet, Progress, Signal, Wait};
use campanile_hw::page_table::{PAGE_4K, Pte};
use campanile_hw::queue::{Location, QueueFlags};
use campanile_hw::registers::{self as reg, Command, NODE_COMPUTE, NODE_COPY};

const FENCE: u64 = 0x50_0000_0000;
const MONITORED: u64 = FENCE + 2048;

fn signal(value: u64) -> Packet {
    Packet::Signal(Signal { handle: 0x11, current: FENCE, monitored: MONITORED, value })
}

fn wait(value: u64) -> Packet {
    Packet::Wait(Wait { handle: 0x11, current: FENCE, value })
}

/// A fence nobody watches, in one address space.
fn fence() -> (Host, Space, Location) {
    let mut host = Host::new();
    let space = host.space();
    let at = host.map_new_ram(space, FENCE, 4096);
    host.write64(monitored(at), u64::MAX);
    (host, space, at)
}

fn monitored(fence: Location) -> Location {
    fence.with_address(fence.address() + 2048)
}

#[test]
fn with_the_optimised_interrupt_an_event_names_the_queue_only() {
    let mut host = Host::with(&Variant { optimised_fence_interrupt: true, ..small_variant() });
    let caps = reg::Caps::from_bits(host.get(reg::CAPS, 4) as u32);
    assert!(
        caps.optimised_fence_interrupt()
            && !reg::Caps::from_bits(Host::new().get(reg::CAPS, 4) as u32).optimised_fence_interrupt()
    );
    let space = host.space();
    let at = host.map_new_ram(space, FENCE, 4096);
    host.write64(monitored(at), 0);
    let mut queue = host.queue(3, space, NODE_COPY);
    host.submit(&mut queue, &[signal(7)]);
    assert_eq!(host.read64(at), 7);
    let told: Vec<_> = host.events().iter().map(|e| (e.kind, e.node, e.queue, e.data0, e.data1)).collect();
    assert_eq!(told, [(EventKind::FenceSignaled as u8, NODE_COPY as u8, 3, 0, 0)]);
}

#[test]
fn with_one_event_for_both_kinds_it_tells_neither_the_fence_nor_its_kind() {
    for one_fence_event in [true, false] {
        let mut host = Host::with(&Variant { one_fence_event, ..small_variant() });
        let caps = reg::Caps::from_bits(host.get(reg::CAPS, 4) as u32);
        assert_eq!(caps.one_fence_event(), one_fence_event);
        let space = host.space();
        let at = host.map_new_ram(space, FENCE, 4096);
        host.write64(monitored(at), 0);
        let mut queue = host.queue(3, space, NODE_COPY);
        host.submit(&mut queue, &[signal(7)]);
        let told: Vec<_> = host.events().iter().map(|e| (e.kind, e.queue, e.data0, e.data1)).collect();
        let data = if one_fence_event { (0, 0) } else { (FENCE, 7) };
        assert_eq!(told, [(EventKind::FenceSignaled as u8, 3, data.0, data.1)]);
    }
}

#[test]
fn a_signal_writes_the_value_and_tells_a_cpu_only_past_the_monitored_value() {
    let (mut host, space, at) = fence();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    for (watched, value, told) in [
        (0, 0, false),
        (u64::MAX, 1, false),
        (5, 5, false),
        (5, 6, true),
        (0, 7, true),
        (u64::MAX - 1, u64::MAX, true),
        (u64::MAX, u64::MAX, false),
    ] {
        host.write64(monitored(at), watched);
        host.submit(&mut queue, &[signal(value)]);
        assert_eq!(host.read64(at), value);
        let events = host.events();
        assert_eq!(events.len(), usize::from(told), "monitored {watched}, value {value}");
        if let [event] = events.as_slice() {
            assert_eq!(event.kind, EventKind::FenceSignaled as u8);
            assert_eq!((event.data0, event.data1, event.queue), (FENCE, value, 0));
        }
    }
    assert_eq!(host.get(reg::COUNT_SIGNALS, 8), 7);
    assert_eq!(host.get(reg::COUNT_INTERRUPTS, 8), host.interrupts());
}

#[test]
fn a_signal_without_a_monitored_value_tells_nobody() {
    let (mut host, space, at) = fence();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    host.submit(&mut queue, &[Packet::Signal(Signal { handle: 0, current: FENCE, monitored: 0, value: 9 })]);
    assert_eq!(host.read64(at), 9);
    assert!(host.events().is_empty());
}

#[test]
fn a_million_unwatched_signals_raise_no_event() {
    let (mut host, space, at) = fence();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    let packets: Vec<Packet> = (1..=2000).map(|_| signal(2000)).collect();
    let bytes = crate::host::encode(&packets);
    let commands = host.write_commands(&mut queue, &bytes);
    let entry = campanile_hw::queue::RingEntry { commands, size: bytes.len() as u32, flags: 0, tag: 0, root: 0 };
    for _ in 0..10 {
        for _ in 0..50 {
            host.write_entry(&mut queue, &entry);
        }
        host.ring(&queue);
        host.run();
    }
    assert_eq!(host.get(reg::COUNT_SIGNALS, 8), 1_000_000);
    assert_eq!(host.read64(at), 2000);
    assert!(host.events().is_empty());
    assert_eq!((host.interrupts(), host.overflows()), (0, 0));
}

#[test]
fn a_wait_for_a_value_already_passed_holds_nobody() {
    let (mut host, space, at) = fence();
    host.write64(at, 10);
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    host.submit(&mut queue, &[wait(0), wait(9), wait(10)]);
    assert_eq!((host.state(&queue), host.get(reg::COUNT_WAITS, 8)), (0, 3));
}

#[test]
fn a_wait_before_the_signal_holds_the_queue_until_it_comes_from_another_node() {
    let (mut host, space, _) = fence();
    let mut waiter = host.queue(0, space, NODE_COMPUTE);
    let mut signaller = host.queue(1, space, NODE_COPY);
    let out = host.map_new_ram(space, 0x1000, 4096);
    host.submit(&mut waiter, &[wait(3), Packet::Fill(Fill { destination: 0x1000, size: 4, pattern: 1 })]);
    for value in 1..=3 {
        assert_eq!((host.state(&waiter), host.read64(out)), (3, 0));
        host.submit(&mut signaller, &[signal(value)]);
    }
    assert_eq!((host.state(&waiter), host.read64(out)), (0, 1));
    assert_eq!(host.get(reg::COUNT_WAITS, 8), 1);
    assert!(host.events().is_empty(), "no CPU took part");
}

#[test]
fn a_wait_and_its_signal_on_one_node_do_not_block_each_other() {
    let (mut host, space, _) = fence();
    let mut waiter = host.queue(0, space, NODE_COMPUTE);
    let mut signaller = host.queue(1, space, NODE_COMPUTE);
    host.submit(&mut waiter, &[wait(1)]);
    host.submit(&mut signaller, &[signal(1)]);
    assert_eq!((host.state(&waiter), host.state(&signaller)), (0, 0));
}

#[test]
fn one_signal_releases_exactly_the_queues_whose_value_is_reached() {
    let (mut host, space, _) = fence();
    let mut signaller = host.queue(99, space, NODE_COPY);
    let mut waiters: Vec<TestQueue> = (0..10).map(|number| host.queue(number, space, NODE_COMPUTE)).collect();
    for (value, waiter) in (1..).zip(&mut waiters) {
        host.submit(waiter, &[wait(value)]);
    }
    for reached in [3u64, 3, 7, 10] {
        host.submit(&mut signaller, &[signal(reached)]);
        for (value, waiter) in (1..).zip(&waiters) {
            assert_eq!(host.state(waiter), if value <= reached { 0 } else { 3 }, "wait for {value} at {reached}");
        }
    }
}

#[test]
fn a_fence_shared_by_two_address_spaces_at_different_addresses_is_one_fence() {
    let (mut host, first, at) = fence();
    let second = host.space();
    let other = 0x7_0000_0000;
    host.map_pages(second, other, at, 4096, PAGE_4K, Pte::new().with_read_only(true));
    let mut signaller = host.queue(0, first, NODE_COMPUTE);
    let mut waiter = host.queue(1, second, NODE_COPY);
    host.submit(&mut waiter, &[Packet::Wait(Wait { handle: 0, current: other + 8, value: 1 })]);
    assert_eq!(host.state(&waiter), 3);
    host.submit(&mut signaller, &[signal(1)]);
    assert_eq!(host.state(&waiter), 3, "another word of the page");
    let next = Signal { handle: 0, current: FENCE + 8, monitored: 0, value: 1 };
    host.submit(&mut signaller, &[Packet::Signal(next)]);
    assert_eq!(host.state(&waiter), 0);
}

#[test]
fn a_value_written_by_the_cpu_is_seen_when_the_function_is_told() {
    let (mut host, space, at) = fence();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    let mut other = host.queue(1, space, NODE_COPY);
    host.submit(&mut queue, &[wait(5), wait(6)]);
    host.submit(&mut other, &[Packet::Wait(Wait { handle: 0, current: FENCE + 8, value: 1 })]);
    let root = space.root.into_bits();
    host.write64(at, 4);
    host.command(Command::FenceChanged, root, FENCE, 0);
    host.run();
    assert_eq!(host.get(reg::COUNT_WAITS, 8), 0);
    host.write64(at, 5);
    host.run();
    assert_eq!(host.get(reg::COUNT_WAITS, 8), 0, "a plain store wakes nobody");
    host.command(Command::FenceChanged, root, FENCE, 0);
    host.run();
    assert_eq!((host.get(reg::COUNT_WAITS, 8), host.state(&queue)), (1, 3));
    host.write64(at, 6);
    host.write64(at.with_address(at.address() + 8), 1);
    host.command(Command::RescanWaits, 0, 0, 0);
    host.run();
    assert_eq!((host.state(&queue), host.state(&other)), (0, 0));
}

#[test]
fn a_wait_on_memory_that_goes_away_faults_when_it_is_looked_at() {
    let (mut host, space, at) = fence();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    host.submit(&mut queue, &[wait(5)]);
    host.gpu.unmap_dma(at.address(), 4096);
    host.command(Command::RescanWaits, 0, 0, 0);
    host.run();
    let (address, _) = host.fault_of(&queue);
    assert_eq!(address, at.address());
}

#[test]
fn a_signal_of_a_smaller_value_is_a_signal_like_any_other() {
    let (mut host, space, at) = fence();
    let mut signaller = host.queue(0, space, NODE_COMPUTE);
    host.write64(monitored(at), 0);
    host.submit(&mut signaller, &[signal(10), signal(10)]);
    assert_eq!(host.events().len(), 2, "the value that is there already is a signal");
    let mut waiter = host.queue(1, space, NODE_COPY);
    host.submit(&mut waiter, &[wait(11)]);
    host.submit(&mut signaller, &[signal(2)]);
    assert_eq!((host.read64(at), host.state(&waiter)), (2, 3));
    let events = host.events();
    assert_eq!((events.len(), events[0].data1), (1, 2), "it is past the monitored value");
    host.write64(monitored(at), 2);
    host.submit(&mut signaller, &[signal(1), signal(2)]);
    assert_eq!(host.events().len(), 0, "neither is past it");
    host.submit(&mut signaller, &[signal(11)]);
    assert_eq!((host.state(&waiter), host.get(reg::COUNT_SIGNALS, 8)), (0, 6));
}

#[test]
fn waits_use_what_they_find_when_a_cpu_took_the_value_back() {
    let (mut host, space, at) = fence();
    let mut waiter = host.queue(1, space, NODE_COPY);
    host.write64(at, 10);
    host.submit(&mut waiter, &[wait(10)]);
    host.write64(at, 2);
    host.submit(&mut waiter, &[wait(5)]);
    assert_eq!(host.state(&waiter), 3);
}

#[test]
fn a_fence_that_is_signalled_for_good_stays_so() {
    let (mut host, space, at) = fence();
    let mut signaller = host.queue(0, space, NODE_COMPUTE);
    host.write64(at, u64::MAX);
    host.write64(monitored(at), 5);
    host.submit(&mut signaller, &[signal(2), signal(1)]);
    assert_eq!((host.read64(at), host.get(reg::COUNT_SIGNALS, 8)), (u64::MAX, 2));
    let events = host.events();
    let values: Vec<_> = events.iter().map(|event| event.data1).collect();
    assert_eq!(values, [2, 1], "what is compared with the monitored value is what the fence has");
}

#[test]
fn a_word_that_is_named_as_no_fence_takes_any_value() {
    let (mut host, space, at) = fence();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    let word = |value| Packet::Signal(Signal { handle: 0, current: FENCE, monitored: 0, value });
    host.submit(&mut queue, &[word(10), word(2)]);
    assert_eq!(host.read64(at), 2);
    host.submit(&mut queue, &[word(u64::MAX), word(3)]);
    assert_eq!(host.read64(at), 3, "all ones are a value like any");
    let by_handle = |value| Packet::Signal(Signal { handle: 1, current: FENCE, monitored: 0, value });
    host.submit(&mut queue, &[by_handle(u64::MAX), by_handle(1)]);
    assert_eq!(host.read64(at), u64::MAX, "a handle makes it a fence");
}

#[test]
fn progress_without_a_native_fence_reports_every_value() {
    let (mut host, space, at) = fence();
    let mut queue = host.queue_with(4, space, |descriptor| descriptor.progress_current = FENCE);
    host.submit(
        &mut queue,
        &[Packet::Progress(Progress { handle: 0, value: 1 }), Packet::Progress(Progress { handle: 0, value: 2 })],
    );
    assert_eq!(host.read64(at), 2);
    let events = host.events();
    assert!(events.iter().all(|event| event.kind == EventKind::Progress as u8 && event.queue == 4));
    assert_eq!(events.iter().map(|event| (event.data0, event.data1)).collect::<Vec<_>>(), [(FENCE, 1), (FENCE, 2)]);
    assert_eq!(host.get(reg::COUNT_SIGNALS, 8), 0, "PROGRESS is no SIGNAL");
}

#[test]
fn a_native_progress_fence_reports_only_past_the_monitored_value() {
    let (mut host, space, at) = fence();
    let mut queue = host.queue_with(4, space, |descriptor| {
        descriptor.flags = QueueFlags::new().with_native_progress(true).into_bits();
        (descriptor.progress_current, descriptor.progress_monitored) = (FENCE, MONITORED);
    });
    host.submit(&mut queue, &[Packet::Progress(Progress { handle: 0, value: 1 })]);
    assert_eq!(host.read64(at), 1);
    assert!(host.events().is_empty());
    host.write64(monitored(at), 1);
    host.submit(&mut queue, &[Packet::Progress(Progress { handle: 0, value: 2 })]);
    let events = host.events();
    assert_eq!((events.len(), events[0].kind), (1, EventKind::FenceSignaled as u8));
    assert_eq!((events[0].data0, events[0].data1), (FENCE, 2));
}

#[test]
fn progress_releases_queues_that_wait_for_it() {
    let (mut host, space, _) = fence();
    let mut first = host.queue_with(0, space, |descriptor| descriptor.progress_current = FENCE);
    let mut second = host.queue(1, space, NODE_COPY);
    host.submit(&mut second, &[wait(1)]);
    host.submit(&mut first, &[Packet::Progress(Progress { handle: 0, value: 1 })]);
    assert_eq!(host.state(&second), 0);
}

#[test]
fn a_signal_to_memory_that_forbids_it_changes_nothing() {
    let (mut host, space, _) = fence();
    let at = ram(host.take_ram(4096));
    host.map_pages(space, 0x1000, at, 4096, PAGE_4K, Pte::new().with_read_only(true));
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    host.submit(&mut queue, &[Packet::Signal(Signal { handle: 0, current: 0x1000, monitored: 0, value: 1 })]);
    assert_eq!(host.fault_of(&queue).0, 0x1000);
    assert_eq!(host.read64(at), 0);
    let mut queue = host.queue(1, space, NODE_COMPUTE);
    let unmapped = Signal { handle: 0, current: FENCE, monitored: 0x9000, value: 1 };
    host.submit(&mut queue, &[Packet::Signal(unmapped)]);
    assert_eq!(host.fault_of(&queue).0, 0x9000, "both values are found before one is written");
    assert_eq!(host.get(reg::COUNT_SIGNALS, 8), 0);
}

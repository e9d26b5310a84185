//! The event ring when the driver does not keep up.

use crate::host::{EVENTS, Host, Space, TestQueue, ram};
use campanile_hw::event::{Event, EventKind};
use campanile_hw::packet::{Packet, Signal};
use campanile_hw::queue::{QueueFlags, RingEntry, RingFlags};
use campanile_hw::registers::{self as reg, Command};

const FENCE: u64 = 0x50_0000_0000;

fn signal(value: u64) -> Packet {
    Packet::Signal(Signal { handle: 0, current: FENCE, monitored: FENCE + 8, value })
}

/// A fence that the CPU always watches.
fn watched() -> (Host, Space, TestQueue) {
    let mut host = Host::new();
    let space = host.space();
    host.map_new_ram(space, FENCE, 4096);
    let queue = host.queue(0, space, 0);
    (host, space, queue)
}

#[test]
fn the_ring_wraps() {
    let (mut host, _, mut queue) = watched();
    let mut seen = 0;
    for value in 1..=5 * u64::from(EVENTS) {
        host.submit(&mut queue, &[signal(value)]);
        if value % 7 == 0 || value == 5 * u64::from(EVENTS) {
            for event in host.events() {
                seen += 1;
                assert_eq!(event.data1, seen);
            }
        }
    }
    assert_eq!((seen, host.overflows()), (5 * u64::from(EVENTS), 0));
}

#[test]
fn fence_events_collapse_into_the_overflow_count_when_the_ring_is_full() {
    let (mut host, _, mut queue) = watched();
    let packets: Vec<Packet> = (1..=u64::from(EVENTS) + 10).map(signal).collect();
    host.submit(&mut queue, &packets);
    assert_eq!(host.overflows(), 10);
    let before = host.interrupts();
    host.submit(&mut queue, &[signal(1000)]);
    assert_eq!((host.overflows(), host.interrupts()), (11, before + 1), "the driver is told of a collapsed event too");
    let events = host.events();
    assert_eq!(events.len(), EVENTS as usize);
    assert!(events.iter().zip(1..).all(|(event, value)| event.data1 == value));
    host.submit(&mut queue, &[signal(2000)]);
    assert_eq!(host.events().iter().map(|event| event.data1).collect::<Vec<_>>(), [2000]);
}

#[test]
fn other_events_wait_inside_the_device_and_arrive_in_order() {
    let (mut host, space, mut queue) = watched();
    let packets: Vec<Packet> = (1..=u64::from(EVENTS)).map(signal).collect();
    host.submit(&mut queue, &packets);
    let mut second = host.queue(1, space, 1);
    for cookie in 0..5 {
        host.command(Command::SuspendQueue, 0, 100 + cookie, 0);
    }
    host.submit(&mut second, &[signal(5000)]);
    assert_eq!(host.overflows(), 1, "a fence event does not overtake them");
    assert_eq!(host.events().len(), EVENTS as usize);
    let before = host.interrupts();
    host.run();
    assert_eq!(host.interrupts(), before + 1, "announced when there was a free record");
    let cookies: Vec<u64> = host.events().iter().map(|event| event.data0).collect();
    assert_eq!(cookies, [100, 101, 102, 103, 104]);
}

#[test]
fn a_read_pointer_that_lies_makes_the_ring_full_and_nothing_worse() {
    let (mut host, _, mut queue) = watched();
    let base = host.get(reg::EVENT_RING_BASE, 8);
    for lie in [u64::MAX, 1, 1 << 40] {
        host.write64(ram(base + 8), lie);
        host.submit(&mut queue, &[signal(lie)]);
    }
    assert_eq!(host.overflows(), 3);
    host.write64(ram(base + 8), 0);
    host.submit(&mut queue, &[signal(9)]);
    assert_eq!(host.events().len(), 1);
}

#[test]
fn a_read_pointer_of_an_earlier_owner_is_cleared_when_the_scheduler_is_started() {
    for stale in [1, u64::MAX] {
        let (mut host, _, _) = watched();
        let base = host.get(reg::EVENT_RING_BASE, 8);
        for reset in [false, true] {
            host.set(reg::CONTROL, 4, if reset { 2 } else { 0 });
            host.write64(ram(base + 8), stale);
            if reset {
                host.set(reg::QUEUE_TABLE_COUNT, 4, u64::from(crate::host::QUEUES));
                host.set(reg::EVENT_RING_BASE, 8, base);
                host.set(reg::EVENT_RING_ENTRIES, 4, u64::from(EVENTS));
            }
            host.set(reg::CONTROL, 4, 1);
            assert_eq!((host.get(reg::CONTROL, 4), host.read64(ram(base + 8))), (1, 0));
            let space = host.space();
            let mut queue = host.queue(if reset { 0 } else { 1 }, space, 0);
            host.map_new_ram(space, FENCE, 4096);
            host.submit(&mut queue, &[signal(1)]);
            assert_eq!((host.read64(ram(base)), host.overflows()), (1, 0), "{stale} {reset}");
        }
    }
}

#[test]
fn a_ring_that_is_taken_away_loses_fence_events_and_keeps_the_others() {
    let (mut host, _, mut queue) = watched();
    let base = host.get(reg::EVENT_RING_BASE, 8);
    host.gpu.unmap_dma(base, 4096);
    host.submit(&mut queue, &[signal(1)]);
    host.command(Command::SuspendQueue, 0, 77, 0);
    let offset = base - crate::host::RAM_BASE;
    host.gpu.map_dma(base, &host.ram, offset, 4096, true).expect("mapped again");
    host.run();
    let events = host.events();
    assert_eq!((events.len(), events[0].kind, events[0].data0), (1, EventKind::Suspended as u8, 77));
}

#[test]
fn work_that_ends_in_an_event_stops_while_too_many_wait_and_none_is_lost() {
    let mut host = Host::new();
    let space = host.space();
    let queue = host.queue_with(0, space, |descriptor| {
        descriptor.flags = QueueFlags::new().with_privileged(true).into_bits();
    });
    let mut other = host.queue(1, space, 0);
    let mut queue = queue;
    let flags = RingFlags::new().with_retire_event(true).into_bits();
    let mut tag = 0;
    for _ in 0..40 {
        while tag - host.read_pointer(&queue) < u64::from(queue.geometry.entries()) {
            host.write_entry(&mut queue, &RingEntry { commands: 0, size: 0, flags, tag, root: 0 });
            tag += 1;
        }
        host.ring(&queue);
        host.run();
    }
    let begun = host.read_pointer(&queue);
    assert!(begun < tag, "{begun} of {tag}: it must have stopped");
    assert_eq!(begun, 1024 + u64::from(EVENTS));
    host.submit(&mut other, &[]);
    assert_eq!(host.read_pointer(&other), 1, "others go on");
    let mut expected = 0;
    loop {
        let events: Vec<Event> = host.events();
        if events.is_empty() {
            break;
        }
        for event in events {
            assert_eq!((event.kind, event.data0), (EventKind::Retired as u8, expected));
            expected += 1;
        }
        host.run();
    }
    assert_eq!((expected, host.read_pointer(&queue)), (tag, tag));
}

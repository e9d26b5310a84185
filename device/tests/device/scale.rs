//! Idle queues cost nothing: counted in what the scheduler touches, not in time.

use crate::host::{Host, Space, TestQueue, small_variant};
use campanile_device::{Activity, Variant};
use campanile_hw::packet::{Packet, Signal, Wait};
use campanile_hw::queue::{QueueDescriptor, QueueFlags};
use campanile_hw::registers::{Command, NODE_COMPUTE, NODE_COPY};

const FENCE: u64 = 0x50_0000_0000;

fn difference(before: Activity, after: Activity) -> Activity {
    Activity {
        doorbell_reads: after.doorbell_reads - before.doorbell_reads,
        queue_visits: after.queue_visits - before.queue_visits,
        waiter_visits: after.waiter_visits - before.waiter_visits,
        memory_accesses: after.memory_accesses - before.memory_accesses,
        table_walks: after.table_walks - before.table_walks,
        system_fences: after.system_fences - before.system_fences,
        picked: after.picked - before.picked,
    }
}

/// Maps `count` queues from number 100 on that share a ring nobody writes, half of them waiting for another fence.
fn add_idle_queues(host: &mut Host, space: Space, count: u32) {
    let ring = host.take_vram(4096, 4096);
    let descriptor = QueueDescriptor {
        ring,
        control: host.take_vram(4096, 4096),
        root: space.root.into_bits(),
        ring_entries: 64,
        flags: QueueFlags::new().with_privileged(true).with_physical_ring(true).into_bits(),
        rank: 1,
        ..QueueDescriptor::ZERO
    };
    for number in 100..100 + count {
        host.write_descriptor(number, &QueueDescriptor { node: number % 2, ..descriptor });
        host.command(Command::MapQueue, u64::from(number), 0, 0);
    }
    host.run();
}

/// What one submission touches that signals a fence another queue waits for, once everything is warm.
fn cost(idle: u32, waiting: u32) -> Activity {
    let mut host = Host::new();
    let space = host.space();
    host.map_new_ram(space, FENCE, 4096);
    let mut signaller = host.queue(0, space, NODE_COMPUTE);
    let mut waiter = host.queue(1, space, NODE_COPY);
    host.connect(&mut signaller, 0);
    host.connect(&mut waiter, 1);
    add_idle_queues(&mut host, space, idle);
    // These wait for another word of the same page.
    let mut others: Vec<TestQueue> = Vec::new();
    for number in 10..10 + waiting {
        let mut other = host.queue(number, space, NODE_COPY);
        host.submit(&mut other, &[Packet::Wait(Wait { handle: 0, current: FENCE + 64, value: 1 })]);
        assert_eq!(host.state(&other), 3);
        others.push(other);
    }
    let mut before = Activity::default();
    for value in 1..=4 {
        before = host.gpu.activity();
        host.submit(&mut waiter, &[Packet::Wait(Wait { handle: 0, current: FENCE, value })]);
        let signal = Signal { handle: 0, current: FENCE, monitored: 0, value };
        host.submit(&mut signaller, &[Packet::Signal(signal)]);
        assert_eq!(host.state(&waiter), 0);
    }
    // How often the doorbells are polled depends on the order of the steps, not on queues.
    Activity { doorbell_reads: 0, ..difference(before, host.gpu.activity()) }
}

#[test]
fn a_thousand_idle_queues_change_nothing_in_what_a_doorbell_and_a_fence_write_touch() {
    let alone = cost(0, 0);
    assert_eq!(cost(1000, 0), alone);
    assert_eq!(alone.table_walks, 0, "everything is in the TLB: {alone:?}");
    assert_eq!(alone.waiter_visits, 1);
    assert!(alone.queue_visits <= 6, "{alone:?}");
    assert!((1..=24).contains(&alone.memory_accesses), "{alone:?}");
}

#[test]
fn queues_that_wait_for_other_fences_are_not_looked_at() {
    assert_eq!(cost(0, 20).waiter_visits, 1);
    assert_eq!(cost(0, 20).queue_visits, cost(0, 0).queue_visits);
}

#[test]
fn queues_that_wait_for_a_higher_value_of_the_same_fence_are_not_woken() {
    let mut host = Host::new();
    let space = host.space();
    host.map_new_ram(space, FENCE, 4096);
    let mut signaller = host.queue(0, space, NODE_COMPUTE);
    for number in 10..30 {
        let mut waiter = host.queue(number, space, NODE_COPY);
        host.submit(&mut waiter, &[Packet::Wait(Wait { handle: 0, current: FENCE, value: 100 })]);
    }
    let before = host.gpu.activity();
    host.submit(&mut signaller, &[Packet::Signal(Signal { handle: 0, current: FENCE, monitored: 0, value: 99 })]);
    let low = difference(before, host.gpu.activity());
    assert!(low.queue_visits <= 2, "{low:?}");
    assert_eq!(low.waiter_visits, 20);
    let before = host.gpu.activity();
    host.submit(&mut signaller, &[Packet::Signal(Signal { handle: 0, current: FENCE, monitored: 0, value: 100 })]);
    assert!(difference(before, host.gpu.activity()).queue_visits >= 40, "now they are");
}

#[test]
fn only_connected_doorbells_are_polled() {
    let mut host = Host::with(&Variant { doorbells: 1024, ..small_variant() });
    let space = host.space();
    let mut first = host.queue(0, space, NODE_COMPUTE);
    let mut second = host.queue(1, space, NODE_COMPUTE);
    host.connect(&mut first, 1023);
    host.connect(&mut second, 0);
    let before = host.gpu.activity();
    for _ in 0..100 {
        host.gpu.step();
    }
    assert_eq!(host.gpu.activity().doorbell_reads - before.doorbell_reads, 200);
    host.command(Command::DisconnectDoorbell, 1023, 0, 0);
    let before = host.gpu.activity();
    for _ in 0..100 {
        host.gpu.step();
    }
    assert_eq!(host.gpu.activity().doorbell_reads - before.doorbell_reads, 100);
}

/// A function on whose doorbells 0 to 999 idle queues are connected, and queue 0 on doorbell 1023.
fn a_thousand_connected() -> (Host, TestQueue) {
    let mut host = Host::with(&Variant { doorbells: 1024, ..small_variant() });
    let space = host.space();
    add_idle_queues(&mut host, space, 1000);
    for number in 100..1100u64 {
        host.command(Command::ConnectDoorbell, number - 100, number, 0);
    }
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    host.connect(&mut queue, 1023);
    (host, queue)
}

/// Doorbell words read by one step.
fn reads_of_a_step(host: &Host) -> u64 {
    let before = host.gpu.activity().doorbell_reads;
    host.gpu.step();
    host.gpu.activity().doorbell_reads - before
}

#[test]
fn a_thousand_connected_doorbells_are_polled_a_bounded_number_a_step_and_none_is_missed() {
    let (host, mut queue) = a_thousand_connected();
    assert!(reads_of_a_step(&host) <= 17 * 8, "an idle step");
    host.write_packets(&mut queue, &[]);
    host.ring(&queue);
    for _ in 0..20 {
        host.gpu.step();
    }
    assert_eq!(host.read_pointer(&queue), 1);
}

#[test]
fn a_doorbell_that_was_rung_lately_is_seen_by_the_next_step_whatever_else_is_connected() {
    let (host, mut queue) = a_thousand_connected();
    for round in 1..=100 {
        host.write_packets(&mut queue, &[]);
        host.ring(&queue);
        if round == 1 {
            while host.read_pointer(&queue) != 1 {
                host.gpu.step();
            }
        }
        let reads = reads_of_a_step(&host);
        assert_eq!(host.read_pointer(&queue), round, "not seen at once");
        assert!(round == 1 || reads <= 8, "{reads} doorbells looked at for one that was rung");
    }
}

#[test]
fn what_only_a_search_finds_is_begun_in_the_same_step() {
    let (host, mut queue) = a_thousand_connected();
    let rings = || host.get(campanile_hw::registers::COUNT_DOORBELLS, 8);
    let before = rings();
    host.write_packets(&mut queue, &[]);
    host.ring(&queue);
    for _ in 0..1000 {
        host.gpu.step();
        if rings() != before {
            assert_eq!(host.read_pointer(&queue), 1, "seen and left for another step");
            return;
        }
    }
    panic!("never seen");
}

#[test]
fn a_doorbell_that_is_rung_all_the_time_does_not_hide_a_quiet_one() {
    let (mut host, mut busy) = a_thousand_connected();
    let mut quiet = host.queue(1, busy.space, NODE_COPY);
    host.connect(&mut quiet, 1022);
    let ring = |queue: &mut TestQueue| {
        host.write_packets(queue, &[]);
        host.ring(queue);
    };
    ring(&mut busy);
    while host.read_pointer(&busy) != 1 {
        host.gpu.step();
    }
    ring(&mut quiet);
    // A thousand quiet pages, four of them in every other step.
    for round in 2..600 {
        ring(&mut busy);
        host.gpu.step();
        if host.read_pointer(&quiet) == 1 {
            return;
        }
        // At most one queue runs in a step.
        assert!(host.read_pointer(&busy) + 1 >= round, "the busy one does not get on");
    }
    panic!("overlooked");
}

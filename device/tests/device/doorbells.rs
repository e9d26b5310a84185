//! Dedicated doorbells and the global one.

use crate::host::{Host, TestQueue, small_variant};
use campanile_device::Variant;
use campanile_hw::doorbell::DoorbellValue;
use campanile_hw::event::FaultKind;
use campanile_hw::packet::{Nop, Packet};
use campanile_hw::registers::{self as reg, Command, CommandStatus, NODE_COMPUTE, NODE_COPY};

const NOP: Packet = Packet::Nop(Nop {});

#[test]
fn a_store_to_a_connected_page_starts_the_queue() {
    let mut host = Host::new();
    let space = host.space();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    host.connect(&mut queue, 63);
    for round in 1..=100 {
        host.submit(&mut queue, &[NOP]);
        assert_eq!(host.get(reg::COUNT_RETIRED, 8), round);
        assert_eq!(host.get(reg::COUNT_DOORBELLS, 8), round);
    }
}

#[test]
fn only_the_word_at_the_start_of_the_page_counts() {
    let mut host = Host::new();
    let space = host.space();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    host.connect(&mut queue, 0);
    use std::os::unix::fs::FileExt;
    let page = host.gpu.bar_file(2).expect("doorbells");
    page.write_all_at(&[0xff; 4088], 8).expect("write");
    assert_eq!(host.run(), 0);
    assert_eq!(host.get(reg::COUNT_DOORBELLS, 8), 0);
}

#[test]
fn a_page_keeps_nothing_of_its_last_owner() {
    use std::os::unix::fs::FileExt;
    let mut host = Host::new();
    let space = host.space();
    let mut first = host.queue(0, space, NODE_COMPUTE);
    let mut second = host.queue(1, space, NODE_COPY);
    let pages = host.gpu.bar_file(2).expect("doorbells");
    let page = |number: u64| {
        let mut bytes = vec![0; 4096];
        pages.read_exact_at(&mut bytes, number * 4096).expect("read");
        bytes
    };
    host.connect(&mut first, 4);
    pages.write_all_at(&[0x5a; 3 * 4096], 3 * 4096).expect("write");
    host.command(Command::DisconnectDoorbell, 4, 0, 0);
    host.connect(&mut second, 4);
    assert_eq!(page(4), [0; 4096]);
    assert_eq!([page(3), page(5)], [[0x5a; 4096]; 2], "pages of others are left alone");
    host.set(reg::CONTROL, 4, 2);
    assert_eq!([page(3), page(4), page(5)], [[0; 4096]; 3], "a reset clears them all");
}

#[test]
fn a_ring_just_before_the_disconnection_is_not_lost() {
    let mut host = Host::new();
    let space = host.space();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    host.connect(&mut queue, 4);
    host.write_packets(&mut queue, &[NOP]);
    host.ring(&queue);
    host.command(Command::DisconnectDoorbell, 4, 0, 0);
    host.run();
    assert_eq!((host.get(reg::COUNT_DOORBELLS, 8), host.get(reg::COUNT_RETIRED, 8)), (1, 1));
}

#[test]
fn a_page_reused_for_another_queue_does_not_carry_the_old_value_over() {
    let mut host = Host::new();
    let space = host.space();
    let mut first = host.queue(0, space, NODE_COMPUTE);
    let mut second = host.queue(1, space, NODE_COPY);
    host.connect(&mut first, 9);
    for _ in 0..3 {
        host.submit(&mut first, &[NOP]);
    }
    host.command(Command::DisconnectDoorbell, 9, 0, 0);
    host.connect(&mut second, 9);
    host.run();
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 3);
    assert_eq!(host.state(&second), 0, "write pointer 3 was the other queue's");
    // The same value as the old queue's last one is a change now.
    for _ in 0..3 {
        host.write_packets(&mut second, &[NOP]);
    }
    host.ring(&second);
    host.run();
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 6);
}

#[test]
fn doorbells_and_queues_are_connected_one_to_one() {
    let mut host = Host::new();
    let space = host.space();
    let mut first = host.queue(0, space, NODE_COMPUTE);
    host.queue(1, space, NODE_COMPUTE);
    host.connect(&mut first, 2);
    let status = |command, doorbell, queue| host.try_command(command, doorbell, queue, 0).0;
    assert_eq!(status(Command::ConnectDoorbell, 2, 1), CommandStatus::BadDoorbell, "taken");
    assert_eq!(status(Command::ConnectDoorbell, 3, 0), CommandStatus::BadDoorbell, "has one");
    assert_eq!(status(Command::ConnectDoorbell, 2, 0), CommandStatus::BadDoorbell, "connected already");
    assert_eq!(status(Command::DisconnectDoorbell, 3, 0), CommandStatus::BadDoorbell);
    assert_eq!(status(Command::DisconnectDoorbell, 2, 1), CommandStatus::BadDoorbell, "another queue's");
    assert_eq!(status(Command::DisconnectDoorbell, 2, 0), CommandStatus::Done);
    assert_eq!(status(Command::ConnectDoorbell, 2, 1), CommandStatus::Done);
}

#[test]
fn a_queue_number_used_again_on_another_node_hears_its_doorbell() {
    let mut host = Host::new();
    let space = host.space();
    for node in [NODE_COMPUTE, NODE_COPY, NODE_COMPUTE, NODE_COPY] {
        // The helper maps new memory at the old addresses.
        host.command(Command::InvalidateTlb, space.root.into_bits(), 0, 0);
        let (mut queue, mut descriptor) = host.prepare_queue(0, space);
        descriptor.node = node;
        host.write_descriptor(0, &descriptor);
        host.command(Command::MapQueue, 0, 0, 0);
        host.connect(&mut queue, 0);
        let before = host.get(reg::COUNT_RETIRED, 8);
        host.submit(&mut queue, &[NOP]);
        assert_eq!(host.get(reg::COUNT_RETIRED, 8), before + 1);
        // Rung and never seen.
        host.write_packets(&mut queue, &[NOP]);
        host.ring(&queue);
        host.gpu.step();
        host.command(Command::UnmapQueue, 0, 0, 0);
        host.run();
    }
}

#[test]
fn news_that_a_queue_never_read_do_not_make_the_next_one_of_its_number_deaf() {
    // Whether old news can do harm depends on which is asked first: doorbells or the old node.
    for seed in 1..16 {
        let mut host = Host::with(&Variant { seed, ..small_variant() });
        let space = host.space();
        let mut queue = host.queue(0, space, NODE_COMPUTE);
        host.connect(&mut queue, 0);
        host.write_packets(&mut queue, &[NOP]);
        host.ring(&queue);
        // Without DMA the node takes in nothing, so the ring is still on its way when the queue goes.
        host.gpu.config_write(0x04, 2, 2);
        host.command(Command::UnmapQueue, 0, 0, 0);
        host.gpu.config_write(0x04, 2, 6);
        host.command(Command::InvalidateTlb, space.root.into_bits(), 0, 0);
        let mut next = host.queue(0, space, NODE_COPY);
        host.connect(&mut next, 0);
        host.submit(&mut next, &[NOP]);
        assert_eq!((host.get(reg::COUNT_RETIRED, 8), host.read_pointer(&next)), (1, 1), "seed {seed}");
    }
}

#[test]
fn a_doorbell_value_that_jumps_faults_its_queue_alone() {
    let mut host = Host::new();
    let space = host.space();
    let mut guilty = host.queue(0, space, NODE_COMPUTE);
    let mut other = host.queue(1, space, NODE_COMPUTE);
    host.connect(&mut guilty, 0);
    host.connect(&mut other, 1);
    host.store_doorbell(0, 1000);
    host.run();
    let (address, info) = host.fault_of(&guilty);
    assert_eq!((address, info.kind()), (1000, FaultKind::BadWritePointer as u8));
    host.submit(&mut other, &[NOP]);
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 1);
}

#[test]
fn a_doorbell_overtaken_by_a_kick_is_no_mistake() {
    let mut host = Host::new();
    let space = host.space();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    host.connect(&mut queue, 0);
    host.write_packets(&mut queue, &[NOP]);
    host.store_doorbell(0, 1);
    host.write_packets(&mut queue, &[NOP]);
    host.command(Command::KickQueue, 0, 0, 0);
    host.run();
    assert_eq!((host.get(reg::COUNT_RETIRED, 8), host.state(&queue)), (2, 0));
    host.store_doorbell(0, 2);
    host.run();
    assert_eq!(host.state(&queue), 0);
}

fn global() -> Host {
    Host::with(&Variant { global_doorbell: true, ..small_variant() })
}

fn value(queue: u16, write_pointer: u64) -> u64 {
    DoorbellValue::new().with_queue(queue).with_write_pointer(write_pointer).into_bits()
}

#[test]
fn a_global_doorbell_rings_the_queue_that_the_value_names() {
    let mut host = global();
    assert_eq!(host.get(reg::DOORBELL_COUNT, 4), 1);
    assert_eq!(host.gpu.bar_size(2), Some(4096));
    let space = host.space();
    let mut first = host.queue(0, space, NODE_COMPUTE);
    let mut second = host.queue(700, space, NODE_COPY);
    assert_eq!(host.try_command(Command::ConnectDoorbell, 1, 0, 0).0, CommandStatus::BadDoorbell);
    host.connect(&mut first, 0);
    host.connect(&mut second, 0);
    for round in 1..=10 {
        host.write_packets(&mut second, &[NOP]);
        host.store_doorbell(0, value(700, second.write));
        host.run();
        host.write_packets(&mut first, &[NOP]);
        host.store_doorbell(0, value(0, first.write));
        host.run();
        assert_eq!((host.read_pointer(&first), host.read_pointer(&second)), (round, round));
    }
    assert_eq!(host.get(reg::COUNT_DOORBELLS, 8), 20);
}

#[test]
fn a_store_to_the_global_doorbell_that_hides_another_loses_no_work() {
    let mut host = global();
    let space = host.space();
    let mut queues: Vec<_> = (0..10).map(|number| host.queue(number, space, NODE_COMPUTE)).collect();
    for queue in &mut queues {
        host.connect(queue, 0);
    }
    for queue in &mut queues {
        host.write_packets(queue, &[NOP]);
        host.store_doorbell(0, value(queue.number as u16, queue.write));
    }
    host.run();
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 10);
}

#[test]
fn a_forged_value_on_the_global_doorbell_harms_nobody() {
    let mut host = global();
    let space = host.space();
    let mut victim = host.queue(0, space, NODE_COMPUTE);
    let mut unconnected = host.queue(1, space, NODE_COMPUTE);
    host.connect(&mut victim, 0);
    host.write_packets(&mut unconnected, &[NOP]);
    for forged in [value(0, 5000), value(0, (1 << 48) - 1), value(1, 1), value(2, 9), value(u16::MAX, 9), u64::MAX] {
        host.store_doorbell(0, forged);
        host.run();
    }
    assert!(host.events().is_empty());
    assert_eq!((host.state(&victim), host.state(&unconnected)), (0, 0));
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 0);
    host.write_packets(&mut victim, &[NOP]);
    host.store_doorbell(0, value(0, 1));
    host.run();
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 1);
}

#[test]
fn a_guess_of_the_next_value_does_not_make_the_true_one_go_unheard() {
    let mut host = global();
    let space = host.space();
    let mut victim = host.queue(5, space, NODE_COMPUTE);
    host.connect(&mut victim, 0);
    for round in 1..=10 {
        host.store_doorbell(0, value(5, round));
        host.run();
        assert_eq!(host.read_pointer(&victim), round - 1, "nothing was written yet");
        host.write_packets(&mut victim, &[NOP]);
        host.store_doorbell(0, value(5, round));
        host.run();
        assert_eq!(host.read_pointer(&victim), round);
    }
}

#[test]
fn a_global_doorbell_rung_without_pause_hides_no_work_for_long() {
    let mut host = global();
    let space = host.space();
    let mut queues: Vec<_> = (0..10).map(|number| host.queue(number, space, NODE_COMPUTE)).collect();
    for queue in &mut queues {
        host.connect(queue, 0);
    }
    for queue in &mut queues[..9] {
        host.write_packets(queue, &[NOP]);
        host.store_doorbell(0, value(queue.number as u16, queue.write));
    }
    // Each store hides those before it, and there is one before every step, so the function never has nothing to do.
    for step in 1..=40 {
        host.store_doorbell(0, value(9, step));
        assert!(host.gpu.step());
    }
    let read: Vec<u64> = queues.iter().map(|queue| host.read_pointer(queue)).collect();
    assert_eq!(read, [1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
}

/// Ten queues of a global doorbell, nine of which have work and rang; each store hides those before it, and the last one names the
/// tenth queue, which has none.
fn hidden_rings() -> (Host, Vec<TestQueue>) {
    let mut host = global();
    let space = host.space();
    let mut queues: Vec<_> = (0..10).map(|number| host.queue(number, space, NODE_COMPUTE)).collect();
    for queue in &mut queues {
        host.connect(queue, 0);
    }
    for queue in &mut queues[..9] {
        host.write_packets(queue, &[NOP]);
        host.store_doorbell(0, value(queue.number as u16, queue.write));
    }
    host.store_doorbell(0, value(9, 1));
    (host, queues)
}

fn step(host: &Host, steps: u32) {
    for _ in 0..steps {
        host.gpu.step();
    }
}

#[test]
fn taking_a_queue_off_the_global_doorbell_while_rings_are_hidden_loses_no_work() {
    // At whatever step of the search for hidden rings a queue goes, also at once, when the store that hides the others is its own.
    for steps in 0..12 {
        for goes in 0..10 {
            let (host, queues) = hidden_rings();
            step(&host, steps);
            host.command(Command::DisconnectDoorbell, 0, goes, 0);
            host.run();
            let read: Vec<u64> = queues.iter().map(|queue| host.read_pointer(queue)).collect();
            assert_eq!(read, [1, 1, 1, 1, 1, 1, 1, 1, 1, 0], "queue {goes} went after {steps} steps");
        }
    }
}

#[test]
fn a_queue_that_joins_a_global_doorbell_while_rings_are_hidden_keeps_none_from_being_found() {
    for steps in 0..12 {
        let (mut host, mut queues) = hidden_rings();
        let space = host.space();
        let mut joins = host.queue(10, space, NODE_COMPUTE);
        step(&host, steps);
        host.connect(&mut joins, 0);
        host.run();
        queues.push(joins);
        let read: Vec<u64> = queues.iter().map(|queue| host.read_pointer(queue)).collect();
        assert_eq!(read, [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0], "after {steps} steps");
    }
}

#[test]
fn a_queue_taken_off_the_global_doorbell_is_not_rung() {
    let mut host = global();
    let space = host.space();
    let mut first = host.queue(0, space, NODE_COMPUTE);
    let mut second = host.queue(1, space, NODE_COMPUTE);
    host.connect(&mut first, 0);
    host.connect(&mut second, 0);
    host.command(Command::DisconnectDoorbell, 0, 0, 0);
    host.run();
    host.write_packets(&mut first, &[NOP]);
    host.store_doorbell(0, value(0, 1));
    host.run();
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 0);
    host.write_packets(&mut second, &[NOP]);
    host.store_doorbell(0, value(1, 1));
    host.run();
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 1);
}

#[test]
fn rings_of_more_pages_than_are_watched_closely_are_all_seen() {
    let mut host = Host::new();
    let space = host.space();
    let mut queues: Vec<_> = (0..12).map(|number| host.queue(number, space, NODE_COMPUTE)).collect();
    for (page, queue) in queues.iter_mut().enumerate() {
        host.connect(queue, page as u32);
    }
    // Each round another order, and a page that goes and comes back in the middle of it.
    for round in 0..24 {
        for turn in 0..queues.len() {
            let chosen = (turn * 5 + round) % queues.len();
            host.write_packets(&mut queues[chosen], &[NOP]);
            host.ring(&queues[chosen]);
        }
        let moved = (round % queues.len()) as u64;
        host.command(Command::DisconnectDoorbell, moved, moved, 0);
        host.command(Command::ConnectDoorbell, moved, moved, 0);
        host.run();
        let read: Vec<u64> = queues.iter().map(|queue| host.read_pointer(queue)).collect();
        assert_eq!(read, vec![round as u64 + 1; queues.len()], "round {round}");
    }
    assert_eq!(host.get(reg::COUNT_DOORBELLS, 8), 24 * 12);
}

#[test]
fn doorbells_that_are_not_polled_wait_for_a_command() {
    for global_doorbell in [false, true] {
        let mut host = Host::with(&Variant { notify_doorbells: true, global_doorbell, ..small_variant() });
        let space = host.space();
        let mut queue = host.queue(0, space, NODE_COMPUTE);
        host.connect(&mut queue, 0);
        for round in 1..=10 {
            host.write_packets(&mut queue, &[NOP]);
            host.store_doorbell(0, value(0, queue.write));
            assert_eq!(host.run(), 0, "steps that found something");
            assert_eq!(host.get(reg::COUNT_RETIRED, 8), round - 1);
            let looking = if round == 10 { Command::DisconnectDoorbell } else { Command::KickQueue };
            assert_eq!(host.try_command(looking, 0, 0, 0).0, CommandStatus::Done);
            host.run();
            assert_eq!(host.get(reg::COUNT_RETIRED, 8), round);
        }
        assert_eq!(host.get(reg::COUNT_DOORBELLS, 8), 0);
    }
}

//! Bands, quanta and the share of the normal band, changed while queues run.

use crate::host::{Host, Space, TestQueue};
use campanile_hw::packet::{Fill, Nop, Packet};
use campanile_hw::registers::{Command, CommandStatus};

const VA: u64 = 0x40_0000_0000;

/// Queues with `work` packets in each ring, of these bands, quantum 8.
fn busy(bands: &[u32], work: u32) -> (Host, Vec<TestQueue>) {
    busy_with(bands, work, 1)
}

/// As [`busy`], with so many packets in each of `work` submissions.
fn busy_with(bands: &[u32], work: u32, packets: usize) -> (Host, Vec<TestQueue>) {
    let mut host = Host::new();
    let space = host.space();
    let mut make = |(number, band): (u32, &u32)| busy_queue(&mut host, space, (number, *band), (work, packets));
    let queues = (0..).zip(bands).map(&mut make).collect();
    (host, queues)
}

fn busy_queue(host: &mut Host, space: Space, (number, band): (u32, u32), (work, packets): (u32, usize)) -> TestQueue {
    let (mut queue, mut descriptor) = host.prepare_queue(number, space);
    (descriptor.band, descriptor.quantum) = (band, 8);
    host.write_descriptor(number, &descriptor);
    for _ in 0..work {
        host.write_packets(&mut queue, &vec![Packet::Nop(Nop {}); packets]);
    }
    host.command(Command::MapQueue, u64::from(number), 0, 0);
    queue
}

fn done(host: &Host, queues: &[TestQueue]) -> Vec<u64> {
    queues.iter().map(|queue| host.read_pointer(queue)).collect()
}

#[test]
fn a_new_band_counts_from_the_next_slice_for_queues_that_run_and_that_wait_for_the_node() {
    let (host, queues) = busy(&[1, 1], 60);
    assert!(host.gpu.step());
    assert_eq!(done(&host, &queues), [8, 0]);
    // The one that has the node loses it.
    host.command(Command::SetQueuePriority, 0, 0, 8);
    while done(&host, &queues)[1] != 60 {
        assert!(host.gpu.step());
        assert_eq!(done(&host, &queues)[0], 8);
    }
    // The one that waits for it gets it.
    let (host, queues) = busy(&[1, 1, 0], 60);
    host.command(Command::SetQueuePriority, 2, 3, 8);
    assert!(host.gpu.step());
    assert_eq!(done(&host, &queues), [0, 0, 60]);
    host.run();
    assert_eq!(done(&host, &queues), [60, 60, 60]);
}

#[test]
fn a_new_quantum_counts_in_a_turn_that_has_begun() {
    let (host, queues) = busy(&[1, 1], 60);
    host.command(Command::SetQueuePriority, 0, 1, 2);
    host.command(Command::SetQueuePriority, 1, 1, 3);
    for expected in [[2, 0], [2, 3], [4, 3], [4, 6]] {
        assert!(host.gpu.step());
        assert_eq!(done(&host, &queues), expected);
    }
    host.run();
    assert_eq!(done(&host, &queues), [60, 60]);
}

#[test]
fn suspended_queues_keep_a_new_band_for_later() {
    let (host, queues) = busy(&[1, 1], 60);
    host.command(Command::SuspendQueue, 1, 7, 0);
    host.command(Command::SetQueuePriority, 1, 2, 0);
    assert_eq!(host.state(&queues[1]), 4);
    assert!(host.gpu.step());
    host.command(Command::ResumeQueue, 1, 0, 0);
    let first = done(&host, &queues)[0];
    assert!(host.gpu.step());
    assert_eq!(done(&host, &queues), [first, 60]);
}

#[test]
fn bad_priorities_and_shares_are_refused_and_change_nothing() {
    let (host, queues) = busy(&[1, 1], 60);
    for (queue, band, quantum, status) in [
        (0, 4, 8, CommandStatus::BadArgument),
        (0, u64::MAX, 8, CommandStatus::BadArgument),
        (0, 3, 1 << 32, CommandStatus::BadArgument),
        (2, 1, 8, CommandStatus::BadQueue),
        (u64::MAX, 1, 8, CommandStatus::BadQueue),
    ] {
        assert_eq!(host.try_command(Command::SetQueuePriority, queue, band, quantum).0, status);
    }
    for percent in [51, 100, 1 << 32, u64::MAX] {
        assert_eq!(host.try_command(Command::SetBandShare, percent, 0, 0).0, CommandStatus::BadArgument);
    }
    for expected in [[8, 0], [8, 8]] {
        assert!(host.gpu.step());
        assert_eq!(done(&host, &queues), expected);
    }
}

#[test]
fn the_normal_band_has_its_share_beside_the_focus_band_and_the_idle_band_none() {
    for (percent, least, most) in [(0, 0, 0), (50, 48, 60)] {
        let (host, queues) = busy_with(&[0, 1, 2], 60, 8);
        host.command(Command::SetBandShare, percent, 0, 0);
        while done(&host, &queues)[2] != 60 {
            assert!(host.gpu.step());
        }
        let got = done(&host, &queues);
        assert!((least..=most).contains(&got[1]) && got[0] == 0, "{percent} %: {got:?}");
        host.run();
        assert_eq!(done(&host, &queues), [60, 60, 60]);
    }
}

#[test]
fn a_long_fill_takes_turns_with_another() {
    const SIZE: u64 = 8 << 20;
    let mut host = Host::new();
    let space = host.space();
    host.map_new_ram(space, VA, SIZE);
    let mut queues = Vec::new();
    for number in 0..2 {
        let (mut queue, mut descriptor) = host.prepare_queue(number, space);
        descriptor.quantum = 1;
        host.write_descriptor(number, &descriptor);
        host.write_packets(&mut queue, &[Packet::Fill(Fill { destination: VA, size: SIZE, pattern: number })]);
        host.command(Command::MapQueue, u64::from(number), 0, 0);
        queues.push(queue);
    }
    while done(&host, &queues) == [0, 0] {
        assert!(host.gpu.step());
    }
    // The other one is a turn behind, not the whole of its fill.
    assert!(host.gpu.step());
    host.gpu.step();
    assert_eq!(done(&host, &queues), [1, 1]);
}

//! Bands, levels, priorities, quanta, graces and the share of the normal band, changed while queues run.

use crate::host::{Host, Space, TestQueue};
use campanile_hw::packet::{Fill, Nop, Packet, Timestamp, Wait};
use campanile_hw::queue::{QueueDescriptor, QueueRank};
use campanile_hw::registers::{self as reg, Command, CommandStatus};

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
    (descriptor.rank, descriptor.quantum) = (band, 8);
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
fn bad_priorities_shares_and_times_are_refused_and_change_nothing() {
    let (host, queues) = busy(&[1, 1], 60);
    let refuse = |command, arguments: [u64; 5], status| {
        assert_eq!(host.try_long_command(command, arguments).0, status, "{arguments:?}");
    };
    for (queue, rank, quantum, status) in [
        (0, 4, 8, CommandStatus::BadArgument),
        (0, 1 << 8 | 1, 8, CommandStatus::BadArgument),
        (0, 32 << 8 | 3, 8, CommandStatus::BadArgument),
        (0, 8 << 16 | 1, 8, CommandStatus::BadArgument),
        (0, 0xf8 << 16 | 1, 8, CommandStatus::BadArgument),
        (0, 1 << 24 | 1, 8, CommandStatus::BadArgument),
        (0, 1 << 32 | 1, 8, CommandStatus::BadArgument),
        (0, u64::MAX, 8, CommandStatus::BadArgument),
        (0, 3, 1 << 32, CommandStatus::BadArgument),
        (2, 1, 8, CommandStatus::BadQueue),
        (u64::MAX, 1, 8, CommandStatus::BadQueue),
    ] {
        refuse(Command::SetQueuePriority, [queue, rank, quantum, 0, 0], status);
    }
    refuse(Command::SetQueuePriority, [0, 3, 8, 1 << 32, 0], CommandStatus::BadArgument);
    refuse(Command::SetQueuePriority, [0, 3, 8, 0, 1 << 32], CommandStatus::BadArgument);
    for arguments in [[4, 1, 0, 0, 0], [u64::MAX, 1, 0, 0, 0], [1, 1 << 32, 9, 9, 0], [1, 1, 1 << 32, 9, 0]] {
        refuse(Command::SetBandTimes, arguments, CommandStatus::BadArgument);
    }
    refuse(Command::SetBandTimes, [1, 1, 9, 1 << 32, 0], CommandStatus::BadArgument);
    for percent in [51, 100, 1 << 32, u64::MAX] {
        refuse(Command::SetBandShare, [percent, 0, 0, 0, 0], CommandStatus::BadArgument);
    }
    for expected in [[8, 0], [8, 8]] {
        assert!(host.gpu.step());
        assert_eq!(done(&host, &queues), expected);
    }
}

/// A busy queue with 60 packets of work, in one buffer or in as many.
fn busy_as(
    host: &mut Host,
    space: Space,
    number: u32,
    one_buffer: bool,
    change: impl FnOnce(&mut QueueDescriptor),
) -> TestQueue {
    let (mut queue, mut descriptor) = host.prepare_queue(number, space);
    (descriptor.quantum, descriptor.process) = (8, number);
    change(&mut descriptor);
    host.write_descriptor(number, &descriptor);
    let (buffers, packets) = if one_buffer { (1, 60) } else { (60, 1) };
    for _ in 0..buffers {
        host.write_packets(&mut queue, &vec![Packet::Nop(Nop {}); packets]);
    }
    host.command(Command::MapQueue, u64::from(number), 0, 0);
    queue
}

fn word(band: u8, level: u8, in_process: i8) -> u32 {
    QueueRank::new().with_band(band).with_level(level).with_in_process(in_process).into_bits()
}

#[test]
fn a_higher_level_runs_first_whatever_the_process_and_its_priorities() {
    let mut host = Host::new();
    let space = host.space();
    let ranks = [(3, 0, 7), (3, 31, -7), (3, 30, 0), (2, 0, 7)].map(|(band, level, own)| word(band, level, own));
    let queues: Vec<TestQueue> = (0..)
        .zip(ranks)
        .map(|(number, rank)| busy_as(&mut host, space, number, false, |descriptor| descriptor.rank = rank))
        .collect();
    for expected in [[0, 60, 0, 0], [0, 60, 60, 0], [60, 60, 60, 0], [60, 60, 60, 60]] {
        while done(&host, &queues) != expected {
            let before = done(&host, &queues);
            assert!(host.gpu.step(), "{before:?} on the way to {expected:?}");
        }
    }
}

#[test]
fn priorities_within_a_process_order_its_own_queues_only() {
    let mut host = Host::new();
    let space = host.space();
    host.long_command(Command::SetBandTimes, [1, 8, 0, 0, 0]);
    let queues = [(0, 7, 1), (1, -7, 1), (2, -7, 2), (3, 0, 3)].map(|(number, own, process)| {
        busy_as(&mut host, space, number, false, |descriptor| {
            (descriptor.rank, descriptor.process) = (word(1, 0, own), process);
        })
    });
    // The three processes run in turn, each for a time slice; of the first one only the higher queue moves.
    while done(&host, &queues)[0] != 60 {
        let [first, second, third, fourth] = done(&host, &queues).try_into().expect("four");
        assert!(second == 0 && first.abs_diff(third) <= 8 && first.abs_diff(fourth) <= 8, "{:?}", done(&host, &queues));
        assert!(host.gpu.step());
    }
    host.run();
    assert_eq!(done(&host, &queues), [60; 4]);
}

#[test]
fn processes_share_a_node_however_many_queues_they_have() {
    let mut host = Host::new();
    let space = host.space();
    host.long_command(Command::SetBandTimes, [1, 6, 0, 0, 0]);
    let queues: Vec<TestQueue> = (0..4)
        .map(|number| {
            busy_as(&mut host, space, number, false, |descriptor| {
                (descriptor.process, descriptor.quantum) = (number.min(1), 2);
            })
        })
        .collect();
    while done(&host, &queues)[0] != 60 {
        let got = done(&host, &queues);
        assert!(got[0].abs_diff(got[1..].iter().sum()) <= 6, "{got:?}");
        assert!(host.gpu.step());
    }
    // The other process has its three queues level.
    assert!(done(&host, &queues)[1..].iter().all(|got| got.abs_diff(20) <= 2), "{:?}", done(&host, &queues));
}

/// Graces of these lengths: of lower bands, between processes, of lower and of the same rank in a process.
#[derive(Clone, Copy, Default)]
struct Graces {
    band: u64,
    process: u64,
    lower: u32,
    same: u32,
}

/// Packets that a queue with rank `low` of process 1 runs before one with rank `high` of `process`, which comes after the first 64,
/// gets the node. The buffers of the first one have so many packets each.
fn ran_before(low: u32, high: u32, process: u32, graces: Graces, buffers: &[u64]) -> u64 {
    let mut host = Host::new();
    let space = host.space();
    host.map_new_ram(space, VA, 8192);
    for band in 0..4 {
        host.long_command(Command::SetBandTimes, [band, 64, graces.band, graces.process, 0]);
    }
    let stamp = |slot: u64| Packet::Timestamp(Timestamp { destination: VA + slot * 8 });
    let queue = |host: &mut Host, number: u32, rank: u32, process: u32, buffers: &[u64]| {
        let (mut queue, mut descriptor) = host.prepare_queue(number, space);
        (descriptor.rank, descriptor.process, descriptor.quantum) = (rank, process, 64);
        (descriptor.grace_lower, descriptor.grace_same) = (graces.lower, graces.same);
        host.write_descriptor(number, &descriptor);
        let mut slot = u64::from(number) * 512;
        for packets in buffers {
            host.write_packets(&mut queue, &(slot..slot + packets).map(stamp).collect::<Vec<_>>());
            slot += packets;
        }
        host.command(Command::MapQueue, u64::from(number), 0, 0);
    };
    let count = |host: &Host, number: u64| {
        let at = host.locate(space, VA + number * 4096);
        (0..512).filter(|slot| host.read64(at.with_address(at.address() + slot * 8)) != 0).count() as u64
    };
    queue(&mut host, 0, low, 1, buffers);
    assert!(host.gpu.step());
    assert_eq!(count(&host, 0), 64, "before there was a choice");
    queue(&mut host, 1, high, process, &[10]);
    while count(&host, 1) == 0 {
        assert!(host.gpu.step());
    }
    let ran = count(&host, 0);
    host.run();
    assert_eq!((count(&host, 0), count(&host, 1)), (buffers.iter().sum(), 10), "at the end");
    ran
}

#[test]
fn each_grace_is_granted_to_whom_it_concerns_and_to_nobody_else() {
    const OTHER: u32 = 2;
    const SAME: u32 = 1;
    let all = Graces { band: 5, process: 7, lower: 9, same: 11 };
    let long = [100];
    for (low, high, process, expected) in [
        (word(1, 0, 0), word(2, 0, 0), OTHER, 5),
        (word(0, 0, 7), word(3, 0, -7), SAME, 5),
        (word(3, 4, 0), word(3, 5, 0), OTHER, 7),
        (word(3, 4, 0), word(3, 5, -7), SAME, 9),
        (word(1, 0, 0), word(1, 0, 1), SAME, 9),
        (word(1, 0, 0), word(1, 0, 0), SAME, 11),
        (word(1, 0, 0), word(1, 0, 0), OTHER, 7),
        (word(1, 0, 0), word(1, 0, 7), OTHER, 7),
    ] {
        assert_eq!(ran_before(low, high, process, all, &long), 64 + expected, "{low:#x} before {high:#x}");
        assert_eq!(ran_before(low, high, process, Graces::default(), &long), 64, "{low:#x} before {high:#x}, no grace");
    }
}

#[test]
fn a_grace_ends_with_the_command_buffer_and_goes_on_over_slices() {
    let (low, high) = (word(1, 0, 0), word(2, 0, 0));
    let of = |grace, buffers: &[u64]| ran_before(low, high, 2, Graces { band: grace, ..Graces::default() }, buffers);
    assert_eq!(of(20, &[60, 10, 30]), 70, "to the end of the second buffer");
    assert_eq!(of(20, &[64, 30]), 64, "between two buffers nothing is to be ended");
    assert_eq!(of(100, &[300]), 164, "more than one slice");
    assert_eq!(of(u64::from(u32::MAX), &[300]), 300, "to the end of a long buffer");
}

#[test]
fn a_suspension_knows_no_grace_and_a_realtime_queue_cuts_one_short() {
    let mut host = Host::new();
    let space = host.space();
    host.long_command(Command::SetBandTimes, [2, 8, u64::from(u32::MAX), 0, 0]);
    let low = busy_as(&mut host, space, 0, true, |descriptor| descriptor.rank = 0);
    let more = vec![Packet::Nop(Nop {}); 4000];
    let mut low = low;
    host.write_packets(&mut low, &more);
    host.command(Command::KickQueue, 0, 0, 0);
    assert!(host.gpu.step());
    let focus = busy_as(&mut host, space, 1, false, |descriptor| descriptor.rank = 2);
    assert!(host.gpu.step());
    assert_eq!((host.state(&low), host.state(&focus)), (2, 1), "in its grace");
    let realtime = busy_as(&mut host, space, 2, false, |descriptor| descriptor.rank = 3);
    assert!(host.gpu.step());
    assert_eq!(done(&host, &[low, focus, realtime]), [1, 0, 60]);
    host.command(Command::SuspendQueue, 1, 7, 0);
    assert!(host.gpu.step());
    host.command(Command::ResumeQueue, 1, 0, 0);
    assert!(host.gpu.step());
    host.command(Command::SuspendQueue, 0, 8, 0);
    assert!(host.gpu.step());
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 1 + 60 + 60);
}

#[test]
fn ranks_are_changed_in_every_state_and_count_afterwards() {
    for state in 0..=5 {
        let mut host = Host::new();
        let space = host.space();
        host.map_new_ram(space, VA, 4096);
        let blocker = Packet::Wait(Wait { handle: 0, current: VA, value: 1 });
        let (mut queue, mut descriptor) = host.prepare_queue(0, space);
        descriptor.process = 1;
        host.write_descriptor(0, &descriptor);
        host.command(Command::MapQueue, 0, 0, 0);
        // Idle, runnable, running, waiting, suspended, faulted.
        match state {
            1 | 2 => host.write_packets(&mut queue, &vec![Packet::Nop(Nop {}); 200]),
            3 => host.write_packets(&mut queue, &[blocker]),
            4 => drop(host.command(Command::SuspendQueue, 0, 1, 0)),
            5 => host.write_packets(&mut queue, &[Packet::Timestamp(Timestamp { destination: 1 << 46 })]),
            _ => {}
        }
        if state != 4 {
            host.command(Command::KickQueue, 0, 0, 0);
        }
        if matches!(state, 2 | 3 | 5) {
            assert!(host.gpu.step());
        }
        assert_eq!(host.state(&queue), state);
        let other = busy_as(&mut host, space, 1, false, |descriptor| descriptor.rank = word(3, 3, 0));
        host.long_command(Command::SetQueuePriority, [0, word(3, 4, 0).into(), 4, 0, 0]);
        // Only its place on the run list changed.
        assert_eq!(host.state(&queue), state, "after the change");
        match state {
            3 => {
                let at = host.locate(space, VA);
                host.write64(at, 1);
                host.command(Command::FenceChanged, space.root.into_bits(), VA, 0);
            }
            0 | 4 => {
                host.write_packets(&mut queue, &[Packet::Nop(Nop {})]);
                host.command(if state == 0 { Command::KickQueue } else { Command::ResumeQueue }, 0, 0, 0);
            }
            _ => {}
        }
        let first = if state == 5 { 0 } else { 1 };
        while done(&host, std::slice::from_ref(&other)) == [0] {
            let before = host.read_pointer(&queue);
            assert!(host.gpu.step());
            let moved = host.read_pointer(&other) != 0;
            assert!(!moved || before == first, "state {state}: the lower level ran first");
        }
        host.run();
        assert_eq!(host.read_pointer(&other), 60);
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
    // The other one is a time slice behind, not the whole of its fill.
    assert!(host.gpu.step());
    host.gpu.step();
    assert_eq!(done(&host, &queues), [1, 1]);
}

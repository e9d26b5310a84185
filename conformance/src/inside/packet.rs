//! Packet scheduling: contexts of packets on every node, preemption, waits and signals of the operating system, faults, and the
//! model beside hardware queues and without them.

use crate::cases::fault::NOWHERE;
use crate::cases::packet::{Plot, begin_halves, prioritise, runs};
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use super::hang::Guest;
use crate::rig::{Rig, fill};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

cases! { inside "Packet scheduling", behind "it steps the GPU, or makes it fault where it chooses";
    "Packet.OnlySchedulingOfPackets" on Boot::With(without_scheduling), "dxgkarg_submitcommandvirtual":
        "An operating system with hardware scheduling off runs all work as packets; hardware contexts are refused there."
        => only_packets;
    "Packet.PreemptedWorkIsDoneOnce" on Boot::Fresh, "gpu-preemption":
        "Contexts of low priority that are preempted over and over lose no packet and do none twice."
        => done_once;
    "Packet.TerminationTakesPacketsOff" needs NativeFence on Boot::Fresh, "dxgkddi_preemptcommand":
        "Packets of a terminated process leave the hardware, also one that waits there, and those of others go on."
        => termination;
    "Packet.SignalsOfProcessesInTurnAreReported" needs NativeFence on Boot::Fresh, "native-gpu-fence-objects":
        "While packets of two processes are on one node in turn, each signal of a native fence in them wakes its waiters on the processor: the report names the fence of the process whose packet ran."
        holds [NativeFence 45]
        => signals_in_turn;
    "Packet.FaultLeavesThePacketsBehindIt" needs NativeFence on Boot::Fresh, "gpu-preemption":
        "When a packet faults, the packets of another process that are behind it on the node run all the same, in their order; the page is silent on faults, and that they cost the guilty device alone is the system's rule."
        => fault_leaves_those_behind;
}

fn without_scheduling() -> SystemOptions {
    let mut options = SystemOptions::default();
    options.features.hardware_scheduling = false;
    options
}

fn only_packets(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    ensure!(rig.context(NODE_COMPUTE).is_err(), "a hardware context was created with hardware scheduling off");
    runs(&rig, NODE_COMPUTE)?;
    case.in_other_process(|system| runs(&Rig::open(system.luid())?, NODE_COPY))
}

fn done_once(case: &mut Case<'_>) -> Result<(), Failure> {
    const PACKETS: u64 = 40;
    let rig = case.rig()?;
    let plot = Plot::new(&rig)?;
    let mut low = (0..3).map(|_| rig.packet_queue(NODE_COMPUTE)).collect::<Result<Vec<_>, _>>()?;
    let mut high = rig.packet_queue(NODE_COMPUTE)?;
    prioritise(&rig, &high, 7)?;
    let before = case.system.counters();
    for round in 1..=PACKETS {
        for (index, queue) in (0u64..).zip(&mut low) {
            // Each packet moves the word before it one on: a lost one leaves a gap, as one out of order does.
            let packets =
                [plot.write(100 * (index + 1), 1), plot.copy(100 * (index + 1) + round, 100 * (index + 1) + round - 1)];
            rig.packet_submit(queue, if round == 1 { &packets } else { &packets[1..] })?;
        }
        rig.packet_execute(&mut high, &[plot.write(0, round as u32)])?;
    }
    for (index, queue) in (0u64..).zip(&low) {
        rig.packet_wait(queue, PACKETS)?;
        for round in 0..=PACKETS {
            ensure_eq!(plot.word(100 * (index + 1) + round), 1, "word {round} of context {index}");
        }
    }
    let signals = case.system.counters().since(&before).signals;
    ensure_eq!(signals, 4 * PACKETS, "signals of {PACKETS} packets in each of four contexts");
    Ok(())
}

fn signals_in_turn(case: &mut Case<'_>) -> Result<(), Failure> {
    const ROUNDS: u64 = 400;
    // Packets of each process that nobody has waited for: with two, the node always has packets of both.
    const AHEAD: u64 = 2;
    let guests = [Guest::new(case.system, "one")?, Guest::new(case.system, "other")?];
    let waited = |guest: &Guest| {
        guest.inside(|rig| {
            let (fence, mut queue) = (rig.fence(0)?, rig.packet_queue(NODE_COMPUTE)?);
            for round in 1..=ROUNDS {
                rig.packet_submit(&mut queue, &[fence.signal(round)])?;
                if let Some(value) = round.checked_sub(AHEAD) {
                    granted(rig.wait(&[fence.handle], &[value], false), "the wait of the processor")?;
                }
            }
            granted(rig.wait(&[fence.handle], &[ROUNDS], false), "the last wait of the processor")
        })
    };
    std::thread::scope(|scope| {
        let threads = guests.each_ref().map(|guest| scope.spawn(|| waited(guest)));
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a thread of a process panicked")))
        })
    })?;
    guests.iter().for_each(|guest| guest.process.exit());
    Ok(())
}

fn fault_leaves_those_behind(case: &mut Case<'_>) -> Result<(), Failure> {
    const ROUNDS: usize = 20;
    const BEHIND: u64 = 3;
    const LARGE: u64 = 8 << 20;
    let innocent = Guest::new(case.system, "innocent")?;
    let mut behind = innocent.inside(|rig| Ok((rig.fence(0)?, rig.packet_queue(NODE_COMPUTE)?)))?;
    for round in 0..ROUNDS as u64 {
        let guilty = case.rig()?;
        let memory = guilty.memory(LARGE, Placement::Vram)?;
        let mut doomed = guilty.packet_queue(NODE_COMPUTE)?;
        // The first packet takes long enough for the others to come behind it.
        guilty.packet_submit(&mut doomed, &[fill(memory.address, LARGE, 7), fill(NOWHERE, 4096, 7)])?;
        innocent.inside(|rig| {
            let (fence, queue) = &mut behind;
            for value in round * BEHIND + 1..=(round + 1) * BEHIND {
                rig.packet_submit(queue, &[fence.wait(value - 1), fence.signal(value)])?;
            }
            granted(
                rig.wait(&[fence.handle], &[(round + 1) * BEHIND], false),
                "the wait for the packets behind the fault",
            )
        })?;
        granted(guilty.destroy(), "destroying the lost device")?;
    }
    innocent.inside(|rig| runs(rig, NODE_COMPUTE))?;
    innocent.process.exit();
    Ok(())
}

fn termination(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let plot = Plot::new(&rig)?;
    let mut queue = rig.packet_queue(NODE_COMPUTE)?;
    let process = dxgkrnl::Process::new(case.system.machine(), "terminated");
    let luid = case.system.luid();
    on_thread(&process, || {
        let other = Rig::open(luid)?;
        let (gate, plot) = (other.fence(0)?, Plot::new(&other)?);
        let mut waiting = other.packet_queue(NODE_COMPUTE)?;
        begin_halves(&other, &mut waiting, &plot, gate)
    })?;
    rig.packet_submit(&mut queue, &[plot.write(0, 1)])?;
    process.terminate();
    rig.packet_wait(&queue, 1)?;
    rig.packet_execute(&mut queue, &[plot.write(1, 1)])?;
    ensure_eq!((plot.word(0), plot.word(1)), (1, 1), "packets of the other process");
    Ok(())
}

//! Packet scheduling: contexts of packets on every node, preemption, waits and signals of the operating system, faults, and the
//! model beside hardware queues and without them.

use crate::cases::packet::{Plot, begin_halves, prioritise, runs};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use crate::rig::Rig;
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure};
use testbed::setup::SystemOptions;

cases! { inside "Packet scheduling", behind "it steps the GPU, or makes it fault where it chooses";
    "Packet.OnlySchedulingOfPackets" on Boot::With(without_scheduling), "dxgkarg_submitcommandvirtual":
        "An operating system with hardware scheduling off runs all work as packets; hardware contexts are refused there."
        => only_packets;
    "Packet.PreemptedWorkIsDoneOnce" on Boot::Fresh, "gpu-preemption":
        "Contexts of low priority that are preempted over and over lose no packet and do none twice."
        => done_once;
    "Packet.TerminationTakesPacketsOff" on Boot::Fresh, "dxgkddi_preemptcommand":
        "Packets of a terminated process leave the hardware, also one that waits there, and those of others go on."
        => termination;
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

//! Which packet counts as the last one completed after a reset, as the next preemption tells it.

use campanile_device::FaultRule;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::{Rescue, TdrOutcome, TdrSettings};

use super::hang::{ACTIVE, FATAL, HUNG, arm, by_hand, reports, state, time_out_packets, wait_watched};
use crate::rig::{PacketQueue, Rig, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::System;

cases! { inside "TDR", behind "it lets the GPU hang, moves the clock on, and counts preemptions";
    "Tdr.PreemptionBehindAPacketReset" needs NativeFence on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A preemption behind a reset of the engine, before anything completed there, names the aborted packet as the last one completed: the packet that is preempted is put back and runs, and nothing else happens."
        holds [Tdr 28]
        => behind_an_engine_reset;
    "Tdr.PreemptionBehindAnAdapterReset" needs NativeFence on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A preemption behind a reset of the adapter, before anything completed on the engine, names the last packet submitted before as the last one completed."
        holds [Tdr 28]
        => behind_an_adapter_reset;
}

/// Has a packet of `rig` wait in hardware until it was preempted and put back, then lets it run.
fn preempted(system: &System, rig: &Rig, queue: &mut PacketQueue, node: u32) -> Result<(), Failure> {
    let preemptions = || system.machine().preemptions(system.luid(), node).unwrap_or_default();
    let (gate, (_, before)) = (rig.fence(0)?, preemptions());
    let value = rig.packet_submit(queue, &[gate.wait(1)])?;
    for _ in 0..4 {
        let (asked, back) = preemptions();
        system.machine().advance(TdrSettings::default().delay);
        // The GPU gets the time to answer that the clock of the case does not give it.
        if preemptions().0 > asked {
            wait_watched(system, "the packet, put back", || preemptions().1 > back)?;
        }
    }
    ensure!(preemptions().1 > before, "no packet was preempted and put back");
    granted(rig.signal(&[gate.handle], &[1]), "the signal of the CPU")?;
    rig.packet_wait(queue, value)?;
    ensure_eq!(state(rig)?, ACTIVE, "state of the device that was preempted");
    Ok(())
}

/// Hangs a packet of `rig` on `node` behind one that completes.
fn hang(system: &System, rig: &Rig, node: u32) -> Result<(), Failure> {
    let mut queue = rig.packet_queue(node)?;
    rig.packet_execute(&mut queue, &[])?;
    let fence = rig.fence(0)?;
    let fault = arm(system, node, false);
    rig.packet_submit(&mut queue, &[fence.signal(1), fence.signal(FATAL)])?;
    wait_until("the hang", || system.gpu().faults().fired(fault) == 1)
}

fn behind_an_engine_reset(case: &mut Case<'_>) -> Result<(), Failure> {
    // A packet that waits, or that a stopped engine keeps, is long for the system, which cannot tell it from a lost one.
    case.announce(Rescue::RepeatedPacket);
    for node in [NODE_COMPUTE, NODE_COPY] {
        let (guilty, innocent) = (case.rig()?, case.rig()?);
        let mut queue = innocent.packet_queue(node)?;
        let before = reports(case.system).len();
        hang(case.system, &guilty, node)?;
        time_out_packets(case.system);
        ensure_eq!(state(&guilty)?, HUNG, "state of the guilty device");
        preempted(case.system, &innocent, &mut queue, node)?;
        let outcomes: Vec<_> = reports(case.system).split_off(before).iter().map(|report| report.outcome).collect();
        ensure_eq!(outcomes, [TdrOutcome::EngineReset], "recoveries on node {node}");
    }
    Ok(())
}

fn behind_an_adapter_reset(case: &mut Case<'_>) -> Result<(), Failure> {
    // A packet that waits, or that a stopped engine keeps, is long for the system, which cannot tell it from a lost one.
    case.announce(Rescue::RepeatedPacket);
    let guilty = case.rig()?;
    hang(case.system, &guilty, NODE_COMPUTE)?;
    case.system.gpu().faults().inject(FaultRule::ResetFails { node: NODE_COMPUTE });
    time_out_packets(case.system);
    ensure!(state(&guilty)? != ACTIVE, "the device outlived the reset");
    let before = reports(case.system).len();
    let rig = case.rig()?;
    let mut queue = rig.packet_queue(NODE_COMPUTE)?;
    preempted(case.system, &rig, &mut queue, NODE_COMPUTE)?;
    ensure_eq!(reports(case.system).len(), before, "recoveries behind the reset");
    Ok(())
}

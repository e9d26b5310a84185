//! What DxgkDdiQueryEngineStatus says: whether a node makes progress.

use campanile_device::FaultRule;
use campanile_hw::packet::{Copy, Packet};
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_BUSY, NODE_COMPUTE, NODE_COPY, NODE_PAGING, NODE_PROGRESS};
use dxgkrnl::{TdrOutcome, TdrSettings};

use super::hang::{FATAL, HUNG, arm, by_hand, reports, state, time_out, time_out_packets, works};
use crate::rig::{PacketQueue, Rig, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::{System, SystemOptions};

cases! { inside "TDR", needs UserModeSubmission, behind "it lets the GPU hang, moves the clock on, and reads the report of the reset";
    "Tdr.HungNodeMakesNoProgress" on Boot::With(patient), "tdr-changes-in-windows-8":
        "Before the engine of a packet that hangs is reset, on whichever node, DxgkDdiQueryEngineStatus says that the node makes no progress, whether the packet stands still or does not let go while it waits."
        holds [Tdr 8]
        => hung_node;
    "Tdr.LongPacketMakesProgress" on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A packet that does not let itself be preempted within TdrDelay while its work goes on costs its engine a reset, and DxgkDdiQueryEngineStatus says that the node makes progress."
        holds [Tdr 8]
        => long_packet;
    "Tdr.HungQueueMakesNoProgress" on Boot::With(patient), "tdr-changes-in-windows-8":
        "Before the engine of a hardware queue that hangs is reset, on either node and with either kind of submission, DxgkDdiQueryEngineStatus says that the node makes no progress, whether the queue stands still or its context does not leave while it waits."
        holds [Tdr 8]
        => hung_queue;
    "Tdr.LongQueueMakesProgress" on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A hardware queue whose context does not leave its engine within TdrDelay while its work goes on costs the engine a reset, and DxgkDdiQueryEngineStatus says that the node makes progress."
        holds [Tdr 8]
        => long_queue;
    "Tdr.RepeatedSuspensionForgetsNoProgress" on Boot::With(stepped), "tdr-changes-in-windows-8":
        "The system repeats a suspension that was not answered within TdrDelay before it asks DxgkDdiQueryEngineStatus: what the node has done since it was suspended first counts as progress, even if it does nothing between the repetition and the question (a rule of this driver)."
        holds [Tdr 8]
        => repeated_suspension;
    "Tdr.EngineStatusIsProgress" on Boot::With(by_hand), "dxgkddi_queryenginestatus":
        "Asked at any time, the driver says that a node makes progress that has nothing to do, waits for a fence, or works, and that one does not in which nothing moves; the answer is the node's own."
        holds [Tdr 8]
        => status_is_progress;
}

/// The process of the case causes more timeouts than one may.
fn patient() -> SystemOptions {
    let mut options = by_hand();
    options.tdr.limit_count = 100;
    options
}

const NODES: [u32; 3] = [NODE_COMPUTE, NODE_COPY, NODE_PAGING];

/// Number of packets that a node executed, from its progress register.
fn progress(system: &System, node: u32) -> Result<u64, Failure> {
    let register = NODE_PROGRESS.get(node as usize).copied();
    let register = register.ok_or_else(|| Failure::new("there is no such node"))?;
    Ok(system.gpu().register_read(register, 8))
}

/// True if DxgkDdiQueryEngineStatus says that the node responds.
fn responds(system: &System, node: u32) -> Result<bool, Failure> {
    let answer = system.machine().engine_responds(system.luid(), node);
    answer.ok_or_else(|| Failure::new("the driver does not say"))
}

/// Waits until the node has done something more; `step` runs a GPU that has no thread.
fn moves(system: &System, node: u32, step: &dyn Fn()) -> Result<(), Failure> {
    let before = progress(system, node)?;
    wait_until("progress of the node", || {
        step();
        progress(system, node).is_ok_and(|now| now != before)
    })
}

/// Moves time on until there are more recoveries than `before`, each time when the node has done something more.
fn time_out_in_motion(system: &System, node: u32, before: usize, step: &dyn Fn()) -> Result<(), Failure> {
    for _ in 0..6 {
        moves(system, node, step)?;
        system.machine().advance(TdrSettings::default().delay);
        if reports(system).len() > before {
            break;
        }
    }
    Ok(())
}

/// Copies that last for many seconds, a few bytes at a time.
fn long_copies(rig: &Rig) -> Result<[Packet; 16], Failure> {
    let memory = rig.memory(8192, Placement::Vram)?;
    let (source, destination) = (memory.address, memory.address + 4096);
    let copy = Copy { source, destination, row_bytes: 32, rows: 8 << 20, source_pitch: 0, destination_pitch: 0 };
    Ok([Packet::Copy(copy); 16])
}

fn submit_long(rig: &Rig, queue: &mut PacketQueue) -> Result<(), Failure> {
    rig.packet_submit(queue, &long_copies(rig)?).map(drop)
}

fn hung_node(case: &mut Case<'_>) -> Result<(), Failure> {
    let system = &*case.system;
    for (node, stands_still) in NODES.into_iter().flat_map(|node| [(node, true), (node, false)]) {
        let rig = case.rig()?;
        let (mut queue, fence, before) = (rig.packet_queue(node)?, rig.fence(0)?, reports(system).len());
        if stands_still {
            let hang = arm(system, node, false);
            rig.packet_submit(&mut queue, &[fence.signal(FATAL)])?;
            wait_until("the hang", || system.gpu().faults().fired(hang) == 1)?;
        } else {
            system.gpu().faults().inject(FaultRule::StuckSuspend { node });
            rig.packet_submit(&mut queue, &[fence.wait(1)])?;
        }
        time_out_packets(system);
        ensure_eq!(state(&rig)?, HUNG, "state of the device");
        let seen: Vec<_> =
            reports(system).into_iter().skip(before).map(|report| (report.node, report.responsive)).collect();
        ensure_eq!(seen, [(Some(node), Some(false))], "engine and answer");
        works(&case.rig()?)?;
    }
    Ok(())
}

fn long_packet(case: &mut Case<'_>) -> Result<(), Failure> {
    let system = &*case.system;
    for node in NODES {
        let (rig, before) = (case.rig()?, reports(system).len());
        let mut queue = rig.packet_queue(node)?;
        submit_long(&rig, &mut queue)?;
        time_out_in_motion(system, node, before, &|| ())?;
        ensure_eq!(
            answers(system, before),
            [(Some(node), TdrOutcome::EngineReset, Some(true))],
            "engine, outcome and answer"
        );
        works(&case.rig()?)?;
    }
    Ok(())
}

/// Submits each packet to a hardware queue of either kind of submission.
fn submit_to_queue(rig: &Rig, node: u32, by_kernel: bool, packets: &[Packet]) -> Result<(), Failure> {
    if by_kernel {
        let mut queue = rig.kernel_queue(node)?;
        packets.iter().try_for_each(|packet| rig.kernel_submit(&mut queue, &[*packet]).map(drop))
    } else {
        let mut queue = rig.queue(node)?;
        packets.iter().try_for_each(|packet| rig.submit(&mut queue, &[*packet]).map(drop))
    }
}

fn hung_queue(case: &mut Case<'_>) -> Result<(), Failure> {
    let system = &*case.system;
    for (number, node) in [NODE_COMPUTE, NODE_COPY].into_iter().cycle().take(8).enumerate() {
        let (by_kernel, stands_still) = (number & 2 != 0, number & 4 != 0);
        let rig = case.rig()?;
        let (fence, before) = (rig.fence(0)?, reports(system).len());
        if stands_still {
            let hang = arm(system, node, false);
            submit_to_queue(&rig, node, by_kernel, &[fence.signal(FATAL)])?;
            wait_until("the hang", || system.gpu().faults().fired(hang) == 1)?;
        } else {
            submit_to_queue(&rig, node, by_kernel, &[fence.wait(1)])?;
        }
        let stuck = system.gpu().faults().inject_times(FaultRule::StuckSuspend { node }, u64::MAX);
        time_out_packets(system);
        system.gpu().faults().remove(stuck);
        let what = format!("node {node}, by the kernel {by_kernel}, stands still {stands_still}");
        ensure_eq!(state(&rig)?, HUNG, "state of the device, {what}");
        ensure_eq!(answers(system, before), [(Some(node), TdrOutcome::EngineReset, Some(false))], "recoveries, {what}");
        works(&case.rig()?)?;
    }
    Ok(())
}

fn long_queue(case: &mut Case<'_>) -> Result<(), Failure> {
    let system = &*case.system;
    for (node, by_kernel) in [(NODE_COMPUTE, false), (NODE_COPY, false), (NODE_COMPUTE, true), (NODE_COPY, true)] {
        let (rig, before) = (case.rig()?, reports(system).len());
        // The driver is asked again before an engine is reset for a context that did not leave.
        let stuck = system.gpu().faults().inject_times(FaultRule::StuckSuspend { node }, u64::MAX);
        submit_to_queue(&rig, node, by_kernel, &long_copies(&rig)?)?;
        time_out_in_motion(system, node, before, &|| ())?;
        ensure!(system.gpu().faults().remove(stuck) > 0, "every suspension was answered");
        let expected = [(Some(node), TdrOutcome::EngineReset, Some(true))];
        ensure_eq!(answers(system, before), expected, "recoveries of node {node}, by the kernel {by_kernel}");
        works(&case.rig()?)?;
    }
    Ok(())
}

/// Without a thread that runs the GPU, which goes on only where the case lets it.
fn stepped() -> SystemOptions {
    SystemOptions { threads: false, ..by_hand() }
}

fn repeated_suspension(case: &mut Case<'_>) -> Result<(), Failure> {
    let system = &*case.system;
    for by_kernel in [false, true] {
        let (rig, before) = (case.rig()?, reports(system).len());
        let stuck = system.gpu().faults().inject_times(FaultRule::StuckSuspend { node: NODE_COMPUTE }, u64::MAX);
        submit_to_queue(&rig, NODE_COMPUTE, by_kernel, &long_copies(&rig)?)?;
        time_out_in_motion(system, NODE_COMPUTE, before, &|| {
            system.gpu().step();
        })?;
        ensure!(system.gpu().faults().remove(stuck) > 1, "the suspension was not repeated");
        let expected = [(Some(NODE_COMPUTE), TdrOutcome::EngineReset, Some(true))];
        ensure_eq!(answers(system, before), expected, "recoveries, by the kernel {by_kernel}");
    }
    Ok(())
}

/// Engine, outcome and answer of each recovery since there were `before`.
fn answers(system: &System, before: usize) -> Vec<(Option<u32>, TdrOutcome, Option<bool>)> {
    let new = reports(system).into_iter().skip(before);
    new.map(|report| (report.node, report.outcome, report.responsive)).collect()
}

fn status_is_progress(case: &mut Case<'_>) -> Result<(), Failure> {
    let system = &*case.system;
    let all = |expected: [bool; 3], what: &str| {
        let answers = NODES.map(|node| responds(system, node));
        let [compute, copy, paging] = answers;
        ensure_eq!([compute?, copy?, paging?], expected, "compute, copy and paging node, {what}");
        Ok::<(), Failure>(())
    };
    // Work that came and was not begun between two looks would be no progress.
    let all_idle = || wait_until("the engines to be idle", || system.gpu().register_read(NODE_BUSY, 4) == 0);
    let rig = case.rig()?;
    all_idle()?;
    (0..2).try_for_each(|_| all([true; 3], "idle"))?;
    let (gate, mut waiting) = (rig.fence(0)?, rig.packet_queue(NODE_COMPUTE)?);
    let value = rig.packet_submit(&mut waiting, &[gate.wait(1)])?;
    all_idle()?;
    (0..2).try_for_each(|_| all([true; 3], "one waiting for a fence"))?;
    granted(rig.signal(&[gate.handle], &[1]), "the signal")?;
    rig.packet_wait(&waiting, value)?;
    // A user-mode queue hangs one node, while another works.
    let long = case.rig()?;
    let mut copying = long.packet_queue(NODE_COPY)?;
    submit_long(&long, &mut copying)?;
    let (mut queue, fence) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?);
    let hang = arm(system, NODE_COMPUTE, false);
    rig.submit(&mut queue, &[fence.signal(FATAL)])?;
    wait_until("the hang", || system.gpu().faults().fired(hang) == 1)?;
    moves(system, NODE_COPY, &|| ())?;
    all([true; 3], "the first time anybody looks since the work came")?;
    for _ in 0..3 {
        moves(system, NODE_COPY, &|| ())?;
        all([false, true, true], "one hung and one at work")?;
    }
    time_out(system);
    wait_until("the loss of the device", || state(&rig).is_ok_and(|state| state == HUNG))?;
    time_out_packets(system);
    works(&case.rig()?)?;
    all_idle()?;
    (0..2).try_for_each(|_| all([true; 3], "after the resets"))
}

//! Timeouts of contexts that are scheduled packet by packet: the seven steps, and what is left after each way they may end.

use campanile_device::{FaultRule, HangAt};
use campanile_hw::private::Placement;
use campanile_hw::registers::{CONTROL, NODE_COMPUTE, NODE_COPY, NODE_PAGING};
use dxgkrnl::{Rescue, TdrFate, TdrKind, TdrLevel, TdrOutcome, TdrReason, TdrSettings};

use super::hang::{
    ACTIVE, FATAL, Guest, HUNG, RESET, TDR_FAILURE, arm, by_hand, doomed, hold_reset, only_report, reports, state,
    time_out_packets, until_ended, wait_watched, works,
};
use crate::rig::{PacketQueue, Rig, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::System;

cases! { inside "TDR", behind "it lets the GPU hang, moves the clock on, and reads the report of the reset";
    "Tdr.PacketResetFollowsThePage" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "On every node a packet that hangs is first preempted, then its engine asked for its state and its group, information collected and the engine reset; the device of the packet is lost, and new ones work."
        holds [Tdr 3, Tdr 7, Tdr 10, Tdr 11, Tdr 21, Tdr 24]
        => follows_the_page;
    "Tdr.OthersGoOnBesideAPacketReset" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "Between all steps of the recovery of one engine, packets and hardware queues of the other engines are executed, and hardware queues also while DxgkDdiResetEngine runs."
        holds [Tdr 2, Tdr 25]
        => others_go_on;
    "Tdr.PacketsBehindAHangRunOnce" needs NativeFence on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "Packets of other contexts that the hardware had or that waited are executed after the reset, each once and in the order of their context."
        holds [Tdr 28, Tdr 32]
        => behind_a_hang;
    "Tdr.PagingBehindAHangIsDone" needs NativeFence on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "Paging packets behind a packet that hangs on their node are executed after its reset, and whoever waits for them gets its memory."
        holds [Tdr 31]
        => paging_behind_a_hang;
    "Tdr.EmptyQueueEndsTheRecovery" needs NativeFence on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A packet that completes after the timeout was detected and before the snapshot leaves nothing on the hardware: no engine is reset and no device lost."
        holds [Tdr 23]
        => empty_queue;
    "Tdr.CompletionAfterTheSnapshotCounts" needs NativeFence on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A packet that completes between the snapshot and the reset is the last one completed, which the driver names as aborted: its device is lost, and no other packet."
        holds [Tdr 30]
        => completion_after_snapshot;
    "Tdr.CompletionWithoutAnInterruptCounts" needs NativeFence on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A packet that completed, of which no interrupt told, in front of the one that hangs: the driver names the one that hangs as aborted, only its device is lost, and what completed is not executed again."
        holds [Tdr 28]
        => silent_completion;
    "Tdr.BlockedPacketIsNoHang" needs NativeFence on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A packet that waits in hardware for a fence is preempted and put back, however long it waits, and nothing of it runs twice."
        holds [Tdr 10]
        => blocked_packet;
    "Tdr.StuckPreemptionOfPacketsIsATimeout" needs NativeFence on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A preemption of packets that is not done within TdrDelay is a timeout."
        holds [Tdr 11]
        => stuck_preemption;
    "Tdr.RefusedPacketResetIsPromoted" needs NativeFence on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "When DxgkDdiResetEngine fails, the adapter is reset and restarted for the reason EngineTimeoutPromotedToAdapterReset; every device is lost, ids of before count as complete, and new devices work."
        holds [Tdr 28, Tdr 41, Tdr 43, Tdr 47]
        => promoted;
    "Tdr.PagingPacketThatHangsCostsTheAdapter" on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "When the packet that hangs is the memory manager's, the adapter is reset after the engine; owners of its allocations are in error, the system is not and pages for others."
        holds [Tdr 51]
        => paging_packet;
    "Tdr.MemoryIsLostWithTheAdapter" needs UserModeSubmission on Boot::With(by_hand), "dxgkddi_resetfromtimeout":
        "Nothing that lay in the adapter's memory is relied upon after DxgkDdiRestartFromTimeout: page tables are written anew, also for processes that were there before."
        holds [Tdr 45]
        => memory_is_lost;
    "Tdr.MemoryLeavesWithNothingToMove" needs NativeFence on Boot::With(by_hand), "thread-synchronization-and-tdr":
        "Between DxgkDdiResetFromTimeout and DxgkDdiRestartFromTimeout the driver is told of each allocation in its memory that it leaves, as an eviction of 0 bytes, and of nothing else; nothing is moved, and the memory is free."
        holds [Tdr 46]
        => evictions_of_a_reset;
    "Tdr.StoppedMachineResetsItsDevices" on Boot::With(by_hand), "dxgkddi_reset_device":
        "On a machine that has stopped DxgkDdiResetDevice is called at the highest level, returns from it with nothing but its device touched, and the GPU executes nothing from then on; without that it would have gone on."
        holds [Tdr 50]
        => reset_devices;
    "Tdr.PacketLimitCountEndsInABugCheck" on Boot::With(by_hand), "tdr-registry-keys":
        "Engine timeouts of packets do not count towards TdrLimitCount; adapter timeouts that they are promoted to do, and one too many is bug check 0x116."
        holds [Tdr 54]
        => limit_count;
    "Tdr.SlowPacketResetIsABugCheck" on Boot::With(by_hand), "tdr-registry-keys":
        "A driver that does not come back from DxgkDdiResetEngine within TdrDdiDelay is bug check 0x116."
        holds [Tdr 56]
        => slow_driver;
    "Tdr.ReportedHangOfPacketsNeedsNoTime" needs NativeFence on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "When the hardware reports its engine as hung in a packet, the engine is reset at once, after the preemption that comes before every reset."
        holds [Tdr 15]
        => reported_hang;
    "Tdr.ModelsOnOneEngineAreToldApart" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "On an engine that runs packets and hardware queues, a hang costs only whichever of them hangs, found by time or reported."
        holds [Tdr 20]
        => told_apart;
    "Tdr.ExitWithAHungPacketIsBounded" needs NativeFence on Boot::With(by_hand), "dxgkddi_preemptcommand":
        "A process that ends, normally or not, while a packet of it hangs is gone when time has gone on, by a reset of that engine only."
        holds [Tdr 40]
        => exit;
}

const NODES: [u32; 3] = [NODE_COMPUTE, NODE_COPY, NODE_PAGING];

/// Submits a packet of `rig` that hangs behind a signal of 1, and waits until it does. Returns its progress value.
pub(super) fn hang(system: &System, rig: &Rig, queue: &mut PacketQueue, node: u32) -> Result<u64, Failure> {
    let fence = rig.fence(0)?;
    let fault = arm(system, node, false);
    let value = rig.packet_submit(queue, &[fence.signal(1), fence.signal(FATAL)])?;
    wait_until("the hang", || system.gpu().faults().fired(fault) == 1)?;
    ensure_eq!(fence.value.load(), 1, "fence before the packet that hangs");
    Ok(value)
}

/// A device works with packets on every node.
fn packets_work(rig: &Rig) -> Result<(), Failure> {
    for node in NODES {
        let mut queue = rig.packet_queue(node)?;
        rig.packet_execute(&mut queue, &[])?;
        granted(rig.destroy_packet_context(queue.context), "D3DKMTDestroyContext")?;
    }
    Ok(())
}

fn follows_the_page(case: &mut Case<'_>) -> Result<(), Failure> {
    for node in NODES {
        let (guilty, innocent) = (case.rig()?, case.rig()?);
        let (mut queue, mut beside) = (guilty.packet_queue(node)?, innocent.packet_queue(node)?);
        innocent.packet_execute(&mut beside, &[])?;
        let before = reports(case.system).len();
        hang(case.system, &guilty, &mut queue, node)?;
        case.system.machine().start_ddi_log(case.system.luid());
        case.system.machine().advance(TdrSettings::default().delay);
        case.system.machine().advance(TdrSettings::default().delay);
        ensure_eq!((state(&guilty)?, reports(case.system).len()), (ACTIVE, before), "before TdrDelay is over");
        time_out_packets(case.system);
        let log = case.system.machine().take_ddi_log(case.system.luid());
        let named = log.iter().filter_map(|name| name.strip_prefix("DxgkDdi"));
        let wanted = ["Preempt", "Reset", "Engine", "CollectDbgInfo"];
        let order: Vec<&str> = named.filter(|name| wanted.iter().any(|part| name.contains(part))).collect();
        ensure_eq!(
            order,
            ["PreemptCommand", "QueryEngineStatus", "QueryDependentEngineGroup", "CollectDbgInfo", "ResetEngine"],
            "DDIs of a recovery on node {node}"
        );
        ensure_eq!((state(&guilty)?, state(&innocent)?), (HUNG, ACTIVE), "states of the devices");
        let report = reports(case.system).split_off(before);
        let [report] = report.as_slice() else { return Err(Failure::new(format!("{report:?}"))) };
        ensure_eq!(
            (report.node, report.reason, report.outcome, report.live_dump),
            (Some(node), TdrReason::EngineTimeout, TdrOutcome::EngineReset, Some(0x141)),
            "report"
        );
        let lines: Vec<_> = report.with(TdrFate::Guilty).map(|line| (line.handle, line.kind)).collect();
        ensure_eq!(lines, [(queue.context, TdrKind::Packets)], "guilty in {report}");
        ensure!(!report.debug_information.is_empty(), "the driver told nothing");
        innocent.packet_execute(&mut beside, &[])?;
        packets_work(&case.rig()?)?;
        works(&innocent)?;
    }
    Ok(())
}

fn others_go_on(case: &mut Case<'_>) -> Result<(), Failure> {
    /// Submissions of each at each step.
    const EACH: u64 = 5;
    let (guilty, guest) = (case.rig()?, Guest::new(case.system, "beside")?);
    let mut queue = guilty.packet_queue(NODE_COMPUTE)?;
    let (mut packets, mut paging, mut hardware) = guest
        .inside(|rig| Ok((rig.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_PAGING)?, rig.queue(NODE_COPY)?)))?;
    // Nobody makes or pages anything while DxgkDdiResetEngine runs: it is alone in the functions of its class.
    let mut ready = guest.inside(|rig| {
        let mut queue = rig.queue(NODE_COPY)?;
        rig.execute(&mut queue, &[]).map(|()| queue)
    })?;
    hang(case.system, &guilty, &mut queue, NODE_COMPUTE)?;
    let system = &*case.system;
    let faults = system.gpu().faults();
    let before = system.counters();
    let mut expected = 0;
    let mut all = |what: &str| {
        for _ in 0..EACH {
            guest.inside(|rig| {
                rig.packet_execute(&mut packets, &[])?;
                rig.packet_execute(&mut paging, &[])?;
                rig.execute(&mut hardware, &[])
            })?;
        }
        expected += 2 * EACH;
        ensure_eq!(system.counters().since(&before).signals, expected, "signals of packets executed {what}");
        Ok::<(), Failure>(())
    };
    all("beside the hang")?;
    system.machine().advance(TdrSettings::default().delay);
    all("after the first look")?;
    system.machine().advance(TdrSettings::default().delay);
    all("beside the preemption")?;
    let rule = faults.inject(FaultRule::ResetHeld { node: NODE_COMPUTE, milliseconds: u64::MAX });
    std::thread::scope(|scope| {
        let recovery = scope.spawn(|| time_out_packets(system));
        let beside = wait_until("the reset", || faults.fired(rule) == 1 || recovery.is_finished()).and_then(|()| {
            guest.inside(|rig| (0..EACH).try_for_each(|_| rig.execute(&mut ready, &[])))?;
            ensure!(!recovery.is_finished(), "the reset was over before");
            Ok(())
        });
        faults.release(rule);
        beside
    })?;
    all("after the reset")?;
    ensure_eq!((state(&guilty)?, only_report(system)?.node), (HUNG, Some(NODE_COMPUTE)), "state and report");
    guest.inside(|rig| {
        ensure_eq!(state(rig)?, ACTIVE, "state of the device beside");
        Ok(())
    })
}

fn behind_a_hang(case: &mut Case<'_>) -> Result<(), Failure> {
    const EACH: u64 = 20;
    for node in NODES {
        let guilty = case.rig()?;
        let mut queue = guilty.packet_queue(node)?;
        let guests = [Guest::new(case.system, "first")?, Guest::new(case.system, "second")?];
        let mut work = Vec::new();
        for guest in &guests {
            work.push(guest.inside(|rig| Ok((rig.packet_queue(node)?, rig.fence(0)?)))?);
        }
        hang(case.system, &guilty, &mut queue, node)?;
        let before = case.system.counters();
        for (guest, (queue, fence)) in guests.iter().zip(&mut work) {
            // A value that goes back, as one out of order or a second time would, is a fault.
            let submit = |rig: &Rig, queue: &mut _, value| rig.packet_submit(queue, &[fence.signal(value)]).map(drop);
            guest.inside(|rig| (1..=EACH).try_for_each(|value| submit(rig, queue, value)))?;
        }
        time_out_packets(case.system);
        for (guest, (queue, fence)) in guests.iter().zip(&work) {
            guest.inside(|rig| rig.packet_wait(queue, EACH))?;
            ensure_eq!(fence.value.load(), EACH, "fence of the packets on node {node}");
            guest.inside(|rig| {
                ensure_eq!(state(rig)?, ACTIVE, "state of an innocent device");
                Ok(())
            })?;
        }
        let signals = case.system.counters().since(&before).signals;
        ensure_eq!(signals, 2 * 2 * EACH, "signals executed after the reset of node {node}");
        ensure_eq!(state(&guilty)?, HUNG, "state of the guilty device");
        guests.iter().for_each(|guest| guest.process.exit());
    }
    Ok(())
}

fn paging_behind_a_hang(case: &mut Case<'_>) -> Result<(), Failure> {
    let (guilty, guest) = (case.rig()?, Guest::new(case.system, "pager")?);
    let mut queue = guilty.packet_queue(NODE_PAGING)?;
    hang(case.system, &guilty, &mut queue, NODE_PAGING)?;
    let memory = until_ended(case.system, || guest.inside(|rig| rig.memory(1 << 20, Placement::Vram)))?;
    ensure_eq!((state(&guilty)?, only_report(case.system)?.outcome), (HUNG, TdrOutcome::EngineReset), "outcome");
    guest.inside(|rig| {
        ensure_eq!(state(rig)?, ACTIVE, "state of the device that waited for memory");
        let mut queue = rig.packet_queue(NODE_COPY)?;
        rig.packet_execute(&mut queue, &[crate::rig::fill(memory.address, 1 << 20, 7)])
    })?;
    packets_work(&case.rig()?)
}

fn empty_queue(case: &mut Case<'_>) -> Result<(), Failure> {
    let (first, second) = (case.rig()?, case.rig()?);
    let (mut compute, mut copy) = (first.packet_queue(NODE_COMPUTE)?, second.packet_queue(NODE_COPY)?);
    hang(case.system, &first, &mut compute, NODE_COMPUTE)?;
    let value = hang(case.system, &second, &mut copy, NODE_COPY)?;
    // Both are found at one look; while the first engine is being reset, the second goes on.
    let system = &*case.system;
    let faults = system.gpu().faults();
    let rule = faults.inject(FaultRule::ResetHeld { node: NODE_COMPUTE, milliseconds: u64::MAX });
    std::thread::scope(|scope| {
        let recovery = scope.spawn(|| time_out_packets(system));
        let done = wait_until("the reset", || faults.fired(rule) == 1 || recovery.is_finished()).and_then(|()| {
            system.gpu().let_go(NODE_COPY);
            wait_until("the second packet", || copy.progress.value.load() == value)?;
            second.packet_wait(&copy, value)
        });
        faults.release(rule);
        done
    })?;
    let seen: Vec<_> = reports(system).iter().map(|report| (report.node, report.outcome)).collect();
    let expected = [(Some(NODE_COMPUTE), TdrOutcome::EngineReset), (Some(NODE_COPY), TdrOutcome::NothingToReset)];
    ensure_eq!(seen, expected, "recoveries");
    ensure_eq!((state(&first)?, state(&second)?), (HUNG, ACTIVE), "states of the devices");
    second.packet_execute(&mut copy, &[])
}

fn completion_after_snapshot(case: &mut Case<'_>) -> Result<(), Failure> {
    let (guilty, innocent) = (case.rig()?, case.rig()?);
    let (mut queue, mut beside) = (guilty.packet_queue(NODE_COMPUTE)?, innocent.packet_queue(NODE_COMPUTE)?);
    hang(case.system, &guilty, &mut queue, NODE_COMPUTE)?;
    let behind = innocent.packet_submit(&mut beside, &[])?;
    let before = case.system.counters();
    let rule = case.system.gpu().faults().inject(FaultRule::CompletionRacesReset { node: NODE_COMPUTE });
    time_out_packets(case.system);
    ensure_eq!(case.system.gpu().faults().fired(rule), 1, "resets that came too late");
    ensure_eq!(state(&guilty)?, HUNG, "state of the device of the packet");
    innocent.packet_wait(&beside, behind)?;
    ensure_eq!((state(&innocent)?, only_report(case.system)?.outcome), (ACTIVE, TdrOutcome::EngineReset), "the other");
    // The packet did complete, and the other was executed once.
    ensure_eq!(case.system.counters().since(&before).signals, 2 + 1, "signals executed");
    packets_work(&case.rig()?)
}

fn silent_completion(case: &mut Case<'_>) -> Result<(), Failure> {
    let (innocent, guilty) = (case.rig()?, case.rig()?);
    let (mut before, mut queue) = (innocent.packet_queue(NODE_COMPUTE)?, guilty.packet_queue(NODE_COMPUTE)?);
    let (gate, fence) = (innocent.fence(0)?, guilty.fence(0)?);
    let faults = case.system.gpu().faults();
    let value = innocent.packet_submit(&mut before, &[gate.wait(1)])?;
    let hang = arm(case.system, NODE_COMPUTE, false);
    guilty.packet_submit(&mut queue, &[fence.signal(FATAL)])?;
    let signals = case.system.counters();
    // From here on no interrupt tells of anything, until the engine was reset.
    let lost = faults.inject_times(FaultRule::LostInterrupt, u64::MAX);
    granted(innocent.signal(&[gate.handle], &[1]), "the signal of the CPU")?;
    wait_until("the hang", || faults.fired(hang) == 1)?;
    time_out_packets(case.system);
    ensure!(faults.remove(lost) > 0, "no interrupt was lost");
    ensure_eq!((state(&guilty)?, state(&innocent)?), (HUNG, ACTIVE), "states of the devices");
    innocent.packet_wait(&before, value)?;
    ensure_eq!(only_report(case.system)?.outcome, TdrOutcome::EngineReset, "outcome");
    // The signal of its progress, once.
    ensure_eq!(case.system.counters().since(&signals).signals, 1, "signals executed");
    packets_work(&case.rig()?)
}

/// Preemptions that were asked for on a node, and packets handed over again, so far.
fn preemptions(system: &System, node: u32) -> Result<(u32, u64), Failure> {
    let found = system.machine().preemptions(system.luid(), node);
    found.ok_or_else(|| Failure::new("there is no such node"))
}

fn blocked_packet(case: &mut Case<'_>) -> Result<(), Failure> {
    // A packet that waits, or that a stopped engine keeps, is long for the system, which cannot tell it from a lost one.
    case.announce(Rescue::RepeatedPacket);
    let rig = case.rig()?;
    let (gate, count) = (rig.fence(0)?, rig.fence(0)?);
    for node in NODES {
        let mut queue = rig.packet_queue(node)?;
        let wanted = u64::from(node) + 1;
        // A signal that runs twice goes back, which is a fault.
        let value = rig
            .packet_submit(&mut queue, &[count.signal(2 * wanted - 1), gate.wait(wanted), count.signal(2 * wanted)])?;
        wait_until("the wait", || count.value.load() == 2 * wanted - 1)?;
        let before = case.system.counters();
        for _ in 0..9 {
            let (asked, put_back) = preemptions(case.system, node)?;
            case.system.machine().advance(TdrSettings::default().delay);
            // The GPU gets the time to answer that the clock of the case does not give it.
            if preemptions(case.system, node)?.0 > asked {
                let back = || preemptions(case.system, node).is_ok_and(|(_, now)| now > put_back);
                wait_watched(case.system, "the packet, put back", back)?;
            }
        }
        ensure!(preemptions(case.system, node)?.0 > 0, "no preemption was tried");
        ensure_eq!((reports(case.system).len(), state(&rig)?), (0, ACTIVE), "recoveries and state");
        granted(rig.signal(&[gate.handle], &[wanted]), "the signal of the CPU")?;
        rig.packet_wait(&queue, value)?;
        ensure_eq!(case.system.counters().since(&before).signals, 2, "signals behind the wait");
    }
    Ok(())
}

fn stuck_preemption(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (gate, mut queue) = (rig.fence(0)?, rig.packet_queue(NODE_COPY)?);
    rig.packet_submit(&mut queue, &[gate.wait(1)])?;
    let rule = case.system.gpu().faults().inject(FaultRule::StuckSuspend { node: NODE_COPY });
    time_out_packets(case.system);
    ensure_eq!(case.system.gpu().faults().fired(rule), 1, "preemptions that stuck");
    ensure_eq!((state(&rig)?, only_report(case.system)?.outcome), (HUNG, TdrOutcome::EngineReset), "outcome");
    packets_work(&case.rig()?)
}

fn promoted(case: &mut Case<'_>) -> Result<(), Failure> {
    let (guilty, beside) = (case.rig()?, Guest::new(case.system, "beside")?);
    let mut queue = guilty.packet_queue(NODE_COMPUTE)?;
    let mut other = beside.inside(|rig| rig.packet_queue(NODE_COPY))?;
    beside.inside(|rig| rig.packet_execute(&mut other, &[]))?;
    let value = hang(case.system, &guilty, &mut queue, NODE_COMPUTE)?;
    let rule = case.system.gpu().faults().inject(FaultRule::ResetFails { node: NODE_COMPUTE });
    case.system.machine().start_ddi_log(case.system.luid());
    time_out_packets(case.system);
    let log = case.system.machine().take_ddi_log(case.system.luid());
    let wanted = ["DxgkDdiResetEngine", "DxgkDdiResetFromTimeout", "DxgkDdiRestartFromTimeout"];
    let order: Vec<&str> = log.iter().map(String::as_str).filter(|name| wanted.contains(name)).collect();
    ensure_eq!(order, wanted, "DDIs of both resets");
    ensure_eq!(case.system.gpu().faults().fired(rule), 1, "resets that failed");
    let seen: Vec<_> = reports(case.system).iter().map(|report| (report.node, report.reason.number())).collect();
    ensure_eq!(seen, [(Some(NODE_COMPUTE), None), (None, Some(9))], "recoveries");
    beside.inside(|rig| {
        ensure_eq!(state(rig)?, RESET, "state of the device beside");
        Ok(())
    })?;
    ensure!(state(&guilty)? != ACTIVE, "the guilty device goes on");
    ensure!(guilty.packet_wait(&queue, value).is_err(), "the wait for what hung succeeded");
    granted(guilty.destroy_packet_context(queue.context), "D3DKMTDestroyContext on a lost device")?;
    packets_work(&case.rig()?)?;
    beside.process.exit();
    Guest::new(case.system, "later")?.inside(packets_work)
}

fn paging_packet(case: &mut Case<'_>) -> Result<(), Failure> {
    hang_in_paging(case, 0)
}

/// The paging node hangs in what it does for a process, after so many packets of that.
pub(super) fn hang_in_paging(case: &mut Case<'_>, packets: u64) -> Result<(), Failure> {
    let (owner, other) = (Guest::new(case.system, "owner")?, Guest::new(case.system, "other")?);
    let rule = FaultRule::Hang { node: NODE_PAGING, queue: None, at: HangAt::After(packets), reported: false };
    let rule = case.system.gpu().faults().inject(rule);
    // The caller gets its memory or an error, but it gets an answer.
    let _ = until_ended(case.system, || owner.inside(|rig| Ok(rig.memory(1 << 20, Placement::Vram).is_ok())))?;
    ensure_eq!(case.system.gpu().faults().fired(rule), 1, "paging packets that hung");
    // The caller is answered when its device is lost, which the reset of the adapter begins with.
    wait_until("the reset of the adapter", || reports(case.system).len() >= 2)?;
    let seen: Vec<_> = reports(case.system).iter().map(|report| (report.node, report.reason.number())).collect();
    ensure_eq!(seen, [(Some(NODE_PAGING), None), (None, Some(9))], "recoveries");
    for guest in [&owner, &other] {
        guest.inside(|rig| {
            ensure_eq!(state(rig)?, RESET, "state of {}", guest.process.name());
            Ok(())
        })?;
    }
    // The system pages on, for a process that was there before too.
    owner.process.exit();
    other.inside(|rig| {
        let rig = Rig::on_adapter(rig.kmt, rig.adapter)?;
        let memory = rig.memory(1 << 20, Placement::Vram)?;
        let mut queue = rig.packet_queue(NODE_COPY)?;
        rig.packet_execute(&mut queue, &[crate::rig::fill(memory.address, 1 << 20, 7)])?;
        packets_work(&rig)
    })
}

fn memory_is_lost(case: &mut Case<'_>) -> Result<(), Failure> {
    let guest = Guest::new(case.system, "survivor")?;
    guest.inside(packets_work)?;
    let guilty = case.rig()?;
    let mut queue = guilty.packet_queue(NODE_COMPUTE)?;
    hang(case.system, &guilty, &mut queue, NODE_COMPUTE)?;
    let faults = case.system.gpu().faults();
    faults.inject(FaultRule::ResetFails { node: NODE_COMPUTE });
    let lost = faults.inject(FaultRule::ResetLosesMemory);
    time_out_packets(case.system);
    ensure_eq!(faults.fired(lost), 1, "resets that lost the contents of VRAM");
    // The same process, whose page tables were lost, with another device.
    guest.inside(|rig| {
        let rig = Rig::on_adapter(rig.kmt, rig.adapter)?;
        let memory = rig.memory(1 << 20, Placement::Vram)?;
        let mut queue = rig.packet_queue(NODE_COPY)?;
        rig.packet_execute(&mut queue, &[crate::rig::fill(memory.address, 1 << 20, 7)])?;
        packets_work(&rig)?;
        works(&rig)
    })?;
    packets_work(&case.rig()?)?;
    Guest::new(case.system, "later")?.inside(packets_work)
}

fn evictions_of_a_reset(case: &mut Case<'_>) -> Result<(), Failure> {
    const EVICTION: &str = "DxgkDdiBuildPagingBuffer(eviction of 0 bytes)";
    let owner = Guest::new(case.system, "owner")?;
    owner.inside(|rig| {
        let memory = rig.memory(4 << 20, Placement::Vram)?;
        let mut queue = rig.packet_queue(NODE_COPY)?;
        rig.packet_execute(&mut queue, &[crate::rig::fill(memory.address, 4 << 20, 7)])
    })?;
    let guilty = case.rig()?;
    let mut queue = guilty.packet_queue(NODE_COMPUTE)?;
    hang(case.system, &guilty, &mut queue, NODE_COMPUTE)?;
    let rule = case.system.gpu().faults().inject(FaultRule::ResetFails { node: NODE_COMPUTE });
    let machine = case.system.machine();
    let before = machine.residency(case.system.luid());
    machine.start_ddi_log(case.system.luid());
    time_out_packets(case.system);
    let log = machine.take_ddi_log(case.system.luid());
    ensure_eq!(case.system.gpu().faults().fired(rule), 1, "resets that failed");
    let place = |name: &str| log.iter().position(|ddi| ddi == name);
    let (Some(reset), Some(restart)) = (place("DxgkDdiResetFromTimeout"), place("DxgkDdiRestartFromTimeout")) else {
        return Err(Failure::new(format!("no reset of the adapter: {log:?}")));
    };
    let quiet = ["DxgkDdiInterruptRoutine", "DxgkDdiDpcRoutine", EVICTION];
    let between = &log[reset + 1..restart];
    let mut asked = between.iter().filter(|ddi| ddi.starts_with("DxgkDdi"));
    ensure!(asked.all(|ddi| quiet.contains(&ddi.as_str())), "between reset and restart: {between:?}");
    let evictions = |ddis: &[String]| ddis.iter().filter(|ddi| *ddi == EVICTION).count();
    ensure!(evictions(between) > 0, "the driver was told of nothing: {log:?}");
    ensure_eq!(evictions(&log), evictions(between), "evictions of 0 bytes at another time");
    let moved = |counts: Option<dxgkrnl::ResidencyCounts>| counts.map(|counts| counts.evicted);
    ensure_eq!(moved(machine.residency(case.system.luid())), moved(before), "allocations that were moved");
    // The process that had it comes back with another device, and there is memory for what it had.
    owner.inside(|rig| {
        let rig = Rig::on_adapter(rig.kmt, rig.adapter)?;
        let memory = rig.memory(4 << 20, Placement::Vram)?;
        let mut queue = rig.packet_queue(NODE_COPY)?;
        rig.packet_execute(&mut queue, &[crate::rig::fill(memory.address, 4 << 20, 9)])
    })?;
    packets_work(&case.rig()?)
}

fn reset_devices(_: &mut Case<'_>) -> Result<(), Failure> {
    let mut options = by_hand();
    options.tdr.level = TdrLevel::BugCheck;
    for reset in [false, true] {
        let bugcheck = doomed(&options, |system| {
            let rig = Rig::open(system.luid())?;
            let mut queue = rig.packet_queue(NODE_COMPUTE)?;
            ensure!(!system.machine().reset_devices(), "DxgkDdiResetDevice on a machine that runs");
            hang(system, &rig, &mut queue, NODE_COMPUTE)?;
            time_out_packets(system);
            ensure!(system.machine().bugcheck().is_some(), "the machine goes on");
            let runs = || system.gpu().register_read(CONTROL, 4) & 1 != 0;
            ensure!(runs(), "the GPU knows nothing of the stop");
            let before = system.gpu().signals_ever();
            if !reset {
                system.gpu().let_go(NODE_COMPUTE);
                return wait_until("the packet that hung", || system.gpu().signals_ever() > before);
            }
            // Twice is as good as once.
            ensure!(
                system.machine().reset_devices() && system.machine().reset_devices(),
                "DxgkDdiResetDevice: {:?}",
                system.machine().debug_log()
            );
            ensure!(!runs(), "the GPU runs on");
            system.gpu().let_go(NODE_COMPUTE);
            while system.gpu().step() {}
            ensure_eq!(system.gpu().signals_ever(), before, "signals executed");
            Ok(())
        })?;
        ensure_eq!(bugcheck.code, TDR_FAILURE, "{bugcheck}");
    }
    Ok(())
}

fn limit_count(_: &mut Case<'_>) -> Result<(), Failure> {
    let mut options = by_hand();
    options.tdr.limit_count = 2;
    let bugcheck = doomed(&options, |system| {
        let timeout = |promoted: bool| {
            let rig = Rig::open(system.luid())?;
            let mut queue = rig.packet_queue(NODE_COPY)?;
            hang(system, &rig, &mut queue, NODE_COPY)?;
            if promoted {
                system.gpu().faults().inject(FaultRule::ResetFails { node: NODE_COPY });
            }
            time_out_packets(system);
            granted(rig.destroy(), "destroying the lost device")
        };
        timeout(false)?;
        timeout(true)?;
        timeout(true)?;
        ensure!(system.machine().bugcheck().is_none(), "stopped early: {:?}", system.machine().bugcheck());
        let _ = timeout(true);
        Ok(())
    })?;
    ensure_eq!(bugcheck.code, TDR_FAILURE, "{bugcheck}");
    ensure!(bugcheck.reason.contains("TdrLimitCount"), "{bugcheck}");
    Ok(())
}

fn slow_driver(_: &mut Case<'_>) -> Result<(), Failure> {
    let bugcheck = doomed(&by_hand(), |system| {
        let rig = Rig::open(system.luid())?;
        let mut queue = rig.packet_queue(NODE_COMPUTE)?;
        hang(system, &rig, &mut queue, NODE_COMPUTE)?;
        hold_reset(system, time_out_packets)
    })?;
    ensure_eq!(bugcheck.code, TDR_FAILURE, "{bugcheck}");
    ensure!(bugcheck.reason.contains("DxgkDdiResetEngine"), "{bugcheck}");
    Ok(())
}

fn reported_hang(case: &mut Case<'_>) -> Result<(), Failure> {
    for node in NODES {
        let rig = case.rig()?;
        let (mut queue, fence) = (rig.packet_queue(node)?, rig.fence(0)?);
        let before = reports(case.system).len();
        case.system.machine().start_ddi_log(case.system.luid());
        let rule = arm(case.system, node, true);
        rig.packet_submit(&mut queue, &[fence.signal(FATAL)])?;
        wait_until("the report", || reports(case.system).len() > before)?;
        wait_until("the loss of the device", || state(&rig).is_ok_and(|state| state == HUNG))?;
        let log = case.system.machine().take_ddi_log(case.system.luid());
        let place = |name: &str| log.iter().position(|ddi| ddi == name);
        ensure!(
            place("DxgkDdiPreemptCommand").is_some_and(|asked| Some(asked) < place("DxgkDdiResetEngine")),
            "a preemption, then the reset: {log:?}"
        );
        let report = reports(case.system).split_off(before);
        let [report] = report.as_slice() else { return Err(Failure::new(format!("{report:?}"))) };
        ensure_eq!((report.reason, report.node), (TdrReason::ReportedHung, Some(node)), "report");
        ensure_eq!(
            report.responsive,
            Some(false),
            "what DxgkDdiQueryEngineStatus says of the node that the event named"
        );
        ensure_eq!(case.system.gpu().faults().fired(rule), 1, "hangs");
        packets_work(&case.rig()?)?;
    }
    Ok(())
}

fn told_apart(case: &mut Case<'_>) -> Result<(), Failure> {
    // A packet that waits, or that a stopped engine keeps, is long for the system, which cannot tell it from a lost one.
    case.announce(Rescue::RepeatedPacket);
    for reported in [false, true] {
        for packets_hang in [false, true] {
            let (first, second) = (case.rig()?, case.rig()?);
            let (mut packets, mut hardware) = (first.packet_queue(NODE_COMPUTE)?, second.queue(NODE_COMPUTE)?);
            first.packet_execute(&mut packets, &[])?;
            second.execute(&mut hardware, &[])?;
            let guilty = if packets_hang { &first } else { &second };
            let (fence, before) = (guilty.fence(0)?, reports(case.system).len());
            let rule = arm(case.system, NODE_COMPUTE, reported);
            if packets_hang {
                first.packet_submit(&mut packets, &[fence.signal(FATAL)])?;
            } else {
                second.submit_doomed(&mut hardware, &[fence.signal(FATAL)])?;
            }
            wait_until("the hang", || case.system.gpu().faults().fired(rule) == 1)?;
            // A reported hang may be over by now.
            let (value, ahead) = if packets_hang {
                (second.submit(&mut hardware, &[])?, "hardware queue")
            } else {
                (first.packet_submit(&mut packets, &[])?, "packets")
            };
            if reported {
                wait_until("the recovery", || reports(case.system).len() > before)?;
            } else {
                time_out_packets(case.system);
            }
            if packets_hang {
                wait_until("the hardware queue", || hardware.progress.load() >= value)?;
            } else {
                first.packet_wait(&packets, value)?;
            }
            wait_until("the loss of the device", || state(guilty).is_ok_and(|state| state == HUNG))?;
            let innocent = if packets_hang { &second } else { &first };
            ensure_eq!(state(innocent)?, ACTIVE, "state of the {ahead}, reported {reported}");
            let new = reports(case.system).split_off(before);
            let resets = new.iter().filter(|report| report.outcome == TdrOutcome::EngineReset);
            ensure_eq!(resets.count(), 1, "resets of the engine in {new:?}");
            works(&case.rig()?)?;
            packets_work(innocent)?;
        }
    }
    Ok(())
}

fn exit(case: &mut Case<'_>) -> Result<(), Failure> {
    for normal in [true, false] {
        let before = reports(case.system).len();
        let guest = Guest::new(case.system, "ending")?;
        let system = &*case.system;
        guest.inside(|rig| {
            let mut queue = rig.packet_queue(NODE_COPY)?;
            hang(system, rig, &mut queue, NODE_COPY).map(drop)
        })?;
        until_ended(system, || {
            if normal {
                guest.process.exit()
            } else {
                guest.process.terminate()
            }
            Ok(())
        })?;
        let reports = reports(system).split_off(before);
        let outcomes: Vec<_> = reports.iter().map(|report| (report.node, report.outcome)).collect();
        ensure_eq!(outcomes, [(Some(NODE_COPY), TdrOutcome::EngineReset)], "recoveries, exit normal: {normal}");
        packets_work(&case.rig()?)?;
    }
    Ok(())
}

//! Timeouts of hardware queues: which one is found, which engine is reset, and which work goes on.

use std::sync::Arc;
use std::time::Duration;

use campanile_device::FaultRule;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use campanile_hw::trace::Component;
use dxgkrnl::{Process, Rescue, TdrFate, TdrOutcome, TdrReason, TdrSettings};
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;

use super::fence_interrupts::Event;
use super::hang::{
    ACTIVE, FATAL, Guest, HUNG, RESET, TDR_FAILURE, adapter_timeout, arm, by_hand, doomed, hang, hold_reset,
    only_report, reports, state, time_out, wait_watched, watched, works,
};
use crate::rig::{Rig, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::System;

cases! { inside "TDR", behind "it lets the GPU hang, moves the clock on, and reads the report of the reset";
    "Tdr.HangIsFoundByProgress" needs UserModeSubmission on Boot::With(by_hand), "user-mode-work-submission":
        "A queue whose progress stays below the last queued value for TdrDelay, and whose context does not leave its engine in another, is found hung: its device is lost and its doorbells say abort."
        holds [UserModeSubmission 37, Tdr 3, Tdr 11, Tdr 13, Tdr 39]
        => hang_is_found;
    "Tdr.BlockedWorkIsNoHang" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "Work that waits for a fence is preempted and put back, however long it waits, and no engine is reset for it."
        holds [Tdr 10, Tdr 13]
        => blocked_is_no_hang;
    "Tdr.PreemptedWorkGoesOnWhenItHasLeft" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "Work that was preempted because it stood still, and leaves its engine only after the look at it, goes on as soon as it has left, whether or not anybody looks again."
        holds [Tdr 10]
        => put_back_by_itself;
    "Tdr.EngineResetFollowsThePage" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A preemption is tried before the timeout; then information is collected, the engine reset, its guilty context invalidated, and the engine resumed before anything else of that context is touched."
        holds [Tdr 10, Tdr 34]
        => order_of_reset;
    "Tdr.OtherEnginesGoOnDuringTheReset" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "While one engine hangs and is reset, the other engine executes what processes submit to it."
        holds [Tdr 3, Tdr 37]
        => other_engines_go_on;
    "Tdr.InnocentWorkIsExecutedOnce" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "Work of other queues and processes behind the hang is executed after the reset, each submission once and in order."
        holds [Tdr 38]
        => innocent_work;
    "Tdr.BlockedQueueKeepsItsPlace" needs UserModeSubmission on Boot::With(by_hand), "native-gpu-fence-objects":
        "A queue that waits for a fence on the engine that is reset waits on, and goes on when the fence is signalled."
        holds [NativeFence 10, Tdr 38]
        => blocked_keeps_its_place;
    "Tdr.CollateralDamageIsNamed" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A context that the reset takes along is invalidated as collateral damage: its device is lost as reset, that of the guilty one as hung."
        holds [Tdr 34, Tdr 39]
        => collateral;
    "Tdr.ReportedHangNeedsNoTime" needs UserModeSubmission on Boot::With(by_hand), "user-mode-work-submission":
        "When the hardware reports its engine as hung, recovery begins at once."
        holds [UserModeSubmission 49, Tdr 15]
        => reported_hang;
    "Tdr.LateReportCostsNobody" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A report that an engine hangs, which comes when the engine is being reset for that hang already, resets it no second time: the work that runs there then is innocent."
        holds [Tdr 16]
        => late_report;
    "Tdr.CompletionBeforeTheResetCostsNobody" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "When what hung completes after the timeout was detected and before the engine is reset, no context is invalidated and everybody goes on."
        holds [Tdr 17]
        => completion_races;
    "Tdr.StuckPreemptionIsATimeout" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A context that does not leave its engine when asked costs the engine a reset, though its work may have gone on meanwhile."
        holds [Tdr 11]
        => stuck_preemption;
    "Tdr.RefusedEngineResetIsPromoted" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "When the driver cannot reset an engine, the whole adapter is reset, for the reason EngineTimeoutPromotedToAdapterReset; every device is lost, and new ones work."
        holds [Tdr 41, Tdr 43]
        => promoted;
    "Tdr.LimitCountEndsInABugCheck" on Boot::With(by_hand), "tdr-registry-keys":
        "More than TdrLimitCount timeouts of the adapter within TdrLimitTime are bug check 0x116; as many are not, nor are those of an earlier time."
        holds [Tdr 54]
        => limit_count;
    "Tdr.SlowDriverIsABugCheck" on Boot::With(by_hand), "tdr-registry-keys":
        "A driver that does not come back from a reset within TdrDdiDelay is bug check 0x116."
        holds [Tdr 56]
        => slow_driver;
    "Tdr.RepeatedOffenderIsRefused" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A process that causes more timeouts of engines than the limit less one is refused the adapter; those do not count as timeouts of the adapter, and other processes are not refused."
        holds [Tdr 55]
        => repeated_offender;
    "Tdr.LostInterruptIsMadeUpFor" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A CPU that waits for a fence whose interrupt was lost is released when the system looks for timeouts, and no engine is reset."
        holds [Tdr 19]
        => lost_interrupt;
    "Tdr.ExitWithAHungEngineIsBounded" needs UserModeSubmission on Boot::With(by_hand), "user-mode-work-submission":
        "A process that ends while its work hangs is gone after twice TdrDelay, one that is terminated after TdrDelay, however many engines it hangs, and the report names the reason."
        holds [UserModeSubmission 43, Tdr 40]
        => exit_with_hung_engine;
    "Tdr.DriverTellsWhatItKnows" needs UserModeSubmission on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "The information that the driver gives for the report names the engine's guilty queue."
        holds [Tdr 2]
        => debug_information;
    "Tdr.SettingsDecide" on Boot::With(by_hand), "tdr-registry-keys":
        "TdrLevel 0 looks for nothing and TdrDebugMode 1 only notes timeouts; TdrDelay says how long an engine may stand still."
        holds [Tdr 53]
        => settings_decide;
}

const ABORT: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT;
fn hang_is_found(case: &mut Case<'_>) -> Result<(), Failure> {
    for node in [NODE_COMPUTE, NODE_COPY] {
        let (guilty, innocent) = (case.rig()?, Guest::new(case.system, "innocent")?);
        let before = reports(case.system).len();
        let (mut queue, mut idle) = (guilty.queue(node)?, guilty.queue(NODE_COMPUTE)?);
        guilty.execute(&mut queue, &[])?;
        guilty.execute(&mut idle, &[])?;
        let value = hang(case.system, &guilty, &mut queue, node)?;
        case.system.machine().advance(TdrSettings::default().delay / 2);
        case.system.machine().advance(TdrSettings::default().delay / 4);
        ensure_eq!(state(&guilty)?, ACTIVE, "state before TdrDelay is over");
        time_out(case.system);
        ensure_eq!(state(&guilty)?, HUNG, "state of the device that hangs");
        ensure_eq!((queue.doorbell.state(), idle.doorbell.state()), (ABORT, ABORT), "status of its doorbells");
        let report = reports(case.system).split_off(before);
        let [report] = report.as_slice() else { return Err(Failure::new(format!("{report:?}"))) };
        ensure_eq!(
            (report.node, report.reason, report.outcome, report.live_dump),
            (Some(node), TdrReason::EngineTimeout, TdrOutcome::EngineReset, Some(0x141)),
            "report"
        );
        let guilty_queues: Vec<_> = report.with(TdrFate::Guilty).collect();
        let [line] = guilty_queues.as_slice() else { return Err(Failure::new(report.to_string())) };
        ensure_eq!((line.handle, line.progress, line.last_queued), (queue.queue, value - 1, value), "guilty queue");
        ensure!(line.process.contains(case.process.name()), "the report blames {}", line.process);
        innocent.inside(works)?;
        works(&case.rig()?)?;
    }
    Ok(())
}

fn blocked_is_no_hang(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let gate = rig.fence(0)?;
    let mut queues = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?];
    for queue in &mut queues {
        rig.submit(queue, &[gate.wait(1)])?;
    }
    case.system.machine().start_ddi_log(case.system.luid());
    (0..4).for_each(|_| time_out(case.system));
    let log = case.system.machine().take_ddi_log(case.system.luid());
    let count = |name: &str| log.iter().filter(|ddi| *ddi == name).count();
    ensure!(count("DxgkDdiSuspendContext") >= 3, "no preemption was tried: {log:?}");
    ensure_eq!(count("DxgkDdiResumeContext"), count("DxgkDdiSuspendContext"), "contexts that were put back");
    ensure_eq!((count("DxgkDdiResetHwEngine"), reports(case.system).len()), (0, 0), "resets and reports");
    ensure_eq!(state(&rig)?, ACTIVE, "state of the device that waits");
    granted(rig.signal(&[gate.handle], &[1]), "signal")?;
    wait_watched(case.system, "the blocked work", || {
        queues.iter().all(|queue| queue.progress.load() == queue.written())
    })
}

fn put_back_by_itself(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, other) = (case.rig()?, case.rig()?);
    let gate = rig.fence(0)?;
    let (mut queue, mut awaited) = (rig.queue(NODE_COMPUTE)?, other.queue(NODE_COPY)?);
    for round in 1..=4 {
        rig.submit(&mut queue, &[gate.wait(round)])?;
        // The look that asks the work off its engine hears no answer: its interrupt is lost, and comes with the next one.
        case.system.machine().advance(Duration::ZERO);
        let lost = case.system.gpu().faults().inject_times(FaultRule::LostInterrupt, u64::MAX);
        case.system.machine().advance(TdrSettings::default().delay);
        case.system.gpu().faults().remove(lost);
        let asked = case.process.suspensions(queue.context).map_err(|status| Failure::new(status.to_string()))?;
        ensure!(asked.answered < asked.asked, "round {round}: the answer was heard: {asked:?}");
        let (fence, event) = (other.fence(0)?, Event::new()?);
        granted(other.wait_with_event(&[fence.handle], &[1], false, Some(event.number())), "a wait with an event")?;
        other.submit(&mut awaited, &[fence.signal(1)])?;
        granted(rig.signal(&[gate.handle], &[round]), "signal")?;
        wait_until("the work that was suspended", || queue.progress.load() == round)?;
    }
    ensure_eq!((reports(case.system).len(), state(&rig)?), (0, ACTIVE), "recoveries, and the state of the device");
    Ok(())
}

fn order_of_reset(case: &mut Case<'_>) -> Result<(), Failure> {
    const WANTED: &[&str] = &[
        "SuspendContext",
        "QueryEngineStatus",
        "CollectDbgInfo",
        "ResetHwEngine",
        "ResumeHwEngine",
        "DisconnectDoorbell",
        "ResetFromTimeout",
        "DestroyHwQueue",
    ];
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    hang(case.system, &rig, &mut queue, NODE_COMPUTE)?;
    case.system.machine().start_ddi_log(case.system.luid());
    time_out(case.system);
    let log = case.system.machine().take_ddi_log(case.system.luid());
    let named = log.iter().filter_map(|name| name.strip_prefix("DxgkDdi")).filter(|name| WANTED.contains(name));
    let mut order: Vec<&str> = named.collect();
    order.dedup();
    let expected = [
        "SuspendContext",
        "QueryEngineStatus",
        "CollectDbgInfo",
        "ResetHwEngine",
        "ResumeHwEngine",
        "SuspendContext",
        "DisconnectDoorbell",
    ];
    ensure_eq!(order, expected, "DDIs of a recovery");
    Ok(())
}

fn other_engines_go_on(case: &mut Case<'_>) -> Result<(), Failure> {
    let guilty = case.rig()?;
    let guest = Guest::new(case.system, "beside")?;
    let mut queue = guilty.queue(NODE_COMPUTE)?;
    let (mut work, fence) = guest.inside(|rig| Ok((rig.queue(NODE_COPY)?, rig.fence(0)?)))?;
    hang(case.system, &guilty, &mut queue, NODE_COMPUTE)?;
    let before = case.system.counters();
    for value in 1..=60 {
        guest.inside(|rig| rig.execute(&mut work, &[fence.signal(value)]))?;
        if value % 10 == 0 {
            case.system.machine().advance(TdrSettings::default().delay);
        }
    }
    ensure_eq!(case.system.counters().since(&before).signals, 60, "submissions executed beside the reset");
    ensure_eq!(only_report(case.system)?.node, Some(NODE_COMPUTE), "engine that was reset");
    guest.inside(|rig| {
        ensure_eq!(state(rig)?, ACTIVE, "state of the device beside");
        Ok(())
    })
}

fn innocent_work(case: &mut Case<'_>) -> Result<(), Failure> {
    const EACH: u64 = 30;
    let guilty = case.rig()?;
    let mut queue = guilty.queue(NODE_COMPUTE)?;
    let guests = [Guest::new(case.system, "first")?, Guest::new(case.system, "second")?];
    let mut work = Vec::new();
    for guest in &guests {
        work.push(guest.inside(|rig| {
            Ok((
                rig.queue(NODE_COMPUTE)?,
                rig.fence(0)?,
                rig.memory(4096, campanile_hw::private::Placement::SystemUncached)?,
            ))
        })?);
    }
    hang(case.system, &guilty, &mut queue, NODE_COMPUTE)?;
    let before = case.system.counters();
    for (guest, (queue, fence, _)) in guests.iter().zip(&mut work) {
        guest.inside(|rig| (1..=EACH).try_for_each(|value| rig.submit(queue, &[fence.signal(value)]).map(drop)))?;
    }
    ensure!(work.iter().all(|(_, fence, _)| fence.value.load() == 0), "work ran on an engine that hangs");
    time_out(case.system);
    for (queue, fence, _) in &work {
        wait_watched(case.system, "the innocent work", || {
            queue.progress.load() == queue.written() && fence.value.load() == EACH
        })?;
    }
    ensure_eq!(case.system.counters().since(&before).signals, 2 * EACH, "signals executed after the reset");
    let report = only_report(case.system)?;
    ensure_eq!(report.with(TdrFate::Innocent).filter(|line| line.is_busy()).count(), 2, "innocents in {report}");
    for guest in &guests {
        guest.inside(|rig| {
            ensure_eq!(state(rig)?, ACTIVE, "state of an innocent device");
            Ok(())
        })?;
    }
    ensure_eq!(state(&guilty)?, HUNG, "state of the guilty device");
    Ok(())
}

fn blocked_keeps_its_place(case: &mut Case<'_>) -> Result<(), Failure> {
    let (guilty, rig) = (case.rig()?, case.rig()?);
    let (gate, fence) = (rig.fence(0)?, rig.fence(0)?);
    let (mut waits, mut queue) = (rig.queue(NODE_COMPUTE)?, guilty.queue(NODE_COMPUTE)?);
    let value = rig.submit(&mut waits, &[fence.signal(1), gate.wait(1), fence.signal(2)])?;
    wait_until("the blocked queue", || fence.value.load() == 1)?;
    hang(case.system, &guilty, &mut queue, NODE_COMPUTE)?;
    time_out(case.system);
    ensure_eq!((state(&guilty)?, state(&rig)?), (HUNG, ACTIVE), "states of the devices");
    ensure_eq!(fence.value.load(), 1, "fence behind the wait after the reset");
    granted(rig.signal(&[gate.handle], &[1]), "signal")?;
    wait_watched(case.system, "the blocked work", || waits.progress.load() == value && fence.value.load() == 2)
}

fn collateral(case: &mut Case<'_>) -> Result<(), Failure> {
    let (guilty, beside, idle) = (case.rig()?, case.rig()?, case.rig()?);
    let (mut queue, mut taken, mut still) =
        (guilty.queue(NODE_COMPUTE)?, beside.queue(NODE_COMPUTE)?, idle.queue(NODE_COMPUTE)?);
    idle.execute(&mut still, &[])?;
    hang(case.system, &guilty, &mut queue, NODE_COMPUTE)?;
    beside.submit(&mut taken, &[])?;
    let rule = case.system.gpu().faults().inject(FaultRule::ResetTakesAlong { node: NODE_COMPUTE });
    time_out(case.system);
    ensure_eq!(case.system.gpu().faults().fired(rule), 1, "resets that took others along");
    ensure_eq!([state(&guilty)?, state(&beside)?, state(&idle)?], [HUNG, RESET, ACTIVE], "states of the devices");
    let report = only_report(case.system)?;
    let count = |fate| report.with(fate).count();
    ensure_eq!((count(TdrFate::Guilty), count(TdrFate::Collateral), count(TdrFate::Innocent)), (1, 1, 1), "{report}");
    idle.execute(&mut still, &[])?;
    works(&case.rig()?)
}

fn reported_hang(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, fence) = (rig.queue(NODE_COPY)?, rig.fence(0)?);
    let rule = arm(case.system, NODE_COPY, true);
    rig.submit_doomed(&mut queue, &[fence.signal(FATAL)])?;
    wait_until("the loss of the device", || state(&rig).is_ok_and(|state| state == HUNG))?;
    wait_until("the report", || !reports(case.system).is_empty())?;
    let report = only_report(case.system)?;
    ensure_eq!((report.reason, report.node), (TdrReason::ReportedHung, Some(NODE_COPY)), "report");
    wait_until("abort", || queue.doorbell.state() == ABORT)?;
    ensure_eq!(case.system.gpu().faults().fired(rule), 1, "hangs");
    works(&case.rig()?)
}

fn late_report(case: &mut Case<'_>) -> Result<(), Failure> {
    let (first, second) = (case.rig()?, case.rig()?);
    let (mut compute, mut copy) = (first.queue(NODE_COMPUTE)?, second.queue(NODE_COPY)?);
    first.execute(&mut compute, &[])?;
    let fence = first.fence(0)?;
    // The driver hears of the hang when it looks at its events, which is at the latest when it is told to reset the engine.
    let lost = case.system.gpu().faults().inject_times(FaultRule::LostInterrupt, u64::MAX);
    let hang = arm(case.system, NODE_COMPUTE, true);
    first.submit_doomed(&mut compute, &[fence.signal(FATAL)])?;
    wait_until("the hang", || case.system.gpu().faults().fired(hang) == 1)?;
    time_out(case.system);
    case.system.gpu().faults().remove(lost);
    // An interrupt of earlier work may have let the driver look before; then the timeout is what comes late.
    wait_until("the loss of the device", || state(&first).is_ok_and(|state| state == HUNG))?;
    // Reports are taken one after the other: with this one the late one is done.
    let fence = second.fence(0)?;
    arm(case.system, NODE_COPY, true);
    second.submit_doomed(&mut copy, &[fence.signal(FATAL)])?;
    let told = || reports(case.system).iter().any(|report| report.node == Some(NODE_COPY));
    wait_until("the second recovery", told)?;
    let recoveries: Vec<_> = reports(case.system).iter().map(|report| report.node).collect();
    ensure_eq!(recoveries, [Some(NODE_COMPUTE), Some(NODE_COPY)], "engines that were reset");
    works(&case.rig()?)
}

fn completion_races(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let value = hang(case.system, &rig, &mut queue, NODE_COMPUTE)?;
    let rule = case.system.gpu().faults().inject(FaultRule::CompletionRacesReset { node: NODE_COMPUTE });
    time_out(case.system);
    ensure_eq!(case.system.gpu().faults().fired(rule), 1, "resets that came too late");
    ensure_eq!((queue.progress.load(), state(&rig)?), (value, ACTIVE), "progress and state");
    ensure_eq!(only_report(case.system)?.with(TdrFate::Guilty).count(), 0, "guilty queues");
    time_out(case.system);
    rig.execute(&mut queue, &[])
}

fn stuck_preemption(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (gate, mut queue) = (rig.fence(0)?, rig.queue(NODE_COMPUTE)?);
    rig.submit(&mut queue, &[gate.wait(1)])?;
    // Asked twice, the context does not go either time.
    let rule = case.system.gpu().faults().inject_times(FaultRule::StuckSuspend { node: NODE_COMPUTE }, 2);
    time_out(case.system);
    ensure_eq!(case.system.gpu().faults().fired(rule), 2, "suspensions that stuck");
    ensure_eq!(state(&rig)?, HUNG, "state of the device that did not go");
    ensure_eq!(only_report(case.system)?.outcome, TdrOutcome::EngineReset, "outcome");
    works(&case.rig()?)
}

fn promoted(case: &mut Case<'_>) -> Result<(), Failure> {
    let (guilty, beside) = (case.rig()?, Guest::new(case.system, "beside")?);
    let mut queue = guilty.queue(NODE_COMPUTE)?;
    let mut other = beside.inside(|rig| rig.queue(NODE_COPY))?;
    beside.inside(|rig| rig.execute(&mut other, &[]))?;
    let value = hang(case.system, &guilty, &mut queue, NODE_COMPUTE)?;
    let rule = case.system.gpu().faults().inject(FaultRule::ResetFails { node: NODE_COMPUTE });
    time_out(case.system);
    ensure_eq!(case.system.gpu().faults().fired(rule), 1, "resets that failed");
    let reports = reports(case.system);
    let [engine, adapter] = reports.as_slice() else { return Err(Failure::new(format!("{reports:?}"))) };
    ensure_eq!(engine.outcome, TdrOutcome::EngineResetFailed, "outcome of the engine's reset");
    ensure_eq!(
        (adapter.node, adapter.reason.number(), adapter.outcome, adapter.live_dump),
        (None, Some(9), TdrOutcome::AdapterReset, Some(0x117)),
        "the adapter's reset"
    );
    beside.inside(|rig| {
        ensure_eq!(state(rig)?, RESET, "state of the device beside");
        Ok(())
    })?;
    ensure!(state(&guilty)? != ACTIVE, "the guilty device goes on");
    ensure_eq!((queue.doorbell.state(), other.doorbell.state()), (ABORT, ABORT), "status of the doorbells");
    ensure!(!guilty.wait(&[queue.progress_fence], &[value], false).is_success(), "the wait for what hung succeeded");
    works(&case.rig()?)?;
    beside.process.exit();
    Guest::new(case.system, "later")?.inside(works)
}

fn limit_count(_: &mut Case<'_>) -> Result<(), Failure> {
    let mut options = by_hand();
    options.tdr.limit_count = 2;
    // Engine timeouts would end the process before.
    let bugcheck = doomed(&options, |system| {
        for _ in 0..2 {
            adapter_timeout(system)?;
        }
        // What lies further back than TdrLimitTime counts no more.
        system.machine().advance(options.tdr.limit_time + Duration::from_secs(1));
        for _ in 0..2 {
            adapter_timeout(system)?;
        }
        ensure!(system.machine().bugcheck().is_none(), "stopped early: {:?}", system.machine().bugcheck());
        let rig = Rig::open(system.luid())?;
        let mut queue = rig.queue(NODE_COMPUTE)?;
        hang(system, &rig, &mut queue, NODE_COMPUTE)?;
        system.gpu().faults().inject(FaultRule::ResetFails { node: NODE_COMPUTE });
        time_out(system);
        Ok(())
    })?;
    ensure_eq!(bugcheck.code, TDR_FAILURE, "{bugcheck}");
    ensure!(bugcheck.reason.contains("TdrLimitCount"), "{bugcheck}");
    Ok(())
}

fn slow_driver(_: &mut Case<'_>) -> Result<(), Failure> {
    let bugcheck = doomed(&by_hand(), |system| {
        let rig = Rig::open(system.luid())?;
        let mut queue = rig.queue(NODE_COMPUTE)?;
        hang(system, &rig, &mut queue, NODE_COMPUTE)?;
        hold_reset(system, time_out)
    })?;
    ensure_eq!(bugcheck.code, TDR_FAILURE, "{bugcheck}");
    ensure!(bugcheck.reason.contains("DxgkDdiResetHwEngine"), "{bugcheck}");
    Ok(())
}

fn repeated_offender(case: &mut Case<'_>) -> Result<(), Failure> {
    let allowed = TdrSettings::default().limit_count - 1;
    let guest = Guest::new(case.system, "offender")?;
    let other = Guest::new(case.system, "other")?;
    let mut refused = None;
    for round in 0..=allowed {
        let luid = case.system.luid();
        let rig = guest.inside(|_| Rig::open(luid));
        let rig = rig.map_err(|failure| Failure::new(format!("refused after {round} timeouts: {failure}")))?;
        let _attached = guest.process.attach();
        let mut queue = rig.queue(NODE_COMPUTE)?;
        hang(case.system, &rig, &mut queue, NODE_COMPUTE)?;
        time_out(case.system);
        refused = reports(case.system).pop().map(|report| report.blocked);
    }
    ensure!(refused.is_some_and(|blocked| blocked.iter().any(|name| name.contains("offender"))), "nobody was refused");
    ensure!(guest.inside(|rig| Rig::on_adapter(rig.kmt, rig.adapter)).is_err(), "the offender got another device");
    ensure!(case.system.machine().bugcheck().is_none(), "timeouts of an engine counted as the adapter's");
    other.inside(works)?;
    works(&case.rig()?)
}

fn lost_interrupt(case: &mut Case<'_>) -> Result<(), Failure> {
    case.announce(Rescue::UnreportedSignal);
    let rig = case.rig()?;
    let (fence, mut queue) = (rig.fence(0)?, rig.queue(NODE_COMPUTE)?);
    rig.execute(&mut queue, &[])?;
    let process = Arc::clone(&case.process);
    let rule = case.system.gpu().faults().inject_times(FaultRule::LostInterrupt, u64::MAX);
    let released = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let _attached = process.attach();
            rig.wait(&[fence.handle], &[1], false)
        });
        // SAFETY of the race: a waiter that is late finds the value there and needs no interrupt.
        let submitted = rig.submit(&mut queue, &[fence.signal(1)]);
        let done = wait_until("the signal", || fence.value.load() == 1);
        while !waiter.is_finished() {
            case.system.machine().advance(TdrSettings::default().delay / 4);
            std::thread::yield_now();
        }
        let released = waiter.join().map_err(|_| Failure::new("the waiter panicked"));
        submitted.and(done).and(released)
    });
    case.system.gpu().faults().remove(rule);
    granted(released?, "the wait")?;
    ensure_eq!((state(&rig)?, reports(case.system).len()), (ACTIVE, 0), "state and recoveries");
    rig.execute(&mut queue, &[])
}

fn exit_with_hung_engine(case: &mut Case<'_>) -> Result<(), Failure> {
    let delay = TdrSettings::default().delay;
    for (normal, nodes) in [(true, 1), (false, 1), (true, 2), (false, 2)] {
        let before = reports(case.system).len();
        let guest = Guest::new(case.system, "ending")?;
        let system = &*case.system;
        guest.inside(|rig| {
            [NODE_COMPUTE, NODE_COPY].into_iter().take(nodes).try_for_each(|node| {
                let mut queue = rig.queue(node)?;
                hang(system, rig, &mut queue, node).map(drop)
            })
        })?;
        let (machine, bound) = (system.machine(), if normal { 2 * delay } else { delay });
        let began = machine.clock().now();
        let latest = std::thread::scope(|scope| {
            let ending = scope.spawn(|| if normal { guest.process.exit() } else { guest.process.terminate() });
            let mut latest = began;
            // Time goes on only to the moments that somebody waits for.
            while !ending.is_finished() {
                if let Some(next) = machine.clock().next_deadline() {
                    latest = latest.max(next);
                    machine.advance(next.saturating_sub(machine.clock().now()));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            latest
        });
        ensure_eq!(latest - began, bound, "time of the end of a process with {nodes} hung engines, normal: {normal}");
        let reports = reports(case.system).split_off(before);
        let blamed = reports.iter().filter(|report| {
            report.outcome == TdrOutcome::EngineReset
                && report.with(TdrFate::Guilty).any(|line| line.process.contains("ending"))
        });
        ensure_eq!(blamed.count(), nodes, "reports that blame the process");
        works(&case.rig()?)?;
    }
    Ok(())
}

fn debug_information(case: &mut Case<'_>) -> Result<(), Failure> {
    use testbed::debug::DebugInformation;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    hang(case.system, &rig, &mut queue, NODE_COPY)?;
    time_out(case.system);
    let report = only_report(case.system)?;
    let decoded =
        DebugInformation::decode(&report.debug_information).map_err(|error| Failure::new(error.to_string()))?;
    ensure_eq!((decoded.reason, decoded.running, decoded.nodes.len()), (0x141, true, 3), "reason, running, engines");
    ensure!(decoded.queues.iter().any(|queue| queue.node == NODE_COPY && queue.user_mode), "{decoded}");
    let connected =
        decoded.ring(Component::Queue).iter().flat_map(|ring| &ring.events).any(|e| e.event == "DoorbellConnected");
    ensure!(connected, "the connection of the doorbell is not among the last events:\n{decoded}");
    Ok(())
}

fn settings_decide(_: &mut Case<'_>) -> Result<(), Failure> {
    use dxgkrnl::{TdrDebugMode, TdrLevel};
    let with = |change: fn(&mut TdrSettings), noted: usize| {
        let mut options = by_hand();
        change(&mut options.tdr);
        let system = System::boot(&options)?;
        let process = Process::new(system.machine(), "settings");
        let outcome = (|| {
            let _attached = process.attach();
            let rig = Rig::open(system.luid())?;
            let mut queue = rig.queue(NODE_COMPUTE)?;
            hang(&system, &rig, &mut queue, NODE_COMPUTE)?;
            (0..2).for_each(|_| time_out(&system));
            ensure_eq!(state(&rig)?, ACTIVE, "state of the device");
            let reports = reports(&system);
            ensure!(reports.iter().all(|report| report.outcome == TdrOutcome::Ignored), "{reports:?}");
            ensure!(reports.len() >= noted && (noted != 0 || reports.is_empty()), "{} reports", reports.len());
            Ok::<(), Failure>(())
        })();
        // So that the machine can end: the hardware itself lets go, and the contexts that were suspended are resumed.
        system.gpu().let_go(NODE_COMPUTE);
        watched(&system, || process.exit());
        let ended = system.shutdown();
        outcome?;
        Ok::<(), Failure>(ended?)
    };
    with(|tdr| tdr.level = TdrLevel::Off, 0)?;
    with(|tdr| tdr.debug_mode = TdrDebugMode::Ignore, 1)?;
    with(|tdr| tdr.delay = Duration::from_secs(900), 0)?;
    let mut options = by_hand();
    options.tdr.level = TdrLevel::BugCheck;
    let bugcheck = doomed(&options, |system| {
        let rig = Rig::open(system.luid())?;
        let mut queue = rig.queue(NODE_COMPUTE)?;
        hang(system, &rig, &mut queue, NODE_COMPUTE)?;
        // Windows would show why it has stopped, and no program would run any more. Here programs do, and this system's rule is that they wait for nothing.
        let (fence, event) = (rig.fence(0)?, Event::new()?);
        granted(rig.wait_with_event(&[fence.handle], &[1], false, Some(event.number())), "a wait with an event")?;
        time_out(system);
        event.wait()
    })?;
    ensure_eq!(bugcheck.code, TDR_FAILURE, "{bugcheck}");
    Ok(())
}

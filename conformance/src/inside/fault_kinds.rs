//! Every kind of fault that the GPU has on demand: it works, goes wrong as it should, and works again when the fault is gone.

use std::time::Duration;

use campanile_device::{FaultRule, HangAt};
use campanile_hw::registers::{NODE_COMPUTE, PROGRESS_COMPUTE};
use dxgkrnl::{Rescue, TdrFate, TdrOutcome, TdrReport, TdrSettings};

use wddm_ddi::status::STATUS_INSUFFICIENT_RESOURCES;

use super::fence_interrupts::Event;
use super::hang::{ACTIVE, FATAL, HUNG, RESET, by_hand, reports, state, time_out, time_out_packets, works};
use crate::rig::{RawFence, Rig, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};
use testbed::setup::{System, SystemOptions};

cases! { inside "TDR", needs UserModeSubmission;
    "Tdr.EveryFaultComesAndGoes" on Boot::With(patient), "tdr-changes-in-windows-8":
        "Of each kind of fault: engines work, the fault is injected and applies, what is documented for it happens and nothing else, what the system makes good is counted as that, and when it is gone engines work."
        holds [Tdr 52]
        => every_fault;
}

const NODE: u32 = NODE_COMPUTE;

/// One rule of each kind.
const RULES: [FaultRule; 16] = [
    FaultRule::Hang { node: NODE, queue: None, at: HangAt::After(1), reported: false },
    FaultRule::StuckSuspend { node: NODE },
    FaultRule::LostInterrupt,
    FaultRule::LateInterrupt { steps: 3 },
    FaultRule::ResetFails { node: NODE },
    FaultRule::ResetHeld { node: NODE, milliseconds: 20 },
    FaultRule::ResetTakesAlong { node: NODE },
    FaultRule::ResetLosesMemory,
    FaultRule::CompletionRacesReset { node: NODE },
    FaultRule::Register { offset: PROGRESS_COMPUTE, value: 1 << 40 },
    FaultRule::DoubledInterrupt,
    FaultRule::ReorderedInterrupt,
    FaultRule::LostLogEntry,
    FaultRule::MissedRing,
    FaultRule::ConnectFails { node: NODE },
    FaultRule::LostSuspension,
];

/// Its place in [`RULES`]; whoever adds a kind adds it there.
fn place(rule: FaultRule) -> usize {
    match rule {
        FaultRule::Hang { .. } => 0,
        FaultRule::StuckSuspend { .. } => 1,
        FaultRule::LostInterrupt => 2,
        FaultRule::LateInterrupt { .. } => 3,
        FaultRule::ResetFails { .. } => 4,
        FaultRule::ResetHeld { .. } => 5,
        FaultRule::ResetTakesAlong { .. } => 6,
        FaultRule::ResetLosesMemory => 7,
        FaultRule::CompletionRacesReset { .. } => 8,
        FaultRule::Register { .. } => 9,
        FaultRule::DoubledInterrupt => 10,
        FaultRule::ReorderedInterrupt => 11,
        FaultRule::LostLogEntry => 12,
        FaultRule::MissedRing => 13,
        FaultRule::ConnectFails { .. } => 14,
        FaultRule::LostSuspension => 15,
    }
}

/// The process of the case causes more timeouts than one may.
fn patient() -> SystemOptions {
    let mut options = by_hand();
    options.tdr.limit_count = 100;
    options
}

/// What the system makes good of a fault, and counts. What it makes of a ring that is missed, [`miss_ring`] looks at.
fn rescue(rule: FaultRule) -> Option<Rescue> {
    match rule {
        FaultRule::LostInterrupt => Some(Rescue::UnreportedSignal),
        FaultRule::LostSuspension => Some(Rescue::UnreportedSuspension),
        _ => None,
    }
}

fn every_fault(case: &mut Case<'_>) -> Result<(), Failure> {
    for (number, rule) in RULES.into_iter().enumerate() {
        ensure_eq!(place(rule), number, "place of {rule:?}");
        works(&case.rig()?)?;
        let before = reports(case.system).len();
        go_wrong(case, rule, before).map_err(|error| Failure::new(format!("{rule:?}: {error}")))?;
        let after = reports(case.system).len();
        let rig = case.rig()?;
        works(&rig)?;
        time_out(case.system);
        works(&rig)?;
        ensure_eq!((state(&rig)?, reports(case.system).len()), (ACTIVE, after), "after {rule:?}");
        let rescues: Vec<Rescue> = case.system.machine().take_rescues().into_iter().map(|(rescue, _)| rescue).collect();
        ensure_eq!(rescues, Vec::from_iter(rescue(rule)), "what was made good of {rule:?}");
    }
    Ok(())
}

/// Injects the rule, has it apply, and takes it away.
fn go_wrong(case: &mut Case<'_>, rule: FaultRule, before: usize) -> Result<(), Failure> {
    let system = &*case.system;
    let faults = system.gpu().faults();
    let (rig, beside) = (case.rig()?, case.rig()?);
    let id = faults.inject_times(rule, if matches!(rule, FaultRule::LostInterrupt) { u64::MAX } else { 1 });
    match rule {
        FaultRule::Hang { .. } => {
            let mut queue = rig.packet_queue(NODE)?;
            let fence = rig.fence(0)?;
            rig.packet_submit(&mut queue, &[fence.signal(1), fence.signal(2)])?;
            wait_until("the hang", || faults.fired(id) == 1)?;
            ensure_eq!(fence.value.load(), 1, "fence when the engine hangs");
            time_out_packets(system);
            ensure_eq!(state(&rig)?, HUNG, "state");
            one(system, before, TdrOutcome::EngineReset)?;
        }
        FaultRule::StuckSuspend { .. } => {
            let (gate, mut queue) = (rig.fence(0)?, rig.packet_queue(NODE)?);
            rig.packet_submit(&mut queue, &[gate.wait(1)])?;
            time_out_packets(system);
            ensure_eq!(state(&rig)?, HUNG, "state");
            one(system, before, TdrOutcome::EngineReset)?;
        }
        FaultRule::LostInterrupt => {
            let (fence, event) = watched(&rig)?;
            wait_until("the signal", || fence.value.load() == 1)?;
            ensure!(!event.is_set()?, "the waiter was told");
            // Until the watchdog has looked for long enough.
            wait_until("the waiter", || {
                system.machine().advance(Duration::ZERO);
                event.is_set().is_ok_and(|set| set)
            })?;
            ensure_eq!((state(&rig)?, reports(system).len()), (ACTIVE, before), "state and recoveries");
        }
        // The interrupts of this GPU name the fences, so that nobody needs the logs.
        FaultRule::LateInterrupt { .. }
        | FaultRule::DoubledInterrupt
        | FaultRule::ReorderedInterrupt
        | FaultRule::LostLogEntry => {
            let (_, event) = watched(&rig)?;
            wait_until("the waiter", || event.is_set().is_ok_and(|set| set))?;
            ensure_eq!((state(&rig)?, reports(system).len()), (ACTIVE, before), "state and recoveries");
        }
        FaultRule::LostSuspension => lose_suspension(system, &rig, before)?,
        FaultRule::MissedRing => {
            faults.remove(id);
            miss_ring(system, &rig)?;
            ensure_eq!((state(&rig)?, reports(system).len()), (ACTIVE, before), "state and recoveries");
            return Ok(());
        }
        FaultRule::ResetFails { .. } | FaultRule::ResetLosesMemory => {
            let fails =
                (rule == FaultRule::ResetLosesMemory).then(|| faults.inject(FaultRule::ResetFails { node: NODE }));
            hang_packet(system, &rig)?;
            time_out_packets(system);
            ensure_eq!(state(&beside)?, RESET, "state of a device beside");
            let new = new_reports(system, before);
            let seen: Vec<_> = new.iter().map(|report| (report.outcome, report.reason.number())).collect();
            let expected = [(TdrOutcome::EngineResetFailed, None), (TdrOutcome::AdapterReset, Some(9))];
            ensure_eq!(seen, expected, "recoveries");
            if let Some(fails) = fails {
                faults.remove(fails);
            }
        }
        FaultRule::ConnectFails { .. } => {
            let queue = rig.queue(NODE)?;
            refused(rig.connect(queue.doorbell), &[STATUS_INSUFFICIENT_RESOURCES], "a connection that fails")?;
            granted(rig.connect(queue.doorbell), "the next connection")?;
            ensure_eq!((state(&rig)?, reports(system).len()), (ACTIVE, before), "state and recoveries");
        }
        FaultRule::ResetHeld { .. } => {
            hang_packet(system, &rig)?;
            time_out_packets(system);
            ensure_eq!((state(&rig)?, state(&beside)?), (HUNG, ACTIVE), "states");
            one(system, before, TdrOutcome::EngineReset)?;
        }
        FaultRule::ResetTakesAlong { .. } => {
            let (mut queue, mut taken) = (rig.queue(NODE)?, beside.queue(NODE)?);
            let fence = rig.fence(0)?;
            let hang = super::hang::arm(system, NODE, false);
            rig.submit(&mut queue, &[fence.signal(FATAL)])?;
            wait_until("the hang", || faults.fired(hang) == 1)?;
            beside.submit(&mut taken, &[])?;
            time_out(system);
            ensure_eq!((state(&rig)?, state(&beside)?), (HUNG, RESET), "states");
            let report = one(system, before, TdrOutcome::EngineReset)?;
            ensure_eq!(report.with(TdrFate::Collateral).count(), 1, "queues taken along");
        }
        FaultRule::CompletionRacesReset { .. } => {
            let (mut queue, fence) = (rig.queue(NODE)?, rig.fence(0)?);
            let hang = super::hang::arm(system, NODE, false);
            let value = rig.submit(&mut queue, &[fence.signal(FATAL)])?;
            wait_until("the hang", || faults.fired(hang) == 1)?;
            time_out(system);
            ensure_eq!((queue.progress.load(), state(&rig)?), (value, ACTIVE), "progress and state");
            ensure_eq!(one(system, before, TdrOutcome::EngineReset)?.with(TdrFate::Guilty).count(), 0, "guilty queues");
        }
        FaultRule::Register { .. } => {
            faults.remove(id);
            hang_packet(system, &rig)?;
            // The preemption is under way: the next look at the node's progress is the question whether it makes any.
            (0..2).for_each(|_| system.machine().advance(TdrSettings::default().delay));
            let lie = faults.inject(rule);
            time_out_packets(system);
            ensure_eq!(faults.remove(lie), 1, "lies that were told");
            let report = one(system, before, TdrOutcome::EngineReset)?;
            ensure_eq!(
                (report.responsive, state(&rig)?, state(&beside)?),
                (Some(true), HUNG, ACTIVE),
                "what was believed"
            );
            return Ok(());
        }
    }
    ensure!(faults.remove(id) > 0, "the fault did not apply");
    Ok(())
}

/// A queue that waits for a fence is asked off its engine and put back on it, although what says that it has stopped is lost.
fn lose_suspension(system: &System, rig: &Rig, before: usize) -> Result<(), Failure> {
    let (gate, mut queue) = (rig.fence(0)?, rig.queue(NODE)?);
    rig.execute(&mut queue, &[])?;
    let value = rig.submit(&mut queue, &[gate.wait(1)])?;
    time_out(system);
    ensure_eq!((state(rig)?, reports(system).len()), (ACTIVE, before), "state and recoveries");
    granted(rig.signal(&[gate.handle], &[1]), "the signal")?;
    wait_until("the work", || queue.progress.load() == value)
}

/// Work whose ring is missed is done when the queue that stands still is suspended and resumed, which is counted. A queue that has just run looks for more work by
/// itself, so it takes several rings until one counts.
fn miss_ring(system: &System, rig: &Rig) -> Result<(), Failure> {
    let faults = system.gpu().faults();
    let (fence, mut queue) = (rig.fence(0)?, rig.queue(NODE)?);
    for value in 1..=100 {
        rig.execute(&mut queue, &[])?;
        let missed = faults.inject(FaultRule::MissedRing);
        rig.submit(&mut queue, &[fence.signal(value)])?;
        wait_until("the ring", || faults.fired(missed) == 1)?;
        faults.remove(missed);
        std::thread::sleep(Duration::from_millis(value));
        if fence.value.load() < value {
            wait_until("the signal", || {
                system.machine().advance(TdrSettings::default().delay);
                fence.value.load() == value
            })?;
            let rescues = system.machine().take_rescues();
            if !rescues.is_empty() {
                ensure_eq!(rescues, [(Rescue::MissedWakeUp, 1)], "what was made good");
                return Ok(());
            }
        }
    }
    Err(Failure::new("of a hundred rings that were missed none is counted"))
}

/// A packet that hangs at its signal.
fn hang_packet(system: &System, rig: &Rig) -> Result<(), Failure> {
    let (mut queue, fence) = (rig.packet_queue(NODE)?, rig.fence(0)?);
    let hang = super::hang::arm(system, NODE, false);
    rig.packet_submit(&mut queue, &[fence.signal(FATAL)])?;
    wait_until("the hang", || system.gpu().faults().fired(hang) == 1)
}

/// A fence that the GPU is about to signal, and an event that its waiter gets.
fn watched(rig: &Rig) -> Result<(RawFence, Event), Failure> {
    let (fence, event) = (rig.fence(0)?, Event::new()?);
    granted(rig.wait_with_event(&[fence.handle], &[1], false, Some(event.number())), "wait with an event")?;
    rig.submit(&mut rig.queue(NODE)?, &[fence.signal(1)])?;
    Ok((fence, event))
}

fn new_reports(system: &System, before: usize) -> Vec<TdrReport> {
    reports(system).split_off(before)
}

/// The only new recovery.
fn one(system: &System, before: usize, outcome: TdrOutcome) -> Result<TdrReport, Failure> {
    let mut new = new_reports(system, before);
    match (new.pop(), new.len()) {
        (Some(report), 0) if report.outcome == outcome => Ok(report),
        (report, others) => Err(Failure::new(format!("{others} recoveries, then {report:?}"))),
    }
}

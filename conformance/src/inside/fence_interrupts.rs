//! Interrupts of native fences: none is missed, one may stand for many, and those too many do no harm.

pub(super) use crate::Event;
use crate::cases::fence_interrupts::watched;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::Process;
use wddm_ddi::km::DXGK_INTERRUPT_TYPE;

use crate::rig::{RawFence, Rig, wait_until};
use crate::simulated::{Case, on_thread, with_gpu};
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

cases! { inside "FenceInterrupts", needs HardwareScheduling, behind "it counts interrupts";
    "FenceInterrupts.SignalsOfOneBufferWakeEveryWaiter" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "Every CPU wait ends when one command buffer signals all the fences, however few interrupts tell of it."
        holds [NativeFence 45]
        => one_buffer;
    "FenceInterrupts.ProgressFenceInterruptsItsWaiter" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A CPU that waits for the native progress fence of a queue wakes when the queue gets there, and unwatched progress is silent."
        holds [NativeFence 44]
        => progress;
    "FenceInterrupts.OneReportForBothKinds" needs UserModeSubmission on Boot::With(one_event), "native-gpu-fence-objects":
        "Hardware that cannot tell native fences from monitored ones has the interrupt of native fences alone, always with EvaluateLegacyMonitoredFences, and waiters for either kind wake."
        holds [NativeFence 48]
        => one_report;
    "FenceInterrupts.EachKindHasItsReport" needs UserModeSubmission on Boot::With(SystemOptions::default), "native-gpu-fence-objects":
        "Hardware that can tell native fences from monitored ones has an interrupt for each, never with EvaluateLegacyMonitoredFences, and waiters for either kind wake."
        holds [NativeFence 48]
        => two_reports;
    "FenceInterrupts.DestroyedFencesAreNotReported" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "Fences may be destroyed while the GPU signals them and others are waited for, and no report names one that is gone."
        holds [NativeFence 46]
        => destroyed_under_signals;
    "FenceInterrupts.OneOfManyIsNamedExactly" needs UserModeSubmission on Boot::With(SystemOptions::default), "native-gpu-fence-objects":
        "Of very many fences, some of two processes at the same address and others gone, each report names the one that is waited for and was signalled."
        holds [NativeFence 45]
        => named_exactly;
}

fn one_event() -> SystemOptions {
    with_gpu(|gpu| gpu.one_fence_event = true)
}

/// Reports since the system started.
#[derive(Clone, Copy, Debug)]
struct Reports {
    native: u64,
    monitored: u64,
    /// With EvaluateLegacyMonitoredFences.
    evaluating: u64,
}

fn reports(case: &Case<'_>) -> Reports {
    let counters = case.system.machine().counters(case.system.luid()).unwrap_or_default();
    let of = |kind: DXGK_INTERRUPT_TYPE| counters.notifications[kind.0 as usize];
    Reports {
        native: of(DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED),
        monitored: of(DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED),
        evaluating: counters.legacy_evaluations,
    }
}

/// Waits for a native and for a monitored fence, each signalled by an engine of its own.
fn both_kinds(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut user, mut kernel) = (rig.queue(NODE_COMPUTE)?, rig.kernel_queue(NODE_COPY)?);
    let (fence, gate) = (rig.fence(0)?, rig.fence(0)?);
    let wait = |handle, value| {
        let event = Event::new()?;
        let status = rig.wait_with_event(&[handle], &[value], false, Some(event.number()));
        granted(status, "a wait with an event").map(|()| event)
    };
    for round in 1..=20 {
        rig.submit(&mut user, &[gate.wait(round), fence.signal(round)])?;
        let done = rig.kernel_submit(&mut kernel, &[gate.wait(round)])?;
        let (native, monitored) = (wait(fence.handle, round)?, wait(kernel.progress_fence, done)?);
        ensure!(!native.is_set()? && !monitored.is_set()?, "a wait ended before its signal");
        granted(rig.signal(&[gate.handle], &[round]), "opening the gate")?;
        native.wait()?;
        monitored.wait()?;
    }
    Ok(())
}

fn one_report(case: &mut Case<'_>) -> Result<(), Failure> {
    both_kinds(case)?;
    wait_until("reports that all ask for monitored fences too", || {
        let now = reports(case);
        now.native != 0 && now.evaluating == now.native
    })?;
    ensure_eq!(reports(case).monitored, 0, "reports of monitored fences");
    Ok(())
}

fn two_reports(case: &mut Case<'_>) -> Result<(), Failure> {
    let before = reports(case);
    both_kinds(case)?;
    wait_until("a report of each kind", || {
        let now = reports(case);
        now.native > before.native && now.monitored > before.monitored
    })?;
    ensure_eq!(reports(case).evaluating, 0, "reports that ask for monitored fences too");
    Ok(())
}

/// Interrupts about fences so far, on a machine whose scheduling logs interrupt no more. Where engines tell that they are idle, messages of the GPU are about that too, and the driver's reports of fences
/// are counted.
pub(super) fn interrupts(case: &Case<'_>) -> u64 {
    case.system.machine().quiet_scheduling_logs(case.system.luid());
    if !case.system.reports_idle_engines() {
        return case.system.counters().interrupts;
    }
    case.system.machine().settle_interrupts();
    let Reports { native, monitored, .. } = reports(case);
    native + monitored
}

fn one_buffer(case: &mut Case<'_>) -> Result<(), Failure> {
    const FENCES: usize = 8;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for _ in 0..20 {
        let watched = watched(&rig, FENCES, 1)?;
        let before = interrupts(case);
        let signals: Vec<_> = watched.iter().map(|(fence, _)| fence.signal(1)).collect();
        rig.execute(&mut queue, &signals)?;
        for (_, event) in &watched {
            event.wait()?;
        }
        let raised = interrupts(case) - before;
        ensure!((1..=FENCES as u64).contains(&raised), "{raised} interrupts for {FENCES} watched signals");
    }
    Ok(())
}

fn progress(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let gate = rig.fence(0)?;
    rig.execute(&mut queue, &[])?;
    let before = interrupts(case);
    for _ in 0..50 {
        rig.execute(&mut queue, &[])?;
    }
    ensure_eq!(interrupts(case), before, "interrupts after progress that nobody watched");
    for round in 1..=20 {
        let value = rig.submit(&mut queue, &[gate.wait(round)])?;
        let event = Event::new()?;
        granted(
            rig.wait_with_event(&[queue.progress_fence], &[value], false, Some(event.number())),
            "wait for the progress fence",
        )?;
        ensure!(!event.is_set()?, "the progress came before its work");
        granted(rig.signal(&[gate.handle], &[round]), "opening the gate")?;
        event.wait()?;
        ensure!(queue.progress.load() >= value, "the wait ended before the progress");
    }
    Ok(())
}

fn destroyed_under_signals(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for _ in 0..100 {
        let watched = watched(&rig, 3, 1)?;
        let signals: Vec<_> = watched.iter().map(|(fence, _)| fence.signal(1)).collect();
        let value = rig.submit(&mut queue, &signals)?;
        // The GPU has written its values, and its interrupts may still be on their way.
        wait_until("the signals", || queue.progress.load() >= value)?;
        for (fence, _) in &watched {
            granted(rig.destroy_fence(fence.handle), "destroying a fence that was just signalled")?;
        }
    }
    ensure!(case.system.machine().bugcheck().is_none(), "a report named a destroyed fence");
    Ok(())
}

/// Very many fences.
fn many(rig: &Rig) -> Result<Vec<RawFence>, Failure> {
    (0..384).map(|_| rig.fence(0)).collect()
}

/// Destroys every third fence, so that the driver finds those that are left behind gaps.
fn with_gaps(rig: &Rig, fences: Vec<RawFence>) -> Result<Vec<RawFence>, Failure> {
    for gone in fences.iter().step_by(3) {
        granted(rig.destroy_fence(gone.handle), "destroying a fence")?;
    }
    Ok(fences.into_iter().enumerate().filter(|(number, _)| number % 3 != 0).map(|(_, fence)| fence).collect())
}

/// Signals each fence once and waits for it; how many there are.
fn signal_each(rig: &Rig, fences: &[RawFence]) -> Result<u64, Failure> {
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for fence in fences {
        let event = Event::new()?;
        let wait = rig.wait_with_event(&[fence.handle], &[1], false, Some(event.number()));
        granted(wait, "a wait with an event")?;
        rig.execute(&mut queue, &[fence.signal(1)])?;
        event.wait()?;
    }
    Ok(fences.len() as u64)
}

fn named_exactly(case: &mut Case<'_>) -> Result<(), Failure> {
    let named = || case.system.machine().counters(case.system.luid()).unwrap_or_default().named_fences;
    let before = named();
    let rig = case.rig()?;
    let fences = many(&rig)?;
    let other = Process::new(case.system.machine(), "other");
    let outcome = (|| {
        let (other_rig, others) = on_thread(&other, || {
            let rig = Rig::open(case.system.luid())?;
            let fences = many(&rig)?;
            Ok((rig, fences))
        })?;
        let shared = others.iter().filter(|other| fences.iter().any(|fence| fence.current == other.current)).count();
        ensure!(shared > others.len() / 4, "only {shared} fences have the address of another process's");
        // The gaps come when all fences are there: some lie where they do because others were in their way.
        let fences = with_gaps(&rig, fences)?;
        let signalled = on_thread(&other, || signal_each(&other_rig, &with_gaps(&other_rig, others)?))?;
        Ok(signalled + signal_each(&rig, &fences)?)
    })();
    other.exit();
    let expected = before + outcome?;
    wait_until("a name for each signal", || named() >= expected)?;
    ensure_eq!(named(), expected, "fences that reports named");
    Ok(())
}

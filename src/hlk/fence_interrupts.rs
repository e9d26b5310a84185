//! Interrupts of native fences: none is missed, one may stand for many, and those too many do no harm.

pub(super) use campanile_hlk::Event;
use campanile_hlk::cases::fence_interrupts::watched;
use campanile_hw::registers::NODE_COMPUTE;

use super::case::{Boot, Case, Failure, granted};
use super::rig::wait_until;

cases! { "FenceInterrupts", behind "it counts interrupts";
    "FenceInterrupts.SignalsOfOneBufferWakeEveryWaiter" on Boot::Shared, "native-gpu-fence-objects":
        "Every CPU wait ends when one command buffer signals all the fences, however few interrupts tell of it."
        => one_buffer;
    "FenceInterrupts.ProgressFenceInterruptsItsWaiter" on Boot::Shared, "native-gpu-fence-objects":
        "A CPU that waits for the native progress fence of a queue wakes when the queue gets there, and unwatched progress is silent."
        => progress;
    "FenceInterrupts.DestroyedFencesAreNotReported" on Boot::Shared, "native-gpu-fence-objects":
        "Fences may be destroyed while the GPU signals them and others are waited for, and no report names one that is gone."
        => destroyed_under_signals;
}

fn interrupts(case: &Case<'_>) -> u64 {
    case.system.counters().interrupts
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

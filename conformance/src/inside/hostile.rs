//! Hostile user mode: whatever a process writes where it may write, its own queue alone pays.

use crate::cases::hostile::ACTIVE;
use campanile_hw::doorbell::DoorbellValue;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use crate::rig::{Rig, wait_until};
use crate::simulated::{Case, with_gpu};
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

cases! { inside "Hostile", needs HardwareScheduling, behind "it is several processes at a time, or chooses the hardware";
    "Hostile.ForgedGlobalValuesRunNothing" needs UserModeSubmission on Boot::With(global_doorbell), "user-mode-work-submission":
        "Values that one process stores to the global doorbell in the name of another's queue run nothing that was not submitted, and no submission goes unheard for them."
        holds [UserModeSubmission 5]
        => forged_values;
    "Hostile.WorkBeforeItsValueIsNoticed" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "User mode that lets the GPU see work before the last queued value tells of it is noted by the system with its name, and one that keeps the order never is."
        holds [UserModeSubmission 38]
        => wrong_order;
}

fn global_doorbell() -> SystemOptions {
    with_gpu(|gpu| gpu.global_doorbell = true)
}

fn forged_values(case: &mut Case<'_>) -> Result<(), Failure> {
    const ROUNDS: u64 = 200;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (fence, never) = (rig.fence(0)?, rig.fence(0)?);
    rig.execute(&mut queue, &[])?;
    let number = queue.doorbell.number;
    case.in_other_process(|system| {
        let forger = Rig::open(system.luid())?;
        let mut own = forger.queue(NODE_COPY)?;
        forger.execute(&mut own, &[])?;
        let page = own.doorbell.page;
        let store = |number: u16, pointer: u64| {
            page.store(DoorbellValue::of_write_pointer(pointer).with_queue(number).into_bits());
        };
        // What stands in the ring and was never submitted.
        queue.write_ahead(&[never.signal(1)]);
        for pointer in [2, 3, 100, 1 << 40, 0, u64::MAX] {
            (0..=u16::MAX).step_by(997).chain([number]).for_each(|number| store(number, pointer));
            forger.execute(&mut own, &[])?;
        }
        ensure_eq!((queue.progress.load(), never.value.load()), (1, 0), "progress, fence after forged values");
        for value in 1..=ROUNDS {
            // The very value that the owner will store, before it, and others right after it.
            store(number, queue.written() + 1);
            let last = queue.append(&[fence.signal(value)])?;
            queue.doorbell.store(queue.written());
            for other in 0..value % 4 {
                store(number.wrapping_add(other as u16 * 7), value * 31);
            }
            wait_until("work that was rung for among forged values", || queue.progress.load() == last)?;
        }
        forger.execute(&mut own, &[])?;
        ensure_eq!(forger.kmt.execution_state(forger.device)?, ACTIVE, "state of the forger's device");
        Ok(())
    })?;
    ensure_eq!((fence.value.load(), never.value.load()), (ROUNDS, 0), "fences");
    ensure_eq!(rig.kmt.execution_state(rig.device)?, ACTIVE, "state of the device whose queue was named");
    Ok(())
}

fn wrong_order(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut honest, mut hasty) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let (_, before) = case.system.machine().debug_log_since(0);
    let notes = |case: &Case<'_>| {
        let (lines, _) = case.system.machine().debug_log_since(before);
        lines.into_iter().filter(|line| line.contains("last queued value must")).collect::<Vec<_>>()
    };
    for _ in 0..200 {
        rig.submit(&mut honest, &[])?;
        granted(rig.notify(honest.doorbell), "D3DKMTNotifyWorkSubmission")?;
    }
    ensure_eq!(notes(case).len(), 0, "notes about a process that keeps the order");
    rig.execute(&mut hasty, &[])?;
    for round in 0..3 {
        let value = hasty.append(&[])?;
        hasty.doorbell.last_queued.store(value - 1);
        rig.ring_until(&hasty, hasty.written(), "the work", || hasty.progress.load() == value)?;
        granted(rig.notify(hasty.doorbell), "D3DKMTNotifyWorkSubmission")?;
        ensure_eq!(notes(case).len(), 1, "notes about a process that shows work first, round {round}");
    }
    let note = notes(case).pop().unwrap_or_default();
    ensure!(note.contains(case.process.name()), "the note does not name the process: {note}");
    hasty.doorbell.last_queued.store(hasty.progress.load());
    Ok(())
}

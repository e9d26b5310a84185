//! Races: a process ends while one of its threads is in a thunk.

use std::sync::Barrier;

use crate::cases::race_table::{OPERATIONS, Operation, Scene};
use crate::cases::races::pairs;
use crate::seed;
use dxgkrnl::Process;
use fastrand::Rng;
use wddm_ddi::status::STATUS_ACCESS_DENIED;

use crate::rig::Rig;
use crate::simulated::Case;
use crate::{Boot, Failure};
use testbed::setup::System;

cases! { inside "Races", needs HardwareScheduling, behind "it ends processes that have threads in thunks";
    "Races.ExitMeetsEveryThunk" needs UserModeSubmission on Boot::Fresh, "threading-and-synchronization-zero-level":
        "A process that exits, or is terminated, while a thread of it makes any call is gone after that call, whose objects the driver hears nothing of afterwards (inferred from the pages: a handle is valid until its destruction)."
        => exit_meets_every_thunk;
    "Races.NoCallMeetsTheEndOfItsObject" needs UserModeSubmission on Boot::Fresh, "threading-and-synchronization-zero-level":
        "While threads create, use and destroy objects at the same time, by every pair of thunks of which one takes away what the other needs, no DDI about a process, device, context, queue or doorbell of the driver overlaps or follows the DDI that ends it or what it was made of (inferred from the pages: a handle is valid until its destruction)."
        => no_call_meets_the_end;
}

/// Times that each call meets each of the two ends.
const ROUNDS: u32 = 4;

/// Makes the call again and again until the process has ended.
fn go_on(process: &std::sync::Arc<Process>, operation: &Operation, scene: &Scene, start: &Barrier) {
    let _attached = process.attach();
    start.wait();
    for _ in 0..200 {
        if operation.run(scene) == STATUS_ACCESS_DENIED {
            return;
        }
    }
}

fn meet(system: &System, operation: &Operation, terminated: bool, random: &mut Rng) -> Result<(), Failure> {
    let process = Process::new(system.machine(), "leaver");
    let scene = {
        let _attached = process.attach();
        Scene::new(Rig::open(system.luid())?, [operation; 2])?
    };
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| go_on(&process, operation, &scene, &start));
        start.wait();
        (0..1 << random.u32(..14)).for_each(|_| std::hint::spin_loop());
        if terminated {
            process.terminate();
        } else {
            process.exit();
        }
        let inside = process.threads_in_thunks();
        ensure_eq!(inside, 0, "threads in thunks of a process that is gone");
        thread.join().map_err(|_| Failure::new("the calling thread panicked"))
    })?;
    ensure_eq!((process.handle_count(), process.kernel_handle_count()), (0, 0), "handles of a process that is gone");
    Ok(())
}

/// Does something while nobody may call the driver about an object that ends.
fn watched(case: &Case<'_>, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let (machine, luid) = (case.system.machine(), case.system.luid());
    machine.watch_lifetimes(luid);
    let outcome = work();
    let breaches = machine.take_lifetime_breaches(luid);
    outcome?;
    ensure!(breaches.is_empty(), "calls that met the end of their object: {breaches:?}");
    Ok(())
}

fn no_call_meets_the_end(case: &mut Case<'_>) -> Result<(), Failure> {
    const ROUNDS: u32 = 12;
    watched(case, || {
        pairs(&case.thunks, ROUNDS, |[first, second]| {
            first.takes_from(second) || second.takes_from(first) || std::ptr::eq(first, second)
        })
    })
}

fn exit_meets_every_thunk(case: &mut Case<'_>) -> Result<(), Failure> {
    watched(case, || exits(case))
}

fn exits(case: &Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(campanile_hw::registers::NODE_COMPUTE)?;
    let mut random = Rng::with_seed(seed::of(5));
    for operation in OPERATIONS {
        for round in 0..2 * ROUNDS {
            let met = meet(case.system, operation, round % 2 == 1, &mut random);
            let met = met.and_then(|()| rig.execute(&mut queue, &[]));
            met.map_err(|failure| Failure::new(format!("{} against the end: {failure}", operation.name)))?;
        }
    }
    Ok(())
}

//! Races: a process ends while one of its threads is in a thunk.

use std::sync::Barrier;

use campanile_hlk::cases::race_table::{OPERATIONS, Operation, Scene};
use campanile_hlk::seed;
use dxgkrnl::Process;
use fastrand::Rng;
use wddm_ddi::status::STATUS_ACCESS_DENIED;

use super::case::{Boot, Case, Failure};
use super::rig::Rig;
use crate::setup::System;

cases! { "Races", needs HardwareScheduling, behind "it ends processes that have threads in thunks";
    "Races.ExitMeetsEveryThunk" on Boot::Fresh, "threading-and-synchronization-zero-level":
        "A process that exits, or is terminated, while a thread of it makes any call is gone after that call, whose objects the driver hears nothing of afterwards (inferred from the pages: a handle is valid until its destruction)."
        => exit_meets_every_thunk;
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
    let process = system.machine().create_process("leaver");
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
        thread.join().map_err(|_| Failure::new("the calling thread panicked"))
    })?;
    ensure_eq!((process.handle_count(), process.kernel_handle_count()), (0, 0), "handles of a process that is gone");
    Ok(())
}

fn exit_meets_every_thunk(case: &mut Case<'_>) -> Result<(), Failure> {
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

//! A program: one process after another that works at random, and ends in one of the ways in which processes end.

use std::thread;
use std::time::Duration;

use dxgkrnl::{Machine, Process};
use testbed::user::{Adapter, Error, Result};
use wddm_ddi::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_NO_MEMORY};

use super::counts::{count, get};
use super::live::{Held, Live, Step};
use super::world::World;

/// Most steps of a process.
const STEPS_MAX: u32 = 400;

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It destroys what it has, then exits.
    Tidy,
    /// It exits with work under way.
    Exit,
    /// It is terminated with work under way.
    Terminated,
}

const ENDS: [End; 3] = [End::Tidy, End::Exit, End::Terminated];

/// Runs processes until the soak is over.
pub(super) fn run(world: &World, number: u32) {
    let mut rng = fastrand::Rng::with_seed(world.seed.wrapping_add(u64::from(number)));
    while !world.is_over() {
        world.gate.pass(number, Held::default());
        count(&world.counts.processes);
        let (machine, _) = world.adapter();
        let end = ENDS[rng.usize(..ENDS.len())];
        process(world, &machine, number, end, &mut rng);
    }
    world.gate.leave();
}

/// Processes that end in every way, one after the other.
pub(super) fn once(world: &World) {
    let mut rng = fastrand::Rng::with_seed(world.seed);
    let (machine, _) = world.adapter();
    for end in ENDS {
        process(world, &machine, 0, end, &mut rng);
    }
}

/// One process, from its start to its end.
fn process(world: &World, machine: &Machine, number: u32, end: End, rng: &mut fastrand::Rng) {
    let process = Process::new(machine, &format!("soak {number}"));
    let removals = get(&world.counts.removals);
    let outcome = {
        let _attached = process.attach();
        work(world, number, end, rng)
    };
    if end == End::Terminated {
        count(&world.counts.terminated);
        process.terminate();
    } else {
        process.exit();
    }
    match outcome {
        // A program that was in the middle of something when its adapter went; its memory reads as ones then.
        Ok(Step::Wrong(_)) | Err(_) if get(&world.counts.removals) != removals => {
            count(&world.counts.lost_by_removal);
        }
        Ok(Step::Wrong(how)) => world.find(format!("program {number}: {how}")),
        Ok(Step::Done) => {}
        Err(error) => judge(world, number, &error),
    }
    if process.handle_count() + process.kernel_handle_count() != 0 {
        world.find(format!("process {number} has handles after its end"));
    }
}

/// The work of a process between its start and its end.
fn work(world: &World, number: u32, end: End, rng: &mut fastrand::Rng) -> Result<Step> {
    let (_, luid) = world.adapter();
    let mut live = Live::new(&Adapter::open_luid(luid)?, rng)?;
    for _ in 0..rng.u32(1..STEPS_MAX) {
        if world.is_over() {
            return Ok(Step::Done);
        }
        if world.gate.is_closed() {
            world.gate.pass(number, live.held(&world.units));
        }
        match live.step(rng)? {
            Step::Done => count(&world.counts.steps),
            wrong @ Step::Wrong(_) => return Ok(wrong),
        };
    }
    if end != End::Tidy {
        live.leave_work(rng)?;
        // A process that has ended runs no destructors.
        std::mem::forget(live);
    }
    Ok(Step::Done)
}

/// Counts or reports an error of a program whose adapter was not removed.
fn judge(world: &World, number: u32, error: &Error) {
    match error {
        // Held against the number of hangs.
        Error::DeviceLost => {
            count(&world.counts.lost_by_reset);
        }
        error if is_shortage(error) => {
            count(&world.counts.refused);
            // Others give some back.
            thread::sleep(Duration::from_millis(10));
        }
        error => world.find(format!("program {number}: {error}")),
    }
}

/// True if there was no memory.
fn is_shortage(error: &Error) -> bool {
    let text = error.to_string();
    [STATUS_NO_MEMORY, STATUS_INSUFFICIENT_RESOURCES].iter().any(|status| text.contains(&status.to_string()))
}

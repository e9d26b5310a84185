//! Races: a process ends while one of its threads is in a thunk.

use std::sync::Barrier;
use std::time::Duration;

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_PAGING;
use dxgkrnl::Process;
use fastrand::Rng;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::D3DDDI_MAKERESIDENT;
use wddm_ddi::status::{STATUS_ACCESS_DENIED, STATUS_PENDING};

use super::hang::{Guest, by_hand};
use super::tdr_packet::hang;
use crate::cases::race_table::{OPERATIONS, Operation, Scene};
use crate::cases::races::pairs;
use crate::rig::{Rig, fill};
use crate::seed;
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
    "Races.TerminationMeetsThePagingNode" needs UserModeSubmission on Boot::With(by_hand), "d3dkmtmakeresident":
        "What the paging node has been asked for by a process that is terminated, the fence of its paging queue among it, is done before the memory goes that it is about: the paging node does not fault, and goes on."
        => termination_meets_paging;
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

/// Asks for an allocation to be made resident, and does not wait for it.
fn ask_for_residency(rig: &Rig) -> Result<(), Failure> {
    let created = rig.create(1 << 20, Placement::Vram);
    let mut handle = created.map_err(|status| Failure::new(format!("an allocation: {status}")))?;
    let mut arguments = D3DDDI_MAKERESIDENT::zeroed();
    (arguments.hPagingQueue, arguments.NumAllocations) = (rig.paging_queue, 1);
    arguments.AllocationList = &mut handle;
    let status = rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut arguments);
    ensure_eq!(status, STATUS_PENDING, "D3DKMTMakeResident while the paging node is busy");
    Ok(())
}

fn termination_meets_paging(case: &mut Case<'_>) -> Result<(), Failure> {
    const MEANWHILE: Duration = Duration::from_millis(100);
    let (busy, leaver) = (case.rig()?, Guest::new(case.system, "leaver")?);
    let mut queue = busy.packet_queue(NODE_PAGING)?;
    let value = hang(case.system, &busy, &mut queue, NODE_PAGING)?;
    leaver.inside(ask_for_residency)?;
    std::thread::scope(|scope| {
        let terminates = scope.spawn(|| leaver.process.terminate());
        // It would take away what the node is still to write to.
        std::thread::sleep(MEANWHILE);
        case.system.gpu().let_go(NODE_PAGING);
        terminates.join().map_err(|_| Failure::new("the terminating thread panicked"))
    })?;
    busy.packet_wait(&queue, value)?;
    let memory = busy.memory(1 << 20, Placement::Vram)?;
    busy.packet_execute(&mut queue, &[fill(memory.address, 1 << 20, 7)])
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

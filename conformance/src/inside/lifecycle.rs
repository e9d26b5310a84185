//! Coming and going: processes, devices, adapters, the driver.

use crate::cases::lifecycle::work;
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::status::*;

use crate::kmt::{BAD_HANDLE, Kmt};
use crate::rig::{Rig, fill};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};
use testbed::setup::{BusChoice, System, SystemOptions};

cases! { inside "Lifecycle", behind "it stops and starts the adapter, or counts what ended processes leave";
    "Lifecycle.AdapterStopsAndStartsAgain" needs UserModeSubmission on Boot::Fresh, "stop_device":
        "An adapter that was stopped and removed can be added and started again, and works as before, time after time."
        => stops_and_starts;
    "Lifecycle.ThunksOnAStoppedAdapterAreRefused" needs NativeFence on Boot::Fresh, "stop_device":
        "Once the adapter is stopped, thunks on handles from before are refused, and opening it is refused too."
        => thunks_after_stop;
    "Lifecycle.ProcessExitReleasesEverything" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "Processes that exit with devices, queues, doorbells, fences and memory open give all of it back: hundreds of them fit."
        holds [UserModeSubmission 22]
        => process_exit_releases;
    "Lifecycle.ExitWithBlockedWorkEnds" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "A process that exits while its queue waits for a fence that nobody signals is taken down without waiting for ever."
        holds [UserModeSubmission 42]
        => exit_with_blocked_work;
    "Lifecycle.ExitWithRunningWorkDisturbsNobody" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "A process that exits in the middle of its work takes nothing of another process with it."
        holds [UserModeSubmission 42]
        => exit_with_running_work;
    "Lifecycle.DestroyedDeviceTakesItsObjects" needs UserModeSubmission on Boot::Shared, "d3dkmtdestroydevice":
        "Destroying a device destroys its queues, doorbells, fences and allocations, whose handles are refused afterwards."
        holds [UserModeSubmission 22]
        => destroyed_device;
    "Lifecycle.TwoMachinesDoNotSeeEachOther" needs UserModeSubmission on Boot::Fresh, "start_device":
        "Two machines, each with its own adapter, run side by side; neither lists the other's adapter."
        => two_machines;
    "Lifecycle.SteppedMachineRunsTheSameWork" needs UserModeSubmission on Boot::With(stepped), "user-mode-work-submission":
        "A GPU without threads of its own, moved step by step, executes the same work as one with threads."
        holds [UserModeSubmission 62]
        => stepped_machine;
}

fn stepped() -> SystemOptions {
    SystemOptions { threads: false, ..SystemOptions::default() }
}

fn work_in_new_process(system: &System) -> Result<(), Failure> {
    let process = dxgkrnl::Process::new(system.machine(), "worker");
    let outcome = crate::simulated::on_thread(&process, || work(&Rig::open(system.luid())?));
    process.exit();
    outcome
}

fn stops_and_starts(case: &mut Case<'_>) -> Result<(), Failure> {
    for round in 0..4 {
        work_in_new_process(case.system).map_err(|failure| Failure::new(format!("round {round}: {failure}")))?;
        if round % 2 == 0 {
            case.system.stop()?;
        }
        case.system.remove()?;
        case.system.start()?;
    }
    Ok(())
}

fn thunks_after_stop(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(4096, Placement::System)?;
    let fence = rig.fence(0)?;
    let luid = case.system.luid();
    case.system.stop()?;
    let gone: &[NTSTATUS] =
        &[STATUS_DEVICE_REMOVED, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_DEVICE_DOES_NOT_EXIST];
    match rig.create(4096, Placement::System) {
        Ok(_) => return Err(Failure::new("an allocation was created on a stopped adapter")),
        Err(status) => refused(status, gone, "creating an allocation")?,
    }
    match rig.context(NODE_COMPUTE) {
        Ok(_) => return Err(Failure::new("a context was created on a stopped adapter")),
        Err(status) => refused(status, gone, "creating a context")?,
    }
    refused(rig.signal(&[fence.handle], &[1]), gone, "signalling a fence")?;
    refused(rig.evict(memory.handle), gone, "evicting")?;
    match Kmt::new().open_adapter(luid) {
        Ok(_) => Err(Failure::new("a stopped adapter was opened")),
        Err(status) => {
            refused(status, &[STATUS_INVALID_PARAMETER, STATUS_NO_SUCH_DEVICE, STATUS_DEVICE_REMOVED], "opening")
        }
    }
}

fn process_exit_releases(case: &mut Case<'_>) -> Result<(), Failure> {
    // More than VRAM holds at once.
    for round in 0..100 {
        case.in_other_process(|system| {
            let rig = Rig::open(system.luid())?;
            rig.memory(4 << 20, Placement::Vram)?;
            work(&rig)
        })
        .map_err(|failure| Failure::new(format!("process {round}: {failure}")))?;
    }
    Ok(())
}

fn exit_with_blocked_work(case: &mut Case<'_>) -> Result<(), Failure> {
    for node in [NODE_COMPUTE, NODE_COPY] {
        case.in_other_process(|system| {
            let rig = Rig::open(system.luid())?;
            let mut queue = rig.queue(node)?;
            let fence = rig.fence(0)?;
            rig.submit(&mut queue, &[fence.wait(1)])?;
            rig.submit(&mut queue, &[])?;
            Ok(())
        })?;
        work_in_new_process(case.system)?;
    }
    Ok(())
}

fn exit_with_running_work(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut mine = rig.queue(NODE_COPY)?;
    let memory = rig.memory(1 << 20, Placement::Vram)?;
    for round in 0..5 {
        rig.submit(&mut mine, &[fill(memory.address, 1 << 20, round)])?;
        case.in_other_process(|system| {
            let other = Rig::open(system.luid())?;
            let mut queue = other.queue(NODE_COPY)?;
            let large = other.memory(1 << 20, Placement::Vram)?;
            for _ in 0..20 {
                other.submit(&mut queue, &[fill(large.address, 1 << 20, 0xffff_ffff)])?;
            }
            Ok(())
        })?;
        rig.execute(&mut mine, &[])?;
    }
    work(&rig)
}

fn destroyed_device(case: &mut Case<'_>) -> Result<(), Failure> {
    let keeper = case.rig()?;
    let rig = Rig::on_adapter(keeper.kmt, keeper.adapter)?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let memory = rig.memory(4096, Placement::System)?;
    rig.execute(&mut queue, &[fence.signal(1)])?;
    granted(rig.destroy(), "destroying the device")?;
    refused(rig.destroy(), BAD_HANDLE, "destroying it again")?;
    refused(rig.connect(queue.doorbell), BAD_HANDLE, "a doorbell of the destroyed device")?;
    refused(keeper.signal(&[fence.handle], &[2]), BAD_HANDLE, "a fence of the destroyed device")?;
    refused(keeper.evict(memory.handle), BAD_HANDLE, "an allocation of the destroyed device")?;
    refused(rig.destroy_fence(fence.handle), BAD_HANDLE, "destroying its fence")?;
    work(&keeper)
}

fn two_machines(case: &mut Case<'_>) -> Result<(), Failure> {
    // A GPU of its own, wherever the case's is.
    let other = System::boot(&SystemOptions { bus: Some(BusChoice::Direct), ..SystemOptions::default() })?;
    work(&case.rig()?)?;
    work_in_new_process(&other)?;
    let process = dxgkrnl::Process::new(other.machine(), "stranger");
    let here = case.system.luid();
    let there = other.luid();
    if here != there {
        let opened = crate::simulated::on_thread(&process, || Ok(Kmt::new().open_adapter(here)))?;
        ensure!(opened.is_err(), "the other machine opened this one's adapter");
    }
    process.exit();
    other.shutdown()?;
    work(&case.rig()?)
}

fn stepped_machine(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let memory = rig.memory(1 << 20, Placement::VramVisible)?;
    let view = rig.view(memory)?;
    for round in 1..=20_u32 {
        let value = rig.submit(&mut queue, &[fill(memory.address, 1 << 20, round)])?;
        ensure!(queue.progress.load() < value, "round {round}: the GPU moved without being stepped");
        while case.system.gpu().step() {}
        ensure_eq!(queue.progress.load(), value, "progress after stepping in round {round}");
        let right = view.read(0, 1 << 20).chunks(4).all(|word| word == round.to_le_bytes());
        ensure!(right, "round {round}: wrong bytes");
    }
    Ok(())
}

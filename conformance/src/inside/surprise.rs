//! Surprise removal: the GPU is pulled out while it idles, works, waits, moves memory or sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use campanile_device::PageTableUpdates;
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY, NODES};
use dxgkrnl::Clock;
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::fence_cross_adapter::{sides, two_native};
use super::fence_interrupts::Event;
use super::hang::until_ended;
use super::power::wait_asleep;
use crate::kmt::{BAD_HANDLE, DEVICE_LOST};
use crate::rig::{KernelHandle, RawFence, Rig, fill, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::SystemOptions;

cases! { inside "SurpriseRemoval", needs HardwareScheduling, behind "it pulls the GPU out";
    "SurpriseRemoval.IdleAdapter" needs UserModeSubmission on Boot::Fresh, "dxgkddi_notify_surprise_removal":
        "An adapter that is pulled out while it idles is lost to its devices, its driver touches no register after it was told, and another adapter in its place works."
        => idle;
    "SurpriseRemoval.SteppedMachine" needs UserModeSubmission on Boot::With(stepped), "dxgkddi_notify_surprise_removal":
        "A machine whose kernel moves the GPU while it waits does not wait for one that was pulled out."
        => released;
    "SurpriseRemoval.WaitersAreReleased" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "Threads and events that wait for fences of an adapter that is pulled out are released, threads as device removed, while its queues wait for each other."
        holds [NativeFence 40]
        => released;
    "SurpriseRemoval.RunningWorkEnds" needs UserModeSubmission on Boot::Fresh, "dxgkddi_notify_surprise_removal":
        "A GPU that is pulled out in the middle of its work, with more in rings, reaches no memory any more; what it did before stays."
        => running_work;
    "SurpriseRemoval.BeforeAnybodyKnows" needs UserModeSubmission on Boot::Fresh, "dxgkddi_notify_surprise_removal":
        "Between the removal and its notice thunks answer without stopping the machine, nothing makes progress, and the notice ends what waits."
        => before_notice;
    "SurpriseRemoval.FoundByATimeout" needs UserModeSubmission on Boot::With(gpu_written_tables), "dxgkddi_notify_surprise_removal":
        "Where paging of a GPU that was pulled out times out before plug and play tells, nothing is reset: the devices are lost, the machine goes on, and the removal follows."
        holds [Tdr 49]
        => found_by_timeout;
    "SurpriseRemoval.PagingUnderWay" needs UserModeSubmission on Boot::Fresh, "dxgkddi_notify_surprise_removal":
        "A process whose memory is being moved when the adapter is pulled out is told that it is gone, and gives its memory back."
        => paging;
    "SurpriseRemoval.AsleepAdapter" needs UserModeSubmission on Boot::Fresh, "dxgkddi_notify_surprise_removal":
        "An adapter that is pulled out in D3 is removed without being woken."
        => asleep;
    "SurpriseRemoval.ObjectsCloseLate" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "Fences, kernel handles, doorbells, queues, contexts, memory and devices of an adapter that was pulled out are closed without an error, once each."
        holds [NativeFence 40]
        => late_close;
    "SurpriseRemoval.ObjectsLeaveTheDriverInOrder" needs UserModeSubmission on Boot::With(two_native), "dxgkddi_notify_surprise_removal":
        "The driver is told first, then destroys what there is in the order of an orderly removal, then the device is stopped and removed; nothing is created."
        => order;
    "SurpriseRemoval.OtherAdapterGoesOn" needs UserModeSubmission on Boot::With(two_native), "native-gpu-fence-objects":
        "An adapter beside one that is pulled out goes on: the value of a fence of both, and the waits for it there, are as if nothing had happened."
        holds [NativeFence 40, Tdr 52]
        => other_adapter;
    "SurpriseRemoval.ProcessesExitMeanwhile" needs UserModeSubmission on Boot::Fresh, "dxgkddi_notify_surprise_removal":
        "Processes that exit, and are terminated, with work and waits while the adapter is pulled out are taken down."
        => exits;
}

fn gpu_written_tables() -> SystemOptions {
    let mut options = SystemOptions { clock: Clock::manual(), ..SystemOptions::default() };
    options.variant.page_table_updates = PageTableUpdates::GpuVirtual;
    options
}

fn stepped() -> SystemOptions {
    SystemOptions { threads: false, ..SystemOptions::default() }
}

const STOPPED: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_STOPPED;
const ABORT: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT;

/// Pulls the first GPU out, and lets the machine notice.
fn pull_out(case: &mut Case<'_>) -> Result<(), Failure> {
    case.system.pull_out(0)?;
    Ok(case.system.notice_removal(0)?)
}

/// The device is lost because its adapter is gone.
fn is_gone(rig: &Rig) -> Result<(), Failure> {
    ensure_eq!(rig.kmt.execution_state(rig.device)?, STOPPED, "state of a device whose adapter was pulled out");
    ensure!(rig.context(NODE_COMPUTE).is_err_and(|status| DEVICE_LOST.contains(&status)), "a context was created");
    ensure!(rig.create_fence(0).is_err_and(|status| DEVICE_LOST.contains(&status)), "a fence was created");
    Ok(())
}

/// Another adapter is plugged in, and works.
fn another_works(case: &mut Case<'_>) -> Result<(), Failure> {
    case.system.start()?;
    let rig = case.rig()?;
    let (mut queue, fence) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?);
    rig.execute(&mut queue, &[fence.signal(1)])?;
    granted(rig.wait(&[fence.handle], &[1], false), "a wait on the other adapter")
}

fn watch(rig: &Rig, fence: &RawFence, value: u64) -> Result<Event, Failure> {
    let event = Event::new()?;
    granted(rig.wait_with_event(&[fence.handle], &[value], false, Some(event.number())), "wait with an event")?;
    Ok(event)
}

fn idle(case: &mut Case<'_>) -> Result<(), Failure> {
    for _ in 0..3 {
        let rig = case.rig()?;
        let (mut queue, fence) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?);
        rig.execute(&mut queue, &[fence.signal(1)])?;
        if case.system.reports_idle_engines() {
            // Else the driver may be just putting an engine to sleep, before it is told.
            (0..NODES).try_for_each(|node| wait_asleep(case.system, node).map(drop))?;
        }
        let gpu = case.system.gpu().clone();
        pull_out(case)?;
        is_gone(&rig)?;
        ensure_eq!(queue.doorbell.state(), ABORT, "status of a doorbell");
        refused(rig.connect(queue.doorbell), DEVICE_LOST, "connecting a doorbell")?;
        refused(rig.signal(&[fence.handle], &[2]), DEVICE_LOST, "a signal of the processor")?;
        refused(rig.wait(&[fence.handle], &[2], false), DEVICE_LOST, "a wait of the processor")?;
        ensure!(rig.kmt.open_adapter(case.system.luid()).is_err(), "the adapter can be opened");
        ensure_eq!(gpu.missed_accesses(), 0, "accesses to registers after the GPU was pulled out");
        ensure_eq!((gpu.config_read(0, 4), gpu.register_read(0, 8)), (u32::MAX, u64::MAX), "what reads find");
        granted(rig.destroy(), "destroying the device")?;
        another_works(case)?;
    }
    Ok(())
}

fn released(case: &mut Case<'_>) -> Result<(), Failure> {
    // Where it is elsewhere the case ends here, before anybody waits for its removal.
    case.system.gpu();
    let rig = case.rig()?;
    let other = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let fences = [rig.fence(0)?, rig.fence(0)?];
    let (mut first, mut second) = (rig.queue(NODE_COMPUTE)?, other.queue(NODE_COPY)?);
    rig.submit(&mut first, &[fences[1].wait(1), fences[0].signal(1)])?;
    other.submit(&mut second, &[fences[0].wait(1), fences[1].signal(1)])?;
    // Of a device that has no context.
    let plain = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let lonely = plain.fence(0)?;
    let events =
        [watch(&rig, &fences[0], 1)?, watch(&other, &second_progress(&second), 1)?, watch(&plain, &lonely, 1)?];
    let process = Arc::clone(&case.process);
    let waits = [(&rig, fences[0].handle), (&other, second.progress_fence), (&plain, lonely.handle)];
    std::thread::scope(|scope| {
        let waiting: Vec<_> = waits
            .into_iter()
            .map(|(rig, fence)| {
                let process = &process;
                scope.spawn(move || on_thread(process, || Ok(rig.wait(&[fence], &[1], false))))
            })
            .collect();
        pull_out(case)?;
        for waiter in waiting {
            let status = waiter.join().map_err(|_| Failure::new("a waiter panicked"))??;
            refused(status, &[STATUS_DEVICE_REMOVED], "a wait that the removal ended")?;
        }
        Ok::<(), Failure>(())
    })?;
    events.iter().try_for_each(Event::wait)?;
    for queue in [&first, &second] {
        ensure_eq!(queue.doorbell.state(), ABORT, "status of the doorbell of a queue that waits");
    }
    [&rig, &other, &plain].into_iter().try_for_each(is_gone)
}

/// The progress fence of a queue, as a fence to wait for.
fn second_progress(queue: &crate::rig::RawQueue) -> RawFence {
    RawFence { handle: queue.progress_fence, value: queue.progress, current: 0, monitored: 0 }
}

fn running_work(case: &mut Case<'_>) -> Result<(), Failure> {
    // Where it is elsewhere the case ends here, before anybody waits for its removal.
    case.system.gpu();
    const LEN: u64 = 1 << 20;
    let rig = case.rig()?;
    let memory = rig.memory(LEN, Placement::System)?;
    let view = rig.view(memory)?;
    let mut queues = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?];
    for queue in &mut queues {
        for pattern in 1..=60 {
            rig.submit(queue, &[fill(memory.address, LEN, pattern)])?;
        }
    }
    wait_until("the beginning of the work", || queues.iter().any(|queue| queue.progress.load() >= 1))?;
    case.system.pull_out(0)?;
    let (bytes, progress) = (view.read(0, LEN), queues.each_ref().map(|queue| queue.progress.load()));
    // Longer than a slice of work takes; a GPU that went on would be seen most of the time, and one that stopped is never.
    std::thread::sleep(std::time::Duration::from_millis(20));
    ensure!(bytes == view.read(0, LEN), "memory changed after the GPU was pulled out");
    ensure_eq!(queues.each_ref().map(|queue| queue.progress.load()), progress, "progress after it");
    case.system.notice_removal(0)?;
    is_gone(&rig)?;
    for queue in &queues {
        granted(rig.destroy_queue(queue), "destroying a queue")?;
    }
    another_works(case)
}

fn before_notice(case: &mut Case<'_>) -> Result<(), Failure> {
    // Where it is elsewhere the case ends here, before anybody waits for its removal.
    case.system.gpu();
    let rig = case.rig()?;
    let (mut queue, fence) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?);
    let mut doomed = rig.queue(NODE_COPY)?;
    rig.execute(&mut queue, &[fence.signal(1)])?;
    rig.execute(&mut doomed, &[])?;
    let event = watch(&rig, &fence, 2)?;
    case.system.pull_out(0)?;
    rig.submit_doomed(&mut queue, &[fence.signal(2)])?;
    // Each of these may succeed or fail; none may hang or stop the machine.
    let _ = rig.create_fence(0);
    let _ = rig.context(NODE_COMPUTE);
    let _ = rig.connect(queue.doorbell);
    let _ = rig.notify(queue.doorbell);
    let _ = rig.destroy_queue(&doomed);
    // Paging that timed out may have told the system meanwhile.
    let woken = event.is_set()?;
    let lost = rig.kmt.execution_state(rig.device)? == STOPPED;
    let value = fence.value.load();
    ensure!(lost || (woken, value) == (false, 1), "a GPU that was pulled out signalled: {woken}, {value}");
    let stopped = case.system.machine().bugcheck();
    ensure!(stopped.is_none(), "before anybody knew: {stopped:?}");
    case.system.notice_removal(0)?;
    if !woken {
        event.wait()?;
    }
    is_gone(&rig)
}

fn found_by_timeout(case: &mut Case<'_>) -> Result<(), Failure> {
    // Where it is elsewhere the case ends here, before anybody waits for its removal.
    case.system.gpu();
    let rig = case.rig()?;
    let mut doomed = rig.queue(NODE_COPY)?;
    rig.execute(&mut doomed, &[])?;
    case.system.pull_out(0)?;
    let process = Arc::clone(&case.process);
    // Gives memory back, for which the GPU is to write page tables; it may succeed or fail.
    let _ = until_ended(case.system, || on_thread(&process, || Ok(rig.destroy_queue(&doomed))))?;
    let stopped = case.system.machine().bugcheck();
    ensure!(stopped.is_none(), "before anybody knew: {stopped:?}");
    is_gone(&rig)?;
    case.system.notice_removal(0)?;
    is_gone(&rig)?;
    another_works(case)
}

fn paging(case: &mut Case<'_>) -> Result<(), Failure> {
    // Where it is elsewhere the case ends here, before anybody waits for its removal.
    case.system.gpu();
    for _ in 0..4 {
        let rig = case.rig()?;
        let (process, begun) = (Arc::clone(&case.process), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let moving = scope.spawn(|| {
                on_thread(&process, || {
                    loop {
                        let made = rig.memory(1 << 20, Placement::Vram);
                        begun.store(true, Ordering::Release);
                        // Ends with the refusal: whatever was under way is over.
                        let Ok(memory) = made else { return Ok(()) };
                        let _ = rig.evict(memory.handle);
                        let _ = rig.destroy_allocation(memory.handle);
                    }
                })
            });
            wait_until("the first allocation", || begun.load(Ordering::Acquire))?;
            pull_out(case)?;
            moving.join().map_err(|_| Failure::new("the thread that moves memory panicked"))?
        })?;
        is_gone(&rig)?;
        another_works(case)?;
    }
    Ok(())
}

fn asleep(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, fence) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?);
    rig.execute(&mut queue, &[])?;
    rig.submit(&mut queue, &[fence.wait(1)])?;
    let event = watch(&rig, &fence, 1)?;
    let slept = case.system.machine().power_down(case.system.luid());
    slept.map_err(|error| Failure::new(format!("the device was not powered down: {error}")))?;
    let gpu = case.system.gpu().clone();
    pull_out(case)?;
    event.wait()?;
    ensure_eq!(gpu.missed_accesses(), 0, "accesses to registers after the GPU was pulled out");
    is_gone(&rig)?;
    another_works(case)
}

fn late_close(case: &mut Case<'_>) -> Result<(), Failure> {
    // Where it is elsewhere the case ends here, before anybody waits for its removal.
    case.system.gpu();
    let rig = case.rig()?;
    let (mut queue, private) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?);
    let shared = rig.shared_fence(0)?;
    let handle = rig.share(&[shared.handle]);
    let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    let again = rig.open_fence(handle)?;
    let memory = rig.memory(64 << 10, Placement::Vram)?;
    rig.submit(&mut queue, &[private.wait(1), fill(memory.address, 4096, 1), shared.signal(1)])?;
    pull_out(case)?;
    for fence in [private, shared, again] {
        granted(rig.destroy_fence(fence.handle), "destroying a fence")?;
        refused(rig.destroy_fence(fence.handle), BAD_HANDLE, "destroying it again")?;
    }
    granted(handle.close(), "closing the kernel handle")?;
    refused(handle.close(), BAD_HANDLE, "closing it again")?;
    granted(rig.destroy_queue(&queue), "destroying doorbell, queue and context")?;
    refused(rig.destroy_hw_queue(queue.queue), BAD_HANDLE, "destroying the queue again")?;
    granted(rig.destroy_allocation(memory.handle), "destroying an allocation")?;
    granted(rig.destroy(), "destroying the device")?;
    refused(rig.destroy(), BAD_HANDLE, "destroying the device again")
}

/// Positions of the first and of the last call of `name` in the log.
fn span(log: &[String], name: &str) -> Result<(usize, usize), Failure> {
    let is = |other: &String| other == name;
    let found = log.iter().position(is).zip(log.iter().rposition(is));
    found.ok_or_else(|| Failure::new(format!("{name} was not called: {log:?}")))
}

fn order(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, fence) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?);
    rig.submit(&mut queue, &[fence.wait(1)])?;
    let witness = case.system.adapters().get(1).map(|adapter| adapter.luid());
    let witness = witness.ok_or_else(|| Failure::new("the case needs two adapters"))?;
    // Both adapters have one driver, and the other one has no work.
    case.system.machine().start_ddi_log(witness);
    let removed = pull_out(case);
    let log = case.system.machine().take_ddi_log(witness);
    removed?;
    let log: Vec<String> = log.iter().filter_map(|name| name.strip_prefix("DxgkDdi")).map(str::to_owned).collect();
    ensure_eq!(log.first().map(String::as_str), Some("NotifySurpriseRemoval"), "the first call");
    let created = log.iter().find(|name| name.starts_with("Create") || name.starts_with("Open"));
    ensure!(created.is_none(), "{created:?} was called after the removal");
    for pair in [
        ["SuspendContext", "DisconnectDoorbell"],
        ["DisconnectDoorbell", "DestroyDoorbell"],
        ["DestroyDoorbell", "DestroyHwQueue"],
        ["DestroyHwQueue", "DestroyHwContext"],
        ["CloseNativeFence", "DestroyNativeFence"],
        ["CloseAllocation", "DestroyAllocation"],
        ["DestroyHwContext", "DestroyDevice"],
        ["DestroyDevice", "DestroyProcess"],
        ["DestroyProcess", "StopDevice"],
        ["StopDevice", "RemoveDevice"],
    ] {
        let (first, second) = (span(&log, pair[0])?, span(&log, pair[1])?);
        ensure!(first.0 < second.0 && first.1 < second.1, "{} does not come before {}: {log:?}", pair[0], pair[1]);
    }
    for forbidden in ["SetPowerState", "SubmitCommandVirtual", "ResumeContext", "ConnectDoorbell"] {
        ensure!(!log.iter().any(|name| name == forbidden), "{forbidden} was called after the removal");
    }
    ensure_eq!(log.last().map(String::as_str), Some("RemoveDevice"), "the last call");
    Ok(())
}

fn other_adapter(case: &mut Case<'_>) -> Result<(), Failure> {
    // Where it is elsewhere the case ends here, before anybody waits for its removal.
    case.system.gpu();
    let (sides, handle) = sides(case, 0, 0)?;
    let [goes, stays] = &sides;
    let (here, there) = (watch(&stays.rig, &stays.fence, 5)?, watch(&goes.rig, &goes.fence, 5)?);
    let mut queue = stays.rig.queue(NODE_COMPUTE)?;
    let held = stays.rig.submit(&mut queue, &[stays.fence.wait(5)])?;
    let mut lost = goes.rig.queue(NODE_COMPUTE)?;
    goes.rig.submit(&mut lost, &[goes.fence.wait(5)])?;
    pull_out(case)?;
    there.wait()?;
    is_gone(&goes.rig)?;
    ensure!(!here.is_set()?, "a wait on the other adapter was ended");
    ensure_eq!((stays.fence.value.load(), queue.progress.load()), (0, held - 1), "value and progress there");
    let mut signaller = stays.rig.queue(NODE_COPY)?;
    stays.rig.execute(&mut signaller, &[stays.fence.signal(5)])?;
    here.wait()?;
    wait_until("the queue of the other adapter", || queue.progress.load() >= held)?;
    granted(goes.rig.destroy_fence(goes.fence.handle), "destroying the instance of the adapter that is gone")?;
    case.system.start()?;
    let rig = case.rig()?;
    let fence = rig.open_fence(handle)?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[fence.wait(5), fence.signal(6)])?;
    granted(stays.rig.wait(&[stays.fence.handle], &[6], false), "a wait for the adapter that was plugged in")
}

fn exits(case: &mut Case<'_>) -> Result<(), Failure> {
    // Where it is elsewhere the case ends here, before anybody waits for its removal.
    case.system.gpu();
    let luid = case.system.luid();
    let keeper = case.rig()?;
    let fence = keeper.shared_fence(0)?;
    let handle = keeper.share(&[fence.handle]);
    let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    let mut processes = Vec::new();
    for name in ["exits", "is terminated", "exits later"] {
        let process = dxgkrnl::Process::new(case.system.machine(), name);
        let theirs = case.process.duplicate_handle(handle.raw(), &process);
        let theirs = theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?;
        let theirs = KernelHandle(theirs.addr());
        on_thread(&process, || {
            let rig = Rig::open(luid)?;
            let fence = rig.open_fence(theirs)?;
            let (mut waiting, mut working) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
            let memory = rig.memory(1 << 20, Placement::Vram)?;
            rig.submit(&mut waiting, &[fence.wait(1)])?;
            (0..20).try_for_each(|_| rig.submit(&mut working, &[fill(memory.address, 1 << 20, 1)]).map(drop))?;
            watch(&rig, &fence, 1).map(drop)
        })?;
        processes.push(process);
    }
    std::thread::scope(|scope| {
        let exiting = scope.spawn(|| processes[0].exit());
        let terminated = scope.spawn(|| processes[1].terminate());
        let removed = pull_out(case);
        let ended = [exiting.join(), terminated.join()];
        ensure!(ended.iter().all(Result::is_ok), "taking a process down panicked");
        removed
    })?;
    processes[2].exit();
    is_gone(&keeper)?;
    another_works(case)
}

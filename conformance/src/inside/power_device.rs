//! D-states: a device that is powered down with work in its queues, and what wakes it.

use std::sync::atomic::{AtomicU64, Ordering};

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;

use super::hog::{Hog, counts, small_vram};
use crate::rig::{Rig, fill, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted};
use testbed::setup::System;

cases! { inside "Power", needs HardwareScheduling, behind "it changes power states of the device";
    "Power.DeviceSleepFollowsThePage" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "On the way from D0 to D3 every context is suspended, then every doorbell disconnected with the status retry, then the driver is told."
        holds [UserModeSubmission 50]
        => sleep_order;
    "Power.MemoryLeavesAfterTheContexts" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "On the way from D0 to D3 nothing is evicted before every context has left the run list and every doorbell is disconnected, so that the hardware refers to nothing that goes."
        holds [UserModeSubmission 53]
        => memory_leaves_last;
    "Power.ConnectingInD3WakesTheDevice" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "Connecting a doorbell in D3 brings the device back to D0, then connects the doorbell, then resumes the contexts, and the work runs."
        holds [UserModeSubmission 54]
        => connecting_wakes;
    "Power.ConnectingInD3WakesAProcessAtRest" needs UserModeSubmission on Boot::With(small_vram), "user-mode-work-submission":
        "Connecting a doorbell of a process whose page tables have left memory, in D3 or in D0, connects the doorbell first, and then resumes the contexts of the process and of the others."
        holds [UserModeSubmission 54]
        => connecting_wakes_from_rest;
    "Power.WorkQueuedBeforeD3CompletesAfterIt" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "Work that ran, waited or lay in its ring when the device went to D3 completes after it, once and in order."
        holds [UserModeSubmission 55]
        => work_before_d3;
    "Power.SuspendedContextStaysSuspended" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "A context that was suspended before D3 is not resumed by the return to D0."
        holds [UserModeSubmission 55]
        => suspended_stays;
    "Power.EverythingCanEndInD3" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "Devices are destroyed, processes exit or are terminated, and the adapter is stopped and removed while it is in D3."
        holds [UserModeSubmission 56]
        => ends_in_d3;
    "Power.NothingRunsInD3" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "In D3 nothing is executed, whatever is written to rings and doorbell pages."
        holds [UserModeSubmission 50]
        => nothing_runs;
    "Power.NoSubmissionIsLostToD3" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "Submissions of several processes race with a device that is put to D3 again and again: every one is executed, once."
        holds [UserModeSubmission 56]
        => no_submission_is_lost;
}

const RETRY: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;

pub(super) fn power_down(system: &System) -> Result<(), Failure> {
    let slept = system.machine().power_down(system.luid());
    slept.map_err(|error| Failure::new(format!("the device was not powered down: {error}")))
}

/// The DDIs about power, contexts and doorbells that `work` causes, in order; without disconnections where engines that are idle cause them too.
fn ddis(system: &System, work: impl FnOnce() -> Result<(), Failure>) -> Result<Vec<String>, Failure> {
    const WANTED: [&str; 5] =
        ["SuspendContext", "ResumeContext", "ConnectDoorbell", "DisconnectDoorbell", "SetPowerState"];
    system.machine().start_ddi_log(system.luid());
    let outcome = work();
    let log = system.machine().take_ddi_log(system.luid());
    outcome?;
    // The only cause of a disconnection that is not `work`.
    let idle = system.reports_idle_engines();
    let wanted = |name: &&str| WANTED.contains(name) && !(idle && *name == "DisconnectDoorbell");
    Ok(log.iter().filter_map(|name| name.strip_prefix("DxgkDdi")).filter(wanted).map(str::to_owned).collect())
}

/// How often the driver is told of a state of the device: once for each GPU.
fn told_of_power(system: &System) -> Vec<&'static str> {
    vec!["SetPowerState"; system.engines() as usize]
}

fn sleep_order(case: &mut Case<'_>) -> Result<(), Failure> {
    case.needs_kept_doorbells(2)?;
    let rig = case.rig()?;
    let mut queues = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?];
    for queue in &mut queues {
        rig.execute(queue, &[])?;
    }
    let order = ddis(case.system, || power_down(case.system))?;
    let contexts = ["SuspendContext", "SuspendContext", "DisconnectDoorbell", "DisconnectDoorbell"];
    ensure_eq!(order, [&contexts[..], &told_of_power(case.system)].concat(), "DDIs from D0 to D3");
    ensure!(queues.iter().all(|queue| queue.doorbell.state() == RETRY), "a doorbell is not at retry");
    ensure!(case.system.machine().is_powered_down(case.system.luid()), "the device is not in D3");
    let order = ddis(case.system, || power_down(case.system))?;
    ensure_eq!(order, Vec::<String>::new(), "DDIs of a second way to D3");
    Ok(())
}

fn memory_leaves_last(case: &mut Case<'_>) -> Result<(), Failure> {
    case.needs_kept_doorbells(2)?;
    let rig = case.rig()?;
    let mut queues = Vec::new();
    for node in [NODE_COMPUTE, NODE_COPY] {
        let context = rig.context(node).map_err(|status| Failure::new(format!("a context: {status}")))?;
        queues.push(rig.queue_placed(context, 64, Placement::VramVisible)?);
    }
    for queue in &mut queues {
        rig.execute(queue, &[])?;
    }
    let (machine, luid) = (case.system.machine(), case.system.luid());
    machine.start_ddi_log(luid);
    let slept = power_down(case.system);
    let log = machine.take_ddi_log(luid);
    slept?;
    let first = log.iter().position(|name| name.starts_with("DxgkDdiBuildPagingBuffer"));
    let first = first.ok_or_else(|| Failure::new(format!("nothing was evicted: {log:?}")))?;
    for (name, count) in [("DxgkDdiSuspendContext", queues.len()), ("DxgkDdiDisconnectDoorbell", queues.len())] {
        let early = log.iter().take(first).filter(|other| *other == name).count();
        ensure_eq!(early, count, "calls of {name} before the first eviction");
    }
    for queue in &mut queues {
        rig.execute(queue, &[])?;
    }
    Ok(())
}

fn connecting_wakes(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, mut other) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    rig.execute(&mut queue, &[])?;
    rig.execute(&mut other, &[])?;
    for round in 2..=10 {
        power_down(case.system)?;
        let value = queue.append(&[])?;
        let order = ddis(case.system, || granted(rig.connect(queue.doorbell), "D3DKMTConnectDoorbell"))?;
        let contexts = ["ConnectDoorbell", "ResumeContext", "ResumeContext"];
        ensure_eq!(order, [&told_of_power(case.system), &contexts[..]].concat(), "DDIs from D3 to D0 in round {round}");
        wait_until("the work of D3", || queue.progress.load() == value)?;
        ensure_eq!(other.doorbell.state(), RETRY, "status of the doorbell that nobody connected");
        rig.execute(&mut other, &[])?;
        ensure_eq!((queue.progress.load(), other.progress.load()), (round, round), "progress");
    }
    Ok(())
}

fn connecting_wakes_from_rest(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, mut beside) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let other = dxgkrnl::Process::new(case.system.machine(), "other");
    let system = &*case.system;
    let mut theirs = on_thread(&other, || {
        let rig = Rig::open(system.luid())?;
        let queue = rig.queue(NODE_COMPUTE)?;
        Ok((rig, queue))
    })?;
    let mut hog = Hog::new(system)?;
    for sleeps in [true, false, true] {
        rig.execute(&mut queue, &[])?;
        rig.execute(&mut beside, &[])?;
        let before = counts(system);
        hog.take()?;
        hog.give_back()?;
        ensure!(counts(system).tables_evicted > before.tables_evicted, "no page table left");
        on_thread(&other, || theirs.0.execute(&mut theirs.1, &[]))?;
        let value = queue.append(&[])?;
        // Of the two idle contexts, and in D3 of the one that worked.
        let mut expected = vec!["ConnectDoorbell", "ResumeContext", "ResumeContext"];
        if sleeps {
            power_down(system)?;
            expected.insert(0, "SetPowerState");
            expected.push("ResumeContext");
        }
        let order = ddis(system, || granted(rig.connect(queue.doorbell), "D3DKMTConnectDoorbell"))?;
        ensure_eq!(order, expected, "DDIs of the connection, in D3: {sleeps}");
        wait_until("the work behind it", || queue.progress.load() == value)?;
    }
    other.exit();
    Ok(())
}

fn work_before_d3(case: &mut Case<'_>) -> Result<(), Failure> {
    const SIZE: u64 = 1 << 20;
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::VramVisible)?;
    let view = rig.view(memory)?;
    let (gate, order) = (rig.fence(0)?, rig.fence(0)?);
    let (mut waits, mut runs, mut lies) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?, rig.queue(NODE_COPY)?);
    for round in 1..=5_u32 {
        let target = u64::from(round);
        // Waits in the middle of its commands, behind a write that must not be made twice after the gate.
        rig.submit(&mut waits, &[gate.wait(target), order.signal(target)])?;
        for _ in 0..8 {
            rig.submit(&mut runs, &[fill(memory.address, SIZE, round)])?;
        }
        let lying = lies.append(&[])?;
        power_down(case.system)?;
        // Wakes the device; what was queued goes on by itself, what was never rung is found by its connection.
        granted(rig.signal(&[gate.handle], &[target]), "signal")?;
        rig.ring(&lies)?;
        wait_until("all work", || {
            waits.progress.load() == target && runs.progress.load() == 8 * target && lies.progress.load() == lying
        })?;
        ensure_eq!(order.value.load(), target, "the fence behind the wait");
        let right = view.read(0, SIZE).chunks(4).all(|word| word == round.to_le_bytes());
        ensure!(right, "round {round}: wrong bytes after D3");
    }
    Ok(())
}

fn suspended_stays(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut held, mut free) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?);
    rig.execute(&mut held, &[])?;
    let status = |status| Failure::new(format!("suspension: {status}"));
    case.process.suspend_hw_context(held.context).map_err(status)?;
    wait_until("the suspension", || {
        case.process.suspensions(held.context).is_ok_and(|state| state.asked == state.answered)
    })?;
    power_down(case.system)?;
    let value = rig.submit(&mut held, &[])?;
    for _ in 0..20 {
        rig.execute(&mut free, &[])?;
    }
    ensure_eq!(held.progress.load(), value - 1, "progress of the suspended context");
    case.process.resume_hw_context(held.context).map_err(status)?;
    wait_until("the work after the resumption", || held.progress.load() == value)
}

fn ends_in_d3(case: &mut Case<'_>) -> Result<(), Failure> {
    let busy = |rig: &Rig| -> Result<(), Failure> {
        let gate = rig.fence(0)?;
        rig.submit(&mut rig.queue(NODE_COMPUTE)?, &[gate.wait(1)])?;
        rig.queue(NODE_COPY)?.append(&[]).map(drop)
    };
    for round in 0..4 {
        let process = dxgkrnl::Process::new(case.system.machine(), "ending");
        let system = &*case.system;
        on_thread(&process, || {
            let rig = Rig::open(system.luid())?;
            let mut queue = rig.queue(NODE_COPY)?;
            rig.execute(&mut queue, &[])?;
            if round == 0 {
                power_down(system)?;
                return granted(rig.destroy(), "destroying the device in D3");
            }
            busy(&rig)
        })?;
        power_down(system)?;
        match round {
            1 => process.terminate(),
            2 => process.exit(),
            _ => {}
        }
        if round == 3 {
            case.system.stop()?;
            case.system.remove()?;
            case.system.start()?;
        }
        process.exit();
        let rig = case.rig()?;
        rig.execute(&mut rig.queue(NODE_COMPUTE)?, &[])?;
    }
    Ok(())
}

fn nothing_runs(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    rig.execute(&mut queue, &[])?;
    power_down(case.system)?;
    let gpu = case.system.gpu();
    wait_until("the GPU's thread to be idle", || gpu.is_idle())?;
    let steps = gpu.steps();
    for _ in 0..10 {
        let value = queue.append(&[])?;
        queue.doorbell.page.store(value);
    }
    ensure!(gpu.is_idle() && gpu.steps() - steps <= 1, "something moved in D3");
    ensure_eq!(queue.progress.load(), 1, "progress in D3");
    rig.ring(&queue)?;
    wait_until("the work of D3", || queue.progress.load() == 11)
}

/// Workers of [`race_with_sleep`], each in a process of its own.
const WORKERS: u64 = 3;

/// Submits from several processes while `sleep` has the device sleep again and again: each of `each` submissions of
/// every worker is executed, once. `pause` is what a worker does behind a submission, told its worker, the submission, whether that is done,
/// and how often the device had slept before it.
pub(super) fn race_with_sleep(
    case: &Case<'_>,
    each: u64,
    pause: impl Fn(u64, u64, &dyn Fn() -> bool, u64) -> Result<(), Failure> + Sync,
    mut sleep: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let (left, before) = (AtomicU64::new(WORKERS), case.system.gpu().signals_ever());
    let work = |worker: u64| {
        let process = dxgkrnl::Process::new(machine, "worker");
        let outcome = on_thread(&process, || {
            let rig = Rig::open(luid)?;
            let node = if worker.is_multiple_of(2) { NODE_COMPUTE } else { NODE_COPY };
            let (mut queue, fence) = (rig.queue(node)?, rig.fence(0)?);
            for value in 1..=each {
                // Whatever sleeps now is woken by the submission.
                let slept = machine.power_transitions(luid).0;
                rig.submit(&mut queue, &[fence.signal(value)])?;
                pause(worker, value, &|| fence.value.load() >= value, slept)?;
            }
            wait_until("all work", || queue.progress.load() == each)?;
            ensure_eq!(fence.value.load(), each, "value at the end");
            Ok(())
        });
        left.fetch_sub(1, Ordering::SeqCst);
        process.exit();
        outcome
    };
    std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
        while left.load(Ordering::SeqCst) != 0 {
            sleep()?;
        }
        let outcomes =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err(Failure::new("panicked"))));
        outcomes.fold(Ok(()), Result::and)
    })?;
    ensure_eq!(case.system.gpu().signals_ever() - before, WORKERS * each, "signals executed");
    Ok(())
}

fn no_submission_is_lost(case: &mut Case<'_>) -> Result<(), Failure> {
    let third = |_: u64, value: u64, done: &dyn Fn() -> bool, _: u64| match value % 3 {
        0 => wait_until("work", done),
        _ => Ok(()),
    };
    let mut sleeps = 0;
    race_with_sleep(case, 150, third, || {
        power_down(case.system)?;
        sleeps += 1;
        // Whoever only waits for its work wakes nobody.
        std::thread::sleep(std::time::Duration::from_micros(200));
        granted(case.rig()?.destroy(), "destroying a device")
    })?;
    ensure!(sleeps > 0, "the device never slept");
    Ok(())
}

//! F-states: engines that sleep when idle and wake for work, without losing any.

use std::sync::atomic::{AtomicU64, Ordering};

use campanile_device::{FaultRule, HangAt};
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY, NODE_PAGING, NODES};
use dxgkrnl::{Clock, PowerComponentState};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;

use crate::rig::{Rig, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::{System, SystemOptions};
use testbed::user::{Device, Error, Node, Queue, QueueOptions, SubmissionModel};

cases! { inside "Power", behind "it watches power states from inside, or lets the GPU hang";
    "Power.EveryEngineIsAComponent" on Boot::Fresh, "gpu-power-management-of-idle-and-active-power":
        "The driver declares one power component for each node of each engine, and behind those of an engine one for the transition of the device to D3; all of them are in F0 after start."
        => every_engine_is_a_component;
    "Power.IdleEngineLosesItsDoorbellsAndEntersF1" needs UserModeSubmission on Boot::With(eager), "user-mode-work-submission":
        "When the driver says that an engine is in transition to F1, all doorbells of its queues are disconnected with the status retry, and its component enters F1."
        holds [UserModeSubmission 45]
        => idle_engine_enters_f1;
    "Power.EngineInF1HasNoClock" needs UserModeSubmission on Boot::With(eager), "dxgk_node_perfdata":
        "The clock that the driver reports for an engine is that of the GPU while the engine has work, and zero in F1, from which the question does not bring it back. That an engine in F1 has no clock is this GPU's rule."
        => engine_in_f1_has_no_clock;
    "Power.SubmissionInF1BringsF0Back" needs UserModeSubmission on Boot::With(eager), "user-mode-work-submission":
        "User mode that submits in F1 finds its doorbell disconnected; connecting it brings the engine back to F0, and the work runs."
        holds [UserModeSubmission 46]
        => submission_in_f1;
    "Power.OtherEnginesStayAwake" needs UserModeSubmission on Boot::With(eager), "user-mode-work-submission":
        "An engine with work stays in F0 with its doorbells connected while another one enters F1."
        holds [UserModeSubmission 45]
        => other_engines_stay;
    "Power.WaitingEngineStaysInF0" needs UserModeSubmission on Boot::With(eager), "user-mode-work-submission":
        "An engine whose queue waits for a fence is not idle: it stays in F0, and goes on when the fence is signalled."
        holds [UserModeSubmission 45]
        => waiting_engine_stays;
    "Power.KernelSubmissionWakesItsEngine" needs HardwareScheduling on Boot::With(eager), "user-mode-work-submission":
        "Work submitted through the kernel brings its engine from F1 to F0 by itself."
        holds [UserModeSubmission 46]
        => kernel_submission_wakes;
    "Power.PagingWakesItsEngine" on Boot::With(eager), "gpu-power-management-of-idle-and-active-power":
        "Paging work brings the paging engine from F1 to F0 by itself."
        => paging_wakes;
    "Power.SleepingAdapterIsLeftAlone" needs UserModeSubmission on Boot::With(eager), "user-mode-work-submission":
        "While all engines are in F1, nobody polls anything, not even for a store to a doorbell page."
        holds [UserModeSubmission 45]
        => sleeping_adapter;
    "Power.NoSubmissionIsLost" needs UserModeSubmission on Boot::With(eager), "user-mode-work-submission":
        "Submissions of several processes race with engines that go to F1 whenever they are idle for a moment: every one is executed, once."
        holds [UserModeSubmission 46]
        => no_submission_is_lost;
    "Power.HungEngineCostsItsUsersTheirDevices" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "When the driver says that an engine hangs, devices with work on it are lost as hung and their doorbells say abort; others go on."
        holds [UserModeSubmission 49, Tdr 15]
        => hung_engine;
}

const CONNECTED: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED;
const RETRY: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;
const ABORT: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT;

/// Engines that are idle as soon as they have nothing to do.
fn eager() -> SystemOptions {
    // Nobody looks for hangs, which would wake engines too.
    let mut options = SystemOptions { clock: Clock::manual(), ..SystemOptions::default() };
    options.variant.idle_ticks = 1;
    options
}

fn component(system: &System, node: u32) -> Result<PowerComponentState, Failure> {
    let components = system.machine().power_components(system.luid());
    let found = components.into_iter().find(|component| component.node == Some(node));
    found.ok_or_else(|| Failure::new(format!("node {node} is no power component")))
}

pub(super) fn wait_asleep(system: &System, node: u32) -> Result<PowerComponentState, Failure> {
    let rested = wait_until("the engine's F1", || component(system, node).is_ok_and(|component| component.fstate == 1));
    rested.map_err(|failure| {
        let tree = system.machine().inspect(system.luid()).map_or_else(String::new, |tree| tree.to_string());
        Failure::new(format!("{failure}; {:?}\n{tree}", component(system, node).ok()))
    })?;
    component(system, node)
}

fn every_engine_is_a_component(case: &mut Case<'_>) -> Result<(), Failure> {
    let components = case.system.machine().power_components(case.system.luid());
    let found: Vec<_> = components.iter().map(|component| (component.node, component.is_d3_transition)).collect();
    let of_engine = |engine| (0..NODES).map(move |node| (Some(engine * NODES + node), false)).chain([(None, true)]);
    let expected: Vec<_> = (0..case.system.engines()).flat_map(of_engine).collect();
    ensure_eq!(found, expected, "nodes of the components, and transitions to D3");
    // An engine that says at once that it is idle has been in F0 before.
    let idle = case.system.reports_idle_engines();
    let began_in_f0 = |fstate, left_f0| (fstate, left_f0) == (0, 0) || idle && left_f0 > 0;
    ensure!(components.iter().all(|component| began_in_f0(component.fstate, component.left_f0)), "{components:?}");
    Ok(())
}

fn idle_engine_enters_f1(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queues = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?];
    for queue in &mut queues {
        rig.execute(queue, &[])?;
    }
    let asleep = wait_asleep(case.system, NODE_COMPUTE)?;
    ensure!(asleep.left_f0 > asleep.wakes, "{asleep:?}");
    for queue in &queues {
        ensure_eq!(queue.doorbell.state(), RETRY, "status of a doorbell of an engine in F1");
    }
    ensure!(case.system.gpu_nodes_asleep() & 1 << NODE_COMPUTE != 0, "the hardware is not in F1");
    Ok(())
}

fn engine_in_f1_has_no_clock(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let gate = rig.fence(0)?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let clock = || -> Result<(u64, u64), Failure> {
        let mut told = D3DKMT_NODE_PERFDATA { NodeOrdinal: NODE_COMPUTE, ..D3DKMT_NODE_PERFDATA::zeroed() };
        let kind = KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_NODEPERFDATA;
        granted(rig.kmt.ask(rig.adapter, kind, &mut told), "figures of a node")?;
        Ok((told.Frequency, told.MaxFrequency))
    };
    let value = rig.submit(&mut queue, &[gate.wait(1)])?;
    let (busy, highest) = clock()?;
    ensure!(busy == highest && busy != 0, "an engine with work runs at {busy} Hz of {highest}");
    granted(rig.signal(&[gate.handle], &[1]), "signal")?;
    wait_until("the work", || queue.progress.load() == value)?;
    let asleep = wait_asleep(case.system, NODE_COMPUTE)?;
    ensure_eq!(clock()?, (0, highest), "clock of an engine in F1, and its highest");
    ensure_eq!(component(case.system, NODE_COMPUTE)?.wakes, asleep.wakes, "times that the engine was brought back");
    Ok(())
}

fn submission_in_f1(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    rig.execute(&mut queue, &[])?;
    for round in 2..=20 {
        let asleep = wait_asleep(case.system, NODE_COPY)?;
        let value = queue.append(&[])?;
        queue.doorbell.page.store(value);
        ensure_eq!(queue.doorbell.state(), RETRY, "status after the store in F1");
        ensure_eq!(queue.progress.load(), round - 1, "progress before the connection");
        granted(rig.connect(queue.doorbell), "D3DKMTConnectDoorbell")?;
        wait_until("the work of F1", || queue.progress.load() == value)?;
        ensure!(component(case.system, NODE_COPY)?.wakes > asleep.wakes, "the engine was not brought back to F0");
    }
    Ok(())
}

fn other_engines_stay(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let gate = rig.fence(0)?;
    let (mut busy, mut idle) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let value = rig.submit(&mut busy, &[gate.wait(1)])?;
    // From here on the engine has work until the gate opens. What it said before is heard before what the other says now; if that cost it
    // the doorbell, connecting wakes it, and it may say once more that it is idle before it has found the work.
    settled(|| {
        rig.execute(&mut idle, &[])?;
        wait_asleep(case.system, NODE_COPY)?;
        let stayed = busy.doorbell.state() == CONNECTED;
        granted(rig.connect(busy.doorbell), "D3DKMTConnectDoorbell")?;
        Ok(stayed)
    })?;
    let before = component(case.system, NODE_COMPUTE)?;
    for _ in 0..20 {
        rig.execute(&mut idle, &[])?;
        wait_asleep(case.system, NODE_COPY)?;
        ensure_eq!(busy.doorbell.state(), CONNECTED, "status of a doorbell of the engine with work");
    }
    ensure_eq!(component(case.system, NODE_COMPUTE)?, before, "state of the engine with work");
    granted(rig.signal(&[gate.handle], &[1]), "signal")?;
    wait_until("the waiting work", || busy.progress.load() == value)
}

/// Repeats `step` until it answers true: an engine says that it is idle at most twice before it finds its work.
fn settled(mut step: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    for _ in 0..3 {
        if step()? {
            return Ok(());
        }
    }
    Err(Failure::new("an engine with work lost its doorbell three times"))
}

fn waiting_engine_stays(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let gate = rig.fence(0)?;
    let (mut queue, mut other) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    for round in 1..=10 {
        let value = rig.submit(&mut queue, &[gate.wait(round)])?;
        // The other engine falling asleep shows that there was time for this one to do so.
        rig.execute(&mut other, &[])?;
        wait_asleep(case.system, NODE_COPY)?;
        ensure_eq!(component(case.system, NODE_COMPUTE)?.fstate, 0, "F-state of an engine that waits");
        ensure_eq!(queue.progress.load(), value - 1, "progress before the signal");
        granted(rig.signal(&[gate.handle], &[round]), "signal")?;
        wait_until("the waiting work", || queue.progress.load() == value)?;
    }
    Ok(())
}

fn kernel_submission_wakes(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = Device::new(&case.adapter()?)?;
    let options = QueueOptions { model: Some(SubmissionModel::Kernel), ..QueueOptions::default() };
    let mut queue = Queue::new(&device, Node::Copy, options)?;
    for _ in 0..20 {
        let before = wait_asleep(case.system, NODE_COPY)?;
        let value = queue.submit(|commands| commands.nop())?;
        queue.wait_progress(value)?;
        ensure!(component(case.system, NODE_COPY)?.wakes > before.wakes, "the submission ran without F0");
    }
    Ok(())
}

fn paging_wakes(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for _ in 0..10 {
        let before = wait_asleep(case.system, NODE_PAGING)?;
        rig.memory(64 << 10, Placement::Vram)?;
        ensure!(component(case.system, NODE_PAGING)?.wakes > before.wakes, "memory was cleared without F0");
    }
    Ok(())
}

fn sleeping_adapter(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[])?;
    for node in 0..NODES {
        wait_asleep(case.system, node)?;
    }
    let gpu = case.system.gpu();
    wait_until("the GPU's thread to be idle", || gpu.is_idle())?;
    let (steps, reads) = (gpu.steps(), gpu.activity().doorbell_reads);
    for value in 0..100_000 {
        queue.doorbell.page.store(value);
    }
    ensure!(gpu.is_idle(), "the GPU's thread woke up for a dummy page");
    // A step that was under way may be counted late.
    ensure!(gpu.steps() - steps <= 1, "{} steps were made while everything sleeps", gpu.steps() - steps);
    ensure_eq!(gpu.activity().doorbell_reads, reads, "doorbell words read");
    Ok(())
}

/// Submissions of one worker in [`no_submission_is_lost`].
const SUBMISSIONS: u64 = 400;

/// A pause after a submission: until it is done, of up to `longest` rounds, for others, or none.
pub(super) fn pause(random: &mut fastrand::Rng, longest: u32, done: impl Fn() -> bool) -> Result<(), Failure> {
    match random.u8(..4) {
        0 => wait_until("work", done)?,
        1 => (0..random.u32(..longest)).for_each(|_| std::hint::spin_loop()),
        2 => std::thread::yield_now(),
        _ => {}
    }
    Ok(())
}

/// Submits work with pauses of all lengths, by fits and starts, and says how much was executed.
fn worker(luid: wddm_ddi::types::LUID, seed: u64, executed: &AtomicU64) -> Result<(), Failure> {
    let rig = Rig::open(luid)?;
    let node = if seed.is_multiple_of(2) { NODE_COMPUTE } else { NODE_COPY };
    let mut queue = rig.queue(node)?;
    let fence = rig.fence(0)?;
    let mut random = fastrand::Rng::with_seed(crate::seed::of(seed));
    for value in 1..=SUBMISSIONS {
        rig.submit(&mut queue, &[fence.signal(value)])?;
        pause(&mut random, 0x1000, || fence.value.load() >= value)?;
    }
    wait_until("all work", || queue.progress.load() >= SUBMISSIONS)?;
    ensure_eq!((fence.value.load(), queue.progress.load()), (SUBMISSIONS, SUBMISSIONS), "values at the end");
    executed.fetch_add(SUBMISSIONS, Ordering::Relaxed);
    Ok(())
}

fn no_submission_is_lost(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORKERS: u64 = 4;
    let (executed, before) = (AtomicU64::new(0), case.system.counters());
    let machine = case.system.machine();
    let luid = case.system.luid();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|seed| {
                let executed = &executed;
                scope.spawn(move || {
                    let process = dxgkrnl::Process::new(machine, "worker");
                    let outcome = {
                        let _attached = process.attach();
                        worker(luid, seed, executed)
                    };
                    process.exit();
                    outcome
                })
            })
            .collect();
        let outcomes =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err(Failure::new("panicked"))));
        outcomes.fold(Ok(()), Result::and)
    })?;
    let counted = case.system.counters().since(&before);
    ensure_eq!(executed.load(Ordering::Relaxed), WORKERS * SUBMISSIONS, "submissions executed");
    ensure_eq!(counted.signals, WORKERS * SUBMISSIONS, "signals executed");
    let left_f0 = component(case.system, NODE_COMPUTE)?.left_f0 + component(case.system, NODE_COPY)?.left_f0;
    ensure!(left_f0 >= WORKERS, "engines left F0 only {left_f0} times: the race did not happen");
    Ok(())
}

fn hung_engine(case: &mut Case<'_>) -> Result<(), Failure> {
    const ACTIVE: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    /// The value whose signal hangs.
    const FATAL: u64 = 77;
    let (guilty, idle) = (case.rig()?, case.rig()?);
    let fence = guilty.fence(0)?;
    let (mut stuck, mut other) = (guilty.queue(NODE_COMPUTE)?, guilty.queue(NODE_COPY)?);
    let (mut beside, mut elsewhere) = (idle.queue(NODE_COMPUTE)?, idle.queue(NODE_COPY)?);
    guilty.execute(&mut other, &[])?;
    idle.execute(&mut beside, &[])?;
    let rule = FaultRule::Hang { node: NODE_COMPUTE, queue: None, at: HangAt::Signal(FATAL), reported: true };
    case.system.gpu().faults().inject(rule);
    guilty.submit_doomed(&mut stuck, &[fence.signal(FATAL)])?;
    wait_until("the device's error", || guilty.kmt.execution_state(guilty.device).is_ok_and(|state| state != ACTIVE))?;
    let state = guilty.kmt.execution_state(guilty.device)?;
    ensure_eq!(state, D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_HUNG, "state of the device with work");
    wait_until("abort", || stuck.doorbell.state() == ABORT && other.doorbell.state() == ABORT)?;
    ensure_eq!(idle.kmt.execution_state(idle.device)?, ACTIVE, "state of a device without work there");
    for _ in 0..20 {
        idle.execute(&mut beside, &[])?;
        idle.execute(&mut elsewhere, &[])?;
    }
    // Recovery takes a new device.
    let device = Device::new(&case.adapter()?)?;
    let mut queue = Queue::new(&device, Node::Compute, QueueOptions::default())?;
    let value = queue.submit(|commands| commands.nop())?;
    match queue.wait_progress(value) {
        Ok(()) => Ok(()),
        Err(error @ Error::DeviceLost) => Err(Failure::new(format!("the new device is lost too: {error}"))),
        Err(error) => Err(error.into()),
    }
}

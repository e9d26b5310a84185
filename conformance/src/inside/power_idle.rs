//! Idle times: engines and devices that rest when nothing was done for long, and which thunks wake a device.

use std::time::Duration;

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::{Clock, PowerSettings};
use wddm_ddi::Zeroed;
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;
use wddm_ddi::kmt::*;

use super::power::pause;
use super::power_device::{power_down, race_with_sleep};
use crate::rig::{Rig, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted};
use testbed::setup::{System, SystemOptions};

cases! { inside "Power", needs UserModeSubmission, behind "it watches power states from inside";
    "Power.IdleDeviceEntersD3" on Boot::With(idle_device), "user-mode-work-submission":
        "A device without work goes from D0 to D3 when its idle time is over, not before; its power component of the type D3 transition enters F1 with it, the doorbells of its queues say retry, and the next submission brings it back."
        holds [UserModeSubmission 51]
        => idle_device_sleeps;
    "Power.UseBeginsTheIdleTimeAnew" on Boot::With(idle_device), "user-mode-work-submission":
        "A submission through a connected doorbell, a thunk that needs the device, and the end of a wait of the processor begin the idle time anew."
        holds [UserModeSubmission 51]
        => use_begins_anew;
    "Power.BusyDeviceStaysInD0" on Boot::With(idle_device), "user-mode-work-submission":
        "However long it takes, a device stays in D0 while a queue has work, runs, waits for a fence, is suspended with work or was never rung for it, and while the system holds work back."
        holds [UserModeSubmission 51]
        => busy_device_stays;
    "Power.SubmissionsRaceWithTheIdleTime" on Boot::With(idle_device), "user-mode-work-submission":
        "Submissions of several processes race with the end of the idle time: every one is executed, once, though nobody but the submissions themselves wakes the device."
        holds [UserModeSubmission 51]
        => submissions_race;
    "Power.EngineNeedsNoReportToRest" on Boot::With(idle_engines), "user-mode-work-submission":
        "An engine whose driver reports nothing is found idle by progress when TdrDelay is over: its doorbells are disconnected and it enters F1; one with work stays in F0, connected."
        holds [UserModeSubmission 48]
        => engines_rest;
    "Power.OnlyWhatNeedsTheDeviceWakesIt" on Boot::With(asleep), "user-mode-work-submission":
        "In D3, questions, objects of software, and what the processor does in system memory leave the device where it is; submission, objects of the GPU and memory that moves bring it to D0, once each."
        holds [UserModeSubmission 52]
        => what_wakes;
    "Power.SignalInD3WakesForWorkAlone" on Boot::With(asleep), "user-mode-work-submission":
        "A signal of the processor in D3 brings the device back if it has unfinished work, which runs; otherwise the device sleeps on, and work that waits for the value later finds it."
        holds [UserModeSubmission 52]
        => signal_in_d3;
}

const RETRY: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;
const CONNECTED: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED;
const IDLE: Duration = Duration::from_secs(10);

fn idle_device() -> SystemOptions {
    let power = PowerSettings { device_idle_time: Some(IDLE), ..PowerSettings::default() };
    SystemOptions { clock: Clock::manual(), power, ..SystemOptions::default() }
}

fn idle_engines() -> SystemOptions {
    let power = PowerSettings { device_idle_time: None, ..PowerSettings::in_use() };
    SystemOptions { clock: Clock::manual(), power, ..SystemOptions::default() }
}

/// A machine on which nothing but the case changes a power state.
fn asleep() -> SystemOptions {
    SystemOptions { clock: Clock::manual(), ..SystemOptions::default() }
}

fn sleeps(system: &System) -> bool {
    system.machine().is_powered_down(system.luid())
}

/// Lets the idle time begin, whatever was done a moment ago.
fn look(system: &System) {
    system.machine().advance(Duration::ZERO);
}

/// Waits for D3 at the time that it is; a thread that was in the kernel a moment ago may delay it.
fn wait_for_d3(system: &System) -> Result<(), Failure> {
    wait_until("D3", || {
        look(system);
        sleeps(system)
    })
}

fn idle_device_sleeps(case: &mut Case<'_>) -> Result<(), Failure> {
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let rig = case.rig()?;
    let mut queues = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?];
    for round in 1..=5 {
        for queue in &mut queues {
            rig.execute(queue, &[])?;
            ensure_eq!(queue.progress.load(), round, "progress");
        }
        look(case.system);
        machine.advance(IDLE - Duration::from_millis(1));
        ensure!(!sleeps(case.system), "the device slept before its idle time was over");
        ensure!(queues.iter().all(|queue| queue.doorbell.state() == CONNECTED), "a doorbell is not connected");
        machine.advance(Duration::from_millis(1));
        wait_for_d3(case.system)?;
        ensure!(queues.iter().all(|queue| queue.doorbell.state() == RETRY), "a doorbell is not at retry");
        ensure_eq!(machine.power_transitions(luid), (round, round - 1), "ways to D3 and back");
        let components = machine.power_components(luid);
        let transition = components.iter().find(|component| component.is_d3_transition);
        let seen = transition.map(|component| (component.fstate, component.left_f0, component.wakes));
        ensure_eq!(seen, Some((1, round, round - 1)), "F-state of the D3 transition, ways to F1 and back");
    }
    Ok(())
}

fn use_begins_anew(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, fence) = (rig.queue(NODE_COMPUTE)?, rig.fence(1)?);
    rig.execute(&mut queue, &[])?;
    let memory = rig.create(4096, Placement::Vram).map_err(|status| Failure::new(format!("memory: {status}")))?;
    for round in 0..9 {
        match round % 3 {
            0 => {
                let connections = rig.submit_counted(&mut queue, &[])?;
                ensure_eq!(connections, 0, "connections of the submission");
                let value = queue.doorbell.last_queued.load();
                wait_until("the work", || queue.progress.load() == value)?;
            }
            1 => rig.make_resident(memory)?,
            _ => granted(rig.wait(&[fence.handle], &[1], false), "a wait")?,
        }
        look(case.system);
        case.system.machine().advance(IDLE * 3 / 4);
        ensure!(!sleeps(case.system), "the use in round {round} did not begin the idle time anew");
    }
    case.system.machine().advance(IDLE);
    wait_for_d3(case.system)
}

fn busy_device_stays(case: &mut Case<'_>) -> Result<(), Failure> {
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let rig = case.rig()?;
    let gate = rig.fence(0)?;
    let long = |what: &str| {
        (0..8).for_each(|_| machine.advance(IDLE));
        ensure_eq!(machine.power_transitions(luid).0, 0, "ways to D3 with {what}");
        Ok(())
    };
    let mut waits = rig.queue(NODE_COMPUTE)?;
    let value = rig.submit(&mut waits, &[gate.wait(1)])?;
    std::thread::scope(|scope| {
        let waiter =
            scope.spawn(|| on_thread(&case.process, || Ok(rig.wait(&[waits.progress_fence], &[value], false))));
        let stayed = long("a wait of the processor for a queue that waits");
        granted(rig.signal(&[gate.handle], &[1]), "signal")?;
        let woken = waiter.join().map_err(|_| Failure::new("the waiter panicked"))??;
        stayed.and(granted(woken, "the wait for the queue"))
    })?;
    let mut silent = rig.queue(NODE_COPY)?;
    rig.execute(&mut silent, &[])?;
    let status = |status| Failure::new(format!("suspension: {status}"));
    case.process.suspend_hw_context(silent.context).map_err(status)?;
    // Work that is submitted before is still executed.
    wait_until("the suspension", || {
        case.process.suspensions(silent.context).is_ok_and(|state| state.asked == state.answered)
    })?;
    let value = rig.submit(&mut silent, &[])?;
    long("work of a suspended context")?;
    case.process.resume_hw_context(silent.context).map_err(status)?;
    wait_until("the work of the suspended context", || silent.progress.load() == value)?;
    let mut held = rig.kernel_queue(NODE_COMPUTE)?;
    granted(rig.queue_wait(held.queue, &[(gate.handle, 2)]), "a wait of a queue")?;
    let value = rig.kernel_submit(&mut held, &[])?;
    long("work of a queue that waits in the system")?;
    granted(rig.signal(&[gate.handle], &[2]), "signal")?;
    wait_until("the blocked work", || held.progress.load() == value)?;
    let mut packets = rig.packet_queue(NODE_COPY)?;
    granted(rig.context_wait(packets.context, &[(gate.handle, 3)]), "a wait of a context")?;
    let value = rig.packet_submit(&mut packets, &[])?;
    long("a packet that waits in the system")?;
    granted(rig.signal(&[gate.handle], &[3]), "signal")?;
    rig.packet_wait(&packets, value)?;
    // Announced and written, and nobody rings: the system does not know that the engine was not told. A while later it looks for a hang,
    // and the engine at the ring.
    let value = silent.append(&[])?;
    machine.advance(IDLE);
    ensure_eq!(machine.power_transitions(luid).0, 0, "ways to D3 with work that was announced");
    rig.ring(&silent)?;
    wait_until("the announced work", || silent.progress.load() == value)?;
    look(case.system);
    machine.advance(IDLE);
    wait_for_d3(case.system)
}

fn submissions_race(case: &mut Case<'_>) -> Result<(), Failure> {
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let by_fits = |worker: u64, value: u64, done: &dyn Fn() -> bool, slept: u64| {
        pause(&mut fastrand::Rng::with_seed(crate::seed::of(worker << 32 | value)), 0x1_0000, done)?;
        // Everybody comes here, so that the device falls asleep at least now.
        match value % 40 {
            0 => wait_until("D3", || machine.power_transitions(luid).0 > slept),
            _ => Ok(()),
        }
    };
    race_with_sleep(case, 120, by_fits, || {
        machine.advance(IDLE);
        std::thread::yield_now();
        Ok(())
    })
}

fn engines_rest(case: &mut Case<'_>) -> Result<(), Failure> {
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let delay = PowerSettings::in_use().engine_idle_time.unwrap_or_default();
    let fstate = |node: u32| {
        let components = machine.power_components(luid);
        components.into_iter().find(|component| component.node == Some(node)).map(|component| component.fstate)
    };
    let rig = case.rig()?;
    let gate = rig.fence(0)?;
    let (mut busy, mut idle) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    for round in 1..=4 {
        let value = rig.submit(&mut busy, &[gate.wait(round)])?;
        rig.execute(&mut idle, &[])?;
        look(case.system);
        machine.advance(delay - Duration::from_millis(1));
        ensure_eq!(fstate(NODE_COPY), Some(0), "F-state before the time is over");
        machine.advance(Duration::from_millis(1));
        wait_until("F1", || {
            look(case.system);
            fstate(NODE_COPY) == Some(1)
        })?;
        ensure_eq!(idle.doorbell.state(), RETRY, "status of a doorbell of the engine in F1");
        ensure_eq!((fstate(NODE_COMPUTE), busy.doorbell.state()), (Some(0), CONNECTED), "the engine with work");
        granted(rig.signal(&[gate.handle], &[round]), "signal")?;
        wait_until("the waiting work", || busy.progress.load() == value)?;
    }
    ensure_eq!(machine.power_transitions(luid), (0, 0), "ways to D3 without an idle time of the device");
    Ok(())
}

/// A thunk in D3: its name, whether it wakes the device, and a call of it.
type Thunk<'a> = (&'a str, bool, Box<dyn FnMut() -> Result<(), Failure> + 'a>);

fn status(what: &'static str) -> impl Fn(wddm_ddi::status::NTSTATUS) -> Failure {
    move |status| Failure::new(format!("{what}: {status}"))
}

fn what_wakes(case: &mut Case<'_>) -> Result<(), Failure> {
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let rig = case.rig()?;
    let queue = std::cell::RefCell::new(rig.queue(NODE_COMPUTE)?);
    rig.execute(&mut queue.borrow_mut(), &[])?;
    let (fence, shared) = (rig.fence(0)?, rig.shared_fence(0)?.handle);
    let (system, local) = (rig.memory(4096, Placement::System)?, rig.memory(4096, Placement::VramVisible)?);
    let made = std::cell::Cell::new(0);
    for (name, wakes, mut call) in leaving(&rig, luid, system.handle, fence.handle, shared).into_iter().chain(waking(
        &rig,
        local.handle,
        &queue,
        &made,
    )) {
        power_down(case.system)?;
        let before = machine.power_transitions(luid).1;
        call().map_err(|failure| Failure::new(format!("{name} in D3: {failure}")))?;
        let woken = machine.power_transitions(luid).1 - before;
        ensure_eq!(woken, u64::from(wakes), "ways to D0 by {name}");
        ensure_eq!(sleeps(case.system), !wakes, "D3 after {name}");
    }
    rig.execute(&mut queue.borrow_mut(), &[])
}

/// Thunks that leave a device in D3.
fn leaving<'a>(rig: &'a Rig, luid: wddm_ddi::types::LUID, system: u32, fence: u32, shared: u32) -> Vec<Thunk<'a>> {
    let (kmt, table) = (rig.kmt, rig.kmt.table());
    let value = std::cell::Cell::new(0);
    vec![
        (
            "D3DKMTEnumAdapters3",
            false,
            Box::new(move || {
                let mut args = D3DKMT_ENUMADAPTERS3::zeroed();
                args.Filter = D3DKMT_ENUMADAPTERS_FILTER::new().with_IncludeComputeOnly(true);
                granted(kmt.call(table.D3DKMTEnumAdapters3, &mut args), "the count of adapters")
            }),
        ),
        (
            "D3DKMTOpenAdapterFromLuid and D3DKMTCloseAdapter",
            false,
            Box::new(move || {
                let adapter = kmt.open_adapter(luid).map_err(status("opening"))?;
                granted(kmt.close_adapter(adapter), "closing")
            }),
        ),
        (
            "D3DKMTQueryAdapterInfo",
            false,
            Box::new(move || {
                let kind = KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_ADAPTERTYPE;
                kmt.query_word(rig.adapter, kind).map(drop).map_err(status("a question"))
            }),
        ),
        ("D3DKMTGetDeviceState", false, Box::new(move || kmt.execution_state(rig.device).map(drop))),
        (
            "D3DKMTCreateDevice",
            false,
            Box::new(move || {
                let mut args = D3DKMT_CREATEDEVICE::zeroed();
                args.u = D3DKMT_CREATEDEVICE_Union { hAdapter: rig.adapter };
                granted(kmt.call(table.D3DKMTCreateDevice, &mut args), "a device")
            }),
        ),
        (
            "D3DKMTCreateAllocation2",
            false,
            Box::new(move || rig.create(4096, Placement::Vram).map(drop).map_err(status("an allocation"))),
        ),
        (
            "D3DKMTReserveGpuVirtualAddress",
            false,
            Box::new(move || {
                let mut args = D3DDDI_RESERVEGPUVIRTUALADDRESS::zeroed();
                args.u.hPagingQueue = rig.paging_queue;
                args.Size = 1 << 16;
                granted(kmt.call(table.D3DKMTReserveGpuVirtualAddress, &mut args), "a reservation")
            }),
        ),
        (
            "D3DKMTLock2 and D3DKMTUnlock2 of system memory",
            false,
            Box::new(move || {
                rig.lock(system).map_err(status("a lock"))?;
                granted(rig.unlock(system), "the end of the lock")
            }),
        ),
        (
            "D3DKMTInvalidateCache",
            false,
            Box::new(move || {
                let mut args = D3DKMT_INVALIDATECACHE::zeroed();
                (args.hDevice, args.hAllocation, args.Length) = (rig.device, system, 64);
                granted(kmt.call(table.D3DKMTInvalidateCache, &mut args), "an invalidation")
            }),
        ),
        (
            "D3DKMTSignalSynchronizationObjectFromCpu",
            false,
            Box::new(move || {
                value.set(value.get() + 1);
                granted(rig.signal(&[fence], &[value.get()]), "a signal")
            }),
        ),
        (
            "D3DKMTWaitForSynchronizationObjectFromCpu",
            false,
            Box::new(move || granted(rig.wait(&[fence], &[1], false), "a wait for what has been reached")),
        ),
        ("D3DKMTShareObjects", false, Box::new(move || rig.share(&[shared]).map(drop).map_err(status("sharing")))),
    ]
}

/// Thunks that bring a device to D0.
fn waking<'a>(
    rig: &'a Rig,
    local: u32,
    queue: &'a std::cell::RefCell<crate::rig::RawQueue>,
    made: &'a std::cell::Cell<u32>,
) -> Vec<Thunk<'a>> {
    vec![
        (
            "D3DKMTCreateNativeFence",
            true,
            Box::new(move || {
                made.set(rig.fence(0)?.handle);
                Ok(())
            }),
        ),
        (
            "D3DKMTDestroySynchronizationObject",
            true,
            Box::new(move || granted(rig.destroy_fence(made.get()), "the end of a fence")),
        ),
        (
            "D3DKMTCreateHwContext",
            true,
            Box::new(move || rig.context(NODE_COPY).map(drop).map_err(status("a context"))),
        ),
        ("D3DKMTMakeResident", true, Box::new(move || rig.make_resident(local))),
        ("D3DKMTMapGpuVirtualAddress", true, Box::new(move || rig.map(rig.map_request(local, 4096)).map(drop))),
        (
            "D3DKMTLock2 of memory of the device",
            true,
            Box::new(move || rig.lock(local).map(drop).map_err(status("a lock"))),
        ),
        (
            "D3DKMTUnlock2 of memory of the device",
            true,
            Box::new(move || granted(rig.unlock(local), "the end of the lock")),
        ),
        (
            "D3DKMTConnectDoorbell",
            true,
            Box::new(move || granted(rig.connect(queue.borrow().doorbell), "a connection")),
        ),
        (
            "D3DKMTNotifyWorkSubmission",
            true,
            Box::new(move || granted(rig.notify(queue.borrow().doorbell), "a notification")),
        ),
        ("a submission of user mode", true, Box::new(move || rig.submit(&mut queue.borrow_mut(), &[]).map(drop))),
        (
            "D3DKMTDestroyDoorbell, D3DKMTDestroyHwQueue and D3DKMTDestroyHwContext",
            true,
            Box::new(move || {
                let other = rig.queue(NODE_COPY)?;
                granted(rig.destroy_queue(&other), "the end of a queue")
            }),
        ),
    ]
}

fn signal_in_d3(case: &mut Case<'_>) -> Result<(), Failure> {
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let rig = case.rig()?;
    let (gate, behind) = (rig.fence(0)?, rig.fence(0)?);
    let mut waits = rig.queue(NODE_COMPUTE)?;
    for round in 1..=10 {
        let blocked = round % 2 == 0;
        let packets = [gate.wait(round), behind.signal(round)];
        if blocked {
            rig.submit(&mut waits, &packets)?;
        } else {
            rig.execute(&mut waits, &[])?;
        }
        power_down(case.system)?;
        granted(rig.signal(&[gate.handle], &[round]), "a signal in D3")?;
        ensure_eq!(machine.is_powered_down(luid), !blocked, "D3 after the signal of {round}");
        if !blocked {
            rig.submit(&mut waits, &packets)?;
        }
        wait_until("the work behind the wait", || behind.value.load() == round)?;
    }
    Ok(())
}

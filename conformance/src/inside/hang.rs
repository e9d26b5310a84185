//! Hangs and timeouts, for every case that needs one: a machine whose time the case moves, work that hangs, and the reports of recoveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use campanile_device::{FaultId, FaultRule, HangAt};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::{Clock, Process, TdrReport, TdrSettings};
use wddm_ddi::kmt::D3DKMT_DEVICEEXECUTION_STATE;

use crate::rig::{RawQueue, Rig, wait_until};
use crate::{Failure, granted};
use testbed::setup::{System, SystemOptions};

pub(super) const ACTIVE: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
pub(super) const HUNG: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_HUNG;
pub(super) const RESET: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_RESET;
/// The value whose signal hangs.
pub(super) const FATAL: u64 = 0xdead_0000_0001;
/// VIDEO_TDR_FAILURE. [debugger: 0x116]
pub(super) const TDR_FAILURE: u32 = 0x116;

/// A machine whose time the case moves.
pub(super) fn by_hand() -> SystemOptions {
    SystemOptions { clock: Clock::manual(), ..SystemOptions::default() }
}

/// Time enough for a queue that hangs to be noticed, suspended, and reset.
pub(super) fn time_out(system: &System) {
    (0..3).for_each(|_| system.machine().advance(TdrSettings::default().delay));
}

/// Waits as [`wait_until`], while somebody looks for timeouts as the system does all the time: work that was suspended and left its engine only
/// after a look is put back by the next one. No time passes.
pub(super) fn wait_watched(system: &System, what: &str, mut reached: impl FnMut() -> bool) -> Result<(), Failure> {
    wait_until(what, || {
        system.machine().advance(Duration::ZERO);
        reached()
    })
}

/// Does what waits for the GPU, while somebody looks for timeouts as the system does all the time. No time passes.
pub(super) fn watched(system: &System, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                system.machine().advance(Duration::ZERO);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        work();
        done.store(true, Ordering::Release);
    });
}

/// Moves time on until something was recovered from. What a packet before the one that hangs tells may come after the first look, which
/// makes for more of them.
pub(super) fn time_out_packets(system: &System) {
    let before = reports(system).last().map_or(0, |report| report.number);
    for _ in 0..6 {
        system.machine().advance(TdrSettings::default().delay);
        let recovered = reports(system).last().is_some_and(|report| report.number > before);
        if recovered || system.machine().bugcheck().is_some() {
            return;
        }
    }
}

/// Moves time on until a thread that may wait for an engine has ended.
pub(super) fn until_ended<T: Send>(
    system: &System,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    /// After so many steps nobody goes on waiting.
    const STEPS: u32 = 2000;
    std::thread::scope(|scope| {
        let thread = scope.spawn(work);
        for _ in 0..STEPS {
            if thread.is_finished() {
                return thread.join().unwrap_or_else(|_| Err(Failure::new("the thread panicked")));
            }
            system.machine().advance(TdrSettings::default().delay / 8);
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(Failure::new(format!("it did not end in {STEPS} steps of an eighth of TdrDelay")))
    })
}

pub(super) fn reports(system: &System) -> Vec<TdrReport> {
    system.machine().tdr_reports(system.luid())
}

/// The only recovery so far.
pub(super) fn only_report(system: &System) -> Result<TdrReport, Failure> {
    let mut reports = reports(system);
    match (reports.pop(), reports.len()) {
        (Some(report), 0) => Ok(report),
        (Some(last), more) => Err(Failure::new(format!("{} recoveries, the last is {last}", more + 1))),
        (None, _) => Err(Failure::new("nothing was recovered from")),
    }
}

/// Another process, in which the thread of the case runs at times.
pub(super) struct Guest {
    pub(super) process: Arc<Process>,
    pub(super) rig: Rig,
}

impl Guest {
    pub(super) fn new(system: &System, name: &str) -> Result<Self, Failure> {
        let process = Process::new(system.machine(), name);
        let attached = process.attach();
        let rig = Rig::open(system.luid())?;
        drop(attached);
        Ok(Self { process, rig })
    }

    pub(super) fn inside<T>(&self, work: impl FnOnce(&Rig) -> Result<T, Failure>) -> Result<T, Failure> {
        let _attached = self.process.attach();
        work(&self.rig)
    }
}

/// Arms a hang at the signal of [`FATAL`] on `node`.
pub(super) fn arm(system: &System, node: u32, reported: bool) -> FaultId {
    let rule = FaultRule::Hang { node, queue: None, at: HangAt::Signal(FATAL), reported };
    system.gpu().faults().inject(rule)
}

pub(super) fn state(rig: &Rig) -> Result<D3DKMT_DEVICEEXECUTION_STATE, Failure> {
    rig.kmt.execution_state(rig.device)
}

/// A new device on the same adapter works on both engines.
pub(super) fn works(rig: &Rig) -> Result<(), Failure> {
    for node in [NODE_COMPUTE, NODE_COPY] {
        rig.execute(&mut rig.queue(node)?, &[])?;
    }
    Ok(())
}

/// One timeout of the adapter.
pub(super) fn adapter_timeout(system: &System) -> Result<(), Failure> {
    let rig = Rig::open(system.luid())?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    hang(system, &rig, &mut queue, NODE_COMPUTE)?;
    system.gpu().faults().inject(FaultRule::ResetFails { node: NODE_COMPUTE });
    time_out(system);
    granted(rig.destroy(), "destroying the lost device")
}

/// Boots another machine for a case in which it stops.
pub(super) fn doomed(
    options: &SystemOptions,
    work: impl FnOnce(&System) -> Result<(), Failure>,
) -> Result<dxgkrnl::verifier::Bugcheck, Failure> {
    let system = System::boot(options)?;
    let process = Process::new(system.machine(), "doomed");
    let outcome = {
        let _attached = process.attach();
        work(&system)
    };
    process.exit();
    let bugcheck = system.machine().bugcheck();
    let rescues = system.machine().take_rescues();
    let ended = system.shutdown();
    outcome?;
    ensure!(rescues.is_empty(), "the machine made good what it was not to: {rescues:?}");
    match (bugcheck, ended) {
        (Some(bugcheck), _) => Ok(bugcheck),
        (None, Err(error)) => Err(error.into()),
        (None, Ok(())) => Err(Failure::new("the machine did not stop")),
    }
}

/// Lets the reset of the compute engine, which `time_out` leads to, take longer than TdrDdiDelay, and not before that is over stop the machine.
pub(super) fn hold_reset(system: &System, time_out: impl Fn(&System) + Sync) -> Result<(), Failure> {
    let faults = system.gpu().faults();
    let rule = faults.inject(FaultRule::ResetHeld { node: NODE_COMPUTE, milliseconds: u64::MAX });
    std::thread::scope(|scope| {
        let recovery = scope.spawn(|| time_out(system));
        let held = wait_until("the reset", || faults.fired(rule) == 1 || recovery.is_finished());
        system.machine().advance(TdrSettings::default().ddi_delay);
        let early = system.machine().bugcheck();
        system.machine().advance(Duration::from_secs(1));
        faults.release(rule);
        held?;
        ensure!(early.is_none(), "stopped before TdrDdiDelay was over: {early:?}");
        Ok(())
    })
}

/// Submits work of `rig` that hangs, and waits until it does. Returns its progress value.
pub(super) fn hang(system: &System, rig: &Rig, queue: &mut RawQueue, node: u32) -> Result<u64, Failure> {
    let fence = rig.fence(0)?;
    let fault = arm(system, node, false);
    let value = rig.submit(queue, &[fence.signal(1), fence.signal(FATAL), fence.signal(FATAL + 1)])?;
    wait_until("the hang", || system.gpu().faults().fired(fault) == 1)?;
    ensure_eq!(fence.value.load(), 1, "fence before the packet that hangs");
    Ok(value)
}

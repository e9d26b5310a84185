//! What the recovery of an adapter remembers, and what its steps have in common: one of them is in the driver at a time, each DDI has TdrDdiDelay, and what
//! cannot be recovered from is bug check 0x116.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use nt::bugcheck::Bugcheck;
use nt::clock::Clock;
use nt::lock::{Innermost, Mutex, MutexGuard, lock};
use nt::verifier::Verifier;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use crate::config::TdrSettings;
use crate::rank;
use crate::refusal::DriverAnswer;
use crate::tdr_report::TdrReport;
use crate::vidsch::{Device, DeviceError, HwContext, RenderAdapter};

use super::counting::Counting;
use super::heard::Heard;
use super::suspects::{SuspensionProbe, TimeoutWatch, Uninvalidated};

/// Recovery from timeouts of an adapter, and the watchdog that finds them.
pub(crate) struct Tdr {
    pub(super) adapter: Weak<RenderAdapter>,
    pub(super) verifier: Arc<Verifier>,
    pub(super) settings: TdrSettings,
    pub(super) clock: Clock,
    /// One recovery at a time.
    pub(super) recovering: Mutex<(), rank::Recovering>,
    /// True while somebody has [`InDriver`], for those who only look.
    pub(super) is_recovering: AtomicBool,
    /// Contexts that the driver has named since a reset began.
    pub(super) named: Mutex<Option<Vec<Invalidated>>>,
    /// Held while somebody looks for timeouts.
    pub(super) watch: Mutex<TimeoutWatch, rank::TdrWatch>,
    /// Contexts whose suspension the watchdog has requested.
    pub(super) probes: Mutex<Vec<SuspensionProbe>, rank::TdrProbes>,
    /// Threads that resume such contexts, and count what goes on by that.
    pub(super) counting: Counting,
    /// The DDI of a recovery that a thread is in.
    pub(super) inside: Mutex<Option<Inside>>,
    /// Calls and reports of the driver at the times when timeouts were looked for.
    pub(super) heard: Mutex<Heard, Innermost>,
    /// Times of the resets of the adapter.
    pub(super) resets: Mutex<VecDeque<Duration>>,
    /// Times of the resets of each node that gave nothing up, so that everything came again.
    pub(super) fruitless: Mutex<HashMap<u32, VecDeque<Duration>>>,
    /// Queues that hardware resets have left as they were.
    pub(super) uninvalidated: Mutex<Vec<Uninvalidated>>,
    /// Times of the resets of engines that each process caused.
    pub(super) offences: Mutex<HashMap<String, VecDeque<Duration>>, rank::Offences>,
    /// Processes that may not use the adapter any more.
    pub(super) blocked: Mutex<HashSet<String>>,
    /// Every device of the adapter.
    pub(super) devices: Mutex<Vec<Weak<Device>>>,
    pub(super) reports: Mutex<VecDeque<TdrReport>>,
    pub(super) count: AtomicU64,
}

/// A DDI of a recovery that a thread is in, or waits to call.
#[derive(Clone, Copy)]
pub(super) struct Inside {
    name: &'static str,
    since: Duration,
    /// It is not called yet, since a thread is inside another DDI of the GPU scheduler's class; the name of that one, if it was known when the wait began.
    behind: Option<Option<&'static str>>,
}

/// A context that lost its state.
pub(super) struct Invalidated {
    pub(super) context: Arc<HwContext>,
    /// Another one caused the reset.
    pub(super) collateral: bool,
}

/// A recovery is in the driver, and no other one, until this is dropped.
pub(super) struct InDriver<'a> {
    is_recovering: &'a AtomicBool,
    _one: MutexGuard<'a, (), rank::Recovering>,
}

impl Drop for InDriver<'_> {
    fn drop(&mut self) {
        self.is_recovering.store(false, Ordering::Release);
    }
}

/// What is left to do after the reset of an engine, without its lock.
#[derive(Default)]
pub(super) struct Aftermath {
    pub(super) lost: Vec<(Arc<Device>, DeviceError)>,
    /// The engine could not be reset, or that was not enough; resets of the adapter until then.
    pub(super) promoted: Option<u64>,
}

impl Tdr {
    /// Recovery of an adapter whose scheduler is about to be made.
    pub(crate) fn new(adapter: &Arc<RenderAdapter>) -> Arc<Self> {
        let config = adapter.machine.config();
        Arc::new(Self {
            adapter: Arc::downgrade(adapter),
            verifier: Arc::clone(adapter.machine.verifier()),
            settings: config.tdr,
            clock: config.clock.clone(),
            recovering: Mutex::new(()),
            is_recovering: AtomicBool::new(false),
            named: Mutex::new(None),
            watch: Mutex::default(),
            probes: Mutex::default(),
            counting: Counting::default(),
            inside: Mutex::new(None),
            heard: Mutex::default(),
            resets: Mutex::default(),
            fruitless: Mutex::default(),
            uninvalidated: Mutex::default(),
            offences: Mutex::default(),
            blocked: Mutex::default(),
            devices: Mutex::default(),
            reports: Mutex::default(),
            count: AtomicU64::new(0),
        })
    }

    /// The adapter.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED when it is gone.
    pub(super) fn adapter(&self) -> Result<Arc<RenderAdapter>, NTSTATUS> {
        self.adapter.upgrade().ok_or(STATUS_DEVICE_REMOVED)
    }

    /// With `one`, a recovery is in the driver.
    pub(super) fn in_driver<'a>(&'a self, one: MutexGuard<'a, (), rank::Recovering>) -> InDriver<'a> {
        self.is_recovering.store(true, Ordering::Release);
        InDriver { is_recovering: &self.is_recovering, _one: one }
    }

    /// Counts an event at `now` and returns how many there were in TdrLimitTime.
    pub(super) fn count_in(&self, times: &mut VecDeque<Duration>, now: Duration) -> u32 {
        times.retain(|time| now.saturating_sub(*time) <= self.settings.limit_time);
        times.push_back(now);
        u32::try_from(times.len()).unwrap_or(u32::MAX)
    }

    /// A DDI of a recovery that lasts longer than TdrDdiDelay will not return. [debugger: 0x116]
    pub(super) fn check_inside(&self) {
        let inside = *lock(&self.inside);
        let Some(Inside { name, since, behind }) = inside else { return };
        if self.clock.now().saturating_sub(since) <= self.settings.ddi_delay {
            return;
        }
        let Some(before) = behind else {
            return self.fail(STATUS_TIMEOUT, format!("{name} did not return within TdrDdiDelay"));
        };
        let now = self.adapter().ok().and_then(|adapter| adapter.vidsch().inside_scheduler_class());
        let other = now.filter(|other| *other != name).or(before).unwrap_or("another DDI of the GPU scheduler's class");
        let why = "the DDIs of the GPU scheduler's class are called one at a time [threading-and-synchronization: first level]";
        let waited = format!("{name} of a recovery waited for it longer than TdrDdiDelay, for {why}");
        self.fail(STATUS_TIMEOUT, format!("{other} did not return in time: {waited}"));
    }

    /// VIDEO_TDR_FAILURE: number of the recovery, nothing, status, nothing. [debugger: 0x116]
    pub(super) fn fail(&self, status: NTSTATUS, reason: String) {
        let number = self.count.load(Ordering::Acquire) + 1;
        let parameters = [number, 0, u64::from(status.0 as u32), 0];
        self.verifier.raise(Bugcheck::new(Bugcheck::VIDEO_TDR_FAILURE, parameters, reason));
    }

    /// Notes that a DDI did not reset an engine, so that the reset of the adapter follows.
    pub(super) fn tell_refusal(&self, answer: DriverAnswer, node: u32) {
        self.verifier
            .log(format!("{answer} for node {node}, and expected was STATUS_SUCCESS: the adapter is reset instead"));
    }

    /// Calls a DDI of a recovery, which may take TdrDdiDelay.
    pub(super) fn within_delay<R>(&self, name: &'static str, call: impl FnOnce() -> R) -> R {
        self.note_inside(name, None);
        let result = call();
        self.check_inside();
        *lock(&self.inside) = None;
        result
    }

    /// As [`Tdr::within_delay`], for a DDI of the GPU scheduler's class. Before it is called, a DDI of the class that another thread is inside has as long to return.
    pub(super) fn within_class<R>(&self, adapter: &RenderAdapter, name: &'static str, call: impl FnOnce() -> R) -> R {
        let sch = adapter.vidsch();
        self.note_inside(name, Some(sch.inside_scheduler_class()));
        let _class = sch.scheduler_class(name);
        self.check_inside();
        self.within_delay(name, call)
    }

    fn note_inside(&self, name: &'static str, behind: Option<Option<&'static str>>) {
        *lock(&self.inside) = Some(Inside { name, since: self.clock.now(), behind });
    }

    /// Counts the reset of an engine against a process; true if that one is refused from now on. [tdr-changes-in-windows-8]
    pub(super) fn count_offence(&self, process: &str, now: Duration) -> bool {
        let mut offences = lock(&self.offences);
        let count = self.count_in(offences.entry(process.to_owned()).or_default(), now);
        let allowed = self.settings.limit_count.saturating_sub(1);
        count > allowed && lock(&self.blocked).insert(process.to_owned())
    }

    /// A function does not answer in configuration space, and nothing of it is reset: plug and play is about to tell of its removal. Called with nothing held.
    pub(super) fn abandon(&self, adapter: &RenderAdapter) {
        self.verifier.log(
            "the adapter does not answer any more, as after its function was pulled out: its devices are lost [dispmprt: DXGKDDI_NOTIFY_SURPRISE_REMOVAL]"
                .to_owned(),
        );
        adapter.vidsch().abandon_hardware(adapter);
    }
}

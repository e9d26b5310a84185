//! Timeout detection and recovery. [tdr-changes-in-windows-8]
//!
//! Work of hardware queues that makes no progress for TdrDelay is asked off its engine ([`watch`]); a context that does not go within
//! another TdrDelay costs the engine a reset ([`hardware`]), and if that does not help, the adapter ([`adapter`]).
//!
//! Lock order: `Tdr::recovering` comes after `DeviceWork::lost`, so no device is lost while it is held; [`VidSch::recover`] loses those
//! that a reset has named when it is free again.

mod adapter;
mod hardware;
mod report;
mod settings;
mod watch;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{LUID, NTSTATUS};

use crate::clock::Clock;
use crate::device::{Device, DeviceError};
use crate::machine::{Machine, MachineRef, lock};
use crate::verifier::Bugcheck;

use super::VidSch;
use super::hw_context::HwContext;
use super::sync_object::SyncObject;
use super::worker::Work;

pub use report::{TdrFate, TdrOutcome, TdrQueue, TdrReason, TdrReport};
pub use settings::{TdrDebugMode, TdrLevel, TdrSettingError, TdrSettings};

use watch::Watch;

/// Nodes that are told apart.
const NODES: usize = 64;
/// Reports that are kept, newest last.
const REPORTS: usize = 256;
/// Bytes that a driver may fill in DxgkDdiCollectDbgInfo.
const DEBUG_BYTES: usize = 64 << 10;
/// How often a wait by a manual clock looks at it.
const GLANCE: Duration = Duration::from_millis(2);

/// What the scheduler of an adapter knows about timeouts.
pub(super) struct Tdr {
    settings: TdrSettings,
    clock: Clock,
    /// One recovery at a time.
    recovering: Mutex<()>,
    /// Nodes between DxgkDdiResetHwEngine and DxgkDdiResumeHwEngine, a bit each. Written at device level.
    silent: AtomicU64,
    /// How often the engine of each node was reset, alone or with the adapter. Counted at device level.
    engine_resets: [AtomicU64; NODES],
    /// Packets count as complete: the adapter is being reset.
    abandoning: AtomicBool,
    /// Contexts that the driver has named since a reset began. Lock order: a leaf.
    named: Mutex<Option<Vec<Invalidated>>>,
    /// Held by whoever looks for timeouts.
    watch: Mutex<Watch>,
    /// The DDI of a recovery that a thread is in, and since when. Lock order: a leaf.
    inside: Mutex<Option<(&'static str, Duration)>>,
    /// When the adapter was reset. Lock order: a leaf.
    resets: Mutex<VecDeque<Duration>>,
    /// When engines were reset for the sake of each process. Lock order: a leaf.
    offences: Mutex<HashMap<String, VecDeque<Duration>>>,
    /// Processes that may not use the adapter any more. Lock order: a leaf.
    blocked: Mutex<HashSet<String>>,
    /// Every device of the adapter. Lock order: a leaf.
    devices: Mutex<Vec<Weak<Device>>>,
    /// Lock order: a leaf.
    reports: Mutex<VecDeque<TdrReport>>,
    count: AtomicU64,
}

/// A context that lost its state.
struct Invalidated {
    context: Arc<HwContext>,
    /// Another one caused the reset.
    collateral: bool,
}

/// Why an engine is to be reset. Whoever runs on it after another reset has nothing to do with that.
pub(super) struct Complaint {
    node: u32,
    reason: TdrReason,
    /// Resets of the engine until it was made.
    resets: u64,
    /// The context that did not leave the engine, where that is the reason.
    stuck: Option<Arc<HwContext>>,
}

/// What is left to do after the reset of an engine, without its lock.
#[derive(Default)]
pub(super) struct Aftermath {
    lost: Vec<(Arc<Device>, DeviceError)>,
    /// The engine could not be reset.
    promoted: bool,
}

impl Tdr {
    pub(super) fn new(machine: &MachineRef) -> Self {
        Self {
            settings: machine.config().tdr,
            clock: machine.config().clock.clone(),
            recovering: Mutex::new(()),
            silent: AtomicU64::new(0),
            engine_resets: [const { AtomicU64::new(0) }; NODES],
            abandoning: AtomicBool::new(false),
            named: Mutex::new(None),
            watch: Mutex::default(),
            inside: Mutex::new(None),
            resets: Mutex::default(),
            offences: Mutex::default(),
            blocked: Mutex::default(),
            devices: Mutex::default(),
            reports: Mutex::default(),
            count: AtomicU64::new(0),
        }
    }

    /// When what begins to wait now gives up.
    pub(super) fn limit(&self) -> Duration {
        self.clock.now() + self.settings.delay
    }

    /// How long somebody who waits for `limit` sleeps before it looks at the clock again.
    pub(super) fn nap(&self, limit: Duration) -> Duration {
        if self.clock.is_manual() { GLANCE } else { limit.saturating_sub(self.clock.now()) }
    }

    /// How long an engine may take to let go of a context.
    pub(super) fn delay(&self) -> Duration {
        self.settings.delay
    }

    /// The machine's clock.
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    fn engine_resets(&self, node: u32) -> &AtomicU64 {
        &self.engine_resets[node as usize % NODES]
    }

    /// What is said now about the engine of `node`.
    pub(super) fn complaint(&self, node: u32, reason: TdrReason) -> Complaint {
        Complaint { node, reason, resets: self.engine_resets(node).load(Ordering::Acquire), stuck: None }
    }

    /// Whether a reset that came between has ended what is complained of.
    fn is_over(&self, complaint: &Complaint) -> bool {
        match &complaint.stuck {
            Some(context) => context.has_left(),
            None => self.engine_resets(complaint.node).load(Ordering::Acquire) != complaint.resets,
        }
    }

    /// How often somebody should look for timeouts; `None` where time is moved by hand, or nobody is to look.
    pub(super) fn cadence(&self) -> Option<Duration> {
        let looks = !self.clock.is_manual() && self.settings.level != TdrLevel::Off;
        looks.then(|| self.settings.delay / 4)
    }

    /// Whether packets count as complete because the adapter is being reset.
    pub(super) fn is_abandoning(&self) -> bool {
        self.abandoning.load(Ordering::Acquire)
    }

    /// Counts an event at `now` and returns how many there were in TdrLimitTime.
    fn count_in(&self, times: &mut VecDeque<Duration>, now: Duration) -> u32 {
        times.retain(|time| now.saturating_sub(*time) <= self.settings.limit_time);
        times.push_back(now);
        u32::try_from(times.len()).unwrap_or(u32::MAX)
    }

    fn keep(&self, mut report: TdrReport) {
        report.number = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        let mut reports = lock(&self.reports);
        if reports.len() == REPORTS {
            reports.pop_front();
        }
        reports.push_back(report);
    }
}

impl Machine {
    /// What recoveries of an adapter did, oldest first; the last few hundred are kept.
    pub fn tdr_reports(&self, luid: LUID) -> Vec<TdrReport> {
        let adapter = self.adapter(luid);
        let scheduler = adapter.as_ref().and_then(|adapter| adapter.scheduler());
        scheduler.map_or_else(Vec::new, |scheduler| lock(&scheduler.tdr.reports).iter().cloned().collect())
    }
}

impl VidSch {
    /// Finds what has timed out by the machine's clock, and recovers from it.
    pub(crate) fn look_for_timeouts(&self) {
        self.check_inside();
        let Ok(adapter) = self.adapter() else { return };
        if self.tdr.settings.level == TdrLevel::Off || self.verifier.is_stopped() || adapter.is_gone() {
            return;
        }
        // Who recovers is in the driver; nobody else asks it anything about engines.
        if self.tdr.recovering.try_lock().is_err() {
            return;
        }
        let hung = {
            // Nothing is under way on a device that sleeps.
            let Some(_awake) = adapter.machine.gate().enter_awake() else { return };
            let Ok(mut watch) = self.tdr.watch.try_lock() else { return };
            self.watch_progress(&mut watch, self.tdr.clock.now())
        };
        hung.iter().for_each(|complaint| self.recover(complaint));
        // An interrupt that was lost costs its waiters no more than the time until here.
        self.evaluate_watched(true);
        self.evaluate_watched(false);
    }

    /// A DDI of a recovery that lasts longer than TdrDdiDelay will not return. [debugger: 0x116]
    fn check_inside(&self) {
        let inside = *lock(&self.tdr.inside);
        if let Some((name, since)) = inside
            && self.tdr.clock.now().saturating_sub(since) > self.tdr.settings.ddi_delay
        {
            self.fail(STATUS_TIMEOUT, format!("{name} did not return within TdrDdiDelay"));
        }
    }

    /// VIDEO_TDR_FAILURE: number of the recovery, nothing, status, nothing. [debugger: 0x116]
    fn fail(&self, status: NTSTATUS, reason: String) {
        let number = self.tdr.count.load(Ordering::Acquire) + 1;
        let parameters = [number, 0, u64::from(status.0 as u32), 0];
        self.verifier.raise(Bugcheck::new(Bugcheck::VIDEO_TDR_FAILURE, parameters, reason));
    }

    /// Calls a DDI of a recovery, which may take TdrDdiDelay.
    fn within_delay<R>(&self, name: &'static str, call: impl FnOnce() -> R) -> R {
        *lock(&self.tdr.inside) = Some((name, self.tdr.clock.now()));
        let result = call();
        self.check_inside();
        *lock(&self.tdr.inside) = None;
        result
    }

    /// Whether recovery may go on; TdrLevel and TdrDebugMode decide. Notes a timeout that is not recovered from.
    fn may_recover(&self, node: u32, reason: TdrReason) -> bool {
        match (self.tdr.settings.level, self.tdr.settings.debug_mode) {
            (TdrLevel::Recover, TdrDebugMode::Ignore) => {
                let mut report = self.describe(Some(node), reason);
                report.outcome = TdrOutcome::Ignored;
                self.tdr.keep(report);
                false
            }
            (TdrLevel::Recover, _) => true,
            (TdrLevel::Off, _) => false,
            (TdrLevel::BugCheck | TdrLevel::RecoverVga, _) => {
                self.fail(
                    STATUS_TIMEOUT,
                    format!("engine {node} timed out, and TdrLevel asks for a bugcheck: {reason}"),
                );
                false
            }
        }
    }

    /// Resets an engine, and the adapter if that fails; loses the devices that a reset costs. Called with nothing held.
    pub(super) fn recover(&self, complaint: &Complaint) {
        let Ok(adapter) = self.adapter() else { return };
        let promoted = {
            let _powered = adapter.machine.gate().enter(&adapter.machine);
            let after = self.reset_engine(complaint);
            for (device, error) in &after.lost {
                self.lose_device(device, *error);
            }
            after.promoted
        };
        if promoted {
            self.reset_adapter(TdrReason::EngineTimeoutPromotedToAdapterReset);
        }
    }

    /// As [`VidSch::recover`], for a thread that is losing `device`, of which a context does not leave its engine, and whose other
    /// work may be done later.
    pub(super) fn recover_while_losing(&self, device: &Device, stuck: &Arc<HwContext>) {
        let complaint = self.tdr.complaint(stuck.node(), TdrReason::SuspensionTimeout);
        let after = self.reset_engine(&Complaint { stuck: Some(Arc::clone(stuck)), ..complaint });
        for (other, error) in after.lost.into_iter().filter(|(other, _)| other.id() != device.id()) {
            self.worker.add(Work::Lose(other, error));
        }
        if after.promoted {
            self.worker.add(Work::ResetAdapter(TdrReason::EngineTimeoutPromotedToAdapterReset));
        }
    }

    /// Blocks until the fences have reached their values, or the machine's clock `limit`.
    pub(super) fn wait_by_clock(&self, conditions: &[(Arc<SyncObject>, u64)], limit: Duration) -> NTSTATUS {
        let _waits = self.tdr.clock.deadline(limit);
        loop {
            let left = limit.saturating_sub(self.tdr.clock.now());
            let status = self.wait(conditions, false, Some(Instant::now() + self.tdr.nap(limit)));
            if status != STATUS_TIMEOUT || left.is_zero() {
                return status;
            }
        }
    }

    /// Whether a process may use the adapter.
    ///
    /// # Errors
    /// STATUS_ACCESS_DENIED after too many timeouts. [tdr-changes-in-windows-8, debugger: 0x142]
    pub(crate) fn check_not_blocked(&self, process: &str) -> Result<(), NTSTATUS> {
        if lock(&self.tdr.blocked).contains(process) { Err(STATUS_ACCESS_DENIED) } else { Ok(()) }
    }

    /// Counts the reset of an engine against a process; true if that one is refused from now on. [tdr-changes-in-windows-8]
    fn offend(&self, process: &str, now: Duration) -> bool {
        let mut offences = lock(&self.tdr.offences);
        let count = self.tdr.count_in(offences.entry(process.to_owned()).or_default(), now);
        let allowed = self.tdr.settings.limit_count.saturating_sub(1);
        count > allowed && lock(&self.tdr.blocked).insert(process.to_owned())
    }

    /// The state of an engine, or of the adapter, with everybody innocent.
    fn describe(&self, node: Option<u32>, reason: TdrReason) -> TdrReport {
        let concerned = |context: &Arc<HwContext>| node.is_none_or(|node| context.node() == node);
        let contexts = self.contexts.all();
        let queues = contexts.iter().filter(|context| concerned(context)).flat_map(|context| context.queues());
        let queues = queues.map(|queue| TdrQueue {
            process: queue.context().device().process.owner.clone(),
            handle: queue.user_handle().load(Ordering::Acquire),
            node: queue.context().node(),
            user_mode: queue.flags().UserModeSubmission(),
            progress: queue.progress().current(),
            last_queued: queue.last_queued(),
            fate: TdrFate::Innocent,
        });
        TdrReport {
            number: 0,
            time: self.tdr.clock.now(),
            node,
            reason,
            outcome: TdrOutcome::NothingToReset,
            live_dump: None,
            queues: queues.collect(),
            blocked: Vec::new(),
            debug_information: Vec::new(),
        }
    }

    /// DxgkDdiCollectDbgInfo for a live dump. [d3dkmddi: DXGKARG_COLLECTDBGINFO]
    fn collect_debug_information(&self, reason: u32) -> Vec<u8> {
        let Ok(adapter) = self.adapter() else { return Vec::new() };
        let mut buffer = vec![0_u8; DEBUG_BYTES];
        let mut extension = <DXGKARG_COLLECTDBGINFO_EXT as wddm_ddi::Zeroed>::zeroed();
        let args = DXGKARG_COLLECTDBGINFO {
            Reason: reason,
            pBuffer: buffer.as_mut_ptr().cast(),
            BufferSize: buffer.len(),
            pExtension: &raw mut extension,
        };
        let status = self.within_delay("DxgkDdiCollectDbgInfo", || {
            adapter.miniport.collect_dbg_info(adapter.context().raw(), &args)
        });
        if !status.is_success() {
            return Vec::new();
        }
        // What the driver left as it was is not kept.
        let filled = buffer.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        buffer.truncate(filled.next_multiple_of(8));
        buffer
    }

    /// Bits of the nodes that must say nothing at the moment.
    pub(super) fn is_silent(&self, node: u32) -> bool {
        self.tdr.silent.load(Ordering::Acquire) >> (node & 63) & 1 != 0
    }
}

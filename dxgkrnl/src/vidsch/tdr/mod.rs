//! Timeout detection and recovery. [tdr-changes-in-windows-8]
//!
//! If work makes no progress for TdrDelay, its context is suspended or its packet preempted ([`watch`]). If it does not leave the engine within another
//! TdrDelay, the engine is reset, which takes other DDIs for hardware queues ([`hardware`]) than for packets ([`packet`]), and if that does not help,
//! the adapter is ([`adapter`]).
//!
//! No thread waits for `Tdr::recovering`: it is tried. [`VidSch::recover`] loses the devices that a reset has named when it is free again.

mod adapter;
mod deadline;
mod hardware;
mod packet;
mod report;
mod watch;

pub(super) use watch::LONG_STALL;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nt::lock::{Mutex, lock};
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use crate::platform::Platform;
use crate::rank;
use crate::vidsch::{Device, DeviceError};
use nt::bugcheck::Bugcheck;
use nt::clock::Clock;

use super::VidSch;
use super::hw_context::HwContext;
use super::node::Suspects;
use super::sync_object::SyncObject;
use super::worker::Work;

use crate::config::{TdrDebugMode, TdrLevel, TdrSettings};
pub use report::{TdrFate, TdrKind, TdrOutcome, TdrQueue, TdrReason, TdrReport};

use deadline::Deadline;
use watch::{SuspensionProbe, TimeoutWatch};

/// Nodes that are told apart.
const NODES: usize = 64;
/// Reports that are kept, newest last.
const REPORTS: usize = 256;
/// Bytes that a driver may fill in DxgkDdiCollectDbgInfo.
const DEBUG_BYTES: usize = 64 << 10;
/// How often a wait by a manual clock looks at it.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// What the scheduler of an adapter knows about timeouts.
pub(super) struct Tdr {
    settings: TdrSettings,
    clock: Clock,
    /// One recovery at a time.
    recovering: Mutex<(), rank::Recovering>,
    /// Nodes between DxgkDdiResetHwEngine and DxgkDdiResumeHwEngine, a bit each. Written at device level.
    silent: AtomicU64,
    /// How often the engine of each node was reset, alone or with the adapter. Counted at device level.
    engine_resets: [AtomicU64; NODES],
    /// How often the adapter was. Counted at device level.
    adapter_resets: AtomicU64,
    /// Packets count as complete: the adapter is being reset.
    abandoning: AtomicBool,
    /// Contexts that the driver has named since a reset began.
    named: Mutex<Option<Vec<Invalidated>>>,
    /// Held while somebody looks for timeouts.
    watch: Mutex<TimeoutWatch, rank::TdrWatch>,
    /// Contexts whose suspension the watchdog has requested.
    probes: Mutex<Vec<SuspensionProbe>, rank::TdrProbes>,
    /// The DDI of a recovery that a thread is in, and since when.
    inside: Mutex<Option<(&'static str, Duration)>>,
    /// When the adapter was reset.
    resets: Mutex<VecDeque<Duration>>,
    /// When engines were reset for the sake of each process.
    offences: Mutex<HashMap<String, VecDeque<Duration>>, rank::Offences>,
    /// Processes that may not use the adapter any more.
    blocked: Mutex<HashSet<String>>,
    /// Every device of the adapter.
    devices: Mutex<Vec<Weak<Device>>>,
    reports: Mutex<VecDeque<TdrReport>>,
    count: AtomicU64,
}

/// A context that lost its state.
struct Invalidated {
    context: Arc<HwContext>,
    /// Another one caused the reset.
    collateral: bool,
}

/// Why an engine is to be reset. It is void once the engine was reset for another reason: other work runs there then.
pub(super) struct Complaint {
    node: u32,
    reason: TdrReason,
    /// Resets of the engine until it was made.
    resets: u64,
    subject: Subject,
    /// The device of the context that it is about was in error already when it was made.
    lost: bool,
}

impl Complaint {
    /// True if it is about a context whose device was in error already when it was made.
    pub(super) fn is_of_lost_device(&self) -> bool {
        self.lost
    }
}

/// Work without progress that a timeout is about.
#[derive(Clone)]
pub(super) enum Subject {
    /// Something on the engine.
    Engine,
    /// A hardware context that does not leave it.
    Context(Arc<HwContext>),
    /// Packets.
    Packets(Suspects),
}

/// What is left to do after the reset of an engine, without its lock.
#[derive(Default)]
pub(super) struct Aftermath {
    lost: Vec<(Arc<Device>, DeviceError)>,
    /// The engine could not be reset, or that was not enough; resets of the adapter until then.
    promoted: Option<u64>,
}

impl Tdr {
    pub(super) fn new(machine: &Platform) -> Self {
        Self {
            settings: machine.config().tdr,
            clock: machine.config().clock.clone(),
            recovering: Mutex::new(()),
            silent: AtomicU64::new(0),
            engine_resets: [const { AtomicU64::new(0) }; NODES],
            adapter_resets: AtomicU64::new(0),
            abandoning: AtomicBool::new(false),
            named: Mutex::new(None),
            watch: Mutex::default(),
            probes: Mutex::default(),
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
    pub(super) fn sleep_time(&self, limit: Duration) -> Duration {
        if self.clock.is_manual() { POLL_INTERVAL } else { limit.saturating_sub(self.clock.now()) }
    }

    /// How long an engine may take to let go of a context.
    pub(super) fn delay(&self) -> Duration {
        self.settings.delay
    }

    /// A wait of TdrDelay that begins now.
    pub(super) fn deadline(&self) -> Deadline {
        Deadline::new(&self.clock, self.settings.delay)
    }

    /// The machine's clock.
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    fn engine_resets(&self, node: u32) -> &AtomicU64 {
        &self.engine_resets[node as usize % NODES]
    }

    /// Number of resets of the engine of `node`.
    pub(super) fn resets_of(&self, node: u32) -> u64 {
        self.engine_resets(node).load(Ordering::Acquire)
    }

    /// A complaint about the engine of `node`, with its state of this moment.
    pub(super) fn complaint(&self, node: u32, reason: TdrReason) -> Complaint {
        self.complaint_about(node, reason, Subject::Engine)
    }

    /// As [`Tdr::complaint`], of what stands still there.
    pub(super) fn complaint_about(&self, node: u32, reason: TdrReason, subject: Subject) -> Complaint {
        // In this order: a reset puts devices in error before it is counted, so that one which costs this device from now on is counted later.
        let resets = self.resets_of(node);
        let lost = matches!(&subject, Subject::Context(context) if context.device().error().is_some());
        Complaint { node, reason, resets, subject, lost }
    }

    /// Number of resets of the adapter.
    pub(super) fn adapter_resets(&self) -> u64 {
        self.adapter_resets.load(Ordering::Acquire)
    }

    /// True if a reset that came between has ended what is complained of.
    fn is_over(&self, complaint: &Complaint) -> bool {
        let was_reset = self.resets_of(complaint.node) != complaint.resets;
        match &complaint.subject {
            // Another reset that came between has lost the device and stopped the context; that recovery takes the context off the engine.
            Subject::Context(context) => {
                context.has_left() || was_reset && !complaint.lost && context.device().error().is_some()
            }
            Subject::Engine | Subject::Packets(_) => was_reset,
        }
    }

    /// How often somebody should look for timeouts; `None` where time is moved by hand, or nobody is to look.
    pub(super) fn check_interval(&self) -> Option<Duration> {
        let looks = !self.clock.is_manual() && self.settings.level != TdrLevel::Off;
        looks.then(|| self.settings.delay / 4)
    }

    /// True if packets count as complete because the adapter is being reset.
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

impl VidSch {
    /// What recoveries did, oldest first; the last few hundred are kept.
    pub(crate) fn tdr_reports(&self) -> Vec<TdrReport> {
        lock(&self.tdr.reports).iter().cloned().collect()
    }

    /// Finds what has timed out by the machine's clock, and recovers from it.
    pub(crate) fn look_for_timeouts(&self) {
        self.check_inside();
        let Ok(adapter) = self.adapter() else { return };
        if self.tdr.settings.level == TdrLevel::Off || self.verifier.is_stopped() || adapter.is_gone() {
            return;
        }
        // While a recovery is in the driver, no other DDI about engines is called.
        if self.tdr.recovering.try_lock().is_none() {
            return;
        }
        let (hung, forgotten) = {
            // Nothing is under way on a device that sleeps.
            let Some(_awake) = adapter.machine.gate().enter_awake() else { return };
            let Some(mut watch) = self.tdr.watch.try_lock() else { return };
            let now = self.tdr.clock.now();
            let mut hung = self.watch_progress(&mut watch, now);
            // A hardware context that does not let go of its engine keeps the packets there from doing so.
            let packets = self.watch_packets(&mut watch, now);
            hung.extend(packets);
            (hung, self.has_lost_its_work(&watch).then(|| self.tdr.adapter_resets()))
        };
        deadline::while_looking(|| match forgotten {
            Some(resets) => self.reset_adapter(TdrReason::FunctionReset, resets),
            None => self.recover(&hung),
        });
        self.make_good_unreported_signals();
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

    /// True if recovery may go on; TdrLevel and TdrDebugMode decide. Notes a timeout that is not recovered from.
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

    /// Resets engines, and the adapter if that fails; then loses the devices that a reset costs, which may need several engines to go
    /// on. Called with nothing held.
    pub(super) fn recover(&self, complaints: &[Complaint]) {
        let Ok(adapter) = self.adapter() else { return };
        if complaints.is_empty() {
            return;
        }
        let promoted = {
            let _powered = adapter.machine.gate().enter(&adapter.machine);
            let after: Vec<_> = complaints.iter().map(|complaint| self.reset_engine(complaint)).collect();
            for (device, error) in after.iter().flat_map(|after| &after.lost) {
                self.lose_device(device, *error);
            }
            after.iter().find_map(|after| after.promoted)
        };
        self.worker.add(Work::PutBack);
        if let Some(resets) = promoted {
            self.reset_adapter(TdrReason::EngineTimeoutPromotedToAdapterReset, resets);
        }
    }

    /// As [`VidSch::recover`], for a thread that is losing `device`, of which `subject` does not leave the engine of `node`, and whose
    /// other work may be done later.
    pub(super) fn recover_while_losing(&self, device: &Device, node: u32, subject: Subject) {
        let after = self.reset_engine(&self.tdr.complaint_about(node, TdrReason::SuspensionTimeout, subject));
        for (other, error) in after.lost.into_iter().filter(|(other, _)| other.id() != device.id()) {
            self.worker.add(Work::Lose(other, error));
        }
        if let Some(resets) = after.promoted {
            self.worker.add(Work::ResetAdapter(TdrReason::EngineTimeoutPromotedToAdapterReset, resets));
        }
    }

    /// Blocks until the fences have reached their values, or the machine's clock `limit`.
    pub(super) fn wait_by_clock(&self, conditions: &[(Arc<SyncObject>, u64)], limit: Duration) -> NTSTATUS {
        let _waits = self.tdr.clock.deadline(limit);
        loop {
            let left = limit.saturating_sub(self.tdr.clock.now());
            let status = self.wait(conditions, false, Some(Instant::now() + self.tdr.sleep_time(limit)));
            if status != STATUS_TIMEOUT || left.is_zero() {
                return status;
            }
        }
    }

    /// Fails if the process is refused the adapter.
    ///
    /// # Errors
    /// STATUS_ACCESS_DENIED after too many timeouts. [tdr-changes-in-windows-8, debugger: 0x142]
    pub(crate) fn check_not_blocked(&self, process: &str) -> Result<(), NTSTATUS> {
        if lock(&self.tdr.blocked).contains(process) { Err(STATUS_ACCESS_DENIED) } else { Ok(()) }
    }

    /// Counts the reset of an engine against a process; true if that one is refused from now on. [tdr-changes-in-windows-8]
    fn count_offence(&self, process: &str, now: Duration) -> bool {
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
            kind: if queue.flags().UserModeSubmission() { TdrKind::UserQueue } else { TdrKind::KernelQueue },
            progress: queue.progress().current(),
            last_queued: queue.last_queued(),
            fate: TdrFate::Innocent,
        });
        let packets = self.packet_contexts.all();
        let packets = packets.iter().filter(|context| node.is_none_or(|node| context.node() == node)).map(|context| {
            let (finished, submitted) = context.progress();
            TdrQueue {
                process: context.device().process.owner.clone(),
                handle: context.user_handle().load(Ordering::Acquire),
                node: context.node(),
                kind: TdrKind::Packets,
                progress: finished,
                last_queued: submitted,
                fate: TdrFate::Innocent,
            }
        });
        TdrReport {
            number: 0,
            time: self.tdr.clock.now(),
            node,
            reason,
            outcome: TdrOutcome::NothingToReset,
            responsive: None,
            live_dump: None,
            queues: queues.chain(packets).collect(),
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
        // Zeros at the end of the buffer, which the driver did not write, are cut off.
        let filled = buffer.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        buffer.truncate(filled.next_multiple_of(8));
        buffer
    }

    /// Bits of the nodes that must say nothing at the moment.
    pub(super) fn is_silent(&self, node: u32) -> bool {
        self.tdr.silent.load(Ordering::Acquire) >> (node & 63) & 1 != 0
    }
}

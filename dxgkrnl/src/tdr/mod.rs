//! Timeout detection and recovery. [tdr-changes-in-windows-8]
//!
//! If work makes no progress for TdrDelay, its context is suspended or its packet preempted ([`watch`]). If it does not leave the engine within another
//! TdrDelay, the engine is reset, which takes other DDIs for hardware queues ([`hardware`]) than for packets ([`packet`]), and if that does not help,
//! the adapter is ([`adapter`]).
//!
//! It stands above the scheduler, which complains of work that does not leave its engine and knows this as [`Recovery`]. No thread waits for
//! `Tdr::recovering`: it is tried. [`Tdr::recover_from`] loses the devices that a reset has named when it is free again.

mod adapter;
mod counting;
mod hardware;
mod heard;
mod packet;
mod standing;
mod stands;
mod watch;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use nt::lock::{Innermost, Mutex, MutexGuard, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::nt::DISPATCH_LEVEL;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use crate::config::{TdrDebugMode, TdrLevel, TdrSettings};
use crate::rank;
use crate::refusal::DriverAnswer;
use crate::rescue::Rescue;
use crate::tdr_report::{TdrFate, TdrInterrupts, TdrKind, TdrOutcome, TdrQueue, TdrReason, TdrReport};
use crate::vidsch::{
    Complaint, Device, DeviceError, HwContext, Recovery, RenderAdapter, Subject, Timeout, VidSch, Waiter,
};
use nt::bugcheck::Bugcheck;
use nt::clock::Clock;
use nt::irql::Raised;
use nt::verifier::Verifier;

use counting::Counting;
use hardware::Uninvalidated;
use heard::Heard;
use watch::{SuspensionProbe, TimeoutWatch};

/// Reports that are kept, newest last.
const REPORTS: usize = 256;
/// Bytes that a driver may fill in DxgkDdiCollectDbgInfo.
const DEBUG_BYTES: usize = 64 << 10;

/// Recovery from timeouts of an adapter, and the watchdog that finds them.
pub(crate) struct Tdr {
    adapter: Weak<RenderAdapter>,
    verifier: Arc<Verifier>,
    settings: TdrSettings,
    clock: Clock,
    /// One recovery at a time.
    recovering: Mutex<(), rank::Recovering>,
    /// True while somebody has [`InDriver`], for those who only look.
    is_recovering: AtomicBool,
    /// Contexts that the driver has named since a reset began.
    named: Mutex<Option<Vec<Invalidated>>>,
    /// Held while somebody looks for timeouts.
    watch: Mutex<TimeoutWatch, rank::TdrWatch>,
    /// Contexts whose suspension the watchdog has requested.
    probes: Mutex<Vec<SuspensionProbe>, rank::TdrProbes>,
    /// Threads that resume such contexts, and count what goes on by that.
    counting: Counting,
    /// The DDI of a recovery that a thread is in, and since when.
    inside: Mutex<Option<(&'static str, Duration)>>,
    /// Calls and reports of the driver at the times when timeouts were looked for.
    heard: Mutex<Heard, Innermost>,
    /// Times of the resets of the adapter.
    resets: Mutex<VecDeque<Duration>>,
    /// Times of the resets of each node that gave nothing up, so that everything came again.
    fruitless: Mutex<HashMap<u32, VecDeque<Duration>>>,
    /// Queues that hardware resets have left as they were.
    uninvalidated: Mutex<Vec<Uninvalidated>>,
    /// Times of the resets of engines that each process caused.
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
    lost: Vec<(Arc<Device>, DeviceError)>,
    /// The engine could not be reset, or that was not enough; resets of the adapter until then.
    promoted: Option<u64>,
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
    fn adapter(&self) -> Result<Arc<RenderAdapter>, NTSTATUS> {
        self.adapter.upgrade().ok_or(STATUS_DEVICE_REMOVED)
    }

    /// With `one`, a recovery is in the driver.
    fn in_driver<'a>(&'a self, one: MutexGuard<'a, (), rank::Recovering>) -> InDriver<'a> {
        self.is_recovering.store(true, Ordering::Release);
        InDriver { is_recovering: &self.is_recovering, _one: one }
    }

    /// Counts an event at `now` and returns how many there were in TdrLimitTime.
    fn count_in(&self, times: &mut VecDeque<Duration>, now: Duration) -> u32 {
        times.retain(|time| now.saturating_sub(*time) <= self.settings.limit_time);
        times.push_back(now);
        u32::try_from(times.len()).unwrap_or(u32::MAX)
    }

    /// Keeps a report of something that was done, which the machine's log has too.
    fn tell(&self, mut report: TdrReport) {
        self.number(&mut report);
        self.verifier.log(report.to_string());
        self.push(report);
    }

    /// Keeps a report of something that nothing was done about.
    fn keep(&self, mut report: TdrReport) {
        self.number(&mut report);
        self.push(report);
    }

    fn number(&self, report: &mut TdrReport) {
        report.number = self.count.fetch_add(1, Ordering::AcqRel) + 1;
    }

    fn push(&self, report: TdrReport) {
        let mut reports = lock(&self.reports);
        if reports.len() == REPORTS {
            reports.pop_front();
        }
        reports.push_back(report);
    }
}

impl Recovery for Tdr {
    fn look_for_timeouts(&self) {
        self.look();
    }

    fn stop(&self) {
        // What a probe keeps keeps the adapter, and with it this.
        let probes = std::mem::take(&mut *lock(&self.probes));
        drop(probes);
    }

    fn recover(&self, complaints: &[Complaint]) {
        self.recover_from(Waiter::Other, complaints);
    }

    fn recover_while_losing(&self, device: &Device, node: u32, subject: Subject) {
        self.recover_beside(device, node, subject);
    }

    fn reset_adapter(&self, reason: TdrReason, resets: u64) {
        self.reset(Waiter::Other, reason, resets);
    }

    fn force(&self, node: Option<u32>) {
        let Ok(adapter) = self.adapter() else { return };
        let (sch, reason) = (adapter.vidsch(), TdrReason::Forced);
        match node {
            Some(node) => self.recover_from(Waiter::Other, &[sch.timeouts().complaint(node, reason)]),
            None if self.may_recover(sch, None, reason) => {
                self.reset(Waiter::Other, reason, sch.timeouts().adapter_resets());
            }
            None => {}
        }
    }

    fn resume_suspended(&self) {
        self.put_back_answered();
    }

    fn finish_counting(&self) {
        self.counting.wait(|| self.verifier.is_stopped());
    }

    fn note_device(&self, device: &Arc<Device>) {
        let mut devices = lock(&self.devices);
        devices.retain(|device| device.strong_count() != 0);
        devices.push(Arc::downgrade(device));
    }

    fn check_not_blocked(&self, process: &str) -> Result<(), NTSTATUS> {
        if lock(&self.blocked).contains(process) { Err(STATUS_ACCESS_DENIED) } else { Ok(()) }
    }

    fn invalidate_hw_context(&self, args: &DXGKARGCB_INVALIDATEHWCONTEXT) -> NTSTATUS {
        self.invalidate(args)
    }

    fn query_engine_status(&self, node: u32) -> Option<bool> {
        self.ask_engine_status(&*self.adapter().ok()?, node)
    }

    fn standing(&self) -> Vec<String> {
        self.standing_work()
    }

    fn reports(&self) -> Vec<TdrReport> {
        lock(&self.reports).iter().cloned().collect()
    }
}

impl Tdr {
    /// Finds what has timed out by the machine's clock, and recovers from it.
    fn look(&self) {
        self.check_inside();
        let Ok(adapter) = self.adapter() else { return };
        if self.settings.level == TdrLevel::Off || self.verifier.is_stopped() || adapter.is_gone() {
            return;
        }
        // While a recovery is in the driver, no other DDI about engines is called.
        if self.is_recovering.load(Ordering::Acquire) {
            return;
        }
        let (hung, forgotten, proven) = {
            // Nothing is under way on a device that sleeps.
            let Some(_awake) = adapter.machine.gate().enter_awake() else { return };
            let Some(mut watch) = self.watch.try_lock() else { return };
            let now = self.clock.now();
            let counters = adapter.interrupts().counters();
            lock(&self.heard).note(now, counters);
            let mut hung = self.watch_progress(&mut watch, now);
            // A hardware context that does not let go of its engine keeps the packets there from doing so.
            let packets = self.watch_packets(&mut watch, now);
            hung.extend(packets);
            let proven = self.look_at_standing(&mut watch.standing, now);
            (hung, self.has_lost_its_work(&watch).then(|| adapter.vidsch().timeouts().adapter_resets()), proven)
        };
        if let Some(reason) = proven {
            if adapter.is_absent() {
                return self.abandon(&adapter);
            }
            return self.fail(STATUS_TIMEOUT, reason);
        }
        match forgotten {
            Some(resets) => self.reset(Waiter::LooksForTimeouts, TdrReason::FunctionReset, resets),
            None => self.recover_from(Waiter::LooksForTimeouts, &hung),
        }
        self.look_at_uninvalidated();
        adapter.vidsch().make_good_unreported_signals();
        self.answer_report(&adapter);
        adapter.interrupts().unmask_unending();
        if let Some(memory) = adapter.memory_manager() {
            memory.look_for_unwritten_fences();
        }
    }

    /// Does what DxgkCbNotifyDpc does, after a report for which the driver has queued no DPC.
    fn answer_report(&self, adapter: &RenderAdapter) {
        const LIMIT: Duration = Duration::from_secs(1);
        let Some(report) = adapter.interrupts().take_overdue_report(LIMIT) else { return };
        adapter.machine.rescues().add(Rescue::UnansweredReport, 1);
        self.verifier.log(format!(
            "DxgkCbNotifyInterrupt{report} in a routine of DxgkCbSynchronizeExecution, and expected was DxgkCbQueueDpc and DxgkCbNotifyDpc in the DPC routine: no DPC is \
             queued for a second [d3dkmddi: DXGKCB_NOTIFY_INTERRUPT]"
        ));
        let _raised = Raised::to(DISPATCH_LEVEL);
        adapter.vidsch().notify_dpc();
    }

    /// A DDI of a recovery that lasts longer than TdrDdiDelay will not return. [debugger: 0x116]
    fn check_inside(&self) {
        let inside = *lock(&self.inside);
        if let Some((name, since)) = inside
            && self.clock.now().saturating_sub(since) > self.settings.ddi_delay
        {
            self.fail(STATUS_TIMEOUT, format!("{name} did not return within TdrDdiDelay"));
        }
    }

    /// VIDEO_TDR_FAILURE: number of the recovery, nothing, status, nothing. [debugger: 0x116]
    fn fail(&self, status: NTSTATUS, reason: String) {
        let number = self.count.load(Ordering::Acquire) + 1;
        let parameters = [number, 0, u64::from(status.0 as u32), 0];
        self.verifier.raise(Bugcheck::new(Bugcheck::VIDEO_TDR_FAILURE, parameters, reason));
    }

    /// Notes that a DDI did not reset an engine, so that the reset of the adapter follows.
    fn tell_refusal(&self, answer: DriverAnswer, node: u32) {
        self.verifier
            .log(format!("{answer} for node {node}, and expected was STATUS_SUCCESS: the adapter is reset instead"));
    }

    /// Calls a DDI of a recovery, which may take TdrDdiDelay.
    fn within_delay<R>(&self, name: &'static str, call: impl FnOnce() -> R) -> R {
        *lock(&self.inside) = Some((name, self.clock.now()));
        let result = call();
        self.check_inside();
        *lock(&self.inside) = None;
        result
    }

    /// True if recovery may go on; TdrLevel and TdrDebugMode decide. Notes a timeout that is not recovered from.
    fn may_recover(&self, sch: &VidSch, node: Option<u32>, reason: TdrReason) -> bool {
        match (self.settings.level, sch.timeouts().debug_mode()) {
            (TdrLevel::Recover, TdrDebugMode::Ignore) => {
                let mut report = self.describe(sch, node, reason);
                report.outcome = TdrOutcome::Ignored;
                self.keep(report);
                false
            }
            (TdrLevel::Recover, _) => true,
            (TdrLevel::Off, _) => false,
            (TdrLevel::BugCheck | TdrLevel::RecoverVga, _) => {
                let subject = node.map_or_else(|| "the adapter".to_owned(), |node| format!("node {node}"));
                let told = format!("{subject} timed out, and TdrLevel asks for a bugcheck: {reason}");
                self.fail(STATUS_TIMEOUT, told);
                false
            }
        }
    }

    /// Resets engines, and the adapter if that fails; then loses the devices that a reset costs, which may need several engines to go
    /// on. Called with nothing held.
    fn recover_from(&self, waiter: Waiter, complaints: &[Complaint]) {
        let Ok(adapter) = self.adapter() else { return };
        if complaints.is_empty() || adapter.is_gone() {
            return;
        }
        if !adapter.is_there() {
            return self.abandon(&adapter);
        }
        let promoted = {
            let _powered = adapter.machine.gate().enter(&adapter.machine);
            let after: Vec<_> = complaints.iter().map(|complaint| self.reset_engine(complaint)).collect();
            for (device, error) in after.iter().flat_map(|after| &after.lost) {
                adapter.vidsch().lose_device_by(waiter, device, *error);
            }
            after.iter().find_map(|after| after.promoted)
        };
        adapter.vidsch().resume_suspended_soon();
        if let Some(resets) = promoted {
            self.reset(waiter, TdrReason::EngineTimeoutPromotedToAdapterReset, resets);
        }
    }

    /// A function does not answer in configuration space, and nothing of it is reset: plug and play is about to tell of its removal. Called with nothing held.
    fn abandon(&self, adapter: &RenderAdapter) {
        self.verifier.log(
            "the adapter does not answer any more, as after its function was pulled out: its devices are lost [dispmprt: DXGKDDI_NOTIFY_SURPRISE_REMOVAL]"
                .to_owned(),
        );
        adapter.vidsch().abandon_hardware(adapter);
    }

    /// As [`Tdr::recover_from`], for a thread that is losing `device`, of which `subject` does not leave the engine of `node`, and whose
    /// other work may be done later.
    fn recover_beside(&self, device: &Device, node: u32, subject: Subject) {
        let Ok(adapter) = self.adapter() else { return };
        let sch = adapter.vidsch();
        if adapter.is_absent() {
            return sch.reset_adapter_soon(TdrReason::SuspensionTimeout, sch.timeouts().adapter_resets());
        }
        let after = self.reset_engine(&sch.timeouts().complaint_about(node, TdrReason::SuspensionTimeout, subject));
        for (other, error) in after.lost.into_iter().filter(|(other, _)| other.id() != device.id()) {
            sch.lose_soon(other, error);
        }
        if let Some(resets) = after.promoted {
            sch.reset_adapter_soon(TdrReason::EngineTimeoutPromotedToAdapterReset, resets);
        }
    }

    /// Counts the reset of an engine against a process; true if that one is refused from now on. [tdr-changes-in-windows-8]
    fn count_offence(&self, process: &str, now: Duration) -> bool {
        let mut offences = lock(&self.offences);
        let count = self.count_in(offences.entry(process.to_owned()).or_default(), now);
        let allowed = self.settings.limit_count.saturating_sub(1);
        count > allowed && lock(&self.blocked).insert(process.to_owned())
    }

    /// What has come from the driver while work stood still: for TdrDelay, and for another one in which it was to be preempted.
    fn heard_lately(&self) -> Option<TdrInterrupts> {
        let (counters, now) = (self.adapter().ok()?.interrupts().counters(), self.clock.now());
        lock(&self.heard).since(now, 2 * self.settings.delay, &counters)
    }

    /// The state of an engine, or of the adapter, with everybody innocent.
    fn describe(&self, sch: &VidSch, node: Option<u32>, reason: TdrReason) -> TdrReport {
        let concerned = |context: &Arc<HwContext>| node.is_none_or(|node| context.node() == node);
        let contexts = sch.hw_contexts();
        let queues = contexts.iter().filter(|context| concerned(context)).flat_map(|context| context.queues());
        let queues = queues.map(|queue| TdrQueue {
            process: queue.context().device().process.owner(),
            handle: queue.user_handle().load(Ordering::Acquire),
            node: queue.context().node(),
            kind: if queue.flags().UserModeSubmission() { TdrKind::UserQueue } else { TdrKind::KernelQueue },
            progress: queue.progress().current(),
            last_queued: queue.last_queued(),
            fate: TdrFate::Innocent,
        });
        let packets = sch.packet_contexts();
        let packets = packets.iter().filter(|context| node.is_none_or(|node| context.node() == node)).map(|context| {
            let (finished, submitted) = context.progress();
            TdrQueue {
                process: context.device().process.owner(),
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
            time: self.clock.now(),
            node,
            reason,
            outcome: TdrOutcome::NothingToReset,
            responsive: None,
            live_dump: None,
            queues: queues.chain(packets).collect(),
            interrupts: self.heard_lately(),
            blocked: Vec::new(),
            debug_information: Vec::new(),
            collection_failed: None,
        }
    }

    /// DxgkDdiCollectDbgInfo for the live dump `code`. A driver that has nothing to tell answers an error, and recovery goes on.
    /// [d3dkmddi: DXGKDDI_COLLECTDBGINFO, DXGKARG_COLLECTDBGINFO]
    fn collect_debug_information(&self, adapter: &RenderAdapter, code: u32, report: &mut TdrReport) {
        report.live_dump = Some(code);
        let mut timeout = timeout_of(adapter, report);
        let has_new = adapter.miniport.table().DxgkDdiCollectDbgInfo2.is_some();
        let name = if has_new { "DxgkDdiCollectDbgInfo2" } else { "DxgkDdiCollectDbgInfo" };
        let collected =
            self.within_delay(name, || adapter.collect_debug_information(code, DEBUG_BYTES, Some(&mut timeout)));
        self.check_context(adapter, &timeout);
        match collected {
            Ok(mut buffer) => {
                // Zeros at the end of the buffer, which the driver did not write, are cut off.
                let filled = buffer.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                buffer.truncate(filled.next_multiple_of(8));
                report.debug_information = buffer;
            }
            Err(failure) => {
                let ddi = failure.answer().map_or(name, DriverAnswer::ddi);
                report.collection_failed = Some((ddi, failure.status()));
                let documented = [STATUS_NO_MEMORY, STATUS_UNSUCCESSFUL].contains(&failure.status());
                let rule = "expected was STATUS_SUCCESS, STATUS_NO_MEMORY or STATUS_UNSUCCESSFUL";
                let rule = if documented { "the report has nothing of the driver" } else { rule };
                let told = failure.why().unwrap_or_default();
                let page = ddi.to_uppercase().replacen("DXGKDDI", "DXGKDDI_", 1);
                self.verifier.log(format!("{told} for Reason {code:#x}: {rule} [d3dkmddi: {page}]"));
            }
        }
    }

    /// The log has a context that DxgkDdiCollectDbgInfo2 named and that does not exist.
    fn check_context(&self, adapter: &RenderAdapter, timeout: &Timeout) {
        let named = timeout.engine.map(|payload| payload.hContext).filter(|context| !context.is_null());
        let Some(context) = named else { return };
        if !adapter.vidsch().has_context(context) {
            self.verifier.log(format!(
                "DxgkDdiCollectDbgInfo2 named {context:p} as hContext of TdrPayload, which is no context of the adapter, and expected is the one that it takes for the cause or NULL \
                 [d3dkmddi: DXGK_TDR_PAYLOAD_ENGINE_TIMEOUT]"
            ));
        }
    }
}

/// What DxgkDdiCollectDbgInfo2 is told. That a reset of the adapter for another reason than a program's or a page fault's counts as one of an engine that was promoted, and that queues with
/// work are the ready ones, is inferred. [d3dkmddi: DXGK_TDR_TYPE, DXGK_TDR_PAYLOAD_ENGINE_TIMEOUT]
fn timeout_of(adapter: &RenderAdapter, report: &TdrReport) -> Timeout {
    type Type = DXGK_TDR_TYPE;
    let Some(node) = report.node else {
        let kind = match report.reason {
            TdrReason::Forced => Type::DXGK_TDR_TYPE_FORCED,
            TdrReason::PageFault => Type::DXGK_TDR_TYPE_PAGE_FAULT,
            _ => Type::DXGK_TDR_TYPE_ENGINE_TIMEOUT_PROMOTED,
        };
        return Timeout { kind, engine: None };
    };
    if report.reason == TdrReason::PageFault {
        return Timeout { kind: Type::DXGK_TDR_TYPE_ENGINE_PAGE_FAULT, engine: None };
    }
    let (sch, (ordinal, engine)) = (adapter.vidsch(), adapter.caps().ordinals(node));
    let mut payload = DXGK_TDR_PAYLOAD_ENGINE_TIMEOUT::zeroed();
    (payload.NodeOrdinal, payload.EngineOrdinal) = (ordinal, engine);
    if let Some(state) = sch.nodes().get(node as usize).map(|node| node.state()) {
        payload.LastHwCompletedFenceId = state.last_completed().into();
        payload.LastHwSubmittedFenceId = state.last_submitted().into();
    }
    let leaves = |context: &Arc<HwContext>| context.node() == node && context.is_leaving();
    payload.NumberOfPendingSuspendRequests = sch.hw_contexts().iter().filter(|context| leaves(context)).count() as u32;
    let works = |queue: &&TdrQueue| queue.kind != TdrKind::Packets && queue.node == node && queue.is_busy();
    payload.NumberOfReadyInteractiveHwQueues = report.queues.iter().filter(works).count() as u32;
    Timeout { kind: Type::DXGK_TDR_TYPE_ENGINE_TIMEOUT, engine: Some(payload) }
}

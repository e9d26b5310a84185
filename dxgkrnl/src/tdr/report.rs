//! Reports of what was done about a timeout, with what the driver tells for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nt::lock::lock;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::config::{TdrDebugMode, TdrLevel};
use crate::refusal::DriverAnswer;
use crate::tdr_report::{TdrFate, TdrInterrupts, TdrKind, TdrOutcome, TdrQueue, TdrReason, TdrReport};
use crate::vidsch::{HwContext, RenderAdapter, Timeout, VidSch};

use super::state::Tdr;

/// VIDEO_ENGINE_TIMEOUT_DETECTED, a live dump. [debugger: 0x141]
pub(super) const ENGINE_TIMEOUT: u32 = 0x141;
/// Reports that are kept, newest last.
const REPORTS: usize = 256;
/// Bytes that a driver may fill in DxgkDdiCollectDbgInfo.
const DEBUG_BYTES: usize = 64 << 10;

impl Tdr {
    /// Keeps a report of something that was done, which the machine's log has too.
    pub(super) fn tell(&self, mut report: TdrReport) {
        self.number(&mut report);
        self.verifier.log(report.to_string());
        self.push(report);
    }

    /// Keeps a report of something that nothing was done about.
    pub(super) fn keep(&self, mut report: TdrReport) {
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

    /// What has come from the driver while work stood still: for TdrDelay, and for another one in which it was to be preempted.
    fn heard_lately(&self) -> Option<TdrInterrupts> {
        let (counters, now) = (self.adapter().ok()?.interrupts().counters(), self.clock.now());
        lock(&self.heard).since(now, 2 * self.settings.delay, &counters)
    }

    /// True if recovery may go on; TdrLevel and TdrDebugMode decide. Notes a timeout that is not recovered from.
    pub(super) fn may_recover(&self, sch: &VidSch, node: Option<u32>, reason: TdrReason) -> bool {
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

    /// The state of an engine, or of the adapter, with everybody innocent.
    pub(super) fn describe(&self, sch: &VidSch, node: Option<u32>, reason: TdrReason) -> TdrReport {
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
    pub(super) fn collect_debug_information(&self, adapter: &RenderAdapter, code: u32, report: &mut TdrReport) {
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

//! Reset of one engine that runs packets. [tdr-changes-in-windows-8; d3dkmddi: DXGKDDI_QUERYDEPENDENTENGINEGROUP,
//! DXGKDDI_QUERYENGINESTATUS, DXGKDDI_RESETENGINE]
//!
//! A preemption that is not done within TdrDelay is the timeout ([`super::watch`]). Then, in this order: at device level one look at how
//! far the node has come, from which on nothing that the engine says is heard; the end, if nothing is on the hardware; every
//! interrupt and DPC that is under way; what the driver says of the engine and of those that hang together with it;
//! information for the report; the reset. What the driver calls aborted is checked against the look.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nt::lock::lock;
use wddm_ddi::km::*;
use wddm_ddi::status::STATUS_TIMEOUT;

use crate::fence::is_after;
use crate::rescue::Rescue;
use crate::tdr_report::{TdrFate, TdrKind, TdrOutcome, TdrQueue, TdrReport};
use crate::vidsch::{Aborted, Device, DeviceError, Node, PacketContext, RenderAdapter, Snapshot, Suspects, subcode};
use nt::bugcheck::Bugcheck;

use super::report::ENGINE_TIMEOUT;
use super::state::{Aftermath, Tdr};

/// How long engines that a reset hits too may take to let go of their packets. [d3dkmddi: DXGKDDI_QUERYDEPENDENTENGINEGROUP]
const DEPENDENT_LIMIT: Duration = Duration::from_millis(500);

/// A node that gets no packets until its engine was reset.
struct ResetTarget<'a> {
    number: u32,
    node: &'a Node,
    snapshot: Snapshot,
}

/// Result of the reset of one engine.
enum Outcome {
    Done,
    /// The adapter is to be reset.
    Promoted,
    /// The machine has stopped.
    Stopped,
}

impl Tdr {
    /// Steps 3 to 7 for packets that are taken to hang on `number`, and what follows from them. `report` describes the engine.
    pub(super) fn reset_packet_engine(
        &self,
        adapter: &Arc<RenderAdapter>,
        number: u32,
        suspects: &Suspects,
        mut report: TdrReport,
    ) -> Aftermath {
        let sch = adapter.vidsch();
        let Some(node) = sch.nodes().get(number as usize) else { return Aftermath::default() };
        let Some(snapshot) = adapter.at_device_level(|| node.state().begin_reset(suspects)) else {
            self.keep(report);
            return Aftermath::default();
        };
        adapter.flush_interrupts();
        report.responsive = self.ask_engine_status(adapter, number);
        if let (Some(id), Some(true)) = (suspects.oldest, report.responsive) {
            // No contradiction in itself: work that goes on and does not let itself be preempted is reset too.
            self.verifier.log(format!(
                "DxgkDdiQueryEngineStatus of node {number} answered Responsive 1, that its work makes progress, and packet {id:#x} was the oldest there for TdrDelay, was not preempted within \
                 TdrDelay and is reset now [d3dkmddi: DXGK_ENGINESTATUS]"
            ));
        }
        let Some(mask) = self.query_dependent_engines(adapter, number) else { return Aftermath::default() };
        let dependent = self.nodes_of(adapter, number, mask);
        let mut targets = self.reset_targets(adapter, &dependent);
        targets.push(ResetTarget { number, node, snapshot });
        // In the order of their ordinals. [d3dkmddi: DXGKDDI_QUERYDEPENDENTENGINEGROUP]
        targets.sort_by_key(|target| target.number);
        self.collect_debug_information(adapter, ENGINE_TIMEOUT, &mut report);
        *lock(&self.named) = Some(Vec::new());
        let mut aborted = Vec::new();
        let mut works = true;
        for target in &targets {
            match self.reset_one(adapter, target, &mut aborted) {
                Outcome::Done => {}
                Outcome::Promoted => works = false,
                Outcome::Stopped => return Aftermath::default(),
            }
        }
        adapter.flush_interrupts();
        let named = lock(&self.named).take().unwrap_or_default();
        report.outcome = if works { TdrOutcome::EngineReset } else { TdrOutcome::EngineResetFailed };
        let mut lost = self.judge(&mut report, &named);
        lost.extend(self.judge_packets(&mut report, &aborted));
        for (number, node) in dependent.into_iter().chain([(number, node)]) {
            node.state().set_paused(false);
            node.announce();
            sch.dispatch(number);
        }
        sch.hear_again();
        if works && lost.is_empty() {
            self.count_fruitless(number, suspects, &snapshot);
        }
        self.tell(report);
        Aftermath { lost, promoted: (!works).then(|| sch.timeouts().adapter_resets()) }
    }

    /// Counts a reset that has given nothing up: more than TdrLimitCount of these within TdrLimitTime are a driver whose packet never completes.
    fn count_fruitless(&self, number: u32, suspects: &Suspects, snapshot: &Snapshot) {
        if let Some(id) = suspects.oldest {
            let completed = snapshot.last_completed;
            self.rescued(Rescue::FruitlessReset, 1);
            self.verifier.log(format!(
                "DxgkDdiResetEngine of node {number} answered STATUS_SUCCESS with LastAbortedFenceId {completed:#x}, which is the last completed packet, and expected was {id:#x}: that packet was \
                 the oldest there for TdrDelay and was not preempted within TdrDelay [d3dkmddi: DXGKARG_RESETENGINE]"
            ));
        }
        let count = self.count_in(lock(&self.fruitless).entry(number).or_default(), self.clock.now());
        if count > self.settings.limit_count {
            let Snapshot { last_completed, .. } = snapshot;
            let (what, wanted) = match (suspects.oldest, suspects.preemption) {
                (Some(id), _) => (
                    format!("packet {id:#x} of node {number} never completes"),
                    format!("DXGK_INTERRUPT_DMA_COMPLETED with {id:#x}"),
                ),
                (None, preemption) => {
                    let id = preemption.map_or(0, |(id, _)| id);
                    (
                        format!("the preemptions of node {number} are never answered, the last one is {id:#x}"),
                        "DXGK_INTERRUPT_DMA_PREEMPTED with it, also when every packet has ended".to_owned(),
                    )
                }
            };
            self.fail(
                STATUS_TIMEOUT,
                format!(
                    "{what}: DxgkDdiResetEngine has answered STATUS_SUCCESS {count} times within TdrLimitTime and called nothing aborted; \
                     expected is {wanted}, and the last one that was reported is {last_completed:#x}"
                ),
            );
        }
    }

    /// True if the driver says that the engine makes progress; `None` if it does not say.
    pub(super) fn ask_engine_status(&self, adapter: &RenderAdapter, number: u32) -> Option<bool> {
        let (node, engine) = adapter.caps().ordinals(number);
        let mut args = DXGKARG_QUERYENGINESTATUS {
            NodeOrdinal: node,
            EngineOrdinal: engine,
            EngineStatus: DXGK_ENGINESTATUS::new(),
        };
        let status = self.within_class(adapter, "DxgkDdiQueryEngineStatus", || {
            adapter.miniport.query_engine_status(adapter.context().raw(), &mut args)
        });
        adapter.vidsch().must_not_fail(status);
        status.is_success().then(|| args.EngineStatus.Responsive())
    }

    /// The other nodes of the same engine that a reset of this one hits, one bit each by ordinal. `None` after the bugcheck that an answer without the node itself, or with one that does not exist, is.
    fn query_dependent_engines(&self, adapter: &RenderAdapter, number: u32) -> Option<u64> {
        let (node, engine) = adapter.caps().ordinals(number);
        let mut args =
            DXGKARG_QUERYDEPENDENTENGINEGROUP { NodeOrdinal: node, EngineOrdinal: engine, DependentNodeOrdinalMask: 0 };
        let status = self.within_class(adapter, "DxgkDdiQueryDependentEngineGroup", || {
            adapter.miniport.query_dependent_engine_group(adapter.context().raw(), &mut args)
        });
        adapter.vidsch().must_not_fail(status);
        if !status.is_success() {
            return None;
        }
        let (mask, own) = (args.DependentNodeOrdinalMask, 1 << (node & 63));
        let count = adapter.caps().nodes_of_engine();
        let foreign = u64::MAX.checked_shl(count).map_or(0, |others| mask & others);
        // The driver reads all ones of a function that is gone.
        if adapter.is_absent() {
            return None;
        }
        let rule = if mask & own == 0 {
            "without that node".to_owned()
        } else if foreign != 0 {
            format!("and the bits {foreign:#x} of it are of no node, for physical adapter {engine} has {count} of them")
        } else {
            return Some(mask & !own);
        };
        self.verifier.raise(Bugcheck::scheduler(
            subcode::DEPENDENT_ENGINES,
            mask,
            u64::from(node),
            u64::from(engine),
            format!(
                "DxgkDdiQueryDependentEngineGroup answered DependentNodeOrdinalMask {mask:#x} for node {node}, {rule} [d3dkmddi: DXGKARG_QUERYDEPENDENTENGINEGROUP]"
            ),
        ));
        None
    }

    /// Nodes by ordinal on the engine of node `number`.
    fn nodes_of<'a>(&self, adapter: &'a RenderAdapter, number: u32, mask: u64) -> Vec<(u32, &'a Node)> {
        let caps = adapter.caps();
        let (_, engine) = caps.ordinals(number);
        let ordinals = (0..caps.nodes_of_engine().min(64)).filter(|ordinal| mask >> ordinal & 1 != 0);
        let nodes = ordinals.filter_map(|ordinal| caps.node_at(ordinal, engine));
        nodes.filter_map(|node| Some((node, adapter.vidsch().nodes().get(node as usize)?))).collect()
    }

    /// Takes packets off nodes that the reset hits too, and keeps them off; those that did not let go in time get no more packets, and are reset with it.
    fn reset_targets<'a>(&self, adapter: &RenderAdapter, dependent: &[(u32, &'a Node)]) -> Vec<ResetTarget<'a>> {
        for (number, node) in dependent {
            node.state().set_paused(true);
            node.state().probe(Duration::ZERO);
            adapter.vidsch().dispatch(*number);
        }
        adapter.flush_interrupts();
        let mut targets = Vec::new();
        for &(number, node) in dependent {
            if !adapter.vidsch().wait_node(number, DEPENDENT_LIMIT, |state| state.is_off_hardware())
                && let Some(snapshot) = adapter.at_device_level(|| node.state().begin_reset_of_all())
            {
                targets.push(ResetTarget { number, node, snapshot });
            }
        }
        targets
    }

    /// Step 7 for one node, and the check of what the driver calls aborted.
    fn reset_one(
        &self,
        adapter: &RenderAdapter,
        target: &ResetTarget<'_>,
        aborted: &mut Vec<Arc<PacketContext>>,
    ) -> Outcome {
        let ResetTarget { number, node, snapshot } = target;
        let (ordinal, engine) = adapter.caps().ordinals(*number);
        let mut args = DXGKARG_RESETENGINE { NodeOrdinal: ordinal, EngineOrdinal: engine, LastAbortedFenceId: 0 };
        let status = self.within_class(adapter, "DxgkDdiResetEngine", || {
            adapter.miniport.reset_engine(adapter.context().raw(), &mut args)
        });
        if self.verifier.is_stopped() {
            return Outcome::Stopped;
        }
        if !status.is_success() {
            self.tell_refusal(status, *number);
            return Outcome::Promoted;
        }
        let id = args.LastAbortedFenceId;
        let Snapshot { last_completed, last_submitted } = *snapshot;
        let within = !is_after(last_completed, id) && !is_after(id, last_submitted);
        let ended = adapter.at_device_level(|| {
            adapter.vidsch().timeouts().note_engine_reset(*number);
            node.state().end_reset(id)
        });
        match ended {
            Ok(Aborted::Nothing) if within => Outcome::Done,
            Ok(Aborted::Render(context)) if within => {
                aborted.push(context);
                Outcome::Done
            }
            // It cannot be done again without what it has done so far.
            Ok(Aborted::Paging) if within => Outcome::Promoted,
            // The driver reads all ones of a function that is gone.
            _ if adapter.is_absent() => Outcome::Promoted,
            _ => {
                self.verifier.raise(Bugcheck::scheduler(
                    subcode::INVALID_ABORTED_FENCE,
                    u64::from(id),
                    u64::from(last_completed),
                    u64::from(last_submitted),
                    format!(
                        "DxgkDdiResetEngine of node {number} answered LastAbortedFenceId {id:#x}, and expected was {last_completed:#x}, the last that is complete, if nothing was aborted, or else the \
                         SubmissionFenceId of a packet on the hardware, of which {last_submitted:#x} is the last submitted [d3dkmddi: DXGKARG_RESETENGINE]"
                    ),
                ));
                Outcome::Stopped
            }
        }
    }

    /// Writes down whose packets were given up, and returns the devices that are lost by it.
    fn judge_packets(&self, report: &mut TdrReport, aborted: &[Arc<PacketContext>]) -> Vec<(Arc<Device>, DeviceError)> {
        for context in aborted {
            let owner = &context.device().process.owner();
            let handle = context.user_handle().load(Ordering::Acquire);
            let same =
                |line: &&mut TdrQueue| line.kind == TdrKind::Packets && line.process == *owner && line.handle == handle;
            for line in report.queues.iter_mut().filter(same) {
                line.fate = TdrFate::Guilty;
            }
            if self.count_offence(owner, report.time) {
                report.blocked.push(owner.clone());
            }
        }
        aborted.iter().map(|context| (Arc::clone(context.device()), DeviceError::Hung)).collect()
    }
}

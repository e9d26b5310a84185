//! Reset of one engine whose queues the hardware schedules. [d3dkmddi: DXGKARG_RESETHWENGINE, DXGKARGCB_INVALIDATEHWCONTEXT,
//! DXGKARG_RESUMEHWENGINE]

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nt::lock::lock;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::rescue::Rescue;
use crate::tdr_report::{TdrFate, TdrKind, TdrOutcome, TdrQueue, TdrReason, TdrReport};
use crate::vidsch::{Complaint, Device, DeviceError, HwContext, HwQueue, RenderAdapter, Subject, Suspects};

use super::report::ENGINE_TIMEOUT;
use super::state::{Aftermath, InDriver, Invalidated, Tdr};
use super::suspects::{Uninvalidated, put_back, unfinished};

impl Tdr {
    /// Resets an engine, unless nothing hangs there any more, and notes what happened. Devices of contexts that the driver names are in
    /// error when this returns; the caller loses them.
    pub(super) fn reset_engine(&self, complaint: &Complaint) -> Aftermath {
        let &Complaint { node, reason, ref subject, .. } = complaint;
        let Ok(adapter) = self.adapter() else { return Aftermath::default() };
        if adapter.is_gone() {
            return Aftermath::default();
        }
        let sch = adapter.vidsch();
        let Some(_one) = self.begin_recovery(&adapter) else { return Aftermath::default() };
        // Reports that are on their way are heard before anybody is judged.
        adapter.flush_interrupts();
        if self.verifier.is_stopped() || sch.timeouts().is_over(complaint) || !self.may_recover(sch, Some(node), reason)
        {
            return Aftermath::default();
        }
        let mut report = self.describe(sch, Some(node), reason);
        let _working = adapter.use_node(node);
        let mut probed = Vec::new();
        let suspects = match subject {
            Subject::Context(_) => None,
            Subject::Packets(suspects) => Some(*suspects),
            Subject::Engine => self.suspected_packets(&adapter, node, &mut probed),
        };
        if let Some(suspects) = suspects {
            return match self.ask_packets_off(&adapter, node, suspects) {
                Some(suspects) => self.reset_packet_engine(&adapter, node, &suspects, report),
                None => self.keep_report(report),
            };
        }
        let works = |queue: &TdrQueue| queue.kind != TdrKind::Packets && queue.is_busy();
        let idle = reason == TdrReason::EngineTimeout && !report.queues.iter().any(works);
        if idle || !adapter.caps().features.hardware_scheduling {
            return self.keep_report(report);
        }
        report.responsive = self.ask_engine_status(&adapter, node);
        self.collect_debug_information(&adapter, ENGINE_TIMEOUT, &mut report);
        let mut queues = queues_of_suspended_contexts(&adapter, node);
        let (works, named) = self.reset_and_resume(&adapter, node);
        if works && named.is_empty() {
            // Work that was done before the reset came to it costs nobody anything.
            queues.retain(has_work);
            self.count_uninvalidated(node, &queues);
        }
        report.outcome = if works { TdrOutcome::EngineReset } else { TdrOutcome::EngineResetFailed };
        let lost = self.judge(&mut report, &named);
        self.tell(report);
        // The contexts that were suspended because packets on the same engine made no progress are resumed.
        probed.iter().filter(|context| context.device().error().is_none()).for_each(put_back);
        Aftermath { lost, promoted: (!works).then(|| sch.timeouts().adapter_resets()) }
    }

    /// Nothing is to be reset.
    fn keep_report(&self, report: TdrReport) -> Aftermath {
        self.keep(report);
        Aftermath::default()
    }

    /// What stands still on an engine that is said to hang: packets, unless there are none or a hardware context does not let go of it.
    /// Such ones are added to `probed`, and stay asked to.
    fn suspected_packets(
        &self,
        adapter: &RenderAdapter,
        number: u32,
        probed: &mut Vec<Arc<HwContext>>,
    ) -> Option<Suspects> {
        let suspects = adapter.vidsch().nodes().get(number as usize)?.state().suspects()?;
        let mut asked = Vec::new();
        for context in adapter.vidsch().hw_contexts() {
            if context.node() != number || context.is_destroyed() || context.device().error().is_some() {
                continue;
            }
            // One that is off it already is so for somebody else's reason.
            if let Ok(Some(fence)) = context.begin_suspension() {
                asked.push((context, fence));
            }
        }
        adapter.flush_interrupts();
        for (context, fence) in asked {
            if context.has_suspended(fence) {
                put_back(&context);
            } else {
                probed.push(context);
            }
        }
        probed.is_empty().then_some(suspects)
    }

    /// A preemption is tried before packets count as hung. What of the suspects does not go; `None` if they are off the hardware.
    fn ask_packets_off(&self, adapter: &RenderAdapter, number: u32, suspects: Suspects) -> Option<Suspects> {
        let node = adapter.vidsch().nodes().get(number as usize)?;
        if suspects.preemption.is_some() {
            return Some(suspects);
        }
        node.state().probe(Duration::ZERO);
        adapter.vidsch().dispatch(number);
        adapter.flush_interrupts();
        node.state().suspects().filter(|now| now.oldest == suspects.oldest)
    }

    /// One recovery at a time; `None` while the adapter is being reset, which ends what was to be recovered from. Whoever resets the
    /// adapter waits for the caller to leave, so the caller does not wait for that.
    fn begin_recovery(&self, adapter: &RenderAdapter) -> Option<InDriver<'_>> {
        while !adapter.vidsch().timeouts().is_abandoning() {
            match self.recovering.try_lock() {
                Some(one) => return Some(self.in_driver(one)),
                None => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        None
    }

    /// The two DDIs, and the contexts that the driver has named in between.
    fn reset_and_resume(&self, adapter: &RenderAdapter, node: u32) -> (bool, Vec<Invalidated>) {
        *lock(&self.named) = Some(Vec::new());
        let (ordinal, engine) = adapter.caps().ordinals(node);
        let mut args = DXGKARG_RESETHWENGINE { NodeOrdinal: ordinal, EngineOrdinal: engine };
        adapter.vidsch().timeouts().begin_engine_reset(node);
        let status = self.within_delay("DxgkDdiResetHwEngine", || {
            adapter.miniport.reset_hw_engine(adapter.context().raw(), &mut args)
        });
        let mut works = status.is_success();
        if !works {
            self.tell_refusal(status, node);
        }
        if works {
            // The engine may report nothing from the moment in which nobody is at device level until it is resumed. Reports from
            // before are handled first.
            let timeouts = adapter.vidsch().timeouts();
            adapter.at_device_level(|| {
                timeouts.note_engine_reset(node);
                timeouts.set_silent(node, true);
            });
            adapter.flush_interrupts();
            adapter.at_device_level(|| timeouts.set_silent(node, false));
            let mut args = DXGKARG_RESUMEHWENGINE { NodeOrdinal: ordinal, EngineOrdinal: engine };
            let status = self.within_delay("DxgkDdiResumeHwEngine", || {
                adapter.miniport.resume_hw_engine(adapter.context().raw(), &mut args)
            });
            works = status.is_success();
            if !works {
                self.tell_refusal(status, node);
            }
            // The engine was silent, about its log too.
            adapter.vidsch().renew_scheduling_log(node);
        }
        if let Some(node) = adapter.vidsch().nodes().get(node as usize) {
            // Packets could not leave an engine that hung.
            node.state().renew_preemption(self.clock.now());
        }
        adapter.flush_interrupts();
        (works, lock(&self.named).take().unwrap_or_default())
    }

    /// Counts a reset after which no context was invalidated although one was held by the engine. More than TdrLimitCount of them on a node within TdrLimitTime are a
    /// driver that does not invalidate what its resets cost. [d3dkmddi: DXGKDDI_RESETHWENGINE]
    fn count_uninvalidated(&self, node: u32, queues: &[Arc<HwQueue>]) {
        let Some(first) = queues.first() else { return };
        self.rescued(Rescue::FruitlessReset, 1);
        self.verifier.log(format!(
            "DxgkDdiResetHwEngine of node {node} answered STATUS_SUCCESS, DxgkCbInvalidateHwContext was called for no context, and expected was a call with hHwContext {:p}, which did \
             not leave the engine before: {} [d3dkmddi: DXGKDDI_RESETHWENGINE]",
            first.context().handles().0.raw(),
            unfinished(first)
        ));
        let now = self.clock.now();
        for queue in queues {
            let progress = queue.progress().current();
            let same =
                |it: &Uninvalidated| it.progress == progress && std::ptr::eq(it.queue.as_ptr(), &raw const **queue);
            let mut known = lock(&self.uninvalidated);
            if !known.iter().any(same) {
                known.push(Uninvalidated { queue: Arc::downgrade(queue), progress, since: now });
            }
        }
        let count = self.count_in(lock(&self.fruitless).entry(node).or_default(), now);
        if count > self.settings.limit_count {
            self.fail_uninvalidated(first, &format!("{count} times within TdrLimitTime"));
        }
    }

    /// Stops the machine for a queue that has not gone on for TdrLimitCount times TdrDelay since a reset after which no context was invalidated: it would wait for ever.
    pub(super) fn look_at_uninvalidated(&self) {
        let limit = self.settings.delay * self.settings.limit_count;
        let now = self.clock.now();
        let known = core::mem::take(&mut *lock(&self.uninvalidated));
        let (mut still, mut late) = (Vec::new(), None);
        for it in known {
            let Some(queue) = it.queue.upgrade() else { continue };
            let lost = queue.is_destroyed() || queue.context().device().error().is_some();
            if lost || queue.progress().current() != it.progress {
                continue;
            }
            if now.saturating_sub(it.since) > limit {
                late = Some(queue);
            }
            still.push(it);
        }
        lock(&self.uninvalidated).extend(still);
        if let Some(queue) = late {
            self.fail_uninvalidated(&queue, "and the queue has not gone on since for TdrLimitCount times TdrDelay");
        }
    }

    fn fail_uninvalidated(&self, queue: &HwQueue, how: &str) {
        let node = queue.context().node();
        let reason = format!(
            "a hardware queue never goes on: DxgkDdiResetHwEngine of node {node} has answered STATUS_SUCCESS and invalidated no context with DxgkCbInvalidateHwContext, {how}; {}",
            unfinished(queue)
        );
        self.fail(STATUS_TIMEOUT, reason);
    }

    /// Writes down which process lost what, and returns the devices that are lost by it.
    pub(super) fn judge(&self, report: &mut TdrReport, named: &[Invalidated]) -> Vec<(Arc<Device>, DeviceError)> {
        let mut lost = Vec::new();
        let mut guilty = HashSet::new();
        for Invalidated { context, collateral } in named {
            let device = context.device();
            for queue in context.queues() {
                let fate = if *collateral { TdrFate::Collateral } else { TdrFate::Guilty };
                report.set_fate(&device.process.owner(), queue.user_handle().load(Ordering::Acquire), fate);
            }
            if !collateral
                && guilty.insert(device.process.owner())
                && self.count_offence(&device.process.owner(), report.time)
            {
                report.blocked.push(device.process.owner());
            }
            lost.push((Arc::clone(device), if *collateral { DeviceError::Reset } else { DeviceError::Hung }));
        }
        lost
    }

    /// DxgkCbInvalidateHwContext: the context lost its state in an engine reset. The one that caused it and those it
    /// took along both lose their device; what differs is the reason. [d3dkmddi: DXGKCB_INVALIDATEHWCONTEXT]
    pub(super) fn invalidate(&self, args: &DXGKARGCB_INVALIDATEHWCONTEXT) -> NTSTATUS {
        // The driver names contexts by the handle that it was given. [d3dkmddi: DXGKARGCB_INVALIDATEHWCONTEXT]
        let Ok(adapter) = self.adapter() else { return STATUS_INVALID_PARAMETER };
        let Some(context) = adapter.vidsch().hw_context_of(args.hHwContext) else {
            let contexts = adapter.vidsch().hw_contexts();
            let of_driver = contexts.iter().find(|context| context.handles().1.raw() == args.hHwContext);
            let hint = of_driver
                .map(|context| format!(", which is {:p} for this one of the driver's own", context.handles().0.raw()));
            self.verifier.log(format!(
                "DxgkCbInvalidateHwContext answers {STATUS_INVALID_PARAMETER}: hHwContext {:p} is no hardware context of the adapter; expected is the handle of the system, which \
                 hHwContext had when DxgkDdiCreateHwContext was called{} [d3dkmddi: DXGKARGCB_INVALIDATEHWCONTEXT]",
                args.hHwContext,
                hint.unwrap_or_default()
            ));
            return STATUS_INVALID_PARAMETER;
        };
        let collateral = args.Flags.CollateralDamage();
        let error = if collateral { DeviceError::Reset } else { DeviceError::Hung };
        let device = Arc::clone(context.device());
        device.set_error(error);
        match lock(&self.named).as_mut() {
            Some(named) => named.push(Invalidated { context, collateral }),
            None => adapter.vidsch().lose_soon(device, error),
        }
        STATUS_SUCCESS
    }
}

/// The queues with work of a node whose contexts were asked off their engine and have not left it.
fn queues_of_suspended_contexts(adapter: &RenderAdapter, node: u32) -> Vec<Arc<HwQueue>> {
    let contexts = adapter.vidsch().hw_contexts().into_iter().filter(|context| {
        let alive = !context.is_destroyed() && context.device().error().is_none();
        context.node() == node && alive && !context.has_left()
    });
    let queues = contexts.flat_map(|context| context.queues());
    queues.filter(has_work).collect()
}

/// True for a queue that is there and whose work is not done.
fn has_work(queue: &Arc<HwQueue>) -> bool {
    !queue.is_destroyed() && !queue.progress().is_reached(queue.last_queued())
}

//! Reset of one engine whose queues the hardware schedules. [d3dkmddi: DXGKARG_RESETHWENGINE, DXGKARGCB_INVALIDATEHWCONTEXT,
//! DXGKARG_RESUMEHWENGINE]

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nt::lock::lock;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::tdr_report::{TdrFate, TdrKind, TdrOutcome, TdrQueue, TdrReason, TdrReport};
use crate::vidsch::{Complaint, Device, DeviceError, HwContext, RenderAdapter, Subject, Suspects};

use super::watch::put_back;
use super::{Aftermath, InDriver, Invalidated, Tdr};

/// VIDEO_ENGINE_TIMEOUT_DETECTED, a live dump. [debugger: 0x141]
pub(super) const ENGINE_TIMEOUT: u32 = 0x141;

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
        if self.verifier.is_stopped() || sch.timeouts().is_over(complaint) || !self.may_recover(sch, node, reason) {
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
        report.debug_information = self.collect_debug_information(ENGINE_TIMEOUT);
        report.live_dump = Some(ENGINE_TIMEOUT);
        let (works, named) = self.reset_and_resume(&adapter, node);
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
        let status = self.within_delay("DxgkDdiResetHwEngine", || {
            adapter.miniport.reset_hw_engine(adapter.context().raw(), &mut args)
        });
        let mut works = status.is_success();
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

    /// Writes down who lost what, and returns the devices that are lost by it.
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
        let Some(context) = adapter.vidsch().hw_context_of(args.hHwContext) else { return STATUS_INVALID_PARAMETER };
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

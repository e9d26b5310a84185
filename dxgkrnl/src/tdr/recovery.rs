//! What the scheduler knows of recovery, the look for timeouts, and the way from a complaint to the loss of devices.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nt::irql::Raised;
use nt::lock::lock;
use wddm_ddi::km::*;
use wddm_ddi::nt::DISPATCH_LEVEL;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use crate::config::TdrLevel;
use crate::rescue::Rescue;
use crate::tdr_report::{TdrReason, TdrReport};
use crate::vidsch::{Complaint, Device, Recovery, RenderAdapter, Subject, Waiter};

use super::state::Tdr;

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
}

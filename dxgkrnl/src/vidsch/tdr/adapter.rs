//! Reset of the whole adapter. [timeout-detection-and-recovery; d3dkmddi: DXGKDDI_RESETFROMTIMEOUT, DXGKDDI_RESTARTFROMTIMEOUT]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::vidsch::{Device, DeviceError};

use super::super::VidSch;
use super::{TdrFate, TdrOutcome, TdrReason};

/// VIDEO_TDR_TIMEOUT_DETECTED, a live dump. [debugger: 0x117]
const ADAPTER_TIMEOUT: u32 = 0x117;

impl VidSch {
    /// Stops the adapter and starts it again. Every device is lost, with the reason that it had or `Reset`; the system's own work goes
    /// on. Called with nothing held. Nothing happens if the adapter was reset more often than `resets`: whoever asked for it meant what
    /// that has ended.
    ///
    /// More than TdrLimitCount of these within TdrLimitTime, a thread that does not leave the driver within TdrDdiDelay, and a driver
    /// that does not come back are bug check 0x116.
    pub(in super::super) fn reset_adapter(&self, reason: TdrReason, resets: u64) {
        let Ok(adapter) = self.adapter() else { return };
        let one = lock(&self.tdr.recovering);
        // Nobody brings back what was pulled out.
        if self.verifier.is_stopped() || adapter.is_gone() || self.tdr.adapter_resets() != resets {
            return;
        }
        // A function that does not answer in configuration space is not reset: plug and play is about to tell of its removal.
        if !adapter.is_there() {
            drop(one);
            self.abandon_hardware(&adapter);
            return;
        }
        let now = self.tdr.clock.now();
        let count = self.tdr.count_in(&mut lock(&self.tdr.resets), now);
        if count > self.tdr.settings.limit_count {
            self.fail(
                STATUS_TIMEOUT,
                format!("{count} timeouts of the adapter within TdrLimitTime are more than TdrLimitCount"),
            );
            return;
        }
        let mut report = self.describe(None, reason);
        // Whoever comes now waits until the adapter works again; whoever waits in here is released below.
        let barred = adapter.machine.gate().bar();
        self.tdr.abandoning.store(true, Ordering::Release);
        let devices = self.devices();
        for device in &devices {
            device.set_error(DeviceError::Reset);
            self.release(device);
        }
        let contexts = self.contexts.all();
        for queue in contexts.iter().flat_map(|context| context.queues()) {
            let owner = &queue.context().device().process.owner;
            let handle = queue.user_handle().load(Ordering::Acquire);
            let guilty = queue.context().device().error() == Some(DeviceError::Hung);
            let same = |line: &&mut super::TdrQueue| line.process == *owner && line.handle == handle;
            for line in report.queues.iter_mut().filter(same) {
                line.fate = if guilty { TdrFate::Guilty } else { TdrFate::Collateral };
            }
        }
        for context in self.packet_contexts.all() {
            let owner = &context.device().process.owner;
            let handle = context.user_handle().load(Ordering::Acquire);
            let guilty = context.device().error() == Some(DeviceError::Hung);
            let same = |line: &&mut super::TdrQueue| line.process == *owner && line.handle == handle;
            for line in report.queues.iter_mut().filter(same) {
                line.fate = if guilty { TdrFate::Guilty } else { TdrFate::Collateral };
            }
        }
        let done = self.restart(&mut report);
        self.tdr.abandoning.store(false, Ordering::Release);
        drop(barred);
        if !done {
            return;
        }
        report.outcome = TdrOutcome::AdapterReset;
        self.verifier.log(report.to_string());
        self.tdr.keep(report);
        let _powered = adapter.machine.gate().enter(&adapter.machine);
        for device in &devices {
            self.lose_device(device, DeviceError::Reset);
        }
    }

    /// Every device of the adapter.
    fn devices(&self) -> Vec<Arc<Device>> {
        let mut devices = lock(&self.tdr.devices);
        devices.retain(|device| device.strong_count() != 0);
        devices.iter().filter_map(Weak::upgrade).collect()
    }

    /// A device was created.
    pub(crate) fn note_device(&self, device: &Arc<Device>) {
        let mut devices = lock(&self.tdr.devices);
        devices.retain(|device| device.strong_count() != 0);
        devices.push(Arc::downgrade(device));
    }

    /// With nobody else in the driver: information, stop, every packet complete, start. False after the bugcheck.
    fn restart(&self, report: &mut super::TdrReport) -> bool {
        let Ok(adapter) = self.adapter() else { return false };
        let begun = self.tdr.clock.now();
        let _closed = loop {
            // Whoever waits for a packet in here leaves.
            self.abandon_packets();
            if let Some(closed) = adapter.machine.gate().try_close() {
                break closed;
            }
            if self.tdr.clock.now().saturating_sub(begun) > self.tdr.settings.ddi_delay {
                self.fail(STATUS_TIMEOUT, "a thread did not leave the driver within TdrDdiDelay".to_owned());
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        };
        report.live_dump = Some(ADAPTER_TIMEOUT);
        report.debug_information = self.collect_debug_information(ADAPTER_TIMEOUT);
        if let Some(memory) = adapter.memory_manager() {
            memory.prepare_reset();
        }
        if adapter.restore_function() {
            self.verifier.log("the function had been reset; it has its addresses again".to_owned());
        }
        let status = self
            .within_delay("DxgkDdiResetFromTimeout", || adapter.miniport.reset_from_timeout(adapter.context().raw()));
        if !status.is_success() {
            self.fail(status, format!("DxgkDdiResetFromTimeout answered {status}"));
            return false;
        }
        self.abandon_packets();
        if let Some(memory) = adapter.memory_manager() {
            memory.lose_contents();
        }
        let status = self.within_delay("DxgkDdiRestartFromTimeout", || {
            adapter.miniport.restart_from_timeout(adapter.context().raw())
        });
        if !status.is_success() {
            self.fail(status, format!("DxgkDdiRestartFromTimeout answered {status}"));
            return false;
        }
        // What is handed over from here on is not for the engines that were stopped: page tables may be written by the GPU.
        self.tdr.abandoning.store(false, Ordering::Release);
        if let Some(memory) = adapter.memory_manager() {
            memory.end_reset();
        }
        adapter.flush_interrupts();
        self.hear_again();
        adapter.at_device_level(|| {
            for resets in self.tdr.engine_resets.iter().chain([&self.tdr.adapter_resets]) {
                resets.fetch_add(1, Ordering::AcqRel);
            }
        });
        !self.verifier.is_stopped()
    }

    /// Everything that was submitted counts as complete. [tdr-changes-in-windows-8]
    fn abandon_packets(&self) {
        for node in &self.nodes {
            node.state().start_over();
            node.announce();
        }
    }
}

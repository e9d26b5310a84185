//! Reset of the whole adapter. [timeout-detection-and-recovery; d3dkmddi: DXGKDDI_RESETFROMTIMEOUT, DXGKDDI_RESTARTFROMTIMEOUT]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::config::TdrDebugMode;
use crate::refusal::DriverAnswer;
use crate::tdr_report::{TdrFate, TdrOutcome, TdrReason, TdrReport};
use crate::vidsch::{Device, DeviceError, RenderAdapter, VidSch, Waiter};

use super::state::Tdr;

/// VIDEO_TDR_TIMEOUT_DETECTED, a live dump. [debugger: 0x117]
const ADAPTER_TIMEOUT: u32 = 0x117;

impl Tdr {
    /// Stops the adapter and starts it again. Every device is lost, with the reason that it had or `Reset`; the system's own work goes
    /// on. Called with nothing held. Nothing happens if the adapter was reset more often than `resets`: whoever asked for it meant what
    /// that has ended.
    ///
    /// More than TdrLimitCount of these within TdrLimitTime, a thread that does not leave the driver within TdrDdiDelay, and a driver
    /// that does not come back are bug check 0x116.
    pub(super) fn reset(&self, waiter: Waiter, reason: TdrReason, resets: u64) {
        let Ok(adapter) = self.adapter() else { return };
        let sch = adapter.vidsch();
        let one = self.in_driver(lock(&self.recovering));
        // Nobody brings back what was pulled out.
        if self.verifier.is_stopped() || adapter.is_gone() || sch.timeouts().adapter_resets() != resets {
            return;
        }
        // A function that does not answer in configuration space is not reset: plug and play is about to tell of its removal.
        if !adapter.is_there() {
            drop(one);
            self.abandon(&adapter);
            return;
        }
        let now = self.clock.now();
        let count = self.count_in(&mut lock(&self.resets), now);
        if count > self.settings.limit_count && sch.timeouts().debug_mode() != TdrDebugMode::Always {
            self.fail(
                STATUS_TIMEOUT,
                format!(
                    "{count} timeouts of the adapter within TdrLimitTime are more than TdrLimitCount; the last one: {reason}{}",
                    standing(sch)
                ),
            );
            return;
        }
        let mut report = self.describe(sch, None, reason);
        // Whoever comes now waits until the adapter works again; whoever waits in here is released below.
        let barred = adapter.machine.gate().bar();
        sch.timeouts().set_abandoning(true);
        let devices = self.devices();
        for device in &devices {
            device.set_error(DeviceError::Reset);
            sch.release(device);
        }
        note_fates(sch, &mut report);
        let done = self.restart(&adapter, &mut report);
        sch.timeouts().set_abandoning(false);
        drop(barred);
        if !done {
            return;
        }
        report.outcome = TdrOutcome::AdapterReset;
        self.tell(report);
        let _powered = adapter.machine.gate().enter(&adapter.machine);
        for device in &devices {
            sch.lose_device_by(waiter, device, DeviceError::Reset);
        }
    }

    /// True for STATUS_SUCCESS; whatever else one of the two functions answers stops the machine. On one that has stopped already nobody was asked.
    /// [d3dkmddi: DXGKDDI_RESETFROMTIMEOUT, DXGKDDI_RESTARTFROMTIMEOUT]
    fn is_handled(&self, answer: DriverAnswer) -> bool {
        let handled = answer.status() == STATUS_SUCCESS;
        if !handled && !self.verifier.is_stopped() {
            let page =
                if answer.ddi() == "DxgkDdiResetFromTimeout" { "RESETFROMTIMEOUT" } else { "RESTARTFROMTIMEOUT" };
            let told = format!("{answer}, and expected was STATUS_SUCCESS [d3dkmddi: DXGKDDI_{page}]");
            self.fail(answer.status(), told);
        }
        handled
    }

    /// Every device of the adapter.
    fn devices(&self) -> Vec<Arc<Device>> {
        let mut devices = lock(&self.devices);
        devices.retain(|device| device.strong_count() != 0);
        devices.iter().filter_map(Weak::upgrade).collect()
    }

    /// With nobody else in the driver: information, stop, every packet complete, start. False after the bugcheck.
    fn restart(&self, adapter: &RenderAdapter, report: &mut TdrReport) -> bool {
        let sch = adapter.vidsch();
        let begun = self.clock.now();
        let _passed = loop {
            // Whoever waits for a packet in here leaves. A thread that waits for a program is not in the driver, and may stay.
            sch.abandon_packets();
            if let Some(passed) = adapter.machine.gate().try_pass() {
                break passed;
            }
            if self.clock.now().saturating_sub(begun) > self.settings.ddi_delay {
                self.fail(STATUS_TIMEOUT, "a thread did not leave the driver within TdrDdiDelay".to_owned());
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        };
        self.collect_debug_information(adapter, ADAPTER_TIMEOUT, report);
        if let Some(memory) = adapter.memory_manager() {
            memory.prepare_reset();
        }
        if adapter.restore_function() {
            self.verifier.log("the function had been reset; it has its addresses again".to_owned());
        }
        let answer = self
            .within_delay("DxgkDdiResetFromTimeout", || adapter.miniport.reset_from_timeout(adapter.context().raw()));
        if !self.is_handled(answer) {
            return false;
        }
        sch.abandon_packets();
        if let Some(memory) = adapter.memory_manager() {
            memory.lose_contents();
        }
        let answer = self.within_delay("DxgkDdiRestartFromTimeout", || {
            adapter.miniport.restart_from_timeout(adapter.context().raw())
        });
        if !self.is_handled(answer) {
            return false;
        }
        // What is handed over from here on is not for the engines that were stopped: page tables may be written by the GPU.
        sch.timeouts().set_abandoning(false);
        if let Some(memory) = adapter.memory_manager() {
            memory.end_reset();
        }
        adapter.flush_interrupts();
        sch.nodes().iter().for_each(|node| node.state().end_adapter_reset());
        sch.hear_again();
        sch.renew_scheduling_logs();
        adapter.at_device_level(|| sch.timeouts().note_adapter_reset());
        !self.verifier.is_stopped()
    }
}

/// The packets that are on the hardware, node by node, with what their drivers have reported last.
fn standing(sch: &VidSch) -> String {
    let nodes = (0..).zip(sch.nodes()).filter_map(|(number, node): (u32, _)| {
        let state = node.state();
        let oldest = state.suspects()?.oldest?;
        let last = state.last_completed();
        Some(format!("; node {number}: DXGK_INTERRUPT_DMA_COMPLETED is expected with {oldest:#x}, and the last one that was reported is {last:#x}"))
    });
    nodes.collect()
}

/// Writes down for every queue and context whether its device was in error as the cause of a timeout already, or is lost with the adapter.
fn note_fates(sch: &VidSch, report: &mut TdrReport) {
    let fate_of = |device: &Device| match device.error() {
        Some(DeviceError::Hung) => TdrFate::Guilty,
        _ => TdrFate::Collateral,
    };
    for queue in sch.hw_contexts().iter().flat_map(|context| context.queues()) {
        let device = queue.context().device();
        report.set_fate(&device.process.owner(), queue.user_handle().load(Ordering::Acquire), fate_of(device));
    }
    for context in sch.packet_contexts() {
        let device = context.device();
        report.set_fate(&device.process.owner(), context.user_handle().load(Ordering::Acquire), fate_of(device));
    }
}

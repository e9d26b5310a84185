//! The idle policy: which time without work leads to lower power states.
//!
//! An engine or device is idle as long as everything that was submitted to it is done and nobody submits anything, calls a thunk that
//! needs it, or returns from a wait. Work that waits for a fence is not done, so whoever waits for such work keeps the device in D0.
//! What user mode shows to the hardware without the system is announced by its last queued values; the last look at those is taken
//! when every doorbell is disconnected, so that a submission either is seen by it or finds its doorbell at retry. A device whose driver declared no
//! power component of the type DXGK_POWER_COMPONENT_D3_TRANSITION stays in D0, as the name of the type suggests; no page says so.
//! [user-mode-work-submission: engine and D-state transitions; gpu-power-management-of-idle-and-active-power]

use nt::lock::lock;

use super::device_power::PowerAction;
use super::idle_since::IdleSince;
use super::object::Adapter;

impl Adapter {
    /// Ways from D0 to D3, and back.
    pub(crate) fn power_transitions(&self) -> (u64, u64) {
        use std::sync::atomic::Ordering::Acquire;
        (self.transitions.0.load(Acquire), self.transitions.1.load(Acquire))
    }

    /// Has engines that were idle for long enter F1, and puts the device into D3 if it was.
    pub(crate) fn look_for_idle(&self) {
        let settings = self.machine.config().power;
        let now = self.machine.config().clock.now();
        if !self.is_running() || self.is_gone() || self.scheduler().is_none() {
            return;
        }
        let mut watch = lock(&self.idle);
        if let Some(limit) = settings.engine_idle_time
            && let Some(_awake) = self.machine.gate().enter_awake()
        {
            watch.nodes.resize(self.caps().nodes.len(), IdleSince::default());
            for (node, since) in (0..).zip(&mut watch.nodes) {
                let idle = self.power().is_in_f0(node).then(|| self.vidsch().trace_of_idle(Some(node))).flatten();
                if since.see(idle, now, limit) {
                    *since = IdleSince::default();
                    self.vidsch().engine_idle(node);
                }
            }
        }
        if let Some(limit) = settings.device_idle_time
            && self.power().allows_d3(self.links().len())
        {
            let idle =
                if self.is_asleep() || self.power().is_used() { None } else { self.vidsch().trace_of_idle(None) };
            let idle = idle.map(|trace| trace.wrapping_add(self.machine.gate().uses()));
            // A thread that is inside at the moment is waited for until the next look.
            if watch.device.see(idle, now, limit)
                && let Some(_closed) = self.machine.gate().try_close()
            {
                watch.device = IdleSince::default();
                // Refused when something came meanwhile.
                let _ = self.sleep_if(PowerAction::None, || self.vidsch().trace_of_idle(None).is_some());
            }
        }
    }
}

//! Device power: D0 and D3 at run time, and who keeps a device in D0.
//!
//! Whoever is about to call DDIs enters the machine's gate, and a device that sleeps is woken first; putting one to sleep waits until
//! nobody is inside. [user-mode-work-submission: D-state transitions]

use std::sync::atomic::Ordering;

use nt::lock::lock;
use wddm_ddi::km::{DEVICE_POWER_STATE, DISPLAY_ADAPTER_HW_ID};
use wddm_ddi::status::*;

use super::asleep::Asleep;
use super::object::Adapter;
use crate::port::{DevicePower, Link};
use nt::bugcheck::Bugcheck;

/// What of the whole system a change of a device's power is part of. In D0 the driver is told nothing of use. [wdm: POWER_ACTION]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PowerAction {
    /// `PowerActionNone`: only this device is not needed.
    None = 0,
    /// `PowerActionSleep`: the machine goes to S3, and devices keep what they said they would.
    Sleep = 2,
    /// `PowerActionHibernate`: devices have no power.
    Hibernate = 3,
}

/// The reason why a device stays in D0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAsleep {
    /// Some work did not leave its engine in time.
    Busy,
    /// There is no memory for what the device would lose.
    NoMemory,
}

impl Adapter {
    fn set_device_power(&self, link: &Link, state: DEVICE_POWER_STATE, action: PowerAction) {
        let status =
            self.miniport.set_power_state(link.context.raw(), DISPLAY_ADAPTER_HW_ID, state, action as i32).status();
        let verifier = self.machine.verifier();
        if !status.is_success() && !verifier.is_stopped() {
            verifier.raise(Bugcheck::fatal(format!(
                "DxgkDdiSetPowerState({}) may not fail, it answered {status}",
                state.0
            )));
        }
    }

    /// D0 to D3: every context is suspended and every packet taken off its node, then every doorbell disconnected, then what the
    /// device would lose leaves it, at run time its D3 transition enters F1, the driver powers down, and last the function goes to D3hot. With the gate closed, so that
    /// nobody else is in a DDI that needs D0. Nothing happens to a device that sleeps.
    ///
    /// # Errors
    /// A [`NotAsleep`]; everything is as it was, but doorbells may be disconnected.
    pub(crate) fn sleep(&self, action: PowerAction) -> Result<(), NotAsleep> {
        self.sleep_if(action, || true)
    }

    /// As [`Adapter::sleep`], if `still` holds when every doorbell is disconnected: nothing can be submitted any more without waking
    /// the device.
    ///
    /// # Errors
    /// As there; [`NotAsleep::Busy`] if `still` did not hold.
    pub(super) fn sleep_if(&self, action: PowerAction, still: impl FnOnce() -> bool) -> Result<(), NotAsleep> {
        let mut asleep = lock(&self.asleep);
        if asleep.is_some() {
            return Ok(());
        }
        let hibernates = action == PowerAction::Hibernate;
        let vidsch = self.vidsch();
        let suspended = vidsch.suspend_everything();
        let (suspended, ready) = match suspended {
            Ok(suspended) => {
                vidsch.disconnect_everything();
                self.vidmm().finish_paging();
                let ready = still() && vidsch.packets_end();
                let ready = if ready { self.vidmm().park(hibernates) } else { Err(STATUS_TIMEOUT) };
                (suspended, ready)
            }
            Err(suspended) => (suspended, Err(STATUS_TIMEOUT)),
        };
        if let Err(status) = ready {
            suspended.iter().for_each(|context| context.resume());
            vidsch.pause_packets(false);
            return Err(if status == STATUS_NO_MEMORY { NotAsleep::NoMemory } else { NotAsleep::Busy });
        }
        let has_work = vidsch.trace_of_idle(None).is_none();
        if action == PowerAction::None {
            self.power().set_d3_transition(self, true);
        }
        // The function that leads goes first, and comes back last. [dispmprt: DXGKDDI_LINK_DEVICE]
        let mut functions = Vec::with_capacity(self.links().len());
        for link in self.links() {
            self.settle_interrupts();
            self.set_device_power(link, DEVICE_POWER_STATE::PowerDeviceD3, action);
            self.settle_interrupts();
            link.function.bus.disconnect_interrupts();
            functions.push(link.function.sleep());
            if hibernates {
                link.function.bus.cut_power();
            }
        }
        *asleep = Some(Asleep { suspended, functions, has_work });
        self.transitions.0.fetch_add(1, Ordering::AcqRel);
        self.machine.gate().note_asleep();
        Ok(())
    }

    /// D3 to D0: the function answers again, the driver powers it up, everything is resident as it was, `between` runs, then the
    /// contexts that were suspended for D3 are resumed. Nothing happens to a device in D0.
    pub(crate) fn wake(&self, between: impl FnOnce()) {
        let mut asleep = lock(&self.asleep);
        let Some(Asleep { suspended, functions, .. }) = asleep.take() else { return };
        if self.is_gone() {
            // Nothing is left to be woken.
            self.machine.gate().note_awake();
            return;
        }
        let links: Vec<(u32, &Link)> = (0..).zip(self.links()).collect();
        for ((place, link), function) in links.into_iter().zip(&functions).rev() {
            link.function.wake(function);
            if let Err(error) = self.connect_vectors(place, link) {
                self.machine.verifier().log(format!("interrupts after D3: {error}"));
            }
            self.set_device_power(link, DEVICE_POWER_STATE::PowerDeviceD0, PowerAction::None);
        }
        self.transitions.1.fetch_add(1, Ordering::AcqRel);
        self.power().set_d3_transition(self, false);
        self.vidmm().unpark(true);
        self.vidsch().renew_monitored_values();
        between();
        for context in suspended {
            if !context.is_destroyed() && context.device().error().is_none() {
                context.resume();
            }
        }
        self.vidsch().pause_packets(false);
        self.machine.gate().note_awake();
        self.vidsch().resume_suspended_soon();
    }

    /// Wakes a device that went to D3 before all work was done: a thread that waits for that work asks for nothing more, and so would not wake it.
    pub(crate) fn wake_for_work(&self) {
        let has_work = lock(&self.asleep).as_ref().is_some_and(|asleep| asleep.has_work);
        if has_work {
            self.wake(|| ());
        }
    }

    /// True if the device is in D3.
    pub(crate) fn is_asleep(&self) -> bool {
        lock(&self.asleep).is_some()
    }
}

impl DevicePower for Adapter {
    fn wake(&self, between: &mut dyn FnMut()) {
        self.wake(between);
    }
}

//! Doorbells of queues for user-mode submission.
//!
//! User mode holds three addresses for good: the doorbell, which shows a physical doorbell while connected and a dummy
//! page otherwise; the status word, read-only; and the last-queued progress value. [user-mode-work-submission:
//! doorbells]
//!
//! To take a doorbell away, the status is written before the page is rotated, and the driver is told last. A store that
//! still reached the physical doorbell is seen by the hardware's last look at it; one that reached the dummy page is
//! followed by a load that finds the new status. To give one, the page is rotated first.

use std::sync::Arc;

use nt::lock::{MutexGuard, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::bar_place::BarPlace;
use crate::rank;
use crate::refusal::{Failure, refused};
use crate::trace::TraceKind;

use super::doorbell_state::{Action, DoorbellEvent, DoorbellState, View};
use super::keep_running::KeptRunning;
use super::objects::hardware::{Doorbell, OnDriver};
use super::objects::render_adapter::RenderAdapter;

/// Attempts to connect a doorbell that loses its physical doorbell again at once, before user mode is told to connect again.
const ATTEMPTS: u32 = 4;

impl Doorbell {
    /// Connects the doorbell. Success with the status RETRY means that it was taken away again meanwhile. [d3dkmddi:
    /// DXGKARG_CONNECTDOORBELL]
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED when the device is lost; STATUS_INVALID_HANDLE when it was destroyed meanwhile;
    /// STATUS_INVALID_PARAMETER for the doorbell of an earlier ring; STATUS_NO_MEMORY when there is no memory for what the engine needs; what the
    /// driver answered.
    pub(crate) fn connect(&self) -> Result<(), Failure> {
        self.queue.check_order();
        self.connect_while_running(&self.adapter.vidsch().keep_running_before_contexts(self.queue.context().device())?)
    }

    /// As [`Doorbell::connect`]; `None` if others have to give up memory for it, or somebody has to be waited for.
    pub(crate) fn connect_if_memory(&self) -> Option<Result<(), Failure>> {
        self.queue.check_order();
        Some(self.connect_while_running(&self.adapter.vidsch().keep_running_if_memory(self.queue.context().device())?))
    }

    /// Contexts of a process that was resumed for the connection are resumed after it. [user-mode-work-submission: D-state transitions]
    fn connect_while_running(&self, _running: &KeptRunning<'_>) -> Result<(), Failure> {
        let exists = self.lock_exists();
        // Back to F0 first; until the connection shows, this keeps the engine there.
        let _working = self.adapter.use_node(self.queue.context().node());
        for _ in 0..ATTEMPTS {
            if !*exists {
                return Err(STATUS_INVALID_HANDLE.into());
            }
            if !self.is_current() && self.state() != DoorbellState::Aborted {
                let why = "another doorbell has taken the place of hDoorbell at its queue";
                return Err(refused(STATUS_INVALID_PARAMETER, why));
            }
            {
                let mut shown = lock(&self.shown);
                match shown.state {
                    DoorbellState::Aborted => return Err(STATUS_DEVICE_REMOVED.into()),
                    DoorbellState::Connected => return Ok(()),
                    _ => self.apply(&mut shown, DoorbellEvent::Connect),
                };
                // From here on the driver may say that it took the doorbell away.
                shown.on_driver = OnDriver::Connected;
            }
            self.queue.note_active();
            self.connect_once()?;
        }
        Ok(())
    }

    fn connect_once(&self) -> Result<(), Failure> {
        let mut args = DXGKARG_CONNECTDOORBELL::zeroed();
        args.hDoorbell = self.kmd.raw();
        args.Flags = DXGKARG_CONNECTDOORBELL_FLAGS::new().with_RequireSecondaryAddress(self.secondary.is_some());
        let answer = self.adapter.miniport.connect_doorbell(&mut args);
        let places = answer.ok().and_then(|()| self.places(&args));
        let mut shown = lock(&self.shown);
        let places = match places {
            Ok(places) => places,
            Err(status) => {
                self.apply(&mut shown, DoorbellEvent::Refused);
                // A driver that answered with nonsense believes it is connected.
                let on_driver = core::mem::replace(&mut shown.on_driver, OnDriver::Disconnected);
                drop(shown);
                if on_driver == OnDriver::Connected && answer.is_success() {
                    self.disconnect_on_driver();
                }
                return Err(status);
            }
        };
        match self.apply(&mut shown, DoorbellEvent::Shown) {
            Action::Show => {
                let windows = [Some(&self.primary), self.secondary.as_ref()].into_iter().flatten();
                let rotated = windows.zip(&places).try_for_each(|(window, place)| window.show(place));
                if rotated.is_err() {
                    self.apply(&mut shown, DoorbellEvent::Taken);
                    shown.on_driver = OnDriver::Disconnected;
                    drop(shown);
                    self.disconnect_on_driver();
                    return Err(STATUS_NO_MEMORY.into());
                }
                self.write_status(args.Status);
                self.note(TraceKind::DoorbellConnected { queue: self.queue_id() });
                Ok(())
            }
            _ if shown.state == DoorbellState::Aborted => {
                drop(shown);
                self.take_away(DoorbellEvent::Abort);
                Err(STATUS_DEVICE_REMOVED.into())
            }
            _ => Ok(()),
        }
    }

    /// The places that the driver answered with, which must be whole pages of a BAR.
    fn places(&self, args: &DXGKARG_CONNECTDOORBELL) -> Result<Vec<BarPlace>, Failure> {
        if !matches!(
            args.Status,
            D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED
                | D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD
        ) {
            self.broken(format!("answered the status {}", args.Status.0));
            return Err(STATUS_DRIVER_INTERNAL_ERROR.into());
        }
        let mut places = Vec::new();
        let asked = [
            (Some(&self.primary), args.KernelCpuVirtualAddress),
            (self.secondary.as_ref(), args.SecondaryKernelCpuVirtualAddress),
        ];
        for (window, address) in asked {
            let Some(window) = window else { continue };
            match window.place(&self.queue.context().device().process, address.addr())? {
                Some(place) => places.push(place),
                None => {
                    self.broken(format!(
                        "answered {address:p}, which is not {} bytes of whole BAR pages",
                        window.mapping.len()
                    ));
                    return Err(STATUS_DRIVER_INTERNAL_ERROR.into());
                }
            }
        }
        Ok(places)
    }

    fn broken(&self, rule: String) {
        self.adapter.vidsch().broken(format!("DxgkDdiConnectDoorbell {rule}"));
    }

    fn disconnect_on_driver(&self) {
        let mut args = DXGKARG_DISCONNECTDOORBELL::zeroed();
        args.hDoorbell = self.kmd.raw();
        self.adapter.vidsch().must_not_fail(self.adapter.miniport.disconnect_doorbell(&args));
    }

    /// Takes the doorbell away; user mode may connect it again. [d3dkmddi: DXGKARG_DISCONNECTDOORBELL]
    pub(crate) fn disconnect(&self) {
        let exists = self.lock_exists();
        if *exists {
            self.take_away(DoorbellEvent::Taken);
        }
    }

    /// Takes the doorbell away because its ring comes to its end. The driver is told even if it was before: so the hardware finds what
    /// user mode wrote since. A suspended process is resumed if it has work. [user-mode-work-submission: normal process termination]
    pub(crate) fn finish(&self) {
        let _running =
            self.adapter.vidsch().keep_running_if_work(self.queue.context().device(), || !self.queue.is_done());
        let exists = self.lock_exists();
        if *exists {
            let _working = self.adapter.use_node(self.queue.context().node());
            self.queue.note_active();
            self.take_away_for_good(DoorbellEvent::Taken);
        }
    }

    /// The device is lost: takes the doorbell away for good.
    pub(crate) fn abort(&self) {
        self.show_abort();
        let exists = self.lock_exists();
        if *exists {
            self.take_away_for_good(DoorbellEvent::Abort);
        }
    }

    /// With `exists` held.
    pub(super) fn take_away(&self, event: DoorbellEvent) {
        let mut shown = lock(&self.shown);
        self.apply(&mut shown, event);
        if shown.on_driver == OnDriver::Connected {
            shown.on_driver = OnDriver::Disconnected;
            drop(shown);
            self.disconnect_on_driver();
        }
    }

    /// As [`Doorbell::take_away`], and the driver is told whatever it was told before; once is enough for a ring without work. What is
    /// in the ring of a suspended process is looked at when that is resumed, and may not be in memory before.
    fn take_away_for_good(&self, event: DoorbellEvent) {
        let mut shown = lock(&self.shown);
        self.apply(&mut shown, event);
        let suspended = self.queue.context().device().process.space.suspension.is_suspended();
        let tells = match shown.on_driver {
            OnDriver::Connected => true,
            OnDriver::Disconnected => !suspended,
            OnDriver::Ended => {
                !suspended && shown.state != DoorbellState::Aborted && self.is_current() && !self.queue.is_done()
            }
        };
        shown.on_driver = if tells { OnDriver::Ended } else { shown.on_driver };
        drop(shown);
        if tells {
            self.disconnect_on_driver();
        }
    }

    /// Disconnects the doorbell and lets the work of its ring end. As long as the guard lives, nobody connects it.
    ///
    /// # Errors
    /// STATUS_GRAPHICS_ALLOCATION_BUSY when the work does not end, or user mode goes on making more; STATUS_INVALID_HANDLE
    /// when it was destroyed meanwhile; the device is lost.
    pub(super) fn run_dry(&self) -> Result<MutexGuard<'_, bool, rank::DoorbellExists>, Failure> {
        let limit = self.adapter.vidsch().timeouts.limit();
        for _ in 0..ATTEMPTS {
            self.finish();
            let queued = [(Arc::clone(self.queue.progress()), self.queue.last_queued())];
            match self.adapter.vidsch().wait_by_clock(&queued, limit) {
                STATUS_SUCCESS => {}
                STATUS_TIMEOUT => break,
                status => return Err(status.into()),
            }
            let exists = self.lock_exists();
            if !*exists {
                return Err(STATUS_INVALID_HANDLE.into());
            }
            // It may have been connected and rung once more before the lock was taken.
            self.take_away(DoorbellEvent::Taken);
            if self.queue.is_idle() {
                return Ok(exists);
            }
        }
        let why = "the queue of hDoorbell did not become idle";
        Err(refused(STATUS_GRAPHICS_ALLOCATION_BUSY, why))
    }

    /// Makes the hardware look at the queue. [d3dkmddi: DXGKARG_NOTIFYWORKSUBMISSION]
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED when the device is lost; STATUS_INVALID_HANDLE when it was destroyed meanwhile; what the
    /// driver answered.
    pub(crate) fn notify(&self) -> Result<(), Failure> {
        let _running = self.adapter.vidsch().keep_running(self.queue.context().device())?;
        let exists = self.lock_exists();
        let _working = self.adapter.use_node(self.queue.context().node());
        if !*exists {
            return Err(STATUS_INVALID_HANDLE.into());
        }
        if self.state() == DoorbellState::Aborted {
            return Err(STATUS_DEVICE_REMOVED.into());
        }
        self.queue.check_order();
        self.queue.note_active();
        let mut args = DXGKARG_NOTIFYWORKSUBMISSION::zeroed();
        args.hHwQueue = self.queue.handles().1.raw();
        self.adapter.miniport.notify_work_submission(&args).ok()
    }
}

impl RenderAdapter {
    /// Connects a doorbell; a device in D3 is brought back to D0 first, and its contexts are resumed after it.
    ///
    /// # Errors
    /// As [`Doorbell::connect`].
    pub(crate) fn connect_doorbell(&self, doorbell: &Doorbell) -> Result<(), Failure> {
        let mut answer = None;
        // Where memory of others has to be evicted for a suspended process, that takes a device in D0 whose contexts run.
        self.wake_device(&mut || answer = doorbell.connect_if_memory());
        answer.unwrap_or_else(|| {
            let _inside = self.machine.gate().enter(&self.machine);
            doorbell.connect()
        })
    }
}

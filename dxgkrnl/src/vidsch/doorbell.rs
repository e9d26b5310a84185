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
use std::sync::atomic::Ordering;

use nt::lock::{Mutex, MutexGuard, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use super::VidSch;
use super::doorbell_memory::{DoorbellWindow, DoorbellWord, Rings};
use super::doorbell_state::{Action, DoorbellEvent, DoorbellState, View};
use super::hw_queue::HwQueue;
use super::process_suspension::KeptRunning;
use crate::bar_place::BarPlace;
use crate::kmd_handle::KmdHandle;
use crate::rank;
use crate::refusal::{Failure, refused};
use crate::trace::TraceKind;
use crate::vidmm::Allocation;
use crate::vidsch::RenderAdapter;
use nt::page::PAGE_SIZE;

/// Attempts to connect a doorbell that loses its physical doorbell again at once, before user mode is told to connect again.
const ATTEMPTS: u32 = 4;
/// Largest doorbell. [d3dkmddi: DXGK_USERMODESUBMISSION_CAPS]
const SIZE_MAX: u32 = 16384;

/// State of a doorbell in the driver, as far as it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnDriver {
    /// It may believe that it is connected, and must be told before it is gone. Telling it once too often is harmless.
    Connected,
    /// It was told that it is not, or took it away itself. What user mode has written since is found when it is told again.
    Disconnected,
    /// It was told when the ring came to its end.
    Ended,
}

/// State of a doorbell towards user mode and towards the driver.
struct Shown {
    state: DoorbellState,
    on_driver: OnDriver,
}

/// The doorbell of a queue for user-mode submission.
pub(crate) struct Doorbell {
    adapter: Arc<RenderAdapter>,
    queue: Arc<HwQueue>,
    system: KmdHandle,
    kmd: KmdHandle,
    rings: Rings,
    primary: DoorbellWindow,
    secondary: Option<DoorbellWindow>,
    /// User mode only reads it.
    status: DoorbellWord,
    last_queued: DoorbellWord,
    /// One thread at a time connects, disconnects or destroys; held across those DDIs. True as long as
    /// the doorbell exists.
    exists: Mutex<bool, rank::DoorbellExists>,
    /// Never held across a DDI: the driver takes doorbells away from inside DxgkDdiConnectDoorbell,
    /// of this or any other doorbell, on the same thread or another.
    shown: Mutex<Shown, rank::DoorbellShown>,
}

/// Arguments of D3DKMTCreateDoorbell.
pub(crate) struct Request<'a> {
    pub(crate) ring: Arc<Allocation>,
    pub(crate) control: Arc<Allocation>,
    pub(crate) secondary: bool,
    /// The queue goes on in these rings, and leaves those of the doorbell it has.
    pub(crate) resize: bool,
    pub(crate) private: &'a mut [u8],
}

impl VidSch {
    /// Creates the doorbell of a queue, disconnected. With `resize` it takes the place of the queue's doorbell once that
    /// one's ring is done; the old doorbell keeps handle and rings until it is destroyed, but connects no more.
    /// [d3dkmddi: DXGKARG_CREATEDOORBELL]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a queue of kernel-mode submission or one that has a doorbell without `resize`,
    /// allocations that are not resident or not of the queue's device, or a secondary address where there is none;
    /// STATUS_GRAPHICS_ALLOCATION_BUSY when the work in the old ring does not end; no memory; what the driver answered.
    pub(crate) fn create_doorbell(
        &self,
        queue: &Arc<HwQueue>,
        mut request: Request<'_>,
    ) -> Result<Arc<Doorbell>, Failure> {
        let _running = self.enter()?;
        let device = queue.context().device();
        let _running = self.keep_running(device)?;
        let (adapter, process) = (&device.adapter, &device.process);
        let _making = lock(&queue.making_doorbell);
        // They stay where they are from here on, and the driver knows them.
        let rings = Rings::new([&request.ring, &request.control])?;
        let caps = check_request(queue, &request)?;
        let primary = DoorbellWindow::new(process, window_size(caps.DoorbellSizeInBytes)?)?;
        let secondary = match request.secondary {
            true => Some(DoorbellWindow::new(process, window_size(caps.SecondaryDoorbellSizeInBytes)?)?),
            false => None,
        };
        let (memory, ram) = (process.kept.memory(), adapter.machine.ram());
        let status = DoorbellWord::new(process, &memory.read(ram)?)?;
        let last_queued = DoorbellWord::new(process, &memory.written(ram)?)?;
        let old = queue.doorbell();
        let old = old.as_deref();
        // Nobody connects the old doorbell until the new one has its place.
        let _quiet = old.map(Doorbell::run_dry).transpose()?;
        let system = self.doorbells.reserve();
        let kmd = self.create_on_driver(queue, &mut request, system)?;
        let doorbell = Arc::new(Doorbell {
            adapter: Arc::clone(adapter),
            queue: Arc::clone(queue),
            system,
            kmd,
            rings,
            primary,
            secondary,
            status,
            last_queued,
            exists: Mutex::new(true),
            shown: Mutex::new(Shown { state: DoorbellState::Disconnected, on_driver: OnDriver::Disconnected }),
        });
        doorbell.write_status(D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY);
        // Progress goes on where it was; user mode raises this before the first work of the new ring.
        doorbell.last_queued.get().store(queue.last_queued(), Ordering::Release);
        self.doorbells.publish(system, &doorbell);
        queue.add_doorbell(&doorbell);
        if !queue.set_doorbell(&doorbell, old) {
            doorbell.destroy();
            let why = "the queue of hHwQueue got another doorbell meanwhile";
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        if queue.is_destroyed() {
            // Whoever destroys the queue waits for this.
            queue.clear_doorbell(&doorbell);
            doorbell.destroy();
            return Err(STATUS_INVALID_HANDLE.into());
        }
        if device.error().is_some() {
            doorbell.abort();
        }
        Ok(doorbell)
    }

    fn create_on_driver(
        &self,
        queue: &HwQueue,
        request: &mut Request<'_>,
        system: KmdHandle,
    ) -> Result<KmdHandle, Failure> {
        let mut args = DXGKARG_CREATEDOORBELL::zeroed();
        (args.hHwQueue, args.hDoorbell) = (queue.handles().1.raw(), system.raw());
        let mut lent = crate::ddi_buffer::LentBytes::new(request.private);
        (args.PrivateDriverData, args.PrivateDriverDataSize) = lent.place();
        (args.hRingBuffer, args.hRingBufferControl) = (request.ring.kmd().raw(), request.control.kmd().raw());
        args.Flags = DXGKARG_CREATEDOORBELL_FLAGS::new().with_ResizeRingBufferOperation(request.resize);
        let (ddi, member) = ("DxgkDdiCreateDoorbell", ("DXGKARG_CREATEDOORBELL", "hDoorbell"));
        let status = queue.context().adapter().miniport.create_doorbell(&mut args);
        lent.end(&self.verifier, ddi, "PrivateDriverData");
        status.ok().and_then(|()| KmdHandle::new(args.hDoorbell).answered(system.raw(), ddi, member))
    }

    /// DxgkCbDisconnectDoorbell: the driver needs the physical doorbell. It is not reachable from user mode any more
    /// when the call returns. Either handle of queue or doorbell names it.
    pub(crate) fn disconnect_doorbell(&self, args: &DXGKARGCB_DISCONNECTDOORBELL) -> NTSTATUS {
        let event = match args.DisconnectReason {
            D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY => DoorbellEvent::Taken,
            D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT => DoorbellEvent::Abort,
            _ => return STATUS_INVALID_PARAMETER,
        };
        let queue = (!args.hHwQueue.is_null()).then(|| self.find_queue(args.hHwQueue));
        let doorbell = (!args.hDoorbell.is_null()).then(|| self.find_doorbell(args.hDoorbell));
        let doorbell = match (queue, doorbell) {
            (None, Some(Some(doorbell))) => doorbell,
            (Some(Some(queue)), Some(Some(doorbell))) if Arc::ptr_eq(doorbell.queue(), &queue) => doorbell,
            (Some(Some(queue)), None) => match queue.doorbell() {
                Some(doorbell) => doorbell,
                None => return STATUS_INVALID_PARAMETER,
            },
            _ => return STATUS_INVALID_PARAMETER,
        };
        let mut shown = lock(&doorbell.shown);
        // While it is being connected, the page that is taken may be that of an earlier connection.
        if shown.state == DoorbellState::Connected {
            shown.on_driver = OnDriver::Disconnected;
        }
        doorbell.apply(&mut shown, event);
        STATUS_SUCCESS
    }
}

/// Checks that a queue may have the doorbell that is asked for.
fn check_request(queue: &HwQueue, request: &Request<'_>) -> Result<DXGK_USERMODESUBMISSION_CAPS, Failure> {
    let device = queue.context().device();
    let without = || refused(STATUS_NOT_SUPPORTED, "the adapter has no DXGK_FEATURE_USER_MODE_SUBMISSION enabled");
    let caps = device.adapter.caps().user_mode_submission.ok_or_else(without)?;
    let fits = |allocation: &Allocation| allocation.device() == device.id() && allocation.is_resident();
    let why = if !queue.flags().UserModeSubmission() {
        "the queue of hHwQueue was not created with Flags.UserModeSubmission"
    } else if queue.is_destroyed() || !request.resize && queue.doorbell().is_some() {
        "the queue of hHwQueue has a doorbell, or is destroyed"
    } else if request.ring.id() == request.control.id() {
        "hRingBuffer and hRingBufferControl are one allocation"
    } else if !fits(&request.ring) || !fits(&request.control) {
        "hRingBuffer or hRingBufferControl is of another device, or not resident"
    } else if request.secondary && !caps.Flags.SecondaryDoorbellSupported() {
        "Flags.RequireSecondaryCpuVA is set, and USERMODESUBMISSION_CAPS has no SecondaryDoorbellSupported"
    } else {
        return Ok(caps);
    };
    Err(refused(STATUS_INVALID_PARAMETER, why))
}

/// Bytes of the user range for a doorbell of this size.
fn window_size(bytes: u32) -> Result<u32, Failure> {
    if bytes == 0 || bytes > SIZE_MAX {
        let why =
            format!("USERMODESUBMISSION_CAPS has a doorbell of {bytes:#x} bytes, and expected are 1 to {SIZE_MAX:#x}");
        return Err(refused(STATUS_NOT_SUPPORTED, why));
    }
    Ok(bytes.next_multiple_of(PAGE_SIZE as u32))
}

impl View for Doorbell {
    fn write_status(&self, status: D3DDDI_DOORBELLSTATUS) {
        self.status.get().store(status.0 as u64, Ordering::SeqCst);
    }

    fn hide(&self) {
        for window in [Some(&self.primary), self.secondary.as_ref()].into_iter().flatten() {
            if let Err(error) = window.hide() {
                self.adapter.vidsch().broken(format!("a doorbell page could not be taken back: {error}"));
            }
        }
    }
}

impl Doorbell {
    /// The queue it belongs to.
    pub(crate) fn queue(&self) -> &Arc<HwQueue> {
        &self.queue
    }

    /// Our handle and the driver's.
    pub(crate) fn handles(&self) -> (KmdHandle, KmdHandle) {
        (self.system, self.kmd)
    }

    /// Where user mode rings, and the second place if it asked for one.
    pub(crate) fn user_addresses(&self) -> (usize, usize) {
        let address = |window: &DoorbellWindow| window.mapping.address();
        (address(&self.primary), self.secondary.as_ref().map_or(0, address))
    }

    /// User-mode address of the status word.
    pub(crate) fn user_status(&self) -> usize {
        self.status.mapping.address()
    }

    /// User-mode address of the last-queued value.
    pub(crate) fn user_last_queued(&self) -> usize {
        self.last_queued.mapping.address()
    }

    /// The status word.
    pub(crate) fn status(&self) -> u64 {
        self.status.get().load(Ordering::Acquire)
    }

    /// The progress value that user mode queued last, as it says.
    pub(crate) fn last_queued(&self) -> u64 {
        self.last_queued.get().load(Ordering::Acquire)
    }

    /// State that user mode sees.
    pub(crate) fn state(&self) -> DoorbellState {
        lock(&self.shown).state
    }

    /// True if no physical doorbell is shown or about to be. While the process is asked to show another page, which may take its time, the answer is no.
    pub(crate) fn is_disconnected(&self) -> bool {
        let shown = self.shown.try_lock();
        shown.is_some_and(|shown| matches!(shown.state, DoorbellState::Disconnected | DoorbellState::Aborted))
    }

    /// Follows the table for every event but a connection that is to be shown.
    fn apply(&self, shown: &mut Shown, event: DoorbellEvent) -> Action {
        let action = shown.state.apply(event, self);
        if let Action::Hide(status) = action {
            self.note(TraceKind::DoorbellDisconnected { queue: self.queue_id(), status: status.0 });
        }
        action
    }

    fn queue_id(&self) -> u64 {
        self.queue.handles().0.raw().addr() as u64
    }

    fn note(&self, kind: TraceKind) {
        self.adapter.miniport.events().note(self.adapter.context(), || kind);
    }

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

    /// A thread that makes a doorbell for a queue locks the old one first, whose handle is smaller.
    fn lock_exists(&self) -> MutexGuard<'_, bool, rank::DoorbellExists> {
        self.exists.lock_in_order(self.system.raw().addr() as u64)
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

    /// The device is lost: user mode sees that from now on. At once, even while another thread is connecting it: that one sees
    /// the state and undoes its part.
    pub(crate) fn show_abort(&self) {
        self.apply(&mut lock(&self.shown), DoorbellEvent::Abort);
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
    fn take_away(&self, event: DoorbellEvent) {
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

    /// True if the queue's ring is this doorbell's, not that of one which took its place.
    fn is_current(&self) -> bool {
        self.queue.doorbell().is_some_and(|doorbell| core::ptr::eq(&*doorbell, self))
    }

    /// Disconnects the doorbell and lets the work of its ring end. As long as the guard lives, nobody connects it.
    ///
    /// # Errors
    /// STATUS_GRAPHICS_ALLOCATION_BUSY when the work does not end, or user mode goes on making more; STATUS_INVALID_HANDLE
    /// when it was destroyed meanwhile; the device is lost.
    fn run_dry(&self) -> Result<MutexGuard<'_, bool, rank::DoorbellExists>, Failure> {
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

    /// Disconnects the doorbell, waits for what was queued through it, and destroys it. Once is enough.
    /// [user-mode-work-submission: normal process termination]
    pub(crate) fn destroy(&self) {
        self.finish();
        let sch = self.adapter.vidsch();
        if self.is_current() {
            sch.drain(&[&self.queue]);
        }
        let mut exists = self.lock_exists();
        if !core::mem::replace(&mut *exists, false) {
            return;
        }
        // It may have been connected once more before the lock was taken.
        self.take_away(DoorbellEvent::Abort);
        let mut args = DXGKARG_DESTROYDOORBELL::zeroed();
        args.hDoorbell = self.kmd.raw();
        sch.must_not_fail(self.adapter.miniport.destroy_doorbell(&args));
        // The memory manager may be holding its own lock while it takes a doorbell away.
        drop(exists);
        sch.doorbells.retire(self.system);
        self.queue.clear_doorbell(self);
        self.rings.release();
    }
}

//! Doorbells are created, and taken away by the driver.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nt::lock::{Mutex, lock};
use nt::page::PAGE_SIZE;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::kmd_handle::KmdHandle;
use crate::refusal::{Failure, refused};
use crate::vidmm::Allocation;

use super::doorbell_state::{DoorbellEvent, DoorbellState, View};
use super::objects::doorbell_memory::{DoorbellWindow, DoorbellWord, Rings};
use super::objects::hardware::{Doorbell, HwQueue, OnDriver, Shown};
use super::scheduler::VidSch;

/// Largest doorbell. [d3dkmddi: DXGK_USERMODESUBMISSION_CAPS]
const SIZE_MAX: u32 = 16384;

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
        let caps = check_request(queue, &request)?;
        // They stay where they are from here on, and the driver knows them.
        let rings = Rings::new(adapter.vidmm(), [&request.ring, &request.control])?;
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
    let is_foreign = |allocation: &Allocation| allocation.device() != device.id();
    let why = if !queue.flags().UserModeSubmission() {
        "the queue of hHwQueue was not created with Flags.UserModeSubmission"
    } else if queue.is_destroyed() || !request.resize && queue.doorbell().is_some() {
        "the queue of hHwQueue has a doorbell, or is destroyed"
    } else if request.ring.id() == request.control.id() {
        "hRingBuffer and hRingBufferControl are one allocation"
    } else if is_foreign(&request.ring) || is_foreign(&request.control) {
        "hRingBuffer or hRingBufferControl is of another device"
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

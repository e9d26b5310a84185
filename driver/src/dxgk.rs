//! The callbacks of the operating system (`DXGKRNL_INTERFACE`), each behind a function that takes the level it needs.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use campanile_hw::queue::SYSTEM_PAGE_SIZE;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_NOT_SUPPORTED, STATUS_REVISION_MISMATCH};
use wddm_ddi::types::*;

use crate::irql::{Device, Dispatch, Passive, UpToDispatch};
use crate::mmio::Mapping;
use crate::nt;
use crate::refusal::{Reason, Refused, refused, refused_with};
use crate::trace::Trace;

/// Message of the only interrupt; what caps report as InterruptMessageNumber.
pub(crate) const INTERRUPT_MESSAGE: u32 = 0;

/// A copy of the callback table; the original may go away after DxgkDdiStartDevice.
pub(crate) struct Dxgk {
    table: DXGKRNL_INTERFACE,
    /// Trace of the adapter's events, for a debugger.
    pub(crate) trace: Trace,
    /// Which engine of its adapter the device is.
    engine: AtomicU32,
}

// SAFETY: the table holds functions that may be called from any thread at their level, and an opaque handle.
unsafe impl Send for Dxgk {}
// SAFETY: as for Send.
unsafe impl Sync for Dxgk {}

/// Memory that is contiguous on the bus.
pub(crate) struct ContiguousMemory {
    handle: HANDLE,
    /// Mapping in kernel address space.
    pub(crate) mapping: Mapping,
    /// Bus address, as the device uses it for DMA.
    pub(crate) address: u64,
}

// SAFETY: the handle is opaque and the mapping is only an address.
unsafe impl Send for ContiguousMemory {}
// SAFETY: as for Send.
unsafe impl Sync for ContiguousMemory {}

/// The closure that `synchronize` passes through DxgkCbSynchronizeExecution, and the place of its result.
struct Routine<F, R> {
    body: Option<F>,
    result: Option<R>,
}

unsafe extern "win64" fn routine<R, F: FnOnce(&Device) -> R>(context: *mut c_void) -> BOOLEAN {
    // SAFETY: the context is the Routine of `synchronize`, which waits for this call.
    let routine = unsafe { &mut *context.cast::<Routine<F, R>>() };
    // SAFETY: this is a routine of DxgkCbSynchronizeExecution.
    let irql = unsafe { Device::assume() };
    if let Some(body) = routine.body.take() {
        routine.result = Some(body(&irql));
    }
    1
}

impl Dxgk {
    /// Copies the table.
    ///
    /// # Errors
    /// STATUS_REVISION_MISMATCH when a callback without which the driver cannot work is missing.
    pub(crate) fn new(table: &DXGKRNL_INTERFACE, trace: Trace) -> Result<Self, Refused> {
        let complete = table.DxgkCbGetDeviceInformation.is_some()
            && table.DxgkCbMapMemory.is_some()
            && table.DxgkCbUnmapMemory.is_some()
            && table.DxgkCbQueueDpc.is_some()
            && table.DxgkCbSynchronizeExecution.is_some()
            && table.DxgkCbNotifyInterrupt.is_some()
            && table.DxgkCbNotifyDpc.is_some()
            && table.DxgkCbAllocateContiguousMemory.is_some()
            && table.DxgkCbFreeContiguousMemory.is_some();
        if complete {
            Ok(Self { table: *table, trace, engine: AtomicU32::new(0) })
        } else {
            Err(refused_with(Reason::SystemService, STATUS_REVISION_MISMATCH))
        }
    }

    /// The handle by which callbacks know this adapter.
    pub(crate) fn device_handle(&self) -> HANDLE {
        self.table.DeviceHandle
    }

    /// Which engine of its adapter the device is, for reports.
    pub(crate) fn engine(&self) -> u32 {
        self.engine.load(Ordering::Acquire)
    }

    /// Sets which engine the device is: 0, or its position while it belongs to the linked adapter of another function.
    pub(crate) fn set_engine(&self, engine: u32) {
        self.engine.store(engine, Ordering::Release);
    }

    /// A byte of configuration space; `None` where the system does not read it.
    pub(crate) fn read_config(&self, _irql: &Passive, offset: u32) -> Option<u8> {
        let callback = self.table.DxgkCbReadDeviceSpace?;
        let (mut byte, mut read) = (0_u8, 0_u32);
        // SAFETY: the handle is the one given with the table, buffer and count are locals of the size named.
        let status = unsafe {
            callback(self.device_handle(), DXGK_WHICHSPACE_CONFIG, (&raw mut byte).cast(), offset, 1, &raw mut read)
        };
        (status.ok().is_ok() && read == 1).then_some(byte)
    }

    /// Writes a byte of configuration space, if the system does that.
    pub(crate) fn write_config(&self, _irql: &Passive, offset: u32, mut byte: u8) {
        let Some(callback) = self.table.DxgkCbWriteDeviceSpace else { return };
        let mut written = 0_u32;
        // SAFETY: the handle is the one given with the table, buffer and count are locals of the size named.
        let _ = unsafe {
            callback(self.device_handle(), DXGK_WHICHSPACE_CONFIG, (&raw mut byte).cast(), offset, 1, &raw mut written)
        };
    }

    pub(crate) fn device_information(&self, _irql: &Passive) -> Result<DXGK_DEVICE_INFO, Refused> {
        let callback =
            self.table.DxgkCbGetDeviceInformation.ok_or(refused_with(Reason::SystemService, STATUS_NOT_SUPPORTED))?;
        let mut info = DXGK_DEVICE_INFO::zeroed();
        // SAFETY: the handle is the one given with the table, the structure is a local.
        unsafe { callback(self.device_handle(), &raw mut info) }.ok().map_err(Refused::by_system)?;
        Ok(info)
    }

    /// Maps `len` bytes of a BAR for the kernel.
    pub(crate) fn map(
        &self,
        _irql: &Passive,
        address: PHYSICAL_ADDRESS,
        len: u32,
        cache: MEMORY_CACHING_TYPE,
    ) -> Result<Mapping, Refused> {
        let callback = self.table.DxgkCbMapMemory.ok_or(refused_with(Reason::SystemService, STATUS_NOT_SUPPORTED))?;
        let mut base = core::ptr::null_mut();
        // SAFETY: the range is one of this device's translated resources, the result goes to a local.
        unsafe { callback(self.device_handle(), address, len, 0, 0, cache, &raw mut base) }
            .ok()
            .map_err(Refused::by_system)?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(refused(Reason::SystemService))?;
        // SAFETY: the operating system mapped `len` bytes there; they are unmapped when nothing uses the mapping any more.
        Ok(unsafe { Mapping::new(base, u64::from(len)) })
    }

    /// Unmaps a mapping of [`Dxgk::map`] that is no longer used.
    pub(crate) fn unmap(&self, _irql: &Passive, mapping: Mapping) {
        if let Some(callback) = self.table.DxgkCbUnmapMemory {
            // SAFETY: the address came from DxgkCbMapMemory. A failure leaves a mapping behind, which only the system can mend.
            let _ = unsafe { callback(self.device_handle(), mapping.base().as_ptr().cast()) };
        }
    }

    /// Asks for a table of services.
    ///
    /// # Safety
    /// `interface` must point to the structure that `services` names, with Size and Version filled.
    pub(crate) unsafe fn query_services(
        &self,
        _irql: &Passive,
        services: DXGK_SERVICES,
        interface: *mut INTERFACE,
    ) -> Result<(), Refused> {
        let callback =
            self.table.DxgkCbQueryServices.ok_or(refused_with(Reason::SystemService, STATUS_NOT_SUPPORTED))?;
        // SAFETY: the caller passes the right structure.
        unsafe { callback(self.device_handle(), services, interface) }.ok().map_err(Refused::by_system)
    }

    /// The older question whether a feature is enabled, for systems without the feature interface.
    pub(crate) fn query_feature_support(&self, _irql: &Passive, feature: DXGK_FEATURE_ID, state: u32) -> bool {
        let Some(callback) = self.table.DxgkCbQueryFeatureSupport else { return false };
        let mut args = DXGKARGCB_QUERYFEATURESUPPORT {
            DeviceHandle: self.device_handle(),
            FeatureId: feature,
            DriverSupportState: state,
            Enabled: 0,
        };
        // SAFETY: the structure is a local.
        unsafe { callback(&raw mut args) }.is_success() && args.Enabled != 0
    }

    /// Allocates zeroed `len` bytes that are contiguous on the bus, page aligned and of the memory type `caching`.
    pub(crate) fn allocate_contiguous(
        &self,
        _irql: &Passive,
        len: usize,
        caching: DXGK_MEMORY_CACHING_TYPE,
    ) -> Result<ContiguousMemory, Refused> {
        let callback = self
            .table
            .DxgkCbAllocateContiguousMemory
            .ok_or(refused_with(Reason::SystemService, STATUS_NOT_SUPPORTED))?;
        let mut args = DXGKARGCB_ALLOCATECONTIGUOUSMEMORY::zeroed();
        args.NumberOfBytes = len;
        args.HighestAcceptableAddress = LARGE_INTEGER { QuadPart: (1 << 52) - 1 };
        args.CacheType = caching;
        // SAFETY: the structure is a local.
        unsafe { callback(self.device_handle(), &raw mut args) }.ok().map_err(Refused::by_system)?;
        let base = NonNull::new(args.pMemory.cast::<u8>()).ok_or(refused(Reason::SystemService))?;
        // SAFETY: the operating system allocated `len` bytes there; they are freed with this value.
        let mapping = unsafe { Mapping::new(base, len as u64) };
        mapping.clear();
        let memory =
            ContiguousMemory { handle: args.hMemoryHandle, mapping, address: nt::physical_address(base).unwrap_or(0) };
        if memory.address == 0 || !memory.address.is_multiple_of(SYSTEM_PAGE_SIZE) {
            self.free_contiguous(_irql, memory);
            return Err(refused_with(Reason::WrongHardware, STATUS_INSUFFICIENT_RESOURCES));
        }
        Ok(memory)
    }

    /// Frees memory that the device does not use any more.
    pub(crate) fn free_contiguous(&self, _irql: &Passive, memory: ContiguousMemory) {
        if let Some(callback) = self.table.DxgkCbFreeContiguousMemory {
            let args = DXGKARGCB_FREECONTIGUOUSMEMORY { hMemoryHandle: memory.handle };
            // SAFETY: the handle came from the allocation and is given up. A failure leaks, which only the system can mend.
            let _ = unsafe { callback(self.device_handle(), &raw const args) };
        }
    }

    /// Runs `body` at device level, excluding the interrupt routine.
    ///
    /// # Errors
    /// The interrupt is not connected; `body` did not run.
    pub(crate) fn synchronize<R, F: FnOnce(&Device) -> R>(
        &self,
        _irql: &impl UpToDispatch,
        body: F,
    ) -> Result<R, Refused> {
        let callback =
            self.table.DxgkCbSynchronizeExecution.ok_or(refused_with(Reason::SystemService, STATUS_NOT_SUPPORTED))?;
        let mut routine_state = Routine { body: Some(body), result: None };
        let mut returned: BOOLEAN = 0;
        // SAFETY: the routine takes a Routine of these types, and is done with it when the callback returns.
        let status = unsafe {
            callback(
                self.device_handle(),
                Some(routine::<R, F>),
                (&raw mut routine_state).cast(),
                INTERRUPT_MESSAGE,
                &raw mut returned,
            )
        };
        status.ok().map_err(Refused::by_system)?;
        routine_state.result.ok_or(refused(Reason::SystemService))
    }

    /// Reports to the scheduler. A DPC must be queued afterwards.
    pub(crate) fn notify_interrupt(&self, _irql: &Device, data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA) {
        if let Some(callback) = self.table.DxgkCbNotifyInterrupt {
            // SAFETY: device level, and the data lives across the call.
            unsafe { callback(self.device_handle(), core::ptr::from_ref(data)) };
        }
    }

    /// Queues the DPC; one that is queued already counts.
    pub(crate) fn queue_dpc(&self) {
        if let Some(callback) = self.table.DxgkCbQueueDpc {
            // SAFETY: allowed at every level. FALSE says that the DPC is queued already.
            let _ = unsafe { callback(self.device_handle()) };
        }
    }

    /// Lets the scheduler finish what was reported.
    pub(crate) fn notify_dpc(&self, _irql: &Dispatch) {
        if let Some(callback) = self.table.DxgkCbNotifyDpc {
            // SAFETY: called from the DPC.
            unsafe { callback(self.device_handle()) };
        }
    }

    /// The change of a component's F-state that was asked for is done.
    pub(crate) fn complete_fstate_transition(&self, _irql: &impl UpToDispatch, component: u32) {
        if let Some(callback) = self.table.DxgkCbCompleteFStateTransition {
            // SAFETY: allowed up to DISPATCH_LEVEL.
            unsafe { callback(self.device_handle(), component) };
        }
    }

    /// Takes a doorbell away from user mode. The physical doorbell may be reused once this returned, whatever it says: an error
    /// means that no such doorbell exists any more.
    pub(crate) fn disconnect_doorbell(&self, _irql: &Passive, queue: HANDLE, doorbell: HANDLE) {
        if let Some(callback) = self.table.DxgkCbDisconnectDoorbell {
            let args = DXGKARGCB_DISCONNECTDOORBELL {
                hHwQueue: queue,
                hDoorbell: doorbell,
                Flags: DXGKARGCB_DISCONNECTDOORBELL_FLAGS::new(),
                DisconnectReason: D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY,
            };
            // SAFETY: PASSIVE, no lock held that the operating system needs; the structure is a local.
            let _ = unsafe { callback(&raw const args) };
        }
    }

    /// Tells that a context lost work in an engine reset.
    pub(crate) fn invalidate_hw_context(&self, _irql: &Passive, context: HANDLE, collateral: bool) {
        if let Some(callback) = self.table.DxgkCbInvalidateHwContext {
            let args = DXGKARGCB_INVALIDATEHWCONTEXT {
                hAdapter: self.device_handle(),
                hHwContext: context,
                Flags: DXGK_INVALIDATEHWCONTEXTFLAGS::new().with_CollateralDamage(collateral),
            };
            // SAFETY: the structure is a local.
            let _ = unsafe { callback(&raw const args) };
        }
    }

    /// The driver's handle of the allocation that user mode knows as `allocation`, NULL if the system does not tell.
    pub(crate) fn allocation_handle(&self, _irql: &Passive, allocation: D3DKMT_HANDLE) -> HANDLE {
        let (Some(acquire), Some(release)) = (self.table.DxgkCbAcquireHandleData, self.table.DxgkCbReleaseHandleData)
        else {
            return core::ptr::null_mut();
        };
        let args = DXGKARGCB_GETHANDLEDATA {
            hObject: allocation,
            Type: DXGK_HANDLE_TYPE::DXGK_HANDLE_ALLOCATION,
            Flags: DXGKCB_GETHANDLEDATAFLAGS::new(),
        };
        let mut reference = core::ptr::null_mut();
        // SAFETY: both pointers are to locals.
        let handle = unsafe { acquire(&raw const args, &raw mut reference) };
        if !reference.is_null() {
            let args = DXGKARGCB_RELEASEHANDLEDATA {
                ReleaseHandle: reference,
                Type: DXGK_HANDLE_TYPE::DXGK_HANDLE_ALLOCATION,
            };
            // SAFETY: gives back the reference just taken; the handle itself is a number that stays valid.
            unsafe { release(args) };
        }
        handle
    }
}

//! VidMm: GPU address spaces, allocations, residency, and the paging process.

mod user_mapping;

use std::ffi::c_void;
use std::sync::Arc;

use wddm_ddi::km::DXGKARGCB_GETHANDLEDATA;
use wddm_ddi::status::*;

use crate::adapter::Adapter;
use crate::miniport::KmdHandle;
use crate::ram::Pages;

pub(crate) use user_mapping::UserMapping;

/// The memory manager of one adapter.
pub(crate) struct VidMm {}

/// GPU address space of a process on an adapter.
pub(crate) struct AddressSpace {}

/// Memory that a device asked for.
pub(crate) struct Allocation {}

/// A group of allocations with one handle of the driver.
pub(crate) struct Resource {}

/// Where residency requests of a device are ordered.
pub(crate) struct PagingQueue {}

/// What a GPU may do with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Reads.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

#[allow(unused_variables)]
impl VidMm {
    /// Reads the adapter's memory description.
    pub(crate) fn new(adapter: &Arc<Adapter>) -> Result<Arc<Self>, NTSTATUS> {
        Err(STATUS_NOT_SUPPORTED)
    }

    /// Creates the system process, its devices and contexts, and the paging process.
    pub(crate) fn start(self: &Arc<Self>, adapter: &Arc<Adapter>) -> Result<(), NTSTATUS> {
        Err(STATUS_NOT_SUPPORTED)
    }

    /// Ends everything that start made.
    pub(crate) fn stop(&self) {}

    /// Address space of the paging (system) process.
    pub(crate) fn system_space(&self) -> Result<Arc<AddressSpace>, NTSTATUS> {
        Err(STATUS_DEVICE_NOT_READY)
    }

    /// DxgkDdiCreateProcess and an address space.
    pub(crate) fn create_process(&self, id: u64, name: &str) -> Result<(KmdHandle, Arc<AddressSpace>), NTSTATUS> {
        Err(STATUS_NOT_SUPPORTED)
    }

    /// Ends a process of [`VidMm::create_process`].
    pub(crate) fn destroy_process(&self, kmd_process: KmdHandle, space: &Arc<AddressSpace>) {}

    /// Ends what is left of a device's memory.
    pub(crate) fn release_device(&self, device: u64) {}

    /// DxgkCbGetHandleData and DxgkCbAcquireHandleData: the driver's pointer for a kernel handle of an allocation or resource,
    /// NULL for any other.
    pub(crate) fn handle_data(&self, data: &DXGKARGCB_GETHANDLEDATA) -> *mut c_void {
        std::ptr::null_mut()
    }
}

#[allow(unused_variables)]
impl AddressSpace {
    /// Segment and offset of the root page table, for DxgkDdiSetRootPageTable.
    pub(crate) fn root(&self) -> (u32, u64) {
        (0, 0)
    }

    /// Entries of the root page table.
    pub(crate) fn root_entries(&self) -> u32 {
        0
    }

    /// Maps pages of system memory; the answer is their GPU virtual address. The caller keeps the pages until
    /// [`AddressSpace::unmap`].
    ///
    /// # Errors
    /// No room in the address space or no memory for page tables.
    pub(crate) fn map_pages(&self, pages: &Pages, protection: Protection) -> Result<u64, NTSTATUS> {
        Err(STATUS_NOT_SUPPORTED)
    }

    /// Takes a range of [`AddressSpace::map_pages`] away; when the call returns, the GPU does not reach it any more.
    pub(crate) fn unmap(&self, address: u64) {}
}

impl Allocation {
    /// The driver's handle (device-independent).
    pub(crate) fn kmd(&self) -> KmdHandle {
        KmdHandle::NULL
    }

    /// Bytes, a multiple of the page size.
    pub(crate) fn size(&self) -> u64 {
        0
    }

    /// Identity of the device it was made on.
    pub(crate) fn device(&self) -> u64 {
        0
    }

    /// Whether it is on the residency list of its device.
    pub(crate) fn is_resident(&self) -> bool {
        false
    }

    /// A doorbell uses the allocation as ring or ring control: it stays resident and is not freed until released.
    pub(crate) fn add_doorbell_reference(&self) {}

    /// Ends [`Allocation::add_doorbell_reference`].
    pub(crate) fn release_doorbell_reference(&self) {}

    /// Destroys the allocation once nothing uses it.
    pub(crate) fn destroy(&self) {}
}

impl PagingQueue {
    /// Destroys the queue; what was asked of it is still done.
    pub(crate) fn destroy(&self) {}
}

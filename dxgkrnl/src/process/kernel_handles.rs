//! Kernel (NT) handles of a process.

use nt::lock::lock;
use wddm_ddi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER};
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE};

use super::Process;
use crate::machine::KernelObject;

/// Kernel handles are multiples of 4.
const KERNEL_HANDLE_SHIFT: u32 = 2;

fn kernel_slot(handle: HANDLE) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let address = handle.addr();
    let slot = D3DKMT_HANDLE::try_from(address >> KERNEL_HANDLE_SHIFT).map_err(|_| STATUS_INVALID_HANDLE)?;
    if address.is_multiple_of(1 << KERNEL_HANDLE_SHIFT) { Ok(slot) } else { Err(STATUS_INVALID_HANDLE) }
}

impl Process {
    /// Gives a kernel object a handle.
    ///
    /// # Errors
    /// As [`Process::insert`].
    pub(crate) fn insert_kernel(&self, object: KernelObject) -> Result<HANDLE, NTSTATUS> {
        let mut handles = lock(&self.kernel_handles);
        self.check_alive()?;
        let handle = handles.insert(object, 0).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        Ok(std::ptr::without_provenance_mut((handle as usize) << KERNEL_HANDLE_SHIFT))
    }

    /// The object behind a kernel handle.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for a handle that is closed or never existed in this process.
    pub(crate) fn get_kernel(&self, handle: HANDLE) -> Result<KernelObject, NTSTATUS> {
        lock(&self.kernel_handles).get(kernel_slot(handle)?).cloned().ok_or(STATUS_INVALID_HANDLE)
    }

    /// Closes a kernel handle.
    ///
    /// # Errors
    /// As [`Process::get_kernel`].
    pub(crate) fn close_kernel(&self, handle: HANDLE) -> Result<(), NTSTATUS> {
        let slot = kernel_slot(handle)?;
        // The last handle ends its object, after the table is free again.
        let closed = lock(&self.kernel_handles).remove(slot);
        closed.map(drop).ok_or(STATUS_INVALID_HANDLE)
    }

    /// Number of kernel handles that are open.
    pub fn kernel_handle_count(&self) -> usize {
        lock(&self.kernel_handles).len()
    }

    /// Gives `target` a handle of what a kernel handle of this process stands for, as `DuplicateHandle` does.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for a handle that is closed or never existed; STATUS_INVALID_PARAMETER for a process of another
    /// machine; as `Process::insert_kernel` of `target`.
    pub fn duplicate_handle(&self, handle: HANDLE, target: &Self) -> Result<HANDLE, NTSTATUS> {
        if !self.machine.is_same(&target.machine) {
            return Err(STATUS_INVALID_PARAMETER);
        }
        target.insert_kernel(self.get_kernel(handle)?)
    }
}

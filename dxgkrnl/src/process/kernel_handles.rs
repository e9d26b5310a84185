//! Kernel (NT) handles of a process.

use nt::lock::lock;
use wddm_ddi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER};
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE};

use super::Process;
use crate::account::Charge;
use crate::handles::HandleTable;
use crate::machine::KernelObject;
use crate::refusal::{Failure, refused};

/// Kernel handles are multiples of 4.
const KERNEL_HANDLE_SHIFT: u32 = 2;

fn kernel_slot(handle: HANDLE) -> Result<D3DKMT_HANDLE, Failure> {
    let address = handle.addr();
    let slot = D3DKMT_HANDLE::try_from(address >> KERNEL_HANDLE_SHIFT).map_err(|_| unknown(handle))?;
    if address.is_multiple_of(1 << KERNEL_HANDLE_SHIFT) { Ok(slot) } else { Err(unknown(handle)) }
}

/// The process has no such kernel handle.
fn unknown(handle: HANDLE) -> Failure {
    refused(STATUS_INVALID_HANDLE, format!("{handle:p} is no kernel handle of the process"))
}

/// Kernel objects by handle, and what is charged to the process for each.
pub(super) type KernelHandles = HandleTable<(KernelObject, Vec<Charge>)>;

impl Process {
    /// Gives a kernel object a handle.
    ///
    /// # Errors
    /// As [`Process::insert`], and [`KernelObject::charge`].
    pub(crate) fn insert_kernel(&self, object: KernelObject) -> Result<HANDLE, Failure> {
        let charges = object.charge(&self.quotas.shared)?;
        let mut handles = lock(&self.kernel_handles);
        self.check_alive()?;
        let handle = handles.insert((object, charges), 0).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        Ok(std::ptr::without_provenance_mut((handle as usize) << KERNEL_HANDLE_SHIFT))
    }

    /// The object behind a kernel handle.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for a handle that is closed or never existed in this process.
    pub(crate) fn get_kernel(&self, handle: HANDLE) -> Result<KernelObject, Failure> {
        lock(&self.kernel_handles)
            .get(kernel_slot(handle)?)
            .map(|(object, _)| object.clone())
            .ok_or_else(|| unknown(handle))
    }

    /// Closes a kernel handle.
    ///
    /// # Errors
    /// As [`Process::get_kernel`].
    pub(crate) fn close_kernel(&self, handle: HANDLE) -> Result<(), Failure> {
        let slot = kernel_slot(handle)?;
        // The last handle ends its object, after the table is free again.
        let closed = lock(&self.kernel_handles).remove(slot);
        closed.map(drop).ok_or_else(|| unknown(handle))
    }

    /// Closes all kernel handles, of a process that ends.
    pub(super) fn close_all_kernel(&self) {
        let all = std::mem::replace(&mut *lock(&self.kernel_handles), HandleTable::new());
        // As for one of them.
        drop(all);
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
        let given = self.get_kernel(handle).and_then(|object| target.insert_kernel(object));
        given.map_err(|failure| failure.status())
    }
}

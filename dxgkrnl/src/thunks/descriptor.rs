//! Kernel handles as file descriptors, by which programs of this host hand them to each other. These thunks are this project's own: on Windows
//! `DuplicateHandle` hands a kernel handle to another process.

use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use wddm_ddi::status::*;
use wddm_ddi::types::{HANDLE, NTSTATUS};

use crate::descriptor::{Descriptor, DescriptorId, id_of};
use crate::machine::{Described, Machine};
use crate::process::Process;
use crate::refusal::{Failure, refused};

use super::call::guarded;
use super::user;

fn machine_of(process: &Process) -> Result<Machine, Failure> {
    process.whole_machine().ok_or(STATUS_DEVICE_REMOVED.into())
}

/// Gives the calling process a descriptor of an object: its number there.
///
/// # Errors
/// STATUS_INSUFFICIENT_RESOURCES for more objects than the process may have descriptors of, 1024 at most, or without descriptors.
pub(super) fn give(process: &Process, descriptor: OwnedFd, object: Described) -> Result<u32, Failure> {
    let (id, machine): (DescriptorId, _) = (id_of(&descriptor)?, machine_of(process)?);
    machine.add_described(id, process.quotas(), object)?;
    let given = process.user().give(descriptor).inspect_err(|_| machine.take_described(id));
    Ok(u32::try_from(given.map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?).map_err(|_| STATUS_INTERNAL_ERROR)?)
}

/// The object that a descriptor of the calling process is of.
///
/// # Errors
/// STATUS_INVALID_HANDLE for what is no open descriptor, or one of something that is not of this machine; STATUS_OBJECT_TYPE_MISMATCH for one that is no
/// socket; STATUS_INSUFFICIENT_RESOURCES without descriptors.
pub(super) fn object_of(process: &Process, number: u64) -> Result<Described, Failure> {
    let not_open = || refused(STATUS_INVALID_HANDLE, format!("{number} is no open descriptor of the process"));
    let number_there = RawFd::try_from(number).map_err(|_| not_open())?;
    // Not kept, for a socket of somebody else may have whoever closes it wait.
    let id = process.user().descriptor(number_there, |descriptor| id_of(&descriptor));
    let id = id.map_err(|error| match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => refused(STATUS_INSUFFICIENT_RESOURCES, error.to_string()),
        _ => not_open(),
    })?;
    let stranger =
        |status| refused(status, format!("{number} is a descriptor of something that this machine has not given"));
    machine_of(process)?.described(id.map_err(stranger)?).ok_or_else(|| stranger(STATUS_INVALID_HANDLE))
}

/// Makes a descriptor of the calling process, closed on exec, of what a kernel handle stands for, with the rights of that handle. It keeps the object as a
/// kernel handle does, until it and all copies of it are closed.
///
/// Errors: STATUS_INVALID_HANDLE for a handle that is closed or never existed; STATUS_ACCESS_VIOLATION; STATUS_INSUFFICIENT_RESOURCES for more objects than the process may
/// have descriptors of, 1024 at most, or without descriptors.
pub(super) unsafe extern "win64" fn export_nt_handle(handle: HANDLE, number: *mut u32) -> NTSTATUS {
    guarded("CampanileExportNtHandle", |process| {
        // Refuses a place that cannot be written before there is a descriptor.
        user::write_array(number, &[0])?;
        let object = process.get_kernel(handle)?;
        let (end, descriptor) = Descriptor::new()?;
        let given = give(process, descriptor, Described::Kernel(Arc::new((object, end))))?;
        user::write_array(number, &[given])?;
        Ok(STATUS_SUCCESS)
    })
}

/// Gives the calling process a kernel handle of what a descriptor is of. The descriptor stays open.
///
/// Errors: those of the descriptor; STATUS_OBJECT_TYPE_MISMATCH for a sync file; STATUS_ACCESS_VIOLATION; STATUS_INSUFFICIENT_RESOURCES without handles.
pub(super) unsafe extern "win64" fn import_nt_handle(number: u32, handle: *mut HANDLE) -> NTSTATUS {
    guarded("CampanileImportNtHandle", |process| {
        // Refuses a place that cannot be written before there is a handle.
        user::write_array(handle.cast::<u64>(), &[0])?;
        let Described::Kernel(object) = object_of(process, number.into())? else {
            let why = format!("{number} is a descriptor of a sync file, and expected is one of a kernel handle");
            return Err(refused(STATUS_OBJECT_TYPE_MISMATCH, why));
        };
        let new = process.insert_kernel(object.0.clone())?;
        user::write_array(handle.cast::<u64>(), &[new.addr() as u64]).inspect_err(|_| {
            // Nobody learnt of it.
            let _ = process.close_kernel(new);
        })?;
        Ok(STATUS_SUCCESS)
    })
}

//! Handles of processes: `NtOpenProcess`, and what thunks that name a process by a handle do with it.
//!
//! A process is named by its number: that of the host for a program, its identifier on the machine for another one. The processes of a machine are of one
//! account, so that each may open each, as those of one user on Windows may. A handle is a kernel handle: it is closed by `NtClose`, grants the rights that it
//! was opened with, does not keep its process, and never stands for a later one with the same number.

use std::ffi::c_void;
use std::sync::Arc;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{HANDLE, NTSTATUS};

use crate::access_mask::GenericMapping;
use crate::machine::KernelObject;
use crate::process::Process;
use crate::refusal::{Failure, refused};

use super::call::guarded;
use super::{names, user};

/// The calling process, as `GetCurrentProcess` names it.
pub(super) const CURRENT_PROCESS: HANDLE = std::ptr::without_provenance_mut(usize::MAX);

/// All rights of process objects. [winnt: PROCESS_ALL_ACCESS]
const PROCESS_ALL_ACCESS: u32 = 0x001f_ffff;
const MAPPING: GenericMapping = GenericMapping {
    read: PROCESS_QUERY_INFORMATION,
    write: PROCESS_SET_INFORMATION | PROCESS_SET_QUOTA,
    execute: PROCESS_QUERY_LIMITED_INFORMATION,
    all: PROCESS_ALL_ACCESS,
};

/// The rights of a handle that was opened with `desired`. [Win32: process security and access rights]
///
/// # Errors
/// STATUS_INVALID_PARAMETER for a right that processes do not have.
fn granted(desired: u32) -> Result<u32, Failure> {
    let mut rights = MAPPING.map(desired);
    if rights & !PROCESS_ALL_ACCESS != 0 {
        let why = format!("DesiredAccess is {desired:#x}, which is more than PROCESS_ALL_ACCESS and generic rights");
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    if rights & PROCESS_QUERY_INFORMATION != 0 {
        rights |= PROCESS_QUERY_LIMITED_INFORMATION;
    }
    Ok(rights)
}

/// Opens a process of the machine by its number.
///
/// Errors: STATUS_INVALID_PARAMETER_MIX without a client, and with the name of an object; STATUS_INVALID_CID for a number that no process of the machine has,
/// and for one of a thread; STATUS_INVALID_PARAMETER for a right that processes do not have, and for attributes of another length or with a RootDirectory;
/// STATUS_ACCESS_VIOLATION; STATUS_INSUFFICIENT_RESOURCES without handles. [ntddk: NtOpenProcess]
pub(super) unsafe extern "win64" fn open_process(
    handle: *mut HANDLE,
    access: u32,
    attributes: *const c_void,
    client: *const CLIENT_ID,
) -> NTSTATUS {
    guarded("NtOpenProcess", |process| {
        // Refuses a place that cannot be written before there is a handle.
        user::write_array(handle.cast::<u64>(), &[0])?;
        if client.is_null() {
            return Err(refused(STATUS_INVALID_PARAMETER_MIX, "ClientId is NULL"));
        }
        let client = user::read(client)?;
        names::check_nameless(attributes)?;
        let rights = granted(access)?;
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        let found = machine.process_numbered(client.UniqueProcess.addr() as u64);
        let why = || match client.UniqueThread.is_null() {
            true => format!("UniqueProcess is {:p}, which no process of the machine has", client.UniqueProcess),
            false => format!("UniqueThread is {:p}, and expected is NULL", client.UniqueThread),
        };
        let found = found.filter(|_| client.UniqueThread.is_null());
        let found = found.ok_or_else(|| refused(STATUS_INVALID_CID, why()))?;
        let new = process.insert_kernel(KernelObject::Process(found, rights))?;
        user::write_array(handle.cast::<u64>(), &[new.addr() as u64]).inspect_err(|_| {
            // Nobody learnt of it.
            let _ = process.close_kernel(new);
        })?;
        Ok(STATUS_SUCCESS)
    })
}

/// Does `act` with the process that a handle of `caller` stands for: its own, by what `GetCurrentProcess` returns, or one that was opened with one of these
/// rights. It does not end before that is done.
///
/// # Errors
/// STATUS_INVALID_HANDLE for what is no handle; STATUS_OBJECT_TYPE_MISMATCH for one of something else; STATUS_ACCESS_DENIED for one with none of the rights;
/// STATUS_PROCESS_IS_TERMINATING for a process that has ended; those of `act`.
pub(super) fn with<T>(
    caller: &Arc<Process>,
    handle: HANDLE,
    rights: u32,
    act: impl FnOnce(&Arc<Process>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if handle == CURRENT_PROCESS {
        return act(caller);
    }
    let KernelObject::Process(named, granted) = caller.get_kernel(handle)? else {
        let why = format!("{handle:p} is the kernel handle of something that is no process");
        return Err(refused(STATUS_OBJECT_TYPE_MISMATCH, why));
    };
    if granted & rights == 0 {
        let why = format!("the handle of the process grants {granted:#x}, and one of {rights:#x} is needed");
        return Err(refused(STATUS_ACCESS_DENIED, why));
    }
    let process = named.upgrade().and_then(|process| process.downcast::<Process>().ok());
    let ended = || refused(STATUS_PROCESS_IS_TERMINATING, "the process of the handle has ended");
    let process = process.ok_or_else(ended)?;
    let _inside = process.enter().ok_or_else(ended)?;
    act(&process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_those_of_windows() {
        assert_eq!(granted(PROCESS_QUERY_LIMITED_INFORMATION), Ok(0x1000));
        assert_eq!(granted(PROCESS_QUERY_INFORMATION), Ok(0x1400), "who may ask for all may ask for little");
        assert_eq!(granted(0x8000_0000), Ok(0x1400));
        assert_eq!(granted(0x4000_0000), Ok(0x0300));
        assert_eq!(granted(0x2000_0000), Ok(0x1000));
        assert_eq!((granted(0x1000_0000), granted(0x0200_0000)), (Ok(0x001f_ffff), Ok(0x001f_ffff)));
        assert_eq!(granted(0), Ok(0));
        for wrong in [0x0020_0000, 0x0100_0000, 0x0400_0000] {
            assert_eq!(granted(wrong), Err(STATUS_INVALID_PARAMETER.into()), "{wrong:#x}");
        }
    }
}

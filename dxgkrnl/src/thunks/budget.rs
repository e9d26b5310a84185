//! Thunks of budgets: how much memory a process may keep, and how it learns that it keeps too much.

use std::ffi::c_void;
use std::sync::Arc;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE};

use super::adapter::check_running;
use super::call::{enter, enter_read_only};
use super::process::{self, CURRENT_PROCESS};
use super::{adapter_answer, power};
use crate::adapter::Adapter;
use crate::process::{Object, Process, WeakProcess};
use crate::refusal::{Failure, refused};
use crate::vidmm::{BudgetRegistration, Group, TrimRegistration};
use crate::vidsch::Device;

/// Does `act` with the process that a handle stands for, on an adapter that the calling one has open; NULL is the calling one, too.
fn with<T>(
    caller: &Arc<Process>,
    (handle, rights): (HANDLE, u32),
    (adapter, physical): (D3DKMT_HANDLE, u32),
    act: impl FnOnce(&Process, &Arc<Adapter>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let handle = if handle.is_null() { CURRENT_PROCESS } else { handle };
    process::with(caller, handle, rights, |process| {
        let adapter = &caller.get_adapter(adapter)?.adapter;
        adapter_answer::engine(adapter, physical)?;
        check_running(adapter)?;
        act(process, adapter)
    })
}

/// Of another process with a handle that grants PROCESS_QUERY_INFORMATION. [d3dkmthk: D3DKMTQueryVideoMemoryInfo]
pub(super) unsafe extern "win64" fn query_video_memory_info(args: *mut D3DKMT_QUERYVIDEOMEMORYINFO) -> NTSTATUS {
    enter("D3DKMTQueryVideoMemoryInfo", args, |process, args| {
        let group = Group::new(args.MemorySegmentGroup)?;
        let place = (args.hAdapter, args.PhysicalAdapterIndex);
        let info = with(process, (args.hProcess, PROCESS_QUERY_INFORMATION), place, |named, adapter| {
            // The first use of an adapter makes page tables.
            let _powered = power::where_needed(process, || !named.is_on(adapter));
            Ok(adapter.vidmm().video_memory_info(&named.on_adapter(adapter)?.space, group))
        })?;
        (args.Budget, args.CurrentUsage) = (info.budget, info.usage);
        (args.CurrentReservation, args.AvailableForReservation) = (info.reservation, info.available);
        Ok(STATUS_SUCCESS)
    })
}

/// Of another process with a handle that grants PROCESS_SET_INFORMATION. [d3dkmthk: D3DKMTChangeVideoMemoryReservation]
pub(super) unsafe extern "win64" fn change_video_memory_reservation(
    args: *mut D3DKMT_CHANGEVIDEOMEMORYRESERVATION,
) -> NTSTATUS {
    enter_read_only("D3DKMTChangeVideoMemoryReservation", args, |process, args| {
        let group = Group::new(args.MemorySegmentGroup)?;
        let place = (args.hAdapter, args.PhysicalAdapterIndex);
        with(process, (args.hProcess, PROCESS_SET_INFORMATION), place, |named, adapter| {
            adapter.vidmm().reserve_memory(&named.on_adapter(adapter)?.space, group, args.Reservation)
        })?;
        Ok(STATUS_SUCCESS)
    })
}

/// Gives a registration its handle, or ends it.
fn insert(process: &Process, device: &Arc<Device>, registration: Object) -> Result<*mut c_void, Failure> {
    let handle = process.insert_on(device, registration.clone()).inspect_err(|_| registration.destroy())?;
    Ok(core::ptr::without_provenance_mut(handle as usize))
}

/// Ends the registration that a handle of user mode stands for, if it is one that `is_it` knows.
fn end(process: &Process, handle: *mut c_void, is_it: impl FnOnce(&Object) -> bool) -> Result<NTSTATUS, Failure> {
    let known = D3DKMT_HANDLE::try_from(handle.addr()).ok().and_then(|handle| process.remove_if(handle, is_it).ok());
    let why = || {
        format!("Handle is {:#x}, which is no registration of the process with this thunk's counterpart", handle.addr())
    };
    known.ok_or_else(|| refused(STATUS_INVALID_PARAMETER, why()))?.destroy();
    Ok(STATUS_SUCCESS)
}

/// The function of user mode that is to be called.
fn callback_of<Function>(callback: Option<Function>) -> Result<Function, Failure> {
    callback.ok_or_else(|| refused(STATUS_INVALID_PARAMETER, "Callback is NULL"))
}

/// [d3dkmthk: D3DKMTRegisterTrimNotification]
pub(super) unsafe extern "win64" fn register_trim_notification(args: *mut D3DKMT_REGISTERTRIMNOTIFICATION) -> NTSTATUS {
    enter("D3DKMTRegisterTrimNotification", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let callback = callback_of(args.Callback)? as usize;
        if args.AdapterLuid != device.adapter.luid {
            return Err(refused(STATUS_INVALID_PARAMETER, "AdapterLuid is not that of the adapter of hDevice"));
        }
        let registration = TrimRegistration::new(WeakProcess::new(process)?, &**device, callback, args.Context)?;
        device.adapter.vidmm().add_trim(&registration);
        args.Handle = insert(process, &device, Object::Trim(registration))?;
        Ok(STATUS_SUCCESS)
    })
}

/// When the call returns the function does not run any more, unless it is the one that calls. [d3dkmthk: D3DKMTUnregisterTrimNotification]
pub(super) unsafe extern "win64" fn unregister_trim_notification(
    args: *mut D3DKMT_UNREGISTERTRIMNOTIFICATION,
) -> NTSTATUS {
    enter_read_only("D3DKMTUnregisterTrimNotification", args, |process, args| {
        let callback = callback_of(args.Callback)? as usize;
        end(process, args.Handle, |object| matches!(object, Object::Trim(trim) if trim.is_of(callback)))
    })
}

/// The function is called whenever the process's budget of the device's memory is another one than it was told last, or than it was at
/// registration. [d3dkmthk: D3DKMTRegisterBudgetChangeNotification]
///
/// # Safety
/// Callable with any arguments: pointers are checked. The function is called on a thread of its own until the registration has ended.
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTRegisterBudgetChangeNotification(
    args: *mut D3DKMT_REGISTERBUDGETCHANGENOTIFICATION,
) -> NTSTATUS {
    enter("D3DKMTRegisterBudgetChangeNotification", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let callback = callback_of(args.Callback)? as usize;
        let registration = BudgetRegistration::new(WeakProcess::new(process)?, &**device, callback, args.Context)?;
        device.adapter.vidmm().add_budget_listener(&registration);
        args.Handle = insert(process, &device, Object::BudgetChange(registration))?;
        Ok(STATUS_SUCCESS)
    })
}

/// As for a trim notification; the handle alone names the registration. [d3dkmthk: D3DKMTUnregisterBudgetChangeNotification]
///
/// # Safety
/// As [`D3DKMTRegisterBudgetChangeNotification`].
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTUnregisterBudgetChangeNotification(
    args: *mut D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION,
) -> NTSTATUS {
    enter_read_only("D3DKMTUnregisterBudgetChangeNotification", args, |process, args| {
        end(process, args.Handle, |object| matches!(object, Object::BudgetChange(_)))
    })
}

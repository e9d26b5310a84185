//! Priorities of contexts, and classes of processes.
//!
//! The user-mode driver here sets priorities among all contexts only, and leaves the others to its clients.

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, NTSTATUS};

use crate::process::Process;
use crate::refusal::Failure;
use crate::vidsch::priority::{self, Priority};

use super::call::{enter, enter_read_only, guarded};
use super::{process, user};

fn change(
    process: &Process,
    context: D3DKMT_HANDLE,
    wanted: impl FnOnce(bool) -> Result<i32, Failure>,
    set: impl FnOnce(&mut Priority, i32),
) -> Result<NTSTATUS, Failure> {
    if let Ok(context) = process.get_packet_context(context) {
        let wanted = wanted(false)?;
        context.device().check()?;
        context.set_priority(|priority| set(priority, wanted))?;
        return Ok(STATUS_SUCCESS);
    }
    let context = process.get_hw_context(context)?;
    let wanted = wanted(true)?;
    context.device().check()?;
    let _running = context.adapter().vidsch().enter()?;
    context.set_priority(|priority| set(priority, wanted))?;
    Ok(STATUS_SUCCESS)
}

fn get(process: &Process, context: D3DKMT_HANDLE) -> Result<Priority, Failure> {
    match process.get_packet_context(context) {
        Ok(context) => Ok(context.priority()),
        Err(_) => Ok(process.get_hw_context(context)?.priority()),
    }
}

/// Sets the priority of a context among all contexts: -7 to -1 is the idle band, 0 the normal one, 1 to 7 the focus band, 8 to 31
/// the realtime band at that level. Takes effect for work that is queued already. Errors: STATUS_INVALID_PARAMETER for another
/// value; STATUS_PRIVILEGE_NOT_HELD without [`Process::grant_increase_priority`] for the realtime band, and for the focus band of a
/// context that the hardware schedules. Nothing is changed then. [d3dkmddi: DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES]
/// [d3dkmthk: D3DKMTSetContextSchedulingPriority]
///
/// # Safety
/// Callable with any arguments: pointers are checked.
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTSetContextSchedulingPriority(
    args: *mut D3DKMT_SETCONTEXTSCHEDULINGPRIORITY,
) -> NTSTATUS {
    enter_read_only("D3DKMTSetContextSchedulingPriority", args, |process, args| {
        let right = process.may_increase_priority();
        let wanted = |hardware| priority::check_global(args.Priority, right, hardware);
        change(process, args.hContext, wanted, |priority, wanted| priority.global = wanted)
    })
}

/// The priority of a context among all contexts. [d3dkmthk: D3DKMTGetContextSchedulingPriority]
///
/// # Safety
/// As [`D3DKMTSetContextSchedulingPriority`].
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTGetContextSchedulingPriority(
    args: *mut D3DKMT_GETCONTEXTSCHEDULINGPRIORITY,
) -> NTSTATUS {
    enter("D3DKMTGetContextSchedulingPriority", args, |process, args| {
        args.Priority = get(process, args.hContext)?.global;
        Ok(STATUS_SUCCESS)
    })
}

/// Sets the priority of a context among those of its process, -7 to 7. Errors: STATUS_INVALID_PARAMETER for another value; nothing
/// is changed then. [d3dkmthk: D3DKMTSetContextInProcessSchedulingPriority]
///
/// # Safety
/// As [`D3DKMTSetContextSchedulingPriority`].
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTSetContextInProcessSchedulingPriority(
    args: *mut D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY,
) -> NTSTATUS {
    enter_read_only("D3DKMTSetContextInProcessSchedulingPriority", args, |process, args| {
        let wanted = |_| priority::check_in_process(args.Priority);
        change(process, args.hContext, wanted, |priority, wanted| priority.in_process = wanted)
    })
}

/// The priority of a context among those of its process. [d3dkmthk: D3DKMTGetContextInProcessSchedulingPriority]
///
/// # Safety
/// As [`D3DKMTSetContextSchedulingPriority`].
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTGetContextInProcessSchedulingPriority(
    args: *mut D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY,
) -> NTSTATUS {
    enter("D3DKMTGetContextInProcessSchedulingPriority", args, |process, args| {
        args.Priority = get(process, args.hContext)?.in_process;
        Ok(STATUS_SUCCESS)
    })
}

/// Sets how the contexts of a process stand among those of others, those to come as well. Takes effect for work that is queued
/// already. Another process than the calling one is named by a handle with PROCESS_SET_INFORMATION. Errors: STATUS_INVALID_PARAMETER for a class
/// that does not exist; STATUS_PRIVILEGE_NOT_HELD for a class above normal if the caller lacks
/// [`Process::grant_increase_priority`]; those of the handle. Nothing is changed then. [d3dkmthk: D3DKMTSetProcessSchedulingPriorityClass]
///
/// # Safety
/// Callable with any arguments.
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTSetProcessSchedulingPriorityClass(
    hProcess: HANDLE,
    PriorityClass: D3DKMT_SCHEDULINGPRIORITYCLASS,
) -> NTSTATUS {
    guarded("D3DKMTSetProcessSchedulingPriorityClass", |process| {
        process::with(process, hProcess, PROCESS_SET_INFORMATION, |named| {
            named.set_class(priority::check_class(PriorityClass, process.may_increase_priority())?)?;
            Ok(STATUS_SUCCESS)
        })
    })
}

/// How the contexts of a process stand among those of others. Another process than the calling one is named by a handle with PROCESS_QUERY_INFORMATION.
/// Errors: those of the handle. [d3dkmthk: D3DKMTGetProcessSchedulingPriorityClass]
///
/// # Safety
/// As [`D3DKMTSetContextSchedulingPriority`].
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTGetProcessSchedulingPriorityClass(
    hProcess: HANDLE,
    pPriorityClass: *mut D3DKMT_SCHEDULINGPRIORITYCLASS,
) -> NTSTATUS {
    guarded("D3DKMTGetProcessSchedulingPriorityClass", |process| {
        let class = process::with(process, hProcess, PROCESS_QUERY_INFORMATION, |process| Ok(process.class()))?;
        user::write(pPriorityClass, &class)?;
        Ok(STATUS_SUCCESS)
    })
}

//! Priorities of contexts.
//!
//! The user-mode driver here leaves them to its clients, so these are functions beside the table of thunks.

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use crate::process::Process;
use crate::vidsch::priority::{self, Priority};

use super::{enter, enter_read_only};

fn change(process: &Process, context: D3DKMT_HANDLE, set: impl FnOnce(&mut Priority)) -> Result<NTSTATUS, NTSTATUS> {
    if let Ok(context) = process.get_packet_context(context) {
        context.device().check()?;
        context.set_priority(set)?;
        return Ok(STATUS_SUCCESS);
    }
    let context = process.get_hw_context(context)?;
    context.device().check()?;
    let _running = context.adapter().vidsch().enter()?;
    context.set_priority(set)?;
    Ok(STATUS_SUCCESS)
}

fn get(process: &Process, context: D3DKMT_HANDLE) -> Result<Priority, NTSTATUS> {
    match process.get_packet_context(context) {
        Ok(context) => Ok(context.priority()),
        Err(_) => Ok(process.get_hw_context(context)?.priority()),
    }
}

/// Sets the priority of a context among all contexts: -7 to -1 is the idle band, 0 the normal one, 1 to 7 the focus band, 8 to 31
/// the realtime band at that level. Takes effect for work that is queued already. Errors: STATUS_INVALID_PARAMETER for another
/// value; STATUS_PRIVILEGE_NOT_HELD for the realtime band without [`Process::grant_realtime`]. Nothing is changed then.
/// [d3dkmthk: D3DKMTSetContextSchedulingPriority]
///
/// # Safety
/// Callable with any arguments: pointers are checked.
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTSetContextSchedulingPriority(
    args: *mut D3DKMT_SETCONTEXTSCHEDULINGPRIORITY,
) -> NTSTATUS {
    enter_read_only("D3DKMTSetContextSchedulingPriority", args, |process, args| {
        let wanted = priority::check_global(args.Priority, process.may_use_realtime())?;
        change(process, args.hContext, |priority| priority.global = wanted)
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
        let wanted = priority::check_in_process(args.Priority)?;
        change(process, args.hContext, |priority| priority.in_process = wanted)
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

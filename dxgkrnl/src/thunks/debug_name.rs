//! Names of objects for traces. The thunk is this project's own: Windows hears of such names by events of user mode.

use std::ffi::c_void;

use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use crate::machine::DebugNameOf;
use crate::refusal::refused;

use super::call::guarded;
use super::user;

/// Longest name, in bytes. What a program gives its objects has no limit; a longer name is cut by the caller.
const LENGTH_MAX: u32 = 128;

/// Names an object of the calling process, or a part of it, whose number the caller chooses, for traces of the machine: hardware queues, fences and
/// allocations. The name replaces the one before; an empty one takes it away. A program has 4096 names at a time, and loses the oldest one when it gives
/// one more.
///
/// Errors: STATUS_INVALID_HANDLE for what is no handle of these; STATUS_OBJECT_NAME_INVALID for more than 128 bytes; STATUS_INVALID_PARAMETER for bytes that are no
/// UTF-8; STATUS_ACCESS_VIOLATION.
pub(super) unsafe extern "win64" fn set_debug_name(
    object: D3DKMT_HANDLE,
    part: u32,
    name: *const c_void,
    length: u32,
) -> NTSTATUS {
    guarded("CampanileSetDebugName", |process| {
        if length > LENGTH_MAX {
            let why = format!("length is {length}, and expected is at most {LENGTH_MAX}");
            return Err(refused(STATUS_OBJECT_NAME_INVALID, why));
        }
        let text = String::from_utf8(user::read_array(name.cast::<u8>(), length)?);
        let text = text.map_err(|_| refused(STATUS_INVALID_PARAMETER, "name is no UTF-8"))?;
        let of = match () {
            () if process.find_hw_queue(object).is_ok() => DebugNameOf::Queue,
            () if process.get_sync(object).is_ok() => DebugNameOf::Fence,
            () if process.get_allocation(object).is_ok() => DebugNameOf::Memory,
            () => {
                let why = format!("{object:#x} is the handle of no hardware queue, fence or allocation of the process");
                return Err(refused(STATUS_INVALID_HANDLE, why));
            }
        };
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        machine.set_debug_name(process.id(), (of, object), part, &text);
        Ok(STATUS_SUCCESS)
    })
}

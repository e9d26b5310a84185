//! Shared fences.

use core::ffi::c_void;

use super::{DeviceHandle, Fault, FenceHandle, Out, Status, finish, handles, make_fence};
use crate::{Access, Device, Fence, c_api::handles::Object, share};

/// Access that an opening of a shared fence has.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceAccess {
    /// Read the value and wait for it.
    Wait = 0,
    /// Signal it too.
    Full = 1,
    /// Read the value and signal it; wait for nothing.
    Signal = 2,
}

pub(super) fn access(number: i32) -> Result<Access, Fault> {
    match number {
        0 => Ok(Access::Wait),
        1 => Ok(Access::Full),
        2 => Ok(Access::Signal),
        _ => Err(Status::BadArgument.into()),
    }
}

/// As campanile_fence_create, for a fence that campanile_fence_share gives to other devices and processes.
///
/// # Safety
/// `fence` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_fence_create_shared(
    device: DeviceHandle,
    initial: u64,
    fence: *mut FenceHandle,
) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { make_fence(device, fence, |device| Fence::new_shared(device, initial)) }
}

/// As campanile_fence_create_shared, for a fence that devices of other GPUs open too. There is one value, in system memory, and every
/// signal of a GPU interrupts the processor, which tells the other GPUs: use it only between GPUs.
///
/// # Safety
/// `fence` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_fence_create_cross_adapter(
    device: DeviceHandle,
    initial: u64,
    fence: *mut FenceHandle,
) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { make_fence(device, fence, |device| Fence::new_cross_adapter(device, initial)) }
}

/// Gives a shared fence a kernel handle in this process, by which it is opened with at most `access`, a campanile_access. The
/// handle keeps the fence until it is closed. Another process opens the fence by a handle of its own, made by DuplicateHandle.
///
/// # Safety
/// `handle` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_fence_share(fence: FenceHandle, access: i32, handle: *mut *mut c_void) -> i32 {
    finish((|| {
        let out = Out::new(handle)?;
        let access = self::access(access)?;
        let shared = handles::with(fence.id, |fence: &Fence| Ok(fence.share(access)?))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(shared.into_raw()) };
        Ok(())
    })())
}

/// Opens a shared fence on a device of the fence's GPU, or of any GPU if it was created by campanile_fence_create_cross_adapter, by a
/// kernel handle of this process, for `access`, a campanile_access. The handle stays open. The fence keeps its kind; one of several GPUs is
/// opened as a native fence where the GPU has them and as a monitored one elsewhere. The opening has no right that the handle does
/// not grant: a signal that the system refuses faults the queue.
///
/// # Safety
/// `fence` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_fence_open(
    device: DeviceHandle,
    handle: *mut c_void,
    access: i32,
    fence: *mut FenceHandle,
) -> i32 {
    finish((|| {
        let out = Out::new(fence)?;
        let access = self::access(access)?;
        let opened = handles::with(device.id, |device: &Device| Ok(Fence::open(device, handle, access)?))?;
        let id = handles::insert(Object::Fence(opened))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(FenceHandle { id }) };
        Ok(())
    })())
}

/// Closes a kernel handle of this process by the thunks of `device`, which may be any device of the process. On Windows it is what
/// CloseHandle does.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_handle_close(device: DeviceHandle, handle: *mut c_void) -> i32 {
    finish(handles::with(device.id, |device: &Device| Ok(share::close(device, handle)?)))
}

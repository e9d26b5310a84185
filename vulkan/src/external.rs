// UNSAFETY: kernel handles are taken over.
//! What leaves the device as a file descriptor, and comes to it as one.

use core::ffi::c_int;

use campanile_umd::{Device, Error, SharedHandle};
use wddm_ddi::status::{NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INSUFFICIENT_RESOURCES, STATUS_NO_MEMORY};

use ash::vk;

use crate::failure::{Answer, result};
use crate::machine;

/// Makes a descriptor of what a kernel handle stands for; the handle is closed.
///
/// # Errors
/// VK_ERROR_TOO_MANY_OBJECTS if the process has no more descriptors, or the machine as many objects of it as it keeps; VK_ERROR_DEVICE_LOST.
pub(crate) fn export(handle: &SharedHandle) -> Answer<c_int> {
    machine::descriptor_of(handle.raw()).map_err(|status| match status {
        STATUS_INSUFFICIENT_RESOURCES => vk::Result::ERROR_TOO_MANY_OBJECTS,
        status => result(Error::Status(status, "CampanileExportNtHandle")),
    })
}

/// Opens what a descriptor is of on a device. The descriptor is the driver's if that succeeds, and closed; otherwise it is the application's as before.
///
/// # Errors
/// VK_ERROR_INVALID_EXTERNAL_HANDLE for a descriptor of anything else, or of another machine; VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY,
/// VK_ERROR_DEVICE_LOST.
pub(crate) fn import<T>(
    device: &Device,
    descriptor: c_int,
    open: impl FnOnce(&SharedHandle) -> Answer<T>,
) -> Answer<T> {
    let raw = machine::handle_of(descriptor).map_err(of_status)?;
    // SAFETY: the handle is new, and nobody else has it.
    let handle = unsafe { SharedHandle::from_raw(device, raw) };
    let opened = open(&handle)?;
    machine::close(descriptor);
    Ok(opened)
}

/// The result of an import that a thunk refused.
pub(crate) fn refused(error: Error) -> vk::Result {
    match error {
        Error::DeviceLost => vk::Result::ERROR_DEVICE_LOST,
        Error::Status(status, _) => of_status(status),
        _ => vk::Result::ERROR_INVALID_EXTERNAL_HANDLE,
    }
}

fn of_status(status: NTSTATUS) -> vk::Result {
    match status {
        STATUS_DEVICE_REMOVED => vk::Result::ERROR_DEVICE_LOST,
        STATUS_INSUFFICIENT_RESOURCES => vk::Result::ERROR_OUT_OF_HOST_MEMORY,
        STATUS_NO_MEMORY => vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
        _ => vk::Result::ERROR_INVALID_EXTERNAL_HANDLE,
    }
}

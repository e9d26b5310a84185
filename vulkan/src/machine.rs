// UNSAFETY: thunks that pass kernel handles as file descriptors are called by address.
//! The operating system's thunks, through which the user-mode driver finds the adapter; and the descriptors that kernel handles are handed over as.

pub(crate) use place::{close, descriptor_of, handle_of, name, number, thunks};

/// True if kernel handles leave the process as file descriptors.
pub(crate) const HAS_DESCRIPTORS: bool = cfg!(not(windows));

/// The thunks of Windows, where programs hand kernel handles to each other as such.
#[cfg(windows)]
mod place {
    use core::ffi::c_int;

    use campanile_umd::Thunks;
    use wddm_ddi::status::STATUS_NOT_SUPPORTED;
    use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, NTSTATUS};

    pub(crate) fn thunks() -> &'static Thunks {
        campanile_umd::system_thunks()
    }

    /// LUIDs of Windows tell its adapters apart.
    pub(crate) fn number() -> u64 {
        0
    }

    /// Windows has no thunk that names objects.
    pub(crate) fn name(_object: D3DKMT_HANDLE, _part: u32, _text: &str) {}

    pub(crate) fn descriptor_of(_handle: HANDLE) -> Result<c_int, NTSTATUS> {
        Err(STATUS_NOT_SUPPORTED)
    }

    pub(crate) fn handle_of(_descriptor: c_int) -> Result<HANDLE, NTSTATUS> {
        Err(STATUS_NOT_SUPPORTED)
    }

    pub(crate) fn close(_descriptor: c_int) {}
}

/// The thunks of libcampanile_kmt.so, with a machine of this process or, by CAMPANILE_MACHINE, one that another process serves.
#[cfg(not(windows))]
mod place {
    use core::ffi::c_int;
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::os::unix::fs::MetadataExt;

    use campanile_umd::Thunks;
    use wddm_ddi::status::STATUS_INVALID_HANDLE;
    use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, NTSTATUS};

    pub(crate) fn thunks() -> &'static Thunks {
        campanile_kmt::table::thunks()
    }

    /// A number of the machine, which is the same for those programs that are on it: of the socket at which it is served, or of this process.
    pub(crate) fn number() -> u64 {
        let served = std::env::var_os("CAMPANILE_MACHINE").and_then(|socket| std::fs::metadata(socket).ok());
        served.map_or(1 << 63 | u64::from(std::process::id()), |socket| socket.dev().rotate_left(40) ^ socket.ino())
    }

    /// Names an object, or a part of it, for traces. A machine that is gone, or that has no memory, shows it without a name.
    pub(crate) fn name(object: D3DKMT_HANDLE, part: u32, text: &str) {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        // SAFETY: the thunk takes any number, and a text that lives across the call with its length.
        let _ = unsafe { campanile_kmt::CampanileSetDebugName(object, part, text.as_ptr().cast(), length) };
    }

    /// A descriptor of what a kernel handle stands for.
    ///
    /// # Errors
    /// Those of CampanileExportNtHandle.
    pub(crate) fn descriptor_of(handle: HANDLE) -> Result<c_int, NTSTATUS> {
        let mut descriptor = 0;
        // SAFETY: the thunk takes any handle, and a place of this frame.
        unsafe { campanile_kmt::CampanileExportNtHandle(handle, &mut descriptor) }.ok()?;
        Ok(descriptor.cast_signed())
    }

    /// A kernel handle, the caller's to close, of what a descriptor is of.
    ///
    /// # Errors
    /// Those of CampanileImportNtHandle; STATUS_INVALID_HANDLE if it answered none.
    pub(crate) fn handle_of(descriptor: c_int) -> Result<HANDLE, NTSTATUS> {
        let mut handle = core::ptr::null_mut();
        // SAFETY: the thunk takes any number, and a place of this frame.
        unsafe { campanile_kmt::CampanileImportNtHandle(descriptor.cast_unsigned(), &mut handle) }.ok()?;
        if handle.is_null() { Err(STATUS_INVALID_HANDLE) } else { Ok(handle) }
    }

    /// Closes a descriptor that the application has given up to the driver.
    pub(crate) fn close(descriptor: c_int) {
        // SAFETY: it was open when it was imported, and is the driver's since then. [Vulkan: VkImportMemoryFdInfoKHR]
        drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    }
}

//! Events that waits set.

pub use os::{Event, EventNumber};

use crate::Failure;
use crate::wait::wait_until;

impl Event {
    /// True if the event was set since the last call, which this call resets.
    ///
    /// # Errors
    /// The system refuses the look.
    pub fn is_set(&self) -> Result<bool, Failure> {
        Ok(self.times_set()? != 0)
    }

    /// Waits until it is set.
    ///
    /// # Errors
    /// It never is.
    pub fn wait(&self) -> Result<(), Failure> {
        wait_until("the event", || matches!(self.is_set(), Ok(true) | Err(_)))
    }
}

#[cfg(unix)]
mod os {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use crate::Failure;

    /// An event as thunks take it.
    pub type EventNumber = i32;

    /// An eventfd, which stands for the event.
    pub struct Event(OwnedFd);

    impl Event {
        /// Not set.
        ///
        /// # Errors
        /// The system has no resources for it.
        pub fn new() -> Result<Self, Failure> {
            // SAFETY: eventfd takes plain numbers.
            let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
            if fd < 0 {
                return Err(std::io::Error::last_os_error().into());
            }
            // SAFETY: the descriptor was just created and belongs to nobody else.
            Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
        }

        /// As thunks take it.
        pub fn number(&self) -> EventNumber {
            self.0.as_raw_fd()
        }

        /// Number of times that the event was set since the last call.
        ///
        /// # Errors
        /// The system refuses the look.
        pub fn times_set(&self) -> Result<u64, Failure> {
            let mut count = 0u64;
            // SAFETY: there is space for the eight bytes that are read.
            let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
            if read == 8 {
                return Ok(count);
            }
            let error = std::io::Error::last_os_error();
            if error.kind() == std::io::ErrorKind::WouldBlock { Ok(0) } else { Err(error.into()) }
        }
    }
}

#[cfg(windows)]
mod os {
    use std::ffi::c_void;
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle, RawHandle};

    use crate::Failure;

    /// An event as thunks take it.
    pub type EventNumber = isize;

    #[link(name = "kernel32", kind = "raw-dylib")]
    unsafe extern "system" {
        fn CreateEventW(attributes: *const c_void, manual_reset: i32, initial: i32, name: *const u16) -> RawHandle;
        fn WaitForSingleObject(handle: RawHandle, milliseconds: u32) -> u32;
    }

    /// An event that a look resets. Windows counts no settings, so that several are one.
    pub struct Event(OwnedHandle);

    impl Event {
        /// Not set.
        ///
        /// # Errors
        /// The system has no resources for it.
        pub fn new() -> Result<Self, Failure> {
            // SAFETY: no attributes and no name.
            let handle = unsafe { CreateEventW(std::ptr::null(), 0, 0, std::ptr::null()) };
            if handle.is_null() {
                return Err(std::io::Error::last_os_error().into());
            }
            // SAFETY: the handle was just created and belongs to nobody else.
            Ok(Self(unsafe { OwnedHandle::from_raw_handle(handle) }))
        }

        /// As thunks take it.
        pub fn number(&self) -> EventNumber {
            self.0.as_raw_handle().addr().cast_signed()
        }

        /// Number of times that the event was set since the last call, of which Windows tells only 0 or 1.
        ///
        /// # Errors
        /// The system refuses the look.
        pub fn times_set(&self) -> Result<u64, Failure> {
            // SAFETY: the handle is open until the drop, and nothing is waited for.
            match unsafe { WaitForSingleObject(self.0.as_raw_handle(), 0) } {
                0 => Ok(1),
                0x102 => Ok(0),
                _ => Err(std::io::Error::last_os_error().into()),
            }
        }
    }
}

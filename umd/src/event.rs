//! Events: a wait with a time limit passes one to the operating system and waits for it, instead of blocking in the thunk.

pub(crate) use os::Event;

#[cfg(not(windows))]
mod os {
    //! An eventfd stands for the event, as in the Linux implementations of these thunks.

    use core::time::Duration;

    use wddm_ddi::{status::STATUS_INSUFFICIENT_RESOURCES, types::HANDLE};

    use crate::error::{Error, Result};

    /// Closed on drop; the operating system has its own duplicate while a wait is registered.
    pub(crate) struct Event(i32);

    impl Event {
        pub(crate) fn new() -> Result<Self> {
            // SAFETY: takes no pointers.
            match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) } {
                -1 => Err(Error::Status(STATUS_INSUFFICIENT_RESOURCES, "eventfd")),
                descriptor => Ok(Self(descriptor)),
            }
        }

        pub(crate) fn handle(&self) -> HANDLE {
            core::ptr::without_provenance_mut(self.0 as usize)
        }

        /// Waits for the event. True if it was set within `limit`.
        pub(crate) fn wait(&self, limit: Duration) -> Result<bool> {
            // Beyond a century the sum would overflow, and the difference is academic.
            let end = now() + limit.min(Duration::from_secs(100 * 365 * 86_400));
            loop {
                let left = end.saturating_sub(now());
                match self.poll(left) {
                    1.. => return Ok(true),
                    0 => return Ok(false),
                    // A signal handler ran: wait for the time that is left.
                    _ if !left.is_zero() => {}
                    _ => return Ok(false),
                }
            }
        }

        fn poll(&self, limit: Duration) -> i32 {
            let mut poll = libc::pollfd { fd: self.0, events: libc::POLLIN, revents: 0 };
            let limit = libc::timespec {
                tv_sec: limit.as_secs() as libc::time_t,
                tv_nsec: libc::c_long::from(limit.subsec_nanos()),
            };
            // SAFETY: one descriptor record and a time, both of this frame; no signal mask.
            unsafe { libc::ppoll(&mut poll, 1, &limit, core::ptr::null()) }
        }
    }

    impl Drop for Event {
        fn drop(&mut self) {
            // SAFETY: the descriptor is ours and not used again.
            unsafe { libc::close(self.0) };
        }
    }

    /// Time on the monotonic clock.
    fn now() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes one timespec of this frame.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

#[cfg(windows)]
mod os {
    use core::{ffi::c_void, time::Duration};

    use wddm_ddi::{status::STATUS_INSUFFICIENT_RESOURCES, types::HANDLE};

    use crate::error::{Error, Result};

    #[link(name = "kernel32", kind = "raw-dylib")]
    unsafe extern "system" {
        fn CreateEventW(attributes: *const c_void, manual_reset: i32, initial: i32, name: *const u16) -> HANDLE;
        fn WaitForSingleObject(handle: HANDLE, milliseconds: u32) -> u32;
        fn CloseHandle(handle: HANDLE) -> i32;
    }

    /// Longest single wait in milliseconds; one more would mean for ever.
    const WAIT_MAX: u128 = u32::MAX as u128 - 1;

    /// Closed on drop; the kernel references the object while a wait is registered.
    pub(crate) struct Event(HANDLE);

    impl Event {
        pub(crate) fn new() -> Result<Self> {
            // SAFETY: no attributes and no name.
            let handle = unsafe { CreateEventW(core::ptr::null(), 1, 0, core::ptr::null()) };
            if handle.is_null() {
                Err(Error::Status(STATUS_INSUFFICIENT_RESOURCES, "CreateEventW"))
            } else {
                Ok(Self(handle))
            }
        }

        pub(crate) fn handle(&self) -> HANDLE {
            self.0
        }

        /// Waits for the event. True if it was set within `limit`, rounded up to milliseconds.
        pub(crate) fn wait(&self, limit: Duration) -> Result<bool> {
            let milliseconds = limit.as_nanos().div_ceil(1_000_000).min(WAIT_MAX) as u32;
            // SAFETY: the handle is open until the drop.
            match unsafe { WaitForSingleObject(self.0, milliseconds) } {
                0 => Ok(true),
                0x102 => Ok(false),
                _ => Err(Error::BadAnswer("WaitForSingleObject failed on an event of ours")),
            }
        }
    }

    impl Drop for Event {
        fn drop(&mut self) {
            // SAFETY: the handle is ours and not used again.
            unsafe { CloseHandle(self.0) };
        }
    }
}

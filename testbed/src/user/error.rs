//! Errors of the user-mode driver, linked or DLL.

use std::fmt;

use campanile_umd::c_api::Status;
use wddm_ddi::status::NTSTATUS;

use super::library::Refusal;

/// Result of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a call of the user-mode driver failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The GPU was reset, removed or stopped. Drop every queue, fence, buffer and device, then create them anew.
    DeviceLost,
    /// The time limit passed first.
    Timeout,
    /// Every ring entry is in use (only from submissions that do not wait).
    RingFull,
    /// Command memory is in use (only from submissions that do not wait).
    CommandMemoryFull,
    /// Queued work still uses the buffer (only from maps that do not wait).
    WasStillDrawing,
    /// Another refusal of the driver that is linked into this program.
    Linked(campanile_umd::Error),
    /// Another refusal of the DLL: the function that refused, and the status it returned.
    Dll {
        /// Function of `campanile.h`.
        function: &'static str,
        /// A status of `campanile.h`, or a negative `NTSTATUS`.
        status: i32,
        /// The DLL's text for the status.
        text: &'static str,
    },
    /// The DLL could not be loaded.
    NotLoaded(&'static Refusal),
    /// An argument of this program is out of range; says which.
    BadArgument(&'static str),
}

impl Error {
    /// What a status of the DLL means; `text` is the DLL's own explanation of it.
    pub(super) fn of_status(function: &'static str, status: i32, text: &'static str) -> Self {
        const DEVICE_LOST: i32 = Status::DeviceLost as i32;
        const TIMEOUT: i32 = Status::Timeout as i32;
        const RING_FULL: i32 = Status::RingFull as i32;
        const COMMAND_MEMORY_FULL: i32 = Status::CommandMemoryFull as i32;
        const WAS_STILL_DRAWING: i32 = Status::WasStillDrawing as i32;
        match status {
            DEVICE_LOST => Self::DeviceLost,
            TIMEOUT => Self::Timeout,
            RING_FULL => Self::RingFull,
            COMMAND_MEMORY_FULL => Self::CommandMemoryFull,
            WAS_STILL_DRAWING => Self::WasStillDrawing,
            _ => Self::Dll { function, status, text },
        }
    }
}

impl From<campanile_umd::Error> for Error {
    fn from(error: campanile_umd::Error) -> Self {
        match error {
            campanile_umd::Error::DeviceLost => Self::DeviceLost,
            campanile_umd::Error::Timeout => Self::Timeout,
            campanile_umd::Error::RingFull => Self::RingFull,
            campanile_umd::Error::CommandMemoryFull => Self::CommandMemoryFull,
            campanile_umd::Error::WasStillDrawing => Self::WasStillDrawing,
            other => Self::Linked(other),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeviceLost => campanile_umd::Error::DeviceLost.fmt(f),
            Self::Timeout => campanile_umd::Error::Timeout.fmt(f),
            Self::RingFull => campanile_umd::Error::RingFull.fmt(f),
            Self::CommandMemoryFull => campanile_umd::Error::CommandMemoryFull.fmt(f),
            Self::WasStillDrawing => campanile_umd::Error::WasStillDrawing.fmt(f),
            Self::Linked(error) => error.fmt(f),
            Self::Dll { function, status, text } if *status < 0 => {
                write!(f, "{function}: {text}: {}", NTSTATUS(*status))
            }
            Self::Dll { function, text, .. } => write!(f, "{function}: {text}"),
            Self::NotLoaded(refusal) => refusal.fmt(f),
            Self::BadArgument(rule) => write!(f, "bad argument: {rule}"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_drivers_refusals_that_callers_tell_apart_are_the_same() {
        for (status, linked) in [
            (Status::DeviceLost, campanile_umd::Error::DeviceLost),
            (Status::Timeout, campanile_umd::Error::Timeout),
            (Status::RingFull, campanile_umd::Error::RingFull),
            (Status::CommandMemoryFull, campanile_umd::Error::CommandMemoryFull),
            (Status::WasStillDrawing, campanile_umd::Error::WasStillDrawing),
        ] {
            assert_eq!(Error::of_status("f", status as i32, "text"), Error::from(linked));
        }
    }

    #[test]
    fn a_refusal_of_the_dll_is_named_with_its_function() {
        let error = Error::of_status("campanile_buffer_map", Status::NotMappable as i32, "the buffer lies in VRAM");
        assert_eq!(error.to_string(), "campanile_buffer_map: the buffer lies in VRAM");
        let error = Error::of_status("campanile_device_create", wddm_ddi::status::STATUS_NO_MEMORY.0, "refused");
        assert!(error.to_string().contains("STATUS_NO_MEMORY"), "{error}");
    }
}

//! Why a function of the C API fails, as a number; and the texts of thunks that a system lacks, one status for each.

use core::ffi::CStr;

use wddm_ddi::kmt::terminated;

use super::Status;
use crate::{Error, Thunks};

/// The reason why a function of the C API fails: a status of its own, or an error of this crate.
pub(crate) enum Fault {
    Status(Status),
    Error(Error),
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Fault {
    pub(super) fn number(self) -> i32 {
        match self {
            Self::Status(status) => status as i32,
            // A failed status is negative; anything else would be taken for success or for a number of ours.
            Self::Error(Error::Status(status, _)) if status.0 < 0 => status.0,
            Self::Error(error) => row(&error) + error_status(error) as i32,
        }
    }
}

fn error_status(error: Error) -> Status {
    match error {
        Error::Status(..) | Error::BadAnswer(_) => Status::BadAnswer,
        Error::MissingThunk(_) => Status::MissingThunk,
        Error::DeviceLost => Status::DeviceLost,
        Error::NoAdapter => Status::NoAdapter,
        Error::Version(_) => Status::Version,
        Error::NativeFencesDisabled => Status::NativeFencesDisabled,
        Error::UserSubmissionDisabled => Status::UserSubmissionDisabled,
        Error::BadArgument(_) => Status::BadArgument,
        Error::BadPacket(_) => Status::BadPacket,
        Error::BadProgram(_) => Status::BadProgram,
        Error::NotMappable => Status::NotMappable,
        Error::ForeignFence => Status::ForeignFence,
        Error::WaitOnlyFence => Status::WaitOnlyFence,
        Error::NotShared => Status::NotShared,
        Error::SignalOnlyFence => Status::SignalOnlyFence,
        Error::NeedsKernelSubmission => Status::NeedsKernelSubmission,
        Error::OutOfReach => Status::OutOfReach,
        Error::CommandsTooLarge => Status::CommandsTooLarge,
        // Records are kept for Rust only.
        Error::RingFull | Error::RecordsFull => Status::RingFull,
        Error::CommandMemoryFull => Status::CommandMemoryFull,
        Error::Timeout => Status::Timeout,
        Error::WasStillDrawing => Status::WasStillDrawing,
        Error::AllMapped => Status::AllMapped,
        Error::DoorbellStatus(_) => Status::DoorbellStatus,
    }
}

macro_rules! missing {
    (
        $(#[doc = $about:literal])*
        Thunks { $( $module:literal { $( $(#[doc = $doc:literal])* $name:ident($($argument:ident: $ty:ty),+); )* } )* }
        $($others:tt)*
    ) => {
        /// What to say of each thunk that the system lacks, in the order of the table.
        const MISSING: [&CStr; Thunks::NAMES.len()] = [$($(
            terminated(concat!("this Windows does not export ", stringify!($name), "; Windows 11 24H2 is the first that has all thunks\0"))
        ),*),*];
    };
}

wddm_ddi::for_each_thunk!(missing);

/// Place of an error in the row of missing thunks, which begins with [`Status::MissingThunk`]; 0 for one that is not of the row.
fn row(error: &Error) -> i32 {
    let Error::MissingThunk(missing) = error else { return 0 };
    Thunks::NAMES.iter().position(|name| name == missing).map_or(0, |place| place as i32)
}

/// The text of a status of the row of missing thunks.
pub(super) fn missing_thunk(status: i32) -> Option<&'static CStr> {
    let place = usize::try_from(status.checked_sub(Status::MissingThunk as i32)?).ok()?;
    MISSING.get(place).copied()
}

//! Handles of drivers and of the system as they cross the interface.

use crate::refusal::{Failure, refused};
use wddm_ddi::status::STATUS_DRIVER_INTERNAL_ERROR;
use wddm_ddi::types::HANDLE;

/// A handle of the other side: kept and passed back, never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KmdHandle(usize);

impl KmdHandle {
    pub(crate) const NULL: Self = Self(0);

    pub(crate) fn new(raw: HANDLE) -> Self {
        Self(raw.addr())
    }

    /// The system's handle of a process with this identity. [d3dkmddi: DXGKARG_CREATEPROCESS]
    pub(crate) fn of_process(id: u64) -> Self {
        Self(id as usize)
    }

    pub(crate) fn raw(self) -> HANDLE {
        core::ptr::without_provenance_mut(self.0)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The handle that a driver's function has answered with success in a member of a structure, where `given` was before. A driver that leaves the value
    /// alone would get the system's own handle passed as its pointer later.
    ///
    /// # Errors
    /// STATUS_DRIVER_INTERNAL_ERROR for NULL and for `given`.
    pub(crate) fn answered(self, given: HANDLE, ddi: &str, (structure, member): (&str, &str)) -> Result<Self, Failure> {
        if !self.is_null() && self.raw() != given {
            return Ok(self);
        }
        let why = format!(
            "{ddi} broke a rule in {member}: it answered STATUS_SUCCESS and {:#x}, and expected is a handle of the driver's own, neither NULL \
             nor the one that it was given [d3dkmddi: {structure}]",
            self.0
        );
        Err(refused(STATUS_DRIVER_INTERNAL_ERROR, why))
    }
}

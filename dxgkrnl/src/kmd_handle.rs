//! Handles of drivers and of the system as they cross the interface.

use wddm_ddi::types::HANDLE;

/// A handle of the other side: kept and passed back, never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KmdHandle(usize);

impl KmdHandle {
    pub(crate) const NULL: Self = Self(0);

    pub(crate) fn new(raw: HANDLE) -> Self {
        Self(raw.addr())
    }

    pub(crate) fn raw(self) -> HANDLE {
        core::ptr::without_provenance_mut(self.0)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0 == 0
    }
}

//! Power components of an adapter.
//!
//! An adapter that does not manage power at run time, or declares no component, is never asked for an F-state; what is left
//! is to refuse component numbers that do not exist.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many components the driver declared.
#[derive(Default)]
pub(crate) struct PowerComponents {
    count: AtomicU32,
}

impl PowerComponents {
    /// Takes the answer to NUMPOWERCOMPONENTS.
    pub(super) fn declare(&self, count: u32) {
        self.count.store(count, Ordering::Release);
    }

    /// Whether a component with this number was declared.
    pub(crate) fn exists(&self, index: u32) -> bool {
        index < self.count.load(Ordering::Acquire)
    }
}

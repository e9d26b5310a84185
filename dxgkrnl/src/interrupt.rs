//! Interrupt messages, the interrupt lock and deferred procedure calls of one adapter.

use std::sync::{Mutex, MutexGuard};

use crate::irql::{DEVICE_LEVEL, Raised};
use crate::machine::lock;

/// Interrupt state of an adapter.
pub(crate) struct Interrupts {
    line: Mutex<()>,
}

/// The calling thread holds the interrupt lock at device level.
pub(crate) struct AtDeviceLevel<'a> {
    _line: MutexGuard<'a, ()>,
    _raised: Raised,
}

impl Interrupts {
    pub(crate) fn new() -> Self {
        Self { line: Mutex::new(()) }
    }

    /// Raises to device level and takes the interrupt lock.
    pub(crate) fn acquire(&self) -> AtDeviceLevel<'_> {
        let raised = Raised::to(DEVICE_LEVEL);
        AtDeviceLevel { _line: lock(&self.line), _raised: raised }
    }
}

//! A CPU wait that only remembers whether it is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use campanile_hw::fence::UNMONITORED;

/// One CPU wait. It is ended with the lock of its list held, so it adds no races of its own.
pub(crate) struct Wait(AtomicBool);

impl Wait {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(false)))
    }

    pub(crate) fn satisfy(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn outcome(&self) -> Option<()> {
        self.0.load(Ordering::Relaxed).then_some(())
    }
}

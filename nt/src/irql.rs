//! Interrupt request levels of the simulated processor: one level a thread.

use std::sync::atomic::{AtomicU8, Ordering};

use wddm_ddi::nt::PASSIVE_LEVEL;
use wddm_ddi::types::KIRQL;

/// Device interrupt level of every adapter here.
pub const DEVICE_LEVEL: KIRQL = 5;

/// The highest level: nothing interrupts.
pub const HIGH_LEVEL: KIRQL = 15;

thread_local! {
    /// Atomic, because the watchdog of driver calls reads the levels of other threads.
    static LEVEL: AtomicU8 = const { AtomicU8::new(PASSIVE_LEVEL) };
}

/// Level of the calling thread.
pub fn current() -> KIRQL {
    LEVEL.with(|level| level.load(Ordering::Relaxed))
}

/// Sets the level of the calling thread and returns the old one. Only for code that plays the kernel's own raise and lower.
pub fn set(level: KIRQL) -> KIRQL {
    LEVEL.with(|current| current.swap(level, Ordering::Relaxed))
}

/// Where the level of the calling thread is, as long as the thread lives.
pub fn of_this_thread() -> *const AtomicU8 {
    LEVEL.with(|level| &raw const *level)
}

/// The calling thread runs at a raised level until this is dropped.
#[derive(Debug)]
pub struct Raised {
    old: KIRQL,
}

impl Raised {
    /// Raises to `level`, or stays where the thread is if that is higher.
    pub fn to(level: KIRQL) -> Self {
        let old = current();
        set(old.max(level));
        Self { old }
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        set(self.old);
    }
}

//! Interrupt request levels of the simulated processor: one level a thread.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use wddm_ddi::nt::{DISPATCH_LEVEL, PASSIVE_LEVEL};
use wddm_ddi::types::KIRQL;

/// Device interrupt level of every adapter here.
pub const DEVICE_LEVEL: KIRQL = 5;

/// The highest level: nothing interrupts.
pub const HIGH_LEVEL: KIRQL = 15;

thread_local! {
    /// Atomic, because the watchdog of driver calls reads the levels of other threads.
    static LEVEL: AtomicU8 = const { AtomicU8::new(PASSIVE_LEVEL) };
    /// The number of times that the level of the thread fell below DISPATCH_LEVEL since somebody asked for the first time.
    static FALLS: Arc<AtomicU64> = Arc::default();
    /// True once somebody has asked. Until then a signal handler that sets the level makes nothing.
    static FALLS_COUNT: Cell<bool> = const { Cell::new(false) };
}

/// The time for which a thread stays at DISPATCH_LEVEL or above.
#[derive(Clone, Debug)]
pub struct RaisedSection {
    falls: Arc<AtomicU64>,
    begun: u64,
}

impl RaisedSection {
    /// That of the calling thread; `None` below DISPATCH_LEVEL.
    pub fn current() -> Option<Self> {
        FALLS_COUNT.set(true);
        let falls = FALLS.with(Arc::clone);
        let begun = falls.load(Ordering::Acquire);
        (current() >= DISPATCH_LEVEL).then_some(Self { falls, begun })
    }

    /// True if the thread has lowered its level below DISPATCH_LEVEL since.
    pub fn is_over(&self) -> bool {
        self.falls.load(Ordering::Acquire) != self.begun
    }
}

/// Level of the calling thread.
pub fn current() -> KIRQL {
    LEVEL.with(|level| level.load(Ordering::Relaxed))
}

/// Sets the level of the calling thread and returns the old one. Only for code that plays the kernel's own raise and lower.
pub fn set(level: KIRQL) -> KIRQL {
    let old = LEVEL.with(|current| current.swap(level, Ordering::Relaxed));
    if old >= DISPATCH_LEVEL && level < DISPATCH_LEVEL && FALLS_COUNT.get() {
        FALLS.with(|falls| falls.fetch_add(1, Ordering::Release));
    }
    old
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

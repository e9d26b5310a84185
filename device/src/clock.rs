//! The GPU clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Ticks a second.
pub(crate) const HZ: u64 = 1_000_000_000;

/// Nanoseconds since reset, or from a value that was set; never backwards otherwise.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    /// Time of `origin`'s clock at which this one would have shown zero, modulo 2^64.
    start: AtomicU64,
}

impl Clock {
    /// A clock that shows zero now.
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now(), start: AtomicU64::new(0) }
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The time in ticks.
    pub(crate) fn now(&self) -> u64 {
        self.elapsed().wrapping_sub(self.start.load(Ordering::Relaxed))
    }

    /// Goes on from `ticks`.
    pub(crate) fn set(&self, ticks: u64) {
        self.start.store(self.elapsed().wrapping_sub(ticks), Ordering::Relaxed);
    }
}

//! How late the host runs threads of this process. Time limits of the system go by the host's clock: what is made good while threads wait for a processor for a second may be the host's doing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time for which the thread sleeps that watches.
const SLEEP: Duration = Duration::from_millis(10);

/// The longest time by which a thread woke up late, since it was asked for and in all, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Delay {
    lately: AtomicU64,
    longest: AtomicU64,
}

impl Delay {
    /// Sleeps again and again until it is over.
    pub(super) fn watch(&self, is_over: impl Fn() -> bool) {
        while !is_over() {
            let began = Instant::now();
            thread::sleep(SLEEP);
            let late = began.elapsed().saturating_sub(SLEEP).as_millis() as u64;
            self.lately.fetch_max(late, Ordering::Relaxed);
            self.longest.fetch_max(late, Ordering::Relaxed);
        }
    }

    /// Milliseconds since this was asked last.
    pub(super) fn take(&self) -> u64 {
        self.lately.swap(0, Ordering::Relaxed)
    }

    /// Milliseconds in all.
    pub(super) fn longest(&self) -> u64 {
        self.longest.load(Ordering::Relaxed)
    }
}

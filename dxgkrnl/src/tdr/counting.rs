//! Counts that are being made: what goes on again because the watchdog resumed it may be counted a moment later, on another thread, and whoever takes the counts waits
//! for that.

use std::time::Duration;

use nt::lock::{Condvar, Mutex, lock};

/// Interval at which a thread that waits for counts looks whether they are of use still.
const INTERVAL: Duration = Duration::from_millis(10);

/// Number of threads that are finding out what is to be counted.
#[derive(Default)]
pub(super) struct Counting {
    threads: Mutex<usize>,
    ended: Condvar,
}

/// The calling thread finds out what is to be counted until this is dropped.
pub(super) struct Counts<'a>(&'a Counting);

impl Counting {
    /// To be called before anything goes on whose going on is counted.
    pub(super) fn begin(&self) -> Counts<'_> {
        *lock(&self.threads) += 1;
        Counts(self)
    }

    /// Waits until everything is counted that goes on already, unless `is_useless`.
    pub(super) fn wait(&self, is_useless: impl Fn() -> bool) {
        let mut threads = lock(&self.threads);
        while *threads != 0 && !is_useless() {
            threads = self.ended.wait_timeout(threads, INTERVAL);
        }
    }
}

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        *lock(&self.0.threads) -= 1;
        self.0.ended.notify_all();
    }
}

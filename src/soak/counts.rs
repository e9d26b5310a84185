//! What the programs of a soak did, and what was done to them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts that all threads add to.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) steps: AtomicU64,
    pub(super) processes: AtomicU64,
    pub(super) terminated: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) lost_by_reset: AtomicU64,
    pub(super) lost_by_removal: AtomicU64,
    pub(super) hangs: AtomicU64,
    pub(super) removals: AtomicU64,
    pub(super) sleeps: AtomicU64,
    pub(super) engine_sleeps: AtomicU64,
    pub(super) comparisons: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::SeqCst) + 1
}

pub(super) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

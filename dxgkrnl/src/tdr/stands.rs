//! Queues that stand still, as they were found the last time.

use std::collections::HashMap;
use std::time::Duration;

/// Queues that stand, by the system's handle.
#[derive(Default)]
pub(super) struct Stands(pub(super) HashMap<usize, Stand>);

/// A queue with work that does nothing.
#[derive(Clone, Copy)]
pub(super) struct Stand {
    pub(super) progress: u64,
    pub(super) begun: Duration,
    /// What the node has done otherwise, and since when that is nothing more.
    pub(super) node: (u64, Duration),
    /// Early suspensions of its context until it began to stand.
    pub(super) early: u64,
    pub(super) told: bool,
}

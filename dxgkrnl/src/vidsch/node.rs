//! What the scheduler keeps about one node of the adapter.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::machine::lock;

use super::packet_fence::PacketFences;

/// One node.
pub(crate) struct Node {
    /// Held while a packet is handed to the driver, so that ids arrive in order. Taken before `fences`.
    pub(super) submitting: Mutex<()>,
    /// Lock order: a leaf; device level takes it.
    fences: Mutex<PacketFences>,
    completed: Condvar,
}

impl Node {
    /// A node without work. The first id is 1, so that a driver may take 0 for "nothing completed yet".
    pub(crate) fn new() -> Self {
        Self {
            submitting: Mutex::new(()),
            fences: Mutex::new(PacketFences::starting_after(0)),
            completed: Condvar::new(),
        }
    }

    pub(crate) fn fences(&self) -> MutexGuard<'_, PacketFences> {
        lock(&self.fences)
    }

    /// Wakes everyone who waits for a packet.
    pub(crate) fn announce(&self) {
        self.completed.notify_all();
    }

    /// Sleeps until packets complete, at most for `nap`. True if `id` is complete.
    pub(crate) fn sleep_for(&self, id: u32, nap: Duration) -> bool {
        let fences = self.fences();
        if fences.is_complete(id) {
            return true;
        }
        let (fences, _) = self.completed.wait_timeout(fences, nap).unwrap_or_else(|poisoned| poisoned.into_inner());
        fences.is_complete(id)
    }
}

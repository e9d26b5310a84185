//! Numbers on the host of the processes that are programs at the socket.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Host process of each process of a machine that is a program at a socket. Clones are the same.
#[derive(Clone, Default)]
pub struct Pids(Arc<Mutex<HashMap<u64, i32>>>);

impl Pids {
    /// Number on the host of the program that is process `process` of the machine; `None` if it is no program at the socket, or has ended.
    pub fn of(&self, process: u64) -> Option<i32> {
        self.lock().get(&process).copied()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<u64, i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

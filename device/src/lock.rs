//! Taking a lock of the host.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. State behind our locks is changed in steps that leave it usable, so a panicking test thread poisons nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Memory as the mailbox, wait lists and doorbells reach it.

use super::sync::{AtomicU64, Mutex, MutexGuard, fence};
use crate::{Fault, left_out};
use campanile_hw::doorbell::DOORBELL_PAGE_SIZE;
use campanile_hw::queue::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::PoisonError;

/// Locks a mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A word that the device reaches. What lies behind it is zero and stays so.
pub(crate) struct Span<'a>(&'a AtomicU64);

impl Span<'_> {
    pub(crate) fn load(&self, offset: u64) -> Option<u64> {
        Some(if offset == 0 { self.0.load(Ordering::Acquire) } else { 0 })
    }

    /// An exchange, which is a full barrier.
    pub(crate) fn take(&self, _offset: u64) -> Option<u64> {
        if left_out(Fault::Take) {
            return self.load(0);
        }
        let word = self.0.swap(0, Ordering::AcqRel);
        if !left_out(Fault::TakeBarrier) {
            fence(Ordering::SeqCst);
        }
        Some(word)
    }

    pub(crate) fn store(&self, _offset: u64, value: u64) -> bool {
        self.0.store(value, Ordering::Release);
        true
    }
}

/// The doorbell words of the device, one on each page.
#[derive(Debug)]
pub(crate) struct HostMapping(pub(crate) Vec<Arc<AtomicU64>>);

impl HostMapping {
    pub(crate) fn load(&self, at: u64) -> Option<u64> {
        self.0.get((at / DOORBELL_PAGE_SIZE) as usize).map(|word| word.load(Ordering::Acquire))
    }

    pub(crate) fn span(&self, at: u64, _len: u64, _writable: bool) -> Option<Span<'_>> {
        self.0.get((at / DOORBELL_PAGE_SIZE) as usize).map(|word| Span(word))
    }
}

/// System memory with one word in it.
pub(crate) struct Access<'a>(pub(crate) &'a AtomicU64);

impl Access<'_> {
    pub(crate) fn resolve(&self, _location: Location, _len: u64, _writable: bool) -> Option<Span<'_>> {
        Some(Span(self.0))
    }
}

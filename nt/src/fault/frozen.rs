//! Ranges of user addresses that must not be written for a moment: a thread that stores there waits.
//!
//! A store that faulted while its range was frozen is retried when the range has thawed. The handler of such a fault may run only after that, when
//! the range is not frozen any more; so the first fault of a thread in such a range after any freezing counts as one of those, and is retried.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use super::signal::{self, Claim, Site};

/// Ranges that are or were frozen, by address: length, and whether they are.
static RANGES: RwLock<BTreeMap<usize, (usize, bool)>> = RwLock::new(BTreeMap::new());
/// Freezings so far.
static FREEZINGS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Freezings at the last fault of this thread for which the store was made again.
    static FORGIVEN: Cell<u64> = const { Cell::new(0) };
}

fn ranges() -> RwLockWriteGuard<'static, BTreeMap<usize, (usize, bool)>> {
    RANGES.write().unwrap_or_else(PoisonError::into_inner)
}

/// From now on faults of stores to the range wait, until it [thaws](thaw). The caller takes the right to write away afterwards, and gives it back
/// before that.
pub(crate) fn freeze(start: usize, len: usize) {
    signal::claim(Claim::FrozenPage, |site, _| is_store_to_repeat(site));
    signal::ensure_installed();
    ranges().insert(start, (len, true));
    FREEZINGS.fetch_add(1, Ordering::SeqCst);
}

/// Threads that wait for the range make their stores.
pub(crate) fn thaw(start: usize) {
    if let Some((_, frozen)) = ranges().get_mut(&start) {
        *frozen = false;
    }
}

/// Called before the addresses of the range are used for other memory.
pub(crate) fn forget(start: usize) {
    ranges().remove(&start);
}

/// True if the range of an address is frozen; `None` if it never was.
fn state_of(address: usize) -> Option<bool> {
    let ranges = RANGES.read().unwrap_or_else(PoisonError::into_inner);
    let (start, (len, frozen)) = ranges.range(..=address).next_back()?;
    (address - start < *len).then_some(*frozen)
}

/// In the signal handler: see [`wait`].
fn is_store_to_repeat(site: &Site) -> bool {
    site.signal == libc::SIGSEGV && wait(site.address)
}

/// In the handler of a fault at `address`: waits while its range is frozen. True if the access is to be made again.
fn wait(address: usize) -> bool {
    let mut waited = false;
    // Read first: the store may fault anew because of a freezing that begins from here on, which is not this one.
    let freezings = FREEZINGS.load(Ordering::SeqCst);
    while state_of(address) == Some(true) {
        waited = true;
        std::thread::yield_now();
    }
    waited || (state_of(address).is_some() && FORGIVEN.replace(freezings) != freezings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_were_never_frozen_are_not_waited_for() {
        assert!(!wait(0x10));
        freeze(0x7000, 0x1000);
        assert_eq!((state_of(0x6fff), state_of(0x7000), state_of(0x8000)), (None, Some(true), None));
        thaw(0x7000);
        assert_eq!(state_of(0x7fff), Some(false));
        assert!(wait(0x7010), "the store may have been made before the range thawed");
        assert!(!wait(0x7010), "a second fault is another's business");
        forget(0x7000);
        assert_eq!(state_of(0x7000), None);
    }
}

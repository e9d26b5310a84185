//! The location of a root page table as one word, so that it can be atomic.

use core::sync::atomic::{AtomicU64, Ordering};

use campanile_hw::queue::Location;

/// A root page table that was not set yet; VRAM offset 0 belongs to the driver, so no table lies there.
pub(crate) const NO_ROOT: u64 = 0;

/// The word for the location of a root page table, `NO_ROOT` for none.
pub(crate) fn bits_of(root: Option<Location>) -> u64 {
    root.map_or(NO_ROOT, Location::into_bits)
}

/// Reads a root, `None` before it was set.
pub(crate) fn root_of(word: &AtomicU64) -> Option<Location> {
    let bits = word.load(Ordering::Acquire);
    (bits != NO_ROOT).then(|| Location::from_bits(bits))
}

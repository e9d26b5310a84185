//! The seed of this run, from which random cases draw.

use std::sync::atomic::{AtomicU64, Ordering};

/// The seed of a run that names none.
pub const DEFAULT: u64 = 0x5eed;

static SEED: AtomicU64 = AtomicU64::new(DEFAULT);

/// Sets the seed of the cases that run from now on.
pub fn set(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
}

/// The seed of this run.
pub fn get() -> u64 {
    SEED.load(Ordering::Relaxed)
}

/// A seed for one of several that draw apart, never 0: the same for the same run and number.
pub fn of(number: u64) -> u64 {
    // SplitMix64's finaliser: neighbours become strangers.
    let mut mixed = get().wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).max(1)
}

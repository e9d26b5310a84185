//! Delays at locks, for tests: now and then a thread waits before it takes a lock and where it gives one back, so that threads meet in orders that
//! are rare otherwise.
//!
//! The delays of a thread follow from the seed and from the number of threads that came to one before it. Which threads meet then is up to the host,
//! so that a seed makes a failure likely again and does not repeat it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;

/// Chance of a delay at each place, in millionths; 0 while nobody wants any.
static CHANCE: AtomicU32 = AtomicU32::new(0);
static SEED: AtomicU64 = AtomicU64::new(0);
/// Threads that came to a place since delays are wanted.
static THREADS: AtomicU64 = AtomicU64::new(0);
static DELAYS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// State of the thread's draws, once it has come to a place.
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// From now on every thread of the process waits at locks with this chance, in millionths, by draws from `seed`; with a chance of 0 none does.
pub fn delay(millionths: u32, seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
    CHANCE.store(millionths, Ordering::Relaxed);
}

/// Number of delays so far.
pub fn count() -> u64 {
    DELAYS.load(Ordering::Relaxed)
}

/// A place where the calling thread may wait.
#[inline]
pub(crate) fn place() {
    let chance = CHANCE.load(Ordering::Relaxed);
    if chance != 0 {
        wait(chance);
    }
}

#[cold]
fn wait(chance: u32) {
    let begun = || SEED.load(Ordering::Relaxed).wrapping_add(THREADS.fetch_add(1, Ordering::Relaxed));
    // A thread that ends draws no more.
    let drawn = STATE.try_with(|state| {
        let mut random = Rng::with_seed(state.get().unwrap_or_else(begun));
        let drawn = (random.u32(..1_000_000) < chance).then(|| length(&mut random));
        state.set(Some(random.get_seed()));
        drawn
    });
    let Ok(Some(length)) = drawn else { return };
    DELAYS.fetch_add(1, Ordering::Relaxed);
    if length.is_zero() { thread::yield_now() } else { thread::sleep(length) }
}

/// Most delays let another thread go first, a quarter last as long as a call of a driver, and a few as long as several.
fn length(random: &mut Rng) -> Duration {
    match random.u32(..16) {
        0..=11 => Duration::ZERO,
        12..=14 => Duration::from_micros(random.u64(1..=100)),
        _ => Duration::from_micros(random.u64(100..=1000)),
    }
}

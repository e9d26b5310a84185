//! The locks that the calling thread holds, in builds with debug assertions.

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::io::Write;
use std::panic::Location;

use super::Rank;

/// Mode in which a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// No other thread holds it meanwhile.
    Alone,
    /// Others may hold it for reading too.
    Shared,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) level: u16,
    pub(super) name: &'static str,
    pub(super) several: bool,
    /// The lock is only tried for writing.
    pub(super) tried: bool,
    /// Orders locks of one rank.
    pub(super) key: u64,
    pub(super) way: Way,
    /// Address of the lock.
    pub(super) lock: usize,
    pub(super) place: &'static Location<'static>,
}

impl Held {
    /// An entry for the lock at an address, taken by the caller of the caller.
    #[track_caller]
    #[inline]
    pub(super) fn of<R: Rank>(lock: usize, key: u64, way: Way) -> Self {
        Self {
            level: R::LEVEL,
            name: R::NAME,
            several: R::SEVERAL,
            tried: R::TRIED,
            key,
            way,
            lock,
            place: Location::caller(),
        }
    }

    /// True if a thread that holds this may wait for `next`.
    pub(super) fn allows(&self, next: &Self) -> bool {
        let delays_no_thread = self.tried && self.way == Way::Shared;
        delays_no_thread || self.level < next.level || (self.level == next.level && self.several && self.key < next.key)
    }
}

thread_local! {
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

/// The first lock that the thread holds and that is not to be held while `next` is waited for.
pub(super) fn conflict(held: &[Held], next: &Held) -> Option<Held> {
    held.iter().find(|held| !held.allows(next)).copied()
}

/// Ends the process if the thread holds a lock that comes after `next`.
#[inline]
pub(super) fn check(next: &Held) {
    if cfg!(debug_assertions) {
        check_order(next);
    }
}

fn check_order(next: &Held) {
    let conflict = HELD.try_with(|held| conflict(&held.borrow(), next)).ok().flatten();
    if let Some(held) = conflict {
        // Straight to the stream: a test that is captured would lose it with the process.
        let _ = writeln!(
            std::io::stderr(),
            "*** lock order: {} is taken at {} while {}, taken at {}, is held\n{}",
            next.name,
            next.place,
            held.name,
            held.place,
            Backtrace::force_capture()
        );
        std::process::abort();
    }
}

/// The thread has `lock` from now on. A thread that ends has no list any more.
#[inline]
pub(super) fn push(lock: Held) {
    if cfg!(debug_assertions) {
        let _ = HELD.try_with(|held| held.borrow_mut().push(lock));
    }
}

/// The thread gives a lock back.
#[inline]
pub(super) fn pop(lock: usize) {
    if cfg!(debug_assertions) {
        remove(lock);
    }
}

fn remove(lock: usize) {
    let _ = HELD.try_with(|held| {
        let mut held = held.borrow_mut();
        if let Some(place) = held.iter().rposition(|held| held.lock == lock) {
            held.remove(place);
        }
    });
}

/// Number of locks that the thread holds.
pub(super) fn count() -> usize {
    HELD.try_with(|held| held.borrow().len()).unwrap_or(0)
}

/// Forgets all locks but the first `count`.
pub(super) fn truncate(count: usize) {
    let _ = HELD.try_with(|held| held.borrow_mut().truncate(count));
}

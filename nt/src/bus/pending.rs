//! The access to a trapped BAR that a thread waits for. The watchdog of driver calls reads it from another thread, for words only: what it finds may mix two accesses.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

thread_local! {
    static PENDING: Pending = const {
        Pending { number: AtomicU64::new(0), register: AtomicU64::new(0), offset: AtomicU64::new(0), instruction: AtomicUsize::new(0) }
    };
}

/// The state of a thread.
pub(crate) struct Pending {
    /// Counts the begins and ends of accesses, so that it is odd during one.
    number: AtomicU64,
    /// BAR, bytes, and 1 for a write, in a byte each.
    register: AtomicU64,
    offset: AtomicU64,
    /// The address of the instruction.
    instruction: AtomicUsize,
}

/// An access that the function has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Tells it from others of the thread.
    pub(crate) number: u64,
    pub(crate) bar: u8,
    pub(crate) offset: u64,
    pub(crate) size: u8,
    pub(crate) writes: bool,
    /// The address of the instruction.
    pub(crate) instruction: usize,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bar, offset, size, .. } = self;
        let verb = if self.writes { "write" } else { "read" };
        write!(f, "the {verb} of {size} bytes at 0x{offset:x} of BAR{bar}")
    }
}

/// The state of the calling thread, for as long as it lives.
pub(crate) fn of_this_thread() -> *const Pending {
    PENDING.with(|pending| &raw const *pending)
}

/// Does `access` of this thread, which is under way meanwhile; its number is not looked at. Takes no memory, since a signal handler asks for it.
pub(crate) fn during<R>(access: Access, act: impl FnOnce() -> R) -> R {
    PENDING.with(|pending| {
        let word = u64::from(access.bar) << 16 | u64::from(access.size) << 8 | u64::from(access.writes);
        pending.register.store(word, Ordering::Relaxed);
        pending.offset.store(access.offset, Ordering::Relaxed);
        pending.instruction.store(access.instruction, Ordering::Relaxed);
        pending.number.fetch_add(1, Ordering::Release);
        let result = act();
        pending.number.fetch_add(1, Ordering::Release);
        result
    })
}

impl Pending {
    /// The access that is under way.
    pub(crate) fn access(&self) -> Option<Access> {
        let number = self.number.load(Ordering::Acquire);
        let [_, _, _, _, _, bar, size, writes] = self.register.load(Ordering::Relaxed).to_be_bytes();
        (number % 2 == 1).then(|| Access {
            number,
            bar,
            offset: self.offset.load(Ordering::Relaxed),
            size,
            writes: writes != 0,
            instruction: self.instruction.load(Ordering::Relaxed),
        })
    }
}

//! Decides whether a node makes progress, by comparing its registers with those of an earlier look.
//!
//! A look reads two registers and never waits. The driver takes one when a preemption or suspension is requested, and another in
//! DxgkDdiQueryEngineStatus. The operating system calls that when the request was not answered in time, so the time limit of the request lies
//! between the two looks.

use core::sync::atomic::{AtomicU64, Ordering};

use campanile_hw::registers::{NODE_BUSY, NODE_PROGRESS, PROGRESS_COMPUTE};

use crate::mmio::Registers;

/// What a node had to do, and how much of it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// True if NODE_BUSY was set, or a preemption or suspension had been requested.
    busy: bool,
    /// Its progress register, without the highest bit.
    done: u64,
}

impl Seen {
    fn into_bits(self) -> u64 {
        self.done << 1 | u64::from(self.busy)
    }

    const fn from_bits(bits: u64) -> Self {
        Self { busy: bits & 1 != 0, done: bits >> 1 }
    }

    /// True if the node has executed packets since `earlier`, or was idle then or is now.
    fn progresses_since(self, earlier: Self) -> bool {
        !(self.busy && earlier.busy) || self.done != earlier.done
    }
}

/// The last look at a node.
pub(crate) struct LastLook(AtomicU64);

impl LastLook {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Notes what a node has done so far, when a preemption or suspension is requested of it.
    pub(crate) fn note_stop_requested(&self, registers: &Registers, ordinal: u32) {
        self.look(registers, ordinal, true);
    }

    /// True for a node that is idle or has done something since the last look.
    pub(crate) fn has_progressed(&self, registers: &Registers, ordinal: u32, stop_requested: bool) -> bool {
        let (now, before) = self.look(registers, ordinal, stop_requested);
        now.progresses_since(before)
    }

    /// Takes a look, and returns it with the one before.
    fn look(&self, registers: &Registers, ordinal: u32, stop_requested: bool) -> (Seen, Seen) {
        let register = NODE_PROGRESS.get(ordinal as usize).copied().unwrap_or(PROGRESS_COMPUTE);
        let works = registers.read32(NODE_BUSY) >> ordinal & 1 != 0;
        let now = Seen { busy: works || stop_requested, done: registers.read64(register) & u64::MAX >> 1 };
        (now, Seen::from_bits(self.0.swap(now.into_bits(), Ordering::AcqRel)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_that_was_busy_at_both_looks_and_did_nothing_stands_still() {
        let seen = |busy, done| Seen { busy, done };
        assert!(!seen(true, 7).progresses_since(seen(true, 7)));
        for (now, before) in
            [(seen(true, 8), seen(true, 7)), (seen(false, 7), seen(true, 7)), (seen(true, 7), seen(false, 7))]
        {
            assert!(now.progresses_since(before), "{before:?} {now:?}");
        }
        let most = seen(true, u64::MAX >> 1);
        assert_eq!((Seen::from_bits(most.into_bits()), Seen::from_bits(0)), (most, seen(false, 0)));
    }
}

//! Decides whether a node makes progress, by comparing its registers with those of an earlier look.
//!
//! A look reads two registers and waits for nothing. A preemption or suspension looks when it is requested, and DxgkDdiQueryEngineStatus
//! looks again. The operating system calls that when the request was not answered in time, so that so much time lies between the two looks.

use core::sync::atomic::{AtomicU64, Ordering};

use campanile_hw::registers;

use crate::gpu::Gpu;
use crate::irql::Passive;
use crate::queue::packet::Node;

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

    /// Looks; what was seen now and before.
    fn look(&self, gpu: &Gpu, ordinal: u32, asked_off: bool) -> (Seen, Seen) {
        let register = registers::NODE_PROGRESS.get(ordinal as usize).copied().unwrap_or(registers::PROGRESS_COMPUTE);
        let works = gpu.registers.read32(registers::NODE_BUSY) >> ordinal & 1 != 0;
        let now = Seen { busy: works || asked_off, done: gpu.registers.read64(register) & u64::MAX >> 1 };
        (now, Seen::from_bits(self.0.swap(now.into_bits(), Ordering::AcqRel)))
    }
}

/// Called when a preemption or suspension is requested of a node: notes what it has done so far.
pub(crate) fn note_asked_off(gpu: &Gpu, node: &Node) {
    // Outside D0 nothing is touched.
    if gpu.cmp.is_powered() {
        node.last_look().look(gpu, node.ordinal(), true);
    }
}

/// True for a node that is idle or makes progress. A node that has not answered a preemption or suspension counts as busy, even if its
/// queue waits for a fence. False on a function that is gone, was reset, or is not in D0.
pub(crate) fn makes_progress(irql: &Passive, gpu: &Gpu, node: &Node, asked_off: bool) -> bool {
    if !gpu.cmp.is_powered() || !gpu.registers.is_present() || gpu.cmp.was_reset(irql) {
        return false;
    }
    let (now, before) = node.last_look().look(gpu, node.ordinal(), asked_off);
    now.progresses_since(before)
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

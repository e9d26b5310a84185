//! A native fence, and a fence as a process has it open.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use campanile_hw::page_table::VA_BITS;

use crate::handle::{Handle, Kind, Object};
use crate::lock::SpinLock;
use crate::pool::PoolVec;

/// Addresses of a pair of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) current: u64,
    pub(crate) monitored: u64,
}

impl Addresses {
    /// The addresses, if both could be some.
    pub(crate) fn new(current: u64, monitored: u64) -> Option<Self> {
        let legal = |address: u64| address.is_multiple_of(8) && (1..1 << VA_BITS).contains(&address);
        (legal(current) && legal(monitored)).then_some(Self { current, monitored })
    }
}

/// The process of an open fence in which the scheduler knows it: bits of the root, 0 for none.
#[derive(Default)]
pub(crate) struct Mapped(pub(super) AtomicU64);

/// A fence of the adapter.
pub(crate) struct NativeFence {
    /// The operating system's handle: what interrupts report.
    pub(super) dxgk: usize,
    /// What user mode takes its values for, in user mode's own numbers.
    pub(super) purpose: u32,
    /// True once the parent device is in error: every wait for the fence is satisfied.
    pub(super) always_signaled: AtomicBool,
    /// Where the paging process has its values, on a variant whose scheduler reaches them there.
    pub(crate) system: Option<Addresses>,
    /// Where it is open. Taken before the lock of [`crate::cmp::Cmp`].
    pub(super) places: SpinLock<PoolVec<FenceOpening>>,
}

impl Object for NativeFence {
    const KIND: Kind = Kind::Fence;
}

impl NativeFence {
    /// Handle of the operating system, as an address.
    pub(crate) fn dxgk(&self) -> u64 {
        self.dxgk as u64
    }

    /// True if every wait for the fence is satisfied from now on.
    pub(crate) fn is_always_signaled(&self) -> bool {
        self.always_signaled.load(Ordering::Acquire)
    }
}

/// A process in which a fence is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FenceOpening {
    pub(super) open: Handle,
    pub(super) process: Handle,
    pub(super) current: u64,
}

/// A fence as a process sees it.
pub(crate) struct OpenFence {
    pub(crate) fence: Handle,
    pub(crate) process: Handle,
    pub(crate) at: Addresses,
    pub(crate) mapped: Mapped,
}

impl Object for OpenFence {
    const KIND: Kind = Kind::OpenFence;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_aligned_and_inside_the_address_space() {
        assert!(Addresses::new(8, (1 << VA_BITS) - 8).is_some());
        for bad in [0, 4, 9, 1 << VA_BITS, u64::MAX] {
            assert!(Addresses::new(bad, 8).is_none() && Addresses::new(8, bad).is_none(), "{bad:#x}");
        }
    }
}

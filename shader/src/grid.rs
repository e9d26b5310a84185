//! The parameters that all workgroups of a dispatch share, the place of one in the grid, and the counters of their work.

use campanile_hw::isa::LANES;

/// Counts of the work of a dispatch so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Instructions of subgroups.
    pub instructions: u64,
    /// Lanes that were started.
    pub lanes: u64,
    /// Loads of lanes from memory by address.
    pub loads: u64,
    /// Stores of lanes to memory by address.
    pub stores: u64,
    /// Atomic operations of lanes, on workgroup memory too.
    pub atomics: u64,
}

/// The place of a subgroup in the grid, for what a program asks of it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Place of the workgroup in the grid.
    pub workgroup: [u32; 3],
    /// Workgroups of the grid.
    pub count: [u32; 3],
    /// Number of the subgroup in its workgroup.
    pub subgroup: u32,
    /// Place in the workgroup of each lane, a dimension after the other.
    pub local: &'a [[u32; LANES]; 3],
}

/// Parameters that are the same for all workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) size: [u32; 3],
    pub(crate) arguments: u64,
}

impl Grid {
    pub(crate) fn groups(&self) -> u64 {
        // Three numbers of 16 bits at most.
        self.size.iter().map(|size| u64::from(*size)).product()
    }

    /// Place of a workgroup in the grid, the first dimension counting fastest.
    pub(crate) fn place(&self, number: u64) -> [u32; 3] {
        let [x, y, _] = self.size.map(|size| u64::from(size.max(1)));
        [number % x, number / x % y, number / x / y].map(|place| place as u32)
    }
}

//! The block of memory whose address a compiled program gets: where registers and memory lie, which lanes are active, and how many instructions it may execute.

use crate::pages::Page;
use campanile_shader::Frame;

/// Addresses and numbers that compiled code works on.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Context {
    pub(crate) words: *mut u32,
    pub(crate) doubles: *mut u64,
    pub(crate) predicates: *mut u32,
    pub(crate) shared: *mut u8,
    pub(crate) scratch: *mut u8,
    pub(crate) frames: *mut Frame,
    pub(crate) pages: *const Page,
    /// For every instruction the number of its entry, or [`NO_ENTRY`].
    pub(crate) entries: *const u32,
    pub(crate) arguments: u64,
    /// Places in the workgroup of the lanes, a dimension after the other.
    pub(crate) local: *const u32,
    pub(crate) budget: u64,
    pub(crate) loads: u64,
    pub(crate) stores: u64,
    pub(crate) atomics: u64,
    pub(crate) pc: u32,
    pub(crate) active: u32,
    pub(crate) depth: u32,
    /// Place of the workgroup in the grid, workgroups of the grid, and number of the subgroup.
    pub(crate) workgroup: [u32; 3],
    pub(crate) count: [u32; 3],
    pub(crate) subgroup: u32,
}

/// The instruction is no entry.
pub(crate) const NO_ENTRY: u32 = u32::MAX;

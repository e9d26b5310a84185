//! The block of memory whose address a compiled program gets: where registers and memory lie, which lanes are active, and how many instructions it may execute.

use crate::pages::Page;
use campanile_hw::isa::LANES;
use campanile_shader::Frame;
use std::mem::{MaybeUninit, offset_of};

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
    /// The functions of [`Wide`](crate::wide::Wide).
    pub(crate) wide: *const u8,
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
    /// The kind of the last access of all lanes that looked for the page of each, and behind it the numbers of those pages and what is added to addresses in them; 0 if there was none.
    pub(crate) last: u32,
    pub(crate) last_pages: OfLanes,
    pub(crate) last_places: OfLanes,
    /// Places in the host of the addresses of an access, where they do not fit into vectors.
    pub(crate) places: OfLanes,
}

/// A double of each lane.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct OfLanes(pub(crate) [MaybeUninit<u64>; LANES]);

/// Place of the mask of active lanes.
pub(crate) const ACTIVE: i32 = offset_of!(Context, active) as i32;

/// Places of the fields of a frame.
pub(crate) const KIND: i32 = offset_of!(Frame, kind) as i32;
pub(crate) const MASK: i32 = offset_of!(Frame, mask) as i32;
pub(crate) const OTHER: i32 = offset_of!(Frame, other) as i32;
pub(crate) const BACK: i32 = offset_of!(Frame, back) as i32;

/// The instruction is no entry.
pub(crate) const NO_ENTRY: u32 = u32::MAX;

//! The state of a DISPATCH that has left its node: what a save area holds.
//!
//! A [`SavedDispatch`] comes first. If a workgroup is in progress there follow a [`SavedWorkgroup`], workgroup memory, and for each subgroup a [`SavedSubgroup`], [`DEPTH_MAX`] blocks
//! ([`SavedBlock`]), predicates (a mask of lanes each, filled up to 8 bytes), words and doubles, register by register with all lanes of each, and scratch memory, lane after lane.

use super::program::ProgramHeader;
use super::{DEPTH_MAX, LANES, REGISTERS_MAX, SCRATCH_MAX, SHARED_MAX, WORKGROUP_MAX};

record! {
    /// Head of a save area.
    pub struct SavedDispatch[104] {
        /// `SAVE_MAGIC`, "CSAV".
        0x00 magic: u32,
        /// `SAVE_VERSION`, 1.
        0x04 version: u32,
        /// Workgroups of the grid in the first dimension.
        0x08 grid_x: u32,
        /// Second dimension.
        0x0c grid_y: u32,
        /// Third dimension.
        0x10 grid_z: u32,
        /// Lanes of a subgroup, 32.
        0x14 subgroup: u32,
        /// Address that ARGUMENTS gives.
        0x18 arguments: u64,
        /// Workgroups that have ended.
        0x20 done: u64,
        /// Instructions of subgroups so far, as those below for the report.
        0x28 instructions: u64,
        /// Lanes that were started.
        0x30 lanes: u64,
        /// Loads of lanes from memory by address.
        0x38 loads: u64,
        /// Stores of lanes to memory by address.
        0x40 stores: u64,
        /// Atomic operations of lanes.
        0x48 atomics: u64,
        /// Number in its workgroup of the subgroup that runs.
        0x50 current: u32,
        /// 1 if a workgroup is in progress, otherwise 0 and nothing follows.
        0x54 workgroup: u32,
        /// GPU clock when the dispatch began.
        0x58 begun: u64,
        /// `program_digest` of the program.
        0x60 program: u64,
    }
}

record! {
    /// The workgroup in progress. Its memory follows.
    pub struct SavedWorkgroup[16] {
        /// Place of the workgroup in the grid, first dimension.
        0x00 x: u32,
        /// Second dimension.
        0x04 y: u32,
        /// Third dimension.
        0x08 z: u32,
    }
}

record! {
    /// A subgroup of it.
    pub struct SavedSubgroup[24] {
        /// The next instruction.
        0x00 instruction: u32,
        /// Lanes that execute, a bit each.
        0x04 active: u32,
        /// Lanes that have not ended.
        0x08 alive: u32,
        /// 1 if it waits at a BARRIER.
        0x0c waiting: u32,
        /// Open blocks, at most 64.
        0x10 blocks: u32,
    }
}

record! {
    /// A block; one that is not open is zero.
    pub struct SavedBlock[16] {
        /// 1 for an IF, 2 for a LOOP, 3 for a CALL.
        0x00 kind: u32,
        /// Lanes that go on behind it.
        0x04 mask: u32,
        /// Of an IF the lanes that wait for ELSE, of a LOOP those that have not left it.
        0x08 other: u32,
        /// Of a CALL the instruction behind it.
        0x0c back: u32,
    }
}

record! {
    /// Where a dispatch in progress stands (command QueryDispatch), for debuggers. What is about the workgroup is zero if none is in progress.
    pub struct DispatchPosition[88] {
        /// 1 if the dispatch has left its node, and its state is in the save area; 0 if it has the node or waits for it in between two of its slices.
        0x00 saved: u32,
        /// 1 if a workgroup is in progress.
        0x04 workgroup: u32,
        /// Place of the workgroup in the grid, first dimension.
        0x08 workgroup_x: u32,
        /// Second dimension.
        0x0c workgroup_y: u32,
        /// Third dimension.
        0x10 workgroup_z: u32,
        /// Number in its workgroup of the subgroup that runs.
        0x14 subgroup: u32,
        /// The next instruction of that subgroup.
        0x18 instruction: u32,
        /// Line of the source that the program names for it, 0 for none.
        0x1c line: u32,
        /// Lanes of the subgroup that execute, a bit each.
        0x20 active: u32,
        /// Lanes of the subgroup that have not ended.
        0x24 alive: u32,
        /// GPU virtual address of the program.
        0x28 program: u64,
        /// The instruction as it lies in the program, its first half.
        0x30 code_low: u64,
        /// The second half of the instruction.
        0x38 code_high: u64,
        /// Workgroups that have ended.
        0x40 done: u64,
        /// Instructions of subgroups so far.
        0x48 instructions: u64,
        /// GPU clock when the dispatch began.
        0x50 begun: u64,
    }
}

/// `magic` of a saved dispatch: "CSAV".
pub const SAVE_MAGIC: u32 = u32::from_le_bytes(*b"CSAV");
/// `version` of a saved dispatch.
pub const SAVE_VERSION: u32 = 1;
/// The most bytes that the state of any valid program takes.
pub const SAVE_SIZE_MAX: u32 = ProgramHeader {
    words: REGISTERS_MAX,
    doubles: REGISTERS_MAX,
    predicates: REGISTERS_MAX,
    workgroup_x: WORKGROUP_MAX,
    shared: SHARED_MAX,
    scratch: SCRATCH_MAX,
    ..ProgramHeader::new()
}
.save_size();

/// A number for the bytes of a program, which differs for most that differ. Beginning with how many bytes there are, it takes each word of 64 bits in their order: `((number rotated left by 5) ^ word) * 0x9e3779b97f4a7c15`,
/// modulo 2^64. What is left behind the last word, of which a valid program has nothing, is taken before them, byte by byte.
pub fn program_digest(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let mix = |digest: u64, word: u64| (digest.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let start = rest.iter().fold(bytes.len() as u64, |digest, byte| mix(digest, u64::from(*byte)));
    words.iter().fold(start, |digest, word| mix(digest, u64::from_le_bytes(*word)))
}

impl ProgramHeader {
    /// The most bytes that the state of a dispatch of this program takes in a save area. The limits of a valid program keep it below 8 MiB.
    pub const fn save_size(&self) -> u32 {
        let predicates = (self.predicates as u32 * 4).next_multiple_of(8);
        let lane = self.words as u32 * 4 + self.doubles as u32 * 8 + self.scratch;
        let blocks = DEPTH_MAX * SavedBlock::SIZE as u32;
        let subgroup = SavedSubgroup::SIZE as u32 + blocks + predicates + lane * LANES as u32;
        (SavedDispatch::SIZE + SavedWorkgroup::SIZE) as u32 + self.shared + self.subgroups() * subgroup
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_state_is_that_of_the_largest_program() {
        let subgroup = 24 + 64 * 16 + 256 * 4 + (256 * 4 + 256 * 8 + 4096) * 32;
        assert_eq!(SAVE_SIZE_MAX, 104 + 16 + (64 << 10) + 32 * subgroup);
        assert_eq!(ProgramHeader::new().save_size(), 104 + 16 + 24 + 64 * 16);
    }
}

//! The interface to an executor that runs several instructions at once, such as code that is compiled for the host.

use campanile_hw::isa::LANES;

/// Registers of the subgroup that runs.
#[derive(Debug)]
pub struct Registers<'a> {
    /// Words, register by register with all lanes of each.
    pub words: &'a mut [[u32; LANES]],
    /// Doubles, likewise.
    pub doubles: &'a mut [[u64; LANES]],
    /// Predicates, one bit for each lane.
    pub predicates: &'a mut [u32],
    /// Lanes that execute; registers of the others keep their values.
    pub active: u32,
    /// Address of the argument block.
    pub arguments: u64,
}

/// Blocks: runs of instructions in each of which every lane uses its own registers only, and none of which can fault or change which lanes are active.
pub trait Blocks {
    /// Instructions of the block that begins at this one; 0 if none does.
    fn length(&self, instruction: u32) -> u32;

    /// Executes the block that begins at this instruction, as the interpreter would execute its instructions one after the other.
    fn run(&self, instruction: u32, registers: Registers<'_>);
}

/// No blocks at all: the interpreter executes every instruction.
#[derive(Clone, Copy, Debug)]
pub struct NoBlocks;

impl Blocks for NoBlocks {
    fn length(&self, _: u32) -> u32 {
        0
    }

    fn run(&self, _: u32, _: Registers<'_>) {}
}

//! The interface to an executor that runs many instructions at once, such as code that is compiled for the host.

use crate::grid::{Counters, Place};
use crate::subgroup::Frame;
use campanile_hw::isa::LANES;

/// State of the subgroup that runs, and of what it shares with others. All of it is as the interpreter would have it, before and after.
#[derive(Debug)]
pub struct State<'a> {
    /// Next instruction.
    pub pc: &'a mut u32,
    /// Lanes that execute; registers of the others keep their values.
    pub active: &'a mut u32,
    /// Space for the open blocks, as many as the program can nest.
    pub frames: &'a mut [Frame],
    /// Blocks that are open.
    pub depth: &'a mut u32,
    /// Words, register by register with all lanes of each.
    pub words: &'a mut [[u32; LANES]],
    /// Doubles, likewise.
    pub doubles: &'a mut [[u64; LANES]],
    /// Predicates, one bit for each lane.
    pub predicates: &'a mut [u32],
    /// Workgroup memory.
    pub shared: &'a mut [u8],
    /// Scratch memory, lane after lane.
    pub scratch: &'a mut [u8],
    /// Address of the argument block.
    pub arguments: u64,
    /// Place of the subgroup in the grid.
    pub place: Place<'a>,
    /// Instructions that may be executed; those that were are taken off.
    pub budget: &'a mut u64,
    /// Counts of loads and stores. Instructions are counted by the caller.
    pub counters: &'a mut Counters,
}

/// Code for stretches of a program, beside the interpreter.
pub trait Code<M> {
    /// Instructions of the stretch that begins at this one, which is executed whole or not at all; 0 if none does, and the interpreter executes the instruction.
    fn length(&self, instruction: u32) -> u32;

    /// What an instruction that is interpreted counts as in a budget, in instructions of the code. At least 1.
    fn interpreted(&self) -> u64 {
        1
    }

    /// Executes from where the state is, which is the beginning of a stretch, on and on, until the budget is smaller than the next stretch or an instruction is met that has to
    /// be interpreted: one that is not compiled, and one that needs the walker or faults. It may stop after any number of instructions, also after none.
    fn run(&self, state: State<'_>, memory: &mut M);
}

/// No code at all: the interpreter executes every instruction.
#[derive(Clone, Copy, Debug)]
pub struct NoCode;

impl<M> Code<M> for NoCode {
    fn length(&self, _: u32) -> u32 {
        0
    }

    fn run(&self, _: State<'_>, _: &mut M) {}
}

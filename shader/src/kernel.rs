//! A program, decoded.

use campanile_hw::isa::{Instruction, LANES, Op, Program, ProgramHeader};

/// A valid program whose instructions are decoded.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) header: ProgramHeader,
    pub(crate) code: Vec<Instruction>,
    pub(crate) functions: Vec<u32>,
    pub(crate) depth: u32,
    /// Of each instruction the IF or LOOP of the innermost block that it is in, the ends of the block included; [`NO_BLOCK`] of one in none.
    blocks: Vec<u32>,
    /// What the beginning of a workgroup counts as in a budget, in instructions: its registers and memory are cleared.
    pub(crate) beginning: u64,
    /// A number for the program.
    pub(crate) digest: u64,
    /// Of each subgroup the place of its lanes in the workgroup, a dimension after the other.
    local: Vec<[[u32; LANES]; 3]>,
}

/// No IF or LOOP.
const NO_BLOCK: u32 = u32::MAX;

/// Of each instruction of a valid program the IF or LOOP around it.
fn blocks(code: &[Instruction]) -> Vec<u32> {
    let mut blocks: Vec<u32> = Vec::with_capacity(code.len());
    let mut around = NO_BLOCK;
    for (at, instruction) in (0..).zip(code) {
        blocks.push(around);
        match instruction.op {
            Op::If | Op::Loop => around = at,
            Op::EndIf | Op::EndLoop => around = blocks.get(around as usize).copied().unwrap_or(NO_BLOCK),
            _ => {}
        }
    }
    blocks
}

/// Bytes of the state of a workgroup whose clearing counts as an instruction.
const BYTES_AN_INSTRUCTION: u64 = 1024;

/// Places in a workgroup of the lanes of a subgroup.
fn local(header: &ProgramHeader, subgroup: u32) -> [[u32; LANES]; 3] {
    let [x, y] = [header.workgroup_x, header.workgroup_y].map(|size| size.max(1));
    let index = |lane: usize| subgroup * LANES as u32 + lane as u32;
    let each = |place: fn(u32, u32, u32) -> u32| core::array::from_fn(|lane| place(index(lane), x, y));
    [each(|index, x, _| index % x), each(|index, x, y| index / x % y), each(|index, x, y| index / x / y)]
}

impl Kernel {
    /// Decodes a program.
    pub fn new(program: &Program<'_>) -> Self {
        let header = *program.header();
        let code: Vec<Instruction> = (0..header.code).map_while(|index| program.instruction(index)).collect();
        Self {
            header,
            blocks: blocks(&code),
            code,
            functions: (0..header.functions).map_while(|number| program.function(number)).collect(),
            depth: program.depth(),
            digest: program.digest(),
            beginning: u64::from(header.save_size()) / BYTES_AN_INSTRUCTION,
            local: (0..header.subgroups()).map(|subgroup| local(&header, subgroup)).collect(),
        }
    }

    /// The instructions.
    pub fn code(&self) -> &[Instruction] {
        &self.code
    }

    /// First instruction of each function.
    pub fn functions(&self) -> &[u32] {
        &self.functions
    }

    /// Most blocks that are open at a time.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The IF or LOOP of the innermost block that an instruction is in, the ends of the block included.
    pub(crate) fn block(&self, at: u32) -> Option<(u32, &Instruction)> {
        let opening = *self.blocks.get(at as usize)?;
        self.code.get(opening as usize).map(|instruction| (opening, instruction))
    }

    /// The function that an instruction is in.
    pub(crate) fn function_at(&self, at: u32) -> usize {
        self.functions.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// Places in the workgroup of the lanes of a subgroup, a dimension after the other.
    pub fn local(&self, subgroup: u32) -> &[[u32; LANES]; 3] {
        self.local.get(subgroup as usize).unwrap_or(&[[0; LANES]; 3])
    }

    /// `program_digest` of the program.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The header.
    pub fn header(&self) -> &ProgramHeader {
        &self.header
    }
}

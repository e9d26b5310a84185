//! A program, decoded.

use campanile_hw::isa::{Instruction, LANES, Program, ProgramHeader};

/// A valid program whose instructions are decoded.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) header: ProgramHeader,
    pub(crate) code: Vec<Instruction>,
    pub(crate) functions: Vec<u32>,
    pub(crate) depth: u32,
    /// What the beginning of a workgroup counts as in a budget, in instructions: its registers and memory are cleared.
    pub(crate) beginning: u64,
    /// Of each subgroup the place of its lanes in the workgroup, a dimension after the other.
    local: Vec<[[u32; LANES]; 3]>,
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
        Self {
            header,
            code: (0..header.code).map_while(|index| program.instruction(index)).collect(),
            functions: (0..header.functions).map_while(|number| program.function(number)).collect(),
            depth: program.depth(),
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

    /// Places in the workgroup of the lanes of a subgroup, a dimension after the other.
    pub fn local(&self, subgroup: u32) -> &[[u32; LANES]; 3] {
        self.local.get(subgroup as usize).unwrap_or(&[[0; LANES]; 3])
    }

    /// The header.
    pub fn header(&self) -> &ProgramHeader {
        &self.header
    }
}

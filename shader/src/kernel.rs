//! A program, decoded.

use campanile_hw::isa::{Instruction, Program, ProgramHeader};

/// A valid program whose instructions are decoded.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) header: ProgramHeader,
    pub(crate) code: Vec<Instruction>,
    pub(crate) functions: Vec<u32>,
    pub(crate) depth: u32,
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

    /// The header.
    pub fn header(&self) -> &ProgramHeader {
        &self.header
    }
}

//! A program in memory: header, table of functions, code, table of source lines.

use super::instruction::{BadInstruction, Instruction};
use super::{INSTRUCTION_SIZE, LANES, program_digest};

record! {
    /// Header of a program. Behind it lie, without gaps: the first instruction of each function (u32 each, filled up with zeros to a multiple of 16 bytes), the
    /// code, and the table of source lines.
    pub struct ProgramHeader[64] {
        /// `PROGRAM_MAGIC`, "CGPU".
        0x00 magic: u32,
        /// `PROGRAM_VERSION`, 1.
        0x04 version: u32,
        /// Instructions.
        0x08 code: u32,
        /// Functions, at least 1. Function 0 begins at instruction 0 and is where the program starts; each reaches to the next, the last to the end of the code.
        0x0c functions: u32,
        /// Words that the program uses, at most 256.
        0x10 words: u16,
        /// Doubles, at most 256.
        0x12 doubles: u16,
        /// Predicates, at most 256.
        0x14 predicates: u16,
        /// Lanes of a workgroup in the first dimension, at least 1; the product of the three is at most 1024.
        0x18 workgroup_x: u32,
        /// Lanes in the second dimension.
        0x1c workgroup_y: u32,
        /// Lanes in the third dimension.
        0x20 workgroup_z: u32,
        /// Bytes of workgroup memory, a multiple of 8, at most 64 KiB. They are zero when a workgroup starts.
        0x24 shared: u32,
        /// Bytes of scratch memory of each lane, a multiple of 8, at most 4 KiB. They are zero when a workgroup starts.
        0x28 scratch: u32,
        /// Entries of the table of source lines, for debuggers.
        0x2c lines: u32,
    }
}

record! {
    /// Entry of the table of source lines: from this instruction on to that of the next entry.
    pub struct LineEntry[8] {
        /// Instruction; greater than that of the entry before.
        0x00 instruction: u32,
        /// Line of the source, 0 for none.
        0x04 line: u32,
    }
}

/// `magic` of a program: "CGPU".
pub const PROGRAM_MAGIC: u32 = u32::from_le_bytes(*b"CGPU");
/// Version of the instruction set.
pub const PROGRAM_VERSION: u32 = 1;
/// Instruction of a rule that is broken by the program as a whole.
pub const NO_INSTRUCTION: u32 = u32::MAX;

numbers! {
    /// Which rule a program breaks.
    pub enum ProgramRule: u8 {
        /// An instruction has no such operation. The numbers up to 6 are those of `BadInstruction`.
        Operation = 1,
        /// A reserved bit or unused field of an instruction is not zero.
        Reserved = 2,
        /// An operation does not exist for the type.
        Type = 3,
        /// A modifier does not exist, or not for the type.
        Modifier = 4,
        /// Scope or order do not exist.
        Order = 5,
        /// A constant does not fit.
        Constant = 6,
        /// The program ends inside its header, or is longer or shorter than its header says.
        Length = 16,
        /// Not a program, or one of another version.
        Magic = 17,
        /// A reserved byte of the header or of a gap is not zero.
        Header = 18,
        /// Too much of something: code, functions, registers, lines, workgroup or scratch memory.
        Limit = 19,
        /// A dimension of the workgroup is zero, or it has too many lanes.
        Workgroup = 20,
        /// The functions are not in order, or one is empty.
        Functions = 21,
        /// A register that the header does not announce.
        Register = 22,
        /// An ELSE, END_IF, CONTINUING, END_LOOP, BREAK or CONTINUE where none can be, or a block that does not end in its function.
        Nesting = 23,
        /// A target that is not the instruction that the block belongs to.
        Target = 24,
        /// A CALL of a function that does not exist, or whose number is not greater than the own one: calls cannot be recursive.
        Call = 25,
        /// Blocks and calls can be nested deeper than 64.
        Depth = 26,
        /// A function does not end in EXIT (function 0) or RET (the others), RET is in function 0, or an instruction follows one that ends its block.
        End = 27,
        /// The table of source lines is not in order or names an instruction that does not exist.
        Lines = 28,
    }
}

/// The rule that a program breaks, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadProgram {
    /// The rule.
    pub rule: ProgramRule,
    /// Number of the instruction, [`NO_INSTRUCTION`] if no single one breaks it.
    pub instruction: u32,
}

impl From<BadInstruction> for ProgramRule {
    fn from(bad: BadInstruction) -> Self {
        match bad {
            BadInstruction::Operation => Self::Operation,
            BadInstruction::Reserved => Self::Reserved,
            BadInstruction::Type => Self::Type,
            BadInstruction::Modifier => Self::Modifier,
            BadInstruction::Order => Self::Order,
            BadInstruction::Constant => Self::Constant,
        }
    }
}

/// Where the parts of a program lie, by its header. All limits are checked, so that nothing overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Offset of the table of functions.
    pub functions: usize,
    /// Offset of the code.
    pub code: usize,
    /// Offset of the table of source lines.
    pub lines: usize,
    /// Bytes in all.
    pub size: usize,
}

impl ProgramHeader {
    /// A header of nothing but magic and version.
    pub const fn new() -> Self {
        Self {
            magic: PROGRAM_MAGIC,
            version: PROGRAM_VERSION,
            code: 0,
            functions: 1,
            words: 0,
            doubles: 0,
            predicates: 0,
            workgroup_x: 1,
            workgroup_y: 1,
            workgroup_z: 1,
            shared: 0,
            scratch: 0,
            lines: 0,
        }
    }

    /// Lanes of a workgroup.
    pub const fn lanes(&self) -> u32 {
        self.workgroup_x.saturating_mul(self.workgroup_y).saturating_mul(self.workgroup_z)
    }

    /// Subgroups of a workgroup.
    pub const fn subgroups(&self) -> u32 {
        self.lanes().div_ceil(LANES as u32)
    }
}

impl Default for ProgramHeader {
    fn default() -> Self {
        Self::new()
    }
}

/// A program that obeys every rule.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) header: ProgramHeader,
    pub(super) layout: Layout,
    pub(super) depth: u32,
}

/// The `N` bytes at `offset`.
pub(super) fn piece<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

impl<'a> Program<'a> {
    /// The header.
    pub const fn header(&self) -> &ProgramHeader {
        &self.header
    }

    /// All of its bytes.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Greatest nesting of blocks and calls.
    pub const fn depth(&self) -> u32 {
        self.depth
    }

    /// An instruction; none behind the end of the code.
    pub fn instruction(&self, index: u32) -> Option<Instruction> {
        if index >= self.header.code {
            return None;
        }
        let bytes = piece(self.bytes, self.layout.code + index as usize * INSTRUCTION_SIZE)?;
        Instruction::decode(&bytes).ok()
    }

    /// The first instruction of a function.
    pub fn function(&self, number: u32) -> Option<u32> {
        if number >= self.header.functions {
            return None;
        }
        piece(self.bytes, self.layout.functions + number as usize * 4).map(u32::from_le_bytes)
    }

    /// An entry of the table of source lines.
    pub fn line_entry(&self, number: u32) -> Option<LineEntry> {
        if number >= self.header.lines {
            return None;
        }
        piece(self.bytes, self.layout.lines + number as usize * LineEntry::SIZE)
            .map(|bytes| LineEntry::from_bytes(&bytes))
    }

    /// [`program_digest`] of its bytes.
    pub fn digest(&self) -> u64 {
        program_digest(self.bytes)
    }

    /// The line of the source that an instruction comes from; none if the program does not say.
    pub fn line(&self, instruction: u32) -> Option<u32> {
        let (mut low, mut high) = (0, self.header.lines);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.line_entry(middle)?.instruction <= instruction { low = middle + 1 } else { high = middle }
        }
        self.line_entry(low.checked_sub(1)?).map(|entry| entry.line).filter(|line| *line != 0)
    }
}

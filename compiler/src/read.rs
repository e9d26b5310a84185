//! The words of a module as instructions.
//!
//! The tables of instructions are rspirv's. Its parser is not used: it panics where OpSpecConstantOp names certain instructions, and does not read the
//! repeated operands of those that it may name.

use std::collections::HashMap;
use std::sync::LazyLock;

use rspirv::grammar::{INSTRUCTION_TABLE, Instruction, OperandKind};
use rspirv::spirv::{self, Op};

use crate::error::{Result, malformed};

/// Words of a header.
const HEADER: usize = 5;
/// Newest version that is read.
const NEWEST: u32 = 0x0001_0600;
/// Most words of a module, 16 MiB.
const WORDS_MAX: usize = 4 << 20;

/// One instruction.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    /// Type of the result, 0 if there is none.
    pub(crate) ty: u32,
    /// Id of the result, 0 if there is none.
    pub(crate) id: u32,
    /// The other operands.
    pub(crate) args: Vec<u32>,
}

impl Inst {
    /// An operand that has to be there.
    pub(crate) fn arg(&self, index: usize) -> Result<u32> {
        self.args.get(index).copied().ok_or_else(|| malformed(format!("Op{:?} lacks operand {index}", self.op)))
    }

    /// A literal string that begins at an operand, and the operand behind it.
    pub(crate) fn string(&self, index: usize) -> (String, usize) {
        let mut bytes = Vec::new();
        let mut next = index;
        for word in self.args.iter().skip(index) {
            next += 1;
            let text = word.to_le_bytes();
            let end = text.iter().position(|byte| *byte == 0);
            bytes.extend_from_slice(text.get(..end.unwrap_or(4)).unwrap_or_default());
            if end.is_some() {
                break;
            }
        }
        (String::from_utf8_lossy(&bytes).into_owned(), next)
    }

    /// The instruction that OpSpecConstantOp evaluates.
    pub(crate) fn specialized(&self) -> Result<Self> {
        let op = opcode(self.arg(0)?)?;
        Ok(Self { op, ty: self.ty, id: self.id, args: self.args.get(1..).unwrap_or_default().to_vec() })
    }
}

/// What the grammar of Khronos says of an instruction.
pub(crate) fn class(number: u32) -> Option<&'static Instruction<'static>> {
    static CLASSES: LazyLock<HashMap<u32, &'static Instruction<'static>>> =
        LazyLock::new(|| INSTRUCTION_TABLE.iter().map(|class| (class.opcode as u32, class)).collect());
    CLASSES.get(&number).copied()
}

fn opcode(number: u32) -> Result<Op> {
    class(number).map(|class| class.opcode).ok_or_else(|| malformed(format!("there is no instruction {number}")))
}

/// Reads all instructions of a module.
///
/// # Errors
/// Not a module of SPIR-V 1.0 to 1.6 in the host's byte order, an unknown instruction, or one that reaches over the end.
pub(crate) fn read(words: &[u32]) -> Result<Vec<Inst>> {
    let header = words.get(..HEADER).ok_or_else(|| malformed("it is shorter than a header"))?;
    if words.len() > WORDS_MAX {
        return Err(malformed("it is longer than 16 MiB"));
    }
    if header.first() != Some(&spirv::MAGIC_NUMBER) {
        return Err(malformed("it does not begin with the magic number of SPIR-V"));
    }
    let version = header.get(1).copied().unwrap_or(0);
    if !(0x0001_0000..=NEWEST).contains(&version) || version & 0xff != 0 {
        return Err(malformed(format!("version {}.{} is not 1.0 to 1.6", version >> 16, version >> 8 & 0xff)));
    }
    let mut instructions = Vec::new();
    let mut at = HEADER;
    while let Some(first) = words.get(at) {
        let length = (first >> 16) as usize;
        let body = words
            .get(at..at + length)
            .and_then(|body| body.split_first())
            .ok_or_else(|| malformed(format!("the instruction at word {at} has no end")))?;
        instructions.push(instruction(first & 0xffff, body.1)?);
        at += length;
    }
    Ok(instructions)
}

fn instruction(number: u32, words: &[u32]) -> Result<Inst> {
    let op = opcode(number)?;
    let class = class(number).ok_or_else(|| malformed("no such instruction"))?;
    let mut rest = words.iter().copied();
    let mut result = |kind| -> Result<u32> {
        if !class.operands.iter().any(|operand| operand.kind == kind) {
            return Ok(0);
        }
        rest.next().filter(|id| *id != 0).ok_or_else(|| malformed(format!("Op{op:?} lacks its result")))
    };
    let ty = result(OperandKind::IdResultType)?;
    let id = result(OperandKind::IdResult)?;
    Ok(Inst { op, ty, id, args: rest.collect() })
}

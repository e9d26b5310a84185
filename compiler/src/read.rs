//! The words of a module as instructions.

use std::collections::HashSet;

use rspirv::grammar::OperandKind;
use rspirv::spirv::{self, Op};

use crate::error::{Result, malformed};
use crate::grammar::class;

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
    /// The other operands. Literals of OpSwitch have two words each, whatever the type of its selector is.
    pub(crate) args: Vec<u32>,
}

/// Types of 64-bit integers, and the ids of their values: as selectors they make the literals of OpSwitch two words long.
#[derive(Default)]
struct Wide {
    types: HashSet<u32>,
    ids: HashSet<u32>,
}

impl Wide {
    /// Notes what an instruction defines, and gives literals of one word a second one. What is used was defined before. [SPIR-V: 2.4, logical layout of a module]
    fn note(&mut self, inst: &mut Inst) {
        if inst.op == Op::TypeInt && inst.args.first() == Some(&64) {
            self.types.insert(inst.id);
        } else if self.types.contains(&inst.ty) {
            self.ids.insert(inst.id);
        }
        let [selector, default, narrow @ ..] = inst.args.as_slice() else { return };
        if inst.op == Op::Switch && !self.ids.contains(selector) {
            let pairs = narrow.as_chunks().0.iter().flat_map(|[literal, target]| [*literal, 0, *target]);
            inst.args = [*selector, *default].into_iter().chain(pairs).collect();
        }
    }
}

impl Inst {
    /// An operand that has to be there.
    pub(crate) fn arg(&self, index: usize) -> Result<u32> {
        self.args.get(index).copied().ok_or_else(|| malformed(format!("Op{:?} lacks operand {index}", self.op)))
    }

    /// Literals and targets of OpSwitch, but for the default.
    pub(crate) fn cases(&self) -> impl Iterator<Item = (u64, u32)> {
        let cases = self.args.get(2..).unwrap_or_default().as_chunks().0;
        cases.iter().map(|[low, high, target]| (u64::from(*low) | u64::from(*high) << 32, *target))
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
    let (mut instructions, mut wide) = (Vec::new(), Wide::default());
    let mut at = HEADER;
    while let Some(first) = words.get(at) {
        let length = (first >> 16) as usize;
        let body = words
            .get(at..at + length)
            .and_then(|body| body.split_first())
            .ok_or_else(|| malformed(format!("the instruction at word {at} has no end")))?;
        let mut inst = instruction(first & 0xffff, body.1)?;
        wide.note(&mut inst);
        instructions.push(inst);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_a_switch_are_as_wide_as_its_selector_and_are_told_alike() {
        let word = |op: Op, length: u32| length << 16 | op as u32;
        for (width, literals) in [(32, vec![5, 7, 6, 8]), (64, vec![5, 9, 7, 6, 0, 8])] {
            let mut words = vec![spirv::MAGIC_NUMBER, NEWEST, 0, 10, 0];
            words.extend([word(Op::TypeInt, 4), 1, width, 0, word(Op::Undef, 3), 1, 2]);
            words.extend([word(Op::Switch, 3 + literals.len() as u32), 2, 3]);
            words.extend(literals);
            let instructions = read(&words).expect("a module");
            let switch = instructions.last().expect("three instructions");
            assert_eq!((switch.arg(0), switch.arg(1)), (Ok(2), Ok(3)));
            let high = if width == 64 { 9 << 32 } else { 0 };
            assert_eq!(switch.cases().collect::<Vec<_>>(), [(5 | high, 7), (6, 8)]);
        }
    }
}

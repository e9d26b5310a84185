//! Operations on predicates alone: a predicate is a word with a bit for each lane, so that one operation does for all lanes what a loop would do for four.

use crate::block::is_of_masks;
use crate::emitter::{ACTIVE, Emitter};
use crate::lanes::registers;
use campanile_hw::isa::{Instruction, Op};
use cranelift_codegen::ir::{InstBuilder, Value};

/// The instructions of a segment in three parts: those of masks at its start, the others, and those of masks at its end.
pub(crate) fn parts(code: &[Instruction]) -> [&[Instruction]; 3] {
    let start = code.iter().take_while(|instruction| is_of_masks(instruction)).count();
    let (start, rest) = code.split_at(start);
    let end = rest.iter().rev().take_while(|instruction| is_of_masks(instruction)).count();
    let (others, end) = rest.split_at(rest.len() - end);
    [start, others, end]
}

impl Emitter<'_, '_> {
    /// Executes operations on predicates.
    pub(crate) fn masks(&mut self, code: &[Instruction]) {
        for instruction in code {
            let active = self.field(ACTIVE);
            let result = self.mask(instruction);
            let place = i32::from(instruction.dst) * 4;
            let old = self.predicate(instruction.dst);
            let new = self.b.ins().bitselect(active, result, old);
            self.b.ins().store(registers(), new, self.files.predicates, place);
        }
    }

    /// The result in all lanes.
    fn mask(&mut self, instruction: &Instruction) -> Value {
        let second = match instruction.constant {
            true => self.word(if instruction.immediate & 1 != 0 { u32::MAX } else { 0 }),
            false => self.predicate(instruction.b),
        };
        if instruction.op == Op::Mov {
            return second;
        }
        let first = self.predicate(instruction.a);
        match instruction.op {
            Op::And => self.b.ins().band(first, second),
            Op::Or => self.b.ins().bor(first, second),
            Op::Xor => self.b.ins().bxor(first, second),
            _ => self.b.ins().bnot(first),
        }
    }
}

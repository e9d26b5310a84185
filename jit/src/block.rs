//! Which instructions are compiled, and the blocks that they form.

use campanile_hw::isa::{Instruction, Op, Type};
use std::ops::Range;

/// Longest block: so long the node cannot be given to another queue.
const LONGEST: usize = 64;

/// True for an instruction that only uses the lane's own registers, cannot fault, and is compiled.
fn compiles(instruction: &Instruction, has_fma: bool) -> bool {
    let float = matches!(instruction.ty, Type::F32 | Type::F64);
    let integer = matches!(instruction.ty, Type::I32 | Type::I64);
    match instruction.op {
        Op::Arguments | Op::Index | Op::Pack | Op::WidenS | Op::WidenU | Op::Narrow => true,
        Op::Mov | Op::Select => instruction.ty != Type::F16,
        Op::Cmp | Op::Add | Op::Sub | Op::Mul | Op::Neg | Op::Abs | Op::Min | Op::Max => integer || float,
        Op::Div | Op::Floor | Op::Ceil | Op::Trunc | Op::RoundEven | Op::Sqrt => float,
        Op::Fma => float && has_fma,
        Op::MulHighS | Op::MulHighU | Op::DivS | Op::DivU | Op::RemS | Op::RemU | Op::MinU | Op::MaxU => integer,
        Op::And | Op::Or | Op::Xor | Op::Not => integer || instruction.ty == Type::B1,
        Op::Shl | Op::ShrU | Op::ShrS | Op::Rotl => integer,
        Op::CountOnes | Op::LeadingZeros | Op::TrailingZeros | Op::ReverseBits => integer,
        Op::Sext8 | Op::Sext16 => integer,
        Op::FromS | Op::FromU => float,
        Op::ToS | Op::ToU => integer && instruction.source() != Some(Type::F16),
        Op::Convert => float && instruction.source() != Some(Type::F16),
        _ => false,
    }
}

/// The blocks of a program. No instruction of control flow is in one, so each jump leads to the first instruction of a block or to none of it.
pub(crate) fn find(code: &[Instruction], has_fma: bool) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = code.get(at..)?;
        let start = at + rest.iter().position(|instruction| compiles(instruction, has_fma))?;
        let run = code.get(start..)?.iter().take(LONGEST);
        at = start + run.take_while(|instruction| compiles(instruction, has_fma)).count();
        Some(start..at)
    })
}

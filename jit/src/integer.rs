//! Integers and bits.

use crate::lanes::{Lanes, narrow, splat};
use campanile_hw::isa::{Comparison, Op, Type};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64X2};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::FunctionBuilder;

/// A mask of the elements that compare so. Of 64 bits the processor compares signed ones only: unsigned ones are moved by half of their range.
fn mask(b: &mut FunctionBuilder<'_>, condition: IntCC, ty: Type, mut x: Value, mut y: Value) -> Value {
    if ty != Type::I64 {
        return b.ins().icmp(condition, x, y);
    }
    let signed = match condition {
        IntCC::UnsignedLessThan => IntCC::SignedLessThan,
        IntCC::UnsignedLessThanOrEqual => IntCC::SignedLessThanOrEqual,
        IntCC::UnsignedGreaterThan => IntCC::SignedGreaterThan,
        IntCC::UnsignedGreaterThanOrEqual => IntCC::SignedGreaterThanOrEqual,
        _ => condition,
    };
    if signed != condition {
        let half = splat(b, I64X2, 1 << 63);
        (x, y) = (b.ins().bxor(x, half), b.ins().bxor(y, half));
    }
    b.ins().icmp(signed, x, y)
}

/// The condition of a comparison.
fn condition(comparison: Comparison) -> IntCC {
    match comparison {
        Comparison::Eq => IntCC::Equal,
        Comparison::Ne => IntCC::NotEqual,
        Comparison::Lt => IntCC::SignedLessThan,
        Comparison::Le => IntCC::SignedLessThanOrEqual,
        Comparison::Gt => IntCC::SignedGreaterThan,
        Comparison::Ge => IntCC::SignedGreaterThanOrEqual,
        Comparison::LtU => IntCC::UnsignedLessThan,
        Comparison::LeU => IntCC::UnsignedLessThanOrEqual,
        Comparison::GtU => IntCC::UnsignedGreaterThan,
        Comparison::GeU => IntCC::UnsignedGreaterThanOrEqual,
    }
}

/// CMP: a mask of words.
pub(crate) fn compare(b: &mut FunctionBuilder<'_>, comparison: Comparison, ty: Type, sources: &[Lanes]) -> Lanes {
    let condition = condition(comparison);
    let mut compare = |b: &mut FunctionBuilder<'_>, values: &[Value]| mask(b, condition, ty, values[0], values[1]);
    match Lanes::each(b, sources, &mut compare) {
        Lanes::Doubles(masks) => Lanes::Words(narrow(b, masks)),
        words => words,
    }
}

/// The first or the second value, whichever compares so with the other.
fn pick(b: &mut FunctionBuilder<'_>, condition: IntCC, ty: Type, x: Value, y: Value) -> Value {
    let first = mask(b, condition, ty, x, y);
    b.ins().bitselect(first, x, y)
}

/// Quotient or remainder of scalars, by the rules for 0 and for the smallest number by -1.
fn divide(b: &mut FunctionBuilder<'_>, op: Op, x: Value, y: Value) -> Value {
    let ty = b.func.dfg.value_type(x);
    let smallest = if ty == I32 { i64::from(i32::MIN) } else { i64::MIN };
    let by_zero = b.ins().icmp_imm_s(IntCC::Equal, y, 0);
    let one = b.ins().iconst(ty, 1);
    let mut divisor = b.ins().select(by_zero, one, y);
    if matches!(op, Op::DivS | Op::RemS) {
        // By 1 the smallest number is itself, and leaves no remainder.
        let number = b.ins().iconst(ty, if ty == I32 { smallest & 0xffff_ffff } else { smallest });
        let least = b.ins().icmp(IntCC::Equal, x, number);
        let negative = b.ins().icmp_imm_s(IntCC::Equal, y, -1);
        let overflows = b.ins().band(least, negative);
        divisor = b.ins().select(overflows, one, divisor);
    }
    let result = match op {
        Op::DivS => b.ins().sdiv(x, divisor),
        Op::DivU => b.ins().udiv(x, divisor),
        Op::RemS => b.ins().srem(x, divisor),
        _ => b.ins().urem(x, divisor),
    };
    let of_zero = match op {
        Op::DivS | Op::DivU => {
            let zero = b.ins().iconst(ty, 0);
            b.ins().bnot(zero)
        }
        _ => x,
    };
    b.ins().select(by_zero, of_zero, result)
}

/// Operations that are done lane by lane.
fn scalar(b: &mut FunctionBuilder<'_>, op: Op, values: &[Value]) -> Value {
    let x = values[0];
    let ty = b.func.dfg.value_type(x);
    match op {
        Op::CountOnes => b.ins().popcnt(x),
        Op::LeadingZeros => b.ins().clz(x),
        Op::TrailingZeros => b.ins().ctz(x),
        Op::ReverseBits => b.ins().bitrev(x),
        Op::MulHighS => b.ins().smulhi(x, values[1]),
        Op::MulHighU => b.ins().umulhi(x, values[1]),
        Op::Shl | Op::ShrU | Op::ShrS | Op::Rotl => {
            let bits = b.ins().band_imm_s(values[1], i64::from(ty.bits()) - 1);
            match op {
                Op::Shl => b.ins().ishl(x, bits),
                Op::ShrU => b.ins().ushr(x, bits),
                Op::ShrS => b.ins().sshr(x, bits),
                _ => b.ins().rotl(x, bits),
            }
        }
        _ => divide(b, op, x, values[1]),
    }
}

/// The low bits of each element, sign extended.
fn extend(b: &mut FunctionBuilder<'_>, ty: Type, from: i64, x: Value) -> Value {
    let rest = i64::from(ty.bits()) - from;
    let up = b.ins().ishl_imm_s(x, rest);
    b.ins().sshr_imm_s(up, rest)
}

/// Operations on a vector.
fn simple(b: &mut FunctionBuilder<'_>, op: Op, ty: Type, values: &[Value]) -> Value {
    let x = values[0];
    let y = values.get(1).copied().unwrap_or(x);
    match op {
        Op::Add => b.ins().iadd(x, y),
        Op::Sub => b.ins().isub(x, y),
        Op::Mul => b.ins().imul(x, y),
        Op::Neg => b.ins().ineg(x),
        Op::Abs => b.ins().iabs(x),
        Op::And => b.ins().band(x, y),
        Op::Or => b.ins().bor(x, y),
        Op::Xor => b.ins().bxor(x, y),
        Op::Not => b.ins().bnot(x),
        Op::Min => pick(b, IntCC::SignedLessThan, ty, x, y),
        Op::Max => pick(b, IntCC::SignedGreaterThan, ty, x, y),
        Op::MinU => pick(b, IntCC::UnsignedLessThan, ty, x, y),
        Op::MaxU => pick(b, IntCC::UnsignedGreaterThan, ty, x, y),
        Op::Sext8 => extend(b, ty, 8, x),
        _ => extend(b, ty, 16, x),
    }
}

/// Shifts of all lanes by one number.
fn shift(b: &mut FunctionBuilder<'_>, op: Op, ty: Type, x: Value, by: u64) -> Value {
    let width = u64::from(ty.bits());
    let by = by % width;
    let number = |by: u64| by as i64;
    match op {
        Op::Shl => b.ins().ishl_imm_s(x, number(by)),
        Op::ShrU => b.ins().ushr_imm_s(x, number(by)),
        Op::ShrS => b.ins().sshr_imm_s(x, number(by)),
        _ => {
            let left = b.ins().ishl_imm_s(x, number(by));
            // By 0 both halves are the whole.
            let right = b.ins().ushr_imm_s(x, number((width - by) % width));
            b.ins().bor(left, right)
        }
    }
}

/// Integer operations but for comparisons and conversions. `amount` is the constant of a shift, if it has one.
pub(crate) fn arithmetic(
    b: &mut FunctionBuilder<'_>,
    op: Op,
    ty: Type,
    amount: Option<u64>,
    sources: &[Lanes],
) -> Lanes {
    match (op, amount) {
        (Op::Shl | Op::ShrU | Op::ShrS | Op::Rotl, Some(by)) => {
            Lanes::each(b, &sources[..1], &mut |b, values| shift(b, op, ty, values[0], by))
        }
        (Op::CountOnes | Op::LeadingZeros | Op::TrailingZeros | Op::ReverseBits, _)
        | (Op::MulHighS | Op::MulHighU | Op::DivS | Op::DivU | Op::RemS | Op::RemU, _)
        | (Op::Shl | Op::ShrU | Op::ShrS | Op::Rotl, None) => {
            Lanes::each_lane(b, sources, &mut |b, values| scalar(b, op, values))
        }
        _ => Lanes::each(b, sources, &mut |b, values| simple(b, op, ty, values)),
    }
}

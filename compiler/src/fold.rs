//! Operations on constants. Floating-point arithmetic is left to the GPU, so that every result has the bits that it defines.

use campanile_hw::isa::{Comparison, Op, Type};

use crate::ir::Src;

const fn mask(ty: Type) -> u64 {
    match ty.bits() {
        64 => u64::MAX,
        bits => (1 << bits) - 1,
    }
}

/// A value of a type, sign extended.
const fn signed(ty: Type, value: u64) -> i64 {
    match ty {
        Type::I32 => value as u32 as i32 as i64,
        _ => value as i64,
    }
}

pub(crate) fn unary(op: Op, ty: Type, a: u64) -> Option<u64> {
    match op {
        Op::WidenU => return Some(a & 0xffff_ffff),
        Op::WidenS => return Some(a as u32 as i32 as i64 as u64),
        Op::Narrow => return Some(a & 0xffff_ffff),
        _ => {}
    }
    if ty.is_float() {
        return None;
    }
    let value = match op {
        Op::Not => !a,
        Op::Neg => a.wrapping_neg(),
        Op::Sext8 => a as u8 as i8 as i64 as u64,
        Op::Sext16 => a as u16 as i16 as i64 as u64,
        _ => return None,
    };
    Some(value & mask(ty))
}

pub(crate) fn binary(op: Op, ty: Type, a: u64, b: u64) -> Option<u64> {
    if ty.is_float() {
        return None;
    }
    let shift = (b & u64::from(ty.bits().saturating_sub(1))) as u32;
    let (sa, sb) = (signed(ty, a), signed(ty, b));
    let value = match op {
        Op::Add => a.wrapping_add(b),
        Op::Sub => a.wrapping_sub(b),
        Op::Mul => a.wrapping_mul(b),
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Shl => a << shift,
        Op::ShrU => a >> shift,
        Op::ShrS => (sa >> shift) as u64,
        Op::DivU => a.checked_div(b).unwrap_or(u64::MAX),
        Op::RemU => a.checked_rem(b).unwrap_or(a),
        Op::DivS if sb == 0 => u64::MAX,
        Op::DivS => sa.wrapping_div(sb) as u64,
        Op::RemS if sb == 0 => a,
        Op::RemS => sa.wrapping_rem(sb) as u64,
        Op::Min => sa.min(sb) as u64,
        Op::Max => sa.max(sb) as u64,
        Op::MinU => a.min(b),
        Op::MaxU => a.max(b),
        _ => return None,
    };
    Some(value & mask(ty))
}

pub(crate) fn compare(comparison: Comparison, ty: Type, a: u64, b: u64) -> Option<bool> {
    if ty.is_float() {
        return None;
    }
    let (sa, sb) = (signed(ty, a), signed(ty, b));
    Some(match comparison {
        Comparison::Eq => a == b,
        Comparison::Ne => a != b,
        Comparison::Lt => sa < sb,
        Comparison::Le => sa <= sb,
        Comparison::Gt => sa > sb,
        Comparison::Ge => sa >= sb,
        Comparison::LtU => a < b,
        Comparison::LeU => a <= b,
        Comparison::GtU => a > b,
        Comparison::GeU => a >= b,
    })
}

pub(crate) const fn commutes(op: Op) -> bool {
    matches!(
        op,
        Op::Add
            | Op::Mul
            | Op::MulHighS
            | Op::MulHighU
            | Op::And
            | Op::Or
            | Op::Xor
            | Op::Min
            | Op::Max
            | Op::MinU
            | Op::MaxU
    )
}

/// What an operation with a constant on its right gives without being done.
pub(crate) fn with_constant(op: Op, ty: Type, a: Src, b: u64) -> Option<Src> {
    if ty.is_float() {
        return None;
    }
    let same = match op {
        Op::Add | Op::Sub | Op::Or | Op::Xor | Op::Shl | Op::ShrU | Op::ShrS | Op::Rotl => b == 0,
        Op::Mul | Op::DivU | Op::DivS => b == 1,
        Op::And => b == mask(ty),
        _ => false,
    };
    if same {
        return Some(a);
    }
    (matches!(op, Op::Mul | Op::And) && b == 0).then_some(Src::Const(0))
}

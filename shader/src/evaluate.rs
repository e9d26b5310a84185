//! The results of arithmetic instructions for one lane. Values are in the low bits of 64; the other bits of a result are zero.

use crate::float::{binary16, binary32, binary64};
use campanile_hw::isa::{AtomicOperation, Comparison, Op, Reduction, Type, f16_to_f64, f64_to_f16};

/// Integer arithmetic of one width.
macro_rules! integers {
    ($name:ident, $unsigned:ident, $signed:ident, $wide:ident, $wide_signed:ident) => {
        fn $name(op: Op, a: $unsigned, b: $unsigned) -> $unsigned {
            const BITS: u32 = $unsigned::BITS;
            let (x, y) = (a as $signed, b as $signed);
            match op {
                Op::Add => a.wrapping_add(b),
                Op::Sub => a.wrapping_sub(b),
                Op::Mul => a.wrapping_mul(b),
                Op::MulHighS => ((x as $wide_signed * y as $wide_signed) >> BITS) as $unsigned,
                Op::MulHighU => ((a as $wide * b as $wide) >> BITS) as $unsigned,
                Op::DivS if y == 0 => $unsigned::MAX,
                Op::DivS => x.wrapping_div(y) as $unsigned,
                Op::DivU => a.checked_div(b).unwrap_or($unsigned::MAX),
                Op::RemS if y == 0 => a,
                Op::RemS => x.wrapping_rem(y) as $unsigned,
                Op::RemU => a.checked_rem(b).unwrap_or(a),
                Op::Neg => a.wrapping_neg(),
                Op::Abs => x.wrapping_abs() as $unsigned,
                Op::Min => x.min(y) as $unsigned,
                Op::Max => x.max(y) as $unsigned,
                Op::MinU => a.min(b),
                Op::MaxU => a.max(b),
                Op::And => a & b,
                Op::Or => a | b,
                Op::Xor => a ^ b,
                Op::Not => !a,
                Op::Shl => a.wrapping_shl(b as u32),
                Op::ShrU => a.wrapping_shr(b as u32),
                Op::ShrS => x.wrapping_shr(b as u32) as $unsigned,
                Op::Rotl => a.rotate_left(b as u32 % BITS),
                Op::CountOnes => a.count_ones() as $unsigned,
                Op::LeadingZeros => a.leading_zeros() as $unsigned,
                Op::TrailingZeros => a.trailing_zeros() as $unsigned,
                Op::ReverseBits => a.reverse_bits(),
                Op::Sext8 => x as i8 as $signed as $unsigned,
                Op::Sext16 => x as i16 as $signed as $unsigned,
                _ => 0,
            }
        }
    };
}

integers!(integer32, u32, i32, u64, i64);
integers!(integer64, u64, i64, u128, i128);

/// The result of an operation of the type `ty` on its sources: arithmetic, bit operations and the fixed conversions between words and doubles. What looks at memory, at other
/// lanes or at a predicate is not among them and gives 0; [`compare`] and [`convert`] are apart because they need the modifier.
pub fn evaluate(op: Op, ty: Type, a: u64, b: u64, c: u64) -> u64 {
    match (op, ty) {
        (Op::Mov, _) => b,
        (Op::Pack, _) => a & 0xffff_ffff | b << 32,
        (Op::WidenS, _) => i64::from(a as i32) as u64,
        (Op::WidenU | Op::Narrow, _) => a & 0xffff_ffff,
        (_, Type::B1) => u64::from(integer32(op, a as u32, b as u32)) & 1,
        (_, Type::I32) => u64::from(integer32(op, a as u32, b as u32)),
        (_, Type::I64) => integer64(op, a, b),
        (_, Type::F16) => u64::from(binary16(op, a as u16, b as u16, c as u16)),
        (_, Type::F32) => u64::from(binary32(op, a as u32, b as u32, c as u32)),
        (_, Type::F64) => binary64(op, a, b, c),
        (_, Type::None) => 0,
    }
}

/// The value of floating-point bits.
fn value(ty: Type, bits: u64) -> f64 {
    match ty {
        Type::F16 => f16_to_f64(bits as u16),
        Type::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    }
}

/// True if `a` compares with `b` as asked.
pub fn compare(comparison: Comparison, ty: Type, a: u64, b: u64) -> bool {
    use core::cmp::Ordering::{Equal, Greater, Less};
    let signed = |bits: u64| if ty == Type::I32 { i64::from(bits as i32) } else { bits as i64 };
    let order = if ty.is_float() { value(ty, a).partial_cmp(&value(ty, b)) } else { Some(signed(a).cmp(&signed(b))) };
    match comparison {
        Comparison::Eq => order == Some(Equal),
        Comparison::Ne => order != Some(Equal),
        Comparison::Lt => order == Some(Less),
        Comparison::Le => matches!(order, Some(Less | Equal)),
        Comparison::Gt => order == Some(Greater),
        Comparison::Ge => matches!(order, Some(Greater | Equal)),
        Comparison::LtU => a < b,
        Comparison::LeU => a <= b,
        Comparison::GtU => a > b,
        Comparison::GeU => a >= b,
    }
}

/// `bits` of the type `from` as the type `ty`: FROM_S, FROM_U, TO_S, TO_U and CONVERT.
pub fn convert(op: Op, ty: Type, from: Type, bits: u64) -> u64 {
    let signed = if from == Type::I32 { i64::from(bits as i32) } else { bits as i64 };
    let float = value(from, bits);
    match (op, ty) {
        // An integer that binary64 has to round is too large for binary16.
        (Op::FromS, Type::F16) => u64::from(f64_to_f16(signed as f64)),
        (Op::FromS, Type::F32) => u64::from((signed as f32).to_bits()),
        (Op::FromS, _) => (signed as f64).to_bits(),
        (Op::FromU, Type::F16) => u64::from(f64_to_f16(bits as f64)),
        (Op::FromU, Type::F32) => u64::from((bits as f32).to_bits()),
        (Op::FromU, _) => (bits as f64).to_bits(),
        (Op::ToS, Type::I32) => u64::from(float as i32 as u32),
        (Op::ToS, _) => float as i64 as u64,
        (Op::ToU, Type::I32) => u64::from(float as u32),
        (Op::ToU, _) => float as u64,
        (_, Type::F16) => u64::from(f64_to_f16(float)),
        (_, Type::F32) if float.is_nan() => 0x7fc0_0000,
        (_, Type::F32) => u64::from((float as f32).to_bits()),
        _ if float.is_nan() => 0x7ff8 << 48,
        _ => float.to_bits(),
    }
}

/// Neutral element of a reduction, as the bits of a register.
pub fn reduction_start(reduction: Reduction, ty: Type) -> u64 {
    let (ones, sign) = if ty.bits() == 64 { (u64::MAX, 1 << 63) } else { (0xffff_ffff, 1 << 31) };
    // +infinity, -0 and 1 of the floating-point types.
    let (infinity, zero, one) = match ty {
        Type::F16 => (0x7c00, 0x8000, 0x3c00),
        Type::F32 => (0x7f80_0000, sign, 0x3f80_0000),
        Type::F64 => (0x7ff0 << 48, sign, 0x3ff0 << 48),
        _ => (ones & !sign, 0, 1),
    };
    match reduction {
        Reduction::Add => zero,
        Reduction::Mul => one,
        Reduction::Min => infinity,
        Reduction::Max if ty.is_float() => infinity | zero,
        Reduction::Max => sign,
        Reduction::MinU | Reduction::And => ones,
        Reduction::MaxU | Reduction::Or | Reduction::Xor => 0,
    }
}

/// One step of a reduction.
pub fn reduce(reduction: Reduction, ty: Type, so_far: u64, next: u64) -> u64 {
    let op = match reduction {
        Reduction::Add => Op::Add,
        Reduction::Mul => Op::Mul,
        Reduction::Min => Op::Min,
        Reduction::Max => Op::Max,
        Reduction::MinU => Op::MinU,
        Reduction::MaxU => Op::MaxU,
        Reduction::And => Op::And,
        Reduction::Or => Op::Or,
        Reduction::Xor => Op::Xor,
    };
    evaluate(op, ty, so_far, next, 0)
}

/// What an atomic operation stores where `old` is; nothing for a load and a comparison that fails.
pub fn update(atomic: AtomicOperation, ty: Type, old: u64, operand: u64, comparand: u64) -> Option<u64> {
    let op = match atomic {
        AtomicOperation::Load => return None,
        AtomicOperation::Exchange => return Some(operand),
        AtomicOperation::CompareExchange => return (old == comparand).then_some(operand),
        AtomicOperation::Add => Op::Add,
        AtomicOperation::MinS => Op::Min,
        AtomicOperation::MaxS => Op::Max,
        AtomicOperation::MinU => Op::MinU,
        AtomicOperation::MaxU => Op::MaxU,
        AtomicOperation::And => Op::And,
        AtomicOperation::Or => Op::Or,
        AtomicOperation::Xor => Op::Xor,
    };
    Some(evaluate(op, ty, old, operand, 0))
}

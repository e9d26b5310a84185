//! Binary32 and binary64.

use crate::lanes::{Lanes, cast, narrow, splat};
use campanile_hw::isa::{Comparison, Op, Type};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::types::{F32X4, F64X2, I32X4, I64X2};
use cranelift_codegen::ir::{self, InstBuilder, Value};
use cranelift_frontend::FunctionBuilder;

/// The vectors of a floating-point type: of numbers, and of their bits.
fn vectors(ty: Type) -> (ir::Type, ir::Type) {
    if ty == Type::F64 { (F64X2, I64X2) } else { (F32X4, I32X4) }
}

/// Bits of the sign, and of the canonical NaN.
fn special(ty: Type) -> (u64, u64) {
    if ty == Type::F64 { (1 << 63, 0x7ff8 << 48) } else { (1 << 31, 0x7fc0_0000) }
}

/// The bits of numbers, or of their bits, those of a NaN being the canonical ones.
pub(crate) fn canonical(b: &mut FunctionBuilder<'_>, ty: Type, number: Value) -> Value {
    let (numbers, bits_type) = vectors(ty);
    let number = cast(b, numbers, number);
    let unordered = b.ins().fcmp(FloatCC::Unordered, number, number);
    let nan = splat(b, bits_type, special(ty).1);
    let bits = cast(b, bits_type, number);
    b.ins().bitselect(unordered, nan, bits)
}

/// A mask of the elements of which one of the two numbers is a NaN.
pub(crate) fn unordered(b: &mut FunctionBuilder<'_>, ty: Type, x: Value, y: Value) -> Value {
    let numbers = vectors(ty).0;
    let (x, y) = (cast(b, numbers, x), cast(b, numbers, y));
    let found = b.ins().fcmp(FloatCC::Unordered, x, y);
    cast(b, I32X4, found)
}

/// CMP: a mask of words.
pub(crate) fn compare(b: &mut FunctionBuilder<'_>, comparison: Comparison, ty: Type, sources: &[Lanes]) -> Lanes {
    let condition = match comparison {
        Comparison::Eq => FloatCC::Equal,
        Comparison::Ne => FloatCC::NotEqual,
        Comparison::Lt | Comparison::LtU => FloatCC::LessThan,
        Comparison::Le | Comparison::LeU => FloatCC::LessThanOrEqual,
        Comparison::Gt | Comparison::GtU => FloatCC::GreaterThan,
        Comparison::Ge | Comparison::GeU => FloatCC::GreaterThanOrEqual,
    };
    let numbers = vectors(ty).0;
    let masks = Lanes::each(b, sources, &mut |b, values| {
        let (x, y) = (cast(b, numbers, values[0]), cast(b, numbers, values[1]));
        b.ins().fcmp(condition, x, y)
    });
    match masks {
        Lanes::Doubles(masks) => Lanes::Words(narrow(b, masks)),
        words => words,
    }
}

/// MIN and MAX: `x` where `y` is a NaN, where `x` compares so, and of equal ones where `x` has the sign that counts as less or more.
fn extreme(b: &mut FunctionBuilder<'_>, least: bool, ty: Type, x: Value, y: Value) -> Value {
    let bits_type = vectors(ty).1;
    let order = if least { FloatCC::LessThan } else { FloatCC::GreaterThan };
    let no_other = b.ins().fcmp(FloatCC::Unordered, y, y);
    let beyond = b.ins().fcmp(order, x, y);
    let equal = b.ins().fcmp(FloatCC::Equal, x, y);
    let bits = cast(b, bits_type, x);
    let sign = splat(b, bits_type, special(ty).0);
    let negative = b.ins().band(bits, sign);
    let wanted = if least { sign } else { b.ins().bxor(sign, sign) };
    let signed = b.ins().icmp(ir::condcodes::IntCC::Equal, negative, wanted);
    let tie = b.ins().band(equal, signed);
    let first = b.ins().bor(no_other, beyond);
    let first = b.ins().bor(first, tie);
    let other = cast(b, bits_type, y);
    b.ins().bitselect(first, bits, other)
}

/// An operation on vectors of bits. A NaN may come out with any bits.
fn vector(b: &mut FunctionBuilder<'_>, op: Op, ty: Type, bits: &[Value]) -> Value {
    let (numbers, bits_type) = vectors(ty);
    let sign = splat(b, bits_type, special(ty).0);
    match op {
        Op::Neg => return b.ins().bxor(bits[0], sign),
        Op::Abs => return b.ins().band_not(bits[0], sign),
        _ => {}
    }
    let values: Vec<Value> = bits.iter().map(|bits| cast(b, numbers, *bits)).collect();
    let x = values[0];
    let y = values.get(1).copied().unwrap_or(x);
    let result = match op {
        Op::Add => b.ins().fadd(x, y),
        Op::Sub => b.ins().fsub(x, y),
        Op::Mul => b.ins().fmul(x, y),
        Op::Div => b.ins().fdiv(x, y),
        Op::Fma => b.ins().fma(x, y, values.get(2).copied().unwrap_or(y)),
        Op::Min | Op::Max => {
            let bits = extreme(b, op == Op::Min, ty, x, y);
            cast(b, numbers, bits)
        }
        Op::Floor => b.ins().floor(x),
        Op::Ceil => b.ins().ceil(x),
        Op::Trunc => b.ins().trunc(x),
        Op::RoundEven => b.ins().nearest(x),
        _ => b.ins().sqrt(x),
    };
    cast(b, bits_type, result)
}

/// Floating-point operations but for comparisons and conversions.
pub(crate) fn arithmetic(b: &mut FunctionBuilder<'_>, op: Op, ty: Type, sources: &[Lanes]) -> Lanes {
    Lanes::each(b, sources, &mut |b, values| vector(b, op, ty, values))
}

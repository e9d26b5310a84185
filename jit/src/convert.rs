//! Conversions between integers and floating point, and among floating point.

use crate::float::canonical;
use crate::lanes::{Lanes, cast};
use campanile_hw::isa::{Op, Type};
use cranelift_codegen::ir::types::{F32, F32X4, F64, F64X2, I32, I32X4, I64};
use cranelift_codegen::ir::{self, InstBuilder, Value};
use cranelift_frontend::FunctionBuilder;

/// The scalar of an integer or floating-point type, and of its bits.
fn scalars(ty: Type) -> (ir::Type, ir::Type) {
    match ty {
        Type::F64 => (F64, I64),
        Type::F32 => (F32, I32),
        Type::I64 => (I64, I64),
        _ => (I32, I32),
    }
}

/// Between words and binary32 all four lanes are converted at once.
fn at_once(b: &mut FunctionBuilder<'_>, op: Op, word: Value) -> Value {
    match op {
        Op::FromS => {
            let number = b.ins().fcvt_from_sint(F32X4, word);
            cast(b, I32X4, number)
        }
        Op::FromU => {
            let number = b.ins().fcvt_from_uint(F32X4, word);
            cast(b, I32X4, number)
        }
        _ => {
            let number = cast(b, F32X4, word);
            if op == Op::ToS {
                b.ins().fcvt_to_sint_sat(I32X4, number)
            } else {
                b.ins().fcvt_to_uint_sat(I32X4, number)
            }
        }
    }
}

/// The conversion of one lane, without the rule about NaN.
fn one(b: &mut FunctionBuilder<'_>, op: Op, ty: Type, from: Type, bits: Value) -> Value {
    let (number, result) = scalars(ty);
    let source = cast(b, scalars(from).0, bits);
    let converted = match op {
        Op::FromS => b.ins().fcvt_from_sint(number, source),
        Op::FromU => b.ins().fcvt_from_uint(number, source),
        Op::ToS => b.ins().fcvt_to_sint_sat(number, source),
        Op::ToU => b.ins().fcvt_to_uint_sat(number, source),
        _ => match (from, ty) {
            (Type::F32, Type::F64) => b.ins().fpromote(F64, source),
            (Type::F64, Type::F32) => b.ins().fdemote(F32, source),
            _ => source,
        },
    };
    cast(b, result, converted)
}

/// FROM_S, FROM_U, TO_S, TO_U and CONVERT.
pub(crate) fn convert(b: &mut FunctionBuilder<'_>, op: Op, ty: Type, from: Type, sources: &[Lanes]) -> Lanes {
    let words = matches!((ty, from), (Type::F32, Type::I32) | (Type::I32, Type::F32));
    if words {
        return Lanes::each(b, sources, &mut |b, values| at_once(b, op, values[0]));
    }
    let converted = Lanes::each_lane(b, sources, &mut |b, values| one(b, op, ty, from, values[0]));
    if op != Op::Convert {
        return converted;
    }
    let numbers = if ty == Type::F64 { F64X2 } else { F32X4 };
    Lanes::each(b, &[converted], &mut |b, values| {
        let number = cast(b, numbers, values[0]);
        canonical(b, ty, number)
    })
}

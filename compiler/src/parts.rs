//! The parts of floating-point numbers: Modf, Frexp and Ldexp of GLSL.std.450, by their bits, so that neither rounding nor subnormal numbers play in.

use campanile_hw::isa::{Comparison as C, Op as I, Type as T};
use rspirv::spirv::{GlslStd450Op as GLOp, Op};

use crate::error::{Result, malformed};
use crate::ir::Src;
use crate::lower::Lower;
use crate::read::Inst;
use crate::types::Scalar;

/// Positions of sign, exponent and significand in the bits of a floating-point type.
#[derive(Clone, Copy)]
struct Parts {
    /// The integer type of its bits.
    ty: T,
    /// Bits of the mantissa, without the hidden one.
    mantissa: u32,
    /// Bias of the exponent.
    bias: u32,
}

impl Parts {
    fn of(scalar: Scalar) -> Result<Self> {
        Ok(match scalar {
            Scalar::F16 => Self { ty: T::I32, mantissa: 10, bias: 15 },
            Scalar::F32 => Self { ty: T::I32, mantissa: 23, bias: 127 },
            Scalar::F64 => Self { ty: T::I64, mantissa: 52, bias: 1023 },
            _ => return Err(malformed("the parts of a number that is not a floating-point number")),
        })
    }

    /// The bits of infinity, above which NaNs are.
    const fn infinity(self) -> u64 {
        ((2 * self.bias + 1) as u64) << self.mantissa
    }

    const fn sign(self) -> Src {
        Src::Const(self.infinity() + (1 << self.mantissa))
    }

    const fn fraction(self) -> u64 {
        (1 << self.mantissa) - 1
    }
}

/// A number taken apart: `significand` is an integer with the hidden bit set, and `field` the exponent's field that it has there, which is less than 1 for
/// subnormal numbers.
struct Normal {
    sign: Src,
    significand: Src,
    field: Src,
    /// True if it is zero, an infinity or a NaN, for which the other parts mean nothing.
    special: Src,
}

const fn word(value: i32) -> Src {
    Src::Const(value as u32 as u64)
}

impl Lower<'_> {
    /// Modf, ModfStruct, Frexp, FrexpStruct and Ldexp.
    pub(crate) fn parts_of_float(&mut self, inst: &Inst, op: GLOp) -> Result<()> {
        let scalar = self.scalar_of(inst.arg(2)?)?;
        let parts = Parts::of(scalar)?;
        let numbers = self.data(inst.arg(2)?)?;
        if op == GLOp::Ldexp {
            let (of, powers) = (self.scalar_of(inst.arg(3)?)?, self.data(inst.arg(3)?)?);
            let mut all = Vec::new();
            for (number, power) in numbers.into_iter().zip(powers) {
                let power = self.clamped(of, power)?;
                all.push(self.ldexp(parts, number, power)?);
            }
            return self.set(inst, all);
        }
        let in_struct = matches!(op, GLOp::ModfStruct | GLOp::FrexpStruct);
        let pointer = if in_struct { None } else { Some(self.pointer(inst.arg(3)?)?) };
        let second = match &pointer {
            Some(pointer) => self.types.scalar(pointer.ty)?,
            None => self.types.scalars(inst.ty)?.last().copied().ok_or_else(|| malformed("an empty structure"))?,
        };
        let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
        for number in numbers {
            let (first, other) = if matches!(op, GLOp::Modf | GLOp::ModfStruct) {
                self.modf(scalar, parts, number)?
            } else {
                let (significand, exponent) = self.frexp(parts, number)?;
                (significand, self.converted(Op::SConvert, second, Scalar::I32, exponent)?)
            };
            firsts.push(first);
            seconds.push(other);
        }
        match pointer {
            Some(pointer) => self.store(&pointer, &seconds)?,
            None => firsts.extend(seconds),
        }
        self.set(inst, firsts)
    }

    /// The fraction and the whole number, both with the sign of `x`.
    fn modf(&mut self, scalar: Scalar, parts: Parts, x: Src) -> Result<(Src, Src)> {
        let (ty, float) = (parts.ty, scalar.isa());
        let sign = self.ir.op2(I::And, ty, x, parts.sign())?;
        let whole = self.ir.op1(I::Trunc, float, x)?;
        let fraction = self.ir.op2(I::Sub, float, x, whole)?;
        let magnitude = self.ir.op2(I::Xor, ty, x, sign)?;
        let infinite = self.ir.cmp(C::Eq, ty, magnitude, Src::Const(parts.infinity()))?;
        let fraction = self.ir.select(ty, infinite, Src::Const(0), fraction)?;
        // The difference of equal numbers is +0.
        Ok((self.ir.op2(I::Or, ty, fraction, sign)?, whole))
    }

    fn normal(&mut self, parts: Parts, x: Src) -> Result<Normal> {
        let ty = parts.ty;
        let sign = self.ir.op2(I::And, ty, x, parts.sign())?;
        let magnitude = self.ir.op2(I::Xor, ty, x, sign)?;
        let zero = self.ir.cmp(C::Eq, ty, magnitude, Src::Const(0))?;
        let large = self.ir.cmp(C::GeU, ty, magnitude, Src::Const(parts.infinity()))?;
        let special = self.ir.op2(I::Or, T::B1, zero, large)?;
        let field = self.ir.op2(I::ShrU, ty, magnitude, Src::Const(u64::from(parts.mantissa)))?;
        let field = self.narrowed(ty, field)?;
        let subnormal = self.ir.cmp(C::Eq, T::I32, field, Src::Const(0))?;
        let above = self.ir.op1(I::LeadingZeros, ty, magnitude)?;
        let above = self.narrowed(ty, above)?;
        let up = self.ir.op2(I::Sub, T::I32, above, Src::Const(u64::from(ty.bits() - 1 - parts.mantissa)))?;
        let raised = self.ir.op2(I::Shl, ty, magnitude, up)?;
        let significand = self.ir.select(ty, subnormal, raised, magnitude)?;
        let significand = self.ir.op2(I::And, ty, significand, Src::Const(parts.fraction()))?;
        let significand = self.ir.op2(I::Or, ty, significand, Src::Const(parts.fraction() + 1))?;
        let below = self.ir.op2(I::Sub, T::I32, word(1), up)?;
        let field = self.ir.select(T::I32, subnormal, below, field)?;
        Ok(Normal { sign, significand, field, special })
    }

    /// The significand, from 1/2 on and less than 1, and the exponent. Zero, infinities and NaNs are their own significands, with the exponent 0.
    fn frexp(&mut self, parts: Parts, x: Src) -> Result<(Src, Src)> {
        let ty = parts.ty;
        let Normal { sign, significand, field, special } = self.normal(parts, x)?;
        let half = i32::try_from(parts.bias).unwrap_or(0) - 1;
        let fraction = self.ir.op2(I::And, ty, significand, Src::Const(parts.fraction()))?;
        let fraction = self.ir.op2(I::Or, ty, fraction, Src::Const((half as u64) << parts.mantissa))?;
        let fraction = self.ir.op2(I::Or, ty, fraction, sign)?;
        let exponent = self.ir.op2(I::Sub, T::I32, field, word(half))?;
        Ok((self.ir.select(ty, special, x, fraction)?, self.ir.select(T::I32, special, word(0), exponent)?))
    }

    /// `x * 2^power`, rounded once to nearest even; `power` is far from where sums with exponents wrap.
    fn ldexp(&mut self, parts: Parts, x: Src, power: Src) -> Result<Src> {
        let ty = parts.ty;
        let Normal { sign, significand, field, special } = self.normal(parts, x)?;
        let field = self.ir.op2(I::Add, T::I32, field, power)?;
        let over = self.ir.cmp(C::Gt, T::I32, field, Src::Const(u64::from(2 * parts.bias)))?;
        let under = self.ir.cmp(C::Lt, T::I32, field, word(1))?;
        let wide = self.widened(ty, field)?;
        let high = self.ir.op2(I::Shl, ty, wide, Src::Const(u64::from(parts.mantissa)))?;
        let low = self.ir.op2(I::And, ty, significand, Src::Const(parts.fraction()))?;
        let plain = self.ir.op2(I::Or, ty, high, low)?;
        // A subnormal result loses bits below: to what is cut off comes a half less one unit, and the unit too if the rest is odd.
        let down = self.ir.op2(I::Sub, T::I32, word(1), field)?;
        let down = self.ir.op2(I::Min, T::I32, down, Src::Const(u64::from(parts.mantissa + 2)))?;
        let down = self.ir.op2(I::Max, T::I32, down, word(1))?;
        let cut = self.ir.op2(I::ShrU, ty, significand, down)?;
        let odd = self.ir.op2(I::And, ty, cut, Src::Const(1))?;
        let before = self.ir.op2(I::Sub, T::I32, down, word(1))?;
        let half = self.ir.op2(I::Shl, ty, Src::Const(1), before)?;
        let rounded = self.ir.op2(I::Add, ty, significand, half)?;
        let rounded = self.ir.op2(I::Sub, ty, rounded, Src::Const(1))?;
        let rounded = self.ir.op2(I::Add, ty, rounded, odd)?;
        let rounded = self.ir.op2(I::ShrU, ty, rounded, down)?;
        let value = self.ir.select(ty, under, rounded, plain)?;
        let value = self.ir.select(ty, over, Src::Const(parts.infinity()), value)?;
        let value = self.ir.op2(I::Or, ty, value, sign)?;
        self.ir.select(ty, special, x, value)
    }

    /// A power of two as a word between bounds beyond which every number becomes zero or infinity.
    fn clamped(&mut self, scalar: Scalar, power: Src) -> Result<Src> {
        if scalar.is_float() || scalar == Scalar::Bool {
            return Err(malformed("Ldexp with an exponent that is not an integer"));
        }
        let (ty, power) = (scalar.isa(), self.signed(scalar, power)?);
        let least = if ty == T::I64 { Src::Const(-4096i64 as u64) } else { word(-4096) };
        let power = self.ir.op2(I::Max, ty, power, least)?;
        let power = self.ir.op2(I::Min, ty, power, Src::Const(4096))?;
        self.narrowed(ty, power)
    }

    fn narrowed(&mut self, ty: T, value: Src) -> Result<Src> {
        if ty == T::I64 { self.ir.op1(I::Narrow, ty, value) } else { Ok(value) }
    }

    fn widened(&mut self, ty: T, value: Src) -> Result<Src> {
        if ty == T::I64 { self.ir.op1(I::WidenU, T::I32, value) } else { Ok(value) }
    }
}

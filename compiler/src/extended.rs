//! GLSL.std.450.

use campanile_hw::isa::{Comparison as C, Op as I, Type as T};
use rspirv::spirv::{GlslStd450Op as GLOp, Op};

use crate::error::{Error, Result, malformed};
use crate::ir::Src;
use crate::lower::Lower;
use crate::module::Set;
use crate::read::Inst;
use crate::types::Scalar;

/// Instructions of one operand that are one operation of the GPU.
const fn plain1(op: GLOp) -> Option<I> {
    Some(match op {
        GLOp::Round | GLOp::RoundEven => I::RoundEven,
        GLOp::Trunc => I::Trunc,
        GLOp::FAbs => I::Abs,
        GLOp::Floor => I::Floor,
        GLOp::Ceil => I::Ceil,
        GLOp::Sin => I::Sin,
        GLOp::Cos => I::Cos,
        GLOp::Tan => I::Tan,
        GLOp::Asin => I::Asin,
        GLOp::Acos => I::Acos,
        GLOp::Atan => I::Atan,
        GLOp::Sinh => I::Sinh,
        GLOp::Cosh => I::Cosh,
        GLOp::Tanh => I::Tanh,
        GLOp::Asinh => I::Asinh,
        GLOp::Acosh => I::Acosh,
        GLOp::Atanh => I::Atanh,
        GLOp::Exp => I::Exp,
        GLOp::Log => I::Log,
        GLOp::Exp2 => I::Exp2,
        GLOp::Log2 => I::Log2,
        GLOp::Sqrt => I::Sqrt,
        _ => return None,
    })
}

/// Instructions of two operands that are one operation; true if integers are signed.
const fn plain2(op: GLOp) -> Option<(I, bool)> {
    Some(match op {
        GLOp::Atan2 => (I::Atan2, false),
        GLOp::Pow => (I::Pow, false),
        GLOp::FMin | GLOp::NMin => (I::Min, false),
        GLOp::FMax | GLOp::NMax => (I::Max, false),
        GLOp::UMin => (I::MinU, false),
        GLOp::UMax => (I::MaxU, false),
        GLOp::SMin => (I::Min, true),
        GLOp::SMax => (I::Max, true),
        _ => return None,
    })
}

/// A number's bits in a floating-point type.
pub(crate) const fn float(scalar: Scalar, value: f64) -> Src {
    Src::Const(match scalar {
        Scalar::F64 => value.to_bits(),
        Scalar::F16 => half(value),
        _ => (value as f32).to_bits() as u64,
    })
}

/// The bits of a number that binary16 has as a normal number, or 0; further digits are cut off.
const fn half(value: f64) -> u64 {
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i64 - 1023 + 15;
    let sign = bits >> 63 << 15;
    if exponent <= 0 { sign } else { sign | (exponent as u64) << 10 | (bits >> 42 & 0x3ff) }
}

impl Lower<'_> {
    /// OpExtInst; everything else that has come here is refused.
    pub(crate) fn extended_instruction(&mut self, inst: &Inst) -> Result<()> {
        if inst.op != Op::ExtInst {
            return Self::unknown(inst);
        }
        match self.module.sets.get(&inst.arg(0)?) {
            Some(Set::Glsl) => {}
            Some(Set::NonSemantic) => return Ok(()),
            Some(Set::Other) => return Err(Error::Unsupported("OpExtInst of a set other than GLSL.std.450".into())),
            None => return Err(malformed("OpExtInst of no set")),
        }
        let number = inst.arg(1)?;
        let op =
            GLOp::from_u32(number).ok_or_else(|| malformed(format!("GLSL.std.450 has no instruction {number}")))?;
        if let Some(isa) = plain1(op) {
            return self.each1(inst, 2, |s, scalar, a| s.ir.op1(isa, floating(op, scalar)?.isa(), a));
        }
        if let Some((isa, signed)) = plain2(op) {
            return self.each2(inst, 2, |s, scalar, a, b| {
                let (a, b) = if signed { (s.signed(scalar, a)?, s.signed(scalar, b)?) } else { (a, b) };
                let value = s.ir.op2(isa, scalar.isa(), a, b)?;
                s.wrap(scalar, value)
            });
        }
        match op {
            GLOp::FClamp | GLOp::NClamp | GLOp::UClamp | GLOp::SClamp | GLOp::FMix | GLOp::Fma | GLOp::SmoothStep => {
                self.three(inst, op)
            }
            GLOp::Length
            | GLOp::Distance
            | GLOp::Normalize
            | GLOp::Cross
            | GLOp::Reflect
            | GLOp::FaceForward
            | GLOp::Refract => self.geometric(inst, op),
            GLOp::Modf | GLOp::ModfStruct | GLOp::Frexp | GLOp::FrexpStruct | GLOp::Ldexp => {
                self.parts_of_float(inst, op)
            }
            GLOp::Determinant | GLOp::MatrixInverse => self.matrix_function(inst, op),
            GLOp::FindILsb | GLOp::FindUMsb | GLOp::FindSMsb | GLOp::SAbs | GLOp::SSign => {
                self.integer_function(inst, op)
            }
            GLOp::FSign | GLOp::Fract | GLOp::Radians | GLOp::Degrees | GLOp::InverseSqrt => {
                self.each1(inst, 2, |s, scalar, a| s.simple(op, scalar, a))
            }
            GLOp::Step => self.each2(inst, 2, |s, scalar, edge, x| {
                let below = s.ir.cmp(C::Lt, scalar.isa(), x, edge)?;
                s.ir.select(scalar.isa(), below, float(scalar, 0.0), float(scalar, 1.0))
            }),
            _ => self.packing(inst, op),
        }
    }

    fn simple(&mut self, op: GLOp, scalar: Scalar, a: Src) -> Result<Src> {
        let ty = floating(op, scalar)?.isa();
        match op {
            GLOp::FSign => {
                let zero = float(scalar, 0.0);
                let greater = self.ir.cmp(C::Gt, ty, a, zero)?;
                let less = self.ir.cmp(C::Lt, ty, a, zero)?;
                let rest = self.ir.select(ty, less, float(scalar, -1.0), a)?;
                self.ir.select(ty, greater, float(scalar, 1.0), rest)
            }
            GLOp::Fract => {
                let below = self.ir.op1(I::Floor, ty, a)?;
                self.ir.op2(I::Sub, ty, a, below)
            }
            GLOp::Radians => self.ir.op2(I::Mul, ty, a, float(scalar, core::f64::consts::PI / 180.0)),
            GLOp::Degrees => self.ir.op2(I::Mul, ty, a, float(scalar, 180.0 / core::f64::consts::PI)),
            _ => {
                let root = self.ir.op1(I::Sqrt, ty, a)?;
                self.ir.op2(I::Div, ty, float(scalar, 1.0), root)
            }
        }
    }

    fn three(&mut self, inst: &Inst, op: GLOp) -> Result<()> {
        let scalar = self.scalar_of(inst.arg(2)?)?;
        let ty = scalar.isa();
        if matches!(op, GLOp::FMix | GLOp::Fma | GLOp::SmoothStep) {
            floating(op, scalar)?;
        }
        let (a, b, c) = (self.data(inst.arg(2)?)?, self.data(inst.arg(3)?)?, self.data(inst.arg(4)?)?);
        let mut all = Vec::new();
        for ((a, b), c) in a.into_iter().zip(b).zip(c) {
            all.push(match op {
                GLOp::Fma => self.ir.fma(ty, a, b, c)?,
                GLOp::FMix => {
                    let rest = self.ir.op2(I::Sub, ty, float(scalar, 1.0), c)?;
                    let left = self.ir.op2(I::Mul, ty, a, rest)?;
                    let right = self.ir.op2(I::Mul, ty, b, c)?;
                    self.ir.op2(I::Add, ty, left, right)?
                }
                GLOp::SmoothStep => self.smooth_step(scalar, a, b, c)?,
                _ => {
                    let unsigned = op == GLOp::UClamp;
                    let (a, b, c) = if op == GLOp::SClamp {
                        (self.signed(scalar, a)?, self.signed(scalar, b)?, self.signed(scalar, c)?)
                    } else {
                        (a, b, c)
                    };
                    let low = self.ir.op2(if unsigned { I::MaxU } else { I::Max }, ty, a, b)?;
                    let value = self.ir.op2(if unsigned { I::MinU } else { I::Min }, ty, low, c)?;
                    self.wrap(scalar, value)?
                }
            });
        }
        self.set(inst, all)
    }

    fn smooth_step(&mut self, scalar: Scalar, low: Src, high: Src, x: Src) -> Result<Src> {
        let ty = scalar.isa();
        let above = self.ir.op2(I::Sub, ty, x, low)?;
        let width = self.ir.op2(I::Sub, ty, high, low)?;
        let t = self.ir.op2(I::Div, ty, above, width)?;
        let t = self.ir.op2(I::Max, ty, t, float(scalar, 0.0))?;
        let t = self.ir.op2(I::Min, ty, t, float(scalar, 1.0))?;
        let twice = self.ir.op2(I::Mul, ty, t, float(scalar, 2.0))?;
        let rest = self.ir.op2(I::Sub, ty, float(scalar, 3.0), twice)?;
        let square = self.ir.op2(I::Mul, ty, t, t)?;
        self.ir.op2(I::Mul, ty, square, rest)
    }

    fn length(&mut self, scalar: Scalar, a: &[Src]) -> Result<Src> {
        if let [one] = a {
            return self.ir.op1(I::Abs, scalar.isa(), *one);
        }
        let square = self.dot(scalar, a, a)?;
        self.ir.op1(I::Sqrt, scalar.isa(), square)
    }

    fn geometric(&mut self, inst: &Inst, op: GLOp) -> Result<()> {
        let scalar = floating(op, self.scalar_of(inst.arg(2)?)?)?;
        let ty = scalar.isa();
        let a = self.data(inst.arg(2)?)?;
        let second = |s: &mut Self| s.data(inst.arg(3)?);
        let all = match op {
            GLOp::Length => vec![self.length(scalar, &a)?],
            GLOp::Distance => {
                let b = second(self)?;
                let difference =
                    a.iter().zip(b).map(|(a, b)| self.ir.op2(I::Sub, ty, *a, b)).collect::<Result<Vec<_>>>()?;
                vec![self.length(scalar, &difference)?]
            }
            GLOp::Normalize => {
                let length = self.length(scalar, &a)?;
                a.into_iter().map(|a| self.ir.op2(I::Div, ty, a, length)).collect::<Result<_>>()?
            }
            GLOp::Cross => {
                let b = second(self)?;
                let ([ax, ay, az], [bx, by, bz]) = (three_of(&a)?, three_of(&b)?);
                [[ay, bz, az, by], [az, bx, ax, bz], [ax, by, ay, bx]]
                    .into_iter()
                    .map(|four| self.minor(ty, four))
                    .collect::<Result<_>>()?
            }
            GLOp::Reflect => {
                let b = second(self)?;
                let product = self.dot(scalar, &b, &a)?;
                let twice = self.ir.op2(I::Mul, ty, product, float(scalar, 2.0))?;
                self.minus_scaled(ty, &a, &b, twice)?
            }
            GLOp::FaceForward => {
                let (b, c) = (second(self)?, self.data(inst.arg(4)?)?);
                let product = self.dot(scalar, &c, &b)?;
                let less = self.ir.cmp(C::Lt, ty, product, float(scalar, 0.0))?;
                let mut all = Vec::new();
                for a in a {
                    let negated = self.ir.op1(I::Neg, ty, a)?;
                    all.push(self.ir.select(ty, less, a, negated)?);
                }
                all
            }
            _ => {
                let (b, eta) = (second(self)?, self.single(inst.arg(4)?)?);
                self.refract(scalar, &a, &b, eta)?
            }
        };
        self.set(inst, all)
    }

    fn refract(&mut self, scalar: Scalar, a: &[Src], b: &[Src], eta: Src) -> Result<Vec<Src>> {
        let ty = scalar.isa();
        let product = self.dot(scalar, b, a)?;
        let square = self.ir.op2(I::Mul, ty, product, product)?;
        let rest = self.ir.op2(I::Sub, ty, float(scalar, 1.0), square)?;
        let eta2 = self.ir.op2(I::Mul, ty, eta, eta)?;
        let rest = self.ir.op2(I::Mul, ty, eta2, rest)?;
        let k = self.ir.op2(I::Sub, ty, float(scalar, 1.0), rest)?;
        let none = self.ir.cmp(C::Lt, ty, k, float(scalar, 0.0))?;
        let root = self.ir.op1(I::Sqrt, ty, k)?;
        let scaled = self.ir.op2(I::Mul, ty, eta, product)?;
        let factor = self.ir.op2(I::Add, ty, scaled, root)?;
        let incident = a.iter().map(|a| self.ir.op2(I::Mul, ty, *a, eta)).collect::<Result<Vec<_>>>()?;
        let through = self.minus_scaled(ty, &incident, b, factor)?;
        through.into_iter().map(|value| self.ir.select(ty, none, float(scalar, 0.0), value)).collect()
    }

    /// `a - b * factor`.
    fn minus_scaled(&mut self, ty: T, a: &[Src], b: &[Src], factor: Src) -> Result<Vec<Src>> {
        let mut all = Vec::new();
        for (a, b) in a.iter().zip(b) {
            let scaled = self.ir.op2(I::Mul, ty, *b, factor)?;
            all.push(self.ir.op2(I::Sub, ty, *a, scaled)?);
        }
        Ok(all)
    }

    /// `a * b - c * d`.
    fn minor(&mut self, ty: T, [a, b, c, d]: [Src; 4]) -> Result<Src> {
        let left = self.ir.op2(I::Mul, ty, a, b)?;
        let right = self.ir.op2(I::Mul, ty, c, d)?;
        self.ir.op2(I::Sub, ty, left, right)
    }

    fn integer_function(&mut self, inst: &Inst, op: GLOp) -> Result<()> {
        self.each1(inst, 2, |s, scalar, a| {
            let ty = scalar.isa();
            if scalar.is_float() || scalar == Scalar::Bool {
                return Err(malformed(format!("{op:?} of another type")));
            }
            let signed = s.signed(scalar, a)?;
            let ones = Src::Const(if ty == T::I64 { u64::MAX } else { u64::from(u32::MAX) });
            let value = match op {
                GLOp::SAbs => s.ir.op1(I::Abs, ty, signed)?,
                GLOp::SSign => {
                    let low = s.ir.op2(I::Max, ty, signed, ones)?;
                    s.ir.op2(I::Min, ty, low, Src::Const(1))?
                }
                GLOp::FindILsb => {
                    let below = s.ir.op1(I::TrailingZeros, ty, a)?;
                    let none = s.ir.cmp(C::Eq, ty, a, Src::Const(0))?;
                    s.ir.select(ty, none, ones, below)?
                }
                _ => {
                    let a = if op == GLOp::FindSMsb {
                        let sign = s.ir.op2(I::ShrS, ty, signed, Src::Const(u64::from(ty.bits() - 1)))?;
                        s.ir.op2(I::Xor, ty, signed, sign)?
                    } else {
                        a
                    };
                    let above = s.ir.op1(I::LeadingZeros, ty, a)?;
                    s.ir.op2(I::Sub, ty, Src::Const(u64::from(ty.bits() - 1)), above)?
                }
            };
            s.wrap(scalar, value)
        })
    }

    fn matrix_function(&mut self, inst: &Inst, op: GLOp) -> Result<()> {
        let scalar = self.types.scalars(self.type_of(inst.arg(2)?)?)?.first().copied().unwrap_or(Scalar::F32);
        let ty = floating(op, scalar)?.isa();
        let columns = self.columns(inst.arg(2)?)?;
        let determinant = self.determinant(ty, &columns)?;
        if op == GLOp::Determinant {
            return self.set(inst, vec![determinant]);
        }
        let size = columns.len();
        let mut all = Vec::new();
        for column in 0..size {
            for row in 0..size {
                // The adjugate is the transpose of the cofactors.
                let rest = without(&columns, row, column);
                let mut value = if size == 1 { float(scalar, 1.0) } else { self.determinant(ty, &rest)? };
                if (row + column) % 2 != 0 {
                    value = self.ir.op1(I::Neg, ty, value)?;
                }
                all.push(self.ir.op2(I::Div, ty, value, determinant)?);
            }
        }
        self.set(inst, all)
    }

    fn determinant(&mut self, ty: T, columns: &[Vec<Src>]) -> Result<Src> {
        match columns {
            [only] if only.len() == 1 => only.first().copied().ok_or_else(|| malformed("an empty matrix")),
            [a, b] => match (a.as_slice(), b.as_slice()) {
                ([a, b], [c, d]) => self.minor(ty, [*a, *d, *c, *b]),
                _ => Err(malformed("a matrix that is not square")),
            },
            _ => {
                let mut sum = None;
                for (number, column) in columns.iter().enumerate() {
                    let first = column.first().copied().filter(|_| column.len() == columns.len());
                    let first = first.ok_or_else(|| malformed("a matrix that is not square"))?;
                    let below = self.determinant(ty, &without(columns, number, 0))?;
                    let product = self.ir.op2(I::Mul, ty, first, below)?;
                    let op = if number % 2 == 0 { I::Add } else { I::Sub };
                    sum = Some(match sum {
                        None => product,
                        Some(sum) => self.ir.op2(op, ty, sum, product)?,
                    });
                }
                sum.ok_or_else(|| malformed("an empty matrix"))
            }
        }
    }

    fn packing(&mut self, inst: &Inst, op: GLOp) -> Result<()> {
        let a = self.data(inst.arg(2)?)?;
        let (bits, scale, signed) = match op {
            GLOp::PackHalf2x16 => {
                let halves = a
                    .into_iter()
                    .map(|a| self.converted(Op::FConvert, Scalar::F16, Scalar::F32, a))
                    .collect::<Result<Vec<_>>>()?;
                let all = self.recast(Scalar::I16, Scalar::I32, &halves)?;
                return self.set(inst, all);
            }
            GLOp::UnpackHalf2x16 => {
                let halves = self.recast(Scalar::I32, Scalar::I16, &a)?;
                let all = halves
                    .into_iter()
                    .map(|a| self.converted(Op::FConvert, Scalar::F32, Scalar::F16, a))
                    .collect::<Result<_>>()?;
                return self.set(inst, all);
            }
            GLOp::PackDouble2x32 => {
                let all = self.recast(Scalar::I32, Scalar::I64, &a)?;
                return self.set(inst, all);
            }
            GLOp::UnpackDouble2x32 => {
                let all = self.recast(Scalar::I64, Scalar::I32, &a)?;
                return self.set(inst, all);
            }
            GLOp::PackSnorm4x8 | GLOp::UnpackSnorm4x8 => (Scalar::I8, 127.0, true),
            GLOp::PackUnorm4x8 | GLOp::UnpackUnorm4x8 => (Scalar::I8, 255.0, false),
            GLOp::PackSnorm2x16 | GLOp::UnpackSnorm2x16 => (Scalar::I16, 32767.0, true),
            GLOp::PackUnorm2x16 | GLOp::UnpackUnorm2x16 => (Scalar::I16, 65535.0, false),
            _ => return Err(Error::Unsupported(format!("{op:?} of GLSL.std.450"))),
        };
        let f = Scalar::F32;
        let low = float(f, if signed { -1.0 } else { 0.0 });
        let unpack =
            matches!(op, GLOp::UnpackSnorm4x8 | GLOp::UnpackUnorm4x8 | GLOp::UnpackSnorm2x16 | GLOp::UnpackUnorm2x16);
        let mut all = Vec::new();
        if unpack {
            for a in self.recast(Scalar::I32, bits, &a)? {
                let a = if signed { self.signed(bits, a)? } else { a };
                let value = self.ir.convert(I::FromS, T::F32, T::I32, a)?;
                let value = self.ir.op2(I::Div, T::F32, value, float(f, scale))?;
                all.push(if signed { self.ir.op2(I::Max, T::F32, value, low)? } else { value });
            }
        } else {
            for a in a {
                let value = self.ir.op2(I::Max, T::F32, a, low)?;
                let value = self.ir.op2(I::Min, T::F32, value, float(f, 1.0))?;
                let value = self.ir.op2(I::Mul, T::F32, value, float(f, scale))?;
                let value = self.ir.op1(I::RoundEven, T::F32, value)?;
                let value = self.ir.convert(I::ToS, T::I32, T::F32, value)?;
                all.push(self.wrap(bits, value)?);
            }
            all = self.recast(bits, Scalar::I32, &all)?;
        }
        self.set(inst, all)
    }
}

fn floating(op: GLOp, scalar: Scalar) -> Result<Scalar> {
    if scalar.is_float() { Ok(scalar) } else { Err(malformed(format!("{op:?} of integers"))) }
}

fn three_of(a: &[Src]) -> Result<[Src; 3]> {
    a.try_into().map_err(|_| malformed("Cross of vectors that do not have three components"))
}

/// A matrix without a column and a row.
fn without(columns: &[Vec<Src>], column: usize, row: usize) -> Vec<Vec<Src>> {
    let others = columns.iter().enumerate().filter(|(number, _)| *number != column);
    others
        .map(|(_, other)| other.iter().enumerate().filter(|(number, _)| *number != row).map(|(_, src)| *src).collect())
        .collect()
}

//! Arithmetic, component by component, and linear algebra.

use campanile_hw::isa::{Comparison as C, Op as I, Type as T};
use rspirv::spirv::{Decoration, Op};

use crate::constant::binary;
use crate::error::{Result, malformed};
use crate::ir::Src;
use crate::lower::Lower;
use crate::read::Inst;
use crate::types::{Scalar, Type};

/// Comparisons: of integers with their signedness, of floating-point numbers with whether the opposite comparison is negated.
const fn comparison(op: Op) -> Option<(C, bool, bool)> {
    Some(match op {
        Op::IEqual => (C::Eq, false, false),
        Op::INotEqual => (C::Ne, false, false),
        Op::SLessThan => (C::Lt, true, false),
        Op::SLessThanEqual => (C::Le, true, false),
        Op::SGreaterThan => (C::Gt, true, false),
        Op::SGreaterThanEqual => (C::Ge, true, false),
        Op::ULessThan => (C::LtU, false, false),
        Op::ULessThanEqual => (C::LeU, false, false),
        Op::UGreaterThan => (C::GtU, false, false),
        Op::UGreaterThanEqual => (C::GeU, false, false),
        Op::FOrdEqual => (C::Eq, false, false),
        Op::FUnordNotEqual => (C::Ne, false, false),
        Op::FOrdLessThan => (C::Lt, false, false),
        Op::FOrdLessThanEqual => (C::Le, false, false),
        Op::FOrdGreaterThan => (C::Gt, false, false),
        Op::FOrdGreaterThanEqual => (C::Ge, false, false),
        Op::FUnordLessThan => (C::Ge, false, true),
        Op::FUnordLessThanEqual => (C::Gt, false, true),
        Op::FUnordGreaterThan => (C::Le, false, true),
        Op::FUnordGreaterThanEqual => (C::Lt, false, true),
        _ => return None,
    })
}

/// True for products and sums of floating-point numbers. Where NoContraction does not decorate them, a product and the sum that it goes into may be rounded once.
const fn contracts(op: Op) -> bool {
    matches!(
        op,
        Op::FAdd
            | Op::FMul
            | Op::Dot
            | Op::VectorTimesScalar
            | Op::MatrixTimesScalar
            | Op::MatrixTimesVector
            | Op::VectorTimesMatrix
            | Op::MatrixTimesMatrix
            | Op::OuterProduct
    )
}

impl Lower<'_> {
    /// An integer with its sign extended into the word that it lies in.
    pub(crate) fn signed(&mut self, scalar: Scalar, value: Src) -> Result<Src> {
        match scalar {
            Scalar::I8 => self.ir.op1(I::Sext8, T::I32, value),
            Scalar::I16 => self.ir.op1(I::Sext16, T::I32, value),
            _ => Ok(value),
        }
    }

    /// A narrow integer with zeros in the rest of its word.
    pub(crate) fn wrap(&mut self, scalar: Scalar, value: Src) -> Result<Src> {
        match scalar {
            Scalar::I8 => self.ir.op2(I::And, T::I32, value, Src::Const(0xff)),
            Scalar::I16 => self.ir.op2(I::And, T::I32, value, Src::Const(0xffff)),
            _ => Ok(value),
        }
    }

    pub(crate) fn scalar_of(&self, id: u32) -> Result<Scalar> {
        self.types.scalar(self.type_of(id)?)
    }

    /// Applies an operation to each component of one operand.
    pub(crate) fn each1(
        &mut self,
        inst: &Inst,
        at: usize,
        f: impl Fn(&mut Self, Scalar, Src) -> Result<Src>,
    ) -> Result<()> {
        let id = inst.arg(at)?;
        let scalar = self.scalar_of(id)?;
        let all = self.data(id)?.into_iter().map(|a| f(self, scalar, a)).collect::<Result<_>>()?;
        self.set(inst, all)
    }

    /// Applies an operation to the components of two operands.
    pub(crate) fn each2(
        &mut self,
        inst: &Inst,
        at: usize,
        f: impl Fn(&mut Self, Scalar, Src, Src) -> Result<Src>,
    ) -> Result<()> {
        let (x, y) = (inst.arg(at)?, inst.arg(at + 1)?);
        let (scalar, other) = (self.scalar_of(x)?, self.scalar_of(y)?);
        let (a, b) = (self.data(x)?, self.data(y)?);
        if scalar.class() != other.class()
            && !matches!(inst.op, Op::ShiftLeftLogical | Op::ShiftRightLogical | Op::ShiftRightArithmetic | Op::ExtInst)
        {
            return Err(malformed(format!("Op{:?} of operands of different types", inst.op)));
        }
        let all = a.into_iter().zip(b).map(|(a, b)| f(self, scalar, a, b)).collect::<Result<_>>()?;
        self.set(inst, all)
    }

    /// Translates an instruction that computes components one by one, such as an addition, a comparison or a conversion.
    pub(crate) fn arithmetic(&mut self, inst: &Inst) -> Result<()> {
        self.ir.contracts = contracts(inst.op) && !self.types.has(inst.id, Decoration::NoContraction);
        let done = self.computed(inst);
        self.ir.contracts = false;
        done
    }

    fn computed(&mut self, inst: &Inst) -> Result<()> {
        if let Some((op, signed)) = binary(inst.op) {
            return self.each2(inst, 0, |s, scalar, a, b| {
                let (a, b) = if signed { (s.signed(scalar, a)?, s.signed(scalar, b)?) } else { (a, b) };
                let value = s.ir.op2(op, scalar.isa(), a, b)?;
                s.wrap(scalar, value)
            });
        }
        if let Some((how, signed, negated)) = comparison(inst.op) {
            return self.each2(inst, 0, |s, scalar, a, b| {
                let (a, b) = if signed { (s.signed(scalar, a)?, s.signed(scalar, b)?) } else { (a, b) };
                if !how.fits(scalar.isa()) || scalar == Scalar::Bool {
                    return Err(malformed("a comparison of another type"));
                }
                let set = s.ir.cmp(how, scalar.isa(), a, b)?;
                if negated { s.ir.not(set) } else { Ok(set) }
            });
        }
        match inst.op {
            Op::SNegate | Op::FNegate => self.each1(inst, 0, |s, scalar, a| {
                let value = s.ir.op1(I::Neg, scalar.isa(), a)?;
                s.wrap(scalar, value)
            }),
            Op::Not | Op::LogicalNot => self.each1(inst, 0, |s, scalar, a| {
                let value = s.ir.op1(I::Not, scalar.isa(), a)?;
                s.wrap(scalar, value)
            }),
            Op::LogicalEqual => self.each2(inst, 0, |s, _, a, b| {
                let differ = s.ir.op2(I::Xor, T::B1, a, b)?;
                s.ir.not(differ)
            }),
            Op::FOrdNotEqual | Op::FUnordEqual => self.each2(inst, 0, |s, scalar, a, b| {
                let less = s.ir.cmp(C::Lt, scalar.isa(), a, b)?;
                let greater = s.ir.cmp(C::Gt, scalar.isa(), a, b)?;
                let differ = s.ir.op2(I::Or, T::B1, less, greater)?;
                if inst.op == Op::FUnordEqual { s.ir.not(differ) } else { Ok(differ) }
            }),
            Op::IsNan => self.each1(inst, 0, |s, scalar, a| s.ir.cmp(C::Ne, scalar.isa(), a, a)),
            Op::IsInf => self.each1(inst, 0, |s, scalar, a| {
                let infinity = match scalar {
                    Scalar::F16 => 0x7c00,
                    Scalar::F32 => u64::from(f32::INFINITY.to_bits()),
                    _ => f64::INFINITY.to_bits(),
                };
                let magnitude = s.ir.op1(I::Abs, scalar.isa(), a)?;
                s.ir.cmp(C::Eq, scalar.isa(), magnitude, Src::Const(infinity))
            }),
            Op::Any | Op::All => {
                let op = if inst.op == Op::Any { I::Or } else { I::And };
                let mut all = self.data(inst.arg(0)?)?.into_iter();
                let first = all.next().ok_or_else(|| malformed("an empty vector"))?;
                let value = all.try_fold(first, |so_far, next| self.ir.op2(op, T::B1, so_far, next))?;
                self.set(inst, vec![value])
            }
            Op::ShiftLeftLogical | Op::ShiftRightLogical | Op::ShiftRightArithmetic => self.shift(inst),
            Op::SMod | Op::FMod => self.each2(inst, 0, |s, scalar, a, b| s.modulo(scalar, a, b)),
            Op::UMulExtended | Op::SMulExtended | Op::IAddCarry | Op::ISubBorrow => self.extended(inst),
            _ => self.linear(inst),
        }
    }

    fn shift(&mut self, inst: &Inst) -> Result<()> {
        let by = self.scalar_of(inst.arg(1)?)?;
        self.each2(inst, 0, |s, scalar, a, b| {
            let b = if by == Scalar::I64 { s.ir.op1(I::Narrow, T::I64, b)? } else { b };
            let (op, a) = match inst.op {
                Op::ShiftLeftLogical => (I::Shl, a),
                Op::ShiftRightLogical => (I::ShrU, a),
                _ => (I::ShrS, s.signed(scalar, a)?),
            };
            let value = s.shifted(op, scalar.isa(), a, b)?;
            s.wrap(scalar, value)
        })
    }

    /// A shift, whose amount is a word whatever its type is.
    pub(crate) fn shifted(&mut self, op: I, ty: T, a: Src, b: Src) -> Result<Src> {
        let b = match b {
            Src::Const(bits) => Src::Const(bits & 0xffff_ffff),
            register => register,
        };
        self.ir.op2(op, ty, a, b)
    }

    /// The remainder with the sign of the divisor.
    fn modulo(&mut self, scalar: Scalar, a: Src, b: Src) -> Result<Src> {
        let ty = scalar.isa();
        let (a, b) = (self.signed(scalar, a)?, self.signed(scalar, b)?);
        let rest = self.ir.op2(if scalar.is_float() { I::Rem } else { I::RemS }, ty, a, b)?;
        let zero = Src::Const(0);
        let some = self.ir.cmp(C::Ne, ty, rest, zero)?;
        let negative = self.ir.cmp(C::Lt, ty, rest, zero)?;
        let below = self.ir.cmp(C::Lt, ty, b, zero)?;
        let differ = self.ir.op2(I::Xor, T::B1, negative, below)?;
        let wrong = self.ir.op2(I::And, T::B1, some, differ)?;
        let moved = self.ir.op2(I::Add, ty, rest, b)?;
        let value = self.ir.select(ty, wrong, moved, rest)?;
        self.wrap(scalar, value)
    }

    /// Operations with two results: all low or first parts, then all others.
    fn extended(&mut self, inst: &Inst) -> Result<()> {
        let scalar = self.scalar_of(inst.arg(0)?)?;
        let ty = scalar.isa();
        let (a, b) = (self.data(inst.arg(0)?)?, self.data(inst.arg(1)?)?);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (a, b) in a.into_iter().zip(b) {
            let (low, high) = match inst.op {
                Op::IAddCarry => {
                    let sum = self.ir.op2(I::Add, ty, a, b)?;
                    let sum = self.wrap(scalar, sum)?;
                    (sum, self.ir.cmp(C::LtU, ty, sum, a)?)
                }
                Op::ISubBorrow => {
                    let difference = self.ir.op2(I::Sub, ty, a, b)?;
                    (self.wrap(scalar, difference)?, self.ir.cmp(C::LtU, ty, a, b)?)
                }
                _ => {
                    let (low, high) = self.product(inst.op == Op::SMulExtended, scalar, a, b)?;
                    first.push(low);
                    second.push(high);
                    continue;
                }
            };
            first.push(low);
            second.push(self.ir.select(ty, high, Src::Const(1), Src::Const(0))?);
        }
        first.extend(second);
        self.set(inst, first)
    }

    fn product(&mut self, signed: bool, scalar: Scalar, a: Src, b: Src) -> Result<(Src, Src)> {
        let ty = scalar.isa();
        let (a, b) = if signed { (self.signed(scalar, a)?, self.signed(scalar, b)?) } else { (a, b) };
        let low = self.ir.op2(I::Mul, ty, a, b)?;
        let high = match scalar {
            Scalar::I8 | Scalar::I16 => self.ir.op2(I::ShrU, ty, low, Src::Const(u64::from(scalar.bits())))?,
            _ => self.ir.op2(if signed { I::MulHighS } else { I::MulHighU }, ty, a, b)?,
        };
        Ok((self.wrap(scalar, low)?, self.wrap(scalar, high)?))
    }

    /// The sum of products.
    pub(crate) fn dot(&mut self, scalar: Scalar, a: &[Src], b: &[Src]) -> Result<Src> {
        let mut sum = None;
        for (a, b) in a.iter().zip(b) {
            let product = self.ir.op2(I::Mul, scalar.isa(), *a, *b)?;
            sum = Some(match sum {
                None => product,
                Some(sum) => self.ir.op2(I::Add, scalar.isa(), sum, product)?,
            });
        }
        sum.ok_or_else(|| malformed("a product of nothing"))
    }

    /// The columns of a matrix.
    pub(crate) fn columns(&mut self, id: u32) -> Result<Vec<Vec<Src>>> {
        let Type::Matrix { of, .. } = self.types.get(self.type_of(id)?)? else {
            return Err(malformed(format!("%{id} is not a matrix")));
        };
        let rows = self.types.components(*of)? as usize;
        Ok(self.data(id)?.chunks(rows.max(1)).map(<[Src]>::to_vec).collect())
    }

    fn linear(&mut self, inst: &Inst) -> Result<()> {
        let scalar = |s: &Self| s.types.scalars(inst.ty).map(|all| all.first().copied().unwrap_or(Scalar::F32));
        match inst.op {
            Op::VectorTimesScalar | Op::MatrixTimesScalar => {
                let (ty, by) = (scalar(self)?.isa(), self.single(inst.arg(1)?)?);
                let all = self
                    .data(inst.arg(0)?)?
                    .into_iter()
                    .map(|a| self.ir.op2(I::Mul, ty, a, by))
                    .collect::<Result<_>>()?;
                self.set(inst, all)
            }
            Op::Dot => {
                let (scalar, a, b) = (scalar(self)?, self.data(inst.arg(0)?)?, self.data(inst.arg(1)?)?);
                let value = self.dot(scalar, &a, &b)?;
                self.set(inst, vec![value])
            }
            Op::Transpose => {
                let all = transposed(&self.columns(inst.arg(0)?)?).concat();
                self.set(inst, all)
            }
            Op::MatrixTimesVector | Op::MatrixTimesMatrix => {
                let scalar = scalar(self)?;
                let rows = transposed(&self.columns(inst.arg(0)?)?);
                let right = if inst.op == Op::MatrixTimesVector {
                    vec![self.data(inst.arg(1)?)?]
                } else {
                    self.columns(inst.arg(1)?)?
                };
                self.products(inst, scalar, &rows, &right)
            }
            Op::VectorTimesMatrix => {
                let scalar = scalar(self)?;
                let (vector, columns) = (self.data(inst.arg(0)?)?, self.columns(inst.arg(1)?)?);
                let all = columns.iter().map(|column| self.dot(scalar, &vector, column)).collect::<Result<_>>()?;
                self.set(inst, all)
            }
            Op::OuterProduct => {
                let scalar = scalar(self)?;
                let (column, row) = (self.data(inst.arg(0)?)?, self.data(inst.arg(1)?)?);
                let mut all = Vec::new();
                for y in row {
                    for x in &column {
                        all.push(self.ir.op2(I::Mul, scalar.isa(), *x, y)?);
                    }
                }
                self.set(inst, all)
            }
            Op::SDot | Op::UDot | Op::SUDot | Op::SDotAccSat | Op::UDotAccSat | Op::SUDotAccSat => {
                self.integer_dot(inst)
            }
            _ => self.convert(inst),
        }
    }

    fn products(&mut self, inst: &Inst, scalar: Scalar, rows: &[Vec<Src>], right: &[Vec<Src>]) -> Result<()> {
        let mut all = Vec::new();
        for column in right {
            for row in rows {
                all.push(self.dot(scalar, row, column)?);
            }
        }
        self.set(inst, all)
    }
}

fn transposed(columns: &[Vec<Src>]) -> Vec<Vec<Src>> {
    let rows = columns.first().map_or(0, Vec::len);
    (0..rows).map(|row| columns.iter().filter_map(|column| column.get(row).copied()).collect()).collect()
}

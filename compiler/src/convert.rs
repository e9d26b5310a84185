//! Conversions, casts of bits, and operations on bits.

use campanile_hw::isa::{Op as I, Type as T};
use rspirv::spirv::Op;

use crate::error::{Result, malformed};
use crate::ir::{Class, Inst as Ir, Src};
use crate::lower::Lower;
use crate::read::Inst;
use crate::types::Scalar;

impl Lower<'_> {
    /// Conversions; what is none is an operation on bits.
    pub(crate) fn convert(&mut self, inst: &Inst) -> Result<()> {
        match inst.op {
            Op::ConvertFToU
            | Op::ConvertFToS
            | Op::ConvertSToF
            | Op::ConvertUToF
            | Op::FConvert
            | Op::UConvert
            | Op::SConvert => {
                let to = self.types.scalar(inst.ty)?;
                self.each1(inst, 0, |s, from, a| s.converted(inst.op, to, from, a))
            }
            Op::QuantizeToF16 => self.each1(inst, 0, |s, from, a| {
                let half = s.converted(Op::FConvert, Scalar::F16, from, a)?;
                s.converted(Op::FConvert, from, Scalar::F16, half)
            }),
            Op::Bitcast => self.bitcast(inst),
            _ => self.bits(inst),
        }
    }

    pub(crate) fn converted(&mut self, op: Op, to: Scalar, from: Scalar, a: Src) -> Result<Src> {
        let floats = match op {
            Op::ConvertFToU | Op::ConvertFToS => (true, false),
            Op::ConvertSToF | Op::ConvertUToF => (false, true),
            Op::FConvert => (true, true),
            _ => (false, false),
        };
        if floats != (from.is_float(), to.is_float()) || from == Scalar::Bool || to == Scalar::Bool {
            return Err(malformed(format!("Op{op:?} of other types")));
        }
        match op {
            Op::ConvertFToU | Op::ConvertFToS => {
                let isa = if op == Op::ConvertFToU { I::ToU } else { I::ToS };
                let value = self.ir.convert(isa, to.isa(), from.isa(), a)?;
                self.wrap(to, value)
            }
            Op::ConvertSToF => {
                let a = self.signed(from, a)?;
                self.ir.convert(I::FromS, to.isa(), from.isa(), a)
            }
            Op::ConvertUToF => self.ir.convert(I::FromU, to.isa(), from.isa(), a),
            Op::FConvert if to == from => Ok(a),
            Op::FConvert => self.ir.convert(I::Convert, to.isa(), from.isa(), a),
            _ => {
                let signed = op == Op::SConvert;
                let a = if signed { self.signed(from, a)? } else { a };
                let value = match (from == Scalar::I64, to == Scalar::I64) {
                    (true, false) => self.ir.op1(I::Narrow, T::I64, a)?,
                    (false, true) => self.ir.op1(if signed { I::WidenS } else { I::WidenU }, T::I32, a)?,
                    _ => a,
                };
                self.wrap(to, value)
            }
        }
    }

    /// Bits of a value as components of another type.
    fn bitcast(&mut self, inst: &Inst) -> Result<()> {
        let from = self.scalar_of(inst.arg(0)?)?;
        let to = self.types.scalar(inst.ty)?;
        let data = self.data(inst.arg(0)?)?;
        let all = self.recast(from, to, &data)?;
        self.set(inst, all)
    }

    /// Components of one width as those of another, the lowest bits first.
    pub(crate) fn recast(&mut self, from: Scalar, to: Scalar, data: &[Src]) -> Result<Vec<Src>> {
        let (wide, narrow) = (from.bits(), to.bits());
        if from == Scalar::Bool || to == Scalar::Bool {
            return Err(malformed("OpBitcast of Booleans"));
        }
        if wide == narrow {
            return Ok(data.to_vec());
        }
        let mut all = Vec::new();
        if wide > narrow {
            for value in data {
                for part in 0..wide / narrow {
                    let moved = self.ir.op2(
                        I::ShrU,
                        if wide == 64 { T::I64 } else { T::I32 },
                        *value,
                        Src::Const(u64::from(part * narrow)),
                    )?;
                    let word = if wide == 64 { self.ir.op1(I::Narrow, T::I64, moved)? } else { moved };
                    all.push(self.wrap(
                        if narrow == 8 {
                            Scalar::I8
                        } else if narrow == 16 {
                            Scalar::I16
                        } else {
                            Scalar::I32
                        },
                        word,
                    )?);
                }
            }
            return Ok(all);
        }
        for parts in data.chunks((narrow / wide) as usize) {
            all.push(self.joined(wide, narrow, parts)?);
        }
        Ok(all)
    }

    fn joined(&mut self, wide: u32, narrow: u32, parts: &[Src]) -> Result<Src> {
        if narrow == 64 {
            let words = if wide == 32 {
                parts.to_vec()
            } else {
                let mut words = Vec::new();
                for half in parts.chunks((32 / wide) as usize) {
                    words.push(self.joined(wide, 32, half)?);
                }
                words
            };
            let [low, high] = words.as_slice() else { return Err(malformed("OpBitcast of another number of bits")) };
            let a = Some(self.ir.reg(T::I32, *low)?);
            let b = Some(Src::Reg(self.ir.reg(T::I32, *high)?));
            return self.ir.define(Ir { a, b, ..Ir::new(I::Pack, T::None) }, Class::Double).map(Src::Reg);
        }
        let mut word = Src::Const(0);
        for (index, part) in parts.iter().enumerate() {
            let moved = self.ir.op2(I::Shl, T::I32, *part, Src::Const(u64::from(wide) * index as u64))?;
            word = self.ir.op2(I::Or, T::I32, word, moved)?;
        }
        Ok(word)
    }

    fn bits(&mut self, inst: &Inst) -> Result<()> {
        match inst.op {
            Op::BitCount => self.each1(inst, 0, |s, scalar, a| s.counted(I::CountOnes, scalar, a)),
            Op::BitReverse => self.each1(inst, 0, |s, scalar, a| {
                let value = s.ir.op1(I::ReverseBits, scalar.isa(), a)?;
                let rest = scalar.isa().bits() - scalar.bits();
                s.ir.op2(I::ShrU, scalar.isa(), value, Src::Const(u64::from(rest)))
            }),
            Op::BitFieldUExtract | Op::BitFieldSExtract => {
                let (offset, count) = (self.word(inst.arg(1)?)?, self.word(inst.arg(2)?)?);
                self.each1(inst, 0, |s, scalar, a| s.field(inst.op == Op::BitFieldSExtract, scalar, a, (offset, count)))
            }
            Op::BitFieldInsert => {
                let (offset, count) = (self.word(inst.arg(2)?)?, self.word(inst.arg(3)?)?);
                self.each2(inst, 0, |s, scalar, base, insert| {
                    let ty = scalar.isa();
                    let mask = s.low_ones(ty, count)?;
                    let mask = s.ir.op2(I::Shl, ty, mask, offset)?;
                    let moved = s.ir.op2(I::Shl, ty, insert, offset)?;
                    let moved = s.ir.op2(I::And, ty, moved, mask)?;
                    let inverse = s.ir.op1(I::Not, ty, mask)?;
                    let rest = s.ir.op2(I::And, ty, base, inverse)?;
                    let value = s.ir.op2(I::Or, ty, rest, moved)?;
                    s.wrap(scalar, value)
                })
            }
            _ => self.group_operation(inst),
        }
    }

    /// An integer as a word.
    pub(crate) fn word(&mut self, id: u32) -> Result<Src> {
        let (scalar, value) = (self.scalar_of(id)?, self.single(id)?);
        if scalar == Scalar::I64 { self.ir.op1(I::Narrow, T::I64, value) } else { Ok(value) }
    }

    /// A count of bits as a value of a type whose bits were counted.
    pub(crate) fn counted(&mut self, op: I, scalar: Scalar, a: Src) -> Result<Src> {
        self.ir.op1(op, scalar.isa(), a)
    }

    /// A value with its lowest bits set; all if the count is that of the type.
    fn low_ones(&mut self, ty: T, count: Src) -> Result<Src> {
        // Shifts count modulo the bits of the type: all ones shifted right by bits - count, and nothing where the count is 0.
        let ones = Src::Const(if ty == T::I64 { u64::MAX } else { u64::from(u32::MAX) });
        let by = self.ir.op2(I::Sub, T::I32, Src::Const(u64::from(ty.bits())), count)?;
        let mask = self.ir.op2(I::ShrU, ty, ones, by)?;
        let none = self.ir.cmp(campanile_hw::isa::Comparison::Eq, T::I32, count, Src::Const(0))?;
        self.ir.select(ty, none, Src::Const(0), mask)
    }

    fn field(&mut self, signed: bool, scalar: Scalar, a: Src, (offset, count): (Src, Src)) -> Result<Src> {
        let ty = scalar.isa();
        let none = self.ir.cmp(campanile_hw::isa::Comparison::Eq, T::I32, count, Src::Const(0))?;
        // To the left end, and from there down, with zeros or the sign.
        let used = self.ir.op2(I::Add, T::I32, offset, count)?;
        let left = self.ir.op2(I::Sub, T::I32, Src::Const(u64::from(ty.bits())), used)?;
        let right = self.ir.op2(I::Sub, T::I32, Src::Const(u64::from(ty.bits())), count)?;
        let value = self.ir.op2(I::Shl, ty, a, left)?;
        let value = self.ir.op2(if signed { I::ShrS } else { I::ShrU }, ty, value, right)?;
        let value = self.ir.select(ty, none, Src::Const(0), value)?;
        self.wrap(scalar, value)
    }
}

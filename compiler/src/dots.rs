//! Dot products of integers. [SPV_KHR_integer_dot_product]

use campanile_hw::isa::{Comparison as C, Op as I, Type as T};
use rspirv::spirv::{Op, PackedVectorFormat};

use crate::error::{Result, malformed, unsupported_form};
use crate::ir::Src;
use crate::lower::Lower;
use crate::read::Inst;
use crate::types::Scalar;

impl Lower<'_> {
    /// The sum of the products of components, each of which is first extended to the width of the result; with an accumulator, to which the sum is added with
    /// saturation.
    pub(crate) fn integer_dot(&mut self, inst: &Inst) -> Result<()> {
        let (signs, accumulates) = match inst.op {
            Op::SDot => ([true, true], false),
            Op::UDot => ([false, false], false),
            Op::SUDot => ([true, false], false),
            Op::SDotAccSat => ([true, true], true),
            Op::UDotAccSat => ([false, false], true),
            _ => ([true, false], true),
        };
        let to = self.types.scalar(inst.ty)?;
        let format = inst.args.get(if accumulates { 3 } else { 2 }).copied();
        let [first, second] = signs;
        let a = self.extended_components(inst, 0, format, to, first)?;
        let b = self.extended_components(inst, 1, format, to, second)?;
        if a.len() != b.len() {
            return Err(malformed(format!("Op{:?} of vectors of different lengths", inst.op)));
        }
        let sum = self.dot(to, &a, &b)?;
        let sum = self.wrap(to, sum)?;
        let value = match accumulates {
            true => {
                let accumulator = self.single(inst.arg(2)?)?;
                self.saturated_sum(to, first, sum, accumulator)?
            }
            false => sum,
        };
        self.set(inst, vec![value])
    }

    /// The components of an operand in the width of the result: those of a vector, or the bytes of a word, the lowest one first.
    fn extended_components(
        &mut self,
        inst: &Inst,
        at: usize,
        format: Option<u32>,
        to: Scalar,
        signed: bool,
    ) -> Result<Vec<Src>> {
        let id = inst.arg(at)?;
        let (mut from, mut components) = (self.scalar_of(id)?, self.data(id)?);
        if let (Scalar::I32, [word]) = (from, components.as_slice()) {
            let word = *word;
            if format != Some(PackedVectorFormat::PackedVectorFormat4x8Bit as u32) {
                return Err(unsupported_form(inst.op, "of words in another format than PackedVectorFormat4x8Bit"));
            }
            from = Scalar::I8;
            components.clear();
            for byte in 0..4u64 {
                let moved = self.ir.op2(I::ShrU, T::I32, word, Src::Const(byte * 8))?;
                components.push(self.wrap(from, moved)?);
            }
        }
        let convert = if signed { Op::SConvert } else { Op::UConvert };
        components.into_iter().map(|component| self.converted(convert, to, from, component)).collect()
    }

    /// A sum that is the least or the greatest number of its type where it would be beyond that.
    fn saturated_sum(&mut self, scalar: Scalar, signed: bool, a: Src, b: Src) -> Result<Src> {
        let (ty, bits) = (scalar.isa(), scalar.bits());
        let greatest = u64::MAX >> (64 - bits + u32::from(signed));
        if bits < 32 {
            // The word has space for the sum.
            let (a, b) = if signed { (self.signed(scalar, a)?, self.signed(scalar, b)?) } else { (a, b) };
            let sum = self.ir.op2(I::Add, ty, a, b)?;
            let sum = self.ir.op2(if signed { I::Min } else { I::MinU }, ty, sum, Src::Const(greatest))?;
            if !signed {
                return Ok(sum);
            }
            let sum = self.ir.op2(I::Max, ty, sum, Src::Const(!greatest & u64::from(u32::MAX)))?;
            return self.wrap(scalar, sum);
        }
        let sum = self.ir.op2(I::Add, ty, a, b)?;
        if !signed {
            let over = self.ir.cmp(C::LtU, ty, sum, a)?;
            return self.ir.select(ty, over, Src::Const(greatest), sum);
        }
        // It is over where both have one sign, and the sum has the other one.
        let (from_a, from_b) = (self.ir.op2(I::Xor, ty, a, sum)?, self.ir.op2(I::Xor, ty, b, sum)?);
        let differ = self.ir.op2(I::And, ty, from_a, from_b)?;
        let over = self.ir.cmp(C::Lt, ty, differ, Src::Const(0))?;
        let sign = self.ir.op2(I::ShrS, ty, a, Src::Const(u64::from(bits - 1)))?;
        let bound = self.ir.op2(I::Xor, ty, sign, Src::Const(greatest))?;
        self.ir.select(ty, over, bound, sum)
    }
}

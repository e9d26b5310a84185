//! Atomic operations, barriers, and operations across the lanes of a subgroup.

use campanile_hw::isa::{
    AtomicOperation as A, Comparison as C, Op as I, Order, OrderWord, Reduction as R, Scope as S, Type as T,
};
use rspirv::spirv::{GroupOperation, MemorySemantics, Op, Scope};

use crate::error::{Result, malformed, unsupported};
use crate::ir::{Builder, Class, Inst as Ir, Src};
use crate::lower::{Lower, refuse};
use crate::read::Inst;
use crate::types::Scalar;

impl Lower<'_> {
    fn scope(&self, id: u32) -> Result<S> {
        Ok(match Scope::from_u32(self.constant(id)? as u32) {
            Some(Scope::CrossDevice) => S::System,
            Some(Scope::Device | Scope::QueueFamily) => S::Device,
            Some(Scope::Workgroup) => S::Workgroup,
            Some(Scope::Subgroup | Scope::Invocation) => S::Subgroup,
            _ => return Err(malformed("no such scope")),
        })
    }

    fn order(&self, scope: u32, semantics: u32) -> Result<OrderWord> {
        let bits = MemorySemantics::from_bits_truncate(self.constant(semantics)? as u32);
        let order = if bits.contains(MemorySemantics::SEQUENTIALLY_CONSISTENT) {
            Order::SequentiallyConsistent
        } else if bits.contains(MemorySemantics::ACQUIRE_RELEASE)
            || bits.contains(MemorySemantics::ACQUIRE | MemorySemantics::RELEASE)
        {
            Order::AcquireRelease
        } else if bits.contains(MemorySemantics::ACQUIRE) {
            Order::Acquire
        } else if bits.contains(MemorySemantics::RELEASE) {
            Order::Release
        } else {
            Order::Relaxed
        };
        Ok(OrderWord::of(self.scope(scope)?, order))
    }

    /// OpControlBarrier and OpMemoryBarrier.
    pub(crate) fn barrier(&mut self, inst: &Inst) -> Result<()> {
        if inst.op == Op::MemoryBarrier {
            let order = self.order(inst.arg(0)?, inst.arg(1)?)?;
            return self.ir.emit(Builder::ordered(I::Fence, order));
        }
        let order = self.order(inst.arg(1)?, inst.arg(2)?)?;
        match self.scope(inst.arg(0)?)? {
            // The lanes of a subgroup run together.
            S::Subgroup => self.ir.emit(Builder::ordered(I::Fence, order)),
            S::Workgroup => self.ir.emit(Builder::ordered(I::Barrier, order)),
            _ => Err(refuse(Op::ControlBarrier, "of a scope greater than a workgroup")),
        }
    }

    /// Atomic operations; what is none is one of a subgroup.
    pub(crate) fn group_operation(&mut self, inst: &Inst) -> Result<()> {
        let (operation, operand) = match inst.op {
            Op::AtomicLoad => (A::Load, None),
            Op::AtomicStore => (A::Exchange, Some(3)),
            Op::AtomicExchange => (A::Exchange, Some(3)),
            Op::AtomicCompareExchange => (A::CompareExchange, Some(4)),
            Op::AtomicIIncrement | Op::AtomicIDecrement => (A::Add, None),
            Op::AtomicIAdd | Op::AtomicISub | Op::AtomicFAddEXT => (A::Add, Some(3)),
            Op::AtomicSMin => (A::MinS, Some(3)),
            Op::AtomicUMin => (A::MinU, Some(3)),
            Op::AtomicSMax => (A::MaxS, Some(3)),
            Op::AtomicUMax => (A::MaxU, Some(3)),
            Op::AtomicAnd => (A::And, Some(3)),
            Op::AtomicOr => (A::Or, Some(3)),
            Op::AtomicXor => (A::Xor, Some(3)),
            _ => return self.subgroup(inst),
        };
        let pointer = self.pointer(inst.arg(0)?)?;
        let scalar = self.types.scalar(pointer.ty)?;
        let ty = scalar.isa();
        if !matches!(scalar, Scalar::I32 | Scalar::I64 | Scalar::F32 | Scalar::F64) || !operation.fits(ty) {
            return Err(refuse(inst.op, &format!("on {scalar:?}")));
        }
        let order = self.order(inst.arg(1)?, inst.arg(2)?)?;
        let operand = self.atomic_operand(inst, operand, ty)?;
        let operand = operand.map(|operand| self.ir.reg(ty, operand)).transpose()?.map(Src::Reg);
        let comparand = match inst.op {
            Op::AtomicCompareExchange => {
                let value = self.single(inst.arg(5)?)?;
                Some(self.ir.reg(ty, value)?)
            }
            _ => None,
        };
        let (place, inside) =
            self.access(&pointer.place, [I::Atomic, I::AtomicShared, I::AtomicShared], u64::from(scalar.bytes()))?;
        if matches!(pointer.place, crate::value::Place::Scratch(..)) {
            return Err(refuse(inst.op, "on a variable of one lane"));
        }
        let dst = self.ir.variable(scalar.class());
        if inside != Src::Const(1) {
            self.ir.copy(dst, scalar.class(), Src::Const(0))?;
        }
        let atomic = Ir {
            ty,
            dst: Some(dst),
            b: operand,
            c: comparand,
            modifier: operation as u8,
            order: order.into_bits(),
            ..place
        };
        self.ir.when(inside, |ir| ir.emit(atomic))?;
        self.ir.settle(dst);
        if inst.id == 0 { Ok(()) } else { self.set(inst, vec![Src::Reg(dst)]) }
    }

    /// What an atomic operation combines with, which some say and some have in them.
    fn atomic_operand(&mut self, inst: &Inst, at: Option<usize>, ty: T) -> Result<Option<Src>> {
        let operand = at;
        Ok(match (inst.op, operand) {
            (Op::AtomicIIncrement, _) => Some(Src::Const(1)),
            (Op::AtomicIDecrement, _) => Some(self.ir.op1(I::Neg, ty, Src::Const(1))?),
            (Op::AtomicISub, Some(at)) => {
                let value = self.single(inst.arg(at)?)?;
                Some(self.ir.op1(I::Neg, ty, value)?)
            }
            (_, Some(at)) => Some(self.single(inst.arg(at)?)?),
            _ => None,
        })
    }

    /// An operation across lanes on one scalar.
    fn across(&mut self, op: I, scalar: Scalar, a: Src, b: Option<Src>) -> Result<Src> {
        let a = Some(self.ir.reg(scalar.isa(), a)?);
        self.ir.define(Ir { a, b, ..Ir::new(op, scalar.isa()) }, scalar.class()).map(Src::Reg)
    }

    fn vote(&mut self, op: I, a: Src) -> Result<Src> {
        let a = Some(self.ir.reg(T::B1, a)?);
        let class = if op == I::Ballot { Class::Word } else { Class::Predicate };
        self.ir.define(Ir { a, ..Ir::new(op, T::None) }, class).map(Src::Reg)
    }

    fn subgroup(&mut self, inst: &Inst) -> Result<()> {
        match inst.op {
            Op::GroupNonUniformElect => {
                let lane = self.lane()?;
                let first = self.across(I::BroadcastFirst, Scalar::I32, lane, None)?;
                let own = self.ir.cmp(C::Eq, T::I32, lane, first)?;
                self.set(inst, vec![own])
            }
            Op::GroupNonUniformAll | Op::GroupNonUniformAny => {
                let a = self.single(inst.arg(1)?)?;
                let value = self.vote(if inst.op == Op::GroupNonUniformAll { I::VoteAll } else { I::VoteAny }, a)?;
                self.set(inst, vec![value])
            }
            Op::GroupNonUniformAllEqual => self.all_equal(inst),
            Op::GroupNonUniformBroadcastFirst => {
                self.each1(inst, 1, |s, scalar, a| s.across(I::BroadcastFirst, scalar, a, None))
            }
            Op::GroupNonUniformBroadcast | Op::GroupNonUniformShuffle => {
                let lane = self.word(inst.arg(2)?)?;
                self.each1(inst, 1, |s, scalar, a| s.across(I::Shuffle, scalar, a, Some(lane)))
            }
            Op::GroupNonUniformShuffleXor => {
                let lane = self.word(inst.arg(2)?)?;
                self.each1(inst, 1, |s, scalar, a| s.across(I::ShuffleXor, scalar, a, Some(lane)))
            }
            Op::GroupNonUniformShuffleUp | Op::GroupNonUniformShuffleDown => {
                let (lane, by) = (self.lane()?, self.word(inst.arg(2)?)?);
                let op = if inst.op == Op::GroupNonUniformShuffleUp { I::Sub } else { I::Add };
                let from = self.ir.op2(op, T::I32, lane, by)?;
                self.each1(inst, 1, |s, scalar, a| s.across(I::Shuffle, scalar, a, Some(from)))
            }
            Op::GroupNonUniformBallot
            | Op::GroupNonUniformInverseBallot
            | Op::GroupNonUniformBallotBitExtract
            | Op::GroupNonUniformBallotBitCount
            | Op::GroupNonUniformBallotFindLSB
            | Op::GroupNonUniformBallotFindMSB => self.ballot(inst),
            _ => self.reduction(inst),
        }
    }

    fn all_equal(&mut self, inst: &Inst) -> Result<()> {
        let scalar = self.scalar_of(inst.arg(1)?)?;
        let mut all = Src::Const(1);
        for a in self.data(inst.arg(1)?)? {
            let first = self.across(I::BroadcastFirst, scalar, a, None)?;
            let same = if scalar == Scalar::Bool {
                let differ = self.ir.op2(I::Xor, T::B1, a, first)?;
                self.ir.not(differ)?
            } else {
                self.ir.cmp(C::Eq, scalar.isa(), a, first)?
            };
            let everywhere = self.vote(I::VoteAll, same)?;
            all = self.ir.op2(I::And, T::B1, everywhere, all)?;
        }
        self.set(inst, vec![all])
    }

    fn ballot(&mut self, inst: &Inst) -> Result<()> {
        let zero = Src::Const(0);
        if inst.op == Op::GroupNonUniformBallot {
            let a = self.single(inst.arg(1)?)?;
            let mask = self.vote(I::Ballot, a)?;
            return self.set(inst, vec![mask, zero, zero, zero]);
        }
        let at = usize::from(inst.op == Op::GroupNonUniformBallotBitCount) + 1;
        let mask = self.single(inst.arg(at)?)?;
        let value = match inst.op {
            Op::GroupNonUniformInverseBallot | Op::GroupNonUniformBallotBitExtract => {
                let lane =
                    if inst.op == Op::GroupNonUniformInverseBallot { self.lane()? } else { self.word(inst.arg(2)?)? };
                let bit = self.ir.op2(I::ShrU, T::I32, mask, lane)?;
                let bit = self.ir.op2(I::And, T::I32, bit, Src::Const(1))?;
                self.ir.cmp(C::Ne, T::I32, bit, zero)?
            }
            Op::GroupNonUniformBallotFindLSB => self.ir.op1(I::TrailingZeros, T::I32, mask)?,
            Op::GroupNonUniformBallotFindMSB => {
                let above = self.ir.op1(I::LeadingZeros, T::I32, mask)?;
                self.ir.op2(I::Sub, T::I32, Src::Const(31), above)?
            }
            _ => {
                let lane = self.lane()?;
                let own = self.ir.op2(I::Shl, T::I32, Src::Const(1), lane)?;
                let below = self.ir.op2(I::Sub, T::I32, own, Src::Const(1))?;
                let counted = match GroupOperation::from_u32(inst.arg(1)?) {
                    Some(GroupOperation::Reduce) => mask,
                    Some(GroupOperation::ExclusiveScan) => self.ir.op2(I::And, T::I32, mask, below)?,
                    Some(GroupOperation::InclusiveScan) => {
                        let up_to = self.ir.op2(I::Or, T::I32, below, own)?;
                        self.ir.op2(I::And, T::I32, mask, up_to)?
                    }
                    _ => return Err(refuse(inst.op, "of that group operation")),
                };
                self.ir.op1(I::CountOnes, T::I32, counted)?
            }
        };
        self.set(inst, vec![value])
    }

    fn reduction(&mut self, inst: &Inst) -> Result<()> {
        let (reduction, signed) = match inst.op {
            Op::GroupNonUniformIAdd | Op::GroupNonUniformFAdd => (R::Add, false),
            Op::GroupNonUniformIMul | Op::GroupNonUniformFMul => (R::Mul, false),
            Op::GroupNonUniformSMin => (R::Min, true),
            Op::GroupNonUniformFMin => (R::Min, false),
            Op::GroupNonUniformSMax => (R::Max, true),
            Op::GroupNonUniformFMax => (R::Max, false),
            Op::GroupNonUniformUMin => (R::MinU, false),
            Op::GroupNonUniformUMax => (R::MaxU, false),
            Op::GroupNonUniformBitwiseAnd | Op::GroupNonUniformLogicalAnd => (R::And, false),
            Op::GroupNonUniformBitwiseOr | Op::GroupNonUniformLogicalOr => (R::Or, false),
            Op::GroupNonUniformBitwiseXor | Op::GroupNonUniformLogicalXor => (R::Xor, false),
            _ => return self.extended_instruction(inst),
        };
        let op = match GroupOperation::from_u32(inst.arg(1)?) {
            Some(GroupOperation::Reduce) => I::Reduce,
            Some(GroupOperation::InclusiveScan) => I::ScanInclusive,
            Some(GroupOperation::ExclusiveScan) => I::ScanExclusive,
            Some(other) => return Err(refuse(inst.op, &format!("of the group operation {other:?}"))),
            None => return Err(malformed("no such group operation")),
        };
        self.each1(inst, 2, |s, scalar, a| {
            let (wide, mut a) = if scalar == Scalar::Bool {
                (Scalar::I32, s.ir.select(T::I32, a, Src::Const(1), Src::Const(0))?)
            } else {
                (scalar, a)
            };
            if signed {
                a = s.signed(scalar, a)?;
            }
            if !reduction.fits(wide.isa()) {
                return Err(malformed("a reduction of another type"));
            }
            let a = Some(s.ir.reg(wide.isa(), a)?);
            let value =
                s.ir.define(Ir { a, modifier: reduction as u8, ..Ir::new(op, wide.isa()) }, wide.class())
                    .map(Src::Reg)?;
            if scalar == Scalar::Bool {
                let bit = s.ir.op2(I::And, T::I32, value, Src::Const(1))?;
                return s.ir.cmp(C::Ne, T::I32, bit, Src::Const(0));
            }
            let value = s.bounded(scalar, reduction, value)?;
            s.wrap(scalar, value)
        })
    }

    /// A signed extreme within the bounds of its type: of no lanes the instruction gives the bound of a word.
    fn bounded(&mut self, scalar: Scalar, reduction: R, value: Src) -> Result<Src> {
        let greatest = match scalar {
            Scalar::I8 => 0x7f,
            Scalar::I16 => 0x7fff,
            _ => return Ok(value),
        };
        match reduction {
            R::Min => self.ir.op2(I::Min, T::I32, value, Src::Const(greatest)),
            R::Max => self.ir.op2(I::Max, T::I32, value, Src::Const(u64::from(!(greatest as u32)))),
            _ => Ok(value),
        }
    }

    /// Error for an instruction that no table has.
    pub(crate) fn unknown(inst: &Inst) -> Result<()> {
        Err(unsupported(inst.op))
    }
}

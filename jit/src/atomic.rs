//! Atomic operations: of the active lanes one after the other, upwards, once all of their addresses are translated. Floating-point sums stay with the interpreter.

use crate::emitter::{ACTIVE, ATOMICS, Emitter};
use crate::files::{DOUBLE, WORD};
use crate::lanes::registers;
use crate::memory::Access;
use campanile_hw::isa::{AtomicOperation, Instruction, Op};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{AtomicRmwOp, InstBuilder, Value};

impl Emitter<'_, '_> {
    /// Executes ATOMIC or ATOMIC_SHARED.
    pub(crate) fn atomic(&mut self, at: u32, instruction: &Instruction) {
        let access = Access::of(self, instruction);
        let next = self.label(at + 1);
        let give_up = self.give_up(at);
        let active = self.field(ACTIVE);
        let operation = instruction.atomic().unwrap_or(AtomicOperation::Load);
        let shared = instruction.op == Op::AtomicShared;
        let double = instruction.ty.bits() == 64;
        let (file, size, stride, ty) =
            if double { (self.files.doubles, 8, DOUBLE, I64) } else { (self.files.words, 4, WORD, I32) };
        let [to, _, operand, comparand] = instruction.registers().map(|(_, number, _)| i32::from(number) * stride);
        self.translate_each(&access, active, give_up);
        self.each_lane(active, &mut |emitter, lane| {
            let place = emitter.translated(lane);
            let own = emitter.scaled(file, lane, size);
            let [operand, comparand] =
                [operand, comparand].map(|offset| emitter.b.ins().load(ty, registers(), own, offset));
            let old = if shared {
                emitter.change_shared(operation, place, [operand, comparand])
            } else {
                emitter.change(operation, place, [operand, comparand])
            };
            emitter.b.ins().store(registers(), old, own, to);
        });
        let count = self.b.ins().popcnt(active);
        let count = self.b.ins().uextend(I64, count);
        self.add_to(ATOMICS, count);
        self.b.ins().jump(next, &[]);
    }

    /// Changes a value that others change too; gives the old one. Its address is aligned.
    fn change(&mut self, operation: AtomicOperation, place: Value, [operand, comparand]: [Value; 2]) -> Value {
        let ty = self.b.func.dfg.value_type(operand);
        let op = match operation {
            AtomicOperation::Load => return self.b.ins().atomic_load(ty, registers(), place),
            AtomicOperation::CompareExchange => {
                return self.b.ins().atomic_cas(registers(), place, comparand, operand);
            }
            AtomicOperation::Add => AtomicRmwOp::Add,
            AtomicOperation::MinS => AtomicRmwOp::Smin,
            AtomicOperation::MaxS => AtomicRmwOp::Smax,
            AtomicOperation::MinU => AtomicRmwOp::Umin,
            AtomicOperation::MaxU => AtomicRmwOp::Umax,
            AtomicOperation::And => AtomicRmwOp::And,
            AtomicOperation::Or => AtomicRmwOp::Or,
            AtomicOperation::Xor => AtomicRmwOp::Xor,
            AtomicOperation::Exchange => AtomicRmwOp::Xchg,
        };
        self.b.ins().atomic_rmw(ty, registers(), op, place, operand)
    }

    /// Changes a value of workgroup memory, which one thread uses at a time, and which need not be aligned in the host.
    fn change_shared(&mut self, operation: AtomicOperation, place: Value, [operand, comparand]: [Value; 2]) -> Value {
        let b = &mut self.b;
        let ty = b.func.dfg.value_type(operand);
        let old = b.ins().load(ty, registers(), place, 0);
        let new = match operation {
            AtomicOperation::Load => return old,
            AtomicOperation::CompareExchange => {
                let equal = b.ins().icmp(IntCC::Equal, old, comparand);
                b.ins().select(equal, operand, old)
            }
            AtomicOperation::Add => b.ins().iadd(old, operand),
            AtomicOperation::MinS => b.ins().smin(old, operand),
            AtomicOperation::MaxS => b.ins().smax(old, operand),
            AtomicOperation::MinU => b.ins().umin(old, operand),
            AtomicOperation::MaxU => b.ins().umax(old, operand),
            AtomicOperation::And => b.ins().band(old, operand),
            AtomicOperation::Or => b.ins().bor(old, operand),
            AtomicOperation::Xor => b.ins().bxor(old, operand),
            AtomicOperation::Exchange => operand,
        };
        b.ins().store(registers(), new, place, 0);
        old
    }
}

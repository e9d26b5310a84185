//! Votes, ballots and broadcasts: what looks at the lanes of the subgroup as a mask, or at one of them.

use crate::emitter::{ACTIVE, Emitter};
use crate::files::{DOUBLE, WORD};
use crate::lanes::{mask_of_bits, registers, widen_signed};
use campanile_hw::isa::{Instruction, LANES, Op, Operand};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, Value};

impl Emitter<'_, '_> {
    /// Executes BALLOT, VOTE_ALL, VOTE_ANY or BROADCAST_FIRST.
    pub(crate) fn across(&mut self, at: u32, instruction: &Instruction) {
        let active = self.field(ACTIVE);
        let [(file, to, _), (_, from, _), ..] = instruction.registers();
        match instruction.op {
            Op::BroadcastFirst => {
                let lane = self.b.ins().ctz(active);
                // Without an active lane nothing is written, but something is read.
                let lane = self.b.ins().band_imm_s(lane, LANES as i64 - 1);
                let lane = self.b.ins().uextend(I64, lane);
                let double = file == Operand::Double;
                let (base, size) = if double { (self.files.doubles, 8) } else { (self.files.words, 4) };
                let place = self.scaled(base, lane, size);
                let offset = i32::from(from) * if double { DOUBLE } else { WORD };
                let value = self.b.ins().load(if double { I64 } else { I32 }, registers(), place, offset);
                self.fill(double, to, value, active);
            }
            op => {
                let set = self.b.ins().load(I32, registers(), self.files.predicates, i32::from(from) * 4);
                let set = self.b.ins().band(set, active);
                if op == Op::Ballot {
                    self.fill(false, to, set, active);
                } else {
                    let passed = match op {
                        Op::VoteAll => self.b.ins().icmp(IntCC::Equal, set, active),
                        _ => self.b.ins().icmp_imm_s(IntCC::NotEqual, set, 0),
                    };
                    let none = self.word(0);
                    let lanes = self.b.ins().select(passed, active, none);
                    let old = self.b.ins().load(I32, registers(), self.files.predicates, i32::from(to) * 4);
                    let kept = self.b.ins().band_not(old, active);
                    let new = self.b.ins().bor(kept, lanes);
                    self.b.ins().store(registers(), new, self.files.predicates, i32::from(to) * 4);
                }
            }
        }
        let next = self.label(at + 1);
        self.b.ins().jump(next, &[]);
    }

    /// Writes one value to a word or double of every active lane.
    fn fill(&mut self, double: bool, to: u8, value: Value, active: Value) {
        let b = &mut self.b;
        let all = b.ins().splat(if double { I64X2 } else { I32X4 }, value);
        for four in 0..LANES as i32 / 4 {
            let own = b.ins().ushr_imm_s(active, i64::from(four) * 4);
            let mask = mask_of_bits(b, own);
            let put = |b: &mut cranelift_frontend::FunctionBuilder<'_>, base, offset, ty, mask| {
                let old = b.ins().load(ty, registers(), base, offset);
                let new = b.ins().bitselect(mask, all, old);
                b.ins().store(registers(), new, base, offset);
            };
            if double {
                let offset = i32::from(to) * DOUBLE + four * 32;
                for (half, mask) in (0..).zip(widen_signed(b, mask)) {
                    put(b, self.files.doubles, offset + half * 16, I64X2, mask);
                }
            } else {
                put(b, self.files.words, i32::from(to) * WORD + four * 16, I32X4, mask);
            }
        }
    }
}

//! Structured control flow on the lanes of a subgroup.

use crate::context::{BACK, KIND, MASK, OTHER};
use crate::emitter::{ACTIVE, DEPTH, Emitter};
use crate::lanes::registers;
use campanile_hw::isa::{Instruction, Op};
use campanile_shader::{Frame, FrameKind};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, InstBuilder, Value};

/// An instruction of control flow, and where it stands.
pub(crate) struct Place<'a> {
    pub(crate) at: u32,
    pub(crate) instruction: &'a Instruction,
    /// Blocks that are open between it and its loop.
    pub(crate) open: u32,
}

impl Emitter<'_, '_> {
    fn frame_field(&mut self, frame: Value, offset: i32) -> Value {
        self.b.ins().load(I32, registers(), frame, offset)
    }

    fn set_frame_field(&mut self, frame: Value, offset: i32, value: Value) {
        self.b.ins().store(registers(), value, frame, offset);
    }

    /// Address of the frame with a number.
    fn frame(&mut self, number: Value) -> Value {
        let number = self.b.ins().uextend(I64, number);
        let offset = self.b.ins().imul_imm_s(number, size_of::<Frame>() as i64);
        self.b.ins().iadd(self.frames, offset)
    }

    /// Address of the innermost frame, and how many there are; to `give_up` without any.
    fn top(&mut self, give_up: Block) -> (Value, Value) {
        let depth = self.field(DEPTH);
        let none = self.b.ins().icmp_imm_s(IntCC::Equal, depth, 0);
        self.unless(none, give_up);
        let number = self.b.ins().iadd_imm_s(depth, -1);
        (self.frame(number), depth)
    }

    fn push(&mut self, kind: FrameKind, [active, other, back]: [Value; 3], give_up: Block) {
        let depth = self.field(DEPTH);
        let most = i64::from(self.kernel.depth());
        let full = self.b.ins().icmp_imm_s(IntCC::UnsignedGreaterThanOrEqual, depth, most);
        self.unless(full, give_up);
        let frame = self.frame(depth);
        let kind = self.word(kind as u32);
        for (offset, value) in [(KIND, kind), (MASK, active), (OTHER, other), (BACK, back)] {
            self.set_frame_field(frame, offset, value);
        }
        let deeper = self.b.ins().iadd_imm_s(depth, 1);
        self.set_field(DEPTH, deeper);
    }

    /// Closes the innermost block, whose frame this is.
    fn pop(&mut self, (frame, depth): (Value, Value)) {
        let active = self.frame_field(frame, MASK);
        self.set_field(ACTIVE, active);
        let depth = self.b.ins().iadd_imm_s(depth, -1);
        self.set_field(DEPTH, depth);
    }

    /// Goes on with these lanes, or at `target` if there are none.
    fn with_lanes(&mut self, lanes: Value, next: Block, target: Block) {
        self.set_field(ACTIVE, lanes);
        self.b.ins().brif(lanes, next, &[], target, &[]);
    }

    /// The bits of a predicate.
    pub(crate) fn predicate(&mut self, number: u8) -> Value {
        self.b.ins().load(I32, registers(), self.files.predicates, i32::from(number) * 4)
    }

    /// Executes an instruction of control flow, and goes where that leads.
    pub(crate) fn control(&mut self, place: &Place<'_>) {
        let (at, instruction) = (place.at, place.instruction);
        let give_up = self.give_up(at);
        let next = self.label(at + 1);
        let target = instruction.immediate as u32;
        let active = self.field(ACTIVE);
        let zero = self.word(0);
        match instruction.op {
            Op::If => {
                let set = self.predicate(instruction.a);
                let taken = self.b.ins().band(set, active);
                self.without_block(at, [active, taken]);
                let other = self.b.ins().band_not(active, set);
                self.push(FrameKind::If, [active, other, zero], give_up);
                let target = self.label(target);
                self.with_lanes(taken, next, target);
            }
            Op::Else => {
                let (frame, _) = self.top(give_up);
                let waiting = self.frame_field(frame, OTHER);
                self.set_frame_field(frame, OTHER, zero);
                let target = self.label(target);
                self.with_lanes(waiting, next, target);
            }
            Op::EndIf => {
                let top = self.top(give_up);
                self.pop(top);
                self.b.ins().jump(next, &[]);
            }
            Op::Loop => {
                self.push(FrameKind::Loop, [active, active, zero], give_up);
                let target = self.label(target);
                self.b.ins().brif(active, next, &[], target, &[]);
            }
            Op::Continuing => {
                let (frame, _) = self.top(give_up);
                let lanes = self.frame_field(frame, OTHER);
                self.set_field(ACTIVE, lanes);
                self.b.ins().jump(next, &[]);
            }
            Op::EndLoop => self.end_loop(next, target, give_up),
            Op::Call => self.call(active, (at, next), target, give_up),
            Op::Ret => self.ret(give_up),
            _ => self.leave_loop(place, next, give_up),
        }
    }

    fn end_loop(&mut self, next: Block, target: u32, give_up: Block) {
        let top = self.top(give_up);
        let inside = self.frame_field(top.0, OTHER);
        let (again, over) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(inside, again, &[], over, &[]);
        self.b.switch_to_block(again);
        self.set_field(ACTIVE, inside);
        let first = self.label(target.saturating_add(1));
        self.b.ins().jump(first, &[]);
        self.b.switch_to_block(over);
        self.pop(top);
        self.b.ins().jump(next, &[]);
    }

    fn call(&mut self, active: Value, (at, next): (u32, Block), function: u32, give_up: Block) {
        let goes = self.b.create_block();
        self.b.ins().brif(active, goes, &[], next, &[]);
        self.b.switch_to_block(goes);
        let (zero, back) = (self.word(0), self.word(at + 1));
        self.push(FrameKind::Call, [active, zero, back], give_up);
        let start = self.kernel.functions().get(function as usize).copied().unwrap_or(u32::MAX);
        let start = self.label(start);
        self.b.ins().jump(start, &[]);
    }

    /// RET at the end of a function; one in a block is left to the interpreter.
    fn ret(&mut self, give_up: Block) {
        let top = self.top(give_up);
        let kind = self.frame_field(top.0, KIND);
        let inside = self.b.ins().icmp_imm_s(IntCC::NotEqual, kind, FrameKind::Call as i64);
        self.unless(inside, give_up);
        let back = self.frame_field(top.0, BACK);
        self.pop(top);
        let anywhere = self.anywhere;
        self.b.ins().jump(anywhere, &[back.into()]);
    }

    /// BREAK and CONTINUE, conditional or not: the lanes are taken out of every block inside the loop.
    fn leave_loop(&mut self, place: &Place<'_>, next: Block, give_up: Block) {
        let instruction = place.instruction;
        let conditional = matches!(instruction.op, Op::BreakIf | Op::ContinueIf);
        let depth = self.field(DEPTH);
        let shallow = self.b.ins().icmp_imm_s(IntCC::UnsignedLessThanOrEqual, depth, i64::from(place.open));
        self.unless(shallow, give_up);
        let inner: Vec<Value> = (0..=place.open)
            .map(|above| {
                let number = self.b.ins().iadd_imm_s(depth, -1 - i64::from(above));
                self.frame(number)
            })
            .collect();
        let active = self.field(ACTIVE);
        let leaving = if conditional {
            let set = self.predicate(instruction.a);
            self.b.ins().band(set, active)
        } else {
            active
        };
        for (above, frame) in (0..).zip(&inner) {
            let in_loop = above == place.open;
            let for_good = matches!(instruction.op, Op::Break | Op::BreakIf);
            for (offset, changes) in [(MASK, !in_loop), (OTHER, !in_loop || for_good)] {
                if changes {
                    let old = self.frame_field(*frame, offset);
                    let new = self.b.ins().band_not(old, leaving);
                    self.set_frame_field(*frame, offset, new);
                }
            }
        }
        let stay = self.b.ins().band_not(active, leaving);
        self.set_field(ACTIVE, stay);
        if conditional {
            let target = self.label(instruction.immediate as u32);
            self.b.ins().brif(stay, next, &[], target, &[]);
        } else {
            self.b.ins().jump(next, &[]);
        }
    }
}

//! What the parts of a program's code have in common: where things lie, and how the code ends.

use crate::context::Context;
use crate::files::Files;
use crate::lanes::registers;
use campanile_shader::Kernel;
use cranelift_codegen::ir::immediates::Imm64;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, InstBuilder, StackSlot, Value};
use cranelift_frontend::FunctionBuilder;
use std::collections::BTreeMap;
use std::mem::offset_of;

/// Places of the fields of a [`Context`] that change.
pub(crate) const BUDGET: i32 = offset_of!(Context, budget) as i32;
pub(crate) const LOADS: i32 = offset_of!(Context, loads) as i32;
pub(crate) const STORES: i32 = offset_of!(Context, stores) as i32;
pub(crate) const ATOMICS: i32 = offset_of!(Context, atomics) as i32;
pub(crate) const PC: i32 = offset_of!(Context, pc) as i32;
pub(crate) const ACTIVE: i32 = offset_of!(Context, active) as i32;
pub(crate) const DEPTH: i32 = offset_of!(Context, depth) as i32;

/// The code of a program while it is made.
pub(crate) struct Emitter<'a, 'k> {
    pub(crate) b: FunctionBuilder<'a>,
    pub(crate) kernel: &'k Kernel,
    /// Address of the [`Context`], and what is read from it once.
    pub(crate) context: Value,
    pub(crate) files: Files,
    pub(crate) shared: Value,
    pub(crate) scratch: Value,
    pub(crate) frames: Value,
    pub(crate) pages: Value,
    pub(crate) entries: Value,
    /// Room for the addresses in the host of an access of each lane: one for all instructions, so that a long program takes no more stack.
    pub(crate) places: StackSlot,
    /// Room for the registers of lanes that are not active in a segment, likewise.
    pub(crate) kept: StackSlot,
    /// The code of instructions that can be jumped to.
    pub(crate) labels: BTreeMap<u32, Block>,
    /// What leaves an instruction to the interpreter, and the instruction.
    pub(crate) given_up: Vec<(Block, u32)>,
    /// Accesses at the end of a segment, and their own entries.
    pub(crate) accesses: Vec<(u32, Block)>,
    /// Returns, the instruction to go on with as its parameter.
    pub(crate) exit: Block,
    /// Goes on at the instruction that is its parameter.
    pub(crate) anywhere: Block,
}

impl Emitter<'_, '_> {
    /// The code of an instruction.
    pub(crate) fn label(&mut self, at: u32) -> Block {
        let b = &mut self.b;
        *self.labels.entry(at).or_insert_with(|| b.create_block())
    }

    pub(crate) fn word(&mut self, number: u32) -> Value {
        self.b.ins().iconst(I32, Imm64::new(i64::from(number)))
    }

    /// A word of the context.
    pub(crate) fn field(&mut self, offset: i32) -> Value {
        self.b.ins().load(I32, registers(), self.context, offset)
    }

    pub(crate) fn set_field(&mut self, offset: i32, value: Value) {
        self.b.ins().store(registers(), value, self.context, offset);
    }

    /// Adds to a number of the context.
    pub(crate) fn add_to(&mut self, offset: i32, value: Value) {
        let old = self.b.ins().load(I64, registers(), self.context, offset);
        let new = self.b.ins().iadd(old, value);
        self.b.ins().store(registers(), new, self.context, offset);
    }

    /// Goes on in a new block unless `condition` is set, in which case it goes to `other`.
    pub(crate) fn unless(&mut self, condition: Value, other: Block) {
        let on = self.b.create_block();
        self.b.ins().brif(condition, other, &[], on, &[]);
        self.b.switch_to_block(on);
    }

    /// A block that leaves the last instruction of a segment, which was counted already, to the interpreter.
    pub(crate) fn give_up(&mut self, at: u32) -> Block {
        let block = self.b.create_block();
        self.b.set_cold_block(block);
        self.given_up.push((block, at));
        block
    }

    /// The code of the blocks of [`Emitter::give_up`].
    pub(crate) fn give_ups(&mut self) {
        for (block, at) in std::mem::take(&mut self.given_up) {
            self.b.switch_to_block(block);
            let one = self.b.ins().iconst(I64, 1);
            self.add_to(BUDGET, one);
            let (at, exit) = (self.word(at), self.exit);
            self.b.ins().jump(exit, &[at.into()]);
        }
    }
}

//! What the parts of a program's code have in common: where things lie, and how the code ends.

pub(crate) use crate::context::ACTIVE;
use crate::context::Context;
use crate::files::Files;
use crate::lanes::registers;
use crate::wide::Wide;
use campanile_shader::Kernel;
use cranelift_codegen::ir::immediates::Imm64;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, InstBuilder, SigRef, StackSlot, Value};
use cranelift_frontend::{FunctionBuilder, Variable};
use std::collections::BTreeMap;
use std::mem::offset_of;

/// Places of the fields of a [`Context`] that change.
pub(crate) const BUDGET: i32 = offset_of!(Context, budget) as i32;
pub(crate) const LOADS: i32 = offset_of!(Context, loads) as i32;
pub(crate) const STORES: i32 = offset_of!(Context, stores) as i32;
pub(crate) const ATOMICS: i32 = offset_of!(Context, atomics) as i32;
pub(crate) const PC: i32 = offset_of!(Context, pc) as i32;
pub(crate) const WIDE: i32 = offset_of!(Context, wide) as i32;
pub(crate) const DEPTH: i32 = offset_of!(Context, depth) as i32;

/// Fields of the context that are also kept in registers of the host, because nothing else changes them meanwhile.
pub(crate) const KEPT: [i32; 3] = [BUDGET, ACTIVE, DEPTH];

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
    /// Space for the addresses in the host of an access of each lane: one for all instructions, so that a long program takes no more stack.
    pub(crate) places: StackSlot,
    /// Space for the registers of lanes that are not active in a segment, likewise.
    pub(crate) kept: StackSlot,
    /// Functions with wider vectors, if the processor has such.
    pub(crate) wide: Option<Wide>,
    /// The types of those of plain instructions, of accesses, and of plain instructions with an access behind them.
    pub(crate) wide_signatures: [SigRef; 3],
    /// Budget, active lanes and number of open blocks: the fields of the context at [`KEPT`], which are also stored there whenever they change.
    pub(crate) changing: [Variable; 3],
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

    /// The variable of a field, if it has one.
    fn variable(&self, offset: i32) -> Option<Variable> {
        let place = KEPT.iter().position(|kept| *kept == offset)?;
        self.changing.get(place).copied()
    }

    /// A number of the context: a double if it counts something, otherwise a word.
    pub(crate) fn field(&mut self, offset: i32) -> Value {
        match self.variable(offset) {
            Some(variable) => self.b.use_var(variable),
            None => self.b.ins().load(I64, registers(), self.context, offset),
        }
    }

    pub(crate) fn set_field(&mut self, offset: i32, value: Value) {
        self.b.ins().store(registers(), value, self.context, offset);
        if let Some(variable) = self.variable(offset) {
            self.b.def_var(variable, value);
        }
    }

    /// Calls a function of [`Wide`] by its place: one of plain instructions, or of an access with the addresses of its registers and its offset. The latter returns something.
    pub(crate) fn call_wide(&mut self, place: usize, access: Option<[Value; 3]>) -> Option<Value> {
        let signature = self.wide_signatures[usize::from(access.is_some())];
        self.call_function(place, signature, access.as_ref().map_or(&[], |access| access))
    }

    /// Calls a function of [`Wide::guarded`] by its place; it returns something.
    pub(crate) fn call_guarded(&mut self, place: usize) -> Option<Value> {
        let [.., signature] = self.wide_signatures;
        self.call_function(place, signature, &[])
    }

    fn call_function(&mut self, place: usize, signature: SigRef, further: &[Value]) -> Option<Value> {
        let functions = self.b.ins().load(I64, registers(), self.context, WIDE);
        let function = self.b.ins().iadd_imm_s(functions, place as i64);
        let arguments: Vec<Value> = [self.context].into_iter().chain(further.iter().copied()).collect();
        let call = self.b.ins().call_indirect(signature, function, &arguments);
        self.b.inst_results(call).first().copied()
    }

    /// Adds to a number of the context.
    pub(crate) fn add_to(&mut self, offset: i32, value: Value) {
        let old = self.field(offset);
        let new = self.b.ins().iadd(old, value);
        self.set_field(offset, new);
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

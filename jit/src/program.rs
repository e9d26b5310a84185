//! The code of a whole program: segments between the labels of its control flow, and entries at which it can be resumed.

use crate::block::{Kind, LONGEST, Segment, open_in_loop, segments};
use crate::context::{Context, NO_ENTRY};
use crate::control::Place;
use crate::emitter::{ACTIVE, BUDGET, Emitter, KEPT, PC};
use crate::files::Files;
use crate::lanes::registers;
use crate::masks::parts;
use crate::segment::plain;
use crate::wide::{self, Form, Loop, Wide};
use campanile_hw::isa::{Instruction, LANES};
use campanile_shader::Kernel;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{
    AbiParam, Block, BlockCall, Function, InstBuilder, JumpTableData, Signature, StackSlotData, StackSlotKind, Value,
};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use std::collections::BTreeMap;
use std::mem::offset_of;

/// The instructions at which a program can be entered, and what begins there.
pub(crate) struct Entries {
    /// For every instruction the number of its entry, or [`NO_ENTRY`].
    pub(crate) numbers: Vec<u32>,
    /// For every instruction the length of the segment that begins there, or 0.
    pub(crate) lengths: Vec<u32>,
}

/// Generates the function of a program.
pub(crate) fn program(
    target: &dyn TargetIsa,
    function: &mut Function,
    context: &mut FunctionBuilderContext,
    (kernel, has_fma, wide): (&Kernel, bool, Option<Wide>),
) -> (Entries, Option<Wide>) {
    let segments = segments(kernel, has_fma);
    let mut emitter = begin(FunctionBuilder::new(function, context), kernel, wide);
    let open = open_in_loop(kernel.code());
    for segment in segments.values() {
        let label = emitter.label(segment.start);
        emitter.b.switch_to_block(label);
        emitter.turns(&segments, segment.start);
        emitter.segment(segment, &open);
    }
    let entries = emitter.dispatch(&segments);
    emitter.give_ups();
    emitter.leave(&segments);
    emitter.b.seal_all_blocks();
    let wide = emitter.wide.take();
    emitter.b.finalize(target.frontend_config());
    (entries, wide)
}

/// The beginning of the function.
fn begin<'a, 'k>(mut b: FunctionBuilder<'a>, kernel: &'k Kernel, wide: Option<Wide>) -> Emitter<'a, 'k> {
    let [entry, exit, anywhere] = [0; 3].map(|_| b.create_block());
    b.append_block_params_for_function_params(entry);
    b.append_block_param(exit, I32);
    b.append_block_param(anywhere, I32);
    b.switch_to_block(entry);
    let context = b.block_params(entry)[0];
    let mut pointer = |offset: usize| b.ins().load(I64, registers(), context, offset as i32);
    let files = Files {
        words: pointer(offset_of!(Context, words)),
        doubles: pointer(offset_of!(Context, doubles)),
        predicates: pointer(offset_of!(Context, predicates)),
        arguments: pointer(offset_of!(Context, arguments)),
        local: pointer(offset_of!(Context, local)),
        context,
    };
    let shared = pointer(offset_of!(Context, shared));
    let scratch = pointer(offset_of!(Context, scratch));
    let frames = pointer(offset_of!(Context, frames));
    let pages = pointer(offset_of!(Context, pages));
    let entries = pointer(offset_of!(Context, entries));
    let changing = [I64, I32, I32].map(|ty| b.declare_var(ty));
    for ((variable, ty), offset) in changing.into_iter().zip([I64, I32, I32]).zip(KEPT) {
        let value = b.ins().load(ty, registers(), context, offset);
        b.def_var(variable, value);
    }
    let pc = b.ins().load(I32, registers(), context, PC);
    b.ins().jump(anywhere, &[pc.into()]);
    let places = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, LANES as u32 * 8, 3));
    // As many registers as a segment can write, of four lanes each.
    let kept = StackSlotData::new(StackSlotKind::ExplicitSlot, LONGEST as u32 * 32, 4);
    let kept = b.create_sized_stack_slot(kept);
    let mut plain = Signature::new(CallConv::SystemV);
    plain.params.push(AbiParam::new(I64));
    let mut guarded = plain.clone();
    guarded.returns.push(AbiParam::new(I32));
    let mut access = guarded.clone();
    access.params.extend([AbiParam::new(I64); 3]);
    let wide_signatures = [plain, access, guarded].map(|signature| b.import_signature(signature));
    let (labels, given_up, accesses) = (BTreeMap::new(), Vec::new(), Vec::new());
    Emitter {
        b,
        kernel,
        context,
        files,
        shared,
        scratch,
        frames,
        pages,
        entries,
        places,
        kept,
        wide,
        wide_signatures,
        changing,
        labels,
        given_up,
        accesses,
        exit,
        anywhere,
    }
}

impl Emitter<'_, '_> {
    /// The code of a segment: it runs if the budget allows all of it.
    fn segment(&mut self, segment: &Segment, open: &[u32]) {
        let length = i64::from(segment.length());
        let budget = self.field(BUDGET);
        let spent = self.b.ins().icmp_imm_s(IntCC::UnsignedLessThan, budget, length);
        let (at, exit, on) = (self.word(segment.start), self.exit, self.b.create_block());
        self.b.ins().brif(spent, exit, &[at.into()], on, &[]);
        self.b.switch_to_block(on);
        let left = self.b.ins().iadd_imm_s(budget, -length);
        self.set_field(BUDGET, left);
        let code = self.kernel.code();
        let end = segment.start + segment.plain;
        let own = code.get(segment.start as usize..end as usize).unwrap_or(&[]);
        let [start, own, rest] = parts(own);
        self.masks(start);
        self.plain(own, Some(end).filter(|_| rest.is_empty()));
        self.masks(rest);
        if segment.plain != 0 && matches!(segment.tail, Some(Kind::Memory | Kind::Atomic)) {
            self.enter_here(end);
        }
        match (segment.tail, code.get(end as usize)) {
            (Some(Kind::Memory), Some(instruction)) => self.memory(end, instruction),
            (Some(Kind::Atomic), Some(instruction)) => self.atomic(end, instruction),
            (Some(Kind::Across), Some(instruction)) => self.across(end, instruction),
            (Some(_), Some(instruction)) => {
                let open = open.get(end as usize).copied().unwrap_or(0);
                self.control(&Place { at: end, instruction, open });
            }
            _ => {
                let next = self.label(end);
                self.b.ins().jump(next, &[]);
            }
        }
    }

    /// At the start of a loop that has code for wider vectors: runs that, and goes on where it returns. Where it has done nothing the segment is next.
    fn turns(&mut self, segments: &BTreeMap<u32, Segment>, start: u32) {
        let kernel = self.kernel;
        let Some(wide) = self.wide.as_mut().filter(|wide| wide.form() == Form::Avx512) else { return };
        let Some(found) = Loop::at(kernel, segments, start) else { return };
        let place = wide.turns(kernel, &found);
        let before = self.field(BUDGET);
        self.call_wide(place, None);
        for (place, (ty, offset)) in [I64, I32, I32].into_iter().zip(KEPT).enumerate() {
            let value = self.b.ins().load(ty, registers(), self.context, offset);
            self.b.def_var(self.changing[place], value);
        }
        let after = self.field(BUDGET);
        let pc = self.b.ins().load(I32, registers(), self.context, PC);
        let same = self.b.ins().icmp(IntCC::Equal, before, after);
        let (segment, anywhere) = (self.b.create_block(), self.anywhere);
        self.b.ins().brif(same, segment, &[], anywhere, &[pc.into()]);
        self.b.switch_to_block(segment);
    }

    /// Executes plain instructions: those with code for wider vectors by that, the last of them with what stands under the condition of an IF `behind`.
    fn plain(&mut self, code: &[Instruction], behind: Option<u32>) {
        let mut left = code.len();
        let header = self.kernel.header();
        let form = self.wide.as_ref().map(Wide::form);
        let is_wide = |instruction: &Instruction| form.is_some_and(|form| wide::has_code(form, instruction));
        for run in code.chunk_by(|one, next| is_wide(one) == is_wide(next)) {
            left -= run.len();
            let guarded = behind.filter(|_| left == 0 && run.first().is_some_and(is_wide));
            if let Some((at, guarded)) = guarded.and_then(|at| Some((at, self.guarded(at)?))) {
                self.with_access(run, (at, &guarded));
            } else if let Some(wide) = self.wide.as_mut().filter(|_| run.first().is_some_and(is_wide)) {
                let place = wide.plain(header, run);
                self.call_wide(place, None);
            } else {
                let active = self.field(ACTIVE);
                let kept = self.b.ins().stack_addr(I64, self.kept, 0);
                plain(&mut self.b, (self.files, kept, header), active, run);
            }
        }
    }

    /// Makes the access at the end of a segment, where the code is now, an entry too: it is made again when a page is there that it lacked.
    fn enter_here(&mut self, at: u32) {
        let here = self.b.create_block();
        self.b.ins().jump(here, &[]);
        let entry = self.b.create_block();
        self.b.set_cold_block(entry);
        self.b.switch_to_block(entry);
        let budget = self.field(BUDGET);
        let spent = self.b.ins().icmp_imm_s(IntCC::Equal, budget, 0);
        let (pc, exit, on) = (self.word(at), self.exit, self.b.create_block());
        self.b.ins().brif(spent, exit, &[pc.into()], on, &[]);
        self.b.switch_to_block(on);
        let left = self.b.ins().iadd_imm_s(budget, -1);
        self.set_field(BUDGET, left);
        self.b.ins().jump(here, &[]);
        self.b.switch_to_block(here);
        self.accesses.push((at, entry));
    }

    /// The jump to wherever the program is to go on, and the table for it.
    fn dispatch(&mut self, segments: &BTreeMap<u32, Segment>) -> Entries {
        let count = self.kernel.code().len();
        let mut entries = Entries { numbers: vec![NO_ENTRY; count], lengths: vec![0; count] };
        let starts = segments.values().map(|segment| (segment.start, segment.length(), self.label(segment.start)));
        let mut places: Vec<(u32, u32, Block)> = starts.collect();
        places.extend(std::mem::take(&mut self.accesses).into_iter().map(|(at, entry)| (at, 1, entry)));
        for (number, (start, length, _)) in (0..).zip(&places) {
            let start = *start as usize;
            if let (Some(place), Some(to)) = (entries.numbers.get_mut(start), entries.lengths.get_mut(start)) {
                (*place, *to) = (number, *length);
            }
        }
        self.b.switch_to_block(self.anywhere);
        let pc = self.b.block_params(self.anywhere)[0];
        let (inside, outside) = (self.b.create_block(), self.b.create_block());
        let known = self.b.ins().icmp_imm_s(IntCC::UnsignedLessThan, pc, count as i64);
        self.b.ins().brif(known, inside, &[], outside, &[]);
        self.b.switch_to_block(outside);
        let exit = self.exit;
        self.b.ins().jump(exit, &[pc.into()]);
        self.b.switch_to_block(inside);
        let number = self.entry_of(pc);
        let pool = &mut self.b.func.dfg.value_lists;
        let none = BlockCall::new(outside, [], pool);
        let calls: Vec<BlockCall> = places.into_iter().map(|(.., block)| BlockCall::new(block, [], pool)).collect();
        let table = self.b.create_jump_table(JumpTableData::new(none, &calls));
        self.b.ins().br_table(number, table);
        entries
    }

    fn entry_of(&mut self, pc: Value) -> Value {
        let wide = self.b.ins().uextend(I64, pc);
        let offset = self.b.ins().ishl_imm_s(wide, 2);
        let place = self.b.ins().iadd(self.entries, offset);
        self.b.ins().load(I32, registers(), place, 0)
    }

    /// What is jumped to and is no segment is interpreted; and the end of the function.
    fn leave(&mut self, segments: &BTreeMap<u32, Segment>) {
        let others: Vec<_> = self.labels.iter().filter(|(at, _)| !segments.contains_key(at)).collect();
        for (at, block) in others.into_iter().map(|(at, block)| (*at, *block)).collect::<Vec<_>>() {
            self.b.switch_to_block(block);
            let (at, exit) = (self.word(at), self.exit);
            self.b.ins().jump(exit, &[at.into()]);
        }
        self.b.switch_to_block(self.exit);
        let pc = self.b.block_params(self.exit)[0];
        self.set_field(PC, pc);
        self.b.ins().return_(&[]);
    }
}

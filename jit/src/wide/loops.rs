//! Innermost loops on words and predicates with AVX-512: turn after turn with the words of all lanes in vectors.
//!
//! The function of a loop is entered at the first instruction in it, with the loop's frame on top. It does what the segments of the loop do, budget and frames included; only words wait in vectors until
//! the function returns, and lanes, budget and the number of open blocks in general registers. So it returns wherever a segment begins that the budget does not allow, or behind the loop.

use super::bytes::{Bytes, Label, MaskOp, R8, RAX, RCX, RDI, RDX, RSI, Source, With};
use super::form::Form;
use super::opcodes;
use super::plain::{Plain, has_code};
use super::registers::{ASIDE, Registers, Uses, Vectors, fixed};
use crate::block::{Kind, Segment, is_of_masks};
use crate::context::{ACTIVE, BACK, Context, KIND, MASK, OTHER};
use crate::files::WORD;
use campanile_hw::isa::{Instruction, Op, Operand, Type};
use campanile_shader::{Frame, FrameKind, Kernel};
use iced_x86::Code;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

/// General registers: the lanes that the masks have, the frame of the loop, the active lanes, and the budget.
const IN_MASKS: u8 = RDX;
const TOP: u8 = R8 + 1;
const LANES: u8 = R8 + 2;
const BUDGET: u8 = R8 + 3;
/// The masks of active lanes of both halves, and those of a predicate that is written.
const HALVES: [u8; 2] = [1, 2];
const RESULTS: [u8; 2] = [3, 4];
/// A mask for what is found.
const FOUND: [u8; 2] = [6, 7];
/// Bytes of a frame.
const FRAME: i32 = size_of::<Frame>() as i32;
const PC: i32 = offset_of!(Context, pc) as i32;
const DEPTH: i32 = offset_of!(Context, depth) as i32;

/// A loop that there is code for.
#[derive(Debug)]
pub(crate) struct Loop {
    /// Its segments, in the order of the program.
    segments: Vec<Segment>,
    /// Words that it uses.
    words: Vec<u8>,
    /// Most blocks that are open in it.
    nested: u32,
}

impl Loop {
    /// The loop whose first instruction this is.
    pub(crate) fn at(kernel: &Kernel, segments: &BTreeMap<u32, Segment>, start: u32) -> Option<Self> {
        let code = kernel.code();
        let before = code.get(start.checked_sub(1)? as usize)?;
        if before.op != Op::Loop {
            return None;
        }
        let (mut own, mut words, mut open, mut nested, mut next) = (Vec::new(), BTreeSet::new(), 0u32, 0, start);
        loop {
            let segment = segments.get(&next)?;
            let plain = code.get(next as usize..(next + segment.plain) as usize)?;
            for instruction in plain {
                words.extend(uses(instruction)?);
            }
            own.push(*segment);
            next += segment.length();
            let tail = code.get(next as usize - 1)?;
            match segment.tail {
                None => continue,
                Some(Kind::Control) => {}
                Some(_) => return None,
            }
            match tail.op {
                Op::EndLoop => break,
                Op::Loop | Op::Call | Op::Ret => return None,
                Op::If => open += 1,
                Op::EndIf => open = open.checked_sub(1)?,
                _ => {}
            }
            nested = nested.max(open);
        }
        let words: Vec<u8> = words.into_iter().collect();
        let fits = words.len() * 2 <= usize::from(ASIDE);
        let targets = own.iter().all(|segment| {
            let tail = code.get((segment.start + segment.length() - 1) as usize);
            let jumps = |tail: &&Instruction| matches!(tail.op, Op::If | Op::Else | Op::BreakIf | Op::ContinueIf);
            let target = tail.filter(|_| segment.tail.is_some()).filter(jumps).map(|tail| tail.immediate);
            target.is_none_or(|target| own.iter().any(|segment| u64::from(segment.start) == target))
        });
        (fits && targets).then_some(Self { segments: own, words, nested })
    }
}

/// The words that a plain instruction uses; `None` if there is no code for it here.
fn uses(instruction: &Instruction) -> Option<impl Iterator<Item = u8>> {
    let registers = instruction.registers();
    let has_doubles = registers.iter().any(|(file, ..)| *file == Operand::Double) || instruction.ty.bits() == 64;
    let of_masks = instruction.ty == Type::B1 && !is_of_masks(instruction);
    if has_doubles || of_masks || !(has_code(Form::Avx512, instruction) || is_of_masks(instruction)) {
        return None;
    }
    Some(registers.into_iter().filter(|(file, ..)| *file == Operand::Word).map(|(_, number, _)| number))
}

/// Where a function returns to the segments: the instruction, the blocks that are open in the loop there (one less than none behind it), and the budget that is given back.
struct Exit {
    label: Label,
    pc: u32,
    open: i32,
    back: u32,
}

/// A NaN that may have to become the canonical one, and where the code goes on.
struct Mending {
    label: Label,
    back: Label,
    held: [Vectors; 2],
}

/// A loop on its way.
struct Turns<'a> {
    code: &'a mut Bytes,
    kernel: &'a Kernel,
    of: &'a Loop,
    held: [Vectors; 2],
    labels: BTreeMap<u32, Label>,
    exits: Vec<Exit>,
    mendings: Vec<Mending>,
    /// Blocks that are open in the loop.
    open: i32,
    uses: Uses,
}

/// Generates the function of a loop. It returns without having done anything if the budget does not allow the first segment, or the frames are not those of the program.
pub(crate) fn generate(code: &mut Bytes, kernel: &Kernel, of: &Loop) {
    let Some(first) = of.segments.first().map(|segment| segment.start) else { return };
    let labels = of.segments.iter().map(|segment| (segment.start, code.label())).collect();
    let held = [0, of.words.len()].map(|first| fixed(&of.words, first));
    let (exits, mendings) = (Vec::new(), Vec::new());
    let mut turns = Turns { code, kernel, of, held, labels, exits, mendings, open: 0, uses: Uses::default() };
    let nothing = turns.enter(first);
    for segment in &of.segments {
        turns.segment(segment);
    }
    turns.mend();
    turns.leave(nothing);
}

impl Turns<'_> {
    /// The start: where everything lies, and whether the frames are those of the program.
    fn enter(&mut self, first: u32) -> Label {
        let nothing = self.code.label();
        for (register, offset) in [
            (RSI, offset_of!(Context, words)),
            (RCX, offset_of!(Context, predicates)),
            (TOP, offset_of!(Context, frames)),
            (BUDGET, offset_of!(Context, budget)),
        ] {
            self.code.load(true, register, RDI, offset as i32);
        }
        self.code.load(false, LANES, RDI, ACTIVE);
        self.code.load(false, RAX, RDI, DEPTH);
        self.code.test(32);
        self.code.jump_if(true, nothing);
        let Some(most) = self.kernel.depth().checked_sub(self.of.nested) else {
            self.code.jump(nothing);
            return nothing;
        };
        self.code.compare_number(false, RAX, most);
        self.code.jump_above(nothing);
        self.code.shift_double(RAX, true, FRAME.trailing_zeros() as u8);
        self.code.add(TOP, RAX);
        self.code.number(Code::Sub_rm64_imm32, TOP, FRAME as u32);
        self.code.memory_number(Code::Cmp_rm32_imm32, TOP, KIND, FrameKind::Loop as u32);
        self.code.jump_if(false, nothing);
        let length = self.of.segments.first().map_or(0, Segment::length);
        self.code.number(Code::Cmp_rm64_imm32, BUDGET, length);
        self.code.branch(Code::Jb_rel32_64, nothing);
        self.copy_words(false);
        self.load_masks();
        let label = self.label(first);
        self.code.jump(label);
        nothing
    }

    fn label(&mut self, at: u32) -> Label {
        let code = &mut *self.code;
        *self.labels.entry(at).or_insert_with(|| code.label())
    }

    /// Loads or stores all words.
    fn copy_words(&mut self, stores: bool) {
        for half in 0..2 {
            for (at, word) in self.of.words.iter().enumerate() {
                let vector = (at + half * self.of.words.len()) as u8;
                let place = Source::At(RSI, i32::from(*word) * WORD + half as i32 * 64);
                let opcode = if stores { opcodes::STORE } else { opcodes::LOAD };
                self.code.vector(opcode, [vector, 0], place, With::default());
            }
        }
    }

    /// Sets the masks to the active lanes. While these stay the same the masks wait for nothing.
    fn set_masks(&mut self) {
        let same = self.code.label();
        self.code.two(Code::Cmp_r32_rm32, IN_MASKS, LANES);
        self.code.jump_if(true, same);
        self.load_masks();
        self.code.place(same);
    }

    fn load_masks(&mut self) {
        self.code.two(Code::Mov_r32_rm32, IN_MASKS, LANES);
        self.code.mask_of(HALVES[0], LANES);
        self.code.two(Code::Mov_r32_rm32, RAX, LANES);
        self.code.shift(false, RAX, 16);
        self.code.mask_of(HALVES[1], RAX);
    }

    fn segment(&mut self, segment: &Segment) {
        let label = self.label(segment.start);
        self.code.place(label);
        let spent = self.exit(segment.start, segment.length());
        self.code.number(Code::Sub_rm64_imm32, BUDGET, segment.length());
        self.code.branch(Code::Jb_rel32_64, spent);
        if segment.plain != 0 {
            self.set_masks();
        }
        let end = segment.start + segment.plain;
        let kernel = self.kernel;
        let code = kernel.code();
        for instruction in code.get(segment.start as usize..end as usize).unwrap_or(&[]) {
            self.plain(instruction);
        }
        self.settle();
        if let (Some(_), Some(instruction)) = (segment.tail, code.get(end as usize)) {
            self.control(end, instruction);
        }
    }

    /// A new exit to an instruction, with so much of the budget given back.
    fn exit(&mut self, pc: u32, back: u32) -> Label {
        let label = self.code.label();
        self.exits.push(Exit { label, pc, open: self.open, back });
        label
    }

    fn registers(&mut self, half: usize) -> Registers<'_> {
        let lanes = HALVES[half];
        Registers::with_fixed(self.code, &self.uses, half as i32, self.held[half], (lanes, RESULTS[half]))
    }

    fn plain(&mut self, instruction: &Instruction) {
        if is_of_masks(instruction) {
            return self.predicate(instruction);
        }
        let kernel = self.kernel;
        for (half, lanes) in HALVES.into_iter().enumerate() {
            let registers = self.registers(half);
            let mut plain = Plain { registers, header: kernel.header(), mask: 0 };
            plain.execute_masked(instruction, lanes);
            self.held[half] = plain.registers.vectors();
        }
        if let (Operand::Predicate, number, _) = instruction.registers()[0] {
            self.code.bits_of(RAX, RESULTS[0]);
            self.code.bits_of(R8, RESULTS[1]);
            self.code.shift(true, R8, 16);
            self.code.or(RAX, R8);
            self.put(number);
        }
    }

    /// An operation on predicates.
    fn predicate(&mut self, instruction: &Instruction) {
        let place = |number: u8| i32::from(number) * 4;
        if instruction.op == Op::Not {
            self.code.load(false, RAX, RCX, place(instruction.a));
            self.code.number(Code::Not_rm32, RAX, 0);
        } else {
            let all = if instruction.immediate & 1 != 0 { u32::MAX } else { 0 };
            match instruction.constant {
                true => self.code.set(RAX, all),
                false => self.code.load(false, RAX, RCX, place(instruction.b)),
            }
            let code = match instruction.op {
                Op::And => Some(Code::And_r32_rm32),
                Op::Or => Some(Code::Or_r32_rm32),
                Op::Xor => Some(Code::Xor_r32_rm32),
                _ => None,
            };
            if let Some(code) = code {
                self.code.with_memory(code, RAX, RCX, place(instruction.a));
            }
        }
        self.code.two(Code::And_r32_rm32, RAX, LANES);
        self.put(instruction.dst);
    }

    /// Stores a predicate whose bits of active lanes are in RAX; the others are kept.
    fn put(&mut self, number: u8) {
        let place = i32::from(number) * 4;
        self.code.two(Code::Mov_r32_rm32, R8, LANES);
        self.code.number(Code::Not_rm32, R8, 0);
        self.code.with_memory(Code::And_r32_rm32, R8, RCX, place);
        self.code.or(RAX, R8);
        self.code.store(false, RAX, RCX, place);
    }

    /// Looks for NaNs that have to become the canonical one.
    fn settle(&mut self) {
        let mut any = false;
        for (half, lanes) in HALVES.into_iter().enumerate() {
            let raw: Vec<(u8, Type)> = self.registers(half).all_raw().collect();
            for pair in raw.chunks(2) {
                // Words hold numbers of binary32 alone. One comparison looks at two vectors.
                let (Some((first, _)), Some((second, _))) = (pair.first(), pair.last()) else { continue };
                let to = FOUND[usize::from(any)];
                self.code.compare_numbers(
                    (opcodes::UNORDERED, false),
                    [to, *first],
                    Source::Register(*second),
                    With::mask(lanes),
                );
                if any {
                    self.code.masks(MaskOp::Or, FOUND[0], FOUND[0], FOUND[1]);
                }
                any = true;
            }
        }
        if !any {
            return;
        }
        let (label, back) = (self.code.label(), self.code.label());
        self.code.test_mask(FOUND[0]);
        self.code.jump_if(false, label);
        self.code.place(back);
        self.mendings.push(Mending { label, back, held: self.held });
        for held in self.held.iter_mut().flatten().flatten() {
            held.settled();
        }
    }

    /// The code for the NaNs that were found.
    fn mend(&mut self) {
        for Mending { label, back, held } in std::mem::take(&mut self.mendings) {
            self.code.place(label);
            self.held = held;
            for half in 0..2 {
                self.registers(half).settle_all();
            }
            self.code.jump(back);
        }
    }

    /// The exits, and the end.
    fn leave(&mut self, nothing: Label) {
        let end = self.code.label();
        for Exit { label, pc, open, back } in std::mem::take(&mut self.exits) {
            self.code.place(label);
            self.code.number(Code::Add_rm64_imm32, BUDGET, back);
            self.code.memory_number(Code::Add_rm32_imm32, RDI, DEPTH, open as u32);
            self.code.memory_number(Code::Mov_rm32_imm32, RDI, PC, pc);
            self.code.jump(end);
        }
        self.code.place(end);
        self.copy_words(true);
        self.code.store(true, BUDGET, RDI, offset_of!(Context, budget) as i32);
        self.code.store(false, LANES, RDI, ACTIVE);
        self.code.place(nothing);
        self.code.end();
    }
}

impl Turns<'_> {
    /// A field of the frame of the block that is so many blocks inside of the loop.
    fn frame(&self, open: i32, field: i32) -> i32 {
        open * FRAME + field
    }

    /// Goes on with the lanes in RAX, or at `target` if there are none.
    fn with_lanes(&mut self, target: u64) {
        self.code.two(Code::Mov_r32_rm32, LANES, RAX);
        self.unless_empty(target);
    }

    /// Goes on at `target` if no lane is active.
    fn unless_empty(&mut self, target: u64) {
        self.code.two(Code::Test_rm32_r32, LANES, LANES);
        let target = self.label(target as u32);
        self.code.jump_if(true, target);
    }

    /// Goes on with the lanes that a field of a frame has.
    fn take_lanes(&mut self, open: i32, field: i32) {
        let place = self.frame(open, field);
        self.code.load(false, LANES, TOP, place);
    }

    /// Executes an instruction of control flow.
    fn control(&mut self, at: u32, instruction: &Instruction) {
        match instruction.op {
            Op::If => {
                self.open += 1;
                self.code.load(false, R8, RCX, i32::from(instruction.a) * 4);
                self.code.two(Code::Mov_r32_rm32, RAX, LANES);
                self.code.two(Code::And_r32_rm32, RAX, R8);
                self.code.number(Code::Not_rm32, R8, 0);
                self.code.two(Code::And_r32_rm32, R8, LANES);
                let frame = self.frame(self.open, 0);
                self.code.memory_number(Code::Mov_rm32_imm32, TOP, frame + KIND, FrameKind::If as u32);
                self.code.store(false, LANES, TOP, frame + MASK);
                self.code.store(false, R8, TOP, frame + OTHER);
                self.code.memory_number(Code::Mov_rm32_imm32, TOP, frame + BACK, 0);
                self.with_lanes(instruction.immediate);
            }
            Op::Else => {
                let other = self.frame(self.open, OTHER);
                self.code.load(false, RAX, TOP, other);
                self.code.memory_number(Code::Mov_rm32_imm32, TOP, other, 0);
                self.with_lanes(instruction.immediate);
            }
            Op::EndIf => {
                self.take_lanes(self.open, MASK);
                self.open -= 1;
            }
            Op::Continuing => self.take_lanes(0, OTHER),
            Op::EndLoop => self.end_loop(at, instruction.immediate as u32),
            _ => self.leave_loop(instruction),
        }
    }

    fn end_loop(&mut self, at: u32, start: u32) {
        let over = self.code.label();
        let inside = self.frame(0, OTHER);
        self.code.load(false, RAX, TOP, inside);
        self.code.test(32);
        self.code.jump_if(true, over);
        self.take_lanes(0, OTHER);
        let first = self.label(start.saturating_add(1));
        self.code.jump(first);
        self.code.place(over);
        let mask = self.frame(0, MASK);
        self.code.load(false, LANES, TOP, mask);
        self.open -= 1;
        let exit = self.exit(at + 1, 0);
        self.code.jump(exit);
    }

    /// BREAK and CONTINUE, conditional or not: the lanes are taken out of every block inside the loop.
    fn leave_loop(&mut self, instruction: &Instruction) {
        let conditional = matches!(instruction.op, Op::BreakIf | Op::ContinueIf);
        let for_good = matches!(instruction.op, Op::Break | Op::BreakIf);
        let none = self.code.label();
        self.code.two(Code::Mov_r32_rm32, R8, LANES);
        if conditional {
            self.code.with_memory(Code::And_r32_rm32, R8, RCX, i32::from(instruction.a) * 4);
        }
        self.code.two(Code::Test_rm32_r32, R8, R8);
        self.code.jump_if(true, none);
        // All others stay in the blocks.
        self.code.number(Code::Not_rm32, R8, 0);
        for open in (1..=self.open).chain(for_good.then_some(0)) {
            for field in [MASK, OTHER].into_iter().filter(|field| open != 0 || *field == OTHER) {
                let place = self.frame(open, field);
                self.code.with_memory(Code::And_rm32_r32, R8, TOP, place);
            }
        }
        self.code.two(Code::And_r32_rm32, LANES, R8);
        self.code.place(none);
        if conditional {
            // Also where there were no lanes before.
            self.unless_empty(instruction.immediate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_hw::isa::Program;

    /// The words of the loop behind the first LOOP of a program, if that has code.
    fn words(text: &str) -> Option<Vec<u8>> {
        let bytes = campanile_isa::assemble(text).expect("legal");
        let kernel = Kernel::new(&Program::validate(&bytes).expect("valid"));
        let start = kernel.code().iter().position(|instruction| instruction.op == Op::Loop).expect("a loop");
        let found = Loop::at(&kernel, &crate::block::segments(&kernel, true), start as u32 + 1);
        found.map(|found| found.words)
    }

    #[test]
    fn innermost_loops_on_words_that_fit_into_vectors_have_code() {
        let around = |body: &str| format!("loop\n{body}\nbreak_if p0\ncontinuing\nend_loop\nexit");
        assert_eq!(words(&around("add.i32 w2, w2, w7\ncmp.i32.gt_u p0, w2, 9")), Some(vec![2, 7]));
        assert_eq!(words(&around("if p1\nadd.i32 w2, w2, 1\nelse\nmov.b1 p0, 1\nend_if")), Some(vec![2]));
        assert_eq!(words(&around("add.i64 d0, d0, 1")), None);
        assert_eq!(words(&around("load_shared.w1 w0, [w1]").replacen("loop", ".shared 64\nloop", 1)), None);
        assert_eq!(words(&around(&around("add.i32 w0, w0, 1").replace("\nexit", ""))), None);
        let many: String = (0..15).map(|word| format!("add.i32 w{word}, w{word}, 1\n")).collect();
        assert_eq!(words(&around(&many)), None);
    }
}

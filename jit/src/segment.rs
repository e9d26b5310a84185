//! The code of the plain instructions of a segment.

use crate::files::{DOUBLE, Files, WORD};
use crate::lanes::{Lanes, mask_of_bits, narrow, registers, splat, widen_signed, widen_unsigned};
use crate::{convert, float, integer, system};
use campanile_hw::isa::{Instruction, Op, Operand, ProgramHeader, Type};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};
use cranelift_frontend::FunctionBuilder;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of four words.
const CHUNK: i64 = 16;

/// The file of the registers for which a constant stands.
pub(crate) fn constant_file(instruction: &Instruction) -> File {
    match (instruction.op.form().operands[2], instruction.ty) {
        (Operand::WordOrConstant, _) => File::Word,
        (_, Type::B1) => File::Predicate,
        (_, Type::I64 | Type::F64) => File::Double,
        _ => File::Word,
    }
}

/// A register: its file and number.
type Register = (File, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum File {
    Predicate,
    Word,
    Double,
}

impl File {
    pub(crate) fn of(operand: Operand) -> Option<Self> {
        match operand {
            Operand::Predicate => Some(Self::Predicate),
            Operand::Word => Some(Self::Word),
            Operand::Double => Some(Self::Double),
            _ => None,
        }
    }
}

/// True for an operation whose result is the same for every NaN that it is given, and which gives the canonical one.
pub(crate) fn takes_any_nan(op: Op) -> bool {
    let arithmetic = matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Fma | Op::Min | Op::Max | Op::Sqrt);
    arithmetic || matches!(op, Op::Floor | Op::Ceil | Op::Trunc | Op::RoundEven | Op::Cmp)
}

/// Four lanes on their way through a segment.
struct Chunk<'k> {
    /// Addresses of their first words and doubles.
    words: Value,
    doubles: Value,
    files: Files,
    header: &'k ProgramHeader,
    /// Number of the first lane, and bytes of a word of the lanes before it.
    lane: Value,
    offset: Value,
    /// Registers that were read or written; a predicate is a mask of words.
    values: BTreeMap<Register, Lanes>,
    /// Those that were written.
    written: Vec<Register>,
    /// Those that hold a result of floating point whose NaN may be any: it becomes the canonical one only where that can be seen.
    raw: BTreeMap<Register, Type>,
}

impl Chunk<'_> {
    fn load(&self, b: &mut FunctionBuilder<'_>, (file, number): Register) -> Lanes {
        match file {
            File::Word => Lanes::Words(b.ins().load(I32X4, registers(), self.words, i32::from(number) * WORD)),
            File::Double => {
                let offset = i32::from(number) * DOUBLE;
                Lanes::Doubles(
                    [offset, offset + 16].map(|offset| b.ins().load(I64X2, registers(), self.doubles, offset)),
                )
            }
            File::Predicate => {
                let all = b.ins().load(I32, registers(), self.files.predicates, i32::from(number) * 4);
                let own = b.ins().ushr(all, self.lane);
                Lanes::Words(mask_of_bits(b, own))
            }
        }
    }

    /// The value of a register. A NaN of it counts as a NaN only, if it is used by floating-point arithmetic of the type `of`.
    fn read(&mut self, b: &mut FunctionBuilder<'_>, register: Register, of: Option<Type>) -> Lanes {
        if of.is_none() || self.raw.get(&register).copied() != of {
            self.settle(b, register);
        }
        if let Some(value) = self.values.get(&register) {
            return *value;
        }
        let value = self.load(b, register);
        self.values.insert(register, value);
        value
    }

    /// Gives a NaN that may be any the bits of the canonical one.
    fn settle(&mut self, b: &mut FunctionBuilder<'_>, register: Register) {
        let Some(ty) = self.raw.remove(&register) else { return };
        let Some(value) = self.values.get(&register).copied() else { return };
        let settled = Lanes::each(b, &[value], &mut |b, values| float::canonical(b, ty, values[0]));
        self.values.insert(register, settled);
    }

    fn write(&mut self, register: Register, value: Lanes, raw: Option<Type>) {
        if !self.written.contains(&register) {
            self.written.push(register);
        }
        self.values.insert(register, value);
        match raw {
            Some(ty) => self.raw.insert(register, ty),
            None => self.raw.remove(&register),
        };
    }

    /// Stores the words and doubles that were written, in all four lanes.
    fn store(&self, b: &mut FunctionBuilder<'_>) {
        for register in self.vectors() {
            if let Some(value) = self.values.get(&register) {
                self.put(b, register, *value);
            }
        }
    }

    /// The bits of predicates in these lanes, by the numbers of lanes in the subgroup, together with those of the lanes before.
    fn bits(&self, b: &mut FunctionBuilder<'_>, before: &[(u8, Value)]) -> Vec<BlockArg> {
        let with = |(number, before): &(u8, Value)| {
            let Some(Lanes::Words(mask)) = self.values.get(&(File::Predicate, *number)) else {
                return (*before).into();
            };
            let bits = b.ins().vhigh_bits(I32, *mask);
            let bits = b.ins().ishl(bits, self.lane);
            b.ins().bor(*before, bits).into()
        };
        before.iter().map(with).collect()
    }

    /// Stores a word or double.
    fn put(&self, b: &mut FunctionBuilder<'_>, (_, number): Register, value: Lanes) {
        let number = i32::from(number);
        match value {
            Lanes::Words(value) => {
                b.ins().store(registers(), value, self.words, number * WORD);
            }
            Lanes::Doubles(value) => {
                for (value, offset) in value.into_iter().zip([0, 16]) {
                    b.ins().store(registers(), value, self.doubles, number * DOUBLE + offset);
                }
            }
        }
    }

    /// Words and doubles that were written.
    fn vectors(&self) -> Vec<Register> {
        self.written.iter().copied().filter(|(file, _)| *file != File::Predicate).collect()
    }

    /// Nonzero if one of the numbers whose NaN may be any is a NaN; nothing if there are no such numbers.
    fn any_nan(&self, b: &mut FunctionBuilder<'_>) -> Option<Value> {
        let mut unordered: Option<Value> = None;
        for of in [Type::F32, Type::F64] {
            let raw =
                self.raw.iter().filter(|(_, ty)| **ty == of).filter_map(|(register, _)| self.values.get(register));
            let numbers: Vec<Value> = raw.flat_map(|value| value.vectors()).collect();
            // One comparison looks at two vectors.
            for pair in numbers.chunks(2) {
                let [first, second] = [pair.first(), pair.last()].map(|number| number.copied());
                let (Some(first), Some(second)) = (first, second) else { continue };
                let found = float::unordered(b, of, first, second);
                unordered = Some(unordered.map_or(found, |before| b.ins().bor(before, found)));
            }
        }
        unordered.map(|found| b.ins().vany_true(found))
    }

    /// A constant of the instruction as a register of the file.
    fn constant(b: &mut FunctionBuilder<'_>, file: File, bits: u64) -> Lanes {
        match file {
            File::Word => Lanes::Words(splat(b, I32X4, bits)),
            File::Predicate => Lanes::Words(splat(b, I32X4, if bits & 1 != 0 { u64::MAX } else { 0 })),
            File::Double => {
                let value = splat(b, I64X2, bits);
                Lanes::Doubles([value, value])
            }
        }
    }

    /// Executes an instruction.
    fn execute(&mut self, b: &mut FunctionBuilder<'_>, instruction: &Instruction) {
        let [to, from_a, from_b, from_c] = instruction.registers();
        let register = |(file, number, _): (Operand, u8, u32)| File::of(file).map(|file| (file, number));
        let Some(to) = register(to) else { return };
        let ty = instruction.ty;
        // A copy has the NaN of what it is made of, whatever type it is copied as.
        let copied = match (instruction.op, instruction.constant, register(from_b)) {
            (Op::Mov, false, Some(from)) => self.raw.get(&from).copied(),
            _ => None,
        };
        let of = (ty.is_float() && takes_any_nan(instruction.op)).then_some(ty);
        let mut sources = Vec::with_capacity(3);
        for (place, from) in [from_a, from_b, from_c].into_iter().enumerate() {
            if place == 1 && instruction.constant {
                let file = constant_file(instruction);
                sources.push(Self::constant(b, file, instruction.immediate));
            } else if let Some(from) = register(from) {
                sources.push(self.read(b, from, of.or(copied)));
            }
        }
        let result = self.result(b, instruction, &sources);
        self.write(to, result, of.filter(|_| instruction.op != Op::Cmp).or(copied));
    }

    /// The result of an instruction on its sources, in the order of its fields, those that it does not have left out.
    fn result(&self, b: &mut FunctionBuilder<'_>, instruction: &Instruction, sources: &[Lanes]) -> Lanes {
        let (op, ty) = (instruction.op, instruction.ty);
        match (op, sources) {
            (Op::Arguments, _) => {
                let all = b.ins().splat(I64X2, self.files.arguments);
                Lanes::Doubles([all, all])
            }
            (Op::System, _) => {
                let place =
                    system::Lanes { files: &self.files, header: self.header, lane: self.lane, offset: self.offset };
                Lanes::Words(instruction.system().map_or(self.lane, |value| place.value(b, value)))
            }
            (Op::Mov, [only]) => *only,
            (Op::Select, [yes, no, Lanes::Words(condition)]) => select(b, *condition, *yes, *no),
            (Op::Pack, [Lanes::Words(low), Lanes::Words(high)]) => {
                let (low, high) = (widen_unsigned(b, *low), widen_unsigned(b, *high));
                Lanes::each(b, &[Lanes::Doubles(low), Lanes::Doubles(high)], &mut |b, halves| {
                    let high = b.ins().ishl_imm_s(halves[1], 32);
                    b.ins().bor(halves[0], high)
                })
            }
            (Op::Index, [address, Lanes::Words(number)]) => {
                let offset = Lanes::Doubles(multiple(b, *number, instruction.immediate));
                Lanes::each(b, &[*address, offset], &mut |b, halves| b.ins().iadd(halves[0], halves[1]))
            }
            (Op::WidenS, [Lanes::Words(word)]) => Lanes::Doubles(widen_signed(b, *word)),
            (Op::WidenU, [Lanes::Words(word)]) => Lanes::Doubles(widen_unsigned(b, *word)),
            (Op::Narrow, [Lanes::Doubles(double)]) => Lanes::Words(narrow(b, *double)),
            (Op::Cmp, _) => {
                let comparison = instruction.comparison();
                comparison.map_or(sources[0], |comparison| match ty.is_float() {
                    true => float::compare(b, comparison, ty, sources),
                    false => integer::compare(b, comparison, ty, sources),
                })
            }
            (Op::FromS | Op::FromU | Op::ToS | Op::ToU | Op::Convert, _) => {
                convert::convert(b, op, ty, instruction.source().unwrap_or(Type::None), sources)
            }
            _ if ty.is_float() => float::arithmetic(b, op, ty, sources),
            _ => {
                let amount = instruction.constant.then_some(instruction.immediate);
                integer::arithmetic(b, op, ty, amount, sources)
            }
        }
    }
}

/// One of two registers by a mask of words.
fn select(b: &mut FunctionBuilder<'_>, condition: Value, yes: Lanes, no: Lanes) -> Lanes {
    match (yes, no) {
        (Lanes::Doubles(_), _) => {
            let masks = Lanes::Doubles(widen_signed(b, condition));
            Lanes::each(b, &[masks, yes, no], &mut |b, halves| b.ins().bitselect(halves[0], halves[1], halves[2]))
        }
        _ => Lanes::each(b, &[yes, no], &mut |b, values| b.ins().bitselect(condition, values[0], values[1])),
    }
}

/// The products of words and a constant of 32 bits.
fn multiple(b: &mut FunctionBuilder<'_>, number: Value, by: u64) -> [Value; 2] {
    let wide = widen_unsigned(b, number);
    if by.is_power_of_two() {
        return wide.map(|half| b.ins().ishl_imm_s(half, i64::from(by.trailing_zeros())));
    }
    // Both factors have 32 bits, for which the processor has one instruction.
    let by = splat(b, I32X4, by);
    let [low, high] = widen_unsigned(b, by);
    [b.ins().imul(wide[0], low), b.ins().imul(wide[1], high)]
}

/// The predicates that the instructions write.
fn predicates(code: &[Instruction]) -> BTreeSet<u8> {
    let written = code.iter().map(|instruction| instruction.registers()[0]);
    written.filter(|(file, ..)| *file == Operand::Predicate).map(|(_, number, _)| number).collect()
}

/// Blocks of the loop over lanes.
struct Loop {
    /// Keeps what the registers hold in lanes that are not active.
    keep: Block,
    body: Block,
    /// Gives every NaN the bits of the canonical one.
    mend: Block,
    stored: Block,
    /// Puts back what was kept.
    put_back: Block,
    next: Block,
}

/// Generates a loop over the lanes that are set in `active`, four at a time, each through all of the instructions. Where only some of the four are active the others are computed too, and get back
/// what they had. `kept` has space for four lanes of every register. A predicate is put together from the lanes on the way, and stored behind the loop.
pub(crate) fn plain(
    b: &mut FunctionBuilder<'_>,
    (files, kept, header): (Files, Value, &ProgramHeader),
    active: Value,
    code: &[Instruction],
) {
    let [head, keep, body, mend, stored, put_back, next, exit] = [0; 8].map(|_| b.create_block());
    let blocks = Loop { keep, body, mend, stored, put_back, next };
    for cold in [keep, mend, put_back] {
        b.set_cold_block(cold);
    }
    let offset = b.append_block_param(head, I64);
    let predicates = predicates(code);
    let [before, after] = [head, next]
        .map(|block| predicates.iter().map(|number| (*number, b.append_block_param(block, I32))).collect::<Vec<_>>());
    let (zero, none) = (b.ins().iconst(I64, 0), b.ins().iconst(I32, 0));
    let start: Vec<BlockArg> = [zero].into_iter().chain(before.iter().map(|_| none)).map(Into::into).collect();
    b.ins().jump(head, &start);

    b.switch_to_block(head);
    let lane = b.ins().ushr_imm_s(offset, 2);
    let lane = b.ins().ireduce(I32, lane);
    let own = b.ins().ushr(active, lane);
    let own = b.ins().band_imm_s(own, 15);
    let words = b.ins().iadd(files.words, offset);
    let twice = b.ins().ishl_imm_s(offset, 1);
    let doubles = b.ins().iadd(files.doubles, twice);
    let whole = b.ins().icmp_imm_s(IntCC::Equal, own, 15);
    let some = b.create_block();
    b.ins().brif(whole, body, &[], some, &[]);
    b.switch_to_block(some);
    let unchanged: Vec<BlockArg> = before.iter().map(|(_, bits)| (*bits).into()).collect();
    b.ins().brif(own, keep, &[], next, &unchanged);

    let mut chunk = Chunk {
        words,
        doubles,
        files,
        header,
        lane,
        offset,
        values: BTreeMap::new(),
        written: Vec::new(),
        raw: BTreeMap::new(),
    };
    let bits = chunk.run(b, &blocks, (&before, whole), code);
    chunk.keep(b, &blocks, (kept, own), &bits);

    b.switch_to_block(next);
    let following = b.ins().iadd_imm_s(offset, CHUNK);
    let more = b.ins().icmp_imm_s(IntCC::UnsignedLessThan, following, i64::from(WORD));
    let on: Vec<BlockArg> =
        [following].into_iter().chain(after.iter().map(|(_, bits)| *bits)).map(Into::into).collect();
    b.ins().brif(more, head, &on, exit, &[]);
    b.switch_to_block(exit);
    for (number, bits) in after {
        let place = i32::from(number) * 4;
        let old = b.ins().load(I32, registers(), files.predicates, place);
        let new = b.ins().bitselect(active, bits, old);
        b.ins().store(registers(), new, files.predicates, place);
    }
}

impl Chunk<'_> {
    /// The instructions, in all four lanes, and the stores. Returns the bits of the predicates, with those `before`.
    fn run(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        blocks: &Loop,
        (before, whole): (&[(u8, Value)], Value),
        code: &[Instruction],
    ) -> Vec<BlockArg> {
        b.switch_to_block(blocks.body);
        code.iter().for_each(|instruction| self.execute(b, instruction));
        self.store(b);
        let bits = self.bits(b, before);
        match self.any_nan(b) {
            Some(found) => b.ins().brif(found, blocks.mend, &[], blocks.stored, &[]),
            None => b.ins().jump(blocks.stored, &[]),
        };
        b.switch_to_block(blocks.mend);
        for (register, ty) in std::mem::take(&mut self.raw) {
            let value = self.load(b, register);
            let canonical = Lanes::each(b, &[value], &mut |b, values| float::canonical(b, ty, values[0]));
            self.put(b, register, canonical);
        }
        b.ins().jump(blocks.stored, &[]);
        b.switch_to_block(blocks.stored);
        b.ins().brif(whole, blocks.next, &bits, blocks.put_back, &[]);
        bits
    }

    /// Saves the registers before the code is executed for four lanes of which some are inactive, and afterwards restores those of the inactive lanes.
    fn keep(&self, b: &mut FunctionBuilder<'_>, blocks: &Loop, (kept, own): (Value, Value), bits: &[BlockArg]) {
        let written = self.vectors();
        let place = |index: usize| index as i32 * CHUNK as i32 * 2;
        b.switch_to_block(blocks.keep);
        for (index, register) in written.iter().enumerate() {
            for (part, value) in (0..).zip(self.load(b, *register).vectors()) {
                b.ins().store(registers(), value, kept, place(index) + part * 16);
            }
        }
        b.ins().jump(blocks.body, &[]);
        b.switch_to_block(blocks.put_back);
        let mask = mask_of_bits(b, own);
        let masks = widen_signed(b, mask);
        for (index, register) in written.iter().enumerate() {
            let new = self.load(b, *register);
            let masks = if register.0 == File::Double { Lanes::Doubles(masks) } else { Lanes::Words(mask) };
            let mut part = 0;
            let all = Lanes::each(b, &[masks, new], &mut |b, values| {
                let ty = b.func.dfg.value_type(values[1]);
                let old = b.ins().load(ty, registers(), kept, place(index) + part * 16);
                part += 1;
                b.ins().bitselect(values[0], values[1], old)
            });
            self.put(b, *register, all);
        }
        b.ins().jump(blocks.next, bits);
    }
}

//! Plain instructions on vectors of 512 bits.

use super::bytes::{Bytes, MaskOp, RAX, RDI, Source, With};
use super::opcodes;
use super::registers::{ASIDE, FREE, FREE_MASKS, Part, Reads, Registers};
use crate::context::Context;
use crate::files::WORD;
use crate::segment::{File, constant_file, takes_any_nan};
use campanile_hw::isa::{Comparison, Instruction, LANES, Op, Operand, ProgramHeader, SystemValue, Type};
use iced_x86::Code;
use std::mem::offset_of;

/// True for a plain instruction that there is code for.
pub(crate) fn has_code(instruction: &Instruction) -> bool {
    let words =
        matches!((instruction.ty, instruction.source()), (Type::F32, Some(Type::I32)) | (Type::I32, Some(Type::F32)));
    match instruction.op {
        Op::MulHighS | Op::MulHighU | Op::DivS | Op::DivU | Op::RemS | Op::RemU | Op::ReverseBits | Op::Convert => {
            false
        }
        Op::FromS | Op::FromU | Op::ToS | Op::ToU => words,
        _ => true,
    }
}

/// The instructions of a stretch that read each part of a register.
pub(crate) fn all_reads(code: &[Instruction]) -> Reads {
    let mut all = Reads::new();
    for (at, instruction) in code.iter().enumerate() {
        reads(instruction).for_each(|part| all.entry(part).or_default().push(at));
    }
    all
}

/// Parts of the registers that an instruction reads.
fn reads(instruction: &Instruction) -> impl Iterator<Item = Part> {
    let [_, sources @ ..] = instruction.registers();
    let files = sources.into_iter().filter_map(|(file, number, _)| Some((File::of(file)?, number)));
    files.flat_map(|(file, number)| (0..parts(file)).map(move |part| (file, number, part)))
}

/// Vectors of a register.
fn parts(file: File) -> u8 {
    if file == File::Double { 2 } else { 1 }
}

/// A source: a register of a file or a constant.
#[derive(Clone, Copy)]
enum Value {
    Vectors([u8; 2]),
    Constant(usize),
    Mask(u8),
}

impl Value {
    fn part(self, part: u8) -> Source {
        match self {
            Self::Vectors(vectors) => Source::Register(vectors[usize::from(part)]),
            Self::Constant(number) => Source::Spread(number),
            Self::Mask(mask) => Source::Register(mask),
        }
    }

    fn vector(self, part: u8) -> u8 {
        match self {
            Self::Vectors(vectors) => vectors[usize::from(part)],
            Self::Mask(mask) => mask,
            Self::Constant(_) => 0,
        }
    }
}

/// True for an instruction on words each step of whose code may leave out the elements that a mask does not have.
fn is_direct(instruction: &Instruction) -> bool {
    let (op, ty) = (instruction.op, instruction.ty);
    let bits = matches!(op, Op::Neg | Op::Abs | Op::Not | Op::Sext8 | Op::Sext16);
    let shifts = matches!(op, Op::Shl | Op::ShrU | Op::ShrS | Op::Rotl);
    let numbers = matches!(op, Op::Fma | Op::Floor | Op::Ceil | Op::Trunc | Op::RoundEven | Op::FromS | Op::FromU);
    matches!(op, Op::Mov | Op::Cmp) || bits || shifts || numbers || opcodes::simple(op, ty).is_some()
}

/// Instructions on their way.
pub(crate) struct Plain<'b> {
    pub(crate) registers: Registers<'b>,
    pub(crate) header: &'b ProgramHeader,
    /// The mask of the elements that instructions write; 0 for all.
    pub(crate) mask: u8,
}

impl Plain<'_> {
    fn code(&mut self) -> &mut Bytes {
        self.registers.code
    }

    fn emit(&mut self, opcode: Code, operands: [u8; 2], source: Source) {
        self.with(opcode, operands, source, With::default());
    }

    fn with(&mut self, opcode: Code, operands: [u8; 2], source: Source, mut with: With) {
        if with.mask == 0 {
            with.mask = self.mask;
        }
        self.code().vector(opcode, operands, source, with);
    }

    /// A constant of one element in all elements.
    fn number(&mut self, wide: bool, bits: u64) -> Source {
        let bytes = bits.to_le_bytes();
        Source::Spread(self.code().constant(bytes.get(..if wide { 8 } else { 4 }).unwrap_or(&[])))
    }

    fn source(&mut self, file: File, number: u8, of: Option<Type>) -> Value {
        if file == File::Predicate {
            return Value::Mask(self.registers.read_mask(number));
        }
        let mut vectors = [0; 2];
        for part in 0..parts(file) {
            vectors[usize::from(part)] = self.registers.read((file, number, part), of);
        }
        Value::Vectors(vectors)
    }

    /// The constant of an instruction as a register of a file.
    fn constant(&mut self, file: File, bits: u64) -> Value {
        if file != File::Predicate {
            let Source::Spread(number) = self.number(file == File::Double, bits) else { return Value::Constant(0) };
            return Value::Constant(number);
        }
        let op = if bits & 1 != 0 { MaskOp::Xnor } else { MaskOp::Xor };
        let mask = FREE_MASKS[0];
        self.code().masks(op, mask, mask, mask);
        Value::Mask(mask)
    }

    /// Executes an instruction.
    pub(crate) fn execute(&mut self, instruction: &Instruction) {
        let [to, from_a, from_b, from_c] = instruction.registers();
        let register = |(file, number, _): (Operand, u8, u32)| File::of(file).map(|file| (file, number));
        let Some((file, to)) = register(to) else { return };
        let ty = instruction.ty;
        let copied = match (instruction.op, instruction.constant, register(from_b)) {
            (Op::Mov, false, Some((file, number))) => self.registers.raw_of((file, number, 0)),
            _ => None,
        };
        let of = (ty.is_float() && takes_any_nan(instruction.op)).then_some(ty);
        let mut sources = Vec::with_capacity(3);
        for (place, from) in [from_a, from_b, from_c].into_iter().enumerate() {
            if place == 1 && instruction.constant {
                continue;
            }
            if let Some((file, number)) = register(from) {
                sources.push(self.source(file, number, of.or(copied)));
            }
        }
        let raw = of.filter(|_| instruction.op != Op::Cmp).or(copied);
        let target = match file {
            File::Predicate => Value::Mask(self.registers.write_mask(to)),
            _ => {
                let mut vectors = [0; 2];
                for part in 0..parts(file) {
                    vectors[usize::from(part)] = self.registers.write((file, to, part), raw);
                }
                Value::Vectors(vectors)
            }
        };
        if instruction.constant {
            let constant = self.constant(constant_file(instruction), instruction.immediate);
            let place = usize::from(instruction.op.form().operands[1] != Operand::None).min(sources.len());
            sources.insert(place, constant);
        }
        match file {
            File::Predicate => self.predicate(instruction, target.vector(0), &sources),
            _ if is_of_both_files(instruction.op) => self.between_files(instruction, target, &sources),
            _ => (0..parts(file)).for_each(|part| self.part(instruction, target.vector(part), &sources, part)),
        }
        self.registers.next();
    }

    /// Executes an instruction on words, or one that compares such, for the elements of a mask.
    pub(crate) fn execute_masked(&mut self, instruction: &Instruction, mask: u8) {
        let (file, number, _) = instruction.registers()[0];
        if is_direct(instruction) {
            self.mask = mask;
            return self.execute(instruction);
        }
        self.mask = 0;
        self.registers.aside = true;
        self.execute(instruction);
        self.registers.aside = false;
        if File::of(file) == Some(File::Word)
            && let Some(home) = self.registers.known((File::Word, number, 0))
        {
            self.with(opcodes::LOAD, [home, 0], Source::Register(ASIDE), With::mask(mask));
        }
    }

    /// An instruction whose result is a predicate.
    fn predicate(&mut self, instruction: &Instruction, to: u8, sources: &[Value]) {
        let [first, second, third] = [0, 1, 2].map(|place| sources.get(place).or(sources.last()).copied());
        let (Some(first), Some(second), Some(third)) = (first, second, third) else { return };
        let (a, b, c) = (first.vector(0), second.vector(0), third.vector(0));
        match instruction.op {
            Op::Mov => self.code().copy_mask(to, a),
            Op::Not => self.code().not_mask(to, a),
            Op::And => self.code().masks(MaskOp::And, to, a, b),
            Op::Or => self.code().masks(MaskOp::Or, to, a, b),
            Op::Xor => self.code().masks(MaskOp::Xor, to, a, b),
            Op::Select => {
                // The constant may be in the free mask that holds it until it is used.
                let [no, yes] = FREE_MASKS;
                self.code().masks(MaskOp::And, yes, c, a);
                self.code().masks(MaskOp::AndNot, no, c, b);
                self.code().masks(MaskOp::Or, to, yes, no);
            }
            _ => self.comparison(instruction, to, [first, second]),
        }
    }

    fn comparison(&mut self, instruction: &Instruction, to: u8, [first, second]: [Value; 2]) {
        let Some(comparison) = instruction.comparison() else { return };
        let wide = instruction.ty.bits() == 64;
        let (opcode, relation) = match instruction.ty.is_float() {
            true => (opcodes::compare_numbers(wide), opcodes::relation(comparison)),
            false => opcodes::compare(comparison, wide),
        };
        let with = With::immediate(relation);
        if wide {
            let [low, high] = FREE_MASKS;
            self.with(opcode, [low, first.vector(0)], second.part(0), with);
            self.with(opcode, [high, first.vector(1)], second.part(1), with);
            self.code().masks(MaskOp::Join, to, high, low);
        } else {
            self.with(opcode, [to, first.vector(0)], second.part(0), with);
        }
    }

    /// An instruction whose sources are of another file than its result.
    fn between_files(&mut self, instruction: &Instruction, to: Value, sources: &[Value]) {
        let [first, second] = [0, 1].map(|place| sources.get(place).or(sources.last()).copied());
        let (Some(first), Some(second)) = (first, second) else { return };
        let [low, high, _] = FREE;
        match instruction.op {
            Op::Narrow => {
                // The source is the first operand of the instruction.
                self.emit(opcodes::NARROW, [first.vector(0), 0], Source::Register(low));
                self.emit(opcodes::NARROW, [first.vector(1), 0], Source::Register(high));
                self.with(opcodes::PUT_UPPER, [to.vector(0), low], Source::Register(high), With::immediate(1));
            }
            Op::WidenS => (0..2).for_each(|part| self.widen(opcodes::SIGNED, to.vector(part), first.vector(0), part)),
            Op::WidenU => (0..2).for_each(|part| self.widen(opcodes::UNSIGNED, to.vector(part), first.vector(0), part)),
            Op::Pack => {
                for part in 0..2 {
                    self.widen(opcodes::UNSIGNED, low, first.vector(0), part);
                    self.widen(opcodes::UNSIGNED, high, second.vector(0), part);
                    self.shift(Op::Shl, true, [high, high], 32);
                    self.emit(opcodes::or(true), [to.vector(part), low], Source::Register(high));
                }
            }
            _ => {
                let stride = instruction.immediate;
                for part in 0..2 {
                    self.widen(opcodes::UNSIGNED, low, second.vector(0), part);
                    if stride.is_power_of_two() {
                        self.shift(Op::Shl, true, [low, low], stride.trailing_zeros() as u8);
                    } else {
                        let stride = self.number(true, stride);
                        self.emit(opcodes::MULTIPLY_LOW, [low, low], stride);
                    }
                    self.emit(opcodes::add(true), [to.vector(part), first.vector(part)], Source::Register(low));
                }
            }
        }
    }

    /// Eight words as doubles.
    fn widen(&mut self, opcode: Code, to: u8, from: u8, part: u8) {
        if part == 0 {
            return self.emit(opcode, [to, 0], Source::Register(from));
        }
        let upper = FREE[2];
        self.with(opcodes::TAKE_UPPER, [from, 0], Source::Register(upper), With::immediate(1));
        self.emit(opcode, [to, 0], Source::Register(upper));
    }

    /// Shifts all elements by one number.
    fn shift(&mut self, op: Op, wide: bool, [to, from]: [u8; 2], by: u8) {
        let opcode = opcodes::shift(op, wide);
        self.with(opcode, [0, to], Source::Register(from), With::immediate(by));
    }

    /// One vector of the result of an instruction.
    fn part(&mut self, instruction: &Instruction, to: u8, sources: &[Value], part: u8) {
        let (op, ty) = (instruction.op, instruction.ty);
        let wide = matches!(op, Op::Arguments) || ty.bits() == 64;
        if let Op::System = op {
            return instruction.system().into_iter().for_each(|value| self.system(value, to));
        }
        if op == Op::Arguments {
            return self.emit(
                opcodes::SPREAD_DOUBLE,
                [to, 0],
                Source::Element(RDI, offset_of!(Context, arguments) as i32),
            );
        }
        let [first, second, third] = [0, 1, 2].map(|place| sources.get(place).or(sources.last()).copied());
        let (Some(first), Some(second), Some(third)) = (first, second, third) else { return };
        let (a, b) = (first.vector(part), second.part(part));
        if let Some((opcode, alone)) = opcodes::simple(op, ty) {
            return match alone {
                true => self.emit(opcode, [to, 0], first.part(part)),
                false => self.emit(opcode, [to, a], b),
            };
        }
        match op {
            Op::Mov => match first {
                Value::Constant(number) if wide => self.emit(opcodes::SPREAD_DOUBLE, [to, 0], Source::Constant(number)),
                Value::Constant(number) => self.emit(opcodes::SPREAD, [to, 0], Source::Constant(number)),
                _ => self.emit(opcodes::LOAD, [to, 0], first.part(part)),
            },
            Op::Select => self.select(wide, to, [first, second, third], part),
            Op::Fma => self.multiply_add(wide, to, [a, second.vector(part), third.vector(part)]),
            Op::Floor | Op::Ceil | Op::Trunc | Op::RoundEven => {
                let (opcode, how) = opcodes::round(op, wide);
                self.with(opcode, [to, 0], first.part(part), With::immediate(how));
            }
            Op::Min | Op::Max => {
                let other = self.in_vector(wide, second, part);
                self.extreme(op == Op::Min, wide, [to, a, other]);
            }
            Op::FromS | Op::FromU | Op::ToS | Op::ToU => self.convert(op, to, a),
            Op::Shl | Op::ShrU | Op::ShrS | Op::Rotl => self.shifted(instruction, to, [first, second], part),
            _ => self.bits(op, ty, to, a),
        }
    }

    fn select(&mut self, wide: bool, to: u8, [yes, no, condition]: [Value; 3], part: u8) {
        let mut mask = condition.vector(0);
        if part != 0 {
            let upper = FREE_MASKS[1];
            self.code().shift_mask(upper, mask, 8);
            mask = upper;
        }
        match no {
            // The instruction takes a constant as what is chosen where the mask is set.
            Value::Constant(_) => {
                let opposite = FREE_MASKS[0];
                self.code().not_mask(opposite, mask);
                self.with(opcodes::blend(wide), [to, yes.vector(part)], no.part(part), With::mask(opposite));
            }
            _ => self.with(opcodes::blend(wide), [to, no.vector(part)], yes.part(part), With::mask(mask)),
        }
    }

    fn multiply_add(&mut self, wide: bool, to: u8, [a, b, c]: [u8; 3]) {
        if to == c {
            self.emit(opcodes::multiply_add(true, wide), [to, a], Source::Register(b));
        } else if to == a {
            self.emit(opcodes::multiply_add(false, wide), [to, b], Source::Register(c));
        } else if to == b {
            self.emit(opcodes::multiply_add(false, wide), [to, a], Source::Register(c));
        } else {
            self.emit(opcodes::LOAD, [to, 0], Source::Register(c));
            self.emit(opcodes::multiply_add(true, wide), [to, a], Source::Register(b));
        }
    }
}

impl Plain<'_> {
    /// A source in a vector, a constant in a free one.
    fn in_vector(&mut self, wide: bool, value: Value, part: u8) -> u8 {
        let Value::Constant(number) = value else { return value.vector(part) };
        let opcode = if wide { opcodes::SPREAD_DOUBLE } else { opcodes::SPREAD };
        self.emit(opcode, [FREE[0], 0], Source::Constant(number));
        FREE[0]
    }

    /// MIN and MAX: `x` where `y` is a NaN, where `x` compares so, and of equal ones where `x` has the sign that counts as less or more.
    fn extreme(&mut self, least: bool, wide: bool, [to, x, y]: [u8; 3]) {
        let [chosen, mask] = FREE_MASKS;
        let compare = opcodes::compare_numbers(wide);
        self.with(compare, [chosen, y], Source::Register(y), With::immediate(opcodes::UNORDERED));
        let order = if least { Comparison::Lt } else { Comparison::Gt };
        self.with(compare, [mask, x], Source::Register(y), With::immediate(opcodes::relation(order)));
        self.code().masks(MaskOp::Or, chosen, chosen, mask);
        self.with(compare, [mask, x], Source::Register(y), With::immediate(opcodes::relation(Comparison::Eq)));
        let sign = self.number(wide, sign(wide));
        self.with(opcodes::test(wide, !least), [mask, x], sign, With::mask(mask));
        self.code().masks(MaskOp::Or, chosen, chosen, mask);
        self.with(opcodes::blend(wide), [to, y], Source::Register(x), With::mask(chosen));
    }

    /// Between words and binary32: what does not fit becomes the nearest that does, a NaN 0.
    fn convert(&mut self, op: Op, to: u8, from: u8) {
        let (mask, compare) = (FREE_MASKS[1], opcodes::compare_numbers(false));
        match op {
            Op::ToS => {
                let result = FREE[0];
                self.emit(opcodes::convert(op), [result, 0], Source::Register(from));
                let end = self.number(false, f32::to_bits(2_147_483_648.0).into());
                self.with(compare, [mask, from], end, With::immediate(opcodes::relation(Comparison::Ge)));
                let most = self.code().constant(&i32::MAX.to_le_bytes());
                self.with(opcodes::SPREAD, [result, 0], Source::Constant(most), With::mask(mask));
                self.with(
                    compare,
                    [mask, from],
                    Source::Register(from),
                    With::immediate(opcodes::relation(Comparison::Eq)),
                );
                self.with(opcodes::LOAD, [to, 0], Source::Register(result), With { zero: true, ..With::mask(mask) });
            }
            Op::ToU => {
                let zero = self.number(false, 0);
                self.with(compare, [mask, from], zero, With::immediate(opcodes::relation(Comparison::Gt)));
                let with = With { zero: true, ..With::mask(mask) };
                self.with(opcodes::convert(op), [to, 0], Source::Register(from), with);
            }
            _ => self.emit(opcodes::convert(op), [to, 0], Source::Register(from)),
        }
    }

    fn shifted(&mut self, instruction: &Instruction, to: u8, [value, by]: [Value; 2], part: u8) {
        let (op, bits) = (instruction.op, instruction.ty.bits());
        let wide = bits == 64;
        if instruction.constant {
            let by = instruction.immediate % u64::from(bits);
            return self.shift(op, wide, [to, value.vector(part)], by as u8);
        }
        let amount = FREE[0];
        let mut from = by.vector(0);
        if wide {
            self.widen(opcodes::UNSIGNED, amount, from, part);
            from = amount;
        }
        let most = self.number(wide, u64::from(bits) - 1);
        self.emit(opcodes::and(wide), [amount, from], most);
        self.emit(opcodes::shift_each(op, wide), [to, value.vector(part)], Source::Register(amount));
    }

    /// Negation, absolute value, complement, trailing zeros and sign extension of one vector.
    fn bits(&mut self, op: Op, ty: Type, to: u8, from: u8) {
        let (wide, free) = (ty.bits() == 64, FREE[0]);
        match op {
            Op::Neg if ty.is_float() => {
                let sign = self.number(wide, sign(wide));
                self.emit(opcodes::xor(wide), [to, from], sign);
            }
            Op::Abs => {
                let others = self.number(wide, !sign(wide));
                self.emit(opcodes::and(wide), [to, from], others);
            }
            Op::Neg => {
                self.emit(opcodes::xor(wide), [free, free], Source::Register(free));
                self.emit(opcodes::subtract(wide), [to, free], Source::Register(from));
            }
            Op::Not => {
                let ones = self.number(wide, u64::MAX);
                self.emit(opcodes::xor(wide), [to, from], ones);
            }
            Op::TrailingZeros => {
                let ones = self.number(wide, u64::MAX);
                self.emit(opcodes::add(wide), [free, from], ones);
                self.emit(opcodes::and_not(wide), [free, from], Source::Register(free));
                self.emit(opcodes::count_ones(wide), [to, 0], Source::Register(free));
            }
            _ => {
                let rest = ty.bits() as u8 - if op == Op::Sext8 { 8 } else { 16 };
                self.shift(Op::Shl, wide, [to, from], rest);
                self.shift(Op::ShrS, wide, [to, to], rest);
            }
        }
    }

    /// The words of a system value.
    fn system(&mut self, value: SystemValue, to: u8) {
        let header = self.header;
        let number = value as usize;
        match value {
            SystemValue::LocalIdX | SystemValue::LocalIdY | SystemValue::LocalIdZ => self.local(number, to),
            SystemValue::WorkgroupIdX | SystemValue::WorkgroupIdY | SystemValue::WorkgroupIdZ => {
                let dimension = number - SystemValue::WorkgroupIdX as usize;
                self.field(to, offset_of!(Context, workgroup) + dimension * 4);
            }
            SystemValue::GlobalIdX | SystemValue::GlobalIdY | SystemValue::GlobalIdZ => {
                let dimension = number - SystemValue::GlobalIdX as usize;
                let size = [header.workgroup_x, header.workgroup_y, header.workgroup_z].get(dimension).copied();
                self.local(dimension, to);
                self.field(FREE[0], offset_of!(Context, workgroup) + dimension * 4);
                let size = self.number(false, size.unwrap_or(0).into());
                self.emit(opcodes::MULTIPLY, [FREE[0], FREE[0]], size);
                self.emit(opcodes::add(false), [to, to], Source::Register(FREE[0]));
            }
            SystemValue::WorkgroupSizeX => self.same(to, header.workgroup_x),
            SystemValue::WorkgroupSizeY => self.same(to, header.workgroup_y),
            SystemValue::WorkgroupSizeZ => self.same(to, header.workgroup_z),
            SystemValue::WorkgroupCountX | SystemValue::WorkgroupCountY | SystemValue::WorkgroupCountZ => {
                let dimension = number - SystemValue::WorkgroupCountX as usize;
                self.field(to, offset_of!(Context, count) + dimension * 4);
            }
            SystemValue::SubgroupId => self.field(to, offset_of!(Context, subgroup)),
            SystemValue::SubgroupCount => self.same(to, header.subgroups()),
            SystemValue::LaneId => self.lanes(to),
            SystemValue::LocalIndex => {
                self.lanes(to);
                self.field(FREE[0], offset_of!(Context, subgroup));
                self.shift(Op::Shl, false, [FREE[0], FREE[0]], LANES.trailing_zeros() as u8);
                self.emit(opcodes::add(false), [to, to], Source::Register(FREE[0]));
            }
        }
    }

    /// A number in all lanes.
    fn same(&mut self, to: u8, number: u32) {
        let number = self.code().constant(&number.to_le_bytes());
        self.emit(opcodes::SPREAD, [to, 0], Source::Constant(number));
    }

    /// A word of the context in all lanes.
    fn field(&mut self, to: u8, offset: usize) {
        self.emit(opcodes::SPREAD, [to, 0], Source::Element(RDI, offset as i32));
    }

    /// Numbers of the lanes in their subgroup.
    fn lanes(&mut self, to: u8) {
        let first = self.registers.half as u32 * 16;
        let bytes: Vec<u8> = (first..first + 16).flat_map(u32::to_le_bytes).collect();
        let lanes = self.code().constant(&bytes);
        self.emit(opcodes::LOAD, [to, 0], Source::Constant(lanes));
    }

    fn local(&mut self, dimension: usize, to: u8) {
        let half = self.registers.half;
        self.code().load(true, RAX, RDI, offset_of!(Context, local) as i32);
        self.emit(opcodes::LOAD, [to, 0], Source::At(RAX, dimension as i32 * WORD + half * 64));
    }
}

/// Bit of the sign.
fn sign(wide: bool) -> u64 {
    if wide { 1 << 63 } else { 1 << 31 }
}

/// True if the result or a source of an operation is of another file than the others.
fn is_of_both_files(op: Op) -> bool {
    matches!(op, Op::Narrow | Op::WidenS | Op::WidenU | Op::Pack | Op::Index)
}

//! Plain instructions on vectors.

use super::bytes::{Bytes, MaskOp, RDI, Source, With};
use super::form::Form;
use super::masks::direct;
use super::opcodes;
use super::registers::{ASIDE, Part, Registers, Uses};
use crate::context::Context;
use crate::segment::{File, constant_file, takes_any_nan};
use campanile_hw::isa::{Comparison, Instruction, Op, Operand, ProgramHeader, Type};
use iced_x86::Code;
use std::mem::offset_of;

/// True for a plain instruction that there is code for.
pub(crate) fn has_code(form: Form, instruction: &Instruction) -> bool {
    let doubles = instruction.ty == Type::I64;
    let lacks = match instruction.op {
        Op::CountOnes | Op::LeadingZeros | Op::TrailingZeros => true,
        Op::Mul | Op::Min | Op::MinU | Op::Max | Op::MaxU | Op::Abs | Op::ShrS | Op::Sext8 | Op::Sext16 => doubles,
        _ => false,
    };
    if form == Form::Avx2 && lacks {
        return false;
    }
    let words =
        matches!((instruction.ty, instruction.source()), (Type::F32, Some(Type::I32)) | (Type::I32, Some(Type::F32)));
    match instruction.op {
        Op::MulHighS | Op::MulHighU | Op::ReverseBits | Op::Convert => false,
        Op::DivS | Op::DivU | Op::RemS | Op::RemU => !doubles,
        Op::FromS | Op::FromU | Op::ToS | Op::ToU => words,
        _ => true,
    }
}

/// The instructions of a stretch that use each part of a register.
pub(crate) fn all_uses(code: &[Instruction]) -> Uses {
    let mut all = Uses { simple: code.iter().all(is_simple), ..Uses::default() };
    for (at, instruction) in code.iter().enumerate() {
        let [to, sources @ ..] = instruction.registers();
        all_parts(sources).for_each(|part| all.reads.entry(part).or_default().push(at));
        all_parts([to]).for_each(|part| all.writes.entry(part).or_default().push(at));
    }
    all
}

/// True for an instruction on words or doubles whose code uses no vectors for what is in between but the last of [`Form::free`], and that in which a NaN is found.
fn is_simple(instruction: &Instruction) -> bool {
    let (op, ty) = (instruction.op, instruction.ty);
    let alone = matches!(op, Op::Mov | Op::Fma | Op::Floor | Op::Ceil | Op::Trunc | Op::RoundEven);
    let shifts = matches!(op, Op::Shl | Op::ShrU | Op::ShrS | Op::Rotl) && instruction.constant;
    ty != Type::B1 && (alone || shifts || opcodes::simple(op, ty).is_some())
}

/// Parts of some of the registers of an instruction.
fn all_parts<const COUNT: usize>(registers: [(Operand, u8, u32); COUNT]) -> impl Iterator<Item = Part> {
    let files = registers.into_iter().filter_map(|(file, number, _)| Some((File::of(file)?, number)));
    files.flat_map(|(file, number)| (0..parts(file)).map(move |part| (file, number, part)))
}

/// Vectors of a register.
fn parts(file: File) -> u8 {
    if file == File::Double { 2 } else { 1 }
}

/// A source: a register of a file or a constant.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Vectors([u8; 2]),
    Constant(usize),
    Mask(u8),
    /// In memory, of an operand that need not be a register.
    Memory([Source; 2]),
}

impl Value {
    pub(super) fn part(self, part: u8) -> Source {
        match self {
            Self::Vectors(vectors) => Source::Register(vectors[usize::from(part)]),
            Self::Constant(number) => Source::Spread(number),
            Self::Mask(mask) => Source::Register(mask),
            Self::Memory(places) => places[usize::from(part)],
        }
    }

    pub(super) fn vector(self, part: u8) -> u8 {
        match self {
            Self::Vectors(vectors) => vectors[usize::from(part)],
            Self::Mask(mask) => mask,
            Self::Constant(_) | Self::Memory(_) => 0,
        }
    }
}

/// True if two sources of an instruction may change places.
fn is_commutative(op: Op) -> bool {
    matches!(op, Op::Add | Op::Mul | Op::And | Op::Or | Op::Xor | Op::Min | Op::MinU | Op::Max | Op::MaxU)
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
    pub(super) fn code(&mut self) -> &mut Bytes {
        self.registers.code
    }

    pub(super) fn form(&self) -> Form {
        self.registers.form()
    }

    pub(super) fn free(&self) -> [u8; 3] {
        self.form().free()
    }

    pub(super) fn emit(&mut self, opcode: Code, operands: [u8; 2], source: Source) {
        self.with(opcode, operands, source, With::default());
    }

    pub(super) fn with(&mut self, opcode: Code, operands: [u8; 2], source: Source, mut with: With) {
        if with.mask == 0 {
            with.mask = self.mask;
        }
        self.code().vector(opcode, operands, source, with);
    }

    /// A constant of one element in all elements.
    pub(super) fn number(&mut self, wide: bool, bits: u64) -> Source {
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

    /// Takes a source out of the registers of an instruction whose code may have it in memory, as the last one, if it lies there and is not read again. It saves a load, and a vector.
    fn operand_in_memory(&self, instruction: &Instruction, sources: &mut Vec<(File, u8)>) -> Option<Value> {
        let takes_two = opcodes::simple(instruction.op, instruction.ty).is_some_and(|(_, alone)| !alone);
        let &[first, second] = &sources[..] else { return None };
        let masks = [first, second].iter().any(|(file, _)| *file == File::Predicate);
        if !takes_two || instruction.constant || first == second || masks {
            return None;
        }
        let place = |(file, number): (File, u8), part| self.registers.read_once((file, number, part % parts(file)));
        let both = |source: (File, u8)| Some(Value::Memory([place(source, 0)?, place(source, 1)?]));
        let found = both(second).map(|value| (1, value));
        let found =
            found.or_else(|| is_commutative(instruction.op).then(|| both(first)).flatten().map(|value| (0, value)));
        found.map(|(at, value)| {
            sources.remove(at);
            value
        })
    }

    /// The constant of an instruction as a register of a file.
    fn constant(&mut self, file: File, bits: u64) -> Value {
        if file != File::Predicate {
            let Source::Spread(number) = self.number(file == File::Double, bits) else { return Value::Constant(0) };
            return Value::Constant(number);
        }
        let [mask, _] = self.form().free_masks();
        self.code().set_mask(mask, bits & 1 != 0);
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
        let mut registers: Vec<(File, u8)> = Vec::with_capacity(3);
        for (place, from) in [from_a, from_b, from_c].into_iter().enumerate() {
            registers.extend(register(from).filter(|_| place != 1 || !instruction.constant));
        }
        let in_memory = self.operand_in_memory(instruction, &mut registers);
        let mut sources: Vec<Value> =
            registers.into_iter().map(|(file, number)| self.source(file, number, of.or(copied))).collect();
        sources.extend(in_memory);
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
                let [no, yes] = self.form().free_masks();
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
        let (of_integers, inverse) = direct(self.form(), comparison, wide);
        let [low, high] = self.form().free_masks();
        let masks = if wide { [low, high] } else { [to, 0] };
        let with = With::mask(self.mask);
        for (part, mask) in (0..if wide { 2 } else { 1 }).zip(masks) {
            let (operands, second) = ([mask, first.vector(part)], second.part(part));
            if instruction.ty.is_float() {
                let relation = (opcodes::relation(comparison), wide);
                self.code().compare_numbers(relation, operands, second, with);
            } else {
                self.code().compare_integers((of_integers, wide), operands, second, with);
            }
        }
        if wide {
            self.code().join_masks(to, [low, high]);
        }
        if inverse && !instruction.ty.is_float() {
            self.code().not_mask(to, to);
        }
    }

    /// An instruction whose sources are of another file than its result.
    fn between_files(&mut self, instruction: &Instruction, to: Value, sources: &[Value]) {
        let [first, second] = [0, 1].map(|place| sources.get(place).or(sources.last()).copied());
        let (Some(first), Some(second)) = (first, second) else { return };
        let [low, high, _] = self.free();
        match instruction.op {
            Op::Narrow if self.form() == Form::Avx2 => {
                self.code().low_words(to.vector(0), [first.vector(0), first.vector(1)]);
            }
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
        let [.., upper] = self.free();
        self.with(opcodes::TAKE_UPPER, [from, 0], Source::Register(upper), With::immediate(1));
        self.emit(opcode, [to, 0], Source::Register(upper));
    }

    /// Shifts all elements by one number.
    pub(super) fn shift(&mut self, op: Op, wide: bool, [to, from]: [u8; 2], by: u8) {
        if op == Op::Rotl && self.form() == Form::Avx2 {
            return self.rotate(wide, [to, from], by);
        }
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
            Op::DivS | Op::DivU | Op::RemS | Op::RemU => self.divide(op, to, [first, second]),
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
        let [opposite, free] = self.form().free_masks();
        let mut mask = condition.vector(0);
        if wide {
            mask = self.code().part_of_mask(free, mask, part);
        }
        match (no, self.form()) {
            // The instruction takes a constant as what is chosen where the mask is set.
            (Value::Constant(_), Form::Avx512) => {
                self.code().not_mask(opposite, mask);
                self.with(opcodes::blend(wide), [to, yes.vector(part)], no.part(part), With::mask(opposite));
            }
            _ => {
                let no = self.in_vector(wide, no, part);
                self.with(opcodes::blend(wide), [to, no], yes.part(part), With::mask(mask));
            }
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
    pub(super) fn in_vector(&mut self, wide: bool, value: Value, part: u8) -> u8 {
        let Value::Constant(number) = value else { return value.vector(part) };
        let opcode = if wide { opcodes::SPREAD_DOUBLE } else { opcodes::SPREAD };
        let [free, ..] = self.free();
        self.emit(opcode, [free, 0], Source::Constant(number));
        free
    }

    /// MIN and MAX: `x` where `y` is a NaN, where `x` compares so, and of equal ones where `x` has the sign that counts as less or more.
    fn extreme(&mut self, least: bool, wide: bool, [to, x, y]: [u8; 3]) {
        let [chosen, mask] = self.form().free_masks();
        let (order, lanes) = (if least { Comparison::Lt } else { Comparison::Gt }, With::mask(self.mask));
        for (relation, [to, first]) in [
            (opcodes::UNORDERED, [chosen, y]),
            (opcodes::relation(order), [mask, x]),
            (opcodes::relation(Comparison::Eq), [mask, x]),
        ] {
            self.code().compare_numbers((relation, wide), [to, first], Source::Register(y), lanes);
            if relation == opcodes::relation(Comparison::Eq) {
                self.code().keep_signs(wide, mask, x, least);
            }
            if to == mask {
                self.code().masks(MaskOp::Or, chosen, chosen, mask);
            }
        }
        self.with(opcodes::blend(wide), [to, y], Source::Register(x), With::mask(chosen));
    }

    /// Between words and binary32: what does not fit becomes the nearest that does, a NaN 0.
    fn convert(&mut self, op: Op, to: u8, from: u8) {
        if self.form() == Form::Avx2 {
            return self.convert_halves(op, to, from);
        }
        let ([_, mask], compare) = (self.form().free_masks(), opcodes::compare_numbers(false));
        match op {
            Op::ToS => {
                let [result, ..] = self.free();
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
        let [amount, ..] = self.free();
        let mut from = by.vector(0);
        if wide {
            self.widen(opcodes::UNSIGNED, amount, from, part);
            from = amount;
        }
        let most = self.number(wide, u64::from(bits) - 1);
        self.emit(opcodes::and(wide), [amount, from], most);
        if op == Op::Rotl && self.form() == Form::Avx2 {
            return self.rotate_each(wide, [to, value.vector(part)], amount);
        }
        self.emit(opcodes::shift_each(op, wide), [to, value.vector(part)], Source::Register(amount));
    }

    /// Negation, absolute value, complement, trailing zeros and sign extension of one vector.
    fn bits(&mut self, op: Op, ty: Type, to: u8, from: u8) {
        let (wide, [free, ..]) = (ty.bits() == 64, self.free());
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
}

/// Bit of the sign.
fn sign(wide: bool) -> u64 {
    if wide { 1 << 63 } else { 1 << 31 }
}

/// True if the result or a source of an operation is of another file than the others.
fn is_of_both_files(op: Op) -> bool {
    matches!(op, Op::Narrow | Op::WidenS | Op::WidenU | Op::Pack | Op::Index)
}

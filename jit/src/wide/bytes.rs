//! Instructions of the host's processor in the order in which they are made, with labels, and with the constants that they use behind them.

use super::form::Form;
use super::halves::half;
use iced_x86::{Code, Encoder, EncodingKind, Instruction, OpCodeOperandKind, OpKind, Register};

/// The operand of an instruction that may lie in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// A vector register, or a general one where the instruction takes that.
    Register(u8),
    /// A whole vector at a general register and a number of bytes.
    At(u8, i32),
    /// A single element there.
    Element(u8, i32),
    /// A whole constant.
    Constant(usize),
    /// A constant of one element, in all elements.
    Spread(usize),
    /// What the elements of a vector register have as their addresses, and a number of bytes behind.
    Each(u8, i32),
}

/// What an instruction has beside its operands: the mask of the elements that are written, or by which elements are chosen, whether the others become zero, and an immediate operand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct With {
    pub(crate) mask: u8,
    pub(crate) zero: bool,
    pub(crate) immediate: Option<u32>,
}

impl With {
    pub(crate) fn mask(mask: u8) -> Self {
        Self { mask, ..Self::default() }
    }

    pub(crate) fn immediate(immediate: u8) -> Self {
        Self { immediate: Some(immediate.into()), ..Self::default() }
    }
}

/// General registers that the code uses; a function need not preserve them.
pub(crate) const RAX: u8 = 0;
pub(crate) const RCX: u8 = 1;
pub(crate) const RDX: u8 = 2;
pub(crate) const RSI: u8 = 6;
pub(crate) const RDI: u8 = 7;
pub(crate) const R8: u8 = 8;

/// An operation on masks with three operands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MaskOp {
    And,
    /// The second, where the first is not set.
    AndNot,
    Or,
    Xor,
}

/// A place in the code that is jumped to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label(usize);

/// Bytes of a distance in the code.
const DISTANCE: usize = 4;

/// Code on its way, with the constants that it uses.
pub(crate) struct Bytes {
    form: Form,
    encoder: Encoder,
    len: usize,
    /// The first error of an instruction that could not be encoded; `finish` returns it.
    error: Option<String>,
    constants: Vec<Vec<u8>>,
    /// Places of distances to constants, the end of the instruction of each, and the number of the constant.
    to_constants: Vec<(usize, usize, usize)>,
    labels: Vec<Option<usize>>,
    /// The same of labels.
    to_labels: Vec<(usize, usize, usize)>,
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bytes").field("len", &self.len).finish_non_exhaustive()
    }
}

/// The field of an instruction that an operand is in.
enum Field {
    First,
    Second,
    Source,
    Immediate(OpKind),
    /// The mask of [`With`], as a vector.
    Mask,
    /// AL, which a few instructions always have.
    Fixed(Register),
}

/// The field of an operand, and the first register of its kind.
fn field(kind: OpCodeOperandKind) -> Option<(Field, Register)> {
    use OpCodeOperandKind::*;
    let field = match kind {
        zmm_reg | ymm_reg | xmm_reg | k_reg | r32_reg | r64_reg | r16_reg | r8_reg => Field::First,
        zmm_vvvv | ymm_vvvv | k_vvvv => Field::Second,
        ymm_is4 => Field::Mask,
        imm8 => Field::Immediate(OpKind::Immediate8),
        imm8sex32 => Field::Immediate(OpKind::Immediate8to32),
        imm32 => Field::Immediate(OpKind::Immediate32),
        imm32sex64 => Field::Immediate(OpKind::Immediate32to64),
        al => Field::Fixed(Register::AL),
        _ => Field::Source,
    };
    let first = match kind {
        zmm_reg | zmm_vvvv | zmm_or_mem | zmm_rm | mem_vsib64z => Register::ZMM0,
        ymm_reg | ymm_vvvv | ymm_or_mem | ymm_rm | ymm_is4 => Register::YMM0,
        mem_vsib64y => Register::YMM0,
        xmm_reg | xmm_or_mem => Register::XMM0,
        k_reg | k_vvvv | k_rm | k_or_mem => Register::K0,
        r16_reg | r16_or_mem => Register::AX,
        r32_reg | r32_rm | r32_or_mem => Register::EAX,
        r64_reg | r64_rm | r64_or_mem | mem => Register::RAX,
        r8_reg | r8_or_mem => Register::AL,
        imm8 | imm8sex32 | imm32 | imm32sex64 | al => Register::None,
        _ => return Option::None,
    };
    Some((field, first))
}

impl Bytes {
    /// No code yet.
    pub(crate) fn new(form: Form) -> Self {
        Self {
            form,
            encoder: Encoder::new(64),
            len: 0,
            error: None,
            constants: Vec::new(),
            to_constants: Vec::new(),
            labels: Vec::new(),
            to_labels: Vec::new(),
        }
    }

    /// The vectors that the code is for.
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// The number of the next byte.
    pub(crate) fn here(&self) -> usize {
        self.len
    }

    /// The number of a constant.
    pub(crate) fn constant(&mut self, bytes: &[u8]) -> usize {
        let known = self.constants.iter().position(|known| known == bytes);
        known.unwrap_or_else(|| {
            self.constants.push(bytes.to_vec());
            self.constants.len() - 1
        })
    }

    /// The bytes of a constant.
    pub(crate) fn bytes_of(&self, constant: usize) -> &[u8] {
        self.constants.get(constant).map_or(&[], Vec::as_slice)
    }

    /// Notes why there is no code; the first reason counts.
    pub(crate) fn refuse(&mut self, reason: String) {
        self.error = self.error.take().or(Some(reason));
    }

    /// Adds an instruction; gives the places of its start and its end.
    fn encode(&mut self, instruction: &Instruction) -> (usize, usize) {
        let start = self.len;
        match self.encoder.encode(instruction, start as u64) {
            Ok(len) => self.len += len,
            Err(error) => self.refuse(error.to_string()),
        }
        (start, self.len)
    }

    /// Sets an operand that may lie in memory. Of a constant the distance is filled in at the end.
    fn memory(&self, instruction: &mut Instruction, operand: u32, source: Source) {
        let (base, offset) = match source {
            Source::At(base, offset) | Source::Element(base, offset) => (Register::RAX + u32::from(base), offset),
            Source::Each(index, offset) => {
                let first = if self.form == Form::Avx2 { Register::YMM0 } else { Register::ZMM0 };
                instruction.set_memory_index(first + u32::from(index));
                (Register::None, offset)
            }
            _ => (Register::RIP, 0),
        };
        Self::memory_at(instruction, operand, base, offset);
        instruction.set_is_broadcast(matches!(source, Source::Spread(_)));
    }

    /// A constant of one element as a whole vector, which is what instructions of AVX2 take.
    fn whole(&mut self, source: Source) -> Source {
        let Source::Spread(number) = source else { return source };
        let all: Vec<u8> = self.bytes_of(number).iter().copied().cycle().take(self.form.bytes()).collect();
        Source::Constant(self.constant(&all))
    }

    /// Sets an operand that lies in memory.
    fn memory_at(instruction: &mut Instruction, operand: u32, base: Register, offset: i32) {
        instruction.set_op_kind(operand, OpKind::Memory);
        instruction.set_memory_base(base);
        instruction.set_memory_displacement64(i64::from(offset) as u64);
        instruction.set_memory_displ_size(if matches!(base, Register::None | Register::RIP) { 8 } else { 1 });
    }

    /// An instruction: its register operand, its further source (any number if it has none), the operand that may lie in memory, and what it has beside them.
    pub(crate) fn vector(&mut self, mut code: Code, [first, second]: [u8; 2], mut source: Source, with: With) {
        if self.form == Form::Avx2 {
            code = half(code);
            source = self.whole(source);
            if code.op_code().encoding() == EncodingKind::EVEX {
                return self.refuse(format!("{code:?} is no instruction of AVX2"));
            }
            // Only an instruction that chooses by a vector has a mask there.
            let kinds = code.op_code().op_kinds();
            if with.zero || with.mask != 0 && !kinds.contains(&OpCodeOperandKind::ymm_is4) {
                return self
                    .refuse(format!("{code:?} of AVX2 leaves out no elements, but is given mask {}", with.mask));
            }
        }
        let mut instruction = Instruction::new();
        instruction.set_code(code);
        for (operand, kind) in (0..).zip(code.op_code().op_kinds()) {
            let Some((field, register)) = field(*kind) else {
                return self.refuse(format!("an operand of {code:?}"));
            };
            match (field, source) {
                (Field::First, _) => instruction.set_op_register(operand, register + u32::from(first)),
                (Field::Second, _) => instruction.set_op_register(operand, register + u32::from(second)),
                (Field::Mask, _) => instruction.set_op_register(operand, register + u32::from(with.mask)),
                (Field::Fixed(register), _) => instruction.set_op_register(operand, register),
                (Field::Immediate(kind), _) => {
                    let number = with.immediate.unwrap_or(0);
                    instruction.set_op_kind(operand, kind);
                    instruction.set_immediate_i32(operand, number as i32);
                }
                (Field::Source, Source::Register(number)) => {
                    instruction.set_op_register(operand, register + u32::from(number));
                }
                (Field::Source, source) => self.memory(&mut instruction, operand, source),
            }
        }
        if with.mask != 0 && self.form == Form::Avx512 {
            instruction.set_op_mask(Register::K0 + u32::from(with.mask));
            instruction.set_zeroing_masking(with.zero);
        }
        let (start, end) = self.encode(&instruction);
        if let Source::Constant(number) | Source::Spread(number) = source {
            let at = start + self.encoder.get_constant_offsets().displacement_offset();
            self.to_constants.push((at, end, number));
        }
    }

    /// An instruction on two registers.
    pub(crate) fn two(&mut self, code: Code, first: u8, second: u8) {
        self.vector(code, [first, 0], Source::Register(second), With::default());
    }

    /// An instruction on a register and a number.
    pub(crate) fn number(&mut self, code: Code, register: u8, number: u32) {
        let with = With { immediate: Some(number), ..With::default() };
        self.vector(code, [0, 0], Source::Register(register), with);
    }

    /// An instruction on a register and what lies in memory.
    pub(crate) fn with_memory(&mut self, code: Code, register: u8, base: u8, offset: i32) {
        self.vector(code, [register, 0], Source::Element(base, offset), With::default());
    }

    /// An instruction on memory and a number.
    pub(crate) fn memory_number(&mut self, code: Code, base: u8, offset: i32, number: u32) {
        let with = With { immediate: Some(number), ..With::default() };
        self.vector(code, [0, 0], Source::Element(base, offset), with);
    }

    /// Loads a general register, 32 or 64 bits.
    pub(crate) fn load(&mut self, wide: bool, to: u8, base: u8, offset: i32) {
        self.with_memory(if wide { Code::Mov_r64_rm64 } else { Code::Mov_r32_rm32 }, to, base, offset);
    }

    /// Stores a general register, 32 or 64 bits.
    pub(crate) fn store(&mut self, wide: bool, from: u8, base: u8, offset: i32) {
        self.with_memory(if wide { Code::Mov_rm64_r64 } else { Code::Mov_rm32_r32 }, from, base, offset);
    }

    /// `to |= from`, of 32 bits.
    pub(crate) fn or(&mut self, to: u8, from: u8) {
        self.two(Code::Or_r32_rm32, to, from);
    }

    /// Shifts 32 bits of a general register, left or right.
    pub(crate) fn shift(&mut self, left: bool, register: u8, by: u8) {
        let code = if left { Code::Shl_rm32_imm8 } else { Code::Shr_rm32_imm8 };
        self.number(code, register, by.into());
    }

    /// Sets 32 bits of a general register, and clears the others.
    pub(crate) fn set(&mut self, register: u8, number: u32) {
        self.number(Code::Mov_rm32_imm32, register, number);
    }

    /// `to += from`.
    pub(crate) fn add(&mut self, to: u8, from: u8) {
        self.two(Code::Add_r64_rm64, to, from);
    }

    /// Adds what lies in memory.
    pub(crate) fn add_from(&mut self, to: u8, base: u8, offset: i32) {
        self.with_memory(Code::Add_r64_rm64, to, base, offset);
    }

    pub(crate) fn copy(&mut self, to: u8, from: u8) {
        self.two(Code::Mov_r64_rm64, to, from);
    }

    /// `to ^= from`.
    pub(crate) fn exclusive_or(&mut self, to: u8, from: u8) {
        self.two(Code::Xor_r64_rm64, to, from);
    }

    /// `register &= number`, with zeros above 32 bits.
    pub(crate) fn and_number(&mut self, register: u8, number: u32) {
        self.number(Code::And_rm32_imm32, register, number);
    }

    /// Shifts a general register, left or right.
    pub(crate) fn shift_double(&mut self, register: u8, left: bool, by: u8) {
        let code = if left { Code::Shl_rm64_imm8 } else { Code::Shr_rm64_imm8 };
        self.number(code, register, by.into());
    }

    /// Compares a general register with what lies in memory.
    pub(crate) fn compare_with(&mut self, register: u8, base: u8, offset: i32) {
        self.with_memory(Code::Cmp_r64_rm64, register, base, offset);
    }

    /// Compares a general register, 32 or 64 bits, with a number below 2^31.
    pub(crate) fn compare_number(&mut self, wide: bool, register: u8, number: u32) {
        self.number(if wide { Code::Cmp_rm64_imm32 } else { Code::Cmp_rm32_imm32 }, register, number);
    }

    /// The number of the lowest bit that is set in 32 bits of a general register, one of which is.
    pub(crate) fn lowest(&mut self, to: u8, from: u8) {
        self.two(Code::Bsf_r32_rm32, to, from);
    }

    /// Loads a word or double by its number behind an address, both in general registers, and a number of bytes.
    pub(crate) fn load_numbered(&mut self, wide: bool, to: u8, (base, number): (u8, u8), offset: i32) {
        let code = if wide { Code::Mov_r64_rm64 } else { Code::Mov_r32_rm32 };
        self.numbered(code, [0, 1], (wide, to), (base, number), offset);
    }

    /// Stores a word or double there.
    pub(crate) fn store_numbered(&mut self, wide: bool, from: u8, (base, number): (u8, u8), offset: i32) {
        let code = if wide { Code::Mov_rm64_r64 } else { Code::Mov_rm32_r32 };
        self.numbered(code, [1, 0], (wide, from), (base, number), offset);
    }

    fn numbered(
        &mut self,
        code: Code,
        [of_register, of_memory]: [u32; 2],
        (wide, register): (bool, u8),
        (base, number): (u8, u8),
        offset: i32,
    ) {
        let mut instruction = Instruction::new();
        instruction.set_code(code);
        let first = if wide { Register::RAX } else { Register::EAX };
        instruction.set_op_register(of_register, first + u32::from(register));
        Self::memory_at(&mut instruction, of_memory, Register::RAX + u32::from(base), offset);
        instruction.set_memory_index(Register::RAX + u32::from(number));
        instruction.set_memory_index_scale(if wide { 8 } else { 4 });
        self.encode(&instruction);
    }

    /// Takes the lowest bit that is set out of 32 bits of a general register, and compares the rest with zero.
    pub(crate) fn without_lowest(&mut self, register: u8, free: u8) {
        self.two(Code::Mov_r32_rm32, free, register);
        self.number(Code::Sub_rm32_imm8, free, 1);
        self.two(Code::And_r32_rm32, register, free);
    }

    /// Compares so many of the low bits of RAX with zero: 4, 8, 16 or 32.
    pub(crate) fn test(&mut self, bits: u8) {
        let code = match bits {
            4 => return self.test_low(0xf),
            8 => Code::Test_rm8_r8,
            16 => Code::Test_rm16_r16,
            _ => Code::Test_rm32_r32,
        };
        self.two(code, RAX, RAX);
    }

    /// Compares bits of the low byte of RAX with zero.
    pub(crate) fn test_low(&mut self, bits: u8) {
        self.number(Code::Test_AL_imm8, RAX, bits.into());
    }

    /// Compares 32 bits of a general register with a number.
    pub(crate) fn compare(&mut self, register: u8, number: i8) {
        self.number(Code::Cmp_rm32_imm8, register, i32::from(number) as u32);
    }

    /// Jumps.
    pub(crate) fn branch(&mut self, code: Code, label: Label) {
        let mut instruction = Instruction::new();
        instruction.set_code(code);
        instruction.set_op0_kind(OpKind::NearBranch64);
        instruction.set_near_branch64(self.len as u64);
        let (_, end) = self.encode(&instruction);
        self.to_labels.push((end - DISTANCE, end, label.0));
    }

    /// Jumps if the first number that was compared last is the greater one, without signs.
    pub(crate) fn jump_above(&mut self, label: Label) {
        self.branch(Code::Ja_rel32_64, label);
    }

    pub(crate) fn jump(&mut self, label: Label) {
        self.branch(Code::Jmp_rel32_64, label);
    }

    /// Jumps if what was compared last is equal, or is not.
    pub(crate) fn jump_if(&mut self, equal: bool, label: Label) {
        self.branch(if equal { Code::Je_rel32_64 } else { Code::Jne_rel32_64 }, label);
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label here.
    pub(crate) fn place(&mut self, label: Label) {
        if let Some(place) = self.labels.get_mut(label.0) {
            *place = Some(self.len);
        }
    }

    /// Returns, the high parts of vectors being zero.
    pub(crate) fn end(&mut self) {
        for code in [Code::VEX_Vzeroupper, Code::Retnq] {
            self.encode(&Instruction::with(code));
        }
    }

    /// The code with its constants behind it.
    ///
    /// # Errors
    /// An instruction has operands that it cannot have: its error as text.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, String> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut bytes = self.encoder.take_buffer();
        let mut places = Vec::new();
        for constant in &self.constants {
            bytes.resize(bytes.len().next_multiple_of(constant.len().max(1)), 0);
            places.push(Some(bytes.len()));
            bytes.extend(constant);
        }
        let to_constants = self.to_constants.iter().map(|distance| (distance, &places));
        let to_labels = self.to_labels.iter().map(|distance| (distance, &self.labels));
        for ((at, end, number), places) in to_constants.chain(to_labels) {
            let place = places.get(*number).copied().flatten().ok_or_else(|| "a label without a place".to_string())?;
            let distance = (place.wrapping_sub(*end) as u32).to_le_bytes();
            bytes
                .get_mut(*at..*at + DISTANCE)
                .ok_or_else(|| "a distance outside of the code".to_string())?
                .copy_from_slice(&distance);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::opcodes;
    use super::*;
    use campanile_hw::isa::Comparison;

    #[test]
    fn a_mask_that_an_instruction_of_avx2_cannot_have_is_an_error() {
        let with = |form, code, mask: With| {
            let mut bytes = Bytes::new(form);
            bytes.vector(code, [0, 1], Source::Register(2), mask);
            bytes.finish()
        };
        let zero = With { zero: true, ..With::default() };
        assert!(with(Form::Avx512, opcodes::add(false), With::mask(3)).is_ok());
        assert!(with(Form::Avx2, opcodes::blend(false), With::mask(3)).is_ok());
        assert!(with(Form::Avx2, opcodes::add(false), With::default()).is_ok());
        for mask in [With::mask(3), zero] {
            let error = with(Form::Avx2, opcodes::add(false), mask).expect_err("all elements would be written");
            assert!(error.contains("Vpaddd"), "{error}");
        }
    }

    #[test]
    fn a_constant_of_another_size_that_is_compared_as_a_double_is_an_error() {
        let compared = |constant: &[u8]| {
            let mut bytes = Bytes::new(Form::Avx2);
            let constant = Source::Spread(bytes.constant(constant));
            bytes.compare_integers((Comparison::LtU, true), [0, 1], constant, With::default());
            bytes.finish()
        };
        assert!(compared(&[1; 8]).is_ok());
        assert!(compared(&[1; 4]).expect_err("four bytes").contains("4 bytes"));
    }
}

//! Instructions with one memory operand, carried out on saved registers.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::operands::{Memory, Registers, mask, slot};
use super::string;
use super::vector::{self, Vectors};

/// What became of an instruction: carried out, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Unsupported,
}

const CF: u64 = 1 << 0;
const PF: u64 = 1 << 2;
const AF: u64 = 1 << 4;
const ZF: u64 = 1 << 6;
const SF: u64 = 1 << 7;
const OF: u64 = 1 << 11;

/// True if an instruction that faulted at an address reaches its memory from there on.
pub(super) fn begins_at(instruction: &Instruction, registers: &Registers<'_>, address: u64) -> bool {
    match string::is_string(instruction) {
        true => string::is_at(instruction, registers, address),
        false => registers.effective_address(instruction) == Some(address),
    }
}

/// Carries `instruction` out with `memory` in place of what its operand names, and moves on behind it. Of a string instruction it is one element, after which the
/// thread may be at the same instruction.
pub(super) fn emulate(
    instruction: &Instruction,
    registers: &mut Registers<'_>,
    vectors: Option<Vectors>,
    memory: &mut impl Memory,
) -> Outcome {
    let goes_on = if string::is_string(instruction) {
        string::step(instruction, registers, memory)
    } else if vector::is_move(instruction) {
        let address = registers.effective_address(instruction);
        let both = address.zip(vectors);
        both.and_then(|(address, vectors)| vector::carry_out(instruction, vectors, address, memory)).map(|()| true)
    } else {
        let address = registers.effective_address(instruction);
        address.and_then(|address| general(instruction, registers, address, memory)).map(|()| true)
    };
    match goes_on {
        None => return Outcome::Unsupported,
        Some(true) => registers.set_word(libc::REG_RIP, instruction.next_ip()),
        Some(false) => {}
    }
    Outcome::Done
}

/// As [`emulate`], of an instruction on general registers whose operand lies at an address that its registers alone do not tell.
pub(super) fn emulate_at(
    instruction: &Instruction,
    registers: &mut Registers<'_>,
    address: u64,
    memory: &mut impl Memory,
) -> Outcome {
    if general(instruction, registers, address, memory).is_none() {
        return Outcome::Unsupported;
    }
    registers.set_word(libc::REG_RIP, instruction.next_ip());
    Outcome::Done
}

/// Carries out an instruction on general registers.
fn general(
    instruction: &Instruction,
    registers: &mut Registers<'_>,
    address: u64,
    memory: &mut impl Memory,
) -> Option<()> {
    let size = match instruction.memory_size().size() {
        size @ (1 | 2 | 4 | 8) if !instruction.has_rep_prefix() => size as u8,
        _ => return None,
    };
    let mut place = Place { memory, address, size };
    match instruction.mnemonic() {
        Mnemonic::Inc | Mnemonic::Dec | Mnemonic::Neg | Mnemonic::Not => change(instruction, registers, &mut place),
        Mnemonic::Xchg | Mnemonic::Xadd => exchange(instruction, registers, &mut place),
        Mnemonic::Cmpxchg => compare_and_exchange(instruction, registers, &mut place),
        _ if instruction.op_count() != 2 => None,
        Mnemonic::Mov | Mnemonic::Movnti if instruction.op0_kind() == OpKind::Memory => {
            let value = operand(instruction, 1, registers)?;
            place.write(value)
        }
        Mnemonic::Mov | Mnemonic::Movzx => load(instruction, registers, || place.read()),
        Mnemonic::Movsx | Mnemonic::Movsxd => {
            load(instruction, registers, || place.read().map(|value| sign_extend(value, size)))
        }
        _ => arithmetic(instruction, registers, &mut place),
    }
}

/// The operand in memory.
struct Place<'a, M> {
    memory: &'a mut M,
    address: u64,
    size: u8,
}

impl<M: Memory> Place<'_, M> {
    fn read(&mut self) -> Option<u64> {
        self.memory.read(self.address, self.size).map(|value| value & mask(self.size))
    }

    fn write(&mut self, value: u64) -> Option<()> {
        self.memory.write(self.address, self.size, value & mask(self.size))
    }
}

fn sign_extend(value: u64, size: u8) -> u64 {
    let shift = 64 - 8 * u32::from(size);
    ((value << shift) as i64 >> shift) as u64
}

/// Reads only when the destination is a register that can be written.
fn load(instruction: &Instruction, registers: &mut Registers<'_>, read: impl FnOnce() -> Option<u64>) -> Option<()> {
    let destination = instruction.op0_register();
    slot(destination.full_register())?;
    registers.set(destination, read()?)
}

/// Instructions whose one operand is read, changed and written.
fn change<M: Memory>(instruction: &Instruction, registers: &mut Registers<'_>, place: &mut Place<'_, M>) -> Option<()> {
    let old = place.read()?;
    let before = registers.flags();
    let (new, flags) = match instruction.mnemonic() {
        Mnemonic::Not => (!old, before),
        Mnemonic::Neg => compute(Mnemonic::Sub, 0, old, place.size, before),
        other => {
            let operation = if other == Mnemonic::Inc { Mnemonic::Add } else { Mnemonic::Sub };
            let (new, flags) = compute(operation, old, 1, place.size, before);
            // These two leave the carry.
            (new, flags & !CF | before & CF)
        }
    };
    place.write(new)?;
    registers.set_word(libc::REG_EFL, flags);
    Some(())
}

/// Exchanges memory and a register; the sum of both is what comes into memory by XADD.
fn exchange<M: Memory>(
    instruction: &Instruction,
    registers: &mut Registers<'_>,
    place: &mut Place<'_, M>,
) -> Option<()> {
    let memory_first = instruction.op0_kind() == OpKind::Memory;
    let register = instruction.op_register(u32::from(memory_first));
    let other = registers.get(register)?;
    let old = place.read()?;
    let before = registers.flags();
    let (new, flags) = match instruction.mnemonic() {
        Mnemonic::Xadd => compute(Mnemonic::Add, old, other, place.size, before),
        _ => (other, before),
    };
    place.write(new)?;
    registers.set(register, old)?;
    registers.set_word(libc::REG_EFL, flags);
    Some(())
}

/// "The destination operand receives a write cycle without regard to the result of the comparison." [sdm: CMPXCHG]
fn compare_and_exchange<M: Memory>(
    instruction: &Instruction,
    registers: &mut Registers<'_>,
    place: &mut Place<'_, M>,
) -> Option<()> {
    let accumulator = match place.size {
        1 => Register::AL,
        2 => Register::AX,
        4 => Register::EAX,
        _ => Register::RAX,
    };
    let (expected, new) = (registers.get(accumulator)?, registers.get(instruction.op1_register())?);
    let old = place.read()?;
    let (difference, flags) = compute(Mnemonic::Cmp, expected, old, place.size, registers.flags());
    place.write(if difference == 0 { new } else { old })?;
    if difference != 0 {
        registers.set(accumulator, old)?;
    }
    registers.set_word(libc::REG_EFL, flags);
    Some(())
}

/// Value of an operand that is not in memory.
fn operand(instruction: &Instruction, index: u32, registers: &Registers<'_>) -> Option<u64> {
    match instruction.op_kind(index) {
        OpKind::Register => registers.get(instruction.op_register(index)),
        OpKind::Immediate8
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate64
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64 => Some(instruction.immediate(index)),
        _ => None,
    }
}

/// Two-operand arithmetic with flags.
fn arithmetic<M: Memory>(
    instruction: &Instruction,
    registers: &mut Registers<'_>,
    place: &mut Place<'_, M>,
) -> Option<()> {
    let operation = instruction.mnemonic();
    let known = matches!(
        operation,
        Mnemonic::Cmp
            | Mnemonic::Test
            | Mnemonic::And
            | Mnemonic::Or
            | Mnemonic::Xor
            | Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::Adc
            | Mnemonic::Sbb
    );
    let memory_first = instruction.op0_kind() == OpKind::Memory;
    if !known || !(memory_first || instruction.op1_kind() == OpKind::Memory) {
        return None;
    }
    let other = operand(instruction, u32::from(memory_first), registers)?;
    let memory = place.read()?;
    let (left, right) = if memory_first { (memory, other) } else { (other, memory) };
    let size = place.size;
    let (result, flags) = compute(operation, left & mask(size), right & mask(size), size, registers.flags());
    if !matches!(operation, Mnemonic::Cmp | Mnemonic::Test) {
        if memory_first {
            place.write(result)?;
        } else {
            registers.set(instruction.op0_register(), result)?;
        }
    }
    registers.set_word(libc::REG_EFL, flags);
    Some(())
}

/// Result and flags of an operation on `size` bytes.
fn compute(operation: Mnemonic, left: u64, right: u64, size: u8, flags: u64) -> (u64, u64) {
    let sign = 1_u64 << (8 * u32::from(size) - 1);
    let carried = u64::from(matches!(operation, Mnemonic::Adc | Mnemonic::Sbb) && flags & CF != 0);
    let (result, carry, overflow, adjust) = match operation {
        Mnemonic::Add | Mnemonic::Adc => {
            let result = left.wrapping_add(right).wrapping_add(carried) & mask(size);
            let carry = result < left || carried != 0 && result == left;
            (result, carry, (left ^ result) & (right ^ result) & sign != 0, left ^ right ^ result)
        }
        Mnemonic::Sub | Mnemonic::Cmp | Mnemonic::Sbb => {
            let result = left.wrapping_sub(right).wrapping_sub(carried) & mask(size);
            let carry = left < right || carried != 0 && left == right;
            (result, carry, (left ^ right) & (left ^ result) & sign != 0, left ^ right ^ result)
        }
        Mnemonic::Or => (left | right, false, false, 0),
        Mnemonic::Xor => (left ^ right, false, false, 0),
        _ => (left & right, false, false, 0),
    };
    let mut new = flags & !(CF | PF | AF | ZF | SF | OF);
    for (set, flag) in [
        (carry, CF),
        ((result as u8).count_ones().is_multiple_of(2), PF),
        (adjust & 0x10 != 0, AF),
        (result == 0, ZF),
        (result & sign != 0, SF),
        (overflow, OF),
    ] {
        if set {
            new |= flag;
        }
    }
    (result, new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    struct Run {
        outcome: Outcome,
        rax: u64,
        flags: u64,
        written: Option<(u8, u64)>,
    }

    /// One value at every address, and what was written.
    struct Value {
        value: u64,
        written: Option<(u8, u64)>,
    }

    impl Memory for Value {
        fn read(&mut self, _: u64, _: u8) -> Option<u64> {
            Some(self.value)
        }
        fn write(&mut self, _: u64, size: u8, value: u64) -> Option<()> {
            self.written = Some((size, value));
            Some(())
        }
    }

    /// Runs code with rax = 0x1111111111111111, rbx = 0x22 and memory = `memory`.
    fn run(code: &[u8], memory: u64) -> Run {
        let mut words = [0_i64; 23];
        words[libc::REG_RAX as usize] = 0x1111_1111_1111_1111;
        words[libc::REG_RBX as usize] = 0x22;
        let mut registers = Registers(&mut words);
        let instruction = Decoder::with_ip(64, code, 0, DecoderOptions::NONE).decode();
        let mut memory = Value { value: memory, written: None };
        let outcome = emulate(&instruction, &mut registers, None, &mut memory);
        if outcome == Outcome::Done {
            assert_eq!(registers.rip(), code.len() as u64);
        }
        let written = memory.written;
        Run { outcome, rax: registers.word(libc::REG_RAX), flags: registers.word(libc::REG_EFL), written }
    }

    #[test]
    fn loads_extend_as_their_instruction_says() {
        let memory = 0xffff_ffff_8765_4380;
        for (code, expected) in [
            (&[0x48, 0x8b, 0x03][..], memory),                  // mov rax, [rbx]
            (&[0x8b, 0x03], 0x8765_4380),                       // mov eax, [rbx]
            (&[0x66, 0x8b, 0x03], 0x1111_1111_1111_4380),       // mov ax, [rbx]
            (&[0x8a, 0x03], 0x1111_1111_1111_1180),             // mov al, [rbx]
            (&[0x8a, 0x23], 0x1111_1111_1111_8011),             // mov ah, [rbx]
            (&[0x0f, 0xb6, 0x03], 0x80),                        // movzx eax, byte [rbx]
            (&[0x0f, 0xb7, 0x03], 0x4380),                      // movzx eax, word [rbx]
            (&[0x0f, 0xbe, 0x03], 0xffff_ff80),                 // movsx eax, byte [rbx]
            (&[0x48, 0x0f, 0xbe, 0x03], 0xffff_ffff_ffff_ff80), // movsx rax, byte [rbx]
            (&[0x48, 0x63, 0x03], 0xffff_ffff_8765_4380),       // movsxd rax, dword [rbx]
        ] {
            let run = run(code, memory);
            assert_eq!((run.outcome, run.rax, run.written), (Outcome::Done, expected, None), "{code:x?}");
        }
    }

    #[test]
    fn stores_write_registers_and_immediates_in_their_size() {
        for (code, expected) in [
            (&[0x48, 0x89, 0x03][..], (8, 0x1111_1111_1111_1111)), // mov [rbx], rax
            (&[0x89, 0x03], (4, 0x1111_1111)),                     // mov [rbx], eax
            (&[0x66, 0x89, 0x03], (2, 0x1111)),                    // mov [rbx], ax
            (&[0x88, 0x03], (1, 0x11)),                            // mov [rbx], al
            (&[0xc7, 0x03, 1, 0, 0, 0x80], (4, 0x8000_0001)),      // mov dword [rbx], 0x80000001
            (&[0x48, 0xc7, 0x03, 0xff, 0xff, 0xff, 0xff], (8, u64::MAX)), // mov qword [rbx], -1
            (&[0xc6, 0x03, 0x7f], (1, 0x7f)),                      // mov byte [rbx], 0x7f
            (&[0x83, 0x0b, 0x01], (4, 0xff)),                      // or dword [rbx], 1
            (&[0x83, 0x23, 0x0f], (4, 0xe)),                       // and dword [rbx], 15
        ] {
            let run = run(code, 0xfe);
            assert_eq!((run.outcome, run.written), (Outcome::Done, Some(expected)), "{code:x?}");
        }
    }

    #[test]
    fn comparisons_set_the_flags_of_the_processor() {
        // cmp dword [rbx], 5 against memory values.
        for (memory, expected) in [(5, ZF | PF), (4, CF | AF | SF | PF), (6, 0), (0x8000_0000, OF | AF)] {
            assert_eq!(run(&[0x83, 0x3b, 0x05], memory).flags, expected, "{memory:#x}");
        }
        // test byte [rbx], 0x80
        assert_eq!(run(&[0xf6, 0x03, 0x80], 0x80).flags, SF);
        assert_eq!(run(&[0xf6, 0x03, 0x80], 0x7f).flags, ZF | PF);
    }

    #[test]
    fn anything_else_is_left_alone() {
        for code in [
            &[0x0f, 0x10, 0x03][..], // movups xmm0, [rbx], without vector registers
            &[0xff, 0x13],           // call [rbx]
            &[0x0f, 0xab, 0x03],     // bts [rbx], eax
            &[0xf3, 0xa6],           // repe cmpsb
            &[0xd9, 0x03],           // fld dword [rbx]
        ] {
            let run = run(code, 0);
            assert_eq!((run.outcome, run.written), (Outcome::Unsupported, None), "{code:x?}");
            assert_eq!(run.rax, 0x1111_1111_1111_1111);
        }
    }
}

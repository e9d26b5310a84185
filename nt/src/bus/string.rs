//! String instructions, which `READ_REGISTER_BUFFER_ULONG` and its kin are made of: one element at a time, so that each access of a device is of the size of an
//! element, and in order.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::operands::{Memory, Registers};

/// The flag by which addresses go down.
const DIRECTION: u64 = 1 << 10;

/// True for those that are carried out.
pub(super) fn is_string(instruction: &Instruction) -> bool {
    instruction.is_string_instruction()
        && matches!(
            instruction.mnemonic(),
            Mnemonic::Movsb
                | Mnemonic::Movsw
                | Mnemonic::Movsd
                | Mnemonic::Movsq
                | Mnemonic::Stosb
                | Mnemonic::Stosw
                | Mnemonic::Stosd
                | Mnemonic::Stosq
                | Mnemonic::Lodsb
                | Mnemonic::Lodsw
                | Mnemonic::Lodsd
                | Mnemonic::Lodsq
        )
}

/// True if the next element lies at an address.
pub(super) fn is_at(instruction: &Instruction, registers: &Registers<'_>, address: u64) -> bool {
    (0..instruction.op_count()).any(|operand| place(instruction, operand, registers) == Some(address))
}

/// Address of an operand in memory.
fn place(instruction: &Instruction, operand: u32, registers: &Registers<'_>) -> Option<u64> {
    match instruction.op_kind(operand) {
        OpKind::MemoryESRDI => registers.get(Register::RDI),
        // These two segments may begin elsewhere.
        OpKind::MemorySegRSI if !matches!(instruction.memory_segment(), Register::FS | Register::GS) => {
            registers.get(Register::RSI)
        }
        _ => None,
    }
}

/// Carries out the next element; with a prefix that repeats it the instruction goes on as long as there are more. `None` if that cannot be.
pub(super) fn step(instruction: &Instruction, registers: &mut Registers<'_>, memory: &mut impl Memory) -> Option<bool> {
    let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    let left = if repeats { registers.get(Register::RCX)? } else { 1 };
    if left == 0 {
        return Some(true);
    }
    let size = u8::try_from(instruction.memory_size().size()).ok()?;
    let value = match instruction.op1_kind() {
        OpKind::Register => registers.get(instruction.op1_register())?,
        _ => memory.read(place(instruction, 1, registers)?, size)?,
    };
    match instruction.op0_kind() {
        OpKind::Register => registers.set(instruction.op0_register(), value)?,
        _ => memory.write(place(instruction, 0, registers)?, size, value)?,
    }
    let by = u64::from(size);
    let by = if registers.flags() & DIRECTION == 0 { by } else { by.wrapping_neg() };
    for operand in 0..instruction.op_count() {
        let pointer = match instruction.op_kind(operand) {
            OpKind::MemoryESRDI => Register::RDI,
            OpKind::MemorySegRSI => Register::RSI,
            _ => continue,
        };
        registers.set(pointer, registers.get(pointer)?.wrapping_add(by))?;
    }
    if repeats {
        registers.set(Register::RCX, left - 1)?;
    }
    Some(!repeats || left == 1)
}

//! The registers and the memory that an instruction works on which is carried out in its place.

use iced_x86::{Instruction, OpKind, Register};

/// Memory that an instruction reaches, by its address. An access that cannot be made answers `None`.
pub(super) trait Memory {
    /// The value of so many bytes, 8 at most; what lies above them is not looked at.
    fn read(&mut self, address: u64, size: u8) -> Option<u64>;
    /// Writes as many bytes.
    fn write(&mut self, address: u64, size: u8, value: u64) -> Option<()>;
}

/// General registers of an interrupted thread, as the kernel saves them.
pub(super) struct Registers<'a>(pub(super) &'a mut [i64; 23]);

/// Index of a 64-bit register in the signal context; `None` for other registers.
pub(super) fn slot(register: Register) -> Option<usize> {
    let index = match register {
        Register::RAX => libc::REG_RAX,
        Register::RBX => libc::REG_RBX,
        Register::RCX => libc::REG_RCX,
        Register::RDX => libc::REG_RDX,
        Register::RSI => libc::REG_RSI,
        Register::RDI => libc::REG_RDI,
        Register::RBP => libc::REG_RBP,
        Register::RSP => libc::REG_RSP,
        Register::R8 => libc::REG_R8,
        Register::R9 => libc::REG_R9,
        Register::R10 => libc::REG_R10,
        Register::R11 => libc::REG_R11,
        Register::R12 => libc::REG_R12,
        Register::R13 => libc::REG_R13,
        Register::R14 => libc::REG_R14,
        Register::R15 => libc::REG_R15,
        _ => return None,
    };
    usize::try_from(index).ok()
}

fn is_high_byte(register: Register) -> bool {
    matches!(register, Register::AH | Register::BH | Register::CH | Register::DH)
}

/// All ones in the low `size` bytes.
pub(super) fn mask(size: u8) -> u64 {
    u64::MAX >> (64 - 8 * u32::from(size.clamp(1, 8)))
}

impl Registers<'_> {
    pub(super) fn word(&self, index: i32) -> u64 {
        usize::try_from(index).ok().and_then(|index| self.0.get(index)).map_or(0, |word| *word as u64)
    }

    pub(super) fn set_word(&mut self, index: i32, value: u64) {
        if let Some(word) = usize::try_from(index).ok().and_then(|index| self.0.get_mut(index)) {
            *word = value as i64;
        }
    }

    pub(super) fn flags(&self) -> u64 {
        self.word(libc::REG_EFL)
    }

    pub(super) fn rip(&self) -> u64 {
        self.word(libc::REG_RIP)
    }

    /// Address of the memory operand.
    pub(super) fn effective_address(&self, instruction: &Instruction) -> Option<u64> {
        let operand = (0..instruction.op_count()).find(|op| instruction.op_kind(*op) == OpKind::Memory)?;
        instruction.virtual_address(operand, 0, |register, _, _| match register {
            // Segments have base 0 in long mode; the two that may not are not used for device memory.
            Register::ES | Register::CS | Register::SS | Register::DS => Some(0),
            Register::RIP => Some(instruction.next_ip()),
            _ => self.get(register),
        })
    }

    pub(super) fn get(&self, register: Register) -> Option<u64> {
        let full = self.0.get(slot(register.full_register())?).map(|word| *word as u64)?;
        let full = if is_high_byte(register) { full >> 8 } else { full };
        Some(full & mask(u8::try_from(register.size()).ok()?))
    }

    /// Writes a register as an instruction does: 32-bit results clear the upper half, smaller ones leave the other bits as they are.
    pub(super) fn set(&mut self, register: Register, value: u64) -> Option<()> {
        let word = self.0.get_mut(slot(register.full_register())?)?;
        let old = *word as u64;
        let new = match register.size() {
            8 => value,
            4 => value & mask(4),
            2 => (old & !0xffff) | (value & 0xffff),
            1 if is_high_byte(register) => (old & !0xff00) | (value & 0xff) << 8,
            1 => (old & !0xff) | (value & 0xff),
            _ => return None,
        };
        *word = new as i64;
        Some(())
    }
}

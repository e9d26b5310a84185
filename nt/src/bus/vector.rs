// UNSAFETY: the saved vector registers of an interrupted thread.
//! Moves between memory and vector registers, carried out on the registers that the kernel has saved of an interrupted thread.

use std::arch::x86_64::__cpuid_count;

use iced_x86::{EncodingKind, Instruction, Mnemonic, OpKind, Register};

use super::operands::Memory;

/// Offsets in what the kernel saves: the lower halves of the registers, what it says of the whole, and which parts are in use. [sdm: XSAVE area; uapi: _fpx_sw_bytes]
const LOWER: usize = 160;
const SOFTWARE: usize = 464;
const IN_USE: usize = 512;
/// The first word of what the kernel says, if there is more than FXSAVE has.
const EXTENDED: u32 = 0x4650_5853;
/// Bits of the parts: the lower halves of registers, and the upper ones.
const SSE: u64 = 0x2;
const AVX: u64 = 0x4;

/// The saved registers of an interrupted thread.
#[derive(Clone, Copy)]
pub(super) struct Vectors(*mut u8);

impl Vectors {
    /// Those that begin at an address.
    ///
    /// # Safety
    /// The kernel has saved them there for the signal handler that uses this; NULL for none.
    pub(super) unsafe fn new(saved: *mut u8) -> Option<Self> {
        (!saved.is_null()).then_some(Self(saved))
    }

    fn word(self, offset: usize) -> u64 {
        // SAFETY: callers stay within what the kernel has saved.
        unsafe { self.0.wrapping_add(offset).cast::<u64>().read_unaligned() }
    }

    fn set_word(self, offset: usize, value: u64) {
        // SAFETY: as above, and the handler may change it until it returns.
        unsafe { self.0.wrapping_add(offset).cast::<u64>().write_unaligned(value) };
    }

    /// True if the parts in use are told, and upper halves are among what was saved.
    fn has(self, part: u64) -> bool {
        self.word(SOFTWARE) as u32 == EXTENDED && self.word(SOFTWARE + 8) & part != 0
    }

    /// Offset of the upper halves; `None` if they are not saved.
    fn upper(self) -> Option<usize> {
        const STATE: u32 = 0xd;
        const UPPER_HALVES: u32 = 2;
        self.has(AVX).then(|| __cpuid_count(STATE, UPPER_HALVES).ebx as usize)
    }

    /// The words of a register, of which an upper half that is not in use is zero.
    fn get(self, number: usize) -> [u64; 4] {
        let lower = LOWER + 16 * number;
        let upper = self.upper().filter(|_| self.word(IN_USE) & AVX != 0).map(|offset| offset + 16 * number);
        let [third, fourth] = [0, 8].map(|by| upper.map_or(0, |offset| self.word(offset + by)));
        [self.word(lower), self.word(lower + 8), third, fourth]
    }

    /// Sets a register: with its upper half, or without.
    fn set(self, number: usize, words: [u64; 4], whole: bool) {
        let lower = LOWER + 16 * number;
        self.set_word(lower, words[0]);
        self.set_word(lower + 8, words[1]);
        let upper = self.upper().filter(|_| whole);
        if let Some(upper) = upper.map(|offset| offset + 16 * number) {
            self.set_word(upper, words[2]);
            self.set_word(upper + 8, words[3]);
        }
        if self.has(SSE) {
            self.set_word(IN_USE, self.word(IN_USE) | SSE | if upper.is_some() { AVX } else { 0 });
        }
    }
}

/// True for an instruction that moves a vector register, or its first bytes, to memory or from there.
pub(super) fn is_move(instruction: &Instruction) -> bool {
    let moves = matches!(
        instruction.mnemonic(),
        Mnemonic::Movups
            | Mnemonic::Movaps
            | Mnemonic::Movupd
            | Mnemonic::Movapd
            | Mnemonic::Movdqu
            | Mnemonic::Movdqa
            | Mnemonic::Movntdq
            | Mnemonic::Movntps
            | Mnemonic::Movntpd
            | Mnemonic::Movntdqa
            | Mnemonic::Lddqu
            | Mnemonic::Movq
            | Mnemonic::Movd
            | Mnemonic::Movss
            | Mnemonic::Movsd
            | Mnemonic::Vmovups
            | Mnemonic::Vmovaps
            | Mnemonic::Vmovupd
            | Mnemonic::Vmovapd
            | Mnemonic::Vmovdqu
            | Mnemonic::Vmovdqa
            | Mnemonic::Vmovntdq
            | Mnemonic::Vmovntps
            | Mnemonic::Vmovntpd
            | Mnemonic::Vmovntdqa
            | Mnemonic::Vlddqu
            | Mnemonic::Vmovq
            | Mnemonic::Vmovd
            | Mnemonic::Vmovss
            | Mnemonic::Vmovsd
    );
    moves && instruction.op_count() == 2 && register_of(instruction).is_some()
}

fn register_of(instruction: &Instruction) -> Option<usize> {
    let register = match instruction.op0_kind() {
        OpKind::Memory => instruction.op1_register(),
        _ => instruction.op0_register(),
    };
    let vector = Register::is_xmm(register) || Register::is_ymm(register);
    // Those above have no place in what is looked at here.
    (vector && register.number() < 16 && instruction.encoding() != EncodingKind::EVEX).then_some(register.number())
}

/// Carries a move out, as accesses of up to eight bytes in order of their addresses. `None` if it cannot be, or where memory cannot be accessed.
pub(super) fn carry_out(
    instruction: &Instruction,
    vectors: Vectors,
    address: u64,
    memory: &mut impl Memory,
) -> Option<()> {
    let number = register_of(instruction)?;
    let size = instruction.memory_size().size();
    let piece = u8::try_from(size.min(8)).ok()?;
    let count = size / usize::from(piece);
    let whole = instruction.encoding() == EncodingKind::VEX;
    if !matches!(size, 4 | 8 | 16 | 32) || size == 32 && vectors.upper().is_none() {
        return None;
    }
    let addresses = (0..count as u64).map(|at| address.wrapping_add(8 * at));
    if instruction.op0_kind() == OpKind::Memory {
        for (address, word) in addresses.zip(vectors.get(number)) {
            memory.write(address, piece, word & u64::MAX >> (64 - 8 * u32::from(piece)))?;
        }
    } else {
        let mut words = [0; 4];
        for (address, word) in addresses.zip(&mut words) {
            *word = memory.read(address, piece)?;
        }
        vectors.set(number, words, whole);
    }
    Some(())
}

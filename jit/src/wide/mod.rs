//! Code for processors with vectors of 512 bits (AVX-512), beside that of the code generator, which has vectors of 128: stretches of plain instructions for sixteen lanes at a time, with the
//! registers of the GPU in those of the host from the first use to the end.
//!
//! Innermost loops on words are each one such function, too, which keeps all of them in vectors over the turns; and so is each kind of access to memory.
//!
//! Each stretch is a function of its own, with the address of the [`Context`](crate::context::Context) as its argument. It follows the calling convention of the host and calls nothing.

mod access;
mod bytes;
mod loops;
mod opcodes;
mod plain;
mod registers;
mod row;

use crate::context::{ACTIVE, Context};
pub(crate) use access::{Access, Space};
use bytes::{Bytes, RAX, RCX, RDI, RDX, RSI};
use campanile_hw::isa::{Instruction, ProgramHeader};
use campanile_shader::Kernel;
pub(crate) use loops::Loop;
pub(crate) use plain::has_code;
use plain::{Plain, all_reads};
use registers::Registers;
use std::mem::offset_of;

/// True if the processor has the instructions.
pub(crate) fn is_there() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512vpopcntdq")
}

/// The functions of a program.
#[derive(Debug, Default)]
pub(crate) struct Wide {
    code: Bytes,
    /// The places of the functions of accesses.
    accesses: Vec<(Access, usize)>,
}

impl Wide {
    /// Adds the function of a stretch of plain instructions, all of which [`has_code`]; gives its place.
    pub(crate) fn plain(&mut self, header: &ProgramHeader, code: &[Instruction]) -> usize {
        let start = self.code.here();
        for (register, offset) in [
            (RSI, offset_of!(Context, words)),
            (RDX, offset_of!(Context, doubles)),
            (RCX, offset_of!(Context, predicates)),
        ] {
            self.code.load(true, register, RDI, offset as i32);
        }
        self.code.load(false, RAX, RDI, ACTIVE);
        self.code.compare(RAX, -1);
        let some = self.code.label();
        self.code.jump_if(false, some);
        let reads = all_reads(code);
        for lanes in [false, true] {
            for half in 0..2 {
                let registers = Registers::new(&mut self.code, &reads, lanes, half);
                let mut plain = Plain { registers, header, mask: 0 };
                code.iter().for_each(|instruction| plain.execute(instruction));
                plain.registers.finish();
            }
            self.code.end();
            if !lanes {
                self.code.place(some);
            }
        }
        start
    }

    /// Adds the function of a loop; gives its place.
    pub(crate) fn turns(&mut self, kernel: &Kernel, of: &Loop) -> usize {
        let start = self.code.here();
        loops::generate(&mut self.code, kernel, of);
        start
    }

    /// The place of the function of an access, which [`Access::has_code`].
    pub(crate) fn access(&mut self, access: Access) -> usize {
        if let Some((_, place)) = self.accesses.iter().find(|(known, _)| *known == access) {
            return *place;
        }
        let place = self.code.here();
        access.generate(&mut self.code);
        self.accesses.push((access, place));
        place
    }

    /// The code of all functions; nothing if there are none.
    ///
    /// # Errors
    /// As [`Bytes::finish`].
    pub(crate) fn finish(self) -> Result<Vec<u8>, String> {
        self.code.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_hw::isa::Program;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};

    /// Copies from memory and to memory in the code of a stretch of plain instructions, for all lanes.
    fn copies(text: &str) -> [usize; 2] {
        let bytes = campanile_isa::assemble(text).expect("legal");
        let program = Program::validate(&bytes).expect("valid");
        let kernel = Kernel::new(&program);
        let [code @ .., _] = kernel.code() else { panic!("an EXIT at least") };
        assert!(code.iter().all(has_code));
        let mut wide = Wide::default();
        wide.plain(kernel.header(), code);
        let code = wide.code.finish().expect("encoded");
        let instructions: Vec<_> = Decoder::new(64, &code, DecoderOptions::NONE).into_iter().collect();
        // The registers lie behind RSI and RDX; the code is there for all lanes, and for some.
        let count = |mnemonics: [Mnemonic; 2], operand| {
            let is_copy = |at: &&iced_x86::Instruction| {
                let of_register = matches!(at.memory_base(), Register::RSI | Register::RDX);
                mnemonics.contains(&at.mnemonic()) && at.op_kind(operand) == OpKind::Memory && of_register
            };
            instructions.iter().filter(is_copy).count() / 2
        };
        let copies = [Mnemonic::Vmovdqu32, Mnemonic::Vmovdqu64];
        [count(copies, 1), count(copies, 0)]
    }

    #[test]
    fn a_register_is_read_once_and_written_once_in_a_stretch() {
        // A step of ChaCha20, ten times: four words that are read and written, of two halves.
        let step = "add.i32 w0, w0, w1\nxor.i32 w3, w3, w0\nrotl.i32 w3, w3, 16\nadd.i32 w2, w2, w3\nxor.i32 w1, w1, w2\nrotl.i32 w1, w1, 12\n";
        assert_eq!(copies(&format!("{}exit", step.repeat(10))), [8, 8]);
        // A sum of two numbers, one of which is not written; a double has two vectors in each half.
        assert_eq!(copies("add.f32 w0, w0, w1\nadd.i64 d0, d0, d1\nexit"), [4 + 8, 2 + 4]);
        // A register that is only written is not loaded.
        assert_eq!(copies("mov.i32 w0, 5\nmul.i32 w0, w0, 3\nexit"), [0, 2]);
    }

    #[test]
    fn more_registers_than_the_host_has_are_each_read_and_written() {
        let all: String = (0..60).map(|number| format!("add.i32 w{number}, w{number}, 1\n")).collect();
        assert_eq!(copies(&format!("{all}exit")), [120, 120]);
    }
}

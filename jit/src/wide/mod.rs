//! Code for processors with vectors of 512 bits (AVX-512) or 256 (AVX2), beside that of the code generator, which has vectors of 128: stretches of plain instructions for as many lanes at a time as a
//! vector has words, with the registers of the GPU in those of the host from the first use to the end.
//!
//! Each kind of access to memory is one such function, too; and so are innermost loops on words with AVX-512, whose vectors keep all of them over the turns.
//!
//! Each stretch is a function of its own, with the address of the [`Context`](crate::context::Context) as its argument. It follows the calling convention of the host and calls nothing.

mod access;
mod bytes;
mod composed;
mod division;
mod form;
mod guarded;
mod halves;
mod loops;
mod masks;
mod opcodes;
mod plain;
mod registers;
mod row;
mod system;

use crate::context::{ACTIVE, Context};
use crate::segment::File;
pub(crate) use access::{Access, Space};
use bytes::{Bytes, Label, R8, RAX, RCX, RDI, RDX, RSI};
use campanile_hw::isa::{Instruction, ProgramHeader};
use campanile_shader::Kernel;
pub(crate) use form::Form;
pub(crate) use guarded::Guarded;
pub(crate) use loops::Loop;
pub(crate) use plain::has_code;
use plain::{Plain, all_uses};
use registers::{GATHERED, Registers, Uses, store_predicates};
use std::mem::offset_of;

/// The functions of a program.
#[derive(Debug)]
pub(crate) struct Wide {
    code: Bytes,
    /// The functions of accesses, and their places.
    accesses: Vec<(Access, usize, Label)>,
}

impl Wide {
    /// No functions yet.
    pub(crate) fn new(form: Form) -> Self {
        Self { code: Bytes::new(form), accesses: Vec::new() }
    }

    /// The vectors that the functions use.
    pub(crate) fn form(&self) -> Form {
        self.code.form()
    }

    /// Adds the function of a stretch of plain instructions, all of which [`has_code`]; gives its place.
    pub(crate) fn plain(&mut self, header: &ProgramHeader, code: &[Instruction]) -> usize {
        let start = self.code.here();
        self.files();
        let some = self.unless_all();
        let uses = all_uses(code);
        for lanes in [false, true] {
            self.stretch(header, code, (&uses, lanes));
            self.code.end();
            if !lanes {
                self.code.place(some);
            }
        }
        start
    }

    /// Takes the addresses of the registers of the GPU.
    fn files(&mut self) {
        for (register, offset) in [
            (RSI, offset_of!(Context, words)),
            (RDX, offset_of!(Context, doubles)),
            (RCX, offset_of!(Context, predicates)),
        ] {
            self.code.load(true, register, RDI, offset as i32);
        }
    }

    /// Goes to the label that it gives if some lanes are not active.
    fn unless_all(&mut self) -> Label {
        self.code.load(false, RAX, RDI, ACTIVE);
        self.code.compare(RAX, -1);
        let some = self.code.label();
        self.code.jump_if(false, some);
        some
    }

    /// Executes plain instructions, whose uses of registers these are, for all lanes, or for those that are active where some may not be.
    fn stretch(&mut self, header: &ProgramHeader, code: &[Instruction], (uses, some): (&Uses, bool)) {
        let written = uses.writes.keys().filter(|(file, ..)| *file == File::Predicate).count();
        if some {
            (R8..).zip(0..written.min(GATHERED)).for_each(|(register, _)| self.code.set(register, 0));
        }
        let mut predicates = Vec::new();
        for group in 0..self.form().groups() {
            let none = self.code.label();
            if some {
                self.unless_inactive(group as u8, none);
            }
            let registers = Registers::new(&mut self.code, uses, some, group as i32);
            let mut plain = Plain { registers, header, mask: 0 };
            code.iter().for_each(|instruction| plain.execute(instruction));
            predicates = plain.registers.finish();
            self.code.place(none);
        }
        store_predicates(&mut self.code, &predicates, some);
    }

    /// Goes to `none` if no lane of a group is active.
    fn unless_inactive(&mut self, group: u8, none: Label) {
        let lanes = self.form().lanes() as u8;
        self.code.load(false, RAX, RDI, ACTIVE);
        if group != 0 {
            self.code.shift(false, RAX, group * lanes);
        }
        self.code.test(lanes);
        self.code.jump_if(true, none);
    }

    /// Adds the function of a loop; gives its place.
    pub(crate) fn turns(&mut self, kernel: &Kernel, of: &Loop) -> usize {
        let start = self.code.here();
        loops::generate(&mut self.code, kernel, of);
        start
    }

    /// The place of the function of an access, which [`Access::has_code`].
    pub(crate) fn access(&mut self, access: Access) -> usize {
        self.access_and_label(access).0
    }

    fn access_and_label(&mut self, access: Access) -> (usize, Label) {
        if let Some((_, place, label)) = self.accesses.iter().find(|(known, ..)| *known == access) {
            return (*place, *label);
        }
        let (place, label) = (self.code.here(), self.code.label());
        self.code.place(label);
        access.generate(&mut self.code);
        self.accesses.push((access, place, label));
        (place, label)
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
    use campanile_hw::isa::{MemoryFormat, Program};
    use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};

    /// The code of a stretch of plain instructions.
    fn code(form: Form, text: &str) -> Vec<iced_x86::Instruction> {
        let bytes = campanile_isa::assemble(text).expect("legal");
        let program = Program::validate(&bytes).expect("valid");
        let kernel = Kernel::new(&program);
        let [code @ .., _] = kernel.code() else { panic!("an EXIT at least") };
        assert!(code.iter().all(|instruction| has_code(form, instruction)));
        let mut wide = Wide::new(form);
        wide.plain(kernel.header(), code);
        decoded(wide)
    }

    fn decoded(wide: Wide) -> Vec<iced_x86::Instruction> {
        let code = wide.finish().expect("encoded");
        let instructions: Vec<_> = Decoder::new(64, &code, DecoderOptions::NONE).into_iter().collect();
        let end = instructions.iter().rposition(|instruction| instruction.mnemonic() == Mnemonic::Ret).expect("an end");
        instructions.into_iter().take(end + 1).collect()
    }

    /// Operands that read registers of the GPU in memory, and that write such, in the code of a stretch of plain instructions for all lanes.
    fn accesses(form: Form, text: &str) -> [usize; 2] {
        let instructions = code(form, text);
        // The code for all lanes comes first. The registers lie behind RSI and RDX.
        let all = instructions.split(|instruction| instruction.mnemonic() == Mnemonic::Ret).next().expect("a part");
        let of_register = |at: &&iced_x86::Instruction| matches!(at.memory_base(), Register::RSI | Register::RDX);
        let is_write = |at: &&iced_x86::Instruction| at.op0_kind() == OpKind::Memory;
        let (writes, reads): (Vec<&iced_x86::Instruction>, Vec<_>) = all.iter().filter(of_register).partition(is_write);
        [reads.len(), writes.len()]
    }

    const FORMATS: [MemoryFormat; 6] =
        [MemoryFormat::W1, MemoryFormat::W2, MemoryFormat::W3, MemoryFormat::W4, MemoryFormat::D1, MemoryFormat::D2];
    const FORMS: [Form; 2] = [Form::Avx512, Form::Avx2];

    #[test]
    fn a_register_is_read_once_and_written_once_in_a_stretch() {
        for form in FORMS {
            let expected = |accesses: [usize; 2]| accesses.map(|count| count * form.groups());
            // A step of ChaCha20, ten times: four words that are read and written.
            let step = "add.i32 w0, w0, w1\nxor.i32 w3, w3, w0\nrotl.i32 w3, w3, 16\nadd.i32 w2, w2, w3\nxor.i32 w1, w1, w2\nrotl.i32 w1, w1, 12\n";
            assert_eq!(accesses(form, &format!("{}exit", step.repeat(10))), expected([4, 4]));
            // A sum of two numbers, one of which is not written; a double has two vectors for the lanes of one of words.
            assert_eq!(accesses(form, "add.f32 w0, w0, w1\nadd.i64 d0, d0, d1\nexit"), expected([2 + 4, 1 + 2]));
            // A register that is only written is not loaded.
            assert_eq!(accesses(form, "mov.i32 w0, 5\nmul.i32 w0, w0, 3\nexit"), expected([0, 1]));
        }
    }

    #[test]
    fn more_registers_than_the_host_has_are_each_read_and_written() {
        let all: String = (0..60).map(|number| format!("add.i32 w{number}, w{number}, 1\n")).collect();
        for form in FORMS {
            assert_eq!(accesses(form, &format!("{all}exit")), [60 * form.groups(); 2]);
        }
    }

    #[test]
    fn what_is_overwritten_is_not_stored_and_what_is_read_once_takes_no_vector() {
        // More sums than vectors, by way of one register.
        let sum = |number: usize| format!("mul.f32 w50, w0, w1\nadd.f32 w{number}, w{number}, w50\n");
        let all: String = (2..42).map(sum).collect();
        for form in FORMS {
            assert_eq!(accesses(form, &format!("{all}exit")), [42, 41].map(|count| count * form.groups()));
        }
        let loads = |text| {
            code(Form::Avx2, text)
                .iter()
                .filter(|at| at.mnemonic() == Mnemonic::Vmovdqu && at.op0_kind() == OpKind::Register)
                .count()
        };
        // In the code for some lanes another load gets what the others keep.
        assert_eq!(loads("add.i32 w2, w0, w1\nexit"), 4 + 4 * 2);
        assert_eq!(loads("sub.i32 w2, w0, w1\nadd.i32 w3, w1, w0\nexit"), 4 * 2 + 4 * 4);
    }

    /// Extensions of the processor that an instruction belongs to and that are not among these and those of every x86-64.
    fn beyond(instruction: &iced_x86::Instruction) -> bool {
        use iced_x86::CpuidFeature::*;
        let features = instruction.cpuid_features();
        !features.iter().all(|feature| matches!(feature, AVX | AVX2 | FMA | INTEL8086 | INTEL386 | X64))
    }

    #[test]
    fn code_for_avx2_has_no_instructions_of_other_extensions() {
        let text = "system.local_index w0\nsystem.global_id_x w1\ncmp.i32.lt_u p0, w0, w1\ncmp.i64.ge_u p1, d0, d1\ncmp.f64.lt p2, d0, d1
            and.b1 p0, p0, p1\nxor.b1 p3, p0, 1\nnot.b1 p2, p2\nselect.i32 w2, w0, 5, p0\nselect.f64 d2, d0, d1, p2\nselect.b1 p1, p0, p2, p3
            index d3, d0, w1, 12\nnarrow w3, d3\nwiden_s d1, w3\npack d2, w1, w2\nrotl.i32 w4, w3, w1\nrotl.i64 d4, d1, 3\nshl.i64 d4, d4, w1
            min.f32 w5, w4, 1.0\nmax.f64 d5, d4, d1\nto_u.i32.f32 w6, w5\nto_s.i32.f32 w7, w5\nfrom_u.f32.i32 w6, w6\nfrom_s.f32.i32 w6, w6
            fma.f32 w5, w5, w6, w7\nfloor.f32 w5, w5\nabs.f32 w5, w5\nneg.i32 w4, w4\nsext8.i32 w4, w4\nmul.i32 w4, w4, 7\ndiv_u.i32 w4, w4, w3\nrem_s.i32 w4, w4, 7\narguments d7\nexit";
        let code = code(Form::Avx2, text);
        assert_eq!(code.iter().find(|instruction| beyond(instruction)), None);
        let mut wide = Wide::new(Form::Avx2);
        for space in [Space::Global, Space::Shared(4096), Space::Scratch(64)] {
            for (store, format) in [false, true].into_iter().flat_map(|store| FORMATS.map(|format| (store, format))) {
                let access = Access { space, store, format };
                if access.has_code() {
                    wide.access(access);
                }
            }
        }
        assert_eq!(decoded(wide).iter().find(|instruction| beyond(instruction)), None);
        // They are told from others.
        assert!(self::code(Form::Avx512, text).iter().any(beyond));
    }
}

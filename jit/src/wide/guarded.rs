//! Stretches of plain instructions with a load or store behind them under a condition, such as the bounds of a buffer have: one function executes the stretch and, where all lanes are active and
//! the condition holds for all, the access.

use super::bytes::{R8, RAX, RCX, RDI, RDX, RSI};
use super::plain::all_uses;
use super::{Access, Space, Wide};
use crate::context::Context;
use crate::files::{DOUBLE, WORD};
use crate::segment::File;
use campanile_hw::isa::{Instruction, Op, ProgramHeader};
use iced_x86::Code;
use std::mem::offset_of;

/// A load or store under a condition, all of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guarded {
    pub(crate) access: Access,
    /// The predicate.
    pub(crate) condition: u8,
    /// Registers of the addresses, and the first one of the data.
    pub(crate) address: u8,
    pub(crate) data: u8,
    /// Added to the addresses.
    pub(crate) offset: i32,
}

impl Guarded {
    fn file(&self) -> File {
        if self.access.format.is_double() { File::Double } else { File::Word }
    }

    fn file_of_address(&self) -> File {
        if matches!(self.access.space, Space::Global) { File::Double } else { File::Word }
    }

    /// True for an instruction that puts a constant where the access puts what it loads, if neither the access nor any of those behind it reads the register.
    fn overwrites(&self, instruction: &Instruction, behind: &[Instruction]) -> bool {
        let is_data = |(file, number): (File, u8)| {
            let numbers = u32::from(self.data)..u32::from(self.data) + self.access.format.registers();
            file == self.file() && numbers.contains(&number.into())
        };
        let [(file, number, _), ..] = instruction.registers();
        let Some(to) = File::of(file).map(|file| (file, number)) else { return false };
        let mut used = behind.iter().flat_map(Instruction::registers);
        let is_used = to == (self.file_of_address(), self.address)
            || used.any(|(file, number, _)| File::of(file).map(|file| (file, number)) == Some(to));
        !self.access.store && instruction.op == Op::Mov && instruction.constant && is_data(to) && !is_used
    }
}

impl Wide {
    /// Adds the function of a stretch of plain instructions with an access behind it; gives its place. The function returns 0 if it has executed all, with END_IF, for which the budget has to allow
    /// two more instructions, and otherwise the stretch alone.
    pub(crate) fn guarded(&mut self, header: &ProgramHeader, code: &[Instruction], guarded: &Guarded) -> usize {
        let (_, access) = self.access_and_label(guarded.access);
        let start = self.code.here();
        self.files();
        let some = self.unless_all();
        // What the access overwrites is executed only where it is not made.
        let overwritten = |at: usize| match code.get(at..) {
            Some([instruction, behind @ ..]) => guarded.overwrites(instruction, behind),
            _ => false,
        };
        let (late, early): (Vec<_>, Vec<_>) = (0..code.len()).partition(|at| overwritten(*at));
        let [late, early] =
            [late, early].map(|all| all.into_iter().filter_map(|at| code.get(at).copied()).collect::<Vec<_>>());
        self.stretch(header, &early, (&all_uses(&early), false));
        let undone = self.code.label();
        self.code.memory_number(Code::Cmp_rm64_imm32, RDI, offset_of!(Context, budget) as i32, 2);
        self.code.branch(Code::Jb_rel32_64, undone);
        self.code.memory_number(Code::Cmp_rm32_imm32, RCX, i32::from(guarded.condition) * 4, u32::MAX);
        self.code.jump_if(false, undone);
        self.arguments(guarded);
        self.code.branch(Code::Call_rel32_64, access);
        self.code.test(32);
        self.code.jump_if(false, undone);
        self.code.end();
        self.code.place(undone);
        if !late.is_empty() {
            self.files();
            self.stretch(header, &late, (&all_uses(&late), false));
        }
        self.code.set(RAX, 1);
        self.code.end();
        self.code.place(some);
        self.stretch(header, code, (&all_uses(code), true));
        self.code.set(RAX, 1);
        self.code.end();
        start
    }

    /// Sets the arguments of the function of an access.
    fn arguments(&mut self, guarded: &Guarded) {
        let of_file = |file| if file == File::Double { (RDX, DOUBLE) } else { (RSI, WORD) };
        for (to, file, register) in
            [(RAX, guarded.file_of_address(), guarded.address), (R8, guarded.file(), guarded.data)]
        {
            let (base, size) = of_file(file);
            self.code.copy(to, base);
            self.code.number(Code::Add_rm64_imm32, to, (i32::from(register) * size) as u32);
        }
        self.code.copy(RSI, RAX);
        self.code.copy(RDX, R8);
        self.code.number(Code::Mov_rm64_imm32, RCX, guarded.offset as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wide::Form;
    use campanile_hw::isa::{MemoryFormat, Program};
    use campanile_shader::Kernel;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};

    /// Stores of words before the access is called, and behind it where it was not made, in the code for all lanes.
    fn stores(form: Form, text: &str) -> [usize; 2] {
        let bytes = campanile_isa::assemble(text).expect("legal");
        let kernel = Kernel::new(&Program::validate(&bytes).expect("valid"));
        let [code @ .., _] = kernel.code() else { panic!("an EXIT at least") };
        let mut wide = Wide::new(form);
        let access = Access { space: Space::Global, store: false, format: MemoryFormat::W2 };
        let guarded = Guarded { access, condition: 0, address: 0, data: 1, offset: 0 };
        let start = wide.guarded(kernel.header(), code, &guarded);
        let code = wide.finish().expect("encoded");
        let all: Vec<_> = Decoder::new(64, &code[start..], DecoderOptions::NONE).into_iter().collect();
        let call = all.iter().position(|at| at.mnemonic() == Mnemonic::Call).expect("a call");
        let is_end = |at: &iced_x86::Instruction| at.mnemonic() == Mnemonic::Ret;
        let is_store =
            |at: &&iced_x86::Instruction| at.op0_kind() == OpKind::Memory && at.memory_base() == Register::RSI;
        let (before, behind) = all.split_at(call);
        let undone = behind.split(is_end).nth(1).expect("what follows the first end");
        [before, undone].map(|part| part.iter().filter(is_store).count() / form.groups())
    }

    #[test]
    fn what_the_access_overwrites_is_stored_only_where_it_is_not_made() {
        for form in [Form::Avx512, Form::Avx2] {
            assert_eq!(
                stores(form, "cmp.i64.le p0, d0, d1\nmov.i32 w1, 0\nmov.i32 w2, 7\nmov.i32 w3, 0\nexit"),
                [1, 2]
            );
            // Registers that others read, or write again.
            assert_eq!(stores(form, "mov.i32 w1, 0\nadd.i32 w3, w1, w0\nmov.i32 w2, 7\nexit"), [2, 1]);
            assert_eq!(stores(form, "mov.i32 w1, 0\nadd.i32 w1, w0, w3\nexit"), [1, 0]);
            // A copy of another register.
            assert_eq!(stores(form, "mov.i32 w1, w0\nexit"), [1, 0]);
        }
    }
}

//! Random programs that end, and memory for them. For the tests of every executor.

use campanile_hw::isa::{
    FORMS, Immediate, Instruction, ModifierKind, Op, Operand, Order, OrderWord, ProgramHeader, Scope, Type,
};
use campanile_isa::{Source, link};
use campanile_shader::GlobalMemory;
use proptest::prelude::*;

/// First address of the tests' memory.
pub(crate) const BASE: u64 = 0x1_0000;

/// Memory from [`BASE`] on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flat(pub(crate) Vec<u8>);

/// An address outside of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outside(pub(crate) u64);

impl Flat {
    fn at(&mut self, address: u64, len: usize) -> Result<&mut [u8], Outside> {
        let start = address.checked_sub(BASE).ok_or(Outside(address))? as usize;
        self.0.get_mut(start..start.saturating_add(len)).ok_or(Outside(address))
    }

    pub(crate) fn word(&self, place: usize) -> u32 {
        u32::from_le_bytes(*self.0[place * 4..].first_chunk().expect("inside"))
    }
}

impl GlobalMemory for Flat {
    type Fault = Outside;

    fn load(&mut self, address: u64, element: usize, bytes: &mut [u8]) -> Result<(), Outside> {
        assert!(address.is_multiple_of(element as u64));
        bytes.copy_from_slice(self.at(address, bytes.len())?);
        Ok(())
    }

    fn store(&mut self, address: u64, element: usize, bytes: &[u8]) -> Result<(), Outside> {
        assert!(address.is_multiple_of(element as u64));
        self.at(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn atomic(
        &mut self,
        address: u64,
        size: usize,
        update: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<u64, Outside> {
        let place = self.at(address, size)?;
        let mut old = [0; 8];
        old[..size].copy_from_slice(place);
        let old = u64::from_le_bytes(old);
        if let Some(new) = update(old) {
            place.copy_from_slice(&new.to_le_bytes()[..size]);
        }
        Ok(old)
    }

    fn fence(&mut self, _: Scope, _: Order) {}
}

/// A random program: straight instructions between blocks whose nesting is right, loops that end.
pub(crate) fn program(choices: &[(u8, usize, [u8; 8], u64)]) -> Vec<u8> {
    let source = |instruction| Source { instruction, line: 0 };
    let plain = |op| Instruction::new(op, Type::None);
    let mut code = Vec::new();
    let mut open: Vec<Op> = Vec::new();
    for lane in [0u8, 1] {
        code.push(source(Instruction { dst: lane, modifier: 18, ..plain(Op::System) }));
    }
    code.push(source(Instruction { dst: 7, ..plain(Op::Arguments) }));
    for (kind, row, numbers, immediate) in choices {
        let predicate = numbers[3] % 4;
        match kind % 12 {
            0 if open.len() < 6 => {
                code.push(source(Instruction { a: predicate, ..plain(Op::If) }));
                open.push(Op::If);
            }
            1 if open.last() == Some(&Op::If) => {
                code.push(source(plain(Op::Else)));
                open.pop();
                open.push(Op::Else);
            }
            2 if open.iter().filter(|op| **op == Op::Loop).count() < 2 && open.len() < 6 => {
                code.push(source(plain(Op::Loop)));
                open.push(Op::Loop);
            }
            3 if open.contains(&Op::Loop) => code.push(source(Instruction { a: predicate, ..plain(Op::BreakIf) })),
            4 if open.contains(&Op::Loop) => code.push(source(Instruction { a: predicate, ..plain(Op::ContinueIf) })),
            5 => close(&mut code, &mut open),
            _ => code.extend(straight(*row, *numbers, *immediate).map(source)),
        }
    }
    while !open.is_empty() {
        close(&mut code, &mut open);
    }
    // What the registers hold at the end counts: each lane stores some of it.
    for register in 0..8 {
        code.push(source(Instruction {
            a: 7,
            c: register,
            modifier: 4,
            immediate: u64::from(register) * 4,
            ..plain(Op::Store)
        }));
    }
    code.push(source(plain(Op::Exit)));
    let header = ProgramHeader {
        words: 12,
        doubles: 9,
        predicates: 4,
        workgroup_x: 40,
        shared: 64,
        scratch: 16,
        ..ProgramHeader::new()
    };
    link(&header, &[code]).expect("legal")
}

fn close(code: &mut Vec<Source>, open: &mut Vec<Op>) {
    let source = |instruction| Source { instruction, line: 0 };
    match open.pop() {
        Some(Op::Loop) => {
            // Word 15 counts the turns of all loops, so that they end.
            code.push(source(Instruction {
                dst: 15,
                a: 15,
                constant: true,
                immediate: 1,
                ..Instruction::new(Op::Add, Type::I32)
            }));
            let compare = Instruction::new(Op::Cmp, Type::I32);
            code.push(source(Instruction { dst: 5, a: 15, constant: true, immediate: 9, modifier: 9, ..compare }));
            code.push(source(Instruction::new(Op::Continuing, Type::None)));
            code.push(source(Instruction {
                dst: 15,
                a: 15,
                constant: true,
                immediate: 1,
                ..Instruction::new(Op::Add, Type::I32)
            }));
            code.push(source(Instruction { dst: 5, a: 15, constant: true, immediate: 9, modifier: 9, ..compare }));
            code.push(source(Instruction { a: 5, ..Instruction::new(Op::BreakIf, Type::None) }));
            code.push(source(Instruction::new(Op::EndLoop, Type::None)));
        }
        Some(_) => code.push(source(Instruction::new(Op::EndIf, Type::None))),
        None => {}
    }
}

/// An instruction without control flow that does not fault.
fn straight(row: usize, numbers: [u8; 8], immediate: u64) -> Option<Instruction> {
    let form = FORMS[row % FORMS.len()];
    if form.op as u8 <= Op::Ret as u8 {
        return None;
    }
    let [ty, modifier, order, dst, a, b, c, constant] = numbers;
    let mut instruction = Instruction::new(form.op, Type::from_number(ty % 7)?);
    instruction.modifier = if form.modifier == ModifierKind::None { 0 } else { modifier % 19 };
    instruction.order = OrderWord::from_bits(if form.ordered { order & 0xf } else { 0 });
    let has_constant = matches!(form.operands[2], Operand::SameOrConstant | Operand::WordOrConstant);
    instruction.constant = has_constant && constant & 1 != 0;
    let used = instruction.operands().map(|operand| if operand == Operand::None { 0 } else { 0x3 });
    [instruction.dst, instruction.a, instruction.b, instruction.c] =
        [dst & used[0], a & used[1], b & used[2], c & used[3]];
    instruction.immediate = match form.immediate {
        Immediate::Operand if !instruction.constant => 0,
        Immediate::Operand if form.operands[2] == Operand::WordOrConstant => immediate & 0xffff_ffff,
        Immediate::Operand => immediate & u64::MAX.checked_shr(64 - instruction.ty.bits())?,
        Immediate::Offset => immediate % 4 * 16,
        _ => immediate & 0xffff_ffff,
    };
    match form.op {
        Op::Load | Op::Store | Op::Atomic => instruction.a = 7,
        // Word 11 is zero, so that the offset alone counts; scratch memory has only 16 bytes.
        Op::LoadShared | Op::StoreShared | Op::AtomicShared => instruction.a = 11,
        Op::LoadScratch | Op::StoreScratch => (instruction.a, instruction.immediate) = (11, 0),
        _ => {}
    }
    instruction.check().is_ok().then_some(instruction)
}

pub(crate) fn choices() -> impl Strategy<Value = Vec<(u8, usize, [u8; 8], u64)>> {
    prop::collection::vec((any::<u8>(), any::<usize>(), any::<[u8; 8]>(), any::<u64>()), 1..120)
}

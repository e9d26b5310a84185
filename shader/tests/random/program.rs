//! Programs that end, from choices that are random or a fuzzer's.

#[path = "../../../hw/tests/kit/drawn.rs"]
mod drawn;

use campanile_hw::isa::{Comparison, FORMS, Instruction, MemoryFormat, Op, Operand, ProgramHeader, Type};
use campanile_isa::{Source, link};

/// What chooses an instruction: its kind, its row in the table, numbers of registers and modifiers, and an immediate.
pub(crate) type Choice = (u8, usize, [u8; 8], u64);

/// A program: straight instructions between blocks whose nesting is right, loops that end.
pub(crate) fn program(choices: &[Choice]) -> Vec<u8> {
    let source = |instruction| Source { instruction, line: 0 };
    let plain = |op| Instruction::new(op, Type::None);
    let mut code = Vec::new();
    let mut open: Vec<Op> = Vec::new();
    // In some loops there are instructions on words and predicates alone, which executors may keep in registers of the host.
    let mut on_words = false;
    for lane in [0u8, 1] {
        code.push(source(Instruction { dst: lane, modifier: 18, ..plain(Op::System) }));
    }
    code.extend(places().map(source));
    for (kind, row, numbers, immediate) in choices {
        let predicate = numbers[3] % 4;
        on_words &= open.contains(&Op::Loop);
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
                on_words = numbers[5] % 2 == 0;
            }
            3 if open.contains(&Op::Loop) => code.push(source(Instruction { a: predicate, ..plain(Op::BreakIf) })),
            4 if open.contains(&Op::Loop) => code.push(source(Instruction { a: predicate, ..plain(Op::ContinueIf) })),
            5 => close(&mut code, &mut open),
            6 if !on_words && open.len() < 6 => code.extend(guarded(*row, *numbers, *immediate)),
            _ => code
                .extend(straight(*row, *numbers, *immediate).filter(|one| !on_words || is_on_words(one)).map(source)),
        }
    }
    while !open.is_empty() {
        close(&mut code, &mut open);
    }
    // What the registers hold at the end counts: each lane stores some of it.
    for register in 0..8 {
        code.push(source(Instruction {
            a: 8,
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
        shared: 1024,
        scratch: 16,
        ..ProgramHeader::new()
    };
    link(&header, &[code]).expect("legal")
}

/// True for an instruction that uses words and predicates of its lane alone.
fn is_on_words(instruction: &Instruction) -> bool {
    let has_doubles = instruction.registers().iter().any(|(file, ..)| *file == Operand::Double);
    (instruction.op as u8) < Op::Load as u8 && instruction.ty.bits() < 64 && !has_doubles
}

/// Bytes that the programs of a workgroup use from the argument block on.
pub(crate) const REACH: usize = 40 * 32;

/// What addresses are made of: double 7 is the argument block, doubles 4, 6, 5 and 8 are places in it of the own lane, 4, 8, 16 and 32 bytes apart, words 13 and 14 places in workgroup memory
/// 8 and 16 bytes apart. Each of the former has the number of its lane, so that no two are alike.
fn places() -> impl Iterator<Item = Instruction> {
    let plain = |op| Instruction::new(op, Type::None);
    let index = move |dst, stride| Instruction { dst, a: 7, b: 12, immediate: stride, ..plain(Op::Index) };
    let shift =
        |dst, by| Instruction { dst, a: 12, constant: true, immediate: by, ..Instruction::new(Op::Shl, Type::I32) };
    let block = Instruction { dst: 7, ..plain(Op::Arguments) };
    let lane = Instruction { dst: 12, modifier: 15, ..plain(Op::System) };
    let store = Instruction { a: 13, c: 12, modifier: MemoryFormat::W1 as u8, ..plain(Op::StoreShared) };
    [block, lane, index(4, 4), index(6, 8), index(5, 16), index(8, 32), shift(13, 3), shift(14, 4), store].into_iter()
}

fn close(code: &mut Vec<Source>, open: &mut Vec<Op>) {
    let source = |instruction| Source { instruction, line: 0 };
    match open.pop() {
        Some(Op::Loop) => {
            // Word 15 counts the iterations of all loops, so that they end.
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

/// A load or store under a condition of its own, which holds for all lanes, for some or for none, and constants where a load puts something: what the bounds of a buffer become.
fn guarded(row: usize, numbers: [u8; 8], immediate: u64) -> Vec<Source> {
    let op = [Op::Load, Op::Store, Op::LoadShared, Op::StoreShared][row % 4];
    let row = FORMS.iter().position(|form| form.op == op).unwrap_or(0);
    let [_, format, _, dst, a, b, c, constant] = numbers;
    let Some(mut access) = straight(row, [0, format % 10, 0, dst, a, b, c, constant], immediate) else {
        return Vec::new();
    };
    let of_constant = |op, ty, immediate| Instruction { constant: true, immediate, ..Instruction::new(op, ty) };
    let (predicate, most) = (a % 4, [0, 7, 33, 40, 1000, u64::from(u32::MAX)][usize::from(c) % 6]);
    let lanes = of_constant(Op::Cmp, Type::I32, most);
    let mut all = vec![Instruction { dst: predicate, a: 12, modifier: Comparison::LtU as u8, ..lanes }];
    let [(file, first, count), (address_file, address, _), ..] = access.registers();
    let ty = if file == Operand::Double { Type::I64 } else { Type::I32 };
    // One load in four overwrites the register of its address. In workgroup memory any constant of whole elements is an address, too.
    let overwrites = immediate >> 62 == 0 && file == address_file && matches!(op, Op::Load | Op::LoadShared);
    let at_constant = overwrites && op == Op::LoadShared && constant & 1 != 0;
    if overwrites {
        access.a = first;
    }
    if at_constant {
        // Another address, which the constant replaces.
        all.push(Instruction { dst: first, ..of_constant(Op::Mov, ty, 0x80) });
    }
    if file != Operand::None && !constant.is_multiple_of(4) {
        let constant = of_constant(Op::Mov, ty, u64::from(if overwrites { constant & 0x70 } else { constant }));
        all.extend((first..).take(count as usize).map(|dst| Instruction { dst, ..constant }));
    }
    if overwrites && !at_constant {
        all.push(Instruction { dst: first, b: address, ..Instruction::new(Op::Mov, ty) });
    }
    let open = Instruction { a: predicate, ..Instruction::new(Op::If, Type::None) };
    all.extend([open, access, Instruction::new(Op::EndIf, Type::None)]);
    all.into_iter().map(|instruction| Source { instruction, line: 0 }).collect()
}

/// An instruction without control flow that does not fault.
fn straight(row: usize, numbers: [u8; 8], immediate: u64) -> Option<Instruction> {
    let mut instruction = drawn::instruction(row, numbers, immediate, 0x3, |offset| offset % 4 * 16)?;
    // Doubles from the fourth on are addresses.
    if instruction.memory() == Some(MemoryFormat::D2) {
        instruction.dst = instruction.dst.min(2);
    }
    let choice = usize::from(numbers[4] >> 4);
    let wide = instruction.memory().is_none_or(|format| format.element() == 8);
    match instruction.op {
        Op::Load | Op::Store | Op::Atomic if wide => instruction.a = [7, 5, 6][choice % 3],
        Op::Load | Op::Store | Op::Atomic => instruction.a = [7, 4, 5, 6][choice % 4],
        // Word 11 is zero, so that the offset alone counts; scratch memory has only 16 bytes.
        Op::LoadShared | Op::StoreShared | Op::AtomicShared => instruction.a = [11, 13, 14][choice % 3],
        Op::LoadScratch | Op::StoreScratch => (instruction.a, instruction.immediate) = (11, 0),
        _ => {}
    }
    instruction.check().is_ok().then_some(instruction)
}

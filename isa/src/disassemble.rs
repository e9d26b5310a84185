//! Programs as text that the assembler reads.

use crate::{constant, name};
use campanile_hw::isa::{
    AtomicOperation, Comparison, INSTRUCTION_SIZE, Immediate, Instruction, MemoryFormat, ModifierKind, Op, Operand,
    Order, Program, Reduction, Scope, SystemValue, Type,
};
use std::fmt::Write as _;

/// The table of numbers of a modifier.
pub(crate) fn modifiers(kind: ModifierKind) -> Option<&'static [(u8, &'static str, &'static str)]> {
    match kind {
        ModifierKind::None => None,
        ModifierKind::Comparison => Some(Comparison::ALL),
        ModifierKind::IntegerSource | ModifierKind::FloatSource => Some(Type::ALL),
        ModifierKind::Memory => Some(MemoryFormat::ALL),
        ModifierKind::Atomic => Some(AtomicOperation::ALL),
        ModifierKind::Reduction => Some(Reduction::ALL),
        ModifierKind::System => Some(SystemValue::ALL),
    }
}

/// The letter of a file of registers.
pub(crate) fn letter(file: Operand) -> Option<char> {
    match file {
        Operand::Predicate => Some('p'),
        Operand::Word => Some('w'),
        Operand::Double => Some('d'),
        _ => None,
    }
}

/// The type that a constant operand of the instruction has.
pub(crate) fn constant_type(instruction: &Instruction) -> Type {
    if instruction.op.form().operands[2] == Operand::WordOrConstant { Type::None } else { instruction.ty }
}

fn function_name(number: u64) -> String {
    if number == 0 { "main".into() } else { format!("function{number}") }
}

/// One instruction.
fn line(instruction: &Instruction) -> String {
    let form = instruction.op.form();
    let mut text = name::text_of(form.name);
    if instruction.ty != Type::None {
        let _ = write!(text, ".{}", name::of_number(Type::ALL, instruction.ty as u8));
    }
    if let Some(table) = modifiers(form.modifier) {
        let _ = write!(text, ".{}", name::of_number(table, instruction.modifier));
    }
    if let Some((scope, order)) = instruction.ordering() {
        let (scope, order) = (name::of_number(Scope::ALL, scope as u8), name::of_number(Order::ALL, order as u8));
        let _ = write!(text, ".{scope}.{order}");
    }
    let mut operands = Vec::new();
    for (place, (file, number, _)) in instruction.registers().into_iter().enumerate() {
        if place == 2 && instruction.constant {
            operands.push(constant::print(instruction.immediate, constant_type(instruction)));
        }
        let Some(letter) = letter(file) else { continue };
        operands.push(match form.immediate {
            Immediate::Offset if place == 1 => address(letter, number, instruction.immediate as i64),
            _ => format!("{letter}{number}"),
        });
    }
    match form.immediate {
        Immediate::Stride => operands.push(instruction.immediate.to_string()),
        Immediate::Function => operands.push(function_name(instruction.immediate)),
        Immediate::Operand | Immediate::Offset | Immediate::Target => {}
    }
    if operands.is_empty() { text } else { format!("{text} {}", operands.join(", ")) }
}

fn address(letter: char, number: u8, offset: i64) -> String {
    match offset {
        0 => format!("[{letter}{number}]"),
        1.. => format!("[{letter}{number} + {offset}]"),
        _ => format!("[{letter}{number} - {}]", offset.unsigned_abs()),
    }
}

/// One instruction as text, without the targets of blocks; none if the bytes are no instruction.
pub fn disassemble_instruction(code: &[u8; INSTRUCTION_SIZE]) -> Option<String> {
    Instruction::decode(code).ok().map(|instruction| line(&instruction))
}

/// The program as text. Assembled, the text gives the same bytes, as long as the table of source lines has no entry that changes nothing.
pub fn disassemble(program: &Program<'_>) -> String {
    let header = program.header();
    let mut text = format!(
        ".workgroup {}, {}, {}\n.registers {}, {}, {}\n",
        header.workgroup_x, header.workgroup_y, header.workgroup_z, header.words, header.doubles, header.predicates
    );
    for (name, bytes) in [("shared", header.shared), ("scratch", header.scratch)] {
        if bytes != 0 {
            let _ = writeln!(text, ".{name} {bytes}");
        }
    }
    let (mut function, mut depth, mut entry) = (0, 1usize, 0);
    for at in 0..header.code {
        if program.function(function) == Some(at) {
            let _ = writeln!(text, "\n.function {}", function_name(u64::from(function)));
            function += 1;
        }
        if let Some(known) = program.line_entry(entry).filter(|known| known.instruction == at) {
            let _ = writeln!(text, ".line {}", known.line);
            entry += 1;
        }
        let Some(instruction) = program.instruction(at) else { continue };
        let closes = matches!(instruction.op, Op::Else | Op::EndIf | Op::EndLoop | Op::Continuing);
        depth = depth.saturating_sub(usize::from(closes));
        let _ = writeln!(text, "{:indent$}{}", "", line(&instruction), indent = depth * 4);
        depth += usize::from(matches!(instruction.op, Op::If | Op::Else | Op::Loop | Op::Continuing));
    }
    text
}

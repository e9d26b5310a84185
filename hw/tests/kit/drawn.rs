//! Random instructions, for the tests of every crate that reads or runs them; each includes this file.

use campanile_hw::isa::{FORMS, Immediate, Instruction, ModifierKind, Op, Operand, OrderWord, Type};

/// A legal instruction without control flow, drawn from the table of instructions by random numbers; `None` if they make no legal one. `registers` masks
/// the numbers of its registers, and `offset` makes the byte offset of a memory access from a random number.
pub(crate) fn instruction(
    row: usize,
    numbers: [u8; 8],
    immediate: u64,
    registers: u8,
    offset: impl Fn(u64) -> u64,
) -> Option<Instruction> {
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
    let used = instruction.operands().map(|operand| if operand == Operand::None { 0 } else { registers });
    [instruction.dst, instruction.a, instruction.b, instruction.c] =
        [dst & used[0], a & used[1], b & used[2], c & used[3]];
    instruction.immediate = match form.immediate {
        Immediate::Operand if !instruction.constant => 0,
        Immediate::Operand if form.operands[2] == Operand::WordOrConstant => immediate & 0xffff_ffff,
        Immediate::Operand => immediate & u64::MAX.checked_shr(64 - instruction.ty.bits())?,
        Immediate::Offset => offset(immediate),
        _ => immediate & 0xffff_ffff,
    };
    instruction.check().is_ok().then_some(instruction)
}

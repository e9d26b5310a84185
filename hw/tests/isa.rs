//! Instructions and programs: what is encoded is decoded, nothing that is read panics, and every rule is enforced at its edge.

use campanile_hw::isa::*;
use proptest::prelude::*;

/// A legal instruction drawn from the table: each number picks a legal value of a field.
fn draw(row: usize, numbers: [u8; 8], immediate: u64) -> Option<Instruction> {
    let form = FORMS[row % FORMS.len()];
    let types: Vec<Type> = Type::ALL.iter().filter_map(|(number, ..)| Type::from_number(*number)).collect();
    let fitting: Vec<Type> = types.into_iter().filter(|ty| form.types.contains(*ty)).collect();
    let [ty, modifier, order, dst, a, b, c, constant] = numbers;
    let mut instruction = Instruction::new(form.op, fitting[usize::from(ty) % fitting.len()]);
    instruction.modifier = if form.modifier == ModifierKind::None { 0 } else { modifier % 19 };
    instruction.order = OrderWord::from_bits(if form.ordered { order & 0x0f } else { 0 });
    let has_constant = matches!(form.operands[2], Operand::SameOrConstant | Operand::WordOrConstant);
    instruction.constant = has_constant && constant & 1 != 0;
    let used = instruction.operands().map(|operand| if operand == Operand::None { 0 } else { 0xff });
    [instruction.dst, instruction.a, instruction.b, instruction.c] =
        [dst & used[0], a & used[1], b & used[2], c & used[3]];
    instruction.immediate = match form.immediate {
        Immediate::Operand if !instruction.constant => 0,
        Immediate::Operand if form.operands[2] == Operand::WordOrConstant => immediate & 0xffff_ffff,
        Immediate::Operand => immediate & (u64::MAX >> (64 - instruction.ty.bits())),
        Immediate::Offset => i64::from(immediate as i32) as u64,
        _ => immediate & 0xffff_ffff,
    };
    instruction.check().is_ok().then_some(instruction)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn a_legal_instruction_comes_back(row in any::<usize>(), numbers in any::<[u8; 8]>(), immediate in any::<u64>()) {
        if let Some(instruction) = draw(row, numbers, immediate) {
            prop_assert_eq!(Instruction::decode(&instruction.encode()), Ok(instruction));
        }
    }

    #[test]
    fn whatever_decodes_is_encoded_as_it_was(row in any::<usize>(), numbers in any::<[u8; 8]>(), immediate in any::<u64>(), flip in 0usize..128) {
        let Some(instruction) = draw(row, numbers, immediate) else { return Ok(()) };
        let mut bytes = instruction.encode();
        bytes[flip / 8] ^= 1 << (flip % 8);
        if let Ok(other) = Instruction::decode(&bytes) {
            prop_assert_eq!(other.encode(), bytes);
        }
    }

    #[test]
    fn random_bytes_are_no_program_and_do_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..512), real in any::<bool>()) {
        if let Some(head) = bytes.first_chunk_mut::<8>().filter(|_| real) {
            *head = *b"CGPU\x01\0\0\0";
        }
        prop_assert!(Program::validate(&bytes).is_err());
    }

    #[test]
    fn a_damaged_program_is_refused_or_still_whole(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        let mut bytes = sample();
        let at = at.index(bytes.len());
        bytes[at] = value;
        if let Ok(program) = Program::validate(&bytes) {
            prop_assert!((0..program.header().code).all(|index| program.instruction(index).is_some()));
        }
    }
}

fn op(op: Op) -> Instruction {
    Instruction::new(op, Type::None)
}

fn to(op: Op, target: u64) -> Instruction {
    Instruction { immediate: target, ..Instruction::new(op, Type::None) }
}

/// The bytes of a program with these functions.
fn build(header: ProgramHeader, functions: &[&[Instruction]], lines: &[LineEntry]) -> Vec<u8> {
    let code = functions.iter().map(|function| function.len() as u32).sum();
    let header = ProgramHeader { code, functions: functions.len() as u32, lines: lines.len() as u32, ..header };
    let mut bytes = header.to_bytes().to_vec();
    let mut start = 0u32;
    for function in functions {
        bytes.extend(start.to_le_bytes());
        start += function.len() as u32;
    }
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    bytes.extend(functions.iter().flat_map(|function| function.iter()).flat_map(Instruction::encode));
    bytes.extend(lines.iter().flat_map(LineEntry::to_bytes));
    bytes
}

fn header() -> ProgramHeader {
    ProgramHeader { words: 8, doubles: 4, predicates: 2, workgroup_x: 64, ..ProgramHeader::new() }
}

fn sample() -> Vec<u8> {
    let main = [
        to(Op::If, 2),
        to(Op::Call, 1),
        to(Op::Else, 4),
        Instruction { dst: 1, a: 1, constant: true, immediate: 7, ..Instruction::new(Op::Add, Type::I32) },
        op(Op::EndIf),
        to(Op::Loop, 8),
        to(Op::BreakIf, 7),
        op(Op::Continuing),
        to(Op::EndLoop, 5),
        op(Op::Exit),
    ];
    let lines = [LineEntry { instruction: 1, line: 10 }, LineEntry { instruction: 5, line: 0 }];
    build(header(), &[&main, &[op(Op::Ret)]], &lines)
}

#[test]
fn a_program_is_read_as_it_was_built() {
    let bytes = sample();
    let program = Program::validate(&bytes).expect("valid");
    assert_eq!(
        (program.depth(), program.function(0), program.function(1), program.function(2)),
        (2, Some(0), Some(10), None)
    );
    assert_eq!([0, 1, 4, 5, 9].map(|at| program.line(at)), [None, Some(10), Some(10), None, None]);
    assert_eq!(program.instruction(11), None);
    for len in 0..bytes.len() {
        assert!(Program::validate(&bytes[..len]).is_err(), "{len} bytes");
    }
}

fn refused(functions: &[&[Instruction]]) -> (ProgramRule, u32) {
    let bytes = build(header(), functions, &[]);
    let bad = Program::validate(&bytes).map(|_| ()).expect_err("a broken rule");
    (bad.rule, bad.instruction)
}

#[test]
fn blocks_that_are_not_nested_are_named_with_the_instruction() {
    use ProgramRule::{Call, Depth, End, Nesting, Register, Target};
    let exit = op(Op::Exit);
    assert_eq!(refused(&[&[to(Op::If, 2), exit]]), (Nesting, 1));
    assert_eq!(refused(&[&[op(Op::EndIf), exit]]), (Nesting, 0));
    assert_eq!(refused(&[&[to(Op::If, 3), op(Op::EndIf), exit]]), (Target, 1));
    assert_eq!(refused(&[&[to(Op::Loop, 1), to(Op::EndLoop, 1), exit]]), (Target, 1));
    assert_eq!(refused(&[&[to(Op::Loop, 1), op(Op::EndIf), exit]]), (Nesting, 1));
    assert_eq!(refused(&[&[op(Op::Break), exit]]), (Nesting, 0));
    assert_eq!(refused(&[&[to(Op::Loop, 2), to(Op::BreakIf, 3), to(Op::EndLoop, 0), exit]]), (Target, 2));
    assert_eq!(
        refused(&[&[to(Op::Loop, 3), op(Op::Continuing), op(Op::Continue), to(Op::EndLoop, 0), exit]]),
        (Nesting, 2)
    );
    assert_eq!(refused(&[&[to(Op::Loop, 2), op(Op::Break), op(Op::Exit), to(Op::EndLoop, 0), exit]]), (End, 2));
    assert_eq!(refused(&[&[op(Op::Ret), exit]]), (End, 0));
    assert_eq!(refused(&[&[exit, exit]]), (End, 1));
    assert_eq!(refused(&[&[Instruction { dst: 8, ..Instruction::new(Op::Mov, Type::I32) }, exit]]), (Register, 0));
    assert_eq!(refused(&[&[to(Op::Call, 0), exit]]), (Call, 0));
    assert_eq!(refused(&[&[to(Op::Call, 1), exit], &[to(Op::Call, 1), op(Op::Ret)]]), (Call, 2));
    assert_eq!(refused(&[&[to(Op::Call, 2), exit], &[op(Op::Ret)]]), (Call, 0));
    assert_eq!(refused(&[&[to(Op::Call, 1), exit], &[exit]]), (End, 2));
    let many: Vec<Vec<Instruction>> = (1..=66)
        .map(|next| if next == 66 { vec![op(Op::Ret)] } else { vec![to(Op::Call, next), op(Op::Ret)] })
        .collect();
    let mut functions: Vec<&[Instruction]> = many.iter().map(Vec::as_slice).collect();
    let first = [to(Op::Call, 1), exit];
    functions[0] = &first;
    assert_eq!(refused(&functions), (Depth, 0));
    let within: Vec<Vec<Instruction>> = (1..=65)
        .map(|next| if next == 65 { vec![op(Op::Ret)] } else { vec![to(Op::Call, next), op(Op::Ret)] })
        .collect();
    let mut functions: Vec<&[Instruction]> = within.iter().map(Vec::as_slice).collect();
    functions[0] = &first;
    assert!(Program::validate(&build(header(), &functions, &[])).is_ok(), "64 calls are the most");
}

#[test]
fn limits_of_the_header_hold_at_their_edge() {
    let exit: &[Instruction] = &[op(Op::Exit)];
    let rule = |header| Program::validate(&build(header, &[exit], &[])).map(drop).map_err(|bad| bad.rule);
    let with = |change: fn(&mut ProgramHeader)| {
        let mut header = header();
        change(&mut header);
        rule(header)
    };
    assert_eq!(with(|_| ()), Ok(()));
    assert_eq!(with(|header| header.words = 256), Ok(()));
    assert_eq!(with(|header| header.words = 257), Err(ProgramRule::Limit));
    assert_eq!(with(|header| header.workgroup_y = 16), Ok(()));
    assert_eq!(with(|header| header.workgroup_y = 17), Err(ProgramRule::Workgroup));
    assert_eq!(with(|header| header.workgroup_z = 0), Err(ProgramRule::Workgroup));
    assert_eq!(with(|header| header.workgroup_y = u32::MAX), Err(ProgramRule::Workgroup));
    assert_eq!(with(|header| header.shared = SHARED_MAX), Ok(()));
    assert_eq!(with(|header| header.shared = SHARED_MAX + 8), Err(ProgramRule::Limit));
    assert_eq!(with(|header| header.scratch = 4), Err(ProgramRule::Limit));
    assert_eq!(with(|header| header.version = 2), Err(ProgramRule::Magic));
}

#[test]
fn the_numbers_of_the_rules_agree_and_no_operation_has_two_rows() {
    for (number, name, _) in BadInstruction::ALL {
        let same = ProgramRule::ALL.iter().find(|(other, ..)| other == number).expect("a number of both");
        assert_eq!(*name, same.1);
    }
    for form in FORMS {
        assert_eq!(form.op.form().name, form.name);
    }
}

//! The rules of docs/hardware.md, section 15, each at its edge: what an instruction may hold, and which registers and sizes a program may have.

use campanile_hw::isa::*;

fn of(op: Op, ty: Type) -> Instruction {
    Instruction::new(op, ty)
}

fn check(instruction: Instruction) -> Result<(), BadInstruction> {
    let result = instruction.check();
    // What is read back is checked by the same rules.
    assert_eq!(Instruction::decode(&instruction.encode()).map(drop), result, "{instruction:?}");
    result
}

const REFUSED: Result<(), BadInstruction> = Err(BadInstruction::Constant);

#[test]
fn a_constant_operand_has_no_more_bits_than_the_type() {
    let with = |op, ty, immediate| check(Instruction { constant: true, immediate, ..of(op, ty) });
    for (ty, greatest) in
        [(Type::B1, 1), (Type::F16, 0xffff), (Type::I32, u64::from(u32::MAX)), (Type::F32, u64::from(u32::MAX))]
    {
        assert_eq!([with(Op::Mov, ty, greatest), with(Op::Mov, ty, greatest + 1)], [Ok(()), REFUSED], "{ty:?}");
    }
    assert_eq!([Type::I64, Type::F64].map(|ty| with(Op::Mov, ty, u64::MAX)), [Ok(()); 2]);
    // The number of a lane is a word, whatever is shuffled.
    for ty in [Type::B1, Type::I64] {
        assert_eq!([0xffff_ffff, 1 << 32].map(|lane| with(Op::Shuffle, ty, lane)), [Ok(()), REFUSED], "{ty:?}");
    }
}

#[test]
fn a_constant_half_that_nothing_uses_is_zero() {
    for instruction in
        [of(Op::Exit, Type::None), of(Op::Add, Type::I32), of(Op::Mov, Type::I64), of(Op::Shuffle, Type::I32)]
    {
        assert_eq!(check(instruction), Ok(()));
        for immediate in [1, 1 << 31, 1 << 63] {
            assert_eq!(check(Instruction { immediate, ..instruction }), REFUSED, "{instruction:?} {immediate:#x}");
        }
    }
}

#[test]
fn offsets_are_signed_and_targets_strides_and_functions_are_not() {
    let load = |offset: i64| check(Instruction { immediate: offset as u64, ..of(Op::Load, Type::None) });
    let (least, greatest) = (i64::from(i32::MIN), i64::from(i32::MAX));
    assert_eq!([least, -1, 0, greatest].map(load), [Ok(()); 4]);
    assert_eq!([least - 1, greatest + 1, i64::from(u32::MAX), i64::MAX, i64::MIN].map(load), [REFUSED; 5]);
    for op in [Op::If, Op::Call, Op::Index] {
        let with = |immediate| check(Instruction { immediate, ..of(op, Type::None) });
        assert_eq!([0, 0xffff_ffff, 1 << 32, u64::MAX].map(with), [Ok(()), Ok(()), REFUSED, REFUSED], "{op:?}");
    }
}

#[test]
fn fields_that_an_operation_does_not_use_are_zero() {
    let reserved = Err(BadInstruction::Reserved);
    for change in [
        |exit: &mut Instruction| exit.dst = 1,
        |exit: &mut Instruction| exit.a = 1,
        |exit: &mut Instruction| exit.b = 1,
        |exit: &mut Instruction| exit.c = 1,
        |exit: &mut Instruction| exit.modifier = 1,
        |exit: &mut Instruction| exit.constant = true,
        |exit: &mut Instruction| exit.order = OrderWord::of(Scope::Workgroup, Order::Relaxed),
    ] {
        let mut exit = of(Op::Exit, Type::None);
        change(&mut exit);
        assert_eq!(check(exit), reserved, "{exit:?}");
    }
    assert_eq!(check(Instruction { b: 1, ..of(Op::Add, Type::I32) }), Ok(()));
    assert_eq!(check(Instruction { b: 1, constant: true, ..of(Op::Add, Type::I32) }), reserved);
    // Only a comparison looks at `c`, and a load not at `b` either.
    for (atomic, b, c) in [
        (AtomicOperation::Add, Ok(()), reserved),
        (AtomicOperation::Exchange, Ok(()), reserved),
        (AtomicOperation::CompareExchange, Ok(()), Ok(())),
        (AtomicOperation::Load, reserved, reserved),
    ] {
        let atomic = Instruction { modifier: atomic as u8, ..of(Op::Atomic, Type::I32) };
        assert_eq!(check(Instruction { b: 1, ..atomic }), b, "{atomic:?}");
        assert_eq!(check(Instruction { c: 1, ..atomic }), c, "{atomic:?}");
    }
}

#[test]
fn scope_and_order_exist() {
    for bits in 0..=255u8 {
        let legal = bits >> 5 == 0 && bits >> 2 & 7 <= 4;
        let fence = Instruction { order: OrderWord::from_bits(bits), ..of(Op::Fence, Type::None) };
        assert_eq!(check(fence), if legal { Ok(()) } else { Err(BadInstruction::Order) }, "{bits:#x}");
        assert_eq!(fence.ordering().is_some(), legal, "{bits:#x}");
    }
    let (scope, order) = (Scope::Device, Order::AcquireRelease);
    let fence = Instruction { order: OrderWord::of(scope, order), ..of(Op::Fence, Type::None) };
    assert_eq!((fence.order.into_bits(), fence.ordering()), (2 | 3 << 2, Some((scope, order))));
    assert_eq!(of(Op::Exit, Type::None).ordering(), None);
}

/// The numbers of the modifiers that an operation has for a type.
fn modifiers(op: Op, ty: Type) -> Vec<u8> {
    let with = |modifier| Instruction { modifier, ..of(op, ty) };
    (0..=255)
        .filter(|modifier| match check(with(*modifier)) {
            Ok(()) => true,
            Err(BadInstruction::Modifier) => false,
            other => panic!("{op:?} {ty:?} {modifier}: {other:?}"),
        })
        .collect()
}

#[test]
fn modifiers_exist_for_the_type() {
    let (integers, floats) = ([Type::I32, Type::I64], [Type::F16, Type::F32, Type::F64]);
    for ty in integers {
        assert_eq!(modifiers(Op::Cmp, ty), Vec::from_iter(0..=9), "{ty:?}");
        assert_eq!(modifiers(Op::Atomic, ty), Vec::from_iter(0..=10), "{ty:?}");
        assert_eq!(modifiers(Op::Reduce, ty), Vec::from_iter(0..=8), "{ty:?}");
        assert_eq!(modifiers(Op::ToS, ty), [Type::F16, Type::F32, Type::F64].map(|ty| ty as u8), "{ty:?}");
    }
    for ty in floats {
        assert_eq!(modifiers(Op::Cmp, ty), Vec::from_iter(0..=5), "{ty:?}");
        assert_eq!(modifiers(Op::Reduce, ty), Vec::from_iter(0..=3), "{ty:?}");
        assert_eq!(modifiers(Op::FromU, ty), integers.map(|ty| ty as u8), "{ty:?}");
        let others: Vec<u8> = floats.into_iter().filter(|other| *other != ty).map(|other| other as u8).collect();
        assert_eq!(modifiers(Op::Convert, ty), others, "{ty:?}");
    }
    for ty in [Type::F32, Type::F64] {
        assert_eq!(modifiers(Op::Atomic, ty), [0, 8, 10], "{ty:?}");
    }
    assert_eq!(modifiers(Op::Load, Type::None), Vec::from_iter(0..=9));
    assert_eq!(modifiers(Op::System, Type::None), Vec::from_iter(0..=18));
}

#[test]
fn a_modifier_is_read_by_its_operation_alone() {
    let with = |op, ty, modifier| Instruction { modifier, ..of(op, ty) };
    assert_eq!(with(Op::Cmp, Type::I32, 6).comparison(), Some(Comparison::LtU));
    assert_eq!(with(Op::ToS, Type::I32, 5).source(), Some(Type::F32));
    assert_eq!(with(Op::FromS, Type::F32, 3).source(), Some(Type::I64));
    assert_eq!(with(Op::Store, Type::None, 6).memory(), Some(MemoryFormat::W3));
    assert_eq!(with(Op::AtomicShared, Type::I32, 9).atomic(), Some(AtomicOperation::CompareExchange));
    assert_eq!(with(Op::ScanInclusive, Type::I32, 1).reduction(), Some(Reduction::Mul));
    assert_eq!(with(Op::System, Type::None, 15).system(), Some(SystemValue::LocalIndex));
    let exit = with(Op::Exit, Type::None, 1);
    assert_eq!((exit.comparison(), exit.source(), exit.memory()), (None, None, None));
    assert_eq!((exit.atomic(), exit.reduction(), exit.system()), (None, None, None));
}

#[test]
fn formats_have_their_registers_and_bytes() {
    use MemoryFormat::{D1, D2, S8, S16, U8, U16, W1, W2, W3, W4};
    for (format, element, registers, is_double) in [
        (U8, 1, 1, false),
        (S8, 1, 1, false),
        (U16, 2, 1, false),
        (S16, 2, 1, false),
        (W1, 4, 1, false),
        (W2, 4, 2, false),
        (W3, 4, 3, false),
        (W4, 4, 4, false),
        (D1, 8, 1, true),
        (D2, 8, 2, true),
    ] {
        assert_eq!((format.element(), format.registers(), format.is_double()), (element, registers, is_double));
        assert_eq!(format.bytes(), element * registers, "{format:?}");
    }
    let bits = [Type::None, Type::B1, Type::I32, Type::I64, Type::F16, Type::F32, Type::F64].map(Type::bits);
    assert_eq!(bits, [0, 1, 32, 64, 16, 32, 64]);
}

/// Bytes of a program of one function.
fn program(header: ProgramHeader, code: &[Instruction], lines: &[LineEntry]) -> Vec<u8> {
    let header = ProgramHeader { code: code.len() as u32, lines: lines.len() as u32, ..header };
    let mut bytes = header.to_bytes().to_vec();
    bytes.resize(80, 0);
    bytes.extend(code.iter().flat_map(Instruction::encode));
    bytes.extend(lines.iter().flat_map(LineEntry::to_bytes));
    bytes
}

fn rule(header: ProgramHeader, code: &[Instruction], lines: &[LineEntry]) -> Result<(), ProgramRule> {
    Program::validate(&program(header, code, lines)).map(drop).map_err(|bad| bad.rule)
}

#[test]
fn every_register_is_announced_in_its_own_file() {
    let exit = of(Op::Exit, Type::None);
    let (words, doubles, predicates) = (7, 11, 5);
    let header = ProgramHeader { words, doubles, predicates, ..ProgramHeader::new() };
    let mut tried = 0;
    let mut edge = |count: u16, width: u16, build: &dyn Fn(u8) -> Instruction| {
        let last = (count - width) as u8;
        assert_eq!(rule(header, &[build(last), exit], &[]), Ok(()), "{:?}", build(last));
        assert_eq!(rule(header, &[build(last + 1), exit], &[]), Err(ProgramRule::Register), "{:?}", build(last + 1));
        tried += 1;
    };
    for (ty, count) in [
        (Type::B1, predicates),
        (Type::I32, words),
        (Type::F16, words),
        (Type::F32, words),
        (Type::I64, doubles),
        (Type::F64, doubles),
    ] {
        edge(count, 1, &|dst| Instruction { dst, ..of(Op::Mov, ty) });
        edge(count, 1, &|b| Instruction { b, ..of(Op::Mov, ty) });
        edge(count, 1, &|a| Instruction { a, ..of(Op::Select, ty) });
        edge(predicates, 1, &|c| Instruction { c, ..of(Op::Select, ty) });
        edge(words, 1, &|b| Instruction { b, ..of(Op::Shuffle, ty) });
    }
    edge(words, 1, &|a| Instruction { a, modifier: Type::F16 as u8, ..of(Op::ToS, Type::I64) });
    edge(doubles, 1, &|a| Instruction { a, modifier: Type::F64 as u8, ..of(Op::ToS, Type::I32) });
    for (format, width) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 3), (7, 4)] {
        edge(words, width, &|dst| Instruction { dst, modifier: format, ..of(Op::Load, Type::None) });
        edge(words, width, &|c| Instruction { c, modifier: format, ..of(Op::StoreShared, Type::None) });
    }
    for (format, width) in [(8, 1), (9, 2)] {
        edge(doubles, width, &|dst| Instruction { dst, modifier: format, ..of(Op::LoadScratch, Type::None) });
    }
    edge(doubles, 1, &|a| Instruction { a, modifier: 7, ..of(Op::Store, Type::None) });
    edge(words, 1, &|a| Instruction { a, modifier: 9, ..of(Op::StoreShared, Type::None) });
    assert_eq!(tried, 6 * 5 + 2 + 8 * 2 + 2 + 2);
}

#[test]
fn sizes_of_the_header_hold_at_their_edge() {
    let exit = [of(Op::Exit, Type::None)];
    let with = |change: &dyn Fn(&mut ProgramHeader)| {
        let mut header = ProgramHeader::new();
        change(&mut header);
        rule(header, &exit, &[])
    };
    let limit = Err(ProgramRule::Limit);
    assert_eq!([256, 257].map(|count| with(&|header| header.doubles = count)), [Ok(()), limit]);
    assert_eq!([256, 257].map(|count| with(&|header| header.predicates = count)), [Ok(()), limit]);
    assert_eq!([8, 4096, 4104, 12].map(|size| with(&|header| header.scratch = size)), [Ok(()), Ok(()), limit, limit]);
    assert_eq!([8, 65536, 65544, 12].map(|size| with(&|header| header.shared = size)), [Ok(()), Ok(()), limit, limit]);
    let lanes = |x, y, z| with(&|header| (header.workgroup_x, header.workgroup_y, header.workgroup_z) = (x, y, z));
    assert_eq!([lanes(1024, 1, 1), lanes(1, 1024, 1), lanes(1, 1, 1024), lanes(8, 8, 16)], [Ok(()); 4]);
    for (x, y, z) in [(1025, 1, 1), (8, 8, 17), (0, 1, 1), (1, 0, 1), (1, 1, 0), (u32::MAX, u32::MAX, u32::MAX)] {
        assert_eq!(lanes(x, y, z), Err(ProgramRule::Workgroup), "{x} {y} {z}");
    }
    for (lanes, subgroups) in [(1, 1), (32, 1), (33, 2), (64, 2), (65, 3), (1024, 32)] {
        let header = ProgramHeader { workgroup_x: lanes, ..ProgramHeader::new() };
        assert_eq!((header.lanes(), header.subgroups()), (lanes, subgroups));
    }
}

#[test]
fn lines_are_in_order_and_of_instructions_that_exist() {
    let code = [of(Op::EndIf, Type::None); 4].map(|end| Instruction { op: Op::Fence, ..end });
    let code = [&code[..], &[of(Op::Exit, Type::None)]].concat();
    let entry = |instruction, line| LineEntry { instruction, line };
    let wrong = Err(ProgramRule::Lines);
    for (lines, expected) in [
        (vec![entry(0, 3)], Ok(())),
        (vec![entry(4, 3)], Ok(())),
        (vec![entry(5, 3)], wrong),
        (vec![entry(1, 3), entry(2, 3)], Ok(())),
        (vec![entry(1, 3), entry(1, 4)], wrong),
        (vec![entry(2, 3), entry(1, 4)], wrong),
    ] {
        assert_eq!(rule(ProgramHeader::new(), &code, &lines), expected, "{lines:?}");
    }
    let bytes = program(ProgramHeader::new(), &code, &[entry(1, 10), entry(2, 0), entry(4, 12)]);
    let program = Program::validate(&bytes).unwrap();
    assert_eq!([0, 1, 2, 3, 4].map(|at| program.line(at)), [None, Some(10), None, None, Some(12)]);
    assert_eq!((program.line_entry(2), program.line_entry(3)), (Some(entry(4, 12)), None));
    assert_eq!((program.instruction(4), program.instruction(5)), (Some(of(Op::Exit, Type::None)), None));
}

/// Bytes of a program whose functions begin at `starts`.
fn with_functions(starts: &[u32], code: &[Instruction]) -> Vec<u8> {
    let header = ProgramHeader { code: code.len() as u32, functions: starts.len() as u32, ..ProgramHeader::new() };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend(starts.iter().flat_map(|start| start.to_le_bytes()));
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    bytes.extend(code.iter().flat_map(Instruction::encode));
    bytes
}

fn bad(bytes: &[u8]) -> Option<BadProgram> {
    Program::validate(bytes).err()
}

fn whole(rule: ProgramRule) -> Option<BadProgram> {
    Some(BadProgram { rule, instruction: NO_INSTRUCTION })
}

#[test]
fn bytes_without_a_meaning_are_zero_and_none_are_too_many() {
    let (exit, ret) = (of(Op::Exit, Type::None), of(Op::Ret, Type::None));
    let bytes = with_functions(&[0, 1, 2], &[exit, ret, ret]);
    assert_eq!(bad(&bytes), None);
    let changed = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        bad(&bytes)
    };
    for at in [0, 3] {
        assert_eq!(changed(at, 0), whole(ProgramRule::Magic), "byte {at} of the magic number");
    }
    assert_eq!([changed(4, 0), changed(4, 2)], [whole(ProgramRule::Magic); 2]);
    // Between predicates and workgroup_x, behind lines, and behind the third function.
    for at in [0x16, 0x17, 0x30, 0x3f, 76, 79] {
        assert_eq!(changed(at, 1), whole(ProgramRule::Header), "{at:#x}");
    }
    assert_eq!(bad(&[&bytes[..], &[0]].concat()), whole(ProgramRule::Length));
    assert_eq!(bad(&bytes[..bytes.len() - 1]), whole(ProgramRule::Length));
    assert_eq!(bad(&bytes[..63]), whole(ProgramRule::Length));
}

#[test]
fn functions_are_in_order_and_none_is_empty() {
    let (exit, ret) = (of(Op::Exit, Type::None), of(Op::Ret, Type::None));
    let code = [exit, ret, ret];
    let longer = [exit, of(Op::Fence, Type::None), ret];
    for (starts, code) in
        [([0, 2, 1], longer), ([0, 1, 1], longer), ([0, 1, 3], code), ([1, 1, 2], code), ([0, 1, u32::MAX], code)]
    {
        assert_eq!(bad(&with_functions(&starts, &code)), whole(ProgramRule::Functions), "{starts:?}");
    }
    assert_eq!(bad(&with_functions(&[1], &[exit, exit])), whole(ProgramRule::Functions));
    assert_eq!(bad(&with_functions(&[], &[exit])), whole(ProgramRule::Functions));
    let bytes = with_functions(&[0, 1, 2], &code);
    let program = Program::validate(&bytes).unwrap();
    assert_eq!([0, 1, 2, 3].map(|number| program.function(number)), [Some(0), Some(1), Some(2), None]);
    assert_eq!((program.bytes(), program.header().functions), (&bytes[..], 3));
}

#[test]
fn code_functions_and_lines_have_a_limit() {
    let layout = |change: &dyn Fn(&mut ProgramHeader)| {
        let mut header = ProgramHeader { code: 1, ..ProgramHeader::new() };
        change(&mut header);
        header.layout()
    };
    let limit = Err(ProgramRule::Limit);
    assert_eq!([layout(&|header| header.code = 0), layout(&|header| header.code = 65537)], [limit; 2]);
    assert_eq!([layout(&|header| header.functions = 257), layout(&|header| header.lines = 65537)], [limit; 2]);
    // Header, functions up to a multiple of 16 bytes, code, lines: without gaps.
    let of = |functions, code, lines| {
        let layout =
            layout(&|header| (header.functions, header.code, header.lines) = (functions, code, lines)).unwrap();
        (layout.functions, layout.code, layout.lines, layout.size)
    };
    assert_eq!(of(1, 1, 0), (64, 80, 96, 96));
    assert_eq!(of(4, 3, 2), (64, 80, 128, 144));
    assert_eq!(of(5, 3, 2), (64, 96, 144, 160));
    assert_eq!(of(256, 65536, 65536), (64, 1088, 1_049_664, 1_573_952));
}

fn to(op: Op, target: u64) -> Instruction {
    Instruction { immediate: target, ..of(op, Type::None) }
}

/// The rule that function 0 with this code breaks, and at which instruction.
fn broken(code: &[Instruction]) -> Option<(ProgramRule, u32)> {
    let header = ProgramHeader { predicates: 1, ..ProgramHeader::new() };
    bad(&program(header, code, &[])).map(|bad| (bad.rule, bad.instruction))
}

#[test]
fn blocks_nest_sixty_four_deep() {
    let nested = |depth: u64| {
        let mut code: Vec<Instruction> = (0..depth).map(|level| to(Op::If, 2 * depth - 1 - level)).collect();
        code.extend((0..depth).map(|_| of(Op::EndIf, Type::None)));
        code.push(of(Op::Exit, Type::None));
        code
    };
    assert_eq!(broken(&nested(64)), None);
    assert_eq!(broken(&nested(65)), Some((ProgramRule::Depth, 64)));
    for depth in [1, 2, 64] {
        let header = ProgramHeader { predicates: 1, ..ProgramHeader::new() };
        assert_eq!(Program::validate(&program(header, &nested(depth), &[])).unwrap().depth(), depth as u32);
    }
}

#[test]
fn a_loop_is_left_and_continued_where_it_can_be() {
    use ProgramRule::{End, Nesting, Target};
    let [exit, end_if, continuing, break_, continue_] =
        [Op::Exit, Op::EndIf, Op::Continuing, Op::Break, Op::Continue].map(|op| of(op, Type::None));
    let (loop_, again) = (|end| to(Op::Loop, end), to(Op::EndLoop, 0));
    for (code, expected) in [
        (vec![loop_(2), continue_, again, exit], None),
        (vec![loop_(3), break_, continuing, again, exit], None),
        (vec![loop_(3), continuing, break_, again, exit], None),
        (vec![loop_(3), continuing, to(Op::BreakIf, 3), again, exit], None),
        (vec![loop_(3), to(Op::ContinueIf, 2), continuing, again, exit], None),
        (vec![loop_(3), to(Op::ContinueIf, 3), continuing, again, exit], Some((Target, 2))),
        (vec![loop_(3), continuing, to(Op::ContinueIf, 3), again, exit], Some((Nesting, 2))),
        (vec![loop_(4), to(Op::BreakIf, 4), to(Op::ContinueIf, 4), to(Op::BreakIf, 4), again, exit], None),
        (vec![loop_(4), to(Op::BreakIf, 4), to(Op::ContinueIf, 3), continuing, again, exit], Some((Target, 2))),
        (vec![loop_(3), continuing, continuing, again, exit], Some((Nesting, 2))),
        // Within an IF of a loop the block is the IF's.
        (vec![loop_(4), to(Op::If, 3), to(Op::BreakIf, 3), end_if, again, exit], None),
        (vec![loop_(4), to(Op::If, 3), to(Op::BreakIf, 4), end_if, again, exit], Some((Target, 3))),
        (vec![loop_(4), to(Op::If, 3), continuing, end_if, again, exit], Some((Nesting, 2))),
        (vec![loop_(5), continuing, to(Op::If, 4), continue_, end_if, again, exit], Some((Nesting, 3))),
        (vec![loop_(5), to(Op::If, 3), break_, to(Op::Else, 4), end_if, again, exit], None),
        (vec![to(Op::If, 1), to(Op::Else, 2), to(Op::Else, 3), end_if, exit], Some((Nesting, 2))),
        (vec![to(Op::If, 2), to(Op::EndLoop, 0), exit], Some((Nesting, 1))),
        (vec![loop_(1), to(Op::Else, 2), exit], Some((Nesting, 1))),
        (vec![loop_(1), to(Op::EndLoop, 1), exit], Some((Target, 1))),
        (vec![to(Op::If, 1), to(Op::Else, 3), end_if, exit], Some((Target, 2))),
        (vec![to(Op::If, 2), to(Op::Else, 2), end_if, exit], Some((Target, 1))),
        (vec![to(Op::If, 2), exit, end_if, exit], None),
        (vec![loop_(2), break_, again, exit], None),
        (vec![to(Op::If, 2), end_if, end_if, exit], Some((Target, 1))),
        (vec![loop_(2), break_, end_if, exit], Some((Nesting, 2))),
        (vec![to(Op::If, 3), end_if], Some((Target, 1))),
        (vec![to(Op::If, 1), exit], Some((Nesting, 1))),
        (vec![to(Op::If, 1), end_if], Some((End, 1))),
    ] {
        assert_eq!(broken(&code), expected, "{code:?}");
    }
}

#[test]
fn a_set_has_the_types_that_it_is_made_of_and_an_empty_one_the_type_none() {
    let all: Vec<Type> = Type::ALL.iter().filter_map(|(number, ..)| Type::from_number(*number)).collect();
    for set in 0_u32..1 << all.len() {
        let of: Vec<Type> = all.iter().copied().filter(|ty| set >> *ty as u32 & 1 != 0).collect();
        let types = Types::of(&of);
        for ty in &all {
            let expected = of.contains(ty) || of.is_empty() && *ty == Type::None;
            assert_eq!(types.contains(*ty), expected, "{ty:?} in a set of {of:?}");
        }
    }
}

#[test]
fn a_state_has_room_for_the_registers_and_memory_of_every_subgroup() {
    let header = |words, doubles, predicates, workgroup_x, shared, scratch| ProgramHeader {
        words,
        doubles,
        predicates,
        workgroup_x,
        shared,
        scratch,
        ..ProgramHeader::new()
    };
    // Of a dispatch and its workgroup, and of a subgroup without registers.
    let (dispatch, subgroup) = (104 + 16, 24 + 64 * 16);
    for (header, expected) in [
        (header(0, 0, 0, 1, 0, 0), dispatch + subgroup),
        (header(3, 0, 0, 1, 0, 0), dispatch + subgroup + 3 * 4 * 32),
        (header(0, 2, 0, 32, 0, 0), dispatch + subgroup + 2 * 8 * 32),
        (header(0, 0, 5, 33, 0, 0), dispatch + 2 * (subgroup + 24)),
        (header(0, 0, 0, 1, 64, 100), dispatch + 64 + subgroup + 100 * 32),
        (header(3, 2, 5, 64, 64, 100), dispatch + 64 + 2 * (subgroup + 24 + (3 * 4 + 2 * 8 + 100) * 32)),
    ] {
        assert_eq!(header.save_size(), expected, "{header:?}");
    }
}

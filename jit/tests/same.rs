//! Compiled programs give the same bits as interpreted ones, also when they are stopped.

mod guest;
#[path = "../../shader/tests/random/mod.rs"]
mod random;

use campanile_hw::isa::{
    Comparison, FORMS, Immediate, Instruction, LANES, Op, Operand, Program, ProgramHeader, SystemValue, Type,
};
use campanile_isa::{Source, assemble, link};
use campanile_jit::Compiled;
use campanile_shader::{Cause, Code, Counters, Dispatch, Kernel, Outcome, Place, State};
use guest::{BASE, Forbidden, Guest, PAGE, vectors};
use proptest::prelude::*;
use random::{REACH, choices, program};

fn kernel(bytes: &[u8]) -> Kernel {
    Kernel::new(&Program::validate(bytes).expect("valid"))
}

/// Runs that end without an outcome are so long.
const WHOLE: u64 = 10_000_000;

/// Where the argument block lies: in one page, over the boundary of two, with its end where nothing may be written, and where nothing may be read.
fn blocks() -> impl Strategy<Value = u64> {
    let end = |pages: u64| BASE + pages * PAGE - REACH as u64 / 2 / 64 * 64;
    prop_oneof![
        4 => Just(BASE),
        4 => Just(end(1)),
        1 => Just(end(2)),
        1 => Just(end(3)),
        1 => Just(end(4)),
        1 => Just(BASE + 2 * PAGE),
        1 => Just(BASE + 2),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_compiled_program_does_the_same_wherever_it_is_stopped(
        choices in choices(), block in blocks(), budgets in prop::collection::vec(1u64..300, 1..40),
        vectors in prop::sample::select(vectors())
    ) {
        let kernel = kernel(&program(&choices));
        let compiled = Compiled::with(&kernel, vectors).expect("compiled");
        let grid = [2, 2, 1];
        let (mut expected, mut whole) = (Guest::new(), Dispatch::new(grid, block));
        let end = whole.run(&kernel, &mut expected, &mut { WHOLE });
        prop_assert!(end != Outcome::Paused);
        let (mut memory, mut dispatch) = (Guest::new(), Dispatch::new(grid, block));
        for (turn, budget) in budgets.iter().cycle().enumerate() {
            let mut budget = *budget;
            // Every third stretch is interpreted: a state belongs to no executor.
            let outcome = if turn % 3 == 2 {
                dispatch.run(&kernel, &mut memory, &mut budget)
            } else {
                dispatch.run_with(&kernel, &compiled, &mut memory, &mut budget)
            };
            if outcome != Outcome::Paused {
                prop_assert_eq!(outcome, end);
                break;
            }
            if turn % 5 == 0 {
                memory.invalidate();
            }
            let saved = dispatch.save(&kernel, 77);
            prop_assert!(saved.len() <= kernel.header().save_size() as usize);
            dispatch = Dispatch::restore(&kernel, &saved).expect("its own state").0;
        }
        prop_assert!(memory.contents() == expected.contents(), "memory differs");
        prop_assert!(dispatch == whole, "state differs");
    }
}

/// Bits that arithmetic is particular about, of each width.
const PARTICULAR: [u64; 24] = [
    0,
    1,
    2,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0x7fff,
    0x8000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0001,
    0x3f80_0000,
    0x7fa0_1234,
    0x8000_0001,
    0x3ff0_0000_0000_0000,
    0x7ff4_0000_0000_1234,
    0x8000_0000_0000_0000,
    0x43e0_0000_0000_0001,
    u64::MAX,
];

/// Registers of a subgroup with bits from a generator, every fourth a particular one.
fn registers(seed: u64) -> (Vec<[u32; LANES]>, Vec<[u64; LANES]>, Vec<u32>) {
    let mut state = seed | 1;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = state >> 16 ^ state << 32;
        let pick = (state >> 40) as usize;
        match pick % 4 {
            0 => PARTICULAR[pick / 4 % PARTICULAR.len()],
            // Numbers of ordinary size as binary32 and binary64.
            1 => u64::from(((random % 20_000) as f32 / 8.0 - 1000.0).to_bits()),
            2 => ((random % 20_000) as f64 / 8.0 - 1000.0).to_bits(),
            _ => random,
        }
    };
    let words = (0..8).map(|_| std::array::from_fn(|_| next() as u32)).collect();
    let doubles = (0..8).map(|_| std::array::from_fn(|_| next())).collect();
    (words, doubles, (0..8).map(|_| next() as u32).collect())
}

/// Constants that instructions are given: amounts of shifts within and beyond the bits of a word, and whole bytes of them; bits of signs; the smallest and the greatest of either size.
const CONSTANTS: [u64; 12] = [0, 1, 5, 8, 24, 32, 40, 56, 63, 0x8000_0000, 1 << 63, u64::MAX];
/// Distances in bytes that an index is multiplied by.
const STRIDES: [u64; 5] = [0, 1, 8, 24, 0xffff_fff3];

/// Every instruction that the table of operations allows, with registers 0 to 3 and sources of each kind.
fn instructions() -> impl Iterator<Item = Instruction> {
    FORMS.iter().filter(|form| form.op as u8 > Op::Ret as u8).flat_map(|form| {
        (0..7).filter_map(Type::from_number).flat_map(move |ty| {
            (0..19).flat_map(move |modifier| {
                let constants = CONSTANTS.map(|constant| (true, constant)).into_iter();
                let others = STRIDES.into_iter().take(if form.immediate == Immediate::Stride { 5 } else { 1 });
                others.map(|stride| (false, stride)).chain(constants).filter_map(move |(constant, immediate)| {
                    let mut instruction = Instruction::new(form.op, ty);
                    instruction.modifier = modifier;
                    instruction.constant = constant;
                    let used = instruction.operands().map(|operand| operand != Operand::None);
                    let numbers = [3u8, 0, 1, 2];
                    let field = |place: usize| if used[place] { numbers[place] } else { 0 };
                    [instruction.dst, instruction.a, instruction.b, instruction.c] = [0, 1, 2, 3].map(field);
                    if constant {
                        instruction.b = 0;
                    }
                    if constant || form.immediate == Immediate::Stride {
                        instruction.immediate = immediate;
                    }
                    instruction.check().is_ok().then_some(instruction)
                })
            })
        })
    })
}

/// A program of one instruction.
fn alone(instruction: Instruction) -> Kernel {
    let [workgroup_x, workgroup_y, workgroup_z] = SIZE;
    let sizes = ProgramHeader { workgroup_x, workgroup_y, workgroup_z, ..ProgramHeader::new() };
    let header = ProgramHeader { words: 8, doubles: 8, predicates: 8, ..sizes };
    let source = |instruction| Source { instruction, line: 0 };
    let code = vec![source(instruction), source(Instruction::new(Op::Exit, Type::None))];
    kernel(&link(&header, &[code]).expect("legal"))
}

#[test]
fn every_plain_instruction_means_the_same_in_both_executors() {
    let mut seen = std::collections::BTreeSet::new();
    let all = vectors();
    for (instruction, vectors) in instructions().flat_map(|instruction| all.iter().map(move |one| (instruction, *one)))
    {
        let kernel = alone(instruction);
        let compiled = Compiled::with(&kernel, vectors).expect("compiled");
        // What reaches memory or other lanes has tests of its own.
        if Code::<Guest>::length(&compiled, 0) == 0 || instruction.op as u8 >= Op::Load as u8 {
            continue;
        }
        seen.insert(instruction.op as u8);
        for seed in 0..24 {
            let active = [u32::MAX, 0x8000_0001, 0x00f0_1234, 0x5555_5555][seed as usize % 4];
            let (mut words, mut doubles, mut predicates) = registers(seed);
            let [to, sources @ ..] = instruction.registers();
            let mut expected = (words.clone(), doubles.clone(), predicates.clone());
            for lane in (0..LANES).filter(|lane| active >> lane & 1 != 0) {
                let read = |(file, register, _): (Operand, u8, u32)| match (file, usize::from(register)) {
                    (Operand::Word, register) => u64::from(words[register][lane]),
                    (Operand::Double, register) => doubles[register][lane],
                    (Operand::Predicate, register) => u64::from(predicates[register] >> lane & 1),
                    _ => 0,
                };
                let [a, mut b, c] = sources.map(read);
                if instruction.constant {
                    b = instruction.immediate;
                }
                let result = match instruction.system() {
                    Some(value) => system(value, lane as u32).into(),
                    None => meaning(&instruction, a, b, c),
                };
                let place = usize::from(to.1);
                match to.0 {
                    Operand::Word => expected.0[place][lane] = result as u32,
                    Operand::Double => expected.1[place][lane] = result,
                    _ => expected.2[place] = expected.2[place] & !(1 << lane) | (result as u32 & 1) << lane,
                }
            }
            let (mut pc, mut lanes, mut budget) = (0, active, 1);
            let state = State {
                pc: &mut pc,
                active: &mut lanes,
                frames: &mut [],
                depth: &mut 0,
                words: &mut words,
                doubles: &mut doubles,
                predicates: &mut predicates,
                shared: &mut [],
                scratch: &mut [],
                arguments: 0x1234_5678_9abc,
                place: Place { workgroup: WORKGROUP, count: COUNT, subgroup: 1, local: kernel.local(1) },
                budget: &mut budget,
                counters: &mut Counters::default(),
            };
            compiled.run(state, &mut Guest::new());
            assert_eq!((pc, lanes, budget), (1, active, 0));
            assert_eq!((words, doubles, predicates), expected, "{instruction:?}, {active:#x}, {seed}, {vectors:?}");
        }
    }
    assert!(seen.len() >= 45, "operations that are compiled: {seen:?}");
}

/// Lanes of the workgroup in which instructions are compared, its place in the grid, and the workgroups of the grid.
const SIZE: [u32; 3] = [6, 4, 3];
const WORKGROUP: [u32; 3] = [7, 8, 9];
const COUNT: [u32; 3] = [10, 11, 12];

/// A system value of a lane of the second subgroup.
fn system(value: SystemValue, lane: u32) -> u32 {
    let index = LANES as u32 + lane;
    let local = [index % 6, index / 6 % 4, index / 24];
    let number = value as usize;
    match value {
        SystemValue::LocalIdX | SystemValue::LocalIdY | SystemValue::LocalIdZ => local[number],
        SystemValue::WorkgroupIdX | SystemValue::WorkgroupIdY | SystemValue::WorkgroupIdZ => WORKGROUP[number - 3],
        SystemValue::GlobalIdX => 7 * 6 + local[0],
        SystemValue::GlobalIdY => 8 * 4 + local[1],
        SystemValue::GlobalIdZ => 9 * 3 + local[2],
        SystemValue::WorkgroupSizeX | SystemValue::WorkgroupSizeY | SystemValue::WorkgroupSizeZ => {
            SIZE[number - SystemValue::WorkgroupSizeX as usize]
        }
        SystemValue::WorkgroupCountX | SystemValue::WorkgroupCountY | SystemValue::WorkgroupCountZ => {
            COUNT[number - SystemValue::WorkgroupCountX as usize]
        }
        SystemValue::LocalIndex => index,
        SystemValue::SubgroupId => 1,
        SystemValue::SubgroupCount => 3,
        SystemValue::LaneId => lane,
    }
}

/// What an instruction means for one lane, by the functions that every executor has to agree with.
fn meaning(instruction: &Instruction, a: u64, b: u64, c: u64) -> u64 {
    let (op, ty) = (instruction.op, instruction.ty);
    match op {
        Op::Arguments => 0x1234_5678_9abc,
        Op::Select => {
            if c != 0 {
                a
            } else {
                b
            }
        }
        Op::Index => a.wrapping_add(b.wrapping_mul(instruction.immediate)),
        Op::Cmp => {
            let comparison = instruction.comparison().unwrap_or(Comparison::Eq);
            campanile_shader::compare(comparison, ty, a, b).into()
        }
        Op::FromS | Op::FromU | Op::ToS | Op::ToU | Op::Convert => {
            campanile_shader::convert(op, ty, instruction.source().expect("a source"), a)
        }
        _ => campanile_shader::evaluate(op, ty, a, b, c),
    }
}

#[test]
fn segments_are_cut_and_a_run_ends_before_one_that_does_not_fit() {
    let text = format!("{}arguments d0\nstore.w1 [d0], w0\nexit", "add.i32 w0, w0, 1\n".repeat(149));
    let kernel = kernel(&assemble(&text).expect("legal"));
    let compiled = Compiled::new(&kernel).expect("compiled");
    assert_eq!(compiled.segments().collect::<Vec<_>>(), [(0, 128), (128, 23), (150, 1)]);
    let mut dispatch = Dispatch::new([1, 1, 1], BASE);
    let mut memory = Guest::new();
    let mut budget = 140;
    assert_eq!(dispatch.run_with(&kernel, &compiled, &mut memory, &mut budget), Outcome::Paused);
    // The workgroup has a KiB of registers, which counts as an instruction when it begins.
    assert_eq!((budget, dispatch.counters().instructions), (11, 128));
    // The access at the end is an entry, too. A budget smaller than the segment at hand is spent instruction by instruction.
    let mut budget = 10;
    assert_eq!(dispatch.run_with(&kernel, &compiled, &mut memory, &mut budget), Outcome::Paused);
    assert_eq!((budget, dispatch.counters().instructions), (0, 138));
    assert_eq!(dispatch.run_with(&kernel, &compiled, &mut memory, &mut 100), Outcome::Done);
    assert_eq!((memory.contents()[0] as u32, dispatch.counters().instructions), (149, 152));
}

/// A loop that adds 1 to the word of each lane, 100 times, through memory.
const COUNTING: &str = "\
.workgroup 32, 1, 1
arguments d0
system.lane_id w0
index d0, d0, w0, 4
loop
load.w1 w1, [d0]
add.i32 w1, w1, 1
store.w1 [d0], w1
add.i32 w2, w2, 1
cmp.i32.ge_u p0, w2, 100
break_if p0
end_loop
exit
";

#[test]
fn a_page_is_asked_for_once_until_it_is_invalidated() {
    let kernel = kernel(&assemble(COUNTING).expect("legal"));
    let compiled = Compiled::new(&kernel).expect("compiled");
    let mut dispatch = Dispatch::new([1, 1, 1], BASE);
    let mut memory = Guest::new();
    assert_eq!(dispatch.run_with(&kernel, &compiled, &mut memory, &mut 400), Outcome::Paused);
    // The first load and the first store.
    assert_eq!(memory.asked, 2);
    memory.invalidate();
    assert_eq!(dispatch.run_with(&kernel, &compiled, &mut memory, &mut { WHOLE }), Outcome::Done);
    assert_eq!(memory.asked, 4);
    let counters = dispatch.counters();
    assert_eq!((counters.loads, counters.stores), (3200, 3200));
    let fresh = Guest::new().contents();
    let words = |memory: &[u64]| {
        memory.iter().take(16).flat_map(|pair| [*pair as u32, (pair >> 32) as u32]).collect::<Vec<_>>()
    };
    let expected: Vec<u32> = words(&fresh).iter().map(|word| word.wrapping_add(100)).collect();
    assert_eq!(words(&memory.contents()), expected);
}

#[test]
fn a_page_that_may_only_be_read_faults_at_a_store_of_compiled_code() {
    let kernel = kernel(&assemble(COUNTING).expect("legal"));
    let compiled = Compiled::new(&kernel).expect("compiled");
    let mut memory = Guest::new();
    let mut dispatch = Dispatch::new([1, 1, 1], BASE + 2 * PAGE);
    let outcome = dispatch.run_with(&kernel, &compiled, &mut memory, &mut { WHOLE });
    let Outcome::Fault(fault) = outcome else { panic!("{outcome:?}") };
    assert_eq!((fault.cause, fault.instruction, fault.lane), (Cause::Memory(Forbidden(BASE + 2 * PAGE)), 6, 0));
    assert_eq!(dispatch.counters().loads, 32);
}

/// Atomic operations of every kind on workgroup memory and on memory, votes, ballots and broadcasts, also with some lanes and with none.
const TOGETHER: &str = "\
.workgroup 40, 1, 1
.shared 64
arguments d0
system.lane_id w0
system.local_index w9
and.i32 w1, w0, 7
shl.i32 w1, w1, 2
cmp.i32.lt_u p0, w9, 35
index d1, d0, w0, 8
widen_u d2, w9
if p0
atomic_shared.i32.add.workgroup.relaxed w2, [w1], w9
atomic_shared.i32.compare_exchange.workgroup.relaxed w3, [w1], w0, w2
atomic_shared.i32.min_s.workgroup.relaxed w3, [w1 + 32], w9
atomic.i64.max_u.device.relaxed d3, [d1], d2
atomic.i64.xor.device.relaxed d3, [d0 + 512], d2
atomic.i32.add.device.relaxed w4, [d0 + 1024], w9
atomic.i32.exchange.device.relaxed w4, [d0 + 1028], w4
atomic.i32.compare_exchange.device.relaxed w5, [d0 + 1028], w9, w4
atomic.i32.load.device.relaxed w6, [d0 + 1028]
end_if
cmp.i32.gt_u p1, w2, 50
ballot w7, p1
vote_any p2, p1
vote_all p3, p1
select.i32 w8, w7, w2, p2
broadcast_first.i32 w2, w8
broadcast_first.i64 d3, d2
exit
";

#[test]
fn what_lanes_do_together_is_compiled_and_means_the_same() {
    let kernel = kernel(&assemble(TOGETHER).expect("legal"));
    let compiled = Compiled::new(&kernel).expect("compiled");
    let (mut expected, mut whole) = (Guest::new(), Dispatch::new([2, 1, 1], BASE));
    assert_eq!(whole.run(&kernel, &mut expected, &mut { WHOLE }), Outcome::Done);
    let (mut memory, mut dispatch) = (Guest::new(), Dispatch::new([2, 1, 1], BASE));
    assert_eq!(dispatch.run_with(&kernel, &compiled, &mut memory, &mut { WHOLE }), Outcome::Done);
    assert!(memory.contents() == expected.contents(), "memory differs");
    assert_eq!(dispatch.counters(), whole.counters());
    // EXIT is the interpreter's.
    let instructions: u32 = compiled.segments().map(|(_, length)| length).sum();
    assert_eq!(instructions as usize, kernel.code().len() - 1);
}

/// Comparisons into more predicates than masks or vectors of any form hold, operations on all of them, and words that are chosen by them.
fn predicates() -> String {
    let each = |text: fn(usize) -> String| (0..20).map(text).collect::<String>();
    let compare = each(|number| {
        let (comparison, other) = (["lt_u", "ge", "ne", "gt"][number % 4], (number * 7 + 3) % 20);
        format!("cmp.i32.{comparison} p{}, w{number}, w{other}\n", number + 1)
    });
    let choose = each(|number| {
        let other = (number * 11 + 5) % 20;
        format!("select.i32 w{number}, w{other}, w{number}, p{}\n", (number * 3 + 1) % 20 + 1)
    });
    format!("{compare}{}{choose}", chain("p", &["xor.b1", "and.b1", "or.b1"], 40))
}

/// Operations on one register after another, more than vectors of any form hold, each of which is read by later ones.
fn chain(file: &str, ops: &[&str], count: usize) -> String {
    let line = |number: usize| {
        let [to, one, other] = [number % 20, (number * 7 + 3) % 20, (number * 11 + 5) % 20];
        format!("{} {file}{to}, {file}{one}, {file}{other}\n", ops[number % ops.len()])
    };
    (0..count).map(line).collect()
}

#[test]
fn a_stretch_with_more_registers_than_vectors_means_the_same() {
    let bodies = [
        chain("w", &["add.i32", "xor.i32", "mul.i32", "sub.i32"], 100),
        // Infinite numbers and NaNs come about.
        chain("w", &["add.f32", "mul.f32", "div.f32", "sub.f32", "max.f32"], 100),
        chain("w", &["add.f32", "mul.f32", "xor.i32", "sub.f32"], 100),
        chain("d", &["add.i64", "xor.i64", "sub.i64"], 100),
        chain("d", &["add.f64", "mul.f64", "div.f64", "sub.f64"], 100),
        predicates(),
        format!(
            "{}rotl.i32 w3, w4, 7\nrotl.i32 w3, w3, 16\n{}",
            chain("w", &["add.i32"], 40),
            chain("w", &["xor.i32"], 40)
        ),
    ];
    let setup: String = (0..20)
        .map(|number| {
            format!("mul.i32 w{number}, w20, {}\nindex d{number}, d20, w{number}, 24\n", 0x0123_4567 * (number + 1))
        })
        .collect();
    let stores: String = (0..20)
        .map(|number| {
            format!("store.w1 [d21 + {}], w{number}\nstore.d1 [d22 + {}], d{number}\n", number * 128, number * 8)
        })
        .collect();
    for (body, lanes) in bodies.iter().flat_map(|body| [0, 13, 40].map(|lanes| (body, lanes))) {
        let text = format!(
            ".workgroup 40, 1, 1\narguments d20\nsystem.local_index w20\nindex d21, d20, w20, 4\nindex d22, d20, w20, 192\n{setup}cmp.i32.ge_u p0, w20, {lanes}
            if p0\n{body}end_if\n{stores}exit"
        );
        let kernel = kernel(&assemble(&text).expect("legal"));
        let (mut expected, mut whole) = (Guest::new(), Dispatch::new([1, 1, 1], BASE));
        assert_eq!(whole.run(&kernel, &mut expected, &mut { WHOLE }), Outcome::Done);
        for vectors in vectors() {
            let compiled = Compiled::with(&kernel, vectors).expect("compiled");
            let (mut memory, mut dispatch) = (Guest::new(), Dispatch::new([1, 1, 1], BASE));
            assert_eq!(dispatch.run_with(&kernel, &compiled, &mut memory, &mut { WHOLE }), Outcome::Done);
            assert!(memory.contents() == expected.contents(), "memory differs, {vectors:?}\n{text}");
            assert!(dispatch == whole, "state differs, {vectors:?}\n{text}");
        }
    }
}

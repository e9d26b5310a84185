//! Compiled programs give the same bits as interpreted ones, also when they are stopped.

#[path = "../../shader/tests/random/mod.rs"]
mod random;

use campanile_hw::isa::{Comparison, FORMS, Immediate, Instruction, LANES, Op, Operand, Program, ProgramHeader, Type};
use campanile_isa::{Source, assemble, link};
use campanile_jit::Compiled;
use campanile_shader::{Blocks, Counters, Dispatch, Kernel, Outcome, Registers};
use proptest::prelude::*;
use random::{BASE, Flat, choices, program};

fn kernel(bytes: &[u8]) -> Kernel {
    Kernel::new(&Program::validate(bytes).expect("valid"))
}

/// Memory, counters and outcome of a program that is interpreted and not stopped.
fn interpreted(kernel: &Kernel, grid: [u32; 3]) -> (Flat, Counters) {
    let mut memory = Flat(vec![0; 256]);
    let mut dispatch = Dispatch::new(grid, BASE);
    assert_eq!(dispatch.run(kernel, &mut memory, &mut 10_000_000), Outcome::Done);
    (memory, *dispatch.counters())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_compiled_program_gives_the_same_bits_wherever_it_is_stopped(choices in choices(), budgets in prop::collection::vec(1u64..90, 1..40)) {
        let kernel = kernel(&program(&choices));
        let compiled = Compiled::new(&kernel).expect("compiled");
        let whole = interpreted(&kernel, [2, 2, 1]);
        let mut memory = Flat(vec![0; 256]);
        let mut dispatch = Dispatch::new([2, 2, 1], BASE);
        for (turn, budget) in budgets.iter().cycle().enumerate() {
            let mut budget = *budget;
            // Every third stretch is interpreted: a state belongs to no executor.
            let outcome = if turn % 3 == 2 {
                dispatch.run(&kernel, &mut memory, &mut budget)
            } else {
                dispatch.run_with(&kernel, &compiled, &mut memory, &mut budget)
            };
            if outcome == Outcome::Done {
                break;
            }
            let saved = dispatch.save(77);
            prop_assert!(saved.len() <= kernel.header().save_size() as usize);
            dispatch = Dispatch::restore(&kernel, &saved).expect("its own state").0;
        }
        prop_assert!(whole.0 == memory, "memory differs");
        prop_assert_eq!(whole.1, *dispatch.counters());
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

/// Every instruction that the table of operations allows, with registers 0 to 3 and sources of each kind.
fn instructions() -> impl Iterator<Item = Instruction> {
    FORMS.iter().filter(|form| form.op as u8 > Op::Ret as u8).flat_map(|form| {
        (0..7).filter_map(Type::from_number).flat_map(move |ty| {
            (0..19).flat_map(move |modifier| {
                [false, true].into_iter().filter_map(move |constant| {
                    let mut instruction = Instruction::new(form.op, ty);
                    instruction.modifier = modifier;
                    instruction.constant = constant;
                    let used = instruction.operands().map(|operand| operand != Operand::None);
                    let numbers = [3u8, 0, 1, 2];
                    let field = |place: usize| if used[place] { numbers[place] } else { 0 };
                    [instruction.dst, instruction.a, instruction.b, instruction.c] = [0, 1, 2, 3].map(field);
                    if constant {
                        instruction.b = 0;
                        instruction.immediate = if ty == Type::B1 { 1 } else { 5 };
                    } else if form.immediate == Immediate::Stride {
                        instruction.immediate = 0xffff_fff3;
                    }
                    instruction.check().is_ok().then_some(instruction)
                })
            })
        })
    })
}

#[test]
fn every_instruction_of_a_block_means_the_same_in_both_executors() {
    let mut seen = std::collections::BTreeSet::new();
    for instruction in instructions() {
        let header = ProgramHeader { words: 8, doubles: 8, predicates: 8, ..ProgramHeader::new() };
        let source = |instruction| Source { instruction, line: 0 };
        let code = vec![source(instruction), source(Instruction::new(Op::Exit, Type::None))];
        let kernel = kernel(&link(&header, &[code]).expect("legal"));
        let compiled = Compiled::new(&kernel).expect("compiled");
        if compiled.length(0) == 0 {
            continue;
        }
        seen.insert(instruction.op as u8);
        for seed in 0..24 {
            let active = [u32::MAX, 0x8000_0001, 0x00f0_1234, 0x5555_5555][seed as usize % 4];
            let (mut words, mut doubles, mut predicates) = registers(seed);
            let [to, sources @ ..] = instruction.registers();
            let mut expected = (words.clone(), doubles.clone(), predicates.clone());
            for lane in (0..LANES).filter(|lane| active >> lane & 1 != 0) {
                let read = |(file, register, _): (Operand, u8, u32)| match file {
                    Operand::Word => u64::from(words[usize::from(register)][lane]),
                    Operand::Double => doubles[usize::from(register)][lane],
                    Operand::Predicate => u64::from(predicates[usize::from(register)] >> lane & 1),
                    _ => 0,
                };
                let [a, mut b, c] = sources.map(read);
                if instruction.constant {
                    b = instruction.immediate;
                }
                let result = meaning(&instruction, a, b, c);
                let place = usize::from(to.1);
                match to.0 {
                    Operand::Word => expected.0[place][lane] = result as u32,
                    Operand::Double => expected.1[place][lane] = result,
                    _ => expected.2[place] = expected.2[place] & !(1 << lane) | (result as u32 & 1) << lane,
                }
            }
            let registers = Registers {
                words: &mut words,
                doubles: &mut doubles,
                predicates: &mut predicates,
                active,
                arguments: 0x1234_5678_9abc,
            };
            compiled.run(0, registers);
            assert_eq!((words, doubles, predicates), expected, "{instruction:?} with {active:#x}, registers {seed}");
        }
    }
    assert!(seen.len() >= 45, "operations that are compiled: {seen:?}");
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
fn blocks_are_cut_and_a_run_ends_before_one_that_does_not_fit() {
    let text = format!("{}arguments d0\nstore.w1 [d0], w0\nexit", "add.i32 w0, w0, 1\n".repeat(149));
    let kernel = kernel(&assemble(&text).expect("legal"));
    let compiled = Compiled::new(&kernel).expect("compiled");
    assert_eq!(compiled.blocks().collect::<Vec<_>>(), [(0, 64), (64, 64), (128, 22)]);
    let mut dispatch = Dispatch::new([1, 1, 1], BASE);
    let mut memory = Flat(vec![0; 4]);
    let mut budget = 100;
    assert_eq!(dispatch.run_with(&kernel, &compiled, &mut memory, &mut budget), Outcome::Paused);
    assert_eq!((budget, dispatch.counters().instructions), (36, 64));
    // A budget smaller than the block at hand is spent instruction by instruction.
    let mut budget = 10;
    assert_eq!(dispatch.run_with(&kernel, &compiled, &mut memory, &mut budget), Outcome::Paused);
    assert_eq!((budget, dispatch.counters().instructions), (0, 74));
    assert_eq!(dispatch.run_with(&kernel, &compiled, &mut memory, &mut 100), Outcome::Done);
    assert_eq!((memory.word(0), dispatch.counters().instructions), (149, 152));
}

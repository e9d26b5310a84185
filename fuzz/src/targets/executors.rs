//! The executors of the compute engine's programs: the interpreter, and compiled code with vectors of either width.

use campanile_hw::isa::Program;
use campanile_jit::{Compiled, Vectors};
use campanile_shader::{Dispatch, Kernel, Outcome};

use crate::input::Input;

/// Memory whose pages compiled code reaches by itself, which the tests of the compiler use, too.
#[allow(dead_code, unsafe_code)] // they do more with it
#[path = "../../../jit/tests/guest/mod.rs"]
mod guest;
/// Programs that end, from choices.
#[path = "../../../shader/tests/random/program.rs"]
mod program;

use guest::{BASE, Guest, PAGE};
use program::{Choice, REACH};

/// Instructions after which a program counts as one that does not end.
const WHOLE: u64 = 50_000;
/// Workgroups of one dimension, at most.
const GRID: u8 = 2;

/// Where the argument block lies: in one page, over the boundary of two, and before and in pages that may not be written or read.
fn block(input: &mut Input<'_>) -> u64 {
    let end = |pages: u64| BASE + pages * PAGE - REACH as u64 / 2 / 64 * 64;
    input.pick(&[BASE, end(1), BASE, end(2), end(3), end(4), BASE + 2 * PAGE, BASE + 2])
}

/// A program that ends, from choices of the input, or the bytes of one.
fn code(input: &mut Input<'_>) -> Vec<u8> {
    if input.u8() % 4 == 3 {
        return input.rest().to_vec();
    }
    let mut choices: Vec<Choice> = Vec::new();
    while !input.is_empty() && choices.len() < 120 {
        choices.push((input.u8(), usize::from(input.u8()), input.bytes(), input.u64()));
    }
    program::program(&choices)
}

/// The end of a program that both executors run in turn with these budgets; `None` if it does not end. What is saved after a step is all that the next one has.
fn run(kernel: &Kernel, compiled: &Compiled, place: ([u32; 3], u64), budgets: [u8; 8]) -> Option<Ran> {
    let (mut memory, mut dispatch) = (Guest::new(), Dispatch::new(place.0, place.1));
    let mut left = 2 * WHOLE;
    for turn in 0.. {
        let given = 1 + u64::from(budgets[turn % budgets.len()]) * 2;
        let mut budget = given;
        let outcome = if turn % 3 == 2 {
            dispatch.run(kernel, &mut memory, &mut budget)
        } else {
            dispatch.run_with(kernel, compiled, &mut memory, &mut budget)
        };
        if outcome != Outcome::Paused {
            return Some((outcome, memory.contents(), dispatch));
        }
        left = left.checked_sub((given - budget).max(1))?;
        if turn % 5 == 0 {
            memory.invalidate();
        }
        let saved = dispatch.save(kernel, 77);
        assert!(saved.len() <= kernel.header().save_size() as usize, "{} bytes of state", saved.len());
        dispatch = Dispatch::restore(kernel, &saved).expect("its own state").0;
    }
    None
}

/// Outcome, memory and state at the end.
type Ran = (Outcome<guest::Forbidden>, Vec<u64>, Dispatch);

/// A program has the same outcome, memory and state at its end whether it is interpreted, or compiled, stopped, saved, restored and interpreted in turn.
pub(crate) fn executors(data: &[u8]) {
    let mut input = Input::new(data);
    let grid = [(); 2].map(|()| u32::from(input.u8() % GRID + 1));
    let (grid, block) = ([grid[0], grid[1], 1], block(&mut input));
    let budgets = input.bytes();
    let bytes = code(&mut input);
    let Ok(program) = Program::validate(&bytes) else { return };
    let kernel = Kernel::new(&program);
    let (mut memory, mut whole) = (Guest::new(), Dispatch::new(grid, block));
    let end = whole.run(&kernel, &mut memory, &mut { WHOLE });
    for vectors in Vectors::ALL.into_iter().filter(|vectors| vectors.is_there()) {
        let compiled = Compiled::with(&kernel, vectors).expect("compiled");
        let by_turns = run(&kernel, &compiled, (grid, block), budgets);
        if end == Outcome::Paused {
            continue;
        }
        let (outcome, contents, dispatch) = by_turns.expect("an end, as without turns");
        assert_eq!(outcome, end, "outcome, {vectors:?}");
        assert!(contents == memory.contents(), "memory differs, {vectors:?}");
        assert!(dispatch == whole, "state differs, {vectors:?}");
    }
}

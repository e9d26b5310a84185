//! Programs by the thousand, drawn from a seed: random ones that end, and such ones with bytes changed. Interpreted and compiled, stopped anywhere, they end alike.
//!
//! CAMPANILE_PROGRAMS says how many of each; every thread of the host takes its part of them. A million of each takes some hours of a processor in release mode.

mod guest;
#[allow(dead_code)] // other tests use all of it
#[path = "../../shader/tests/random/program.rs"]
mod program;

use std::thread;

use campanile_hw::isa::Program;
use campanile_jit::{Compiled, Vectors};
use campanile_shader::{Dispatch, Kernel, Outcome};
use fastrand::Rng;
use guest::{BASE, Forbidden, Guest, PAGE, vectors};
use program::{Choice, REACH, program};

/// Programs of each kind that every run of the tests has.
const USUALLY: u64 = 400;
/// Instructions of all lanes together after which a program counts as one that does not end, which changed ones may.
const WHOLE: u64 = 50_000;
/// Most programs have this many choices at most, so that their number is large and their time short; one of sixteen may have as many as the second number.
const SHORT: usize = 8;
const LONG: usize = 120;

/// The number of programs that the run is to have.
fn asked() -> u64 {
    let named = std::env::var("CAMPANILE_PROGRAMS").ok();
    named.map_or(USUALLY, |text| text.parse().unwrap_or_else(|_| panic!("CAMPANILE_PROGRAMS: {text} is no number")))
}

/// The bytes of a program that ends.
fn drawn(random: &mut Rng) -> Vec<u8> {
    let most = if random.u8(..16) == 0 { LONG } else { SHORT };
    let choices: Vec<Choice> = (0..random.usize(1..=most))
        .map(|_| (random.u8(..), random.usize(..), std::array::from_fn(|_| random.u8(..)), random.u64(..)))
        .collect();
    program(&choices)
}

/// Changes bytes of a program, most often behind its header, which is refused most easily.
fn damage(bytes: &mut [u8], random: &mut Rng) {
    for _ in 0..random.u8(1..3) {
        let first = if random.u8(..16) == 0 { 0 } else { 64.min(bytes.len() - 1) };
        let place = random.usize(first..bytes.len());
        bytes[place] = if random.bool() { random.u8(..) } else { bytes[place] ^ 1 << random.u8(..8) };
    }
}

/// Counts of programs by their end.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    refused: u64,
    done: u64,
    faulted: u64,
    endless: u64,
    /// Stops of compiled runs before their end.
    stops: u64,
}

impl Ends {
    fn and(self, other: Self) -> Self {
        Self {
            refused: self.refused + other.refused,
            done: self.done + other.done,
            faulted: self.faulted + other.faulted,
            endless: self.endless + other.endless,
            stops: self.stops + other.stops,
        }
    }
}

/// Runs a program in turns of the two executors, each of which has nothing but what the one before has saved; `None` if it does not end.
fn by_turns(
    kernel: &Kernel,
    compiled: &Compiled,
    mut dispatch: Dispatch,
    random: &mut Rng,
    stops: &mut u64,
) -> Option<(Outcome<Forbidden>, Vec<u64>, Dispatch)> {
    let (mut memory, mut left) = (Guest::new(), 2 * WHOLE);
    let most = 1 << random.u8(1..10);
    for turn in 0.. {
        let given = random.u64(1..=most);
        let mut budget = given;
        let outcome = if turn % 3 == 2 {
            dispatch.run(kernel, &mut memory, &mut budget)
        } else {
            dispatch.run_with(kernel, compiled, &mut memory, &mut budget)
        };
        if outcome != Outcome::Paused {
            return Some((outcome, memory.contents(), dispatch));
        }
        *stops += 1;
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

/// Runs a program in both executors. A panic says which program it was by its seed.
fn run(bytes: &[u8], vectors: Vectors, random: &mut Rng, ends: &mut Ends) {
    let Ok(program) = Program::validate(bytes) else {
        ends.refused += 1;
        return;
    };
    let kernel = Kernel::new(&program);
    let end = |pages: u64| BASE + pages * PAGE - REACH as u64 / 2 / 64 * 64;
    let block = [BASE, BASE, BASE, end(1), end(1), end(2), end(3), BASE + 2 * PAGE, BASE + 2][random.usize(..9)];
    let start = || Dispatch::new([2, 1, 1], block);
    let (mut memory, mut whole) = (Guest::new(), start());
    let outcome = whole.run(&kernel, &mut memory, &mut { WHOLE });
    let compiled = Compiled::with(&kernel, vectors).expect("compiled");
    let again = by_turns(&kernel, &compiled, start(), random, &mut ends.stops);
    match outcome {
        Outcome::Paused => {
            ends.endless += 1;
            return;
        }
        Outcome::Done => ends.done += 1,
        _ => ends.faulted += 1,
    }
    let (ended, contents, dispatch) = again.expect("an end, as without turns");
    assert_eq!(ended, outcome, "outcome");
    assert!(contents == memory.contents(), "memory differs");
    assert!(dispatch == whole, "state differs");
}

/// Runs as many programs as are asked for, each from a seed of its own, on all threads of the host.
fn run_all(what: &str, make: fn(&mut Rng) -> Vec<u8>) -> Ends {
    let (count, vectors) = (asked(), vectors());
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let part = |first: u64| {
        let mut ends = Ends::default();
        for seed in (first..count).step_by(threads as usize) {
            let of_seed = std::panic::catch_unwind(|| {
                let (mut random, mut ends) = (Rng::with_seed(seed), Ends::default());
                let bytes = make(&mut random);
                run(&bytes, vectors[seed as usize % vectors.len()], &mut random, &mut ends);
                ends
            });
            ends = ends.and(of_seed.unwrap_or_else(|_| panic!("{what}, seed {seed}")));
        }
        ends
    };
    let ends = thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|first| scope.spawn(move || part(first))).collect();
        parts.into_iter().map(|part| part.join().expect("see above")).fold(Ends::default(), Ends::and)
    });
    println!("{count} {what}: {ends:?}");
    ends
}

#[test]
fn random_programs_end_alike_in_both_executors_wherever_they_are_stopped() {
    let ends = run_all("random programs", drawn);
    assert_eq!((ends.refused, ends.endless), (0, 0), "a program that was made to be valid and to end");
    assert!(ends.done > 0 && ends.faulted > 0 && ends.stops > 0, "{ends:?}");
}

#[test]
fn programs_with_changed_bytes_are_refused_or_end_alike_in_both_executors() {
    let ends = run_all("changed programs", |random| {
        let mut bytes = drawn(random);
        damage(&mut bytes, random);
        bytes
    });
    assert!(ends.refused > 0 && ends.done > 0 && ends.faulted > 0, "{ends:?}");
}

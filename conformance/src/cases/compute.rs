//! DISPATCH: programs compute what the instruction set says, in every lane of every workgroup.
//!
//! The packet, the instruction set and the report are the hardware's own: where a case names no other page, their chapters of the hardware
//! manual are the requirement. What results have to be is computed here on the processor.

use super::compute_lab::Lab;
use crate::{Boot, Case, Failure};

cases! { thunks "Compute", needs HardwareScheduling;
    "Compute.IntegersOf32Bits" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Arithmetic, shifts and bit counts of 32-bit integers give the bits that the processor gives, for random and for extreme operands."
        => integers_32;
    "Compute.IntegersOf64Bits" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Arithmetic, shifts and bit counts of 64-bit integers give the bits that the processor gives, for random and for extreme operands."
        => integers_64;
    "Compute.FloatsOf32Bits" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Sum, difference, product, quotient, square root and rounding of binary32 numbers are those of IEEE 754, bit by bit."
        => floats_32;
    "Compute.FloatsOf64Bits" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Sum, difference, product, quotient, square root and rounding of binary64 numbers are those of IEEE 754, bit by bit."
        => floats_64;
    "Compute.FusedMultiplyAddRoundsOnce" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "FMA rounds its result once: it keeps what a product that is rounded before the sum loses."
        => fused;
    "Compute.ConversionsSaturate" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Conversions from floating point to integers round towards zero, give the nearest integer for what does not fit, and 0 for a NaN."
        => conversions;
    "Compute.DivisionByZeroHasAValue" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "An integer division by zero faults nowhere: the quotient is all ones and the remainder the dividend; the smallest integer by -1 is itself, with remainder 0."
        => division_by_zero;
}

/// Places of operands and results of [`compare`]: lanes, bytes of a lane's operands, first byte and bytes of its results.
const SAMPLES: u64 = 256;
const RESULTS: u64 = 0x1_0000;
const RESULT_BYTES: u64 = 256;

/// An operation in assembler text, with `R`, `A` and `B` for its registers, and what it computes.
type Operation = (&'static str, fn(u64, u64) -> u64);

/// Runs operations on pairs of operands of `ty`, and compares every result with what the processor computes.
fn compare_all(case: &Case, double: bool, operands: &[(u64, u64)], operations: &[Operation]) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    let (letter, load, store) = if double { ("d", "load.d2 d2, [d1]", "d1") } else { ("w", "load.w2 w2, [d1]", "w1") };
    let (size, mask) = if double { (8, u64::MAX) } else { (4, 0xffff_ffff) };
    for (index, (a, b)) in (0..SAMPLES).zip(operands) {
        if double {
            lab.set_double(2 * index, *a);
            lab.set_double(2 * index + 1, *b);
        } else {
            lab.set_double(index, a & mask | b << 32);
        }
    }
    for operations in operations.chunks(RESULT_BYTES as usize / 8) {
        let mut text = format!(
            ".workgroup 64, 1, 1\narguments d0\nsystem.global_id_x w0\nindex d1, d0, w0, {}\n{load}\nindex d4, d0, w0, {RESULT_BYTES}\n",
            2 * size
        );
        for (number, (operation, _)) in operations.iter().enumerate() {
            let line = operation
                .replace('R', &format!("{letter}6"))
                .replace('A', &format!("{letter}2"))
                .replace('B', &format!("{letter}3"));
            text += &format!("{line}\nstore.{store} [d4 + {}], {letter}6\n", RESULTS + 8 * number as u64);
        }
        lab.run(&(text + "exit\n"), [SAMPLES as u32 / 64, 1, 1])?;
        for (index, (a, b)) in (0..SAMPLES).zip(operands) {
            for (number, (operation, expected)) in (0u64..).zip(operations) {
                let found = lab.double((RESULTS + index * RESULT_BYTES) / 8 + number) & mask;
                let expected = expected(a & mask, b & mask) & mask;
                ensure_eq!(found, expected, "{operation} of {:#x} and {:#x}", a & mask, b & mask);
            }
        }
    }
    Ok(())
}

/// Pairs of operands: each extreme one with each other, then random ones.
fn pairs(extremes: &[u64], mut random: impl FnMut() -> u64) -> Vec<(u64, u64)> {
    let both = extremes.iter().flat_map(|a| extremes.iter().map(|b| (*a, *b)));
    let mut all: Vec<_> = both.take(SAMPLES as usize / 2).collect();
    all.resize_with(SAMPLES as usize, || (random(), random()));
    all
}

/// The operations on integers of one width.
macro_rules! integer_operations {
    ($unsigned:ty, $signed:ty, $wide:ty, $ty:literal) => {{
        const BITS: u32 = <$unsigned>::BITS;
        const OPERATIONS: &[Operation] = &[
            (concat!("add.", $ty, " R, A, B"), |a, b| a.wrapping_add(b)),
            (concat!("sub.", $ty, " R, A, B"), |a, b| a.wrapping_sub(b)),
            (concat!("mul.", $ty, " R, A, B"), |a, b| a.wrapping_mul(b)),
            (concat!("mul_high_u.", $ty, " R, A, B"), |a, b| ((a as $wide * b as $wide) >> BITS) as u64),
            (concat!("div_u.", $ty, " R, A, B"), |a, b| a.checked_div(b).unwrap_or(u64::MAX)),
            (concat!("rem_u.", $ty, " R, A, B"), |a, b| a.checked_rem(b).unwrap_or(a)),
            (concat!("div_s.", $ty, " R, A, B"), |a, b| match b as $signed {
                0 => u64::MAX,
                b => (a as $signed).wrapping_div(b) as u64,
            }),
            (concat!("rem_s.", $ty, " R, A, B"), |a, b| match b as $signed {
                0 => a,
                b => (a as $signed).wrapping_rem(b) as u64,
            }),
            (concat!("min.", $ty, " R, A, B"), |a, b| (a as $signed).min(b as $signed) as u64),
            (concat!("max_u.", $ty, " R, A, B"), |a, b| a.max(b)),
            (concat!("xor.", $ty, " R, A, B"), |a, b| a ^ b),
            (concat!("neg.", $ty, " R, A"), |a, _| a.wrapping_neg()),
            (concat!("abs.", $ty, " R, A"), |a, _| (a as $signed).wrapping_abs() as u64),
            (concat!("shl.", $ty, " R, A, 13"), |a, _| a << 13),
            (concat!("shr_u.", $ty, " R, A, 13"), |a, _| a >> 13),
            (concat!("shr_s.", $ty, " R, A, 13"), |a, _| ((a as $signed) >> 13) as u64),
            (concat!("rotl.", $ty, " R, A, 13"), |a, _| u64::from((a as $unsigned).rotate_left(13))),
            (concat!("count_ones.", $ty, " R, A"), |a, _| u64::from(a.count_ones())),
            (concat!("leading_zeros.", $ty, " R, A"), |a, _| u64::from((a as $unsigned).leading_zeros())),
            (concat!("trailing_zeros.", $ty, " R, A"), |a, _| u64::from((a as $unsigned).trailing_zeros())),
            (concat!("reverse_bits.", $ty, " R, A"), |a, _| u64::from((a as $unsigned).reverse_bits())),
            (concat!("sext8.", $ty, " R, A"), |a, _| a as i8 as u64),
        ];
        OPERATIONS
    }};
}

fn integers_32(case: &Case) -> Result<(), Failure> {
    let extremes = [0, 1, 2, 31, 32, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];
    let mut random = fastrand::Rng::with_seed(32);
    let operands = pairs(&extremes, || random.u64(..) >> random.u32(32..64));
    compare_all(case, false, &operands, integer_operations!(u32, i32, u64, "i32"))
}

fn integers_64(case: &Case) -> Result<(), Failure> {
    let extremes = [0, 1, 2, 63, 64, 0xffff_ffff, 1 << 32, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX];
    let mut random = fastrand::Rng::with_seed(64);
    let operands = pairs(&extremes, || random.u64(..) >> random.u32(..64));
    compare_all(case, true, &operands, integer_operations!(u64, i64, u128, "i64"))
}

/// From here on every number is an integer.
const WHOLE: f64 = (1_u64 << 52) as f64;

// Rounding without the mathematical functions of a run-time library: `hlk.exe` is linked without one.

fn trunc(value: f64) -> f64 {
    if value.abs() < WHOLE { (value as i64 as f64).copysign(value) } else { value }
}

fn floor(value: f64) -> f64 {
    if trunc(value) > value { trunc(value) - 1.0 } else { trunc(value) }
}

fn ceil(value: f64) -> f64 {
    if trunc(value) < value { trunc(value) + 1.0 } else { trunc(value) }
}

fn round_even(value: f64) -> f64 {
    let shift = WHOLE.copysign(value);
    if value.abs() < WHOLE { ((value + shift) - shift).copysign(value) } else { value }
}

/// The operations on floating-point numbers of one width.
macro_rules! float_operations {
    ($float:ty, $bits:ty, $ty:literal) => {{
        const fn of(bits: u64) -> $float {
            <$float>::from_bits(bits as $bits)
        }
        fn bits(value: $float) -> u64 {
            // The instruction set has one NaN for results.
            let canonical = if size_of::<$float>() == 8 { 0x7ff8 << 48 } else { 0x7fc0_0000 };
            if value.is_nan() { canonical } else { u64::from(value.to_bits()) }
        }
        const OPERATIONS: &[Operation] = &[
            (concat!("add.", $ty, " R, A, B"), |a, b| bits(of(a) + of(b))),
            (concat!("sub.", $ty, " R, A, B"), |a, b| bits(of(a) - of(b))),
            (concat!("mul.", $ty, " R, A, B"), |a, b| bits(of(a) * of(b))),
            (concat!("div.", $ty, " R, A, B"), |a, b| bits(of(a) / of(b))),
            (concat!("sqrt.", $ty, " R, A"), |a, _| bits(of(a).sqrt())),
            (concat!("floor.", $ty, " R, A"), |a, _| bits(floor(of(a) as f64) as $float)),
            (concat!("ceil.", $ty, " R, A"), |a, _| bits(ceil(of(a) as f64) as $float)),
            (concat!("trunc.", $ty, " R, A"), |a, _| bits(trunc(of(a) as f64) as $float)),
            (concat!("round_even.", $ty, " R, A"), |a, _| bits(round_even(of(a) as f64) as $float)),
        ];
        OPERATIONS
    }};
}

fn floats_32(case: &Case) -> Result<(), Failure> {
    let numbers = [0.0, -0.0, 1.0, -2.5, 0.5, f32::MAX, f32::MIN_POSITIVE, f32::INFINITY, 1e-42];
    let extremes = numbers.map(|number: f32| u64::from(number.to_bits()));
    let mut random = fastrand::Rng::with_seed(132);
    let operands = pairs(&extremes, || u64::from(((random.f32() - 0.5) * 1e4).to_bits()));
    compare_all(case, false, &operands, float_operations!(f32, u32, "f32"))
}

fn floats_64(case: &Case) -> Result<(), Failure> {
    let numbers = [0.0, -0.0, 1.0, -2.5, 0.5, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, 5e-324];
    let mut random = fastrand::Rng::with_seed(164);
    let operands = pairs(&numbers.map(f64::to_bits), || ((random.f64() - 0.5) * 1e9).to_bits());
    compare_all(case, true, &operands, float_operations!(f64, u64, "f64"))
}

fn fused(case: &Case) -> Result<(), Failure> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut number = || u64::from(random.f32().to_bits());
    let operands: Vec<_> = (0..SAMPLES).map(|_| (number(), number())).collect();
    // a * b - a * b is what the rounding of the product took away; binary64 has it exactly.
    let lost = "mul.f32 R, A, B\nneg.f32 R, R\nfma.f32 R, A, B, R";
    let expected = |a, b| {
        let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
        u64::from(((f64::from(a) * f64::from(b) - f64::from(a * b)) as f32).to_bits())
    };
    compare_all(case, false, &operands, &[(lost, expected)])
}

fn conversions(case: &Case) -> Result<(), Failure> {
    let numbers = [0.9, -0.9, 1.5, -7.99, 3e9, -3e9, 5e9, 1e19, -1e19, 2e19, f64::INFINITY, f64::NAN, -0.0];
    let mut random = fastrand::Rng::with_seed(5);
    let operands = pairs(&numbers.map(f64::to_bits), || ((random.f64() - 0.5) * 1e12).to_bits());
    compare_all(
        case,
        true,
        &operands,
        &[
            ("to_s.i64.f64 R, A", |a, _| f64::from_bits(a) as i64 as u64),
            ("to_u.i64.f64 R, A", |a, _| f64::from_bits(a) as u64),
            ("to_s.i32.f64 w9, A\nwiden_s R, w9", |a, _| f64::from_bits(a) as i32 as u64),
            ("to_u.i32.f64 w9, A\nwiden_u R, w9", |a, _| u64::from(f64::from_bits(a) as u32)),
            ("from_s.f64.i64 R, A", |a, _| (a as i64 as f64).to_bits()),
            ("from_u.f64.i64 R, A", |a, _| (a as f64).to_bits()),
        ],
    )
}

fn division_by_zero(case: &Case) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    let text = "arguments d0
        load.w2 w0, [d0]
        div_s.i32 w2, w0, w1\ndiv_u.i32 w3, w0, w1\nrem_s.i32 w4, w0, w1\nrem_u.i32 w5, w0, w1
        store.w4 [d0 + 8], w2
        exit";
    for (a, b, expected) in [
        (0u32, 0u32, [u32::MAX, u32::MAX, 0, 0]),
        (77, 0, [u32::MAX, u32::MAX, 77, 77]),
        (1 << 31, u32::MAX, [1 << 31, 0, 0, 1 << 31]),
    ] {
        lab.set_word(0, a);
        lab.set_word(1, b);
        lab.run(text, [1, 1, 1])?;
        ensure_eq!(lab.words(2, 4), expected, "quotients and remainders of {a:#x} by {b:#x}");
    }
    Ok(())
}

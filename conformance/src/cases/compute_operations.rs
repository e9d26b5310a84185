//! DISPATCH: what each operation of the instruction set gives, lane by lane, beside what the processor gives.

use super::compute_lab::Lab;
use crate::{Boot, Case, Failure};

/// A case of one operation that user mode submits.
macro_rules! operations {
    ($( $name:literal: $requirement:literal => $run:expr; )*) => {
        cases! { thunks "Compute", needs HardwareScheduling;
            $( $name needs UserModeSubmission on Boot::Shared, "docs/hardware.md": $requirement => $run; )*
        }
    };
}

operations! {
    "Compute.Exp2IsAccurate": "EXP2 gives 2 to the power of its operand, within 4 units in the last place." => |case| unary(case, "exp2", f32::exp2, f64::exp2, SMALL);
    "Compute.Log2IsAccurate": "LOG2 gives the logarithm to base 2." => |case| unary(case, "log2", f32::log2, f64::log2, POSITIVE);
    "Compute.ExpIsAccurate": "EXP gives e to the power of its operand." => |case| unary(case, "exp", f32::exp, f64::exp, SMALL);
    "Compute.LogIsAccurate": "LOG gives the natural logarithm." => |case| unary(case, "log", f32::ln, f64::ln, POSITIVE);
    "Compute.SinIsAccurate": "SIN gives the sine of its operand, in every lane." => |case| unary(case, "sin", f32::sin, f64::sin, SMALL);
    "Compute.CosIsAccurate": "COS gives the cosine of its operand, in every lane." => |case| unary(case, "cos", f32::cos, f64::cos, SMALL);
    "Compute.TanIsAccurate": "TAN gives the tangent of its operand, in every lane." => |case| unary(case, "tan", f32::tan, f64::tan, SMALL);
    "Compute.AsinIsAccurate": "ASIN gives the angle of a sine." => |case| unary(case, "asin", f32::asin, f64::asin, UNIT);
    "Compute.AcosIsAccurate": "ACOS gives the angle of a cosine." => |case| unary(case, "acos", f32::acos, f64::acos, UNIT);
    "Compute.AtanIsAccurate": "ATAN gives the angle of a tangent." => |case| unary(case, "atan", f32::atan, f64::atan, SMALL);
    "Compute.SinhIsAccurate": "SINH gives the hyperbolic sine." => |case| unary(case, "sinh", f32::sinh, f64::sinh, SMALL);
    "Compute.CoshIsAccurate": "COSH gives the hyperbolic cosine." => |case| unary(case, "cosh", f32::cosh, f64::cosh, SMALL);
    "Compute.TanhIsAccurate": "TANH gives the hyperbolic tangent." => |case| unary(case, "tanh", f32::tanh, f64::tanh, SMALL);
    "Compute.AtanhIsAccurate": "ATANH gives the number whose hyperbolic tangent is its operand." => |case| unary(case, "atanh", |x| f64::from(x).atanh() as f32, f64::atanh, UNIT);
    "Compute.PowIsAccurate": "POW gives a number to the power of another." => |case| binary(case, "pow", f32::powf, f64::powf);
    "Compute.Atan2IsAccurate": "ATAN2 gives the angle of a point." => |case| binary(case, "atan2", f32::atan2, f64::atan2);
    "Compute.RemIsExact": "REM gives the remainder of a division that rounds towards zero." => |case| binary(case, "rem", |a, b| a % b, |a, b| a % b);
    "Compute.FloorIsExact": "FLOOR gives the largest integer that is not above the operand." => |case| unary(case, "floor", f32::floor, f64::floor, SMALL);
    "Compute.CeilIsExact": "CEIL gives the smallest integer that is not below the operand." => |case| unary(case, "ceil", f32::ceil, f64::ceil, SMALL);
    "Compute.TruncIsExact": "TRUNC gives the integer towards zero." => |case| unary(case, "trunc", f32::trunc, f64::trunc, SMALL);
    "Compute.RoundEvenIsExact": "ROUND_EVEN gives the nearest integer, of two the even one." => |case| unary(case, "round_even", f32::round_ties_even, f64::round_ties_even, SMALL);

    "Compute.MulHighOfSigned": "MUL_HIGH_S gives the high half of a signed product." => |case| integers(case, "mul_high_s", |a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32, |a, b| ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64);
    "Compute.MulHighOfUnsigned": "MUL_HIGH_U gives the high half of an unsigned product." => |case| integers(case, "mul_high_u", |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32, |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64);
    "Compute.MinOfSigned": "MIN gives the smaller one of signed integers." => |case| integers(case, "min", |a, b| (a as i32).min(b as i32) as u32, |a, b| (a as i64).min(b as i64) as u64);
    "Compute.MaxOfSigned": "MAX gives the greater one of signed integers." => |case| integers(case, "max", |a, b| (a as i32).max(b as i32) as u32, |a, b| (a as i64).max(b as i64) as u64);
    "Compute.MinOfUnsigned": "MIN_U gives the smaller one of unsigned integers." => |case| integers(case, "min_u", u32::min, u64::min);
    "Compute.MaxOfUnsigned": "MAX_U gives the greater one of unsigned integers." => |case| integers(case, "max_u", u32::max, u64::max);
    "Compute.OrSetsBits": "OR gives the bits that either operand has." => |case| integers(case, "or", |a, b| a | b, |a, b| a | b);
    "Compute.AndKeepsBits": "AND gives the bits that both have." => |case| integers(case, "and", |a, b| a & b, |a, b| a & b);
    "Compute.XorChangesBits": "XOR gives the bits that one of them has." => |case| integers(case, "xor", |a, b| a ^ b, |a, b| a ^ b);
    "Compute.DivisionOfSigned": "DIV_S gives the quotient towards zero; by zero it is all ones, and the smallest number by -1 is itself." => |case| integers(case, "div_s", |a, b| if b == 0 { u32::MAX } else { (a as i32).wrapping_div(b as i32) as u32 }, |a, b| if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 });
    "Compute.DivisionOfUnsigned": "DIV_U gives the quotient; by zero it is all ones." => |case| integers(case, "div_u", |a, b| a.checked_div(b).unwrap_or(u32::MAX), |a, b| a.checked_div(b).unwrap_or(u64::MAX));
    "Compute.RemainderOfSigned": "REM_S has the sign of the dividend; by zero it is the dividend." => |case| integers(case, "rem_s", |a, b| if b == 0 { a } else { (a as i32).wrapping_rem(b as i32) as u32 }, |a, b| if b == 0 { a } else { (a as i64).wrapping_rem(b as i64) as u64 });
    "Compute.RemainderOfUnsigned": "REM_U gives the remainder; by zero it is the dividend." => |case| integers(case, "rem_u", |a, b| a.checked_rem(b).unwrap_or(a), |a, b| a.checked_rem(b).unwrap_or(a));

    "Compute.BytesAreLoadedWithZeros": "A load of U8 fills a word with zeros, a store takes the low bits, and the bytes beside are not changed." => |case| narrow(case, "u8", 1, |value| value & 0xff);
    "Compute.BytesAreLoadedWithTheirSign": "A load of S8 extends the sign of the byte." => |case| narrow(case, "s8", 1, |value| value as i8 as u32);
    "Compute.HalvesAreLoadedWithZeros": "A load of U16 fills a word with zeros." => |case| narrow(case, "u16", 2, |value| value & 0xffff);
    "Compute.HalvesAreLoadedWithTheirSign": "A load of S16 extends the sign." => |case| narrow(case, "s16", 2, |value| value as i16 as u32);
    "Compute.TwoWordsAreOneAccess": "W2 loads and stores two consecutive words." => |case| wide(case, "w2", 2);
    "Compute.ThreeWordsAreOneAccess": "W3 loads and stores three consecutive words, and not a fourth." => |case| wide(case, "w3", 3);
    "Compute.FourWordsAreOneAccess": "W4 loads and stores four consecutive words." => |case| wide(case, "w4", 4);

    "Compute.AtomicMinOfSigned": "An atomic MIN_S leaves the smaller one of signed integers and returns what was there." => |case| atomic(case, "min_s", |old, with| (old as i32).min(with as i32) as u32);
    "Compute.AtomicMaxOfSigned": "An atomic MAX_S leaves the greater one of signed integers." => |case| atomic(case, "max_s", |old, with| (old as i32).max(with as i32) as u32);
    "Compute.AtomicMinOfUnsigned": "An atomic MIN_U leaves the smaller one of unsigned integers." => |case| atomic(case, "min_u", u32::min);
    "Compute.AtomicMaxOfUnsigned": "An atomic MAX_U leaves the greater one of unsigned integers." => |case| atomic(case, "max_u", u32::max);
    "Compute.AtomicAnd": "An atomic AND leaves the bits that both have." => |case| atomic(case, "and", |old, with| old & with);
    "Compute.AtomicOr": "An atomic OR leaves the bits of both." => |case| atomic(case, "or", |old, with| old | with);
    "Compute.AtomicXor": "An atomic XOR leaves the bits that one of them has." => |case| atomic(case, "xor", |old, with| old ^ with);
    "Compute.AtomicExchange": "An atomic EXCHANGE leaves its operand." => |case| atomic(case, "exchange", |_, with| with);

    "Compute.SumOfASubgroup": "REDUCE and both scans add, modulo 2^32." => |case| combined(case, "add", 0, u32::wrapping_add);
    "Compute.ProductOfASubgroup": "REDUCE and both scans multiply." => |case| combined(case, "mul", 1, u32::wrapping_mul);
    "Compute.MinimumOfASubgroup": "REDUCE and both scans find the smallest signed integer." => |case| combined(case, "min", i32::MAX as u32, |a, b| (a as i32).min(b as i32) as u32);
    "Compute.MaximumOfASubgroup": "REDUCE and both scans find the greatest signed integer." => |case| combined(case, "max", i32::MIN as u32, |a, b| (a as i32).max(b as i32) as u32);
    "Compute.UnsignedMinimumOfASubgroup": "REDUCE and both scans find the smallest unsigned integer." => |case| combined(case, "min_u", u32::MAX, u32::min);
    "Compute.UnsignedMaximumOfASubgroup": "REDUCE and both scans find the greatest unsigned integer." => |case| combined(case, "max_u", 0, u32::max);
    "Compute.BitsThatASubgroupHas": "REDUCE and both scans combine bits by OR." => |case| combined(case, "or", 0, |a, b| a | b);
    "Compute.BitsThatASubgroupShares": "REDUCE and both scans combine bits by AND." => |case| combined(case, "and", u32::MAX, |a, b| a & b);
    "Compute.ParityOfASubgroup": "REDUCE and both scans combine bits by XOR." => |case| combined(case, "xor", 0, |a, b| a ^ b);
}

/// Lanes of every program here: a subgroup.
const LANES: u64 = 32;
/// First words of operands and results.
const A: u64 = 0;
const B: u64 = 128;
const RESULT: u64 = 256;

/// Numbers around zero, some of them between two integers.
const SMALL: fn(u64) -> f64 = |lane| (lane as f64 - 15.5) * 0.75;
/// Numbers above zero.
const POSITIVE: fn(u64) -> f64 = |lane| (lane as f64 + 0.5) * 1.75;
/// Numbers between -1 and 1.
const UNIT: fn(u64) -> f64 = |lane| (lane as f64 - 15.5) / 16.5;

/// True if the distance of two numbers is at most 4 units in the last place of the second, of which a number with exponent 0 has `epsilon`.
fn is_close(found: f64, expected: f64, epsilon: f64) -> bool {
    found == expected || (found - expected).abs() <= 4.0 * epsilon * expected.abs().max(f64::MIN_POSITIVE)
}

/// Runs an operation of one or two operands on words and on doubles, which lie at [`A`] and [`B`]; the results.
fn run(lab: &mut Lab, bits: u64, operation: &str) -> Result<(), Failure> {
    let (file, format, bytes) = if bits == 64 { ('d', "d1", 8) } else { ('w', "w1", 4) };
    lab.run(
        &format!(
            ".workgroup 32, 1, 1\narguments d0\nsystem.local_index w0\nindex d1, d0, w0, {bytes}
            load.{format} {file}4, [d1 + {}]\nload.{format} {file}5, [d1 + {}]
            {operation}
            store.{format} [d1 + {}], {file}6\nexit",
            A * 4,
            B * 4,
            RESULT * 4
        ),
        [1, 1, 1],
    )
    .map(drop)
}

fn floats(
    case: &Case,
    operation: &str,
    operands: [fn(u64) -> f64; 2],
    singles: impl Fn(f32, f32) -> f32,
    doubles: impl Fn(f64, f64) -> f64,
) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    let [a, b] = operands;
    for lane in 0..LANES {
        lab.set_word(A + lane, (a(lane) as f32).to_bits());
        lab.set_word(B + lane, (b(lane) as f32).to_bits());
    }
    run(&mut lab, 32, &operation.replace("TYPE", "f32").replace('%', "w"))?;
    for lane in 0..LANES {
        let expected = f64::from(singles(a(lane) as f32, b(lane) as f32));
        let found = f64::from(f32::from_bits(lab.word(RESULT + lane)));
        ensure!(is_close(found, expected, f32::EPSILON.into()), "lane {lane} of f32: {found}, expected {expected}");
    }
    for lane in 0..LANES {
        lab.set_double(A / 2 + lane, a(lane).to_bits());
        lab.set_double(B / 2 + lane, b(lane).to_bits());
    }
    run(&mut lab, 64, &operation.replace("TYPE", "f64").replace('%', "d"))?;
    for lane in 0..LANES {
        let (found, expected) = (f64::from_bits(lab.double(RESULT / 2 + lane)), doubles(a(lane), b(lane)));
        ensure!(is_close(found, expected, f64::EPSILON), "lane {lane} of f64: {found}, expected {expected}");
    }
    Ok(())
}

/// A function of one number, whose implementation on the processor is right to a unit in the last place or two itself.
fn unary(
    case: &Case,
    name: &str,
    singles: fn(f32) -> f32,
    doubles: fn(f64) -> f64,
    operand: fn(u64) -> f64,
) -> Result<(), Failure> {
    floats(case, &format!("{name}.TYPE %6, %4"), [operand; 2], |a, _| singles(a), |a, _| doubles(a))
}

fn binary(case: &Case, name: &str, singles: fn(f32, f32) -> f32, doubles: fn(f64, f64) -> f64) -> Result<(), Failure> {
    floats(case, &format!("{name}.TYPE %6, %4, %5"), [POSITIVE, SMALL], singles, doubles)
}

/// Integers of all sizes and signs, zero among them.
fn integer(lane: u64) -> u64 {
    let spread = lane.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    match lane % 8 {
        0 => lane,
        1 => u64::MAX,
        2 => 1 << 63 | 1 << 31,
        3 => 0,
        4 => spread >> 40,
        _ => spread,
    }
}

/// The other operand: every kind meets every kind.
fn other_integer(lane: u64) -> u64 {
    integer(lane / 4 + lane * 5)
}

fn integers(case: &Case, name: &str, words: fn(u32, u32) -> u32, doubles: fn(u64, u64) -> u64) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    for lane in 0..LANES {
        lab.set_word(A + lane, integer(lane) as u32);
        lab.set_word(B + lane, other_integer(lane) as u32);
    }
    run(&mut lab, 32, &format!("{name}.i32 w6, w4, w5"))?;
    for lane in 0..LANES {
        let (a, b) = (integer(lane) as u32, other_integer(lane) as u32);
        ensure_eq!(lab.word(RESULT + lane), words(a, b), "{name}.i32 of {a:#x} and {b:#x}");
    }
    for lane in 0..LANES {
        lab.set_double(A / 2 + lane, integer(lane));
        lab.set_double(B / 2 + lane, other_integer(lane));
    }
    run(&mut lab, 64, &format!("{name}.i64 d6, d4, d5"))?;
    for lane in 0..LANES {
        let (a, b) = (integer(lane), other_integer(lane));
        ensure_eq!(lab.double(RESULT / 2 + lane), doubles(a, b), "{name}.i64 of {a:#x} and {b:#x}");
    }
    Ok(())
}

/// Elements that are narrower than a word: loaded from a packed array, and stored to every second place of another.
fn narrow(case: &Case, format: &str, bytes: u64, loaded: fn(u32) -> u32) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    for word in 0..LANES {
        lab.set_word(A + word, integer(word + 5) as u32 ^ 0x80);
        lab.set_word(B + word, 0xcccc_cccc);
    }
    let element = |lane: u64| {
        let (at, packed) = (lane * bytes, |word: u64| integer(word + 5) as u32 ^ 0x80);
        packed(at / 4) >> (at % 4 * 8)
    };
    lab.run(
        &format!(
            ".workgroup 32, 1, 1\narguments d0\nsystem.local_index w0\nindex d1, d0, w0, {bytes}\nindex d2, d0, w0, 4\nindex d3, d0, w0, {}
            load.{format} w4, [d1 + {}]\nstore.w1 [d2 + {}], w4\nstore.{format} [d3 + {}], w4\nexit",
            2 * bytes,
            A * 4,
            RESULT * 4,
            B * 4
        ),
        [1, 1, 1],
    )?;
    for lane in 0..LANES {
        ensure_eq!(lab.word(RESULT + lane), loaded(element(lane)), "what lane {lane} loaded");
        let at = lane * 2 * bytes;
        let found = lab.word(B + at / 4) >> (at % 4 * 8);
        let mask = (1u32 << (bytes * 8)) - 1;
        ensure_eq!(found & mask, element(lane) & mask, "what lane {lane} stored");
        let beside = lab.word(B + (at + bytes) / 4) >> ((at + bytes) % 4 * 8);
        ensure_eq!(beside & mask, 0xcccc_cccc & mask, "what is beside it");
    }
    Ok(())
}

/// Elements of several words, with one word between two of them that is not changed.
fn wide(case: &Case, format: &str, words: u64) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    let stride = (words + 1) * 4;
    for word in 0..LANES * (words + 1) {
        lab.set_word(1024 + word, integer(word) as u32);
        lab.set_word(2048 + word, 0xcccc_cccc);
    }
    lab.run(
        &format!(
            ".workgroup 32, 1, 1\narguments d0\nsystem.local_index w0\nindex d1, d0, w0, {stride}
            load.{format} w4, [d1 + 4096]\nstore.{format} [d1 + 8192], w4\nexit"
        ),
        [1, 1, 1],
    )?;
    for word in 0..LANES * (words + 1) {
        let expected = if word % (words + 1) == words { 0xcccc_cccc } else { integer(word) as u32 };
        ensure_eq!(lab.word(2048 + word), expected, "word {word} of what was stored");
    }
    Ok(())
}

/// Each lane changes a word of its own, then all change one word.
fn atomic(case: &Case, name: &str, change: fn(u32, u32) -> u32) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    for lane in 0..LANES {
        lab.set_word(A + lane, integer(lane) as u32);
        lab.set_word(B + lane, other_integer(lane) as u32);
    }
    lab.set_word(1024, 0x1234_5678);
    run(
        &mut lab,
        32,
        &format!("atomic.i32.{name}.device.relaxed w6, [d1], w5\natomic.i32.{name}.device.relaxed w7, [d0 + 4096], w5"),
    )?;
    let mut shared = 0x1234_5678;
    for lane in 0..LANES {
        let (old, with) = (integer(lane) as u32, other_integer(lane) as u32);
        ensure_eq!(
            (lab.word(RESULT + lane), lab.word(A + lane)),
            (old, change(old, with)),
            "before and after, lane {lane}"
        );
        shared = change(shared, with);
    }
    ensure_eq!(lab.word(1024), shared, "what all lanes left, one after the other");
    Ok(())
}

/// Reduction and scans of all lanes, and of every third one.
fn combined(case: &Case, name: &str, start: u32, combine: fn(u32, u32) -> u32) -> Result<(), Failure> {
    for step in [1, 3] {
        let mut lab = Lab::new(case)?;
        let value = |lane: u64| integer(lane) as u32 | 1;
        (0..LANES).for_each(|lane| lab.set_word(A + lane, value(lane)));
        lab.run(
            &format!(
                ".workgroup 32, 1, 1\narguments d0\nsystem.local_index w0\nindex d1, d0, w0, 4
                load.w1 w4, [d1]\nrem_u.i32 w1, w0, {step}\ncmp.i32.eq p0, w1, 0\nif p0
                reduce.i32.{name} w5, w4\nscan_inclusive.i32.{name} w6, w4\nscan_exclusive.i32.{name} w7, w4
                store.w1 [d1 + 1024], w5\nstore.w1 [d1 + 2048], w6\nstore.w1 [d1 + 4096], w7\nend_if\nexit"
            ),
            [1, 1, 1],
        )?;
        let active = || (0..LANES).filter(|lane| lane % step == 0);
        let whole = active().map(value).fold(start, combine);
        let mut so_far = start;
        for lane in active() {
            let inclusive = combine(so_far, value(lane));
            let found = [256, 512, 1024].map(|at| lab.word(at + lane));
            ensure_eq!(found, [whole, inclusive, so_far], "reduction and scans of lane {lane}, one lane in {step}");
            so_far = inclusive;
        }
        if step != 1 {
            ensure_eq!(lab.word(256 + 1), 0, "what a lane stored that was not active");
        }
    }
    Ok(())
}

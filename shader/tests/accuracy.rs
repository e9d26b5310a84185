//! The error of the operations that are computed by libm, as the manual states it.

use campanile_hw::isa::{Op, Type};
use campanile_shader::evaluate;

/// An operation, the numbers that are tried, and its exact meaning as far as 64 bits have it.
type Tried = (Op, [f32; 2], fn(f64) -> f64);

const OPERATIONS: [Tried; 14] = [
    (Op::Exp2, [-140.0, 127.0], f64::exp2),
    (Op::Log2, [1e-30, 1e30], f64::log2),
    (Op::Exp, [-85.0, 88.0], f64::exp),
    (Op::Log, [1e-30, 1e30], f64::ln),
    (Op::Sin, [-1000.0, 1000.0], f64::sin),
    (Op::Cos, [-1000.0, 1000.0], f64::cos),
    (Op::Tan, [-1000.0, 1000.0], f64::tan),
    (Op::Asin, [-1.0, 1.0], f64::asin),
    (Op::Acos, [-1.0, 1.0], f64::acos),
    (Op::Atan, [-1e6, 1e6], f64::atan),
    (Op::Sinh, [-80.0, 80.0], f64::sinh),
    (Op::Cosh, [-80.0, 80.0], f64::cosh),
    (Op::Tanh, [-10.0, 10.0], f64::tanh),
    (Op::Asinh, [-1e6, 1e6], f64::asinh),
];

/// Further ones.
const POSITIVE: [Tried; 2] = [(Op::Acosh, [1.0, 1e6], f64::acosh), (Op::Atanh, [-0.999, 0.999], f64::atanh)];

/// Distance of two numbers in units in the last place of the second one, as F32.
fn units(found: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    let step = f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
    (f64::from(found) - exact).abs() / step
}

fn f32_of(op: Op, a: f32, b: f32) -> f32 {
    f32::from_bits(evaluate(op, Type::F32, a.to_bits().into(), b.to_bits().into(), 0) as u32)
}

#[test]
fn operations_of_libm_err_by_four_units_of_f32_at_most() {
    let mut random = fastrand::Rng::with_seed(24301);
    let between = |random: &mut fastrand::Rng, [low, high]: [f32; 2]| low + random.f32() * (high - low);
    for (op, range, exact) in OPERATIONS.iter().chain(&POSITIVE) {
        for _ in 0..20_000 {
            let a = between(&mut random, *range);
            let (found, exact) = (f32_of(*op, a, 0.0), exact(f64::from(a)));
            let units = units(found, exact);
            assert!(
                units <= 4.0 || exact.abs() < 1e-37,
                "{op:?} of {a:e}: {found:e}, exactly {exact:e}, {units} units"
            );
        }
    }
    for _ in 0..20_000 {
        let (a, b) = (between(&mut random, [1e-3, 1e3]), between(&mut random, [-10.0, 10.0]));
        for (op, exact) in [(Op::Pow, f64::from(a).powf(b.into())), (Op::Atan2, f64::from(a).atan2(b.into()))] {
            let found = f32_of(op, a, b);
            assert!(units(found, exact) <= 4.0, "{op:?} of {a:e}, {b:e}: {found:e}, exactly {exact:e}");
        }
    }
}

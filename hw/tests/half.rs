//! binary16 as IEEE 754 defines it, which docs/hardware.md (F16) names, and the rounding to the nearest number, of two the even one.

use campanile_hw::isa::{f16_to_f64, f64_to_f16};

/// Bits of the infinity; below are the finite numbers in their order, above are NaNs.
const INFINITY: u16 = 0x7c00;
const SIGN: u16 = 0x8000;

/// The value of a finite number without a sign: 2^(exponent - 15) * (1 + fraction / 1024), and 2^-14 * fraction / 1024 where the exponent is 0.
fn value(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits / 1024), f64::from(bits % 1024) / 1024.0);
    if exponent == 0 { fraction * 2f64.powi(-14) } else { (1.0 + fraction) * 2f64.powi(exponent - 15) }
}

#[test]
fn every_number_has_the_value_that_the_standard_gives_it() {
    for bits in 0..INFINITY {
        assert_eq!(f16_to_f64(bits).to_bits(), value(bits).to_bits(), "{bits:#x}");
        assert_eq!(f16_to_f64(bits | SIGN).to_bits(), (-value(bits)).to_bits(), "-{bits:#x}");
    }
    assert_eq!([f16_to_f64(INFINITY), f16_to_f64(INFINITY | SIGN)], [f64::INFINITY, f64::NEG_INFINITY]);
    for bits in INFINITY + 1..SIGN {
        assert!(f16_to_f64(bits).is_nan() && f16_to_f64(bits | SIGN).is_nan(), "{bits:#x}");
    }
}

#[test]
fn every_number_comes_back() {
    for bits in 0..=INFINITY {
        assert_eq!(f64_to_f16(f16_to_f64(bits)), bits, "{bits:#x}");
        assert_eq!(f64_to_f16(f16_to_f64(bits | SIGN)), bits | SIGN, "-{bits:#x}");
    }
}

#[test]
fn what_is_between_two_numbers_becomes_the_nearest_and_of_two_the_even_one() {
    for low in 0..INFINITY {
        // What would come behind the largest number is 2^16, from which on the infinity is nearest.
        let next = if low + 1 == INFINITY { 65536.0 } else { value(low + 1) };
        let (middle, high) = ((value(low) + next) / 2.0, low + 1);
        let even = if low % 2 == 0 { low } else { high };
        for (number, nearest) in [
            (value(low).next_up(), low),
            (middle.next_down(), low),
            (middle, even),
            (middle.next_up(), high),
            (next.next_down(), high),
        ] {
            assert_eq!(f64_to_f16(number), nearest, "{number:e}");
            assert_eq!(f64_to_f16(-number), nearest | SIGN, "-{number:e}");
        }
    }
}

#[test]
fn what_is_far_away_is_infinite_or_zero_and_a_nan_is_the_canonical_one() {
    for (number, bits) in [(f64::MAX, INFINITY), (1e5, INFINITY), (f64::MIN_POSITIVE, 0), (0.0, 0)] {
        assert_eq!([f64_to_f16(number), f64_to_f16(-number)], [bits, bits | SIGN], "{number:e}");
    }
    for nan in [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001), f64::from_bits(u64::MAX)] {
        assert_eq!(f64_to_f16(nan), 0x7e00, "{:#x}", nan.to_bits());
    }
}

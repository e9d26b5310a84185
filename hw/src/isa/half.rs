//! binary16 and what it converts to, with one rounding, by integer arithmetic: the same bits on every processor.

/// The value of a binary16 number, exact.
pub fn f16_to_f64(bits: u16) -> f64 {
    let sign = u64::from(bits >> 15) << 63;
    let (exponent, fraction) = (u64::from(bits >> 10 & 0x1f), u64::from(bits & 0x3ff));
    let magnitude = match (exponent, fraction) {
        (0, _) => (fraction as f64 / 16_777_216.0).to_bits(),
        (0x1f, 0) => f64::INFINITY.to_bits(),
        (0x1f, _) => 0x7ff8 << 48,
        _ => (exponent + 1008) << 52 | fraction << 42,
    };
    f64::from_bits(sign | magnitude)
}

/// The nearest binary16 number, of two the even one; a NaN becomes the canonical NaN.
pub fn f64_to_f16(value: f64) -> u16 {
    // What is added to a number below 2^51 to round it to an integer, to even.
    const ROUND: f64 = 4_503_599_627_370_496.0;
    if value.is_nan() {
        return 0x7e00;
    }
    let bits = value.to_bits();
    let sign = (bits >> 48) as u16 & 0x8000;
    let magnitude = f64::from_bits(bits & !(1 << 63));
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    if magnitude < 1.0 / 16384.0 {
        let units = (magnitude * 16_777_216.0 + ROUND) - ROUND;
        return sign | units as u16;
    }
    let whole = bits & ((1 << 52) - 1) | 1 << 52;
    let (kept, rest) = (whole >> 42, whole & ((1 << 42) - 1));
    let up = rest > 1 << 41 || (rest == 1 << 41 && kept & 1 != 0);
    // The exponent is at least -14 here, and at most 15; a carry out of the fraction goes into it.
    let exponent = (bits >> 52 & 0x7ff) - 1009;
    sign | ((exponent << 10) + kept + u64::from(up)) as u16
}

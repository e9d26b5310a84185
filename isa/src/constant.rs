//! Constants as text.

use campanile_hw::isa::{Type, f16_to_f64, f64_to_f16};
use std::cmp::Ordering;

/// The bits that a text stands for as a constant of a type, if it stands for one that fits. A type `None` is an unsigned 32-bit number.
pub(crate) fn parse(text: &str, ty: Type) -> Option<u64> {
    let integer = integer(text);
    match ty {
        Type::None => integer.and_then(|value| u32::try_from(value).ok()).map(u64::from),
        Type::B1 => integer.filter(|value| (0..=1).contains(value)).map(|value| value as u64),
        Type::I32 => integer
            .filter(|value| (i128::from(i32::MIN)..=i128::from(u32::MAX)).contains(value))
            .map(|value| u64::from(value as u32)),
        Type::I64 => integer
            .filter(|value| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(value))
            .map(|value| value as u64),
        Type::F16 | Type::F32 | Type::F64 => float(text, ty),
    }
}

/// A decimal or hexadecimal integer, with or without a minus.
pub(crate) fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = match digits.strip_prefix("0x") {
        Some(digits) => hexadecimal(digits)?,
        None if digits.starts_with(['+', '-']) => return None,
        None => digits.parse().ok()?,
    };
    let value = i128::from(value);
    Some(if negative { -value } else { value })
}

/// Hexadecimal digits, of which there may be no sign.
fn hexadecimal(digits: &str) -> Option<u64> {
    let digits = Some(digits).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok()
}

fn float(text: &str, ty: Type) -> Option<u64> {
    if let Some(bits) = text.strip_prefix("0x") {
        return hexadecimal(bits).filter(|bits| bits.checked_shr(ty.bits()).unwrap_or(0) == 0);
    }
    // Words such as `inf`, which Rust reads too, have no digit there.
    if !text.strip_prefix('-').unwrap_or(text).starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    match ty {
        Type::F16 => Some(f64_to_f16(to_odd(text)?)).filter(|bits| f16_to_f64(*bits).is_finite()).map(u64::from),
        Type::F32 => text.parse::<f32>().ok().filter(|value| value.is_finite()).map(|value| value.to_bits().into()),
        _ => text.parse::<f64>().ok().filter(|value| value.is_finite()).map(f64::to_bits),
    }
}

/// A decimal as one of the two numbers around it, the one whose last bit is 1, unless it is exact. Rounded once more to fewer bits, that is what the decimal itself rounds to.
fn to_odd(decimal: &str) -> Option<f64> {
    let nearest: f64 = decimal.parse().ok()?;
    let bits = nearest.to_bits();
    // With all the digits that a number of 64 bits can have.
    let exact = magnitude(&format!("{nearest:.1074}"));
    Some(match magnitude(decimal).cmp(&exact) {
        Ordering::Less if bits & 1 == 0 => f64::from_bits(bits - 1),
        Ordering::Greater if bits & 1 == 0 => f64::from_bits(bits + 1),
        _ => nearest,
    })
}

/// The absolute value of a decimal: the place of its first digit that is not 0, and the digits from there on. It is ordered as the values are.
fn magnitude(decimal: &str) -> (i64, String) {
    let decimal = decimal.trim_start_matches('-');
    let (digits, exponent) = decimal.split_once(['e', 'E']).unwrap_or((decimal, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = [whole, fraction].concat();
    let significant = all.trim_start_matches('0');
    if significant.is_empty() {
        return (i64::MIN, String::new());
    }
    let first = whole.len() as i64 - (all.len() - significant.len()) as i64;
    // One that has more digits is below zero: beyond the largest number the decimal would not be finite.
    let exponent: i64 = exponent.parse().unwrap_or(i64::MIN / 2);
    (first.saturating_add(exponent), significant.trim_end_matches('0').to_owned())
}

/// A text that [`parse`] reads as these bits.
pub(crate) fn print(bits: u64, ty: Type) -> String {
    let decimal = match ty {
        Type::F16 => format!("{:?}", f16_to_f64(bits as u16)),
        Type::F32 => format!("{:?}", f32::from_bits(bits as u32)),
        Type::F64 => format!("{:?}", f64::from_bits(bits)),
        _ if bits < 1 << 16 => return bits.to_string(),
        _ => return format!("{bits:#x}"),
    };
    if parse(&decimal, ty) == Some(bits) {
        return decimal;
    }
    format!("{bits:#x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_is_rounded_once() {
        let of = |text: &str| parse(text, Type::F16);
        // 1 + 2^-11 is in the middle between 1 and its next neighbour; even is 1.
        assert_eq!(of("1.00048828125"), Some(0x3c00));
        assert_eq!(of("1.00048828125000000000000000000001"), Some(0x3c01));
        assert_eq!(of("1.00048828124999999999999999999999"), Some(0x3c00));
        assert_eq!(of("100048828125000000000000000000001e-32"), Some(0x3c01));
        // 1 + 3 * 2^-11 is in the middle too; even is the greater one.
        assert_eq!(of("1.00146484374999999999999999999999"), Some(0x3c01));
        assert_eq!(of("-1.00146484375"), Some(0xbc02));
        // Half of the smallest number.
        assert_eq!(of("0.0000000298023223876953125"), Some(0));
        assert_eq!(of("0.00000002980232238769531250000000000000000000000001"), Some(1));
        assert_eq!(
            (of("1e-400"), of("1e-99999999999999999999"), of("-0e99999999999999999999")),
            (Some(0), Some(0), Some(0x8000))
        );
    }

    #[test]
    fn a_decimal_is_a_number_of_the_type() {
        for text in ["inf", "-inf", "infinity", "nan", "NaN", "+1", ".5", "-.5", "1e", "1_0", "--1", ""] {
            assert_eq!(parse(text, Type::F32), None, "{text}");
        }
        assert_eq!((parse("65519.99", Type::F16), parse("65520", Type::F16)), (Some(0x7bff), None));
        assert_eq!((parse("3.5e38", Type::F32), parse("-1e309", Type::F64)), (None, None));
        for (ty, infinity) in [(Type::F16, 0xfc00), (Type::F32, 0xff80_0000), (Type::F64, 0xfff0_0000_0000_0000)] {
            assert_eq!(parse(&print(infinity, ty), ty), Some(infinity), "the infinities are written as their bits");
        }
    }
}

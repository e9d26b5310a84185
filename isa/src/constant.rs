//! Constants as text.

use campanile_hw::isa::{Type, f16_to_f64, f64_to_f16};

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
    Some(match ty {
        Type::F16 => u64::from(f64_to_f16(text.parse().ok()?)),
        Type::F32 => u64::from(text.parse::<f32>().ok()?.to_bits()),
        _ => text.parse::<f64>().ok()?.to_bits(),
    })
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
    if decimal.starts_with(|first: char| first.is_ascii_digit() || first == '-') && parse(&decimal, ty) == Some(bits) {
        return decimal;
    }
    format!("{bits:#x}")
}

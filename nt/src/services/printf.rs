//! The texts of `DbgPrint` and of the `printf` functions of the C library that drivers link, by the rules of Microsoft's C library.
//!
//! Arguments lie in eight bytes each, which is how functions of x64 with variable arguments get them. Floating point is not formatted, as in the
//! kernel: such a conversion is shown as it stands. [wdm: DbgPrintEx]

use super::call::text_of;
use super::memory::get;
use crate::bugcheck::Bugcheck;
use crate::driver_call::stop;
use crate::irql;
use wddm_ddi::nt::PASSIVE_LEVEL;
use wddm_ddi::types::UNICODE_STRING;

/// Units of a text: bytes, or 16 bits.
pub(super) trait Unit: super::memory::Plain + Default + PartialEq + Into<u32> {
    /// True for 16-bit units.
    const WIDE: bool;
    /// The unit with this number, as far as it fits.
    fn of(number: u32) -> Self;
}

impl Unit for u8 {
    const WIDE: bool = false;
    fn of(number: u32) -> Self {
        Self::try_from(number).unwrap_or(b'?')
    }
}

impl Unit for u16 {
    const WIDE: bool = true;
    fn of(number: u32) -> Self {
        Self::try_from(number).unwrap_or(b'?'.into())
    }
}

/// Longest text of one argument, and of one conversion.
const LONGEST: usize = 0x1_0000;

/// The arguments behind a format.
pub(super) struct Arguments {
    service: &'static str,
    next: *const u64,
}

impl Arguments {
    pub(super) fn new(service: &'static str, list: *const u64) -> Self {
        Self { service, next: list }
    }

    fn take(&mut self) -> u64 {
        let value = get(self.service, self.next);
        self.next = self.next.wrapping_add(1);
        value
    }
}

/// Size of an argument, as its prefix says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Char,
    Short,
    Plain,
    Long,
    Word,
}

/// A conversion of a format.
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    size: Size,
}

/// The format as far as it is not yet worked through.
struct Format<'a, U> {
    units: &'a [U],
    at: usize,
}

impl<U: Unit> Format<'_, U> {
    fn peek(&self) -> Option<u8> {
        self.ahead(0)
    }

    fn ahead(&self, by: usize) -> Option<u8> {
        u8::try_from((*self.units.get(self.at + by)?).into()).ok()
    }

    fn is(&mut self, text: &str) -> bool {
        let fits = text.bytes().enumerate().all(|(index, byte)| self.ahead(index) == Some(byte));
        if fits {
            self.at += text.len();
        }
        fits
    }

    fn number(&mut self, arguments: &mut Arguments) -> Option<i64> {
        if self.is("*") {
            return Some(i64::from(arguments.take() as i32));
        }
        let mut number = None;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            number = Some((number.unwrap_or(0) * 10 + i64::from(digit - b'0')).min(LONGEST as i64));
            self.at += 1;
        }
        number
    }

    fn conversion(&mut self, arguments: &mut Arguments) -> Conversion {
        let [mut left, mut plus, mut space, mut alternate, mut zero] = [false; 5];
        while let Some(flag) = self.peek() {
            match flag {
                b'-' => left = true,
                b'+' => plus = true,
                b' ' => space = true,
                b'#' => alternate = true,
                b'0' => zero = true,
                _ => break,
            }
            self.at += 1;
        }
        let width = self.number(arguments).unwrap_or(0);
        left |= width < 0;
        let width = (width.unsigned_abs() as usize).min(LONGEST);
        // A negative precision is none.
        let precision = self.is(".").then(|| self.number(arguments).unwrap_or(0));
        let precision = precision.and_then(|number| usize::try_from(number).ok()).map(|number| number.min(LONGEST));
        let sizes = [
            ("I64", Size::Word),
            ("I32", Size::Plain),
            ("ll", Size::Word),
            ("hh", Size::Char),
            ("l", Size::Long),
            ("w", Size::Long),
            ("h", Size::Short),
            ("I", Size::Word),
            ("j", Size::Word),
            ("z", Size::Word),
            ("t", Size::Word),
        ];
        let size = sizes.into_iter().find(|(prefix, _)| self.is(prefix)).map_or(Size::Plain, |(_, size)| size);
        Conversion { left, plus, space, alternate, zero, width, precision, size }
    }
}

impl Conversion {
    /// A number with its sign or prefix, in digits.
    fn number(&self, kind: u8, value: u64) -> String {
        let (mut sign, mut value) = ("", value);
        if matches!(kind, b'd' | b'i') {
            let signed = match self.size {
                Size::Char => i64::from(value as i8),
                Size::Short => i64::from(value as i16),
                Size::Plain | Size::Long => i64::from(value as i32),
                Size::Word => value.cast_signed(),
            };
            sign = if signed < 0 {
                "-"
            } else if self.plus {
                "+"
            } else if self.space {
                " "
            } else {
                ""
            };
            value = signed.unsigned_abs();
        } else if kind != b'p' {
            value &= match self.size {
                Size::Char => 0xff,
                Size::Short => 0xffff,
                Size::Plain | Size::Long => 0xffff_ffff,
                Size::Word => u64::MAX,
            };
        }
        let digits = match kind {
            b'o' => format!("{value:o}"),
            b'x' => format!("{value:x}"),
            b'X' => format!("{value:X}"),
            // Sixteen digits whatever the number. [msvc: p]
            b'p' => format!("{value:016X}"),
            _ => value.to_string(),
        };
        let digits = if value == 0 && self.precision == Some(0) { String::new() } else { digits };
        let prefix = match kind {
            b'x' if self.alternate && value != 0 => "0x",
            b'X' if self.alternate && value != 0 => "0X",
            b'o' if self.alternate && !digits.starts_with('0') => "0",
            _ => sign,
        };
        let mut least = self.precision.unwrap_or(1);
        if self.zero && !self.left && self.precision.is_none() {
            least = self.width.saturating_sub(prefix.len());
        }
        format!("{prefix}{}{digits}", "0".repeat(least.saturating_sub(digits.len())))
    }

    fn pad<U: Unit>(&self, out: &mut Vec<U>, text: Vec<U>) {
        let padding = vec![U::of(b' '.into()); self.width.saturating_sub(text.len())];
        if self.left {
            out.extend(text.into_iter().chain(padding));
        } else {
            out.extend(padding.into_iter().chain(text));
        }
    }
}

/// The formatted text, without an end mark.
pub(super) fn format<U: Unit>(service: &'static str, format: &[U], mut arguments: Arguments) -> Vec<U> {
    let mut format = Format { units: format, at: 0 };
    let mut out = Vec::new();
    while let Some(unit) = format.units.get(format.at).copied() {
        if out.len() >= LONGEST {
            break;
        }
        format.at += 1;
        if unit.into() != u32::from(b'%') {
            out.push(unit);
            continue;
        }
        let start = format.at - 1;
        let conversion = format.conversion(&mut arguments);
        let Some(kind) = format.peek() else { break };
        format.at += 1;
        let wide = wide(U::WIDE, conversion.size, kind);
        let text = match kind {
            b'd' | b'i' | b'u' | b'o' | b'x' | b'X' | b'p' => of(&conversion.number(kind, arguments.take())),
            b'c' | b'C' => {
                need_passive(service, wide);
                let value = arguments.take() as u32;
                vec![U::of(if wide { value & 0xffff } else { value & 0xff })]
            }
            b's' | b'S' => string(service, &conversion, wide, arguments.take()),
            b'Z' => counted(service, wide, arguments.take()),
            b'n' => Vec::new(),
            b'%' => vec![U::of(b'%'.into())],
            _ => {
                if matches!(kind.to_ascii_lowercase(), b'e' | b'f' | b'g' | b'a') {
                    arguments.take();
                }
                format.units.get(start..format.at).unwrap_or_default().to_vec()
            }
        };
        conversion.pad(&mut out, text);
    }
    out
}

/// True if a conversion takes 16-bit units: the capital letters mean the other kind than that of the format.
fn wide(format_is_wide: bool, size: Size, kind: u8) -> bool {
    match (size, kind) {
        (Size::Long, _) => true,
        (Size::Short, _) => false,
        (_, b'S' | b'C') => !format_is_wide,
        (_, b'Z') => false,
        _ => format_is_wide,
    }
}

fn of<U: Unit>(text: &str) -> Vec<U> {
    text.chars().map(|letter| U::of(letter.into())).collect()
}

/// Formats for 16-bit units are for PASSIVE_LEVEL in the functions of the debugger. [wdm: DbgPrintEx]
fn need_passive(service: &'static str, wide: bool) {
    let level = irql::current();
    if wide && service.contains("DbgPrint") && level != PASSIVE_LEVEL {
        let reason = format!(
            "{service} at IRQL {level}, PASSIVE_LEVEL is required for the conversions of 16-bit characters in its format (%C, %S, %lc, %ls, %wc, %ws, %wZ)"
        );
        stop(Bugcheck::new(Bugcheck::IRQL_NOT_LESS_OR_EQUAL, [0, u64::from(level), 0, 0], reason));
    }
}

fn string<U: Unit>(service: &'static str, conversion: &Conversion, wide: bool, address: u64) -> Vec<U> {
    need_passive(service, wide);
    if address == 0 {
        return of("(null)");
    }
    let limit = conversion.precision.unwrap_or(LONGEST);
    let address = address as usize;
    if wide {
        let units = super::memory::units::<u16>(service, std::ptr::with_exposed_provenance(address), limit);
        units.into_iter().map(|unit| U::of(unit.into())).collect()
    } else {
        let units = super::memory::units::<u8>(service, std::ptr::with_exposed_provenance(address), limit);
        units.into_iter().map(|unit| U::of(unit.into())).collect()
    }
}

/// A counted string: UNICODE_STRING or ANSI_STRING, which have the same shape.
fn counted<U: Unit>(service: &'static str, wide: bool, address: u64) -> Vec<U> {
    need_passive(service, wide);
    let string = std::ptr::with_exposed_provenance::<UNICODE_STRING>(address as usize);
    if string.is_null() {
        return of("(null)");
    }
    if wide {
        return text_of(service, string).map_or_else(|| of("(null)"), |text| of(&text));
    }
    let string = get(service, string);
    if string.Buffer.is_null() {
        return of("(null)");
    }
    let bytes = super::memory::bytes(service, string.Buffer.cast(), string.Length.into());
    bytes.into_iter().map(|byte| U::of(byte.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(text: &str, arguments: &[u64]) -> String {
        let text = format("_vsnprintf", text.as_bytes(), Arguments::new("_vsnprintf", arguments.as_ptr()));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn numbers_have_sign_width_precision_and_size() {
        assert_eq!(formatted("%d|%5d|%-5d|%05d|%+d|% d", &[1, 2, 3, 4, 5, 6]), "1|    2|3    |00004|+5| 6");
        assert_eq!(formatted("%d %u %x", &[u64::MAX, u64::MAX, u64::MAX]), "-1 4294967295 ffffffff");
        assert_eq!(formatted("%I64d %I64x %llu", &[u64::MAX, u64::MAX, 7]), "-1 ffffffffffffffff 7");
        assert_eq!(formatted("%hd %hx %Ix %zu", &[0xffff_ffff, 0x1_2345, 1 << 40, 3]), "-1 2345 10000000000 3");
        assert_eq!(formatted("%#x %#X %#o %.4d %.0d|", &[255, 255, 8, 7, 0]), "0xff 0XFF 010 0007 |");
        assert_eq!(formatted("%p", &[0x1234]), "0000000000001234");
        assert_eq!(formatted("%*d|%-*d|%.*d", &[4, 1, 4, 2, 3, 5]), "   1|2   |005");
    }

    #[test]
    fn texts_are_narrow_wide_or_counted() {
        let wide: Vec<u16> = "wide".encode_utf16().chain([0]).collect();
        let mut units = wide.clone();
        let counted = UNICODE_STRING { Length: 4, MaximumLength: 10, Buffer: units.as_mut_ptr() };
        let mut narrow = *b"narrow";
        let ansi = UNICODE_STRING { Length: 3, MaximumLength: 6, Buffer: narrow.as_mut_ptr().cast() };
        let at = |address: usize| address as u64;
        let (text, wide) = (at(c"text".as_ptr().expose_provenance()), at(wide.as_ptr().expose_provenance()));
        let (counted, ansi) = ((&raw const counted).expose_provenance(), (&raw const ansi).expose_provenance());
        assert_eq!(formatted("%s|%6s|%-6s|%.2s", &[text; 4]), "text|  text|text  |te");
        assert_eq!(formatted("%ws|%ls|%S", &[wide; 3]), "wide|wide|wide");
        assert_eq!(formatted("%wZ|%Z", &[at(counted), at(ansi)]), "wi|nar");
        assert_eq!(formatted("%s %wZ %c%%", &[0, 0, 65]), "(null) (null) A%");
        assert_eq!(formatted("%f %d", &[0, 2]), "%f 2");
        let units: Vec<u16> = "%s %hs".encode_utf16().collect();
        let said = format("swprintf", &units, Arguments::new("swprintf", [wide, text].as_ptr()));
        assert_eq!(String::from_utf16(&said).unwrap(), "wide text");
    }
}

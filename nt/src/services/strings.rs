//! Counted strings, conversions between them, and bitmaps. [wdm: RtlInitUnicodeString and its kin]

use wddm_ddi::nt::APC_LEVEL;
use wddm_ddi::status::{
    NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY,
    STATUS_SUCCESS,
};
use wddm_ddi::types::UNICODE_STRING;

use super::blocks::{ex_allocate_pool2, ex_free_pool_with_tag};
use super::call::{require_at_most, require_passive, text_of};
use super::memory::{bytes, get, put, put_units, units};
use crate::driver::Export;

pub(super) const EXPORTS: &[Export] = &[
    ("RtlInitUnicodeString", || rtl_init_unicode_string as *const () as usize),
    ("RtlInitAnsiString", || rtl_init_ansi_string as *const () as usize),
    ("RtlInitString", || rtl_init_ansi_string as *const () as usize),
    ("RtlCopyUnicodeString", || rtl_copy_unicode_string as *const () as usize),
    ("RtlAppendUnicodeStringToString", || rtl_append_unicode_string as *const () as usize),
    ("RtlAppendUnicodeToString", || rtl_append_unicode as *const () as usize),
    ("RtlCompareUnicodeString", || rtl_compare_unicode_string as *const () as usize),
    ("RtlEqualUnicodeString", || rtl_equal_unicode_string as *const () as usize),
    ("RtlPrefixUnicodeString", || rtl_prefix_unicode_string as *const () as usize),
    ("RtlAnsiStringToUnicodeString", || rtl_ansi_string_to_unicode_string as *const () as usize),
    ("RtlUnicodeStringToAnsiString", || rtl_unicode_string_to_ansi_string as *const () as usize),
    ("RtlFreeUnicodeString", || rtl_free_string as *const () as usize),
    ("RtlFreeAnsiString", || rtl_free_string as *const () as usize),
    ("RtlInt64ToUnicodeString", || rtl_int64_to_unicode_string as *const () as usize),
    ("RtlIntegerToUnicodeString", || rtl_integer_to_unicode_string as *const () as usize),
    ("RtlUnicodeStringToInteger", || rtl_unicode_string_to_integer as *const () as usize),
    ("RtlCompareMemory", || rtl_compare_memory as *const () as usize),
];

/// Units of the longest string.
const LONGEST: usize = 0x7ffe;
/// Tag of strings that conversions allocate.
pub(super) const TAG: u32 = u32::from_le_bytes(*b"Rtls");

/// ANSI_STRING has the shape of UNICODE_STRING.
type String16 = *mut UNICODE_STRING;

fn initialize(service: &'static str, string: String16, length: usize, unit: usize, buffer: *mut u16) {
    let length = (length * unit) as u16;
    let maximum = if buffer.is_null() { 0 } else { length.saturating_add(unit as u16) };
    put(service, string, UNICODE_STRING { Length: length, MaximumLength: maximum, Buffer: buffer });
}

extern "win64" fn rtl_init_unicode_string(string: String16, text: *mut u16) {
    const NAME: &str = "RtlInitUnicodeString";
    let length = if text.is_null() { 0 } else { units(NAME, text.cast_const(), LONGEST).len() };
    initialize(NAME, string, length, 2, text);
}

extern "win64" fn rtl_init_ansi_string(string: String16, text: *mut u8) {
    const NAME: &str = "RtlInitAnsiString";
    let length = if text.is_null() { 0 } else { units(NAME, text.cast_const(), 2 * LONGEST).len() };
    initialize(NAME, string, length, 1, text.cast());
}

/// The units of a string; none of NULL.
fn contents(service: &'static str, string: *const UNICODE_STRING) -> Vec<u16> {
    let string = get(service, string);
    if string.Buffer.is_null() {
        return Vec::new();
    }
    let bytes = bytes(service, string.Buffer.cast(), usize::from(string.Length & !1));
    bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect()
}

/// Writes units behind the first `kept` of a string, with an end mark if there is space.
fn write(service: &'static str, string: String16, kept: usize, text: &[u16]) {
    let mut header = get(service, string.cast_const());
    put_units(service, header.Buffer.wrapping_add(kept), text);
    let length = kept + text.len();
    if (length + 1) * 2 <= usize::from(header.MaximumLength) {
        put(service, header.Buffer.wrapping_add(length), 0);
    }
    header.Length = (length * 2) as u16;
    put(service, string, header);
}

/// Copies as much as fits.
extern "win64" fn rtl_copy_unicode_string(to: String16, from: *const UNICODE_STRING) {
    const NAME: &str = "RtlCopyUnicodeString";
    let text = if from.is_null() { Vec::new() } else { contents(NAME, from) };
    let capacity = usize::from(get(NAME, to.cast_const()).MaximumLength / 2);
    write(NAME, to, 0, text.get(..capacity).unwrap_or(&text));
}

fn append(service: &'static str, to: String16, text: &[u16]) -> NTSTATUS {
    let header = get(service, to.cast_const());
    let kept = usize::from(header.Length / 2);
    if (kept + text.len()) * 2 > usize::from(header.MaximumLength) {
        return STATUS_BUFFER_TOO_SMALL;
    }
    write(service, to, kept, text);
    STATUS_SUCCESS
}

extern "win64" fn rtl_append_unicode_string(to: String16, from: *const UNICODE_STRING) -> NTSTATUS {
    const NAME: &str = "RtlAppendUnicodeStringToString";
    append(NAME, to, &contents(NAME, from))
}

extern "win64" fn rtl_append_unicode(to: String16, from: *const u16) -> NTSTATUS {
    const NAME: &str = "RtlAppendUnicodeToString";
    if from.is_null() { STATUS_SUCCESS } else { append(NAME, to, &units(NAME, from, LONGEST)) }
}

/// Units as they are compared: letters of ASCII are alike in both cases if that is asked for. The tables by which Windows knows capital letters are pageable.
fn folded(service: &'static str, string: *const UNICODE_STRING, fold: u8) -> Vec<u16> {
    let upper = |unit: u16| u8::try_from(unit).map_or(unit, |byte| byte.to_ascii_uppercase().into());
    contents(service, string).into_iter().map(|unit| if fold != 0 { upper(unit) } else { unit }).collect()
}

extern "win64" fn rtl_compare_unicode_string(a: *const UNICODE_STRING, b: *const UNICODE_STRING, fold: u8) -> i32 {
    const NAME: &str = "RtlCompareUnicodeString";
    require_passive(NAME);
    folded(NAME, a, fold).cmp(&folded(NAME, b, fold)) as i32
}

extern "win64" fn rtl_equal_unicode_string(a: *const UNICODE_STRING, b: *const UNICODE_STRING, fold: u8) -> u8 {
    const NAME: &str = "RtlEqualUnicodeString";
    require_passive(NAME);
    (folded(NAME, a, fold) == folded(NAME, b, fold)).into()
}

extern "win64" fn rtl_prefix_unicode_string(a: *const UNICODE_STRING, b: *const UNICODE_STRING, fold: u8) -> u8 {
    const NAME: &str = "RtlPrefixUnicodeString";
    require_passive(NAME);
    folded(NAME, b, fold).starts_with(&folded(NAME, a, fold)).into()
}

/// Gives the target a buffer of its own, or sees that the one that it has is large enough.
fn target_buffer(service: &'static str, to: String16, bytes: usize, allocate: u8) -> Result<UNICODE_STRING, NTSTATUS> {
    let size = u16::try_from(bytes).map_err(|_| STATUS_INVALID_PARAMETER)?;
    if allocate == 0 {
        let header = get(service, to.cast_const());
        // STATUS_BUFFER_OVERFLOW, which is what these functions answer.
        return if header.MaximumLength < size { Err(STATUS_BUFFER_OVERFLOW) } else { Ok(header) };
    }
    // SAFETY: no pointers among the arguments.
    let buffer = unsafe { ex_allocate_pool2(wddm_ddi::nt::POOL_FLAG_NON_PAGED, bytes, TAG) };
    if buffer.is_null() {
        return Err(STATUS_NO_MEMORY);
    }
    Ok(UNICODE_STRING { Length: 0, MaximumLength: size, Buffer: buffer.cast() })
}

/// Gives a string a buffer of its own with a text in it.
pub(super) fn write_new(service: &'static str, to: String16, text: &str) -> NTSTATUS {
    let text: Vec<u16> = text.encode_utf16().collect();
    match target_buffer(service, to, (text.len() + 1) * 2, 1) {
        Ok(header) => {
            put(service, to, header);
            write(service, to, 0, &text);
            STATUS_SUCCESS
        }
        Err(status) => status,
    }
}

/// The machine's ANSI code page is Latin-1.
extern "win64" fn rtl_ansi_string_to_unicode_string(
    to: String16,
    from: *const UNICODE_STRING,
    allocate: u8,
) -> NTSTATUS {
    const NAME: &str = "RtlAnsiStringToUnicodeString";
    require_passive(NAME);
    let from = get(NAME, from);
    let text: Vec<u16> = bytes(NAME, from.Buffer.cast(), from.Length.into()).into_iter().map(u16::from).collect();
    let header = match target_buffer(NAME, to, (text.len() + 1) * 2, allocate) {
        Ok(header) => header,
        Err(status) => return status,
    };
    put(NAME, to, header);
    write(NAME, to, 0, &text);
    STATUS_SUCCESS
}

extern "win64" fn rtl_unicode_string_to_ansi_string(
    to: String16,
    from: *const UNICODE_STRING,
    allocate: u8,
) -> NTSTATUS {
    const NAME: &str = "RtlUnicodeStringToAnsiString";
    require_passive(NAME);
    let text: Vec<u8> = contents(NAME, from).into_iter().map(|unit| u8::try_from(unit).unwrap_or(b'?')).collect();
    let mut header = match target_buffer(NAME, to, text.len() + 1, allocate) {
        Ok(header) => header,
        Err(status) => return status,
    };
    let buffer = header.Buffer.cast::<u8>();
    put_units(NAME, buffer, &text);
    put(NAME, buffer.wrapping_add(text.len()), 0);
    header.Length = text.len() as u16;
    put(NAME, to, header);
    STATUS_SUCCESS
}

pub(super) extern "win64" fn rtl_free_string(string: String16) {
    const NAME: &str = "RtlFreeUnicodeString";
    require_at_most(NAME, APC_LEVEL);
    let header = get(NAME, string.cast_const());
    if !header.Buffer.is_null() {
        // SAFETY: the address is looked up.
        unsafe { ex_free_pool_with_tag(header.Buffer.cast(), TAG) };
        put(NAME, string, UNICODE_STRING { Length: 0, MaximumLength: 0, Buffer: std::ptr::null_mut() });
    }
}

extern "win64" fn rtl_integer_to_unicode_string(value: u32, base: u32, string: String16) -> NTSTATUS {
    number_to_string("RtlIntegerToUnicodeString", value.into(), base, string)
}

extern "win64" fn rtl_int64_to_unicode_string(value: u64, base: u32, string: String16) -> NTSTATUS {
    number_to_string("RtlInt64ToUnicodeString", value, base, string)
}

fn number_to_string(service: &'static str, value: u64, base: u32, string: String16) -> NTSTATUS {
    require_passive(service);
    let text = match base {
        0 | 10 => value.to_string(),
        2 => format!("{value:b}"),
        8 => format!("{value:o}"),
        16 => format!("{value:X}"),
        _ => return STATUS_INVALID_PARAMETER,
    };
    let text: Vec<u16> = text.encode_utf16().collect();
    // The result ends with a zero.
    if (text.len() + 1) * 2 > usize::from(get(service, string.cast_const()).MaximumLength) {
        return STATUS_BUFFER_OVERFLOW;
    }
    write(service, string, 0, &text);
    STATUS_SUCCESS
}

/// A sign, a prefix 0x, 0o or 0b if the base is 0, and digits as far as they go.
extern "win64" fn rtl_unicode_string_to_integer(string: *const UNICODE_STRING, base: u32, value: *mut u32) -> NTSTATUS {
    const NAME: &str = "RtlUnicodeStringToInteger";
    require_passive(NAME);
    let text = text_of(NAME, string).unwrap_or_default();
    if text.is_empty() {
        return STATUS_INVALID_PARAMETER;
    }
    let text = text.trim_start_matches(|letter: char| letter <= ' ');
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefixes = [("0x", 16), ("0o", 8), ("0b", 2)];
    let prefixed = prefixes.into_iter().find_map(|(prefix, base)| Some((text.strip_prefix(prefix)?, base)));
    let (digits, base) = match (base, prefixed) {
        (0, Some(found)) => found,
        (0, None) => (text, 10),
        (2 | 8 | 10 | 16, _) => (text, base),
        _ => return STATUS_INVALID_PARAMETER,
    };
    let digits = digits.chars().map_while(|letter| letter.to_digit(base));
    let number = digits.fold(0_u32, |number, digit| number.wrapping_mul(base).wrapping_add(digit));
    put(NAME, value, if negative { number.wrapping_neg() } else { number });
    STATUS_SUCCESS
}

/// The bytes that are alike from the start.
extern "win64" fn rtl_compare_memory(a: *const u8, b: *const u8, length: usize) -> usize {
    const NAME: &str = "RtlCompareMemory";
    (0..length).take_while(|at| get(NAME, a.wrapping_add(*at)) == get(NAME, b.wrapping_add(*at))).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::driver_call;

    fn wide(text: &str) -> Vec<u16> {
        text.encode_utf16().chain([0]).collect()
    }

    fn string(buffer: &mut [u16]) -> UNICODE_STRING {
        let mut string = UNICODE_STRING { Length: 0, MaximumLength: 0, Buffer: std::ptr::null_mut() };
        rtl_init_unicode_string(&raw mut string, buffer.as_mut_ptr());
        string
    }

    #[test]
    fn strings_are_initialized_copied_appended_and_compared() {
        let (mut name, mut other, mut buffer) = (wide("Name"), wide("nAME"), [0xffff_u16; 6]);
        let (name, other) = (string(&mut name), string(&mut other));
        assert_eq!((name.Length, name.MaximumLength), (8, 10));
        assert_eq!(rtl_equal_unicode_string(&raw const name, &raw const other, 0), 0);
        assert_eq!(rtl_equal_unicode_string(&raw const name, &raw const other, 1), 1);
        let mut to = UNICODE_STRING { Length: 0, MaximumLength: 12, Buffer: buffer.as_mut_ptr() };
        rtl_copy_unicode_string(&raw mut to, &raw const name);
        assert_eq!((to.Length, buffer[4]), (8, 0));
        assert_eq!(rtl_append_unicode_string(&raw mut to, &raw const name), STATUS_BUFFER_TOO_SMALL);
        assert_eq!(rtl_append_unicode(&raw mut to, wide("45").as_ptr()), STATUS_SUCCESS);
        assert_eq!(String::from_utf16_lossy(&buffer), "Name45");
        assert_eq!(rtl_prefix_unicode_string(&raw const name, &raw const to, 0), 1);
        assert_eq!(rtl_integer_to_unicode_string(0xbeef, 16, &raw mut to), STATUS_SUCCESS);
        assert_eq!(contents("a test", &raw const to), "BEEF".encode_utf16().collect::<Vec<_>>());
        let mut long = [0_u16; 21];
        let mut number = UNICODE_STRING { Length: 0, MaximumLength: 42, Buffer: long.as_mut_ptr() };
        assert_eq!(rtl_int64_to_unicode_string(u64::MAX, 0, &raw mut number), STATUS_SUCCESS);
        assert_eq!(String::from_utf16_lossy(&long), "18446744073709551615\0");
        assert_eq!(rtl_int64_to_unicode_string(1, 7, &raw mut number), STATUS_INVALID_PARAMETER);
        to.MaximumLength = 8;
        assert_eq!(
            rtl_integer_to_unicode_string(0xbeef, 16, &raw mut to),
            STATUS_BUFFER_OVERFLOW,
            "no space for the zero"
        );
        let (mut empty, mut value) = (wide(""), 7);
        let empty = string(&mut empty);
        assert_eq!(rtl_unicode_string_to_integer(&raw const empty, 10, &raw mut value), STATUS_INVALID_PARAMETER);
        assert_eq!(value, 7);
        let mut number = wide("-0x10");
        let number = string(&mut number);
        assert_eq!(rtl_unicode_string_to_integer(&raw const number, 0, &raw mut value), STATUS_SUCCESS);
        assert_eq!(value, 0_u32.wrapping_sub(16));
        assert_eq!(rtl_compare_memory(c"abc".as_ptr().cast(), c"abd".as_ptr().cast(), 3), 2);
    }

    #[test]
    fn conversions_allocate_what_is_freed_again() {
        let driver = Driver::for_tests("strings");
        driver_call::run(&driver, "a function", || {
            let (mut narrow, mut ansi) =
                (*b"abc\0", UNICODE_STRING { Length: 0, MaximumLength: 0, Buffer: std::ptr::null_mut() });
            rtl_init_ansi_string(&raw mut ansi, narrow.as_mut_ptr());
            let mut wide = UNICODE_STRING { Length: 0, MaximumLength: 0, Buffer: std::ptr::null_mut() };
            assert_eq!(rtl_ansi_string_to_unicode_string(&raw mut wide, &raw const ansi, 1), STATUS_SUCCESS);
            assert_eq!((wide.Length, wide.MaximumLength), (6, 8));
            let mut back = ansi;
            assert_eq!(rtl_unicode_string_to_ansi_string(&raw mut back, &raw const wide, 0), STATUS_SUCCESS);
            assert_eq!((back.Length, narrow), (3, *b"abc\0"));
            rtl_free_string(&raw mut wide);
            assert!(wide.Buffer.is_null());
        })
        .0
        .unwrap();
        driver.check_unloaded();
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    #[test]
    fn each_function_is_called_at_the_levels_of_its_page() {
        // [wdm: the field IRQL of the page of each function]
        type Call = fn(String16);
        let calls: [(Call, &str); 9] = [
            (|at| _ = rtl_compare_unicode_string(at, at, 0), "RtlCompareUnicodeString at IRQL 2, PASSIVE_LEVEL"),
            (|at| _ = rtl_equal_unicode_string(at, at, 0), "RtlEqualUnicodeString at IRQL 2, PASSIVE_LEVEL"),
            (|at| _ = rtl_prefix_unicode_string(at, at, 0), "RtlPrefixUnicodeString at IRQL 2, PASSIVE_LEVEL"),
            (|at| _ = rtl_ansi_string_to_unicode_string(at, at, 0), "RtlAnsiStringToUnicodeString at IRQL 2, PASSIVE"),
            (|at| _ = rtl_unicode_string_to_ansi_string(at, at, 0), "RtlUnicodeStringToAnsiString at IRQL 2, PASSIVE"),
            (|at| _ = rtl_integer_to_unicode_string(1, 10, at), "RtlIntegerToUnicodeString at IRQL 2, PASSIVE"),
            (
                |at| _ = rtl_unicode_string_to_integer(at, 10, std::ptr::null_mut()),
                "RtlUnicodeStringToInteger at IRQL 2, PASSIVE",
            ),
            (|at| rtl_free_string(at), "RtlFreeUnicodeString at IRQL 2, at most APC_LEVEL"),
            (|at| _ = rtl_append_unicode_string(at, at), ""),
        ];
        for (call, told) in calls {
            let driver = Driver::for_tests("levels");
            let mut buffer = [0_u16; 8];
            let mut at = UNICODE_STRING { Length: 0, MaximumLength: 16, Buffer: buffer.as_mut_ptr() };
            driver_call::run(&driver, "a function", || {
                let _raised = crate::irql::Raised::to(2);
                call(&raw mut at);
            });
            match driver.verifier().bugcheck() {
                Some(bugcheck) => assert!(!told.is_empty() && bugcheck.reason.contains(told), "{bugcheck}"),
                None => assert_eq!(told, "", "the page allows no such level"),
            }
        }
    }
}

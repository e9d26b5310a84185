//! Conversions between texts, GUIDs and UTF-8. [wdm: RtlStringFromGUID and its kin]

use wddm_ddi::status::{NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use wddm_ddi::types::UNICODE_STRING;

use super::call::{require_passive, text_of};
use super::memory::{Plain, get, put, put_if, put_units};
use super::strings;
use crate::driver::Export;

pub(super) const EXPORTS: &[Export] = &[
    ("RtlStringFromGUID", || rtl_string_from_guid as *const () as usize),
    ("RtlGUIDFromString", || rtl_guid_from_string as *const () as usize),
    ("RtlUnicodeToUTF8N", || rtl_unicode_to_utf8n as *const () as usize),
    ("RtlUTF8ToUnicodeN", || rtl_utf8_to_unicode_n as *const () as usize),
];

/// [ntstatus: STATUS_SOME_NOT_MAPPED]
const STATUS_SOME_NOT_MAPPED: NTSTATUS = NTSTATUS(0x107);
/// [ntstatus: STATUS_INVALID_PARAMETER_4]
const STATUS_INVALID_PARAMETER_4: NTSTATUS = NTSTATUS(0xc000_00f2_u32 as i32);
/// [ntstatus: STATUS_INVALID_PARAMETER_5]
const STATUS_INVALID_PARAMETER_5: NTSTATUS = NTSTATUS(0xc000_00f3_u32 as i32);

/// Bytes of a GUID. The first three numbers of its text are in the order of the processor.
const GUID_BYTES: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];

/// The buffer is the function's, and freed by RtlFreeUnicodeString. The page leaves open which case letters have: capital ones.
extern "win64" fn rtl_string_from_guid(guid: *const [u8; 16], string: *mut UNICODE_STRING) -> NTSTATUS {
    const NAME: &str = "RtlStringFromGUID";
    require_passive(NAME);
    let guid = get(NAME, guid);
    let mut text = String::from("{");
    for (place, byte) in GUID_BYTES.iter().enumerate() {
        if [4, 6, 8, 10].contains(&place) {
            text.push('-');
        }
        text.push_str(&format!("{:02X}", guid[*byte]));
    }
    text.push('}');
    strings::write_new(NAME, string, &text)
}

/// Nothing is written for a text of another form.
extern "win64" fn rtl_guid_from_string(string: *const UNICODE_STRING, guid: *mut [u8; 16]) -> NTSTATUS {
    const NAME: &str = "RtlGUIDFromString";
    require_passive(NAME);
    let text = text_of(NAME, string).unwrap_or_default();
    match parsed(&text) {
        Some(value) => {
            put(NAME, guid, value);
            STATUS_SUCCESS
        }
        None => STATUS_INVALID_PARAMETER,
    }
}

fn parsed(text: &str) -> Option<[u8; 16]> {
    let text = text.strip_prefix('{')?.strip_suffix('}')?;
    let parts: Vec<&str> = text.split('-').collect();
    if parts.iter().map(|part| part.len()).ne([8, 4, 4, 4, 12]) {
        return None;
    }
    let digits: Vec<u32> = parts.concat().chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    let mut guid = [0; 16];
    for (pair, byte) in digits.chunks_exact(2).zip(GUID_BYTES) {
        guid[byte] = (pair[0] << 4 | pair[1]) as u8;
    }
    Some(guid)
}

/// Place for what a text becomes, its size in bytes, and where the number of bytes goes.
type Output<T> = (*mut T, u32, *mut u32);

/// Writes characters, as many as fit, or counts their bytes. What was no character has become U+FFFD.
fn convert<T: Plain>(
    service: &'static str,
    (to, room, actual): Output<T>,
    characters: impl Iterator<Item = Option<char>>,
    encode: fn(char) -> Vec<T>,
) -> NTSTATUS {
    let (mut written, mut status) = (0_u32, STATUS_SUCCESS);
    for character in characters {
        if character.is_none() {
            status = STATUS_SOME_NOT_MAPPED;
        }
        let units = encode(character.unwrap_or(char::REPLACEMENT_CHARACTER));
        let bytes = size_of_val(units.as_slice()) as u32;
        if !to.is_null() {
            if room - written < bytes {
                status = STATUS_BUFFER_TOO_SMALL;
                break;
            }
            put_units(service, to.wrapping_byte_add(written as usize), &units);
        }
        written = written.saturating_add(bytes);
    }
    put_if(service, actual, written);
    status
}

extern "win64" fn rtl_unicode_to_utf8n(
    to: *mut u8,
    room: u32,
    actual: *mut u32,
    from: *const u16,
    bytes: u32,
) -> NTSTATUS {
    const NAME: &str = "RtlUnicodeToUTF8N";
    require_passive(NAME);
    match () {
        () if from.is_null() => return STATUS_INVALID_PARAMETER_4,
        () if !bytes.is_multiple_of(2) => return STATUS_INVALID_PARAMETER_5,
        () if to.is_null() && actual.is_null() => return STATUS_INVALID_PARAMETER,
        () => {}
    }
    let units = (0..bytes as usize / 2).map(|index| get(NAME, from.wrapping_add(index)));
    let characters = char::decode_utf16(units).map(Result::ok);
    convert(NAME, (to, room, actual), characters, |character| {
        let mut buffer = [0; 4];
        character.encode_utf8(&mut buffer).as_bytes().to_vec()
    })
}

/// The character at the start of some bytes, if there is one, and how many of them it takes, or what is none.
fn first(bytes: &[u8]) -> (Option<char>, usize) {
    for length in 1..=bytes.len() {
        match std::str::from_utf8(&bytes[..length]) {
            Ok(text) => return (text.chars().next(), length),
            Err(error) => {
                if let Some(wrong) = error.error_len() {
                    return (None, wrong);
                }
            }
        }
    }
    (None, bytes.len())
}

extern "win64" fn rtl_utf8_to_unicode_n(
    to: *mut u16,
    room: u32,
    actual: *mut u32,
    from: *const u8,
    bytes: u32,
) -> NTSTATUS {
    const NAME: &str = "RtlUTF8ToUnicodeN";
    require_passive(NAME);
    match () {
        () if from.is_null() => return STATUS_INVALID_PARAMETER_4,
        () if to.is_null() && actual.is_null() => return STATUS_INVALID_PARAMETER,
        () => {}
    }
    let mut place = 0;
    let characters = std::iter::from_fn(|| {
        let left = (bytes as usize).checked_sub(place).filter(|left| *left > 0)?;
        let window: Vec<u8> = (place..place + left.min(4)).map(|index| get(NAME, from.wrapping_add(index))).collect();
        let (character, length) = first(&window);
        place += length;
        Some(character)
    });
    convert(NAME, (to, room, actual), characters, |character| {
        let mut buffer = [0; 2];
        character.encode_utf16(&mut buffer).to_vec()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::driver_call;
    use std::ptr;

    fn run<R>(work: impl FnOnce() -> R) -> R {
        let driver = Driver::for_tests("conversions");
        let result = driver_call::run(&driver, "a function", work).0.unwrap();
        driver.check_unloaded();
        assert_eq!(driver.verifier().bugcheck(), None);
        result
    }

    #[test]
    fn a_guid_becomes_text_in_braces_and_comes_back_and_other_texts_write_nothing() {
        run(|| {
            let guid: [u8; 16] = [0xcd, 0xab, 0x34, 0x12, 0x78, 0x56, 0x09, 0, 1, 2, 3, 4, 5, 6, 7, 0xff];
            let mut string = UNICODE_STRING { Length: 0, MaximumLength: 0, Buffer: ptr::null_mut() };
            assert_eq!(rtl_string_from_guid(&raw const guid, &raw mut string), STATUS_SUCCESS);
            let text = text_of("a test", &raw const string).unwrap();
            assert_eq!(text, "{1234ABCD-5678-0009-0102-0304050607FF}");
            let mut back = [0; 16];
            assert_eq!(rtl_guid_from_string(&raw const string, &raw mut back), STATUS_SUCCESS);
            assert_eq!(back, guid);
            strings::rtl_free_string(&raw mut string);
        });
        assert!(parsed("{1234abcd-5678-0009-0102-0304050607ff}").is_some(), "small letters");
        for wrong in [
            "",
            "{}",
            "1234ABCD-5678-0009-0102-0304050607FF",
            "{1234ABCD-5678-0009-0102-0304050607F}",
            "{1234ABCD-5678-0009-0102-0304050607FG}",
            "{1234ABC-D5678-0009-0102-0304050607FF}",
            "{1234ABCD-5678-0009-0102-0304050607FF} ",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn texts_become_utf8_and_come_back_and_what_is_no_character_is_replaced() {
        run(|| {
            let (text, mut count, mut narrow) = ("aé€😀\0b", 0, [0xaa_u8; 16]);
            let wide: Vec<u16> = text.encode_utf16().collect();
            let bytes = wide.len() as u32 * 2;
            let status = rtl_unicode_to_utf8n(ptr::null_mut(), 0, &raw mut count, wide.as_ptr(), bytes);
            assert_eq!((status, count as usize), (STATUS_SUCCESS, text.len()));
            let status = rtl_unicode_to_utf8n(narrow.as_mut_ptr(), 16, &raw mut count, wide.as_ptr(), bytes);
            assert_eq!((status, &narrow[..count as usize]), (STATUS_SUCCESS, text.as_bytes()));
            let mut back = [0xaaaa_u16; 8];
            let status = rtl_utf8_to_unicode_n(back.as_mut_ptr(), 16, &raw mut count, narrow.as_ptr(), count);
            assert_eq!((status, count), (STATUS_SUCCESS, bytes));
            assert_eq!(back[..wide.len()], wide);
            // As many characters as fit, and no part of one.
            let status = rtl_unicode_to_utf8n(narrow.as_mut_ptr(), 5, &raw mut count, wide.as_ptr(), bytes);
            assert_eq!((status, count), (STATUS_BUFFER_TOO_SMALL, 3));
            let lone = [0xd83d_u16, 0x61];
            let status = rtl_unicode_to_utf8n(narrow.as_mut_ptr(), 16, &raw mut count, lone.as_ptr(), 4);
            assert_eq!((status, &narrow[..4]), (STATUS_SOME_NOT_MAPPED, "\u{fffd}a".as_bytes()));
            let broken = *b"a\xff\xe2\x82";
            let status = rtl_utf8_to_unicode_n(back.as_mut_ptr(), 16, &raw mut count, broken.as_ptr(), 4);
            assert_eq!((status, &back[..count as usize / 2]), (STATUS_SOME_NOT_MAPPED, &[0x61, 0xfffd, 0xfffd][..]));
        });
    }

    #[test]
    fn arguments_that_are_missing_or_odd_are_refused_with_their_number() {
        run(|| {
            let (wide, mut narrow, null) = ([0x61_u16], [0_u8; 4], ptr::null_mut());
            let to = narrow.as_mut_ptr();
            assert_eq!(rtl_unicode_to_utf8n(to, 4, null, ptr::null(), 2), STATUS_INVALID_PARAMETER_4);
            assert_eq!(rtl_unicode_to_utf8n(to, 4, null, wide.as_ptr(), 1), STATUS_INVALID_PARAMETER_5);
            assert_eq!(rtl_unicode_to_utf8n(ptr::null_mut(), 0, null, wide.as_ptr(), 2), STATUS_INVALID_PARAMETER);
            assert_eq!(rtl_utf8_to_unicode_n(ptr::null_mut(), 0, null, ptr::null(), 1), STATUS_INVALID_PARAMETER_4);
            assert_eq!(rtl_utf8_to_unicode_n(ptr::null_mut(), 0, null, to, 1), STATUS_INVALID_PARAMETER);
            assert_eq!(rtl_unicode_to_utf8n(to, 4, null, wide.as_ptr(), 2), STATUS_SUCCESS, "nobody wants the number");
        });
    }
}

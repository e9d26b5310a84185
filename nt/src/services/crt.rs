// UNSAFETY: functions with variable arguments, whose registers are stored by hand.
//! The C library that drivers link with `ntoskrnl`. A bad address stops the machine. [msvc: C run-time library]

use super::memory::{bytes, get, put, put_units, units};
use super::printf::{Arguments, Unit, format};
use crate::bugcheck::Bugcheck;
use crate::driver::Export;
use crate::driver_call::stop;

pub(super) const EXPORTS: &[Export] = &[
    ("_purecall", || purecall as *const () as usize),
    ("strlen", || strlen as *const () as usize),
    ("strnlen", || strnlen as *const () as usize),
    ("strcmp", || strcmp as *const () as usize),
    ("strncmp", || strncmp as *const () as usize),
    ("_stricmp", || stricmp as *const () as usize),
    ("_strnicmp", || strnicmp as *const () as usize),
    ("strcpy", || strcpy as *const () as usize),
    ("strncpy", || strncpy as *const () as usize),
    ("strcat", || strcat as *const () as usize),
    ("strchr", || strchr as *const () as usize),
    ("strrchr", || strrchr as *const () as usize),
    ("strstr", || strstr as *const () as usize),
    ("strcpy_s", || strcpy_s as *const () as usize),
    ("strcat_s", || strcat_s as *const () as usize),
    ("strncpy_s", || strncpy_s as *const () as usize),
    ("wcslen", || wcslen as *const () as usize),
    ("wcsnlen", || wcsnlen as *const () as usize),
    ("wcscmp", || wcscmp as *const () as usize),
    ("wcsncmp", || wcsncmp as *const () as usize),
    ("_wcsicmp", || wcsicmp as *const () as usize),
    ("_wcsnicmp", || wcsnicmp as *const () as usize),
    ("wcscpy", || wcscpy as *const () as usize),
    ("wcsncpy", || wcsncpy as *const () as usize),
    ("wcscat", || wcscat as *const () as usize),
    ("wcschr", || wcschr as *const () as usize),
    ("wcsrchr", || wcsrchr as *const () as usize),
    ("wcsstr", || wcsstr as *const () as usize),
    ("wcscpy_s", || wcscpy_s as *const () as usize),
    ("wcscat_s", || wcscat_s as *const () as usize),
    ("wcsncpy_s", || wcsncpy_s as *const () as usize),
    ("memchr", || memchr as *const () as usize),
    ("memcpy_s", || memcpy_s as *const () as usize),
    ("memmove_s", || memcpy_s as *const () as usize),
    ("tolower", || tolower as *const () as usize),
    ("toupper", || toupper as *const () as usize),
    ("towlower", || towlower as *const () as usize),
    ("towupper", || towupper as *const () as usize),
    ("isdigit", || isdigit as *const () as usize),
    ("isxdigit", || isxdigit as *const () as usize),
    ("isspace", || isspace as *const () as usize),
    ("isprint", || isprint as *const () as usize),
    ("_vsnprintf", || vsnprintf as *const () as usize),
    ("_vsnwprintf", || vsnwprintf as *const () as usize),
    ("_vsnprintf_s", || vsnprintf_s as *const () as usize),
    ("vsprintf_s", || vsprintf_s as *const () as usize),
    ("vswprintf_s", || vswprintf_s as *const () as usize),
    ("vsprintf", || vsprintf as *const () as usize),
    ("_snprintf", || snprintf as *const () as usize),
    ("_snwprintf", || snwprintf as *const () as usize),
    ("sprintf_s", || sprintf_s as *const () as usize),
    ("swprintf_s", || swprintf_s as *const () as usize),
    ("sprintf", || sprintf as *const () as usize),
    ("__chkstk", || chkstk as *const () as usize),
];

/// What C++ calls in the place of a virtual function that an object does not have: one whose constructor or destructor runs, or that is no more.
extern "win64" fn purecall() {
    stop(Bugcheck::fatal("_purecall: a virtual function was called of an object that is not made yet, or no more"));
}

const LONGEST: usize = 1 << 20;
/// The answers of the functions whose names end in `_s`. [errno: EINVAL, ERANGE, STRUNCATE]
const EINVAL: i32 = 22;
const ERANGE: i32 = 34;
const STRUNCATE: i32 = 80;
/// A count that asks for as much as fits. [msvc: _TRUNCATE]
const TRUNCATE: usize = usize::MAX;

/// Touches the pages of a large frame on the way down; here the whole stack is there, and the guard below it faults at the first access. Rax
/// holds the size of the frame and keeps it.
///
/// # Safety
/// Called from the prologue of a function alone.
#[unsafe(naked)]
unsafe extern "win64" fn chkstk() {
    core::arch::naked_asm!(
        "push r10",
        "push r11",
        "lea r10, [rsp + 24]",
        "mov r11, rax",
        "2:",
        "cmp r11, 4096",
        "jb 3f",
        "sub r10, 4096",
        "test [r10], r10",
        "sub r11, 4096",
        "jmp 2b",
        "3:",
        "pop r11",
        "pop r10",
        "ret"
    )
}

fn fold<U: Unit>(unit: U) -> u32 {
    let number = unit.into();
    char::from_u32(number).map_or(number, |letter| letter.to_ascii_lowercase().into())
}

/// Less than, equal to or greater than 0, as for the first unit in which the texts differ.
fn compare<U: Unit>(name: &'static str, a: *const U, b: *const U, limit: usize, key: fn(U) -> u32) -> i32 {
    for index in 0..limit {
        let [first, second] = [a, b].map(|text| get(name, text.wrapping_add(index)));
        let (left, right) = (key(first), key(second));
        if left != right {
            return if left < right { -1 } else { 1 };
        }
        if first == U::default() {
            break;
        }
    }
    0
}

fn copy<U: Unit>(name: &'static str, to: *mut U, from: *const U) -> *mut U {
    let text = units(name, from, LONGEST);
    put_units(name, to, &text);
    put(name, to.wrapping_add(text.len()), U::default());
    to
}

/// Copies up to so many units, and fills what is left of them.
fn copy_padded<U: Unit>(name: &'static str, to: *mut U, from: *const U, count: usize) -> *mut U {
    let mut text = units(name, from, count.min(LONGEST));
    text.resize(count.min(LONGEST), U::default());
    put_units(name, to, &text);
    to
}

fn append<U: Unit>(name: &'static str, to: *mut U, from: *const U) -> *mut U {
    copy(name, to.wrapping_add(units(name, to, LONGEST).len()), from);
    to
}

/// Copies up to `count` units behind what is there already; an empty text if they do not fit.
fn copy_safe<U: Unit>(name: &'static str, to: *mut U, size: usize, from: *const U, count: usize, behind: bool) -> i32 {
    if to.is_null() || size == 0 {
        return EINVAL;
    }
    if from.is_null() {
        put(name, to, U::default());
        return EINVAL;
    }
    let present = if behind { units(name, to, size).len() } else { 0 };
    let mut text = units(name, from, count.min(size.saturating_add(1)));
    let capacity = size.saturating_sub(present + 1);
    let mut answer = 0;
    if present >= size || text.len() > capacity {
        if count != TRUNCATE {
            put(name, to, U::default());
            return if present >= size { EINVAL } else { ERANGE };
        }
        text.truncate(capacity);
        answer = STRUNCATE;
    }
    put_units(name, to.wrapping_add(present), &text);
    put(name, to.wrapping_add(present + text.len()), U::default());
    answer
}

/// The first or last place of a unit, which may be the end mark.
fn find<U: Unit>(name: &'static str, text: *const U, unit: U, last: bool) -> *const U {
    let mut found = units(name, text, LONGEST);
    found.push(U::default());
    let is = |other: &U| *other == unit;
    let place = if last { found.iter().rposition(is) } else { found.iter().position(is) };
    place.map_or(std::ptr::null(), |place| text.wrapping_add(place))
}

fn find_text<U: Unit>(name: &'static str, text: *const U, other: *const U) -> *const U {
    let (found, other) = (units(name, text, LONGEST), units(name, other, LONGEST));
    let place = (0..=found.len()).find(|start| found.get(*start..).is_some_and(|rest| rest.starts_with(&other)));
    place.map_or(std::ptr::null(), |place| text.wrapping_add(place))
}

macro_rules! texts {
    ($unit:ty; $len:ident $nlen:ident $cmp:ident $ncmp:ident $icmp:ident $nicmp:ident $cpy:ident $ncpy:ident $cat:ident $chr:ident $rchr:ident
     $str:ident $cpy_s:ident $cat_s:ident $ncpy_s:ident) => {
        extern "win64" fn $len(text: *const $unit) -> usize {
            units(stringify!($len), text, LONGEST).len()
        }
        extern "win64" fn $nlen(text: *const $unit, limit: usize) -> usize {
            units(stringify!($nlen), text, limit).len()
        }
        extern "win64" fn $cmp(a: *const $unit, b: *const $unit) -> i32 {
            compare(stringify!($cmp), a, b, LONGEST, <$unit as Into<u32>>::into)
        }
        extern "win64" fn $ncmp(a: *const $unit, b: *const $unit, count: usize) -> i32 {
            compare(stringify!($ncmp), a, b, count, <$unit as Into<u32>>::into)
        }
        extern "win64" fn $icmp(a: *const $unit, b: *const $unit) -> i32 {
            compare(stringify!($icmp), a, b, LONGEST, fold)
        }
        extern "win64" fn $nicmp(a: *const $unit, b: *const $unit, count: usize) -> i32 {
            compare(stringify!($nicmp), a, b, count, fold)
        }
        extern "win64" fn $cpy(to: *mut $unit, from: *const $unit) -> *mut $unit {
            copy(stringify!($cpy), to, from)
        }
        extern "win64" fn $ncpy(to: *mut $unit, from: *const $unit, count: usize) -> *mut $unit {
            copy_padded(stringify!($ncpy), to, from, count)
        }
        extern "win64" fn $cat(to: *mut $unit, from: *const $unit) -> *mut $unit {
            append(stringify!($cat), to, from)
        }
        extern "win64" fn $chr(text: *const $unit, unit: i32) -> *const $unit {
            find(stringify!($chr), text, unit as $unit, false)
        }
        extern "win64" fn $rchr(text: *const $unit, unit: i32) -> *const $unit {
            find(stringify!($rchr), text, unit as $unit, true)
        }
        extern "win64" fn $str(text: *const $unit, other: *const $unit) -> *const $unit {
            find_text(stringify!($str), text, other)
        }
        extern "win64" fn $cpy_s(to: *mut $unit, size: usize, from: *const $unit) -> i32 {
            copy_safe(stringify!($cpy_s), to, size, from, LONGEST, false)
        }
        extern "win64" fn $cat_s(to: *mut $unit, size: usize, from: *const $unit) -> i32 {
            copy_safe(stringify!($cat_s), to, size, from, LONGEST, true)
        }
        extern "win64" fn $ncpy_s(to: *mut $unit, size: usize, from: *const $unit, count: usize) -> i32 {
            copy_safe(stringify!($ncpy_s), to, size, from, count, false)
        }
    };
}
texts!(u8; strlen strnlen strcmp strncmp stricmp strnicmp strcpy strncpy strcat strchr strrchr strstr strcpy_s strcat_s strncpy_s);
texts!(u16; wcslen wcsnlen wcscmp wcsncmp wcsicmp wcsnicmp wcscpy wcsncpy wcscat wcschr wcsrchr wcsstr wcscpy_s wcscat_s wcsncpy_s);

extern "win64" fn memchr(memory: *const u8, byte: i32, count: usize) -> *const u8 {
    let place = (0..count).find(|index| get("memchr", memory.wrapping_add(*index)) == byte as u8);
    place.map_or(std::ptr::null(), |place| memory.wrapping_add(place))
}

extern "win64" fn memcpy_s(to: *mut u8, size: usize, from: *const u8, count: usize) -> i32 {
    const NAME: &str = "memcpy_s";
    if count == 0 {
        return 0;
    }
    if to.is_null() {
        return EINVAL;
    }
    if from.is_null() || count > size {
        (0..size).for_each(|index| put(NAME, to.wrapping_add(index), 0));
        return if from.is_null() { EINVAL } else { ERANGE };
    }
    put_units(NAME, to, &bytes(NAME, from, count));
    0
}

fn letter(unit: i32, change: fn(&u8) -> u8) -> i32 {
    u8::try_from(unit).map_or(unit, |unit| change(&unit).into())
}

extern "win64" fn tolower(unit: i32) -> i32 {
    letter(unit, u8::to_ascii_lowercase)
}
extern "win64" fn toupper(unit: i32) -> i32 {
    letter(unit, u8::to_ascii_uppercase)
}
extern "win64" fn towlower(unit: u16) -> u16 {
    letter(unit.into(), u8::to_ascii_lowercase) as u16
}
extern "win64" fn towupper(unit: u16) -> u16 {
    letter(unit.into(), u8::to_ascii_uppercase) as u16
}

fn is(unit: i32, kind: fn(&u8) -> bool) -> i32 {
    u8::try_from(unit).is_ok_and(|unit| kind(&unit)).into()
}

extern "win64" fn isdigit(unit: i32) -> i32 {
    is(unit, u8::is_ascii_digit)
}
extern "win64" fn isxdigit(unit: i32) -> i32 {
    is(unit, u8::is_ascii_hexdigit)
}
extern "win64" fn isspace(unit: i32) -> i32 {
    is(unit, |unit| matches!(unit, 9..=13 | 32))
}
extern "win64" fn isprint(unit: i32) -> i32 {
    is(unit, |unit| matches!(unit, 32..=126))
}

/// Formats into `count` units: -1 if it does not fit, without an end mark if there is no space for one. [msvc: _vsnprintf]
fn print<U: Unit>(name: &'static str, to: *mut U, count: usize, text: *const U, list: *const u64) -> i32 {
    let text = format(name, &units(name, text, LONGEST), Arguments::new(name, list));
    if to.is_null() && count == 0 {
        return text.len() as i32;
    }
    put_units(name, to, text.get(..count).unwrap_or(&text));
    if text.len() < count {
        put(name, to.wrapping_add(text.len()), U::default());
    }
    if text.len() <= count { text.len() as i32 } else { -1 }
}

/// Formats into a buffer of `size` units with its end mark; an empty text and -1 if it does not fit. [msvc: vsprintf_s]
fn print_safe<U: Unit>(
    name: &'static str,
    to: *mut U,
    size: usize,
    count: usize,
    text: *const U,
    list: *const u64,
) -> i32 {
    if to.is_null() || size == 0 || text.is_null() {
        return -1;
    }
    let mut text = format(name, &units(name, text, LONGEST), Arguments::new(name, list));
    let capacity = if count == TRUNCATE { size - 1 } else { count };
    let truncated = text.len() > capacity;
    text.truncate(capacity);
    if text.len() >= size {
        put(name, to, U::default());
        return -1;
    }
    put_units(name, to, &text);
    put(name, to.wrapping_add(text.len()), U::default());
    if truncated { -1 } else { text.len() as i32 }
}

extern "win64" fn vsnprintf(to: *mut u8, count: usize, text: *const u8, list: *const u64) -> i32 {
    print("_vsnprintf", to, count, text, list)
}
extern "win64" fn vsnwprintf(to: *mut u16, count: usize, text: *const u16, list: *const u64) -> i32 {
    print("_vsnwprintf", to, count, text, list)
}
extern "win64" fn vsnprintf_s(to: *mut u8, size: usize, count: usize, text: *const u8, list: *const u64) -> i32 {
    print_safe("_vsnprintf_s", to, size, count, text, list)
}
extern "win64" fn vsprintf_s(to: *mut u8, size: usize, text: *const u8, list: *const u64) -> i32 {
    print_safe("vsprintf_s", to, size, LONGEST, text, list)
}
extern "win64" fn vswprintf_s(to: *mut u16, size: usize, text: *const u16, list: *const u64) -> i32 {
    print_safe("vswprintf_s", to, size, LONGEST, text, list)
}
extern "win64" fn vsprintf(to: *mut u8, text: *const u8, list: *const u64) -> i32 {
    print("vsprintf", to, LONGEST, text, list)
}

/// Functions whose fourth argument is the first of a variable number.
macro_rules! variadic {
    ($($name:ident => $target:ident ($unit:ty);)*) => { $(
        /// # Safety
        /// As for any function of its prototype in C.
        #[unsafe(naked)]
        unsafe extern "win64" fn $name(_: *mut $unit, _: usize, _: *const $unit) -> i32 {
            core::arch::naked_asm!("mov [rsp + 32], r9", "lea r9, [rsp + 32]", "jmp {}", sym $target)
        }
    )* };
}
variadic! {
    snprintf => vsnprintf(u8);
    snwprintf => vsnwprintf(u16);
    sprintf_s => vsprintf_s(u8);
    swprintf_s => vswprintf_s(u16);
}

/// # Safety
/// As for any function of its prototype in C.
#[unsafe(naked)]
unsafe extern "win64" fn sprintf(_: *mut u8, _: *const u8) -> i32 {
    core::arch::naked_asm!(
        "mov [rsp + 24], r8",
        "mov [rsp + 32], r9",
        "lea r8, [rsp + 24]",
        "jmp {}",
        sym vsprintf,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_copied_compared_and_found() {
        let mut buffer = [0xff_u8; 8];
        let to = buffer.as_mut_ptr();
        assert_eq!(strcpy(to, c"abc".as_ptr().cast()), to);
        assert_eq!((strlen(to), strnlen(to, 2)), (3, 2));
        strcat(to, c"de".as_ptr().cast());
        assert_eq!(buffer, *b"abcde\0\xff\xff");
        assert_eq!(strchr(to, 'c' as i32).addr() - to.addr(), 2);
        assert_eq!(strrchr(to, 0).addr() - to.addr(), 5);
        assert_eq!(strstr(to, c"de".as_ptr().cast()).addr() - to.addr(), 3);
        assert!(strchr(to, 'x' as i32).is_null());
        assert_eq!(strcmp(to, c"abd".as_ptr().cast()), -1);
        assert_eq!(strncmp(to, c"abd".as_ptr().cast(), 2), 0);
        assert_eq!(stricmp(to, c"ABCDE".as_ptr().cast()), 0);
        assert_eq!(strcpy_s(to, 8, c"12345678".as_ptr().cast()), ERANGE);
        assert_eq!(buffer[0], 0);
        assert_eq!(strncpy_s(to, 4, c"12345678".as_ptr().cast(), TRUNCATE), STRUNCATE);
        assert_eq!(strcat_s(to, 8, c"4567".as_ptr().cast()), 0);
        assert_eq!(buffer, *b"1234567\0");
        strncpy(to, c"z".as_ptr().cast(), 3);
        assert_eq!(buffer, *b"z\0\x004567\0");
        let wide: Vec<u16> = "wide".encode_utf16().chain([0]).collect();
        assert_eq!((wcslen(wide.as_ptr()), wcscmp(wide.as_ptr(), wide.as_ptr())), (4, 0));
    }

    #[test]
    fn formatting_stops_at_the_end_of_the_buffer() {
        let mut buffer = [0xff_u8; 5];
        let (to, list) = (buffer.as_mut_ptr(), [12345_u64]);
        assert_eq!(vsnprintf(to, 4, c"%u".as_ptr().cast(), list.as_ptr()), -1);
        assert_eq!(buffer, *b"1234\xff");
        assert_eq!(vsnprintf(to, 5, c"%u".as_ptr().cast(), list.as_ptr()), 5);
        assert_eq!(buffer, *b"12345");
        assert_eq!(vsprintf_s(to, 5, c"%u".as_ptr().cast(), list.as_ptr()), -1);
        assert_eq!(buffer[0], 0);
        type Variadic = unsafe extern "win64" fn(*mut u8, usize, *const u8, u64, u64) -> i32;
        let print = snprintf as *const ();
        // SAFETY: a function with variable arguments takes these, too.
        let print = unsafe { std::mem::transmute::<*const (), Variadic>(print) };
        // SAFETY: the buffer has five bytes, and the format names numbers.
        assert_eq!(unsafe { print(to, 5, c"%d-%d".as_ptr().cast(), 1, 2) }, 3);
        assert_eq!(buffer, *b"1-2\x005");
    }
}

// UNSAFETY: kernel services with raw arguments.
//! Bitmaps: RTL_BITMAP is a number of bits, and the address of words of 32 bits that have them. [wdm: RTL_BITMAP]
//!
//! As on Windows, the words are the caller's: a bit outside the bitmap is the caller's mistake, which stops the machine here.

use std::ffi::c_void;

use super::memory::{field, get, put};
use crate::bugcheck::Bugcheck;
use crate::driver::Export;
use crate::driver_call::stop;

/// The answer of the functions that find bits if there are none.
const NONE: u32 = u32::MAX;

pub(super) const EXPORTS: &[Export] = &[
    ("RtlInitializeBitMap", || rtl_initialize_bit_map as *const () as usize),
    ("RtlClearAllBits", || rtl_clear_all_bits as *const () as usize),
    ("RtlSetAllBits", || rtl_set_all_bits as *const () as usize),
    ("RtlClearBit", || rtl_clear_bit as *const () as usize),
    ("RtlSetBit", || rtl_set_bit as *const () as usize),
    ("RtlTestBit", || rtl_test_bit as *const () as usize),
    ("RtlClearBits", || rtl_clear_bits as *const () as usize),
    ("RtlSetBits", || rtl_set_bits as *const () as usize),
    ("RtlAreBitsClear", || rtl_are_bits_clear as *const () as usize),
    ("RtlAreBitsSet", || rtl_are_bits_set as *const () as usize),
    ("RtlNumberOfClearBits", || rtl_number_of_clear_bits as *const () as usize),
    ("RtlNumberOfSetBits", || rtl_number_of_set_bits as *const () as usize),
    ("RtlFindClearBits", || rtl_find_clear_bits as *const () as usize),
    ("RtlFindSetBits", || rtl_find_set_bits as *const () as usize),
    ("RtlFindClearBitsAndSet", || rtl_find_clear_bits_and_set as *const () as usize),
    ("RtlFindSetBitsAndClear", || rtl_find_set_bits_and_clear as *const () as usize),
];

/// A bitmap of the driver.
struct Bitmap {
    service: &'static str,
    bits: u32,
    words: *mut u32,
}

impl Bitmap {
    fn new(service: &'static str, header: *mut c_void) -> Self {
        let words: usize = get(service, field(header, 8));
        Self { service, bits: get(service, header.cast()), words: std::ptr::with_exposed_provenance_mut(words) }
    }

    fn word(&self, bit: u32) -> *mut u32 {
        self.words.wrapping_add((bit / 32) as usize)
    }

    fn bit(&self, bit: u32) -> bool {
        get(self.service, self.word(bit).cast_const()) >> (bit % 32) & 1 != 0
    }

    /// Sets or clears bits that are in the bitmap.
    fn change(&self, first: u32, count: u32, set: bool) {
        let end = first.checked_add(count).filter(|end| *end <= self.bits);
        let Some(end) = end else {
            let reason =
                format!("{} of bits {first} to {} of {}", self.service, u64::from(first) + u64::from(count), self.bits);
            stop(Bugcheck::fatal(reason))
        };
        let mut bit = first;
        while bit < end {
            let here = (32 - bit % 32).min(end - bit);
            let mask = (u32::MAX >> (32 - here)) << (bit % 32);
            let old: u32 = get(self.service, self.word(bit).cast_const());
            put(self.service, self.word(bit), if set { old | mask } else { old & !mask });
            bit += here;
        }
    }

    /// True if all bits of a range, which may not be empty, are in the bitmap and have one value.
    fn are(&self, first: u32, count: u32, set: bool) -> bool {
        let end = first.checked_add(count).filter(|end| count != 0 && *end <= self.bits);
        end.is_some_and(|end| (first..end).all(|bit| self.bit(bit) == set))
    }

    fn count(&self, set: bool) -> u32 {
        (0..self.bits).filter(|bit| self.bit(*bit) == set).count() as u32
    }

    /// The first of so many neighbouring bits with one value: the search begins at a hint, and again at 0 if nothing is behind it. For no bits it is the hint
    /// with its lowest three bits clear, or 0 for a hint outside.
    fn find(&self, count: u32, hint: u32, set: bool) -> u32 {
        let hint = if hint < self.bits { hint } else { 0 };
        if count == 0 {
            return hint & !7;
        }
        let from = |first: u32| {
            let mut found = 0;
            (first..self.bits).find_map(|bit| {
                found = if self.bit(bit) == set { found + 1 } else { 0 };
                (found == count).then(|| bit + 1 - count)
            })
        };
        from(hint).or_else(|| from(0)).unwrap_or(NONE)
    }
}

/// The bits keep the values that they had.
extern "win64" fn rtl_initialize_bit_map(header: *mut c_void, words: *mut u32, bits: u32) {
    put("RtlInitializeBitMap", header.cast(), bits);
    put("RtlInitializeBitMap", field(header, 8), words.expose_provenance());
}

extern "win64" fn rtl_clear_all_bits(header: *mut c_void) {
    let bitmap = Bitmap::new("RtlClearAllBits", header);
    bitmap.change(0, bitmap.bits, false);
}

extern "win64" fn rtl_set_all_bits(header: *mut c_void) {
    let bitmap = Bitmap::new("RtlSetAllBits", header);
    bitmap.change(0, bitmap.bits, true);
}

extern "win64" fn rtl_clear_bit(header: *mut c_void, bit: u32) {
    Bitmap::new("RtlClearBit", header).change(bit, 1, false);
}

extern "win64" fn rtl_set_bit(header: *mut c_void, bit: u32) {
    Bitmap::new("RtlSetBit", header).change(bit, 1, true);
}

/// FALSE for a bit outside.
extern "win64" fn rtl_test_bit(header: *mut c_void, bit: u32) -> u8 {
    Bitmap::new("RtlTestBit", header).are(bit, 1, true).into()
}

extern "win64" fn rtl_clear_bits(header: *mut c_void, first: u32, count: u32) {
    Bitmap::new("RtlClearBits", header).change(first, count, false);
}

extern "win64" fn rtl_set_bits(header: *mut c_void, first: u32, count: u32) {
    Bitmap::new("RtlSetBits", header).change(first, count, true);
}

extern "win64" fn rtl_are_bits_clear(header: *mut c_void, first: u32, count: u32) -> u8 {
    Bitmap::new("RtlAreBitsClear", header).are(first, count, false).into()
}

extern "win64" fn rtl_are_bits_set(header: *mut c_void, first: u32, count: u32) -> u8 {
    Bitmap::new("RtlAreBitsSet", header).are(first, count, true).into()
}

extern "win64" fn rtl_number_of_clear_bits(header: *mut c_void) -> u32 {
    Bitmap::new("RtlNumberOfClearBits", header).count(false)
}

extern "win64" fn rtl_number_of_set_bits(header: *mut c_void) -> u32 {
    Bitmap::new("RtlNumberOfSetBits", header).count(true)
}

extern "win64" fn rtl_find_clear_bits(header: *mut c_void, count: u32, hint: u32) -> u32 {
    Bitmap::new("RtlFindClearBits", header).find(count, hint, false)
}

extern "win64" fn rtl_find_set_bits(header: *mut c_void, count: u32, hint: u32) -> u32 {
    Bitmap::new("RtlFindSetBits", header).find(count, hint, true)
}

fn find_and_change(service: &'static str, header: *mut c_void, count: u32, hint: u32, set: bool) -> u32 {
    let bitmap = Bitmap::new(service, header);
    let found = bitmap.find(count, hint, !set);
    if found != NONE {
        bitmap.change(found, count, set);
    }
    found
}

extern "win64" fn rtl_find_clear_bits_and_set(header: *mut c_void, count: u32, hint: u32) -> u32 {
    find_and_change("RtlFindClearBitsAndSet", header, count, hint, true)
}

extern "win64" fn rtl_find_set_bits_and_clear(header: *mut c_void, count: u32, hint: u32) -> u32 {
    find_and_change("RtlFindSetBitsAndClear", header, count, hint, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::driver_call;

    /// Calls a function with a bitmap of so many bits, whose words are all ones, and gives the words.
    fn with(bits: u32, call: impl FnOnce(*mut c_void)) -> Option<[u32; 3]> {
        let driver = Driver::for_tests("bitmaps");
        let (mut header, mut words) = ([0_u64; 2], [u32::MAX; 3]);
        let returned = driver_call::run(&driver, "a function", || {
            let header = header.as_mut_ptr().cast();
            rtl_initialize_bit_map(header, words.as_mut_ptr(), bits);
            call(header);
        });
        returned.0.map(|()| words)
    }

    #[test]
    fn bits_are_set_and_cleared_over_the_ends_of_words_and_not_outside() {
        assert_eq!(with(70, |map| rtl_clear_all_bits(map)), Some([0, 0, !0x3f]));
        assert_eq!(with(70, |map| rtl_clear_bits(map, 30, 36)), Some([0x3fff_ffff, 0, !3]));
        let some = with(70, |map| {
            rtl_clear_all_bits(map);
            rtl_set_bits(map, 31, 2);
            rtl_set_bit(map, 69);
            rtl_clear_bit(map, 31);
            assert_eq!((rtl_number_of_set_bits(map), rtl_number_of_clear_bits(map)), (2, 68));
            assert_eq!([31, 32, 69, 70].map(|bit| rtl_test_bit(map, bit)), [0, 1, 1, 0]);
            assert_eq!((rtl_are_bits_clear(map, 33, 36), rtl_are_bits_clear(map, 33, 37)), (1, 0));
            assert_eq!((rtl_are_bits_set(map, 32, 1), rtl_are_bits_set(map, 32, 0)), (1, 0), "no bits are not set");
            assert_eq!(rtl_are_bits_clear(map, 60, 20), 0, "some are outside");
        });
        assert_eq!(some, Some([0, 1, !0x3f | 1 << 5]));
        assert_eq!(with(70, |map| rtl_set_all_bits(map)), Some([u32::MAX; 3]));
    }

    #[test]
    fn the_first_bits_behind_the_hint_are_found_or_else_the_first_of_all() {
        with(70, |map| {
            rtl_clear_bits(map, 3, 4);
            rtl_clear_bits(map, 40, 30);
            assert_eq!([0, 5, 50].map(|hint| rtl_find_clear_bits(map, 4, hint)), [3, 40, 50]);
            assert_eq!(rtl_find_clear_bits(map, 4, 68), 3, "nothing is behind the hint");
            assert_eq!((rtl_find_clear_bits(map, 31, 0), rtl_find_set_bits(map, 34, 0)), (NONE, NONE));
            assert_eq!((rtl_find_clear_bits(map, 0, 13), rtl_find_set_bits(map, 0, 70)), (8, 0));
            assert_eq!(rtl_find_clear_bits_and_set(map, 4, 0), 3);
            assert_eq!(rtl_are_bits_set(map, 0, 40), 1);
            assert_eq!(rtl_find_set_bits_and_clear(map, 40, 7), 0);
            assert_eq!((rtl_number_of_set_bits(map), rtl_find_set_bits_and_clear(map, 1, 0)), (0, NONE));
        })
        .unwrap();
    }

    #[test]
    fn a_bit_outside_stops_the_machine() {
        assert_eq!(with(70, |map| rtl_set_bits(map, 69, 2)), None);
        assert_eq!(with(70, |map| rtl_clear_bits(map, u32::MAX, 2)), None);
    }
}

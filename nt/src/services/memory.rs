// UNSAFETY: reads and writes memory that drivers name by address.
//! Memory of drivers as services read and write it: a bad address stops the machine.

use std::ffi::c_void;

use wddm_ddi::types::{LARGE_INTEGER, UNICODE_STRING};

use super::call::good;
use crate::fault::{Fault, guarded};

/// Values that any bytes are.
///
/// # Safety
/// Every pattern of bytes is a value of the type.
pub(super) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),*) => { $(
        // SAFETY: numbers and addresses, which any bytes are.
        unsafe impl Plain for $type {}
    )* };
}
plain!(u8, i8, u16, i16, u32, i32, u64, i64, usize, isize, LARGE_INTEGER, UNICODE_STRING);
// SAFETY: an address, which any bytes are.
unsafe impl<T> Plain for *mut T {}
// SAFETY: as above.
unsafe impl<T> Plain for *const T {}
// SAFETY: any bytes are so many values that any bytes are.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Reads a value at an address that the driver passed to `service`.
pub(super) fn get<T: Plain>(service: &'static str, from: *const T) -> T {
    // SAFETY: any bytes are such a value.
    good(service, unsafe { guarded::read(from) })
}

/// Writes to a place that the driver passed to `service`.
pub(super) fn put<T: Plain>(service: &'static str, to: *mut T, value: T) {
    // SAFETY: the place is the driver's, for what the service answers.
    good(service, unsafe { guarded::write(to, value) });
}

/// As [`put`], if the driver passed a place.
pub(super) fn put_if<T: Plain>(service: &'static str, to: *mut T, value: T) {
    if !to.is_null() {
        put(service, to, value);
    }
}

/// A field of a structure at an address.
pub(super) fn field<T>(structure: *mut c_void, offset: usize) -> *mut T {
    structure.wrapping_byte_add(offset).cast()
}

/// Bytes of the driver.
pub(super) fn bytes(service: &'static str, from: *const u8, length: usize) -> Vec<u8> {
    let mut found = vec![0; length];
    good(service, guarded::read_bytes(from, &mut found));
    found
}

/// Units of a text up to its end, which is not part of them, or up to so many.
pub(super) fn units<T: Plain + Default + PartialEq>(service: &'static str, text: *const T, limit: usize) -> Vec<T> {
    let mut found = Vec::new();
    while found.len() < limit {
        let unit = get(service, text.wrapping_add(found.len()));
        if unit == T::default() {
            break;
        }
        found.push(unit);
    }
    found
}

/// Writes units one behind the other.
pub(super) fn put_units<T: Plain>(service: &'static str, to: *mut T, units: &[T]) {
    for (index, unit) in units.iter().enumerate() {
        put(service, to.wrapping_add(index), *unit);
    }
}

/// As [`get`], for callers that still have something to put away.
pub(super) fn try_get<T: Plain>(from: *const T) -> Result<T, Fault> {
    // SAFETY: any bytes are such a value.
    unsafe { guarded::read(from) }
}

/// As [`put`], for callers that still have something to put away.
pub(super) fn try_put<T: Plain>(to: *mut T, value: T) -> Result<(), Fault> {
    // SAFETY: the place is the driver's, for what the service answers.
    unsafe { guarded::write(to, value) }
}

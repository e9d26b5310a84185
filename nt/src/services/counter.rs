// UNSAFETY: a kernel service with raw arguments.
//! The performance counter.

use wddm_ddi::types::LARGE_INTEGER;

use super::call::good;
use crate::fault::guarded;

/// KeQueryPerformanceCounter ticks a second, as on current Windows.
const FREQUENCY: i64 = 10_000_000;

pub(super) unsafe extern "win64" fn ke_query_performance_counter(frequency: *mut LARGE_INTEGER) -> LARGE_INTEGER {
    if !frequency.is_null() {
        // SAFETY: the driver passes NULL or a place for the frequency.
        let written = unsafe { guarded::write(frequency, LARGE_INTEGER { QuadPart: FREQUENCY }) };
        good("KeQueryPerformanceCounter", written);
    }
    LARGE_INTEGER { QuadPart: performance_counter() }
}

/// The performance counter: ticks of 100 ns since some fixed moment.
pub fn performance_counter() -> i64 {
    (nanoseconds() / (1_000_000_000 / FREQUENCY as u64)) as i64
}

/// Nanoseconds since that moment.
pub fn nanoseconds() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux and the place is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

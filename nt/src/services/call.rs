// UNSAFETY: reads arguments of services behind pointers of drivers.
//! What every service does with a call: who calls, at which level, from where, and the arguments behind pointers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use wddm_ddi::nt::{APC_LEVEL, PASSIVE_LEVEL};
use wddm_ddi::types::{KIRQL, UNICODE_STRING};

use crate::bugcheck::Bugcheck;
use crate::driver::Driver;
use crate::driver_call::{self, stop};
use crate::fault::{Fault, guarded};
use crate::irql;
use crate::unwind::{self, CallSite, Frames};

/// The time that a waiter sleeps before it looks whether the machine has stopped.
pub(super) const STOP_CHECK: Duration = Duration::from_millis(50);

/// Stops the machine if the driver's pointer was bad.
pub fn good<T>(service: &'static str, result: Result<T, Fault>) -> T {
    match result {
        Ok(value) => value,
        Err(fault) => driver_call::stop_for_pointer(service, fault),
    }
}

/// Stops the machine unless the caller is at PASSIVE_LEVEL.
pub(super) fn require_passive(service: &'static str) {
    let level = irql::current();
    if level != PASSIVE_LEVEL {
        let reason = format!("{service} at IRQL {level}, PASSIVE_LEVEL is required");
        stop(Bugcheck::new(Bugcheck::IRQL_NOT_LESS_OR_EQUAL, [0, u64::from(level), 0, 0], reason));
    }
}

/// The driver that calls, which is at PASSIVE_LEVEL. Stops the machine if it is not.
pub(super) fn passive_caller(service: &'static str) -> Arc<Driver> {
    require_passive(service);
    caller(service)
}

pub(super) fn caller(service: &'static str) -> Arc<Driver> {
    match driver_call::current() {
        Some(driver) => driver,
        None => stop(Bugcheck::fatal(format!("{service} outside a driver call"))),
    }
}

/// The text of a counted string; `None` if it has none.
pub(super) fn text_of(service: &'static str, string: *const UNICODE_STRING) -> Option<String> {
    // SAFETY: numbers and an address, which any bytes are.
    let string = good(service, unsafe { guarded::read(string) });
    if string.Buffer.is_null() {
        return None;
    }
    let mut bytes = vec![0; usize::from(string.Length & !1)];
    good(service, guarded::read_bytes(string.Buffer.cast(), &mut bytes));
    let units: Vec<u16> = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    Some(String::from_utf16_lossy(&units))
}

/// Ends the call if the machine has stopped meanwhile, or if the call is late: what the caller waits for may never come.
pub(super) fn check_stopped() {
    driver_call::check_late();
    let stopped = match driver_call::current() {
        Some(driver) => driver.verifier().is_stopped(),
        None => false,
    };
    if stopped {
        driver_call::abandon("the machine has stopped");
    }
}

/// The frames of the driver that called a service at `site`, or on whose behalf another service did.
pub(super) fn frames(driver: &Driver, site: *const CallSite) -> Frames {
    // SAFETY: the place where the call came from, for the length of the call.
    let site = unsafe { site.as_ref() }.filter(|site| driver.is_own(site.call().0));
    match (driver.image(), site) {
        (Some(loaded), Some(site)) => driver_call::on_host_stack(|| unwind::frames(&loaded.image, site)),
        _ => [driver_call::calling_instruction(), 0, 0],
    }
}

/// A number above zero that no two threads share.
pub(super) fn thread_token() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    thread_local! {
        static TOKEN: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    TOKEN.with(|token| *token)
}

/// The word of a lock, shared with other threads for the length of the call. Stops the machine if there is none.
pub(super) fn word<'a>(service: &'static str, lock: *mut usize) -> &'a AtomicUsize {
    if lock.is_null() || !lock.is_aligned() {
        stop(Bugcheck::fatal(format!("{service} with a lock at {lock:p}")));
    }
    good(service, guarded::probe_word(lock));
    // SAFETY: the driver passes a pointer-sized lock word that only these services access.
    unsafe { AtomicUsize::from_ptr(lock) }
}

/// As [`word`], of a lock of 32 bits.
pub(super) fn half_word<'a>(service: &'static str, lock: *mut u32) -> &'a AtomicU32 {
    if lock.is_null() || !lock.is_aligned() {
        stop(Bugcheck::fatal(format!("{service} with a lock at {lock:p}")));
    }
    // The aligned 64 bits around it lie in the same page, and keep their value.
    good(service, guarded::probe_word(lock.map_addr(|address| address & !7).cast()));
    // SAFETY: the driver passes a lock of 32 bits that only these services access.
    unsafe { AtomicU32::from_ptr(lock) }
}

pub(super) fn irql_too_high(service: &str, address: u64) -> Bugcheck {
    irql_above(service, address, APC_LEVEL)
}

pub(super) fn irql_above(service: &str, address: u64, most: KIRQL) -> Bugcheck {
    let level = irql::current();
    let allowed = match most {
        PASSIVE_LEVEL => "PASSIVE_LEVEL is required",
        APC_LEVEL => "at most APC_LEVEL is allowed",
        _ => "at most DISPATCH_LEVEL is allowed",
    };
    let reason = format!("{service} at IRQL {level}, {allowed}");
    Bugcheck::new(Bugcheck::IRQL_NOT_LESS_OR_EQUAL, [address, u64::from(level), 1, 0], reason)
}

/// Stops the machine if the caller is above a level.
pub(super) fn require_at_most(service: &'static str, most: KIRQL) {
    if irql::current() > most {
        stop(irql_above(service, 0, most));
    }
}

// UNSAFETY: calls filters and termination handlers of driver images.
//! Exceptions that drivers raise and handle. [learn: structured exception handling; wdm: ExRaiseStatus, ProbeForRead]

use std::ffi::c_void;

use wddm_ddi::nt::{APC_LEVEL, EXCEPTION_RECORD};

use super::call::irql_too_high;
use super::memory::get;
use crate::bugcheck::Bugcheck;
use crate::driver::Export;
use crate::driver_call::{raise, stop, unwind_to};
use crate::exception::HIGHEST_USER_ADDRESS;
use crate::fault::guarded;
use crate::irql;
use crate::page::PAGE;
use crate::seh::{CONTINUE_EXECUTION, CONTINUE_SEARCH, Dispatcher, Place, TARGET_UNWIND, UNWINDING};
use crate::unwind::{CallSite, Context, with_call_site};

pub(super) const EXPORTS: &[Export] = &[
    ("__C_specific_handler", || c_specific_handler as *const () as usize),
    ("ExRaiseAccessViolation", || ex_raise_access_violation as *const () as usize),
    ("ExRaiseDatatypeMisalignment", || ex_raise_datatype_misalignment as *const () as usize),
    ("ExRaiseStatus", || ex_raise_status as *const () as usize),
    ("ProbeForRead", || probe_for_read as *const () as usize),
    ("ProbeForWrite", || probe_for_write as *const () as usize),
];

pub(super) const STATUS_ACCESS_VIOLATION: u32 = 0xc000_0005;
const STATUS_DATATYPE_MISALIGNMENT: u32 = 0x8000_0002;

/// Raises what a service was asked to raise, or found.
pub(super) fn raise_status(service: &'static str, site: *const CallSite, status: u32, arguments: &[usize]) -> ! {
    raise(site, status, arguments, || {
        let parameters = [status.into(), 0, 0, 0];
        let reason = format!("{service} raised exception {status:#010x}, which no handler of the driver took");
        Bugcheck::new(Bugcheck::KMODE_EXCEPTION_NOT_HANDLED, parameters, reason)
    })
}

with_call_site!(fn ex_raise_status => raise_this);
extern "win64" fn raise_this(status: u32, _: usize, _: usize, site: *const CallSite) {
    raise_status("ExRaiseStatus", site, status, &[]);
}

with_call_site!(fn ex_raise_access_violation => raise_access_violation);
extern "win64" fn raise_access_violation(_: usize, _: usize, _: usize, site: *const CallSite) {
    raise_status("ExRaiseAccessViolation", site, STATUS_ACCESS_VIOLATION, &[]);
}

with_call_site!(fn ex_raise_datatype_misalignment => raise_datatype_misalignment);
extern "win64" fn raise_datatype_misalignment(_: usize, _: usize, _: usize, site: *const CallSite) {
    raise_status("ExRaiseDatatypeMisalignment", site, STATUS_DATATYPE_MISALIGNMENT, &[]);
}

/// True if the range has anything in it. Raises an exception if it is misaligned, or not wholly in the address space of user mode.
fn probe(service: &'static str, (address, length, alignment): (usize, usize, u32), site: *const CallSite) -> bool {
    if irql::current() > APC_LEVEL {
        stop(irql_too_high(service, address as u64));
    }
    if length == 0 {
        return false;
    }
    if !alignment.is_power_of_two() || alignment > 16 {
        stop(Bugcheck::fatal(format!("{service} for an alignment of {alignment}, which is not 1, 2, 4, 8 or 16")));
    }
    if address % alignment as usize != 0 {
        raise_status(service, site, STATUS_DATATYPE_MISALIGNMENT, &[]);
    }
    if address.checked_add(length - 1).is_none_or(|last| last > HIGHEST_USER_ADDRESS) {
        raise_status(service, site, STATUS_ACCESS_VIOLATION, &[0, address]);
    }
    true
}

with_call_site!(
    /// Checks addresses only: what is not there is an exception when it is read.
    fn probe_for_read => check_for_read
);
extern "win64" fn check_for_read(address: usize, length: usize, alignment: u32, site: *const CallSite) {
    probe("ProbeForRead", (address, length, alignment), site);
}

with_call_site!(
    /// Writes a byte of each page as it is.
    fn probe_for_write => check_for_write
);
extern "win64" fn check_for_write(address: usize, length: usize, alignment: u32, site: *const CallSite) {
    const NAME: &str = "ProbeForWrite";
    if !probe(NAME, (address, length, alignment), site) {
        return;
    }
    let last = address + (length - 1);
    let mut place = address;
    loop {
        let word = std::ptr::with_exposed_provenance_mut(place & !7);
        if guarded::probe_word(word).is_err() {
            raise_status(NAME, site, STATUS_ACCESS_VIOLATION, &[1, place]);
        }
        match (place / PAGE * PAGE).checked_add(PAGE) {
            Some(next) if next <= last => place = next,
            _ => return,
        }
    }
}

/// What a filter is asked about. [winnt: EXCEPTION_POINTERS]
#[repr(C)]
struct ExceptionPointers {
    record: *mut EXCEPTION_RECORD,
    context: *mut Context,
}

/// A part of a function with a handler, by offsets in the image. [winnt: SCOPE_TABLE_AMD64]
#[derive(Clone, Copy)]
struct Scope {
    begin: u64,
    end: u64,
    /// The filter, 1 for one that takes everything, or the termination handler.
    handler: u64,
    /// Where execution goes on; 0 for a termination handler.
    target: u64,
}

const NAME: &str = "__C_specific_handler";

/// What the compiler tells of the scopes of a function, from one on.
fn scopes(told: Dispatcher) -> impl Iterator<Item = (u32, Scope)> {
    let table = std::ptr::with_exposed_provenance::<u32>(told.data as usize);
    let count: u32 = get(NAME, table);
    let control = told.control.wrapping_sub(told.image);
    let scope = move |index: u32| {
        let words: [u32; 4] = get(NAME, table.wrapping_add(1 + 4 * index as usize).cast());
        let [begin, end, handler, target] = words.map(u64::from);
        (index, Scope { begin, end, handler, target })
    };
    (told.scope..count).map(scope).filter(move |(_, scope)| (scope.begin..scope.end).contains(&control))
}

/// The handler of functions with `__try`: asks their filters, and runs their termination handlers.
unsafe extern "win64" fn c_specific_handler(
    record: *mut EXCEPTION_RECORD,
    frame: u64,
    context: *mut Context,
    dispatcher: *mut Dispatcher,
) -> i32 {
    // SAFETY: the kernel calls it with the record, or a handler of the image that it has called so.
    let flags = unsafe { &*record }.ExceptionFlags;
    // SAFETY: as above.
    let told = unsafe { *dispatcher };
    if flags & UNWINDING == 0 {
        return search(told, frame, record, context);
    }
    for (index, scope) in scopes(told) {
        let target = told.target.wrapping_sub(told.image);
        if scope.target == 0 {
            // One that raises an exception itself is not run again.
            // SAFETY: as above.
            unsafe { (*dispatcher).scope = index + 1 };
            let address = std::ptr::with_exposed_provenance::<c_void>((told.image + scope.handler) as usize);
            // SAFETY: the compiler's table says that a termination handler is there; what is none faults.
            let terminate = unsafe { std::mem::transmute::<*const c_void, extern "win64" fn(u8, u64)>(address) };
            terminate(1, frame);
        } else if flags & TARGET_UNWIND != 0 && scope.target == target {
            break;
        }
    }
    CONTINUE_SEARCH
}

fn search(told: Dispatcher, frame: u64, record: *mut EXCEPTION_RECORD, context: *mut Context) -> i32 {
    for (_, scope) in scopes(told).filter(|(_, scope)| scope.target != 0) {
        let verdict = if scope.handler == 1 {
            1
        } else {
            let address = std::ptr::with_exposed_provenance::<c_void>((told.image + scope.handler) as usize);
            type Filter = extern "win64" fn(*mut ExceptionPointers, u64) -> i32;
            // SAFETY: the compiler's table says that a filter is there; what is none faults.
            let filter = unsafe { std::mem::transmute::<*const c_void, Filter>(address) };
            filter(&mut ExceptionPointers { record, context }, frame)
        };
        if verdict < 0 {
            return CONTINUE_EXECUTION;
        }
        if verdict > 0 {
            // SAFETY: the record is there.
            let result = unsafe { &*record }.ExceptionCode.into();
            let place = Place { frame, instruction: told.image + scope.target, result };
            // SAFETY: they are those of the exception that is being delivered.
            unsafe { unwind_to(place, record, context) }
        }
    }
    CONTINUE_SEARCH
}

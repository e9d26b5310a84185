// UNSAFETY: calls routines of drivers by the addresses that they gave.
//! KeBugCheckEx, and routines of drivers that are called when the machine stops: "executed whenever the system issues a bug check", at HIGH_LEVEL.
//! [wdm: KBUGCHECK_CALLBACK_ROUTINE]
//!
//! The thread that stops the machine calls them, wherever it is; other threads go on until they call the kernel. What a routine asks of the kernel meanwhile is answered as far as
//! a stopped machine answers.

use std::ffi::c_void;
use std::sync::{Arc, Weak};

use super::call::caller;
use super::memory::{field, get, put, try_put};
use super::threads::pointer;
use crate::bugcheck::Bugcheck;
use crate::driver::{BugCheckCallback, Driver, Export};
use crate::driver_call::{self, on_host_stack, stop};
use crate::irql::{HIGH_LEVEL, Raised};

pub(super) const EXPORTS: &[Export] = &[
    ("KeRegisterBugCheckCallback", || ke_register_bug_check_callback as *const () as usize),
    ("KeDeregisterBugCheckCallback", || ke_deregister_bug_check_callback as *const () as usize),
];

pub(super) unsafe extern "win64" fn ke_bug_check_ex(code: u32, p1: usize, p2: usize, p3: usize, p4: usize) -> ! {
    let name = driver_call::current().map_or_else(String::new, |driver| driver.name().to_owned());
    let parameters = [p1 as u64, p2 as u64, p3 as u64, p4 as u64];
    stop(Bugcheck::new(code, parameters, format!("KeBugCheckEx called by driver {name}")))
}

/// Offsets of KBUGCHECK_CALLBACK_RECORD, and values of its State. [wdm: KBUGCHECK_CALLBACK_RECORD, KBUGCHECK_BUFFER_DUMP_STATE]
const ROUTINE: usize = 16;
const LENGTH: usize = 32;
const COMPONENT: usize = 40;
const STATE: usize = 56;
const EMPTY: u8 = 0;
const INSERTED: u8 = 1;
const STARTED: u8 = 2;
const FINISHED: u8 = 3;

type Routine = unsafe extern "win64" fn(*mut c_void, u32);

/// FALSE for a record that KeInitializeCallbackRecord has not initialised, or that is registered. At any level. [wdm: KeRegisterBugCheckCallback]
extern "win64" fn ke_register_bug_check_callback(
    record: *mut c_void,
    routine: usize,
    buffer: *mut c_void,
    length: u32,
    component: *mut c_void,
) -> u8 {
    const NAME: &str = "KeRegisterBugCheckCallback";
    let driver = caller(NAME);
    if get::<u8>(NAME, field(record, STATE)) != EMPTY {
        return 0;
    }
    put(NAME, field(record, ROUTINE), [routine, buffer.expose_provenance()]);
    put(NAME, field(record, LENGTH), length);
    put(NAME, field(record, COMPONENT), component);
    put(NAME, field(record, STATE), INSERTED);
    let record = record.expose_provenance();
    let callback = BugCheckCallback { record, routine, buffer: buffer.addr(), length };
    on_host_stack(|| {
        let (stopped, listening) = (Arc::downgrade(&driver), driver.add_bug_check_callback(callback));
        if !listening {
            driver.listen_for_bug_checks(Arc::new(move || call_all(&stopped)));
        }
    });
    1
}

/// FALSE for a record that is not registered. At any level. [wdm: KeDeregisterBugCheckCallback]
extern "win64" fn ke_deregister_bug_check_callback(record: *mut c_void) -> u8 {
    const NAME: &str = "KeDeregisterBugCheckCallback";
    let driver = caller(NAME);
    let removed = on_host_stack(|| driver.remove_bug_check_callback(record.addr()));
    if removed {
        put(NAME, field(record, STATE), EMPTY);
    }
    removed.into()
}

/// The machine has stopped.
fn call_all(driver: &Weak<Driver>) {
    let Some(driver) = driver.upgrade() else { return };
    let _raised = Raised::to(HIGH_LEVEL);
    for callback in driver.bug_check_callbacks() {
        let BugCheckCallback { record, routine, buffer, length } = callback;
        let record = pointer(record);
        // A record that is not there any more is not written.
        let _ = try_put(field(record, STATE), STARTED);
        // SAFETY: the driver gave the address as that of such a function.
        let routine = unsafe { std::mem::transmute::<usize, Routine>(routine) };
        // SAFETY: the driver gave function and arguments for each other.
        let call = || unsafe { routine(pointer(buffer), length) };
        let (returned, _) = driver_call::run(&driver, "a bug check callback", call);
        if returned.is_some() {
            let _ = try_put(field(record, STATE), FINISHED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bugcheck::Bugcheck;
    use crate::irql;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[repr(C, align(8))]
    struct Record([u8; 64]);

    fn record() -> *mut c_void {
        Box::into_raw(Box::new(Record([0; 64]))).cast()
    }

    fn counter() -> &'static AtomicUsize {
        Box::leak(Box::new(AtomicUsize::new(0)))
    }

    unsafe extern "win64" fn count(counter: *mut c_void, length: u32) {
        // SAFETY: the tests pass a counter that lives.
        let counter = unsafe { &*counter.cast::<AtomicUsize>() };
        counter.fetch_add(length as usize + 1000 * usize::from(irql::current()), Ordering::SeqCst);
    }

    fn register(record: *mut c_void, counter: &AtomicUsize, length: u32) -> u8 {
        let buffer = (&raw const *counter).cast_mut().cast();
        ke_register_bug_check_callback(record, count as *const () as usize, buffer, length, std::ptr::null_mut())
    }

    fn run<R>(driver: &Arc<Driver>, call: impl FnOnce() -> R) -> Option<R> {
        driver_call::run(driver, "a function", call).0
    }

    #[test]
    fn callbacks_are_called_once_at_high_level_when_the_machine_stops() {
        let driver = Driver::for_tests("callbacks");
        let (first, second, removed) = (counter(), counter(), counter());
        let records = [record(), record(), record()];
        run(&driver, || {
            assert_eq!([register(records[0], first, 1), register(records[1], second, 2)], [1, 1]);
            assert_eq!(register(records[0], first, 1), 0, "it is registered");
            assert_eq!(register(records[2], removed, 3), 1);
            assert_eq!([(); 2].map(|()| ke_deregister_bug_check_callback(records[2])), [1, 0]);
        })
        .unwrap();
        let read = || [first, second, removed].map(|counter| counter.load(Ordering::SeqCst));
        assert_eq!(read(), [0; 3], "the machine runs");
        driver.verifier().raise(Bugcheck::fatal("the first reason"));
        assert_eq!((read(), irql::current()), ([15_001, 15_002, 0], 0));
        driver.verifier().raise(Bugcheck::fatal("another reason"));
        assert_eq!(read(), [15_001, 15_002, 0], "once");
        assert_eq!(get::<u8>("a test", field(records[0], STATE)), FINISHED);
    }

    #[test]
    fn the_thread_that_breaks_a_rule_calls_them_too_and_one_that_breaks_a_rule_itself_keeps_the_first_reason() {
        unsafe extern "win64" fn breaks(_: *mut c_void, _: u32) {
            super::super::call::require_passive("ZwClose");
        }
        let driver = Driver::for_tests("breaks");
        let counter = counter();
        let stopped = run(&driver, || {
            let breaking = breaks as *const () as usize;
            let buffer = std::ptr::null_mut();
            assert_eq!(ke_register_bug_check_callback(record(), breaking, buffer, 0, buffer), 1);
            assert_eq!(register(record(), counter, 4), 1);
            stop(Bugcheck::fatal("the first reason"));
        });
        assert_eq!((stopped, counter.load(Ordering::SeqCst)), (None, 15_004));
        assert!(driver.verifier().bugcheck().unwrap().reason.contains("the first reason"));
    }

    #[test]
    fn a_driver_that_leaves_a_callback_registered_is_found_when_it_is_unloaded() {
        let driver = Driver::for_tests("leaves");
        run(&driver, || register(record(), counter(), 0)).unwrap();
        driver.check_unloaded();
        let bugcheck = driver.verifier().bugcheck().unwrap();
        let routine = count as *const () as u64;
        assert_eq!((bugcheck.code, bugcheck.parameters[1..].to_vec()), (0xce, vec![0, routine, 0]), "{bugcheck}");
        assert!(bugcheck.reason.contains("1 bug check callback(s) registered"), "{bugcheck}");
    }
}

//! Run-down protection of shared objects: EX_RUNDOWN_REF is a word, whose lowest bit says that the run down has begun, and whose other bits count the instances of
//! protection. [kernel: run-down protection]

use std::sync::atomic::{AtomicUsize, Ordering};

use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL};

use super::call::{check_stopped, require_at_most, word};
use super::push_lock::{low_half, wait_on, wake};
use crate::bugcheck::Bugcheck;
use crate::driver::Export;
use crate::driver_call::{in_service, stop};

pub(super) const EXPORTS: &[Export] = &[
    ("ExInitializeRundownProtection", || ex_initialize as *const () as usize),
    ("ExReInitializeRundownProtection", || ex_reinitialize as *const () as usize),
    ("ExAcquireRundownProtection", || ex_acquire as *const () as usize),
    ("ExAcquireRundownProtectionEx", || ex_acquire_ex as *const () as usize),
    ("ExReleaseRundownProtection", || ex_release as *const () as usize),
    ("ExReleaseRundownProtectionEx", || ex_release_ex as *const () as usize),
    ("ExWaitForRundownProtectionRelease", || ex_wait as *const () as usize),
    ("ExRundownCompleted", || ex_completed as *const () as usize),
];

/// The run down has begun.
const RUN_DOWN: usize = 1;
/// One instance of protection.
const ONE: usize = 2;

extern "win64" fn ex_initialize(reference: *mut usize) {
    const NAME: &str = "ExInitializeRundownProtection";
    require_at_most(NAME, APC_LEVEL);
    word(NAME, reference).store(0, Ordering::Release);
}

/// The count of protection of an object is none that it can have. [debugger: 0x18]
fn illegal_count(reference: *mut usize, reason: String) -> Bugcheck {
    Bugcheck::new(Bugcheck::REFERENCE_BY_POINTER, [0, reference.addr() as u64, 0, 0], reason)
}

/// Stops the machine unless the object was run down: "On entry, the status information in the EX_RUNDOWN_REF structure must indicate that the old object was run
/// down." [wdm: ExReInitializeRundownProtection, ExRundownCompleted]
fn after_run_down<'a>(service: &'static str, reference: *mut usize) -> &'a AtomicUsize {
    require_at_most(service, APC_LEVEL);
    let state = word(service, reference);
    let found = state.load(Ordering::Acquire);
    if found != RUN_DOWN {
        let (count, begun) = (found / ONE, found & RUN_DOWN != 0);
        let told = if begun { "whose run down waits for" } else { "which was not run down, with" };
        let reason = format!("{service} of {reference:p}, {told} {count} instance(s) of protection");
        stop(illegal_count(reference, reason));
    }
    state
}

extern "win64" fn ex_reinitialize(reference: *mut usize) {
    after_run_down("ExReInitializeRundownProtection", reference).store(0, Ordering::Release);
}

/// Whoever waits for the release has left the status as it is here already.
extern "win64" fn ex_completed(reference: *mut usize) {
    after_run_down("ExRundownCompleted", reference);
}

/// FALSE once the run down has begun. [wdm: ExAcquireRundownProtection]
fn acquire(service: &'static str, reference: *mut usize, count: usize) -> u8 {
    require_at_most(service, DISPATCH_LEVEL);
    let state = word(service, reference);
    let more = |found: usize| if found & RUN_DOWN != 0 { None } else { found.checked_add(count.checked_mul(ONE)?) };
    state.fetch_update(Ordering::Acquire, Ordering::Acquire, more).is_ok().into()
}

extern "win64" fn ex_acquire(reference: *mut usize) -> u8 {
    acquire("ExAcquireRundownProtection", reference, 1)
}

extern "win64" fn ex_acquire_ex(reference: *mut usize, count: u32) -> u8 {
    acquire("ExAcquireRundownProtectionEx", reference, count as usize)
}

fn release(service: &'static str, reference: *mut usize, count: usize) {
    require_at_most(service, DISPATCH_LEVEL);
    let state = word(service, reference);
    let less = |found: usize| {
        let left = (found & !RUN_DOWN).checked_sub(count.checked_mul(ONE)?)?;
        Some(left | found & RUN_DOWN)
    };
    match state.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
        Ok(_) => wake(low_half(state), i32::MAX),
        Err(found) => {
            let held = found / ONE;
            let reason = format!("{service} of {count} instance(s) of {reference:p}, which has {held}");
            stop(illegal_count(reference, reason));
        }
    }
}

extern "win64" fn ex_release(reference: *mut usize) {
    release("ExReleaseRundownProtection", reference, 1);
}

extern "win64" fn ex_release_ex(reference: *mut usize, count: u32) {
    release("ExReleaseRundownProtectionEx", reference, count as usize);
}

/// Returns when every instance is released; from now on none is granted. For an object that was run down already "the call has no effect, but is not treated as an
/// error". [wdm: ExWaitForRundownProtectionRelease]
extern "win64" fn ex_wait(reference: *mut usize) {
    const NAME: &str = "ExWaitForRundownProtectionRelease";
    require_at_most(NAME, APC_LEVEL);
    let state = word(NAME, reference);
    let _waits = in_service(NAME);
    let mut found = state.fetch_or(RUN_DOWN, Ordering::AcqRel) | RUN_DOWN;
    while found != RUN_DOWN {
        wait_on(low_half(state), found as u32);
        check_stopped();
        found = state.load(Ordering::Acquire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::driver_call;
    use crate::irql;
    use std::sync::Arc;

    fn run<R>(driver: &Arc<Driver>, call: impl FnOnce() -> R) -> Option<R> {
        driver_call::run(driver, "a function", call).0
    }

    #[test]
    fn protection_is_granted_until_the_run_down_begins_and_again_after_it_was_initialized_anew() {
        let driver = Driver::for_tests("run down");
        let mut word = 0xcccc_usize;
        let at = &raw mut word;
        run(&driver, || {
            ex_initialize(at);
            assert_eq!([ex_acquire(at), ex_acquire_ex(at, 2)], [1, 1]);
            ex_release_ex(at, 3);
            ex_wait(at);
            assert_eq!([ex_acquire(at), ex_acquire_ex(at, 1)], [0, 0], "the object was run down");
            ex_wait(at);
            ex_completed(at);
            ex_wait(at);
            assert_eq!(ex_acquire(at), 0, "also when that was completed");
            ex_reinitialize(at);
            assert_eq!(ex_acquire(at), 1, "of the new object");
            ex_release(at);
        })
        .unwrap();
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    #[test]
    fn a_run_down_waits_for_the_protection_that_was_granted_before_it() {
        let driver = Driver::for_tests("waits");
        let word = AtomicUsize::new(0);
        run(&driver, || assert_eq!([ex_acquire(word.as_ptr()), ex_acquire(word.as_ptr())], [1, 1])).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| run(&driver, || ex_wait(word.as_ptr())));
            while word.load(Ordering::Acquire) & RUN_DOWN == 0 {
                std::thread::yield_now();
            }
            run(&driver, || {
                assert_eq!(ex_acquire(word.as_ptr()), 0, "the run down has begun");
                ex_release(word.as_ptr());
                assert!(!waiter.is_finished(), "one instance is left");
                ex_release(word.as_ptr());
            })
            .unwrap();
            assert_eq!(waiter.join().unwrap(), Some(()));
        });
    }

    #[test]
    fn misuses_of_run_down_protection_stop_the_machine() {
        type Misuse = fn(*mut usize);
        let misuses: [(Misuse, &str); 6] = [
            (|at| ex_release(at), "ExReleaseRundownProtection of 1 instance(s)"),
            (|at| ex_reinitialize(at), "which was not run down"),
            (|at| ex_completed(at), "ExRundownCompleted"),
            (
                |at| {
                    irql::set(APC_LEVEL + 1);
                    ex_wait(at);
                },
                "ExWaitForRundownProtectionRelease at IRQL 2, at most APC_LEVEL",
            ),
            (
                |at| {
                    irql::set(DISPATCH_LEVEL + 1);
                    ex_acquire(at);
                },
                "ExAcquireRundownProtection at IRQL 3, at most DISPATCH_LEVEL",
            ),
            (|_| ex_initialize(std::ptr::null_mut()), "ExInitializeRundownProtection with a"),
        ];
        for (number, (misuse, told)) in misuses.into_iter().enumerate() {
            let driver = Driver::for_tests("misuse");
            let mut word = 0;
            assert_eq!(run(&driver, || misuse(&raw mut word)), None);
            let bugcheck = driver.verifier().bugcheck().unwrap();
            assert!(bugcheck.reason.contains(told), "{bugcheck}");
            if [0, 1, 2].contains(&number) {
                let place = (&raw const word).addr() as u64;
                assert_eq!((bugcheck.code, bugcheck.parameters), (0x18, [0, place, 0, 0]), "{bugcheck}");
            }
        }
    }
}

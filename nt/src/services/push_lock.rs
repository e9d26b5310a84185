// UNSAFETY: kernel services with raw arguments.
//! Push locks, and waiting on a word of the driver's memory.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use wddm_ddi::nt::APC_LEVEL;

use super::call::{STOP_CHECK, check_stopped, irql_too_high, word};
use crate::bugcheck::Bugcheck;
use crate::driver_call::{self, stop};
use crate::irql;

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED_FOR: u32 = 2;

/// State of a push lock: the low half of its word.
fn push_lock_state<'a>(service: &'static str, lock: *mut usize) -> &'a AtomicU32 {
    low_half(word(service, lock))
}

/// Parameter 1 of DRIVER_VERIFIER_DETECTED_VIOLATION: "A driver has attempted to acquire a pushlock while APCs are enabled". [debugger: 0xc4]
const ACQUIRED_WITH_APCS: u64 = 0xea;

/// The half of a word that threads wait on.
pub(super) fn low_half(word: &AtomicUsize) -> &AtomicU32 {
    // SAFETY: the half lies in the word, is aligned, and is accessed as an atomic here as there.
    unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
}

pub(super) unsafe extern "win64" fn ex_acquire_push_lock_exclusive_ex(lock: *mut usize, _flags: u32) {
    let at = lock.addr() as u64;
    if irql::current() > APC_LEVEL {
        stop(irql_too_high("ExAcquirePushLockExclusiveEx", at));
    }
    if irql::current() < APC_LEVEL && !driver_call::in_critical_region() {
        let reason = "push lock acquired while normal kernel APCs are enabled (KeEnterCriticalRegion first)";
        let parameters = [ACQUIRED_WITH_APCS, u64::from(irql::current()), 0, at];
        stop(Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason));
    }
    if driver_call::holds_push_lock(lock.addr()) {
        stop(Bugcheck::fatal_of(lock.addr(), format!("push lock {lock:p} acquired by the thread that holds it")));
    }
    let state = push_lock_state("ExAcquirePushLockExclusiveEx", lock);
    if state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
        while state.swap(WAITED_FOR, Ordering::Acquire) != FREE {
            wait_on(state, WAITED_FOR);
            check_stopped();
        }
    }
    driver_call::hold_push_lock(lock.addr());
}

pub(super) unsafe extern "win64" fn ex_release_push_lock_exclusive_ex(lock: *mut usize, _flags: u32) {
    if irql::current() > APC_LEVEL {
        stop(irql_too_high("ExReleasePushLockExclusiveEx", lock.addr() as u64));
    }
    if !driver_call::drop_push_lock(lock.addr()) {
        let reason = format!("push lock {lock:p} released by a thread that does not hold it");
        stop(Bugcheck::fatal_of(lock.addr(), reason));
    }
    let state = push_lock_state("ExReleasePushLockExclusiveEx", lock);
    if state.swap(FREE, Ordering::Release) == WAITED_FOR {
        wake(state, 1);
    }
}

/// Wakes so many threads that wait on a word.
pub(super) fn wake(state: &AtomicU32, threads: i32) {
    // SAFETY: a wake names an address only; nothing is accessed.
    unsafe { libc::syscall(libc::SYS_futex, state.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, threads) };
}

/// Sleeps while the word has this value, for a bounded time.
pub(super) fn wait_on(state: &AtomicU32, value: u32) {
    let timeout = libc::timespec { tv_sec: 0, tv_nsec: STOP_CHECK.subsec_nanos().into() };
    // SAFETY: word and timeout live across the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            state.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            &raw const timeout,
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::services::processor::{ke_enter_critical_region, ke_leave_critical_region};
    use std::sync::Arc;

    #[test]
    fn push_locks_exclude_other_threads() {
        let driver = Driver::for_tests("push");
        let lock = Arc::new(AtomicUsize::new(0));
        let shared = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (driver, lock, shared) = (&driver, &lock, &shared);
                scope.spawn(move || {
                    let (_, leftovers) = driver_call::run(driver, "a function", || {
                        for _ in 0..1000 {
                            // SAFETY: the lock word lives in this test.
                            unsafe { ke_enter_critical_region() };
                            // SAFETY: as above.
                            unsafe { ex_acquire_push_lock_exclusive_ex(lock.as_ptr(), 0) };
                            let value = shared.load(Ordering::Relaxed);
                            std::hint::spin_loop();
                            shared.store(value + 1, Ordering::Relaxed);
                            // SAFETY: as above.
                            unsafe { ex_release_push_lock_exclusive_ex(lock.as_ptr(), 0) };
                            // SAFETY: as above.
                            unsafe { ke_leave_critical_region() };
                        }
                    });
                    assert_eq!(leftovers, Default::default());
                });
            }
        });
        assert_eq!(shared.load(Ordering::Relaxed), 4000);
    }
}

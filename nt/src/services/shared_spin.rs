//! Spin locks that several threads share, or one has alone: EX_SPIN_LOCK, 32 bits, of which a thread that waits for the lock alone keeps further
//! sharers out. [wdm: ExAcquireSpinLockShared, ExAcquireSpinLockExclusive]

use std::sync::atomic::{AtomicU32, Ordering};

use wddm_ddi::nt::DISPATCH_LEVEL;
use wddm_ddi::types::KIRQL;

use super::call::half_word;
use super::spin::{check_acquire, check_release, note, pause, require_block, require_dispatch, told};
use crate::bugcheck::Bugcheck;
use crate::driver::Export;
use crate::driver_call::{self, in_service, on_host_stack, stop};
use crate::irql;
use crate::lock::delays;
use crate::unwind::{CallSite, with_call_site};

pub(super) const EXPORTS: &[Export] = &[
    ("ExAcquireSpinLockExclusive", || ex_acquire_exclusive as *const () as usize),
    ("ExAcquireSpinLockExclusiveAtDpcLevel", || ex_acquire_exclusive_at_dpc as *const () as usize),
    ("ExAcquireSpinLockShared", || ex_acquire_shared as *const () as usize),
    ("ExAcquireSpinLockSharedAtDpcLevel", || ex_acquire_shared_at_dpc as *const () as usize),
    ("ExReleaseSpinLockExclusive", || ex_release_exclusive as *const () as usize),
    ("ExReleaseSpinLockExclusiveFromDpcLevel", || ex_release_exclusive_from_dpc as *const () as usize),
    ("ExReleaseSpinLockShared", || ex_release_shared as *const () as usize),
    ("ExReleaseSpinLockSharedFromDpcLevel", || ex_release_shared_from_dpc as *const () as usize),
    ("ExTryAcquireSpinLockExclusiveAtDpcLevel", || ex_try_exclusive_at_dpc as *const () as usize),
    ("ExTryAcquireSpinLockSharedAtDpcLevel", || ex_try_shared_at_dpc as *const () as usize),
    ("ExTryConvertSharedSpinLockExclusive", || ex_try_convert as *const () as usize),
];

/// The lock is one thread's alone; somebody waits for it alone. The other bits count the threads that share it.
const ALONE: u32 = 1 << 31;
const AWAITED: u32 = 1 << 30;
const SHARERS: u32 = AWAITED - 1;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Exclusive,
    Shared,
}

/// True if the thread has the lock now.
fn try_enter(state: &AtomicU32, access: Access) -> bool {
    let entered = |now: u32| match access {
        Access::Exclusive => (now & !AWAITED == 0).then_some(ALONE),
        Access::Shared => (now & !SHARERS == 0).then_some(now + 1),
    };
    state.fetch_update(Ordering::Acquire, Ordering::Relaxed, entered).is_ok()
}

fn acquire(service: &'static str, lock: *mut u32, access: Access, site: *const CallSite) {
    let state = half_word(service, lock);
    if driver_call::holds_spin_lock(lock.addr()) {
        let reason = format!("{service} by a thread that has the lock already: {}", told(lock.cast()));
        stop(Bugcheck::new(Bugcheck::SPIN_LOCK_ALREADY_OWNED, [lock.addr() as u64, 0, 0, 0], reason));
    }
    let (mut turn, mut waits) = (0_u32, None);
    delays::place();
    while !try_enter(state, access) {
        if access == Access::Exclusive {
            state.fetch_or(AWAITED, Ordering::Relaxed);
        }
        turn = turn.wrapping_add(1);
        if turn.is_multiple_of(64) {
            waits.get_or_insert_with(|| in_service(service));
        }
        pause(service, lock.cast(), turn);
    }
    note(lock.cast(), site);
}

/// True if another thread is known to hold the lock, and this one is not.
fn is_anothers(lock: *mut u32) -> bool {
    let known = || driver_call::spin_lock_holder(lock.addr());
    driver_call::lacks_spin_lock(lock.addr()) && on_host_stack(known).is_some()
}

/// Stops the machine for a thread that does not have the lock for the access that the service needs.
fn not_held(service: &'static str, lock: *mut u32, access: &str) -> ! {
    require_block(service, lock.cast());
    let reason = format!("{service} by a thread that does not hold the spin lock for {access} access");
    stop(Bugcheck::new(Bugcheck::SPIN_LOCK_NOT_OWNED, [lock.addr() as u64, 0, 0, 0], reason))
}

fn raise_and_acquire(service: &'static str, lock: *mut u32, access: Access, site: *const CallSite) -> KIRQL {
    let level = check_acquire(lock.cast());
    half_word(service, lock);
    irql::set(DISPATCH_LEVEL);
    acquire(service, lock, access, site);
    level
}

/// Releases without a change of level.
fn release(service: &'static str, lock: *mut u32, access: Access) {
    let state = half_word(service, lock);
    let others = access == Access::Exclusive && is_anothers(lock);
    // Before another thread can acquire it.
    driver_call::release_spin_lock(lock.addr());
    let left = |now: u32| match access {
        Access::Exclusive => (now & ALONE != 0).then_some(now & !ALONE),
        Access::Shared => (now & ALONE == 0 && now & SHARERS != 0).then(|| now - 1),
    };
    if others || state.fetch_update(Ordering::Release, Ordering::Relaxed, left).is_err() {
        let what = match access {
            Access::Exclusive => "exclusive",
            Access::Shared => "shared",
        };
        not_held(service, lock, what);
    }
}

with_call_site!(fn ex_acquire_exclusive(_lock: *mut u32) -> KIRQL => acquire_exclusive);
extern "win64" fn acquire_exclusive(lock: *mut u32, _: usize, _: usize, site: *const CallSite) -> KIRQL {
    raise_and_acquire("ExAcquireSpinLockExclusive", lock, Access::Exclusive, site)
}

with_call_site!(fn ex_acquire_shared(_lock: *mut u32) -> KIRQL => acquire_shared);
extern "win64" fn acquire_shared(lock: *mut u32, _: usize, _: usize, site: *const CallSite) -> KIRQL {
    raise_and_acquire("ExAcquireSpinLockShared", lock, Access::Shared, site)
}

with_call_site!(fn ex_acquire_exclusive_at_dpc(_lock: *mut u32) -> () => acquire_exclusive_at_dpc);
extern "win64" fn acquire_exclusive_at_dpc(lock: *mut u32, _: usize, _: usize, site: *const CallSite) {
    const NAME: &str = "ExAcquireSpinLockExclusiveAtDpcLevel";
    require_dispatch(NAME, 0x40, lock.cast());
    acquire(NAME, lock, Access::Exclusive, site);
}

with_call_site!(fn ex_acquire_shared_at_dpc(_lock: *mut u32) -> () => acquire_shared_at_dpc);
extern "win64" fn acquire_shared_at_dpc(lock: *mut u32, _: usize, _: usize, site: *const CallSite) {
    const NAME: &str = "ExAcquireSpinLockSharedAtDpcLevel";
    require_dispatch(NAME, 0x40, lock.cast());
    acquire(NAME, lock, Access::Shared, site);
}

/// TRUE if the thread has the lock now, without waiting for it. No page has these functions: the state of the lock decides, for a thread that shares it too.
fn try_acquire(service: &'static str, lock: *mut u32, access: Access, site: *const CallSite) -> u32 {
    require_dispatch(service, 0x40, lock.cast());
    let entered = try_enter(half_word(service, lock), access);
    if entered {
        note(lock.cast(), site);
    } else {
        require_block(service, lock.cast());
    }
    entered.into()
}

with_call_site!(fn ex_try_exclusive_at_dpc(_lock: *mut u32) -> u32 => try_exclusive_at_dpc);
extern "win64" fn try_exclusive_at_dpc(lock: *mut u32, _: usize, _: usize, site: *const CallSite) -> u32 {
    try_acquire("ExTryAcquireSpinLockExclusiveAtDpcLevel", lock, Access::Exclusive, site)
}

with_call_site!(fn ex_try_shared_at_dpc(_lock: *mut u32) -> u32 => try_shared_at_dpc);
extern "win64" fn try_shared_at_dpc(lock: *mut u32, _: usize, _: usize, site: *const CallSite) -> u32 {
    try_acquire("ExTryAcquireSpinLockSharedAtDpcLevel", lock, Access::Shared, site)
}

extern "win64" fn ex_release_exclusive(lock: *mut u32, old_irql: KIRQL) {
    check_release(lock.cast(), old_irql);
    release("ExReleaseSpinLockExclusive", lock, Access::Exclusive);
    irql::set(old_irql);
}

extern "win64" fn ex_release_shared(lock: *mut u32, old_irql: KIRQL) {
    check_release(lock.cast(), old_irql);
    release("ExReleaseSpinLockShared", lock, Access::Shared);
    irql::set(old_irql);
}

extern "win64" fn ex_release_exclusive_from_dpc(lock: *mut u32) {
    const NAME: &str = "ExReleaseSpinLockExclusiveFromDpcLevel";
    require_dispatch(NAME, 0x41, lock.cast());
    release(NAME, lock, Access::Exclusive);
}

extern "win64" fn ex_release_shared_from_dpc(lock: *mut u32) {
    const NAME: &str = "ExReleaseSpinLockSharedFromDpcLevel";
    require_dispatch(NAME, 0x41, lock.cast());
    release(NAME, lock, Access::Shared);
}

/// TRUE if the caller alone shares the lock, and has it alone from now on. [wdm: ExTryConvertSharedSpinLockExclusive]
extern "win64" fn ex_try_convert(lock: *mut u32) -> u32 {
    const NAME: &str = "ExTryConvertSharedSpinLockExclusive";
    require_dispatch(NAME, 0x40, lock.cast());
    let state = half_word(NAME, lock);
    let now = state.load(Ordering::Relaxed);
    // The only share is another thread's.
    let others = now & SHARERS == 1 && is_anothers(lock);
    if now & ALONE != 0 || now & SHARERS == 0 || others {
        not_held(NAME, lock, "shared");
    }
    let converted = |now: u32| (now & !AWAITED == 1).then_some(now & AWAITED | ALONE);
    state.fetch_update(Ordering::Acquire, Ordering::Relaxed, converted).is_ok().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use std::sync::atomic::AtomicUsize;

    fn stops(call: impl FnOnce()) -> Bugcheck {
        let driver = Driver::for_tests("shared locks");
        assert_eq!(driver_call::run(&driver, "a function", call).0, None);
        driver.verifier().bugcheck().unwrap()
    }

    fn lock() -> *mut u32 {
        Box::into_raw(Box::new(0))
    }

    // The locks live as long as the process.

    fn exclusive(lock: *mut u32) -> KIRQL {
        // SAFETY: as above.
        unsafe { ex_acquire_exclusive(lock) }
    }

    fn shared(lock: *mut u32) -> KIRQL {
        // SAFETY: as above.
        unsafe { ex_acquire_shared(lock) }
    }

    /// What the lock's two services that do not wait answer, for shared access first, and the lock afterwards.
    fn tries(lock: *mut u32) -> (u32, u32, u32) {
        // SAFETY: as above.
        let shared = unsafe { ex_try_shared_at_dpc(lock) };
        // SAFETY: as above.
        let exclusive = unsafe { ex_try_exclusive_at_dpc(lock) };
        (shared, exclusive, value(lock))
    }

    fn value(lock: *mut u32) -> u32 {
        half_word("a test", lock).load(Ordering::Relaxed)
    }

    #[test]
    fn a_shared_spin_lock_raises_to_dispatch_level_in_every_form_and_is_free_afterwards() {
        let lock = lock();
        let driver = Driver::for_tests("forms");
        let (result, leftovers) = driver_call::run(&driver, "a function", || {
            let level = exclusive(lock);
            assert_eq!((level, irql::current()), (0, DISPATCH_LEVEL));
            ex_release_exclusive(lock, level);
            let level = shared(lock);
            assert_eq!((level, irql::current(), value(lock)), (0, DISPATCH_LEVEL, 1));
            assert_eq!(ex_try_convert(lock), 1, "nobody else shares it");
            ex_release_exclusive(lock, level);
            irql::set(DISPATCH_LEVEL);
            // SAFETY: as above.
            unsafe { ex_acquire_exclusive_at_dpc(lock) };
            ex_release_exclusive_from_dpc(lock);
            // SAFETY: as above.
            unsafe { ex_acquire_shared_at_dpc(lock) };
            ex_release_shared_from_dpc(lock);
            irql::set(0);
            value(lock)
        });
        assert_eq!((result, leftovers), (Some(0), Default::default()));
    }

    #[test]
    fn a_lock_that_is_tried_is_had_or_left_as_it_is_without_waiting() {
        let lock = lock();
        let driver = Driver::for_tests("tried");
        let (result, leftovers) = driver_call::run(&driver, "a function", || {
            irql::set(DISPATCH_LEVEL);
            // SAFETY: as above.
            let alone = unsafe { ex_try_exclusive_at_dpc(lock) };
            let other = std::thread::scope(|scope| {
                let lock = lock.expose_provenance();
                let other = scope.spawn(move || {
                    let driver = Driver::for_tests("another");
                    let lock: *mut u32 = std::ptr::with_exposed_provenance_mut(lock);
                    driver_call::run(&driver, "a function", || {
                        irql::set(DISPATCH_LEVEL);
                        let tries = tries(lock);
                        irql::set(0);
                        tries
                    })
                });
                other.join().unwrap().0
            });
            ex_release_exclusive_from_dpc(lock);
            let free = tries(lock);
            ex_release_shared_from_dpc(lock);
            irql::set(0);
            (alone, other, free, value(lock))
        });
        assert_eq!(result, Some((1, Some((0, 0, ALONE)), (1, 0, 1), 0)));
        assert_eq!(leftovers, Default::default());
    }

    /// [wdm: ExTryConvertSharedSpinLockExclusive]
    #[test]
    fn a_share_of_another_thread_is_not_converted() {
        let lock = lock();
        let address = lock.expose_provenance();
        let (held, ended) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let bugcheck = std::thread::scope(|scope| {
            scope.spawn(|| {
                let driver = Driver::for_tests("sharer");
                let lock: *mut u32 = std::ptr::with_exposed_provenance_mut(address);
                driver_call::run(&driver, "a function", || {
                    let level = shared(lock);
                    held.wait();
                    ended.wait();
                    ex_release_shared(lock, level);
                });
            });
            held.wait();
            let driver = Driver::for_tests("another");
            driver_call::run(&driver, "a function", || {
                irql::set(DISPATCH_LEVEL);
                ex_try_convert(lock);
                irql::set(0);
            });
            ended.wait();
            driver.verifier().bugcheck()
        });
        let bugcheck = bugcheck.expect("the share of another thread was converted");
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x10, lock.addr() as u64), "{bugcheck}");
        assert_eq!(value(lock), 0, "the share was left, and then released");
    }

    #[test]
    fn a_lock_that_two_threads_share_is_not_converted() {
        let lock = lock();
        half_word("a test", lock).store(1, Ordering::Relaxed);
        let driver = Driver::for_tests("two");
        let (result, _) = driver_call::run(&driver, "a function", || {
            let level = shared(lock);
            let converted = ex_try_convert(lock);
            ex_release_shared(lock, level);
            (converted, value(lock))
        });
        assert_eq!(result, Some((0, 1)));
    }

    #[test]
    fn threads_that_share_a_lock_exclude_those_that_want_it_alone() {
        let lock = lock().expose_provenance();
        let (driver, sum) = (Driver::for_tests("exclude"), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (driver, sum) = (&driver, &sum);
                scope.spawn(move || {
                    let lock = std::ptr::with_exposed_provenance_mut(lock);
                    let (result, leftovers) = driver_call::run(driver, "a function", || {
                        for _ in 0..1000 {
                            if thread % 2 == 0 {
                                let level = exclusive(lock);
                                let value = sum.load(Ordering::Relaxed);
                                sum.store(value + 1, Ordering::Relaxed);
                                ex_release_exclusive(lock, level);
                            } else {
                                let level = shared(lock);
                                let value = sum.load(Ordering::Relaxed);
                                assert_eq!(sum.load(Ordering::Relaxed), value);
                                ex_release_shared(lock, level);
                            }
                        }
                    });
                    assert_eq!((result, leftovers), (Some(()), Default::default()));
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 2000);
    }

    /// [wdm: ExAcquireSpinLockShared; debugger: 0xf, 0x10, 0xc4]
    #[test]
    fn misused_shared_spin_locks_stop_the_machine_with_their_codes() {
        type Misuse = fn(*mut u32);
        let misuses: [(&str, Misuse, u32, u64); 9] = [
            ("shared twice", |lock| _ = (shared(lock), shared(lock)), 0xf, 0),
            ("alone twice", |lock| _ = (exclusive(lock), exclusive(lock)), 0xf, 0),
            ("alone after shared", |lock| _ = (shared(lock), exclusive(lock)), 0xf, 0),
            (
                "not held",
                |lock| {
                    irql::set(2);
                    ex_release_shared(lock, 0)
                },
                0x10,
                0,
            ),
            (
                "shared released as exclusive",
                |lock| {
                    shared(lock);
                    ex_release_exclusive(lock, 0)
                },
                0x10,
                0,
            ),
            (
                "exclusive released as shared",
                |lock| {
                    exclusive(lock);
                    ex_release_shared(lock, 0)
                },
                0x10,
                0,
            ),
            (
                "converted, not held",
                |lock| {
                    irql::set(2);
                    ex_try_convert(lock);
                },
                0x10,
                0,
            ),
            // SAFETY: as above.
            ("below DISPATCH_LEVEL", |lock| unsafe { ex_acquire_shared_at_dpc(lock) }, 0xc4, 0x40),
            (
                "above DISPATCH_LEVEL",
                |lock| {
                    irql::set(5);
                    shared(lock);
                },
                0xc4,
                0x42,
            ),
        ];
        for (name, misuse, code, kind) in misuses {
            let lock = lock();
            let bugcheck = stops(|| misuse(lock));
            let first = if kind == 0 { lock.addr() as u64 } else { kind };
            assert_eq!((bugcheck.code, bugcheck.parameters[0]), (code, first), "{name}: {bugcheck}");
        }
    }

    #[test]
    fn a_shared_spin_lock_that_is_not_released_is_named() {
        let lock = lock();
        let driver = Driver::for_tests("left");
        let (_, leftovers) = driver_call::run(&driver, "a function", || {
            let level = shared(lock);
            irql::set(level);
        });
        leftovers.check("a function", driver.verifier());
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert!(bugcheck.reason.contains(&format!("spin lock {lock:p}, which thread")), "{bugcheck}");
    }
}

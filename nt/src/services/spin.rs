//! Spin locks in every form, levels, and fast mutexes.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL};
use wddm_ddi::types::KIRQL;

use super::call::{check_stopped, thread_token, word};
use super::dispatcher;
use super::memory::{field, get, put};
use crate::bugcheck::Bugcheck;
use crate::calls;
use crate::driver::Export;
use crate::driver_call::{self, in_service, on_host_stack, stop};
use crate::irql;
use crate::lock::delays;
use crate::pool::Owned;
use crate::unwind::{CallSite, with_call_site};

pub(super) const EXPORTS: &[Export] = &[
    ("KeInitializeSpinLock", || ke_initialize_spin_lock as *const () as usize),
    ("KeAcquireSpinLockAtDpcLevel", || ke_acquire_spin_lock_at_dpc_level as *const () as usize),
    ("KeReleaseSpinLockFromDpcLevel", || ke_release_spin_lock_from_dpc_level as *const () as usize),
    ("KeTryToAcquireSpinLockAtDpcLevel", || ke_try_to_acquire_spin_lock as *const () as usize),
    ("KeTestSpinLock", || ke_test_spin_lock as *const () as usize),
    ("KeAcquireSpinLockForDpc", || ke_acquire_spin_lock_for_dpc as *const () as usize),
    ("KeReleaseSpinLockForDpc", || ke_release_spin_lock_for_dpc as *const () as usize),
    ("KeAcquireInStackQueuedSpinLock", || ke_acquire_in_stack as *const () as usize),
    ("KeReleaseInStackQueuedSpinLock", || ke_release_in_stack as *const () as usize),
    ("KeAcquireInStackQueuedSpinLockAtDpcLevel", || ke_acquire_in_stack_at_dpc_level as *const () as usize),
    ("KeReleaseInStackQueuedSpinLockFromDpcLevel", || ke_release_in_stack_from_dpc_level as *const () as usize),
    ("KfRaiseIrql", || kf_raise_irql as *const () as usize),
    ("KeRaiseIrqlToDpcLevel", || ke_raise_irql_to_dpc_level as *const () as usize),
    ("KeLowerIrql", || ke_lower_irql as *const () as usize),
    ("ExAcquireFastMutex", || ex_acquire_fast_mutex as *const () as usize),
    ("ExReleaseFastMutex", || ex_release_fast_mutex as *const () as usize),
    ("ExTryToAcquireFastMutex", || ex_try_to_acquire_fast_mutex as *const () as usize),
    ("KeInitializeGuardedMutex", || ke_initialize_guarded_mutex as *const () as usize),
    ("KeAcquireGuardedMutex", || ex_acquire_fast_mutex as *const () as usize),
    ("KeReleaseGuardedMutex", || ex_release_fast_mutex as *const () as usize),
    ("KeTryToAcquireGuardedMutex", || ex_try_to_acquire_fast_mutex as *const () as usize),
];

with_call_site!(pub(super) fn ke_acquire_spin_lock_raise_to_dpc(_lock: *mut usize) -> KIRQL => acquire_spin_lock_raised);
pub(super) extern "win64" fn acquire_spin_lock_raised(
    lock: *mut usize,
    _: usize,
    _: usize,
    site: *const CallSite,
) -> KIRQL {
    raise_and_acquire("KeAcquireSpinLockRaiseToDpc", lock, site)
}

pub(super) unsafe extern "win64" fn ke_release_spin_lock(lock: *mut usize, new_irql: KIRQL) {
    check_release(lock, new_irql);
    release("KeReleaseSpinLock", lock);
    irql::set(new_irql);
}

/// Stops the machine unless the caller is at DISPATCH_LEVEL, where a spin lock is held, and goes back to no higher one.
pub(super) fn check_release(lock: *mut usize, new_irql: KIRQL) {
    let level = irql::current();
    let at = lock.addr() as u64;
    if level != DISPATCH_LEVEL {
        stop(Bugcheck::new(
            Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION,
            [0x32, u64::from(level), at, 0],
            format!("spin lock released at IRQL {level} instead of DISPATCH_LEVEL"),
        ));
    }
    if new_irql > DISPATCH_LEVEL {
        stop(Bugcheck::new(
            Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION,
            [0x31, u64::from(level), u64::from(new_irql), 0],
            format!("spin lock released to IRQL {new_irql}, which is above DISPATCH_LEVEL"),
        ));
    }
}

with_call_site!(fn ke_acquire_spin_lock_for_dpc(_lock: *mut usize) -> KIRQL => acquire_spin_lock_for_dpc);
/// A threaded DPC runs at PASSIVE_LEVEL or at DISPATCH_LEVEL, and has the lock at DISPATCH_LEVEL either way. [wdm: KeAcquireSpinLockForDpc]
extern "win64" fn acquire_spin_lock_for_dpc(lock: *mut usize, _: usize, _: usize, site: *const CallSite) -> KIRQL {
    raise_and_acquire("KeAcquireSpinLockForDpc", lock, site)
}

extern "win64" fn ke_release_spin_lock_for_dpc(lock: *mut usize, old_irql: KIRQL) {
    check_release(lock, old_irql);
    release("KeReleaseSpinLockForDpc", lock);
    irql::set(old_irql);
}

/// Parameter 1 of DRIVER_VERIFIER_DETECTED_VIOLATION: a thread waits for itself. [debugger: 0xc4]
const SELF_DEADLOCK: u64 = 0x1000;

/// Offsets of KLOCK_QUEUE_HANDLE and FAST_MUTEX. [wdm]
const QUEUE_LOCK: usize = 8;
const QUEUE_IRQL: usize = 16;
const MUTEX_OWNER: usize = 8;
const MUTEX_EVENT: usize = 24;
const MUTEX_IRQL: usize = 48;
const MUTEX_BYTES: usize = 56;

extern "win64" fn ke_initialize_spin_lock(lock: *mut usize) {
    put("KeInitializeSpinLock", lock, 0);
}

/// True if the lock was free and is the thread's now.
fn try_acquire(service: &'static str, lock: *mut usize) -> bool {
    word(service, lock).compare_exchange(0, thread_token(), Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Raises to DISPATCH_LEVEL and acquires; the level before.
pub(super) fn raise_and_acquire(service: &'static str, lock: *mut usize, site: *const CallSite) -> KIRQL {
    let level = check_acquire(lock);
    word(service, lock);
    irql::set(DISPATCH_LEVEL);
    acquire_at(service, lock, site);
    level
}

/// The level of the caller, which is to be raised to DISPATCH_LEVEL; stops the machine if it is above.
pub(super) fn check_acquire(lock: *mut usize) -> KIRQL {
    let level = irql::current();
    if level > DISPATCH_LEVEL {
        stop(Bugcheck::new(
            Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION,
            [0x42, u64::from(level), lock.addr() as u64, 0],
            format!("spin lock acquired at IRQL {level}, at most DISPATCH_LEVEL is allowed"),
        ));
    }
    level
}

/// Acquires without a change of level, for a service.
pub(super) fn acquire(service: &'static str, lock: *mut usize) {
    acquire_at(service, lock, std::ptr::null());
}

fn acquire_at(service: &'static str, lock: *mut usize, site: *const CallSite) {
    let owner = word(service, lock);
    let me = thread_token();
    let (mut spins, mut waits) = (0_u32, None);
    delays::place();
    while let Err(holder) = owner.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed) {
        if holder == me {
            let reason = format!("{service} by the thread that holds it: {}", told(lock));
            stop(Bugcheck::new(Bugcheck::SPIN_LOCK_ALREADY_OWNED, [lock.addr() as u64, 0, 0, 0], reason));
        }
        spins = spins.wrapping_add(1);
        if spins.is_multiple_of(64) {
            waits.get_or_insert_with(|| in_service(service));
        }
        pause(service, lock, spins);
    }
    note(lock, site);
}

/// One turn of a thread that spins for a lock, the first of which is 1. Ends the call if the machine has stopped or the wait is too long.
pub(super) fn pause(service: &'static str, lock: *mut usize, turn: u32) {
    if turn == 1 {
        require_block(service, lock);
    }
    if turn.is_multiple_of(64) {
        check_stopped();
        check_late(service, lock);
        std::thread::yield_now();
    }
    std::hint::spin_loop();
}

/// Stops the machine for a lock in pool that was freed: what lies there is no lock any more, and nobody releases it.
pub(super) fn require_block(service: &'static str, lock: *mut usize) {
    let known = || driver_call::current()?.pool().check_range(lock.addr(), size_of::<usize>());
    if let Some((_, owned @ Owned::Freed { .. })) = on_host_stack(known) {
        let reason = format!("{service} of spin lock {lock:p}, which lies in {owned}");
        let parameters = [dispatcher::UNINITIALIZED, lock.addr() as u64, 0, 0];
        stop(Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason));
    }
}

/// The lock is the thread's now.
pub(super) fn note(lock: *mut usize, site: *const CallSite) {
    // SAFETY: the place where the call came from, for the length of the call, or NULL.
    let instruction = unsafe { site.as_ref() }.map_or(0, |site| site.call().0);
    driver_call::hold_spin_lock(lock.addr(), instruction);
}

/// The lock with its holder, in words.
pub(super) fn told(lock: *mut usize) -> String {
    let unknown = || format!("spin lock {lock:p}, whose holder is not known");
    let told = || Some(driver_call::spin_lock_holder(lock.addr())?.describe(driver_call::current()?.as_ref()));
    on_host_stack(|| told().unwrap_or_else(unknown))
}

/// Stops the machine if the watchdog finds that the call has waited too long for a lock.
fn check_late(service: &str, lock: *mut usize) {
    if !calls::is_ending() {
        return;
    }
    let verdict = driver_call::current().and_then(|driver| driver.verifier().calls().verdict());
    if let Some(mut bugcheck) = verdict {
        bugcheck.reason = format!("{}: it waits in {service} for {}", bugcheck.reason, told(lock));
        stop(bugcheck);
    }
}

/// Releases without a change of level.
pub(super) fn release(service: &'static str, lock: *mut usize) {
    let owner = word(service, lock);
    // Before another thread can acquire it.
    if owner.load(Ordering::Relaxed) == thread_token() {
        driver_call::release_spin_lock(lock.addr());
    }
    if owner.compare_exchange(thread_token(), 0, Ordering::Release, Ordering::Relaxed).is_err() {
        require_block(service, lock);
        let reason = format!("{service} by a thread that does not hold the spin lock");
        stop(Bugcheck::new(Bugcheck::SPIN_LOCK_NOT_OWNED, [lock.addr() as u64, 0, 0, 0], reason));
    }
}

/// These forms leave the level as it is, so it must be high enough.
pub(super) fn require_dispatch(service: &'static str, violation: u64, lock: *mut usize) {
    let level = irql::current();
    if level < DISPATCH_LEVEL {
        stop(Bugcheck::new(
            Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION,
            [violation, u64::from(level), lock.addr() as u64, 0],
            format!("{service} at IRQL {level}, at least DISPATCH_LEVEL is required"),
        ));
    }
}

with_call_site!(fn ke_acquire_spin_lock_at_dpc_level(_lock: *mut usize) -> () => acquire_at_dpc_level);
extern "win64" fn acquire_at_dpc_level(lock: *mut usize, _: usize, _: usize, site: *const CallSite) {
    const NAME: &str = "KeAcquireSpinLockAtDpcLevel";
    require_dispatch(NAME, 0x40, lock);
    acquire_at(NAME, lock, site);
}

extern "win64" fn ke_release_spin_lock_from_dpc_level(lock: *mut usize) {
    const NAME: &str = "KeReleaseSpinLockFromDpcLevel";
    require_dispatch(NAME, 0x41, lock);
    release(NAME, lock);
}

with_call_site!(fn ke_try_to_acquire_spin_lock(_lock: *mut usize) -> u8 => try_to_acquire);
extern "win64" fn try_to_acquire(lock: *mut usize, _: usize, _: usize, site: *const CallSite) -> u8 {
    const NAME: &str = "KeTryToAcquireSpinLockAtDpcLevel";
    require_dispatch(NAME, 0x40, lock);
    let acquired = try_acquire(NAME, lock);
    if acquired {
        note(lock, site);
    } else {
        require_block(NAME, lock);
    }
    acquired.into()
}

/// TRUE if the lock is free.
extern "win64" fn ke_test_spin_lock(lock: *mut usize) -> u8 {
    (get("KeTestSpinLock", lock) == 0).into()
}

with_call_site!(fn ke_acquire_in_stack(_lock: *mut usize, _handle: *mut c_void) -> () => acquire_in_stack);
extern "win64" fn acquire_in_stack(lock: *mut usize, handle: *mut c_void, _: usize, site: *const CallSite) {
    const NAME: &str = "KeAcquireInStackQueuedSpinLock";
    let level = raise_and_acquire(NAME, lock, site);
    put(NAME, field(handle, QUEUE_LOCK), lock);
    put(NAME, field(handle, QUEUE_IRQL), level);
}

extern "win64" fn ke_release_in_stack(handle: *mut c_void) {
    const NAME: &str = "KeReleaseInStackQueuedSpinLock";
    let (lock, level) = (get(NAME, field(handle, QUEUE_LOCK)), get(NAME, field(handle, QUEUE_IRQL)));
    // SAFETY: the lock is checked there.
    unsafe { ke_release_spin_lock(lock, level) };
}

with_call_site!(fn ke_acquire_in_stack_at_dpc_level(_lock: *mut usize, _handle: *mut c_void) -> () => acquire_in_stack_at_dpc_level);
extern "win64" fn acquire_in_stack_at_dpc_level(
    lock: *mut usize,
    handle: *mut c_void,
    _: usize,
    site: *const CallSite,
) {
    const NAME: &str = "KeAcquireInStackQueuedSpinLockAtDpcLevel";
    require_dispatch(NAME, 0x40, lock);
    acquire_at(NAME, lock, site);
    put(NAME, field(handle, QUEUE_LOCK), lock);
}

extern "win64" fn ke_release_in_stack_from_dpc_level(handle: *mut c_void) {
    ke_release_spin_lock_from_dpc_level(get("KeReleaseInStackQueuedSpinLockFromDpcLevel", field(handle, QUEUE_LOCK)));
}

extern "win64" fn kf_raise_irql(level: KIRQL) -> KIRQL {
    let before = irql::current();
    if level < before {
        let reason = format!("KeRaiseIrql to {level} at IRQL {before}");
        stop(Bugcheck::new(
            Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION,
            [0x30, u64::from(before), u64::from(level), 0],
            reason,
        ));
    }
    irql::set(level)
}

extern "win64" fn ke_raise_irql_to_dpc_level() -> KIRQL {
    kf_raise_irql(DISPATCH_LEVEL)
}

extern "win64" fn ke_lower_irql(level: KIRQL) {
    let before = irql::current();
    if level > before {
        let reason = format!("KeLowerIrql to {level} at IRQL {before}");
        stop(Bugcheck::new(
            Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION,
            [0x31, u64::from(before), u64::from(level), 0],
            reason,
        ));
    }
    irql::set(level);
}

/// The mutex of `ExInitializeFastMutex`, which is inline: the owner's word is the lock here.
fn owner(mutex: *mut c_void) -> *mut usize {
    field(mutex, MUTEX_OWNER)
}

extern "win64" fn ke_initialize_guarded_mutex(mutex: *mut c_void) {
    const NAME: &str = "KeInitializeGuardedMutex";
    put(NAME, mutex.cast(), [0_u8; MUTEX_BYTES]);
    put(NAME, mutex.cast(), 1_i32);
    dispatcher::ke_initialize_event(field(mutex, MUTEX_EVENT), 1, 0);
}

/// Stops the machine unless the event of the mutex is initialised, which both ways to initialise a mutex do. [wdm: ExInitializeFastMutex]
fn require_mutex(service: &'static str, mutex: *mut c_void) {
    if !dispatcher::is_event(service, field(mutex, MUTEX_EVENT)) {
        dispatcher::uninitialized(service, mutex, "ExInitializeFastMutex");
    }
}

extern "win64" fn ex_acquire_fast_mutex(mutex: *mut c_void) {
    const NAME: &str = "ExAcquireFastMutex";
    while !try_fast_mutex(NAME, mutex) {
        if get::<usize>(NAME, owner(mutex)) == thread_token() {
            let reason = format!("{NAME} of {mutex:p} by the thread that holds the mutex, which never gets it");
            let parameters = [SELF_DEADLOCK, mutex.addr() as u64, 0, 0];
            stop(Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason));
        }
        on_host_stack(|| std::thread::sleep(std::time::Duration::from_micros(50)));
        check_stopped();
    }
}

extern "win64" fn ex_try_to_acquire_fast_mutex(mutex: *mut c_void) -> u8 {
    try_fast_mutex("ExTryToAcquireFastMutex", mutex).into()
}

/// True if the mutex is the thread's now, which is at APC_LEVEL until it releases it.
fn try_fast_mutex(service: &'static str, mutex: *mut c_void) -> bool {
    let level = irql::current();
    if level > APC_LEVEL {
        let reason = format!("{service} at IRQL {level}, at most APC_LEVEL is allowed");
        let parameters = [0x33, u64::from(level), mutex.addr() as u64, 0];
        stop(Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason));
    }
    require_mutex(service, mutex);
    let acquired = try_acquire(service, owner(mutex));
    if acquired {
        irql::set(APC_LEVEL);
        put(service, mutex.cast(), 0_i32);
        put(service, field(mutex, MUTEX_IRQL), u32::from(level));
    }
    acquired
}

extern "win64" fn ex_release_fast_mutex(mutex: *mut c_void) {
    const NAME: &str = "ExReleaseFastMutex";
    if irql::current() != APC_LEVEL {
        let level = irql::current();
        let reason = format!("{NAME} at IRQL {level} instead of APC_LEVEL");
        stop(Bugcheck::new(
            Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION,
            [0x34, u64::from(level), mutex.addr() as u64, 0],
            reason,
        ));
    }
    require_mutex(NAME, mutex);
    let level: u32 = get(NAME, field(mutex, MUTEX_IRQL));
    put(NAME, mutex.cast(), 1_i32);
    release(NAME, owner(mutex));
    irql::set(level.min(u32::from(APC_LEVEL)) as KIRQL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::driver_call;

    #[repr(C, align(8))]
    struct Object([u8; MUTEX_BYTES]);

    fn stops(call: impl FnOnce()) -> Bugcheck {
        let driver = Driver::for_tests("locks");
        assert_eq!(driver_call::run(&driver, "a function", call).0, None);
        driver.verifier().bugcheck().unwrap()
    }

    // SAFETY of these: the locks live in the tests.

    fn acquire_in_stack(lock: *mut usize, handle: *mut c_void) {
        // SAFETY: as above.
        unsafe { ke_acquire_in_stack(lock, handle) }
    }

    fn acquire_at_dpc_level(lock: *mut usize) {
        // SAFETY: as above.
        unsafe { ke_acquire_spin_lock_at_dpc_level(lock) }
    }

    fn try_at_dpc_level(lock: *mut usize) -> u8 {
        // SAFETY: as above.
        unsafe { ke_try_to_acquire_spin_lock(lock) }
    }

    #[test]
    fn spin_locks_are_taken_in_every_form() {
        let (mut lock, mut handle) = (0_usize, Object([0; MUTEX_BYTES]));
        let (lock, handle) = (&raw mut lock, (&raw mut handle).cast());
        let driver = Driver::for_tests("forms");
        let (result, leftovers) = driver_call::run(&driver, "a function", || {
            acquire_in_stack(lock, handle);
            assert_eq!((irql::current(), ke_test_spin_lock(lock), try_at_dpc_level(lock)), (2, 0, 0));
            ke_release_in_stack(handle);
            let level = ke_raise_irql_to_dpc_level();
            // SAFETY: as above.
            unsafe { ke_acquire_in_stack_at_dpc_level(lock, handle) };
            ke_release_in_stack_from_dpc_level(handle);
            assert_eq!(try_at_dpc_level(lock), 1);
            ke_release_spin_lock_from_dpc_level(lock);
            ke_lower_irql(level);
            ke_test_spin_lock(lock)
        });
        assert_eq!((result, leftovers), (Some(1), Default::default()));
        assert_eq!(stops(|| acquire_at_dpc_level(lock)).code, 0xc4);
        assert_eq!(stops(|| ke_lower_irql(2)).parameters[..3], [0x31, 0, 2]);
    }

    /// [wdm: KeAcquireSpinLockForDpc]
    #[test]
    fn a_spin_lock_of_a_threaded_dpc_is_held_at_dispatch_level_and_gives_the_level_back() {
        let lock = Box::into_raw(Box::new(0_usize));
        let driver = Driver::for_tests("threaded");
        let (result, leftovers) = driver_call::run(&driver, "a function", || {
            for level in [0, DISPATCH_LEVEL] {
                irql::set(level);
                // SAFETY: the lock lives.
                let before = unsafe { ke_acquire_spin_lock_for_dpc(lock) };
                assert_eq!((before, irql::current(), ke_test_spin_lock(lock)), (level, DISPATCH_LEVEL, 0));
                ke_release_spin_lock_for_dpc(lock, before);
                assert_eq!((irql::current(), ke_test_spin_lock(lock)), (level, 1));
            }
            irql::set(0);
        });
        assert_eq!((result, leftovers), (Some(()), Default::default()));
        let lock = lock.expose_provenance();
        let again = || std::ptr::with_exposed_provenance_mut(lock);
        assert_eq!(stops(|| ke_release_spin_lock_for_dpc(again(), 0)).parameters[..2], [0x32, 0]);
    }

    #[test]
    fn a_spin_lock_that_is_not_released_is_named_with_the_thread_that_holds_it() {
        let (lock, thread) = (Box::into_raw(Box::new(0_usize)), calls::thread_id());
        let driver = Driver::for_tests("left");
        let (result, leftovers) = driver_call::run(&driver, "a function", || {
            ke_raise_irql_to_dpc_level();
            acquire_at_dpc_level(lock);
            let lock = lock.expose_provenance();
            std::thread::scope(|scope| {
                let asks =
                    || driver_call::run(&driver, "a function", || told(std::ptr::with_exposed_provenance_mut(lock)));
                let heard = scope.spawn(asks).join().unwrap().0.unwrap();
                assert_eq!(heard, format!("spin lock {lock:#x}, which thread {thread} has acquired and not released"));
            });
        });
        assert_eq!(result, Some(()));
        leftovers.check("a function", driver.verifier());
        let bugcheck = driver.verifier().bugcheck().unwrap();
        let named = format!("returned at 2, with spin lock {lock:p}, which thread {thread} has acquired");
        assert!(bugcheck.code == 0xc8 && bugcheck.reason.contains(&named), "{bugcheck}");
        let (_, leftovers) = driver_call::run(&driver, "a function", || ());
        assert_eq!(leftovers, Default::default(), "told once");
        let driver = Driver::for_tests("lowered");
        let other = Box::into_raw(Box::new(0_usize));
        let (_, leftovers) = driver_call::run(&driver, "a function", || {
            ke_raise_irql_to_dpc_level();
            acquire_at_dpc_level(other);
            ke_lower_irql(0);
        });
        leftovers.check("a function", driver.verifier());
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert!(bugcheck.reason.starts_with(&format!("a function returned with spin lock {other:p}")), "{bugcheck}");
    }

    #[test]
    fn a_spin_lock_in_pool_that_was_freed_is_named_with_the_block_in_every_form() {
        const TAG: u32 = u32::from_le_bytes(*b"Lock");
        type Form = (&'static str, fn(*mut usize));
        let forms: [Form; 5] = [
            ("KeAcquireSpinLockRaiseToDpc", |lock| {
                _ = raise_and_acquire("KeAcquireSpinLockRaiseToDpc", lock, std::ptr::null())
            }),
            ("KeAcquireSpinLockAtDpcLevel", |lock| {
                irql::set(DISPATCH_LEVEL);
                acquire_at_dpc_level(lock);
            }),
            ("KeTryToAcquireSpinLockAtDpcLevel", |lock| {
                irql::set(DISPATCH_LEVEL);
                try_at_dpc_level(lock);
            }),
            ("KeReleaseSpinLockFromDpcLevel", |lock| {
                irql::set(DISPATCH_LEVEL);
                ke_release_spin_lock_from_dpc_level(lock);
            }),
            ("KeReleaseSpinLock", |lock| {
                irql::set(DISPATCH_LEVEL);
                // SAFETY: as above.
                unsafe { ke_release_spin_lock(lock, 0) };
            }),
        ];
        for (service, form) in forms {
            let driver = Driver::for_tests("frees");
            let block = driver.pool().allocate(0x40, 128, TAG).unwrap();
            let lock: *mut usize = block.wrapping_byte_add(16).cast();
            driver_call::run(&driver, "a function", || {
                ke_initialize_spin_lock(lock);
                driver.free_pool(block, TAG).unwrap();
                form(lock);
            });
            let bugcheck = driver.verifier().bugcheck().unwrap();
            let told = format!("{service} of spin lock {lock:p}, which lies in freed pool with tag 'Lock'");
            assert!(bugcheck.reason.starts_with(&told), "{service}: {bugcheck}");
            assert_eq!((bugcheck.code, bugcheck.parameters), (0xc4, [0x1002, lock.addr() as u64, 0, 0]), "{service}");
        }
    }

    #[test]
    fn a_fast_mutex_raises_to_apc_level_and_has_one_owner() {
        let mut mutex = Object([0xcc; MUTEX_BYTES]);
        let mutex = (&raw mut mutex).cast();
        let driver = Driver::for_tests("fast");
        let (result, leftovers) = driver_call::run(&driver, "a function", || {
            ke_initialize_guarded_mutex(mutex);
            ex_acquire_fast_mutex(mutex);
            assert_eq!((irql::current(), ex_try_to_acquire_fast_mutex(mutex)), (APC_LEVEL, 0));
            ex_release_fast_mutex(mutex);
        });
        assert_eq!((result, leftovers), (Some(()), Default::default()));
        assert_eq!(stops(|| ex_release_fast_mutex(mutex)).parameters[0], 0x34);
        let twice = stops(|| {
            ex_acquire_fast_mutex(mutex);
            ex_acquire_fast_mutex(mutex);
        });
        assert_eq!((twice.code, twice.parameters[..2].to_vec()), (0xc4, vec![SELF_DEADLOCK, mutex.addr() as u64]));
        let above = stops(|| {
            irql::set(DISPATCH_LEVEL);
            ex_acquire_fast_mutex(mutex);
        });
        assert_eq!(above.parameters[..2], [0x33, 2]);
        for fill in [0, 0xa5] {
            let never = Box::into_raw(Box::new(Object([fill; MUTEX_BYTES]))).cast();
            let bugcheck = stops(|| ex_acquire_fast_mutex(never));
            assert_eq!(bugcheck.parameters[..2], [0x1002, never.addr() as u64], "{bugcheck}");
        }
    }

    #[test]
    fn a_fast_mutex_that_is_acquired_at_dispatch_level_is_told_of_the_service_that_was_called() {
        let told = |name: &str, call: fn(*mut c_void)| {
            let driver = Driver::for_tests("names");
            driver_call::run(&driver, "a function", || {
                irql::set(2);
                call(std::ptr::without_provenance_mut(0x1000));
            });
            let bugcheck = driver.verifier().bugcheck().unwrap();
            assert!(bugcheck.reason.starts_with(&format!("{name} at IRQL 2")), "{bugcheck}");
        };
        told("ExAcquireFastMutex", |mutex| ex_acquire_fast_mutex(mutex));
        told("ExTryToAcquireFastMutex", |mutex| {
            ex_try_to_acquire_fast_mutex(mutex);
        });
    }
}

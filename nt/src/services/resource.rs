// UNSAFETY: kernel services with raw arguments.
//! Executive resources. The structure is the driver's, of 104 bytes, and nothing of it is read: what there is to know is kept with the driver.
//! [wdm: ExInitializeResourceLite, ExAcquireResourceSharedLite, ExAcquireResourceExclusiveLite, ExReleaseResourceLite]

use std::ffi::c_void;
use std::sync::Arc;

use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL};
use wddm_ddi::status::{NTSTATUS, STATUS_SUCCESS};

use super::call::{STOP_CHECK, caller, check_stopped, irql_above, irql_too_high, thread_token};
use super::memory::put;
use super::processor::{ke_enter_critical_region, ke_leave_critical_region};
use crate::bugcheck::Bugcheck;
use crate::driver::{Driver, Export};
use crate::driver_call::{self, calling_instruction, in_service, on_host_stack, stop};
use crate::irql;
use crate::resource::{Acquired, ThreadToken, Wanted};

pub(super) const EXPORTS: &[Export] = &[
    ("ExInitializeResourceLite", || ex_initialize_resource as *const () as usize),
    ("ExReinitializeResourceLite", || ex_reinitialize_resource as *const () as usize),
    ("ExDeleteResourceLite", || ex_delete_resource as *const () as usize),
    ("ExAcquireResourceExclusiveLite", || ex_acquire_exclusive as *const () as usize),
    ("ExAcquireResourceSharedLite", || ex_acquire_shared as *const () as usize),
    ("ExAcquireSharedStarveExclusive", || ex_acquire_shared_first as *const () as usize),
    ("ExConvertExclusiveToSharedLite", || ex_convert_to_shared as *const () as usize),
    ("ExReleaseResourceLite", || ex_release as *const () as usize),
    ("ExReleaseResourceForThreadLite", || ex_release_for_thread as *const () as usize),
    ("ExEnterCriticalRegionAndAcquireResourceExclusive", || ex_enter_and_acquire_exclusive as *const () as usize),
    ("ExEnterCriticalRegionAndAcquireResourceShared", || ex_enter_and_acquire_shared as *const () as usize),
    ("ExReleaseResourceAndLeaveCriticalRegion", || ex_release_and_leave as *const () as usize),
    ("ExIsResourceAcquiredExclusiveLite", || ex_is_acquired_exclusive as *const () as usize),
    ("ExIsResourceAcquiredSharedLite", || ex_is_acquired_shared as *const () as usize),
    ("ExGetExclusiveWaiterCount", || ex_exclusive_waiters as *const () as usize),
    ("ExGetSharedWaiterCount", || ex_shared_waiters as *const () as usize),
];

/// sizeof(ERESOURCE). [wdm]
const RESOURCE_BYTES: usize = 104;
/// Parameter 1 of DRIVER_VERIFIER_DETECTED_VIOLATION: a resource is acquired, or released, while normal kernel APCs are enabled; a thread waits for itself.
/// [debugger: 0xc4]
const ACQUIRED_WITH_APCS: u64 = 0x37;
const RELEASED_WITH_APCS: u64 = 0x38;
const SELF_DEADLOCK: u64 = 0x1000;
/// The same: an address that is not aligned; initialised again; deleted without having been initialised; acquired or released so; deleted while a thread has it.
const UNALIGNED: u64 = 0x3d;
const INITIALIZED_AGAIN: u64 = 0xd0;
const NOTHING_TO_DELETE: u64 = 0xd1;
const UNINITIALIZED: u64 = 0x1002;
const DELETED_WHILE_OWNED: u64 = 0x100b;

fn verifier(violation: u64, resource: *mut c_void, reason: String) -> ! {
    let parameters = [violation, u64::from(irql::current()), 0, resource.addr() as u64];
    stop(Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason))
}

/// As [`verifier`], of a violation whose second parameter is the resource.
fn misused(violation: u64, resource: *mut c_void, reason: String) -> ! {
    let parameters = [violation, resource.addr() as u64, 0, 0];
    stop(Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason))
}

fn unknown(service: &str, resource: *mut c_void, violation: u64) -> ! {
    let which = "which ExInitializeResourceLite has not made or ExDeleteResourceLite has deleted";
    misused(violation, resource, format!("{service} of {resource:p}, {which}"))
}

/// The caller, at a level and in a region where a resource may change hands.
fn checked(service: &'static str, resource: *mut c_void, violation: u64) -> Arc<Driver> {
    let level = irql::current();
    if level > APC_LEVEL {
        stop(irql_too_high(service, resource.addr() as u64));
    }
    if level < APC_LEVEL && !driver_call::in_critical_region() {
        let reason = format!("{service} while normal kernel APCs are enabled (KeEnterCriticalRegion first)");
        verifier(violation, resource, reason);
    }
    caller(service)
}

/// True if there was none at the address.
fn initialize(service: &'static str, resource: *mut c_void) -> bool {
    if irql::current() > DISPATCH_LEVEL {
        stop(irql_above(service, resource.addr() as u64, DISPATCH_LEVEL));
    }
    if !resource.addr().is_multiple_of(8) {
        verifier(UNALIGNED, resource, format!("{service} of {resource:p}: it is aligned to 8 bytes"));
    }
    put(service, resource.cast(), [0_u8; RESOURCE_BYTES]);
    let (driver, from) = (caller(service), calling_instruction());
    on_host_stack(|| driver.resources().initialize(resource.addr(), from))
}

extern "win64" fn ex_initialize_resource(resource: *mut c_void) -> NTSTATUS {
    const NAME: &str = "ExInitializeResourceLite";
    if !initialize(NAME, resource) {
        misused(INITIALIZED_AGAIN, resource, format!("{NAME} of {resource:p}, which is initialised and not deleted"));
    }
    STATUS_SUCCESS
}

/// Of a resource that is initialised. [wdm: ExReinitializeResourceLite]
extern "win64" fn ex_reinitialize_resource(resource: *mut c_void) -> NTSTATUS {
    const NAME: &str = "ExReinitializeResourceLite";
    if initialize(NAME, resource) {
        unknown(NAME, resource, UNINITIALIZED);
    }
    STATUS_SUCCESS
}

extern "win64" fn ex_delete_resource(resource: *mut c_void) -> NTSTATUS {
    const NAME: &str = "ExDeleteResourceLite";
    let driver = caller(NAME);
    match on_host_stack(|| driver.resources().delete(resource.addr())) {
        Some(true) => STATUS_SUCCESS,
        Some(false) => {
            let reason = format!("{NAME} of {resource:p}, which a thread has or waits for");
            misused(DELETED_WHILE_OWNED, resource, reason);
        }
        None => unknown(NAME, resource, NOTHING_TO_DELETE),
    }
}

/// TRUE if the thread has the resource now. Without `wait` it is not waited for.
fn acquire(service: &'static str, resource: *mut c_void, wanted: Wanted, wait: u8) -> u8 {
    let driver = checked(service, resource, ACQUIRED_WITH_APCS);
    let (resources, me) = (driver.resources(), thread_token());
    let _waits = in_service(service);
    loop {
        let acquired = on_host_stack(|| match wait {
            0 => resources.try_acquire(resource.addr(), wanted, me),
            _ => resources.acquire_within(resource.addr(), wanted, me, STOP_CHECK),
        });
        match acquired {
            Acquired::Yes => return 1,
            Acquired::NotNow if wait == 0 => return 0,
            Acquired::NotNow => check_stopped(),
            Acquired::Never if wait == 0 => return 0,
            Acquired::Never => {
                let reason = format!("{service} by a thread that shares the resource, which never gets it alone");
                misused(SELF_DEADLOCK, resource, reason);
            }
            Acquired::Unknown => unknown(service, resource, UNINITIALIZED),
        }
    }
}

extern "win64" fn ex_acquire_exclusive(resource: *mut c_void, wait: u8) -> u8 {
    acquire("ExAcquireResourceExclusiveLite", resource, Wanted::Exclusive, wait)
}

extern "win64" fn ex_acquire_shared(resource: *mut c_void, wait: u8) -> u8 {
    acquire("ExAcquireResourceSharedLite", resource, Wanted::Shared, wait)
}

extern "win64" fn ex_acquire_shared_first(resource: *mut c_void, wait: u8) -> u8 {
    acquire("ExAcquireSharedStarveExclusive", resource, Wanted::SharedFirst, wait)
}

fn not_owned(service: &str, resource: *mut c_void, thread: ThreadToken) -> ! {
    let parameters = [resource.addr() as u64, thread as u64, 0, 0];
    let reason = format!("{service} by a thread that does not have the resource");
    stop(Bugcheck::new(Bugcheck::RESOURCE_NOT_OWNED, parameters, reason))
}

extern "win64" fn ex_convert_to_shared(resource: *mut c_void) {
    const NAME: &str = "ExConvertExclusiveToSharedLite";
    let (driver, me) = (checked(NAME, resource, ACQUIRED_WITH_APCS), thread_token());
    if !on_host_stack(|| driver.resources().convert_to_shared(resource.addr(), me)) {
        not_owned(NAME, resource, me);
    }
}

fn release(service: &'static str, resource: *mut c_void, thread: ThreadToken) {
    let driver = checked(service, resource, RELEASED_WITH_APCS);
    if !on_host_stack(|| driver.resources().release(resource.addr(), thread)) {
        not_owned(service, resource, thread);
    }
}

extern "win64" fn ex_release(resource: *mut c_void) {
    release("ExReleaseResourceLite", resource, thread_token());
}

/// The thread is named by what ExGetCurrentResourceThread answers, the address of its object: only the calling one can be.
extern "win64" fn ex_release_for_thread(resource: *mut c_void, thread: usize) {
    const NAME: &str = "ExReleaseResourceForThreadLite";
    if thread != super::dispatcher::ke_get_current_thread().addr() {
        stop(Bugcheck::fatal(format!(
            "{NAME} for thread {thread:#x}, which is not the one that calls: that is not provided"
        )));
    }
    release(NAME, resource, thread_token());
}

extern "win64" fn ex_enter_and_acquire_exclusive(resource: *mut c_void) -> *mut c_void {
    // SAFETY: no requirements.
    unsafe { ke_enter_critical_region() };
    acquire("ExEnterCriticalRegionAndAcquireResourceExclusive", resource, Wanted::Exclusive, 1);
    std::ptr::null_mut()
}

extern "win64" fn ex_enter_and_acquire_shared(resource: *mut c_void) -> *mut c_void {
    // SAFETY: no requirements.
    unsafe { ke_enter_critical_region() };
    acquire("ExEnterCriticalRegionAndAcquireResourceShared", resource, Wanted::Shared, 1);
    std::ptr::null_mut()
}

extern "win64" fn ex_release_and_leave(resource: *mut c_void) {
    release("ExReleaseResourceAndLeaveCriticalRegion", resource, thread_token());
    // SAFETY: no requirements.
    unsafe { ke_leave_critical_region() };
}

fn held(service: &'static str, resource: *mut c_void) -> (u32, u32) {
    if irql::current() > DISPATCH_LEVEL {
        stop(irql_too_high(service, resource.addr() as u64));
    }
    let driver = caller(service);
    let held = on_host_stack(|| driver.resources().held_by(resource.addr(), thread_token()));
    held.unwrap_or_else(|| unknown(service, resource, UNINITIALIZED))
}

/// TRUE if the thread has it alone.
extern "win64" fn ex_is_acquired_exclusive(resource: *mut c_void) -> u8 {
    (held("ExIsResourceAcquiredExclusiveLite", resource).0 != 0).into()
}

/// Number of times that the thread has it, in either way.
extern "win64" fn ex_is_acquired_shared(resource: *mut c_void) -> u32 {
    held("ExIsResourceAcquiredSharedLite", resource).1
}

fn waiters(service: &'static str, resource: *mut c_void, wanted: Wanted) -> u32 {
    let driver = caller(service);
    on_host_stack(|| driver.resources().waiting(resource.addr(), wanted))
}

extern "win64" fn ex_exclusive_waiters(resource: *mut c_void) -> u32 {
    waiters("ExGetExclusiveWaiterCount", resource, Wanted::Exclusive)
}

extern "win64" fn ex_shared_waiters(resource: *mut c_void) -> u32 {
    waiters("ExGetSharedWaiterCount", resource, Wanted::Shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C, align(8))]
    struct Place([u8; RESOURCE_BYTES]);

    fn run<T>(driver: &Arc<Driver>, call: impl FnOnce(*mut c_void) -> T) -> Option<T> {
        let mut place = Place([0xff; RESOURCE_BYTES]);
        driver_call::run(driver, "a function", || {
            let resource = (&raw mut place).cast();
            assert_eq!(ex_initialize_resource(resource), STATUS_SUCCESS);
            call(resource)
        })
        .0
    }

    fn in_region<T>(call: impl FnOnce() -> T) -> T {
        // SAFETY: no requirements.
        unsafe { ke_enter_critical_region() };
        let result = call();
        // SAFETY: no requirements.
        unsafe { ke_leave_critical_region() };
        result
    }

    #[test]
    fn a_resource_is_taken_and_given_back_in_a_critical_region() {
        let driver = Driver::for_tests("owner");
        run(&driver, |resource| {
            in_region(|| {
                assert_eq!((ex_acquire_exclusive(resource, 1), ex_acquire_shared(resource, 0)), (1, 1));
                assert_eq!((ex_is_acquired_exclusive(resource), ex_is_acquired_shared(resource)), (1, 2));
                ex_release(resource);
                ex_convert_to_shared(resource);
                assert_eq!((ex_is_acquired_exclusive(resource), ex_is_acquired_shared(resource)), (0, 1));
                assert_eq!(ex_acquire_exclusive(resource, 0), 0, "it is shared, by the thread itself");
                ex_release(resource);
            });
            ex_enter_and_acquire_shared(resource);
            ex_release_and_leave(resource);
            assert_eq!(ex_is_acquired_shared(resource), 0);
            assert_eq!(ex_delete_resource(resource), STATUS_SUCCESS);
        })
        .unwrap();
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    #[test]
    fn a_thread_waits_until_another_gives_the_resource_back() {
        let driver = Driver::for_tests("waiter");
        run(&driver, |resource| {
            let at = resource.expose_provenance();
            in_region(|| ex_acquire_exclusive(resource, 1));
            let waiter = std::thread::spawn({
                let driver = Arc::clone(&driver);
                move || {
                    driver_call::run(&driver, "another function", || {
                        let resource = std::ptr::with_exposed_provenance_mut(at);
                        in_region(|| {
                            let first = ex_acquire_shared(resource, 0);
                            let second = ex_acquire_shared(resource, 1);
                            ex_release(resource);
                            (first, second)
                        })
                    })
                    .0
                }
            });
            while ex_shared_waiters(resource) == 0 {
                std::thread::yield_now();
            }
            in_region(|| ex_release(resource));
            assert_eq!(waiter.join().expect("the waiter ends"), Some((0, 1)));
        })
        .unwrap();
    }

    /// A mistake, the bug check that it is, and parameter 1 of that.
    type Mistake = (fn(*mut c_void), u32, Option<u64>);

    fn expect(mistakes: &[Mistake]) {
        for (number, (mistake, code, first)) in mistakes.iter().enumerate() {
            let driver = Driver::for_tests("breaker");
            assert!(run(&driver, mistake).is_none(), "{number}");
            let bugcheck = driver.verifier().bugcheck().unwrap();
            assert_eq!(bugcheck.code, *code, "{number}: {bugcheck}");
            assert!(first.is_none_or(|first| bugcheck.parameters[0] == first), "{number}: {bugcheck}");
        }
    }

    #[test]
    fn a_resource_is_aligned_initialised_once_and_deleted_once() {
        let again = |resource| {
            let _ = ex_initialize_resource(resource);
        };
        let unaligned = |resource: *mut c_void| {
            let _ = ex_initialize_resource(resource.wrapping_byte_add(4));
        };
        let deleted_again = |resource| {
            let _ = ex_delete_resource(resource);
            let _ = ex_delete_resource(resource);
        };
        let deleted = |resource| {
            let _ = ex_delete_resource(resource);
            in_region(|| ex_acquire_exclusive(resource, 1));
        };
        expect(&[
            (again, 0xc4, Some(INITIALIZED_AGAIN)),
            (unaligned, 0xc4, Some(UNALIGNED)),
            (deleted_again, 0xc4, Some(NOTHING_TO_DELETE)),
            (deleted, 0xc4, Some(UNINITIALIZED)),
        ]);
    }

    #[test]
    fn what_breaks_the_rules_of_resources_stops_the_machine() {
        let upgrades = |resource| {
            in_region(|| {
                ex_acquire_shared(resource, 1);
                ex_acquire_exclusive(resource, 1)
            });
        };
        let deletes = |resource| {
            in_region(|| ex_acquire_exclusive(resource, 1));
            let _ = ex_delete_resource(resource);
        };
        expect(&[
            (|resource| assert_eq!(ex_acquire_shared(resource, 1), 1), 0xc4, Some(ACQUIRED_WITH_APCS)),
            (|resource| ex_release(resource), 0xc4, Some(RELEASED_WITH_APCS)),
            (|resource| in_region(|| ex_release(resource)), 0xe3, None),
            (upgrades, 0xc4, Some(SELF_DEADLOCK)),
            (deletes, 0xc4, Some(DELETED_WHILE_OWNED)),
        ]);
    }

    #[test]
    fn a_resource_that_is_left_is_found_when_the_driver_is_unloaded() {
        let driver = Driver::for_tests("leaver");
        run(&driver, |_| ()).unwrap();
        driver.check_unloaded();
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert_eq!(bugcheck.code, 0xce);
        assert!(bugcheck.reason.contains("1 executive resource(s) not deleted"), "{bugcheck}");
    }
}

//! Tests of what threads wait for.

use super::*;
use crate::driver::Driver;
use crate::{driver_call, irql};

/// Space for any of the objects.
#[repr(C, align(8))]
struct Object([u8; 64]);

impl Object {
    fn at(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut((&raw const *self).expose_provenance())
    }
}

fn object() -> Box<Object> {
    Box::new(Object([0xcc; 64]))
}

static NOW: LARGE_INTEGER = LARGE_INTEGER { QuadPart: 0 };

fn poll(object: *mut c_void) -> NTSTATUS {
    ke_wait_for_single_object(object, 0, 0, 0, &raw const NOW)
}

/// Releases two of a semaphore.
fn release(semaphore: *mut c_void) -> i32 {
    // SAFETY: the address is looked up.
    unsafe { ke_release_semaphore(semaphore, 0, 2, 0) }
}

fn let_go(mutex: *mut c_void) -> i32 {
    // SAFETY: as above.
    unsafe { ke_release_mutex(mutex, 0) }
}

fn run<R>(driver: &Arc<Driver>, call: impl FnOnce() -> R) -> Option<R> {
    driver_call::run(driver, "a function", call).0
}

#[test]
fn objects_that_were_never_initialised_stop_the_machine_with_service_and_address() {
    type Use = fn(*mut c_void);
    let uses: [(Use, &str); 8] = [
        (
            |at| {
                let _ = ke_set_event(at, 0, 0);
            },
            "KeSetEvent",
        ),
        (
            |at| {
                let _ = ke_reset_event(at);
            },
            "KeResetEvent",
        ),
        (|at| ke_clear_event(at), "KeClearEvent"),
        (
            |at| {
                let _ = ke_pulse_event(at, 0, 0);
            },
            "KePulseEvent",
        ),
        (
            |at| {
                let _ = release(at);
            },
            "KeReleaseSemaphore",
        ),
        (
            |at| {
                let _ = let_go(at);
            },
            "KeReleaseMutex",
        ),
        (
            |at| {
                let _ = poll(at);
            },
            "KeWaitForSingleObject",
        ),
        (
            |at| {
                let both = [at; 2];
                let _ =
                    ke_wait_for_multiple_objects(2, both.as_ptr(), 0, 0, 0, 0, &raw const NOW, std::ptr::null_mut());
            },
            "KeWaitForMultipleObjects",
        ),
    ];
    for (misuse, service) in uses {
        for fill in [0, 0xcc] {
            let (driver, object) = (Driver::for_tests("never"), Object([fill; 64]));
            assert_eq!(run(&driver, || misuse(object.at())), None, "{service}");
            let bugcheck = driver.verifier().bugcheck().unwrap();
            let address = object.at().addr() as u64;
            assert_eq!((bugcheck.code, bugcheck.parameters), (0xc4, [UNINITIALIZED, address, 0, 0]), "{bugcheck}");
            assert!(bugcheck.reason.starts_with(&format!("{service} of {address:#x}, which KeInitialize")));
            assert!(bugcheck.reason.ends_with(", in a function"), "{bugcheck}");
        }
    }
}

#[test]
fn a_synchronization_event_lets_one_wait_through_and_a_notification_event_all() {
    let driver = Driver::for_tests("events");
    run(&driver, || {
        let (one, all) = (object(), object());
        ke_initialize_event(one.at(), 1, 0);
        ke_initialize_event(all.at(), 0, 0);
        assert_eq!((one.0[0], one.0[2], all.0[0]), (1, 6, 0));
        assert_eq!((poll(one.at()), poll(all.at())), (STATUS_TIMEOUT, STATUS_TIMEOUT));
        assert_eq!((ke_set_event(one.at(), 0, 0), ke_set_event(one.at(), 0, 0)), (0, 1));
        ke_set_event(all.at(), 0, 0);
        assert_eq!([poll(one.at()), poll(one.at())], [STATUS_SUCCESS, STATUS_TIMEOUT]);
        assert_eq!([poll(all.at()), poll(all.at())], [STATUS_SUCCESS, STATUS_SUCCESS]);
        assert_eq!((ke_reset_event(all.at()), ke_read_state(all.at())), (1, 0));
    })
    .unwrap();
}

#[test]
fn a_wait_ends_when_another_thread_sets_the_event() {
    let driver = Driver::for_tests("waits");
    let event = object();
    run(&driver, || ke_initialize_event(event.at(), 1, 0)).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| run(&driver, || ke_wait_for_single_object(event.at(), 0, 0, 0, std::ptr::null())));
        run(&driver, || ke_set_event(event.at(), 0, 0)).unwrap();
        assert_eq!(waiter.join().unwrap(), Some(STATUS_SUCCESS));
    });
}

#[test]
fn several_objects_are_waited_for_one_or_all() {
    let driver = Driver::for_tests("several");
    run(&driver, || {
        let (first, second) = (object(), object());
        ke_initialize_event(first.at(), 1, 0);
        ke_initialize_semaphore(second.at(), 1, 2);
        let list = [first.at(), second.at()];
        let wait = |kind| ke_wait_for_multiple_objects(2, list.as_ptr(), kind, 0, 0, 0, &raw const NOW, list[0]);
        assert_eq!(wait(0), STATUS_TIMEOUT, "the semaphore keeps its count");
        assert_eq!(wait(1), NTSTATUS(1));
        assert_eq!(ke_read_state(second.at()), 0);
        assert_eq!(release(second.at()), 0);
        ke_set_event(first.at(), 0, 0);
        assert_eq!(wait(0), STATUS_SUCCESS);
        assert_eq!((ke_read_state(first.at()), ke_read_state(second.at())), (0, 1));
    })
    .unwrap();
}

#[test]
fn a_thread_has_wait_blocks_for_three_objects() {
    let (driver, event) = (Driver::for_tests("blocks"), object());
    let list = [event.at(); 4];
    let wait = |count, blocks| ke_wait_for_multiple_objects(count, list.as_ptr(), 1, 0, 0, 0, &raw const NOW, blocks);
    run(&driver, || {
        ke_initialize_event(event.at(), 0, 1);
        assert_eq!([wait(3, std::ptr::null_mut()), wait(4, event.at())], [STATUS_SUCCESS; 2]);
    })
    .unwrap();
    assert_eq!(run(&driver, || wait(4, std::ptr::null_mut())), None);
    let bugcheck = driver.verifier().bugcheck().unwrap();
    assert_eq!(bugcheck.code, 0xc, "{bugcheck}");
    assert!(bugcheck.reason.contains("4 objects without WaitBlockArray, at most 3"), "{bugcheck}");
}

#[test]
fn a_mutex_is_acquired_again_by_its_owner_alone() {
    let driver = Driver::for_tests("mutex");
    let mutex = object();
    run(&driver, || {
        ke_initialize_mutex(mutex.at(), 0);
        assert_eq!([poll(mutex.at()), poll(mutex.at())], [STATUS_SUCCESS; 2]);
    })
    .unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(&driver, || poll(mutex.at())));
        assert_eq!(other.join().unwrap(), Some(STATUS_TIMEOUT));
    });
    run(&driver, || {
        assert_eq!([let_go(mutex.at()), let_go(mutex.at())], [-1, 0]);
        assert_eq!(ke_read_state(mutex.at()), 1);
    })
    .unwrap();
    assert_eq!(run(&driver, || let_go(mutex.at())), None);
    let bugcheck = driver.verifier().bugcheck().unwrap();
    assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x1e, u64::from(STATUS_MUTANT_NOT_OWNED)));
}

#[test]
fn waiting_at_dispatch_level_and_releasing_too_much_stop_the_machine() {
    let driver = Driver::for_tests("raised");
    let event = object();
    let result = run(&driver, || {
        ke_initialize_event(event.at(), 1, 0);
        irql::set(DISPATCH_LEVEL);
        assert_eq!(poll(event.at()), STATUS_TIMEOUT, "without a timeout it does not wait");
        ke_wait_for_single_object(event.at(), 0, 0, 0, std::ptr::null())
    });
    assert_eq!(result, None);
    assert_eq!(driver.verifier().bugcheck().unwrap().code, Bugcheck::IRQL_NOT_LESS_OR_EQUAL);
    let driver = Driver::for_tests("too much");
    let result = run(&driver, || {
        ke_initialize_semaphore(event.at(), 1, 2);
        release(event.at())
    });
    assert_eq!(result, None);
    assert_eq!(driver.verifier().bugcheck().unwrap().parameters[0], u64::from(STATUS_SEMAPHORE_LIMIT_EXCEEDED));
}

#[test]
fn a_wait_ends_with_the_machine() {
    let driver = Driver::for_tests("stopped");
    driver.verifier().raise(Bugcheck::fatal("another reason"));
    let event = object();
    let result = run(&driver, || {
        ke_initialize_event(event.at(), 1, 0);
        ke_wait_for_single_object(event.at(), 0, 0, 0, std::ptr::null())
    });
    assert_eq!(result, None);
}

/// A mutex disables normal kernel APCs as a critical region does, and is released by the call that acquired it. [wdm: KeReleaseMutex]
#[test]
fn a_call_that_returns_with_a_mutex_has_not_left_what_it_entered() {
    let driver = Driver::for_tests("mutex");
    let mutex = object();
    let acquire = || {
        ke_initialize_mutex(mutex.at(), 0);
        (poll(mutex.at()), poll(mutex.at()))
    };
    let (_, leftovers) = driver_call::run(&driver, "a function", || {
        let _ = acquire();
        (let_go(mutex.at()), let_go(mutex.at()))
    });
    assert_eq!(leftovers.mutex, None);
    let (_, leftovers) = driver_call::run(&driver, "a function", || {
        let _ = acquire();
        let_go(mutex.at())
    });
    assert_eq!(
        leftovers.mutex,
        Some(format!("mutex {:#x}, which it has acquired and not released", mutex.at().addr()))
    );
    leftovers.check("a function", driver.verifier());
    let bugcheck = driver.verifier().bugcheck().unwrap();
    assert_eq!(bugcheck.code, Bugcheck::APC_INDEX_MISMATCH);
    assert!(bugcheck.reason.contains("a function returned with mutex 0x"), "{bugcheck}");
    let (_, leftovers) = driver_call::run(&driver, "a function", || ());
    assert_eq!(leftovers.mutex, None, "it is told once");
}

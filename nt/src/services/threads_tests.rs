//! Tests of threads, DPCs and timers.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

#[repr(C, align(8))]
struct Object([u8; 64]);

fn object() -> *mut c_void {
    Box::into_raw(Box::new(Object([0xcc; 64]))).cast()
}

fn run<R>(driver: &Arc<Driver>, call: impl FnOnce() -> R) -> R {
    driver_call::run(driver, "a function", call).0.unwrap()
}

unsafe extern "win64" fn count(counter: *mut c_void) {
    // SAFETY: the tests pass a counter that lives.
    let counter = unsafe { &*counter.cast::<AtomicUsize>() };
    counter.fetch_add(1, Ordering::SeqCst);
}

unsafe extern "win64" fn count_at_dispatch(_: *mut c_void, counter: *mut c_void, by: *mut c_void, _: *mut c_void) {
    // SAFETY: as above.
    let counter = unsafe { &*counter.cast::<AtomicUsize>() };
    counter.fetch_add(by.addr() + 100 * usize::from(irql::current()), Ordering::SeqCst);
}

fn counter() -> &'static AtomicUsize {
    Box::leak(Box::new(AtomicUsize::new(0)))
}

fn at(counter: &'static AtomicUsize) -> *mut c_void {
    std::ptr::from_ref(counter).cast_mut().cast()
}

/// The handle of a system thread that counts.
fn counting(counter: &'static AtomicUsize) -> *mut c_void {
    let (mut handle, none) = (std::ptr::null_mut(), std::ptr::null_mut());
    let start = count as *const () as usize;
    let status = ps_create_system_thread(&raw mut handle, 0, none, none, none.cast(), start, at(counter));
    assert_eq!(status, STATUS_SUCCESS);
    handle
}

#[test]
fn a_thread_that_is_not_the_drivers_own_cannot_be_ended_by_it() {
    let driver = Driver::for_tests("entry");
    driver_call::run(&driver, "DriverEntry", || ps_terminate_system_thread(STATUS_SUCCESS));
    let bugcheck = driver.verifier().bugcheck().expect("the machine says why it has stopped");
    assert!(bugcheck.reason.contains("PsTerminateSystemThread in DriverEntry"), "{bugcheck}");
}

/// The routine that a thread began in must not be left with a mutex, and so the thread must not. [kernel: introduction to mutex objects]
#[test]
fn a_system_thread_that_ends_with_a_mutex_leaves_others_waiting() {
    let driver = Driver::for_tests("mutex");
    driver_call::run(&driver, SYSTEM_THREAD, || {
        driver_call::hold_mutex(0x1000, 0);
        ps_terminate_system_thread(STATUS_SUCCESS)
    });
    let bugcheck = driver.verifier().bugcheck().expect("the machine says why it has stopped");
    assert_eq!((bugcheck.code, bugcheck.parameters[2]), (Bugcheck::APC_INDEX_MISMATCH, 0xffff), "{bugcheck}");
    assert!(bugcheck.reason.contains("holds mutex 0x1000"), "{bugcheck}");
}

#[test]
fn a_system_thread_is_waited_for_by_its_object() {
    let driver = Driver::for_tests("threads");
    let counter = counter();
    run(&driver, || {
        let (mut thread, none, handle) = (std::ptr::null_mut(), std::ptr::null_mut(), counting(counter));
        let status = ob_reference_object_by_handle(handle, 0, none, 0, &raw mut thread, none);
        assert_eq!(status, STATUS_SUCCESS);
        assert!(driver.deferred().lock().close(handle.addr()));
        let ended = dispatcher::wait_for_tests(thread);
        assert_eq!((ended, counter.load(Ordering::SeqCst)), (STATUS_SUCCESS, 1));
        assert_eq!(driver.deferred().lock().dereference(thread.addr()), Some(0));
    });
    assert_eq!(driver.verifier().bugcheck(), None);
}

#[test]
fn references_to_threads_that_are_left_are_told_when_the_driver_is_unloaded() {
    let driver = Driver::for_tests("references");
    let counter = counter();
    let _ = run(&driver, || {
        let (mut thread, none, handle) = (std::ptr::null_mut(), std::ptr::null_mut(), counting(counter));
        let _ = ob_reference_object_by_handle(handle, 0, none, 0, &raw mut thread, none);
        assert!(driver.deferred().lock().close(handle.addr()));
        dispatcher::wait_for_tests(thread)
    });
    driver.check_unloaded();
    assert_eq!(driver.verifier().bugcheck(), None, "it is no leak that Driver Verifier looks for");
    let told = driver.verifier().log_lines().concat();
    assert!(told.contains("driver references was unloaded with 1 reference(s)"), "{told}");
}

#[test]
fn a_thread_is_waited_for_by_its_handle_and_a_tag_changes_nothing() {
    let driver = Driver::for_tests("handles");
    let counter = counter();
    run(&driver, || {
        let (mut thread, none, handle) = (std::ptr::null_mut(), std::ptr::null_mut(), counting(counter));
        let status = ob_reference_object_by_handle_with_tag(handle, 0, none, 0, 7, &raw mut thread, none);
        assert_eq!((status, driver.deferred().lock().reference(thread.addr())), (STATUS_SUCCESS, Some(2)));
        let waited = zw_wait_for_single_object(handle, 0, std::ptr::null());
        assert_eq!((waited, counter.load(Ordering::SeqCst)), (STATUS_SUCCESS, 1));
        let mut state = driver.deferred().lock();
        assert_eq!((state.dereference(thread.addr()), state.dereference(thread.addr())), (Some(1), Some(0)));
        assert!(state.close(handle.addr()));
        drop(state);
        let waited = zw_wait_for_single_object(handle, 0, std::ptr::null());
        assert_eq!(waited, STATUS_INVALID_HANDLE, "of a handle that is closed");
    });
    assert_eq!(driver.verifier().bugcheck(), None);
}

#[test]
fn a_dpc_is_queued_once_and_runs_at_dispatch_level() {
    let driver = Driver::for_tests("dpcs");
    let (counter, dpc) = (counter(), object());
    run(&driver, || {
        ke_initialize_dpc(dpc, count_at_dispatch as *const () as usize, at(counter).expose_provenance());
        assert_eq!(ke_insert_queue_dpc(dpc, 7, 0), 1);
        ke_flush_queued_dpcs();
        assert_eq!(counter.load(Ordering::SeqCst), 207);
        assert_eq!(ke_remove_queue_dpc(dpc), 0);
    });
}

#[test]
fn a_dpc_that_is_queued_at_dispatch_level_runs_when_the_level_falls_below_it() {
    let driver = Driver::for_tests("raised");
    let (raised, other, dpcs) = (counter(), counter(), [object(), object()].map(|dpc| dpc.expose_provenance()));
    let begin = |dpc, counter| {
        let dpc = pointer(dpc);
        ke_initialize_dpc(dpc, count_at_dispatch as *const () as usize, at(counter).expose_provenance());
        assert_eq!(ke_insert_queue_dpc(dpc, 1, 0), 1);
    };
    run(&driver, || {
        irql::set(DISPATCH_LEVEL);
        begin(dpcs[0], raised);
        // One of another processor, which comes behind it in the queue, has run.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                run(&driver, || {
                    begin(dpcs[1], other);
                    while other.load(Ordering::SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                });
            });
        });
        assert_eq!(raised.load(Ordering::SeqCst), 0, "the level is still DISPATCH_LEVEL");
        assert_eq!(ke_insert_queue_dpc(pointer(dpcs[0]), 1, 0), 0, "it is in the queue");
        irql::set(irql::DEVICE_LEVEL);
        irql::set(DISPATCH_LEVEL);
        assert_eq!(raised.load(Ordering::SeqCst), 0, "the level was never below");
        irql::set(0);
        ke_flush_queued_dpcs();
        assert_eq!(raised.load(Ordering::SeqCst), 201);
    });
    assert_eq!(driver.verifier().bugcheck(), None);
}

#[test]
fn a_timer_queues_its_dpc_and_ends_waits_and_one_that_is_cancelled_does_not() {
    let driver = Driver::for_tests("timers");
    let (counter, dpc, timer) = (counter(), object(), object());
    run(&driver, || {
        ke_initialize_dpc(dpc, count_at_dispatch as *const () as usize, at(counter).expose_provenance());
        ke_initialize_timer(timer);
        let far = LARGE_INTEGER { QuadPart: -10_000_000_000 };
        assert_eq!([ke_set_timer(timer, far, 0), ke_set_timer(timer, far, 0)], [0, 1]);
        assert_eq!([ke_cancel_timer(timer), ke_cancel_timer(timer)], [1, 0]);
        ke_set_timer(timer, LARGE_INTEGER { QuadPart: -10 }, dpc.expose_provenance());
        assert_eq!(dispatcher::wait_for_tests(timer), STATUS_SUCCESS);
        while counter.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        ke_flush_queued_dpcs();
        assert_eq!(ke_cancel_timer(timer), 0, "it has expired");
    });
}

#[test]
fn a_driver_that_leaves_a_timer_set_is_found_when_it_is_unloaded() {
    let driver = Driver::for_tests("leaves");
    let timer = object();
    run(&driver, || {
        ke_initialize_timer(timer);
        ke_set_timer(timer, LARGE_INTEGER { QuadPart: -10_000_000_000 }, 0);
    });
    driver.check_unloaded();
    let bugcheck = driver.verifier().bugcheck().unwrap();
    assert_eq!((bugcheck.code, bugcheck.parameters), (0xc7, [0, timer.addr() as u64, 0, 0]), "{bugcheck}");
}

#[test]
fn a_driver_that_leaves_a_thread_running_is_found_by_its_routine_when_it_is_unloaded() {
    static GO: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "win64" fn waits(_: *mut c_void) {
        while GO.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
    let driver = Driver::for_tests("running");
    run(&driver, || {
        let mut handle = std::ptr::null_mut();
        let (none, start) = (std::ptr::null_mut(), waits as *const () as usize);
        let _ = ps_create_system_thread(&raw mut handle, 0, none, none, std::ptr::null_mut(), start, none);
    });
    driver.check_unloaded();
    GO.store(1, Ordering::SeqCst);
    let bugcheck = driver.verifier().bugcheck().unwrap();
    let routine = waits as *const () as u64;
    assert_eq!((bugcheck.code, bugcheck.parameters), (0xce, [routine, 0, routine, 0]), "{bugcheck}");
    assert!(bugcheck.reason.contains("1 thread(s) or work item(s) running, of which the first is a system thread"));
}

#[test]
fn pool_is_not_freed_while_a_timer_a_dpc_or_a_work_item_in_it_is_under_way() {
    const TAG: u32 = 1;
    type Begin = fn(*mut c_void);
    let far = || LARGE_INTEGER { QuadPart: -10_000_000_000 };
    let cases: [(Begin, [u64; 2]); 3] = [
        (
            |at| {
                ke_initialize_timer(at);
                ke_set_timer(at, LARGE_INTEGER { QuadPart: -10_000_000_000 }, 0);
            },
            [0xc7, 0],
        ),
        (
            |at| {
                irql::set(DISPATCH_LEVEL);
                ke_initialize_dpc(at, count_at_dispatch as *const () as usize, 0);
                ke_insert_queue_dpc(at, 0, 0);
            },
            [0xc7, 1],
        ),
        (
            |at| {
                let _ = caller("a test").deferred().lock().work_items.insert(at.addr(), 0);
            },
            [0xe4, 0],
        ),
    ];
    for (begin, [code, kind]) in cases {
        let driver = Driver::for_tests("frees");
        let block = driver.pool().allocate(0x40, 128, TAG).unwrap();
        let inside = block.wrapping_byte_add(16);
        driver_call::run(&driver, "a function", || {
            begin(inside);
            if let Err(bugcheck) = driver.free_pool(block, TAG) {
                stop(bugcheck);
            }
        });
        let bugcheck = driver.verifier().bugcheck().unwrap();
        let [first, last] = [block.addr(), block.addr() + 128].map(|at| at as u64);
        assert_eq!(u64::from(bugcheck.code), code, "{bugcheck}");
        assert_eq!(bugcheck.parameters, [kind, inside.addr() as u64, first, last], "{bugcheck}");
    }
    let driver = Driver::for_tests("cancels");
    let block = driver.pool().allocate(0x40, 128, TAG).unwrap();
    let freed = run(&driver, || {
        ke_initialize_timer(block);
        ke_set_timer(block, far(), 0);
        ke_cancel_timer(block);
        driver.free_pool(block, TAG)
    });
    assert!(freed.is_ok(), "a timer that is cancelled is none any more");
}

/// "Pointer to an initialized timer object", and for one that is in no queue "no operation is performed": zeros are in no queue. [wdm: KeCancelTimer]
#[test]
fn a_timer_of_zeros_is_not_cancelled_and_that_is_told() {
    let driver = Driver::for_tests("zeros");
    let object: *mut c_void = Box::into_raw(Box::new(Object([0; 64]))).cast();
    let (answer, _) = driver_call::run(&driver, "DxgkDdiStopDevice", || ke_cancel_timer(object));
    assert_eq!((answer, driver.verifier().bugcheck()), (Some(0), None));
    let told = driver.verifier().log_lines().join("\n");
    for part in [&format!("KeCancelTimer of {object:p}"), "KeInitializeTimer has not initialised", "DxgkDdiStopDevice"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn timers_and_dpcs_that_were_never_initialised_stop_the_machine() {
    type Use = fn(*mut c_void);
    let uses: [Use; 3] = [
        |at| {
            let _ = ke_set_timer(at, LARGE_INTEGER { QuadPart: -10 }, 0);
        },
        |at| {
            let _ = ke_cancel_timer(at);
        },
        |at| {
            let _ = ke_insert_queue_dpc(at, 0, 0);
        },
    ];
    for (number, misuse) in uses.into_iter().enumerate() {
        for fill in [0, 0xcc] {
            // In no queue, and nothing else is asked of KeCancelTimer.
            if (number, fill) == (1, 0) {
                continue;
            }
            let driver = Driver::for_tests("never");
            let object: *mut c_void = Box::into_raw(Box::new(Object([fill; 64]))).cast();
            driver_call::run(&driver, "a function", || misuse(object));
            let bugcheck = driver.verifier().bugcheck().expect("the machine stops");
            let first = [u64::from(bugcheck.code), bugcheck.parameters[0], bugcheck.parameters[1]];
            assert_eq!(first, [0xc4, 0x1002, object.addr() as u64], "{number}: {bugcheck}");
        }
    }
}

#[test]
fn a_wrong_call_is_told_of_the_service_that_was_called() {
    let told = |name: &str, call: fn(*mut c_void)| {
        let driver = Driver::for_tests("names");
        let mut memory = [0_u64; 16];
        let place: *mut c_void = memory.as_mut_ptr().cast();
        assert_eq!(driver_call::run(&driver, "a function", || call(place)).0, None, "{name}");
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert!(bugcheck.reason.split_whitespace().any(|word| word == name), "{name}: {bugcheck}");
    };
    told("KeSetTimer", |timer| {
        ke_set_timer(timer, LARGE_INTEGER { QuadPart: -1 }, 0);
    });
    told("KeSetTimerEx", |timer| {
        ke_set_timer_ex(timer, LARGE_INTEGER { QuadPart: -1 }, 0, 0);
    });
    told("KeSetCoalescableTimer", |timer| {
        ke_set_coalescable_timer(timer, LARGE_INTEGER { QuadPart: -1 }, 0, 0, 0);
    });
    told("PsCreateSystemThread", |place| {
        let _ = ps_create_system_thread(place.cast(), 0, place, place, std::ptr::null_mut(), 0, place);
    });
}

//! Tests of the watch over calls into drivers.

use super::*;
use crate::driver::Driver;
use crate::driver_call;

const ALLOTMENT: Allotment = Allotment { passive: 10, raised: 5 };

/// Looks at the calls of a driver so often, and expects that nothing is done about them.
fn look(driver: &Driver, times: u32) {
    for time in 0..times {
        assert_eq!(driver.verifier().calls().look(ALLOTMENT), Next::Look, "look {time}");
    }
    assert_eq!(driver.verifier().bugcheck(), None);
}

/// Looks once more: what the machine stops with.
fn stop(driver: &Driver) -> Bugcheck {
    let Next::Stop(bugcheck) = driver.verifier().calls().look(ALLOTMENT) else { panic!("the machine stops") };
    driver.verifier().raise(bugcheck.clone());
    bugcheck
}

fn enter<'a>(driver: &'a Arc<Driver>, name: &'static str) -> UnderWay<'a> {
    driver.enter_call(name)
}

#[test]
fn limits_are_looks_and_half_as_many_at_raised_levels() {
    for (limit, looks) in [(300_000, (3000, 1500)), (1000, (10, 5)), (250, (2, 1)), (100, (1, 1)), (0, (1, 1))] {
        let allotment = Allotment::new(Duration::from_millis(limit));
        assert_eq!((allotment.passive, allotment.raised), looks, "{limit} ms");
    }
    assert_eq!(Allotment::new(Duration::MAX).passive, u32::MAX);
}

#[test]
fn a_call_below_dispatch_level_that_is_found_too_often_is_a_stuck_thread() {
    let driver = Driver::for_tests("late");
    let call = enter(&driver, "DxgkDdiStartDevice");
    look(&driver, 9);
    let bugcheck = stop(&driver);
    assert_eq!((bugcheck.code, bugcheck.parameters), (0xea, [thread_id() as u64, 0, 0, 1]));
    assert_eq!(bugcheck.reason, "DxgkDdiStartDevice of driver late has not returned for 1.0 s, at IRQL 0");
    drop(call);
}

#[test]
fn calls_of_a_second_are_told_with_the_callback_that_they_are_in_and_after_their_return() {
    let driver = Driver::for_tests("slow");
    let calls = driver.verifier().calls();
    let outer = enter(&driver, "DxgkDdiStartDevice");
    let inside = in_service("DxgkCbSynchronizeExecution");
    look(&driver, 9);
    assert_eq!(calls.slow(), [""; 0], "not yet a second");
    let inner = enter(&driver, "DxgkDdiDpcRoutine");
    let waits = in_service("KeStallExecutionProcessor");
    (0..3).for_each(|_| drop(calls.look(Allotment::new(Duration::from_secs(60)))));
    let told = ["DxgkDdiStartDevice of driver slow has not returned for 1.2 s, at IRQL 0"];
    assert_eq!(calls.slow(), told, "what it is in is what the inner call belongs to");
    drop(waits);
    drop(inner);
    assert_eq!(calls.slow(), [format!("{}: it is in DxgkCbSynchronizeExecution", told[0])]);
    drop(inside);
    drop(outer);
    assert_eq!(calls.slow(), ["DxgkDdiStartDevice took a second or longer 1 times, the longest time 1.2 s"]);
}

#[test]
fn a_call_at_dispatch_level_or_above_may_be_found_half_as_often() {
    for level in [DISPATCH_LEVEL, irql::DEVICE_LEVEL] {
        let driver = Driver::for_tests("late");
        let _raised = irql::Raised::to(level);
        let call = enter(&driver, "DxgkDdiDpcRoutine");
        look(&driver, 4);
        let bugcheck = stop(&driver);
        assert_eq!((bugcheck.code, bugcheck.parameters), (0x133, [0, 5, 5, 0]));
        let reason = format!("DxgkDdiDpcRoutine of driver late has not returned for 0.5 s, at IRQL {level}");
        assert_eq!(bugcheck.reason, reason);
        drop(call);
    }
}

#[test]
fn a_call_that_raises_its_level_may_not_stay_there() {
    let driver = Driver::for_tests("raises");
    let call = enter(&driver, "DxgkDdiEscape");
    for _ in 0..2 {
        irql::set(DISPATCH_LEVEL);
        look(&driver, 3);
        irql::set(0);
        look(&driver, 1);
    }
    drop(call);
    let call = enter(&driver, "DxgkDdiEscape");
    irql::set(DISPATCH_LEVEL);
    look(&driver, 4);
    let bugcheck = stop(&driver);
    assert_eq!((bugcheck.code, bugcheck.parameters), (0x133, [1, 5, 0, 0]));
    assert!(bugcheck.reason.contains("not returned to a level below DISPATCH_LEVEL for 0.5 s"), "{bugcheck}");
    irql::set(0);
    drop(call);
}

/// An access to a register that is under way, of an instruction at 0x1234.
const ACCESS: pending::Access =
    pending::Access { number: 0, bar: 0, offset: 8, size: 4, writes: false, instruction: 0x1234 };

#[test]
fn the_place_of_a_call_that_is_late_is_looked_up_without_the_lock_that_every_call_takes() {
    let driver = Driver::for_tests("symbols");
    let calls: Arc<Calls> = Arc::default();
    let (name, asked) = (Arc::<str>::from("symbols"), Arc::new(AtomicU64::new(0)));
    let places: Places = Arc::new({
        let (calls, asked) = (Arc::clone(&calls), Arc::clone(&asked));
        move |address| {
            assert_eq!(address, 0x1234);
            assert!(calls.0.try_lock().is_some(), "the lock of all calls is held while symbols are read");
            asked.fetch_add(1, Ordering::Relaxed);
            let (function, file, line) = (Some("waits".to_owned()), None, None);
            Some(CodeLocation { module: "toy".to_owned(), rva: 0x34, function, file, line, callers: Vec::new() })
        }
    });
    let call = calls.enter(&name, Some(places), "DxgkDdiStartDevice");
    pending::during(ACCESS, || {
        for _ in 0..9 {
            assert_eq!(calls.look(ALLOTMENT), Next::Look);
        }
        assert_eq!(calls.look(ALLOTMENT), Next::Retry);
    });
    let place = calls.verdict().and_then(|bugcheck| bugcheck.place);
    assert_eq!(place.and_then(|place| place.function).as_deref(), Some("waits"));
    assert_eq!(asked.load(Ordering::Relaxed), 1, "it is looked up once");
    drop(call);
    assert_eq!(driver.verifier().bugcheck(), None);
}

#[test]
fn a_call_that_returns_while_its_place_is_looked_up_is_not_late() {
    let calls: Arc<Calls> = Arc::default();
    let (name, gone) = (Arc::<str>::from("returns"), Arc::new(AtomicU64::new(0)));
    let places: Places = Arc::new({
        let (calls, gone) = (Arc::clone(&calls), Arc::clone(&gone));
        move |_| {
            lock(&calls.0).calls.clear();
            gone.fetch_add(1, Ordering::Relaxed);
            None
        }
    });
    let call = calls.enter(&name, Some(places), "DxgkDdiEscape");
    let looks: Vec<Next> = pending::during(ACCESS, || (0..10).map(|_| calls.look(ALLOTMENT)).collect());
    assert_eq!((looks, calls.verdict()), (vec![Next::Look; 10], None));
    assert_eq!(gone.load(Ordering::Relaxed), 1, "its place was looked up once");
    drop(call);
}

#[test]
fn slow_calls_that_return_in_time_do_nothing_however_many_there_are() {
    let driver = Driver::for_tests("slow");
    for _ in 0..3 {
        let outer = enter(&driver, "DxgkDdiStartDevice");
        look(&driver, 4);
        let inner = enter(&driver, "DxgkDdiQueryAdapterInfo");
        look(&driver, 5);
        drop(inner);
        drop(outer);
        look(&driver, 20);
    }
}

#[test]
fn who_is_inside_a_call_that_is_late_is_counted_by_itself() {
    let driver = Driver::for_tests("nested");
    let outer = enter(&driver, "DxgkDdiStartDevice");
    look(&driver, 9);
    let inner = enter(&driver, "the callback");
    assert!(stop(&driver).reason.starts_with("DxgkDdiStartDevice of driver nested"));
    drop(inner);
    drop(outer);
    assert_eq!(driver.verifier().calls().verdict(), stopped(&driver));
    assert_eq!(driver.verifier().calls().look(ALLOTMENT), Next::Look);
    assert_eq!(driver.verifier().calls().verdict(), None, "the call has returned");
}

fn stopped(driver: &Driver) -> Option<Bugcheck> {
    driver.verifier().bugcheck()
}

#[test]
fn the_process_ends_when_a_late_call_does_not_return_within_the_grace_period() {
    let driver = Driver::for_tests("stuck");
    let calls = driver.verifier().calls();
    let call = enter(&driver, "DxgkDdiStopDevice");
    look(&driver, 9);
    let bugcheck = stop(&driver);
    for _ in 1..GRACE {
        assert_eq!(calls.look(ALLOTMENT), Next::Retry);
    }
    assert_eq!(calls.look(ALLOTMENT), Next::End(bugcheck));
    drop(call);
    assert_eq!(calls.look(ALLOTMENT), Next::Look, "a call that returned late is not looked at");
}

#[test]
fn a_call_that_is_to_end_ends_when_its_service_returns() {
    for ends in [false, true] {
        let driver = Driver::for_tests("in-service");
        let mut after_inner = 0;
        let (result, _) = driver_call::run(&driver, "DxgkDdiEscape", || {
            look(&driver, 9);
            let bugcheck = stop(&driver);
            let number = SEAT.with(|seat| seat.inside.load(Ordering::Relaxed));
            SEAT.with(|seat| seat.ending.store(if ends { number } else { number - 1 }, Ordering::Relaxed));
            driver_call::on_host_stack(|| {
                // The caller may have a lock.
                driver_call::on_host_stack(|| ());
                after_inner += 1;
                bugcheck
            })
        });
        assert_eq!(after_inner, 1);
        assert_eq!(result, (!ends).then(|| stopped(&driver)).flatten());
        assert!(!is_ending(), "a call that comes next on this thread is no part of it");
    }
}

#[test]
fn a_call_is_late_on_a_machine_that_has_stopped_for_another_reason_too() {
    let driver = Driver::for_tests("after");
    driver.verifier().raise(Bugcheck::fatal("another reason"));
    let call = enter(&driver, "DxgkDdiResetDevice");
    for _ in 0..9 {
        assert_eq!(driver.verifier().calls().look(ALLOTMENT), Next::Look);
    }
    let next = driver.verifier().calls().look(ALLOTMENT);
    assert!(matches!(next, Next::Stop(bugcheck) if bugcheck.code == 0xea));
    assert_eq!(stopped(&driver), Some(Bugcheck::fatal("another reason")));
    drop(call);
}

// UNSAFETY: accesses that fault, which the tests are about.
//! Calls that are abandoned, and faults of nobody.

use super::*;
use crate::bus::trap::TrapRange;
use crate::bus::{Bar, Bus, InterruptSink};
use crate::ram::Ram;

/// A function that answers nothing.
struct NoFunction;

impl Bus for NoFunction {
    fn name(&self) -> String {
        "none".into()
    }
    fn config_read(&self, _: u16, _: u8) -> u32 {
        !0
    }
    fn config_write(&self, _: u16, _: u8, _: u32) {}
    fn bar(&self, _: u8) -> Option<Bar> {
        None
    }
    fn register_read(&self, _: u8, _: u64, _: u8) -> u64 {
        !0
    }
    fn register_write(&self, _: u8, _: u64, _: u8, _: u64) {}
    fn connect_interrupts(&self, _: u16, _: Arc<dyn InterruptSink>) -> io::Result<()> {
        Ok(())
    }
    fn disconnect_interrupts(&self) {}
    fn map_memory(&self, _: &Arc<Ram>) -> io::Result<()> {
        Ok(())
    }
    fn unmap_memory(&self, _: &Ram) {}
}

#[test]
fn an_abandoned_call_returns_nothing_and_layers_are_left_in_order() {
    let driver = Driver::for_tests("nested");
    let mut order = Vec::new();
    let (outer, _) = run(&driver, "a function", || {
        let (inner, _) = run(&driver, "a function", || -> u32 { abandon("inner") });
        order.push(("inner", inner));
        abandon("outer");
    });
    assert_eq!(outer, None::<()>);
    assert_eq!(order, [("inner", None)]);
    assert!(!is_inside());
}

#[test]
fn a_call_that_returns_reports_what_it_left_raised() {
    let driver = Driver::for_tests("raised");
    let (result, leftovers) = run(&driver, "a function", || {
        irql::set(2);
        enter_critical_region();
        hold_push_lock(0x1000);
        7
    });
    assert_eq!(result, Some(7));
    assert_eq!(
        leftovers,
        Leftovers {
            irql: Some((0, 2)),
            critical_regions: 1,
            push_lock: Some(0x1000),
            mutex: None,
            spin_lock: None,
            downwards: false
        }
    );
    assert_eq!(irql::current(), 0);
    assert!(!in_critical_region());
}

/// Runs this test again in a process that faults, which is `fault`, and returns what that said.
fn said_by(test: &str, fault: impl FnOnce()) -> Option<String> {
    const CHILD: &str = "CAMPANILE_FAULT_OF_NOBODY";
    if std::env::var_os(CHILD).is_some() {
        prepare().expect("handlers");
        fault();
        return None;
    }
    let program = std::env::current_exe().expect("a test has a path");
    let name = format!("driver_call::tests::{test}");
    let output = std::process::Command::new(program).args([&name, "--exact"]).env(CHILD, "1").output();
    let output = output.expect("the test starts");
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(libc::SIGSEGV), "{output:?}");
    Some(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn read_nothing() {
    let nowhere = std::ptr::without_provenance::<u64>(std::hint::black_box(0x40));
    // SAFETY: none; the process is here to end by this.
    std::hint::black_box(unsafe { nowhere.read_volatile() });
}

#[test]
fn a_fault_that_cannot_be_told_from_the_kernels_own_names_the_call_it_is_in() {
    let test = "a_fault_that_cannot_be_told_from_the_kernels_own_names_the_call_it_is_in";
    let call = || {
        let _ = run(&Driver::for_tests("wild"), "DxgkDdiEscape", read_nothing);
    };
    let Some(said) = said_by(test, call) else { return };
    assert!(said.contains("*** SIGSEGV at instruction 0x"), "{said}");
    assert!(said.contains("address 0x40, inside DxgkDdiEscape of driver wild, "), "{said}");
}

#[test]
fn a_fault_in_a_process_that_no_driver_image_ran_in_is_nobody_elses_business() {
    let test = "a_fault_in_a_process_that_no_driver_image_ran_in_is_nobody_elses_business";
    let Some(said) = said_by(test, read_nothing) else { return };
    assert!(!said.contains("***"), "{said}");
}

#[test]
fn an_access_after_the_mapping_ended_stops_the_machine_and_not_the_process() {
    const MARK: &str = "DXGKRNL_TEST_ENDED_MAPPING";
    const DONE: i32 = 42;
    if std::env::var_os(MARK).is_none() {
        // Another test of this process could have mapped memory at the address by the time of the access.
        let test = "driver_call::tests::an_access_after_the_mapping_ended_stops_the_machine_and_not_the_process";
        let program = std::env::current_exe().expect("a test has a path");
        let status = std::process::Command::new(program).args([test, "--exact"]).env(MARK, "1").status();
        assert_eq!(status.expect("the test starts").code(), Some(DONE));
        return;
    }
    let range = TrapRange::new(Arc::new(NoFunction), 0, 0, 0x2000).unwrap();
    let address = range.address();
    drop(range);
    let driver = Driver::for_tests("stray");
    // SAFETY: the fault that this causes is what the test is about.
    let (result, _) = run(&driver, "a function", || unsafe { address.cast::<u32>().read_volatile() });
    assert_eq!(result, None);
    assert_eq!(driver.verifier().bugcheck().unwrap().code, 0x50);
    std::process::exit(DONE);
}

#[test]
fn a_call_that_returns_with_the_direction_flag_set_breaks_the_calling_convention_and_the_flag_is_cleared() {
    extern "win64" fn returns_downwards() -> u32 {
        // SAFETY: what the function does to the flag is what the test is about; nothing of it is done after this.
        unsafe { std::arch::asm!("std", options(nomem, nostack, preserves_flags)) };
        7
    }
    let driver = Driver::for_tests("downwards");
    let (result, leftovers) = run(&driver, "a function", || returns_downwards());
    assert!(!clear_direction(), "the flag is clear again");
    assert_eq!(result, Some(7));
    leftovers.check("a function", driver.verifier());
    let bugcheck = driver.verifier().bugcheck().unwrap();
    assert!(bugcheck.reason.contains("a function returned with the direction flag set"), "{bugcheck}");
}

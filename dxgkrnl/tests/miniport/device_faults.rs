//! A driver image that makes a mistake after DriverEntry: in a DDI, at device level, with a lock that others wait for, in a callback.
//!
//! The image is `tests/images/faulty`, which `cargo xtask pe` builds. The line of each mistake there ends with its name as a mark.

use std::path::Path;
use std::time::Duration;

use crate::minimal::FakeBus;
use dxgkrnl::verifier::{Bugcheck, SpecialPool};
use dxgkrnl::{DriverImage, Machine, MachineConfig, StartError};

/// A file of the repository. Images are built by a task of their own; their absence is a failure, not a reason to pass.
fn file(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a member of the workspace").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask pe` first", path.display()))
}

/// Number of the line of the image's sources that ends with this mark.
fn line_of(mark: &str) -> u32 {
    let end = format!("// {mark}");
    let source = String::from_utf8(file("tests/images/faulty/src/device.rs")).unwrap();
    let position = source.lines().position(|line| line.ends_with(&end));
    position.unwrap_or_else(|| panic!("no line with the mark {mark}")) as u32 + 1
}

/// Starts a device under the driver, which stops the machine; then the process still boots another with a sound driver.
fn stop(name: &str, special_pool: SpecialPool) -> Bugcheck {
    stop_on(name, MachineConfig { special_pool, ..MachineConfig::default() })
}

fn stop_on(name: &str, config: MachineConfig) -> Bugcheck {
    let machine = Machine::new(MachineConfig { ram: 64 << 20, ..config }).unwrap();
    let device = machine.plug_in(FakeBus::new(crate::minimal::SOUND.class));
    let [bytes, symbols] = ["sys", "pdb"].map(|extension| file(&format!("target/pe/test/faulty.{extension}")));
    let image = DriverImage::Pe { name: name.into(), bytes, symbols: Some(symbols) };
    let driver = machine.load_driver(image).unwrap_or_else(|error| panic!("{name}: {error}"));
    let error = machine.start(device, driver).expect_err("the driver never starts");
    let StartError::Stopped(Some(bugcheck)) = error else { panic!("{name}: {error}") };
    drop(machine);
    let next = crate::minimal::Bench::new(crate::minimal::SOUND).unwrap();
    let luid = next.start().unwrap_or_else(|error| panic!("after {name}: {error}"));
    next.machine.remove(luid).unwrap();
    bugcheck
}

/// The bugcheck is at the marked line of this function.
fn check_place(name: &str, function: &str, mark: &str, bugcheck: &Bugcheck) {
    let place = bugcheck.place.as_deref().unwrap_or_else(|| panic!("{name}: {bugcheck}"));
    assert_eq!((place.module.as_str(), place.line), (name, Some(line_of(mark))), "{bugcheck}");
    let found = place.function.as_deref().unwrap_or("?");
    assert!(found.contains(&format!("::{function}")), "{bugcheck}");
}

#[test]
fn a_fault_in_a_ddi_is_a_bugcheck_at_its_line() {
    let bugcheck = stop("in-add-device", SpecialPool::Off);
    assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x1e, 0xc000_0005), "{bugcheck}");
    check_place("in-add-device", "in_add_device", "in-add-device", &bugcheck);
}

#[test]
fn a_fault_in_the_interrupt_routine_tells_its_level() {
    let bugcheck = stop("in-isr", SpecialPool::Off);
    assert_eq!((bugcheck.code, &bugcheck.parameters[..3]), (0xd1, &[0, 5, 1][..]), "{bugcheck}");
    check_place("in-isr", "in_isr", "in-isr", &bugcheck);
}

#[test]
fn a_fault_in_a_synchronized_routine_ends_the_ddi_below_too() {
    let bugcheck = stop("in-synchronized", SpecialPool::Off);
    assert_eq!((bugcheck.code, &bugcheck.parameters[..3]), (0xd1, &[0x7fff_ffff_f120, 5, 0][..]), "{bugcheck}");
    check_place("in-synchronized", "routine", "in-synchronized", &bugcheck);
}

#[test]
fn a_fault_with_a_spin_lock_held_releases_the_thread_that_waits_for_it() {
    let bugcheck = stop("in-dpc-with-lock", SpecialPool::Off);
    assert_eq!((bugcheck.code, &bugcheck.parameters[..3]), (0xd1, &[0, 2, 1][..]), "{bugcheck}");
    check_place("in-dpc-with-lock", "in_dpc_with_lock", "in-dpc-with-lock", &bugcheck);
}

#[test]
fn a_bad_pointer_in_a_callback_is_a_bugcheck_at_the_call() {
    for (name, special_pool, code) in [
        ("bad-callback", SpecialPool::Off, 0x50),
        ("freed-argument", SpecialPool::Off, 0xcc),
        ("freed-argument", SpecialPool::VerifyEnd, 0xcc),
        ("short-argument", SpecialPool::Off, 0xcd),
        ("short-argument", SpecialPool::VerifyEnd, 0xcd),
    ] {
        let bugcheck = stop(name, special_pool);
        assert_eq!(bugcheck.code, code, "{name}: {bugcheck}");
        assert!(bugcheck.reason.starts_with("DxgkCbGetDeviceInformation with a"), "{name}: {bugcheck}");
        assert!(bugcheck.reason.contains(&format!("driver {name}")), "{bugcheck}");
        check_place(name, "information", "callback", &bugcheck);
    }
}

#[test]
fn special_pool_finds_a_service_that_is_given_a_freed_block() {
    let bugcheck = stop("freed-in-service", SpecialPool::VerifyEnd);
    assert_eq!((bugcheck.code, bugcheck.parameters[1]), (0xcc, 1), "{bugcheck}");
    assert!(bugcheck.reason.starts_with("memset with a bad pointer"), "{bugcheck}");
    assert_eq!(bugcheck.place.as_deref().and_then(|place| place.line), Some(line_of("freed-in-service")), "{bugcheck}");
}

/// As [`stop`], of a driver that does not return from the call `ddi`, on a machine where a call may take two seconds.
fn loops(name: &str, ddi: &str) -> Bugcheck {
    let bugcheck = stop_on(name, MachineConfig { driver_limit: Duration::from_secs(2), ..MachineConfig::default() });
    assert!(bugcheck.reason.starts_with(&format!("{ddi} of driver {name} has not returned for ")), "{bugcheck}");
    bugcheck
}

#[test]
fn a_start_that_loops_is_interrupted_at_its_line() {
    let bugcheck = loops("loop-in-start", "DxgkDdiStartDevice");
    assert_eq!((bugcheck.code, &bugcheck.parameters[1..]), (0xea, &[0, 0, 1][..]), "{bugcheck}");
    check_place("loop-in-start", "loop_in_start", "loop-in-start", &bugcheck);
}

#[test]
fn an_interrupt_routine_that_loops_is_interrupted_at_its_line() {
    let bugcheck = loops("loop-in-isr", "DxgkDdiInterruptRoutine");
    assert_eq!((bugcheck.code, bugcheck.parameters), (0x133, [0, 10, 10, 0]), "{bugcheck}");
    assert!(bugcheck.reason.ends_with("at IRQL 5"), "{bugcheck}");
    check_place("loop-in-isr", "loop_in_isr", "loop-in-isr", &bugcheck);
}

#[test]
fn a_dpc_that_polls_a_register_for_ever_is_interrupted_although_each_access_is_carried_out_in_a_handler() {
    let bugcheck = loops("loop-in-dpc", "DxgkDdiDpcRoutine");
    assert_eq!((bugcheck.code, bugcheck.parameters), (0x133, [0, 10, 10, 0]), "{bugcheck}");
    let function = bugcheck.place.as_deref().and_then(|place| place.function.as_deref()).unwrap_or("?");
    assert!(function.contains("::loop_in_dpc"), "{bugcheck}");
}

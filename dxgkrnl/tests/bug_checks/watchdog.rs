//! Drivers that do not return from a call.
//!
//! A driver that is linked into the process cannot be interrupted, so each of these returns when the test has seen the machine stop.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dxgkrnl::bus::Bus;
use dxgkrnl::verifier::Bugcheck;
use dxgkrnl::{LoadError, MachineConfig, StartError};
use wddm_ddi::types::{BOOLEAN, LUID, NTSTATUS, PDRIVER_OBJECT, UNICODE_STRING};

use crate::minimal::bus::{MONITORED, REPORT};
use crate::minimal::{Bench, Mutant, SOUND, driver};

type Outcome = Option<(Bugcheck, [u64; 3])>;

/// Looks of the watchdog that may find a call at DISPATCH_LEVEL, with the limit of [`config`].
const RAISED_LOOKS: u64 = 10;
/// Parameters 2 to 4 of THREAD_STUCK_IN_DEVICE_DRIVER.
const STUCK_THREAD: [u64; 3] = [0, 0, 1];

/// A machine whose calls may take two seconds, or as long as others may if nothing is wrong: a busy host must not look like a driver that loops.
fn config(breaks: bool) -> MachineConfig {
    let config = MachineConfig { ram: 64 << 20, interrupt_thread: false, ..MachineConfig::default() };
    let limit = if breaks { Duration::from_secs(2) } else { config.driver_limit };
    MachineConfig { driver_limit: limit, ..config }
}

/// Keeps a driver in a function until it is opened.
struct Gate(AtomicBool);

impl Gate {
    const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    fn pass(&self) {
        while !self.0.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Runs what comes to this gate in a driver. A driver that breaks the rule passes when the machine has stopped, and `meanwhile` is done
    /// then before it does.
    fn during<R>(&self, bench: &Bench, breaks: bool, call: impl FnOnce() -> R, meanwhile: impl FnOnce() + Send) -> R {
        self.0.store(!breaks, Ordering::Release);
        std::thread::scope(|scope| {
            let machine = &bench.machine;
            scope.spawn(move || {
                if !breaks {
                    return;
                }
                while machine.bugcheck().is_none() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                meanwhile();
                self.0.store(true, Ordering::Release);
            });
            call()
        })
    }
}

/// The bug check that stopped the machine in the call `name` at a level, and what its parameters must be.
fn outcome(bench: &Bench, name: &str, level: u32, parameters: [u64; 3]) -> Outcome {
    let bugcheck = bench.machine.bugcheck()?;
    let told = format!("{name} of driver minimal has not returned ");
    assert!(bugcheck.reason.starts_with(&told) && bugcheck.reason.ends_with(&format!("at IRQL {level}")), "{bugcheck}");
    let line = format!("*** STOP {bugcheck}");
    assert_eq!(bench.machine.debug_log().iter().filter(|logged| **logged == line).count(), 1, "the log has it once");
    Some((bugcheck, parameters))
}

/// Starts the device of a driver that does not return meanwhile.
fn start(gate: &Gate, breaks: bool, mutant: Mutant, name: &str, level: u32, parameters: [u64; 3]) -> Outcome {
    let bench = Bench::with_config(mutant, config(breaks)).unwrap();
    let started = gate.during(&bench, breaks, || bench.start(), || ());
    match started {
        Ok(luid) => end(&bench, luid),
        Err(error) => assert_eq!(error, StartError::Stopped(bench.machine.bugcheck())),
    }
    outcome(&bench, name, level, parameters)
}

fn end(bench: &Bench, luid: LUID) {
    bench.machine.remove(luid).unwrap();
    bench.machine.unload(bench.driver).unwrap();
}

/// Starts the device and has it interrupt, with a driver that does not return from the interrupt routine or the DPC.
fn interrupt(gate: &Gate, breaks: bool, mutant: Mutant, name: &str, level: u32) -> Outcome {
    let bench = Bench::with_config(mutant, config(breaks)).unwrap();
    gate.0.store(true, Ordering::Release);
    let luid = bench.start().unwrap();
    bench.bus.register_write(0, REPORT, 4, MONITORED.into());
    let machine = bench.machine.clone();
    // Whatever the driver holds, people can look at the machine.
    let look = move || {
        assert!(
            machine.inspect(luid).is_some() && machine.counters(luid).is_some_and(|counters| counters.interrupts > 0)
        );
        assert!(!machine.start_log(luid).is_empty() && machine.holdings(luid).is_some());
    };
    gate.during(&bench, breaks, || bench.machine.deliver_interrupts(), look);
    if !breaks {
        end(&bench, luid);
    }
    outcome(&bench, name, level, [RAISED_LOOKS, RAISED_LOOKS, 0])
}

pub(crate) fn start_device(breaks: bool) -> Outcome {
    static GATE: Gate = Gate::new();
    start(&GATE, breaks, Mutant { in_start: |_| GATE.pass(), ..SOUND }, "DxgkDdiStartDevice", 0, STUCK_THREAD)
}

pub(crate) fn spin_lock(breaks: bool) -> Outcome {
    static GATE: Gate = Gate::new();
    let in_start = |_: &mut driver::Adapter| {
        let mut lock = 0;
        // SAFETY: the lock is of this frame.
        let old = unsafe { (driver::imports().KeAcquireSpinLockRaiseToDpc)(&raw mut lock) };
        GATE.pass();
        // SAFETY: as above.
        unsafe { (driver::imports().KeReleaseSpinLock)(&raw mut lock, old) };
    };
    let mutant = Mutant { in_start, ..SOUND };
    start(&GATE, breaks, mutant, "DxgkDdiStartDevice", 2, [RAISED_LOOKS, 0, 0])
}

pub(crate) fn dpc_routine(breaks: bool) -> Outcome {
    static GATE: Gate = Gate::new();
    interrupt(&GATE, breaks, Mutant { in_dpc: |_| GATE.pass(), ..SOUND }, "DxgkDdiDpcRoutine", 2)
}

/// An interrupt routine that does not return is the same row as a DPC that does not, so it has a test of its own.
#[test]
fn an_interrupt_routine_that_does_not_return_is_named() {
    static GATE: Gate = Gate::new();
    unsafe extern "win64" fn routine(context: *mut c_void, message: u32) -> BOOLEAN {
        GATE.pass();
        // SAFETY: the system's arguments.
        unsafe { driver::interrupt_routine(context, message) }
    }
    let mutant = Mutant { table: |table| table.DxgkDdiInterruptRoutine = Some(routine), ..SOUND };
    let scenario = |breaks| interrupt(&GATE, breaks, mutant, "DxgkDdiInterruptRoutine", 5);
    let (bugcheck, [second, third, fourth]) = scenario(true).expect("the machine goes on");
    assert_eq!((bugcheck.code, bugcheck.parameters), (0x133, [0, second, third, fourth]));
    assert!(scenario(false).is_none(), "the scenario stops the machine without the mistake");
}

static OF_ENTRY: Gate = Gate::new();

unsafe extern "win64" fn slow_entry(object: PDRIVER_OBJECT, path: *mut UNICODE_STRING) -> NTSTATUS {
    OF_ENTRY.pass();
    // SAFETY: the system's arguments.
    unsafe { driver::driver_entry(object, path) }
}

#[test]
fn a_driver_entry_that_does_not_return_is_named() {
    let machine = dxgkrnl::Machine::new(config(true)).unwrap();
    let image = dxgkrnl::DriverImage::Linked { name: "minimal".into(), bind: driver::bind, entry: slow_entry };
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            while machine.bugcheck().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            OF_ENTRY.0.store(true, Ordering::Release);
        });
        machine.load_driver(image).unwrap_err()
    });
    let bugcheck = machine.bugcheck();
    assert_eq!(error, LoadError::Stopped(bugcheck.clone()));
    let bugcheck = bugcheck.expect("the machine has stopped");
    assert_eq!((bugcheck.code, &bugcheck.parameters[1..]), (0xea, &STUCK_THREAD[..]));
    assert!(bugcheck.reason.starts_with("DriverEntry of driver minimal has not returned for 2.0 s"), "{bugcheck}");
}

/// Never returns, whatever becomes of the machine.
unsafe extern "win64" fn endless_entry(_: PDRIVER_OBJECT, _: *mut UNICODE_STRING) -> NTSTATUS {
    loop {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_linked_driver_that_never_returns_ends_its_process_and_is_named_before() {
    const MARK: &str = "DXGKRNL_TEST_ENDLESS_ENTRY";
    if std::env::var_os(MARK).is_some() {
        dxgkrnl::before_the_process_ends(|reason| eprintln!("last words: {reason}"));
        let machine = dxgkrnl::Machine::new(config(true)).unwrap();
        let image = dxgkrnl::DriverImage::Linked { name: "endless".into(), bind: driver::bind, entry: endless_entry };
        let _ = machine.load_driver(image);
        unreachable!("DriverEntry has returned");
    }
    let name = "watchdog::a_linked_driver_that_never_returns_ends_its_process_and_is_named_before";
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", name, "--nocapture"]).env(MARK, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(dxgkrnl::EXIT_STUCK.into()), "{told}");
    let [stop, end, last] = ["*** STOP THREAD_STUCK_IN_DEVICE_DRIVER 0xEA (", "*** The process ends", "last words: "]
        .map(|line| told.find(line));
    assert!(stop.is_some() && stop < end && end < last, "{told}");
    assert_eq!(
        told.matches("DriverEntry of driver endless has not returned for 2.0 s, at IRQL 0").count(),
        3,
        "{told}"
    );
}

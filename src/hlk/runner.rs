//! Runs a case: boots, attaches, watches the clock, takes down and looks for what was left behind.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::case::{Boot, Case, CaseInfo, Failure};
use super::report::{CaseReport, Status};
use crate::setup::{BusChoice, GpuElsewhere, MachineOptions, SetupError, System};

/// A case takes milliseconds, the longest a few seconds; this is for those that hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Systems for the cases that take one over from each other: as many as such cases ever ran at a time. A case owns its system
/// while it runs; one that fails or hangs does not give it back.
static SHARED: Mutex<Vec<(MachineOptions, System)>> = Mutex::new(Vec::new());

fn shared() -> MutexGuard<'static, Vec<(MachineOptions, System)>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_shared(machine: &MachineOptions) -> Option<System> {
    let mut systems = shared();
    let found = systems.iter().position(|(its, _)| its == machine)?;
    Some(systems.swap_remove(found).1)
}

/// Runs a case to its end, on `machine` unless it brings its own. Panics and cases that never end are failures.
pub fn run(case: &'static CaseInfo, machine: &MachineOptions) -> CaseReport {
    let started = Instant::now();
    let (sender, receiver) = mpsc::channel();
    let machine = machine.clone();
    let patience = super::tdr_storm::patience(case).unwrap_or(PATIENCE);
    let thread = std::thread::Builder::new().name("case".to_owned()).spawn(move || {
        let _ = sender.send(guarded(case, &machine));
    });
    let outcome = match thread {
        Err(error) => Err(Failure::new(format!("host: no thread for the case: {error}"))),
        Ok(thread) => match receiver.recv_timeout(patience) {
            Ok(outcome) => {
                let _ = thread.join();
                outcome
            }
            Err(RecvTimeoutError::Timeout) => Err(Failure::new(format!("did not end within {} s", patience.as_secs()))),
            Err(RecvTimeoutError::Disconnected) => Err(Failure::new("its thread ended without an outcome")),
        },
    };
    let (status, reason) = match outcome {
        Ok(()) => (Status::Passed, None),
        Err(Failure::Unmet(text)) => (Status::Failed, Some(text)),
        Err(Failure::NotApplicable(text)) => (Status::Skipped, Some(text)),
    };
    CaseReport::new(case, status, started.elapsed(), reason)
}

/// Takes the shared systems down.
///
/// # Errors
/// One left something behind or had stopped with a bugcheck.
pub fn release_shared() -> Result<(), SetupError> {
    let systems = std::mem::take(&mut *shared());
    systems.into_iter().map(|(_, system)| system.shutdown()).fold(Ok(()), Result::and)
}

fn guarded(case: &CaseInfo, machine: &MachineOptions) -> Result<(), Failure> {
    catch_unwind(AssertUnwindSafe(|| boot_and_run(case, machine))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Failure::new(format!("panicked: {text}")))
    })
}

fn boot_and_run(case: &CaseInfo, machine: &MachineOptions) -> Result<(), Failure> {
    let options = case.boot.options(machine);
    let bus = match &options.bus {
        Some(bus) => bus,
        None => BusChoice::selected().map_err(Failure::new)?,
    };
    if !options.threads && *bus != BusChoice::Direct {
        return Err(Failure::NotApplicable(
            "it steps its GPU, whose interrupts come by themselves over vfio-user".to_owned(),
        ));
    }
    // A server elsewhere has a GPU of its own choice, and serves one machine at a time, which therefore cannot wait for the next case.
    let elsewhere = bus.is_elsewhere();
    if elsewhere && !case.boot.takes_any_machine() {
        return Err(Failure::NotApplicable("it brings its own GPU, and there is one already".to_owned()));
    }
    if let (Boot::Shared, false) = (case.boot, elsewhere) {
        let mut system = match take_shared(machine) {
            Some(system) => system,
            None => System::boot(&options)?,
        };
        in_process(case, &mut system)?;
        shared().push((machine.clone(), system));
        return Ok(());
    }
    let mut system = System::boot(&options)?;
    let outcome = in_process(case, &mut system);
    // What the case found explains more than what it leaves behind.
    let left = system.shutdown();
    outcome.and(left.map_err(Failure::from))
}

fn in_process(case: &CaseInfo, system: &mut System) -> Result<(), Failure> {
    let process = system.machine().create_process("case");
    let outcome = {
        let _attached = process.attach();
        let mut taken = Case { system, process: std::sync::Arc::clone(&process) };
        let ended = catch_unwind(AssertUnwindSafe(|| (case.run)(&mut taken)));
        ended.unwrap_or_else(|payload| match payload.is::<GpuElsewhere>() {
            true => Err(Failure::NotApplicable("it looks into the GPU, which is in another process".to_owned())),
            false => resume_unwind(payload),
        })
    };
    process.exit();
    match (system.machine().bugcheck(), outcome) {
        (Some(bugcheck), Ok(())) => Err(Failure::new(format!("the machine stopped: {bugcheck}"))),
        (Some(bugcheck), Err(failure)) => Err(Failure::new(format!("{failure}; the machine stopped: {bugcheck}"))),
        (None, outcome) => outcome,
    }
}

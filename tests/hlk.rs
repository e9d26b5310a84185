//! The conformance cases as named tests, on every variant of the GPU that changes what user mode sees; those about fences on every
//! place and address space that fences can have.

use campanile::hlk::{self, CaseInfo, Status};
use campanile::setup::{FenceStorage, MachineOptions};
use libtest_mimic::{Arguments, Failed, Trial};

/// A machine, how the names of its tests end, and which cases it is for.
struct Machine {
    variant: &'static str,
    fences: FenceStorage,
    ending: &'static str,
    wanted: fn(&CaseInfo) -> bool,
}

const MACHINES: [Machine; 6] = [
    Machine::of("default", FenceStorage::System, "", |_| true),
    Machine::of("global-doorbell", FenceStorage::System, " with one doorbell for all queues", takes_any_machine),
    Machine::of(
        "optimised-fence-interrupt",
        FenceStorage::System,
        " with interrupts that name queues",
        takes_any_machine,
    ),
    Machine::of("default", FenceStorage::Local, " with fences in local memory", is_about_fences),
    Machine::of("system-process-fences", FenceStorage::System, " with fences in the paging process", is_about_fences),
    Machine::of(
        "system-process-fences",
        FenceStorage::Local,
        " with fences in local memory and in the paging process",
        is_about_fences,
    ),
];

impl Machine {
    const fn of(
        variant: &'static str,
        fences: FenceStorage,
        ending: &'static str,
        wanted: fn(&CaseInfo) -> bool,
    ) -> Self {
        Self { variant, fences, ending, wanted }
    }
}

/// A case that brings its own machine runs once.
fn takes_any_machine(case: &CaseInfo) -> bool {
    case.boot.takes_any_machine()
}

fn is_about_fences(case: &CaseInfo) -> bool {
    takes_any_machine(case)
        && (case.area.contains("Fence") || ["Fault", "HardwareQueue", "Submission"].contains(&case.area))
}

fn check(case: &'static CaseInfo, machine: &Machine) -> Result<(), Failed> {
    let machine = MachineOptions { variant: machine.variant.parse()?, fences: machine.fences };
    let report = hlk::run(case, &machine);
    let reason = report.reason.unwrap_or_default();
    match report.status {
        Status::Passed => Ok(()),
        Status::Failed => Err(Failed::from(format!("{reason}\nrequirement: {}", case.requirement))),
        // The runner knows no other way to say it; a case that cannot run here must not look like one that passed.
        Status::Skipped => Err(Failed::from(format!("not applicable: {reason}"))),
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for machine in &MACHINES {
        trials.extend(hlk::cases().filter(|case| (machine.wanted)(case)).map(|case| {
            Trial::test(format!("{}{}", case.name, machine.ending), move || check(case, machine)).with_kind(case.area)
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Err(error) = hlk::release_shared() {
        eprintln!("the shared system: {error}");
        std::process::exit(1);
    }
    conclusion.exit();
}

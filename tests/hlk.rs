//! The conformance cases as named tests, on every variant of the GPU that changes what user mode sees; those about fences on every
//! place and address space that fences can have.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use campanile_conformance::registry::cases;
use campanile_conformance::report::Status;
use campanile_conformance::simulated::{release_shared, run};
use campanile_conformance::{CaseInfo, Need};
use libtest_mimic::{Arguments, Failed, Trial};
use testbed::setup::{BusChoice, DriverChoice, Feature, FenceStorage, MachineOptions, Program};

/// A machine, how the names of its tests end, and which cases it is for.
struct Machine {
    variant: &'static str,
    fences: FenceStorage,
    without: &'static [Feature],
    ending: &'static str,
    wanted: fn(&CaseInfo) -> bool,
    bus: Reached,
}

/// The way by which the machine reaches the GPU.
#[derive(Clone, Copy)]
enum Reached {
    /// As the environment says.
    Selected,
    /// Over vfio-user, in this process.
    Here,
    /// Over vfio-user, each GPU in a process of its own.
    There,
    /// Over vfio-user, in a process that serves one case at its socket.
    Elsewhere,
}

const MACHINES: [Machine; 14] = [
    Machine::of("default", FenceStorage::System, "", |_| true),
    Machine::of("global-doorbell", FenceStorage::System, " with one doorbell for all queues", takes_variants),
    Machine::of("optimised-fence-interrupt", FenceStorage::System, " with interrupts that name queues", takes_variants),
    Machine::of("default", FenceStorage::Local, " with fences in local memory", is_about_fences),
    Machine::of("system-process-fences", FenceStorage::System, " with fences in the paging process", is_about_fences),
    Machine::of(
        "system-process-fences",
        FenceStorage::Local,
        " with fences in local memory and in the paging process",
        is_about_fences,
    ),
    Machine::of("notify-doorbells", FenceStorage::System, " with doorbells that nobody polls", rings_and_faults),
    Machine {
        bus: Reached::Here,
        ..Machine::of(
            "notify-doorbells",
            FenceStorage::System,
            " with doorbells that nobody polls, over vfio-user",
            rings_and_faults,
        )
    },
    Machine {
        bus: Reached::Here,
        ..Machine::of("posted-writes", FenceStorage::System, " with posted writes, over vfio-user", comes_and_goes)
    },
    Machine::of("one-fence-event", FenceStorage::System, " with one event for all fences", hears_of_fences),
    Machine::of("cached-host", FenceStorage::System, " on a host that writes no cache back", shares_memory),
    Machine {
        bus: Reached::Here,
        ..Machine::of("default", FenceStorage::System, " over vfio-user", goes_over_vfio_user)
    },
    Machine {
        bus: Reached::There,
        ..Machine::of("default", FenceStorage::System, " on a GPU of another process", is_core_of_another_process)
    },
    Machine {
        bus: Reached::Elsewhere,
        ..Machine::of("default", FenceStorage::System, " on a GPU that is served at a socket", is_core_of_a_socket)
    },
];

impl Machine {
    const fn of(
        variant: &'static str,
        fences: FenceStorage,
        ending: &'static str,
        wanted: fn(&CaseInfo) -> bool,
    ) -> Self {
        Self { variant, fences, ending, wanted, without: &[], bus: Reached::Selected }
    }

    /// A machine whose operating system does not enable these features. It lives as long as the program, as tests do.
    fn without(without: Vec<Feature>) -> Self {
        let ending = format!(" without {}", Feature::names(&without)).leak();
        let machine = Self::of("default", FenceStorage::System, ending, takes_any_features_in_debug_mode);
        Self { without: without.leak(), ..machine }
    }

    /// True for a case that is for this machine and says of itself that it needs nothing which is withheld: one that needs it after all
    /// fails.
    fn takes(&self, case: &CaseInfo) -> bool {
        let lacks = |need| match need {
            Need::Campanile => false,
            Need::HangingCommands => true,
            Need::HardwareScheduling => self.without.contains(&Feature::HardwareScheduling),
            Need::NativeFence => self.without.contains(&Feature::NativeFence),
            Need::UserModeSubmission => !self.without.is_empty(),
            Need::IoCoherency => false,
        };
        (self.wanted)(case) && !case.needs.concat().into_iter().any(lacks)
    }
}

/// A case that brings its own machine runs once.
fn takes_any_machine(case: &CaseInfo) -> bool {
    case.boot.takes_any_machine()
}

fn is_optimised_and_linked() -> bool {
    !cfg!(debug_assertions) && matches!(DriverChoice::selected(), DriverChoice::Linked)
}

/// Not in release mode on the linked driver, where a variant works nothing that other runs do not work as well: the GPU and the operating-system side are those
/// of the run on the Windows images, and the driver is that of the run in debug mode.
fn takes_variants(case: &CaseInfo) -> bool {
    takes_any_machine(case) && !is_optimised_and_linked()
}

fn is_about_fences(case: &CaseInfo) -> bool {
    takes_variants(case)
        && (case.area.contains("Fence") || ["Fault", "HardwareQueue", "Submission"].contains(&case.area))
}

/// Of the cases on any machine those of these areas, all of them short.
fn is_of(case: &CaseInfo, areas: &[&str]) -> bool {
    takes_any_machine(case) && areas.contains(&case.area)
}

/// Where work is found, and where a queue is lost before its work was told.
fn rings_and_faults(case: &CaseInfo) -> bool {
    is_of(case, &["Doorbell", "Fault", "Suspension", "GpuUpdate"])
}

/// Where the driver starts and stops the device, its nodes and its queues.
fn comes_and_goes(case: &CaseInfo) -> bool {
    is_of(case, &["Adapter", "HardwareQueue", "Suspension", "Doorbell"])
}

/// True for cases in which interrupts report fences.
fn hears_of_fences(case: &CaseInfo) -> bool {
    is_of(case, &["NativeFence", "FenceInterrupts", "MonitoredFence"])
}

/// True for cases in which processor and GPU read each other's stores.
fn shares_memory(case: &CaseInfo) -> bool {
    is_of(case, &["Memory", "NativeFence"])
}

/// In debug mode only, as which features are enabled has little to do with how the code was compiled.
fn takes_any_features_in_debug_mode(case: &CaseInfo) -> bool {
    cfg!(debug_assertions) && !case.boot.chooses_features()
}

/// Every case in release mode on the linked driver; elsewhere what a machine does at the bus: starts, stops, interrupts, doorbells, faults.
/// The variable CAMPANILE_BUS has all cases run there.
fn goes_over_vfio_user(case: &CaseInfo) -> bool {
    let core = ["Adapter", "Lifecycle", "NativeFence", "FenceInterrupts", "Fault"].contains(&case.area)
        && !case.name.ends_with("ProcessExitReleasesEverything");
    is_optimised_and_linked() || core
}

/// What two processes do to each other: start, stop, interrupts, doorbells, faults, resets, removal; in debug mode the shortest of it. `cargo xtask test
/// --two-processes` runs every case so.
fn is_core_of_another_process(case: &CaseInfo) -> bool {
    const CORE: [&str; 4] = ["Adapter", "FenceInterrupts", "Linked", "SurpriseRemoval"];
    const MORE: [&str; 6] = ["NativeFence", "Doorbell", "Fault", "TDR", "Power", "FenceStorage"];
    CORE.contains(&case.area) || !cfg!(debug_assertions) && MORE.contains(&case.area)
}

/// A GPU that listens at a socket is of one variant.
fn is_core_of_a_socket(case: &CaseInfo) -> bool {
    case.area == "NativeFence" && takes_any_machine(case)
}

/// `campanile device` with one GPU, killed when dropped.
struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    fn start() -> Result<Self, Failed> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("gpu-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let socket = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let mut process = Command::new(env!("CARGO_BIN_EXE_campanile"))
            .arg("device")
            .arg("--socket")
            .arg(&socket)
            // Cases count interrupts, and an engine that says it is idle sends one.
            .args(["--device-variant", "idle=never"])
            .stderr(Stdio::piped())
            .spawn()?;
        // It says when it listens; the rest of what it says is read by nobody, and fits into the pipe.
        let mut line = String::new();
        if let Some(log) = process.stderr.as_mut() {
            BufReader::new(log).read_line(&mut line)?;
        }
        let server = Self { process, socket };
        if line.contains("listening") { Ok(server) } else { Err(Failed::from(line)) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn check(case: &'static CaseInfo, machine: &Machine) -> Result<(), Failed> {
    let server = match machine.bus {
        Reached::Elsewhere => Some(Server::start()?),
        Reached::Selected | Reached::Here | Reached::There => None,
    };
    let bus = match (machine.bus, &server) {
        (Reached::Here, _) => Some(BusChoice::Served),
        (Reached::There, _) => Some(BusChoice::Process(Program::at(env!("CARGO_BIN_EXE_campanile")))),
        (_, Some(server)) => Some(BusChoice::Sockets(vec![server.socket.clone()])),
        _ => None,
    };
    let (fences, without) = (machine.fences, machine.without.to_vec());
    let machine =
        MachineOptions { variant: machine.variant.parse()?, fences, without, bus, power: None, faults: Vec::new() };
    let report = run(case, &machine);
    let reason = report.reason.unwrap_or_default();
    match report.status {
        Status::Passed => Ok(()),
        Status::Failed => Err(Failed::from(format!("{reason}\nrequirement: {}", case.requirement))),
        // The runner knows no other way to say it; a case that cannot run here must not look like one that passed.
        Status::Skipped => Err(Failed::from(format!("not applicable: {reason}"))),
    }
}

/// Cases wait more than they compute: with two at a time a processor idles a fifth of the time, with four hardly. The command line may say otherwise.
fn threads() -> usize {
    4 * std::thread::available_parallelism().map_or(1, usize::from)
}

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert_with(threads);
    let mut trials = Vec::new();
    let lacking = Feature::subsets().filter(|withheld| !withheld.is_empty()).map(Machine::without);
    let machines: &'static [Machine] = MACHINES.into_iter().chain(lacking).collect::<Vec<_>>().leak();
    for machine in machines {
        trials.extend(cases().filter(|case| machine.takes(case)).map(|case| {
            Trial::test(format!("{}{}", case.name, machine.ending), move || check(case, machine)).with_kind(case.area)
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Err(error) = release_shared() {
        eprintln!("the shared system: {error}");
        std::process::exit(1);
    }
    conclusion.exit();
}

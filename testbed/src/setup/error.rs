//! Errors of booting a machine and of shutting it down.

use std::borrow::Cow;
use std::fmt;

use dxgkrnl::{ImageError, LoadError, PnpError, StartError};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::driver::DriverChoice;
use crate::exit::{EXIT_INPUT, EXIT_MACHINE};

/// Why a machine could not be booted or shut down, and what to do about it. It is printed as `WHAT: CAUSE. ADVICE`, without advice where the cause says all.
#[derive(Debug)]
pub struct SetupError {
    what: &'static str,
    cause: String,
    advice: Cow<'static, str>,
    input: bool,
    log: Vec<String>,
}

impl SetupError {
    pub fn new(what: &'static str, cause: impl fmt::Display, advice: &'static str) -> Self {
        let cause = cause.to_string();
        let advice = exhausted(&cause).map_or(Cow::Borrowed(advice), Cow::Owned);
        Self { what, cause, advice, input: false, log: Vec::new() }
    }

    /// An error whose cause is a file or value that the user named.
    pub(super) fn input(what: &'static str, cause: impl fmt::Display, advice: &'static str) -> Self {
        Self { input: true, ..Self::new(what, cause, advice) }
    }

    /// True if the cause is a file or value that the user named, and not this machine.
    pub fn is_input(&self) -> bool {
        self.input
    }

    /// With what driver and system had said until then.
    pub(super) fn with_log(self, log: Vec<String>) -> Self {
        Self { log, ..self }
    }

    /// What driver and system had said until then, a line each; empty if there was no machine yet.
    pub fn log(&self) -> &[String] {
        &self.log
    }

    /// The exit code that stands for it.
    pub fn exit_code(&self) -> u8 {
        if self.is_input() { EXIT_INPUT } else { EXIT_MACHINE }
    }

    /// The selected driver could not be loaded.
    pub(super) fn load(error: &LoadError) -> Self {
        Self::load_of(DriverChoice::selected(), error)
    }

    /// This driver could not be loaded.
    fn load_of(choice: &DriverChoice, error: &LoadError) -> Self {
        const WHAT: &str = "The driver could not be loaded";
        match (choice, error) {
            (DriverChoice::Linked, _) => Self::new(WHAT, error, ADVICE_RULE),
            (image, LoadError::Stopped(_)) => Self::new(WHAT, format!("{image}: {error}"), ADVICE_LEAK),
            (image, error) => {
                let advice = match error {
                    LoadError::Image(_) if image.is_shipped() => ADVICE_IMAGE,
                    LoadError::Image(ImageError::UnresolvedImports { .. }) => ADVICE_IMPORTS,
                    LoadError::Image(_) => ADVICE_FOREIGN,
                    LoadError::Entry(_) => ADVICE_OWN,
                    _ => ADVICE_ENTRY,
                };
                Self::input(WHAT, format!("{image}: {error}"), advice)
            }
        }
    }

    /// An adapter could not be started. The advice is about a rule only where an answer of the driver is not accepted.
    pub(super) fn start(error: &StartError) -> Self {
        let advice = match error {
            StartError::Stopped(_) => ADVICE_LEAK,
            StartError::AddDevice(_)
            | StartError::StartDevice(_)
            | StartError::Query { .. }
            | StartError::NodeMetadata { .. }
            | StartError::Refused { .. } => ADVICE_OWN,
            StartError::NoSuchDevice
            | StartError::NoSuchDriver
            | StartError::AlreadyStarted
            | StartError::OtherDriver
            | StartError::Pci(_)
            | StartError::Resources(_)
            | StartError::RenderCore { .. } => ADVICE_LOG,
            _ => ADVICE_RULE,
        };
        Self::new("The adapter could not be started", error, advice)
    }

    /// A step of plug and play failed.
    pub(super) fn step(what: &'static str, error: &PnpError) -> Self {
        let advice = if matches!(error, PnpError::Stopped(_)) { ADVICE_LEAK } else { ADVICE_LOG };
        Self::new(what, error, advice)
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.cause)?;
        if self.advice.is_empty() { Ok(()) } else { write!(f, ". {}", self.advice) }
    }
}

impl std::error::Error for SetupError {}

/// What to do about a cause that is a limit of this process or of the host: errors of the host carry their number in their text, and a driver
/// that got no memory answers one of two statuses.
fn exhausted(cause: &str) -> Option<String> {
    let number = cause.rsplit_once("(os error ").and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    let memory = ["STATUS_NO_MEMORY", "STATUS_INSUFFICIENT_RESOURCES"].iter().any(|status| cause.contains(status));
    if memory && number.is_none() && ["DxgkDdi", "DriverEntry"].iter().any(|called| cause.contains(called)) {
        return Some(
            "The driver answered so, for a reason of its own or because a service gave it no memory, which `--log` shows; where the host is short of memory, end \
             programs, or try `--device-variant vram=64M`"
                .to_owned(),
        );
    }
    let error = number.map(Errno::from_raw_os_error).or(memory.then_some(Errno::NOMEM))?;
    let limit = |resource| getrlimit(resource).current;
    Some(match error {
        Errno::MFILE => {
            let most = limit(Resource::Nofile).unwrap_or(u64::MAX);
            format!("This process may have {most} descriptors open; raise `ulimit -n`")
        }
        Errno::FBIG => {
            let most = limit(Resource::Fsize).unwrap_or(u64::MAX) >> 20;
            format!("Files of this process may have {most} MiB, and memory of the machine and of the GPU lies in files; raise `ulimit -f`")
        }
        Errno::NFILE => "The host has no more descriptors; close programs, or raise fs.file-max".to_owned(),
        Errno::AGAIN => match limit(Resource::Nproc) {
            Some(most) => format!("This user may have {most} threads; end some, or raise `ulimit -u`"),
            None => "The host can start no more threads; end programs, or raise kernel.threads-max".to_owned(),
        },
        Errno::NOMEM => match limit(Resource::As) {
            Some(most) => format!(
                "This process may have {} MiB of address space, of which the GPU needs as much as its VRAM; raise `ulimit -v`, or try `--device-variant vram=64M`",
                most >> 20
            ),
            None => "The host has no memory left, or no more mappings for this process (vm.max_map_count); end programs, or try `--device-variant vram=64M`".to_owned(),
        },
        _ => return None,
    })
}

pub(super) const ADVICE_MEMORY: &str =
    "The GPU needs memfd_create and as much address space as its VRAM; try a smaller `--device-variant vram=64M`";
pub(super) const ADVICE_BUS: &str = "Choose `--bus direct` or `--bus vfio-user`, which have the GPU in this process";
pub(super) const ADVICE_SOCKET: &str = "Start the server of the driver's function before this, wait until it listens, and name its socket with `--bus vfio-user=SOCKET`; for this project's GPU the \
     server is `campanile device --socket SOCKET`, for another one docs/porting.md has an example";
pub(super) const ADVICE_PROGRAM: &str =
    "Name a `campanile` of this version, as in `--bus vfio-user-process=PROGRAM`; what it says of the GPU is above";
pub(super) const ADVICE_FUNCTION: &str = "Name a GPU of this project that is bound to vfio-pci on a machine with an IOMMU; `campanile qemu` starts such a machine";
pub(super) const ADVICE_VARIABLE: &str = "Set the environment variable to such a value, or unset it";
pub(super) const ADVICE_IMAGE: &str = "Name an x86-64 driver image (.sys), or build the one of this repository with `cargo xtask pe` and name it with `--driver pe`";
pub(super) const ADVICE_FOREIGN: &str = "Name an x86-64 driver image (.sys) with `--driver`";
pub(super) const ADVICE_IMPORTS: &str = "The document has every function of the kernel that a driver image may import";
pub(super) const ADVICE_ENTRY: &str = "A miniport registers with the graphics kernel in its DriverEntry, as examples/miniport-c/toy.c does; `--log` (CAMPANILE_LOG=1) prints what it said before";
pub(super) const ADVICE_RULE: &str = "The driver and the operating-system side disagree about the rule named here; `--log` (CAMPANILE_LOG=1) prints what both say about it";
pub(super) const ADVICE_OWN: &str = "The status is the driver's own; `--log` (CAMPANILE_LOG=1) prints what it said before, and what it asked of the system";
pub(super) const ADVICE_LOG: &str = "`--log` (CAMPANILE_LOG=1) prints what driver and system said before";
pub(super) const ADVICE_DEFECT: &str =
    "That is a defect of the GPU; what its process wrote to standard error says where";
pub(super) const ADVICE_LEAK: &str =
    "The driver broke its contract; docs/bug-checks.md says which rule a bug check's code and parameters stand for";

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(cause: impl fmt::Display) -> String {
        SetupError::new("It failed", cause, ADVICE_RULE).to_string()
    }

    #[test]
    fn a_limit_of_the_host_is_named_instead_of_a_rule_of_the_contract() {
        let of = |error: Errno| advice(std::io::Error::from_raw_os_error(error.raw_os_error()));
        assert!(of(Errno::MFILE).contains("`ulimit -n`"), "{}", of(Errno::MFILE));
        assert!(of(Errno::FBIG).contains("`ulimit -f`"), "{}", of(Errno::FBIG));
        assert!(of(Errno::AGAIN).contains("threads"), "{}", of(Errno::AGAIN));
        assert!(of(Errno::NOMEM).contains("vram=64M"), "{}", of(Errno::NOMEM));
        assert!(of(Errno::NFILE).contains("fs.file-max"), "{}", of(Errno::NFILE));
        let driver = advice("DxgkDdiStartDevice failed with STATUS_INSUFFICIENT_RESOURCES (0xc000009a)");
        assert!(driver.contains("vram=64M") && driver.contains("The driver answered so"), "{driver}");
        assert!(!driver.contains("The host has no memory left"), "{driver}");
    }

    #[test]
    fn only_an_answer_that_is_not_accepted_is_a_disagreement_about_a_rule() {
        let of = |error: StartError| SetupError::start(&error).to_string();
        let unsuccessful = wddm_ddi::status::STATUS_UNSUCCESSFUL;
        let output = dxgkrnl::OutputSize { offered: 4, version: "WDDM 3.2", newest: 4 };
        for own in [
            StartError::StartDevice(unsuccessful),
            StartError::NodeMetadata { node: 0, status: unsuccessful },
            StartError::Query { query: "DRIVERCAPS", status: unsuccessful, output },
        ] {
            let told = of(own);
            assert!(told.contains("STATUS_UNSUCCESSFUL") && told.contains("the driver's own"), "{told}");
        }
        assert!(of(StartError::Resources("no memory".to_owned())).ends_with(ADVICE_LOG));
        let stopped = dxgkrnl::verifier::Bugcheck::fatal("a rule was broken");
        assert!(of(StartError::Stopped(Some(stopped.clone()))).ends_with(ADVICE_LEAK));
        assert!(of(StartError::NodeCount(65)).ends_with(ADVICE_RULE));
        let step = |error| SetupError::step("It failed", &error).to_string();
        assert!(step(PnpError::Stopped(Box::new(stopped))).ends_with(ADVICE_LEAK));
        assert!(step(PnpError::Busy).ends_with(ADVICE_LOG));
        assert_eq!(SetupError::new("It failed", "it is not there", "").to_string(), "It failed: it is not there");
    }

    #[test]
    fn a_driver_image_of_somebody_else_is_not_told_to_be_built_here() {
        let foreign = DriverChoice::from(std::ffi::OsString::from("toy.sys"));
        let own = DriverChoice::from(std::ffi::OsString::from("pe"));
        let imports = ImageError::UnresolvedImports { first: vec!["ntoskrnl.exe!Nobody".to_owned()], all: 1 };
        let refused = |choice: &DriverChoice, error: LoadError| SetupError::load_of(choice, &error).to_string();
        let told = refused(&foreign, LoadError::Image(imports.clone()));
        assert!(told.contains("toy.sys") && told.contains("ntoskrnl.exe!Nobody"), "{told}");
        assert!(told.contains("[docs/kernel-services.md]") && !told.contains("xtask"), "{told}");
        let broken = ImageError::NotAnImage("it is short".to_owned());
        let told = refused(&foreign, LoadError::Image(broken.clone()));
        assert!(told.contains("Name an x86-64 driver image (.sys)") && !told.contains("xtask"), "{told}");
        assert!(refused(&own, LoadError::Image(broken)).contains("`cargo xtask pe`"));
        let status = wddm_ddi::status::STATUS_UNSUCCESSFUL;
        let told = refused(&foreign, LoadError::Entry(status));
        assert!(told.contains("The status is the driver's own") && told.contains("docs/porting.md"), "{told}");
        for error in [LoadError::NotRegistered, LoadError::Version(0x5023), LoadError::MissingSlot("DxgkDdiAddDevice")]
        {
            let told = refused(&foreign, error);
            assert!(told.contains("docs/porting.md#") && !told.contains("--driver linked"), "{told}");
        }
    }

    #[test]
    fn every_other_cause_keeps_its_advice() {
        assert!(advice("DRIVERCAPS.WDDMVersion is 0").contains(ADVICE_RULE));
        assert!(advice(std::io::Error::from_raw_os_error(Errno::NOENT.raw_os_error())).contains(ADVICE_RULE));
    }
}

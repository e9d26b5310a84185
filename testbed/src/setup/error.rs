//! Why a machine could not be booted or taken down.

use std::fmt;

use dxgkrnl::LoadError;

use crate::driver::DriverChoice;
use crate::exit::{EXIT_INPUT, EXIT_MACHINE};

/// Why a machine could not be booted or taken down, and what to do about it.
#[derive(Debug)]
pub struct SetupError {
    what: &'static str,
    cause: String,
    advice: &'static str,
    input: bool,
}

impl SetupError {
    pub fn new(what: &'static str, cause: impl fmt::Display, advice: &'static str) -> Self {
        Self { what, cause: cause.to_string(), advice, input: false }
    }

    /// A file that was named is at fault.
    pub(super) fn input(what: &'static str, cause: impl fmt::Display, advice: &'static str) -> Self {
        Self { input: true, ..Self::new(what, cause, advice) }
    }

    /// Whether a file that was named as a driver is at fault, and not this machine.
    pub fn is_input(&self) -> bool {
        self.input
    }

    /// The exit code that stands for it.
    pub fn exit_code(&self) -> u8 {
        if self.is_input() { EXIT_INPUT } else { EXIT_MACHINE }
    }

    /// The selected driver could not be loaded.
    pub(super) fn load(error: &LoadError) -> Self {
        const WHAT: &str = "The driver could not be loaded";
        match (DriverChoice::selected(), error) {
            (DriverChoice::Linked, _) => Self::new(WHAT, error, ADVICE_RULE),
            (image, LoadError::Stopped(_)) => Self::new(WHAT, format!("{image}: {error}"), ADVICE_LEAK),
            (image, LoadError::Image(_)) => Self::input(WHAT, format!("{image}: {error}"), ADVICE_IMAGE),
            (image, _) => Self::input(WHAT, format!("{image}: {error}"), ADVICE_ENTRY),
        }
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}. {}", self.what, self.cause, self.advice)
    }
}

impl std::error::Error for SetupError {}

pub(super) const ADVICE_MEMORY: &str = "The GPU needs memfd_create and as much address space as its VRAM; try a smaller \
                             `--device-variant vram=64M`, or raise `ulimit -v`";
pub(super) const ADVICE_BUS: &str = "Choose `direct` or `vfio-user`, which have the GPU in this process";
pub(super) const ADVICE_SOCKET: &str =
    "Start `campanile device --socket PATH`, which serves one machine at a time, and name its socket";
pub(super) const ADVICE_PROGRAM: &str =
    "Name a `campanile` of this version, as in `--bus vfio-user-process=PROGRAM`; what it says of the GPU is above";
pub(super) const ADVICE_FUNCTION: &str = "Name a GPU of this project that is bound to vfio-pci on a machine with an IOMMU; `campanile qemu` starts such a machine";
pub(super) const ADVICE_POOL: &str = "Set the variable to one of these, or leave it unset";
pub(super) const ADVICE_IMAGE: &str = "Name an x86-64 driver image (.sys), or build the one of this repository with `cargo xtask pe` and name it with `--driver pe`";
pub(super) const ADVICE_ENTRY: &str =
    "Name a WDDM 3.2 miniport, which registers with the graphics kernel in its DriverEntry, or take `--driver linked`";
pub(super) const ADVICE_RULE: &str = "The driver and the operating-system side disagree about the rule named here";
pub(super) const ADVICE_DEFECT: &str =
    "That is a defect of the GPU; what its process wrote to standard error says where";
pub(super) const ADVICE_LEAK: &str = "The driver broke its contract; the bugcheck's code and parameters say which rule";

//! The GPU as a PCI function for other processes.

pub mod control;
mod function;
mod msi;

use clap::ValueEnum;

pub use control::{ChildOptions, child_command};
pub use function::{GpuFunction, GpuHeld, Witness};

/// Kind of interrupt messages of a function that is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Messages {
    /// By MSI-X.
    #[default]
    MsiX,
    /// By MSI, for monitors that cannot unplug a function with MSI-X.
    Msi,
}

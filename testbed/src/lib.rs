//! Puts GPU, bus, machine and drivers together.
//!
//! [`setup`] boots a machine with the emulated GPU in it, [`user`] is the user-mode driver of the process, [`device`] serves a GPU to other processes, [`debug`] reads what the
//! driver tells for a report of a timeout. Each
//! module imports only modules that stand above it here.

pub mod debug;
pub mod device;
pub mod driver;
pub mod exit;
pub mod image_file;
pub mod setup;
pub mod user;

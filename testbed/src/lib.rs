//! Puts GPU, bus, machine and drivers together.
//!
//! [`setup`] boots a machine with the emulated GPU in it, [`user`] is the user-mode driver of the process, [`device`] serves a GPU to other processes, [`programs`] serves a machine to them, [`debug`] reads what the
//! driver tells for a report of a timeout. Each
//! module imports only modules that stand above it here.

/// Writes a line to standard error. Unlike `eprintln!` it does not panic when nobody can read it, on a full device for example: there is no other
/// place to say it.
#[macro_export]
macro_rules! complain {
    ($($text:tt)*) => {{
        let _ = ::std::io::Write::write_fmt(&mut ::std::io::stderr(), ::core::format_args!("{}\n", ::core::format_args!($($text)*)));
    }};
}

pub mod debug;
pub mod device;
pub mod driver;
pub mod exit;
pub mod image_file;
pub mod programs;
pub mod setup;
pub mod user;

//! Puts GPU, bus, machine and drivers together.
//!
//! [`setup`] boots a machine with the emulated GPU in it, [`user`] is the user-mode driver of the process, [`device`] serves a GPU to other
//! processes, [`programs`] serves a machine to them, [`debug`] decodes what DxgkDdiCollectDbgInfo wrote. `xtask/layers.toml` has the layers of
//! the modules.

/// Writes a line to standard error. Unlike `eprintln!` it does not panic when the write fails, for example on a full device: there is no other
/// place to report that. A process that [`lines::write_by_thread`] does not wait for those who read it either.
#[macro_export]
macro_rules! complain {
    ($($text:tt)*) => {{
        $crate::lines::say(::core::format_args!($($text)*));
    }};
}

pub mod cipher;
pub mod debug;
pub mod device;
pub mod digest;
pub mod driver;
pub mod exit;
pub mod image_file;
pub mod lines;
pub mod programs;
pub mod sandbox;
pub mod setup;
pub mod user;

//! The command `campanile`: puts GPU, driver and operating-system side together, and drives them.
//!
//! [`setup`] boots a machine with the emulated GPU in it, [`user`] is the user-mode driver of the process, [`run`] streams files
//! through the GPU, [`mod@bench`] measures it and [`hlk`] holds it against the contract. The library exists so that tests use the same parts as the command.

#[macro_use]
extern crate campanile_hlk;

pub mod bench;
pub mod cli;
pub mod clock;
pub mod debug;
pub mod device;
pub mod hlk;
pub mod memory_image;
pub mod qemu;
pub mod run;
pub mod setup;
mod table;
pub mod timeline;
pub mod trace;
pub mod user;

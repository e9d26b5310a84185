//! The command `campanile`: puts GPU, driver and operating-system side together, and drives them.
//!
//! The parts come from [`testbed`]: here [`run`] streams files through the GPU, [`mod@bench`] measures it, [`hlk`] checks it against the contract, [`mod@soak`] has programs work on it for hours, [`qemu`] plugs it into a
//! guest and [`timeline`] draws what happened. The library exists so that tests use the same parts as the command.

#[macro_use]
extern crate campanile_conformance;

pub mod assembly;
pub mod bench;
pub mod cli;
pub mod clock;
pub mod control;
pub mod ctl;
pub mod debug;
pub mod hlk;
pub mod machine;
pub mod memory_image;
mod print;
mod probe;
pub mod qemu;
pub mod run;
pub mod serve;
pub mod soak;
mod table;
pub mod timeline;
pub mod top;
pub mod trace;
pub mod vulkan;

//! What the silicon of the Campanile GPU defines, and what its drivers agree on.
//!
//! The kernel-mode driver, the user-mode driver and the emulated device import these tables and write nothing of the kind
//! themselves. Everything is `no_std`, free of unsafe code, and every table can be printed: `docs/hardware.md` is generated
//! from here.
//!
//! All quantities are little-endian. Sizes are in bytes, addresses are 64-bit.

#![no_std]
#![forbid(unsafe_code)]
#![allow(clippy::result_unit_err, reason = "the checked setters of the bitfield macro have no error to name")]

#[macro_use]
mod table;
pub mod debug;
pub mod doorbell;
pub mod event;
pub mod fence;
pub mod isa;
pub mod log;
pub mod packet;
pub mod page_table;
pub mod pci;
pub mod private;
pub mod queue;
pub mod registers;
pub mod trace;

pub use table::{BitField, Field};

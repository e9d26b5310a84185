//! The hardware interface of the Campanile GPU: registers, queues, packets, page tables, events and logs, and the private data that its two
//! drivers exchange.
//!
//! This is the only definition: kernel-mode driver, user-mode driver and emulated device import it. Everything is `no_std` and free of unsafe
//! code; `docs/hardware.md` is generated from these tables (`cargo xtask docs`).
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
pub mod scheduling_log;
pub mod trace;

pub use table::{BitField, Field};

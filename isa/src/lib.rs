//! Programs of the Campanile GPU as text and as parts: [`assemble`], [`disassemble`], and [`link`] for compilers, which puts functions together and finds
//! the targets of structured control flow.
//!
//! ```text
//! .workgroup 64, 1, 1                ; lanes of a workgroup in three dimensions
//! .function main                     ; the first function is where the program starts
//! .line 12                           ; line of the source that what follows comes from
//!     arguments d0
//!     load.d1 d1, [d0 + 8]
//!     system.global_id_x w0
//!     index d1, d1, w0, 4
//!     cmp.i32.lt_u p0, w0, 100
//!     if p0
//!         store.w1 [d1], w0
//!     end_if
//!     exit
//! ```
//!
//! An operation is followed by its type, its modifier, and scope and order, as far as it has them, separated by dots; then come destination and sources. A constant
//! is a decimal or hexadecimal integer, for floating point also a decimal fraction, with or without an exponent; hexadecimal then stands for the bits. Targets are not written: they follow from the nesting.

#![forbid(unsafe_code)]

pub mod programs;

mod assemble;
mod constant;
mod disassemble;
mod link;
mod name;

pub use assemble::{AssemblyError, assemble};
pub use disassemble::{disassemble, disassemble_instruction};
pub use link::{Function, LinkError, Source, link};

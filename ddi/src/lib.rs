//! The WDDM 3.2 driver interface for Rust: kernel DDIs and callbacks ([`km`]) and the D3DKMT thunks ([`kmt`]).
//!
//! Names are Microsoft's, so that a page, a header and this crate can be searched with the same word. Enumerations are
//! open newtypes (a value from the other side may be anything), flag words are bitfield types, and every structure has the
//! x64 layout of the 10.0.26100 kit; `tests/layout.rs` compares size, alignment, offsets, bits and values with a table of
//! facts. Each item names its page as `[header: NAME]`.
//!
//! Fields that recur mean the same everywhere and are not explained again: `NodeOrdinal` is the node's number, `EngineOrdinal` and
//! `PhysicalAdapterIndex` count physical adapters (0 without linked ones), `EngineAffinity` has a bit for each of them; a size that
//! follows a pointer is in bytes unless the pointer's element says otherwise; `Flags` are described at their type, `Reserved` is
//! zero; `u`, `u1`, `Bits` and the like stand for unions and words that C leaves unnamed. In arguments of the kernel side, a
//! handle is the driver's own unless it is marked in and out, as it is where objects are made.
//!
//! Functions cross the boundary as `extern "win64"`, which is the native convention on Windows and works on any x86-64 host.

#![no_std]
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

#[macro_use]
mod zeroed;
pub mod km;
pub mod kmt;
pub mod nt;
pub mod status;
pub mod types;

pub use zeroed::Zeroed;

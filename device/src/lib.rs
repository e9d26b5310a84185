//! The Campanile GPU as an emulated PCIe function.
//!
//! It implements exactly what `campanile-hw` describes: config space, the register BAR, doorbell pages, the VRAM window, DMA to system
//! memory, and behind them a command processor (CMP), which schedules queues on three nodes. The bus that it is plugged into supplies four
//! things: accesses to config space and registers, mappings of the doorbell and VRAM files, ranges of system memory, and a receiver for
//! interrupt messages.
//!
//! The same engine code runs under [`Gpu::step`], one bounded slice at a time and deterministic on one thread, and under
//! [`Runner`], a thread that steps in a loop.
//!
//! Layers, each of which uses only those after it: the function's BARs (`gpu`, `runner`), the scheduler (`cmp`), what executes packets (`engine`), a queue and
//! its place on the run list (`queue`), its fence logs (`log`), what all nodes share (`context`), data transfers, address translation
//! and events, memory and clock.
//!
//! Registers, queues, packets, page tables and everything in shared memory may come from a hostile driver or process; no value of theirs
//! causes a panic or has an effect outside what was mapped for the function.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod bar_memory;
mod clock;
mod cmp;
mod compiling;
mod compute;
mod context;
mod engine;
mod event;
mod fault;
mod gpu;
mod held;
mod host_aperture;
mod lock;
mod log;
#[allow(unsafe_code)]
mod memory;
mod mmu;
mod msix;
mod pci;
mod programs;
mod queue;
mod registers;
mod runner;
mod save_area;
mod sending;
#[cfg(feature = "testing")]
pub mod testing;
mod transfer;
#[allow(unsafe_code)]
mod translations;
mod variant;

pub use clock::counter_is_invariant;
pub use cmp::Activity;
pub use fault::{FaultId, FaultRule, Faults, HangAt, Often};
pub use gpu::{Gpu, Interrupts};
pub use held::Held;
pub use memory::LentMemory;
pub use runner::Runner;
pub use variant::{PageTableUpdates, Preemption, Variant};

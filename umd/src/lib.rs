//! User-mode driver for the Campanile GPU.
//!
//! Work goes to the GPU without the kernel: commands are recorded into memory that the GPU reads, an entry is put into a ring,
//! and one store to a mapped page, the doorbell, announces it. Queues order themselves by native fences. The kernel takes part
//! when something is created, when the CPU waits, and when a doorbell has to be connected again. Where the GPU or the operating system has
//! no native fences, or does not schedule in hardware, work goes through the kernel, and monitored fences order it.
//!
//! ```
//! use campanile_umd::*;
//!
//! fn copy_a_page(thunks: &'static Thunks) -> Result<()> {
//!     let adapter = Adapter::open(thunks)?;
//!     let device = Device::new(&adapter)?;
//!     let source = device.create_buffer(4096, Placement::System)?;
//!     let target = device.create_buffer(4096, Placement::Vram)?;
//!     let fence = Fence::new(&device, 0)?;
//!     let mut queue = Queue::new(&device, Node::Copy, QueueOptions::default())?;
//!     queue.submit(|commands| {
//!         commands.copy(target.gpu_address(), source.gpu_address(), 4096)?;
//!         commands.signal(&fence, 1)
//!     })?;
//!     fence.wait(1, None)
//! }
//! ```
//!
//! # When the device is lost
//!
//! After a reset, a fault or a removal every call that needs the GPU returns [`Error::DeviceLost`], and [`Device::loss`] says why.
//! Nothing of the device can be repaired. [`Device::replacement`] makes another in its place, on the adapter as it was or as it came
//! back; buffers and fences are made anew on it, and [`Queue::recover`] moves a queue there and names the submissions that were not
//! seen done. [`Recoverable`] does all of that, and makes the work again that the application has marked by submitting it so:
//!
//! ```
//! use campanile_umd::*;
//!
//! struct Resources {
//!     target: Buffer,
//! }
//!
//! fn fill_for_sure(thunks: &'static Thunks) -> Result<()> {
//!     let make = |device: &Device| Ok(Resources { target: device.create_buffer(4096, Placement::Vram)? });
//!     let adapter = Adapter::open(thunks)?;
//!     let mut work = Recoverable::new(&adapter, Node::Compute, RecoveryOptions::default(), make)?;
//!     loop {
//!         // Doing it twice does no harm, so it may be replayed.
//!         let done = work
//!             .submit(|commands, resources| commands.fill(resources.target.gpu_address(), 4096, 7))
//!             .and_then(|_| work.wait(None));
//!         match done {
//!             Err(Error::DeviceLost) if work.recoveries() < 3 => drop(work.recover()?),
//!             outcome => return outcome,
//!         }
//!     }
//! }
//! ```
//!
//! Layers, each of which uses only those after it: the interface for C ([`c_api`]), recovery, queues, programs, recorded commands, fences,
//! rings, buffers, sharing, the device, the adapter, and the thunks.

#![no_std]

extern crate alloc;

mod adapter;
mod buffer;
pub mod c_api;
mod commands;
mod device;
mod dynamic;
mod error;
mod event;
mod fence;
#[cfg(all(windows, panic = "abort", not(test)))]
mod image;
mod program;
mod queue;
mod recovery;
mod ring;
mod share;
mod shared;
#[cfg(windows)]
mod system;
mod thunks;
mod trace;

pub use adapter::{Adapter, Clocks, MemoryGroup, VideoMemory};
pub use buffer::{Buffer, Mapping, OfferPriority, Placement, Reclaimed};
pub use commands::{CopyRows, Dispatch, DispatchReport, Recorder};
pub use device::Device;
pub use dynamic::{CONTENTS_MAX, DynamicBuffer, DynamicMapping, MapMode};
pub use error::{Error, Result};
pub use fence::{Fence, FenceKind, FenceOptions, Sharing};
pub use program::Program;
pub use queue::{
    COMMAND_BYTES_MAX, ModelReason, Node, Queue, QueueOptions, QueueStats, RING_ENTRIES_MIN, SAVE_BYTES_MAX,
    SubmissionModel, Unfinished,
};
pub use recovery::{LossReason, Recoverable, Recovered, RecoveryOptions};
pub use share::{Access, SharedHandle};
#[cfg(windows)]
pub use system::system_thunks;
pub use thunks::Thunks;
pub use trace::{QueueEvent, Tracer};

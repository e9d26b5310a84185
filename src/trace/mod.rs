//! What happened on the GPU and around it, as typed events on one clock.
//!
//! A [`Trace`] is plain data: lanes (a queue, a thread of the CPU, a paging queue, the machine) and events on them, in
//! nanoseconds. The user-mode driver tells when waits and signals are queued ([`recording`]), the GPU tells when they were
//! executed ([`GpuRecord`], whether read from a fence log or from time stamps), and [`operation`] joins the two into what
//! people look at. [`perfetto`] writes and reads it as a file.

mod clock;
mod model;
pub mod operation;
pub mod perfetto;
mod recording;
mod synthetic;

pub use clock::{GpuClock, HostClock};
pub use model::{Event, EventKind, FenceValue, Lane, LaneKind, Process, Trace};
pub use recording::{GpuOperation, GpuRecord, LaneRecorder, Recording};
pub use synthetic::synthetic;

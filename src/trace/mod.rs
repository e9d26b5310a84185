//! What happened on the GPU and around it, as typed events on one clock.
//!
//! A [`Trace`] is plain data: lanes (a queue, a thread of the CPU, a paging queue, the machine) and events on them, in
//! nanoseconds. The user-mode driver tells when waits and signals are queued (`recording`), the GPU's fence logs tell when they
//! were executed, the operating-system side tells of interrupts, paging, doorbells, resets and power ([`Collector`]), and
//! [`operation`] joins queued and executed into what people look at. [`perfetto`] writes and reads it as a file.

mod clock;
mod collect;
mod kept;
mod model;
mod naming;
pub mod operation;
pub mod perfetto;
mod recording;
mod synthetic;
mod work;

pub use clock::{Calendar, GpuClock, HostClock, Moment, QuickClock};
pub use collect::Collector;
pub use model::{
    Event, EventKind, FenceValue, Lane, LaneKind, NONE, Parts, Process, Trace, code, operation_name, report_name,
};
pub use recording::{GpuOperation, GpuRecord, LaneRecorder, Recording};
pub use synthetic::synthetic;

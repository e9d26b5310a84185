//! VidSch: contexts, queues, doorbells, fences and everything the driver reports about them.
//!
//! From an interrupt to the waiting thread there are two hops: the interrupt thread reads the report at device level
//! ([`VidSch::notify_interrupt`], which only notes it) and in the DPC right after ([`VidSch::notify_dpc`]) wakes
//! whoever's fence value is reached. Work that calls DDIs of PASSIVE_LEVEL goes to a worker thread. A fence nobody
//! waits for raises no interrupt at all.
//!
//! It stands above the memory manager and the [`port`](crate::port) to the driver, and below recovery from timeouts ([`tdr`](crate::tdr)) and the
//! adapter of plug and play. Devices and their objects reach all three through their [`RenderAdapter`]. The memory manager, which knows nothing of the scheduler's types, meets it as
//! [`Scheduler`](crate::vidmm::Scheduler), and a device as [`MemoryOwner`](crate::vidmm::MemoryOwner).
//!
//! The order of its locks is in [`rank`](crate::rank).
//!
//! Its files import one another from the top down only, and nothing from this one, which shows them to others. At the bottom stand the [`objects`]: what contexts,
//! queues, doorbells, fences and packets have, and what each can do alone. Above them stands the [`scheduler`], which lists them, and above that what is done
//! with them, from the [`fences`] up to the reports of interrupts and the threads. No function calls one of a file above its own: what has to wait
//! for something above is [`Work`](objects::worker::Work) for a thread. `xtask/layers.toml` has the order.

mod close;
mod context_priority;
mod deadline;
mod device;
mod device_work;
mod doorbell;
mod doorbell_creation;
mod doorbell_state;
mod doorbell_view;
mod ending;
mod engine_idle;
mod fences;
mod figures;
mod for_memory;
mod hw_context;
mod hw_creation;
mod hw_queue;
mod inspect;
mod interrupt;
mod keep_running;
mod losing;
mod not_running;
mod objects;
mod overview;
mod packet;
mod packet_context;
mod packet_creation;
mod packet_ending;
mod process_suspension;
mod queue_wait;
mod registry;
mod report;
mod reports;
mod residency_slices;
mod scheduler;
mod scheduling_log;
mod set_aside;
mod software_queue;
mod update_queue;
mod work_snapshot;
mod worker;

pub(crate) use deadline::Waiter;
pub(crate) use doorbell_creation::Request as DoorbellRequest;
pub(crate) use fences::batch::signal;
pub(crate) use fences::reach::{check_signals, check_waits};
pub(crate) use fences::shared_fence::SharedFence;
pub(crate) use fences::sync_file::SyncFile;
pub use inspect::{Holdings, Tree};
pub(crate) use objects::device::{Device, DeviceError};
pub(crate) use objects::fence::SyncObject;
pub use objects::fence_log::{GpuClock, QueueFenceLog};
pub(crate) use objects::fence_options::FenceOptions;
pub(crate) use objects::hardware::{Commands, Doorbell, HwContext, HwQueue};
pub(crate) use objects::node::Node;
pub(crate) use objects::node_reset::Aborted;
pub(crate) use objects::older_sync::{
    Kind as OlderKind, OlderSync, OlderSyncHandle, OpenOlderSync, Owner as MutexOwner,
};
pub(crate) use objects::packet_context::{PacketCommands, PacketContext};
pub(crate) use objects::priority;
pub(crate) use objects::process_adapter::ProcessAdapter;
pub(crate) use objects::queue_wait::Objects;
pub(crate) use objects::render_adapter::{RenderAdapter, Timeout};
pub(crate) use objects::running::NodeFigures;
pub use objects::scheduling_log::SchedulingLogCounts;
pub use objects::signalled::FenceReports;
pub(crate) use objects::suspects::{Snapshot, Suspects};
pub(crate) use objects::timeouts::{Complaint, Recovery, Subject, Timeouts};
pub(crate) use objects::update_queue::{Request as UpdateRequest, UpdateQueue};
pub use overview::{ProcessOverview, WaitedFence};
pub(crate) use report::subcode;
pub(crate) use scheduler::{PRIVATE_DATA_MAX, VidSch};

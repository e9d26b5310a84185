//! The operating-system side of WDDM 3.2: an independent implementation that loads miniport drivers and runs them.
//!
//! It knows the interface (`wddm-ddi`) and nothing of any particular GPU or driver. A [`Machine`] owns physical memory and the
//! functions plugged into it; [`thunks`] is what user mode calls.
//!
//! Layers, each of which uses only those after it: the thunks; `process`; `machine`, which is plug and play; `callbacks`, what a miniport calls; `adapter`; `tdr`, which
//! recovers from timeouts; `vidsch`, the scheduler; `vidmm`, the memory manager; `fence`, the values of fences and their waiters; `port`, the way to
//! one driver; `interrupt`; `miniport`, its table of functions. A layer meets one above it as a trait that plug and play hands it: the memory manager the
//! scheduler as `Scheduler`, the scheduler recovery as `Recovery`. `xtask/layers.toml` has the whole order, and locks have theirs in `rank`.
//!
//! The scheduler stands above the memory manager although both could be strangers: contexts, queues, fences and doorbells own memory in GPU address spaces, so
//! the scheduler holds a dozen types of the memory manager, while the memory manager asks the scheduler for a handful of operations. A trait in the
//! other direction would repeat the interface of the memory manager, with one implementation.

#![recursion_limit = "256"]

pub use nt::{bus, irql};

/// The verifier's verdicts and settings.
pub mod verifier {
    pub use nt::bugcheck::{Bugcheck, CodeLocation};
    pub use nt::pool::{LowResources, SpecialPool};
    pub use nt::verifier::show_log;
}

mod access_mask;
mod account;
mod adapter;
mod bar_place;
mod callbacks;
mod caps;
mod config;
mod ddi_buffer;
mod ddi_calls;
mod descriptor;
mod fence;
mod handles;
mod interrupt;
mod keyed_mutex;
mod kmd_handle;
mod lifetimes;
mod machine;
mod miniport;
mod paging_queue;
mod platform;
mod port;
mod process;
mod quota;
mod rank;
mod refusal;
mod registered;
mod registration;
mod rescue;
mod rundown;
mod scheduler_class;
mod start_error;
mod suspension;
mod table_shape;
mod tdr;
mod tdr_report;
mod thunks;
mod trace;
mod vidmm;
mod vidsch;

pub use config::{
    DRIVER_LIMIT, FeaturePolicy, Idle, Installation, MachineConfig, PowerSettings, RegistrationRequests, RegistryKey,
    RegistryValue, TdrDebugMode, TdrLevel, TdrSettingError, TdrSettings,
};
pub use fence::{FenceLog, FenceLogEntry, FenceOperation};
pub use interrupt::Counters;
pub use machine::{
    DESCRIPTORS_LEFT, DebugName, DebugNameOf, DeviceId, EngineOverview, EngineSleepError, Error, Machine, Overview,
    PnpError, Remains, SegmentOverview, SystemSleep,
};
pub use nt::clock::Clock;
pub use nt::driver::{DriverMemory, MemoryRange};
pub use nt::etw::{BadTraceLogging, EtwEvent, EtwSession, TraceLoggingEvent, TraceLoggingField, TraceLoggingValue};
pub use nt::image::{Image, ImageError, ImageKind, PdbIdentity, Resolver};
pub use nt::loader::DriverImage;
pub use nt::pci::PciError;
pub use nt::ram::Ram;
pub use nt::watchdog::{EXIT_STUCK, INTERRUPT, before_the_process_ends};
pub use port::PowerComponentState;
pub use process::{Attached, Process, Suspensions};
pub use quota::Share;
pub use registered::{ContiguousMemory, RegisteredDriver};
pub use registration::{DriverId, LoadError};
pub use rescue::Rescue;
pub use start_error::{OutputSize, ProblemCode, StartError};
pub use tdr_report::{TdrFate, TdrInterrupts, TdrKind, TdrOutcome, TdrQueue, TdrReason, TdrReport};
pub use thunks::budget::{D3DKMTRegisterBudgetChangeNotification, D3DKMTUnregisterBudgetChangeNotification};
pub use thunks::escape::D3DKMTEscape;
pub use thunks::monitored::{
    D3DKMTCreateSynchronizationObject2, D3DKMTSignalSynchronizationObjectFromGpu,
    D3DKMTSignalSynchronizationObjectFromGpu2, D3DKMTSubmitSignalSyncObjectsToHwQueue,
    D3DKMTSubmitWaitForSyncObjectsToHwQueue, D3DKMTWaitForSynchronizationObjectFromGpu,
};
pub use thunks::priority::{
    D3DKMTGetContextInProcessSchedulingPriority, D3DKMTGetContextSchedulingPriority,
    D3DKMTGetProcessSchedulingPriorityClass, D3DKMTSetContextInProcessSchedulingPriority,
    D3DKMTSetContextSchedulingPriority, D3DKMTSetProcessSchedulingPriorityClass,
};
pub use thunks::share::D3DKMTOpenSyncObjectFromNtHandle2;
pub use thunks::{further_thunks, thunks};
pub use trace::{TRACE_EVENTS_MAX, TraceEvent, TraceKind, TraceLog, interrupt_name, nanoseconds};
pub use vidmm::ResidencyCounts;
pub use vidsch::{
    FenceReports, GpuClock, Holdings, ProcessOverview, QueueFenceLog, SchedulingLogCounts, Tree, WaitedFence,
};

//! The operating-system side of WDDM 3.2: an independent implementation that loads miniport drivers and runs them.
//!
//! It knows the interface (`wddm-ddi`) and nothing of any particular GPU or driver. A [`Machine`] owns physical memory and the
//! functions plugged into it; [`thunks`] is what user mode calls.

#![recursion_limit = "256"]

mod adapter;
pub mod bus;
mod callbacks;
mod clock;
mod ddi_calls;
mod device;
mod device_object;
mod driver_call;
mod etw;
mod fault;
mod handles;
mod interrupt;
pub mod irql;
mod kernel_services;
mod kernel_stack;
mod lifetimes;
mod loader;
mod machine;
mod miniport;
mod pci;
mod process;
mod ram;
mod range;
mod rank;
mod rescue;
mod rundown;
mod thunks;
mod trace;
pub mod verifier;
mod vidmm;
mod vidsch;
mod watchdog;

pub use adapter::{PowerComponentState, PowerSettings, ProblemCode, StartError};
pub use clock::Clock;
pub use etw::{BadTraceLogging, EtwEvent, EtwSession, TraceLoggingEvent, TraceLoggingField, TraceLoggingValue};
pub use interrupt::Counters;
pub use loader::{
    DriverId, DriverImage, DriverMemory, Image, ImageError, ImageKind, LoadError, MemoryRange, PdbIdentity, Resolver,
};
pub use machine::{DRIVER_LIMIT, DeviceId, Error, FeaturePolicy, Idle, Machine, MachineConfig, PnpError, SystemSleep};
pub use pci::PciError;
pub use process::{Attached, Process};
pub use rescue::Rescue;
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
pub use trace::{TRACE_EVENTS_MAX, TraceEvent, TraceKind, TraceLog, nanoseconds};
pub use vidmm::ResidencyCounts;
pub use vidsch::{
    FenceLog, FenceLogEntry, FenceOperation, FenceReports, GpuClock, Holdings, QueueFenceLog, Suspensions, Tree,
};
pub use vidsch::{
    TdrDebugMode, TdrFate, TdrKind, TdrLevel, TdrOutcome, TdrQueue, TdrReason, TdrReport, TdrSettingError, TdrSettings,
};
pub use watchdog::{EXIT_STUCK, INTERRUPT, before_the_process_ends};

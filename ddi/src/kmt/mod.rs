//! User side: the argument structures of the `D3DKMT*` thunks.

mod adapter;
mod adapter_control;
mod adapter_info;
mod device;
mod memory;
mod older_sync;
mod perf;
mod queue;
mod residency;
mod resource;
mod statistics;
mod statistics_adapter;
mod sync;
mod thunks;
mod update;

pub use adapter::*;
pub use adapter_control::*;
pub use adapter_info::*;
pub use device::*;
pub use memory::*;
pub use older_sync::*;
pub use perf::*;
pub use queue::*;
pub use residency::*;
pub use resource::*;
pub use statistics::*;
pub use statistics_adapter::*;
pub use sync::*;
pub use thunks::*;
pub use update::*;

//! User side: the argument structures of the `D3DKMT*` thunks.

mod adapter;
mod adapter_info;
mod device;
mod memory;
mod queue;
mod sync;
mod thunks;
mod update;

pub use adapter::*;
pub use adapter_info::*;
pub use device::*;
pub use memory::*;
pub use queue::*;
pub use sync::*;
pub use thunks::*;
pub use update::*;

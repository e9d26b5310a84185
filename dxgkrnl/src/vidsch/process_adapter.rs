//! A process as one adapter knows it.

use std::sync::Arc;

use crate::kmd_handle::KmdHandle;
use crate::vidmm::{AddressSpace, Kept};
use crate::vidsch::RenderAdapter;
use crate::vidsch::priority::SchedulingClass;

/// A process as one adapter and its driver know it.
pub(crate) struct ProcessAdapter {
    /// The adapter.
    pub(crate) adapter: Arc<RenderAdapter>,
    /// The driver's handle of the process.
    pub(crate) kmd_process: KmdHandle,
    /// Its GPU address space.
    pub(crate) space: Arc<AddressSpace>,
    /// Identity of the process.
    pub(crate) id: u64,
    /// The name that the process was created with.
    pub(crate) name: String,
    /// How its contexts stand among those of other processes.
    pub(crate) class: Arc<SchedulingClass>,
    /// Addresses that the process got on the adapter and may use although the adapter stopped.
    pub(crate) kept: Arc<Kept>,
}

impl ProcessAdapter {
    /// Number and name of the process, for reports.
    pub(crate) fn owner(&self) -> String {
        format!("process {} ({})", self.id, self.name)
    }
}

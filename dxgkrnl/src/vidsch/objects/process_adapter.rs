//! A process as one adapter knows it.

use std::sync::{Arc, Weak};

use nt::lock::{Mutex, lock};
use wddm_ddi::types::HANDLE;

use crate::account::Account;
use crate::fence::Wait;
use crate::kmd_handle::KmdHandle;
use crate::quota::HardwareQuota;
use crate::vidmm::{AddressSpace, Kept};

use super::priority::SchedulingClass;
use super::render_adapter::RenderAdapter;

/// A process as one adapter and its driver know it.
pub(crate) struct ProcessAdapter {
    /// The adapter.
    pub(crate) adapter: Arc<RenderAdapter>,
    /// The driver's handle of the process.
    pub(crate) kmd_process: KmdHandle,
    /// GPU address space of the process on this adapter.
    pub(crate) space: Arc<AddressSpace>,
    /// Identity of the process.
    pub(crate) id: u64,
    /// The name that the process was created with.
    pub(crate) name: String,
    /// Scheduling priority class of the process, which ranks its contexts among those of other processes.
    pub(crate) class: Arc<SchedulingClass>,
    /// Addresses that the process got on the adapter and may use although the adapter stopped.
    pub(crate) kept: Arc<Kept>,
    /// The objects that the process shares with others.
    pub(crate) shared: Account,
    /// Counts the hardware contexts that the process has on the adapter.
    pub(crate) contexts: HardwareQuota,
    /// Counts the hardware queues that the process has on the adapter.
    pub(crate) queues: HardwareQuota,
    /// Waits of the processor that go on though what they were made through is closed.
    pub(crate) lingering: Arc<LingeringWaits>,
}

/// Waits of a process' processor for fences that it has closed, until the process ends. [d3dukmdt: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
/// UnwaitCpuWaitersOnlyOnDestroy]
#[derive(Default)]
pub(crate) struct LingeringWaits(pub(in crate::vidsch) Mutex<State>);

#[derive(Default)]
pub(in crate::vidsch) struct State {
    pub(in crate::vidsch) ended: bool,
    /// By our handle of the fence.
    pub(in crate::vidsch) waits: Vec<(KmdHandle, Weak<Wait>)>,
}

impl LingeringWaits {
    /// These wait for a fence still. False if the process has ended, which releases them.
    pub(in crate::vidsch) fn add(&self, fence: KmdHandle, waits: &[Weak<Wait>]) -> bool {
        let mut state = lock(&self.0);
        if !state.ended {
            state.waits.retain(|(_, wait)| wait.strong_count() > 0);
            state.waits.extend(waits.iter().map(|wait| (fence, Weak::clone(wait))));
        }
        !state.ended
    }
}

impl ProcessAdapter {
    /// The system's handle of the process, which the driver was given when it was created.
    pub(crate) fn system_handle(&self) -> HANDLE {
        KmdHandle::of_process(self.id).raw()
    }

    /// Number and name of the process, for reports.
    pub(crate) fn owner(&self) -> String {
        format!("process {} ({})", self.id, self.name)
    }
}

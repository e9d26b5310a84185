//! A fence as a device of a process has it open.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use nt::lock::{Mutex, lock};
use nt::user_space::UserSpace;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DGPU_VIRTUAL_ADDRESS, D3DKMT_HANDLE};

use crate::fence::{Rights, Wait};
use crate::kmd_handle::KmdHandle;

use super::device::Device;
use super::fence::{Fence, SyncObject};
use super::render_adapter::RenderAdapter;
use super::storage::View;

/// Waits that one list of waiters has space for before it is looked through for those that are over.
const WAITERS_KEPT: usize = 16;

impl SyncObject {
    pub(in crate::vidsch) fn new(
        fence: &Arc<Fence>,
        device: &Device,
        local: Option<KmdHandle>,
        view: Arc<View>,
        rights: Rights,
        of_queue: bool,
    ) -> Arc<Self> {
        let (user_address, gpu) = (view.user_address(fence.offset()), view.gpu_addresses(fence.offset()));
        Arc::new(Self {
            fence: Arc::clone(fence),
            device: device.id(),
            local,
            of_queue,
            user_address,
            gpu,
            view: Mutex::new(Some(view)),
            state: Mutex::default(),
            rights,
            name: OnceLock::new(),
            waiters_stay: AtomicBool::new(fence.waiters_stay()),
            lingering: Arc::clone(&device.process.lingering),
        })
    }

    /// The user-mode side of the process that sees its values, unless it is closed.
    pub(in crate::vidsch) fn user(&self) -> Option<Arc<dyn UserSpace>> {
        lock(&self.view).as_ref().map(|view| view.user())
    }

    /// The fence.
    pub(crate) fn fence(&self) -> &Arc<Fence> {
        &self.fence
    }

    /// The adapter.
    pub(crate) fn adapter(&self) -> &Arc<RenderAdapter> {
        self.fence.adapter()
    }

    /// Rights of this handle.
    pub(crate) fn rights(&self) -> Rights {
        self.rights
    }

    /// Identity of the device it was opened on.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// It has a handle from now on. False if it had one, or is closed by now.
    pub(in crate::vidsch) fn set_name(&self, name: (u64, D3DKMT_HANDLE)) -> bool {
        self.name.set(name).is_ok() && !self.is_closed()
    }

    /// Identity of the process that has a handle of it.
    pub(in crate::vidsch) fn process(&self) -> Option<u64> {
        self.name.get().map(|(process, _)| *process)
    }

    /// True if it goes with a queue and cannot be destroyed by itself.
    pub(crate) fn is_of_queue(&self) -> bool {
        self.of_queue
    }

    /// CurrentValue.
    pub(crate) fn current(&self) -> u64 {
        self.fence.current()
    }

    /// True if the fence has reached `value`.
    pub(crate) fn is_reached(&self, value: u64) -> bool {
        self.fence.is_reached(value)
    }

    /// Address of CurrentValue in the process.
    pub(crate) fn user_address(&self) -> usize {
        self.user_address
    }

    /// GPU virtual address of CurrentValue in the process.
    pub(crate) fn gpu_address(&self) -> D3DGPU_VIRTUAL_ADDRESS {
        self.gpu.current
    }

    /// Where the GPU reads MonitoredValue in the process; 0 for a monitored fence.
    pub(crate) fn monitored_gpu_address(&self) -> D3DGPU_VIRTUAL_ADDRESS {
        if self.fence.is_native() { self.gpu.monitored } else { 0 }
    }

    /// Kernel address of CurrentValue, which for a fence that the CPU may see lies in system memory.
    pub(crate) fn kernel_address(&self) -> *mut u64 {
        self.fence.current_word().place().address()
    }

    /// True if nobody can use it any more.
    pub(in crate::vidsch) fn is_ended(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    /// True if the driver knows it no more.
    pub(in crate::vidsch) fn is_closed(&self) -> bool {
        lock(&self.view).is_none()
    }

    /// For callers that are about to signal.
    ///
    /// # Errors
    /// Why the instance is ended.
    pub(in crate::vidsch) fn check(&self) -> Result<(), NTSTATUS> {
        lock(&self.state).ended.map_or(Ok(()), Err)
    }

    /// `wait` has conditions on this fence: it is released when this instance ends.
    ///
    /// # Errors
    /// The instance is closed, or its device lost.
    pub(in crate::vidsch) fn admit(&self, wait: &Arc<Wait>) -> Result<(), NTSTATUS> {
        let mut state = lock(&self.state);
        if let Some(status) = state.ended {
            return Err(status);
        }
        if state.waiters.len() >= WAITERS_KEPT && state.waiters.len() == state.waiters.capacity() {
            state.waiters.retain(|wait| wait.strong_count() > 0);
        }
        state.waiters.push(Arc::downgrade(wait));
        Ok(())
    }

    /// Waits through this instance continue when it is closed, until the fence is destroyed. [d3dukmdt: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    /// UnwaitCpuWaitersOnlyOnDestroy]
    pub(crate) fn keep_waiters(&self) {
        self.waiters_stay.store(true, Ordering::Release);
    }
}

/// True if a wait would be over before it begins.
pub(in crate::vidsch) fn is_met(conditions: &[(Arc<SyncObject>, u64)], any: bool) -> bool {
    let mut met = conditions.iter().map(|(fence, value)| fence.current() >= *value);
    if any { met.any(|met| met) } else { met.all(|met| met) }
}

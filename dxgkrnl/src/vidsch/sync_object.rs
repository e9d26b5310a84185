//! A fence as a device of a process has it open.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use nt::lock::{Mutex, lock};
use nt::user_space::UserSpace;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DGPU_VIRTUAL_ADDRESS, D3DKMT_HANDLE};

use crate::kmd_handle::KmdHandle;
use crate::vidsch::{Device, RenderAdapter};

use super::fence::Fence;
use super::native_fence;
use super::process_adapter::LingeringWaits;
use super::storage::{GpuAddresses, View};
use crate::fence::Rights;
use crate::fence::Wait;

/// Waits that one list of waiters has space for before it is looked through for those that are over.
const WAITERS_KEPT: usize = 16;

/// The waiters through this instance, and whether there may be new ones.
#[derive(Default)]
struct State {
    /// The status of every later wait and signal, once the object is closed or its device lost; `None` before.
    ended: Option<NTSTATUS>,
    waiters: Vec<Weak<Wait>>,
}

/// An open fence.
pub(crate) struct SyncObject {
    fence: Arc<Fence>,
    /// Identity of the device it was opened on.
    device: u64,
    /// The driver's handle of a native fence in this process.
    local: Option<KmdHandle>,
    /// The fence reports the progress of a queue and goes with it.
    of_queue: bool,
    user_address: usize,
    gpu: GpuAddresses,
    /// `None` once it is closed.
    view: Mutex<Option<Arc<View>>>,
    state: Mutex<State>,
    rights: Rights,
    /// Process and handle, once it has one.
    name: OnceLock<(u64, D3DKMT_HANDLE)>,
    /// True if waits through this handle continue when it is closed (UnwaitCpuWaitersOnlyOnDestroy).
    waiters_stay: AtomicBool,
    /// Those of the process that do.
    lingering: Arc<LingeringWaits>,
}

fn release(waiters: &[Weak<Wait>], status: NTSTATUS) {
    for wait in waiters.iter().filter_map(Weak::upgrade) {
        wait.finish(status);
    }
}

impl SyncObject {
    pub(super) fn new(
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
    pub(super) fn user(&self) -> Option<Arc<dyn UserSpace>> {
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
    pub(super) fn set_name(&self, name: (u64, D3DKMT_HANDLE)) -> bool {
        self.name.set(name).is_ok() && !self.is_closed()
    }

    /// Identity of the process that has a handle of it.
    pub(super) fn process(&self) -> Option<u64> {
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
    pub(super) fn is_ended(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    /// True if the driver knows it no more.
    pub(super) fn is_closed(&self) -> bool {
        lock(&self.view).is_none()
    }

    /// For callers that are about to signal.
    ///
    /// # Errors
    /// Why the instance is ended.
    pub(super) fn check(&self) -> Result<(), NTSTATUS> {
        lock(&self.state).ended.map_or(Ok(()), Err)
    }

    /// `wait` has conditions on this fence: it is released when this instance ends.
    ///
    /// # Errors
    /// The instance is closed, or its device lost.
    pub(super) fn admit(&self, wait: &Arc<Wait>) -> Result<(), NTSTATUS> {
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

    /// Nobody can wait through this instance any more; its waiters are released with `status`. Others still wait.
    pub(super) fn end(&self, status: NTSTATUS) {
        let waiters = {
            let mut state = lock(&self.state);
            state.ended.get_or_insert(status);
            std::mem::take(&mut state.waiters)
        };
        release(&waiters, status);
        self.fence.remove_over();
    }

    /// Waits through this instance continue when it is closed, until the fence is destroyed. [d3dukmdt: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    /// UnwaitCpuWaitersOnlyOnDestroy]
    pub(crate) fn keep_waiters(&self) {
        self.waiters_stay.store(true, Ordering::Release);
    }

    /// Nobody can wait through this instance any more; its waiters still wait.
    fn leave_waiters(&self) {
        let waiters = {
            let mut state = lock(&self.state);
            state.ended.get_or_insert(STATUS_CANCELLED);
            std::mem::take(&mut state.waiters)
        };
        if !self.lingering.add(self.fence.system(), &waiters) {
            release(&waiters, STATUS_CANCELLED);
        }
    }

    /// Closes the fence here, and destroys it if nothing else refers to it; whoever waits through this instance is released
    /// with STATUS_CANCELLED, unless waiters stay: those are when the fence is destroyed, or with their process. Once is enough.
    pub(crate) fn destroy(&self) {
        if self.waiters_stay.load(Ordering::Acquire) {
            self.leave_waiters();
        }
        self.end(STATUS_CANCELLED);
        if let Some(name) = self.name.get() {
            self.fence.sch().forget_name(*name);
        }
        // A thread that finds it closed has waited here for the one who closed it.
        self.fence.close(|| {
            let Some(view) = lock(&self.view).take() else { return false };
            if let Some(local) = self.local {
                native_fence::close(self.fence.sch(), self.fence.adapter(), local);
            }
            drop(view);
            true
        });
    }
}

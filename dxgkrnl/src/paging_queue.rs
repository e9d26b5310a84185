//! Paging queues as a process has them: a queue of residency requests with the monitored fence that counts them.

use std::ops::Deref;
use std::sync::Arc;

use wddm_ddi::status::{NTSTATUS, STATUS_INTERNAL_ERROR};
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::rundown::{Destroyed, Rundown};
use crate::vidmm::{MemoryOwner, QueueFence, ResidencyQueue};
use crate::vidsch::{Device, SyncObject};

/// A paging queue of a device. [d3dkmthk: D3DKMT_CREATEPAGINGQUEUE]
pub(crate) struct PagingQueue {
    device: Arc<Device>,
    rundown: Rundown,
    fence_handle: D3DKMT_HANDLE,
    requests: Arc<ResidencyQueue>,
}

impl QueueFence for SyncObject {
    fn current(&self) -> u64 {
        self.current()
    }

    fn is_awaited(&self) -> bool {
        self.fence().is_awaited()
    }
}

impl Destroyed for PagingQueue {
    fn rundown(&self) -> &Rundown {
        &self.rundown
    }

    fn is_of_lost_device(&self) -> bool {
        self.device.error().is_some()
    }
}

impl Deref for PagingQueue {
    type Target = ResidencyQueue;

    fn deref(&self) -> &ResidencyQueue {
        &self.requests
    }
}

impl PagingQueue {
    /// A queue of `device` on an engine whose requests are counted by `fence`, a monitored fence with this handle.
    ///
    /// # Errors
    /// No free range of addresses in the paging process; STATUS_DEVICE_NOT_READY on an adapter that is not started.
    pub(crate) fn new(
        device: &Arc<Device>,
        engine: u32,
        fence: Arc<SyncObject>,
        fence_handle: D3DKMT_HANDLE,
    ) -> Result<Arc<Self>, NTSTATUS> {
        let owner: Arc<dyn MemoryOwner> = Arc::<Device>::clone(device);
        let ram = device.adapter.machine.ram();
        let base = ram.kernel_address(0, ram.size()).ok_or(STATUS_INTERNAL_ERROR)?;
        // A monitored fence lies in system memory, whose bus addresses are offsets in the kernel's mapping.
        let offset = fence.kernel_address().addr().checked_sub(base.addr().get()).ok_or(STATUS_INTERNAL_ERROR)?;
        let counter: Arc<dyn QueueFence> = fence;
        let requests = device.adapter.vidmm().create_residency_queue(owner, engine, offset as u64, counter)?;
        let rundown = Rundown::default();
        Ok(Arc::new(Self { device: Arc::clone(device), rundown, fence_handle, requests }))
    }

    /// The device it was made on.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Handle of the fence in the process.
    pub(crate) fn fence_handle(&self) -> D3DKMT_HANDLE {
        self.fence_handle
    }

    /// Destroys the queue once everything asked of it is done; its fence is still there.
    pub(crate) fn destroy(&self) {
        self.rundown.close();
        // A request that found the queue before has the paging node write its fence, through the page that is unmapped with it.
        self.device.adapter.machine.gate().away(|| self.rundown.wait());
        self.device.adapter.vidmm().end_residency_queue(&self.requests);
    }
}

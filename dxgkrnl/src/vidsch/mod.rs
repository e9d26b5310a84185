//! VidSch: contexts, queues, doorbells, fences and everything the driver reports about them.

use std::sync::Arc;

use wddm_ddi::km::{DXGKARGCB_DISCONNECTDOORBELL, DXGKARGCB_INVALIDATEHWCONTEXT, DXGKARGCB_NOTIFY_INTERRUPT_DATA};
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER};

/// A hardware context of a device.
pub(crate) struct HwContext {}

/// A hardware queue of a context.
pub(crate) struct HwQueue {}

/// The doorbell of a queue for user-mode submission.
pub(crate) struct Doorbell {}

/// A fence: native or monitored.
pub(crate) struct SyncObject {}

/// A system context: packet-scheduled, on one node.
pub(crate) struct SystemContext {}

/// The scheduler of one adapter.
pub(crate) struct VidSch {}

impl HwContext {
    /// Destroys the context; its queues are gone.
    pub(crate) fn destroy(&self) {}
}

impl HwQueue {
    /// Destroys the queue; its doorbell is gone.
    pub(crate) fn destroy(&self) {}
}

impl Doorbell {
    /// Disconnects and destroys the doorbell.
    pub(crate) fn destroy(&self) {}
}

impl SyncObject {
    /// Closes and destroys the fence; whoever waits for it is released.
    pub(crate) fn destroy(&self) {}
}

#[allow(unused_variables)]
impl VidSch {
    /// Called by DxgkCbNotifyInterrupt, at device level with the interrupt lock held.
    pub(crate) fn notify_interrupt(&self, data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA) {}

    /// Called by DxgkCbNotifyDpc, at DISPATCH_LEVEL.
    pub(crate) fn notify_dpc(&self) {}

    /// DxgkCbDisconnectDoorbell.
    pub(crate) fn disconnect_doorbell(&self, args: &DXGKARGCB_DISCONNECTDOORBELL) -> NTSTATUS {
        STATUS_INVALID_PARAMETER
    }

    /// DxgkCbInvalidateHwContext.
    pub(crate) fn invalidate_hw_context(&self, args: &DXGKARGCB_INVALIDATEHWCONTEXT) -> NTSTATUS {
        STATUS_INVALID_PARAMETER
    }

    /// Ends the scheduler; no DDI is called by it afterwards.
    pub(crate) fn stop(&self) {}

    /// Submits a paging buffer at a virtual address of the paging process; the answer is its fence on the node.
    pub(crate) fn submit_paging(
        &self,
        context: &Arc<SystemContext>,
        buffer_va: u64,
        size: u32,
        private_data: &mut [u8],
    ) -> Result<u32, NTSTATUS> {
        Err(STATUS_INVALID_PARAMETER)
    }

    /// Waits until packet `fence` of `node` is complete.
    pub(crate) fn wait_packet(&self, node: u32, fence: u32) -> Result<(), NTSTATUS> {
        Err(STATUS_INVALID_PARAMETER)
    }
}

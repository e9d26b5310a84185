//! Devices in error: thunks are refused, and every doorbell of such a device says so.

use wddm_ddi::status::*;

use super::objects::device::Device;
use super::scheduler::VidSch;

impl VidSch {
    /// Lets user mode see at every doorbell of a device in error that it is lost.
    pub(crate) fn show_aborts(&self, device: &Device) {
        let contexts = self.contexts_of(device);
        let doorbells = contexts.iter().flat_map(|context| context.queues()).filter_map(|queue| queue.doorbell());
        doorbells.for_each(|doorbell| doorbell.show_abort());
    }
}

impl Device {
    /// For thunks that need a working device.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED if the device is in error.
    pub(crate) fn check(&self) -> Result<(), NTSTATUS> {
        if self.error().is_none() {
            return Ok(());
        }
        // The error may be younger than what follows from it; a thread that is told finds the reason at its doorbells.
        self.adapter.vidsch().show_aborts(self);
        Err(STATUS_DEVICE_REMOVED)
    }
}

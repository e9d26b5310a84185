//! Devices of a process.

use std::sync::Arc;

use wddm_ddi::status::STATUS_INVALID_HANDLE;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::{Object, Process};
use crate::adapter::Adapter;
use crate::refusal::Failure;
use crate::rundown::Destroyed;
use crate::vidmm::next_device_id;
use crate::vidsch::Device;

impl Process {
    /// Creates a device on an adapter and gives it a handle.
    ///
    /// # Errors
    /// What the driver answered; STATUS_INSUFFICIENT_RESOURCES without a free handle.
    pub(crate) fn create_device(&self, adapter: &Arc<Adapter>) -> Result<(Arc<Device>, D3DKMT_HANDLE), Failure> {
        let on_adapter = self.on_adapter(adapter)?;
        adapter.vidsch().recovery().check_not_blocked(&on_adapter.owner())?;
        let id = next_device_id();
        let kmd = adapter.vidmm().create_user_device(on_adapter.kmd_process, id)?;
        let device = Device::new(adapter.render(), on_adapter, (id, kmd));
        match self.insert(Object::Device(Arc::clone(&device))) {
            Ok(handle) => {
                device.set_handle(handle);
                adapter.vidsch().recovery().note_device(&device);
                Ok((device, handle))
            }
            Err(status) => {
                adapter.vidmm().destroy_user_device(id);
                Err(status)
            }
        }
    }

    /// Destroys a device with everything made on it, newest first, so that doorbells go before queues and queues before the
    /// memory they use.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if `handle` is no device.
    pub(crate) fn destroy_device(&self, handle: D3DKMT_HANDLE) -> Result<(), Failure> {
        self.end_device(handle, |device| device.adapter.vidsch().close_device(device))
    }

    /// As [`Process::destroy_device`]; `close` ends the work of the device first.
    pub(super) fn end_device(&self, handle: D3DKMT_HANDLE, close: impl FnOnce(&Arc<Device>)) -> Result<(), Failure> {
        let Object::Device(device) = self.remove_if(handle, |object| matches!(object, Object::Device(_)))? else {
            return Err(STATUS_INVALID_HANDLE.into());
        };
        device.rundown().close();
        close(&device);
        // A thread that is making something on it finds no device for that, and takes it back; it may wait for its program.
        self.machine().gate().away(|| device.rundown().wait());
        for child in self.objects_of(handle) {
            if let Ok(object) = self.remove(child) {
                object.destroy();
            }
        }
        device.adapter.vidmm().destroy_user_device(device.id());
        Ok(())
    }
}

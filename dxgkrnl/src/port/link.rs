//! The functions of an adapter: one, or several that their driver has linked. [dispmprt: DXGKDDI_LINK_DEVICE]
//!
//! Linked functions are one adapter to everybody but plug and play, power and interrupts. The one that leads gives DDIs their `hAdapter`; it
//! is started after the others and stopped before them. A function is an engine, whose number the driver tells.

use std::ffi::c_void;
use std::sync::Arc;

use wddm_ddi::types::{CM_RESOURCE_LIST, HANDLE, UNICODE_STRING};

use super::resources::Resources;
use crate::kmd_handle::KmdHandle;
use nt::device_object::Location;
use nt::pci::Function;
use nt::registry::RegistryKey;

/// A device that is to start.
pub(crate) struct Member {
    pub(crate) function: Arc<Function>,
    pub(crate) context: KmdHandle,
    pub(crate) location: Location,
    /// Address of its physical device object.
    pub(crate) device_object: usize,
}

/// One function of an adapter.
pub(crate) struct Link {
    /// MiniportDeviceContext.
    pub(crate) context: KmdHandle,
    /// What the driver passes to DxgkCb* as device handle, as a number.
    handle: usize,
    pub(crate) function: Arc<Function>,
    /// Bus, device and function number of the function.
    pub(crate) location: Location,
    /// Address of its physical device object.
    device_object: usize,
    /// The path of its software key, in UTF-16.
    registry_path: Box<[u16]>,
    resource_list: Box<CM_RESOURCE_LIST>,
    pub(crate) resources: Resources,
}

impl Link {
    /// A function that is about to be started, which the driver names by this device handle. `software` is the software key of its device.
    pub(crate) fn new(handle: usize, member: &Member, resources: Resources, software: &RegistryKey) -> Self {
        let Member { context, location, device_object, .. } = *member;
        let function = Arc::clone(resources.function());
        let resource_list = Box::new(function.resources());
        let registry_path = software.path().encode_utf16().collect();
        Self { context, handle, function, location, device_object, registry_path, resource_list, resources }
    }

    /// Its physical device object, which AddDevice has told the driver.
    pub(crate) fn device_object(&self) -> *mut c_void {
        core::ptr::with_exposed_provenance_mut(self.device_object)
    }

    /// The path of the software key of its device, at an address that stays while the adapter exists; the driver only reads it.
    pub(crate) fn registry_path(&self) -> UNICODE_STRING {
        let bytes = u16::try_from(self.registry_path.len() * 2).unwrap_or(0);
        let text = self.registry_path.as_ptr();
        text.expose_provenance();
        UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: text.cast_mut() }
    }

    /// The device handle that the driver passes to DxgkCb*.
    pub(crate) fn handle(&self) -> HANDLE {
        core::ptr::without_provenance_mut(self.handle)
    }

    /// Translated resources, at an address that stays while the adapter exists.
    pub(crate) fn resource_list(&self) -> *const CM_RESOURCE_LIST {
        &raw const *self.resource_list
    }
}

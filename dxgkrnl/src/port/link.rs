//! The functions of an adapter: one, or several that their driver has linked. [dispmprt: DXGKDDI_LINK_DEVICE]
//!
//! Linked functions are one adapter to everybody but plug and play, power and interrupts. The one that leads gives DDIs their `hAdapter`; it
//! is started after the others and stopped before them. A function is an engine, whose number the driver tells.

use std::sync::Arc;

use wddm_ddi::types::{CM_RESOURCE_LIST, HANDLE};

use super::resources::Resources;
use crate::kmd_handle::KmdHandle;
use nt::device_object::Location;
use nt::pci::Function;

/// One function of an adapter.
pub(crate) struct Link {
    /// MiniportDeviceContext.
    pub(crate) context: KmdHandle,
    /// What the driver passes to DxgkCb* as device handle, as a number.
    handle: usize,
    pub(crate) function: Arc<Function>,
    /// Bus, device and function number of the function.
    pub(crate) location: Location,
    resource_list: Box<CM_RESOURCE_LIST>,
    pub(crate) resources: Resources,
}

impl Link {
    /// A function that is about to be started, which the driver names by this device handle.
    pub(crate) fn new(handle: usize, context: KmdHandle, location: Location, resources: Resources) -> Self {
        let function = Arc::clone(resources.function());
        let resource_list = Box::new(function.resources());
        Self { context, handle, function, location, resource_list, resources }
    }

    /// What the driver passes to DxgkCb* as device handle.
    pub(crate) fn handle(&self) -> HANDLE {
        core::ptr::without_provenance_mut(self.handle)
    }

    /// Translated resources, at an address that stays while the adapter exists.
    pub(crate) fn resource_list(&self) -> *const CM_RESOURCE_LIST {
        &raw const *self.resource_list
    }
}

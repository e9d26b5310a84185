//! Instances, each of which finds the adapter for itself.

use std::sync::OnceLock;

use ash::vk;
use campanile_umd::{Adapter, Error};

use crate::failure::{Answer, result};
use crate::handle::{Dispatched, Owned};
use crate::machine;
use crate::physical::PhysicalDevice;

/// Names of objects and labels. Its commands are of devices, too, although it is an extension of the instance.
pub(crate) const DEBUG_UTILS: &str = "VK_EXT_debug_utils";

/// Extensions of the instance. All but the first one have functions that later versions of Vulkan have, too.
pub(crate) const EXTENSIONS: &[(&str, u32)] = &[
    (DEBUG_UTILS, 2),
    ("VK_KHR_device_group_creation", 1),
    ("VK_KHR_external_fence_capabilities", 1),
    ("VK_KHR_external_memory_capabilities", 1),
    ("VK_KHR_external_semaphore_capabilities", 1),
    ("VK_KHR_get_physical_device_properties2", 2),
];

/// An instance.
pub(crate) struct Instance {
    has_debug_utils: bool,
    devices: OnceLock<Vec<Owned<PhysicalDevice>>>,
}

impl Dispatched for Instance {
    type Handle = vk::Instance;
}

impl Instance {
    /// An instance, with [`DEBUG_UTILS`] or without.
    pub(crate) fn new(has_debug_utils: bool) -> Self {
        Self { has_debug_utils, devices: OnceLock::new() }
    }

    /// The physical devices: the adapter, if there is one.
    ///
    /// # Errors
    /// VK_ERROR_INITIALIZATION_FAILED and others if there is a machine and it fails.
    pub(crate) fn devices(&self) -> Answer<&[Owned<PhysicalDevice>]> {
        if let Some(devices) = self.devices.get() {
            return Ok(devices);
        }
        let devices = match Adapter::open(machine::thunks()) {
            Ok(adapter) => vec![Owned::new(PhysicalDevice::new(adapter).with_debug_utils(self.has_debug_utils))],
            // A system without the functions that find compute-only adapters has none.
            Err(Error::NoAdapter | Error::MissingThunk(_)) => Vec::new(),
            Err(error) => match result(error) {
                memory @ (vk::Result::ERROR_OUT_OF_HOST_MEMORY | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY) => {
                    return Err(memory);
                }
                // Told on standard error. With an error the loader would hide the devices of other drivers, too.
                _ => Vec::new(),
            },
        };
        Ok(self.devices.get_or_init(|| devices))
    }
}

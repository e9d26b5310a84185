//! Physical device objects: what plug and play knows of a device, for drivers that ask with IoGetDeviceProperty and IoOpenDeviceRegistryKey.
//!
//! Drivers may look into a device object; mostly they only hand it back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::lock::RwLock;
use crate::objects::DeviceFields;
use wddm_ddi::nt::{DEVICE_PROPERTY_ADDRESS, DEVICE_PROPERTY_BUS_NUMBER, DEVICE_PROPERTY_HARDWARE_ID};
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_OBJECT_NAME_NOT_FOUND};

use crate::pci::Function;
use crate::registry::RegistryKey;

static OBJECTS: RwLock<BTreeMap<usize, Known>> = RwLock::new(BTreeMap::new());

/// Position of a function on the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Bus, the segment in the upper bits.
    pub bus: u32,
    pub device: u16,
    pub function: u16,
}

/// A bus of its own for every machine.
pub fn next_bus() -> u32 {
    static SEGMENTS: AtomicU32 = AtomicU32::new(1);
    SEGMENTS.fetch_add(1, Ordering::Relaxed) << 8
}

#[derive(Clone)]
struct Known {
    location: Location,
    hardware_ids: Option<[String; 2]>,
    software: RegistryKey,
}

/// The device object of a function; drivers may use it until this is dropped.
pub struct DeviceObject(DeviceFields);

impl DeviceObject {
    /// A device object for what was found at `location`, if it was a function.
    pub fn new(location: Location, function: Option<&Arc<Function>>) -> Self {
        let object = DeviceFields::new();
        let hardware_ids = function.map(|function| function.hardware_ids());
        let known = Known { location, hardware_ids, software: RegistryKey::default() };
        OBJECTS.write().insert(object.address(), known);
        Self(object)
    }

    /// Sets the software key of its driver, for drivers that open it from now on.
    pub fn set_software_key(&self, key: RegistryKey) {
        if let Some(known) = OBJECTS.write().get_mut(&self.address()) {
            known.software = key;
        }
    }

    /// As drivers get it.
    pub fn address(&self) -> usize {
        self.0.address()
    }
}

impl Drop for DeviceObject {
    fn drop(&mut self) {
        OBJECTS.write().remove(&self.address());
    }
}

/// The bytes of a property; `None` if there is no such object.
///
/// # Errors
/// STATUS_OBJECT_NAME_NOT_FOUND for a property that the device does not have; STATUS_INVALID_PARAMETER for a number that is none.
/// [wdm: IoGetDeviceProperty]
pub fn property(object: usize, property: i32) -> Option<Result<Vec<u8>, NTSTATUS>> {
    /// The first number behind the last property. [wdm: DevicePropertyContainerID]
    const END: i32 = 22;
    let objects = OBJECTS.read();
    let Known { location, hardware_ids, .. } = objects.get(&object)?;
    Some(match property {
        DEVICE_PROPERTY_BUS_NUMBER => Ok(location.bus.to_le_bytes().to_vec()),
        DEVICE_PROPERTY_ADDRESS => {
            Ok((u32::from(location.device) << 16 | u32::from(location.function)).to_le_bytes().to_vec())
        }
        DEVICE_PROPERTY_HARDWARE_ID => hardware_ids.as_ref().ok_or(STATUS_OBJECT_NAME_NOT_FOUND).map(|ids| {
            let units = ids.iter().flat_map(|id| id.encode_utf16().chain([0])).chain([0]);
            units.flat_map(u16::to_le_bytes).collect()
        }),
        0..END => Err(STATUS_OBJECT_NAME_NOT_FOUND),
        _ => Err(STATUS_INVALID_PARAMETER),
    })
}

/// The software key of a device's driver; `None` if there is no such object.
pub fn software_key(object: usize) -> Option<RegistryKey> {
    OBJECTS.read().get(&object).map(|known| known.software.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_its_place_and_is_gone_when_it_is_dropped() {
        let location = Location { bus: next_bus(), device: 3, function: 1 };
        let object = DeviceObject::new(location, None);
        let address = object.address();
        let ask = |number| property(address, number);
        assert_eq!(ask(DEVICE_PROPERTY_BUS_NUMBER), Some(Ok(location.bus.to_le_bytes().to_vec())));
        assert_eq!(ask(DEVICE_PROPERTY_ADDRESS), Some(Ok(vec![1, 0, 3, 0])));
        assert_eq!(ask(DEVICE_PROPERTY_HARDWARE_ID), Some(Err(STATUS_OBJECT_NAME_NOT_FOUND)));
        assert_eq!(ask(0), Some(Err(STATUS_OBJECT_NAME_NOT_FOUND)));
        assert_eq!([ask(-1), ask(22)], [const { Some(Err(STATUS_INVALID_PARAMETER)) }; 2]);
        assert_eq!(software_key(address), Some(RegistryKey::default()));
        let key = RegistryKey::default().with_text("Name", "text");
        object.set_software_key(key.clone());
        assert_eq!(software_key(address), Some(key));
        drop(object);
        assert_eq!(software_key(address), None);
        assert_eq!(property(address, DEVICE_PROPERTY_ADDRESS), None);
    }
}

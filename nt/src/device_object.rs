//! Physical device objects: what plug and play knows of a device, for drivers that ask with IoGetDeviceProperty and IoOpenDeviceRegistryKey.
//!
//! Drivers may look into a device object; mostly they only hand it back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::lock::RwLock;
use crate::objects::DeviceFields;
use wddm_ddi::nt::{DEVICE_PROPERTY_ADDRESS, DEVICE_PROPERTY_BUS_NUMBER, DEVICE_PROPERTY_HARDWARE_ID};
use wddm_ddi::status::{NTSTATUS, STATUS_OBJECT_NAME_NOT_FOUND};

use crate::pci::Function;
use crate::registry::{RegistryKey, RegistryValue};

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

/// Numbers of DEVICE_REGISTRY_PROPERTY. [wdm: DEVICE_REGISTRY_PROPERTY]
pub const DESCRIPTION: i32 = 0;
pub const CLASS_NAME: i32 = 5;
pub const CLASS_GUID: i32 = 6;
pub const DRIVER_KEY_NAME: i32 = 7;
pub const MANUFACTURER: i32 = 8;
pub const LOCATION_INFORMATION: i32 = 10;
pub const OBJECT_NAME: i32 = 11;
pub const BUS_TYPE_GUID: i32 = 12;
pub const LEGACY_BUS_TYPE: i32 = 13;
pub const ENUMERATOR_NAME: i32 = 15;
const UI_NUMBER: i32 = 17;
const INSTALL_STATE: i32 = 18;
const REMOVAL_POLICY: i32 = 19;
/// The first number behind the last property.
const END: i32 = 23;
/// Bits that the kit's header sets in the numbers of texts, GUIDs and lists of texts when the code is analysed.
const TYPES: i32 = 0x7000;

/// The property is none of those that there are. [wdm: IoGetDeviceProperty]
pub const STATUS_INVALID_PARAMETER_2: NTSTATUS = NTSTATUS(0xc000_00f0_u32.cast_signed());
/// GUID_BUS_TYPE_PCI, {c8ebdfb0-b510-11d0-80e5-00a0c92542e3}. [wdmguid]
const PCI: [u8; 16] = [0xb0, 0xdf, 0xeb, 0xc8, 0x10, 0xb5, 0xd0, 0x11, 0x80, 0xe5, 0x00, 0xa0, 0xc9, 0x25, 0x42, 0xe3];

impl Known {
    /// The value of a property; `None` if the device does not have it.
    fn property(&self, property: i32) -> Option<RegistryValue> {
        let Self { location: Location { bus, device, function }, hardware_ids, software } = self;
        let text = |text: String| Some(RegistryValue::Text(text));
        let number = |number: u32| Some(RegistryValue::Number(number));
        let class = || software.parent();
        match property {
            DESCRIPTION => software.text("DriverDesc").and_then(text),
            DEVICE_PROPERTY_HARDWARE_ID => hardware_ids.as_ref().map(|ids| RegistryValue::Texts(ids.to_vec())),
            // What setup has written to the key of the class, whose name is its GUID.
            CLASS_NAME => class()?.text("Class").and_then(text),
            CLASS_GUID => text(class()?.name()),
            DRIVER_KEY_NAME => text(format!("{}\\{}", class()?.name(), software.name())),
            // The manufacturer of the INF file is not kept.
            MANUFACTURER => software.text("ProviderName").and_then(text),
            LOCATION_INFORMATION => text(format!("PCI bus {bus}, device {device}, function {function}")),
            OBJECT_NAME => text(format!("\\Device\\NTPNP_PCI{:04}", device * 8 + function)),
            BUS_TYPE_GUID => Some(RegistryValue::Other { kind: 0, bytes: PCI.to_vec() }),
            // PCIBus of INTERFACE_TYPE.
            LEGACY_BUS_TYPE => number(5),
            DEVICE_PROPERTY_BUS_NUMBER => number(*bus),
            ENUMERATOR_NAME => text("PCI".to_owned()),
            DEVICE_PROPERTY_ADDRESS => number(u32::from(*device) << 16 | u32::from(*function)),
            // The bus has no numbers that a user could read.
            UI_NUMBER => number(u32::MAX),
            // InstallStateInstalled, RemovalPolicyExpectNoRemoval.
            INSTALL_STATE => number(0),
            REMOVAL_POLICY => number(1),
            _ => None,
        }
    }
}

/// The value of a property; `None` if there is no such object.
///
/// # Errors
/// STATUS_OBJECT_NAME_NOT_FOUND for a property that the device does not have; STATUS_INVALID_PARAMETER_2 for a number that is none.
/// [wdm: IoGetDeviceProperty]
pub fn property(object: usize, property: i32) -> Option<Result<RegistryValue, NTSTATUS>> {
    let known = OBJECTS.read().get(&object).cloned()?;
    Some(match property & !TYPES {
        number @ 0..END => known.property(number).ok_or(STATUS_OBJECT_NAME_NOT_FOUND),
        _ => Err(STATUS_INVALID_PARAMETER_2),
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
        assert_eq!(ask(DEVICE_PROPERTY_BUS_NUMBER), Some(Ok(RegistryValue::Number(location.bus))));
        assert_eq!(ask(DEVICE_PROPERTY_ADDRESS), Some(Ok(RegistryValue::Number(0x3_0001))));
        assert_eq!(ask(DEVICE_PROPERTY_HARDWARE_ID), Some(Err(STATUS_OBJECT_NAME_NOT_FOUND)));
        assert_eq!(ask(0), Some(Err(STATUS_OBJECT_NAME_NOT_FOUND)));
        assert_eq!([ask(-1), ask(23)], [const { Some(Err(STATUS_INVALID_PARAMETER_2)) }; 2]);
        assert_eq!(software_key(address), Some(RegistryKey::default()));
        let key = RegistryKey::default().with_text("Name", "text");
        object.set_software_key(key.clone());
        assert_eq!(software_key(address), Some(key));
        drop(object);
        assert_eq!(software_key(address), None);
        assert_eq!(property(address, DEVICE_PROPERTY_ADDRESS), None);
    }

    #[test]
    fn properties_are_what_setup_and_the_bus_know_of_the_device() {
        let root = RegistryKey::default();
        let software = RegistryKey::default().with_text("DriverDesc", "A toy").with_text("ProviderName", "Toy makers");
        let guid = "{f01a9d53-3ff6-48d2-9f97-c8a7004be10c}";
        root.link(&format!("Class\\{guid}\\0007"), &software).unwrap();
        let class = root.open(&format!("Class\\{guid}")).unwrap();
        class.set("Class", RegistryValue::Text("ComputeAccelerator".to_owned())).unwrap();
        let object = DeviceObject::new(Location { bus: 2, device: 3, function: 1 }, None);
        object.set_software_key(software);
        let text = |number| match property(object.address(), number).unwrap().unwrap() {
            RegistryValue::Text(text) => text,
            other => panic!("{other:?}"),
        };
        let names = [DESCRIPTION, MANUFACTURER, CLASS_NAME, CLASS_GUID, ENUMERATOR_NAME].map(text);
        assert_eq!(names, ["A toy", "Toy makers", "ComputeAccelerator", guid, "PCI"]);
        assert_eq!(text(DRIVER_KEY_NAME), format!("{guid}\\0007"));
        assert_eq!(text(LOCATION_INFORMATION), "PCI bus 2, device 3, function 1");
        assert_eq!(text(OBJECT_NAME), "\\Device\\NTPNP_PCI0025");
        assert_eq!(text(ENUMERATOR_NAME | 0x1000), "PCI", "as the header has it for analysis");
        let number = |number| property(object.address(), number).unwrap().unwrap().bytes();
        assert_eq!([LEGACY_BUS_TYPE, UI_NUMBER].map(number), [vec![5, 0, 0, 0], vec![0xff; 4]]);
        assert_eq!(number(BUS_TYPE_GUID), PCI);
    }
}

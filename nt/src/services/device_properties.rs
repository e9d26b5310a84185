// UNSAFETY: kernel services with raw arguments.
//! Properties of devices: by the numbers of IoGetDeviceProperty, and by the keys of the unified device property model.

use std::ffi::c_void;

use wddm_ddi::nt::{APC_LEVEL, DEVICE_PROPERTY_ADDRESS, DEVICE_PROPERTY_BUS_NUMBER, DEVICE_PROPERTY_HARDWARE_ID};
use wddm_ddi::status::{
    NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER, STATUS_OBJECT_NAME_NOT_FOUND, STATUS_SUCCESS,
};

use super::call::{good, require_at_most, require_passive};
use super::memory::{bytes, get, put};
use crate::bugcheck::Bugcheck;
use crate::device_object::{self as device, property};
use crate::driver::Export;
use crate::driver_call::{on_host_stack, stop};
use crate::fault::guarded;
use crate::registry::RegistryValue;

pub(super) const EXPORTS: &[Export] =
    &[("IoGetDevicePropertyData", || io_get_device_property_data as *const () as usize)];

/// The format identifier of DEVPKEY_Device_DeviceDesc and its kin, {a45c254e-df1c-4efd-8020-67d146a850e0}, as a DEVPROPKEY begins. [devpkey]
const OF_DEVICES: [u8; 16] =
    [0x4e, 0x25, 0x5c, 0xa4, 0x1c, 0xdf, 0xfd, 0x4e, 0x80, 0x20, 0x67, 0xd1, 0x46, 0xa8, 0x50, 0xe0];

/// Types of properties. [devpropdef: DEVPROP_TYPE_UINT32, DEVPROP_TYPE_GUID, DEVPROP_TYPE_STRING, DEVPROP_TYPE_STRING_LIST]
const UINT32: u32 = 0x7;
const GUID: u32 = 0xd;
const STRING: u32 = 0x12;
const STRING_LIST: u32 = 0x2012;

/// Numbers of keys, with what they are by the other function, and their types. [devpkey]
const KEYS: [(u32, i32, u32); 13] = [
    (2, device::DESCRIPTION, STRING),
    (3, DEVICE_PROPERTY_HARDWARE_ID, STRING_LIST),
    (9, device::CLASS_NAME, STRING),
    (10, device::CLASS_GUID, GUID),
    (11, device::DRIVER_KEY_NAME, STRING),
    (13, device::MANUFACTURER, STRING),
    (15, device::LOCATION_INFORMATION, STRING),
    (16, device::OBJECT_NAME, STRING),
    (21, device::BUS_TYPE_GUID, GUID),
    (22, device::LEGACY_BUS_TYPE, UINT32),
    (23, DEVICE_PROPERTY_BUS_NUMBER, UINT32),
    (24, device::ENUMERATOR_NAME, STRING),
    (30, DEVICE_PROPERTY_ADDRESS, UINT32),
];

/// The value of a property. Stops the machine if there is no such device object.
fn value_of(service: &str, object: *mut c_void, number: i32) -> Result<RegistryValue, NTSTATUS> {
    let found = on_host_stack(|| property(object.addr(), number));
    found.unwrap_or_else(|| stop(Bugcheck::fatal(format!("{service} of {object:p}, which is no device object"))))
}

/// Writes a value and its length, or only the length if there is no space for the value.
fn tell(service: &'static str, value: &[u8], length: u32, buffer: *mut c_void, needed: *mut u32) -> NTSTATUS {
    put(service, needed, value.len() as u32);
    if value.len() > length as usize {
        return STATUS_BUFFER_TOO_SMALL;
    }
    // SAFETY: the driver's buffer has `length` bytes, which these do not exceed.
    good(service, unsafe { guarded::write_bytes(buffer.cast(), value) });
    STATUS_SUCCESS
}

pub(super) unsafe extern "win64" fn io_get_device_property(
    object: *mut c_void,
    property: i32,
    length: u32,
    buffer: *mut c_void,
    needed: *mut u32,
) -> NTSTATUS {
    const NAME: &str = "IoGetDeviceProperty";
    require_passive(NAME);
    match value_of(NAME, object, property) {
        Ok(value) => tell(NAME, &value.bytes(), length, buffer, needed),
        Err(status) => status,
    }
}

/// The bytes of a GUID that is written as a text in braces.
fn guid_of(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.strip_prefix('{')?.strip_suffix('}')?.chars().filter(|letter| *letter != '-').collect();
    let mut bytes = u128::from_str_radix(&digits, 16).ok()?.to_be_bytes();
    bytes.get_mut(0..4)?.reverse();
    bytes.get_mut(4..6)?.reverse();
    bytes.get_mut(6..8)?.reverse();
    Some(bytes)
}

/// "Set this parameter either to a language-specific LCID value or to LOCALE_NEUTRAL"; "Do not set this parameter to LOCALE_SYSTEM_DEFAULT or LOCALE_USER_DEFAULT." The properties
/// here have no language. [wdm: IoGetDevicePropertyData]
extern "win64" fn io_get_device_property_data(
    object: *mut c_void,
    key: *const u8,
    locale: u32,
    _flags: u32,
    size: u32,
    data: *mut c_void,
    needed: *mut u32,
    kind: *mut u32,
) -> NTSTATUS {
    const NAME: &str = "IoGetDevicePropertyData";
    const DEFAULTS: [u32; 2] = [0x400, 0x800];
    require_at_most(NAME, APC_LEVEL);
    if DEFAULTS.contains(&locale) {
        return STATUS_INVALID_PARAMETER;
    }
    let (format, number) = (bytes(NAME, key, OF_DEVICES.len()), get(NAME, key.wrapping_add(OF_DEVICES.len()).cast()));
    let found = KEYS.iter().find(|(id, ..)| format == OF_DEVICES && *id == number && locale == 0);
    let Some((_, property, type_of)) = found else { return STATUS_OBJECT_NAME_NOT_FOUND };
    let value = match value_of(NAME, object, *property) {
        Ok(value) => value,
        Err(status) => return status,
    };
    let value = match &value {
        RegistryValue::Text(text) if *type_of == GUID => guid_of(text).map_or_else(Vec::new, Vec::from),
        value => value.bytes(),
    };
    let status = tell(NAME, &value, size, data, needed);
    if status == STATUS_SUCCESS {
        put(NAME, kind, *type_of);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_object::{DeviceObject, Location};
    use crate::driver::Driver;
    use crate::driver_call;
    use crate::registry::RegistryKey;

    const CLASS: &str = "{f01a9d53-3ff6-48d2-9f97-c8a7004be10c}";

    fn key(number: u32) -> Vec<u8> {
        [&OF_DEVICES[..], &number.to_le_bytes()].concat()
    }

    /// Status, what was written into 64 bytes, the length and the type.
    fn ask(object: &DeviceObject, key: &[u8], locale: u32, size: u32) -> (NTSTATUS, [u8; 64], u32, u32) {
        let (mut data, mut needed, mut kind) = ([0xcc_u8; 64], 0, 0xcccc);
        let at = std::ptr::without_provenance_mut(object.address());
        let place = data.as_mut_ptr().cast();
        let (needed_at, kind_at) = (&raw mut needed, &raw mut kind);
        let status = io_get_device_property_data(at, key.as_ptr(), locale, 0, size, place, needed_at, kind_at);
        (status, data, needed, kind)
    }

    #[test]
    fn properties_are_told_by_key_with_their_type() {
        let root = RegistryKey::default();
        let software = RegistryKey::default().with_text("DriverDesc", "Toy");
        root.link(&format!("Class\\{CLASS}\\0000"), &software).unwrap();
        let object = DeviceObject::new(Location { bus: 1, device: 0, function: 0 }, None);
        object.set_software_key(software);
        driver_call::run(&Driver::for_tests("properties"), "a function", || {
            let (status, data, needed, kind) = ask(&object, &key(2), 0, 64);
            assert_eq!((status, &data[..8], needed, kind), (STATUS_SUCCESS, &b"T\0o\0y\0\0\0"[..], 8, STRING));
            let (status, data, needed, kind) = ask(&object, &key(2), 0, 7);
            assert_eq!((status, data, needed, kind), (STATUS_BUFFER_TOO_SMALL, [0xcc; 64], 8, 0xcccc));
            let (status, data, _, kind) = ask(&object, &key(10), 0, 64);
            let guid = [0x53, 0x9d, 0x1a, 0xf0, 0xf6, 0x3f, 0xd2, 0x48, 0x9f, 0x97, 0xc8, 0xa7, 0x00, 0x4b, 0xe1, 0x0c];
            assert_eq!((status, &data[..16], kind), (STATUS_SUCCESS, &guid[..], GUID));
            let (status, data, needed, kind) = ask(&object, &key(23), 0, 4);
            assert_eq!((status, data[0], needed, kind), (STATUS_SUCCESS, 1, 4, UINT32));
            let mut other = key(2);
            other[0] ^= 1;
            let absent = [(other, 0), (key(99), 0), (key(13), 0), (key(2), 0x409)];
            for (key, locale) in absent {
                assert_eq!(ask(&object, &key, locale, 64).0, STATUS_OBJECT_NAME_NOT_FOUND, "{key:?} {locale}");
            }
            assert_eq!([0x400, 0x800].map(|locale| ask(&object, &key(2), locale, 64).0), [STATUS_INVALID_PARAMETER; 2]);
        })
        .0
        .unwrap();
    }
}

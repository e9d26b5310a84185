// UNSAFETY: kernel services with raw arguments.
//! Keys of the registry, which drivers open by their device and read by name.

use std::ffi::c_void;
use std::sync::Arc;

use wddm_ddi::nt::{
    KEY_VALUE_BASIC_INFORMATION_CLASS, KEY_VALUE_FULL_INFORMATION_CLASS, KEY_VALUE_PARTIAL_INFORMATION_CLASS,
    PLUGPLAY_REGKEY_CURRENT_HWPROFILE, PLUGPLAY_REGKEY_DEVICE, PLUGPLAY_REGKEY_DRIVER,
};
use wddm_ddi::status::{
    NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER,
    STATUS_OBJECT_NAME_NOT_FOUND, STATUS_SUCCESS,
};
use wddm_ddi::types::{HANDLE, UNICODE_STRING};

use super::{good, passive_caller, text_of};
use crate::bugcheck::Bugcheck;
use crate::device_object;
use crate::driver_call::{on_host_stack, stop};
use crate::fault::guarded;
use crate::registry::{RegistryKey, RegistryValue};

/// The software key of a device is what setup wrote; its hardware key is empty, as those of a hardware profile are.
pub(super) unsafe extern "win64" fn io_open_device_registry_key(
    device: *mut c_void,
    kind: u32,
    _access: u32,
    opened: *mut HANDLE,
) -> NTSTATUS {
    const NAME: &str = "IoOpenDeviceRegistryKey";
    let driver = passive_caller(NAME);
    let Some(software) = on_host_stack(|| device_object::software_key(device.addr())) else {
        return STATUS_INVALID_DEVICE_REQUEST;
    };
    let key = match kind {
        PLUGPLAY_REGKEY_DRIVER => software,
        _ if [PLUGPLAY_REGKEY_DEVICE, PLUGPLAY_REGKEY_DRIVER]
            .contains(&(kind & !PLUGPLAY_REGKEY_CURRENT_HWPROFILE)) =>
        {
            Arc::<RegistryKey>::default()
        }
        _ => return STATUS_INVALID_PARAMETER,
    };
    let handle = on_host_stack(|| driver.keys().open(key));
    // SAFETY: a place for a handle, which the driver passes.
    good(NAME, unsafe { guarded::write(opened, std::ptr::without_provenance_mut(handle)) });
    STATUS_SUCCESS
}

/// What a class of information tells of a value, and the bytes of it that have to fit at least; `None` for a number that is no class.
/// [wdm: KEY_VALUE_BASIC_INFORMATION, KEY_VALUE_FULL_INFORMATION, KEY_VALUE_PARTIAL_INFORMATION]
fn information(class: i32, name: &str, value: &RegistryValue) -> Option<(Vec<u8>, usize)> {
    const TITLE_INDEX: u32 = 0;
    let data = value.bytes();
    let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let (data_length, name_length) = (data.len() as u32, name.len() as u32);
    let (head, parts) = match class {
        KEY_VALUE_BASIC_INFORMATION_CLASS => (vec![TITLE_INDEX, value.kind(), name_length], vec![name]),
        KEY_VALUE_PARTIAL_INFORMATION_CLASS => (vec![TITLE_INDEX, value.kind(), data_length], vec![data]),
        KEY_VALUE_FULL_INFORMATION_CLASS => {
            const HEAD: u32 = 20;
            let data_offset = (HEAD + name_length).next_multiple_of(8);
            let padding = vec![0; (data_offset - HEAD - name_length) as usize];
            let head = vec![TITLE_INDEX, value.kind(), data_offset, data_length, name_length];
            (head, vec![name, padding, data])
        }
        _ => return None,
    };
    let head: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
    let least = head.len();
    Some(([&[head], &parts[..]].concat().concat(), least))
}

pub(super) unsafe extern "win64" fn zw_query_value_key(
    handle: HANDLE,
    name: *mut UNICODE_STRING,
    class: i32,
    buffer: *mut c_void,
    length: u32,
    needed: *mut u32,
) -> NTSTATUS {
    const NAME: &str = "ZwQueryValueKey";
    let driver = passive_caller(NAME);
    let Some(key) = on_host_stack(|| driver.keys().get(handle.addr())) else { invalid_handle(NAME, handle) };
    let name = text_of(NAME, name).unwrap_or_default();
    let found = on_host_stack(|| key.get(&name).map(|value| information(class, &name, value)));
    let (bytes, least) = match found {
        Some(Some(found)) => found,
        Some(None) => return STATUS_INVALID_PARAMETER,
        None => return STATUS_OBJECT_NAME_NOT_FOUND,
    };
    // SAFETY: a place for a number, which the driver passes.
    good(NAME, unsafe { guarded::write(needed, bytes.len() as u32) });
    let length = length as usize;
    if length < least {
        return STATUS_BUFFER_TOO_SMALL;
    }
    let fitting = bytes.get(..length).unwrap_or(&bytes);
    // SAFETY: the driver's buffer has `length` bytes, which these do not exceed.
    good(NAME, unsafe { guarded::write_bytes(buffer.cast(), fitting) });
    if fitting.len() < bytes.len() { STATUS_BUFFER_OVERFLOW } else { STATUS_SUCCESS }
}

pub(super) unsafe extern "win64" fn zw_close(handle: HANDLE) -> NTSTATUS {
    const NAME: &str = "ZwClose";
    let driver = passive_caller(NAME);
    let close = || driver.keys().close(handle.addr()) || driver.deferred().lock().close(handle.addr());
    if on_host_stack(close) { STATUS_SUCCESS } else { invalid_handle(NAME, handle) }
}

fn invalid_handle(service: &str, handle: HANDLE) -> ! {
    let parameters = [handle.addr() as u64, 1, 0, 0];
    stop(Bugcheck::new(
        Bugcheck::INVALID_KERNEL_HANDLE,
        parameters,
        format!("{service} of {handle:p}, which is not open"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_object::{DeviceObject, Location, next_bus};
    use crate::driver::Driver;
    use crate::driver_call;

    const NUMBER: u32 = 0x0102_0304;

    fn device() -> DeviceObject {
        let object = DeviceObject::new(Location { bus: next_bus(), device: 0, function: 0 }, None);
        object.set_software_key(Arc::new(RegistryKey::default().with("Ab", RegistryValue::Number(NUMBER))));
        object
    }

    fn open(object: usize, kind: u32) -> (NTSTATUS, HANDLE) {
        let mut key = std::ptr::null_mut();
        // SAFETY: the handle goes to a local.
        let status =
            unsafe { io_open_device_registry_key(std::ptr::without_provenance_mut(object), kind, 1, &raw mut key) };
        (status, key)
    }

    /// Status, what was written into a buffer of `N` bytes, and the length that is needed.
    fn query<const N: usize>(key: HANDLE, name: &str, class: i32) -> (NTSTATUS, [u8; N], u32) {
        let mut name: Vec<u16> = name.encode_utf16().collect();
        let bytes = (name.len() * 2) as u16;
        let mut name = UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: name.as_mut_ptr() };
        let (mut buffer, mut needed) = ([0xff; N], 0);
        let place = buffer.as_mut_ptr().cast();
        // SAFETY: name, buffer and length are locals of the sizes named.
        let status = unsafe { zw_query_value_key(key, &raw mut name, class, place, N as u32, &raw mut needed) };
        (status, buffer, needed)
    }

    fn run<T>(driver: &Arc<Driver>, call: impl FnOnce() -> T) -> Option<T> {
        driver_call::run(driver, "a function", call).0
    }

    #[test]
    fn a_value_is_told_in_the_form_of_its_class() {
        let (driver, object) = (Driver::for_tests("reader"), device());
        run(&driver, || {
            let (status, key) = open(object.address(), PLUGPLAY_REGKEY_DRIVER);
            assert_eq!(status, STATUS_SUCCESS);
            let partial = [0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 4, 3, 2, 1];
            assert_eq!(query(key, "aB", KEY_VALUE_PARTIAL_INFORMATION_CLASS), (STATUS_SUCCESS, partial, 16));
            let basic = [0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, b'a', 0, b'B', 0];
            assert_eq!(query(key, "aB", KEY_VALUE_BASIC_INFORMATION_CLASS), (STATUS_SUCCESS, basic, 16));
            let full = [0, 0, 0, 0, 4, 0, 0, 0, 24, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, b'a', 0, b'B', 0, 4, 3, 2, 1];
            assert_eq!(query(key, "aB", KEY_VALUE_FULL_INFORMATION_CLASS), (STATUS_SUCCESS, full, 28));
            assert_eq!(query::<64>(key, "aB", 3).0, STATUS_INVALID_PARAMETER);
            assert_eq!(query::<64>(key, "b", KEY_VALUE_PARTIAL_INFORMATION_CLASS).0, STATUS_OBJECT_NAME_NOT_FOUND);
            // SAFETY: the key is open.
            assert_eq!(unsafe { zw_close(key) }, STATUS_SUCCESS);
        })
        .unwrap();
    }

    #[test]
    fn a_short_buffer_gets_what_fits_behind_the_head_or_nothing() {
        let (driver, object) = (Driver::for_tests("short"), device());
        run(&driver, || {
            let (_, key) = open(object.address(), PLUGPLAY_REGKEY_DRIVER);
            let partial = [0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 4, 3];
            assert_eq!(query(key, "Ab", KEY_VALUE_PARTIAL_INFORMATION_CLASS), (STATUS_BUFFER_OVERFLOW, partial, 16));
            let nothing = [0xff; 11];
            assert_eq!(query(key, "Ab", KEY_VALUE_PARTIAL_INFORMATION_CLASS), (STATUS_BUFFER_TOO_SMALL, nothing, 16));
            // SAFETY: the key is open.
            assert_eq!(unsafe { zw_close(key) }, STATUS_SUCCESS);
        })
        .unwrap();
    }

    #[test]
    fn keys_are_those_that_there_are() {
        let (driver, object) = (Driver::for_tests("kinds"), device());
        run(&driver, || {
            assert_eq!(open(1, PLUGPLAY_REGKEY_DRIVER).0, STATUS_INVALID_DEVICE_REQUEST);
            for kind in [0, PLUGPLAY_REGKEY_DEVICE | PLUGPLAY_REGKEY_DRIVER, PLUGPLAY_REGKEY_CURRENT_HWPROFILE, 8] {
                assert_eq!(open(object.address(), kind).0, STATUS_INVALID_PARAMETER, "{kind}");
            }
            for kind in [PLUGPLAY_REGKEY_DEVICE, PLUGPLAY_REGKEY_DRIVER | PLUGPLAY_REGKEY_CURRENT_HWPROFILE] {
                let (status, key) = open(object.address(), kind);
                assert_eq!(status, STATUS_SUCCESS, "{kind}");
                let found = query::<64>(key, "Ab", KEY_VALUE_PARTIAL_INFORMATION_CLASS).0;
                assert_eq!(found, STATUS_OBJECT_NAME_NOT_FOUND, "{kind}");
                // SAFETY: the key is open.
                assert_eq!(unsafe { zw_close(key) }, STATUS_SUCCESS);
            }
        })
        .unwrap();
        driver.check_unloaded();
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    #[test]
    fn a_handle_that_is_not_open_stops_the_machine() {
        let driver = Driver::for_tests("closer");
        let handle = std::ptr::without_provenance_mut(0x10);
        // SAFETY: the handle is looked up.
        assert_eq!(run(&driver, || unsafe { zw_close(handle) }), None);
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert_eq!((bugcheck.code, bugcheck.parameters), (Bugcheck::INVALID_KERNEL_HANDLE, [0x10, 1, 0, 0]));
    }

    #[test]
    fn a_key_left_open_is_found_when_the_driver_is_unloaded() {
        let (driver, object) = (Driver::for_tests("leaker"), device());
        let (status, _) = run(&driver, || open(object.address(), PLUGPLAY_REGKEY_DRIVER)).unwrap();
        assert_eq!(status, STATUS_SUCCESS);
        driver.check_unloaded();
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert_eq!(bugcheck.code, Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION);
        assert!(bugcheck.reason.contains("1 key(s) of the registry open"), "{bugcheck}");
    }
}

// UNSAFETY: calls kernel services with raw arguments.
//! Tests of the keys of the registry.

use super::*;
use crate::device_object::{DeviceObject, Location, next_bus};
use crate::driver::Driver;
use crate::driver_call;
use std::sync::Arc;
use wddm_ddi::status::STATUS_OBJECT_NAME_NOT_FOUND;

const NUMBER: u32 = 0x0102_0304;
const KEY_READ: u32 = 0x2_0019;
const KEY_ALL_ACCESS: u32 = 0xf_003f;

fn device() -> DeviceObject {
    let object = DeviceObject::new(Location { bus: next_bus(), device: 0, function: 0 }, None);
    object.set_software_key(RegistryKey::default().with("Ab", RegistryValue::Number(NUMBER)));
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
        let basic = [0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, b'A', 0, b'b', 0];
        assert_eq!(query(key, "aB", KEY_VALUE_BASIC_INFORMATION_CLASS), (STATUS_SUCCESS, basic, 16));
        let full = [0, 0, 0, 0, 4, 0, 0, 0, 24, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, b'A', 0, b'b', 0, 4, 3, 2, 1];
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

/// A counted string and the units that it points to.
struct Name {
    _units: Vec<u16>,
    string: UNICODE_STRING,
}

fn name(text: &str) -> Name {
    let mut units: Vec<u16> = text.encode_utf16().collect();
    let length = (units.len() * 2) as u16;
    let string = UNICODE_STRING { Length: length, MaximumLength: length, Buffer: units.as_mut_ptr() };
    Name { _units: units, string }
}

/// Calls a function with an OBJECT_ATTRIBUTES of a path.
fn at<T>(root: HANDLE, path: &str, call: impl FnOnce(*mut c_void) -> T) -> T {
    let mut name = name(path);
    let mut attributes = [48, root.addr(), (&raw mut name.string).expose_provenance(), 0x240, 0, 0];
    call(attributes.as_mut_ptr().cast())
}

fn open_path(root: HANDLE, path: &str) -> (NTSTATUS, HANDLE) {
    let mut key = std::ptr::null_mut();
    (at(root, path, |attributes| zw_open_key(&raw mut key, KEY_ALL_ACCESS, attributes)), key)
}

fn create_path(root: HANDLE, path: &str) -> (NTSTATUS, HANDLE, u32) {
    let (mut key, mut disposition) = (std::ptr::null_mut(), 0);
    let class = std::ptr::null_mut();
    let create =
        |attributes| zw_create_key(&raw mut key, KEY_ALL_ACCESS, attributes, 0, class, 0, &raw mut disposition);
    (at(root, path, create), key, disposition)
}

fn set(key: HANDLE, text: &str, kind: u32, data: &[u8]) -> NTSTATUS {
    let mut name = name(text);
    zw_set_value_key(key, &raw mut name.string, 0, kind, data.as_ptr(), data.len() as u32)
}

fn close(key: HANDLE) {
    // SAFETY: the key is open.
    assert_eq!(unsafe { zw_close(key) }, STATUS_SUCCESS);
}

const SERVICE: &str = "\\Registry\\Machine\\System\\CurrentControlSet\\Services\\writer";
const NONE: HANDLE = std::ptr::null_mut();

fn writer() -> Arc<Driver> {
    let driver = Driver::for_tests("writer");
    let place = "Registry\\Machine\\System\\ControlSet001\\Services\\writer";
    driver.registry().link(place, &RegistryKey::default().with("Start", RegistryValue::Number(3))).unwrap();
    driver
}

#[test]
fn a_driver_writes_values_to_the_key_of_its_service_and_reads_them_again() {
    let driver = writer();
    run(&driver, || {
        let (status, key) = open_path(NONE, SERVICE);
        assert_eq!(status, STATUS_SUCCESS);
        assert_eq!(set(key, "Mode", 4, &[1, 0, 0, 0]), STATUS_SUCCESS);
        assert_eq!(set(key, "mode", 4, &[2, 0, 0, 0]), STATUS_SUCCESS);
        assert_eq!(set(key, "Odd", 4, &[7, 7]), STATUS_SUCCESS, "the type says nothing about the bytes");
        let partial = [0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(query(key, "MODE", KEY_VALUE_PARTIAL_INFORMATION_CLASS), (STATUS_SUCCESS, partial, 16));
        let odd = [0, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 7, 7];
        assert_eq!(query(key, "Odd", KEY_VALUE_PARTIAL_INFORMATION_CLASS), (STATUS_SUCCESS, odd, 14));
        let (mut buffer, mut needed) = ([0_u8; 64], 0);
        let mut names = Vec::new();
        let end = loop {
            let place = buffer.as_mut_ptr().cast();
            let status = zw_enumerate_value_key(key, names.len() as u32, 0, place, 64, &raw mut needed);
            if status != STATUS_SUCCESS {
                break status;
            }
            names.push(buffer[12]);
        };
        assert_eq!((names.as_slice(), end), (&b"MOS"[..], wddm_ddi::status::STATUS_NO_MORE_ENTRIES));
        let mut mode = name("MODE");
        assert_eq!(zw_delete_value_key(key, &raw mut mode.string), STATUS_SUCCESS);
        let gone = query::<64>(key, "Mode", KEY_VALUE_PARTIAL_INFORMATION_CLASS).0;
        assert_eq!(gone, STATUS_OBJECT_NAME_NOT_FOUND);
        assert_eq!(zw_flush_key(key), STATUS_SUCCESS);
        close(key);
    })
    .unwrap();
    driver.check_unloaded();
    assert_eq!(driver.verifier().bugcheck(), None);
}

#[test]
fn keys_are_made_below_keys_that_there_are_and_deleted_when_they_have_none_below() {
    use wddm_ddi::status::{STATUS_CANNOT_DELETE, STATUS_KEY_DELETED};
    let driver = writer();
    run(&driver, || {
        let (_, service) = open_path(NONE, SERVICE);
        let (status, parameters, made) = create_path(service, "Parameters");
        assert_eq!((status, made), (STATUS_SUCCESS, 1));
        let (status, again, found) = create_path(NONE, &format!("{SERVICE}\\PARAMETERS"));
        assert_eq!((status, found), (STATUS_SUCCESS, 2));
        assert_eq!(create_path(service, "None\\Below").0, STATUS_OBJECT_NAME_NOT_FOUND);
        let (mut buffer, mut needed) = ([0_u8; 64], 0);
        let told = |buffer: &mut [u8; 64], needed: &mut u32| {
            zw_enumerate_key(service, 0, 0, buffer.as_mut_ptr().cast(), 64, needed)
        };
        assert_eq!((told(&mut buffer, &mut needed), needed, buffer[16]), (STATUS_SUCCESS, 36, b'P'));
        let status = zw_query_key(parameters, 3, buffer.as_mut_ptr().cast(), 4, &raw mut needed);
        let path = "\\Registry\\Machine\\System\\ControlSet001\\Services\\writer\\Parameters";
        assert_eq!((status, needed as usize), (STATUS_BUFFER_OVERFLOW, 4 + 2 * path.len()));
        let status = zw_query_key(service, 2, buffer.as_mut_ptr().cast(), 64, &raw mut needed);
        let word = |at: usize| u32::from_le_bytes(buffer[at..at + 4].try_into().unwrap());
        assert_eq!((status, [20, 24, 32, 36, 40].map(word)), (STATUS_SUCCESS, [1, 20, 1, 10, 4]));
        assert_eq!(zw_delete_key(service), STATUS_CANNOT_DELETE);
        assert_eq!((zw_delete_key(parameters), zw_delete_key(again)), (STATUS_SUCCESS, STATUS_KEY_DELETED));
        assert_eq!(set(parameters, "a", 4, &[0; 4]), STATUS_KEY_DELETED);
        [service, parameters, again].into_iter().for_each(close);
    })
    .unwrap();
    driver.check_unloaded();
    assert_eq!(driver.verifier().bugcheck(), None);
}

#[test]
fn paths_begin_at_the_root_or_at_a_key() {
    let driver = writer();
    run(&driver, || {
        assert_eq!(open_path(NONE, "Registry\\Machine").0, STATUS_OBJECT_PATH_SYNTAX_BAD);
        assert_eq!(open_path(NONE, "\\Registry\\None").0, STATUS_OBJECT_NAME_NOT_FOUND);
        let (status, machine) = open_path(NONE, "\\REGISTRY\\MACHINE");
        assert_eq!(status, STATUS_SUCCESS);
        assert_eq!(open_path(machine, "\\System").0, STATUS_OBJECT_PATH_SYNTAX_BAD);
        let (status, system) = open_path(machine, "System");
        assert_eq!(status, STATUS_SUCCESS);
        let (status, same) = open_path(machine, "");
        assert_eq!(status, STATUS_SUCCESS);
        let mut short = [40_usize; 6];
        let mut key = NONE;
        assert_eq!(zw_open_key(&raw mut key, 0, short.as_mut_ptr().cast()), STATUS_INVALID_PARAMETER);
        [machine, system, same].into_iter().for_each(close);
    })
    .unwrap();
    driver.check_unloaded();
    assert_eq!(driver.verifier().bugcheck(), None);
}

#[test]
fn a_value_that_is_too_large_is_refused_before_it_is_read() {
    let driver = writer();
    run(&driver, || {
        let (_, key) = open_path(NONE, SERVICE);
        let mut text = name("Large");
        let status = zw_set_value_key(key, &raw mut text.string, 0, 3, std::ptr::null(), u32::MAX);
        assert_eq!(status, STATUS_INSUFFICIENT_RESOURCES);
        close(key);
    })
    .unwrap();
    let stopped = run(&driver, || set(std::ptr::without_provenance_mut(0x20), "a", 4, &[0; 4]));
    assert_eq!(stopped, None);
    assert_eq!(driver.verifier().bugcheck().unwrap().code, Bugcheck::INVALID_KERNEL_HANDLE);
}

#[test]
fn a_handle_that_was_opened_for_reading_changes_nothing() {
    // "must have been opened with the KEY_SET_VALUE DesiredAccess flag set for this call to succeed" [wdm: ZwSetValueKey]
    let driver = writer();
    run(&driver, || {
        let (_, writable, _) = create_path(NONE, &format!(r"{SERVICE}\Rights"));
        assert_eq!(set(writable, "There", 4, &[1, 0, 0, 0]), STATUS_SUCCESS);
        let mut key = std::ptr::null_mut();
        let open = |attributes| zw_open_key(&raw mut key, KEY_READ, attributes);
        assert_eq!(at(writable, "", open), STATUS_SUCCESS);
        assert_eq!(set(key, "New", 4, &[1, 0, 0, 0]), STATUS_ACCESS_DENIED);
        let mut there = name("There");
        assert_eq!(zw_delete_value_key(key, &raw mut there.string), STATUS_ACCESS_DENIED);
        assert_eq!(zw_delete_key(key), STATUS_ACCESS_DENIED);
        assert_eq!(query::<16>(key, "There", KEY_VALUE_PARTIAL_INFORMATION_CLASS).0, STATUS_SUCCESS, "it is there");
        assert_eq!(query::<16>(key, "New", KEY_VALUE_PARTIAL_INFORMATION_CLASS).0, STATUS_OBJECT_NAME_NOT_FOUND);
        [key, writable].into_iter().for_each(close);
    })
    .unwrap();
    assert_eq!(driver.verifier().bugcheck(), None);
}

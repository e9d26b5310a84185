// UNSAFETY: kernel services with raw arguments.
//! Keys of the registry, which drivers open by a device or by a path, read and change. A handle that was opened without the right to set values or to delete the key does not do
//! so, as the pages of these functions say; other rights are not looked at.

use std::ffi::c_void;

use wddm_ddi::nt::{
    KEY_VALUE_BASIC_INFORMATION_CLASS, KEY_VALUE_FULL_INFORMATION_CLASS, KEY_VALUE_PARTIAL_INFORMATION_CLASS,
    PLUGPLAY_REGKEY_CURRENT_HWPROFILE, PLUGPLAY_REGKEY_DEVICE, PLUGPLAY_REGKEY_DRIVER,
};
use wddm_ddi::status::{
    NTSTATUS, STATUS_ACCESS_DENIED, STATUS_BUFFER_OVERFLOW, STATUS_BUFFER_TOO_SMALL, STATUS_INSUFFICIENT_RESOURCES,
    STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER, STATUS_OBJECT_PATH_SYNTAX_BAD, STATUS_SUCCESS,
};
use wddm_ddi::types::{HANDLE, UNICODE_STRING};

use super::call::{good, passive_caller, text_of};
use super::memory::{bytes, field, get, put, put_if};
use crate::bugcheck::Bugcheck;
use crate::device_object;
use crate::driver::{Driver, Export};
use crate::driver_call::{calling_instruction, on_host_stack, stop};
use crate::fault::guarded;
use crate::registry::{KeyRights, RegistryKey, RegistryValue};

/// The functions that only images import.
pub(super) const EXPORTS: &[Export] = &[
    ("ZwOpenKey", || zw_open_key as *const () as usize),
    ("ZwCreateKey", || zw_create_key as *const () as usize),
    ("ZwSetValueKey", || zw_set_value_key as *const () as usize),
    ("ZwDeleteValueKey", || zw_delete_value_key as *const () as usize),
    ("ZwDeleteKey", || zw_delete_key as *const () as usize),
    ("ZwEnumerateKey", || zw_enumerate_key as *const () as usize),
    ("ZwEnumerateValueKey", || zw_enumerate_value_key as *const () as usize),
    ("ZwQueryKey", || zw_query_key as *const () as usize),
    ("ZwFlushKey", || zw_flush_key as *const () as usize),
];

/// The result of a service, or the status that the driver gets instead of it.
type Answer<T = ()> = Result<T, NTSTATUS>;

fn status_of(answer: Answer) -> NTSTATUS {
    answer.err().unwrap_or(STATUS_SUCCESS)
}

/// The key of a handle. Stops the machine if it is not open.
pub(super) fn key_of(service: &'static str, driver: &Driver, handle: HANDLE) -> RegistryKey {
    opened(service, driver, handle).0
}

/// As [`key_of`], with the rights of the handle.
fn opened(service: &'static str, driver: &Driver, handle: HANDLE) -> (RegistryKey, KeyRights) {
    let key = on_host_stack(|| driver.keys().get(handle.addr()));
    key.unwrap_or_else(|| invalid_handle(service, handle))
}

/// As [`key_of`], for a change that needs a right of the handle.
///
/// # Errors
/// STATUS_ACCESS_DENIED for a handle that was opened without it.
fn changed(
    service: &'static str,
    driver: &Driver,
    handle: HANDLE,
    right: fn(KeyRights) -> bool,
) -> Answer<RegistryKey> {
    let (key, rights) = opened(service, driver, handle);
    if right(rights) { Ok(key) } else { Err(STATUS_ACCESS_DENIED) }
}

/// RootDirectory and ObjectName of an OBJECT_ATTRIBUTES; 0 and an empty name for none. [wdm: OBJECT_ATTRIBUTES]
///
/// # Errors
/// STATUS_INVALID_PARAMETER for another length of the structure.
pub(super) fn root_and_name(service: &'static str, attributes: *mut c_void) -> Answer<(usize, String)> {
    const SIZE: u32 = 48;
    if get::<u32>(service, attributes.cast()) != SIZE {
        return Err(STATUS_INVALID_PARAMETER);
    }
    let root = get(service, field(attributes, 8));
    let name: usize = get(service, field(attributes, 16));
    let name = if name == 0 { None } else { text_of(service, std::ptr::with_exposed_provenance(name)) };
    Ok((root, name.unwrap_or_default()))
}

/// The key that a path in an OBJECT_ATTRIBUTES begins at, and the path from there.
///
/// # Errors
/// Those of [`root_and_name`]; STATUS_OBJECT_PATH_SYNTAX_BAD for a path that begins with a backslash although it has a key to
/// begin at, or without one although it has none.
fn place(service: &'static str, driver: &Driver, attributes: *mut c_void) -> Answer<(RegistryKey, String)> {
    let (root, name) = root_and_name(service, attributes)?;
    let absolute = name.strip_prefix('\\').map(str::to_owned);
    match (root, absolute) {
        (0, Some(path)) => Ok((driver.registry().clone(), path)),
        (0, None) | (_, Some(_)) => Err(STATUS_OBJECT_PATH_SYNTAX_BAD),
        (handle, None) => Ok((key_of(service, driver, std::ptr::without_provenance_mut(handle)), name)),
    }
}

/// Gives the driver a handle of a key.
fn give(service: &'static str, driver: &Driver, opened: *mut HANDLE, key: RegistryKey, access: u32) {
    let from = calling_instruction();
    let handle = on_host_stack(|| driver.keys().open(key, KeyRights::of(access), from));
    // SAFETY: a place for a handle, which the driver passes.
    good(service, unsafe { guarded::write(opened, std::ptr::without_provenance_mut(handle)) });
}

/// Errors: those of [`place`]; STATUS_OBJECT_NAME_NOT_FOUND; STATUS_OBJECT_NAME_INVALID. [wdm: ZwOpenKey]
extern "win64" fn zw_open_key(opened: *mut HANDLE, access: u32, attributes: *mut c_void) -> NTSTATUS {
    const NAME: &str = "ZwOpenKey";
    let driver = passive_caller(NAME);
    let key = place(NAME, &driver, attributes).and_then(|(root, path)| on_host_stack(|| root.open(&path)));
    status_of(key.map(|key| give(NAME, &driver, opened, key, access)))
}

/// Opens a key or makes it; of the keys before it all must be there. Errors: as [`zw_open_key`]; STATUS_INSUFFICIENT_RESOURCES. [wdm: ZwCreateKey]
extern "win64" fn zw_create_key(
    opened: *mut HANDLE,
    access: u32,
    attributes: *mut c_void,
    _title_index: u32,
    _class: *mut UNICODE_STRING,
    _options: u32,
    disposition: *mut u32,
) -> NTSTATUS {
    const NAME: &str = "ZwCreateKey";
    const REG_CREATED_NEW_KEY: u32 = 1;
    const REG_OPENED_EXISTING_KEY: u32 = 2;
    let driver = passive_caller(NAME);
    let key = place(NAME, &driver, attributes).and_then(|(root, path)| on_host_stack(|| root.create(&path)));
    status_of(key.map(|(key, made)| {
        give(NAME, &driver, opened, key, access);
        put_if(NAME, disposition, if made { REG_CREATED_NEW_KEY } else { REG_OPENED_EXISTING_KEY });
    }))
}

/// Sets a value of a type, whose bytes the registry does not look at. Errors: STATUS_ACCESS_DENIED; STATUS_KEY_DELETED; STATUS_INVALID_PARAMETER for a name that is too long;
/// STATUS_INSUFFICIENT_RESOURCES. [wdm: ZwSetValueKey]
extern "win64" fn zw_set_value_key(
    handle: HANDLE,
    name: *mut UNICODE_STRING,
    _title_index: u32,
    kind: u32,
    data: *const u8,
    size: u32,
) -> NTSTATUS {
    const NAME: &str = "ZwSetValueKey";
    let driver = passive_caller(NAME);
    let key = match changed(NAME, &driver, handle, |rights| rights.set_value) {
        Ok(key) => key,
        Err(status) => return status,
    };
    let name = text_of(NAME, name).unwrap_or_default();
    if size > RegistryValue::LARGEST {
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    let data = bytes(NAME, data, size as usize);
    status_of(on_host_stack(|| key.set(&name, RegistryValue::of_bytes(kind, data))))
}

/// "The KeyHandle handle does not have the KEY_SET_VALUE access": STATUS_ACCESS_DENIED. Further errors: STATUS_KEY_DELETED; STATUS_OBJECT_NAME_NOT_FOUND.
/// [wdm: ZwDeleteValueKey]
extern "win64" fn zw_delete_value_key(handle: HANDLE, name: *mut UNICODE_STRING) -> NTSTATUS {
    const NAME: &str = "ZwDeleteValueKey";
    let driver = passive_caller(NAME);
    let key = changed(NAME, &driver, handle, |rights| rights.set_value);
    let name = text_of(NAME, name).unwrap_or_default();
    status_of(key.and_then(|key| on_host_stack(|| key.delete_value(&name))))
}

/// Errors: STATUS_ACCESS_DENIED; STATUS_KEY_DELETED; STATUS_CANNOT_DELETE for a key with others below it. [wdm: ZwDeleteKey]
extern "win64" fn zw_delete_key(handle: HANDLE) -> NTSTATUS {
    const NAME: &str = "ZwDeleteKey";
    let driver = passive_caller(NAME);
    let key = changed(NAME, &driver, handle, |rights| rights.delete);
    status_of(key.and_then(|key| on_host_stack(|| key.delete())))
}

/// There is no disk that changes would have to be on. [wdm: ZwFlushKey]
extern "win64" fn zw_flush_key(handle: HANDLE) -> NTSTATUS {
    const NAME: &str = "ZwFlushKey";
    let driver = passive_caller(NAME);
    let _open = key_of(NAME, &driver, handle);
    STATUS_SUCCESS
}

/// Writes what is told of a key or a value: all of it, or what fits behind the head; the length that all of it has is told in any case.
///
/// # Errors
/// STATUS_BUFFER_TOO_SMALL if not even the head fits; STATUS_BUFFER_OVERFLOW if not all fits.
fn tell(
    service: &'static str,
    (told, least): (Vec<u8>, usize),
    to: *mut c_void,
    length: u32,
    needed: *mut u32,
) -> Answer {
    put(service, needed, told.len() as u32);
    let length = length as usize;
    if length < least {
        return Err(STATUS_BUFFER_TOO_SMALL);
    }
    let fitting = told.get(..length).unwrap_or(&told);
    // SAFETY: the driver's buffer has `length` bytes, which these do not exceed.
    good(service, unsafe { guarded::write_bytes(to.cast(), fitting) });
    if fitting.len() < told.len() { Err(STATUS_BUFFER_OVERFLOW) } else { Ok(()) }
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Keys have no class here, and the time of the last write is 0, as the page allows. [wdm: KEY_BASIC_INFORMATION, KEY_NODE_INFORMATION,
/// KEY_FULL_INFORMATION, KEY_NAME_INFORMATION]
///
/// # Errors
/// STATUS_KEY_DELETED; STATUS_INVALID_PARAMETER for a number that is no class.
fn key_information(class: i32, key: &RegistryKey, whole_name: bool) -> Answer<(Vec<u8>, usize)> {
    const TIME: [u32; 2] = [0; 2];
    const NO_CLASS: u32 = u32::MAX;
    let sizes = key.sizes()?;
    let name = utf16(&key.name());
    let length = name.len() as u32;
    let (head, tail) = match class {
        0 => (words(&[TIME[0], TIME[1], 0, length]), name),
        1 => (words(&[TIME[0], TIME[1], 0, NO_CLASS, 0, length]), name),
        2 => {
            let keys = [sizes.keys, sizes.key_name, 0];
            let values = [sizes.values, sizes.value_name, sizes.value_data];
            (words(&[&[TIME[0], TIME[1], 0, NO_CLASS, 0][..], &keys, &values].concat()), Vec::new())
        }
        3 if whole_name => {
            let path = utf16(&key.path());
            (words(&[path.len() as u32]), path)
        }
        _ => return Err(STATUS_INVALID_PARAMETER),
    };
    let least = head.len();
    Ok(([head, tail].concat(), least))
}

/// Errors: those of [`key_information`] and [`tell`]; STATUS_NO_MORE_ENTRIES behind the last key. [wdm: ZwEnumerateKey]
extern "win64" fn zw_enumerate_key(
    handle: HANDLE,
    index: u32,
    class: i32,
    buffer: *mut c_void,
    length: u32,
    needed: *mut u32,
) -> NTSTATUS {
    const NAME: &str = "ZwEnumerateKey";
    let driver = passive_caller(NAME);
    let key = key_of(NAME, &driver, handle);
    let told = on_host_stack(|| key.key_at(index).and_then(|below| key_information(class, &below, false)));
    status_of(told.and_then(|told| tell(NAME, told, buffer, length, needed)))
}

/// Errors: those of [`key_information`] and [`tell`]. [wdm: ZwQueryKey]
extern "win64" fn zw_query_key(
    handle: HANDLE,
    class: i32,
    buffer: *mut c_void,
    length: u32,
    needed: *mut u32,
) -> NTSTATUS {
    const NAME: &str = "ZwQueryKey";
    let driver = passive_caller(NAME);
    let key = key_of(NAME, &driver, handle);
    let told = on_host_stack(|| key_information(class, &key, true));
    status_of(told.and_then(|told| tell(NAME, told, buffer, length, needed)))
}

/// Errors: those of [`information`] and [`tell`]; STATUS_KEY_DELETED; STATUS_NO_MORE_ENTRIES behind the last value. [wdm: ZwEnumerateValueKey]
extern "win64" fn zw_enumerate_value_key(
    handle: HANDLE,
    index: u32,
    class: i32,
    buffer: *mut c_void,
    length: u32,
    needed: *mut u32,
) -> NTSTATUS {
    const NAME: &str = "ZwEnumerateValueKey";
    let driver = passive_caller(NAME);
    let key = key_of(NAME, &driver, handle);
    let told = on_host_stack(|| key.value_at(index).and_then(|(name, value)| information(class, &name, &value)));
    status_of(told.and_then(|told| tell(NAME, told, buffer, length, needed)))
}

/// The software key of a device is what setup wrote; its hardware key is empty, as those of a hardware profile are.
pub(super) unsafe extern "win64" fn io_open_device_registry_key(
    device: *mut c_void,
    kind: u32,
    access: u32,
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
            RegistryKey::default()
        }
        _ => return STATUS_INVALID_PARAMETER,
    };
    give(NAME, &driver, opened, key, access);
    STATUS_SUCCESS
}

/// What a class of information tells of a value, and the bytes of it that have to fit at least.
/// [wdm: KEY_VALUE_BASIC_INFORMATION, KEY_VALUE_FULL_INFORMATION, KEY_VALUE_PARTIAL_INFORMATION]
///
/// # Errors
/// STATUS_INVALID_PARAMETER for a number that is no class.
fn information(class: i32, name: &str, value: &RegistryValue) -> Answer<(Vec<u8>, usize)> {
    const TITLE_INDEX: u32 = 0;
    let data = value.bytes();
    let name = utf16(name);
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
        _ => return Err(STATUS_INVALID_PARAMETER),
    };
    let head = words(&head);
    let least = head.len();
    Ok(([&[head], &parts[..]].concat().concat(), least))
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
    let key = key_of(NAME, &driver, handle);
    let name = text_of(NAME, name).unwrap_or_default();
    let told = on_host_stack(|| key.value(&name).and_then(|(name, value)| information(class, &name, &value)));
    status_of(told.and_then(|told| tell(NAME, told, buffer, length, needed)))
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
#[path = "registry_tests.rs"]
mod tests;

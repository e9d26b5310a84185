//! Settings for developers: values in the software key of a device.

use core::ffi::{CStr, c_void};

use wddm_ddi::nt::*;
use wddm_ddi::status::{STATUS_BUFFER_OVERFLOW, STATUS_OBJECT_NAME_NOT_FOUND};
use wddm_ddi::types::*;

use crate::irql::Passive;
use crate::nt;

/// A REG_DWORD. If it is not 0, the driver offers neither hardware scheduling nor the features that need it, so that work is submitted packet by
/// packet.
const DISABLE_HARDWARE_SCHEDULING: [u16; 25] = nt::utf16(*b"DisableHardwareScheduling");
const WITHHELD: &CStr = c"campanile: DisableHardwareScheduling is set: hardware scheduling is not offered\n";
const MALFORMED: &CStr = c"campanile: DisableHardwareScheduling is not a REG_DWORD of 4 bytes and counts as 0\n";
const UNREADABLE: &CStr =
    c"campanile: the device's software key cannot be read: DisableHardwareScheduling counts as 0\n";

/// The value that the software key has under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Absent,
    Number(u32),
    /// Of another type or length.
    Malformed,
    /// The key or the value cannot be read.
    Unreadable,
}

/// True if the software key of the device withholds hardware scheduling, which is printed then; so is a value that is no number.
///
/// # Safety
/// `device` is a physical device object of the operating system.
pub(crate) unsafe fn withholds_hardware_scheduling(irql: &Passive, device: *mut c_void) -> bool {
    // SAFETY: the caller vouches for the device.
    match unsafe { number(irql, device, &DISABLE_HARDWARE_SCHEDULING) } {
        Value::Absent | Value::Number(0) => return false,
        Value::Number(_) => {
            nt::print(WITHHELD);
            return true;
        }
        Value::Malformed => nt::print_error(MALFORMED),
        Value::Unreadable => nt::print_error(UNREADABLE),
    }
    false
}

/// Reads a number of the device's software key.
///
/// # Safety
/// As [`withholds_hardware_scheduling`].
unsafe fn number(_irql: &Passive, device: *mut c_void, name: &[u16]) -> Value {
    let Some(imports) = nt::imports() else { return Value::Unreadable };
    let mut key = core::ptr::null_mut();
    // SAFETY: the caller vouches for the device; the handle goes to a local.
    let opened =
        unsafe { (imports.IoOpenDeviceRegistryKey)(device, PLUGPLAY_REGKEY_DRIVER, KEY_QUERY_VALUE, &raw mut key) };
    if !opened.is_success() {
        return Value::Unreadable;
    }
    // SAFETY: the key was opened just now.
    let value = unsafe { read(imports, key, name) };
    // SAFETY: the handle is ours and not used afterwards. Closing fails for no handle that is open.
    let _ = unsafe { (imports.ZwClose)(key) };
    value
}

/// # Safety
/// `key` is a key that is open for KEY_QUERY_VALUE.
unsafe fn read(imports: &NtImports, key: HANDLE, name: &[u16]) -> Value {
    let bytes = u16::try_from(size_of_val(name)).unwrap_or(0);
    let mut name = UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: name.as_ptr().cast_mut() };
    let mut value = KEY_VALUE_PARTIAL_INFORMATION { TitleIndex: 0, Type: 0, DataLength: 0, Data: [0_u8; 4] };
    let mut needed = 0;
    // SAFETY: the caller vouches for the key; the name is only read, and value and length are locals of the size named.
    let status = unsafe {
        (imports.ZwQueryValueKey)(
            key,
            &raw mut name,
            KEY_VALUE_PARTIAL_INFORMATION_CLASS,
            (&raw mut value).cast(),
            size_of_val(&value) as u32,
            &raw mut needed,
        )
    };
    match status {
        STATUS_OBJECT_NAME_NOT_FOUND => Value::Absent,
        // More than four bytes, of which the first are here.
        STATUS_BUFFER_OVERFLOW => Value::Malformed,
        _ if !status.is_success() => Value::Unreadable,
        _ if value.Type == REG_DWORD && value.DataLength == 4 => Value::Number(u32::from_le_bytes(value.Data)),
        _ => Value::Malformed,
    }
}

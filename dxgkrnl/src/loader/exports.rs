//! What this kernel exports to driver images: the services of `ntoskrnl.exe`, found by name.
//!
//! The I/O functions here serve one purpose, the registration of a miniport: `displib` opens the device of the graphics kernel and
//! asks it for DxgkInitialize by an internal control request.

use std::ffi::c_void;

use wddm_ddi::nt::IOCTL_VIDEO_DDI_FUNC_REGISTER;
use wddm_ddi::status::{
    STATUS_IMAGE_ALREADY_LOADED, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER, STATUS_OBJECT_NAME_NOT_FOUND,
    STATUS_SUCCESS,
};
use wddm_ddi::types::*;

use crate::nt;

/// Module that drivers import from.
pub(crate) const KERNEL: &str = "ntoskrnl.exe";

const SERVICE: &str = "\\Registry\\Machine\\System\\CurrentControlSet\\Services\\DXGKrnl";
const DEVICE: &str = "\\Device\\DxgKrnl";

/// Stands for the device object of the graphics kernel; only its address counts.
static GRAPHICS_KERNEL_DEVICE: u8 = 0;
/// Stands for the file object through which the device was opened.
static GRAPHICS_KERNEL_FILE: u8 = 0;

/// Address of an export.
pub(crate) fn resolve(module: &str, name: &str) -> Option<usize> {
    if !module.eq_ignore_ascii_case(KERNEL) {
        return None;
    }
    // DxgkInitialize is no export: drivers reach it through their copy of displib.
    let service = if name == "DxgkInitialize" { None } else { nt::IMPORTS.address_of(name) };
    service.or_else(|| EXPORTS.iter().find(|(export, _)| *export == name).map(|(_, address)| address()))
}

type Export = (&'static str, fn() -> usize);

const EXPORTS: &[Export] = &[
    ("memcpy", || memcpy as *const () as usize),
    ("memmove", || memmove as *const () as usize),
    ("memset", || memset as *const () as usize),
    ("memcmp", || memcmp as *const () as usize),
    ("RtlInitUnicodeString", || rtl_init_unicode_string as *const () as usize),
    ("ZwLoadDriver", || zw_load_driver as *const () as usize),
    ("IoGetDeviceObjectPointer", || io_get_device_object_pointer as *const () as usize),
    ("KeInitializeEvent", || ke_initialize_event as *const () as usize),
    ("IoBuildDeviceIoControlRequest", || io_build_device_io_control_request as *const () as usize),
    ("IofCallDriver", || iof_call_driver as *const () as usize),
    ("KeWaitForSingleObject", || ke_wait_for_single_object as *const () as usize),
    ("ObfDereferenceObject", || obf_dereference_object as *const () as usize),
];

unsafe extern "win64" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: the driver promises two separate ranges of this length.
    unsafe { to.copy_from_nonoverlapping(from, bytes) };
    to
}

unsafe extern "win64" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: the driver promises two ranges of this length.
    unsafe { to.copy_from(from, bytes) };
    to
}

unsafe extern "win64" fn memset(to: *mut u8, value: i32, bytes: usize) -> *mut u8 {
    // SAFETY: the driver promises a writable range of this length.
    unsafe { to.write_bytes(value as u8, bytes) };
    to
}

unsafe extern "win64" fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    // SAFETY: the driver promises two readable ranges of this length.
    unsafe { libc::memcmp(a.cast(), b.cast(), bytes) }
}

unsafe extern "win64" fn rtl_init_unicode_string(string: *mut UNICODE_STRING, text: *const u16) {
    let mut length = 0_usize;
    if !text.is_null() {
        let mut unit = text;
        // SAFETY: the driver promises terminated text, and the end has not been reached.
        while unsafe { unit.read() } != 0 {
            length += 1;
            unit = unit.wrapping_add(1);
        }
    }
    let bytes = u16::try_from(length * 2).unwrap_or(u16::MAX - 3);
    let terminated = if text.is_null() { 0 } else { bytes.saturating_add(2) };
    // SAFETY: the driver passes a string to initialise.
    unsafe { string.write(UNICODE_STRING { Length: bytes, MaximumLength: terminated, Buffer: text.cast_mut() }) };
}

/// The text of a counted string; `None` if it is NULL.
///
/// # Safety
/// `string` is NULL or a valid string of the driver.
unsafe fn text_of(string: *const UNICODE_STRING) -> Option<String> {
    // SAFETY: the caller's promise.
    let string = unsafe { string.as_ref() }?;
    if string.Buffer.is_null() {
        return None;
    }
    // SAFETY: a valid string has `Length` bytes at `Buffer`.
    let units = unsafe { std::slice::from_raw_parts(string.Buffer, usize::from(string.Length / 2)) };
    Some(String::from_utf16_lossy(units))
}

unsafe extern "win64" fn zw_load_driver(service: *mut UNICODE_STRING) -> NTSTATUS {
    // SAFETY: the driver passes a valid string.
    match unsafe { text_of(service) } {
        Some(name) if name.eq_ignore_ascii_case(SERVICE) => STATUS_IMAGE_ALREADY_LOADED,
        Some(_) => STATUS_OBJECT_NAME_NOT_FOUND,
        None => STATUS_INVALID_PARAMETER,
    }
}

unsafe extern "win64" fn io_get_device_object_pointer(
    name: *mut UNICODE_STRING,
    _access: u32,
    file: *mut *mut c_void,
    device: *mut *mut c_void,
) -> NTSTATUS {
    // SAFETY: the driver passes a valid string.
    let known = unsafe { text_of(name) }.is_some_and(|name| name.eq_ignore_ascii_case(DEVICE));
    if !known {
        return STATUS_OBJECT_NAME_NOT_FOUND;
    }
    // SAFETY: the driver passes a place for the answer.
    unsafe { file.write((&raw const GRAPHICS_KERNEL_FILE).cast_mut().cast()) };
    // SAFETY: as above.
    unsafe { device.write((&raw const GRAPHICS_KERNEL_DEVICE).cast_mut().cast()) };
    STATUS_SUCCESS
}

/// KEVENT as far as it is used here: the second word is the signal state. [wdm: KEVENT]
#[repr(C)]
struct Event {
    header: u32,
    signal: u32,
    waiters: [u64; 2],
}

/// [wdm: IO_STATUS_BLOCK]
#[repr(C)]
struct IoStatusBlock {
    status: NTSTATUS,
    information: usize,
}

/// A control request on its way; drivers only pass its address on.
struct Request {
    code: u32,
    device: usize,
    output: *mut c_void,
    output_bytes: u32,
    internal: bool,
    event: *mut Event,
    status: *mut IoStatusBlock,
}

unsafe extern "win64" fn ke_initialize_event(event: *mut Event, kind: u32, state: BOOLEAN) {
    // SAFETY: the driver passes an event to initialise.
    unsafe { event.write(Event { header: kind, signal: u32::from(state), waiters: [0; 2] }) };
}

unsafe extern "win64" fn io_build_device_io_control_request(
    code: u32,
    device: *mut c_void,
    _input: *mut c_void,
    _input_bytes: u32,
    output: *mut c_void,
    output_bytes: u32,
    internal: BOOLEAN,
    event: *mut Event,
    status: *mut IoStatusBlock,
) -> *mut c_void {
    let request = Request { code, device: device.addr(), output, output_bytes, internal: internal != 0, event, status };
    Box::into_raw(Box::new(request)).cast()
}

unsafe extern "win64" fn iof_call_driver(device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    // SAFETY: the only requests that a driver can have are those built above, and a call consumes one.
    let request = unsafe { Box::from_raw(irp.cast::<Request>()) };
    let ours = (&raw const GRAPHICS_KERNEL_DEVICE).addr();
    let fits = device.addr() == ours
        && request.device == ours
        && request.internal
        && request.code == IOCTL_VIDEO_DDI_FUNC_REGISTER
        && request.output_bytes as usize >= size_of::<PDXGK_INITIALIZE>();
    let status = if fits { STATUS_SUCCESS } else { STATUS_INVALID_DEVICE_REQUEST };
    if fits {
        // SAFETY: the driver gave an output buffer of at least this size.
        unsafe { request.output.cast::<PDXGK_INITIALIZE>().write_unaligned(nt::IMPORTS.DxgkInitialize) };
    }
    // SAFETY: the driver's status block lives until completion, which is now.
    unsafe { request.status.write(IoStatusBlock { status, information: if fits { 8 } else { 0 } }) };
    let signal = request.event.wrapping_byte_add(std::mem::offset_of!(Event, signal)).cast::<u32>();
    // SAFETY: as for the status block: the word is the event's signal state.
    unsafe { signal.write(1) };
    status
}

unsafe extern "win64" fn ke_wait_for_single_object(
    _object: *mut c_void,
    _reason: u32,
    _mode: i8,
    _alertable: BOOLEAN,
    _timeout: *mut LARGE_INTEGER,
) -> NTSTATUS {
    // Requests complete before IofCallDriver returns, so that nothing is ever waited for.
    STATUS_SUCCESS
}

unsafe extern "win64" fn obf_dereference_object(_object: *mut c_void) -> isize {
    0
}

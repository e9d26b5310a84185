// UNSAFETY: kernel services with raw arguments.
//! Functions that driver images import and linked drivers do not need: memory functions of the C library, and those by which a driver opens a device
//! by its name and sends an internal control request to it.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lock::{Mutex, lock};
use wddm_ddi::nt::IO_STATUS_BLOCK;
use wddm_ddi::status::{
    STATUS_IMAGE_ALREADY_LOADED, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER, STATUS_OBJECT_NAME_NOT_FOUND,
    STATUS_SUCCESS,
};
use wddm_ddi::types::*;

use super::call::{good, text_of};
use crate::bugcheck::Bugcheck;
use crate::driver::{ControlDevice, Export};
use crate::driver_call::{self, at_call_site};
use crate::fault::guarded;
use crate::unwind::{CallSite, with_call_site};

/// Functions that only images import.
pub(super) const EXPORTS: &[Export] = &[
    ("memcpy", || memcpy as *const () as usize),
    ("memmove", || memmove as *const () as usize),
    ("memset", || memset as *const () as usize),
    ("memcmp", || memcmp as *const () as usize),
    ("ZwLoadDriver", || zw_load_driver as *const () as usize),
    ("IoGetDeviceObjectPointer", || io_get_device_object_pointer as *const () as usize),
    ("IoBuildDeviceIoControlRequest", || io_build_device_io_control_request as *const () as usize),
    ("IofCallDriver", || iof_call_driver as *const () as usize),
    ("ObfDereferenceObject", || obf_dereference_object as *const () as usize),
    ("ObfDereferenceObjectWithTag", || obf_dereference_object as *const () as usize),
    ("IoGetRelatedDeviceObject", || io_get_related_device_object as *const () as usize),
];

// The C library's functions make no assumption about the addresses, and run on the driver's stack: a bad address faults there, which is an exception of the
// driver, or ends its call.

with_call_site!(fn memcpy => copy);
unsafe extern "win64" fn copy(to: *mut u8, from: *const u8, bytes: usize, site: *const CallSite) -> *mut u8 {
    // SAFETY: the driver promises two separate ranges of this length.
    at_call_site(site, || unsafe { libc::memcpy(to.cast(), from.cast(), bytes) });
    to
}

with_call_site!(fn memmove => move_bytes);
unsafe extern "win64" fn move_bytes(to: *mut u8, from: *const u8, bytes: usize, site: *const CallSite) -> *mut u8 {
    // SAFETY: the driver promises two ranges of this length.
    at_call_site(site, || unsafe { libc::memmove(to.cast(), from.cast(), bytes) });
    to
}

with_call_site!(fn memset => set_bytes);
unsafe extern "win64" fn set_bytes(to: *mut u8, value: i32, bytes: usize, site: *const CallSite) -> *mut u8 {
    // SAFETY: the driver promises a writable range of this length.
    at_call_site(site, || unsafe { libc::memset(to.cast(), value, bytes) });
    to
}

with_call_site!(fn memcmp => compare);
unsafe extern "win64" fn compare(a: *const u8, b: *const u8, bytes: usize, site: *const CallSite) -> i32 {
    // SAFETY: the driver promises two readable ranges of this length.
    at_call_site(site, || unsafe { libc::memcmp(a.cast(), b.cast(), bytes) })
}

/// The device that the calling driver may open.
fn device() -> Option<&'static ControlDevice> {
    driver_call::current()?.services().device
}

/// Address of the object that stands for the file through which a device was opened; no driver reads it.
fn file_of(device: &'static ControlDevice) -> *mut c_void {
    std::ptr::from_ref(&device.service).cast_mut().cast()
}

/// As [`file_of`], of the device object itself.
fn object_of(device: &'static ControlDevice) -> *mut c_void {
    std::ptr::from_ref(&device.name).cast_mut().cast()
}

unsafe extern "win64" fn zw_load_driver(service: *mut UNICODE_STRING) -> NTSTATUS {
    match text_of("ZwLoadDriver", service) {
        Some(name) if device().is_some_and(|device| name.eq_ignore_ascii_case(device.service)) => {
            STATUS_IMAGE_ALREADY_LOADED
        }
        Some(_) => STATUS_OBJECT_NAME_NOT_FOUND,
        None => STATUS_INVALID_PARAMETER,
    }
}

unsafe extern "win64" fn io_get_device_object_pointer(
    name: *mut UNICODE_STRING,
    _access: u32,
    file: *mut *mut c_void,
    device_object: *mut *mut c_void,
) -> NTSTATUS {
    const NAME: &str = "IoGetDeviceObjectPointer";
    let name = text_of(NAME, name);
    let Some(opened) = device().filter(|device| name.is_some_and(|name| name.eq_ignore_ascii_case(device.name))) else {
        return STATUS_OBJECT_NAME_NOT_FOUND;
    };
    // SAFETY: the driver passes a place for the answer.
    good(NAME, unsafe { guarded::write(file, file_of(opened)) });
    // SAFETY: as above.
    good(NAME, unsafe { guarded::write(device_object, object_of(opened)) });
    STATUS_SUCCESS
}

/// The device of a file, which is one of IoGetDeviceObjectPointer. [wdm: IoGetRelatedDeviceObject]
extern "win64" fn io_get_related_device_object(file: *mut c_void) -> *mut c_void {
    match device().filter(|device| file == file_of(device)) {
        Some(device) => object_of(device),
        None => driver_call::stop(Bugcheck::fatal(format!(
            "IoGetRelatedDeviceObject of {file:p}, which is no file that the driver was given"
        ))),
    }
}

/// KEVENT as far as it is used here: the second word is the signal state. [wdm: KEVENT]
#[repr(C)]
#[derive(Clone, Copy)]
struct Event {
    header: u32,
    signal: u32,
    waiters: [u64; 2],
}

/// A control request on its way. Drivers only pass its number on.
struct Request {
    code: u32,
    device: usize,
    output: usize,
    output_bytes: u32,
    internal: bool,
    event: usize,
    status: usize,
}

/// Requests that were built and not yet called, by number. Numbers are no addresses.
static REQUESTS: Mutex<BTreeMap<usize, Request>> = Mutex::new(BTreeMap::new());
static NEXT_REQUEST: AtomicUsize = AtomicUsize::new(0xd1f0_0000_0000_0010);
/// Requests that may wait to be called.
const REQUESTS_MAX: usize = 1 << 10;

unsafe extern "win64" fn io_build_device_io_control_request(
    code: u32,
    device: *mut c_void,
    _input: *mut c_void,
    _input_bytes: u32,
    output: *mut c_void,
    output_bytes: u32,
    internal: BOOLEAN,
    event: *mut Event,
    status: *mut IO_STATUS_BLOCK,
) -> *mut c_void {
    let [device, output, event, status] = [device.addr(), output.addr(), event.addr(), status.addr()];
    let request = Request { code, device, output, output_bytes, internal: internal != 0, event, status };
    let number = driver_call::on_host_stack(|| {
        let mut requests = lock(&REQUESTS);
        let number = NEXT_REQUEST.fetch_add(0x10, Ordering::Relaxed);
        let fits = requests.len() < REQUESTS_MAX;
        fits.then(|| requests.insert(number, request)).map_or(0, |_| number)
    });
    core::ptr::without_provenance_mut(number)
}

unsafe extern "win64" fn iof_call_driver(device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    const NAME: &str = "IofCallDriver";
    let request = driver_call::on_host_stack(|| lock(&REQUESTS).remove(&irp.addr()));
    let Some(request) = request else {
        let reason =
            format!("{NAME} with request {irp:p}, which IoBuildDeviceIoControlRequest did not answer, or used twice");
        driver_call::stop(Bugcheck::fatal(reason))
    };
    let known = self::device().filter(|known| {
        let object = object_of(known).addr();
        device.addr() == object && request.device == object
    });
    let fits = request.internal && request.output_bytes as usize >= size_of::<usize>();
    let answer = known.filter(|_| fits).and_then(|known| (known.control)(request.code));
    let (status, information) = match answer {
        Some(_) => (STATUS_SUCCESS, size_of::<usize>()),
        None => (STATUS_INVALID_DEVICE_REQUEST, 0),
    };
    if let Some(address) = answer {
        let output = core::ptr::with_exposed_provenance_mut::<usize>(request.output);
        // SAFETY: the driver gave an output buffer of at least this size.
        good(NAME, unsafe { guarded::write(output, address) });
    }
    let block = core::ptr::with_exposed_provenance_mut::<IO_STATUS_BLOCK>(request.status);
    let answer = IO_STATUS_BLOCK { Status: status, Information: information };
    // SAFETY: the driver's status block lives until completion, which is now.
    good(NAME, unsafe { guarded::write(block, answer) });
    let signal = request.event.wrapping_add(std::mem::offset_of!(Event, signal));
    // SAFETY: as for the status block: the word is the event's signal state.
    good(NAME, unsafe { guarded::write(core::ptr::with_exposed_provenance_mut::<u32>(signal), 1) });
    status
}

unsafe extern "win64" fn obf_dereference_object(object: *mut c_void) -> isize {
    let left = driver_call::current()
        .and_then(|driver| driver_call::on_host_stack(|| driver.deferred().lock().dereference(object.addr())));
    if let Some(left) = left {
        return left as isize;
    }
    if device().is_none_or(|device| object != file_of(device)) {
        let reason = format!("ObfDereferenceObject of {object:p}, which is no object that the driver was given");
        driver_call::stop(Bugcheck::fatal(reason));
    }
    0
}

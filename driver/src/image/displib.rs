//! Registration with the graphics kernel, as open drivers say that the kit's static library `displib.lib` does it: the graphics kernel is loaded as a
//! service, its device is opened, and an internal control request returns the registration function. The request of Windows 8 and
//! later goes first; a graphics kernel that does not know it is asked with that of Windows 7.

use core::ffi::c_void;
use core::sync::atomic::Ordering;

use wddm_ddi::Zeroed;
use wddm_ddi::km::DRIVER_INITIALIZATION_DATA;
use wddm_ddi::nt::{
    IO_STATUS_BLOCK, IOCTL_VIDEO_DDI_FUNC_REGISTER, IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8, PDXGK_INITIALIZE,
};
use wddm_ddi::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_DEVICE_REQUEST, STATUS_PENDING};
use wddm_ddi::types::*;

use crate::nt::utf16;
use crate::trace;
use campanile_hw::trace::event::Event as TraceEvent;

/// KEVENT: a dispatcher header and a list head, 24 bytes. [wdm: KEVENT]
#[repr(C, align(8))]
struct Event([u64; 3]);

const SERVICE: &[u16] = &utf16(*b"\\Registry\\Machine\\System\\CurrentControlSet\\Services\\DXGKrnl\0");
const DEVICE: &[u16] = &utf16(*b"\\Device\\DxgKrnl\0");
const FILE_ALL_ACCESS: u32 = 0x001f_01ff;

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "win64" {
    fn RtlInitUnicodeString(string: *mut UNICODE_STRING, text: *const u16);
    fn ZwLoadDriver(service: *mut UNICODE_STRING) -> NTSTATUS;
    fn IoGetDeviceObjectPointer(
        name: *mut UNICODE_STRING,
        access: u32,
        file: *mut *mut c_void,
        device: *mut *mut c_void,
    ) -> NTSTATUS;
    fn KeInitializeEvent(event: *mut Event, kind: u32, state: BOOLEAN);
    fn IoBuildDeviceIoControlRequest(
        code: u32,
        device: *mut c_void,
        input: *mut c_void,
        input_bytes: u32,
        output: *mut c_void,
        output_bytes: u32,
        internal: BOOLEAN,
        event: *mut Event,
        status: *mut IO_STATUS_BLOCK,
    ) -> *mut c_void;
    fn IofCallDriver(device: *mut c_void, irp: *mut c_void) -> NTSTATUS;
    fn KeWaitForSingleObject(
        object: *mut c_void,
        reason: u32,
        mode: i8,
        alertable: BOOLEAN,
        timeout: *mut LARGE_INTEGER,
    ) -> NTSTATUS;
    fn ObfDereferenceObject(object: *mut c_void) -> isize;
}

/// [dispmprt: DxgkInitialize]
///
/// # Safety
/// As for the kit's function: called from DriverEntry with its arguments and a filled table.
#[unsafe(link_section = "INIT")]
#[allow(non_snake_case)] // the name of the function that it stands for
pub(super) unsafe extern "win64" fn DxgkInitialize(
    driver: PDRIVER_OBJECT,
    path: *mut UNICODE_STRING,
    table: *mut DRIVER_INITIALIZATION_DATA,
) -> NTSTATUS {
    match registration_function() {
        // SAFETY: the graphics kernel returned this function for this call; the arguments are the caller's.
        Ok(register) => unsafe { register(driver, path, table) },
        Err(status) => status,
    }
}

#[unsafe(link_section = "INIT")]
fn registration_function() -> Result<PDXGK_INITIALIZE, NTSTATUS> {
    let mut name = UNICODE_STRING::zeroed();
    // SAFETY: the text is terminated and lives for ever.
    unsafe { RtlInitUnicodeString(&raw mut name, SERVICE.as_ptr()) };
    // The service is running already on most machines, which is an error here and no obstacle.
    // SAFETY: PASSIVE_LEVEL in DriverEntry, and the name is valid.
    let _ = unsafe { ZwLoadDriver(&raw mut name) };
    // SAFETY: the text is terminated and lives for ever.
    unsafe { RtlInitUnicodeString(&raw mut name, DEVICE.as_ptr()) };
    let (mut file, mut device) = (core::ptr::null_mut(), core::ptr::null_mut());
    // SAFETY: all pointers are to locals.
    unsafe { IoGetDeviceObjectPointer(&raw mut name, FILE_ALL_ACCESS, &raw mut file, &raw mut device) }.ok()?;
    let mut request = IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8;
    let mut function = ask(device, request);
    if function == Err(STATUS_INVALID_DEVICE_REQUEST) {
        request = IOCTL_VIDEO_DDI_FUNC_REGISTER;
        function = ask(device, request);
    }
    if function.is_ok() {
        trace::REGISTRATION.store(request, Ordering::Relaxed);
        trace::note(&TraceEvent::RegistrationAnswered { request });
    }
    // SAFETY: IoGetDeviceObjectPointer gave this reference, and the answer has been read.
    unsafe { ObfDereferenceObject(file) };
    function
}

#[unsafe(link_section = "INIT")]
fn ask(device: *mut c_void, request: u32) -> Result<PDXGK_INITIALIZE, NTSTATUS> {
    let mut event = Event([0; 3]);
    let mut status = IO_STATUS_BLOCK { Status: STATUS_PENDING, Information: 0 };
    let mut function: Option<PDXGK_INITIALIZE> = None;
    // SAFETY: the event is a local of the right size; 0 is a notification event.
    unsafe { KeInitializeEvent(&raw mut event, 0, 0) };
    // SAFETY: the output buffer, event and status live until the request is complete.
    let irp = unsafe {
        IoBuildDeviceIoControlRequest(
            request,
            device,
            core::ptr::null_mut(),
            0,
            (&raw mut function).cast(),
            size_of::<PDXGK_INITIALIZE>() as u32,
            1,
            &raw mut event,
            &raw mut status,
        )
    };
    if irp.is_null() {
        return Err(STATUS_INSUFFICIENT_RESOURCES);
    }
    // SAFETY: the request was built for this device.
    let mut result = unsafe { IofCallDriver(device, irp) };
    if result == STATUS_PENDING {
        // SAFETY: waits without limit at PASSIVE_LEVEL for the event that completion sets.
        let _ = unsafe { KeWaitForSingleObject((&raw mut event).cast(), 0, 0, 0, core::ptr::null_mut()) };
        result = status.Status;
    }
    result.ok()?;
    function.ok_or(STATUS_INSUFFICIENT_RESOURCES)
}

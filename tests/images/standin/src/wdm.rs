// UNSAFETY: calls the kernel.
//! As much of the kernel as a driver with one device needs. [wdm.h]

use core::ffi::c_void;
use core::ptr::null_mut;

use wddm_ddi::types::*;

pub(crate) const IRP_MJ_CREATE: usize = 0x00;
pub(crate) const IRP_MJ_CLOSE: usize = 0x02;
pub(crate) const IRP_MJ_DEVICE_CONTROL: usize = 0x0e;
pub(crate) const IRP_MJ_INTERNAL_DEVICE_CONTROL: usize = 0x0f;

const FILE_DEVICE_UNKNOWN: u32 = 0x22;

/// Requests of the program: a device type of vendors, buffered, for every handle.
#[allow(non_snake_case)] // Stands for an enumeration.
pub(crate) mod CONTROL {
    /// The text of [`crate::log`].
    pub(crate) const READ_LOG: u32 = 0x8000_2000;
    /// Every byte of the registered driver's image, as it is in memory.
    pub(crate) const READ_IMAGE: u32 = 0x8000_2004;
    /// Which registration requests are answered from now on.
    pub(crate) const ANSWER: u32 = 0x8000_2008;
}

pub(crate) type Dispatch = unsafe extern "win64" fn(*mut c_void, *mut Irp) -> NTSTATUS;
pub(crate) type Unload = unsafe extern "win64" fn(*mut DriverObject);

/// [wdm: DRIVER_OBJECT]
#[repr(C)]
#[allow(non_snake_case)]
pub(crate) struct DriverObject {
    _Type: [u16; 2],
    pub(crate) DeviceObject: *mut c_void,
    _Flags: u64,
    pub(crate) DriverStart: *mut u8,
    pub(crate) DriverSize: u32,
    _DriverSection: [usize; 2],
    _DriverName: UNICODE_STRING,
    _HardwareDatabase: [usize; 4],
    pub(crate) DriverUnload: Option<Unload>,
    pub(crate) MajorFunction: [Option<Dispatch>; 28],
}

const _: () = assert!(core::mem::offset_of!(DriverObject, DriverUnload) == 0x68);
const _: () = assert!(size_of::<DriverObject>() == 0x150);

/// [wdm: IRP]
#[repr(C)]
#[allow(non_snake_case)]
pub(crate) struct Irp {
    _Header: [usize; 3],
    pub(crate) SystemBuffer: *mut c_void,
    _ThreadListEntry: [usize; 2],
    Status: NTSTATUS,
    Information: usize,
    _Cancel: [usize; 6],
    pub(crate) UserBuffer: *mut c_void,
    _Tail: [usize; 8],
    CurrentStackLocation: *mut StackLocation,
    _OriginalFileObject: [usize; 2],
}

const _: () = assert!(core::mem::offset_of!(Irp, UserBuffer) == 0x70);
const _: () = assert!(core::mem::offset_of!(Irp, CurrentStackLocation) == 0xb8);

/// The parameters of a control request. [wdm: IO_STACK_LOCATION]
#[repr(C)]
#[allow(non_snake_case)]
struct StackLocation {
    _Function: u64,
    OutputBufferLength: u32,
    _Alignment: u32,
    InputBufferLength: u64,
    IoControlCode: u32,
}

const _: () = assert!(core::mem::offset_of!(StackLocation, InputBufferLength) == 0x10);

/// What a control request asks for, with the bytes of its buffers.
pub(crate) struct Control {
    pub(crate) code: u32,
    pub(crate) input: usize,
    pub(crate) output: usize,
}

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "win64" {
    pub(crate) fn KeBugCheckEx(code: u32, p1: usize, p2: usize, p3: usize, p4: usize) -> !;
    fn RtlInitUnicodeString(string: *mut UNICODE_STRING, text: *const u16);
    fn IoCreateDevice(
        driver: *mut DriverObject,
        extension: u32,
        name: *mut UNICODE_STRING,
        kind: u32,
        characteristics: u32,
        exclusive: BOOLEAN,
        device: *mut *mut c_void,
    ) -> NTSTATUS;
    fn IoDeleteDevice(device: *mut c_void);
    fn IoCreateSymbolicLink(link: *mut UNICODE_STRING, target: *mut UNICODE_STRING) -> NTSTATUS;
    fn IoDeleteSymbolicLink(link: *mut UNICODE_STRING) -> NTSTATUS;
    fn IofCompleteRequest(irp: *mut Irp, boost: i8);
    // The compiler calls these by name.
    fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memset(to: *mut u8, value: i32, bytes: usize) -> *mut u8;
    fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32;
    fn strlen(text: *const u8) -> usize;
}

type Copy = unsafe extern "win64" fn(*mut u8, *const u8, usize) -> *mut u8;
type Set = unsafe extern "win64" fn(*mut u8, i32, usize) -> *mut u8;
type Compare = unsafe extern "win64" fn(*const u8, *const u8, usize) -> i32;
type Length = unsafe extern "win64" fn(*const u8) -> usize;

/// Keeps the imports that only the compiler calls.
#[used]
static COMPILER_CALLS: (Copy, Copy, Set, Compare, Length) = (memcpy, memmove, memset, memcmp, strlen);

/// A text of ASCII characters in 16-bit units.
pub(crate) const fn utf16<const N: usize>(text: [u8; N]) -> [u16; N] {
    let mut wide = [0; N];
    let mut at = 0;
    while at < N {
        wide[at] = text[at] as u16;
        at += 1;
    }
    wide
}

/// A string of the kernel with this text, which is terminated.
pub(crate) fn string(text: &'static [u16]) -> UNICODE_STRING {
    let mut string = UNICODE_STRING { Length: 0, MaximumLength: 0, Buffer: null_mut() };
    // SAFETY: terminated text that lives for ever.
    unsafe { RtlInitUnicodeString(&raw mut string, text.as_ptr()) };
    string
}

/// Creates a device, and a link by which programs open it.
pub(crate) fn create_device(
    driver: *mut DriverObject,
    name: &'static [u16],
    link: &'static [u16],
) -> Result<(), NTSTATUS> {
    let (mut name, mut link, mut device) = (string(name), string(link), null_mut());
    // SAFETY: the driver object is the system's, all other pointers are to locals.
    let status = unsafe { IoCreateDevice(driver, 0, &raw mut name, FILE_DEVICE_UNKNOWN, 0, 0, &raw mut device) };
    status.ok()?;
    // SAFETY: both are to locals.
    unsafe { IoCreateSymbolicLink(&raw mut link, &raw mut name) }.ok()
}

/// Undoes [`create_device`].
pub(crate) fn delete_device(driver: *mut DriverObject, link: &'static [u16]) {
    let mut link = string(link);
    // SAFETY: a pointer to a local.
    let _ = unsafe { IoDeleteSymbolicLink(&raw mut link) };
    // SAFETY: the system passes its driver object.
    let device = unsafe { (*driver).DeviceObject };
    // SAFETY: `create_device` made the only one.
    unsafe { IoDeleteDevice(device) };
}

/// # Safety
/// The system passes the control request to a dispatch function.
pub(crate) unsafe fn control(irp: *mut Irp) -> Control {
    // SAFETY: the caller vouches for the request.
    let location = unsafe { (*irp).CurrentStackLocation };
    // SAFETY: a request has a location for its driver.
    let location = unsafe { location.as_ref_unchecked() };
    Control {
        code: location.IoControlCode,
        input: location.InputBufferLength as u32 as usize,
        output: location.OutputBufferLength as usize,
    }
}

/// Completes a request, and returns its status.
pub(crate) fn complete(irp: *mut Irp, status: NTSTATUS, bytes: usize) -> NTSTATUS {
    // SAFETY: the request is this driver's until it is completed.
    let request = unsafe { &mut *irp };
    request.Status = status;
    request.Information = bytes;
    // SAFETY: it is completed once.
    unsafe { IofCompleteRequest(irp, 0) };
    status
}

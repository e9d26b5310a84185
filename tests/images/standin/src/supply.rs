// UNSAFETY: another image's import table.
//! Functions that the driver under test imports from Windows' kernel before it is registered, and that Wine's kernel lacks.
//!
//! Wine's loader gives an import that no module exports a function that raises an exception when it is called, and starts the driver. So the imports are
//! looked at when the image is loaded and before its DriverEntry, each is told with the module that has it, and those of [`SUPPLIED`] are replaced.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;

use wddm_ddi::status::*;
use wddm_ddi::types::*;

use crate::log::line;
use crate::wdm::{self, DriverObject, utf16};

/// The driver whose imports are looked at.
const DRIVER: &str = "campanile_kmd.sys";

/// An address that is known when the image is loaded.
type Address = fn() -> usize;

/// An import that is replaced, and the address of what stands for it.
const SUPPLIED: [(&CStr, Address); 3] = [
    (c"IoGetDeviceObjectPointer", || device_object_pointer as *const () as usize),
    (c"KeGetCurrentIrql", || current_irql as *const () as usize),
    (c"KeQueryPerformanceCounter", || KeQueryPerformanceCounter as *const () as usize),
];

type Notify = unsafe extern "win64" fn(*mut UNICODE_STRING, HANDLE, *mut ImageInfo);

/// [ntddk: IMAGE_INFO]
#[repr(C)]
#[allow(non_snake_case)]
struct ImageInfo {
    _Properties: u64,
    ImageBase: *mut u8,
}

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "win64" {
    fn PsSetLoadImageNotifyRoutine(routine: Notify) -> NTSTATUS;
    fn PsRemoveLoadImageNotifyRoutine(routine: Notify) -> NTSTATUS;
    fn RtlPcToFileHeader(address: usize, base: *mut usize) -> usize;
    fn ObReferenceObjectByName(
        name: *mut UNICODE_STRING,
        attributes: u32,
        state: *mut c_void,
        access: u32,
        kind: *mut c_void,
        mode: i8,
        context: *mut c_void,
        object: *mut *mut c_void,
    ) -> NTSTATUS;
    /// Under Wine drivers live in a process, whose pages it protects.
    fn ZwProtectVirtualMemory(
        process: HANDLE,
        address: *mut *mut c_void,
        size: *mut usize,
        protection: u32,
        old: *mut u32,
    ) -> NTSTATUS;
    static IoDriverObjectType: *mut c_void;
}

// Windows had the function there, too, before its kernel took it over.
#[link(name = "hal.dll", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "win64" {
    fn KeQueryPerformanceCounter(frequency: *mut LARGE_INTEGER) -> LARGE_INTEGER;
}

const PAGE_READWRITE: u32 = 4;

/// The process itself. [wdm: ZwCurrentProcess]
const CURRENT_PROCESS: HANDLE = core::ptr::without_provenance_mut(usize::MAX);

/// Offsets in an image. [pecoff: PE Header, Optional Header Data Directories, Import Directory Table]
const NEW_HEADER: usize = 0x3c;
const IMPORT_DIRECTORY: usize = 0x90;
const DESCRIPTOR: usize = 20;

pub(crate) fn begin(_: *mut DriverObject) -> NTSTATUS {
    // SAFETY: removed before the image goes.
    unsafe { PsSetLoadImageNotifyRoutine(loaded) }
}

pub(crate) fn end() {
    // SAFETY: `begin` set it.
    let _ = unsafe { PsRemoveLoadImageNotifyRoutine(loaded) };
}

/// Everything of this test runs at PASSIVE_LEVEL, and Wine has no other.
unsafe extern "win64" fn current_irql() -> KIRQL {
    0
}

/// Wine's own names a device of nobody whatever it is asked for. This one knows the device of the graphics kernel's driver, and that it may be missing. What
/// it returns as the file is an object that has got a reference, as the caller does nothing with a file but give the reference back.
unsafe extern "win64" fn device_object_pointer(
    name: *mut UNICODE_STRING,
    _: u32,
    file: *mut *mut c_void,
    device: *mut *mut c_void,
) -> NTSTATUS {
    const DRIVER_NAME: &[u16] = &utf16(*b"\\Driver\\DXGKrnl\0");
    // SAFETY: the caller passes a string.
    if !crate::ends_with(unsafe { crate::text(name) }, "\\Device\\DxgKrnl") {
        return STATUS_OBJECT_NAME_NOT_FOUND;
    }
    let (mut name, mut object) = (wdm::string(DRIVER_NAME), null_mut());
    // SAFETY: the kernel's variable is set before any driver runs.
    let kind = unsafe { IoDriverObjectType };
    // SAFETY: pointers are to locals, or NULL where that is allowed.
    let status =
        unsafe { ObReferenceObjectByName(&raw mut name, 0, null_mut(), 0, kind, 0, null_mut(), &raw mut object) };
    line(format_args!("looked-for DxgKrnl found={}", status.is_success()));
    if !status.is_success() {
        // Wine says of a driver that it has not that the lookup is not implemented; of a device this is the answer of Windows.
        return STATUS_OBJECT_NAME_NOT_FOUND;
    }
    // SAFETY: the object is a driver's.
    let first = unsafe { (*object.cast::<DriverObject>()).DeviceObject };
    // SAFETY: the caller passes places for both.
    unsafe { file.write(object) };
    // SAFETY: as above.
    unsafe { device.write(first) };
    STATUS_SUCCESS
}

unsafe extern "win64" fn loaded(name: *mut UNICODE_STRING, _: HANDLE, info: *mut ImageInfo) {
    // SAFETY: the system passes a string.
    if crate::ends_with(unsafe { crate::text(name) }, DRIVER) {
        // SAFETY: the system passes the place of the image.
        let base = unsafe { (*info).ImageBase };
        line(format_args!("loaded base={:#x}", base.addr()));
        // SAFETY: the image is loaded and not started.
        unsafe { imports(base) };
    }
}

/// # Safety
/// An image of the loader is at `base`.
unsafe fn at(base: *mut u8, offset: usize) -> usize {
    // SAFETY: the caller vouches for the image, whose headers have such offsets.
    unsafe { base.wrapping_byte_add(offset).cast::<u32>().read_unaligned() as usize }
}

/// # Safety
/// An image of the loader is at `base`, and nothing of it runs yet.
unsafe fn imports(base: *mut u8) {
    // SAFETY: the caller's promise, here and below.
    let header = unsafe { at(base, NEW_HEADER) };
    // SAFETY: as above.
    let mut descriptor = unsafe { at(base, header + IMPORT_DIRECTORY) };
    loop {
        // SAFETY: as above; the table ends with a descriptor of zeros.
        let names = unsafe { at(base, descriptor) };
        if names == 0 {
            return;
        }
        // SAFETY: as above.
        let slots = unsafe { at(base, descriptor + 16) };
        for index in 0.. {
            // SAFETY: as above; both lists end with zero.
            let hint = unsafe { at(base, names + 8 * index) };
            if hint == 0 {
                break;
            }
            // SAFETY: as above: a hint of two bytes comes before the name.
            let name = unsafe { CStr::from_ptr(base.wrapping_byte_add(hint + 2).cast::<c_char>()) };
            // SAFETY: as above.
            unsafe { import(name, base.wrapping_byte_add(slots + 8 * index).cast()) };
        }
        descriptor += DESCRIPTOR;
    }
}

/// Base of the module that an address is in, 0 for none.
fn module(address: usize) -> usize {
    let mut base = 0;
    // SAFETY: a place of this frame.
    unsafe { RtlPcToFileHeader(address, &raw mut base) };
    base
}

/// Tells which module has the import, and replaces it.
///
/// # Safety
/// `slot` is that of the import.
unsafe fn import(name: &CStr, slot: *mut usize) {
    // SAFETY: the caller vouches for the slot.
    let found = unsafe { slot.read() };
    let kernel = module(PsSetLoadImageNotifyRoutine as *const () as usize);
    let who = match module(found) {
        0 => "nobody",
        base if base == kernel => "kernel",
        _ => "another",
    };
    let supplied = SUPPLIED.iter().find(|(supplied, _)| *supplied == name);
    let shown = name.to_str().unwrap_or("?");
    line(format_args!("import {shown} {who} supplied={}", supplied.is_some()));
    let Some((_, replacement)) = supplied else { return };
    let (mut address, mut size, mut old) = (slot.cast::<c_void>(), size_of::<usize>(), 0);
    // SAFETY: the page is the image's, and all pointers are to locals.
    let status = unsafe {
        ZwProtectVirtualMemory(CURRENT_PROCESS, &raw mut address, &raw mut size, PAGE_READWRITE, &raw mut old)
    };
    if status.is_success() {
        // SAFETY: the slot can be written now.
        unsafe { slot.write(replacement()) };
        // SAFETY: as above.
        let _ = unsafe { ZwProtectVirtualMemory(CURRENT_PROCESS, &raw mut address, &raw mut size, old, &raw mut old) };
    }
}

//! A driver that makes one mistake in its DriverEntry: the one that its service is named after, see `MISTAKES`.
//!
//! Tests load the image and look at how the machine stops. The line of each mistake ends with a mark that they search for, so
//! that they know which line must be reported.

#![no_std]
#![cfg(windows)]

mod mistakes;

use core::ffi::c_void;

use wddm_ddi::status::{NTSTATUS, STATUS_OBJECT_NAME_NOT_FOUND, STATUS_UNSUCCESSFUL};
use wddm_ddi::types::{KIRQL, PDRIVER_OBJECT, UNICODE_STRING};

use mistakes::MISTAKES;

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "win64" {
    fn ExAllocatePool2(flags: u64, bytes: usize, tag: u32) -> *mut c_void;
    fn ExFreePoolWithTag(memory: *mut c_void, tag: u32);
    fn KeAcquireSpinLockRaiseToDpc(lock: *mut usize) -> KIRQL;
    fn KeEnterCriticalRegion();
    fn ExAcquirePushLockExclusiveEx(lock: *mut usize, flags: u32);
    fn DbgPrintEx(component: u32, level: u32, format: *const u8, text: *const u8) -> u32;
    fn KeBugCheckEx(code: u32, p1: usize, p2: usize, p3: usize, p4: usize) -> !;
    // The compiler calls these by name.
    fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memset(to: *mut u8, value: i32, bytes: usize) -> *mut u8;
    fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32;
}

type Copy = unsafe extern "win64" fn(*mut u8, *const u8, usize) -> *mut u8;
type Set = unsafe extern "win64" fn(*mut u8, i32, usize) -> *mut u8;
type Compare = unsafe extern "win64" fn(*const u8, *const u8, usize) -> i32;

/// Keeps the imports that only the compiler calls.
#[used]
static COMPILER_CALLS: (Copy, Copy, Set, Compare) = (memcpy, memmove, memset, memcmp);

/// Makes the mistake that the last part of the registry path names. What gets this far fails to load: no image registers.
///
/// # Safety
/// Called once by the image loader, with the path of the service key. The machine of the caller does not survive it.
#[unsafe(export_name = "DriverEntry")]
unsafe extern "win64" fn entry(_driver: PDRIVER_OBJECT, path: *mut UNICODE_STRING) -> NTSTATUS {
    // SAFETY: the loader passes a valid string.
    let path = unsafe { path.read() };
    // SAFETY: a valid string has this many units.
    let path = unsafe { core::slice::from_raw_parts(path.Buffer, usize::from(path.Length / 2)) };
    let service = path.rsplit(|unit| *unit == u16::from(b'\\')).next().unwrap_or(path);
    let found = MISTAKES.iter().find(|(name, _)| name.encode_utf16().eq(service.iter().copied()));
    match found {
        Some((_, mistake)) => {
            mistake();
            STATUS_UNSUCCESSFUL
        }
        None => STATUS_OBJECT_NAME_NOT_FOUND,
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: may be called at any level.
    unsafe { KeBugCheckEx(0xe000_0001, 0, 0, 0, 0) }
}

// Named in the unwind tables of the precompiled core library; nothing unwinds here.
core::arch::global_asm!(".globl __CxxFrameHandler3", "__CxxFrameHandler3:", "mov eax, 1", "ret");

/// Named by the compiler wherever a module holds floating-point types.
#[unsafe(no_mangle)]
#[used]
static _fltused: i32 = 0x9875;

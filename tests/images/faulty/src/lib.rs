//! A driver that makes one mistake: the one that its service is named after. `mistakes` are made in DriverEntry, `device` has those
//! that need a registered driver, and `null-NAME`, `wild-NAME` and `kernel-NAME` pass such a pointer to the service NAME of `pointers`.
//!
//! Tests load the image and look at how the machine stops. The line of each mistake ends with a mark that they search for, so
//! that they know which line must be reported.

#![no_std]
#![cfg(windows)]

mod device;
mod mistakes;
mod pointers;
mod register;

use core::ffi::c_void;

use wddm_ddi::status::{NTSTATUS, STATUS_OBJECT_NAME_NOT_FOUND, STATUS_UNSUCCESSFUL};
use wddm_ddi::types::{KIRQL, PDRIVER_OBJECT, UNICODE_STRING};

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

/// Bad pointers by the prefix of the service's name: nothing, what no process has here, and where Windows keeps its kernel.
const POINTERS: [(&str, usize); 3] = [("null-", 0), ("wild-", 0x7fff_ffff_f120), ("kernel-", 0xffff_8000_0000_1000)];

/// True if a UTF-16 name is this text.
fn is(name: &[u16], text: &str) -> bool {
    text.encode_utf16().eq(name.iter().copied())
}

/// Makes the mistake that the last part of the registry path names. Those of DriverEntry fail to load when they get to the end.
///
/// # Safety
/// Called once by the image loader, with the path of the service key. The machine of the caller does not survive it.
#[unsafe(export_name = "DriverEntry")]
unsafe extern "win64" fn entry(driver: PDRIVER_OBJECT, path: *mut UNICODE_STRING) -> NTSTATUS {
    // SAFETY: the loader passes a valid string.
    let text = unsafe { path.read() };
    // SAFETY: a valid string has this many units.
    let text = unsafe { core::slice::from_raw_parts(text.Buffer, usize::from(text.Length / 2)) };
    let service = text.rsplit(|unit| *unit == u16::from(b'\\')).next().unwrap_or(text);
    if let Some((_, mistake)) = mistakes::MISTAKES.iter().find(|(name, _)| is(service, name)) {
        mistake();
        return STATUS_UNSUCCESSFUL;
    }
    if let Some((_, change)) = device::MISTAKES.iter().find(|(name, _)| is(service, name)) {
        let mut table = device::table();
        change(&mut table);
        // SAFETY: called from DriverEntry with its arguments and a filled table.
        return unsafe { register::function()(driver, path, &raw mut table) };
    }
    for (prefix, bad) in POINTERS {
        let Some((found, name)) = service.split_at_checked(prefix.len()) else { continue };
        if let Some((_, call)) = pointers::SERVICES.iter().find(|(known, _)| is(found, prefix) && is(name, known)) {
            call(core::ptr::with_exposed_provenance_mut(bad), driver, path);
            return STATUS_UNSUCCESSFUL;
        }
    }
    STATUS_OBJECT_NAME_NOT_FOUND
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

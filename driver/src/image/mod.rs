//! What only the driver image has: its entry point, the kernel's exports behind the import table, and the panic handler.
//!
//! A driver linked into another program takes all of this from its host instead.

mod displib;

use core::panic::PanicInfo;

use wddm_ddi::nt::NtImports;
use wddm_ddi::types::*;

/// Bugcheck code of a panic in this driver: "CAMP", with bits 31:28 set as private codes have them.
const BUGCHECK_PANIC: u32 = 0xe000_0000 | (u32::from_be_bytes(*b"CAMP") & 0x0fff_ffff);

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "win64" {
    fn ExAllocatePool2(flags: u64, bytes: usize, tag: u32) -> *mut core::ffi::c_void;
    fn ExFreePoolWithTag(memory: *mut core::ffi::c_void, tag: u32);
    fn KeGetCurrentIrql() -> KIRQL;
    fn KeAcquireSpinLockRaiseToDpc(lock: *mut usize) -> KIRQL;
    fn KeReleaseSpinLock(lock: *mut usize, irql: KIRQL);
    fn KeEnterCriticalRegion();
    fn KeLeaveCriticalRegion();
    fn ExAcquirePushLockExclusiveEx(lock: *mut usize, flags: u32);
    fn ExReleasePushLockExclusiveEx(lock: *mut usize, flags: u32);
    fn KeQueryPerformanceCounter(frequency: *mut LARGE_INTEGER) -> LARGE_INTEGER;
    fn MmGetPhysicalAddress(address: *mut core::ffi::c_void) -> PHYSICAL_ADDRESS;
    fn KeBugCheckEx(code: u32, p1: usize, p2: usize, p3: usize, p4: usize) -> !;
    fn DbgPrintEx(component: u32, level: u32, format: *const u8, text: *const u8) -> u32;
    // The compiler calls these by name; the kernel exports them.
    fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memset(to: *mut u8, value: i32, bytes: usize) -> *mut u8;
    fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32;
}

static IMPORTS: NtImports = NtImports {
    DxgkInitialize: displib::dxgk_initialize,
    ExAllocatePool2,
    ExFreePoolWithTag,
    KeGetCurrentIrql,
    KeAcquireSpinLockRaiseToDpc,
    KeReleaseSpinLock,
    KeEnterCriticalRegion,
    KeLeaveCriticalRegion,
    ExAcquirePushLockExclusiveEx,
    ExReleasePushLockExclusiveEx,
    KeQueryPerformanceCounter,
    MmGetPhysicalAddress,
    KeBugCheckEx,
    DbgPrintEx,
};

/// Keeps the imports that only the compiler calls.
#[used]
static COMPILER_CALLS: (
    unsafe extern "win64" fn(*mut u8, *const u8, usize) -> *mut u8,
    unsafe extern "win64" fn(*mut u8, *const u8, usize) -> *mut u8,
    unsafe extern "win64" fn(*mut u8, i32, usize) -> *mut u8,
    unsafe extern "win64" fn(*const u8, *const u8, usize) -> i32,
) = (memcpy, memmove, memset, memcmp);

/// Entry point of the image.
/// [wdm: DRIVER_INITIALIZE]
///
/// # Safety
/// Called once by the image loader with the driver object and the path of the service key.
#[unsafe(export_name = "DriverEntry")]
#[unsafe(link_section = "INIT")]
unsafe extern "win64" fn image_entry(driver: PDRIVER_OBJECT, path: *mut UNICODE_STRING) -> NTSTATUS {
    crate::bind_imports(&IMPORTS);
    // SAFETY: both arguments are the loader's own.
    unsafe { crate::DriverEntry(driver, path) }
}

/// A panic is a defect of this driver; the machine stops with the place of it, as no state can be trusted any more.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let (file, line) = info.location().map_or((0, 0), |place| (place.file().as_ptr().addr(), place.line() as usize));
    // SAFETY: KeBugCheckEx may be called at any level.
    unsafe { KeBugCheckEx(BUGCHECK_PANIC, file, line, 0, 0) }
}

// The precompiled core library names the C++ frame handler in its unwind tables. Nothing in this image unwinds; when the kernel
// dispatches an exception over these frames, the handler lets the search go on (ExceptionContinueSearch).
core::arch::global_asm!(".globl __CxxFrameHandler3", "__CxxFrameHandler3:", "mov eax, 1", "ret");

/// Named by the compiler wherever a module holds floating-point types.
#[unsafe(no_mangle)]
#[used]
static _fltused: i32 = 0x9875;

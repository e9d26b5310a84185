//! Kernel services for the unit tests: pool from the host's allocator, locks that spin.

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::{Layout, alloc_zeroed, dealloc};

use wddm_ddi::km::DRIVER_INITIALIZATION_DATA;
use wddm_ddi::nt::{DISPATCH_LEVEL, EVENT_DATA_DESCRIPTOR, EVENT_DESCRIPTOR, NtImports, PETWENABLECALLBACK};
use wddm_ddi::status::{STATUS_NOT_SUPPORTED, STATUS_OBJECT_NAME_NOT_FOUND};
use wddm_ddi::types::*;

std::thread_local! {
    static IRQL: Cell<KIRQL> = const { Cell::new(0) };
    static FAIL: Cell<bool> = const { Cell::new(false) };
}

/// Size of an allocation, kept in front of it.
const HEADER: usize = 16;

unsafe extern "win64" fn initialize(
    _: PDRIVER_OBJECT,
    _: *mut UNICODE_STRING,
    _: *mut DRIVER_INITIALIZATION_DATA,
) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(HEADER)?, HEADER).ok()
}

unsafe extern "win64" fn allocate(_flags: u64, size: usize, _tag: u32) -> *mut c_void {
    let Some(layout) = layout(size).filter(|_| !FAIL.get()) else { return core::ptr::null_mut() };
    // SAFETY: the layout is never empty.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: the header lies in front of the usable part.
    unsafe { memory.cast::<usize>().write(size) };
    memory.wrapping_add(HEADER).cast()
}

unsafe extern "win64" fn free(memory: *mut c_void, _tag: u32) {
    let start = memory.cast::<u8>().wrapping_sub(HEADER);
    // SAFETY: every pointer given out has its size in front.
    let size = unsafe { start.cast::<usize>().read() };
    let layout = layout(size).expect("the size was laid out before");
    // SAFETY: allocated with this layout, freed once.
    unsafe { dealloc(start, layout) };
}

unsafe extern "win64" fn current_irql() -> KIRQL {
    IRQL.get()
}

fn acquire(word: *mut usize) {
    // SAFETY: lock words are aligned and live while locked.
    let word = unsafe { AtomicUsize::from_ptr(word) };
    while word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        std::thread::yield_now();
    }
}

fn release(word: *mut usize) {
    // SAFETY: lock words are aligned and live while locked.
    unsafe { AtomicUsize::from_ptr(word) }.store(0, Ordering::Release);
}

unsafe extern "win64" fn acquire_spin(word: *mut usize) -> KIRQL {
    acquire(word);
    IRQL.replace(DISPATCH_LEVEL)
}

unsafe extern "win64" fn release_spin(word: *mut usize, old: KIRQL) {
    release(word);
    IRQL.set(old);
}

unsafe extern "win64" fn nothing() {}

unsafe extern "win64" fn acquire_push(word: *mut usize, _flags: u32) {
    acquire(word);
}

unsafe extern "win64" fn release_push(word: *mut usize, _flags: u32) {
    release(word);
}

unsafe extern "win64" fn counter(_frequency: *mut LARGE_INTEGER) -> LARGE_INTEGER {
    LARGE_INTEGER { QuadPart: 1 }
}

unsafe extern "win64" fn physical(address: *mut c_void) -> PHYSICAL_ADDRESS {
    LARGE_INTEGER { QuadPart: address.addr() as i64 }
}

/// Nothing is known of any device.
unsafe extern "win64" fn device_property(_: *mut c_void, _: i32, _: u32, _: *mut c_void, _: *mut u32) -> NTSTATUS {
    STATUS_OBJECT_NAME_NOT_FOUND
}

unsafe extern "win64" fn bug_check(code: u32, _: usize, _: usize, _: usize, _: usize) -> ! {
    std::eprintln!("bugcheck {code:#x}");
    std::process::abort()
}

unsafe extern "win64" fn print(_: u32, _: u32, _: *const u8, _: *const u8) -> u32 {
    0
}

unsafe extern "win64" fn processor(_: *mut c_void) -> u32 {
    0
}

unsafe extern "win64" fn etw_register(
    _: *const GUID,
    _: Option<PETWENABLECALLBACK>,
    _: *mut c_void,
    _: *mut u64,
) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

unsafe extern "win64" fn etw_unregister(_: u64) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

unsafe extern "win64" fn etw_set_information(_: u64, _: u32, _: *const c_void, _: u32) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

unsafe extern "win64" fn etw_write(
    _: u64,
    _: *const EVENT_DESCRIPTOR,
    _: *const GUID,
    _: *const GUID,
    _: u32,
    _: *const EVENT_DATA_DESCRIPTOR,
) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

static IMPORTS: NtImports = NtImports {
    DxgkInitialize: initialize,
    ExAllocatePool2: allocate,
    ExFreePoolWithTag: free,
    KeGetCurrentIrql: current_irql,
    KeAcquireSpinLockRaiseToDpc: acquire_spin,
    KeReleaseSpinLock: release_spin,
    KeEnterCriticalRegion: nothing,
    KeLeaveCriticalRegion: nothing,
    ExAcquirePushLockExclusiveEx: acquire_push,
    ExReleasePushLockExclusiveEx: release_push,
    KeQueryPerformanceCounter: counter,
    MmGetPhysicalAddress: physical,
    KeGetCurrentProcessorNumberEx: processor,
    EtwRegister: etw_register,
    EtwUnregister: etw_unregister,
    EtwSetInformation: etw_set_information,
    EtwWriteTransfer: etw_write,
    IoGetDeviceProperty: device_property,
    KeBugCheckEx: bug_check,
    DbgPrintEx: print,
};

/// Binds these services.
pub(crate) fn bind() {
    crate::bind_imports(&IMPORTS);
}

/// Runs `body` with no memory to be had on this thread.
pub(crate) fn failing_allocations(body: impl FnOnce()) {
    FAIL.set(true);
    body();
    FAIL.set(false);
}

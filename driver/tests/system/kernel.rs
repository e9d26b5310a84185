//! Kernel services: counted memory, locks that know when they would deadlock, levels per thread.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use campanile_kmd::{DriverEntry, bind_imports};
use wddm_ddi::km::*;
use wddm_ddi::nt::{DISPATCH_LEVEL, DPFLTR_ERROR_LEVEL, DPFLTR_VIDEO_ID, NtImports};
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::inert;

thread_local! {
    static LEVEL: Cell<KIRQL> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<isize> = const { Cell::new(0) };
    static ERRORS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

static TABLE: OnceLock<DRIVER_INITIALIZATION_DATA> = OnceLock::new();

/// The table that the driver registers.
pub(crate) fn driver_table() -> DRIVER_INITIALIZATION_DATA {
    *TABLE.get_or_init(|| {
        bind_imports(&IMPORTS);
        // SAFETY: the objects are not looked at by this system.
        let status = unsafe { DriverEntry(std::ptr::null_mut(), std::ptr::null_mut()) };
        assert_eq!(status, STATUS_SUCCESS);
        REGISTERED.with(Cell::take).expect("the driver registered its table")
    })
}

thread_local! {
    static REGISTERED: Cell<Option<DRIVER_INITIALIZATION_DATA>> = const { Cell::new(None) };
}

/// Runs `body` at a level.
pub(crate) fn level<R>(level: KIRQL, body: impl FnOnce() -> R) -> R {
    let old = LEVEL.replace(level);
    let result = body();
    assert_eq!(LEVEL.replace(old), level, "left at another level");
    result
}

pub(crate) fn current_level() -> KIRQL {
    LEVEL.get()
}

/// Allocations and mappings of this thread that were not given back.
pub(crate) fn allocations() -> isize {
    ALLOCATIONS.get()
}

pub(crate) fn count_mapping(change: isize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + change);
}

unsafe extern "win64" fn initialize(
    _: PDRIVER_OBJECT,
    _: *mut UNICODE_STRING,
    data: *mut DRIVER_INITIALIZATION_DATA,
) -> NTSTATUS {
    // SAFETY: the driver passes its table.
    REGISTERED.set(Some(unsafe { *data }));
    STATUS_SUCCESS
}

const PAGE: usize = 4096;

fn allocate_pages(size: usize) -> *mut u8 {
    let Ok(layout) = Layout::from_size_align(size + PAGE, PAGE) else { return std::ptr::null_mut() };
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc_zeroed(layout) };
    assert!(!memory.is_null());
    // SAFETY: the first page holds the size.
    unsafe { memory.cast::<usize>().write(size) };
    count_mapping(1);
    memory.wrapping_add(PAGE)
}

fn free_pages(memory: *mut u8) {
    let start = memory.wrapping_sub(PAGE);
    // SAFETY: every pointer given out has its size in the page in front.
    let size = unsafe { start.cast::<usize>().read() };
    let layout = Layout::from_size_align(size + PAGE, PAGE).expect("was allocated");
    // SAFETY: allocated with this layout, freed once.
    unsafe { dealloc(start, layout) };
    count_mapping(-1);
}

pub(crate) unsafe extern "win64" fn allocate_contiguous(
    _: HANDLE,
    args: *mut DXGKARGCB_ALLOCATECONTIGUOUSMEMORY,
) -> NTSTATUS {
    assert!(current_level() < DISPATCH_LEVEL);
    // SAFETY: the driver passes its own structure.
    let args = unsafe { &mut *args };
    super::log(|log| log.caching.push(args.CacheType));
    let memory = allocate_pages(args.NumberOfBytes);
    memory.expose_provenance();
    args.pMemory = memory.cast();
    args.hMemoryHandle = memory.cast();
    STATUS_SUCCESS
}

pub(crate) unsafe extern "win64" fn free_contiguous(
    _: HANDLE,
    args: *const DXGKARGCB_FREECONTIGUOUSMEMORY,
) -> NTSTATUS {
    assert!(current_level() < DISPATCH_LEVEL);
    // SAFETY: the driver passes its own structure.
    free_pages(unsafe { (*args).hMemoryHandle }.cast());
    STATUS_SUCCESS
}

unsafe extern "win64" fn allocate(_flags: u64, size: usize, _tag: u32) -> *mut c_void {
    assert!(current_level() <= DISPATCH_LEVEL, "pool is allocated at DISPATCH_LEVEL at most");
    allocate_pages(size).cast()
}

unsafe extern "win64" fn free(memory: *mut c_void, _tag: u32) {
    assert!(current_level() <= DISPATCH_LEVEL, "pool is freed at DISPATCH_LEVEL at most");
    free_pages(memory.cast());
}

unsafe extern "win64" fn current_irql() -> KIRQL {
    current_level()
}

fn acquire(word: *mut usize) {
    // SAFETY: lock words are aligned and live while locked.
    let taken = unsafe { AtomicUsize::from_ptr(word) }.swap(1, Ordering::Acquire);
    assert_eq!(taken, 0, "a test has one thread: it waits for itself");
}

fn release(word: *mut usize) {
    // SAFETY: lock words are aligned and live while locked.
    unsafe { AtomicUsize::from_ptr(word) }.store(0, Ordering::Release);
}

unsafe extern "win64" fn acquire_spin(word: *mut usize) -> KIRQL {
    assert!(current_level() <= DISPATCH_LEVEL);
    acquire(word);
    LEVEL.replace(DISPATCH_LEVEL)
}

unsafe extern "win64" fn release_spin(word: *mut usize, old: KIRQL) {
    release(word);
    LEVEL.set(old);
}

unsafe extern "win64" fn acquire_push(word: *mut usize, _flags: u32) {
    assert!(current_level() < DISPATCH_LEVEL);
    acquire(word);
}

unsafe extern "win64" fn release_push(word: *mut usize, _flags: u32) {
    release(word);
}

unsafe extern "win64" fn print(component: u32, level: u32, format: *const u8, text: *const u8) -> u32 {
    // SAFETY: the driver passes a terminated format.
    let format = unsafe { CStr::from_ptr(format.cast()) };
    assert_eq!((component, format), (DPFLTR_VIDEO_ID, c"%s"));
    // SAFETY: the format takes one terminated text.
    let text = unsafe { CStr::from_ptr(text.cast()) };
    if level == DPFLTR_ERROR_LEVEL {
        ERRORS.with_borrow_mut(|errors| errors.push(text.to_string_lossy().into_owned()));
    }
    0
}

/// Takes the error lines that the driver printed on this thread.
pub(crate) fn printed_errors() -> Vec<String> {
    ERRORS.take()
}

static IMPORTS: NtImports = NtImports {
    DbgPrintEx: print,
    DxgkInitialize: initialize,
    ExAllocatePool2: allocate,
    ExFreePoolWithTag: free,
    KeGetCurrentIrql: current_irql,
    KeAcquireSpinLockRaiseToDpc: acquire_spin,
    KeReleaseSpinLock: release_spin,
    ExAcquirePushLockExclusiveEx: acquire_push,
    ExReleasePushLockExclusiveEx: release_push,
    ..inert::SERVICES
};

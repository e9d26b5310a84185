//! Kernel services for the unit tests: pool from the host's allocator, locks that spin.

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::{Layout, alloc_zeroed, dealloc};

use wddm_ddi::nt::{DISPATCH_LEVEL, NtImports};
use wddm_ddi::types::*;

mod inert;

std::thread_local! {
    static IRQL: Cell<KIRQL> = const { Cell::new(0) };
    static FAIL: Cell<bool> = const { Cell::new(false) };
}

/// Size of an allocation, kept in front of it.
const HEADER: usize = 16;

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

unsafe extern "win64" fn acquire_push(word: *mut usize, _flags: u32) {
    acquire(word);
}

unsafe extern "win64" fn release_push(word: *mut usize, _flags: u32) {
    release(word);
}

static IMPORTS: NtImports = NtImports {
    ExAllocatePool2: allocate,
    ExFreePoolWithTag: free,
    KeGetCurrentIrql: current_irql,
    KeAcquireSpinLockRaiseToDpc: acquire_spin,
    KeReleaseSpinLock: release_spin,
    ExAcquirePushLockExclusiveEx: acquire_push,
    ExReleasePushLockExclusiveEx: release_push,
    ..inert::SERVICES
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

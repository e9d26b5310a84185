//! The few kernel services that this driver imports, behind safe functions where their rules allow it.
//!
//! The table is bound once per process, before [`crate::DriverEntry`] runs; every instance of the driver shares it. Until then
//! allocations fail and nothing else of the driver can run.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};

use wddm_ddi::nt::{DPFLTR_ERROR_LEVEL, DPFLTR_INFO_LEVEL, DPFLTR_VIDEO_ID, NtImports, POOL_FLAG_NON_PAGED};
use wddm_ddi::types::{KIRQL, LARGE_INTEGER};

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

static IMPORTS: AtomicPtr<NtImports> = AtomicPtr::new(core::ptr::null_mut());

/// Names the kernel services that this driver uses from now on. Binding again replaces the table.
pub fn bind_imports(imports: &'static NtImports) {
    IMPORTS.store(core::ptr::from_ref(imports).cast_mut(), Ordering::Release);
}

/// The bound services, `None` before [`bind_imports`].
pub(crate) fn imports() -> Option<&'static NtImports> {
    // SAFETY: the pointer is NULL or was made from a `&'static NtImports`.
    unsafe { IMPORTS.load(Ordering::Acquire).as_ref() }
}

/// Zeroed nonpaged memory, aligned to 16 bytes; `None` when there is none. Any level up to DISPATCH.
pub(crate) fn allocate(size: usize, tag: u32) -> Option<NonNull<u8>> {
    let imports = imports()?;
    // SAFETY: nonpaged pool may be allocated up to DISPATCH_LEVEL, the highest level of every caller.
    let memory = unsafe { (imports.ExAllocatePool2)(POOL_FLAG_NON_PAGED, size, tag) };
    NonNull::new(memory.cast())
}

/// Gives back memory of [`allocate`].
///
/// # Safety
/// `memory` must come from [`allocate`] with the same tag, and not be used afterwards.
pub(crate) unsafe fn free(memory: NonNull<u8>, tag: u32) {
    if let Some(imports) = imports() {
        // SAFETY: the caller passes memory of ExAllocatePool2 with its tag, once.
        unsafe { (imports.ExFreePoolWithTag)(memory.as_ptr().cast(), tag) };
    }
}

/// Level of the processor.
pub(crate) fn current_irql() -> Option<KIRQL> {
    let imports = imports()?;
    // SAFETY: KeGetCurrentIrql has no requirements.
    Some(unsafe { (imports.KeGetCurrentIrql)() })
}

/// Number of the processor.
pub(crate) fn processor_number() -> u32 {
    // SAFETY: without a place for the number within its group there is no requirement.
    imports().map_or(0, |imports| unsafe { (imports.KeGetCurrentProcessorNumberEx)(core::ptr::null_mut()) })
}

/// Acquires a spin lock and returns the level to go back to.
///
/// # Safety
/// `word` must be a spin lock word that lives until the release; the caller is at DISPATCH_LEVEL or below and does not hold it.
pub(crate) unsafe fn acquire_spin_lock(word: *mut usize) -> KIRQL {
    match imports() {
        // SAFETY: the caller's promise is KeAcquireSpinLockRaiseToDpc's requirement.
        Some(imports) => unsafe { (imports.KeAcquireSpinLockRaiseToDpc)(word) },
        None => 0,
    }
}

/// Releases a spin lock.
///
/// # Safety
/// The caller holds `word`, acquired by [`acquire_spin_lock`], which returned `old`.
pub(crate) unsafe fn release_spin_lock(word: *mut usize, old: KIRQL) {
    if let Some(imports) = imports() {
        // SAFETY: the caller's promise is KeReleaseSpinLock's requirement.
        unsafe { (imports.KeReleaseSpinLock)(word, old) };
    }
}

/// Acquires a push lock with normal kernel APCs disabled.
///
/// # Safety
/// `word` must be a push lock word that lives until the release; the caller is below DISPATCH_LEVEL and does not hold it.
pub(crate) unsafe fn acquire_push_lock(word: *mut usize) {
    if let Some(imports) = imports() {
        // SAFETY: no requirement but a level below DISPATCH.
        unsafe { (imports.KeEnterCriticalRegion)() };
        // SAFETY: APCs are disabled; the caller guarantees everything else.
        unsafe { (imports.ExAcquirePushLockExclusiveEx)(word, 0) };
    }
}

/// Releases a push lock.
///
/// # Safety
/// The caller holds `word`, acquired by [`acquire_push_lock`].
pub(crate) unsafe fn release_push_lock(word: *mut usize) {
    if let Some(imports) = imports() {
        // SAFETY: the caller holds the lock exclusively.
        unsafe { (imports.ExReleasePushLockExclusiveEx)(word, 0) };
        // SAFETY: pairs with the enter of the acquisition.
        unsafe { (imports.KeLeaveCriticalRegion)() };
    }
}

/// The processor's performance counter in ticks, and its ticks a second.
pub(crate) fn performance_counter() -> (u64, u64) {
    let Some(imports) = imports() else { return (0, 0) };
    let mut frequency = LARGE_INTEGER { QuadPart: 0 };
    // SAFETY: the pointer is to a local that may be written.
    let counter = unsafe { (imports.KeQueryPerformanceCounter)(&raw mut frequency) };
    (counter.QuadPart.cast_unsigned(), frequency.QuadPart.cast_unsigned())
}

/// Bus address of nonpaged kernel memory.
pub(crate) fn physical_address(memory: NonNull<u8>) -> Option<u64> {
    let imports = imports()?;
    // SAFETY: MmGetPhysicalAddress only translates, at any level.
    let address = unsafe { (imports.MmGetPhysicalAddress)(memory.as_ptr().cast::<c_void>()) };
    u64::try_from(address.QuadPart).ok()
}

/// What plug and play knows of a device, as many bytes as there are; `None` if it does not know, or there are more. PASSIVE_LEVEL.
///
/// # Safety
/// `device` is a physical device object of the operating system.
pub(crate) unsafe fn device_property(device: *mut c_void, property: i32, buffer: &mut [u8]) -> Option<usize> {
    let (imports, length) = (imports()?, u32::try_from(buffer.len()).ok()?);
    let mut got = 0;
    // SAFETY: the caller vouches for the device; the buffer has `length` bytes.
    let status = unsafe {
        (imports.IoGetDeviceProperty)(device, property, length, buffer.as_mut_ptr().cast::<c_void>(), &raw mut got)
    };
    let got = got as usize;
    (status.is_success() && got <= buffer.len()).then_some(got)
}

/// Prints a line of debug output, which a debugger shows if it asks for information of video drivers. Up to DISPATCH_LEVEL and only on
/// slow paths.
pub(crate) fn print(line: &core::ffi::CStr) {
    print_at(DPFLTR_INFO_LEVEL, line);
}

/// Prints a line of debug output, which every debugger shows. Up to DISPATCH_LEVEL and only on slow paths.
pub(crate) fn print_error(line: &core::ffi::CStr) {
    print_at(DPFLTR_ERROR_LEVEL, line);
}

fn print_at(level: u32, line: &core::ffi::CStr) {
    if let Some(imports) = imports() {
        // SAFETY: the format takes one string, which is terminated.
        unsafe { (imports.DbgPrintEx)(DPFLTR_VIDEO_ID, level, c"%s".as_ptr().cast(), line.as_ptr().cast()) };
    }
}

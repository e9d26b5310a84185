//! What only the driver image has: its entry point, and the kernel's exports behind the import table.
//!
//! A driver linked into another program takes all of this from its host instead. Registration, panic handler and the symbols that
//! the compiler expects come from this crate (`own`), or with the feature `wdk` from an installed kit and its crates (`kit`).

#[cfg(not(feature = "wdk"))]
mod displib;
#[cfg(feature = "wdk")]
mod kit;
#[cfg(not(feature = "wdk"))]
mod own;

use wddm_ddi::nt::{EVENT_DATA_DESCRIPTOR, EVENT_DESCRIPTOR, NtImports, PETWENABLECALLBACK};
use wddm_ddi::types::*;

#[cfg(not(feature = "wdk"))]
use displib::DxgkInitialize;
#[cfg(feature = "wdk")]
use kit::DxgkInitialize;

// With a kit, its import library has them; `kit` sees that it is linked.
#[cfg_attr(not(feature = "wdk"), link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim"))]
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
    fn KeGetCurrentProcessorNumberEx(number: *mut core::ffi::c_void) -> u32;
    fn EtwRegister(
        provider: *const GUID,
        callback: Option<PETWENABLECALLBACK>,
        context: *mut core::ffi::c_void,
        handle: *mut u64,
    ) -> NTSTATUS;
    fn EtwUnregister(handle: u64) -> NTSTATUS;
    fn EtwSetInformation(handle: u64, class: u32, information: *const core::ffi::c_void, length: u32) -> NTSTATUS;
    fn EtwWriteTransfer(
        handle: u64,
        event: *const EVENT_DESCRIPTOR,
        activity: *const GUID,
        related: *const GUID,
        count: u32,
        data: *const EVENT_DATA_DESCRIPTOR,
    ) -> NTSTATUS;
    fn IoGetDeviceProperty(
        device: *mut core::ffi::c_void,
        property: i32,
        length: u32,
        buffer: *mut core::ffi::c_void,
        needed: *mut u32,
    ) -> NTSTATUS;
    fn IoOpenDeviceRegistryKey(device: *mut core::ffi::c_void, kind: u32, access: u32, key: *mut HANDLE) -> NTSTATUS;
    fn ZwQueryValueKey(
        key: HANDLE,
        name: *mut UNICODE_STRING,
        class: i32,
        information: *mut core::ffi::c_void,
        length: u32,
        needed: *mut u32,
    ) -> NTSTATUS;
    fn ZwClose(handle: HANDLE) -> NTSTATUS;
    fn KeBugCheckEx(code: u32, p1: usize, p2: usize, p3: usize, p4: usize) -> !;
    fn DbgPrintEx(component: u32, level: u32, format: *const u8, text: *const u8) -> u32;
}

static IMPORTS: NtImports = NtImports {
    DxgkInitialize,
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
    KeGetCurrentProcessorNumberEx,
    EtwRegister,
    EtwUnregister,
    EtwSetInformation,
    EtwWriteTransfer,
    IoGetDeviceProperty,
    IoOpenDeviceRegistryKey,
    ZwQueryValueKey,
    ZwClose,
    KeBugCheckEx,
    DbgPrintEx,
};

/// Entry point of the image.
/// [wdm: DRIVER_INITIALIZE]
///
/// # Safety
/// Called once by the image loader with the driver object and the path of the service key.
#[unsafe(export_name = "DriverEntry")]
#[unsafe(link_section = "INIT")]
unsafe extern "win64" fn image_entry(driver: PDRIVER_OBJECT, path: *mut UNICODE_STRING) -> NTSTATUS {
    crate::bind_imports(&IMPORTS);
    #[cfg(feature = "wdk")]
    kit::announce();
    // SAFETY: both arguments are the loader's own.
    unsafe { crate::DriverEntry(driver, path) }
}

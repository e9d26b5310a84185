//! Kernel services that do as little as they may: what a test does not care for is taken from here.

use core::ffi::c_void;

use wddm_ddi::km::DRIVER_INITIALIZATION_DATA;
use wddm_ddi::nt::{EVENT_DATA_DESCRIPTOR, EVENT_DESCRIPTOR, NtImports, PETWENABLECALLBACK};
use wddm_ddi::status::{STATUS_NOT_SUPPORTED, STATUS_OBJECT_NAME_NOT_FOUND};
use wddm_ddi::types::*;

unsafe extern "win64" fn initialize(
    _: PDRIVER_OBJECT,
    _: *mut UNICODE_STRING,
    _: *mut DRIVER_INITIALIZATION_DATA,
) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

/// There is no memory.
unsafe extern "win64" fn allocate(_: u64, _: usize, _: u32) -> *mut c_void {
    core::ptr::null_mut()
}

unsafe extern "win64" fn free(_: *mut c_void, _: u32) {}

unsafe extern "win64" fn passive() -> KIRQL {
    0
}

unsafe extern "win64" fn acquire_spin(_: *mut usize) -> KIRQL {
    0
}

unsafe extern "win64" fn release_spin(_: *mut usize, _: KIRQL) {}

unsafe extern "win64" fn push(_: *mut usize, _: u32) {}

unsafe extern "win64" fn nothing() {}

unsafe extern "win64" fn counter(_: *mut LARGE_INTEGER) -> LARGE_INTEGER {
    LARGE_INTEGER { QuadPart: 1 }
}

unsafe extern "win64" fn physical(address: *mut c_void) -> PHYSICAL_ADDRESS {
    LARGE_INTEGER { QuadPart: address.expose_provenance() as i64 }
}

/// Nothing is known of any device.
unsafe extern "win64" fn device_property(_: *mut c_void, _: i32, _: u32, _: *mut c_void, _: *mut u32) -> NTSTATUS {
    STATUS_OBJECT_NAME_NOT_FOUND
}

/// No device has a key.
unsafe extern "win64" fn open_device_key(_: *mut c_void, _: u32, _: u32, _: *mut HANDLE) -> NTSTATUS {
    STATUS_OBJECT_NAME_NOT_FOUND
}

unsafe extern "win64" fn query_value(
    _: HANDLE,
    _: *mut UNICODE_STRING,
    _: i32,
    _: *mut c_void,
    _: u32,
    _: *mut u32,
) -> NTSTATUS {
    STATUS_OBJECT_NAME_NOT_FOUND
}

unsafe extern "win64" fn close(_: HANDLE) -> NTSTATUS {
    STATUS_OBJECT_NAME_NOT_FOUND
}

unsafe extern "win64" fn bug_check(code: u32, p1: usize, p2: usize, p3: usize, p4: usize) -> ! {
    std::eprintln!("bugcheck {code:#x} ({p1:#x}, {p2:#x}, {p3:#x}, {p4:#x})");
    std::process::abort()
}

unsafe extern "win64" fn print_nothing(_: u32, _: u32, _: *const u8, _: *const u8) -> u32 {
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

/// All of them.
pub(crate) const SERVICES: NtImports = NtImports {
    DxgkInitialize: initialize,
    ExAllocatePool2: allocate,
    ExFreePoolWithTag: free,
    KeGetCurrentIrql: passive,
    KeAcquireSpinLockRaiseToDpc: acquire_spin,
    KeReleaseSpinLock: release_spin,
    KeEnterCriticalRegion: nothing,
    KeLeaveCriticalRegion: nothing,
    ExAcquirePushLockExclusiveEx: push,
    ExReleasePushLockExclusiveEx: push,
    KeQueryPerformanceCounter: counter,
    MmGetPhysicalAddress: physical,
    KeGetCurrentProcessorNumberEx: processor,
    EtwRegister: etw_register,
    EtwUnregister: etw_unregister,
    EtwSetInformation: etw_set_information,
    EtwWriteTransfer: etw_write,
    IoGetDeviceProperty: device_property,
    IoOpenDeviceRegistryKey: open_device_key,
    ZwQueryValueKey: query_value,
    ZwClose: close,
    KeBugCheckEx: bug_check,
    DbgPrintEx: print_nothing,
};

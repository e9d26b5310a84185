// UNSAFETY: passes pointers to nothing, which is the purpose.
//! Kernel services that are given a bad pointer, one each.

use core::ffi::c_void;
use core::hint::black_box;
use core::ptr::null_mut;

use wddm_ddi::Zeroed;
use wddm_ddi::km::DRIVER_INITIALIZATION_DATA;
use wddm_ddi::types::*;

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "win64" {
    fn KeReleaseSpinLock(lock: *mut usize, irql: KIRQL);
    fn ExReleasePushLockExclusiveEx(lock: *mut usize, flags: u32);
    fn KeLeaveCriticalRegion();
    fn KeQueryPerformanceCounter(frequency: *mut LARGE_INTEGER) -> LARGE_INTEGER;
    fn MmGetPhysicalAddress(address: *mut c_void) -> PHYSICAL_ADDRESS;
    fn RtlInitUnicodeString(string: *mut UNICODE_STRING, text: *const u16);
    fn ZwLoadDriver(service: *mut UNICODE_STRING) -> NTSTATUS;
    fn IoGetDeviceObjectPointer(
        name: *mut UNICODE_STRING,
        access: u32,
        file: *mut *mut c_void,
        device: *mut *mut c_void,
    ) -> NTSTATUS;
    fn KeInitializeEvent(event: *mut c_void, kind: u32, state: BOOLEAN);
    fn KeWaitForSingleObject(object: *mut c_void, reason: u32, mode: i8, alert: BOOLEAN, time: *mut i64) -> NTSTATUS;
    fn ObfDereferenceObject(object: *mut c_void) -> isize;
}

type Service = fn(*mut c_void, PDRIVER_OBJECT, *mut UNICODE_STRING);

macro_rules! services {
    ($($name:literal |$bad:ident, $driver:ident, $path:ident| $call:expr;)*) => {
        &[$(($name, |$bad, $driver, $path| {
            let _ = (&$driver, &$path);
            #[allow(unused_unsafe)] // some go through a safe function
            // SAFETY: none, the pointer is bad; all else is good.
            let _ = black_box(unsafe { $call });
        })),*]
    };
}

/// Name of the service and how it is called with the pointer. Also given is what DriverEntry got.
pub(crate) const SERVICES: &[(&str, Service)] = services! {
    "memcpy" |bad, _d, _p| black_box(crate::memcpy as crate::Copy)(bad.cast(), [0_u8; 64].as_ptr(), 64);
    "memcpy-from" |bad, _d, _p| black_box(crate::memcpy as crate::Copy)([0_u8; 64].as_mut_ptr(), bad.cast(), 64);
    "memmove" |bad, _d, _p| black_box(crate::memmove as crate::Copy)(bad.cast(), [0_u8; 64].as_ptr(), 64);
    "memset" |bad, _d, _p| black_box(crate::memset as crate::Set)(bad.cast(), 0, 64);
    "memcmp" |bad, _d, _p| black_box(crate::memcmp as crate::Compare)(bad.cast(), [0_u8; 64].as_ptr(), 64);
    "ExFreePoolWithTag" |bad, _d, _p| crate::ExFreePoolWithTag(bad, 1);
    "KeAcquireSpinLockRaiseToDpc" |bad, _d, _p| crate::KeAcquireSpinLockRaiseToDpc(bad.cast());
    "KeReleaseSpinLock" |bad, _d, _p| {
        let mut lock = 0;
        crate::KeAcquireSpinLockRaiseToDpc(&raw mut lock);
        KeReleaseSpinLock(bad.cast(), 0)
    };
    "ExAcquirePushLockExclusiveEx" |bad, _d, _p| {
        crate::KeEnterCriticalRegion();
        crate::ExAcquirePushLockExclusiveEx(bad.cast(), 0);
        KeLeaveCriticalRegion()
    };
    "ExReleasePushLockExclusiveEx" |bad, _d, _p| ExReleasePushLockExclusiveEx(bad.cast(), 0);
    "KeQueryPerformanceCounter" |bad, _d, _p| KeQueryPerformanceCounter(bad.cast()).QuadPart;
    "MmGetPhysicalAddress" |bad, _d, _p| MmGetPhysicalAddress(bad).QuadPart;
    "DbgPrintEx" |bad, _d, _p| crate::DbgPrintEx(0, 0, bad.cast(), null_mut());
    "DbgPrintEx-text" |bad, _d, _p| crate::DbgPrintEx(0, 0, c"%s".as_ptr().cast(), bad.cast());
    "RtlInitUnicodeString" |bad, _d, _p| RtlInitUnicodeString(bad.cast(), null_mut());
    "RtlInitUnicodeString-text" |bad, _d, _p| {
        let mut string = UNICODE_STRING::zeroed();
        RtlInitUnicodeString(&raw mut string, bad.cast())
    };
    "ZwLoadDriver" |bad, _d, _p| ZwLoadDriver(bad.cast());
    "ZwLoadDriver-text" |bad, _d, _p| {
        let mut string = UNICODE_STRING { Length: 20, MaximumLength: 20, Buffer: bad.cast() };
        ZwLoadDriver(&raw mut string)
    };
    "IoGetDeviceObjectPointer" |bad, _d, _p| IoGetDeviceObjectPointer(bad.cast(), 0, null_mut(), null_mut());
    "IoGetDeviceObjectPointer-file" |bad, _d, _p| {
        let mut name = UNICODE_STRING::zeroed();
        RtlInitUnicodeString(&raw mut name, crate::register::DEVICE.as_ptr());
        IoGetDeviceObjectPointer(&raw mut name, 0, bad.cast(), bad.cast())
    };
    "KeInitializeEvent" |bad, _d, _p| KeInitializeEvent(bad, 0, 0);
    "KeWaitForSingleObject" |bad, _d, _p| KeWaitForSingleObject(bad, 0, 0, 0, null_mut());
    "ObfDereferenceObject" |bad, _d, _p| ObfDereferenceObject(bad);
    "IofCallDriver" |bad, _d, _p| crate::register::IofCallDriver(null_mut(), bad);
    "IofCallDriver-output" |bad, _d, _p| crate::register::ask(bad.cast(), None);
    "IofCallDriver-status" |bad, _d, _p| crate::register::ask(null_mut(), Some(bad));
    "DxgkInitialize" |bad, driver, path| crate::register::function()(driver, path, bad.cast());
    "DxgkInitialize-path" |bad, driver, _p| {
        let mut table = DRIVER_INITIALIZATION_DATA::zeroed();
        crate::register::function()(driver, bad.cast(), &raw mut table)
    };
};

//! Bad pointers that a linked driver passes to callbacks and kernel services: each ends in a bugcheck that names the service and the driver,
//! and the process goes on. For driver images see `driver_faults.rs`.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{null, null_mut, with_exposed_provenance_mut};

use crate::minimal::driver::{TAG, allocate, imports};
use crate::minimal::{Adapter, Bench, Mutant, SOUND};
use dxgkrnl::verifier::Bugcheck;
use wddm_ddi::km::*;
use wddm_ddi::types::{BOOLEAN, LARGE_INTEGER, MEMORY_CACHING_TYPE};

/// Kind of a pointer that a driver must not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bad {
    /// Nothing, which some callbacks allow and others answer with an error.
    Null,
    /// An address at which no process here has memory.
    Wild,
    /// Where Windows keeps its kernel, and nothing is mapped here.
    Kernel,
    /// A pool block that was freed.
    Freed,
    /// A pool block of one byte.
    Short,
}

impl Bad {
    fn pointer(self) -> *mut c_void {
        match self {
            Self::Null => null_mut(),
            Self::Wild => with_exposed_provenance_mut(0x7fff_ffff_f120),
            Self::Kernel => with_exposed_provenance_mut(0xffff_8000_0000_1000),
            Self::Freed => {
                let block = allocate(256);
                crate::minimal::driver::free(block);
                block
            }
            Self::Short => allocate(1),
        }
    }
}

/// When a callback may be called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Start,
    Stop,
    /// In a routine of DxgkCbSynchronizeExecution.
    Device,
}

use When::{Device, Start, Stop};

type Call = fn(&mut Adapter, *mut c_void);

// In all of these the pointer is bad, which is the purpose; everything else is good.
macro_rules! calls {
    ($($when:ident $name:literal |$adapter:ident, $bad:ident| $call:expr;)*) => {
        &[$(($when, $name, |$adapter, $bad| {
            let _ = &$adapter;
            // SAFETY: none, the pointer is bad.
            let _ = unsafe { $call };
        })),*]
    };
}

/// Every pointer argument of every callback.
const CALLBACKS: &[(When, &str, Call)] = calls! {
    Start "DxgkCbGetDeviceInformation" |a, bad| a.interface.DxgkCbGetDeviceInformation.unwrap()(a.handle, bad.cast());
    Start "DxgkCbMapMemory" |a, bad| a.interface.DxgkCbMapMemory.unwrap()(
        a.handle, LARGE_INTEGER { QuadPart: a.vram }, 4096, 0, 0, MEMORY_CACHING_TYPE::MmNonCached, bad.cast());
    Start "DxgkCbReadDeviceSpace" |a, bad| a.interface.DxgkCbReadDeviceSpace.unwrap()(a.handle, 0, bad, 0, 8, null_mut());
    Start "DxgkCbReadDeviceSpace" |a, bad|
        a.interface.DxgkCbReadDeviceSpace.unwrap()(a.handle, 0, [0_u32; 2].as_mut_ptr().cast(), 0, 8, bad.cast());
    Start "DxgkCbWriteDeviceSpace" |a, bad| a.interface.DxgkCbWriteDeviceSpace.unwrap()(a.handle, 0, bad, 60, 4, null_mut());
    Start "DxgkCbWriteDeviceSpace" |a, bad|
        a.interface.DxgkCbWriteDeviceSpace.unwrap()(a.handle, 0, [0_u32].as_mut_ptr().cast(), 60, 4, bad.cast());
    Start "DxgkCbQueryServices" |a, bad|
        a.interface.DxgkCbQueryServices.unwrap()(a.handle, DXGK_SERVICES::DxgkServicesFeature, bad.cast());
    Start "DxgkCbIsFeatureEnabled" |a, bad| a.interface.DxgkCbIsFeatureEnabled.unwrap()(bad.cast());
    Start "DxgkCbQueryFeatureSupport" |a, bad| a.interface.DxgkCbQueryFeatureSupport.unwrap()(bad.cast());
    Start "IsFeatureEnabled" |a, bad| a.features.IsFeatureEnabled.unwrap()(a.features.Context, bad.cast());
    Start "QueryFeatureInterface" |a, bad| a.features.QueryFeatureInterface.unwrap()(a.features.Context, bad.cast());
    Start "DxgkCbGetHandleData" |a, bad| a.interface.DxgkCbGetHandleData.unwrap()(bad.cast());
    Start "DxgkCbAcquireHandleData" |a, bad| a.interface.DxgkCbAcquireHandleData.unwrap()(bad.cast(), null_mut());
    Start "DxgkCbAllocateContiguousMemory" |a, bad|
        a.interface.DxgkCbAllocateContiguousMemory.unwrap()(a.handle, bad.cast());
    Start "DxgkCbFreeContiguousMemory" |a, bad| a.interface.DxgkCbFreeContiguousMemory.unwrap()(a.handle, bad.cast());
    Start "DxgkCbInvalidateHwContext" |a, bad| a.interface.DxgkCbInvalidateHwContext.unwrap()(bad.cast());
    Start "DxgkCbDisconnectDoorbell" |a, bad| a.interface.DxgkCbDisconnectDoorbell.unwrap()(bad.cast());
    Device "DxgkCbNotifyInterrupt" |a, bad| a.interface.DxgkCbNotifyInterrupt.unwrap()(a.handle, bad.cast());
};

/// The same where one byte is enough.
const RESULT: (When, &str, Call) = (Stop, "DxgkCbSynchronizeExecution", |a, bad| {
    // SAFETY: none, the pointer is bad.
    let _ =
        unsafe { a.interface.DxgkCbSynchronizeExecution.unwrap()(a.handle, Some(harmless), null_mut(), 0, bad.cast()) };
});

/// A routine that is no function.
const ROUTINE: (When, &str, Call) = (Stop, "jump to", |a, bad| {
    // SAFETY: none, there is no function.
    let routine = unsafe { std::mem::transmute::<*mut c_void, PKSYNCHRONIZE_ROUTINE>(bad) };
    let mut result = 0;
    // SAFETY: none, the routine is bad.
    let _ =
        unsafe { a.interface.DxgkCbSynchronizeExecution.unwrap()(a.handle, routine, null_mut(), 0, &raw mut result) };
});

unsafe extern "win64" fn harmless(_: *mut c_void) -> BOOLEAN {
    1
}

/// Every pointer argument of every kernel service.
const SERVICES: &[(When, &str, Call)] = calls! {
    Start "ExFreePoolWithTag" |_a, bad| (imports().ExFreePoolWithTag)(bad, TAG);
    Start "KeAcquireSpinLockRaiseToDpc" |_a, bad| (imports().KeAcquireSpinLockRaiseToDpc)(bad.cast());
    Start "KeReleaseSpinLock" |_a, bad| {
        (imports().KeAcquireSpinLockRaiseToDpc)(allocate(8).cast());
        (imports().KeReleaseSpinLock)(bad.cast(), 0)
    };
    Start "ExAcquirePushLockExclusiveEx" |_a, bad| {
        (imports().KeEnterCriticalRegion)();
        (imports().ExAcquirePushLockExclusiveEx)(bad.cast(), 0)
    };
    Start "ush lock" |_a, bad| (imports().ExReleasePushLockExclusiveEx)(bad.cast(), 0);
    Start "KeQueryPerformanceCounter" |_a, bad| (imports().KeQueryPerformanceCounter)(bad.cast());
    Start "MmGetPhysicalAddress" |_a, bad| (imports().MmGetPhysicalAddress)(bad);
    Start "DbgPrintEx" |_a, bad| (imports().DbgPrintEx)(0, 0, bad.cast(), null());
    Start "DbgPrintEx" |_a, bad| (imports().DbgPrintEx)(0, 0, c"%s".as_ptr().cast(), bad.cast());
    Start "DxgkInitialize" |_a, bad| (imports().DxgkInitialize)(null_mut(), bad.cast(), bad.cast());
};

thread_local! {
    static CALL: Cell<(When, Call, Bad)> = const { Cell::new((Start, |_, _| (), Bad::Null)) };
    static RETURNED: Cell<bool> = const { Cell::new(false) };
    /// The pointer, made in StartDevice, where pool may be taken.
    static POINTER: Cell<*mut c_void> = const { Cell::new(null_mut()) };
}

fn now(adapter: &mut Adapter, when: When) {
    let (wanted, call, bad) = CALL.get();
    if when == Start {
        POINTER.set(bad.pointer());
    }
    if when == wanted {
        call(adapter, POINTER.get());
        RETURNED.set(true);
    }
}

unsafe extern "win64" fn at_device_level(context: *mut c_void) -> BOOLEAN {
    now(crate::minimal::driver::adapter(context), Device);
    1
}

const MUTANT: Mutant = Mutant {
    in_start: |adapter| now(adapter, Start),
    in_stop: |adapter| {
        now(adapter, Stop);
        let (handle, context) = (adapter.handle, std::ptr::from_mut(adapter).cast());
        let mut result = 0;
        // SAFETY: all arguments are good.
        let _ = unsafe {
            adapter.interface.DxgkCbSynchronizeExecution.unwrap()(
                handle,
                Some(at_device_level),
                context,
                0,
                &raw mut result,
            )
        };
    },
    ..SOUND
};

/// What becomes of one call with a bad pointer; afterwards another machine runs.
fn outcome((when, name, call): (When, &str, Call), bad: Bad) -> Option<Bugcheck> {
    CALL.set((when, call, bad));
    RETURNED.set(false);
    let bench = Bench::new(MUTANT).unwrap();
    if let Ok(luid) = bench.start() {
        let _ = bench.machine.stop(luid);
    }
    // What the test itself takes from the pool and a stop that is not clean are not what this is about.
    let bugcheck = bench.machine.bugcheck().filter(|_| !RETURNED.get());
    assert_eq!(bugcheck.is_none(), RETURNED.get(), "{name}, {bad:?}: neither returned nor stopped");
    CALL.set((Start, |_, _| (), Bad::Null));
    let next = Bench::new(SOUND).unwrap();
    let luid = next.start().unwrap_or_else(|error| panic!("after {name}, {bad:?}: {error}"));
    next.machine.remove(luid).unwrap();
    bugcheck
}

fn must_stop(call: (When, &str, Call), bad: Bad, codes: &[u32]) {
    let (_, name, _) = call;
    let bugcheck = outcome(call, bad).unwrap_or_else(|| panic!("{name} took {bad:?}"));
    assert!(codes.contains(&bugcheck.code), "{name}, {bad:?}: {bugcheck}");
    assert!(bugcheck.reason.contains(name), "{name}, {bad:?}: {bugcheck}");
}

/// Memory that is not there: 0x50, at a raised level 0xa.
const INVALID: [u32; 2] = [0x50, 0xa];

#[test]
fn a_callback_with_a_pointer_to_nothing_stops_the_machine_by_name() {
    for call in CALLBACKS.iter().copied().chain([RESULT]) {
        for bad in [Bad::Wild, Bad::Kernel] {
            must_stop(call, bad, &INVALID);
        }
    }
}

#[test]
fn a_callback_with_a_freed_block_or_one_too_short_stops_the_machine_by_name() {
    for call in CALLBACKS.iter().copied().chain([RESULT]) {
        must_stop(call, Bad::Freed, &[0xcc]);
    }
    for call in CALLBACKS.iter().copied() {
        must_stop(call, Bad::Short, &[0xcd]);
    }
}

#[test]
fn a_callback_with_null_is_refused_or_stops_the_machine_by_name() {
    for call in CALLBACKS.iter().copied().chain([RESULT, ROUTINE]) {
        if let Some(bugcheck) = outcome(call, Bad::Null) {
            assert!(bugcheck.reason.contains(call.1), "{}: {bugcheck}", call.1);
            assert_eq!(bugcheck.code, Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR, "{}: {bugcheck}", call.1);
        }
    }
}

#[test]
fn a_routine_that_is_no_function_stops_the_machine() {
    must_stop(ROUTINE, Bad::Wild, &[0xd1]);
    must_stop(ROUTINE, Bad::Freed, &[0xfc]);
}

#[test]
fn a_kernel_service_with_a_pointer_to_nothing_stops_the_machine_by_name() {
    for call in SERVICES.iter().copied() {
        for bad in [Bad::Wild, Bad::Kernel] {
            // These two follow no pointer: they know what they gave out.
            let known = match call.1 {
                "ExFreePoolWithTag" => 0xc4,
                "MmGetPhysicalAddress" | "ush lock" => 0x113,
                _ => 0,
            };
            let bugcheck = outcome(call, bad).unwrap_or_else(|| panic!("{} took {bad:?}", call.1));
            let codes = if known == 0 { INVALID.to_vec() } else { vec![known] };
            assert!(codes.contains(&bugcheck.code), "{}, {bad:?}: {bugcheck}", call.1);
            assert!(bugcheck.reason.contains(call.1) || known == 0xc4, "{}, {bad:?}: {bugcheck}", call.1);
        }
        let _ = outcome(call, Bad::Null);
    }
}

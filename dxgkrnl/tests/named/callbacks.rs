//! Callbacks of the driver that are refused.

use std::ptr;

use dxgkrnl::Rescue;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{LARGE_INTEGER, MEMORY_CACHING_TYPE};

use super::minimal::bus::VRAM_SIZE;
use super::minimal::{Adapter, Bench, Mutant, SOUND};

/// A call that is refused while the device starts, and what the log says of it.
type Misuse = (fn(&mut Adapter), &'static [&'static str]);

fn map(adapter: &mut Adapter, at: i64, length: u32, io: u8) -> *mut std::ffi::c_void {
    let mut mapped = ptr::null_mut();
    let map = adapter.interface.DxgkCbMapMemory.unwrap();
    let at = LARGE_INTEGER { QuadPart: at };
    let cache = MEMORY_CACHING_TYPE::MmNonCached;
    // SAFETY: handle and place are good.
    let status = unsafe { map(adapter.handle, at, length, io, 0, cache, &raw mut mapped) };
    assert_eq!(status.is_success(), !mapped.is_null());
    mapped
}

fn unmap(adapter: &mut Adapter, at: *mut std::ffi::c_void) {
    // SAFETY: the handle is good, and any address may be asked for.
    let _ = unsafe { adapter.interface.DxgkCbUnmapMemory.unwrap()(adapter.handle, at) };
}

/// DxgkCbSynchronizeExecution with NULL for the routine, for the place of its answer, or with the number of a message.
fn synchronize(adapter: &mut Adapter, routine: PKSYNCHRONIZE_ROUTINE, answers: bool, message: u32) {
    let mut answer = 0;
    let place = if answers { &raw mut answer } else { ptr::null_mut() };
    let synchronize = adapter.interface.DxgkCbSynchronizeExecution.unwrap();
    // SAFETY: the handle is good, and the routine is not called.
    let status = unsafe { synchronize(adapter.handle, routine, ptr::null_mut(), message, place) };
    assert_eq!(status, STATUS_INVALID_PARAMETER);
}

extern "win64" fn never_called(_: *mut std::ffi::c_void) -> u8 {
    unreachable!("a call that is refused runs no routine");
}

const MISUSES: [Misuse; 11] = [
    (
        |adapter| {
            let map = adapter.interface.DxgkCbMapMemory.unwrap();
            let (at, cache) = (LARGE_INTEGER { QuadPart: adapter.vram }, MEMORY_CACHING_TYPE::MmNonCached);
            // SAFETY: the handle is good, and NULL is refused.
            let status = unsafe { map(adapter.handle, at, 0x1000, 0, 0, cache, ptr::null_mut()) };
            assert_eq!(status, STATUS_INVALID_PARAMETER);
        },
        &["DxgkCbMapMemory answers STATUS_INVALID_PARAMETER", "VirtualAddress is NULL"],
    ),
    (
        |adapter| synchronize(adapter, None, true, 0),
        &["DxgkCbSynchronizeExecution answers STATUS_INVALID_PARAMETER", "SynchronizeRoutine is NULL"],
    ),
    (
        |adapter| synchronize(adapter, Some(never_called), false, 0),
        &["DxgkCbSynchronizeExecution answers STATUS_INVALID_PARAMETER", "ReturnValue is NULL"],
    ),
    (
        |adapter| synchronize(adapter, Some(never_called), true, 77),
        &[
            "DxgkCbSynchronizeExecution answers STATUS_INVALID_PARAMETER",
            "MessageNumber is 77, and expected is less than",
        ],
    ),
    (
        |adapter| {
            map(adapter, adapter.vram, VRAM_SIZE as u32 + 0x1000, 0);
        },
        &["DxgkCbMapMemory answers STATUS_INVALID_PARAMETER", "Length 0x", "reaches past the end of BAR"],
    ),
    (
        |adapter| {
            map(adapter, 0x1000, 0x1000, 0);
        },
        &["DxgkCbMapMemory answers STATUS_INVALID_PARAMETER", "TranslatedAddress 0x1000", "of no BAR"],
    ),
    (
        |adapter| {
            map(adapter, adapter.vram, 0, 0);
        },
        &["DxgkCbMapMemory answers STATUS_INVALID_PARAMETER", "Length is 0"],
    ),
    (
        |adapter| {
            map(adapter, adapter.vram, 0x1000, 1);
        },
        &["DxgkCbMapMemory answers STATUS_INVALID_PARAMETER", "InIoSpace is TRUE"],
    ),
    (
        |adapter| {
            let mapped = map(adapter, adapter.vram, 0x1000, 0);
            unmap(adapter, mapped);
            unmap(adapter, mapped);
        },
        &["DxgkCbUnmapMemory answers STATUS_INVALID_PARAMETER", "no address that DxgkCbMapMemory has answered"],
    ),
    (
        |adapter| {
            let ask = adapter.interface.DxgkCbGetDeviceInformation.unwrap();
            // SAFETY: the handle is good, and NULL is refused.
            assert_eq!(unsafe { ask(adapter.handle, ptr::null_mut()) }, STATUS_INVALID_PARAMETER);
        },
        &["DxgkCbGetDeviceInformation answers STATUS_INVALID_PARAMETER", "DeviceInfo is 0x0"],
    ),
    (
        |adapter| {
            let named = DXGKARGCB_INVALIDATEHWCONTEXT {
                hAdapter: adapter.handle,
                hHwContext: ptr::without_provenance_mut(0x7777),
                Flags: DXGK_INVALIDATEHWCONTEXTFLAGS::new(),
            };
            // SAFETY: the arguments live during the call.
            let status = unsafe { adapter.interface.DxgkCbInvalidateHwContext.unwrap()(&raw const named) };
            assert_eq!(status, STATUS_INVALID_PARAMETER);
        },
        &["DxgkCbInvalidateHwContext answers STATUS_INVALID_PARAMETER", "before DxgkDdiStartDevice has returned"],
    ),
];

/// Each of these is a finding, and a driver that ignores the status finds the reason in the log. [dispmprt: DXGKCB_MAP_MEMORY, DXGKCB_UNMAP_MEMORY]
#[test]
fn callbacks_about_the_device_name_the_argument_and_the_rule_of_what_they_refuse() {
    for (in_start, parts) in MISUSES {
        let bench = Bench::new(Mutant { in_start, ..SOUND }).unwrap();
        let luid = bench.start().unwrap();
        let log = bench.machine.debug_log();
        let told = log.iter().filter(|line| parts.iter().all(|part| line.contains(part))).count();
        assert_eq!(told, 1, "{parts:?}: {log:#?}");
        assert_eq!(bench.machine.take_rescues(), [(Rescue::MisusedCallback, 1)], "{parts:?}: it is a finding");
        bench.machine.remove(luid).unwrap();
        assert_eq!(bench.machine.bugcheck(), None);
    }
}

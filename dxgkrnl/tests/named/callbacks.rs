//! Callbacks of the driver that are refused.

use std::ptr;

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

const MISUSES: [Misuse; 7] = [
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

/// A driver that ignores the status finds the reason in the log. [dispmprt: DXGKCB_MAP_MEMORY, DXGKCB_UNMAP_MEMORY]
#[test]
fn callbacks_about_the_device_name_the_argument_and_the_rule_of_what_they_refuse() {
    for (in_start, parts) in MISUSES {
        let bench = Bench::new(Mutant { in_start, ..SOUND }).unwrap();
        let luid = bench.start().unwrap();
        let log = bench.machine.debug_log();
        let told = log.iter().filter(|line| parts.iter().all(|part| line.contains(part))).count();
        assert_eq!(told, 1, "{parts:?}: {log:#?}");
        bench.machine.remove(luid).unwrap();
        assert_eq!(bench.machine.bugcheck(), None);
    }
}

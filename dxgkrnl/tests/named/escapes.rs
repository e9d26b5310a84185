//! Escapes that only the driver understands. [d3dkmddi: DXGKDDI_ESCAPE, DXGKARG_ESCAPE]

use std::sync::Mutex;

use dxgkrnl::{Process, further_thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, NTSTATUS};

use super::Given;
use super::minimal::{Bench, Mutant, SOUND};

/// What the driver was given: device, context and process, flags and bytes.
type Seen = ([usize; 3], u32, Vec<u8>);

/// The last call of the driver.
static SEEN: Mutex<Option<Seen>> = Mutex::new(None);
/// The tests use it one after the other.
static ONE: Mutex<()> = Mutex::new(());

/// Adds one to each byte; refuses where the first is 0xff, after it has done so.
unsafe extern "win64" fn escape(_: HANDLE, args: *const DXGKARG_ESCAPE) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &*args };
    let size = args.PrivateDriverDataSize as usize;
    let data = args.pPrivateDriverData.cast::<u8>();
    assert_eq!(data.is_null(), size == 0);
    let mut seen = Vec::new();
    for index in 0..size {
        // SAFETY: the buffer has as many bytes as the size says.
        let byte = unsafe { &mut *data.wrapping_add(index) };
        seen.push(*byte);
        *byte = byte.wrapping_add(1);
    }
    let refused = seen.first() == Some(&0xff);
    let handles = [args.hDevice.addr(), args.hContext.addr(), args.hKmdProcessHandle.addr()];
    *SEEN.lock().unwrap() = Some((handles, args.Flags.into_bits(), seen));
    if refused { STATUS_GRAPHICS_DRIVER_MISMATCH } else { STATUS_SUCCESS }
}

fn ask(given: Given, [device, context]: [D3DKMT_HANDLE; 2], flags: D3DDDI_ESCAPEFLAGS, data: &mut [u8]) -> NTSTATUS {
    let mut args = D3DKMT_ESCAPE { hAdapter: given.adapter, ..Zeroed::zeroed() };
    (args.hDevice, args.hContext, args.Flags) = (device, context, flags);
    args.Type = D3DKMT_ESCAPETYPE::D3DKMT_ESCAPE_DRIVERPRIVATE;
    args.PrivateDriverDataSize = data.len() as u32;
    args.pPrivateDriverData = if data.is_empty() { std::ptr::null_mut() } else { data.as_mut_ptr().cast() };
    // SAFETY: the structure and its data live across the call.
    unsafe { (further_thunks().D3DKMTEscape)(&raw const args) }
}

fn with_driver(mutant: Mutant, test: impl FnOnce(&Bench, Given)) {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    *SEEN.lock().unwrap() = None;
    let bench = Bench::new(mutant).unwrap();
    let luid = bench.start().unwrap();
    let process = Process::new(&bench.machine, "user");
    let attached = process.attach();
    test(&bench, Given::new(luid));
    drop(attached);
    process.exit();
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}

const ESCAPES: Mutant = Mutant { table: |table| table.DxgkDdiEscape = Some(escape), ..SOUND };

fn seen() -> Option<Seen> {
    SEEN.lock().unwrap().take()
}

#[test]
fn the_driver_is_given_the_private_data_and_its_handles_and_user_mode_what_it_wrote() {
    with_driver(ESCAPES, |_, given| {
        let mut data = [1, 2, 3, 4, 5];
        assert_eq!(ask(given, [0, 0], D3DDDI_ESCAPEFLAGS::new(), &mut data), STATUS_SUCCESS);
        assert_eq!(data, [2, 3, 4, 5, 6]);
        let (handles, flags, bytes) = seen().expect("the driver is called");
        assert_eq!((&handles[..2], flags, bytes), (&[0, 0][..], 0, vec![1, 2, 3, 4, 5]));
        assert_ne!(handles[2], 0, "the process has a device, and so a handle of the driver's");
        let flags = D3DDDI_ESCAPEFLAGS::new().with_NoAdapterSynchronization(true);
        assert_eq!(ask(given, [given.device, given.context], flags, &mut []), STATUS_SUCCESS);
        let (handles, told, bytes) = seen().expect("the driver is called without data too");
        assert!(handles.iter().all(|handle| *handle != 0), "{handles:x?}");
        assert!(!handles.contains(&(given.device as usize)), "the handles are the driver's");
        assert_eq!((told, bytes), (flags.into_bits(), Vec::new()));
    });
}

#[test]
fn what_the_driver_refuses_is_answered_as_it_says_and_nothing_is_copied() {
    with_driver(ESCAPES, |bench, given| {
        let mut data = [0xff, 7];
        let before = bench.machine.debug_log().len();
        let answered = ask(given, [0, 0], D3DDDI_ESCAPEFLAGS::new(), &mut data);
        assert_eq!((answered, data), (STATUS_GRAPHICS_DRIVER_MISMATCH, [0xff, 7]));
        let log = bench.machine.debug_log().split_off(before);
        assert!(log.iter().any(|line| line.contains("DxgkDdiEscape answered")), "{log:?}");
    });
}

#[test]
fn the_driver_is_not_called_for_what_breaks_a_rule() {
    with_driver(ESCAPES, |bench, given| {
        let none = D3DDDI_ESCAPEFLAGS::new();
        let long = &mut vec![0; (1 << 20) + 1];
        for (handles, flags, data, status, part) in [
            ([0, given.context], none, &mut [0; 4][..], STATUS_INVALID_PARAMETER, "hContext is set without hDevice"),
            ([0x40, 0], none, &mut [0; 4], STATUS_INVALID_HANDLE, "D3DKMTEscape fails with STATUS_INVALID_HANDLE"),
            ([0, 0], none.with_VirtualMachineData(true), &mut [0; 4], STATUS_NOT_SUPPORTED, "Flags is 0x20"),
            ([0, 0], none.with_HardwareAccess(true), &mut [0; 4], STATUS_NOT_SUPPORTED, "Flags is 0x1:"),
            ([0, 0], none, &mut long[..], STATUS_INVALID_PARAMETER, "PrivateDriverDataSize is 0x100001"),
        ] {
            let before = bench.machine.debug_log().len();
            let answered = ask(given, handles, flags, data);
            let log = bench.machine.debug_log().split_off(before);
            assert_eq!((answered, seen()), (status, None), "{part}: {log:?}");
            assert!(log.iter().any(|line| line.contains(part)), "{part}: {log:?}");
        }
    });
}

#[test]
fn a_driver_without_the_function_has_no_escapes() {
    with_driver(SOUND, |bench, given| {
        let before = bench.machine.debug_log().len();
        assert_eq!(ask(given, [0, 0], D3DDDI_ESCAPEFLAGS::new(), &mut [0; 4]), STATUS_NOT_SUPPORTED);
        let log = bench.machine.debug_log().split_off(before);
        let told = "DxgkDdiEscape is NULL in the table of the driver";
        assert!(log.iter().any(|line| line.contains("D3DKMTEscape fails") && line.contains(told)), "{log:?}");
    });
}

//! Callbacks of the driver that are refused.

use std::ptr;

use dxgkrnl::Rescue;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{
    HANDLE, LARGE_INTEGER, MEMORY_CACHING_TYPE, NTSTATUS, PCI_DEVICE_PRESENCE_PARAMETERS, UnusedSlot,
};

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

/// Calls what a slot without a prototype has, by the prototype that its page has.
macro_rules! by_prototype {
    ($slot:expr, fn($($ty:ty),*) $(-> $result:ty)?, $($argument:expr),*) => {{
        type Typed = unsafe extern "win64" fn($($ty),*) $(-> $result)?;
        let slot: UnusedSlot = $slot;
        let slot = slot.expect("no slot is NULL");
        // SAFETY: the function has this prototype, or looks at no argument.
        let function = unsafe { std::mem::transmute::<unsafe extern "win64" fn(), Typed>(slot) };
        // SAFETY: the arguments are good.
        unsafe { function($($argument),*) }
    }};
}

/// DxgkCbReadDeviceSpace of a space, into a buffer or NULL.
fn read_space(adapter: &mut Adapter, space: u32, into_buffer: bool, offset: u32, length: u32) -> NTSTATUS {
    let mut bytes = [0_u8; 16];
    let buffer = if into_buffer { bytes.as_mut_ptr().cast() } else { ptr::null_mut() };
    let read = adapter.interface.DxgkCbReadDeviceSpace.unwrap();
    // SAFETY: the handle is good, and what is asked for is refused or fits into the buffer.
    unsafe { read(adapter.handle, space, buffer, offset, length, ptr::null_mut()) }
}

/// DxgkCbAllocateContiguousMemory of so many bytes that must not cross a boundary.
fn contiguous(adapter: &mut Adapter, bytes: usize, boundary: i64) {
    let mut args = DXGKARGCB_ALLOCATECONTIGUOUSMEMORY::zeroed();
    args.NumberOfBytes = bytes;
    args.HighestAcceptableAddress = LARGE_INTEGER { QuadPart: i64::MAX };
    args.BoundaryAddressMultiple = LARGE_INTEGER { QuadPart: boundary };
    let allocate = adapter.interface.DxgkCbAllocateContiguousMemory.unwrap();
    // SAFETY: the argument lives during the call.
    assert_eq!(unsafe { allocate(adapter.handle, &raw mut args) }, STATUS_INVALID_PARAMETER);
}

fn disconnect(adapter: &mut Adapter, doorbell: usize, reason: D3DDDI_DOORBELLSTATUS) {
    let args = DXGKARGCB_DISCONNECTDOORBELL {
        hHwQueue: ptr::null_mut(),
        hDoorbell: ptr::without_provenance_mut(doorbell),
        Flags: DXGKARGCB_DISCONNECTDOORBELL_FLAGS::new(),
        DisconnectReason: reason,
    };
    let disconnect = adapter.interface.DxgkCbDisconnectDoorbell.unwrap();
    // SAFETY: the argument lives during the call.
    assert_eq!(unsafe { disconnect(&raw const args) }, STATUS_INVALID_PARAMETER);
}

const MISUSES: [Misuse; 25] = [
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
    (
        |adapter| {
            let active = adapter.interface.DxgkCbSetPowerComponentActive.unwrap();
            // SAFETY: the handle is good.
            let _ = unsafe { active(adapter.handle, 7) };
        },
        &["DxgkCbSetPowerComponentActive does nothing", "ComponentIndex is 0x7", "no such component was declared"],
    ),
    (
        |adapter| {
            let idle = adapter.interface.DxgkCbSetPowerComponentIdle.unwrap();
            // SAFETY: the handle is good.
            let _ = unsafe { idle(adapter.handle, 7) };
        },
        &["DxgkCbSetPowerComponentIdle does nothing", "ComponentIndex is 0x7", "no such component was declared"],
    ),
    (
        |adapter| {
            let latency = adapter.interface.DxgkCbSetPowerComponentLatency.unwrap();
            // SAFETY: the handle is good.
            unsafe { latency(adapter.handle, 7, 1000) };
        },
        &["DxgkCbSetPowerComponentLatency does nothing", "ComponentIndex is 0x7", "no such component was declared"],
    ),
    (
        |adapter| assert_eq!(read_space(adapter, 0, false, 0, 4), STATUS_INVALID_PARAMETER),
        &["DxgkCbReadDeviceSpace answers STATUS_INVALID_PARAMETER", "Buffer is NULL"],
    ),
    (
        |adapter| assert_eq!(read_space(adapter, 0, true, 4092, 8), STATUS_INVALID_PARAMETER),
        &["DxgkCbReadDeviceSpace answers STATUS_INVALID_PARAMETER", "Offset 0xffc and Length 0x8", "4096 bytes"],
    ),
    (
        |adapter| assert_eq!(read_space(adapter, 1, true, 0, 4), STATUS_INVALID_PARAMETER),
        &["DxgkCbReadDeviceSpace answers STATUS_INVALID_PARAMETER", "DataType is 0x1"],
    ),
    (
        |adapter| {
            let write = adapter.interface.DxgkCbWriteDeviceSpace.unwrap();
            // SAFETY: the handle is good, and NULL is refused.
            let status = unsafe { write(adapter.handle, 0, ptr::null_mut(), 60, 4, ptr::null_mut()) };
            assert_eq!(status, STATUS_INVALID_PARAMETER);
        },
        &["DxgkCbWriteDeviceSpace answers STATUS_INVALID_PARAMETER", "Buffer is NULL"],
    ),
    (
        |adapter| {
            let allocate = adapter.interface.DxgkCbAllocateContiguousMemory.unwrap();
            // SAFETY: the handle is good, and NULL is refused.
            assert_eq!(unsafe { allocate(adapter.handle, ptr::null_mut()) }, STATUS_INVALID_PARAMETER);
        },
        &["DxgkCbAllocateContiguousMemory answers STATUS_INVALID_PARAMETER", "pAllocateContiguousMemory is 0x0"],
    ),
    (
        |adapter| contiguous(adapter, 0x1000, 0x3000),
        &["DxgkCbAllocateContiguousMemory answers STATUS_INVALID_PARAMETER", "BoundaryAddressMultiple is 0x3000"],
    ),
    (
        |adapter| {
            let query = adapter.interface.DxgkCbQueryServices.unwrap();
            // SAFETY: the handle is good, and NULL is refused.
            let status = unsafe { query(adapter.handle, DXGK_SERVICES::DxgkServicesFeature, ptr::null_mut()) };
            assert_eq!(status, STATUS_INVALID_PARAMETER);
        },
        &["DxgkCbQueryServices answers STATUS_INVALID_PARAMETER", "Interface is 0x0"],
    ),
    (
        |adapter| {
            let ask = adapter.features.IsFeatureEnabled.unwrap();
            // SAFETY: the handle is good, and NULL is refused.
            assert_eq!(unsafe { ask(adapter.features.Context, ptr::null_mut()) }, STATUS_INVALID_PARAMETER);
        },
        &["IsFeatureEnabled answers STATUS_INVALID_PARAMETER", "Args is 0x0"],
    ),
    (
        |adapter| {
            let ask = adapter.features.QueryFeatureInterface.unwrap();
            // SAFETY: the handle is good, and NULL is refused.
            assert_eq!(unsafe { ask(adapter.features.Context, ptr::null_mut()) }, STATUS_INVALID_PARAMETER);
        },
        &["QueryFeatureInterface answers STATUS_INVALID_PARAMETER", "Args is 0x0"],
    ),
    (
        |adapter| disconnect(adapter, 0, D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY),
        &["DxgkCbDisconnectDoorbell answers STATUS_INVALID_PARAMETER", "hHwQueue and hDoorbell are NULL"],
    ),
    (
        |adapter| disconnect(adapter, 0x7777, D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED),
        &["DxgkCbDisconnectDoorbell answers STATUS_INVALID_PARAMETER", "DisconnectReason is 0"],
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

/// What a page allows or does not mention, and this machine has not, is no misuse: the log has the reason, and there is no finding.
/// [dispmprt: DXGKCB_READ_DEVICE_SPACE; d3dkmddi: DXGKCB_ISFEATUREENABLED2, DXGKARGCB_DISCONNECTDOORBELL, DXGKARGCB_ALLOCATECONTIGUOUSMEMORY]
#[test]
fn a_callback_that_asks_for_what_the_system_does_not_have_is_no_misuse_and_told_in_the_log() {
    const CASES: [Misuse; 5] = [
        (
            |adapter| contiguous(adapter, 0, 0),
            &["DxgkCbAllocateContiguousMemory answers STATUS_INVALID_PARAMETER", "NumberOfBytes is 0"],
        ),
        (
            |adapter| contiguous(adapter, 0x2000, 0x1000),
            &["DxgkCbAllocateContiguousMemory answers STATUS_INVALID_PARAMETER", "crosses each multiple", "0x1000"],
        ),
        (
            |adapter| assert_eq!(read_space(adapter, 0x5269_6350, true, 0, 4), STATUS_UNSUCCESSFUL),
            &[
                "DxgkCbReadDeviceSpace answers STATUS_UNSUCCESSFUL",
                "DXGK_WHICHSPACE_ROM",
                "does not read expansion ROMs",
            ],
        ),
        (
            |adapter| disconnect(adapter, 0x7777, D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY),
            &["DxgkCbDisconnectDoorbell answers STATUS_INVALID_PARAMETER", "no doorbell has", "hDoorbell 0x7777"],
        ),
        (
            |adapter| {
                let mut args = DXGKARGCB_ISFEATUREENABLED2::zeroed();
                args.FeatureId = DXGK_FEATURE_ID(0x0fff_ffff);
                let ask = adapter.features.IsFeatureEnabled.unwrap();
                // SAFETY: the argument lives during the call.
                let status = unsafe { ask(adapter.features.Context, &raw mut args) };
                assert_eq!(status, STATUS_INVALID_PARAMETER);
            },
            &["IsFeatureEnabled answers STATUS_INVALID_PARAMETER", "FeatureId is 0xfffffff"],
        ),
    ];
    for (in_start, parts) in CASES {
        let bench = Bench::new(Mutant { in_start, ..SOUND }).unwrap();
        let luid = bench.start().unwrap();
        let log = bench.machine.debug_log();
        let told = log.iter().filter(|line| parts.iter().all(|part| line.contains(part))).count();
        assert_eq!(told, 1, "{parts:?}: {log:#?}");
        assert_eq!(bench.machine.take_rescues(), [], "{parts:?}: it is no finding");
        bench.machine.remove(luid).unwrap();
        assert_eq!(bench.machine.bugcheck(), None);
    }
}

/// A driver that calls what this system does not implement is told so. [dispmprt: DXGKRNL_INTERFACE]
#[test]
fn a_callback_that_this_system_does_not_implement_answers_not_supported_and_tells_its_reason() {
    fn in_start(adapter: &mut Adapter) {
        let (handle, interface) = (adapter.handle, adapter.interface);
        let mut bytes = [0_u64; 8];
        let args: *mut std::ffi::c_void = bytes.as_mut_ptr().cast();
        for slot in [interface.DxgkCbReserveGpuVirtualAddressRange, interface.DxgkCbCreateContextAllocation] {
            let status = by_prototype!(slot, fn(HANDLE, *mut std::ffi::c_void) -> NTSTATUS, handle, args);
            assert_eq!(status, STATUS_NOT_SUPPORTED);
        }
        let map = interface.DxgkCbMapContextAllocation;
        let address = by_prototype!(map, fn(HANDLE, *mut std::ffi::c_void) -> u64, handle, args);
        assert_eq!(address, 0, "D3DGPU_VIRTUAL_ADDRESS has no errors");
        let request = interface.DxgkCbPowerRuntimeControlRequest;
        type Place = *mut std::ffi::c_void;
        let status = by_prototype!(
            request,
            fn(HANDLE, Place, Place, usize, Place, usize, Place) -> NTSTATUS,
            handle,
            args,
            ptr::null_mut(),
            0,
            ptr::null_mut(),
            0,
            ptr::null_mut()
        );
        assert_eq!(status, STATUS_NOT_SUPPORTED);
        by_prototype!(interface.DxgkCbMultiPlaneOverlayDisabled, fn(HANDLE, u32), handle, 0);
        assert_eq!(bytes, [0; 8], "nothing is written to the arguments");
    }
    let bench = Bench::new(Mutant { in_start, ..SOUND }).unwrap();
    let luid = bench.start().unwrap();
    let log = bench.machine.debug_log();
    for parts in [
        ["DxgkCbReserveGpuVirtualAddressRange answers STATUS_NOT_SUPPORTED", "reserves no ranges"],
        ["DxgkCbCreateContextAllocation answers STATUS_NOT_SUPPORTED", "no context allocations"],
        ["DxgkCbMapContextAllocation answers no address", "no context allocations"],
        ["DxgkCbPowerRuntimeControlRequest answers STATUS_NOT_SUPPORTED", "no power engine plug-in"],
        ["DxgkCbMultiPlaneOverlayDisabled does nothing", "displays"],
    ] {
        let told = log.iter().filter(|line| parts.iter().all(|part| line.contains(part))).count();
        assert_eq!(told, 1, "{parts:?}: {log:#?}");
    }
    assert_eq!(bench.machine.take_rescues(), []);
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}

/// The driver asks with flags, vendor and device, revision, class and subclass.
fn is_present(
    adapter: &mut Adapter,
    flags: u32,
    ids: [u16; 2],
    revision: u8,
    class: [u8; 2],
) -> Result<bool, NTSTATUS> {
    let parameters = PCI_DEVICE_PRESENCE_PARAMETERS {
        Size: size_of::<PCI_DEVICE_PRESENCE_PARAMETERS>() as u32,
        Flags: flags,
        VendorID: ids[0],
        DeviceID: ids[1],
        RevisionID: revision,
        BaseClass: class[0],
        SubClass: class[1],
        ..Zeroed::zeroed()
    };
    let mut present = 7_u8;
    let asks = adapter.interface.DxgkCbIsDevicePresent.unwrap();
    // SAFETY: handle and places are good.
    unsafe { asks(adapter.handle, &raw const parameters, &raw mut present) }.ok()?;
    Ok(present == 1)
}

/// [dispmprt: DXGKCB_IS_DEVICE_PRESENT]
#[test]
fn a_driver_finds_its_own_function_among_the_devices_that_are_present_and_no_other() {
    fn in_start(adapter: &mut Adapter) {
        assert_eq!(is_present(adapter, 0x4, [0x1234, 0x5678], 0, [0, 0]), Ok(true));
        assert_eq!(is_present(adapter, 0x4 | 0x2 | 0x20 | 0x40, [0x1234, 0x5678], 0, [0, 0]), Ok(true));
        assert_eq!(is_present(adapter, 0x4 | 0x2, [0x1234, 0x5678], 9, [0, 0]), Ok(false));
        assert_eq!(is_present(adapter, 0x4, [0x1234, 0x5679], 0, [0, 0]), Ok(false));
        assert_eq!(is_present(adapter, 0x8, [0, 0], 0, [0xfe, 0xfe]), Ok(false));
        assert_eq!(is_present(adapter, 0x2, [0, 0], 0, [0, 0]), Err(STATUS_INVALID_PARAMETER));
    }
    let bench = Bench::new(Mutant { in_start, ..SOUND }).unwrap();
    let luid = bench.start().unwrap();
    assert_eq!(bench.machine.take_rescues(), [(Rescue::MisusedCallback, 1)], "Flags without identity and class");
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}

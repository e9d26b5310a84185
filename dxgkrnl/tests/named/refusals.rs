//! Requests about shared objects, devices and adapters.

use std::ptr;

use dxgkrnl::{further_thunks, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::DXGK_FEATURE_ID;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::Refused;
use super::minimal::queue::call;

/// Shared resources, their names and their handles.
pub(super) const OF_SHARING: [Refused; 7] = [
    (
        |given| {
            let args = D3DKMT_OPENRESOURCE { hDevice: given.device, hGlobalShare: 0x40, ..Zeroed::zeroed() };
            call(further_thunks().D3DKMTOpenResource, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTOpenResource fails with STATUS_INVALID_PARAMETER", "0x40 is that of no resource"],
    ),
    (
        |_| call(further_thunks().D3DKMTGetSharedResourceAdapterLuid, Zeroed::zeroed()).err(),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTGetSharedResourceAdapterLuid fails with", "hGlobalShare", "hNtHandle"],
    ),
    (
        |_| {
            let (device, mut handle) = (0, ptr::null_mut());
            // SAFETY: both pointers are of things that live across the call.
            unsafe { (thunks().D3DKMTShareObjects)(7, &raw const device, ptr::null(), 0, &raw mut handle) }.ok().err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTShareObjects fails with", "cObjects is 7, and expected is 1 to 3"],
    ),
    (
        |_| call(further_thunks().D3DKMTOpenNtHandleFromName, Zeroed::zeroed()).err(),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTOpenNtHandleFromName fails with", "pObjAttrib is NULL"],
    ),
    (
        |_| {
            let size = 0x1_0001;
            let args = D3DKMT_CREATEKEYEDMUTEX2 { PrivateRuntimeDataSize: size, ..Zeroed::zeroed() };
            call(further_thunks().D3DKMTCreateKeyedMutex2, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTCreateKeyedMutex2 fails with", "PrivateRuntimeDataSize is 0x10001"],
    ),
    (
        |_| {
            let made = call(further_thunks().D3DKMTCreateKeyedMutex, Zeroed::zeroed()).ok()?;
            let args = D3DKMT_RELEASEKEYEDMUTEX { hKeyedMutex: made.hKeyedMutex, ..Zeroed::zeroed() };
            call(further_thunks().D3DKMTReleaseKeyedMutex, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTReleaseKeyedMutex fails with", "hKeyedMutex has not acquired the mutex"],
    ),
    (
        |_| {
            let args = D3DKMT_OPENSYNCHRONIZATIONOBJECT { hSharedHandle: 0x80, ..Zeroed::zeroed() };
            call(further_thunks().D3DKMTOpenSynchronizationObject, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTOpenSynchronizationObject fails with", "0x80 is that of no synchronization object"],
    ),
];

/// Objects of a device and its adapter.
pub(super) const OF_DEVICES: [Refused; 8] = [
    (
        |given| {
            let args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECT { hContext: given.context, ..Zeroed::zeroed() };
            call(further_thunks().D3DKMTWaitForSynchronizationObject, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTWaitForSynchronizationObject fails with", "ObjectCount is 0, and expected is 1 to 32"],
    ),
    (
        |given| {
            let mut args = D3DKMT_CREATESYNCHRONIZATIONOBJECT { hDevice: given.device, ..Zeroed::zeroed() };
            args.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_FENCE;
            call(further_thunks().D3DKMTCreateSynchronizationObject, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTCreateSynchronizationObject fails with", "Info.Type is 3", "mutexes and semaphores"],
    ),
    (
        |given| {
            let mut args = D3DKMT_ISFEATUREENABLED { hAdapter: given.adapter, ..Zeroed::zeroed() };
            args.FeatureId = DXGK_FEATURE_ID(0xffff);
            call(further_thunks().D3DKMTIsFeatureEnabled, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTIsFeatureEnabled fails with", "FeatureId is 65535"],
    ),
    (
        |given| {
            let args = D3DKMT_QUERYCLOCKCALIBRATION { hAdapter: given.adapter, NodeOrdinal: 9, ..Zeroed::zeroed() };
            call(thunks().D3DKMTQueryClockCalibration, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryClockCalibration fails with", "NodeOrdinal 9 of PhysicalAdapterIndex 0"],
    ),
    (
        |given| {
            let mut args = D3DKMT_QUERYSTATISTICS { AdapterLuid: given.luid, ..Zeroed::zeroed() };
            args.Type = D3DKMT_QUERYSTATISTICS_TYPE::D3DKMT_QUERYSTATISTICS_NODE;
            args.u.QueryNode.NodeId = 9;
            call(further_thunks().D3DKMTQueryStatistics, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryStatistics fails with", "node 9"],
    ),
    (
        |given| {
            let args = D3DKMT_ESCAPE { hAdapter: given.adapter, Type: D3DKMT_ESCAPETYPE(5), ..Zeroed::zeroed() };
            // SAFETY: the structure lives across the call.
            unsafe { (further_thunks().D3DKMTEscape)(&raw const args) }.ok().err()
        },
        STATUS_NOT_SUPPORTED,
        &["D3DKMTEscape fails with STATUS_NOT_SUPPORTED", "Type is 5"],
    ),
    (
        |given| {
            let mut args = D3DKMT_OFFERALLOCATIONS { hDevice: given.device, ..Zeroed::zeroed() };
            args.Priority = D3DKMT_OFFER_PRIORITY(0);
            call(thunks().D3DKMTOfferAllocations, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTOfferAllocations fails with", "Priority is 0"],
    ),
    (
        |given| {
            let mut args = D3DKMT_UPDATEGPUVIRTUALADDRESS { hDevice: given.device, ..Zeroed::zeroed() };
            args.hContext = given.context;
            // SAFETY: the structure lives across the call.
            unsafe { (further_thunks().D3DKMTUpdateGpuVirtualAddress)(&raw const args) }.ok().err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTUpdateGpuVirtualAddress fails with", "NumOperations is 0, and expected is 1 to 4096"],
    ),
];

/// Contexts and devices that are asked for wrongly.
pub(super) const OF_CONTEXTS: [Refused; 5] = [
    (
        |given| {
            let args = D3DKMT_CREATECONTEXTVIRTUAL { hDevice: given.device, EngineAffinity: 1, ..Zeroed::zeroed() };
            let hardware = D3DDDI_CREATECONTEXTFLAGS::new().with_HwQueueSupported(true);
            call(thunks().D3DKMTCreateContextVirtual, D3DKMT_CREATECONTEXTVIRTUAL { Flags: hardware, ..args }).err()
        },
        STATUS_INVALID_PARAMETER,
        &[
            "D3DKMTCreateContextVirtual fails with STATUS_INVALID_PARAMETER",
            "Flags.HwQueueSupported",
            "D3DKMTCreateHwContext",
        ],
    ),
    (
        |given| {
            let args = D3DKMT_CREATECONTEXTVIRTUAL { hDevice: given.device, NodeOrdinal: 77, ..Zeroed::zeroed() };
            let args = D3DKMT_CREATECONTEXTVIRTUAL { EngineAffinity: 1, ..args };
            call(thunks().D3DKMTCreateContextVirtual, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTCreateContextVirtual fails with", "NodeOrdinal 77"],
    ),
    (
        |given| {
            let args = D3DKMT_CREATECONTEXTVIRTUAL { hDevice: given.device, EngineAffinity: 6, ..Zeroed::zeroed() };
            call(thunks().D3DKMTCreateContextVirtual, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTCreateContextVirtual fails with", "EngineAffinity 0x6"],
    ),
    (
        |given| {
            let mut args = D3DKMT_CREATEDEVICE::zeroed();
            args.u.hAdapter = given.adapter;
            args.Flags = args.Flags.with_LegacyMode(true);
            call(thunks().D3DKMTCreateDevice, args).err()
        },
        STATUS_NOT_SUPPORTED,
        &["D3DKMTCreateDevice fails with STATUS_NOT_SUPPORTED", "Flags.LegacyMode"],
    ),
    (
        |_| {
            let args = D3DKMT_CREATEHWCONTEXT { hDevice: 0x4444, EngineAffinity: 1, ..Zeroed::zeroed() };
            call(thunks().D3DKMTCreateHwContext, args).err()
        },
        STATUS_INVALID_HANDLE,
        &["D3DKMTCreateHwContext fails with", "0x4444 is the handle of no device"],
    ),
];

/// Work, and fences that are signalled and shared.
pub(super) const OF_WORK: [Refused; 5] = [
    (
        |given| {
            let mut byte = 0_u8;
            let mut args = D3DKMT_SUBMITCOMMAND { BroadcastContextCount: 1, ..Zeroed::zeroed() };
            args.BroadcastContext[0] = given.context;
            (args.pPrivateDriverData, args.PrivateDriverDataSize) = ((&raw mut byte).cast(), 1);
            call(thunks().D3DKMTSubmitCommand, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &[
            "D3DKMTSubmitCommand fails with STATUS_INVALID_PARAMETER",
            "PrivateDriverDataSize is 0x1, and ContextInfo.DmaBufferPrivateDataSize is 0x0",
        ],
    ),
    (
        |given| {
            let args = D3DKMT_CREATEHWCONTEXT { hDevice: given.device, EngineAffinity: 1, ..Zeroed::zeroed() };
            let context = call(thunks().D3DKMTCreateHwContext, args).ok()?.hHwContext;
            let args = D3DKMT_CREATEHWQUEUE { hHwContext: context, ..Zeroed::zeroed() };
            let queue = call(thunks().D3DKMTCreateHwQueue, args).ok()?.hHwQueue;
            let args = D3DKMT_SUBMITCOMMANDTOHWQUEUE { hHwQueue: queue, ..Zeroed::zeroed() };
            call(thunks().D3DKMTSubmitCommandToHwQueue, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTSubmitCommandToHwQueue fails with", "HwQueueProgressFenceId is 0x0, and the last one was 0x0"],
    ),
    (
        |given| {
            let mut handle = given.fence;
            let mut signal = |mut value: u64| {
                let mut args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU { hDevice: given.device, ..Zeroed::zeroed() };
                (args.ObjectCount, args.ObjectHandleArray, args.FenceValueArray) = (1, &raw mut handle, &raw mut value);
                call(thunks().D3DKMTSignalSynchronizationObjectFromCpu, args).err()
            };
            assert_eq!(signal(5), None);
            signal(4)
        },
        STATUS_INVALID_PARAMETER,
        &[
            "D3DKMTSignalSynchronizationObjectFromCpu fails with",
            "a value is 0x4, its fence has 0x5",
            "AllowFenceRewind",
        ],
    ),
    (
        |given| {
            let mut handle = ptr::null_mut();
            let attributes = [48_u64, 0, 0, 0, 0, 0];
            let attributes = attributes.as_ptr().cast();
            let thunk = thunks().D3DKMTShareObjects;
            // SAFETY: the pointers are of things that live across the call.
            unsafe { thunk(1, &raw const given.fence, attributes, 0, &raw mut handle) }.ok().err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTShareObjects fails with", "the fence was not created with Flags.Shared"],
    ),
    (
        |given| {
            let mut args = D3DKMT_CREATESYNCHRONIZATIONOBJECT2 { hDevice: given.device, ..Zeroed::zeroed() };
            args.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE(77);
            call(thunks().D3DKMTCreateSynchronizationObject2, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTCreateSynchronizationObject2 fails with", "Info.Type is 77"],
    ),
];

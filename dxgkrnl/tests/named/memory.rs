//! Requests about memory, budgets and the fences that monitor it.

use std::ptr;

use dxgkrnl::{further_thunks, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::minimal::queue::call;
use super::{Given, Refused};

unsafe extern "win64" fn trimmed(_: *mut D3DKMT_TRIMNOTIFICATION) {}

pub(super) const OF_BUDGETS: [Refused; 8] = [
    (
        |given| {
            let group = D3DKMT_MEMORY_SEGMENT_GROUP(9);
            let args =
                D3DKMT_QUERYVIDEOMEMORYINFO { hAdapter: given.adapter, MemorySegmentGroup: group, ..Zeroed::zeroed() };
            call(thunks().D3DKMTQueryVideoMemoryInfo, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryVideoMemoryInfo fails with STATUS_INVALID_PARAMETER", "MemorySegmentGroup is 9"],
    ),
    (
        |given| {
            let args =
                D3DKMT_QUERYVIDEOMEMORYINFO { hAdapter: given.adapter, PhysicalAdapterIndex: 7, ..Zeroed::zeroed() };
            call(thunks().D3DKMTQueryVideoMemoryInfo, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryVideoMemoryInfo fails with", "PhysicalAdapterIndex is 7, and the adapter has 1"],
    ),
    (
        |given| {
            let mut args = D3DKMT_CHANGEVIDEOMEMORYRESERVATION { hAdapter: given.adapter, ..Zeroed::zeroed() };
            args.Reservation = 1 << 60;
            call(thunks().D3DKMTChangeVideoMemoryReservation, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &[
            "D3DKMTChangeVideoMemoryReservation fails with",
            "Reservation is 0x1000000000000000, and AvailableForReservation is ",
        ],
    ),
    (
        |given| {
            let args = D3DKMT_REGISTERTRIMNOTIFICATION { hDevice: given.device, ..Zeroed::zeroed() };
            call(thunks().D3DKMTRegisterTrimNotification, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTRegisterTrimNotification fails with", "Callback is NULL"],
    ),
    (
        |given| {
            let mut args = D3DKMT_REGISTERTRIMNOTIFICATION { hDevice: given.device, ..Zeroed::zeroed() };
            args.Callback = Some(trimmed);
            args.AdapterLuid.HighPart = 9;
            call(thunks().D3DKMTRegisterTrimNotification, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTRegisterTrimNotification fails with", "AdapterLuid is not that of the adapter of hDevice"],
    ),
    (
        |_| {
            let handle = ptr::without_provenance_mut(0x40);
            let args = D3DKMT_UNREGISTERTRIMNOTIFICATION { Handle: handle, Callback: Some(trimmed) };
            call(thunks().D3DKMTUnregisterTrimNotification, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTUnregisterTrimNotification fails with", "Handle is 0x40, which is no registration of the process"],
    ),
    (
        |given| {
            let args = D3DKMT_REGISTERBUDGETCHANGENOTIFICATION { hDevice: given.device, ..Zeroed::zeroed() };
            call(further_thunks().D3DKMTRegisterBudgetChangeNotification, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTRegisterBudgetChangeNotification fails with", "Callback is NULL"],
    ),
    (
        |_| {
            let handle = ptr::without_provenance_mut(1 << 40);
            let args = D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION { Handle: handle };
            call(further_thunks().D3DKMTUnregisterBudgetChangeNotification, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTUnregisterBudgetChangeNotification fails with", "Handle is 0x10000000000"],
    ),
];

/// Changes where an allocation may be, as `change` has it.
fn update(given: Given, change: fn(&mut D3DDDI_UPDATEALLOCPROPERTY)) -> Option<NTSTATUS> {
    let mut args = D3DDDI_UPDATEALLOCPROPERTY::zeroed();
    (args.hPagingQueue, args.hAllocation) = (given.paging_queue, given.allocation);
    change(&mut args);
    call(further_thunks().D3DKMTUpdateAllocationProperty, args).err()
}

/// The calling process, as `GetCurrentProcess` names it.
const THIS_PROCESS: HANDLE = ptr::without_provenance_mut(usize::MAX);

/// Requests about where memory is and how dear it is.
pub(super) const OF_RESIDENCY: [Refused; 9] = [
    (
        |given| {
            let (mut list, mut priority) = (given.allocation, 0);
            let mut args =
                D3DKMT_SETALLOCATIONPRIORITY { hDevice: given.device, AllocationCount: 1, ..Zeroed::zeroed() };
            (args.phAllocationList, args.pPriorities) = (&raw mut list, &raw mut priority);
            call(further_thunks().D3DKMTSetAllocationPriority, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTSetAllocationPriority fails with STATUS_INVALID_PARAMETER", "pPriorities has a priority of 0"],
    ),
    (
        |_| call(further_thunks().D3DKMTTrimProcessCommitment, Zeroed::zeroed()).err(),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTTrimProcessCommitment fails with", "cbSize is 0, and expected is "],
    ),
    (
        |_| {
            let size = size_of::<D3DKMT_TRIMPROCESSCOMMITMENT>() as u32;
            let flags = D3DKMT_TRIMPROCESSCOMMITMENT_FLAGS::from_bits(8);
            let args = D3DKMT_TRIMPROCESSCOMMITMENT { cbSize: size, Flags: flags, ..Zeroed::zeroed() };
            call(further_thunks().D3DKMTTrimProcessCommitment, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTTrimProcessCommitment fails with", "Flags has more than Lazy and OnlyRepurposed"],
    ),
    (
        |_| {
            let args = D3DKMT_QUERYPROCESSOFFERINFO { cbSize: 4, hProcess: THIS_PROCESS, ..Zeroed::zeroed() };
            call(further_thunks().D3DKMTQueryProcessOfferInfo, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTQueryProcessOfferInfo fails with", "cbSize is 4, and expected is "],
    ),
    (
        |given| update(given, |args| args.bits = D3DDDI_UPDATEALLOCPROPERTY_Bits::from_bits(0x100)),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTUpdateAllocationProperty fails with", "PropertyMaskValue is 0x100"],
    ),
    (
        |given| {
            update(given, |args| {
                args.bits = args.bits.with_SetUnmoveable(true);
                args.Flags = args.Flags.with_Unmoveable(true);
            })
        },
        STATUS_NOT_SUPPORTED,
        &["D3DKMTUpdateAllocationProperty fails with", "Flags.AccessedPhysically or Flags.Unmoveable"],
    ),
    (
        |given| {
            update(given, |args| {
                args.bits = args.bits.with_SetSupportedSegmentSet(true);
                args.SupportedSegmentSet = 0x10;
            })
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTUpdateAllocationProperty fails with", "SupportedSegmentSet is 0x10", "the driver allows "],
    ),
    (
        |given| {
            update(given, |args| {
                args.bits = args.bits.with_SetPreferredSegment(true);
                args.PreferredSegment = args.PreferredSegment.with_SegmentId0(9);
            })
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTUpdateAllocationProperty fails with", "PreferredSegment names segment 9"],
    ),
    (
        |given| {
            let (device, allocation) = (given.device, given.allocation);
            let args = D3DKMT_LOCK { hDevice: device, hAllocation: allocation, ..Zeroed::zeroed() };
            call(further_thunks().D3DKMTLock, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTLock fails with", "Flags is 0x0", "LockEntire", "NumPages is 0"],
    ),
];

/// Offers the allocation, so that it can neither be locked nor made resident.
fn offer(given: Given) {
    let mut list = given.allocation;
    let mut args = D3DKMT_OFFERALLOCATIONS { hDevice: given.device, NumAllocations: 1, ..Zeroed::zeroed() };
    args.HandleList = &raw mut list;
    args.Priority = D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_LOW;
    // Offered already by an earlier request.
    let _ = call(thunks().D3DKMTOfferAllocations, args);
}

pub(super) const OF_MEMORY: [Refused; 5] = [
    (
        |given| {
            let mut args = D3DKMT_LOCK2 { hDevice: given.device, hAllocation: given.allocation, ..Zeroed::zeroed() };
            args.Flags = D3DDDICB_LOCK2FLAGS::from_bits(2);
            call(thunks().D3DKMTLock2, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTLock2 fails with STATUS_INVALID_PARAMETER", "Flags is 0x2, and expected is 0"],
    ),
    (
        |given| {
            let (device, allocation) = (given.device, given.allocation);
            let args = D3DKMT_INVALIDATECACHE { hDevice: device, hAllocation: allocation, Offset: 1 << 30, Length: 1 };
            call(thunks().D3DKMTInvalidateCache, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTInvalidateCache fails with", "Offset 0x40000000 and Length 0x1 leave the allocation"],
    ),
    (
        |given| {
            let (device, allocation) = (given.device, given.allocation);
            call(thunks().D3DKMTUnlock2, D3DKMT_UNLOCK2 { hDevice: device, hAllocation: allocation }).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTUnlock2 fails with", "is not locked"],
    ),
    (
        |given| {
            let args = D3DKMT_LOCK2 { hDevice: given.device, hAllocation: given.allocation, ..Zeroed::zeroed() };
            offer(given);
            call(thunks().D3DKMTLock2, args).err()
        },
        STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE,
        &["D3DKMTLock2 fails with", "the allocation is offered"],
    ),
    (
        |given| {
            let mut list = given.allocation;
            let mut args =
                D3DDDI_MAKERESIDENT { hPagingQueue: given.paging_queue, NumAllocations: 1, ..Zeroed::zeroed() };
            args.AllocationList = &raw mut list;
            offer(given);
            call(thunks().D3DKMTMakeResident, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTMakeResident fails with", "an allocation of AllocationList is offered"],
    ),
];

/// Creates a standard allocation as `change` has it.
pub(super) fn create(given: Given, change: fn(&mut D3DKMT_CREATESTANDARDALLOCATION)) -> Option<NTSTATUS> {
    let mut standard = D3DKMT_CREATESTANDARDALLOCATION::zeroed();
    standard.Type = D3DKMT_STANDARDALLOCATIONTYPE::D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP;
    standard.ExistingHeapData.Size = 0x1000;
    change(&mut standard);
    let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
    // Nothing is read there before the driver is asked.
    info.u.pSystemMem = ptr::without_provenance_mut(0x1000);
    let mut args = D3DKMT_CREATEALLOCATION { hDevice: given.device, NumAllocations: 1, ..Zeroed::zeroed() };
    args.u1.pAllocationInfo2 = &raw mut info;
    args.u.pStandardAllocation = &raw mut standard;
    args.Flags = args.Flags.with_StandardAllocation(true).with_ExistingSysMem(true);
    call(thunks().D3DKMTCreateAllocation2, args).err()
}

pub(super) const OF_ALLOCATIONS: [Refused; 4] = [
    (
        |given| create(given, |standard| standard.Flags = D3DKMT_CREATESTANDARDALLOCATIONFLAGS::from_bits(4)),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTCreateAllocation2 fails with", "Flags of pStandardAllocation is 0x4, and expected is 0"],
    ),
    (
        |given| create(given, |standard| standard.ExistingHeapData.Size = 5),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTCreateAllocation2 fails with", "ExistingHeapData.Size is 0x5", "whole pages"],
    ),
    (
        |given| create(given, |standard| standard.Type = D3DKMT_STANDARDALLOCATIONTYPE(9)),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTCreateAllocation2 fails with", "Type of pStandardAllocation is 9"],
    ),
    (
        |given| {
            create(given, |standard| {
                standard.Type = D3DKMT_STANDARDALLOCATIONTYPE::D3DKMT_STANDARDALLOCATIONTYPE_INTERNALBACKINGSTORE;
            })
        },
        STATUS_NOT_SUPPORTED,
        &["D3DKMTCreateAllocation2 fails with", "Type of pStandardAllocation is 2"],
    ),
];

pub(super) const OF_FENCES: [Refused; 3] = [
    (
        |given| {
            let (mut handle, mut value) = (given.fence, 1);
            let mut args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU { hContext: given.context, ..Zeroed::zeroed() };
            (args.ObjectCount, args.ObjectHandleArray) = (1, &raw mut handle);
            args.u.MonitoredFenceValueArray = &raw mut value;
            call(thunks().D3DKMTWaitForSynchronizationObjectFromGpu, args).err()
        },
        STATUS_ACCESS_DENIED,
        &["D3DKMTWaitForSynchronizationObjectFromGpu fails with", "NoWait"],
    ),
    (
        |_| call(further_thunks().D3DKMTSignalSynchronizationObjectFromGpu2, Zeroed::zeroed()).err(),
        STATUS_INVALID_PARAMETER,
        &["D3DKMTSignalSynchronizationObjectFromGpu2 fails with", "0 contexts or queues", "1 to 64"],
    ),
    (
        |given| {
            let mut context = given.context;
            let args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 {
                Flags: D3DDDICB_SIGNALFLAGS::from_bits(1 << 20),
                BroadcastContextCount: 1,
                BroadcastContextArray: &raw mut context,
                ..Zeroed::zeroed()
            };
            call(further_thunks().D3DKMTSignalSynchronizationObjectFromGpu2, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTSignalSynchronizationObjectFromGpu2 fails with", "SignalAtSubmission"],
    ),
];

//! What thunks are told beside the pointers, and which pointers they do not follow.

use wddm_ddi::km::D3DDDI_ESCAPEFLAGS;
use wddm_ddi::kmt::{D3DDDICB_LOCKFLAGS, D3DKMT_OFFER_PRIORITY};

use super::structure::Member;

/// The value of one member of an argument, as a table names it.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Number(u64),
    /// The handle of an object of the case.
    Object(&'static str),
    /// Size of the driver's description of an allocation.
    AllocationData,
    /// Size of the driver's description of a doorbell.
    DoorbellData,
}

use Value::{Number, Object};

const KNOWN_ESCAPE: u64 = D3DDDI_ESCAPEFLAGS::new().with_DriverKnownEscape(true).into_bits() as u64;
const LOCK_ENTIRE: u64 = D3DDDICB_LOCKFLAGS::new().with_LockEntire(true).into_bits() as u64;
const LOW: u64 = D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_LOW.0 as u64;

/// Values of members: the thunk or the structure that they are for or `*`, the member, and the value. The first one counts. `*NAME` is the
/// first word behind the pointer NAME.
pub(super) const WORDS: &[(&str, &str, Value)] = &[
    ("D3DKMTEnumAdapters3", "Filter", Number(3)),
    ("D3DKMTOfferAllocations", "Priority", Number(LOW)),
    ("D3DKMTLock", "Flags", Number(LOCK_ENTIRE)),
    ("D3DKMTReclaimAllocations", "*HandleList", Object("offered")),
    ("D3DKMTReclaimAllocations2", "*HandleList", Object("offered")),
    ("D3DKMTEscape", "Flags", Number(KNOWN_ESCAPE)),
    ("D3DKMTCreateDoorbell", "hHwQueue", Object("bare queue")),
    ("D3DKMTCreateDoorbell", "hRingBuffer", Object("ring")),
    ("D3DKMTCreateDoorbell", "hRingBufferControl", Object("ring control")),
    ("D3DKMTCreateDoorbell", "PrivateDriverDataSize", Value::DoorbellData),
    ("D3DKMTOpenResourceFromNtHandle", "hNtHandle", Object("shared resource")),
    ("D3DKMTQueryResourceInfoFromNtHandle", "hNtHandle", Object("shared resource")),
    ("D3DKMT_OPENRESOURCE", "hGlobalShare", Object("global resource")),
    ("D3DKMT_QUERYRESOURCEINFO", "hGlobalShare", Object("global resource")),
    ("D3DKMT_GETRUNTIMEDATA", "hGlobalShare", Object("global resource")),
    ("*", "RuntimeDataSize", Number(64)),
    ("*", "ResourcePrivateDriverDataSize", Number(64)),
    ("*", "TotalPrivateDriverDataBufferSize", Number(1024)),
    ("D3DKMTOpenKeyedMutexFromNtHandle", "hNtHandle", Object("shared keyed mutex")),
    ("CampanileSetDebugName", "object", Object("fence")),
    ("CampanileSetDebugName", "length", Number(8)),
    ("D3DDDI_ALLOCATIONINFO", "PrivateDriverDataSize", Value::AllocationData),
    ("D3DDDI_ALLOCATIONINFO2", "PrivateDriverDataSize", Value::AllocationData),
    ("*", "hDevice", Object("device")),
    ("*", "u.hDevice", Object("device")),
    ("*", "hAdapter", Object("adapter")),
    ("*", "u.hAdapter", Object("adapter")),
    ("*", "hPagingQueue", Object("paging queue")),
    ("*", "u.hPagingQueue", Object("paging queue")),
    ("*", "hAllocation", Object("allocation")),
    ("*", "hContext", Object("context")),
    ("*", "u.hContext", Object("context")),
    ("*", "hHwContext", Object("hardware context")),
    ("*", "hHwQueue", Object("queue")),
    ("*", "hSyncObject", Object("fence")),
    ("*", "hFenceObject", Object("fence")),
    ("*", "hKeyedMutex", Object("keyed mutex")),
    ("*", "hSharedHandle", Object("global keyed mutex")),
    ("*", "*phAllocationList", Object("allocation")),
    ("*", "*AllocationList", Object("allocation")),
    ("*", "*HandleList", Object("allocation")),
    ("*", "*phAllocations", Object("allocation")),
    ("*", "*pResources", Object("resource")),
    ("*", "*ObjectHandleArray", Object("fence")),
    ("*", "*objects", Object("fence")),
    ("*", "*BroadcastContextArray", Object("context")),
    ("*", "*BroadcastHwQueueArray", Object("queue")),
    ("*", "*pPriorities", Number(1)),
    ("*", "process", Number(u64::MAX)),
    ("*", "NumAllocations", Number(1)),
    ("*", "AllocationCount", Number(1)),
    ("*", "ObjectCount", Number(1)),
    ("*", "BroadcastContextCount", Number(1)),
    ("*", "BroadcastHwQueueCount", Number(1)),
    ("*", "BroadcastContext", Object("context")),
    ("*", "NumOperations", Number(1)),
    ("*", "NumAdapters", Number(1)),
    ("*", "count", Number(1)),
    ("*", "PrivateDriverDataSize", Number(64)),
    ("*", "PrivateRuntimeDataSize", Number(64)),
    ("*", "EngineAffinity", Number(1)),
];

/// Pointers that are NULL unless they are the bad one: answers, alternatives to another one, and what may be left out.
const LEFT_OUT: &[&str] = &[
    "u.pAdapter",
    "pCommandBuffer",
    "pAllocationList",
    "pPatchLocationList",
    "pSystemMem",
    "u.pSystemMem",
    "u.pStandardAllocation",
    "PriorityList",
    "HistoryBufferArray",
    "WrittenPrimaries",
    "pResources",
    "attributes",
];

/// True if a pointer points to something where `bad` is the bad one.
pub(super) fn is_given(path: &str, bad: Option<&Member>) -> bool {
    // Of the two lists one is NULL.
    let other_list = path == "HandleList" && bad.is_some_and(|bad| bad.path == "pResources");
    !other_list && !LEFT_OUT.contains(&path)
}

/// True if the bytes that a thunk is handed for the driver describe an allocation.
pub(super) fn takes_allocation_data(thunk: &str) -> bool {
    thunk.starts_with("D3DKMTCreateAllocation")
}

/// The reason why a thunk does not read what a member of its argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The system writes the pointer itself, and does not read what stood there.
    Answer,
    /// User mode gets it back, or it is compared.
    Opaque,
    /// The thunk, or this use of it, is refused on an adapter like this before it matters.
    Refused,
    /// It matters only together with something that the generated call does not have: displays, memory of the program (`ExistingMemory.RulesAreKept`, which has
    /// bad addresses of its own), or a resource that is shared with a keyed mutex (`SharedObjects.ResourceComesWithMutexAndFence`).
    Unused,
}

use Why::{Answer, Opaque, Refused, Unused};

/// Pointers that are not followed: the thunk, the pointer, and why. All others are, and a bad one is STATUS_ACCESS_VIOLATION.
const NOT_FOLLOWED: &[(&str, &str, Why)] = &[
    ("D3DKMTCreateDevice", "args->u.pAdapter", Unused),
    ("D3DKMTCreateDevice", "args->pCommandBuffer", Answer),
    ("D3DKMTCreateDevice", "args->pAllocationList", Answer),
    ("D3DKMTCreateDevice", "args->pPatchLocationList", Answer),
    ("D3DKMTCreatePagingQueue", "args->FenceValueCPUVirtualAddress", Answer),
    ("D3DKMTCreateAllocation2", "args->u1.pAllocationInfo->pSystemMem", Unused),
    ("D3DKMTCreateAllocation2", "args->u1.pAllocationInfo2->u.pSystemMem", Unused),
    ("D3DKMTCreateAllocation", "args->u1.pAllocationInfo->pSystemMem", Unused),
    ("D3DKMTCreateAllocation", "args->u1.pAllocationInfo2->u.pSystemMem", Unused),
    ("D3DKMTLock2", "args->pData", Answer),
    ("D3DKMTRegisterTrimNotification", "args->Context", Opaque),
    ("D3DKMTRegisterTrimNotification", "args->Handle", Answer),
    ("D3DKMTUnregisterTrimNotification", "args->Handle", Opaque),
    ("D3DKMTRegisterBudgetChangeNotification", "args->Context", Opaque),
    ("D3DKMTRegisterBudgetChangeNotification", "args->Handle", Answer),
    ("D3DKMTUnregisterBudgetChangeNotification", "args->Handle", Opaque),
    ("D3DKMTSubmitCommand", "args->HistoryBufferArray", Unused),
    ("D3DKMTSubmitCommandToHwQueue", "args->WrittenPrimaries", Unused),
    ("D3DKMTCreateHwQueue", "args->HwQueueProgressFenceCPUVirtualAddress", Answer),
    ("D3DKMTCreateDoorbell", "args->DoorbellCPUVirtualAddress", Answer),
    ("D3DKMTCreateDoorbell", "args->DoorbellSecondaryCPUVirtualAddress", Answer),
    ("D3DKMTCreateDoorbell", "args->DoorbellStatusCPUVirtualAddress", Answer),
    ("D3DKMTCreateDoorbell", "args->HwQueueProgressFenceLastQueuedValueCPUVirtualAddress", Answer),
    ("D3DKMTCreateNativeFence", "args->Info.NativeFenceMapping.CurrentValueCpuVa", Answer),
    ("D3DKMTOpenNativeFenceFromNtHandle", "args->NativeFenceMapping.CurrentValueCpuVa", Answer),
    ("D3DKMTCreateSynchronizationObject2", "args->Info.u.MonitoredFence.FenceValueCPUVirtualAddress", Answer),
    ("D3DKMTOpenSyncObjectFromNtHandle2", "args->u.MonitoredFence.FenceValueCPUVirtualAddress", Answer),
    ("D3DKMTOpenSyncObjectFromSyncFile", "args->FenceValueCPUVirtualAddress", Answer),
    ("D3DKMTEnumAdapters2", "args->pAdapters", Unused),
    ("D3DKMTLock", "args->pPages", Unused),
    ("D3DKMTLock", "args->pData", Answer),
    ("D3DKMTCreateContext", "args->pPrivateDriverData", Refused),
    ("D3DKMTCreateContext", "args->pCommandBuffer", Refused),
    ("D3DKMTCreateContext", "args->pAllocationList", Refused),
    ("D3DKMTCreateContext", "args->pPatchLocationList", Refused),
    ("D3DKMTRender", "args->pNewCommandBuffer", Refused),
    ("D3DKMTRender", "args->pNewAllocationList", Refused),
    ("D3DKMTRender", "args->pNewPatchLocationList", Refused),
    ("D3DKMTRender", "args->pPrivateDriverData", Refused),
    ("D3DKMTOpenResource", "args->u.pOpenAllocationInfo->pPrivateDriverData", Answer),
    ("D3DKMTOpenResource", "args->u.pOpenAllocationInfo2->pPrivateDriverData", Answer),
    ("D3DKMTOpenResource2", "args->u.pOpenAllocationInfo->pPrivateDriverData", Answer),
    ("D3DKMTOpenResource2", "args->u.pOpenAllocationInfo2->pPrivateDriverData", Answer),
    ("D3DKMTOpenResourceFromNtHandle", "args->pOpenAllocationInfo2->pPrivateDriverData", Answer),
    ("D3DKMTOpenResourceFromNtHandle", "args->pKeyedMutexPrivateRuntimeData", Unused),
];

/// Pointers through which a thunk answers, so that a page that can only be read is not enough.
const WRITTEN: &[(&str, &str)] = &[
    ("D3DKMTEnumAdapters3", "args->pAdapters"),
    ("D3DKMTQueryAdapterInfo", "args->pPrivateDriverData"),
    ("D3DKMTReclaimAllocations2", "args->u.pDiscarded"),
    ("D3DKMTReclaimAllocations2", "args->u.pResults"),
    ("D3DKMTReclaimAllocations", "args->pDiscarded"),
    ("D3DKMTQueryAllocationResidency", "args->pResidencyStatus"),
    ("D3DKMTGetAllocationPriority", "args->pPriorities"),
    ("D3DKMTShareObjects", "handle"),
    ("NtOpenProcess", "handle"),
    ("CampanileExportNtHandle", "descriptor"),
    ("CampanileImportNtHandle", "handle"),
    ("D3DKMTGetProcessSchedulingPriorityClass", "priority_class"),
    ("D3DKMTQueryResourceInfo", "args->pPrivateRuntimeData"),
    ("D3DKMTQueryResourceInfoFromNtHandle", "args->pPrivateRuntimeData"),
    ("D3DKMTGetRuntimeData", "args->pRuntimeData"),
    ("D3DKMTAcquireKeyedMutex2", "args->pPrivateRuntimeData"),
    ("D3DKMTOpenResource", "args->u.pOpenAllocationInfo"),
    ("D3DKMTOpenResource", "args->u.pOpenAllocationInfo2"),
    ("D3DKMTOpenResource", "args->pPrivateRuntimeData"),
    ("D3DKMTOpenResource", "args->pResourcePrivateDriverData"),
    ("D3DKMTOpenResource", "args->pTotalPrivateDriverDataBuffer"),
    ("D3DKMTOpenResource2", "args->u.pOpenAllocationInfo"),
    ("D3DKMTOpenResource2", "args->u.pOpenAllocationInfo2"),
    ("D3DKMTOpenResource2", "args->pPrivateRuntimeData"),
    ("D3DKMTOpenResource2", "args->pResourcePrivateDriverData"),
    ("D3DKMTOpenResource2", "args->pTotalPrivateDriverDataBuffer"),
    ("D3DKMTOpenResourceFromNtHandle", "args->pOpenAllocationInfo2"),
    ("D3DKMTOpenResourceFromNtHandle", "args->pPrivateRuntimeData"),
    ("D3DKMTOpenResourceFromNtHandle", "args->pResourcePrivateDriverData"),
    ("D3DKMTOpenResourceFromNtHandle", "args->pTotalPrivateDriverDataBuffer"),
];

/// Why a pointer is not followed, if it is not.
pub(super) fn not_followed(thunk: &str, pointer: &str) -> Option<Why> {
    NOT_FOLLOWED.iter().find(|(of, name, _)| *of == thunk && *name == pointer).map(|(_, _, why)| *why)
}

/// True for a pointer through which a thunk answers.
pub(super) fn is_written(thunk: &str, pointer: &str) -> bool {
    WRITTEN.contains(&(thunk, pointer))
}

/// True if a word says how many of something a pointer points to.
pub(super) fn is_count(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path);
    name.ends_with("Count") || name.ends_with("Size") || name.starts_with("Num") || name == "count" || name == "cbSize"
}

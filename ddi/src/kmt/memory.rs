//! Allocations, residency, GPU virtual addresses and CPU locks.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::{
    D3DDDI_VIDEO_PRESENT_SOURCE_ID, D3DGPU_SIZE_T, D3DGPU_VIRTUAL_ADDRESS, D3DKMT_HANDLE, D3DKMT_SIZE_T, HANDLE, LUID,
};

/// Priority among paging queues. [d3dukmdt: D3DDDI_PAGINGQUEUE_PRIORITY]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_PAGINGQUEUE_PRIORITY(pub i32);

impl D3DDDI_PAGINGQUEUE_PRIORITY {
    pub const D3DDDI_PAGINGQUEUE_PRIORITY_BELOW_NORMAL: Self = Self(-1);
    pub const D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL: Self = Self(0);
    pub const D3DDDI_PAGINGQUEUE_PRIORITY_ABOVE_NORMAL: Self = Self(1);
}

/// Argument of `D3DKMTCreatePagingQueue`. [d3dkmthk: D3DKMT_CREATEPAGINGQUEUE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATEPAGINGQUEUE {
    pub hDevice: D3DKMT_HANDLE,
    pub Priority: D3DDDI_PAGINGQUEUE_PRIORITY,
    pub hPagingQueue: D3DKMT_HANDLE,
    /// Out: the queue's fence, a monitored fence.
    pub hSyncObject: D3DKMT_HANDLE,
    /// Out: where its value can be read.
    pub FenceValueCPUVirtualAddress: *mut c_void,
    pub PhysicalAdapterIndex: u32,
}

/// Argument of `D3DKMTDestroyPagingQueue`. [d3dukmdt: D3DDDI_DESTROYPAGINGQUEUE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_DESTROYPAGINGQUEUE {
    pub hPagingQueue: D3DKMT_HANDLE,
}

/// Allocation that is made without the driver's own data. [d3dkmthk: D3DKMT_STANDARDALLOCATIONTYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_STANDARDALLOCATIONTYPE(pub i32);

impl D3DKMT_STANDARDALLOCATIONTYPE {
    pub const D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP: Self = Self(1);
    pub const D3DKMT_STANDARDALLOCATIONTYPE_INTERNALBACKINGSTORE: Self = Self(2);
}

/// Size of memory that exists already. [d3dkmthk: D3DKMT_STANDARDALLOCATION_EXISTINGHEAP]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_STANDARDALLOCATION_EXISTINGHEAP {
    pub Size: D3DKMT_SIZE_T,
}

/// No flags are defined: reserved, zero. [d3dkmthk: D3DKMT_CREATESTANDARDALLOCATIONFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_CREATESTANDARDALLOCATIONFLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Description of an allocation without the driver's own data. [d3dkmthk: D3DKMT_CREATESTANDARDALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATESTANDARDALLOCATION {
    pub Type: D3DKMT_STANDARDALLOCATIONTYPE,
    pub ExistingHeapData: D3DKMT_STANDARDALLOCATION_EXISTINGHEAP,
    pub Flags: D3DKMT_CREATESTANDARDALLOCATIONFLAGS,
}

/// Kind of an allocation. [d3dukmdt: D3DDDI_ALLOCATIONINFO::Flags]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_ALLOCATIONINFO_Flags {
    pub Primary: bool,
    pub Stereo: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// One allocation, in the older form. [d3dukmdt: D3DDDI_ALLOCATIONINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_ALLOCATIONINFO {
    pub hAllocation: D3DKMT_HANDLE,
    pub pSystemMem: *mut c_void,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub Flags: D3DDDI_ALLOCATIONINFO_Flags,
}

/// Union of [`D3DDDI_ALLOCATIONINFO2`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DDDI_ALLOCATIONINFO2_Union {
    pub hSection: HANDLE,
    pub pSystemMem: *mut c_void,
}

/// Kind of an allocation. [d3dukmdt: D3DDDI_ALLOCATIONINFO2::Flags]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_ALLOCATIONINFO2_Flags {
    pub Primary: bool,
    pub Stereo: bool,
    pub OverridePriority: bool,
    #[bits(29)]
    __Reserved: u32,
}

/// Union of [`D3DDDI_ALLOCATIONINFO2`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DDDI_ALLOCATIONINFO2_Union1 {
    pub Priority: u32,
    pub Unused: usize,
}

/// One allocation of `D3DKMTCreateAllocation2`. [d3dukmdt: D3DDDI_ALLOCATIONINFO2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_ALLOCATIONINFO2 {
    /// Out.
    pub hAllocation: D3DKMT_HANDLE,
    pub u: D3DDDI_ALLOCATIONINFO2_Union,
    /// For the kernel-mode driver; written back.
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub Flags: D3DDDI_ALLOCATIONINFO2_Flags,
    /// Out: address of the private mapping, 0 without one.
    pub GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub u1: D3DDDI_ALLOCATIONINFO2_Union1,
    pub Reserved: [usize; 5],
}

/// Kind of allocations to be made. [d3dkmthk: D3DKMT_CREATEALLOCATIONFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_CREATEALLOCATIONFLAGS {
    /// The allocations form a new resource.
    pub CreateResource: bool,
    /// Other processes may open them.
    pub CreateShared: bool,
    pub NonSecure: bool,
    pub CreateProtected: bool,
    pub RestrictSharedAccess: bool,
    pub ExistingSysMem: bool,
    /// Shared by a kernel handle with access rights.
    pub NtSecuritySharing: bool,
    pub ReadOnly: bool,
    pub CreateWriteCombined: bool,
    pub CreateCached: bool,
    pub SwapChainBackBuffer: bool,
    /// Other adapters may use them.
    pub CrossAdapter: bool,
    pub OpenCrossAdapter: bool,
    pub PartialSharedCreation: bool,
    pub Zeroed: bool,
    pub WriteWatch: bool,
    /// Described by a standard allocation instead of private data.
    pub StandardAllocation: bool,
    pub ExistingSection: bool,
    pub AllowNotZeroed: bool,
    pub PhysicallyContiguous: bool,
    /// The driver does not access the contents.
    pub NoKmdAccess: bool,
    pub SharedDisplayable: bool,
    pub NoImplicitSynchronization: bool,
    #[bits(9)]
    __Reserved: u16,
}

/// Union of [`D3DKMT_CREATEALLOCATION`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_CREATEALLOCATION_Union {
    pub pStandardAllocation: *mut D3DKMT_CREATESTANDARDALLOCATION,
    pub pPrivateDriverData: *mut c_void,
}

/// Union of [`D3DKMT_CREATEALLOCATION`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_CREATEALLOCATION_Union1 {
    pub pAllocationInfo: *mut D3DDDI_ALLOCATIONINFO,
    pub pAllocationInfo2: *mut D3DDDI_ALLOCATIONINFO2,
}

/// Argument of `D3DKMTCreateAllocation2`. [d3dkmthk: D3DKMT_CREATEALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATEALLOCATION {
    pub hDevice: D3DKMT_HANDLE,
    /// In: resource to add to; out: the new one, when asked for.
    pub hResource: D3DKMT_HANDLE,
    pub hGlobalShare: D3DKMT_HANDLE,
    /// Kept by the operating system for whoever opens the resource.
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
    pub u: D3DKMT_CREATEALLOCATION_Union,
    pub PrivateDriverDataSize: u32,
    pub NumAllocations: u32,
    pub u1: D3DKMT_CREATEALLOCATION_Union1,
    pub Flags: D3DKMT_CREATEALLOCATIONFLAGS,
    pub hPrivateRuntimeResourceHandle: HANDLE,
}

/// How far the caller vouches that the GPU is done. [d3dukmdt: D3DDDICB_DESTROYALLOCATION2FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDICB_DESTROYALLOCATION2FLAGS {
    /// The caller knows that the GPU does not use them.
    pub AssumeNotInUse: bool,
    /// Returns when they are gone.
    pub SynchronousDestroy: bool,
    #[bits(29)]
    __Reserved: u32,
    pub SystemUseOnly: bool,
}

/// Argument of `D3DKMTDestroyAllocation2`: a resource, or a list of allocations. [d3dkmthk: D3DKMT_DESTROYALLOCATION2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DESTROYALLOCATION2 {
    pub hDevice: D3DKMT_HANDLE,
    /// Destroys all its allocations; otherwise 0 and a list.
    pub hResource: D3DKMT_HANDLE,
    pub phAllocationList: *mut D3DKMT_HANDLE,
    pub AllocationCount: u32,
    pub Flags: D3DDDICB_DESTROYALLOCATION2FLAGS,
}

/// What to do when memory is short. [d3dukmdt: D3DDDI_MAKERESIDENT_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_MAKERESIDENT_FLAGS {
    /// The process has nothing more to give back.
    pub CantTrimFurther: bool,
    /// An error puts the device in error.
    pub MustSucceed: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// Argument of `D3DKMTMakeResident`; STATUS_PENDING means that a paging fence value follows.
/// [d3dukmdt: D3DDDI_MAKERESIDENT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_MAKERESIDENT {
    pub hPagingQueue: D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub AllocationList: *mut D3DKMT_HANDLE,
    /// Ignored, NULL.
    pub PriorityList: *mut u32,
    pub Flags: D3DDDI_MAKERESIDENT_FLAGS,
    /// Out: value of the paging queue's fence at which they are resident.
    pub PagingFenceValue: u64,
    /// Out: how much the process is over its budget.
    pub NumBytesToTrim: u64,
}

/// How seriously an eviction is meant. [d3dukmdt: D3DDDI_EVICT_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_EVICT_FLAGS {
    /// May stay until the memory is wanted.
    pub EvictOnlyIfNecessary: bool,
    /// The GPU did not change it: the copy in system memory is still good.
    pub NotWrittenTo: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// Argument of `D3DKMTEvict`. [d3dkmthk: D3DKMT_EVICT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_EVICT {
    pub hDevice: D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub AllocationList: *mut D3DKMT_HANDLE,
    pub Flags: D3DDDI_EVICT_FLAGS,
    pub NumBytesToTrim: u64,
}

/// How soon offered memory is taken, lowest first. [d3dkmthk: D3DKMT_OFFER_PRIORITY]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_OFFER_PRIORITY(pub i32);

impl D3DKMT_OFFER_PRIORITY {
    pub const D3DKMT_OFFER_PRIORITY_LOW: Self = Self(1);
    pub const D3DKMT_OFFER_PRIORITY_NORMAL: Self = Self(2);
    pub const D3DKMT_OFFER_PRIORITY_HIGH: Self = Self(3);
    /// The system decides.
    pub const D3DKMT_OFFER_PRIORITY_AUTO: Self = Self(4);
}

/// How memory is offered. [d3dkmthk: D3DKMT_OFFER_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_OFFER_FLAGS {
    /// No queued work uses it.
    pub OfferImmediately: bool,
    /// System memory may be taken too.
    pub AllowDecommit: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// Argument of `D3DKMTOfferAllocations`; of the two lists one is NULL. [d3dkmthk: D3DKMT_OFFERALLOCATIONS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OFFERALLOCATIONS {
    pub hDevice: D3DKMT_HANDLE,
    pub pResources: *mut D3DKMT_HANDLE,
    pub HandleList: *mut D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub Priority: D3DKMT_OFFER_PRIORITY,
    pub Flags: D3DKMT_OFFER_FLAGS,
}

/// What has become of offered memory. [d3dukmdt: D3DDDI_RECLAIM_RESULT]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_RECLAIM_RESULT(pub i32);

impl D3DDDI_RECLAIM_RESULT {
    /// The contents are what they were.
    pub const D3DDDI_RECLAIM_RESULT_OK: Self = Self(0);
    /// The contents are lost.
    pub const D3DDDI_RECLAIM_RESULT_DISCARDED: Self = Self(1);
    /// The contents are lost, and there is no memory: it is still offered.
    pub const D3DDDI_RECLAIM_RESULT_NOT_COMMITTED: Self = Self(2);
}

/// Where the answers of [`D3DKMT_RECLAIMALLOCATIONS2`] go: one number for each allocation or resource. The first two results are FALSE and
/// TRUE. [d3dkmthk: D3DKMT_RECLAIMALLOCATIONS2]
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_RECLAIMALLOCATIONS2_Union {
    pub pDiscarded: *mut i32,
    pub pResults: *mut D3DDDI_RECLAIM_RESULT,
}

/// Argument of `D3DKMTReclaimAllocations2`; of the two lists one is NULL. [d3dkmthk: D3DKMT_RECLAIMALLOCATIONS2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_RECLAIMALLOCATIONS2 {
    pub hPagingQueue: D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub pResources: *mut D3DKMT_HANDLE,
    pub HandleList: *mut D3DKMT_HANDLE,
    pub u: D3DKMT_RECLAIMALLOCATIONS2_Union,
    /// Out: value of the paging queue's fence at which they may be used.
    pub PagingFenceValue: u64,
}

/// What the GPU may do with a mapping; reading is always allowed. [d3dukmdt: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE]
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE {
    /// Writing is allowed.
    pub Write: bool,
    pub Execute: bool,
    /// The range reads as zero.
    pub Zero: bool,
    /// Every access faults.
    pub NoAccess: bool,
    /// Set by the operating system only.
    pub SystemUseOnly: bool,
    #[bits(59)]
    __Reserved: u64,
}

/// Argument of `D3DKMTMapGpuVirtualAddress`. [d3dukmdt: D3DDDI_MAPGPUVIRTUALADDRESS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_MAPGPUVIRTUALADDRESS {
    pub hPagingQueue: D3DKMT_HANDLE,
    /// Wanted address, 0 for any between minimum and maximum.
    pub BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub MinimumAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub MaximumAddress: D3DGPU_VIRTUAL_ADDRESS,
    /// 0 for a range without memory.
    pub hAllocation: D3DKMT_HANDLE,
    /// First page of the allocation, 4 KiB each.
    pub OffsetInPages: D3DGPU_SIZE_T,
    /// Pages to map, 4 KiB each.
    pub SizeInPages: D3DGPU_SIZE_T,
    pub Protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
    /// Bits for the driver, passed on to page-table updates.
    pub DriverProtection: u64,
    pub Reserved0: u32,
    pub Reserved1: u64,
    /// Out.
    pub VirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    /// Out: value of the paging queue's fence at which the mapping can be used.
    pub PagingFenceValue: u64,
}

/// How a reserved range behaves. [d3dukmdt: D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE(pub i32);

impl D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE {
    pub const D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS: Self = Self(0);
    pub const D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO: Self = Self(1);
    pub const D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_COMMIT: Self = Self(2);
}

/// Union of [`D3DDDI_RESERVEGPUVIRTUALADDRESS`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DDDI_RESERVEGPUVIRTUALADDRESS_Union {
    pub hPagingQueue: D3DKMT_HANDLE,
    pub hAdapter: D3DKMT_HANDLE,
}

/// Union of [`D3DDDI_RESERVEGPUVIRTUALADDRESS`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DDDI_RESERVEGPUVIRTUALADDRESS_Union1 {
    pub ReservationType: D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE,
    pub Reserved0: u32,
}

/// Union of [`D3DDDI_RESERVEGPUVIRTUALADDRESS`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DDDI_RESERVEGPUVIRTUALADDRESS_Union2 {
    pub DriverProtection: u64,
    pub Reserved1: u64,
}

/// Union of [`D3DDDI_RESERVEGPUVIRTUALADDRESS`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DDDI_RESERVEGPUVIRTUALADDRESS_Union3 {
    pub PagingFenceValue: u64,
    pub Reserved2: u64,
}

/// Argument of `D3DKMTReserveGpuVirtualAddress`. [d3dukmdt: D3DDDI_RESERVEGPUVIRTUALADDRESS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_RESERVEGPUVIRTUALADDRESS {
    pub u: D3DDDI_RESERVEGPUVIRTUALADDRESS_Union,
    pub BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub MinimumAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub MaximumAddress: D3DGPU_VIRTUAL_ADDRESS,
    /// Bytes, in whole pages.
    pub Size: D3DGPU_SIZE_T,
    pub u1: D3DDDI_RESERVEGPUVIRTUALADDRESS_Union1,
    pub u2: D3DDDI_RESERVEGPUVIRTUALADDRESS_Union2,
    /// Out.
    pub VirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub u3: D3DDDI_RESERVEGPUVIRTUALADDRESS_Union3,
}

/// Argument of `D3DKMTFreeGpuVirtualAddress`. [d3dkmthk: D3DKMT_FREEGPUVIRTUALADDRESS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_FREEGPUVIRTUALADDRESS {
    pub hAdapter: D3DKMT_HANDLE,
    /// As mapped or reserved.
    pub BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
    /// Bytes.
    pub Size: D3DGPU_SIZE_T,
}

/// No flags are defined: reserved, zero. [d3dukmdt: D3DDDICB_LOCK2FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDICB_LOCK2FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `D3DKMTLock2`. [d3dkmthk: D3DKMT_LOCK2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_LOCK2 {
    pub hDevice: D3DKMT_HANDLE,
    pub hAllocation: D3DKMT_HANDLE,
    pub Flags: D3DDDICB_LOCK2FLAGS,
    /// Out: CPU address, the same until unlocked wherever the allocation moves.
    pub pData: *mut c_void,
}

/// Argument of `D3DKMTUnlock2`. [d3dkmthk: D3DKMT_UNLOCK2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_UNLOCK2 {
    pub hDevice: D3DKMT_HANDLE,
    pub hAllocation: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTInvalidateCache`, for memory that the CPU caches without coherence.
/// [d3dkmthk: D3DKMT_INVALIDATECACHE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_INVALIDATECACHE {
    pub hDevice: D3DKMT_HANDLE,
    pub hAllocation: D3DKMT_HANDLE,
    pub Offset: D3DKMT_SIZE_T,
    pub Length: D3DKMT_SIZE_T,
}

/// Dedicated or shared memory. [d3dkmthk: D3DKMT_MEMORY_SEGMENT_GROUP]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_MEMORY_SEGMENT_GROUP(pub i32);

impl D3DKMT_MEMORY_SEGMENT_GROUP {
    pub const D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL: Self = Self(0);
    pub const D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL: Self = Self(1);
}

/// Argument of `D3DKMTQueryVideoMemoryInfo`: budget and usage of a process in bytes.
/// [d3dkmthk: D3DKMT_QUERYVIDEOMEMORYINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYVIDEOMEMORYINFO {
    /// NULL for the calling process.
    pub hProcess: HANDLE,
    pub hAdapter: D3DKMT_HANDLE,
    pub MemorySegmentGroup: D3DKMT_MEMORY_SEGMENT_GROUP,
    pub Budget: u64,
    pub CurrentUsage: u64,
    pub CurrentReservation: u64,
    pub AvailableForReservation: u64,
    pub PhysicalAdapterIndex: u32,
}

/// Argument of `D3DKMTChangeVideoMemoryReservation`. [d3dkmthk: D3DKMT_CHANGEVIDEOMEMORYRESERVATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CHANGEVIDEOMEMORYRESERVATION {
    /// NULL for the calling process.
    pub hProcess: HANDLE,
    pub hAdapter: D3DKMT_HANDLE,
    pub MemorySegmentGroup: D3DKMT_MEMORY_SEGMENT_GROUP,
    /// Bytes that the process wants to be sure of from now on.
    pub Reservation: u64,
    pub PhysicalAdapterIndex: u32,
}

/// Why memory should be given back. [d3dukmdt: D3DDDI_TRIMRESIDENCYSET_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_TRIMRESIDENCYSET_FLAGS {
    /// Allocations that were not used since the last period are to be evicted.
    pub PeriodicTrim: bool,
    /// A period begins now; excludes PeriodicTrim.
    pub RestartPeriodicTrim: bool,
    /// The process is over its budget.
    pub TrimToBudget: bool,
    #[bits(29)]
    __Reserved: u32,
}

/// Argument of a trim notification. [d3dkmthk: D3DKMT_TRIMNOTIFICATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_TRIMNOTIFICATION {
    pub Context: *mut c_void,
    pub Flags: D3DDDI_TRIMRESIDENCYSET_FLAGS,
    /// With TrimToBudget: what should be given back.
    pub NumBytesToTrim: u64,
}

/// Function of user mode. [d3dkmthk: PFND3DKMT_TRIMNOTIFICATIONCALLBACK]
pub type PFND3DKMT_TRIMNOTIFICATIONCALLBACK = Option<unsafe extern "win64" fn(*mut D3DKMT_TRIMNOTIFICATION)>;

/// Argument of `D3DKMTRegisterTrimNotification`. [d3dkmthk: D3DKMT_REGISTERTRIMNOTIFICATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_REGISTERTRIMNOTIFICATION {
    pub AdapterLuid: LUID,
    pub hDevice: D3DKMT_HANDLE,
    pub Callback: PFND3DKMT_TRIMNOTIFICATIONCALLBACK,
    pub Context: *mut c_void,
    /// Out: for `D3DKMTUnregisterTrimNotification`.
    pub Handle: *mut c_void,
}

/// Argument of `D3DKMTUnregisterTrimNotification`. [d3dkmthk: D3DKMT_UNREGISTERTRIMNOTIFICATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_UNREGISTERTRIMNOTIFICATION {
    pub Handle: *mut c_void,
    pub Callback: PFND3DKMT_TRIMNOTIFICATIONCALLBACK,
}

/// Argument of a notification that a budget has changed. [d3dkmthk: D3DKMT_BUDGETCHANGENOTIFICATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_BUDGETCHANGENOTIFICATION {
    pub Context: *mut c_void,
    /// Bytes of the device's memory that the process should keep resident at most from now on.
    pub Budget: u64,
}

/// Function of user mode. [d3dkmthk: PFND3DKMT_BUDGETCHANGENOTIFICATIONCALLBACK]
pub type PFND3DKMT_BUDGETCHANGENOTIFICATIONCALLBACK =
    Option<unsafe extern "win64" fn(*mut D3DKMT_BUDGETCHANGENOTIFICATION)>;

/// Argument of `D3DKMTRegisterBudgetChangeNotification`. [d3dkmthk: D3DKMT_REGISTERBUDGETCHANGENOTIFICATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_REGISTERBUDGETCHANGENOTIFICATION {
    pub hDevice: D3DKMT_HANDLE,
    pub Callback: PFND3DKMT_BUDGETCHANGENOTIFICATIONCALLBACK,
    pub Context: *mut c_void,
    /// Out: for `D3DKMTUnregisterBudgetChangeNotification`.
    pub Handle: *mut c_void,
}

/// Argument of `D3DKMTUnregisterBudgetChangeNotification`. [d3dkmthk: D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION {
    pub Handle: *mut c_void,
}

zeroed! {
    D3DDDI_PAGINGQUEUE_PRIORITY,
    D3DKMT_CREATEPAGINGQUEUE,
    D3DDDI_DESTROYPAGINGQUEUE,
    D3DKMT_STANDARDALLOCATIONTYPE,
    D3DKMT_STANDARDALLOCATION_EXISTINGHEAP,
    D3DKMT_CREATESTANDARDALLOCATIONFLAGS,
    D3DKMT_CREATESTANDARDALLOCATION,
    D3DDDI_ALLOCATIONINFO_Flags,
    D3DDDI_ALLOCATIONINFO,
    D3DDDI_ALLOCATIONINFO2_Union,
    D3DDDI_ALLOCATIONINFO2_Flags,
    D3DDDI_ALLOCATIONINFO2_Union1,
    D3DDDI_ALLOCATIONINFO2,
    D3DKMT_CREATEALLOCATIONFLAGS,
    D3DKMT_CREATEALLOCATION_Union,
    D3DKMT_CREATEALLOCATION_Union1,
    D3DKMT_CREATEALLOCATION,
    D3DDDICB_DESTROYALLOCATION2FLAGS,
    D3DKMT_DESTROYALLOCATION2,
    D3DDDI_MAKERESIDENT_FLAGS,
    D3DDDI_MAKERESIDENT,
    D3DDDI_EVICT_FLAGS,
    D3DKMT_EVICT,
    D3DKMT_OFFER_FLAGS,
    D3DKMT_OFFERALLOCATIONS,
    D3DKMT_RECLAIMALLOCATIONS2_Union,
    D3DKMT_RECLAIMALLOCATIONS2,
    D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
    D3DDDI_MAPGPUVIRTUALADDRESS,
    D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE,
    D3DDDI_RESERVEGPUVIRTUALADDRESS_Union,
    D3DDDI_RESERVEGPUVIRTUALADDRESS_Union1,
    D3DDDI_RESERVEGPUVIRTUALADDRESS_Union2,
    D3DDDI_RESERVEGPUVIRTUALADDRESS_Union3,
    D3DDDI_RESERVEGPUVIRTUALADDRESS,
    D3DKMT_FREEGPUVIRTUALADDRESS,
    D3DDDICB_LOCK2FLAGS,
    D3DKMT_LOCK2,
    D3DKMT_UNLOCK2,
    D3DKMT_INVALIDATECACHE,
    D3DKMT_MEMORY_SEGMENT_GROUP,
    D3DKMT_QUERYVIDEOMEMORYINFO,
    D3DKMT_CHANGEVIDEOMEMORYRESERVATION,
    D3DDDI_TRIMRESIDENCYSET_FLAGS,
    D3DKMT_TRIMNOTIFICATION,
    D3DKMT_REGISTERTRIMNOTIFICATION,
    D3DKMT_UNREGISTERTRIMNOTIFICATION,
    D3DKMT_BUDGETCHANGENOTIFICATION,
    D3DKMT_REGISTERBUDGETCHANGENOTIFICATION,
    D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION,
}

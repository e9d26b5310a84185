//! Allocations in the forms of before paging queues, their priorities and residency, and what a process offers back.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::km::D3DDDI_SEGMENTPREFERENCE;
use crate::types::*;

/// Argument of `D3DKMTDestroyAllocation`. [d3dkmthk: D3DKMT_DESTROYALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DESTROYALLOCATION {
    pub hDevice: D3DKMT_HANDLE,
    pub hResource: D3DKMT_HANDLE,
    pub phAllocationList: *mut D3DKMT_HANDLE,
    pub AllocationCount: u32,
}

/// Where an allocation is. [d3dkmthk: D3DKMT_ALLOCATIONRESIDENCYSTATUS]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_ALLOCATIONRESIDENCYSTATUS(pub i32);

impl D3DKMT_ALLOCATIONRESIDENCYSTATUS {
    pub const D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY: Self = Self(1);
    pub const D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY: Self = Self(2);
    pub const D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT: Self = Self(3);
}

/// Argument of `D3DKMTQueryAllocationResidency`. [d3dkmthk: D3DKMT_QUERYALLOCATIONRESIDENCY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYALLOCATIONRESIDENCY {
    pub hDevice: D3DKMT_HANDLE,
    pub hResource: D3DKMT_HANDLE,
    pub phAllocationList: *mut D3DKMT_HANDLE,
    pub AllocationCount: u32,
    pub pResidencyStatus: *mut D3DKMT_ALLOCATIONRESIDENCYSTATUS,
}

/// Argument of `D3DKMTSetAllocationPriority`. [d3dkmthk: D3DKMT_SETALLOCATIONPRIORITY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SETALLOCATIONPRIORITY {
    pub hDevice: D3DKMT_HANDLE,
    pub hResource: D3DKMT_HANDLE,
    pub phAllocationList: *mut D3DKMT_HANDLE,
    pub AllocationCount: u32,
    pub pPriorities: *mut u32,
}

/// Argument of `D3DKMTGetAllocationPriority`. [d3dkmthk: D3DKMT_GETALLOCATIONPRIORITY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_GETALLOCATIONPRIORITY {
    pub hDevice: D3DKMT_HANDLE,
    pub hResource: D3DKMT_HANDLE,
    pub phAllocationList: *mut D3DKMT_HANDLE,
    pub AllocationCount: u32,
    pub pPriorities: *mut u32,
}

/// Argument of `D3DKMTReclaimAllocations`. [d3dkmthk: D3DKMT_RECLAIMALLOCATIONS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_RECLAIMALLOCATIONS {
    pub hDevice: D3DKMT_HANDLE,
    pub pResources: *mut D3DKMT_HANDLE,
    pub HandleList: *mut D3DKMT_HANDLE,
    pub pDiscarded: *mut i32,
    pub NumAllocations: u32,
}

/// How memory that a process offers is given back. [d3dkmthk: D3DKMT_TRIMPROCESSCOMMITMENT_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_TRIMPROCESSCOMMITMENT_FLAGS {
    pub Lazy: bool,
    pub OnlyRepurposed: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// Argument of `D3DKMTTrimProcessCommitment`. [d3dkmthk: D3DKMT_TRIMPROCESSCOMMITMENT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_TRIMPROCESSCOMMITMENT {
    pub cbSize: u32,
    pub hProcess: HANDLE,
    pub Flags: D3DKMT_TRIMPROCESSCOMMITMENT_FLAGS,
    pub DecommitRequested: u64,
    pub NumBytesDecommitted: u64,
}

/// Argument of `D3DKMTQueryProcessOfferInfo`. [d3dkmthk: D3DKMT_QUERYPROCESSOFFERINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYPROCESSOFFERINFO {
    pub cbSize: u32,
    pub hProcess: HANDLE,
    pub DecommitUniqueness: u64,
    pub DecommittableBytes: u64,
}

/// New properties of an allocation. [d3dukmdt: D3DDDI_UPDATEALLOCPROPERTY_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_UPDATEALLOCPROPERTY_FLAGS {
    pub AccessedPhysically: bool,
    pub Unmoveable: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// Bits of [`D3DDDI_UPDATEALLOCPROPERTY`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_UPDATEALLOCPROPERTY_Bits {
    pub SetAccessedPhysically: bool,
    pub SetSupportedSegmentSet: bool,
    pub SetPreferredSegment: bool,
    pub SetUnmoveable: bool,
    #[bits(28)]
    __Reserved: u32,
}

/// Argument of `D3DKMTUpdateAllocationProperty`. [d3dukmdt: D3DDDI_UPDATEALLOCPROPERTY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_UPDATEALLOCPROPERTY {
    pub hPagingQueue: D3DKMT_HANDLE,
    pub hAllocation: D3DKMT_HANDLE,
    pub SupportedSegmentSet: u32,
    pub PreferredSegment: D3DDDI_SEGMENTPREFERENCE,
    pub Flags: D3DDDI_UPDATEALLOCPROPERTY_FLAGS,
    pub PagingFenceValue: u64,
    pub bits: D3DDDI_UPDATEALLOCPROPERTY_Bits,
}

/// How an allocation is locked. [d3dukmdt: D3DDDICB_LOCKFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDICB_LOCKFLAGS {
    pub ReadOnly: bool,
    pub WriteOnly: bool,
    pub DonotWait: bool,
    pub IgnoreSync: bool,
    pub LockEntire: bool,
    pub DonotEvict: bool,
    pub AcquireAperture: bool,
    pub Discard: bool,
    pub NoExistingReference: bool,
    pub UseAlternateVA: bool,
    pub IgnoreReadSync: bool,
    #[bits(21)]
    __Reserved: u32,
}

/// Argument of `D3DKMTLock`. [d3dkmthk: D3DKMT_LOCK]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_LOCK {
    pub hDevice: D3DKMT_HANDLE,
    pub hAllocation: D3DKMT_HANDLE,
    pub PrivateDriverData: u32,
    pub NumPages: u32,
    pub pPages: *mut u32,
    pub pData: *mut c_void,
    pub Flags: D3DDDICB_LOCKFLAGS,
    pub GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// Argument of `D3DKMTUnlock`. [d3dkmthk: D3DKMT_UNLOCK]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_UNLOCK {
    pub hDevice: D3DKMT_HANDLE,
    pub NumAllocations: u32,
    pub phAllocations: *mut D3DKMT_HANDLE,
}

/// Argument of `D3DKMTFlushHeapTransitions`. [d3dkmthk: D3DKMT_FLUSHHEAPTRANSITIONS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_FLUSHHEAPTRANSITIONS {
    pub hAdapter: D3DKMT_HANDLE,
}

zeroed! {
    D3DKMT_DESTROYALLOCATION,
    D3DKMT_ALLOCATIONRESIDENCYSTATUS,
    D3DKMT_QUERYALLOCATIONRESIDENCY,
    D3DKMT_SETALLOCATIONPRIORITY,
    D3DKMT_GETALLOCATIONPRIORITY,
    D3DKMT_RECLAIMALLOCATIONS,
    D3DKMT_TRIMPROCESSCOMMITMENT_FLAGS,
    D3DKMT_TRIMPROCESSCOMMITMENT,
    D3DKMT_QUERYPROCESSOFFERINFO,
    D3DDDI_UPDATEALLOCPROPERTY_FLAGS,
    D3DDDI_UPDATEALLOCPROPERTY_Bits,
    D3DDDI_UPDATEALLOCPROPERTY,
    D3DDDICB_LOCKFLAGS,
    D3DKMT_LOCK,
    D3DKMT_UNLOCK,
    D3DKMT_FLUSHHEAPTRANSITIONS,
}

//! Changes of GPU virtual addresses in the order of the work of a context.

use bitfield_struct::bitfield;

use crate::kmt::D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE;
use crate::types::{D3DGPU_SIZE_T, D3DGPU_VIRTUAL_ADDRESS, D3DKMT_HANDLE, D3DKMT_SIZE_T};

/// What an operation does to a range. [d3dukmdt: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE(pub i32);

impl D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE {
    pub const D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP: Self = Self(0);
    pub const D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP: Self = Self(1);
    pub const D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY: Self = Self(2);
    pub const D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT: Self = Self(3);
}

/// Shows an allocation, for reads and writes. Addresses and sizes are in bytes, in whole pages.
/// [d3dukmdt: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION::Map]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Map {
    pub BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub SizeInBytes: D3DGPU_SIZE_T,
    pub hAllocation: D3DKMT_HANDLE,
    pub AllocationOffsetInBytes: D3DGPU_SIZE_T,
    /// Part of the allocation, which fills the range over and over; 0 for as much as the range.
    pub AllocationSizeInBytes: D3DGPU_SIZE_T,
}

/// Shows an allocation, with a protection. [d3dukmdt: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION::MapProtect]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_MapProtect {
    pub BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub SizeInBytes: D3DGPU_SIZE_T,
    pub hAllocation: D3DKMT_HANDLE,
    pub AllocationOffsetInBytes: D3DGPU_SIZE_T,
    /// As for a map operation.
    pub AllocationSizeInBytes: D3DGPU_SIZE_T,
    pub Protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
    /// Bits for the driver, passed on to page-table updates.
    pub DriverProtection: u64,
}

/// Takes mappings away: reads give zero afterwards, or every access faults.
/// [d3dukmdt: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION::Unmap]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Unmap {
    pub BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub SizeInBytes: D3DGPU_SIZE_T,
    /// Zero or NoAccess.
    pub Protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
}

/// Shows at one range what another one shows; they may intersect.
/// [d3dukmdt: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION::Copy]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Copy {
    pub SourceAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub SizeInBytes: D3DGPU_SIZE_T,
    pub DestAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// Union of [`D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Union {
    pub Map: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Map,
    pub MapProtect: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_MapProtect,
    pub Unmap: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Unmap,
    pub Copy: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Copy,
}

/// One change of a range of a reserved region. [d3dukmdt: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION {
    /// Selects the arm of the union.
    pub OperationType: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE,
    pub u: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Union,
}

/// Variants of an update. [d3dkmthk: D3DKMT_UPDATEGPUVIRTUALADDRESS::Flags]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_UPDATEGPUVIRTUALADDRESS_Flags {
    /// Does not wait for the fence, which is signalled all the same.
    pub DoNotWait: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Argument of `D3DKMTUpdateGpuVirtualAddress`. [d3dkmthk: D3DKMT_UPDATEGPUVIRTUALADDRESS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_UPDATEGPUVIRTUALADDRESS {
    pub hDevice: D3DKMT_HANDLE,
    /// The context in whose order the operations come; its physical adapter is the one whose page tables change.
    pub hContext: D3DKMT_HANDLE,
    pub hFenceObject: D3DKMT_HANDLE,
    pub NumOperations: u32,
    /// Applied in this order; their ranges may intersect.
    pub Operations: *mut D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION,
    pub Reserved0: D3DKMT_SIZE_T,
    pub Reserved1: u64,
    /// Value of the fence that is waited for; it gets the next one when the operations are done.
    pub FenceValue: u64,
    pub Flags: D3DKMT_UPDATEGPUVIRTUALADDRESS_Flags,
}

zeroed! {
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Map,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_MapProtect,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Unmap,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Copy,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_Union,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION,
    D3DKMT_UPDATEGPUVIRTUALADDRESS_Flags,
    D3DKMT_UPDATEGPUVIRTUALADDRESS,
}

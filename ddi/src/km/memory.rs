//! Root page tables, the CPU host aperture, and handles that the operating system resolves.

use bitfield_struct::bitfield;

use crate::km::D3DGPU_PHYSICAL_ADDRESS;
use crate::types::{D3DKMT_HANDLE, HANDLE};

/// Argument of `DxgkDdiSetRootPageTable`: the context does not run during the call.
/// [d3dkmddi: DXGKARG_SETROOTPAGETABLE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SETROOTPAGETABLE {
    pub hContext: HANDLE,
    /// Root table as a segment and offset.
    pub Address: D3DGPU_PHYSICAL_ADDRESS,
    /// Valid entries; access beyond them faults.
    pub NumEntries: u32,
}

/// Argument of `DxgkDdiGetRootPageTableSize`; only asked with two levels. [d3dkmddi: DXGKARG_GETROOTPAGETABLESIZE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_GETROOTPAGETABLESIZE {
    /// In: entries wanted; out: entries given.
    pub NumberOfPte: u32,
    pub PhysicalAdapterIndex: u32,
}

/// Argument of `DxgkDdiMapCpuHostAperture`: pages of a segment appear in its window.
/// [d3dkmddi: DXGKARG_MAPCPUHOSTAPERTURE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_MAPCPUHOSTAPERTURE {
    pub hAllocation: HANDLE,
    pub SegmentId: u16,
    pub PhysicalAdapterIndex: u16,
    /// Elements of both arrays, 4 KiB each.
    pub NumberOfPages: u64,
    /// Page numbers in the window.
    pub pCpuHostAperturePages: *mut u32,
    /// Page numbers in the segment.
    pub pMemorySegmentPages: *mut u64,
}

/// Argument of `DxgkDdiUnmapCpuHostAperture`. [d3dkmddi: DXGKARG_UNMAPCPUHOSTAPERTURE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_UNMAPCPUHOSTAPERTURE {
    pub NumberOfPages: u64,
    pub pCpuHostAperturePages: *mut u32,
    pub SegmentId: u16,
    pub PhysicalAdapterIndex: u16,
}

/// Kind of a handle that is resolved. [d3dkmddi: DXGK_HANDLE_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_HANDLE_TYPE(pub i32);

impl DXGK_HANDLE_TYPE {
    pub const DXGK_HANDLE_ALLOCATION: Self = Self(1);
    pub const DXGK_HANDLE_RESOURCE: Self = Self(2);
}

/// Variants of resolving a handle. [d3dkmddi: DXGKCB_GETHANDLEDATAFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKCB_GETHANDLEDATAFLAGS {
    /// Wants the driver's handle in the device instead of the adapter's.
    pub DeviceSpecific: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Argument of `DxgkCbGetHandleData` and `DxgkCbAcquireHandleData`. [d3dkmddi: DXGKARGCB_GETHANDLEDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_GETHANDLEDATA {
    pub hObject: D3DKMT_HANDLE,
    pub Type: DXGK_HANDLE_TYPE,
    pub Flags: DXGKCB_GETHANDLEDATAFLAGS,
}

/// Argument of `DxgkCbEnumHandleChildren`. [d3dkmddi: DXGKARGCB_ENUMHANDLECHILDREN]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_ENUMHANDLECHILDREN {
    /// The resource.
    pub hObject: D3DKMT_HANDLE,
    /// Place of the allocation among those of the resource, from 0 on.
    pub Index: u32,
}

/// Argument of `DxgkCbReleaseHandleData`. [d3dkmddi: DXGKARGCB_RELEASEHANDLEDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_RELEASEHANDLEDATA {
    pub ReleaseHandle: HANDLE,
    pub Type: DXGK_HANDLE_TYPE,
}

zeroed! {
    DXGKARG_SETROOTPAGETABLE,
    DXGKARG_GETROOTPAGETABLESIZE,
    DXGKARG_MAPCPUHOSTAPERTURE,
    DXGKARG_UNMAPCPUHOSTAPERTURE,
    DXGK_HANDLE_TYPE,
    DXGKCB_GETHANDLEDATAFLAGS,
    DXGKARGCB_GETHANDLEDATA,
    DXGKARGCB_ENUMHANDLECHILDREN,
    DXGKARGCB_RELEASEHANDLEDATA,
}

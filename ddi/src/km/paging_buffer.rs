//! The argument of `DxgkDdiBuildPagingBuffer` as a whole, with the arms that C leaves unnamed.

use core::ffi::c_void;

use crate::km::{
    DXGK_ADL, DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES, DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL,
    DXGK_BUILDPAGINGBUFFER_FLUSHTLB, DXGK_BUILDPAGINGBUFFER_MAPMMU, DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY,
    DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC, DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY,
    DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2, DXGK_BUILDPAGINGBUFFER_OPERATION,
    DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE, DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL,
    DXGK_BUILDPAGINGBUFFER_UNMAPMMU, DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION,
    DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE, DXGK_DISCARDCONTENTFLAGS, DXGK_MAPAPERTUREFLAGS, DXGK_TRANSFERFLAGS,
};
use crate::types::{D3DGPU_VIRTUAL_ADDRESS, HANDLE, LARGE_INTEGER, MDL, PHYSICAL_ADDRESS};

/// Union of [`DXGKARG_BUILDPAGINGBUFFER_Transfer_Source`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGKARG_BUILDPAGINGBUFFER_Transfer_Source_Union {
    pub SegmentAddress: LARGE_INTEGER,
    pub pMdl: *mut MDL,
}

/// Where a physical transfer comes from: segment 0 is system memory.
/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::Transfer::Source]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_Transfer_Source {
    pub SegmentId: u32,
    pub u: DXGKARG_BUILDPAGINGBUFFER_Transfer_Source_Union,
}

/// Union of [`DXGKARG_BUILDPAGINGBUFFER_Transfer_Destination`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGKARG_BUILDPAGINGBUFFER_Transfer_Destination_Union {
    pub SegmentAddress: LARGE_INTEGER,
    pub pMdl: *mut MDL,
}

/// Where a physical transfer goes to: segment 0 is system memory.
/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::Transfer::Destination]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_Transfer_Destination {
    pub SegmentId: u32,
    pub u: DXGKARG_BUILDPAGINGBUFFER_Transfer_Destination_Union,
}

/// Physical transfer of WDDM 1. [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::Transfer]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_Transfer {
    pub hAllocation: HANDLE,
    pub TransferOffset: u32,
    pub TransferSize: usize,
    pub Source: DXGKARG_BUILDPAGINGBUFFER_Transfer_Source,
    pub Destination: DXGKARG_BUILDPAGINGBUFFER_Transfer_Destination,
    pub Flags: DXGK_TRANSFERFLAGS,
    pub MdlOffset: u32,
}

/// Where a physical fill goes to. [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::Fill::Destination]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_Fill_Destination {
    pub SegmentId: u32,
    pub SegmentAddress: LARGE_INTEGER,
}

/// Physical fill of WDDM 1. [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::Fill]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_Fill {
    pub hAllocation: HANDLE,
    pub FillSize: usize,
    pub FillPattern: u32,
    pub Destination: DXGKARG_BUILDPAGINGBUFFER_Fill_Destination,
}

/// Contents need not be kept (WDDM 1). [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::DiscardContent]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_DiscardContent {
    pub hAllocation: HANDLE,
    pub Flags: DXGK_DISCARDCONTENTFLAGS,
    pub SegmentId: u32,
    pub SegmentAddress: PHYSICAL_ADDRESS,
}

/// Reads an address so that earlier writes arrive (WDDM 1). [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::ReadPhysical]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_ReadPhysical {
    pub SegmentId: u32,
    pub PhysicalAddress: PHYSICAL_ADDRESS,
}

/// Writes an address to order accesses (WDDM 1). [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::WritePhysical]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_WritePhysical {
    pub SegmentId: u32,
    pub PhysicalAddress: PHYSICAL_ADDRESS,
}

/// Maps pages of system memory into an aperture. [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::MapApertureSegment]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_MapApertureSegment {
    pub hDevice: HANDLE,
    pub hAllocation: HANDLE,
    pub SegmentId: u32,
    pub OffsetInPages: usize,
    pub NumberOfPages: usize,
    /// The pages, from page `MdlOffset`.
    pub pMdl: *mut MDL,
    pub Flags: DXGK_MAPAPERTUREFLAGS,
    pub MdlOffset: u32,
}

/// Takes pages out of an aperture. [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::UnmapApertureSegment]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_UnmapApertureSegment {
    pub hDevice: HANDLE,
    pub hAllocation: HANDLE,
    pub SegmentId: u32,
    pub OffsetInPages: usize,
    pub NumberOfPages: usize,
    /// Physical address of the page that the range shows after the unmap.
    pub DummyPage: PHYSICAL_ADDRESS,
}

/// Physical transfer of WDDM 1 of an allocation that a swizzling range shows.
/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::SpecialLockTransfer]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_SpecialLockTransfer {
    pub hAllocation: HANDLE,
    pub TransferOffset: u32,
    pub TransferSize: usize,
    pub Source: DXGKARG_BUILDPAGINGBUFFER_Transfer_Source,
    pub Destination: DXGKARG_BUILDPAGINGBUFFER_Transfer_Destination,
    pub Flags: DXGK_TRANSFERFLAGS,
    pub SwizzlingRangeId: u32,
    pub SwizzlingRangeData: u32,
}

/// Union of [`DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination_Union {
    pub SegmentAddress: LARGE_INTEGER,
    pub pMdl: *mut MDL,
}

/// Where a context resource lies. [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::InitContextResource::Destination]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination {
    pub SegmentId: u32,
    pub u: DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination_Union,
    pub VirtualAddress: *mut c_void,
    pub GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// Gives a context resource its first contents. [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::InitContextResource]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_InitContextResource {
    pub hAllocation: HANDLE,
    pub Destination: DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination,
}

/// Maps pages into an aperture by an address descriptor list.
/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::MapApertureSegment2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_MapApertureSegment2 {
    pub hDevice: HANDLE,
    pub hAllocation: HANDLE,
    pub SegmentId: u32,
    pub OffsetInPages: usize,
    pub NumberOfPages: usize,
    pub Adl: DXGK_ADL,
    pub Flags: DXGK_MAPAPERTUREFLAGS,
    pub AdlOffset: u32,
    pub CpuVisibleAddress: *mut c_void,
}

/// Gives the union its size. [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::Reserved]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_Reserved {
    pub Reserved: [u32; 64],
}

/// Union of [`DXGKARG_BUILDPAGINGBUFFER`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGKARG_BUILDPAGINGBUFFER_Union {
    pub Transfer: DXGKARG_BUILDPAGINGBUFFER_Transfer,
    pub Fill: DXGKARG_BUILDPAGINGBUFFER_Fill,
    pub DiscardContent: DXGKARG_BUILDPAGINGBUFFER_DiscardContent,
    pub ReadPhysical: DXGKARG_BUILDPAGINGBUFFER_ReadPhysical,
    pub WritePhysical: DXGKARG_BUILDPAGINGBUFFER_WritePhysical,
    pub MapApertureSegment: DXGKARG_BUILDPAGINGBUFFER_MapApertureSegment,
    pub UnmapApertureSegment: DXGKARG_BUILDPAGINGBUFFER_UnmapApertureSegment,
    pub SpecialLockTransfer: DXGKARG_BUILDPAGINGBUFFER_SpecialLockTransfer,
    pub InitContextResource: DXGKARG_BUILDPAGINGBUFFER_InitContextResource,
    pub TransferVirtual: DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL,
    pub FillVirtual: DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL,
    pub UpdatePageTable: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE,
    pub FlushTlb: DXGK_BUILDPAGINGBUFFER_FLUSHTLB,
    pub CopyPageTableEntries: DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES,
    pub UpdateContextAllocation: DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION,
    pub NotifyResidency: DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY,
    pub SignalMonitoredFence: DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE,
    pub MapApertureSegment2: DXGKARG_BUILDPAGINGBUFFER_MapApertureSegment2,
    pub NotifyFenceResidency: DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY,
    pub MmapMmu: DXGK_BUILDPAGINGBUFFER_MAPMMU,
    pub UnmapMmu: DXGK_BUILDPAGINGBUFFER_UNMAPMMU,
    pub NotifyResidency2: DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2,
    pub NotifyAllocation: DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC,
    pub Reserved: DXGKARG_BUILDPAGINGBUFFER_Reserved,
}

/// Argument of `DxgkDdiBuildPagingBuffer`: the driver turns one operation into commands. Answers besides success are
/// busy, and buffer too small. [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER {
    /// In: where commands may be written; out: behind the last one. NULL: do it by the CPU at once.
    pub pDmaBuffer: *mut c_void,
    /// Bytes left.
    pub DmaSize: u32,
    /// The same for the driver's own data about the buffer.
    pub pDmaBufferPrivateData: *mut c_void,
    pub DmaBufferPrivateDataSize: u32,
    pub Operation: DXGK_BUILDPAGINGBUFFER_OPERATION,
    /// 0 at first; where to go on after a buffer that was too small.
    pub MultipassOffset: u32,
    pub u: DXGKARG_BUILDPAGINGBUFFER_Union,
    /// The driver's handle of the context the buffer runs in.
    pub hSystemContext: HANDLE,
    /// Address of the buffer in the paging process.
    pub DmaBufferGpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DmaBufferWriteOffset: u32,
}

zeroed! {
    DXGKARG_BUILDPAGINGBUFFER_Transfer_Source_Union,
    DXGKARG_BUILDPAGINGBUFFER_Transfer_Source,
    DXGKARG_BUILDPAGINGBUFFER_Transfer_Destination_Union,
    DXGKARG_BUILDPAGINGBUFFER_Transfer_Destination,
    DXGKARG_BUILDPAGINGBUFFER_Transfer,
    DXGKARG_BUILDPAGINGBUFFER_Fill_Destination,
    DXGKARG_BUILDPAGINGBUFFER_Fill,
    DXGKARG_BUILDPAGINGBUFFER_DiscardContent,
    DXGKARG_BUILDPAGINGBUFFER_ReadPhysical,
    DXGKARG_BUILDPAGINGBUFFER_WritePhysical,
    DXGKARG_BUILDPAGINGBUFFER_MapApertureSegment,
    DXGKARG_BUILDPAGINGBUFFER_UnmapApertureSegment,
    DXGKARG_BUILDPAGINGBUFFER_SpecialLockTransfer,
    DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination_Union,
    DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination,
    DXGKARG_BUILDPAGINGBUFFER_InitContextResource,
    DXGKARG_BUILDPAGINGBUFFER_MapApertureSegment2,
    DXGKARG_BUILDPAGINGBUFFER_Reserved,
    DXGKARG_BUILDPAGINGBUFFER_Union,
    DXGKARG_BUILDPAGINGBUFFER,
}

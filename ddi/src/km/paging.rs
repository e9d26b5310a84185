//! `DxgkDdiBuildPagingBuffer`: every operation and its arguments.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::*;
#[allow(unused_imports)] // the modules share one flat namespace, as the headers do
use crate::{km::*, kmt::*};

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_OPERATION]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_BUILDPAGINGBUFFER_OPERATION(pub i32);

impl DXGK_BUILDPAGINGBUFFER_OPERATION {
    pub const DXGK_OPERATION_TRANSFER: Self = Self(0);
    pub const DXGK_OPERATION_FILL: Self = Self(1);
    pub const DXGK_OPERATION_DISCARD_CONTENT: Self = Self(2);
    pub const DXGK_OPERATION_READ_PHYSICAL: Self = Self(3);
    pub const DXGK_OPERATION_WRITE_PHYSICAL: Self = Self(4);
    pub const DXGK_OPERATION_MAP_APERTURE_SEGMENT: Self = Self(5);
    pub const DXGK_OPERATION_UNMAP_APERTURE_SEGMENT: Self = Self(6);
    pub const DXGK_OPERATION_SPECIAL_LOCK_TRANSFER: Self = Self(7);
    pub const DXGK_OPERATION_VIRTUAL_TRANSFER: Self = Self(8);
    pub const DXGK_OPERATION_VIRTUAL_FILL: Self = Self(9);
    pub const DXGK_OPERATION_INIT_CONTEXT_RESOURCE: Self = Self(10);
    pub const DXGK_OPERATION_UPDATE_PAGE_TABLE: Self = Self(11);
    pub const DXGK_OPERATION_FLUSH_TLB: Self = Self(12);
    pub const DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION: Self = Self(13);
    pub const DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES: Self = Self(14);
    pub const DXGK_OPERATION_NOTIFY_RESIDENCY: Self = Self(15);
    pub const DXGK_OPERATION_SIGNAL_MONITORED_FENCE: Self = Self(16);
    pub const DXGK_OPERATION_MAP_APERTURE_SEGMENT2: Self = Self(17);
    pub const DXGK_OPERATION_NOTIFY_FENCE_RESIDENCY: Self = Self(18);
    pub const DXGK_OPERATION_MAP_MMU: Self = Self(19);
    pub const DXGK_OPERATION_UNMAP_MMU: Self = Self(20);
    pub const DXGK_OPERATION_NOTIFY_RESIDENCY2: Self = Self(21);
    pub const DXGK_OPERATION_NOTIFY_ALLOC: Self = Self(22);
}

/// [d3dkmddi: DXGK_TRANSFERFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_TRANSFERFLAGS {
    pub Swizzle: bool,
    pub Unswizzle: bool,
    pub AllocationIsIdle: bool,
    pub TransferStart: bool,
    pub TransferEnd: bool,
    #[bits(27)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_DISCARDCONTENTFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_DISCARDCONTENTFLAGS {
    pub AllocationIsIdle: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_MAPAPERTUREFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_MAPAPERTUREFLAGS {
    pub CacheCoherent: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_MEMORY_TRANSFER_DIRECTION]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_MEMORY_TRANSFER_DIRECTION(pub i32);

impl DXGK_MEMORY_TRANSFER_DIRECTION {
    pub const DXGK_MEMORY_TRANSFER_LOCAL_TO_SYSTEM: Self = Self(0);
    pub const DXGK_MEMORY_TRANSFER_SYSTEM_TO_LOCAL: Self = Self(1);
    pub const DXGK_MEMORY_TRANSFER_LOCAL_TO_LOCAL: Self = Self(2);
}

/// [d3dkmddi: DXGK_TRANSFERVIRTUALFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_TRANSFERVIRTUALFLAGS {
    pub Src64KBPages: bool,
    pub Dst64KBPages: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL {
    pub hAllocation: HANDLE,
    pub AllocationOffsetInBytes: u64,
    pub TransferSizeInBytes: u64,
    pub SourceVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DestinationVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub SourcePageTable: D3DGPU_VIRTUAL_ADDRESS,
    pub TransferDirection: DXGK_MEMORY_TRANSFER_DIRECTION,
    pub Flags: DXGK_TRANSFERVIRTUALFLAGS,
    pub DestinationPageTable: D3DGPU_VIRTUAL_ADDRESS,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL {
    pub hAllocation: HANDLE,
    pub AllocationOffsetInBytes: u64,
    pub FillSizeInBytes: u64,
    pub FillPattern: u32,
    pub DestinationVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// [d3dukmdt: D3DGPU_PHYSICAL_ADDRESS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DGPU_PHYSICAL_ADDRESS {
    pub SegmentId: u32,
    pub Padding: u32,
    pub SegmentOffset: u64,
}

/// [d3dkmddi: DXGK_PAGETABLEUPDATEADDRESS]
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_PAGETABLEUPDATEADDRESS {
    pub CpuVirtual: *mut c_void,
    pub GpuPhysical: D3DGPU_PHYSICAL_ADDRESS,
    pub GpuVirtual: D3DGPU_VIRTUAL_ADDRESS,
}

/// Bits of [`DXGK_PTE`].
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct DXGK_PTE_Bits {
    pub Valid: bool,
    pub Zero: bool,
    pub CacheCoherent: bool,
    pub ReadOnly: bool,
    pub NoExecute: bool,
    #[bits(5)]
    pub Segment: u8,
    pub LargePage: bool,
    #[bits(6)]
    pub PhysicalAdapterIndex: u8,
    #[bits(2)]
    pub PageTablePageSize: u8,
    #[bits(1)]
    __SystemReserved0: u8,
    #[bits(44)]
    __Reserved: u64,
}

/// Union of [`DXGK_PTE`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_PTE_Union1 {
    pub PageAddress: u64,
    pub PageTableAddress: u64,
}

/// [d3dukmdt: DXGK_PTE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_PTE {
    pub Bits: DXGK_PTE_Bits,
    pub u1: DXGK_PTE_Union1,
}

/// [d3dkmddi: DXGK_UPDATEPAGETABLEFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_UPDATEPAGETABLEFLAGS {
    pub Repeat: bool,
    pub InitialUpdate: bool,
    pub NotifyEviction: bool,
    pub Use64KBPages: bool,
    pub NativeFence: bool,
    #[bits(27)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE {
    pub PageTableLevel: u32,
    pub hAllocation: HANDLE,
    pub PageTableAddress: DXGK_PAGETABLEUPDATEADDRESS,
    pub pPageTableEntries: *mut DXGK_PTE,
    pub StartIndex: u32,
    pub NumPageTableEntries: u32,
    pub Reserved0: u32,
    pub Flags: DXGK_UPDATEPAGETABLEFLAGS,
    pub DriverProtection: u64,
    pub AllocationOffsetInBytes: u64,
    pub hProcess: HANDLE,
    pub UpdateMode: DXGK_PAGETABLEUPDATEMODE,
    pub pPageTableEntries64KB: *mut DXGK_PTE,
    pub FirstPteVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_FLUSHTLB]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_FLUSHTLB {
    pub RootPageTableAddress: D3DGPU_PHYSICAL_ADDRESS,
    pub hProcess: HANDLE,
    pub StartVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub EndVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_COPY_RANGE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_COPY_RANGE {
    pub NumPageTableEntries: u32,
    pub SrcPageTableAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DstPageTableAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub SrcStartPteIndex: u32,
    pub DstStartPteIndex: u32,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES {
    pub NumRanges: u32,
    pub pRanges: *mut DXGK_BUILDPAGINGBUFFER_COPY_RANGE,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION {
    pub ContextAllocation: D3DGPU_VIRTUAL_ADDRESS,
    pub ContextAllocationSize: u64,
    pub pDriverPrivateData: *mut c_void,
    pub DriverPrivateDataSize: u32,
}

/// Bits of [`DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY_Bits {
    pub Resident: bool,
    #[bits(31)]
    __0: u32,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY {
    pub hAllocation: HANDLE,
    pub PhysicalAddress: D3DGPU_PHYSICAL_ADDRESS,
    pub Bits: DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY_Bits,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE {
    pub MonitoredFenceGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub MonitoredFenceValue: u64,
}

/// [d3dkmddi: DXGK_ADL_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_ADL_FLAGS {
    pub Contiguous: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Union of [`DXGK_ADL`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_ADL_Union {
    pub BasePageNumber: DXGK_PAGE_NUMBER,
    pub Pages: *mut DXGK_PAGE_NUMBER,
}

/// [d3dkmddi: DXGK_ADL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_ADL {
    pub PageCount: u32,
    pub Flags: DXGK_ADL_FLAGS,
    pub u: DXGK_ADL_Union,
}

/// [d3dkmddi: DXGK_FENCE_RESIDENCY_INFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_FENCE_RESIDENCY_INFO {
    pub hGlobalNativeFence: HANDLE,
    pub CurrentValuePhysicalAddress: D3DGPU_PHYSICAL_ADDRESS,
    pub MonitoredValuePhysicalAddress: D3DGPU_PHYSICAL_ADDRESS,
    pub CurrentValueKernelCpuVa: *mut c_void,
    pub MonitoredValueKernelCpuVa: *mut c_void,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY::Flags]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY_Flags {
    pub Reserved: u32,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY {
    pub NumFences: u32,
    pub Flags: DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY_Flags,
    pub FenceResidencyInfo: *mut DXGK_FENCE_RESIDENCY_INFO,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_MAPMMU]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_MAPMMU {
    pub hAllocation: HANDLE,
    pub VirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub MmuId: u16,
    pub SegmentId: u16,
    pub AllocationOffsetInPages: u32,
    pub Adl: DXGK_ADL,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UNMAPMMU]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_UNMAPMMU {
    pub hAllocation: HANDLE,
    pub VirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub MmuId: u16,
    pub Reserved0: u16,
    pub AllocationOffset: u32,
    pub NumberOfPages: u32,
}

/// Union of [`DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2_Union {
    pub PhysicalAddress: D3DGPU_PHYSICAL_ADDRESS,
    pub Mdl: *mut MDL,
}

/// Bits of [`DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2_Bits1 {
    pub Resident: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2 {
    pub hAllocation: HANDLE,
    pub AllocationOffsetInPages: u32,
    pub SizeInPages: u32,
    pub SegmentId: u16,
    pub Padding0: u16,
    pub u: DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2_Union,
    pub Bits1: DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2_Bits1,
}

/// [d3dkmddi: DXGK_NOTIFYALLOCFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_NOTIFYALLOCFLAGS {
    pub Eviction: bool,
    pub IoMmuUnmap: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC {
    pub hAllocation: HANDLE,
    pub hKmdProcessHandle: HANDLE,
    pub Flags: DXGK_NOTIFYALLOCFLAGS,
    pub OffsetInBytes: u64,
    pub SizeInBytes: u64,
    pub GpuVirtualAddressAtOffset: D3DGPU_VIRTUAL_ADDRESS,
}

/// Union of [`DXGKARG_BUILDPAGINGBUFFER_Transfer_Source`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGKARG_BUILDPAGINGBUFFER_Transfer_Source_Union {
    pub SegmentAddress: LARGE_INTEGER,
    pub pMdl: *mut MDL,
}

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

/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::Transfer::Destination]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_Transfer_Destination {
    pub SegmentId: u32,
    pub u: DXGKARG_BUILDPAGINGBUFFER_Transfer_Destination_Union,
}

/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::Transfer]
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

/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::Fill::Destination]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_Fill_Destination {
    pub SegmentId: u32,
    pub SegmentAddress: LARGE_INTEGER,
}

/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::Fill]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_Fill {
    pub hAllocation: HANDLE,
    pub FillSize: usize,
    pub FillPattern: u32,
    pub Destination: DXGKARG_BUILDPAGINGBUFFER_Fill_Destination,
}

/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::DiscardContent]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_DiscardContent {
    pub hAllocation: HANDLE,
    pub Flags: DXGK_DISCARDCONTENTFLAGS,
    pub SegmentId: u32,
    pub SegmentAddress: PHYSICAL_ADDRESS,
}

/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::ReadPhysical]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_ReadPhysical {
    pub SegmentId: u32,
    pub PhysicalAddress: PHYSICAL_ADDRESS,
}

/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::WritePhysical]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_WritePhysical {
    pub SegmentId: u32,
    pub PhysicalAddress: PHYSICAL_ADDRESS,
}

/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::MapApertureSegment]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_MapApertureSegment {
    pub hDevice: HANDLE,
    pub hAllocation: HANDLE,
    pub SegmentId: u32,
    pub OffsetInPages: usize,
    pub NumberOfPages: usize,
    pub pMdl: *mut MDL,
    pub Flags: DXGK_MAPAPERTUREFLAGS,
    pub MdlOffset: u32,
}

/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::UnmapApertureSegment]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_UnmapApertureSegment {
    pub hDevice: HANDLE,
    pub hAllocation: HANDLE,
    pub SegmentId: u32,
    pub OffsetInPages: usize,
    pub NumberOfPages: usize,
    pub DummyPage: PHYSICAL_ADDRESS,
}

/// Union of [`DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination_Union {
    pub SegmentAddress: LARGE_INTEGER,
    pub pMdl: *mut MDL,
}

/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::InitContextResource::Destination]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination {
    pub SegmentId: u32,
    pub u: DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination_Union,
    pub VirtualAddress: *mut c_void,
    pub GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::InitContextResource]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER_InitContextResource {
    pub hAllocation: HANDLE,
    pub Destination: DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination,
}

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

/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::Reserved]
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

/// [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDPAGINGBUFFER {
    pub pDmaBuffer: *mut c_void,
    pub DmaSize: u32,
    pub pDmaBufferPrivateData: *mut c_void,
    pub DmaBufferPrivateDataSize: u32,
    pub Operation: DXGK_BUILDPAGINGBUFFER_OPERATION,
    pub MultipassOffset: u32,
    pub u: DXGKARG_BUILDPAGINGBUFFER_Union,
    pub hSystemContext: HANDLE,
    pub DmaBufferGpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DmaBufferWriteOffset: u32,
}

zeroed! {
    DXGK_BUILDPAGINGBUFFER_OPERATION,
    DXGK_TRANSFERFLAGS,
    DXGK_DISCARDCONTENTFLAGS,
    DXGK_MAPAPERTUREFLAGS,
    DXGK_MEMORY_TRANSFER_DIRECTION,
    DXGK_TRANSFERVIRTUALFLAGS,
    DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL,
    DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL,
    D3DGPU_PHYSICAL_ADDRESS,
    DXGK_PAGETABLEUPDATEADDRESS,
    DXGK_PTE_Bits,
    DXGK_PTE_Union1,
    DXGK_PTE,
    DXGK_UPDATEPAGETABLEFLAGS,
    DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE,
    DXGK_BUILDPAGINGBUFFER_FLUSHTLB,
    DXGK_BUILDPAGINGBUFFER_COPY_RANGE,
    DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES,
    DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION,
    DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY_Bits,
    DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY,
    DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE,
    DXGK_ADL_FLAGS,
    DXGK_ADL_Union,
    DXGK_ADL,
    DXGK_FENCE_RESIDENCY_INFO,
    DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY_Flags,
    DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY,
    DXGK_BUILDPAGINGBUFFER_MAPMMU,
    DXGK_BUILDPAGINGBUFFER_UNMAPMMU,
    DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2_Union,
    DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2_Bits1,
    DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2,
    DXGK_NOTIFYALLOCFLAGS,
    DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC,
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
    DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination_Union,
    DXGKARG_BUILDPAGINGBUFFER_InitContextResource_Destination,
    DXGKARG_BUILDPAGINGBUFFER_InitContextResource,
    DXGKARG_BUILDPAGINGBUFFER_MapApertureSegment2,
    DXGKARG_BUILDPAGINGBUFFER_Reserved,
    DXGKARG_BUILDPAGINGBUFFER_Union,
    DXGKARG_BUILDPAGINGBUFFER,
}

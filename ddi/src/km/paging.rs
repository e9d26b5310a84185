//! Operations of `DxgkDdiBuildPagingBuffer` and their arguments.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::km::DXGK_PAGETABLEUPDATEMODE;
use crate::types::{D3DGPU_VIRTUAL_ADDRESS, DXGK_PAGE_NUMBER, HANDLE, MDL};

/// Operation of `DxgkDdiBuildPagingBuffer`; chooses the arm of `DXGKARG_BUILDPAGINGBUFFER`.
/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_OPERATION]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_BUILDPAGINGBUFFER_OPERATION(pub i32);

impl DXGK_BUILDPAGINGBUFFER_OPERATION {
    /// WDDM 1 only.
    pub const DXGK_OPERATION_TRANSFER: Self = Self(0);
    /// WDDM 1 only.
    pub const DXGK_OPERATION_FILL: Self = Self(1);
    /// WDDM 1 only.
    pub const DXGK_OPERATION_DISCARD_CONTENT: Self = Self(2);
    pub const DXGK_OPERATION_READ_PHYSICAL: Self = Self(3);
    pub const DXGK_OPERATION_WRITE_PHYSICAL: Self = Self(4);
    pub const DXGK_OPERATION_MAP_APERTURE_SEGMENT: Self = Self(5);
    pub const DXGK_OPERATION_UNMAP_APERTURE_SEGMENT: Self = Self(6);
    /// WDDM 1 only.
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

/// Variants of a physical transfer. [d3dkmddi: DXGK_TRANSFERFLAGS]
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

/// Variants of a discard. [d3dkmddi: DXGK_DISCARDCONTENTFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_DISCARDCONTENTFLAGS {
    pub AllocationIsIdle: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Variants of an aperture mapping. [d3dkmddi: DXGK_MAPAPERTUREFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_MAPAPERTUREFLAGS {
    pub CacheCoherent: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Between which memories a transfer goes; a hint for the driver. [d3dkmddi: DXGK_MEMORY_TRANSFER_DIRECTION]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_MEMORY_TRANSFER_DIRECTION(pub i32);

impl DXGK_MEMORY_TRANSFER_DIRECTION {
    pub const DXGK_MEMORY_TRANSFER_LOCAL_TO_SYSTEM: Self = Self(0);
    pub const DXGK_MEMORY_TRANSFER_SYSTEM_TO_LOCAL: Self = Self(1);
    pub const DXGK_MEMORY_TRANSFER_LOCAL_TO_LOCAL: Self = Self(2);
}

/// Page sizes of a virtual transfer. [d3dkmddi: DXGK_TRANSFERVIRTUALFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_TRANSFERVIRTUALFLAGS {
    pub Src64KBPages: bool,
    pub Dst64KBPages: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// Copies between addresses of the paging process. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL {
    /// For information; NULL for page tables and test buffers.
    pub hAllocation: HANDLE,
    /// For information; the addresses include it.
    pub AllocationOffsetInBytes: u64,
    pub TransferSizeInBytes: u64,
    /// In the paging process.
    pub SourceVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    /// In the paging process.
    pub DestinationVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub SourcePageTable: D3DGPU_VIRTUAL_ADDRESS,
    pub TransferDirection: DXGK_MEMORY_TRANSFER_DIRECTION,
    pub Flags: DXGK_TRANSFERVIRTUALFLAGS,
    pub DestinationPageTable: D3DGPU_VIRTUAL_ADDRESS,
}

/// Fills memory at an address of the paging process. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL {
    /// For information; NULL for page tables and test buffers.
    pub hAllocation: HANDLE,
    pub AllocationOffsetInBytes: u64,
    pub FillSizeInBytes: u64,
    /// Repeated over the range.
    pub FillPattern: u32,
    pub DestinationVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// Physical address of the GPU: an offset in a segment. [d3dukmdt: D3DGPU_PHYSICAL_ADDRESS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DGPU_PHYSICAL_ADDRESS {
    /// Counting from 1; 0 is system memory.
    pub SegmentId: u32,
    pub Padding: u32,
    pub SegmentOffset: u64,
}

/// Where entries are written, by update mode. [d3dkmddi: DXGK_PAGETABLEUPDATEADDRESS]
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_PAGETABLEUPDATEADDRESS {
    pub CpuVirtual: *mut c_void,
    pub GpuPhysical: D3DGPU_PHYSICAL_ADDRESS,
    pub GpuVirtual: D3DGPU_VIRTUAL_ADDRESS,
}

/// Properties of one page-table entry, in the operating system's form. Bits of [`DXGK_PTE`].
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct DXGK_PTE_Bits {
    /// The entry maps something.
    pub Valid: bool,
    /// Reads return zero, writes are dropped.
    pub Zero: bool,
    /// Accesses snoop CPU caches.
    pub CacheCoherent: bool,
    pub ReadOnly: bool,
    pub NoExecute: bool,
    /// Segment of the page, 0 for system memory.
    #[bits(5)]
    pub Segment: u8,
    /// The entry is itself a leaf, above level 0.
    pub LargePage: bool,
    #[bits(6)]
    pub PhysicalAdapterIndex: u8,
    /// Page size of the table below: 0 for 4 KiB, 1 for 64 KiB.
    #[bits(2)]
    pub PageTablePageSize: u8,
    #[bits(1)]
    __SystemReserved0: u8,
    #[bits(44)]
    __Reserved: u64,
}

/// Where the entry points to. Union of [`DXGK_PTE`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_PTE_Union1 {
    /// Page number (4 KiB) in the segment, or the frame number in system memory.
    pub PageAddress: u64,
    pub PageTableAddress: u64,
}

/// One page-table entry in the operating system's form; the driver translates it into the GPU's. [d3dukmdt: DXGK_PTE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_PTE {
    pub Bits: DXGK_PTE_Bits,
    pub u1: DXGK_PTE_Union1,
}

/// Variants of a page-table update. [d3dkmddi: DXGK_UPDATEPAGETABLEFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_UPDATEPAGETABLEFLAGS {
    /// One entry is given for all.
    pub Repeat: bool,
    /// The first update since the allocation became resident.
    pub InitialUpdate: bool,
    /// The update takes an allocation away.
    pub NotifyEviction: bool,
    /// The table holds entries of 64-KiB pages.
    pub Use64KBPages: bool,
    /// The entries map storage of native fences.
    pub NativeFence: bool,
    #[bits(27)]
    __Reserved: u32,
}

/// Writes entries of one table. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE {
    /// 0 is the leaf.
    pub PageTableLevel: u32,
    pub hAllocation: HANDLE,
    /// The table, as the update mode says.
    pub PageTableAddress: DXGK_PAGETABLEUPDATEADDRESS,
    /// Entries; the first is for `StartIndex`.
    pub pPageTableEntries: *mut DXGK_PTE,
    pub StartIndex: u32,
    pub NumPageTableEntries: u32,
    pub Reserved0: u32,
    pub Flags: DXGK_UPDATEPAGETABLEFLAGS,
    /// Bits of the driver, from the mapping request.
    pub DriverProtection: u64,
    pub AllocationOffsetInBytes: u64,
    /// The driver's process handle.
    pub hProcess: HANDLE,
    /// How `PageTableAddress` is to be read; also other than declared while the paging process is set up.
    pub UpdateMode: DXGK_PAGETABLEUPDATEMODE,
    /// Entries of the 64-KiB table, with two tables for one directory entry only.
    pub pPageTableEntries64KB: *mut DXGK_PTE,
    /// Address that the first entry maps.
    pub FirstPteVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// Forgets translations of an address space; start and end 0 mean all of it.
/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_FLUSHTLB]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_FLUSHTLB {
    pub RootPageTableAddress: D3DGPU_PHYSICAL_ADDRESS,
    pub hProcess: HANDLE,
    pub StartVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    /// Exclusive.
    pub EndVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// Entries to be copied between two tables. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_COPY_RANGE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_COPY_RANGE {
    pub NumPageTableEntries: u32,
    pub SrcPageTableAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DstPageTableAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub SrcStartPteIndex: u32,
    pub DstStartPteIndex: u32,
}

/// Copies ranges of entries. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES {
    pub NumRanges: u32,
    pub pRanges: *mut DXGK_BUILDPAGINGBUFFER_COPY_RANGE,
}

/// Writes driver data into a context allocation. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION {
    pub ContextAllocation: D3DGPU_VIRTUAL_ADDRESS,
    pub ContextAllocationSize: u64,
    pub pDriverPrivateData: *mut c_void,
    pub DriverPrivateDataSize: u32,
}

/// Whether the allocation came or went. Bits of [`DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY_Bits {
    pub Resident: bool,
    #[bits(31)]
    __0: u32,
}

/// Tells where an allocation lies now; address (0, 0) means evicted. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY {
    pub hAllocation: HANDLE,
    pub PhysicalAddress: D3DGPU_PHYSICAL_ADDRESS,
    pub Bits: DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY_Bits,
}

/// Writes a 64-bit value at an address of the paging process, after everything before it.
/// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE {
    pub MonitoredFenceGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub MonitoredFenceValue: u64,
}

/// Form of an address descriptor list. [d3dkmddi: DXGK_ADL_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_ADL_FLAGS {
    /// One run from `BasePageNumber`; otherwise an array of page numbers.
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

/// Address descriptor list: physical pages of 4 KiB. [d3dkmddi: DXGK_ADL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_ADL {
    pub PageCount: u32,
    pub Flags: DXGK_ADL_FLAGS,
    pub u: DXGK_ADL_Union,
}

/// Where the values of one native fence lie. [d3dkmddi: DXGK_FENCE_RESIDENCY_INFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_FENCE_RESIDENCY_INFO {
    pub hGlobalNativeFence: HANDLE,
    pub CurrentValuePhysicalAddress: D3DGPU_PHYSICAL_ADDRESS,
    pub MonitoredValuePhysicalAddress: D3DGPU_PHYSICAL_ADDRESS,
    pub CurrentValueKernelCpuVa: *mut c_void,
    pub MonitoredValueKernelCpuVa: *mut c_void,
}

/// No flags are defined: reserved, zero. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY::Flags]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY_Flags {
    pub Reserved: u32,
}

/// Tells where values of native fences lie now. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY {
    pub NumFences: u32,
    pub Flags: DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY_Flags,
    pub FenceResidencyInfo: *mut DXGK_FENCE_RESIDENCY_INFO,
}

/// Maps an allocation in the page-based memory model. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_MAPMMU]
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

/// Unmaps an allocation in the page-based memory model. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UNMAPMMU]
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

/// Whether the pages came or went. Bits of [`DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2_Bits1 {
    pub Resident: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Tells where pages of an allocation lie, in the page-based memory model.
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

/// What happens to an allocation. [d3dkmddi: DXGK_NOTIFYALLOCFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_NOTIFYALLOCFLAGS {
    pub Eviction: bool,
    pub IoMmuUnmap: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// Tells that an allocation is evicted or unmapped. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC]
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
}

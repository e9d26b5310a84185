//! Page tables, physical adapters and memory segments as the driver describes them.

use bitfield_struct::bitfield;

use crate::types::{HANDLE, LARGE_INTEGER, PHYSICAL_ADDRESS};

/// How page-table entries are written: by the CPU, or by the GPU at virtual or physical addresses.
/// [d3dkmddi: DXGK_PAGETABLEUPDATEMODE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_PAGETABLEUPDATEMODE(pub i32);

impl DXGK_PAGETABLEUPDATEMODE {
    pub const DXGK_PAGETABLEUPDATE_CPU_VIRTUAL: Self = Self(0);
    pub const DXGK_PAGETABLEUPDATE_GPU_VIRTUAL: Self = Self(1);
    pub const DXGK_PAGETABLEUPDATE_GPU_PHYSICAL: Self = Self(2);
}

/// Single properties of the page tables. Bits of [`DXGK_GPUMMUCAPS`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_GPUMMUCAPS_Bits {
    /// Entries can forbid writes.
    pub ReadOnlyMemorySupported: bool,
    /// Entries can forbid execution.
    pub NoExecuteMemorySupported: bool,
    /// Entries can make pages read as zero.
    pub ZeroInPteSupported: bool,
    /// Every entry taken away is written, not only dropped with its table.
    pub ExplicitPageTableInvalidation: bool,
    /// Entries can ask for snooping of CPU caches.
    pub CacheCoherentMemorySupported: bool,
    /// Nothing of the process may run while its tables change.
    pub PageTableUpdateRequireAddressSpaceIdle: bool,
    /// Entries above the leaf can map 2 MiB.
    pub LargePageSupported: bool,
    /// One directory entry can name a 4-KiB and a 64-KiB leaf table.
    pub DualPteSupported: bool,
    pub AllowNonAlignedLargePageAddress: bool,
    /// System memory can be mapped by 64-KiB pages.
    pub SysMem64KBPageSupported: bool,
    /// The TLB does not remember that an address is unmapped.
    pub InvalidTlbEntriesNotCached: bool,
    pub SysMemLargePageSupported: bool,
    pub CachedPageTables: bool,
    #[bits(19)]
    __Reserved: u32,
}

/// Old habits of drivers that the memory manager keeps to. [d3dkmddi: DXGK_GPUMMUCAPS::LegacyBehaviors]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_GPUMMUCAPS_LegacyBehaviors {
    pub SourcePageTableVaInTransfer: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Answer to `DXGKQAITYPE_GPUMMUCAPS`: the GPU's page tables. Filled by the driver. [d3dkmddi: DXGK_GPUMMUCAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_GPUMMUCAPS {
    pub Bits: DXGK_GPUMMUCAPS_Bits,
    pub PageTableUpdateMode: DXGK_PAGETABLEUPDATEMODE,
    /// Bits of a GPU virtual address: 12 plus the index bits of all levels.
    pub VirtualAddressBitCount: u32,
    /// Bytes of a leaf table of 64-KiB pages.
    pub LeafPageTableSizeFor64KPagesInBytes: u32,
    /// Levels, 2 to 6. With more than two, tables have fixed sizes.
    pub PageTableLevelCount: u32,
    pub LegacyBehaviors: DXGK_GPUMMUCAPS_LegacyBehaviors,
}

/// Input of `DXGKQAITYPE_GPUMMUCAPS`. [d3dkmddi: DXGK_QUERYGPUMMUCAPSIN]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_QUERYGPUMMUCAPSIN {
    pub PhysicalAdapterIndex: u32,
}

/// Answer to `DXGKQAITYPE_PAGETABLELEVELDESC`: one level. Filled by the driver. [d3dkmddi: DXGK_PAGE_TABLE_LEVEL_DESC]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_PAGE_TABLE_LEVEL_DESC {
    pub PageTableIndexBitCount: u32,
    /// Segment of the level's tables, 0 for system memory.
    pub PageTableSegmentId: u32,
    /// The same for the process that paging runs in.
    pub PagingProcessPageTableSegmentId: u32,
    /// Size of one table, a multiple of 4096.
    pub PageTableSizeInBytes: u32,
    pub PageTableAlignmentInBytes: u32,
}

/// Input of `DXGKQAITYPE_PAGETABLELEVELDESC`: level 0 is the leaf. [d3dkmddi: DXGK_QUERYPAGETABLELEVELDESCIN]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_QUERYPAGETABLELEVELDESCIN {
    pub LevelIndex: u16,
    pub PhysicalAdapterIndex: u16,
}

/// Properties of one physical adapter. [d3dkmddi: DXGK_PHYSICALADAPTERFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_PHYSICALADAPTERFLAGS {
    pub IoMmuSupported: bool,
    pub GpuMmuSupported: bool,
    pub MovePagingSupported: bool,
    pub VPRPagingContextRequired: bool,
    pub AllowHardwareProtectedNoVpr: bool,
    pub VirtualCopyEngineSupported: bool,
    pub GpuVaIommuRequired: bool,
    pub GpuVaIommuGlobalRequired: bool,
    pub GpuVaIommuCacheCoherent: bool,
    #[bits(23)]
    __Reserved: u32,
}

/// Answer to `DXGKQAITYPE_PHYSICALADAPTERCAPS`: one GPU of the adapter. Filled by the driver.
/// [d3dkmddi: DXGK_PHYSICALADAPTERCAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_PHYSICALADAPTERCAPS {
    pub NumExecutionNodes: u16,
    /// Node that paging work is submitted to.
    pub PagingNodeIndex: u16,
    /// The `DeviceHandle` of the callback table.
    pub DxgkPhysicalAdapterHandle: HANDLE,
    pub Flags: DXGK_PHYSICALADAPTERFLAGS,
    pub VPRPagingNode: u32,
    /// Node for copies between virtual machines.
    pub VirtualCopyNodeIndex: u32,
}

/// Input of `DXGKQAITYPE_PHYSICALADAPTERCAPS`. [d3dkmddi: DXGK_QUERYPHYSICALADAPTERCAPSIN]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_QUERYPHYSICALADAPTERCAPSIN {
    pub PhysicalAdapterIndex: u32,
}

/// Properties of a memory segment. [d3dkmddi: DXGK_SEGMENTFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_SEGMENTFLAGS {
    /// System memory as the GPU sees it, not memory of its own.
    pub Aperture: bool,
    pub Agp: bool,
    /// The CPU sees the whole segment at `CpuTranslatedAddress`.
    pub CpuVisible: bool,
    pub UseBanking: bool,
    /// Accesses through the aperture snoop CPU caches.
    pub CacheCoherent: bool,
    pub PitchAlignment: bool,
    pub PopulatedFromSystemMemory: bool,
    /// Contents survive standby; otherwise the memory manager evicts them first.
    pub PreservedDuringStandby: bool,
    pub PreservedDuringHibernate: bool,
    pub PartiallyPreservedDuringHibernate: bool,
    pub DirectFlip: bool,
    pub Use64KBPages: bool,
    #[bits(1)]
    __ReservedSysMem: u8,
    /// The CPU sees parts of the segment through a remappable window; excludes CpuVisible.
    pub SupportsCpuHostAperture: bool,
    pub SupportsCachedCpuHostAperture: bool,
    /// The segment counts for budgets of applications.
    pub ApplicationTarget: bool,
    pub VprSupported: bool,
    pub VprPreservedDuringStandby: bool,
    pub EncryptedPagingSupported: bool,
    /// The segment counts as dedicated memory.
    pub LocalBudgetGroup: bool,
    pub NonLocalBudgetGroup: bool,
    pub PopulatedByReservedDDRByFirmware: bool,
    #[bits(10)]
    __Reserved: u16,
}

/// Window through which the CPU sees parts of a segment. [d3dkmddi: DXGK_CPUHOSTAPERTURE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_CPUHOSTAPERTURE {
    /// Bus address of the window.
    pub PhysicalAddress: u64,
    pub SizeInPages: u32,
}

/// Union of [`DXGK_SEGMENTDESCRIPTOR4`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_SEGMENTDESCRIPTOR4_Union {
    pub CpuTranslatedAddress: PHYSICAL_ADDRESS,
    pub CpuHostAperture: DXGK_CPUHOSTAPERTURE,
}

/// One memory segment, in answer to `DXGKQAITYPE_QUERYSEGMENT4`. Filled by the driver.
/// [d3dkmddi: DXGK_SEGMENTDESCRIPTOR4]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_SEGMENTDESCRIPTOR4 {
    pub Flags: DXGK_SEGMENTFLAGS,
    /// Address of the segment's first byte, as the GPU addresses it.
    pub BaseAddress: PHYSICAL_ADDRESS,
    /// Bytes.
    pub Size: usize,
    /// Bytes that may be committed; apertures only.
    pub CommitLimit: usize,
    pub SystemMemoryEndAddress: usize,
    pub u: DXGK_SEGMENTDESCRIPTOR4_Union,
    /// Ranges that must not be used.
    pub NumInvalidMemoryRanges: u32,
    pub VprRangeStartOffset: usize,
    pub VprRangeSize: usize,
    pub VprAlignment: u32,
    pub NumVprSupported: u32,
    pub VprReserveSize: u32,
    pub NumUEFIFrameBufferRanges: u32,
}

/// Answer to `DXGKQAITYPE_QUERYSEGMENT4`. The first time `pSegmentDescriptor` is NULL and only the number is wanted.
/// [d3dkmddi: DXGK_QUERYSEGMENTOUT4]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_QUERYSEGMENTOUT4 {
    /// Segments; identifiers count from 1.
    pub NbSegment: u32,
    /// Array that the driver fills in steps of `SegmentDescriptorStride`.
    pub pSegmentDescriptor: *mut u8,
    /// Where paging buffers lie: 0 or an aperture segment.
    pub PagingBufferSegmentId: u32,
    /// Bytes of a paging buffer.
    pub PagingBufferSize: u32,
    /// Bytes of driver data that go with one.
    pub PagingBufferPrivateDataSize: u32,
    /// Distance of descriptors in bytes, given by the caller.
    pub SegmentDescriptorStride: usize,
}

/// Input of `DXGKQAITYPE_QUERYSEGMENT4`. [d3dkmddi: DXGK_QUERYSEGMENTIN4]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_QUERYSEGMENTIN4 {
    pub PhysicalAdapterIndex: u32,
}

/// Part of a memory segment. [d3dkmddi: DXGK_MEMORYRANGE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_MEMORYRANGE {
    /// Bytes from the start of the segment.
    pub SegmentOffset: u64,
    pub SizeInBytes: u64,
}

/// Count of [`DXGK_QUERYSEGMENTMEMORYSTATE`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_QUERYSEGMENTMEMORYSTATE_Union {
    /// Elements of the array, as many as the segment's descriptor said.
    pub NumInvalidMemoryRanges: u32,
    pub NumUEFIFrameBufferRanges: u32,
}

/// In and out of `DXGKQAITYPE_SEGMENTMEMORYSTATE`: the ranges of a segment that must not be used. [d3dkmddi: DXGK_QUERYSEGMENTMEMORYSTATE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_QUERYSEGMENTMEMORYSTATE {
    /// Counted from 1.
    pub DriverSegmentId: u16,
    pub PhysicalAdapterIndex: u16,
    pub u: DXGK_QUERYSEGMENTMEMORYSTATE_Union,
    /// Array of the caller, which the driver fills.
    pub pMemoryRanges: *mut DXGK_MEMORYRANGE,
}

/// Answer to `DXGKQAITYPE_FRAMEBUFFERSAVESIZE`. [d3dkmddi: DXGK_FRAMEBUFFERSAVEAREA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_FRAMEBUFFERSAVEAREA {
    /// Bytes, a multiple of the page size.
    pub MaximumSize: usize,
}

/// Part of physical memory. [d3dkmddi: DXGK_PHYSICAL_MEMORY_RANGE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_PHYSICAL_MEMORY_RANGE {
    pub BaseAddress: PHYSICAL_ADDRESS,
    pub NumberOfBytes: LARGE_INTEGER,
}

/// Answer to `DXGKQAITYPE_HARDWARERESERVEDRANGES`. The first time `pPhysicalRanges` is NULL and only the number is wanted.
/// [d3dkmddi: DXGK_HARDWARERESERVEDRANGES]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_HARDWARERESERVEDRANGES {
    pub NumRanges: u32,
    /// Array of the caller, which the driver fills.
    pub pPhysicalRanges: *mut DXGK_PHYSICAL_MEMORY_RANGE,
}

zeroed! {
    DXGK_PAGETABLEUPDATEMODE,
    DXGK_GPUMMUCAPS_Bits,
    DXGK_GPUMMUCAPS_LegacyBehaviors,
    DXGK_GPUMMUCAPS,
    DXGK_QUERYGPUMMUCAPSIN,
    DXGK_PAGE_TABLE_LEVEL_DESC,
    DXGK_QUERYPAGETABLELEVELDESCIN,
    DXGK_PHYSICALADAPTERFLAGS,
    DXGK_PHYSICALADAPTERCAPS,
    DXGK_QUERYPHYSICALADAPTERCAPSIN,
    DXGK_SEGMENTFLAGS,
    DXGK_CPUHOSTAPERTURE,
    DXGK_SEGMENTDESCRIPTOR4_Union,
    DXGK_SEGMENTDESCRIPTOR4,
    DXGK_QUERYSEGMENTOUT4,
    DXGK_QUERYSEGMENTIN4,
    DXGK_MEMORYRANGE,
    DXGK_QUERYSEGMENTMEMORYSTATE_Union,
    DXGK_QUERYSEGMENTMEMORYSTATE,
    DXGK_FRAMEBUFFERSAVEAREA,
    DXGK_PHYSICAL_MEMORY_RANGE,
    DXGK_HARDWARERESERVEDRANGES,
}

//! Allocations: creating, opening and describing them.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::km::{D3DDDIFORMAT, D3DKMDT_GDISURFACEDATA};
use crate::types::{D3DKMT_HANDLE, HANDLE};

/// Banks of a segment in which an allocation should lie; no meaning without banks.
/// [d3dkmddi: DXGK_SEGMENTBANKPREFERENCE]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_SEGMENTBANKPREFERENCE {
    #[bits(7)]
    pub Bank0: u8,
    pub Direction0: bool,
    #[bits(7)]
    pub Bank1: u8,
    pub Direction1: bool,
    #[bits(7)]
    pub Bank2: u8,
    pub Direction2: bool,
    #[bits(7)]
    pub Bank3: u8,
    pub Direction3: bool,
}

/// Segments in which an allocation should lie, best first; 0 ends the list. [d3dukmdt: D3DDDI_SEGMENTPREFERENCE]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_SEGMENTPREFERENCE {
    #[bits(5)]
    pub SegmentId0: u8,
    pub Direction0: bool,
    #[bits(5)]
    pub SegmentId1: u8,
    pub Direction1: bool,
    #[bits(5)]
    pub SegmentId2: u8,
    pub Direction2: bool,
    #[bits(5)]
    pub SegmentId3: u8,
    pub Direction3: bool,
    #[bits(5)]
    pub SegmentId4: u8,
    pub Direction4: bool,
    #[bits(2)]
    __Reserved: u8,
}

/// Properties of an allocation before WDDM 2. [d3dkmddi: DXGK_ALLOCATIONINFOFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_ALLOCATIONINFOFLAGS {
    pub CpuVisible: bool,
    pub PermanentSysMem: bool,
    pub Cached: bool,
    pub Protected: bool,
    pub ExistingSysMem: bool,
    pub ExistingKernelSysMem: bool,
    pub FromEndOfSegment: bool,
    pub Swizzled: bool,
    pub Overlay: bool,
    pub Capture: bool,
    pub UseAlternateVA: bool,
    pub SynchronousPaging: bool,
    pub LinkMirrored: bool,
    pub LinkInstanced: bool,
    pub HistoryBuffer: bool,
    pub AccessedPhysically: bool,
    pub ExplicitResidencyNotification: bool,
    pub HardwareProtected: bool,
    pub CpuVisibleOnDemand: bool,
    pub DXGK_ALLOC_RESERVED16: bool,
    #[bits(1)]
    __Reserved15: u8,
    #[bits(1)]
    __Reserved14: u8,
    #[bits(1)]
    __Reserved13: u8,
    #[bits(1)]
    __Reserved12: u8,
    #[bits(1)]
    __Reserved11: u8,
    #[bits(1)]
    __Reserved10: u8,
    #[bits(1)]
    __Reserved9: u8,
    #[bits(1)]
    __Reserved4: u8,
    #[bits(1)]
    __Reserved3: u8,
    #[bits(1)]
    __Reserved2: u8,
    #[bits(1)]
    __Reserved1: u8,
    #[bits(1)]
    __Reserved0: u8,
}

/// Properties of an allocation. [d3dkmddi: DXGK_ALLOCATIONINFOFLAGS_WDDM2_0]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 {
    /// The CPU may map it.
    pub CpuVisible: bool,
    pub PermanentSysMem: bool,
    /// CPU mappings are cached; otherwise write-combined.
    pub Cached: bool,
    pub Protected: bool,
    /// Backed by memory that the process has already.
    pub ExistingSysMem: bool,
    /// Backed by kernel memory that exists already.
    pub ExistingKernelSysMem: bool,
    /// Placed from the end of the segment.
    pub FromEndOfSegment: bool,
    /// Never mapped by pages above 64 KiB.
    pub DisableLargePageMapping: bool,
    pub Overlay: bool,
    pub Capture: bool,
    /// Lies in the protected range of the segment.
    pub CreateInVpr: bool,
    pub DXGK_ALLOC_RESERVED17: bool,
    #[bits(1)]
    __Reserved02: u8,
    /// Needs `MapAperture2Supported`.
    pub MapApertureCpuVisible: bool,
    pub HistoryBuffer: bool,
    /// The GPU uses physical addresses of it too: it is mapped into the aperture.
    pub AccessedPhysically: bool,
    /// The driver is told when it moves.
    pub ExplicitResidencyNotification: bool,
    pub HardwareProtected: bool,
    /// Moved to where the CPU can see it when it is locked.
    pub CpuVisibleOnDemand: bool,
    pub DXGK_ALLOC_RESERVED16: bool,
    #[bits(1)]
    __Reserved15: u8,
    #[bits(1)]
    __Reserved14: u8,
    #[bits(1)]
    __Reserved13: u8,
    #[bits(1)]
    __Reserved12: u8,
    #[bits(1)]
    __Reserved11: u8,
    #[bits(1)]
    __Reserved10: u8,
    #[bits(1)]
    __Reserved9: u8,
    #[bits(1)]
    __Reserved4: u8,
    #[bits(1)]
    __Reserved3: u8,
    #[bits(1)]
    __Reserved2: u8,
    #[bits(1)]
    __Reserved1: u8,
    #[bits(1)]
    __Reserved0: u8,
}

/// What a surface is used for. [d3dkmddi: DXGK_ALLOCATIONUSAGEINFO1::Flags]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_ALLOCATIONUSAGEINFO1_Flags {
    pub PrivateFormat: bool,
    pub Swizzled: bool,
    pub MipMap: bool,
    pub Cube: bool,
    pub Volume: bool,
    pub Vertex: bool,
    pub Index: bool,
    #[bits(25)]
    __Reserved: u32,
}

/// Union of [`DXGK_ALLOCATIONUSAGEINFO1`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_ALLOCATIONUSAGEINFO1_Union {
    pub Format: D3DDDIFORMAT,
    pub PrivateFormat: u32,
}

/// Shape of a surface, as a hint for the memory manager. [d3dkmddi: DXGK_ALLOCATIONUSAGEINFO1]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_ALLOCATIONUSAGEINFO1 {
    pub Flags: DXGK_ALLOCATIONUSAGEINFO1_Flags,
    pub u: DXGK_ALLOCATIONUSAGEINFO1_Union,
    pub SwizzledFormat: u32,
    pub ByteOffset: u32,
    pub Width: u32,
    pub Height: u32,
    pub Pitch: u32,
    pub Depth: u32,
    pub SlicePitch: u32,
}

/// Versioned hint about an allocation. [d3dkmddi: DXGK_ALLOCATIONUSAGEHINT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_ALLOCATIONUSAGEHINT {
    pub Version: u32,
    pub v1: DXGK_ALLOCATIONUSAGEINFO1,
}

/// More properties of an allocation. [d3dkmddi: DXGK_ALLOCATIONINFOFLAGS2]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_ALLOCATIONINFOFLAGS2 {
    /// The driver is given the backing pages.
    pub ShareBackingStoreWithKmd: bool,
    /// The memory manager does not wait for the GPU before moving it.
    pub NoImplicitSynchronization: bool,
    /// Resident as a whole or not at all.
    pub DisablePartialResidency: bool,
    pub RestrictedToSingleSegment: bool,
    /// The driver is told before it is evicted.
    pub NotifyEviction: bool,
    pub NotifyIoMmuUnmap: bool,
    #[bits(26)]
    __Reserved: u32,
}

/// Page sizes of an allocation. Arm of [`DXGK_ALLOCATIONINFO`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_ALLOCATIONINFO_MinimumPageSizeGroup {
    /// Smallest page it may be mapped with.
    pub MinimumPageSize: u16,
    /// Page size it gains from.
    pub RecommendedPageSize: u16,
}

/// Union of [`DXGK_ALLOCATIONINFO`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_ALLOCATIONINFO_Union {
    pub Alignment: u32,
    pub MinimumPageSizeGroup: DXGK_ALLOCATIONINFO_MinimumPageSizeGroup,
}

/// Union of [`DXGK_ALLOCATIONINFO`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_ALLOCATIONINFO_Union1 {
    /// Ignored since WDDM 2.
    pub SupportedReadSegmentSet: u32,
    pub MmuSet: u32,
}

/// Union of [`DXGK_ALLOCATIONINFO`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_ALLOCATIONINFO_Union2 {
    pub MaximumRenamingListLength: u32,
    pub PhysicalAdapterIndex: u32,
}

/// Union of [`DXGK_ALLOCATIONINFO`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_ALLOCATIONINFO_Union3 {
    pub Flags: DXGK_ALLOCATIONINFOFLAGS,
    pub FlagsWddm2: DXGK_ALLOCATIONINFOFLAGS_WDDM2_0,
}

/// One allocation in `DxgkDdiCreateAllocation`: the private data comes in, everything else is filled by the driver.
/// [d3dkmddi: DXGK_ALLOCATIONINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_ALLOCATIONINFO {
    /// Data of the user-mode driver; written back.
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub u: DXGK_ALLOCATIONINFO_Union,
    /// Bytes, a multiple of the page size.
    pub Size: usize,
    /// Bytes with aligned pitch, 0 without banking.
    pub PitchAlignedSize: usize,
    pub HintedBank: DXGK_SEGMENTBANKPREFERENCE,
    /// Inside the supported set.
    pub PreferredSegment: D3DDDI_SEGMENTPREFERENCE,
    pub u1: DXGK_ALLOCATIONINFO_Union1,
    /// Segments it may lie in; bit 0 is segment 1.
    pub SupportedWriteSegmentSet: u32,
    /// Aperture segments it may be evicted to, 0 for system memory directly.
    pub EvictionSegmentSet: u32,
    pub u2: DXGK_ALLOCATIONINFO_Union2,
    /// Out: the driver's handle.
    pub hAllocation: HANDLE,
    pub u3: DXGK_ALLOCATIONINFO_Union3,
    pub pAllocationUsageHint: *mut DXGK_ALLOCATIONUSAGEHINT,
    /// Weight among allocations, never 0; 0x78000000 is normal.
    pub AllocationPriority: u32,
    pub Flags2: DXGK_ALLOCATIONINFOFLAGS2,
}

/// Variants of `DxgkDdiCreateAllocation`. [d3dkmddi: DXGK_CREATEALLOCATIONFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_CREATEALLOCATIONFLAGS {
    pub Resource: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiCreateAllocation`: several allocations, perhaps of one resource.
/// [d3dkmddi: DXGKARG_CREATEALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATEALLOCATION {
    /// Data of the user-mode driver for all of them.
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub NumAllocations: u32,
    pub pAllocationInfo: *mut DXGK_ALLOCATIONINFO,
    /// In: the operating system's handle; out: the driver's.
    pub hResource: HANDLE,
    pub Flags: DXGK_CREATEALLOCATIONFLAGS,
}

/// Variants of `DxgkDdiDestroyAllocation`. [d3dkmddi: DXGK_DESTROYALLOCATIONFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_DESTROYALLOCATIONFLAGS {
    pub DestroyResource: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiDestroyAllocation`: the driver's handles die. [d3dkmddi: DXGKARG_DESTROYALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_DESTROYALLOCATION {
    pub NumAllocations: u32,
    pub pAllocationList: *mut HANDLE,
    /// The driver's handle, used with `DestroyResource`.
    pub hResource: HANDLE,
    pub Flags: DXGK_DESTROYALLOCATIONFLAGS,
}

/// One allocation in `DxgkDdiOpenAllocation`. [d3dkmddi: DXGK_OPENALLOCATIONINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_OPENALLOCATIONINFO {
    /// The operating system's handle.
    pub hAllocation: D3DKMT_HANDLE,
    /// As `DxgkDdiCreateAllocation` left it; read-only.
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    /// Out: the driver's handle in this device.
    pub hDeviceSpecificAllocation: HANDLE,
}

/// Why an allocation is opened. [d3dkmddi: DXGK_OPENALLOCATIONFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_OPENALLOCATIONFLAGS {
    /// By the device that just created it.
    pub Create: bool,
    pub ReadOnly: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiOpenAllocation`: allocations in one device. [d3dkmddi: DXGKARG_OPENALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_OPENALLOCATION {
    pub NumAllocations: u32,
    pub pOpenAllocation: *mut DXGK_OPENALLOCATIONINFO,
    /// Data for all of them; read-only.
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverSize: u32,
    pub Flags: DXGK_OPENALLOCATIONFLAGS,
    pub SubresourceIndex: u32,
    pub SubresourceOffset: usize,
    pub Pitch: u32,
}

/// Argument of `DxgkDdiCloseAllocation`. [d3dkmddi: DXGKARG_CLOSEALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CLOSEALLOCATION {
    pub NumAllocations: u32,
    /// The driver's handles in this device.
    pub pOpenHandleList: *mut HANDLE,
}

/// Samples of a surface. [d3dukmdt: D3DDDI_MULTISAMPLINGMETHOD]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_MULTISAMPLINGMETHOD {
    pub NumSamples: u32,
    pub NumQualityLevels: u32,
}

/// A fraction, such as a refresh rate in hertz. [d3dukmdt: D3DDDI_RATIONAL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_RATIONAL {
    pub Numerator: u32,
    pub Denominator: u32,
}

/// What is asked about an allocation. [d3dkmddi: DXGK_DESCRIBEALLOCATIONFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_DESCRIBEALLOCATIONFLAGS {
    pub CheckDisplayMode: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Rotation of a display. [d3dukmdt: D3DDDI_ROTATION]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_ROTATION(pub i32);

impl D3DDDI_ROTATION {
    pub const D3DDDI_ROTATION_IDENTITY: Self = Self(1);
    pub const D3DDDI_ROTATION_90: Self = Self(2);
    pub const D3DDDI_ROTATION_180: Self = Self(3);
    pub const D3DDDI_ROTATION_270: Self = Self(4);
}

/// Argument of `DxgkDdiDescribeAllocation`: how a surface looks. Filled by the driver; unknown for buffers.
/// [d3dkmddi: DXGKARG_DESCRIBEALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_DESCRIBEALLOCATION {
    pub hAllocation: HANDLE,
    pub Width: u32,
    pub Height: u32,
    pub Format: D3DDDIFORMAT,
    pub MultisampleMethod: D3DDDI_MULTISAMPLINGMETHOD,
    pub RefreshRate: D3DDDI_RATIONAL,
    pub PrivateDriverFormatAttribute: u32,
    pub Flags: DXGK_DESCRIBEALLOCATIONFLAGS,
    pub Rotation: D3DDDI_ROTATION,
}

/// Allocation that the operating system itself wants and the driver describes.
/// [d3dkmdt: D3DKMDT_STANDARDALLOCATION_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMDT_STANDARDALLOCATION_TYPE(pub i32);

impl D3DKMDT_STANDARDALLOCATION_TYPE {
    pub const D3DKMDT_STANDARDALLOCATION_SHAREDPRIMARYSURFACE: Self = Self(1);
    pub const D3DKMDT_STANDARDALLOCATION_SHADOWSURFACE: Self = Self(2);
    pub const D3DKMDT_STANDARDALLOCATION_STAGINGSURFACE: Self = Self(3);
    pub const D3DKMDT_STANDARDALLOCATION_GDISURFACE: Self = Self(4);
    pub const D3DKMDT_STANDARDALLOCATION_VGPU: Self = Self(5);
    pub const D3DKMDT_STANDARDALLOCATION_FENCESTORAGE: Self = Self(6);
}

/// Shape of a staging surface. [d3dkmdt: D3DKMDT_STAGINGSURFACEDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMDT_STAGINGSURFACEDATA {
    pub Width: u32,
    pub Height: u32,
    pub Pitch: u32,
}

/// Which value of native fences a storage allocation holds. [d3dkmdt: DXGKARG_FENCESTORAGEVALUETYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGKARG_FENCESTORAGEVALUETYPE(pub i32);

impl DXGKARG_FENCESTORAGEVALUETYPE {
    pub const D3DKARG_FENCESTORAGETYPE_CURRENTVALUE: Self = Self(0);
    pub const D3DKARG_FENCESTORAGETYPE_MONITOREDVALUE: Self = Self(1);
}

/// Kind of a native fence. [d3dukmdt: D3DDDI_NATIVEFENCE_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_NATIVEFENCE_TYPE(pub i32);

impl D3DDDI_NATIVEFENCE_TYPE {
    /// CPU and GPU wait and signal.
    pub const D3DDDI_NATIVEFENCE_TYPE_DEFAULT: Self = Self(0);
    /// Engines of one GPU only.
    pub const D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU: Self = Self(1);
}

/// No flags are defined: reserved, zero. [d3dkmddi: DXGKARG_FENCESTORAGEFLAGS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_FENCESTORAGEFLAGS {
    pub Reserved: u32,
}

/// Allocation in which native fences are packed; the driver chooses its placement.
/// [d3dkmddi: D3DKMDT_FENCESTORAGESURFACEDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMDT_FENCESTORAGESURFACEDATA {
    pub PhysicalAdapterIndex: u32,
    pub FenceStorageValueType: DXGKARG_FENCESTORAGEVALUETYPE,
    pub FenceStorageType: D3DDDI_NATIVEFENCE_TYPE,
    pub PrivateDriverDataSize: u32,
    pub pPrivateDriverData: *mut u8,
    pub Flags: DXGKARG_FENCESTORAGEFLAGS,
    pub Reserved: u32,
    /// Out: as in `DxgkDdiCreateAllocation`.
    pub AllocationInfo: DXGK_ALLOCATIONINFO,
}

/// Union of [`DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA_Union {
    pub pCreateStagingSurfaceData: *mut D3DKMDT_STAGINGSURFACEDATA,
    pub pCreateGdiSurfaceData: *mut D3DKMDT_GDISURFACEDATA,
    pub pCreateFenceStorageData: *mut D3DKMDT_FENCESTORAGESURFACEDATA,
}

/// Argument of `DxgkDdiGetStandardAllocationDriverData`: asked for sizes with NULL pointers, then for the data.
/// [d3dkmddi: DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA {
    pub StandardAllocationType: D3DKMDT_STANDARDALLOCATION_TYPE,
    pub u: DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA_Union,
    /// Filled by the driver: what it wants to see in `DxgkDdiCreateAllocation`.
    pub pAllocationPrivateDriverData: *mut c_void,
    /// Bytes of it.
    pub AllocationPrivateDriverDataSize: u32,
    pub pResourcePrivateDriverData: *mut c_void,
    pub ResourcePrivateDriverDataSize: u32,
    pub PhysicalAdapterIndex: u32,
}

zeroed! {
    DXGK_SEGMENTBANKPREFERENCE,
    D3DDDI_SEGMENTPREFERENCE,
    DXGK_ALLOCATIONINFOFLAGS,
    DXGK_ALLOCATIONINFOFLAGS_WDDM2_0,
    DXGK_ALLOCATIONUSAGEINFO1_Flags,
    DXGK_ALLOCATIONUSAGEINFO1_Union,
    DXGK_ALLOCATIONUSAGEINFO1,
    DXGK_ALLOCATIONUSAGEHINT,
    DXGK_ALLOCATIONINFOFLAGS2,
    DXGK_ALLOCATIONINFO_MinimumPageSizeGroup,
    DXGK_ALLOCATIONINFO_Union,
    DXGK_ALLOCATIONINFO_Union1,
    DXGK_ALLOCATIONINFO_Union2,
    DXGK_ALLOCATIONINFO_Union3,
    DXGK_ALLOCATIONINFO,
    DXGK_CREATEALLOCATIONFLAGS,
    DXGKARG_CREATEALLOCATION,
    DXGK_DESTROYALLOCATIONFLAGS,
    DXGKARG_DESTROYALLOCATION,
    DXGK_OPENALLOCATIONINFO,
    DXGK_OPENALLOCATIONFLAGS,
    DXGKARG_OPENALLOCATION,
    DXGKARG_CLOSEALLOCATION,
    D3DDDI_MULTISAMPLINGMETHOD,
    D3DDDI_RATIONAL,
    DXGK_DESCRIBEALLOCATIONFLAGS,
    D3DDDI_ROTATION,
    DXGKARG_DESCRIBEALLOCATION,
    D3DKMDT_STANDARDALLOCATION_TYPE,
    D3DKMDT_STAGINGSURFACEDATA,
    DXGKARG_FENCESTORAGEVALUETYPE,
    D3DDDI_NATIVEFENCE_TYPE,
    DXGKARG_FENCESTORAGEFLAGS,
    D3DKMDT_FENCESTORAGESURFACEDATA,
    DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA_Union,
    DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
}

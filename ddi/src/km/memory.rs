//! Processes, devices, allocations, page-table roots and the CPU host aperture.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::*;
#[allow(unused_imports)] // the modules share one flat namespace, as the headers do
use crate::{km::*, kmt::*};

/// [d3dkmddi: DXGK_CREATEPROCESSFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_CREATEPROCESSFLAGS {
    pub SystemProcess: bool,
    pub GdiProcess: bool,
    pub VirtualMachineProcess: bool,
    pub VirtualMachineWorkerProcess: bool,
    pub SessionIsolatedContainer: bool,
    #[bits(27)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_CREATEPROCESS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATEPROCESS {
    pub hDxgkProcess: HANDLE,
    pub hKmdProcess: HANDLE,
    pub Flags: DXGK_CREATEPROCESSFLAGS,
    pub NumPasid: u32,
    pub pPasid: *mut u32,
    pub hKmdVmWorkerProcess: HANDLE,
    pub ProcessNameLength: u32,
    pub pProcessName: *mut u16,
}

/// [d3dkmddi: DXGK_CREATEDEVICEFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_CREATEDEVICEFLAGS {
    pub SystemDevice: bool,
    pub GdiDevice: bool,
    #[bits(29)]
    __Reserved: u32,
    #[bits(1)]
    __Reserved0: u8,
}

/// [d3dkmddi: DXGK_DEVICEINFOFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_DEVICEINFOFLAGS {
    pub GuaranteedDmaBufferContract: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_DEVICEINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_DEVICEINFO {
    pub DmaBufferSize: u32,
    pub DmaBufferSegmentSet: u32,
    pub DmaBufferPrivateDataSize: u32,
    pub AllocationListSize: u32,
    pub PatchLocationListSize: u32,
    pub Flags: DXGK_DEVICEINFOFLAGS,
}

/// Union of [`DXGKARG_CREATEDEVICE`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGKARG_CREATEDEVICE_Union {
    pub Flags: DXGK_CREATEDEVICEFLAGS,
    pub pInfo: *mut DXGK_DEVICEINFO,
}

/// [d3dkmddi: DXGKARG_CREATEDEVICE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATEDEVICE {
    pub hDevice: HANDLE,
    pub u: DXGKARG_CREATEDEVICE_Union,
    pub Pasid: u32,
    pub hKmdProcess: HANDLE,
}

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

/// [d3dukmdt: D3DDDI_SEGMENTPREFERENCE]
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

/// [d3dkmddi: DXGK_ALLOCATIONINFOFLAGS]
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

/// [d3dkmddi: DXGK_ALLOCATIONINFOFLAGS_WDDM2_0]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 {
    pub CpuVisible: bool,
    pub PermanentSysMem: bool,
    pub Cached: bool,
    pub Protected: bool,
    pub ExistingSysMem: bool,
    pub ExistingKernelSysMem: bool,
    pub FromEndOfSegment: bool,
    pub DisableLargePageMapping: bool,
    pub Overlay: bool,
    pub Capture: bool,
    pub CreateInVpr: bool,
    pub DXGK_ALLOC_RESERVED17: bool,
    #[bits(1)]
    __Reserved02: u8,
    pub MapApertureCpuVisible: bool,
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

/// [d3dukmdt: D3DDDIFORMAT]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDIFORMAT(pub i32);

impl D3DDDIFORMAT {
    pub const D3DDDIFMT_UNKNOWN: Self = Self(0);
    pub const D3DDDIFMT_R8G8B8: Self = Self(20);
    pub const D3DDDIFMT_A8R8G8B8: Self = Self(21);
    pub const D3DDDIFMT_X8R8G8B8: Self = Self(22);
    pub const D3DDDIFMT_R5G6B5: Self = Self(23);
    pub const D3DDDIFMT_X1R5G5B5: Self = Self(24);
    pub const D3DDDIFMT_A1R5G5B5: Self = Self(25);
    pub const D3DDDIFMT_A4R4G4B4: Self = Self(26);
    pub const D3DDDIFMT_R3G3B2: Self = Self(27);
    pub const D3DDDIFMT_A8: Self = Self(28);
    pub const D3DDDIFMT_A8R3G3B2: Self = Self(29);
    pub const D3DDDIFMT_X4R4G4B4: Self = Self(30);
    pub const D3DDDIFMT_A2B10G10R10: Self = Self(31);
    pub const D3DDDIFMT_A8B8G8R8: Self = Self(32);
    pub const D3DDDIFMT_X8B8G8R8: Self = Self(33);
    pub const D3DDDIFMT_G16R16: Self = Self(34);
    pub const D3DDDIFMT_A2R10G10B10: Self = Self(35);
    pub const D3DDDIFMT_A16B16G16R16: Self = Self(36);
    pub const D3DDDIFMT_A8P8: Self = Self(40);
    pub const D3DDDIFMT_P8: Self = Self(41);
    pub const D3DDDIFMT_L8: Self = Self(50);
    pub const D3DDDIFMT_A8L8: Self = Self(51);
    pub const D3DDDIFMT_A4L4: Self = Self(52);
    pub const D3DDDIFMT_V8U8: Self = Self(60);
    pub const D3DDDIFMT_L6V5U5: Self = Self(61);
    pub const D3DDDIFMT_X8L8V8U8: Self = Self(62);
    pub const D3DDDIFMT_Q8W8V8U8: Self = Self(63);
    pub const D3DDDIFMT_V16U16: Self = Self(64);
    pub const D3DDDIFMT_W11V11U10: Self = Self(65);
    pub const D3DDDIFMT_A2W10V10U10: Self = Self(67);
    pub const D3DDDIFMT_UYVY: Self = Self(1498831189);
    pub const D3DDDIFMT_R8G8_B8G8: Self = Self(1195525970);
    pub const D3DDDIFMT_YUY2: Self = Self(844715353);
    pub const D3DDDIFMT_G8R8_G8B8: Self = Self(1111970375);
    pub const D3DDDIFMT_DXT1: Self = Self(827611204);
    pub const D3DDDIFMT_DXT2: Self = Self(844388420);
    pub const D3DDDIFMT_DXT3: Self = Self(861165636);
    pub const D3DDDIFMT_DXT4: Self = Self(877942852);
    pub const D3DDDIFMT_DXT5: Self = Self(894720068);
    pub const D3DDDIFMT_D16_LOCKABLE: Self = Self(70);
    pub const D3DDDIFMT_D32: Self = Self(71);
    pub const D3DDDIFMT_D15S1: Self = Self(73);
    pub const D3DDDIFMT_D24S8: Self = Self(75);
    pub const D3DDDIFMT_D24X8: Self = Self(77);
    pub const D3DDDIFMT_D24X4S4: Self = Self(79);
    pub const D3DDDIFMT_D16: Self = Self(80);
    pub const D3DDDIFMT_D32F_LOCKABLE: Self = Self(82);
    pub const D3DDDIFMT_D24FS8: Self = Self(83);
    pub const D3DDDIFMT_D32_LOCKABLE: Self = Self(84);
    pub const D3DDDIFMT_S8_LOCKABLE: Self = Self(85);
    pub const D3DDDIFMT_S1D15: Self = Self(72);
    pub const D3DDDIFMT_S8D24: Self = Self(74);
    pub const D3DDDIFMT_X8D24: Self = Self(76);
    pub const D3DDDIFMT_X4S4D24: Self = Self(78);
    pub const D3DDDIFMT_L16: Self = Self(81);
    pub const D3DDDIFMT_G8R8: Self = Self(91);
    pub const D3DDDIFMT_R8: Self = Self(92);
    pub const D3DDDIFMT_VERTEXDATA: Self = Self(100);
    pub const D3DDDIFMT_INDEX16: Self = Self(101);
    pub const D3DDDIFMT_INDEX32: Self = Self(102);
    pub const D3DDDIFMT_Q16W16V16U16: Self = Self(110);
    pub const D3DDDIFMT_MULTI2_ARGB8: Self = Self(827606349);
    pub const D3DDDIFMT_R16F: Self = Self(111);
    pub const D3DDDIFMT_G16R16F: Self = Self(112);
    pub const D3DDDIFMT_A16B16G16R16F: Self = Self(113);
    pub const D3DDDIFMT_R32F: Self = Self(114);
    pub const D3DDDIFMT_G32R32F: Self = Self(115);
    pub const D3DDDIFMT_A32B32G32R32F: Self = Self(116);
    pub const D3DDDIFMT_CxV8U8: Self = Self(117);
    pub const D3DDDIFMT_A1: Self = Self(118);
    pub const D3DDDIFMT_A2B10G10R10_XR_BIAS: Self = Self(119);
    pub const D3DDDIFMT_DXVACOMPBUFFER_BASE: Self = Self(150);
    pub const D3DDDIFMT_PICTUREPARAMSDATA: Self = Self(150);
    pub const D3DDDIFMT_MACROBLOCKDATA: Self = Self(151);
    pub const D3DDDIFMT_RESIDUALDIFFERENCEDATA: Self = Self(152);
    pub const D3DDDIFMT_DEBLOCKINGDATA: Self = Self(153);
    pub const D3DDDIFMT_INVERSEQUANTIZATIONDATA: Self = Self(154);
    pub const D3DDDIFMT_SLICECONTROLDATA: Self = Self(155);
    pub const D3DDDIFMT_BITSTREAMDATA: Self = Self(156);
    pub const D3DDDIFMT_MOTIONVECTORBUFFER: Self = Self(157);
    pub const D3DDDIFMT_FILMGRAINBUFFER: Self = Self(158);
    pub const D3DDDIFMT_DXVA_RESERVED9: Self = Self(159);
    pub const D3DDDIFMT_DXVA_RESERVED10: Self = Self(160);
    pub const D3DDDIFMT_DXVA_RESERVED11: Self = Self(161);
    pub const D3DDDIFMT_DXVA_RESERVED12: Self = Self(162);
    pub const D3DDDIFMT_DXVA_RESERVED13: Self = Self(163);
    pub const D3DDDIFMT_DXVA_RESERVED14: Self = Self(164);
    pub const D3DDDIFMT_DXVA_RESERVED15: Self = Self(165);
    pub const D3DDDIFMT_DXVA_RESERVED16: Self = Self(166);
    pub const D3DDDIFMT_DXVA_RESERVED17: Self = Self(167);
    pub const D3DDDIFMT_DXVA_RESERVED18: Self = Self(168);
    pub const D3DDDIFMT_DXVA_RESERVED19: Self = Self(169);
    pub const D3DDDIFMT_DXVA_RESERVED20: Self = Self(170);
    pub const D3DDDIFMT_DXVA_RESERVED21: Self = Self(171);
    pub const D3DDDIFMT_DXVA_RESERVED22: Self = Self(172);
    pub const D3DDDIFMT_DXVA_RESERVED23: Self = Self(173);
    pub const D3DDDIFMT_DXVA_RESERVED24: Self = Self(174);
    pub const D3DDDIFMT_DXVA_RESERVED25: Self = Self(175);
    pub const D3DDDIFMT_DXVA_RESERVED26: Self = Self(176);
    pub const D3DDDIFMT_DXVA_RESERVED27: Self = Self(177);
    pub const D3DDDIFMT_DXVA_RESERVED28: Self = Self(178);
    pub const D3DDDIFMT_DXVA_RESERVED29: Self = Self(179);
    pub const D3DDDIFMT_DXVA_RESERVED30: Self = Self(180);
    pub const D3DDDIFMT_DXVA_RESERVED31: Self = Self(181);
    pub const D3DDDIFMT_BINARYBUFFER: Self = Self(199);
}

/// [d3dkmddi: DXGK_ALLOCATIONUSAGEINFO1::Flags]
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

/// [d3dkmddi: DXGK_ALLOCATIONUSAGEINFO1]
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

/// [d3dkmddi: DXGK_ALLOCATIONUSAGEHINT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_ALLOCATIONUSAGEHINT {
    pub Version: u32,
    pub v1: DXGK_ALLOCATIONUSAGEINFO1,
}

/// [d3dkmddi: DXGK_ALLOCATIONINFOFLAGS2]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_ALLOCATIONINFOFLAGS2 {
    pub ShareBackingStoreWithKmd: bool,
    pub NoImplicitSynchronization: bool,
    pub DisablePartialResidency: bool,
    pub RestrictedToSingleSegment: bool,
    pub NotifyEviction: bool,
    pub NotifyIoMmuUnmap: bool,
    #[bits(26)]
    __Reserved: u32,
}

/// Arm of [`DXGK_ALLOCATIONINFO`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_ALLOCATIONINFO_MinimumPageSizeGroup {
    pub MinimumPageSize: u16,
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

/// [d3dkmddi: DXGK_ALLOCATIONINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_ALLOCATIONINFO {
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub u: DXGK_ALLOCATIONINFO_Union,
    pub Size: usize,
    pub PitchAlignedSize: usize,
    pub HintedBank: DXGK_SEGMENTBANKPREFERENCE,
    pub PreferredSegment: D3DDDI_SEGMENTPREFERENCE,
    pub u1: DXGK_ALLOCATIONINFO_Union1,
    pub SupportedWriteSegmentSet: u32,
    pub EvictionSegmentSet: u32,
    pub u2: DXGK_ALLOCATIONINFO_Union2,
    pub hAllocation: HANDLE,
    pub u3: DXGK_ALLOCATIONINFO_Union3,
    pub pAllocationUsageHint: *mut DXGK_ALLOCATIONUSAGEHINT,
    pub AllocationPriority: u32,
    pub Flags2: DXGK_ALLOCATIONINFOFLAGS2,
}

/// [d3dkmddi: DXGK_CREATEALLOCATIONFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_CREATEALLOCATIONFLAGS {
    pub Resource: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_CREATEALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATEALLOCATION {
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub NumAllocations: u32,
    pub pAllocationInfo: *mut DXGK_ALLOCATIONINFO,
    pub hResource: HANDLE,
    pub Flags: DXGK_CREATEALLOCATIONFLAGS,
}

/// [d3dkmddi: DXGK_DESTROYALLOCATIONFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_DESTROYALLOCATIONFLAGS {
    pub DestroyResource: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_DESTROYALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_DESTROYALLOCATION {
    pub NumAllocations: u32,
    pub pAllocationList: *mut HANDLE,
    pub hResource: HANDLE,
    pub Flags: DXGK_DESTROYALLOCATIONFLAGS,
}

/// [d3dkmddi: DXGK_OPENALLOCATIONINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_OPENALLOCATIONINFO {
    pub hAllocation: D3DKMT_HANDLE,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub hDeviceSpecificAllocation: HANDLE,
}

/// [d3dkmddi: DXGK_OPENALLOCATIONFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_OPENALLOCATIONFLAGS {
    pub Create: bool,
    pub ReadOnly: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_OPENALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_OPENALLOCATION {
    pub NumAllocations: u32,
    pub pOpenAllocation: *mut DXGK_OPENALLOCATIONINFO,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverSize: u32,
    pub Flags: DXGK_OPENALLOCATIONFLAGS,
    pub SubresourceIndex: u32,
    pub SubresourceOffset: usize,
    pub Pitch: u32,
}

/// [d3dkmddi: DXGKARG_CLOSEALLOCATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CLOSEALLOCATION {
    pub NumAllocations: u32,
    pub pOpenHandleList: *mut HANDLE,
}

/// [d3dukmdt: D3DDDI_MULTISAMPLINGMETHOD]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_MULTISAMPLINGMETHOD {
    pub NumSamples: u32,
    pub NumQualityLevels: u32,
}

/// [d3dukmdt: D3DDDI_RATIONAL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_RATIONAL {
    pub Numerator: u32,
    pub Denominator: u32,
}

/// [d3dkmddi: DXGK_DESCRIBEALLOCATIONFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_DESCRIBEALLOCATIONFLAGS {
    pub CheckDisplayMode: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dukmdt: D3DDDI_ROTATION]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_ROTATION(pub i32);

impl D3DDDI_ROTATION {
    pub const D3DDDI_ROTATION_IDENTITY: Self = Self(1);
    pub const D3DDDI_ROTATION_90: Self = Self(2);
    pub const D3DDDI_ROTATION_180: Self = Self(3);
    pub const D3DDDI_ROTATION_270: Self = Self(4);
}

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

/// [d3dkmdt: D3DKMDT_STAGINGSURFACEDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMDT_STAGINGSURFACEDATA {
    pub Width: u32,
    pub Height: u32,
    pub Pitch: u32,
}

/// [d3dkmdt: DXGKARG_FENCESTORAGEVALUETYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGKARG_FENCESTORAGEVALUETYPE(pub i32);

impl DXGKARG_FENCESTORAGEVALUETYPE {
    pub const D3DKARG_FENCESTORAGETYPE_CURRENTVALUE: Self = Self(0);
    pub const D3DKARG_FENCESTORAGETYPE_MONITOREDVALUE: Self = Self(1);
}

/// [d3dukmdt: D3DDDI_NATIVEFENCE_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_NATIVEFENCE_TYPE(pub i32);

impl D3DDDI_NATIVEFENCE_TYPE {
    pub const D3DDDI_NATIVEFENCE_TYPE_DEFAULT: Self = Self(0);
    pub const D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU: Self = Self(1);
}

/// [d3dkmddi: DXGKARG_FENCESTORAGEFLAGS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_FENCESTORAGEFLAGS {
    pub Reserved: u32,
}

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
    pub AllocationInfo: DXGK_ALLOCATIONINFO,
}

/// Union of [`DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA_Union {
    pub pCreateStagingSurfaceData: *mut D3DKMDT_STAGINGSURFACEDATA,
    pub pCreateFenceStorageData: *mut D3DKMDT_FENCESTORAGESURFACEDATA,
}

/// [d3dkmddi: DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA {
    pub StandardAllocationType: D3DKMDT_STANDARDALLOCATION_TYPE,
    pub u: DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA_Union,
    pub pAllocationPrivateDriverData: *mut c_void,
    pub AllocationPrivateDriverDataSize: u32,
    pub pResourcePrivateDriverData: *mut c_void,
    pub ResourcePrivateDriverDataSize: u32,
    pub PhysicalAdapterIndex: u32,
}

/// [d3dkmddi: DXGKARG_SETROOTPAGETABLE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SETROOTPAGETABLE {
    pub hContext: HANDLE,
    pub Address: D3DGPU_PHYSICAL_ADDRESS,
    pub NumEntries: u32,
}

/// [d3dkmddi: DXGKARG_GETROOTPAGETABLESIZE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_GETROOTPAGETABLESIZE {
    pub NumberOfPte: u32,
    pub PhysicalAdapterIndex: u32,
}

/// [d3dkmddi: DXGKARG_MAPCPUHOSTAPERTURE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_MAPCPUHOSTAPERTURE {
    pub hAllocation: HANDLE,
    pub SegmentId: u16,
    pub PhysicalAdapterIndex: u16,
    pub NumberOfPages: u64,
    pub pCpuHostAperturePages: *mut u32,
    pub pMemorySegmentPages: *mut u64,
}

/// [d3dkmddi: DXGKARG_UNMAPCPUHOSTAPERTURE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_UNMAPCPUHOSTAPERTURE {
    pub NumberOfPages: u64,
    pub pCpuHostAperturePages: *mut u32,
    pub SegmentId: u16,
    pub PhysicalAdapterIndex: u16,
}

/// [d3dkmddi: DXGK_HANDLE_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_HANDLE_TYPE(pub i32);

impl DXGK_HANDLE_TYPE {
    pub const DXGK_HANDLE_ALLOCATION: Self = Self(1);
    pub const DXGK_HANDLE_RESOURCE: Self = Self(2);
}

/// [d3dkmddi: DXGKCB_GETHANDLEDATAFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKCB_GETHANDLEDATAFLAGS {
    pub DeviceSpecific: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARGCB_GETHANDLEDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_GETHANDLEDATA {
    pub hObject: D3DKMT_HANDLE,
    pub Type: DXGK_HANDLE_TYPE,
    pub Flags: DXGKCB_GETHANDLEDATAFLAGS,
}

/// [d3dkmddi: DXGKARGCB_RELEASEHANDLEDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_RELEASEHANDLEDATA {
    pub ReleaseHandle: HANDLE,
    pub Type: DXGK_HANDLE_TYPE,
}

zeroed! {
    DXGK_CREATEPROCESSFLAGS,
    DXGKARG_CREATEPROCESS,
    DXGK_CREATEDEVICEFLAGS,
    DXGK_DEVICEINFOFLAGS,
    DXGK_DEVICEINFO,
    DXGKARG_CREATEDEVICE_Union,
    DXGKARG_CREATEDEVICE,
    DXGK_SEGMENTBANKPREFERENCE,
    D3DDDI_SEGMENTPREFERENCE,
    DXGK_ALLOCATIONINFOFLAGS,
    DXGK_ALLOCATIONINFOFLAGS_WDDM2_0,
    D3DDDIFORMAT,
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
    DXGKARG_SETROOTPAGETABLE,
    DXGKARG_GETROOTPAGETABLESIZE,
    DXGKARG_MAPCPUHOSTAPERTURE,
    DXGKARG_UNMAPCPUHOSTAPERTURE,
    DXGK_HANDLE_TYPE,
    DXGKCB_GETHANDLEDATAFLAGS,
    DXGKARGCB_GETHANDLEDATA,
    DXGKARGCB_RELEASEHANDLEDATA,
}

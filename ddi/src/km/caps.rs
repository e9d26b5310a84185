//! Adapter capabilities: `DxgkDdiQueryAdapterInfo`, `DxgkDdiGetNodeMetadata` and the structures they fill.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::*;
#[allow(unused_imports)] // the modules share one flat namespace, as the headers do
use crate::{km::*, kmt::*};

/// [d3dkmddi: DXGK_QUERYADAPTERINFOTYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_QUERYADAPTERINFOTYPE(pub i32);

impl DXGK_QUERYADAPTERINFOTYPE {
    pub const DXGKQAITYPE_UMDRIVERPRIVATE: Self = Self(0);
    pub const DXGKQAITYPE_DRIVERCAPS: Self = Self(1);
    pub const DXGKQAITYPE_QUERYSEGMENT: Self = Self(2);
    pub const DXGKQAITYPE_RESERVED: Self = Self(3);
    pub const DXGKQAITYPE_QUERYSEGMENT2: Self = Self(4);
    pub const DXGKQAITYPE_QUERYSEGMENT3: Self = Self(5);
    pub const DXGKQAITYPE_NUMPOWERCOMPONENTS: Self = Self(6);
    pub const DXGKQAITYPE_POWERCOMPONENTINFO: Self = Self(7);
    pub const DXGKQAITYPE_PREFERREDGPUNODE: Self = Self(8);
    pub const DXGKQAITYPE_POWERCOMPONENTPSTATEINFO: Self = Self(9);
    pub const DXGKQAITYPE_HISTORYBUFFERPRECISION: Self = Self(10);
    pub const DXGKQAITYPE_QUERYSEGMENT4: Self = Self(11);
    pub const DXGKQAITYPE_SEGMENTMEMORYSTATE: Self = Self(12);
    pub const DXGKQAITYPE_GPUMMUCAPS: Self = Self(13);
    pub const DXGKQAITYPE_PAGETABLELEVELDESC: Self = Self(14);
    pub const DXGKQAITYPE_PHYSICALADAPTERCAPS: Self = Self(15);
    pub const DXGKQAITYPE_DISPLAY_DRIVERCAPS_EXTENSION: Self = Self(16);
    pub const DXGKQAITYPE_INTEGRATED_DISPLAY_DESCRIPTOR: Self = Self(17);
    pub const DXGKQAITYPE_UEFIFRAMEBUFFERRANGES: Self = Self(18);
    pub const DXGKQAITYPE_QUERYCOLORIMETRYOVERRIDES: Self = Self(19);
    pub const DXGKQAITYPE_DISPLAYID_DESCRIPTOR: Self = Self(20);
    pub const DXGKQAITYPE_FRAMEBUFFERSAVESIZE: Self = Self(21);
    pub const DXGKQAITYPE_HARDWARERESERVEDRANGES: Self = Self(22);
    pub const DXGKQAITYPE_INTEGRATED_DISPLAY_DESCRIPTOR2: Self = Self(23);
    pub const DXGKQAITYPE_NODEPERFDATA: Self = Self(24);
    pub const DXGKQAITYPE_ADAPTERPERFDATA: Self = Self(25);
    pub const DXGKQAITYPE_ADAPTERPERFDATA_CAPS: Self = Self(26);
    pub const DXGKQAITYPE_GPUVERSION: Self = Self(27);
    pub const DXGKQAITYPE_DEVICE_TYPE_CAPS: Self = Self(28);
    pub const DXGKQAITYPE_WDDMDEVICECAPS: Self = Self(29);
    pub const DXGKQAITYPE_GPUPCAPS: Self = Self(30);
    pub const DXGKQAITYPE_QUERYTARGETGAMMACAPS: Self = Self(31);
    pub const DXGKQAITYPE_SCANOUT_CAPS: Self = Self(33);
    pub const DXGKQAITYPE_PHYSICAL_MEMORY_CAPS: Self = Self(34);
    pub const DXGKQAITYPE_IOMMU_CAPS: Self = Self(35);
    pub const DXGKQAITYPE_HARDWARERESERVEDRANGES2: Self = Self(36);
    pub const DXGKQAITYPE_NATIVE_FENCE_CAPS: Self = Self(37);
    pub const DXGKQAITYPE_USERMODESUBMISSION_CAPS: Self = Self(38);
    pub const DXGKQAITYPE_DIRTYBITTRACKINGCAPS: Self = Self(39);
    pub const DXGKQAITYPE_DIRTYBITTRACKINGSEGMENTCAPS: Self = Self(40);
    pub const DXGKQAITYPE_SCATTER_RESERVE: Self = Self(41);
    pub const DXGKQAITYPE_QUERYPAGINGBUFFERINFO: Self = Self(42);
    pub const DXGKQAITYPE_QUERYSEGMENTCOUNT: Self = Self(43);
    pub const DXGKQAITYPE_QUERYSEGMENT5: Self = Self(44);
    pub const DXGKQAITYPE_QUERYMMUCOUNT: Self = Self(45);
    pub const DXGKQAITYPE_QUERYMMUS: Self = Self(46);
    pub const DXGKQAITYPE_64BITONLYCAPS: Self = Self(47);
    pub const DXGKQAITYPE_PAGINGPROCESSGPUVASIZE: Self = Self(48);
}

/// [d3dkmddi: DXGK_QUERYADAPTERINFOFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_QUERYADAPTERINFOFLAGS {
    pub VirtualMachineData: bool,
    pub SecureVirtualMachine: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_QUERYADAPTERINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_QUERYADAPTERINFO {
    pub Type: DXGK_QUERYADAPTERINFOTYPE,
    pub pInputData: *mut c_void,
    pub InputDataSize: u32,
    pub pOutputData: *mut c_void,
    pub OutputDataSize: u32,
    pub Flags: DXGK_QUERYADAPTERINFOFLAGS,
    pub hKmdProcessHandle: HANDLE,
}

/// [d3dkmddi: DXGK_POINTERFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_POINTERFLAGS {
    pub Monochrome: bool,
    pub Color: bool,
    pub MaskedColor: bool,
    #[bits(29)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_GAMMARAMPCAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_GAMMARAMPCAPS {
    pub Gamma_Rgb256x3x16: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_COLORTRANSFORMCAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_COLORTRANSFORMCAPS {
    pub Gamma_Rgb256x3x16: bool,
    pub Gamma_Dxgi1: bool,
    pub Transform_3x4Matrix: bool,
    pub Transform_3x4Matrix_WideColor: bool,
    pub Transform_3x4Matrix_HighColor: bool,
    pub Transform_Matrix_V2: bool,
    #[bits(26)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_PRESENTATIONCAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_PRESENTATIONCAPS {
    pub NoScreenToScreenBlt: bool,
    pub NoOverlapScreenBlt: bool,
    pub SupportKernelModeCommandBuffer: bool,
    pub NoSameBitmapAlphaBlend: bool,
    pub NoSameBitmapStretchBlt: bool,
    pub NoSameBitmapTransparentBlt: bool,
    pub NoSameBitmapOverlappedAlphaBlend: bool,
    pub NoSameBitmapOverlappedStretchBlt: bool,
    pub DriverSupportsCddDwmInterop: bool,
    #[bits(1)]
    __Reserved0: u8,
    #[bits(4)]
    pub AlignmentShift: u8,
    #[bits(3)]
    pub MaxTextureWidthShift: u8,
    #[bits(3)]
    pub MaxTextureHeightShift: u8,
    pub SupportAllBltRops: bool,
    pub SupportMirrorStretchBlt: bool,
    pub SupportMonoStretchBltModes: bool,
    pub StagingRectStartPitchAligned: bool,
    pub NoSameBitmapBitBlt: bool,
    pub NoSameBitmapOverlappedBitBlt: bool,
    #[bits(1)]
    __Reserved1: u8,
    pub NoTempSurfaceForClearTypeBlend: bool,
    pub SupportSoftwareDeviceBitmaps: bool,
    pub NoCacheCoherentApertureMemory: bool,
    pub SupportLinearHeap: bool,
    #[bits(1)]
    __Reserved: u8,
}

/// [d3dkmddi: DXGK_FLIPCAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_FLIPCAPS {
    pub FlipOnVSyncWithNoWait: bool,
    pub FlipOnVSyncMmIo: bool,
    pub FlipInterval: bool,
    pub FlipImmediateMmIo: bool,
    pub FlipIndependent: bool,
    pub DdiPresentForIFlip: bool,
    pub FlipImmediateOnHSync: bool,
    #[bits(25)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_VIDSCHCAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_VIDSCHCAPS {
    pub MultiEngineAware: bool,
    pub VSyncPowerSaveAware: bool,
    pub PreemptionAware: bool,
    pub NoDmaPatching: bool,
    pub CancelCommandAware: bool,
    pub No64BitAtomics: bool,
    pub LowIrqlPreemptCommand: bool,
    #[bits(4)]
    pub HwQueuePacketCap: u8,
    pub NativeGpuFence: bool,
    pub OptimizedNativeFenceSignaledInterrupt: bool,
    #[bits(19)]
    __Reserved: u32,
}

/// Bits of [`DXGK_VIDMMCAPS`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_VIDMMCAPS_Bits {
    pub OutOfOrderLock: bool,
    pub DedicatedPagingEngine: bool,
    pub PagingEngineCanSwizzle: bool,
    pub SectionBackedPrimary: bool,
    pub CrossAdapterResource: bool,
    pub VirtualAddressingSupported: bool,
    pub GpuMmuSupported: bool,
    pub IoMmuSupported: bool,
    pub ReplicateGdiContent: bool,
    pub NonCpuVisiblePrimary: bool,
    pub ParavirtualizationSupported: bool,
    pub IoMmuSecureModeSupported: bool,
    pub DisableSelfRefreshVRAMInS3: bool,
    pub IoMmuSecureModeRequired: bool,
    pub MapAperture2Supported: bool,
    pub CrossAdapterResourceTexture: bool,
    pub CrossAdapterResourceScanout: bool,
    pub AlwaysPoweredVRAM: bool,
    #[bits(14)]
    __Reserved: u16,
}

/// [d3dkmddi: DXGK_VIDMMCAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_VIDMMCAPS {
    pub Bits: DXGK_VIDMMCAPS_Bits,
    pub PagingNode: u32,
}

/// [d3dkmddi: DXGK_GPUENGINETOPOLOGY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_GPUENGINETOPOLOGY {
    pub NbAsymetricProcessingNodes: u32,
    pub Reserved: [u32; 64],
}

/// [d3dkmddi: DXGK_WDDMVERSION]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_WDDMVERSION(pub i32);

impl DXGK_WDDMVERSION {
    pub const DXGKDDI_WDDMv1: Self = Self(4096);
    pub const DXGKDDI_WDDMv1_2: Self = Self(4608);
    pub const DXGKDDI_WDDMv1_3: Self = Self(4864);
    pub const DXGKDDI_WDDMv2: Self = Self(8192);
    pub const DXGKDDI_WDDMv2_1: Self = Self(8448);
    pub const DXGKDDI_WDDMv2_1_5: Self = Self(8453);
    pub const DXGKDDI_WDDMv2_1_6: Self = Self(8454);
    pub const DXGKDDI_WDDMv2_2: Self = Self(8704);
    pub const DXGKDDI_WDDMv2_3: Self = Self(8960);
    pub const DXGKDDI_WDDMv2_4: Self = Self(9216);
    pub const DXGKDDI_WDDMv2_5: Self = Self(9472);
    pub const DXGKDDI_WDDMv2_6: Self = Self(9728);
    pub const DXGKDDI_WDDMv2_7: Self = Self(9984);
    pub const DXGKDDI_WDDMv2_8: Self = Self(10240);
    pub const DXGKDDI_WDDMv2_9: Self = Self(10496);
    pub const DXGKDDI_WDDMv3_0: Self = Self(12288);
    pub const DXGKDDI_WDDMv3_1: Self = Self(12544);
    pub const DXGKDDI_WDDMv3_2: Self = Self(12800);
    pub const DXGKDDI_WDDM_LATEST: Self = Self(12800);
}

/// Bits of [`DXGK_VIRTUALADDRESSCAPS_DEPRECATED`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_VIRTUALADDRESSCAPS_DEPRECATED_Bits {
    pub PrivilegedMemorySupported: bool,
    pub ReadOnlyMemorySupported: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_VIRTUALADDRESSCAPS_DEPRECATED]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_VIRTUALADDRESSCAPS_DEPRECATED {
    pub Bits: DXGK_VIRTUALADDRESSCAPS_DEPRECATED_Bits,
    pub VirtualAddressBitCount: u32,
    pub PageTableCoverageBitCount: u32,
    pub PageDirectoryEntrySize: u32,
    pub PageDirectorySegment: u32,
    pub PageTableSegment: u32,
    pub IdealGPUPageSize: u32,
}

/// [d3dkmddi: DXGK_DMABUFFERCAPS_DEPRECATED::PresentDmaBuffer]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_DMABUFFERCAPS_DEPRECATED_PresentDmaBuffer {
    pub Size: u32,
    pub PrivateDriverDataSize: u32,
    pub SegmentId: u32,
    pub Reserved1: u32,
    pub Reserved: [u32; 16],
}

/// [d3dkmddi: DXGK_DMABUFFERCAPS_DEPRECATED::PagingDmaBuffer]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_DMABUFFERCAPS_DEPRECATED_PagingDmaBuffer {
    pub Size: u32,
    pub PrivateDriverDataSize: u32,
    pub SegmentId: u32,
    pub Reserved1: u32,
    pub Reserved: [u32; 16],
}

/// [d3dkmddi: DXGK_DMABUFFERCAPS_DEPRECATED]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_DMABUFFERCAPS_DEPRECATED {
    pub PresentDmaBuffer: DXGK_DMABUFFERCAPS_DEPRECATED_PresentDmaBuffer,
    pub PagingDmaBuffer: DXGK_DMABUFFERCAPS_DEPRECATED_PagingDmaBuffer,
}

/// [d3dkmdt: D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY(pub i32);

impl D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY {
    pub const D3DKMDT_GRAPHICS_PREEMPTION_NONE: Self = Self(0);
    pub const D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY: Self = Self(100);
    pub const D3DKMDT_GRAPHICS_PREEMPTION_PRIMITIVE_BOUNDARY: Self = Self(200);
    pub const D3DKMDT_GRAPHICS_PREEMPTION_TRIANGLE_BOUNDARY: Self = Self(300);
    pub const D3DKMDT_GRAPHICS_PREEMPTION_PIXEL_BOUNDARY: Self = Self(400);
    pub const D3DKMDT_GRAPHICS_PREEMPTION_SHADER_BOUNDARY: Self = Self(500);
}

/// [d3dkmdt: D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY(pub i32);

impl D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY {
    pub const D3DKMDT_COMPUTE_PREEMPTION_NONE: Self = Self(0);
    pub const D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY: Self = Self(100);
    pub const D3DKMDT_COMPUTE_PREEMPTION_DISPATCH_BOUNDARY: Self = Self(200);
    pub const D3DKMDT_COMPUTE_PREEMPTION_THREAD_GROUP_BOUNDARY: Self = Self(300);
    pub const D3DKMDT_COMPUTE_PREEMPTION_THREAD_BOUNDARY: Self = Self(400);
    pub const D3DKMDT_COMPUTE_PREEMPTION_SHADER_BOUNDARY: Self = Self(500);
}

/// [d3dkmdt: D3DKMDT_PREEMPTION_CAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMDT_PREEMPTION_CAPS {
    pub GraphicsPreemptionGranularity: D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY,
    pub ComputePreemptionGranularity: D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY,
}

/// [d3dkmddi: DXGK_HWQUEUEDFLIP_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_HWQUEUEDFLIP_CAPS {
    #[bits(32)]
    __Reserved: u32,
}

/// Union of [`DXGK_DRIVERCAPS`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_DRIVERCAPS_Union {
    pub GammaRampCaps: DXGK_GAMMARAMPCAPS,
    pub ColorTransformCaps: DXGK_COLORTRANSFORMCAPS,
}

/// [d3dkmddi: DXGK_DRIVERCAPS::MiscCaps]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_DRIVERCAPS_MiscCaps {
    pub SupportContextlessPresent: bool,
    pub Detachable: bool,
    pub VirtualGpuOnly: bool,
    pub ComputeOnly: bool,
    pub IndependentVidPnVSyncControl: bool,
    pub NoHybridDiscreteDListDllSupport: bool,
    pub DisplayableSupport: bool,
    pub NoHybridDiscreteDListDllMuxSupport: bool,
    pub CursorDoesNotSupportXorBlendWithMultiPlaneOverlay: bool,
    #[bits(23)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_DRIVERCAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_DRIVERCAPS {
    pub HighestAcceptableAddress: PHYSICAL_ADDRESS,
    pub MaxAllocationListSlotId: u32,
    pub ApertureSegmentCommitLimit: usize,
    pub MaxPointerWidth: u32,
    pub MaxPointerHeight: u32,
    pub PointerCaps: DXGK_POINTERFLAGS,
    pub InterruptMessageNumber: u32,
    pub NumberOfSwizzlingRanges: u32,
    pub MaxOverlays: u32,
    pub u: DXGK_DRIVERCAPS_Union,
    pub PresentationCaps: DXGK_PRESENTATIONCAPS,
    pub MaxQueuedFlipOnVSync: u32,
    pub FlipCaps: DXGK_FLIPCAPS,
    pub SchedulingCaps: DXGK_VIDSCHCAPS,
    pub MemoryManagementCaps: DXGK_VIDMMCAPS,
    pub GpuEngineTopology: DXGK_GPUENGINETOPOLOGY,
    pub WDDMVersion: DXGK_WDDMVERSION,
    pub Reserved: DXGK_VIRTUALADDRESSCAPS_DEPRECATED,
    pub Reserved1: DXGK_DMABUFFERCAPS_DEPRECATED,
    pub PreemptionCaps: D3DKMDT_PREEMPTION_CAPS,
    pub SupportNonVGA: u8,
    pub SupportSmoothRotation: u8,
    pub SupportPerEngineTDR: u8,
    pub SupportDirectFlip: u8,
    pub SupportMultiPlaneOverlay: u8,
    pub SupportRuntimePowerManagement: u8,
    pub SupportSurpriseRemovalInHibernation: u8,
    pub HybridDiscrete: u8,
    pub MaxOverlayPlanes: u32,
    pub HybridIntegrated: u8,
    pub InternalGpuVirtualAddressRangeStart: D3DGPU_VIRTUAL_ADDRESS,
    pub InternalGpuVirtualAddressRangeEnd: D3DGPU_VIRTUAL_ADDRESS,
    pub SupportSurpriseRemoval: u8,
    pub SupportMultiPlaneOverlayImmediateFlip: u8,
    pub CursorScaledWithMultiPlaneOverlayPlane0: u8,
    pub HybridAcpiChainingRequired: u8,
    pub MaxQueuedMultiPlaneOverlayFlipVSync: u32,
    pub MiscCaps: DXGK_DRIVERCAPS_MiscCaps,
    pub MaxHwQueuedFlips: u32,
    pub HwQueuedFlipCaps: DXGK_HWQUEUEDFLIP_CAPS,
}

/// [d3dkmddi: DXGK_WDDMDEVICECAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_WDDMDEVICECAPS {
    pub WDDMVersion: DXGK_WDDMVERSION,
}

/// [d3dkmddi: DXGK_PAGETABLEUPDATEMODE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_PAGETABLEUPDATEMODE(pub i32);

impl DXGK_PAGETABLEUPDATEMODE {
    pub const DXGK_PAGETABLEUPDATE_CPU_VIRTUAL: Self = Self(0);
    pub const DXGK_PAGETABLEUPDATE_GPU_VIRTUAL: Self = Self(1);
    pub const DXGK_PAGETABLEUPDATE_GPU_PHYSICAL: Self = Self(2);
}

/// Bits of [`DXGK_GPUMMUCAPS`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_GPUMMUCAPS_Bits {
    pub ReadOnlyMemorySupported: bool,
    pub NoExecuteMemorySupported: bool,
    pub ZeroInPteSupported: bool,
    pub ExplicitPageTableInvalidation: bool,
    pub CacheCoherentMemorySupported: bool,
    pub PageTableUpdateRequireAddressSpaceIdle: bool,
    pub LargePageSupported: bool,
    pub DualPteSupported: bool,
    pub AllowNonAlignedLargePageAddress: bool,
    pub SysMem64KBPageSupported: bool,
    pub InvalidTlbEntriesNotCached: bool,
    pub SysMemLargePageSupported: bool,
    pub CachedPageTables: bool,
    #[bits(19)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_GPUMMUCAPS::LegacyBehaviors]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_GPUMMUCAPS_LegacyBehaviors {
    pub SourcePageTableVaInTransfer: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_GPUMMUCAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_GPUMMUCAPS {
    pub Bits: DXGK_GPUMMUCAPS_Bits,
    pub PageTableUpdateMode: DXGK_PAGETABLEUPDATEMODE,
    pub VirtualAddressBitCount: u32,
    pub LeafPageTableSizeFor64KPagesInBytes: u32,
    pub PageTableLevelCount: u32,
    pub LegacyBehaviors: DXGK_GPUMMUCAPS_LegacyBehaviors,
}

/// [d3dkmddi: DXGK_QUERYGPUMMUCAPSIN]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_QUERYGPUMMUCAPSIN {
    pub PhysicalAdapterIndex: u32,
}

/// [d3dkmddi: DXGK_PAGE_TABLE_LEVEL_DESC]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_PAGE_TABLE_LEVEL_DESC {
    pub PageTableIndexBitCount: u32,
    pub PageTableSegmentId: u32,
    pub PagingProcessPageTableSegmentId: u32,
    pub PageTableSizeInBytes: u32,
    pub PageTableAlignmentInBytes: u32,
}

/// [d3dkmddi: DXGK_QUERYPAGETABLELEVELDESCIN]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_QUERYPAGETABLELEVELDESCIN {
    pub LevelIndex: u16,
    pub PhysicalAdapterIndex: u16,
}

/// [d3dkmddi: DXGK_PHYSICALADAPTERFLAGS]
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

/// [d3dkmddi: DXGK_PHYSICALADAPTERCAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_PHYSICALADAPTERCAPS {
    pub NumExecutionNodes: u16,
    pub PagingNodeIndex: u16,
    pub DxgkPhysicalAdapterHandle: HANDLE,
    pub Flags: DXGK_PHYSICALADAPTERFLAGS,
    pub VPRPagingNode: u32,
    pub VirtualCopyNodeIndex: u32,
}

/// [d3dkmddi: DXGK_QUERYPHYSICALADAPTERCAPSIN]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_QUERYPHYSICALADAPTERCAPSIN {
    pub PhysicalAdapterIndex: u32,
}

/// [d3dkmddi: DXGK_SEGMENTFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_SEGMENTFLAGS {
    pub Aperture: bool,
    pub Agp: bool,
    pub CpuVisible: bool,
    pub UseBanking: bool,
    pub CacheCoherent: bool,
    pub PitchAlignment: bool,
    pub PopulatedFromSystemMemory: bool,
    pub PreservedDuringStandby: bool,
    pub PreservedDuringHibernate: bool,
    pub PartiallyPreservedDuringHibernate: bool,
    pub DirectFlip: bool,
    pub Use64KBPages: bool,
    #[bits(1)]
    __ReservedSysMem: u8,
    pub SupportsCpuHostAperture: bool,
    pub SupportsCachedCpuHostAperture: bool,
    pub ApplicationTarget: bool,
    pub VprSupported: bool,
    pub VprPreservedDuringStandby: bool,
    pub EncryptedPagingSupported: bool,
    pub LocalBudgetGroup: bool,
    pub NonLocalBudgetGroup: bool,
    pub PopulatedByReservedDDRByFirmware: bool,
    #[bits(10)]
    __Reserved: u16,
}

/// [d3dkmddi: DXGK_CPUHOSTAPERTURE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_CPUHOSTAPERTURE {
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

/// [d3dkmddi: DXGK_SEGMENTDESCRIPTOR4]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_SEGMENTDESCRIPTOR4 {
    pub Flags: DXGK_SEGMENTFLAGS,
    pub BaseAddress: PHYSICAL_ADDRESS,
    pub Size: usize,
    pub CommitLimit: usize,
    pub SystemMemoryEndAddress: usize,
    pub u: DXGK_SEGMENTDESCRIPTOR4_Union,
    pub NumInvalidMemoryRanges: u32,
    pub VprRangeStartOffset: usize,
    pub VprRangeSize: usize,
    pub VprAlignment: u32,
    pub NumVprSupported: u32,
    pub VprReserveSize: u32,
    pub NumUEFIFrameBufferRanges: u32,
}

/// [d3dkmddi: DXGK_QUERYSEGMENTOUT4]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_QUERYSEGMENTOUT4 {
    pub NbSegment: u32,
    pub pSegmentDescriptor: *mut u8,
    pub PagingBufferSegmentId: u32,
    pub PagingBufferSize: u32,
    pub PagingBufferPrivateDataSize: u32,
    pub SegmentDescriptorStride: usize,
}

/// [d3dkmddi: DXGK_QUERYSEGMENTIN4]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_QUERYSEGMENTIN4 {
    pub PhysicalAdapterIndex: u32,
}

/// [d3dkmdt: DXGK_ENGINE_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_ENGINE_TYPE(pub i32);

impl DXGK_ENGINE_TYPE {
    pub const DXGK_ENGINE_TYPE_OTHER: Self = Self(0);
    pub const DXGK_ENGINE_TYPE_3D: Self = Self(1);
    pub const DXGK_ENGINE_TYPE_VIDEO_DECODE: Self = Self(2);
    pub const DXGK_ENGINE_TYPE_VIDEO_ENCODE: Self = Self(3);
    pub const DXGK_ENGINE_TYPE_VIDEO_PROCESSING: Self = Self(4);
    pub const DXGK_ENGINE_TYPE_SCENE_ASSEMBLY: Self = Self(5);
    pub const DXGK_ENGINE_TYPE_COPY: Self = Self(6);
    pub const DXGK_ENGINE_TYPE_OVERLAY: Self = Self(7);
    pub const DXGK_ENGINE_TYPE_CRYPTO: Self = Self(8);
    pub const DXGK_ENGINE_TYPE_VIDEO_CODEC: Self = Self(9);
}

/// [d3dkmdt: DXGK_NODEMETADATA_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_NODEMETADATA_FLAGS {
    pub ContextSchedulingSupported: bool,
    pub RingBufferFenceRelease: bool,
    pub SupportTrackedWorkload: bool,
    pub UserModeSubmission: bool,
    pub SupportBuildTestCommandBuffer: bool,
    #[bits(11)]
    __Reserved: u16,
    #[bits(16)]
    pub MaxInFlightHwQueueBuffers: u16,
}

/// [d3dkmdt: DXGK_NODEMETADATA]
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct DXGK_NODEMETADATA {
    pub EngineType: DXGK_ENGINE_TYPE,
    pub FriendlyName: [u16; 32],
    pub Flags: DXGK_NODEMETADATA_FLAGS,
    pub GpuMmuSupported: u8,
    pub IoMmuSupported: u8,
}

/// [d3dkmddi: DXGK_NATIVE_FENCE_CAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_NATIVE_FENCE_CAPS {
    pub MonitoredValueStride: u32,
    pub MapToGpuSystemProcess: u8,
    pub MinimumAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub MaximumAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub Reserved: [u8; 28],
}

/// [d3dkmddi: DXGK_USERMODESUBMISSION_CAPS::Flags]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_USERMODESUBMISSION_CAPS_Flags {
    pub SecondaryDoorbellSupported: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_USERMODESUBMISSION_CAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_USERMODESUBMISSION_CAPS {
    pub Flags: DXGK_USERMODESUBMISSION_CAPS_Flags,
    pub DoorbellSizeInBytes: u32,
    pub SecondaryDoorbellSizeInBytes: u32,
    pub Reserved: [u8; 16],
}

/// [d3dkmddi: DXGK_PHYSICAL_MEMORY_CAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_PHYSICAL_MEMORY_CAPS {
    pub HighestVisibleAddress: PHYSICAL_ADDRESS,
}

/// [d3dkmddi: DXGK_IOMMU_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_IOMMU_CAPS {
    pub IommuIsolationSupported: bool,
    pub IommuIsolationRequired: bool,
    pub DmaRemappingSupported: bool,
    pub GpuVaIommuRequired: bool,
    pub GpuVaIommuGlobalRequired: bool,
    #[bits(27)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_HISTORYBUFFERPRECISION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_HISTORYBUFFERPRECISION {
    pub PrecisionBits: u32,
}

/// [d3dkmdt: DXGK_GPUVERSION]
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct DXGK_GPUVERSION {
    pub BiosVersion: [u16; 32],
    pub GpuArchitecture: [u16; 32],
}

/// [d3dkmddi: DXGK_DISPLAY_DRIVERCAPS_EXTENSION]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_DISPLAY_DRIVERCAPS_EXTENSION {
    pub SecureDisplaySupport: bool,
    pub VirtualModeSupport: bool,
    pub HdrFP16ScanoutSupport: bool,
    pub HdrARGB10ScanoutSupport: bool,
    pub Hdr10MetadataSupport: bool,
    pub VirtualRefreshRateSupport: bool,
    pub SupportUsb4Targets: bool,
    #[bits(25)]
    __Reserved: u32,
}

zeroed! {
    DXGK_QUERYADAPTERINFOTYPE,
    DXGK_QUERYADAPTERINFOFLAGS,
    DXGKARG_QUERYADAPTERINFO,
    DXGK_POINTERFLAGS,
    DXGK_GAMMARAMPCAPS,
    DXGK_COLORTRANSFORMCAPS,
    DXGK_PRESENTATIONCAPS,
    DXGK_FLIPCAPS,
    DXGK_VIDSCHCAPS,
    DXGK_VIDMMCAPS_Bits,
    DXGK_VIDMMCAPS,
    DXGK_GPUENGINETOPOLOGY,
    DXGK_WDDMVERSION,
    DXGK_VIRTUALADDRESSCAPS_DEPRECATED_Bits,
    DXGK_VIRTUALADDRESSCAPS_DEPRECATED,
    DXGK_DMABUFFERCAPS_DEPRECATED_PresentDmaBuffer,
    DXGK_DMABUFFERCAPS_DEPRECATED_PagingDmaBuffer,
    DXGK_DMABUFFERCAPS_DEPRECATED,
    D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY,
    D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY,
    D3DKMDT_PREEMPTION_CAPS,
    DXGK_HWQUEUEDFLIP_CAPS,
    DXGK_DRIVERCAPS_Union,
    DXGK_DRIVERCAPS_MiscCaps,
    DXGK_DRIVERCAPS,
    DXGK_WDDMDEVICECAPS,
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
    DXGK_ENGINE_TYPE,
    DXGK_NODEMETADATA_FLAGS,
    DXGK_NODEMETADATA,
    DXGK_NATIVE_FENCE_CAPS,
    DXGK_USERMODESUBMISSION_CAPS_Flags,
    DXGK_USERMODESUBMISSION_CAPS,
    DXGK_PHYSICAL_MEMORY_CAPS,
    DXGK_IOMMU_CAPS,
    DXGKARG_HISTORYBUFFERPRECISION,
    DXGK_GPUVERSION,
    DXGK_DISPLAY_DRIVERCAPS_EXTENSION,
}

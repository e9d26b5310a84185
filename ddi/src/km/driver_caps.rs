//! `DXGK_DRIVERCAPS`: what a driver says about itself when its adapter starts.

use bitfield_struct::bitfield;

use crate::types::{D3DGPU_VIRTUAL_ADDRESS, PHYSICAL_ADDRESS};

/// Kinds of hardware cursor; none on a compute-only adapter. [d3dkmddi: DXGK_POINTERFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_POINTERFLAGS {
    pub Monochrome: bool,
    pub Color: bool,
    pub MaskedColor: bool,
    #[bits(29)]
    __Reserved: u32,
}

/// Gamma ramps of displays; none on a compute-only adapter. [d3dkmddi: DXGK_GAMMARAMPCAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_GAMMARAMPCAPS {
    pub Gamma_Rgb256x3x16: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Colour transforms of displays; none on a compute-only adapter. [d3dkmddi: DXGK_COLORTRANSFORMCAPS]
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

/// How the adapter presents and blits; all clear on a compute-only adapter. [d3dkmddi: DXGK_PRESENTATIONCAPS]
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

/// How the adapter flips; all clear on a compute-only adapter. [d3dkmddi: DXGK_FLIPCAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_FLIPCAPS {
    pub FlipOnVSyncWithNoWait: bool,
    /// Required of render-only adapters although they never flip; compute-only ones leave it clear.
    pub FlipOnVSyncMmIo: bool,
    pub FlipInterval: bool,
    pub FlipImmediateMmIo: bool,
    pub FlipIndependent: bool,
    pub DdiPresentForIFlip: bool,
    pub FlipImmediateOnHSync: bool,
    #[bits(25)]
    __Reserved: u32,
}

/// What the operating system's GPU scheduler may ask of the driver. [d3dkmddi: DXGK_VIDSCHCAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_VIDSCHCAPS {
    /// Nodes are scheduled independently; the other bits need it.
    pub MultiEngineAware: bool,
    pub VSyncPowerSaveAware: bool,
    /// `DxgkDdiPreemptCommand` stops a node before its queue is empty.
    pub PreemptionAware: bool,
    /// No physical addresses are patched into DMA buffers.
    pub NoDmaPatching: bool,
    /// `DxgkDdiCancelCommand` is told of buffers that never run.
    pub CancelCommandAware: bool,
    /// The GPU cannot write a 64-bit value at once; excludes native fences.
    pub No64BitAtomics: bool,
    /// `DxgkDdiPreemptCommand` may be called below DISPATCH_LEVEL.
    pub LowIrqlPreemptCommand: bool,
    /// Most packets in flight in a queue, 0 for the default.
    #[bits(4)]
    pub HwQueuePacketCap: u8,
    /// Native fences are supported; only legal once the operating system enabled the feature.
    pub NativeGpuFence: bool,
    /// Native-fence interrupts name exactly the fences that were signalled.
    pub OptimizedNativeFenceSignaledInterrupt: bool,
    #[bits(19)]
    __Reserved: u32,
}

/// Single properties of memory management. Bits of [`DXGK_VIDMMCAPS`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_VIDMMCAPS_Bits {
    pub OutOfOrderLock: bool,
    pub DedicatedPagingEngine: bool,
    pub PagingEngineCanSwizzle: bool,
    pub SectionBackedPrimary: bool,
    pub CrossAdapterResource: bool,
    /// Processes have GPU virtual address spaces.
    pub VirtualAddressingSupported: bool,
    /// The GPU's own page tables translate them; needs VirtualAddressingSupported.
    pub GpuMmuSupported: bool,
    /// The system's IOMMU translates them.
    pub IoMmuSupported: bool,
    pub ReplicateGdiContent: bool,
    pub NonCpuVisiblePrimary: bool,
    /// The adapter can be used from a virtual machine.
    pub ParavirtualizationSupported: bool,
    pub IoMmuSecureModeSupported: bool,
    pub DisableSelfRefreshVRAMInS3: bool,
    /// Not started without an IOMMU.
    pub IoMmuSecureModeRequired: bool,
    /// Apertures are mapped by address descriptor lists instead of memory descriptor lists.
    pub MapAperture2Supported: bool,
    pub CrossAdapterResourceTexture: bool,
    pub CrossAdapterResourceScanout: bool,
    pub AlwaysPoweredVRAM: bool,
    #[bits(14)]
    __Reserved: u16,
}

/// What the operating system's memory manager may ask of the driver. [d3dkmddi: DXGK_VIDMMCAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_VIDMMCAPS {
    pub Bits: DXGK_VIDMMCAPS_Bits,
    /// Node that paging work is submitted to.
    pub PagingNode: u32,
}

/// How many engines there are. [d3dkmddi: DXGK_GPUENGINETOPOLOGY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_GPUENGINETOPOLOGY {
    /// Nodes of the adapter, at most 64.
    pub NbAsymetricProcessingNodes: u32,
    pub Reserved: [u32; 64],
}

/// Driver model that a driver claims; another number space than the interface version. [d3dkmddi: DXGK_WDDMVERSION]
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

/// Properties of WDDM 1 virtual addressing, kept for the layout; zero. [d3dkmddi: DXGK_VIRTUALADDRESSCAPS_DEPRECATED]
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

/// Properties of buffers for presents, kept for the layout; zero.
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

/// Properties of paging buffers before WDDM 2, kept for the layout; zero.
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

/// Properties of DMA buffers before WDDM 2, kept for the layout; zero. [d3dkmddi: DXGK_DMABUFFERCAPS_DEPRECATED]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_DMABUFFERCAPS_DEPRECATED {
    pub PresentDmaBuffer: DXGK_DMABUFFERCAPS_DEPRECATED_PresentDmaBuffer,
    pub PagingDmaBuffer: DXGK_DMABUFFERCAPS_DEPRECATED_PagingDmaBuffer,
}

/// Where graphics work can be interrupted, from coarse to fine. [d3dkmdt: D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY]
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

/// Where compute work can be interrupted, from coarse to fine; a compute-only adapter must not say none.
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

/// Where the adapter's work can be interrupted. [d3dkmdt: D3DKMDT_PREEMPTION_CAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMDT_PREEMPTION_CAPS {
    pub GraphicsPreemptionGranularity: D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY,
    pub ComputePreemptionGranularity: D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY,
}

/// Reserved for flips queued in hardware. [d3dkmddi: DXGK_HWQUEUEDFLIP_CAPS]
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

/// Kinds of adapter. [d3dkmddi: DXGK_DRIVERCAPS::MiscCaps]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_DRIVERCAPS_MiscCaps {
    pub SupportContextlessPresent: bool,
    pub Detachable: bool,
    pub VirtualGpuOnly: bool,
    /// No display and no graphics: the adapter is hidden from callers that do not ask for such.
    pub ComputeOnly: bool,
    pub IndependentVidPnVSyncControl: bool,
    pub NoHybridDiscreteDListDllSupport: bool,
    pub DisplayableSupport: bool,
    pub NoHybridDiscreteDListDllMuxSupport: bool,
    pub CursorDoesNotSupportXorBlendWithMultiPlaneOverlay: bool,
    #[bits(23)]
    __Reserved: u32,
}

/// Answer to `DXGKQAITYPE_DRIVERCAPS`: what the driver and its GPU can do. Filled by the driver.
/// [d3dkmddi: DXGK_DRIVERCAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_DRIVERCAPS {
    /// Highest bus address the GPU reaches; below installed memory the adapter is not started.
    pub HighestAcceptableAddress: PHYSICAL_ADDRESS,
    pub MaxAllocationListSlotId: u32,
    /// Bytes that may be committed to aperture segments, 0 for the default.
    pub ApertureSegmentCommitLimit: usize,
    pub MaxPointerWidth: u32,
    pub MaxPointerHeight: u32,
    pub PointerCaps: DXGK_POINTERFLAGS,
    /// Interrupt message that `DxgkCbSynchronizeExecution` synchronises with.
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
    /// Must agree with [`DXGK_WDDMDEVICECAPS`] and the interface version.
    pub WDDMVersion: DXGK_WDDMVERSION,
    pub Reserved: DXGK_VIRTUALADDRESSCAPS_DEPRECATED,
    pub Reserved1: DXGK_DMABUFFERCAPS_DEPRECATED,
    pub PreemptionCaps: D3DKMDT_PREEMPTION_CAPS,
    /// Drives a display without VGA; 0 on a compute-only adapter.
    pub SupportNonVGA: u8,
    pub SupportSmoothRotation: u8,
    /// Single engines can be reset; mandatory for render-only and compute-only adapters.
    pub SupportPerEngineTDR: u8,
    pub SupportDirectFlip: u8,
    pub SupportMultiPlaneOverlay: u8,
    /// Power components are reported and managed at run time.
    pub SupportRuntimePowerManagement: u8,
    pub SupportSurpriseRemovalInHibernation: u8,
    pub HybridDiscrete: u8,
    pub MaxOverlayPlanes: u32,
    pub HybridIntegrated: u8,
    /// First address the driver keeps for itself in every process; with the end 0, none.
    pub InternalGpuVirtualAddressRangeStart: D3DGPU_VIRTUAL_ADDRESS,
    pub InternalGpuVirtualAddressRangeEnd: D3DGPU_VIRTUAL_ADDRESS,
    /// The driver survives that the device disappears.
    pub SupportSurpriseRemoval: u8,
    pub SupportMultiPlaneOverlayImmediateFlip: u8,
    pub CursorScaledWithMultiPlaneOverlayPlane0: u8,
    pub HybridAcpiChainingRequired: u8,
    pub MaxQueuedMultiPlaneOverlayFlipVSync: u32,
    pub MiscCaps: DXGK_DRIVERCAPS_MiscCaps,
    pub MaxHwQueuedFlips: u32,
    pub HwQueuedFlipCaps: DXGK_HWQUEUEDFLIP_CAPS,
}

/// Answer to `DXGKQAITYPE_WDDMDEVICECAPS`: the version once more, for a device of the adapter.
/// [d3dkmddi: DXGK_WDDMDEVICECAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_WDDMDEVICECAPS {
    pub WDDMVersion: DXGK_WDDMVERSION,
}

zeroed! {
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
}

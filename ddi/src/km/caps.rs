//! Adapter questions: `DxgkDdiQueryAdapterInfo` itself, nodes, and the smaller answers.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::{D3DGPU_VIRTUAL_ADDRESS, HANDLE, PHYSICAL_ADDRESS};

/// What the operating system asks in `DxgkDdiQueryAdapterInfo`; each number has its own input and output structure.
/// [d3dkmddi: DXGK_QUERYADAPTERINFOTYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_QUERYADAPTERINFOTYPE(pub i32);

impl DXGK_QUERYADAPTERINFOTYPE {
    /// Question of the user-mode driver, passed on unread: the length is the caller's.
    pub const DXGKQAITYPE_UMDRIVERPRIVATE: Self = Self(0);
    /// `DXGK_DRIVERCAPS`.
    pub const DXGKQAITYPE_DRIVERCAPS: Self = Self(1);
    pub const DXGKQAITYPE_QUERYSEGMENT: Self = Self(2);
    pub const DXGKQAITYPE_RESERVED: Self = Self(3);
    pub const DXGKQAITYPE_QUERYSEGMENT2: Self = Self(4);
    pub const DXGKQAITYPE_QUERYSEGMENT3: Self = Self(5);
    pub const DXGKQAITYPE_NUMPOWERCOMPONENTS: Self = Self(6);
    pub const DXGKQAITYPE_POWERCOMPONENTINFO: Self = Self(7);
    pub const DXGKQAITYPE_PREFERREDGPUNODE: Self = Self(8);
    pub const DXGKQAITYPE_POWERCOMPONENTPSTATEINFO: Self = Self(9);
    /// One [`DXGKARG_HISTORYBUFFERPRECISION`] for each node.
    pub const DXGKQAITYPE_HISTORYBUFFERPRECISION: Self = Self(10);
    /// `DXGK_QUERYSEGMENTOUT4`, asked twice: for the number, then for the descriptors.
    pub const DXGKQAITYPE_QUERYSEGMENT4: Self = Self(11);
    pub const DXGKQAITYPE_SEGMENTMEMORYSTATE: Self = Self(12);
    /// `DXGK_GPUMMUCAPS`.
    pub const DXGKQAITYPE_GPUMMUCAPS: Self = Self(13);
    /// `DXGK_PAGE_TABLE_LEVEL_DESC`, asked once for each level.
    pub const DXGKQAITYPE_PAGETABLELEVELDESC: Self = Self(14);
    /// `DXGK_PHYSICALADAPTERCAPS`.
    pub const DXGKQAITYPE_PHYSICALADAPTERCAPS: Self = Self(15);
    pub const DXGKQAITYPE_DISPLAY_DRIVERCAPS_EXTENSION: Self = Self(16);
    pub const DXGKQAITYPE_INTEGRATED_DISPLAY_DESCRIPTOR: Self = Self(17);
    pub const DXGKQAITYPE_UEFIFRAMEBUFFERRANGES: Self = Self(18);
    pub const DXGKQAITYPE_QUERYCOLORIMETRYOVERRIDES: Self = Self(19);
    pub const DXGKQAITYPE_DISPLAYID_DESCRIPTOR: Self = Self(20);
    pub const DXGKQAITYPE_FRAMEBUFFERSAVESIZE: Self = Self(21);
    pub const DXGKQAITYPE_HARDWARERESERVEDRANGES: Self = Self(22);
    pub const DXGKQAITYPE_INTEGRATED_DISPLAY_DESCRIPTOR2: Self = Self(23);
    /// [`DXGK_NODE_PERFDATA`](super::DXGK_NODE_PERFDATA), asked with the node in 4 bytes.
    pub const DXGKQAITYPE_NODEPERFDATA: Self = Self(24);
    /// [`DXGK_ADAPTER_PERFDATA`](super::DXGK_ADAPTER_PERFDATA), asked with the physical adapter in 4 bytes.
    pub const DXGKQAITYPE_ADAPTERPERFDATA: Self = Self(25);
    /// [`DXGK_ADAPTER_PERFDATACAPS`](super::DXGK_ADAPTER_PERFDATACAPS), asked as before.
    pub const DXGKQAITYPE_ADAPTERPERFDATA_CAPS: Self = Self(26);
    /// [`DXGK_GPUVERSION`].
    pub const DXGKQAITYPE_GPUVERSION: Self = Self(27);
    pub const DXGKQAITYPE_DEVICE_TYPE_CAPS: Self = Self(28);
    /// `DXGK_WDDMDEVICECAPS`.
    pub const DXGKQAITYPE_WDDMDEVICECAPS: Self = Self(29);
    pub const DXGKQAITYPE_GPUPCAPS: Self = Self(30);
    pub const DXGKQAITYPE_QUERYTARGETGAMMACAPS: Self = Self(31);
    pub const DXGKQAITYPE_SCANOUT_CAPS: Self = Self(33);
    /// [`DXGK_PHYSICAL_MEMORY_CAPS`], asked before `DxgkDdiStartDevice`.
    pub const DXGKQAITYPE_PHYSICAL_MEMORY_CAPS: Self = Self(34);
    /// [`DXGK_IOMMU_CAPS`], asked before `DxgkDdiStartDevice`.
    pub const DXGKQAITYPE_IOMMU_CAPS: Self = Self(35);
    pub const DXGKQAITYPE_HARDWARERESERVEDRANGES2: Self = Self(36);
    /// [`DXGK_NATIVE_FENCE_CAPS`], asked when the scheduling capability is set.
    pub const DXGKQAITYPE_NATIVE_FENCE_CAPS: Self = Self(37);
    /// [`DXGK_USERMODESUBMISSION_CAPS`].
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

/// For whom the question is asked; zero unless a virtual machine is involved. [d3dkmddi: DXGK_QUERYADAPTERINFOFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_QUERYADAPTERINFOFLAGS {
    pub VirtualMachineData: bool,
    pub SecureVirtualMachine: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiQueryAdapterInfo`. The buffers belong to the caller and may be shorter than the current
/// structure of the type. [d3dkmddi: DXGKARG_QUERYADAPTERINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_QUERYADAPTERINFO {
    /// Chooses the structures.
    pub Type: DXGK_QUERYADAPTERINFOTYPE,
    /// Type-dependent input, NULL for most types.
    pub pInputData: *mut c_void,
    /// Bytes of input.
    pub InputDataSize: u32,
    /// Filled by the driver, not zeroed before the call.
    pub pOutputData: *mut c_void,
    /// Bytes that may be written.
    pub OutputDataSize: u32,
    pub Flags: DXGK_QUERYADAPTERINFOFLAGS,
    /// The driver's handle of the asking process, NULL for the system.
    pub hKmdProcessHandle: HANDLE,
}

/// What a node is for; there is no number for compute, which reports as other. [d3dkmdt: DXGK_ENGINE_TYPE]
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

/// What a node can do. [d3dkmdt: DXGK_NODEMETADATA_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_NODEMETADATA_FLAGS {
    /// Hardware contexts and queues can be created on the node.
    pub ContextSchedulingSupported: bool,
    /// The driver or GPU writes the progress fence when a buffer retires; clear: the buffer itself ends in that write.
    pub RingBufferFenceRelease: bool,
    pub SupportTrackedWorkload: bool,
    /// Queues of the node can have doorbells.
    pub UserModeSubmission: bool,
    /// The kernel-mode test interface can build buffers for the node.
    pub SupportBuildTestCommandBuffer: bool,
    #[bits(11)]
    __Reserved: u16,
    /// Most buffers in flight in one queue, 0 for no limit.
    #[bits(16)]
    pub MaxInFlightHwQueueBuffers: u16,
}

/// Answer of `DxgkDdiGetNodeMetadata`: one node. Filled by the driver. [d3dkmdt: DXGK_NODEMETADATA]
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct DXGK_NODEMETADATA {
    pub EngineType: DXGK_ENGINE_TYPE,
    /// UTF-16, terminated by zero, shown by Task Manager for nodes of type other.
    pub FriendlyName: [u16; 32],
    pub Flags: DXGK_NODEMETADATA_FLAGS,
    /// The node translates by the GPU's page tables; must agree with the memory capabilities.
    pub GpuMmuSupported: u8,
    pub IoMmuSupported: u8,
}

/// Answer to `DXGKQAITYPE_NATIVE_FENCE_CAPS`: how the GPU uses native fences. Filled by the driver.
/// [d3dkmddi: DXGK_NATIVE_FENCE_CAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_NATIVE_FENCE_CAPS {
    /// Extra distance of monitored values in bytes, 0 for values packed by 8.
    pub MonitoredValueStride: u32,
    /// Fence values are needed at addresses of the paging process too.
    pub MapToGpuSystemProcess: u8,
    /// Lowest GPU virtual address at which the values may lie, in every process.
    pub MinimumAddress: D3DGPU_VIRTUAL_ADDRESS,
    /// Highest such address.
    pub MaximumAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub Reserved: [u8; 28],
}

/// Properties of doorbells. [d3dkmddi: DXGK_USERMODESUBMISSION_CAPS::Flags]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_USERMODESUBMISSION_CAPS_Flags {
    pub SecondaryDoorbellSupported: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Answer to `DXGKQAITYPE_USERMODESUBMISSION_CAPS`: how doorbells look. Filled by the driver.
/// [d3dkmddi: DXGK_USERMODESUBMISSION_CAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_USERMODESUBMISSION_CAPS {
    pub Flags: DXGK_USERMODESUBMISSION_CAPS_Flags,
    /// What is mapped into the process: whole pages, at most `DXGK_MAX_DOORBELL_SIZE_BYTES`.
    pub DoorbellSizeInBytes: u32,
    pub SecondaryDoorbellSizeInBytes: u32,
    pub Reserved: [u8; 16],
}

/// Answer to `DXGKQAITYPE_PHYSICAL_MEMORY_CAPS`, before the device is started. Filled by the driver.
/// [d3dkmddi: DXGK_PHYSICAL_MEMORY_CAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_PHYSICAL_MEMORY_CAPS {
    /// Highest bus address the device can reach, all ones for everything.
    pub HighestVisibleAddress: PHYSICAL_ADDRESS,
}

/// Answer to `DXGKQAITYPE_IOMMU_CAPS`, before the device is started. Zero: the driver does not know of IOMMUs.
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

/// Answer to `DXGKQAITYPE_HISTORYBUFFERPRECISION` for one node. Filled by the driver.
/// [d3dkmddi: DXGKARG_HISTORYBUFFERPRECISION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_HISTORYBUFFERPRECISION {
    /// Bits of a history timestamp, 32 to 64.
    pub PrecisionBits: u32,
}

/// Answer to `DXGKQAITYPE_GPUVERSION`: texts for users. Filled by the driver, into a buffer that may be unaligned.
/// [d3dkmdt: DXGK_GPUVERSION]
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct DXGK_GPUVERSION {
    pub BiosVersion: [u16; 32],
    pub GpuArchitecture: [u16; 32],
}

/// Answer to `DXGKQAITYPE_DISPLAY_DRIVERCAPS_EXTENSION`; all clear without displays.
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

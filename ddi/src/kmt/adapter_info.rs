//! Answers of `D3DKMTQueryAdapterInfo`.

use bitfield_struct::bitfield;

use crate::km::{D3DKMDT_PREEMPTION_CAPS, DXGK_GPUVERSION};
use crate::types::LARGE_INTEGER;

/// Which user-mode driver `KMTQAITYPE_UMDRIVERNAME` asks for. [d3dkmthk: KMTUMDVERSION]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KMTUMDVERSION(pub i32);

impl KMTUMDVERSION {
    pub const KMTUMDVERSION_DX9: Self = Self(0);
    pub const KMTUMDVERSION_DX10: Self = Self(1);
    pub const KMTUMDVERSION_DX11: Self = Self(2);
    pub const KMTUMDVERSION_DX12: Self = Self(3);
    pub const KMTUMDVERSION_DX12_WSA32: Self = Self(4);
    pub const KMTUMDVERSION_DX12_WSA64: Self = Self(5);
    pub const NUM_KMTUMDVERSIONS: Self = Self(6);
}

/// Question and answer of `KMTQAITYPE_UMDRIVERNAME`. [d3dkmthk: D3DKMT_UMDFILENAMEINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_UMDFILENAMEINFO {
    /// In.
    pub Version: KMTUMDVERSION,
    pub UmdFileName: [u16; 260],
}

/// Answer to `KMTQAITYPE_GETSEGMENTSIZE`, in bytes. [d3dkmthk: D3DKMT_SEGMENTSIZEINFO]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_SEGMENTSIZEINFO {
    /// Memory segments.
    pub DedicatedVideoMemorySize: u64,
    /// Memory of the machine that nobody else uses.
    pub DedicatedSystemMemorySize: u64,
    /// Memory of the machine that the adapter may use.
    pub SharedSystemMemorySize: u64,
}

/// Question and answer of `KMTQAITYPE_GETSEGMENTGROUPSIZE`, in bytes. [d3dkmthk: D3DKMT_SEGMENTGROUPSIZEINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SEGMENTGROUPSIZEINFO {
    /// In.
    pub PhysicalAdapterIndex: u32,
    pub LegacyInfo: D3DKMT_SEGMENTSIZEINFO,
    pub LocalMemory: u64,
    pub NonLocalMemory: u64,
    /// Segments that are not for applications.
    pub NonBudgetMemory: u64,
}

/// Answer to `KMTQAITYPE_ADAPTERADDRESS`: where the adapter is. [d3dkmthk: D3DKMT_ADAPTERADDRESS]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_ADAPTERADDRESS {
    pub BusNumber: u32,
    pub DeviceNumber: u32,
    pub FunctionNumber: u32,
}

/// Answer to `KMTQAITYPE_ADAPTERREGISTRYINFO`: the HardwareInformation values of the software key. [d3dkmthk: D3DKMT_ADAPTERREGISTRYINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ADAPTERREGISTRYINFO {
    pub AdapterString: [u16; 260],
    pub BiosString: [u16; 260],
    pub DacType: [u16; 260],
    pub ChipType: [u16; 260],
}

/// Whether the GPU has virtual addresses. [d3dkmthk: D3DKMT_VIRTUALADDRESSFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_VIRTUALADDRESSFLAGS {
    pub VirtualAddressSupported: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Answer to `KMTQAITYPE_VIRTUALADDRESSINFO`. [d3dkmthk: D3DKMT_VIRTUALADDRESSINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_VIRTUALADDRESSINFO {
    pub VirtualAddressFlags: D3DKMT_VIRTUALADDRESSFLAGS,
}

/// Bits of [`D3DKMT_WDDM_1_2_CAPS`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_WDDM_1_2_CAPS_Bits {
    pub SupportNonVGA: bool,
    pub SupportSmoothRotation: bool,
    /// Single engines can be reset.
    pub SupportPerEngineTDR: bool,
    pub SupportKernelModeCommandBuffer: bool,
    pub SupportCCD: bool,
    pub SupportSoftwareDeviceBitmaps: bool,
    pub SupportGammaRamp: bool,
    pub SupportHWCursor: bool,
    pub SupportHWVSync: bool,
    pub SupportSurpriseRemovalInHibernation: bool,
    #[bits(22)]
    __Reserved: u32,
}

/// Answer to `KMTQAITYPE_WDDM_1_2_CAPS`. [d3dkmdt: D3DKMT_WDDM_1_2_CAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_WDDM_1_2_CAPS {
    pub PreemptionCaps: D3DKMDT_PREEMPTION_CAPS,
    pub Bits: D3DKMT_WDDM_1_2_CAPS_Bits,
}

/// Answer to `KMTQAITYPE_WDDM_1_3_CAPS`. [d3dkmdt: D3DKMT_WDDM_1_3_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_WDDM_1_3_CAPS {
    pub SupportMiracast: bool,
    pub IsHybridIntegratedGPU: bool,
    pub IsHybridDiscreteGPU: bool,
    pub SupportPowerManagementPStates: bool,
    pub SupportVirtualModes: bool,
    pub SupportCrossAdapterResource: bool,
    #[bits(26)]
    __Reserved: u32,
}

/// Answer to `KMTQAITYPE_WDDM_2_0_CAPS`. [d3dkmdt: D3DKMT_WDDM_2_0_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_WDDM_2_0_CAPS {
    /// The GPU signals monitored fences of 64 bits.
    pub Support64BitAtomics: bool,
    pub GpuMmuSupported: bool,
    pub IoMmuSupported: bool,
    pub FlipOverwriteSupported: bool,
    pub SupportContextlessPresent: bool,
    pub SupportSurpriseRemoval: bool,
    #[bits(26)]
    __Reserved: u32,
}

/// The driver does not have a feature, or no machine may use it. [d3dkmdt: DXGK_FEATURE_SUPPORT_ALWAYS_OFF]
pub const DXGK_FEATURE_SUPPORT_ALWAYS_OFF: u32 = 0;
/// The driver has a feature for use. [d3dkmdt: DXGK_FEATURE_SUPPORT_STABLE]
pub const DXGK_FEATURE_SUPPORT_STABLE: u32 = 2;

/// Answer to `KMTQAITYPE_WDDM_2_9_CAPS`. [d3dkmdt: D3DKMT_WDDM_2_9_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_WDDM_2_9_CAPS {
    /// One of `DXGK_FEATURE_SUPPORT_*`.
    #[bits(2)]
    pub HwSchSupportState: u32,
    pub HwSchEnabled: bool,
    pub SelfRefreshMemorySupported: bool,
    #[bits(28)]
    __Reserved: u32,
}

/// Answer to `KMTQAITYPE_WDDM_3_0_CAPS`; all clear without displays. [d3dkmdt: D3DKMT_WDDM_3_0_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_WDDM_3_0_CAPS {
    #[bits(2)]
    pub HwFlipQueueSupportState: u32,
    pub HwFlipQueueEnabled: bool,
    pub DisplayableSupported: bool,
    #[bits(28)]
    __Reserved: u32,
}

/// How a function names itself on its bus. [d3dkmthk: D3DKMT_DEVICE_IDS]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_DEVICE_IDS {
    pub VendorID: u32,
    pub DeviceID: u32,
    pub SubVendorID: u32,
    pub SubSystemID: u32,
    pub RevisionID: u32,
    /// An `INTERFACE_TYPE`.
    pub BusType: u32,
}

/// Question and answer of `KMTQAITYPE_PHYSICALADAPTERDEVICEIDS`. [d3dkmthk: D3DKMT_QUERY_DEVICE_IDS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERY_DEVICE_IDS {
    /// In.
    pub PhysicalAdapterIndex: u32,
    pub DeviceIds: D3DKMT_DEVICE_IDS,
}

/// Flags of [`D3DKMT_GPUMMU_CAPS`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_GPUMMU_CAPS_Flags {
    pub ReadOnlyMemorySupported: bool,
    pub NoExecuteMemorySupported: bool,
    pub CacheCoherentMemorySupported: bool,
    #[bits(29)]
    __Reserved: u32,
}

/// What the GPU's page tables can do. [d3dkmthk: D3DKMT_GPUMMU_CAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_GPUMMU_CAPS {
    pub Flags: D3DKMT_GPUMMU_CAPS_Flags,
    pub VirtualAddressBitCount: u32,
}

/// Question and answer of `KMTQAITYPE_QUERY_GPUMMU_CAPS`. [d3dkmthk: D3DKMT_QUERY_GPUMMU_CAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERY_GPUMMU_CAPS {
    /// In.
    pub PhysicalAdapterIndex: u32,
    pub Caps: D3DKMT_GPUMMU_CAPS,
}

/// Answer to `KMTQAITYPE_KMD_DRIVER_VERSION`: four numbers of 16 bits, the first uppermost. [d3dkmthk: D3DKMT_KMD_DRIVER_VERSION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_KMD_DRIVER_VERSION {
    pub DriverVersion: LARGE_INTEGER,
}

/// Answer to `KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID`: the GUID as text. [d3dkmthk: D3DKMT_QUERY_ADAPTER_UNIQUE_GUID]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERY_ADAPTER_UNIQUE_GUID {
    pub AdapterUniqueGUID: [u16; 40],
}

/// Question and answer of `KMTQUITYPE_GPUVERSION`. [d3dkmthk: D3DKMT_GPUVERSION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_GPUVERSION {
    /// In.
    pub PhysicalAdapterIndex: u32,
    pub BiosVersion: [u16; 32],
    pub GpuArchitecture: [u16; 32],
}

impl D3DKMT_GPUVERSION {
    /// The versions that a driver returned for the physical adapter with this index.
    pub const fn new(index: u32, version: &DXGK_GPUVERSION) -> Self {
        let (bios, architecture) = (version.BiosVersion, version.GpuArchitecture);
        Self { PhysicalAdapterIndex: index, BiosVersion: bios, GpuArchitecture: architecture }
    }
}

/// Answer to `KMTQAITYPE_DRIVER_DESCRIPTION`. [d3dkmthk: D3DKMT_DRIVER_DESCRIPTION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DRIVER_DESCRIPTION {
    pub DriverDescription: [u16; 4096],
}

/// Where `KMTQAITYPE_QUERYREGISTRY` looks. [d3dukmdt: D3DDDI_QUERYREGISTRY_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_QUERYREGISTRY_TYPE(pub i32);

impl D3DDDI_QUERYREGISTRY_TYPE {
    pub const D3DDDI_QUERYREGISTRY_SERVICEKEY: Self = Self(0);
    /// The software key of the device.
    pub const D3DDDI_QUERYREGISTRY_ADAPTERKEY: Self = Self(1);
    pub const D3DDDI_QUERYREGISTRY_DRIVERSTOREPATH: Self = Self(2);
    pub const D3DDDI_QUERYREGISTRY_DRIVERIMAGEPATH: Self = Self(3);
    pub const D3DDDI_QUERYREGISTRY_MAX: Self = Self(4);
}

/// How a question to the registry ended. [d3dukmdt: D3DDDI_QUERYREGISTRY_STATUS]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_QUERYREGISTRY_STATUS(pub i32);

impl D3DDDI_QUERYREGISTRY_STATUS {
    pub const D3DDDI_QUERYREGISTRY_STATUS_SUCCESS: Self = Self(0);
    /// Only `OutputValueSize` was written.
    pub const D3DDDI_QUERYREGISTRY_STATUS_BUFFER_OVERFLOW: Self = Self(1);
    pub const D3DDDI_QUERYREGISTRY_STATUS_FAIL: Self = Self(2);
    pub const D3DDDI_QUERYREGISTRY_STATUS_MAX: Self = Self(3);
}

/// Flags of [`D3DDDI_QUERYREGISTRY_INFO`]. [d3dukmdt: D3DDDI_QUERYREGISTRY_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_QUERYREGISTRY_FLAGS {
    /// Paths are translated for a guest.
    pub TranslatePath: bool,
    /// The value may change while the adapter runs.
    pub MutableValue: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// Union of [`D3DDDI_QUERYREGISTRY_INFO`]: the value, as long as it is.
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DDDI_QUERYREGISTRY_INFO_Union {
    pub OutputDword: u32,
    pub OutputQword: u64,
    pub OutputString: [u16; 1],
    pub OutputBinary: [u8; 1],
}

/// Question and answer of `KMTQAITYPE_QUERYREGISTRY`; the value continues behind the structure. [d3dukmdt: D3DDDI_QUERYREGISTRY_INFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_QUERYREGISTRY_INFO {
    /// In.
    pub QueryType: D3DDDI_QUERYREGISTRY_TYPE,
    /// In.
    pub QueryFlags: D3DDDI_QUERYREGISTRY_FLAGS,
    /// In: name of the value; ignored for paths.
    pub ValueName: [u16; 260],
    /// In: the type that the value must have, such as REG_SZ; 0 for paths.
    pub ValueType: u32,
    /// In.
    pub PhysicalAdapterIndex: u32,
    /// Bytes of the value, whether or not it fitted.
    pub OutputValueSize: u32,
    pub Status: D3DDDI_QUERYREGISTRY_STATUS,
    pub u: D3DDDI_QUERYREGISTRY_INFO_Union,
}

/// How much two adapters can share. [d3dkmthk: D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER(pub i32);

impl D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER {
    pub const D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_NONE: Self = Self(0);
    pub const D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_COPY: Self = Self(1);
    pub const D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_TEXTURE: Self = Self(2);
    pub const D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_SCANOUT: Self = Self(3);
}

/// Answer to `KMTQAITYPE_CROSSADAPTERRESOURCE_SUPPORT`. [d3dkmthk: D3DKMT_CROSSADAPTERRESOURCE_SUPPORT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CROSSADAPTERRESOURCE_SUPPORT {
    pub SupportTier: D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER,
}

zeroed! {
    KMTUMDVERSION,
    D3DKMT_UMDFILENAMEINFO,
    D3DKMT_SEGMENTSIZEINFO,
    D3DKMT_SEGMENTGROUPSIZEINFO,
    D3DKMT_ADAPTERADDRESS,
    D3DKMT_ADAPTERREGISTRYINFO,
    D3DKMT_VIRTUALADDRESSFLAGS,
    D3DKMT_VIRTUALADDRESSINFO,
    D3DKMT_WDDM_1_2_CAPS_Bits,
    D3DKMT_WDDM_1_2_CAPS,
    D3DKMT_WDDM_1_3_CAPS,
    D3DKMT_WDDM_2_0_CAPS,
    D3DKMT_WDDM_2_9_CAPS,
    D3DKMT_WDDM_3_0_CAPS,
    D3DKMT_DEVICE_IDS,
    D3DKMT_QUERY_DEVICE_IDS,
    D3DKMT_GPUMMU_CAPS_Flags,
    D3DKMT_GPUMMU_CAPS,
    D3DKMT_QUERY_GPUMMU_CAPS,
    D3DKMT_KMD_DRIVER_VERSION,
    D3DKMT_QUERY_ADAPTER_UNIQUE_GUID,
    D3DKMT_GPUVERSION,
    D3DKMT_DRIVER_DESCRIPTION,
    D3DDDI_QUERYREGISTRY_TYPE,
    D3DDDI_QUERYREGISTRY_STATUS,
    D3DDDI_QUERYREGISTRY_FLAGS,
    D3DDDI_QUERYREGISTRY_INFO_Union,
    D3DDDI_QUERYREGISTRY_INFO,
    D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER,
    D3DKMT_CROSSADAPTERRESOURCE_SUPPORT,
}

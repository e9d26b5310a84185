//! Power components: what can be put to sleep on its own, and how.

use bitfield_struct::bitfield;

use crate::types::GUID;

/// A state whose power nobody measured. [d3dkmddi: DXGK_FSTATE_UNKNOWN_POWER]
pub const DXGK_FSTATE_UNKNOWN_POWER: u32 = u32::MAX;

/// Power management is about to be set up. [d3dkmddi: GUID_DXGKDDI_POWER_MANAGEMENT_PREPARE_TO_START]
pub const GUID_DXGKDDI_POWER_MANAGEMENT_PREPARE_TO_START: GUID =
    GUID { Data1: 0xcba5_49d4, Data2: 0xcf3a, Data3: 0x445c, Data4: [0x94, 0x68, 0x23, 0x83, 0xfd, 0x52, 0x31, 0x16] };
/// From now on the power callbacks may be called. [d3dkmddi: GUID_DXGKDDI_POWER_MANAGEMENT_STARTED]
pub const GUID_DXGKDDI_POWER_MANAGEMENT_STARTED: GUID =
    GUID { Data1: 0x6c92_9c1d, Data2: 0x7d76, Data3: 0x4538, Data4: [0x93, 0xad, 0x44, 0x9d, 0xc9, 0xfd, 0xc2, 0x39] };
/// From now on they may not. [d3dkmddi: GUID_DXGKDDI_POWER_MANAGEMENT_STOPPED]
pub const GUID_DXGKDDI_POWER_MANAGEMENT_STOPPED: GUID =
    GUID { Data1: 0x0a9d_9621, Data2: 0xbc21, Data3: 0x4dd4, Data4: [0xa0, 0xfc, 0xd9, 0x76, 0xe4, 0x28, 0xf7, 0x38] };

/// One F-state of a component; state 0 is the working one. Times are in 100 ns. [d3dkmddi: DXGK_POWER_RUNTIME_STATE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_POWER_RUNTIME_STATE {
    /// From here back to F0; 0 for F0 itself.
    pub TransitionLatency: u64,
    /// Shortest stay that is worth the way.
    pub ResidencyRequirement: u64,
    /// In microwatts.
    pub NominalPower: u32,
}

/// What a component stands for. [d3dkmddi: DXGK_POWER_COMPONENT_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_POWER_COMPONENT_TYPE(pub i32);

impl DXGK_POWER_COMPONENT_TYPE {
    pub const DXGK_POWER_COMPONENT_ENGINE: Self = Self(0);
    pub const DXGK_POWER_COMPONENT_MONITOR: Self = Self(1);
    pub const DXGK_POWER_COMPONENT_MONITOR_REFRESH: Self = Self(2);
    pub const DXGK_POWER_COMPONENT_MEMORY: Self = Self(3);
    pub const DXGK_POWER_COMPONENT_MEMORY_REFRESH: Self = Self(4);
    pub const DXGK_POWER_COMPONENT_OTHER: Self = Self(5);
    pub const DXGK_POWER_COMPONENT_D3_TRANSITION: Self = Self(6);
    pub const DXGK_POWER_COMPONENT_SHARED: Self = Self(7);
    pub const DXGK_POWER_COMPONENT_MAX: Self = Self(8);
}

/// The engine of a component. [d3dkmddi: DXGK_POWER_COMPONENT_MAPPING::EngineDesc]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_POWER_COMPONENT_MAPPING_EngineDesc {
    pub NodeIndex: u32,
}

/// The segment of a component. [d3dkmddi: DXGK_POWER_COMPONENT_MAPPING::MemoryDesc]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_POWER_COMPONENT_MAPPING_MemoryDesc {
    pub SegmentID: u32,
}

/// Chosen by the type. [d3dkmddi: DXGK_POWER_COMPONENT_MAPPING]
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_POWER_COMPONENT_MAPPING_Union {
    pub EngineDesc: DXGK_POWER_COMPONENT_MAPPING_EngineDesc,
    pub MemoryDesc: DXGK_POWER_COMPONENT_MAPPING_MemoryDesc,
}

/// What a component stands for. [d3dkmddi: DXGK_POWER_COMPONENT_MAPPING]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_POWER_COMPONENT_MAPPING {
    pub ComponentType: DXGK_POWER_COMPONENT_TYPE,
    pub u: DXGK_POWER_COMPONENT_MAPPING_Union,
}

/// Which component `DXGKQAITYPE_POWERCOMPONENTINFO` asks for. [d3dkmddi: DXGK_POWER_COMPONENT_INDEX]
#[repr(C, align(4))]
#[derive(Clone, Copy)]
pub struct DXGK_POWER_COMPONENT_INDEX {
    pub PhysicalAdapterComponentIndex: u16,
    pub PhysicalAdapterIndex: u16,
}

/// How a component changes its state. [d3dkmddi: DXGK_POWER_COMPONENT_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_POWER_COMPONENT_FLAGS {
    pub Reserved0: bool,
    /// A change is over when the driver calls `DxgkCbCompleteFStateTransition`; clear: when the DDI returns.
    pub DriverCompletesFStateTransition: bool,
    /// The component is put into F0 before the device leaves D0.
    pub TransitionTo_F0_OnDx: bool,
    pub NoDebounce: bool,
    pub ActiveInD3: bool,
    #[bits(27)]
    __Reserved: u32,
}

/// Answer to `DXGKQAITYPE_POWERCOMPONENTINFO`: one component. Filled by the driver.
/// [d3dkmddi: DXGK_POWER_RUNTIME_COMPONENT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_POWER_RUNTIME_COMPONENT {
    pub StateCount: u32,
    pub States: [DXGK_POWER_RUNTIME_STATE; 8],
    pub ComponentMapping: DXGK_POWER_COMPONENT_MAPPING,
    pub Flags: DXGK_POWER_COMPONENT_FLAGS,
    pub ComponentGuid: GUID,
    /// Terminated by zero.
    pub ComponentName: [u8; 40],
    pub ProviderCount: u32,
    /// Components that must work while this one does.
    pub Providers: [u32; 16],
}

zeroed! {
    DXGK_POWER_RUNTIME_STATE,
    DXGK_POWER_COMPONENT_TYPE,
    DXGK_POWER_COMPONENT_MAPPING_EngineDesc,
    DXGK_POWER_COMPONENT_MAPPING_MemoryDesc,
    DXGK_POWER_COMPONENT_MAPPING_Union,
    DXGK_POWER_COMPONENT_MAPPING,
    DXGK_POWER_COMPONENT_INDEX,
    DXGK_POWER_COMPONENT_FLAGS,
    DXGK_POWER_RUNTIME_COMPONENT,
}

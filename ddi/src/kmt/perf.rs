//! Clocks, temperatures and other figures of the hardware, and names of registry keys.

use crate::km::DXGK_ENGINE_TYPE;

/// Question and answer about clock and voltage of a node. [d3dkmthk: D3DKMT_NODE_PERFDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_NODE_PERFDATA {
    pub NodeOrdinal: u32,
    pub PhysicalAdapterIndex: u32,
    pub Frequency: u64,
    pub MaxFrequency: u64,
    pub MaxFrequencyOC: u64,
    pub Voltage: u32,
    pub VoltageMax: u32,
    pub VoltageMaxOC: u32,
    pub MaxTransitionLatency: u64,
}

/// Question and answer about memory clock, fan, power and temperature of a physical adapter. [d3dkmthk: D3DKMT_ADAPTER_PERFDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ADAPTER_PERFDATA {
    pub PhysicalAdapterIndex: u32,
    pub MemoryFrequency: u64,
    pub MaxMemoryFrequency: u64,
    pub MaxMemoryFrequencyOC: u64,
    pub MemoryBandwidth: u64,
    pub PCIEBandwidth: u64,
    pub FanRPM: u32,
    pub Power: u32,
    pub Temperature: u32,
    pub PowerStateOverride: u8,
}

/// Question and answer about the limits of these figures. [d3dkmthk: D3DKMT_ADAPTER_PERFDATACAPS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ADAPTER_PERFDATACAPS {
    pub PhysicalAdapterIndex: u32,
    pub MaxMemoryBandwidth: u64,
    pub MaxPCIEBandwidth: u64,
    pub MaxFanRPM: u32,
    pub TemperatureMax: u32,
    pub TemperatureWarning: u32,
}

/// Which registry key of a device. [d3dkmthk: D3DKMT_PNP_KEY_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_PNP_KEY_TYPE(pub i32);

impl D3DKMT_PNP_KEY_TYPE {
    pub const D3DKMT_PNP_KEY_HARDWARE: Self = Self(1);
    pub const D3DKMT_PNP_KEY_SOFTWARE: Self = Self(2);
}

/// Question for the registry key of a physical adapter, and where its name goes. [d3dkmthk: D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY {
    pub PhysicalAdapterIndex: u32,
    pub PnPKeyType: D3DKMT_PNP_KEY_TYPE,
    pub pDest: *mut u16,
    pub pCchDest: *mut u32,
}

/// Question and answer whether the driver tracks workloads of a kind of engine. [d3dkmdt: D3DKMT_TRACKEDWORKLOAD_SUPPORT]
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct D3DKMT_TRACKEDWORKLOAD_SUPPORT {
    pub PhysicalAdapterIndex: u32,
    pub EngineType: DXGK_ENGINE_TYPE,
    pub Support: i32,
}

zeroed! {
    D3DKMT_NODE_PERFDATA,
    D3DKMT_ADAPTER_PERFDATA,
    D3DKMT_ADAPTER_PERFDATACAPS,
    D3DKMT_PNP_KEY_TYPE,
    D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY,
    D3DKMT_TRACKEDWORKLOAD_SUPPORT,
}

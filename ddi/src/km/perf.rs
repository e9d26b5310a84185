//! Clocks, bandwidths, temperatures and other figures of the hardware, as drivers report them. The structures have no padding.

/// Answer to `DXGKQAITYPE_NODEPERFDATA`: clock in hertz and voltage in millivolts of a node, and how long its clock takes to change, in units of
/// 100 ns. [d3dkmdt: DXGK_NODE_PERFDATA]
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct DXGK_NODE_PERFDATA {
    pub Frequency: u64,
    pub MaxFrequency: u64,
    pub MaxFrequencyOC: u64,
    pub Voltage: u32,
    pub VoltageMax: u32,
    pub VoltageMaxOC: u32,
    pub MaxTransitionLatency: u64,
}

/// Answer to `DXGKQAITYPE_ADAPTERPERFDATA`: clocks in hertz, memory moved in bytes, power in tenths of a percent, temperature in tenths of a
/// degree Celsius, and 1 if the physical adapter is powered on. [d3dkmdt: DXGK_ADAPTER_PERFDATA]
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct DXGK_ADAPTER_PERFDATA {
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

/// Answer to `DXGKQAITYPE_ADAPTERPERFDATA_CAPS`: bandwidths in bytes a second, temperatures in tenths of a degree Celsius.
/// [d3dkmdt: DXGK_ADAPTER_PERFDATACAPS]
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct DXGK_ADAPTER_PERFDATACAPS {
    pub MaxMemoryBandwidth: u64,
    pub MaxPCIEBandwidth: u64,
    pub MaxFanRPM: u32,
    pub TemperatureMax: u32,
    pub TemperatureWarning: u32,
}

zeroed! {
    DXGK_NODE_PERFDATA,
    DXGK_ADAPTER_PERFDATA,
    DXGK_ADAPTER_PERFDATACAPS,
}

//! Plug and play, power, clocks and escapes.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::km::DXGKARG_HISTORYBUFFERPRECISION;
use crate::types::{BOOLEAN, CM_RESOURCE_LIST, GUID, HANDLE, LARGE_INTEGER, LUID, PHYSICAL_ADDRESS, UNICODE_STRING};

/// Place of a device in a chain of linked adapters. Filled by the driver. [dispmprt: LINKED_DEVICE]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LINKED_DEVICE {
    /// The same for every link of a chain, and for no other.
    pub ChainUid: u32,
    /// Devices that belong to the chain.
    pub NumberOfLinksInChain: u32,
    /// This one leads: it starts last and stops first.
    pub LeadLink: BOOLEAN,
}

/// Facts for `DxgkDdiStartDevice`. [dispmprt: DXGK_START_INFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_START_INFO {
    /// DMA queue entries the operating system wants at least.
    pub RequiredDmaQueueEntry: u32,
    pub AdapterGuid: GUID,
    /// The adapter's identity as user mode sees it.
    pub AdapterLuid: LUID,
}

/// Whether the machine sits in a dock. [dispmprt: DOCKING_STATE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DOCKING_STATE(pub i32);

impl DOCKING_STATE {
    pub const DockStateUnsupported: Self = Self(0);
    pub const DockStateUnDocked: Self = Self(1);
    pub const DockStateDocked: Self = Self(2);
    pub const DockStateUnknown: Self = Self(3);
}

/// Answer of `DxgkCbGetDeviceInformation`: the device's resources. Filled by the operating system.
/// [dispmprt: DXGK_DEVICE_INFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_DEVICE_INFO {
    /// The context that the driver returned from `DxgkDdiAddDevice`.
    pub MiniportDeviceContext: *mut c_void,
    pub PhysicalDeviceObject: *mut c_void,
    /// Key of the driver's own settings.
    pub DeviceRegistryPath: UNICODE_STRING,
    /// BARs and interrupt messages.
    pub TranslatedResourceList: *mut CM_RESOURCE_LIST,
    /// Bytes of installed memory.
    pub SystemMemorySize: LARGE_INTEGER,
    pub HighestPhysicalAddress: PHYSICAL_ADDRESS,
    pub AgpApertureBase: PHYSICAL_ADDRESS,
    pub AgpApertureSize: usize,
    pub DockingState: DOCKING_STATE,
}

/// What hangs on the adapter. [dispmprt: DXGK_CHILD_DEVICE_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_CHILD_DEVICE_TYPE(pub i32);

impl DXGK_CHILD_DEVICE_TYPE {
    pub const TypeUninitialized: Self = Self(0);
    pub const TypeVideoOutput: Self = Self(1);
    pub const TypeOther: Self = Self(2);
    pub const TypeIntegratedDisplay: Self = Self(3);
}

/// How the driver learns that a child was plugged. [d3dkmdt: DXGK_CHILD_DEVICE_HPD_AWARENESS]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_CHILD_DEVICE_HPD_AWARENESS(pub i32);

impl DXGK_CHILD_DEVICE_HPD_AWARENESS {
    pub const HpdAwarenessUninitialized: Self = Self(0);
    pub const HpdAwarenessAlwaysConnected: Self = Self(1);
    pub const HpdAwarenessNone: Self = Self(2);
    pub const HpdAwarenessPolled: Self = Self(3);
    pub const HpdAwarenessInterruptible: Self = Self(4);
}

/// Connector technology of a display output; part of the layout of child descriptors only. [d3dkmdt: D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY(pub i32);

impl D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY {
    pub const D3DKMDT_VOT_UNINITIALIZED: Self = Self(-2);
    pub const D3DKMDT_VOT_OTHER: Self = Self(-1);
}

/// How an output learns that its monitor was turned. [d3dkmdt: D3DKMDT_MONITOR_ORIENTATION_AWARENESS]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMDT_MONITOR_ORIENTATION_AWARENESS(pub i32);

impl D3DKMDT_MONITOR_ORIENTATION_AWARENESS {
    pub const D3DKMDT_MOA_UNINITIALIZED: Self = Self(0);
    pub const D3DKMDT_MOA_NONE: Self = Self(1);
    pub const D3DKMDT_MOA_POLLED: Self = Self(2);
    pub const D3DKMDT_MOA_INTERRUPTIBLE: Self = Self(3);
}

/// Properties of a child that is a video output. [dispmprt: DXGK_VIDEO_OUTPUT_CAPABILITIES]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_VIDEO_OUTPUT_CAPABILITIES {
    pub InterfaceTechnology: D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY,
    pub MonitorOrientationAwareness: D3DKMDT_MONITOR_ORIENTATION_AWARENESS,
    pub SupportsSdtvModes: BOOLEAN,
}

/// Properties of a child that is a built-in panel. [dispmprt: DXGK_INTEGRATED_DISPLAY_CHILD]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_INTEGRATED_DISPLAY_CHILD {
    pub InterfaceTechnology: D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY,
    /// Bytes of the panel's descriptor.
    pub DescriptorLength: u16,
}

/// Child that is no display. [dispmprt: DXGK_CHILD_CAPABILITIES::Type::Other]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_CHILD_CAPABILITIES_Type_Other {
    pub MustBeZero: u32,
}

/// Properties of a child, by its kind. [dispmprt: DXGK_CHILD_CAPABILITIES::Type]
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_CHILD_CAPABILITIES_Type {
    pub VideoOutput: DXGK_VIDEO_OUTPUT_CAPABILITIES,
    pub IntegratedDisplayChild: DXGK_INTEGRATED_DISPLAY_CHILD,
    pub Other: DXGK_CHILD_CAPABILITIES_Type_Other,
}

/// Properties of a child. [dispmprt: DXGK_CHILD_CAPABILITIES]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_CHILD_CAPABILITIES {
    pub Type: DXGK_CHILD_CAPABILITIES_Type,
    pub HpdAwareness: DXGK_CHILD_DEVICE_HPD_AWARENESS,
}

/// One child in `DxgkDdiQueryChildRelations`; a compute-only adapter has none. [dispmprt: DXGK_CHILD_DESCRIPTOR]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_CHILD_DESCRIPTOR {
    pub ChildDeviceType: DXGK_CHILD_DEVICE_TYPE,
    pub ChildCapabilities: DXGK_CHILD_CAPABILITIES,
    pub AcpiUid: u32,
    pub ChildUid: u32,
}

/// What is asked about a child. [dispmprt: DXGK_CHILD_STATUS_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_CHILD_STATUS_TYPE(pub i32);

impl DXGK_CHILD_STATUS_TYPE {
    pub const StatusUninitialized: Self = Self(0);
    pub const StatusConnection: Self = Self(1);
    pub const StatusRotation: Self = Self(2);
    pub const StatusMiracastConnection: Self = Self(3);
}

/// Whether a display is connected. [dispmprt: DXGK_CHILD_STATUS::HotPlug]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_CHILD_STATUS_HotPlug {
    pub Connected: u8,
}

/// How a display is turned, in degrees by steps of 90. [dispmprt: DXGK_CHILD_STATUS::Rotation]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_CHILD_STATUS_Rotation {
    pub Angle: u8,
}

/// Whether a wireless display is connected. [dispmprt: DXGK_CHILD_STATUS::Miracast]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_CHILD_STATUS_Miracast {
    pub Connected: BOOLEAN,
    pub MiracastMonitorType: D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY,
}

/// Union of [`DXGK_CHILD_STATUS`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_CHILD_STATUS_Union {
    pub HotPlug: DXGK_CHILD_STATUS_HotPlug,
    pub Rotation: DXGK_CHILD_STATUS_Rotation,
    pub Miracast: DXGK_CHILD_STATUS_Miracast,
}

/// Argument of `DxgkDdiQueryChildStatus`. [dispmprt: DXGK_CHILD_STATUS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_CHILD_STATUS {
    pub Type: DXGK_CHILD_STATUS_TYPE,
    pub ChildUid: u32,
    pub u: DXGK_CHILD_STATUS_Union,
}

/// Part of a monitor's descriptor, in `DxgkDdiQueryDeviceDescriptor`. [dispmprt: DXGK_DEVICE_DESCRIPTOR]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_DEVICE_DESCRIPTOR {
    pub DescriptorOffset: u32,
    pub DescriptorLength: u32,
    pub DescriptorBuffer: *mut c_void,
}

/// Interfaces that `DxgkCbQueryServices` hands out. [dispmprt: DXGK_SERVICES]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_SERVICES(pub i32);

impl DXGK_SERVICES {
    pub const DxgkServicesAgp: Self = Self(0);
    pub const DxgkServicesDebugReport: Self = Self(1);
    pub const DxgkServicesTimedOperation: Self = Self(2);
    pub const DxgkServicesSPB: Self = Self(3);
    pub const DxgkServicesBDD: Self = Self(4);
    pub const DxgkServicesFirmwareTable: Self = Self(5);
    pub const DxgkServicesIDD: Self = Self(6);
    pub const DxgkServicesFeature: Self = Self(7);
}

/// Power state of a device; D0 is working, D3 off. [base: DEVICE_POWER_STATE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DEVICE_POWER_STATE(pub i32);

impl DEVICE_POWER_STATE {
    pub const PowerDeviceUnspecified: Self = Self(0);
    pub const PowerDeviceD0: Self = Self(1);
    pub const PowerDeviceD1: Self = Self(2);
    pub const PowerDeviceD2: Self = Self(3);
    pub const PowerDeviceD3: Self = Self(4);
    pub const PowerDeviceMaximum: Self = Self(5);
}

/// Source of an ACPI event. [dispmprt: DXGK_EVENT_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_EVENT_TYPE(pub i32);

impl DXGK_EVENT_TYPE {
    pub const DxgkUndefinedEvent: Self = Self(0);
    pub const DxgkAcpiEvent: Self = Self(1);
    pub const DxgkPowerStateEvent: Self = Self(2);
    pub const DxgkDockingEvent: Self = Self(3);
    pub const DxgkChainedAcpiEvent: Self = Self(4);
}

/// How a device vanished. [dispmprt: DXGK_SURPRISE_REMOVAL_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_SURPRISE_REMOVAL_TYPE(pub i32);

impl DXGK_SURPRISE_REMOVAL_TYPE {
    /// While the system slept or hibernated.
    pub const DxgkRemovalHibernation: Self = Self(0);
    /// While it was running.
    pub const DxgkRemovalPnPNotify: Self = Self(1);
}

/// Whose clock was read. [d3dkmdt: DXGK_GPUCLOCKDATA_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_GPUCLOCKDATA_FLAGS {
    pub ContextManagementProcessor: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Answer of `DxgkDdiCalibrateGpuClock`: both clocks read back to back. Filled by the driver.
/// [d3dkmdt: DXGK_GPUCLOCKDATA]
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct DXGK_GPUCLOCKDATA {
    /// Ticks a second of the GPU counter.
    pub GpuFrequency: u64,
    pub GpuClockCounter: u64,
    /// Value of `KeQueryPerformanceCounter` at the same moment.
    pub CpuClockCounter: u64,
    pub Flags: DXGK_GPUCLOCKDATA_FLAGS,
}

/// Start of a history buffer. [d3dkmddi: DXGK_HISTORY_BUFFER_HEADER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_HISTORY_BUFFER_HEADER {
    pub RenderCbSequence: u32,
    pub NumTimestamps: u32,
    pub PrivateDataSize: u32,
    pub Reserved: u32,
}

/// Timestamps that the GPU wrote into a buffer. [d3dkmddi: DXGK_HISTORY_BUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_HISTORY_BUFFER {
    pub Header: DXGK_HISTORY_BUFFER_HEADER,
    pub DriverPrivateData: [u8; 1],
}

/// Argument of `DxgkDdiFormatHistoryBuffer`: the driver turns raw timestamps into 64-bit ones.
/// [d3dkmddi: DXGKARG_FORMATHISTORYBUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_FORMATHISTORYBUFFER {
    pub pHistoryBuffer: *mut DXGK_HISTORY_BUFFER,
    pub HistoryBufferSize: u32,
    pub pFormattedBuffer: *mut c_void,
    pub FormattedBufferSize: u32,
    pub NumTimestamps: u32,
    pub Precision: DXGKARG_HISTORYBUFFERPRECISION,
    pub Offset: u32,
}

/// Argument of `DxgkDdiSetStablePowerState`: clocks should not change, for measurements.
/// [d3dkmddi: DXGKARG_SETSTABLEPOWERSTATE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SETSTABLEPOWERSTATE {
    /// A `BOOL`.
    pub Enabled: i32,
}

/// Kind of a virtual machine. [d3dkmddi: DXGK_VIRTUALMACHINEDATAFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_VIRTUALMACHINEDATAFLAGS {
    pub SecureVirtualMachine: bool,
    pub LinuxVirtualMachine: bool,
    #[bits(30)]
    __0: u32,
}

/// Argument of `DxgkDdiSetVirtualMachineData`: which virtual machine a process works for.
/// [d3dkmddi: DXGKARG_SETVIRTUALMACHINEDATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SETVIRTUALMACHINEDATA {
    pub hKmdVmWorkerProcess: HANDLE,
    pub pVmGuid: *mut GUID,
    pub Flags: DXGK_VIRTUALMACHINEDATAFLAGS,
}

/// Cache attribute of memory for the device. [d3dkmddi: DXGK_MEMORY_CACHING_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_MEMORY_CACHING_TYPE(pub i32);

impl DXGK_MEMORY_CACHING_TYPE {
    pub const DXGK_MEMORY_CACHING_TYPE_NON_CACHED: Self = Self(0);
    pub const DXGK_MEMORY_CACHING_TYPE_CACHED: Self = Self(1);
    pub const DXGK_MEMORY_CACHING_TYPE_WRITE_COMBINED: Self = Self(2);
}

/// Argument of `DxgkCbAllocateContiguousMemory`. [d3dkmddi: DXGKARGCB_ALLOCATECONTIGUOUSMEMORY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_ALLOCATECONTIGUOUSMEMORY {
    pub NumberOfBytes: usize,
    /// Lowest bus address.
    pub LowestAcceptableAddress: PHYSICAL_ADDRESS,
    /// Highest bus address.
    pub HighestAcceptableAddress: PHYSICAL_ADDRESS,
    /// The memory crosses no multiple of it; 0 for no such rule.
    pub BoundaryAddressMultiple: PHYSICAL_ADDRESS,
    pub CacheType: DXGK_MEMORY_CACHING_TYPE,
    /// Out: for freeing.
    pub hMemoryHandle: HANDLE,
    /// Out: kernel address.
    pub pMemory: *mut c_void,
}

/// Argument of `DxgkCbFreeContiguousMemory`. [d3dkmddi: DXGKARGCB_FREECONTIGUOUSMEMORY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_FREECONTIGUOUSMEMORY {
    pub hMemoryHandle: HANDLE,
}

/// Kind of an escape. [d3dukmdt: D3DDDI_ESCAPEFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_ESCAPEFLAGS {
    /// The call touches hardware: everything else of the adapter is stopped for it.
    pub HardwareAccess: bool,
    pub DeviceStatusQuery: bool,
    pub ChangeFrameLatency: bool,
    /// Other calls of the adapter go on meanwhile.
    pub NoAdapterSynchronization: bool,
    #[bits(1)]
    __Reserved: u8,
    pub VirtualMachineData: bool,
    pub DriverKnownEscape: bool,
    pub DriverCommonEscape: bool,
    #[bits(24)]
    __Reserved2: u32,
}

/// Argument of `DxgkDdiEscape`: a private call of user mode; every byte is untrusted. [d3dkmddi: DXGKARG_ESCAPE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_ESCAPE {
    pub hDevice: HANDLE,
    pub Flags: D3DDDI_ESCAPEFLAGS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub hContext: HANDLE,
    pub hKmdProcessHandle: HANDLE,
}

zeroed! {
    LINKED_DEVICE,
    DXGK_START_INFO,
    DOCKING_STATE,
    DXGK_DEVICE_INFO,
    DXGK_CHILD_DEVICE_TYPE,
    DXGK_CHILD_DEVICE_HPD_AWARENESS,
    D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY,
    D3DKMDT_MONITOR_ORIENTATION_AWARENESS,
    DXGK_VIDEO_OUTPUT_CAPABILITIES,
    DXGK_INTEGRATED_DISPLAY_CHILD,
    DXGK_CHILD_CAPABILITIES_Type_Other,
    DXGK_CHILD_CAPABILITIES_Type,
    DXGK_CHILD_CAPABILITIES,
    DXGK_CHILD_DESCRIPTOR,
    DXGK_CHILD_STATUS_TYPE,
    DXGK_CHILD_STATUS_HotPlug,
    DXGK_CHILD_STATUS_Rotation,
    DXGK_CHILD_STATUS_Miracast,
    DXGK_CHILD_STATUS_Union,
    DXGK_CHILD_STATUS,
    DXGK_DEVICE_DESCRIPTOR,
    DXGK_SERVICES,
    DEVICE_POWER_STATE,
    DXGK_EVENT_TYPE,
    DXGK_SURPRISE_REMOVAL_TYPE,
    DXGK_GPUCLOCKDATA_FLAGS,
    DXGK_GPUCLOCKDATA,
    DXGK_HISTORY_BUFFER_HEADER,
    DXGK_HISTORY_BUFFER,
    DXGKARG_FORMATHISTORYBUFFER,
    DXGKARG_SETSTABLEPOWERSTATE,
    DXGK_VIRTUALMACHINEDATAFLAGS,
    DXGKARG_SETVIRTUALMACHINEDATA,
    DXGK_MEMORY_CACHING_TYPE,
    DXGKARGCB_ALLOCATECONTIGUOUSMEMORY,
    DXGKARGCB_FREECONTIGUOUSMEMORY,
    D3DDDI_ESCAPEFLAGS,
    DXGKARG_ESCAPE,
}

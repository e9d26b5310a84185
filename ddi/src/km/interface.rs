//! `DXGKRNL_INTERFACE`: the callbacks that the operating system hands to the driver in `DxgkDdiStartDevice`.

use core::ffi::c_void;

use crate::km::{
    DXGK_DEVICE_INFO, DXGK_SERVICES, DXGKARGCB_ALLOCATECONTIGUOUSMEMORY, DXGKARGCB_DISCONNECTDOORBELL,
    DXGKARGCB_ENUMHANDLECHILDREN, DXGKARGCB_FREECONTIGUOUSMEMORY, DXGKARGCB_GETHANDLEDATA,
    DXGKARGCB_INVALIDATEHWCONTEXT, DXGKARGCB_ISFEATUREENABLED, DXGKARGCB_NOTIFY_INTERRUPT_DATA,
    DXGKARGCB_QUERYFEATURESUPPORT, DXGKARGCB_RELEASEHANDLEDATA,
};
use crate::types::{
    BOOLEAN, D3DKMT_HANDLE, GUID, HANDLE, INTERFACE, MEMORY_CACHING_TYPE, NTSTATUS, PCI_DEVICE_PRESENCE_PARAMETERS,
    PHYSICAL_ADDRESS, UnusedSlot,
};

/// A routine run at device interrupt level by `DxgkCbSynchronizeExecution`.
/// [wdm: KSYNCHRONIZE_ROUTINE]
pub type PKSYNCHRONIZE_ROUTINE = Option<unsafe extern "win64" fn(SynchronizeContext: *mut c_void) -> BOOLEAN>;

/// Calls a method of the device's ACPI namespace. Sizes in bytes. [dispmprt: DXGKCB_EVAL_ACPI_METHOD]
pub type PDXGKCB_EVAL_ACPI_METHOD = unsafe extern "win64" fn(
    DeviceHandle: HANDLE,
    DeviceUid: u32,
    AcpiInputBuffer: *mut c_void,
    AcpiInputSize: u32,
    AcpiOutputBuffer: *mut c_void,
    AcpiOutputSize: u32,
) -> NTSTATUS;

/// Looks for a PCI function in the machine. [dispmprt: DXGKCB_IS_DEVICE_PRESENT]
pub type PDXGKCB_IS_DEVICE_PRESENT = unsafe extern "win64" fn(
    DeviceHandle: HANDLE,
    DevicePresenceParameters: *const PCI_DEVICE_PRESENCE_PARAMETERS,
    DevicePresent: *mut BOOLEAN,
) -> NTSTATUS;

/// Fetches the resources of the device. [dispmprt: DXGKCB_GET_DEVICE_INFORMATION]
pub type PDXGKCB_GET_DEVICE_INFORMATION =
    unsafe extern "win64" fn(DeviceHandle: HANDLE, DeviceInfo: *mut DXGK_DEVICE_INFO) -> NTSTATUS;

/// Maps a translated range of the device into kernel or user space. `Length` in bytes. [dispmprt: DXGKCB_MAP_MEMORY]
pub type PDXGKCB_MAP_MEMORY = unsafe extern "win64" fn(
    DeviceHandle: HANDLE,
    TranslatedAddress: PHYSICAL_ADDRESS,
    Length: u32,
    InIoSpace: BOOLEAN,
    MapToUserMode: BOOLEAN,
    CacheType: MEMORY_CACHING_TYPE,
    VirtualAddress: *mut *mut c_void,
) -> NTSTATUS;

/// Asks for a call of the driver's DPC routine; false if one is queued already. [dispmprt: DXGKCB_QUEUE_DPC]
pub type PDXGKCB_QUEUE_DPC = unsafe extern "win64" fn(DeviceHandle: HANDLE) -> BOOLEAN;

/// Fetches an interface of the graphics kernel, such as `DXGK_FEATURE_INTERFACE`. [dispmprt: DXGKCB_QUERY_SERVICES]
pub type PDXGKCB_QUERY_SERVICES =
    unsafe extern "win64" fn(DeviceHandle: HANDLE, ServicesType: DXGK_SERVICES, Interface: *mut INTERFACE) -> NTSTATUS;

/// Reads configuration space, `Offset` and `Length` in bytes. [dispmprt: DXGKCB_READ_DEVICE_SPACE]
pub type PDXGKCB_READ_DEVICE_SPACE = unsafe extern "win64" fn(
    DeviceHandle: HANDLE,
    DataType: u32,
    Buffer: *mut c_void,
    Offset: u32,
    Length: u32,
    BytesRead: *mut u32,
) -> NTSTATUS;

/// Runs a routine at device interrupt level, never beside the interrupt routine of that message.
/// [dispmprt: DXGKCB_SYNCHRONIZE_EXECUTION]
pub type PDXGKCB_SYNCHRONIZE_EXECUTION = unsafe extern "win64" fn(
    DeviceHandle: HANDLE,
    SynchronizeRoutine: PKSYNCHRONIZE_ROUTINE,
    Context: *mut c_void,
    MessageNumber: u32,
    ReturnValue: *mut BOOLEAN,
) -> NTSTATUS;

/// Undoes [`PDXGKCB_MAP_MEMORY`]. [dispmprt: DXGKCB_UNMAP_MEMORY]
pub type PDXGKCB_UNMAP_MEMORY = unsafe extern "win64" fn(DeviceHandle: HANDLE, VirtualAddress: *mut c_void) -> NTSTATUS;

/// Writes configuration space, `Offset` and `Length` in bytes. [dispmprt: DXGKCB_WRITE_DEVICE_SPACE]
pub type PDXGKCB_WRITE_DEVICE_SPACE = unsafe extern "win64" fn(
    DeviceHandle: HANDLE,
    DataType: u32,
    Buffer: *mut c_void,
    Offset: u32,
    Length: u32,
    BytesWritten: *mut u32,
) -> NTSTATUS;

/// Turns a handle from user mode into what the driver returned for it; NULL for a handle that is not valid.
/// [dispmprt: DXGKCB_GETHANDLEDATA]
pub type PDXGKCB_GETHANDLEDATA = unsafe extern "win64" fn(Data: *const DXGKARGCB_GETHANDLEDATA) -> *mut c_void;

/// The kernel-mode handle of the resource that an allocation belongs to; 0 for one of none, and for a handle that is not valid.
/// [d3dkmddi: DXGKCB_GETHANDLEPARENT]
pub type PDXGKCB_GETHANDLEPARENT = unsafe extern "win64" fn(hAllocation: D3DKMT_HANDLE) -> D3DKMT_HANDLE;

/// The kernel-mode handle of an allocation of a resource; 0 past the last one, and for a handle that is not valid.
/// [d3dkmddi: DXGKCB_ENUMHANDLECHILDREN]
pub type PDXGKCB_ENUMHANDLECHILDREN =
    unsafe extern "win64" fn(Data: *const DXGKARGCB_ENUMHANDLECHILDREN) -> D3DKMT_HANDLE;

/// Reports what happened, at device interrupt level. [d3dkmddi: DXGKCB_NOTIFY_INTERRUPT]
pub type PDXGKCB_NOTIFY_INTERRUPT =
    unsafe extern "win64" fn(hAdapter: HANDLE, Data: *const DXGKARGCB_NOTIFY_INTERRUPT_DATA);

/// Lets the scheduler work on what was reported, from the DPC routine. [d3dkmddi: DXGKCB_NOTIFY_DPC]
pub type PDXGKCB_NOTIFY_DPC = unsafe extern "win64" fn(hAdapter: HANDLE);

/// Logs an event in the graphics kernel's own trace, which DxgkDdiControlEtwLogging switches. Any level up to 256 bytes.
/// [dispmprt: DXGKCB_LOG_ETW_EVENT]
pub type DXGKCB_LOG_ETW_EVENT =
    unsafe extern "win64" fn(EventGuid: *const GUID, Type: u8, EventBufferSize: u16, EventBuffer: *mut c_void);

/// Takes a reference that keeps a power component in F0. [d3dkmddi: DXGKCB_SETPOWERCOMPONENTACTIVE]
pub type PDXGKCB_SETPOWERCOMPONENTACTIVE = unsafe extern "win64" fn(hAdapter: HANDLE, ComponentIndex: u32) -> NTSTATUS;

/// Drops such a reference. [d3dkmddi: DXGKCB_SETPOWERCOMPONENTIDLE]
pub type PDXGKCB_SETPOWERCOMPONENTIDLE = unsafe extern "win64" fn(hAdapter: HANDLE, ComponentIndex: u32) -> NTSTATUS;

/// Says which latency a power component tolerates, in units of 100 nanoseconds. [d3dkmddi: DXGKCB_SETPOWERCOMPONENTLATENCY]
pub type PDXGKCB_SETPOWERCOMPONENTLATENCY =
    unsafe extern "win64" fn(hAdapter: HANDLE, ComponentIndex: u32, Latency: u64);

/// Says how long a power component will probably be idle, in units of 100 nanoseconds. [d3dkmddi: DXGKCB_SETPOWERCOMPONENTRESIDENCY]
pub type PDXGKCB_SETPOWERCOMPONENTRESIDENCY =
    unsafe extern "win64" fn(hAdapter: HANDLE, ComponentIndex: u32, Residency: u64);

/// Says that an F-state change asked for is done. [d3dkmddi: DXGKCB_COMPLETEFSTATETRANSITION]
pub type PDXGKCB_COMPLETEFSTATETRANSITION = unsafe extern "win64" fn(hAdapter: HANDLE, ComponentIndex: u32);

/// As [`PDXGKCB_GETHANDLEDATA`], holding the object until it is released. [d3dkmddi: DXGKCB_ACQUIREHANDLEDATA]
pub type PDXGKCB_ACQUIREHANDLEDATA =
    unsafe extern "win64" fn(Data: *const DXGKARGCB_GETHANDLEDATA, ReleaseHandle: *mut HANDLE) -> *mut c_void;

/// Releases what [`PDXGKCB_ACQUIREHANDLEDATA`] held. [d3dkmddi: DXGKCB_RELEASEHANDLEDATA]
pub type PDXGKCB_RELEASEHANDLEDATA = unsafe extern "win64" fn(Data: DXGKARGCB_RELEASEHANDLEDATA);

/// Says that a hardware context was lost in a reset. [d3dkmddi: DXGKCB_INVALIDATEHWCONTEXT]
pub type PDXGKCB_INVALIDATEHWCONTEXT = unsafe extern "win64" fn(Data: *const DXGKARGCB_INVALIDATEHWCONTEXT) -> NTSTATUS;

/// Allocates physically contiguous memory that the device may reach. [d3dkmddi: DXGKCB_ALLOCATECONTIGUOUSMEMORY]
pub type PDXGKCB_ALLOCATECONTIGUOUSMEMORY =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARGCB_ALLOCATECONTIGUOUSMEMORY) -> NTSTATUS;

/// Frees what [`PDXGKCB_ALLOCATECONTIGUOUSMEMORY`] allocated. [d3dkmddi: DXGKCB_FREECONTIGUOUSMEMORY]
pub type PDXGKCB_FREECONTIGUOUSMEMORY =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARGCB_FREECONTIGUOUSMEMORY) -> NTSTATUS;

/// Older question whether a feature is on. [d3dkmddi: DXGKCB_ISFEATUREENABLED]
pub type PDXGKCB_ISFEATUREENABLED = unsafe extern "win64" fn(Args: *mut DXGKARGCB_ISFEATUREENABLED) -> NTSTATUS;

/// Older negotiation of one feature. [d3dkmddi: DXGKCB_QUERYFEATURESUPPORT]
pub type PDXGKCB_QUERYFEATURESUPPORT = unsafe extern "win64" fn(Args: *mut DXGKARGCB_QUERYFEATURESUPPORT) -> NTSTATUS;

/// Takes a doorbell away from its process, at PASSIVE_LEVEL; success also if it was disconnected already.
/// [d3dkmddi: DXGKCB_DISCONNECTDOORBELL]
pub type PDXGKCB_DISCONNECTDOORBELL = unsafe extern "win64" fn(Args: *const DXGKARGCB_DISCONNECTDOORBELL) -> NTSTATUS;

/// Table of callbacks; the driver copies it whole, since its storage may go away after `DxgkDdiStartDevice`.
/// Slots typed [`UnusedSlot`] belong to callbacks that no driver of this repository calls; a function stands in each of them all the same.
/// [dispmprt: DXGKRNL_INTERFACE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKRNL_INTERFACE {
    pub Size: u32,
    pub Version: u32,
    pub DeviceHandle: HANDLE,
    pub DxgkCbEvalAcpiMethod: Option<PDXGKCB_EVAL_ACPI_METHOD>,
    pub DxgkCbGetDeviceInformation: Option<PDXGKCB_GET_DEVICE_INFORMATION>,
    pub DxgkCbIndicateChildStatus: UnusedSlot,
    pub DxgkCbMapMemory: Option<PDXGKCB_MAP_MEMORY>,
    pub DxgkCbQueueDpc: Option<PDXGKCB_QUEUE_DPC>,
    pub DxgkCbQueryServices: Option<PDXGKCB_QUERY_SERVICES>,
    pub DxgkCbReadDeviceSpace: Option<PDXGKCB_READ_DEVICE_SPACE>,
    pub DxgkCbSynchronizeExecution: Option<PDXGKCB_SYNCHRONIZE_EXECUTION>,
    pub DxgkCbUnmapMemory: Option<PDXGKCB_UNMAP_MEMORY>,
    pub DxgkCbWriteDeviceSpace: Option<PDXGKCB_WRITE_DEVICE_SPACE>,
    pub DxgkCbIsDevicePresent: Option<PDXGKCB_IS_DEVICE_PRESENT>,
    pub DxgkCbGetHandleData: Option<PDXGKCB_GETHANDLEDATA>,
    pub DxgkCbGetHandleParent: Option<PDXGKCB_GETHANDLEPARENT>,
    pub DxgkCbEnumHandleChildren: Option<PDXGKCB_ENUMHANDLECHILDREN>,
    pub DxgkCbNotifyInterrupt: Option<PDXGKCB_NOTIFY_INTERRUPT>,
    pub DxgkCbNotifyDpc: Option<PDXGKCB_NOTIFY_DPC>,
    pub DxgkCbQueryVidPnInterface: UnusedSlot,
    pub DxgkCbQueryMonitorInterface: UnusedSlot,
    pub DxgkCbGetCaptureAddress: UnusedSlot,
    pub DxgkCbLogEtwEvent: Option<DXGKCB_LOG_ETW_EVENT>,
    pub DxgkCbExcludeAdapterAccess: UnusedSlot,
    pub DxgkCbCreateContextAllocation: UnusedSlot,
    pub DxgkCbDestroyContextAllocation: UnusedSlot,
    pub DxgkCbSetPowerComponentActive: Option<PDXGKCB_SETPOWERCOMPONENTACTIVE>,
    pub DxgkCbSetPowerComponentIdle: Option<PDXGKCB_SETPOWERCOMPONENTIDLE>,
    pub DxgkCbAcquirePostDisplayOwnership: UnusedSlot,
    pub DxgkCbPowerRuntimeControlRequest: UnusedSlot,
    pub DxgkCbSetPowerComponentLatency: Option<PDXGKCB_SETPOWERCOMPONENTLATENCY>,
    pub DxgkCbSetPowerComponentResidency: Option<PDXGKCB_SETPOWERCOMPONENTRESIDENCY>,
    pub DxgkCbCompleteFStateTransition: Option<PDXGKCB_COMPLETEFSTATETRANSITION>,
    pub DxgkCbCompletePStateTransition: UnusedSlot,
    pub DxgkCbMapContextAllocation: UnusedSlot,
    pub DxgkCbUpdateContextAllocation: UnusedSlot,
    pub DxgkCbReserveGpuVirtualAddressRange: UnusedSlot,
    pub DxgkCbAcquireHandleData: Option<PDXGKCB_ACQUIREHANDLEDATA>,
    pub DxgkCbReleaseHandleData: Option<PDXGKCB_RELEASEHANDLEDATA>,
    pub DxgkCbHardwareContentProtectionTeardown: UnusedSlot,
    pub DxgkCbMultiPlaneOverlayDisabled: UnusedSlot,
    pub DxgkCbMitigatedRangeUpdate: UnusedSlot,
    pub DxgkCbInvalidateHwContext: Option<PDXGKCB_INVALIDATEHWCONTEXT>,
    pub DxgkCbIndicateConnectorChange: UnusedSlot,
    pub DxgkCbUnblockUEFIFrameBufferRanges: UnusedSlot,
    pub DxgkCbAcquirePostDisplayOwnership2: UnusedSlot,
    pub DxgkCbSetProtectedSessionStatus: UnusedSlot,
    pub DxgkCbAllocateContiguousMemory: Option<PDXGKCB_ALLOCATECONTIGUOUSMEMORY>,
    pub DxgkCbFreeContiguousMemory: Option<PDXGKCB_FREECONTIGUOUSMEMORY>,
    pub DxgkCbAllocatePagesForMdl: UnusedSlot,
    pub DxgkCbFreePagesFromMdl: UnusedSlot,
    pub DxgkCbPinFrameBufferForSave: UnusedSlot,
    pub DxgkCbUnpinFrameBufferForSave: UnusedSlot,
    pub DxgkCbMapFrameBufferPointer: UnusedSlot,
    pub DxgkCbUnmapFrameBufferPointer: UnusedSlot,
    pub DxgkCbMapMdlToIoMmu: UnusedSlot,
    pub DxgkCbUnmapMdlFromIoMmu: UnusedSlot,
    pub DxgkCbReportDiagnostic: UnusedSlot,
    pub DxgkCbSignalEvent: UnusedSlot,
    pub DxgkCbIsFeatureEnabled: Option<PDXGKCB_ISFEATUREENABLED>,
    pub DxgkCbSaveMemoryForHotUpdate: UnusedSlot,
    pub DxgkCbNotifyCursorSupportChange: UnusedSlot,
    pub DxgkCbQueryFeatureSupport: Option<PDXGKCB_QUERYFEATURESUPPORT>,
    pub DxgkCbCreatePhysicalMemoryObject: UnusedSlot,
    pub DxgkCbDestroyPhysicalMemoryObject: UnusedSlot,
    pub DxgkCbMapPhysicalMemory: UnusedSlot,
    pub DxgkCbUnmapPhysicalMemory: UnusedSlot,
    pub DxgkCbAllocateAdl: UnusedSlot,
    pub DxgkCbFreeAdl: UnusedSlot,
    pub DxgkCbOpenPhysicalMemoryObject: UnusedSlot,
    pub DxgkCbClosePhysicalMemoryObject: UnusedSlot,
    pub DxgkCbPinFrameBufferForSave2: UnusedSlot,
    pub DxgkCbDisconnectDoorbell: Option<PDXGKCB_DISCONNECTDOORBELL>,
}

zeroed! {
    DXGKRNL_INTERFACE,
}

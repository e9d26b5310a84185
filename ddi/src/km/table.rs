//! `DRIVER_INITIALIZATION_DATA`: the table of entry points that a driver registers, and their prototypes.

use core::ffi::c_void;

use crate::km::*;
use crate::types::*;

/// [dispmprt: DXGKDDI_ADD_DEVICE]
pub type PDXGKDDI_ADD_DEVICE =
    unsafe extern "win64" fn(PhysicalDeviceObject: *mut c_void, MiniportDeviceContext: *mut *mut c_void) -> NTSTATUS;

/// [dispmprt: DXGKDDI_START_DEVICE]
pub type PDXGKDDI_START_DEVICE = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    DxgkStartInfo: *mut DXGK_START_INFO,
    DxgkInterface: *mut DXGKRNL_INTERFACE,
    NumberOfVideoPresentSources: *mut u32,
    NumberOfChildren: *mut u32,
) -> NTSTATUS;

/// [dispmprt: DXGKDDI_STOP_DEVICE]
pub type PDXGKDDI_STOP_DEVICE = unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void) -> NTSTATUS;

/// [dispmprt: DXGKDDI_REMOVE_DEVICE]
pub type PDXGKDDI_REMOVE_DEVICE = unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void) -> NTSTATUS;

/// [dispmprt: DXGKDDI_DISPATCH_IO_REQUEST]
pub type PDXGKDDI_DISPATCH_IO_REQUEST = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    VidPnSourceId: u32,
    VideoRequestPacket: *mut c_void,
) -> NTSTATUS;

/// [dispmprt: DXGKDDI_INTERRUPT_ROUTINE]
pub type PDXGKDDI_INTERRUPT_ROUTINE =
    unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void, MessageNumber: u32) -> BOOLEAN;

/// [dispmprt: DXGKDDI_DPC_ROUTINE]
pub type PDXGKDDI_DPC_ROUTINE = unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void);

/// [dispmprt: DXGKDDI_QUERY_CHILD_RELATIONS]
pub type PDXGKDDI_QUERY_CHILD_RELATIONS = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    ChildRelations: *mut DXGK_CHILD_DESCRIPTOR,
    ChildRelationsSize: u32,
) -> NTSTATUS;

/// [dispmprt: DXGKDDI_QUERY_CHILD_STATUS]
pub type PDXGKDDI_QUERY_CHILD_STATUS = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    ChildStatus: *mut DXGK_CHILD_STATUS,
    NonDestructiveOnly: BOOLEAN,
) -> NTSTATUS;

/// [dispmprt: DXGKDDI_QUERY_DEVICE_DESCRIPTOR]
pub type PDXGKDDI_QUERY_DEVICE_DESCRIPTOR = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    ChildUid: u32,
    DeviceDescriptor: *mut DXGK_DEVICE_DESCRIPTOR,
) -> NTSTATUS;

/// [dispmprt: DXGKDDI_SET_POWER_STATE]
pub type PDXGKDDI_SET_POWER_STATE = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    DeviceUid: u32,
    DevicePowerState: DEVICE_POWER_STATE,
    ActionType: i32,
) -> NTSTATUS;

/// [dispmprt: DXGKDDI_NOTIFY_ACPI_EVENT]
pub type PDXGKDDI_NOTIFY_ACPI_EVENT = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    EventType: DXGK_EVENT_TYPE,
    Event: u32,
    Argument: *mut c_void,
    AcpiFlags: *mut u32,
) -> NTSTATUS;

/// [dispmprt: DXGKDDI_RESET_DEVICE]
pub type PDXGKDDI_RESET_DEVICE = unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void);

/// [dispmprt: DXGKDDI_UNLOAD]
pub type PDXGKDDI_UNLOAD = unsafe extern "win64" fn();

/// [dispmprt: DXGKDDI_QUERY_INTERFACE]
pub type PDXGKDDI_QUERY_INTERFACE =
    unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void, QueryInterface: *mut QUERY_INTERFACE) -> NTSTATUS;

/// [dispmprt: DXGKDDI_CONTROL_ETW_LOGGING]
pub type PDXGKDDI_CONTROL_ETW_LOGGING = unsafe extern "win64" fn(Enable: BOOLEAN, Flags: u32, Level: u8);

/// [d3dkmddi: DXGKDDI_QUERYADAPTERINFO]
pub type PDXGKDDI_QUERYADAPTERINFO =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_CREATEDEVICE]
pub type PDXGKDDI_CREATEDEVICE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_CREATEDEVICE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_CREATEALLOCATION]
pub type PDXGKDDI_CREATEALLOCATION =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_CREATEALLOCATION) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_DESTROYALLOCATION]
pub type PDXGKDDI_DESTROYALLOCATION =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_DESTROYALLOCATION) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_DESCRIBEALLOCATION]
pub type PDXGKDDI_DESCRIBEALLOCATION =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_DESCRIBEALLOCATION) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA]
pub type PDXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_SUBMITCOMMAND]
pub type PDXGKDDI_SUBMITCOMMAND =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SUBMITCOMMAND) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_PREEMPTCOMMAND]
pub type PDXGKDDI_PREEMPTCOMMAND =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_PREEMPTCOMMAND) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_BUILDPAGINGBUFFER]
pub type PDXGKDDI_BUILDPAGINGBUFFER =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_RESETFROMTIMEOUT]
pub type PDXGKDDI_RESETFROMTIMEOUT = unsafe extern "win64" fn(hAdapter: HANDLE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_RESTARTFROMTIMEOUT]
pub type PDXGKDDI_RESTARTFROMTIMEOUT = unsafe extern "win64" fn(hAdapter: HANDLE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_ESCAPE]
pub type PDXGKDDI_ESCAPE = unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_ESCAPE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_COLLECTDBGINFO]
pub type PDXGKDDI_COLLECTDBGINFO =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_COLLECTDBGINFO) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_DESTROYDEVICE]
pub type PDXGKDDI_DESTROYDEVICE = unsafe extern "win64" fn(hDevice: HANDLE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_OPENALLOCATIONINFO]
pub type PDXGKDDI_OPENALLOCATIONINFO =
    unsafe extern "win64" fn(hDevice: HANDLE, Args: *const DXGKARG_OPENALLOCATION) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_CLOSEALLOCATION]
pub type PDXGKDDI_CLOSEALLOCATION =
    unsafe extern "win64" fn(hDevice: HANDLE, Args: *const DXGKARG_CLOSEALLOCATION) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_CREATECONTEXT]
pub type PDXGKDDI_CREATECONTEXT =
    unsafe extern "win64" fn(hDevice: HANDLE, Args: *mut DXGKARG_CREATECONTEXT) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_DESTROYCONTEXT]
pub type PDXGKDDI_DESTROYCONTEXT = unsafe extern "win64" fn(hContext: HANDLE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDISETPOWERCOMPONENTFSTATE]
pub type PDXGKDDISETPOWERCOMPONENTFSTATE =
    unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void, ComponentIndex: u32, FState: u32) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_QUERYDEPENDENTENGINEGROUP]
pub type PDXGKDDI_QUERYDEPENDENTENGINEGROUP =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_QUERYDEPENDENTENGINEGROUP) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_QUERYENGINESTATUS]
pub type PDXGKDDI_QUERYENGINESTATUS =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_QUERYENGINESTATUS) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_RESETENGINE]
pub type PDXGKDDI_RESETENGINE = unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_RESETENGINE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_CANCELCOMMAND]
pub type PDXGKDDI_CANCELCOMMAND =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_CANCELCOMMAND) -> NTSTATUS;

/// [d3dkmddi: DXGKDDIPOWERRUNTIMECONTROLREQUEST]
pub type PDXGKDDIPOWERRUNTIMECONTROLREQUEST = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    PowerControlCode: *const GUID,
    InBuffer: *mut c_void,
    InBufferSize: usize,
    OutBuffer: *mut c_void,
    OutBufferSize: usize,
    BytesReturned: *mut usize,
) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_GETNODEMETADATA]
pub type PDXGKDDI_GETNODEMETADATA = unsafe extern "win64" fn(
    hAdapter: HANDLE,
    NodeOrdinalAndAdapterIndex: u32,
    Metadata: *mut DXGK_NODEMETADATA,
) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_CALIBRATEGPUCLOCK]
pub type PDXGKDDI_CALIBRATEGPUCLOCK = unsafe extern "win64" fn(
    hAdapter: HANDLE,
    NodeOrdinal: u32,
    EngineOrdinal: u32,
    ClockCalibration: *mut DXGK_GPUCLOCKDATA,
) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_FORMATHISTORYBUFFER]
pub type PDXGKDDI_FORMATHISTORYBUFFER =
    unsafe extern "win64" fn(hContext: HANDLE, FormatData: *mut DXGKARG_FORMATHISTORYBUFFER) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_SUBMITCOMMANDVIRTUAL]
pub type PDXGKDDI_SUBMITCOMMANDVIRTUAL =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SUBMITCOMMANDVIRTUAL) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_SETROOTPAGETABLE]
pub type PDXGKDDI_SETROOTPAGETABLE = unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SETROOTPAGETABLE);

/// [d3dkmddi: DXGKDDI_GETROOTPAGETABLESIZE]
pub type PDXGKDDI_GETROOTPAGETABLESIZE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_GETROOTPAGETABLESIZE) -> usize;

/// [d3dkmddi: DXGKDDI_MAPCPUHOSTAPERTURE]
pub type PDXGKDDI_MAPCPUHOSTAPERTURE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_MAPCPUHOSTAPERTURE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_UNMAPCPUHOSTAPERTURE]
pub type PDXGKDDI_UNMAPCPUHOSTAPERTURE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_UNMAPCPUHOSTAPERTURE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_CREATEPROCESS]
pub type PDXGKDDI_CREATEPROCESS =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_CREATEPROCESS) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_DESTROYPROCESS]
pub type PDXGKDDI_DESTROYPROCESS = unsafe extern "win64" fn(hAdapter: HANDLE, hKmdProcess: HANDLE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_SETSTABLEPOWERSTATE]
pub type PDXGKDDI_SETSTABLEPOWERSTATE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SETSTABLEPOWERSTATE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_CREATEHWCONTEXT]
pub type PDXGKDDI_CREATEHWCONTEXT =
    unsafe extern "win64" fn(hDevice: HANDLE, Args: *mut DXGKARG_CREATEHWCONTEXT) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_DESTROYHWCONTEXT]
pub type PDXGKDDI_DESTROYHWCONTEXT = unsafe extern "win64" fn(hHwContext: HANDLE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_CREATEHWQUEUE]
pub type PDXGKDDI_CREATEHWQUEUE =
    unsafe extern "win64" fn(hHwContext: HANDLE, Args: *mut DXGKARG_CREATEHWQUEUE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_DESTROYHWQUEUE]
pub type PDXGKDDI_DESTROYHWQUEUE = unsafe extern "win64" fn(hHwQueue: HANDLE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_SUBMITCOMMANDTOHWQUEUE]
pub type PDXGKDDI_SUBMITCOMMANDTOHWQUEUE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SUBMITCOMMANDTOHWQUEUE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_SWITCHTOHWCONTEXTLIST]
pub type PDXGKDDI_SWITCHTOHWCONTEXTLIST =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SWITCHTOHWCONTEXTLIST) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_RESETHWENGINE]
pub type PDXGKDDI_RESETHWENGINE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_RESETHWENGINE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_UPDATEHWCONTEXTSTATE]
pub type PDXGKDDI_UPDATEHWCONTEXTSTATE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_UPDATEHWCONTEXTSTATE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_SETSCHEDULINGLOGBUFFER]
pub type PDXGKDDI_SETSCHEDULINGLOGBUFFER =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SETSCHEDULINGLOGBUFFER) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_SETUPPRIORITYBANDS]
pub type PDXGKDDI_SETUPPRIORITYBANDS =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SETUPPRIORITYBANDS) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_SETCONTEXTSCHEDULINGPROPERTIES]
pub type PDXGKDDI_SETCONTEXTSCHEDULINGPROPERTIES =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_SUSPENDCONTEXT]
pub type PDXGKDDI_SUSPENDCONTEXT =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SUSPENDCONTEXT) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_RESUMECONTEXT]
pub type PDXGKDDI_RESUMECONTEXT =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_RESUMECONTEXT) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_SETVIRTUALMACHINEDATA]
pub type PDXGKDDI_SETVIRTUALMACHINEDATA =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SETVIRTUALMACHINEDATA) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_RESUMEHWENGINE]
pub type PDXGKDDI_RESUMEHWENGINE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_RESUMEHWENGINE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_SIGNALMONITOREDFENCE]
pub type PDXGKDDI_SIGNALMONITOREDFENCE =
    unsafe extern "win64" fn(hContext: HANDLE, Args: *mut DXGKARG_SIGNALMONITOREDFENCE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_CREATENATIVEFENCE]
pub type PDXGKDDI_CREATENATIVEFENCE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_CREATENATIVEFENCE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_DESTROYNATIVEFENCE]
pub type PDXGKDDI_DESTROYNATIVEFENCE = unsafe extern "win64" fn(Args: *const DXGKARG_DESTROYNATIVEFENCE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_UPDATEMONITOREDVALUES]
pub type PDXGKDDI_UPDATEMONITOREDVALUES =
    unsafe extern "win64" fn(Args: *const DXGKARG_UPDATEMONITOREDVALUES) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_UPDATECURRENTVALUESFROMCPU]
pub type PDXGKDDI_UPDATECURRENTVALUESFROMCPU =
    unsafe extern "win64" fn(Args: *const DXGKARG_UPDATECURRENTVALUESFROMCPU) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_CREATEDOORBELL]
pub type PDXGKDDI_CREATEDOORBELL = unsafe extern "win64" fn(Args: *mut DXGKARG_CREATEDOORBELL) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_CONNECTDOORBELL]
pub type PDXGKDDI_CONNECTDOORBELL = unsafe extern "win64" fn(Args: *mut DXGKARG_CONNECTDOORBELL) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_DISCONNECTDOORBELL]
pub type PDXGKDDI_DISCONNECTDOORBELL = unsafe extern "win64" fn(Args: *const DXGKARG_DISCONNECTDOORBELL) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_DESTROYDOORBELL]
pub type PDXGKDDI_DESTROYDOORBELL = unsafe extern "win64" fn(Args: *const DXGKARG_DESTROYDOORBELL) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_NOTIFYWORKSUBMISSION]
pub type PDXGKDDI_NOTIFYWORKSUBMISSION =
    unsafe extern "win64" fn(Args: *const DXGKARG_NOTIFYWORKSUBMISSION) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_OPENNATIVEFENCE]
pub type PDXGKDDI_OPENNATIVEFENCE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_OPENNATIVEFENCE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_CLOSENATIVEFENCE]
pub type PDXGKDDI_CLOSENATIVEFENCE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_CLOSENATIVEFENCE) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_SETNATIVEFENCELOGBUFFER]
pub type PDXGKDDI_SETNATIVEFENCELOGBUFFER =
    unsafe extern "win64" fn(Args: *const DXGKARG_SETNATIVEFENCELOGBUFFER) -> NTSTATUS;

/// [d3dkmddi: DXGKDDI_UPDATENATIVEFENCELOGS]
pub type PDXGKDDI_UPDATENATIVEFENCELOGS =
    unsafe extern "win64" fn(Args: *const DXGKARG_UPDATENATIVEFENCELOGS) -> NTSTATUS;

/// Entry points of a miniport driver at the WDDM 3.2 layout: a version and 192 slots.
/// Slots typed [`UnusedSlot`] belong to display, GPU partitioning, live migration or retired interfaces; a
/// compute-only driver leaves them NULL.
/// [dispmprt: DRIVER_INITIALIZATION_DATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DRIVER_INITIALIZATION_DATA {
    pub Version: u32,
    pub DxgkDdiAddDevice: Option<PDXGKDDI_ADD_DEVICE>,
    pub DxgkDdiStartDevice: Option<PDXGKDDI_START_DEVICE>,
    pub DxgkDdiStopDevice: Option<PDXGKDDI_STOP_DEVICE>,
    pub DxgkDdiRemoveDevice: Option<PDXGKDDI_REMOVE_DEVICE>,
    pub DxgkDdiDispatchIoRequest: Option<PDXGKDDI_DISPATCH_IO_REQUEST>,
    pub DxgkDdiInterruptRoutine: Option<PDXGKDDI_INTERRUPT_ROUTINE>,
    pub DxgkDdiDpcRoutine: Option<PDXGKDDI_DPC_ROUTINE>,
    pub DxgkDdiQueryChildRelations: Option<PDXGKDDI_QUERY_CHILD_RELATIONS>,
    pub DxgkDdiQueryChildStatus: Option<PDXGKDDI_QUERY_CHILD_STATUS>,
    pub DxgkDdiQueryDeviceDescriptor: Option<PDXGKDDI_QUERY_DEVICE_DESCRIPTOR>,
    pub DxgkDdiSetPowerState: Option<PDXGKDDI_SET_POWER_STATE>,
    pub DxgkDdiNotifyAcpiEvent: Option<PDXGKDDI_NOTIFY_ACPI_EVENT>,
    pub DxgkDdiResetDevice: Option<PDXGKDDI_RESET_DEVICE>,
    pub DxgkDdiUnload: Option<PDXGKDDI_UNLOAD>,
    pub DxgkDdiQueryInterface: Option<PDXGKDDI_QUERY_INTERFACE>,
    pub DxgkDdiControlEtwLogging: Option<PDXGKDDI_CONTROL_ETW_LOGGING>,
    pub DxgkDdiQueryAdapterInfo: Option<PDXGKDDI_QUERYADAPTERINFO>,
    pub DxgkDdiCreateDevice: Option<PDXGKDDI_CREATEDEVICE>,
    pub DxgkDdiCreateAllocation: Option<PDXGKDDI_CREATEALLOCATION>,
    pub DxgkDdiDestroyAllocation: Option<PDXGKDDI_DESTROYALLOCATION>,
    pub DxgkDdiDescribeAllocation: Option<PDXGKDDI_DESCRIBEALLOCATION>,
    pub DxgkDdiGetStandardAllocationDriverData: Option<PDXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA>,
    pub DxgkDdiAcquireSwizzlingRange: UnusedSlot,
    pub DxgkDdiReleaseSwizzlingRange: UnusedSlot,
    pub DxgkDdiPatch: UnusedSlot,
    pub DxgkDdiSubmitCommand: Option<PDXGKDDI_SUBMITCOMMAND>,
    pub DxgkDdiPreemptCommand: Option<PDXGKDDI_PREEMPTCOMMAND>,
    pub DxgkDdiBuildPagingBuffer: Option<PDXGKDDI_BUILDPAGINGBUFFER>,
    pub DxgkDdiSetPalette: UnusedSlot,
    pub DxgkDdiSetPointerPosition: UnusedSlot,
    pub DxgkDdiSetPointerShape: UnusedSlot,
    pub DxgkDdiResetFromTimeout: Option<PDXGKDDI_RESETFROMTIMEOUT>,
    pub DxgkDdiRestartFromTimeout: Option<PDXGKDDI_RESTARTFROMTIMEOUT>,
    pub DxgkDdiEscape: Option<PDXGKDDI_ESCAPE>,
    pub DxgkDdiCollectDbgInfo: Option<PDXGKDDI_COLLECTDBGINFO>,
    pub DxgkDdiQueryCurrentFence: UnusedSlot,
    pub DxgkDdiIsSupportedVidPn: UnusedSlot,
    pub DxgkDdiRecommendFunctionalVidPn: UnusedSlot,
    pub DxgkDdiEnumVidPnCofuncModality: UnusedSlot,
    pub DxgkDdiSetVidPnSourceAddress: UnusedSlot,
    pub DxgkDdiSetVidPnSourceVisibility: UnusedSlot,
    pub DxgkDdiCommitVidPn: UnusedSlot,
    pub DxgkDdiUpdateActiveVidPnPresentPath: UnusedSlot,
    pub DxgkDdiRecommendMonitorModes: UnusedSlot,
    pub DxgkDdiRecommendVidPnTopology: UnusedSlot,
    pub DxgkDdiGetScanLine: UnusedSlot,
    pub DxgkDdiStopCapture: UnusedSlot,
    pub DxgkDdiControlInterrupt: UnusedSlot,
    pub DxgkDdiCreateOverlay: UnusedSlot,
    pub DxgkDdiDestroyDevice: Option<PDXGKDDI_DESTROYDEVICE>,
    pub DxgkDdiOpenAllocation: Option<PDXGKDDI_OPENALLOCATIONINFO>,
    pub DxgkDdiCloseAllocation: Option<PDXGKDDI_CLOSEALLOCATION>,
    pub DxgkDdiRender: UnusedSlot,
    pub DxgkDdiPresent: UnusedSlot,
    pub DxgkDdiUpdateOverlay: UnusedSlot,
    pub DxgkDdiFlipOverlay: UnusedSlot,
    pub DxgkDdiDestroyOverlay: UnusedSlot,
    pub DxgkDdiCreateContext: Option<PDXGKDDI_CREATECONTEXT>,
    pub DxgkDdiDestroyContext: Option<PDXGKDDI_DESTROYCONTEXT>,
    pub DxgkDdiLinkDevice: UnusedSlot,
    pub DxgkDdiSetDisplayPrivateDriverFormat: UnusedSlot,
    pub DxgkDdiDescribePageTable: UnusedSlot,
    pub DxgkDdiUpdatePageTable: UnusedSlot,
    pub DxgkDdiUpdatePageDirectory: UnusedSlot,
    pub DxgkDdiMovePageDirectory: UnusedSlot,
    pub DxgkDdiSubmitRender: UnusedSlot,
    pub DxgkDdiCreateAllocation2: UnusedSlot,
    pub DxgkDdiRenderKm: UnusedSlot,
    pub Reserved: UnusedSlot,
    pub DxgkDdiQueryVidPnHWCapability: UnusedSlot,
    pub DxgkDdiSetPowerComponentFState: Option<PDXGKDDISETPOWERCOMPONENTFSTATE>,
    pub DxgkDdiQueryDependentEngineGroup: Option<PDXGKDDI_QUERYDEPENDENTENGINEGROUP>,
    pub DxgkDdiQueryEngineStatus: Option<PDXGKDDI_QUERYENGINESTATUS>,
    pub DxgkDdiResetEngine: Option<PDXGKDDI_RESETENGINE>,
    pub DxgkDdiStopDeviceAndReleasePostDisplayOwnership: UnusedSlot,
    pub DxgkDdiSystemDisplayEnable: UnusedSlot,
    pub DxgkDdiSystemDisplayWrite: UnusedSlot,
    pub DxgkDdiCancelCommand: Option<PDXGKDDI_CANCELCOMMAND>,
    pub DxgkDdiGetChildContainerId: UnusedSlot,
    pub DxgkDdiPowerRuntimeControlRequest: Option<PDXGKDDIPOWERRUNTIMECONTROLREQUEST>,
    pub DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay: UnusedSlot,
    pub DxgkDdiNotifySurpriseRemoval: UnusedSlot,
    pub DxgkDdiGetNodeMetadata: Option<PDXGKDDI_GETNODEMETADATA>,
    pub DxgkDdiSetPowerPState: UnusedSlot,
    pub DxgkDdiControlInterrupt2: UnusedSlot,
    pub DxgkDdiCheckMultiPlaneOverlaySupport: UnusedSlot,
    pub DxgkDdiCalibrateGpuClock: Option<PDXGKDDI_CALIBRATEGPUCLOCK>,
    pub DxgkDdiFormatHistoryBuffer: Option<PDXGKDDI_FORMATHISTORYBUFFER>,
    pub DxgkDdiRenderGdi: UnusedSlot,
    pub DxgkDdiSubmitCommandVirtual: Option<PDXGKDDI_SUBMITCOMMANDVIRTUAL>,
    pub DxgkDdiSetRootPageTable: Option<PDXGKDDI_SETROOTPAGETABLE>,
    pub DxgkDdiGetRootPageTableSize: Option<PDXGKDDI_GETROOTPAGETABLESIZE>,
    pub DxgkDdiMapCpuHostAperture: Option<PDXGKDDI_MAPCPUHOSTAPERTURE>,
    pub DxgkDdiUnmapCpuHostAperture: Option<PDXGKDDI_UNMAPCPUHOSTAPERTURE>,
    pub DxgkDdiCheckMultiPlaneOverlaySupport2: UnusedSlot,
    pub DxgkDdiCreateProcess: Option<PDXGKDDI_CREATEPROCESS>,
    pub DxgkDdiDestroyProcess: Option<PDXGKDDI_DESTROYPROCESS>,
    pub DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2: UnusedSlot,
    pub Reserved1: UnusedSlot,
    pub Reserved2: UnusedSlot,
    pub DxgkDdiPowerRuntimeSetDeviceHandle: UnusedSlot,
    pub DxgkDdiSetStablePowerState: Option<PDXGKDDI_SETSTABLEPOWERSTATE>,
    pub DxgkDdiSetVideoProtectedRegion: UnusedSlot,
    pub DxgkDdiCheckMultiPlaneOverlaySupport3: UnusedSlot,
    pub DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3: UnusedSlot,
    pub DxgkDdiPostMultiPlaneOverlayPresent: UnusedSlot,
    pub DxgkDdiValidateUpdateAllocationProperty: UnusedSlot,
    pub DxgkDdiControlModeBehavior: UnusedSlot,
    pub DxgkDdiUpdateMonitorLinkInfo: UnusedSlot,
    pub DxgkDdiCreateHwContext: Option<PDXGKDDI_CREATEHWCONTEXT>,
    pub DxgkDdiDestroyHwContext: Option<PDXGKDDI_DESTROYHWCONTEXT>,
    pub DxgkDdiCreateHwQueue: Option<PDXGKDDI_CREATEHWQUEUE>,
    pub DxgkDdiDestroyHwQueue: Option<PDXGKDDI_DESTROYHWQUEUE>,
    pub DxgkDdiSubmitCommandToHwQueue: Option<PDXGKDDI_SUBMITCOMMANDTOHWQUEUE>,
    pub DxgkDdiSwitchToHwContextList: Option<PDXGKDDI_SWITCHTOHWCONTEXTLIST>,
    pub DxgkDdiResetHwEngine: Option<PDXGKDDI_RESETHWENGINE>,
    pub DxgkDdiCreatePeriodicFrameNotification: UnusedSlot,
    pub DxgkDdiDestroyPeriodicFrameNotification: UnusedSlot,
    pub DxgkDdiSetTimingsFromVidPn: UnusedSlot,
    pub DxgkDdiSetTargetGamma: UnusedSlot,
    pub DxgkDdiSetTargetContentType: UnusedSlot,
    pub DxgkDdiSetTargetAnalogCopyProtection: UnusedSlot,
    pub DxgkDdiSetTargetAdjustedColorimetry: UnusedSlot,
    pub DxgkDdiDisplayDetectControl: UnusedSlot,
    pub DxgkDdiQueryConnectionChange: UnusedSlot,
    pub DxgkDdiExchangePreStartInfo: UnusedSlot,
    pub DxgkDdiGetMultiPlaneOverlayCaps: UnusedSlot,
    pub DxgkDdiGetPostCompositionCaps: UnusedSlot,
    pub DxgkDdiUpdateHwContextState: Option<PDXGKDDI_UPDATEHWCONTEXTSTATE>,
    pub DxgkDdiCreateProtectedSession: UnusedSlot,
    pub DxgkDdiDestroyProtectedSession: UnusedSlot,
    pub DxgkDdiSetSchedulingLogBuffer: Option<PDXGKDDI_SETSCHEDULINGLOGBUFFER>,
    pub DxgkDdiSetupPriorityBands: Option<PDXGKDDI_SETUPPRIORITYBANDS>,
    pub DxgkDdiNotifyFocusPresent: UnusedSlot,
    pub DxgkDdiSetContextSchedulingProperties: Option<PDXGKDDI_SETCONTEXTSCHEDULINGPROPERTIES>,
    pub DxgkDdiSuspendContext: Option<PDXGKDDI_SUSPENDCONTEXT>,
    pub DxgkDdiResumeContext: Option<PDXGKDDI_RESUMECONTEXT>,
    pub DxgkDdiSetVirtualMachineData: Option<PDXGKDDI_SETVIRTUALMACHINEDATA>,
    pub DxgkDdiBeginExclusiveAccess: UnusedSlot,
    pub DxgkDdiEndExclusiveAccess: UnusedSlot,
    pub DxgkDdiQueryDiagnosticTypesSupport: UnusedSlot,
    pub DxgkDdiControlDiagnosticReporting: UnusedSlot,
    pub DxgkDdiResumeHwEngine: Option<PDXGKDDI_RESUMEHWENGINE>,
    pub DxgkDdiSignalMonitoredFence: Option<PDXGKDDI_SIGNALMONITOREDFENCE>,
    pub DxgkDdiPresentToHwQueue: UnusedSlot,
    pub DxgkDdiValidateSubmitCommand: UnusedSlot,
    pub DxgkDdiSetTargetAdjustedColorimetry2: UnusedSlot,
    pub DxgkDdiSetTrackedWorkloadPowerLevel: UnusedSlot,
    pub DxgkDdiSaveMemoryForHotUpdate: UnusedSlot,
    pub DxgkDdiRestoreMemoryForHotUpdate: UnusedSlot,
    pub DxgkDdiCollectDiagnosticInfo: UnusedSlot,
    pub Reserved3: UnusedSlot,
    pub DxgkDdiControlInterrupt3: UnusedSlot,
    pub DxgkDdiSetFlipQueueLogBuffer: UnusedSlot,
    pub DxgkDdiUpdateFlipQueueLog: UnusedSlot,
    pub DxgkDdiCancelQueuedFlips: UnusedSlot,
    pub DxgkDdiSetInterruptTargetPresentId: UnusedSlot,
    pub DxgkDdiSetAllocationBackingStore: UnusedSlot,
    pub DxgkDdiCreateCpuEvent: UnusedSlot,
    pub DxgkDdiDestroyCpuEvent: UnusedSlot,
    pub DxgkDdiCancelFlips: UnusedSlot,
    pub DxgkDdiCreateNativeFence: Option<PDXGKDDI_CREATENATIVEFENCE>,
    pub DxgkDdiDestroyNativeFence: Option<PDXGKDDI_DESTROYNATIVEFENCE>,
    pub DxgkDdiUpdateMonitoredValues: Option<PDXGKDDI_UPDATEMONITOREDVALUES>,
    pub DxgkDdiUpdateCurrentValuesFromCpu: Option<PDXGKDDI_UPDATECURRENTVALUESFROMCPU>,
    pub DxgkDdiCreateDoorbell: Option<PDXGKDDI_CREATEDOORBELL>,
    pub DxgkDdiConnectDoorbell: Option<PDXGKDDI_CONNECTDOORBELL>,
    pub DxgkDdiDisconnectDoorbell: Option<PDXGKDDI_DISCONNECTDOORBELL>,
    pub DxgkDdiDestroyDoorbell: Option<PDXGKDDI_DESTROYDOORBELL>,
    pub DxgkDdiNotifyWorkSubmission: Option<PDXGKDDI_NOTIFYWORKSUBMISSION>,
    pub Reserved4: UnusedSlot,
    pub DxgkDdiCreateMemoryBasis: UnusedSlot,
    pub DxgkDdiDestroyMemoryBasis: UnusedSlot,
    pub DxgkDdiStartDirtyTracking: UnusedSlot,
    pub DxgkDdiStopDirtyTracking: UnusedSlot,
    pub DxgkDdiQueryDirtyBitData: UnusedSlot,
    pub DxgkDdiPrepareLiveMigration: UnusedSlot,
    pub DxgkDdiSaveImmutableMigrationData: UnusedSlot,
    pub DxgkDdiSaveMutableMigrationData: UnusedSlot,
    pub DxgkDdiEndLiveMigration: UnusedSlot,
    pub DxgkDdiRestoreImmutableMigrationData: UnusedSlot,
    pub DxgkDdiRestoreMutableMigrationData: UnusedSlot,
    pub DxgkDdiWriteVirtualizedInterrupt: UnusedSlot,
    pub DxgkDdiSetVirtualGpuResources2: UnusedSlot,
    pub DxgkDdiSetVirtualFunctionPauseState: UnusedSlot,
    pub DxgkDdiOpenNativeFence: Option<PDXGKDDI_OPENNATIVEFENCE>,
    pub DxgkDdiCloseNativeFence: Option<PDXGKDDI_CLOSENATIVEFENCE>,
    pub DxgkDdiSetNativeFenceLogBuffer: Option<PDXGKDDI_SETNATIVEFENCELOGBUFFER>,
    pub DxgkDdiUpdateNativeFenceLogs: Option<PDXGKDDI_UPDATENATIVEFENCELOGS>,
    pub DxgkDdiCollectDbgInfo2: UnusedSlot,
    pub DxgkDdiNotifyContextPriorityChange: UnusedSlot,
    pub DxgkDdiResetDisplayEngine: UnusedSlot,
}

zeroed! {
    DRIVER_INITIALIZATION_DATA,
}

/// Name of each slot in table order; slot `i` lies at byte `8 + 8 * i`.
pub const SLOT_NAMES: [&str; 192] = [
    "DxgkDdiAddDevice",
    "DxgkDdiStartDevice",
    "DxgkDdiStopDevice",
    "DxgkDdiRemoveDevice",
    "DxgkDdiDispatchIoRequest",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiQueryChildRelations",
    "DxgkDdiQueryChildStatus",
    "DxgkDdiQueryDeviceDescriptor",
    "DxgkDdiSetPowerState",
    "DxgkDdiNotifyAcpiEvent",
    "DxgkDdiResetDevice",
    "DxgkDdiUnload",
    "DxgkDdiQueryInterface",
    "DxgkDdiControlEtwLogging",
    "DxgkDdiQueryAdapterInfo",
    "DxgkDdiCreateDevice",
    "DxgkDdiCreateAllocation",
    "DxgkDdiDestroyAllocation",
    "DxgkDdiDescribeAllocation",
    "DxgkDdiGetStandardAllocationDriverData",
    "DxgkDdiAcquireSwizzlingRange",
    "DxgkDdiReleaseSwizzlingRange",
    "DxgkDdiPatch",
    "DxgkDdiSubmitCommand",
    "DxgkDdiPreemptCommand",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiSetPalette",
    "DxgkDdiSetPointerPosition",
    "DxgkDdiSetPointerShape",
    "DxgkDdiResetFromTimeout",
    "DxgkDdiRestartFromTimeout",
    "DxgkDdiEscape",
    "DxgkDdiCollectDbgInfo",
    "DxgkDdiQueryCurrentFence",
    "DxgkDdiIsSupportedVidPn",
    "DxgkDdiRecommendFunctionalVidPn",
    "DxgkDdiEnumVidPnCofuncModality",
    "DxgkDdiSetVidPnSourceAddress",
    "DxgkDdiSetVidPnSourceVisibility",
    "DxgkDdiCommitVidPn",
    "DxgkDdiUpdateActiveVidPnPresentPath",
    "DxgkDdiRecommendMonitorModes",
    "DxgkDdiRecommendVidPnTopology",
    "DxgkDdiGetScanLine",
    "DxgkDdiStopCapture",
    "DxgkDdiControlInterrupt",
    "DxgkDdiCreateOverlay",
    "DxgkDdiDestroyDevice",
    "DxgkDdiOpenAllocation",
    "DxgkDdiCloseAllocation",
    "DxgkDdiRender",
    "DxgkDdiPresent",
    "DxgkDdiUpdateOverlay",
    "DxgkDdiFlipOverlay",
    "DxgkDdiDestroyOverlay",
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiLinkDevice",
    "DxgkDdiSetDisplayPrivateDriverFormat",
    "DxgkDdiDescribePageTable",
    "DxgkDdiUpdatePageTable",
    "DxgkDdiUpdatePageDirectory",
    "DxgkDdiMovePageDirectory",
    "DxgkDdiSubmitRender",
    "DxgkDdiCreateAllocation2",
    "DxgkDdiRenderKm",
    "Reserved",
    "DxgkDdiQueryVidPnHWCapability",
    "DxgkDdiSetPowerComponentFState",
    "DxgkDdiQueryDependentEngineGroup",
    "DxgkDdiQueryEngineStatus",
    "DxgkDdiResetEngine",
    "DxgkDdiStopDeviceAndReleasePostDisplayOwnership",
    "DxgkDdiSystemDisplayEnable",
    "DxgkDdiSystemDisplayWrite",
    "DxgkDdiCancelCommand",
    "DxgkDdiGetChildContainerId",
    "DxgkDdiPowerRuntimeControlRequest",
    "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay",
    "DxgkDdiNotifySurpriseRemoval",
    "DxgkDdiGetNodeMetadata",
    "DxgkDdiSetPowerPState",
    "DxgkDdiControlInterrupt2",
    "DxgkDdiCheckMultiPlaneOverlaySupport",
    "DxgkDdiCalibrateGpuClock",
    "DxgkDdiFormatHistoryBuffer",
    "DxgkDdiRenderGdi",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiSetRootPageTable",
    "DxgkDdiGetRootPageTableSize",
    "DxgkDdiMapCpuHostAperture",
    "DxgkDdiUnmapCpuHostAperture",
    "DxgkDdiCheckMultiPlaneOverlaySupport2",
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2",
    "Reserved1",
    "Reserved2",
    "DxgkDdiPowerRuntimeSetDeviceHandle",
    "DxgkDdiSetStablePowerState",
    "DxgkDdiSetVideoProtectedRegion",
    "DxgkDdiCheckMultiPlaneOverlaySupport3",
    "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3",
    "DxgkDdiPostMultiPlaneOverlayPresent",
    "DxgkDdiValidateUpdateAllocationProperty",
    "DxgkDdiControlModeBehavior",
    "DxgkDdiUpdateMonitorLinkInfo",
    "DxgkDdiCreateHwContext",
    "DxgkDdiDestroyHwContext",
    "DxgkDdiCreateHwQueue",
    "DxgkDdiDestroyHwQueue",
    "DxgkDdiSubmitCommandToHwQueue",
    "DxgkDdiSwitchToHwContextList",
    "DxgkDdiResetHwEngine",
    "DxgkDdiCreatePeriodicFrameNotification",
    "DxgkDdiDestroyPeriodicFrameNotification",
    "DxgkDdiSetTimingsFromVidPn",
    "DxgkDdiSetTargetGamma",
    "DxgkDdiSetTargetContentType",
    "DxgkDdiSetTargetAnalogCopyProtection",
    "DxgkDdiSetTargetAdjustedColorimetry",
    "DxgkDdiDisplayDetectControl",
    "DxgkDdiQueryConnectionChange",
    "DxgkDdiExchangePreStartInfo",
    "DxgkDdiGetMultiPlaneOverlayCaps",
    "DxgkDdiGetPostCompositionCaps",
    "DxgkDdiUpdateHwContextState",
    "DxgkDdiCreateProtectedSession",
    "DxgkDdiDestroyProtectedSession",
    "DxgkDdiSetSchedulingLogBuffer",
    "DxgkDdiSetupPriorityBands",
    "DxgkDdiNotifyFocusPresent",
    "DxgkDdiSetContextSchedulingProperties",
    "DxgkDdiSuspendContext",
    "DxgkDdiResumeContext",
    "DxgkDdiSetVirtualMachineData",
    "DxgkDdiBeginExclusiveAccess",
    "DxgkDdiEndExclusiveAccess",
    "DxgkDdiQueryDiagnosticTypesSupport",
    "DxgkDdiControlDiagnosticReporting",
    "DxgkDdiResumeHwEngine",
    "DxgkDdiSignalMonitoredFence",
    "DxgkDdiPresentToHwQueue",
    "DxgkDdiValidateSubmitCommand",
    "DxgkDdiSetTargetAdjustedColorimetry2",
    "DxgkDdiSetTrackedWorkloadPowerLevel",
    "DxgkDdiSaveMemoryForHotUpdate",
    "DxgkDdiRestoreMemoryForHotUpdate",
    "DxgkDdiCollectDiagnosticInfo",
    "Reserved3",
    "DxgkDdiControlInterrupt3",
    "DxgkDdiSetFlipQueueLogBuffer",
    "DxgkDdiUpdateFlipQueueLog",
    "DxgkDdiCancelQueuedFlips",
    "DxgkDdiSetInterruptTargetPresentId",
    "DxgkDdiSetAllocationBackingStore",
    "DxgkDdiCreateCpuEvent",
    "DxgkDdiDestroyCpuEvent",
    "DxgkDdiCancelFlips",
    "DxgkDdiCreateNativeFence",
    "DxgkDdiDestroyNativeFence",
    "DxgkDdiUpdateMonitoredValues",
    "DxgkDdiUpdateCurrentValuesFromCpu",
    "DxgkDdiCreateDoorbell",
    "DxgkDdiConnectDoorbell",
    "DxgkDdiDisconnectDoorbell",
    "DxgkDdiDestroyDoorbell",
    "DxgkDdiNotifyWorkSubmission",
    "Reserved4",
    "DxgkDdiCreateMemoryBasis",
    "DxgkDdiDestroyMemoryBasis",
    "DxgkDdiStartDirtyTracking",
    "DxgkDdiStopDirtyTracking",
    "DxgkDdiQueryDirtyBitData",
    "DxgkDdiPrepareLiveMigration",
    "DxgkDdiSaveImmutableMigrationData",
    "DxgkDdiSaveMutableMigrationData",
    "DxgkDdiEndLiveMigration",
    "DxgkDdiRestoreImmutableMigrationData",
    "DxgkDdiRestoreMutableMigrationData",
    "DxgkDdiWriteVirtualizedInterrupt",
    "DxgkDdiSetVirtualGpuResources2",
    "DxgkDdiSetVirtualFunctionPauseState",
    "DxgkDdiOpenNativeFence",
    "DxgkDdiCloseNativeFence",
    "DxgkDdiSetNativeFenceLogBuffer",
    "DxgkDdiUpdateNativeFenceLogs",
    "DxgkDdiCollectDbgInfo2",
    "DxgkDdiNotifyContextPriorityChange",
    "DxgkDdiResetDisplayEngine",
];

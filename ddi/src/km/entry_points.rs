//! Prototypes of the entry points that a driver registers.
//!
//! Unless said otherwise the result is an `NTSTATUS`, `hAdapter` and `MiniportDeviceContext` are what the driver returned from
//! `DxgkDdiAddDevice`, and the call comes at PASSIVE_LEVEL.

use core::ffi::c_void;

use crate::km::{
    DEVICE_POWER_STATE, DXGK_CHILD_DESCRIPTOR, DXGK_CHILD_STATUS, DXGK_DEVICE_DESCRIPTOR, DXGK_EVENT_TYPE,
    DXGK_GPUCLOCKDATA, DXGK_NODEMETADATA, DXGK_START_INFO, DXGK_SURPRISE_REMOVAL_TYPE, DXGKARG_BUILDPAGINGBUFFER,
    DXGKARG_CANCELCOMMAND, DXGKARG_CLOSEALLOCATION, DXGKARG_CLOSENATIVEFENCE, DXGKARG_COLLECTDBGINFO,
    DXGKARG_COLLECTDBGINFO2, DXGKARG_CONNECTDOORBELL, DXGKARG_CREATEALLOCATION, DXGKARG_CREATECONTEXT,
    DXGKARG_CREATEDEVICE, DXGKARG_CREATEDOORBELL, DXGKARG_CREATEHWCONTEXT, DXGKARG_CREATEHWQUEUE,
    DXGKARG_CREATENATIVEFENCE, DXGKARG_CREATEPROCESS, DXGKARG_DESCRIBEALLOCATION, DXGKARG_DESTROYALLOCATION,
    DXGKARG_DESTROYDOORBELL, DXGKARG_DESTROYNATIVEFENCE, DXGKARG_DISCONNECTDOORBELL, DXGKARG_ESCAPE,
    DXGKARG_FORMATHISTORYBUFFER, DXGKARG_GETROOTPAGETABLESIZE, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
    DXGKARG_MAPCPUHOSTAPERTURE, DXGKARG_NOTIFYWORKSUBMISSION, DXGKARG_OPENALLOCATION, DXGKARG_OPENNATIVEFENCE,
    DXGKARG_PREEMPTCOMMAND, DXGKARG_QUERYADAPTERINFO, DXGKARG_QUERYDEPENDENTENGINEGROUP, DXGKARG_QUERYENGINESTATUS,
    DXGKARG_RESETENGINE, DXGKARG_RESETHWENGINE, DXGKARG_RESUMECONTEXT, DXGKARG_RESUMEHWENGINE,
    DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES, DXGKARG_SETNATIVEFENCELOGBUFFER, DXGKARG_SETROOTPAGETABLE,
    DXGKARG_SETSCHEDULINGLOGBUFFER, DXGKARG_SETSTABLEPOWERSTATE, DXGKARG_SETUPPRIORITYBANDS,
    DXGKARG_SETVIRTUALMACHINEDATA, DXGKARG_SIGNALMONITOREDFENCE, DXGKARG_SUBMITCOMMAND, DXGKARG_SUBMITCOMMANDTOHWQUEUE,
    DXGKARG_SUBMITCOMMANDVIRTUAL, DXGKARG_SUSPENDCONTEXT, DXGKARG_SWITCHTOHWCONTEXTLIST, DXGKARG_UNMAPCPUHOSTAPERTURE,
    DXGKARG_UPDATECURRENTVALUESFROMCPU, DXGKARG_UPDATEHWCONTEXTSTATE, DXGKARG_UPDATEMONITOREDVALUES,
    DXGKARG_UPDATENATIVEFENCELOGS, DXGKRNL_INTERFACE, LINKED_DEVICE,
};
use crate::types::{BOOLEAN, GUID, HANDLE, NTSTATUS, QUERY_INTERFACE};

/// Makes the driver's state for a device; the hardware is not touched. [dispmprt: DXGKDDI_ADD_DEVICE]
pub type PDXGKDDI_ADD_DEVICE =
    unsafe extern "win64" fn(PhysicalDeviceObject: *mut c_void, MiniportDeviceContext: *mut *mut c_void) -> NTSTATUS;

/// Tells which chain of linked adapters the device belongs to; called right after [`PDXGKDDI_ADD_DEVICE`].
/// [dispmprt: DXGKDDI_LINK_DEVICE]
pub type PDXGKDDI_LINK_DEVICE = unsafe extern "win64" fn(
    PhysicalDeviceObject: *const c_void,
    MiniportDeviceContext: *const c_void,
    LinkedDevice: *mut LINKED_DEVICE,
) -> NTSTATUS;

/// Starts the device: resources, callbacks, number of displays (0). [dispmprt: DXGKDDI_START_DEVICE]
pub type PDXGKDDI_START_DEVICE = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    DxgkStartInfo: *mut DXGK_START_INFO,
    DxgkInterface: *mut DXGKRNL_INTERFACE,
    NumberOfVideoPresentSources: *mut u32,
    NumberOfChildren: *mut u32,
) -> NTSTATUS;

/// Undoes [`PDXGKDDI_START_DEVICE`]; also called when initialisation fails after it. [dispmprt: DXGKDDI_STOP_DEVICE]
pub type PDXGKDDI_STOP_DEVICE = unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void) -> NTSTATUS;

/// Undoes [`PDXGKDDI_ADD_DEVICE`]. [dispmprt: DXGKDDI_REMOVE_DEVICE]
pub type PDXGKDDI_REMOVE_DEVICE = unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void) -> NTSTATUS;

/// Takes a video request packet of the old model. [dispmprt: DXGKDDI_DISPATCH_IO_REQUEST]
pub type PDXGKDDI_DISPATCH_IO_REQUEST = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    VidPnSourceId: u32,
    VideoRequestPacket: *mut c_void,
) -> NTSTATUS;

/// Interrupt routine at device interrupt level; false if the interrupt is somebody else's.
/// [dispmprt: DXGKDDI_INTERRUPT_ROUTINE]
pub type PDXGKDDI_INTERRUPT_ROUTINE =
    unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void, MessageNumber: u32) -> BOOLEAN;

/// Deferred part of an interrupt, at DISPATCH_LEVEL. [dispmprt: DXGKDDI_DPC_ROUTINE]
pub type PDXGKDDI_DPC_ROUTINE = unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void);

/// Lists children: none. [dispmprt: DXGKDDI_QUERY_CHILD_RELATIONS]
pub type PDXGKDDI_QUERY_CHILD_RELATIONS = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    ChildRelations: *mut DXGK_CHILD_DESCRIPTOR,
    ChildRelationsSize: u32,
) -> NTSTATUS;

/// Says whether a child is connected. [dispmprt: DXGKDDI_QUERY_CHILD_STATUS]
pub type PDXGKDDI_QUERY_CHILD_STATUS = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    ChildStatus: *mut DXGK_CHILD_STATUS,
    NonDestructiveOnly: BOOLEAN,
) -> NTSTATUS;

/// Reads a monitor's descriptor. [dispmprt: DXGKDDI_QUERY_DEVICE_DESCRIPTOR]
pub type PDXGKDDI_QUERY_DEVICE_DESCRIPTOR = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    ChildUid: u32,
    DeviceDescriptor: *mut DXGK_DEVICE_DESCRIPTOR,
) -> NTSTATUS;

/// Changes the power state of the adapter or a child. [dispmprt: DXGKDDI_SET_POWER_STATE]
pub type PDXGKDDI_SET_POWER_STATE = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    DeviceUid: u32,
    DevicePowerState: DEVICE_POWER_STATE,
    ActionType: i32,
) -> NTSTATUS;

/// Tells of an ACPI event. [dispmprt: DXGKDDI_NOTIFY_ACPI_EVENT]
pub type PDXGKDDI_NOTIFY_ACPI_EVENT = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    EventType: DXGK_EVENT_TYPE,
    Event: u32,
    Argument: *mut c_void,
    AcpiFlags: *mut u32,
) -> NTSTATUS;

/// Tells that the device is gone, though nobody asked for it; level zero: also while other entry points run.
/// [dispmprt: DXGKDDI_NOTIFY_SURPRISE_REMOVAL]
pub type PDXGKDDI_NOTIFY_SURPRISE_REMOVAL =
    unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void, RemovalType: DXGK_SURPRISE_REMOVAL_TYPE) -> NTSTATUS;

/// Returns the device to a state in which firmware can use it; any IRQL, also in a bug check.
/// [dispmprt: DXGKDDI_RESET_DEVICE]
pub type PDXGKDDI_RESET_DEVICE = unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void);

/// Undoes the driver's entry point. [dispmprt: DXGKDDI_UNLOAD]
pub type PDXGKDDI_UNLOAD = unsafe extern "win64" fn();

/// Hands out an interface by GUID; STATUS_NOT_SUPPORTED for one it does not know. [dispmprt: DXGKDDI_QUERY_INTERFACE]
pub type PDXGKDDI_QUERY_INTERFACE =
    unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void, QueryInterface: *mut QUERY_INTERFACE) -> NTSTATUS;

/// Turns the driver's tracing on and off. [dispmprt: DXGKDDI_CONTROL_ETW_LOGGING]
pub type PDXGKDDI_CONTROL_ETW_LOGGING = unsafe extern "win64" fn(Enable: BOOLEAN, Flags: u32, Level: u8);

/// Answers one question about the adapter. [d3dkmddi: DXGKDDI_QUERYADAPTERINFO]
pub type PDXGKDDI_QUERYADAPTERINFO =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS;

/// Makes a device of a process. [d3dkmddi: DXGKDDI_CREATEDEVICE]
pub type PDXGKDDI_CREATEDEVICE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_CREATEDEVICE) -> NTSTATUS;

/// Makes allocations and says where they may lie. [d3dkmddi: DXGKDDI_CREATEALLOCATION]
pub type PDXGKDDI_CREATEALLOCATION =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_CREATEALLOCATION) -> NTSTATUS;

/// Undoes [`PDXGKDDI_CREATEALLOCATION`]. [d3dkmddi: DXGKDDI_DESTROYALLOCATION]
pub type PDXGKDDI_DESTROYALLOCATION =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_DESTROYALLOCATION) -> NTSTATUS;

/// Describes an allocation as a surface. [d3dkmddi: DXGKDDI_DESCRIBEALLOCATION]
pub type PDXGKDDI_DESCRIBEALLOCATION =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_DESCRIBEALLOCATION) -> NTSTATUS;

/// Describes an allocation that the operating system wants for itself.
/// [d3dkmddi: DXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA]
pub type PDXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA) -> NTSTATUS;

/// Submits a buffer at physical addresses. [d3dkmddi: DXGKDDI_SUBMITCOMMAND]
pub type PDXGKDDI_SUBMITCOMMAND =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SUBMITCOMMAND) -> NTSTATUS;

/// Stops a node. [d3dkmddi: DXGKDDI_PREEMPTCOMMAND]
pub type PDXGKDDI_PREEMPTCOMMAND =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_PREEMPTCOMMAND) -> NTSTATUS;

/// Turns an operation of the memory manager into commands. [d3dkmddi: DXGKDDI_BUILDPAGINGBUFFER]
pub type PDXGKDDI_BUILDPAGINGBUFFER =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS;

/// Resets the whole adapter; nothing of it runs afterwards. [d3dkmddi: DXGKDDI_RESETFROMTIMEOUT]
pub type PDXGKDDI_RESETFROMTIMEOUT = unsafe extern "win64" fn(hAdapter: HANDLE) -> NTSTATUS;

/// Lets the adapter run again after a reset. [d3dkmddi: DXGKDDI_RESTARTFROMTIMEOUT]
pub type PDXGKDDI_RESTARTFROMTIMEOUT = unsafe extern "win64" fn(hAdapter: HANDLE) -> NTSTATUS;

/// Private call of user mode. [d3dkmddi: DXGKDDI_ESCAPE]
pub type PDXGKDDI_ESCAPE = unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_ESCAPE) -> NTSTATUS;

/// Collects data for a debug report. [d3dkmddi: DXGKDDI_COLLECTDBGINFO]
pub type PDXGKDDI_COLLECTDBGINFO =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_COLLECTDBGINFO) -> NTSTATUS;

/// As [`PDXGKDDI_COLLECTDBGINFO`], with what is known of the time-out. [d3dkmddi: DXGKDDI_COLLECTDBGINFO2]
pub type PDXGKDDI_COLLECTDBGINFO2 =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_COLLECTDBGINFO2) -> NTSTATUS;

/// Undoes [`PDXGKDDI_CREATEDEVICE`]. [d3dkmddi: DXGKDDI_DESTROYDEVICE]
pub type PDXGKDDI_DESTROYDEVICE = unsafe extern "win64" fn(hDevice: HANDLE) -> NTSTATUS;

/// Opens allocations in a device. [d3dkmddi: DXGKDDI_OPENALLOCATIONINFO]
pub type PDXGKDDI_OPENALLOCATIONINFO =
    unsafe extern "win64" fn(hDevice: HANDLE, Args: *const DXGKARG_OPENALLOCATION) -> NTSTATUS;

/// Undoes [`PDXGKDDI_OPENALLOCATIONINFO`]. [d3dkmddi: DXGKDDI_CLOSEALLOCATION]
pub type PDXGKDDI_CLOSEALLOCATION =
    unsafe extern "win64" fn(hDevice: HANDLE, Args: *const DXGKARG_CLOSEALLOCATION) -> NTSTATUS;

/// Makes a context for packet scheduling. [d3dkmddi: DXGKDDI_CREATECONTEXT]
pub type PDXGKDDI_CREATECONTEXT =
    unsafe extern "win64" fn(hDevice: HANDLE, Args: *mut DXGKARG_CREATECONTEXT) -> NTSTATUS;

/// Undoes [`PDXGKDDI_CREATECONTEXT`]. [d3dkmddi: DXGKDDI_DESTROYCONTEXT]
pub type PDXGKDDI_DESTROYCONTEXT = unsafe extern "win64" fn(hContext: HANDLE) -> NTSTATUS;

/// Changes the F-state of a power component. [d3dkmddi: DXGKDDISETPOWERCOMPONENTFSTATE]
pub type PDXGKDDISETPOWERCOMPONENTFSTATE =
    unsafe extern "win64" fn(MiniportDeviceContext: *mut c_void, ComponentIndex: u32, FState: u32) -> NTSTATUS;

/// Says which nodes a reset would hit too. [d3dkmddi: DXGKDDI_QUERYDEPENDENTENGINEGROUP]
pub type PDXGKDDI_QUERYDEPENDENTENGINEGROUP =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_QUERYDEPENDENTENGINEGROUP) -> NTSTATUS;

/// Says whether an engine makes progress. [d3dkmddi: DXGKDDI_QUERYENGINESTATUS]
pub type PDXGKDDI_QUERYENGINESTATUS =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_QUERYENGINESTATUS) -> NTSTATUS;

/// Resets one engine of packet scheduling. [d3dkmddi: DXGKDDI_RESETENGINE]
pub type PDXGKDDI_RESETENGINE = unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_RESETENGINE) -> NTSTATUS;

/// Tells of a buffer that never runs. [d3dkmddi: DXGKDDI_CANCELCOMMAND]
pub type PDXGKDDI_CANCELCOMMAND =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_CANCELCOMMAND) -> NTSTATUS;

/// Private call of the power framework. [d3dkmddi: DXGKDDIPOWERRUNTIMECONTROLREQUEST]
pub type PDXGKDDIPOWERRUNTIMECONTROLREQUEST = unsafe extern "win64" fn(
    MiniportDeviceContext: *mut c_void,
    PowerControlCode: *const GUID,
    InBuffer: *mut c_void,
    InBufferSize: usize,
    OutBuffer: *mut c_void,
    OutBufferSize: usize,
    BytesReturned: *mut usize,
) -> NTSTATUS;

/// Describes a node; the upper 16 bits of the ordinal are the physical adapter. [d3dkmddi: DXGKDDI_GETNODEMETADATA]
pub type PDXGKDDI_GETNODEMETADATA = unsafe extern "win64" fn(
    hAdapter: HANDLE,
    NodeOrdinalAndAdapterIndex: u32,
    Metadata: *mut DXGK_NODEMETADATA,
) -> NTSTATUS;

/// Reads GPU and CPU clocks together. [d3dkmddi: DXGKDDI_CALIBRATEGPUCLOCK]
pub type PDXGKDDI_CALIBRATEGPUCLOCK = unsafe extern "win64" fn(
    hAdapter: HANDLE,
    NodeOrdinal: u32,
    EngineOrdinal: u32,
    ClockCalibration: *mut DXGK_GPUCLOCKDATA,
) -> NTSTATUS;

/// Formats raw timestamps. [d3dkmddi: DXGKDDI_FORMATHISTORYBUFFER]
pub type PDXGKDDI_FORMATHISTORYBUFFER =
    unsafe extern "win64" fn(hContext: HANDLE, FormatData: *mut DXGKARG_FORMATHISTORYBUFFER) -> NTSTATUS;

/// Submits a buffer at virtual addresses; errors other than an invalid parameter are bug checks.
/// [d3dkmddi: DXGKDDI_SUBMITCOMMANDVIRTUAL]
pub type PDXGKDDI_SUBMITCOMMANDVIRTUAL =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SUBMITCOMMANDVIRTUAL) -> NTSTATUS;

/// Gives a context its root page table. [d3dkmddi: DXGKDDI_SETROOTPAGETABLE]
pub type PDXGKDDI_SETROOTPAGETABLE = unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SETROOTPAGETABLE);

/// Bytes of a root page table with that many entries. [d3dkmddi: DXGKDDI_GETROOTPAGETABLESIZE]
pub type PDXGKDDI_GETROOTPAGETABLESIZE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_GETROOTPAGETABLESIZE) -> usize;

/// Maps pages into the CPU's window on a segment. [d3dkmddi: DXGKDDI_MAPCPUHOSTAPERTURE]
pub type PDXGKDDI_MAPCPUHOSTAPERTURE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_MAPCPUHOSTAPERTURE) -> NTSTATUS;

/// Undoes [`PDXGKDDI_MAPCPUHOSTAPERTURE`]. [d3dkmddi: DXGKDDI_UNMAPCPUHOSTAPERTURE]
pub type PDXGKDDI_UNMAPCPUHOSTAPERTURE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_UNMAPCPUHOSTAPERTURE) -> NTSTATUS;

/// Makes the driver's state for a process. [d3dkmddi: DXGKDDI_CREATEPROCESS]
pub type PDXGKDDI_CREATEPROCESS =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_CREATEPROCESS) -> NTSTATUS;

/// Undoes [`PDXGKDDI_CREATEPROCESS`]. [d3dkmddi: DXGKDDI_DESTROYPROCESS]
pub type PDXGKDDI_DESTROYPROCESS = unsafe extern "win64" fn(hAdapter: HANDLE, hKmdProcess: HANDLE) -> NTSTATUS;

/// Fixes clocks for measurements. [d3dkmddi: DXGKDDI_SETSTABLEPOWERSTATE]
pub type PDXGKDDI_SETSTABLEPOWERSTATE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SETSTABLEPOWERSTATE) -> NTSTATUS;

/// Makes a hardware context. [d3dkmddi: DXGKDDI_CREATEHWCONTEXT]
pub type PDXGKDDI_CREATEHWCONTEXT =
    unsafe extern "win64" fn(hDevice: HANDLE, Args: *mut DXGKARG_CREATEHWCONTEXT) -> NTSTATUS;

/// Undoes [`PDXGKDDI_CREATEHWCONTEXT`]; its queues are gone already. [d3dkmddi: DXGKDDI_DESTROYHWCONTEXT]
pub type PDXGKDDI_DESTROYHWCONTEXT = unsafe extern "win64" fn(hHwContext: HANDLE) -> NTSTATUS;

/// Makes a hardware queue. [d3dkmddi: DXGKDDI_CREATEHWQUEUE]
pub type PDXGKDDI_CREATEHWQUEUE =
    unsafe extern "win64" fn(hHwContext: HANDLE, Args: *mut DXGKARG_CREATEHWQUEUE) -> NTSTATUS;

/// Undoes [`PDXGKDDI_CREATEHWQUEUE`]. [d3dkmddi: DXGKDDI_DESTROYHWQUEUE]
pub type PDXGKDDI_DESTROYHWQUEUE = unsafe extern "win64" fn(hHwQueue: HANDLE) -> NTSTATUS;

/// Submits a buffer to a hardware queue; an error is a bug check. [d3dkmddi: DXGKDDI_SUBMITCOMMANDTOHWQUEUE]
pub type PDXGKDDI_SUBMITCOMMANDTOHWQUEUE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SUBMITCOMMANDTOHWQUEUE) -> NTSTATUS;

/// Chooses the contexts an engine may run. [d3dkmddi: DXGKDDI_SWITCHTOHWCONTEXTLIST]
pub type PDXGKDDI_SWITCHTOHWCONTEXTLIST =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SWITCHTOHWCONTEXTLIST) -> NTSTATUS;

/// Resets one engine of hardware scheduling. [d3dkmddi: DXGKDDI_RESETHWENGINE]
pub type PDXGKDDI_RESETHWENGINE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_RESETHWENGINE) -> NTSTATUS;

/// Changes the state of a hardware context. [d3dkmddi: DXGKDDI_UPDATEHWCONTEXTSTATE]
pub type PDXGKDDI_UPDATEHWCONTEXTSTATE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_UPDATEHWCONTEXTSTATE) -> NTSTATUS;

/// Gives an engine its scheduling log. [d3dkmddi: DXGKDDI_SETSCHEDULINGLOGBUFFER]
pub type PDXGKDDI_SETSCHEDULINGLOGBUFFER =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SETSCHEDULINGLOGBUFFER) -> NTSTATUS;

/// Sets times of the priority bands. [d3dkmddi: DXGKDDI_SETUPPRIORITYBANDS]
pub type PDXGKDDI_SETUPPRIORITYBANDS =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SETUPPRIORITYBANDS) -> NTSTATUS;

/// Sets band and priorities of a hardware context. [d3dkmddi: DXGKDDI_SETCONTEXTSCHEDULINGPROPERTIES]
pub type PDXGKDDI_SETCONTEXTSCHEDULINGPROPERTIES =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES) -> NTSTATUS;

/// Stops a hardware context. [d3dkmddi: DXGKDDI_SUSPENDCONTEXT]
pub type PDXGKDDI_SUSPENDCONTEXT =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SUSPENDCONTEXT) -> NTSTATUS;

/// Lets a suspended hardware context run again. [d3dkmddi: DXGKDDI_RESUMECONTEXT]
pub type PDXGKDDI_RESUMECONTEXT =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_RESUMECONTEXT) -> NTSTATUS;

/// Tells which virtual machine a process works for. [d3dkmddi: DXGKDDI_SETVIRTUALMACHINEDATA]
pub type PDXGKDDI_SETVIRTUALMACHINEDATA =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_SETVIRTUALMACHINEDATA) -> NTSTATUS;

/// Lets an engine run again after [`PDXGKDDI_RESETHWENGINE`]. [d3dkmddi: DXGKDDI_RESUMEHWENGINE]
pub type PDXGKDDI_RESUMEHWENGINE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_RESUMEHWENGINE) -> NTSTATUS;

/// Appends a fence write to a kernel-built buffer. [d3dkmddi: DXGKDDI_SIGNALMONITOREDFENCE]
pub type PDXGKDDI_SIGNALMONITOREDFENCE =
    unsafe extern "win64" fn(hContext: HANDLE, Args: *mut DXGKARG_SIGNALMONITOREDFENCE) -> NTSTATUS;

/// Copies between allocations for a presentation; the argument is a DXGKARG_PRESENT, which no compute-only driver reads.
/// [d3dkmddi: DXGKDDI_PRESENTTOHWQUEUE]
pub type PDXGKDDI_PRESENTTOHWQUEUE = unsafe extern "win64" fn(hHwQueue: HANDLE, pPresent: *mut c_void) -> NTSTATUS;

/// Makes a native fence. [d3dkmddi: DXGKDDI_CREATENATIVEFENCE]
pub type PDXGKDDI_CREATENATIVEFENCE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_CREATENATIVEFENCE) -> NTSTATUS;

/// Undoes [`PDXGKDDI_CREATENATIVEFENCE`]. [d3dkmddi: DXGKDDI_DESTROYNATIVEFENCE]
pub type PDXGKDDI_DESTROYNATIVEFENCE = unsafe extern "win64" fn(Args: *const DXGKARG_DESTROYNATIVEFENCE) -> NTSTATUS;

/// Writes monitored values so that the GPU sees them before the call returns; up to device interrupt level.
/// [d3dkmddi: DXGKDDI_UPDATEMONITOREDVALUES]
pub type PDXGKDDI_UPDATEMONITOREDVALUES =
    unsafe extern "win64" fn(Args: *const DXGKARG_UPDATEMONITOREDVALUES) -> NTSTATUS;

/// Writes current values and wakes queues that wait for them; up to DISPATCH_LEVEL.
/// [d3dkmddi: DXGKDDI_UPDATECURRENTVALUESFROMCPU]
pub type PDXGKDDI_UPDATECURRENTVALUESFROMCPU =
    unsafe extern "win64" fn(Args: *const DXGKARG_UPDATECURRENTVALUESFROMCPU) -> NTSTATUS;

/// Makes a doorbell, not connected. [d3dkmddi: DXGKDDI_CREATEDOORBELL]
pub type PDXGKDDI_CREATEDOORBELL = unsafe extern "win64" fn(Args: *mut DXGKARG_CREATEDOORBELL) -> NTSTATUS;

/// Gives a doorbell a page. [d3dkmddi: DXGKDDI_CONNECTDOORBELL]
pub type PDXGKDDI_CONNECTDOORBELL = unsafe extern "win64" fn(Args: *mut DXGKARG_CONNECTDOORBELL) -> NTSTATUS;

/// Takes the page away. [d3dkmddi: DXGKDDI_DISCONNECTDOORBELL]
pub type PDXGKDDI_DISCONNECTDOORBELL = unsafe extern "win64" fn(Args: *const DXGKARG_DISCONNECTDOORBELL) -> NTSTATUS;

/// Undoes [`PDXGKDDI_CREATEDOORBELL`]. [d3dkmddi: DXGKDDI_DESTROYDOORBELL]
pub type PDXGKDDI_DESTROYDOORBELL = unsafe extern "win64" fn(Args: *const DXGKARG_DESTROYDOORBELL) -> NTSTATUS;

/// Makes the GPU look at a queue. [d3dkmddi: DXGKDDI_NOTIFYWORKSUBMISSION]
pub type PDXGKDDI_NOTIFYWORKSUBMISSION =
    unsafe extern "win64" fn(Args: *const DXGKARG_NOTIFYWORKSUBMISSION) -> NTSTATUS;

/// Opens a native fence in a process. [d3dkmddi: DXGKDDI_OPENNATIVEFENCE]
pub type PDXGKDDI_OPENNATIVEFENCE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_OPENNATIVEFENCE) -> NTSTATUS;

/// Undoes [`PDXGKDDI_OPENNATIVEFENCE`]. [d3dkmddi: DXGKDDI_CLOSENATIVEFENCE]
pub type PDXGKDDI_CLOSENATIVEFENCE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *const DXGKARG_CLOSENATIVEFENCE) -> NTSTATUS;

/// Gives a queue a log of fence operations. [d3dkmddi: DXGKDDI_SETNATIVEFENCELOGBUFFER]
pub type PDXGKDDI_SETNATIVEFENCELOGBUFFER =
    unsafe extern "win64" fn(Args: *const DXGKARG_SETNATIVEFENCELOGBUFFER) -> NTSTATUS;

/// Makes log entries visible to the CPU. [d3dkmddi: DXGKDDI_UPDATENATIVEFENCELOGS]
pub type PDXGKDDI_UPDATENATIVEFENCELOGS =
    unsafe extern "win64" fn(Args: *const DXGKARG_UPDATENATIVEFENCELOGS) -> NTSTATUS;

//! Adapters by name, features, clocks, and what else is asked of adapters and devices.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use super::{D3DDDI_ALLOCATIONLIST, D3DDDI_CREATECONTEXTFLAGS, D3DKMT_ADAPTERINFO, D3DKMT_CLIENTHINT};
use crate::km::{D3DDDI_PATCHLOCATIONLIST, DXGK_FEATURE_ID, DXGK_GPUCLOCKDATA, DXGK_ISFEATUREENABLED_RESULT};
use crate::types::*;

/// Argument of `D3DKMTEnumAdapters`. [d3dkmthk: D3DKMT_ENUMADAPTERS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ENUMADAPTERS {
    pub NumAdapters: u32,
    pub Adapters: [D3DKMT_ADAPTERINFO; 16],
}

/// Argument of `D3DKMTOpenAdapterFromDeviceName`. [d3dkmthk: D3DKMT_OPENADAPTERFROMDEVICENAME]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENADAPTERFROMDEVICENAME {
    pub pDeviceName: *const u16,
    pub hAdapter: D3DKMT_HANDLE,
    pub AdapterLuid: LUID,
}

/// Argument of `D3DKMTIsFeatureEnabled`. [d3dkmthk: D3DKMT_ISFEATUREENABLED]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ISFEATUREENABLED {
    pub hAdapter: D3DKMT_HANDLE,
    pub FeatureId: DXGK_FEATURE_ID,
    pub Result: DXGK_ISFEATUREENABLED_RESULT,
}

/// Argument of `D3DKMTQueryClockCalibration`. [d3dkmdt: D3DKMT_QUERYCLOCKCALIBRATION]
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYCLOCKCALIBRATION {
    pub hAdapter: D3DKMT_HANDLE,
    pub NodeOrdinal: u32,
    pub PhysicalAdapterIndex: u32,
    pub ClockData: DXGK_GPUCLOCKDATA,
}

/// Argument of `D3DKMTSetStablePowerState`. [d3dkmthk: D3DKMT_SETSTABLEPOWERSTATE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SETSTABLEPOWERSTATE {
    pub hAdapter: D3DKMT_HANDLE,
    pub Enabled: i32,
}

/// Why user mode gives a device up. [d3dkmthk: D3DKMT_DEVICE_ERROR_REASON]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_DEVICE_ERROR_REASON(pub i32);

impl D3DKMT_DEVICE_ERROR_REASON {
    pub const D3DKMT_DEVICE_ERROR_REASON_GENERIC: Self = Self(-2147483648);
    pub const D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR: Self = Self(-2147483642);
}

/// Argument of `D3DKMTMarkDeviceAsError`. [d3dkmthk: D3DKMT_MARKDEVICEASERROR]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_MARKDEVICEASERROR {
    pub hDevice: D3DKMT_HANDLE,
    pub Reason: D3DKMT_DEVICE_ERROR_REASON,
}

/// Whether a limit of queued presents is set or asked for. [d3dkmthk: D3DKMT_QUEUEDLIMIT_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_QUEUEDLIMIT_TYPE(pub i32);

impl D3DKMT_QUEUEDLIMIT_TYPE {
    pub const D3DKMT_SET_QUEUEDLIMIT_PRESENT: Self = Self(1);
    pub const D3DKMT_GET_QUEUEDLIMIT_PRESENT: Self = Self(2);
}

/// Union of [`D3DKMT_SETQUEUEDLIMIT`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_SETQUEUEDLIMIT_Union {
    pub QueuedPresentLimit: u32,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
}

/// Argument of `D3DKMTSetQueuedLimit`. [d3dkmthk: D3DKMT_SETQUEUEDLIMIT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SETQUEUEDLIMIT {
    pub hDevice: D3DKMT_HANDLE,
    pub Type: D3DKMT_QUEUEDLIMIT_TYPE,
    pub u: D3DKMT_SETQUEUEDLIMIT_Union,
    pub QueuedPendingFlipLimit: u32,
}

/// Argument of `D3DKMTWaitForIdle`. [d3dkmthk: D3DKMT_WAITFORIDLE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_WAITFORIDLE {
    pub hDevice: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTCreateContext`. [d3dkmthk: D3DKMT_CREATECONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATECONTEXT {
    pub hDevice: D3DKMT_HANDLE,
    pub NodeOrdinal: u32,
    pub EngineAffinity: u32,
    pub Flags: D3DDDI_CREATECONTEXTFLAGS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub ClientHint: D3DKMT_CLIENTHINT,
    pub hContext: D3DKMT_HANDLE,
    pub pCommandBuffer: *mut c_void,
    pub CommandBufferSize: u32,
    pub pAllocationList: *mut D3DDDI_ALLOCATIONLIST,
    pub AllocationListSize: u32,
    pub pPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
    pub PatchLocationListSize: u32,
    pub CommandBuffer: D3DGPU_VIRTUAL_ADDRESS,
}

/// How a command buffer is submitted with a list of allocations. [d3dkmthk: D3DKMT_RENDERFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_RENDERFLAGS {
    pub ResizeCommandBuffer: bool,
    pub ResizeAllocationList: bool,
    pub ResizePatchLocationList: bool,
    pub NullRendering: bool,
    pub PresentRedirected: bool,
    pub RenderKm: bool,
    pub RenderKmReadback: bool,
    #[bits(25)]
    __Reserved: u32,
}

/// Union of [`D3DKMT_RENDER`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_RENDER_Union {
    pub hDevice: D3DKMT_HANDLE,
    pub hContext: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTRender`. [d3dkmthk: D3DKMT_RENDER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_RENDER {
    pub u: D3DKMT_RENDER_Union,
    pub CommandOffset: u32,
    pub CommandLength: u32,
    pub AllocationCount: u32,
    pub PatchLocationCount: u32,
    pub pNewCommandBuffer: *mut c_void,
    pub NewCommandBufferSize: u32,
    pub pNewAllocationList: *mut D3DDDI_ALLOCATIONLIST,
    pub NewAllocationListSize: u32,
    pub pNewPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
    pub NewPatchLocationListSize: u32,
    pub Flags: D3DKMT_RENDERFLAGS,
    pub PresentHistoryToken: u64,
    pub BroadcastContextCount: u32,
    pub BroadcastContext: [D3DKMT_HANDLE; 64],
    pub QueuedBufferCount: u32,
    pub NewCommandBuffer: D3DGPU_VIRTUAL_ADDRESS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
}

/// Argument of `D3DKMTGetProcessDeviceRemovalSupport`. [d3dkmthk: D3DKMT_GETPROCESSDEVICEREMOVALSUPPORT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_GETPROCESSDEVICEREMOVALSUPPORT {
    pub hProcess: HANDLE,
    pub AdapterLuid: LUID,
    pub Support: u8,
}

/// Access to a process: its limits of memory are changed. [winnt: PROCESS_SET_QUOTA]
pub const PROCESS_SET_QUOTA: u32 = 0x0100;
/// Access to a process: its priority class, among others, is changed. [winnt: PROCESS_SET_INFORMATION]
pub const PROCESS_SET_INFORMATION: u32 = 0x0200;
/// Access to a process: it is asked about. [winnt: PROCESS_QUERY_INFORMATION]
pub const PROCESS_QUERY_INFORMATION: u32 = 0x0400;
/// Access to a process: it is asked about what is no secret of it. [winnt: PROCESS_QUERY_LIMITED_INFORMATION]
pub const PROCESS_QUERY_LIMITED_INFORMATION: u32 = 0x1000;

/// A thread by its number and that of its process. [wdm: CLIENT_ID]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CLIENT_ID {
    pub UniqueProcess: HANDLE,
    pub UniqueThread: HANDLE,
}

zeroed! {
    CLIENT_ID,
    D3DKMT_ENUMADAPTERS,
    D3DKMT_OPENADAPTERFROMDEVICENAME,
    D3DKMT_ISFEATUREENABLED,
    D3DKMT_QUERYCLOCKCALIBRATION,
    D3DKMT_SETSTABLEPOWERSTATE,
    D3DKMT_DEVICE_ERROR_REASON,
    D3DKMT_MARKDEVICEASERROR,
    D3DKMT_QUEUEDLIMIT_TYPE,
    D3DKMT_SETQUEUEDLIMIT_Union,
    D3DKMT_SETQUEUEDLIMIT,
    D3DKMT_WAITFORIDLE,
    D3DKMT_CREATECONTEXT,
    D3DKMT_RENDERFLAGS,
    D3DKMT_RENDER_Union,
    D3DKMT_RENDER,
    D3DKMT_GETPROCESSDEVICEREMOVALSUPPORT,
}

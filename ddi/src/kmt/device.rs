//! Devices, their state, and escapes.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::km::{
    D3DDDI_ESCAPEFLAGS, D3DDDI_PATCHLOCATIONLIST, DXGK_FAULT_ERROR_CODE, DXGK_PAGE_FAULT_FLAGS,
    DXGK_RENDER_PIPELINE_STAGE,
};
use crate::types::{BOOLEAN, D3DDDI_VIDEO_PRESENT_SOURCE_ID, D3DGPU_VIRTUAL_ADDRESS, D3DKMT_HANDLE, LARGE_INTEGER};

/// Kind of a device. [d3dkmthk: D3DKMT_CREATEDEVICEFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_CREATEDEVICEFLAGS {
    pub LegacyMode: bool,
    pub RequestVSync: bool,
    pub DisableGpuTimeout: bool,
    pub TestDevice: bool,
    #[bits(28)]
    __Reserved: u32,
}

/// How a listed allocation is used. Bits of [`D3DDDI_ALLOCATIONLIST`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_ALLOCATIONLIST_Bits {
    pub WriteOperation: bool,
    pub DoNotRetireInstance: bool,
    #[bits(3)]
    pub OfferPriority: u8,
    #[bits(27)]
    __Reserved: u32,
}

/// An allocation that a command buffer of WDDM 1 refers to. [d3dukmdt: D3DDDI_ALLOCATIONLIST]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_ALLOCATIONLIST {
    pub hAllocation: D3DKMT_HANDLE,
    pub Bits: D3DDDI_ALLOCATIONLIST_Bits,
}

/// Union of [`D3DKMT_CREATEDEVICE`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_CREATEDEVICE_Union {
    pub hAdapter: D3DKMT_HANDLE,
    pub pAdapter: *mut c_void,
}

/// Argument of `D3DKMTCreateDevice`; the buffers are for devices without contexts. [d3dkmthk: D3DKMT_CREATEDEVICE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATEDEVICE {
    pub u: D3DKMT_CREATEDEVICE_Union,
    pub Flags: D3DKMT_CREATEDEVICEFLAGS,
    /// Out.
    pub hDevice: D3DKMT_HANDLE,
    pub pCommandBuffer: *mut c_void,
    pub CommandBufferSize: u32,
    pub pAllocationList: *mut D3DDDI_ALLOCATIONLIST,
    pub AllocationListSize: u32,
    pub pPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
    pub PatchLocationListSize: u32,
}

/// Argument of `D3DKMTDestroyDevice`. [d3dkmthk: D3DKMT_DESTROYDEVICE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DESTROYDEVICE {
    pub hDevice: D3DKMT_HANDLE,
}

/// What is asked about a device; chooses the arm of [`D3DKMT_GETDEVICESTATE`]. [d3dkmthk: D3DKMT_DEVICESTATE_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_DEVICESTATE_TYPE(pub i32);

impl D3DKMT_DEVICESTATE_TYPE {
    pub const D3DKMT_DEVICESTATE_EXECUTION: Self = Self(1);
    pub const D3DKMT_DEVICESTATE_PRESENT: Self = Self(2);
    pub const D3DKMT_DEVICESTATE_RESET: Self = Self(3);
    pub const D3DKMT_DEVICESTATE_PRESENT_DWM: Self = Self(4);
    pub const D3DKMT_DEVICESTATE_PAGE_FAULT: Self = Self(5);
    pub const D3DKMT_DEVICESTATE_PRESENT_QUEUE: Self = Self(6);
}

/// Whether a device still works; everything but active is final. [d3dkmthk: D3DKMT_DEVICEEXECUTION_STATE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_DEVICEEXECUTION_STATE(pub i32);

impl D3DKMT_DEVICEEXECUTION_STATE {
    pub const D3DKMT_DEVICEEXECUTION_ACTIVE: Self = Self(1);
    pub const D3DKMT_DEVICEEXECUTION_RESET: Self = Self(2);
    pub const D3DKMT_DEVICEEXECUTION_HUNG: Self = Self(3);
    pub const D3DKMT_DEVICEEXECUTION_STOPPED: Self = Self(4);
    pub const D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY: Self = Self(5);
    pub const D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT: Self = Self(6);
    pub const D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT: Self = Self(7);
}

/// Whether the desktop was switched. [d3dkmthk: D3DKMT_DEVICERESET_STATE]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_DEVICERESET_STATE {
    pub DesktopSwitched: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// The page fault that stopped a device. [d3dkmthk: D3DKMT_DEVICEPAGEFAULT_STATE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DEVICEPAGEFAULT_STATE {
    pub FaultedPrimitiveAPISequenceNumber: u64,
    pub FaultedPipelineStage: DXGK_RENDER_PIPELINE_STAGE,
    pub FaultedBindTableEntry: u32,
    pub PageFaultFlags: DXGK_PAGE_FAULT_FLAGS,
    pub FaultErrorCode: DXGK_FAULT_ERROR_CODE,
    pub FaultedVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// Counters of a display's presents. [d3dkmthk: D3DKMT_PRESENT_STATS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_PRESENT_STATS {
    pub PresentCount: u32,
    pub PresentRefreshCount: u32,
    pub SyncRefreshCount: u32,
    pub SyncQPCTime: LARGE_INTEGER,
    pub SyncGPUTime: LARGE_INTEGER,
}

/// Answer to `D3DKMT_DEVICESTATE_PRESENT`; compute-only adapters never give it. [d3dkmthk: D3DKMT_DEVICEPRESENT_STATE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DEVICEPRESENT_STATE {
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub PresentStats: D3DKMT_PRESENT_STATS,
}

/// Counters of a display's presents as the compositor sees them. [d3dkmthk: D3DKMT_PRESENT_STATS_DWM]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_PRESENT_STATS_DWM {
    pub PresentCount: u32,
    pub PresentRefreshCount: u32,
    pub PresentQPCTime: LARGE_INTEGER,
    pub SyncRefreshCount: u32,
    pub SyncQPCTime: LARGE_INTEGER,
    pub CustomPresentDuration: u32,
}

/// Answer to `D3DKMT_DEVICESTATE_PRESENT_DWM`; compute-only adapters never give it, but it is the largest arm.
/// [d3dkmthk: D3DKMT_DEVICEPRESENT_STATE_DWM]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DEVICEPRESENT_STATE_DWM {
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub PresentStatsDWM: D3DKMT_PRESENT_STATS_DWM,
}

/// Answer to `D3DKMT_DEVICESTATE_PRESENT_QUEUE`; compute-only adapters never give it. [d3dkmthk: D3DKMT_DEVICEPRESENT_QUEUE_STATE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DEVICEPRESENT_QUEUE_STATE {
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub bQueuedPresentLimitReached: BOOLEAN,
}

/// Union of [`D3DKMT_GETDEVICESTATE`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_GETDEVICESTATE_Union {
    pub ExecutionState: D3DKMT_DEVICEEXECUTION_STATE,
    pub ResetState: D3DKMT_DEVICERESET_STATE,
    pub PageFaultState: D3DKMT_DEVICEPAGEFAULT_STATE,
    pub PresentState: D3DKMT_DEVICEPRESENT_STATE,
    pub PresentStateDWM: D3DKMT_DEVICEPRESENT_STATE_DWM,
    pub PresentQueueState: D3DKMT_DEVICEPRESENT_QUEUE_STATE,
}

/// Argument of `D3DKMTGetDeviceState`. [d3dkmthk: D3DKMT_GETDEVICESTATE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_GETDEVICESTATE {
    pub hDevice: D3DKMT_HANDLE,
    pub StateType: D3DKMT_DEVICESTATE_TYPE,
    pub u: D3DKMT_GETDEVICESTATE_Union,
}

/// For whom an escape is; only the driver-private kind reaches the driver. [d3dkmthk: D3DKMT_ESCAPETYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_ESCAPETYPE(pub i32);

impl D3DKMT_ESCAPETYPE {
    pub const D3DKMT_ESCAPE_DRIVERPRIVATE: Self = Self(0);
    pub const D3DKMT_ESCAPE_VIDMM: Self = Self(1);
    pub const D3DKMT_ESCAPE_TDRDBGCTRL: Self = Self(2);
    pub const D3DKMT_ESCAPE_VIDSCH: Self = Self(3);
    pub const D3DKMT_ESCAPE_DEVICE: Self = Self(4);
    pub const D3DKMT_ESCAPE_DMM: Self = Self(5);
    pub const D3DKMT_ESCAPE_DEBUG_SNAPSHOT: Self = Self(6);
    pub const D3DKMT_ESCAPE_DRT_TEST: Self = Self(8);
    pub const D3DKMT_ESCAPE_DIAGNOSTICS: Self = Self(9);
    pub const D3DKMT_ESCAPE_OUTPUTDUPL_SNAPSHOT: Self = Self(10);
    pub const D3DKMT_ESCAPE_OUTPUTDUPL_DIAGNOSTICS: Self = Self(11);
    pub const D3DKMT_ESCAPE_BDD_PNP: Self = Self(12);
    pub const D3DKMT_ESCAPE_BDD_FALLBACK: Self = Self(13);
    pub const D3DKMT_ESCAPE_ACTIVATE_SPECIFIC_DIAG: Self = Self(14);
    pub const D3DKMT_ESCAPE_MODES_PRUNED_OUT: Self = Self(15);
    pub const D3DKMT_ESCAPE_WHQL_INFO: Self = Self(16);
    pub const D3DKMT_ESCAPE_BRIGHTNESS: Self = Self(17);
    pub const D3DKMT_ESCAPE_EDID_CACHE: Self = Self(18);
    pub const D3DKMT_ESCAPE_MIRACAST_DISPLAY_REQUEST: Self = Self(20);
    pub const D3DKMT_ESCAPE_HISTORY_BUFFER_STATUS: Self = Self(21);
    pub const D3DKMT_ESCAPE_MIRACAST_ADAPTER_DIAG_INFO: Self = Self(23);
    pub const D3DKMT_ESCAPE_FORCE_BDDFALLBACK_HEADLESS: Self = Self(24);
    pub const D3DKMT_ESCAPE_REQUEST_MACHINE_CRASH: Self = Self(25);
    pub const D3DKMT_ESCAPE_SOFTGPU_ENABLE_DISABLE_HMD: Self = Self(27);
    pub const D3DKMT_ESCAPE_PROCESS_VERIFIER_OPTION: Self = Self(28);
    pub const D3DKMT_ESCAPE_ADAPTER_VERIFIER_OPTION: Self = Self(29);
    pub const D3DKMT_ESCAPE_IDD_REQUEST: Self = Self(30);
    pub const D3DKMT_ESCAPE_DOD_SET_DIRTYRECT_MODE: Self = Self(31);
    pub const D3DKMT_ESCAPE_LOG_CODEPOINT_PACKET: Self = Self(32);
    pub const D3DKMT_ESCAPE_LOG_USERMODE_DAIG_PACKET: Self = Self(33);
    pub const D3DKMT_ESCAPE_GET_EXTERNAL_DIAGNOSTICS: Self = Self(34);
    pub const D3DKMT_ESCAPE_GET_DISPLAY_CONFIGURATIONS: Self = Self(36);
    pub const D3DKMT_ESCAPE_QUERY_IOMMU_STATUS: Self = Self(37);
    pub const D3DKMT_ESCAPE_CCD_DATABASE: Self = Self(38);
    pub const D3DKMT_ESCAPE_QUERY_DMA_REMAPPING_STATUS: Self = Self(39);
    pub const D3DKMT_ESCAPE_WIN32K_START: Self = Self(1024);
    pub const D3DKMT_ESCAPE_WIN32K_HIP_DEVICE_INFO: Self = Self(1024);
    pub const D3DKMT_ESCAPE_WIN32K_QUERY_CD_ROTATION_BLOCK: Self = Self(1025);
    pub const D3DKMT_ESCAPE_WIN32K_DPI_INFO: Self = Self(1026);
    pub const D3DKMT_ESCAPE_WIN32K_PRESENTER_VIEW_INFO: Self = Self(1027);
    pub const D3DKMT_ESCAPE_WIN32K_SYSTEM_DPI: Self = Self(1028);
    pub const D3DKMT_ESCAPE_WIN32K_BDD_FALLBACK: Self = Self(1029);
    pub const D3DKMT_ESCAPE_WIN32K_DDA_TEST_CTL: Self = Self(1030);
    pub const D3DKMT_ESCAPE_WIN32K_USER_DETECTED_BLACK_SCREEN: Self = Self(1031);
    pub const D3DKMT_ESCAPE_WIN32K_DISPBROKER_TEST: Self = Self(1035);
    pub const D3DKMT_ESCAPE_WIN32K_COLOR_PROFILE_INFO: Self = Self(1036);
    pub const D3DKMT_ESCAPE_WIN32K_SET_DIMMED_STATE: Self = Self(1037);
    pub const D3DKMT_ESCAPE_WIN32K_SPECIALIZED_DISPLAY_TEST: Self = Self(1038);
}

/// What an escape asks of timeout detection and recovery, for tests. [d3dkmthk: D3DKMT_TDRDBGCTRLTYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_TDRDBGCTRLTYPE(pub i32);

impl D3DKMT_TDRDBGCTRLTYPE {
    pub const D3DKMT_TDRDBGCTRLTYPE_FORCETDR: Self = Self(0);
    pub const D3DKMT_TDRDBGCTRLTYPE_DISABLEBREAK: Self = Self(1);
    pub const D3DKMT_TDRDBGCTRLTYPE_ENABLEBREAK: Self = Self(2);
    pub const D3DKMT_TDRDBGCTRLTYPE_UNCONDITIONAL: Self = Self(3);
    pub const D3DKMT_TDRDBGCTRLTYPE_VSYNCTDR: Self = Self(4);
    pub const D3DKMT_TDRDBGCTRLTYPE_GPUTDR: Self = Self(5);
    pub const D3DKMT_TDRDBGCTRLTYPE_FORCEDODTDR: Self = Self(6);
    pub const D3DKMT_TDRDBGCTRLTYPE_FORCEDODVSYNCTDR: Self = Self(7);
    pub const D3DKMT_TDRDBGCTRLTYPE_ENGINETDR: Self = Self(8);
}

/// Data of an escape of the type `D3DKMT_ESCAPE_TDRDBGCTRL`; the type alone is enough where no engine is meant. [d3dkmthk: D3DKMT_TDRDBGCTRL_ESCAPE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_TDRDBGCTRL_ESCAPE {
    pub TdrControl: D3DKMT_TDRDBGCTRLTYPE,
    pub NodeOrdinal: u32,
}

/// Argument of `D3DKMTEscape`. [d3dkmthk: D3DKMT_ESCAPE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ESCAPE {
    pub hAdapter: D3DKMT_HANDLE,
    pub hDevice: D3DKMT_HANDLE,
    pub Type: D3DKMT_ESCAPETYPE,
    pub Flags: D3DDDI_ESCAPEFLAGS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub hContext: D3DKMT_HANDLE,
}

zeroed! {
    D3DKMT_CREATEDEVICEFLAGS,
    D3DDDI_ALLOCATIONLIST_Bits,
    D3DDDI_ALLOCATIONLIST,
    D3DKMT_CREATEDEVICE_Union,
    D3DKMT_CREATEDEVICE,
    D3DKMT_DESTROYDEVICE,
    D3DKMT_DEVICESTATE_TYPE,
    D3DKMT_DEVICEEXECUTION_STATE,
    D3DKMT_DEVICERESET_STATE,
    D3DKMT_DEVICEPAGEFAULT_STATE,
    D3DKMT_PRESENT_STATS,
    D3DKMT_DEVICEPRESENT_STATE,
    D3DKMT_PRESENT_STATS_DWM,
    D3DKMT_DEVICEPRESENT_STATE_DWM,
    D3DKMT_DEVICEPRESENT_QUEUE_STATE,
    D3DKMT_GETDEVICESTATE_Union,
    D3DKMT_GETDEVICESTATE,
    D3DKMT_ESCAPETYPE,
    D3DKMT_TDRDBGCTRLTYPE,
    D3DKMT_TDRDBGCTRL_ESCAPE,
    D3DKMT_ESCAPE,
}

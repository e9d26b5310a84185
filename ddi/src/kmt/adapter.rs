//! Adapters, devices and their state.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::*;
#[allow(unused_imports)] // the modules share one flat namespace, as the headers do
use crate::{km::*, kmt::*};

/// [d3dkmthk: D3DKMT_ADAPTERINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ADAPTERINFO {
    pub hAdapter: D3DKMT_HANDLE,
    pub AdapterLuid: LUID,
    pub NumOfSources: u32,
    pub bPrecisePresentRegionsPreferred: i32,
}

/// [d3dkmthk: D3DKMT_ENUMADAPTERS2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ENUMADAPTERS2 {
    pub NumAdapters: u32,
    pub pAdapters: *mut D3DKMT_ADAPTERINFO,
}

/// [d3dkmthk: D3DKMT_ENUMADAPTERS_FILTER]
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_ENUMADAPTERS_FILTER {
    pub IncludeComputeOnly: bool,
    pub IncludeDisplayOnly: bool,
    pub IncludeVirtualGpuOnly: bool,
    #[bits(61)]
    __Reserved: u64,
}

/// [d3dkmthk: D3DKMT_ENUMADAPTERS3]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ENUMADAPTERS3 {
    pub Filter: D3DKMT_ENUMADAPTERS_FILTER,
    pub NumAdapters: u32,
    pub pAdapters: *mut D3DKMT_ADAPTERINFO,
}

/// [d3dkmthk: D3DKMT_OPENADAPTERFROMLUID]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENADAPTERFROMLUID {
    pub AdapterLuid: LUID,
    pub hAdapter: D3DKMT_HANDLE,
}

/// [d3dkmthk: D3DKMT_CLOSEADAPTER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CLOSEADAPTER {
    pub hAdapter: D3DKMT_HANDLE,
}

/// [d3dkmthk: KMTQUERYADAPTERINFOTYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KMTQUERYADAPTERINFOTYPE(pub i32);

impl KMTQUERYADAPTERINFOTYPE {
    pub const KMTQAITYPE_UMDRIVERPRIVATE: Self = Self(0);
    pub const KMTQAITYPE_UMDRIVERNAME: Self = Self(1);
    pub const KMTQAITYPE_UMOPENGLINFO: Self = Self(2);
    pub const KMTQAITYPE_GETSEGMENTSIZE: Self = Self(3);
    pub const KMTQAITYPE_ADAPTERGUID: Self = Self(4);
    pub const KMTQAITYPE_FLIPQUEUEINFO: Self = Self(5);
    pub const KMTQAITYPE_ADAPTERADDRESS: Self = Self(6);
    pub const KMTQAITYPE_SETWORKINGSETINFO: Self = Self(7);
    pub const KMTQAITYPE_ADAPTERREGISTRYINFO: Self = Self(8);
    pub const KMTQAITYPE_CURRENTDISPLAYMODE: Self = Self(9);
    pub const KMTQAITYPE_MODELIST: Self = Self(10);
    pub const KMTQAITYPE_CHECKDRIVERUPDATESTATUS: Self = Self(11);
    pub const KMTQAITYPE_VIRTUALADDRESSINFO: Self = Self(12);
    pub const KMTQAITYPE_DRIVERVERSION: Self = Self(13);
    pub const KMTQAITYPE_ADAPTERTYPE: Self = Self(15);
    pub const KMTQAITYPE_OUTPUTDUPLCONTEXTSCOUNT: Self = Self(16);
    pub const KMTQAITYPE_WDDM_1_2_CAPS: Self = Self(17);
    pub const KMTQAITYPE_UMD_DRIVER_VERSION: Self = Self(18);
    pub const KMTQAITYPE_DIRECTFLIP_SUPPORT: Self = Self(19);
    pub const KMTQAITYPE_MULTIPLANEOVERLAY_SUPPORT: Self = Self(20);
    pub const KMTQAITYPE_DLIST_DRIVER_NAME: Self = Self(21);
    pub const KMTQAITYPE_WDDM_1_3_CAPS: Self = Self(22);
    pub const KMTQAITYPE_MULTIPLANEOVERLAY_HUD_SUPPORT: Self = Self(23);
    pub const KMTQAITYPE_WDDM_2_0_CAPS: Self = Self(24);
    pub const KMTQAITYPE_NODEMETADATA: Self = Self(25);
    pub const KMTQAITYPE_CPDRIVERNAME: Self = Self(26);
    pub const KMTQAITYPE_XBOX: Self = Self(27);
    pub const KMTQAITYPE_INDEPENDENTFLIP_SUPPORT: Self = Self(28);
    pub const KMTQAITYPE_MIRACASTCOMPANIONDRIVERNAME: Self = Self(29);
    pub const KMTQAITYPE_PHYSICALADAPTERCOUNT: Self = Self(30);
    pub const KMTQAITYPE_PHYSICALADAPTERDEVICEIDS: Self = Self(31);
    pub const KMTQAITYPE_DRIVERCAPS_EXT: Self = Self(32);
    pub const KMTQAITYPE_QUERY_MIRACAST_DRIVER_TYPE: Self = Self(33);
    pub const KMTQAITYPE_QUERY_GPUMMU_CAPS: Self = Self(34);
    pub const KMTQAITYPE_QUERY_MULTIPLANEOVERLAY_DECODE_SUPPORT: Self = Self(35);
    pub const KMTQAITYPE_QUERY_HW_PROTECTION_TEARDOWN_COUNT: Self = Self(36);
    pub const KMTQAITYPE_QUERY_ISBADDRIVERFORHWPROTECTIONDISABLED: Self = Self(37);
    pub const KMTQAITYPE_MULTIPLANEOVERLAY_SECONDARY_SUPPORT: Self = Self(38);
    pub const KMTQAITYPE_INDEPENDENTFLIP_SECONDARY_SUPPORT: Self = Self(39);
    pub const KMTQAITYPE_PANELFITTER_SUPPORT: Self = Self(40);
    pub const KMTQAITYPE_PHYSICALADAPTERPNPKEY: Self = Self(41);
    pub const KMTQAITYPE_GETSEGMENTGROUPSIZE: Self = Self(42);
    pub const KMTQAITYPE_MPO3DDI_SUPPORT: Self = Self(43);
    pub const KMTQAITYPE_HWDRM_SUPPORT: Self = Self(44);
    pub const KMTQAITYPE_MPOKERNELCAPS_SUPPORT: Self = Self(45);
    pub const KMTQAITYPE_MULTIPLANEOVERLAY_STRETCH_SUPPORT: Self = Self(46);
    pub const KMTQAITYPE_GET_DEVICE_VIDPN_OWNERSHIP_INFO: Self = Self(47);
    pub const KMTQAITYPE_QUERYREGISTRY: Self = Self(48);
    pub const KMTQAITYPE_KMD_DRIVER_VERSION: Self = Self(49);
    pub const KMTQAITYPE_BLOCKLIST_KERNEL: Self = Self(50);
    pub const KMTQAITYPE_BLOCKLIST_RUNTIME: Self = Self(51);
    pub const KMTQAITYPE_ADAPTERGUID_RENDER: Self = Self(52);
    pub const KMTQAITYPE_ADAPTERADDRESS_RENDER: Self = Self(53);
    pub const KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER: Self = Self(54);
    pub const KMTQAITYPE_CHECKDRIVERUPDATESTATUS_RENDER: Self = Self(55);
    pub const KMTQAITYPE_DRIVERVERSION_RENDER: Self = Self(56);
    pub const KMTQAITYPE_ADAPTERTYPE_RENDER: Self = Self(57);
    pub const KMTQAITYPE_WDDM_1_2_CAPS_RENDER: Self = Self(58);
    pub const KMTQAITYPE_WDDM_1_3_CAPS_RENDER: Self = Self(59);
    pub const KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID: Self = Self(60);
    pub const KMTQAITYPE_NODEPERFDATA: Self = Self(61);
    pub const KMTQAITYPE_ADAPTERPERFDATA: Self = Self(62);
    pub const KMTQAITYPE_ADAPTERPERFDATA_CAPS: Self = Self(63);
    pub const KMTQUITYPE_GPUVERSION: Self = Self(64);
    pub const KMTQAITYPE_DRIVER_DESCRIPTION: Self = Self(65);
    pub const KMTQAITYPE_DRIVER_DESCRIPTION_RENDER: Self = Self(66);
    pub const KMTQAITYPE_SCANOUT_CAPS: Self = Self(67);
    pub const KMTQAITYPE_DISPLAY_UMDRIVERNAME: Self = Self(71);
    pub const KMTQAITYPE_PARAVIRTUALIZATION_RENDER: Self = Self(68);
    pub const KMTQAITYPE_SERVICENAME: Self = Self(69);
    pub const KMTQAITYPE_WDDM_2_7_CAPS: Self = Self(70);
    pub const KMTQAITYPE_TRACKEDWORKLOAD_SUPPORT: Self = Self(72);
    pub const KMTQAITYPE_HYBRID_DLIST_DLL_SUPPORT: Self = Self(73);
    pub const KMTQAITYPE_DISPLAY_CAPS: Self = Self(74);
    pub const KMTQAITYPE_WDDM_2_9_CAPS: Self = Self(75);
    pub const KMTQAITYPE_CROSSADAPTERRESOURCE_SUPPORT: Self = Self(76);
    pub const KMTQAITYPE_WDDM_3_0_CAPS: Self = Self(77);
    pub const KMTQAITYPE_WSAUMDIMAGENAME: Self = Self(78);
    pub const KMTQAITYPE_VGPUINTERFACEID: Self = Self(79);
    pub const KMTQAITYPE_WDDM_3_1_CAPS: Self = Self(80);
    pub const KMTQAITYPE_HYBRID_DLIST_DLL_MUX_SUPPORT: Self = Self(81);
}

/// [d3dkmthk: D3DKMT_QUERYADAPTERINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYADAPTERINFO {
    pub hAdapter: D3DKMT_HANDLE,
    pub Type: KMTQUERYADAPTERINFOTYPE,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
}

/// [d3dkmdt: D3DKMT_WDDM_3_1_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_WDDM_3_1_CAPS {
    pub NativeGpuFenceSupported: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmdt: D3DKMT_WDDM_2_7_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_WDDM_2_7_CAPS {
    pub HwSchSupported: bool,
    pub HwSchEnabled: bool,
    pub HwSchEnabledByDefault: bool,
    pub IndependentVidPnVSyncControl: bool,
    #[bits(28)]
    __Reserved: u32,
}

/// [d3dkmdt: D3DKMT_NODEMETADATA]
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct D3DKMT_NODEMETADATA {
    pub NodeOrdinalAndAdapterIndex: u32,
    pub NodeData: DXGK_NODEMETADATA,
}

/// [d3dkmthk: D3DKMT_ADAPTERTYPE]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_ADAPTERTYPE {
    pub RenderSupported: bool,
    pub DisplaySupported: bool,
    pub SoftwareDevice: bool,
    pub PostDevice: bool,
    pub HybridDiscrete: bool,
    pub HybridIntegrated: bool,
    pub IndirectDisplayDevice: bool,
    pub Paravirtualized: bool,
    pub ACGSupported: bool,
    pub SupportSetTimingsFromVidPn: bool,
    pub Detachable: bool,
    pub ComputeOnly: bool,
    pub Prototype: bool,
    pub RuntimePowerManagement: bool,
    #[bits(18)]
    __Reserved: u32,
}

/// [d3dkmthk: D3DKMT_CREATEDEVICEFLAGS]
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

/// Bits of [`D3DDDI_ALLOCATIONLIST`].
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

/// [d3dukmdt: D3DDDI_ALLOCATIONLIST]
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

/// [d3dkmthk: D3DKMT_CREATEDEVICE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATEDEVICE {
    pub u: D3DKMT_CREATEDEVICE_Union,
    pub Flags: D3DKMT_CREATEDEVICEFLAGS,
    pub hDevice: D3DKMT_HANDLE,
    pub pCommandBuffer: *mut c_void,
    pub CommandBufferSize: u32,
    pub pAllocationList: *mut D3DDDI_ALLOCATIONLIST,
    pub AllocationListSize: u32,
    pub pPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
    pub PatchLocationListSize: u32,
}

/// [d3dkmthk: D3DKMT_DESTROYDEVICE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DESTROYDEVICE {
    pub hDevice: D3DKMT_HANDLE,
}

/// [d3dkmthk: D3DKMT_DEVICESTATE_TYPE]
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

/// [d3dkmthk: D3DKMT_DEVICEEXECUTION_STATE]
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

/// [d3dkmthk: D3DKMT_DEVICERESET_STATE]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_DEVICERESET_STATE {
    pub DesktopSwitched: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmthk: D3DKMT_DEVICEPAGEFAULT_STATE]
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

/// [d3dkmthk: D3DKMT_GETDEVICESTATE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_GETDEVICESTATE {
    pub hDevice: D3DKMT_HANDLE,
    pub StateType: D3DKMT_DEVICESTATE_TYPE,
    pub u: D3DKMT_GETDEVICESTATE_Union,
}

/// [d3dkmthk: D3DKMT_ESCAPETYPE]
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

/// [d3dkmthk: D3DKMT_ESCAPE]
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
    D3DKMT_ADAPTERINFO,
    D3DKMT_ENUMADAPTERS2,
    D3DKMT_ENUMADAPTERS_FILTER,
    D3DKMT_ENUMADAPTERS3,
    D3DKMT_OPENADAPTERFROMLUID,
    D3DKMT_CLOSEADAPTER,
    KMTQUERYADAPTERINFOTYPE,
    D3DKMT_QUERYADAPTERINFO,
    D3DKMT_WDDM_3_1_CAPS,
    D3DKMT_WDDM_2_7_CAPS,
    D3DKMT_NODEMETADATA,
    D3DKMT_ADAPTERTYPE,
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
    D3DKMT_ESCAPE,
}

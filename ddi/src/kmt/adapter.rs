//! Adapters: enumerating, opening and asking.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::km::DXGK_NODEMETADATA;
use crate::types::{D3DKMT_HANDLE, LUID};

/// One adapter in an enumeration. [d3dkmthk: D3DKMT_ADAPTERINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ADAPTERINFO {
    pub hAdapter: D3DKMT_HANDLE,
    pub AdapterLuid: LUID,
    /// Displays, 0 for compute-only.
    pub NumOfSources: u32,
    pub bPrecisePresentRegionsPreferred: i32,
}

/// Argument of `D3DKMTEnumAdapters2`: compute-only adapters are left out. [d3dkmthk: D3DKMT_ENUMADAPTERS2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ENUMADAPTERS2 {
    pub NumAdapters: u32,
    pub pAdapters: *mut D3DKMT_ADAPTERINFO,
}

/// Kinds of adapter to list besides the usual ones. [d3dkmthk: D3DKMT_ENUMADAPTERS_FILTER]
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_ENUMADAPTERS_FILTER {
    /// Adapters that neither render nor display.
    pub IncludeComputeOnly: bool,
    pub IncludeDisplayOnly: bool,
    pub IncludeVirtualGpuOnly: bool,
    #[bits(61)]
    __Reserved: u64,
}

/// Argument of `D3DKMTEnumAdapters3`. [d3dkmthk: D3DKMT_ENUMADAPTERS3]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ENUMADAPTERS3 {
    pub Filter: D3DKMT_ENUMADAPTERS_FILTER,
    /// In: elements of the array; out: adapters listed, or present when the array is NULL.
    pub NumAdapters: u32,
    pub pAdapters: *mut D3DKMT_ADAPTERINFO,
}

/// Argument of `D3DKMTOpenAdapterFromLuid`. [d3dkmthk: D3DKMT_OPENADAPTERFROMLUID]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENADAPTERFROMLUID {
    pub AdapterLuid: LUID,
    /// Out.
    pub hAdapter: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTCloseAdapter`. [d3dkmthk: D3DKMT_CLOSEADAPTER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CLOSEADAPTER {
    pub hAdapter: D3DKMT_HANDLE,
}

/// What user mode asks about an adapter; each number has its own structure. [d3dkmthk: KMTQUERYADAPTERINFOTYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KMTQUERYADAPTERINFOTYPE(pub i32);

impl KMTQUERYADAPTERINFOTYPE {
    /// Passed on to the driver unread.
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

/// Argument of `D3DKMTQueryAdapterInfo`. [d3dkmthk: D3DKMT_QUERYADAPTERINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYADAPTERINFO {
    pub hAdapter: D3DKMT_HANDLE,
    pub Type: KMTQUERYADAPTERINFOTYPE,
    /// Buffer for question and answer.
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
}

/// Answer to `KMTQAITYPE_WDDM_3_1_CAPS`. [d3dkmdt: D3DKMT_WDDM_3_1_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_WDDM_3_1_CAPS {
    /// Native fences are enabled for the adapter.
    pub NativeGpuFenceSupported: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Answer to `KMTQAITYPE_WDDM_2_7_CAPS`: hardware scheduling. [d3dkmdt: D3DKMT_WDDM_2_7_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_WDDM_2_7_CAPS {
    pub HwSchSupported: bool,
    /// Hardware queues can be created.
    pub HwSchEnabled: bool,
    pub HwSchEnabledByDefault: bool,
    pub IndependentVidPnVSyncControl: bool,
    #[bits(28)]
    __Reserved: u32,
}

/// Question and answer of `KMTQAITYPE_NODEMETADATA`. [d3dkmdt: D3DKMT_NODEMETADATA]
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct D3DKMT_NODEMETADATA {
    /// In: the node, physical adapter in the upper 16 bits.
    pub NodeOrdinalAndAdapterIndex: u32,
    pub NodeData: DXGK_NODEMETADATA,
}

/// Answer to `KMTQAITYPE_ADAPTERTYPE`: what an adapter is. [d3dkmthk: D3DKMT_ADAPTERTYPE]
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
    /// Only one process at a time may use the adapter.
    pub Prototype: bool,
    pub RuntimePowerManagement: bool,
    #[bits(18)]
    __Reserved: u32,
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
}

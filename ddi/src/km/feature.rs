//! Feature negotiation of WDDM 3.2 in both directions.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::{DXGK_FEATURE_VERSION, GUID, HANDLE, NTSTATUS, PINTERFACE_REFERENCE};

/// What the operating system offers for feature negotiation, by `DxgkCbQueryServices` with `DxgkServicesFeature`.
/// [dispmprt: DXGK_FEATURE_INTERFACE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_FEATURE_INTERFACE {
    pub Size: u16,
    pub Version: u16,
    pub Context: *mut c_void,
    pub InterfaceReference: PINTERFACE_REFERENCE,
    pub InterfaceDereference: PINTERFACE_REFERENCE,
    /// Asks if a feature is enabled for this adapter.
    pub IsFeatureEnabled: Option<PDXGKCB_ISFEATUREENABLED2>,
    /// The callbacks of a feature.
    pub QueryFeatureInterface: Option<PDXGKCB_QUERYFEATUREINTERFACE>,
}

/// What the driver offers for feature negotiation, by `DxgkDdiQueryInterface` with [`GUID_WDDM_INTERFACE_FEATURE`].
/// [dispmprt: DXGKDDI_FEATURE_INTERFACE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKDDI_FEATURE_INTERFACE {
    pub Size: u16,
    pub Version: u16,
    pub Context: *mut c_void,
    pub InterfaceReference: PINTERFACE_REFERENCE,
    pub InterfaceDereference: PINTERFACE_REFERENCE,
    pub QueryFeatureSupport: Option<PDXGKDDI_QUERYFEATURESUPPORT>,
    pub QueryFeatureInterface: Option<PDXGKDDI_QUERYFEATUREINTERFACE>,
}

/// Negotiable feature: the category in the top four bits (0 driver, 1 operating system), a number below.
/// [d3dukmdt: DXGK_FEATURE_ID]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_FEATURE_ID(pub i32);

impl DXGK_FEATURE_ID {
    pub const DXGK_FEATURE_HWSCH: Self = Self(0);
    pub const DXGK_FEATURE_HWFLIPQUEUE: Self = Self(1);
    pub const DXGK_FEATURE_LDA_GPUPV: Self = Self(2);
    pub const DXGK_FEATURE_KMD_SIGNAL_CPU_EVENT: Self = Self(3);
    pub const DXGK_FEATURE_USER_MODE_SUBMISSION: Self = Self(4);
    pub const DXGK_FEATURE_SHARE_BACKING_STORE_WITH_KMD: Self = Self(5);
    pub const DXGK_FEATURE_SAMPLE: Self = Self(31);
    pub const DXGK_FEATURE_PAGE_BASED_MEMORY_MANAGER: Self = Self(32);
    pub const DXGK_FEATURE_KERNEL_MODE_TESTING: Self = Self(33);
    pub const DXGK_FEATURE_64K_PT_DEMOTION_FIX: Self = Self(34);
    pub const DXGK_FEATURE_GPUPV_PRESENT_HWQUEUE: Self = Self(35);
    pub const DXGK_FEATURE_GPUVAIOMMU: Self = Self(36);
    pub const DXGK_FEATURE_NATIVE_FENCE: Self = Self(37);
    pub const DXGK_FEATURE_SYNC_PRESENT_RENDER_HWQ_ONLY: Self = Self(41);
    pub const DXGK_FEATURE_PANEL_BUFFER_CONTROL: Self = Self(46);
    pub const DXGK_FEATURE_QUERYSTATISTICS_EXTENSIONS: Self = Self(268435456);
    pub const DXGK_FEATURE_RESERVE_GPUVA_ZERO_BASE_ADDRESS: Self = Self(268435457);
    pub const DXGK_FEATURE_PER_PTE_PAGE_SIZE: Self = Self(268435458);
    pub const DXGK_FEATURE_FENCE_SIGNAL_FROM_SWS_NODE: Self = Self(268435459);
    pub const DXGK_FEATURE_SUPPRESSVSYNC_INTERRUPTS: Self = Self(268435460);
    pub const DXGK_FEATURE_FEATURE_INTERFACE_EXTENSIONS: Self = Self(268435461);
    pub const DXGK_FEATURE_READONLY_EXISTINGSYSMEM: Self = Self(268435462);
}

/// Argument of the older `DxgkCbIsFeatureEnabled`. [d3dkmddi: DXGKARGCB_ISFEATUREENABLED]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_ISFEATUREENABLED {
    pub DeviceHandle: HANDLE,
    pub FeatureId: DXGK_FEATURE_ID,
    /// Out: the feature is on.
    pub Enabled: u8,
}

/// No flags are defined: reserved, zero. [d3dkmddi: DXGKARGCB_ISFEATUREENABLED2_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARGCB_ISFEATUREENABLED2_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// State of a feature. Bits of [`DXGK_ISFEATUREENABLED_RESULT`].
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct DXGK_ISFEATUREENABLED_RESULT_Bits {
    /// The feature is on.
    pub Enabled: bool,
    /// The operating system knows the number.
    pub KnownFeature: bool,
    pub SupportedByDriver: bool,
    pub SupportedOnCurrentConfig: bool,
    #[bits(12)]
    __Reserved: u16,
}

/// State of a feature and the version agreed on. [d3dukmdt: DXGK_ISFEATUREENABLED_RESULT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_ISFEATUREENABLED_RESULT {
    pub Version: u16,
    pub Bits: DXGK_ISFEATUREENABLED_RESULT_Bits,
}

/// Argument of the interface's `IsFeatureEnabled`. [d3dkmddi: DXGKARGCB_ISFEATUREENABLED2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_ISFEATUREENABLED2 {
    pub FeatureId: DXGK_FEATURE_ID,
    pub Flags: DXGKARGCB_ISFEATUREENABLED2_FLAGS,
    /// Out.
    pub Result: DXGK_ISFEATUREENABLED_RESULT,
}

/// Argument of the interface's `QueryFeatureInterface`: callbacks of an enabled feature.
/// [d3dkmddi: DXGKARGCB_QUERYFEATUREINTERFACE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_QUERYFEATUREINTERFACE {
    pub FeatureId: DXGK_FEATURE_ID,
    pub Version: DXGK_FEATURE_VERSION,
    /// In: bytes at `Interface`; out: bytes written.
    pub InterfaceSize: u16,
    pub Interface: *mut c_void,
}

/// Argument of the older `DxgkCbQueryFeatureSupport`: the driver names its support and learns the decision.
/// [d3dkmddi: DXGKARGCB_QUERYFEATURESUPPORT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_QUERYFEATURESUPPORT {
    pub DeviceHandle: HANDLE,
    pub FeatureId: DXGK_FEATURE_ID,
    /// Always off, experimental, stable or always on.
    pub DriverSupportState: u32,
    pub Enabled: u8,
}

/// Argument of the driver's `QueryFeatureInterface`: entry points of a feature.
/// [d3dkmddi: DXGKARG_QUERYFEATUREINTERFACE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_QUERYFEATUREINTERFACE {
    pub FeatureId: DXGK_FEATURE_ID,
    pub Version: DXGK_FEATURE_VERSION,
    /// In: bytes at `Interface`; out: bytes written.
    pub InterfaceSize: u16,
    pub Interface: *mut c_void,
}

/// Argument of the driver's `QueryFeatureSupport`; STATUS_INVALID_PARAMETER for a feature it does not know.
/// [d3dkmddi: DXGKARG_QUERYFEATURESUPPORT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_QUERYFEATURESUPPORT {
    pub FeatureId: DXGK_FEATURE_ID,
    /// Out: lowest version.
    pub MinSupportedVersion: DXGK_FEATURE_VERSION,
    /// Out: highest version.
    pub MaxSupportedVersion: DXGK_FEATURE_VERSION,
    /// In: features still in test may be offered.
    pub AllowExperimental: u8,
    /// Out: the driver implements the feature.
    pub SupportedByDriver: u8,
    /// Out: it does so with this hardware and set-up.
    pub SupportedOnCurrentConfig: u8,
}

/// Kinds of native fence the operating system can place, besides the default.
/// [d3dkmddi: DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1 {
    /// Monitored values of default fences may lie in local memory.
    pub SupportOptimizedDefaultFenceType: bool,
    /// Fences between engines of one GPU exist.
    pub SupportIntraGpuFenceType: bool,
    #[bits(30)]
    __0: u32,
}

/// Callbacks of the native-fence feature, version 1. [d3dkmddi: DXGKCBINT_FEATURE_NATIVEFENCE_1]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKCBINT_FEATURE_NATIVEFENCE_1 {
    pub GetOSCaps: Option<PDXGKCB_FEATURE_NATIVEFENCE_GETOSCAPS_1>,
}

/// Says whether the operating system enabled a feature for this adapter. [d3dkmddi: DXGKCB_ISFEATUREENABLED2]
pub type PDXGKCB_ISFEATUREENABLED2 =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARGCB_ISFEATUREENABLED2) -> NTSTATUS;

/// Fetches the callback table of an enabled feature. [d3dkmddi: DXGKCB_QUERYFEATUREINTERFACE]
pub type PDXGKCB_QUERYFEATUREINTERFACE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARGCB_QUERYFEATUREINTERFACE) -> NTSTATUS;

/// Asks the driver which versions of a feature it supports. [d3dkmddi: DXGKDDI_QUERYFEATURESUPPORT]
pub type PDXGKDDI_QUERYFEATURESUPPORT =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_QUERYFEATURESUPPORT) -> NTSTATUS;

/// Fetches the driver's table of a feature. [d3dkmddi: DXGKDDI_QUERYFEATUREINTERFACE]
pub type PDXGKDDI_QUERYFEATUREINTERFACE =
    unsafe extern "win64" fn(hAdapter: HANDLE, Args: *mut DXGKARG_QUERYFEATUREINTERFACE) -> NTSTATUS;

/// Capabilities of the operating system in native fences, version 1. [d3dkmddi: DXGKCBINT_FEATURE_NATIVEFENCE_1]
pub type PDXGKCB_FEATURE_NATIVEFENCE_GETOSCAPS_1 =
    unsafe extern "win64" fn(Caps: *mut DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1) -> NTSTATUS;

/// Interface by which a driver describes its features. [d3dkmddi: GUID_WDDM_INTERFACE_FEATURE]
pub const GUID_WDDM_INTERFACE_FEATURE: GUID =
    GUID { Data1: 0x94bb_3993, Data2: 0xc6c3, Data3: 0x4da7, Data4: [0x89, 0x49, 0xa1, 0x13, 0x82, 0x32, 0xe7, 0x59] };

zeroed! {
    DXGK_FEATURE_INTERFACE,
    DXGKDDI_FEATURE_INTERFACE,
    DXGK_FEATURE_ID,
    DXGKARGCB_ISFEATUREENABLED,
    DXGKARGCB_ISFEATUREENABLED2_FLAGS,
    DXGK_ISFEATUREENABLED_RESULT_Bits,
    DXGK_ISFEATUREENABLED_RESULT,
    DXGKARGCB_ISFEATUREENABLED2,
    DXGKARGCB_QUERYFEATUREINTERFACE,
    DXGKARGCB_QUERYFEATURESUPPORT,
    DXGKARG_QUERYFEATUREINTERFACE,
    DXGKARG_QUERYFEATURESUPPORT,
    DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1,
    DXGKCBINT_FEATURE_NATIVEFENCE_1,
}

//! Feature negotiation: what this driver can do, and what the operating system switched on.

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::types::*;

use crate::dxgk::Dxgk;
use crate::irql::Passive;

/// `DXGK_FEATURE_SUPPORT_STABLE`: the state with which an older system is asked for hardware scheduling.
/// [d3dkmddi: DXGK_FEATURE_SUPPORT_STABLE]
const SUPPORT_STABLE: u32 = 2;

/// Version of every feature here.
pub(crate) const VERSION: DXGK_FEATURE_VERSION = 1;

/// What features can be negotiated, as far as driver and hardware go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offers {
    /// True unless the software key withholds it.
    pub(crate) hardware_scheduling: bool,
    /// True if the hardware has the packets and atomics that native fences need.
    pub(crate) native_fences: bool,
    /// True if the hardware has doorbells.
    pub(crate) doorbells: bool,
}

impl Offers {
    /// Every feature that the driver implements, for queries before the hardware is known.
    pub(crate) const fn before_start(hardware_scheduling: bool) -> Self {
        Self { hardware_scheduling, native_fences: true, doorbells: true }
    }

    /// DXGK_FEATURE_USER_MODE_SUBMISSION, which takes hardware scheduling and native fences.
    pub(crate) const fn user_mode_submission(self) -> bool {
        self.hardware_scheduling && self.native_fences && self.doorbells
    }

    pub(crate) const fn into_bits(self) -> u32 {
        self.hardware_scheduling as u32 | (self.native_fences as u32) << 1 | (self.doorbells as u32) << 2
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self { hardware_scheduling: bits & 1 != 0, native_fences: bits & 2 != 0, doorbells: bits & 4 != 0 }
    }
}

/// Features that the operating system enabled for an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Enabled {
    /// DXGK_FEATURE_HWSCH
    pub(crate) hardware_scheduling: bool,
    /// DXGK_FEATURE_NATIVE_FENCE
    pub(crate) native_fence: bool,
    /// DXGK_FEATURE_USER_MODE_SUBMISSION
    pub(crate) user_mode_submission: bool,
    /// DXGK_FEATURE_KERNEL_MODE_TESTING
    pub(crate) kernel_mode_testing: bool,
    /// SupportOptimizedDefaultFenceType of native fences
    pub(crate) optimized_default_fences: bool,
    /// SupportIntraGpuFenceType of native fences
    pub(crate) intra_gpu_fences: bool,
}

/// Asks the operating system about what is offered. Without the interface, or where it fails, a feature is off.
pub(crate) fn enabled(irql: &Passive, dxgk: &Dxgk, offers: Offers) -> Enabled {
    let mut interface = DXGK_FEATURE_INTERFACE::zeroed();
    interface.Size = size_of::<DXGK_FEATURE_INTERFACE>() as u16;
    interface.Version = DXGK_FEATURE_INTERFACE_VERSION_1;
    // SAFETY: the structure is the one that DxgkServicesFeature names, with its head filled.
    let found = unsafe {
        dxgk.query_services(irql, DXGK_SERVICES::DxgkServicesFeature, (&raw mut interface).cast::<INTERFACE>())
    };
    if found.is_err() {
        let hardware_scheduling = offers.hardware_scheduling
            && dxgk.query_feature_support(irql, DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH, SUPPORT_STABLE);
        return Enabled { hardware_scheduling, ..Enabled::default() };
    }
    let is_enabled = |feature| is_enabled(&interface, dxgk.device_handle(), feature);
    let native_fence = offers.native_fences && is_enabled(DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE);
    let fences = if native_fence { os_caps(&interface, dxgk.device_handle()) } else { None }.unwrap_or_default();
    let enabled = Enabled {
        hardware_scheduling: offers.hardware_scheduling && is_enabled(DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH),
        native_fence,
        user_mode_submission: offers.user_mode_submission()
            && is_enabled(DXGK_FEATURE_ID::DXGK_FEATURE_USER_MODE_SUBMISSION),
        kernel_mode_testing: is_enabled(DXGK_FEATURE_ID::DXGK_FEATURE_KERNEL_MODE_TESTING),
        optimized_default_fences: fences.SupportOptimizedDefaultFenceType(),
        intra_gpu_fences: fences.SupportIntraGpuFenceType(),
    };
    if let Some(dereference) = interface.InterfaceDereference {
        // SAFETY: gives back the reference that the query took; the interface is not used afterwards.
        unsafe { dereference(interface.Context) };
    }
    enabled
}

fn is_enabled(interface: &DXGK_FEATURE_INTERFACE, device: HANDLE, feature: DXGK_FEATURE_ID) -> bool {
    let Some(callback) = interface.IsFeatureEnabled else { return false };
    let mut args = DXGKARGCB_ISFEATUREENABLED2::zeroed();
    args.FeatureId = feature;
    // SAFETY: the device handle is the adapter's, the structure a local.
    let status = unsafe { callback(device, &raw mut args) };
    status.is_success() && args.Result.Bits.Enabled() && args.Result.Version >= VERSION
}

/// What the operating system can do with native fences; `None` when it does not say. [d3dkmddi: DXGKCBINT_FEATURE_NATIVEFENCE_1]
fn os_caps(interface: &DXGK_FEATURE_INTERFACE, device: HANDLE) -> Option<DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1> {
    let callback = interface.QueryFeatureInterface?;
    let mut table = DXGKCBINT_FEATURE_NATIVEFENCE_1::zeroed();
    let mut args = DXGKARGCB_QUERYFEATUREINTERFACE::zeroed();
    args.FeatureId = DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE;
    args.Version = VERSION;
    args.Interface = (&raw mut table).cast();
    args.InterfaceSize = size_of::<DXGKCBINT_FEATURE_NATIVEFENCE_1>() as u16;
    // SAFETY: the device handle is the adapter's, the structure a local that has a place of the size it says.
    if !unsafe { callback(device, &raw mut args) }.is_success() {
        return None;
    }
    let get_os_caps = table.GetOSCaps?;
    let mut caps = DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1::new();
    // SAFETY: the interface gave this function for a place like this one.
    unsafe { get_os_caps(&raw mut caps) }.is_success().then_some(caps)
}

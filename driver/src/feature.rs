//! Feature negotiation: what this driver can do, and what the operating system switched on.

use core::ffi::c_void;

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::{STATUS_INVALID_PARAMETER, STATUS_UNSUCCESSFUL};
use wddm_ddi::types::*;

use crate::adapter::Adapter;
use crate::dxgk::Dxgk;
use crate::entry::{arguments, on_adapter};
use crate::irql::Passive;
use crate::refusal::{Ddi, Reason, Refused, refused, refused_with};

/// `DXGK_FEATURE_SUPPORT_STABLE`: the state with which an older system is asked for hardware scheduling.
/// [d3dkmddi: DXGK_FEATURE_SUPPORT_STABLE]
const SUPPORT_STABLE: u32 = 2;

/// Version of every feature here.
const VERSION: DXGK_FEATURE_VERSION = 1;

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

/// Asks the operating system. Without the interface, or where it fails, a feature is off.
pub(crate) fn enabled(irql: &Passive, dxgk: &Dxgk) -> Enabled {
    let mut interface = DXGK_FEATURE_INTERFACE::zeroed();
    interface.Size = size_of::<DXGK_FEATURE_INTERFACE>() as u16;
    interface.Version = DXGK_FEATURE_INTERFACE_VERSION_1;
    // SAFETY: the structure is the one that DxgkServicesFeature names, with its head filled.
    let found = unsafe {
        dxgk.query_services(irql, DXGK_SERVICES::DxgkServicesFeature, (&raw mut interface).cast::<INTERFACE>())
    };
    if found.is_err() {
        let hardware_scheduling = dxgk.query_feature_support(irql, DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH, SUPPORT_STABLE);
        return Enabled { hardware_scheduling, ..Enabled::default() };
    }
    let is_enabled = |feature| is_enabled(&interface, dxgk.device_handle(), feature);
    let native_fence = is_enabled(DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE);
    let fences = if native_fence { os_caps(&interface, dxgk.device_handle()) } else { None }.unwrap_or_default();
    let enabled = Enabled {
        hardware_scheduling: is_enabled(DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH),
        native_fence,
        user_mode_submission: is_enabled(DXGK_FEATURE_ID::DXGK_FEATURE_USER_MODE_SUBMISSION),
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

/// Whether this driver, and where it is known the hardware, can do `feature`: (by the driver, on this configuration). `None` for
/// an identifier that this driver was not written for.
fn support(adapter: &Adapter, feature: DXGK_FEATURE_ID) -> Option<(bool, bool)> {
    use DXGK_FEATURE_ID as F;
    match feature {
        F::DXGK_FEATURE_HWSCH | F::DXGK_FEATURE_KERNEL_MODE_TESTING => Some((true, true)),
        F::DXGK_FEATURE_NATIVE_FENCE => Some((true, adapter.offers().is_none_or(|offers| offers.native_fences))),
        F::DXGK_FEATURE_USER_MODE_SUBMISSION => {
            Some((true, adapter.offers().is_none_or(|offers| offers.native_fences && offers.doorbells)))
        }
        F::DXGK_FEATURE_HWFLIPQUEUE
        | F::DXGK_FEATURE_LDA_GPUPV
        | F::DXGK_FEATURE_KMD_SIGNAL_CPU_EVENT
        | F::DXGK_FEATURE_SHARE_BACKING_STORE_WITH_KMD
        | F::DXGK_FEATURE_SAMPLE
        | F::DXGK_FEATURE_PAGE_BASED_MEMORY_MANAGER
        | F::DXGK_FEATURE_64K_PT_DEMOTION_FIX
        | F::DXGK_FEATURE_GPUPV_PRESENT_HWQUEUE
        | F::DXGK_FEATURE_GPUVAIOMMU => Some((false, false)),
        _ => None,
    }
}

unsafe extern "win64" fn query_feature_support(adapter: HANDLE, args: *mut DXGKARG_QUERYFEATURESUPPORT) -> NTSTATUS {
    on_adapter(Ddi::QueryFeatureSupport, adapter, |_, adapter| {
        let args = arguments(args)?;
        let unknown = refused_with(Reason::NotOffered, STATUS_INVALID_PARAMETER);
        let (driver, configuration) = support(adapter, args.FeatureId).ok_or(unknown)?;
        let version = if driver { VERSION } else { 0 };
        args.MinSupportedVersion = version;
        args.MaxSupportedVersion = version;
        args.SupportedByDriver = u8::from(driver);
        args.SupportedOnCurrentConfig = u8::from(driver && configuration);
        Ok(())
    })
}

/// Kernel-mode testing is the one feature with a table of the driver's. Errors: STATUS_UNSUCCESSFUL for another feature or version;
/// STATUS_BUFFER_TOO_SMALL. [d3dkmddi: DXGKDDI_QUERYFEATUREINTERFACE]
unsafe extern "win64" fn query_feature_interface(
    adapter: HANDLE,
    args: *mut DXGKARG_QUERYFEATUREINTERFACE,
) -> NTSTATUS {
    on_adapter(Ddi::QueryFeatureInterface, adapter, |_, _| {
        let args = arguments(args)?;
        if args.FeatureId != DXGK_FEATURE_ID::DXGK_FEATURE_KERNEL_MODE_TESTING || args.Version != VERSION {
            return Err(refused_with(Reason::NotOffered, STATUS_UNSUCCESSFUL));
        }
        let size = size_of::<DXGKDDI_KERNELMODETESTINGINTERFACE>() as u16;
        if args.InterfaceSize < size {
            return Err(refused(Reason::BufferTooSmall));
        }
        let out = args.Interface.cast::<DXGKDDI_KERNELMODETESTINGINTERFACE>();
        let out = core::ptr::NonNull::new(out).ok_or(refused(Reason::NullPointer))?;
        // SAFETY: the caller's buffer is as large as the size it gave, which holds the table.
        unsafe { out.write_unaligned(crate::entry::testing::INTERFACE) };
        args.InterfaceSize = size;
        Ok(())
    })
}

/// The interface lives as long as the driver and needs no counting.
unsafe extern "win64" fn reference(_context: *mut c_void) {}

/// Answers DxgkDdiQueryInterface.
///
/// # Errors
/// STATUS_NOT_SUPPORTED for any interface but GUID_WDDM_INTERFACE_FEATURE version 1; STATUS_BUFFER_TOO_SMALL.
pub(crate) fn query_interface(adapter: &Adapter, query: &mut QUERY_INTERFACE) -> Result<(), Refused> {
    // SAFETY: NULL or a GUID of the caller.
    let guid = unsafe { query.InterfaceType.as_ref() }.ok_or(refused(Reason::NullPointer))?;
    if *guid != GUID_WDDM_INTERFACE_FEATURE || query.Version != DXGKDDI_FEATURE_INTERFACE_VERSION_1 {
        return Err(refused(Reason::NotServed));
    }
    if usize::from(query.Size) < size_of::<DXGKDDI_FEATURE_INTERFACE>() {
        return Err(refused(Reason::BufferTooSmall));
    }
    let out = core::ptr::NonNull::new(query.Interface.cast::<DXGKDDI_FEATURE_INTERFACE>())
        .ok_or(refused(Reason::NullPointer))?;
    let interface = DXGKDDI_FEATURE_INTERFACE {
        Size: size_of::<DXGKDDI_FEATURE_INTERFACE>() as u16,
        Version: DXGKDDI_FEATURE_INTERFACE_VERSION_1,
        Context: adapter.handle().raw(),
        InterfaceReference: Some(reference),
        InterfaceDereference: Some(reference),
        QueryFeatureSupport: Some(query_feature_support),
        QueryFeatureInterface: Some(query_feature_interface),
    };
    // SAFETY: the caller's buffer is as large as the size it gave, which holds the structure.
    unsafe { out.write_unaligned(interface) };
    Ok(())
}

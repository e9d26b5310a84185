// UNSAFETY: raw arguments of callbacks.
//! Services and features that a driver asks for.

use wddm_ddi::km::*;
use wddm_ddi::kmt::DXGK_FEATURE_SUPPORT_ALWAYS_OFF;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use crate::config::FeaturePolicy;
use crate::port::DXGK_FEATURE_SUPPORT_ALWAYS_ON;

use super::call::{
    Level, answer, argument, invalid, named_adapter, no_reference, on_adapter, on_driver, refused, wrong_place,
};
use crate::adapter::adapters_of;

/// Version 1 of every feature is what the system knows.
const FEATURE_VERSION: DXGK_FEATURE_VERSION = 1;

pub(super) unsafe extern "win64" fn query_services(
    handle: HANDLE,
    service: DXGK_SERVICES,
    interface: *mut INTERFACE,
) -> NTSTATUS {
    const NAME: &str = "DxgkCbQueryServices";
    on_adapter(NAME, Level::Passive, handle, |adapter| {
        if let Some(why) = wrong_place("Interface", interface) {
            return Ok(invalid(NAME, adapter, format!("{why} [dispmprt: DXGKCB_QUERY_SERVICES]")));
        }
        // The service came with WDDM 3.2. [d3dkmddi: DXGK_FEATURE_INTERFACE]
        let has_features = adapter.miniport.version().version >= DXGKDDI_INTERFACE_VERSION_WDDM3_2;
        if service != DXGK_SERVICES::DxgkServicesFeature || !has_features {
            return Ok(STATUS_NOT_SUPPORTED);
        }
        // SAFETY: every interface begins with size and version; numbers, which any bytes are.
        let [size, version] = unsafe { argument(NAME, interface.cast::<[u16; 2]>()) }?;
        if version != DXGK_FEATURE_INTERFACE_VERSION_1 {
            return Ok(STATUS_NOT_SUPPORTED);
        }
        if usize::from(size) < size_of::<DXGK_FEATURE_INTERFACE>() {
            return Ok(STATUS_BUFFER_TOO_SMALL);
        }
        let answered = DXGK_FEATURE_INTERFACE {
            Size: size_of::<DXGK_FEATURE_INTERFACE>() as u16,
            Version: DXGK_FEATURE_INTERFACE_VERSION_1,
            Context: handle,
            InterfaceReference: Some(no_reference),
            InterfaceDereference: Some(no_reference),
            IsFeatureEnabled: Some(is_feature_enabled2),
            QueryFeatureInterface: Some(query_feature_interface),
        };
        // SAFETY: the driver said that the place has the size of the interface.
        unsafe { answer(NAME, interface.cast(), answered) }?;
        Ok(STATUS_SUCCESS)
    })
}

unsafe extern "win64" fn is_feature_enabled2(handle: HANDLE, args: *mut DXGKARGCB_ISFEATUREENABLED2) -> NTSTATUS {
    const NAME: &str = "IsFeatureEnabled";
    on_adapter(NAME, Level::Passive, handle, |adapter| {
        if let Some(why) = wrong_place("Args", args) {
            return Ok(invalid(NAME, adapter, format!("{why} [d3dkmddi: DXGKCB_ISFEATUREENABLED2]")));
        }
        // SAFETY: numbers and an address, which any bytes are.
        let mut asked = unsafe { argument(NAME, args) }?;
        let decision = adapter.feature(asked.FeatureId);
        // A driver that is newer than the system asks for what the system does not know: no mistake of the driver's.
        if !decision.known {
            let why = format!(
                "FeatureId is {:#x}, which is no feature that this system knows [d3dkmddi: DXGKCB_ISFEATUREENABLED2]",
                asked.FeatureId.0
            );
            return Ok(refused(NAME, adapter, STATUS_INVALID_PARAMETER, why));
        }
        asked.Result.Version = if decision.enabled { FEATURE_VERSION } else { 0 };
        asked.Result.Bits = DXGK_ISFEATUREENABLED_RESULT_Bits::new()
            .with_Enabled(decision.enabled)
            .with_KnownFeature(true)
            .with_SupportedByDriver(decision.supported_by_driver)
            .with_SupportedOnCurrentConfig(decision.supported_on_current_config);
        // SAFETY: the structure was read from there.
        unsafe { answer(NAME, args, asked) }?;
        Ok(STATUS_SUCCESS)
    })
}

unsafe extern "win64" fn query_feature_interface(
    handle: HANDLE,
    args: *mut DXGKARGCB_QUERYFEATUREINTERFACE,
) -> NTSTATUS {
    const NAME: &str = "QueryFeatureInterface";
    on_adapter(NAME, Level::Passive, handle, |adapter| {
        if let Some(why) = wrong_place("Args", args) {
            return Ok(invalid(NAME, adapter, format!("{why} [d3dkmddi: DXGKCB_QUERYFEATUREINTERFACE]")));
        }
        // SAFETY: numbers and an address, which any bytes are.
        let mut asked = unsafe { argument(NAME, args) }?;
        let native_fence = asked.FeatureId == DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE;
        if !native_fence || asked.Version != FEATURE_VERSION || !adapter.feature(asked.FeatureId).enabled {
            return Ok(STATUS_UNSUCCESSFUL);
        }
        let size = size_of::<DXGKCBINT_FEATURE_NATIVEFENCE_1>();
        if usize::from(asked.InterfaceSize) < size {
            return Ok(STATUS_BUFFER_TOO_SMALL);
        }
        let table = DXGKCBINT_FEATURE_NATIVEFENCE_1 { GetOSCaps: Some(os_caps_of(adapter.policy())) };
        // SAFETY: the driver passes NULL or a place of the size it said.
        if !unsafe { answer(NAME, asked.Interface.cast(), table) }? {
            let why = format!(
                "Interface is {:p}, and expected is an address that is a multiple of 8 [d3dkmddi: DXGKARGCB_QUERYFEATUREINTERFACE]",
                asked.Interface
            );
            return Ok(invalid(NAME, adapter, why));
        }
        asked.InterfaceSize = size as u16;
        // SAFETY: the structure was read from there.
        unsafe { answer(NAME, args, asked) }?;
        Ok(STATUS_SUCCESS)
    })
}

/// GetOSCaps for this policy: the callback names no adapter, so each answer is a function.
fn os_caps_of(policy: &FeaturePolicy) -> PDXGKCB_FEATURE_NATIVEFENCE_GETOSCAPS_1 {
    match (policy.optimized_default_fences, policy.intra_gpu_fences) {
        (false, false) => get_os_caps::<false, false>,
        (false, true) => get_os_caps::<false, true>,
        (true, false) => get_os_caps::<true, false>,
        (true, true) => get_os_caps::<true, true>,
    }
}

unsafe extern "win64" fn get_os_caps<const OPTIMIZED: bool, const INTRA_GPU: bool>(
    caps: *mut DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1,
) -> NTSTATUS {
    let answered = DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1::new()
        .with_SupportOptimizedDefaultFenceType(OPTIMIZED)
        .with_SupportIntraGpuFenceType(INTRA_GPU);
    const NAME: &str = "GetOSCaps";
    on_driver(NAME, Level::Passive, |driver| {
        // SAFETY: the driver passes NULL or a place for the flags.
        if unsafe { answer(NAME, caps, answered) }? {
            return Ok(STATUS_SUCCESS);
        }
        let why = wrong_place("Caps", caps).unwrap_or_default();
        let why = format!("{why} [d3dkmddi: DXGKCB_FEATURE_NATIVEFENCE_GETOSCAPS_1]");
        // The callback names no adapter: whichever of the driver's it is, the finding is the machine's.
        Ok(adapters_of(driver).first().map_or(STATUS_INVALID_PARAMETER, |adapter| invalid(NAME, adapter, why)))
    })
}

pub(super) unsafe extern "win64" fn is_feature_enabled(args: *mut DXGKARGCB_ISFEATUREENABLED) -> NTSTATUS {
    const NAME: &str = "DxgkCbIsFeatureEnabled";
    on_driver(NAME, Level::Passive, |driver| {
        // SAFETY: numbers and a handle, which any bytes are.
        let mut asked = unsafe { argument(NAME, args) }?;
        let adapter = named_adapter(NAME, driver, asked.DeviceHandle)?;
        asked.Enabled = u8::from(adapter.feature(asked.FeatureId).enabled);
        // SAFETY: the structure was read from there.
        unsafe { answer(NAME, args, asked) }?;
        Ok(STATUS_SUCCESS)
    })
}

pub(super) unsafe extern "win64" fn query_feature_support(args: *mut DXGKARGCB_QUERYFEATURESUPPORT) -> NTSTATUS {
    const NAME: &str = "DxgkCbQueryFeatureSupport";
    on_driver(NAME, Level::Passive, |driver| {
        // SAFETY: numbers and a handle, which any bytes are.
        let mut asked = unsafe { argument(NAME, args) }?;
        let adapter = named_adapter(NAME, driver, asked.DeviceHandle)?;
        if asked.DriverSupportState > DXGK_FEATURE_SUPPORT_ALWAYS_ON {
            let why = format!(
                "DriverSupportState is {}, and {DXGK_FEATURE_SUPPORT_ALWAYS_OFF} to {DXGK_FEATURE_SUPPORT_ALWAYS_ON} are allowed",
                asked.DriverSupportState
            );
            return Ok(invalid(NAME, &adapter, why));
        }
        asked.Enabled = u8::from(adapter.offer_feature(asked.FeatureId, asked.DriverSupportState));
        // SAFETY: the structure was read from there.
        unsafe { answer(NAME, args, asked) }?;
        Ok(STATUS_SUCCESS)
    })
}

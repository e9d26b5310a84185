//! The feature interface: which features the driver supports, and the tables of those that have one.

use core::ffi::c_void;

use wddm_ddi::km::*;
use wddm_ddi::status::{STATUS_INVALID_PARAMETER, STATUS_UNSUCCESSFUL};
use wddm_ddi::types::*;

use super::call::{arguments, on_adapter};
use crate::adapter::Adapter;
use crate::feature::VERSION;
use crate::refusal::{Ddi, Reason, Refused, refused, refused_with};

/// Says whether `feature` is supported: by the driver, and on this configuration as far as the hardware is known. `None` for an identifier
/// that this driver was not written for.
fn support(adapter: &Adapter, feature: DXGK_FEATURE_ID) -> Option<(bool, bool)> {
    use DXGK_FEATURE_ID as F;
    let offers = adapter.offers();
    match feature {
        F::DXGK_FEATURE_KERNEL_MODE_TESTING => Some((true, true)),
        F::DXGK_FEATURE_HWSCH => Some((true, offers.hardware_scheduling)),
        F::DXGK_FEATURE_NATIVE_FENCE => Some((true, offers.native_fences)),
        F::DXGK_FEATURE_USER_MODE_SUBMISSION => Some((true, offers.user_mode_submission())),
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
        unsafe { out.write_unaligned(super::testing::INTERFACE) };
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

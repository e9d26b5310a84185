//! Thunks of shared resources.
//!
//! Allocations are not shared here: D3DKMTCreateAllocation2 refuses CreateShared with STATUS_NOT_SUPPORTED, so that no handle is one of a shared resource, and
//! these thunks answer as for a handle of something else: STATUS_INVALID_PARAMETER for one that every process would know, STATUS_INVALID_HANDLE or
//! STATUS_OBJECT_TYPE_MISMATCH for a kernel handle.

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{HANDLE, NTSTATUS};

use crate::process::Process;

use super::enter;

fn of_kernel_handle(process: &Process, handle: HANDLE) -> NTSTATUS {
    process.get_kernel(handle).map_or_else(|status| status, |_| STATUS_OBJECT_TYPE_MISMATCH)
}

/// [d3dkmthk: D3DKMTQueryResourceInfo]
pub(super) unsafe extern "win64" fn query_resource_info(args: *mut D3DKMT_QUERYRESOURCEINFO) -> NTSTATUS {
    enter("D3DKMTQueryResourceInfo", args, |process, args| {
        process.get_device(args.hDevice)?.check()?;
        Err(STATUS_INVALID_PARAMETER)
    })
}

/// [d3dkmthk: D3DKMTQueryResourceInfoFromNtHandle]
pub(super) unsafe extern "win64" fn query_resource_info_from_nt_handle(
    args: *mut D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE,
) -> NTSTATUS {
    enter("D3DKMTQueryResourceInfoFromNtHandle", args, |process, args| {
        process.get_device(args.hDevice)?.check()?;
        Err(of_kernel_handle(process, args.hNtHandle))
    })
}

/// [d3dkmthk: D3DKMTOpenResource]
pub(super) unsafe extern "win64" fn open_resource(args: *mut D3DKMT_OPENRESOURCE) -> NTSTATUS {
    enter("D3DKMTOpenResource", args, |process, args| {
        process.get_device(args.hDevice)?.check()?;
        Err(STATUS_INVALID_PARAMETER)
    })
}

/// [d3dkmthk: D3DKMTOpenResource2]
pub(super) unsafe extern "win64" fn open_resource2(args: *mut D3DKMT_OPENRESOURCE) -> NTSTATUS {
    enter("D3DKMTOpenResource2", args, |process, args| {
        process.get_device(args.hDevice)?.check()?;
        Err(STATUS_INVALID_PARAMETER)
    })
}

/// [d3dkmthk: D3DKMTOpenResourceFromNtHandle]
pub(super) unsafe extern "win64" fn open_resource_from_nt_handle(
    args: *mut D3DKMT_OPENRESOURCEFROMNTHANDLE,
) -> NTSTATUS {
    enter("D3DKMTOpenResourceFromNtHandle", args, |process, args| {
        process.get_device(args.hDevice)?.check()?;
        Err(of_kernel_handle(process, args.hNtHandle))
    })
}

/// [d3dkmthk: D3DKMTGetSharedResourceAdapterLuid]
pub(super) unsafe extern "win64" fn get_shared_resource_adapter_luid(
    args: *mut D3DKMT_GETSHAREDRESOURCEADAPTERLUID,
) -> NTSTATUS {
    enter("D3DKMTGetSharedResourceAdapterLuid", args, |process, args| {
        // One of the two handles names the resource.
        match (args.hGlobalShare != 0, args.hNtHandle.is_null()) {
            (false, false) => Err(of_kernel_handle(process, args.hNtHandle)),
            _ => Err(STATUS_INVALID_PARAMETER),
        }
    })
}

/// A resource that is there is not shared. [d3dkmthk: D3DKMTCheckSharedResourceAccess]
pub(super) unsafe extern "win64" fn check_shared_resource_access(
    args: *mut D3DKMT_CHECKSHAREDRESOURCEACCESS,
) -> NTSTATUS {
    enter("D3DKMTCheckSharedResourceAccess", args, |process, args| {
        process.get_resource(args.hResource)?;
        Err(STATUS_INVALID_PARAMETER)
    })
}

/// A resource that is there is not shared. [d3dkmthk: D3DKMTConfigureSharedResource]
pub(super) unsafe extern "win64" fn configure_shared_resource(args: *mut D3DKMT_CONFIGURESHAREDRESOURCE) -> NTSTATUS {
    enter("D3DKMTConfigureSharedResource", args, |process, args| {
        process.get_device(args.hDevice)?.check()?;
        process.get_resource(args.hResource)?;
        Err(STATUS_INVALID_PARAMETER)
    })
}

/// [d3dkmthk: D3DKMTGetRuntimeData]
pub(super) unsafe extern "win64" fn get_runtime_data(args: *mut D3DKMT_GETRUNTIMEDATA) -> NTSTATUS {
    enter("D3DKMTGetRuntimeData", args, |process, args| {
        process.get_adapter(args.hAdapter)?;
        Err(STATUS_INVALID_PARAMETER)
    })
}

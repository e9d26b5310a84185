//! Allocations and resources among the handles of a process.

use std::sync::Arc;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::user;
use crate::access_mask::{GenericMapping, STANDARD_RIGHTS_READ};
use crate::process::{Object, Process};
use crate::refusal::{Failure, refused};
use crate::rundown::Used;
use crate::vidmm::{Allocation, Resource};
use crate::vidsch::Device;

pub(super) fn register(
    process: &Process,
    device: &Device,
    made: &[Arc<Allocation>],
    resource: Option<Arc<Resource>>,
) -> Result<(Vec<D3DKMT_HANDLE>, D3DKMT_HANDLE), Failure> {
    let mut handles = Vec::with_capacity(made.len());
    for allocation in made {
        let object = Object::Allocation(Arc::clone(allocation), Arc::clone(device.adapter.vidmm()));
        match process.insert_on(device, object) {
            Ok(handle) => handles.push(handle),
            Err(status) => {
                forget(process, &handles, 0);
                return Err(status);
            }
        }
    }
    let Some(resource) = resource else { return Ok((handles, 0)) };
    resource.set_members(&handles);
    match process.insert_on(device, Object::Resource(resource)) {
        Ok(handle) => Ok((handles, handle)),
        Err(status) => {
            forget(process, &handles, 0);
            Err(status)
        }
    }
}

/// Takes handles out without destroying what they stand for.
pub(super) fn forget(process: &Process, handles: &[D3DKMT_HANDLE], resource: D3DKMT_HANDLE) {
    for handle in handles.iter().chain((resource != 0).then_some(&resource)) {
        let _ = process.remove(*handle);
    }
}

/// Most private data of one allocation or resource, in bytes.
pub(super) const PRIVATE_MAX: u32 = 1 << 16;

/// A device that works.
pub(super) fn device(process: &Process, handle: D3DKMT_HANDLE) -> Result<Used<Device>, Failure> {
    let device = process.get_device(handle)?;
    device.check()?;
    Ok(device)
}

/// Gives a resource the handle that every process knows; 0 for one that is not shared, or by kernel handles.
pub(super) fn publish(process: &Process, resource: Option<&Resource>) -> Result<D3DKMT_HANDLE, Failure> {
    match resource.and_then(Resource::shared) {
        Some(shared) if !shared.data.nt_sharing => {
            process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?.publish_resource(shared)
        }
        _ => Ok(0),
    }
}

/// Reads the runtime data that the creator of a resource stores for those that open it.
pub(super) fn read_runtime_data(args: &D3DKMT_CREATEALLOCATION) -> Result<Vec<u8>, Failure> {
    if args.PrivateRuntimeDataSize > PRIVATE_MAX {
        let size = args.PrivateRuntimeDataSize;
        let why = format!("PrivateRuntimeDataSize is {size:#x} bytes, and at most {PRIVATE_MAX:#x} are kept");
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    user::read_array(args.pPrivateRuntimeData.cast_const().cast(), args.PrivateRuntimeDataSize)
}

/// [d3dukmdt: SHARED_ALLOCATION_WRITE]
const WRITE: u32 = 1;

/// The pages do not say what generic rights of resources stand for; this is this system's rule.
const MAPPING: GenericMapping = GenericMapping {
    read: STANDARD_RIGHTS_READ,
    write: STANDARD_RIGHTS_READ | WRITE,
    execute: STANDARD_RIGHTS_READ,
    all: STANDARD_RIGHTS_READ | WRITE,
};

/// Whether a handle with this access opens a resource to be written, or to be read only. [d3dkmthk: D3DKMTShareObjects]
///
/// # Errors
/// STATUS_ACCESS_DENIED if it may not even be read.
pub(super) fn may_write(access: u32) -> Result<bool, Failure> {
    let rights = MAPPING.map(access);
    if rights & STANDARD_RIGHTS_READ == 0 {
        let why = format!("the access {access:#x} of hNtHandle has no right to read");
        return Err(refused(STATUS_ACCESS_DENIED, why));
    }
    Ok(rights & WRITE != 0)
}

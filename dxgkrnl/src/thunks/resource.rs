//! Thunks of shared resources.
//!
//! A resource that was created with CreateShared is opened by a handle that every process knows, or with NtSecuritySharing by kernel handles. Whoever
//! opens it gets the private data that the creator's driver left, and an allocation of its own of each; the memory is one. It lives as long as somebody has it
//! open or has a kernel handle of it.

use std::ffi::c_void;
use std::sync::Arc;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, NTSTATUS};

use super::allocation_handles::{device, may_write};
use super::allocation_handles::{forget, register};
use super::call::enter;
use super::{keyed_mutex, shared_fence, user};
use crate::adapter::Adapter;
use crate::fence::Rights;
use crate::machine::{KernelObject, ResourceHandle, SharedSync, Together};
use crate::process::{Object, Process};
use crate::refusal::{Failure, refused};
use crate::rundown::Used;
use crate::vidmm::{Resource, SharedResource};
use crate::vidsch::Device;

/// What a kernel handle of a resource stands for, with the name that it gets and what is shared with it. One that may only be read shares no more.
///
/// # Errors
/// STATUS_INVALID_PARAMETER unless the resource was created for kernel handles; STATUS_OBJECT_NAME_COLLISION.
pub(super) fn share(
    process: &Process,
    handle: D3DKMT_HANDLE,
    access: u32,
    name: Option<Vec<u16>>,
    together: Option<Together>,
) -> Result<KernelObject, Failure> {
    let resource = process.get_resource(handle)?;
    let shared = resource.shared().filter(|shared| shared.data.nt_sharing).ok_or_else(|| {
        let why = format!("resource {handle:#x} was created without CreateShared or without NtSecuritySharing");
        refused(STATUS_INVALID_PARAMETER, why)
    })?;
    let is_read_only = |member| process.get_allocation(member).is_ok_and(|allocation| allocation.is_read_only());
    let read_only = resource.members().into_iter().any(is_read_only);
    let shared = Arc::new(ResourceHandle { resource: Arc::clone(shared), read_only, together });
    if let Some(name) = name {
        process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?.name_resource(process.named(name), &shared)?;
    }
    Ok(KernelObject::SharedResource(shared, access))
}

/// The resource behind a kernel handle, and the access that it grants.
///
/// # Errors
/// STATUS_INVALID_HANDLE; STATUS_OBJECT_TYPE_MISMATCH for the handle of something else.
fn of_kernel_handle(process: &Process, handle: HANDLE) -> Result<(Arc<ResourceHandle>, u32), Failure> {
    match process.get_kernel(handle)? {
        KernelObject::SharedResource(shared, access) => Ok((shared, access)),
        _ => Err(refused(STATUS_OBJECT_TYPE_MISMATCH, "hNtHandle is the handle of something else than a resource")),
    }
}

/// The resource behind a handle that every process knows.
fn of_global_handle(process: &Process, handle: D3DKMT_HANDLE) -> Result<Arc<SharedResource>, Failure> {
    process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?.resource(handle)
}

fn of_other_adapter() -> Failure {
    refused(STATUS_INVALID_PARAMETER, "the shared resource is of another adapter than hDevice or hAdapter")
}

/// Bytes of the private data of all allocations.
fn total(shared: &SharedResource) -> u32 {
    shared.data.allocations.iter().fold(0, |sum, data| sum.saturating_add(data.len() as u32))
}

/// Data of the runtime for user mode, and their size. Without a place only the size is told.
///
/// # Errors
/// STATUS_BUFFER_TOO_SMALL; STATUS_ACCESS_VIOLATION.
fn give_runtime_data(shared: &SharedResource, at: *mut c_void, size: &mut u32) -> Result<(), Failure> {
    let data = &shared.data.runtime;
    if !at.is_null() {
        if (*size as usize) < data.len() {
            let (given, needed) = (*size, data.len());
            let why = format!("the place for data of the runtime has {given:#x} bytes, and {needed:#x} are needed");
            return Err(refused(STATUS_BUFFER_TOO_SMALL, why));
        }
        user::write_array(at.cast(), data)?;
    }
    *size = data.len() as u32;
    Ok(())
}

macro_rules! answer_query {
    ($args:ident, $device:ident, $shared:ident) => {{
        if !$shared.is_of($device.adapter.vidmm()) {
            return Err(of_other_adapter());
        }
        give_runtime_data(&$shared, $args.pPrivateRuntimeData, &mut $args.PrivateRuntimeDataSize)?;
        $args.TotalPrivateDriverDataSize = total(&$shared);
        $args.ResourcePrivateDriverDataSize = $shared.data.private.len() as u32;
        $args.NumAllocations = $shared.len() as u32;
        Ok(STATUS_SUCCESS)
    }};
}

/// Sizes of what an opening is told, and the data of the runtime where a place for them is given.
/// Errors: STATUS_INVALID_PARAMETER for a handle of no resource or one of another adapter; STATUS_BUFFER_TOO_SMALL. [d3dkmthk: D3DKMTQueryResourceInfo]
pub(super) unsafe extern "win64" fn query_resource_info(args: *mut D3DKMT_QUERYRESOURCEINFO) -> NTSTATUS {
    enter("D3DKMTQueryResourceInfo", args, |process, args| {
        let device = device(process, args.hDevice)?;
        let shared = of_global_handle(process, args.hGlobalShare)?;
        answer_query!(args, device, shared)
    })
}

/// As [`query_resource_info`], by a kernel handle. [d3dkmthk: D3DKMTQueryResourceInfoFromNtHandle]
pub(super) unsafe extern "win64" fn query_resource_info_from_nt_handle(
    args: *mut D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE,
) -> NTSTATUS {
    enter("D3DKMTQueryResourceInfoFromNtHandle", args, |process, args| {
        let device = device(process, args.hDevice)?;
        let shared = Arc::clone(&of_kernel_handle(process, args.hNtHandle)?.0.resource);
        answer_query!(args, device, shared)
    })
}

/// Where an opening puts one allocation, in either form.
trait Place: Copy + wddm_ddi::Zeroed {
    fn of(handle: D3DKMT_HANDLE, private: *mut c_void, size: u32) -> Self;
}

impl Place for D3DDDI_OPENALLOCATIONINFO {
    fn of(handle: D3DKMT_HANDLE, private: *mut c_void, size: u32) -> Self {
        Self { hAllocation: handle, pPrivateDriverData: private, PrivateDriverDataSize: size }
    }
}

impl Place for D3DDDI_OPENALLOCATIONINFO2 {
    fn of(handle: D3DKMT_HANDLE, private: *mut c_void, size: u32) -> Self {
        let mut place: Self = wddm_ddi::Zeroed::zeroed();
        (place.hAllocation, place.pPrivateDriverData, place.PrivateDriverDataSize) = (handle, private, size);
        place
    }
}

/// Where an opening puts what it tells, with the sizes that user mode has asked for before.
struct Request<P> {
    places: *mut P,
    count: u32,
    runtime: (*mut c_void, u32),
    private: (*mut c_void, u32),
    total: (*mut c_void, u32),
}

impl<P: Place> Request<P> {
    /// # Errors
    /// STATUS_INVALID_PARAMETER unless every size is that of the resource; the place of all private data may be larger.
    fn check(&self, shared: &SharedResource) -> Result<(), Failure> {
        let (runtime, private) = (shared.data.runtime.len(), shared.data.private.len());
        for (field, given, expected) in [
            ("NumAllocations", self.count, shared.len()),
            ("PrivateRuntimeDataSize", self.runtime.1, runtime),
            ("ResourcePrivateDriverDataSize", self.private.1, private),
        ] {
            if given as usize != expected {
                let why = format!("{field} is {given:#x}, and that of the resource is {expected:#x}");
                return Err(refused(STATUS_INVALID_PARAMETER, why));
            }
        }
        let (given, needed) = (self.total.1, total(shared));
        let why = || format!("TotalPrivateDriverDataBufferSize is {given:#x}, and {needed:#x} are needed");
        if given >= needed { Ok(()) } else { Err(refused(STATUS_INVALID_PARAMETER, why())) }
    }

    /// Tells user mode everything; the private data of allocations follow one another.
    fn answer(&self, shared: &SharedResource, handles: &[D3DKMT_HANDLE]) -> Result<(), Failure> {
        user::write_array(self.runtime.0.cast(), &shared.data.runtime)?;
        user::write_array(self.private.0.cast(), &shared.data.private)?;
        let mut at = self.total.0;
        for (index, (handle, data)) in handles.iter().zip(&shared.data.allocations).enumerate() {
            user::write_array(at.cast(), data)?;
            user::write(self.places.wrapping_add(index), &P::of(*handle, at, data.len() as u32))?;
            at = at.wrapping_byte_add(data.len());
        }
        Ok(())
    }
}

/// Opens a resource on a device, to be read only or not: its handle, with everything told. Nothing is open after an error.
fn open<P: Place>(
    process: &Process,
    device: &Used<Device>,
    shared: &Arc<SharedResource>,
    request: &Request<P>,
    read_only: bool,
) -> Result<D3DKMT_HANDLE, Failure> {
    let vidmm = device.adapter.vidmm();
    if !shared.is_of(vidmm) {
        return Err(of_other_adapter());
    }
    request.check(shared)?;
    // Places that cannot be written are found before anything is opened, but for what another thread unmaps meanwhile.
    request.answer(shared, &vec![0; shared.len()])?;
    let charge = process.quotas().shared.charge(&shared.data.upkeep)?;
    let opened = vidmm.open_shared(&***device, shared, read_only)?;
    let resource = Resource::opened(&***device, Arc::clone(shared), charge);
    let told = register(process, device, &opened, Some(resource)).and_then(|(handles, resource)| {
        request.answer(shared, &handles).inspect_err(|_| forget(process, &handles, resource))?;
        Ok(resource)
    });
    told.inspect_err(|_| opened.iter().for_each(|allocation| vidmm.destroy_allocation(allocation, None)))
}

fn by_global_handle<P: Place>(
    process: &Process,
    args: &mut D3DKMT_OPENRESOURCE,
    places: *mut P,
) -> Result<NTSTATUS, Failure> {
    let device = device(process, args.hDevice)?;
    let shared = of_global_handle(process, args.hGlobalShare)?;
    let request = Request {
        places,
        count: args.NumAllocations,
        runtime: (args.pPrivateRuntimeData, args.PrivateRuntimeDataSize),
        private: (args.pResourcePrivateDriverData, args.ResourcePrivateDriverDataSize),
        total: (args.pTotalPrivateDriverDataBuffer, args.TotalPrivateDriverDataBufferSize),
    };
    args.hResource = open(process, &device, &shared, &request, false)?;
    args.TotalPrivateDriverDataBufferSize = total(&shared);
    Ok(STATUS_SUCCESS)
}

/// Opens a shared resource by the handle that every process knows. The sizes are those that D3DKMTQueryResourceInfo has told.
/// Errors: STATUS_INVALID_PARAMETER for another size, a handle of no resource, or one of another adapter; STATUS_ACCESS_VIOLATION.
/// [d3dkmthk: D3DKMTOpenResource]
pub(super) unsafe extern "win64" fn open_resource(args: *mut D3DKMT_OPENRESOURCE) -> NTSTATUS {
    enter("D3DKMTOpenResource", args, |process, args| {
        // SAFETY: both arms of the union are pointers; this thunk takes the first form.
        let places = unsafe { args.u.pOpenAllocationInfo };
        by_global_handle(process, args, places)
    })
}

/// As [`open_resource`], with places of the newer form. [d3dkmthk: D3DKMTOpenResource2]
pub(super) unsafe extern "win64" fn open_resource2(args: *mut D3DKMT_OPENRESOURCE) -> NTSTATUS {
    enter("D3DKMTOpenResource2", args, |process, args| {
        // SAFETY: both arms of the union are pointers; this thunk takes the second form.
        let places = unsafe { args.u.pOpenAllocationInfo2 };
        by_global_handle(process, args, places)
    })
}

/// Opens what is shared with a resource: the handles of the keyed mutex and of the synchronization object, both 0 if nothing is.
fn open_together(
    process: &Process,
    device: &Used<Device>,
    together: Option<&Together>,
    access: u32,
) -> Result<[D3DKMT_HANDLE; 2], Failure> {
    let Some(Together { mutex, sync }) = together else { return Ok([0, 0]) };
    let mutex = keyed_mutex::insert(process, mutex)?;
    let sync = match sync {
        SharedSync::Older(object) => {
            object.0.open(&process.quotas().shared).and_then(|open| process.insert(Object::OlderSync(open)))
        }
        SharedSync::Fence(fence, rights) => Rights::of_access(access)
            .and_then(|granted| shared_fence::open_as_created(process, device, fence, granted.and(*rights))),
    };
    sync.map(|sync| [mutex, sync]).inspect_err(|_| close_together(process, [mutex, 0]))
}

/// Closes what [`open_together`] has just opened, and nobody knows of.
fn close_together(process: &Process, handles: [D3DKMT_HANDLE; 2]) {
    let is_one = |object: &Object| matches!(object, Object::KeyedMutex(_) | Object::Sync(_) | Object::OlderSync(_));
    for handle in handles.into_iter().filter(|handle| *handle != 0) {
        if let Ok(taken) = process.take_if(handle, is_one) {
            taken.destroy();
        }
    }
}

/// As [`open_resource2`], by a kernel handle that grants it, with the keyed mutex and the synchronization object that the resource was shared with. Without
/// SHARED_ALLOCATION_WRITE the resource is for reading only. Data of the runtime are for a mutex that has none.
/// Errors: STATUS_ACCESS_DENIED, STATUS_OBJECT_TYPE_MISMATCH, and as there; nothing is open then. [d3dkmthk: D3DKMTOpenResourceFromNtHandle]
pub(super) unsafe extern "win64" fn open_resource_from_nt_handle(
    args: *mut D3DKMT_OPENRESOURCEFROMNTHANDLE,
) -> NTSTATUS {
    enter("D3DKMTOpenResourceFromNtHandle", args, |process, args| {
        let device = device(process, args.hDevice)?;
        let (shared, access) = of_kernel_handle(process, args.hNtHandle)?;
        let read_only = !may_write(access)? || shared.read_only;
        let request = Request {
            places: args.pOpenAllocationInfo2,
            count: args.NumAllocations,
            runtime: (args.pPrivateRuntimeData, args.PrivateRuntimeDataSize),
            private: (args.pResourcePrivateDriverData, args.ResourcePrivateDriverDataSize),
            total: (args.pTotalPrivateDriverDataBuffer, args.TotalPrivateDriverDataBufferSize),
        };
        let together = shared.together.as_ref();
        let (data, size) = (args.pKeyedMutexPrivateRuntimeData, args.KeyedMutexPrivateRuntimeDataSize);
        let data = together.map(|_| keyed_mutex::read_data(data, size)).transpose()?;
        let beside = open_together(process, &device, together, access)?;
        let opened = open(process, &device, &shared.resource, &request, read_only);
        args.hResource = opened.inspect_err(|_| close_together(process, beside))?;
        if let (Some(together), Some(data)) = (together, data) {
            together.mutex.begin_with(data);
        }
        args.TotalPrivateDriverDataBufferSize = total(&shared.resource);
        [args.hKeyedMutex, args.hSyncObject] = beside;
        Ok(STATUS_SUCCESS)
    })
}

/// The adapter whose memory a shared resource is; one of the two handles names it. [d3dkmthk: D3DKMTGetSharedResourceAdapterLuid]
pub(super) unsafe extern "win64" fn get_shared_resource_adapter_luid(
    args: *mut D3DKMT_GETSHAREDRESOURCEADAPTERLUID,
) -> NTSTATUS {
    enter("D3DKMTGetSharedResourceAdapterLuid", args, |process, args| {
        let shared = match (args.hGlobalShare, args.hNtHandle.is_null()) {
            (0, false) => Arc::clone(&of_kernel_handle(process, args.hNtHandle)?.0.resource),
            (handle, true) if handle != 0 => of_global_handle(process, handle)?,
            _ => {
                return Err(refused(
                    STATUS_INVALID_PARAMETER,
                    "not just one of hGlobalShare and hNtHandle is a handle",
                ));
            }
        };
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        let of = |adapter: &&Arc<Adapter>| adapter.memory_manager().is_some_and(|vidmm| shared.is_of(vidmm));
        args.AdapterLuid = machine.adapters().iter().find(of).ok_or(STATUS_DEVICE_REMOVED)?.luid;
        Ok(STATUS_SUCCESS)
    })
}

/// Access to shared resources is not restricted to processes here: RestrictSharedAccess is not supported. A resource that is not shared is an
/// invalid parameter. [d3dkmthk: D3DKMTCheckSharedResourceAccess]
pub(super) unsafe extern "win64" fn check_shared_resource_access(
    args: *mut D3DKMT_CHECKSHAREDRESOURCEACCESS,
) -> NTSTATUS {
    enter("D3DKMTCheckSharedResourceAccess", args, |process, args| {
        let resource = process.get_resource(args.hResource)?;
        let why = || refused(STATUS_INVALID_PARAMETER, format!("resource {:#x} is not shared", args.hResource));
        resource.shared().map(|_| STATUS_SUCCESS).ok_or_else(why)
    })
}

/// Access to shared resources is not restricted to processes here, so that there is none to be configured.
/// [d3dkmthk: D3DKMTConfigureSharedResource]
pub(super) unsafe extern "win64" fn configure_shared_resource(args: *mut D3DKMT_CONFIGURESHAREDRESOURCE) -> NTSTATUS {
    enter("D3DKMTConfigureSharedResource", args, |process, args| {
        process.get_device(args.hDevice)?.check()?;
        process.get_resource(args.hResource)?;
        let why = "hResource was not created with RestrictSharedAccess, which the adapter does not support";
        Err(refused(STATUS_INVALID_PARAMETER, why))
    })
}

/// Data that the runtime has kept with a shared resource; without a place only their size. Errors: STATUS_INVALID_PARAMETER for a handle of no
/// resource, or one of another adapter; STATUS_BUFFER_TOO_SMALL. [d3dkmthk: D3DKMTGetRuntimeData]
pub(super) unsafe extern "win64" fn get_runtime_data(args: *mut D3DKMT_GETRUNTIMEDATA) -> NTSTATUS {
    enter("D3DKMTGetRuntimeData", args, |process, args| {
        let open = process.get_adapter(args.hAdapter)?;
        let shared = of_global_handle(process, args.hGlobalShare)?;
        if !open.adapter.memory_manager().is_some_and(|vidmm| shared.is_of(vidmm)) {
            return Err(of_other_adapter());
        }
        give_runtime_data(&shared, args.pRuntimeData, &mut args.RuntimeDataSize)?;
        Ok(STATUS_SUCCESS)
    })
}

//! Sharing of objects between processes: kernel handles, and the fences that are opened by them.

use std::ffi::c_void;
use std::sync::Arc;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE};

use super::call::{enter, guarded};
use super::shared_fence::open;
use super::{names, older_sync, resource, sync, user};
use crate::fence::Rights;
use crate::machine::{KernelObject, SharedSync, Together};
use crate::process::Process;
use crate::refusal::{Failure, refused};
use crate::vidsch::{OlderSyncHandle, SharedFence};

/// D3DKMT_MAX_OBJECTS_PER_HANDLE. [d3dkmthk]
const OBJECTS_MAX: u32 = 3;

/// Gives objects that were created to be shared one kernel handle in the calling process: a resource, a synchronization object, or a resource with a keyed
/// mutex and a synchronization object, in any order. Other combinations, and so a keyed mutex alone, are STATUS_INVALID_PARAMETER. What has a handle may get a
/// name, which it has as long as a kernel handle of it is open. `attributes` is NULL or an OBJECT_ATTRIBUTES. What is opened by the handle has the rights of
/// `desired_access`, and none that the sharing process lacks itself. [d3dkmthk: D3DKMTShareObjects]
///
/// # Safety
/// Callable with any arguments: pointers are checked.
pub(super) unsafe extern "win64" fn share_objects(
    count: u32,
    objects: *const D3DKMT_HANDLE,
    attributes: *const c_void,
    desired_access: u32,
    shared: *mut HANDLE,
) -> NTSTATUS {
    guarded("D3DKMTShareObjects", |process| {
        if !(1..=OBJECTS_MAX).contains(&count) {
            let why = format!("cObjects is {count}, and expected is 1 to {OBJECTS_MAX}");
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let name = if attributes.is_null() { None } else { names::of_attributes(attributes)? };
        let objects = user::read_array(objects, count)?;
        // Refuses a place that cannot be written before there is a handle.
        user::write_array(shared.cast::<u64>(), &[0])?;
        let object = match *objects.as_slice() {
            [object] if process.get_resource(object).is_ok() => {
                resource::share(process, object, desired_access, name, None)?
            }
            [object] => share_sync(process, object, desired_access, name)?,
            _ => share_together(process, &objects, desired_access, name)?,
        };
        let handle = process.insert_kernel(object)?;
        user::write_array(shared.cast::<u64>(), &[handle.addr() as u64]).inspect_err(|_| {
            // Nobody learnt of it.
            let _ = process.close_kernel(handle);
        })?;
        Ok(STATUS_SUCCESS)
    })
}

/// A handle of a fence, and what its sharer may do with it.
fn fence_to_share(process: &Process, handle: D3DKMT_HANDLE) -> Result<(Arc<SharedFence>, Rights), Failure> {
    let fence = process.get_sync(handle)?;
    Ok((SharedFence::new(fence.fence())?, fence.rights()))
}

/// What a kernel handle of one synchronization object stands for, with the name that it gets.
fn share_sync(
    process: &Process,
    object: D3DKMT_HANDLE,
    access: u32,
    name: Option<Vec<u16>>,
) -> Result<KernelObject, Failure> {
    if process.get_keyed_mutex(object).is_ok() {
        return Err(refused(STATUS_INVALID_PARAMETER, "a keyed mutex is shared with a resource only"));
    }
    if process.get_older_sync(object).is_ok() {
        return older_sync::share(process, object, name);
    }
    let (shared, rights) = fence_to_share(process, object)?;
    if let Some(name) = name {
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        machine.name_fence(process.named(name), &shared, rights)?;
    }
    Ok(KernelObject::SharedFence(shared, Rights::of_access(access).map(|granted| granted.and(rights))))
}

fn other_combination() -> Failure {
    let why = "hObjects is neither one object nor a resource, a keyed mutex and a synchronization object";
    refused(STATUS_INVALID_PARAMETER, why)
}

/// The kernel object for a resource that is shared together with its keyed mutex and its synchronization object.
fn share_together(
    process: &Process,
    objects: &[D3DKMT_HANDLE],
    access: u32,
    name: Option<Vec<u16>>,
) -> Result<KernelObject, Failure> {
    let (mut resource, mut mutex, mut sync) = (None, None, None);
    for object in objects {
        let place = match () {
            () if process.get_resource(*object).is_ok() => &mut resource,
            () if process.get_keyed_mutex(*object).is_ok() => &mut mutex,
            () => &mut sync,
        };
        if place.replace(*object).is_some() {
            return Err(other_combination());
        }
    }
    let (Some(resource), Some(mutex), Some(sync)) = (resource, mutex, sync) else {
        return Err(other_combination());
    };
    let sync = match process.get_older_sync(sync) {
        Ok(object) => SharedSync::Older(Arc::new(OlderSyncHandle(object.shareable()?))),
        Err(_) => {
            let (shared, rights) = fence_to_share(process, sync)?;
            SharedSync::Fence(shared, rights)
        }
    };
    let mutex = process.get_keyed_mutex(mutex)?.shareable()?;
    resource::share(process, resource, access, name, Some(Together { mutex, sync }))
}

/// The fence behind a kernel handle.
///
/// # Errors
/// STATUS_INVALID_HANDLE; STATUS_OBJECT_TYPE_MISMATCH for the handle of something else.
fn shared_fence(process: &Process, handle: HANDLE) -> Result<(Arc<SharedFence>, Result<Rights, Failure>), Failure> {
    match process.get_kernel(handle)? {
        KernelObject::SharedFence(shared, granted) => Ok((shared, granted)),
        _ => Err(refused(
            STATUS_OBJECT_TYPE_MISMATCH,
            "hNtHandle is the handle of something else than a monitored or native fence",
        )),
    }
}

/// Flags of an opening say again how the fence is shared.
fn check_sharing(shared: &SharedFence, flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS) -> Result<(), Failure> {
    let other = flags.with_Shared(false).with_NtSecuritySharing(false).with_CrossAdapter(false);
    let other = other.with_NoSignal(false).with_NoWait(false).with_UnwaitCpuWaitersOnlyOnDestroy(false).into_bits();
    let wrong = flags.CrossAdapter() && !matches!(shared, SharedFence::CrossAdapter(_));
    if other != 0 || wrong {
        let rule = "or CrossAdapter of a fence of one adapter";
        let why = format!("Flags has {other:#x} besides those of sharing, rights and waiters, {rule}");
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    Ok(())
}

fn unknown_engines(or: &str, affinity: u32) -> Failure {
    let why = format!("{or}EngineAffinity is {affinity:#x}, which has engines that the adapter has not");
    refused(STATUS_INVALID_PARAMETER, why)
}

/// Opens a shared native fence by a kernel handle of the calling process: the process gets addresses of its own, the driver an
/// open fence of this process. The flags may give rights up, never add one to those of the handle. A fence of several adapters is
/// opened as a native fence also where it was created as a monitored one, and on an adapter without native fences as a monitored
/// fence, whose MonitoredValue has no address. [d3dkmthk: D3DKMTOpenNativeFenceFromNtHandle; native-gpu-fence-objects: cross-adapter
/// native fences]
///
/// # Safety
/// As [`share_objects`].
pub(super) unsafe extern "win64" fn open_native_fence_from_nt_handle(
    args: *mut D3DKMT_OPENNATIVEFENCEFROMNTHANDLE,
) -> NTSTATUS {
    enter("D3DKMTOpenNativeFenceFromNtHandle", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let known = device.adapter.caps().has_engines(args.EngineAffinity);
        if args.Reserved.iter().any(|byte| *byte != 0) || !known {
            return Err(unknown_engines("Reserved is not zero, or ", args.EngineAffinity));
        }
        let (shared, granted) = shared_fence(process, args.hNtHandle)?;
        check_sharing(&shared, args.Flags)?;
        let rights = Rights::of_flags(args.Flags)?.and(granted?);
        let mut private = args.PrivateDriverData;
        let fence = open(&device, &shared, device.adapter.has_native_fences(), rights, &mut private)?;
        if args.Flags.UnwaitCpuWaitersOnlyOnDestroy() {
            fence.keep_waiters();
        }
        args.hSyncObject = sync::insert(process, &device, &fence)?;
        args.PrivateDriverData = private;
        args.NativeFenceMapping = sync::mapping(&fence);
        Ok(STATUS_SUCCESS)
    })
}

/// Opens a shared monitored fence by a kernel handle of the calling process. With NoGPUAccess the GPU gets no address by this opening, and by none if the
/// fence was created so. A fence of several adapters is opened as a monitored
/// fence also where it was created as a native one. [d3dkmthk: D3DKMTOpenSyncObjectFromNtHandle2]
///
/// # Safety
/// Callable with any argument: pointers are checked.
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTOpenSyncObjectFromNtHandle2(
    args: *mut D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2,
) -> NTSTATUS {
    enter("D3DKMTOpenSyncObjectFromNtHandle2", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        // SAFETY: every arm of the union is plain numbers.
        let mut opened = unsafe { args.u.MonitoredFence };
        if !device.adapter.caps().has_engines(opened.EngineAffinity) {
            return Err(unknown_engines("", opened.EngineAffinity));
        }
        let (shared, granted) = shared_fence(process, args.hNtHandle)?;
        check_sharing(&shared, args.Flags.with_NoGPUAccess(false))?;
        let rights = Rights::of_flags(args.Flags)?.and(granted?);
        let fence = open(&device, &shared, false, rights, &mut [0; 64])?;
        if args.Flags.UnwaitCpuWaitersOnlyOnDestroy() {
            fence.keep_waiters();
        }
        args.hSyncObject = sync::insert(process, &device, &fence)?;
        opened.FenceValueCPUVirtualAddress = core::ptr::with_exposed_provenance_mut(fence.user_address());
        opened.FenceValueGPUVirtualAddress = fence.gpu_address();
        args.u.MonitoredFence = opened;
        Ok(STATUS_SUCCESS)
    })
}

/// Closes a kernel handle of the calling process. The object goes with its last handle and the last process that has it open.
/// [wdm: NtClose]
///
/// # Safety
/// Callable with any handle.
pub(super) unsafe extern "win64" fn nt_close(handle: HANDLE) -> NTSTATUS {
    guarded("NtClose", |process| process.close_kernel(handle).map(|()| STATUS_SUCCESS))
}

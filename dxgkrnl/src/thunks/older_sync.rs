//! Synchronization objects of before monitored fences: fences without an address and notifications of the processor, and the waits and signals that
//! take all their objects in one structure.
//!
//! Mutexes and semaphores of the GPU are refused with STATUS_NOT_SUPPORTED: this scheduler's waits are for values, and a count that several
//! contexts take from is none.

use std::sync::Arc;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use crate::fence::Event;
use crate::process::{Object, Process};
use crate::vidsch::Device;
use crate::vidsch::{FenceOptions, OlderSync, SyncObject};

use super::monitored::{Pairs, Target, signal_with, wait_for};
use super::{enter, enter_read_only};

/// Most objects, and most further contexts, of one call. [d3dukmdt: D3DDDI_MAX_OBJECT_SIGNALED, D3DDDI_MAX_BROADCAST_CONTEXT]
const OBJECTS_MAX: u32 = 32;

/// Creates the object of a request that is not a monitored fence.
///
/// # Errors
/// STATUS_NOT_SUPPORTED for mutexes, semaphores, fences of displays, sharing, and native fences, which have a thunk of their own;
/// STATUS_INVALID_PARAMETER for flags that only a monitored fence has; STATUS_INVALID_HANDLE and STATUS_OBJECT_TYPE_MISMATCH for
/// what is no event.
pub(super) fn create(
    process: &Process,
    device: &Arc<Device>,
    info: &mut D3DDDI_SYNCHRONIZATIONOBJECTINFO2,
) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    use D3DDDI_SYNCHRONIZATIONOBJECT_TYPE as Type;
    if !matches!(info.Type, Type::D3DDDI_FENCE | Type::D3DDDI_CPU_NOTIFICATION) {
        return Err(STATUS_NOT_SUPPORTED);
    }
    if info.Flags.Shared() || info.Flags.NtSecuritySharing() || info.Flags.CrossAdapter() {
        return Err(STATUS_NOT_SUPPORTED);
    }
    if info.Flags.into_bits() != 0 {
        return Err(STATUS_INVALID_PARAMETER);
    }
    let notifies = info.Type == Type::D3DDDI_CPU_NOTIFICATION;
    // SAFETY: every arm of the union is plain numbers, and the whole union was read.
    let value = unsafe { info.u.Fence.FenceValue };
    // SAFETY: as above.
    let event = unsafe { info.u.CPUNotification.Event };
    let event = if notifies { Some(Event::of(process.user(), event)?) } else { None };
    let options = FenceOptions { initial: if notifies { 0 } else { value }, ..FenceOptions::default() };
    let fence = device.adapter.vidsch().create_monitored_fence(device, options)?;
    let object = match event {
        Some(event) => OlderSync::notification(fence, event),
        None => OlderSync::fence(fence),
    };
    let inserted = process.insert_on(device, Object::OlderSync(Arc::clone(&object)));
    let handle = inserted.inspect_err(|_| object.destroy())?;
    info.SharedHandle = 0;
    Ok(handle)
}

/// Only mutexes and semaphores are created so. [d3dkmthk: D3DKMTCreateSynchronizationObject]
pub(super) unsafe extern "win64" fn create_synchronization_object(
    args: *mut D3DKMT_CREATESYNCHRONIZATIONOBJECT,
) -> NTSTATUS {
    enter("D3DKMTCreateSynchronizationObject", args, |process, args| {
        use D3DDDI_SYNCHRONIZATIONOBJECT_TYPE as Type;
        process.get_device(args.hDevice)?.check()?;
        match args.Info.Type {
            Type::D3DDDI_SYNCHRONIZATION_MUTEX | Type::D3DDDI_SEMAPHORE => Err(STATUS_NOT_SUPPORTED),
            _ => Err(STATUS_INVALID_PARAMETER),
        }
    })
}

/// Nothing is shared by a handle that every process knows. [d3dkmthk: D3DKMTOpenSynchronizationObject]
pub(super) unsafe extern "win64" fn open_synchronization_object(
    args: *mut D3DKMT_OPENSYNCHRONIZATIONOBJECT,
) -> NTSTATUS {
    enter("D3DKMTOpenSynchronizationObject", args, |_, _| Err(STATUS_INVALID_PARAMETER))
}

/// Objects with an address need a device, and D3DKMTOpenSyncObjectFromNtHandle2. [d3dkmthk: D3DKMTOpenSyncObjectFromNtHandle]
pub(super) unsafe extern "win64" fn open_sync_object_from_nt_handle(
    args: *mut D3DKMT_OPENSYNCOBJECTFROMNTHANDLE,
) -> NTSTATUS {
    enter("D3DKMTOpenSyncObjectFromNtHandle", args, |process, args| {
        process.get_kernel(args.hNtHandle)?;
        Err(STATUS_INVALID_PARAMETER)
    })
}

/// The objects that a context waits for or signals: those of before monitored fences, and monitored ones as fences.
fn pairs(
    process: &Process,
    device: &Device,
    handles: &[D3DKMT_HANDLE],
    older: impl Fn(&OlderSync) -> Result<(Arc<SyncObject>, u64), NTSTATUS>,
    value: Option<u64>,
) -> Result<Pairs, NTSTATUS> {
    let one = |handle: &D3DKMT_HANDLE| {
        let pair = match process.get_older_sync(*handle) {
            Ok(object) if Arc::ptr_eq(object.object().adapter(), &device.adapter) => older(&object)?,
            Ok(_) => return Err(STATUS_INVALID_PARAMETER),
            Err(_) => (process.get_sync(*handle)?, value.ok_or(STATUS_INVALID_PARAMETER)?),
        };
        let usable = Arc::ptr_eq(pair.0.adapter(), &device.adapter) && pair.0.fence().is_for_cpu();
        if usable { Ok(pair) } else { Err(STATUS_INVALID_PARAMETER) }
    };
    handles.iter().map(one).collect()
}

fn first(handles: &[D3DKMT_HANDLE], count: u32) -> Result<&[D3DKMT_HANDLE], NTSTATUS> {
    if count == 0 || count > OBJECTS_MAX {
        return Err(STATUS_INVALID_PARAMETER);
    }
    handles.get(..count as usize).ok_or(STATUS_INVALID_PARAMETER)
}

fn wait(
    process: &Process,
    context: D3DKMT_HANDLE,
    handles: &[D3DKMT_HANDLE],
    value: Option<u64>,
) -> Result<NTSTATUS, NTSTATUS> {
    let target = Target::of_context(process, context)?;
    target.device().check()?;
    let older = |object: &OlderSync| object.waited(value.ok_or(STATUS_INVALID_PARAMETER)?);
    let pairs = pairs(process, target.device(), handles, older, value)?;
    wait_for(&target, pairs)
}

/// Without a value to wait for: what a context can take are mutexes and semaphores, so that fences are refused.
/// [d3dkmthk: D3DKMTWaitForSynchronizationObject]
pub(super) unsafe extern "win64" fn wait_for_synchronization_object(
    args: *mut D3DKMT_WAITFORSYNCHRONIZATIONOBJECT,
) -> NTSTATUS {
    enter_read_only("D3DKMTWaitForSynchronizationObject", args, |process, args| {
        wait(process, args.hContext, first(&args.ObjectHandleArray, args.ObjectCount)?, None)
    })
}

/// Work that is submitted to a context from now on waits until all of the fences have reached one value. Errors: STATUS_INVALID_PARAMETER for none or
/// more than 32 objects, notifications, and objects of another adapter. [d3dkmthk: D3DKMTWaitForSynchronizationObject2]
pub(super) unsafe extern "win64" fn wait_for_synchronization_object2(
    args: *mut D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2,
) -> NTSTATUS {
    enter_read_only("D3DKMTWaitForSynchronizationObject2", args, |process, args| {
        // SAFETY: every arm of the union is plain numbers.
        let value = unsafe { args.u.Fence.FenceValue };
        wait(process, args.hContext, first(&args.ObjectHandleArray, args.ObjectCount)?, Some(value))
    })
}

fn signal(
    process: &Process,
    context: D3DKMT_HANDLE,
    handles: &[D3DKMT_HANDLE],
    flags: D3DDDICB_SIGNALFLAGS,
    value: Option<u64>,
) -> Result<NTSTATUS, NTSTATUS> {
    let rest = flags.with_SignalAtSubmission(false).with_EnqueueCpuEvent(false).with_AllowFenceRewind(false);
    if rest.into_bits() != 0 {
        return Err(STATUS_INVALID_PARAMETER);
    }
    if flags.EnqueueCpuEvent() {
        return Err(STATUS_NOT_SUPPORTED);
    }
    let target = Target::of_context(process, context)?;
    target.device().check()?;
    let older = |object: &OlderSync| object.signalled(value.unwrap_or(0));
    // All are looked at before the first event is armed.
    pairs(process, target.device(), handles, |object| Ok((Arc::clone(object.object()), 0)), value)?;
    let pairs = pairs(process, target.device(), handles, older, value)?;
    signal_with(&target, pairs, flags.SignalAtSubmission())
}

/// Without a value: notifications, and what this system refuses to create. [d3dkmthk: D3DKMTSignalSynchronizationObject]
pub(super) unsafe extern "win64" fn signal_synchronization_object(
    args: *mut D3DKMT_SIGNALSYNCHRONIZATIONOBJECT,
) -> NTSTATUS {
    enter_read_only("D3DKMTSignalSynchronizationObject", args, |process, args| {
        let handles = first(&args.ObjectHandleArray, args.ObjectCount)?;
        let is_fence =
            |handle: &D3DKMT_HANDLE| process.get_older_sync(*handle).is_ok_and(|object| object.waited(0).is_ok());
        if handles.iter().any(is_fence) {
            return Err(STATUS_INVALID_PARAMETER);
        }
        signal(process, args.hContext, handles, args.Flags, None)
    })
}

/// Fences get one value, and notifications set their events, when what was submitted to a context is done. Errors: as for
/// [`wait_for_synchronization_object2`]; STATUS_NOT_SUPPORTED for further contexts, which would signal together. [d3dkmthk:
/// D3DKMTSignalSynchronizationObject2]
pub(super) unsafe extern "win64" fn signal_synchronization_object2(
    args: *mut D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2,
) -> NTSTATUS {
    enter_read_only("D3DKMTSignalSynchronizationObject2", args, |process, args| {
        if args.BroadcastContextCount != 0 {
            return Err(if args.BroadcastContextCount > 64 { STATUS_INVALID_PARAMETER } else { STATUS_NOT_SUPPORTED });
        }
        // SAFETY: every arm of the union is plain numbers.
        let value = unsafe { args.u.Fence.FenceValue };
        let handles = first(&args.ObjectHandleArray, args.ObjectCount)?;
        signal(process, args.hContext, handles, args.Flags, Some(value))
    })
}

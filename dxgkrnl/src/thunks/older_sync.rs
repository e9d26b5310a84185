//! Synchronization objects of before monitored fences: fences without an address and notifications of the processor, and the waits and signals that
//! take all their objects in one structure.
//!
//! What the objects do is said in [`crate::vidsch::OlderSync`]. They are shared by a handle that every process knows, or with NtSecuritySharing by
//! kernel handles without a name; opening needs no device, since they have no address.

use std::sync::Arc;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, NTSTATUS};

use super::call::{enter, enter_read_only};
use super::target::{BROADCAST_MAX, Target, signal_with, wait_for};
use crate::fence::Event;
use crate::machine::KernelObject;
use crate::process::{Object, Process};
use crate::refusal::{Failure, refused};
use crate::vidsch::{Device, MutexOwner, Objects, OlderKind, OlderSync, OlderSyncHandle, OpenOlderSync};

/// Most objects of one call. [d3dukmdt: D3DDDI_MAX_OBJECT_SIGNALED]
const OBJECTS_MAX: u32 = 32;

/// Creates the object of a request that is not a monitored fence.
///
/// # Errors
/// STATUS_NOT_SUPPORTED for fences of displays and of several adapters, native fences, which have a thunk of their own, and notifications by the driver;
/// STATUS_INVALID_PARAMETER for flags that only a monitored fence has, a semaphore that begins beyond its maximum or has none, and a shared
/// notification, whose event is one process'; STATUS_INVALID_HANDLE and STATUS_OBJECT_TYPE_MISMATCH for what is no event.
pub(super) fn create(
    process: &Process,
    device: &Arc<Device>,
    info: &mut D3DDDI_SYNCHRONIZATIONOBJECTINFO2,
) -> Result<D3DKMT_HANDLE, Failure> {
    use D3DDDI_SYNCHRONIZATIONOBJECT_TYPE as Type;
    let of_older = Type::D3DDDI_SYNCHRONIZATION_MUTEX.0..=Type::D3DDDI_CPU_NOTIFICATION.0;
    if !of_older.contains(&info.Type.0) || info.Flags.CrossAdapter() {
        let why = format!(
            "Info.Type is {} or Info.Flags.CrossAdapter is set, and here are made mutexes, semaphores, fences and notifications of one adapter",
            info.Type.0
        );
        return Err(refused(STATUS_NOT_SUPPORTED, why));
    }
    let (shared, by_kernel) = (info.Flags.Shared(), info.Flags.NtSecuritySharing());
    // Processors wait for no such object, so that nobody has to be kept waiting.
    let rest = info.Flags.with_Shared(false).with_NtSecuritySharing(false).with_UnwaitCpuWaitersOnlyOnDestroy(false);
    let notifies = info.Type == Type::D3DDDI_CPU_NOTIFICATION;
    if notifies && info.Flags.SignalByKmd() {
        let why = "Info.Flags.SignalByKmd is set, and the driver would get the event by DxgkDdiCreateCpuEvent, which no adapter here has";
        return Err(refused(STATUS_NOT_SUPPORTED, why));
    }
    if rest.into_bits() != 0 || (by_kernel && !shared) || (shared && notifies) {
        let why = format!(
            "Info.Flags has {:#x} besides Shared and NtSecuritySharing, or NtSecuritySharing without Shared, or Shared of a notification",
            rest.into_bits()
        );
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    // SAFETY: every arm of the union is plain numbers, and the whole union was read.
    let value = unsafe { info.u.Fence.FenceValue };
    // SAFETY: as above.
    let event = unsafe { info.u.CPUNotification.Event };
    // SAFETY: as above.
    let counts = unsafe { info.u.Semaphore };
    // SAFETY: as above.
    let owned = unsafe { info.u.SynchronizationMutex.InitialState } != 0;
    let kind = match info.Type {
        Type::D3DDDI_SYNCHRONIZATION_MUTEX => mutex(device, owned),
        Type::D3DDDI_SEMAPHORE => OlderKind::Semaphore { count: counts.InitialCount, max: counts.MaxCount },
        Type::D3DDDI_FENCE => OlderKind::Fence(value),
        _ => OlderKind::Notification(Event::of(process.user(), process.events(), event)?),
    };
    let (object, handle) = insert(process, device, kind, (shared, by_kernel))?;
    info.SharedHandle = 0;
    if shared && !by_kernel {
        let published = process
            .whole_machine()
            .ok_or(STATUS_DEVICE_REMOVED.into())
            .and_then(|machine| machine.publish_older_sync(&object));
        info.SharedHandle = published.inspect_err(|_| drop(process.take_if(handle, |_| true)))?;
    }
    Ok(handle)
}

fn mutex(device: &Device, owned: bool) -> OlderKind {
    OlderKind::Mutex(owned.then(|| MutexOwner::Device(device.id())), u32::from(owned))
}

/// A new object with a handle of the process, with which it is destroyed, or with the device.
fn insert(
    process: &Process,
    device: &Arc<Device>,
    kind: OlderKind,
    sharing: (bool, bool),
) -> Result<(Arc<OlderSync>, D3DKMT_HANDLE), Failure> {
    let object = OlderSync::new(&device.adapter, kind, sharing)?;
    let handle = process.insert_on(device, Object::OlderSync(object.open(&process.quotas().shared)?))?;
    Ok((object, handle))
}

/// What a kernel handle of an object stands for, and perhaps a name.
///
/// # Errors
/// STATUS_INVALID_PARAMETER unless it was created for kernel handles; STATUS_OBJECT_NAME_COLLISION for a name that is in use.
pub(super) fn share(process: &Process, handle: D3DKMT_HANDLE, name: Option<Vec<u16>>) -> Result<KernelObject, Failure> {
    let object = Arc::new(OlderSyncHandle(process.get_older_sync(handle)?.shareable()?));
    if let Some(name) = name {
        process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?.name_older_sync(process.named(name), &object)?;
    }
    Ok(KernelObject::OlderSync(object))
}

/// Only mutexes and semaphores are created so, for the process alone. [d3dkmthk: D3DKMTCreateSynchronizationObject]
pub(super) unsafe extern "win64" fn create_synchronization_object(
    args: *mut D3DKMT_CREATESYNCHRONIZATIONOBJECT,
) -> NTSTATUS {
    enter("D3DKMTCreateSynchronizationObject", args, |process, args| {
        use D3DDDI_SYNCHRONIZATIONOBJECT_TYPE as Type;
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        // SAFETY: every arm of the union is plain numbers, and the whole union was read.
        let counts = unsafe { args.Info.u.Semaphore };
        // SAFETY: as above.
        let owned = unsafe { args.Info.u.SynchronizationMutex.InitialState } != 0;
        let kind = match args.Info.Type {
            Type::D3DDDI_SYNCHRONIZATION_MUTEX => mutex(&device, owned),
            Type::D3DDDI_SEMAPHORE => OlderKind::Semaphore { count: counts.InitialCount, max: counts.MaxCount },
            other => {
                let why = format!("Info.Type is {}, and this thunk makes mutexes and semaphores", other.0);
                return Err(refused(STATUS_INVALID_PARAMETER, why));
            }
        };
        (_, args.hSyncObject) = insert(process, &device, kind, (false, false))?;
        Ok(STATUS_SUCCESS)
    })
}

/// Opens an object by the handle that every process knows. Errors: STATUS_INVALID_PARAMETER for a handle of no object, STATUS_DEVICE_REMOVED if its
/// adapter is gone. [d3dkmthk: D3DKMTOpenSynchronizationObject]
pub(super) unsafe extern "win64" fn open_synchronization_object(
    args: *mut D3DKMT_OPENSYNCHRONIZATIONOBJECT,
) -> NTSTATUS {
    enter("D3DKMTOpenSynchronizationObject", args, |process, args| {
        let object = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?.older_sync(args.hSharedHandle)?;
        args.hSyncObject = process.insert(Object::OlderSync(object.open(&process.quotas().shared)?))?;
        Ok(STATUS_SUCCESS)
    })
}

/// Opens an object by a kernel handle. Monitored fences have an address, and need a device and D3DKMTOpenSyncObjectFromNtHandle2: they are
/// STATUS_INVALID_PARAMETER. [d3dkmthk: D3DKMTOpenSyncObjectFromNtHandle]
pub(super) unsafe extern "win64" fn open_sync_object_from_nt_handle(
    args: *mut D3DKMT_OPENSYNCOBJECTFROMNTHANDLE,
) -> NTSTATUS {
    enter("D3DKMTOpenSyncObjectFromNtHandle", args, |process, args| {
        let KernelObject::OlderSync(object) = process.get_kernel(args.hNtHandle)? else {
            let why = "hNtHandle is of no mutex, semaphore, fence or notification: D3DKMTOpenSyncObjectFromNtHandle2 opens monitored fences";
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        };
        args.hSyncObject = process.insert(Object::OlderSync(object.0.open(&process.quotas().shared)?))?;
        Ok(STATUS_SUCCESS)
    })
}

fn of_other_adapter(handle: D3DKMT_HANDLE) -> Failure {
    let why = format!("object {handle:#x} is of another adapter than the context, or a fence for engines only");
    refused(STATUS_INVALID_PARAMETER, why)
}

/// Adds an object, and the value if the thunk has one, to those that a context waits for or signals: one of before monitored fences that `check`
/// allows, or a monitored fence.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for an object of another adapter or for engines only, and a fence without a value; what `check` says.
pub(super) fn add(
    process: &Process,
    target: &Target,
    objects: &mut Objects,
    (handle, value): (D3DKMT_HANDLE, Option<u64>),
    check: impl Fn(&OpenOlderSync, bool) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let adapter = &target.device().adapter;
    if let Ok(object) = process.get_older_sync(handle) {
        if !object.is_of(adapter) {
            return Err(of_other_adapter(handle));
        }
        check(&object, value.is_some())?;
        objects.older.push((object, value.unwrap_or(0)));
        return Ok(());
    }
    let fence = process.get_sync(handle)?;
    let valueless = || format!("object {handle:#x} is a fence, and this thunk has no value for it");
    let value = value.ok_or_else(|| refused(STATUS_INVALID_PARAMETER, valueless()))?;
    if !Arc::ptr_eq(fence.adapter(), adapter) || !fence.fence().is_for_cpu() {
        return Err(of_other_adapter(handle));
    }
    objects.fences.push((fence, value));
    Ok(())
}

/// An event of the processor is set when what was submitted to contexts is done. No object is signalled with it: the event stands where their
/// values would. [d3dumddi: D3DDDICB_SIGNALFLAGS::EnqueueCpuEvent]
///
/// # Errors
/// STATUS_INVALID_PARAMETER for objects beside it, or other flags; as for a notification.
pub(super) fn enqueue_event(
    process: &Process,
    targets: &[Target],
    flags: D3DDDICB_SIGNALFLAGS,
    (count, event): (u32, HANDLE),
) -> Result<NTSTATUS, Failure> {
    let [target, ..] = targets else { return Err(STATUS_INVALID_PARAMETER.into()) };
    let rest = flags.with_SignalAtSubmission(false).with_EnqueueCpuEvent(false);
    if count != 0 || rest.into_bits() != 0 {
        let why = format!(
            "Flags.EnqueueCpuEvent is set with {count} objects and the further flags {:#x}, and expected are none besides SignalAtSubmission",
            rest.into_bits()
        );
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    target.device().check()?;
    let object = OlderSync::new(
        &target.device().adapter,
        OlderKind::Notification(Event::of(process.user(), process.events(), event)?),
        (false, false),
    )?;
    let mut signals = Objects::default();
    signals.older.push((object.open(&process.quotas().shared)?, 0));
    signal_with(targets, signals, flags.SignalAtSubmission())
}

fn first(handles: &[D3DKMT_HANDLE], count: u32) -> Result<&[D3DKMT_HANDLE], Failure> {
    if count == 0 || count > OBJECTS_MAX {
        let why = format!("ObjectCount is {count}, and expected is 1 to {OBJECTS_MAX}");
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    handles.get(..count as usize).ok_or(STATUS_INVALID_PARAMETER.into())
}

fn wait(
    process: &Process,
    context: D3DKMT_HANDLE,
    handles: &[D3DKMT_HANDLE],
    value: Option<u64>,
) -> Result<NTSTATUS, Failure> {
    let target = Target::of_context(process, context)?;
    target.device().check()?;
    let mut conditions = Objects::default();
    handles
        .iter()
        .try_for_each(|handle| add(process, &target, &mut conditions, (*handle, value), OpenOlderSync::check_wait))?;
    wait_for(&target, conditions)
}

/// Without a value to wait for: a context takes mutexes and semaphores, and fences are refused.
/// [d3dkmthk: D3DKMTWaitForSynchronizationObject]
pub(super) unsafe extern "win64" fn wait_for_synchronization_object(
    args: *mut D3DKMT_WAITFORSYNCHRONIZATIONOBJECT,
) -> NTSTATUS {
    enter_read_only("D3DKMTWaitForSynchronizationObject", args, |process, args| {
        wait(process, args.hContext, first(&args.ObjectHandleArray, args.ObjectCount)?, None)
    })
}

/// Work that is submitted to a context from now on waits until all of the fences have reached one value, and it has taken the mutexes and
/// semaphores. Errors: STATUS_INVALID_PARAMETER for none or
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
    targets: &[Target],
    handles: &[D3DKMT_HANDLE],
    flags: D3DDDICB_SIGNALFLAGS,
    value: Option<u64>,
) -> Result<NTSTATUS, Failure> {
    let [target, ..] = targets else { return Err(STATUS_INVALID_PARAMETER.into()) };
    let rest = flags.with_SignalAtSubmission(false).with_AllowFenceRewind(false);
    if rest.into_bits() != 0 {
        return Err(refused(STATUS_INVALID_PARAMETER, "Flags has more than SignalAtSubmission and AllowFenceRewind"));
    }
    target.device().check()?;
    let mut signals = Objects::default();
    handles
        .iter()
        .try_for_each(|handle| add(process, target, &mut signals, (*handle, value), OpenOlderSync::check_signal))?;
    signal_with(targets, signals, flags.SignalAtSubmission())
}

/// Without a value: mutexes, semaphores and notifications, so that fences are refused. [d3dkmthk: D3DKMTSignalSynchronizationObject]
pub(super) unsafe extern "win64" fn signal_synchronization_object(
    args: *mut D3DKMT_SIGNALSYNCHRONIZATIONOBJECT,
) -> NTSTATUS {
    enter_read_only("D3DKMTSignalSynchronizationObject", args, |process, args| {
        let handles = first(&args.ObjectHandleArray, args.ObjectCount)?;
        signal(process, &[Target::of_context(process, args.hContext)?], handles, args.Flags, None)
    })
}

/// Fences get one value, mutexes and semaphores are given back, and notifications set their events, when what was submitted to a context is
/// done; with EnqueueCpuEvent an event is set instead. Errors: as for
/// [`wait_for_synchronization_object2`]; STATUS_INVALID_PARAMETER for more than 64 further contexts, and for those of another device. With further
/// contexts the objects are signalled when what was submitted to all of them is done. [d3dkmthk: D3DKMTSignalSynchronizationObject2; d3dumddi:
/// D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT2]
pub(super) unsafe extern "win64" fn signal_synchronization_object2(
    args: *mut D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2,
) -> NTSTATUS {
    enter_read_only("D3DKMTSignalSynchronizationObject2", args, |process, args| {
        if args.BroadcastContextCount > BROADCAST_MAX {
            let why = format!(
                "BroadcastContextCount is {}, and at most {BROADCAST_MAX} are taken",
                args.BroadcastContextCount
            );
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let further = args.BroadcastContext.iter().take(args.BroadcastContextCount as usize);
        let contexts: Vec<D3DKMT_HANDLE> = [args.hContext].iter().chain(further).copied().collect();
        let targets = Target::of_contexts(process, &contexts)?;
        if args.Flags.EnqueueCpuEvent() {
            // SAFETY: every arm of the union is plain numbers.
            let event = unsafe { args.u.CpuEventHandle };
            return enqueue_event(process, &targets, args.Flags, (args.ObjectCount, event));
        }
        // SAFETY: every arm of the union is plain numbers.
        let value = unsafe { args.u.Fence.FenceValue };
        let handles = first(&args.ObjectHandleArray, args.ObjectCount)?;
        signal(process, &targets, handles, args.Flags, Some(value))
    })
}

//! Monitored fences: creation, and the waits and signals of contexts and queues that the kernel schedules.
//!
//! A wait or signal is a command of software in the software queue of a context of packets, or of a queue for kernel-mode submission; a hardware context stands for its
//! queue if it has exactly one.

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use super::call::{enter, enter_read_only};
use super::target::{BROADCAST_MAX, Target, signal_with, wait_for};
use super::{older_sync, sync, user};
use crate::fence::Rights;
use crate::process::Process;
use crate::refusal::{Failure, refused};
use crate::vidsch::{FenceOptions, Objects, OpenOlderSync};

/// Creates a monitored fence, private or shared by kernel handles, or an object of before these (see `older_sync`). [d3dkmthk: D3DKMTCreateSynchronizationObject2;
/// context-monitoring: creating a monitored fence]
///
/// # Safety
/// Callable with any arguments: pointers are checked.
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTCreateSynchronizationObject2(
    args: *mut D3DKMT_CREATESYNCHRONIZATIONOBJECT2,
) -> NTSTATUS {
    enter("D3DKMTCreateSynchronizationObject2", args, |process, args| {
        const KNOWN: u32 = 0x7ff;
        type Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE;
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let info = &mut args.Info;
        if !(Type::D3DDDI_SYNCHRONIZATION_MUTEX.0..Type::D3DDDI_SYNCHRONIZATION_TYPE_LIMIT.0).contains(&info.Type.0)
            || info.Flags.into_bits() & !KNOWN != 0
        {
            let why = format!(
                "Info.Type is {} or Info.Flags {:#x}, which no synchronization object has",
                info.Type.0,
                info.Flags.into_bits()
            );
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        if info.Type != Type::D3DDDI_MONITORED_FENCE {
            args.hSyncObject = older_sync::create(process, &device, info)?;
            return Ok(STATUS_SUCCESS);
        }
        // SAFETY: every arm of the union is plain numbers.
        let mut made = unsafe { info.u.MonitoredFence };
        // Without access for GPUs the fence has no address for them; contexts wait for it and signal it by software all the same.
        // A signal may come when the commands before it were taken in, and need not: here it comes when they are done, with TopOfPipeline as without.
        let rest = sync::check_sharing(info.Flags.with_NoGPUAccess(false).with_TopOfPipeline(false))?;
        if !device.adapter.caps().has_engines(made.EngineAffinity) {
            let why = format!(
                "MonitoredFence.EngineAffinity {:#x} names an engine that the adapter has not",
                made.EngineAffinity
            );
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        if rest != 0 {
            return Err(refused(STATUS_NOT_SUPPORTED, format!("Info.Flags has {rest:#x}, which is not supported")));
        }
        let options = FenceOptions {
            initial: made.InitialFenceValue,
            shareable: info.Flags.Shared(),
            cross_adapter: info.Flags.CrossAdapter(),
            rights: Rights::of_flags(info.Flags)?,
            keeps_value: info.Flags.NoSignalMaxValueOnTdr(),
            waiters_stay: info.Flags.UnwaitCpuWaitersOnlyOnDestroy(),
            ..FenceOptions::default()
        };
        let fence = device.adapter.vidsch().create_monitored_fence(&device, options)?;
        args.hSyncObject = sync::insert(process, &device, &fence)?;
        made.FenceValueCPUVirtualAddress = core::ptr::with_exposed_provenance_mut(fence.user_address());
        made.FenceValueGPUVirtualAddress = fence.gpu_address();
        info.u.MonitoredFence = made;
        info.SharedHandle = 0;
        Ok(STATUS_SUCCESS)
    })
}

/// Place of the values that a wait or a signal names.
#[derive(Clone, Copy)]
struct Values {
    /// An array with one for each object.
    array: *mut u64,
    /// For thunks that have it in the same place: the one for all objects where none is a monitored fence; a D3DDDI_FENCE has no array.
    /// [d3dkmthk: D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU::FenceValue]
    of_older: Option<u64>,
}

impl Values {
    fn array(array: *mut u64) -> Self {
        Self { array, of_older: None }
    }
}

/// Objects of a wait or a signal: how many, their handles, their values.
type Listed = (u32, *mut D3DKMT_HANDLE, Values);

/// Handles and values that a wait or a signal names.
fn read_pairs(target: &Target, process: &Process, objects: Listed) -> Result<Vec<(D3DKMT_HANDLE, u64)>, Failure> {
    target.device().check()?;
    let (count, handles, values) = objects;
    if count == 0 || count > sync::OBJECTS_MAX {
        let why = format!("ObjectCount is {count}, and expected are 1 to {}", sync::OBJECTS_MAX);
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    let handles = user::read_array(handles.cast_const(), count)?;
    let is_older = |handle: &D3DKMT_HANDLE| process.get_older_sync(*handle).is_ok();
    match values.of_older {
        Some(value) if handles.iter().all(is_older) => Ok(handles.into_iter().map(|handle| (handle, value)).collect()),
        _ => Ok(handles.into_iter().zip(user::read_array(values.array.cast_const(), count)?).collect()),
    }
}

fn wait(process: &Process, target: &Target, objects: Listed) -> Result<NTSTATUS, Failure> {
    let mut conditions = Objects::default();
    for (handle, value) in read_pairs(target, process, objects)? {
        older_sync::add(process, target, &mut conditions, (handle, Some(value)), OpenOlderSync::check_wait)?;
    }
    wait_for(target, conditions)
}

fn signal(
    process: &Process,
    targets: &[Target],
    flags: D3DDDICB_SIGNALFLAGS,
    objects: Listed,
) -> Result<NTSTATUS, Failure> {
    let [target, ..] = targets else { return Err(STATUS_INTERNAL_ERROR.into()) };
    // The values of a queue may go back as those of a GPU may, so that there is nothing to allow.
    let rest = flags.with_SignalAtSubmission(false).with_AllowFenceRewind(false);
    if rest.into_bits() != 0 {
        return Err(refused(STATUS_INVALID_PARAMETER, "Flags has more than SignalAtSubmission and AllowFenceRewind"));
    }
    let mut signals = Objects::default();
    for (handle, value) in read_pairs(target, process, objects)? {
        older_sync::add(process, target, &mut signals, (handle, Some(value)), OpenOlderSync::check_signal)?;
    }
    signal_with(targets, signals, flags.SignalAtSubmission())
}

/// The handles of those that signal together.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for none, or too many.
fn broadcast(count: u32, handles: *mut D3DKMT_HANDLE) -> Result<Vec<D3DKMT_HANDLE>, Failure> {
    if count == 0 || count > BROADCAST_MAX {
        let why = format!("{count} contexts or queues signal together, and expected are 1 to {BROADCAST_MAX}");
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    user::read_array(handles.cast_const(), count)
}

/// Work that is submitted to a context from now on waits for fences. [d3dkmthk: D3DKMTWaitForSynchronizationObjectFromGpu]
///
/// # Safety
/// As [`D3DKMTCreateSynchronizationObject2`].
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTWaitForSynchronizationObjectFromGpu(
    args: *mut D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU,
) -> NTSTATUS {
    enter_read_only("D3DKMTWaitForSynchronizationObjectFromGpu", args, |process, args| {
        let target = Target::of_context(process, args.hContext)?;
        // SAFETY: every arm of the union is plain numbers.
        let array = unsafe { args.u.MonitoredFenceValueArray };
        // SAFETY: as above.
        let of_older = Some(unsafe { args.u.FenceValue });
        wait(process, &target, (args.ObjectCount, args.ObjectHandleArray, Values { array, of_older }))
    })
}

/// Fences get values when what was submitted to a context is done. [d3dkmthk: D3DKMTSignalSynchronizationObjectFromGpu]
///
/// # Safety
/// As [`D3DKMTCreateSynchronizationObject2`].
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTSignalSynchronizationObjectFromGpu(
    args: *mut D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU,
) -> NTSTATUS {
    enter_read_only("D3DKMTSignalSynchronizationObjectFromGpu", args, |process, args| {
        let target = Target::of_context(process, args.hContext)?;
        // SAFETY: every arm of the union is plain numbers.
        let values = Values::array(unsafe { args.u.MonitoredFenceValueArray });
        let objects = (args.ObjectCount, args.ObjectHandleArray, values);
        signal(process, &[target], D3DDDICB_SIGNALFLAGS::new(), objects)
    })
}

/// As [`D3DKMTSignalSynchronizationObjectFromGpu`], with flags, when what was submitted to all of some contexts of a device is done. [d3dkmthk: D3DKMTSignalSynchronizationObjectFromGpu2]
///
/// # Safety
/// As [`D3DKMTCreateSynchronizationObject2`].
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTSignalSynchronizationObjectFromGpu2(
    args: *mut D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2,
) -> NTSTATUS {
    enter_read_only("D3DKMTSignalSynchronizationObjectFromGpu2", args, |process, args| {
        let contexts = broadcast(args.BroadcastContextCount, args.BroadcastContextArray)?;
        let targets = Target::of_contexts(process, &contexts)?;
        if args.Flags.EnqueueCpuEvent() {
            // SAFETY: every arm of the union is plain numbers.
            let event = unsafe { args.u.CpuEventHandle };
            return older_sync::enqueue_event(process, &targets, args.Flags, (args.ObjectCount, event));
        }
        // SAFETY: every arm of the union is plain numbers.
        let array = unsafe { args.u.MonitoredFenceValueArray };
        // SAFETY: as above.
        let of_older = Some(unsafe { args.u.FenceValue });
        let objects = (args.ObjectCount, args.ObjectHandleArray, Values { array, of_older });
        signal(process, &targets, args.Flags, objects)
    })
}

/// Work that is submitted to a hardware queue from now on waits for fences. [d3dkmthk: D3DKMTSubmitWaitForSyncObjectsToHwQueue]
///
/// # Safety
/// As [`D3DKMTCreateSynchronizationObject2`].
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTSubmitWaitForSyncObjectsToHwQueue(
    args: *mut D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE,
) -> NTSTATUS {
    enter_read_only("D3DKMTSubmitWaitForSyncObjectsToHwQueue", args, |process, args| {
        let target = Target::Queue(process.get_hw_queue(args.hHwQueue)?);
        wait(process, &target, (args.ObjectCount, args.ObjectHandleArray, Values::array(args.FenceValueArray)))
    })
}

/// Fences get values when what was submitted to all of some hardware queues of a device is done. [d3dkmthk: D3DKMTSubmitSignalSyncObjectsToHwQueue]
///
/// # Safety
/// As [`D3DKMTCreateSynchronizationObject2`].
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTSubmitSignalSyncObjectsToHwQueue(
    args: *mut D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE,
) -> NTSTATUS {
    enter_read_only("D3DKMTSubmitSignalSyncObjectsToHwQueue", args, |process, args| {
        let queues = broadcast(args.BroadcastHwQueueCount, args.BroadcastHwQueueArray)?;
        let targets = queues.into_iter().map(|queue| process.get_hw_queue(queue).map(Target::Queue));
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        let objects = (args.ObjectCount, args.ObjectHandleArray, Values::array(args.FenceValueArray));
        signal(process, &targets, args.Flags, objects)
    })
}

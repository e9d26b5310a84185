//! Thunks of fences: creation, CPU waits and CPU signals.

use std::sync::Arc;

use wddm_ddi::km::D3DDDI_NATIVEFENCE_TYPE;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use crate::fence::{Event, Rights};
use crate::process::{Object, Process};
use crate::refusal::{Failure, refused};
use crate::vidsch::{self, Device, FenceOptions, RenderAdapter, SyncObject};

use super::call::{enter, enter_read_only};
use super::{power, user};

/// Most fences of one wait or signal.
pub(super) const OBJECTS_MAX: u32 = 64;

/// [d3dkmthk: D3DKMTCreateNativeFence]
pub(super) unsafe extern "win64" fn create_native_fence(args: *mut D3DKMT_CREATENATIVEFENCE) -> NTSTATUS {
    enter("D3DKMTCreateNativeFence", args, |process, args| {
        let device = process.get_device(args.hDevice)?;
        device.check()?;
        let intra_gpu = check_info(&device.adapter, args)?;
        let mut private = args.PrivateDriverData;
        let options = FenceOptions {
            initial: args.Info.InitialFenceValue,
            shareable: args.Info.Flags.NtSecuritySharing(),
            cross_adapter: args.Info.Flags.CrossAdapter(),
            intra_gpu,
            rights: Rights::of_flags(args.Info.Flags)?,
            keeps_value: args.Info.Flags.NoSignalMaxValueOnTdr(),
            waiters_stay: args.Info.Flags.UnwaitCpuWaitersOnlyOnDestroy(),
            ..FenceOptions::default()
        };
        let fence = device.adapter.vidsch().create_native_fence(&device, options, &mut private)?;
        args.hSyncObject = insert(process, &device, &fence)?;
        args.PrivateDriverData = private;
        args.Info.NativeFenceMapping = mapping(&fence);
        Ok(STATUS_SUCCESS)
    })
}

/// Gives an open fence a handle, or closes it.
pub(super) fn insert(process: &Process, device: &Device, fence: &Arc<SyncObject>) -> Result<D3DKMT_HANDLE, Failure> {
    let inserted = process.insert_on(device, Object::Sync(Arc::clone(fence)));
    let handle = inserted.inspect_err(|_| fence.destroy())?;
    device.adapter.vidsch().name_fence(process.id(), handle, fence);
    Ok(handle)
}

/// Addresses of a fence's values in the process.
pub(super) fn mapping(fence: &SyncObject) -> D3DDDI_NATIVEFENCEMAPPING {
    D3DDDI_NATIVEFENCEMAPPING {
        CurrentValueCpuVa: core::ptr::with_exposed_provenance_mut(fence.user_address()),
        CurrentValueGpuVa: fence.gpu_address(),
        MonitoredValueGpuVa: fence.monitored_gpu_address(),
        Reserved: [0; 32],
    }
}

/// Checks what is asked for, and whether it is a fence for engines only. What the interface knows and this system does not have is
/// refused by name; only a fence of the default type can be used across adapters.
fn check_info(adapter: &RenderAdapter, args: &D3DKMT_CREATENATIVEFENCE) -> Result<bool, Failure> {
    const KNOWN: u32 = 0x7ff;
    let info = &args.Info;
    let flags = info.Flags.into_bits();
    let reserved = args.Reserved.iter().chain(&info.Reserved).any(|byte| *byte != 0);
    if args.Flags.into_bits() != 0
        || flags & !KNOWN != 0
        || reserved
        || !adapter.caps().has_engines(info.EngineAffinity)
    {
        let why = "Flags, Info.Flags or a reserved member has what no native fence may have, or Info.EngineAffinity names an engine that the adapter has not";
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    let others = check_sharing(info.Flags)?;
    // What only notifications of the processor, and only monitored fences, may have. [d3dukmdt: D3DDDI_CPU_NOTIFICATION,
    // D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS]
    if info.Flags.SignalByKmd() || info.Flags.TopOfPipeline() {
        let why = "Info.Flags.SignalByKmd or TopOfPipeline is set for a native fence";
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    let intra_gpu = match info.Type {
        D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_DEFAULT => false,
        D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU => true,
        other => return Err(refused(STATUS_INVALID_PARAMETER, format!("Info.Type is {}", other.0))),
    };
    // The engines of several GPUs are not one GPU's.
    if intra_gpu && info.Flags.CrossAdapter() {
        let why = "Info.Flags.CrossAdapter is set for a fence of the type INTRA_GPU";
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    let unsupported = || refused(STATUS_NOT_SUPPORTED, format!("Info.Flags has {others:#x}, which is not supported"));
    if others == 0 { Ok(intra_gpu) } else { Err(unsupported()) }
}

/// Flags that say who may use a fence and what becomes of its value; the answer is the flags beside them.
///
/// # Errors
/// STATUS_INVALID_PARAMETER unless sharing is by kernel handles, kernel handles are for sharing, and a fence of several adapters is
/// shared.
pub(super) fn check_sharing(flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS) -> Result<u32, Failure> {
    if flags.Shared() != flags.NtSecuritySharing() || (flags.CrossAdapter() && !flags.Shared()) {
        let why = "Flags.Shared and NtSecuritySharing are not set together, or CrossAdapter is set without them";
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    let rest = flags.with_Shared(false).with_NtSecuritySharing(false).with_CrossAdapter(false);
    let rest = rest.with_NoSignalMaxValueOnTdr(false).with_UnwaitCpuWaitersOnlyOnDestroy(false);
    Ok(rest.with_NoSignal(false).with_NoWait(false).into_bits())
}

/// Refused for the progress fence of a queue, which goes with the queue. [d3dkmthk: D3DKMTDestroySynchronizationObject]
pub(super) unsafe extern "win64" fn destroy_synchronization_object(
    args: *mut D3DKMT_DESTROYSYNCHRONIZATIONOBJECT,
) -> NTSTATUS {
    enter_read_only("D3DKMTDestroySynchronizationObject", args, |process, args| {
        if process.get_sync(args.hSyncObject).is_ok_and(|fence| fence.is_of_queue()) {
            let why = format!("{:#x} is the progress fence of a queue, which ends with the queue", args.hSyncObject);
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let wanted = |object: &Object| matches!(object, Object::Sync(_) | Object::OlderSync(_));
        process.take_if(args.hSyncObject, wanted)?.destroy();
        Ok(STATUS_SUCCESS)
    })
}

/// Fences with values, all on the adapter of `device` and none for engines only.
pub(super) fn read_pairs(
    process: &Process,
    device: &Device,
    count: u32,
    handles: *const D3DKMT_HANDLE,
    values: *const u64,
) -> Result<Vec<(Arc<SyncObject>, u64)>, Failure> {
    if count == 0 || count > OBJECTS_MAX {
        let why = format!("ObjectCount is {count}, and expected are 1 to {OBJECTS_MAX}");
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    let handles = user::read_array(handles, count)?;
    let values = user::read_array(values, count)?;
    let pairs: Vec<_> = handles
        .into_iter()
        .zip(values)
        .map(|(handle, value)| Ok((process.get_sync(handle)?, value)))
        .collect::<Result<_, Failure>>()?;
    let usable = |fence: &SyncObject| Arc::ptr_eq(fence.adapter(), &device.adapter) && fence.fence().is_for_cpu();
    let why = "a fence is of another adapter than the device, or one that no processor waits for";
    let all = pairs.iter().all(|(fence, _)| usable(fence));
    if all { Ok(pairs) } else { Err(refused(STATUS_INVALID_PARAMETER, why)) }
}

/// Blocks, or signals an event later: `hAsyncEvent` is the number of an eventfd here. [d3dkmthk:
/// D3DKMTWaitForSynchronizationObjectFromCpu]
pub(super) unsafe extern "win64" fn wait_for_synchronization_object_from_cpu(
    args: *mut D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU,
) -> NTSTATUS {
    enter_read_only("D3DKMTWaitForSynchronizationObjectFromCpu", args, |process, args| {
        const KNOWN: u32 = 0x1;
        // Whoever destroys the device, or the fences, ends the wait.
        let device = process.get_device(args.hDevice)?.let_go();
        device.check()?;
        if args.Flags.into_bits() & !KNOWN != 0 {
            return Err(refused(STATUS_INVALID_PARAMETER, "Flags has more than WaitAny"));
        }
        let (handles, values) = (args.ObjectHandleArray.cast_const(), args.FenceValueArray.cast_const());
        let conditions = read_pairs(process, &device, args.ObjectCount, handles, values)?;
        if conditions.iter().any(|(fence, _)| !fence.rights().wait) {
            return Err(refused(STATUS_ACCESS_DENIED, "a fence was created with NoWait"));
        }
        vidsch::check_waits(&conditions)?;
        let sch = device.adapter.vidsch();
        let any = args.Flags.WaitAny();
        if args.hAsyncEvent.is_null() {
            return Ok(sch.wait(&conditions, any, None));
        }
        sch.wait_with_event(&conditions, any, Event::of(process.user(), process.events(), args.hAsyncEvent)?)?;
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTSignalSynchronizationObjectFromCpu]
pub(super) unsafe extern "win64" fn signal_synchronization_object_from_cpu(
    args: *mut D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU,
) -> NTSTATUS {
    enter_read_only("D3DKMTSignalSynchronizationObjectFromCpu", args, |process, args| {
        let device = process.get_device(args.hDevice)?.let_go();
        device.check()?;
        let rewind = args.Flags.AllowFenceRewind();
        if args.Flags.with_AllowFenceRewind(false).into_bits() != 0 {
            return Err(refused(STATUS_INVALID_PARAMETER, "Flags has more than AllowFenceRewind"));
        }
        let (handles, values) = (args.ObjectHandleArray.cast_const(), args.FenceValueArray.cast_const());
        let signals = read_pairs(process, &device, args.ObjectCount, handles, values)?;
        if signals.iter().any(|(fence, _)| fence.is_of_queue()) {
            let why = "a progress fence of a queue is signalled by its queue alone";
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        if signals.iter().any(|(fence, _)| !fence.rights().signal) {
            return Err(refused(STATUS_ACCESS_DENIED, "a fence was created with NoSignal"));
        }
        vidsch::check_signals(&signals)?;
        // Unfinished work of the device may wait for one of them.
        let sch = device.adapter.vidsch();
        let on_device = || signals.iter().any(|(fence, _)| fence.fence().is_on_device());
        let _powered = power::where_needed(process, || on_device() || sch.trace_of_idle(None).is_none());
        vidsch::signal(&signals, rewind)?;
        Ok(STATUS_SUCCESS)
    })
}

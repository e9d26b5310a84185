//! Synchronization objects of before monitored fences that several processes have open, and those of another adapter.

use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::D3DDDI_SYNCHRONIZATIONOBJECT_TYPE as Type;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::fence_cross_adapter::{rigs, two_native};
use super::shared_resource::failed;
use crate::cases::older_sync::{create, destroy, give, open_global, signal, take, wait};
use crate::kmt::BAD_ARGUMENT;
use crate::rig::{KernelHandle, Rig};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};

cases! { inside "OlderSync", behind "it is several processes, or several adapters";
    "OlderSync.ProcessesShareByGlobalHandles" on Boot::Fresh, "d3dkmtopensynchronizationobject":
        "A context of another process that opens a semaphore by its global handle waits for the signals of the creator's; what that process owns of a mutex is given up when it ends, and the objects outlive their creator."
        => global_handles;
    "OlderSync.ProcessesShareByKernelHandles" on Boot::Fresh, "d3dkmtopensyncobjectfromnthandle":
        "A semaphore with NtSecuritySharing has no global handle, is opened by a kernel handle without a device, and lives while such a handle does; the kernel handle of a monitored fence does not open one."
        => kernel_handles;
    "OlderSync.OtherAdaptersAreRefused" on Boot::With(two_native), "d3dkmtwaitforsynchronizationobject":
        "Contexts of another adapter neither wait for a mutex, a semaphore or a fence nor signal it, whether it was created or opened."
        => other_adapter;
}

fn shared(rig: &Rig, kind: Type, by_kernel: bool) -> Result<D3DKMT_CREATESYNCHRONIZATIONOBJECT2, Failure> {
    let created = create(rig, kind, |info| {
        info.Flags.set_Shared(true);
        info.Flags.set_NtSecuritySharing(by_kernel);
        if kind == Type::D3DDDI_SEMAPHORE {
            info.u.Semaphore = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Semaphore { MaxCount: 4, InitialCount: 0 };
        }
    });
    created.map_err(failed("D3DKMTCreateSynchronizationObject2"))
}

fn opened(rig: &Rig, global: D3DKMT_HANDLE) -> Result<D3DKMT_HANDLE, Failure> {
    open_global(rig, global).map_err(failed("D3DKMTOpenSynchronizationObject"))
}

fn global_handles(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    let (count, mutex) =
        (shared(&rig, Type::D3DDDI_SEMAPHORE, false)?, shared(&rig, Type::D3DDDI_SYNCHRONIZATION_MUTEX, false)?);
    let (global, globally) = (count.Info.SharedHandle, mutex.Info.SharedHandle);
    let left = case.in_other_process(|system| {
        let other = Rig::open(system.luid())?;
        let mut theirs = other.packet_queue(NODE_COPY)?;
        let (semaphore, owned) = (opened(&other, global)?, opened(&other, globally)?);
        granted(take(&other, theirs.context, &[semaphore, owned]), "a wait for both")?;
        let value = other.packet_submit(&mut theirs, &[])?;
        case.on_thread(|| {
            rig.packet_execute(&mut queue, &[])?;
            ensure!(theirs.progress.value.load() < value, "the other process passed a semaphore that has none");
            granted(give(&rig, queue.context, count.hSyncObject), "the creator's signal")
        })?;
        other.packet_wait(&theirs, value)?;
        // This process gets the mutex when that one has gone.
        let waiting = case.on_thread(|| {
            granted(take(&rig, queue.context, &[mutex.hSyncObject]), "a wait for what the other process owns")?;
            rig.packet_submit(&mut queue, &[])
        })?;
        let made = shared(&other, Type::D3DDDI_FENCE, false)?;
        let kept = case.on_thread(|| opened(&rig, made.Info.SharedHandle))?;
        Ok((waiting, kept))
    })?;
    let (value, kept) = left;
    rig.packet_wait(&queue, value)?;
    granted(signal(&rig, queue.context, &[kept], 2), "a signal of what another process created")?;
    granted(wait(&rig, queue.context, &[kept], 2), "a wait for it")?;
    rig.packet_execute(&mut queue, &[])
}

fn by_kernel_handle(rig: &Rig, handle: KernelHandle) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let mut arguments = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE::zeroed();
    arguments.hNtHandle = handle.raw();
    rig.kmt.call(rig.kmt.further().D3DKMTOpenSyncObjectFromNtHandle, &mut arguments).ok()?;
    Ok(arguments.hSyncObject)
}

fn kernel_handles(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    let count = shared(&rig, Type::D3DDDI_SEMAPHORE, true)?;
    ensure_eq!(count.Info.SharedHandle, 0, "global handle of an object for kernel handles");
    let handle = rig.share(&[count.hSyncObject]).map_err(failed("D3DKMTShareObjects"))?;
    granted(signal(&rig, queue.context, &[count.hSyncObject], 0), "a signal")?;
    rig.packet_execute(&mut queue, &[])?;
    granted(destroy(&rig, count.hSyncObject), "destroying the creator's handle")?;
    let again = by_kernel_handle(&rig, handle).map_err(failed("D3DKMTOpenSyncObjectFromNtHandle"))?;
    granted(handle.close(), "closing the kernel handle")?;
    granted(take(&rig, queue.context, &[again]), "a wait for what was signalled before")?;
    rig.packet_execute(&mut queue, &[])?;
    let global = shared(&rig, Type::D3DDDI_SEMAPHORE, false)?;
    let Err(status) = rig.share(&[global.hSyncObject]) else { return Err(Failure::new("it has a kernel handle, too")) };
    refused(status, BAD_ARGUMENT, "a kernel handle of an object with a global one")?;
    let flags = D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new().with_Shared(true).with_NtSecuritySharing(true);
    let monitored = rig.monitored_fence(0, flags)?;
    let handle = rig.share(&[monitored.handle]).map_err(failed("D3DKMTShareObjects"))?;
    let Err(status) = by_kernel_handle(&rig, handle) else { return Err(Failure::new("a monitored fence was opened")) };
    refused(status, BAD_ARGUMENT, "a monitored fence without a device")?;
    granted(handle.close(), "closing it")
}

fn other_adapter(case: &mut Case<'_>) -> Result<(), Failure> {
    let [first, second] = rigs(case)?;
    let queue = second.packet_queue(NODE_COPY)?;
    for kind in [Type::D3DDDI_SYNCHRONIZATION_MUTEX, Type::D3DDDI_SEMAPHORE, Type::D3DDDI_FENCE] {
        let created = shared(&first, kind, false)?;
        for object in [created.hSyncObject, opened(&second, created.Info.SharedHandle)?] {
            refused(wait(&second, queue.context, &[object], 0), BAD_ARGUMENT, "a wait of another adapter")?;
            refused(signal(&second, queue.context, &[object], 0), BAD_ARGUMENT, "a signal of another adapter")?;
            refused(take(&second, queue.context, &[object]), BAD_ARGUMENT, "a wait without a value")?;
            refused(give(&second, queue.context, object), BAD_ARGUMENT, "a signal without a value")?;
        }
    }
    Ok(())
}

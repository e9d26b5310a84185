//! Synchronization objects of before monitored fences, the waits and signals that take them, and names of shared fences.

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::D3DDDI_SYNCHRONIZATIONOBJECT_TYPE as Type;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::event::Event;
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, WRONG_KIND};
use crate::rig::{KernelHandle, Rig, fill};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "OlderSync";
    "OlderSync.FencesOrderContexts" on Boot::Shared, "d3dkmtwaitforsynchronizationobject2":
        "Work of a context that waits for a fence without an address runs when another context has signalled it, or when it began with the value."
        => fences;
    "OlderSync.NotificationsSetTheirEvent" on Boot::Shared, "d3dddi_synchronizationobjectinfo2":
        "Each signal of a notification sets its event when the work before it is done, also when its creator has closed the event; nothing waits for one."
        => notifications;
    "OlderSync.ValuesAreAskedOfMonitoredFences" on Boot::Shared, "d3dkmtsignalsynchronizationobject2":
        "The older waits and signals take monitored fences too, whose value user mode sees."
        => monitored;
    "OlderSync.MutexesAndSemaphoresAreRefused" on Boot::Shared, "d3dddi_synchronizationobject_type":
        "Mutexes and semaphores of the GPU are refused by name by both thunks, kinds that there are not as invalid parameters. This system's rule: it has neither."
        => mutexes;
    "OlderSync.BadRequestsAreRefused" on Boot::Shared, "d3dkmt_waitforsynchronizationobject2":
        "No objects, too many, handles of others, and fences without a value are refused."
        => refusals;
    "OlderSync.FenceWithoutGpuAccessHasNoAddress" on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "A monitored fence with NoGPUAccess has no GPU address, and is signalled and waited for by the processor and by contexts."
        => no_gpu_access;
    "OlderSync.NamedFencesAreFound" needs NativeFence on Boot::Shared, "d3dkmtopensyncobjectnthandlefromname":
        "A shared fence with a name is opened by it as long as a kernel handle is there; the name is taken once, and another one is not found."
        => names;
    "OlderSync.HandlesOfEveryProcessAreNotMade" on Boot::Shared, "d3dkmtopensynchronizationobject":
        "No synchronization object but a keyed mutex is shared by a handle that every process knows, so that opening one is refused. This system's rule."
        => global_handles;
}

fn create(
    rig: &Rig,
    kind: Type,
    change: impl FnOnce(&mut D3DDDI_SYNCHRONIZATIONOBJECTINFO2),
) -> Result<D3DKMT_CREATESYNCHRONIZATIONOBJECT2, NTSTATUS> {
    let mut arguments = D3DKMT_CREATESYNCHRONIZATIONOBJECT2::zeroed();
    (arguments.hDevice, arguments.Info.Type) = (rig.device, kind);
    change(&mut arguments.Info);
    rig.kmt.call(rig.kmt.table().D3DKMTCreateSynchronizationObject2, &mut arguments).ok()?;
    Ok(arguments)
}

fn made<T>(result: Result<T, NTSTATUS>, what: &str) -> Result<T, Failure> {
    result.map_err(|status| Failure::new(format!("{what}: {status}")))
}

fn fence(rig: &Rig, value: u64) -> Result<D3DKMT_HANDLE, Failure> {
    let begin = |info: &mut D3DDDI_SYNCHRONIZATIONOBJECTINFO2| {
        info.u.Fence = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Fence { FenceValue: value };
    };
    Ok(made(create(rig, Type::D3DDDI_FENCE, begin), "a fence without an address")?.hSyncObject)
}

fn wait(rig: &Rig, context: D3DKMT_HANDLE, objects: &[D3DKMT_HANDLE], value: u64) -> NTSTATUS {
    let mut arguments = D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2::zeroed();
    (arguments.hContext, arguments.ObjectCount) = (context, objects.len() as u32);
    for (place, object) in arguments.ObjectHandleArray.iter_mut().zip(objects) {
        *place = *object;
    }
    arguments.u.Fence = D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2_Fence { FenceValue: value };
    rig.kmt.call(rig.kmt.further().D3DKMTWaitForSynchronizationObject2, &mut arguments)
}

fn signal(rig: &Rig, context: D3DKMT_HANDLE, objects: &[D3DKMT_HANDLE], value: u64) -> NTSTATUS {
    let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2::zeroed();
    (arguments.hContext, arguments.ObjectCount) = (context, objects.len() as u32);
    for (place, object) in arguments.ObjectHandleArray.iter_mut().zip(objects) {
        *place = *object;
    }
    arguments.u.Fence = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_Fence { FenceValue: value };
    rig.kmt.call(rig.kmt.further().D3DKMTSignalSynchronizationObject2, &mut arguments)
}

fn destroy(rig: &Rig, object: D3DKMT_HANDLE) -> NTSTATUS {
    let mut arguments = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: object };
    rig.kmt.call(rig.kmt.table().D3DKMTDestroySynchronizationObject, &mut arguments)
}

fn fences(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(4096, Placement::System)?;
    let view = rig.view(memory)?;
    let (mut first, mut second) = (rig.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?);
    let open = fence(&rig, 9)?;
    granted(wait(&rig, first.context, &[open], 9), "a wait for the value that it began with")?;
    rig.packet_execute(&mut first, &[fill(memory.address, 4096, 0x1111_1111)])?;
    let held = fence(&rig, 0)?;
    granted(wait(&rig, first.context, &[open, held], 5), "a wait for two fences")?;
    let value = rig.packet_submit(&mut first, &[fill(memory.address, 4096, 0x2222_2222)])?;
    rig.packet_execute(&mut second, &[fill(memory.address, 4096, 0x3333_3333)])?;
    ensure_eq!(view.read(0, 4), [0x33; 4], "bytes while the first context waits");
    granted(signal(&rig, second.context, &[held], 5), "the signal")?;
    rig.packet_wait(&first, value)?;
    ensure_eq!(view.read(0, 4), [0x22; 4], "bytes afterwards");
    granted(destroy(&rig, open), "destroying a fence")?;
    refused(destroy(&rig, open), BAD_HANDLE, "destroying it again")
}

fn notifications(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let event = Event::new()?;
    let with_event = |info: &mut D3DDDI_SYNCHRONIZATIONOBJECTINFO2| {
        let number = event.number();
        info.u.CPUNotification = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_CPUNotification {
            Event: std::ptr::without_provenance_mut(number as usize),
        };
    };
    let object = made(create(&rig, Type::D3DDDI_CPU_NOTIFICATION, with_event), "a notification")?.hSyncObject;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    let gate = fence(&rig, 0)?;
    granted(wait(&rig, queue.context, &[gate], 1), "a wait of the context")?;
    granted(signal(&rig, queue.context, &[object], 0), "a signal behind it")?;
    let mut older = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT::zeroed();
    (older.hContext, older.ObjectCount, older.ObjectHandleArray[0]) = (queue.context, 1, object);
    granted(
        rig.kmt.call(rig.kmt.further().D3DKMTSignalSynchronizationObject, &mut older),
        "D3DKMTSignalSynchronizationObject",
    )?;
    let mut other = rig.packet_queue(NODE_COPY)?;
    rig.packet_execute(&mut other, &[])?;
    ensure!(!event.is_set()?, "the event is set although the work before it waits");
    granted(signal(&rig, other.context, &[gate], 1), "the signal that lets it go")?;
    event.wait()?;
    rig.packet_execute(&mut queue, &[])?;
    granted(signal(&rig, queue.context, &[object], 0), "a third signal")?;
    event.wait()?;
    refused(wait(&rig, queue.context, &[object], 0), BAD_ARGUMENT, "a wait for a notification")?;
    granted(destroy(&rig, object), "destroying it")?;
    let nothing = |info: &mut D3DDDI_SYNCHRONIZATIONOBJECTINFO2| {
        info.u.CPUNotification =
            D3DDDI_SYNCHRONIZATIONOBJECTINFO2_CPUNotification { Event: std::ptr::without_provenance_mut(0x00ff_fffc) };
    };
    match create(&rig, Type::D3DDDI_CPU_NOTIFICATION, nothing) {
        Ok(_) => Err(Failure::new("a notification of no event was created")),
        Err(status) => refused(status, WRONG_KIND, "a notification of no event"),
    }
}

fn monitored(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    let made = made(
        create(&rig, Type::D3DDDI_MONITORED_FENCE, |info| {
            let mut fence = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_MonitoredFence::zeroed();
            fence.EngineAffinity = rig.affinity();
            info.u.MonitoredFence = fence;
        }),
        "a monitored fence",
    )?;
    granted(signal(&rig, queue.context, &[made.hSyncObject], 6), "the signal")?;
    granted(rig.wait(&[made.hSyncObject], &[6], false), "a wait of the processor")?;
    granted(wait(&rig, queue.context, &[made.hSyncObject], 6), "a wait for the value")?;
    rig.packet_execute(&mut queue, &[])
}

fn mutexes(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for kind in [Type::D3DDDI_SYNCHRONIZATION_MUTEX, Type::D3DDDI_SEMAPHORE] {
        match create(&rig, kind, |info| {
            info.u.Semaphore = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Semaphore { MaxCount: 1, InitialCount: 1 };
        }) {
            Ok(_) => return Err(Failure::new(format!("{kind:?} was created"))),
            Err(status) => refused(status, &[STATUS_NOT_SUPPORTED], &format!("{kind:?}"))?,
        }
        let mut older = D3DKMT_CREATESYNCHRONIZATIONOBJECT::zeroed();
        (older.hDevice, older.Info.Type) = (rig.device, kind);
        let status = rig.kmt.call(rig.kmt.further().D3DKMTCreateSynchronizationObject, &mut older);
        refused(status, &[STATUS_NOT_SUPPORTED], &format!("{kind:?} of the older thunk"))?;
    }
    for kind in [Type(0), Type::D3DDDI_SYNCHRONIZATION_TYPE_LIMIT, Type(-1)] {
        match create(&rig, kind, |_| ()) {
            Ok(_) => return Err(Failure::new(format!("{kind:?} was created"))),
            Err(status) => refused(status, BAD_ARGUMENT, &format!("{kind:?}"))?,
        }
    }
    let mut older = D3DKMT_CREATESYNCHRONIZATIONOBJECT::zeroed();
    (older.hDevice, older.Info.Type) = (rig.device, Type::D3DDDI_FENCE);
    let status = rig.kmt.call(rig.kmt.further().D3DKMTCreateSynchronizationObject, &mut older);
    refused(status, BAD_ARGUMENT, "a fence of the older thunk")
}

fn refusals(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let queue = rig.packet_queue(NODE_COPY)?;
    let one = fence(&rig, 0)?;
    for (what, objects) in [("no object", vec![]), ("33 objects", vec![one; 33])] {
        refused(wait(&rig, queue.context, &objects, 0), BAD_ARGUMENT, what)?;
        refused(signal(&rig, queue.context, &objects, 0), BAD_ARGUMENT, what)?;
    }
    for handle in [0, rig.device, queue.context] {
        refused(wait(&rig, queue.context, &[one, handle], 0), WRONG_KIND, "a list with something else in it")?;
        refused(signal(&rig, queue.context, &[one, handle], 7), WRONG_KIND, "a list with something else in it")?;
    }
    refused(wait(&rig, rig.device, &[one], 0), WRONG_KIND, "a device as context")?;
    let mut older = D3DKMT_WAITFORSYNCHRONIZATIONOBJECT::zeroed();
    (older.hContext, older.ObjectCount, older.ObjectHandleArray[0]) = (queue.context, 1, one);
    let status = rig.kmt.call(rig.kmt.further().D3DKMTWaitForSynchronizationObject, &mut older);
    refused(status, BAD_ARGUMENT, "a wait for a fence without a value")?;
    // Nothing of a refused signal took effect.
    granted(signal(&rig, queue.context, &[one], 1), "a signal")?;
    match create(&rig, Type::D3DDDI_FENCE, |info| info.Flags.set_NoGPUAccess(true)) {
        Ok(_) => Err(Failure::new("a fence with a flag of monitored fences was created")),
        Err(status) => refused(status, BAD_ARGUMENT, "a flag of monitored fences"),
    }
}

fn no_gpu_access(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let queue = rig.packet_queue(NODE_COPY)?;
    let made = made(
        create(&rig, Type::D3DDDI_MONITORED_FENCE, |info| {
            let mut fence = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_MonitoredFence::zeroed();
            (fence.InitialFenceValue, fence.EngineAffinity) = (2, rig.affinity());
            info.u.MonitoredFence = fence;
            info.Flags.set_NoGPUAccess(true);
        }),
        "a fence without access of GPUs",
    )?;
    // SAFETY: every arm of the union is plain numbers.
    let told = unsafe { made.Info.u.MonitoredFence };
    ensure!(!told.FenceValueCPUVirtualAddress.is_null(), "the processor has no address");
    ensure_eq!(told.FenceValueGPUVirtualAddress, 0, "address for GPUs");
    granted(rig.signal(&[made.hSyncObject], &[3]), "a signal of the processor")?;
    granted(signal(&rig, queue.context, &[made.hSyncObject], 4), "a signal of a context")?;
    granted(rig.wait(&[made.hSyncObject], &[4], false), "a wait of the processor")
}

/// Words of an OBJECT_ATTRIBUTES, and of the UNICODE_STRING that it points to.
pub(crate) fn attributes(name: &[u16], text: &mut [u64; 2]) -> [u64; 6] {
    let bytes = size_of_val(name) as u64;
    *text = [bytes | bytes << 16, name.as_ptr().expose_provenance() as u64];
    [48, 0, text.as_mut_ptr().expose_provenance() as u64, 0, 0, 0]
}

/// Gives an object a kernel handle and a name.
pub(crate) fn share_named(rig: &Rig, object: D3DKMT_HANDLE, name: &[u16]) -> Result<KernelHandle, NTSTATUS> {
    let (mut handle, mut text) = (std::ptr::null_mut(), [0; 2]);
    let words = attributes(name, &mut text);
    // SAFETY: the thunk checks its pointers, which live across the call.
    let status = unsafe {
        (rig.kmt.table().D3DKMTShareObjects)(1, &raw const object, words.as_ptr().cast(), 0x1000_0000, &raw mut handle)
    };
    status.ok().map(|()| KernelHandle(handle.addr()))
}

fn open_named(rig: &Rig, name: &[u16]) -> Result<KernelHandle, NTSTATUS> {
    let mut text = [0; 2];
    let mut words = attributes(name, &mut text);
    let mut arguments = D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME::zeroed();
    (arguments.dwDesiredAccess, arguments.pObjAttrib) = (0x1000_0000, words.as_mut_ptr().cast());
    rig.kmt.call(rig.kmt.further().D3DKMTOpenSyncObjectNtHandleFromName, &mut arguments).ok()?;
    Ok(KernelHandle(arguments.hNtHandle.addr()))
}

fn names(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let shared = rig.shared_fence(17)?;
    let name: Vec<u16> = format!("campanile fence {:#x}", shared.current).encode_utf16().collect();
    let handle = made(share_named(&rig, shared.handle, &name), "sharing with a name")?;
    match share_named(&rig, shared.handle, &name) {
        Ok(_) => return Err(Failure::new("a name was given twice")),
        Err(status) => refused(status, &[STATUS_OBJECT_NAME_COLLISION], "the name a second time")?,
    }
    let again = made(open_named(&rig, &name), "D3DKMTOpenSyncObjectNtHandleFromName")?;
    ensure_eq!(rig.open_fence(again)?.value.load(), 17, "value of what was opened by name");
    granted(handle.close(), "closing the first handle")?;
    let third = made(open_named(&rig, &name), "opening it while a handle is there")?;
    granted(again.close(), "closing the second handle")?;
    granted(third.close(), "closing the third handle")?;
    for (what, name) in [("the name of what is gone", &name[..]), ("another name", &name[..3])] {
        match open_named(&rig, name) {
            Ok(_) => return Err(Failure::new(format!("{what} was opened"))),
            Err(status) => refused(status, &[STATUS_OBJECT_NAME_NOT_FOUND], what)?,
        }
    }
    Ok(())
}

fn global_handles(case: &Case) -> Result<(), Failure> {
    let kmt = case.kmt();
    for handle in [0, 0x4000_0002, 0xc000_0042] {
        let mut arguments = D3DKMT_OPENSYNCHRONIZATIONOBJECT::zeroed();
        arguments.hSharedHandle = handle;
        let status = kmt.call(kmt.further().D3DKMTOpenSynchronizationObject, &mut arguments);
        refused(status, BAD_HANDLE, "D3DKMTOpenSynchronizationObject")?;
    }
    Ok(())
}

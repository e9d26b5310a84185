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
use crate::rig::{KernelHandle, PacketQueue, Rig, fill, wait_until};
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
    "OlderSync.SemaphoresCountTheirSignals" on Boot::Shared, "d3dddi_synchronizationobjectinfo2":
        "As many waits pass a semaphore as it began with and was signalled, in their order, of either older form; signals beyond its maximum have no effect, which is this system's rule."
        => semaphores;
    "OlderSync.MutexesHaveOneOwner" on Boot::Shared, "d3dddi_synchronizationobjectinfo2":
        "One context at a time passes a mutex, and the next one when it has signalled it as often as it has waited; the signal of another context has no effect. Any context of its device signals one that is owned from the beginning. This system's rule, where the pages are silent."
        => mutexes;
    "OlderSync.WaitsEndWithTheirObject" on Boot::Shared, "d3dkmtdestroysynchronizationobject":
        "A context that waits for a semaphore, a mutex or a fence goes on when the object is destroyed, and so does one that comes to such a wait later. This system's rule."
        => destroyed;
    "OlderSync.WaitsForSeveralTakeAllAtOnce" on Boot::Shared, "d3dkmtwaitforsynchronizationobject":
        "A context that waits for several objects goes on when it has all of them, and two that name the same ones in another order do not wait for each other."
        => several;
    "OlderSync.QueuesTakeThemToo" needs HardwareScheduling on Boot::Shared, "d3dkmtwaitforsynchronizationobjectfromgpu":
        "The newer waits and signals of contexts and hardware queues take the older objects with a value, which only a fence has."
        => newer_thunks;
    "OlderSync.EventsAreEnqueued" on Boot::Shared, "d3dddicb_signalflags":
        "With EnqueueCpuEvent an event is set when the work before it is done, by either thunk that has the flag, and no object is signalled with it."
        => enqueued_events;
    "OlderSync.BadObjectsAreRefused" on Boot::Shared, "d3dddi_synchronizationobject_type":
        "Kinds that there are not, semaphores without a maximum or beginning beyond it, sharing by kernel handles without sharing, and a notification for all processes are refused, and fences by the thunk that creates mutexes and semaphores."
        => bad_objects;
    "OlderSync.BadRequestsAreRefused" on Boot::Shared, "d3dkmt_waitforsynchronizationobject2":
        "No objects, too many, handles of others, and fences without a value are refused."
        => refusals;
    "OlderSync.FenceWithoutGpuAccessHasNoAddress" on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "A monitored fence with NoGPUAccess has no GPU address, and is signalled and waited for by the processor and by contexts."
        => no_gpu_access;
    "OlderSync.NamedFencesAreFound" needs NativeFence on Boot::Shared, "d3dkmtopensyncobjectnthandlefromname":
        "A shared fence with a name is opened by it as long as a kernel handle is there; the name is taken once, and another one is not found."
        => names;
    "OlderSync.GlobalHandlesOpenTheSameObject" on Boot::Shared, "d3dkmtopensynchronizationobject":
        "A mutex, a semaphore or a fence that is shared without kernel handles has a handle that opens it again as long as one handle of it is there; others have none, and other numbers open nothing."
        => global_handles;
}

pub(crate) fn create(
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

pub(super) fn made<T>(result: Result<T, NTSTATUS>, what: &str) -> Result<T, Failure> {
    result.map_err(|status| Failure::new(format!("{what}: {status}")))
}

pub(super) fn fence(rig: &Rig, value: u64) -> Result<D3DKMT_HANDLE, Failure> {
    let begin = |info: &mut D3DDDI_SYNCHRONIZATIONOBJECTINFO2| {
        info.u.Fence = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Fence { FenceValue: value };
    };
    Ok(made(create(rig, Type::D3DDDI_FENCE, begin), "a fence without an address")?.hSyncObject)
}

pub(crate) fn wait(rig: &Rig, context: D3DKMT_HANDLE, objects: &[D3DKMT_HANDLE], value: u64) -> NTSTATUS {
    let mut arguments = D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2::zeroed();
    (arguments.hContext, arguments.ObjectCount) = (context, objects.len() as u32);
    for (place, object) in arguments.ObjectHandleArray.iter_mut().zip(objects) {
        *place = *object;
    }
    arguments.u.Fence = D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2_Fence { FenceValue: value };
    rig.kmt.call(rig.kmt.further().D3DKMTWaitForSynchronizationObject2, &mut arguments)
}

pub(crate) fn signal(rig: &Rig, context: D3DKMT_HANDLE, objects: &[D3DKMT_HANDLE], value: u64) -> NTSTATUS {
    let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2::zeroed();
    (arguments.hContext, arguments.ObjectCount) = (context, objects.len() as u32);
    for (place, object) in arguments.ObjectHandleArray.iter_mut().zip(objects) {
        *place = *object;
    }
    arguments.u.Fence = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_Fence { FenceValue: value };
    rig.kmt.call(rig.kmt.further().D3DKMTSignalSynchronizationObject2, &mut arguments)
}

pub(crate) fn destroy(rig: &Rig, object: D3DKMT_HANDLE) -> NTSTATUS {
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

pub(super) fn semaphore(rig: &Rig, initial: u32, most: u32) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let counts = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Semaphore { MaxCount: most, InitialCount: initial };
    create(rig, Type::D3DDDI_SEMAPHORE, |info| info.u.Semaphore = counts).map(|created| created.hSyncObject)
}

pub(super) fn mutex(rig: &Rig, owned: bool) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let state = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_SynchronizationMutex { InitialState: owned.into() };
    create(rig, Type::D3DDDI_SYNCHRONIZATION_MUTEX, |info| info.u.SynchronizationMutex = state)
        .map(|created| created.hSyncObject)
}

/// A wait of the first form, which has no value.
pub(crate) fn take(rig: &Rig, context: D3DKMT_HANDLE, objects: &[D3DKMT_HANDLE]) -> NTSTATUS {
    let mut older = D3DKMT_WAITFORSYNCHRONIZATIONOBJECT::zeroed();
    (older.hContext, older.ObjectCount) = (context, objects.len() as u32);
    older.ObjectHandleArray.iter_mut().zip(objects).for_each(|(place, object)| *place = *object);
    rig.kmt.call(rig.kmt.further().D3DKMTWaitForSynchronizationObject, &mut older)
}

/// A signal of the first form.
pub(crate) fn give(rig: &Rig, context: D3DKMT_HANDLE, object: D3DKMT_HANDLE) -> NTSTATUS {
    let mut older = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT::zeroed();
    (older.hContext, older.ObjectCount, older.ObjectHandleArray[0]) = (context, 1, object);
    rig.kmt.call(rig.kmt.further().D3DKMTSignalSynchronizationObject, &mut older)
}

/// Nothing behind the wait of a context has run although another one has done all its work.
pub(super) fn waits(
    rig: &Rig,
    queue: &PacketQueue,
    value: u64,
    other: &mut PacketQueue,
    what: &str,
) -> Result<(), Failure> {
    for _ in 0..3 {
        rig.packet_execute(other, &[])?;
    }
    ensure!(queue.progress.value.load() < value, "{what}");
    Ok(())
}

fn semaphores(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut other = rig.packet_queue(NODE_COPY)?;
    let object = made(semaphore(&rig, 1, 2), "a semaphore")?;
    let mut queues = Vec::new();
    for _ in 0..3 {
        queues.push(rig.packet_queue(NODE_COPY)?);
    }
    let mut values = Vec::new();
    for (form, queue) in queues.iter_mut().enumerate() {
        let status =
            if form == 1 { wait(&rig, queue.context, &[object], 0) } else { take(&rig, queue.context, &[object]) };
        granted(status, "a wait for the semaphore")?;
        values.push(rig.packet_submit(queue, &[])?);
    }
    rig.packet_wait(&queues[0], values[0])?;
    waits(&rig, &queues[1], values[1], &mut other, "two waits passed a semaphore with one")?;
    granted(give(&rig, other.context, object), "a signal")?;
    rig.packet_wait(&queues[1], values[1])?;
    waits(&rig, &queues[2], values[2], &mut other, "three waits passed a semaphore with two")?;
    granted(signal(&rig, other.context, &[object], 0), "a signal of the second form")?;
    rig.packet_wait(&queues[2], values[2])?;
    for _ in 0..5 {
        granted(give(&rig, other.context, object), "signals beyond the maximum")?;
    }
    rig.packet_execute(&mut other, &[])?;
    for queue in &mut queues[..2] {
        granted(take(&rig, queue.context, &[object]), "a wait")?;
        rig.packet_execute(queue, &[])?;
    }
    granted(take(&rig, queues[2].context, &[object]), "one wait too many")?;
    let value = rig.packet_submit(&mut queues[2], &[])?;
    waits(&rig, &queues[2], value, &mut other, "three waits passed a semaphore with a maximum of two")?;
    granted(give(&rig, other.context, object), "the last signal")?;
    rig.packet_wait(&queues[2], value)?;
    granted(destroy(&rig, object), "destroying it")?;
    refused(give(&rig, other.context, object), BAD_HANDLE, "a signal of what is destroyed")
}

fn mutexes(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut owner, mut next) = (rig.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?);
    let mut other = rig.packet_queue(NODE_COPY)?;
    let object = made(mutex(&rig, false), "a mutex")?;
    for _ in 0..2 {
        granted(take(&rig, owner.context, &[object]), "a wait of the owner")?;
    }
    rig.packet_execute(&mut owner, &[])?;
    granted(take(&rig, next.context, &[object]), "the wait of another context")?;
    let value = rig.packet_submit(&mut next, &[])?;
    granted(give(&rig, other.context, object), "a signal of a context that does not own it")?;
    granted(give(&rig, owner.context, object), "the owner's first signal")?;
    rig.packet_execute(&mut owner, &[])?;
    waits(&rig, &next, value, &mut other, "two contexts passed a mutex")?;
    granted(signal(&rig, owner.context, &[object], 0), "the owner's second signal")?;
    rig.packet_wait(&next, value)?;
    granted(take(&rig, owner.context, &[object]), "a wait of the first owner")?;
    let value = rig.packet_submit(&mut owner, &[])?;
    waits(&rig, &owner, value, &mut other, "the first owner has it again")?;
    granted(give(&rig, next.context, object), "the signal of the second owner")?;
    rig.packet_wait(&owner, value)?;
    let initially = made(mutex(&rig, true), "a mutex that is owned")?;
    granted(take(&rig, next.context, &[initially]), "a wait")?;
    let value = rig.packet_submit(&mut next, &[])?;
    let strange = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let mut theirs = strange.packet_queue(NODE_COPY)?;
    granted(give(&strange, theirs.context, initially), "a signal of another device")?;
    strange.packet_execute(&mut theirs, &[])?;
    waits(&rig, &next, value, &mut other, "another device gave it back")?;
    granted(give(&rig, other.context, initially), "a signal of its device")?;
    rig.packet_wait(&next, value)
}

fn destroyed(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut other = rig.packet_queue(NODE_COPY)?;
    let kinds: [(&str, D3DKMT_HANDLE); 3] = [
        ("a semaphore", made(semaphore(&rig, 0, 1), "a semaphore")?),
        ("a mutex", made(mutex(&rig, true), "a mutex")?),
        ("a fence", fence(&rig, 0)?),
    ];
    for (what, object) in kinds {
        let (mut queue, mut late) = (rig.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?);
        let gate = fence(&rig, 0)?;
        granted(wait(&rig, queue.context, &[object], 1), what)?;
        granted(wait(&rig, late.context, &[gate], 1), "a wait before it")?;
        granted(wait(&rig, late.context, &[object], 1), what)?;
        let (value, later) = (rig.packet_submit(&mut queue, &[])?, rig.packet_submit(&mut late, &[])?);
        waits(&rig, &queue, value, &mut other, what)?;
        granted(destroy(&rig, object), "destroying it")?;
        rig.packet_wait(&queue, value)?;
        granted(signal(&rig, other.context, &[gate], 1), "letting the other come to its wait")?;
        rig.packet_wait(&late, later)?;
    }
    Ok(())
}

fn several(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut first, mut second) = (rig.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?);
    let mut other = rig.packet_queue(NODE_COPY)?;
    let (one, two) = (made(mutex(&rig, false), "a mutex")?, made(mutex(&rig, false), "a mutex")?);
    granted(take(&rig, first.context, &[one, two]), "a wait for both")?;
    rig.packet_execute(&mut first, &[])?;
    granted(take(&rig, second.context, &[two, one]), "a wait for both in another order")?;
    let value = rig.packet_submit(&mut second, &[])?;
    granted(give(&rig, first.context, two), "giving one back")?;
    rig.packet_execute(&mut first, &[])?;
    waits(&rig, &second, value, &mut other, "a wait for two mutexes passed with one")?;
    granted(give(&rig, first.context, one), "giving the other back")?;
    rig.packet_wait(&second, value)?;
    for round in 0..20u64 {
        for (queue, order) in [(&mut first, [one, two]), (&mut second, [two, one])] {
            granted(take(&rig, queue.context, &order), "a wait for both")?;
            rig.packet_submit(queue, &[])?;
            granted(give(&rig, queue.context, one), "a signal")?;
            granted(give(&rig, queue.context, two), "a signal")?;
        }
        // The second owns both from before.
        if round == 0 {
            granted(give(&rig, second.context, one), "the first of what it owned")?;
            granted(give(&rig, second.context, two), "the second of what it owned")?;
        }
    }
    rig.packet_execute(&mut first, &[])?;
    rig.packet_execute(&mut second, &[])
}

fn newer_thunks(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.kernel_queue(NODE_COPY)?;
    let mut other = rig.packet_queue(NODE_COPY)?;
    let (count, plain) = (made(semaphore(&rig, 0, 1), "a semaphore")?, fence(&rig, 0)?);
    granted(rig.queue_wait(queue.queue, &[(count, 0), (plain, 3)]), "a wait of a hardware queue")?;
    granted(rig.context_signal(other.context, &[(plain, 3)]), "a signal of a context")?;
    let value = rig.kernel_submit(&mut queue, &[])?;
    for _ in 0..3 {
        rig.packet_execute(&mut other, &[])?;
    }
    ensure!(queue.progress.load() < value, "the queue did not wait for the semaphore");
    granted(rig.context_signal(other.context, &[(count, 77)]), "a signal of a context")?;
    wait_until("the work behind the wait", || queue.progress.load() >= value)?;
    granted(rig.queue_signal(&[queue.queue], &[(count, 0)], D3DDDICB_SIGNALFLAGS::new()), "a signal of a queue")?;
    granted(rig.context_wait(other.context, &[(count, 0)]), "a wait of a context")?;
    rig.packet_execute(&mut other, &[])
}

fn enqueued_events(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, mut other) = (rig.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?);
    let (event, gate) = (Event::new()?, fence(&rig, 0)?);
    let handle = std::ptr::without_provenance_mut(event.number() as usize);
    let flags = D3DDDICB_SIGNALFLAGS::new().with_EnqueueCpuEvent(true);
    for form in 0..2u64 {
        granted(wait(&rig, queue.context, &[gate], form + 1), "a wait of the context")?;
        let enqueue = |objects: u32| {
            let mut object = gate;
            if form == 0 {
                let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2::zeroed();
                (arguments.hContext, arguments.ObjectCount, arguments.Flags) = (queue.context, objects, flags);
                arguments.ObjectHandleArray[0] = gate;
                arguments.u.CpuEventHandle = handle;
                return rig.kmt.call(rig.kmt.further().D3DKMTSignalSynchronizationObject2, &mut arguments);
            }
            let mut context = queue.context;
            let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2::zeroed();
            (arguments.ObjectCount, arguments.ObjectHandleArray, arguments.Flags) = (objects, &raw mut object, flags);
            (arguments.BroadcastContextCount, arguments.BroadcastContextArray) = (1, &raw mut context);
            arguments.u.CpuEventHandle = handle;
            rig.kmt.call(rig.kmt.further().D3DKMTSignalSynchronizationObjectFromGpu2, &mut arguments)
        };
        refused(enqueue(1), BAD_ARGUMENT, "an object beside the event")?;
        granted(enqueue(0), "an event behind the wait")?;
        rig.packet_execute(&mut other, &[])?;
        ensure!(!event.is_set()?, "the event is set although the work before it waits");
        granted(signal(&rig, other.context, &[gate], form + 1), "the signal that lets it go")?;
        event.wait()?;
    }
    rig.packet_execute(&mut queue, &[])
}

fn bad_objects(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for kind in [Type(0), Type::D3DDDI_SYNCHRONIZATION_TYPE_LIMIT, Type(-1)] {
        match create(&rig, kind, |_| ()) {
            Ok(_) => return Err(Failure::new(format!("{kind:?} was created"))),
            Err(status) => refused(status, BAD_ARGUMENT, &format!("{kind:?}"))?,
        }
    }
    let kinds = [Type::D3DDDI_SYNCHRONIZATION_MUTEX, Type::D3DDDI_SEMAPHORE, Type::D3DDDI_FENCE];
    let counts = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Semaphore { MaxCount: 1, InitialCount: 1 };
    for kind in kinds {
        let made = create(&rig, kind, |info| {
            info.u.Semaphore = counts;
            info.Flags.set_NtSecuritySharing(true);
        });
        let Err(status) = made else { return Err(Failure::new(format!("{kind:?} for kernel handles alone"))) };
        refused(status, BAD_ARGUMENT, "kernel handles without sharing")?;
    }
    for (initial, most) in [(0, 0), (1, 0), (3, 2), (u32::MAX, 1)] {
        let Err(status) = semaphore(&rig, initial, most) else {
            return Err(Failure::new(format!("a semaphore of {initial} of {most}")));
        };
        refused(status, BAD_ARGUMENT, "a semaphore that begins beyond its maximum or has none")?;
        let mut older = D3DKMT_CREATESYNCHRONIZATIONOBJECT::zeroed();
        (older.hDevice, older.Info.Type) = (rig.device, Type::D3DDDI_SEMAPHORE);
        older.Info.u.Semaphore = D3DDDI_SYNCHRONIZATIONOBJECTINFO_Semaphore { MaxCount: most, InitialCount: initial };
        let status = rig.kmt.call(rig.kmt.further().D3DKMTCreateSynchronizationObject, &mut older);
        refused(status, BAD_ARGUMENT, "the same of the older thunk")?;
    }
    let event = Event::new()?;
    let notification = create(&rig, Type::D3DDDI_CPU_NOTIFICATION, |info| {
        info.Flags.set_Shared(true);
        info.u.CPUNotification = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_CPUNotification {
            Event: std::ptr::without_provenance_mut(event.number() as usize),
        };
    });
    let Err(status) = notification else { return Err(Failure::new("a shared notification was created")) };
    refused(status, BAD_ARGUMENT, "a shared notification")?;
    let mut older = D3DKMT_CREATESYNCHRONIZATIONOBJECT::zeroed();
    (older.hDevice, older.Info.Type) = (rig.device, Type::D3DDDI_FENCE);
    let status = rig.kmt.call(rig.kmt.further().D3DKMTCreateSynchronizationObject, &mut older);
    refused(status, BAD_ARGUMENT, "a fence of the older thunk")?;
    older.Info.Type = Type::D3DDDI_SYNCHRONIZATION_MUTEX;
    older.Info.u.SynchronizationMutex = D3DDDI_SYNCHRONIZATIONOBJECTINFO_SynchronizationMutex { InitialState: 0 };
    granted(
        rig.kmt.call(rig.kmt.further().D3DKMTCreateSynchronizationObject, &mut older),
        "a mutex of the older thunk",
    )?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    granted(take(&rig, queue.context, &[older.hSyncObject]), "a wait for it")?;
    rig.packet_execute(&mut queue, &[])?;
    refused(take(&rig, queue.context, &[fence(&rig, 0)?]), BAD_ARGUMENT, "a wait for a fence without a value")?;
    granted(destroy(&rig, older.hSyncObject), "destroying it")
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

pub(crate) fn open_named(rig: &Rig, name: &[u16]) -> Result<KernelHandle, NTSTATUS> {
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

/// Opens an object by the handle that every process knows.
pub(crate) fn open_global(rig: &Rig, global: D3DKMT_HANDLE) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let mut arguments = D3DKMT_OPENSYNCHRONIZATIONOBJECT::zeroed();
    arguments.hSharedHandle = global;
    rig.kmt.call(rig.kmt.further().D3DKMTOpenSynchronizationObject, &mut arguments).ok()?;
    Ok(arguments.hSyncObject)
}

fn global_handles(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    let counts = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Semaphore { MaxCount: 1, InitialCount: 0 };
    let kinds =
        [(Type::D3DDDI_SEMAPHORE, counts), (Type::D3DDDI_SYNCHRONIZATION_MUTEX, counts), (Type::D3DDDI_FENCE, counts)];
    for (kind, counts) in kinds {
        let share = |info: &mut D3DDDI_SYNCHRONIZATIONOBJECTINFO2| {
            info.Flags.set_Shared(true);
            if kind == Type::D3DDDI_SEMAPHORE {
                info.u.Semaphore = counts;
            }
        };
        let created = made(create(&rig, kind, share), "a shared object")?;
        let global = created.Info.SharedHandle;
        ensure!(global != 0, "{kind:?} has no global handle");
        let again = made(open_global(&rig, global), "D3DKMTOpenSynchronizationObject")?;
        ensure!(again != created.hSyncObject, "{kind:?} has one handle twice");
        if kind != Type::D3DDDI_SYNCHRONIZATION_MUTEX {
            granted(signal(&rig, queue.context, &[created.hSyncObject], 1), "a signal by one handle")?;
        }
        granted(wait(&rig, queue.context, &[again], 1), "a wait by the other handle")?;
        rig.packet_execute(&mut queue, &[])?;
        granted(destroy(&rig, created.hSyncObject), "destroying the first handle")?;
        let third = made(open_global(&rig, global), "opening it while a handle is there")?;
        granted(destroy(&rig, again), "destroying the second handle")?;
        granted(destroy(&rig, third), "destroying the third handle")?;
        match open_global(&rig, global) {
            Ok(_) => return Err(Failure::new(format!("{kind:?} was opened after its last handle"))),
            Err(status) => refused(status, BAD_ARGUMENT, "the handle of what is gone")?,
        }
        let private = made(
            create(&rig, kind, |info| {
                info.u.Semaphore = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Semaphore { MaxCount: 1, InitialCount: 1 }
            }),
            "an object that is not shared",
        )?;
        ensure_eq!(private.Info.SharedHandle, 0, "global handle of what is not shared");
    }
    for handle in [0, rig.device, queue.context, 0x4000_0002, 0xc000_0042] {
        match open_global(&rig, handle) {
            Ok(_) => return Err(Failure::new(format!("{handle:#x} was opened"))),
            Err(status) => refused(status, BAD_HANDLE, "D3DKMTOpenSynchronizationObject")?,
        }
    }
    Ok(())
}

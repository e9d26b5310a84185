//! Signals that several contexts or queues make together, values and names of objects of before monitored fences.

use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::D3DDDI_SYNCHRONIZATIONOBJECT_TYPE as Type;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::older_sync::{create, fence, open_global, open_named, share_named};
use crate::event::Event;
use crate::kmt::{BAD_ARGUMENT, WRONG_KIND};
use crate::rig::Rig;
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "OlderSync";
    "OlderSync.BroadcastSignalsWhenAllHaveCome" on Boot::Shared, "d3dddicb_signalsynchronizationobjectfromgpu2":
        "What several contexts signal together is signalled when all of them have come to the signal, not before, by each thunk that takes further contexts; an event that is enqueued to several is set then."
        => contexts_together;
    "OlderSync.BroadcastOfHardwareQueues" needs HardwareScheduling on Boot::Shared, "d3dkmt_submitsignalsyncobjectstohwqueue":
        "What several hardware queues signal together is signalled when all of them have come to the signal."
        => queues_together;
    "OlderSync.BroadcastCountsOnce" on Boot::Shared, "d3dkmt_signalsynchronizationobject2":
        "A semaphore that several contexts signal together counts one signal."
        => counts_once;
    "OlderSync.BadBroadcastsAreRefused" on Boot::Shared, "d3dddicb_signalsynchronizationobject2":
        "More than 64 further contexts, a context of another device and a handle of something else are refused, and nothing is signalled."
        => refusals;
    "OlderSync.NamedObjectsAreFound" on Boot::Shared, "d3dkmtopensyncobjectnthandlefromname":
        "A mutex, a semaphore or a fence without an address that is shared by a kernel handle with a name is opened by it as long as a kernel handle is there, also when an opening of it lasts longer."
        => names;
    "OlderSync.TopOfPipelineIsSignalledInTheEnd" on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "A monitored fence with TopOfPipeline, which may be signalled before the commands in front of the signal are done, has its value when they are."
        => top_of_pipeline;
    "OlderSync.DriverNotifiesNobody" on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "A notification that the driver signals is not supported, since the driver takes no events of the processor; SignalByKmd of any other object is an error."
        => by_the_driver;
    "OlderSync.ContextsTakeOneValueForFences" on Boot::Shared, "d3dkmt_waitforsynchronizationobjectfromgpu":
        "A wait or a signal of a context that names fences without an address has one value for them, in the place of the array's address; with a monitored fence among them it is the array."
        => one_value;
}

fn text(what: &'static str) -> impl Fn(NTSTATUS) -> Failure {
    move |status| Failure::new(format!("{what}: {status}"))
}

/// D3DKMTSignalSynchronizationObject2 by contexts, the first of which is the one that the others are added to.
fn signal2(rig: &Rig, contexts: &[D3DKMT_HANDLE], object: D3DKMT_HANDLE, value: u64) -> NTSTATUS {
    let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2::zeroed();
    (arguments.ObjectCount, arguments.ObjectHandleArray[0]) = (1, object);
    arguments.u.Fence = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_Fence { FenceValue: value };
    if let [first, further @ ..] = contexts {
        arguments.hContext = *first;
        arguments.BroadcastContextCount = further.len() as u32;
        for (place, context) in arguments.BroadcastContext.iter_mut().zip(further) {
            *place = *context;
        }
    }
    rig.kmt.call(rig.kmt.further().D3DKMTSignalSynchronizationObject2, &mut arguments)
}

/// D3DKMTSignalSynchronizationObjectFromGpu2 by contexts.
fn signal_from_gpu2(rig: &Rig, contexts: &[D3DKMT_HANDLE], object: D3DKMT_HANDLE, value: u64) -> NTSTATUS {
    rig.context_signal2(contexts, &[(object, value)], D3DDDICB_SIGNALFLAGS::new())
}

/// An event that contexts set together.
fn enqueue(rig: &Rig, contexts: &mut [D3DKMT_HANDLE], event: &Event) -> NTSTATUS {
    let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2::zeroed();
    arguments.Flags.set_EnqueueCpuEvent(true);
    (arguments.BroadcastContextCount, arguments.BroadcastContextArray) = (contexts.len() as u32, contexts.as_mut_ptr());
    arguments.u.CpuEventHandle = std::ptr::without_provenance_mut(event.number() as usize);
    rig.kmt.call(rig.kmt.further().D3DKMTSignalSynchronizationObjectFromGpu2, &mut arguments)
}

/// Checks a signal of three that two of them receive, one after the other.
fn check_together(
    rig: &Rig,
    what: &str,
    wait: impl Fn(usize, &[(D3DKMT_HANDLE, u64)]) -> NTSTATUS,
    signal: impl Fn(D3DKMT_HANDLE, u64) -> NTSTATUS,
) -> Result<(), Failure> {
    let monitored = || rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new());
    let (gates, target) = ([monitored()?, monitored()?], monitored()?);
    for (number, gate) in gates.iter().enumerate() {
        granted(wait(number + 1, &[(gate.handle, 1)]), "a wait")?;
    }
    granted(signal(target.handle, 9), what)?;
    for gate in gates {
        // Work behind it shows that the others have come to the signal and gone on.
        ensure_eq!(target.value.load(), 0, "value of {what} while one of three has not come to it");
        granted(rig.signal(&[gate.handle], &[1]), "letting one go on")?;
    }
    granted(rig.wait(&[target.handle], &[9], false), what)
}

fn contexts_together(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = || rig.packet_context(NODE_COPY).map_err(text("a context"));
    let mut contexts = [context()?, context()?, context()?];
    type Signal = fn(&Rig, &[D3DKMT_HANDLE], D3DKMT_HANDLE, u64) -> NTSTATUS;
    let thunks: [(&str, Signal); 2] = [
        ("D3DKMTSignalSynchronizationObject2", signal2),
        ("D3DKMTSignalSynchronizationObjectFromGpu2", signal_from_gpu2),
    ];
    for (name, signal) in thunks {
        let wait = |number: usize, list: &[(D3DKMT_HANDLE, u64)]| rig.context_wait(contexts[number], list);
        check_together(&rig, name, wait, |object, value| signal(&rig, &contexts, object, value))?;
    }
    let gate = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
    let event = Event::new()?;
    granted(rig.context_wait(contexts[2], &[(gate.handle, 1)]), "a wait")?;
    granted(enqueue(&rig, &mut contexts, &event), "an event of three contexts")?;
    ensure!(!event.is_set()?, "the event is set before the last context has come to it");
    granted(rig.signal(&[gate.handle], &[1]), "letting it go on")?;
    event.wait()
}

fn queues_together(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let queues = [rig.kernel_queue(NODE_COPY)?, rig.kernel_queue(NODE_COPY)?, rig.kernel_queue(NODE_COPY)?];
    let handles = queues.each_ref().map(|queue| queue.queue);
    let flags = D3DDDICB_SIGNALFLAGS::new();
    let wait = |number: usize, list: &[(D3DKMT_HANDLE, u64)]| rig.queue_wait(handles[number], list);
    let signal = |object, value| rig.queue_signal(&handles, &[(object, value)], flags);
    check_together(&rig, "D3DKMTSubmitSignalSyncObjectsToHwQueue", wait, signal)
}

fn counts_once(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = || rig.packet_context(NODE_COPY).map_err(text("a context"));
    let (contexts, waiter) = ([context()?, context()?, context()?], context()?);
    let semaphore = create(&rig, Type::D3DDDI_SEMAPHORE, |info| {
        info.u.Semaphore = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Semaphore { MaxCount: 8, InitialCount: 0 };
    });
    let semaphore = semaphore.map_err(text("a semaphore"))?.hSyncObject;
    granted(signal2(&rig, &contexts, semaphore, 0), "a signal of three contexts")?;
    let passed = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
    for value in 1..=2 {
        granted(rig.context_wait(waiter, &[(semaphore, 0)]), "a wait for the semaphore")?;
        granted(rig.context_signal(waiter, &[(passed.handle, value)]), "a signal behind it")?;
    }
    granted(rig.wait(&[passed.handle], &[1], false), "the first wait")?;
    // Whatever was signalled has been by the time in which a context does this.
    let done = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
    granted(signal2(&rig, &contexts, done.handle, 1), "a signal behind that of the semaphore")?;
    granted(rig.wait(&[done.handle], &[1], false), "its end")?;
    ensure_eq!(passed.value.load(), 1, "waits that have passed after one signal of three contexts");
    granted(signal2(&rig, &contexts[..1], semaphore, 0), "a second signal")?;
    granted(rig.wait(&[passed.handle], &[2], false), "the second wait")
}

fn refusals(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let other = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let own = rig.packet_context(NODE_COPY).map_err(text("a context"))?;
    let foreign = other.packet_context(NODE_COPY).map_err(text("a context of another device"))?;
    let fence = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
    let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2::zeroed();
    (arguments.hContext, arguments.ObjectCount, arguments.ObjectHandleArray[0]) = (own, 1, fence.handle);
    arguments.BroadcastContextCount = 65;
    let status = rig.kmt.call(rig.kmt.further().D3DKMTSignalSynchronizationObject2, &mut arguments);
    refused(status, BAD_ARGUMENT, "65 further contexts")?;
    refused(signal_from_gpu2(&rig, &[own; 65], fence.handle, 5), BAD_ARGUMENT, "65 contexts")?;
    refused(signal_from_gpu2(&rig, &[], fence.handle, 5), BAD_ARGUMENT, "no context")?;
    type Signal = fn(&Rig, &[D3DKMT_HANDLE], D3DKMT_HANDLE, u64) -> NTSTATUS;
    for signal in [signal2 as Signal, signal_from_gpu2] {
        refused(signal(&rig, &[own, foreign], fence.handle, 5), BAD_ARGUMENT, "a context of another device")?;
        for stranger in [rig.device, fence.handle] {
            refused(signal(&rig, &[own, stranger], fence.handle, 5), WRONG_KIND, "a handle of something else")?;
        }
    }
    ensure_eq!(fence.value.load(), 0, "value after refused signals");
    // Nothing of them is left in the context.
    granted(signal2(&rig, &[own], fence.handle, 6), "a signal")?;
    granted(rig.wait(&[fence.handle], &[6], false), "its value")
}

fn names(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for kind in [Type::D3DDDI_SEMAPHORE, Type::D3DDDI_SYNCHRONIZATION_MUTEX, Type::D3DDDI_FENCE] {
        let share = |info: &mut D3DDDI_SYNCHRONIZATIONOBJECTINFO2| {
            info.Flags = info.Flags.with_Shared(true).with_NtSecuritySharing(true);
            if kind == Type::D3DDDI_SEMAPHORE {
                info.u.Semaphore = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Semaphore { MaxCount: 1, InitialCount: 0 };
            }
        };
        let created = create(&rig, kind, share).map_err(text("a shared object"))?;
        ensure_eq!(created.Info.SharedHandle, 0, "global handle of {kind:?}");
        ensure!(open_global(&rig, created.hSyncObject).is_err(), "{kind:?} is opened as by a global handle");
        let name = format!("campanile object {} {:#x}", kind.0, created.hSyncObject);
        let name: Vec<u16> = name.encode_utf16().collect();
        let handle = share_named(&rig, created.hSyncObject, &name).map_err(text("sharing with a name"))?;
        match share_named(&rig, created.hSyncObject, &name) {
            Ok(_) => return Err(Failure::new("a name was given twice")),
            Err(status) => refused(status, &[STATUS_OBJECT_NAME_COLLISION], "the name a second time")?,
        }
        let again = open_named(&rig, &name).map_err(text("D3DKMTOpenSyncObjectNtHandleFromName"))?;
        let mut arguments = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE::zeroed();
        arguments.hNtHandle = again.raw();
        granted(
            rig.kmt.call(rig.kmt.further().D3DKMTOpenSyncObjectFromNtHandle, &mut arguments),
            "opening what was found by name",
        )?;
        ensure!(arguments.hSyncObject != created.hSyncObject, "{kind:?} has one handle twice");
        granted(handle.close(), "closing the first handle")?;
        granted(again.close(), "closing the second handle")?;
        match open_named(&rig, &name) {
            Ok(_) => return Err(Failure::new(format!("{kind:?} was found without a kernel handle"))),
            Err(status) => refused(status, &[STATUS_OBJECT_NAME_NOT_FOUND], "the name of what has no kernel handle")?,
        }
    }
    Ok(())
}

fn top_of_pipeline(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    let fence = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new().with_TopOfPipeline(true))?;
    let gate = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
    granted(rig.context_wait(queue.context, &[(gate.handle, 1)]), "a wait")?;
    granted(rig.context_signal(queue.context, &[(fence.handle, 3)]), "a signal behind it")?;
    ensure_eq!(fence.value.load(), 0, "value while the context waits");
    granted(rig.signal(&[gate.handle], &[1]), "letting it go on")?;
    rig.packet_execute(&mut queue, &[])?;
    granted(rig.wait(&[fence.handle], &[3], false), "the value when the commands are done")
}

fn by_the_driver(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let event = Event::new()?;
    for (kind, expected) in [
        (Type::D3DDDI_CPU_NOTIFICATION, STATUS_NOT_SUPPORTED),
        (Type::D3DDDI_FENCE, STATUS_INVALID_PARAMETER),
        (Type::D3DDDI_SYNCHRONIZATION_MUTEX, STATUS_INVALID_PARAMETER),
    ] {
        let made = create(&rig, kind, |info| {
            info.Flags.set_SignalByKmd(true);
            if kind == Type::D3DDDI_CPU_NOTIFICATION {
                info.u.CPUNotification = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_CPUNotification {
                    Event: std::ptr::without_provenance_mut(event.number() as usize),
                };
            }
        });
        match made {
            Ok(_) => return Err(Failure::new(format!("{kind:?} was created to be signalled by the driver"))),
            Err(status) => refused(status, &[expected], "SignalByKmd")?,
        }
    }
    Ok(())
}

fn one_value(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut waiting, mut other) = (rig.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?);
    let mut plain = [fence(&rig, 0)?, fence(&rig, 0)?];
    let mut wait = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU::zeroed();
    (wait.hContext, wait.ObjectCount, wait.ObjectHandleArray) = (waiting.context, 2, plain.as_mut_ptr());
    wait.u.FenceValue = 5;
    granted(rig.kmt.call(rig.kmt.table().D3DKMTWaitForSynchronizationObjectFromGpu, &mut wait), "a wait for two")?;
    let behind = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
    granted(rig.context_signal(waiting.context, &[(behind.handle, 1)]), "a signal behind the wait")?;
    let signal = |object: D3DKMT_HANDLE, value: u64| {
        let (mut object, mut context) = (object, other.context);
        let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2::zeroed();
        (arguments.ObjectCount, arguments.ObjectHandleArray) = (1, &raw mut object);
        (arguments.BroadcastContextCount, arguments.BroadcastContextArray) = (1, &raw mut context);
        arguments.u.FenceValue = value;
        rig.kmt.call(rig.kmt.further().D3DKMTSignalSynchronizationObjectFromGpu2, &mut arguments)
    };
    for (object, value) in [(plain[0], 5), (plain[1], 4)] {
        granted(signal(object, value), "a signal of one value")?;
    }
    rig.packet_execute(&mut other, &[])?;
    // Another one, for nobody says which of two contexts is the first to write a value.
    let beside = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?;
    ensure_eq!(behind.value.load(), 0, "value behind a wait for 5 when one of two fences has 4");
    let signal = |value| {
        rig.context_signal2(&[other.context], &[(beside.handle, 7), (plain[1], value)], D3DDDICB_SIGNALFLAGS::new())
    };
    granted(signal(5), "a signal of a monitored fence and of one without an address")?;
    granted(rig.wait(&[beside.handle], &[7], false), "the monitored fence")?;
    granted(rig.wait(&[behind.handle], &[1], false), "the end of the wait")?;
    rig.packet_execute(&mut waiting, &[])
}

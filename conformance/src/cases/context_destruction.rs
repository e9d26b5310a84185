//! Contexts that are destroyed while they have work or own mutexes.

use std::time::{Duration, Instant};

use campanile_hw::registers::NODE_COPY;
use wddm_ddi::kmt::{D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS, D3DDDICB_SIGNALFLAGS};
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use super::older_sync::{fence, give, made, mutex, semaphore, signal, take, wait, waits};
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE};
use crate::rig::Rig;
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "OlderSync";
    "OlderSync.OwnersAreNotDestroyed" on Boot::Shared, "pfnd3dddi_destroycontextcb":
        "The destruction of a context that owns a mutex fails, and the context and its ownership stay; it succeeds when the mutex is given back by work that is still queued."
        => owners;
    "OlderSync.DestructionWaitsForTheWork" on Boot::Shared, "pfnd3dddi_destroycontextcb":
        "The destruction of a context blocks until what was queued is done, also for longer than TdrDelay when the work waits for a signal, and costs nobody a device."
        => destruction;
    "OlderSync.QueueDestructionWaitsForTheWork" needs HardwareScheduling on Boot::Shared, "d3dkmtdestroyhwqueue":
        "The destruction of a hardware queue blocks until what the kernel was given for it is done: buffers behind a wait, and signals behind a buffer, also those of several queues. The page is silent; it is the rule of contexts."
        => queue_destruction;
    "OlderSync.DevicesThatEndGiveUpWhatTheyOwn" on Boot::Shared, "d3dkmtdestroydevice":
        "A mutex whose owner's device is destroyed goes to the next context, and a context whose device is destroyed while it waits takes nothing from the next one. This system's rule."
        => abandoned;
}

fn owners(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut owner, mut next) = (rig.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?);
    let mut other = rig.packet_queue(NODE_COPY)?;
    let object = made(mutex(&rig, false), "a mutex")?;
    granted(take(&rig, owner.context, &[object]), "a wait")?;
    granted(take(&rig, next.context, &[object]), "the wait of the next one")?;
    let value = rig.packet_submit(&mut next, &[])?;
    refused(rig.destroy_packet_context(owner.context), BAD_ARGUMENT, "destroying the owner of a mutex")?;
    rig.packet_execute(&mut owner, &[])?;
    waits(&rig, &next, value, &mut other, "the refused destruction gave the mutex up")?;
    let gate = fence(&rig, 0)?;
    granted(wait(&rig, owner.context, &[gate], 1), "a wait before the mutex is given back")?;
    granted(give(&rig, owner.context, object), "giving it back")?;
    std::thread::scope(|scope| {
        let destroyer = scope.spawn(|| case.on_thread(|| Ok(rig.destroy_packet_context(owner.context))));
        waits(&rig, &next, value, &mut other, "the mutex was given back before the work before it was done")?;
        ensure!(!destroyer.is_finished(), "the destruction did not wait for the work");
        granted(signal(&rig, other.context, &[gate], 1), "the signal that the work waits for")?;
        granted(joined(destroyer)?, "destroying a context that gives its mutex back")?;
        rig.packet_wait(&next, value)
    })
}

/// The status that a thunk returned on another thread, once that thread has ended. A panic of the thread is a failure of the case.
pub(crate) fn joined(
    thread: std::thread::ScopedJoinHandle<'_, Result<NTSTATUS, Failure>>,
) -> Result<NTSTATUS, Failure> {
    thread.join().unwrap_or_else(|_| Err(Failure::new("the destroying thread panicked")))
}

fn destruction(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, mut other) = (rig.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?);
    let gate = fence(&rig, 0)?;
    granted(wait(&rig, queue.context, &[gate], 1), "a wait")?;
    let value = rig.packet_submit(&mut queue, &[])?;
    let context = queue.context;
    std::thread::scope(|scope| {
        let destroyer = scope.spawn(|| case.on_thread(|| Ok(rig.destroy_packet_context(context))));
        // TdrDelay is two seconds.
        let end = Instant::now() + Duration::from_millis(2500);
        while Instant::now() < end {
            rig.packet_execute(&mut other, &[])?;
            ensure!(!destroyer.is_finished(), "the destruction did not wait for the work");
            std::thread::sleep(Duration::from_millis(50));
        }
        granted(signal(&rig, other.context, &[gate], 1), "the signal that the work waits for")?;
        granted(joined(destroyer)?, "destroying a context whose work is done")
    })?;
    rig.packet_wait(&queue, value)?;
    refused(rig.destroy_packet_context(context), BAD_HANDLE, "destroying it again")?;
    rig.packet_execute(&mut other, &[])
}

fn queue_destruction(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let none = D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new();
    let (gate, done) = (rig.monitored_fence(0, none)?, rig.monitored_fence(0, none)?);
    let signal = |queues: &[D3DKMT_HANDLE], value| {
        let status = rig.queue_signal(queues, &[(done.handle, value)], D3DDDICB_SIGNALFLAGS::new());
        granted(status, "a signal behind the work")
    };
    for round in 1..=20 {
        let mut queue = rig.kernel_queue(NODE_COPY)?;
        rig.kernel_submit(&mut queue, &[])?;
        signal(&[queue.queue], round)?;
        granted(rig.destroy_hw_queue(queue.queue), "destroying a queue with a signal behind its work")?;
        ensure_eq!(done.value.load(), round, "value after the destruction");
    }
    let mut both = [rig.kernel_queue(NODE_COPY)?, rig.kernel_queue(NODE_COPY)?];
    for queue in &mut both {
        rig.kernel_submit(queue, &[])?;
    }
    signal(&[both[0].queue, both[1].queue], 100)?;
    for queue in &both {
        granted(rig.destroy_hw_queue(queue.queue), "destroying one of two that signal together")?;
    }
    ensure_eq!(done.value.load(), 100, "value that both signal");
    let mut held = rig.kernel_queue(NODE_COPY)?;
    let mut other = rig.packet_queue(NODE_COPY)?;
    granted(rig.queue_wait(held.queue, &[(gate.handle, 1)]), "a wait")?;
    let value = rig.kernel_submit(&mut held, &[])?;
    signal(&[held.queue], 200)?;
    let queue = held.queue;
    std::thread::scope(|scope| {
        let destroyer = scope.spawn(|| case.on_thread(|| Ok(rig.destroy_hw_queue(queue))));
        for _ in 0..20 {
            rig.packet_execute(&mut other, &[])?;
            ensure!(!destroyer.is_finished(), "the destruction did not wait for the work");
        }
        granted(rig.signal(&[gate.handle], &[1]), "what the work waits for")?;
        granted(joined(destroyer)?, "destroying a queue whose work is done")
    })?;
    ensure_eq!((held.progress.load(), done.value.load()), (value, 200), "progress of the queue, and its signal");
    rig.packet_execute(&mut other, &[])
}

fn abandoned(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let holder = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let (mut owner, gone) = (holder.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?);
    let (mut next, mut other) = (rig.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?);
    let object = made(mutex(&rig, false), "a mutex")?;
    granted(take(&holder, owner.context, &[object]), "a wait")?;
    holder.packet_execute(&mut owner, &[])?;
    granted(take(&rig, next.context, &[object]), "the wait of the next one")?;
    let value = rig.packet_submit(&mut next, &[])?;
    waits(&rig, &next, value, &mut other, "two contexts passed a mutex")?;
    granted(holder.destroy(), "destroying the owner's device")?;
    rig.packet_wait(&next, value)?;
    // The destruction of a device gives its work up that stands still.
    let count = made(semaphore(&rig, 0, 1), "a semaphore")?;
    let lost = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let first = lost.packet_queue(NODE_COPY)?;
    granted(take(&lost, first.context, &[count]), "a wait")?;
    granted(take(&rig, gone.context, &[count]), "the wait behind it")?;
    let mut gone = gone;
    let value = rig.packet_submit(&mut gone, &[])?;
    granted(lost.destroy(), "destroying the device that waits first")?;
    waits(&rig, &gone, value, &mut other, "a wait passed that nobody has signalled")?;
    granted(give(&rig, other.context, count), "the one signal")?;
    rig.packet_wait(&gone, value)
}

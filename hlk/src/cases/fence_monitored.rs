//! Monitored fences, and the waits and signals that the kernel schedules for kernel-mode queues.

use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use crate::kmt::BAD_HANDLE;
use crate::rig::{KernelQueue, RawFence, Rig, wait_until};
use crate::{Boot, Case, Event, Failure, granted, refused};

cases! { "MonitoredFence";
    "MonitoredFence.ProcessorSignalIsSeenAtOnce" on Boot::Shared, "context-monitoring":
        "A signal of the processor is visible to readers of the value at once, and ends blocked waits and waits with an event."
        => processor;
    "MonitoredFence.SignalAtSubmissionDoesNotWait" on Boot::Shared, "d3dkmtsignalsynchronizationobjectfromgpu2":
        "A signal with SignalAtSubmission is written when the work before it was handed over, whether or not that is done."
        => signal_at_submission;
    "MonitoredFence.WaitForSeveralNeedsAll" on Boot::Shared, "d3dkmtwaitforsynchronizationobjectfromgpu":
        "A wait of a context for several fences is satisfied when each of them has reached its value, in whatever order."
        => wait_for_several;
    "MonitoredFence.QueuesTakeTurns" on Boot::Shared, "context-monitoring":
        "Two kernel-mode queues that wait for each other take a thousand turns in order."
        => turns;
    "MonitoredFence.DestroyedFenceHoldsNobody" on Boot::Shared, "d3dkmtdestroysynchronizationobject":
        "A fence that is destroyed releases the queues and the processors that wait for it."
        => destroyed;
    "MonitoredFence.HeldWorkHasALimit" on Boot::Shared, "context-monitoring":
        "A queue refuses work beyond a number that it holds back, and takes more when it was released."
        => limit;
}

pub fn private(rig: &Rig, initial: u64) -> Result<RawFence, Failure> {
    rig.monitored_fence(initial, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())
}

pub fn queue_signal(rig: &Rig, queue: &KernelQueue, fence: &RawFence, value: u64) -> Result<(), Failure> {
    let status = rig.queue_signal(&[queue.queue], &[(fence.handle, value)], D3DDDICB_SIGNALFLAGS::new());
    granted(status, "D3DKMTSubmitSignalSyncObjectsToHwQueue")
}

pub fn queue_wait(rig: &Rig, queue: &KernelQueue, fence: &RawFence, value: u64) -> Result<(), Failure> {
    let status = rig.queue_wait(queue.queue, &[(fence.handle, value)]);
    granted(status, "D3DKMTSubmitWaitForSyncObjectsToHwQueue")
}

pub fn processor(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = private(&rig, 3)?;
    ensure_eq!(fence.value.load(), 3, "value at first");
    ensure!(!fence.value.is_writable()?, "user mode can write the value");
    let event = Event::new()?;
    granted(rig.wait_with_event(&[fence.handle], &[5], false, Some(event.number())), "wait with an event")?;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| case.on_thread(|| Ok(rig.wait(&[fence.handle], &[5], false))));
        granted(rig.signal(&[fence.handle], &[4]), "signal of 4")?;
        ensure_eq!(fence.value.load(), 4, "value right after the signal");
        ensure!(!event.is_set()?, "the wait for 5 ended at 4");
        granted(rig.signal(&[fence.handle], &[5]), "signal of 5")?;
        ensure!(event.is_set()?, "the wait did not end with the signal");
        let woken = waiter.join().map_err(|_| Failure::new("the waiter panicked"))??;
        granted(woken, "the blocked wait")
    })?;
    refused(rig.signal(&[fence.handle], &[4]), &[STATUS_INVALID_PARAMETER], "a signal of less")
}

fn signal_at_submission(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (gate, fence, done) = (rig.fence(0)?, private(&rig, 0)?, private(&rig, 0)?);
    let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
    // The GPU itself is held, so that work that was handed over is not done.
    let held = rig.kernel_submit(&mut queue, &[gate.wait(1)])?;
    let at_once = D3DDDICB_SIGNALFLAGS::new().with_SignalAtSubmission(true);
    granted(rig.queue_signal(&[queue.queue], &[(fence.handle, 1)], at_once), "the signal at submission")?;
    queue_signal(&rig, &queue, &done, 1)?;
    granted(rig.wait(&[fence.handle], &[1], false), "the wait of the processor")?;
    ensure!(queue.progress.load() < held, "the gate did not hold");
    ensure_eq!(done.value.load(), 0, "value of a signal behind work that is not done");
    granted(rig.signal(&[gate.handle], &[1]), "opening the gate")?;
    granted(rig.wait(&[done.handle], &[1], false), "the wait for the other signal")
}

fn wait_for_several(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        // Of both kinds, since a queue waits for either.
        let fences = [private(&rig, 0)?, rig.fence(0)?, private(&rig, 0)?];
        let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
        let conditions: Vec<_> = fences.iter().zip(5..).map(|(fence, value)| (fence.handle, value)).collect();
        granted(rig.queue_wait(queue.queue, &conditions), "the wait for three fences")?;
        let value = rig.kernel_submit(&mut queue, &[])?;
        for (count, place) in order.into_iter().enumerate() {
            ensure!(queue.progress.load() < value, "the wait ended with {count} of three fences");
            let (fence, value) = conditions[place];
            granted(rig.signal(&[fence], &[value]), "signal")?;
        }
        wait_until("the end of the wait", || queue.progress.load() >= value)?;
    }
    Ok(())
}

fn turns(case: &Case) -> Result<(), Failure> {
    const TURNS: u64 = 1000;
    let rig = case.rig()?;
    let fence = private(&rig, 0)?;
    let (mut one, mut two) = (rig.kernel_queue(NODE_COMPUTE)?, rig.kernel_queue(NODE_COPY)?);
    for turn in 0..TURNS {
        for (queue, value) in [(&mut one, 2 * turn), (&mut two, 2 * turn + 1)] {
            queue_wait(&rig, queue, &fence, value)?;
            rig.kernel_submit(queue, &[])?;
            queue_signal(&rig, queue, &fence, value + 1)?;
        }
    }
    granted(rig.wait(&[fence.handle], &[2 * TURNS], false), "the wait for the last turn")?;
    ensure_eq!((one.progress.load(), two.progress.load()), (TURNS, TURNS), "command buffers of both queues");
    ensure_eq!(fence.value.load(), 2 * TURNS, "value at the end");
    Ok(())
}

fn destroyed(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = private(&rig, 0)?;
    let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
    let event = Event::new()?;
    granted(rig.wait_with_event(&[fence.handle], &[1], false, Some(event.number())), "wait with an event")?;
    queue_wait(&rig, &queue, &fence, 1)?;
    let value = rig.kernel_submit(&mut queue, &[])?;
    ensure!(queue.progress.load() < value, "the queue is not held");
    granted(rig.destroy_fence(fence.handle), "destroying the fence")?;
    event.wait()?;
    wait_until("the queue", || queue.progress.load() >= value)?;
    refused(rig.queue_wait(queue.queue, &[(fence.handle, 1)]), BAD_HANDLE, "a wait for a destroyed fence")?;
    let flags = D3DDDICB_SIGNALFLAGS::new();
    let status = rig.queue_signal(&[queue.queue], &[(fence.handle, 1)], flags);
    refused(status, BAD_HANDLE, "a signal of a destroyed fence")?;
    // One that is destroyed before its signal comes to its turn takes nobody along.
    let (gate, gone) = (private(&rig, 0)?, private(&rig, 0)?);
    queue_wait(&rig, &queue, &gate, 1)?;
    queue_signal(&rig, &queue, &gone, 1)?;
    let value = rig.kernel_submit(&mut queue, &[])?;
    granted(rig.destroy_fence(gone.handle), "destroying the fence")?;
    granted(rig.signal(&[gate.handle], &[1]), "signal")?;
    wait_until("the queue behind a signal of nothing", || queue.progress.load() >= value)
}

fn limit(case: &Case) -> Result<(), Failure> {
    const ENOUGH: usize = 1 << 20;
    let rig = case.rig()?;
    let (gate, fence) = (private(&rig, 0)?, private(&rig, 0)?);
    let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
    queue_wait(&rig, &queue, &gate, 1)?;
    let mut taken = 0;
    let full = loop {
        let status = rig.queue_wait(queue.queue, &[(gate.handle, 1)]);
        if !status.is_success() || taken > ENOUGH {
            break status;
        }
        taken += 1;
    };
    refused(full, &[STATUS_INSUFFICIENT_RESOURCES], "a wait too many")?;
    let signal = rig.queue_signal(&[queue.queue], &[(fence.handle, 1)], D3DDDICB_SIGNALFLAGS::new());
    refused(signal, &[STATUS_INSUFFICIENT_RESOURCES], "a signal too many")?;
    granted(rig.signal(&[gate.handle], &[1]), "signal")?;
    wait_until("room in the queue", || rig.queue_wait(queue.queue, &[(gate.handle, 1)]).is_success())?;
    let value = rig.kernel_submit(&mut queue, &[])?;
    queue_signal(&rig, &queue, &fence, 2)?;
    granted(rig.wait(&[fence.handle], &[2], false), "the wait for the last signal")?;
    ensure!(queue.progress.load() >= value, "the signal came before the work");
    Ok(())
}

//! Monitored fences, and the waits and signals that the kernel schedules for kernel-mode queues.

use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::fault::wait_for_error;
use crate::kmt::{BAD_HANDLE, DEVICE_LOST};
use crate::rig::{KernelQueue, RawFence, Rig, fill, wait_until};
use crate::{Boot, Case, Event, Failure, granted, refused};

cases! { thunks "MonitoredFence";
    "MonitoredFence.ProcessorSignalIsSeenAtOnce" on Boot::Shared, "context-monitoring":
        "A signal of the processor is visible to readers of the value at once, and ends blocked waits and waits with an event."
        holds [NativeFence 78, ContextMonitoring 1, ContextMonitoring 2, ContextMonitoring 4, ContextMonitoring 5, ContextMonitoring 18, ContextMonitoring 19, ContextMonitoring 20]
        => processor;
    "MonitoredFence.SignalAtSubmissionDoesNotWait" needs HardwareScheduling, NativeFence on Boot::Shared, "d3dkmtsignalsynchronizationobjectfromgpu2":
        "A signal with SignalAtSubmission is written when the work before it was handed over, whether or not that is done."
        holds [NativeFence 78, ContextMonitoring 10]
        => signal_at_submission;
    "MonitoredFence.WaitForSeveralNeedsAll" needs HardwareScheduling, NativeFence on Boot::Shared, "d3dkmtwaitforsynchronizationobjectfromgpu":
        "A wait of a context for several fences is satisfied when each of them has reached its value, in whatever order."
        holds [NativeFence 78, ContextMonitoring 15]
        => wait_for_several;
    "MonitoredFence.QueuesAlternate" needs HardwareScheduling on Boot::Shared, "context-monitoring":
        "Two kernel-mode queues that wait for each other run in alternation a thousand times."
        holds [NativeFence 78, ContextMonitoring 1, ContextMonitoring 10]
        => turns;
    "MonitoredFence.DestroyedFenceHoldsNobody" needs HardwareScheduling on Boot::Shared, "d3dkmtdestroysynchronizationobject":
        "A fence that is destroyed releases the queues and the processors that wait for it."
        holds [NativeFence 78, ContextMonitoring 3, ContextMonitoring 19]
        => destroyed;
    "MonitoredFence.BlockedWorkHasALimit" needs HardwareScheduling on Boot::Shared, "context-monitoring":
        "A queue refuses work beyond a number of submissions that wait, and takes more when they were released."
        holds [NativeFence 78, ContextMonitoring 10]
        => limit;
    "MonitoredFence.ProcessorWaitsForAnyOrAll" on Boot::Shared, "context-monitoring":
        "A processor blocks until any of several fences has reached its value, or all of them have; reserved flags of the call are refused."
        holds [NativeFence 78, ContextMonitoring 19]
        => any_or_all;
    "MonitoredFence.ArgumentsOfCreationAreChecked" on Boot::Shared, "d3dkmtcreatesynchronizationobject2":
        "A fence for engines that the adapter does not have is refused, and one without sharing has no handle of that kind."
        holds [NativeFence 78, ContextMonitoring 2]
        => creation;
    "MonitoredFence.LostDeviceTakesNothing" needs HardwareScheduling, NativeFence on Boot::Shared, "d3dkmtcreatesynchronizationobject2":
        "On a lost device monitored fences are neither created nor signalled nor waited for, by processors, queues and contexts alike."
        holds [NativeFence 78, ContextMonitoring 2]
        => lost_device;
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
    // The GPU itself is blocked, so that work that was handed over is not done.
    let held = rig.kernel_submit(&mut queue, &[gate.wait(1)])?;
    let at_once = D3DDDICB_SIGNALFLAGS::new().with_SignalAtSubmission(true);
    granted(rig.queue_signal(&[queue.queue], &[(fence.handle, 1)], at_once), "the signal at submission")?;
    queue_signal(&rig, &queue, &done, 1)?;
    granted(rig.wait(&[fence.handle], &[1], false), "the wait of the processor")?;
    ensure!(queue.progress.load() < held, "the gate did not block");
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
    ensure!(queue.progress.load() < value, "the queue is not blocked");
    granted(rig.destroy_fence(fence.handle), "destroying the fence")?;
    event.wait()?;
    wait_until("the queue", || queue.progress.load() >= value)?;
    refused(rig.queue_wait(queue.queue, &[(fence.handle, 1)]), BAD_HANDLE, "a wait for a destroyed fence")?;
    let flags = D3DDDICB_SIGNALFLAGS::new();
    let status = rig.queue_signal(&[queue.queue], &[(fence.handle, 1)], flags);
    refused(status, BAD_HANDLE, "a signal of a destroyed fence")?;
    // One that is destroyed before its signal is due takes nobody along.
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
    wait_until("space in the queue", || rig.queue_wait(queue.queue, &[(gate.handle, 1)]).is_success())?;
    let value = rig.kernel_submit(&mut queue, &[])?;
    queue_signal(&rig, &queue, &fence, 2)?;
    granted(rig.wait(&[fence.handle], &[2], false), "the wait for the last signal")?;
    ensure!(queue.progress.load() >= value, "the signal came before the work");
    Ok(())
}

fn any_or_all(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for (any, order) in [(true, [0, 1]), (true, [1, 0]), (false, [0, 1]), (false, [1, 0])] {
        let fences = [private(&rig, 0)?, private(&rig, 7)?];
        let (handles, values) = (fences.each_ref().map(|fence| fence.handle), [5, 9]);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| case.on_thread(|| Ok(rig.wait(&handles, &values, any))));
            for (count, place) in (1..).zip(order) {
                ensure!(
                    !waiter.is_finished(),
                    "a wait for {} ended before {count} were signalled",
                    if any { "any" } else { "all" }
                );
                granted(rig.signal(&handles[place..=place], &values[place..=place]), "signal")?;
                if any {
                    break;
                }
            }
            let woken = waiter.join().map_err(|_| Failure::new("the waiter panicked"))??;
            granted(woken, "the blocked wait")
        })?;
        let reached: Vec<bool> = fences.iter().zip(values).map(|(fence, value)| fence.value.load() == value).collect();
        ensure_eq!(
            reached,
            (0..2).map(|place| !any || place == order[0]).collect::<Vec<_>>(),
            "fences at their values"
        );
    }
    let (mut fence, mut value) = (private(&rig, 1)?.handle, 1);
    for bit in 1..32 {
        let mut wait = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
        (wait.hDevice, wait.ObjectCount) = (rig.device, 1);
        (wait.ObjectHandleArray, wait.FenceValueArray) = (&raw mut fence, &raw mut value);
        wait.Flags = D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS::from_bits(1 << bit);
        let status = rig.kmt.call(rig.kmt.table().D3DKMTWaitForSynchronizationObjectFromCpu, &mut wait);
        refused(status, &[STATUS_INVALID_PARAMETER], &format!("a wait with flag bit {bit}"))?;
    }
    Ok(())
}

/// Asks for a monitored fence for these engines.
fn create(rig: &Rig, engines: u32) -> (NTSTATUS, D3DKMT_CREATESYNCHRONIZATIONOBJECT2) {
    let mut arguments = D3DKMT_CREATESYNCHRONIZATIONOBJECT2::zeroed();
    arguments.hDevice = rig.device;
    arguments.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE;
    arguments.Info.SharedHandle = 0x77;
    let mut fence = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_MonitoredFence::zeroed();
    fence.EngineAffinity = engines;
    arguments.Info.u.MonitoredFence = fence;
    (rig.kmt.call(rig.kmt.table().D3DKMTCreateSynchronizationObject2, &mut arguments), arguments)
}

fn creation(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for engines in [1 << 31, u32::MAX] {
        refused(create(&rig, engines).0, &[STATUS_INVALID_PARAMETER], &format!("a fence for engines {engines:#x}"))?;
    }
    let (status, made) = create(&rig, rig.affinity());
    granted(status, "D3DKMTCreateSynchronizationObject2")?;
    ensure_eq!({ made.Info.SharedHandle }, 0, "SharedHandle of a fence that is not shared");
    granted(rig.destroy_fence(made.hSyncObject), "destroying the fence")
}

fn lost_device(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = private(&rig, 3)?;
    let (queue, mut packets) = (rig.kernel_queue(NODE_COMPUTE)?, rig.packet_queue(NODE_COPY)?);
    rig.packet_submit(&mut packets, &[fill(0x7000_0000_0000, 4, 0)])?;
    wait_for_error(rig.kmt, rig.device)?;
    let (met, flags) = ([(fence.handle, 3)], D3DDDICB_SIGNALFLAGS::new());
    refused(create(&rig, rig.affinity()).0, DEVICE_LOST, "the creation of a fence")?;
    refused(rig.wait(&[fence.handle], &[3], false), DEVICE_LOST, "a wait of the processor")?;
    refused(rig.signal(&[fence.handle], &[u64::MAX]), DEVICE_LOST, "a signal of the processor")?;
    refused(rig.queue_wait(queue.queue, &met), DEVICE_LOST, "a wait of a queue")?;
    refused(rig.queue_signal(&[queue.queue], &met, flags), DEVICE_LOST, "a signal of a queue")?;
    refused(rig.context_wait(packets.context, &met), DEVICE_LOST, "a wait of a context")?;
    refused(rig.context_signal(packets.context, &met), DEVICE_LOST, "a signal of a context")
}

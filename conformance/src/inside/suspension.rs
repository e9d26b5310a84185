//! Hardware contexts that are suspended and resumed while user mode goes on submitting.

use std::sync::Arc;

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::{Process, Suspensions};
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;
use wddm_ddi::status::NTSTATUS;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmt::{BAD_HANDLE, WRONG_KIND};
use crate::rig::{RING_ENTRIES, RawQueue, Rig, fill, user_mode_flags, wait_until};
use crate::simulated::{Case, one_doorbell};
use crate::{Boot, Failure, granted, refused};

cases! { inside "Suspension", needs HardwareScheduling, behind "it suspends contexts as only the system can";
    "Suspension.IdleContextKeepsConnectionAndRing" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "While an idle context is suspended its doorbell stays connected and its ring can be written; nothing of it runs, and after resuming all of it does."
        holds [UserModeSubmission 28]
        => idle_context;
    "Suspension.FullRingWaitsForResume" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "User mode fills the whole ring of a suspended queue with commands, which run in order once the context is resumed."
        holds [UserModeSubmission 28]
        => full_ring;
    "Suspension.WritePointerIsReadAgainOnResume" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "After resuming, the scheduler finds a new write pointer although nobody rings any more."
        holds [UserModeSubmission 31]
        => write_pointer;
    "Suspension.RunningContextStopsAndGoesOn" needs UserModeSubmission on Boot::Shared, "dxgkddi_suspendcontext":
        "Once the suspension of a running context is reported its work changes no byte of memory, and after resuming it goes on where it stopped."
        holds [UserModeSubmission 30]
        => running_context;
    "Suspension.BlockedContextStaysBlocked" needs UserModeSubmission on Boot::Shared, "dxgkddi_suspendcontext":
        "A context that is suspended while it waits for a fence does not go on when the fence is signalled, but when it is resumed after that."
        holds [UserModeSubmission 30]
        => blocked_context;
    "Suspension.FencesAreAnsweredInOrder" needs UserModeSubmission on Boot::Shared, "dxgkddi_suspendcontext":
        "Suspending and resuming again and again without waiting, every request is answered, none out of order, and no work is lost."
        holds [UserModeSubmission 33]
        => many_suspensions;
    "Suspension.EveryQueueOfTheContextStops" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "Suspending a context takes all its queues off the scheduler, and queues of other contexts of the device stay on it."
        holds [UserModeSubmission 30]
        => every_queue;
    "Suspension.QueueMadeMeanwhileWaits" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A ring that a suspended context gets, with work in it from the start, is not looked at before the context is resumed."
        holds [UserModeSubmission 30]
        => made_meanwhile;
    "Suspension.VictimReconnects" needs UserModeSubmission on Boot::With(one_doorbell), "user-mode-work-submission":
        "A suspended queue may lose its doorbell; user mode connects it again, goes on submitting, and all of it runs after resuming."
        holds [UserModeSubmission 23, UserModeSubmission 32]
        => victim;
    "Suspension.DestroyedWhileSuspended" needs UserModeSubmission on Boot::Shared, "dxgkddi_suspendcontext":
        "Queue and context of a suspended context without work can be destroyed, and others work on."
        holds [UserModeSubmission 34]
        => destroyed;
    "Suspension.RingThatWentAwayIsFoundOnResume" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A ring control whose address is freed while the context is suspended puts its device in error on resume, and no other."
        holds [UserModeSubmission 31]
        => ring_went_away;
}

const CONNECTED: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED;
const RETRY: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;

fn text(what: &'static str) -> impl Fn(NTSTATUS) -> Failure {
    move |status| Failure::new(format!("{what} failed with {status}"))
}

fn suspensions(process: &Process, context: D3DKMT_HANDLE) -> Result<Suspensions, Failure> {
    process.suspensions(context).map_err(text("asking for suspensions"))
}

/// Suspends a context and waits until it is off its engine.
pub(super) fn suspend(process: &Arc<Process>, context: D3DKMT_HANDLE) -> Result<(), Failure> {
    process.suspend_hw_context(context).map_err(text("suspending"))?;
    let done = || process.suspensions(context).is_ok_and(|Suspensions { asked, answered }| asked == answered);
    wait_until("the report of the suspension", done)
}

pub(super) fn resume(process: &Arc<Process>, context: D3DKMT_HANDLE) -> Result<(), Failure> {
    process.resume_hw_context(context).map_err(text("resuming"))
}

/// Has every node do something else to its end, so that it had every chance to run what it must not run.
pub(super) fn bystanders(rig: &Rig) -> Result<(), Failure> {
    for node in [NODE_COMPUTE, NODE_COPY] {
        let mut other = rig.queue(node)?;
        for _ in 0..20 {
            rig.execute(&mut other, &[])?;
        }
    }
    Ok(())
}

fn idle_context(case: &mut Case<'_>) -> Result<(), Failure> {
    case.needs_kept_doorbells(4)?;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[])?;
    for round in 0..5 {
        let before = queue.progress.load();
        suspend(&case.process, queue.context)?;
        for _ in 0..10 {
            let connections = rig.submit_counted(&mut queue, &[])?;
            ensure_eq!(
                (connections, queue.doorbell.is_connected()),
                (0, true),
                "connections while suspended, connected"
            );
        }
        bystanders(&rig)?;
        ensure_eq!(queue.progress.load(), before, "progress while suspended, round {round}");
        resume(&case.process, queue.context)?;
        wait_until("the work after resuming", || queue.progress.load() == before + 10)?;
        ensure!(queue.doorbell.is_connected(), "status after resuming: {:?}", queue.doorbell.state());
    }
    rig.execute(&mut queue, &[])
}

fn full_ring(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let fence = rig.fence(0)?;
    rig.execute(&mut queue, &[])?;
    suspend(&case.process, queue.context)?;
    for value in 1..=u64::from(RING_ENTRIES) {
        rig.submit(&mut queue, &[fence.signal(value)])?;
    }
    bystanders(&rig)?;
    ensure_eq!((queue.progress.load(), fence.value.load()), (1, 0), "progress and fence while suspended");
    resume(&case.process, queue.context)?;
    let all = u64::from(RING_ENTRIES);
    wait_until("the whole ring", || queue.progress.load() == all + 1)?;
    ensure_eq!(fence.value.load(), all, "fence");
    rig.execute(&mut queue, &[])
}

fn write_pointer(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut connected, mut disconnected) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?);
    rig.execute(&mut connected, &[])?;
    for queue in [&mut connected, &mut disconnected] {
        suspend(&case.process, queue.context)?;
        let value = queue.append(&[])?;
        bystanders(&rig)?;
        ensure!(queue.progress.load() < value, "work of a suspended queue ran");
        resume(&case.process, queue.context)?;
        wait_until("work that nobody rang for", || queue.progress.load() == value)?;
    }
    Ok(())
}

fn running_context(case: &mut Case<'_>) -> Result<(), Failure> {
    const SIZE: u64 = 8 << 20;
    const FILLS: usize = 8;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let memory = rig.memory(SIZE, Placement::System)?;
    let view = rig.view(memory)?;
    // Work that was over before the suspension proves nothing; the next round has twice as much.
    let (mut submissions, mut stopped_half_way) = (1, 0);
    for round in 1..=40_u32 {
        let packets = [fill(memory.address, SIZE, round); FILLS];
        let mut value = 0;
        for _ in 0..submissions {
            value = rig.submit(&mut queue, &packets)?;
        }
        wait_until("the first bytes", || view.read(0, 4) == round.to_le_bytes())?;
        suspend(&case.process, queue.context)?;
        let (progress, before) = (queue.progress.load(), view.read(0, SIZE));
        bystanders(&rig)?;
        ensure!(view.read(0, SIZE) == before, "a suspended queue wrote to memory in round {round}");
        ensure_eq!(queue.progress.load(), progress, "progress while suspended");
        resume(&case.process, queue.context)?;
        wait_until("the end of the work", || queue.progress.load() == value)?;
        let whole = view.read(0, SIZE) == round.to_le_bytes().repeat(SIZE as usize / 4);
        ensure!(whole, "bytes are missing in round {round}");
        if progress < value {
            stopped_half_way += 1;
        } else {
            submissions = (2 * submissions).min(RING_ENTRIES / 2);
        }
        if stopped_half_way == 5 {
            return Ok(());
        }
    }
    Err(Failure::new(format!("the context was suspended half way {stopped_half_way} times, of 5 wanted")))
}

fn blocked_context(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (gate, fence) = (rig.fence(0)?, rig.fence(0)?);
    for value in 1..=5 {
        rig.submit(&mut queue, &[gate.wait(value), fence.signal(value)])?;
        bystanders(&rig)?;
        suspend(&case.process, queue.context)?;
        granted(rig.signal(&[gate.handle], &[value]), "signal from the CPU")?;
        bystanders(&rig)?;
        ensure_eq!((queue.progress.load(), fence.value.load()), (value - 1, value - 1), "progress while suspended");
        resume(&case.process, queue.context)?;
        wait_until("the wait to end", || fence.value.load() == value && queue.progress.load() == value)?;
        // Suspended and resumed while the fence is not signalled, it still waits.
        suspend(&case.process, queue.context)?;
        resume(&case.process, queue.context)?;
    }
    Ok(())
}

fn many_suspensions(case: &mut Case<'_>) -> Result<(), Failure> {
    const ROUNDS: u64 = 300;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let before = suspensions(&case.process, queue.context)?;
    let mut latest = before.answered;
    for value in 1..=ROUNDS {
        rig.submit(&mut queue, &[fence.signal(value)])?;
        for _ in 0..=value % 3 {
            case.process.suspend_hw_context(queue.context).map_err(text("suspending"))?;
        }
        resume(&case.process, queue.context)?;
        let now = suspensions(&case.process, queue.context)?;
        ensure!(latest <= now.answered && now.answered <= now.asked, "answered {now:?} after {latest}");
        latest = now.answered;
    }
    wait_until("all work", || queue.progress.load() == ROUNDS)?;
    ensure_eq!(fence.value.load(), ROUNDS, "fence");
    let asked = before.asked + (1..=ROUNDS).map(|value| value % 3 + 1).sum::<u64>();
    wait_until("the last answer", || {
        case.process.suspensions(queue.context).is_ok_and(|now| (now.asked, now.answered) == (asked, asked))
    })?;
    rig.execute(&mut queue, &[])
}

fn every_queue(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut first = rig.queue(NODE_COMPUTE)?;
    let mut second = rig.queue_on(first.context, RING_ENTRIES)?;
    let mut other = rig.queue(NODE_COMPUTE)?;
    for queue in [&mut first, &mut second, &mut other] {
        rig.execute(queue, &[])?;
    }
    suspend(&case.process, first.context)?;
    for queue in [&mut first, &mut second] {
        rig.submit(queue, &[])?;
    }
    for _ in 0..20 {
        rig.execute(&mut other, &[])?;
    }
    ensure_eq!((first.progress.load(), second.progress.load()), (1, 1), "progress of the suspended queues");
    resume(&case.process, first.context)?;
    wait_until("both queues", || (first.progress.load(), second.progress.load()) == (2, 2))?;
    let handles = [(first.queue, WRONG_KIND), (0, BAD_HANDLE)];
    handles.into_iter().try_for_each(|(handle, allowed)| {
        let refusal = case.process.suspend_hw_context(handle).err();
        refused(refusal.unwrap_or(wddm_ddi::status::STATUS_SUCCESS), allowed, "suspending what is no context")
    })
}

fn made_meanwhile(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for _ in 0..3 {
        let mut queue = rig.queue(NODE_COMPUTE)?;
        rig.execute(&mut queue, &[])?;
        suspend(&case.process, queue.context)?;
        // A second queue of the context, whose ring is full before hardware or driver see it.
        let mut second = rig.queue_on(queue.context, RING_ENTRIES)?;
        let value = rig.submit(&mut second, &[])?;
        rig.hw_queue(queue.context, user_mode_flags()).map_err(text("a third queue, without a ring"))?;
        bystanders(&rig)?;
        ensure_eq!(second.progress.load(), 0, "progress of a queue that was made while its context was suspended");
        rig.resize_written(&mut queue)?;
        bystanders(&rig)?;
        ensure_eq!(queue.progress.load(), 1, "progress of a queue whose ring had work from the start");
        resume(&case.process, queue.context)?;
        wait_until("both queues", || second.progress.load() == value && queue.progress.load() == 2)?;
    }
    Ok(())
}

fn victim(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut suspended, mut other) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?);
    rig.execute(&mut suspended, &[])?;
    suspend(&case.process, suspended.context)?;
    for round in 1..=10 {
        rig.execute(&mut other, &[])?;
        ensure_eq!(suspended.doorbell.state(), RETRY, "status of the victim");
        let connections = rig.submit_counted(&mut suspended, &[])?;
        ensure_eq!((connections, suspended.doorbell.state()), (1, CONNECTED), "connections, status in round {round}");
        ensure_eq!(other.doorbell.state(), RETRY, "status of the other queue");
    }
    bystanders(&rig)?;
    ensure_eq!(suspended.progress.load(), 1, "progress while suspended");
    resume(&case.process, suspended.context)?;
    wait_until("all work", || suspended.progress.load() == 11)
}

fn destroyed(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for _ in 0..5 {
        let mut queue = rig.queue(NODE_COMPUTE)?;
        rig.execute(&mut queue, &[])?;
        suspend(&case.process, queue.context)?;
        granted(rig.destroy_queue(&queue), "destroying a suspended queue with its doorbell and context")?;
    }
    bystanders(&rig)
}

fn ring_went_away(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, other) = (case.rig()?, case.rig()?);
    let (mut queue, mut innocent): (RawQueue, RawQueue) = (rig.queue(NODE_COMPUTE)?, other.queue(NODE_COMPUTE)?);
    rig.execute(&mut queue, &[])?;
    suspend(&case.process, queue.context)?;
    granted(rig.free(queue.control.address, 4096), "freeing the address of the ring control")?;
    other.execute(&mut innocent, &[])?;
    resume(&case.process, queue.context)?;
    let active = wddm_ddi::kmt::D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    wait_until("the device's error", || rig.kmt.execution_state(rig.device).is_ok_and(|state| state != active))?;
    other.execute(&mut innocent, &[])?;
    ensure_eq!(other.kmt.execution_state(other.device)?, active, "state of the other device");
    Ok(())
}

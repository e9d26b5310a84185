//! Doorbells that the hardware does not poll: user mode tells the kernel of each submission, because the doorbell's status asks for it.

use crate::cases::doorbell::{CONNECTED_NOTIFY as NOTIFY, RETRY};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::Clock;

use super::lost_doorbell::ring_and_end;
use crate::rig::{RawQueue, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;
use testbed::user::{Fence, Node, Queue, QueueOptions};

cases! { inside "Doorbell", needs UserModeSubmission, behind "it chooses the hardware, or counts what the GPU heard";
    "Doorbell.StatusAsksForNotification" on Boot::With(unpolled), "user-mode-work-submission":
        "Where the driver wants to be told of work, each connection, also one that stood already, shows the status connected-notify."
        holds [UserModeSubmission 16]
        => status_asks;
    "Doorbell.WorkWaitsForItsNotification" on Boot::With(unpolled), "user-mode-work-submission":
        "What is rung on a doorbell whose status is connected-notify is not begun while others are served, and runs when D3DKMTNotifyWorkSubmission was called."
        holds [UserModeSubmission 15]
        => work_waits;
    "Doorbell.TheftFindsWhatWasNotNotified" on Boot::With(one_unpolled), "user-mode-work-submission":
        "What was rung without a notification is found when the doorbell is given to another queue, whose status asks for notification then."
        holds [UserModeSubmission 17]
        => theft_finds;
    "Doorbell.DriverNotifies" on Boot::With(one_unpolled), "user-mode-work-submission":
        "The user-mode driver notifies once a submission, also after it had to reconnect, and everything that it submits runs."
        holds [UserModeSubmission 15]
        => driver_notifies;
    "Exit.WorkWithoutNotificationIsFound" on Boot::With(unpolled), "user-mode-work-submission":
        "What was rung without a notification is executed when the process exits, the doorbell is destroyed or the ring is replaced, for every queue of every context; the device stays active."
        holds [UserModeSubmission 17]
        => end_finds;
}

/// Nobody looks for idle engines or hangs, and so at rings, by a clock that stands still.
fn unpolled() -> SystemOptions {
    let mut options = SystemOptions { clock: Clock::manual(), ..SystemOptions::default() };
    options.variant.notify_doorbells = true;
    options
}

fn one_unpolled() -> SystemOptions {
    let mut options = unpolled();
    options.variant.doorbells = 1;
    options
}

/// Writes a submission and rings; its progress value. The driver is not told.
fn ring_in_silence(queue: &mut RawQueue) -> Result<u64, Failure> {
    let value = queue.append(&[])?;
    queue.doorbell.store(queue.written());
    ensure_eq!(queue.doorbell.state(), NOTIFY, "status behind the store");
    Ok(value)
}

fn status_asks(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for node in [NODE_COMPUTE, NODE_COPY] {
        let queue = rig.queue(node)?;
        ensure_eq!(queue.doorbell.state(), RETRY, "status before the connection");
        for round in 0..3 {
            granted(rig.connect(queue.doorbell), "D3DKMTConnectDoorbell")?;
            ensure_eq!(queue.doorbell.state(), NOTIFY, "status after connection {round}");
        }
    }
    Ok(())
}

fn work_waits(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, mut other) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?);
    rig.execute(&mut queue, &[])?;
    rig.execute(&mut other, &[])?;
    for _ in 0..10 {
        let before = queue.progress.load();
        let value = ring_in_silence(&mut queue)?;
        for _ in 0..10 {
            rig.execute(&mut other, &[])?;
        }
        ensure_eq!(queue.progress.load(), before, "progress of work that nobody was told of");
        granted(rig.notify(queue.doorbell), "D3DKMTNotifyWorkSubmission")?;
        wait_until("work that the driver was told of", || queue.progress.load() == value)?;
    }
    ensure_eq!(case.system.gpu().activity().doorbell_reads, 0, "doorbell words that the hardware read");
    Ok(())
}

fn theft_finds(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut first, mut second) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    granted(rig.connect(first.doorbell), "D3DKMTConnectDoorbell")?;
    for _ in 0..10 {
        let value = ring_in_silence(&mut first)?;
        granted(rig.connect(second.doorbell), "D3DKMTConnectDoorbell")?;
        ensure_eq!(first.doorbell.state(), RETRY, "status of the victim");
        wait_until("the victim's work", || first.progress.load() == value)?;
        std::mem::swap(&mut first, &mut second);
    }
    Ok(())
}

fn driver_notifies(case: &mut Case<'_>) -> Result<(), Failure> {
    const ROUNDS: u64 = 100;
    let device = case.device()?;
    let mut first = Queue::new(&device, Node::Compute, QueueOptions::default())?;
    let mut second = Queue::new(&device, Node::Copy, QueueOptions::default())?;
    let fence = Fence::new(&device, 0)?;
    for value in 1..=ROUNDS {
        first.submit(|commands| commands.signal(&fence, value))?;
        fence.wait(value, None)?;
        let last = second.submit(|commands| commands.nop())?;
        second.wait_progress(last)?;
    }
    for queue in [&first, &second] {
        let stats = queue.stats()?;
        ensure_eq!((stats.submissions, stats.notifications), (ROUNDS, ROUNDS), "submissions and notifications");
        ensure!(stats.doorbell_reconnects >= ROUNDS - 1, "only {} reconnections", stats.doorbell_reconnects);
    }
    ensure_eq!(case.system.counters().doorbells, 0, "doorbells that the hardware heard");
    Ok(())
}

fn end_finds(case: &mut Case<'_>) -> Result<(), Failure> {
    ring_and_end(case, NOTIFY, |_, _| Ok(()))
}

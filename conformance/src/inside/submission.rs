//! Work through rings: order, wrap-around, nothing lost.

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::Process;

use crate::rig::{RING_ENTRIES, RawFence, RawQueue, Rig, wait_until};
use crate::simulated::{Case, on_thread, one_doorbell, with_gpu};
use crate::{Boot, Failure};
use testbed::setup::SystemOptions;
use testbed::user::{Error, Fence, Node, Queue, QueueOptions};

cases! { inside "Submission", behind "it counts what the GPU executed, or goes through the user-mode driver";
    "Submission.RingWrapsWithoutLoss" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "Many more submissions than the ring has entries are all executed, exactly once each."
        holds [UserModeSubmission 39]
        => ring_wraps;
    "Submission.TwoQueuesShareOneDoorbell" needs UserModeSubmission on Boot::With(one_doorbell), "user-mode-work-submission":
        "Two queues that take the only doorbell from each other again and again lose no submission."
        holds [UserModeSubmission 63]
        => share_one_doorbell;
    "Submission.MoreQueuesThanDoorbells" needs UserModeSubmission on Boot::With(two_doorbells), "user-mode-work-submission":
        "Sixteen queues in four threads share two doorbells, and each executes exactly what it was given."
        holds [UserModeSubmission 7]
        => more_queues_than_doorbells;
    "Submission.DriverReconnectsByItself" needs UserModeSubmission on Boot::With(one_doorbell), "user-mode-work-submission":
        "The user-mode driver reconnects a doorbell that it lost, and counts it."
        holds [UserModeSubmission 57]
        => driver_reconnects;
    "Submission.DestroyedQueueFinishesItsWork" on Boot::Shared, "user-mode-work-submission":
        "Normal teardown disconnects the doorbell and waits for the last queued value before the queue goes."
        holds [UserModeSubmission 36, UserModeSubmission 40]
        => teardown_waits;
    "Submission.ProgressNeverPassesWhatWasQueued" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "At every moment the progress value is at most the last queued value, which the user-mode driver writes for each submission before the work becomes visible."
        holds [UserModeSubmission 35]
        => progress_below_last_queued;
}

fn two_doorbells() -> SystemOptions {
    with_gpu(|gpu| gpu.doorbells = 2)
}

/// Submits `count` signals of a fence with values 1 to `count`.
fn signals(rig: &Rig, queue: &mut RawQueue, fence: &RawFence, count: u64) -> Result<(), Failure> {
    for value in 1..=count {
        rig.submit(queue, &[fence.signal(value)])?;
    }
    let last = queue.written();
    wait_until("the last submission", || queue.progress.load() == last)?;
    ensure_eq!(fence.value.load(), count, "fence value at the end");
    Ok(())
}

fn ring_wraps(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for entries in [RING_ENTRIES, 2 * RING_ENTRIES, 8 * RING_ENTRIES] {
        let mut queue = rig.queue_with_ring(NODE_COMPUTE, entries)?;
        let fence = rig.fence(0)?;
        // What is created before may have the paging node signal.
        let before = case.system.counters();
        signals(&rig, &mut queue, &fence, 3000)?;
        ensure_eq!(case.system.counters().since(&before).signals, 3000, "signals with {entries} entries");
    }
    Ok(())
}

fn share_one_doorbell(case: &mut Case<'_>) -> Result<(), Failure> {
    const ROUNDS: u64 = 300;
    let rig = case.rig()?;
    let (mut first, mut second) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let (one, two) = (rig.fence(0)?, rig.fence(0)?);
    for value in 1..=ROUNDS {
        rig.submit(&mut first, &[one.signal(value)])?;
        rig.submit(&mut second, &[two.signal(value)])?;
    }
    wait_until("both queues", || one.value.load() == ROUNDS && two.value.load() == ROUNDS)?;
    // A queue's progress comes after the signal of the same submission.
    wait_until("progress of both", || first.progress.load() >= ROUNDS && second.progress.load() >= ROUNDS)?;
    ensure_eq!((first.progress.load(), second.progress.load()), (ROUNDS, ROUNDS), "progress");
    Ok(())
}

/// Four threads, each with four queues and its own device, submit in turn.
fn churn(process: &std::sync::Arc<Process>, rigs: &[Rig], rounds: u64) -> Result<(), Failure> {
    let thread = |rig: &Rig| {
        let mut queues = (0..4).map(|_| rig.queue(NODE_COMPUTE)).collect::<Result<Vec<_>, _>>()?;
        for _ in 0..rounds {
            for queue in &mut queues {
                rig.submit(queue, &[])?;
            }
        }
        for queue in &queues {
            wait_until("a queue's last submission", || queue.progress.load() == rounds)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = rigs.iter().map(|rig| scope.spawn(move || on_thread(process, || thread(rig)))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("a submitting thread panicked"))))
    })
}

fn more_queues_than_doorbells(case: &mut Case<'_>) -> Result<(), Failure> {
    const ROUNDS: u64 = 100;
    let first = case.rig()?;
    let (kmt, adapter) = (first.kmt, first.adapter);
    let mut rigs = vec![first];
    for _ in 1..4 {
        rigs.push(Rig::on_adapter(kmt, adapter)?);
    }
    let before = case.system.counters();
    churn(&case.process, &rigs, ROUNDS)?;
    ensure_eq!(case.system.counters().since(&before).retired, 16 * ROUNDS, "command buffers retired");
    Ok(())
}

fn driver_reconnects(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    let options = || QueueOptions::default();
    let mut first = Queue::new(&device, Node::Compute, options())?;
    let mut second = Queue::new(&device, Node::Compute, options())?;
    let fence = Fence::new(&device, 0)?;
    for value in 1..=100 {
        first.submit(|commands| commands.signal(&fence, value))?;
        fence.wait(value, None)?;
        let last = second.submit(|commands| commands.nop())?;
        second.wait_progress(last)?;
    }
    let stats = first.stats()?;
    ensure_eq!(stats.submissions, 100, "submissions counted");
    ensure!(stats.doorbell_reconnects >= 50, "only {} reconnects counted", stats.doorbell_reconnects);
    Ok(())
}

fn teardown_waits(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    let memory = device.create_buffer(4 << 20, Placement::System)?;
    let mapping = memory.map()?;
    for round in 1..=10_u32 {
        let mut queue = Queue::new(&device, Node::Copy, QueueOptions::default())?;
        queue.submit(|commands| commands.fill(memory.gpu_address(), memory.size(), round))?;
        drop(queue);
        let mut words = vec![0; memory.size() as usize];
        mapping.read(0, &mut words)?;
        let wrong = words.chunks(4).position(|word| word != round.to_le_bytes());
        ensure!(wrong.is_none(), "round {round}: the queue went before its work was done, word {wrong:?}");
    }
    match device.check() {
        Ok(()) => Ok(()),
        Err(Error::DeviceLost) => Err(Failure::new("the device was lost at teardown")),
        Err(error) => Err(error.into()),
    }
}

fn progress_below_last_queued(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    let mut queue = Queue::new(&device, Node::Compute, QueueOptions::default())?;
    for round in 1..=300 {
        let value = queue.submit(|commands| commands.nop())?;
        if round % 2 == 0 {
            queue.wait_progress(value)?;
        }
        let queues = case.system.machine().queued_work(case.system.luid());
        let [(progress, queued)] = queues[..] else { return Err(Failure::new(format!("queues: {queues:?}"))) };
        ensure!(progress <= queued && queued == value, "progress {progress}, last queued {queued}, submitted {value}");
    }
    Ok(())
}

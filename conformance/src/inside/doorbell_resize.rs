//! Rings that are replaced by larger or smaller ones while there is work.

use crate::cases::doorbell_resize::resize;
use campanile_hw::registers::NODE_COMPUTE;
use campanile_umd::RING_ENTRIES_MIN;

use crate::rig::{RING_ENTRIES, RawQueue, Rig};
use crate::simulated::{Case, on_thread, one_doorbell};
use crate::{Boot, Failure};
use testbed::user::{Adapter, Device, Error, Fence, Node, Queue, QueueOptions};

cases! { inside "Doorbell", needs UserModeSubmission, behind "it counts what the GPU executed, or chooses the hardware";
    "Doorbell.ResizingWhileDoorbellsMoveLosesNoRing" on Boot::With(one_doorbell), "user-mode-work-submission":
        "Queues of four threads that take the only doorbell from each other and replace their rings again and again run every submission exactly once."
        holds [UserModeSubmission 18]
        => resize_and_steal;
    "Doorbell.DriverResizesRingsUnderWork" on Boot::With(one_doorbell), "user-mode-work-submission":
        "The user-mode driver replaces the rings of two queues that share one doorbell while there is work in them: every submission runs exactly once, and progress values go on."
        holds [UserModeSubmission 18]
        => driver_resizes;
    "Doorbell.DriverDoesNotResizeABlockedRing" on Boot::Shared, "d3dkmt_create_doorbell_flags":
        "A ring whose work does not end is not replaced by the user-mode driver: the call says so in time, and the queue goes on in the ring it has."
        holds [UserModeSubmission 18]
        => driver_and_blocked_ring;
}

/// Submits, and replaces the ring every now and then.
fn submit_and_resize(rig: &Rig) -> Result<(), Failure> {
    const ROUNDS: u64 = 30;
    const EACH: u64 = 20;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    for round in 0..ROUNDS {
        for _ in 0..EACH {
            let value = fence_value(&queue);
            rig.submit(&mut queue, &[fence.signal(value)])?;
        }
        resize(rig, &mut queue, RING_ENTRIES << (round % 3))?;
    }
    ensure_eq!((queue.progress.load(), fence.value.load()), (ROUNDS * EACH, ROUNDS * EACH), "progress and fence");
    Ok(())
}

fn driver_resizes(case: &mut Case<'_>) -> Result<(), Failure> {
    const ROUNDS: u64 = 12;
    const EACH: u64 = 150;
    let device = Device::new(&Adapter::open_luid(case.system.luid())?)?;
    let options = QueueOptions { ring_entries: RING_ENTRIES_MIN, ..QueueOptions::default() };
    let mut queues = Vec::new();
    for node in [Node::Compute, Node::Copy] {
        queues.push((Queue::new(&device, node, options)?, Fence::new(&device, 0)?));
    }
    let before = case.system.counters();
    for round in 0..ROUNDS {
        for (queue, fence) in &mut queues {
            for number in 1..=EACH {
                let value = queue.submit(|commands| commands.signal(fence, round * EACH + number))?;
                ensure_eq!(value, round * EACH + number, "progress value");
            }
            queue.resize(RING_ENTRIES_MIN << (round % 4))?;
            ensure_eq!(queue.progress()?, (round + 1) * EACH, "progress when the ring was replaced");
        }
    }
    for (queue, fence) in &mut queues {
        let value = queue.submit(|commands| commands.signal(fence, ROUNDS * EACH + 1))?;
        queue.wait_progress(value)?;
        ensure_eq!((value, fence.value()), (ROUNDS * EACH + 1, ROUNDS * EACH + 1), "progress and fence at the end");
        ensure_eq!(queue.stats()?.submissions, ROUNDS * EACH + 1, "submissions that the driver counted");
    }
    let counted = case.system.counters().since(&before);
    let all = 2 * (ROUNDS * EACH + 1);
    ensure_eq!((counted.signals, counted.retired), (all, all), "signals and retired buffers");
    Ok(())
}

fn driver_and_blocked_ring(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = Device::new(&Adapter::open_luid(case.system.luid())?)?;
    let mut queue = Queue::new(&device, Node::Compute, QueueOptions::default())?;
    let fence = Fence::new(&device, 0)?;
    queue.submit(|commands| commands.wait(&fence, 1))?;
    match queue.resize(2 * RING_ENTRIES_MIN) {
        Err(Error::Timeout) => {}
        other => return Err(Failure::new(format!("resizing a ring that waits for a fence: {other:?}"))),
    }
    let value = queue.submit(|commands| commands.nop())?;
    ensure_eq!(queue.progress()?, 0, "progress while the fence is not signalled");
    fence.signal(1)?;
    queue.wait_progress(value)?;
    queue.resize(2 * RING_ENTRIES_MIN)?;
    let value = queue.submit(|commands| commands.nop())?;
    queue.wait_progress(value)?;
    ensure_eq!(value, 3, "progress value after the ring was replaced");
    Ok(())
}

/// Value that the next submission of a queue has.
fn fence_value(queue: &RawQueue) -> u64 {
    queue.doorbell.last_queued.load() + 1
}

fn resize_and_steal(case: &mut Case<'_>) -> Result<(), Failure> {
    let first = case.rig()?;
    let (kmt, adapter) = (first.kmt, first.adapter);
    let mut rigs = vec![first];
    for _ in 1..4 {
        rigs.push(Rig::on_adapter(kmt, adapter)?);
    }
    let before = case.system.counters();
    std::thread::scope(|scope| {
        let process = &case.process;
        let start = |rig| scope.spawn(move || on_thread(process, || submit_and_resize(rig)));
        let threads: Vec<_> = rigs.iter().map(start).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("a submitting thread panicked"))))
    })?;
    let counted = case.system.counters().since(&before);
    ensure_eq!((counted.signals, counted.retired), (4 * 600, 4 * 600), "signals and retired buffers");
    Ok(())
}

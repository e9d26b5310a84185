//! Many queues on few doorbells: no ring is lost while the doorbells move.

use std::sync::atomic::{AtomicU64, Ordering};

use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use crate::rig::{RawFence, RawQueue, Rig, wait_until};
use crate::simulated::{Case, on_thread, with_gpu};
use crate::{Boot, Failure};
use testbed::setup::{System, SystemOptions};

cases! { inside "Submission", needs UserModeSubmission, behind "it counts what the GPU executed, and chooses how few doorbells there are";
    "Submission.ChurnLosesNoRing" on Boot::With(four_doorbells), "user-mode-work-submission":
        "Sixty-four queues of eight threads share four doorbells, and every one of thousands of rings of each runs its work exactly once."
        holds [UserModeSubmission 7, UserModeSubmission 25, UserModeSubmission 64]
        => dedicated;
    "Submission.ChurnOnTheGlobalDoorbellLosesNoRing" on Boot::With(global_doorbell), "user-mode-work-submission":
        "Sixty-four queues of eight threads ring one doorbell for all, over each other, and every ring runs its work exactly once."
        holds [UserModeSubmission 4]
        => global;
}

const THREADS: u64 = 8;
const QUEUES: u64 = 64;
/// Rings of each queue. A build without optimisations makes fewer, and so does whoever reaches registers by messages.
fn rings(system: &System) -> u64 {
    if cfg!(debug_assertions) || system.is_by_messages() { 1_000 } else { 20_000 }
}

/// Most rings before another queue is rung.
const BURST: u64 = 16;

fn four_doorbells() -> SystemOptions {
    with_gpu(|gpu| gpu.doorbells = 4)
}

fn global_doorbell() -> SystemOptions {
    with_gpu(|gpu| gpu.global_doorbell = true)
}

/// A queue with the fence that its work counts up.
struct Counted {
    queue: RawQueue,
    fence: RawFence,
}

/// Rings the queues of one thread alternately until each was rung `rings` times, in an order and in bursts drawn from `seed`; how often a
/// doorbell had gone.
fn ring_all(rig: &Rig, rings: u64, seed: u64) -> Result<u64, Failure> {
    let node = |index: u64| if index.is_multiple_of(2) { NODE_COMPUTE } else { NODE_COPY };
    let queues =
        (0..QUEUES / THREADS).map(|index| Ok(Counted { queue: rig.queue(node(index))?, fence: rig.fence(0)? }));
    let mut queues = queues.collect::<Result<Vec<_>, Failure>>()?;
    let (mut random, mut lost) = (fastrand::Rng::with_seed(seed), 0);
    let mut unfinished: Vec<usize> = (0..queues.len()).collect();
    while !unfinished.is_empty() {
        let place = random.usize(..unfinished.len());
        let Counted { queue, fence } = &mut queues[unfinished[place]];
        for _ in 0..random.u64(1..=BURST) {
            let value = queue.append(&[fence.signal(queue.written() + 1)])?;
            lost += rig.ring(queue)?;
            if value == rings {
                unfinished.swap_remove(place);
                break;
            }
        }
    }
    for Counted { queue, fence } in &queues {
        // Nobody rings or connects any more: what was not heard stays undone.
        wait_until("a queue's last submission", || queue.progress.load() == rings)?;
        ensure_eq!(fence.value.load(), rings, "fence of a queue that has done everything");
    }
    Ok(lost)
}

fn dedicated(case: &mut Case<'_>) -> Result<(), Failure> {
    let moved = churn(case)?;
    ensure!(moved > QUEUES, "the doorbells were taken away only {moved} times");
    Ok(())
}

fn global(case: &mut Case<'_>) -> Result<(), Failure> {
    ensure_eq!(churn(case)?, 0, "how often a doorbell that all share was taken away");
    Ok(())
}

/// Rings until everything is done; how often a doorbell was taken away meanwhile.
fn churn(case: &Case<'_>) -> Result<u64, Failure> {
    let rings = rings(case.system);
    let first = case.rig()?;
    let (kmt, adapter) = (first.kmt, first.adapter);
    let mut rigs = vec![first];
    for _ in 1..THREADS {
        rigs.push(Rig::on_adapter(kmt, adapter)?);
    }
    let before = case.system.counters();
    let lost = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let start = |(rig, number)| {
            let (process, lost) = (&case.process, &lost);
            scope.spawn(move || {
                on_thread(process, || {
                    lost.fetch_add(ring_all(rig, rings, crate::seed::of(number))?, Ordering::Relaxed);
                    Ok(())
                })
            })
        };
        let threads: Vec<_> = rigs.iter().zip(1..).map(start).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("a ringing thread panicked"))))
    })?;
    let counted = case.system.counters().since(&before);
    ensure_eq!((counted.signals, counted.retired), (QUEUES * rings, QUEUES * rings), "signals and retired buffers");
    // Each queue connects once in any case.
    Ok(lost.into_inner() - QUEUES)
}

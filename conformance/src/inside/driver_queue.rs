//! Queues and fences of the user-mode driver: what it promises a program whatever the model of submission.

use std::time::Duration;

use crate::cases::fault::NOWHERE;
use campanile_device::FaultRule;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY, PROGRESS_PAGING};
use campanile_umd::RING_ENTRIES_MIN;

use super::page_table_updates::stepped_virtual;
use crate::rig::wait_until;
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure};
use testbed::user::{Buffer, Device, Error, Fence, Node, Placement, Queue, QueueOptions, SubmissionModel};

cases! { inside "Submission", needs HardwareScheduling, behind "it goes through the user-mode driver";
    "Submission.DriverFillsTheRingAndNoMore" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "While its first submission waits for a fence, a queue of the user-mode driver takes as many submissions as its ring has entries and refuses the next one by name; when the fence is signalled each of them runs exactly once."
        holds [UserModeSubmission 57]
        => fills_the_ring;
    "Submission.DriverKeepsCommandsUntilTheyRan" on Boot::Shared, "user-mode-work-submission":
        "The user-mode driver does not write over the commands of a submission before its progress value is reached, although submissions before it are done and command memory is full."
        holds [UserModeSubmission 39]
        => keeps_commands;
    "Submission.DriverFallsBackAtCreation" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "A queue whose doorbell cannot be connected when it is created submits through the kernel, each submission once; one that insists on user-mode submission is refused."
        holds [UserModeSubmission 58]
        => falls_back_at_creation;
    "Submission.DriverNoticesALostDevice" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "When a device is lost, each of its queues that waits for a fence ends its waits and refuses submissions as of a lost device, and so does the fence."
        holds [UserModeSubmission 26, NativeFence 52]
        => notices_a_lost_device;
    "Submission.DriverWaitsForItsPaging" on Boot::With(stepped_virtual), "driver-residency-in-wddm-2-0":
        "Memory that the user-mode driver has created is resident and mapped when the call returns: where the GPU writes page tables, nothing is left for the paging node to do."
        => waits_for_paging;
    "Submission.DriverWaitsUntilTheValueIsThere" on Boot::Shared, "native-gpu-fence-objects":
        "A wait of the user-mode driver, with a time limit or without, ends when the GPU has written the value and not before, and is no timeout then."
        holds [NativeFence 2]
        => waits_for_the_value;
}

/// Time limit of each wait for something that must happen, long enough for a busy machine.
const LIMIT: Option<Duration> = Some(Duration::from_secs(20));
/// Entries of the ring of a queue here.
const ENTRIES: u64 = RING_ENTRIES_MIN as u64;

/// A queue with a small ring, and a fence that blocks its first submission.
fn request_queue(device: &Device, command_bytes: u32) -> Result<(Queue, Fence), Failure> {
    let options = QueueOptions { ring_entries: RING_ENTRIES_MIN, command_bytes, ..QueueOptions::default() };
    let mut queue = Queue::new(device, Node::Compute, options)?;
    let gate = Fence::new(device, 0)?;
    queue.submit(|commands| commands.wait(&gate, 1))?;
    Ok((queue, gate))
}

fn fills_the_ring(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    let (mut queue, gate) = request_queue(&device, 1 << 20)?;
    let fence = Fence::new(&device, 0)?;
    let before = case.system.counters();
    for value in 1..ENTRIES {
        queue.try_submit(|commands| commands.signal(&fence, value))?;
    }
    for _ in 0..3 {
        ensure_eq!(queue.try_submit(|commands| commands.nop()), Err(Error::RingFull), "one submission more");
    }
    ensure_eq!(
        (queue.last_submitted()?, queue.progress()?, fence.value()),
        (ENTRIES, 0, 0),
        "values while all is blocked"
    );
    gate.signal(1)?;
    queue.wait_progress(ENTRIES)?;
    ensure_eq!(fence.value(), ENTRIES - 1, "fence when the last submission is done");
    let counted = case.system.counters().since(&before);
    ensure_eq!((counted.signals, counted.retired), (ENTRIES - 1, ENTRIES), "signals and retired buffers");
    queue.try_submit(|commands| commands.signal(&fence, ENTRIES))?;
    Ok(fence.wait(ENTRIES, LIMIT)?)
}

/// Words that a submission of [`keeps_commands`] writes, each by a FILL.
const WORDS: u64 = 16;

/// Records that each word of the `number`-th submission becomes `number + 1`.
fn try_fill(queue: &mut Queue, buffer: &Buffer, after: Option<(&Fence, u64)>, number: u64) -> Result<u64, Error> {
    queue.try_submit(|commands| {
        if let Some((fence, value)) = after {
            commands.wait(fence, value)?;
        }
        (0..WORDS).try_for_each(|word| {
            commands.fill(buffer.gpu_address() + 4 * (number * WORDS + word), 4, number as u32 + 1)
        })
    })
}

fn keeps_commands(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    let buffer = device.create_buffer(64 << 10, Placement::System)?;
    let (mut queue, gate) = request_queue(&device, 4096)?;
    let mut count = 0;
    // The first of them waits again, so that it is under way and not done when command memory is given back.
    let mut fill_up = |queue: &mut Queue, held: Option<(&Fence, u64)>| -> Result<u64, Failure> {
        let start = count;
        loop {
            match try_fill(queue, &buffer, held.filter(|_| count == start), count) {
                Ok(_) => count += 1,
                Err(Error::CommandMemoryFull) => return Ok(count),
                Err(error) => return Err(error.into()),
            }
        }
    };
    let early = fill_up(&mut queue, Some((&gate, 2)))?;
    ensure!(early >= 2, "command memory of 4096 bytes is full after {early} submissions");
    gate.signal(1)?;
    queue.wait_progress(1)?;
    let all = fill_up(&mut queue, None)?;
    gate.signal(2)?;
    queue.wait_progress(1 + all)?;
    let mut bytes = vec![0; (all * WORDS * 4) as usize];
    buffer.map()?.read(0, &mut bytes)?;
    for (number, words) in bytes.chunks_exact(4 * WORDS as usize).enumerate() {
        let written = words.chunks_exact(4).all(|word| *word == (number as u32 + 1).to_le_bytes());
        ensure!(written, "of {all} submissions, {early} of them early, number {number} did not write its words");
    }
    Ok(())
}

fn falls_back_at_creation(case: &mut Case<'_>) -> Result<(), Failure> {
    const SUBMISSIONS: u64 = 20;
    let device = case.device()?;
    let faults = case.system.gpu().faults();
    let rules = [NODE_COMPUTE, NODE_COPY].map(|node| faults.inject_times(FaultRule::ConnectFails { node }, u64::MAX));
    for node in [Node::Compute, Node::Copy] {
        let insists = QueueOptions { model: Some(SubmissionModel::User), ..QueueOptions::default() };
        ensure!(Queue::new(&device, node, insists).is_err(), "a queue that insists on a doorbell was made without");
        let mut queue = Queue::new(&device, node, QueueOptions::default())?;
        ensure_eq!(queue.model()?, SubmissionModel::Kernel, "model of a queue whose doorbell cannot be connected");
        let fence = Fence::new(&device, 0)?;
        let before = case.system.counters();
        for value in 1..=SUBMISSIONS {
            ensure_eq!(queue.submit(|commands| commands.signal(&fence, value))?, value, "progress value");
        }
        queue.wait_progress(SUBMISSIONS)?;
        let counted = case.system.counters().since(&before);
        ensure_eq!((counted.signals, fence.value()), (SUBMISSIONS, SUBMISSIONS), "signals and value of the fence");
    }
    let faults = case.system.gpu().faults();
    ensure_eq!(rules.map(|rule| faults.remove(rule)), [2, 2], "connections that failed");
    Ok(())
}

fn notices_a_lost_device(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    let (mut waiting, gate) = request_queue(&device, 1 << 20)?;
    let mut guilty = Queue::new(&device, Node::Copy, QueueOptions::default())?;
    let lost = |outcome: Result<(), Error>, what: &str| {
        ensure_eq!(outcome, Err(Error::DeviceLost), "{what}");
        Ok::<_, Failure>(())
    };
    match guilty.submit(|commands| commands.fill(NOWHERE, 4096, 0)) {
        // The fault may come before the submission has looked at its doorbell.
        Ok(_) | Err(Error::DeviceLost) => {}
        Err(error) => return Err(error.into()),
    }
    lost(waiting.wait_progress(1), "a wait for progress without limit")?;
    lost(waiting.wait_progress_for(1, LIMIT), "a wait for progress with a limit")?;
    lost(gate.wait(1, None), "a wait for the fence without limit")?;
    lost(gate.wait(1, LIMIT), "a wait for the fence with a limit")?;
    // The doorbells are aborted in the course of losing the device; from then on nothing is accepted, though the ring has free entries.
    wait_until("doorbells that say abort", || {
        let state = case.system.machine().inspect(case.system.luid()).map(|tree| tree.to_string());
        state.is_some_and(|state| state.matches("doorbell Aborted").count() >= 2)
    })?;
    for _ in 0..3 {
        lost(waiting.submit(|commands| commands.nop()).map(drop), "a submission after the doorbell said abort")?;
    }
    lost(device.check(), "the state of the device")?;
    // Fences of a device in error are signalled for good, which is no answer to a wait.
    wait_until("a fence that is signalled for good", || gate.value() == u64::MAX)?;
    lost(gate.wait(1, None), "a wait for the fence without limit, once it is signalled for good")?;
    lost(gate.wait(1, LIMIT), "a wait for the fence with a limit, once it is signalled for good")?;
    lost(waiting.wait_progress(1), "a wait for progress, once it is signalled for good")
}

fn waits_for_paging(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    let gpu = case.system.gpu();
    let run_dry = || {
        while gpu.step() {}
        gpu.register_read(PROGRESS_PAGING, 8)
    };
    for placement in [Placement::Vram, Placement::System] {
        let before = run_dry();
        let _buffer = device.create_buffer(1 << 20, placement)?;
        let during = gpu.register_read(PROGRESS_PAGING, 8);
        ensure!(during > before, "the paging node did nothing for memory in {placement:?}");
        ensure_eq!(run_dry(), during, "packets of the paging node when the call has returned, and when all is done");
    }
    Ok(())
}

fn waits_for_the_value(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    let fence = Fence::new(&device, 0)?;
    let mut queue = Queue::new(&device, Node::Compute, QueueOptions::default())?;
    for value in 1..=10 {
        let limit = LIMIT.filter(|_| value % 2 == 0);
        std::thread::scope(|scope| {
            let (fence, process) = (&fence, &case.process);
            let waiter = scope.spawn(move || {
                on_thread(process, || {
                    fence.wait(value, limit)?;
                    Ok(fence.value())
                })
            });
            // Long enough for the thread to wait, or to return at once if it does not.
            std::thread::sleep(Duration::from_millis(5));
            queue.submit(|commands| commands.signal(fence, value))?;
            let seen = waiter.join().unwrap_or_else(|_| Err(Failure::new("the waiting thread panicked")))?;
            ensure_eq!(seen, value, "value of the fence when the wait for it ends");
            Ok::<_, Failure>(())
        })?;
    }
    Ok(())
}

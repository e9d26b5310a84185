//! Work through rings: order, wrap-around, nothing lost.

use campanile_hw::packet::{self, Packet};
use campanile_hw::private::Placement;
use campanile_hw::queue::CONTROL_READ_POINTER;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;

use crate::rig::{RING_ENTRIES, RawQueue, copy, fill, wait_until};
use crate::{Boot, Case, Failure, granted};

cases! { thunks "Submission", needs HardwareScheduling;
    "Submission.WorkRunsInRingOrder" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "Command buffers of one queue run in the order of their ring entries, each seeing the effects of those before it."
        holds [UserModeSubmission 39]
        => ring_order;
    "Submission.OneRingStartsEverythingWritten" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A single ring of the doorbell starts every entry that was written before it."
        holds [UserModeSubmission 62]
        => one_ring_for_all;
    "Submission.BlockedQueueDoesNotBlockOthers" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A queue that waits for a fence that nobody signals does not keep another queue of the same node from running."
        holds [UserModeSubmission 70]
        => blocked_queue;
    "Submission.LargeCopiesAreWhole" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A copy of many pages between system memory and VRAM and back returns every byte."
        holds [UserModeSubmission 39]
        => large_copies;
    "Submission.TimestampsAreTheGpusClock" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A TIMESTAMP packet writes the clock of the GPU when it is executed: a later one never writes less, on any engine."
        => timestamps;
    "Submission.ReadPointerFollowsTheWork" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "When a command buffer is done the GPU writes the read pointer of the ring: it has counted each submission, past the end of the ring too, and none that waits."
        => read_pointer;
}

fn ring_order(case: &Case) -> Result<(), Failure> {
    const STEPS: u64 = 400;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let memory = rig.memory(8 * (STEPS + 1), Placement::System)?;
    let view = rig.view(memory)?;
    view.fill(0);
    view.store(0, 0x1234_5678_9abc_def0);
    // Each submission copies what the one before it wrote; out of order, a zero would travel on.
    for step in 0..STEPS {
        let at = memory.address + 8 * step;
        rig.submit(&mut queue, &[copy(at + 8, at, 8)])?;
    }
    wait_until("the last copy", || queue.progress.load() == STEPS)?;
    let words = view.read(0, 8 * (STEPS + 1));
    let wrong = words.chunks(8).position(|word| word != 0x1234_5678_9abc_def0_u64.to_le_bytes());
    ensure!(wrong.is_none(), "copy {wrong:?} came out of order");
    Ok(())
}

fn one_ring_for_all(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    granted(rig.connect(queue.doorbell), "D3DKMTConnectDoorbell")?;
    for round in 1..=10_u64 {
        for _ in 0..40 {
            queue.append(&[])?;
        }
        rig.ring(&queue)?;
        wait_until("forty submissions", || queue.progress.load() == 40 * round)?;
    }
    Ok(())
}

fn timestamps(case: &Case) -> Result<(), Failure> {
    const COUNT: u64 = 20;
    let rig = case.rig()?;
    let mut queues = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?];
    let memory = rig.memory(8 * COUNT, Placement::System)?;
    let view = rig.view(memory)?;
    view.fill(0);
    for number in 0..COUNT {
        let timestamp = packet::Timestamp { destination: memory.address + 8 * number };
        rig.execute(&mut queues[number as usize % 2], &[Packet::Timestamp(timestamp)])?;
    }
    let words = view.read(0, 8 * COUNT);
    let times: Vec<u64> = words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    ensure!(
        times.is_sorted() && times.first() > Some(&0),
        "times of work that was done one after the other: {times:?}"
    );
    Ok(())
}

fn read_pointer(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let read_pointer = |queue: &RawQueue| {
        let bytes = queue.control_view.read(CONTROL_READ_POINTER, 8);
        bytes.try_into().map_or(u64::MAX, u64::from_le_bytes)
    };
    for submission in 1..=2 * u64::from(RING_ENTRIES) + 3 {
        rig.execute(&mut queue, &[])?;
        wait_until("the read pointer", || read_pointer(&queue) == submission)?;
    }
    let (done, gate) = (queue.progress.load(), rig.fence(0)?);
    let last = rig.submit(&mut queue, &[gate.wait(1)])?;
    rig.submit(&mut queue, &[])?;
    ensure_eq!(read_pointer(&queue), done, "read pointer while a submission waits");
    granted(rig.signal(&[gate.handle], &[1]), "opening the gate")?;
    wait_until("the read pointer", || read_pointer(&queue) == last + 1)
}

fn blocked_queue(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut blocked, mut free) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?);
    let fence = rig.fence(0)?;
    rig.submit(&mut blocked, &[fence.wait(1)])?;
    for _ in 0..200 {
        rig.execute(&mut free, &[])?;
    }
    ensure_eq!(blocked.progress.load(), 0, "progress of the blocked queue");
    granted(rig.signal(&[fence.handle], &[1]), "signal from the CPU")?;
    wait_until("the blocked queue", || blocked.progress.load() == 1)
}

fn large_copies(case: &Case) -> Result<(), Failure> {
    const SIZE: u64 = 16 << 20;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let source = rig.memory(SIZE, Placement::System)?;
    let middle = rig.memory(SIZE, Placement::Vram)?;
    let target = rig.memory(SIZE, Placement::System)?;
    let (source_view, target_view) = (rig.view(source)?, rig.view(target)?);
    let bytes: Vec<u8> = (0..SIZE as u32).map(|index| (index.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    source_view.write(0, &bytes);
    let packets = [
        fill(middle.address, SIZE, 0),
        copy(middle.address, source.address, SIZE as u32),
        copy(target.address, middle.address, SIZE as u32),
    ];
    rig.execute(&mut queue, &packets)?;
    ensure!(target_view.read(0, SIZE) == bytes, "bytes were lost on the way");
    let connected = queue.doorbell.state();
    let allowed = [
        D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED,
        D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD,
        D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY,
    ];
    ensure!(allowed.contains(&connected), "the doorbell's status is {connected:?} afterwards");
    Ok(())
}

//! Copies that take more than a packet or a slice of the engine.

use campanile_hw::packet::{self, COPY_MAX, Packet};
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use testbed::user::{Node, Queue, QueueOptions};

use super::suspension::{bystanders, resume, suspend};
use crate::rig::{Memory, Rig, View, map_operation, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};

cases! { inside "Submission", needs HardwareScheduling, behind "it goes through the user-mode driver, and suspends contexts as only the system can";
    "Submission.DriverCopiesMoreThanAPacketMoves" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A copy of the user-mode driver of more than 512 MiB, which takes several packets, moves what lies at its beginning, at its end and on both sides of each border between two packets to the same place of its target."
        => more_than_a_packet;
    "Submission.LongCopyGoesOnWhereItStopped" needs UserModeSubmission on Boot::Shared, "dxgkddi_suspendcontext":
        "Copies of more than 512 MiB in all, the runs of each of which overlap: a run is copied after the one before it. A context that is suspended within such a copy goes on where it stopped when it is resumed, and nothing is moved twice."
        => suspended_within;
}

const PAGE: u64 = campanile_hw::queue::SYSTEM_PAGE_SIZE;

/// Shows page after page of each memory at the same places of the range that begins at its address.
fn show(rig: &Rig, ranges: [(u64, Memory); 2], places: &[u64]) -> Result<(), Failure> {
    let (context, fence) = (rig.queue(NODE_COPY)?.context, rig.fence(0)?);
    (0..).zip(ranges).try_for_each(|(value, (base, memory))| {
        let show = |(page, place)| map_operation((base + place, PAGE), memory.handle, page * PAGE, 0);
        let operations: Vec<_> = (0..).zip(places).map(show).collect();
        granted(rig.update(&rig.update_request(context, (fence.handle, value), &operations)), "the mappings")?;
        granted(rig.wait(&[fence.handle], &[value + 1], false), "the wait for the mappings")
    })
}

fn more_than_a_packet(case: &mut Case<'_>) -> Result<(), Failure> {
    const SIZE: u64 = 2 * COPY_MAX + COPY_MAX / 2;
    const PLACES: [u64; 6] = [0, COPY_MAX - PAGE, COPY_MAX, 2 * COPY_MAX - PAGE, 2 * COPY_MAX, SIZE - PAGE];
    let (device, rig) = (case.device()?, case.rig()?);
    // The rest of both ranges reads as zero and has no memory.
    let [source, target] = [rig.reserve(SIZE, true)?, rig.reserve(SIZE, true)?];
    let [from, to] = [Placement::System; 2].map(|placement| rig.memory(PLACES.len() as u64 * PAGE, placement));
    let (from, to) = (from?, to?);
    show(&rig, [(source, from), (target, to)], &PLACES)?;
    let (written, seen) = (rig.view(from)?, rig.view(to)?);
    for (page, byte) in (0..PLACES.len() as u64).zip(1..) {
        written.write(page * PAGE, &[byte; PAGE as usize]);
    }
    let mut queue = Queue::new(&device, Node::Copy, QueueOptions::default())?;
    let value = queue.submit(|commands| commands.copy(target, source, SIZE))?;
    queue.wait_progress(value)?;
    for (page, place) in (0..).zip(PLACES) {
        let same = seen.read(page * PAGE, PAGE) == written.read(page * PAGE, PAGE);
        ensure!(same, "at {place:#x} the copy of {SIZE:#x} bytes left {:?}", seen.read(page * PAGE, 8));
    }
    Ok(())
}

/// Bytes of a run, and number of runs of the memory.
const RUN: u32 = 4096;
const RUNS: u32 = 2048;
/// Copies of a submission, and submissions of a round: 576 MiB in all.
const COPIES: usize = 8;
const SUBMISSIONS: u32 = 9;

/// First word of each run.
fn runs(view: &View) -> Vec<u32> {
    let word = |run: u32| view.read(u64::from(run) * u64::from(RUN), 4).try_into().map_or(0, u32::from_le_bytes);
    (0..RUNS).map(word).collect()
}

/// The runs after `moves` copies, each of which has moved every run but the first to the place before it.
fn moved(moves: u32) -> Vec<u32> {
    (0..RUNS).map(|run| (run + moves).min(RUNS - 1)).collect()
}

fn suspended_within(case: &mut Case<'_>) -> Result<(), Failure> {
    const ROUNDS: u32 = 40;
    const WANTED: u32 = 3;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let memory = rig.memory(u64::from(RUN) * u64::from(RUNS), Placement::System)?;
    let view = rig.view(memory)?;
    let copy = Packet::Copy(packet::Copy {
        source: memory.address + u64::from(RUN),
        destination: memory.address,
        row_bytes: RUN,
        rows: RUNS - 1,
        source_pitch: RUN,
        destination_pitch: RUN,
    });
    let mut within = 0;
    for _ in 0..ROUNDS {
        for run in 0..RUNS {
            view.write(u64::from(run) * u64::from(RUN), &run.to_le_bytes().repeat(RUN as usize / 4));
        }
        let mut value = 0;
        for _ in 0..SUBMISSIONS {
            value = rig.submit(&mut queue, &[copy; COPIES])?;
        }
        wait_until("the first copy", || view.read(0, 4) != [0; 4])?;
        suspend(&case.process, queue.context)?;
        let stopped = runs(&view);
        bystanders(&rig)?;
        ensure!(runs(&view) == stopped, "a suspended queue moved memory");
        resume(&case.process, queue.context)?;
        wait_until("the end of the copies", || queue.progress.load() == value)?;
        ensure!(
            runs(&view) == moved(SUBMISSIONS * COPIES as u32),
            "runs were moved twice, not at all, or out of order"
        );
        let complete = (0..=SUBMISSIONS * COPIES as u32).any(|moves| stopped == moved(moves));
        within += u32::from(!complete);
        if within == WANTED {
            return Ok(());
        }
    }
    Err(Failure::new(format!("the context was suspended within a copy {within} times, of {WANTED} wanted")))
}

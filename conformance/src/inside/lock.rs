//! Lock2: how the CPU reaches an allocation, by what it was declared as and by where it is.

use crate::cases::lock::{SIZE, gpu_sees, pattern};
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use crate::rig::{Memory, RING_ENTRIES, RawQueue, Rig, copy, fill, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

cases! { inside "Memory", needs UserModeSubmission, behind "it chooses the hardware, or stops the adapter";
    "Lock2.ResidentAllocationMovesWhereTheCpuReaches" on Boot::With(hidden_vram), "allocation-usage-tracking":
        "A CPU-accessible allocation that is resident where the CPU does not reach is moved with its contents, through the aperture segment that it names, and locked; it stays resident at its GPU virtual address."
        holds [AllocationUsage 12, AllocationUsage 15, AllocationUsage 16]
        => no_window;
    "Lock2.WorkUnderWayFindsTheAllocationWhereItMoved" on Boot::With(hidden_vram), "allocation-usage-tracking":
        "When an allocation is moved for a lock, work that uses it may be queued, blocked or under way: it goes on in the new place, and nothing that it wrote before is lost."
        holds [AllocationUsage 16]
        => moves_under_work;
    "Lock2.LockedAllocationStaysReachable" on Boot::With(hidden_vram), "allocation-usage-tracking":
        "A locked allocation that becomes resident goes where the CPU reaches it, and its address stays the same."
        holds [AllocationUsage 21]
        => locked_becomes_resident;
}

/// A window that shows half of VRAM.
pub(super) fn hidden_vram() -> SystemOptions {
    let mut options = SystemOptions::default();
    options.variant.vram_size = 64 << 20;
    options.variant.vram_window = 32 << 20;
    options
}

fn no_window(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::VramLockable)?;
    let mut queue = rig.queue(NODE_COPY)?;
    rig.execute(&mut queue, &[fill(memory.address, SIZE, 0x0102_0304)])?;
    both_see(&rig, &mut queue, memory, &[4, 3, 2, 1])
}

/// Locks resident memory whose words hold `word`: the CPU sees that, and what either side stores from then on is the other's too.
pub(super) fn both_see(rig: &Rig, queue: &mut RawQueue, memory: Memory, word: &[u8; 4]) -> Result<(), Failure> {
    let view = rig.view(memory)?;
    ensure!(view.read(0, SIZE).chunks(4).all(|seen| seen == word), "the contents did not come along");
    let bytes = pattern(5);
    view.write(0, &bytes);
    ensure!(gpu_sees(rig, memory)? == bytes, "the GPU does not see what the CPU wrote");
    rig.execute(queue, &[fill(memory.address, SIZE, 0x0909_0909)])?;
    ensure!(view.read(0, SIZE).iter().all(|byte| *byte == 9), "the CPU does not see what the GPU wrote");
    Ok(())
}

fn moves_under_work(case: &mut Case<'_>) -> Result<(), Failure> {
    const ROUNDS: u32 = 12;
    let rig = case.rig()?;
    let held = rig.fence(0)?;
    let before = case.system.machine().residency(case.system.luid()).unwrap_or_default();
    for round in 1..=ROUNDS {
        let memory = rig.memory(SIZE, Placement::VramLockable)?;
        let target = rig.memory(SIZE, Placement::SystemUncached)?;
        let (mut holds, mut works) = (rig.queue(NODE_COPY)?, rig.queue(NODE_COMPUTE)?);
        rig.execute(&mut holds, &[fill(memory.address, SIZE, round * 0x0101_0101)])?;
        // One waits to copy it; the other is at work on its second half while it moves.
        rig.submit(&mut holds, &[held.wait(round.into()), copy(target.address, memory.address, SIZE as u32)])?;
        let mut last = 0;
        for pass in 1..RING_ENTRIES {
            last = rig.submit(&mut works, &[fill(memory.address + SIZE / 2, SIZE / 2, pass * 0x0101_0101)])?;
        }
        let view = rig.view(memory)?;
        ensure!(view.read(0, SIZE / 2).iter().all(|byte| u32::from(*byte) == round), "the contents did not come along");
        view.write(0, &pattern(round.into())[..SIZE as usize / 2]);
        wait_until("the work on the allocation that moved", || works.progress.load() >= last)?;
        let all = RING_ENTRIES as u8 - 1;
        ensure!(view.read(SIZE / 2, SIZE / 2).iter().all(|byte| *byte == all), "what the GPU wrote was lost");
        granted(rig.signal(&[held.handle], &[round.into()]), "the signal")?;
        wait_until("the copy that was blocked", || holds.progress.load() >= 2)?;
        let seen = rig.view(target)?.read(0, SIZE);
        ensure!(
            seen[..SIZE as usize / 2] == pattern(round.into())[..SIZE as usize / 2],
            "the GPU does not see what the CPU wrote"
        );
        ensure!(seen[SIZE as usize / 2..].iter().all(|byte| *byte == all), "what the GPU wrote last was lost");
    }
    let now = case.system.machine().residency(case.system.luid()).unwrap_or_default();
    ensure!(now.evicted - before.evicted >= ROUNDS.into(), "nothing moved: {now:?}");
    Ok(())
}

fn locked_becomes_resident(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::VramLockable)?;
    granted(rig.evict(memory.handle), "evict")?;
    let view = rig.view(memory)?;
    let (first, second) = (pattern(2), pattern(3));
    view.write(0, &first);
    rig.make_resident(memory.handle)?;
    ensure!(gpu_sees(&rig, memory)? == first, "the GPU does not see what was written before");
    view.write(0, &second);
    ensure!(gpu_sees(&rig, memory)? == second, "the GPU does not see what was written after");
    ensure_eq!(rig.view(memory)?.start(), view.start(), "address of the lock");
    Ok(())
}

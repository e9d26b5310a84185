//! CPU host aperture: what is locked through it, on one GPU and on linked ones.

use crate::cases::lock::{SIZE, gpu_sees, pattern};
use campanile_device::FaultRule;
use campanile_hw::pci::BAR_VRAM;
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::Clock;

use super::hang::{ACTIVE, FATAL, state, time_out_packets};
use super::linked::{arm, gpu};
use super::lock::{both_see, hidden_vram};
use super::power_device::power_down;
use crate::rig::{Memory, Rig, View, copy, fill, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::{System, SystemOptions};

cases! { inside "Memory", behind "it chooses the hardware, and looks at what its aperture shows";
    "CpuHostAperture.LockShowsWhatTheGpuWrites" needs UserModeSubmission on Boot::With(aperture), "allocation-usage-tracking":
        "Memory of a segment that the CPU does not see is locked through the CPU host aperture: both sides see each other's writes while the lock is held."
        holds [AllocationUsage 24]
        => seen_through_the_aperture;
    "CpuHostAperture.WorksBeforeTheFirstContext" needs UserModeSubmission on Boot::With(aperture), "cpu-host-aperture":
        "The CPU host aperture can be mapped before any context exists."
        => before_the_first_context;
    "CpuHostAperture.PagesNeedNotBeContiguous" needs UserModeSubmission on Boot::With(aperture), "allocation-usage-tracking":
        "A lock is served from scattered pages of the aperture."
        holds [AllocationUsage 26]
        => scattered;
    "CpuHostAperture.ExhaustionMovesToSystemMemory" needs UserModeSubmission on Boot::With(aperture), "allocation-usage-tracking":
        "No more can be locked through the aperture than fits into it: anything else is moved to system memory and locked there, wanted resident or not."
        holds [AllocationUsage 15, AllocationUsage 16, AllocationUsage 27]
        => exhausted;
    "CpuHostAperture.UnlockAndDestroyGivePagesBack" on Boot::With(aperture), "allocation-usage-tracking":
        "Pages of the aperture are free again, and show nothing any more, when the last lock ends, the allocation is destroyed, or its process is gone."
        holds [AllocationUsage 24]
        => given_back;
    "CpuHostAperture.EveryEngineHasItsOwn" needs UserModeSubmission on Boot::With(board), "cpu-host-aperture":
        "Linked GPUs each have a host aperture: memory of each is locked through its own, and what is used up of one is free of the other."
        holds [AllocationUsage 25]
        => every_engine;
    "CpuHostAperture.EveryEngineSleepsAndWakes" needs UserModeSubmission on Boot::With(board), "cpu-host-aperture":
        "Locks through the apertures of linked GPUs are good in D3, where the apertures show nothing, and behind it, where they show the same memory again."
        holds [AllocationUsage 25]
        => engines_sleep;
    "CpuHostAperture.AdapterResetLeavesWhatIsShown" needs UserModeSubmission on Boot::With(aperture_by_hand), "cpu-host-aperture":
        "Behind a reset of the adapter the aperture shows what it showed before: nobody maps it anew, and the addresses of locks are there until their allocations are gone."
        holds [AllocationUsage 24]
        => adapter_reset;
    "CpuHostAperture.AdapterResetLeavesWhatEveryEngineShows" needs UserModeSubmission on Boot::With(board_by_hand), "cpu-host-aperture":
        "The same holds for every GPU of a linked adapter."
        holds [AllocationUsage 25]
        => adapter_reset;
    "Lock2.EveryEngine" needs UserModeSubmission on Boot::With(hidden_board), "allocation-usage-tracking":
        "Memory of every linked GPU can be locked: where the CPU sees it and where it does not, with the adapter in D3 before."
        holds [AllocationUsage 25]
        => locks_everywhere;
}

/// Bytes of the aperture of [`aperture`].
const APERTURE: u64 = 2 << 20;

/// As [`hidden_vram`], with a host aperture at the end of the window.
pub(super) fn aperture() -> SystemOptions {
    let mut options = hidden_vram();
    options.variant.host_aperture = APERTURE;
    options
}

fn hidden_board() -> SystemOptions {
    let mut options = hidden_vram();
    options.variant.linked = true;
    options
}

fn board() -> SystemOptions {
    let mut options = aperture();
    options.variant.linked = true;
    options
}

fn aperture_by_hand() -> SystemOptions {
    SystemOptions { clock: Clock::manual(), ..aperture() }
}

fn board_by_hand() -> SystemOptions {
    SystemOptions { clock: Clock::manual(), ..board() }
}

/// Pages of VRAM that the aperture of an engine shows, page by page.
fn shown(system: &System, engine: u32) -> Result<Vec<Option<u64>>, Failure> {
    let gpu = gpu(system, engine)?;
    let end = hidden_vram().variant.vram_window / 4096;
    Ok((end - APERTURE / 4096..end).map(|page| gpu.bar_page(BAR_VRAM, page)).collect())
}

/// The number of pages of VRAM that the CPU host aperture of an engine shows.
pub(super) fn count(system: &System, engine: u32) -> Result<u64, Failure> {
    Ok(shown(system, engine)?.iter().flatten().count() as u64)
}

/// A device for each engine.
fn rigs(case: &Case<'_>) -> Result<Vec<Rig>, Failure> {
    let first = case.rig()?;
    let engines = case.system.adapters().first().map_or(0, |part| part.gpus().len()) as u32;
    let mut rigs = vec![first];
    for engine in 1..engines {
        rigs.push(Rig::on_engine(rigs[0].kmt, rigs[0].adapter, engine)?);
    }
    Ok(rigs)
}

fn evicted(case: &Case<'_>) -> u64 {
    case.system.machine().residency(case.system.luid()).unwrap_or_default().evicted
}

/// Memory of each engine, locked through its aperture, with bytes of its own that the GPU sees.
fn locked(rigs: &[Rig]) -> Result<Vec<(Memory, View)>, Failure> {
    let lock = |rig: &Rig| {
        let memory = rig.memory(SIZE, Placement::VramLockable)?;
        let view = rig.view(memory)?;
        let bytes = pattern(u64::from(rig.engine) + 1);
        view.write(0, &bytes);
        ensure!(gpu_sees(rig, memory)? == bytes, "engine {} does not see what the CPU wrote", rig.engine);
        Ok((memory, view))
    };
    rigs.iter().map(lock).collect()
}

fn every_engine(case: &mut Case<'_>) -> Result<(), Failure> {
    let rigs = rigs(case)?;
    ensure_eq!(rigs.len(), 2, "linked GPUs");
    for (full, other) in [(0, 1), (1, 0)] {
        let (full, other) = (&rigs[full], &rigs[other]);
        let all = full.memory(APERTURE, Placement::VramLockable)?;
        full.view(all)?;
        ensure_eq!(count(case.system, full.engine)?, APERTURE / 4096, "pages of the aperture that is used up");
        ensure_eq!(count(case.system, other.engine)?, 0, "pages of the aperture that is free");
        let before = evicted(case);
        let memory = other.memory(SIZE, Placement::VramLockable)?;
        let mut queue = other.queue(NODE_COPY)?;
        other.execute(&mut queue, &[fill(memory.address, SIZE, 0x0707_0707)])?;
        both_see(other, &mut queue, memory, &[7; 4])?;
        ensure_eq!(count(case.system, other.engine)?, SIZE / 4096, "pages that show the allocation");
        ensure_eq!(evicted(case), before, "moves to system memory while the aperture has free pages");
        granted(other.unlock(memory.handle), "unlock")?;
        granted(full.unlock(all.handle), "unlock of what filled the aperture")?;
        ensure_eq!(count(case.system, full.engine)? + count(case.system, other.engine)?, 0, "pages behind the locks");
    }
    Ok(())
}

fn engines_sleep(case: &mut Case<'_>) -> Result<(), Failure> {
    let rigs = rigs(case)?;
    let views = locked(&rigs)?;
    for round in 0..3 {
        power_down(case.system)?;
        for rig in &rigs {
            ensure_eq!(count(case.system, rig.engine)?, 0, "pages that engine {} shows in D3", rig.engine);
        }
        for (rig, (_, view)) in rigs.iter().zip(&views) {
            view.write(0, &pattern(u64::from(rig.engine) + 10 * round));
        }
        for (rig, (memory, view)) in rigs.iter().zip(&views) {
            let bytes = pattern(u64::from(rig.engine) + 10 * round);
            ensure!(gpu_sees(rig, *memory)? == bytes, "engine {} does not see what was written in D3", rig.engine);
            ensure_eq!(count(case.system, rig.engine)?, SIZE / 4096, "pages that engine {} shows", rig.engine);
            let bytes = pattern(u64::from(rig.engine) + 10 * round + 5);
            view.write(0, &bytes);
            ensure!(gpu_sees(rig, *memory)? == bytes, "engine {} does not see what is written behind D3", rig.engine);
        }
    }
    Ok(())
}

/// Has an engine of the last device hang for good, so that the whole adapter is reset.
fn reset_adapter(case: &Case<'_>, rigs: &[Rig]) -> Result<(), Failure> {
    let Some(guilty) = rigs.last() else { return Err(Failure::new("the adapter has no GPU")) };
    let (mut queue, fence) = (guilty.packet_queue(NODE_COMPUTE)?, guilty.fence(0)?);
    arm(case.system, guilty, NODE_COMPUTE)?;
    guilty.packet_submit(&mut queue, &[fence.signal(1), fence.signal(FATAL)])?;
    wait_until("the work before the hang", || fence.value.load() == 1)?;
    gpu(case.system, guilty.engine)?.faults().inject(FaultRule::ResetFails { node: NODE_COMPUTE });
    time_out_packets(case.system);
    for rig in rigs {
        ensure!(state(rig)? != ACTIVE, "the device on engine {} outlives a reset of the adapter", rig.engine);
    }
    Ok(())
}

fn adapter_reset(case: &mut Case<'_>) -> Result<(), Failure> {
    let devices = rigs(case)?;
    let views = locked(&devices)?;
    let before = devices.iter().map(|rig| shown(case.system, rig.engine)).collect::<Result<Vec<_>, _>>()?;
    ensure!(before.iter().all(|pages| pages.iter().flatten().count() as u64 == SIZE / 4096), "locks are not shown");
    reset_adapter(case, &devices)?;
    for (rig, before) in devices.iter().zip(&before) {
        ensure!(shown(case.system, rig.engine)? == *before, "engine {} shows something else now", rig.engine);
    }
    for (_, view) in &views {
        view.write(0, &pattern(3));
        ensure!(view.read(0, SIZE) == pattern(3), "a lock does not hold what was stored to it");
    }
    for rig in &devices {
        granted(rig.destroy(), "destroying a device that is lost")?;
        ensure_eq!(count(case.system, rig.engine)?, 0, "pages that engine {} shows of what is destroyed", rig.engine);
    }
    locked(&rigs(case)?).map(drop)
}

fn locks_everywhere(case: &mut Case<'_>) -> Result<(), Failure> {
    const PLACEMENTS: [Placement; 3] = [Placement::System, Placement::VramVisible, Placement::VramLockable];
    let rigs = rigs(case)?;
    ensure_eq!(rigs.len(), 2, "linked GPUs");
    for rig in &rigs {
        let mut queue = rig.queue(NODE_COPY)?;
        for placement in PLACEMENTS {
            let memory = rig.memory(SIZE, placement)?;
            rig.execute(&mut queue, &[fill(memory.address, SIZE, 0x0202_0202)])?;
            power_down(case.system)?;
            both_see(rig, &mut queue, memory, &[2; 4])?;
        }
    }
    Ok(())
}

fn seen_through_the_aperture(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (ours, theirs) = (rig.memory(SIZE, Placement::VramLockable)?, rig.memory(SIZE, Placement::VramLockable)?);
    let (source, target) = (rig.view(ours)?, rig.view(theirs)?);
    let mut queue = rig.queue(NODE_COPY)?;
    for round in 0..20 {
        let bytes = pattern(round);
        source.write(0, &bytes);
        rig.execute(&mut queue, &[copy(theirs.address, ours.address, SIZE as u32)])?;
        ensure!(target.read(0, SIZE) == bytes, "round {round}: the CPU does not see what the GPU wrote");
    }
    Ok(())
}

fn before_the_first_context(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::VramLockable)?;
    let bytes = pattern(4);
    rig.view(memory)?.write(0, &bytes);
    granted(rig.unlock(memory.handle), "unlock")?;
    ensure!(gpu_sees(&rig, memory)? == bytes, "the GPU does not see what the CPU wrote");
    Ok(())
}

fn scattered(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let pieces = APERTURE / SIZE;
    let small: Vec<Memory> =
        (0..pieces).map(|_| rig.memory(SIZE, Placement::VramLockable)).collect::<Result<_, Failure>>()?;
    for memory in &small {
        rig.view(*memory)?;
    }
    // Every other piece becomes free, so that no two neighbours are.
    for memory in small.iter().step_by(2) {
        granted(rig.unlock(memory.handle), "unlock")?;
    }
    let large = rig.memory(4 * SIZE, Placement::VramLockable)?;
    let view = rig.view(large)?;
    for piece in 0..4 {
        view.write(piece * SIZE, &pattern(piece));
    }
    let seen = gpu_sees(&rig, large)?;
    let expected: Vec<u8> = (0..4).flat_map(pattern).collect();
    ensure!(seen == expected, "pages of the allocation are shown out of place");
    Ok(())
}

fn exhausted(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let all = rig.memory(APERTURE, Placement::VramLockable)?;
    rig.view(all)?;
    let mut queue = rig.queue(NODE_COPY)?;
    let (wanted, given_up) = (rig.memory(SIZE, Placement::VramLockable)?, rig.memory(SIZE, Placement::VramLockable)?);
    for memory in [wanted, given_up] {
        rig.execute(&mut queue, &[fill(memory.address, SIZE, 0x0505_0505)])?;
    }
    both_see(&rig, &mut queue, wanted, &[5; 4])?;
    granted(rig.evict(given_up.handle), "evict")?;
    let view = rig.view(given_up)?;
    ensure!(view.read(0, SIZE).iter().all(|byte| *byte == 5), "the contents did not come along");
    granted(rig.unlock(all.handle), "unlock of what filled the aperture")?;
    let third = rig.memory(SIZE, Placement::VramLockable)?;
    let evicted = |case: &Case<'_>| case.system.machine().residency(case.system.luid()).unwrap_or_default().evicted;
    let before = evicted(case);
    rig.view(third)?;
    ensure_eq!(evicted(case), before, "moves to system memory when the aperture has free pages");
    Ok(())
}

fn given_back(case: &mut Case<'_>) -> Result<(), Failure> {
    let half = APERTURE / 2 + 4096;
    let rig = case.rig()?;
    for round in 0..40 {
        let memory = rig.memory(half, Placement::VramLockable)?;
        rig.view(memory)?.write(0, &[round]);
        // The segment is managed in pages of 64 KiB.
        let pages = half.next_multiple_of(64 << 10) / 4096;
        ensure_eq!(count(case.system, 0)?, pages, "pages that show the allocation");
        if round % 2 == 0 {
            granted(rig.unlock(memory.handle), "unlock")?;
            ensure_eq!(count(case.system, 0)?, 0, "pages that show what is not locked any more");
        }
        granted(rig.free(memory.address, half), "free of the GPU address")?;
        granted(rig.destroy_allocation(memory.handle), "destroy")?;
        ensure_eq!(count(case.system, 0)?, 0, "pages that show what is destroyed");
    }
    for _ in 0..3 {
        case.in_other_process(|system| {
            let rig = Rig::open(system.luid())?;
            let memory = rig.memory(half, Placement::VramLockable)?;
            rig.view(memory).map(drop)
        })?;
        ensure_eq!(count(case.system, 0)?, 0, "pages that show memory of a process that is gone");
    }
    let memory = rig.memory(half, Placement::VramLockable)?;
    rig.view(memory).map(drop)
}

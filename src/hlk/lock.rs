//! Lock2: how the CPU reaches an allocation, by what it was declared as and by where it is.

use campanile_hlk::cases::lock::{SIZE, gpu_sees, pattern};
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::status::*;

use super::case::{Boot, Case, Failure, granted, refused};
use super::rig::{Memory, Rig, copy, fill};
use crate::setup::SystemOptions;

cases! { "Memory", behind "it chooses the hardware, or stops the adapter";
    "Lock2.SegmentWithoutWindowIsNotShown" on Boot::With(hidden_vram), "allocation-usage-tracking":
        "A CPU-accessible allocation that is resident where the CPU does not reach cannot be locked; once it need not be resident any more it is locked in system memory, with its contents."
        => no_window;
    "Lock2.LockedAllocationStaysReachable" on Boot::With(hidden_vram), "allocation-usage-tracking":
        "A locked allocation that becomes resident goes where the CPU reaches it, and its address stays the same."
        => locked_becomes_resident;
    "CpuHostAperture.LockShowsWhatTheGpuWrites" on Boot::With(aperture), "allocation-usage-tracking":
        "Memory of a segment that the CPU does not see is locked through the CPU host aperture: both sides see each other's writes while the lock is held."
        => seen_through_the_aperture;
    "CpuHostAperture.WorksBeforeTheFirstContext" on Boot::With(aperture), "cpu-host-aperture":
        "The CPU host aperture can be mapped before any context exists."
        => before_the_first_context;
    "CpuHostAperture.PagesNeedNotBeContiguous" on Boot::With(aperture), "allocation-usage-tracking":
        "A lock is served from scattered pages of the aperture."
        => scattered;
    "CpuHostAperture.ExhaustionFallsBackOrIsNamed" on Boot::With(aperture), "allocation-usage-tracking":
        "No more can be locked through the aperture than fits into it: what is wanted resident is then refused by name, anything else is locked in system memory."
        => exhausted;
    "CpuHostAperture.UnlockAndDestroyGivePagesBack" on Boot::With(aperture), "allocation-usage-tracking":
        "Pages of the aperture are free again when the last lock ends, the allocation is destroyed, or its process is gone."
        => given_back;
}

/// Bytes of the aperture of [`aperture`].
const APERTURE: u64 = 2 << 20;

/// A window that shows half of VRAM.
fn hidden_vram() -> SystemOptions {
    let mut options = SystemOptions::default();
    options.variant.vram_size = 64 << 20;
    options.variant.vram_window = 32 << 20;
    options
}

/// As [`hidden_vram`], with a host aperture at the end of the window.
fn aperture() -> SystemOptions {
    let mut options = hidden_vram();
    options.variant.host_aperture = APERTURE;
    options
}

fn no_window(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::VramLockable)?;
    let mut queue = rig.queue(NODE_COPY)?;
    rig.execute(&mut queue, &[fill(memory.address, SIZE, 0x0102_0304)])?;
    let status = rig.lock(memory.handle).err().unwrap_or(STATUS_SUCCESS);
    refused(status, &[STATUS_GRAPHICS_CANT_LOCK_MEMORY], "a lock while it is resident out of the CPU's reach")?;
    granted(rig.evict(memory.handle), "evict")?;
    let seen = rig.view(memory)?.read(0, SIZE);
    ensure!(seen.chunks(4).all(|word| word == [4, 3, 2, 1]), "the contents did not come along");
    granted(rig.unlock(memory.handle), "unlock")
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
    let other = rig.memory(SIZE, Placement::VramLockable)?;
    let mut queue = rig.queue(NODE_COPY)?;
    rig.execute(&mut queue, &[fill(other.address, SIZE, 0x0505_0505)])?;
    let status = rig.lock(other.handle).err().unwrap_or(STATUS_SUCCESS);
    refused(status, &[STATUS_GRAPHICS_CANT_LOCK_MEMORY], "a lock with a full aperture")?;
    granted(rig.evict(other.handle), "evict")?;
    let view = rig.view(other)?;
    ensure!(view.read(0, SIZE).iter().all(|byte| *byte == 5), "the contents did not come along");
    granted(rig.unlock(all.handle), "unlock of what filled the aperture")?;
    let third = rig.memory(SIZE, Placement::VramLockable)?;
    rig.view(third).map(drop)
}

fn given_back(case: &mut Case<'_>) -> Result<(), Failure> {
    let half = APERTURE / 2 + 4096;
    let rig = case.rig()?;
    for round in 0..40 {
        let memory = rig.memory(half, Placement::VramLockable)?;
        rig.view(memory)?.write(0, &[round]);
        if round % 2 == 0 {
            granted(rig.unlock(memory.handle), "unlock")?;
        }
        granted(rig.free(memory.address, half), "free of the GPU address")?;
        granted(rig.destroy_allocation(memory.handle), "destroy")?;
    }
    for _ in 0..3 {
        case.in_other_process(|system| {
            let rig = Rig::open(system.luid())?;
            let memory = rig.memory(half, Placement::VramLockable)?;
            rig.view(memory).map(drop)
        })?;
    }
    let memory = rig.memory(half, Placement::VramLockable)?;
    rig.view(memory).map(drop)
}

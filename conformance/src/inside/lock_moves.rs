//! Lock2 while the memory manager moves what is locked.

use std::sync::atomic::{AtomicBool, Ordering};

use campanile_hw::private::Placement;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::rig::{Rig, View};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

cases! { inside "Memory", behind "it has memory moved while it is locked";
    "Lock2.StoresDuringMovesAreKept" on Boot::With(all_visible), "allocation-usage-tracking":
        "The address of a lock stays good while the memory manager moves the allocation: no store is lost, whenever it comes."
        holds [AllocationUsage 9, AllocationUsage 14, AllocationUsage 21]
        => stores_during_moves;
    "CpuHostAperture.StoresDuringMovesAreKept" on Boot::With(through_aperture), "allocation-usage-tracking":
        "The same holds where the allocation is seen through the CPU host aperture in one place and directly in the other."
        holds [AllocationUsage 9, AllocationUsage 21]
        => stores_during_moves;
}

const VRAM: u64 = 8 << 20;
const SIZE: u64 = 512 << 10;
/// Moves in each direction.
const MOVES: u64 = 12;

fn all_visible() -> SystemOptions {
    let mut options = SystemOptions::default();
    (options.variant.vram_size, options.variant.vram_window) = (VRAM, VRAM);
    options
}

fn through_aperture() -> SystemOptions {
    let mut options = SystemOptions::default();
    (options.variant.vram_size, options.variant.vram_window) = (4 * VRAM, 2 * VRAM);
    options.variant.host_aperture = 2 << 20;
    options
}

/// Makes as much of `list` resident as fits, then evicts it again: whatever else may leave has left then.
fn crowd_out(rig: &Rig, list: &[D3DKMT_HANDLE]) -> Result<(), Failure> {
    let mut resident = Vec::new();
    for handle in list {
        let mut one = *handle;
        let mut request = D3DDDI_MAKERESIDENT::zeroed();
        (request.hPagingQueue, request.NumAllocations, request.AllocationList) = (rig.paging_queue, 1, &mut one);
        match rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request) {
            STATUS_NO_MEMORY => break,
            status => rig.settle(status, request.PagingFenceValue, "D3DKMTMakeResident")?,
        }
        resident.push(*handle);
    }
    resident.into_iter().try_for_each(|handle| granted(rig.evict(handle), "evict"))
}

/// Stores growing numbers all over the memory until told to stop, and a while longer; the last number of each word.
fn hammer(view: View, stop: &AtomicBool) -> Result<Vec<u64>, Failure> {
    let mut last = vec![0; (SIZE / 8) as usize];
    let mut number = 0;
    while !stop.load(Ordering::Acquire) || number < last.len() as u64 {
        // Page after page, so that each is written while it moves.
        let place = (number * 513 + number / 1024) % last.len() as u64;
        number += 1;
        view.store(place * 8, number);
        last[place as usize] = number;
        let seen = view.read(place * 8, 8);
        ensure!(seen == number.to_le_bytes(), "word {place} holds {seen:x?} right after {number:#x} was stored");
    }
    Ok(last)
}

fn stores_during_moves(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::VramLockable)?;
    let view = rig.view(memory)?;
    granted(rig.evict(memory.handle), "evict")?;
    let others: Vec<D3DKMT_HANDLE> = (0..5 * VRAM / (2 << 20))
        .map(|_| rig.create(2 << 20, Placement::Vram).map_err(|status| Failure::new(format!("create: {status}"))))
        .collect::<Result<_, _>>()?;
    let counts = |case: &Case<'_>| case.system.machine().residency(case.system.luid()).unwrap_or_default();
    let stop = AtomicBool::new(false);
    let before = counts(case);
    let last = std::thread::scope(|scope| {
        let stop = &stop;
        let writer = scope.spawn(move || hammer(view, stop));
        let moved = (0..MOVES).try_for_each(|_| {
            crowd_out(&rig, &others)?;
            rig.make_resident(memory.handle)?;
            granted(rig.evict(memory.handle), "evict")
        });
        stop.store(true, Ordering::Release);
        let last = writer.join().map_err(|_| Failure::new("the writer panicked"))??;
        moved.map(|()| last)
    })?;
    let now = counts(case);
    ensure!(now.evicted - before.evicted >= MOVES && now.brought - before.brought >= MOVES, "nothing moved: {now:?}");
    for (place, number) in (0..).zip(&last) {
        let seen = view.read(place * 8, 8);
        ensure!(seen == number.to_le_bytes(), "word {place} holds {seen:x?} at the end, {number:#x} was stored last");
    }
    ensure!(rig.view(memory)?.start() == view.start(), "the lock has another address now");
    granted(rig.unlock(memory.handle), "unlock")
}

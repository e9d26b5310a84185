//! Residency: paging fences, eviction, restoration.

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;

use super::case::{Boot, Case, Failure, granted, refused};
use super::kmt::{BAD_ARGUMENT, BAD_HANDLE, WRONG_KIND};
use super::rig::{Memory, RawQueue, Rig, copy, fill};
use crate::setup::SystemOptions;

cases! { "Residency";
    "Residency.EvictedContentComesBack" on Boot::With(small_vram), "residency":
        "What an allocation in VRAM held before it was evicted it holds again once it is resident, at the same GPU address."
        => evicted_content_comes_back;
    "Residency.OversubscribedVramKeepsEveryByte" on Boot::With(small_vram), "residency":
        "Allocations of three times the size of VRAM take turns in it, and every byte of each is right."
        => oversubscribed;
    "Residency.RequestsAreCounted" on Boot::Shared, "driver-residency-in-wddm-2-0":
        "Residency is a count: an allocation made resident twice stays resident after one eviction."
        => requests_are_counted;
    "Residency.EvictionWithoutResidencyIsHarmless" on Boot::Shared, "driver-residency-in-wddm-2-0":
        "Evicting an allocation that is not on the residency list does not disturb later requests."
        => eviction_without_residency;
    "Residency.WrongHandlesAreRefused" on Boot::Shared, "d3dkmtmakeresident":
        "Requests for handles that are stale or of another kind are refused as a whole and make nothing resident."
        => wrong_handles;
    "Residency.MoreThanVramAtOnceIsRefused" on Boot::With(small_vram), "residency":
        "A request that can never fit in VRAM fails by name instead of waiting for ever, and what was resident stays usable."
        => more_than_vram;
}

const SIZE: u64 = 4 << 20;
const VRAM: u64 = 32 << 20;

fn small_vram() -> SystemOptions {
    let mut options = SystemOptions::default();
    options.variant.vram_size = VRAM;
    options.variant.vram_window = VRAM;
    options
}

/// Reads an allocation back through the GPU and holds it against a pattern.
fn check(rig: &Rig, queue: &mut RawQueue, memory: Memory, seen: Memory, pattern: u32) -> Result<(), Failure> {
    let view = rig.view(seen)?;
    view.fill(0);
    rig.execute(queue, &[copy(seen.address, memory.address, SIZE as u32)])?;
    let wrong = view.read(0, SIZE).chunks(4).position(|word| word != pattern.to_le_bytes());
    granted(rig.unlock(seen.handle), "unlock")?;
    ensure!(wrong.is_none(), "word {wrong:?} of the allocation is not {pattern:#x}");
    Ok(())
}

fn evicted_content_comes_back(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let seen = rig.memory(SIZE, Placement::System)?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    rig.execute(&mut queue, &[fill(memory.address, SIZE, 0x600d_f00d)])?;
    granted(rig.evict(memory.handle), "evict")?;
    // Others need the room, so that the contents really leave.
    let mut others = Vec::new();
    for _ in 0..VRAM / SIZE - 2 {
        let other = rig.memory(SIZE, Placement::Vram)?;
        rig.execute(&mut queue, &[fill(other.address, SIZE, 0xbad_bad)])?;
        others.push(other);
    }
    for other in others {
        granted(rig.evict(other.handle), "evict")?;
    }
    rig.make_resident(memory.handle)?;
    check(&rig, &mut queue, memory, seen, 0x600d_f00d)
}

fn oversubscribed(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let seen = rig.memory(SIZE, Placement::System)?;
    let mut all = Vec::new();
    for index in 0..3 * VRAM / SIZE {
        let memory = rig.memory(SIZE, Placement::Vram)?;
        rig.execute(&mut queue, &[fill(memory.address, SIZE, 0x0101_0000 + index as u32)])?;
        granted(rig.evict(memory.handle), "evict")?;
        all.push(memory);
    }
    for (index, memory) in all.iter().enumerate().rev() {
        rig.make_resident(memory.handle)?;
        check(&rig, &mut queue, *memory, seen, 0x0101_0000 + index as u32)?;
        granted(rig.evict(memory.handle), "evict")?;
    }
    Ok(())
}

fn requests_are_counted(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let seen = rig.memory(SIZE, Placement::System)?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    rig.make_resident(memory.handle)?;
    granted(rig.evict(memory.handle), "the first eviction")?;
    rig.execute(&mut queue, &[fill(memory.address, SIZE, 0x7777_7777)])?;
    check(&rig, &mut queue, memory, seen, 0x7777_7777)
}

fn eviction_without_residency(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let seen = rig.memory(SIZE, Placement::System)?;
    let handle = rig.create(SIZE, Placement::Vram).map_err(|status| Failure::new(format!("create: {status}")))?;
    let status = rig.evict(handle);
    if !status.is_success() {
        refused(status, BAD_ARGUMENT, "evicting what is not resident")?;
    }
    rig.make_resident(handle)?;
    let address = rig.map(rig.map_request(handle, SIZE))?;
    let memory = Memory { handle, address, size: SIZE };
    rig.execute(&mut queue, &[fill(address, SIZE, 0x4242_4242)])?;
    check(&rig, &mut queue, memory, seen, 0x4242_4242)
}

fn wrong_handles(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let good = rig.create(SIZE, Placement::Vram).map_err(|status| Failure::new(format!("create: {status}")))?;
    for (what, bad, allowed) in [
        ("no object", 0, BAD_HANDLE),
        ("a handle nobody has", 0xfff0_0001, BAD_HANDLE),
        ("a device", rig.device, WRONG_KIND),
    ] {
        let mut list = [good, bad];
        let mut request = D3DDDI_MAKERESIDENT::zeroed();
        request.hPagingQueue = rig.paging_queue;
        request.NumAllocations = 2;
        request.AllocationList = list.as_mut_ptr();
        let status = rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request);
        refused(status, allowed, what)?;
        refused(rig.evict(bad), allowed, what)?;
    }
    rig.make_resident(good)
}

fn more_than_vram(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let seen = rig.memory(SIZE, Placement::System)?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    rig.execute(&mut queue, &[fill(memory.address, SIZE, 0x5151_5151)])?;
    if let Ok(huge) = rig.create(2 * VRAM, Placement::Vram) {
        let mut handle = huge;
        let mut request = D3DDDI_MAKERESIDENT::zeroed();
        request.hPagingQueue = rig.paging_queue;
        request.NumAllocations = 1;
        request.AllocationList = &mut handle;
        let status = rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request);
        ensure!(!status.is_success(), "twice the size of VRAM was made resident: {status}");
    }
    check(&rig, &mut queue, memory, seen, 0x5151_5151)
}

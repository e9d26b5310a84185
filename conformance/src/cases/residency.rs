//! Residency: paging fences, eviction, restoration.

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;

use super::fence_monitored::private;
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, WRONG_KIND};
use crate::rig::{Memory, RawQueue, Rig, copy, fill, wait_until};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Residency";
    "Residency.RequestsAreCounted" needs UserModeSubmission on Boot::Shared, "driver-residency-in-wddm-2-0":
        "Residency is a count: an allocation made resident twice stays resident after one eviction."
        => requests_are_counted;
    "Residency.EvictionWithoutResidencyIsHarmless" needs UserModeSubmission on Boot::Shared, "driver-residency-in-wddm-2-0":
        "Evicting an allocation that is not on the residency list does not disturb later requests."
        => eviction_without_residency;
    "Residency.CommandsDoNotTakeThePagingFenceBack" needs UserModeSubmission on Boot::Fresh, "d3dkmt_createpagingqueue":
        "A program that stores beside its own fences cannot change the fence of its paging queue, neither by the processor nor by commands of the GPU, and its requests go on."
        => fence_is_the_systems;
    "Residency.WrongHandlesAreRefused" on Boot::Shared, "d3dkmtmakeresident":
        "Requests for handles that are stale or of another kind are refused as a whole and make nothing resident."
        => wrong_handles;
}

pub const SIZE: u64 = 4 << 20;

/// Reads an allocation back through the GPU and compares it with a pattern.
pub fn check(rig: &Rig, queue: &mut RawQueue, memory: Memory, seen: Memory, pattern: u32) -> Result<(), Failure> {
    let view = rig.view(seen)?;
    view.fill(0);
    rig.execute(queue, &[copy(seen.address, memory.address, SIZE as u32)])?;
    let wrong = view.read(0, SIZE).chunks(4).position(|word| word != pattern.to_le_bytes());
    granted(rig.unlock(seen.handle), "unlock")?;
    ensure!(wrong.is_none(), "word {wrong:?} of the allocation is not {pattern:#x}");
    Ok(())
}

fn requests_are_counted(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let seen = rig.memory(SIZE, Placement::System)?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    rig.make_resident(memory.handle)?;
    granted(rig.evict(memory.handle), "the first eviction")?;
    rig.execute(&mut queue, &[fill(memory.address, SIZE, 0x7777_7777)])?;
    check(&rig, &mut queue, memory, seen, 0x7777_7777)
}

fn eviction_without_residency(case: &Case) -> Result<(), Failure> {
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

fn fence_is_the_systems(case: &Case) -> Result<(), Failure> {
    const PAGE: usize = campanile_hw::queue::SYSTEM_PAGE_SIZE as usize;
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    let (place, value) = rig.paging_fence();
    ensure!(!place.is_writable()?, "the processor can write the fence of the paging queue");
    // A page has space for at most as many fences of 8 bytes: one of these lies beside the paging fence if fences of programs do at all.
    let fences = (0..=PAGE / 8).map(|_| private(&rig, 0)).collect::<Result<Vec<_>, _>>()?;
    let at = place.address().addr();
    if let Some(beside) = fences.iter().find(|fence| fence.value.address().addr() / PAGE == at / PAGE) {
        let target = beside.current.wrapping_add(at as u64).wrapping_sub(beside.value.address().addr() as u64);
        let mut queue = rig.queue(NODE_COPY)?;
        rig.submit_doomed(&mut queue, &[fill(target, 8, 0)])?;
        let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
        wait_until("the commands to change the fence or to fault", || {
            place.load() != value || rig.kmt.execution_state(rig.device).is_ok_and(|state| state != active)
        })?;
        ensure!(place.load() >= value, "commands have taken the paging fence from {value} back to {}", place.load());
    }
    // On a device that is not lost, requests still end.
    let witness = case.rig()?;
    let again = witness.memory(SIZE, Placement::Vram)?;
    granted(witness.evict(again.handle), "an eviction")?;
    witness.make_resident(again.handle)?;
    granted(rig.destroy_allocation(memory.handle), "destroying the allocation")
}

fn wrong_handles(case: &Case) -> Result<(), Failure> {
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

//! Offered memory: taken when memory is short, without its contents being saved, and given back when it is reclaimed.

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, WRONG_KIND};
use crate::rig::{Memory, RawQueue, Rig, copy, fill};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Offer", needs HardwareScheduling;
    "Offer.KeptWithoutPressure" needs UserModeSubmission on Boot::Shared, "d3dkmtofferallocations":
        "What nobody took while it was offered is reclaimed at once, at the same address and with its contents."
        => kept;
    "Offer.BadRequestsAreRefused" needs UserModeSubmission on Boot::Shared, "d3dkmtofferallocations":
        "What is offered, locked or rung already, of another kind or named twice is refused, all or none; so is a lock or residency of what is offered."
        => refusals;
}

pub const SIZE: u64 = 1 << 20;

pub const PATTERN: u32 = 0x600d_c0de;

pub const LOW: D3DKMT_OFFER_PRIORITY = D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_LOW;

pub const NORMAL: D3DKMT_OFFER_PRIORITY = D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_NORMAL;

pub const HIGH: D3DKMT_OFFER_PRIORITY = D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_HIGH;

pub const KEPT: i32 = 0;

pub fn offer_with(
    rig: &Rig,
    list: &[D3DKMT_HANDLE],
    priority: D3DKMT_OFFER_PRIORITY,
    flags: D3DKMT_OFFER_FLAGS,
) -> NTSTATUS {
    let mut list = list.to_vec();
    let mut arguments = D3DKMT_OFFERALLOCATIONS::zeroed();
    (arguments.hDevice, arguments.HandleList) = (rig.device, list.as_mut_ptr());
    (arguments.NumAllocations, arguments.Priority, arguments.Flags) = (list.len() as u32, priority, flags);
    rig.kmt.call(rig.kmt.table().D3DKMTOfferAllocations, &mut arguments)
}

pub fn offer(rig: &Rig, memory: Memory, priority: D3DKMT_OFFER_PRIORITY) -> Result<(), Failure> {
    granted(offer_with(rig, &[memory.handle], priority, D3DKMT_OFFER_FLAGS::new()), "D3DKMTOfferAllocations")
}

/// What the thunk returned, and the results; a paging fence is waited for.
pub fn try_reclaim(rig: &Rig, list: &[D3DKMT_HANDLE]) -> Result<(NTSTATUS, Vec<i32>), Failure> {
    let (mut list, mut results) = (list.to_vec(), vec![-1; list.len()]);
    let mut arguments = D3DKMT_RECLAIMALLOCATIONS2::zeroed();
    (arguments.hPagingQueue, arguments.HandleList) = (rig.paging_queue, list.as_mut_ptr());
    arguments.NumAllocations = list.len() as u32;
    arguments.u = D3DKMT_RECLAIMALLOCATIONS2_Union { pDiscarded: results.as_mut_ptr() };
    let status = rig.kmt.call(rig.kmt.table().D3DKMTReclaimAllocations2, &mut arguments);
    if status.is_success() {
        ensure!((status == STATUS_PENDING) == (arguments.PagingFenceValue != 0), "{status} with a fence value");
        rig.settle(status, arguments.PagingFenceValue, "D3DKMTReclaimAllocations2")?;
    }
    Ok((status, results))
}

pub fn reclaim(rig: &Rig, memory: Memory, expected: i32) -> Result<(), Failure> {
    let (status, results) = try_reclaim(rig, &[memory.handle])?;
    granted(status, "D3DKMTReclaimAllocations2")?;
    ensure_eq!(results, vec![expected], "result of reclaiming");
    Ok(())
}

/// Every word of the memory, as the GPU finds it, is `pattern`.
pub fn holds(rig: &Rig, queue: &mut RawQueue, memory: Memory, pattern: u32) -> Result<(), Failure> {
    let seen = rig.memory(memory.size, Placement::System)?;
    let view = rig.view(seen)?;
    view.fill(0xee);
    rig.execute(queue, &[copy(seen.address, memory.address, memory.size as u32)])?;
    let wrong = view.read(0, memory.size).chunks(4).position(|word| word != pattern.to_le_bytes());
    granted(rig.unlock(seen.handle), "unlock")?;
    granted(rig.free(seen.address, seen.size.next_multiple_of(64 << 10)), "free")?;
    granted(rig.destroy_allocation(seen.handle), "destroy")?;
    ensure!(wrong.is_none(), "word {wrong:?} is not {pattern:#x}");
    Ok(())
}

/// Memory in VRAM with [`PATTERN`] in it.
pub fn filled(rig: &Rig, queue: &mut RawQueue) -> Result<Memory, Failure> {
    let memory = rig.memory(SIZE, Placement::Vram)?;
    rig.execute(queue, &[fill(memory.address, SIZE, PATTERN)])?;
    Ok(memory)
}

pub fn try_resident(rig: &Rig, allocation: D3DKMT_HANDLE) -> Result<NTSTATUS, Failure> {
    let mut handle = allocation;
    let mut request = D3DDDI_MAKERESIDENT::zeroed();
    (request.hPagingQueue, request.NumAllocations, request.AllocationList) = (rig.paging_queue, 1, &mut handle);
    let status = rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request);
    if status.is_success() {
        rig.settle(status, request.PagingFenceValue, "D3DKMTMakeResident")?;
    }
    Ok(status)
}

pub fn kept(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let memory = filled(&rig, &mut queue)?;
    for priority in [LOW, NORMAL, HIGH, D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_AUTO] {
        offer(&rig, memory, priority)?;
        reclaim(&rig, memory, KEPT)?;
    }
    holds(&rig, &mut queue, memory, PATTERN)?;
    // Residency is no part of an offer.
    offer(&rig, memory, LOW)?;
    granted(rig.evict(memory.handle), "evicting what is offered")?;
    reclaim(&rig, memory, KEPT)?;
    rig.make_resident(memory.handle)?;
    holds(&rig, &mut queue, memory, PATTERN)
}

fn refusals(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (a, b) = (rig.memory(SIZE, Placement::VramLockable)?, rig.memory(SIZE, Placement::VramLockable)?);
    let none = D3DKMT_OFFER_FLAGS::new();
    let busy = &[STATUS_GRAPHICS_ALLOCATION_BUSY];
    for priority in [0, 5, -1] {
        let status = offer_with(&rig, &[a.handle], D3DKMT_OFFER_PRIORITY(priority), none);
        refused(status, BAD_ARGUMENT, &format!("priority {priority}"))?;
    }
    for bit in 2..32 {
        let status = offer_with(&rig, &[a.handle], LOW, D3DKMT_OFFER_FLAGS::from_bits(1 << bit));
        refused(status, BAD_ARGUMENT, &format!("flag bit {bit}"))?;
    }
    refused(offer_with(&rig, &[], LOW, none), BAD_ARGUMENT, "an offer of nothing")?;
    refused(offer_with(&rig, &[a.handle, a.handle], LOW, none), BAD_ARGUMENT, "an offer of one twice")?;
    refused(offer_with(&rig, &[a.handle, rig.device], LOW, none), WRONG_KIND, "an offer of a device")?;
    refused(offer_with(&rig, &[a.handle, 0xfff0_0001], LOW, none), BAD_HANDLE, "an offer of nothing known")?;
    refused(try_reclaim(&rig, &[a.handle])?.0, BAD_ARGUMENT, "reclaiming what is not offered")?;
    rig.view(b)?;
    refused(offer_with(&rig, &[a.handle, b.handle], LOW, none), busy, "an offer of what is locked")?;
    granted(rig.unlock(b.handle), "unlock")?;
    let queue = rig.queue(NODE_COPY)?;
    granted(rig.unlock(queue.ring.handle), "unlock of the ring")?;
    refused(offer_with(&rig, &[a.handle, queue.ring.handle], LOW, none), busy, "an offer of a ring")?;
    granted(offer_with(&rig, &[a.handle], LOW, none), "an offer after refusals")?;
    refused(offer_with(&rig, &[b.handle, a.handle], LOW, none), BAD_ARGUMENT, "an offer of what is offered")?;
    let status = rig.lock(a.handle).err().unwrap_or(STATUS_SUCCESS);
    refused(status, &[STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE], "a lock of what is offered")?;
    refused(try_resident(&rig, a.handle)?, BAD_ARGUMENT, "residency of what is offered")?;
    refused(try_reclaim(&rig, &[a.handle, b.handle])?.0, BAD_ARGUMENT, "reclaiming one that is not offered")?;
    reclaim(&rig, a, KEPT)?;
    rig.view(a).map(drop)
}

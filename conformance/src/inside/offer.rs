//! Offered memory: taken when memory is short, without its contents being saved, and given back when it is reclaimed.

use crate::cases::offer::{
    HIGH, KEPT, LOW, NORMAL, PATTERN, SIZE, filled, holds, offer, offer_with, reclaim, try_reclaim, try_resident,
};
use campanile_hw::private::{AllocationData, MAGIC, Placement};
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE};
use crate::rig::{Memory, Rig, copy, fill, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};
use testbed::setup::SystemOptions;
use testbed::user::{OfferPriority, Reclaimed};

cases! { inside "Offer", behind "it chooses how much memory there is";
    "Offer.TakenUnderPressureWithoutACopy" needs UserModeSubmission on Boot::With(small_vram), "d3dkmtofferallocations":
        "When memory is short, offered allocations are discarded before anything is copied out; reclaimed they are zero and usable, and the answer says so."
        => taken;
    "Offer.LowPriorityGoesFirst" needs UserModeSubmission on Boot::With(small_vram), "d3dkmtofferallocations":
        "Of offered allocations the one with the lowest priority is discarded first, and of those the one offered first."
        => priorities;
    "Offer.QueuedWorkComesFirst" needs UserModeSubmission on Boot::With(small_vram), "d3dkmtofferallocations":
        "Work that is queued before an offer finds the contents, however short memory is; with OfferImmediately nothing waits for it."
        => queued_work;
    "Offer.UseAllTheSameHarmsTheUserAlone" needs UserModeSubmission on Boot::With(small_vram), "d3dkmtofferallocations":
        "A GPU that uses what was offered and discarded faults on its own device; others go on."
        => used;
    "Offer.DestroyedWhileOffered" needs UserModeSubmission on Boot::With(small_vram), "d3dkmtofferallocations":
        "Allocations are destroyed while they are offered, discarded or not, and leave nothing behind; so does an exit."
        => destroyed;
    "Offer.ReclaimWithoutMemoryIsNamed" needs UserModeSubmission on Boot::With(small_vram), "d3dkmtreclaimallocations2":
        "Reclaiming when there is no memory fails by name, or for decommitted memory says so, and leaves the allocation offered."
        => no_memory;
    "Offer.ResourcesAreOfferedWhole" on Boot::With(small_vram), "d3dkmtofferallocations":
        "Resources are offered and reclaimed with all their allocations, and one answer stands for each resource."
        => resources;
    "Offer.DriverOffersBuffers" on Boot::With(small_vram), "d3dkmtofferallocations":
        "The user-mode driver offers buffers and reclaims them, kept and discarded."
        => through_the_driver;
}

const VRAM: u64 = 8 << 20;

const DISCARDED: i32 = 1;

const NOT_COMMITTED: i32 = 2;

fn small_vram() -> SystemOptions {
    let mut options = SystemOptions::default();
    (options.variant.vram_size, options.variant.vram_window) = (VRAM, VRAM);
    // Tables of queues take VRAM too.
    options.variant.queue_limit = 256;
    options
}

/// Makes pieces resident until no more fit. `step` looks after each.
fn press(rig: &Rig, mut step: impl FnMut(&Rig) -> Result<bool, Failure>) -> Result<Vec<D3DKMT_HANDLE>, Failure> {
    let mut pieces = Vec::new();
    loop {
        let piece = rig.create(SIZE, Placement::Vram).map_err(|status| Failure::new(format!("create: {status}")))?;
        match try_resident(rig, piece)? {
            STATUS_NO_MEMORY => {
                granted(rig.destroy_allocation(piece), "destroy")?;
                return Ok(pieces);
            }
            status => granted(status, "D3DKMTMakeResident")?,
        }
        pieces.push(piece);
        if !step(rig)? {
            return Ok(pieces);
        }
    }
}

fn release(rig: &Rig, pieces: Vec<D3DKMT_HANDLE>) -> Result<(), Failure> {
    pieces.into_iter().try_for_each(|piece| granted(rig.destroy_allocation(piece), "destroy"))
}

fn discarded(case: &Case<'_>) -> u64 {
    case.system.machine().residency(case.system.luid()).unwrap_or_default().discarded
}

fn taken(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let all: Vec<Memory> = (0..3).map(|_| filled(&rig, &mut queue)).collect::<Result<_, _>>()?;
    let handles: Vec<D3DKMT_HANDLE> = all.iter().map(|memory| memory.handle).collect();
    granted(offer_with(&rig, &handles, NORMAL, D3DKMT_OFFER_FLAGS::new()), "offering three")?;
    let counts = |case: &Case<'_>| case.system.machine().residency(case.system.luid()).unwrap_or_default();
    let before = counts(case);
    let pieces = press(&rig, |_| Ok(true))?;
    let after = counts(case);
    ensure_eq!(after.discarded - before.discarded, 3, "allocations discarded");
    ensure_eq!(after.evicted, before.evicted, "allocations copied out");
    release(&rig, pieces)?;
    let (status, results) = try_reclaim(&rig, &handles)?;
    granted(status, "D3DKMTReclaimAllocations2")?;
    ensure_eq!(results, vec![DISCARDED; 3], "results");
    for memory in all {
        holds(&rig, &mut queue, memory, 0)?;
        rig.execute(&mut queue, &[fill(memory.address, SIZE, PATTERN)])?;
        holds(&rig, &mut queue, memory, PATTERN)?;
    }
    Ok(())
}

fn priorities(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let terms = [HIGH, NORMAL, LOW, NORMAL, LOW];
    let all: Vec<Memory> = terms.iter().map(|_| filled(&rig, &mut queue)).collect::<Result<_, _>>()?;
    for (memory, priority) in all.iter().zip(terms) {
        offer(&rig, *memory, priority)?;
    }
    let before = discarded(case);
    // Two low ones and the first normal one.
    let pieces = press(&rig, |_| Ok(discarded(case) - before < 3))?;
    ensure_eq!(discarded(case) - before, 3, "allocations discarded");
    release(&rig, pieces)?;
    for (place, (memory, expected)) in all.iter().zip([KEPT, DISCARDED, DISCARDED, KEPT, DISCARDED]).enumerate() {
        let (_, results) = try_reclaim(&rig, &[memory.handle])?;
        ensure_eq!(results, vec![expected], "result of number {place} of {terms:?}");
        holds(&rig, &mut queue, *memory, if expected == KEPT { PATTERN } else { 0 })?;
    }
    Ok(())
}

fn queued_work(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let (memory, seen) = (filled(&rig, &mut queue)?, rig.memory(SIZE, Placement::System)?);
    let (view, gate) = (rig.view(seen)?, rig.fence(0)?);
    let value = rig.submit(&mut queue, &[gate.wait(1), copy(seen.address, memory.address, SIZE as u32)])?;
    offer(&rig, memory, LOW)?;
    let before = discarded(case);
    let pieces = press(&rig, |_| Ok(true))?;
    ensure_eq!(discarded(case), before, "discards while queued work needs the contents");
    granted(rig.signal(&[gate.handle], &[1]), "opening the gate")?;
    wait_until("the queued work", || queue.progress.load() >= value)?;
    ensure!(view.read(0, SIZE).chunks(4).all(|word| word == PATTERN.to_le_bytes()), "queued work found other bytes");
    // Now it goes.
    let more = press(&rig, |_| Ok(true))?;
    ensure_eq!(discarded(case), before + 1, "discards after the work");
    release(&rig, pieces)?;
    release(&rig, more)?;
    reclaim(&rig, memory, DISCARDED)?;
    // Whoever says that nothing uses it is believed.
    rig.submit(&mut queue, &[gate.wait(2)])?;
    let at_once = D3DKMT_OFFER_FLAGS::new().with_OfferImmediately(true);
    granted(offer_with(&rig, &[memory.handle], LOW, at_once), "offering at once")?;
    let pieces = press(&rig, |_| Ok(true))?;
    ensure_eq!(discarded(case), before + 2, "discards of what was offered at once");
    granted(rig.signal(&[gate.handle], &[2]), "opening the gate")?;
    release(&rig, pieces)?;
    reclaim(&rig, memory, DISCARDED)
}

fn used(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, other) = (case.rig()?, case.rig()?);
    let (mut queue, mut bystander) = (rig.queue(NODE_COPY)?, other.queue(NODE_COPY)?);
    let memory = filled(&rig, &mut queue)?;
    offer(&rig, memory, LOW)?;
    let pieces = press(&other, |_| Ok(true))?;
    let _ = rig.submit(&mut queue, &[fill(memory.address, SIZE, 1)])?;
    wait_until("the fault", || {
        let state = rig.kmt.execution_state(rig.device);
        state.is_ok_and(|state| state != D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE)
    })?;
    release(&other, pieces)?;
    let mine = filled(&other, &mut bystander)?;
    holds(&other, &mut bystander, mine, PATTERN)
}

fn destroyed(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    for round in 0..6 {
        let memory = filled(&rig, &mut queue)?;
        offer(&rig, memory, LOW)?;
        if round % 2 == 0 {
            let pieces = press(&rig, |_| Ok(true))?;
            release(&rig, pieces)?;
        }
        granted(rig.free(memory.address, SIZE), "free")?;
        granted(rig.destroy_allocation(memory.handle), "destroy")?;
        refused(try_reclaim(&rig, &[memory.handle])?.0, BAD_HANDLE, "reclaiming what is destroyed")?;
    }
    let room = press(&rig, |_| Ok(true))?;
    let count = room.len();
    release(&rig, room)?;
    case.in_other_process(|system| {
        let rig = Rig::open(system.luid())?;
        let mut queue = rig.queue(NODE_COPY)?;
        let (kept, taken) = (filled(&rig, &mut queue)?, filled(&rig, &mut queue)?);
        offer(&rig, taken, LOW)?;
        let pieces = press(&rig, |_| Ok(true))?;
        offer(&rig, kept, HIGH)?;
        release(&rig, pieces)
    })?;
    let room = press(&rig, |_| Ok(true))?;
    ensure_eq!(room.len(), count, "pieces that fit after the exit");
    release(&rig, room)
}

fn no_memory(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let (kept, decommitted) = (filled(&rig, &mut queue)?, filled(&rig, &mut queue)?);
    offer(&rig, kept, LOW)?;
    let decommit = D3DKMT_OFFER_FLAGS::new().with_AllowDecommit(true);
    granted(offer_with(&rig, &[decommitted.handle], LOW, decommit), "an offer that allows to decommit")?;
    let pieces = press(&rig, |_| Ok(true))?;
    refused(try_reclaim(&rig, &[kept.handle])?.0, &[STATUS_NO_MEMORY], "reclaiming without memory")?;
    let (status, results) = try_reclaim(&rig, &[decommitted.handle])?;
    granted(status, "reclaiming decommitted memory")?;
    ensure_eq!(results, vec![NOT_COMMITTED], "result without memory");
    refused(try_resident(&rig, kept.handle)?, BAD_ARGUMENT, "residency of what is still offered")?;
    release(&rig, pieces)?;
    reclaim(&rig, kept, DISCARDED)?;
    reclaim(&rig, decommitted, DISCARDED)?;
    holds(&rig, &mut queue, kept, 0)?;
    holds(&rig, &mut queue, decommitted, 0)
}

/// A resource of two allocations.
fn resource(rig: &Rig) -> Result<(D3DKMT_HANDLE, [D3DKMT_HANDLE; 2]), Failure> {
    let data = AllocationData { magic: MAGIC, placement: Placement::Vram as u32, size: SIZE, adapter: 0, reserved: 0 };
    let (mut one, mut two) = (data.to_bytes(), data.to_bytes());
    let mut infos = [&mut one, &mut two].map(|data| {
        let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
        (info.pPrivateDriverData, info.PrivateDriverDataSize) = (data.as_mut_ptr().cast(), data.len() as u32);
        info
    });
    let mut create = D3DKMT_CREATEALLOCATION::zeroed();
    (create.hDevice, create.NumAllocations) = (rig.device, 2);
    create.Flags = create.Flags.with_CreateResource(true);
    create.u1 = D3DKMT_CREATEALLOCATION_Union1 { pAllocationInfo2: infos.as_mut_ptr() };
    granted(rig.kmt.call(rig.kmt.table().D3DKMTCreateAllocation2, &mut create), "D3DKMTCreateAllocation2")?;
    let handles = infos.map(|info| info.hAllocation);
    handles.iter().try_for_each(|handle| rig.make_resident(*handle))?;
    Ok((create.hResource, handles))
}

fn resources(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (first, second) = (resource(&rig)?, resource(&rig)?);
    let mut list = [first.0, second.0];
    let mut arguments = D3DKMT_OFFERALLOCATIONS::zeroed();
    (arguments.hDevice, arguments.pResources, arguments.NumAllocations) = (rig.device, list.as_mut_ptr(), 2);
    arguments.Priority = LOW;
    arguments.HandleList = arguments.pResources;
    let both = rig.kmt.call(rig.kmt.table().D3DKMTOfferAllocations, &mut arguments);
    refused(both, BAD_ARGUMENT, "an offer with two lists")?;
    arguments.HandleList = std::ptr::null_mut();
    granted(rig.kmt.call(rig.kmt.table().D3DKMTOfferAllocations, &mut arguments), "offering two resources")?;
    let before = discarded(case);
    // One allocation of the first.
    let pieces = press(&rig, |_| Ok(discarded(case) == before))?;
    release(&rig, pieces)?;
    let mut results = [-1; 2];
    let mut arguments = D3DKMT_RECLAIMALLOCATIONS2::zeroed();
    (arguments.hPagingQueue, arguments.pResources, arguments.NumAllocations) = (rig.paging_queue, list.as_mut_ptr(), 2);
    arguments.u.pDiscarded = results.as_mut_ptr();
    let status = rig.kmt.call(rig.kmt.table().D3DKMTReclaimAllocations2, &mut arguments);
    rig.settle(status, arguments.PagingFenceValue, "D3DKMTReclaimAllocations2")?;
    ensure_eq!(results, [DISCARDED, KEPT], "results of the resources");
    for handle in first.1.into_iter().chain(second.1) {
        refused(try_reclaim(&rig, &[handle])?.0, BAD_ARGUMENT, "an allocation of a reclaimed resource")?;
    }
    Ok(())
}

fn through_the_driver(case: &mut Case<'_>) -> Result<(), Failure> {
    let (device, rig) = (case.device()?, case.rig()?);
    let buffer = device.create_buffer(SIZE, Placement::VramVisible)?;
    let bytes: Vec<u8> = (0..SIZE).map(|index| (index * 7 + index / 256) as u8).collect();
    buffer.map()?.write(0, &bytes)?;
    buffer.offer(OfferPriority::High)?;
    ensure!(buffer.map().is_err(), "a buffer that is offered was mapped");
    ensure!(buffer.offer(OfferPriority::Low).is_err(), "a buffer was offered twice");
    ensure_eq!(buffer.reclaim()?, Reclaimed::Kept, "what nobody took");
    let mut seen = vec![0; SIZE as usize];
    buffer.map()?.read(0, &mut seen)?;
    ensure!(seen == bytes, "the contents were not kept");
    let mapping = buffer.map()?;
    ensure!(buffer.offer(OfferPriority::Low).is_err(), "a buffer that is mapped was offered");
    drop(mapping);
    buffer.offer(OfferPriority::Normal)?;
    let pieces = press(&rig, |_| Ok(true))?;
    release(&rig, pieces)?;
    ensure_eq!(buffer.reclaim()?, Reclaimed::Discarded, "what was taken");
    ensure!(buffer.reclaim().is_err(), "a buffer was reclaimed twice");
    buffer.map()?.read(0, &mut seen)?;
    ensure!(seen.iter().all(|byte| *byte == 0), "discarded contents are not zero");
    Ok(())
}

//! Residency: paging fences, eviction, restoration.

use crate::cases::residency::{SIZE, check};
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;

use crate::rig::fill;
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

cases! { inside "Residency", needs UserModeSubmission, behind "it chooses how much memory there is";
    "Residency.EvictedContentComesBack" on Boot::With(small_vram), "residency":
        "What an allocation in VRAM held before it was evicted it holds again once it is resident, at the same GPU address."
        => evicted_content_comes_back;
    "Residency.OversubscribedVramKeepsEveryByte" on Boot::With(small_vram), "residency":
        "Allocations of three times the size of VRAM are in it in turn, and every byte of each is right."
        => oversubscribed;
    "Residency.MoreThanVramAtOnceIsRefused" on Boot::With(small_vram), "residency":
        "A request that can never fit in VRAM fails by name instead of waiting for ever, and what was resident stays usable."
        => more_than_vram;
}

const VRAM: u64 = 32 << 20;

fn small_vram() -> SystemOptions {
    let mut options = SystemOptions::default();
    options.variant.vram_size = VRAM;
    options.variant.vram_window = VRAM;
    options
}

fn evicted_content_comes_back(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let seen = rig.memory(SIZE, Placement::System)?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    rig.execute(&mut queue, &[fill(memory.address, SIZE, 0x600d_f00d)])?;
    granted(rig.evict(memory.handle), "evict")?;
    // Others need the memory, so that the contents really leave.
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

//! Allocations and how the CPU reaches them.

use campanile_hw::private::{AllocationData, MAGIC, Placement};
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::status::*;

use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, WRONG_KIND};
use crate::rig::{Rig, copy, fill};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Memory";
    "Memory.SystemAllocationIsSharedWithTheGpu" needs UserModeSubmission on Boot::Shared, "allocation-usage-tracking":
        "What the CPU writes through a lock the GPU reads, and what the GPU writes the CPU reads, for an allocation in system memory."
        holds [AllocationUsage 11, AllocationUsage 18]
        => shared_system_memory;
    "Memory.VisibleVramIsSharedWithTheGpu" needs UserModeSubmission on Boot::Shared, "allocation-usage-tracking":
        "What the CPU writes through a lock the GPU reads, and what the GPU writes the CPU reads, for CPU-visible VRAM."
        holds [AllocationUsage 11, AllocationUsage 12, AllocationUsage 14]
        => shared_visible_vram;
    "Memory.LockAddressIsStable" on Boot::Shared, "allocation-usage-tracking":
        "Locking an allocation that is locked already gives the same address, which stays good until the last unlock."
        holds [AllocationUsage 11]
        => lock_address_is_stable;
    "Memory.LockOfInvisibleVramIsRefused" on Boot::Shared, "allocation-usage-tracking":
        "An allocation that was declared as never accessed by the CPU cannot be locked while it is resident in VRAM."
        holds [AllocationUsage 19]
        => invisible_vram;
    "Memory.UnlockWithoutLockIsRefused" on Boot::Shared, "d3dkmtunlock2":
        "Unlocking an allocation that is not locked is refused and does no harm to later locks."
        => unlock_without_lock;
    "Memory.ImpossibleSizesAreRefused" on Boot::Shared, "d3dkmtcreateallocation2":
        "Allocations of no bytes, or of more than the machine could ever hold, are refused by name and leave nothing behind."
        => impossible_sizes;
    "Memory.BadPrivateDataIsRefused" on Boot::Shared, "d3dkmtcreateallocation2":
        "Private data that is short, long, has a wrong mark, an unknown placement or a set reserved field makes the allocation fail as an invalid parameter."
        => bad_private_data;
    "Memory.DestroyedHandleIsRefused" on Boot::Shared, "d3dkmtdestroyallocation2":
        "A destroyed allocation is refused by lock, residency and a second destruction."
        => destroyed_handle;
    "Memory.HandleOfAnotherKindIsRefused" on Boot::Shared, "d3dkmtlock2":
        "The handle of an object of another kind is refused where an allocation is asked for."
        => handle_of_another_kind;
    "Memory.LargeTransfersAreWhole" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Tens of mebibytes that the GPU fills and copies arrive whole, first word, last word and every page between: FILL and COPY are the same for every size."
        => large_transfers;
}

pub const SIZE: u64 = 64 << 10;

fn shared_with_gpu(rig: &Rig, placement: Placement) -> Result<(), Failure> {
    let mut queue = rig.queue(NODE_COPY)?;
    let (ours, theirs) = (rig.memory(SIZE, placement)?, rig.memory(SIZE, placement)?);
    let (ours_view, theirs_view) = (rig.view(ours)?, rig.view(theirs)?);
    let pattern: Vec<u8> = (0..SIZE).map(|index| (index * 7 + index / 256) as u8).collect();
    ours_view.write(0, &pattern);
    theirs_view.fill(0xee);
    rig.execute(&mut queue, &[copy(theirs.address, ours.address, SIZE as u32)])?;
    ensure!(theirs_view.read(0, SIZE) == pattern, "the GPU's copy differs from what the CPU wrote");
    Ok(())
}

fn shared_system_memory(case: &Case) -> Result<(), Failure> {
    shared_with_gpu(&case.rig()?, Placement::System)
}

fn shared_visible_vram(case: &Case) -> Result<(), Failure> {
    shared_with_gpu(&case.rig()?, Placement::VramVisible)
}

fn large_transfers(case: &Case) -> Result<(), Failure> {
    const LARGE: u64 = (33 << 20) + 8192;
    const PAGE: u64 = campanile_hw::queue::SYSTEM_PAGE_SIZE;
    const PATTERN: u32 = 0x6b5a_4938;
    let rig = case.rig()?;
    let source = rig.memory(LARGE, Placement::Vram)?;
    let target = rig.memory(LARGE, Placement::SystemUncached)?;
    let view = rig.view(target)?;
    let mut queue = rig.queue(NODE_COPY)?;
    for pattern in [PATTERN, !PATTERN] {
        let packets = [fill(source.address, LARGE, pattern), copy(target.address, source.address, LARGE as u32)];
        rig.execute(&mut queue, &packets)?;
        for offset in (0..LARGE).step_by(PAGE as usize).flat_map(|page| [page, page + PAGE - 4]) {
            ensure_eq!(view.read(offset, 4), pattern.to_le_bytes(), "the word at {offset:#x}");
        }
    }
    Ok(())
}

fn lock_address_is_stable(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for placement in [Placement::System, Placement::VramVisible] {
        let memory = rig.memory(SIZE, placement)?;
        let first = rig.view(memory)?;
        let second = rig.view(memory)?;
        ensure_eq!(second.start(), first.start(), "address of the second lock in {placement:?}");
        first.write(100, b"kept");
        granted(rig.unlock(memory.handle), "the first unlock")?;
        ensure_eq!(second.read(100, 4), b"kept", "bytes after the first of two unlocks");
        granted(rig.unlock(memory.handle), "the second unlock")?;
    }
    Ok(())
}

fn invisible_vram(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    match rig.lock(memory.handle) {
        Ok(address) => Err(Failure::new(format!("invisible VRAM was locked at {address:?}"))),
        Err(status) => refused(
            status,
            &[STATUS_INVALID_PARAMETER, STATUS_GRAPHICS_CANT_LOCK_MEMORY, STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE],
            "locking invisible VRAM",
        ),
    }
}

fn unlock_without_lock(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    refused(rig.unlock(memory.handle), BAD_ARGUMENT, "unlocking what is not locked")?;
    rig.view(memory)?.write(0, b"fine");
    granted(rig.unlock(memory.handle), "the unlock that belongs to a lock")?;
    refused(rig.unlock(memory.handle), BAD_ARGUMENT, "unlocking once too often")
}

fn impossible_sizes(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let allowed =
        &[STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_INSUFFICIENT_RESOURCES, STATUS_GRAPHICS_NO_VIDEO_MEMORY];
    for placement in [Placement::System, Placement::VramVisible, Placement::Vram] {
        for size in [0, 1 << 46, 1 << 63, u64::MAX, u64::MAX - 4095] {
            match rig.create(size, placement) {
                Err(status) => refused(status, allowed, &format!("{size:#x} bytes in {placement:?}"))?,
                // What cannot be held may also be refused when it is to be made resident.
                Ok(_) => return Err(Failure::new(format!("{size:#x} bytes in {placement:?} were created"))),
            }
        }
    }
    rig.memory(SIZE, Placement::Vram).map(drop)
}

fn bad_private_data(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let good =
        AllocationData { magic: MAGIC, placement: Placement::System as u32, size: SIZE, adapter: 0, reserved: 0 };
    let mut records: Vec<(&str, Vec<u8>)> = [
        ("a wrong mark", AllocationData { magic: !MAGIC, ..good }),
        ("an unknown placement", AllocationData { placement: 5, ..good }),
        ("a placement of all ones", AllocationData { placement: u32::MAX, ..good }),
        ("a set reserved field", AllocationData { reserved: 1, ..good }),
    ]
    .map(|(what, data)| (what, data.to_bytes().to_vec()))
    .to_vec();
    records.push(("no data", Vec::new()));
    records.push(("data one byte short", good.to_bytes()[..AllocationData::SIZE - 1].to_vec()));
    records.push(("data one byte long", [&good.to_bytes()[..], &[0]].concat()));
    for (what, mut bytes) in records {
        match rig.create_raw(&mut bytes) {
            Ok(_) => return Err(Failure::new(format!("an allocation with {what} was created"))),
            Err(status) => refused(status, BAD_ARGUMENT, what)?,
        }
    }
    rig.create_raw(&mut good.to_bytes()).map(drop).map_err(|status| Failure::new(format!("good data: {status}")))
}

fn destroyed_handle(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    granted(rig.free(memory.address, SIZE), "free of the GPU address")?;
    granted(rig.destroy_allocation(memory.handle), "destroy")?;
    refused(rig.destroy_allocation(memory.handle), BAD_HANDLE, "a second destruction")?;
    match rig.lock(memory.handle) {
        Ok(_) => return Err(Failure::new("a destroyed allocation was locked")),
        Err(status) => refused(status, BAD_HANDLE, "locking a destroyed allocation")?,
    }
    refused(rig.evict(memory.handle), BAD_HANDLE, "evicting a destroyed allocation")
}

fn handle_of_another_kind(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for (what, handle) in [("adapter", rig.adapter), ("device", rig.device), ("paging queue", rig.paging_queue)] {
        match rig.lock(handle) {
            Ok(_) => return Err(Failure::new(format!("a {what} was locked as an allocation"))),
            Err(status) => refused(status, WRONG_KIND, what)?,
        }
        refused(rig.destroy_allocation(handle), WRONG_KIND, what)?;
    }
    Ok(())
}

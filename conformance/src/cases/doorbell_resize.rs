//! Rings that are replaced by larger or smaller ones while there is work.

use campanile_hw::private::{DoorbellData, Placement};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE};
use crate::rig::{RING_ENTRIES, RawDoorbell, RawQueue, Rig, fill, wait_until};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Doorbell", needs HardwareScheduling;
    "Doorbell.ResizedRingGoesOnWhereTheOldOneEnded" needs UserModeSubmission on Boot::Shared, "d3dkmt_create_doorbell_flags":
        "A doorbell created anew for a resized ring while the old ring has work under way loses none of it, and progress goes on from there."
        holds [UserModeSubmission 18]
        => goes_on;
    "Doorbell.ResizingTakesTheOldDoorbellItsQueue" needs UserModeSubmission on Boot::Shared, "d3dkmt_create_doorbell_flags":
        "After its queue got a resized ring, the old doorbell rings nobody and connects no more; its ring is held until it is destroyed, the new one's after that too."
        holds [UserModeSubmission 18]
        => old_doorbell;
    "Doorbell.RingThatIsNotDoneIsNotResized" needs UserModeSubmission on Boot::Shared, "d3dkmt_create_doorbell_flags":
        "A ring whose work does not end cannot be replaced: the request is refused, and the queue goes on in the ring it has."
        holds [UserModeSubmission 18]
        => blocked_ring;
    "Doorbell.BadResizingIsRefused" needs UserModeSubmission on Boot::Shared, "d3dkmt_create_doorbell_flags":
        "A ring that is none, or control memory whose pointers count the old ring, cannot take a ring's place, and the queue goes on in the ring it has."
        holds [UserModeSubmission 18]
        => bad_resizing;
    "Doorbell.DestroyedDoorbellIsReplacedWithTheFlag" needs UserModeSubmission on Boot::Shared, "d3dkmt_create_doorbell_flags":
        "The flag for a resized ring is a hint: it is taken for a queue whose old doorbell is destroyed already too."
        holds [UserModeSubmission 18]
        => destroyed_first;
}

const RETRY: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;

fn destroy_doorbell(rig: &Rig, doorbell: RawDoorbell) -> NTSTATUS {
    let mut arguments = D3DKMT_DESTROY_DOORBELL { hDoorbell: doorbell.handle };
    rig.kmt.call(rig.kmt.table().D3DKMTDestroyDoorbell, &mut arguments)
}

/// Replaces the ring and destroys the doorbell of the old one with its memory.
pub fn resize(rig: &Rig, queue: &mut RawQueue, entries: u32) -> Result<(), Failure> {
    let (doorbell, memory) = (queue.doorbell, [queue.ring, queue.control, queue.commands]);
    granted(rig.resize(queue, entries)?, "resizing the ring")?;
    granted(destroy_doorbell(rig, doorbell), "destroying the old doorbell")?;
    memory.iter().try_for_each(|memory| granted(rig.destroy_allocation(memory.handle), "destroying the old ring"))
}

fn goes_on(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let target = rig.memory(64 << 10, Placement::System)?;
    let fence = rig.fence(0)?;
    let mut value = 0;
    for (round, entries) in
        [8 * RING_ENTRIES, RING_ENTRIES, 2 * RING_ENTRIES, 512 * RING_ENTRIES].into_iter().enumerate()
    {
        for _ in 0..20 {
            value += 1;
            rig.submit(&mut queue, &[fill(target.address, 64 << 10, round as u32), fence.signal(value)])?;
        }
        resize(&rig, &mut queue, entries)?;
        ensure_eq!((queue.progress.load(), fence.value.load()), (value, value), "progress when the ring was replaced");
        ensure_eq!(queue.doorbell.last_queued.load(), value, "last queued value of the new doorbell");
        ensure_eq!(queue.doorbell.state(), RETRY, "status of the new doorbell");
    }
    for _ in 0..2000 {
        value += 1;
        rig.submit(&mut queue, &[fence.signal(value)])?;
    }
    wait_until("the last submission", || queue.progress.load() == value)?;
    ensure_eq!(fence.value.load(), value, "fence");
    Ok(())
}

fn old_doorbell(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[])?;
    let (old, ring, control) = (queue.doorbell, queue.ring, queue.control);
    granted(rig.resize(&mut queue, 2 * RING_ENTRIES)?, "resizing the ring")?;
    ensure_eq!(old.state(), RETRY, "status of the old doorbell");
    refused(rig.connect(old), BAD_ARGUMENT, "connecting the old doorbell")?;
    let value = rig.submit(&mut queue, &[])?;
    wait_until("work in the new ring", || queue.progress.load() == value)?;
    // What is stored through the old doorbell goes nowhere, and what it says was queued concerns nobody.
    old.store(u64::MAX);
    old.last_queued.store(1 << 40);
    rig.execute(&mut queue, &[])?;
    let busy = &[STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_INVALID_PARAMETER, STATUS_ACCESS_DENIED];
    refused(rig.destroy_allocation(ring.handle), busy, "destroying the ring of the old doorbell")?;
    granted(destroy_doorbell(&rig, old), "destroying the old doorbell")?;
    granted(rig.destroy_allocation(ring.handle), "destroying the old ring")?;
    granted(rig.destroy_allocation(control.handle), "destroying the old ring control")?;
    refused(rig.connect(old), BAD_HANDLE, "connecting the destroyed doorbell")?;
    for memory in [queue.ring, queue.control] {
        refused(rig.destroy_allocation(memory.handle), busy, "destroying memory of the new ring")?;
    }
    // Whatever the engine was to look at because of all that, it has looked at when it has done other work.
    let mut other = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut other, &[])?;
    granted(rig.destroy_queue(&other), "destroying the other queue")?;
    rig.execute(&mut queue, &[])
}

fn blocked_ring(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    rig.submit(&mut queue, &[fence.wait(1)])?;
    let status = rig.resize(&mut queue, 2 * RING_ENTRIES)?;
    refused(status, &[STATUS_GRAPHICS_ALLOCATION_BUSY], "resizing a ring that waits for a fence")?;
    let value = rig.submit(&mut queue, &[])?;
    ensure_eq!(queue.progress.load(), 0, "progress while the fence is not signalled");
    granted(rig.signal(&[fence.handle], &[1]), "signal from the CPU")?;
    wait_until("all work of the ring", || queue.progress.load() == value)?;
    resize(&rig, &mut queue, 2 * RING_ENTRIES)?;
    rig.execute(&mut queue, &[])
}

fn bad_resizing(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let flags = D3DKMT_CREATE_DOORBELL_FLAGS::new().with_ResizeRingBufferOperation(true);
    let (ring, control) = (rig.memory(8192, Placement::System)?, rig.memory(4096, Placement::System)?);
    let uneven = rig.memory(3 * 4096, Placement::System)?;
    for (what, ring, control) in [
        ("a ring of 384 entries", uneven, control),
        ("no ring", crate::rig::Memory { handle: 0, ..ring }, control),
        ("a ring beyond the address space", crate::rig::Memory { address: 1 << 48, ..ring }, control),
        ("one allocation as ring and control", control, control),
        ("the old control memory", ring, queue.control),
    ] {
        rig.execute(&mut queue, &[])?;
        match rig.doorbell_with_flags(queue.queue, ring, control, flags) {
            Ok(_) => return Err(Failure::new(format!("the ring was replaced by {what}"))),
            Err(status) => refused(status, &[STATUS_INVALID_PARAMETER, STATUS_INVALID_HANDLE], what)?,
        }
        rig.execute(&mut queue, &[])?;
    }
    let mut unknown = D3DKMT_CREATE_DOORBELL::zeroed();
    let mut data = DoorbellData { ring: ring.address, control: control.address }.to_bytes();
    unknown.hHwQueue = queue.queue;
    (unknown.hRingBuffer, unknown.hRingBufferControl) = (ring.handle, control.handle);
    (unknown.PrivateDriverData, unknown.PrivateDriverDataSize) = (data.as_mut_ptr().cast(), data.len() as u32);
    unknown.Flags = D3DKMT_CREATE_DOORBELL_FLAGS::from_bits(flags.into_bits() | 1 << 31);
    refused(rig.kmt.call(rig.kmt.table().D3DKMTCreateDoorbell, &mut unknown), BAD_ARGUMENT, "a reserved flag")?;
    rig.execute(&mut queue, &[])
}

fn destroyed_first(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for entries in [2 * RING_ENTRIES, RING_ENTRIES] {
        rig.execute(&mut queue, &[])?;
        granted(destroy_doorbell(&rig, queue.doorbell), "destroying the doorbell")?;
        granted(rig.resize(&mut queue, entries)?, "a new doorbell with the flag")?;
        rig.execute(&mut queue, &[])?;
    }
    ensure_eq!(queue.progress.load(), 4, "progress");
    Ok(())
}

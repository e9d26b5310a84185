//! Where the ring of a doorbell lies: at an address where its allocation is mapped.

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COMPUTE;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::rig::{Memory, RING_ENTRIES, Rig, user_mode_flags};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Doorbell", needs HardwareScheduling;
    "Doorbell.AddressesAreOfTheirAllocations" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A doorbell whose private data names other addresses than those of the ring and the ring control that it names by handle is refused by the driver, whose rule this is: only those allocations stay in memory while the doorbell exists."
        holds [UserModeSubmission 19]
        => addresses_of_others;
    "Doorbell.AnyMappingOfARingWillDo" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A ring that is mapped twice, or anew at another address, is taken at each of its addresses, and work runs from there."
        holds [UserModeSubmission 19]
        => any_mapping;
    "Doorbell.ResizedRingIsAtItsOwnAddress" needs UserModeSubmission on Boot::Shared, "d3dkmt_create_doorbell_flags":
        "A ring that takes another one's place must be at an address of its own too; when it is refused the queue goes on in the ring it has."
        holds [UserModeSubmission 18, UserModeSubmission 19]
        => resized_ring;
}

const WRONG_ADDRESS: &[NTSTATUS] = &[STATUS_INVALID_PARAMETER];
const PAGE: u64 = campanile_hw::queue::SYSTEM_PAGE_SIZE;

fn at(memory: Memory, address: u64) -> Memory {
    Memory { address, ..memory }
}

fn new_queue(rig: &Rig) -> Result<D3DKMT_HANDLE, Failure> {
    let context = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("context: {status}")))?;
    let created = rig.hw_queue(context, user_mode_flags());
    created.map(|created| created.hHwQueue).map_err(|status| Failure::new(format!("queue: {status}")))
}

fn addresses_of_others(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let queue = new_queue(&rig)?;
    for placement in [Placement::System, Placement::Vram] {
        let ring = rig.memory(2 * PAGE, placement)?;
        let control = rig.memory(2 * PAGE, placement)?;
        let other = rig.memory(2 * PAGE, placement)?;
        for (what, ring, control) in [
            ("each at the other's address", at(ring, control.address), at(control, ring.address)),
            ("the ring at another allocation", at(ring, other.address), control),
            ("the ring control at another allocation", ring, at(control, other.address)),
            ("the ring a page behind its begin", at(ring, ring.address + PAGE), control),
            ("the ring control a page behind its begin", ring, at(control, control.address + PAGE)),
            ("the ring where nothing is mapped", at(ring, 1 << 40), control),
        ] {
            match rig.doorbell(queue, ring, control) {
                Ok(_) => return Err(Failure::new(format!("a doorbell with {what} was created"))),
                Err(status) => refused(status, WRONG_ADDRESS, what)?,
            }
        }
        let created = rig.doorbell(queue, ring, control);
        let created = created.map_err(|status| Failure::new(format!("a good ring after the bad ones: {status}")))?;
        let mut arguments = D3DKMT_DESTROY_DOORBELL { hDoorbell: created.handle() };
        granted(rig.kmt.call(rig.kmt.table().D3DKMTDestroyDoorbell, &mut arguments), "destroying the doorbell")?;
    }
    Ok(())
}

fn any_mapping(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[])?;
    let (ring, control) = (queue.ring, queue.control);
    for _ in 0..6 {
        let (old, doorbell) = (queue.ring, queue.doorbell);
        let again = rig.map(rig.map_request(ring.handle, ring.size))?;
        ensure!(again != old.address, "both mappings have the address {again:#x}");
        let fresh = rig.memory(control.size, Placement::SystemUncached)?;
        granted(rig.resize_onto(&mut queue, at(ring, again), fresh)?, "the ring at its other address")?;
        let mut arguments = D3DKMT_DESTROY_DOORBELL { hDoorbell: doorbell.handle };
        granted(rig.kmt.call(rig.kmt.table().D3DKMTDestroyDoorbell, &mut arguments), "destroying the old doorbell")?;
        rig.execute(&mut queue, &[])?;
    }
    Ok(())
}

fn resized_ring(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[])?;
    let ring = rig.memory(2 * queue.ring.size, Placement::SystemUncached)?;
    let control = rig.memory(queue.control.size, Placement::SystemUncached)?;
    let flags = D3DKMT_CREATE_DOORBELL_FLAGS::new().with_ResizeRingBufferOperation(true);
    for (what, ring, control) in [
        ("at the old ring's address", at(ring, queue.ring.address), control),
        ("with its control at its own address", ring, at(control, ring.address)),
    ] {
        match rig.doorbell_with_flags(queue.queue, ring, control, flags) {
            Ok(_) => return Err(Failure::new(format!("the ring was replaced by one {what}"))),
            Err(status) => refused(status, WRONG_ADDRESS, what)?,
        }
        rig.execute(&mut queue, &[])?;
    }
    granted(rig.resize(&mut queue, 2 * RING_ENTRIES)?, "a ring at its own address")?;
    rig.execute(&mut queue, &[])
}

//! Doorbells: their life, their states, and what they hold on to.

use campanile_hw::private::{DoorbellData, Placement};
use campanile_hw::registers::NODE_COMPUTE;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, WRONG_KIND};
use crate::rig::{RawQueue, Rig, user_mode_flags};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Doorbell", needs HardwareScheduling;
    "Doorbell.IsCreatedDisconnected" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "Creating a doorbell takes no hardware: its status is disconnected-retry and a store to its dummy page rings nothing."
        holds [UserModeSubmission 12]
        => created_disconnected;
    "Doorbell.ConnectMakesItRing" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "After connecting, the status is connected and a store to the same address starts the queued work."
        holds [UserModeSubmission 6, UserModeSubmission 13]
        => connect_makes_it_ring;
    "Doorbell.ConnectingTwiceIsHarmless" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "Connecting a connected doorbell succeeds and loses no work."
        holds [UserModeSubmission 13]
        => connecting_twice;
    "Doorbell.StatusIsReadOnlyForUserMode" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "User mode reads the doorbell's status word and cannot write it; the last-queued value it can write."
        holds [UserModeSubmission 16, UserModeSubmission 35]
        => status_is_read_only;
    "Doorbell.RingOfALiveDoorbellCannotGo" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "The ring and ring-control allocations cannot be destroyed while a doorbell refers to them."
        holds [UserModeSubmission 20, UserModeSubmission 21]
        => ring_cannot_go;
    "Doorbell.QueueWithDoorbellCannotGo" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A queue is not destroyed before its doorbell, nor a context before its queue, and in the right order all of them go."
        holds [UserModeSubmission 14]
        => destroy_order;
    "Doorbell.SecondaryAddressIsRefused" needs UserModeSubmission on Boot::Shared, "d3dkmt_create_doorbell_flags":
        "A second address of a doorbell is refused where the hardware has no second doorbell, and so are unknown flags."
        holds [UserModeSubmission 12]
        => secondary_address;
    "Doorbell.DestroyedHandleIsRefused" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A destroyed doorbell is refused by connect, notify and a second destruction."
        holds [UserModeSubmission 14]
        => destroyed_handle;
    "Doorbell.BadRingsAreRefused" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A doorbell whose ring is no power of two of entries, or whose private data names no memory, is refused."
        holds [UserModeSubmission 12, UserModeSubmission 19]
        => bad_rings;
    "Doorbell.SecondDoorbellOfAQueueIsRefused" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A queue has one doorbell at a time."
        holds [UserModeSubmission 12]
        => second_doorbell;
}

pub const CONNECTED: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED;
/// Status of a doorbell that has the hardware, of which the driver wants to be told.
pub const CONNECTED_NOTIFY: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD;

pub const RETRY: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;

/// Has the GPU do something else to its end, so that it had every chance to run what it must not run.
fn bystander(rig: &Rig) -> Result<(), Failure> {
    let mut other = rig.queue(NODE_COMPUTE)?;
    for _ in 0..20 {
        rig.execute(&mut other, &[])?;
    }
    Ok(())
}

fn created_disconnected(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    ensure_eq!(queue.doorbell.state(), RETRY, "status of a new doorbell");
    let value = queue.append(&[])?;
    queue.doorbell.store(value);
    bystander(&rig)?;
    ensure_eq!(queue.progress.load(), 0, "progress of a queue whose doorbell was never connected");
    ensure_eq!(queue.doorbell.state(), RETRY, "status after storing to the dummy page");
    rig.ring(&queue)?;
    crate::rig::wait_until("the work after connecting", || queue.progress.load() == value)
}

fn connect_makes_it_ring(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    granted(rig.connect(queue.doorbell), "D3DKMTConnectDoorbell")?;
    // An engine that is idle may lose its doorbells as soon as they are connected.
    crate::rig::wait_until("a connection that is there to be seen", || {
        queue.doorbell.is_connected() || rig.connect(queue.doorbell).is_success() && queue.doorbell.is_connected()
    })?;
    ensure_eq!(queue.doorbell.last_queued.load(), 0, "last queued value before any work");
    for _ in 0..20 {
        rig.execute(&mut queue, &[])?;
    }
    ensure_eq!(queue.progress.load(), 20, "progress");
    Ok(())
}

fn connecting_twice(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for _ in 0..20 {
        granted(rig.connect(queue.doorbell), "D3DKMTConnectDoorbell")?;
        rig.submit(&mut queue, &[])?;
        granted(rig.connect(queue.doorbell), "D3DKMTConnectDoorbell")?;
    }
    crate::rig::wait_until("all work", || queue.progress.load() == 20)
}

fn status_is_read_only(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let queue = rig.queue(NODE_COMPUTE)?;
    ensure!(!queue.doorbell.status.is_writable()?, "user mode can write the status word");
    ensure_eq!(queue.doorbell.state(), RETRY, "status after the attempt to write it");
    ensure!(queue.doorbell.last_queued.is_writable()?, "user mode cannot write the last queued value");
    Ok(())
}

fn destroy_doorbell(rig: &Rig, queue: &RawQueue) -> NTSTATUS {
    let mut arguments = D3DKMT_DESTROY_DOORBELL { hDoorbell: queue.doorbell.handle };
    rig.kmt.call(rig.kmt.table().D3DKMTDestroyDoorbell, &mut arguments)
}

fn ring_cannot_go(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[])?;
    for (what, memory) in [("ring", queue.ring), ("ring control", queue.control)] {
        let allowed = &[STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_INVALID_PARAMETER, STATUS_ACCESS_DENIED];
        refused(rig.destroy_allocation(memory.handle), allowed, what)?;
    }
    rig.execute(&mut queue, &[])?;
    granted(destroy_doorbell(&rig, &queue), "D3DKMTDestroyDoorbell")?;
    granted(rig.destroy_allocation(queue.ring.handle), "destroying the ring after its doorbell")?;
    granted(rig.destroy_allocation(queue.control.handle), "destroying the ring control after its doorbell")
}

fn destroy_order(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[])?;
    let table = rig.kmt.table();
    let mut hw_queue = D3DKMT_DESTROYHWQUEUE { hHwQueue: queue.queue };
    let mut context = D3DKMT_DESTROYHWCONTEXT { hHwContext: queue.context };
    refused(rig.kmt.call(table.D3DKMTDestroyHwQueue, &mut hw_queue), BAD_ARGUMENT, "a queue under its doorbell")?;
    refused(rig.kmt.call(table.D3DKMTDestroyHwContext, &mut context), BAD_ARGUMENT, "a context under its queue")?;
    rig.execute(&mut queue, &[])?;
    granted(rig.destroy_queue(&queue), "doorbell, queue and context in order")
}

fn secondary_address(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("context: {status}")))?;
    let created =
        rig.hw_queue(context, user_mode_flags()).map_err(|status| Failure::new(format!("queue: {status}")))?;
    let (ring, control) = (rig.memory(4096, Placement::System)?, rig.memory(4096, Placement::System)?);
    let secondary = D3DKMT_CREATE_DOORBELL_FLAGS::new().with_RequireSecondaryCpuVA(true);
    for flags in [secondary, D3DKMT_CREATE_DOORBELL_FLAGS::from_bits(4), D3DKMT_CREATE_DOORBELL_FLAGS::from_bits(!0)] {
        match rig.doorbell_with_flags(created.hHwQueue, ring, control, flags) {
            Ok(_) => {
                return Err(Failure::new(format!("a doorbell with the flags {:#x} was created", flags.into_bits())));
            }
            Err(status) => refused(status, BAD_ARGUMENT, &format!("flags {:#x}", flags.into_bits()))?,
        }
    }
    let good = rig.doorbell(created.hHwQueue, ring, control);
    good.map(drop).map_err(|status| Failure::new(format!("a doorbell without flags after those: {status}")))
}

fn destroyed_handle(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[])?;
    granted(destroy_doorbell(&rig, &queue), "D3DKMTDestroyDoorbell")?;
    refused(destroy_doorbell(&rig, &queue), BAD_HANDLE, "a second destruction")?;
    refused(rig.connect(queue.doorbell), BAD_HANDLE, "connecting a destroyed doorbell")?;
    refused(rig.notify(queue.doorbell), BAD_HANDLE, "notifying through a destroyed doorbell")?;
    let mut wrong = D3DKMT_CONNECT_DOORBELL::zeroed();
    wrong.hDoorbell = queue.queue;
    refused(rig.kmt.call(rig.kmt.table().D3DKMTConnectDoorbell, &mut wrong), WRONG_KIND, "connecting a queue")
}

fn bad_rings(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("context: {status}")))?;
    let created =
        rig.hw_queue(context, user_mode_flags()).map_err(|status| Failure::new(format!("queue: {status}")))?;
    let ring = rig.memory(4096, Placement::System)?;
    let control = rig.memory(4096, Placement::System)?;
    let uneven = rig.memory(3 * 4096, Placement::System)?;
    let at = |address| crate::rig::Memory { address, ..ring };
    let none = crate::rig::Memory { handle: 0, ..ring };
    for (what, ring, control) in [
        ("a ring of 384 entries", uneven, control),
        ("a ring at address 0", at(0), control),
        ("a ring at a misaligned address", at(ring.address + 8), control),
        ("a ring beyond the address space", at(1 << 48), control),
        ("a ring without an allocation", none, control),
        ("a ring control without an allocation", ring, none),
    ] {
        match rig.doorbell(created.hHwQueue, ring, control) {
            Ok(_) => return Err(Failure::new(format!("a doorbell with {what} was created"))),
            Err(status) => refused(status, &[STATUS_INVALID_PARAMETER, STATUS_INVALID_HANDLE], what)?,
        }
    }
    let mut short = DoorbellData { ring: ring.address, control: control.address }.to_bytes();
    for length in [0, 8, DoorbellData::SIZE as u32 - 1, u32::MAX] {
        let mut arguments = D3DKMT_CREATE_DOORBELL::zeroed();
        arguments.hHwQueue = created.hHwQueue;
        arguments.hRingBuffer = ring.handle;
        arguments.hRingBufferControl = control.handle;
        arguments.PrivateDriverData = short.as_mut_ptr().cast();
        arguments.PrivateDriverDataSize = length;
        let status = rig.kmt.call(rig.kmt.table().D3DKMTCreateDoorbell, &mut arguments);
        refused(status, BAD_ARGUMENT, &format!("private data of {length} bytes"))?;
    }
    rig.doorbell(created.hHwQueue, ring, control)
        .map(drop)
        .map_err(|status| Failure::new(format!("a good ring after the bad ones: {status}")))
}

fn second_doorbell(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (ring, control) = (rig.memory(4096, Placement::System)?, rig.memory(4096, Placement::System)?);
    match rig.doorbell(queue.queue, ring, control) {
        Ok(_) => return Err(Failure::new("a second doorbell of the same queue was created")),
        Err(status) => refused(
            status,
            &[STATUS_INVALID_PARAMETER, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_DEVICE_STATE],
            "a second doorbell",
        )?,
    }
    rig.execute(&mut queue, &[])
}

//! Doorbells that queues take from each other.

use std::rc::Rc;

use campanile_hw::page_table::VA_BITS;
use campanile_hw::registers::{self, Command};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::rig::{Rig, Ring, VA, connect, handle};
use super::system::*;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.LeastRecentlyConnectedDoorbellIsTaken" on Boot::Shared, "user-mode-work-submission":
        "When every physical doorbell is connected, the one that was connected least recently is taken, and the system is told its queue and its doorbell."
        holds [UserModeSubmission 7]
        => the_least_recently_connected_doorbell_is_the_victim;
    "Miniport.VictimIsDisconnectedMeanwhile" on Boot::Shared, "user-mode-work-submission":
        "The system may call DxgkDdiDisconnectDoorbell for the doorbell of which it is being told that it was taken."
        holds [UserModeSubmission 25]
        => the_system_may_disconnect_the_victim_while_it_is_told;
    "Miniport.VictimThatReconnectsIsTakenAgain" on Boot::Shared, "user-mode-work-submission":
        "A doorbell that is connected anew while the system is told that it was taken is taken again, and the system is told again."
        holds [UserModeSubmission 7]
        => a_victim_that_reconnects_meanwhile_is_told_again;
    "Miniport.QueueGivesItsDoorbellBack" on Boot::Shared, "user-mode-work-submission":
        "The physical doorbell of a queue that is destroyed is free, and no queue that is gone is named to the system as one whose doorbell was taken."
        holds [UserModeSubmission 7]
        => a_queue_that_is_destroyed_gives_its_doorbell_back;
    "Miniport.RingsThatAreNoneAreRefused" on Boot::Shared, "dxgkddi_createdoorbell":
        "DxgkDdiCreateDoorbell refuses private data of another size, a ring or control page that is not on a page or not in the address space, allocations that are too small or no ring, a queue of the kernel, and a second doorbell of a queue that is not meant to resize its ring; the queue takes another ring then."
        => rings_that_are_none_are_refused_and_others_taken;
    "Miniport.DoorbellOfAnEarlierRingIsStale" on Boot::Shared, "dxgkddi_createdoorbell":
        "A resized ring has a control page of its own. The doorbell of the earlier ring is taken from user mode and connects no more; what becomes of it changes nothing of the new one."
        => the_doorbell_of_an_earlier_ring_connects_no_more;
    "Miniport.DisconnectedDoorbellHasTheRingLookedAt" on Boot::Shared, "dxgkddi_disconnectdoorbell":
        "DxgkDdiDisconnectDoorbell disconnects a connected doorbell, and has the hardware look at the ring of one that was disconnected before, unless the context is suspended."
        => a_doorbell_that_is_disconnected_has_the_ring_looked_at;
}

fn the_least_recently_connected_doorbell_is_the_victim(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 2);
    let context = rig.hw_context(0x4000, 0);
    let doorbells: Vec<HANDLE> = (1..=3).map(|number| rig.user_queue(context, number).1).collect();
    let (first, second) = (rig.connect(doorbells[0]).1, rig.connect(doorbells[1]).1);
    ensure_eq!(second - first, 4096);
    ensure_eq!(rig.connect(doorbells[0]).1, first, "connected already");
    ensure_eq!(rig.connect(doorbells[2]).1, second);
    ensure_eq!(log(|log| std::mem::take(&mut log.disconnected)), [(0x6002, 0x7002)]);
    // The victim takes the page of the one that connected before the last.
    ensure_eq!(rig.connect(doorbells[1]).1, first);
    ensure_eq!(log(|log| std::mem::take(&mut log.disconnected)), [(0x6001, 0x7001)]);
    Ok(())
}

fn the_system_may_disconnect_the_victim_while_it_is_told(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 1);
    let context = rig.hw_context(0x4000, 0);
    let doorbells: Vec<HANDLE> = (1..=2).map(|number| rig.user_queue(context, number).1).collect();
    let page = rig.connect(doorbells[0]).1;
    let (driver, victim) = (Rc::clone(&rig.system.driver), doorbells[0]);
    on_disconnect(move || {
        let args = DXGKARG_DISCONNECTDOORBELL { hDoorbell: victim, Flags: DXGKARG_DISCONNECTDOORBELL_FLAGS::new() };
        let entry = driver.table().DxgkDdiDisconnectDoorbell.expect("filled");
        // SAFETY: the driver's own entry point with a local structure.
        called(&driver, "DxgkDdiDisconnectDoorbell", || unsafe { entry(&raw const args) }).is_success()
    });
    ensure_eq!(rig.connect(doorbells[1]), (STATUS_SUCCESS, page));
    Ok(())
}

fn a_victim_that_reconnects_meanwhile_is_told_again(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 1);
    let context = rig.hw_context(0x4000, 0);
    let doorbells: Vec<HANDLE> = (1..=2).map(|number| rig.user_queue(context, number).1).collect();
    let page = rig.connect(doorbells[0]).1;
    let (driver, victim) = (Rc::clone(&rig.system.driver), doorbells[0]);
    on_disconnect(move || connect(&driver, victim) == (STATUS_SUCCESS, page));
    ensure_eq!(rig.connect(doorbells[1]), (STATUS_SUCCESS, page));
    ensure_eq!(log(|log| std::mem::take(&mut log.disconnected)).len(), 2);
    Ok(())
}

fn a_queue_that_is_destroyed_gives_its_doorbell_back(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 1);
    let context = rig.hw_context(0x4000, 0);
    let [(first, first_doorbell), (_, second_doorbell)] = [1, 2].map(|number| rig.user_queue(context, number));
    let page = rig.connect(first_doorbell).1;
    ensure_eq!(ddi!(rig.system, DxgkDdiDestroyHwQueue, first), STATUS_SUCCESS);
    ensure_eq!(rig.connect(second_doorbell), (STATUS_SUCCESS, page));
    ensure_eq!(log(|log| std::mem::take(&mut log.disconnected)), [], "doorbells taken away");
    Ok(())
}

/// The last command since the last look, with its first two arguments.
fn told(rig: &mut Rig) -> Option<(Command, [u64; 2])> {
    let command = Command::from_number(rig.system.get(registers::CMP_COMMAND) as u32);
    rig.system.set(registers::CMP_COMMAND, 0);
    Some((command?, [registers::CMP_ARG0, registers::CMP_ARG1].map(|at| rig.system.get(at))))
}

/// A queue that user mode writes, without a ring.
fn queue_without_a_ring(rig: &Rig, context: HANDLE, number: usize, user: bool) -> HANDLE {
    let progress = VA + 0x10_0000 * number as u64;
    rig.fence(0x5000 + number, progress);
    let (status, queue) = rig.hw_queue(context, 0x6000 + number, progress, user);
    assert_eq!(status, STATUS_SUCCESS);
    queue
}

fn rings_that_are_none_are_refused_and_others_taken(case: &mut Case<'_>) -> Result<(), Failure> {
    const END: u64 = 1 << VA_BITS;
    let rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    let queue = queue_without_a_ring(&rig, context, 1, true);
    let ring = Ring::of(&rig, queue, 1);
    let kernel = queue_without_a_ring(&rig, context, 2, false);
    let (three_pages, two_pages) = (rig.allocation(3 * 4096), rig.allocation(2 * 4096));
    for (what, wrong) in [
        ("private data of another size", Ring { bytes: ring.bytes - 8, ..ring }),
        ("a ring at 0", Ring { ring: 0, ..ring }),
        ("a ring within a page", Ring { ring: ring.ring + 8, ..ring }),
        ("a ring that ends outside", Ring { ring: END - 4096, ..ring }),
        ("a control page at 0", Ring { control: 0, ..ring }),
        ("a control page within a page", Ring { control: ring.control + 8, ..ring }),
        ("a control page outside", Ring { control: END, ..ring }),
        ("a ring of three pages", Ring { memory: (three_pages, ring.memory.1), ..ring }),
        ("no allocation of a ring", Ring { memory: (handle(0x1234), ring.memory.1), ..ring }),
        ("no allocation of a control page", Ring { memory: (ring.memory.0, handle(0x1234)), ..ring }),
        ("the kernel's queue", Ring { queue: kernel, ..ring }),
    ] {
        ensure_eq!(rig.doorbell(&wrong).0, refused(what), "{what}");
    }
    // Both end where the address space does, and the control page begins a larger allocation.
    let last = Ring { ring: END - 8192, control: END - 3 * 4096, memory: (ring.memory.0, two_pages), ..ring };
    let (status, doorbell) = rig.doorbell(&last);
    ensure_eq!((status, rig.connect(doorbell).0), (STATUS_SUCCESS, STATUS_SUCCESS));
    ensure_eq!(rig.doorbell(&ring).0, STATUS_INVALID_PARAMETER, "a second doorbell");
    Ok(())
}

/// The status that DxgkDdiCreateDoorbell has to return for the wrong arguments that `what` names.
fn refused(what: &str) -> NTSTATUS {
    if what.starts_with("no allocation") { STATUS_INVALID_HANDLE } else { STATUS_INVALID_PARAMETER }
}

fn the_doorbell_of_an_earlier_ring_connects_no_more(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    let queue = queue_without_a_ring(&rig, context, 1, true);
    let (ring, other) = (Ring::of(&rig, queue, 1), Ring { resize: true, ..Ring::of(&rig, queue, 2) });
    let (status, first) = rig.doorbell(&ring);
    ensure_eq!((status, rig.connect(first).0), (STATUS_SUCCESS, STATUS_SUCCESS));
    let same_control = Ring { control: ring.control, ..other };
    ensure_eq!(rig.doorbell(&same_control).0, STATUS_INVALID_PARAMETER, "the control page of the earlier ring");
    ensure_eq!(rig.connect(first).0, STATUS_SUCCESS, "the ring that it had is left");
    let (status, second) = rig.doorbell(&other);
    ensure_eq!(status, STATUS_SUCCESS);
    ensure_eq!(log(|log| std::mem::take(&mut log.disconnected)), [(0x6001, 0x7001)], "doorbells taken from user mode");
    ensure_eq!(rig.connect(first).0, STATUS_INVALID_PARAMETER, "the doorbell of the earlier ring");
    let mut args = DXGKARG_CONNECTDOORBELL::zeroed();
    args.hDoorbell = second;
    args.Flags.set_RequireSecondaryAddress(true);
    let status = ddi!(rig.system, DxgkDdiConnectDoorbell, &raw mut args);
    ensure_eq!(status, STATUS_INVALID_PARAMETER, "there is no secondary address");
    ensure_eq!(rig.connect(second).0, STATUS_SUCCESS);
    told(&mut rig);
    ensure_eq!(disconnect(&rig, first), STATUS_SUCCESS);
    ensure_eq!(destroy(&rig, first), STATUS_SUCCESS);
    ensure_eq!(told(&mut rig), None, "commands about the doorbell of the earlier ring");
    ensure_eq!(destroy(&rig, second), STATUS_SUCCESS);
    ensure_eq!(told(&mut rig).map(|(command, _)| command), Some(Command::UnmapQueue), "the ring is given up");
    Ok(())
}

fn disconnect(rig: &Rig, doorbell: HANDLE) -> NTSTATUS {
    let args = DXGKARG_DISCONNECTDOORBELL { hDoorbell: doorbell, Flags: DXGKARG_DISCONNECTDOORBELL_FLAGS::new() };
    ddi!(rig.system, DxgkDdiDisconnectDoorbell, &raw const args)
}

fn destroy(rig: &Rig, doorbell: HANDLE) -> NTSTATUS {
    let args = DXGKARG_DESTROYDOORBELL { hDoorbell: doorbell };
    ddi!(rig.system, DxgkDdiDestroyDoorbell, &raw const args)
}

fn a_doorbell_that_is_disconnected_has_the_ring_looked_at(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    let doorbell = rig.user_queue(context, 1).1;
    ensure_eq!(rig.connect(doorbell).0, STATUS_SUCCESS);
    let resume = DXGKARG_RESUMECONTEXT { hContext: context };
    let kick = Some((Command::KickQueue, [3]));
    for (expected, suspended) in
        [(Some((Command::DisconnectDoorbell, [0])), false), (kick, false), (None, true), (kick, false)]
    {
        if suspended {
            ensure_eq!(rig.suspend(context, 11), STATUS_PENDING);
        }
        told(&mut rig);
        ensure_eq!(disconnect(&rig, doorbell), STATUS_SUCCESS);
        let found = told(&mut rig).map(|(command, [first, _])| (command, [first]));
        ensure_eq!(found, expected, "the command, of a suspended context: {suspended}");
        if suspended {
            ensure_eq!(ddi!(rig.system, DxgkDdiResumeContext, rig.system.adapter, &raw const resume), STATUS_SUCCESS);
        }
    }
    Ok(())
}

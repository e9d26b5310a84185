//! Doorbells that queues take from each other.

use std::rc::Rc;

use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::rig::{Rig, connect};
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

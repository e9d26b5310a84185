//! Cases for the driver of any GPU about hanging hardware queues, native fences and doorbells.

use wddm_ddi::Zeroed;
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::any_driver_lab::{Lab, lab};
use super::any_driver_queue::{node_flags, queue_costs_its_device};
use super::caps::fences_supported;
use crate::kmt::{BAD_HANDLE, Word};
use crate::opaque::Values;
use crate::rig::user_mode_flags;
use crate::{Boot, Case, Event, Failure, granted, refused};

cases! { neutral "AnyDriver";
    "AnyDriver.HardwareQueueThatHangsCostsItsDevice" needs HardwareScheduling, HangingCommands on Boot::Fresh, "dxgkddi_resethwengine":
        "Commands of a hardware queue that do not end are ended by a reset of their engine and put their own device into error; what others submitted beside and behind them is done, once."
        => hang;
    "AnyDriver.NativeFencesAreAsTheCapabilitiesSay" on Boot::Shared, "native-gpu-fence-objects":
        "Where NativeGpuFenceSupported is told, native fences are made with their first value, waited for by the processor before and after it signals them, and destroyed, time after time; elsewhere they are not supported."
        holds [NativeFence 1, NativeFence 2, NativeFence 4, NativeFence 33]
        => native_fences;
    "AnyDriver.DoorbellsAreAsTheNodesSay" on Boot::Shared, "user-mode-work-submission":
        "On nodes that say UserModeSubmission, doorbells of hardware queues are created disconnected, connected, and destroyed before their queue, time after time; elsewhere a queue for user-mode submission is refused."
        holds [UserModeSubmission 8, UserModeSubmission 12, UserModeSubmission 13, UserModeSubmission 14]
        => doorbells;
}

fn hang(case: &Case) -> Result<(), Failure> {
    const RULE: &str = "DxgkDdiResetHwEngine ends what hangs and calls DxgkCbInvalidateHwContext for its hardware context and those that it took along, and for no other [dxgkddi_resethwengine]";
    queue_costs_its_device(case, RULE, Lab::hang)
}

fn native_fences(case: &Case) -> Result<(), Failure> {
    let (lab, told) = (lab(case)?, fences_supported(case)?);
    if !told {
        return match lab.rig.create_fence(0) {
            Ok(_) => Err(Failure::new("a native fence was made without NativeGpuFenceSupported")),
            Err(status) => refused(status, &[STATUS_NOT_SUPPORTED], "a native fence without NativeGpuFenceSupported"),
        };
    }
    for round in 1..=8_u64 {
        let first = lab.rig.fence(round)?;
        let fences = [first, lab.rig.fence(2 * round)?];
        ensure_eq!(
            fences.map(|fence| fence.value.load()),
            [round, 2 * round],
            "first values (DxgkDdiCreateNativeFence)"
        );
        let (handles, values) = (fences.map(|fence| fence.handle), [round + 1, 2 * round + 5]);
        // DxgkDdiUpdateMonitoredValues: somebody waits, and later nobody does any more.
        let event = Event::new()?;
        let waits = lab.rig.wait_with_event(&handles, &values, false, Some(event.number()));
        granted(waits, "the wait of the processor for values that come later")?;
        ensure!(!event.is_set()?, "the wait for values that come later ended before the signal");
        granted(lab.rig.signal(&handles, &values), "the signal of the processor")?;
        event.wait()?;
        granted(lab.rig.wait(&handles, &values, false), "the wait of the processor")?;
        ensure_eq!(fences.map(|fence| fence.value.load()), values, "values behind the signal");
        for fence in fences {
            granted(lab.rig.destroy_fence(fence.handle), "destroying a native fence")?;
            refused(lab.rig.destroy_fence(fence.handle), BAD_HANDLE, "destroying it again")?;
        }
    }
    lab.work()
}

fn doorbells(case: &Case) -> Result<(), Failure> {
    let lab = lab(case)?;
    let flags = (0..64).map_while(|node| Some((node, node_flags(&lab, node)?)));
    for (node, flags) in flags.collect::<Vec<_>>() {
        let Ok(context) = lab.rig.context_of(node, &mut lab.opaque.context()) else {
            ensure!(!flags.UserModeSubmission(), "node {node} says UserModeSubmission and has no hardware contexts");
            continue;
        };
        let created = lab.rig.hw_queue_of(context, user_mode_flags(), &mut lab.opaque.queue());
        match created {
            Ok(queue) => {
                ensure!(flags.UserModeSubmission(), "node {node} has a queue without UserModeSubmission for user mode");
                for _ in 0..3 {
                    doorbell(&lab, queue.hHwQueue)?;
                }
                granted(lab.rig.destroy_hw_queue(queue.hHwQueue), "destroying a queue whose doorbells are gone")?;
            }
            Err(status) => {
                ensure!(
                    !flags.UserModeSubmission(),
                    "node {node} says UserModeSubmission and refuses a queue: {status}"
                );
                refused(status, &[STATUS_NOT_SUPPORTED, STATUS_INVALID_PARAMETER], "a queue for user mode elsewhere")?;
            }
        }
    }
    lab.work()
}

fn doorbell(lab: &Lab, queue: wddm_ddi::types::D3DKMT_HANDLE) -> Result<(), Failure> {
    const SIZE: u64 = 4096;
    const CONNECTED: [D3DDDI_DOORBELLSTATUS; 2] = [
        D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED,
        D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD,
    ];
    let places = [lab.memory(SIZE, false)?, lab.memory(SIZE, false)?];
    for place in places {
        lab.rig.view(place)?.fill(0);
    }
    let [target, control] = places.map(|place| place.address);
    let mut data = lab.opaque.doorbell(Values { size: SIZE, target, control, ..Values::default() });
    let created = lab.rig.doorbell_of(queue, places, D3DKMT_CREATE_DOORBELL_FLAGS::new(), &mut data);
    let created = created.map_err(|status| Failure::new(format!("D3DKMTCreateDoorbell: {status}")))?;
    let status = Word::new(created.DoorbellStatusCPUVirtualAddress, "the status of the doorbell")?;
    let state = || D3DDDI_DOORBELLSTATUS(status.load() as i32);
    ensure_eq!(
        state(),
        D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY,
        "status of a new doorbell (DxgkDdiCreateDoorbell connects nothing)"
    );
    let mut connect = D3DKMT_CONNECT_DOORBELL::zeroed();
    connect.hDoorbell = created.hDoorbell;
    let connected = lab.rig.kmt.call(lab.rig.kmt.table().D3DKMTConnectDoorbell, &mut connect);
    granted(connected, "D3DKMTConnectDoorbell")?;
    // It may have been taken away for another queue since, and is not lost.
    let state = state();
    let retry = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;
    ensure!(CONNECTED.contains(&state) || state == retry, "status of a connected doorbell is {state:?}");
    refused(lab.rig.destroy_hw_queue(queue), &[STATUS_INVALID_PARAMETER], "destroying a queue under its doorbell")?;
    let mut destroy = D3DKMT_DESTROY_DOORBELL { hDoorbell: created.hDoorbell };
    let mut destroyed = || lab.rig.kmt.call(lab.rig.kmt.table().D3DKMTDestroyDoorbell, &mut destroy);
    granted(destroyed(), "D3DKMTDestroyDoorbell")?;
    refused(destroyed(), BAD_HANDLE, "destroying the doorbell again")?;
    for place in places {
        granted(lab.rig.destroy_allocation(place.handle), "destroying the memory of a ring")?;
    }
    Ok(())
}

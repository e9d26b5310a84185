//! Cases for the driver of any GPU in which the whole adapter is reset, and what its driver is called for.

use std::thread;
use std::time::Duration;

use dxgkrnl::{TdrOutcome, TdrReason, TdrReport};
use wddm_ddi::status::{STATUS_NO_MEMORY, STATUS_UNSUCCESSFUL};

use super::any_driver::{PACKETS, QUEUES, Use, in_new_process};
use crate::cases::any_driver_lab::{Lab, SIZE, holds};
use crate::cases::any_driver_reset::force;
use crate::simulated::Case;
use crate::{Boot, Failure, granted};

cases! { neutral inside "AnyDriver", behind "it reads the log of the driver's functions and the reports of resets";
    "AnyDriver.AdapterResetFollowsThePages" on Boot::Fresh, "thread-synchronization-and-tdr":
        "For a timeout of the whole adapter DxgkDdiCollectDbgInfo (or DxgkDdiCollectDbgInfo2 where the driver has it), DxgkDdiResetFromTimeout and DxgkDdiRestartFromTimeout are called, once each and in this order, and the adapter works again."
        => follows_the_pages;
    "AnyDriver.AdapterResetEndsWorkThatIsUnderWay" on Boot::Fresh, "dxgkddi_resetfromtimeout":
        "Packets that run and wait when the adapter is reset end with their devices, and the adapter works again, time after time."
        => ends_packets;
    "AnyDriver.AdapterResetTakesLocalMemory" on Boot::Fresh, "thread-synchronization-and-tdr":
        "Allocations that are in the GPU's own memory when the adapter is reset leave it before DxgkDdiRestartFromTimeout with a transfer of 0 bytes, and there is memory for those after them, time after time."
        => takes_local_memory;
    "AnyDriver.AdapterResetEndsHardwareQueues" needs HardwareScheduling on Boot::Fresh, "dxgkddi_resetfromtimeout":
        "Hardware queues that run and wait when the adapter is reset end with their devices, and the adapter works again, time after time."
        => ends_queues;
    "AnyDriver.ForcedTimeoutOfAnEngineEndsWhatHangs" needs HangingCommands on Boot::Fresh, "d3dkmt_tdrdbgctrl_escape":
        "A timeout of one engine that a test forces ends commands that do not end; their device is lost, and others go on."
        => ends_a_hang;
}

/// Timeouts of one engine that are forced until commands that do not end are found begun.
const ATTEMPTS: u32 = 4;

/// The DDIs of a reset of the adapter.
const ORDER: [&str; 3] = ["DxgkDdiCollectDbgInfo", "DxgkDdiResetFromTimeout", "DxgkDdiRestartFromTimeout"];

/// The function that takes the place of the first in a driver that has it.
const FIRST: &str = "DxgkDdiCollectDbgInfo2";

/// Forces a timeout of the adapter; what was called for it, and its report.
fn reset(case: &Case<'_>, lab: &Lab) -> Result<TdrReport, Failure> {
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let before = machine.tdr_reports(luid).len();
    machine.start_ddi_log(luid);
    force(&lab.rig, None)?;
    let log = machine.take_ddi_log(luid);
    let names = log.iter().map(|name| if name == FIRST { ORDER[0] } else { name.as_str() });
    let called: Vec<&str> = names.filter(|name| ORDER.contains(name)).collect();
    ensure_eq!(called, ORDER, "functions that were called for the reset");
    let report = machine.tdr_reports(luid).split_off(before).pop();
    let report = report.ok_or_else(|| Failure::new("the reset of the adapter has no report"))?;
    ensure_eq!((report.reason, report.outcome), (TdrReason::Forced, TdrOutcome::AdapterReset), "the report");
    if let Some((ddi, status)) = report.collection_failed {
        ensure!(
            [STATUS_NO_MEMORY, STATUS_UNSUCCESSFUL].contains(&status),
            "{ddi} answered {status}, and expected was STATUS_SUCCESS, STATUS_NO_MEMORY or STATUS_UNSUCCESSFUL \
             [d3dkmddi: DXGKDDI_COLLECTDBGINFO]"
        );
    }
    Ok(report)
}

fn follows_the_pages(case: &mut Case<'_>) -> Result<(), Failure> {
    let lab = Lab::new(case.rig()?)?;
    lab.work()?;
    reset(case, &lab)?;
    granted(lab.rig.destroy(), "destroying the device")?;
    in_new_process(case, Lab::work)
}

fn ends_packets(case: &mut Case<'_>) -> Result<(), Failure> {
    ends(case, PACKETS)
}

fn takes_local_memory(case: &mut Case<'_>) -> Result<(), Failure> {
    const ALLOCATIONS: u32 = 3;
    for _ in 0..3 {
        let lab = Lab::new(case.rig()?)?;
        let mut worker = lab.worker()?;
        for pattern in 1..=ALLOCATIONS {
            let memory = lab.memory(SIZE, true)?;
            lab.fill(&mut worker, memory.address, SIZE, pattern)?;
            holds(&lab.rig.view(memory)?, 0, SIZE, pattern, "the GPU's own memory before the reset")?;
        }
        reset(case, &lab)?;
        ensure!(!lab.is_active()?, "a device with memory is not lost with the reset of its adapter");
        granted(lab.rig.destroy(), "destroying the device")?;
        in_new_process(case, Lab::work)?;
    }
    Ok(())
}

fn ends_queues(case: &mut Case<'_>) -> Result<(), Failure> {
    ends(case, QUEUES)
}

/// As often as TdrLimitCount lets the adapter be reset.
fn ends(case: &Case<'_>, of: Use) -> Result<(), Failure> {
    for _ in 0..3 {
        let lab = Lab::new(case.rig()?)?;
        (of.leave)(&lab)?;
        reset(case, &lab)?;
        ensure!(!lab.is_active()?, "a device with work is not lost with the reset of its adapter");
        granted(lab.rig.destroy(), "destroying the device")?;
        in_new_process(case, of.work)?;
    }
    Ok(())
}

fn ends_a_hang(case: &mut Case<'_>) -> Result<(), Failure> {
    let (lab, other) = (Lab::new(case.rig()?)?, Lab::new(case.rig()?)?);
    other.work()?;
    let mut worker = lab.worker()?;
    lab.hand_over(&mut worker, &lab.hang()?)?;
    // A packet that the GPU has not begun is preempted without a loss and handed over again. No page has a way to ask whether it is begun, and so each
    // further timeout leaves the GPU four times as long for it. They are fewer than TdrLimitCount, for a driver may reset an engine in vain each time.
    for attempt in 0..ATTEMPTS {
        force(&lab.rig, Some(lab.opaque.node()))?;
        if !lab.is_active()? {
            break;
        }
        thread::sleep(Duration::from_millis(50 << (2 * attempt)));
    }
    ensure!(!lab.is_active()?, "the device of commands that do not end is not lost with the reset of their engine");
    ensure!(other.is_active()?, "the other device is in error too, as by a reset of the whole adapter");
    other.work()?;
    granted(lab.rig.destroy(), "destroying the device in error")
}

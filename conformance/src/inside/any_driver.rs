//! Cases for the driver of any GPU that stop, start and power it.

use crate::cases::any_driver::{Lab, holds};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use dxgkrnl::verifier::LowResources;
use wddm_ddi::kmt::{D3DKMT_DEVICEEXECUTION_STATE, D3DKMT_WDDM_2_0_CAPS, KMTQUERYADAPTERINFOTYPE};

cases! { neutral inside "AnyDriver", behind "it stops, starts and powers the adapter, or ends processes";
    "AnyDriver.AdapterStopsAndStartsAgain" on Boot::Fresh, "stop_device":
        "An adapter that was stopped, or stopped and removed, starts again and works as before, time after time."
        => stops_and_starts;
    "AnyDriver.MemorySurvivesD3" on Boot::Fresh, "set_power_state":
        "What is in memory of each kind is there when the adapter was in D3 and has come back to D0."
        => power;
    "AnyDriver.ProcessesEndWithEverythingOpen" on Boot::Fresh, "dxgkddi_destroyprocess":
        "Processes that end with devices, contexts and memory open, and work under way, leave nothing behind: more of them fit than memory."
        => exits;
    "AnyDriver.SurpriseRemovalEndsEverything" on Boot::Fresh, "dxgkddi_notify_surprise_removal":
        "When plug and play finds the function gone, work and devices end as lost; the one that is found next starts and works."
        => surprise;
    "AnyDriver.AddressesBelongToTheirProcess" on Boot::Fresh, "gpu-virtual-memory-in-wddm-2-0":
        "What a process has at a GPU virtual address is nothing to another process with memory at the same address."
        => address_spaces;
    "AnyDriver.LowMemoryIsAnErrorAndNothingElse" on Boot::Fresh, "low-resources-simulation":
        "Allocations of the driver that fail at random while it starts, works and stops make its functions fail for want of memory; it works when memory is there again."
        => low_resources;
}

/// What is told for want of memory: its statuses, and of linked adapters that a device of their chain has not started.
const NO_MEMORY: [&str; 3] = ["STATUS_NO_MEMORY", "STATUS_INSUFFICIENT_RESOURCES", "[dispmprt: DXGKDDI_LINK_DEVICE]"];
/// Rounds of the case about low memory; each fails other allocations, one in so many.
const LOW_ROUNDS: u64 = 24;
const ONE_IN: [u32; 3] = [4, 12, 40];

fn in_new_process(case: &Case<'_>) -> Result<(), Failure> {
    case.in_other_process(|system| Lab::new(crate::rig::Rig::open(system.luid())?)?.work())
}

fn stops_and_starts(case: &mut Case<'_>) -> Result<(), Failure> {
    for round in 0..4 {
        in_new_process(case)?;
        if round % 2 == 0 {
            case.system.stop()?;
        } else {
            case.system.remove()?;
        }
        case.system.start()?;
    }
    in_new_process(case)
}

fn power(case: &mut Case<'_>) -> Result<(), Failure> {
    let lab = Lab::new(case.rig()?)?;
    let mut worker = lab.worker()?;
    const SIZE: u64 = 64 << 10;
    let memory = lab.memory(SIZE, false)?;
    for round in 1..=3 {
        lab.fill(&mut worker, memory.address, SIZE, round)?;
        let machine = case.system.machine();
        let down = machine.power_down(case.system.luid());
        down.map_err(|error| Failure::new(format!("the way to D3: {error}")))?;
        ensure!(machine.is_powered_down(case.system.luid()), "the device is not in D3");
        holds(&lab.rig.view(memory)?, 0, SIZE, round, "memory while the device is in D3")?;
        lab.work()?;
        holds(&lab.rig.view(memory)?, 0, SIZE, round, "memory after D3")?;
    }
    Ok(())
}

fn exits(case: &mut Case<'_>) -> Result<(), Failure> {
    for _ in 0..20 {
        case.in_other_process(|system| {
            let lab = Lab::new(crate::rig::Rig::open(system.luid())?)?;
            let memory = lab.memory(1 << 20, false)?;
            lab.work()?;
            let mut worker = lab.worker()?;
            lab.leave_work(&mut worker, memory)
        })?;
    }
    in_new_process(case)
}

fn surprise(case: &mut Case<'_>) -> Result<(), Failure> {
    for _ in 0..3 {
        let lab = Lab::new(case.rig()?)?;
        let caps = lab.rig.kmt.query_word(lab.rig.adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_2_0_CAPS);
        let caps = caps.map_err(|status| Failure::new(format!("KMTQAITYPE_WDDM_2_0_CAPS: {status}")))?;
        if !D3DKMT_WDDM_2_0_CAPS::from_bits(caps).SupportSurpriseRemoval() {
            return Err(Failure::NotApplicable("the driver does not claim SupportSurpriseRemoval".to_owned()));
        }
        let memory = lab.memory(64 << 10, false)?;
        let mut worker = lab.worker()?;
        lab.leave_work(&mut worker, memory)?;
        case.system.notice_reset(0)?;
        let state = lab.rig.kmt.execution_state(lab.rig.device)?;
        ensure_eq!(state, D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_STOPPED, "state of the device");
        ensure!(lab.worker().is_err(), "a context was made on an adapter that is gone");
        granted(lab.rig.destroy(), "destroying the device")?;
        case.system.start()?;
        in_new_process(case)?;
    }
    Ok(())
}

fn address_spaces(case: &mut Case<'_>) -> Result<(), Failure> {
    const SIZE: u64 = 64 << 10;
    let lab = Lab::new(case.rig()?)?;
    let mut worker = lab.worker()?;
    let memory = lab.memory(SIZE, false)?;
    lab.fill(&mut worker, memory.address, SIZE, 0x0101_0101)?;
    let address = memory.address;
    case.in_other_process(|system| {
        let lab = Lab::new(crate::rig::Rig::open(system.luid())?)?;
        let mut worker = lab.worker()?;
        let memory = lab.memory_at(SIZE, address)?;
        lab.fill(&mut worker, address, SIZE, 0x0202_0202)?;
        holds(&lab.rig.view(memory)?, 0, SIZE, 0x0202_0202, "memory of the other process")
    })?;
    holds(&lab.rig.view(memory)?, 0, SIZE, 0x0101_0101, "memory at the same address of this process")
}

fn simulate(case: &Case<'_>, low: Option<LowResources>) -> Result<u64, Failure> {
    let simulated = case.system.machine().simulate_low_resources(case.system.driver(), low);
    simulated.map_err(|error| Failure::new(format!("low memory: {error}")))
}

/// What failed, if anything did, failed for want of memory.
fn for_want_of_memory(what: &str, outcome: Result<(), String>) -> Result<(), Failure> {
    let told = outcome.err().unwrap_or_default();
    ensure!(told.is_empty() || NO_MEMORY.iter().any(|status| told.contains(status)), "{what} in low memory: {told}");
    Ok(())
}

fn low_resources(case: &mut Case<'_>) -> Result<(), Failure> {
    in_new_process(case)?;
    let mut failed = 0;
    for (seed, one_in) in (0..LOW_ROUNDS).zip(ONE_IN.into_iter().cycle()) {
        // Stopped and started in low memory every other round.
        let restarts = seed % 2 == 0;
        simulate(case, Some(LowResources { one_in, seed }))?;
        if restarts {
            case.system.remove()?;
        }
        let started = case.system.start();
        let is_started = started.is_ok();
        for_want_of_memory("a start", started.map_err(|error| error.to_string()))?;
        if is_started {
            for_want_of_memory("work", in_new_process(case).map_err(|failure| failure.to_string()))?;
        }
        failed += simulate(case, None)?;
        case.system.start()?;
        in_new_process(case)?;
    }
    ensure!(failed != 0, "the driver allocates nothing in {LOW_ROUNDS} rounds");
    Ok(())
}

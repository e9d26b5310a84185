//! Cases for the driver of any GPU that stop, start and power it.

use crate::cases::any_driver_lab::{Lab, holds};
use crate::rig::{Memory, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use dxgkrnl::EngineSleepError;
use dxgkrnl::verifier::LowResources;
use wddm_ddi::kmt::{D3DKMT_DEVICEEXECUTION_STATE, D3DKMT_WDDM_2_0_CAPS, KMTQUERYADAPTERINFOTYPE};

cases! { neutral inside "AnyDriver", behind "it stops, starts and powers the adapter, or ends processes";
    "AnyDriver.AdapterStopsAndStartsAgain" on Boot::Fresh, "stop_device":
        "An adapter that was stopped, or stopped and removed, starts again and works as before, time after time."
        => stops_and_starts;
    "AnyDriver.MemorySurvivesD3" on Boot::Fresh, "set_power_state":
        "What is in memory of each kind is there when the adapter was in D3 and has come back to D0."
        => power;
    "AnyDriver.EnginesRestInF1AndWork" on Boot::Fresh, "dxgkddisetpowercomponentfstate":
        "An engine with a power component enters F1 when it has nothing to do, time after time, and the next work brings it back to F0 and is done."
        => engines_rest;
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
    "AnyDriver.AddressesOfHardwareQueuesBelongToTheirProcess" needs HardwareScheduling on Boot::Fresh, "gpu-virtual-memory-in-wddm-2-0":
        "Commands of a hardware queue reach the memory of its own process, not that of another process with memory and hardware queues at the same addresses."
        => queue_address_spaces;
    "AnyDriver.HardwareQueuesSurviveD3" needs HardwareScheduling on Boot::Fresh, "set_power_state":
        "Hardware queues are there when the adapter was in D3 and has come back to D0: progress stands where it stood, and what is submitted brings the adapter back and is done."
        => queues_in_d3;
    "AnyDriver.ProcessesEndWithHardwareQueuesBusy" needs HardwareScheduling on Boot::Fresh, "dxgkddi_destroyhwqueue":
        "Processes that end while their hardware queues work and wait leave nothing behind, and those after them work."
        => queue_exits;
    "AnyDriver.SurpriseRemovalEndsHardwareQueues" needs HardwareScheduling on Boot::Fresh, "dxgkddi_notify_surprise_removal":
        "When plug and play finds the function gone while hardware queues work and wait, their device ends as lost and no queue is made any more; the function that is found next starts and works."
        => queue_surprise;
    "AnyDriver.LowMemoryIsAnErrorOfHardwareQueuesToo" needs HardwareScheduling on Boot::Fresh, "low-resources-simulation":
        "Allocations of the driver that fail at random make hardware contexts and hardware queues fail for want of memory, and nothing else; they work when memory is there again."
        => queue_low_resources;
}

/// What is told for want of memory: its statuses, and of linked adapters that a device of their chain has not started.
const NO_MEMORY: [&str; 3] = ["STATUS_NO_MEMORY", "STATUS_INSUFFICIENT_RESOURCES", "[dispmprt: DXGKDDI_LINK_DEVICE]"];
/// Rounds of the case about low memory; each fails other allocations, one in so many.
const LOW_ROUNDS: u64 = 24;
const ONE_IN: [u32; 3] = [4, 12, 40];

/// What a program does on the adapter, and what work it leaves under way.
#[derive(Clone, Copy)]
pub(super) struct Use {
    pub(super) work: fn(&Lab) -> Result<(), Failure>,
    pub(super) leave: fn(&Lab) -> Result<(), Failure>,
}

pub(super) const PACKETS: Use = Use { work: Lab::work, leave: leave_packets };
pub(super) const QUEUES: Use = Use { work: Lab::queue_work, leave: Lab::leave_queue_work };

fn leave_packets(lab: &Lab) -> Result<(), Failure> {
    let memory = lab.memory(1 << 20, false)?;
    let mut worker = lab.worker()?;
    lab.leave_work(&mut worker, memory)
}

pub(super) fn in_new_process(case: &Case<'_>, work: fn(&Lab) -> Result<(), Failure>) -> Result<(), Failure> {
    case.in_other_process(|system| work(&Lab::new(crate::rig::Rig::open(system.luid())?)?))
}

fn stops_and_starts(case: &mut Case<'_>) -> Result<(), Failure> {
    for round in 0..4 {
        in_new_process(case, Lab::work)?;
        if round % 2 == 0 {
            case.system.stop()?;
        } else {
            case.system.remove()?;
        }
        case.system.start()?;
    }
    in_new_process(case, Lab::work)
}

fn power_down(case: &Case<'_>) -> Result<(), Failure> {
    let machine = case.system.machine();
    let down = machine.power_down(case.system.luid());
    down.map_err(|error| Failure::new(format!("the way to D3: {error}")))?;
    ensure!(machine.is_powered_down(case.system.luid()), "the device is not in D3");
    Ok(())
}

fn power(case: &mut Case<'_>) -> Result<(), Failure> {
    let lab = Lab::new(case.rig()?)?;
    let mut worker = lab.worker()?;
    const SIZE: u64 = 64 << 10;
    let memory = lab.memory(SIZE, false)?;
    for round in 1..=3 {
        lab.fill(&mut worker, memory.address, SIZE, round)?;
        power_down(case)?;
        holds(&lab.rig.view(memory)?, 0, SIZE, round, "memory while the device is in D3")?;
        lab.work()?;
        holds(&lab.rig.view(memory)?, 0, SIZE, round, "memory after D3")?;
    }
    Ok(())
}

/// The engines with a power component that has F1, by node and physical adapter, which is the first.
fn engines_with_f1(case: &Case<'_>) -> Result<Vec<u32>, Failure> {
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let components = machine.power_components(luid);
    let engines: Vec<u32> = components.iter().filter_map(|component| component.node).collect();
    let has_f1 = |node: &u32| matches!(machine.sleep_engine(luid, *node, 0), Ok(()) | Err(EngineSleepError::Busy));
    let engines: Vec<u32> = engines.into_iter().filter(has_f1).collect();
    if engines.is_empty() {
        let told = format!(
            "none of the {} power component(s) that DxgkDdiQueryAdapterInfo(POWERCOMPONENTINFO) describes is an engine with F1, or DRIVERCAPS is without \
             SupportRuntimePowerManagement",
            components.len()
        );
        return Err(Failure::NotApplicable(told));
    }
    Ok(engines)
}

fn engines_rest(case: &mut Case<'_>) -> Result<(), Failure> {
    let lab = Lab::new(case.rig()?)?;
    lab.work()?;
    let engines = engines_with_f1(case)?;
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let state = |node: u32| machine.power_components(luid).into_iter().find(|component| component.node == Some(node));
    for round in 1..=4 {
        for node in &engines {
            // The end of work is told a moment after whoever waits for it goes on.
            let entered = wait_until("F1", || machine.sleep_engine(luid, *node, 0).is_ok());
            entered.map_err(|_| {
                let told =
                    format!("the engine of node {node} does not enter F1 in round {round} although its work is done");
                Failure::new(format!("{told} [dxgkddisetpowercomponentfstate]"))
            })?;
            ensure_eq!(
                state(*node).map(|component| component.fstate),
                Some(1),
                "the F-state of an engine without work"
            );
        }
        let wakes = |node: &u32| state(*node).map_or(0, |component| component.wakes);
        let before: u64 = engines.iter().map(wakes).sum();
        lab.work()?;
        ensure!(engines.iter().map(wakes).sum::<u64>() > before, "work was done and no engine had left F1 for it");
    }
    Ok(())
}

fn queues_in_d3(case: &mut Case<'_>) -> Result<(), Failure> {
    const SIZE: u64 = 64 << 10;
    let lab = Lab::new(case.rig()?)?;
    let memory = lab.memory(SIZE, false)?;
    let view = lab.rig.view(memory)?;
    let mut queues = lab.scheduled()?.into_iter().map(|node| lab.queue(node)).collect::<Result<Vec<_>, Failure>>()?;
    for round in 1..=3 {
        for (number, queue) in (0..).zip(&mut queues) {
            let word = |submission: u32| round << 16 | number << 8 | submission;
            lab.queue_fill(queue, memory.address, SIZE, word(1))?;
            lab.queue_wait_for(queue)?;
            power_down(case)?;
            ensure_eq!(
                queue.progress.load(),
                queue.submitted,
                "progress of a hardware queue while the device is in D3"
            );
            holds(&view, 0, SIZE, word(1), "memory while the device is in D3")?;
            lab.queue_fill(queue, memory.address, SIZE, word(2))?;
            ensure!(!case.system.machine().is_powered_down(case.system.luid()), "a submission left the device in D3");
            lab.queue_wait_for(queue)?;
            holds(&view, 0, SIZE, word(2), "memory that a hardware queue filled after D3")?;
        }
    }
    lab.queue_work()
}

fn exits(case: &mut Case<'_>) -> Result<(), Failure> {
    ends_of(case, 20, PACKETS)
}

fn queue_exits(case: &mut Case<'_>) -> Result<(), Failure> {
    ends_of(case, 6, QUEUES)
}

fn ends_of(case: &Case<'_>, processes: u32, of: Use) -> Result<(), Failure> {
    for _ in 0..processes {
        case.in_other_process(|system| {
            let lab = Lab::new(crate::rig::Rig::open(system.luid())?)?;
            (of.work)(&lab)?;
            (of.leave)(&lab)
        })?;
    }
    in_new_process(case, of.work)
}

fn surprise(case: &mut Case<'_>) -> Result<(), Failure> {
    surprises(case, PACKETS)
}

fn queue_surprise(case: &mut Case<'_>) -> Result<(), Failure> {
    surprises(case, QUEUES)
}

fn surprises(case: &mut Case<'_>, of: Use) -> Result<(), Failure> {
    for _ in 0..3 {
        let lab = Lab::new(case.rig()?)?;
        let caps = lab.rig.kmt.query_word(lab.rig.adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_2_0_CAPS);
        let caps = caps.map_err(|status| Failure::new(format!("KMTQAITYPE_WDDM_2_0_CAPS: {status}")))?;
        if !D3DKMT_WDDM_2_0_CAPS::from_bits(caps).SupportSurpriseRemoval() {
            return Err(Failure::NotApplicable("the driver does not claim SupportSurpriseRemoval".to_owned()));
        }
        (of.leave)(&lab)?;
        case.system.notice_reset(0)?;
        let state = lab.rig.kmt.execution_state(lab.rig.device)?;
        ensure_eq!(state, D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_STOPPED, "state of the device");
        ensure!((of.work)(&lab).is_err(), "there was work on an adapter that is gone");
        granted(lab.rig.destroy(), "destroying the device")?;
        case.system.start()?;
        in_new_process(case, of.work)?;
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

/// Both processes have done the same before, so that their queues and memory have the same addresses.
fn queue_address_spaces(case: &mut Case<'_>) -> Result<(), Failure> {
    const SIZE: u64 = 64 << 10;
    const RULE: &str = "the commands of a hardware queue use the page tables of its context's process, \
         which DxgkDdiSetRootPageTable names for the context [dxgkddi_setrootpagetable]";
    let told = |failure: Failure| Failure::new(format!("{failure}; {RULE}"));
    let fill = |lab: &Lab, memory: Memory, pattern: u32| {
        let view = lab.rig.view(memory)?;
        let mut last = pattern;
        for node in lab.scheduled()? {
            let mut queue = lab.queue(node)?;
            last = pattern | node;
            lab.queue_fill(&mut queue, memory.address, SIZE, last)?;
            lab.queue_wait_for(&queue).map_err(told)?;
            holds(&view, 0, SIZE, last, "memory at an address that another process has too").map_err(told)?;
        }
        Ok(last)
    };
    let lab = Lab::new(case.rig()?)?;
    let memory = lab.memory(SIZE, false)?;
    let before = fill(&lab, memory, 0x0101_0100)?;
    case.in_other_process(|system| {
        let lab = Lab::new(crate::rig::Rig::open(system.luid())?)?;
        fill(&lab, lab.memory_at(SIZE, memory.address)?, 0x0202_0200).map(drop)
    })?;
    holds(&lab.rig.view(memory)?, 0, SIZE, before, "memory at the same address of this process").map_err(told)?;
    fill(&lab, memory, 0x0303_0300).map(drop)
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
    scarce(case, LOW_ROUNDS, Lab::work)
}

fn queue_low_resources(case: &mut Case<'_>) -> Result<(), Failure> {
    scarce(case, LOW_ROUNDS / 2, Lab::queue_work)
}

fn scarce(case: &mut Case<'_>, rounds: u64, work: fn(&Lab) -> Result<(), Failure>) -> Result<(), Failure> {
    in_new_process(case, work)?;
    let mut failed = 0;
    for (seed, one_in) in (0..rounds).zip(ONE_IN.into_iter().cycle()) {
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
            for_want_of_memory("work", in_new_process(case, work).map_err(|failure| failure.to_string()))?;
        }
        failed += simulate(case, None)?;
        case.system.start()?;
        in_new_process(case, work)?;
    }
    ensure!(failed != 0, "the driver allocates nothing in {rounds} rounds");
    Ok(())
}

//! Resets of the function that nobody asked the driver for, after which configuration space holds what it did: what Linux does beneath
//! whoever drives a function through vfio. Nothing of that is seen from outside; only the driver can notice.

use campanile_hw::pci;
use campanile_hw::private::Placement;
use campanile_hw::registers::{CONTROL, NODE_COMPUTE, NODE_COPY, NODE_PAGING};
use dxgkrnl::{TdrOutcome, TdrReason};

use super::hang::{ACTIVE, Guest, RESET, by_hand, reports, state, time_out, time_out_packets, until_ended, works};
use crate::rig::{Rig, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure};
use testbed::setup::{System, capability};

cases! { inside "TDR", needs UserModeSubmission, behind "it resets the function behind the driver, moves the clock on, and reads the report of the reset";
    "Tdr.FunctionResetUnderUserQueues" on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A context of user-mode queues on a function that was reset, whose configuration space is as before, does not leave its engine, which cannot be reset: the adapter is, and works again."
        holds [Tdr 42]
        => user_queues;
    "Tdr.FunctionResetUnderKernelQueues" on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A context of kernel-mode queues on a function that was reset, whose configuration space is as before, does not leave its engine, which cannot be reset: the adapter is, and works again."
        holds [Tdr 42]
        => kernel_queues;
    "Tdr.FunctionResetUnderPackets" on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A packet on a function that was reset, whose configuration space is as before, is not preempted, its engine does not respond and cannot be reset: the adapter is, and works again."
        holds [Tdr 42]
        => packets;
    "Tdr.FunctionResetWhileIdle" on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A function that was reset while it idled, whose configuration space is as before, is noticed by the next work of any kind: the adapter is reset, and works again."
        holds [Tdr 42]
        => idle;
    "Tdr.FunctionResetBeforePaging" on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A function that was reset while it idled is noticed by the next pages that are to be moved: whoever waits for them gets an answer, and the adapter works again."
        holds [Tdr 42]
        => before_paging;
}

/// Control words in capabilities. [PCIe base specification, 7.5.3 and 7.7.2]
const EXPRESS: u32 = 0x10;
const DEVICE_CONTROL: u16 = 8;
const FUNCTION_LEVEL_RESET: u32 = 1 << 15;
const MSIX: u32 = 0x11;
const MSIX_CONTROL: u16 = 2;
const COMMAND: u16 = 4;
const BARS: std::ops::Range<u16> = 0x10..0x28;

/// Resets the function beneath its driver, and restores what lies in configuration space and the table of messages.
fn reset_beneath(system: &System) -> Result<(), Failure> {
    // Unwinds if the GPU is in another process, which skips the case: this process cannot reset it.
    system.gpu();
    let bus = system.bus();
    let find = |id| capability(&**bus, id).map_err(|error| Failure::new(error.to_string()));
    let (express, messages) = (find(EXPRESS)?, find(MSIX)?);
    let bars: Vec<_> = BARS.step_by(4).map(|at| (at, bus.config_read(at, 4))).collect();
    let words: Vec<_> = [COMMAND, messages + MSIX_CONTROL].map(|at| (at, bus.config_read(at, 2))).into();
    let table = (0..u64::from(pci::MSIX_VECTORS) * 16).step_by(4).map(|at| pci::MSIX_TABLE_OFFSET + at);
    let table: Vec<_> = table.map(|at| (at, bus.register_read(pci::BAR_REGISTERS, at, 4))).collect();
    ensure_eq!(bus.register_read(pci::BAR_REGISTERS, CONTROL, 4), 1, "run control before the reset");
    bus.config_write(express + DEVICE_CONTROL, 2, FUNCTION_LEVEL_RESET);
    bars.iter().for_each(|&(at, word)| bus.config_write(at, 4, word));
    words.iter().take(1).for_each(|&(at, word)| bus.config_write(at, 2, word));
    table.iter().for_each(|&(at, word)| bus.register_write(pci::BAR_REGISTERS, at, 4, word));
    words.iter().skip(1).for_each(|&(at, word)| bus.config_write(at, 2, word));
    for (at, word) in words {
        ensure_eq!(bus.config_read(at, 2), word, "configuration space at {at:#x}");
    }
    ensure_eq!(bus.register_read(pci::BAR_REGISTERS, CONTROL, 4), 0, "run control after the reset");
    Ok(())
}

/// Since there were `before` reports, an engine was found that could not be reset, and the adapter was reset for that, once.
fn was_promoted(system: &System, before: usize) -> Result<(), Failure> {
    let reports = reports(system).split_off(before);
    let text = || reports.iter().map(ToString::to_string).collect::<String>();
    ensure!(system.machine().bugcheck().is_none(), "the machine stopped: {:?}", system.machine().bugcheck());
    let Some((adapter, engines)) = reports.split_last() else { return Err(Failure::new("nothing was recovered from")) };
    ensure!(!engines.is_empty(), "no engine was tried: {}", text());
    for engine in engines {
        ensure_eq!(
            (engine.reason, engine.outcome),
            (TdrReason::EngineTimeout, TdrOutcome::EngineResetFailed),
            "{}",
            text()
        );
        ensure!(engine.responsive != Some(true), "the driver says that the engine responds: {}", text());
    }
    ensure_eq!(
        (adapter.node, adapter.reason.number(), adapter.outcome, adapter.live_dump),
        (None, Some(9), TdrOutcome::AdapterReset, Some(0x117)),
        "{}",
        text()
    );
    Ok(())
}

/// New devices work, each in its way.
fn all_works(rig: &Rig) -> Result<(), Failure> {
    works(rig)?;
    for node in [NODE_COMPUTE, NODE_COPY] {
        let mut queue = rig.kernel_queue(node)?;
        let value = rig.kernel_submit(&mut queue, &[])?;
        wait_until("kernel-mode work", || queue.progress.load() == value)?;
    }
    for node in [NODE_COMPUTE, NODE_COPY, NODE_PAGING] {
        rig.packet_execute(&mut rig.packet_queue(node)?, &[])?;
    }
    Ok(())
}

fn user_queues(case: &mut Case<'_>) -> Result<(), Failure> {
    for node in [NODE_COMPUTE, NODE_COPY] {
        let (rig, beside) = (case.rig()?, case.rig()?);
        let (gate, mut queue, mut blocked) = (rig.fence(0)?, rig.queue(node)?, rig.queue(node)?);
        rig.execute(&mut queue, &[])?;
        rig.submit(&mut blocked, &[gate.wait(1)])?;
        let before = reports(case.system).len();
        time_out(case.system);
        ensure_eq!((reports(case.system).len(), state(&rig)?), (before, ACTIVE), "before the reset");
        reset_beneath(case.system)?;
        // Rung after it, and nobody looks.
        rig.submit(&mut queue, &[])?;
        time_out(case.system);
        was_promoted(case.system, before)?;
        ensure_eq!((state(&rig)?, state(&beside)?), (RESET, RESET), "states of the devices");
        all_works(&case.rig()?)?;
    }
    Ok(())
}

fn kernel_queues(case: &mut Case<'_>) -> Result<(), Failure> {
    for node in [NODE_COMPUTE, NODE_COPY] {
        let (rig, beside) = (case.rig()?, case.rig()?);
        let (gate, mut queue, mut blocked) = (rig.fence(0)?, rig.kernel_queue(node)?, rig.kernel_queue(node)?);
        let value = rig.kernel_submit(&mut queue, &[])?;
        wait_until("the work", || queue.progress.load() == value)?;
        rig.kernel_submit(&mut blocked, &[gate.wait(1)])?;
        let before = reports(case.system).len();
        time_out(case.system);
        ensure_eq!((reports(case.system).len(), state(&rig)?), (before, ACTIVE), "before the reset");
        reset_beneath(case.system)?;
        rig.kernel_submit(&mut queue, &[])?;
        time_out(case.system);
        was_promoted(case.system, before)?;
        ensure_eq!((state(&rig)?, state(&beside)?), (RESET, RESET), "states of the devices");
        all_works(&case.rig()?)?;
    }
    Ok(())
}

fn packets(case: &mut Case<'_>) -> Result<(), Failure> {
    for node in [NODE_COMPUTE, NODE_COPY, NODE_PAGING] {
        let (rig, beside) = (case.rig()?, case.rig()?);
        let (gate, reached, mut queue) = (rig.fence(0)?, rig.fence(0)?, rig.packet_queue(node)?);
        let value = rig.packet_submit(&mut queue, &[reached.signal(1), gate.wait(1)])?;
        wait_until("the packet", || reached.value.load() == 1)?;
        let before = reports(case.system).len();
        reset_beneath(case.system)?;
        rig.packet_submit(&mut queue, &[])?;
        case.system.machine().start_ddi_log(case.system.luid());
        time_out_packets(case.system);
        let log = case.system.machine().take_ddi_log(case.system.luid());
        let named = log.iter().filter_map(|name| name.strip_prefix("DxgkDdi"));
        let wanted = ["PreemptCommand", "QueryEngineStatus", "ResetEngine", "ResetFromTimeout", "RestartFromTimeout"];
        let order: Vec<&str> = named.filter(|name| wanted.contains(name)).collect();
        ensure_eq!(order, wanted, "DDIs of the recovery on node {node}");
        was_promoted(case.system, before)?;
        ensure_eq!((state(&rig)?, state(&beside)?), (RESET, RESET), "states of the devices");
        ensure!(rig.packet_wait(&queue, value).is_err(), "the wait for what was lost succeeded");
        all_works(&case.rig()?)?;
    }
    Ok(())
}

fn idle(case: &mut Case<'_>) -> Result<(), Failure> {
    for model in 0..3 {
        let rig = case.rig()?;
        let mut queues = (rig.queue(NODE_COMPUTE)?, rig.kernel_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?);
        rig.execute(&mut queues.0, &[])?;
        rig.packet_execute(&mut queues.2, &[])?;
        let before = reports(case.system).len();
        reset_beneath(case.system)?;
        time_out(case.system);
        ensure_eq!((reports(case.system).len(), state(&rig)?), (before, ACTIVE), "while nobody has work");
        match model {
            0 => rig.submit(&mut queues.0, &[]).map(drop)?,
            1 => rig.kernel_submit(&mut queues.1, &[]).map(drop)?,
            _ => rig.packet_submit(&mut queues.2, &[]).map(drop)?,
        }
        time_out_packets(case.system);
        was_promoted(case.system, before)?;
        ensure_eq!(state(&rig)?, RESET, "state of the device");
        all_works(&case.rig()?)?;
    }
    Ok(())
}

fn before_paging(case: &mut Case<'_>) -> Result<(), Failure> {
    let owner = Guest::new(case.system, "owner")?;
    let before = reports(case.system).len();
    reset_beneath(case.system)?;
    // It gets its memory or an error, but it gets an answer.
    let _ = until_ended(case.system, || owner.inside(|rig| Ok(rig.memory(1 << 20, Placement::Vram).is_ok())))?;
    was_promoted(case.system, before)?;
    owner.process.exit();
    Guest::new(case.system, "later")?.inside(|rig| {
        rig.memory(1 << 20, Placement::Vram)?;
        all_works(rig)
    })
}

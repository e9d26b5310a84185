//! Scheduling logs, as the driver hands them to the hardware.

use std::ptr::null_mut;

use campanile_hw::event::{EventKind, NO_QUEUE};
use campanile_hw::registers::{self, Command};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use super::rig::Rig;
use super::system::*;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.SchedulingLogReachesTheNode" on Boot::Shared, "dxgkddi_setschedulinglogbuffer":
        "A scheduling log is handed to the node that it is for, with its address in the paging process, its entries and the entry that interrupts, in place of the one before."
        => a_log_reaches_its_node;
    "Miniport.SchedulingLogThatCannotBeIsRefused" on Boot::Shared, "dxgkddi_setschedulinglogbuffer":
        "A log without buffer or entries, with more entries than the hardware counts, at an address that it cannot write, or for a node or engine that there is not is refused, and the hardware is told nothing."
        => a_log_that_cannot_be_is_refused;
    "Miniport.SchedulingLogInterruptIsReported" on Boot::Shared, "dxgkargcb_notify_interrupt_data":
        "That the hardware has written the entry that interrupts is reported with node and engine, but not between DxgkDdiResetHwEngine and DxgkDdiResumeHwEngine."
        => the_interrupt_is_reported;
}

fn arguments(node: u32, memory: *mut DXGK_SCHEDULING_LOG_BUFFER) -> DXGKARG_SETSCHEDULINGLOGBUFFER {
    let mut args = DXGKARG_SETSCHEDULINGLOGBUFFER::zeroed();
    (args.NodeOrdinal, args.NumberOfEntries, args.InterruptEntry) = (node, 64, 32);
    (args.LogBufferCpuVa, args.LogBufferGpuVa) = (memory, 0x7_0000);
    args
}

fn set(rig: &Rig, args: &DXGKARG_SETSCHEDULINGLOGBUFFER) -> NTSTATUS {
    ddi!(rig.system, DxgkDdiSetSchedulingLogBuffer, rig.system.adapter, &raw const *args)
}

/// The last command and its arguments.
fn told(rig: &Rig) -> [u64; 5] {
    use registers::{CMP_ARG0, CMP_ARG1, CMP_ARG2, CMP_ARG3, CMP_COMMAND};
    [CMP_COMMAND, CMP_ARG0, CMP_ARG1, CMP_ARG2, CMP_ARG3].map(|at| rig.system.get(at))
}

fn a_log_reaches_its_node(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let mut memory = DXGK_SCHEDULING_LOG_BUFFER::zeroed();
    for (node, address) in [(0, 0x7_0000), (1, 0x7_0020), (0, 0x9_0000)] {
        let mut args = arguments(node, &raw mut memory);
        args.LogBufferGpuVa = address;
        ensure_eq!(set(&rig, &args), STATUS_SUCCESS);
        ensure_eq!(told(&rig), [Command::SetSchedulingLog as u64, node.into(), address, 64, 32]);
    }
    Ok(())
}

fn a_log_that_cannot_be_is_refused(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let mut memory = DXGK_SCHEDULING_LOG_BUFFER::zeroed();
    let good = arguments(0, &raw mut memory);
    ensure_eq!(set(&rig, &good), STATUS_SUCCESS);
    let before = told(&rig);
    let changes: [fn(&mut DXGKARG_SETSCHEDULINGLOGBUFFER); 8] = [
        |args| args.LogBufferCpuVa = null_mut(),
        |args| args.NumberOfEntries = 0,
        |args| args.NumberOfEntries = u32::MAX,
        |args| args.LogBufferGpuVa = 0,
        |args| args.LogBufferGpuVa += 8,
        |args| args.NodeOrdinal = registers::NODES,
        |args| args.NodeOrdinal = u32::MAX,
        |args| args.EngineOrdinal = 1,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut bad = arguments(1, &raw mut memory);
        change(&mut bad);
        ensure_eq!(set(&rig, &bad), STATUS_INVALID_PARAMETER, "change {number}");
        ensure_eq!(told(&rig), before, "change {number}");
    }
    Ok(())
}

fn the_interrupt_is_reported(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    rig.system.event(EventKind::SchedulingLog, 1, NO_QUEUE, [0; 2]);
    rig.system.interrupt();
    ensure_eq!(reports(), [Report::SchedulingLog { node: 1, engine: 0 }]);
    rig.system.set(registers::CMP_RESULT, u64::from(u32::MAX));
    let mut reset = DXGKARG_RESETHWENGINE::zeroed();
    ensure_eq!(ddi!(rig.system, DxgkDdiResetHwEngine, rig.system.adapter, &raw mut reset), STATUS_SUCCESS);
    rig.system.event(EventKind::SchedulingLog, 0, NO_QUEUE, [0; 2]);
    rig.system.interrupt();
    ensure_eq!(reports(), [], "of the node that is being reset");
    rig.system.event(EventKind::SchedulingLog, 1, NO_QUEUE, [0; 2]);
    rig.system.interrupt();
    ensure_eq!(reports(), [Report::SchedulingLog { node: 1, engine: 0 }], "of another one");
    Ok(())
}

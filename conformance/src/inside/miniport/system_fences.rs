//! Fences of a scheduler that reaches them through the paging process: when it is told of one, and when to forget it.

use campanile_hw::queue::Location;
use campanile_hw::registers::{self, Command, CommandStatus};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::rig::{Rig, handle, process};
use super::roots::evict_root;
use super::system::ddi;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.SchedulerSaysWhetherAFenceIsOpen" on Boot::Shared, "dxgkddi_opennativefence":
        "A fence that the scheduler has no free entry for, or refuses, is not opened and leaves nothing behind; one that it has already, or cannot take because it does not run, is open. These are rules of the GPU's manual."
        => what_the_scheduler_answers_decides_whether_a_fence_is_open;
    "Miniport.SchedulerForgetsAFenceWithItsLastOpening" on Boot::Shared, "dxgkddi_closenativefence":
        "The scheduler is told to forget a fence when the process closes it for the last time at its address, and never of one that it was not told of."
        => a_fence_is_forgotten_when_it_is_closed_for_the_last_time;
    "Miniport.SchedulerFollowsTheRootOfAProcess" on Boot::Shared, "dxgkddi_setrootpagetable":
        "The scheduler is told of the fences of a process when that has a root page table, again when it has another one, and to forget them when that leaves memory; and of no fence of another process."
        => the_scheduler_is_told_of_the_fences_of_a_process_when_it_has_a_root;
}

/// Root of the first process.
const ROOT: u64 = 0x20_0000;

/// A machine whose paging process has its page table, with a context of the first process that has none yet.
fn machine(case: &Case<'_>) -> (Rig, HANDLE) {
    let rig = Rig::with_system_fences(case);
    let (_, system_device) = process(&rig.system, 0x9100);
    let mut args = DXGKARG_CREATECONTEXT::zeroed();
    args.NodeOrdinal = 2;
    args.Flags = DXGK_CREATECONTEXTFLAGS::new().with_VirtualAddressing(true).with_SystemContext(true);
    assert_eq!(ddi!(rig.system, DxgkDdiCreateContext, system_device, &raw mut args), STATUS_SUCCESS);
    rig.root_at(args.hContext, 0, 0x10_0000);
    let context = rig.hw_context_of(rig.device, 0x4000, 0);
    (rig, context)
}

fn create(rig: &Rig) -> HANDLE {
    let mut create = DXGKARG_CREATENATIVEFENCE::zeroed();
    create.hGlobalNativeFence = handle(0xf1);
    (create.CurrentValueSystemProcessGpuVa, create.MonitoredValueSystemProcessGpuVa) = (0x1_8000, 0x1_9000);
    assert_eq!(ddi!(rig.system, DxgkDdiCreateNativeFence, rig.system.adapter, &raw mut create), STATUS_SUCCESS);
    create.hGlobalNativeFence
}

/// DxgkDdiOpenNativeFence on a device, without the rig's own note of it.
fn open(rig: &Rig, device: HANDLE, global: HANDLE, current: u64) -> (NTSTATUS, HANDLE) {
    let mut open = DXGKARG_OPENNATIVEFENCE::zeroed();
    (open.hGlobalNativeFence, open.hDevice) = (global, device);
    (open.CurrentValueGpuVa, open.MonitoredValueGpuVa) = (current, current + 0x1000);
    let status = ddi!(rig.system, DxgkDdiOpenNativeFence, rig.system.adapter, &raw mut open);
    (status, open.hLocalNativeFence)
}

/// Has the scheduler answer every command with this status from now on.
fn answers(rig: &mut Rig, status: CommandStatus) {
    rig.system.set(registers::CMP_COMMAND, u64::from(status as u32) << 32);
}

/// The last command about a fence since the last look: its name, root and address of the current value.
fn told(rig: &mut Rig) -> Option<(Command, u64, u64)> {
    let [command, root, current] =
        [registers::CMP_COMMAND, registers::CMP_ARG0, registers::CMP_ARG1].map(|at| rig.system.get(at));
    answers(rig, CommandStatus::Done);
    let command = Command::from_number(command as u32)?;
    matches!(command, Command::MapFence | Command::UnmapFence).then_some((command, root, current))
}

fn location(address: u64) -> u64 {
    Location::new().with_address(address).with_system(true).into_bits()
}

fn what_the_scheduler_answers_decides_whether_a_fence_is_open(case: &mut Case<'_>) -> Result<(), Failure> {
    use CommandStatus::{BadArgument, BadState, Done, NotRunning, TableFull};
    for (status, opened, told_of) in [
        (Done, STATUS_SUCCESS, true),
        (BadState, STATUS_SUCCESS, true),
        (NotRunning, STATUS_SUCCESS, false),
        (TableFull, STATUS_INSUFFICIENT_RESOURCES, false),
        (BadArgument, STATUS_INVALID_PARAMETER, false),
    ] {
        let (mut rig, context) = machine(case);
        rig.root_at(context, 0, ROOT);
        let global = create(&rig);
        answers(&mut rig, status);
        let (answer, local) = open(&rig, rig.device, global, 0x8000);
        ensure_eq!(answer, opened, "the scheduler answers {status:?}");
        let name = told(&mut rig).map(|(command, ..)| command);
        ensure_eq!(name, Some(Command::MapFence), "the last command, which is answered {status:?}");
        if opened == STATUS_SUCCESS {
            ensure_eq!(rig.close(local), STATUS_SUCCESS);
            let forgets = told_of.then_some((Command::UnmapFence, location(ROOT), 0x8000));
            ensure_eq!(told(&mut rig), forgets, "what closing tells after {status:?}");
        }
        // Nothing of it is left: the address is free for another.
        let (answer, local) = open(&rig, rig.device, global, 0x8000);
        ensure_eq!(answer, STATUS_SUCCESS);
        ensure_eq!(told(&mut rig), Some((Command::MapFence, location(ROOT), 0x8000)));
        ensure_eq!((rig.close(local), rig.destroy(global)), (STATUS_SUCCESS, STATUS_SUCCESS));
    }
    Ok(())
}

fn a_fence_is_forgotten_when_it_is_closed_for_the_last_time(case: &mut Case<'_>) -> Result<(), Failure> {
    let (mut rig, context) = machine(case);
    let global = create(&rig);
    told(&mut rig);
    let at = |rig: &Rig, current| open(rig, rig.device, global, current);
    let (status, early) = at(&rig, 0x8000);
    ensure_eq!((status, told(&mut rig)), (STATUS_SUCCESS, None), "a process without a root");
    ensure_eq!((rig.close(early), told(&mut rig)), (STATUS_SUCCESS, None), "one that was never told");
    rig.root_at(context, 0, ROOT);
    let (_, other) = process(&rig.system, 0x9001);
    let opened = [at(&rig, 0x8000), at(&rig, 0x8000), at(&rig, 0xa000), open(&rig, other, global, 0x8000)];
    ensure!(opened.iter().all(|(status, _)| *status == STATUS_SUCCESS), "{opened:?}");
    told(&mut rig);
    let forgets = |current| Some((Command::UnmapFence, location(ROOT), current));
    for ((_, local), expected) in opened.iter().zip([None, forgets(0x8000), forgets(0xa000), None]) {
        ensure_eq!((rig.close(*local), told(&mut rig)), (STATUS_SUCCESS, expected));
    }
    ensure_eq!(rig.destroy(global), STATUS_SUCCESS);
    Ok(())
}

fn the_scheduler_is_told_of_the_fences_of_a_process_when_it_has_a_root(case: &mut Case<'_>) -> Result<(), Failure> {
    const OTHER_ROOT: u64 = 0x30_0000;
    let (mut rig, context) = machine(case);
    let (_, other) = process(&rig.system, 0x9001);
    let global = create(&rig);
    let locals = [(rig.device, 0x8000), (other, 0xa000)].map(|(device, at)| open(&rig, device, global, at).1);
    told(&mut rig);
    for root in [ROOT, OTHER_ROOT] {
        rig.root_at(context, 0, root);
        ensure_eq!(told(&mut rig), Some((Command::MapFence, location(root), 0x8000)), "a root of its own");
        rig.root_at(context, 0, root);
        ensure_eq!(told(&mut rig), None, "the same root again");
    }
    let process = rig.process;
    ensure_eq!(evict_root(&rig, process), STATUS_SUCCESS);
    ensure_eq!(told(&mut rig), Some((Command::UnmapFence, location(OTHER_ROOT), 0x8000)), "the root left memory");
    rig.root_at(context, 0, ROOT);
    told(&mut rig);
    for (local, expected) in locals.into_iter().zip([Some((Command::UnmapFence, location(ROOT), 0x8000)), None]) {
        ensure_eq!((rig.close(local), told(&mut rig)), (STATUS_SUCCESS, expected));
    }
    ensure_eq!(rig.destroy(global), STATUS_SUCCESS);
    Ok(())
}

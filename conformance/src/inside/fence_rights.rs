//! What one opening of a native fence may do: flags of creation and opening, access of kernel handles.

use crate::cases::fence_rights::{ALL, READ, WAIT, check_rights, opened, shared, text};
use campanile_hw::registers::NODE_COMPUTE;
use wddm_ddi::kmt::D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as Flags;
use wddm_ddi::status::*;

use crate::rig::{KernelHandle, Rig, shared_flags};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted, refused};

cases! { inside "FenceRights", needs HardwareScheduling, behind "it is several processes at a time";
    "FenceRights.NoSignalLeavesWaits" needs UserModeSubmission on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "A device that has a fence with NoSignal is denied signals of the processor, its GPU faults when it tries, and it waits as any other."
        holds [NativeFence 42]
        => no_signal;
    "FenceRights.NoWaitLeavesSignals" needs UserModeSubmission on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "A device that has a fence with NoWait is denied waits of the processor, and signals as any other."
        holds [NativeFence 42]
        => no_wait;
    "FenceRights.AccessOfAHandleLimitsItsOpeners" needs UserModeSubmission on Boot::Shared, "d3dkmtshareobjects":
        "A fence opened by a kernel handle can be waited for and signalled as the handle's access says, and not be opened without the right to read."
        holds [NativeFence 42]
        => access_limits;
}

/// D3DDDI_SYNC_OBJECT_SIGNAL
const SIGNAL: u32 = 0x2;

/// Runs `work` in another process that has a handle of what `handle` stands for.
fn elsewhere(
    case: &Case<'_>,
    handle: KernelHandle,
    work: impl FnOnce(&Rig, KernelHandle) -> Result<(), Failure> + Send,
) -> Result<(), Failure> {
    let process = dxgkrnl::Process::new(case.system.machine(), "elsewhere");
    let luid = case.system.luid();
    let theirs = case.process.duplicate_handle(handle.raw(), &process).map_err(text("duplicating the handle"))?;
    let theirs = KernelHandle(theirs.addr());
    let outcome = on_thread(&process, || work(&Rig::open(luid)?, theirs));
    process.exit();
    outcome
}

fn no_signal(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, fence, handle) = shared(case, ALL)?;
    elsewhere(case, handle, |other, theirs| {
        let limited = opened(other, theirs, shared_flags().with_NoSignal(true))?;
        let signal = |value| on_thread(&case.process, || granted(rig.signal(&[fence.handle], &[value]), "the signal"));
        check_rights(other, &limited, (true, false), signal)
    })?;
    ensure_eq!(fence.value.load(), 1, "value that the creator reads");
    // The creator, too, and of a fence that it shares with nobody: its neighbours on the page are as they were.
    let neighbour = rig.fence(5)?;
    let own = rig.create_flagged(7, Flags::new().with_NoSignal(true)).map_err(text("a fence with NoSignal"))?;
    refused(rig.signal(&[own.hSyncObject], &[8]), &[STATUS_ACCESS_DENIED], "a signal of the creator")?;
    granted(rig.wait(&[own.hSyncObject], &[7], false), "a wait of the creator")?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[neighbour.signal(6)])
}

fn no_wait(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, fence, handle) = shared(case, ALL)?;
    elsewhere(case, handle, |other, theirs| {
        let limited = opened(other, theirs, shared_flags().with_NoWait(true))?;
        let signal = |value| on_thread(&case.process, || granted(rig.signal(&[fence.handle], &[value]), "the signal"));
        check_rights(other, &limited, (false, true), signal)
    })?;
    let own = rig.create_flagged(7, Flags::new().with_NoWait(true)).map_err(text("a fence with NoWait"))?;
    refused(rig.wait(&[own.hSyncObject], &[7], false), &[STATUS_ACCESS_DENIED], "a wait of the creator")?;
    granted(rig.signal(&[own.hSyncObject], &[8]), "a signal of the creator")
}

fn access_limits(case: &mut Case<'_>) -> Result<(), Failure> {
    for (access, rights) in [
        (READ | WAIT, (true, false)),
        (READ | SIGNAL, (false, true)),
        (READ, (false, false)),
        (READ | WAIT | SIGNAL, (true, true)),
    ] {
        let (rig, fence, handle) = shared(case, access)?;
        elsewhere(case, handle, |other, theirs| {
            let limited = opened(other, theirs, shared_flags())?;
            let signal =
                |value| on_thread(&case.process, || granted(rig.signal(&[fence.handle], &[value]), "the signal"));
            check_rights(other, &limited, rights, signal)
        })?;
    }
    for access in [0, WAIT, SIGNAL, WAIT | SIGNAL] {
        let (rig, _, handle) = shared(case, access)?;
        match rig.try_open(handle) {
            Ok(_) => return Err(Failure::new(format!("a handle with access {access:#x} opens a fence"))),
            Err(status) => refused(status, &[STATUS_ACCESS_DENIED], "opening without the right to read")?,
        }
    }
    Ok(())
}

//! Signals whose value goes back: the GPU's fault their queue, the processor's are refused, and nobody else notices.

use campanile_hlk::cases::fence_backwards::{Bystander, went_back};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::kmt::*;

use super::case::{Boot, Case, Failure, granted, on_thread};
use super::fence_cross_adapter::{sides, two_native};
use super::rig::{KernelHandle, Rig, wait_until};
use crate::user::{self, Access, Device, Error, Fence, Node, Queue, QueueOptions};

cases! { "FenceOrder", behind "it is several processes or adapters at a time, or counts interrupts";
    "FenceOrder.NothingBehindASmallerSignalIsDone" on Boot::Shared, "native-gpu-fence-objects":
        "What a command buffer has before a signal that goes back is complete, and nothing behind it is done."
        => nothing_behind;
    "FenceOrder.OtherProcessGoesOn" on Boot::Shared, "native-gpu-fence-objects":
        "A process whose queue takes a shared fence back loses its device; the value, the waiters and the queues of the other process are as if there had been no signal."
        => other_process;
    "FenceOrder.OtherAdapterGoesOn" on Boot::With(two_native), "native-gpu-fence-objects":
        "On a fence of two adapters the GPU whose signal goes back loses the device of its queue; the other adapter's waits and queues go on."
        => other_adapter;
    "FenceOrder.SignalledForGoodStays" on Boot::Shared, "dxgkddiupdatecurrentvaluesfromcpu":
        "Signals of the GPU neither change a fence that is signalled for good nor fault their queue."
        => for_good;
    "FenceOrder.DriverSaysDeviceLost" on Boot::Shared, "native-gpu-fence-objects":
        "The user-mode driver says that a device is lost whose queue took a shared fence back; another device that has the fence open keeps its value, its wait and its work."
        => driver_says_lost;
}

fn nothing_behind(case: &mut Case<'_>) -> Result<(), Failure> {
    let keeper = case.rig()?;
    let fences = [keeper.fence(5)?, keeper.fence(0)?, keeper.fence(0)?];
    let guilty = case.rig()?;
    let mut queue = guilty.queue(NODE_COMPUTE)?;
    let signals = case.system.counters().signals;
    let [back, before, behind] = &fences;
    guilty.submit_doomed(&mut queue, &[before.signal(1), back.signal(4), behind.signal(1)])?;
    went_back(&guilty, back)?;
    let values = fences.map(|fence| fence.value.load());
    ensure_eq!(values, [5, 1, 0], "values of the fences");
    ensure_eq!(case.system.counters().signals - signals, 1, "signals that were executed");
    Ok(())
}

fn other_process(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mine = rig.shared_fence(10)?;
    let handle = rig.share(&[mine.handle]);
    let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    let bystander = Bystander::new(&rig, mine)?;
    let process = case.system.machine().create_process("guilty");
    let theirs = case.process.duplicate_handle(handle.raw(), &process);
    let theirs =
        KernelHandle(theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?.addr());
    let luid = case.system.luid();
    let outcome = on_thread(&process, || {
        let guilty = Rig::open(luid)?;
        let fence = guilty.open_fence(theirs)?;
        let mut queue = guilty.queue(NODE_COMPUTE)?;
        guilty.submit_doomed(&mut queue, &[fence.signal(3)])?;
        went_back(&guilty, &fence)
    });
    process.exit();
    outcome?;
    let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    ensure_eq!(rig.kmt.execution_state(rig.device)?, active, "state of the other process' device");
    bystander.went_unharmed(10)
}

fn other_adapter(case: &mut Case<'_>) -> Result<(), Failure> {
    for (stays, goes) in [(0, 1), (1, 0)] {
        let (sides, _) = sides(case, stays, 10)?;
        let bystander = Bystander::new(&sides[stays].rig, sides[stays].fence)?;
        let guilty = &sides[goes];
        let mut queue = guilty.rig.queue(NODE_COMPUTE)?;
        guilty.rig.submit_doomed(&mut queue, &[guilty.fence.signal(9)])?;
        went_back(&guilty.rig, &guilty.fence)?;
        bystander.went_unharmed(10)?;
    }
    Ok(())
}

fn for_good(case: &mut Case<'_>) -> Result<(), Failure> {
    let keeper = case.rig()?;
    let last = keeper.fence(0)?;
    granted(keeper.signal(&[last.handle], &[u64::MAX]), "signalling the greatest value")?;
    // A fence of a device that is lost, which another device of the process has in its queues.
    let lost = case.rig()?;
    let (fence, back) = (lost.fence(0)?, keeper.fence(5)?);
    let mut queue = lost.queue(NODE_COMPUTE)?;
    lost.submit_doomed(&mut queue, &[back.signal(1)])?;
    went_back(&lost, &back)?;
    wait_until("the fence of the lost device", || fence.value.load() == u64::MAX)?;
    let mut queue = keeper.queue(NODE_COPY)?;
    for fence in [last, fence] {
        keeper.execute(&mut queue, &[fence.signal(0), fence.signal(7), fence.wait(u64::MAX)])?;
        ensure_eq!(fence.value.load(), u64::MAX, "value after signals");
    }
    Ok(())
}

/// Ends the case unless the user-mode driver says that the device is lost.
fn lost<T: std::fmt::Debug>(outcome: user::Result<T>, what: &str) -> Result<(), Failure> {
    match outcome {
        Err(Error::DeviceLost) => Ok(()),
        other => Err(Failure::new(format!("{what} ended with {other:?}"))),
    }
}

fn driver_says_lost(case: &mut Case<'_>) -> Result<(), Failure> {
    let adapter = case.adapter()?;
    let (keeper, guilty) = (Device::new(&adapter)?, Device::new(&adapter)?);
    let mut waiting = Queue::new(&keeper, Node::Copy, QueueOptions::default())?;
    let mut queue = Queue::new(&guilty, Node::Compute, QueueOptions::default())?;
    let fence = Fence::new_shared(&keeper, 10)?;
    let theirs = Fence::open(&guilty, fence.share(Access::Full)?.raw(), Access::Full)?;
    let held = waiting.submit(|commands| commands.wait(&fence, 11))?;
    match queue.submit(|commands| commands.signal(&theirs, 9)) {
        // The fault may come before the submission has looked at its doorbell.
        Ok(_) | Err(Error::DeviceLost) => {}
        Err(error) => return Err(error.into()),
    }
    let last = queue.last_submitted()?;
    lost(queue.wait_progress(last), "waiting for a signal that goes back")?;
    lost(guilty.check(), "checking its device")?;
    ensure_eq!((fence.value(), waiting.progress()?), (10, held - 1), "value, and progress of the queue that waits");
    let mut working = Queue::new(&keeper, Node::Compute, QueueOptions::default())?;
    working.submit(|commands| commands.signal(&fence, 11))?;
    waiting.wait_progress(held)?;
    Ok(keeper.check()?)
}

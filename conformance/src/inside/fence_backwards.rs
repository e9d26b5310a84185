//! Signals of a smaller value than the fence has, of several processes and adapters.

use crate::cases::fault::wait_for_error;
use crate::cases::fence_backwards::{Bystander, goes_on};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use super::fence_cross_adapter::{sides, two_native};
use crate::rig::{KernelHandle, Rig, fill, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted};
use testbed::user::{Access, Device, Fence, Node, Queue, QueueOptions};

cases! { inside "FenceOrder", behind "it is several processes or adapters at a time, or counts interrupts";
    "FenceOrder.WorkBehindASmallerSignalIsDone" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "What a command buffer has before and behind a signal of a smaller value is done, and nobody is interrupted for a value that nobody waits for."
        holds [NativeFence 6]
        => work_behind;
    "FenceOrder.OtherProcessGoesOn" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A process may set a shared fence back: the other sees the value, and the waiters, queues and devices of both go on."
        holds [NativeFence 6]
        => other_process;
    "FenceOrder.OtherAdapterGoesOn" needs UserModeSubmission on Boot::With(two_native), "native-gpu-fence-objects":
        "Either GPU may set a fence of two adapters back: both see the value, and the other's waits and queues go on."
        holds [NativeFence 6]
        => other_adapter;
    "FenceOrder.SignalledForGoodStays" needs UserModeSubmission on Boot::Shared, "dxgkddiupdatecurrentvaluesfromcpu":
        "Signals of the GPU neither change a fence that is signalled for good nor fault their queue."
        holds [NativeFence 6, NativeFence 7, NativeFence 52]
        => for_good;
    "FenceOrder.DriverSetsAFenceBack" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "A queue of the user-mode driver may set a shared fence back: no device is lost, and waits of another device last until their value comes."
        holds [NativeFence 6]
        => driver_sets_back;
}

fn work_behind(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fences = [rig.fence(5)?, rig.fence(0)?, rig.fence(0)?];
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let signals = case.system.counters().signals;
    let [back, before, behind] = &fences;
    rig.execute(&mut queue, &[before.signal(1), back.signal(4), behind.signal(1)])?;
    goes_on(&rig)?;
    ensure_eq!(fences.map(|fence| fence.value.load()), [4, 1, 1], "values of the fences");
    ensure_eq!(case.system.counters().signals - signals, 3, "signals that were executed");
    Ok(())
}

fn other_process(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mine = rig.shared_fence(10)?;
    let handle = rig.share(&[mine.handle]);
    let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    let bystander = Bystander::new(&rig, mine)?;
    let process = dxgkrnl::Process::new(case.system.machine(), "other");
    let theirs = case.process.duplicate_handle(handle.raw(), &process);
    let theirs =
        KernelHandle(theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?.addr());
    let luid = case.system.luid();
    let outcome = on_thread(&process, || {
        let other = Rig::open(luid)?;
        let fence = other.open_fence(theirs)?;
        let mut queue = other.queue(NODE_COMPUTE)?;
        other.execute(&mut queue, &[fence.signal(3), fence.wait(3)])?;
        goes_on(&other)
    });
    process.exit();
    outcome?;
    goes_on(&rig)?;
    bystander.went_unharmed(3)
}

fn other_adapter(case: &mut Case<'_>) -> Result<(), Failure> {
    for (waits, signals) in [(0, 1), (1, 0)] {
        let (sides, _) = sides(case, waits, 10)?;
        let bystander = Bystander::new(&sides[waits].rig, sides[waits].fence)?;
        let other = &sides[signals];
        let mut queue = other.rig.queue(NODE_COMPUTE)?;
        other.rig.execute(&mut queue, &[other.fence.signal(9)])?;
        goes_on(&other.rig)?;
        bystander.went_unharmed(9)?;
    }
    Ok(())
}

fn for_good(case: &mut Case<'_>) -> Result<(), Failure> {
    let keeper = case.rig()?;
    let last = keeper.fence(0)?;
    granted(keeper.signal(&[last.handle], &[u64::MAX]), "signalling the greatest value")?;
    // A fence of a device that is lost, which another device of the process has in its queues.
    let lost = case.rig()?;
    let fence = lost.fence(0)?;
    let mut queue = lost.queue(NODE_COMPUTE)?;
    lost.submit_doomed(&mut queue, &[fill(0x7000_0000_0000, 4, 0)])?;
    wait_for_error(lost.kmt, lost.device)?;
    wait_until("the fence of the lost device", || fence.value.load() == u64::MAX)?;
    let mut queue = keeper.queue(NODE_COPY)?;
    for fence in [last, fence] {
        keeper.execute(&mut queue, &[fence.signal(0), fence.signal(7), fence.wait(u64::MAX)])?;
        ensure_eq!(fence.value.load(), u64::MAX, "value after signals");
    }
    Ok(())
}

fn driver_sets_back(case: &mut Case<'_>) -> Result<(), Failure> {
    let adapter = case.adapter()?;
    let (keeper, other) = (Device::new(&adapter)?, Device::new(&adapter)?);
    let mut waiting = Queue::new(&keeper, Node::Copy, QueueOptions::default())?;
    let mut queue = Queue::new(&other, Node::Compute, QueueOptions::default())?;
    let fence = Fence::new_shared(&keeper, 10)?;
    let theirs = Fence::open(&other, fence.share(Access::Full)?.raw(), Access::Full)?;
    let held = waiting.submit(|commands| commands.wait(&fence, 11))?;
    let done = queue.submit(|commands| commands.signal(&theirs, 9))?;
    queue.wait_progress(done)?;
    ensure_eq!((fence.value(), waiting.progress()?), (9, held - 1), "value, and progress of the queue that waits");
    other.check()?;
    queue.submit(|commands| commands.signal(&theirs, 11))?;
    waiting.wait_progress(held)?;
    Ok(keeper.check()?)
}

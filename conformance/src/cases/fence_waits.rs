//! Values at their bounds, queues that wait while other things happen to them, and waiters in great numbers.

use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::kmt::*;

use crate::rig::{RawFence, Rig, fill, wait_until};
use crate::{Boot, Case, Event, Failure, granted};

cases! { thunks "FenceWaits", needs HardwareScheduling;
    "FenceWaits.DestroyedWhileItWaits" needs UserModeSubmission on Boot::Shared, "d3dkmtdestroyhwqueue":
        "A queue that waits can be destroyed; its device is lost for the work that never ends, the fence and its other waiters are as they were."
        holds [NativeFence 10]
        => destroyed_while_waiting;
    "FenceWaits.SuspendedWhileItWaits" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A waiting queue of a device that is lost is taken off the hardware, and the signal it waited for releases nothing of it."
        holds [NativeFence 10]
        => suspended_while_waiting;
    "FenceWaits.MonitoredFencesBesideNativeOnes" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "Monitored fences, which interrupt at every signal, and native ones wake their own waiters, together in one wait too."
        holds [NativeFence 48, ContextMonitoring 13]
        => monitored_beside_native;
}

pub fn watch(rig: &Rig, fence: &RawFence, value: u64) -> Result<Event, Failure> {
    let event = Event::new()?;
    granted(rig.wait_with_event(&[fence.handle], &[value], false, Some(event.number())), "wait with an event")?;
    Ok(event)
}

fn is_lost(rig: &Rig) -> bool {
    let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    rig.kmt.execution_state(rig.device).is_ok_and(|now| now != active)
}

/// A fence of one device that a queue of another, in the same process, waits for before it signals a second one.
fn held_elsewhere(keeper: &Rig) -> Result<(Rig, crate::rig::RawQueue, [RawFence; 2]), Failure> {
    let rig = Rig::on_adapter(keeper.kmt, keeper.adapter)?;
    let fences = [keeper.fence(0)?, keeper.fence(0)?];
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.submit(&mut queue, &[fences[0].wait(1), fences[1].signal(1)])?;
    Ok((rig, queue, fences))
}

/// The fences are as they were, and serve the waiters that are left: a signal of the first releases `left` and no waiter that is gone.
fn serves_who_is_left(keeper: &Rig, fences: &[RawFence; 2]) -> Result<(), Failure> {
    let [first, second] = fences;
    ensure_eq!((first.value.load(), second.value.load()), (0, 0), "values of the fences");
    let mut left = keeper.queue(NODE_COMPUTE)?;
    let held = keeper.submit(&mut left, &[first.wait(1)])?;
    let event = watch(keeper, first, 1)?;
    granted(keeper.signal(&[first.handle], &[1]), "the signal")?;
    wait_until("the queue that is left", || left.progress.load() == held)?;
    event.wait()?;
    keeper.execute(&mut left, &[])?;
    ensure_eq!(second.value.load(), 0, "what the queue that is gone would have signalled");
    Ok(())
}

fn destroyed_while_waiting(case: &Case) -> Result<(), Failure> {
    let keeper = case.rig()?;
    let (rig, queue, fences) = held_elsewhere(&keeper)?;
    let mut doorbell = D3DKMT_DESTROY_DOORBELL { hDoorbell: queue.doorbell.handle };
    granted(rig.kmt.call(rig.kmt.table().D3DKMTDestroyDoorbell, &mut doorbell), "destroying its doorbell")?;
    granted(rig.destroy_hw_queue(queue.queue), "destroying the queue that waits")?;
    ensure!(is_lost(&rig), "the device of the queue goes on as if its work had ended");
    ensure!(!is_lost(&keeper), "the fence's device was lost too");
    serves_who_is_left(&keeper, &fences)
}

fn suspended_while_waiting(case: &Case) -> Result<(), Failure> {
    let keeper = case.rig()?;
    let (rig, _queue, fences) = held_elsewhere(&keeper)?;
    let mut faulting = rig.queue(NODE_COPY)?;
    rig.submit_doomed(&mut faulting, &[fill(0x7000_0000_0000, 4, 0)])?;
    wait_until("the fault beside the waiting queue", || is_lost(&rig))?;
    // A thunk that needs the device on the hardware no more comes after it was taken off.
    granted(rig.destroy(), "destroying the lost device")?;
    serves_who_is_left(&keeper, &fences)
}

fn monitored_beside_native(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let native = rig.fence(0)?;
    for round in 1..=20 {
        let alone = watch(&rig, &native, round)?;
        let (paging, value) = rig.page_something()?;
        let both = Event::new()?;
        let handles = [native.handle, paging];
        granted(rig.wait_with_event(&handles, &[round, value], false, Some(both.number())), "a wait for both")?;
        // The monitored fence interrupts, and satisfies only what waits for it.
        granted(rig.wait(&[paging], &[value], false), "the wait for the monitored fence")?;
        ensure!(!alone.is_set()? && !both.is_set()?, "a wait for the native fence ended with the monitored one");
        rig.execute(&mut queue, &[native.signal(round)])?;
        alone.wait()?;
        both.wait()?;
        granted(rig.wait(&handles, &[round, value], true), "a wait for any of both")?;
    }
    Ok(())
}

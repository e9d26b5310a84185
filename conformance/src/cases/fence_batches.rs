//! Values of many fences at once.

use campanile_hw::packet::Packet;
use campanile_hw::registers::NODE_COMPUTE;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::rig::{RawFence, Rig, wait_until};
use crate::{Boot, Case, Event, Failure, granted, refused};

cases! { thunks "FenceBatches";
    "FenceBatches.WaitForManyEndsWithTheLast" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "One wait of the processor for as many fences as a call takes ends when the GPU has signalled the last of them."
        holds [NativeFence 49]
        => wait_for_many;
    "FenceBatches.SignalOfManyReleasesManyQueues" needs UserModeSubmission on Boot::Shared, "dxgkddiupdatecurrentvaluesfromcpu":
        "One signal of the processor for many fences writes all their values, wakes the threads that wait and releases the queues that wait."
        holds [NativeFence 50]
        => signal_of_many;
    "FenceBatches.SignalIsAllOrNothing" needs NativeFence on Boot::Shared, "d3dkmtsignalsynchronizationobjectfromcpu":
        "A signal of many fences of which one is refused writes none of them."
        holds [NativeFence 50]
        => all_or_nothing;
    "FenceBatches.FenceMayBeNamedTwice" needs NativeFence on Boot::Shared, "d3dkmtwaitforsynchronizationobjectfromcpu":
        "A wait that names a fence twice ends at the greater of the two values."
        holds [NativeFence 49]
        => named_twice;
    "FenceBatches.DeviceErrorSignalsItsFences" needs UserModeSubmission on Boot::Shared, "dxgkddiupdatecurrentvaluesfromcpu":
        "When a device is in error its fences are signalled for good, so that nobody waits for what never comes."
        holds [NativeFence 52]
        => error_signals;
}

/// Most fences of one call.
const MANY: usize = 64;

fn many(rig: &Rig) -> Result<(Vec<RawFence>, Vec<D3DKMT_HANDLE>), Failure> {
    let fences = (0..MANY).map(|_| rig.fence(0)).collect::<Result<Vec<_>, _>>()?;
    let handles = fences.iter().map(|fence| fence.handle).collect();
    Ok((fences, handles))
}

pub fn wait_for_many(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (fences, handles) = many(&rig)?;
    for round in 1..=4 {
        let event = Event::new()?;
        granted(rig.wait_with_event(&handles, &[round; MANY], false, Some(event.number())), "wait for many fences")?;
        for (index, fence) in fences.iter().enumerate() {
            ensure!(!event.is_set()?, "the wait is over after {index} of {MANY} fences");
            rig.execute(&mut queue, &[fence.signal(round)])?;
        }
        event.wait()?;
    }
    Ok(())
}

pub fn signal_of_many(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (fences, handles) = many(&rig)?;
    let mut queues = (0..4).map(|_| rig.queue(NODE_COMPUTE)).collect::<Result<Vec<_>, _>>()?;
    for round in 1..=4 {
        for (fence, queue) in fences.iter().step_by(MANY / queues.len()).zip(&mut queues) {
            rig.submit(queue, &[fence.wait(round)])?;
        }
        let event = Event::new()?;
        granted(rig.wait_with_event(&handles, &[round; MANY], false, Some(event.number())), "wait for many fences")?;
        granted(rig.signal(&handles, &[round; MANY]), "signal of many fences")?;
        ensure!(event.is_set()?, "the wait goes on after the signal");
        ensure!(fences.iter().all(|fence| fence.value.load() == round), "a fence does not have its value");
        wait_until("the release of the queues", || queues.iter().all(|queue| queue.progress.load() >= round))?;
    }
    Ok(())
}

fn all_or_nothing(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (fences, handles) = many(&rig)?;
    granted(rig.signal(&handles[MANY - 1..], &[9]), "signal of the last fence")?;
    let status = rig.signal(&handles, &[5; MANY]);
    refused(status, &[STATUS_INVALID_PARAMETER], "a signal that takes one fence back")?;
    ensure!(fences[..MANY - 1].iter().all(|fence| fence.value.load() == 0), "another fence was signalled");
    ensure_eq!(fences[MANY - 1].value.load(), 9, "value of the fence that would have gone back");
    Ok(())
}

fn named_twice(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(0)?;
    let event = Event::new()?;
    let twice = [fence.handle; 2];
    granted(rig.wait_with_event(&twice, &[5, 3], false, Some(event.number())), "wait for two values")?;
    granted(rig.signal(&[fence.handle], &[4]), "signal between them")?;
    ensure!(!event.is_set()?, "the wait is over at the smaller value");
    granted(rig.signal(&twice, &[5, 6]), "signal of two values")?;
    ensure!(event.is_set()?, "the wait goes on beyond the greater value");
    ensure_eq!(fence.value.load(), 6, "value after both");
    Ok(())
}

fn error_signals(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(3)?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let nowhere = Packet::Wait(campanile_hw::packet::Wait { handle: 0, current: 0x7000_0000_0000, value: 1 });
    rig.submit_doomed(&mut queue, &[nowhere])?;
    wait_until("the signal for good", || fence.value.load() == u64::MAX)
}

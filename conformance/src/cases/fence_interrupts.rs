//! Interrupts of native fences: none is missed, one may stand for many, and those too many do no harm.

use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use crate::rig::RawFence;
use crate::{Boot, Case, Event, Failure, granted};

cases! { thunks "FenceInterrupts", needs HardwareScheduling;
    "FenceInterrupts.SignalsOfTwoEnginesWakeEveryWaiter" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "No wait is missed when two engines signal watched fences at the same time."
        holds [NativeFence 45]
        => two_engines;
    "FenceInterrupts.SpuriousOnesSatisfyNoWait" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "An interrupt for a value that satisfies no wait leaves every waiter waiting."
        holds [NativeFence 28]
        => spurious;
}

/// Fences with an event each that is set at `value`.
pub fn watched(rig: &crate::rig::Rig, count: usize, value: u64) -> Result<Vec<(RawFence, Event)>, Failure> {
    let make = |_| {
        let (fence, event) = (rig.fence(0)?, Event::new()?);
        granted(rig.wait_with_event(&[fence.handle], &[value], false, Some(event.number())), "wait with an event")?;
        Ok((fence, event))
    };
    (0..count).map(make).collect()
}

fn two_engines(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queues = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?];
    for _ in 0..100 {
        let watched = watched(&rig, 6, 1)?;
        for (index, (fence, _)) in watched.iter().enumerate() {
            rig.submit(&mut queues[index % 2], &[fence.signal(1)])?;
        }
        for (fence, event) in &watched {
            event.wait()?;
            granted(rig.destroy_fence(fence.handle), "destroying the fence")?;
        }
    }
    Ok(())
}

fn spurious(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let watched = watched(&rig, 2, 60)?;
    let (low, high) = (rig.fence(0)?, &watched[0].0);
    for value in 1..=50 {
        // Reported for one fence, while others stand below what is waited for.
        let event = Event::new()?;
        granted(rig.wait_with_event(&[low.handle], &[value], false, Some(event.number())), "wait with an event")?;
        rig.execute(&mut queue, &[high.signal(value), low.signal(value)])?;
        event.wait()?;
        for (_, event) in &watched {
            ensure!(!event.is_set()?, "a wait for 60 ended at {value}");
        }
    }
    rig.execute(&mut queue, &[watched[0].0.signal(60), watched[1].0.signal(61)])?;
    watched.iter().try_for_each(|(_, event)| event.wait())
}

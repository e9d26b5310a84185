//! Native fences: values, waits and signals from both sides, interrupts only where somebody watches.

use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use crate::rig::{Rig, wait_until};
use crate::{Boot, Case, Event, Failure, granted};

cases! { thunks "NativeFence";
    "NativeFence.StartsWithItsInitialValue" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A new native fence shows the initial value it was created with, on CPU and GPU."
        holds [NativeFence 1]
        => initial_value;
    "NativeFence.CpuSignalIsSeenByCpu" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "A signal from the CPU changes the current value that user mode reads."
        holds [NativeFence 1, NativeFence 4]
        => cpu_signal_seen;
    "NativeFence.GpuSignalIsSeenByCpu" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A signal on the GPU changes the current value that user mode reads, without a call into the kernel."
        holds [NativeFence 1, NativeFence 5]
        => gpu_signal_seen;
    "NativeFence.EveryWatchedSignalWakes" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "However signal and wait meet, no wake-up is ever missed."
        holds [NativeFence 23]
        => every_watched_signal_wakes;
    "NativeFence.WaitIsNotSatisfiedEarly" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A CPU wait stays unsatisfied while the fence is below the value, however often it is signalled below it."
        holds [NativeFence 2]
        => not_satisfied_early;
    "NativeFence.GpuWaitBlocksUntilCpuSignals" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A queue that waits on the GPU runs on after a signal from the CPU, and not before."
        holds [NativeFence 9]
        => gpu_wait_cpu_signal;
    "NativeFence.GpuWaitAcrossDevices" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "Queues of two devices of one process synchronise by one fence."
        holds [NativeFence 9]
        => across_devices;
    "NativeFence.OneSignalReleasesEveryGpuWaiter" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "One signal releases every queue that waits for its value or a smaller one, and none that waits for a greater one."
        holds [NativeFence 9]
        => releases_every_waiter;
    "NativeFence.WaitAllNeedsAll" needs NativeFence on Boot::Shared, "d3dkmtwaitforsynchronizationobjectfromcpu":
        "A CPU wait for several fences ends when the last of them has its value."
        holds [NativeFence 3]
        => wait_all;
    "NativeFence.WaitAnyNeedsOne" needs NativeFence on Boot::Shared, "d3dkmtwaitforsynchronizationobjectfromcpu":
        "A CPU wait for any of several fences ends with the first of them that has its value."
        holds [NativeFence 3]
        => wait_any;
    "NativeFence.EventIsSetWhenTheValueComes" needs UserModeSubmission on Boot::Shared, "d3dkmtwaitforsynchronizationobjectfromcpu":
        "A wait with an event returns at once, and the event is set when the value is reached."
        holds [NativeFence 2]
        => event_is_set;
}

fn initial_value(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for initial in [0, 1, 41, u64::from(u32::MAX) + 7, u64::MAX - 1] {
        let fence = rig.fence(initial)?;
        ensure_eq!(fence.value.load(), initial, "value of a new fence");
        rig.execute(&mut queue, &[fence.wait(initial)])?;
    }
    Ok(())
}

fn cpu_signal_seen(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(5)?;
    for value in [6, 7, 1 << 33, u64::MAX - 1] {
        granted(rig.signal(&[fence.handle], &[value]), "signal from the CPU")?;
        ensure_eq!(fence.value.load(), value, "value after the signal");
    }
    Ok(())
}

fn gpu_signal_seen(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    for value in [1, 2, 1 << 33, u64::MAX - 1] {
        rig.submit(&mut queue, &[fence.signal(value)])?;
        wait_until("the signal", || fence.value.load() == value)?;
    }
    Ok(())
}

fn every_watched_signal_wakes(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    // Submission and wait race; the wait must end whoever is first.
    for value in 1..=2000 {
        rig.submit(&mut queue, &[fence.signal(value)])?;
        granted(rig.wait(&[fence.handle], &[value], false), "wait")?;
        ensure!(fence.value.load() >= value, "the wait for {value} ended at {}", fence.value.load());
    }
    Ok(())
}

pub fn watch(rig: &Rig, fences: &[u32], values: &[u64], any: bool) -> Result<Event, Failure> {
    let event = Event::new()?;
    granted(rig.wait_with_event(fences, values, any, Some(event.number())), "wait with an event")?;
    Ok(event)
}

fn not_satisfied_early(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let event = watch(&rig, &[fence.handle], &[100], false)?;
    for value in 1..100 {
        rig.execute(&mut queue, &[fence.signal(value)])?;
        ensure_eq!(event.times_set()?, 0, "the wait for 100 was satisfied at {value}");
    }
    granted(rig.signal(&[fence.handle], &[99]), "signal from the CPU")?;
    ensure_eq!(event.times_set()?, 0, "the wait for 100 was satisfied by the CPU at 99");
    rig.submit(&mut queue, &[fence.signal(100)])?;
    event.wait()
}

fn gpu_wait_cpu_signal(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut waiting, mut other) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?);
    let fence = rig.fence(0)?;
    for value in 1..=50 {
        let done = rig.submit(&mut waiting, &[fence.wait(value)])?;
        rig.execute(&mut other, &[])?;
        ensure_eq!(waiting.progress.load(), done - 1, "progress before the signal");
        granted(rig.signal(&[fence.handle], &[value]), "signal from the CPU")?;
        wait_until("the waiting queue", || waiting.progress.load() == done)?;
    }
    Ok(())
}

fn across_devices(case: &Case) -> Result<(), Failure> {
    let first = case.rig()?;
    let second = Rig::on_adapter(first.kmt, first.adapter)?;
    let (mut waiting, mut signalling) = (first.queue(NODE_COMPUTE)?, second.queue(NODE_COPY)?);
    let fence = first.fence(0)?;
    for value in 1..=50 {
        let done = first.submit(&mut waiting, &[fence.wait(value)])?;
        second.submit(&mut signalling, &[fence.signal(value)])?;
        wait_until("the waiting queue", || waiting.progress.load() == done)?;
    }
    Ok(())
}

fn releases_every_waiter(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (fence, mut begun) = (rig.fence(0)?, Vec::new());
    let mut queues = (0..8).map(|_| rig.queue(NODE_COMPUTE)).collect::<Result<Vec<_>, _>>()?;
    for (queue, value) in queues.iter_mut().zip(1..) {
        let ahead = rig.fence(0)?;
        rig.submit(queue, &[ahead.signal(1), fence.wait(value)])?;
        begun.push(ahead);
    }
    // A queue that executed the signal ahead of its wait has left the node before another one is executed there.
    wait_until("the signals ahead of the waits", || begun.iter().all(|ahead| ahead.value.load() == 1))?;
    rig.execute(&mut rig.queue(NODE_COMPUTE)?, &[])?;
    let mut signalling = rig.queue(NODE_COPY)?;
    rig.execute(&mut signalling, &[fence.signal(5)])?;
    wait_until("the queues that wait for at most 5", || queues.iter().take(5).all(|queue| queue.progress.load() == 1))?;
    rig.execute(&mut signalling, &[])?;
    let greater = queues.iter().skip(5).filter(|queue| queue.progress.load() != 0).count();
    ensure_eq!(greater, 0, "queues released that wait for more than 5");
    rig.execute(&mut signalling, &[fence.signal(u64::MAX - 1)])?;
    wait_until("all queues", || queues.iter().all(|queue| queue.progress.load() == 1))
}

fn wait_all(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fences = [rig.fence(0)?, rig.fence(0)?, rig.fence(0)?];
    let handles = fences.map(|fence| fence.handle);
    let event = watch(&rig, &handles, &[1, 2, 3], false)?;
    for (signalled, set) in [(1, false), (0, false), (2, true)] {
        ensure_eq!(event.times_set()?, 0, "the event was set before all fences had their values");
        granted(rig.signal(&[handles[signalled]], &[signalled as u64 + 1]), "signal from the CPU")?;
        if set {
            event.wait()?;
        }
    }
    granted(rig.wait(&handles, &[1, 2, 3], false), "the same wait again, blocking")
}

fn wait_any(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for winner in 0..3 {
        let handles = [rig.fence(0)?.handle, rig.fence(0)?.handle, rig.fence(0)?.handle];
        let event = watch(&rig, &handles, &[1, 1, 1], true)?;
        ensure_eq!(event.times_set()?, 0, "the event was set before any fence had its value");
        granted(rig.signal(&[handles[winner]], &[1]), "signal from the CPU")?;
        event.wait()?;
        granted(rig.wait(&handles, &[1, 1, 1], true), "the same wait again, blocking")?;
    }
    Ok(())
}

fn event_is_set(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    for value in 1..=100 {
        let event = watch(&rig, &[fence.handle], &[value], false)?;
        ensure_eq!(event.times_set()?, 0, "the event was set before the signal");
        rig.submit(&mut queue, &[fence.signal(value)])?;
        wait_until("the event", || event.times_set().is_ok_and(|times| times == 1))?;
        ensure!(fence.value.load() >= value, "the event was set before the value was there");
    }
    let passed = watch(&rig, &[fence.handle], &[1], false)?;
    wait_until("the event of a passed value", || passed.times_set().is_ok_and(|times| times == 1))
}

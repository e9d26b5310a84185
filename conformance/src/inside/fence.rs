//! Native fences: values, waits and signals from both sides, interrupts only where somebody watches.

use crate::cases::fence::watch;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use super::fence_interrupts::interrupts;
use crate::rig::{RawFence, Rig, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted};
use testbed::user::{Device, Error, Fence};

cases! { inside "NativeFence", behind "it counts interrupts and commands, or goes through the user-mode driver";
    "NativeFence.SignalWakesCpuWaiter" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A CPU that waits for a value wakes when the GPU signals it."
        holds [NativeFence 2, NativeFence 17, AllocationUsage 8]
        => signal_wakes_waiter;
    "NativeFence.PassedValueDoesNotBlock" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "Waiting on the CPU for a value that is reached or passed returns at once."
        holds [NativeFence 2]
        => passed_value;
    "NativeFence.UnwatchedSignalsRaiseNoInterrupt" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "While no CPU waits, the monitored value is the maximum and signals on the GPU raise no interrupt."
        holds [NativeFence 11]
        => unwatched_signals;
    "NativeFence.SignalsBelowTheWaitRaiseNoInterrupt" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "The monitored value is the least value waited for minus one, so signals below a waited value raise no interrupt."
        holds [NativeFence 11]
        => signals_below_wait;
    "NativeFence.WatchingEndsWithTheLastWaiter" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "After the last CPU waiter is gone, signals of the same fence raise no interrupt again."
        holds [NativeFence 11]
        => watching_ends;
    "NativeFence.GpuWaitBlocksUntilOtherNodeSignals" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A queue that waits on one node runs on after a signal on another node, and the CPU takes no part."
        holds [NativeFence 9]
        => across_nodes;
    "NativeFence.PingPongNeedsNoCpu" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "Two queues on two nodes alternate a thousand times by waits and signals on the GPU, without one interrupt."
        holds [NativeFence 9]
        => ping_pong;
    "NativeFence.DriverWaitTimesOut" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "A wait of the user-mode driver with a time limit ends by the limit, and the fence works on."
        holds [NativeFence 2]
        => wait_times_out;
}

/// Has the GPU signal `value` once `gate` opens, so that the CPU can be waiting before it does.
fn signal_behind_gate(
    rig: &Rig,
    queue: &mut crate::rig::RawQueue,
    gate: &RawFence,
    fence: &RawFence,
    value: u64,
) -> Result<(), Failure> {
    rig.submit(queue, &[gate.wait(value), fence.signal(value)]).map(drop)
}

fn signal_wakes_waiter(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (gate, fence) = (rig.fence(0)?, rig.fence(0)?);
    for value in 1..=50 {
        signal_behind_gate(&rig, &mut queue, &gate, &fence, value)?;
        let before = interrupts(case);
        std::thread::scope(|scope| {
            let waiter = scope
                .spawn(|| on_thread(&case.process, || granted(rig.wait(&[fence.handle], &[value], false), "wait")));
            // Most rounds open the gate while the waiter sleeps in the kernel, the others on its way there.
            if value % 5 != 0 {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            granted(rig.signal(&[gate.handle], &[value]), "opening the gate")?;
            waiter.join().unwrap_or_else(|_| Err(Failure::new("the waiter panicked")))
        })?;
        ensure_eq!(fence.value.load(), value, "value after the wait");
        ensure!(interrupts(case) - before <= 2, "round {value}: one wake took {}", interrupts(case) - before);
    }
    Ok(())
}

fn passed_value(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(10)?;
    let before = interrupts(case);
    for value in [0, 1, 9, 10] {
        granted(rig.wait(&[fence.handle], &[value], false), "waiting for a passed value")?;
    }
    ensure_eq!(interrupts(case), before, "interrupts after waits for passed values");
    Ok(())
}

fn unwatched_signals(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    rig.execute(&mut queue, &[])?;
    let (before, silent) = (case.system.counters(), interrupts(case));
    for value in 1..=5_000 {
        rig.submit(&mut queue, &[fence.signal(value)])?;
    }
    wait_until("the last signal", || fence.value.load() == 5_000)?;
    let counted = case.system.counters().since(&before);
    ensure_eq!(counted.signals, 5_000, "signals executed");
    ensure_eq!(interrupts(case), silent, "interrupts for signals that nobody watches");
    Ok(())
}

fn signals_below_wait(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    rig.execute(&mut queue, &[])?;
    let high = watch(&rig, &[fence.handle], &[1_000], false)?;
    let low = watch(&rig, &[fence.handle], &[500], false)?;
    let before = interrupts(case);
    for value in 1..500 {
        rig.execute(&mut queue, &[fence.signal(value)])?;
    }
    ensure_eq!(interrupts(case), before, "interrupts for signals below the least waited value");
    rig.execute(&mut queue, &[fence.signal(500)])?;
    low.wait()?;
    let between = interrupts(case);
    ensure!(between > before, "the signal of 500 raised no interrupt");
    for value in 501..1_000 {
        rig.execute(&mut queue, &[fence.signal(value)])?;
    }
    ensure_eq!(interrupts(case), between, "interrupts for signals below the remaining waited value");
    ensure_eq!(high.times_set()?, 0, "the wait for 1000 was satisfied early");
    rig.execute(&mut queue, &[fence.signal(1_000)])?;
    high.wait()
}

fn watching_ends(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    rig.execute(&mut queue, &[])?;
    for round in 0..10 {
        let value = 1 + round * 100;
        let event = watch(&rig, &[fence.handle], &[value], false)?;
        rig.execute(&mut queue, &[fence.signal(value)])?;
        event.wait()?;
        let before = interrupts(case);
        for later in 1..100 {
            rig.execute(&mut queue, &[fence.signal(value + later)])?;
        }
        ensure_eq!(interrupts(case), before, "interrupts after the last waiter of round {round} was gone");
    }
    Ok(())
}

fn across_nodes(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut waiting, mut signalling) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let fence = rig.fence(0)?;
    rig.execute(&mut waiting, &[])?;
    rig.execute(&mut signalling, &[])?;
    let before = interrupts(case);
    for value in 1..=200 {
        let done = rig.submit(&mut waiting, &[fence.wait(value)])?;
        rig.submit(&mut signalling, &[fence.signal(value)])?;
        wait_until("the waiting queue", || waiting.progress.load() == done)?;
    }
    ensure_eq!(interrupts(case), before, "interrupts for waits on the GPU");
    Ok(())
}

fn ping_pong(case: &mut Case<'_>) -> Result<(), Failure> {
    const TURNS: u64 = 1_000;
    let rig = case.rig()?;
    let (mut left, mut right) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let (ping, pong) = (rig.fence(0)?, rig.fence(0)?);
    rig.execute(&mut left, &[])?;
    rig.execute(&mut right, &[])?;
    let (before, silent) = (case.system.counters(), interrupts(case));
    for turn in 1..=TURNS {
        rig.submit(&mut left, &[pong.wait(turn - 1), ping.signal(turn)])?;
        rig.submit(&mut right, &[ping.wait(turn), pong.signal(turn)])?;
    }
    wait_until("the last turn", || pong.value.load() == TURNS)?;
    let counted = case.system.counters().since(&before);
    ensure_eq!((counted.signals, counted.waits), (2 * TURNS, 2 * TURNS), "signals and waits executed");
    ensure_eq!(interrupts(case), silent, "interrupts for synchronisation on the GPU");
    Ok(())
}

fn wait_times_out(case: &mut Case<'_>) -> Result<(), Failure> {
    let device: Device = case.device()?;
    let fence = Fence::new(&device, 0)?;
    for limit in [0, 1, 20] {
        match fence.wait(1, Some(std::time::Duration::from_millis(limit))) {
            Err(Error::Timeout) => {}
            other => return Err(Failure::new(format!("a wait limited to {limit} ms ended with {other:?}"))),
        }
    }
    fence.signal(1)?;
    fence.wait(1, Some(std::time::Duration::ZERO))?;
    ensure_eq!(fence.value(), 1, "value after all");
    Ok(())
}

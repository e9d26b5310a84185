//! Native fences: values, waits and signals from both sides, interrupts only where somebody watches.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use super::case::{Boot, Case, Failure, granted, on_thread};
use super::rig::{RawFence, Rig, wait_until};
use crate::user::{Device, Error, Fence};

cases! { "NativeFence";
    "NativeFence.StartsWithItsInitialValue" on Boot::Shared, "native-gpu-fence-objects":
        "A new native fence shows the initial value it was created with, on CPU and GPU."
        => initial_value;
    "NativeFence.CpuSignalIsSeenByCpu" on Boot::Shared, "native-gpu-fence-objects":
        "A signal from the CPU changes the current value that user mode reads."
        => cpu_signal_seen;
    "NativeFence.GpuSignalIsSeenByCpu" on Boot::Shared, "native-gpu-fence-objects":
        "A signal on the GPU changes the current value that user mode reads, without a call into the kernel."
        => gpu_signal_seen;
    "NativeFence.SignalWakesCpuWaiter" on Boot::Shared, "native-gpu-fence-objects":
        "A CPU that waits for a value wakes when the GPU signals it."
        => signal_wakes_waiter;
    "NativeFence.EveryWatchedSignalWakes" on Boot::Shared, "native-gpu-fence-objects":
        "However signal and wait meet, no wake-up is ever missed."
        => every_watched_signal_wakes;
    "NativeFence.PassedValueDoesNotBlock" on Boot::Shared, "native-gpu-fence-objects":
        "Waiting on the CPU for a value that is reached or passed returns at once."
        => passed_value;
    "NativeFence.WaitIsNotSatisfiedEarly" on Boot::Shared, "native-gpu-fence-objects":
        "A CPU wait stays unsatisfied while the fence is below the value, however often it is signalled below it."
        => not_satisfied_early;
    "NativeFence.UnwatchedSignalsRaiseNoInterrupt" on Boot::Shared, "native-gpu-fence-objects":
        "While no CPU waits, the monitored value is the maximum and signals on the GPU raise no interrupt."
        => unwatched_signals;
    "NativeFence.SignalsBelowTheWaitRaiseNoInterrupt" on Boot::Shared, "native-gpu-fence-objects":
        "The monitored value is the least value waited for minus one, so signals below a waited value raise no interrupt."
        => signals_below_wait;
    "NativeFence.WatchingEndsWithTheLastWaiter" on Boot::Shared, "native-gpu-fence-objects":
        "After the last CPU waiter is gone, signals of the same fence raise no interrupt again."
        => watching_ends;
    "NativeFence.GpuWaitHoldsUntilCpuSignals" on Boot::Shared, "native-gpu-fence-objects":
        "A queue that waits on the GPU runs on after a signal from the CPU, and not before."
        => gpu_wait_cpu_signal;
    "NativeFence.GpuWaitHoldsUntilOtherNodeSignals" on Boot::Shared, "native-gpu-fence-objects":
        "A queue that waits on one node runs on after a signal on another node, and the CPU takes no part."
        => across_nodes;
    "NativeFence.GpuWaitAcrossDevices" on Boot::Shared, "native-gpu-fence-objects":
        "Queues of two devices of one process synchronise by one fence."
        => across_devices;
    "NativeFence.PingPongNeedsNoCpu" on Boot::Shared, "native-gpu-fence-objects":
        "Two queues on two nodes take turns a thousand times by waits and signals on the GPU, without one interrupt."
        => ping_pong;
    "NativeFence.OneSignalReleasesEveryGpuWaiter" on Boot::Shared, "native-gpu-fence-objects":
        "One signal releases every queue that waits for its value or a smaller one, and none that waits for a greater one."
        => releases_every_waiter;
    "NativeFence.WaitAllNeedsAll" on Boot::Shared, "d3dkmtwaitforsynchronizationobjectfromcpu":
        "A CPU wait for several fences ends when the last of them has its value."
        => wait_all;
    "NativeFence.WaitAnyNeedsOne" on Boot::Shared, "d3dkmtwaitforsynchronizationobjectfromcpu":
        "A CPU wait for any of several fences ends with the first of them that has its value."
        => wait_any;
    "NativeFence.EventIsSetWhenTheValueComes" on Boot::Shared, "d3dkmtwaitforsynchronizationobjectfromcpu":
        "A wait with an event returns at once, and the event is set when the value is reached."
        => event_is_set;
    "NativeFence.DriverWaitTimesOut" on Boot::Shared, "native-gpu-fence-objects":
        "A wait of the user-mode driver with a time limit ends by the limit, and the fence works on."
        => wait_times_out;
}

/// Interrupts that the GPU sent so far.
fn interrupts(case: &Case<'_>) -> u64 {
    case.system.counters().interrupts
}

fn initial_value(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for initial in [0, 1, 41, u64::from(u32::MAX) + 7, u64::MAX - 1] {
        let fence = rig.fence(initial)?;
        ensure_eq!(fence.value.load(), initial, "value of a new fence");
        rig.execute(&mut queue, &[fence.wait(initial)])?;
    }
    Ok(())
}

fn cpu_signal_seen(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(5)?;
    for value in [6, 7, 1 << 33, u64::MAX - 1] {
        granted(rig.signal(&[fence.handle], &[value]), "signal from the CPU")?;
        ensure_eq!(fence.value.load(), value, "value after the signal");
    }
    Ok(())
}

fn gpu_signal_seen(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    for value in [1, 2, 1 << 33, u64::MAX - 1] {
        rig.submit(&mut queue, &[fence.signal(value)])?;
        wait_until("the signal", || fence.value.load() == value)?;
    }
    Ok(())
}

/// Has the GPU signal `value` once `gate` opens, so that the CPU can be waiting before it does.
fn signal_behind_gate(
    rig: &Rig,
    queue: &mut super::rig::RawQueue,
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

fn every_watched_signal_wakes(case: &mut Case<'_>) -> Result<(), Failure> {
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

/// A new event, not set.
fn event() -> Result<OwnedFd, Failure> {
    // SAFETY: eventfd takes plain numbers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: the descriptor was just created and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// How often the event was set since the last look.
fn times_set(event: &OwnedFd) -> u64 {
    let mut count = 0_u64;
    // SAFETY: the buffer is the eight bytes that an eventfd delivers.
    let read = unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), 8) };
    if read == 8 { count } else { 0 }
}

fn watch(rig: &Rig, fences: &[u32], values: &[u64], any: bool) -> Result<OwnedFd, Failure> {
    let event = event()?;
    granted(rig.wait_with_event(fences, values, any, Some(event.as_raw_fd())), "wait with an event")?;
    Ok(event)
}

fn not_satisfied_early(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let event = watch(&rig, &[fence.handle], &[100], false)?;
    for value in 1..100 {
        rig.execute(&mut queue, &[fence.signal(value)])?;
        ensure_eq!(times_set(&event), 0, "the wait for 100 was satisfied at {value}");
    }
    granted(rig.signal(&[fence.handle], &[99]), "signal from the CPU")?;
    ensure_eq!(times_set(&event), 0, "the wait for 100 was satisfied by the CPU at 99");
    rig.submit(&mut queue, &[fence.signal(100)])?;
    wait_until("the event", || times_set(&event) != 0)
}

fn unwatched_signals(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    rig.execute(&mut queue, &[])?;
    let before = case.system.counters();
    for value in 1..=5_000 {
        rig.submit(&mut queue, &[fence.signal(value)])?;
    }
    wait_until("the last signal", || fence.value.load() == 5_000)?;
    let counted = case.system.counters().since(&before);
    ensure_eq!(counted.signals, 5_000, "signals executed");
    ensure_eq!(counted.interrupts, 0, "interrupts for signals that nobody watches");
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
    wait_until("the event for 500", || times_set(&low) != 0)?;
    let between = interrupts(case);
    ensure!(between > before, "the signal of 500 raised no interrupt");
    for value in 501..1_000 {
        rig.execute(&mut queue, &[fence.signal(value)])?;
    }
    ensure_eq!(interrupts(case), between, "interrupts for signals below the remaining waited value");
    ensure_eq!(times_set(&high), 0, "the wait for 1000 was satisfied early");
    rig.execute(&mut queue, &[fence.signal(1_000)])?;
    wait_until("the event for 1000", || times_set(&high) != 0)
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
        wait_until("the event", || times_set(&event) != 0)?;
        let before = interrupts(case);
        for later in 1..100 {
            rig.execute(&mut queue, &[fence.signal(value + later)])?;
        }
        ensure_eq!(interrupts(case), before, "interrupts after the last waiter of round {round} was gone");
    }
    Ok(())
}

fn gpu_wait_cpu_signal(case: &mut Case<'_>) -> Result<(), Failure> {
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

fn across_devices(case: &mut Case<'_>) -> Result<(), Failure> {
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

fn ping_pong(case: &mut Case<'_>) -> Result<(), Failure> {
    const TURNS: u64 = 1_000;
    let rig = case.rig()?;
    let (mut left, mut right) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let (ping, pong) = (rig.fence(0)?, rig.fence(0)?);
    rig.execute(&mut left, &[])?;
    rig.execute(&mut right, &[])?;
    let before = case.system.counters();
    for turn in 1..=TURNS {
        rig.submit(&mut left, &[pong.wait(turn - 1), ping.signal(turn)])?;
        rig.submit(&mut right, &[ping.wait(turn), pong.signal(turn)])?;
    }
    wait_until("the last turn", || pong.value.load() == TURNS)?;
    let counted = case.system.counters().since(&before);
    ensure_eq!((counted.signals, counted.waits), (2 * TURNS, 2 * TURNS), "signals and waits executed");
    ensure_eq!(counted.interrupts, 0, "interrupts for synchronisation on the GPU");
    Ok(())
}

fn releases_every_waiter(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(0)?;
    let mut queues = (0..8).map(|_| rig.queue(NODE_COMPUTE)).collect::<Result<Vec<_>, _>>()?;
    for (index, queue) in queues.iter_mut().enumerate() {
        rig.submit(queue, &[fence.wait(index as u64 + 1)])?;
    }
    let mut signalling = rig.queue(NODE_COPY)?;
    rig.execute(&mut signalling, &[fence.signal(5)])?;
    wait_until("the queues that wait for at most 5", || queues.iter().take(5).all(|queue| queue.progress.load() == 1))?;
    rig.execute(&mut signalling, &[])?;
    let greater = queues.iter().skip(5).filter(|queue| queue.progress.load() != 0).count();
    ensure_eq!(greater, 0, "queues released that wait for more than 5");
    rig.execute(&mut signalling, &[fence.signal(u64::MAX - 1)])?;
    wait_until("all queues", || queues.iter().all(|queue| queue.progress.load() == 1))
}

fn wait_all(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fences = [rig.fence(0)?, rig.fence(0)?, rig.fence(0)?];
    let handles = fences.map(|fence| fence.handle);
    let event = watch(&rig, &handles, &[1, 2, 3], false)?;
    for (signalled, set) in [(1, false), (0, false), (2, true)] {
        ensure_eq!(times_set(&event), 0, "the event was set before all fences had their values");
        granted(rig.signal(&[handles[signalled]], &[signalled as u64 + 1]), "signal from the CPU")?;
        if set {
            wait_until("the event", || times_set(&event) != 0)?;
        }
    }
    granted(rig.wait(&handles, &[1, 2, 3], false), "the same wait again, blocking")
}

fn wait_any(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for winner in 0..3 {
        let handles = [rig.fence(0)?.handle, rig.fence(0)?.handle, rig.fence(0)?.handle];
        let event = watch(&rig, &handles, &[1, 1, 1], true)?;
        ensure_eq!(times_set(&event), 0, "the event was set before any fence had its value");
        granted(rig.signal(&[handles[winner]], &[1]), "signal from the CPU")?;
        wait_until("the event", || times_set(&event) != 0)?;
        granted(rig.wait(&handles, &[1, 1, 1], true), "the same wait again, blocking")?;
    }
    Ok(())
}

fn event_is_set(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    for value in 1..=100 {
        let event = watch(&rig, &[fence.handle], &[value], false)?;
        ensure_eq!(times_set(&event), 0, "the event was set before the signal");
        rig.submit(&mut queue, &[fence.signal(value)])?;
        wait_until("the event", || times_set(&event) == 1)?;
        ensure!(fence.value.load() >= value, "the event was set before the value was there");
    }
    let passed = watch(&rig, &[fence.handle], &[1], false)?;
    wait_until("the event of a passed value", || times_set(&passed) == 1)
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

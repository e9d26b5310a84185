//! Values at their bounds, queues that wait while other things happen to them, and waiters in great numbers.

use crate::cases::fence_waits::watch;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;
use wddm_ddi::status::*;

use super::fence_interrupts::{Event, interrupts};
use crate::rig::{Rig, wait_until};
use crate::simulated::{Case, on_thread, one_doorbell};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::SystemOptions;

cases! { inside "FenceWaits", needs HardwareScheduling, behind "it counts interrupts, or moves the clock on";
    "FenceWaits.ValuesAtTheirBounds" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "Waits for 0 are over before they begin, on processor and GPU; waits for the greatest value last until exactly that is signalled, and nothing can be signalled behind it."
        holds [NativeFence 5, NativeFence 15]
        => bounds;
    "FenceWaits.PassedValuesBlockNoQueue" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A queue that waits for values that are reached or passed is not blocked, and is not put on any list of waiting queues."
        holds [NativeFence 9]
        => passed_on_gpu;
    "FenceWaits.WaitsBeforeTheirSignals" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "Waits that are queued long before their signals, on several engines and in chains, end in the order of the signals."
        holds [NativeFence 9]
        => wait_before_signal;
    "FenceWaits.BlockedQueuesCostNothing" needs UserModeSubmission on Boot::With(stepped), "native-gpu-fence-objects":
        "While queues wait, work of others looks at none of them, and a signal looks at exactly those that wait for its fence."
        holds [NativeFence 10]
        => blocked_cost_nothing;
    "FenceWaits.DisconnectedWhileItWaits" needs UserModeSubmission on Boot::With(one_doorbell), "user-mode-work-submission":
        "A waiting queue that loses its doorbell to another one goes on when its fence is signalled, and takes work again when it is rung again."
        holds [NativeFence 10, UserModeSubmission 29]
        => disconnected_while_waiting;
    "FenceWaits.ProcessDiesWhileItWaits" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A process that dies while its queue and its processor wait for a fence of another device leaves that fence and its other waiters as they were."
        holds [NativeFence 10]
        => process_dies;
    "FenceWaits.TenThousandWaitersOnOneFence" needs UserModeSubmission on Boot::With(SystemOptions::default), "native-gpu-fence-objects":
        "Of ten thousand waits of the processor on one fence, a signal ends exactly those whose value it reaches, with one interrupt."
        holds [NativeFence 16]
        => ten_thousand;
    "FenceWaits.ThousandFencesWithAWaiterEach" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A thousand fences with a waiter each are signalled with at most one interrupt a signal, each waiter is woken once, and further signals are silent."
        holds [NativeFence 16]
        => thousand_fences;
}

fn stepped() -> SystemOptions {
    SystemOptions { threads: false, ..SystemOptions::default() }
}

fn bounds(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut waiting, mut signalling) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    for by_gpu in [true, false] {
        let fence = rig.fence(0)?;
        granted(rig.wait(&[fence.handle], &[0], false), "a wait for 0")?;
        ensure!(watch(&rig, &fence, 0)?.is_set()?, "an event for 0 is not set at once");
        rig.execute(&mut waiting, &[fence.wait(0)])?;
        let last = watch(&rig, &fence, u64::MAX)?;
        let held = rig.submit(&mut waiting, &[fence.wait(u64::MAX)])?;
        let signal = |queue: &mut crate::rig::RawQueue, value| match by_gpu {
            true => rig.execute(queue, &[fence.signal(value)]),
            false => granted(rig.signal(&[fence.handle], &[value]), "a signal of the processor"),
        };
        signal(&mut signalling, u64::MAX - 1)?;
        rig.execute(&mut signalling, &[])?;
        ensure!(!last.is_set()?, "the wait for the greatest value ended below it");
        ensure_eq!(waiting.progress.load(), held - 1, "progress of the queue that waits for the greatest value");
        let before = interrupts(case);
        signal(&mut signalling, u64::MAX)?;
        last.wait()?;
        wait_until("the waiting queue", || waiting.progress.load() == held)?;
        ensure_eq!(interrupts(case) - before, u64::from(by_gpu), "interrupts for the greatest value");
        refused(rig.signal(&[fence.handle], &[0]), &[STATUS_INVALID_PARAMETER], "a signal behind the greatest value")?;
        ensure_eq!(fence.value.load(), u64::MAX, "value after the refusal");
    }
    Ok(())
}

fn passed_on_gpu(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(10)?;
    rig.execute(&mut queue, &[])?;
    let (waits, visits) = (case.system.counters().waits, case.system.gpu().activity().waiter_visits);
    for _ in 0..20 {
        rig.execute(&mut queue, &[fence.wait(0), fence.wait(9), fence.wait(10)])?;
    }
    ensure_eq!(case.system.counters().waits - waits, 60, "waits");
    ensure_eq!(case.system.gpu().activity().waiter_visits, visits, "waiting queues looked at");
    Ok(())
}

fn wait_before_signal(case: &mut Case<'_>) -> Result<(), Failure> {
    const LINKS: usize = 16;
    let rig = case.rig()?;
    let fences = (0..=LINKS).map(|_| rig.fence(0)).collect::<Result<Vec<_>, _>>()?;
    let node = |link: usize| if link.is_multiple_of(2) { NODE_COMPUTE } else { NODE_COPY };
    let mut queues = (0..LINKS).map(|link| rig.queue(node(link))).collect::<Result<Vec<_>, _>>()?;
    // The last link first, so that every wait is there before its signal.
    for (link, queue) in queues.iter_mut().enumerate().rev() {
        rig.submit(queue, &[fences[link].wait(1), fences[link + 1].signal(1)])?;
    }
    let mut other = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut other, &[])?;
    ensure!(fences.iter().all(|fence| fence.value.load() == 0), "a link ran before its signal");
    let before = interrupts(case);
    granted(rig.signal(&[fences[0].handle], &[1]), "the first signal")?;
    wait_until("the last link", || fences[LINKS].value.load() == 1)?;
    ensure!(fences.iter().all(|fence| fence.value.load() == 1), "a link was left out");
    ensure_eq!(interrupts(case), before, "interrupts of waits and signals on the GPU");
    Ok(())
}

fn blocked_cost_nothing(case: &mut Case<'_>) -> Result<(), Failure> {
    const BLOCKED: usize = 40;
    let rig = case.rig()?;
    let gpu = case.system.gpu().clone();
    let settle = || while gpu.step() {};
    let mut working = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let mut next = 0;
    let mut work = |working: &mut crate::rig::RawQueue| -> Result<(u64, u64), Failure> {
        let before = gpu.activity();
        for _ in 0..50 {
            next += 1;
            rig.submit(working, &[fence.signal(next), fence.wait(next)])?;
            settle();
        }
        let after = gpu.activity();
        Ok((after.queue_visits - before.queue_visits, after.waiter_visits - before.waiter_visits))
    };
    work(&mut working)?;
    let alone = work(&mut working)?;
    let gates = (0..BLOCKED).map(|_| rig.fence(0)).collect::<Result<Vec<_>, _>>()?;
    let mut queues = (0..BLOCKED).map(|_| rig.queue(NODE_COMPUTE)).collect::<Result<Vec<_>, _>>()?;
    for (queue, gate) in queues.iter_mut().zip(&gates) {
        rig.submit(queue, &[gate.wait(1)])?;
        settle();
    }
    ensure_eq!(work(&mut working)?, alone, "queues and waiting queues looked at beside {BLOCKED} that wait");
    let before = gpu.activity().waiter_visits;
    rig.submit(&mut working, &gates.iter().take(8).map(|gate| gate.signal(1)).collect::<Vec<_>>())?;
    settle();
    ensure_eq!(gpu.activity().waiter_visits - before, 8, "waiting queues looked at by the signals of eight");
    let released = queues.iter().filter(|queue| queue.progress.load() == 1).count();
    ensure_eq!(released, 8, "queues released by the signals of eight");
    Ok(())
}

fn disconnected_while_waiting(case: &mut Case<'_>) -> Result<(), Failure> {
    const RETRY: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;
    let rig = case.rig()?;
    let (mut waiting, mut other) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?);
    let fence = rig.fence(0)?;
    for round in 1..=20 {
        let held = rig.submit(&mut waiting, &[fence.wait(2 * round - 1)])?;
        rig.execute(&mut other, &[])?;
        ensure_eq!(waiting.doorbell.state(), RETRY, "status of the doorbell that another queue took");
        ensure_eq!(waiting.progress.load(), held - 1, "progress before the signal");
        granted(rig.signal(&[fence.handle], &[2 * round - 1]), "the signal")?;
        wait_until("the disconnected queue", || waiting.progress.load() == held)?;
        rig.execute(&mut waiting, &[fence.signal(2 * round)])?;
    }
    Ok(())
}

fn process_dies(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.shared_fence(0)?;
    let handle = rig.share(&[fence.handle]).map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    let event = watch(&rig, &fence, 1)?;
    let mut queue = rig.queue(NODE_COPY)?;
    let held = rig.submit(&mut queue, &[fence.wait(1)])?;
    let process = dxgkrnl::Process::new(case.system.machine(), "dying");
    let theirs = case.process.duplicate_handle(handle.raw(), &process);
    let theirs = theirs.map(|handle| crate::rig::KernelHandle(handle.addr()));
    let theirs = theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?;
    let luid = case.system.luid();
    let died = std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let process = &process;
        let blocked = scope.spawn(move || {
            on_thread(process, || {
                let other = Rig::open(luid)?;
                let opened = other.open_fence(theirs)?;
                let mut queue = other.queue(NODE_COMPUTE)?;
                other.submit(&mut queue, &[opened.wait(1), opened.signal(9)])?;
                let _ = sender.send(());
                Ok(other.wait(&[opened.handle], &[1], false))
            })
        });
        let _ = receiver.recv();
        process.exit();
        blocked.join().unwrap_or_else(|_| Err(Failure::new("the thread of the dying process panicked")))
    })?;
    ensure!(!died.is_success(), "a wait of the dead process succeeded");
    ensure_eq!(fence.value.load(), 0, "value after the process died");
    ensure!(!event.is_set()?, "a wait of the living process ended");
    granted(rig.signal(&[fence.handle], &[1]), "the signal")?;
    event.wait()?;
    wait_until("the queue of the living process", || queue.progress.load() == held)?;
    rig.execute(&mut queue, &[])?;
    ensure_eq!(fence.value.load(), 1, "value that the dead process would have changed");
    Ok(())
}

/// Lets this process have as many descriptors as its limit allows; how many that is.
fn raise_descriptors() -> Result<u64, Failure> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: there is space for the limits.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the limits are read only.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(limit.rlim_cur)
}

fn ten_thousand(case: &mut Case<'_>) -> Result<(), Failure> {
    const WAITERS: u64 = 10_000;
    // Each wait keeps a descriptor of the event; other cases need some beside them, so that this one does not run on several
    // GPUs at a time.
    let most = raise_descriptors()?;
    ensure!(most >= WAITERS + 4096, "the host allows {most} descriptors, ten thousand waits need more");
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    rig.execute(&mut queue, &[])?;
    let event = Event::new()?;
    // In an order that is not that of the values: 7919 has no factor in common with their number.
    for number in 0..WAITERS {
        let value = 1 + number * 7919 % WAITERS;
        let status = rig.wait_with_event(&[fence.handle], &[value], false, Some(event.number()));
        granted(status, "one of ten thousand waits")?;
    }
    let before = interrupts(case);
    let mut woken = 0;
    for (round, value) in (1..).zip([1, 2, 5_000, 9_999, WAITERS]) {
        rig.execute(&mut queue, &[fence.signal(value)])?;
        wait_until("the waits that are reached", || {
            woken += event.times_set().unwrap_or(0);
            woken >= value
        })?;
        ensure_eq!(woken, value, "waits over after a signal of {value}");
        ensure_eq!(interrupts(case) - before, round, "interrupts after {round} signals");
    }
    rig.execute(&mut queue, &[fence.signal(WAITERS + 1)])?;
    ensure_eq!(interrupts(case) - before, 5, "interrupts when nobody waits any more");
    Ok(())
}

fn thousand_fences(case: &mut Case<'_>) -> Result<(), Failure> {
    const FENCES: usize = 1_000;
    raise_descriptors()?;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fences = (0..FENCES).map(|_| rig.fence(0)).collect::<Result<Vec<_>, _>>()?;
    let events = fences.iter().map(|fence| watch(&rig, fence, 1)).collect::<Result<Vec<_>, _>>()?;
    rig.execute(&mut queue, &[])?;
    let before = interrupts(case);
    for some in fences.chunks(8) {
        rig.submit(&mut queue, &some.iter().map(|fence| fence.signal(1)).collect::<Vec<_>>())?;
    }
    events.iter().try_for_each(Event::wait)?;
    let last = queue.written();
    wait_until("the last signal", || queue.progress.load() >= last)?;
    let raised = interrupts(case) - before;
    ensure!((1..=FENCES as u64).contains(&raised), "{raised} interrupts for {FENCES} watched signals");
    for some in fences.chunks(8) {
        rig.execute(&mut queue, &some.iter().map(|fence| fence.signal(2)).collect::<Vec<_>>())?;
    }
    ensure_eq!(interrupts(case) - before, raised, "interrupts after all waits were over");
    for event in &events {
        ensure!(!event.is_set()?, "a waiter was woken twice");
    }
    Ok(())
}

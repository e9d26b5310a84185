//! Interrupts that name the queue which signalled: its fence log tells which fences and values, and wakes exactly those.

use campanile_hw::packet::{self, Packet};
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::{FeaturePolicy, FenceReports, Process};
use std::sync::Arc;

use super::fence_interrupts::Event;
use crate::rig::{RawFence, RawQueue, Rig, wait_until};
use crate::simulated::{Case, on_thread, with_gpu};
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;
use testbed::user::{Fence, Node, Queue, QueueOptions, SubmissionModel};

cases! { inside "OptimisedFenceInterrupt", needs HardwareScheduling, behind "it counts interrupts of hardware that it chooses";
    "OptimisedFenceInterrupt.ExampleE1ToE4" needs UserModeSubmission on Boot::With(optimised), "native-gpu-fence-objects":
        "Four signals of one queue, F1 to V1 and V2 and F2 to V3 twice, are logged, the last one interrupts and names the queue, and the log of that queue wakes the waiters for them, without a look at any other fence."
        holds [NativeFence 68]
        => example_e1_to_e4;
    "OptimisedFenceInterrupt.OnlyLoggedFencesAreLookedAt" needs UserModeSubmission on Boot::With(optimised), "native-gpu-fence-objects":
        "Of a hundred fences that are waited for, an interrupt looks at the one that the named queue's log has, and at no other."
        holds [NativeFence 67]
        => only_logged;
    "OptimisedFenceInterrupt.ProgressIsFoundInTheLog" needs UserModeSubmission on Boot::With(optimised), "native-gpu-fence-objects":
        "A native progress fence is signalled like any fence: its entry in the log of the named queue wakes its waiters, and nothing else is looked at."
        holds [NativeFence 67]
        => progress;
    "OptimisedFenceInterrupt.EachQueueIsReadByItself" needs UserModeSubmission on Boot::With(stepped), "native-gpu-fence-objects":
        "When queues of two engines signal before one interrupt is taken, it names each of them for its engine, and each log wakes its own waiters."
        holds [NativeFence 67]
        => two_engines;
    "OptimisedFenceInterrupt.CollapsedOnesStandForTheEngine" needs UserModeSubmission on Boot::With(stepped), "native-gpu-fence-objects":
        "When two queues of an engine signal before one interrupt is taken, it names none, and the logs of all the engine's queues are read."
        holds [NativeFence 69]
        => collapsed;
    "OptimisedFenceInterrupt.LostEntriesLeadToEveryFence" needs UserModeSubmission on Boot::With(stepped), "native-gpu-fence-objects":
        "When entries were overwritten before the interrupt was taken, every fence that the process has open and that is waited for is looked at, once, and all these waits end; fences of another process are not looked at."
        holds [NativeFence 70]
        => lost_entries;
    "OptimisedFenceInterrupt.WrongNamesHideNoSignal" needs UserModeSubmission on Boot::With(optimised), "native-gpu-fence-objects":
        "A packet that names no fence hides its signal from no waiter; one that names another fence than it signals ends no wait for that."
        holds [NativeFence 71]
        => wrong_names;
    "OptimisedFenceInterrupt.TracersTakeNoWakeUp" needs UserModeSubmission on Boot::With(optimised), "native-gpu-fence-objects":
        "Whoever reads the logs while fences are signalled and waited for takes no wake-up away."
        holds [NativeFence 67]
        => tracers;
    "OptimisedFenceInterrupt.KernelQueuesHaveNoLogToRead" on Boot::With(optimised), "native-gpu-fence-objects":
        "A queue that the kernel submits to has no log; an interrupt of its signals leads to every fence that its process has open and that is waited for."
        holds [NativeFence 71]
        => kernel_queue;
    "OptimisedFenceInterrupt.NeedsTheLogs" on Boot::With(without_logs), "native-gpu-fence-objects":
        "Without queues of user-mode submission there are no logs, the driver does not claim the interrupt, and signals wake their waiters all the same."
        holds [NativeFence 66]
        => without_logs_works;
    "OptimisedFenceInterrupt.PlainHardwareNamesFences" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "The driver claims the optimised interrupt on hardware that has it and on no other."
        holds [NativeFence 66]
        => claimed_where_it_is;
}

fn optimised() -> SystemOptions {
    with_gpu(|gpu| gpu.optimised_fence_interrupt = true)
}

fn stepped() -> SystemOptions {
    SystemOptions { threads: false, ..optimised() }
}

fn without_logs() -> SystemOptions {
    SystemOptions { features: FeaturePolicy { user_mode_submission: false, ..FeaturePolicy::default() }, ..optimised() }
}

fn reports(case: &Case<'_>) -> Result<FenceReports, Failure> {
    case.system.machine().fence_reports(case.system.luid()).ok_or_else(|| Failure::new("the adapter is gone"))
}

/// Difference between the counts of now and those of `earlier`.
fn since(case: &Case<'_>, earlier: FenceReports) -> Result<FenceReports, Failure> {
    let now = reports(case)?;
    Ok(FenceReports {
        of_queues: now.of_queues - earlier.of_queues,
        of_nodes: now.of_nodes - earlier.of_nodes,
        looked_at: now.looked_at - earlier.looked_at,
        of_processes: now.of_processes - earlier.of_processes,
        scans: now.scans - earlier.scans,
    })
}

fn watch(rig: &Rig, fence: &RawFence, value: u64) -> Result<Event, Failure> {
    let event = Event::new()?;
    granted(rig.wait_with_event(&[fence.handle], &[value], false, Some(event.number())), "wait with an event")?;
    Ok(event)
}

fn example_e1_to_e4(case: &mut Case<'_>) -> Result<(), Failure> {
    const V: [u64; 3] = [11, 12, 13];
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (f1, f2, other) = (rig.fence(0)?, rig.fence(0)?, rig.fence(0)?);
    let elsewhere = watch(&rig, &other, 1)?;
    case.system.machine().quiet_scheduling_logs(case.system.luid());
    let (interrupts, counted) = (case.system.counters().interrupts, reports(case)?);
    rig.execute(&mut queue, &[f1.signal(V[0]), f1.signal(V[1]), f2.signal(V[2])])?;
    ensure_eq!(case.system.counters().interrupts, interrupts, "interrupts after E1 to E3");
    // Only waiters while the value is not there can be interrupted for: the processor sets F2 back before E4 signals V3 again.
    granted(rig.rewind(&f2, 0), "setting F2 back")?;
    let woken = watch(&rig, &f2, V[2])?;
    rig.execute(&mut queue, &[f2.signal(V[2])])?;
    woken.wait()?;
    ensure_eq!(case.system.counters().interrupts, interrupts + 1, "interrupts after E4");
    let found = since(case, counted)?;
    ensure_eq!(found, FenceReports { of_queues: 1, looked_at: 1, ..FenceReports::default() }, "what E4 led to");
    ensure!(!elsewhere.is_set()?, "another wait ended");
    let logs = case.system.machine().fence_log(case.system.luid()).unwrap_or_default();
    let [log] = logs.as_slice() else { return Err(Failure::new("one queue does not have one log")) };
    let signals = log.signals.entries.iter().filter(|entry| entry.fence != queue.progress_fence);
    let told: Vec<(u32, u64)> = signals.map(|entry| (entry.fence, entry.value)).collect();
    let expected = vec![(f1.handle, V[0]), (f1.handle, V[1]), (f2.handle, V[2]), (f2.handle, V[2])];
    ensure_eq!(told, expected, "entries E1 to E4");
    granted(rig.wait(&[f1.handle, f1.handle, f2.handle], &[V[0], V[1], V[2]], false), "waits for V1, V2, V3")
}

fn only_logged(case: &mut Case<'_>) -> Result<(), Failure> {
    const FENCES: u64 = 100;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let fences = (0..FENCES).map(|_| rig.fence(0)).collect::<Result<Vec<_>, _>>()?;
    let waits = fences.iter().map(|fence| watch(&rig, fence, 1)).collect::<Result<Vec<_>, _>>()?;
    rig.execute(&mut queue, &[])?;
    case.system.machine().quiet_scheduling_logs(case.system.luid());
    let (interrupts, counted) = (case.system.counters().interrupts, reports(case)?);
    for (number, (fence, woken)) in (1..).zip(fences.iter().zip(&waits)) {
        rig.submit(&mut queue, &[fence.signal(1)])?;
        woken.wait()?;
        let expected = FenceReports { of_queues: number, looked_at: number, ..FenceReports::default() };
        ensure_eq!(since(case, counted)?, expected, "what {number} interrupts led to");
    }
    ensure_eq!(case.system.counters().interrupts, interrupts + FENCES, "interrupts");
    Ok(())
}

fn progress(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (gate, other) = (rig.fence(0)?, rig.fence(0)?);
    let elsewhere = watch(&rig, &other, 1)?;
    for round in 1..=20 {
        let counted = reports(case)?;
        let done = rig.submit(&mut queue, &[gate.wait(round)])?;
        let woken = Event::new()?;
        let wait = rig.wait_with_event(&[queue.progress_fence], &[done], false, Some(woken.number()));
        granted(wait, "a wait for the progress")?;
        granted(rig.signal(&[gate.handle], &[round]), "opening the gate")?;
        woken.wait()?;
        let expected = FenceReports { of_queues: 1, looked_at: 1, ..FenceReports::default() };
        ensure_eq!(since(case, counted)?, expected, "what the progress of round {round} led to");
    }
    ensure!(!elsewhere.is_set()?, "another wait ended");
    Ok(())
}

/// Submits on a machine whose GPU moves only when somebody steps it, and steps it until it has nothing to do.
fn run(case: &Case<'_>, rig: &Rig, queue: &mut RawQueue, packets: &[Packet]) -> Result<(), Failure> {
    rig.submit(queue, packets)?;
    let gpu = case.system.gpu();
    wait_until("the submission", || {
        while gpu.step() {}
        queue.progress.load() >= queue.written()
    })
}

/// Lets the machine take its interrupts: it does while it waits for its own GPU work.
fn take_interrupts(rig: &Rig, events: &[&Event]) -> Result<(), Failure> {
    for event in events {
        let mut set = event.is_set()?;
        for _ in 0..100 {
            if set {
                break;
            }
            rig.memory(4096, Placement::Vram)?;
            set = event.is_set()?;
        }
        ensure!(set, "a wait goes on after the interrupt was taken");
    }
    Ok(())
}

fn two_engines(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queues = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?];
    let fences = [rig.fence(0)?, rig.fence(0)?];
    for queue in &mut queues {
        run(case, &rig, queue, &[])?;
    }
    for round in 1..=20 {
        let waits = [watch(&rig, &fences[0], round)?, watch(&rig, &fences[1], round)?];
        let counted = reports(case)?;
        for (queue, fence) in queues.iter_mut().zip(&fences) {
            run(case, &rig, queue, &[fence.signal(round)])?;
        }
        take_interrupts(&rig, &[&waits[0], &waits[1]])?;
        let expected = FenceReports { of_queues: 2, looked_at: 2, ..FenceReports::default() };
        ensure_eq!(since(case, counted)?, expected, "what round {round} led to");
    }
    Ok(())
}

fn collapsed(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut a, mut b) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?);
    let (of_a, of_b, other) = (rig.fence(0)?, rig.fence(0)?, rig.fence(0)?);
    run(case, &rig, &mut a, &[])?;
    run(case, &rig, &mut b, &[])?;
    for round in 1..=20 {
        let (first, second) = (watch(&rig, &of_a, round)?, watch(&rig, &of_b, round)?);
        let elsewhere = watch(&rig, &other, 1)?;
        let counted = reports(case)?;
        run(case, &rig, &mut a, &[of_a.signal(round)])?;
        run(case, &rig, &mut b, &[of_b.signal(round)])?;
        take_interrupts(&rig, &[&first, &second])?;
        let found = since(case, counted)?;
        ensure_eq!(
            found,
            FenceReports { of_nodes: 1, looked_at: 2, ..FenceReports::default() },
            "what round {round} led to"
        );
        ensure!(!elsewhere.is_set()?, "another wait ended");
    }
    Ok(())
}

/// Another process that waits for a fence of its own.
struct Outsider {
    process: Arc<Process>,
    _rig: Rig,
    wait: Event,
}

impl Outsider {
    fn new(case: &Case<'_>) -> Result<Self, Failure> {
        let process = Process::new(case.system.machine(), "outsider");
        let luid = case.system.luid();
        let (rig, wait) = on_thread(&process, || {
            let rig = Rig::open(luid)?;
            let fence = rig.fence(0)?;
            let wait = watch(&rig, &fence, 1)?;
            Ok((rig, wait))
        })?;
        Ok(Self { process, _rig: rig, wait })
    }

    fn stays_alone(self) -> Result<(), Failure> {
        let set = self.wait.is_set()?;
        self.process.exit();
        ensure!(!set, "the wait of another process ended");
        Ok(())
    }
}

fn lost_entries(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (first, last) = (rig.fence(0)?, rig.fence(0)?);
    run(case, &rig, &mut queue, &[])?;
    let other = Outsider::new(case)?;
    let (early, late) = (watch(&rig, &first, 1)?, watch(&rig, &last, 160)?);
    let counted = reports(case)?;
    run(case, &rig, &mut queue, &[first.signal(1)])?;
    for step in 0..20 {
        let packets: Vec<_> = (1..=8).map(|value| last.signal(8 * step + value)).collect();
        run(case, &rig, &mut queue, &packets)?;
    }
    take_interrupts(&rig, &[&early, &late])?;
    let found = since(case, counted)?;
    let expected = FenceReports { of_queues: 1, looked_at: 2, of_processes: 1, ..FenceReports::default() };
    ensure_eq!(found, expected, "reports, and what was looked at");
    other.stays_alone()
}

fn wrong_names(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (fence, decoy) = (rig.fence(0)?, rig.fence(0)?);
    let deceived = watch(&rig, &decoy, 1)?;
    let (current, monitored) = (fence.current, fence.monitored);
    let named = |handle, value| Packet::Signal(packet::Signal { handle, current, monitored, value });
    for (value, handle) in (1..).zip([0, rig.device, u32::MAX]) {
        let woken = watch(&rig, &fence, value)?;
        rig.execute(&mut queue, &[named(handle, value)])?;
        woken.wait()?;
        ensure!(!deceived.is_set()?, "the wait for a fence that was only named ended");
    }
    let woken = watch(&rig, &fence, 5)?;
    rig.execute(&mut queue, &[named(decoy.handle, 4), named(decoy.handle, 5), fence.signal(6)])?;
    woken.wait()?;
    ensure!(!deceived.is_set()?, "the wait for a fence that was only named ended");
    Ok(())
}

fn tracers(case: &mut Case<'_>) -> Result<(), Failure> {
    const ROUNDS: u64 = 300;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let done = std::sync::atomic::AtomicBool::new(false);
    let (machine, luid) = (case.system.machine(), case.system.luid());
    std::thread::scope(|scope| {
        let tracer = scope.spawn(|| {
            let mut entries = 500;
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                machine.fence_log(luid);
                entries = 1000 - entries + 1;
                if let Err(status) = machine.trace_fences(luid, Some(entries)) {
                    return Err(Failure::new(format!("larger logs: {status}")));
                }
            }
            Ok(())
        });
        let waits = (1..=ROUNDS).try_for_each(|value| {
            let woken = watch(&rig, &fence, value)?;
            rig.submit(&mut queue, &[fence.signal(value)])?;
            woken.wait()
        });
        done.store(true, std::sync::atomic::Ordering::Release);
        let traced = tracer.join().map_err(|_| Failure::new("the tracer panicked"))?;
        waits.and(traced)
    })
}

/// Signals on a queue that the kernel submits to, each with a wait for it that began before.
fn wake_by_kernel_queue(case: &Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    let options = QueueOptions { model: Some(SubmissionModel::Kernel), ..QueueOptions::default() };
    let mut queue = Queue::new(&device, Node::Compute, options)?;
    let (gate, fence) = (Fence::new(&device, 0)?, Fence::new(&device, 0)?);
    for value in 1..=50 {
        queue.submit(|commands| {
            commands.wait(&gate, value)?;
            commands.signal(&fence, value)
        })?;
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| on_thread(&case.process, || Ok(fence.wait(value, None)?)));
            gate.signal(value)?;
            waiter.join().unwrap_or_else(|_| Err(Failure::new("the waiter panicked")))
        })?;
    }
    Ok(())
}

fn kernel_queue(case: &mut Case<'_>) -> Result<(), Failure> {
    wake_by_kernel_queue(case)
}

fn without_logs_works(case: &mut Case<'_>) -> Result<(), Failure> {
    let counted = reports(case)?;
    wake_by_kernel_queue(case)?;
    ensure_eq!(reports(case)?, counted, "interrupts that name queues");
    Ok(())
}

fn claimed_where_it_is(case: &mut Case<'_>) -> Result<(), Failure> {
    let optimised = {
        use campanile_hw::registers::{CAPS, Caps};
        Caps::from_bits(case.system.gpu().register_read(CAPS, 4) as u32).optimised_fence_interrupt()
    };
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let counted = reports(case)?;
    let woken = watch(&rig, &fence, 1)?;
    rig.execute(&mut queue, &[fence.signal(1)])?;
    woken.wait()?;
    ensure_eq!(since(case, counted)?.of_queues, u64::from(optimised), "interrupts that name a queue");
    Ok(())
}

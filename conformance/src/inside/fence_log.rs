//! Fence log buffers: what the GPU writes down of waits and signals, and what the operating-system side makes of it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use campanile_hw::packet::Packet;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::{FenceLogEntry, FenceOperation, PnpError, QueueFenceLog};
use wddm_ddi::km::D3DDDI_CREATEHWQUEUEFLAGS;
use wddm_ddi::types::NTSTATUS;

use super::fence_interrupts::{Event, interrupts};
use super::power_device::power_down;
use crate::rig::{RawFence, RawQueue, Rig, wait_until};
use crate::simulated::{Case, on_thread, with_gpu};
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

/// Entries of a log buffer of 4 KiB.
const ENTRIES: u64 = 84;

cases! { inside "FenceLog", needs HardwareScheduling, behind "it reads the logs of fences, which only the kernel sees";
    "FenceLog.UserModeQueuesHaveBothLogs" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "Each hardware queue for user-mode submission has a log of waits and one of signals from its creation on."
        holds [NativeFence 54]
        => both_logs;
    "FenceLog.KernelModeQueuesHaveNone" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "No log buffer is made for a hardware queue that the kernel submits to."
        holds [NativeFence 54]
        => no_logs_of_kernel_queues;
    "FenceLog.SignalEntryHoldsHandleValueAndTime" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "A signal on the GPU logs SIGNAL_EXECUTED with the user-mode handle, the value and the GPU time at which it was done."
        holds [NativeFence 56]
        => signal_entry;
    "FenceLog.WaitEntryHoldsHandleValueAndTimes" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "A wait that blocked its queue logs WAIT_UNBLOCKED with the user-mode handle, the value, and the GPU times at which it began and ended."
        holds [NativeFence 56]
        => wait_entry;
    "FenceLog.SatisfiedWaitIsLogged" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "A wait that is satisfied at once is logged too, without a time at which it began to block the queue."
        holds [NativeFence 56]
        => satisfied_wait;
    "FenceLog.WaitOverD3KeepsItsBegin" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "A wait that began before the device was in D3 and ends after it is logged with the time at which it began."
        holds [NativeFence 56]
        => wait_over_d3;
    "FenceLog.ProgressIsLogged" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "A native progress fence is a native fence: each value that the queue writes to it is a signal with an entry of its own, behind those of its command buffer."
        holds [NativeFence 56]
        => progress_is_logged;
    "FenceLog.QueuesLogApart" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "A wait on one queue for a signal on another is logged by each queue on its own, the signal not later than the end of the wait."
        holds [NativeFence 59]
        => queues_log_apart;
    "FenceLog.ExampleE1ToE4" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "Four signals, F1 to V1 and V2 and F2 to V3 twice, of which only the last interrupts, leave four entries in that order, and release every wait for these values."
        holds [NativeFence 60]
        => example_e1_to_e4;
    "FenceLog.InterruptedReaderSeesTheEntry" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "Value, entry and index are written before the interrupt, so whoever is woken by a signal finds its entry."
        holds [NativeFence 60]
        => woken_reader_sees_entry;
    "FenceLog.OverrunIsCountedAndLastEntriesStay" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "The GPU may overwrite entries that nobody saw; the reader notices by WraparoundCount and flags lost events."
        holds [NativeFence 62]
        => overrun;
    "FenceLog.OverrunStillWakesEveryWaiter" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "After an overrun every fence of the device is looked at, and no waiter is left behind."
        holds [NativeFence 62]
        => overrun_wakes;
    "FenceLog.TracingEnlargesBuffersFirst" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "With tracing enabled the logs are enlarged, so that as many events as overrun the ordinary buffer are not lost."
        holds [NativeFence 63]
        => tracing_enlarges;
    "FenceLog.ReplacedUnderLoadLosesNothing" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "Log buffers are destroyed and made anew while queues run; each entry is in the old buffer or the new one, whole and once."
        holds [NativeFence 61]
        => replaced_under_load;
    "FenceLog.ReplacedBufferIsNotWrittenAgain" needs UserModeSubmission on Boot::Fresh, "dxgkddi_setnativefencelogbuffer":
        "Nothing is written to a log buffer once DxgkDdiSetNativeFenceLogBuffer has put another in its place, though its queue signals on."
        holds [NativeFence 61]
        => replaced_buffer_is_left_alone;
    "FenceLog.QueueWithoutLogsWorks" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "A queue that was given no log buffers signals, waits and wakes waiters all the same."
        holds [NativeFence 54]
        => without_logs;
    "FenceLog.TimestampsNeverGoBack" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "Timestamps of one log never go back, also where the device was in D3 between two entries, in which the clock of the GPU is lost."
        holds [NativeFence 64]
        => timestamps_never_go_back;
    "FenceLog.GpuTimeConvertsToCpuTime" needs UserModeSubmission on Boot::Fresh, "dxgkddi_calibrategpuclock":
        "The GPU clock is calibrated with the CPU's, so that an entry's time lies between the CPU times before and after its submission."
        holds [NativeFence 64]
        => gpu_time_converts;
    "FenceLog.DelayedWritesArriveWithTheBarrier" needs UserModeSubmission on Boot::With(delayed), "dxgkddi_updatenativefencelogs":
        "On hardware that delays log writes, DxgkDdiUpdateNativeFenceLogs makes every counted entry of several queues visible before it is read."
        holds [NativeFence 65]
        => delayed_with_barrier;
    "FenceLog.DelayedWritesNeedTheBarrier" needs UserModeSubmission on Boot::With(delayed), "dxgkddi_updatenativefencelogs":
        "On hardware that delays log writes, entries that the index counts are not in memory before the barrier."
        holds [NativeFence 65]
        => delayed_without_barrier;
    "FenceLog.DelayedWritesNeverReachReplacedBuffer" needs UserModeSubmission on Boot::With(delayed), "dxgkddi_setnativefencelogbuffer":
        "On hardware that delays log writes, none of them reaches a buffer after DxgkDdiSetNativeFenceLogBuffer has put another in its place."
        holds [NativeFence 61]
        => replaced_buffer_is_left_alone;
    "FenceLog.DelayedWritesSurviveReplacement" needs UserModeSubmission on Boot::With(delayed), "dxgkddi_setnativefencelogbuffer":
        "On hardware that delays log writes, a buffer that is replaced is complete when DxgkDdiSetNativeFenceLogBuffer returns."
        holds [NativeFence 65]
        => replaced_under_load;
}

fn delayed() -> SystemOptions {
    with_gpu(|gpu| gpu.delayed_log_writes = true)
}

/// What was logged since the last call, in the order in which the queues were made.
pub(super) fn whole_logs(case: &Case<'_>) -> Result<Vec<QueueFenceLog>, Failure> {
    case.system.machine().fence_log(case.system.luid()).ok_or_else(|| Failure::new("the adapter has no fence logs"))
}

/// The log of the queue that `is_meant` chooses, once it tells of `signals`, those that were lost among them: the GPU writes a value before its
/// entry, so that whoever has seen a progress value may be earlier than its entry.
pub(super) fn log_with(
    case: &Case<'_>,
    is_meant: impl Fn(&QueueFenceLog) -> bool,
    signals: u64,
) -> Result<QueueFenceLog, Failure> {
    let mut all: Option<QueueFenceLog> = None;
    wait_until("the entries of the log", || {
        let read = whole_logs(case).unwrap_or_default().into_iter().find(|log| is_meant(log));
        match (&mut all, read) {
            (Some(all), Some(more)) => {
                for (all, more) in [(&mut all.signals, more.signals), (&mut all.waits, more.waits)] {
                    all.entries.extend(more.entries);
                    all.lost += more.lost;
                    all.violations += more.violations;
                }
            }
            (None, read) => all = read,
            (Some(_), None) => {}
        }
        all.as_ref().is_some_and(|log| log.signals.entries.len() as u64 + log.signals.lost >= signals)
    })?;
    all.ok_or_else(|| Failure::new("the queue has no log"))
}

/// As [`whole_logs`], without the progress of the queues.
fn logs(case: &Case<'_>) -> Result<Vec<QueueFenceLog>, Failure> {
    let mut logs = whole_logs(case)?;
    for log in &mut logs {
        let progress = log.progress_fence;
        log.signals.entries.retain(|entry| entry.fence != progress);
    }
    Ok(logs)
}

/// The log of a queue.
pub(super) fn log_of(case: &Case<'_>, queue: &RawQueue) -> Result<QueueFenceLog, Failure> {
    let found = logs(case)?.into_iter().find(|log| log.progress_fence == queue.progress_fence);
    found.ok_or_else(|| Failure::new("the queue has no fence log"))
}

pub(super) fn trace(case: &Case<'_>, entries: Option<u32>) -> Result<(), Failure> {
    let traced = case.system.machine().trace_fences(case.system.luid(), entries);
    traced.map_err(|status| Failure::new(format!("fence logs of {entries:?} entries: {status}")))
}

/// Handles and values of entries.
pub(super) fn told(entries: &[FenceLogEntry]) -> Vec<(u32, u64)> {
    entries.iter().map(|entry| (entry.fence, entry.value)).collect()
}

/// Submits signals of `values`, a few in each submission, and waits for the last.
fn signal_all(
    rig: &Rig,
    queue: &mut RawQueue,
    fence: &RawFence,
    values: impl IntoIterator<Item = u64>,
) -> Result<(), Failure> {
    let packets: Vec<Packet> = values.into_iter().map(|value| fence.signal(value)).collect();
    for few in packets.chunks(8) {
        rig.submit(queue, few)?;
    }
    let last = queue.written();
    wait_until("the signals", || queue.progress.load() >= last)
}

/// What [`signal_all`] leaves in the log of a queue: each submission ends with its progress.
fn entries_of(queue: &RawQueue, fence: &RawFence, values: std::ops::Range<u64>, progress: &mut u64) -> Vec<(u32, u64)> {
    let values: Vec<u64> = values.collect();
    let submissions = values.chunks(8).flat_map(|few| {
        *progress += 1;
        few.iter().map(|value| (fence.handle, *value)).chain([(queue.progress_fence, *progress)])
    });
    submissions.collect()
}

fn both_logs(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    ensure!(logs(case)?.is_empty(), "there are logs before there are queues");
    let (mut first, mut second) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let fence = rig.fence(1)?;
    rig.execute(&mut first, &[fence.wait(1)])?;
    rig.execute(&mut second, &[fence.signal(2)])?;
    let logs = logs(case)?;
    let shape: Vec<_> = logs.iter().map(|log| (log.node, log.waits.entries.len(), log.signals.entries.len())).collect();
    ensure_eq!(shape, vec![(NODE_COMPUTE, 1, 0), (NODE_COPY, 0, 1)], "node, waits and signals of the two queues");
    Ok(())
}

fn no_logs_of_kernel_queues(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for flags in [D3DDDI_CREATEHWQUEUEFLAGS::new(), D3DDDI_CREATEHWQUEUEFLAGS::new().with_NativeProgressFence(true)] {
        let context = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("context: {status}")))?;
        rig.hw_queue(context, flags).map_err(|status| Failure::new(format!("kernel-mode queue: {status}")))?;
    }
    ensure!(logs(case)?.is_empty(), "a kernel-mode queue has a fence log");
    let _user = rig.queue(NODE_COMPUTE)?;
    ensure_eq!(logs(case)?.len(), 1, "logs with one user-mode queue beside the two");
    Ok(())
}

fn signal_entry(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let values = [1, 2, u64::from(u32::MAX) + 7, u64::MAX - 1];
    let before = clock(case)?.gpu;
    signal_all(&rig, &mut queue, &fence, values)?;
    let after = clock(case)?.gpu;
    let log = log_of(case, &queue)?;
    ensure_eq!(told(&log.signals.entries), values.map(|value| (fence.handle, value)).to_vec(), "handles and values");
    for entry in &log.signals.entries {
        ensure_eq!(entry.operation, FenceOperation::SignalExecuted, "operation");
        ensure_eq!(entry.observed, 0, "observed time of a signal");
        ensure!((before..=after).contains(&entry.end), "{entry:?} lies outside {before}..{after}");
    }
    ensure_eq!((log.signals.lost, log.signals.violations), (0, 0), "lost entries and broken rules");
    Ok(())
}

fn wait_entry(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (begun, fence) = (rig.fence(0)?, rig.fence(0)?);
    rig.submit(&mut queue, &[begun.signal(1), fence.wait(5)])?;
    let waits = |case: &Case<'_>| case.system.counters().waits;
    let earlier = waits(case);
    wait_until("the packet before the wait", || begun.value.load() == 1)?;
    std::thread::sleep(std::time::Duration::from_millis(5));
    ensure_eq!(waits(case), earlier, "waits satisfied while the fence is below the value");
    ensure!(log_of(case, &queue)?.waits.entries.is_empty(), "the wait was logged before it was over");
    let signalled = clock(case)?.gpu;
    granted(rig.signal(&[fence.handle], &[5]), "signal from the CPU")?;
    wait_until("the end of the wait", || queue.progress.load() == 1)?;
    let log = log_of(case, &queue)?;
    ensure_eq!(told(&log.waits.entries), vec![(fence.handle, 5)], "handle and value");
    for entry in &log.waits.entries {
        ensure_eq!(entry.operation, FenceOperation::WaitUnblocked, "operation");
        ensure!(
            entry.observed != 0 && entry.observed <= signalled && entry.end >= signalled,
            "{entry:?} does not enclose the signal at {signalled}"
        );
    }
    Ok(())
}

fn wait_over_d3(case: &mut Case<'_>) -> Result<(), Failure> {
    case.needs_kept_doorbells(1)?;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (begun, fence) = (rig.fence(0)?, rig.fence(0)?);
    rig.submit(&mut queue, &[begun.signal(1), fence.wait(5)])?;
    wait_until("the packet before the wait", || begun.value.load() == 1)?;
    std::thread::sleep(std::time::Duration::from_millis(5));
    let held = clock(case)?.gpu;
    let (machine, luid) = (case.system.machine(), case.system.luid());
    let power = |result: Result<(), PnpError>| result.map_err(|error| Failure::new(error.to_string()));
    power(machine.power_down(luid))?;
    power(machine.power_up(luid))?;
    granted(rig.signal(&[fence.handle], &[5]), "signal from the CPU")?;
    wait_until("the end of the wait", || queue.progress.load() == 1)?;
    let log = log_of(case, &queue)?;
    ensure_eq!(told(&log.waits.entries), vec![(fence.handle, 5)], "handle and value");
    for entry in &log.waits.entries {
        ensure!(entry.observed != 0 && entry.observed <= held, "{entry:?} began after {held}, while it waited");
        ensure!(entry.end >= held, "{entry:?} ended before {held}, while it waited");
    }
    Ok(())
}

fn satisfied_wait(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let fence = rig.fence(9)?;
    rig.execute(&mut queue, &[fence.wait(9), fence.wait(3)])?;
    let log = log_of(case, &queue)?;
    ensure_eq!(told(&log.waits.entries), vec![(fence.handle, 9), (fence.handle, 3)], "handles and values");
    ensure!(log.waits.entries.iter().all(|entry| entry.observed == 0 && entry.end != 0), "times: {:?}", log.waits);
    Ok(())
}

fn progress_is_logged(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let mut expected = Vec::new();
    for value in 1..=10 {
        rig.execute(&mut queue, &[fence.signal(100 + value)])?;
        expected.extend([(fence.handle, 100 + value), (queue.progress_fence, value)]);
    }
    let log = log_with(case, |_| true, expected.len() as u64)?;
    ensure_eq!((told(&log.signals.entries), log.waits.entries.len()), (expected, 0), "signals and waits logged");
    ensure!(log.signals.entries.is_sorted_by_key(|entry| entry.end), "times: {:?}", log.signals.entries);
    Ok(())
}

fn queues_log_apart(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut a, mut b) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let fence = rig.fence(0)?;
    rig.submit(&mut a, &[fence.wait(1)])?;
    rig.execute(&mut b, &[fence.signal(1)])?;
    wait_until("the end of the wait", || a.progress.load() == 1)?;
    let logs = logs(case)?;
    let [of_a, of_b] = logs.as_slice() else { return Err(Failure::new("two queues do not have two logs")) };
    ensure!(of_a.signals.entries.is_empty() && of_b.waits.entries.is_empty(), "an operation in the wrong log");
    let ([wait], [signal]) = (of_a.waits.entries.as_slice(), of_b.signals.entries.as_slice()) else {
        return Err(Failure::new(format!("one wait and one signal expected: {of_a:?} {of_b:?}")));
    };
    ensure_eq!((wait.fence, wait.value, signal.fence, signal.value), (fence.handle, 1, fence.handle, 1), "LOG(F, V1)");
    // The value is written before the time of its entry is taken; the wait cannot be over before the value is there.
    ensure!(wait.observed <= wait.end, "the wait ended before it began: {wait:?}");
    Ok(())
}

fn example_e1_to_e4(case: &mut Case<'_>) -> Result<(), Failure> {
    const V1: u64 = 11;
    const V2: u64 = 12;
    const V3: u64 = 13;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (f1, f2) = (rig.fence(0)?, rig.fence(0)?);
    let before = interrupts(case);
    // E1 to E3: nobody waits, no interrupt.
    rig.execute(&mut queue, &[f1.signal(V1), f1.signal(V2), f2.signal(V3)])?;
    ensure_eq!(interrupts(case), before, "interrupts after E1 to E3");
    // Only waiters while the value is not there can be interrupted for: the processor sets F2 back before E4 signals V3 again.
    granted(rig.rewind(&f2, 0), "setting F2 back")?;
    let woken = Event::new()?;
    granted(rig.wait_with_event(&[f2.handle], &[V3], false, Some(woken.number())), "a wait for V3")?;
    rig.execute(&mut queue, &[f2.signal(V3)])?;
    woken.wait()?;
    ensure_eq!(interrupts(case), before + 1, "interrupts after E4");
    granted(rig.wait(&[f1.handle, f1.handle, f2.handle], &[V1, V2, V3], false), "waits for V1, V2, V3")?;
    let log = log_of(case, &queue)?;
    let expected = vec![(f1.handle, V1), (f1.handle, V2), (f2.handle, V3), (f2.handle, V3)];
    ensure_eq!(told(&log.signals.entries), expected, "entries E1 to E4");
    ensure!(log.signals.entries.is_sorted_by_key(|entry| entry.end), "times of E1 to E4: {:?}", log.signals.entries);
    Ok(())
}

fn woken_reader_sees_entry(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let gate = rig.fence(0)?;
    for value in 1..=100 {
        rig.submit(&mut queue, &[gate.wait(value), fence.signal(value)])?;
        // Only a waiter before the value is there is told by an interrupt; others may find the value before its entry.
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| on_thread(&case.process, || Ok(rig.wait(&[fence.handle], &[value], false))));
            let waits = || {
                let state = case.system.machine().inspect(case.system.luid());
                state.is_some_and(|state| state.to_string().contains(", 1 waiters"))
            };
            let opened = wait_until("the wait", waits);
            let opened = opened.and(granted(rig.signal(&[gate.handle], &[value]), "the gate"));
            let woken = waiter.join().unwrap_or_else(|_| Err(Failure::new("the waiter panicked")));
            opened.and_then(|()| granted(woken?, "the wait"))
        })?;
        let log = log_of(case, &queue)?;
        ensure_eq!(told(&log.signals.entries), vec![(fence.handle, value)], "entries at the wake for {value}");
    }
    Ok(())
}

fn overrun(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let mut progress = 0;
    let mut written = |queue: &mut RawQueue, values: std::ops::Range<u64>| -> Result<_, Failure> {
        signal_all(&rig, queue, &fence, values.clone())?;
        let log = whole_logs(case)?.into_iter().next().ok_or_else(|| Failure::new("the queue has no fence log"))?;
        Ok((entries_of(queue, &fence, values, &mut progress), told(&log.signals.entries), log.signals.lost))
    };
    let (entries, kept, lost) = written(&mut queue, 1..74)?;
    ensure_eq!(entries.len() as u64, ENTRIES - 1, "entries that fit");
    ensure_eq!((kept, lost), (entries, 0), "a log that is not overrun");
    for (first, count) in [(1000, ENTRIES + 1), (2000, 2 * ENTRIES), (3000, 10 * ENTRIES + 3)] {
        let (entries, kept, lost) = written(&mut queue, first..first + count)?;
        // One entry of the buffer is perhaps being written.
        let rest = entries.len() - (ENTRIES as usize - 1);
        ensure_eq!(kept, entries[rest..].to_vec(), "entries kept of {count} signals");
        ensure_eq!(lost, rest as u64, "entries lost of {count} signals");
    }
    Ok(())
}

fn overrun_wakes(case: &mut Case<'_>) -> Result<(), Failure> {
    const WAITERS: usize = 8;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let gate = rig.fence(0)?;
    let fences = (0..WAITERS).map(|_| rig.fence(0)).collect::<Result<Vec<_>, _>>()?;
    for round in 1..=5 {
        rig.submit(&mut queue, &[gate.wait(round)])?;
        let statuses = std::thread::scope(|scope| {
            let wait = |fence: &RawFence| {
                let handle = fence.handle;
                let (process, rig) = (&case.process, &rig);
                scope.spawn(move || on_thread(process, || Ok(rig.wait(&[handle], &[round * 100], false))))
            };
            let waiters: Vec<_> = fences.iter().map(wait).collect();
            let sent = (1..=100).try_for_each(|step| {
                let packets: Vec<Packet> = fences.iter().map(|f| f.signal((round - 1) * 100 + step)).collect();
                if step == 20 {
                    granted(rig.signal(&[gate.handle], &[round]), "the gate")?;
                }
                rig.submit(&mut queue, &packets).map(drop)
            });
            let ended: Vec<_> = waiters.into_iter().map(|w| w.join()).collect();
            sent.map(|()| ended)
        })?;
        for status in statuses {
            let status = status.map_err(|_| Failure::new("a waiter panicked"))?;
            granted(status?, "a wait over an overrun log")?;
        }
    }
    let logs = whole_logs(case)?;
    let [log] = logs.as_slice() else { return Err(Failure::new("one queue does not have one log")) };
    ensure_eq!(
        log.signals.entries.len() as u64 + log.signals.lost,
        5 * 100 * WAITERS as u64 + queue.written(),
        "signals, progress included, that are logged or flagged as lost"
    );
    ensure!(log.signals.lost != 0, "the log was not overrun");
    Ok(())
}

fn tracing_enlarges(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut old = rig.queue(NODE_COMPUTE)?;
    trace(case, Some(8192))?;
    let mut new = rig.queue(NODE_COPY)?;
    let fence = rig.fence(0)?;
    for (queue, first) in [(&mut old, 1), (&mut new, 2001)] {
        signal_all(&rig, queue, &fence, first..first + 2000)?;
        let log = log_of(case, queue)?;
        ensure_eq!((log.signals.entries.len(), log.signals.lost), (2000, 0), "entries and losses while traced");
    }
    trace(case, None)?;
    signal_all(&rig, &mut old, &fence, 4001..=6000)?;
    ensure!(log_of(case, &old)?.signals.lost != 0, "the buffer did not shrink again");
    for entries in [Some(0), Some(u32::MAX)] {
        ensure!(trace(case, entries).is_err(), "logs of {entries:?} entries were made");
    }
    Ok(())
}

fn replaced_under_load(case: &mut Case<'_>) -> Result<(), Failure> {
    const COUNT: u64 = 4000;
    let rig = case.rig()?;
    trace(case, Some(10_000))?;
    let mut queues = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?];
    let fences = [rig.fence(0)?, rig.fence(0)?];
    let (done, replaced) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let (machine, luid, done, replaced) = (case.system.machine(), case.system.luid(), &done, &replaced);
        let replacing = scope.spawn(move || {
            while !done.load(Ordering::Acquire) {
                machine.trace_fences(luid, Some(10_000 + replaced.load(Ordering::Relaxed) % 7))?;
                replaced.fetch_add(1, Ordering::Release);
            }
            Ok::<(), NTSTATUS>(())
        });
        let mut outcome = Ok(());
        for first in (1..=COUNT).step_by(40) {
            for (queue, fence) in queues.iter_mut().zip(&fences) {
                outcome = outcome.and_then(|()| signal_all(&rig, queue, fence, first..first + 40));
            }
            // The thread that replaces keeps up, however the two are scheduled.
            let batch = (first / 400) as u32;
            outcome = outcome.and_then(|()| {
                wait_until("a replaced buffer", || replacing.is_finished() || replaced.load(Ordering::Acquire) > batch)
            });
        }
        done.store(true, Ordering::Release);
        let ended = replacing.join().map_err(|_| Failure::new("the replacing thread panicked"))?;
        ended.map_err(|status| Failure::new(format!("replacing a log buffer: {status}")))?;
        outcome
    })?;
    let replaced = replaced.load(Ordering::Acquire);
    ensure!(replaced > 1, "the buffers were replaced {replaced} times");
    let logs = logs(case)?;
    for (queue, fence) in queues.iter().zip(&fences) {
        let log = logs.iter().find(|log| log.progress_fence == queue.progress_fence);
        let log = &log.ok_or_else(|| Failure::new("a queue has no log"))?.signals;
        ensure_eq!((log.lost, log.violations), (0, 0), "lost entries and broken rules after {replaced} replacements");
        let expected: Vec<(u32, u64)> = (1..=COUNT).map(|value| (fence.handle, value)).collect();
        ensure!(told(&log.entries) == expected, "the {} entries are not those of the signals", log.entries.len());
    }
    Ok(())
}

fn timestamps_never_go_back(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    trace(case, Some(10_000))?;
    let (mut a, mut b) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let (ping, pong) = (rig.fence(0)?, rig.fence(0)?);
    for value in 1..=1000 {
        if value % 250 == 0 {
            power_down(case.system)?;
        }
        rig.submit(&mut a, &[ping.signal(value), pong.wait(value)])?;
        rig.submit(&mut b, &[ping.wait(value), pong.signal(value)])?;
    }
    wait_until("the last turn", || a.progress.load() == 1000 && b.progress.load() == 1000)?;
    for log in logs(case)? {
        for log in [&log.waits, &log.signals] {
            ensure_eq!((log.entries.len(), log.lost, log.violations), (1000, 0, 0), "entries, lost, violations");
            ensure!(log.entries.is_sorted_by_key(|entry| entry.end), "time goes back");
            ensure!(log.entries.iter().all(|entry| entry.observed <= entry.end), "a wait ended before it began");
        }
    }
    Ok(())
}

/// The system fills a buffer that it takes away, keeps it until the next one is taken away, and stops the machine if it was
/// written to meanwhile.
fn replaced_buffer_is_left_alone(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queues = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?];
    let fences = [rig.fence(0)?, rig.fence(0)?];
    for round in 1..=60 {
        for (queue, fence) in queues.iter_mut().zip(&fences) {
            // More than the buffer holds, so that every place of the old one would be written again.
            for few in 0..24 {
                let first = round * 1000 + few * 4;
                let packets: Vec<Packet> =
                    (first..first + 4).flat_map(|value| [fence.signal(value), fence.wait(value)]).collect();
                rig.submit(queue, &packets)?;
            }
        }
        trace(case, Some(40 + round as u32 % 9))?;
        let stopped = case.system.machine().bugcheck();
        ensure!(stopped.is_none(), "after {round} replacements: {stopped:?}");
    }
    for queue in &queues {
        let last = queue.written();
        wait_until("the last signal", || queue.progress.load() >= last)?;
    }
    trace(case, Some(50))?;
    let stopped = case.system.machine().bugcheck();
    ensure!(stopped.is_none(), "after the end: {stopped:?}");
    Ok(())
}

fn without_logs(case: &mut Case<'_>) -> Result<(), Failure> {
    let switch = |on| {
        let switched = case.system.machine().log_fences(case.system.luid(), on);
        switched.map_err(|status| Failure::new(format!("logs of queues to come: {status}")))
    };
    let rig = case.rig()?;
    switch(false)?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    switch(true)?;
    let mut logged = rig.queue(NODE_COPY)?;
    let (there, back) = (rig.fence(0)?, rig.fence(0)?);
    for value in 1..=200 {
        rig.submit(&mut queue, &[there.signal(value), back.wait(value)])?;
        rig.submit(&mut logged, &[there.wait(value), back.signal(value)])?;
        if value % 20 == 0 {
            granted(rig.wait(&[back.handle], &[value], false), "wait on the CPU")?;
        }
    }
    wait_until("the last turn", || queue.progress.load() == 200 && logged.progress.load() == 200)?;
    let gate = rig.fence(0)?;
    rig.submit(&mut queue, &[gate.wait(1), there.signal(201)])?;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| on_thread(&case.process, || Ok(rig.wait(&[there.handle], &[201], false))));
        let waits = || {
            let state = case.system.machine().inspect(case.system.luid());
            state.is_some_and(|state| state.to_string().contains(", 1 waiters"))
        };
        let opened = wait_until("the wait", waits);
        let opened = opened.and(granted(rig.signal(&[gate.handle], &[1]), "the gate"));
        let woken = waiter.join().unwrap_or_else(|_| Err(Failure::new("the waiter panicked")));
        opened.and_then(|()| granted(woken?, "wait for the queue without logs"))
    })?;
    let logs = logs(case)?;
    ensure_eq!(logs.len(), 1, "queues that have logs");
    Ok(())
}

fn clock(case: &Case<'_>) -> Result<dxgkrnl::GpuClock, Failure> {
    let clock = case.system.machine().gpu_clock(case.system.luid(), NODE_COMPUTE);
    clock.ok_or_else(|| Failure::new("the clocks cannot be read together"))
}

fn gpu_time_converts(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let calibration = clock(case)?;
    ensure!(calibration.gpu_frequency != 0, "the GPU clock has no frequency");
    let before = clock(case)?;
    rig.execute(&mut queue, &[fence.signal(1)])?;
    let after = clock(case)?;
    ensure!(before.gpu <= after.gpu && before.cpu <= after.cpu, "a clock goes back: {before:?} {after:?}");
    let log = log_of(case, &queue)?;
    let [entry] = log.signals.entries.as_slice() else { return Err(Failure::new("the signal has no entry")) };
    // The two clocks are read one after the other, and a thread may be interrupted between them: that much they may differ.
    let slack = i128::from(after.cpu - before.cpu) + 1_000_000;
    let time = calibration.cpu_time(entry.end);
    let (earliest, latest) = (i128::from(before.cpu) - slack, i128::from(after.cpu) + slack);
    ensure!((earliest..=latest).contains(&time), "CPU time {time} of the entry lies outside {earliest}..{latest}");
    Ok(())
}

fn delayed_with_barrier(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queues = vec![rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?, rig.queue(NODE_COMPUTE)?];
    let fence = rig.fence(0)?;
    for round in 1..=20 {
        for queue in &mut queues {
            rig.execute(queue, &[fence.signal(round), fence.wait(round)])?;
        }
        let logs = logs(case)?;
        ensure_eq!(logs.len(), queues.len(), "logs");
        for log in logs {
            ensure_eq!(told(&log.signals.entries), vec![(fence.handle, round)], "signals of round {round}");
            ensure_eq!(told(&log.waits.entries), vec![(fence.handle, round)], "waits of round {round}");
        }
    }
    woken_reader_sees_entry(case)
}

fn delayed_without_barrier(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    signal_all(&rig, &mut queue, &fence, 1..=5)?;
    let machine = case.system.machine();
    let unflushed = machine.fence_log_without_barrier(case.system.luid());
    let unflushed = unflushed.ok_or_else(|| Failure::new("the adapter has no fence logs"))?;
    let [log] = unflushed.as_slice() else { return Err(Failure::new("one queue does not have one log")) };
    ensure_eq!(
        told(&log.signals.entries),
        vec![(0, 0); 6],
        "what is in memory of five signals and their progress before the barrier"
    );
    let log = log_of(case, &queue)?;
    let expected: Vec<(u32, u64)> = (1..=5).map(|value| (fence.handle, value)).collect();
    ensure_eq!(told(&log.signals.entries), expected, "what is there after the barrier");
    Ok(())
}

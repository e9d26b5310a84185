//! Fence logs whose entries user mode picks, by a command behind each signal and wait.

use campanile_hw::log::LogOperation;
use campanile_hw::packet::{self, Packet};
use campanile_hw::registers::{CAPS, Caps, NODE_COMPUTE};
use dxgkrnl::FenceLog;

use super::fence_interrupts::Event;
use super::fence_log::{log_with, told, trace};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::user::{Device, Fence, Node, Queue, QueueOptions, SubmissionModel};

cases! { inside "FenceLog", needs HardwareScheduling, behind "it reads the logs of fences, which only the kernel sees";
    "FenceLog.UserModePicksTheEntry" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "A command behind a signal or wait says what the GPU logs of it and in which entry; it writes that and its time behind the value and before the interrupt, and moves FirstFreeEntryIndex."
        holds [NativeFence 57]
        => picked;
    "FenceLog.DriverPicksItsEntries" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "The user-mode driver puts such a command behind every signal, wait and progress of its queues, and picks the entries one after the other, also beyond the end of the log."
        holds [NativeFence 57]
        => driver_picks;
    "FenceLog.PickedEntriesOutliveTheirBuffer" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "Commands that were recorded for a buffer which is replaced meanwhile lose no entry and write none twice."
        holds [NativeFence 57]
        => replaced;
}

fn picked(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let logs = rig.fence_logs(queue.queue).map_err(|status| Failure::new(format!("details of the logs: {status}")))?;
    let fence = rig.fence(0)?;
    let signals = |entry, value| {
        let (log, operation) = (logs.SignalLogGpuBaseAddress, LogOperation::SignalExecuted as u32);
        Packet::Log(packet::Log { handle: fence.handle, log, value, entry, operation })
    };
    let waits = |entry, value| {
        let (log, operation) = (logs.WaitLogGpuBaseAddress, LogOperation::WaitUnblocked as u32);
        Packet::Log(packet::Log { handle: fence.handle, log, value, entry, operation })
    };
    let woken = Event::new()?;
    granted(rig.wait_with_event(&[fence.handle], &[2], false, Some(woken.number())), "a wait for the second value")?;
    let packets = [fence.signal(1), signals(0, 71), fence.wait(1), waits(0, 72), fence.signal(2), signals(1, 73)];
    rig.execute(&mut queue, &packets)?;
    woken.wait()?;
    let expected = vec![(fence.handle, 71), (fence.handle, 73), (queue.progress_fence, 1)];
    let log = log_with(case, |_| true, expected.len() as u64)?;
    ensure_eq!(told(&log.signals.entries), expected, "signals");
    ensure_eq!(told(&log.waits.entries), vec![(fence.handle, 72)], "waits");
    ensure!(log.signals.entries.iter().all(|entry| entry.end != 0), "times: {:?}", log.signals.entries);
    // An entry that comes before the last one begins the next round of the log.
    rig.execute(&mut queue, &[fence.signal(3), signals(0, 74)])?;
    let log = log_with(case, |_| true, 2)?;
    ensure_eq!(log.signals.entries.last().map(|entry| entry.value), Some(2), "the progress behind it");
    ensure!(
        log.signals.entries.iter().any(|entry| entry.value == 74),
        "the entry of the next round: {:?}",
        log.signals
    );
    Ok(())
}

/// A queue of the user-mode driver that signals a fence again and again.
struct Signaller {
    queue: Queue,
    fence: Fence,
    value: u64,
}

impl Signaller {
    fn new(case: &Case<'_>) -> Result<Self, Failure> {
        let device: Device = case.device()?;
        let options = QueueOptions { model: Some(SubmissionModel::User), ..QueueOptions::default() };
        let queue = Queue::new(&device, Node::Compute, options)?;
        Ok(Self { queue, fence: Fence::new(&device, 0)?, value: 0 })
    }

    /// Signals `count` times in submissions of their own, and waits once in each; what the log of signals has to say of that.
    fn signal(&mut self, count: u64, progress: u32) -> Result<Vec<(u32, u64)>, Failure> {
        let mut expected = Vec::new();
        let mut last = 0;
        for _ in 0..count {
            self.value += 1;
            let (fence, value) = (&self.fence, self.value);
            last = self.queue.submit(|commands| {
                commands.signal(fence, value)?;
                commands.wait(fence, value)
            })?;
            expected.extend([(self.fence.handle(), value), (progress, last)]);
        }
        self.queue.wait_progress(last)?;
        Ok(expected)
    }

    /// The queue's progress fence and its logs, once they tell of `signals`.
    fn log(&self, case: &Case<'_>, signals: usize) -> Result<(u32, FenceLog, FenceLog), Failure> {
        let log = log_with(case, |log| log.handle == self.queue.handle(), signals as u64)?;
        Ok((log.progress_fence, log.signals, log.waits))
    }
}

/// Entries that commands have picked so far.
fn picked_by_commands(case: &Case<'_>) -> u64 {
    case.system.gpu().activity().picked
}

fn driver_picks(case: &mut Case<'_>) -> Result<(), Failure> {
    const ENTRIES: usize = 84;
    let mut signaller = Signaller::new(case)?;
    let (progress, ..) = signaller.log(case, 0)?;
    // A GPU that writes the logs in the address space of the paging process takes the next entry for itself.
    let caps = Caps::from_bits(case.system.gpu().register_read(CAPS, 4) as u32);
    let each = if caps.system_process_fences() { 0 } else { 3 };
    // Over the end of the log several times, and read before anything is overwritten.
    for round in 0..12 {
        let before = picked_by_commands(case);
        let expected = signaller.signal(30, progress)?;
        let (_, signals, waits) = signaller.log(case, expected.len())?;
        ensure_eq!(told(&signals.entries), expected, "signals of round {round}");
        ensure_eq!((waits.entries.len(), signals.lost + waits.lost), (30, 0), "waits, and what was lost");
        ensure_eq!((signals.violations, waits.violations), (0, 0), "broken rules");
        ensure_eq!(picked_by_commands(case) - before, each * 30, "entries that commands picked");
    }
    let expected = signaller.signal(300, progress)?;
    let (_, signals, _) = signaller.log(case, expected.len())?;
    // Whoever waits for a free entry of the ring is woken by an interrupt, for which the log is read.
    let kept = told(&signals.entries);
    let rest = expected.len() - (ENTRIES - 1);
    ensure!(kept.ends_with(&expected[rest..]), "the last entries are {kept:?}");
    ensure_eq!(kept.len() as u64 + signals.lost, expected.len() as u64, "entries kept or lost");
    ensure!(signals.lost != 0, "the log was not overrun");
    Ok(())
}

fn replaced(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut signaller = Signaller::new(case)?;
    let (progress, ..) = signaller.log(case, 0)?;
    for entries in [None, Some(500), None, Some(90), Some(120), None] {
        trace(case, entries)?;
        for _ in 0..3 {
            let expected = signaller.signal(35, progress)?;
            let (_, signals, waits) = signaller.log(case, expected.len())?;
            ensure_eq!(told(&signals.entries), expected, "signals with logs of {entries:?} entries");
            ensure_eq!((waits.entries.len(), signals.lost + waits.lost), (35, 0), "waits, and what was lost");
            ensure_eq!((signals.violations, waits.violations), (0, 0), "broken rules");
        }
    }
    Ok(())
}

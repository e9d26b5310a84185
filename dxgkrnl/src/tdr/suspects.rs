//! Work that stands still: queues that may wait for a fence, contexts that were asked off their engine because of them, and what is looked at to tell them apart.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::fence::FenceLogEntry;
use crate::vidsch::{HwContext, HwQueue, VidSch};

use super::stands::Stands;

/// Host's time within which an engine goes on with a queue: after the signal that the queue waits for, and when it is resumed after one that the engine
/// had missed.
pub(super) const AT_ONCE: Duration = Duration::from_millis(5);

/// State of the earlier checks for timeouts.
#[derive(Default)]
pub(super) struct TimeoutWatch {
    /// Queues with work, by the system's handle: progress, since when its time counts, and since when it stands.
    pub(super) stands: HashMap<usize, (u64, Since, Duration)>,
    /// The same queues, for as long as they stand.
    pub(super) standing: Stands,
    /// Some work has stood still for TdrDelay at the last look.
    pub(super) stalled: bool,
    /// Nodes with packets or a preemption: the oldest packet on the hardware, how often what was there came back, and since when it is.
    pub(super) packets: HashMap<u32, ((Option<u32>, u32), Duration)>,
}

/// When something began.
#[derive(Clone, Copy)]
pub(super) struct Since {
    /// By the machine's clock.
    pub(super) clock: Duration,
    pub(super) host: Instant,
}

impl Since {
    /// Something begins at `now` of the machine's clock.
    pub(super) fn now(now: Duration) -> Self {
        Self { clock: now, host: Instant::now() }
    }
}

/// A context whose suspension the watchdog has requested.
pub(super) struct SuspensionProbe {
    /// The suspension that was asked for.
    pub(super) fence: u64,
    pub(super) since: Since,
    /// Resets of the engine that were begun until then: a later one may let the context go at any moment.
    pub(super) begun: u64,
    pub(super) suspect: Suspect,
}

/// A context of which a queue has stood still for TdrDelay, as it was before it was asked off its engine.
pub(super) struct Suspect {
    pub(super) context: Arc<HwContext>,
    /// Since when the queue stands still, by the host's clock.
    pub(super) since: Instant,
    /// Queues of the context that have work.
    pub(super) standing: Vec<StalledQueue>,
    /// Fences of its process.
    pub(super) fences: Arc<Fences>,
    /// True if the hardware had it among those with work: what stands still then is long, or kept from the node by others, and no wake-up was missed.
    pub(super) busy: bool,
}

/// A queue with work that stands still.
#[derive(Clone)]
pub(super) struct StalledQueue {
    pub(super) queue: Arc<HwQueue>,
    pub(super) progress: u64,
    /// Where its log will have the wait that it is in; `None` for a queue without log.
    pub(super) wait: Option<u64>,
}

/// Values of the fences of a process at one moment, by their handles there.
pub(super) struct Fences(HashMap<u32, u64>);

impl Fences {
    /// True if `wait` was for a value that its fence did not have. A fence that nobody knows may have had it.
    pub(super) fn left_waiting(&self, wait: &FenceLogEntry) -> bool {
        self.0.get(&wait.fence).is_some_and(|value| *value < wait.value)
    }
}

impl Suspect {
    pub(super) fn new(sch: &VidSch, context: &Arc<HwContext>, since: Instant) -> Self {
        let queues = context.queues().into_iter().filter(is_watched);
        let standing = queues.map(|queue| StalledQueue {
            progress: queue.progress().current(),
            wait: sch.position_of_waits(&queue),
            queue,
        });
        // The fences after the logs: a queue whose next wait is satisfied by then has been signalled.
        let standing = standing.collect();
        let fences = Arc::new(Fences(sch.values_in(context.device().process.id)));
        let busy = sch.is_busy_by_log(context);
        Self { context: Arc::clone(context), since, standing, fences, busy }
    }

    /// The queues that have done nothing since.
    pub(super) fn still_standing(&self) -> impl Iterator<Item = &StalledQueue> {
        self.standing.iter().filter(|it| is_watched(&it.queue) && it.queue.progress().current() == it.progress)
    }

    /// Waits until its queues have done something, or had the host's `time` for it: somebody may have moved the machine's clock on by hand. True if one of them
    /// has done nothing.
    pub(super) fn stands_for(&self, time: Duration) -> bool {
        loop {
            if self.still_standing().next().is_none() {
                return false;
            }
            if self.busy || self.since.elapsed() >= time {
                return true;
            }
            std::thread::sleep(AT_ONCE);
        }
    }
}

/// A queue that has stood still for long and was resumed, and the fences of its process before it was suspended.
pub(super) type Resumed = (StalledQueue, Arc<Fences>);

impl SuspensionProbe {
    /// True if its time was over at `now`.
    pub(super) fn is_due(&self, now: Duration, delay: Duration) -> bool {
        now.saturating_sub(self.since.clock) >= delay
    }

    /// True if a reset may have let the context go, whose report is then not lost.
    pub(super) fn may_be_let_go(&self) -> bool {
        self.suspect.context.resets_begun() != self.begun
    }

    /// Puts the context back. Returns its queues with work that have stood still although the hardware saw none of it.
    pub(super) fn resume(&self) -> Vec<Resumed> {
        let suspect = &self.suspect;
        let standing = suspect.still_standing().filter(|_| !suspect.busy);
        let standing = standing.map(|it| (it.clone(), Arc::clone(&suspect.fences))).collect();
        put_back(&suspect.context);
        standing
    }
}

/// A queue of a context that did not leave its engine before a reset after which no context was invalidated.
pub(super) struct Uninvalidated {
    pub(super) queue: Weak<HwQueue>,
    /// Its progress at the first such reset, and the time of that.
    pub(super) progress: u64,
    pub(super) since: Duration,
}

/// A queue that has stood still for so long with this progress, in words.
pub(super) fn of_queue(queue: &HwQueue, progress: u64, stood: Duration) -> String {
    let ddi = match queue.flags().UserModeSubmission() {
        true => "the doorbell of DxgkDdiCreateDoorbell",
        false => "DxgkDdiSubmitCommandToHwQueue",
    };
    let (asked, answered) = queue.context().suspensions();
    format!(
        "node {}: queue {:#x} of {}, which got its work by {ddi}, has done nothing for {:.1} s; its progress fence has {progress:#x}, and expected is {:#x}; {} submissions wait in the system; DxgkDdiSuspendContext \
         of its context was called {asked} times, of which the last one that was reported as complete is number {answered}",
        queue.context().node(),
        queue.user_handle().load(Ordering::Acquire),
        queue.context().device().process.owner(),
        stood.as_secs_f64(),
        queue.last_queued(),
        queue.held()
    )
}

/// True if a queue has work on its engine that must end some day.
pub(super) fn is_watched(queue: &Arc<HwQueue>) -> bool {
    queue.check_order();
    let device = queue.context().device();
    !queue.flags().DisableGpuTimeout()
        && !queue.is_destroyed()
        && device.error().is_none()
        && !queue.progress().is_reached(queue.last_queued())
}

/// Resumes a context, together with its process if that was suspended meanwhile, unless its device is lost: then it stays suspended.
pub(super) fn put_back(context: &Arc<HwContext>) {
    context.device().process.space.suspension.resume_with_process(context);
    if context.device().error().is_some() {
        let _ = context.begin_suspension();
    }
}

/// A queue with work that is not done, in words.
pub(super) fn unfinished(queue: &HwQueue) -> String {
    format!(
        "the queue {:#x} of {} has work, its progress fence has {:#x}, and expected is {:#x}",
        queue.user_handle().load(Ordering::Acquire),
        queue.context().device().process.owner(),
        queue.progress().current(),
        queue.last_queued()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::FenceOperation;

    #[test]
    fn a_queue_waits_for_what_was_not_signalled_when_the_watchdog_looked() {
        let fences = Fences([(1, 4), (2, u64::MAX)].into());
        let entry = |fence, value| FenceLogEntry {
            operation: FenceOperation::WaitUnblocked,
            fence,
            value,
            observed: 7,
            end: 9,
        };
        for (what, fence, value, waits) in [
            ("a value that had not come", 1, 5, true),
            ("the value of that moment", 1, 4, false),
            ("a value that had passed", 1, 1, false),
            ("the end of a lost device", 2, u64::MAX, false),
            ("a fence that nobody knows", 3, 1, false),
        ] {
            assert_eq!(fences.left_waiting(&entry(fence, value)), waits, "{what}");
        }
    }
}

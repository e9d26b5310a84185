//! Hangs are found by progress: what user mode says it queued last, against the value that the engine wrote; and the oldest packet
//! on a node.
//!
//! A queue without progress may wait for a fence, which is no hang. So its context is suspended first: one that leaves its engine is resumed at
//! once, one that does not is hung. [user-mode-work-submission: progress fence of a queue; tdr-changes-in-windows-8]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nt::lock::lock;

use crate::rescue::Rescue;

use crate::fence::FenceLogEntry;
use crate::tdr_report::TdrReason;
use crate::vidsch::{Complaint, HwContext, HwQueue, Subject, VidSch};

use super::Tdr;
use super::stands::Stands;

/// Host's time within which an engine goes on with a queue: after the signal that the queue waits for, and when it is resumed after one that the engine
/// had missed.
const AT_ONCE: Duration = Duration::from_millis(5);

/// State of the earlier checks for timeouts.
#[derive(Default)]
pub(super) struct TimeoutWatch {
    /// Queues with work, by the system's handle: progress, since when its time counts, and since when it stands.
    stands: HashMap<usize, (u64, Since, Duration)>,
    /// The same queues, for as long as they stand.
    pub(super) standing: Stands,
    /// Some work has stood still for TdrDelay at the last look.
    stalled: bool,
    /// Nodes with packets or a preemption: the oldest packet on the hardware, how often what was there came back, and since when it is.
    packets: HashMap<u32, ((Option<u32>, u32), Duration)>,
}

/// When something began.
#[derive(Clone, Copy)]
struct Since {
    /// By the machine's clock.
    clock: Duration,
    host: Instant,
}

impl Since {
    /// Something begins at `now` of the machine's clock.
    fn now(now: Duration) -> Self {
        Self { clock: now, host: Instant::now() }
    }
}

/// A context whose suspension the watchdog has requested.
pub(super) struct SuspensionProbe {
    /// The suspension that was asked for.
    fence: u64,
    since: Since,
    /// Resets of the engine that were begun until then: a later one may let the context go at any moment.
    begun: u64,
    suspect: Suspect,
}

/// A context of which a queue has stood still for TdrDelay, as it was before it was asked off its engine.
struct Suspect {
    context: Arc<HwContext>,
    /// Since when the queue stands still, by the host's clock.
    since: Instant,
    /// Queues of the context that have work.
    standing: Vec<StalledQueue>,
    /// Fences of its process.
    fences: Arc<Fences>,
    /// True if the hardware had it among those with work: what stands still then is long, or kept from the node by others, and no wake-up was missed.
    busy: bool,
}

/// A queue with work that stands still.
#[derive(Clone)]
struct StalledQueue {
    queue: Arc<HwQueue>,
    progress: u64,
    /// Where its log will have the wait that it is in; `None` for a queue without log.
    wait: Option<u64>,
}

/// Values of the fences of a process at one moment, by their handles there.
struct Fences(HashMap<u32, u64>);

impl Fences {
    /// True if `wait` was for a value that its fence did not have. A fence that nobody knows may have had it.
    fn left_waiting(&self, wait: &FenceLogEntry) -> bool {
        self.0.get(&wait.fence).is_some_and(|value| *value < wait.value)
    }
}

impl Suspect {
    fn new(sch: &VidSch, context: &Arc<HwContext>, since: Instant) -> Self {
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
    fn still_standing(&self) -> impl Iterator<Item = &StalledQueue> {
        self.standing.iter().filter(|it| is_watched(&it.queue) && it.queue.progress().current() == it.progress)
    }

    /// Waits until its queues have done something, or had the host's `time` for it: somebody may have moved the machine's clock on by hand. True if one of them
    /// has done nothing.
    fn stands_for(&self, time: Duration) -> bool {
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
type Resumed = (StalledQueue, Arc<Fences>);

impl SuspensionProbe {
    /// True if its time was over at `now`.
    fn is_due(&self, now: Duration, delay: Duration) -> bool {
        now.saturating_sub(self.since.clock) >= delay
    }

    /// True if a reset may have let the context go, whose report is then not lost.
    fn may_be_let_go(&self) -> bool {
        self.suspect.context.resets_begun() != self.begun
    }

    /// Puts the context back. Returns its queues with work that have stood still although the hardware saw none of it.
    fn resume(&self) -> Vec<Resumed> {
        let suspect = &self.suspect;
        let standing = suspect.still_standing().filter(|_| !suspect.busy);
        let standing = standing.map(|it| (it.clone(), Arc::clone(&suspect.fences))).collect();
        put_back(&suspect.context);
        standing
    }
}

impl Tdr {
    /// Looks at every queue with work. Returns the engines that hang.
    pub(super) fn watch_progress(&self, watch: &mut TimeoutWatch, now: Duration) -> Vec<Complaint> {
        let Ok(adapter) = self.adapter() else { return Vec::new() };
        adapter.flush_interrupts();
        let hung = self.follow_up(now);
        let (mut stands, mut suspects) = (HashMap::new(), Vec::new());
        watch.stalled = false;
        for queue in adapter.vidsch().hw_queues().iter().filter(|queue| is_watched(queue)) {
            let key = queue.handles().0.raw().addr();
            let progress = queue.progress().current();
            let known = watch.stands.get(&key).copied().filter(|(before, ..)| *before == progress);
            let fresh = Since::now(now);
            let (since, begun) = known.map_or((fresh, now), |(_, since, begun)| (since, begun));
            let stood = now.saturating_sub(since.clock) >= self.settings.delay;
            watch.stalled |= stood;
            let probed = self.is_probed(queue.context()) || suspects.iter().any(is_of(queue.context()));
            // A context that was suspended and was not hung is given TdrDelay anew.
            stands.insert(key, (progress, if stood && !probed { fresh } else { since }, begun));
            if stood && !probed {
                suspects.push(Suspect::new(adapter.vidsch(), queue.context(), since.host));
            }
        }
        watch.stands = stands;
        self.probe(suspects, now);
        adapter.flush_interrupts();
        self.release_answered();
        hung
    }

    /// Looks at the packets of every node: one without progress is preempted, and one that does not leave the hardware in time is hung. The time of a
    /// preemption that was requested for another reason counts from its own request.
    pub(super) fn watch_packets(&self, watch: &mut TimeoutWatch, now: Duration) -> Vec<Complaint> {
        let Ok(adapter) = self.adapter() else { return Vec::new() };
        let preemptible = adapter.caps().driver.SchedulingCaps.PreemptionAware();
        let delay = self.settings.delay;
        let mut hung = Vec::new();
        for (number, node) in (0..).zip(adapter.vidsch().nodes()) {
            let Some(suspects) = node.state().suspects().filter(|suspects| !suspects.unlimited) else {
                watch.packets.remove(&number);
                continue;
            };
            let oldest = (suspects.oldest, suspects.taken_back);
            let known = watch.packets.get(&number).filter(|(known, _)| *known == oldest);
            let stood = known.map_or(Duration::ZERO, |(_, since)| now.saturating_sub(*since));
            watch.stalled |= stood >= delay;
            watch.packets.insert(number, (oldest, now.saturating_sub(stood)));
            let hangs = match suspects.preemption {
                Some((_, since)) => now.saturating_sub(since) >= delay,
                // Nothing can be asked of this driver.
                None => !preemptible && stood >= 2 * delay,
            };
            if hangs {
                hung.push(adapter.vidsch().timeouts().complaint_about(
                    number,
                    TdrReason::EngineTimeout,
                    Subject::Packets(suspects),
                ));
            } else if suspects.preemption.is_none() && stood >= delay {
                node.state().probe(stood);
                adapter.vidsch().dispatch(number);
            }
        }
        hung
    }

    /// Packets and queues that have stood still for a second at the last look, in words.
    pub(super) fn standing_work(&self) -> Vec<String> {
        const LONG: Duration = Duration::from_secs(1);
        let (Ok(adapter), Some(watch)) = (self.adapter(), self.watch.try_lock()) else { return Vec::new() };
        let now = self.clock.now();
        let stood = |since: Duration| Some(now.saturating_sub(since)).filter(|stood| *stood >= LONG);
        let mut told = Vec::new();
        for (number, node) in (0..).zip(adapter.vidsch().nodes()) {
            let Some(((oldest, _), since)) = watch.packets.get(&number) else { continue };
            let (Some(id), Some(stood)) = (oldest, stood(*since)) else { continue };
            let (last, stood) = (node.state().last_completed(), stood.as_secs_f64());
            told.push(format!(
                "node {number}: packet {id:#x}, which DxgkDdiSubmitCommandVirtual was given, is the oldest there for {stood:.1} s; expected is DXGK_INTERRUPT_DMA_COMPLETED with \
                 {id:#x}, and the last one that was reported is {last:#x}"
            ));
        }
        for queue in adapter.vidsch().hw_queues().iter().filter(|queue| is_watched(queue)) {
            let Some((progress, _, begun)) = watch.stands.get(&queue.handles().0.raw().addr()) else { continue };
            let Some(stood) = stood(*begun) else { continue };
            told.push(of_queue(queue, *progress, stood));
        }
        told
    }

    /// True if work stands still because nothing of it is left in the function. A driver need not notice: what does not run can be asked
    /// off its engine.
    pub(super) fn has_lost_its_work(&self, watch: &TimeoutWatch) -> bool {
        watch.stalled
            && self.adapter().is_ok_and(|adapter| adapter.links().iter().any(|link| link.function.was_reset()))
    }

    pub(super) fn is_probed(&self, context: &Arc<HwContext>) -> bool {
        lock(&self.probes).iter().map(|probe| &probe.suspect).any(is_of(context))
    }

    /// Asks contexts off their engines, but for those that were signalled a moment ago and go on.
    fn probe(&self, suspects: Vec<Suspect>, now: Duration) {
        if suspects.is_empty() {
            return;
        }
        std::thread::sleep(AT_ONCE);
        let Ok(adapter) = self.adapter() else { return };
        let long = adapter.vidsch().timeouts().long_stall();
        for suspect in suspects.into_iter().filter(|suspect| suspect.stands_for(long)) {
            // Whoever took it off its engine before puts it back.
            let was_off = suspect.context.is_off();
            match suspect.context.begin_suspension() {
                Ok(Some(fence)) => {
                    let (since, begun) = (Since::now(now), suspect.context.resets_begun());
                    lock(&self.probes).push(SuspensionProbe { fence, since, begun, suspect });
                }
                Ok(None) if !was_off => put_back(&suspect.context),
                Ok(None) | Err(_) => {}
            }
        }
    }

    /// A context has left its engine, or may be resumed: the contexts that the watchdog suspended and that have left are resumed now, not at its
    /// next look.
    pub(super) fn put_back_answered(&self) {
        let Ok(adapter) = self.adapter() else { return };
        // A recovery that is in the driver calls this when it is done, and so does the wake-up of the device.
        if self.verifier.is_stopped() || adapter.is_gone() || self.is_recovering.load(Ordering::Acquire) {
            return;
        }
        if let Some(_awake) = adapter.machine.gate().enter_awake() {
            self.release_answered();
        }
    }

    /// Resumes the contexts that have left the engine.
    fn release_answered(&self) {
        let _counts = self.counting.begin();
        let mut resumed = Vec::new();
        lock(&self.probes).retain(|probe| {
            let context = &probe.suspect.context;
            if context.is_destroyed() || context.device().error().is_some() {
                return false;
            }
            let answered = context.has_suspended(probe.fence);
            if answered {
                resumed.extend(probe.resume());
            }
            !answered
        });
        self.count_missed_wake_ups(&resumed);
    }

    /// Counts queues that go on at once when they are resumed, although what they waited for had come before they were suspended: the engine had missed
    /// it. One that is signalled after that goes on by itself.
    fn count_missed_wake_ups(&self, resumed: &[Resumed]) {
        if resumed.is_empty() {
            return;
        }
        std::thread::sleep(AT_ONCE);
        let missed = resumed.iter().filter(|(it, fences)| {
            // A queue that was taken away meanwhile, or whose device was lost, did not go on: its progress is moved to the end for it.
            let lives = !it.queue.is_destroyed() && it.queue.context().device().error().is_none();
            let went_on = it.queue.progress().current() != it.progress;
            went_on && lives && !self.waited_for(it).is_some_and(|wait| fences.left_waiting(&wait))
        });
        let missed = missed.count();
        if missed != 0 {
            self.rescued(Rescue::MissedWakeUp, missed as u64);
        }
    }

    /// The wait in which a queue stood that goes on now; `None` if it stood in none that is logged.
    fn waited_for(&self, standing: &StalledQueue) -> Option<FenceLogEntry> {
        self.adapter().ok()?.vidsch().wait_logged_at(&standing.queue, standing.wait?)
    }

    /// Counts something that was made good although a driver or a device should have reported it.
    pub(super) fn rescued(&self, rescue: Rescue, count: u64) {
        if let Ok(adapter) = self.adapter() {
            adapter.vidsch().rescued(rescue, count);
        }
    }

    /// Gives the reports of suspensions that are due the host's time for it, and resumes the contexts that have left.
    fn await_reports(&self, now: Duration) {
        let due = |probe: &&SuspensionProbe| probe.is_due(now, self.settings.delay);
        let asked = |probe: &SuspensionProbe| (Arc::clone(&probe.suspect.context), probe.fence, probe.since.host);
        let due: Vec<_> = lock(&self.probes).iter().filter(due).map(asked).collect();
        for (context, fence, asked) in &due {
            context.is_reported_in_time(*fence, *asked);
        }
        if !due.is_empty() {
            self.release_answered();
        }
    }

    /// Probes whose time is over. Returns the engines of those that did not answer.
    fn follow_up(&self, now: Duration) -> Vec<Complaint> {
        let Ok(adapter) = self.adapter() else { return Vec::new() };
        self.release_answered();
        self.await_reports(now);
        let _counts = self.counting.begin();
        let mut hung: Vec<Complaint> = Vec::new();
        let (mut resumed, mut unheard) = (Vec::new(), 0);
        lock(&self.probes).retain_mut(|probe| {
            if !probe.is_due(now, self.settings.delay) {
                return true;
            }
            // A reset from here on answers the question below.
            let suspect = &probe.suspect;
            let timeouts = adapter.vidsch().timeouts();
            let complaint = timeouts.complaint(suspect.context.node(), TdrReason::EngineTimeout);
            // A second question: a driver that says the context is off its engine means it, though its interrupt was lost.
            match suspect.context.begin_suspension() {
                Ok(None) => {
                    resumed.extend(probe.resume());
                    unheard += u64::from(!probe.may_be_let_go());
                    return false;
                }
                Ok(Some(fence)) => (probe.fence, probe.since) = (fence, Since::now(now)),
                Err(_) => return false,
            }
            adapter.flush_interrupts();
            if probe.suspect.context.has_suspended(probe.fence) {
                resumed.extend(probe.resume());
                unheard += u64::from(!probe.may_be_let_go());
                return false;
            }
            if hung.iter().all(|other| other.node != complaint.node) {
                hung.push(complaint);
            }
            true
        });
        if unheard != 0 {
            self.rescued(Rescue::UnreportedSuspension, unheard);
        }
        self.count_missed_wake_ups(&resumed);
        hung
    }
}

/// True for a suspect whose context is `context`.
fn is_of(context: &Arc<HwContext>) -> impl Fn(&Suspect) -> bool {
    |suspect| Arc::ptr_eq(&suspect.context, context)
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

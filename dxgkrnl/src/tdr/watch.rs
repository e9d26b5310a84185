//! Hangs are found by progress: what user mode says it queued last, against the value that the engine wrote; and the oldest packet
//! on a node.
//!
//! A queue without progress may wait for a fence, which is no hang. So its context is suspended first: one that leaves its engine is resumed at
//! once, one that does not is hung. [user-mode-work-submission: progress fence of a queue; tdr-changes-in-windows-8]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nt::lock::lock;

use crate::rescue::Rescue;

use crate::fence::FenceLogEntry;
use crate::tdr_report::TdrReason;
use crate::vidsch::{Complaint, HwContext, Subject};

use super::state::Tdr;
use super::suspects::{
    AT_ONCE, Resumed, Since, StalledQueue, Suspect, SuspensionProbe, TimeoutWatch, is_watched, of_queue, put_back,
};

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

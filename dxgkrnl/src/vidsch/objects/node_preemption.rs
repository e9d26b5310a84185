//! Preemptions, and packets that they take off the hardware again and again.
//!
//! No page says what the system does about a packet that is not done, however often it is handed over. That work which lets itself be preempted is no timeout is the contract, so an endless program of a GPU
//! that stops programs anywhere runs for ever. But a driver whose PreemptionCaps say that it cannot stop a packet that runs can take off only what
//! it has not begun: a packet that was the oldest of its node for TdrDelay in all, and still was not begun, is lost. That is this system's rule, and so is what
//! follows: it is handed over again and counted, and more losses than TdrLimitCount, of one packet or of a node that does nothing else, stop the machine.
//! The packets of the memory manager are never long, so that they count on every node, whatever PreemptionCaps say.
//! [gpu-preemption; timeout-detection-and-recovery; d3dkmdt: D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY]

use std::time::Duration;

use super::node::NodeState;
use super::packet::Next;
use super::preempting::{InvalidPreemption, Preempting, Standing, Stood, TakenOff, Verdict};
use super::running::Leaving;

impl NodeState {
    /// `probed`: the packet that the watchdog wants to know about, and how long it has stood.
    pub(in crate::vidsch) fn preempt(&mut self, now: Duration, probed: Option<(u32, Duration)>) -> Next {
        self.preemptions = self.preemptions.wrapping_add(1);
        let slice = self.slice.take().map(|(oldest, since)| (oldest, now.saturating_sub(since)));
        let (id, probes) = (self.preemptions, probed.is_some());
        self.preemption = Some(Preempting { id, since: now, probes, oldest: probed.or(slice) });
        Next::Preempt(self.preemptions)
    }

    /// The driver reports a preemption as done: everything up to `completed` ran, the rest comes back. `delay`: TdrDelay, the time for which a packet
    /// may have the node.
    ///
    /// # Errors
    /// Nothing is changed by a report that cannot be.
    pub(in crate::vidsch) fn preempted(
        &mut self,
        id: u32,
        completed: u32,
        delay: Duration,
    ) -> Result<TakenOff, InvalidPreemption> {
        if self.fences.is_abandoned() {
            return Ok(TakenOff::Nothing);
        }
        if self.is_given_up_preemption(id) {
            return Ok(TakenOff::Nothing);
        }
        let asked = self.preemption.filter(|preemption| preemption.id == id).ok_or(InvalidPreemption::Unknown)?;
        // "The last completed command before preemption" may be the one before those that faulted or were aborted. [d3dkmddi:
        // DXGKARGCB_NOTIFY_INTERRUPT_DATA]
        let further = ![self.fences.last_completed(), self.called_complete].contains(&completed);
        if further {
            self.complete(completed, Leaving::Completed).map_err(InvalidPreemption::Fence)?;
        }
        self.preemption = None;
        let standing = asked.oldest.map_or(TakenOff::Nothing, |oldest| self.charge(oldest, delay));
        self.take_back();
        Ok(if further && asked.probes { TakenOff::Done } else { standing })
    }

    /// Adds the time that the oldest packet has had to what it had before. [`TakenOff::Standing`] when that makes TdrDelay: it counts from nothing then.
    fn charge(&mut self, (id, time): (u32, Duration), delay: Duration) -> TakenOff {
        let (completed, begun_ends) = (self.fences.last_completed(), self.begun_ends);
        let Some(head) = self.flight.front_mut().filter(|packet| packet.id == id && packet.must_end()) else {
            return TakenOff::Nothing;
        };
        head.stood.time += time;
        if head.stood.time < delay {
            return TakenOff::Nothing;
        }
        head.stood = Stood { time: Duration::ZERO, times: head.stood.times.saturating_add(1) };
        self.standing = self.standing.saturating_add(1);
        let times = head.stood.times.max(self.standing);
        let verdict = match head.context() {
            None => Verdict::Paging,
            Some(_) if begun_ends => Verdict::NotBegun,
            Some(_) => Verdict::Unknown,
        };
        TakenOff::Standing(Standing { id, times, completed, verdict })
    }
}

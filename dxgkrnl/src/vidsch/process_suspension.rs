//! Suspension of processes: an idle process is suspended when another one needs the memory that its engines work with, and a process with
//! work when no idle one is left.
//!
//! To suspend a process, every doorbell of it is disconnected, so that user mode reads RETRY and calls the kernel with its next submission,
//! and every context that runs is suspended. A process with work under way, or with submissions that wait in the system, is suspended only by force:
//! then its packets are preempted as well, and stay queued. A process that is given new work is resumed first: what left memory
//! comes back, contexts are resumed, packets run again, and only then the doorbell is connected or the buffer handed over. In between
//! the GPU walks no page table of the process, reads none of its rings and writes none of its fences, so that all of them may move.
//! A process that was suspended with work to do is resumed without being asked, in its time slice ([`super::residency_slices`]).
//! [user-mode-work-submission: doorbells; d3dkmddi: DXGKARG_SUSPENDCONTEXT, DXGKARG_PREEMPTCOMMAND]

use std::sync::Arc;

use nt::lock::{RwLockWriteGuard, lock};

use crate::rank;
use crate::suspension::TimeSlice;
use crate::tdr_report::TdrReason;
use crate::vidmm::{AddressSpace, SuspendOutcome};

use super::keep_running::Contexts;
use super::objects::hardware::HwContext;
use super::objects::residency_slices::{SLICE, SLICE_WORK};
use super::objects::timeouts::Subject;
use super::objects::worker::Work;
use super::scheduler::VidSch;

impl VidSch {
    /// Suspends a process if its work is done; `note` is called when it is suspended, before any thread can resume it. True if it is suspended
    /// now; false if it goes on running, or is being resumed, or the device is not in D0.
    pub(crate) fn suspend_idle(&self, space: &Arc<AddressSpace>, note: impl FnOnce()) -> bool {
        let Some(mut suspended) = space.suspension.try_write().filter(|_| self.may_suspend()) else { return false };
        if *suspended {
            return true;
        }
        let contexts = self.of_process(space);
        if !contexts.are_done() {
            return false;
        }
        contexts.disconnect();
        // What was rung until then was announced before.
        if !contexts.are_done() || !self.take_off(space, &contexts) {
            return false;
        }
        *suspended = true;
        note();
        true
    }

    /// Suspends a process with work, if its time slice is over, as [`VidSch::suspend_idle`] does one whose work is done. What does not leave its
    /// engine within TdrDelay is a timeout.
    pub(crate) fn suspend(&self, space: &Arc<AddressSpace>, note: impl FnOnce()) -> SuspendOutcome {
        let Some(mut suspended) = space.suspension.try_write().filter(|_| self.may_suspend()) else {
            return SuspendOutcome::Locked;
        };
        if *suspended {
            return SuspendOutcome::Suspended;
        }
        let contexts = self.of_process(space);
        if let TimeSlice::Current { since, done } = *lock(&space.suspension.time_slice)
            && self.timeouts.clock().now().saturating_sub(since) < SLICE
            && contexts.done().saturating_sub(done) < SLICE_WORK
            && !contexts.are_done()
        {
            return SuspendOutcome::HasTimeSlice;
        }
        self.suspend_now(space, &contexts, &mut suspended, note)
    }

    /// Does `act` while the process is suspended, and has it resumed in its time slice if it has work. What does not leave its
    /// engine within TdrDelay is a timeout, and `act` is not done unless the answer is [`SuspendOutcome::Suspended`]; it is told whether the process ran before.
    pub(crate) fn while_suspended(&self, space: &Arc<AddressSpace>, act: impl FnOnce(bool)) -> SuspendOutcome {
        let Some(mut suspended) = space.suspension.try_write().filter(|_| self.may_suspend()) else {
            return SuspendOutcome::Locked;
        };
        if *suspended {
            act(false);
            return SuspendOutcome::Suspended;
        }
        self.suspend_now(space, &self.of_process(space), &mut suspended, || act(true))
    }

    fn suspend_now(
        &self,
        space: &Arc<AddressSpace>,
        contexts: &Contexts,
        suspended: &mut RwLockWriteGuard<'_, bool, rank::Suspended>,
        note: impl FnOnce(),
    ) -> SuspendOutcome {
        contexts.disconnect();
        if !self.take_off(space, contexts) {
            return SuspendOutcome::StillRunning;
        }
        **suspended = true;
        note();
        if !contexts.are_done() {
            *lock(&space.suspension.time_slice) = TimeSlice::Queued;
            self.note_suspended(space);
        }
        SuspendOutcome::Suspended
    }

    fn may_suspend(&self) -> bool {
        self.adapter().is_ok_and(|adapter| {
            !adapter.machine.gate().is_asleep() && !self.timeouts.is_abandoning() && !adapter.is_gone()
        })
    }

    /// Takes everything of a process off its engines; true when nothing of it touches memory any more. Else its contexts are resumed.
    fn take_off(&self, space: &AddressSpace, contexts: &Contexts) -> bool {
        let limit = self.timeouts.limit();
        space.suspension.hold_contexts();
        let asked: Vec<_> = contexts.hardware.iter().map(|context| (context, context.ask_off())).collect();
        for context in &contexts.packets {
            context.set_away(true);
        }
        let mut left = true;
        for (context, asked) in &asked {
            if !context.leaves(asked, limit) {
                left = false;
                self.complain(context);
            }
        }
        left &= contexts.packets.iter().all(|context| context.has_left(limit));
        // Contexts that were suspended before stay suspended.
        let suspended = asked.into_iter().filter(|(_, asked)| matches!(asked.answer, Ok(Some(_))));
        suspended.for_each(|(context, _)| space.suspension.resume_with_process(context));
        if !left {
            contexts.resume(&space.suspension);
        }
        left
    }

    /// Reports a timeout of a context that did not leave its engine, unless one of its queues has no time limit (DisableGpuTimeout).
    fn complain(&self, context: &Arc<HwContext>) {
        let unlimited = context.queues().iter().any(|queue| queue.flags().DisableGpuTimeout());
        let abandons = self.timeouts.is_abandoning() || self.verifier.is_stopped();
        let subject = Subject::Context(Arc::clone(context));
        let complaint = self.timeouts.complaint_about(context.node(), TdrReason::SuspensionTimeout, subject);
        if !unlimited && !abandons && !complaint.is_of_lost_device() {
            self.worker.add(Work::Recover(complaint));
        }
    }
}

impl Contexts {
    fn disconnect(&self) {
        let queues = self.hardware.iter().flat_map(|context| context.queues());
        queues.filter_map(|queue| queue.doorbell()).for_each(|doorbell| doorbell.disconnect());
    }
}

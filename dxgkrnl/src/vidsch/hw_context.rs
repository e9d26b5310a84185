//! A hardware context is taken off its engine, and put back.

use std::time::{Duration, Instant};

use nt::lock::lock;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::rescue::Rescue;

use super::not_running::NotRunning;
use super::objects::hardware::HwContext;
use super::packet;

/// Time between two looks for a report that is late.
const NAP: Duration = Duration::from_millis(1);

/// The suspension of a context was requested.
pub(super) struct Asked {
    /// What [`HwContext::begin_suspension`] answered.
    pub(super) answer: Result<Option<u64>, NTSTATUS>,
    /// Resets of the engine until then, and those that were begun.
    resets: u64,
    begun: u64,
}

impl HwContext {
    /// Tells the driver where the root page table of its process is.
    pub(super) fn set_root(&self, stands: &NotRunning<'_>) {
        packet::set_root_page_table(&self.adapter, self.kmd, self.node, &self.device.process.space, stands);
    }

    /// As when it was made: the page tables came back to another place while it was suspended.
    pub(super) fn follow_root(&self, stands: &NotRunning<'_>) {
        let _working = self.adapter.use_node(self.node);
        let gone = lock(&self.suspending);
        if !*gone {
            self.set_root(stands);
        }
    }

    /// As [`HwContext::begin_suspension`], for whoever waits until the context has left its engine.
    pub(super) fn ask_off(&self) -> Asked {
        let (resets, begun) = (self.sch().timeouts.resets_of(self.node), self.resets_begun());
        Asked { answer: self.begin_suspension(), resets, begun }
    }

    /// True when the context has left its engine, when the machine's clock shows `limit` at the latest. From then on its queues do not touch
    /// memory any more. A reset of the engine since `asked` may have stopped what kept the context there, so the wait begins anew, unless the
    /// reset has put the context's device in error: then the recovery that asked for the reset takes the context off, and may be waiting for the caller.
    pub(super) fn leaves(&self, asked: &Asked, mut limit: Duration) -> bool {
        let Asked { answer, mut resets, begun } = *asked;
        let Ok(fence) = answer else { return false };
        let Some(fence) = fence else { return true };
        let began = Instant::now();
        loop {
            if self.wait_suspended(fence, limit) || self.has_left_unheard(fence, began, begun) {
                return true;
            }
            let known = core::mem::replace(&mut resets, self.sch().timeouts.resets_of(self.node));
            if known == resets || self.is_given_up() || self.device().error().is_some() {
                return false;
            }
            limit = self.sch().timeouts.limit();
        }
    }

    /// Resets of the engine that were begun.
    pub(crate) fn resets_begun(&self) -> u64 {
        self.sch().timeouts.resets_begun(self.node)
    }

    /// True for a context that left its engine, though the report of suspension `fence` was lost: a second question brings it, or is answered
    /// by it. Nothing was lost where a reset has been begun since `begun` were: it may have let the context go at any moment until now.
    fn has_left_unheard(&self, fence: u64, began: Instant, begun: u64) -> bool {
        if self.is_given_up() {
            return false;
        }
        if self.is_reported_in_time(fence, began) {
            return true;
        }
        let answer = self.begin_suspension();
        self.adapter.flush_interrupts();
        let left = answer.is_ok_and(|fence| fence.is_none()) || self.has_suspended(fence);
        if left && self.resets_begun() == begun {
            self.sch().rescued(Rescue::UnreportedSuspension, 1);
        }
        left
    }

    /// True if suspension `fence`, which was asked for at `asked`, is reported before the host's time for it is over: the machine's clock may have been moved on
    /// by hand.
    pub(crate) fn is_reported_in_time(&self, fence: u64, asked: Instant) -> bool {
        let limit = self.sch().timeouts.long_stall();
        loop {
            self.adapter.flush_interrupts();
            if self.has_suspended(fence) {
                return true;
            }
            if asked.elapsed() >= limit || self.is_given_up() || self.adapter.is_gone() {
                return false;
            }
            if !self.adapter.relax() {
                std::thread::sleep(NAP);
            }
        }
    }

    /// A reset of the adapter takes everything off its engines; a machine that has stopped takes nothing.
    fn is_given_up(&self) -> bool {
        let sch = self.sch();
        sch.timeouts.is_abandoning() || sch.verifier.is_stopped()
    }

    /// Asks the driver to take the context off its engine; the value that it will report, or `None` if the context was
    /// off it already. [d3dkmddi: DXGKARG_SUSPENDCONTEXT]
    ///
    /// # Errors
    /// What the driver answered, after the bugcheck that a refusal is.
    pub(crate) fn begin_suspension(&self) -> Result<Option<u64>, NTSTATUS> {
        // The driver sees the values in order.
        let gone = lock(&self.suspending);
        if *gone {
            return Ok(None);
        }
        let (fence, was_asked) = {
            let mut suspension = lock(&self.suspension);
            let was_asked = suspension.issued > suspension.resumed;
            suspension.issued += 1;
            (suspension.issued, was_asked)
        };
        let mut args = DXGKARG_SUSPENDCONTEXT::zeroed();
        args.hContext = self.kmd.raw();
        args.contextSuspendFence = fence;
        let answer = self.adapter.miniport.suspend_context(self.adapter.context().raw(), &args);
        match answer.status() {
            STATUS_SUCCESS => {
                if !was_asked {
                    self.note_early_grant(fence);
                }
                // This value is not reported; reports of earlier ones may still be under way.
                lock(&self.suspension).granted = fence;
                Ok(None)
            }
            STATUS_PENDING => Ok(Some(fence)),
            status => {
                self.sch().must_not_fail(answer);
                Err(status)
            }
        }
    }

    /// The driver says that the context was suspended already, and nobody had asked for that since it was created or resumed: its engine may still use memory
    /// that is about to be moved. A reset takes contexts off by itself, and what runs on a lost device is nobody's any more.
    /// [d3dkmddi: DXGKDDI_SUSPENDCONTEXT]
    fn note_early_grant(&self, fence: u64) {
        if self.is_given_up() || self.adapter.is_gone() || self.device().error().is_some() {
            return;
        }
        lock(&self.suspension).early += 1;
        self.sch().rescued(Rescue::EarlySuspension, 1);
        self.sch().verifier.log(format!(
            "DxgkDdiSuspendContext answered STATUS_SUCCESS for a context of node {} that was not suspended, and expected was STATUS_PENDING and \
             DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED with contextSuspendFence {fence:#x}: STATUS_SUCCESS is for a context that is suspended already \
             [d3dkmddi: DXGKDDI_SUSPENDCONTEXT]",
            self.node
        ));
    }

    /// Puts the context back on its engine. [d3dkmddi: DXGKARG_RESUMECONTEXT]
    pub(crate) fn resume(&self) {
        let _working = self.adapter.use_node(self.node);
        let gone = lock(&self.suspending);
        if *gone {
            return;
        }
        // The hardware looks at their rings.
        self.queues().iter().for_each(|queue| queue.note_active());
        {
            let mut suspension = lock(&self.suspension);
            suspension.resumed = suspension.issued;
        }
        let args = DXGKARG_RESUMECONTEXT { hContext: self.kmd.raw() };
        self.sch().must_not_fail(self.adapter.miniport.resume_context(self.adapter.context().raw(), &args));
    }

    /// Waits until a suspension is complete, at most until the machine's clock shows `limit`.
    fn wait_suspended(&self, fence: u64, limit: Duration) -> bool {
        let sch = self.sch();
        let clock = sch.timeouts.clock();
        let _waits = clock.deadline(limit);
        let pumped = !self.adapter.machine.config().interrupt_thread;
        let mut suspension = lock(&self.suspension);
        while suspension.completed < fence {
            // A device that was pulled out executes nothing, so its contexts count as suspended.
            if self.adapter.is_gone() {
                return true;
            }
            let left = limit.saturating_sub(clock.now());
            if left.is_zero() || self.is_given_up() {
                return false;
            }
            if pumped {
                drop(suspension);
                if !self.adapter.relax() {
                    std::thread::yield_now();
                }
                suspension = lock(&self.suspension);
            } else {
                let nap = sch.timeouts.sleep_time(limit).min(Duration::from_millis(200));
                suspension = self.suspended.wait_timeout(suspension, nap);
            }
        }
        true
    }
}

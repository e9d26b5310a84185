//! The processor waits for fences.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use crate::fence::{Event, Wait};
use crate::rescue::Rescue;

use super::{batch, cross_adapter};
use crate::vidsch::objects::fence::SyncObject;
use crate::vidsch::objects::sync_object::is_met;
use crate::vidsch::objects::worker::Work;
use crate::vidsch::scheduler::VidSch;

impl VidSch {
    /// Looks at every fence of a kind that somebody waits for, perhaps on another adapter.
    pub(in crate::vidsch) fn evaluate_watched(&self, native: bool) {
        let fences = self.watched_fences(native);
        batch::evaluate(&fences);
        cross_adapter::propagate(&fences);
    }

    /// Blocks until all (or `any`) of the fences have reached their values: STATUS_SUCCESS, STATUS_TIMEOUT at
    /// `deadline`, or why the wait was given up.
    pub(crate) fn wait(&self, conditions: &[(Arc<SyncObject>, u64)], any: bool, deadline: Option<Instant>) -> NTSTATUS {
        self.wait_pausing(conditions, any, deadline, |nap| self.pause(nap))
    }

    /// As [`VidSch::wait`] for all of the fences, until `left` says that no time is left: the thread sleeps for no longer than that says. A value that is there and of which nobody
    /// has told for long ends the wait too, and is counted.
    pub(in crate::vidsch) fn wait_told(
        &self,
        conditions: &[(Arc<SyncObject>, u64)],
        left: impl Fn() -> Duration,
    ) -> NTSTATUS {
        let found = Cell::new(None::<Instant>);
        self.wait_pausing(conditions, false, None, |nap| {
            if let Some(status) = self.pause(nap.min(left())) {
                return Some(status);
            }
            if !is_met(conditions, false) {
                return left().is_zero().then_some(STATUS_TIMEOUT);
            }
            let since = found.get().unwrap_or_else(Instant::now);
            found.set(Some(since));
            (since.elapsed() >= self.timeouts.long_stall()).then(|| {
                self.rescued(Rescue::UnreportedSignal, 1);
                STATUS_SUCCESS
            })
        })
    }

    /// As [`VidSch::wait`]; `pause` is that of [`Wait::block`].
    fn wait_pausing(
        &self,
        conditions: &[(Arc<SyncObject>, u64)],
        any: bool,
        deadline: Option<Instant>,
        pause: impl Fn(Duration) -> Option<NTSTATUS>,
    ) -> NTSTATUS {
        if is_met(conditions, any) {
            // All ones may be what the loss of a device left, which ends the instance first.
            let left = conditions.iter().filter(|(fence, _)| fence.current() == u64::MAX);
            return left.filter_map(|(fence, _)| fence.check().err()).next().unwrap_or(STATUS_SUCCESS);
        }
        let wait = Wait::of_thread(if any { 1 } else { conditions.len() as u32 });
        if let Err(status) = batch::add_waits(conditions, &wait) {
            wait.finish(status);
        }
        let status = wait.block(deadline, pause);
        if conditions.len() > 1 || status != STATUS_SUCCESS {
            batch::remove_waits(conditions, &wait);
        }
        status
    }

    /// As [`VidSch::wait`], but returns at once; `event` is signalled when the wait is over.
    ///
    /// # Errors
    /// A fence is closed or its device lost.
    pub(crate) fn wait_with_event(
        self: &Arc<Self>,
        conditions: &[(Arc<SyncObject>, u64)],
        any: bool,
        event: Event,
    ) -> Result<(), NTSTATUS> {
        let others: Vec<_> = conditions.iter().map(|(open, _)| Arc::downgrade(open.fence())).collect();
        let sch = Arc::downgrade(self);
        let forget = move || {
            if let Some(sch) = sch.upgrade() {
                sch.worker.add(Work::ForgetWaits(others.clone()));
            }
        };
        let count = if any { 1 } else { conditions.len() as u32 };
        let over: Option<Box<dyn Fn() + Send + Sync>> =
            if conditions.len() > 1 { Some(Box::new(forget)) } else { None };
        let wait = Wait::of_event(count, event, over);
        batch::add_waits(conditions, &wait).inspect_err(|_| batch::remove_waits(conditions, &wait))?;
        // A machine that stops meanwhile may have ended its waits before this one was among them.
        if self.verifier.is_stopped() {
            wait.finish_event(STATUS_DEVICE_REMOVED);
        }
        Ok(())
    }

    /// Blocks until the fences have reached their values, or the machine's clock `limit`.
    pub(in crate::vidsch) fn wait_by_clock(&self, conditions: &[(Arc<SyncObject>, u64)], limit: Duration) -> NTSTATUS {
        let _waits = self.timeouts.clock.deadline(limit);
        self.wait_told(conditions, || match limit.saturating_sub(self.timeouts.clock.now()) {
            Duration::ZERO => Duration::ZERO,
            _ => self.timeouts.sleep_time(limit),
        })
    }
}

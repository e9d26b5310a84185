//! The state of a search for memory: whom it suspended or asked to stand still.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use nt::lock::lock;
use nt::lock::{Condvar, Mutex};

use crate::vidmm::ids::{AllocationId, SpaceId};
use crate::vidmm::request::IDLE_TIMEOUT;
use crate::vidmm::request_queue::{QueuePlace, RequestQueue};

/// The state of a thread that asks the processes which have an allocation locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Asking,
    Holding,
    Failed,
    /// Whoever wanted it to move has moved it, or does not want that any more.
    LetGo,
}

pub(super) type Stages = (Mutex<Stage>, Condvar);

/// Allocations whose stores wait for a request.
#[derive(Default)]
pub(crate) struct Held {
    pub(super) stages: BTreeMap<AllocationId, Arc<Stages>>,
    /// Allocations that stay in their segment: their processes could not be asked.
    pub(super) cannot_leave: BTreeSet<AllocationId>,
}

impl Held {
    /// Whatever is held goes on, where it is by then.
    pub(super) fn let_go(&mut self) {
        for stages in std::mem::take(&mut self.stages).values() {
            *lock(&stages.0) = Stage::LetGo;
            stages.1.notify_all();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// The progress of the eviction for one request.
#[derive(Default)]
pub(crate) struct EvictionSearch {
    /// Its place in the queue of requests that have processes with work suspended; `None` until it needs one.
    pub(super) place: Option<QueuePlace>,
    /// Processes that did not leave their engines when they were to be suspended.
    pub(super) failed_to_suspend: BTreeSet<SpaceId>,
    /// Everything else is evicted: of a process that is resumed, what is still in memory leaves first, so that free memory is in one piece.
    pub(super) evicts_own_first: bool,
    /// End of the wait for queues that are about to finish with memory they use.
    idle_deadline: Option<Instant>,
    /// Suspends only idle processes, and evicts no residency list.
    pub(super) never_suspends: bool,
    /// Allocations that move for the request although processes have them locked.
    pub(super) held: Held,
}

impl EvictionSearch {
    /// A search that suspends only idle processes, and for which no residency list leaves.
    pub(crate) fn without_suspending() -> Self {
        Self { never_suspends: true, ..Self::default() }
    }

    /// True for a search that suspends no process with work, and evicts no residency list.
    pub(crate) fn never_suspends(&self) -> bool {
        self.never_suspends
    }

    /// True while another request is in front of this one in the queue.
    pub(crate) fn is_queued_behind(&self) -> bool {
        self.place.as_ref().is_some_and(|place| !place.is_first())
    }

    /// True if residency lists of suspended processes are evicted for the request.
    pub(super) fn evicts_lists(&self) -> bool {
        self.place.is_some()
    }

    /// True until the request has waited IDLE_TIMEOUT for queues that are about to finish with memory they use.
    pub(crate) fn may_wait_for_idle_queues(&mut self) -> bool {
        let now = Instant::now();
        now < *self.idle_deadline.get_or_insert(now + IDLE_TIMEOUT)
    }

    /// Queues the search behind the requests that wait for memory of processes with work, if there are any: a process that was suspended for one of them
    /// and resumed before that one had its memory would keep the memory for another time slice. False if there are some and the search suspends
    /// nobody, so that it has no place among them.
    pub(super) fn queue_behind(&mut self, requests: &RequestQueue) -> bool {
        if self.place.is_none() && !requests.is_empty() {
            self.place = (!self.never_suspends).then(|| requests.enqueue());
            return self.place.is_some();
        }
        true
    }

    /// Whatever waits to move goes on.
    pub(super) fn let_go(&mut self) {
        self.held.let_go();
    }

    /// Gives up its place in the queue, so that the requests behind it go on, and whatever waits for it to move.
    pub(crate) fn leave_queue(&mut self) {
        self.place = None;
        self.let_go();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_resumed_after_the_request_for_which_it_was_suspended() {
        let requests = RequestQueue::default();
        let (mut resumed, mut bystander) = (EvictionSearch::default(), EvictionSearch::without_suspending());
        assert!(resumed.queue_behind(&requests) && bystander.queue_behind(&requests));
        assert!(!resumed.is_queued_behind(), "nobody waits");
        let request = requests.enqueue();
        assert!(resumed.queue_behind(&requests) && resumed.is_queued_behind());
        assert!(resumed.queue_behind(&requests), "it has its place");
        assert!(!bystander.queue_behind(&requests) && !bystander.is_queued_behind());
        drop(request);
        assert!(!resumed.is_queued_behind());
        resumed.leave_queue();
        assert!(requests.is_empty() && bystander.queue_behind(&requests));
    }
}

//! What the three software queues of the scheduler have in common: requests in the order of their submission, the wait of the first one, and
//! the threads that wait for the queue.
//!
//! The queues are those of a hardware queue ([`software_queue`](crate::vidsch::software_queue)), of a context of packets ([`packet_context`](crate::vidsch::packet_context)) and of page-table
//! updates ([`update_queue`](crate::vidsch::update_queue)). They are not one type beyond this, because they differ in what a queue is locked for:
//! - that of a hardware queue hands a buffer to the driver with the queue locked, so that buffers reach it in order, and a signal waits for the
//!   progress fence as for any other;
//! - that of packets gives a packet to the node, which runs it later; a signal waits for the number of a packet, and the queue is looked at
//!   without its lock whenever a packet is done (`attention`), since that happens under the lock of the node;
//! - that of updates is not locked while an update is made, since that may evict and so wait; it counts changes instead of requests, and has a
//!   thread of its own.

use std::collections::VecDeque;
use std::sync::Arc;

use wddm_ddi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES};

use crate::fence::Wait;

use super::older_sync::{Mutexes, QueueNumber};
use super::queue_wait::{Objects, QueueWait};

/// A command of software in the queue of a context or a hardware queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vidsch) enum SyncCommand {
    Wait,
    Signal,
}

/// Most submissions that a hardware queue or a context of packets holds, and most packets that a node has of a context.
pub(in crate::vidsch) const REQUESTS_MAX: usize = 4096;

/// One submission to a hardware queue or a context of packets.
pub(in crate::vidsch) enum Item<C> {
    /// Commands of user mode.
    Commands(C),
    Wait(Objects),
    /// To be written when what has the number `after` is done.
    Signal {
        signals: Objects,
        after: u64,
    },
}

impl<C> Item<C> {
    /// Which command of software it is; `None` for commands of user mode.
    pub(in crate::vidsch) fn command(&self) -> Option<SyncCommand> {
        match self {
            Self::Commands(_) => None,
            Self::Wait(_) => Some(SyncCommand::Wait),
            Self::Signal { .. } => Some(SyncCommand::Signal),
        }
    }
}

/// Requests that wait, the first of them perhaps for a fence.
pub(in crate::vidsch) struct RequestQueue<T> {
    requests: VecDeque<T>,
    /// Requests that were ever added.
    added: u64,
    pub(in crate::vidsch) wait: Option<QueueWait>,
    waiting: Vec<Arc<Wait>>,
    pub(in crate::vidsch) number: QueueNumber,
    /// Mutexes that it may own.
    pub(in crate::vidsch) mutexes: Mutexes,
}

impl<T> Default for RequestQueue<T> {
    fn default() -> Self {
        let (number, mutexes) = (QueueNumber::new(), Mutexes::default());
        Self { requests: VecDeque::new(), added: 0, wait: None, waiting: Vec::new(), number, mutexes }
    }
}

impl<T> RequestQueue<T> {
    /// Requests that wait.
    pub(in crate::vidsch) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Requests that were ever added.
    pub(in crate::vidsch) fn added(&self) -> u64 {
        self.added
    }

    /// Of those, the ones that do not wait any more.
    pub(in crate::vidsch) fn passed(&self) -> u64 {
        self.added - self.requests.len() as u64
    }

    /// True if nothing waits.
    pub(in crate::vidsch) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Adds a request behind the others.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES if [`REQUESTS_MAX`] wait.
    pub(in crate::vidsch) fn push(&mut self, request: T) -> Result<(), NTSTATUS> {
        if self.requests.len() >= REQUESTS_MAX {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        self.requests.push_back(request);
        self.added += 1;
        Ok(())
    }

    /// The first request.
    pub(in crate::vidsch) fn first(&self) -> Option<&T> {
        self.requests.front()
    }

    /// Takes the first request out.
    pub(in crate::vidsch) fn pop(&mut self) -> Option<T> {
        self.requests.pop_front()
    }

    /// Returns a request that was taken out to the front, because it has to wait after all.
    pub(in crate::vidsch) fn put_back(&mut self, request: T) {
        self.requests.push_front(request);
    }

    /// `None` while the first request waits; else whether it did, and need not again.
    pub(in crate::vidsch) fn end_wait(&mut self) -> Option<bool> {
        let is_over = self.wait.as_ref().map(QueueWait::is_over);
        if is_over == Some(false) { None } else { Some(self.wait.take().is_some()) }
    }

    /// True if the wait of the first request is met, and its end has yet to be told.
    pub(in crate::vidsch) fn is_about_to_move(&self) -> bool {
        self.wait.as_ref().is_some_and(QueueWait::is_about_to_end)
    }

    /// Nothing is run any more: the mutexes that the queue owns go to others.
    pub(in crate::vidsch) fn abandon_mutexes(&mut self) {
        self.mutexes.abandon(self.number);
    }

    /// True if a wait of the queue has taken a mutex that it has not given back.
    pub(in crate::vidsch) fn owns_mutex(&self) -> bool {
        self.mutexes.are_owned(self.number)
    }

    /// Takes every request out.
    pub(in crate::vidsch) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.requests.drain(..)
    }

    /// The wait of the first request, to be cancelled without the lock of the queue.
    pub(in crate::vidsch) fn take_hold(&mut self) -> Option<QueueWait> {
        self.wait.take()
    }

    /// A thread waits for the queue.
    pub(in crate::vidsch) fn add_waiter(&mut self, wait: &Arc<Wait>) {
        self.waiting.retain(|other| other.outcome().is_none());
        self.waiting.push(Arc::clone(wait));
    }

    /// The thread waits no more.
    pub(in crate::vidsch) fn remove_waiter(&mut self, wait: &Arc<Wait>) {
        self.waiting.retain(|other| !Arc::ptr_eq(other, wait));
    }

    /// Threads that wait for the queue.
    pub(in crate::vidsch) fn waiters(&self) -> usize {
        self.waiting.len()
    }

    /// Satisfies the waits of all threads.
    pub(in crate::vidsch) fn release_waiters(&mut self) {
        self.waiting.drain(..).for_each(|wait| wait.satisfy());
    }
}

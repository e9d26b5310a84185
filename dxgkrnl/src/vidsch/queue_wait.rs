//! The first submission of a software queue waits, and signals of a queue are written.

use wddm_ddi::status::STATUS_CANCELLED;

use crate::fence::Wait;

use super::fences::batch;
use super::objects::older_sync::{self, QueueNumber};
use super::objects::queue_wait::{Objects, QueueWait};
use super::objects::request_queue::RequestQueue;

impl QueueWait {
    /// A wait for all of `conditions`; `over` is called when it is over, perhaps before this returns. An object that nobody can wait
    /// for any more ends it.
    pub(super) fn new(conditions: Objects, by: QueueNumber, over: impl Fn() + Send + Sync + 'static) -> Self {
        let Objects { fences, older, until_over, .. } = conditions;
        let wait = Wait::of_hook((fences.len() + older.len()) as u32, Box::new(over));
        let begun = match batch::add_waits(&fences, &wait) {
            Ok(()) => older_sync::begin(&older, &wait, by),
            Err(status) => {
                batch::remove_waits(&fences, &wait);
                wait.finish(status);
                Vec::new()
            }
        };
        Self { wait, fences, begun, _until_over: until_over }
    }

    /// Gives the wait up.
    pub(super) fn cancel(self) {
        self.wait.finish(STATUS_CANCELLED);
        batch::remove_waits(&self.fences, &self.wait);
        older_sync::give_up(&self.begun, &self.wait);
    }
}

impl<T> RequestQueue<T> {
    /// The first request waits for these; `over` is called when they have come, perhaps before this returns.
    pub(super) fn wait_for(&mut self, conditions: impl Into<Objects>, over: impl Fn() + Send + Sync + 'static) {
        let conditions = conditions.into();
        self.mutexes.note(&conditions.older);
        self.wait = Some(QueueWait::new(conditions, self.number, over));
    }

    /// The queue, which is one of this device, signals these, unless another one has yet to come to the same signal. As signals of a GPU they are written
    /// whatever the value of a fence was.
    pub(super) fn signal(&self, signals: &Objects, device: u64) {
        if !signals.are_due() {
            return;
        }
        // Fails when a fence was closed meanwhile; nobody is left who could see its value here.
        let _ = batch::signal(&signals.fences, true);
        older_sync::signal(&signals.older, self.number, device);
    }
}

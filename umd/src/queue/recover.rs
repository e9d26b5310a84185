//! Moves a queue whose device was lost to another device.

use super::{Queue, QueueOptions, SubmissionModel};
use crate::{device::Device, error::Result};

/// Submissions that were not seen done when their device was lost: progress values of the queue as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Progress value of the first.
    pub first: u64,
    /// Number of the submissions, whose progress values follow one another.
    pub count: u64,
}

impl Queue {
    /// Goes on in a queue on `device`, after the one that it was on is lost; `model` as in [`QueueOptions`]. Progress starts over. Says
    /// which submissions were not seen done.
    ///
    /// # Errors
    /// As [`Queue::new`]; the queue is as it was then.
    pub fn recover(&mut self, device: &Device, model: Option<SubmissionModel>) -> Result<Unfinished> {
        let mut fresh = Self::new(device, self.node, QueueOptions { model, ..self.options })?;
        fresh.core.tracer = self.core.tracer.take();
        let seen = self.seen();
        let unfinished = Unfinished { first: seen + 1, count: self.last_submitted().saturating_sub(seen) };
        *self = fresh;
        Ok(unfinished)
    }
}

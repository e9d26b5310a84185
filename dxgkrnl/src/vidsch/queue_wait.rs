//! What the first submission of a software queue waits for.

use std::sync::Arc;

use wddm_ddi::status::STATUS_CANCELLED;

use super::batch;
use super::sync_object::SyncObject;
use super::wait::Wait;

/// Fences with values.
pub(super) type FenceValues = Vec<(Arc<SyncObject>, u64)>;

/// A wait of a software queue for fences.
pub(super) struct QueueWait {
    wait: Arc<Wait>,
    conditions: FenceValues,
}

impl QueueWait {
    /// A wait for all of `conditions`; `over` is called when it is over, perhaps before this returns. A fence that nobody can wait
    /// for any more ends it.
    pub(super) fn new(conditions: FenceValues, over: impl Fn() + Send + Sync + 'static) -> Self {
        let wait = Wait::of_hook(conditions.len() as u32, Box::new(over));
        if let Err(status) = batch::add_waits(&conditions, &wait) {
            batch::remove_waits(&conditions, &wait);
            wait.finish(status);
        }
        Self { wait, conditions }
    }

    /// True if the wait is over.
    pub(super) fn is_over(&self) -> bool {
        self.wait.outcome().is_some()
    }

    /// Gives the wait up.
    pub(super) fn cancel(self) {
        self.wait.finish(STATUS_CANCELLED);
        batch::remove_waits(&self.conditions, &self.wait);
    }
}

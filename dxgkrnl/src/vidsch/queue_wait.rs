//! What the first submission of a software queue waits for, and what one signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wddm_ddi::status::{NTSTATUS, STATUS_CANCELLED};

use super::older_sync::{self, Begun, OlderValue, QueueNumber};
use super::sync_object::SyncObject;
use super::{batch, is_met};
use crate::fence::Wait;

/// Fences with values.
pub(super) type FenceValues = Vec<(Arc<SyncObject>, u64)>;

/// Objects that a queue waits for or signals.
#[derive(Clone, Default)]
pub(crate) struct Objects {
    pub(crate) fences: FenceValues,
    pub(crate) older: Vec<OlderValue>,
    /// The other queues of a signal that is submitted to several.
    together: Option<Arc<Together>>,
    /// Ends with the wait.
    until_over: Option<Arc<UntilOver>>,
}

/// Does something when the last wait that has it is over or given up; must take no locks of queues or fences.
struct UntilOver(Box<dyn Fn() + Send + Sync>);

impl Drop for UntilOver {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Queues that have not come to their common signal yet. The last one signals; if one never comes, nobody does. [d3dumddi:
/// D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2]
struct Together(AtomicUsize);

impl From<FenceValues> for Objects {
    fn from(fences: FenceValues) -> Self {
        Self { fences, ..Self::default() }
    }
}

impl Objects {
    /// As they are, for so many queues that signal them together.
    pub(crate) fn together(self, queues: usize) -> Self {
        let together = (queues > 1).then(|| Arc::new(Together(AtomicUsize::new(queues))));
        Self { together, ..self }
    }

    /// As they are; `over` is called once the wait for them is over or given up, at any time after that, and must take no locks of queues or fences.
    pub(crate) fn until_over(self, over: impl Fn() + Send + Sync + 'static) -> Self {
        Self { until_over: Some(Arc::new(UntilOver(Box::new(over)))), ..self }
    }

    /// A queue has come to where it signals them. True if it is the one that does.
    pub(super) fn are_due(&self) -> bool {
        self.together.as_ref().is_none_or(|together| together.0.fetch_sub(1, Ordering::AcqRel) == 1)
    }

    /// True if a wait for them is over before it begins. One for objects of before monitored fences is served in order.
    pub(super) fn is_met(&self) -> bool {
        self.older.is_empty() && is_met(&self.fences, false)
    }

    /// For callers that are about to submit them.
    ///
    /// # Errors
    /// Why a fence is ended.
    pub(super) fn check(&self) -> Result<(), NTSTATUS> {
        self.fences.iter().try_for_each(|(fence, _)| fence.check())
    }
}

/// A wait of a software queue for fences.
pub(super) struct QueueWait {
    wait: Arc<Wait>,
    fences: FenceValues,
    begun: Vec<Begun>,
    _until_over: Option<Arc<UntilOver>>,
}

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

    /// True if the wait is over.
    pub(super) fn is_over(&self) -> bool {
        self.wait.outcome().is_some()
    }

    /// True if the fences have their values, and what tells the wait of it is still to come: an interrupt that is under way.
    pub(super) fn is_about_to_end(&self) -> bool {
        !self.is_over() && self.begun.is_empty() && is_met(&self.fences, false)
    }

    /// Gives the wait up.
    pub(super) fn cancel(self) {
        self.wait.finish(STATUS_CANCELLED);
        batch::remove_waits(&self.fences, &self.wait);
        older_sync::give_up(&self.begun, &self.wait);
    }
}

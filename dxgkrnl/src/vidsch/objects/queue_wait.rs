//! What the first submission of a software queue waits for, and what one signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wddm_ddi::status::NTSTATUS;

use crate::fence::Wait;

use super::fence::SyncObject;
use super::older_sync::{Begun, OlderValue};
use super::sync_object::is_met;

/// Fences with values.
pub(in crate::vidsch) type FenceValues = Vec<(Arc<SyncObject>, u64)>;

/// Objects that a queue waits for or signals.
#[derive(Clone, Default)]
pub(crate) struct Objects {
    pub(crate) fences: FenceValues,
    pub(crate) older: Vec<OlderValue>,
    /// The other queues of a signal that is submitted to several.
    together: Option<Arc<Together>>,
    /// Ends with the wait.
    pub(in crate::vidsch) until_over: Option<Arc<UntilOver>>,
}

/// Does something when the last wait that has it is over or given up; must take no locks of queues or fences.
pub(in crate::vidsch) struct UntilOver(Box<dyn Fn() + Send + Sync>);

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
    pub(in crate::vidsch) fn are_due(&self) -> bool {
        self.together.as_ref().is_none_or(|together| together.0.fetch_sub(1, Ordering::AcqRel) == 1)
    }

    /// True if a wait for them is over before it begins. One for objects of before monitored fences is served in order.
    pub(in crate::vidsch) fn is_met(&self) -> bool {
        self.older.is_empty() && is_met(&self.fences, false)
    }

    /// For callers that are about to submit them.
    ///
    /// # Errors
    /// Why a fence is ended.
    pub(in crate::vidsch) fn check(&self) -> Result<(), NTSTATUS> {
        self.fences.iter().try_for_each(|(fence, _)| fence.check())
    }
}

/// A wait of a software queue for fences.
pub(in crate::vidsch) struct QueueWait {
    pub(in crate::vidsch) wait: Arc<Wait>,
    pub(in crate::vidsch) fences: FenceValues,
    pub(in crate::vidsch) begun: Vec<Begun>,
    pub(in crate::vidsch) _until_over: Option<Arc<UntilOver>>,
}

impl QueueWait {
    /// True if the wait is over.
    pub(in crate::vidsch) fn is_over(&self) -> bool {
        self.wait.outcome().is_some()
    }

    /// True if the fences have their values, and what tells the wait of it is still to come: an interrupt that is under way.
    pub(in crate::vidsch) fn is_about_to_end(&self) -> bool {
        !self.is_over() && self.begun.is_empty() && is_met(&self.fences, false)
    }
}

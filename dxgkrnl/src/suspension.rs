//! True if the work of a process is taken off the engines of an adapter.
//!
//! The scheduler suspends and resumes processes; the memory manager asks for it, and keeps this with the address space of the process, whose
//! tables the engines walk only while it is not suspended.

use std::sync::{Arc, Weak};
use std::time::Duration;

use nt::lock::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard, lock};

use crate::rank;

/// A context that was suspended with its process.
pub(crate) trait SuspendedContext: Send + Sync {
    /// Puts the context back on its engine.
    fn resume(&self);

    /// As [`SuspendedContext::resume`]; nothing happens to a context of a lost device.
    fn resume_unless_lost(&self);
}

/// Says of one process whether it is suspended, and what has to be resumed with it.
#[derive(Default)]
pub(crate) struct ProcessSuspension {
    /// True while the process is suspended. Read by threads that need the process running, written by those that suspend or resume it. A thread
    /// that already writes the one of another process may only try to lock it.
    pub(crate) suspended: RwLock<bool, rank::Suspended>,
    /// Contexts that are resumed with the process; `None` while it runs.
    to_resume: Mutex<Option<Vec<Weak<dyn SuspendedContext>>>, rank::ContextsToResume>,
    /// The time slice that the process is entitled to since it was suspended last.
    pub(crate) time_slice: Mutex<TimeSlice, rank::TimeSlice>,
}

/// The time slice of a process that was suspended with work to do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum TimeSlice {
    /// The process has none: it was not suspended with work since its last one was over.
    #[default]
    Over,
    /// The process is suspended, and queued for one.
    Queued,
    /// The process was resumed at this time of the machine's clock, when it had completed so many submissions.
    Current { since: Duration, done: u64 },
}

impl ProcessSuspension {
    /// The process is neither suspended nor resumed while the answer exists, which says whether it is suspended.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, bool, rank::Suspended> {
        self.suspended.read()
    }

    /// For the thread that suspends or resumes the process; `None` if another thread does, or needs it as it is.
    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, bool, rank::Suspended>> {
        self.suspended.try_write()
    }

    /// A process that is suspended has no more work, and is resumed only with new work.
    pub(crate) fn give_up_time_slice(&self) {
        let mut slice = lock(&self.time_slice);
        if matches!(*slice, TimeSlice::Queued) {
            *slice = TimeSlice::Over;
        }
    }

    /// From now on no context of the process is resumed before the process is.
    pub(crate) fn hold_contexts(&self) {
        *lock(&self.to_resume) = Some(Vec::new());
    }

    /// Resumes the contexts of the process that were suspended with it.
    pub(crate) fn resume_contexts(&self) {
        let to_resume = lock(&self.to_resume).take().unwrap_or_default();
        to_resume.iter().filter_map(Weak::upgrade).for_each(|context| context.resume_unless_lost());
    }

    /// Resumes a context that was suspended; now if its process runs, else when that is resumed.
    pub(crate) fn resume_with_process<C: SuspendedContext + 'static>(&self, context: &Arc<C>) {
        let mut to_resume = lock(&self.to_resume);
        match &mut *to_resume {
            Some(to_resume) => {
                let context: Weak<C> = Arc::downgrade(context);
                to_resume.push(context);
            }
            None => context.resume(),
        }
    }

    /// True while the process is suspended.
    pub(crate) fn is_suspended(&self) -> bool {
        // A thread that suspends or resumes the process holds the lock: it counts as suspended.
        self.suspended.try_read().is_none_or(|suspended| *suspended)
    }
}

//! The progress fence of a queue, as far as the recording of commands needs it.

use core::sync::atomic::Ordering;

use wddm_ddi::types::D3DKMT_HANDLE;

use crate::shared::SharedWord;

/// Progress fence of a queue, as far as the recording of commands needs it.
pub(crate) struct Progress {
    /// The fence's current value, read-only for us.
    pub(crate) current: SharedWord,
    /// Its handle, for waits.
    pub(crate) fence: D3DKMT_HANDLE,
    /// The progress value that was reached before this fence was created.
    floor: u64,
    /// Value before the first submission.
    pub(crate) base: u64,
    /// Submissions made: write pointer of the ring. The private copy; the shared one is only ever written.
    pub(crate) submitted: u64,
    /// Submissions known to be done.
    pub(super) completed: u64,
}

impl Progress {
    pub(crate) fn new(current: SharedWord, fence: D3DKMT_HANDLE) -> Self {
        Self { current, fence, floor: 0, base: current.load(Ordering::Acquire), submitted: 0, completed: 0 }
    }

    /// The progress value reached so far, read with acquire order: command memory of the submissions up to it may be overwritten after this.
    #[inline(always)]
    pub(crate) fn reached(&self) -> u64 {
        self.current.load(Ordering::Acquire).max(self.floor)
    }

    /// True if `value` was reached before this fence was created.
    pub(crate) fn is_of_earlier_fence(&self, value: u64) -> bool {
        value <= self.floor
    }

    /// Continues the progress values in another fence, after everything that was submitted is done and counted by [`Self::restart`].
    pub(crate) fn continue_in(&mut self, current: SharedWord, fence: D3DKMT_HANDLE) {
        (self.current, self.fence, self.floor) = (current, fence, self.base);
    }

    /// Progress value of submission number `submission`, counted from 1.
    #[inline(always)]
    pub(crate) fn value(&self, submission: u64) -> u64 {
        self.base + submission
    }

    /// Counts submissions from 1 again, with the same progress values; returns how many there were.
    pub(super) fn restart(&mut self) -> u64 {
        let count = self.submitted;
        self.base += count;
        (self.submitted, self.completed) = (0, 0);
        count
    }

    /// Submissions not known to be done.
    #[inline(always)]
    pub(crate) fn in_flight(&self) -> u64 {
        self.submitted - self.completed
    }
}

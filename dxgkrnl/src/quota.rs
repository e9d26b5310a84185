//! The limits of what the system takes for one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wddm_ddi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES};

/// What one program may have of that which all programs of a machine have together. Such shares are this system's rule: no page of the contract has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Descriptors that the machine holds for it: of its events, of objects that may be shared, and of objects that it has descriptors of.
    pub descriptors: usize,
    /// Hardware queues on one adapter, and as many hardware contexts.
    pub hardware_queues: usize,
}

/// All there is.
impl Default for Share {
    fn default() -> Self {
        Self { descriptors: usize::MAX, hardware_queues: usize::MAX }
    }
}

/// A count of what is taken for one process, and its limit.
#[derive(Debug)]
pub(crate) struct Count {
    taken: AtomicUsize,
    most: usize,
}

impl Count {
    pub(crate) fn new(most: usize) -> Self {
        Self { taken: AtomicUsize::new(0), most }
    }

    /// False if the process would have more than it may have; nothing is taken then.
    fn take(&self, count: usize) -> bool {
        let more = |taken: usize| taken.checked_add(count).filter(|taken| *taken <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, count: usize) {
        self.taken.fetch_sub(count, Ordering::Relaxed);
    }
}

/// What is taken for one process, at most `LIMIT` at a time. Clones are of the same process.
#[derive(Clone, Debug)]
pub(crate) struct Quota<const LIMIT: usize> {
    own: Arc<Count>,
    /// With what else is counted by the same limit.
    together: Option<Arc<Count>>,
}

impl<const LIMIT: usize> Default for Quota<LIMIT> {
    fn default() -> Self {
        Self { own: Arc::new(Count::new(LIMIT)), together: None }
    }
}

/// Events that the system holds: each takes a descriptor, of which all processes have as many as the host allows.
pub(crate) type EventQuota = Quota<16_384>;

/// One of these.
pub(crate) type EventPlace = Place<16_384>;

/// Functions that were registered: each takes a thread.
pub(crate) type FunctionQuota = Quota<256>;

/// One of these.
pub(crate) type FunctionPlace = Place<256>;

/// Bytes that the system keeps for whoever opens the shared resources that a process has: private data of driver and runtime.
pub(crate) type DataQuota = Quota<{ 64 << 20 }>;

/// Some of these.
pub(crate) type DataPlace = Place<{ 64 << 20 }>;

/// Shared fences and allocations that a process has: whoever sees the memory of one sees a file with nothing else in it, and so each takes a descriptor.
pub(crate) type FileQuota = Quota<1024>;

/// Some of these.
pub(crate) type FilePlace = Place<1024>;

/// Descriptors that the system has beside those that are counted one by one.
pub(crate) type SpareQuota = Quota<{ usize::MAX }>;

/// Some of these.
pub(crate) type SparePlace = Place<{ usize::MAX }>;

/// Names of shared objects, or objects of one kind with handles that every process knows: of these there are so many for all processes.
pub(crate) type KnownQuota = Quota<1024>;

/// One of these.
pub(crate) type KnownPlace = Place<1024>;

/// Objects that the process has descriptors of: the system has one of each, too.
pub(crate) type DescribedQuota = Quota<1024>;

/// One of these.
pub(crate) type DescribedPlace = Place<1024>;

/// Hardware queues, or hardware contexts, on one adapter.
pub(crate) type HardwareQuota = Quota<{ usize::MAX }>;

/// One of these.
pub(crate) type HardwarePlace = Place<{ usize::MAX }>;

/// Some of what a process may have, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Place<const LIMIT: usize>(Quota<LIMIT>, usize);

impl<const LIMIT: usize> Quota<LIMIT> {
    /// A limit of its own, within one that several have together.
    pub(crate) fn within(together: &Arc<Count>) -> Self {
        Self { together: Some(Arc::clone(together)), ..Self::default() }
    }

    /// Takes one more.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES if the process has as many as it may have.
    pub(crate) fn take(&self) -> Result<Place<LIMIT>, NTSTATUS> {
        self.take_many(1)
    }

    /// Takes `count` more.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES if the process would have more than it may have.
    pub(crate) fn take_many(&self, count: usize) -> Result<Place<LIMIT>, NTSTATUS> {
        if !self.own.take(count) {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        if self.together.as_ref().is_some_and(|together| !together.take(count)) {
            self.own.give_back(count);
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        Ok(Place(self.clone(), count))
    }

    #[cfg(test)]
    pub(crate) fn with(taken: usize) -> Self {
        let quota = Self::default();
        assert!(quota.own.take(taken));
        quota
    }
}

impl<const LIMIT: usize> Place<LIMIT> {
    /// True if it is one of those that this process may have.
    pub(crate) fn is_of(&self, quota: &Quota<LIMIT>) -> bool {
        Arc::ptr_eq(&self.0.own, &quota.own)
    }
}

impl<const LIMIT: usize> Drop for Place<LIMIT> {
    fn drop(&mut self) {
        let Quota { own, together } = &self.0;
        own.give_back(self.1);
        together.iter().for_each(|together| together.give_back(self.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_as_many_as_it_may_have_and_one_more_when_one_is_given_back() {
        let quota = Quota::<2>::default();
        let (first, _second) = (quota.take().unwrap(), quota.clone().take().unwrap());
        assert_eq!(quota.take().err(), Some(STATUS_INSUFFICIENT_RESOURCES));
        drop(first);
        let _third = quota.take().unwrap();
        let bytes = Quota::<10>::default();
        let most = bytes.take_many(8).unwrap();
        assert_eq!([3, usize::MAX].map(|count| bytes.take_many(count).err()), [Some(STATUS_INSUFFICIENT_RESOURCES); 2]);
        drop(most);
        let _all = bytes.take_many(10).unwrap();
    }
}

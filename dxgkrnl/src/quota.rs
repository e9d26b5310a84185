//! The limit of host resources that the system takes for one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wddm_ddi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES};

/// What is taken for one process, at most `LIMIT` at a time. Clones are of the same process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quota<const LIMIT: usize>(Arc<AtomicUsize>);

/// Events that the system holds: each takes a descriptor, of which all processes have as many as the host allows.
pub(crate) type EventQuota = Quota<16_384>;

/// One of these.
pub(crate) type EventPlace = Place<16_384>;

/// Functions that were registered: each takes a thread.
pub(crate) type FunctionQuota = Quota<256>;

/// One of these.
pub(crate) type FunctionPlace = Place<256>;

/// Bytes that the system keeps for whoever opens the shared resources and keyed mutexes of a process: private data of driver and runtime.
pub(crate) type DataQuota = Quota<{ 64 << 20 }>;

/// Some of these.
pub(crate) type DataPlace = Place<{ 64 << 20 }>;

/// Fences and allocations that were made to be shared: whoever sees the memory of one sees a file with nothing else in it, and so each takes a descriptor.
pub(crate) type FileQuota = Quota<1024>;

/// Some of these.
pub(crate) type FilePlace = Place<1024>;

/// Names of shared objects, or handles of one kind that every process knows: of these there are so many for all processes.
pub(crate) type KnownQuota = Quota<1024>;

/// One of these.
pub(crate) type KnownPlace = Place<1024>;

/// Some of what a process may have, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Place<const LIMIT: usize>(Quota<LIMIT>, usize);

/// Counts of the resources that the system has taken for a process.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    pub(crate) events: EventQuota,
    pub(crate) functions: FunctionQuota,
    pub(crate) shared_data: DataQuota,
    pub(crate) files: FileQuota,
    pub(crate) names: KnownQuota,
    /// Handles of keyed mutexes.
    pub(crate) known_mutexes: KnownQuota,
    /// Handles of synchronization objects of before monitored fences.
    pub(crate) known_syncs: KnownQuota,
}

impl Quotas {
    /// Takes what some allocations need that are to be shared, with so many bytes of private data.
    ///
    /// # Errors
    /// As [`Quota::take_many`]; nothing is taken then.
    pub(crate) fn take_for_sharing(
        &self,
        bytes: usize,
        allocations: usize,
    ) -> Result<(DataPlace, FilePlace), NTSTATUS> {
        Ok((self.shared_data.take_many(bytes)?, self.files.take_many(allocations)?))
    }
}

impl<const LIMIT: usize> Quota<LIMIT> {
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
        let more = |taken: usize| taken.checked_add(count).filter(|taken| *taken <= LIMIT);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map(|_| Place(self.clone(), count)).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)
    }

    #[cfg(test)]
    pub(crate) fn with(taken: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(taken)))
    }
}

impl<const LIMIT: usize> Drop for Place<LIMIT> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(self.1, Ordering::Relaxed);
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

//! A proof that a context does not run, which is asked for when the driver is told of another root page table.

use std::marker::PhantomData;

use nt::lock::RwLockWriteGuard;

use crate::rank;

/// Proof that a context does not run: it is new, or its process is suspended and stays so while this exists.
pub(super) struct NotRunning<'a> {
    _suspended: PhantomData<&'a RwLockWriteGuard<'a, bool, rank::Suspended>>,
}

impl<'a> NotRunning<'a> {
    /// For a context that never had work.
    pub(super) fn of_new_context() -> Self {
        Self { _suspended: PhantomData }
    }

    /// For the contexts of a suspended process.
    pub(super) fn of(suspended: &'a RwLockWriteGuard<'_, bool, rank::Suspended>) -> Option<Self> {
        suspended.then_some(Self { _suspended: PhantomData })
    }
}

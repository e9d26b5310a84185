//! References to fences beside those of the processes that have them open.

use std::sync::Arc;

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::account::Upkeep;
use crate::refusal::{Failure, refused};

use crate::vidsch::objects::fence::{CrossAdapter, Fence};

/// What a kernel handle of a fence stands for: the fence exists as long as this.
pub(crate) enum SharedFence {
    /// A fence of one adapter.
    OneAdapter(Reference),
    /// The value of a fence of several adapters, whether or not it is open on one of them.
    CrossAdapter(Arc<CrossAdapter>),
}

/// A reference to a fence beside those of the processes that have it open.
pub(crate) struct Reference(Arc<Fence>);

impl SharedFence {
    /// Another reference to `fence`.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if the fence is destroyed; STATUS_INVALID_PARAMETER if it is not made to be shared.
    pub(crate) fn new(fence: &Arc<Fence>) -> Result<Arc<Self>, Failure> {
        if !fence.is_shareable() {
            return Err(refused(STATUS_INVALID_PARAMETER, "the fence was not created with Flags.Shared"));
        }
        let reference = Reference::new(fence)?;
        // The reference goes when the value has been found: it is alive without a member on this adapter.
        Ok(Arc::new(match &fence.cross {
            Some(cross) => Self::CrossAdapter(Arc::clone(cross)),
            None => Self::OneAdapter(reference),
        }))
    }

    /// Descriptors, bytes and numbers that the fence takes; `None` once it is destroyed.
    pub(crate) fn upkeep(&self) -> Option<Arc<Upkeep>> {
        match self {
            Self::OneAdapter(reference) => reference.fence().upkeep(),
            Self::CrossAdapter(cross) => Some(Arc::clone(&cross.upkeep)),
        }
    }
}

impl Reference {
    /// Another reference to `fence`, on its own adapter.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if the fence is destroyed.
    pub(in crate::vidsch) fn new(fence: &Arc<Fence>) -> Result<Self, NTSTATUS> {
        let mut opens = lock(&fence.opens);
        if fence.is_destroyed() {
            return Err(STATUS_INVALID_HANDLE);
        }
        opens.references += 1;
        Ok(Self(Arc::clone(fence)))
    }

    /// The fence.
    pub(crate) fn fence(&self) -> &Arc<Fence> {
        &self.0
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let mut opens = lock(&self.0.opens);
        self.0.release(&mut opens);
    }
}

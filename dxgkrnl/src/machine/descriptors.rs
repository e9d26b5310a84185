//! The objects that programs have file descriptors of: sync files, and what kernel handles stand for.

use std::collections::HashMap;
use std::sync::Arc;

use nt::lock::{Mutex, lock};

use super::{KernelObject, Machine};
use crate::descriptor::{Descriptor, DescriptorId};
use crate::quota::{DescribedPlace, DescribedQuota};
use crate::refusal::{Failure, refused};
use crate::vidsch::SyncFile;

/// An object that user mode has a descriptor of.
#[derive(Clone)]
pub(crate) enum Described {
    /// Readable when a fence has reached a value.
    SyncFile(Arc<SyncFile>),
    /// What a kernel handle stands for, with the rights of that handle.
    Kernel(Arc<(KernelObject, Descriptor)>),
}

impl Described {
    fn is_closed(&self) -> bool {
        match self {
            Self::SyncFile(file) => file.is_closed(),
            Self::Kernel(kernel) => kernel.1.is_closed(),
        }
    }
}

/// Objects by the identity of their descriptors, with the part that each takes of what the process may have that made the descriptor.
#[derive(Default)]
pub(super) struct Descriptors(Mutex<HashMap<DescriptorId, (DescribedPlace, Described)>>);

impl Machine {
    /// Keeps an object until all its descriptors are closed.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES for one too many of the process.
    pub(crate) fn add_described(
        &self,
        id: DescriptorId,
        quota: &DescribedQuota,
        object: Described,
    ) -> Result<(), Failure> {
        self.forget_closed_descriptors();
        let why = "the process has made descriptors of as many objects as it may, 1024 at most";
        let place = quota.take().map_err(|status| refused(status, why))?;
        lock(&self.0.descriptors.0).insert(id, (place, object));
        Ok(())
    }

    /// The object that a descriptor is of.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if it is of none.
    pub(crate) fn described(&self, id: DescriptorId) -> Option<Described> {
        let objects = lock(&self.0.descriptors.0);
        objects.get(&id).map(|(_, object)| object.clone())
    }

    /// Forgets an object that nobody got a descriptor of.
    pub(crate) fn take_described(&self, id: DescriptorId) {
        let taken = lock(&self.0.descriptors.0).remove(&id);
        drop(taken);
    }

    /// Lets go of the objects whose descriptors are all closed. Called with the next descriptor, and when a process has ended.
    pub(crate) fn forget_closed_descriptors(&self) {
        let closed: Vec<_> = lock(&self.0.descriptors.0).extract_if(|_, (_, object)| object.is_closed()).collect();
        // An object takes locks of its own when it ends.
        drop(closed);
    }
}

//! The objects that programs have file descriptors of: sync files, and what kernel handles stand for.

use std::collections::HashMap;
use std::sync::Arc;

use nt::lock::{Mutex, lock};

use super::{KernelObject, Machine};
use crate::account::{Account, Charge, Quotas};
use crate::descriptor::{Descriptor, DescriptorId};
use crate::quota::DescribedPlace;
use crate::refusal::{Failure, refused};
use crate::vidsch::{SharedFence, SyncFile};

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

    /// As [`KernelObject::charge`].
    fn charge(&self, process: &Account) -> Result<Vec<Charge>, Failure> {
        match self {
            Self::SyncFile(file) => {
                let shared = file.shared().ok().and_then(SharedFence::upkeep);
                Ok(shared.map(|upkeep| process.charge(&upkeep)).transpose()?.into_iter().collect())
            }
            Self::Kernel(kernel) => kernel.0.charge(process),
        }
    }
}

/// An object that user mode has a descriptor of, and what is charged for both.
struct Entry {
    object: Described,
    place: DescribedPlace,
    _charges: Vec<Charge>,
}

impl Entry {
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES for one too many of those that `of` counts.
    fn new(object: Described, of: &Quotas) -> Result<Self, Failure> {
        let why = "the process has made descriptors of as many objects as it may, 1024 at most";
        let place = of.described.take().map_err(|status| refused(status, why))?;
        Ok(Self { place, _charges: object.charge(&of.shared)?, object })
    }
}

/// Objects by the identity of their descriptors.
#[derive(Default)]
pub(super) struct Descriptors(Mutex<HashMap<DescriptorId, Entry>>);

impl Machine {
    /// Keeps an object until all its descriptors are closed; it is charged to the process until that ends.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES for one too many of the process.
    pub(crate) fn add_described(&self, id: DescriptorId, of: &Quotas, object: Described) -> Result<(), Failure> {
        self.forget_closed_descriptors();
        let entry = Entry::new(object, of)?;
        lock(&self.0.descriptors.0).insert(id, entry);
        Ok(())
    }

    /// The object that a descriptor is of.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if it is of none.
    pub(crate) fn described(&self, id: DescriptorId) -> Option<Described> {
        let objects = lock(&self.0.descriptors.0);
        objects.get(&id).map(|entry| entry.object.clone())
    }

    /// Forgets an object that nobody got a descriptor of.
    pub(crate) fn take_described(&self, id: DescriptorId) {
        let taken = lock(&self.0.descriptors.0).remove(&id);
        drop(taken);
    }

    /// Lets go of the objects whose descriptors are all closed.
    fn forget_closed_descriptors(&self) {
        let closed: Vec<_> = lock(&self.0.descriptors.0).extract_if(|_, entry| entry.object.is_closed()).collect();
        // An object takes locks of its own when it ends.
        drop(closed);
    }

    /// A process has ended: of the objects that it has made descriptors of, and which nobody else may have, those stay that the machine keeps for whoever imports them. The descriptors of the
    /// others are of nothing from then on.
    pub(super) fn keep_described(&self, of_process: &Quotas, left: &Quotas) {
        self.forget_closed_descriptors();
        let is_of_process = |entry: &Entry| entry.place.is_of(&of_process.described);
        let mut all = Vec::new();
        for (id, entry) in lock(&self.0.descriptors.0).iter().filter(|(_, entry)| is_of_process(entry)) {
            all.push((*id, entry.object.clone()));
        }
        for (id, object) in all {
            let kept = Entry::new(object, left);
            let mut objects = lock(&self.0.descriptors.0);
            let before = match kept {
                Ok(kept) => objects.insert(id, kept),
                Err(_) => objects.remove(&id),
            };
            drop(objects);
            drop(before);
        }
    }
}

//! The objects that programs have file descriptors of: sync files, and what kernel handles stand for.

use std::collections::HashMap;
use std::sync::Arc;

use nt::lock::{Mutex, lock};
use wddm_ddi::status::*;

use super::{KernelObject, Machine};
use crate::descriptor::{Descriptor, DescriptorId};
use crate::refusal::{Failure, refused};
use crate::vidsch::SyncFile;

/// Most objects of one process that descriptors are open of at a time.
const MAX_OF_PROCESS: usize = 1024;

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

/// Objects by the identity of their descriptors, with the process that made each descriptor.
#[derive(Default)]
pub(super) struct Descriptors(Mutex<HashMap<DescriptorId, (u64, Described)>>);

impl Machine {
    /// Keeps an object until all its descriptors are closed.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES for one too many of the process.
    pub(crate) fn add_described(&self, id: DescriptorId, process: u64, object: Described) -> Result<(), Failure> {
        self.forget_closed_descriptors();
        let mut objects = lock(&self.0.descriptors.0);
        if objects.values().filter(|(owner, _)| *owner == process).count() >= MAX_OF_PROCESS {
            let why = format!("the process has made descriptors of {MAX_OF_PROCESS} objects already");
            return Err(refused(STATUS_INSUFFICIENT_RESOURCES, why));
        }
        objects.insert(id, (process, object));
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

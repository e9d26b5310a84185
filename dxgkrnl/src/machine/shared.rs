//! What processes of a machine find by a name, or by a handle that every process knows.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use nt::lock::{Mutex, lock};
use wddm_ddi::status::*;

use crate::fence::Rights;
use crate::keyed_mutex::KeyedMutex;
use crate::vidsch::SharedFence;

use super::Machine;

/// Most names, and most handles that every process knows.
const MAX: usize = 1 << 16;

/// A fence with a name, and what its sharer may do with it.
type Named = (Weak<SharedFence>, Rights);

/// Names, and handles that every process knows.
#[derive(Default)]
pub(super) struct Shared {
    /// As long as a kernel handle of the object is open.
    names: Mutex<HashMap<Vec<u16>, Named>>,
    keyed_mutexes: Mutex<(u32, HashMap<u32, Weak<KeyedMutex>>)>,
}

impl Machine {
    /// Gives a shared fence a name.
    ///
    /// # Errors
    /// STATUS_OBJECT_NAME_COLLISION for a name that is in use; STATUS_INSUFFICIENT_RESOURCES for one too many.
    pub(crate) fn name_fence(&self, name: Vec<u16>, fence: &Arc<SharedFence>, rights: Rights) -> Result<(), NTSTATUS> {
        let mut names = lock(&self.0.shared.names);
        names.retain(|_, (fence, _)| fence.strong_count() > 0);
        if names.contains_key(&name) {
            return Err(STATUS_OBJECT_NAME_COLLISION);
        }
        if names.len() >= MAX {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        names.insert(name, (Arc::downgrade(fence), rights));
        Ok(())
    }

    /// The shared fence with a name.
    ///
    /// # Errors
    /// STATUS_OBJECT_NAME_NOT_FOUND.
    pub(crate) fn fence_named(&self, name: &[u16]) -> Result<(Arc<SharedFence>, Rights), NTSTATUS> {
        let names = lock(&self.0.shared.names);
        let (fence, rights) = names.get(name).ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
        Ok((fence.upgrade().ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?, *rights))
    }

    /// A new keyed mutex; one that is not shared by kernel handles gets a handle that every process knows.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES for one too many.
    pub(crate) fn new_keyed_mutex(
        &self,
        key: u64,
        data: Vec<u8>,
        nt_sharing: bool,
    ) -> Result<Arc<KeyedMutex>, NTSTATUS> {
        if nt_sharing {
            return Ok(KeyedMutex::new(key, data, 0, true));
        }
        let mut table = lock(&self.0.shared.keyed_mutexes);
        let (last, mutexes) = &mut *table;
        mutexes.retain(|_, mutex| mutex.strong_count() > 0);
        if mutexes.len() >= MAX {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        // A number that no handle of a process is; free ones come again after very many.
        let handle = loop {
            *last = last.wrapping_add(1) & 0x00ff_ffff;
            let handle = 0xc000_0002 | *last << 6;
            if !mutexes.contains_key(&handle) {
                break handle;
            }
        };
        let mutex = KeyedMutex::new(key, data, handle, false);
        mutexes.insert(handle, Arc::downgrade(&mutex));
        Ok(mutex)
    }

    /// The keyed mutex with a handle that every process knows.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER without one.
    pub(crate) fn keyed_mutex(&self, handle: u32) -> Result<Arc<KeyedMutex>, NTSTATUS> {
        let table = lock(&self.0.shared.keyed_mutexes);
        table.1.get(&handle).and_then(Weak::upgrade).ok_or(STATUS_INVALID_PARAMETER)
    }
}

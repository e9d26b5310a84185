//! Private data: a number for each object that a layer or an application gives one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ash::vk;

use crate::handle::objects;

objects! { PrivateDataSlot => vk::PrivateDataSlot }

/// Type and handle of an object.
type Key = (vk::ObjectType, u64);

/// The numbers of a slot, 0 for an object that has none.
#[derive(Default)]
pub(crate) struct PrivateDataSlot {
    data: Mutex<HashMap<Key, u64>>,
}

impl PrivateDataSlot {
    pub(crate) fn set(&self, object: Key, data: u64) {
        self.data.lock().unwrap_or_else(PoisonError::into_inner).insert(object, data);
    }

    pub(crate) fn get(&self, object: Key) -> u64 {
        self.data.lock().unwrap_or_else(PoisonError::into_inner).get(&object).copied().unwrap_or(0)
    }
}

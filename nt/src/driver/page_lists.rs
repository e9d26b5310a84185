//! State of the memory descriptor lists of a driver that their own fields have no place for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lock::{Innermost, Mutex};

/// The lists of a driver, by their addresses.
#[derive(Default)]
pub struct PageLists {
    /// Mappings for user mode, of lists that have any.
    user: Mutex<BTreeMap<usize, usize>, Innermost>,
    /// The driver has been told of frame numbers that no frame has.
    told: AtomicBool,
}

impl PageLists {
    /// A new list is there, which has no mappings.
    pub fn is_made(&self, list: usize) {
        self.user.lock().remove(&list);
    }

    /// One more mapping for user mode.
    pub fn map_for_user(&self, list: usize) {
        *self.user.lock().entry(list).or_default() += 1;
    }

    /// One mapping for user mode less; false if there is none.
    pub fn unmap_for_user(&self, list: usize) -> bool {
        let mut user = self.user.lock();
        let Some(mappings) = user.get_mut(&list) else { return false };
        *mappings -= 1;
        if *mappings == 0 {
            user.remove(&list);
        }
        true
    }

    /// True if there is a mapping for user mode.
    pub fn has_user_mapping(&self, list: usize) -> bool {
        self.user.lock().contains_key(&list)
    }

    /// True the first time.
    pub fn tells_of_frames(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }
}

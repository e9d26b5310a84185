//! Lookaside lists that a driver has initialised and not deleted, by the address of their structure. [wdm: LOOKASIDE_LIST_EX]

use std::collections::BTreeMap;
use std::ops::Range;

use crate::lock::{Innermost, Mutex};

/// The lists of a driver, each with an address inside the instruction that has initialised it, 0 if that is not known.
#[derive(Default)]
pub struct LookasideLists(Mutex<BTreeMap<usize, usize>, Innermost>);

impl LookasideLists {
    /// A list is initialised; false if it was already.
    pub fn initialize(&self, address: usize, from: usize) -> bool {
        self.0.lock().insert(address, from).is_none()
    }

    /// A list is deleted; false if there is none.
    pub fn delete(&self, address: usize) -> bool {
        self.0.lock().remove(&address).is_some()
    }

    /// The first list that lies in a range, and the instruction that has initialised it.
    pub fn first_in(&self, range: &Range<usize>) -> Option<(usize, usize)> {
        self.0.lock().range(range.clone()).next().map(|(list, from)| (*list, *from))
    }

    /// Lists that were not deleted.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }
}

//! Which processes threads of the memory manager ask for something.

use std::collections::BTreeMap;
use std::sync::Arc;

use nt::lock::{Condvar, Mutex, lock};

use crate::vidmm::user_mapping::Kept;

/// Processes that threads ask for something, one list for each thread.
#[derive(Default)]
pub(super) struct Asking {
    lists: Mutex<Lists>,
    fewer: Condvar,
}

#[derive(Default)]
struct Lists {
    last: u64,
    by_number: BTreeMap<u64, Vec<Arc<Kept>>>,
}

impl Asking {
    /// A thread begins to ask these; the answer is its number.
    pub(super) fn begin(&self, processes: Vec<Arc<Kept>>) -> u64 {
        let mut lists = lock(&self.lists);
        lists.last += 1;
        let number = lists.last;
        lists.by_number.insert(number, processes);
        number
    }

    pub(super) fn end(&self, number: u64) {
        let ended = lock(&self.lists).by_number.remove(&number);
        drop(ended);
        self.fewer.notify_all();
    }

    /// Waits until threads ask a process for nothing, or nobody.
    pub(super) fn wait_until_nothing(&self, process: Option<&Arc<Kept>>) {
        let is_asked = |list: &Vec<Arc<Kept>>| process.is_none_or(|one| list.iter().any(|kept| Arc::ptr_eq(kept, one)));
        let mut lists = lock(&self.lists);
        while lists.by_number.values().any(is_asked) {
            lists = self.fewer.wait(lists);
        }
    }
}

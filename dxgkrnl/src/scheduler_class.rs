//! The DDIs of the GPU scheduler's class, of which one thread is inside one at a time. [threading-and-synchronization: first level]

use nt::lock::{Innermost, Mutex, MutexGuard, lock};

use crate::rank;

/// The lock of the class, with the name of the DDI for which it is taken.
#[derive(Default)]
pub(crate) struct SchedulerClass {
    one: Mutex<(), rank::SchedulingClass>,
    inside: Mutex<Option<&'static str>, Innermost>,
}

/// A thread is inside a DDI of the class, and no other one, until this is dropped.
pub(crate) struct InClass<'a> {
    inside: &'a Mutex<Option<&'static str>, Innermost>,
    _one: MutexGuard<'a, (), rank::SchedulingClass>,
}

impl SchedulerClass {
    /// Waits until no thread is inside a DDI of the class, for one that is about to call `ddi`.
    pub(crate) fn enter(&self, ddi: &'static str) -> InClass<'_> {
        let one = lock(&self.one);
        *lock(&self.inside) = Some(ddi);
        InClass { inside: &self.inside, _one: one }
    }

    /// The DDI that a thread is inside, if there is one.
    pub(crate) fn inside(&self) -> Option<&'static str> {
        *lock(&self.inside)
    }
}

impl Drop for InClass<'_> {
    fn drop(&mut self) {
        *lock(self.inside) = None;
    }
}

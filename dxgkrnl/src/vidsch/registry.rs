//! Handles that the driver gets for objects of the scheduler.
//!
//! A handle looks like a kernel address and is never one: a driver that follows it faults. Values are not used twice,
//! so that a stale one is known for what it is.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use nt::lock::{Mutex, lock};
use wddm_ddi::types::HANDLE;

use crate::kmd_handle::KmdHandle;

/// Objects of one kind by the handle that the driver knows them by.
///
/// The lock is the last in every order: nothing else is taken while it is held, and device level may take it.
pub(crate) struct Registry<T> {
    live: Mutex<HashMap<usize, Weak<T>>>,
}

/// The next handle of any kind on any adapter: some callbacks name no adapter, and a handle of one must not be found on
/// another.
static NEXT: AtomicUsize = AtomicUsize::new(0xffff_9000_0000_0010);

/// Distance of handle values, as of small blocks of kernel memory.
const STEP: usize = 16;

impl<T> Registry<T> {
    /// No objects yet.
    pub(crate) fn new() -> Self {
        Self { live: Mutex::new(HashMap::new()) }
    }

    /// Takes a handle for an object that does not exist yet.
    pub(crate) fn reserve(&self) -> KmdHandle {
        let value = NEXT.fetch_add(STEP, Ordering::Relaxed);
        KmdHandle::new(core::ptr::without_provenance_mut(value))
    }

    /// The object exists from now on.
    pub(crate) fn publish(&self, handle: KmdHandle, object: &Arc<T>) {
        lock(&self.live).insert(handle.raw().addr(), Arc::downgrade(object));
    }

    /// The object is gone; its handle is stale.
    pub(crate) fn retire(&self, handle: KmdHandle) {
        lock(&self.live).remove(&handle.raw().addr());
    }

    /// As [`Registry::retire`], unless the handle means another object by now: the driver gives its own again.
    pub(crate) fn retire_object(&self, handle: KmdHandle, object: &T) {
        let mut live = lock(&self.live);
        if live.get(&handle.raw().addr()).is_some_and(|held| core::ptr::eq(held.as_ptr(), object)) {
            live.remove(&handle.raw().addr());
        }
    }

    /// The object with this handle.
    pub(crate) fn get(&self, handle: HANDLE) -> Option<Arc<T>> {
        lock(&self.live).get(&handle.addr())?.upgrade()
    }

    /// All objects.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let mut all: Vec<(usize, Arc<T>)> =
            lock(&self.live).iter().filter_map(|(handle, object)| Some((*handle, object.upgrade()?))).collect();
        all.sort_unstable_by_key(|(handle, _)| *handle);
        all.into_iter().map(|(_, object)| object).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_find_their_object_until_it_is_retired_and_are_never_reused() {
        let registry = Registry::new();
        let (a, b) = (registry.reserve(), registry.reserve());
        assert_ne!(a, b);
        assert!(registry.get(a.raw()).is_none(), "not published yet");
        let object = Arc::new("a");
        registry.publish(a, &object);
        assert_eq!(registry.get(a.raw()).as_deref(), Some(&"a"));
        registry.retire(a);
        assert!(registry.get(a.raw()).is_none());
        assert!(registry.all().is_empty());
        assert_ne!(registry.reserve(), a);
    }

    #[test]
    fn an_object_retires_its_own_handle_and_not_its_successors() {
        let registry = Registry::new();
        let (handle, old, new) = (registry.reserve(), Arc::new("old"), Arc::new("new"));
        registry.publish(handle, &old);
        registry.publish(handle, &new);
        registry.retire_object(handle, &old);
        assert_eq!(registry.get(handle.raw()).as_deref(), Some(&"new"));
        registry.retire_object(handle, &new);
        assert!(registry.get(handle.raw()).is_none());
    }

    #[test]
    fn registries_do_not_share_values_and_an_object_that_was_dropped_is_not_found() {
        let (fences, queues) = (Registry::<u8>::new(), Registry::<u8>::new());
        let (fence, queue) = (fences.reserve(), queues.reserve());
        assert_ne!(fence, queue);
        fences.publish(fence, &Arc::new(0));
        assert!(fences.get(fence.raw()).is_none());
        assert!(fences.get(queue.raw()).is_none());
        assert!(fences.all().is_empty());
    }
}

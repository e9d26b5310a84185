//! Private data: a number for each object that a layer or an application gives one, until the object ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;

/// Type and handle of an object.
type Key = (vk::ObjectType, u64);

/// The numbers of each slot, by its handle.
struct Slots {
    latest: u64,
    numbers: Option<HashMap<u64, HashMap<Key, u64>>>,
}

static SLOTS: Mutex<Slots> = Mutex::new(Slots { latest: 0, numbers: None });
/// Number of slots, so that the end of an object costs nothing where there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn slots() -> MutexGuard<'static, Slots> {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new slot. Handles are not given again.
pub(crate) fn create() -> u64 {
    let mut slots = slots();
    slots.latest += 1;
    let handle = slots.latest;
    slots.numbers.get_or_insert_default().insert(handle, HashMap::new());
    COUNT.fetch_add(1, Ordering::AcqRel);
    handle
}

/// Ends a slot with its numbers.
pub(crate) fn destroy(slot: u64) {
    if slots().numbers.as_mut().and_then(|numbers| numbers.remove(&slot)).is_some() {
        COUNT.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Sets the number of an object. False if there is no such slot.
pub(crate) fn set(slot: u64, object: Key, number: u64) -> bool {
    let mut slots = slots();
    let numbers = slots.numbers.as_mut().and_then(|numbers| numbers.get_mut(&slot));
    numbers.map(|numbers| numbers.insert(object, number)).is_some()
}

/// The number of an object, 0 for one that has none.
pub(crate) fn get(slot: u64, object: Key) -> u64 {
    slots().numbers.as_ref().and_then(|numbers| numbers.get(&slot)?.get(&object).copied()).unwrap_or(0)
}

/// An object has ended, and its handle may be given to another one.
pub(crate) fn forget(object: Key) {
    if COUNT.load(Ordering::Acquire) != 0 {
        for numbers in slots().numbers.iter_mut().flat_map(HashMap::values_mut) {
            numbers.remove(&object);
        }
    }
}

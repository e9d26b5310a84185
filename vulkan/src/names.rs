//! Names that the application gives its objects, for traces of the machine. [Vulkan: VK_EXT_debug_utils]
//!
//! Queues, semaphores, fences, events and memory are objects of the operating system, which is told their names. A buffer is a part of its memory, and is told as
//! one when it has memory. The name of a command buffer is a label around what it runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;

use crate::machine;

/// Longest name, in bytes, that the machine keeps; a longer one is cut.
const LENGTH_MAX: usize = 128;

/// Type and handle of an object.
type Key = (vk::ObjectType, u64);

/// Names of buffers, of command buffers, and of semaphores and fences, which may get another payload.
static NAMES: Mutex<Option<HashMap<Key, Arc<str>>>> = Mutex::new(None);
/// Number of names, so that the end of an object costs nothing where there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn names() -> MutexGuard<'static, Option<HashMap<Key, Arc<str>>>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The beginning of a text that is not longer than what the machine keeps.
pub(crate) fn cut(text: &str) -> &str {
    let mut end = text.len().min(LENGTH_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or("")
}

/// The name of an object of a kind whose names are kept.
pub(crate) fn of(object: Key) -> Option<Arc<str>> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    names().as_ref()?.get(&object).cloned()
}

/// An object has ended, and its handle may be given to another one.
pub(crate) fn forget(object: Key) {
    if COUNT.load(Ordering::Acquire) != 0 && names().as_mut().and_then(|names| names.remove(&object)).is_some() {
        COUNT.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Keeps the name of an object, in place of the one that it has; an empty text takes that away.
pub(crate) fn keep(object: Key, text: &str) {
    forget(object);
    if !text.is_empty() {
        names().get_or_insert_default().insert(object, text.into());
        COUNT.fetch_add(1, Ordering::AcqRel);
    }
}

/// Tells the machine the name of an object of the operating system, or of a part of one.
pub(crate) fn tell(object: u32, part: u32, text: &str) {
    machine::name(object, part, cut(text));
}

/// A semaphore or fence has another payload now.
pub(crate) fn imported(object: Key, native: u32) {
    if let Some(name) = of(object) {
        tell(native, 0, &name);
    }
}

//! Watches over the lives of a driver's objects: an object lasts as long as the calls about it and about what was made of it.
//! [docs/threading.md: rules 5 to 7]
//!
//! Off unless a test asks for it. While it watches, a call about an object takes longer, as it may on a slow machine, so that calls which
//! nothing keeps apart do meet.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nt::lock::{Innermost, Mutex, lock};

use crate::kmd_handle::KmdHandle;

/// How long a call that is watched is delayed, so that one which must not overlap it has the time to.
const WINDOW: Duration = Duration::from_micros(100);
/// Of these one call at a time is made about an object. [docs/threading.md: rule 7]
const ALONE: [&str; 1] = ["DxgkDdiCreateDoorbell"];
/// Most breaches that are kept.
const KEPT: usize = 16;

/// A call that is inside the driver.
struct Call {
    name: &'static str,
    ends: bool,
}

#[derive(Default)]
struct State {
    inside: HashMap<KmdHandle, Vec<Call>>,
    /// The object that each object was created on, such as the device of a context.
    parents: HashMap<KmdHandle, KmdHandle>,
    /// Objects whose end the driver was told.
    ended: HashSet<KmdHandle>,
    broken: Vec<String>,
}

impl State {
    fn enter(&mut self, name: &'static str, object: KmdHandle, ends: bool) {
        let inside = self.inside.entry(object).or_default();
        let excludes = |other: &&Call| ends || other.ends || name == other.name && ALONE.contains(&name);
        let other = inside.iter().find(excludes).map(|other| other.name);
        inside.push(Call { name, ends });
        let breach = match other {
            Some(other) if ends => {
                Some(format!("{name} while {other} about the same object, or one made of it, is under way"))
            }
            Some(other) if other == name => Some(format!("{name} twice at once about the same object")),
            Some(other) => Some(format!("{name} about an object that {other} is ending, or about one made of it")),
            None if self.ended.contains(&object) => {
                Some(format!("{name} about an object whose end the driver was told"))
            }
            None => None,
        };
        if let Some(breach) = breach.filter(|_| self.broken.len() < KEPT) {
            self.broken.push(breach);
        }
    }

    fn leave(&mut self, name: &'static str, object: KmdHandle, ends: bool) {
        if let Some(inside) = self.inside.get_mut(&object) {
            if let Some(place) = inside.iter().position(|call| call.name == name && call.ends == ends) {
                inside.swap_remove(place);
            }
            if inside.is_empty() {
                self.inside.remove(&object);
            }
        }
    }

    /// The object, and what it was made of.
    fn line(&self, object: KmdHandle) -> Vec<KmdHandle> {
        std::iter::successors(Some(object), |object| self.parents.get(object).copied()).collect()
    }
}

/// The watch over one driver.
#[derive(Default)]
pub(crate) struct Lifetimes {
    on: AtomicBool,
    state: Mutex<State, Innermost>,
}

impl Lifetimes {
    /// Watches from now on.
    pub(crate) fn watch(&self) {
        self.on.store(true, Ordering::Release);
    }

    /// Ends [`Lifetimes::watch`]; the breaches that were seen.
    pub(crate) fn take(&self) -> Vec<String> {
        self.on.store(false, Ordering::Release);
        std::mem::take(&mut *lock(&self.state)).broken
    }

    /// A call about `object` begins, which ends when the answer is dropped. One that `ends` the object uses what that was made of.
    pub(crate) fn begin(&self, name: &'static str, object: KmdHandle, ends: bool) -> Option<Watched<'_>> {
        if !self.on.load(Ordering::Acquire) || object.is_null() {
            return None;
        }
        let line = {
            let mut state = lock(&self.state);
            let line = state.line(object);
            line.iter().enumerate().for_each(|(place, object)| state.enter(name, *object, ends && place == 0));
            line
        };
        std::thread::sleep(WINDOW);
        Some(Watched { lifetimes: self, name, line, ends })
    }

    /// `object` was made of `parent`.
    pub(crate) fn made(&self, object: KmdHandle, parent: KmdHandle) {
        if self.on.load(Ordering::Acquire) {
            let mut state = lock(&self.state);
            state.ended.remove(&object);
            state.parents.insert(object, parent);
        }
    }
}

/// A watched call.
pub(crate) struct Watched<'a> {
    lifetimes: &'a Lifetimes,
    name: &'static str,
    /// The object, and what it was made of.
    line: Vec<KmdHandle>,
    ends: bool,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.lifetimes.state);
        for (place, object) in self.line.iter().enumerate() {
            state.leave(self.name, *object, self.ends && place == 0);
        }
        if let Some(object) = self.line.first().filter(|_| self.ends) {
            state.ended.insert(*object);
            state.parents.remove(object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(number: usize) -> KmdHandle {
        KmdHandle::new(core::ptr::without_provenance_mut(number))
    }

    #[test]
    fn calls_that_meet_the_end_of_their_object_are_named() {
        let lifetimes = Lifetimes::default();
        assert!(lifetimes.begin("Use", handle(1), false).is_none(), "nobody watches");
        lifetimes.watch();
        lifetimes.made(handle(2), handle(1));
        drop((lifetimes.begin("Use", handle(2), false), lifetimes.begin("Use", handle(1), false)));
        drop(lifetimes.begin("End", handle(2), true));
        lifetimes.made(handle(2), handle(1));
        drop(lifetimes.begin("Use", handle(2), false));
        assert_eq!(lifetimes.take(), [""; 0], "in their order");
        lifetimes.watch();
        lifetimes.made(handle(2), handle(1));
        let used = lifetimes.begin("Use", handle(2), false);
        drop(lifetimes.begin("End", handle(1), true));
        drop(used);
        let ended = lifetimes.begin("End", handle(2), true);
        drop(lifetimes.begin("Use", handle(2), false));
        drop(ended);
        drop(lifetimes.begin("Late", handle(2), false));
        let broken = lifetimes.take();
        lifetimes.watch();
        let first = lifetimes.begin(ALONE[0], handle(1), false);
        drop((lifetimes.begin(ALONE[0], handle(2), false), lifetimes.begin(ALONE[0], handle(1), false)));
        drop(first);
        assert_eq!(lifetimes.take().len(), 1, "two at once about one object");
        let begun: Vec<_> = broken.iter().map(|breach| breach.split(' ').next().unwrap_or_default()).collect();
        // The object below the one that ended is ended after it.
        assert_eq!(begun, ["End", "End", "Use", "Use", "Late"], "{broken:?}");
    }
}

//! Signals that the watchdog has found and that woke no waiter, with the time since when.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nt::lock::{Mutex, lock};

/// Time after which a signal that woke nobody is one that was not reported.
const UNREPORTED: Duration = Duration::from_secs(1);

/// What the watchdog has found, by the address of the fence or of what its members have in common: the value at which it was found, and since when.
/// A fence that is found behind at every look is not late while that value moves on. An address that is used anew within a second begins to count too early
/// by that at most.
#[derive(Default)]
pub(in crate::vidsch) struct Overdue(Mutex<HashMap<usize, (u64, Instant)>>);

/// A fence that is behind.
pub(in crate::vidsch) struct Behind<T> {
    /// Address by which it is known.
    pub(in crate::vidsch) key: usize,
    /// The value that it stays at as long as nobody is told of its signal.
    pub(in crate::vidsch) value: u64,
    pub(in crate::vidsch) fence: T,
}

impl Overdue {
    /// Those of `found` that were found for long enough already; the others are remembered, and what is not found any more is forgotten.
    pub(in crate::vidsch) fn ripe<T>(&self, found: impl IntoIterator<Item = Behind<T>>) -> Vec<T> {
        let now = Instant::now();
        let mut since = lock(&self.0);
        let known = std::mem::take(&mut *since);
        let mut ripe = Vec::new();
        for Behind { key, value, fence } in found {
            let first = known.get(&key).filter(|(before, _)| *before == value).map_or(now, |(_, first)| *first);
            if now.duration_since(first) >= UNREPORTED {
                ripe.push(fence);
            } else {
                since.insert(key, (value, first));
            }
        }
        ripe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(list: &[(usize, u64)]) -> Vec<Behind<usize>> {
        list.iter().map(|(key, value)| Behind { key: *key, value: *value, fence: *key }).collect()
    }

    #[test]
    fn what_is_found_again_and_again_is_ripe_after_a_while_and_what_is_gone_is_forgotten() {
        let overdue = Overdue::default();
        assert_eq!(overdue.ripe(found(&[(1, 7), (2, 7)])), []);
        let long_ago = Instant::now().checked_sub(UNREPORTED).expect("the host has been up for a second");
        lock(&overdue.0).insert(1, (7, long_ago));
        assert_eq!(overdue.ripe(found(&[(1, 7), (2, 7)])), [1]);
        lock(&overdue.0).insert(2, (7, long_ago));
        assert_eq!(overdue.ripe(found(&[(3, 7)])), []);
        assert_eq!(overdue.ripe(found(&[(2, 7)])), [], "it was gone in between");
    }

    #[test]
    fn a_fence_that_moves_on_is_not_late_although_every_look_finds_it_behind() {
        let overdue = Overdue::default();
        assert_eq!(overdue.ripe(found(&[(1, 7)])), []);
        let long_ago = Instant::now().checked_sub(UNREPORTED).expect("the host has been up for a second");
        lock(&overdue.0).insert(1, (7, long_ago));
        assert_eq!(overdue.ripe(found(&[(1, 8)])), []);
        lock(&overdue.0).insert(1, (8, long_ago));
        assert_eq!(overdue.ripe(found(&[(1, 8)])), [1]);
    }
}

//! Signals that no interrupt told of: found by the watchdog, made good, and counted as such.
//!
//! An interrupt may be on its way while the watchdog looks. So a signal counts as unreported only when nobody was woken for
//! [`UNREPORTED`] of the host's time; no machine of this program takes that long from a store to its interrupt routine.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nt::lock::{Mutex, lock};

use crate::rescue::Rescue;

use super::VidSch;
use super::batch;
use super::cross_adapter::CrossAdapter;
use super::fence::Fence;

/// Time after which a signal that woke nobody is one that was not reported.
const UNREPORTED: Duration = Duration::from_secs(1);

/// What the watchdog has found, by the address of the fence or of what its members have in common, and since when. An address
/// that is used anew within a second begins to count too early by that at most.
#[derive(Default)]
pub(super) struct Overdue(Mutex<HashMap<usize, Instant>>);

impl Overdue {
    /// Those of `found` that were found for long enough already; the others are remembered, and what is not found any more is forgotten.
    fn ripe<T>(&self, found: Vec<(usize, T)>) -> Vec<T> {
        let now = Instant::now();
        let mut since = lock(&self.0);
        let known = std::mem::take(&mut *since);
        let mut ripe = Vec::new();
        for (key, item) in found {
            let first = known.get(&key).copied().unwrap_or(now);
            if now.duration_since(first) >= UNREPORTED {
                ripe.push(item);
            } else {
                since.insert(key, first);
            }
        }
        ripe
    }
}

impl VidSch {
    /// Wakes those whose fences were signalled without a report, and tells other adapters of such signals.
    pub(super) fn make_good_unreported_signals(&self) {
        let fences: Vec<Arc<Fence>> =
            [true, false].into_iter().flat_map(|native| self.watched_fences(native)).collect();
        let overdue = fences.iter().filter(|fence| fence.is_overdue());
        let overdue =
            self.overdue_waits.ripe(overdue.map(|fence| (Arc::as_ptr(fence).addr(), Arc::clone(fence))).collect());
        let woken = batch::evaluate(&overdue) as u64;
        if woken != 0 {
            self.rescued(Rescue::UnreportedSignal, woken);
        }
        let shared =
            fences.iter().filter_map(|fence| fence.cross_adapter().filter(|all| all.is_behind(fence.current())));
        let shared =
            self.overdue_members.ripe(shared.map(|shared| (Arc::as_ptr(shared).addr(), Arc::clone(shared))).collect());
        for shared in &shared {
            CrossAdapter::tell(shared);
            self.rescued(Rescue::UnreportedCrossAdapterSignal, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_again_and_again_is_ripe_after_a_while_and_what_is_gone_is_forgotten() {
        let overdue = Overdue::default();
        assert_eq!(overdue.ripe(vec![(1, 'a'), (2, 'b')]), []);
        let long_ago = Instant::now().checked_sub(UNREPORTED).expect("the host has been up for a second");
        lock(&overdue.0).insert(1, long_ago);
        assert_eq!(overdue.ripe(vec![(1, 'a'), (2, 'b')]), ['a']);
        lock(&overdue.0).insert(2, long_ago);
        assert_eq!(overdue.ripe(vec![(3, 'c')]), []);
        assert_eq!(overdue.ripe(vec![(2, 'b')]), [], "it was gone in between");
    }
}

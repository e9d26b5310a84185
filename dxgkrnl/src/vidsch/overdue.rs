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

/// What the watchdog has found, by the address of the fence or of what its members have in common: the value at which it was found, and since when.
/// A fence that is found behind at every look is not late while that value moves on. An address that is used anew within a second begins to count too early
/// by that at most.
#[derive(Default)]
pub(super) struct Overdue(Mutex<HashMap<usize, (u64, Instant)>>);

/// A fence that is behind.
struct Behind<T> {
    /// Address by which it is known.
    key: usize,
    /// The value that it stays at as long as nobody is told of its signal.
    value: u64,
    fence: T,
}

impl Overdue {
    /// Those of `found` that were found for long enough already; the others are remembered, and what is not found any more is forgotten.
    fn ripe<T>(&self, found: impl IntoIterator<Item = Behind<T>>) -> Vec<T> {
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

impl VidSch {
    /// Wakes those whose fences were signalled without a report, and tells other adapters of such signals.
    pub(crate) fn make_good_unreported_signals(&self) {
        let fences: Vec<Arc<Fence>> =
            [true, false].into_iter().flat_map(|native| self.watched_fences(native)).collect();
        let overdue = fences.iter().filter_map(|fence| {
            let value = fence.overdue()?;
            Some(Behind { key: Arc::as_ptr(fence).addr(), value, fence: Arc::clone(fence) })
        });
        let overdue = self.overdue_waits.ripe(overdue.collect::<Vec<_>>());
        let woken = batch::evaluate(&overdue) as u64;
        if woken != 0 {
            self.rescued(Rescue::UnreportedSignal, woken);
            let interrupt = match overdue.iter().any(|fence| fence.is_native()) {
                true => "DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED",
                false => "DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED",
            };
            self.verifier.log(format!(
                "DxgkCbNotifyInterrupt was not called with {interrupt} within a second after a fence was signalled for which {woken} wait(s) stood [d3dkmddi: DXGK_INTERRUPT_TYPE]"
            ));
        }
        let shared = fences.iter().filter_map(|fence| {
            let fences = fence.cross_adapter()?;
            let value = fences.behind(fence.current())?;
            Some(Behind { key: Arc::as_ptr(fences).addr(), value, fence: Arc::clone(fences) })
        });
        let shared = self.overdue_members.ripe(shared.collect::<Vec<_>>());
        for shared in &shared {
            CrossAdapter::tell(shared);
            self.rescued(Rescue::UnreportedCrossAdapterSignal, 1);
        }
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

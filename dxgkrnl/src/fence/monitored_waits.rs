//! The waits on a fence and the MonitoredValue that goes with them.
//!
//! Nothing here names a lock, an atomic or a thread: the models of the workspace check this file as it is.

use std::sync::Arc;

use super::wait::{UNMONITORED, Wait};

/// The waits on one fence.
#[derive(Default)]
pub(crate) struct WaitList {
    /// Largest value first, so that those satisfied first are taken from the end.
    waits: Vec<(u64, Arc<Wait>)>,
}

impl WaitList {
    /// Adds a wait for `value`.
    pub(crate) fn add(&mut self, value: u64, wait: Arc<Wait>) {
        let place = self.waits.partition_point(|(other, _)| *other > value);
        self.waits.insert(place, (value, wait));
    }

    /// Removes every condition of `wait`.
    pub(crate) fn remove(&mut self, wait: &Arc<Wait>) {
        self.waits.retain(|(_, other)| !Arc::ptr_eq(other, wait));
    }

    /// Takes the waits for `current` or less.
    pub(crate) fn take_satisfied(&mut self, current: u64) -> impl Iterator<Item = Arc<Wait>> {
        let first = self.waits.partition_point(|(value, _)| *value > current);
        self.waits.drain(first..).rev().map(|(_, wait)| wait)
    }

    /// Removes the waits that are over for another reason than this fence.
    pub(crate) fn remove_over(&mut self) {
        self.waits.retain(|(_, wait)| wait.outcome().is_none());
    }

    /// All waits.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Wait>> {
        self.waits.iter().map(|(_, wait)| wait)
    }

    /// Takes all waits.
    pub(crate) fn take_all(&mut self) -> Vec<Arc<Wait>> {
        std::mem::take(&mut self.waits).into_iter().map(|(_, wait)| wait).collect()
    }

    /// Least waited value - 1, or [`UNMONITORED`]. [native-gpu-fence-objects: MonitoredValue]
    pub(crate) fn monitored_value(&self) -> u64 {
        // A wait for 0 is always satisfied and never on the list.
        self.least().map_or(UNMONITORED, |value| value.saturating_sub(1))
    }

    /// The least value that somebody waits for.
    pub(crate) fn least(&self) -> Option<u64> {
        self.waits.last().map(|(value, _)| *value)
    }

    /// Number of conditions on the list.
    pub(crate) fn len(&self) -> usize {
        self.waits.len()
    }
}

/// The two values of a fence as the waiting side uses them.
pub(crate) trait Values {
    /// Reads CurrentValue.
    fn current(&self) -> u64;

    /// Writes MonitoredValue. When the call returns, whoever writes a CurrentValue that is read from now on has seen
    /// it.
    fn write_monitored(&self, value: u64);
}

/// The waits on a fence, and the MonitoredValue that goes with them.
pub(crate) struct MonitoredWaits {
    pub(crate) list: WaitList,
    /// Satisfied, about to be woken; empty between calls, kept for its memory.
    satisfied: Vec<Arc<Wait>>,
    /// Contents of MonitoredValue.
    monitored: u64,
    /// Contents of MonitoredValue that never change, whoever waits; `None` if they follow the waiters.
    fixed: Option<u64>,
}

impl MonitoredWaits {
    /// Nobody waits.
    pub(crate) fn new() -> Self {
        Self { list: WaitList::default(), satisfied: Vec::new(), monitored: UNMONITORED, fixed: None }
    }

    /// Nobody waits; MonitoredValue gets a value for life from the first [`MonitoredWaits::settle`].
    pub(crate) fn fixed(monitored: u64) -> Self {
        Self { fixed: Some(monitored), ..Self::new() }
    }

    /// Contents of MonitoredValue.
    pub(crate) fn monitored(&self) -> u64 {
        self.monitored
    }

    /// Makes MonitoredValue match the waits that are not satisfied, and wakes the others: a signal after the last write of
    /// MonitoredValue interrupts, and one before it is seen by the read that follows. A thread that is woken may signal or wait
    /// at once and finds the new MonitoredValue in place. Returns how many conditions came true.
    pub(crate) fn settle(&mut self, values: &impl Values) -> usize {
        while let Some(monitored) = self.plan(values.current()) {
            values.write_monitored(monitored);
        }
        self.wake()
    }

    /// One step of [`MonitoredWaits::settle`], for those who write the MonitoredValue of several fences in one call: the value to be
    /// written, `None` when the one that is written matches. [`MonitoredWaits::wake`] follows when nothing is left to be written.
    pub(crate) fn plan(&mut self, current: u64) -> Option<u64> {
        self.satisfied.extend(self.list.take_satisfied(current));
        let monitored = self.fixed.unwrap_or_else(|| self.list.monitored_value());
        if monitored == self.monitored {
            return None;
        }
        self.monitored = monitored;
        Some(monitored)
    }

    /// Wakes the waiters that were found satisfied, and returns how many conditions that were.
    pub(crate) fn wake(&mut self) -> usize {
        let count = self.satisfied.len();
        for wait in self.satisfied.drain(..) {
            wait.satisfy();
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use wddm_ddi::status::STATUS_SUCCESS;

    /// A fence whose signals come from another thread, which interrupts as the protocol asks.
    #[derive(Default)]
    struct Model {
        current: AtomicU64,
        monitored: AtomicU64,
        updates: AtomicU64,
        interrupts: AtomicU64,
    }

    impl Values for Model {
        fn current(&self) -> u64 {
            self.current.load(Ordering::SeqCst)
        }

        fn write_monitored(&self, value: u64) {
            self.updates.fetch_add(1, Ordering::Relaxed);
            self.monitored.store(value, Ordering::SeqCst);
        }
    }

    impl Model {
        fn signal(&self, value: u64, watch: &Mutex<MonitoredWaits>) {
            self.current.store(value, Ordering::SeqCst);
            if value > self.monitored.load(Ordering::SeqCst) {
                self.interrupts.fetch_add(1, Ordering::Relaxed);
                watch.lock().unwrap().settle(self);
            }
        }
    }

    #[test]
    fn no_wait_is_missed_while_signals_race_with_waiters() {
        const LAST: u64 = 20_000;
        let model = Model { monitored: AtomicU64::new(UNMONITORED), ..Model::default() };
        let (watch, wanted) = (Mutex::new(MonitoredWaits::new()), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                for value in 1..=LAST {
                    let wait = Wait::of_thread(1);
                    wanted.store(value, Ordering::Release);
                    {
                        let mut watch = watch.lock().unwrap();
                        watch.list.add(value, Arc::clone(&wait));
                        watch.settle(&model);
                    }
                    let hang = Instant::now() + Duration::from_secs(20);
                    let status = wait.block(Some(hang), |nap| {
                        std::thread::park_timeout(nap);
                        None
                    });
                    assert_eq!(status, STATUS_SUCCESS, "the wait for {value} was missed");
                    assert!(model.current() >= value);
                }
            });
            // One signal for each wait, in the moment in which it begins.
            for value in 1..=LAST {
                while wanted.load(Ordering::Acquire) < value && !waiter.is_finished() {
                    std::hint::spin_loop();
                }
                model.signal(value, &watch);
            }
        });
        let watch = watch.into_inner().unwrap();
        assert_eq!((watch.list.len(), watch.monitored()), (0, UNMONITORED));
        assert_eq!(model.monitored.into_inner(), UNMONITORED);
    }

    #[test]
    fn a_fence_nobody_waits_for_raises_nothing_and_is_told_nothing() {
        let model = Model { monitored: AtomicU64::new(UNMONITORED), ..Model::default() };
        let watch = Mutex::new(MonitoredWaits::new());
        (1..=1000).for_each(|value| model.signal(value, &watch));
        model.signal(UNMONITORED, &watch);
        assert_eq!((model.interrupts.into_inner(), model.updates.into_inner()), (0, 0));
    }

    #[test]
    fn a_value_that_is_passed_between_list_and_monitored_value_is_seen_by_the_second_look() {
        /// Signals in the very moment in which MonitoredValue is written, without an interrupt.
        struct Late(AtomicU64, AtomicU64);
        impl Values for Late {
            fn current(&self) -> u64 {
                self.0.load(Ordering::SeqCst)
            }
            fn write_monitored(&self, value: u64) {
                self.1.store(value, Ordering::SeqCst);
                self.0.store(5, Ordering::SeqCst);
            }
        }
        let (late, mut watch) = (Late(AtomicU64::new(0), AtomicU64::new(UNMONITORED)), MonitoredWaits::new());
        let (passed, beyond) = (Wait::of_thread(1), Wait::of_thread(1));
        watch.list.add(5, Arc::clone(&passed));
        watch.list.add(9, Arc::clone(&beyond));
        watch.settle(&late);
        assert_eq!((passed.outcome(), beyond.outcome()), (Some(STATUS_SUCCESS), None));
        assert_eq!((watch.monitored(), late.1.into_inner()), (8, 8));
    }

    #[test]
    fn monitored_value_is_least_waited_less_one_or_all_ones_for_any_set_of_waiters() {
        let mut random = Rng::with_seed(0x1234_5678_9abc_def1);
        for _ in 0..200 {
            let mut list = WaitList::default();
            let mut model: Vec<(u64, Arc<Wait>)> = Vec::new();
            for _ in 0..random.u64(..40) {
                if model.is_empty() || random.u64(..3) > 0 {
                    let (value, wait) = (1 + random.u64(..30), Wait::of_thread(1));
                    list.add(value, Arc::clone(&wait));
                    model.push((value, wait));
                } else {
                    let (_, wait) = model.remove(random.u64(..model.len() as u64) as usize);
                    list.remove(&wait);
                }
                let expected = model.iter().map(|(value, _)| value - 1).min().unwrap_or(u64::MAX);
                assert_eq!(list.monitored_value(), expected);
            }
        }
    }

    #[test]
    fn a_new_value_takes_exactly_the_satisfied_waits_lowest_first() {
        let mut random = Rng::with_seed(7);
        for _ in 0..200 {
            let mut list = WaitList::default();
            let mut model: Vec<u64> = (0..random.u64(..50)).map(|_| 1 + random.u64(..100)).collect();
            for &value in &model {
                list.add(value, Wait::of_thread(value as u32));
            }
            model.sort_unstable();
            let current = random.u64(..120);
            let (expected, left): (Vec<u64>, Vec<u64>) = model.into_iter().partition(|value| *value <= current);
            let taken: Vec<u64> =
                list.take_satisfied(current).map(|wait| u64::from(wait.remaining.load(Ordering::Relaxed))).collect();
            assert_eq!(taken, expected);
            assert_eq!(list.len(), left.len());
        }
    }

    #[test]
    fn who_came_first_is_woken_first_among_those_who_wait_for_one_value() {
        let mut list = WaitList::default();
        for (order, value) in [(1, 7), (2, 9), (3, 7), (4, 5), (5, 7), (6, 9)] {
            list.add(value, Wait::of_thread(order));
        }
        let taken: Vec<u32> = list.take_satisfied(8).map(|wait| wait.remaining.load(Ordering::Relaxed)).collect();
        assert_eq!(taken, [4, 1, 3, 5]);
        let taken: Vec<u32> = list.take_satisfied(9).map(|wait| wait.remaining.load(Ordering::Relaxed)).collect();
        assert_eq!(taken, [2, 6]);
    }

    #[test]
    fn a_wait_for_the_largest_value_is_monitored_just_below_it() {
        let mut list = WaitList::default();
        list.add(u64::MAX, Wait::of_thread(1));
        assert_eq!(list.monitored_value(), u64::MAX - 1);
        assert_eq!(list.take_satisfied(u64::MAX - 1).count(), 0);
        assert_eq!(list.take_satisfied(u64::MAX).count(), 1);
    }
}

//! A fence, the engines that signal it and the CPUs that wait for it.

use super::sync::{AtomicBool, AtomicU64, Mutex, lock};
use super::wait::Wait;
use super::watch::{Values, MonitoredWaits};
use crate::{Fault, left_out};
use campanile_hw::fence::{self, Barrier, FenceWord, SIGNALED_FOR_GOOD, SignaledWord, UNMONITORED};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A fence value in shared memory, as device and driver access it.
pub(crate) struct Word<'a>(pub(crate) &'a AtomicU64);

impl FenceWord for Word<'_> {
    fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }
}

impl SignaledWord for Word<'_> {
    fn signal(&self, value: u64) -> u64 {
        let written = |found: u64| (found != SIGNALED_FOR_GOOD).then_some(value);
        if left_out(Fault::OneStep) {
            return written(self.load()).map_or(SIGNALED_FOR_GOOD, |value| {
                self.store(value);
                value
            });
        }
        let outcome = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, written);
        if outcome.is_ok() { value } else { SIGNALED_FOR_GOOD }
    }
}

/// A full barrier, unless the fault leaves it out.
pub(crate) struct Full(pub(crate) Fault);

impl Barrier for Full {
    fn full(&self) {
        if !left_out(self.0) {
            super::sync::fence(Ordering::SeqCst);
        }
    }
}

/// A native fence with its CPU waits.
pub(crate) struct Race {
    current: AtomicU64,
    monitored: AtomicU64,
    watch: Mutex<MonitoredWaits>,
    /// An interrupt is raised and was not taken yet: another one is the same.
    raised: AtomicBool,
}

/// The values during one [`MonitoredWaits::settle`].
struct Settling<'a> {
    race: &'a Race,
    sample: Cell<Option<u64>>,
}

impl Values for Settling<'_> {
    fn current(&self) -> u64 {
        match self.sample.get() {
            Some(sample) if left_out(Fault::Resample) => sample,
            _ => {
                let sample = self.race.current();
                self.sample.set(Some(sample));
                sample
            }
        }
    }

    /// DxgkDdiUpdateMonitoredValues.
    fn write_monitored(&self, value: u64) {
        let monitored = Word(&self.race.monitored);
        fence::monitor(&monitored, &monitored, &Full(Fault::MonitorBarrier), value);
    }
}

impl Race {
    pub(crate) fn new() -> Self {
        Self {
            current: AtomicU64::new(0),
            monitored: AtomicU64::new(UNMONITORED),
            watch: Mutex::new(MonitoredWaits::new()),
            raised: AtomicBool::new(false),
        }
    }

    pub(crate) fn current(&self) -> u64 {
        Word(&self.current).load()
    }

    /// An engine writes CurrentValue, as the first step of a signal.
    pub(crate) fn write(&self, value: u64) -> u64 {
        Word(&self.current).signal(value)
    }

    /// The processor signals the fence for good. Writes of one word have one order, which the checker knows of exchanges and not of a plain
    /// store beside an exchange of another thread; so this is an exchange.
    pub(crate) fn signal_for_good(&self) {
        self.current.swap(SIGNALED_FOR_GOOD, Ordering::AcqRel);
        self.settle(&mut lock(&self.watch));
    }

    fn settle(&self, watch: &mut MonitoredWaits) {
        watch.settle(&Settling { race: self, sample: Cell::new(None) });
    }

    /// An engine signals `value`, and interrupts if it must.
    pub(crate) fn signal(&self, value: u64) {
        self.signal_by(&Word(&self.current), value);
    }

    /// As [`Race::signal`], with CurrentValue behind `current`.
    pub(crate) fn signal_by(&self, current: &impl SignaledWord, value: u64) {
        let signaled = fence::signal(current, &Word(&self.monitored), &Full(Fault::SignalBarrier), value);
        if signaled.announce {
            self.interrupt();
        }
    }

    /// Interrupts that come before the first is taken collapse into one. Taking it comes first, then everything is looked at.
    fn interrupt(&self) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            self.raised.swap(false, Ordering::AcqRel);
            self.settle(&mut lock(&self.watch));
        }
    }

    /// A CPU begins to wait.
    pub(crate) fn wait(&self, value: u64) -> Arc<Wait> {
        let wait = Wait::new();
        let mut watch = lock(&self.watch);
        watch.list.add(value, Arc::clone(&wait));
        self.settle(&mut watch);
        wait
    }

    /// A CPU gives up.
    pub(crate) fn give_up(&self, wait: &Arc<Wait>) {
        let mut watch = lock(&self.watch);
        watch.list.remove(wait);
        self.settle(&mut watch);
    }

    /// Nothing happens any more: nobody sleeps whose value is reached, and MonitoredValue fits those who sleep.
    pub(crate) fn check(&self, waits: &[(u64, Arc<Wait>)]) {
        let current = self.current();
        for (value, wait) in waits {
            assert_eq!(wait.outcome().is_some(), current >= *value, "the wait for {value} sleeps at {current}");
        }
        let watch = lock(&self.watch);
        let least = waits.iter().map(|(value, _)| *value).filter(|value| *value > current).min();
        let expected = least.map_or(UNMONITORED, |value| value - 1);
        assert_eq!((watch.monitored(), Word(&self.monitored).load()), (expected, expected));
    }
}

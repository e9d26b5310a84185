//! Time in nanoseconds at the cost of one instruction, and percentiles over it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

/// The processor's time-stamp counter, calibrated once against the host's monotonic clock.
///
/// Every x86-64 processor of the last fifteen years counts at a constant rate; where it does not, figures are off by the ratio of the
/// two rates, never wrong in kind.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    nanoseconds_a_tick: f64,
}

/// A reading of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(u64);

const CALIBRATION: Duration = Duration::from_millis(20);

impl Clock {
    /// The clock; the first call takes some 20 ms to calibrate it.
    pub fn get() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(Self::calibrate)
    }

    fn calibrate() -> Self {
        let started = Instant::now();
        let first = now();
        while started.elapsed() < CALIBRATION {
            std::hint::spin_loop();
        }
        let elapsed = started.elapsed();
        let ticks = now().0.wrapping_sub(first.0).max(1);
        Self { nanoseconds_a_tick: elapsed.as_nanos() as f64 / ticks as f64 }
    }

    /// Nanoseconds from `start` to `end`, 0 if the readings are out of order.
    pub fn nanoseconds(self, start: Ticks, end: Ticks) -> f64 {
        end.0.saturating_sub(start.0) as f64 * self.nanoseconds_a_tick
    }
}

impl Ticks {
    /// The counter's value.
    pub fn count(self) -> u64 {
        self.0
    }
}

/// Reads the counter.
#[inline]
pub fn now() -> Ticks {
    // SAFETY: RDTSC exists on every x86-64 processor and has no effect besides its result.
    Ticks(unsafe { core::arch::x86_64::_rdtsc() })
}

/// Time on processors that a thread or a process has had so far, [`ClockId::ThreadCPUTime`] or [`ClockId::ProcessCPUTime`].
pub fn processor_time(of: ClockId) -> Duration {
    let time = clock_gettime(of);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Durations collected for percentiles, with a resolution of 0.1 % and of 10 picoseconds.
#[derive(Clone)]
pub struct Latencies(Histogram<u64>);

/// Scale of the histogram: hundredths of a nanosecond, so that parts of a batch keep their fraction.
const STEPS: f64 = 100.0;
/// Longest duration told apart: 100 seconds. Longer ones count as this.
const LONGEST: u64 = 100_000_000_000 * STEPS as u64;

impl Latencies {
    /// No durations yet.
    pub fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are in order and three digits are supported"))
    }

    /// Adds one duration.
    pub fn record(&mut self, nanoseconds: f64) {
        self.0.saturating_record((nanoseconds.max(0.0) * STEPS) as u64);
    }

    /// The duration that a share of all durations does not exceed, in nanoseconds; 0 without durations.
    pub fn percentile(&self, percent: f64) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.value_at_percentile(percent) as f64 / STEPS }
    }

    /// Number of durations.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// True if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_recorded_values() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.percentile(50.0), 0.0);
        for value in 1..=100 {
            latencies.record(f64::from(value));
        }
        assert_eq!(latencies.len(), 100);
        assert!((latencies.percentile(50.0) - 50.0).abs() < 0.2);
        assert!((latencies.percentile(99.0) - 99.0).abs() < 0.2);
    }

    #[test]
    fn fractions_of_a_nanosecond_survive() {
        let mut latencies = Latencies::new();
        latencies.record(7.25);
        assert!((latencies.percentile(50.0) - 7.25).abs() < 0.02);
    }

    #[test]
    fn the_counter_runs_with_the_monotonic_clock() {
        let clock = Clock::get();
        let first = now();
        let second = now();
        assert!(clock.nanoseconds(first, second) >= 0.0);
        assert_eq!(clock.nanoseconds(second, first), 0.0);
    }
}

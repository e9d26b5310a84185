//! One time for CPU and GPU.

use dxgkrnl::Machine;
use wddm_ddi::types::LUID;

use crate::clock;

/// Nanoseconds since the trace began, on the clock behind the performance counter.
#[derive(Clone, Copy, Debug)]
pub struct HostClock(u64);

/// Nanoseconds of a tick of the performance counter.
const COUNTER_TICK: u64 = 100;

impl HostClock {
    /// A clock that shows 0 now.
    pub fn start() -> Self {
        Self(dxgkrnl::nanoseconds())
    }

    /// The time.
    pub fn now(self) -> u64 {
        self.of(dxgkrnl::nanoseconds())
    }

    /// The time of a moment on the clock behind the performance counter; moments before the start count as the start.
    pub fn of(self, nanoseconds: u64) -> u64 {
        nanoseconds.saturating_sub(self.0)
    }
}

/// A clock that costs little to read: the processor's time-stamp counter where processor and kernel guarantee its rate, at a third of the cost of
/// the host's clock; elsewhere the clock behind the performance counter itself.
#[derive(Clone, Copy, Debug)]
pub struct QuickClock {
    /// True if readings are of the time-stamp counter, false if they are of the performance counter.
    counts: bool,
    start: Reading,
}

/// A moment on a [`QuickClock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// One moment on two clocks.
#[derive(Clone, Copy, Debug)]
struct Reading {
    moment: Moment,
    /// The clock behind the performance counter.
    nanoseconds: u64,
}

/// Converts the moments of a [`QuickClock`] by linear interpolation between two readings of both clocks, at its start and later. The error is that
/// of the two readings, and that of an uneven slew of the kernel's clock in between.
#[derive(Clone, Copy, Debug)]
pub struct Calendar {
    counts: bool,
    start: Reading,
    end: Reading,
}

/// Readings of both clocks; the one that took least counts, for a thread may be interrupted in any of them.
const PAIRS: usize = 16;

impl Reading {
    fn take() -> Self {
        let reading = |_| {
            let before = clock::now().count();
            let nanoseconds = dxgkrnl::nanoseconds();
            let took = clock::now().count().saturating_sub(before);
            (took, Self { moment: Moment(before + took / 2), nanoseconds })
        };
        let closest = (0..PAIRS).map(reading).min_by_key(|(took, _)| *took);
        closest.map_or(Self { moment: Moment(0), nanoseconds: 0 }, |(_, reading)| reading)
    }
}

impl QuickClock {
    /// The quickest clock of this host.
    pub fn start() -> Self {
        Self::with(campanile_device::counter_is_invariant())
    }

    fn with(counts: bool) -> Self {
        Self { counts, start: Reading::take() }
    }

    /// This moment.
    #[inline]
    pub fn now(&self) -> Moment {
        Moment(if self.counts { clock::now().count() } else { dxgkrnl::nanoseconds() })
    }

    /// Conversion to the performance counter of all moments between the clock's start and now.
    pub fn calendar(&self) -> Calendar {
        Calendar { counts: self.counts, start: self.start, end: Reading::take() }
    }
}

impl Calendar {
    /// A moment on the clock behind the performance counter, in nanoseconds; moments before the start count as the start. Later moments
    /// have later times.
    pub fn nanoseconds(&self, moment: Moment) -> u64 {
        let Self { start, end, .. } = self;
        if !self.counts {
            return moment.0;
        }
        let since = |moment: Moment| u128::from(moment.0.saturating_sub(start.moment.0));
        let passed = u128::from(end.nanoseconds.saturating_sub(start.nanoseconds));
        let elapsed = since(moment) * passed / since(end.moment).max(1);
        start.nanoseconds.saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }
}

/// Conversion from ticks of the GPU to nanoseconds of a [`HostClock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuClock {
    /// A moment in ticks of the GPU.
    pub ticks: u64,
    /// The same moment on the host's clock.
    pub host: u64,
    /// Ticks a second.
    pub hz: u64,
}

/// Calls of DxgkDdiCalibrateGpuClock; the one that took least counts.
const READINGS: usize = 32;
/// Nanoseconds that must lie between two readings that tell a rate.
const LEAST: u128 = 1_000_000;
/// The part of its nominal rate by which a clock can be wrong.
const PLAUSIBLE: u64 = 1000;

impl GpuClock {
    /// The clock of a node as its driver calibrates it (DxgkDdiCalibrateGpuClock); `None` if it does not.
    pub fn calibrate(machine: &Machine, luid: LUID, node: u32, host: HostClock) -> Option<Self> {
        let reading = |_| {
            let before = dxgkrnl::nanoseconds();
            let clock = machine.gpu_clock(luid, node)?;
            let took = dxgkrnl::nanoseconds() - before;
            let calibrated = host.of(clock.cpu.saturating_mul(COUNTER_TICK));
            Some((took, Self { ticks: clock.gpu, host: calibrated, hz: clock.gpu_frequency }))
        };
        (0..READINGS).filter_map(reading).min_by_key(|(took, _)| *took).map(|(_, clock)| clock)
    }

    /// This clock, with the rate that it had until `later` was read. The nominal rate stays where the two moments do not tell: too close
    /// to each other, or with a reset in between.
    pub fn until(self, later: &Self) -> Self {
        let ticks = u128::from(later.ticks.saturating_sub(self.ticks));
        let nanoseconds = u128::from(later.host.saturating_sub(self.host));
        if nanoseconds < LEAST {
            return self;
        }
        let measured = u64::try_from(ticks * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX);
        if measured.abs_diff(self.hz) > self.hz / PLAUSIBLE { self } else { Self { hz: measured, ..self } }
    }

    /// Nanoseconds on the host's clock; moments before its start count as the start.
    pub fn host_time(&self, ticks: u64) -> u64 {
        let apart = i128::from(ticks) - i128::from(self.ticks);
        let nanoseconds = apart * 1_000_000_000 / i128::from(self.hz.max(1));
        u64::try_from((i128::from(self.host) + nanoseconds).max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_scaled_around_the_calibrated_moment() {
        let clock = GpuClock { ticks: 1000, host: 5_000_000, hz: 100_000_000 };
        assert_eq!(clock.host_time(1000), 5_000_000);
        assert_eq!(clock.host_time(1100), 5_001_000);
        assert_eq!(clock.host_time(900), 4_999_000);
    }

    #[test]
    fn two_readings_tell_how_fast_a_clock_is() {
        let first = GpuClock { ticks: 1000, host: 5_000_000, hz: 100_000_000 };
        let later = |ticks: u64, host: u64| GpuClock { ticks: 1000 + ticks, host: 5_000_000 + host, hz: 100_000_000 };
        // 10 ppm too fast over ten seconds: a tenth of a millisecond.
        let fast = later(1_000_010_000, 10_000_000_000);
        assert_eq!(first.host_time(fast.ticks) - fast.host, 100_000);
        assert_eq!(first.until(&fast).host_time(fast.ticks), fast.host);
        assert_eq!(first.until(&fast).host_time(1000), 5_000_000);
        for useless in [later(50, 500), later(0, 0), later(1, 10_000_000_000), later(u64::MAX - 1000, 10_000_000_000)] {
            assert_eq!(first.until(&useless), first, "{useless:?}");
        }
        assert_eq!(first.until(&GpuClock { ticks: 10, ..fast }), first, "the clock was reset");
    }

    #[test]
    fn moments_lie_where_the_readings_at_both_ends_put_them() {
        let reading = |moment, nanoseconds| Reading { moment: Moment(moment), nanoseconds };
        let calendar = |end| Calendar { counts: true, start: reading(1000, 500), end };
        let slow = calendar(reading(1000 + (1 << 40), 500 + (1 << 38)));
        let times = [0, 1000, 1004, 1000 + (1 << 40), 1000 + (1 << 41)].map(|moment| slow.nanoseconds(Moment(moment)));
        assert_eq!(times, [500, 500, 501, 500 + (1 << 38), 500 + (1 << 39)]);
        for still in [reading(1000, 500), reading(0, 900), reading(2000, 500), reading(2000, 0)] {
            assert_eq!(calendar(still).nanoseconds(Moment(1000)), 500, "{still:?}");
        }
        assert_eq!(calendar(reading(1001, u64::MAX)).nanoseconds(Moment(u64::MAX)), u64::MAX);
    }

    #[test]
    fn either_source_tells_the_time_of_the_clock_behind_the_performance_counter() {
        // A moment is not much farther from the readings around it than they from each other, however late the thread runs.
        const SLACK: u64 = 1_000_000;
        for counts in [campanile_device::counter_is_invariant(), false] {
            let clock = QuickClock::with(counts);
            let moment = || (dxgkrnl::nanoseconds(), clock.now(), dxgkrnl::nanoseconds());
            let moments: Vec<_> = (0..1000).map(|_| moment()).collect();
            let calendar = clock.calendar();
            let times: Vec<u64> = moments.iter().map(|(_, moment, _)| calendar.nanoseconds(*moment)).collect();
            assert!(times.is_sorted());
            for ((before, _, after), time) in moments.iter().zip(times) {
                assert!((before - SLACK..=after + SLACK).contains(&time), "{time} outside {before} to {after}");
            }
        }
    }

    #[test]
    fn no_reading_leaves_the_range() {
        let clock = GpuClock { ticks: u64::MAX, host: 0, hz: 1 };
        assert_eq!(clock.host_time(0), 0);
        assert_eq!(GpuClock { ticks: 0, host: u64::MAX, hz: 1 }.host_time(u64::MAX), u64::MAX);
    }
}

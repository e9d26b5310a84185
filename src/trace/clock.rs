//! One time for CPU and GPU.

use std::time::Instant;

use campanile_device::Gpu;
use campanile_hw::registers::{CLOCK_HZ, TIMESTAMP};

/// Nanoseconds since the trace began.
#[derive(Clone, Copy, Debug)]
pub struct HostClock(Instant);

impl HostClock {
    /// A clock that shows 0 now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time.
    pub fn now(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// How ticks of the GPU become nanoseconds of a [`HostClock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuClock {
    /// A moment in ticks of the GPU.
    pub ticks: u64,
    /// The same moment on the host's clock.
    pub host: u64,
    /// Ticks a second.
    pub hz: u64,
}

/// Pairs of readings; the closest one counts.
const READINGS: usize = 32;

impl GpuClock {
    /// Reads both clocks until a pair lies close together.
    pub fn calibrate(gpu: &Gpu, host: HostClock) -> Self {
        let hz = gpu.register_read(CLOCK_HZ, 8).max(1);
        let reading = |_| {
            let before = host.now();
            let ticks = gpu.register_read(TIMESTAMP, 8);
            let after = host.now();
            (after - before, Self { ticks, host: before + (after - before) / 2, hz })
        };
        let best = (0..READINGS).map(reading).min_by_key(|(apart, _)| *apart);
        best.map_or(Self { ticks: 0, host: 0, hz }, |(_, clock)| clock)
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
    fn no_reading_leaves_the_range() {
        let clock = GpuClock { ticks: u64::MAX, host: 0, hz: 1 };
        assert_eq!(clock.host_time(0), 0);
        assert_eq!(GpuClock { ticks: 0, host: u64::MAX, hz: 1 }.host_time(u64::MAX), u64::MAX);
    }
}

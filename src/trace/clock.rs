//! One time for CPU and GPU.

use dxgkrnl::Machine;
use wddm_ddi::types::LUID;

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

/// Calls of DxgkDdiCalibrateGpuClock; the one that took least counts.
const READINGS: usize = 32;

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

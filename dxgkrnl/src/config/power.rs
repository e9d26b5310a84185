//! Settings of the idle power policy.

use std::time::Duration;

/// After which time without work power states go down, on the machine's clock. A driver that says itself that an engine is idle, and
/// whoever powers a device down, need no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerSettings {
    /// An engine goes to F1. `None`: only when the driver asks.
    pub engine_idle_time: Option<Duration>,
    /// A device goes to D3. `None`: only when it is told to.
    pub device_idle_time: Option<Duration>,
}

impl PowerSettings {
    /// As on a machine that somebody uses: engines rest after the two seconds of TdrDelay, devices after ten.
    pub fn in_use() -> Self {
        Self { engine_idle_time: Some(Duration::from_secs(2)), device_idle_time: Some(Duration::from_secs(10)) }
    }

    /// How often somebody should look; `None` if there is nothing to be found.
    pub(crate) fn cadence(&self) -> Option<Duration> {
        let shortest = self.engine_idle_time.into_iter().chain(self.device_idle_time).min()?;
        Some((shortest / 4).max(Duration::from_millis(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_looks_are_as_frequent_as_the_shorter_time_needs() {
        let of = |engine: Option<u64>, device: Option<u64>| {
            let time = |value: Option<u64>| value.map(Duration::from_millis);
            PowerSettings { engine_idle_time: time(engine), device_idle_time: time(device) }.cadence()
        };
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some(800), Some(400)), Some(Duration::from_millis(100)));
        assert_eq!(of(None, Some(1)), Some(Duration::from_millis(1)));
    }
}

//! Traces of the last seconds of a machine.

use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use dxgkrnl::Machine;
use testbed::programs::Stop;
use wddm_ddi::types::LUID;

use crate::trace::{Collector, Recording, Trace, perfetto};

/// Error message for a request about an adapter that was pulled out.
pub(super) const GONE: &str = "no adapter is there; `campanile ctl plug-in` plugs one in";
/// Longest trace, in seconds.
const SECONDS_MAX: u32 = 60;

/// A recording that is under way.
struct Running {
    recording: Recording,
    collector: Collector,
}

impl Running {
    fn start(machine: &Machine, luid: LUID, window: Option<Duration>) -> Result<Self, String> {
        let recording = Recording::start();
        let collector = Collector::start_keeping(machine, luid, &recording, window);
        let collector = collector.map_err(|status| format!("the adapter cannot be traced: {status}"))?;
        Ok(Self { recording, collector })
    }

    /// What was recorded up to now, which goes on, and the time by its clock.
    fn kept(&self) -> (Trace, u64) {
        let now = self.recording.clock().now();
        (self.collector.kept(), now)
    }

    fn finish(self) -> Trace {
        self.collector.finish();
        self.recording.finish()
    }
}

/// Records when it is asked to, or all the time.
pub(super) struct Recorder {
    /// Length of what is recorded all the time; `None` if nothing is.
    pub(super) window: Option<Duration>,
    running: Mutex<Option<Running>>,
    /// Set when the machine is to stop, which no recording delays.
    stop: Stop,
}

impl Recorder {
    /// With a window the machine is traced from now on, and what is older than it is given up.
    ///
    /// # Errors
    /// A text for people: the adapter cannot be traced.
    pub(super) fn new(machine: &Machine, luid: LUID, window: Option<Duration>, stop: Stop) -> Result<Self, String> {
        let running = window.map(|window| Running::start(machine, luid, Some(window))).transpose()?;
        Ok(Self { window, running: Mutex::new(running), stop })
    }

    /// What happened in the last `seconds`. Where nothing is recorded all the time, it is recorded for so long first.
    ///
    /// # Errors
    /// A text for people: there is no adapter, or it cannot be traced, `seconds` is out of range, somebody else records, or the machine stops.
    pub(super) fn record(&self, machine: &Machine, luid: LUID, seconds: u32) -> Result<Vec<u8>, String> {
        if !(1..=SECONDS_MAX).contains(&seconds) {
            return Err(format!("a trace is of 1 to {SECONDS_MAX} seconds, not of {seconds}"));
        }
        let mut running = match self.running.try_lock() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Somebody copies what is kept, which does not take long.
            Err(TryLockError::WouldBlock) if self.window.is_some() => {
                self.running.lock().unwrap_or_else(PoisonError::into_inner)
            }
            Err(TryLockError::WouldBlock) => {
                return Err("somebody else records this machine at the moment; ask again when that is done".to_owned());
            }
        };
        let length = Duration::from_secs(seconds.into());
        let trace = if let Some(earlier) = running.take_if(|recorded| recorded.collector.luid() != luid) {
            // An adapter that is gone is not traced any more; what it has left is told all the same, and its last seconds end with its last event.
            let trace = earlier.finish();
            *running = Running::start(machine, luid, self.window).ok();
            let end = trace.events.iter().map(|event| event.time).max().unwrap_or(0);
            last(trace, end, length)
        } else if let Some(recorded) = running.as_ref() {
            let (trace, now) = recorded.kept();
            last(trace, now, length)
        } else {
            if machine.overview(luid).is_none() {
                return Err(GONE.to_owned());
            }
            let recorded = Running::start(machine, luid, None)?;
            let stops = self.stop.wait_for(length);
            let trace = recorded.finish();
            if stops.map_err(|error| format!("the host cannot wait: {error}"))? {
                return Err("the machine stops".to_owned());
            }
            trace
        };
        Ok(perfetto::write(&trace))
    }

    /// An adapter has been plugged in: what is recorded all the time is that of this one from now on, and what the one before has left is given up.
    ///
    /// # Errors
    /// A text for people: the adapter cannot be traced.
    pub(super) fn follow(&self, machine: &Machine, luid: LUID) -> Result<(), String> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let is_another = running.as_ref().is_none_or(|recorded| recorded.collector.luid() != luid);
        if let Some(window) = self.window.filter(|_| is_another) {
            drop(running.take().map(Running::finish));
            *running = Some(Running::start(machine, luid, Some(window))?);
        }
        Ok(())
    }

    /// Records nothing any more.
    pub(super) fn stop(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(running.map(Running::finish));
    }
}

/// The events of the last part of a trace up to `end`, and its processes and lanes.
fn last(mut trace: Trace, end: u64, length: Duration) -> Trace {
    let first = end.saturating_sub(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
    trace.events.retain(|event| event.time >= first);
    trace
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Event, EventKind};

    #[test]
    fn the_last_part_of_a_trace_is_kept() {
        let event = |time| Event { time, lane: 0, kind: EventKind::DoorbellConnect };
        let trace = Trace { events: vec![event(1), event(1_500_000_000), event(2_000_000_001)], ..Trace::default() };
        let times = |trace: Trace| trace.events.iter().map(|event| event.time).collect::<Vec<_>>();
        let second = Duration::from_secs(1);
        assert_eq!(times(last(trace.clone(), 2_000_000_001, second)), [1_500_000_000, 2_000_000_001]);
        assert_eq!(
            times(last(trace.clone(), 2_900_000_000, second)),
            [2_000_000_001],
            "up to now, not to the last event"
        );
        assert!(times(last(trace, 60_000_000_000, second)).is_empty(), "nothing has happened for a minute");
        assert_eq!(times(last(Trace::default(), 0, second)), [0; 0]);
    }
}

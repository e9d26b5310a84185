//! The clock of a machine's timeouts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::lock::{Innermost, Mutex, lock};

/// The clock by which timeouts are measured: the host's, or a manual one that stands still until a test moves it on.
#[derive(Clone)]
pub struct Clock(Arc<Source>);

enum Source {
    Host(Instant),
    Manual(Mutex<Manual, Innermost>),
}

/// A clock that is moved by a test, and the waits for it.
#[derive(Default)]
struct Manual {
    now: Duration,
    /// The moments that threads wait for, by a number of the wait.
    deadlines: BTreeMap<u64, Duration>,
    /// Waits that there were.
    waits: u64,
}

/// A thread waits for a moment until this is dropped.
#[must_use = "nobody waits any more when this is dropped"]
pub struct Deadline<'a>(Option<(&'a Mutex<Manual, Innermost>, u64)>);

impl Drop for Deadline<'_> {
    fn drop(&mut self) {
        if let Some((clock, number)) = self.0 {
            lock(clock).deadlines.remove(&number);
        }
    }
}

impl Clock {
    /// The host's time.
    pub fn host() -> Self {
        Self(Arc::new(Source::Host(Instant::now())))
    }

    /// A clock at 0 that only `Machine::advance` moves. Nothing looks for timeouts in between.
    pub fn manual() -> Self {
        Self(Arc::new(Source::Manual(Mutex::default())))
    }

    /// Time since the clock was made.
    pub fn now(&self) -> Duration {
        match &*self.0 {
            Source::Host(start) => start.elapsed(),
            Source::Manual(clock) => lock(clock).now,
        }
    }

    /// True if time stands still until a test moves it on.
    pub fn is_manual(&self) -> bool {
        matches!(*self.0, Source::Manual(_))
    }

    /// Moves a manual clock on; the host's does so by itself.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(clock) = &*self.0 {
            let mut clock = lock(clock);
            clock.now = clock.now.saturating_add(by);
        }
    }

    /// The caller waits for `moment` until the answer is dropped.
    pub fn deadline(&self, moment: Duration) -> Deadline<'_> {
        let Source::Manual(clock) = &*self.0 else { return Deadline(None) };
        let mut state = lock(clock);
        state.waits += 1;
        let number = state.waits;
        state.deadlines.insert(number, moment);
        Deadline(Some((clock, number)))
    }

    /// The first moment that a thread waits for on a manual clock: work that does not end by then is given up. `None` if no thread waits,
    /// and on the host's clock.
    pub fn next_deadline(&self) -> Option<Duration> {
        match &*self.0 {
            Source::Host(_) => None,
            Source::Manual(clock) => lock(clock).deadlines.values().min().copied(),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::host()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_manual() { "manual" } else { "host" };
        write!(f, "{kind} clock at {:?}", self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_when_it_is_moved_and_its_clones_with_it() {
        let clock = Clock::manual();
        let same = clock.clone();
        clock.advance(Duration::from_secs(3));
        same.advance(Duration::MAX);
        assert_eq!((clock.now(), clock.is_manual()), (Duration::MAX, true));
    }

    #[test]
    fn a_manual_clock_knows_the_first_moment_that_is_waited_for() {
        let (clock, second) = (Clock::manual(), Duration::from_secs(1));
        let late = clock.deadline(3 * second);
        {
            let _first = clock.deadline(second);
            let _same = clock.deadline(second);
            assert_eq!(clock.next_deadline(), Some(second));
        }
        assert_eq!(clock.next_deadline(), Some(3 * second));
        drop(late);
        assert_eq!(clock.next_deadline(), None);
        let host = Clock::host();
        let _waits = host.deadline(second);
        assert_eq!(host.next_deadline(), None);
    }
}

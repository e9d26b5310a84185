//! The clock of a machine's timeouts.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::machine::lock;

/// Where timeouts read the time: the host's clock, or one that stands still until somebody moves it on.
#[derive(Clone)]
pub struct Clock(Arc<Source>);

enum Source {
    Host(Instant),
    Manual(Mutex<Duration>),
}

impl Clock {
    /// The host's time.
    pub fn host() -> Self {
        Self(Arc::new(Source::Host(Instant::now())))
    }

    /// A clock at 0 that only [`crate::Machine::advance`] moves. Nothing looks for timeouts in between.
    pub fn manual() -> Self {
        Self(Arc::new(Source::Manual(Mutex::default())))
    }

    /// Time since the clock was made.
    pub fn now(&self) -> Duration {
        match &*self.0 {
            Source::Host(start) => start.elapsed(),
            Source::Manual(now) => *lock(now),
        }
    }

    /// Whether time stands still of itself.
    pub fn is_manual(&self) -> bool {
        matches!(*self.0, Source::Manual(_))
    }

    /// Moves a manual clock on; the host's does so by itself.
    pub(crate) fn advance(&self, by: Duration) {
        if let Source::Manual(now) = &*self.0 {
            let mut now = lock(now);
            *now = now.saturating_add(by);
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
}

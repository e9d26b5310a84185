//! The deadline of a wait for an engine to preempt or suspend work: TdrDelay from its beginning.

use std::time::{Duration, Instant};

use nt::clock::Clock;

/// The thread that waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// It looks for timeouts for the thread that moves a manual clock. The clock stands still meanwhile.
    LooksForTimeouts,
    /// Any other.
    Other,
}

/// How long a thread waits, by the host's clock, where the machine's clock is manual and is not moved.
const ABANDONED: Duration = Duration::from_secs(30);

/// The end of a wait, by the machine's clock. Where that is manual the host's clock ends the wait as well: after TdrDelay on the thread
/// for which the machine's stands still, after [`ABANDONED`] on others, so that no wait is without end when the clock is not moved any more.
pub(super) struct Deadline {
    clock: Clock,
    end: Duration,
    host: Option<Instant>,
}

impl Deadline {
    pub(super) fn new(clock: &Clock, delay: Duration, waiter: Waiter) -> Self {
        let host = clock.is_manual().then(|| if waiter == Waiter::LooksForTimeouts { delay } else { ABANDONED });
        let host = host.map(|limit| Instant::now() + limit);
        Self { clock: clock.clone(), end: clock.now().saturating_add(delay), host }
    }

    /// What is left; how long to sleep until the next look is not more than that.
    pub(super) fn left(&self) -> Duration {
        let left = self.end.saturating_sub(self.clock.now());
        self.host.map_or(left, |host| left.min(host.saturating_duration_since(Instant::now())))
    }
}

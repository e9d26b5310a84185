//! How long somebody waits for an engine to let go: TdrDelay.

use std::cell::Cell;
use std::time::{Duration, Instant};

use nt::clock::Clock;

thread_local! {
    /// This thread looks for timeouts on behalf of whoever moves the clock, which stands still as long as it does.
    static LOOKING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` on a thread that looks for timeouts.
pub(super) fn while_looking<R>(work: impl FnOnce() -> R) -> R {
    let before = LOOKING.replace(true);
    let result = work();
    LOOKING.set(before);
    result
}

/// How long anybody waits by a clock that nobody moves.
const ABANDONED: Duration = Duration::from_secs(30);

/// The end of a wait, by the machine's clock; by the host's for the thread that would have to move the machine's, and for whoever waits
/// by one that nobody moves any more.
pub(in super::super) struct Patience {
    clock: Clock,
    end: Duration,
    host: Option<Instant>,
}

impl Patience {
    pub(super) fn new(clock: &Clock, delay: Duration) -> Self {
        let host = clock.is_manual().then(|| if LOOKING.get() { delay } else { ABANDONED });
        let host = host.map(|limit| Instant::now() + limit);
        Self { clock: clock.clone(), end: clock.now().saturating_add(delay), host }
    }

    /// What is left; how long to sleep until the next look is not more than that.
    pub(in super::super) fn left(&self) -> Duration {
        let left = self.end.saturating_sub(self.clock.now());
        self.host.map_or(left, |host| left.min(host.saturating_duration_since(Instant::now())))
    }
}

//! Since when a device and its nodes are idle.

use std::time::Duration;

/// What somebody does, seen at two looks: the same, if nothing happened in between.
pub(super) type Trace = u64;

/// What was seen at the last look, if it was idle, and since when it is the same.
#[derive(Clone, Copy, Default)]
pub(super) struct IdleSince(Option<(Trace, Duration)>);

impl IdleSince {
    /// It is idle with this trace, or busy. True if it has been idle for `limit`.
    pub(super) fn see(&mut self, idle: Option<Trace>, now: Duration, limit: Duration) -> bool {
        match (self.0, idle) {
            (_, None) => self.0 = None,
            (Some((before, since)), Some(trace)) if before == trace => return now.saturating_sub(since) >= limit,
            (_, Some(trace)) => self.0 = Some((trace, now)),
        }
        false
    }
}

/// State of device and nodes at the last check for idleness.
#[derive(Default)]
pub(super) struct IdleState {
    pub(super) device: IdleSince,
    pub(super) nodes: Vec<IdleSince>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_trace_all_the_while_is_idle() {
        let second = Duration::from_secs(1);
        let mut since = IdleSince::default();
        assert!(!since.see(Some(1), second, second));
        assert!(!since.see(Some(1), second * 3 / 2, second));
        assert!(!since.see(Some(2), 2 * second, second), "something happened");
        assert!(!since.see(None, 3 * second, second), "busy");
        assert!(!since.see(Some(2), 4 * second, second));
        assert!(since.see(Some(2), 5 * second, second));
        assert!(since.see(Some(2), 6 * second, second), "nobody used the answer");
    }
}

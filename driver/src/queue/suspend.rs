//! Suspensions of a context that wait for its queues.

use crate::node::shift;

/// Suspensions of one context that may be under way at once; the operating system may suspend, resume and suspend again without
/// waiting.
const UNDER_WAY: usize = 16;

/// Interrupt by which the end of a suspension is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// DxgkDdiSuspendContext: SUSPEND_CONTEXT_COMPLETED.
    Suspend,
    /// DxgkDdiUpdateHwContextState: HWCONTEXTLIST_SWITCH_COMPLETED.
    Switch,
}

/// One suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suspension {
    /// Value to report.
    pub(crate) fence: u64,
    pub(crate) purpose: Purpose,
    /// Cookie of the commands to the queues.
    cookie: u64,
    /// Queues that did not answer yet, and one more while commands are still being sent.
    outstanding: u32,
}

/// The suspensions of a context, oldest first. Lives at device level.
pub(crate) struct Suspensions {
    entries: [Option<Suspension>; UNDER_WAY],
    next_cookie: u64,
}

impl Suspensions {
    pub(crate) const fn new() -> Self {
        Self { entries: [None; UNDER_WAY], next_cookie: 1 }
    }

    /// True if no suspension is in progress.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.iter().all(Option::is_none)
    }

    /// Starts a suspension that waits for one answer, the sender's own; `None` if too many are under way.
    pub(crate) fn begin(&mut self, fence: u64, purpose: Purpose) -> Option<u64> {
        let cookie = self.next_cookie;
        let place = self.entries.iter_mut().find(|place| place.is_none())?;
        *place = Some(Suspension { fence, purpose, cookie, outstanding: 1 });
        self.next_cookie += 1;
        Some(cookie)
    }

    /// One more queue will answer.
    pub(crate) fn expect(&mut self, cookie: u64) {
        if let Some(entry) = self.entries.iter_mut().flatten().find(|entry| entry.cookie == cookie) {
            entry.outstanding = entry.outstanding.saturating_add(1);
        }
    }

    /// A queue answered, or the sender is done. An answer to a later suspension answers earlier ones too, since the queue has
    /// stopped; those are complete with it.
    pub(crate) fn answer(&mut self, cookie: u64) {
        let Some(entry) = self.entries.iter_mut().flatten().find(|entry| entry.cookie == cookie) else { return };
        entry.outstanding = entry.outstanding.saturating_sub(1);
        if entry.outstanding == 0 {
            for earlier in self.entries.iter_mut().flatten().filter(|earlier| earlier.cookie < cookie) {
                earlier.outstanding = 0;
            }
        }
    }

    /// Takes out the oldest suspension if it is complete.
    pub(crate) fn take_complete(&mut self) -> Option<Suspension> {
        let oldest = self.entries.first().copied().flatten()?;
        if oldest.outstanding != 0 {
            return None;
        }
        shift(&mut self.entries);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(suspensions: &mut Suspensions) -> Vec<u64> {
        core::iter::from_fn(|| suspensions.take_complete()).map(|suspension| suspension.fence).collect()
    }

    #[test]
    fn a_suspension_completes_with_the_last_answer() {
        let mut suspensions = Suspensions::new();
        let cookie = suspensions.begin(10, Purpose::Suspend).unwrap();
        suspensions.expect(cookie);
        suspensions.expect(cookie);
        suspensions.answer(cookie);
        suspensions.answer(cookie);
        assert!(complete(&mut suspensions).is_empty());
        suspensions.answer(cookie);
        assert!(!suspensions.is_empty());
        assert_eq!(complete(&mut suspensions), [10]);
        assert!(suspensions.is_empty());
    }

    #[test]
    fn later_answers_complete_earlier_suspensions_in_order() {
        let mut suspensions = Suspensions::new();
        let first = suspensions.begin(10, Purpose::Suspend).unwrap();
        suspensions.expect(first);
        suspensions.answer(first);
        let second = suspensions.begin(11, Purpose::Suspend).unwrap();
        suspensions.expect(second);
        suspensions.answer(second);
        assert!(complete(&mut suspensions).is_empty(), "the second has one answer of two");
        suspensions.answer(second);
        assert_eq!(complete(&mut suspensions), [10, 11]);
        suspensions.answer(first);
        assert!(complete(&mut suspensions).is_empty());
    }

    #[test]
    fn too_many_under_way_and_unknown_answers_change_nothing() {
        let mut suspensions = Suspensions::new();
        for fence in 0..UNDER_WAY as u64 {
            assert!(suspensions.begin(fence, Purpose::Suspend).is_some());
        }
        assert_eq!(suspensions.begin(99, Purpose::Suspend), None);
        suspensions.answer(0);
        suspensions.answer(999);
        assert!(complete(&mut suspensions).is_empty());
    }
}

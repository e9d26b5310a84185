//! What came from the driver in the time before a timeout: a driver whose interrupts do not arrive, or are not reported, times out though its GPU has done the work.

use std::collections::VecDeque;
use std::time::Duration;

use crate::interrupt::Counters;
use crate::tdr_report::TdrInterrupts;

/// Counters of an adapter at the times when timeouts were looked for, the oldest first.
#[derive(Default)]
pub(super) struct Heard(VecDeque<(Duration, Counters)>);

/// Most of them: timeouts are looked for four times in TdrDelay.
const MOST: usize = 32;

impl Heard {
    /// Timeouts are looked for at `now`.
    pub(super) fn note(&mut self, now: Duration, counters: Counters) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((now, counters));
    }

    /// What has come for `time`, or since timeouts are looked for; `None` if nobody has looked before.
    pub(super) fn since(&self, now: Duration, time: Duration, counters: &Counters) -> Option<TdrInterrupts> {
        let long_ago = self.0.iter().rev().find(|(at, _)| *at + time <= now);
        let (at, before) = long_ago.or(self.0.front())?;
        let reports = |counters: &Counters| counters.notifications.iter().sum::<u64>();
        Some(TdrInterrupts {
            time: now.saturating_sub(*at),
            calls: counters.interrupts.saturating_sub(before.interrupts),
            unclaimed: counters.unclaimed_interrupts.saturating_sub(before.unclaimed_interrupts),
            dpcs: counters.dpcs.saturating_sub(before.dpcs),
            reports: reports(counters).saturating_sub(reports(before)),
            dpc_notifications: counters.dpc_notifications.saturating_sub(before.dpc_notifications),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_come_is_counted_from_the_newest_look_that_is_long_enough_ago() {
        let at = |interrupts| Counters { interrupts, dpcs: interrupts / 2, ..Counters::default() };
        let second = Duration::from_secs(1);
        let mut heard = Heard::default();
        assert_eq!(heard.since(second, second, &at(9)), None);
        (1..=40).for_each(|time| heard.note(time * second, at(u64::from(time) * 10)));
        let since = |time: u32| heard.since(41 * second, time * second, &at(500)).unwrap();
        let found = since(4);
        assert_eq!((found.time, found.calls, found.dpcs), (4 * second, 500 - 370, 250 - 185));
        assert_eq!(since(1000).time, 32 * second, "no more are kept");
    }
}

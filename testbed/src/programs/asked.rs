//! What a program has been asked to do, and how long its answers are waited for.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::{Duration, Instant};

use nt::page::PAGE_SIZE;

use super::event::{End, Fault};
use super::limits::ANSWER_LIMIT;
use super::threads;

/// End of the addresses that a program of the host can have.
const USER_END: usize = 1 << 47;

/// Operations that were asked for and are not answered.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) next: u64,
    /// By number; `None` until the answer is there.
    pub(super) answers: HashMap<u64, Option<Result<u64, i32>>>,
    pub(super) gone: bool,
    pub(super) fault: Option<Fault>,
    /// The outcome of killing it, once `fault` is set.
    pub(super) end: End,
    /// Addresses that the program has taken for the machine, each by its first one.
    pub(super) reserved: BTreeMap<usize, usize>,
    /// The time that is left for all answers together, while everybody waits for them, and by how many that was asked for.
    pub(super) joint: Option<(Duration, u32)>,
    /// Answers with a time limit that are waited for.
    pub(super) waited: usize,
    /// Time in which the thread that hears the program has looked for answers: what limits of answers are counted in.
    pub(super) heard: Duration,
    /// How often that thread has looked, and when it did so last.
    pub(super) looks: u64,
    looked: Option<Instant>,
    /// The number of that thread.
    pub(super) hears: i32,
    /// Value of `heard` since which answers are waited for, all the time, and what of that the joint limit has not been charged for.
    since: Duration,
}

impl Asked {
    /// Notes addresses that the program says it has taken. False if there can be no such pages, or some of them are taken already.
    pub(super) fn take(&mut self, start: usize, len: usize) -> bool {
        let end = start.checked_add(len).filter(|end| self.is_free(&(start..*end)));
        end.is_some_and(|end| self.reserved.insert(start, end).is_none())
    }

    /// The thread that hears the program looks for answers. Of the time since it did so last, `most` is counted: what is longer the host has had that thread wait.
    pub(super) fn look(&mut self, now: Instant, most: Duration) {
        let since = self.looked.replace(now).map_or(Duration::ZERO, |looked| now.saturating_duration_since(looked));
        self.heard += since.min(most);
        self.looks += 1;
        self.hears = threads::this();
    }

    /// An answer that has `limit` alone is waited for from now on. The result is when it is late.
    pub(super) fn begin(&mut self, limit: Duration) -> Duration {
        self.spend();
        self.waited += 1;
        self.heard + self.joint.map_or(limit, |(left, _)| left.min(limit))
    }

    /// One such answer is waited for no more.
    pub(super) fn end(&mut self) {
        self.spend();
        self.waited = self.waited.saturating_sub(1);
    }

    /// Charges the joint limit, if there is one, for the time in which answers were waited for: once, however many they were.
    fn spend(&mut self) {
        let since = std::mem::replace(&mut self.since, self.heard);
        if let Some((left, _)) = self.joint.as_mut().filter(|_| self.waited > 0) {
            *left = left.saturating_sub(self.heard.saturating_sub(since));
        }
    }

    pub(super) fn begin_joint_limit(&mut self) {
        self.spend();
        self.joint.get_or_insert((ANSWER_LIMIT, 0)).1 += 1;
    }

    /// True if there can be such pages, and the program has taken none of them for the machine.
    pub(super) fn is_free(&self, Range { start, end }: &Range<usize>) -> bool {
        let before = self.reserved.range(..end).next_back().is_none_or(|(_, taken)| taken <= start);
        *start != 0 && start < end && *end <= USER_END && start.is_multiple_of(PAGE_SIZE as usize) && before
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::LOOK;
    use super::*;

    #[test]
    fn answers_that_are_waited_for_beside_each_other_are_charged_once_to_the_joint_limit() {
        let seconds = Duration::from_secs;
        let mut asked = Asked::default();
        assert_eq!(asked.begin(ANSWER_LIMIT), ANSWER_LIMIT);
        asked.heard = seconds(10);
        asked.begin_joint_limit();
        asked.heard = seconds(11);
        assert_eq!(asked.begin(ANSWER_LIMIT), seconds(11 + 4), "the first is waited for still");
        asked.heard = seconds(12);
        asked.end();
        asked.heard = seconds(13);
        asked.end();
        asked.heard = seconds(60);
        assert_eq!(asked.begin(ANSWER_LIMIT), seconds(60 + 2), "nobody waited meanwhile");
        asked.heard = seconds(61);
        asked.end();
        assert_eq!(asked.joint, Some((seconds(1), 1)));
    }

    #[test]
    fn a_limit_counts_what_the_machine_has_looked_for_and_not_how_long_it_has_waited_for_a_processor() {
        let (begun, mut asked) = (Instant::now(), Asked::default());
        let mut look = |milliseconds, most| {
            asked.look(begun + Duration::from_millis(milliseconds), most);
            asked.heard.as_millis()
        };
        assert_eq!(look(1_000, LOOK), 0, "nothing is known of the time before the first look");
        assert_eq!(look(1_030, LOOK), 30);
        assert_eq!(look(25_000, LOOK), 30 + LOOK.as_millis(), "it could not look");
        assert_eq!(look(25_050, LOOK), 30 + 2 * LOOK.as_millis());
        // A program that always has something to say is late all the same.
        assert_eq!(look(25_051, Duration::from_millis(1)), 31 + 2 * LOOK.as_millis());
        assert_eq!(look(26_000, Duration::from_millis(1)), 32 + 2 * LOOK.as_millis());
    }

    #[test]
    fn addresses_that_a_program_cannot_have_taken_are_refused() {
        let mut asked = Asked::default();
        let (page, end) = (PAGE_SIZE as usize, USER_END);
        assert!(asked.take(16 * page, 4 * page) && asked.take(20 * page, page) && asked.take(end - page, page));
        let first = 16 * page;
        for (start, len) in [
            (0, page),
            (first + 1, page),
            (first, page),
            (first - page, 2 * page),
            (first + 3 * page, page),
            (first - page, 16 * page),
            (end, page),
            (end - page, 2 * page),
            (usize::MAX - page + 1, page),
            (usize::MAX - 2047, page),
            (page, 0),
        ] {
            assert!(!asked.take(start, len), "{start:#x} {len:#x}");
        }
        assert!(asked.take(first - page, page) && asked.take(first + 5 * page, page));
    }
}

//! Reading one fence log: what is new since the last time, what was overrun, and whether time went back.
//!
//! The log lies in memory that the queue's process can write with its GPU, so nothing in it is believed: a position that
//! no log has, or time that goes back, is counted and leaves the reader intact. [native-gpu-fence-objects: log buffer
//! mechanism, overrun, timestamps]

use std::collections::VecDeque;

/// What an entry tells. [d3dukmdt: DXGK_NATIVE_FENCE_LOG_OPERATION]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceOperation {
    /// A signal was executed on the GPU.
    SignalExecuted,
    /// A wait on the GPU was satisfied.
    WaitUnblocked,
}

/// One signal or wait that the GPU logged. [d3dukmdt: DXGK_NATIVE_FENCE_LOG_ENTRY]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceLogEntry {
    /// Operation of the entry: signal or wait.
    pub operation: FenceOperation,
    /// Handle of the fence in its process, as the user-mode driver gave it.
    pub fence: u32,
    /// Value signalled or waited for.
    pub value: u64,
    /// GPU clock when a wait began to block its queue; 0 for one that did not, and for signals.
    pub observed: u64,
    /// GPU clock when the operation was done; 0 if the GPU does not say.
    pub end: u64,
}

/// Entries that were read of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FenceLog {
    /// Entries in the order in which they were written.
    pub entries: Vec<FenceLogEntry>,
    /// Entries that were overwritten before they were read, or that nobody fetched in time. Above 0, events are lost.
    pub lost: u64,
    /// Broken rules: time that went back, positions and operations that do not exist.
    pub violations: u64,
}

/// A log in memory.
pub(crate) trait Source {
    /// FirstFreeEntryIndex in the low half, WraparoundCount in the high one, read at once.
    fn position(&self) -> u64;
    /// The words of the entry at `index`, which the buffer has.
    fn entry(&self, index: u32) -> [u64; 6];
}

/// Counts of one reading of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Entries read.
    pub(crate) read: u64,
    /// Entries were overwritten unseen: what happened can only be seen at the fences themselves.
    pub(crate) overrun: bool,
    /// Time went back, or the log holds what cannot be.
    pub(crate) violations: u64,
}

/// How far one log was read, and what of it nobody fetched yet.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    operation: FenceOperation,
    entries: u32,
    /// Position up to which everything is read or lost.
    position: u64,
    /// Greatest FenceEnd so far.
    last: u64,
    keep: usize,
    kept: VecDeque<FenceLogEntry>,
    lost: u64,
    violations: u64,
}

/// Entries from one position to a later one of a log of `entries`; `None` if that cannot be.
fn distance(from: u64, to: u64, entries: u32) -> Option<u64> {
    let (index, before) = (to & u64::from(u32::MAX), from & u64::from(u32::MAX));
    if index >= u64::from(entries) || before >= u64::from(entries) {
        return None;
    }
    let wraps = ((to >> 32) as u32).wrapping_sub((from >> 32) as u32);
    if wraps > u32::MAX / 2 {
        return None;
    }
    (u64::from(wraps) * u64::from(entries) + index).checked_sub(before)
}

impl Reader {
    /// A reader of an empty log of `entries`, at least 1, that keeps up to `keep` entries for whoever fetches them.
    pub(crate) fn new(operation: FenceOperation, entries: u32, keep: usize) -> Self {
        Self { operation, entries, position: 0, last: 0, keep, kept: VecDeque::new(), lost: 0, violations: 0 }
    }

    /// The log is replaced by an empty one. What was read is kept, and time still may not go back.
    pub(crate) fn restart(&mut self, entries: u32, keep: usize) {
        (self.entries, self.position, self.keep) = (entries, 0, keep);
    }

    /// The position, if there is something new; this is what entries are read up to, after the driver's barrier.
    pub(crate) fn peek(&self, source: &impl Source) -> Option<u64> {
        let position = source.position();
        (position != self.position).then_some(position)
    }

    /// Reads up to `position`, which [`Reader::peek`] found before the barrier, and shows each entry to `see`.
    pub(crate) fn read(&mut self, source: &impl Source, position: u64, mut see: impl FnMut(&FenceLogEntry)) -> Outcome {
        let entries = u64::from(self.entries);
        let Some(new) = distance(self.position, position, self.entries) else {
            // Not ours to know how many: at least one, and whatever was signalled is seen at the fences.
            self.violations += 1;
            self.lost += 1;
            if position & u64::from(u32::MAX) < entries {
                self.position = position;
            }
            return Outcome { read: 0, overrun: true, violations: 1 };
        };
        let first = new.saturating_sub(entries);
        let start = self.position & u64::from(u32::MAX);
        let read: Vec<[u64; 6]> =
            (first..new).map(|number| source.entry(((start + number) % entries) as u32)).collect();
        // Whatever the GPU wrote to meanwhile is not what it was: all that was overrun, and the one after, which is perhaps
        // half written. So a log keeps one entry less than it has.
        let now = distance(self.position, source.position(), self.entries).filter(|now| *now >= new).unwrap_or(new);
        let safe = (now + 1).saturating_sub(entries).min(new);
        let mut outcome = Outcome { read: new - safe, overrun: safe > 0, violations: 0 };
        self.lost += safe;
        self.position = position;
        for words in read.iter().skip(safe.saturating_sub(first) as usize) {
            outcome.violations += self.take(words, &mut see);
        }
        self.violations += outcome.violations;
        outcome
    }

    /// The entry that was written at position `from`, whatever was read. `None` if there is none yet, or it is overwritten or cannot be.
    pub(crate) fn entry_behind(&self, source: &impl Source, from: u64) -> Option<FenceLogEntry> {
        let is_there = || distance(from, source.position(), self.entries).filter(|new| *new < u64::from(self.entries));
        is_there().filter(|new| *new != 0)?;
        let words = source.entry(from as u32);
        is_there()?;
        self.decode(&words)
    }

    /// The entry in these words; `None` if they are no operation of this log.
    fn decode(&self, words: &[u64; 6]) -> Option<FenceLogEntry> {
        let &[value, handle_and_operation, _, observed, _, end] = words;
        let operation = match handle_and_operation >> 32 {
            0 => FenceOperation::SignalExecuted,
            1 => FenceOperation::WaitUnblocked,
            _ => return None,
        };
        let entry = FenceLogEntry { operation, fence: handle_and_operation as u32, value, observed, end };
        (operation == self.operation).then_some(entry)
    }

    fn take(&mut self, words: &[u64; 6], see: &mut impl FnMut(&FenceLogEntry)) -> u64 {
        let Some(entry) = self.decode(words) else { return 1 };
        let FenceLogEntry { observed, end, .. } = entry;
        let back = end != 0 && (end < self.last || observed > end);
        self.last = self.last.max(end);
        if self.kept.len() >= self.keep {
            self.kept.pop_front();
            self.lost += 1;
        }
        see(&entry);
        self.kept.push_back(entry);
        u64::from(back)
    }

    /// The entries that were read since the last call.
    pub(crate) fn fetch(&mut self) -> FenceLog {
        FenceLog {
            entries: std::mem::take(&mut self.kept).into(),
            lost: std::mem::take(&mut self.lost),
            violations: std::mem::take(&mut self.violations),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    /// A log as the GPU writes it.
    struct Log {
        entries: RefCell<Vec<[u64; 6]>>,
        position: Cell<u64>,
        clock: Cell<u64>,
        /// Entries written while the reader reads one.
        meanwhile: Cell<u32>,
    }

    impl Log {
        fn new(entries: usize) -> Self {
            let entries = RefCell::new(vec![[0; 6]; entries]);
            Self { entries, position: Cell::new(0), clock: Cell::new(100), meanwhile: Cell::new(0) }
        }

        fn write(&self, value: u64, end: u64) {
            let mut entries = self.entries.borrow_mut();
            let index = self.position.get() as u32 as usize;
            entries[index] = [value, 0x40, 0, 0, 0, end];
            let wrapped = index + 1 == entries.len();
            let wraps = (self.position.get() >> 32) as u32;
            self.position.set(if wrapped { u64::from(wraps.wrapping_add(1)) << 32 } else { self.position.get() + 1 });
        }

        fn signal(&self, value: u64) {
            self.clock.set(self.clock.get() + 1);
            self.write(value, self.clock.get());
        }
    }

    impl Source for Log {
        fn position(&self) -> u64 {
            self.position.get()
        }

        fn entry(&self, index: u32) -> [u64; 6] {
            let words = self.entries.borrow()[index as usize];
            for _ in 0..self.meanwhile.take() {
                self.signal(1000);
            }
            words
        }
    }

    fn reader(entries: u32) -> Reader {
        Reader::new(FenceOperation::SignalExecuted, entries, 1000)
    }

    fn read(reader: &mut Reader, log: &Log) -> Outcome {
        reader.peek(log).map_or(Outcome::default(), |position| reader.read(log, position, |_| {}))
    }

    fn values(reader: &mut Reader) -> Vec<u64> {
        reader.fetch().entries.iter().map(|entry| entry.value).collect()
    }

    #[test]
    fn every_entry_is_read_once_however_the_log_wraps() {
        let (log, mut reader) = (Log::new(5), reader(5));
        let mut next = 1;
        for batch in [0, 1, 3, 4, 2, 4, 4, 1] {
            let expected: Vec<u64> = (next..next + batch).collect();
            expected.iter().for_each(|value| log.signal(*value));
            next += batch;
            assert_eq!(read(&mut reader, &log), Outcome { read: batch, overrun: false, violations: 0 });
            assert_eq!(values(&mut reader), expected);
        }
        assert!(reader.peek(&log).is_none());
    }

    #[test]
    fn an_overrun_is_noticed_by_its_wraps_and_the_rest_is_read() {
        for written in [5, 6, 9, 10, 11, 500] {
            let (log, mut reader) = (Log::new(5), reader(5));
            (1..=written).for_each(|value| log.signal(value));
            let outcome = read(&mut reader, &log);
            assert!(outcome.overrun, "{written} entries in a log of 5");
            let found = reader.fetch();
            assert_eq!(found.lost + found.entries.len() as u64, written);
            assert_eq!(found.entries.last().map(|entry| entry.value), Some(written));
            log.signal(7000);
            assert_eq!(read(&mut reader, &log), Outcome { read: 1, overrun: false, violations: 0 });
        }
    }

    #[test]
    fn what_is_overwritten_while_it_is_read_does_not_count() {
        for meanwhile in 1..12 {
            let (log, mut reader) = (Log::new(5), reader(5));
            (1..=4).for_each(|value| log.signal(value));
            log.meanwhile.set(meanwhile);
            let outcome = read(&mut reader, &log);
            // Entry n is gone, or may be half written, once 5 more than n are.
            let gone = u64::from(meanwhile).min(4);
            assert_eq!((outcome.read, outcome.overrun), (4 - gone, gone > 0), "{meanwhile} meanwhile");
            assert_eq!(values(&mut reader), (gone + 1..=4).collect::<Vec<_>>());
        }
    }

    #[test]
    fn empty_and_repeated_timestamps_are_accepted_and_one_that_goes_back_is_reported() {
        let (log, mut reader) = (Log::new(9), reader(9));
        [50, 50, 0, 0, 50, 51].iter().for_each(|end| log.write(1, *end));
        assert_eq!(read(&mut reader, &log).violations, 0);
        log.write(2, 49);
        assert_eq!(read(&mut reader, &log).violations, 1);
        log.write(3, 51);
        assert_eq!(read(&mut reader, &log).violations, 0);
        let found = reader.fetch();
        assert_eq!((found.entries.len(), found.lost, found.violations), (8, 0, 1));
    }

    #[test]
    fn the_entry_behind_a_position_is_found_until_it_may_be_overwritten() {
        let (log, mut reader) = (Log::new(5), reader(5));
        (1..=4).for_each(|value| log.signal(value));
        let from = log.position.get();
        let behind = |reader: &Reader| reader.entry_behind(&log, from).map(|entry| entry.value);
        assert_eq!(behind(&reader), None, "nothing was written behind it");
        for value in 5..=8 {
            log.signal(value);
            assert_eq!(behind(&reader), Some(5), "{value} entries");
        }
        read(&mut reader, &log);
        assert_eq!(behind(&reader), Some(5), "what was read does not matter");
        log.meanwhile.set(1);
        assert_eq!(behind(&reader), None, "it may be half written when it is read");
        log.signal(9);
        assert_eq!(behind(&reader), None, "it is overwritten");
        assert_eq!(reader.entry_behind(&log, 5), None, "no position of the log");
        log.position.set(0);
        assert_eq!(behind(&reader), None, "a log that began anew");
    }

    #[test]
    fn wraps_are_counted_modulo_two_to_the_32() {
        let (log, mut reader) = (Log::new(3), reader(3));
        let start = u64::from(u32::MAX) << 32 | 2;
        log.position.set(start);
        reader.position = start;
        (1..=2).for_each(|value| log.signal(value));
        assert_eq!(read(&mut reader, &log), Outcome { read: 2, overrun: false, violations: 0 });
        assert_eq!(values(&mut reader), [1, 2]);
    }

    #[test]
    fn a_hostile_log_is_an_overrun_and_never_more() {
        let (log, mut reader) = (Log::new(4), reader(4));
        for bits in [4, u64::from(u32::MAX), u64::MAX, 1 << 63 | 2, 1 << 63 | 1 << 62] {
            log.position.set(bits);
            let outcome = read(&mut reader, &log);
            assert!(outcome.overrun && outcome.read <= 4, "{bits:#x}: {outcome:?}");
        }
        reader.restart(4, 10);
        log.position.set(0);
        log.entries.borrow_mut()[0] = [1, 7 << 32, 0, 0, 0, 5];
        log.position.set(1);
        assert_eq!(read(&mut reader, &log).violations, 1, "an operation that does not exist");
        assert!(reader.fetch().lost > 0);
    }

    #[test]
    fn entries_that_nobody_fetches_are_dropped_and_counted() {
        let (log, mut reader) = (Log::new(4), Reader::new(FenceOperation::SignalExecuted, 4, 2));
        for value in 1..=3 {
            log.signal(value);
            read(&mut reader, &log);
        }
        let found = reader.fetch();
        assert_eq!((found.lost, found.entries.len()), (1, 2));
        assert_eq!(reader.fetch(), FenceLog::default());
    }
}

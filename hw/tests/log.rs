//! Positions in fence logs, and the order in which a signal writes.

use std::cell::{Cell, RefCell};

use campanile_hw::fence::{Barrier, FenceWord, SignaledWord, signal_and_log};
use campanile_hw::log::{
    LOG_ENTRIES_MAX, LogEntry, LogHeader, LogPosition, LogWriter, append, bytes_of, entries_in, entry_offset,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_position_counts_every_entry_however_often_it_wraps(
        entries in 1u32..100, index in any::<u32>(), wraps in any::<u32>(), steps in 0u64..1000
    ) {
        let start = LogPosition::new().with_index(index % entries).with_wraps(wraps);
        let mut position = start;
        for step in 0..steps {
            prop_assert_eq!(position.since(start, entries), Some(step));
            position = position.next(entries);
            prop_assert!(position.index() < entries);
            prop_assert_eq!(start.since(position, entries), None, "behind");
        }
    }

    #[test]
    fn hostile_positions_are_refused(bits in any::<u64>(), earlier in any::<u64>(), entries in 1u32..=LOG_ENTRIES_MAX) {
        let (position, earlier) = (LogPosition::from_bits(bits), LogPosition::from_bits(earlier));
        if let Some(count) = position.since(earlier, entries) {
            prop_assert!(position.index() < entries && earlier.index() < entries);
            prop_assert!(count <= u64::from(u32::MAX) * u64::from(entries));
        }
    }
}

#[test]
fn as_many_entries_as_fit() {
    assert_eq!((LogHeader::SIZE, LogEntry::SIZE), (40, 48));
    assert_eq!((entries_in(0), entries_in(40), entries_in(88), entries_in(4096), entries_in(8192)), (0, 0, 1, 84, 169));
    assert_eq!(entries_in(u64::MAX), LOG_ENTRIES_MAX);
    assert!((1..1000).all(|entries| entries_in(bytes_of(entries)) == entries));
}

/// Memory as the processor sees it: what the device wrote becomes visible step by step.
#[derive(Default)]
struct Memory {
    steps: RefCell<Vec<&'static str>>,
    monitored: Cell<u64>,
}

struct Word<'a>(&'a Memory, &'static str);

impl FenceWord for Word<'_> {
    fn load(&self) -> u64 {
        self.0.steps.borrow_mut().push("compare");
        self.0.monitored.get()
    }

    fn store(&self, _: u64) {
        self.0.steps.borrow_mut().push(self.1);
    }
}

impl SignaledWord for Word<'_> {
    fn signal(&self, value: u64) -> u64 {
        self.store(value);
        value
    }
}

impl Barrier for Memory {
    fn full(&self) {
        self.steps.borrow_mut().push("barrier");
    }
}

/// Stores are in order, and the comparison comes after the barrier: in whatever state a reader is interrupted, entry and
/// position are there.
#[test]
fn whoever_is_interrupted_sees_the_entry() {
    for (monitored, interrupts) in [(0, true), (u64::MAX, false)] {
        let memory = Memory { monitored: Cell::new(monitored), ..Memory::default() };
        let log = || memory.steps.borrow_mut().extend(["entry", "position"]);
        let told = signal_and_log(&Word(&memory, "value"), &Word(&memory, "monitored"), &memory, 1, log);
        assert_eq!(told.announce, interrupts);
        assert_eq!(*memory.steps.borrow(), ["value", "entry", "position", "barrier", "compare"]);
    }
}

/// The writes, in order.
#[derive(Default)]
struct Written(Vec<(&'static str, u32, u64)>);

impl LogWriter for Written {
    fn entry(&mut self, index: u32, entry: &LogEntry) {
        self.0.push(("entry", index, entry.value));
    }

    fn position(&mut self, position: LogPosition) {
        self.0.push(("position", position.index(), position.wraps().into()));
    }
}

#[test]
fn an_entry_is_written_at_the_position_and_then_the_position_behind_it() {
    let entry = |value| LogEntry { value, handle: 1, operation: 0, observed: 0, end: 7 };
    let (mut written, mut position) = (Written::default(), LogPosition::new());
    for value in 10..13 {
        position = append(&mut written, position, 2, &entry(value));
    }
    let expected = [
        ("entry", 0, 10),
        ("position", 1, 0),
        ("entry", 1, 11),
        ("position", 0, 1),
        ("entry", 0, 12),
        ("position", 1, 1),
    ];
    assert_eq!(written.0, expected);
    assert_eq!(position, LogPosition::new().with_index(1).with_wraps(1));
}

#[test]
fn positions_of_no_log_and_half_of_all_wraps_ahead_have_no_distance() {
    let at = |index, wraps| LogPosition::new().with_index(index).with_wraps(wraps);
    for (what, position, earlier, distance) in [
        ("the same position", at(3, 9), at(3, 9), Some(0)),
        ("a whole round", at(3, 10), at(3, 9), Some(4)),
        ("the last index of a round, and the first of the next", at(0, 10), at(3, 9), Some(1)),
        ("an index that the log does not have", at(4, 9), at(3, 9), None),
        ("an earlier index that the log does not have", at(3, 10), at(4, 9), None),
        ("one behind", at(2, 9), at(3, 9), None),
        ("a round behind", at(3, 8), at(3, 9), None),
        ("as far ahead as can be told", at(0, i32::MAX as u32), at(0, 0), Some(4 * i32::MAX as u64)),
        ("one round more", at(0, 1 << 31), at(0, 0), None),
        ("a wrap of the wraps", at(0, 1), at(0, u32::MAX), Some(8)),
    ] {
        assert_eq!(position.since(earlier, 4), distance, "{what}");
    }
}

#[test]
fn entries_lie_behind_the_header_one_behind_the_other() {
    for (index, offset) in [(0, 40), (1, 88), (84, 4072), (LOG_ENTRIES_MAX, 50_331_688)] {
        assert_eq!((entry_offset(index), bytes_of(index)), (offset, offset));
    }
}

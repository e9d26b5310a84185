//! A queue that signals a fence and logs it, and the operating system that is interrupted and reads the log.
//!
//! Writer and reader are production code: `signal_and_log` and `append` of campanile-hw, the reader of dxgkrnl. A CPU waits all the
//! time, so every signal interrupts. An interrupt takes another way than memory does, and orders nothing: it is a relaxed store.

use super::fence_log_reader::{FenceLogEntry, FenceOperation, Reader, Source};
use super::race::Word;
use super::sync::{AtomicU64, Mutex, lock};
use crate::{Fault, left_out};
use campanile_hw::fence::{self, Barrier, FenceWord, SignaledWord};
use campanile_hw::log::{LogEntry, LogPosition, LogWriter, append};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Entries that a reader keeps.
const KEEP: usize = 100;
/// GPU time of the signal of a value.
const TIME: u64 = 10;

/// The words of an entry that differ: value and end.
type Words = [AtomicU64; 2];

/// Fence, log, and what interrupted.
pub(crate) struct Log {
    current: AtomicU64,
    /// A CPU waits for 1, and never gets so far as to wait for more.
    monitored: AtomicU64,
    position: AtomicU64,
    entries: Vec<Words>,
    /// Entries that are written when somebody asks for it.
    held: Option<Mutex<Vec<(u32, u64, u64)>>>,
    /// The value of the last signal that interrupted.
    raised: AtomicU64,
}

/// CurrentValue, which is written at once, or, if that is the fault, at the barrier.
struct Current<'a> {
    word: Word<'a>,
    late: Cell<Option<u64>>,
}

impl SignaledWord for Current<'_> {
    fn signal(&self, value: u64) -> u64 {
        match left_out(Fault::LogValueFirst) {
            true => {
                self.late.set(Some(value));
                value
            }
            false => self.word.signal(value),
        }
    }
}

impl Barrier for Current<'_> {
    fn full(&self) {
        if let Some(value) = self.late.take() {
            self.word.store(value);
        }
        if !left_out(Fault::LogBarrier) {
            super::sync::fence(Ordering::SeqCst);
        }
    }
}

/// The engine's place in the log.
#[derive(Default)]
pub(crate) struct Engine {
    position: LogPosition,
}

/// The engine's way to the log.
struct Writer<'a> {
    log: &'a Log,
    /// An entry that comes after its position, if that is the fault.
    late: Option<(u32, u64, u64)>,
}

impl LogWriter for Writer<'_> {
    fn entry(&mut self, index: u32, entry: &LogEntry) {
        let entry = (index, entry.value, entry.end);
        match &self.log.held {
            _ if left_out(Fault::LogIndexLast) => self.late = Some(entry),
            Some(held) => lock(held).push(entry),
            None => self.log.write(entry),
        }
    }

    fn position(&mut self, position: LogPosition) {
        self.log.position.store(position.into_bits(), Ordering::Release);
        if let Some(entry) = self.late.take() {
            self.log.write(entry);
        }
    }
}

impl Log {
    /// An empty log of `entries`.
    pub(crate) fn new(entries: usize, delayed: bool) -> Self {
        Self {
            current: AtomicU64::new(0),
            monitored: AtomicU64::new(0),
            position: AtomicU64::new(0),
            entries: (0..entries).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect(),
            held: delayed.then(|| Mutex::new(Vec::new())),
            raised: AtomicU64::new(0),
        }
    }

    fn write(&self, (index, value, end): (u32, u64, u64)) {
        if let Some([value_word, end_word]) = self.entries.get(index as usize) {
            value_word.store(value, Ordering::Release);
            end_word.store(end, Ordering::Release);
        }
    }

    /// The engine runs SIGNAL packets with the values from 1 to `last`.
    pub(crate) fn signal(&self, engine: &mut Engine, last: u64) {
        for value in 1..=last {
            let current = Current { word: Word(&self.current), late: Cell::new(None) };
            let append = || {
                let entry = LogEntry { value, handle: 1, operation: 0, observed: 0, end: value * TIME };
                let mut writer = Writer { log: self, late: None };
                engine.position = append(&mut writer, engine.position, self.entries.len() as u32, &entry);
            };
            if left_out(Fault::LogInterruptLast) {
                self.raised.store(value, Ordering::Relaxed);
            }
            if fence::signal_and_log(&current, &Word(&self.monitored), &current, value, append).announce {
                self.raised.store(value, Ordering::Relaxed);
            }
        }
    }

    /// DxgkDdiUpdateNativeFenceLogs.
    fn flush(&self) {
        super::sync::fence(Ordering::SeqCst);
        if let Some(held) = &self.held
            && !left_out(Fault::LogFlush)
        {
            let mut held = lock(held);
            for entry in held.drain(..) {
                self.write(entry);
            }
        }
    }
}

impl Source for Log {
    fn position(&self) -> u64 {
        super::sync::fence(Ordering::SeqCst);
        self.position.load(Ordering::SeqCst)
    }

    fn entry(&self, index: u32) -> [u64; 6] {
        let words = self.entries.get(index as usize).expect("the reader stays inside the log");
        let [value, end] = words.each_ref().map(|word| word.load(Ordering::Acquire));
        [value, 1, 0, 0, 0, end]
    }
}

/// The operating system.
pub(crate) struct System {
    log: Arc<Log>,
    reader: Reader,
    found: Vec<FenceLogEntry>,
    lost: u64,
}

impl System {
    pub(crate) fn new(log: &Arc<Log>) -> Self {
        let reader = Reader::new(FenceOperation::SignalExecuted, log.entries.len() as u32, KEEP);
        Self { log: Arc::clone(log), reader, found: Vec::new(), lost: 0 }
    }

    /// Reads what is new. No entry is torn, none comes twice or out of order, and what it says has happened.
    pub(crate) fn read(&mut self) {
        let Some(position) = self.reader.peek(&*self.log) else { return };
        self.log.flush();
        self.reader.read(&*self.log, position, |_| {});
        let read = self.reader.fetch();
        assert_eq!(read.violations, 0, "a counted entry is not there: {read:?}");
        self.lost += read.lost;
        for entry in read.entries {
            assert_eq!(entry.end, entry.value * TIME, "a counted entry is not there or torn: {entry:?}");
            assert_eq!(entry.value, self.found.len() as u64 + self.lost + 1, "a counted entry is not there: {entry:?}");
            let current = Word(&self.log.current).load();
            assert!(current >= entry.value, "the entry for {} is there and the value is {current}", entry.value);
            self.found.push(entry);
        }
    }

    /// Whoever was interrupted for a value finds its entry, unless it was overrun.
    pub(crate) fn look(&mut self) {
        let value = self.log.raised.load(Ordering::Relaxed);
        if value != 0 {
            self.read();
            let seen = self.found.len() as u64 + self.lost;
            assert!(seen >= value, "interrupted for {value}, and the log ends at {seen}");
        }
    }

    /// The engine has signalled everything: each signal was read or counted as lost.
    pub(crate) fn check(&mut self, signals: u64) {
        self.look();
        self.read();
        assert_eq!(self.log.raised.load(Ordering::Relaxed), signals, "an interrupt is missing");
        assert_eq!(self.found.len() as u64 + self.lost, signals, "read and lost entries");
    }
}

//! One entry of a ring.
//!
//! The sequence word of an entry is 0 while it was never written, odd while a writer has it, and `2 * (number + 1)` once event `number` is
//! complete. No writer waits: one that finds the entry in use by another writer, which is a whole round behind, gives its event up. So an
//! entry is never a mixture of two events, and one with an odd sequence, or another than its place and the write index call for, is not
//! read.

use core::sync::atomic::Ordering;

use super::sync::{AtomicU64, fence};

/// Arguments of an entry.
pub const ARGUMENTS: usize = 3;

/// An event in a ring. 48 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct TraceEntry {
    /// See above.
    pub sequence: AtomicU64,
    /// Performance counter of the processor.
    pub time: AtomicU64,
    /// Bits 15:0 the number of the event, 23:16 the interrupt request level, 63:32 the processor.
    pub about: AtomicU64,
    /// The event's fields as a C structure: each at a multiple of its size.
    pub arguments: [AtomicU64; ARGUMENTS],
}

/// Time, IRQL and processor of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Performance counter of the processor.
    pub time: u64,
    /// Interrupt request level.
    pub irql: u8,
    /// Number of the processor.
    pub processor: u32,
}

/// An entry that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Number of the event in its ring, from 0.
    pub number: u64,
    /// Time, IRQL and processor of the event.
    pub moment: Moment,
    /// Number of the event's kind.
    pub event: u16,
    /// Fields of the event, one after the other in the order of [`EventInfo::fields`](super::event::EventInfo).
    pub arguments: [u64; ARGUMENTS],
}

impl TraceEntry {
    /// Bytes of an entry.
    pub const SIZE: usize = 48;
    /// 64-bit words of an entry.
    pub const WORDS: usize = Self::SIZE / 8;

    fn claim(&self, number: u64) -> bool {
        let found = self.sequence.load(Ordering::Relaxed);
        let complete = sequence_of(number);
        // Odd: another writer has it. Greater: another writer was a round ahead and is done.
        found & 1 == 0
            && found < complete
            && self.sequence.compare_exchange(found, complete - 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Writes event `number`; false if another writer has the entry.
    pub fn write(&self, number: u64, moment: Moment, event: u16, arguments: [u64; ARGUMENTS]) -> bool {
        if !self.claim(number) {
            return false;
        }
        // A reader that sees a word of the new event also sees that the old sequence is no longer valid.
        fence(Ordering::Release);
        self.time.store(moment.time, Ordering::Relaxed);
        let about = u64::from(event) | u64::from(moment.irql) << 16 | u64::from(moment.processor) << 32;
        self.about.store(about, Ordering::Relaxed);
        for (place, argument) in self.arguments.iter().zip(arguments) {
            place.store(argument, Ordering::Relaxed);
        }
        self.sequence.store(sequence_of(number), Ordering::Release);
        true
    }

    /// The event, unless there is none or it is being written.
    pub fn read(&self) -> Option<Read> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let number = number_of(sequence)?;
        let time = self.time.load(Ordering::Relaxed);
        let about = self.about.load(Ordering::Relaxed);
        let arguments = self.arguments.each_ref().map(|place| place.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (self.sequence.load(Ordering::Relaxed) == sequence).then(|| decode(number, time, about, arguments))
    }
}

/// Sequence word of a complete event.
pub const fn sequence_of(number: u64) -> u64 {
    2 * (number + 1)
}

/// Number of the event whose sequence word this is; `None` if the entry is empty or incomplete.
pub const fn number_of(sequence: u64) -> Option<u64> {
    if sequence == 0 || sequence & 1 != 0 { None } else { Some(sequence / 2 - 1) }
}

fn decode(number: u64, time: u64, about: u64, arguments: [u64; ARGUMENTS]) -> Read {
    let moment = Moment { time, irql: (about >> 16) as u8, processor: (about >> 32) as u32 };
    Read { number, moment, event: about as u16, arguments }
}

/// An entry as its words in a dump, `None` if it is empty or incomplete.
pub fn from_words(words: &[u64; TraceEntry::WORDS]) -> Option<Read> {
    let [sequence, time, about, arguments @ ..] = *words;
    Some(decode(number_of(sequence)?, time, about, arguments))
}

/// An entry as its words in a dump.
pub fn to_words(read: &Read) -> [u64; TraceEntry::WORDS] {
    let Moment { time, irql, processor } = read.moment;
    let about = u64::from(read.event) | u64::from(irql) << 16 | u64::from(processor) << 32;
    let [a, b, c] = read.arguments;
    [sequence_of(read.number), time, about, a, b, c]
}

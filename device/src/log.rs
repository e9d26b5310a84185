//! Fence logs of a queue.
//!
//! Where an entry goes is found out before the packet has an effect, so a log that cannot be written faults the queue like
//! any other address that does not translate. A queue without logs costs one look at an empty place.

use crate::cmp::Context;
use crate::cmp::queue::Queue;
use crate::memory::{Access, Span};
use crate::mmu::{Fault, Intent, Kept, Tlb, Translation};
use campanile_hw::log::{
    self as log, LOG_ENTRIES_MAX, LogEntry, LogHeader, LogKind, LogOperation, LogPosition, LogWriter, bytes_of,
    entry_offset,
};
use campanile_hw::page_table::VA_BITS;
use campanile_hw::queue::{Location, QueueDescriptor};
use std::collections::BTreeMap;

/// Bytes of an entry.
const ENTRY: u64 = LogEntry::SIZE as u64;

/// The logs of one queue.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    waits: Option<Log>,
    signals: Option<Log>,
    /// When the WAIT in progress began to hold the queue; 0 when none does.
    observed: u64,
    /// The time as it was read last, and how often it may serve yet.
    time: (u64, u32),
}

/// Packets that one reading of the clock serves for.
const SERVES: u32 = 4;

/// One log.
#[derive(Debug)]
pub(crate) struct Log {
    root: Location,
    /// Virtual address of the header.
    header: u64,
    entries: u32,
    position: LogPosition,
    /// Translation of `header`.
    kept: Kept,
    /// Time of the latest entry: none is earlier.
    latest: u64,
    /// Entries that the position counts and memory does not hold yet, by index; only on a function that delays them.
    held: Option<BTreeMap<u32, LogEntry>>,
}

/// Why a log cannot be given to a queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadLog {
    /// The address or the number of entries is out of range.
    Argument,
    /// A page of it cannot be written.
    Unreachable,
}

/// Where the next entry of a log goes. Places that drop writes are `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room<'a> {
    header: Option<Span<'a>>,
    entry: EntryRoom<'a>,
}

/// An entry's bytes: up to `split` in the first span, the rest in the second.
#[derive(Clone, Copy, Debug)]
struct EntryRoom<'a> {
    first: Option<Span<'a>>,
    split: u64,
    second: Option<Span<'a>>,
}

impl Room<'_> {
    /// No place at all, as a queue without logs has.
    pub(crate) const NOWHERE: Self = Self { header: None, entry: EntryRoom::NOWHERE };
}

impl EntryRoom<'_> {
    const NOWHERE: Self = Self { first: None, split: ENTRY, second: None };

    #[inline]
    fn write(&self, entry: &LogEntry) {
        let words = words_of(entry);
        if self.split == ENTRY {
            if let Some(span) = self.first {
                span.store_words(0, words);
            }
            return;
        }
        for (offset, word) in (0..).step_by(8).zip(words) {
            let (span, offset) =
                if offset < self.split { (self.first, offset) } else { (self.second, offset - self.split) };
            if let Some(span) = span {
                span.store(offset, word);
            }
        }
    }
}

/// The words of an entry, as they lie in memory. Put together from the fields: bytes that were just written one by one are slow to read
/// as words.
#[inline]
fn words_of(entry: &LogEntry) -> [u64; LogEntry::SIZE / 8] {
    let name = u64::from(entry.handle) | u64::from(entry.operation) << 32;
    [entry.value, name, 0, entry.observed, 0, entry.end]
}

/// The bytes from `va` to the end of its page; no span where writes are dropped.
#[inline]
fn stretch<'a>(
    tlb: &mut Tlb,
    memory: &'a Access<'a>,
    root: Location,
    va: u64,
) -> Result<(Option<Span<'a>>, u64), Fault> {
    let translation = tlb.translate(memory, root, va, Intent::Write)?;
    behind(memory, translation)
}

/// As [`stretch`], of an address that was translated.
#[inline]
fn behind<'a>(memory: &'a Access<'a>, translation: Translation) -> Result<(Option<Span<'a>>, u64), Fault> {
    let Some(location) = translation.location else { return Ok((None, translation.run)) };
    let span = memory.resolve(location, translation.run, true).ok_or(Fault::nowhere(location, Intent::Write))?;
    Ok((Some(span), span.len()))
}

/// Where the next entry and the position go.
struct Writer<'a> {
    room: &'a Room<'a>,
    held: &'a mut Option<BTreeMap<u32, LogEntry>>,
}

impl LogWriter for Writer<'_> {
    #[inline]
    fn entry(&mut self, index: u32, entry: &LogEntry) {
        match self.held {
            None => self.room.entry.write(entry),
            Some(held) => drop(held.insert(index, *entry)),
        }
    }

    #[inline]
    fn position(&mut self, position: LogPosition) {
        if let Some(header) = self.room.header {
            header.store(0, position.into_bits());
        }
    }
}

impl Log {
    /// The log with its header at `header`, which tells where writing goes on.
    ///
    /// # Errors
    /// A [`BadLog`]; nothing was written.
    pub(crate) fn open(
        tlb: &mut Tlb,
        context: &Context<'_>,
        root: Location,
        header: u64,
        entries: u64,
    ) -> Result<Self, BadLog> {
        let entries = u32::try_from(entries).ok().filter(|entries| (1..=LOG_ENTRIES_MAX).contains(entries));
        let entries = entries.ok_or(BadLog::Argument)?;
        let end = header.checked_add(bytes_of(entries)).filter(|end| *end <= 1 << VA_BITS).ok_or(BadLog::Argument)?;
        if header == 0 || !header.is_multiple_of(8) {
            return Err(BadLog::Argument);
        }
        let unreachable = |_| BadLog::Unreachable;
        let mut page = header;
        while page < end {
            let (_, run) = stretch(tlb, context.memory, root, page).map_err(unreachable)?;
            page += run;
        }
        let (span, _) = stretch(tlb, context.memory, root, header).map_err(unreachable)?;
        let position = LogPosition::from_bits(span.and_then(|span| span.load(0)).unwrap_or(0));
        let position = if position.index() < entries { position } else { position.with_index(0) };
        let held = context.features.log_flush.then(BTreeMap::new);
        Ok(Self { root, header, entries, position, kept: Kept::NOTHING, latest: 0, held })
    }

    fn entry_room<'a>(&self, index: u32, tlb: &mut Tlb, context: &Context<'a>) -> Result<EntryRoom<'a>, Fault> {
        let va = self.header + entry_offset(index);
        let (first, run) = stretch(tlb, context.memory, self.root, va)?;
        let second = if run < ENTRY { stretch(tlb, context.memory, self.root, va + run)?.0 } else { None };
        Ok(EntryRoom { first, split: run.min(ENTRY), second })
    }

    /// Finds the place of the next entry.
    #[inline]
    fn room<'a>(&mut self, tlb: &mut Tlb, context: &Context<'a>, room: &mut Room<'a>) -> Result<(), Fault> {
        let translation = tlb.translate_kept(context.memory, self.root, self.header, &mut self.kept)?;
        let (header, run) = behind(context.memory, translation)?;
        let offset = entry_offset(self.position.index());
        room.header = header;
        if offset + ENTRY <= run {
            room.entry.first = header.and_then(|span| span.after(offset));
        } else {
            room.entry = self.entry_room(self.position.index(), tlb, context)?;
        }
        Ok(())
    }

    /// Writes the entry, or holds it back, and advances the position. Its end is no earlier than its start and the last entry.
    fn append(&mut self, room: &Room<'_>, mut entry: LogEntry) {
        self.latest = self.latest.max(entry.observed).max(entry.end);
        entry.end = self.latest;
        let mut writer = Writer { room, held: &mut self.held };
        self.position = log::append(&mut writer, self.position, self.entries, &entry);
    }

    /// Writes what was held back. What cannot be written any more has no reader either.
    fn flush(&mut self, tlb: &mut Tlb, context: &Context<'_>) {
        for (index, entry) in self.held.as_mut().map(std::mem::take).unwrap_or_default() {
            if let Ok(room) = self.entry_room(index, tlb, context) {
                room.write(&entry);
            }
        }
    }
}

impl Logs {
    fn place(&mut self, kind: LogKind) -> &mut Option<Log> {
        match kind {
            LogKind::Waits => &mut self.waits,
            LogKind::Signals => &mut self.signals,
        }
    }

    /// Completes the log of `kind` and puts `log` in its place.
    pub(crate) fn replace(&mut self, kind: LogKind, log: Option<Log>, tlb: &mut Tlb, context: &Context<'_>) {
        if let Some(old) = self.place(kind) {
            old.flush(tlb, context);
        }
        *self.place(kind) = log;
    }

    /// Completes both logs.
    pub(crate) fn flush(&mut self, tlb: &mut Tlb, context: &Context<'_>) {
        for log in [&mut self.waits, &mut self.signals].into_iter().flatten() {
            log.flush(tlb, context);
        }
    }

    /// The logs of a descriptor; `None` when it has none.
    ///
    /// # Errors
    /// A [`BadLog`]; nothing was written.
    pub(crate) fn of_descriptor(
        tlb: &mut Tlb,
        context: &Context<'_>,
        root: Option<Location>,
        descriptor: &QueueDescriptor,
    ) -> Result<Option<Box<Self>>, BadLog> {
        let mut logs = Self::default();
        for (kind, header, entries) in [
            (LogKind::Waits, descriptor.wait_log, descriptor.wait_log_entries),
            (LogKind::Signals, descriptor.signal_log, descriptor.signal_log_entries),
        ] {
            if (header, entries) != (0, 0) {
                let root = root.ok_or(BadLog::Argument)?;
                *logs.place(kind) = Some(Log::open(tlb, context, root, header, u64::from(entries))?);
            }
        }
        Ok((!logs.is_empty()).then(|| Box::new(logs)))
    }

    /// When the WAIT in progress began to hold the queue; 0 when none does.
    pub(crate) fn observed(&self) -> u64 {
        self.observed
    }

    /// A WAIT that began to hold the queue at `observed` holds it still, unless that is 0.
    pub(crate) fn set_observed(&mut self, observed: u64) {
        self.observed = observed;
    }

    /// The time, or what it was a few packets ago.
    #[inline]
    fn time(&mut self, context: &Context<'_>) -> u64 {
        self.time = match self.time {
            (_, 0) => (context.clock.mark(), SERVES - 1),
            (time, left) => (time, left - 1),
        };
        self.time.0
    }

    /// There is neither log.
    pub(crate) fn is_empty(&self) -> bool {
        self.waits.is_none() && self.signals.is_none()
    }
}

/// Finds where the queue's next entry of `kind` goes; nowhere when it has no such log.
#[inline]
pub(crate) fn find_room<'a>(
    queue: &mut Queue,
    kind: LogKind,
    tlb: &mut Tlb,
    context: &Context<'a>,
    room: &mut Room<'a>,
) -> Result<(), Fault> {
    let Some(logs) = &mut queue.logs else { return Ok(()) };
    logs.place(kind).as_mut().map_or(Ok(()), |log| log.room(tlb, context, room))
}

/// Time may pass unseen: the next entry reads the clock.
#[inline]
pub(crate) fn time_passes(queue: &mut Queue) {
    if let Some(logs) = &mut queue.logs {
        logs.time.1 = 0;
    }
}

/// Logs a signal whose value was written. It may bear the time of what was logged just before in the same slice: that is earlier than
/// any time which somebody reads who has seen the value.
#[inline]
pub(crate) fn signalled(queue: &mut Queue, room: &Room<'_>, (handle, value): (u32, u64), context: &Context<'_>) {
    let Some(logs) = &mut queue.logs else { return };
    let end = logs.time(context);
    let Some(log) = &mut logs.signals else { return };
    let operation = LogOperation::SignalExecuted as u32;
    log.append(room, LogEntry { value, handle, operation, observed: 0, end });
}

/// A WAIT holds the queue: notes since when.
#[inline]
pub(crate) fn stalled(queue: &mut Queue, context: &Context<'_>) {
    if let Some(logs) = queue.logs.as_mut().filter(|logs| logs.observed == 0) {
        logs.observed = logs.time(context);
    }
}

/// Logs a wait that is satisfied. It reads the clock after the value, so it is no earlier than the signal.
#[inline]
pub(crate) fn unblocked(queue: &mut Queue, room: &Room<'_>, (handle, value): (u32, u64), context: &Context<'_>) {
    let Some(logs) = &mut queue.logs else { return };
    let observed = std::mem::take(&mut logs.observed);
    logs.time.1 = 0;
    let end = logs.time(context);
    let Some(log) = &mut logs.waits else { return };
    let operation = LogOperation::WaitUnblocked as u32;
    log.append(room, LogEntry { value, handle, operation, observed, end });
}

const _: () = assert!(LogHeader::SIZE.is_multiple_of(8) && LogEntry::SIZE.is_multiple_of(8));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_an_entry_are_its_bytes() {
        let entry = LogEntry {
            value: 0x0102_0304_0506_0708,
            handle: 0x1112_1314,
            operation: 0x2122_2324,
            observed: 0x31 << 56,
            end: 0x4142,
        };
        let bytes: Vec<u8> = words_of(&entry).iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(bytes, entry.to_bytes());
    }
}

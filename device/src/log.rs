//! Fence logs of a queue.
//!
//! The address of an entry is translated before the packet has an effect, so a log that cannot be written faults the queue like any other
//! address that does not translate. For a queue without logs the cost is one comparison.

use crate::context::{Context, Tallies};
use crate::memory::{self, Access, Span};
use crate::mmu::{Fault, Intent, Kept, Tlb};
use campanile_hw::log::{
    self as log, LOG_ENTRIES_MAX, LogEntry, LogHeader, LogKind, LogOperation, LogPosition, LogWriter, bytes_of,
    entry_offset,
};
use campanile_hw::packet;
use campanile_hw::page_table::{PAGE_4K, VA_BITS};
use campanile_hw::queue::{Location, QueueDescriptor};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

/// Bytes of an entry.
const ENTRY: u64 = LogEntry::SIZE as u64;

/// The logs of one queue.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    waits: Option<Log>,
    signals: Option<Log>,
    /// When the WAIT in progress began to block the queue; 0 when none does.
    observed: u64,
}

/// The logs of a queue that has some.
pub(crate) type QueueLogs = Option<Box<Logs>>;

/// One log.
#[derive(Debug)]
pub(crate) struct Log {
    /// The address space of the log, while there is one.
    root: Option<Location>,
    /// Virtual address of the header.
    header: u64,
    entries: u32,
    /// True if the log took the place of another one. LOG packets that were recorded before name the old one, so their entries are ignored.
    replaced: bool,
    position: LogPosition,
    pages: Pages,
    /// Time of the latest entry: none is earlier.
    latest: u64,
    /// Entries that the position counts and that were not written to memory yet, by index. Only a function with CAPS.LOG_FLUSH delays
    /// entries.
    held: Option<BTreeMap<u32, LogEntry>>,
}

/// Translated parts of a log, for the entry that is written next.
#[derive(Clone, Copy, Debug)]
struct Pages {
    /// The page with the header, from there on.
    header: Kept,
    /// The page on which an entry begins, if that is not the header's.
    entry: Kept,
    /// The next page, if the entry crosses into it.
    next: Kept,
}

impl Pages {
    const NONE: Self = Self { header: Kept::NOTHING, entry: Kept::NOTHING, next: Kept::NOTHING };

    /// The word at `va`; `None` where writes are dropped.
    fn word<'a>(&self, memory: &'a Access<'_>, va: u64) -> Option<&'a AtomicU64> {
        let found = |page: &Kept| page.find(va).map(|offset| (*page, offset));
        let (page, offset) = [self.header, self.entry, self.next].iter().find_map(found)?;
        page.words(memory).get(offset as usize / 8)
    }
}

/// Error of a command that gives a log to a queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadLog {
    /// The address or the number of entries is out of range.
    Argument,
    /// A page of it cannot be written.
    Unreachable,
}

/// Words of an entry.
const WORDS: usize = LogEntry::SIZE / 8;

/// The words of an entry, as they lie in memory. Put together from the fields: bytes that were just written one by one are slow to read
/// as words.
#[inline]
fn words_of(entry: &LogEntry) -> [u64; WORDS] {
    let name = u64::from(entry.handle) | u64::from(entry.operation) << 32;
    [entry.value, name, 0, entry.observed, 0, entry.end]
}

/// The bytes from `va` to the end of its page; no span where writes are dropped.
fn stretch<'a>(
    tlb: &mut Tlb,
    memory: &'a Access<'a>,
    root: Location,
    va: u64,
) -> Result<(Option<Span<'a>>, u64), Fault> {
    let translation = tlb.translate(memory, root, va, Intent::Write)?;
    let Some(location) = translation.location else { return Ok((None, translation.run)) };
    let span = memory.resolve(location, translation.run, true).ok_or(Fault::nowhere(location, Intent::Write))?;
    Ok((Some(span), span.len()))
}

/// Where entries and position go, in a slice in which their pages are kept.
struct Writer<'a> {
    /// The words from the header on.
    words: &'a [AtomicU64],
    header: u64,
    pages: &'a Pages,
    held: &'a mut Option<BTreeMap<u32, LogEntry>>,
    memory: &'a Access<'a>,
}

impl Writer<'_> {
    /// Writes an entry that is not wholly on the header's page, or delays it until the flush.
    #[cold]
    fn entry_elsewhere(&mut self, index: u32, handle: u32, operation: u32, value: u64, observed: u64, end: u64) {
        let entry = LogEntry { value, handle, operation, observed, end };
        match self.held {
            None => self.write_elsewhere(index, &entry),
            Some(held) => drop(held.insert(index, entry)),
        }
    }

    fn write_elsewhere(&self, index: u32, entry: &LogEntry) {
        let start = self.header + entry_offset(index);
        for (va, word) in (start..).step_by(8).zip(words_of(entry)) {
            if let Some(place) = self.pages.word(self.memory, va) {
                memory::store(place, word);
            }
        }
    }
}

impl LogWriter for Writer<'_> {
    #[inline]
    fn entry(&mut self, index: u32, entry: &LogEntry) {
        let place = self.words.get(entry_offset(index) as usize / 8..).and_then(<[_]>::first_chunk);
        match place.filter(|_| self.held.is_none()) {
            Some(place) => memory::store_all(place, words_of(entry)),
            None => {
                // Field by field: an entry that may be looked at by its address goes through the stack.
                let LogEntry { value, handle, operation, observed, end } = *entry;
                self.entry_elsewhere(index, handle, operation, value, observed, end);
            }
        }
    }

    #[inline]
    fn position(&mut self, position: LogPosition) {
        if let Some(word) = self.words.first() {
            memory::store(word, position.into_bits());
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
        Ok(Self { root: Some(root), header, entries, replaced: false, position, pages: Pages::NONE, latest: 0, held })
    }

    #[inline]
    fn root_for(&self, va: u64) -> Result<Location, Fault> {
        self.root.ok_or(Fault::rootless(va, Intent::Write))
    }

    /// Makes the entry that a LOG packet names the next one, if it names this log.
    #[inline]
    fn seek(&mut self, said: &packet::Log, context: &Context<'_>) {
        if said.log != self.header || said.entry >= self.entries || self.replaced {
            return;
        }
        let again = u32::from(said.entry < self.position.index());
        let wraps = self.position.wraps().wrapping_add(again);
        self.position = LogPosition::new().with_index(said.entry).with_wraps(wraps);
        Tallies::add(&context.tallies.picked);
    }

    /// Finds the pages of the next entry and of the position, so that both can be written in this slice.
    #[inline]
    fn keep(&mut self, tlb: &mut Tlb, context: &Context<'_>) -> Result<(), Fault> {
        tlb.keep(context.memory, self.root_for(self.header)?, self.header, &mut self.pages.header)?;
        let offset = entry_offset(self.position.index());
        if offset + ENTRY <= self.pages.header.len() { Ok(()) } else { self.keep_entry(offset, tlb, context) }
    }

    /// As [`Log::keep`], of the entry at `offset` alone.
    fn keep_entry(&mut self, offset: u64, tlb: &mut Tlb, context: &Context<'_>) -> Result<(), Fault> {
        let va = self.header + offset;
        let inside = va % PAGE_4K;
        let root = self.root_for(va)?;
        let Pages { entry, next, .. } = &mut self.pages;
        let kept = tlb.keep(context.memory, root, va - inside, entry);
        kept.map_err(|fault| Fault { address: fault.address + inside, ..fault })?;
        if entry.end() >= va + ENTRY { Ok(()) } else { tlb.keep(context.memory, root, entry.end(), next) }
    }

    /// Writes the entry, or delays it until the flush, and advances the position. Its end is no earlier than its start and the last entry.
    #[inline]
    fn append(&mut self, mut entry: LogEntry, context: &Context<'_>) {
        if context.faults.loses_log_entry() {
            return;
        }
        self.latest = self.latest.max(entry.observed).max(entry.end);
        entry.end = self.latest;
        let (position, entries) = (self.position, self.entries);
        self.position = log::append(&mut self.writer(context), position, entries, &entry);
    }

    #[inline]
    fn writer<'a>(&'a mut self, context: &Context<'a>) -> Writer<'a> {
        let memory = context.memory;
        let Self { header, pages, held, .. } = self;
        Writer { words: pages.header.words(memory), header: *header, pages, held, memory }
    }

    /// Writes the delayed entries. An entry whose page is not mapped any more has no reader, and is dropped.
    fn flush(&mut self, tlb: &mut Tlb, context: &Context<'_>) {
        self.pages = Pages::NONE;
        for (index, entry) in self.held.as_mut().map(std::mem::take).unwrap_or_default() {
            if self.keep_entry(entry_offset(index), tlb, context).is_ok() {
                self.writer(context).write_elsewhere(index, &entry);
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
        let old = self.place(kind);
        let replaced = old.is_some();
        if let Some(old) = old {
            old.flush(tlb, context);
        }
        *self.place(kind) = log.map(|log| Log { replaced, ..log });
    }

    /// Completes both logs, which are in another address space from now on, or in none.
    pub(crate) fn set_root(&mut self, root: Option<Location>, tlb: &mut Tlb, context: &Context<'_>) {
        self.flush(tlb, context);
        for log in [&mut self.waits, &mut self.signals].into_iter().flatten() {
            log.root = root;
        }
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

    /// When the WAIT in progress began to block the queue; 0 when none does.
    pub(crate) fn observed(&self) -> u64 {
        self.observed
    }

    /// Sets when the WAIT in progress began, for a queue that is restored; 0 when it does not wait.
    pub(crate) fn set_observed(&mut self, observed: u64) {
        self.observed = observed;
    }

    fn keep(
        &mut self,
        kind: LogKind,
        said: Option<&packet::Log>,
        tlb: &mut Tlb,
        context: &Context<'_>,
    ) -> Result<(), Fault> {
        let Some(log) = self.place(kind) else { return Ok(()) };
        if let Some(said) = said {
            log.seek(said, context);
        }
        log.keep(tlb, context)
    }

    /// True if there is neither log.
    pub(crate) fn is_empty(&self) -> bool {
        self.waits.is_none() && self.signals.is_none()
    }
}

/// Finds the pages of the queue's next entry of `kind`, so that it can be written in this slice. A LOG packet, if there is one, says which
/// entry that is. Does nothing for a queue without such a log.
#[inline]
pub(crate) fn keep(
    logs: &mut QueueLogs,
    kind: LogKind,
    said: Option<&packet::Log>,
    tlb: &mut Tlb,
    context: &Context<'_>,
) -> Result<(), Fault> {
    let Some(logs) = logs else { return Ok(()) };
    logs.keep(kind, said, tlb, context)
}

/// Handle and value for an entry: those of the LOG packet if there is one, or else the operation's own.
#[inline]
pub(crate) fn told(said: Option<&packet::Log>, handle: u32, value: u64) -> (u32, u64) {
    said.map_or((handle, value), |said| (said.handle, said.value))
}

/// Logs a signal whose value was written.
#[inline]
pub(crate) fn signalled(logs: &mut QueueLogs, handle: u32, value: u64, context: &Context<'_>) {
    let Some(log) = logs.as_mut().and_then(|logs| logs.signals.as_mut()) else { return };
    let end = context.clock.mark();
    let operation = LogOperation::SignalExecuted as u32;
    log.append(LogEntry { value, handle, operation, observed: 0, end }, context);
}

/// The queue waits in a WAIT from now on: notes the time, for the entry of the wait.
#[inline]
pub(crate) fn stalled(logs: &mut QueueLogs, context: &Context<'_>) {
    if let Some(logs) = logs.as_mut().filter(|logs| logs.observed == 0) {
        logs.observed = context.clock.mark();
    }
}

/// Logs a wait that is satisfied. It reads the clock after the value, so it is no earlier than the signal.
#[inline]
pub(crate) fn unblocked(logs: &mut QueueLogs, handle: u32, value: u64, context: &Context<'_>) {
    let Some(logs) = logs else { return };
    let observed = std::mem::take(&mut logs.observed);
    let Some(log) = &mut logs.waits else { return };
    let end = context.clock.mark();
    let operation = LogOperation::WaitUnblocked as u32;
    log.append(LogEntry { value, handle, operation, observed, end }, context);
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

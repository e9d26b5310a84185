//! A scheduling log in memory of the paging process.

use crate::context::Context;
use crate::memory;
use crate::mmu::{Fault, Intent, Kept, Tlb};
use campanile_hw::log::LogPosition;
use campanile_hw::page_table::{PAGE_4K, VA_BITS};
use campanile_hw::queue::Location;
use campanile_hw::scheduling_log::{
    SCHEDULING_LOG_ENTRIES_MAX, SchedulingLogEntry, SchedulingLogHeader, bytes_of, entry_offset,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of an entry.
const WORDS: usize = SchedulingLogEntry::SIZE / 8;

/// One log.
#[derive(Debug)]
pub(super) struct SchedulingLog {
    /// Root of the paging process as it was at the last entry.
    root: Location,
    /// Virtual address of the header.
    header: u64,
    entries: u32,
    /// Entry whose writing is told by an event.
    interrupt: u32,
    /// The position, once the header was there.
    position: Option<LogPosition>,
    /// The page of the header.
    header_page: Kept,
    /// The page of the entry that was written last.
    entry_page: Kept,
}

impl SchedulingLog {
    /// The log with its header at `header` in the paging process. Its pages are looked for when an entry is written.
    pub(super) fn new(root: Location, [header, entries, interrupt]: [u64; 3]) -> Option<Self> {
        let entries =
            u32::try_from(entries).ok().filter(|entries| (1..=SCHEDULING_LOG_ENTRIES_MAX).contains(entries))?;
        let inside = header.checked_add(bytes_of(entries)).is_some_and(|end| end <= 1 << VA_BITS);
        let legal = inside && header != 0 && header.is_multiple_of(SchedulingLogHeader::SIZE as u64);
        legal.then(|| Self {
            root,
            header,
            entries,
            interrupt: u32::try_from(interrupt).unwrap_or(u32::MAX),
            position: None,
            header_page: Kept::NOTHING,
            entry_page: Kept::NOTHING,
        })
    }

    /// Finds the page of the header. Answers the position's place, which is none where writes are dropped, and the position.
    fn keep_header<'a>(
        &mut self,
        tlb: &mut Tlb,
        context: &Context<'a>,
    ) -> Result<(Option<&'a AtomicU64>, LogPosition), Fault> {
        let page = self.header - self.header % PAGE_4K;
        tlb.keep(context.memory, self.root, page, &mut self.header_page)?;
        let offset = self.header_page.find(self.header).map_or(0, |offset| offset as usize / 8);
        let word = self.header_page.words(context.memory).get(offset);
        let read = || LogPosition::from_bits(word.map_or(0, |word| u64::from_le(word.load(Ordering::Acquire))));
        let position = self.position.unwrap_or_else(read);
        Ok((word, if position.index() < self.entries { position } else { position.with_index(0) }))
    }

    /// Writes an entry, and then the position. True if it is the one that an event tells of.
    ///
    /// # Errors
    /// A page of the log, or the paging process, is not there.
    pub(super) fn write(&mut self, tlb: &mut Tlb, context: &Context<'_>, entry: [u64; WORDS]) -> Result<bool, Fault> {
        let root = context.paging_root.ok_or(Fault::rootless(self.header, Intent::Write))?;
        if root != self.root {
            (self.root, self.header_page, self.entry_page) = (root, Kept::NOTHING, Kept::NOTHING);
        }
        let (word, position) = self.keep_header(tlb, context)?;
        let va = self.header + entry_offset(position.index());
        tlb.keep(context.memory, root, va - va % PAGE_4K, &mut self.entry_page)?;
        let offset = self.entry_page.find(va).map_or(0, |offset| offset as usize / 8);
        let place = self.entry_page.words(context.memory).get(offset..).and_then(<[_]>::first_chunk::<WORDS>);
        if let Some(place) = place {
            memory::store_all(place, entry);
        }
        let next = position.next(self.entries);
        self.position = Some(next);
        if let Some(word) = word {
            memory::store(word, next.into_bits());
        }
        Ok(position.index() == self.interrupt)
    }
}

//! Address translation: walks of the page tables and the TLB in front of them.
//!
//! A TLB belongs to one node and is used under that node's lock. Like that of a real GPU it may have entries that the tables no longer
//! have, until they are invalidated; it never remembers that something was *not* mapped.

use crate::memory::{Access, KeptWords, Snooping, Span, Surroundings};
use campanile_hw::event::FaultKind;
use campanile_hw::page_table::{
    ENTRIES, ENTRIES_64K, PAGE_2M, PAGE_4K, PAGE_64K, Pte, ROOT_LEVEL, VA_BITS, coverage, directory_bits, index,
    index_64k, leaf_bits,
};
use campanile_hw::queue::Location;
use std::sync::atomic::{AtomicU64, Ordering};

/// Access right that a translation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Reads only.
    Read,
    /// Writes (and perhaps reads).
    Write,
    /// Reads instructions.
    Execute,
}

/// A fault: the address that an access cannot reach, or the packet that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Reason why the address does not translate.
    pub(crate) kind: FaultKind,
    /// Virtual or physical address, as the kind says.
    pub(crate) address: u64,
    /// True if the access was a write.
    pub(crate) write: bool,
    /// Level whose entry stopped the walk.
    pub(crate) level: u8,
    /// For a bad packet the rule broken, otherwise 0.
    pub(crate) rule: u8,
}

impl Fault {
    /// A fault that no page table is involved in.
    pub(crate) fn plain(kind: FaultKind, address: u64) -> Self {
        Self { kind, address, write: false, level: 0, rule: 0 }
    }

    /// The fault of an address that translates to a location without memory.
    pub(crate) fn nowhere(location: Location, intent: Intent) -> Self {
        Self { write: intent == Intent::Write, ..Self::plain(FaultKind::BadPhysical, location.address()) }
    }

    /// An address that does not translate, by the entry of `level`.
    pub(crate) fn page(va: u64, intent: Intent, level: u32) -> Self {
        Self { write: intent == Intent::Write, level: level as u8, ..Self::plain(FaultKind::PageFault, va) }
    }

    /// The fault of an access without a root page table.
    pub(crate) fn rootless(va: u64, intent: Intent) -> Self {
        Self::page(va, intent, ROOT_LEVEL)
    }
}

/// A page as its leaf entry describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Where it starts; without meaning for a zero page.
    frame: Location,
    /// Size as a power of two.
    shift: u8,
    read_only: bool,
    no_execute: bool,
    zero: bool,
}

impl Page {
    /// The 2 MiB of a large page that `va` lies in.
    fn piece(self, va: u64) -> Self {
        let offset = va & ((1 << self.shift) - 1) & !(PAGE_2M - 1);
        // The frame is aligned to its size, so that the sum changes bits of the address only; that of a zero page has no meaning.
        let frame = Location::from_bits(self.frame.into_bits() | offset);
        Self { frame, shift: PAGE_2M.trailing_zeros() as u8, ..self }
    }
}

/// Result of a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Translation {
    /// The location; `None` for a page that reads as zero and drops writes.
    pub(crate) location: Option<Location>,
    /// Bytes from the address to the end of its page.
    pub(crate) run: u64,
}

/// Result of a walk through the upper levels.
#[derive(Clone, Copy, Debug)]
enum Below {
    /// A 2-MiB page, or that much of a larger one.
    Large(Page),
    /// A leaf table.
    Leaves { table: Location, medium: bool },
}

#[inline]
fn location_of(entry: Pte) -> Location {
    const SYSTEM: u64 = Location::new().with_system(true).into_bits();
    Location::from_bits(entry.address() | if entry.system() { SYSTEM } else { 0 })
}

fn read_entry(memory: &Access<'_>, table: Location, slot: u64) -> Result<Pte, Fault> {
    // A table lies on a page, so that the sum changes bits of the address only.
    let at = Location::from_bits(table.into_bits() + slot * 8);
    let word = memory.resolve(at, 8, false).and_then(|span| span.load(0));
    word.map(Pte::from_bits).ok_or(Fault::nowhere(at, Intent::Read))
}

/// The page that a leaf entry describes, if it obeys the rules of its size.
#[inline]
fn page_of(entry: Pte, shift: u8) -> Option<Page> {
    let large = 1 << shift >= PAGE_2M;
    let misplaced = entry.into_bits() & !leaf_bits(u32::from(large)) != 0 || entry.large() != large;
    let misaligned = !entry.zero() && !entry.address().is_multiple_of(1 << shift);
    if !entry.valid() || misplaced || misaligned {
        return None;
    }
    let frame = location_of(entry);
    let frame = if entry.system() && !entry.coherent() { frame.unsnooped() } else { frame };
    Some(Page { frame, shift, read_only: entry.read_only(), no_execute: entry.no_execute(), zero: entry.zero() })
}

/// True if an entry above the leaves has only bits that are defined there.
fn is_directory(entry: Pte, level: u32) -> bool {
    entry.valid() && entry.into_bits() & !directory_bits(level) == 0
}

/// Walks from the root to the leaf table or large page of `va`.
fn walk_directories(memory: &Access<'_>, root: Location, va: u64, intent: Intent) -> Result<Below, Fault> {
    let mut table = root;
    for level in (1..=ROOT_LEVEL).rev() {
        let entry = read_entry(memory, table, index(va, level))?;
        if entry.large() {
            let page = page_of(entry, coverage(level).trailing_zeros() as u8).map(|page| page.piece(va));
            return page.map(Below::Large).ok_or(Fault::page(va, intent, level));
        }
        if !is_directory(entry, level) {
            return Err(Fault::page(va, intent, level));
        }
        table = location_of(entry);
        if level == 1 {
            return Ok(Below::Leaves { table, medium: entry.leaf_64k() });
        }
    }
    Err(Fault::page(va, intent, ROOT_LEVEL))
}

fn walk_leaves(memory: &Access<'_>, below: Below, va: u64, intent: Intent) -> Result<Page, Fault> {
    let (table, medium) = match below {
        Below::Large(page) => return Ok(page),
        Below::Leaves { table, medium } => (table, medium),
    };
    let (slot, size) = if medium { (index_64k(va), PAGE_64K) } else { (index(va, 0), PAGE_4K) };
    let entry = read_entry(memory, table, slot)?;
    page_of(entry, size.trailing_zeros() as u8).ok_or(Fault::page(va, intent, 0))
}

#[inline]
fn in_page(page: &Page, va: u64, intent: Intent) -> Result<Translation, Fault> {
    if page.read_only && intent == Intent::Write {
        return Err(Fault { write: true, ..Fault::plain(FaultKind::ReadOnly, va) });
    }
    if page.no_execute && intent == Intent::Execute {
        return Err(Fault::plain(FaultKind::NoExecute, va));
    }
    let size = 1u64 << page.shift;
    let offset = va & (size - 1);
    // The frame is aligned to its size, so that the sum changes bits of the address only.
    let location = (!page.zero).then(|| Location::from_bits(page.frame.into_bits() + offset));
    Ok(Translation { location, run: size - offset })
}

#[inline]
fn in_space(va: u64, intent: Intent) -> Result<(), Fault> {
    if va >> VA_BITS == 0 { Ok(()) } else { Err(Fault::page(va, intent, ROOT_LEVEL)) }
}

/// The range of addresses that an invalidation names: two zeros stand for all addresses.
pub(crate) fn named_range(start: u64, end: u64) -> (u64, u64) {
    if (start, end) == (0, 0) { (0, 1 << VA_BITS) } else { (start, end) }
}

/// Translates by the tables alone.
pub(crate) fn walk(memory: &Access<'_>, root: Location, va: u64, intent: Intent) -> Result<Translation, Fault> {
    in_space(va, intent)?;
    let below = walk_directories(memory, root, va, intent)?;
    in_page(&walk_leaves(memory, below, va, intent)?, va, intent)
}

#[derive(Clone, Copy, Debug)]
struct Slot<T> {
    root: u64,
    page: u64,
    value: T,
}

/// 8-aligned words of one page that an engine writes to again and again: a translation kept outside the TLB together with the place in the host's
/// memory. It is valid until the TLB is invalidated or the generation of memory changes. Always used with the same root and TLB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// The TLB's generation when the words were found; 0 before the first use.
    generation: u64,
    /// Virtual address.
    start: u64,
    len: u64,
    /// `None` where writes are dropped.
    place: Option<KeptWords>,
}

impl Kept {
    /// Nothing was found yet.
    pub(crate) const NOTHING: Self = Self { generation: 0, start: 0, len: 0, place: None };

    /// Bytes from the address that it was asked for first.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// First address behind the range.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.len
    }

    /// The words, in a slice in which [`Tlb::keep`] was asked for them; none where writes are dropped.
    #[inline]
    pub(crate) fn words<'a>(&self, memory: &'a Access<'_>) -> &'a [AtomicU64] {
        self.place.as_ref().and_then(|place| memory.reopen(place)).unwrap_or(&[])
    }

    /// The offset of a word in it.
    pub(crate) fn find(&self, va: u64) -> Option<u64> {
        va.checked_sub(self.start).filter(|offset| *offset < self.len)
    }
}

/// Slots that one page may be in.
const WAYS: usize = 4;

/// A set-associative cache of one page size.
#[derive(Debug)]
struct Cache<T> {
    sets: Box<[[Option<Slot<T>>; WAYS]]>,
    shift: u32,
    /// Way that is replaced next.
    victim: usize,
}

impl<T: Copy> Cache<T> {
    /// A cache of a power of two of `sets` for pages of `page_size`.
    fn new(sets: usize, page_size: u64) -> Self {
        let sets = vec![[None; WAYS]; sets.next_power_of_two()].into_boxed_slice();
        Self { sets, shift: page_size.trailing_zeros(), victim: 0 }
    }

    /// Addresses like to be aligned to large powers of two, so the upper bits of the page number take part.
    fn set(&self, root: Location, page: u64) -> usize {
        let folded = page ^ (page >> 8) ^ (page >> 16) ^ (page >> 24) ^ (root.into_bits() >> 12);
        folded as usize & (self.sets.len() - 1)
    }

    #[inline]
    fn find(&self, root: Location, va: u64) -> Option<&T> {
        let page = va >> self.shift;
        let set = self.sets.get(self.set(root, page))?;
        let hit = |slot: &&Slot<T>| slot.page == page && slot.root == root.into_bits();
        set.iter().flatten().find(hit).map(|slot| &slot.value)
    }

    fn insert(&mut self, root: Location, va: u64, value: T) {
        let page = va >> self.shift;
        let set = self.set(root, page);
        let Some(set) = self.sets.get_mut(set) else { return };
        let same = |slot: &Option<Slot<T>>| slot.is_some_and(|slot| slot.page == page && slot.root == root.into_bits());
        let way = set.iter().position(same).or_else(|| set.iter().position(Option::is_none)).unwrap_or(self.victim);
        self.victim = (self.victim + 1) % WAYS;
        if let Some(slot) = set.get_mut(way) {
            *slot = Some(Slot { root: root.into_bits(), page, value });
        }
    }

    /// Forgets the pages of `root` that touch `start..end`.
    fn forget(&mut self, root: Location, start: u64, end: u64) {
        for slot in self.sets.iter_mut().flatten() {
            let hit = slot.as_ref().is_some_and(|known| {
                let first = known.page << self.shift;
                known.root == root.into_bits() && first < end && start < first + (1 << self.shift)
            });
            if hit {
                *slot = None;
            }
        }
    }

    fn clear(&mut self) {
        self.sets.fill([None; WAYS]);
    }
}

/// The translation lookaside buffer of a node.
#[derive(Debug)]
pub(crate) struct Tlb {
    small: Cache<Page>,
    medium: Cache<Page>,
    large: Cache<Page>,
    /// Leaf tables by the 2 MiB they cover.
    tables: Cache<Below>,
    walks: u64,
    /// Counts invalidations, from 1: what was translated under another number may be gone.
    pub(crate) generation: u64,
}

impl Tlb {
    /// An empty TLB.
    pub(crate) fn new() -> Self {
        Self {
            small: Cache::new(256, PAGE_4K),
            medium: Cache::new(64, PAGE_64K),
            large: Cache::new(64, PAGE_2M),
            tables: Cache::new(16, coverage(1)),
            walks: 0,
            generation: 1,
        }
    }

    /// The number of walks, that is of misses.
    pub(crate) fn walks(&self) -> u64 {
        self.walks
    }

    /// Translates `va` in the address space of `root`.
    #[inline]
    pub(crate) fn translate(
        &mut self,
        memory: &Access<'_>,
        root: Location,
        va: u64,
        intent: Intent,
    ) -> Result<Translation, Fault> {
        in_space(va, intent)?;
        let known =
            self.small.find(root, va).or_else(|| self.large.find(root, va)).or_else(|| self.medium.find(root, va));
        match known {
            Some(page) => in_page(page, va, intent),
            None => in_page(&self.miss(memory, root, va, intent)?, va, intent),
        }
    }

    /// Fills `kept` with the words from `va` on, which is 8-aligned, so that they can be written.
    #[inline]
    pub(crate) fn keep(&mut self, memory: &Access<'_>, root: Location, va: u64, kept: &mut Kept) -> Result<(), Fault> {
        let there = kept.place.as_ref().is_none_or(|place| memory.has_kept(place));
        if there && kept.generation == self.generation && kept.start == va {
            return Ok(());
        }
        self.keep_anew(memory, root, va, kept)
    }

    #[cold]
    fn keep_anew(&mut self, memory: &Access<'_>, root: Location, va: u64, kept: &mut Kept) -> Result<(), Fault> {
        let Translation { location, run } = self.translate(memory, root, va, Intent::Write)?;
        let (generation, start) = (self.generation, va);
        *kept = match location {
            None => Kept { generation, start, len: run, place: None },
            Some(location) => {
                let place = memory.resolve_to_keep(location, run);
                let place = place.ok_or(Fault::nowhere(location, Intent::Write))?;
                Kept { generation, start, len: place.len(), place: Some(place) }
            }
        };
        Ok(())
    }

    fn below(&mut self, memory: &Access<'_>, root: Location, va: u64, intent: Intent) -> Result<Below, Fault> {
        if let Some(below) = self.tables.find(root, va) {
            return Ok(*below);
        }
        let below = walk_directories(memory, root, va, intent)?;
        if let Below::Leaves { .. } = below {
            self.tables.insert(root, va, below);
        }
        Ok(below)
    }

    fn miss(&mut self, memory: &Access<'_>, root: Location, va: u64, intent: Intent) -> Result<Page, Fault> {
        self.walks += 1;
        let below = self.below(memory, root, va, intent)?;
        let page = walk_leaves(memory, below, va, intent)?;
        let cache = match 1u64 << page.shift {
            PAGE_2M => &mut self.large,
            PAGE_64K => &mut self.medium,
            _ => &mut self.small,
        };
        cache.insert(root, va, page);
        Ok(page)
    }

    /// The memory at `va` for a transfer that goes on for `want` bytes: what follows contiguously is part of it, and `ahead`
    /// keeps the leaf table at hand, so that the transfer's next pages need no place in the TLB. `None` reads as zero and drops
    /// writes, for so many bytes.
    #[inline(always)]
    pub(crate) fn reach<'a>(
        &mut self,
        memory: &'a Access<'_>,
        va: u64,
        want: u64,
        ahead: &mut Ahead<'a>,
    ) -> Result<(Option<Span<'a>>, u64), Fault> {
        match ahead.reach(memory, va, want) {
            Some(span) => Ok((Some(span), span.len())),
            None => self.reach_first(memory, va, want, ahead),
        }
    }

    #[cold]
    fn reach_first<'a>(
        &mut self,
        memory: &'a Access<'_>,
        va: u64,
        want: u64,
        ahead: &mut Ahead<'a>,
    ) -> Result<(Option<Span<'a>>, u64), Fault> {
        let (root, intent) = (ahead.root, ahead.intent);
        let translation = self.translate(memory, root, va, intent)?;
        let Some(location) = translation.location else { return Ok((None, translation.run)) };
        let span = memory.resolve(location, translation.run, intent == Intent::Write);
        let span = span.ok_or(Fault::nowhere(location, intent))?;
        let goes_on = std::mem::replace(&mut ahead.begun, true) || want > span.len();
        if goes_on && let Ok(Below::Leaves { table, medium }) = self.below(memory, root, va, intent) {
            ahead.open(memory, table, medium, va);
            // The table may show that contiguous memory follows the page; it counts only if it agrees with the TLB about the page itself.
            if let Some(longer) = ahead.reach(memory, va, want).filter(|longer| longer.begins_with(span)) {
                return Ok((Some(longer), longer.len()));
            }
        }
        Ok((Some(span), span.len()))
    }

    /// Forgets the translations of `root` that touch `start..end`.
    pub(crate) fn forget(&mut self, root: Location, start: u64, end: u64) {
        self.generation += 1;
        self.small.forget(root, start, end);
        self.medium.forget(root, start, end);
        self.large.forget(root, start, end);
        self.tables.forget(root, start, end);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.generation += 1;
        self.small.clear();
        self.medium.clear();
        self.large.clear();
        self.tables.clear();
    }
}

/// The leaf table that one side of a transfer goes through. Lives no longer than a slice, so invalidation need not know of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead<'a> {
    root: Location,
    intent: Intent,
    /// First address that the table covers.
    start: u64,
    shift: u8,
    /// True once the transfer has translated a page. The table is only read from the second page on, because it does not pay for a single one.
    begun: bool,
    /// The table's entries; none before the first use.
    entries: &'a [AtomicU64],
    /// The bits other than the address that an entry has if its page may be accessed and lies in the same kind of memory as `around`.
    kind: u64,
    /// The contiguous memory in which the last page was found: the next one is often there too.
    around: Surroundings<'a>,
}

impl<'a> Ahead<'a> {
    /// Before the first page.
    pub(crate) fn new(root: Location, intent: Intent) -> Self {
        Self {
            root,
            intent,
            start: 0,
            shift: 0,
            begun: false,
            entries: &[],
            kind: u64::MAX,
            around: Surroundings::NOTHING,
        }
    }

    fn open(&mut self, memory: &'a Access<'_>, table: Location, medium: bool, va: u64) {
        let (count, size) = if medium { (ENTRIES_64K, PAGE_64K) } else { (ENTRIES, PAGE_4K) };
        self.start = va & !(coverage(1) - 1);
        self.shift = size.trailing_zeros() as u8;
        let span = memory.resolve(table, count * 8, false);
        self.entries = span.and_then(|span| span.words(0, count as usize)).unwrap_or(&[]);
        (self.kind, self.around) = (u64::MAX, Surroundings::NOTHING);
    }

    /// Bits of an entry that are its page's address.
    #[inline]
    fn address_bits(&self) -> u64 {
        const ADDRESS: u64 = Pte::new().with_address(u64::MAX).into_bits();
        ADDRESS & !((1 << self.shift) - 1)
    }

    /// The contiguous memory at `va`, at most to the page with the last of `want` bytes; `None` for everything but plain memory, such as
    /// zero pages and faults. A copy calls this for every page, so what it finds stays in registers.
    #[inline(always)]
    pub(crate) fn reach(&mut self, memory: &'a Access<'_>, va: u64, want: u64) -> Option<Span<'a>> {
        let in_table = va.checked_sub(self.start)?;
        let (first, rest) = self.entries.get((in_table >> self.shift) as usize..)?.split_first()?;
        let entry = u64::from_le(first.load(Ordering::Acquire));
        let (page, size) = (entry & self.address_bits(), 1 << self.shift);
        let offset = in_table & (size - 1);
        let known = if entry ^ page == self.kind { self.around.from(page + offset) } else { None };
        let span = match known {
            Some(span) => span,
            None => self.look_around(memory, Pte::from_bits(entry), offset)?,
        };
        let mut run = size - offset;
        if want > run {
            let most = (want - run + size - 1) >> self.shift;
            run += contiguous(rest.get(..most as usize).unwrap_or(rest), entry, size) * size;
        }
        Some(span.first(run))
    }

    /// Checks that an entry's page may be accessed, and returns the memory from an offset in it on.
    #[cold]
    fn look_around(&mut self, memory: &'a Access<'_>, entry: Pte, offset: u64) -> Option<Span<'a>> {
        let translation = in_page(&page_of(entry, self.shift)?, offset, self.intent).ok()?;
        let location = translation.location?;
        self.around = memory.surroundings(location, self.intent == Intent::Write)?;
        self.kind = entry.into_bits() & !self.address_bits();
        self.around.from(location.address())
    }
}

/// How many entries map what follows the page of `entry` contiguously: they differ from it by multiples of the page size.
#[inline(always)]
fn contiguous(entries: &[AtomicU64], entry: u64, size: u64) -> u64 {
    const AT_ONCE: usize = 8;
    let differs = |at: &AtomicU64, count: u64| u64::from_le(at.load(Ordering::Acquire)) ^ (entry + count * size);
    let mut count = 0;
    match entries.first() {
        Some(next) if differs(next, 1) == 0 => {}
        _ => return 0,
    }
    let (lines, _) = entries.as_chunks::<AT_ONCE>();
    for line in lines {
        let all = line.iter().zip(count + 1..).fold(0, |all, (at, count)| all | differs(at, count));
        if all != 0 {
            break;
        }
        count += AT_ONCE as u64;
    }
    let rest = entries.get(count as usize..).unwrap_or(&[]);
    count + rest.iter().zip(count + 1..).take_while(|(at, count)| differs(at, *count) == 0).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{HostMapping, Memory, shared_file};
    use proptest::prelude::*;

    /// Where the leaf table lies, and how much VRAM there is.
    const TABLE: u64 = 0;
    const VRAM: u64 = 40 * PAGE_64K;

    /// Entries as a memory manager or a hostile process writes them, close together and often continuing one another.
    fn entry(before: Pte, size: u64) -> impl Strategy<Value = Pte> {
        let next = before.with_address(before.address() + size);
        let page = (0..VRAM / size + 2).prop_map(move |page| Pte::new().with_valid(true).with_address(page * size));
        prop_oneof![
            60 => Just(next),
            3 => page.clone(),
            1 => page.clone().prop_map(|page| page.with_read_only(true)),
            1 => page.clone().prop_map(|page| page.with_zero(true)),
            1 => page.clone().prop_map(|page| page.with_system(true)),
            1 => page.prop_map(|page| page.with_address(page.address() + PAGE_4K)),
            1 => any::<u64>().prop_map(Pte::from_bits),
        ]
    }

    fn entries(size: u64) -> impl Strategy<Value = Vec<Pte>> {
        let first = Just(vec![Pte::new().with_valid(true).with_address(size)]);
        let more = move |known: Vec<Pte>| {
            let last = known.last().copied().unwrap_or_default();
            entry(last, size).prop_map(move |entry| [known.as_slice(), &[entry]].concat())
        };
        (0..26).fold(first.boxed(), |known, _| known.prop_flat_map(more).boxed())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

        /// What lies at an address by the table at hand is what walks of page after page find there, and all of that.
        #[test]
        fn a_table_at_hand_says_what_walks_say(
            (medium, entries) in any::<bool>().prop_flat_map(|medium| {
                (Just(medium), entries(if medium { PAGE_64K } else { PAGE_4K }))
            }),
            steps in proptest::collection::vec((0..30 * PAGE_64K, 1..30 * PAGE_64K), 1..20),
            write in any::<bool>(),
        ) {
            let file = shared_file(c"vram", VRAM).expect("a file");
            let memory = Memory::new(HostMapping::new(&file, 0, VRAM, true).expect("a mapping"));
            memory.enable(true);
            let memory = memory.access();
            let table = Location::new().with_address(TABLE);
            for (slot, entry) in entries.iter().enumerate() {
                memory.resolve(table, PAGE_4K, true).expect("VRAM").store(slot as u64 * 8, entry.into_bits());
            }
            let intent = if write { Intent::Write } else { Intent::Read };
            let size = if medium { PAGE_64K } else { PAGE_4K };
            let span_at = |va: u64| {
                let page = walk_leaves(&memory, Below::Leaves { table, medium }, va, intent).ok()?;
                let translation = in_page(&page, va, intent).ok()?;
                memory.resolve(translation.location?, translation.run, write)
            };
            let mut ahead = Ahead::new(Location::new(), intent);
            ahead.open(&memory, table, medium, 0);
            for (va, want) in steps {
                let va = va % (30 * size);
                let found = ahead.reach(&memory, va, want);
                let Some(first) = span_at(va) else {
                    prop_assert!(found.is_none(), "{va:#x}");
                    continue;
                };
                let found = found.expect("a page that a walk finds");
                // Page by page, until one does not continue the last or the transfer ends.
                let mut len = first.len();
                while len < want && (va + len).is_multiple_of(size)
                    && let Some(next) = span_at(va + len)
                    && found.after(len).is_some_and(|rest| rest.begins_with(next))
                {
                    len += next.len();
                }
                prop_assert!(found.begins_with(first), "{va:#x}");
                prop_assert_eq!(found.len(), len, "{:#x} for {:#x}", va, want);
            }
        }
    }
}

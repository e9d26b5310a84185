//! Page tables against a model: tables in plain memory, walked as a GPU would.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wddm_ddi::km::DXGK_PTE_Union1;
use wddm_ddi::status::STATUS_NO_MEMORY;

use super::*;
use crate::kmd_handle::KmdHandle;
use crate::table_shape::MEDIUM;
use crate::vidmm::table_memory::Changes;

/// An entry: valid, large page, zero, page size of the table below, and address.
type Stored = (bool, bool, bool, u8, u64);

/// A table in plain memory.
struct Kept {
    level: u32,
    pages: PageSize,
    /// `None` when never written.
    entries: Vec<Option<Stored>>,
}

/// Tables in plain memory.
struct Memory {
    tables: BTreeMap<u64, Kept>,
    next: u64,
    shape: Shape,
    /// Tables that can still be had.
    capacity: usize,
    updates: usize,
    /// The allocation of what is being written.
    subject: Subject,
    /// By page of the space, what its last entry belongs to.
    subjects: BTreeMap<u64, (usize, u64)>,
}

impl Memory {
    fn new(shape: &Shape) -> Self {
        let (tables, subject, subjects) = (BTreeMap::new(), Subject::NONE, BTreeMap::new());
        Self { tables, next: 1, shape: shape.clone(), capacity: usize::MAX, updates: 0, subject, subjects }
    }

    /// The page that an address translates to, and the size of the page that does so.
    fn find(&self, root: u64, page: u64) -> Option<(u64, PageSize)> {
        let (mut table, mut expected) = (root, PageSize::Small);
        for level in (0..=self.shape.root()).rev() {
            let kept = self.tables.get(&table).expect("a directory points at a table that was given back");
            assert_eq!((kept.level, kept.pages), (level, expected), "a directory says something else of a table");
            let medium = kept.pages == PageSize::Medium;
            let index = self.shape.index(level, page) / if medium { MEDIUM as u32 } else { 1 };
            let entry = kept.entries[index as usize];
            let (valid, large, zero, below, address) = entry.expect("a table is reachable before it was initialised");
            if !valid {
                return None;
            }
            if large || level == 0 {
                assert!(!large || level == 1, "a large page of level {level}");
                let (size, pages) = match (large, medium) {
                    (true, _) => (PageSize::Large, self.shape.large()),
                    (_, true) => (PageSize::Medium, MEDIUM),
                    _ => (PageSize::Small, 1),
                };
                assert!(zero || address.is_multiple_of(pages), "{size:?} page at {address:#x}");
                return Some((if zero { ZERO } else { address + page % pages }, size));
            }
            table = address;
            expected = if below == 1 { PageSize::Medium } else { PageSize::Small };
        }
        None
    }

    fn walk(&self, root: u64, page: u64) -> Option<u64> {
        self.find(root, page).map(|(address, _)| address)
    }
}

/// Address of the zero page in these tests.
const ZERO: u64 = 1 << 40;

fn pte(valid: bool, address: u64) -> DXGK_PTE {
    let mut pte = DXGK_PTE::zeroed();
    pte.Bits.set_Valid(valid);
    pte.Bits.set_Zero(address == ZERO);
    pte.u1 = DXGK_PTE_Union1 { PageAddress: if address == ZERO { 0 } else { address } };
    pte
}

impl TableMemory for Memory {
    type Table = u64;

    fn create(&mut self, level: u32, pages: PageSize) -> Result<u64, NTSTATUS> {
        self.capacity = self.capacity.checked_sub(1).ok_or(STATUS_NO_MEMORY)?;
        let id = self.next;
        self.next += 1;
        let entries = vec![None; self.shape.entries_of(level, Some(pages)) as usize];
        self.tables.insert(id, Kept { level, pages, entries });
        Ok(id)
    }

    fn destroy(&mut self, table: u64) {
        let kept = self.tables.remove(&table).expect("given back twice");
        // Everything is invalid before it goes, but in tables of which all goes.
        let valid = |entry: &Option<Stored>| entry.is_some_and(|entry| entry.0);
        assert!(!self.explicit() || !kept.entries.iter().any(valid), "a table goes with valid entries");
        self.capacity = self.capacity.saturating_add(1);
    }

    fn link(&self, table: &u64, pages: PageSize) -> DXGK_PTE {
        let mut link = pte(true, *table);
        link.Bits.set_PageTablePageSize(u8::from(pages == PageSize::Medium));
        link
    }

    fn subject(&self) -> Subject {
        self.subject
    }

    fn update(&mut self, update: Update<'_, u64>) -> Result<(), NTSTATUS> {
        self.updates += 1;
        let kept = self.tables.get_mut(update.table).expect("written after it was given back");
        assert_eq!(kept.level, update.level);
        let leaf = (update.level == 0).then_some(kept.pages);
        assert!(
            update.pages == leaf || (leaf.is_none() && update.pages == Some(PageSize::Large)),
            "{:?}",
            update.pages
        );
        let covered = match (update.level, kept.pages) {
            (0, pages) => pages.stride(),
            (level, _) => 1 << self.shape.shift(level),
        };
        assert_eq!(update.first_page / covered % kept.entries.len() as u64, u64::from(update.start));
        let all = match update.entries {
            Entries::Each(values) => values.to_vec(),
            Entries::Same(value, count) => vec![value; count as usize],
        };
        assert!(!all.is_empty());
        assert_eq!(
            update.phase == Phase::Initial,
            kept.entries.iter().all(Option::is_none),
            "exactly the first update is the initial one"
        );
        if update.phase == Phase::Initial {
            assert_eq!(all.len(), kept.entries.len(), "the initial update covers the table");
        }
        let subject = update.subject.unwrap_or(self.subject);
        for ((slot, value), page) in kept.entries[update.start as usize..]
            .iter_mut()
            .zip(&all)
            .zip((update.first_page..).step_by(covered as usize))
        {
            // SAFETY: both arms of the union are the same integer.
            let address = unsafe { value.u1.PageAddress };
            let bits = value.Bits;
            *slot = Some((bits.Valid(), bits.LargePage(), bits.Zero(), bits.PageTablePageSize(), address));
            if update.pages.is_some() && update.phase == Phase::InUse && bits.Valid() {
                let of = subject.at(page);
                for page in 0..covered {
                    let known = (of.allocation.raw().addr(), of.offset + page * 4096);
                    self.subjects.insert(of.first_page + page, known);
                }
            }
        }
        Ok(())
    }
}

impl Memory {
    /// True if tables are taken out one by one at the moment.
    fn explicit(&self) -> bool {
        self.subject.driver_protection == 0
    }
}

fn shape() -> Shape {
    Shape::new(vec![5, 2, 2, 2]).unwrap()
}

/// Pages of the space.
const PAGES: u64 = 2048;

/// The sizes that pages of one contiguous place may have.
fn fit_of(shape: &Shape, (medium, large): (bool, bool), first: u64, base: u64, part: Range<u64>) -> Fit {
    let place = |page: u64| if base == ZERO { 0 } else { base + page - first };
    let whole = shape.large();
    let edges = part.start.is_multiple_of(MEDIUM) && part.end.is_multiple_of(MEDIUM);
    Fit {
        pays: true,
        medium: medium && edges && (base == ZERO || place(part.start).is_multiple_of(MEDIUM)),
        large: large
            && part.start.is_multiple_of(whole)
            && part.end - part.start == whole
            && place(part.start).is_multiple_of(whole),
    }
}

/// Takes effect at once.
fn settle(tables: &mut PageTables<u64>, memory: &mut Memory, effects: Effects<u64>) -> Changes {
    let changes = effects.changes;
    tables.free_dead(effects.dead, memory).unwrap();
    changes
}

fn map_in(
    tables: &mut PageTables<u64>,
    memory: &mut Memory,
    pages: Range<u64>,
    base: u64,
    sizes: (bool, bool),
) -> Result<Changes, NTSTATUS> {
    let mut effects = Effects::default();
    let (first, shape) = (pages.start, shape());
    let fit = |part| fit_of(&shape, sizes, first, base, part);
    memory.subject = Subject {
        allocation: KmdHandle::new(std::ptr::without_provenance_mut(1 + base as usize)),
        first_page: first,
        ..Subject::NONE
    };
    let prepared = tables.prepare(pages.clone(), &fit, memory, &mut effects);
    let step = if base == ZERO { 0 } else { 1 };
    let mut entry = |page| pte(true, base + (page - first) * step);
    let written = prepared.and_then(|()| tables.write(pages, &mut entry, memory, &mut effects));
    memory.subject = Subject::NONE;
    let changes = settle(tables, memory, effects);
    written.map(|()| changes)
}

fn map(tables: &mut PageTables<u64>, memory: &mut Memory, pages: Range<u64>, base: u64) -> Result<Changes, NTSTATUS> {
    map_in(tables, memory, pages, base, (false, false))
}

/// Unmaps `pages`; returns the changed entries and the number of freed tables.
fn unmap(tables: &mut PageTables<u64>, memory: &mut Memory, pages: Range<u64>) -> (Changes, usize) {
    let mut effects = Effects::default();
    tables.unmap(pages, memory, &mut effects).unwrap();
    let dead = effects.dead.len();
    (settle(tables, memory, effects), dead)
}

#[test]
fn shapes_that_no_address_could_use_are_refused() {
    for bits in [vec![], vec![9], vec![0, 9], vec![9, 21], vec![20, 20, 20]] {
        assert_eq!(Shape::new(bits.clone()), None, "{bits:?}");
    }
    assert_eq!(Shape::new(vec![9, 9, 9, 9]).unwrap().address_bits(), 48);
}

#[test]
fn one_page_costs_one_table_a_level_and_gives_them_all_back() {
    let mut memory = Memory::new(&shape());
    let mut tables = PageTables::new(shape(), &mut memory).unwrap();
    let root = *tables.root();
    let added = Changes { added: true, ..Changes::default() };
    assert_eq!(map(&mut tables, &mut memory, 77..78, 500), Ok(added));
    assert_eq!((memory.tables.len(), memory.updates), (4, 1 + 3 * 2 + 1));
    assert_eq!(memory.walk(root, 77), Some(500));
    let (changes, dead) = unmap(&mut tables, &mut memory, 77..78);
    assert!(changes.replaced);
    assert_eq!(dead, 3);
    assert_eq!(memory.walk(root, 77), None);
}

#[test]
fn unmapping_what_is_not_mapped_changes_and_writes_nothing() {
    let mut memory = Memory::new(&shape());
    let mut tables = PageTables::new(shape(), &mut memory).unwrap();
    map(&mut tables, &mut memory, 0..1, 9).unwrap();
    map_in(&mut tables, &mut memory, 32..48, 64, (true, true)).unwrap();
    let before = memory.updates;
    for pages in [1..32, 48..PAGES] {
        assert_eq!(unmap(&mut tables, &mut memory, pages), (Changes::default(), 0));
    }
    assert_eq!(memory.updates, before);
}

#[test]
fn a_failed_preparation_leaves_nothing_behind() {
    let mut memory = Memory::new(&shape());
    let mut tables = PageTables::new(shape(), &mut memory).unwrap();
    map(&mut tables, &mut memory, 0..1, 9).unwrap();
    let root = *tables.root();
    let count = memory.tables.len();
    for (capacity, sizes) in
        (0..6).flat_map(|capacity| [(capacity, (false, false)), (capacity, (true, false)), (capacity, (true, true))])
    {
        memory.capacity = capacity;
        let mapped = map_in(&mut tables, &mut memory, 32..32 * 9, 0, sizes);
        assert_eq!(mapped, Err(STATUS_NO_MEMORY), "memory for {capacity} tables");
        assert_eq!((memory.tables.len(), memory.walk(root, 0)), (count, Some(9)));
    }
}

#[test]
fn pinned_tables_outlive_their_entries() {
    let mut memory = Memory::new(&shape());
    let mut tables = PageTables::new(shape(), &mut memory).unwrap();
    tables.prepare(0..40, &|_| Fit::default(), &mut memory, &mut Effects::default()).unwrap();
    tables.pin(0..40);
    let count = memory.tables.len();
    map_in(&mut tables, &mut memory, 0..32, 0, (true, true)).unwrap();
    assert_eq!(unmap(&mut tables, &mut memory, 0..40).1, 0);
    assert_eq!(memory.tables.len(), count);
}

#[test]
fn remapping_a_valid_page_reports_that_it_was_replaced() {
    let mut memory = Memory::new(&shape());
    let mut tables = PageTables::new(shape(), &mut memory).unwrap();
    map(&mut tables, &mut memory, 4..8, 10).unwrap();
    let changes = map(&mut tables, &mut memory, 7..9, 90).unwrap();
    assert!(changes.replaced && changes.added);
    assert_eq!(map(&mut tables, &mut memory, 9..10, 0), Ok(Changes { added: true, ..Changes::default() }));
}

#[test]
fn a_range_is_mapped_by_the_largest_pages_that_fit() {
    let mut memory = Memory::new(&shape());
    let mut tables = PageTables::new(shape(), &mut memory).unwrap();
    let root = *tables.root();
    // Half of a table, two large pages, half of a table and some.
    let changes = map_in(&mut tables, &mut memory, 16..115, 1040, (true, true)).unwrap();
    assert_eq!((changes.large, changes.medium, changes.demoted), (2, 1, 0));
    for (page, size) in [(16, PageSize::Medium), (32, PageSize::Large), (95, PageSize::Large), (96, PageSize::Small)] {
        assert_eq!(memory.find(root, page), Some((1024 + page, size)), "page {page}");
    }
    // What does not lie as it is mapped is mapped by small pages only.
    let changes = map_in(&mut tables, &mut memory, 128..160, 1031, (true, true)).unwrap();
    assert_eq!((changes.large, changes.medium), (0, 0));
    // Zero is everywhere, and large pages need no memory that 64-KiB ones could have.
    let changes = map_in(&mut tables, &mut memory, 160..240, ZERO, (true, true)).unwrap();
    assert_eq!((changes.large, changes.medium), (2, 1));
    assert_eq!(memory.find(root, 200), Some((ZERO, PageSize::Large)));
}

#[test]
fn part_of_a_larger_page_is_unmapped_without_memory_and_the_rest_stays() {
    for (sizes, pages) in [((true, true), 32..64), ((true, false), 32..64)] {
        let mut memory = Memory::new(&shape());
        let mut tables = PageTables::new(shape(), &mut memory).unwrap();
        let root = *tables.root();
        map_in(&mut tables, &mut memory, pages.clone(), 1024, sizes).unwrap();
        memory.capacity = 0;
        // Whole 64-KiB pages leave without breaking any.
        let (changes, _) = unmap(&mut tables, &mut memory, 32..48);
        assert_eq!((changes.replaced, changes.demoted), (true, u64::from(sizes.1)));
        let (changes, _) = unmap(&mut tables, &mut memory, 50..51);
        assert_eq!((changes.replaced, changes.demoted), (true, u64::from(!sizes.1)));
        for page in pages.clone() {
            let there = (page >= 48 && page != 50).then_some((1024 + page - 32, PageSize::Small));
            assert_eq!(memory.find(root, page), there, "page {page}");
            if there.is_some() {
                assert_eq!(memory.subjects[&page], (1025, (page - 32) * 4096), "whose page {page} is");
            }
        }
        // Only an unmap of the whole range undoes it.
        map_in(&mut tables, &mut memory, 32..48, 1024, sizes).unwrap();
        assert_eq!(memory.find(root, 32), Some((1024, PageSize::Small)));
        unmap(&mut tables, &mut memory, 32..64);
        map_in(&mut tables, &mut memory, pages, 1024, sizes).unwrap();
        let expected = if sizes.1 { PageSize::Large } else { PageSize::Medium };
        assert_eq!(memory.find(root, 40), Some((1032, expected)));
    }
}

#[test]
fn a_small_page_beside_64_kib_pages_makes_them_small() {
    let mut memory = Memory::new(&shape());
    let mut tables = PageTables::new(shape(), &mut memory).unwrap();
    let root = *tables.root();
    map_in(&mut tables, &mut memory, 0..16, 512, (true, true)).unwrap();
    assert_eq!(memory.find(root, 3), Some((515, PageSize::Medium)));
    let changes = map_in(&mut tables, &mut memory, 16..17, 900, (true, true)).unwrap();
    assert_eq!((changes.demoted, changes.replaced), (1, true));
    assert_eq!(memory.find(root, 3), Some((515, PageSize::Small)));
    assert_eq!(memory.find(root, 16), Some((900, PageSize::Small)));
}

#[test]
fn where_one_table_finds_memory_it_is_one_of_small_pages() {
    let mut memory = Memory::new(&shape());
    let mut tables = PageTables::new(shape(), &mut memory).unwrap();
    let root = *tables.root();
    map(&mut tables, &mut memory, 32..33, 9).unwrap();
    memory.capacity = 1;
    map_in(&mut tables, &mut memory, 0..16, 512, (true, true)).unwrap();
    assert_eq!(memory.find(root, 3), Some((515, PageSize::Small)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_sequence_of_maps_and_unmaps_translates_as_the_model_says(
        steps in prop::collection::vec(
            (0..4u32, any::<bool>(), 0..PAGES / 8, 1..300u64, 0..200u64, 0..3u32, any::<(bool, bool)>()), 1..40),
        limit in 8..200usize,
    ) {
        let mut memory = Memory::new(&shape());
        let mut tables = PageTables::new(shape(), &mut memory).unwrap();
        memory.capacity = limit;
        let mut root = *tables.root();
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        for (kind, leave, start, len, base, aligned, sizes) in steps {
            // Places and lengths that larger pages fit, mostly.
            let unit = [1, MEDIUM, shape().large()][aligned as usize];
            let (start, len) = (start * 8 / unit * unit, len.next_multiple_of(unit));
            let base = if base < 20 { ZERO } else { base * unit };
            if leave && len < 20 {
                // All leave and come back, the root elsewhere.
                tables.notify_evicted(&mut memory).unwrap();
                for table in tables.into_tables() {
                    memory.destroy(table);
                }
                prop_assert!(memory.tables.is_empty());
                let capacity = std::mem::replace(&mut memory.capacity, usize::MAX);
                tables = PageTables::new(shape(), &mut memory).unwrap();
                prop_assert_ne!(std::mem::replace(&mut root, *tables.root()), root);
                for (page, shown) in &model {
                    map(&mut tables, &mut memory, *page..page + 1, *shown).unwrap();
                }
                memory.capacity = capacity.saturating_sub(memory.tables.len());
            }
            let pages = start..(start + len).min(PAGES);
            let valid = pages.clone().any(|page| model.contains_key(&page));
            if kind > 0 {
                // Mostly as the memory manager does it: what was there goes first.
                if kind > 1 {
                    unmap(&mut tables, &mut memory, pages.clone());
                    model.retain(|page, _| !pages.contains(page));
                }
                match map_in(&mut tables, &mut memory, pages.clone(), base, sizes) {
                    Ok(changes) => {
                        prop_assert_eq!(changes.replaced, (valid && kind == 1) || changes.demoted > 0);
                        let shown = |page| if base == ZERO { ZERO } else { base + page - start };
                        model.extend(pages.clone().map(|page| (page, shown(page))));
                    }
                    Err(status) => prop_assert_eq!(status, STATUS_NO_MEMORY),
                }
            } else {
                let (changes, _) = unmap(&mut tables, &mut memory, pages.clone());
                prop_assert_eq!(changes.replaced, valid);
                model.retain(|page, _| !pages.contains(page));
            }
            for page in 0..PAGES {
                prop_assert_eq!(memory.walk(root, page), model.get(&page).copied(), "page {}", page);
            }
            if model.is_empty() {
                prop_assert_eq!(memory.tables.len(), 1, "an empty space keeps its root only");
            }
        }
        memory.subject.driver_protection = 1;
        for table in tables.into_tables() {
            memory.destroy(table);
        }
        prop_assert!(memory.tables.is_empty());
    }
}

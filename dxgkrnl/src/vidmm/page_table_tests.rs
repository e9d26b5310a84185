//! Page tables against a model: tables in plain memory, walked as a GPU would.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wddm_ddi::km::DXGK_PTE_Union1;
use wddm_ddi::status::STATUS_NO_MEMORY;

use super::*;

/// A table: its level, and (valid, address) of every entry, `None` when never written.
type Stored = (u32, Vec<Option<(bool, u64)>>);

/// Tables in plain memory.
struct Memory {
    tables: BTreeMap<u64, Stored>,
    next: u64,
    shape: Shape,
    /// Tables that can still be had.
    room: usize,
    updates: usize,
}

impl Memory {
    fn new(shape: &Shape) -> Self {
        Self { tables: BTreeMap::new(), next: 1, shape: shape.clone(), room: usize::MAX, updates: 0 }
    }

    fn walk(&self, root: u64, page: u64) -> Option<u64> {
        let mut table = root;
        for level in (0..=self.shape.root()).rev() {
            let (stored, entries) = self.tables.get(&table).expect("a directory points at a table that was given back");
            assert_eq!(*stored, level);
            let entry = entries[self.shape.index(level, page) as usize];
            let (valid, address) = entry.expect("a table is reachable before it was initialised");
            if !valid {
                return None;
            }
            table = address;
        }
        Some(table)
    }
}

fn pte(valid: bool, address: u64) -> DXGK_PTE {
    let mut pte = DXGK_PTE::zeroed();
    pte.Bits.set_Valid(valid);
    pte.u1 = DXGK_PTE_Union1 { PageAddress: address };
    pte
}

impl TableMemory for Memory {
    type Table = u64;

    fn create(&mut self, level: u32) -> Result<u64, NTSTATUS> {
        self.room = self.room.checked_sub(1).ok_or(STATUS_NO_MEMORY)?;
        let id = self.next;
        self.next += 1;
        self.tables.insert(id, (level, vec![None; self.shape.entries(level) as usize]));
        Ok(id)
    }

    fn destroy(&mut self, table: u64) {
        self.tables.remove(&table).expect("given back twice");
        self.room = self.room.saturating_add(1);
    }

    fn link(&self, table: &u64) -> DXGK_PTE {
        pte(true, *table)
    }

    fn update(&mut self, update: Update<'_, u64>) -> Result<(), NTSTATUS> {
        self.updates += 1;
        let (level, entries) = self.tables.get_mut(update.table).expect("written after it was given back");
        assert_eq!(*level, update.level);
        assert_eq!(self.shape.index(*level, update.first_page), update.start);
        let all = match update.entries {
            Entries::Each(values) => values.to_vec(),
            Entries::Same(value, count) => vec![value; count as usize],
        };
        assert!(!all.is_empty());
        assert_eq!(
            update.phase == Phase::Initial,
            entries.iter().all(Option::is_none),
            "exactly the first update is the initial one"
        );
        if update.phase == Phase::Initial {
            assert_eq!(all.len(), entries.len(), "the initial update covers the table");
        }
        for (slot, value) in entries[update.start as usize..].iter_mut().zip(&all) {
            // SAFETY: both arms of the union are the same integer.
            *slot = Some((value.Bits.Valid(), unsafe { value.u1.PageAddress }));
        }
        Ok(())
    }
}

fn shape() -> Shape {
    Shape::new(vec![3, 2, 2, 2]).unwrap()
}

fn map(tables: &mut PageTables<u64>, memory: &mut Memory, pages: Range<u64>, base: u64) -> Result<Changes, NTSTATUS> {
    let mut changes = tables.prepare(pages.clone(), memory)?;
    let first = pages.start;
    changes.merge(tables.write(pages, &mut |page| pte(true, base + page - first), memory)?);
    Ok(changes)
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
    assert_eq!(map(&mut tables, &mut memory, 77..78, 500), Ok(Changes { replaced: false, added: true }));
    assert_eq!((memory.tables.len(), memory.updates), (4, 1 + 3 * 2 + 1));
    assert_eq!(memory.walk(root, 77), Some(500));
    let (changes, dead) = tables.unmap(77..78, &mut memory).unwrap();
    assert!(changes.replaced);
    assert_eq!(dead.len(), 3);
    assert_eq!(memory.walk(root, 77), None);
}

#[test]
fn unmapping_what_is_not_mapped_changes_and_writes_nothing() {
    let mut memory = Memory::new(&shape());
    let mut tables = PageTables::new(shape(), &mut memory).unwrap();
    map(&mut tables, &mut memory, 0..1, 9).unwrap();
    let before = memory.updates;
    assert_eq!(tables.unmap(1..512, &mut memory).unwrap(), (Changes::default(), vec![]));
    assert_eq!(memory.updates, before);
}

#[test]
fn a_failed_preparation_leaves_nothing_behind() {
    let mut memory = Memory::new(&shape());
    let mut tables = PageTables::new(shape(), &mut memory).unwrap();
    map(&mut tables, &mut memory, 0..1, 9).unwrap();
    let root = *tables.root();
    let count = memory.tables.len();
    for room in 0..6 {
        memory.room = room;
        assert_eq!(tables.prepare(0..100, &mut memory), Err(STATUS_NO_MEMORY), "room for {room}");
        assert_eq!((memory.tables.len(), memory.walk(root, 0)), (count, Some(9)));
    }
}

#[test]
fn pinned_tables_outlive_their_entries() {
    let mut memory = Memory::new(&shape());
    let mut tables = PageTables::new(shape(), &mut memory).unwrap();
    tables.prepare(0..16, &mut memory).unwrap();
    tables.pin(0..16);
    let count = memory.tables.len();
    map(&mut tables, &mut memory, 3..12, 0).unwrap();
    assert_eq!(tables.unmap(0..16, &mut memory).unwrap().1, Vec::<u64>::new());
    assert_eq!(memory.tables.len(), count);
}

#[test]
fn remapping_a_valid_page_reports_that_it_was_replaced() {
    let mut memory = Memory::new(&shape());
    let mut tables = PageTables::new(shape(), &mut memory).unwrap();
    map(&mut tables, &mut memory, 4..8, 10).unwrap();
    let changes = map(&mut tables, &mut memory, 7..9, 90).unwrap();
    assert!(changes.replaced && changes.added);
    assert_eq!(map(&mut tables, &mut memory, 9..10, 0), Ok(Changes { replaced: false, added: true }));
}

proptest! {
    #[test]
    fn any_sequence_of_maps_and_unmaps_translates_as_the_model_says(
        steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0..512u64, 1..120u64, 0..1000u64), 1..40),
        limit in 8..200usize,
    ) {
        let mut memory = Memory::new(&shape());
        let mut tables = PageTables::new(shape(), &mut memory).unwrap();
        memory.room = limit;
        let mut root = *tables.root();
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        for (add, leave, start, len, base) in steps {
            if leave && len < 20 {
                // All leave and come back, the root elsewhere.
                tables.say_evicted(&mut memory).unwrap();
                for table in tables.into_tables() {
                    memory.destroy(table);
                }
                prop_assert!(memory.tables.is_empty());
                tables = PageTables::new(shape(), &mut memory).unwrap();
                prop_assert_ne!(std::mem::replace(&mut root, *tables.root()), root);
                for (page, shown) in &model {
                    map(&mut tables, &mut memory, *page..page + 1, *shown).unwrap();
                }
            }
            let pages = start..(start + len).min(512);
            if add {
                let valid = pages.clone().any(|page| model.contains_key(&page));
                match map(&mut tables, &mut memory, pages.clone(), base) {
                    Ok(changes) => {
                        prop_assert_eq!(changes.replaced, valid);
                        model.extend(pages.clone().map(|page| (page, base + page - start)));
                    }
                    Err(status) => prop_assert_eq!(status, STATUS_NO_MEMORY),
                }
            } else {
                let valid = pages.clone().any(|page| model.contains_key(&page));
                let (changes, dead) = tables.unmap(pages.clone(), &mut memory).unwrap();
                prop_assert_eq!(changes.replaced, valid);
                for table in dead {
                    memory.destroy(table);
                }
                model.retain(|page, _| !pages.contains(page));
            }
            for page in 0..512 {
                prop_assert_eq!(memory.walk(root, page), model.get(&page).copied(), "page {}", page);
            }
            if model.is_empty() {
                prop_assert_eq!(memory.tables.len(), 1, "an empty space keeps its root only");
            }
        }
        for table in tables.into_tables() {
            memory.destroy(table);
        }
        prop_assert!(memory.tables.is_empty());
    }
}

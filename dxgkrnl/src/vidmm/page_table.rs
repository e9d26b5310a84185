//! Page tables: which updates follow from mapping and unmapping pages.
//!
//! The tree of tables is kept here and never read back from memory. A new table is filled with invalid entries before its
//! parent points at it; a table that has become empty is taken out of its parent first and only given back by the caller after
//! the GPU has forgotten its translations.
//!
//! What a leaf table covers can be mapped in three ways: by a table of 4-KiB pages, by one of 64-KiB pages, or by one large page in the
//! table above. As soon as part of a larger page is to show something else, it becomes a table of 4-KiB pages that says the same, and
//! stays one as long as it is not empty. Because unmapping must not fail for want of memory, the memory of that table is taken together
//! with the larger pages. The new table is complete before its parent points at it, so that every address translates to the same
//! all the while and nobody needs to be suspended. [support-for-64kb-pages: Single PTE mode]

use std::ops::Range;

use crate::table_shape::{PageSize, Shape};
use crate::vidmm::table_memory::{Dead, Entries, Fit, Phase, Subject, TableMemory, Update};
use crate::vidmm::table_tree::{self as tree, Effects, Node};
use wddm_ddi::Zeroed;
use wddm_ddi::km::DXGK_PTE;
use wddm_ddi::status::NTSTATUS;

/// The page tables of one address space.
pub(crate) struct PageTables<T> {
    shape: Shape,
    root: Node<T>,
}

impl<T> PageTables<T> {
    /// A root with nothing in it.
    pub(crate) fn new(shape: Shape, memory: &mut impl TableMemory<Table = T>) -> Result<Self, NTSTATUS> {
        let root = Node::create(&shape, shape.root(), 0, memory)?;
        Ok(Self { shape, root })
    }

    /// The root table.
    pub(crate) fn root(&self) -> &T {
        &self.root.table
    }

    /// Makes every table that `pages` need, so that the parts of them by leaf table can be written in pages as large as `fit` allows. On
    /// failure nothing has changed but the size of pages.
    pub(crate) fn prepare(
        &mut self,
        pages: Range<u64>,
        fit: &dyn Fn(Range<u64>) -> Fit,
        memory: &mut impl TableMemory<Table = T>,
        effects: &mut Effects<T>,
    ) -> Result<(), NTSTATUS> {
        let (shape, root) = (&self.shape, &mut self.root);
        let prepared = tree::prepare(shape, root, shape.root(), pages.clone(), fit, memory, effects);
        if prepared.is_err() {
            // The tables made so far translate nothing.
            self.prune(pages, memory, effects)?;
        }
        prepared
    }

    /// Keeps the leaf tables of `pages`, which exist, even when they are empty.
    pub(crate) fn pin(&mut self, pages: Range<u64>) {
        tree::pin(&self.shape, &mut self.root, self.shape.root(), pages);
    }

    /// Writes leaf entries of tables that [`PageTables::prepare`] has made; where there is none, nothing. `entry` gives the value for
    /// each page.
    pub(crate) fn write(
        &mut self,
        pages: Range<u64>,
        entry: &mut dyn FnMut(u64) -> DXGK_PTE,
        memory: &mut impl TableMemory<Table = T>,
        effects: &mut Effects<T>,
    ) -> Result<(), NTSTATUS> {
        tree::write(&self.shape, &mut self.root, self.shape.root(), pages, entry, memory, effects)
    }

    /// Has tables of 4-KiB pages say what larger pages say that `pages` touch. That takes no memory.
    pub(crate) fn demote(
        &mut self,
        pages: Range<u64>,
        memory: &mut impl TableMemory<Table = T>,
        effects: &mut Effects<T>,
    ) -> Result<(), NTSTATUS> {
        tree::demote_all(&self.shape, &mut self.root, self.shape.root(), pages, memory, effects)
    }

    /// The table of 4-KiB pages that has the entry of a page, if there is one, and which entry that is.
    pub(crate) fn leaf(&self, page: u64) -> Option<(&T, u32)> {
        tree::small(&self.shape, &self.root, page).map(|(table, _)| (table, self.shape.index(0, page)))
    }

    /// Entries of a table of 4-KiB pages.
    pub(crate) fn leaf_entries(&self) -> u32 {
        self.shape.entries(0)
    }

    /// The entries of `count` pages from `to` on have become those of as many from `from` on by another hand; all have tables of 4-KiB
    /// pages.
    pub(crate) fn note_copied(&mut self, from: u64, to: u64, count: u64, effects: &mut Effects<T>) {
        let (shape, root) = (&self.shape, &mut self.root);
        let is_valid = |page: u64| {
            let index = shape.index(0, page);
            let word = tree::small(shape, root, page).and_then(|(_, valid)| valid.get(index as usize / 64));
            word.is_some_and(|word| word & 1 << (index % 64) != 0)
        };
        let now: Vec<bool> = (from..from + count).map(is_valid).collect();
        for (page, now) in (to..).zip(now) {
            if let Some(before) = tree::note(shape, root, page, now) {
                effects.mark(before, now);
            }
        }
    }

    /// Takes out tables of `pages` that are empty.
    pub(crate) fn prune(
        &mut self,
        pages: Range<u64>,
        memory: &mut impl TableMemory<Table = T>,
        effects: &mut Effects<T>,
    ) -> Result<(), NTSTATUS> {
        let nothing = pages.start..pages.start;
        tree::clear(&self.shape, &mut self.root, self.shape.root(), pages, nothing, memory, effects)
    }

    /// Makes leaf entries invalid and takes out tables that became empty.
    pub(crate) fn unmap(
        &mut self,
        pages: Range<u64>,
        memory: &mut impl TableMemory<Table = T>,
        effects: &mut Effects<T>,
    ) -> Result<(), NTSTATUS> {
        tree::clear(&self.shape, &mut self.root, self.shape.root(), pages.clone(), pages, memory, effects)
    }

    /// Gives tables back that the GPU has forgotten.
    pub(crate) fn free_dead(
        &self,
        dead: Vec<Dead<T>>,
        memory: &mut impl TableMemory<Table = T>,
    ) -> Result<(), NTSTATUS> {
        let mut buried = Ok(());
        for Dead { table, stale } in dead {
            if let Some(first_page) = stale {
                let (table, pages, phase) = (&table, Some(PageSize::Medium), Phase::InUse);
                let entries = Entries::Same(DXGK_PTE::zeroed(), self.shape.medium_entries());
                let subject = Some(Subject::NONE);
                let gone = Update { table, level: 0, pages, start: 0, entries, phase, first_page, subject };
                buried = buried.and(memory.update(gone));
            }
            memory.destroy(table);
        }
        buried
    }

    /// Fills every table anew, as after its memory was lost. Leaf entries are invalid afterwards.
    pub(crate) fn rebuild(&mut self, memory: &mut impl TableMemory<Table = T>) -> Result<(), NTSTATUS> {
        tree::rebuild(&self.shape, &mut self.root, self.shape.root(), 0, memory)
    }

    /// Says of every table that it goes, of the root first; each says until then what it did, and nothing afterwards.
    pub(crate) fn notify_evicted(&self, memory: &mut impl TableMemory<Table = T>) -> Result<(), NTSTATUS> {
        tree::notify_evicted(&self.shape, &self.root, self.shape.root(), 0, memory)
    }

    /// True if a table is one of those that `wanted` names.
    pub(crate) fn any(&self, wanted: impl Fn(&T) -> bool) -> bool {
        tree::holds(&self.root, &wanted)
    }

    /// Takes all tables apart, for giving them back.
    pub(crate) fn into_tables(self) -> Vec<T> {
        let mut tables = Vec::new();
        tree::collect(self.root, &mut tables);
        tables
    }
}

#[cfg(test)]
#[path = "page_table_tests.rs"]
mod tests;

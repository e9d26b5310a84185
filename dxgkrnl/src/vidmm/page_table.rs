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

use wddm_ddi::Zeroed;
use wddm_ddi::km::DXGK_PTE;
use wddm_ddi::status::NTSTATUS;

use crate::vidmm::driver::Subject;
use crate::vidmm::table_tree::{self as tree, Node};

/// 4-KiB pages of a 64-KiB page.
pub(crate) const MEDIUM: u64 = 16;

/// Size of the pages that entries stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageSize {
    /// 4 KiB, in a leaf table.
    Small,
    /// 64 KiB, in a leaf table of such pages.
    Medium,
    /// As much as a leaf table covers, in the table above. [d3dukmdt: DXGK_PTE::LargePage]
    Large,
}

impl PageSize {
    /// 4-KiB pages from one entry of a leaf table to the next.
    pub(super) fn stride(self) -> u64 {
        if self == Self::Medium { MEDIUM } else { 1 }
    }
}

/// Which pages larger than 4 KiB may map a part of what a leaf table covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fit {
    /// 64-KiB pages.
    pub(crate) medium: bool,
    /// A new table of 64-KiB pages is worth the memory that it holds besides.
    pub(crate) pays: bool,
    /// One large page.
    pub(crate) large: bool,
}

/// Index bits of each level, leaf first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    bits: Vec<u32>,
}

impl Shape {
    /// Page tables of these levels; `None` if no 64-bit address could use them.
    pub(crate) fn new(bits: Vec<u32>) -> Option<Self> {
        let legal =
            bits.len() >= 2 && bits.iter().all(|bits| (1..=20).contains(bits)) && bits.iter().sum::<u32>() <= 51;
        legal.then_some(Self { bits })
    }

    /// Level of the root.
    pub(crate) fn root(&self) -> u32 {
        self.bits.len() as u32 - 1
    }

    /// Address bits.
    pub(crate) fn address_bits(&self) -> u32 {
        self.bits.iter().sum::<u32>() + 12
    }

    /// Entries of a table.
    pub(crate) fn entries(&self, level: u32) -> u32 {
        self.bits.get(level as usize).map_or(0, |bits| 1 << bits)
    }

    /// 4-KiB pages that a leaf table covers, which is what a large page is.
    pub(crate) fn large(&self) -> u64 {
        1 << self.shift(1)
    }

    /// Entries of a leaf table of 64-KiB pages.
    pub(super) fn medium_entries(&self) -> u32 {
        self.entries(0) / MEDIUM as u32
    }

    /// Entries of a table of `level`, with pages of this size if it is a leaf.
    pub(super) fn entries_of(&self, level: u32, pages: Option<PageSize>) -> u32 {
        if pages == Some(PageSize::Medium) { self.medium_entries() } else { self.entries(level) }
    }

    /// The pages that entry `index` of a table covers which `page` is somewhere below.
    pub(super) fn covered(&self, level: u32, page: u64) -> Range<u64> {
        let shift = self.shift(level);
        let start = (page >> shift) << shift;
        start..start + (1 << shift)
    }

    /// log2 of the pages that one entry of a table covers.
    pub(super) fn shift(&self, level: u32) -> u32 {
        self.bits.iter().take(level as usize).sum()
    }

    pub(super) fn index(&self, level: u32, page: u64) -> u32 {
        ((page >> self.shift(level)) & (u64::from(self.entries(level)) - 1)) as u32
    }

    /// The parts of `pages` by entry of a table of this level.
    pub(super) fn split(&self, level: u32, pages: Range<u64>) -> impl Iterator<Item = (u32, Range<u64>)> + use<> {
        let shift = self.shift(level);
        let mask = u64::from(self.entries(level)) - 1;
        let numbers = pages.start >> shift..=(pages.end - 1) >> shift;
        numbers.map(move |number| {
            let part = pages.start.max(number << shift)..pages.end.min((number + 1) << shift);
            ((number & mask) as u32, part)
        })
    }
}

/// Entries of one update.
#[derive(Clone, Copy)]
pub(crate) enum Entries<'a> {
    /// One value an entry.
    Each(&'a [DXGK_PTE]),
    /// The same value for so many entries.
    Same(DXGK_PTE, u32),
}

/// Where a table stands when it is changed. [d3dkmddi: DXGK_UPDATEPAGETABLEFLAGS]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is filled for the first time since it is in memory.
    Initial,
    /// It is in use.
    InUse,
    /// The memory is about to be used for another allocation.
    Eviction,
}

/// One change of one table. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE]
pub(crate) struct Update<'a, T> {
    /// The table.
    pub(crate) table: &'a T,
    /// Its level, 0 for leaves.
    pub(crate) level: u32,
    /// Pages that the entries are for: of a leaf table always, of any other for large pages. `None` for tables.
    pub(crate) pages: Option<PageSize>,
    /// First entry changed.
    pub(crate) start: u32,
    /// New contents.
    pub(crate) entries: Entries<'a>,
    /// Phase in the life of the table.
    pub(crate) phase: Phase,
    /// First page that the entries translate.
    pub(crate) first_page: u64,
    /// What they belong to, if it is not what is being written.
    pub(crate) subject: Option<Subject>,
}

/// Memory of page tables, and the way in which they are written.
pub(crate) trait TableMemory {
    /// A table in memory.
    type Table;
    /// Takes memory for a table of `level`; a leaf table is for pages of this size.
    fn create(&mut self, level: u32, pages: PageSize) -> Result<Self::Table, NTSTATUS>;
    /// Gives the memory of a table back.
    fn destroy(&mut self, table: Self::Table);
    /// The entry that points at a table, which if it is a leaf is for pages of this size.
    fn link(&self, table: &Self::Table, pages: PageSize) -> DXGK_PTE;
    /// Allocation and first page that the entries being written belong to.
    fn subject(&self) -> Subject;
    /// Changes entries.
    fn update(&mut self, update: Update<'_, Self::Table>) -> Result<(), NTSTATUS>;
}

/// What an operation changed, for the decision whether to flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Entries that were valid got another value.
    pub(crate) replaced: bool,
    /// Entries that were invalid became valid.
    pub(crate) added: bool,
    /// Large pages that were written.
    pub(crate) large: u64,
    /// 64-KiB pages that were written.
    pub(crate) medium: u64,
    /// Larger pages, or tables of them, that became tables of 4-KiB pages. Whatever a leaf table covers must be forgotten whole then.
    pub(crate) demoted: u64,
}

/// A table that is in use no more. It is given back when the GPU has forgotten it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dead<T> {
    /// The table.
    pub(crate) table: T,
    /// The first page that it covers, if it is one of 64-KiB pages with entries that are valid still.
    pub(super) stale: Option<u64>,
}

/// What operations did so far, for whoever has them take effect.
#[derive(Debug)]
pub(crate) struct Effects<T> {
    /// For the decision whether to flush.
    pub(crate) changes: Changes,
    /// Tables to [`PageTables::free_dead`] after that.
    pub(crate) dead: Vec<Dead<T>>,
}

impl<T> Default for Effects<T> {
    fn default() -> Self {
        Self { changes: Changes::default(), dead: Vec::new() }
    }
}

impl<T> Effects<T> {
    pub(super) fn mark(&mut self, before: bool, now: bool) {
        self.changes.replaced |= before;
        self.changes.added |= now && !before;
    }

    pub(super) fn end(&mut self, node: Node<T>) {
        let mut tables = Vec::new();
        tree::collect(node, &mut tables);
        self.dead.extend(tables.into_iter().map(|table| Dead { table, stale: None }));
    }
}

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

//! Page tables: which updates follow from mapping and unmapping pages.
//!
//! The tree of tables is kept here and never read back from memory. A new table is filled with invalid entries before its
//! parent points at it; a table that has become empty is taken out of its parent first and only given back by the caller after
//! the GPU has forgotten its translations.

use std::collections::BTreeMap;
use std::ops::Range;

use wddm_ddi::Zeroed;
use wddm_ddi::km::DXGK_PTE;
use wddm_ddi::status::NTSTATUS;

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

    /// log2 of the pages that one entry of a table covers.
    fn shift(&self, level: u32) -> u32 {
        self.bits.iter().take(level as usize).sum()
    }

    fn index(&self, level: u32, page: u64) -> u32 {
        ((page >> self.shift(level)) & (u64::from(self.entries(level)) - 1)) as u32
    }

    /// The parts of `pages` by entry of a table of this level.
    fn split(&self, level: u32, pages: Range<u64>) -> impl Iterator<Item = (u32, Range<u64>)> + use<> {
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
    /// Its memory is about to be used for something else.
    Eviction,
}

/// One change of one table. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE]
pub(crate) struct Update<'a, T> {
    /// The table.
    pub(crate) table: &'a T,
    /// Its level, 0 for leaves.
    pub(crate) level: u32,
    /// First entry changed.
    pub(crate) start: u32,
    /// New contents.
    pub(crate) entries: Entries<'a>,
    /// Where the table stands.
    pub(crate) phase: Phase,
    /// First page that the entries translate.
    pub(crate) first_page: u64,
}

/// Where tables live and how they are written.
pub(crate) trait TableMemory {
    /// A table in memory.
    type Table;
    /// Takes memory for a table of `level`.
    fn create(&mut self, level: u32) -> Result<Self::Table, NTSTATUS>;
    /// Gives the memory of a table back.
    fn destroy(&mut self, table: Self::Table);
    /// The entry that points at a table.
    fn link(&self, table: &Self::Table) -> DXGK_PTE;
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
}

impl Changes {
    /// Adds those of another operation.
    pub(crate) fn merge(&mut self, other: Self) {
        self.replaced |= other.replaced;
        self.added |= other.added;
    }
}

struct Node<T> {
    table: T,
    kind: Kind<T>,
}

enum Kind<T> {
    Leaf {
        /// One bit an entry.
        valid: Vec<u64>,
        /// Kept even when empty.
        pinned: bool,
    },
    Directory(BTreeMap<u32, Node<T>>),
}

impl<T> Node<T> {
    fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::Leaf { valid, pinned } => !pinned && valid.iter().all(|word| *word == 0),
            Kind::Directory(children) => children.is_empty(),
        }
    }

    fn create<M: TableMemory<Table = T>>(
        shape: &Shape,
        level: u32,
        page: u64,
        memory: &mut M,
    ) -> Result<Self, NTSTATUS> {
        let table = memory.create(level)?;
        let entries = shape.entries(level);
        let blank = Entries::Same(DXGK_PTE::zeroed(), entries);
        let covered = u64::from(entries) << shape.shift(level);
        let first_page = page & !(covered - 1);
        let update = Update { table: &table, level, start: 0, entries: blank, phase: Phase::Initial, first_page };
        if let Err(status) = memory.update(update) {
            memory.destroy(table);
            return Err(status);
        }
        let kind = match level {
            0 => Kind::Leaf { valid: vec![0; (entries as usize).div_ceil(64)], pinned: false },
            _ => Kind::Directory(BTreeMap::new()),
        };
        Ok(Self { table, kind })
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

    /// Makes every table that `pages` need. On failure nothing has changed.
    pub(crate) fn prepare(
        &mut self,
        pages: Range<u64>,
        memory: &mut impl TableMemory<Table = T>,
    ) -> Result<Changes, NTSTATUS> {
        let mut changes = Changes::default();
        if let Err(status) =
            prepare(&self.shape, &mut self.root, self.shape.root(), pages.clone(), memory, &mut changes)
        {
            // The tables made so far translate nothing, so nothing needs to be forgotten before they go.
            for table in self.prune(pages, memory)?.1 {
                memory.destroy(table);
            }
            return Err(status);
        }
        Ok(changes)
    }

    /// Keeps the leaf tables of `pages`, which exist, even when they are empty.
    pub(crate) fn pin(&mut self, pages: Range<u64>) {
        pin(&self.shape, &mut self.root, self.shape.root(), pages);
    }

    /// Writes leaf entries of tables that [`PageTables::prepare`] has made; where there is none, nothing. `entry` gives the value for
    /// each page.
    pub(crate) fn write(
        &mut self,
        pages: Range<u64>,
        entry: &mut dyn FnMut(u64) -> DXGK_PTE,
        memory: &mut impl TableMemory<Table = T>,
    ) -> Result<Changes, NTSTATUS> {
        let mut changes = Changes::default();
        write(&self.shape, &mut self.root, self.shape.root(), pages, entry, memory, &mut changes)?;
        Ok(changes)
    }

    /// Takes out tables of `pages` that are empty. The answer as for [`PageTables::unmap`].
    pub(crate) fn prune(
        &mut self,
        pages: Range<u64>,
        memory: &mut impl TableMemory<Table = T>,
    ) -> Result<(Changes, Vec<T>), NTSTATUS> {
        self.clear(pages.start..pages.start, pages, memory)
    }

    /// Makes leaf entries invalid and takes out tables that became empty. The answer says what to flush and which tables to
    /// give back afterwards.
    pub(crate) fn unmap(
        &mut self,
        pages: Range<u64>,
        memory: &mut impl TableMemory<Table = T>,
    ) -> Result<(Changes, Vec<T>), NTSTATUS> {
        self.clear(pages.clone(), pages, memory)
    }

    fn clear(
        &mut self,
        invalidate: Range<u64>,
        prune: Range<u64>,
        memory: &mut impl TableMemory<Table = T>,
    ) -> Result<(Changes, Vec<T>), NTSTATUS> {
        let mut sweep = Sweep { invalidate, changes: Changes::default(), dead: Vec::new() };
        if !prune.is_empty() {
            clear(&self.shape, &mut self.root, self.shape.root(), prune, memory, &mut sweep)?;
        }
        Ok((sweep.changes, sweep.dead))
    }

    /// Fills every table anew, as after its memory was lost. Leaf entries are invalid afterwards.
    pub(crate) fn rebuild(&mut self, memory: &mut impl TableMemory<Table = T>) -> Result<(), NTSTATUS> {
        rebuild(&self.shape, &mut self.root, self.shape.root(), 0, memory)
    }

    /// Says of every table that it goes, of the root first; each says until then what it did, and nothing afterwards.
    pub(crate) fn say_evicted(&self, memory: &mut impl TableMemory<Table = T>) -> Result<(), NTSTATUS> {
        say_evicted(&self.shape, &self.root, self.shape.root(), 0, memory)
    }

    /// Whether a table is one of those that `wanted` names.
    pub(crate) fn any(&self, wanted: impl Fn(&T) -> bool) -> bool {
        holds(&self.root, &wanted)
    }

    /// Takes all tables apart, for giving them back.
    pub(crate) fn into_tables(self) -> Vec<T> {
        let mut tables = Vec::new();
        collect(self.root, &mut tables);
        tables
    }
}

fn rebuild<M: TableMemory>(
    shape: &Shape,
    node: &mut Node<M::Table>,
    level: u32,
    first_page: u64,
    memory: &mut M,
) -> Result<(), NTSTATUS> {
    let blank = Entries::Same(DXGK_PTE::zeroed(), shape.entries(level));
    memory.update(Update { table: &node.table, level, start: 0, entries: blank, phase: Phase::Initial, first_page })?;
    match &mut node.kind {
        Kind::Leaf { valid, .. } => valid.fill(0),
        Kind::Directory(children) => {
            for (index, child) in children {
                let first_page = first_page + (u64::from(*index) << shape.shift(level));
                // A table is whole before its parent points at it.
                rebuild(shape, child, level - 1, first_page, memory)?;
                let link = [memory.link(&child.table)];
                let entries = Entries::Each(&link);
                memory.update(Update {
                    table: &node.table,
                    level,
                    start: *index,
                    entries,
                    phase: Phase::InUse,
                    first_page,
                })?;
            }
        }
    }
    Ok(())
}

fn say_evicted<M: TableMemory>(
    shape: &Shape,
    node: &Node<M::Table>,
    level: u32,
    first_page: u64,
    memory: &mut M,
) -> Result<(), NTSTATUS> {
    let blank = Entries::Same(DXGK_PTE::zeroed(), shape.entries(level));
    memory.update(Update {
        table: &node.table,
        level,
        start: 0,
        entries: blank,
        phase: Phase::Eviction,
        first_page,
    })?;
    let Kind::Directory(children) = &node.kind else { return Ok(()) };
    children.iter().try_for_each(|(index, child)| {
        say_evicted(shape, child, level - 1, first_page + (u64::from(*index) << shape.shift(level)), memory)
    })
}

fn holds<T>(node: &Node<T>, wanted: &impl Fn(&T) -> bool) -> bool {
    let below = |children: &BTreeMap<u32, Node<T>>| children.values().any(|child| holds(child, wanted));
    wanted(&node.table) || matches!(&node.kind, Kind::Directory(children) if below(children))
}

fn collect<T>(node: Node<T>, tables: &mut Vec<T>) {
    if let Kind::Directory(children) = node.kind {
        for child in children.into_values() {
            collect(child, tables);
        }
    }
    tables.push(node.table);
}

fn prepare<M: TableMemory>(
    shape: &Shape,
    node: &mut Node<M::Table>,
    level: u32,
    pages: Range<u64>,
    memory: &mut M,
    changes: &mut Changes,
) -> Result<(), NTSTATUS> {
    let Kind::Directory(children) = &mut node.kind else { return Ok(()) };
    for (index, part) in shape.split(level, pages) {
        if let Some(child) = children.get_mut(&index) {
            prepare(shape, child, level - 1, part, memory, changes)?;
            continue;
        }
        let child = Node::create(shape, level - 1, part.start, memory)?;
        let link = [memory.link(&child.table)];
        let first_page = (part.start >> shape.shift(level)) << shape.shift(level);
        let entries = Entries::Each(&link);
        let update = Update { table: &node.table, level, start: index, entries, phase: Phase::InUse, first_page };
        if let Err(status) = memory.update(update) {
            memory.destroy(child.table);
            return Err(status);
        }
        changes.added = true;
        prepare(shape, children.entry(index).or_insert(child), level - 1, part, memory, changes)?;
    }
    Ok(())
}

fn pin<T>(shape: &Shape, node: &mut Node<T>, level: u32, pages: Range<u64>) {
    match &mut node.kind {
        Kind::Leaf { pinned, .. } => *pinned = true,
        Kind::Directory(children) => {
            for (index, part) in shape.split(level, pages) {
                if let Some(child) = children.get_mut(&index) {
                    pin(shape, child, level - 1, part);
                }
            }
        }
    }
}

fn write<M: TableMemory>(
    shape: &Shape,
    node: &mut Node<M::Table>,
    level: u32,
    pages: Range<u64>,
    entry: &mut dyn FnMut(u64) -> DXGK_PTE,
    memory: &mut M,
    changes: &mut Changes,
) -> Result<(), NTSTATUS> {
    match &mut node.kind {
        Kind::Directory(children) => {
            for (index, part) in shape.split(level, pages) {
                if let Some(child) = children.get_mut(&index) {
                    write(shape, child, level - 1, part, entry, memory, changes)?;
                }
            }
            Ok(())
        }
        Kind::Leaf { valid, .. } => {
            let start = shape.index(0, pages.start);
            let values: Vec<DXGK_PTE> = pages.clone().map(entry).collect();
            for (index, value) in (start..).zip(&values) {
                changes.merge(mark(valid, index, value.Bits.Valid()));
            }
            let entries = Entries::Each(&values);
            memory.update(Update {
                table: &node.table,
                level,
                start,
                entries,
                phase: Phase::InUse,
                first_page: pages.start,
            })
        }
    }
}

fn mark(valid: &mut [u64], index: u32, now: bool) -> Changes {
    let Some(word) = valid.get_mut(index as usize / 64) else { return Changes::default() };
    let bit = 1u64 << (index % 64);
    let before = *word & bit != 0;
    *word = if now { *word | bit } else { *word & !bit };
    Changes { replaced: before, added: now && !before }
}

struct Sweep<T> {
    invalidate: Range<u64>,
    changes: Changes,
    dead: Vec<T>,
}

fn clear<M: TableMemory>(
    shape: &Shape,
    node: &mut Node<M::Table>,
    level: u32,
    pages: Range<u64>,
    memory: &mut M,
    sweep: &mut Sweep<M::Table>,
) -> Result<(), NTSTATUS> {
    let blank = DXGK_PTE::zeroed();
    match &mut node.kind {
        Kind::Directory(children) => {
            for (index, part) in shape.split(level, pages) {
                let Some(child) = children.get_mut(&index) else { continue };
                clear(shape, child, level - 1, part.clone(), memory, sweep)?;
                if !child.is_empty() {
                    continue;
                }
                let first_page = (part.start >> shape.shift(level)) << shape.shift(level);
                let entries = Entries::Same(blank, 1);
                memory.update(Update {
                    table: &node.table,
                    level,
                    start: index,
                    entries,
                    phase: Phase::InUse,
                    first_page,
                })?;
                sweep.changes.replaced = true;
                sweep.dead.extend(children.remove(&index).map(|child| child.table));
            }
            Ok(())
        }
        Kind::Leaf { valid, .. } => {
            let part = pages.start.max(sweep.invalidate.start)..pages.end.min(sweep.invalidate.end);
            if part.is_empty() {
                return Ok(());
            }
            let (start, count) = (shape.index(0, part.start), (part.end - part.start) as u32);
            let mut changes = Changes::default();
            for index in start..start + count {
                changes.merge(mark(valid, index, false));
            }
            if !changes.replaced {
                return Ok(());
            }
            sweep.changes.merge(changes);
            let entries = Entries::Same(blank, count);
            memory.update(Update {
                table: &node.table,
                level,
                start,
                entries,
                phase: Phase::InUse,
                first_page: part.start,
            })
        }
    }
}

#[cfg(test)]
#[path = "page_table_tests.rs"]
mod tests;

//! The tree of page tables of an address space, one node a table or a large page.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use crate::table_shape::{MEDIUM, PageSize, Shape};
use crate::vidmm::table_memory::{Changes, Dead, Entries, Fit, Phase, Subject, TableMemory, Update};
use wddm_ddi::Zeroed;
use wddm_ddi::km::DXGK_PTE;
use wddm_ddi::km::DXGK_PTE_Union1;
use wddm_ddi::status::NTSTATUS;

/// A table with what it names.
pub(super) struct Node<T> {
    pub(super) table: T,
    pub(super) kind: Kind<T>,
}

/// An entry of a larger page.
#[derive(Clone, Copy)]
pub(super) struct Known {
    entry: DXGK_PTE,
    subject: Subject,
}

impl Known {
    fn blank() -> Self {
        Self { entry: DXGK_PTE::zeroed(), subject: Subject::NONE }
    }

    fn is_valid(&self) -> bool {
        self.entry.Bits.Valid()
    }

    /// The entries of the small pages that it consists of.
    fn small(&self, pages: u64) -> Vec<DXGK_PTE> {
        let mut entry = self.entry;
        entry.Bits.set_LargePage(false);
        // SAFETY: both arms of the union are a 64-bit page number.
        let first = unsafe { entry.u1.PageAddress };
        let step = if entry.Bits.Zero() { 0 } else { 1 };
        let page = |page: u64| DXGK_PTE { u1: DXGK_PTE_Union1 { PageAddress: first + page * step }, ..entry };
        (0..pages).map(page).collect()
    }
}

/// Type of a node, with its entries.
pub(super) enum Kind<T> {
    /// A table of 4-KiB pages.
    Small {
        /// One bit an entry.
        valid: Vec<u64>,
        /// Kept even when empty.
        pinned: bool,
    },
    /// A table of 64-KiB pages.
    Medium {
        /// The entries of the table.
        entries: Vec<Known>,
        /// Memory of the table of 4-KiB pages that this may become.
        small: T,
    },
    /// A page, in the entry above. The table is one of 4-KiB pages that this may become; nothing was written to it yet.
    Large(Known),
    /// A table of tables.
    Directory(BTreeMap<u32, Node<T>>),
}

impl<T> Node<T> {
    fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::Small { valid, pinned } => !pinned && valid.iter().all(|word| *word == 0),
            Kind::Medium { entries, .. } => !entries.iter().any(Known::is_valid),
            Kind::Large(known) => !known.is_valid(),
            Kind::Directory(children) => children.is_empty(),
        }
    }

    /// Of a leaf table the size of its pages; `None` for any other and where there is no table.
    fn leaf(&self) -> Option<PageSize> {
        match &self.kind {
            Kind::Small { .. } => Some(PageSize::Small),
            Kind::Medium { .. } => Some(PageSize::Medium),
            Kind::Large(_) | Kind::Directory(_) => None,
        }
    }

    fn link<M: TableMemory<Table = T>>(&self, memory: &M) -> DXGK_PTE {
        memory.link(&self.table, self.leaf().unwrap_or(PageSize::Small))
    }

    /// Makes all of a table invalid. [d3dkmddi: DXGK_GPUMMUCAPS::ExplicitPageTableInvalidation]
    pub(super) fn blank<M: TableMemory<Table = T>>(
        &self,
        shape: &Shape,
        level: u32,
        first_page: u64,
        phase: Phase,
        memory: &mut M,
    ) -> Result<(), NTSTATUS> {
        let (table, pages) = (&self.table, self.leaf());
        let entries = Entries::Same(DXGK_PTE::zeroed(), shape.entries_of(level, pages));
        memory.update(Update { table, level, pages, start: 0, entries, phase, first_page, subject: None })
    }

    /// A table with invalid entries.
    pub(super) fn create<M: TableMemory<Table = T>>(
        shape: &Shape,
        level: u32,
        page: u64,
        memory: &mut M,
    ) -> Result<Self, NTSTATUS> {
        let table = memory.create(level, PageSize::Small)?;
        let kind = match level {
            0 => Kind::small(shape),
            _ => Kind::Directory(BTreeMap::new()),
        };
        Self { table, kind }.initialised(shape, level, page, memory)
    }

    /// Filled with invalid entries; on failure its memory is given back.
    fn initialised<M: TableMemory<Table = T>>(
        self,
        shape: &Shape,
        level: u32,
        page: u64,
        memory: &mut M,
    ) -> Result<Self, NTSTATUS> {
        let covered = u64::from(shape.entries(level)) << shape.shift(level);
        if let Err(status) = self.blank(shape, level, page & !(covered - 1), Phase::Initial, memory) {
            let mut tables = Vec::new();
            collect(self, &mut tables);
            tables.into_iter().for_each(|table| memory.destroy(table));
            return Err(status);
        }
        Ok(self)
    }

    /// What maps pages that a leaf table covers, with nothing mapped yet. Where there is memory for one table only, it is one of 4-KiB pages.
    fn create_leaf<M: TableMemory<Table = T>>(
        shape: &Shape,
        page: u64,
        fit: Fit,
        memory: &mut M,
    ) -> Result<Self, NTSTATUS> {
        let table = memory.create(0, PageSize::Small)?;
        if fit.large {
            return Ok(Self { table, kind: Kind::Large(Known::blank()) });
        }
        let node = match if fit.medium && fit.pays { memory.create(0, PageSize::Medium).ok() } else { None } {
            Some(medium) => {
                let entries = vec![Known::blank(); shape.medium_entries() as usize];
                Self { table: medium, kind: Kind::Medium { entries, small: table } }
            }
            None => Self { table, kind: Kind::small(shape) },
        };
        node.initialised(shape, 0, page, memory)
    }
}

impl<T> Kind<T> {
    fn small(shape: &Shape) -> Self {
        Self::Small { valid: vec![0; (shape.entries(0) as usize).div_ceil(64)], pinned: false }
    }
}

/// Fills a table and those below it anew.
pub(super) fn rebuild<M: TableMemory>(
    shape: &Shape,
    node: &mut Node<M::Table>,
    level: u32,
    first_page: u64,
    memory: &mut M,
) -> Result<(), NTSTATUS> {
    if let Kind::Large(known) = &mut node.kind {
        *known = Known::blank();
        return Ok(());
    }
    node.blank(shape, level, first_page, Phase::Initial, memory)?;
    match &mut node.kind {
        Kind::Large(_) => {}
        Kind::Small { valid, .. } => valid.fill(0),
        Kind::Medium { entries, .. } => entries.fill(Known::blank()),
        Kind::Directory(children) => {
            for (index, child) in children {
                let first_page = first_page + (u64::from(*index) << shape.shift(level));
                // A table is whole before its parent points at it.
                rebuild(shape, child, level - 1, first_page, memory)?;
                if !matches!(child.kind, Kind::Large(_)) {
                    let link = [child.link(memory)];
                    name(&node.table, level, *index, first_page, Entries::Each(&link), memory)?;
                }
            }
        }
    }
    Ok(())
}

/// Writes entries of a directory that name tables, or nothing.
fn name<M: TableMemory>(
    table: &M::Table,
    level: u32,
    start: u32,
    first_page: u64,
    entries: Entries<'_>,
    memory: &mut M,
) -> Result<(), NTSTATUS> {
    let (phase, subject) = (Phase::InUse, None);
    memory.update(Update { table, level, pages: None, start, entries, phase, first_page, subject })
}

/// Says of a table and those below it that they go.
pub(super) fn notify_evicted<M: TableMemory>(
    shape: &Shape,
    node: &Node<M::Table>,
    level: u32,
    first_page: u64,
    memory: &mut M,
) -> Result<(), NTSTATUS> {
    if let Kind::Large(_) = &node.kind {
        return Ok(());
    }
    node.blank(shape, level, first_page, Phase::Eviction, memory)?;
    let Kind::Directory(children) = &node.kind else { return Ok(()) };
    children.iter().try_for_each(|(index, child)| {
        notify_evicted(shape, child, level - 1, first_page + (u64::from(*index) << shape.shift(level)), memory)
    })
}

/// The table of 4-KiB pages that has the entry of a page, if there is one, and which of its entries are valid.
pub(super) fn small<'a, T>(shape: &Shape, root: &'a Node<T>, page: u64) -> Option<(&'a T, &'a [u64])> {
    let (mut node, mut level) = (root, shape.root());
    loop {
        match &node.kind {
            Kind::Directory(children) => (node, level) = (children.get(&shape.index(level, page))?, level - 1),
            Kind::Small { valid, .. } => return Some((&node.table, valid)),
            Kind::Medium { .. } | Kind::Large(_) => return None,
        }
    }
}

/// Notes whether the entry of a page is valid, and says whether it was. `None` if no table of 4-KiB pages has it.
pub(super) fn note<T>(shape: &Shape, root: &mut Node<T>, page: u64, now: bool) -> Option<bool> {
    let (mut node, mut level) = (root, shape.root());
    loop {
        match &mut node.kind {
            Kind::Directory(children) => (node, level) = (children.get_mut(&shape.index(level, page))?, level - 1),
            Kind::Small { valid, .. } => return Some(mark(valid, shape.index(0, page), now)),
            Kind::Medium { .. } | Kind::Large(_) => return None,
        }
    }
}

/// True if a table is among a node and those below it.
pub(super) fn holds<T>(node: &Node<T>, wanted: &impl Fn(&T) -> bool) -> bool {
    wanted(&node.table)
        || match &node.kind {
            Kind::Directory(children) => children.values().any(|child| holds(child, wanted)),
            Kind::Medium { small, .. } => wanted(small),
            Kind::Small { .. } | Kind::Large(_) => false,
        }
}

/// The memory of a node and of those below it.
pub(super) fn collect<T>(node: Node<T>, tables: &mut Vec<T>) {
    match node.kind {
        Kind::Directory(children) => children.into_values().for_each(|child| collect(child, tables)),
        Kind::Medium { small, .. } => tables.push(small),
        Kind::Small { .. } | Kind::Large(_) => {}
    }
    tables.push(node.table);
}

/// As [`super::page_table::PageTables::prepare`], for what is below a node.
pub(super) fn prepare<M: TableMemory>(
    shape: &Shape,
    node: &mut Node<M::Table>,
    level: u32,
    pages: Range<u64>,
    fit: &dyn Fn(Range<u64>) -> Fit,
    memory: &mut M,
    effects: &mut Effects<M::Table>,
) -> Result<(), NTSTATUS> {
    let Kind::Directory(children) = &mut node.kind else { return Ok(()) };
    for (index, part) in shape.split(level, pages) {
        let fit_here = if level == 1 { fit(part.clone()) } else { Fit::default() };
        let first_page = shape.covered(level, part.start).start;
        let child = match children.entry(index) {
            Entry::Occupied(child) => {
                let child = child.into_mut();
                let too_large = match &child.kind {
                    Kind::Medium { .. } => !fit_here.medium,
                    Kind::Large(_) => !fit_here.large,
                    Kind::Small { .. } | Kind::Directory(_) => false,
                };
                if too_large {
                    demote(shape, &node.table, child, index, first_page, memory, effects)?;
                }
                child
            }
            Entry::Vacant(place) => {
                let child = match level {
                    1 => Node::create_leaf(shape, part.start, fit_here, memory)?,
                    _ => Node::create(shape, level - 1, part.start, memory)?,
                };
                if !matches!(child.kind, Kind::Large(_)) {
                    let link = [child.link(memory)];
                    if let Err(status) = name(&node.table, level, index, first_page, Entries::Each(&link), memory) {
                        effects.end(child);
                        return Err(status);
                    }
                    effects.changes.added = true;
                }
                place.insert(child)
            }
        };
        prepare(shape, child, level - 1, part, fit, memory, effects)?;
    }
    Ok(())
}

/// As [`super::page_table::PageTables::demote`], for what is below a node.
pub(super) fn demote_all<M: TableMemory>(
    shape: &Shape,
    node: &mut Node<M::Table>,
    level: u32,
    pages: Range<u64>,
    memory: &mut M,
    effects: &mut Effects<M::Table>,
) -> Result<(), NTSTATUS> {
    let Kind::Directory(children) = &mut node.kind else { return Ok(()) };
    for (index, part) in shape.split(level, pages) {
        let Some(child) = children.get_mut(&index) else { continue };
        if level == 1 {
            demote(shape, &node.table, child, index, shape.covered(1, part.start).start, memory, effects)?;
        } else {
            demote_all(shape, child, level - 1, part, memory, effects)?;
        }
    }
    Ok(())
}

/// Has a table of 4-KiB pages say what larger pages said.
fn demote<M: TableMemory>(
    shape: &Shape,
    directory: &M::Table,
    node: &mut Node<M::Table>,
    index: u32,
    first_page: u64,
    memory: &mut M,
    effects: &mut Effects<M::Table>,
) -> Result<(), NTSTATUS> {
    let (known, size) = match std::mem::replace(&mut node.kind, Kind::small(shape)) {
        Kind::Medium { entries, small } => {
            let table = std::mem::replace(&mut node.table, small);
            effects.dead.push(Dead { table, stale: Some(first_page) });
            (entries, MEDIUM)
        }
        Kind::Large(known) => (vec![known], shape.large()),
        other => {
            node.kind = other;
            return Ok(());
        }
    };
    effects.changes.demoted += 1;
    effects.changes.replaced = true;
    node.blank(shape, 0, first_page, Phase::Initial, memory)?;
    for (first_page, known) in (first_page..).step_by(size as usize).zip(known).filter(|(_, known)| known.is_valid()) {
        let (values, start) = (known.small(size), shape.index(0, first_page));
        if let Kind::Small { valid, .. } = &mut node.kind {
            (start..).zip(&values).for_each(|(index, _)| _ = mark(valid, index, true));
        }
        memory.update(Update {
            table: &node.table,
            level: 0,
            pages: Some(PageSize::Small),
            start,
            entries: Entries::Each(&values),
            phase: Phase::InUse,
            first_page,
            subject: Some(known.subject),
        })?;
    }
    let link = [node.link(memory)];
    name(directory, 1, index, first_page, Entries::Each(&link), memory)
}

/// Keeps leaf tables even when they are empty.
pub(super) fn pin<T>(shape: &Shape, node: &mut Node<T>, level: u32, pages: Range<u64>) {
    match &mut node.kind {
        Kind::Small { pinned, .. } => *pinned = true,
        Kind::Medium { .. } | Kind::Large(_) => debug_assert!(false, "only tables of 4-KiB pages are pinned"),
        Kind::Directory(children) => {
            for (index, part) in shape.split(level, pages) {
                if let Some(child) = children.get_mut(&index) {
                    pin(shape, child, level - 1, part);
                }
            }
        }
    }
}

/// As [`super::page_table::PageTables::write`], for what is below a node.
pub(super) fn write<M: TableMemory>(
    shape: &Shape,
    node: &mut Node<M::Table>,
    level: u32,
    pages: Range<u64>,
    entry: &mut dyn FnMut(u64) -> DXGK_PTE,
    memory: &mut M,
    effects: &mut Effects<M::Table>,
) -> Result<(), NTSTATUS> {
    let (first_page, size) = (pages.start, node.leaf());
    let (start, values): (u32, Vec<DXGK_PTE>) = match &mut node.kind {
        Kind::Directory(children) => {
            for (index, part) in shape.split(level, pages) {
                match children.get_mut(&index) {
                    Some(Node { kind: Kind::Large(known), .. }) => {
                        write_large(&node.table, known, index, entry(part.start), part.start, memory, effects)?;
                    }
                    Some(child) => write(shape, child, level - 1, part, entry, memory, effects)?,
                    None => {}
                }
            }
            return Ok(());
        }
        Kind::Large(_) => return Ok(()),
        Kind::Small { valid, .. } => {
            let (start, values) = (shape.index(0, pages.start), pages.map(entry).collect::<Vec<_>>());
            for (index, value) in (start..).zip(&values) {
                let now = value.Bits.Valid();
                effects.mark(mark(valid, index, now), now);
            }
            (start, values)
        }
        Kind::Medium { entries, .. } => {
            let start = shape.index(0, pages.start) / MEDIUM as u32;
            let values: Vec<DXGK_PTE> = pages.step_by(MEDIUM as usize).map(entry).collect();
            for (place, (number, value)) in entries.iter_mut().skip(start as usize).zip((0..).zip(&values)) {
                effects.mark(place.is_valid(), value.Bits.Valid());
                *place = Known { entry: *value, subject: memory.subject().at(first_page + number * MEDIUM) };
            }
            effects.changes.medium += values.len() as u64;
            (start, values)
        }
    };
    let (table, pages, entries, phase) = (&node.table, size, Entries::Each(&values), Phase::InUse);
    memory.update(Update { table, level, pages, start, entries, phase, first_page, subject: None })
}

/// Writes a large page, which is all that its entry covers.
fn write_large<M: TableMemory>(
    table: &M::Table,
    known: &mut Known,
    start: u32,
    mut entry: DXGK_PTE,
    first_page: u64,
    memory: &mut M,
    effects: &mut Effects<M::Table>,
) -> Result<(), NTSTATUS> {
    entry.Bits.set_LargePage(true);
    effects.mark(known.is_valid(), entry.Bits.Valid());
    effects.changes.large += 1;
    *known = Known { entry, subject: memory.subject().at(first_page) };
    let (pages, entries, phase) = (Some(PageSize::Large), Entries::Each(std::slice::from_ref(&entry)), Phase::InUse);
    memory.update(Update { table, level: 1, pages, start, entries, phase, first_page, subject: None })
}

/// Sets whether an entry is valid; the answer is whether it was.
fn mark(valid: &mut [u64], index: u32, now: bool) -> bool {
    let Some(word) = valid.get_mut(index as usize / 64) else { return false };
    let bit = 1u64 << (index % 64);
    let before = *word & bit != 0;
    *word = if now { *word | bit } else { *word & !bit };
    before
}

/// True if making `pages` invalid would leave part of a larger page that is valid.
fn cuts<T>(shape: &Shape, node: &Node<T>, pages: &Range<u64>) -> bool {
    match &node.kind {
        Kind::Large(known) => known.is_valid() && *pages != shape.covered(1, pages.start),
        Kind::Medium { entries, .. } => [pages.start, pages.end].into_iter().any(|edge| {
            let entry = entries.get((shape.index(0, edge) / MEDIUM as u32) as usize);
            !edge.is_multiple_of(MEDIUM) && entry.is_some_and(Known::is_valid)
        }),
        Kind::Small { .. } | Kind::Directory(_) => false,
    }
}

/// Takes tables out that cover only some of `pages` and are empty, once those to `invalidate` are invalid.
pub(super) fn clear<M: TableMemory>(
    shape: &Shape,
    node: &mut Node<M::Table>,
    level: u32,
    pages: Range<u64>,
    invalidate: Range<u64>,
    memory: &mut M,
    effects: &mut Effects<M::Table>,
) -> Result<(), NTSTATUS> {
    let Kind::Directory(children) = &mut node.kind else { return Ok(()) };
    if pages.is_empty() {
        return Ok(());
    }
    for (index, part) in shape.split(level, pages) {
        let Some(child) = children.get_mut(&index) else { continue };
        let first_page = shape.covered(level, part.start).start;
        let cut = part.start.max(invalidate.start)..part.end.min(invalidate.end);
        let was_empty = child.is_empty();
        if level > 1 {
            clear(shape, child, level - 1, part, invalidate.clone(), memory, effects)?;
        } else if !cut.is_empty() {
            if cuts(shape, child, &cut) {
                demote(shape, &node.table, child, index, first_page, memory, effects)?;
            }
            clear_leaf(shape, child, cut, memory, effects)?;
        }
        if !child.is_empty() {
            continue;
        }
        if !(was_empty && matches!(child.kind, Kind::Large(_))) {
            let nothing = Entries::Same(DXGK_PTE::zeroed(), 1);
            name(&node.table, level, index, first_page, nothing, memory)?;
            effects.changes.replaced = true;
        }
        if let Some(child) = children.remove(&index) {
            effects.end(child);
        }
    }
    Ok(())
}

/// Makes pages of a leaf table invalid, or a large page whose entry the caller makes invalid.
fn clear_leaf<M: TableMemory>(
    shape: &Shape,
    node: &mut Node<M::Table>,
    part: Range<u64>,
    memory: &mut M,
    effects: &mut Effects<M::Table>,
) -> Result<(), NTSTATUS> {
    let (first, pages) = (shape.index(0, part.start), (part.end - part.start) as u32);
    let (start, count, changed) = match &mut node.kind {
        Kind::Directory(_) => return Ok(()),
        Kind::Large(known) => {
            *known = Known::blank();
            return Ok(());
        }
        Kind::Small { valid, .. } => {
            (first, pages, (first..first + pages).fold(false, |any, index| any | mark(valid, index, false)))
        }
        Kind::Medium { entries, .. } => {
            // What is cut is invalid, so that it may as well be written whole.
            let (start, end) = (first / MEDIUM as u32, (first + pages).div_ceil(MEDIUM as u32));
            let places = entries.get_mut(start as usize..end as usize).unwrap_or_default();
            let changed = places.iter().any(Known::is_valid);
            places.fill(Known::blank());
            (start, end - start, changed)
        }
    };
    if !changed {
        return Ok(());
    }
    effects.changes.replaced = true;
    let first_page = shape.covered(1, part.start).start + u64::from(start) * node.leaf().map_or(1, PageSize::stride);
    let (table, pages, phase) = (&node.table, node.leaf(), Phase::InUse);
    let entries = Entries::Same(DXGK_PTE::zeroed(), count);
    memory.update(Update { table, level: 0, pages, start, entries, phase, first_page, subject: None })
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
        collect(node, &mut tables);
        self.dead.extend(tables.into_iter().map(|table| Dead { table, stale: None }));
    }
}

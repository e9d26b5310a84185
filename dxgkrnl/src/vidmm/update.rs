//! Changes of mappings in regions that were reserved as zero, many at a time, as tiled resources need them.
//!
//! They are checked when they are asked for and carried out later, in the order of somebody's work. An entry goes from what it showed to
//! what it shall show without being invalid in between: another context may be reading what is replaced. All changes of a request
//! are made or none, and the GPU forgets old translations once, at the end. [d3dkmthk: D3DKMTUpdateGpuVirtualAddress]

use std::ops::Range;

use wddm_ddi::Zeroed;
use wddm_ddi::km::DXGK_PTE;
use wddm_ddi::status::*;

use crate::refusal::{Failure, refused};
use crate::vidmm::allocation::Allocation;
use crate::vidmm::driver::TableWriter;
use crate::vidmm::ids::{AllocationId, SpaceId};
use crate::vidmm::mapping::{self, entry, shown_by};
use crate::vidmm::memory::Memory;
use crate::vidmm::request::MemoryRequest;
use crate::vidmm::table::Table;
use crate::vidmm::table_memory::{Fit, Subject};
use crate::vidmm::table_tree::Effects;
use crate::vidmm::va_space::{Access, Mapping, RegionName, Source, VaSpace};
use nt::page::PAGE_SIZE;

/// Most pages that one request changes: each costs a page-table entry.
const PAGES_MAX: u64 = (1 << 30) / PAGE_SIZE;

/// Whole pages of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// First address.
    pub(crate) at: u64,
    /// Pages, at least one.
    pub(crate) pages: u64,
}

impl Span {
    /// The range of so many bytes.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if it is empty or not of whole pages.
    pub(crate) fn new(at: u64, len: u64) -> Result<Self, Failure> {
        let whole = at.is_multiple_of(PAGE_SIZE) && len.is_multiple_of(PAGE_SIZE) && len != 0;
        if whole && at.checked_add(len).is_some() {
            Ok(Self { at, pages: len / PAGE_SIZE })
        } else {
            let why = format!(
                "the range of an operation at {at:#x} with SizeInBytes {len:#x} is no whole pages of {PAGE_SIZE:#x}, at least one"
            );
            Err(refused(STATUS_INVALID_PARAMETER, why))
        }
    }

    fn len(self) -> u64 {
        self.pages * PAGE_SIZE
    }

    fn numbers(self) -> Range<u64> {
        self.at / PAGE_SIZE..self.at / PAGE_SIZE + self.pages
    }
}

/// Change of a range of addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Pages `first` to `first + part` of an allocation, over and over.
    Show { to: Span, allocation: AllocationId, user: u64, first: u64, part: u64, access: Access },
    /// Zeros.
    Zero(Span),
    /// Nothing: every access faults.
    Hide(Span),
    /// What another range of the same size shows, which may intersect it.
    Copy { from: u64, to: Span },
}

impl Change {
    /// Shows `part` bytes of an allocation from a byte on, over and over; 0 for as many as the range has.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for what is not whole pages, a part that does not fill the range or leaves the allocation.
    pub(crate) fn show(
        to: Span,
        allocation: &Allocation,
        (offset, part): (u64, u64),
        access: Access,
    ) -> Result<Self, Failure> {
        let part = if part == 0 { to.len() } else { part };
        let whole = offset.is_multiple_of(PAGE_SIZE) && part.is_multiple_of(PAGE_SIZE);
        let inside = offset.checked_add(part).is_some_and(|end| end <= allocation.size());
        if !whole || !inside || !to.len().is_multiple_of(part) {
            let why = format!(
                "AllocationOffsetInBytes {offset:#x} with {part:#x} bytes for SizeInBytes {:#x}: expected are whole pages that fill the range a whole number of times, \
                 inside the allocation, for which DxgkDdiCreateAllocation answered Size {:#x}, rounded up to whole pages",
                to.len(),
                allocation.size()
            );
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let (first, part) = (offset / PAGE_SIZE, part / PAGE_SIZE);
        Ok(Self::Show { to, allocation: allocation.id(), user: allocation.user(), first, part, access })
    }

    fn to(&self) -> Span {
        match self {
            Self::Show { to, .. } | Self::Copy { to, .. } => *to,
            Self::Zero(to) | Self::Hide(to) => *to,
        }
    }

    /// Pages around everything that it reads or changes, whose page tables may change.
    fn touched(&self) -> Range<u64> {
        let to = self.to().numbers();
        match self {
            Self::Copy { from, .. } => {
                let from = from / PAGE_SIZE..from / PAGE_SIZE + self.to().pages;
                to.start.min(from.start)..to.end.max(from.end)
            }
            _ => to,
        }
    }
}

/// Changes that were checked.
#[derive(Debug)]
pub(crate) struct Update {
    changes: Vec<Change>,
    region: RegionName,
    source: Option<RegionName>,
}

impl Update {
    /// As [`VidMm::check_update`](crate::vidmm::VidMm::check_update).
    ///
    /// # Errors
    /// See there.
    pub(super) fn new(space: &VaSpace, changes: Vec<Change>) -> Result<Self, Failure> {
        let (mut region, mut source) = (None, None);
        let mut pages: u64 = 0;
        for change in &changes {
            let to = change.to();
            check_region(space, to.at, to.len(), &mut region)?;
            if let Change::Copy { from, .. } = change {
                check_region(space, *from, to.len(), &mut source)?;
            }
            pages = pages.saturating_add(to.pages);
        }
        if pages > PAGES_MAX {
            let why = format!("the operations change {pages:#x} pages, and one request may change {PAGES_MAX:#x}");
            return Err(refused(STATUS_NO_MEMORY, why));
        }
        let region = region.ok_or(STATUS_INVALID_PARAMETER)?;
        Ok(Self { changes, region, source })
    }

    /// Number of changes.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Those whose regions are still there.
    fn alive<'a>(&'a self, space: &'a VaSpace) -> impl Iterator<Item = &'a Change> {
        self.changes.iter().filter(|change| {
            let to = change.to();
            let from = match change {
                Change::Copy { from, .. } => space.zero_region(*from, to.len()) == self.source,
                _ => true,
            };
            from && space.zero_region(to.at, to.len()) == Some(self.region)
        })
    }
}

/// Checks that a range lies in one region that was reserved as zero, the one of the operations before it.
fn check_region(space: &VaSpace, at: u64, len: u64, known: &mut Option<RegionName>) -> Result<(), Failure> {
    let wrong = |why: &str| {
        refused(
            STATUS_INVALID_PARAMETER,
            format!("the range of an operation at {at:#x} with SizeInBytes {len:#x} {why}"),
        )
    };
    let found = space.zero_region(at, len).ok_or_else(|| {
        wrong("does not lie in one region that was reserved with D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO")
    })?;
    match *known.get_or_insert(found) == found {
        true => Ok(()),
        false => Err(wrong("lies in another region than those of the operations before it")),
    }
}

/// Pages from an address on, and what they shall show.
type Piece = (Span, Option<Mapping>);

impl Memory {
    /// As [`VidMm::update_gpu_address`](crate::vidmm::VidMm::update_gpu_address), in one address space.
    ///
    /// # Errors
    /// See there.
    pub(crate) fn update(&mut self, id: SpaceId, update: &Update, request: &mut MemoryRequest) -> Result<(), NTSTATUS> {
        let space = self.spaces.get(&id).ok_or(STATUS_DEVICE_REMOVED)?;
        let changes: Vec<Change> = update.alive(&space.va).copied().collect();
        let (Some(start), Some(end)) = (
            changes.iter().map(|change| change.touched().start).min(),
            changes.iter().map(|change| change.touched().end).max(),
        ) else {
            return Ok(());
        };
        let mut done = self.prepare(id, &changes, start..end, request)?;
        let mut replaced = Vec::new();
        for change in &changes {
            let pieces = self.pieces(id, change);
            let copied = match change {
                Change::Copy { from, to } => {
                    // A copy that is begun and not ended changes entries that are not known.
                    done.changes.replaced = true;
                    self.copy_entries(id, from / PAGE_SIZE, to.numbers().start, to.pages, &mut done)?
                }
                _ => false,
            };
            for piece in pieces {
                self.note(id, piece, &mut replaced)?;
                if !copied {
                    self.write(id, piece, &mut done)?;
                }
            }
        }
        self.forget_unused_spaces(id, &replaced);
        self.settle(id, start..end, done)
    }

    /// Makes the page tables that the changes need, all or none. What is evicted for them may take empty tables along, so that all of
    /// them are looked for again.
    fn prepare(
        &mut self,
        id: SpaceId,
        changes: &[Change],
        all: Range<u64>,
        request: &mut MemoryRequest,
    ) -> Result<Effects<Table>, NTSTATUS> {
        let engine = self.spaces.get(&id).map_or(0, |space| space.engine);
        let segment = self.table_segment(engine);
        let mut done = Effects::default();
        loop {
            let before = self.segments.free_bytes(segment);
            let failed = match self.try_prepare(id, changes, &mut done) {
                Ok(()) => return Ok(done),
                Err(STATUS_GRAPHICS_NO_VIDEO_MEMORY) => match self.reclaim_some_again(segment, before, request) {
                    Ok(true) => continue,
                    Ok(false) => STATUS_NO_MEMORY,
                    Err(status) => status,
                },
                Err(status) => status,
            };
            // What the GPU may have seen of tables that come and go is forgotten.
            done.changes.replaced = true;
            self.settle(id, all, done)?;
            return Err(failed);
        }
    }

    /// Larger pages become tables of 4-KiB pages first: entries are then replaced one by one while the GPU may be reading them.
    fn try_prepare(&mut self, id: SpaceId, changes: &[Change], done: &mut Effects<Table>) -> Result<(), NTSTATUS> {
        let Self { driver, segments, spaces, .. } = self;
        let space = spaces.get_mut(&id).ok_or(STATUS_DEVICE_REMOVED)?;
        let Some(tables) = &mut space.tables else { return Ok(()) };
        let (engine, process, paging_process) = (space.engine, space.process, space.paging_process);
        let mut writer = TableWriter { engine, driver, segments, process, paging_process, subject: Subject::NONE };
        changes.iter().try_for_each(|change| {
            let pages = change.to().numbers();
            match change {
                Change::Hide(_) => tables.demote(pages, &mut writer, done),
                _ => tables.prepare(pages, &|_| Fit::default(), &mut writer, done),
            }
        })
    }

    /// What each part of a range shall show, as the space is now.
    fn pieces(&self, id: SpaceId, change: &Change) -> Vec<Piece> {
        match *change {
            Change::Show { to, allocation, user, first, part, access } => {
                // An allocation that is gone shows nothing wherever it was mapped.
                if !self.is_there_for(allocation, user) {
                    return vec![(to, None)];
                }
                let mapping =
                    Mapping { pages: part, source: Source::Allocation { id: allocation, user, first }, access };
                let times = 0..to.pages / part;
                times.map(|time| (Span { at: to.at + time * part * PAGE_SIZE, pages: part }, Some(mapping))).collect()
            }
            Change::Zero(to) => {
                vec![(to, Some(Mapping { pages: to.pages, source: Source::Zero, access: Access::READ }))]
            }
            Change::Hide(to) => vec![(to, None)],
            Change::Copy { from, to } => {
                let shown = self.spaces.get(&id).map(|space| space.va.within(from, to.pages)).unwrap_or_default();
                let mut pieces = Vec::with_capacity(shown.len());
                let mut next = to.at;
                let end = to.at + to.len();
                for (at, mapping) in shown {
                    let at = at - from + to.at;
                    pieces.extend(gap(next, at));
                    pieces.push((Span { at, pages: mapping.pages }, Some(mapping)));
                    next = at + mapping.pages * PAGE_SIZE;
                }
                pieces.extend(gap(next, end));
                pieces
            }
        }
    }

    /// Part of a region shows something else from now on. What was there is added to `replaced`.
    fn note(&mut self, id: SpaceId, (to, mapping): Piece, replaced: &mut Vec<(u64, Mapping)>) -> Result<(), NTSTATUS> {
        let Self { spaces, allocations, .. } = self;
        let space = spaces.get_mut(&id).ok_or(STATUS_DEVICE_REMOVED)?;
        replaced.extend(space.va.remove(to.at, to.pages));
        if let Some(mapping) = mapping {
            space.va.map(to.at, mapping);
            if let Source::Allocation { id: allocation, .. } = mapping.source
                && let Some(state) = allocations.get_mut(&allocation)
            {
                state.spaces.insert(id);
            }
        }
        Ok(())
    }

    /// Writes the entries for that. The GPU may go on using what was there until [`Memory::settle`].
    fn write(&mut self, id: SpaceId, (to, mapping): Piece, done: &mut Effects<Table>) -> Result<(), NTSTATUS> {
        let Self { driver, segments, spaces, allocations, fence_pages, .. } = self;
        let space = spaces.get_mut(&id).ok_or(STATUS_DEVICE_REMOVED)?;
        // Written when the tables come back.
        let Some(tables) = &mut space.tables else { return Ok(()) };
        let shows = mapping.map(|mapping| (shown_by(allocations, fence_pages, to.at, mapping), mapping.access));
        let subject = shows.as_ref().map_or(Subject::NONE, |((_, subject), _)| *subject);
        let (engine, process, paging_process) = (space.engine, space.process, space.paging_process);
        let mut writer = TableWriter { engine, driver, segments, process, paging_process, subject };
        let first = to.numbers().start;
        let mut value = |page: u64| match &shows {
            Some(((shown, _), access)) => entry(driver, shown, page - first, *access),
            None => DXGK_PTE::zeroed(),
        };
        tables.write(to.numbers(), &mut value, &mut writer, done)
    }

    /// Gives tables of a range back that became empty; when the call returns, the GPU uses nothing any more that was replaced.
    fn settle(&mut self, id: SpaceId, pages: Range<u64>, mut done: Effects<Table>) -> Result<(), NTSTATUS> {
        let Self { driver, segments, spaces, counts, .. } = self;
        let space = spaces.get_mut(&id).ok_or(STATUS_DEVICE_REMOVED)?;
        let Some(tables) = &mut space.tables else { return Ok(()) };
        let (engine, process, paging_process) = (space.engine, space.process, space.paging_process);
        let mut writer = TableWriter { engine, driver, segments, process, paging_process, subject: Subject::NONE };
        let pruned = tables.prune(pages.clone(), &mut writer, &mut done);
        let range = mapping::Range { at: pages.start * PAGE_SIZE, pages: pages.end - pages.start };
        let settled = pruned.and(mapping::settle(tables, &mut writer, range, done, counts));
        settled.and(self.finish_tables())
    }
}

/// Nothing between two addresses, if there is anything between them.
fn gap(from: u64, to: u64) -> Option<Piece> {
    (from < to).then(|| (Span { at: from, pages: (to - from) / PAGE_SIZE }, None))
}

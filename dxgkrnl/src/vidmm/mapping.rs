//! Mappings of an address space, and the page-table entries that show them.
//!
//! A mapping is noted in the regions of its space ([`VaSpace`](crate::vidmm::va_space::VaSpace)). Its entries show what the mapped memory is at the
//! moment: nothing while an allocation is not resident, and where the bytes are otherwise.

use std::collections::BTreeMap;

use crate::vidmm::counts::ResidencyCounts;
use crate::vidmm::driver::{Driver, TableWriter};
use crate::vidmm::fence_place::FencePageState;
use crate::vidmm::ids::{AllocationId, FencePageId, SpaceId};
use crate::vidmm::location::Location;
use crate::vidmm::memory::{AllocationState, Memory, Space, flush_of};
use crate::vidmm::page_size::{Shown, Sizes};
use crate::vidmm::page_table::PageTables;
use crate::vidmm::request::MemoryRequest;
use crate::vidmm::segment::Segments;
use crate::vidmm::table::Table;
use crate::vidmm::table_memory::{Fit, Subject};
use crate::vidmm::table_tree::Effects;
use crate::vidmm::va_space::{Access, Mapping, Refused, Source};
use nt::page::PAGE_SIZE;
use wddm_ddi::Zeroed;
use wddm_ddi::km::{DXGK_PAGE_TABLE_LEVEL_DESC, DXGK_PTE, DXGK_PTE_Union1};
use wddm_ddi::status::*;

impl Memory {
    /// Makes page tables exist for a range for good.
    pub(crate) fn pin(&mut self, id: SpaceId, at: u64, len: u64) -> Result<(), NTSTATUS> {
        let Self { driver, segments, spaces, .. } = self;
        let space = spaces.get_mut(&id).ok_or(STATUS_INVALID_PARAMETER)?;
        let (engine, process, paging_process) = (space.engine, space.process, space.paging_process);
        let mut writer = TableWriter { engine, driver, segments, process, paging_process, subject: Subject::NONE };
        let pages = at / PAGE_SIZE..(at + len) / PAGE_SIZE;
        let tables = space.tables.as_mut().ok_or(STATUS_INVALID_PARAMETER)?;
        // Nothing else is in this range, so that nothing has to be forgotten or given back.
        tables.prepare(pages.clone(), &|_| Fit::default(), &mut writer, &mut Effects::default())?;
        tables.pin(pages);
        Ok(())
    }

    /// Writes the page-table entries of a mapping, with eviction for page tables if there is no memory for them. What cannot be accessed at the
    /// moment stays invalid.
    ///
    /// # Errors
    /// No memory for page tables; nothing is shown then.
    pub(crate) fn show(
        &mut self,
        id: SpaceId,
        at: u64,
        mapping: Mapping,
        request: &mut MemoryRequest,
    ) -> Result<(), NTSTATUS> {
        let engine = self.spaces.get(&id).map_or(0, |space| space.engine);
        let segment = self.table_segment(engine);
        loop {
            let before = self.segments.free_bytes(segment);
            match self.try_show(id, at, mapping) {
                Err(STATUS_GRAPHICS_NO_VIDEO_MEMORY) if self.reclaim_some_again(segment, before, request)? => {}
                Err(STATUS_GRAPHICS_NO_VIDEO_MEMORY) => return Err(STATUS_NO_MEMORY),
                result => return result,
            }
        }
    }

    /// True if page tables lie in memory that is lost outside D0.
    fn loses_tables(&self, hibernates: bool) -> bool {
        let segments =
            |level: &DXGK_PAGE_TABLE_LEVEL_DESC| [level.PageTableSegmentId, level.PagingProcessPageTableSegmentId];
        self.driver.levels.iter().flat_map(segments).any(|segment| self.segments.loses(segment, hibernates))
    }

    /// Writes the page tables anew that were lost outside D0.
    pub(crate) fn rebuild_lost_tables(&mut self, hibernates: bool) -> Result<(), NTSTATUS> {
        if self.loses_tables(hibernates) { self.rebuild_tables() } else { Ok(()) }
    }

    /// Writes every page table anew, that of the paging process first.
    pub(crate) fn rebuild_tables(&mut self) -> Result<(), NTSTATUS> {
        let ids: Vec<SpaceId> = self.spaces.keys().copied().collect();
        for id in ids {
            let Self { driver, segments, spaces, .. } = self;
            let Some(space) = spaces.get_mut(&id) else { continue };
            let Some(tables) = &mut space.tables else { continue };
            let (engine, process, paging_process) = (space.engine, space.process, space.paging_process);
            let mut writer = TableWriter { engine, driver, segments, process, paging_process, subject: Subject::NONE };
            tables.rebuild(&mut writer)?;
            self.write_tables()?;
            let Some(space) = self.spaces.get(&id) else { continue };
            let mappings: Vec<(u64, Mapping)> = space.va.mappings().collect();
            for (at, mapping) in mappings {
                self.try_show(id, at, mapping)?;
            }
        }
        self.finish_tables()
    }

    fn try_show(&mut self, id: SpaceId, at: u64, mapping: Mapping) -> Result<(), NTSTATUS> {
        let Self { driver, segments, spaces, allocations, fence_pages, counts, .. } = self;
        let space = spaces.get_mut(&id).ok_or(STATUS_INVALID_PARAMETER)?;
        if space.tables.is_none() {
            // Written when the tables come back.
            return Ok(());
        }
        let (shown, subject) = shown_by(allocations, fence_pages, at, mapping);
        let pages = mapping.pages;
        let range = Range { at, pages };
        let leaves = Leaves { shown: &shown, access: mapping.access };
        let shown = write_entries(driver, segments, space, range, leaves, subject, counts);
        self.write_tables().and(shown)
    }

    /// Shows memory in the paging process, whose page tables for it exist.
    pub(crate) fn show_frames(&mut self, id: SpaceId, at: u64, pages: u64, shown: &Shown<'_>) -> Result<(), NTSTATUS> {
        let Self { driver, segments, spaces, counts, .. } = self;
        let space = spaces.get_mut(&id).ok_or(STATUS_INVALID_PARAMETER)?;
        let range = Range { at, pages };
        let leaves = Leaves { shown, access: Access::WRITE };
        write_entries(driver, segments, space, range, leaves, Subject::NONE, counts)
    }

    /// Makes page-table entries invalid; when the call returns, the GPU does not use them any more, or where it writes page tables itself
    /// does not when it comes to the paging work behind that.
    pub(crate) fn hide(&mut self, id: SpaceId, at: u64, pages: u64) -> Result<(), NTSTATUS> {
        let Self { driver, segments, spaces, counts, .. } = self;
        let space = spaces.get_mut(&id).ok_or(STATUS_INVALID_PARAMETER)?;
        let Some(tables) = &mut space.tables else { return Ok(()) };
        let (engine, process, paging_process) = (space.engine, space.process, space.paging_process);
        let mut writer = TableWriter { engine, driver, segments, process, paging_process, subject: Subject::NONE };
        let (mut effects, range) = (Effects::default(), Range { at, pages });
        let unmapped = tables.unmap(range.pages(), &mut writer, &mut effects);
        let settled = settle(tables, &mut writer, range, effects, counts);
        let hidden = unmapped.and(settled);
        self.write_tables().and(hidden)
    }

    /// Maps in a region that the caller found or made, replacing what was there.
    ///
    /// # Errors
    /// As [`Memory::show`]; the range then shows nothing.
    pub(crate) fn map(
        &mut self,
        id: SpaceId,
        at: u64,
        mapping: Mapping,
        request: &mut MemoryRequest,
    ) -> Result<(), NTSTATUS> {
        let space = self.spaces.get_mut(&id).ok_or(STATUS_INVALID_PARAMETER)?;
        let replaced = space.va.remove(at, mapping.pages);
        if !replaced.is_empty() {
            self.hide(id, at, mapping.pages)?;
            self.forget_unused_spaces(id, &replaced);
        }
        self.show(id, at, mapping, request)?;
        if let Some(space) = self.spaces.get_mut(&id) {
            space.va.map(at, mapping);
        }
        if let Source::Allocation { id: allocation, .. } = mapping.source
            && let Some(state) = self.allocations.get_mut(&allocation)
        {
            state.spaces.insert(id);
        }
        Ok(())
    }

    /// Takes mappings out of part of a region.
    pub(crate) fn unmap(&mut self, id: SpaceId, at: u64, pages: u64) -> Result<(), NTSTATUS> {
        let space = self.spaces.get_mut(&id).ok_or(STATUS_INVALID_PARAMETER)?;
        let removed = space.va.remove(at, pages);
        self.hide(id, at, pages)?;
        self.forget_unused_spaces(id, &removed);
        Ok(())
    }

    /// Gives a whole region back.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if it is no region of this length.
    pub(crate) fn free_region(&mut self, id: SpaceId, base: u64, len: u64) -> Result<(), NTSTATUS> {
        let space = self.spaces.get_mut(&id).ok_or(STATUS_INVALID_PARAMETER)?;
        if space.va.region_len(base) != Some(len) {
            return Err(STATUS_INVALID_PARAMETER);
        }
        // The range is hidden before anybody else can get it.
        self.unmap(id, base, len / PAGE_SIZE)?;
        let space = self.spaces.get_mut(&id).ok_or(STATUS_INVALID_PARAMETER)?;
        space.va.release(base, len).map(|_| ()).map_err(Refused::status)
    }

    /// Allocations that these mappings were of may not be mapped in the space any more.
    pub(super) fn forget_unused_spaces(&mut self, id: SpaceId, removed: &[(u64, Mapping)]) {
        for (_, mapping) in removed {
            if let Source::Allocation { id: allocation, .. } = mapping.source
                && self.spaces.get(&id).is_none_or(|space| space.va.mappings_of(allocation).is_empty())
                && let Some(state) = self.allocations.get_mut(&allocation)
            {
                state.spaces.remove(&id);
            }
        }
    }

    /// Shows an allocation wherever it is mapped.
    pub(crate) fn show_everywhere(&mut self, id: AllocationId, request: &mut MemoryRequest) -> Result<(), NTSTATUS> {
        for (space, at, mapping) in self.mappings_of(id) {
            self.show(space, at, mapping, request)?;
        }
        Ok(())
    }

    /// Hides an allocation wherever it is mapped.
    pub(crate) fn hide_everywhere(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        for (space, at, mapping) in self.mappings_of(id) {
            self.hide(space, at, mapping.pages)?;
        }
        Ok(())
    }

    fn mappings_of(&self, id: AllocationId) -> Vec<(SpaceId, u64, Mapping)> {
        let Some(state) = self.allocations.get(&id) else { return Vec::new() };
        let spaces = state.spaces.iter().filter_map(|space| Some((*space, self.spaces.get(space)?)));
        spaces
            .flat_map(|(id_of_space, space)| {
                space.va.mappings_of(id).into_iter().map(move |(at, mapping)| (id_of_space, at, mapping))
            })
            .collect()
    }

    /// Unmaps an allocation everywhere for good, or only where a user has mapped it.
    pub(crate) fn unmap_everywhere(&mut self, id: AllocationId, user: Option<u64>) -> Result<(), NTSTATUS> {
        let Some(state) = self.allocations.get(&id) else { return Ok(()) };
        for space in state.spaces.clone() {
            // Hidden first, so that a region that goes with the mapping cannot be reused before.
            let mappings = self.spaces.get(&space).map(|space| space.va.mappings_of(id)).unwrap_or_default();
            for (at, mapping) in mappings.into_iter().filter(|(_, mapping)| mapping.is_of(user)) {
                self.hide(space, at, mapping.pages)?;
            }
            let (mut unused, mut ended) = (true, Vec::new());
            if let Some(found) = self.spaces.get_mut(&space) {
                let regions = found.va.remove_allocation(id, user);
                ended.extend(regions.into_iter().map(|(at, len)| (found.first, at, len)));
                unused = found.va.mappings_of(id).is_empty();
            }
            ended.into_iter().for_each(|(first, at, len)| self.end_region(first, at, len));
            if unused && let Some(state) = self.allocations.get_mut(&id) {
                state.spaces.remove(&space);
            }
        }
        Ok(())
    }

    /// An automatic region shows nothing on one engine any more: it goes if it shows nothing on any.
    fn end_region(&mut self, first: SpaceId, at: u64, len: u64) {
        let spaces = (0..self.driver.engines).map(|engine| first.of_engine(engine));
        let empty = |id: SpaceId| self.spaces.get(&id).is_none_or(|space| space.va.is_unmapped(at, len));
        if spaces.clone().all(empty) {
            for id in spaces {
                let released = self.spaces.get_mut(&id).map(|space| space.va.release(at, len));
                debug_assert!(released.is_none_or(|released| released.is_ok()));
            }
        }
    }
}

/// What entries of a mapping show at the moment, and what they belong to.
pub(super) fn shown_by<'a>(
    allocations: &'a BTreeMap<AllocationId, AllocationState>,
    fence_pages: &BTreeMap<FencePageId, FencePageState>,
    at: u64,
    mapping: Mapping,
) -> (Shown<'a>, Subject) {
    let mut subject = Subject { first_page: at / PAGE_SIZE, driver_protection: mapping.access.driver, ..Subject::NONE };
    let shown = match mapping.source {
        Source::Zero => Shown::Zero,
        Source::Frames { segment, frame } => Shown::Frames { segment, first: frame },
        Source::Fence(id) => fence_pages.get(&id).map_or(Shown::Nothing, |page| {
            let (segment, first) = page.frame();
            Shown::Frames { segment, first }
        }),
        Source::Allocation { id, first, .. } => match allocations.get(&id) {
            Some(state) if state.accessible => {
                subject.allocation = state.allocation.kmd();
                subject.offset = first * PAGE_SIZE;
                match &state.place {
                    Location::Uncommitted => Shown::Nothing,
                    Location::System(memory) => Shown::System { memory, first },
                    Location::Local { segment, offset } => {
                        Shown::Frames { segment: *segment, first: offset / PAGE_SIZE + first }
                    }
                }
            }
            _ => Shown::Nothing,
        },
    };
    (shown, subject)
}

/// Pages from an address on.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) at: u64,
    pub(super) pages: u64,
}

impl Range {
    fn pages(self) -> std::ops::Range<u64> {
        let first = self.at / PAGE_SIZE;
        first..first + self.pages
    }
}

/// Has changes to the page tables of a range take effect: the GPU forgets what they replaced, then tables that are in use no more go.
pub(super) fn settle(
    tables: &PageTables<Table>,
    writer: &mut TableWriter<'_>,
    range: Range,
    effects: Effects<Table>,
    counts: &mut ResidencyCounts,
) -> Result<(), NTSTATUS> {
    let (driver, changes) = (writer.driver, effects.changes);
    counts.large_pages += changes.large;
    counts.medium_pages += changes.medium;
    counts.demoted += changes.demoted;
    if changes.replaced || (changes.added && !driver.mmu.Bits.InvalidTlbEntriesNotCached()) {
        let (start, end) = (range.at, range.at + range.pages * PAGE_SIZE);
        // Where pages changed their size, all is forgotten that they or the table in their place translate.
        let unit = if changes.demoted > 0 { driver.shape.large() * PAGE_SIZE } else { PAGE_SIZE };
        let (start, end) = (start / unit * unit, end.next_multiple_of(unit));
        let flush = flush_of(writer.engine, writer.process, tables, start, end);
        driver.flush(writer.segments, writer.paging_process, flush)?;
    }
    tables.free_dead(effects.dead, writer)
}

/// The contents of the leaf entries of a range: the memory that they show, and the accesses that they allow.
#[derive(Clone, Copy)]
struct Leaves<'a> {
    shown: &'a Shown<'a>,
    access: Access,
}

/// Writes the page tables of a range; `subject` is the allocation that traces name.
fn write_entries(
    driver: &Driver,
    segments: &mut Segments,
    space: &mut Space,
    range: Range,
    Leaves { shown, access }: Leaves<'_>,
    subject: Subject,
    counts: &mut ResidencyCounts,
) -> Result<(), NTSTATUS> {
    if matches!(shown, Shown::Nothing) {
        return Ok(());
    }
    let (pages, first, sizes) = (range.pages(), range.at / PAGE_SIZE, Sizes::of(driver, segments, shown));
    let (engine, process, paging_process) = (space.engine, space.process, space.paging_process);
    let Some(tables) = &mut space.tables else { return Ok(()) };
    let mut writer = TableWriter { engine, driver, segments, process, paging_process, subject };
    let mut effects = Effects::default();
    let fit = |part| sizes.fit(shown, first, part);
    let prepared = tables.prepare(pages.clone(), &fit, &mut writer, &mut effects);
    // Directory entries may have come and gone; the GPU may have seen them.
    effects.changes.replaced |= prepared.is_err();
    let written = prepared.and_then(|()| {
        let mut entry = |page: u64| entry(driver, shown, page - first, access);
        tables.write(pages, &mut entry, &mut writer, &mut effects)
    });
    let settled = settle(tables, &mut writer, range, effects, counts);
    written.and(settled)
}

/// Leaf entry for page `page` of what is shown. [d3dukmdt: DXGK_PTE]
pub(super) fn entry(driver: &Driver, shown: &Shown<'_>, page: u64, access: Access) -> DXGK_PTE {
    let mut entry = DXGK_PTE::zeroed();
    let (segment, frame) = match shown {
        Shown::Nothing => return entry,
        Shown::Zero => {
            entry.Bits.set_Valid(true);
            entry.Bits.set_Zero(true);
            return entry;
        }
        Shown::System { memory, first } => (0, memory.frame(first + page)),
        Shown::Frames { segment, first } => (*segment, first + page),
    };
    let (segment, engine) = driver.segment_of(segment);
    let mmu = driver.mmu.Bits;
    entry.Bits.set_Valid(true);
    entry.Bits.set_Segment(segment as u8);
    entry.Bits.set_PhysicalAdapterIndex(engine as u8);
    entry.Bits.set_CacheCoherent(segment == 0 && mmu.CacheCoherentMemorySupported());
    entry.Bits.set_ReadOnly(!access.write && mmu.ReadOnlyMemorySupported());
    entry.Bits.set_NoExecute(!access.execute && mmu.NoExecuteMemorySupported());
    entry.u1 = DXGK_PTE_Union1 { PageAddress: frame };
    entry
}

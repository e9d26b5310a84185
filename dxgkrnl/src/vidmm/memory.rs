//! Everything under the memory lock: address spaces with their page tables, and where each allocation is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use wddm_ddi::Zeroed;
use wddm_ddi::km::{DXGK_PAGE_TABLE_LEVEL_DESC, DXGK_PTE, DXGK_PTE_Union1};
use wddm_ddi::status::*;

use crate::kmd_handle::KmdHandle;
use crate::vidmm::allocation::{Allocation, AllocationId};
use crate::vidmm::budget::Demands;
use crate::vidmm::driver::{Driver, Subject, TableWriter};
use crate::vidmm::fence_storage::{FencePageId, FenceState};
use crate::vidmm::lock::{BarFiles, Lock};
use crate::vidmm::offer::Offered;
use crate::vidmm::page_size::Sizes;
use crate::vidmm::page_table::{Effects, Fit, PageTables};
use crate::vidmm::paging::{Paging, PagingFence};
use crate::vidmm::residency::{self, ResidencyCounts};
use crate::vidmm::segment::{Segments, SystemMemory, Table};
use crate::vidmm::suspended::Standing;
use crate::vidmm::table_work::Flush;
use crate::vidmm::va_space::{Access, Mapping, Refused, Source, VaSpace};
use nt::ram::PAGE_SIZE;

/// Normal priority. [d3dukmdt: D3DDDI_ALLOCATIONPRIORITY_NORMAL]
pub(crate) const PRIORITY_NORMAL: u32 = 0x7800_0000;

/// How long a request waits for queues to go idle before it is told that memory is short.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// An address space on an engine among those of an adapter. Those of one process have consecutive numbers in the order of engines; the
/// first stands for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SpaceId(pub(crate) u64);

impl SpaceId {
    /// The one of the same process on an engine; called on the first.
    pub(crate) fn of_engine(self, engine: u32) -> Self {
        Self(self.0 + u64::from(engine))
    }
}

/// Tells whether every queue that could have used something at a certain time has since gone beyond that time.
pub(crate) type IdlePoint = Arc<dyn Fn() -> bool + Send + Sync>;

/// One address space: what a process has mapped on one engine. Its regions are the same on every engine.
pub(crate) struct Space {
    pub(super) engine: u32,
    /// The first of the same process.
    pub(super) first: SpaceId,
    /// The driver's handle of the process.
    pub(crate) process: KmdHandle,
    pub(crate) paging_process: bool,
    pub(crate) va: VaSpace,
    /// `None` while they are evicted, the process being suspended. What is mapped is only noted meanwhile.
    pub(super) tables: Option<PageTables<Table>>,
    /// Where the contexts of the process find its root, as the driver knows it.
    pub(super) told: Option<(u32, u64)>,
    /// Segment and offset of the root page table when the process worked last.
    pub(super) before: (u32, u64),
    pub(super) standing: Standing,
    /// Time when its process last asked for something that needs the tables.
    pub(super) last_use: u64,
}

/// Translations of an address space between two addresses, or all of them for two zeros.
pub(super) fn flush_of(engine: u32, process: KmdHandle, tables: &PageTables<Table>, start: u64, end: u64) -> Flush {
    Flush { engine, process, root: tables.root().address(), start, end }
}

/// Memory that holds the contents of an allocation.
pub(crate) enum Place {
    /// Nowhere yet: all zero.
    Uncommitted,
    /// In system memory.
    System(SystemMemory),
    /// In a memory segment.
    Local {
        /// Segment.
        segment: u32,
        /// Byte offset in it.
        offset: u64,
    },
}

/// State of an allocation that the memory manager's lock guards.
pub(crate) struct State {
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) place: Place,
    /// Its page-table entries are valid: it has been made resident and was not evicted since.
    pub(crate) accessible: bool,
    /// It left its place although engines need it there, and comes back when its process works again.
    pub(super) away: bool,
    /// MakeResident calls that no Evict has answered.
    pub(crate) listed: u32,
    /// Doorbells that use it.
    pub(crate) references: u32,
    /// Address spaces that map it.
    pub(crate) spaces: BTreeSet<SpaceId>,
    pub(crate) lock: Option<Lock>,
    /// Time of the last request that concerned it.
    pub(crate) last_use: u64,
    /// Last paging packet that reads or writes it.
    pub(crate) busy: Option<PagingFence>,
    /// Where its bytes are while the device is not in D0, if they are not in their place.
    pub(crate) parked: Option<SystemMemory>,
    /// When it left the residency list or was destroyed: the queues that may still use it.
    pub(crate) idle: Option<IdlePoint>,
    pub(crate) destroyed: bool,
    /// What has a lower number leaves memory earlier. [d3dukmdt: D3DDDI_ALLOCATIONPRIORITY]
    pub(crate) priority: u32,
    /// User mode can do without its contents.
    pub(crate) offered: Option<Offered>,
}

impl State {
    /// A new allocation, nowhere yet.
    pub(crate) fn new(allocation: Arc<Allocation>, now: u64) -> Self {
        Self {
            allocation,
            place: Place::Uncommitted,
            accessible: false,
            away: false,
            listed: 0,
            references: 0,
            spaces: BTreeSet::new(),
            lock: None,
            last_use: now,
            busy: None,
            parked: None,
            idle: None,
            destroyed: false,
            priority: PRIORITY_NORMAL,
            offered: None,
        }
    }
}

/// The state behind the memory lock.
pub(crate) struct Memory {
    pub(crate) driver: Arc<Driver>,
    pub(crate) segments: Segments,
    pub(crate) spaces: BTreeMap<SpaceId, Space>,
    pub(crate) allocations: BTreeMap<AllocationId, State>,
    pub(crate) paging: Paging,
    /// Files behind bus addresses, for showing CPU-visible segments to user mode.
    pub(crate) bars: BarFiles,
    /// Destroyed allocations by device, in the order in which they become free.
    dying: BTreeMap<u64, VecDeque<AllocationId>>,
    /// Destroyed allocations that were looked at.
    #[cfg(test)]
    pub(crate) looks: u64,
    /// Allocations that are gone for everybody but the driver, which must be told without the memory lock.
    pub(crate) gone: Vec<Arc<Allocation>>,
    /// Pages of fence values that belong in memory segments.
    pub(crate) fence_pages: BTreeMap<FencePageId, FenceState>,
    /// The device is not in D0; true if without power.
    pub(crate) standby: Option<bool>,
    pub(crate) counts: ResidencyCounts,
    /// Memory that processes reserved, or wait for.
    pub(crate) demands: Demands,
    /// The device was out of D0 since the last periodic trim.
    pub(crate) slept: bool,
    /// Something did not find memory, and nothing was left to try.
    pub(super) short: bool,
    /// The request that is under way waits, with the memory lock, for queues that are about to let go of memory.
    pub(super) waits: bool,
    /// Something did not find memory that queues are about to let go of.
    pub(super) idle_soon: bool,
    /// For the request that is under way, residency lists of suspended processes are evicted.
    pub(super) evicts_lists: bool,
    /// The process whose memory is brought back just now.
    pub(super) coming: Option<SpaceId>,
    clock: u64,
    next_space: u64,
}

/// Source of the pages of a mapping.
pub(crate) enum Shown<'a> {
    Nothing,
    System { memory: &'a SystemMemory, first: u64 },
    Frames { segment: u32, first: u64 },
    Zero,
}

impl Memory {
    pub(crate) fn new(driver: Arc<Driver>, mut segments: Segments, paging: Paging, bars: BarFiles) -> Self {
        segments.table_work = driver.tables_by_gpu(false).then(Vec::new);
        Self {
            driver,
            segments,
            spaces: BTreeMap::new(),
            allocations: BTreeMap::new(),
            paging,
            bars,
            dying: BTreeMap::new(),
            #[cfg(test)]
            looks: 0,
            gone: Vec::new(),
            fence_pages: BTreeMap::new(),
            standby: None,
            counts: ResidencyCounts::default(),
            demands: Demands::default(),
            slept: false,
            short: false,
            waits: true,
            idle_soon: false,
            evicts_lists: false,
            coming: None,
            clock: 0,
            next_space: 1,
        }
    }

    /// The time of this request, for what was used last.
    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Makes an address space of a process on every engine, each with an empty root table. The answer stands for all of them.
    ///
    /// # Errors
    /// No memory for a root; there is none then.
    pub(crate) fn create_space(
        &mut self,
        process: KmdHandle,
        paging_process: bool,
        va: VaSpace,
    ) -> Result<SpaceId, NTSTATUS> {
        let first = SpaceId(self.next_space);
        self.next_space += u64::from(self.driver.engines);
        for engine in 0..self.driver.engines {
            match self.create_tables(engine, process, paging_process) {
                Ok(tables) => {
                    let (va, last_use, standing) = (va.clone(), self.tick(), Standing::Running);
                    let before = tables.root().address();
                    let (told, tables) = (Some(before), Some(tables));
                    let space =
                        Space { engine, first, process, paging_process, va, tables, told, before, standing, last_use };
                    self.spaces.insert(first.of_engine(engine), space);
                }
                Err(status) => {
                    self.destroy_space(first)?;
                    return Err(status);
                }
            }
        }
        Ok(first)
    }

    pub(super) fn create_tables(
        &mut self,
        engine: u32,
        process: KmdHandle,
        paging_process: bool,
    ) -> Result<PageTables<Table>, NTSTATUS> {
        loop {
            let Self { driver, segments, .. } = self;
            let mut writer = TableWriter { engine, driver, segments, process, paging_process, subject: Subject::NONE };
            match PageTables::new(driver.shape.clone(), &mut writer) {
                Err(STATUS_GRAPHICS_NO_VIDEO_MEMORY) if self.make_room(self.table_segment(engine))? => {}
                Err(status) => return Err(status),
                Ok(tables) => {
                    // Whoever sets a root table finds it written.
                    let Err(status) = self.finish_tables() else { return Ok(tables) };
                    tables.into_tables().into_iter().for_each(|table| self.release_table_behind(table));
                    return Err(status);
                }
            }
        }
    }

    /// Gives the address spaces of a process back. What was mapped in them stays where it is.
    ///
    /// # Errors
    /// The machine has stopped; the spaces are gone all the same.
    pub(crate) fn destroy_space(&mut self, first: SpaceId) -> Result<(), NTSTATUS> {
        self.demands.forget(first);
        let mut flushed = Ok(());
        for id in (0..self.driver.engines).map(|engine| first.of_engine(engine)) {
            let Some(space) = self.spaces.remove(&id).filter(|space| space.first == first) else { continue };
            // The next space may get this root table, and must not find the translations of this one.
            if let Some(tables) = space.tables {
                let flush = flush_of(space.engine, space.process, &tables, 0, 0);
                flushed = flushed.and(self.driver.flush(&mut self.segments, space.paging_process, flush));
                for table in tables.into_tables() {
                    self.segments.release_table(table);
                }
            }
            for state in self.allocations.values_mut() {
                state.spaces.remove(&id);
            }
        }
        flushed.and(self.write_tables()).and(self.submit())
    }

    /// Takes a region of a process, at `base` or anywhere between two addresses, on every engine.
    pub(crate) fn reserve_everywhere(
        &mut self,
        first: SpaceId,
        base: u64,
        (least, most): (u64, u64),
        len: u64,
        automatic: bool,
    ) -> Result<u64, NTSTATUS> {
        let reserve = if automatic { VaSpace::reserve_automatic } else { VaSpace::reserve };
        let space = self.spaces.get_mut(&first).ok_or(STATUS_DEVICE_REMOVED)?;
        let at = reserve(&mut space.va, base, least, most, len).map_err(Refused::status)?;
        for engine in 1..self.driver.engines {
            // Regions are the same on every engine, so the place is free.
            let space = self.spaces.get_mut(&first.of_engine(engine)).ok_or(STATUS_DEVICE_REMOVED)?;
            reserve(&mut space.va, at, 0, 0, len).map_err(|_| STATUS_INTERNAL_ERROR)?;
        }
        Ok(at)
    }

    /// Gives a whole region of a process back on every engine.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if it is no region of this length.
    pub(crate) fn free_everywhere(&mut self, first: SpaceId, base: u64, len: u64) -> Result<(), NTSTATUS> {
        (0..self.driver.engines).try_for_each(|engine| self.free_region(first.of_engine(engine), base, len))
    }

    /// Root page table of a space: segment and offset. `None` while it is away.
    pub(crate) fn root(&self, id: SpaceId) -> Option<(u32, u64)> {
        self.spaces.get(&id).and_then(Space::root)
    }

    pub(super) fn table_segment(&self, engine: u32) -> u32 {
        let segment = self.driver.levels.first().map_or(0, |level| level.PageTableSegmentId);
        self.driver.segment_in(engine, segment)
    }

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
    pub(crate) fn show(&mut self, id: SpaceId, at: u64, mapping: Mapping) -> Result<(), NTSTATUS> {
        let engine = self.spaces.get(&id).map_or(0, |space| space.engine);
        let segment = self.table_segment(engine);
        loop {
            let before = self.segments.free_bytes(segment);
            match self.try_show(id, at, mapping) {
                Err(STATUS_GRAPHICS_NO_VIDEO_MEMORY) if self.make_room_again(segment, before)? => {}
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
        let (shown, subject) = what(allocations, fence_pages, at, mapping);
        let pages = mapping.pages;
        let range = Range { at, pages };
        let shown = write_entries(driver, segments, space, range, &shown, (mapping.access, subject), counts);
        self.write_tables().and(shown)
    }

    /// Shows memory in the paging process, whose page tables for it exist.
    pub(crate) fn show_frames(&mut self, id: SpaceId, at: u64, pages: u64, shown: &Shown<'_>) -> Result<(), NTSTATUS> {
        let Self { driver, segments, spaces, counts, .. } = self;
        let space = spaces.get_mut(&id).ok_or(STATUS_INVALID_PARAMETER)?;
        let range = Range { at, pages };
        write_entries(driver, segments, space, range, shown, (Access::WRITE, Subject::NONE), counts)
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
    pub(crate) fn map(&mut self, id: SpaceId, at: u64, mapping: Mapping) -> Result<(), NTSTATUS> {
        let space = self.spaces.get_mut(&id).ok_or(STATUS_INVALID_PARAMETER)?;
        let replaced = space.va.remove(at, mapping.pages);
        if !replaced.is_empty() {
            self.hide(id, at, mapping.pages)?;
            self.forget_unused_spaces(id, &replaced);
        }
        self.show(id, at, mapping)?;
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
    pub(crate) fn show_everywhere(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        for (space, at, mapping) in self.mappings_of(id) {
            self.show(space, at, mapping)?;
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

    /// Unmaps an allocation everywhere, for good.
    pub(crate) fn unmap_everywhere(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        let Some(state) = self.allocations.get_mut(&id) else { return Ok(()) };
        for space in std::mem::take(&mut state.spaces) {
            // Hidden first, so that a region that goes with the mapping cannot be reused before.
            let mappings = self.spaces.get(&space).map(|space| space.va.mappings_of(id)).unwrap_or_default();
            for (at, mapping) in mappings {
                self.hide(space, at, mapping.pages)?;
            }
            let Some(found) = self.spaces.get_mut(&space) else { continue };
            let first = found.first;
            for (at, len) in found.va.remove_allocation(id) {
                self.end_region(first, at, len);
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

    /// As [`Memory::make_room`], for an attempt that made some tables of several, when `before` bytes of a segment were free. Where the GPU
    /// writes tables, what was made is undone when it comes to that: there may be more room then, but that something is under way means
    /// nothing.
    pub(super) fn make_room_again(&mut self, segment: u32, before: u64) -> Result<bool, NTSTATUS> {
        self.finish_tables()?;
        if self.segments.free_bytes(segment) > before { Ok(true) } else { self.make_room(segment) }
    }

    /// Does one thing that may lead to free memory in `segment` (0 for system memory). False when nothing is left to try.
    pub(crate) fn make_room(&mut self, segment: u32) -> Result<bool, NTSTATUS> {
        if self.retire()? || self.reap()? {
            return Ok(true);
        }
        // What leaves the segment is free once the GPU has copied it, so whatever is under way comes first.
        self.submit()?;
        if self.wait_oldest()? {
            return Ok(true);
        }
        if self.take_offered(segment)? {
            return Ok(true);
        }
        if self.evict_one(segment)? {
            return Ok(true);
        }
        let found = self.waits && self.wait_for_idle(segment)?;
        self.short |= !found;
        self.idle_soon |= !found && self.is_idle_soon(segment);
        Ok(found)
    }

    /// True if something would free memory in `segment` that queues at work have not let go of yet.
    fn is_idle_soon(&self, segment: u32) -> bool {
        let waits = |state: &State| {
            let leaves = segment != 0 && residency::is_in(state, segment);
            let holds_here = leaves || (segment == 0 && matches!(state.place, Place::System(_)));
            let given_up = state.listed == 0 || state.offered.is_some();
            // The queues of a suspended process make no progress.
            let works = !self.is_suspended(state.allocation.owner());
            given_up && works && state.references == 0 && holds_here && (state.destroyed || leaves)
        };
        self.allocations.values().any(|state| waits(state) && state.idle.as_ref().is_some_and(|idle| !idle()))
    }

    /// Waits until queues have let go of something that would free memory in `segment`, within bounds.
    fn wait_for_idle(&mut self, segment: u32) -> Result<bool, NTSTATUS> {
        let deadline = Instant::now() + IDLE_TIMEOUT;
        while self.is_idle_soon(segment) {
            if Instant::now() > deadline || self.driver.verifier.is_stopped() {
                break;
            }
            match self.paging.node() {
                Some(node) => node.pause(),
                None => return Ok(false),
            }
            if self.reap()? || self.take_offered(segment)? || residency::victim(self, segment).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// An allocation is destroyed. It is freed once no doorbell refers to it and `idle` has passed (at once for `None`). Of one device,
    /// what is destroyed later is not idle sooner.
    pub(crate) fn doom(&mut self, id: AllocationId, idle: Option<IdlePoint>) {
        let Some(state) = self.allocations.get_mut(&id) else { return };
        (state.destroyed, state.listed) = (true, 0);
        let list = self.dying.entry(state.allocation.device()).or_default();
        // What waits for nothing is not behind what waits.
        if idle.is_none() {
            list.push_front(id)
        } else {
            list.push_back(id)
        }
        state.idle = idle;
    }

    /// Frees destroyed allocations that no queue can use any more. True if any was freed.
    pub(crate) fn reap(&mut self) -> Result<bool, NTSTATUS> {
        let mut ready = VecDeque::new();
        for list in self.dying.values_mut() {
            let mut at = 0;
            while let Some(id) = list.get(at) {
                #[cfg(test)]
                (self.looks += 1);
                match self.allocations.get(id) {
                    None => drop(list.remove(at)),
                    Some(state) if state.references != 0 => at += 1,
                    // Whatever is behind it waits for as much at least.
                    Some(state) if state.idle.as_ref().is_some_and(|idle| !idle()) => break,
                    Some(_) => ready.extend(list.remove(at)),
                }
            }
        }
        self.dying.retain(|_, list| !list.is_empty());
        let any = !ready.is_empty();
        while let Some(id) = ready.pop_front() {
            if let Err(status) = self.free(id) {
                ready.into_iter().chain([id]).for_each(|id| self.doom(id, None));
                return Err(status);
            }
        }
        Ok(any)
    }

    /// Frees what an allocation holds, now. Its memory is used again only after the paging work on it.
    pub(crate) fn free(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        self.end_lock(id);
        self.unmap_everywhere(id)?;
        let Some(state) = self.allocations.remove(&id) else { return Ok(()) };
        let size = state.allocation.size();
        self.release_place(state.place, size);
        self.gone.push(state.allocation);
        Ok(())
    }
}

/// What entries of a mapping show at the moment, and what they belong to.
pub(super) fn what<'a>(
    allocations: &'a BTreeMap<AllocationId, State>,
    fence_pages: &BTreeMap<FencePageId, FenceState>,
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
        Source::Allocation { id, first } => match allocations.get(&id) {
            Some(state) if state.accessible => {
                subject.allocation = state.allocation.kmd();
                subject.offset = first * PAGE_SIZE;
                match &state.place {
                    Place::Uncommitted => Shown::Nothing,
                    Place::System(memory) => Shown::System { memory, first },
                    Place::Local { segment, offset } => {
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
    tables.bury(effects.dead, writer)
}

fn write_entries(
    driver: &Driver,
    segments: &mut Segments,
    space: &mut Space,
    range: Range,
    shown: &Shown<'_>,
    (access, subject): (Access, Subject),
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

#[cfg(test)]
#[path = "fake_gpu.rs"]
mod fake_gpu;
#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;

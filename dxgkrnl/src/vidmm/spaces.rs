//! Address spaces of processes under the memory lock: their page tables on every engine, and their regions, which are the same on each.

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::kmd_handle::KmdHandle;
use crate::vidmm::address_space::AddressSpace;
use crate::vidmm::driver::TableWriter;
use crate::vidmm::ids::SpaceId;
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::{Memory, ProcessState, Space, flush_of};
use crate::vidmm::page_table::PageTables;
use crate::vidmm::request::MemoryRequest;
use crate::vidmm::table::Table;
use crate::vidmm::table_memory::Subject;
use crate::vidmm::va_space::{Refused, VaSpace};

impl Memory {
    /// Makes an address space of a process on every engine, each with an empty root table. The answer stands for all of them.
    ///
    /// # Errors
    /// No memory for a root; there is none then.
    pub(crate) fn create_space(
        &mut self,
        process: KmdHandle,
        paging_process: bool,
        va: VaSpace,
        request: &mut MemoryRequest,
    ) -> Result<SpaceId, NTSTATUS> {
        let first = SpaceId(self.next_space);
        self.next_space += u64::from(self.driver.engines);
        for engine in 0..self.driver.engines {
            match self.create_tables(engine, process, paging_process, request) {
                Ok(tables) => {
                    let (va, last_use, process_state) = (va.clone(), self.tick(), ProcessState::Running);
                    let before = tables.root().address();
                    let (told, tables) = (Some(before), Some(tables));
                    let space = Space {
                        engine,
                        first,
                        process,
                        paging_process,
                        va,
                        tables,
                        told,
                        before,
                        process_state,
                        last_use,
                        evicted: 0,
                    };
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
        request: &mut MemoryRequest,
    ) -> Result<PageTables<Table>, NTSTATUS> {
        loop {
            let Self { driver, segments, .. } = self;
            let mut writer = TableWriter { engine, driver, segments, process, paging_process, subject: Subject::NONE };
            match PageTables::new(driver.shape.clone(), &mut writer) {
                Err(STATUS_GRAPHICS_NO_VIDEO_MEMORY) if self.reclaim_some(self.table_segment(engine), request)? => {}
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

    /// Checks that user mode may reserve and map more addresses of a process.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES if it has as many regions and mappings on an engine as it may.
    pub(crate) fn check_capacity(&self, first: SpaceId) -> Result<(), NTSTATUS> {
        let mut spaces = (0..self.driver.engines).filter_map(|engine| self.spaces.get(&first.of_engine(engine)));
        if spaces.any(|space| space.va.is_full()) { Err(STATUS_INSUFFICIENT_RESOURCES) } else { Ok(()) }
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
}

impl VidMm {
    /// Segment of the engine and offset of the root page table of an address space, for DxgkDdiSetRootPageTable; `None` while it is away.
    pub(crate) fn root(&self, space: &AddressSpace, engine: u32) -> Option<(u32, u64)> {
        let (segment, offset) = lock(&self.memory).root(space.id().of_engine(engine))?;
        Some((self.driver.segment_of(segment).0, offset))
    }
}

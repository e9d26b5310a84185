//! Memory of suspended processes: what their engines need leaves when memory is short, and is back before they are resumed.
//!
//! The scheduler says when a process is suspended: its doorbells are disconnected, its contexts suspended, and nothing it submitted
//! is under way. From then on nothing of the GPU walks its page tables, so all of them may be evicted; the mappings are known here, and
//! the tables are written anew when they come back. The root comes back at another place, of which the driver is told before the process is
//! resumed. With the tables go pages of fence values in memory segments, and rings that user mode has taken off its residency list. For the
//! first queued request ([`super::eviction`]) the residency list of a suspended process is evicted as well; it comes back as a whole, before
//! the process is resumed. [d3dkmddi: DXGK_UPDATEPAGETABLEFLAGS, DXGKARG_SETROOTPAGETABLE; driver-residency-in-wddm-2-0]

use std::cmp::Reverse;

use wddm_ddi::status::*;

use crate::trace::TraceKind;
use crate::vidmm::driver::TableWriter;
use crate::vidmm::ids::{AllocationId, SpaceId};
use crate::vidmm::location::Location;
use crate::vidmm::memory::{AllocationState, Memory, ProcessState, Space, flush_of, must_be_asked};
use crate::vidmm::request::{Ask, MemoryRequest};
use crate::vidmm::residency;
use crate::vidmm::table::Table;
use crate::vidmm::table_memory::Subject;
use crate::vidmm::va_space::Mapping;

impl Space {
    /// Segment and offset of the root page table; `None` if there are no tables.
    pub(super) fn root(&self) -> Option<(u32, u64)> {
        self.tables.as_ref().map(|tables| tables.root().address())
    }

    /// True if eviction of its tables would free memory in `segment`, 0 for system memory.
    fn has_tables_in(&self, segment: u32) -> bool {
        self.tables.as_ref().is_some_and(|tables| tables.any(|table: &Table| table.address().0 == segment))
    }
}

impl Memory {
    /// True while the process is suspended.
    pub(crate) fn is_suspended(&self, id: SpaceId) -> bool {
        self.spaces.get(&id).is_some_and(|space| space.process_state != ProcessState::Running)
    }

    /// The address spaces of a process.
    fn spaces_of(&mut self, first: SpaceId) -> impl Iterator<Item = (SpaceId, &mut Space)> {
        let all = first..first.of_engine(self.driver.engines);
        self.spaces.range_mut(all).filter(move |(_, space)| space.first == first).map(|(id, space)| (*id, space))
    }

    fn set_process_state(&mut self, first: SpaceId, process_state: ProcessState) {
        self.spaces_of(first).for_each(|(_, space)| space.process_state = process_state);
    }

    /// The scheduler has suspended the process: from now on its memory may be evicted.
    pub(crate) fn note_suspended(&mut self, first: SpaceId) {
        self.set_process_state(first, ProcessState::Suspended);
    }

    /// As [`Memory::note_suspended`], for a process that was suspended with work to do, which is counted.
    pub(crate) fn note_suspended_with_work(&mut self, id: SpaceId) {
        self.note_suspended(id);
        self.counts.suspended += 1;
    }

    /// True if the memory of a process may be evicted: it is suspended, and is not the one that the request `keeps` in memory.
    pub(super) fn is_evictable(&self, id: SpaceId, keeps: Option<SpaceId>) -> bool {
        let suspended = |space: &Space| space.process_state != ProcessState::Running && keeps != Some(space.first);
        self.spaces.get(&id).is_some_and(suspended)
    }

    /// True if something on the residency list of a process was evicted. Allocations are looked at only while some of them, of whichever process, are away: each
    /// call that makes one resident asks.
    pub(crate) fn is_list_away(&mut self, id: SpaceId) -> bool {
        if !self.some_away {
            return false;
        }
        #[cfg(test)]
        (self.looks += self.allocations.len() as u64);
        self.some_away = self.allocations.values().any(|state| state.away);
        let away = |state: &AllocationState| state.away && state.listed > 0 && state.offered.is_none();
        self.allocations.values().any(|state| state.allocation.owner() == id && away(state))
    }

    /// True if suspension of the process of `id` would free memory in some segment, for a request that evicts the residency lists of
    /// suspended processes (`evicts_lists`) or does not.
    pub(super) fn holds_for_work(&self, id: SpaceId, evicts_lists: bool) -> bool {
        let Some(space) = self.spaces.get(&id).filter(|space| !space.paging_process) else { return false };
        let tables = self.spaces.values().any(|of| of.first == id && of.tables.is_some());
        let holds = |state: &AllocationState| {
            let ring = state.references > 0 && state.listed == 0 && !state.destroyed;
            let in_segment = matches!(state.place, Location::Local { .. });
            state.allocation.owner() == id && if evicts_lists { in_segment } else { ring }
        };
        space.process_state == ProcessState::Running
            && (tables || self.has_local_fences(id) || self.allocations.values().any(holds))
    }

    /// Has one thing leave `segment` (0 for system memory): what was used longest ago of allocations on no residency list and of
    /// what the engines need of suspended processes. False if nothing may leave.
    pub(crate) fn evict_one(&mut self, segment: u32, request: &mut MemoryRequest) -> Result<bool, NTSTATUS> {
        let allocation = if segment == 0 { None } else { residency::victim(self, segment, request) };
        let used = allocation.and_then(|id| self.allocations.get(&id)).map_or(u64::MAX, |state| match state.lock {
            Some(_) => u64::MAX,
            None => state.last_use,
        });
        let mut spaces: Vec<(u64, SpaceId)> = self
            .spaces
            .iter()
            .filter(|(id, space)| {
                self.is_evictable(**id, request.keeps)
                    && (space.has_tables_in(segment) || self.has_fences_in(**id, segment))
            })
            .map(|(id, space)| (space.last_use, *id))
            .collect();
        spaces.sort_unstable();
        let older = spaces.iter().take_while(|(last_use, _)| *last_use < used);
        for (_, id) in older {
            if self.evict_space(*id, segment, request)? {
                return Ok(true);
            }
        }
        if let Some(id) = allocation {
            return self.evict(id);
        }
        for (_, id) in spaces {
            if self.evict_space(id, segment, request)? {
                return Ok(true);
            }
        }
        request.ask = self.ask_to_leave(segment, request);
        Ok(false)
    }

    fn evict_space(&mut self, id: SpaceId, segment: u32, request: &mut MemoryRequest) -> Result<bool, NTSTATUS> {
        let tables = self.spaces.get(&id).is_some_and(|space| space.has_tables_in(segment));
        if tables {
            self.evict_tables(id)?;
        }
        Ok(self.evict_fences(id, segment, request)? || tables)
    }

    /// Evicts the page tables of a suspended process on one engine. [d3dkmddi: DXGK_UPDATEPAGETABLEFLAGS::NotifyEviction]
    ///
    /// # Errors
    /// The machine has stopped.
    pub(crate) fn evict_tables(&mut self, id: SpaceId) -> Result<(), NTSTATUS> {
        let Self { driver, segments, spaces, .. } = self;
        let Some(space) = spaces.get_mut(&id).filter(|space| space.process_state == ProcessState::Suspended) else {
            return Ok(());
        };
        let (engine, process, paging_process) = (space.engine, space.process, space.paging_process);
        let Some(tables) = space.tables.take() else { return Ok(()) };
        // The driver forgets it with the tables.
        space.told = None;
        let mut writer = TableWriter { engine, driver, segments, process, paging_process, subject: Subject::NONE };
        let said = tables.notify_evicted(&mut writer);
        // Their memory is used again only when the GPU has forgotten what they said.
        let flush = flush_of(engine, process, &tables, 0, 0);
        let flushed = driver.flush(segments, paging_process, flush);
        let tables = tables.into_tables();
        let bytes = tables.iter().map(Table::len).sum();
        tables.into_iter().for_each(|table| segments.release_table(table));
        said.and(flushed).and(self.write_tables())?;
        self.counts.tables_evicted += 1;
        self.driver.note(|| TraceKind::Evicted { bytes });
        Ok(())
    }

    /// Brings back everything that the engines need to run work of a process, which stays suspended.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY; what had come back may leave again.
    pub(crate) fn bring_back_space(&mut self, first: SpaceId, request: &mut MemoryRequest) -> Result<(), NTSTATUS> {
        if !self.spaces.contains_key(&first) {
            return Err(STATUS_DEVICE_REMOVED);
        }
        let now = self.tick();
        let mut away = Vec::new();
        for (id, space) in self.spaces_of(first) {
            space.last_use = now;
            if space.tables.is_none() {
                away.push(id);
            }
        }
        if !self.is_suspended(first) {
            return Ok(());
        }
        // While the others come back, what is back already is not evicted for them.
        request.keeps = Some(first);
        // What is large first, while there are large pieces; without tables nothing of it needs any yet.
        let back = self.restore_list(first, request);
        self.set_process_state(first, ProcessState::Running);
        let back = back.and_then(|()| away.iter().try_for_each(|id| self.restore_tables(*id, request)));
        let back = back.and_then(|()| self.restore_fences(first, request));
        self.set_process_state(first, ProcessState::Suspended);
        match back {
            Ok(()) => self.counts.tables_restored += away.len() as u64,
            Err(_) => away.into_iter().try_for_each(|id| self.evict_tables(id))?,
        }
        back
    }

    /// Brings back what a suspended process needs, which counts as running from now on. If the answer is true, the driver has to be told
    /// where its root page tables are before its contexts are resumed.
    ///
    /// # Errors
    /// As [`Memory::bring_back_space`]; it stays suspended.
    pub(crate) fn resume(&mut self, first: SpaceId, request: &mut MemoryRequest) -> Result<bool, NTSTATUS> {
        if !self.is_suspended(first) {
            return Ok(false);
        }
        if request.evicts_own_first {
            self.evict_everything(first, request)?;
        }
        self.bring_back_space(first, request)?;
        // What is on its way by the paging node has arrived.
        self.finish_moves()?;
        if self.is_any_moving(first) {
            // Its addresses show where its memory is before the GPU writes there.
            (request.ask, request.short) = (Some(Ask::Nothing), true);
            return Err(STATUS_NO_MEMORY);
        }
        self.set_process_state(first, ProcessState::Running);
        let (mut tell, mut moved) = (false, 0);
        for (_, space) in self.spaces_of(first) {
            let Some(root) = space.root().filter(|root| space.told != Some(*root)) else { continue };
            tell = true;
            moved += u64::from(space.before != root);
            (space.told, space.before) = (Some(root), root);
        }
        self.counts.roots_moved += moved;
        Ok(tell)
    }

    /// Evicts everything of a suspended process that may leave.
    fn evict_everything(&mut self, id: SpaceId, request: &mut MemoryRequest) -> Result<(), NTSTATUS> {
        let own = self.allocations.iter().filter_map(|(allocation, state)| match state.place {
            Location::Local { segment, .. } if state.allocation.owner() == id && !must_be_asked(state) => {
                Some((*allocation, segment))
            }
            _ => None,
        });
        let own: Vec<(AllocationId, u32)> = own.collect();
        for (allocation, segment) in own {
            self.evict(allocation)?;
            self.evict_space(id, segment, request)?;
        }
        let spaces: Vec<SpaceId> = self.spaces_of(id).map(|(id, _)| id).collect();
        spaces.into_iter().try_for_each(|id| self.evict_tables(id))
    }

    fn restore_tables(&mut self, id: SpaceId, request: &mut MemoryRequest) -> Result<(), NTSTATUS> {
        let Some(space) = self.spaces.get(&id) else { return Err(STATUS_DEVICE_REMOVED) };
        let (engine, process, paging_process) = (space.engine, space.process, space.paging_process);
        let mappings: Vec<(u64, Mapping)> = space.va.mappings().collect();
        let tables = self.create_tables(engine, process, paging_process, request).map_err(|status| match status {
            STATUS_GRAPHICS_NO_VIDEO_MEMORY => STATUS_NO_MEMORY,
            status => status,
        })?;
        if let Some(space) = self.spaces.get_mut(&id) {
            space.tables = Some(tables);
        }
        mappings.into_iter().try_for_each(|(at, mapping)| self.show(id, at, mapping, request))
    }

    /// Brings back allocations that were evicted while their process was suspended, and that its engines may use: what is on the
    /// residency list, rings, and what queued work uses still.
    fn restore_list(&mut self, id: SpaceId, request: &mut MemoryRequest) -> Result<(), NTSTATUS> {
        let away = self
            .allocations
            .iter()
            .filter(|(_, state)| state.allocation.owner() == id && state.away && residency::is_needed(state));
        let mut away: Vec<(Reverse<u64>, AllocationId)> =
            away.map(|(id, state)| (Reverse(state.allocation.size()), *id)).collect();
        away.sort_unstable();
        away.into_iter().try_for_each(|(_, allocation)| {
            self.commit_and_list(allocation, request)?;
            self.undo_resident(allocation);
            Ok(())
        })
    }
}

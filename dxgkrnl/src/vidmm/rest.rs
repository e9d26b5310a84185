//! Processes at rest: what only their engines need leaves memory when memory is short, and is back before they work again.
//!
//! The scheduler says when the work of a process rests: its doorbells are disconnected, its contexts suspended, and nothing it submitted
//! is under way. From then on nothing of the GPU walks its page tables, so all of them may be given back; what they say is known here and
//! written anew when they return. The root returns to another place, of which the driver hears before the process works. With the
//! tables go pages of fence values in memory segments, and rings that user mode has taken off its residency list.
//! [d3dkmddi: DXGK_UPDATEPAGETABLEFLAGS, DXGKARG_SETROOTPAGETABLE; driver-residency-in-wddm-2-0]

use std::time::{Duration, Instant};

use wddm_ddi::status::*;

use crate::machine::lock;
use crate::trace::TraceKind;
use crate::vidmm::VidMm;
use crate::vidmm::address_space::AddressSpace;
use crate::vidmm::allocation::AllocationId;
use crate::vidmm::driver::{Subject, TableWriter};
use crate::vidmm::memory::{IDLE_PATIENCE, Memory, Space, SpaceId};
use crate::vidmm::residency;
use crate::vidmm::segment::Table;
use crate::vidmm::va_space::Mapping;

/// How long a process that is about to work waits for others to rest.
const WAKE_PATIENCE: Duration = Duration::from_secs(10);

/// Whether the GPU may be walking the page tables of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It may.
    Working,
    /// It does not.
    Resting,
}

impl Space {
    /// Where its root page table is.
    pub(super) fn root(&self) -> Option<(u32, u64)> {
        self.tables.as_ref().map(|tables| tables.root().address())
    }

    /// Whether eviction of its tables would free memory in `segment`, 0 for system memory.
    fn has_tables_in(&self, segment: u32) -> bool {
        self.tables.as_ref().is_some_and(|tables| tables.any(|table: &Table| table.address().0 == segment))
    }
}

impl Memory {
    /// Whether the work of a process rests.
    pub(crate) fn is_at_rest(&self, id: SpaceId) -> bool {
        self.spaces.get(&id).is_some_and(|space| space.standing != Standing::Working)
    }

    /// The address spaces of a process.
    fn spaces_of(&mut self, first: SpaceId) -> impl Iterator<Item = (SpaceId, &mut Space)> {
        let all = first..first.of_engine(self.driver.engines);
        self.spaces.range_mut(all).filter(move |(_, space)| space.first == first).map(|(id, space)| (*id, space))
    }

    fn stand(&mut self, first: SpaceId, standing: Standing) {
        self.spaces_of(first).for_each(|(_, space)| space.standing = standing);
    }

    /// The work of a process rests from now on.
    pub(crate) fn rest(&mut self, first: SpaceId) {
        self.stand(first, Standing::Resting);
    }

    /// Whether there would be more room somewhere if the process of `id` rested.
    pub(crate) fn holds_for_work(&self, id: SpaceId) -> bool {
        let Some(space) = self.spaces.get(&id).filter(|space| !space.paging_process) else { return false };
        let tables = self.spaces.values().any(|of| of.first == id && of.tables.is_some());
        let ring = |state: &super::memory::State| {
            state.allocation.owner() == id && state.references > 0 && state.listed == 0 && !state.destroyed
        };
        space.standing == Standing::Working
            && (tables || self.has_local_fences(id) || self.allocations.values().any(ring))
    }

    /// Processes that may be asked to rest so that others have room, those that used their tables longest ago first. Where adapters are
    /// linked, a process rests on all of them, and gives up what it has where there is no room.
    pub(crate) fn could_rest(&self, except: Option<SpaceId>) -> Vec<SpaceId> {
        let mut all: Vec<(u64, SpaceId)> = self
            .spaces
            .iter()
            .filter(|(id, space)| **id == space.first && Some(**id) != except && self.holds_for_work(**id))
            .map(|(id, space)| (space.last_use, *id))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// Has one thing leave `segment` (0 for system memory): what was used longest ago of allocations that nobody wants resident and of
    /// what processes at rest need only to work. False if nothing may.
    pub(crate) fn evict_one(&mut self, segment: u32) -> Result<bool, NTSTATUS> {
        let allocation = if segment == 0 { None } else { residency::victim(self, segment) };
        let used = allocation.and_then(|id| self.allocations.get(&id)).map_or(u64::MAX, |state| match state.lock {
            Some(_) => u64::MAX,
            None => state.last_use,
        });
        let mut spaces: Vec<(u64, SpaceId)> = self
            .spaces
            .iter()
            .filter(|(id, space)| {
                space.standing != Standing::Working
                    && (space.has_tables_in(segment) || self.has_fences_in(**id, segment))
            })
            .map(|(id, space)| (space.last_use, *id))
            .collect();
        spaces.sort_unstable();
        let older = spaces.iter().take_while(|(last_use, _)| *last_use < used);
        for (_, id) in older {
            if self.evict_space(*id, segment)? {
                return Ok(true);
            }
        }
        if let Some(id) = allocation {
            return self.evict(id);
        }
        for (_, id) in spaces {
            if self.evict_space(id, segment)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn evict_space(&mut self, id: SpaceId, segment: u32) -> Result<bool, NTSTATUS> {
        let tables = self.spaces.get(&id).is_some_and(|space| space.has_tables_in(segment));
        if tables {
            self.evict_tables(id)?;
        }
        Ok(self.evict_fences(id, segment)? || tables)
    }

    /// Gives the page tables of a process at rest on one engine back. [d3dkmddi: DXGK_UPDATEPAGETABLEFLAGS::NotifyEviction]
    ///
    /// # Errors
    /// The machine has stopped.
    pub(crate) fn evict_tables(&mut self, id: SpaceId) -> Result<(), NTSTATUS> {
        let Self { driver, segments, spaces, .. } = self;
        let Some(space) = spaces.get_mut(&id).filter(|space| space.standing == Standing::Resting) else {
            return Ok(());
        };
        let (engine, process, paging_process) = (space.engine, space.process, space.paging_process);
        let Some(tables) = space.tables.take() else { return Ok(()) };
        // The driver forgets it with the tables.
        space.told = None;
        let mut writer = TableWriter { engine, driver, segments, process, paging_process, subject: Subject::NONE };
        let said = tables.say_evicted(&mut writer);
        // Their memory is used again only when the GPU has forgotten what they said.
        let flushed = driver.flush(engine, process, tables.root().address(), 0, 0);
        let tables = tables.into_tables();
        let bytes = tables.iter().map(Table::len).sum();
        tables.into_iter().for_each(|table| segments.release_table(table));
        said.and(flushed)?;
        self.counts.tables_evicted += 1;
        self.driver.note(|| TraceKind::Evicted { bytes });
        Ok(())
    }

    /// Everything is back that the engines need to work for a process, which goes on resting.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY; what had come back may leave again.
    pub(crate) fn bring_back_space(&mut self, first: SpaceId) -> Result<(), NTSTATUS> {
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
        if !self.is_at_rest(first) {
            return Ok(());
        }
        // While the rest comes, nothing that is there is taken to make room for it.
        self.stand(first, Standing::Working);
        let back = away.iter().try_for_each(|id| self.restore_tables(*id));
        let back = back.and_then(|()| self.restore_fences(first)).and_then(|()| self.restore_rings(first));
        self.stand(first, Standing::Resting);
        match back {
            Ok(()) => self.counts.tables_restored += away.len() as u64,
            Err(_) => away.into_iter().try_for_each(|id| self.evict_tables(id))?,
        }
        back
    }

    /// The process works from now on, or may, once the driver was told where its root page tables are, which it has to be if the answer is
    /// true: everything else it needs is there.
    ///
    /// # Errors
    /// As [`Memory::bring_back_space`]; it goes on resting.
    pub(crate) fn wake(&mut self, first: SpaceId) -> Result<bool, NTSTATUS> {
        if !self.is_at_rest(first) {
            return Ok(false);
        }
        self.bring_back_space(first)?;
        // What is on its way by the paging node has arrived.
        self.finish_moves()?;
        self.stand(first, Standing::Working);
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

    fn restore_tables(&mut self, id: SpaceId) -> Result<(), NTSTATUS> {
        let Some(space) = self.spaces.get(&id) else { return Err(STATUS_DEVICE_REMOVED) };
        let (engine, process, paging_process) = (space.engine, space.process, space.paging_process);
        let mappings: Vec<(u64, Mapping)> = space.va.mappings().collect();
        let tables = self.create_tables(engine, process, paging_process).map_err(|status| match status {
            STATUS_GRAPHICS_NO_VIDEO_MEMORY => STATUS_NO_MEMORY,
            status => status,
        })?;
        if let Some(space) = self.spaces.get_mut(&id) {
            space.tables = Some(tables);
        }
        mappings.into_iter().try_for_each(|(at, mapping)| self.show(id, at, mapping))
    }

    /// Rings that left while their process rested are where the GPU finds them.
    fn restore_rings(&mut self, id: SpaceId) -> Result<(), NTSTATUS> {
        let away = self.allocations.iter().filter(|(_, state)| {
            state.allocation.owner() == id && state.references > 0 && !state.accessible && !state.destroyed
        });
        let away: Vec<AllocationId> = away.map(|(id, _)| *id).collect();
        away.into_iter().try_for_each(|ring| {
            self.make_resident(ring)?;
            self.undo_resident(ring);
            Ok(())
        })
    }
}

impl VidMm {
    /// Does `act` on behalf of the process of `owner`. Where memory is short, processes whose work is done are put to rest, one after the
    /// other, until it works, and those with work under way are waited for; it must have changed nothing that matters when it fails.
    ///
    /// # Errors
    /// Those of `act`.
    pub(crate) fn with_room<R>(
        &self,
        owner: Option<SpaceId>,
        act: impl FnMut(&mut Memory) -> Result<R, NTSTATUS>,
    ) -> Result<R, NTSTATUS> {
        self.with_room_until(owner, Instant::now() + IDLE_PATIENCE, || true, act)
    }

    fn with_room_until<R>(
        &self,
        owner: Option<SpaceId>,
        deadline: Instant,
        goes_on: impl Fn() -> bool,
        mut act: impl FnMut(&mut Memory) -> Result<R, NTSTATUS>,
    ) -> Result<R, NTSTATUS> {
        loop {
            let (result, candidates) = self.attempt(owner, &mut act);
            // Where nobody else has anything to give, waiting would change nothing.
            if candidates.is_empty() {
                return result;
            }
            if self.put_to_rest(&candidates) {
                continue;
            }
            let node = lock(&self.memory).paging.node().cloned();
            match node.filter(|_| Instant::now() < deadline && goes_on() && !self.driver.verifier.is_stopped()) {
                Some(node) => node.pause(),
                None => return result,
            }
        }
    }

    /// Does `act` once; where memory was short, with the processes that might give some if they rested.
    fn attempt<R>(
        &self,
        owner: Option<SpaceId>,
        act: impl FnOnce(&mut Memory) -> Result<R, NTSTATUS>,
    ) -> (Result<R, NTSTATUS>, Vec<SpaceId>) {
        let mut memory = lock(&self.memory);
        memory.short = false;
        let result = act(&mut memory);
        let short = result.is_err() && memory.short;
        let candidates = if short { memory.could_rest(owner) } else { Vec::new() };
        (result, candidates)
    }

    /// Has one of these processes rest, the first whose work is done; true also for one that rests by now.
    pub(super) fn put_to_rest(&self, candidates: &[SpaceId]) -> bool {
        let Some(scheduler) = self.driver.scheduler.get() else { return false };
        let spaces = candidates.iter().filter_map(|id| lock(&self.known).spaces.get(id)?.upgrade());
        let spaces: Vec<_> = spaces.collect();
        spaces.iter().any(|space| scheduler.rest(space, || lock(&self.memory).rest(space.id())))
    }

    /// Everything is there that the engines need to work for a process; true if the driver has to be told where its root page tables are
    /// now. Where there is no room, others are put to rest, or waited for until they can be.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when they work on and on; STATUS_DEVICE_REMOVED when the adapter has stopped.
    pub(crate) fn wake(&self, space: &AddressSpace, goes_on: impl Fn() -> bool) -> Result<bool, NTSTATUS> {
        let deadline = Instant::now() + WAKE_PATIENCE;
        self.with_room_until(Some(space.id()), deadline, goes_on, |memory| memory.wake(space.id()))
    }
}

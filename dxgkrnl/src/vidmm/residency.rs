//! Residency: what is in which segment, what leaves when memory is short, and the request that brings it back.

use std::sync::Arc;

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::port::BarOwner;
use crate::trace::TraceKind;
use crate::vidmm::allocation::Allocation;
use crate::vidmm::counts::ResidencyCounts;
use crate::vidmm::ids::{AllocationId, SpaceId};
use crate::vidmm::location::Location;
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::{AllocationState, Memory, must_be_asked};
use crate::vidmm::request::{Ask, MemoryRequest};
use crate::vidmm::scheduler::IdlePoint;
use crate::vidmm::system_memory::SystemMemory;
use nt::page::PAGE_SIZE;

/// An allocation that could leave its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    id: AllocationId,
    /// User mode has it locked: moving it rotates an address that is in use.
    locked: bool,
    priority: u32,
    last_use: u64,
}

/// Which one goes: that of the lowest priority, the least recently used of these; locked ones last.
fn choose(candidates: impl Iterator<Item = Candidate>) -> Option<AllocationId> {
    candidates
        .min_by_key(|candidate| (candidate.locked, candidate.priority, candidate.last_use))
        .map(|candidate| candidate.id)
}

/// True if an allocation's bytes are in a segment.
pub(crate) fn is_in(state: &AllocationState, segment: u32) -> bool {
    matches!(&state.place, Location::Local { segment: here, .. } if *here == segment)
}

/// True if an allocation may be evicted: it is on no residency list or offered, and no queue can be using it. A ring stays as long as the
/// engines may look at it, which is until its process is suspended. `keeps` is as for [`Memory::is_evictable`].
pub(crate) fn may_leave(memory: &Memory, state: &AllocationState, keeps: Option<SpaceId>) -> bool {
    (state.listed == 0 || state.offered.is_some())
        && (state.references == 0 || memory.is_evictable(state.allocation.owner(), keeps))
        && !state.destroyed
        && state.idle.as_ref().is_none_or(|is_idle| is_idle())
}

/// True if an allocation may be evicted for `request` although it is on a residency list: the request allows it, and its process is
/// suspended, so that nothing uses the allocation before the process is resumed.
fn is_evicted_with_its_process(memory: &Memory, state: &AllocationState, request: &MemoryRequest) -> bool {
    request.evicts_lists && memory.is_evictable(state.allocation.owner(), request.keeps)
}

/// True if an allocation must be in its place when its process works: somebody wants it resident, a doorbell uses it, or work that was
/// queued before it was given up.
pub(super) fn is_needed(state: &AllocationState) -> bool {
    let wanted = state.listed > 0 && state.offered.is_none();
    let dropped = state.offered.as_ref().is_some_and(|offered| offered.is_discarded());
    let in_use = state.references > 0 && !state.destroyed || state.idle.as_ref().is_some_and(|is_idle| !is_idle());
    wanted || in_use && !dropped
}

/// The allocation that should leave `segment` for `request`, if any may.
pub(crate) fn victim(memory: &Memory, segment: u32, request: &MemoryRequest) -> Option<AllocationId> {
    victim_of(memory, segment, request, |_, state| !must_be_asked(state))
}

/// As [`victim`], of those whose processes have to be asked first.
pub(super) fn locked_victim(memory: &Memory, segment: u32, request: &MemoryRequest) -> Option<AllocationId> {
    victim_of(memory, segment, request, |id, state| must_be_asked(state) && !request.cannot_leave.contains(&id))
}

fn victim_of(
    memory: &Memory,
    segment: u32,
    request: &MemoryRequest,
    among: impl Fn(AllocationId, &AllocationState) -> bool,
) -> Option<AllocationId> {
    let may = |state: &AllocationState| {
        may_leave(memory, state, request.keeps) || is_evicted_with_its_process(memory, state, request)
    };
    let among =
        |(id, state): &(&AllocationId, &AllocationState)| is_in(state, segment) && among(**id, state) && may(state);
    let candidates = memory.allocations.iter().filter(among);
    choose(candidates.map(|(id, state)| Candidate {
        id: *id,
        locked: state.lock.is_some(),
        priority: state.priority,
        last_use: state.last_use,
    }))
}

impl Memory {
    fn state(&mut self, id: AllocationId) -> Result<&mut AllocationState, NTSTATUS> {
        self.allocations.get_mut(&id).ok_or(STATUS_INVALID_HANDLE)
    }

    /// Puts an allocation on the residency list, bringing it to its memory if it is not there. The GPU may still be at work on it:
    /// the caller signals a paging fence behind that.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for what is offered; STATUS_NO_MEMORY. The allocation is as it was.
    pub(crate) fn make_resident(&mut self, id: AllocationId, request: &mut MemoryRequest) -> Result<(), NTSTATUS> {
        let now = self.tick();
        let state = self.state(id)?;
        if state.offered.is_some() {
            return Err(STATUS_INVALID_PARAMETER);
        }
        state.last_use = now;
        if state.accessible {
            state.listed += 1;
            return Ok(());
        }
        self.commit_and_list(id, request)
    }

    /// Brings an allocation to its memory and lists it, whatever else is the case.
    pub(super) fn commit_and_list(&mut self, id: AllocationId, request: &mut MemoryRequest) -> Result<(), NTSTATUS> {
        let state = self.state(id)?;
        let size = state.allocation.size();
        let to = self.find_place(id, size, request)?;
        let Some(place) = to else { return self.bring(id, None, request) };
        match self.freeze(id) {
            Ok(_moving) => self.bring(id, Some(place), request),
            Err(status) => {
                request.ask = self.allocations.get(&id).is_some_and(must_be_asked).then_some(Ask::ToHold(id));
                self.release_place(place, size);
                Err(status)
            }
        }
    }

    /// Moves the bytes of an allocation to `to`, unless they already are where they should be, and shows it to the GPU.
    fn bring(&mut self, id: AllocationId, to: Option<Location>, request: &mut MemoryRequest) -> Result<(), NTSTATUS> {
        let state = self.state(id)?;
        let (kmd, size) = (state.allocation.kmd(), state.allocation.size());
        let from = std::mem::replace(&mut state.place, Location::Uncommitted);
        let before = self.paging.submitted();
        let (place, moved) = match (from, to) {
            (from, None) => (from, Ok(())),
            (Location::Uncommitted, Some(to @ Location::System(_))) => (to, Ok(())),
            (from, Some(to)) => {
                let moved = match from {
                    Location::Uncommitted => self.fill_zero(kmd, &to, size),
                    _ => self.transfer(kmd, &from, &to, size),
                };
                let stays = self.end_transfer(id, (from, to), size, moved.is_ok());
                (stays, moved)
            }
        };
        let busy = self.submit_since(before);
        if moved.is_ok() {
            self.counts.brought += 1;
            self.driver.note(|| TraceKind::Resident { bytes: size });
        }
        let state = self.state(id)?;
        state.place = place;
        state.busy = busy.ok().flatten().or(state.busy);
        moved.and(busy.map(|_| ())).inspect_err(|_| self.keep_lock(id))?;
        self.rotate_lock(id)?;
        // Listed first, so that it is not evicted for its own page tables.
        let state = self.state(id)?;
        (state.accessible, state.listed, state.away) = (true, state.listed + 1, false);
        if let Err(status) = self.show_everywhere(id, request) {
            let state = self.state(id)?;
            (state.accessible, state.listed) = (false, state.listed - 1);
            self.hide_everywhere(id)?;
            return Err(status);
        }
        Ok(())
    }

    /// Gives one of two places back, between which bytes were to be moved; the answer is the other one.
    fn end_transfer(&mut self, id: AllocationId, (from, to): (Location, Location), size: u64, moved: bool) -> Location {
        if moved {
            self.leave_place(id, from, size);
            return to;
        }
        self.release_place(to, size);
        from
    }

    /// Takes memory in the first segment that has enough free memory, in the order the driver prefers; `None` if the allocation already is
    /// where it should be. Where the CPU does not reach it, a locked one does not go.
    fn find_place(
        &mut self,
        id: AllocationId,
        size: u64,
        request: &mut MemoryRequest,
    ) -> Result<Option<Location>, NTSTATUS> {
        let state = self.state(id)?;
        let allocation = Arc::clone(&state.allocation);
        let in_system = matches!(state.place, Location::System(_));
        let locked = state.lock.is_some();
        for segment in allocation.placements() {
            if locked && self.segments.memory(segment).is_some() && !self.may_be_locked_in(id, segment) {
                continue;
            }
            if self.segments.memory(segment).is_none() {
                // An aperture: implicit system memory stands behind it.
                if in_system {
                    return Ok(None);
                }
                if let Some(memory) = self.take_system(&allocation, size / PAGE_SIZE, request)? {
                    memory.zero();
                    return Ok(Some(Location::System(memory)));
                }
                continue;
            }
            let owner = self.bar_owner(&allocation, segment);
            if let Some(offset) = self.take_local(segment, size, allocation.alignment(), &owner, request)? {
                return Ok(Some(Location::Local { segment, offset }));
            }
        }
        Err(STATUS_NO_MEMORY)
    }

    /// Takes a range of a segment for an owner, making others leave if it must.
    pub(crate) fn take_local(
        &mut self,
        segment: u32,
        len: u64,
        align: u64,
        owner: &BarOwner,
        request: &mut MemoryRequest,
    ) -> Result<Option<u64>, NTSTATUS> {
        if self.segments.memory(segment).is_none_or(|memory| len > memory.size) {
            return Ok(None);
        }
        loop {
            if let Some(offset) = self.segments.allocate(segment, len, align, owner) {
                return Ok(Some(offset));
            }
            if !self.reclaim_some(segment, request)? {
                return Ok(None);
            }
        }
    }

    /// Takes system memory for an allocation, waiting for what is about to be freed if there is not enough.
    pub(crate) fn take_system(
        &mut self,
        allocation: &Allocation,
        pages: u64,
        request: &mut MemoryRequest,
    ) -> Result<Option<SystemMemory>, NTSTATUS> {
        let owner = allocation.kept().memory().written(&self.segments.ram)?;
        loop {
            if let Some(memory) = SystemMemory::allocate(&owner, pages) {
                return Ok(Some(memory));
            }
            if pages * PAGE_SIZE > self.segments.ram.size() || !self.reclaim_some(0, request)? {
                return Ok(None);
            }
        }
    }

    /// Moves an allocation from its segment to system memory; false if there is none, or it is in no segment. Its old range is
    /// free once the GPU has copied it.
    pub(crate) fn evict(&mut self, id: AllocationId) -> Result<bool, NTSTATUS> {
        let state = self.state(id)?;
        if !matches!(state.place, Location::Local { .. }) {
            return Ok(false);
        }
        let (kmd, size, owner) = (state.allocation.kmd(), state.allocation.size(), state.allocation.owner());
        let seen_by = Arc::clone(state.allocation.kept());
        let seen_by = seen_by.memory().written(&self.segments.ram)?;
        let Some(memory) = SystemMemory::allocate(&seen_by, size / PAGE_SIZE) else { return Ok(false) };
        let _moving = self.freeze(id)?;
        self.hide_everywhere(id).inspect_err(|_| self.keep_lock(id))?;
        self.some_away = true;
        let state = self.state(id)?;
        (state.accessible, state.away) = (false, is_needed(state));
        let from = std::mem::replace(&mut state.place, Location::Uncommitted);
        let left = if let Location::Local { segment, .. } = &from { Some(*segment) } else { None };
        let to = Location::System(memory);
        let before = self.paging.submitted();
        let moved = self.transfer(kmd, &from, &to, size);
        let stays = self.end_transfer(id, (from, to), size, moved.is_ok());
        let busy = self.submit_since(before);
        if moved.is_ok() {
            self.counts.evicted += 1;
            if let Some(segment) = left.and_then(|segment| self.segments.memory_mut(segment)) {
                segment.evicted = segment.evicted.saturating_add(size);
                segment.evictions = segment.evictions.saturating_add(1);
            }
            self.spaces
                .get_mut(&owner)
                .into_iter()
                .for_each(|space| space.evicted = space.evicted.saturating_add(size));
            self.driver.note(|| TraceKind::Evicted { bytes: size });
        }
        let state = self.state(id)?;
        state.place = stays;
        state.busy = busy.ok().flatten().or(state.busy);
        moved.and(busy.map(|_| ())).inspect_err(|_| self.keep_lock(id))?;
        self.rotate_lock(id)?;
        Ok(true)
    }

    /// Takes an allocation off the residency list once. It stays where it is until memory is short and `idle` has passed.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if it is not on the list.
    pub(crate) fn leave_list(&mut self, id: AllocationId, idle: &IdlePoint) -> Result<(), NTSTATUS> {
        let now = self.tick();
        let state = self.state(id)?;
        state.listed = state.listed.checked_sub(1).ok_or(STATUS_INVALID_PARAMETER)?;
        state.last_use = now;
        if state.listed == 0 && state.offered.is_none() {
            state.idle = Some(Arc::clone(idle));
        }
        Ok(())
    }

    /// Undoes [`Memory::make_resident`] for a request that failed as a whole.
    pub(crate) fn undo_resident(&mut self, id: AllocationId) {
        if let Some(state) = self.allocations.get_mut(&id) {
            state.listed = state.listed.saturating_sub(1);
        }
    }

    /// What was asked for and could not be had: bytes by which the process should shrink. [d3dukmdt: D3DDDI_MAKERESIDENT::NumBytesToTrim]
    pub(crate) fn bytes_missing(&self, id: AllocationId) -> u64 {
        let Some(state) = self.allocations.get(&id) else { return 0 };
        let segment = state.allocation.placements().find(|segment| self.segments.memory(*segment).is_some());
        let free = segment.map_or(0, |segment| self.segments.free_bytes(segment));
        state.allocation.size().saturating_sub(free).max(PAGE_SIZE)
    }
}

impl VidMm {
    /// Counts of allocations made resident and evicted so far.
    pub(crate) fn residency(&self) -> ResidencyCounts {
        lock(&self.memory).counts
    }

    /// Allocations, and mappings in all address spaces.
    pub(crate) fn held(&self) -> (usize, usize) {
        let memory = lock(&self.memory);
        let mappings = memory.spaces.values().map(|space| space.va.mappings().count()).sum();
        (memory.allocations.len(), mappings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_least_dear_and_least_recently_used_goes_first_and_locked_ones_last(
            candidates in prop::collection::vec((any::<bool>(), 0..3u32, 0..1000u64), 0..30),
        ) {
            let list = candidates.iter().zip(0..).map(|((locked, priority, last_use), id)| {
                Candidate { id: AllocationId(id), locked: *locked, priority: *priority, last_use: *last_use }
            });
            match choose(list) {
                None => prop_assert!(candidates.is_empty()),
                Some(AllocationId(id)) => {
                    let chosen = candidates[id as usize];
                    prop_assert!(candidates.iter().all(|other| *other >= chosen));
                    prop_assert!(!chosen.0 || candidates.iter().all(|(locked, ..)| *locked));
                }
            }
        }
    }
}

//! Memory for a request that finds none: one step after the other that may free some, and the end of destroyed allocations.
//!
//! What may be evicted for a request, and what became of the search, travels with it as a [`MemoryRequest`].
//!
//! It is part of the memory manager and no layer above it, because each step works on the places of allocations and must not let go of the memory lock
//! between the look at a place and its change. Whom a step may cost something, which processes are suspended for it and when they are resumed, is
//! decided above, by `suspended` and `trim`, without that lock.

use std::collections::VecDeque;
use std::time::Instant;

use crate::vidmm::ids::AllocationId;
use crate::vidmm::location::Location;
use crate::vidmm::memory::{AllocationState, Memory};
use crate::vidmm::request::{IDLE_TIMEOUT, MemoryRequest};
use crate::vidmm::residency;
use crate::vidmm::scheduler::IdlePoint;
use wddm_ddi::status::*;

impl Memory {
    /// As [`Memory::reclaim_some`], for an attempt that made some tables of several, when `before` bytes of a segment were free. Where the GPU
    /// writes tables, what was made is undone when it comes to that: there may be more memory then, but that something is under way means
    /// nothing.
    pub(super) fn reclaim_some_again(
        &mut self,
        segment: u32,
        before: u64,
        request: &mut MemoryRequest,
    ) -> Result<bool, NTSTATUS> {
        self.finish_tables()?;
        if self.segments.free_bytes(segment) > before { Ok(true) } else { self.reclaim_some(segment, request) }
    }

    /// Does one thing that may lead to free memory in `segment` (0 for system memory). False when nothing is left to try.
    pub(crate) fn reclaim_some(&mut self, segment: u32, request: &mut MemoryRequest) -> Result<bool, NTSTATUS> {
        if self.retire()? || self.free_destroyed()? {
            return Ok(true);
        }
        // What leaves the segment is free once the GPU has copied it, so whatever is under way comes first.
        self.submit()?;
        if self.wait_oldest()? {
            return Ok(true);
        }
        if self.take_offered(segment, request)? {
            return Ok(true);
        }
        if self.evict_one(segment, request)? {
            return Ok(true);
        }
        let found = request.waits_for_idle_queues && self.wait_for_idle(segment, request)?;
        request.short |= !found;
        request.idle_soon |= !found && self.is_idle_soon(segment);
        Ok(found)
    }

    /// True if something would free memory in `segment` that queues at work have not let go of yet.
    fn is_idle_soon(&self, segment: u32) -> bool {
        let waits = |state: &AllocationState| {
            let leaves = segment != 0 && residency::is_in(state, segment);
            let holds_here = leaves || (segment == 0 && matches!(state.place, Location::System(_)));
            let given_up = state.listed == 0 || state.offered.is_some();
            // The queues of a suspended process make no progress.
            let works = !self.is_suspended(state.allocation.owner());
            given_up && works && state.references == 0 && holds_here && (state.destroyed || leaves)
        };
        self.allocations.values().any(|state| waits(state) && state.idle.as_ref().is_some_and(|idle| !idle()))
    }

    /// Waits until queues have let go of something that would free memory in `segment`, within bounds.
    fn wait_for_idle(&mut self, segment: u32, request: &MemoryRequest) -> Result<bool, NTSTATUS> {
        let deadline = Instant::now() + IDLE_TIMEOUT;
        while self.is_idle_soon(segment) {
            if Instant::now() > deadline || self.driver.verifier.is_stopped() {
                break;
            }
            match self.paging.node() {
                Some(node) => node.pause(),
                None => return Ok(false),
            }
            if self.free_destroyed()?
                || self.take_offered(segment, request)?
                || residency::victim(self, segment, request).is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// An allocation is destroyed. It is freed once no doorbell refers to it and `idle` has passed (at once for `None`). Of one device,
    /// what is destroyed later is not idle sooner.
    pub(crate) fn destroy_when_idle(&mut self, id: AllocationId, idle: Option<IdlePoint>) {
        let Some(state) = self.allocations.get_mut(&id) else { return };
        (state.destroyed, state.listed) = (true, 0);
        let list = self.destroyed.entry(state.allocation.device()).or_default();
        // What waits for nothing is not behind what waits.
        if idle.is_none() {
            list.push_front(id)
        } else {
            list.push_back(id)
        }
        state.idle = idle;
    }

    /// Frees destroyed allocations that no queue can use any more, and unmaps the shared ones that were closed. True if any was freed.
    pub(crate) fn free_destroyed(&mut self) -> Result<bool, NTSTATUS> {
        self.unmap_closed()?;
        let mut ready = VecDeque::new();
        for list in self.destroyed.values_mut() {
            let mut at = 0;
            while let Some(id) = list.get(at) {
                #[cfg(test)]
                (self.looks += 1);
                match self.allocations.get(id) {
                    None => drop(list.remove(at)),
                    Some(state) if state.references != 0 => at += 1,
                    // Shared ones stand in one list for all devices, of which one may be idle before another.
                    Some(state) if state.allocation.is_shared() && state.idle.as_ref().is_some_and(|idle| !idle()) => {
                        at += 1
                    }
                    // Whatever is behind it waits for as much at least.
                    Some(state) if state.idle.as_ref().is_some_and(|idle| !idle()) => break,
                    Some(_) => ready.extend(list.remove(at)),
                }
            }
        }
        self.destroyed.retain(|_, list| !list.is_empty());
        let any = !ready.is_empty();
        while let Some(id) = ready.pop_front() {
            if let Err(status) = self.free(id) {
                ready.into_iter().chain([id]).for_each(|id| self.destroy_when_idle(id, None));
                return Err(status);
            }
        }
        Ok(any)
    }

    /// Frees what an allocation holds, now. Its memory is used again only after the paging work on it.
    pub(crate) fn free(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        self.end_lock(id);
        self.unmap_everywhere(id, None)?;
        let Some(state) = self.allocations.remove(&id) else { return Ok(()) };
        let size = state.allocation.size();
        self.totals.destroyed.add(size);
        self.leave_place(id, state.place, size);
        self.gone.push(state.allocation);
        Ok(())
    }
}

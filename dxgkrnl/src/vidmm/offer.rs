//! Offered memory: user mode does not need its contents until it takes it back.
//!
//! When memory is short, what is offered goes before anything else moves, and without a copy: the lowest priority first, and of those the
//! one offered first. It is not taken while queued work may use it, unless user mode says that none does. What is taken is nowhere, and
//! its page-table entries are invalid: a GPU that uses it all the same faults. Taken back it is zero, and where it should be. The residency
//! list is not touched by any of this. [d3dkmthk: D3DKMTOfferAllocations, D3DKMTReclaimAllocations2]

use std::sync::Arc;

use nt::lock::lock;
use wddm_ddi::kmt::D3DDDI_RECLAIM_RESULT;
use wddm_ddi::status::*;

use crate::vidmm::address_space::AddressSpace;
use crate::vidmm::allocation::Allocation;
use crate::vidmm::ids::{AllocationId, SpaceId};
use crate::vidmm::location::Location;
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::{AllocationState, Memory};
use crate::vidmm::offered::{OfferPriority, OfferTerms, Offered};
use crate::vidmm::request::MemoryRequest;
use crate::vidmm::residency;
use crate::vidmm::residency_queue::ResidencyQueue;

impl Memory {
    fn may_be_offered(&self, id: AllocationId) -> Result<(), NTSTATUS> {
        let state = self.allocations.get(&id).ok_or(STATUS_INVALID_HANDLE)?;
        match state {
            AllocationState { destroyed: true, .. } => Err(STATUS_GRAPHICS_ALLOCATION_CLOSED),
            AllocationState { offered: Some(_), .. } => Err(STATUS_INVALID_PARAMETER),
            AllocationState { references: 1.., .. } | AllocationState { lock: Some(_), .. } => {
                Err(STATUS_GRAPHICS_ALLOCATION_BUSY)
            }
            _ => Ok(()),
        }
    }

    /// Offers allocations, all or none.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if one is offered already; STATUS_GRAPHICS_ALLOCATION_BUSY if user mode has it locked or a doorbell uses it.
    pub(crate) fn offer(&mut self, list: &[AllocationId], terms: &OfferTerms) -> Result<(), NTSTATUS> {
        list.iter().try_for_each(|id| self.may_be_offered(*id))?;
        for id in list {
            let since = self.tick();
            let Some(state) = self.allocations.get_mut(id) else { continue };
            let OfferTerms { priority, decommit, ref idle } = *terms;
            state.offered = Some(Offered { priority, decommit, since, discarded: false });
            state.idle.clone_from(idle);
        }
        Ok(())
    }

    /// Takes an offered allocation for whoever needs memory in `segment`, 0 for system memory. False if there is none.
    pub(crate) fn take_offered(&mut self, segment: u32, request: &MemoryRequest) -> Result<bool, NTSTATUS> {
        let holds = |state: &AllocationState, offered: &Offered| match segment {
            0 => offered.decommit && matches!(state.place, Location::System(_)),
            segment => residency::is_in(state, segment),
        };
        let candidates = self.allocations.iter().filter_map(|(id, state)| {
            let offered = state.offered.as_ref()?;
            (holds(state, offered) && residency::may_leave(self, state, request.keeps)).then_some((
                offered.priority,
                offered.since,
                *id,
            ))
        });
        match candidates.min() {
            Some((_, _, id)) => self.discard(id).map(|()| true),
            None => Ok(false),
        }
    }

    fn discard(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        self.hide_everywhere(id)?;
        let state = self.allocations.get_mut(&id).ok_or(STATUS_INVALID_HANDLE)?;
        state.accessible = false;
        let place = std::mem::replace(&mut state.place, Location::Uncommitted);
        let size = state.allocation.size();
        if let Some(offered) = &mut state.offered {
            offered.take();
        }
        self.release_place(place, size);
        self.counts.discarded += 1;
        // What holds the memory back is on its way, so that nothing else is taken in its stead.
        self.submit()
    }

    /// Takes an allocation back.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if it is not offered; what kept it from its place. It is as it was then.
    fn reclaim(&mut self, id: AllocationId, request: &mut MemoryRequest) -> Result<D3DDDI_RECLAIM_RESULT, NTSTATUS> {
        let state = self.allocations.get_mut(&id).ok_or(STATUS_INVALID_HANDLE)?;
        let offered = state.offered.take().ok_or(STATUS_INVALID_PARAMETER)?;
        // A suspended process finds it when it is resumed.
        let (owner, away) = (state.allocation.owner(), state.listed > 0 && !state.accessible);
        let suspended = self.is_suspended(owner);
        if let Some(state) = self.allocations.get_mut(&id) {
            state.away |= away && suspended;
            self.some_away |= state.away;
        }
        let back = if away && !suspended { self.bring_back(id, request) } else { Ok(()) };
        match back {
            Ok(()) if offered.discarded => Ok(D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_DISCARDED),
            Ok(()) => Ok(D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_OK),
            Err(status) => {
                if let Some(state) = self.allocations.get_mut(&id) {
                    state.offered = Some(offered);
                }
                match status {
                    STATUS_NO_MEMORY if offered.decommit && offered.discarded => {
                        Ok(D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_NOT_COMMITTED)
                    }
                    status => Err(status),
                }
            }
        }
    }

    /// Makes an allocation of the residency list resident again after it was reclaimed.
    fn bring_back(&mut self, id: AllocationId, request: &mut MemoryRequest) -> Result<(), NTSTATUS> {
        self.make_resident(id, request)?;
        self.undo_resident(id);
        Ok(())
    }

    /// Offers an allocation again that was taken back for a request that failed as a whole.
    fn offer_again(&mut self, id: AllocationId, offered: Option<Offered>) {
        if let Some(state) = self.allocations.get_mut(&id) {
            state.offered = offered;
        }
    }
}

impl VidMm {
    /// D3DKMTOfferAllocations. [d3dkmthk: D3DKMTOfferAllocations]
    ///
    /// # Errors
    /// As [`Memory::offer`](super::memory::Memory::offer).
    pub(crate) fn offer(&self, list: &[Arc<Allocation>], terms: &OfferTerms) -> Result<(), NTSTATUS> {
        let list: Vec<AllocationId> = list.iter().map(|allocation| allocation.id()).collect();
        lock(&self.memory).offer(&list, terms)?;
        self.tell_budgets();
        Ok(())
    }

    /// D3DKMTReclaimAllocations2: the value of the queue's fence at which the memory may be used, 0 for at once, and what has become of
    /// each group. [d3dkmthk: D3DKMTReclaimAllocations2]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if one is not offered; STATUS_NO_MEMORY. All are offered as they were then.
    pub(crate) fn reclaim(
        &self,
        queue: &ResidencyQueue,
        groups: &[Vec<Arc<Allocation>>],
    ) -> Result<(u64, Vec<D3DDDI_RECLAIM_RESULT>), NTSTATUS> {
        let all = groups.concat();
        let mut memory = lock(&self.memory);
        let before = memory.paging.submitted();
        let outcomes = memory.reclaim_groups(&all, groups, &mut MemoryRequest::waiting());
        let answer = outcomes.and_then(|outcomes| Ok((memory.completion_of(queue, &all, before)?, outcomes)));
        drop(memory);
        self.report_freed();
        answer
    }

    /// D3DKMTReclaimAllocations: as [`VidMm::reclaim`], and the memory may be used when this returns. [d3dkmthk: D3DKMTReclaimAllocations]
    ///
    /// # Errors
    /// As [`VidMm::reclaim`]; STATUS_NO_MEMORY also for what was decommitted and finds no memory.
    pub(crate) fn reclaim_and_wait(
        &self,
        groups: &[Vec<Arc<Allocation>>],
    ) -> Result<Vec<D3DDDI_RECLAIM_RESULT>, NTSTATUS> {
        let all = groups.concat();
        let mut memory = lock(&self.memory);
        let offers = memory.offers_of(&all);
        let answer = memory.reclaim_groups(&all, groups, &mut MemoryRequest::waiting()).and_then(|outcomes| {
            let lacking = outcomes.contains(&D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_NOT_COMMITTED);
            if lacking {
                all.iter().zip(offers).for_each(|(one, offered)| memory.offer_again(one.id(), offered));
                return Err(STATUS_NO_MEMORY);
            }
            Ok(outcomes)
        });
        drop(memory);
        self.finish_paging();
        answer
    }

    /// Takes what a process has offered for decommitment and is in memory of the machine, until `wanted` bytes are given back; how many were.
    ///
    /// # Errors
    /// Page tables could not be written; what was taken until then is taken.
    pub(crate) fn decommit(&self, process: &AddressSpace, wanted: u64) -> Result<u64, NTSTATUS> {
        let mut memory = lock(&self.memory);
        let mut given = 0u64;
        while given < wanted {
            let candidates = memory.decommittable(process.id());
            let Some((_, _, id, size)) = candidates.into_iter().filter(|one| memory.may_go(one.2)).min() else { break };
            memory.discard(id)?;
            given = given.saturating_add(size);
        }
        drop(memory);
        self.report_freed();
        Ok(given)
    }

    /// Bytes that [`VidMm::decommit`] could give back, and the time of the newest of these offers.
    pub(crate) fn decommittable(&self, process: &AddressSpace) -> (u64, u64) {
        let list = lock(&self.memory).decommittable(process.id());
        list.iter()
            .fold((0u64, 0), |(bytes, newest), (_, since, _, size)| (bytes.saturating_add(*size), newest.max(*since)))
    }
}

type Decommittable = (OfferPriority, u64, AllocationId, u64);

impl Memory {
    /// What a process has offered for decommitment and is in memory of the machine: priority, time, name and bytes.
    fn decommittable(&self, process: SpaceId) -> Vec<Decommittable> {
        let of_process = self.allocations.iter().filter(|(_, state)| state.allocation.owner() == process);
        let offered = of_process.filter_map(|(id, state)| {
            let offered =
                state.offered.filter(|offered| offered.decommit && matches!(state.place, Location::System(_)))?;
            Some((offered.priority, offered.since, *id, state.allocation.size()))
        });
        offered.collect()
    }

    fn may_go(&self, id: AllocationId) -> bool {
        self.allocations.get(&id).is_some_and(|state| residency::may_leave(self, state, None))
    }

    fn offers_of(&self, list: &[Arc<Allocation>]) -> Vec<Option<Offered>> {
        list.iter().map(|one| self.allocations.get(&one.id()).and_then(|state| state.offered)).collect()
    }

    /// Takes groups of allocations back, all or none; what has become of each group.
    fn reclaim_groups(
        &mut self,
        all: &[Arc<Allocation>],
        groups: &[Vec<Arc<Allocation>>],
        request: &mut MemoryRequest,
    ) -> Result<Vec<D3DDDI_RECLAIM_RESULT>, NTSTATUS> {
        let offers = self.offers_of(all);
        if offers.iter().any(Option::is_none) {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let outcomes: Result<Vec<Vec<D3DDDI_RECLAIM_RESULT>>, NTSTATUS> = groups
            .iter()
            .map(|group| group.iter().map(|allocation| self.reclaim(allocation.id(), request)).collect())
            .collect();
        let outcomes = outcomes.inspect_err(|_| {
            for (allocation, offered) in all.iter().zip(offers) {
                self.offer_again(allocation.id(), offered);
            }
        })?;
        Ok(outcomes.iter().map(|group| worst(group)).collect())
    }
}

/// Result for a group: the worst of its allocations.
fn worst(group: &[D3DDDI_RECLAIM_RESULT]) -> D3DDDI_RECLAIM_RESULT {
    let worst = group.iter().copied().max_by_key(|result| result.0);
    worst.unwrap_or(D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_OK)
}

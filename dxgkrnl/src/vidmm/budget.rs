//! Budgets: how much memory a process should keep resident at most.
//!
//! What a process has on its residency list counts, in the group of the segment where it is. Without pressure a process may have all
//! that the others leave. A request that finds no memory is pressure: what it wants counts as if it were there already, and everybody who
//! has more than its share is over budget by that. The share of a process is what it has reserved and an equal part of what nobody has
//! reserved; all shares fit at once. [process-residency-budgets; d3dkmthk: D3DKMT_QUERYVIDEOMEMORYINFO]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::refusal::{Failure, refused};
use crate::vidmm::address_space::AddressSpace;
use crate::vidmm::allocation::Allocation;
use crate::vidmm::budget_group::{Demands, Group};
use crate::vidmm::ids::{AllocationId, SpaceId};
use crate::vidmm::location::Location;
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::{AllocationState, Memory};

/// Bytes, as user mode is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryInfo {
    /// The process should keep no more resident.
    pub(crate) budget: u64,
    /// The process keeps resident.
    pub(crate) usage: u64,
    /// The process has reserved.
    pub(crate) reservation: u64,
    /// The process could reserve.
    pub(crate) available: u64,
}

impl Memory {
    /// The segment group whose budget an allocation on a residency list uses; `None` if it uses none.
    fn group_of(&self, state: &AllocationState) -> Option<Group> {
        let of_segment = |segment: u32| match self.segments.memory(segment) {
            Some(memory) => memory.group,
            None => Some(Group::NonLocal),
        };
        match &state.place {
            // While its process is suspended it counts where it would be.
            _ if !state.accessible => of_segment(state.allocation.placements().next()?),
            Location::Uncommitted => None,
            Location::System(_) => Some(Group::NonLocal),
            Location::Local { segment, .. } => of_segment(*segment),
        }
    }

    /// Bytes that each process keeps resident in a group; none for processes that keep nothing.
    fn usages(&self, group: Group) -> BTreeMap<SpaceId, u64> {
        let mut usages = BTreeMap::new();
        let listed = self.allocations.values().filter(|state| state.listed > 0 && state.offered.is_none());
        for state in listed.filter(|state| self.group_of(state) == Some(group)) {
            for process in state.allocation.charged() {
                *usages.entry(process).or_insert(0) += state.allocation.size();
            }
        }
        usages
    }

    /// True if what a process keeps on its residency list could be in memory together with `list`, if nobody else had anything there.
    pub(crate) fn could_hold(&self, process: SpaceId, list: &[Arc<Allocation>]) -> bool {
        let new = |id: &AllocationId| list.iter().any(|allocation| allocation.id() == *id);
        let of_device =
            |allocation: &Allocation| allocation.placements().all(|segment| self.segments.memory(segment).is_some());
        let kept = self.allocations.iter().filter(|(id, state)| {
            state.allocation.owner() == process
                && (new(id) || state.listed > 0 && state.offered.is_none())
                && of_device(&state.allocation)
        });
        let bytes = kept.fold(0u64, |sum, (_, state)| sum.saturating_add(state.allocation.size()));
        bytes <= self.segments.capacity_of_device()
    }

    /// Bytes that processes share in a group: what is free, what allocations have, and what they leave just now. Page tables and fences
    /// are not theirs. Of the machine's memory half is for adapters.
    fn capacity(&self, group: Group) -> u64 {
        let segments: Vec<u32> = self.segments.of_group(group).collect();
        let of_machine = if group == Group::NonLocal { self.segments.ram.size() / 2 } else { 0 };
        let free = segments.iter().map(|segment| self.segments.free_bytes(*segment) + self.paging.leaving(*segment));
        let place = |state: &AllocationState| match state.place {
            Location::Local { segment, .. } if segments.contains(&segment) => state.allocation.size(),
            _ => 0,
        };
        free.chain(self.allocations.values().map(place)).fold(of_machine, u64::saturating_add)
    }

    pub(super) fn info(&self, process: SpaceId, group: Group) -> MemoryInfo {
        let mut usages = self.usages(group);
        let usage = usages.remove(&process).unwrap_or(0);
        let Demands { reserved, wanted } = &self.demands;
        let of_others = |demands: &BTreeMap<(SpaceId, Group), u64>| -> Vec<(SpaceId, u64)> {
            let others = demands.iter().filter(|((other, of), _)| *other != process && *of == group);
            others.map(|((other, _), bytes)| (*other, *bytes)).collect()
        };
        let (reserved_by_others, wanted_by_others) = (of_others(reserved), of_others(wanted));
        let sum = |demands: &[(SpaceId, u64)]| demands.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let capacity = self.capacity(group);
        let reservation = reserved.get(&(process, group)).copied().unwrap_or(0);
        let (left, right) = (sum(&reserved_by_others), sum(&wanted_by_others));
        let others: BTreeSet<SpaceId> = usages
            .keys()
            .chain(reserved_by_others.iter().chain(&wanted_by_others).map(|(other, _)| other))
            .copied()
            .collect();
        let unreserved = capacity.saturating_sub(left).saturating_sub(reservation);
        let share = reservation + unreserved / (others.len() as u64 + 1);
        let taken = usages.values().fold(right, |sum, bytes| sum.saturating_add(*bytes));
        let budget = share.max(capacity.saturating_sub(taken));
        MemoryInfo { budget, usage, reservation, available: (capacity / 2).saturating_sub(left) }
    }

    /// Bytes that a process should take off its residency lists.
    pub(crate) fn over_budget(&self, process: SpaceId) -> u64 {
        if self.demands.wanted.keys().all(|(other, _)| *other == process) {
            // Nobody is in need: whatever is there may stay.
            return 0;
        }
        let over = |group| {
            let info = self.info(process, group);
            info.usage.saturating_sub(info.budget)
        };
        over(Group::Local) + over(Group::NonLocal)
    }

    /// A request of a process on `list` found no memory. The answer is by how much the process would be over its budget if all of them were
    /// resident, and which processes should give back how much.
    pub(crate) fn note_shortage(&mut self, list: &[Arc<Allocation>], at: AllocationId) -> (u64, Vec<(SpaceId, u64)>) {
        let missing = self.bytes_missing(at);
        let Some(process) = list.first().map(|allocation| allocation.owner()) else { return (missing, Vec::new()) };
        let group = |allocation: &Allocation| {
            let first = allocation.placements().next()?;
            self.segments.memory(first).map_or(Some(Group::NonLocal), |memory| memory.group)
        };
        let Some(wanted) =
            list.iter().find(|allocation| allocation.id() == at).and_then(|allocation| group(allocation))
        else {
            return (missing, Vec::new());
        };
        let is_new =
            |allocation: &Allocation| self.allocations.get(&allocation.id()).is_some_and(|state| state.listed == 0);
        let new = list.iter().filter(|allocation| is_new(allocation) && group(allocation) == Some(wanted));
        let ids: BTreeMap<AllocationId, u64> = new.map(|allocation| (allocation.id(), allocation.size())).collect();
        let bytes = ids.values().fold(0u64, |sum, size| sum.saturating_add(*size));
        self.demands.wanted.insert((process, wanted), bytes);
        let info = self.info(process, wanted);
        let over = info.usage.saturating_add(bytes).saturating_sub(info.budget);
        let others: BTreeSet<SpaceId> =
            self.allocations.values().flat_map(|state| state.allocation.charged()).collect();
        let others = others.into_iter().filter(|other| *other != process);
        let trims = others.map(|other| (other, self.over_budget(other))).filter(|(_, bytes)| *bytes > 0).collect();
        (over.max(missing), trims)
    }
}

impl VidMm {
    /// D3DKMTQueryVideoMemoryInfo. [d3dkmthk: D3DKMTQueryVideoMemoryInfo]
    pub(crate) fn video_memory_info(&self, process: &AddressSpace, group: Group) -> MemoryInfo {
        lock(&self.memory).info(process.id(), group)
    }

    /// D3DKMTChangeVideoMemoryReservation. [d3dkmthk: D3DKMTChangeVideoMemoryReservation]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for more than is available; the reservation is as it was.
    pub(crate) fn reserve_memory(&self, process: &AddressSpace, group: Group, bytes: u64) -> Result<(), Failure> {
        let mut memory = lock(&self.memory);
        let available = memory.info(process.id(), group).available;
        if bytes > available {
            let why = format!("Reservation is {bytes:#x}, and AvailableForReservation is {available:#x}");
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let reserved = &mut memory.demands.reserved;
        match bytes {
            0 => drop(reserved.remove(&(process.id(), group))),
            bytes => drop(reserved.insert((process.id(), group), bytes)),
        }
        drop(memory);
        self.tell_budgets();
        Ok(())
    }
}

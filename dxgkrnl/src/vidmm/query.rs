//! What user mode asks about memory and says of it: where allocations are, how dear they are, and how full the segments are.

use std::sync::Arc;

use nt::lock::lock;
use wddm_ddi::km::D3DDDI_SEGMENTPREFERENCE;
use wddm_ddi::status::*;

use crate::refusal::{Failure, refused};
use crate::vidmm::address_space::AddressSpace;
use crate::vidmm::allocation::Allocation;
use crate::vidmm::counts::Totals;
use crate::vidmm::location::Location;
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::{AllocationState, Memory};

/// Where the GPU finds an allocation, the best place first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ResidencyStatus {
    /// In memory of the device.
    GpuMemory,
    /// In memory of the machine.
    SharedMemory,
    /// Nowhere.
    NotResident,
}

/// How full a segment is. Bytes, and numbers of allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentFigures {
    /// Allocations that are there or have it as their first choice.
    pub(crate) committed: u64,
    pub(crate) allocations_committed: u32,
    /// Allocations that are there and found by the GPU.
    pub(crate) resident: u64,
    pub(crate) allocations_resident: u32,
    /// Left it with their contents since the adapter started.
    pub(crate) evicted: u64,
    pub(crate) evictions: u32,
    /// Taken: by allocations, page tables, fences and what is about to be given back. 0 for an aperture.
    pub(crate) taken: u64,
}

fn residency_status(state: &AllocationState) -> ResidencyStatus {
    match &state.place {
        _ if !state.accessible => ResidencyStatus::NotResident,
        Location::Local { .. } => ResidencyStatus::GpuMemory,
        Location::System(_) => ResidencyStatus::SharedMemory,
        Location::Uncommitted => ResidencyStatus::NotResident,
    }
}

impl Memory {
    /// The segment that an allocation counts for. What is in memory of the machine counts for its aperture.
    fn segment_of(&self, state: &AllocationState) -> Option<u32> {
        let aperture = |state: &AllocationState| {
            state.allocation.placements().find(|segment| self.segments.memory(*segment).is_none())
        };
        match &state.place {
            Location::Local { segment, .. } => Some(*segment),
            Location::System(_) => aperture(state).or_else(|| state.allocation.placements().next()),
            Location::Uncommitted => state.allocation.placements().next(),
        }
    }

    fn figures(&self, segment: u32, process: Option<&AddressSpace>) -> SegmentFigures {
        let mut figures = SegmentFigures::default();
        let of_process = |state: &&AllocationState| process.is_none_or(|space| state.allocation.is_of(space.id()));
        let here = self.allocations.values().filter(of_process).filter(|state| !state.destroyed);
        for state in here.filter(|state| self.segment_of(state) == Some(segment)) {
            let size = state.allocation.size();
            figures.committed = figures.committed.saturating_add(size);
            figures.allocations_committed += 1;
            if residency_status(state) != ResidencyStatus::NotResident {
                figures.resident = figures.resident.saturating_add(size);
                figures.allocations_resident += 1;
            }
        }
        if let Some(memory) = self.segments.memory(segment) {
            figures.taken = memory.size.saturating_sub(self.segments.free_bytes(segment));
            (figures.evicted, figures.evictions) = (memory.evicted, memory.evictions);
        }
        figures
    }
}

impl VidMm {
    /// Segment and offset of an allocation.
    pub(crate) fn residency_status(&self, allocation: &Allocation) -> ResidencyStatus {
        lock(&self.memory).allocations.get(&allocation.id()).map_or(ResidencyStatus::NotResident, residency_status)
    }

    /// How dear an allocation is: what has a lower number leaves memory earlier. [d3dukmdt: D3DDDI_ALLOCATIONPRIORITY]
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for an allocation that is gone.
    pub(crate) fn priority(&self, allocation: &Allocation) -> Result<u32, NTSTATUS> {
        lock(&self.memory).allocations.get(&allocation.id()).map(|state| state.priority).ok_or(STATUS_INVALID_HANDLE)
    }

    /// Says how dear an allocation is.
    pub(crate) fn set_priority(&self, allocation: &Allocation, priority: u32) {
        if let Some(state) = lock(&self.memory).allocations.get_mut(&allocation.id()) {
            state.priority = priority;
        }
    }

    /// How full a segment is, by its number among those of all engines from 1 on, or what of it is of one process.
    pub(crate) fn segment_figures(&self, segment: u32, process: Option<&AddressSpace>) -> SegmentFigures {
        // Memory that nothing uses any more does not count as taken.
        self.collect();
        lock(&self.memory).figures(segment, process)
    }

    /// Counters of allocations since the adapter started.
    pub(crate) fn totals(&self) -> Totals {
        // What is destroyed and used by nobody any more is gone.
        self.collect();
        lock(&self.memory).totals
    }

    /// Bytes of allocations of a process that have left a memory segment with their contents.
    pub(crate) fn evicted_bytes(&self, process: &AddressSpace) -> u64 {
        lock(&self.memory).spaces.get(&process.id()).map_or(0, |space| space.evicted)
    }

    /// Bytes of the machine's memory in which allocations of a process are.
    pub(crate) fn system_bytes(&self, process: &AddressSpace) -> u64 {
        let memory = lock(&self.memory);
        let of_process = memory.allocations.values().filter(|state| state.allocation.is_of(process.id()));
        let in_system = of_process.filter(|state| !state.destroyed && matches!(state.place, Location::System(_)));
        in_system.fold(0, |bytes, state| bytes.saturating_add(state.allocation.size()))
    }

    /// D3DKMTUpdateAllocationProperty: the segments in which an allocation may be, a bit each for those of its engine, and the order in which
    /// they are tried from now on. An allocation that is somewhere stays there until it leaves for another reason.
    /// [d3dukmdt: D3DDDI_UPDATEALLOCPROPERTY]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a segment that the driver did not allow, for none, and for a preferred one outside the set;
    /// STATUS_GRAPHICS_ALLOCATION_BUSY for a set without the segment where the allocation is. Nothing is changed.
    pub(crate) fn update_property(
        &self,
        allocation: &Arc<Allocation>,
        set: Option<u32>,
        preferred: Option<D3DDDI_SEGMENTPREFERENCE>,
    ) -> Result<(), Failure> {
        let memory = lock(&self.memory);
        let state = memory.allocations.get(&allocation.id()).ok_or(STATUS_INVALID_HANDLE)?;
        let allowed: Vec<u32> = allocation.allowed().collect();
        let first = allowed.first().map(|id| memory.segments.first_beside(*id)).ok_or(STATUS_INVALID_PARAMETER)?;
        let now: Vec<u32> = allocation.placements().collect();
        let wanted: Vec<u32> = match set {
            None => now.clone(),
            Some(set) => (0..32).filter(|bit| set >> bit & 1 != 0).map(|bit| first + bit).collect(),
        };
        let stays = matches!(state.place, Location::Uncommitted)
            || memory.segment_of(state).is_some_and(|at| wanted.contains(&at));
        if wanted.is_empty() || wanted.iter().any(|id| !allowed.contains(id)) {
            let bits = allowed.iter().fold(0_u32, |bits, id| bits | 1 << (id - first));
            let set = set.unwrap_or_default();
            let why = format!("SupportedSegmentSet is {set:#x}, and the driver allows {bits:#x}");
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let named = preferred.map_or([0; 5], |order| {
            [order.SegmentId0(), order.SegmentId1(), order.SegmentId2(), order.SegmentId3(), order.SegmentId4()]
        });
        let mut order: Vec<u32> = Vec::new();
        for id in named.into_iter().filter(|id| *id != 0).map(|id| first + u32::from(id) - 1) {
            if !wanted.contains(&id) {
                let why = format!("PreferredSegment names segment {}, which is not in the set", id - first + 1);
                return Err(refused(STATUS_INVALID_PARAMETER, why));
            }
            if !order.contains(&id) {
                order.push(id);
            }
        }
        if !stays {
            let why = "SupportedSegmentSet is without the segment where the allocation is";
            return Err(refused(STATUS_GRAPHICS_ALLOCATION_BUSY, why));
        }
        for id in now.into_iter().chain(allowed).filter(|id| wanted.contains(id)) {
            if !order.contains(&id) {
                order.push(id);
            }
        }
        allocation.set_placements(&order);
        Ok(())
    }
}

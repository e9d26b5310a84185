//! CPU locks: an address of an allocation that stays while the bytes move underneath.
//!
//! When a locked allocation moves, the GPU copies it, and the address is rotated to the new place afterwards, page by page of the
//! host. An allocation that is wanted resident never moves, so only a lock held across Evict or MakeResident sees it. What user mode
//! stores between the copy and the rotation is lost, as it is when the GPU writes there unasked: the contract of MakeResident is that
//! the contents are used after its fence.

use std::sync::Arc;

use wddm_ddi::status::*;

use crate::adapter::BarPlace;
use crate::ram::PAGE_SIZE;
use crate::vidmm::allocation::AllocationId;
use crate::vidmm::memory::{Memory, Place};
use crate::vidmm::user_mapping::UserMapping;

/// The file behind a bus address of a BAR.
pub(crate) type BarFiles = Arc<dyn Fn(u64) -> Option<BarPlace> + Send + Sync>;

/// An allocation that user mode has locked.
pub(crate) struct Lock {
    mapping: UserMapping,
    count: u32,
}

impl Memory {
    /// Locks an allocation; the answer is its user address. Locks nest and share the address.
    ///
    /// # Errors
    /// STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE if it is not for the CPU, STATUS_GRAPHICS_CANT_LOCK_MEMORY if it is resident where
    /// the CPU does not reach, STATUS_NO_MEMORY.
    pub(crate) fn lock(&mut self, id: AllocationId) -> Result<usize, NTSTATUS> {
        let now = self.tick();
        let state = self.allocations.get_mut(&id).ok_or(STATUS_INVALID_HANDLE)?;
        if state.destroyed {
            return Err(STATUS_GRAPHICS_ALLOCATION_CLOSED);
        }
        if !state.allocation.is_cpu_visible() {
            return Err(STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE);
        }
        state.last_use = now;
        if let Some(lock) = &mut state.lock {
            lock.count = lock.count.checked_add(1).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
            return Ok(lock.mapping.address().as_ptr().expose_provenance());
        }
        self.bring_to_cpu(id)?;
        let state = self.allocations.get(&id).ok_or(STATUS_INVALID_HANDLE)?;
        let mapping = UserMapping::reserve(state.allocation.size()).map_err(|_| STATUS_NO_MEMORY)?;
        self.show_to_cpu(&mapping, &state.place)?;
        let address = mapping.address().as_ptr().expose_provenance();
        if let Some(state) = self.allocations.get_mut(&id) {
            state.lock = Some(Lock { mapping, count: 1 });
        }
        Ok(address)
    }

    /// Ends one lock.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if the allocation is not locked.
    pub(crate) fn unlock(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        let state = self.allocations.get_mut(&id).ok_or(STATUS_INVALID_HANDLE)?;
        let lock = state.lock.as_mut().ok_or(STATUS_INVALID_PARAMETER)?;
        lock.count -= 1;
        if lock.count == 0 {
            state.lock = None;
        }
        Ok(())
    }

    /// Puts an allocation where the CPU reaches it, and waits until the GPU has written what it should see.
    fn bring_to_cpu(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        let state = self.allocations.get(&id).ok_or(STATUS_INVALID_HANDLE)?;
        let (listed, size) = (state.listed > 0, state.allocation.size());
        match &state.place {
            Place::Uncommitted => {
                let memory = self.take_system(size / PAGE_SIZE)?.ok_or(STATUS_NO_MEMORY)?;
                memory.zero();
                if let Some(state) = self.allocations.get_mut(&id) {
                    state.place = Place::System(memory);
                }
            }
            Place::Local { segment, .. }
                if self.segments.memory(*segment).is_none_or(|memory| memory.cpu_address.is_none()) =>
            {
                if listed || !self.evict(id)? {
                    return Err(STATUS_GRAPHICS_CANT_LOCK_MEMORY);
                }
            }
            Place::System(_) | Place::Local { .. } => {}
        }
        self.wait_until_quiet(id)
    }

    /// Waits for paging work on an allocation.
    pub(crate) fn wait_until_quiet(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        if let Some(fence) = self.allocations.get(&id).and_then(|state| state.busy) {
            self.wait_for(fence)?;
            if let Some(state) = self.allocations.get_mut(&id) {
                state.busy = None;
            }
        }
        Ok(())
    }

    /// Makes the address of a locked allocation show its new place.
    pub(crate) fn rotate_lock(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        if self.allocations.get(&id).is_none_or(|state| state.lock.is_none()) {
            return Ok(());
        }
        self.wait_until_quiet(id)?;
        let Some(state) = self.allocations.get(&id) else { return Ok(()) };
        match &state.lock {
            Some(lock) => self.show_to_cpu(&lock.mapping, &state.place),
            None => Ok(()),
        }
    }

    fn show_to_cpu(&self, mapping: &UserMapping, place: &Place) -> Result<(), NTSTATUS> {
        match place {
            Place::Uncommitted => Err(STATUS_INTERNAL_ERROR),
            Place::System(memory) => {
                for (first, pages) in memory.chunks() {
                    mapping
                        .show(first * PAGE_SIZE, pages.ram().file(), pages.address(), pages.len(), true)
                        .map_err(|_| STATUS_NO_MEMORY)?;
                }
                Ok(())
            }
            Place::Local { segment, offset } => {
                let start = self.segments.memory(*segment).and_then(|segment| segment.cpu_address);
                let bus = start.and_then(|start| start.checked_add(*offset)).ok_or(STATUS_GRAPHICS_CANT_LOCK_MEMORY)?;
                let bar = (self.bars)(bus).ok_or(STATUS_GRAPHICS_CANT_LOCK_MEMORY)?;
                if bar.len < mapping.len() {
                    return Err(STATUS_GRAPHICS_CANT_LOCK_MEMORY);
                }
                mapping.rotate(&bar.file, bar.offset, true).map_err(|_| STATUS_NO_MEMORY)
            }
        }
    }
}

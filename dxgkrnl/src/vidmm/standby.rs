//! Devices that are not in D0: what their segments do not keep leaves them before, and comes back to its place behind.
//!
//! No queue is at work and no thunk inside while memory leaves or comes back. Its range of the segment stays taken, so addresses and
//! page-table entries are what they were. Allocations are moved by the paging node; page tables are written anew, from what is known
//! of them here; fence values are kept by value. Whatever its segment keeps, a locked allocation leaves, because no BAR answers
//! outside D0: its address shows system memory as long as the device sleeps, and no store to it is lost on either way.
//! [d3dkmddi: DXGK_SEGMENTFLAGS; debugger: 0x10e, subcodes 0x3b and 0x3c]

use std::sync::Arc;

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::vidmm::allocation::Allocation;
use crate::vidmm::ids::AllocationId;
use crate::vidmm::location::Location;
use crate::vidmm::locked_views::Lock;
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::{AllocationState, Memory};
use crate::vidmm::request::MemoryRequest;
use crate::vidmm::system_memory::SystemMemory;
use crate::vidmm::user_mapping::{Frozen, UserMapping};
use nt::page::PAGE_SIZE;

/// An allocation on its way.
pub(super) struct Moving {
    id: AllocationId,
    /// Its user addresses, if it is locked and the process does not have to be waited for.
    _frozen: Vec<Frozen>,
}

impl Memory {
    /// Takes everything out of the segments that would be lost. When the call returns, no paging work is under way.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY; everything is as it was.
    pub(crate) fn park(&mut self, hibernates: bool) -> Result<(), NTSTATUS> {
        let leaves = |state: &AllocationState| match state.place {
            Location::Local { segment, .. } => state.lock.is_some() || self.segments.loses(segment, hibernates),
            Location::Uncommitted | Location::System(_) => false,
        };
        let leaving = self.allocations.iter().filter(|(_, state)| leaves(state));
        let leaving: Vec<(AllocationId, Arc<Allocation>)> =
            leaving.map(|(id, state)| (*id, Arc::clone(&state.allocation))).collect();
        // Everything that can fail for want of memory comes first.
        let mut places = Vec::with_capacity(leaving.len());
        for (id, allocation) in leaving {
            let pages = allocation.size() / PAGE_SIZE;
            let memory = self.take_system(&allocation, pages, &mut MemoryRequest::waiting())?;
            places.push((id, memory.ok_or(STATUS_NO_MEMORY)?));
        }
        self.standby = Some(hibernates);
        let mut moving = Vec::with_capacity(places.len());
        let left = places.into_iter().try_for_each(|(id, memory)| {
            moving.push(self.freeze(id)?);
            self.leave(id, memory)
        });
        let left = left.and_then(|()| self.finish_moves());
        let left = left.and_then(|()| moving.iter().try_for_each(|moved| self.show_parked(moved.id)));
        if left.is_err() {
            moving.iter().for_each(|moved| self.keep_lock(moved.id));
        }
        drop(moving);
        if let Err(status) = left {
            // What has left comes back; nothing was lost yet.
            return self.unpark(false).and(Err(status));
        }
        self.keep_fence_pages(|segments, segment| segments.loses(segment, hibernates));
        Ok(())
    }

    /// The adapter is about to be reset, and no engine writes fences any more. What lies in its memory is lost with the devices it
    /// belongs to; fences outlive those.
    fn prepare_reset(&mut self) {
        self.keep_fence_pages(|_, _| true);
    }

    /// The adapter was reset, and nothing that lay in its memory, or that paging work was about to write there, is relied upon.
    ///
    /// # Errors
    /// The machine has stopped.
    fn end_reset(&mut self) -> Result<(), NTSTATUS> {
        self.return_fence_pages();
        self.rebuild_tables()
    }

    /// Brings everything back to its place. `lost`: the device was out of D0 meanwhile.
    ///
    /// # Errors
    /// The machine has stopped, or a lock could not be shown again, whose address then shows nothing.
    pub(crate) fn unpark(&mut self, lost: bool) -> Result<(), NTSTATUS> {
        let Some(hibernates) = self.standby.take() else { return Ok(()) };
        self.slept |= lost;
        if lost {
            self.rebuild_lost_tables(hibernates)?;
        }
        self.return_fence_pages();
        let parked = self.allocations.iter().filter(|(_, state)| state.parked.is_some());
        let parked: Vec<AllocationId> = parked.map(|(id, _)| *id).collect();
        let (mut moving, mut left) = (Vec::with_capacity(parked.len()), Vec::with_capacity(parked.len()));
        let back = parked.into_iter().try_for_each(|id| {
            moving.push(self.freeze(id)?);
            self.come_back(id, &mut left)
        });
        let back = match back.and_then(|()| self.finish_moves()) {
            Ok(()) => {
                // All of them, and the first error.
                let mut shown = Ok(());
                moving.iter().for_each(|moved| shown = shown.and(self.show_in_place(moved.id)));
                shown
            }
            Err(status) => {
                moving.iter().for_each(|moved| self.give_lock_away(moved.id));
                Err(status)
            }
        };
        // Until here addresses of locks showed what is freed now.
        drop(moving);
        left.into_iter().for_each(|(id, from, size)| self.leave_place(id, from, size));
        back
    }

    /// The bytes of a frozen allocation did not come back to the device, and what its addresses show is about to be freed: they show a copy, which is
    /// the process' own. A thread that stores there loses nothing, and reaches nobody else's memory.
    fn give_lock_away(&mut self, id: AllocationId) {
        let Some(lock) = self.allocations.get_mut(&id).and_then(|state| state.lock.as_mut()) else { return };
        if let Some(moved) = &mut lock.moving {
            moved.given_away = true;
            return;
        }
        for mapping in lock.mappings() {
            if mapping.detach(true).is_err() {
                // The host has no memory. A program that refuses even that is ended; only the one that this machine is in cannot be, and what it sees is memory of its own.
                let _ = mapping.hide_all();
            }
        }
    }

    /// Keeps user mode from storing to an allocation that is about to move: a thread that does waits until the answer is dropped.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when the host refuses, or processes are to be asked first, see [`super::moving`].
    pub(super) fn freeze(&self, id: AllocationId) -> Result<Moving, NTSTATUS> {
        let lock = self.allocations.get(&id).and_then(|state| state.lock.as_ref());
        if lock.is_some_and(Lock::must_be_asked) {
            return Err(STATUS_NO_MEMORY);
        }
        let lock = lock.filter(|lock| lock.moving.is_none());
        let frozen = lock.into_iter().flat_map(Lock::mappings).map(UserMapping::freeze).collect::<Result<_, _>>();
        Ok(Moving { id, _frozen: frozen.map_err(|_| STATUS_NO_MEMORY)? })
    }

    pub(super) fn finish_moves(&mut self) -> Result<(), NTSTATUS> {
        self.submit()?;
        while self.wait_oldest()? {}
        Ok(())
    }

    fn leave(&mut self, id: AllocationId, memory: SystemMemory) -> Result<(), NTSTATUS> {
        let Some(state) = self.allocations.get(&id) else { return Ok(()) };
        let (kmd, size) = (state.allocation.kmd(), state.allocation.size());
        let Location::Local { segment, offset } = state.place else { return Ok(()) };
        let (from, to) = (Location::Local { segment, offset }, Location::System(memory));
        let moved = self.transfer(kmd, &from, &to, size);
        if let (Location::System(memory), Some(state)) = (to, self.allocations.get_mut(&id)) {
            state.parked = Some(memory);
        }
        moved
    }

    /// What the bytes are copied from is put into `left`; nobody else has a use for it.
    fn come_back(&mut self, id: AllocationId, left: &mut Vec<(AllocationId, Location, u64)>) -> Result<(), NTSTATUS> {
        let Some(state) = self.allocations.get_mut(&id) else { return Ok(()) };
        let (kmd, size) = (state.allocation.kmd(), state.allocation.size());
        let (Location::Local { segment, offset }, Some(memory)) = (&state.place, state.parked.take()) else {
            return Ok(());
        };
        let (from, to) = (Location::System(memory), Location::Local { segment: *segment, offset: *offset });
        let moved = self.transfer(kmd, &from, &to, size);
        left.push((id, from, size));
        moved
    }

    /// The address of a locked allocation shows where its bytes are now; a window onto the device is closed.
    fn show_parked(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        let Some(state) = self.allocations.get_mut(&id) else { return Ok(()) };
        let (Some(lock), Some(memory)) = (state.lock.as_mut(), &state.parked) else { return Ok(()) };
        let window = lock.take_window();
        if let Some(moved) = &mut lock.moving {
            moved.stale = true;
            moved.windows.extend(window);
            return Ok(());
        }
        lock.mappings().try_for_each(|mapping| mapping.show_memory(memory))?;
        window.into_iter().for_each(|window| self.close_window(window));
        Ok(())
    }

    /// The address of a locked allocation shows its place in the segment again.
    fn show_in_place(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        if let Some(state) = self.allocations.get_mut(&id) {
            state.busy = None;
        }
        self.rotate_lock(id)
    }
}

impl VidMm {
    /// Takes what the device would lose out of its segments; when the call returns, no paging work is under way. No thunk is inside,
    /// and no queue at work.
    ///
    /// # Errors
    /// As [`Memory::park`].
    pub(crate) fn park(&self, hibernates: bool) -> Result<(), NTSTATUS> {
        self.with_all_held(|memory| memory.park(hibernates))
    }

    /// Before DxgkDdiResetFromTimeout, with nobody else inside: keeps what outlives the memory of the adapter.
    pub(crate) fn prepare_reset(&self) {
        lock(&self.memory).prepare_reset();
    }

    /// After DxgkDdiRestartFromTimeout: page tables are written anew, for what was in memory counts as lost.
    pub(crate) fn end_reset(&self) {
        let done = lock(&self.memory).end_reset();
        self.note_failure("page tables after a reset", done);
    }

    /// Undoes [`VidMm::park`]. `lost`: the device was out of D0 meanwhile.
    pub(crate) fn unpark(&self, lost: bool) {
        let back = self.with_all_held(|memory| memory.unpark(lost));
        self.note_failure("bringing memory back", back);
    }
}

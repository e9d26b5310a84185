//! CPU locks: an address of an allocation that stays while the bytes move underneath.
//!
//! When a locked allocation moves, the GPU copies it, and the address is rotated to the new place afterwards, page by page of the
//! host. An allocation that is wanted resident never moves, so only a lock held across Evict or MakeResident sees it. Stores of
//! user mode wait from before the copy until after the rotation, see [`UserMapping::freeze`].
//!
//! Where the CPU can reach an allocation depends on what the driver said of it and on where it is [allocation-usage-tracking: Lock2]:
//!
//! | allocation | system memory | CPU-visible segment | segment with a host aperture | other segment |
//! | --- | --- | --- | --- | --- |
//! | CPU-visible | yes | yes | through free pages of the aperture | no |
//! | CPU-visible and cached | yes | no | no | no |
//! | not CPU-visible | yes | no | no | no |
//!
//! Where the answer is no, the allocation moves to system memory. One that is wanted resident, or that work may use which was queued
//! before it was given up, moves only if it names an aperture segment, through which engines find it there; its process is off its engines
//! meanwhile. Without an aperture segment it cannot be locked before that work is done. A locked allocation goes only where the answer is yes.

use std::sync::Arc;
use std::time::Instant;

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::port::{BarOwner, NO_BAR_OWNER};
use crate::vidmm::allocation::Allocation;
use crate::vidmm::answer::CpuAccess;
use crate::vidmm::aperture_pages::ApertureWindow;
use crate::vidmm::cpu_cache::CpuCache;
use crate::vidmm::ids::AllocationId;
use crate::vidmm::location::Location;
use crate::vidmm::locked_views::{Lock, Moved, View};
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::{AllocationState, Memory};
use crate::vidmm::request::{IDLE_TIMEOUT, MemoryRequest};
use crate::vidmm::residency;
use crate::vidmm::scheduler::{MemoryOwner, SuspendOutcome};
use crate::vidmm::user_mapping::{Kept, Part, UserMapping};
use nt::page::PAGE_SIZE;

/// The outcome of locking an allocation, or the next step towards it.
pub(crate) enum Taken {
    /// The address shows the allocation.
    At(usize),
    /// The address is to show this, and [`Memory::end_showing`] to be told of it.
    ToShow(Arc<UserMapping>, Vec<Part>),
    /// Nothing: an address for so many bytes is needed.
    Reserve(u64),
    /// Nothing: processes are being told where it is.
    Moves,
}

/// The path of the CPU to memory of a segment, for one allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Direct,
    Window,
    No,
}

impl Memory {
    /// Locks an allocation for the process that `kept` is of, at an address that was reserved for it. Locks of a process nest and share the address.
    ///
    /// # Errors
    /// STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE if it is offered; STATUS_GRAPHICS_ALLOCATION_BUSY if engines may be using it where the CPU does
    /// not reach it: it can be locked when its process is off them, or when they are done if it names no aperture segment. Without one it cannot be
    /// locked at all while it is wanted resident there: STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE if it is not for the CPU,
    /// STATUS_GRAPHICS_CANT_LOCK_MEMORY if it is. STATUS_NO_MEMORY.
    pub(crate) fn lock(
        &mut self,
        id: AllocationId,
        kept: &Arc<Kept>,
        reserved: &mut Option<UserMapping>,
    ) -> Result<Taken, NTSTATUS> {
        let now = self.tick();
        let state = self.allocations.get_mut(&id).ok_or(STATUS_INVALID_HANDLE)?;
        if state.destroyed {
            return Err(STATUS_GRAPHICS_ALLOCATION_CLOSED);
        }
        if state.offered.is_some() {
            return Err(STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE);
        }
        state.last_use = now;
        if let Some(view) = state.lock.as_mut().and_then(|lock| lock.view(kept)) {
            if !view.shown {
                return Ok(Taken::Moves);
            }
            view.count = view.count.checked_add(1).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
            return Ok(Taken::At(view.mapping.address()));
        }
        if state.lock.as_ref().is_some_and(|lock| lock.moving.is_some()) {
            return Ok(Taken::Moves);
        }
        if reserved.is_none() {
            return Ok(Taken::Reserve(state.allocation.size()));
        }
        let further = state.lock.is_some();
        let window = if further { None } else { self.bring_to_cpu(id)? };
        let cache = if further { Ok(None) } else { self.cache_of(id) };
        let parts = cache.and_then(|cache| {
            let lock = self.allocations.get(&id).and_then(|state| state.lock.as_ref());
            let parts = match lock {
                Some(lock) if lock.hidden => Err(STATUS_NO_MEMORY),
                Some(lock) => self.parts_of(id, lock.window.as_ref(), lock.cache.as_ref()),
                None => self.parts_of(id, window.as_ref(), cache.as_ref()),
            };
            Ok((parts?, cache))
        });
        match (parts, self.allocations.get_mut(&id), reserved.take()) {
            (Ok((parts, cache)), Some(state), Some(mapping)) => {
                let mapping = Arc::new(mapping);
                let (kept, to_show) = (Arc::clone(kept), Arc::clone(&mapping));
                let view = View { kept, mapping, count: 1, existing: None, shown: false };
                match &mut state.lock {
                    Some(lock) => lock.views.push(view),
                    None => state.lock = Some(Lock::new(view, window, cache)),
                }
                Ok(Taken::ToShow(to_show, parts))
            }
            (parts, _, mapping) => {
                *reserved = mapping;
                window.into_iter().for_each(|window| self.close_window(window));
                Err(parts.err().unwrap_or(STATUS_INVALID_HANDLE))
            }
        }
    }

    /// An address shows what it was to show, or could not. The mapping is kept until the memory lock is given back.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY if it could not, STATUS_INVALID_HANDLE if the allocation is not locked there any more; it is not then.
    pub(crate) fn end_showing(&mut self, id: AllocationId, of: &Arc<UserMapping>, shown: bool) -> Result<(), NTSTATUS> {
        let state = self.allocations.get_mut(&id).ok_or(STATUS_INVALID_HANDLE)?;
        let lock = state.lock.as_mut().ok_or(STATUS_INVALID_HANDLE)?;
        let view = lock.views.iter_mut().find(|view| Arc::ptr_eq(&view.mapping, of)).ok_or(STATUS_INVALID_HANDLE)?;
        view.shown = true;
        if shown {
            return Ok(());
        }
        lock.views.retain(|view| !Arc::ptr_eq(&view.mapping, of));
        if lock.views.is_empty() {
            self.end_lock(id);
        }
        Err(STATUS_NO_MEMORY)
    }

    /// Ends one lock of a process.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if the process has not locked the allocation.
    pub(crate) fn unlock(&mut self, id: AllocationId, kept: &Arc<Kept>) -> Result<(), NTSTATUS> {
        let state = self.allocations.get_mut(&id).ok_or(STATUS_INVALID_HANDLE)?;
        let lock = state.lock.as_mut().ok_or(STATUS_INVALID_PARAMETER)?;
        let view = lock.view(kept).ok_or(STATUS_INVALID_PARAMETER)?;
        view.count = view.count.checked_sub(1).ok_or(STATUS_INVALID_PARAMETER)?;
        self.end_unused_views(id);
        Ok(())
    }

    /// Ends the addresses at which nobody has an allocation locked any more.
    fn end_unused_views(&mut self, id: AllocationId) {
        let Some(lock) = self.allocations.get_mut(&id).and_then(|state| state.lock.as_mut()) else { return };
        let unused = |view: &mut View| view.count == 0 && view.existing.is_none();
        if lock.views.iter_mut().all(unused) {
            return self.end_lock(id);
        }
        let ended = lock.views.extract_if(.., unused).collect();
        self.end_views(id, ended, Moved::default());
    }

    /// Number of locks that a device holds on an allocation for its process.
    pub(crate) fn locks(&mut self, allocation: &Allocation) -> u32 {
        if let Some((sharing, user)) = allocation.sharing() {
            return sharing.locks(user);
        }
        let lock = self.allocations.get_mut(&allocation.id()).and_then(|state| state.lock.as_mut());
        lock.and_then(|lock| lock.view(allocation.kept())).map_or(0, |view| view.count)
    }

    /// An allocation, which is in system memory and nobody has locked, is seen from now on at an address that its process gave.
    pub(super) fn see_at(&mut self, allocation: &Allocation, mapping: UserMapping) {
        let (kept, mapping, existing) = (Arc::clone(allocation.kept()), Arc::new(mapping), Some(allocation.user()));
        let view = View { kept, mapping, count: 0, existing, shown: true };
        if let Some(state) = self.allocations.get_mut(&allocation.id()) {
            state.lock = Some(Lock::new(view, None, None));
        }
    }

    /// The opening `user` of an allocation is closed: if it gave the memory, its process gets the contents back, as soon as no other opening of the process has
    /// them locked there.
    pub(super) fn see_no_more(&mut self, id: AllocationId, user: u64) {
        let Some(lock) = self.allocations.get_mut(&id).and_then(|state| state.lock.as_mut()) else { return };
        lock.views.iter_mut().filter(|view| view.existing == Some(user)).for_each(|view| view.existing = None);
        self.end_unused_views(id);
    }

    /// Ends all locks of an allocation.
    pub(crate) fn end_lock(&mut self, id: AllocationId) {
        let Some(state) = self.allocations.get_mut(&id) else { return };
        let Some(lock) = state.lock.take() else { return };
        if let (Some(cache), Location::System(memory)) = (lock.cache, &state.place) {
            cache.end(memory);
        }
        let mut moved = lock.moving.unwrap_or_default();
        moved.windows.extend(lock.window);
        self.end_views(id, lock.views, moved);
    }

    /// True if an allocation is in system memory, not for the time of D3 alone, and no paging work on it is under way.
    pub(crate) fn is_in_system_memory(&self, id: AllocationId) -> bool {
        let settled = |state: &AllocationState| matches!(state.place, Location::System(_)) && state.parked.is_none();
        self.allocations.get(&id).is_some_and(|state| settled(state) && state.busy.is_none())
    }

    fn reach(&self, access: CpuAccess, segment: u32) -> Reach {
        let Some(memory) = self.segments.memory(segment) else { return Reach::No };
        match access {
            CpuAccess::Visible if memory.cpu_address.is_some() => Reach::Direct,
            CpuAccess::Visible if memory.host_aperture.is_some() => Reach::Window,
            CpuAccess::Visible | CpuAccess::Cached | CpuAccess::None => Reach::No,
        }
    }

    /// Whom the pages of an allocation in a segment belong to: those that may lock it there, if that shows them the memory itself.
    pub(super) fn bar_owner(&self, allocation: &Allocation, segment: u32) -> BarOwner {
        match self.reach(allocation.cpu_access(), segment) {
            Reach::Direct => allocation.kept().bar_owner().clone(),
            Reach::Window | Reach::No => NO_BAR_OWNER,
        }
    }

    /// True if a locked allocation may go to a memory segment.
    pub(crate) fn may_be_locked_in(&self, id: AllocationId, segment: u32) -> bool {
        let Some(state) = self.allocations.get(&id) else { return false };
        match self.reach(state.allocation.cpu_access(), segment) {
            Reach::Direct => true,
            Reach::Window => self.window_of(segment, state.allocation.size()) == Some(true),
            Reach::No => false,
        }
    }

    /// Puts an allocation where the CPU reaches it, and waits until the GPU has written what it should see. The answer is the window
    /// that it is seen through, if it is.
    fn bring_to_cpu(&mut self, id: AllocationId) -> Result<Option<ApertureWindow>, NTSTATUS> {
        let state = self.allocations.get(&id).ok_or(STATUS_INVALID_HANDLE)?;
        let allocation = Arc::clone(&state.allocation);
        let size = allocation.size();
        let mut window = None;
        match state.place {
            Location::Uncommitted => {
                let taken = self.take_system(&allocation, size / PAGE_SIZE, &mut MemoryRequest::waiting())?;
                let memory = taken.ok_or(STATUS_NO_MEMORY)?;
                memory.zero();
                if let Some(state) = self.allocations.get_mut(&id) {
                    state.place = Location::System(memory);
                }
            }
            Location::Local { segment, .. } => match self.reach(state.allocation.cpu_access(), segment) {
                Reach::Direct => {}
                Reach::Window => {
                    window = self.open_window(id)?;
                    if window.is_none() {
                        self.move_to_system(id)?;
                    }
                }
                Reach::No => self.move_to_system(id)?,
            },
            Location::System(_) => {}
        }
        match self.wait_until_quiet(id) {
            Ok(()) => Ok(window),
            Err(status) => {
                window.into_iter().for_each(|window| self.close_window(window));
                Err(status)
            }
        }
    }

    fn move_to_system(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        let state = self.allocations.get(&id).ok_or(STATUS_INVALID_HANDLE)?;
        if !residency::may_leave(self, state, None) {
            match (self.has_aperture(&state.allocation), state.allocation.cpu_access()) {
                (true, _) if self.is_suspended(state.allocation.owner()) => {}
                (false, CpuAccess::None) if state.listed > 0 => return Err(STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE),
                (false, _) if state.listed > 0 => return Err(STATUS_GRAPHICS_CANT_LOCK_MEMORY),
                _ => return Err(STATUS_GRAPHICS_ALLOCATION_BUSY),
            }
        }
        // Memory for the copy is found before anything of the allocation changes.
        let allocation = Arc::clone(&state.allocation);
        let pages = allocation.size() / PAGE_SIZE;
        drop(self.take_system(&allocation, pages, &mut MemoryRequest::waiting())?.ok_or(STATUS_NO_MEMORY)?);
        if self.evict(id)? { Ok(()) } else { Err(STATUS_NO_MEMORY) }
    }

    /// True if engines find an allocation in system memory too, through an aperture segment.
    pub(super) fn has_aperture(&self, allocation: &Allocation) -> bool {
        allocation.placements().any(|segment| self.segments.memory(segment).is_none())
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

    /// The bytes of a frozen allocation were not moved after all.
    pub(crate) fn keep_lock(&self, id: AllocationId) {
        let lock = self.allocations.get(&id).and_then(|state| state.lock.as_ref());
        if let Some(lock) = lock.filter(|lock| lock.moving.is_none()) {
            // Without it the next store ends the process, which is what the host does when it has no memory.
            lock.mappings().for_each(|mapping| drop(mapping.allow_stores()));
        }
    }

    /// Makes the address of a locked allocation show its new place, which [`Memory::may_be_locked_in`] allowed.
    pub(crate) fn rotate_lock(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        if self.allocations.get(&id).is_none_or(|state| state.lock.is_none()) {
            return Ok(());
        }
        self.wait_until_quiet(id).inspect_err(|_| self.keep_lock(id))?;
        let Some(state) = self.allocations.get(&id) else { return Ok(()) };
        let window = match state.place {
            Location::Local { segment, .. } if self.reach(state.allocation.cpu_access(), segment) == Reach::Window => {
                let window = self.open_window(id);
                window.and_then(|window| window.ok_or(STATUS_GRAPHICS_CANT_LOCK_MEMORY)).map(Some)
            }
            _ => Ok(None),
        };
        let Some(mut lock) = self.allocations.get_mut(&id).and_then(|state| state.lock.take()) else { return Ok(()) };
        if let Some(moved) = &mut lock.moving {
            moved.stale = true;
            let (status, window) = window.map_or_else(|status| (Err(status), None), |window| (Ok(()), window));
            lock.hidden = status.is_err();
            moved.windows.extend(std::mem::replace(&mut lock.window, window));
            if let Some(state) = self.allocations.get_mut(&id) {
                state.lock = Some(lock);
            }
            return status;
        }
        let shown = window.and_then(|window| {
            let parts = self.parts_of(id, window.as_ref(), lock.cache.as_ref())?;
            let show = |mapping: &UserMapping| mapping.show_parts(&parts).map_err(|_| STATUS_NO_MEMORY);
            lock.mappings().try_for_each(show).map(|()| window)
        });
        lock.hidden = shown.is_err();
        let (shown, window) = match shown {
            Ok(window) => (Ok(()), window),
            Err(status) => {
                // The old place is somebody else's memory by now: better a fault than their bytes. An address that
                // cannot be hidden does not keep the next one shown, so all are tried before the first failure is told.
                let failed = lock.mappings().filter(|mapping| mapping.hide_all().is_err()).count();
                (Err(if failed == 0 { status } else { STATUS_NO_MEMORY }), None)
            }
        };
        let old = std::mem::replace(&mut lock.window, window);
        if let Some(state) = self.allocations.get_mut(&id) {
            state.lock = Some(lock);
        }
        old.into_iter().for_each(|window| self.close_window(window));
        shown
    }

    /// A cache for an allocation that is about to be locked in system memory, if the device does not snoop the processor's.
    fn cache_of(&self, id: AllocationId) -> Result<Option<CpuCache>, NTSTATUS> {
        let state = self.allocations.get(&id).ok_or(STATUS_INVALID_HANDLE)?;
        match &state.place {
            Location::System(memory) if self.is_cached_without_coherence(state.allocation.cpu_access()) => {
                CpuCache::new(memory, state.allocation.size()).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn is_cached_without_coherence(&self, access: CpuAccess) -> bool {
        access == CpuAccess::Cached && !self.driver.snoops()
    }

    /// Writes what the processor has cached of a range back, and has it read the range again. Without a lock, and where the device
    /// snoops, there is nothing to do.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a range that leaves the allocation.
    pub(crate) fn invalidate_cache(&mut self, id: AllocationId, offset: u64, len: u64) -> Result<(), NTSTATUS> {
        let state = self.allocations.get_mut(&id).ok_or(STATUS_INVALID_HANDLE)?;
        if offset.checked_add(len).is_none_or(|end| end > state.allocation.size()) {
            return Err(STATUS_INVALID_PARAMETER);
        }
        if let (Some(cache), Location::System(memory)) =
            (state.lock.as_mut().and_then(|lock| lock.cache.as_mut()), &state.place)
        {
            cache.invalidate(memory, offset, len);
        }
        Ok(())
    }

    /// What the addresses of an allocation are to show, through a window or a cache if there is one.
    fn parts_of(
        &self,
        id: AllocationId,
        window: Option<&ApertureWindow>,
        cache: Option<&CpuCache>,
    ) -> Result<Vec<Part>, NTSTATUS> {
        let state = self.allocations.get(&id).ok_or(STATUS_INVALID_HANDLE)?;
        if let Some(cache) = cache {
            return cache.parts();
        }
        if let Some(memory) = &state.parked {
            return Part::of_memory(memory);
        }
        match (&state.place, window) {
            (Location::Uncommitted, _) => Err(STATUS_INTERNAL_ERROR),
            (Location::System(memory), _) => Part::of_memory(memory),
            (Location::Local { .. }, Some(window)) => window.parts(&self.bars),
            (Location::Local { segment, offset }, None) => {
                let (start, len) =
                    (self.segments.memory(*segment).and_then(|segment| segment.cpu_address), state.allocation.size());
                let bus = start.and_then(|start| start.checked_add(*offset)).ok_or(STATUS_GRAPHICS_CANT_LOCK_MEMORY)?;
                let bar = (self.bars)(bus).filter(|bar| bar.len >= len).ok_or(STATUS_GRAPHICS_CANT_LOCK_MEMORY)?;
                Ok(vec![Part { at: 0, file: bar.file, offset: bar.offset, len, writable: true }])
            }
        }
    }

    /// As [`Memory::parts_of`], of a lock.
    pub(super) fn parts_of_lock(&self, id: AllocationId) -> Result<Vec<Part>, NTSTATUS> {
        let lock = self.allocations.get(&id).and_then(|state| state.lock.as_ref()).ok_or(STATUS_INVALID_HANDLE)?;
        self.parts_of(id, lock.window.as_ref(), lock.cache.as_ref())
    }
}

impl Memory {
    /// As [`Memory::lock`], with a note of which device has locked a shared allocation.
    fn lock_for(&mut self, allocation: &Allocation, reserved: &mut Option<UserMapping>) -> Result<Taken, NTSTATUS> {
        let locked = self.lock(allocation.id(), allocation.kept(), reserved);
        if matches!(locked, Ok(Taken::At(_) | Taken::ToShow(..))) {
            self.totals.locks = self.totals.locks.wrapping_add(1);
            allocation.sharing().into_iter().for_each(|(sharing, user)| sharing.lock(user));
        }
        locked
    }
}

impl VidMm {
    /// D3DKMTLock2. Where the allocation has to leave a place in which engines may be using it, its process leaves them for that long.
    /// [d3dkmthk: D3DKMTLock2; allocation-usage-tracking: Lock2]
    ///
    /// # Errors
    /// As [`Memory::lock`]; STATUS_GRAPHICS_ALLOCATION_BUSY if engines do not let go of it, STATUS_DEVICE_REMOVED if its device is lost for that.
    pub(crate) fn lock_allocation(&self, device: &dyn MemoryOwner, allocation: &Allocation) -> Result<usize, NTSTATUS> {
        let (deadline, mut reserved) = (Instant::now() + IDLE_TIMEOUT, None);
        loop {
            let (locked, moves) = {
                let mut memory = lock(&self.memory);
                (memory.lock_for(allocation, &mut reserved), memory.has_aperture(allocation))
            };
            self.report_freed();
            match locked {
                Err(STATUS_GRAPHICS_ALLOCATION_BUSY) => {}
                Ok(Taken::Reserve(size)) => {
                    let mapping = UserMapping::reserve(allocation.kept().user(), size).map_err(|_| STATUS_NO_MEMORY)?;
                    reserved = Some(mapping);
                    continue;
                }
                Ok(Taken::Moves) if self.may_wait_for_memory() => {
                    self.pause_for_memory();
                    continue;
                }
                locked => return self.show_locked(allocation, locked?),
            }
            device.check()?;
            if moves && let Some(scheduler) = self.driver.scheduler.get() {
                let mut locked = locked;
                let outcome = scheduler.while_suspended(device.space(), &mut |changes| {
                    let mut memory = lock(&self.memory);
                    if changes {
                        memory.note_suspended(allocation.owner());
                    }
                    locked = memory.lock_for(allocation, &mut reserved);
                });
                if outcome == SuspendOutcome::Suspended && !matches!(locked, Ok(Taken::Moves)) {
                    return self.show_locked(allocation, locked?);
                }
            }
            if !self.may_wait_for_memory() {
                return Err(STATUS_DEVICE_REMOVED);
            }
            if Instant::now() > deadline {
                return Err(STATUS_GRAPHICS_ALLOCATION_BUSY);
            }
            self.pause_for_memory();
        }
    }

    /// Has the process show what it has locked, with nothing locked that another process needs.
    fn show_locked(&self, allocation: &Allocation, taken: Taken) -> Result<usize, NTSTATUS> {
        let (mapping, parts) = match taken {
            Taken::At(address) => return Ok(address),
            Taken::ToShow(mapping, parts) => (mapping, parts),
            // Only without an address, or once the adapter or the machine has stopped.
            Taken::Reserve(_) | Taken::Moves => return Err(STATUS_DEVICE_REMOVED),
        };
        let shown = mapping.show_parts(&parts).is_ok();
        let ended = lock(&self.memory).end_showing(allocation.id(), &mapping, shown);
        if let (Err(_), Some((sharing, user))) = (ended, allocation.sharing()) {
            sharing.unlock(user);
        }
        ended.map(|()| mapping.address())
    }
}

//! Resources that several devices have open.
//!
//! The memory of a shared allocation belongs to no process, so that it is not evicted while one of them is suspended. It lives as long as a device has the
//! allocation open, or somebody could open it: a handle of the resource is there. Each device has its own [`Allocation`] of it, with its
//! own count of residency and locks.

use std::sync::{Arc, Weak};

use nt::lock::{Mutex, lock};
use wddm_ddi::km::DXGK_OPENALLOCATIONFLAGS;
use wddm_ddi::status::{NTSTATUS, STATUS_DEVICE_REMOVED};
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::account::{Charge, Upkeep};
use crate::refusal::Failure;
use crate::vidmm::allocation::Allocation;
use crate::vidmm::ids::AllocationId;
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::Memory;
use crate::vidmm::scheduler::{IdlePoint, MemoryOwner};
use crate::vidmm::sharing::{Closed, Sharing};

/// What its creator told of a shared resource, and what whoever opens it is told.
pub(crate) struct ResourceData {
    /// Private data of each allocation, as the driver left it.
    pub(crate) allocations: Vec<Vec<u8>>,
    /// Private data of the resource, as the driver left it.
    pub(crate) private: Vec<u8>,
    /// Data of the runtime.
    pub(crate) runtime: Vec<u8>,
    /// Shared by kernel handles, not by a handle that every process knows.
    pub(crate) nt_sharing: bool,
    /// Descriptors, bytes and numbers that all this takes.
    pub(crate) upkeep: Upkeep,
}

/// A resource that can be opened as long as this exists.
pub(crate) struct SharedResource {
    vidmm: Weak<VidMm>,
    allocations: Vec<(AllocationId, Arc<Sharing>)>,
    pub(crate) data: ResourceData,
}

impl SharedResource {
    /// True if it is memory of this adapter.
    pub(crate) fn is_of(&self, vidmm: &VidMm) -> bool {
        std::ptr::eq(self.vidmm.as_ptr(), vidmm)
    }

    /// Number of its allocations.
    pub(crate) fn len(&self) -> usize {
        self.allocations.len()
    }
}

impl Drop for SharedResource {
    fn drop(&mut self) {
        for (id, sharing) in &self.allocations {
            sharing.hide();
            if let Some(vidmm) = self.vidmm.upgrade() {
                vidmm.end_if_over(*id, sharing);
            }
        }
    }
}

/// A resource as a process has it.
pub(crate) struct Resource {
    device: u64,
    /// Handles of its allocations in the process.
    members: Mutex<Vec<D3DKMT_HANDLE>>,
    /// The resource that others open too, if it is shared, which is charged to the process.
    shared: Option<(Arc<SharedResource>, Charge)>,
}

impl Resource {
    /// A resource of a device that nobody else opens.
    pub(super) fn new(device: &dyn MemoryOwner) -> Arc<Self> {
        Arc::new(Self { device: device.id(), members: Mutex::new(Vec::new()), shared: None })
    }

    /// A shared resource as a device has it open.
    pub(crate) fn opened(device: &dyn MemoryOwner, shared: Arc<SharedResource>, charge: Charge) -> Arc<Self> {
        Arc::new(Self { device: device.id(), members: Mutex::new(Vec::new()), shared: Some((shared, charge)) })
    }

    /// The resource that others open too; `None` for one that is not shared.
    pub(crate) fn shared(&self) -> Option<&Arc<SharedResource>> {
        self.shared.as_ref().map(|(shared, _)| shared)
    }

    /// Identity of the device it was made on.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// Handles of its allocations in the process.
    pub(crate) fn members(&self) -> Vec<D3DKMT_HANDLE> {
        lock(&self.members).clone()
    }

    /// Notes the handles of its allocations.
    pub(crate) fn set_members(&self, handles: &[D3DKMT_HANDLE]) {
        *lock(&self.members) = handles.to_vec();
    }
}

impl Memory {
    /// True if an allocation exists, and of a shared one the opening has not been closed, or queues may still use what it has mapped.
    pub(super) fn is_there_for(&self, id: AllocationId, user: u64) -> bool {
        let closing = || self.closed.iter().any(|closed| closed.id == id && closed.user == user);
        let open = |allocation: &Allocation| allocation.sharing().is_none_or(|(sharing, _)| sharing.is_user(user));
        self.allocations.get(&id).is_some_and(|state| open(&state.allocation) || closing())
    }

    /// Unmaps what closed openings have mapped that no queue uses any more. Otherwise a process would reach memory that others go on using.
    ///
    /// # Errors
    /// As [`Memory::unmap_everywhere`]; it is tried again.
    pub(super) fn unmap_closed(&mut self) -> Result<(), NTSTATUS> {
        while let Some(at) = self.closed.iter().position(|closed| (closed.idle)()) {
            let (id, user) = (self.closed[at].id, self.closed[at].user);
            self.unmap_everywhere(id, Some(user))?;
            self.closed.swap_remove(at);
        }
        Ok(())
    }
}

impl VidMm {
    /// What other devices open of a resource that was created to be shared. The creator holds it as they do.
    pub(crate) fn share(self: &Arc<Self>, made: &[Arc<Allocation>], data: ResourceData) -> Arc<SharedResource> {
        let shared =
            made.iter().filter_map(|made| made.sharing.as_ref().map(|(sharing, _)| (made.id(), Arc::clone(sharing))));
        Arc::new(SharedResource { vidmm: Arc::downgrade(self), allocations: shared.collect(), data })
    }

    /// Opens a shared resource on a device, which may only read it if `read_only`. [d3dkmddi: DXGKARG_OPENALLOCATION, DXGK_OPENALLOCATIONFLAGS]
    ///
    /// # Errors
    /// What the driver answered; STATUS_DEVICE_REMOVED on an adapter that has stopped. Nothing is open then.
    pub(crate) fn open_shared(
        &self,
        device: &dyn MemoryOwner,
        shared: &SharedResource,
        read_only: bool,
    ) -> Result<Vec<Arc<Allocation>>, Failure> {
        let _running = self.enter()?;
        let homes: Vec<Arc<Allocation>> = {
            let memory = lock(&self.memory);
            let home =
                |(id, _): &(AllocationId, _)| memory.allocations.get(id).map(|state| Arc::clone(&state.allocation));
            shared.allocations.iter().map(home).collect::<Option<_>>().ok_or(STATUS_DEVICE_REMOVED)?
        };
        let globals: Vec<u32> = homes.iter().map(|home| home.global).collect();
        let (mut private, mut whole) = (shared.data.allocations.clone(), shared.data.private.clone());
        let flags = DXGK_OPENALLOCATIONFLAGS::new().with_ReadOnly(read_only);
        let opened = self.open(device, &globals, &mut private, &mut whole, flags)?;
        let opened = homes.iter().zip(opened).filter_map(|(home, open)| home.opened_by(device, open));
        let restricted = |allocation: &Arc<Allocation>| {
            if read_only {
                allocation.restrict();
            }
        };
        Ok(opened.inspect(restricted).collect())
    }

    /// Frees a shared allocation that nobody has open and nobody can open, once the queues have let go of it.
    pub(super) fn end_if_over(&self, id: AllocationId, sharing: &Sharing) {
        if !sharing.is_over() {
            return;
        }
        let mut memory = lock(&self.memory);
        memory.end_lock(id);
        memory.destroy_when_idle(id, sharing.idle_point(None));
        let freed = memory.free_destroyed().and_then(|_| memory.submit());
        drop(memory);
        self.note_failure("freeing a shared allocation", freed);
        self.report_freed();
    }

    /// A device closes a shared allocation: what it kept resident, locked or mapped is given up, and the driver is told.
    pub(super) fn close_shared(&self, allocation: &Allocation, sharing: &Sharing, user: u64, idle: Option<IdlePoint>) {
        let (id, left) = (allocation.id(), sharing.leave(user, idle.clone()));
        let at_once: IdlePoint = Arc::new(|| true);
        let of_all = sharing.idle_point(None).unwrap_or_else(|| Arc::clone(&at_once));
        let mut memory = lock(&self.memory);
        // With the memory locked: the adapter stops before, or finds that this one has left.
        allocation.kept().end(allocation.locked_by());
        let Some(left) = left else { return };
        let mut ended: Result<(), NTSTATUS> = (0..left.listed).try_for_each(|_| memory.leave_list(id, &of_all));
        ended = ended.and((0..left.locks).try_for_each(|_| memory.unlock(id, allocation.kept())));
        memory.see_no_more(id, user);
        memory.closed.push(Closed { id, user, idle: idle.unwrap_or(at_once) });
        ended = ended.and(memory.unmap_closed().and_then(|()| memory.submit()));
        drop(memory);
        self.give_addresses_back(Some(allocation.kept()));
        self.note_failure("closing a shared allocation", ended);
        if let Ok(_running) = self.enter() {
            self.close_on_driver(left.device, left.open);
        }
        self.tell_budgets();
        self.end_if_over(id, sharing);
    }
}

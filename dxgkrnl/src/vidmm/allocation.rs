//! Allocations: what the driver said about them when they were created, and their end.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use nt::lock::{Innermost, Mutex, lock};

use crate::kmd_handle::KmdHandle;
use crate::vidmm::answer::{Backing, CpuAccess};
use crate::vidmm::ids::{AllocationId, SpaceId};
use crate::vidmm::scheduler::MemoryOwner;
use crate::vidmm::sharing::Sharing;
use crate::vidmm::user_mapping::{Kept, LockedBy};

/// Memory that a device asked for.
pub(crate) struct Allocation {
    pub(super) id: AllocationId,
    /// The driver's handle.
    pub(super) kmd: KmdHandle,
    /// The driver's handle on the device.
    pub(super) open: KmdHandle,
    /// Our handle, by which the driver asks for its own pointers.
    pub(super) global: u32,
    pub(super) device: u64,
    pub(super) kmd_device: KmdHandle,
    pub(super) owner: SpaceId,
    pub(super) size: u64,
    pub(super) alignment: u64,
    /// Segments that the driver allowed in the order it prefers, 0 for the rest.
    pub(super) allowed: [u8; 32],
    /// Those in which it may be now.
    pub(super) placements: Arc<Mutex<[u8; 32], Innermost>>,
    pub(super) cpu_access: CpuAccess,
    pub(super) resource: Option<Arc<DriverResource>>,
    /// Takes over the user address when the adapter stops.
    pub(super) kept: Arc<Kept>,
    /// Of a shared allocation the devices that have it open, and which of them this is; 0 for the memory manager's own.
    pub(super) sharing: Option<(Arc<Sharing>, u64)>,
}

/// A group of allocations that the driver knows by one more handle.
pub(super) struct DriverResource {
    /// The driver's handle.
    pub(super) kmd: KmdHandle,
    /// Our handle, by which the driver asks for its own pointer.
    pub(super) global: u32,
    /// Allocations that the driver still knows.
    pub(super) live: AtomicU32,
}

/// What a thunk asks to be created, as the driver takes it.
pub(crate) struct Request<'a> {
    /// Private data of each allocation; the driver's changes stay in it.
    pub(crate) allocations: &'a mut [Vec<u8>],
    /// Private data of the whole.
    pub(crate) private: &'a mut [u8],
    /// The allocations form a resource.
    pub(crate) resource: bool,
    /// The caller's own flags that matter to the driver at open.
    pub(crate) read_only: bool,
    /// Other devices may open them.
    pub(crate) shared: bool,
    /// Where their memory comes from. The program's is put behind them by [`VidMm::adopt_memory`].
    pub(crate) backing: Backing,
}

impl Allocation {
    /// The driver's handle (device-independent).
    pub(crate) fn kmd(&self) -> KmdHandle {
        self.kmd
    }

    pub(crate) fn id(&self) -> AllocationId {
        self.id
    }

    /// Bytes, a multiple of the page size.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that its place in a segment is aligned to.
    pub(crate) fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Segments it may live in, the preferred one first.
    pub(crate) fn placements(&self) -> impl Iterator<Item = u32> + use<> {
        lock(&self.placements).into_iter().take_while(|id| *id != 0).map(u32::from)
    }

    /// Segments that the driver allows.
    pub(crate) fn allowed(&self) -> impl Iterator<Item = u32> + use<> {
        self.allowed.into_iter().take_while(|id| *id != 0).map(u32::from)
    }

    /// Changes in which of the allowed segments it may be.
    pub(super) fn set_placements(&self, order: &[u32]) {
        let mut places = [0; 32];
        for (place, id) in places.iter_mut().zip(order) {
            *place = u8::try_from(*id).unwrap_or(0);
        }
        *lock(&self.placements) = places;
    }

    /// Access that the CPU has to the allocation.
    pub(crate) fn cpu_access(&self) -> CpuAccess {
        self.cpu_access
    }

    /// Identity of the device it was made on.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// The address space of its process, which is how the memory manager knows the process.
    pub(crate) fn owner(&self) -> SpaceId {
        self.owner
    }

    /// Addresses that its process keeps when the adapter stops.
    pub(crate) fn kept(&self) -> &Arc<Kept> {
        &self.kept
    }

    /// A shared allocation as one more device has it; `None` for one that is not shared.
    pub(super) fn opened_by(&self, device: &dyn MemoryOwner, open: KmdHandle) -> Option<Arc<Self>> {
        let (sharing, _) = self.sharing.as_ref()?;
        let user = sharing.enter(device.kmd(), open, (device.space().id(), Arc::clone(device.kept())));
        Some(Arc::new(Self {
            open,
            device: device.id(),
            kmd_device: device.kmd(),
            owner: device.space().id(),
            placements: Arc::clone(&self.placements),
            resource: None,
            kept: Arc::clone(device.kept()),
            sharing: Some((Arc::clone(sharing), user)),
            ..*self
        }))
    }

    /// The devices that have a shared allocation open, and the number of this one among them.
    pub(super) fn sharing(&self) -> Option<(&Sharing, u64)> {
        self.sharing.as_ref().map(|(sharing, user)| (&**sharing, *user))
    }

    /// Which opening of a shared allocation it is; 0 for one that is not shared.
    pub(super) fn user(&self) -> u64 {
        self.sharing.as_ref().map_or(0, |(_, user)| *user)
    }

    /// True if this opening gives its device nothing to write at: no mapping, and no address of the processor.
    pub(crate) fn is_read_only(&self) -> bool {
        self.sharing().is_some_and(|(sharing, user)| sharing.change(user, |user| user.read_only).unwrap_or(false))
    }

    /// From now on this opening is for reading only.
    pub(super) fn restrict(&self) {
        if let Some((sharing, user)) = self.sharing() {
            sharing.change(user, |user| user.read_only = true);
        }
    }

    /// Whose locks those of this allocation are.
    pub(super) fn locked_by(&self) -> LockedBy {
        (self.id(), self.user())
    }

    /// True if other devices may have it open.
    pub(crate) fn is_shared(&self) -> bool {
        self.sharing.is_some()
    }

    /// The processes whose budgets it counts against while it is resident.
    pub(super) fn charged(&self) -> Vec<SpaceId> {
        self.sharing().map_or_else(|| vec![self.owner()], |(sharing, _)| sharing.listed_by())
    }

    /// True if it is memory of a process.
    pub(super) fn is_of(&self, process: SpaceId) -> bool {
        self.sharing().map_or(self.owner() == process, |(sharing, _)| sharing.is_open_in(process))
    }
}

#[cfg(test)]
impl Allocation {
    /// An allocation that no driver knows.
    pub(super) fn unknown(id: u64, owner: SpaceId, size: u64, places: &[u8], cpu_access: CpuAccess) -> Arc<Self> {
        let mut placements = [0; 32];
        placements[..places.len()].copy_from_slice(places);
        Arc::new(Self {
            id: AllocationId(id),
            kmd: KmdHandle::new(core::ptr::without_provenance_mut(0x1000 + id as usize)),
            open: KmdHandle::NULL,
            global: 0,
            device: 1,
            kmd_device: KmdHandle::NULL,
            owner,
            size,
            alignment: nt::page::PAGE_SIZE,
            allowed: placements,
            placements: Arc::new(Mutex::new(placements)),
            cpu_access,
            resource: None,
            kept: Arc::default(),
            sharing: None,
        })
    }
}

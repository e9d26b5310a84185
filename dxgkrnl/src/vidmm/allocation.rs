//! Allocations: what the driver said about them when they were created, and their end.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};

use nt::lock::{Innermost, Mutex, lock};
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::account::Charge;
use crate::kmd_handle::KmdHandle;
use crate::vidmm::answer::{Backing, CpuAccess};
use crate::vidmm::ids::{AllocationId, SpaceId};
use crate::vidmm::scheduler::MemoryOwner;
use crate::vidmm::shared_resource::{SharedResource, Sharing};
use crate::vidmm::{Kept, VidMm};

/// Memory that a device asked for.
pub(crate) struct Allocation {
    pub(super) vidmm: Weak<VidMm>,
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
    pub(super) resource: Option<Arc<Resource>>,
    /// Takes over the user address when the adapter stops.
    pub(super) kept: Arc<Kept>,
    /// Of a shared allocation the devices that have it open, and which of them this is; 0 for the memory manager's own.
    pub(super) sharing: Option<(Arc<Sharing>, u64)>,
}

/// A group of allocations that the driver knows by one more handle.
pub(crate) struct Resource {
    /// The driver's handle, NULL if it has none.
    pub(super) kmd: KmdHandle,
    pub(super) global: u32,
    pub(super) device: u64,
    /// Allocations that the driver still knows.
    pub(super) live: AtomicU32,
    /// Handles of its allocations in the process.
    pub(super) members: Mutex<Vec<D3DKMT_HANDLE>>,
    /// The resource that others open too, if it is shared, which is charged to the process.
    pub(super) shared: Option<(Arc<SharedResource>, Charge)>,
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
            vidmm: Weak::clone(&self.vidmm),
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
}

#[cfg(test)]
impl Allocation {
    /// An allocation that no driver knows.
    pub(super) fn unknown(id: u64, owner: SpaceId, size: u64, places: &[u8], cpu_access: CpuAccess) -> Arc<Self> {
        let mut placements = [0; 32];
        placements[..places.len()].copy_from_slice(places);
        Arc::new(Self {
            vidmm: Weak::new(),
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

impl Resource {
    /// A shared resource as a device has it open.
    pub(crate) fn opened(device: &dyn MemoryOwner, shared: Arc<SharedResource>, charge: Charge) -> Arc<Self> {
        let (live, members) = (AtomicU32::new(0), Mutex::new(Vec::new()));
        Arc::new(Self {
            kmd: KmdHandle::NULL,
            global: 0,
            device: device.id(),
            live,
            members,
            shared: Some((shared, charge)),
        })
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

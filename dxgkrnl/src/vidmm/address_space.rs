//! Address spaces as the rest of the system uses them.

use std::sync::{Arc, Weak};

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::suspension::ProcessSuspension;
use crate::vidmm::VidMm;
use crate::vidmm::ids::SpaceId;

/// Access rights of a GPU to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Reads.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

/// Contiguous pages of a segment, 0 for system memory, by its identifier among those of all engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frames {
    /// Segment.
    pub(crate) segment: u32,
    /// First page frame in the segment.
    pub(crate) first: u64,
    /// Pages.
    pub(crate) pages: u64,
}

/// GPU address space of a process on an adapter. Linked physical adapters share its addresses, but each has page tables of its own.
/// [linked-display-adapter: GpuMmu support]
pub(crate) struct AddressSpace {
    vidmm: Weak<VidMm>,
    pub(super) id: SpaceId,
    root_entries: u32,
    /// Says if its process is suspended, which the scheduler decides.
    pub(crate) suspension: ProcessSuspension,
}

impl AddressSpace {
    pub(super) fn new(vidmm: &Arc<VidMm>, id: SpaceId) -> Arc<Self> {
        let root_entries = vidmm.driver.shape.entries(vidmm.driver.shape.root());
        let space =
            Arc::new(Self { vidmm: Arc::downgrade(vidmm), id, root_entries, suspension: ProcessSuspension::default() });
        lock(&vidmm.known).spaces.insert(id, Arc::downgrade(&space));
        space
    }

    /// Which one.
    pub(crate) fn id(&self) -> SpaceId {
        self.id
    }

    pub(super) fn vidmm(&self) -> Result<Arc<VidMm>, NTSTATUS> {
        self.vidmm.upgrade().ok_or(STATUS_DEVICE_REMOVED)
    }

    /// Segment of the engine and offset of its root page table, for DxgkDdiSetRootPageTable; `None` while it is away.
    pub(crate) fn root(&self, engine: u32) -> Option<(u32, u64)> {
        let vidmm = self.vidmm.upgrade()?;
        let (segment, offset) = lock(&vidmm.memory).root(self.id.of_engine(engine))?;
        Some((vidmm.driver.segment_of(segment).0, offset))
    }

    /// Entries of the root page table.
    pub(crate) fn root_entries(&self) -> u32 {
        self.root_entries
    }
}

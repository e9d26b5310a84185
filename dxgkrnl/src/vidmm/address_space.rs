//! Address spaces as the rest of the system names them. What is mapped in one is the memory manager's.

use std::sync::Arc;

use crate::suspension::ProcessSuspension;
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
    id: SpaceId,
    root_entries: u32,
    /// Says if its process is suspended, which the scheduler decides.
    pub(crate) suspension: ProcessSuspension,
}

impl AddressSpace {
    /// One whose root page tables have so many entries.
    pub(super) fn new(id: SpaceId, root_entries: u32) -> Arc<Self> {
        Arc::new(Self { id, root_entries, suspension: ProcessSuspension::default() })
    }

    /// Which one.
    pub(crate) fn id(&self) -> SpaceId {
        self.id
    }

    /// Entries of the root page table.
    pub(crate) fn root_entries(&self) -> u32 {
        self.root_entries
    }
}

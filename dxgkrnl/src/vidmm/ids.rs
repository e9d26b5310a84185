//! Identities of allocations, address spaces and pages of fence values among those of an adapter.

/// An allocation among those of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AllocationId(pub(crate) u64);

/// An address space on an engine among those of an adapter. Those of one process have consecutive numbers in the order of engines; the
/// first stands for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SpaceId(pub(crate) u64);

impl SpaceId {
    /// The one of the same process on an engine; called on the first.
    pub(crate) fn of_engine(self, engine: u32) -> Self {
        Self(self.0 + u64::from(engine))
    }
}

/// A page of fence values in a memory segment, or on leave from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FencePageId(pub(super) u64);

/// The owner of memory that is shared: no address space has this number.
pub(super) const NOBODY: SpaceId = SpaceId(0);

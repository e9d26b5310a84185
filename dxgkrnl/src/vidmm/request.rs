//! A request that needs memory: how far it goes to get some.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::vidmm::ids::{AllocationId, SpaceId};

/// What a request waits for, of the processes that have an allocation locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// It is to be moved by the request.
    ToHold(AllocationId),
    /// It may leave its segment for the request.
    ToLeave(AllocationId),
    /// Some are asked already.
    Nothing,
}

/// The time that a request waits for queues to go idle before it is told that memory is short.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// A request that may need memory: what may be done to free some, and what was found out when that was not enough. It is an argument of
/// every function that may have to free memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryRequest {
    /// It waits, with the memory lock, for queues that are about to finish with memory they use.
    pub(super) waits_for_idle_queues: bool,
    /// Residency lists of suspended processes may be evicted for it.
    pub(super) evicts_lists: bool,
    /// What is still in memory of the process that is resumed leaves first, so that it does not divide the free memory.
    pub(super) evicts_own_first: bool,
    /// The process whose memory the request brings back: none of it is evicted for the rest of it.
    pub(super) keeps: Option<SpaceId>,
    /// Memory was not found, and nothing was left to try.
    pub(super) short: bool,
    /// Memory was not found that queues are about to let go of.
    pub(super) idle_soon: bool,
    /// What processes have locked, and why they are to be asked before the request is made again.
    pub(super) ask: Option<Ask>,
    /// Locked allocations whose processes could not be asked.
    pub(super) cannot_leave: BTreeSet<AllocationId>,
}

impl MemoryRequest {
    /// A request that waits for queues which are about to finish, because nobody asks for it again; it evicts no residency list.
    pub(crate) fn waiting() -> Self {
        Self { waits_for_idle_queues: true, ..Self::default() }
    }

    /// A request that fails at once where queues have to be waited for.
    pub(super) fn without_waiting(evicts_lists: bool, evicts_own_first: bool) -> Self {
        Self { evicts_lists, evicts_own_first, ..Self::default() }
    }
}

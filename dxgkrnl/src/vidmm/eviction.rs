//! Eviction for a request that finds no memory: what leaves, which processes are suspended, in which order.
//!
//! A request first evicts allocations that are on no residency list. Then idle processes are suspended, so that their page tables,
//! fence values and rings can leave. If that is not enough, and no idle process is left, the request is queued behind those that came
//! before it. The first request of the queue also evicts the residency lists of suspended processes, and has processes with work suspended, one
//! after the other, each when its time slice is over ([`Scheduler::suspend`]). A request is refused when nothing is left to be
//! evicted: it does not fit beside what no other process can give up.

use std::sync::Arc;

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::vidmm::address_space::AddressSpace;
use crate::vidmm::ids::SpaceId;
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::Memory;
use crate::vidmm::moving::Asked;
use crate::vidmm::request::{Ask, MemoryRequest};
use crate::vidmm::scheduler::{Scheduler, SuspendOutcome};
use crate::vidmm::search::EvictionSearch;

/// The next step of a request that found no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Try once more.
    Again,
    /// Wait for a moment first.
    Wait,
    /// Nothing is left that could be evicted.
    GiveUp,
}

impl Memory {
    /// Processes whose suspension would free memory, those that used their memory longest ago first. Where adapters are
    /// linked, a process is suspended on all of them, and what it has leaves the one that is short of memory. `evicts_lists` is as for
    /// [`Memory::holds_for_work`].
    pub(crate) fn could_be_suspended(&self, except: Option<SpaceId>, evicts_lists: bool) -> Vec<SpaceId> {
        let mut all: Vec<(u64, SpaceId)> = self
            .spaces
            .iter()
            .filter(|(id, space)| {
                **id == space.first && Some(**id) != except && self.holds_for_work(**id, evicts_lists)
            })
            .map(|(id, space)| (space.last_use, *id))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// Does `act` once, which may evict what `search` allows. Where memory was short, the answer names the processes whose suspension would
    /// free some.
    pub(crate) fn attempt<R, E>(
        &mut self,
        owner: Option<SpaceId>,
        search: &EvictionSearch,
        act: impl FnOnce(&mut Self, &mut MemoryRequest) -> Result<R, E>,
    ) -> Attempt<R, E> {
        let mut request = MemoryRequest::without_waiting(search.evicts_lists(), search.evicts_own_first);
        request.cannot_leave.clone_from(&search.held.cannot_leave);
        let result = act(self, &mut request);
        // What it did and undid again, or leaves to be done some time. An adapter that takes no packets writes its tables anew, or is gone.
        let _ = self.submit();
        let short = result.is_err() && request.short;
        let candidates = short.then(|| self.could_be_suspended(owner, search.evicts_lists()));
        let ask = request.ask.filter(|ask| short || result.is_err() && matches!(ask, Ask::ToHold(_)));
        Attempt { result, candidates, idle_soon: request.idle_soon, ask }
    }
}

/// Result of an attempt to find memory, and the processes and queues that could free more.
pub(crate) struct Attempt<R, E> {
    pub(crate) result: Result<R, E>,
    /// Where memory was short: processes whose suspension would free some.
    pub(crate) candidates: Option<Vec<SpaceId>>,
    /// Queues are about to finish with memory they use.
    pub(crate) idle_soon: bool,
    /// Processes that are to be asked first.
    pub(crate) ask: Option<Ask>,
}

impl VidMm {
    /// Does `act` on behalf of the process of `owner`, and evicts memory of other processes as long as it fails for want of memory. When it
    /// fails, `act` must have left everything as it was.
    ///
    /// # Errors
    /// Those of `act`; STATUS_NO_MEMORY only when it does not fit beside what cannot be evicted.
    pub(crate) fn with_eviction<R>(
        &self,
        owner: Option<SpaceId>,
        mut act: impl FnMut(&mut Memory, &mut MemoryRequest) -> Result<R, NTSTATUS>,
    ) -> Result<R, NTSTATUS> {
        let mut search = EvictionSearch::default();
        loop {
            match self.try_with_eviction(owner, &mut search, &mut act) {
                Some(result) => return result,
                None => self.pause_for_memory(),
            }
            if !self.may_wait_for_memory() {
                return Err(STATUS_NO_MEMORY);
            }
        }
    }

    /// As [`VidMm::with_eviction`], without waiting; `None` if something has to be waited for.
    fn try_with_eviction<R>(
        &self,
        owner: Option<SpaceId>,
        search: &mut EvictionSearch,
        act: &mut impl FnMut(&mut Memory, &mut MemoryRequest) -> Result<R, NTSTATUS>,
    ) -> Option<Result<R, NTSTATUS>> {
        loop {
            if search.is_queued_behind() {
                return None;
            }
            let Attempt { result, candidates, idle_soon, ask } = lock(&self.memory).attempt(owner, search, &mut *act);
            match ask.map(|ask| self.ask(search, ask)) {
                Some(Asked::Again) => continue,
                Some(Asked::Wait) => return None,
                Some(Asked::Failed) | None => search.let_go(),
            }
            let Some(candidates) = candidates else { return Some(result) };
            match self.suspend_others(search, &candidates) {
                Next::Again => {}
                Next::Wait => return None,
                Next::GiveUp if idle_soon && search.may_wait_for_idle_queues() => return None,
                Next::GiveUp if !std::mem::replace(&mut search.evicts_own_first, true) => {}
                Next::GiveUp => return Some(result),
            }
        }
    }

    /// Suspends one of these processes: the first that is idle; for the first request of the queue, else one with work.
    pub(crate) fn suspend_others(&self, search: &mut EvictionSearch, candidates: &[SpaceId]) -> Next {
        let Some(scheduler) = self.driver.scheduler.get() else { return Next::GiveUp };
        let spaces = self.spaces_of(candidates);
        if self.suspend_one_idle(scheduler, &spaces) {
            return Next::Again;
        }
        if search.never_suspends {
            return Next::GiveUp;
        }
        let Some(place) = &search.place else {
            search.place = Some(self.requests.enqueue());
            return Next::Again;
        };
        let mut next = Next::GiveUp;
        for space in scheduler.by_rank(spaces) {
            match scheduler.suspend(&space, &mut || lock(&self.memory).note_suspended_with_work(space.id())) {
                SuspendOutcome::Suspended => return Next::Again,
                SuspendOutcome::HasTimeSlice => next = Next::Wait,
                // Perhaps a request behind this one holds it, which goes first then.
                SuspendOutcome::Locked => {
                    place.move_to_the_end();
                    next = Next::Wait;
                }
                SuspendOutcome::StillRunning => {
                    // Tried once more: its device may be lost by now, and then has left its engines.
                    if search.failed_to_suspend.insert(space.id()) {
                        next = Next::Wait;
                    }
                }
            }
        }
        next
    }

    /// Suspends one of these processes, if one is idle.
    pub(crate) fn suspend_idle(&self, candidates: &[SpaceId]) -> bool {
        let Some(scheduler) = self.driver.scheduler.get() else { return false };
        self.suspend_one_idle(scheduler, &self.spaces_of(candidates))
    }

    /// True also if one is suspended already.
    fn suspend_one_idle(&self, scheduler: &Arc<dyn Scheduler>, spaces: &[Arc<AddressSpace>]) -> bool {
        spaces.iter().any(|space| scheduler.suspend_idle(space, &mut || lock(&self.memory).note_suspended(space.id())))
    }

    fn spaces_of(&self, ids: &[SpaceId]) -> Vec<Arc<AddressSpace>> {
        ids.iter().filter_map(|id| lock(&self.known).spaces.get(id)?.upgrade()).collect()
    }

    /// Waits for a moment, in which other processes and the paging node may free memory.
    pub(crate) fn pause_for_memory(&self) {
        let node = lock(&self.memory).paging.node().cloned();
        if let Some(node) = node {
            node.pause();
        }
    }

    /// True while it makes sense to wait for memory: the machine runs, and the adapter is there.
    pub(crate) fn may_wait_for_memory(&self) -> bool {
        let scheduler = self.driver.scheduler.get();
        !self.driver.verifier.is_stopped() && scheduler.is_some_and(|scheduler| scheduler.may_wait())
    }

    /// As [`EvictionSearch::queue_behind`], behind the requests of this memory.
    pub(crate) fn queue_behind_others(&self, search: &mut EvictionSearch) -> bool {
        search.queue_behind(&self.requests)
    }

    /// Brings back everything that the engines need to run work of a suspended process, and evicts memory of others for it; true if the
    /// driver has to be told where its root page tables are now. `None` if something has to be waited for.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when it does not fit although nothing is left to be evicted.
    pub(crate) fn try_resume(
        &self,
        space: &AddressSpace,
        search: &mut EvictionSearch,
    ) -> Option<Result<bool, NTSTATUS>> {
        self.try_with_eviction(Some(space.id()), search, &mut |memory, request| memory.resume(space.id(), request))
    }
}

//! Room for a request where memory is short: who is asked for what, in which order.
//!
//! A request first takes what nobody uses. Then processes whose work is done are put to rest, and give what they need only to work.
//! If that is not enough, and nobody is left who could be asked politely, the request stands in line, behind those that came
//! before it; the first in the line insists: residency lists of processes at rest leave memory, and processes that work are suspended, one
//! after the other, each when its turn is over ([`crate::vidsch::ResidencySlices`]). A request is refused when nothing is left to be taken: with
//! everybody else away it does not fit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::vidmm::VidMm;
use crate::vidmm::address_space::AddressSpace;
use crate::vidmm::memory::{IDLE_TIMEOUT, Memory, SpaceId};
use crate::vidsch::{QueuePlace, SuspendOutcome, VidSch};

/// How far somebody who needs memory has come.
#[derive(Default)]
pub(crate) struct Search {
    /// Its place in the line of those who insist.
    place: Option<QueuePlace>,
    /// Processes that did not leave their engines when they were asked.
    failed_to_suspend: BTreeSet<SpaceId>,
    /// Everybody else has given way: what comes back may be put in order.
    tidies: bool,
    /// Until when it waits for queues that are about to let go of memory.
    patience: Option<Instant>,
    /// Never insists.
    polite: bool,
}

/// What somebody who found no room does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Try once more.
    Again,
    /// Wait for a moment first.
    Wait,
    /// Nothing is left that could be taken.
    GiveUp,
}

impl Search {
    /// Of somebody who has nobody suspended, and for whom no residency list leaves.
    pub(crate) fn polite() -> Self {
        Self { polite: true, ..Self::default() }
    }

    /// True for a search that never keeps others from their memory.
    pub(crate) fn is_polite(&self) -> bool {
        self.polite
    }

    /// Whether it is somebody else's turn to look for memory.
    pub(crate) fn is_behind(&self) -> bool {
        self.place.as_ref().is_some_and(|place| !place.is_first())
    }

    /// Whether residency lists of others are asked for.
    fn insists(&self) -> bool {
        self.place.is_some()
    }

    /// Whether it waits for queues that are about to let go of memory.
    pub(crate) fn is_patient(&mut self) -> bool {
        let now = Instant::now();
        now < *self.patience.get_or_insert(now + IDLE_TIMEOUT)
    }

    /// Whoever is behind goes on.
    pub(crate) fn leave_queue(&mut self) {
        self.place = None;
    }
}

impl Memory {
    /// Processes that may be asked to rest so that others have room, those that used their memory longest ago first. Where adapters are
    /// linked, a process rests on all of them, and gives up what it has where there is no room.
    pub(crate) fn could_be_suspended(&self, except: Option<SpaceId>) -> Vec<SpaceId> {
        let mut all: Vec<(u64, SpaceId)> = self
            .spaces
            .iter()
            .filter(|(id, space)| **id == space.first && Some(**id) != except && self.holds_for_work(**id))
            .map(|(id, space)| (space.last_use, *id))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// Does `act` once, which may take residency lists of processes at rest for who insists; where memory was short, with the processes
    /// that might give some if they rested.
    pub(crate) fn attempt<R, E>(
        &mut self,
        owner: Option<SpaceId>,
        search: &Search,
        act: impl FnOnce(&mut Self) -> Result<R, E>,
    ) -> Attempt<R, E> {
        (self.short, self.idle_soon, self.waits) = (false, false, false);
        (self.insists, self.tidies) = (search.insists(), search.tidies);
        let result = act(self);
        // What it did and undid again, or leaves to be done some time. An adapter that takes no packets writes its tables anew, or is gone.
        let _ = self.submit();
        let short = result.is_err() && self.short;
        let candidates = short.then(|| self.could_be_suspended(owner));
        (self.insists, self.tidies, self.waits) = (false, false, true);
        Attempt { result, candidates, idle_soon: self.idle_soon }
    }
}

/// What came of an attempt.
pub(crate) struct Attempt<R, E> {
    pub(crate) result: Result<R, E>,
    /// Where memory was short: processes that might give some if they rested.
    pub(crate) candidates: Option<Vec<SpaceId>>,
    /// Queues are about to let go of memory.
    pub(crate) idle_soon: bool,
}

impl VidMm {
    /// Does `act` on behalf of the process of `owner`, with the memory of others if it must; it must have changed nothing that matters
    /// when it fails.
    ///
    /// # Errors
    /// Those of `act`; STATUS_NO_MEMORY only when it does not fit beside what no process can be asked for.
    pub(crate) fn with_room<R>(
        &self,
        owner: Option<SpaceId>,
        mut act: impl FnMut(&mut Memory) -> Result<R, NTSTATUS>,
    ) -> Result<R, NTSTATUS> {
        let mut search = Search::default();
        loop {
            match self.try_room(owner, &mut search, &mut act) {
                Some(result) => return result,
                None => self.pause_for_room(),
            }
            if !self.may_wait_for_room() {
                return Err(STATUS_NO_MEMORY);
            }
        }
    }

    /// As [`VidMm::with_room`], without waiting for anybody; `None` if that would have to be.
    fn try_room<R>(
        &self,
        owner: Option<SpaceId>,
        search: &mut Search,
        act: &mut impl FnMut(&mut Memory) -> Result<R, NTSTATUS>,
    ) -> Option<Result<R, NTSTATUS>> {
        loop {
            if search.is_behind() {
                return None;
            }
            let Attempt { result, candidates, idle_soon } = lock(&self.memory).attempt(owner, search, &mut *act);
            let Some(candidates) = candidates else { return Some(result) };
            match self.suspend_others(search, &candidates) {
                Next::Again => {}
                Next::Wait => return None,
                Next::GiveUp if idle_soon && search.is_patient() => return None,
                Next::GiveUp if !std::mem::replace(&mut search.tidies, true) => {}
                Next::GiveUp => return Some(result),
            }
        }
    }

    /// Has one of these processes rest: the first whose work is done; or for who is first in the line, one that works.
    pub(crate) fn suspend_others(&self, search: &mut Search, candidates: &[SpaceId]) -> Next {
        let Some(scheduler) = self.driver.scheduler.get() else { return Next::GiveUp };
        let spaces = self.spaces_of(candidates);
        if self.suspend_one_idle(scheduler, &spaces) {
            return Next::Again;
        }
        if search.polite {
            return Next::GiveUp;
        }
        let Some(place) = &search.place else {
            search.place = Some(scheduler.residency_slices().enqueue());
            return Next::Again;
        };
        let mut next = Next::GiveUp;
        for space in scheduler.by_rank(spaces) {
            match scheduler.suspend(&space, || lock(&self.memory).note_suspended_with_work(space.id())) {
                SuspendOutcome::Suspended => return Next::Again,
                SuspendOutcome::HasTimeSlice => next = Next::Wait,
                // Perhaps by somebody behind, who may go on first.
                SuspendOutcome::Locked => {
                    place.move_to_the_end();
                    next = Next::Wait;
                }
                SuspendOutcome::StillRunning => {
                    // Once more: it may be lost by now.
                    if search.failed_to_suspend.insert(space.id()) {
                        next = Next::Wait;
                    }
                }
            }
        }
        next
    }

    /// Has one of these processes rest, if the work of one is done.
    pub(crate) fn suspend_idle(&self, candidates: &[SpaceId]) -> bool {
        let Some(scheduler) = self.driver.scheduler.get() else { return false };
        self.suspend_one_idle(scheduler, &self.spaces_of(candidates))
    }

    /// True also for one that rests by now.
    fn suspend_one_idle(&self, scheduler: &VidSch, spaces: &[Arc<AddressSpace>]) -> bool {
        spaces.iter().any(|space| scheduler.suspend_idle(space, || lock(&self.memory).note_suspended(space.id())))
    }

    fn spaces_of(&self, ids: &[SpaceId]) -> Vec<Arc<AddressSpace>> {
        ids.iter().filter_map(|id| lock(&self.known).spaces.get(id)?.upgrade()).collect()
    }

    /// Lets others go on for a moment.
    pub(crate) fn pause_for_room(&self) {
        let node = lock(&self.memory).paging.node().cloned();
        if let Some(node) = node {
            node.pause();
        }
    }

    /// Whether waiting for memory makes sense still.
    pub(crate) fn may_wait_for_room(&self) -> bool {
        let scheduler = self.driver.scheduler.get();
        !self.driver.verifier.is_stopped() && scheduler.is_some_and(|scheduler| scheduler.may_wait())
    }

    /// Everything is there that the engines need to work for a process; true if the driver has to be told where its root page tables are
    /// now. Where there is no room for it, others give way. `None` if that
    /// has to be waited for.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when it does not fit although everybody else has given way.
    pub(crate) fn try_resume(&self, space: &AddressSpace, search: &mut Search) -> Option<Result<bool, NTSTATUS>> {
        self.try_room(Some(space.id()), search, &mut |memory| memory.resume(space.id()))
    }
}

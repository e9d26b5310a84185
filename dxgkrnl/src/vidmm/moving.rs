//! Addresses of processes that take their time: what is asked of them is asked without the memory lock, so that nobody waits for a process that does not answer but
//! who needs the very thing.
//!
//! An allocation that such a process has locked moves in steps. A thread asks the processes that see it to wait with their stores; when they do, whoever wants it to
//! move moves it under the memory lock; then the thread has them show the new place, and go on. Until then the old place and its windows stay taken. Addresses
//! that are given back keep what they show taken in the same way. Of a process that is not waited for, all of this is done at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use nt::lock::{Condvar, Mutex, lock};
use nt::user_space::UserSpace;

use crate::vidmm::allocation::Allocation;
use crate::vidmm::aperture_pages::ApertureWindow;
use crate::vidmm::ids::{AllocationId, SpaceId};
use crate::vidmm::joint_limit::beside_each_other;
use crate::vidmm::location::Location;
use crate::vidmm::locked_views::{Ended, Lock, Moved, View};
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::{AllocationState, Memory, must_be_asked};
use crate::vidmm::request::{Ask, MemoryRequest};
use crate::vidmm::residency;
use crate::vidmm::scheduler::MemoryOwner;
use crate::vidmm::search::{EvictionSearch, Stage, Stages};
use crate::vidmm::user_mapping::{Frozen, Kept, Part, UserMapping};

/// The next step of a request that waits for processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Again,
    Wait,
    /// They cannot be asked.
    Failed,
}

/// An allocation whose addresses are held still.
struct Hold {
    id: AllocationId,
    number: u64,
    mappings: Vec<Arc<UserMapping>>,
    frozen: Vec<Frozen>,
}

impl Hold {
    fn processes(&self) -> Vec<Arc<dyn UserSpace>> {
        self.mappings.iter().map(|mapping| Arc::clone(mapping.user())).collect()
    }
}

/// The state in which a move leaves the addresses of an allocation.
enum Plan {
    /// Show what they do.
    Stay,
    Show(Vec<Part>),
    Hide,
    Detach,
}

impl Plan {
    /// False if the address shows nothing now.
    fn apply(&self, mapping: &UserMapping) -> bool {
        let done = match self {
            Self::Stay => mapping.allow_stores(),
            Self::Show(parts) => mapping.show_parts(parts),
            Self::Detach => mapping.detach(true),
            Self::Hide => Err(std::io::ErrorKind::OutOfMemory.into()),
        };
        // A program that refuses even that is ended. Only the one that this machine is in cannot be, and what it sees is memory of its own.
        done.inspect_err(|_| drop(mapping.hide_all())).is_ok()
    }
}

fn move_in(state: &AllocationState) -> Option<&Moved> {
    state.lock.as_ref().and_then(|lock| lock.moving.as_ref())
}

impl Memory {
    /// Addresses are not to show an allocation any more, nor what it has left. Processes that take their time are asked when the memory lock has been given back.
    pub(super) fn end_views(&mut self, id: AllocationId, views: Vec<View>, moved: Moved) {
        if views.iter().any(|view| view.mapping.waits()) {
            let number = self.tick();
            self.ended.insert(number, Ended { id, views, moved });
        } else {
            drop(views);
            self.end_moved(moved);
        }
    }

    /// No address shows any more what an allocation has left.
    fn end_moved(&mut self, moved: Moved) {
        moved.windows.into_iter().for_each(|window| self.close_window(window));
        moved.places.into_iter().for_each(|(place, size)| self.release_place(place, size));
    }

    /// Gives the place of an allocation back, as soon as no address of a process shows it any more.
    pub(super) fn leave_place(&mut self, id: AllocationId, place: Location, size: u64) {
        let lock = self.allocations.get_mut(&id).and_then(|state| state.lock.as_mut());
        let ended = self.ended.values_mut().find(|ended| ended.id == id).map(|ended| &mut ended.moved);
        match lock.and_then(|lock| lock.moving.as_mut()).or(ended) {
            Some(moved) => moved.places.push((place, size)),
            None => self.release_place(place, size),
        }
    }

    /// True while processes are asked for something that have an allocation of `owner` locked.
    pub(super) fn is_any_moving(&self, owner: SpaceId) -> bool {
        self.allocations.values().any(|state| state.allocation.owner() == owner && move_in(state).is_some())
    }

    /// For a request that found no memory in `segment`: which processes could be asked for some.
    pub(super) fn ask_to_leave(&self, segment: u32, request: &MemoryRequest) -> Option<Ask> {
        let leaves = |state: &AllocationState| {
            move_in(state).is_some_and(|moved| residency::is_in(state, segment) || moved.is_of(segment))
        };
        if self.allocations.values().any(leaves) || self.ended.values().any(|ended| ended.moved.is_of(segment)) {
            return Some(Ask::Nothing);
        }
        residency::locked_victim(self, segment, request).map(Ask::ToLeave)
    }

    /// Begins to ask the processes that have an allocation locked. `None` if others are at it, one is yet to be shown it, or nobody has it locked.
    fn begin_move(&mut self, id: AllocationId) -> Option<(Hold, Vec<Arc<Kept>>)> {
        let number = self.tick();
        let lock = self.allocations.get_mut(&id)?.lock.as_mut().filter(|lock| lock.may_move())?;
        lock.moving = Some(Moved { number, ..Moved::default() });
        let (mappings, processes) =
            lock.views().iter().map(|view| (Arc::clone(&view.mapping), Arc::clone(&view.kept))).unzip();
        Some((Hold { id, number, mappings, frozen: Vec::new() }, processes))
    }

    fn lock_in(&mut self, hold: &Hold) -> Option<&mut Lock> {
        let lock = self.allocations.get_mut(&hold.id)?.lock.as_mut()?;
        let is_same = lock.moving.as_ref().is_some_and(|moved| moved.number == hold.number);
        is_same.then_some(lock)
    }

    /// Stores wait from now on; false if nobody has the allocation locked any more.
    fn note_frozen(&mut self, hold: &Hold) -> bool {
        let moved = self.lock_in(hold).and_then(|lock| lock.moving.as_mut());
        moved.map(|moved| moved.frozen = true).is_some()
    }

    /// It moves no more: what its addresses are to do. `None` if nobody has it locked any more.
    fn plan(&mut self, hold: &Hold) -> Option<Plan> {
        let lock = self.lock_in(hold)?;
        let hidden = lock.hidden;
        let moved = lock.moving.as_mut()?;
        moved.frozen = false;
        Some(match (moved.given_away, moved.stale) {
            (true, _) => Plan::Detach,
            (false, false) => Plan::Stay,
            (false, true) if hidden => Plan::Hide,
            (false, true) => self.parts_of_lock(hold.id).map_or(Plan::Hide, Plan::Show),
        })
    }

    fn end_move(&mut self, hold: &Hold, shown: bool) {
        let Some(lock) = self.lock_in(hold) else { return };
        lock.hidden |= !shown;
        let moved = lock.moving.take().unwrap_or_default();
        self.end_moved(moved);
    }

    /// The adapter stops: what is locked is the processes' own to unlock, whose addresses are left to them afterwards.
    pub(super) fn hand_locks_over(&mut self) {
        for state in self.allocations.values_mut() {
            let (allocation, Some(lock)) = (&state.allocation, &mut state.lock) else { continue };
            for View { kept, mapping, count, .. } in lock.views.iter_mut() {
                match (allocation.sharing(), std::mem::take(count)) {
                    (Some((sharing, _)), _) => sharing.hand_locks_over(allocation.id(), kept, mapping),
                    (None, 0) => {}
                    (None, count) => kept.keep_locked(Arc::clone(mapping), allocation.locked_by(), count),
                }
            }
        }
    }

    /// Takes the lock of an allocation, whose addresses are left to their processes.
    pub(super) fn take_lock(&mut self, id: AllocationId) -> Option<LeftLock> {
        let state = self.allocations.get_mut(&id)?;
        let lock = state.lock.take()?;
        let of_machine = !lock.hidden && (state.parked.is_some() || matches!(state.place, Location::System(_)));
        Some(LeftLock { lock, of_machine })
    }
}

impl VidMm {
    /// The next step of a request that waits for the processes which have an allocation locked.
    pub(super) fn ask(&self, search: &mut EvictionSearch, ask: Ask) -> Asked {
        let (Ask::ToHold(id) | Ask::ToLeave(id)) = ask else {
            search.let_go();
            return Asked::Wait;
        };
        let Some(stages) = search.held.stages.get(&id) else { return self.begin_to_ask(search, id) };
        let stage = *lock(&stages.0);
        match stage {
            Stage::Asking => return Asked::Wait,
            Stage::Holding if ask == Ask::ToHold(id) => return Asked::Again,
            Stage::Holding => {}
            Stage::Failed | Stage::LetGo => {
                search.held.cannot_leave.insert(id);
                return Asked::Failed;
            }
        }
        let left = lock(&self.memory).evict(id);
        if left != Ok(true) {
            search.held.cannot_leave.insert(id);
        }
        search.let_go();
        Asked::Wait
    }

    /// Has a thread ask the processes that have an allocation locked.
    fn begin_to_ask(&self, search: &mut EvictionSearch, id: AllocationId) -> Asked {
        let Some((hold, processes)) = lock(&self.memory).begin_move(id) else { return Asked::Wait };
        let stages = Arc::new((Mutex::new(Stage::Asking), Condvar::new()));
        search.held.stages.insert(id, Arc::clone(&stages));
        let hold: Arc<Mutex<Option<Hold>>> = Arc::new(Mutex::new(Some(hold)));
        let of_thread = Arc::clone(&hold);
        let asks = move |vidmm: &Self| {
            let hold = lock(&of_thread).take();
            hold.into_iter().for_each(|hold| vidmm.hold_until_let_go(hold, &stages));
        };
        if self.on_a_thread(processes, asks) {
            return Asked::Wait;
        }
        let hold = lock(&hold).take();
        hold.into_iter().for_each(|hold| lock(&self.memory).end_move(&hold, true));
        search.held.stages.remove(&id);
        search.held.cannot_leave.insert(id);
        Asked::Failed
    }

    /// Does what waits for processes on a thread of its own; false if the host has none.
    fn on_a_thread(&self, processes: Vec<Arc<Kept>>, act: impl FnOnce(&Self) + Send + 'static) -> bool {
        let Some(vidmm) = self.this.upgrade() else { return false };
        let number = self.asking.begin(processes);
        let run = move || {
            act(&vidmm);
            vidmm.asking.end(number);
        };
        let began = std::thread::Builder::new().name("vidmm-asks".to_owned()).spawn(run).is_ok();
        if !began {
            self.asking.end(number);
        }
        began
    }

    fn hold_until_let_go(&self, mut hold: Hold, (stage, changed): &Stages) {
        let frozen = self.freeze(&mut hold);
        let mut now = lock(stage);
        if *now == Stage::Asking {
            *now = if frozen { Stage::Holding } else { Stage::Failed };
        }
        while *now == Stage::Holding {
            now = changed.wait(now);
        }
        drop(now);
        self.go_on(hold);
    }

    /// Asks processes to wait with their stores, without the memory lock; false if this one cannot, or nobody has it locked any more. Another one that refuses is ended: it would have its place for
    /// good, and keep the adapter from leaving D0.
    fn freeze(&self, hold: &mut Hold) -> bool {
        let frozen: std::io::Result<Vec<Frozen>> = hold.mappings.iter().map(|mapping| mapping.must_freeze()).collect();
        let Ok(frozen) = frozen else { return false };
        hold.frozen = frozen;
        lock(&self.memory).note_frozen(hold)
    }

    /// Has processes show an allocation where it is, and go on. Without the memory lock.
    fn go_on(&self, mut hold: Hold) {
        let plan = lock(&self.memory).plan(&hold);
        // All of them, whatever becomes of one.
        let shown = plan.map(|plan| hold.mappings.iter().filter(|mapping| !plan.apply(mapping)).count());
        hold.frozen.clear();
        lock(&self.memory).end_move(&hold, shown.is_none_or(|failed| failed == 0));
        drop(hold);
        self.report_freed();
    }

    /// Does `act`, which moves whatever is locked, while the processes that have it locked wait with their stores. No thunk is inside.
    pub(super) fn with_all_held<T>(&self, act: impl FnOnce(&mut Memory) -> T) -> T {
        let held = self.hold_all();
        let done = act(&mut lock(&self.memory));
        beside_each_other(held, Hold::processes, |hold| self.go_on(hold));
        done
    }

    fn hold_all(&self) -> Vec<Hold> {
        let (mut asked, mut held) = (BTreeSet::new(), Vec::new());
        loop {
            let mut memory = lock(&self.memory);
            let to_ask = memory.allocations.iter().filter(|(id, state)| must_be_asked(state) && !asked.contains(*id));
            let to_ask: Vec<AllocationId> = to_ask.map(|(id, _)| *id).collect();
            if to_ask.is_empty() {
                return held;
            }
            let begun = to_ask.into_iter().filter_map(|id| memory.begin_move(id));
            let begun: Vec<Hold> = begun.map(|(hold, _)| hold).collect();
            drop(memory);
            if begun.is_empty() {
                self.pause_for_memory();
            }
            asked.extend(begun.iter().map(|hold| hold.id));
            held.extend(beside_each_other(begun, Hold::processes, |mut hold| {
                self.freeze(&mut hold);
                hold
            }));
        }
    }

    /// True if a request is to be made again, because processes that have something locked were asked, and given time.
    pub(super) fn has_asked(&self, search: &mut EvictionSearch, ask: Option<Ask>, device: &dyn MemoryOwner) -> bool {
        match ask.map(|ask| self.ask(search, ask)) {
            Some(Asked::Again) => true,
            Some(Asked::Wait) if self.may_wait_for_memory() && !device.is_lost() => {
                self.pause_for_memory();
                true
            }
            Some(Asked::Wait | Asked::Failed) | None => {
                search.let_go();
                false
            }
        }
    }

    /// An answer about allocations, when their addresses show where they are.
    pub(super) fn when_shown<T>(&self, list: &[Arc<Allocation>], answer: T) -> T {
        let moves = |memory: &Memory| {
            let state = |allocation: &Arc<Allocation>| memory.allocations.get(&allocation.id());
            list.iter().filter_map(state).any(|state| move_in(state).is_some())
        };
        while moves(&lock(&self.memory)) && self.may_wait_for_memory() {
            self.pause_for_memory();
        }
        answer
    }

    /// Has processes give back addresses that are not to show anything any more. Of the process `own`, which waits for itself, it is done when this returns; for others a
    /// thread waits. Without the memory lock.
    pub(super) fn give_addresses_back(&self, own: Option<&Arc<Kept>>) {
        let ended: Vec<(u64, Vec<View>)> = {
            let mut memory = lock(&self.memory);
            let waiting = memory.ended.iter_mut().filter(|(_, ended)| !ended.views.is_empty());
            waiting.map(|(number, ended)| (*number, std::mem::take(&mut ended.views))).collect()
        };
        let is_own = |view: &View| !view.mapping.waits() || own.is_some_and(|own| Arc::ptr_eq(own, &view.kept));
        for (number, views) in ended {
            let of_others = !views.iter().all(is_own);
            let processes = views.iter().map(|view| Arc::clone(&view.kept)).collect();
            let views: Arc<Mutex<Vec<View>>> = Arc::new(Mutex::new(views));
            let of_thread = Arc::clone(&views);
            let gives = move |vidmm: &Self| {
                let views = std::mem::take(&mut *lock(&of_thread));
                vidmm.end_addresses(number, views);
            };
            if !of_others || !self.on_a_thread(processes, gives) {
                let views = std::mem::take(&mut *lock(&views));
                self.end_addresses(number, views);
            }
        }
    }

    fn end_addresses(&self, number: u64, views: Vec<View>) {
        drop(views);
        let mut memory = lock(&self.memory);
        if let Some(ended) = memory.ended.remove(&number) {
            memory.end_moved(ended.moved);
        }
    }

    /// Waits until threads ask a process for nothing, which is gone, or nobody, because the adapter stops.
    pub(crate) fn wait_until_asked_nothing(&self, process: Option<&Arc<Kept>>) {
        self.asking.wait_until_nothing(process);
    }
}

/// The lock of an allocation whose adapter stops.
pub(super) struct LeftLock {
    lock: Lock,
    of_machine: bool,
}

impl LeftLock {
    pub(super) fn processes(&self) -> Vec<Arc<dyn UserSpace>> {
        self.lock.mappings().map(|mapping| Arc::clone(mapping.user())).collect()
    }

    /// Leaves the addresses to their processes: nobody asked them, and they may be using them. Nothing they do there reaches the device from now on. The
    /// answer is the window that can be closed then.
    pub(super) fn leave(mut self) -> Option<ApertureWindow> {
        let window = self.lock.take_window();
        for View { kept, mapping, .. } in self.lock.into_views() {
            if mapping.leave(self.of_machine).is_err() {
                kept.give_up(&mapping);
            }
        }
        window
    }
}

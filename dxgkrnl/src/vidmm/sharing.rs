//! The devices that have a shared allocation open: what each keeps resident and locked, and when the last of them has closed it.

use std::sync::Arc;

use nt::lock::{Mutex, lock};

use crate::kmd_handle::KmdHandle;
use crate::vidmm::ids::{AllocationId, SpaceId};
use crate::vidmm::scheduler::IdlePoint;
use crate::vidmm::user_mapping::{Kept, UserMapping};

/// A device that has the allocation open.
pub(super) struct User {
    number: u64,
    device: KmdHandle,
    open: KmdHandle,
    process: SpaceId,
    /// Keeps the addresses of its locks when the adapter stops.
    kept: Arc<Kept>,
    /// MakeResident calls that no Evict has answered.
    listed: u32,
    /// Locks that no unlock has answered.
    locks: u32,
    /// Nothing of this device may write to it.
    pub(super) read_only: bool,
}

/// An opening that was closed: what it has mapped goes when the queues of its device have let go of it.
pub(super) struct Closed {
    pub(super) id: AllocationId,
    pub(super) user: u64,
    pub(super) idle: IdlePoint,
}

/// The handles and counts of a device that closes an allocation: what the driver has to close, and what is undone of residency and locks.
pub(super) struct Left {
    pub(super) device: KmdHandle,
    pub(super) open: KmdHandle,
    pub(super) listed: u32,
    pub(super) locks: u32,
}

#[derive(Default)]
struct State {
    users: Vec<User>,
    last: u64,
    /// Somebody can open it.
    reachable: bool,
    /// When queues that used it have let go of it.
    idle: Vec<IdlePoint>,
}

/// The devices that have an allocation open.
pub(crate) struct Sharing {
    state: Mutex<State>,
}

impl Sharing {
    /// A new allocation, which can be opened until [`Sharing::hide`].
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { reachable: true, ..State::default() }) })
    }

    /// A device has opened it; the answer is its number among the users.
    pub(super) fn enter(&self, device: KmdHandle, open: KmdHandle, (process, kept): (SpaceId, Arc<Kept>)) -> u64 {
        let mut state = lock(&self.state);
        state.last += 1;
        let number = state.last;
        state.users.push(User { number, device, open, process, kept, listed: 0, locks: 0, read_only: false });
        number
    }

    /// A device closes it. `None` for one that has done so already, or when the adapter has stopped.
    pub(super) fn leave(&self, number: u64, idle: Option<IdlePoint>) -> Option<Left> {
        let mut state = lock(&self.state);
        let at = state.users.iter().position(|user| user.number == number)?;
        let User { device, open, listed, locks, .. } = state.users.swap_remove(at);
        state.idle.extend(idle);
        Some(Left { device, open, listed, locks })
    }

    /// Everybody has to close it, because the adapter stops: device and open allocation of each.
    pub(super) fn take_all(&self) -> Vec<(KmdHandle, KmdHandle)> {
        std::mem::take(&mut lock(&self.state).users).into_iter().map(|user| (user.device, user.open)).collect()
    }

    /// Nobody can open it any more.
    pub(super) fn hide(&self) {
        lock(&self.state).reachable = false;
    }

    /// True if nobody has it open and nobody can open it.
    pub(super) fn is_over(&self) -> bool {
        let state = lock(&self.state);
        state.users.is_empty() && !state.reachable
    }

    /// When all queues that used it have let go of it, also those of `with`; `None` for now.
    pub(super) fn idle_point(&self, with: Option<&IdlePoint>) -> Option<IdlePoint> {
        // Whoever says whether a queue is done takes locks of the scheduler, which come before this one.
        let known = lock(&self.state).idle.clone();
        let over: Vec<IdlePoint> = known.into_iter().filter(|idle| idle()).collect();
        let mut state = lock(&self.state);
        state.idle.retain(|idle| !over.iter().any(|over| Arc::ptr_eq(over, idle)));
        let all: Vec<IdlePoint> = state.idle.iter().chain(with).map(Arc::clone).collect();
        if all.is_empty() { None } else { Some(Arc::new(move || all.iter().all(|idle| idle()))) }
    }

    pub(super) fn change<T>(&self, number: u64, change: impl FnOnce(&mut User) -> T) -> Option<T> {
        lock(&self.state).users.iter_mut().find(|user| user.number == number).map(change)
    }

    /// A user made it resident once more.
    pub(super) fn list(&self, number: u64) {
        self.change(number, |user| user.listed += 1);
    }

    /// A user evicts it `times`; false, and nothing changes, if it is not as often on the list of that one.
    pub(super) fn is_listed(&self, number: u64, times: usize) -> bool {
        self.change(number, |user| user.listed as usize >= times).unwrap_or(false)
    }

    /// A user evicted it, whose queues have let go of it when `idle` says so: whoever evicts it last waits for them too.
    pub(super) fn unlist(&self, number: u64, idle: &IdlePoint) {
        self.change(number, |user| user.listed = user.listed.saturating_sub(1));
        lock(&self.state).idle.push(Arc::clone(idle));
    }

    /// A user locked it once more.
    pub(super) fn lock(&self, number: u64) {
        self.change(number, |user| user.locks += 1);
    }

    /// Locks of a user.
    pub(super) fn locks(&self, number: u64) -> u32 {
        self.change(number, |user| user.locks).unwrap_or(0)
    }

    /// A user ends one of its locks; false if it has none.
    pub(super) fn unlock(&self, number: u64) -> bool {
        let unlocked = self.change(number, |user| {
            let locked = user.locks > 0;
            user.locks = user.locks.saturating_sub(1);
            locked
        });
        unlocked.unwrap_or(false)
    }

    /// The address of a process is its own from now on, for the users that have locked it, because the adapter stops.
    pub(super) fn hand_locks_over(&self, id: AllocationId, kept: &Arc<Kept>, mapping: &Arc<UserMapping>) {
        let leave = |user: &mut User| (user.number, std::mem::take(&mut user.locks));
        let mut state = lock(&self.state);
        let of_process = state.users.iter_mut().filter(|user| Arc::ptr_eq(&user.kept, kept));
        let left: Vec<_> = of_process.map(leave).collect();
        drop(state);
        for (user, locks) in left.into_iter().filter(|(_, locks)| *locks > 0) {
            kept.keep_locked(Arc::clone(mapping), (id, user), locks);
        }
    }

    /// True if a device has not closed it.
    pub(super) fn is_user(&self, number: u64) -> bool {
        self.change(number, |_| ()).is_some()
    }

    /// The processes that have it on a residency list, each once.
    pub(super) fn listed_by(&self) -> Vec<SpaceId> {
        self.processes(|user| user.listed > 0)
    }

    /// True if a process has it open.
    pub(super) fn is_open_in(&self, process: SpaceId) -> bool {
        self.processes(|_| true).contains(&process)
    }

    fn processes(&self, wanted: impl Fn(&User) -> bool) -> Vec<SpaceId> {
        let state = lock(&self.state);
        let mut processes: Vec<_> = state.users.iter().filter(|user| wanted(user)).map(|user| user.process).collect();
        processes.sort_unstable();
        processes.dedup();
        processes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::vidmm::ids::NOBODY;

    fn handle(number: usize) -> KmdHandle {
        KmdHandle::new(std::ptr::without_provenance_mut(number))
    }

    #[test]
    fn it_is_over_when_nobody_has_it_open_and_nobody_can_open_it() {
        let sharing = Sharing::new();
        let first = sharing.enter(handle(1), handle(2), (SpaceId(7), Arc::default()));
        let second = sharing.enter(handle(3), handle(4), (SpaceId(8), Arc::default()));
        sharing.hide();
        assert!(!sharing.is_over());
        let left = sharing.leave(first, None).unwrap();
        assert_eq!((left.device, left.open), (handle(1), handle(2)));
        assert!(sharing.leave(first, None).is_none(), "twice");
        assert!(!sharing.is_over());
        assert_eq!(sharing.take_all(), [(handle(3), handle(4))]);
        assert!(sharing.leave(second, None).is_none(), "after everybody had to close it");
        assert!(sharing.is_over());
    }

    /// A queue that is not done is looked at under the lock of its fence, which comes before the one that users are kept under.
    #[test]
    fn whether_queues_let_go_is_asked_without_the_lock() {
        let sharing = Sharing::new();
        let (of, is_idle) = (Arc::clone(&sharing), Arc::new(AtomicBool::new(false)));
        let idle = Arc::clone(&is_idle);
        let asks: IdlePoint = Arc::new(move || {
            // With the lock held, this would never return.
            of.is_over();
            idle.load(Ordering::Relaxed)
        });
        let user = sharing.enter(handle(1), handle(2), (SpaceId(7), Arc::default()));
        sharing.unlist(user, &asks);
        assert!(!sharing.idle_point(None).expect("one that is not done")());
        is_idle.store(true, Ordering::Relaxed);
        assert!(sharing.idle_point(None).is_none());
    }

    #[test]
    fn each_user_counts_for_itself_and_leaves_what_it_has_not_given_up() {
        let sharing = Sharing::new();
        let users = [7, 8, 8].map(|space| sharing.enter(handle(1), handle(2), (SpaceId(space), Arc::default())));
        sharing.list(users[1]);
        sharing.list(users[1]);
        sharing.list(users[2]);
        sharing.lock(users[0]);
        assert!(!sharing.is_listed(users[0], 1) && sharing.is_listed(users[1], 2) && !sharing.is_listed(users[1], 3));
        assert_eq!(sharing.listed_by(), [SpaceId(8)]);
        assert!(sharing.is_open_in(SpaceId(7)) && !sharing.is_open_in(NOBODY));
        let at_once: IdlePoint = Arc::new(|| true);
        sharing.unlist(users[1], &at_once);
        assert!(!sharing.unlock(users[1]), "a lock of another user");
        let left = users.map(|user| sharing.leave(user, None).map(|left| (left.listed, left.locks)));
        assert_eq!(left, [Some((0, 1)), Some((1, 0)), Some((1, 0))]);
        assert!(sharing.listed_by().is_empty());
    }

    #[test]
    fn what_one_user_queued_is_waited_for_after_it_has_left() {
        let sharing = Sharing::new();
        let user = sharing.enter(handle(1), handle(2), (SpaceId(7), Arc::default()));
        let done = Arc::new(AtomicBool::new(false));
        let idle: IdlePoint = {
            let done = Arc::clone(&done);
            Arc::new(move || done.load(Ordering::Relaxed))
        };
        assert!(sharing.idle_point(None).is_none());
        sharing.leave(user, Some(idle));
        let other: IdlePoint = Arc::new(|| true);
        let all = sharing.idle_point(Some(&other)).unwrap();
        assert!(!all());
        done.store(true, Ordering::Relaxed);
        assert!(all() && sharing.idle_point(None).is_none());
    }
}

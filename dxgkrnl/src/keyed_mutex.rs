//! Keyed mutexes: one owner at a time, which is whoever asks with the key that the last owner left. [d3dkmthk: D3DKMTAcquireKeyedMutex]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::account::{Account, Charge, Upkeep};
use crate::refusal::{Failure, refused};
use nt::lock::{Condvar, Innermost, Mutex, lock};
use wddm_ddi::status::*;

static IDS: AtomicU64 = AtomicU64::new(1);

/// Interval at which a waiting thread looks whether the machine has stopped or the process ends; nothing else depends on it.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// State that a keyed mutex hands to its next owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Value of the fence that the last owner named.
    pub(crate) fence: u64,
    /// Data of the runtime.
    pub(crate) data: Vec<u8>,
}

#[derive(Debug)]
struct State {
    owner: Option<u64>,
    key: u64,
    /// Value of the fence that the last owner named.
    fence: u64,
    data: Vec<u8>,
    /// An owner went without giving it back.
    abandoned: bool,
}

/// A keyed mutex, which lives as long as somebody has it open or a kernel handle of it.
#[derive(Debug)]
pub(crate) struct KeyedMutex {
    state: Mutex<State>,
    changed: Condvar,
    /// The handle that every process knows; 0 without.
    shared: u32,
    /// Kernel handles of it may be made.
    nt_sharing: bool,
    upkeep: Upkeep,
}

/// An open keyed mutex.
#[derive(Debug)]
pub(crate) struct OpenKeyedMutex {
    mutex: Arc<KeyedMutex>,
    id: u64,
    closed: Mutex<bool, Innermost>,
    _charge: Charge,
}

impl KeyedMutex {
    /// A mutex that nobody owns, to be taken with `key`.
    pub(crate) fn new(key: u64, data: Vec<u8>, shared: u32, nt_sharing: bool) -> Arc<Self> {
        let state = State { owner: None, key, fence: 0, data, abandoned: false };
        let (state, changed, upkeep) = (Mutex::new(state), Condvar::new(), Upkeep::of_mutex());
        Arc::new(Self { state, changed, shared, nt_sharing, upkeep })
    }

    /// Opens it for a process.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES if the process has as many as it may have.
    pub(crate) fn open(self: &Arc<Self>, process: &Account) -> Result<Arc<OpenKeyedMutex>, NTSTATUS> {
        let (id, closed, _charge) =
            (IDS.fetch_add(1, Ordering::Relaxed), Mutex::new(false), process.charge(&self.upkeep)?);
        Ok(Arc::new(OpenKeyedMutex { mutex: Arc::clone(self), id, closed, _charge }))
    }

    /// Descriptors, bytes and numbers that it takes.
    pub(crate) fn upkeep(&self) -> &Upkeep {
        &self.upkeep
    }

    /// The handle that every process knows; 0 without.
    pub(crate) fn shared(&self) -> u32 {
        self.shared
    }

    /// Data of the runtime for a mutex that has none; one that has keeps its own. [d3dkmthk: D3DKMT_OPENKEYEDMUTEX2::pPrivateRuntimeData]
    pub(crate) fn begin_with(&self, data: Vec<u8>) {
        let mut state = lock(&self.state);
        if state.data.is_empty() {
            state.data = data;
        }
    }
}

impl State {
    fn kept(&self) -> Kept {
        Kept { fence: self.fence, data: self.data.clone() }
    }
}

impl OpenKeyedMutex {
    /// The mutex, to give it a kernel handle.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER unless it was created for that.
    pub(crate) fn shareable(&self) -> Result<Arc<KeyedMutex>, Failure> {
        let why = || refused(STATUS_INVALID_PARAMETER, "the keyed mutex was created without NtSecuritySharing");
        if self.mutex.nt_sharing { Ok(Arc::clone(&self.mutex)) } else { Err(why()) }
    }

    /// Becomes the owner: waits until the mutex was released with `key`, at most until `deadline`. `gives_up` says why nobody should wait
    /// any longer. The status is STATUS_SUCCESS, STATUS_TIMEOUT, or STATUS_ABANDONED when an owner has gone without a release; only the
    /// first one makes an owner.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for the owner itself; STATUS_INVALID_HANDLE once it is closed; why it was given up.
    pub(crate) fn acquire(
        &self,
        key: u64,
        deadline: Option<Instant>,
        gives_up: impl Fn() -> Option<NTSTATUS>,
    ) -> Result<(NTSTATUS, Kept), Failure> {
        if lock(&self.mutex.state).owner == Some(self.id) {
            return Err(refused(STATUS_INVALID_PARAMETER, "hKeyedMutex has acquired the mutex already"));
        }
        loop {
            // Asked without the lock: whoever answers has locks of its own.
            if let Some(status) = gives_up() {
                return Err(status.into());
            }
            let mut state = lock(&self.mutex.state);
            if *lock(&self.closed) {
                return Err(refused(STATUS_INVALID_HANDLE, "hKeyedMutex was destroyed meanwhile"));
            }
            if state.abandoned {
                return Ok((STATUS_ABANDONED, state.kept()));
            }
            if state.owner.is_none() && state.key == key {
                state.owner = Some(self.id);
                return Ok((STATUS_SUCCESS, state.kept()));
            }
            let left = deadline.map_or(STOP_CHECK, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok((STATUS_TIMEOUT, Kept::default()));
            }
            drop(self.mutex.changed.wait_timeout(state, left.min(STOP_CHECK)));
        }
    }

    /// Gives it back, to be taken with `key` next. Without `data` the data of the runtime stay.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for whoever is not the owner; nothing is changed.
    pub(crate) fn release(&self, key: u64, fence: u64, data: Option<Vec<u8>>) -> Result<(), Failure> {
        let mut state = lock(&self.mutex.state);
        if state.owner != Some(self.id) {
            return Err(refused(STATUS_INVALID_PARAMETER, "hKeyedMutex has not acquired the mutex"));
        }
        (state.owner, state.key, state.fence) = (None, key, fence);
        if let Some(data) = data {
            state.data = data;
        }
        drop(state);
        self.mutex.changed.notify_all();
        Ok(())
    }

    /// Closes it. An owner abandons it, which all others are told from then on.
    pub(crate) fn destroy(&self) {
        let mut state = lock(&self.mutex.state);
        *lock(&self.closed) = true;
        if state.owner == Some(self.id) {
            (state.owner, state.abandoned) = (None, true);
        }
        drop(state);
        self.mutex.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(mutex: &Arc<KeyedMutex>) -> Arc<OpenKeyedMutex> {
        mutex.open(&Account::default()).unwrap()
    }

    fn at_once(open: &OpenKeyedMutex, key: u64) -> NTSTATUS {
        open.acquire(key, Some(Instant::now()), || None).map_or_else(|failure| failure.status(), |(status, _)| status)
    }

    #[test]
    fn only_the_key_that_the_last_owner_left_opens_it() {
        let mutex = KeyedMutex::new(5, vec![1], 0, false);
        let (one, other) = (open(&mutex), open(&mutex));
        assert_eq!(at_once(&one, 6), STATUS_TIMEOUT);
        assert_eq!(at_once(&one, 5), STATUS_SUCCESS);
        assert_eq!(at_once(&one, 5), STATUS_INVALID_PARAMETER, "the owner again");
        assert_eq!(at_once(&other, 5), STATUS_TIMEOUT);
        assert_eq!(other.release(7, 1, None), Err(STATUS_INVALID_PARAMETER.into()));
        assert_eq!(one.release(7, 9, Some(vec![2, 3])), Ok(()));
        let taken = other.acquire(7, None, || None);
        assert_eq!(taken, Ok((STATUS_SUCCESS, Kept { fence: 9, data: vec![2, 3] })));
    }

    #[test]
    fn an_owner_that_goes_abandons_it_and_a_closed_one_waits_no_more() {
        let mutex = KeyedMutex::new(0, vec![], 0, false);
        let (one, other) = (open(&mutex), open(&mutex));
        assert_eq!(at_once(&one, 0), STATUS_SUCCESS);
        one.destroy();
        assert_eq!(at_once(&other, 0), STATUS_ABANDONED);
        other.destroy();
        assert_eq!(at_once(&other, 0), STATUS_INVALID_HANDLE);
    }

    #[test]
    fn who_waits_is_woken_by_the_release_with_its_key() {
        let mutex = KeyedMutex::new(1, vec![], 0, false);
        let (one, other) = (open(&mutex), open(&mutex));
        assert_eq!(at_once(&one, 1), STATUS_SUCCESS);
        let waiting = std::thread::spawn(move || other.acquire(2, None, || None).map(|(status, _)| status));
        assert_eq!(one.release(2, 0, None), Ok(()));
        assert_eq!(waiting.join().ok(), Some(Ok(STATUS_SUCCESS)));
    }
}

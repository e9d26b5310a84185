//! CPU waits: one [`Wait`] for each call; the list of each fence is in [`super::monitored_waits`].
//!
//! A waiter is woken once, by whoever sees its last condition come true, straight from there to the thread or event;
//! nobody polls.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use wddm_ddi::status::{NTSTATUS, STATUS_SUCCESS, STATUS_TIMEOUT};

use super::event::Event;

/// MonitoredValue of a fence that no CPU waits for. [native-gpu-fence-objects: MonitoredValue]
pub(crate) const UNMONITORED: u64 = u64::MAX;

/// How often a blocked thread looks whether the machine has stopped; nothing else depends on it.
const STOP_CHECK: Duration = Duration::from_millis(200);

/// Outcome that no NTSTATUS has: the wait is not over.
const PENDING: i64 = i64::MIN;

/// Whom to tell when a wait is over.
enum Wake {
    Thread(Thread),
    Event(Event, Option<Hook>),
    Hook(Hook),
}

/// Runs once when a wait is over; must not take the locks of fences.
type Hook = Box<dyn Fn() + Send + Sync>;

/// One wait for one or more fence values.
pub(crate) struct Wait {
    /// Conditions that must still come true.
    pub(crate) remaining: AtomicU32,
    /// [`PENDING`], then the status for good.
    outcome: AtomicI64,
    wake: Wake,
}

impl Wait {
    /// A wait of the calling thread that is over when `conditions` have come true.
    pub(crate) fn of_thread(conditions: u32) -> Arc<Self> {
        Self::new(conditions, Wake::Thread(std::thread::current()))
    }

    /// A wait that signals an event when `conditions` have come true, then calls `over`.
    pub(crate) fn of_event(conditions: u32, event: Event, over: Option<Hook>) -> Arc<Self> {
        Self::new(conditions, Wake::Event(event, over))
    }

    /// A wait that calls `over` when `conditions` have come true, or when it is given up.
    pub(crate) fn of_hook(conditions: u32, over: Hook) -> Arc<Self> {
        Self::new(conditions, Wake::Hook(over))
    }

    fn new(conditions: u32, wake: Wake) -> Arc<Self> {
        Arc::new(Self { remaining: AtomicU32::new(conditions), outcome: AtomicI64::new(PENDING), wake })
    }

    /// One condition came true; the last one ends the wait.
    pub(crate) fn satisfy(&self) {
        let before = self.remaining.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        if before == Ok(1) {
            self.finish(STATUS_SUCCESS);
        }
    }

    /// Ends the wait with `status`, unless it is over already.
    pub(crate) fn finish(&self, status: NTSTATUS) {
        let over = i64::from(status.0);
        if self.outcome.compare_exchange(PENDING, over, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        match &self.wake {
            Wake::Thread(thread) => thread.unpark(),
            Wake::Hook(over) => over(),
            Wake::Event(event, over) => {
                event.signal();
                if let Some(over) = over {
                    over();
                }
            }
        }
    }

    /// As [`Wait::finish`], for a wait that signals an event; others look themselves whether somebody will end them.
    pub(crate) fn finish_event(&self, status: NTSTATUS) {
        if matches!(self.wake, Wake::Event(..)) {
            self.finish(status);
        }
    }

    /// The status, once the wait is over.
    pub(crate) fn outcome(&self) -> Option<NTSTATUS> {
        match self.outcome.load(Ordering::Acquire) {
            PENDING => None,
            status => Some(NTSTATUS(status as i32)),
        }
    }

    /// Blocks the thread of [`Wait::of_thread`] until the wait is over; STATUS_TIMEOUT when `deadline` has passed.
    /// `pause` puts the thread to sleep for no longer than it is told and not beyond an unpark; it names a status once
    /// nobody will end the wait.
    pub(crate) fn block(&self, deadline: Option<Instant>, pause: impl Fn(Duration) -> Option<NTSTATUS>) -> NTSTATUS {
        loop {
            if let Some(status) = self.outcome() {
                return status;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                self.finish(STATUS_TIMEOUT);
            } else if let Some(status) = pause(left.unwrap_or(STOP_CHECK).min(STOP_CHECK)) {
                self.finish(status);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::event::tests::{of, read};
    use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
    use wddm_ddi::status::STATUS_INVALID_HANDLE;

    #[test]
    fn a_wait_for_all_ends_with_the_last_condition_and_a_wait_for_any_with_the_first() {
        let all = Wait::of_thread(3);
        all.satisfy();
        all.satisfy();
        assert_eq!(all.outcome(), None);
        all.satisfy();
        assert_eq!(all.outcome(), Some(STATUS_SUCCESS));
        let any = Wait::of_thread(1);
        any.satisfy();
        any.satisfy();
        any.finish(STATUS_INVALID_HANDLE);
        assert_eq!(any.outcome(), Some(STATUS_SUCCESS));
    }

    #[test]
    fn a_blocked_thread_is_woken_by_the_thread_that_satisfies_it() {
        let (send, receive) = std::sync::mpsc::channel();
        let blocked = std::thread::spawn(move || {
            let wait = Wait::of_thread(1);
            send.send(Arc::clone(&wait)).unwrap();
            wait.block(None, |nap| {
                std::thread::park_timeout(nap);
                None
            })
        });
        receive.recv().unwrap().satisfy();
        assert_eq!(blocked.join().unwrap(), STATUS_SUCCESS);
    }

    #[test]
    fn a_blocked_thread_gives_up_when_the_machine_has_stopped_or_its_time_is_over() {
        let stopped = Wait::of_thread(1);
        assert_eq!(stopped.block(None, |_| Some(STATUS_INVALID_HANDLE)), STATUS_INVALID_HANDLE);
        let late = Wait::of_thread(1);
        assert_eq!(late.block(Some(Instant::now()), |_| None), STATUS_TIMEOUT);
    }

    fn event() -> OwnedFd {
        // SAFETY: creating an eventfd touches no memory.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        assert!(fd >= 0);
        // SAFETY: the descriptor was just created and is owned by nobody else.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }

    #[test]
    fn an_event_is_signalled_once_even_after_the_caller_closed_its_own() {
        let event = event();
        let wait = Wait::of_event(2, of(event.as_raw_fd()).unwrap(), None);
        let kept = event.as_fd().try_clone_to_owned().unwrap();
        drop(event);
        wait.satisfy();
        assert_eq!(read(&kept), None);
        wait.satisfy();
        wait.satisfy();
        assert_eq!(read(&kept), Some(1));
    }
}

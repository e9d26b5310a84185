//! CPU waits: one [`Wait`] for each call; the list of each fence is in [`super::monitored_waits`].
//!
//! A waiter is woken once, by whoever sees its last condition come true, straight from there to the thread or event;
//! nobody polls.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use wddm_ddi::status::{
    NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE, STATUS_OBJECT_TYPE_MISMATCH, STATUS_SUCCESS,
    STATUS_TIMEOUT,
};

/// MonitoredValue of a fence that no CPU waits for. [native-gpu-fence-objects: MonitoredValue]
pub(crate) const UNMONITORED: u64 = u64::MAX;

/// How often a blocked thread looks whether the machine has stopped; nothing else depends on it.
const STOP_CHECK: Duration = Duration::from_millis(200);

/// Outcome that no NTSTATUS has: the wait is not over.
const PENDING: i64 = i64::MIN;

/// Whom to tell when a wait is over.
enum Wake {
    Thread(Thread),
    Event(OwnedFd, Option<Hook>),
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

    /// A wait that adds 1 to an event (an eventfd of the caller) when `conditions` have come true, then calls `over`.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if the number is no open descriptor, STATUS_OBJECT_TYPE_MISMATCH if it is something other
    /// than an event, STATUS_INSUFFICIENT_RESOURCES if the process may open no more descriptors.
    pub(crate) fn of_event(conditions: u32, event: RawFd, over: Option<Hook>) -> Result<Arc<Self>, NTSTATUS> {
        if event < 0 {
            return Err(STATUS_INVALID_HANDLE);
        }
        // SAFETY: duplicating a descriptor touches no memory; a number that is not open is answered with an error.
        let copy = unsafe { libc::fcntl(event, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 {
            return Err(match io::Error::last_os_error().raw_os_error() {
                Some(libc::EMFILE) => STATUS_INSUFFICIENT_RESOURCES,
                _ => STATUS_INVALID_HANDLE,
            });
        }
        // SAFETY: the descriptor was just created and is owned by nobody else.
        let event = unsafe { OwnedFd::from_raw_fd(copy) };
        let kind = fs::read_link(format!("/proc/self/fd/{copy}")).map_err(|_| STATUS_INVALID_HANDLE)?;
        if !kind.to_string_lossy().contains("[eventfd]") {
            return Err(STATUS_OBJECT_TYPE_MISMATCH);
        }
        Ok(Self::new(conditions, Wake::Event(event, over)))
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
                set_event(event);
                if let Some(over) = over {
                    over();
                }
            }
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

/// Adds 1 to an event without ever blocking: an event that is full is signalled already.
pub(crate) fn set_event(event: &OwnedFd) {
    let mut poll = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one valid pollfd, and a timeout of zero.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
    if ready == 1 {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer holds the eight bytes that are written.
        let _ = unsafe { libc::write(event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

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

    fn event(initial: u32) -> OwnedFd {
        // SAFETY: creating an eventfd touches no memory.
        let fd = unsafe { libc::eventfd(initial, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        assert!(fd >= 0);
        // SAFETY: the descriptor was just created and is owned by nobody else.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }

    fn read(event: &OwnedFd) -> Option<u64> {
        let mut value = [0u8; 8];
        // SAFETY: the buffer has room for the eight bytes that are read.
        let read = unsafe { libc::read(event.as_raw_fd(), value.as_mut_ptr().cast(), 8) };
        (read == 8).then(|| u64::from_ne_bytes(value))
    }

    #[test]
    fn an_event_is_signalled_once_even_after_the_caller_closed_its_own() {
        let event = event(0);
        let wait = Wait::of_event(2, event.as_raw_fd(), None).unwrap();
        let kept = event.as_fd().try_clone_to_owned().unwrap();
        drop(event);
        wait.satisfy();
        assert_eq!(read(&kept), None);
        wait.satisfy();
        wait.satisfy();
        assert_eq!(read(&kept), Some(1));
    }

    #[test]
    fn a_full_event_never_blocks_the_one_who_signals() {
        // A blocking eventfd one below its limit of 2^64 - 1.
        // SAFETY: creating an eventfd touches no memory.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        // SAFETY: the descriptor was just created and is owned by nobody else.
        let full = unsafe { OwnedFd::from_raw_fd(fd) };
        let value = (u64::MAX - 1).to_ne_bytes();
        // SAFETY: the buffer holds the eight bytes that are written.
        assert_eq!(unsafe { libc::write(fd, value.as_ptr().cast(), 8) }, 8);
        Wait::of_event(1, full.as_raw_fd(), None).unwrap().satisfy();
        assert_eq!(read(&full), Some(u64::MAX - 1));
    }

    #[test]
    fn a_number_that_is_no_event_is_refused_by_name() {
        assert_eq!(Wait::of_event(1, -1, None).err(), Some(STATUS_INVALID_HANDLE));
        assert_eq!(Wait::of_event(1, 1 << 29, None).err(), Some(STATUS_INVALID_HANDLE));
        let file = fs::File::open("/proc/self/status").unwrap();
        assert_eq!(Wait::of_event(1, file.as_raw_fd(), None).err(), Some(STATUS_OBJECT_TYPE_MISMATCH));
    }
}

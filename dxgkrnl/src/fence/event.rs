//! Events of user mode: eventfds here, whose numbers stand for handles.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nt::user_space::UserSpace;
use wddm_ddi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE, STATUS_OBJECT_TYPE_MISMATCH};
use wddm_ddi::types::HANDLE;

/// Most events of one process that the system holds at a time: each takes a descriptor, of which all processes have as many as the host allows.
const MAX_OF_PROCESS: usize = 16_384;

/// An event, which stays when its process closes its own handle. Clones are the same event.
#[derive(Clone, Debug)]
pub(crate) struct Event(Arc<Held>);

#[derive(Debug)]
struct Held {
    descriptor: OwnedFd,
    /// Dropped with it.
    _place: Place,
}

/// The events of a process that the system holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventQuota(Arc<AtomicUsize>);

/// One of the events that a process may have the system hold.
#[derive(Debug)]
struct Place(EventQuota);

impl EventQuota {
    fn take(&self) -> Result<Place, NTSTATUS> {
        let one_more = |taken| (taken < MAX_OF_PROCESS).then_some(taken + 1);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.map(|_| Place(self.clone())).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Event {
    /// The event behind a handle of a process.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if the number is no open descriptor, STATUS_OBJECT_TYPE_MISMATCH if it is something other than an event,
    /// STATUS_INSUFFICIENT_RESOURCES if no more descriptors can be opened, or the system holds as many of the process as it may have.
    pub(crate) fn of(process: &dyn UserSpace, quota: &EventQuota, handle: HANDLE) -> Result<Self, NTSTATUS> {
        let place = quota.take()?;
        let number = RawFd::try_from(handle.addr()).map_err(|_| STATUS_INVALID_HANDLE)?;
        let event = process.descriptor(number).map_err(|error| match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => STATUS_INSUFFICIENT_RESOURCES,
            _ => STATUS_INVALID_HANDLE,
        })?;
        let kind = fs::read_link(format!("/proc/self/fd/{}", event.as_raw_fd())).map_err(|_| STATUS_INVALID_HANDLE)?;
        // A file may have such a name in a folder.
        if kind.as_os_str() != "anon_inode:[eventfd]" {
            return Err(STATUS_OBJECT_TYPE_MISMATCH);
        }
        Ok(Self(Arc::new(Held { descriptor: event, _place: place })))
    }

    /// Adds 1 to the event without ever blocking: one that is full is signalled already.
    pub(crate) fn signal(&self) {
        let mut poll = libc::pollfd { fd: self.0.descriptor.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one valid pollfd, and a timeout of zero.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        if ready == 1 {
            let one = 1u64.to_ne_bytes();
            // SAFETY: the buffer holds the eight bytes that are written.
            let _ = unsafe { libc::write(self.0.descriptor.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use nt::user_space::ThisProcess;
    use std::os::fd::FromRawFd;

    /// The handle that a descriptor is.
    pub(crate) fn handle(number: RawFd) -> HANDLE {
        std::ptr::without_provenance_mut(number as usize)
    }

    pub(crate) fn of(number: RawFd) -> Result<Event, NTSTATUS> {
        Event::of(&ThisProcess, &EventQuota::default(), handle(number))
    }

    pub(crate) fn read(event: &OwnedFd) -> Option<u64> {
        let mut value = [0u8; 8];
        // SAFETY: the buffer has room for the eight bytes that are read.
        let read = unsafe { libc::read(event.as_raw_fd(), value.as_mut_ptr().cast(), 8) };
        (read == 8).then(|| u64::from_ne_bytes(value))
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
        of(full.as_raw_fd()).unwrap().signal();
        assert_eq!(read(&full), Some(u64::MAX - 1));
    }

    #[test]
    fn a_number_that_is_no_event_is_refused_by_name() {
        assert_eq!(of(-1).err(), Some(STATUS_INVALID_HANDLE));
        assert_eq!(of(1 << 29).err(), Some(STATUS_INVALID_HANDLE));
        let file = fs::File::open("/proc/self/status").unwrap();
        assert_eq!(of(file.as_raw_fd()).err(), Some(STATUS_OBJECT_TYPE_MISMATCH));
    }

    #[test]
    fn a_process_has_so_many_events_held_and_no_more_until_one_is_let_go() {
        // SAFETY: an eventfd has no memory.
        let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        // SAFETY: the descriptor is new and not known elsewhere.
        let _event = unsafe { OwnedFd::from_raw_fd(number) };
        let quota = EventQuota(Arc::new(AtomicUsize::new(MAX_OF_PROCESS - 2)));
        let one_more = || Event::of(&ThisProcess, &quota, handle(number));
        let (first, _second) = (one_more().unwrap(), one_more().unwrap());
        assert_eq!(one_more().err(), Some(STATUS_INSUFFICIENT_RESOURCES));
        let same = first.clone();
        drop(first);
        assert_eq!(one_more().err(), Some(STATUS_INSUFFICIENT_RESOURCES));
        drop(same);
        // A handle of nothing takes no place.
        assert_eq!(Event::of(&ThisProcess, &quota, handle(-1)).err(), Some(STATUS_INVALID_HANDLE));
        let _third = one_more().unwrap();
    }
}

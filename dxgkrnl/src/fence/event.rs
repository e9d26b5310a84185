//! Events of user mode: eventfds here, whose numbers stand for handles.

use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::Arc;

use nt::user_space::{UserSpace, is_event};
use wddm_ddi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE, STATUS_OBJECT_TYPE_MISMATCH};
use wddm_ddi::types::HANDLE;

use super::signal;
use crate::quota::{EventPlace, EventQuota};

/// An event, which stays when its process closes its own handle. Clones are the same event.
#[derive(Clone, Debug)]
pub(crate) struct Event(Arc<Held>);

#[derive(Debug)]
struct Held {
    descriptor: OwnedFd,
    /// Dropped with it.
    _place: EventPlace,
}

impl Event {
    /// The event behind a handle of a process.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if the number is no open descriptor, STATUS_OBJECT_TYPE_MISMATCH if it is something other than an event,
    /// STATUS_INSUFFICIENT_RESOURCES if no more descriptors can be opened, the system holds as many of the process as it may have, or the host gives it nothing to
    /// signal events with.
    pub(crate) fn of(process: &dyn UserSpace, quota: &EventQuota, handle: HANDLE) -> Result<Self, NTSTATUS> {
        let place = quota.take()?;
        let number = RawFd::try_from(handle.addr()).map_err(|_| STATUS_INVALID_HANDLE)?;
        let event = process.descriptor(number, event_of).map_err(|error| match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => STATUS_INSUFFICIENT_RESOURCES,
            _ => STATUS_INVALID_HANDLE,
        })??;
        signal::prepare().map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
        Ok(Self(Arc::new(Held { descriptor: event, _place: place })))
    }

    /// Adds 1 to the event and never waits for anybody, whatever its process does with it: one that is full is signalled already. On a host without memory
    /// for the request the signal is lost.
    pub(crate) fn signal(&self) {
        let _ = signal::signal(self.0.descriptor.as_fd());
    }
}

/// A descriptor if it is of an event, which anybody may close: the host asks nobody and waits for nothing then. Any other one is closed here.
///
/// # Errors
/// STATUS_OBJECT_TYPE_MISMATCH.
fn event_of(descriptor: OwnedFd) -> Result<OwnedFd, NTSTATUS> {
    match is_event(descriptor.as_fd()) {
        Ok(true) => Ok(descriptor),
        Ok(false) => Err(STATUS_OBJECT_TYPE_MISMATCH),
        Err(_) => Err(STATUS_INVALID_HANDLE),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use nt::user_space::ThisProcess;
    use std::os::fd::{AsRawFd, FromRawFd};

    /// The handle that a descriptor is.
    pub(crate) fn handle(number: RawFd) -> HANDLE {
        std::ptr::without_provenance_mut(number as usize)
    }

    pub(crate) fn of(number: RawFd) -> Result<Event, NTSTATUS> {
        Event::of(&ThisProcess, &EventQuota::default(), handle(number))
    }

    pub(crate) fn read(event: &OwnedFd) -> Option<u64> {
        let mut value = [0u8; 8];
        // SAFETY: the buffer has space for the eight bytes that are read.
        let read = unsafe { libc::read(event.as_raw_fd(), value.as_mut_ptr().cast(), 8) };
        (read == 8).then(|| u64::from_ne_bytes(value))
    }

    /// An event of a process that has it block, with this count.
    fn blocking(count: u64) -> OwnedFd {
        // SAFETY: creating an eventfd touches no memory.
        let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        // SAFETY: the descriptor was just created and is owned by nobody else.
        let event = unsafe { OwnedFd::from_raw_fd(number) };
        let value = count.to_ne_bytes();
        // SAFETY: the buffer holds the eight bytes that are written.
        assert_eq!(unsafe { libc::write(number, value.as_ptr().cast(), 8) }, 8);
        event
    }

    #[test]
    fn a_full_event_never_blocks_the_one_who_signals() {
        let full = blocking(u64::MAX - 1);
        of(full.as_raw_fd()).unwrap().signal();
        assert_eq!(read(&full), Some(u64::MAX));
        of(full.as_raw_fd()).unwrap().signal();
        assert_eq!(read(&full), Some(1), "one that was read is signalled again");
    }

    /// One more write fits, and two threads signal: the second one finds a full event, even if it has looked before.
    #[test]
    fn an_event_that_becomes_full_meanwhile_never_blocks_the_one_who_signals() {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for _ in 0..2000 {
                let filled = blocking(u64::MAX - 2);
                let (event, other) = (of(filled.as_raw_fd()).unwrap(), of(filled.as_raw_fd()).unwrap());
                let start = Arc::new(std::sync::Barrier::new(2));
                let waits = Arc::clone(&start);
                let beside = std::thread::spawn(move || {
                    waits.wait();
                    other.signal();
                });
                start.wait();
                event.signal();
                beside.join().unwrap();
                assert_eq!(read(&filled), Some(u64::MAX));
            }
            tell.send(()).unwrap();
        });
        told.recv_timeout(std::time::Duration::from_secs(120)).expect("nobody who signals is blocked");
    }

    #[test]
    fn a_number_that_is_no_event_is_refused_by_name() {
        assert_eq!(of(-1).err(), Some(STATUS_INVALID_HANDLE));
        assert_eq!(of(1 << 29).err(), Some(STATUS_INVALID_HANDLE));
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let (pipe, writing) = std::io::pipe().unwrap();
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        for other in [file.as_fd(), pipe.as_fd(), writing.as_fd(), socket.as_fd()] {
            assert_eq!(of(other.as_raw_fd()).err(), Some(STATUS_OBJECT_TYPE_MISMATCH));
        }
    }

    #[test]
    fn a_process_has_so_many_events_held_and_no_more_until_one_is_let_go() {
        // SAFETY: an eventfd has no memory.
        let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        // SAFETY: the descriptor is new and not known elsewhere.
        let _event = unsafe { OwnedFd::from_raw_fd(number) };
        let quota = EventQuota::with(16_384 - 2);
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

//! Sync files: descriptors of user mode that are ready once a monitored fence has reached a value.
//!
//! The descriptor is one end of a pair of sockets. The system shuts its own end down when the fence has reached the value, which nobody can take back:
//! from then on the other end is readable, and a read finds the end of the file. Copies of the descriptor, also those that were sent to other
//! processes, are the same file; when the last one is closed, the system's end sees it.
//!
//! Microsoft's pages reserve these thunks for the system. What is here is what the graphics kernel of WSL, whose source is public, does with them: a
//! file keeps a shared fence alive, and what waits for the file or opens its fence needs one that is shared.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use wddm_ddi::status::*;

use super::batch;
use super::fence::{Fence, Reference, SharedFence};
use super::sync_object::SyncObject;
use crate::fence::{Rights, Wait};

/// What identifies a file on this host while any descriptor of it is open.
pub(crate) type SyncFileId = u64;

/// A file of a fence and a value.
pub(crate) struct SyncFile {
    fence: Arc<Fence>,
    /// Keeps a shared fence alive on the adapter of its creator.
    _reference: Option<Reference>,
    /// Handle by which other devices open the fence; STATUS_INVALID_PARAMETER for one that was not created to be shared.
    shared: Result<Arc<SharedFence>, NTSTATUS>,
    rights: Rights,
    value: u64,
    /// The system's end.
    end: Arc<OwnedFd>,
    /// Shuts the system's end down when it is over.
    wait: Arc<Wait>,
}

impl SyncFile {
    /// A file for when `open` has reached `value`, and the end that user mode gets. A fence that nobody can wait for any more makes it ready, too.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a native fence and for the progress fence of a queue; STATUS_ACCESS_DENIED for one that may not be waited for; why the
    /// fence is ended; STATUS_INSUFFICIENT_RESOURCES if the host has no descriptors left.
    pub(crate) fn new(open: &SyncObject, value: u64) -> Result<(Self, OwnedFd), NTSTATUS> {
        let fence = Arc::clone(open.fence());
        if fence.is_native() || open.is_of_queue() {
            return Err(STATUS_INVALID_PARAMETER);
        }
        if !open.rights().wait {
            return Err(STATUS_ACCESS_DENIED);
        }
        open.check()?;
        let shared = SharedFence::new(&fence);
        let reference = shared.is_ok().then(|| Reference::new(&fence)).transpose()?;
        let (end, others) = pair().map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
        let end = Arc::new(end);
        let told = Arc::clone(&end);
        let wait = Wait::of_hook(1, Box::new(move || shut_down(&told)));
        let file = Self { fence, _reference: reference, shared, rights: open.rights(), value, end, wait };
        batch::add_wait_on(&file.fence, value, &file.wait)?;
        Ok((file, others))
    }

    /// The value that it stands for.
    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    /// Rights of who made it.
    pub(crate) fn rights(&self) -> Rights {
        self.rights
    }

    /// True once its descriptors are ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.wait.outcome().is_some()
    }

    /// Handle by which other devices open the fence.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if it was not created to be shared.
    pub(crate) fn shared(&self) -> Result<&SharedFence, NTSTATUS> {
        self.shared.as_deref().map_err(|status| *status)
    }

    /// True once every descriptor of it is closed, or was shut down by somebody who has it.
    pub(crate) fn is_closed(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.end.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one valid pollfd, and a timeout of zero.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        ready == 1 && poll.revents & libc::POLLHUP != 0
    }
}

impl Drop for SyncFile {
    fn drop(&mut self) {
        self.wait.finish(STATUS_CANCELLED);
        self.fence.remove_over();
    }
}

/// The file that a descriptor would be of, if it is of one.
///
/// # Errors
/// STATUS_OBJECT_TYPE_MISMATCH if it is no socket.
pub(crate) fn id_of(descriptor: &OwnedFd) -> Result<SyncFileId, NTSTATUS> {
    let mut id: SyncFileId = 0;
    let mut len = size_of::<SyncFileId>() as libc::socklen_t;
    let number = descriptor.as_raw_fd();
    // SAFETY: there is room for the `len` bytes of the answer.
    let known =
        unsafe { libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_COOKIE, (&raw mut id).cast(), &raw mut len) };
    if known == 0 { Ok(id) } else { Err(STATUS_OBJECT_TYPE_MISMATCH) }
}

/// The system's end, and that of user mode.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: there is room for the two descriptors of the answer.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and is owned by nobody else.
    let [end, others] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    Ok((end, others))
}

/// From now on the other end is readable.
fn shut_down(end: &OwnedFd) {
    // SAFETY: shutting a socket down touches no memory.
    unsafe { libc::shutdown(end.as_raw_fd(), libc::SHUT_WR) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(end: &OwnedFd) -> bool {
        let mut poll = libc::pollfd { fd: end.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd, and a timeout of zero.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        ready == 1 && poll.revents & libc::POLLIN != 0
    }

    #[test]
    fn an_end_that_was_shut_down_makes_the_other_readable_for_good_and_copies_are_the_same_file() {
        let (end, others) = pair().unwrap();
        let copy = others.try_clone().unwrap();
        assert_eq!(id_of(&others), id_of(&copy));
        assert_ne!(id_of(&others), id_of(&end));
        assert!(!is_readable(&others));
        shut_down(&end);
        let mut byte = [0u8];
        // SAFETY: there is room for the byte that is read.
        let read = unsafe { libc::read(copy.as_raw_fd(), byte.as_mut_ptr().cast(), 1) };
        assert_eq!(read, 0);
        assert!(is_readable(&others) && is_readable(&copy));
    }

    #[test]
    fn what_is_no_socket_is_no_file() {
        let null = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        assert_eq!(id_of(&null), Err(STATUS_OBJECT_TYPE_MISMATCH));
    }
}

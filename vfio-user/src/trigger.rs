//! Eventfds as a client hands them over.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// An eventfd to signal. Signalling never waits for the client.
#[derive(Debug)]
pub struct Trigger(OwnedFd);

impl Trigger {
    /// Takes a descriptor that came from a client.
    ///
    /// # Errors
    /// `InvalidInput` if it is no eventfd: writing to something else could do anything.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let target = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        if target.as_os_str() != "anon_inode:[eventfd]" {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the descriptor is no eventfd"));
        }
        rustix::fs::fcntl_setfl(&fd, rustix::fs::fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        Ok(Self(fd))
    }

    /// Counts the eventfd up. One that is full says what there is to say already.
    pub fn signal(&self) {
        // The client may have taken the flag away that keeps a write to a full counter from waiting.
        let mut fds = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::OUT)];
        if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
            && fds[0].revents().contains(PollFlags::OUT)
        {
            let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
        }
    }
}

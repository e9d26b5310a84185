//! Waiting for a client, until it is ready, the time is over or the server is stopped.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::event::{Event, Observer};

/// Ends a server from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<OwnedFd>);

impl Stopper {
    /// One that ends nothing yet.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Ends what it was given to, also what is started later.
    pub fn stop(&self) {
        // A counter that is full is as good as one that is not zero.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// File descriptors and events that end a wait of a server's thread, beside those of its client.
pub(crate) struct Waiter<'a> {
    pub(crate) stop: &'a Stopper,
    /// Socket on which further clients connect; each is refused while one is served.
    pub(crate) listener: Option<&'a UnixListener>,
    pub(crate) observe: Observer<'a>,
}

/// Reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Ready,
    Stopped,
    TimedOut,
}

impl Waiter<'_> {
    /// Waits until `fd` is ready for `events` or its peer is gone.
    pub(crate) fn wait(&self, fd: impl AsFd, events: PollFlags, until: Option<Instant>) -> io::Result<Woken> {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left =
                left.map(|left| Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() });
            let mut fds = vec![
                PollFd::from_borrowed_fd(fd.as_fd(), events | PollFlags::RDHUP),
                PollFd::from_borrowed_fd(self.stop.0.as_fd(), PollFlags::IN),
            ];
            fds.extend(self.listener.map(|listener| PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)));
            match poll(&mut fds, left.as_ref()) {
                Ok(0) => return Ok(Woken::TimedOut),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let seen = |index: usize| fds.get(index).map_or(PollFlags::empty(), PollFd::revents);
            if !seen(1).is_empty() {
                return Ok(Woken::Stopped);
            }
            // A process that connects after the client has left is the next client.
            let gone = seen(0).intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR);
            if !gone
                && !seen(2).is_empty()
                && let Some(listener) = self.listener
                && listener.accept().is_ok()
            {
                (self.observe)(&Event::Refused);
            }
            if !seen(0).is_empty() {
                return Ok(Woken::Ready);
            }
        }
    }
}

//! The end of a server, which any thread may ask for.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Ends a [`MachineServer`](super::MachineServer); clones end the same one.
#[derive(Clone)]
pub struct Stop(Arc<StopState>);

struct StopState {
    set: AtomicBool,
    /// Readable once it is set.
    event: OwnedFd,
}

impl Stop {
    /// For a server that is to be made.
    ///
    /// # Errors
    /// No more descriptors can be opened.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(StopState { set: AtomicBool::new(false), event })))
    }

    /// The server takes no more programs, and lets go of those that it has.
    pub fn stop(&self) {
        self.0.set.store(true, Ordering::SeqCst);
        // Fails only if the counter is full, which stops as well.
        let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
    }

    /// True once it is set, which it is before anybody is woken by it.
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::SeqCst)
    }

    /// Waits until it is set.
    ///
    /// # Errors
    /// The host cannot wait.
    pub fn wait(&self) -> io::Result<()> {
        self.wait_until(None).map(drop)
    }

    /// Waits until it is set, and not longer than `limit`. True if it is set.
    ///
    /// # Errors
    /// The host cannot wait.
    pub fn wait_for(&self, limit: Duration) -> io::Result<bool> {
        self.wait_until(Some(Instant::now() + limit))
    }

    fn wait_until(&self, until: Option<Instant>) -> io::Result<bool> {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            match poll(&mut [PollFd::new(&self.0.event, PollFlags::IN)], left.as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0.event
    }
}

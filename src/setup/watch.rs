//! Notices that the server of a function is gone, as a slot notices that its card was pulled out.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use dxgkrnl::{Machine, PnpError};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use wddm_ddi::types::LUID;

/// A thread that tells the machine when the other end of a socket goes, until it is ended.
pub(super) struct Watch {
    stop: OwnedFd,
    /// The end was seen; what follows may still be under way.
    seen: Arc<AtomicBool>,
    thread: Option<JoinHandle<Outcome>>,
}

/// What became of the adapter meanwhile; `None` if its function stayed.
pub(super) type Outcome = Option<Result<(), PnpError>>;

impl Watch {
    /// Watches `socket` for an adapter that has started.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub(super) fn start(socket: OwnedFd, machine: Machine, luid: LUID) -> io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let stopped = stop.try_clone()?;
        let seen = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&seen);
        let watch = move || {
            hangs_up(&socket, &stopped).then(|| {
                told.store(true, Ordering::Release);
                machine.surprise_remove(luid)
            })
        };
        let thread = std::thread::Builder::new().name("vfio-user watch".to_owned()).spawn(watch)?;
        Ok(Self { stop, seen, thread: Some(thread) })
    }

    /// Whether the server is gone.
    pub(super) fn has_seen_the_end(&self) -> bool {
        self.seen.load(Ordering::Acquire)
    }

    /// Ends it, and says what it did. A removal that has begun is done when this returns.
    pub(super) fn end(mut self) -> Outcome {
        self.join()
    }

    fn join(&mut self) -> Outcome {
        // Fails only if the counter is full, which wakes the thread as well.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        self.thread.take()?.join().unwrap_or(None)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

/// Waits for the end of a socket, and says whether that came before `stop`.
fn hangs_up(socket: &OwnedFd, stop: &OwnedFd) -> bool {
    loop {
        // Answers make the socket readable as well; its end is told apart.
        let end = PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::RDHUP);
        let mut fds = [end, PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return false,
        }
        let [end, stop] = &fds;
        if !stop.revents().is_empty() {
            return false;
        }
        if end.revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR) {
            return true;
        }
    }
}

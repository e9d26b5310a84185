//! Notices the removal of a function: its server has gone, as a slot notices that its card was pulled out, or Linux requests it back.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use dxgkrnl::bus::Bus;
use dxgkrnl::{Machine, PnpError};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use wddm_ddi::types::LUID;

/// Descriptor by which the removal of a function is noticed.
#[derive(Debug)]
pub(super) enum Sign {
    /// The other end of this socket goes, and the function with it.
    HangUp(OwnedFd),
    /// This eventfd is signalled when the function is wanted back. It may be there still, or be pulled out already.
    Request(OwnedFd),
}

impl Sign {
    /// The same sign for somebody else.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::HangUp(socket) => Self::HangUp(socket.try_clone()?),
            Self::Request(eventfd) => Self::Request(eventfd.try_clone()?),
        })
    }

    fn parts(&self) -> (&OwnedFd, PollFlags, PollFlags) {
        match self {
            // Answers make the socket readable as well; its end is told apart.
            Self::HangUp(socket) => (socket, PollFlags::RDHUP, PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR),
            Self::Request(eventfd) => (eventfd, PollFlags::IN, PollFlags::IN),
        }
    }
}

/// A thread that tells the machine when a function goes, until it is ended.
pub(super) struct RemovalWatch {
    stop: OwnedFd,
    /// True once the removal was noticed; the adapter's removal may still be in progress.
    seen: Arc<AtomicBool>,
    thread: Option<JoinHandle<Outcome>>,
}

/// What became of the adapter meanwhile; `None` if its function stayed.
pub(super) type Outcome = Option<Result<(), PnpError>>;

impl RemovalWatch {
    /// Watches for the sign that the function behind `bus` goes, of an adapter that has started.
    ///
    /// A function that was pulled out is a surprise removal. One that is there still is removed in order: whoever works with it loses its devices, as on
    /// an adapter that is disabled, and the driver stops a function that answers. [wdm: IRP_MN_REMOVE_DEVICE, IRP_MN_SURPRISE_REMOVAL]
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub(super) fn start(sign: Sign, bus: Arc<dyn Bus>, machine: Machine, luid: LUID) -> io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let stopped = stop.try_clone()?;
        let seen = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&seen);
        let watch = move || {
            is_seen(&sign, &stopped).then(|| {
                told.store(true, Ordering::Release);
                match matches!(sign, Sign::Request(_)) && bus.config_read(0, 4) != u32::MAX {
                    true => machine.remove(luid),
                    false => machine.surprise_remove(luid),
                }
            })
        };
        let thread = std::thread::Builder::new().name("removal watch".to_owned()).spawn(watch)?;
        Ok(Self { stop, seen, thread: Some(thread) })
    }

    /// True if the removal of the function was noticed.
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

impl Drop for RemovalWatch {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

/// Waits for a sign, and says whether it came before `stop`.
fn is_seen(sign: &Sign, stop: &OwnedFd) -> bool {
    let (descriptor, wanted, signs) = sign.parts();
    loop {
        let sign = PollFd::from_borrowed_fd(descriptor.as_fd(), wanted);
        let mut fds = [sign, PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return false,
        }
        let [sign, stop] = &fds;
        if !stop.revents().is_empty() {
            return false;
        }
        if sign.revents().intersects(signs) {
            return true;
        }
    }
}

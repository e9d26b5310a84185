//! Interrupt messages that come as eventfds, one for each vector.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use dxgkrnl::bus::InterruptSink;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

/// The thread that receives interrupt messages, until it is dropped.
pub(super) struct Listener {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// A counter that is zero and never waited for.
pub(super) fn new_eventfd() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

impl Listener {
    /// Hands each signal of an eventfd on as a message of the vector of its place.
    ///
    /// # Errors
    /// The system has no descriptor or no thread left.
    pub(super) fn start(eventfds: Vec<OwnedFd>, sink: Arc<dyn InterruptSink>) -> io::Result<Self> {
        let stop = Arc::new(new_eventfd()?);
        let stopped = Arc::clone(&stop);
        let run = move || listen(&eventfds, &stopped, &*sink);
        let thread = std::thread::Builder::new().name("interrupt messages".to_owned()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Fails only if the counter is full, which wakes the thread as well.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(eventfds: &[OwnedFd], stop: &OwnedFd, sink: &dyn InterruptSink) {
    loop {
        let all = eventfds.iter().chain([stop]);
        let mut fds: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        if fds.last().is_none_or(|stop| !stop.revents().is_empty()) {
            return;
        }
        for ((vector, eventfd), seen) in (0_u16..).zip(eventfds).zip(&fds) {
            if seen.revents().contains(PollFlags::IN) && rustix::io::read(eventfd, &mut [0; 8]) == Ok(8) {
                sink.message(vector);
            }
        }
    }
}

//! Interrupt messages that come as eventfds, one for each vector.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use dxgkrnl::bus::InterruptSink;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{ReadWriteFlags, preadv2};

/// The thread that receives interrupt messages, until it is dropped.
pub(super) struct Listener {
    source: Arc<Source>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// Eventfds, one for each vector, and where what they count goes.
struct Source {
    eventfds: Vec<OwnedFd>,
    sink: Arc<dyn InterruptSink>,
    /// Taken while counts are read and handed on.
    turn: Mutex<()>,
}

impl Source {
    /// Hands on what was counted until now. When this returns, nothing that was counted before is on its way.
    fn pass_on(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        for (vector, eventfd) in (0_u16..).zip(&self.eventfds) {
            if take_count(eventfd) {
                self.sink.message(vector);
            }
        }
    }
}

/// Takes what an eventfd has counted, if that is anything. Never waits: the process that signals it has it too, may make it block and may take its count away.
fn take_count(eventfd: &OwnedFd) -> bool {
    let mut count = [0; 8];
    // This offset stands for none.
    preadv2(eventfd, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT) == Ok(8)
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
        let source = Arc::new(Source { eventfds, sink, turn: Mutex::default() });
        let heard = Arc::clone(&source);
        let run = move || listen(&heard, &stopped);
        let thread = std::thread::Builder::new().name("interrupt messages".to_owned()).spawn(run)?;
        Ok(Self { source, stop, thread: Some(thread) })
    }

    /// Returns when everything that was signalled before has reached the sink.
    pub(super) fn settle(&self) {
        self.source.pass_on();
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

fn listen(source: &Source, stop: &OwnedFd) {
    loop {
        let all = source.eventfds.iter().chain([stop]);
        let mut fds: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        if fds.last().is_none_or(|stop| !stop.revents().is_empty()) {
            return;
        }
        source.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Counts([AtomicU64; 2]);

    impl InterruptSink for Counts {
        fn message(&self, vector: u16) {
            // Long enough that somebody who does not wait for it comes too early.
            std::thread::yield_now();
            if let Some(count) = self.0.get(usize::from(vector)) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    #[test]
    fn what_was_signalled_has_arrived_when_the_bus_is_settled() {
        let eventfds = [new_eventfd().unwrap(), new_eventfd().unwrap()];
        let copies = eventfds.iter().map(|fd| fd.try_clone().unwrap()).collect();
        let counts = Arc::new(Counts::default());
        let listener = Listener::start(copies, Arc::clone(&counts) as Arc<dyn InterruptSink>).unwrap();
        for round in 1..=2000 {
            for (eventfd, count) in eventfds.iter().zip(&counts.0) {
                rustix::io::write(eventfd, &1u64.to_ne_bytes()).unwrap();
                listener.settle();
                assert_eq!(count.load(Ordering::SeqCst), round);
            }
        }
    }

    #[test]
    fn nobody_who_signals_makes_the_listener_wait() {
        let eventfd = new_eventfd().unwrap();
        let theirs = eventfd.try_clone().unwrap();
        // Both are one file, whose flags are common to both.
        rustix::fs::fcntl_setfl(&theirs, rustix::fs::OFlags::empty()).unwrap();
        let counts = Arc::new(Counts::default());
        let listener = Listener::start(vec![eventfd], Arc::clone(&counts) as Arc<dyn InterruptSink>).unwrap();
        listener.settle();
        assert_eq!(counts.0[0].load(Ordering::SeqCst), 0);
        rustix::io::write(&theirs, &1u64.to_ne_bytes()).unwrap();
        listener.settle();
        assert_eq!(counts.0[0].load(Ordering::SeqCst), 1);
    }
}

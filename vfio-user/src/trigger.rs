//! Eventfds as a client hands them over.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use crate::announce::Announcer;

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
    ///
    /// The client shares the flag that keeps a write to a full counter from waiting, and can take it away and fill the counter at any moment:
    /// no look beforehand makes a write safe. So nothing is written where the kernel can be made to count.
    pub fn signal(&self) {
        static ANNOUNCER: OnceLock<Option<Announcer>> = OnceLock::new();
        match ANNOUNCER.get_or_init(|| Announcer::new().ok()) {
            Some(announcer) => announcer.signal(self.0.as_fd()),
            None => self.write(),
        }
    }

    /// The way of hosts whose kernel has no asynchronous I/O for us. A client that wants to can make it wait.
    fn write(&self) {
        let mut fds = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::OUT)];
        if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
            && fds[0].revents().contains(PollFlags::OUT)
        {
            let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    /// A client that takes the flag away and keeps the counter full.
    fn hostile() -> (OwnedFd, Trigger) {
        let ours = eventfd(0, EventfdFlags::empty()).unwrap();
        let trigger = Trigger::new(ours.try_clone().unwrap()).unwrap();
        rustix::fs::fcntl_setfl(&ours, OFlags::empty()).unwrap();
        rustix::io::write(&ours, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        (ours, trigger)
    }

    #[test]
    fn a_full_counter_that_blocks_holds_nobody() {
        let (ours, trigger) = hostile();
        let announcer = Announcer::new().expect("the kernel counts eventfds up for asynchronous I/O");
        // More than the kernel keeps reports for.
        for _ in 0..1000 {
            announcer.signal(trigger.0.as_fd());
        }
        let mut count = [0; 8];
        rustix::io::read(&ours, &mut count).unwrap();
        assert!(u64::from_ne_bytes(count) >= u64::MAX - 1);
        trigger.signal();
        rustix::io::read(&ours, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 1);
    }

    #[test]
    fn threads_that_signal_together_lose_nothing() {
        let ours = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let trigger = Trigger::new(ours.try_clone().unwrap()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..500).for_each(|_| trigger.signal()));
            }
        });
        let mut count = [0; 8];
        rustix::io::read(&ours, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 2000);
    }

    #[test]
    fn without_asynchronous_io_a_full_counter_is_left_alone() {
        let (_ours, trigger) = hostile();
        trigger.write();
    }
}

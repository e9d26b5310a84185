//! The places of the programs that a machine serves.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use remote::channel::Channel;
use remote::wire::Refusal;

/// Places that one process may have: its own, and those of the programs that it was before exec, until these have been taken down.
const OF_PROCESS: usize = 4;

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// The owner of each place: number of the process on the host, and its connection.
    by: BTreeMap<u64, (i32, Arc<Channel>)>,
}

/// All places.
#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: Mutex<Taken>,
    fewer: Condvar,
}

/// A place, which is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    number: u64,
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place of `limit` for a process.
    ///
    /// # Errors
    /// [`Refusal::Twice`] if the process has a connection that is open, or [`OF_PROCESS`] of them; [`Refusal::Full`].
    pub(super) fn take(self: &Arc<Self>, limit: usize, pid: i32, channel: &Arc<Channel>) -> Result<Seat, Refusal> {
        let mut taken = self.lock();
        let of_process = || taken.by.values().filter(|(other, _)| *other == pid);
        if of_process().count() >= OF_PROCESS || of_process().any(|(_, channel)| !channel.is_closed()) {
            return Err(Refusal::Twice);
        }
        if taken.by.len() >= limit {
            return Err(Refusal::Full);
        }
        let number = taken.next;
        taken.next += 1;
        taken.by.insert(number, (pid, Arc::clone(channel)));
        Ok(Seat { seats: Arc::clone(self), number })
    }

    /// Waits until nobody has a place.
    pub(super) fn wait_for_all(&self) {
        let mut taken = self.lock();
        while !taken.by.is_empty() {
            taken = self.fewer.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().by.remove(&self.number);
        self.seats.fewer.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (Arc<Channel>, Channel) {
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (Arc::new(Channel::new(one)), Channel::new(other))
    }

    #[test]
    fn a_process_has_one_place_and_another_one_only_after_it_has_closed_its_connection() {
        let seats = Arc::new(Seats::default());
        let (first, of_program) = pair();
        let (second, _open) = pair();
        let (third, _open) = pair();
        let _first = seats.take(3, 7, &first).expect("a place");
        assert_eq!(seats.take(3, 7, &second).err(), Some(Refusal::Twice));
        let other = seats.take(3, 8, &third).expect("a place of another process");
        drop(of_program);
        let _second = seats.take(3, 7, &second).expect("the first is closed");
        assert_eq!(seats.take(3, 9, &third).err(), Some(Refusal::Full));
        drop(other);
        let closed: Vec<_> = (0..OF_PROCESS).map(|_| pair().0).collect();
        let _all: Vec<_> = closed.iter().map(|closed| seats.take(64, 9, closed).expect("a place")).collect();
        assert_eq!(seats.take(64, 9, &third).err(), Some(Refusal::Twice), "no more before one is taken down");
    }
}

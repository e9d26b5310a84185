//! The places of the programs that a machine serves.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use remote::channel::Channel;
use remote::wire::Refusal;
use rustix::process::Pid;

use super::address_space::AddressSpace;
use super::stop::Stop;
use super::workers::{GivenUp, ITEMS};

/// Places that one process may have: its own, and those of the programs that it was before exec, until these have been taken down.
const OF_PROCESS: usize = 4;
/// Copies and calls that are given up and not at an end, each of which has a thread: while there are so many nobody gets a place. One program cannot have as many.
const GIVEN_UP_MAX: usize = 3 * ITEMS;

/// The owner of a place.
#[derive(Clone, Debug)]
struct Owner {
    pid: Pid,
    channel: Arc<Channel>,
    /// That of the process when it took the place; `None` if nobody has asked for it yet, or the host did not say.
    space: Option<Arc<AddressSpace>>,
    /// It is asked for nothing any more.
    has_left: bool,
}

impl Owner {
    /// True if the process has a connection still: it has not closed it, and has not become another program while somebody else has the socket.
    fn is_connected(&self) -> bool {
        !self.channel.is_closed() && self.space.as_ref().is_none_or(|space| space.is_there())
    }
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    by: BTreeMap<u64, Owner>,
    /// The machine ends, and all have left it with their memory.
    all_have_left: bool,
}

impl Taken {
    /// The places of a process.
    fn of(&self, pid: Pid) -> Vec<(u64, Owner)> {
        self.by.iter().filter(|(_, owner)| owner.pid == pid).map(|(number, owner)| (*number, owner.clone())).collect()
    }
}

/// All places.
#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: Mutex<Taken>,
    changed: Condvar,
    given_up: GivenUp,
    calls_given_up: GivenUp,
}

/// A place, which is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    number: u64,
    channel: Arc<Channel>,
    space: Option<Arc<AddressSpace>>,
}

impl Seat {
    /// The connection of its owner.
    pub(super) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// The threads of calls that programs have left behind.
    pub(super) fn calls_given_up(&self) -> &GivenUp {
        self.seats.calls_given_up()
    }

    /// The owner is asked for nothing any more. While the machine stops this returns when none of the others is either, and memory is left to all of them: what the end of a process makes of memory is
    /// seen by nobody.
    pub(super) fn leave(&self, stop: &Stop) {
        let mut taken = self.seats.lock();
        if let Some(owner) = taken.by.get_mut(&self.number) {
            owner.has_left = true;
        }
        self.seats.changed.notify_all();
        if stop.is_set() {
            drop(self.seats.changed.wait_while(taken, |taken| !taken.all_have_left));
        }
    }

    /// True once a look has found that the process is another program, or none. Nobody waits for the host: the look that this begins is seen by the next one.
    pub(super) fn is_left(&self) -> bool {
        self.space.as_ref().is_some_and(|space| !space.was_there())
    }
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place of `limit` for a process.
    ///
    /// # Errors
    /// [`Refusal::Twice`] if the process has a connection that is open, or [`OF_PROCESS`] of them; [`Refusal::Full`]; [`Refusal::Threads`] if
    /// [`GIVEN_UP_MAX`] copies and calls are given up.
    pub(super) fn take(
        self: &Arc<Self>,
        limit: usize,
        pid: Pid,
        channel: &Arc<Channel>,
        space: Option<Arc<AddressSpace>>,
    ) -> Result<Seat, Refusal> {
        if self.given_up.count() + self.calls_given_up.count() >= GIVEN_UP_MAX {
            return Err(Refusal::Threads);
        }
        let mut taken = self.lock();
        loop {
            // Looked at without the lock, since the host may take its time for the answer.
            let has = taken.of(pid);
            drop(taken);
            if has.len() >= OF_PROCESS || has.iter().any(|(_, owner)| owner.is_connected()) {
                return Err(Refusal::Twice);
            }
            taken = self.lock();
            if taken.of(pid).iter().all(|(number, _)| has.iter().any(|(known, _)| known == number)) {
                break;
            }
        }
        if taken.by.len() >= limit {
            return Err(Refusal::Full);
        }
        let number = taken.next;
        taken.next += 1;
        let channel = Arc::clone(channel);
        taken.by.insert(number, Owner { pid, channel: Arc::clone(&channel), space: space.clone(), has_left: false });
        Ok(Seat { seats: Arc::clone(self), number, channel, space })
    }

    /// While the machine stops: waits until all owners have left, has memory left to them by `leave_memory`, and lets their processes end.
    pub(super) fn leave_memory_to_all(&self, leave_memory: impl FnOnce()) {
        let taken = self.changed.wait_while(self.lock(), |taken| taken.by.values().any(|owner| !owner.has_left));
        drop(taken);
        // Also where leaving memory has panicked.
        let _lets_them_end = LetsEnd(self);
        leave_memory();
    }

    /// Waits until nobody has a place, and not longer than `limit`.
    pub(super) fn wait_for_all(&self, limit: Option<Duration>) {
        let (taken, waits) = (self.lock(), |taken: &mut Taken| !taken.by.is_empty());
        match limit {
            Some(limit) => drop(self.changed.wait_timeout_while(taken, limit, waits)),
            None => drop(self.changed.wait_while(taken, waits)),
        }
    }

    /// The copies that programs have left behind, in any of the places.
    pub(super) fn given_up(&self) -> GivenUp {
        self.given_up.clone()
    }

    /// The threads of calls that programs have left behind, in any of the places.
    pub(super) fn calls_given_up(&self) -> &GivenUp {
        &self.calls_given_up
    }
}

/// Lets the processes of those who have left end, when dropped.
struct LetsEnd<'a>(&'a Seats);

impl Drop for LetsEnd<'_> {
    fn drop(&mut self) {
        self.0.lock().all_have_left = true;
        self.0.changed.notify_all();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().by.remove(&self.number);
        self.seats.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::copies::Copies;
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (Arc<Channel>, Channel) {
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (Arc::new(Channel::new(one)), Channel::new(other))
    }

    /// A number that the host gives no process.
    fn pid(number: i32) -> Pid {
        Pid::from_raw(i32::MAX - number).unwrap()
    }

    #[test]
    fn a_process_has_one_place_and_another_one_only_after_it_has_closed_its_connection() {
        let seats = Arc::new(Seats::default());
        let (first, of_program) = pair();
        let (second, _open) = pair();
        let (third, _open) = pair();
        let _first = seats.take(3, pid(7), &first, None).expect("a place");
        assert_eq!(seats.take(3, pid(7), &second, None).err(), Some(Refusal::Twice));
        let other = seats.take(3, pid(8), &third, None).expect("a place of another process");
        drop(of_program);
        let _second = seats.take(3, pid(7), &second, None).expect("the first is closed");
        assert_eq!(seats.take(3, pid(9), &third, None).err(), Some(Refusal::Full));
        drop(other);
        let closed: Vec<_> = (0..OF_PROCESS).map(|_| pair().0).collect();
        let _all: Vec<_> = closed.iter().map(|closed| seats.take(64, pid(9), closed, None).expect("a place")).collect();
        assert_eq!(
            seats.take(64, pid(9), &third, None).err(),
            Some(Refusal::Twice),
            "no more before one is taken down"
        );
    }

    #[test]
    fn memory_is_left_when_all_programs_of_a_machine_that_stops_have_left_and_before_the_first_process_ends() {
        let (seats, stop) = (Arc::new(Seats::default()), Stop::new().unwrap());
        let channels = [pair(), pair(), pair()];
        let [gone, first, last] = [0, 1, 2].map(|number| {
            let (channel, _) = &channels[number];
            seats.take(3, pid(number as i32), channel, None).expect("a place")
        });
        // One that ends before: nobody waits for it.
        gone.leave(&stop);
        stop.stop();
        let log = Mutex::new(Vec::new());
        let note = |what| log.lock().unwrap().push(what);
        let leaves = |seat: Seat| {
            seat.leave(&stop);
            note("a process ends");
        };
        std::thread::scope(|scope| {
            scope.spawn(|| leaves(first));
            scope.spawn(|| {
                seats.leave_memory_to_all(|| note("memory is left"));
                seats.wait_for_all(None);
                note("nobody is served");
            });
            let waits = || seats.lock().by.values().filter(|owner| owner.has_left).count() < 2;
            while waits() && log.lock().unwrap().is_empty() {
                std::thread::yield_now();
            }
            note("the last one leaves");
            leaves(last);
            drop(gone);
        });
        assert_eq!(
            log.into_inner().unwrap(),
            ["the last one leaves", "memory is left", "a process ends", "a process ends", "nobody is served"]
        );
    }

    #[test]
    fn nobody_gets_a_place_while_too_many_copies_wait_that_programs_have_left_behind() {
        let seats = Arc::new(Seats::default());
        let (channel, _open) = pair();
        let programs: Vec<_> = (0..GIVEN_UP_MAX / ITEMS).map(|_| Copies::new(seats.given_up.clone())).collect();
        let (answer, answered) = mpsc::channel::<()>();
        let answered = Arc::new(Mutex::new(answered));
        for copies in programs.iter().flat_map(|copies| std::iter::repeat_n(copies, ITEMS)) {
            let answered = Arc::clone(&answered);
            let waits = move || {
                let _ = answered.lock().unwrap().recv();
                Ok(())
            };
            assert!(copies.make(Duration::ZERO, waits).is_none());
        }
        drop(seats.take(1, pid(7), &channel, None).expect("none is given up"));
        programs.iter().for_each(Copies::give_up);
        assert_eq!(seats.take(1, pid(7), &channel, None).err(), Some(Refusal::Threads));
        drop(answer);
        assert!(programs.iter().all(|copies| copies.left_after(Duration::from_secs(60)) == 0));
        drop(seats.take(1, pid(7), &channel, None).expect("all are at an end"));
    }
}

//! Those who have connected and not said hello yet. They have no thread of the machine, and no place of a program.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use remote::channel::Channel;
use remote::wire::Refusal;
use rustix::process::Pid;

use super::limits::ANSWER_LIMIT;

/// Most at a time; the one who has waited longest goes when there is one more.
pub(super) const ARRIVALS: usize = 64;

/// Somebody who has connected.
pub(super) struct Arrival {
    pub(super) channel: Channel,
    pub(super) pid: Pid,
    until: Instant,
}

impl Arrival {
    pub(super) fn new(channel: Channel, pid: Pid) -> Self {
        Self { channel, pid, until: Instant::now() + ANSWER_LIMIT }
    }
}

/// All of them, in the order in which they came.
#[derive(Default)]
pub(super) struct Arrivals(VecDeque<Arrival>);

impl Arrivals {
    /// Adds somebody. The answer is the connection that is not waited for any more, and why: an earlier connection of the same process, or the one that has waited longest if there
    /// are too many.
    pub(super) fn add(&mut self, arrival: Arrival) -> Option<(Arrival, Refusal)> {
        let same = self.0.iter().position(|earlier| earlier.pid == arrival.pid).map(|place| (place, Refusal::NoHello));
        let goes = same.or((self.0.len() >= ARRIVALS).then_some((0, Refusal::Crowded)));
        let gone = goes.and_then(|(place, why)| Some((self.0.remove(place)?, why)));
        self.0.push_back(arrival);
        gone
    }

    /// Their descriptors, in their order.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|arrival| arrival.channel.as_fd())
    }

    /// Takes the one at a place, which has said something.
    pub(super) fn take(&mut self, place: usize) -> Option<Arrival> {
        self.0.remove(place)
    }

    /// How long to wait for the first of them; `None` if there is none.
    pub(super) fn time_limit(&self) -> Option<Duration> {
        self.0.front().map(|first| first.until.saturating_duration_since(Instant::now()))
    }

    /// Takes one that has said nothing for [`ANSWER_LIMIT`].
    pub(super) fn take_late(&mut self) -> Option<Arrival> {
        self.0.pop_front_if(|first| first.until <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(pid: i32) -> Arrival {
        Arrival::new(Channel::new(remote::channel::socket().unwrap()), Pid::from_raw(pid).unwrap())
    }

    #[test]
    fn a_process_has_one_connection_that_has_not_said_hello_and_the_oldest_goes_when_there_are_too_many() {
        let mut arrivals = Arrivals::default();
        assert!((1..=ARRIVALS as i32).all(|pid| arrivals.add(arrival(pid)).is_none()));
        let gone = |gone: Option<(Arrival, _)>| gone.map(|(arrival, why)| (arrival.pid.as_raw_nonzero().get(), why));
        assert_eq!(gone(arrivals.add(arrival(7))), Some((7, Refusal::NoHello)), "its own earlier one");
        assert_eq!(gone(arrivals.add(arrival(1000))), Some((1, Refusal::Crowded)));
        assert_eq!(gone(arrivals.add(arrival(1001))), Some((2, Refusal::Crowded)));
        assert_eq!(arrivals.descriptors().count(), ARRIVALS);
        assert!(arrivals.time_limit() > Some(Duration::ZERO) && arrivals.take_late().is_none());
    }
}

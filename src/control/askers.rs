//! The clients that are connected to the control socket of a machine.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Askers at a time. One more takes the place of the one that has been silent for longest.
pub(super) const ASKERS_MAX: usize = 16;

struct Asker {
    stream: UnixStream,
    /// When it was connected or its last answer was there, in the order of such events; `None` while an answer is made.
    silent_since: Option<u64>,
    /// It was closed for another one, and its thread is about to end.
    closed: bool,
}

#[derive(Default)]
struct Known {
    next: u64,
    askers: BTreeMap<u64, Asker>,
}

impl Known {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Closes the connection that has been silent for longest. False if all are answered.
    fn close_most_silent(&mut self) -> bool {
        let silent = self.askers.values_mut().filter(|asker| !asker.closed && asker.silent_since.is_some());
        let Some(asker) = silent.min_by_key(|asker| asker.silent_since) else { return false };
        asker.closed = true;
        // It fails for an asker that is gone, which is closed as well.
        let _ = asker.stream.shutdown(Shutdown::Both);
        true
    }
}

/// All askers.
#[derive(Default)]
pub(super) struct Askers(Mutex<Known>);

/// An asker that may ask; it has gone when this is dropped.
pub(super) struct Place<'a> {
    askers: &'a Askers,
    number: u64,
}

impl Askers {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a client that has connected; `None` if so many are being answered, or the host has no descriptor left.
    pub(super) fn admit(&self, stream: &UnixStream) -> Option<Place<'_>> {
        let stream = stream.try_clone().ok()?;
        let mut known = self.lock();
        let open = known.askers.values().filter(|asker| !asker.closed).count();
        // Those who were closed have their threads until these notice.
        if known.askers.len() >= 2 * ASKERS_MAX || open >= ASKERS_MAX && !known.close_most_silent() {
            return None;
        }
        let number = known.next();
        known.askers.insert(number, Asker { stream, silent_since: Some(number), closed: false });
        Some(Place { askers: self, number })
    }

    /// Closes all connections.
    pub(super) fn close(&self) {
        for asker in self.lock().askers.values() {
            let _ = asker.stream.shutdown(Shutdown::Both);
        }
    }
}

impl Place<'_> {
    /// Makes an answer, during which the place is not taken away.
    pub(super) fn answering<T>(&self, answer: impl FnOnce() -> T) -> T {
        self.set(|_| None);
        let answered = answer();
        self.set(|known| Some(known.next()));
        answered
    }

    fn set(&self, since: impl FnOnce(&mut Known) -> Option<u64>) {
        let mut known = self.askers.lock();
        let since = since(&mut known);
        if let Some(asker) = known.askers.get_mut(&self.number) {
            asker.silent_since = since;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.askers.lock().askers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn is_closed(mut stream: &UnixStream) -> bool {
        stream.set_nonblocking(true).unwrap();
        matches!(stream.read(&mut [0]), Ok(0))
    }

    #[test]
    fn one_more_takes_the_place_of_the_most_silent_and_nobody_that_is_answered_is_closed() {
        let askers = Askers::default();
        let pairs: Vec<_> = (0..=ASKERS_MAX).map(|_| UnixStream::pair().unwrap()).collect();
        let admit = |place: usize| askers.admit(&pairs[place].0);
        let mut places: Vec<_> = (0..ASKERS_MAX).map(|place| admit(place).expect("a place")).collect();
        // The first one asks, so that the second has been silent for longest.
        places[0].answering(|| ());
        let last = admit(ASKERS_MAX).expect("a place");
        let closed: Vec<usize> = (0..=ASKERS_MAX).filter(|place| is_closed(&pairs[*place].1)).collect();
        assert_eq!(closed, [1]);
        drop((places.remove(1), last));
        places.push(admit(ASKERS_MAX).expect("a place"));
        // Each is being answered: nobody is evicted.
        fn all<T>(places: &[Place<'_>], then: &mut dyn FnMut() -> T) -> T {
            match places.split_first() {
                Some((first, rest)) => first.answering(|| all(rest, then)),
                None => then(),
            }
        }
        assert!(all(&places, &mut || admit(0).is_none()));
    }
}

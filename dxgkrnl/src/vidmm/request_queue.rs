//! The order of requests that need the memory of processes with work: only the first one has such a process suspended.

use std::collections::VecDeque;
use std::sync::Arc;

use nt::lock::{Mutex, lock};

/// The requests of the queue, by number.
#[derive(Default)]
struct Numbers {
    next: u64,
    numbers: VecDeque<u64>,
}

/// The requests that wait for memory, in the order in which they are served.
#[derive(Default)]
pub(crate) struct RequestQueue(Arc<Mutex<Numbers>>);

/// A place in the queue of requests, given up when dropped.
pub(crate) struct QueuePlace {
    queue: Arc<Mutex<Numbers>>,
    number: u64,
}

impl QueuePlace {
    /// True for the first request of the queue, the only one that may have processes with work suspended.
    pub(crate) fn is_first(&self) -> bool {
        lock(&self.queue).numbers.front() == Some(&self.number)
    }

    /// Lets every other request of the queue go first.
    pub(crate) fn move_to_the_end(&self) {
        let mut queue = lock(&self.queue);
        queue.numbers.retain(|number| *number != self.number);
        queue.numbers.push_back(self.number);
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        lock(&self.queue).numbers.retain(|number| *number != self.number);
    }
}

impl RequestQueue {
    /// True if no request waits for the memory of processes with work.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).numbers.is_empty()
    }

    /// A place at the end of the queue.
    pub(crate) fn enqueue(&self) -> QueuePlace {
        let mut queue = lock(&self.0);
        queue.next += 1;
        let number = queue.next;
        queue.numbers.push_back(number);
        QueuePlace { queue: Arc::clone(&self.0), number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_served_in_order_and_one_that_is_moved_to_the_end_is_last() {
        let queue = RequestQueue::default();
        let places: Vec<QueuePlace> = (0..3).map(|_| queue.enqueue()).collect();
        let first = |places: &[QueuePlace]| places.iter().map(QueuePlace::is_first).collect::<Vec<_>>();
        assert_eq!(first(&places), [true, false, false]);
        places[0].move_to_the_end();
        assert_eq!(first(&places), [false, true, false]);
        let mut places = places;
        drop(places.remove(1));
        assert_eq!(first(&places), [false, true]);
        drop(places.remove(1));
        assert_eq!(first(&places), [true]);
    }
}

//! Threads that do what one program asks for: one for each item that is under way.
//!
//! An item that waits, for a fence or for memory, keeps its thread and nothing else: others go on beside it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Items of one kind that may be under way at a time for one program: calls, of which a further one is answered STATUS_INSUFFICIENT_RESOURCES, and copies.
pub(super) const ITEMS: usize = 1024;
/// Threads that wait for items; further ones end.
const IDLE: usize = 4;

/// Items that were given up and are under way still: of all programs of a machine, also of those that have ended.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenUp(Arc<AtomicUsize>);

impl GivenUp {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn add(&self, count: usize) {
        self.0.fetch_add(count, Ordering::AcqRel);
    }

    pub(super) fn remove_one(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Waiting<T> {
    items: VecDeque<T>,
    threads: usize,
    idle: usize,
    closed: bool,
    /// Counts the threads that nobody waits for any more; `None` while they are waited for.
    given_up: Option<GivenUp>,
}

/// The threads of one program for one kind of item.
pub(super) struct Workers<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Condvar,
    /// Name of the threads, of which the host keeps 15 bytes.
    name: &'static str,
    make: Box<dyn Fn(T) + Send + Sync>,
}

impl<T: Send + 'static> Workers<T> {
    /// Threads that do `make` with each item.
    pub(super) fn new(name: &'static str, make: Box<dyn Fn(T) + Send + Sync>) -> Arc<Self> {
        let waiting = Waiting { items: VecDeque::new(), threads: 0, idle: 0, closed: false, given_up: None };
        Arc::new(Self { waiting: Mutex::new(waiting), changed: Condvar::new(), name, make })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has an item made. False if too many are under way, or the host has no thread left.
    pub(super) fn add(self: &Arc<Self>, item: T) -> bool {
        let mut waiting = self.lock();
        if waiting.idle > waiting.items.len() {
            waiting.items.push_back(item);
            drop(waiting);
            self.changed.notify_one();
            return true;
        }
        if waiting.threads >= ITEMS {
            return false;
        }
        waiting.threads += 1;
        drop(waiting);
        // Without a thread it is dropped where it is.
        let counted = Counted(Arc::clone(self));
        thread::Builder::new().name(self.name.to_owned()).spawn(move || counted.0.run(item)).is_ok()
    }

    fn run(&self, first: T) {
        let mut next = Some(first);
        while let Some(item) = next {
            (self.make)(item);
            next = self.next();
        }
    }

    fn next(&self) -> Option<T> {
        let mut waiting = self.lock();
        if waiting.idle >= IDLE {
            return waiting.items.pop_front();
        }
        waiting.idle += 1;
        while waiting.items.is_empty() && !waiting.closed {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.idle -= 1;
        waiting.items.pop_front()
    }

    /// Has threads end that have nothing to do, now and later.
    pub(super) fn let_go(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Number of items that are under way, once there is none or so much time has passed. Called after [`Workers::let_go`].
    pub(super) fn left_after(&self, limit: Duration) -> usize {
        let waited = self.changed.wait_timeout_while(self.lock(), limit, |waiting| waiting.threads != 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.threads
    }

    /// Nobody waits for the items that are under way any more; each is counted until it ends. The answer is how many they are.
    pub(super) fn give_up(&self, given_up: &GivenUp) -> usize {
        let mut waiting = self.lock();
        given_up.add(waiting.threads);
        waiting.given_up = Some(given_up.clone());
        waiting.threads
    }
}

/// A thread that is counted until this is dropped, also by a panic.
struct Counted<T: Send + 'static>(Arc<Workers<T>>);

impl<T: Send + 'static> Drop for Counted<T> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.threads -= 1;
        waiting.given_up.iter().for_each(GivenUp::remove_one);
        drop(waiting);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// All items end.
    fn close<T: Send + 'static>(workers: &Workers<T>) {
        workers.let_go();
        assert_eq!(workers.left_after(LONG), 0);
    }

    #[test]
    fn items_are_made_beside_one_that_waits_and_all_of_them_before_the_end() {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (released, made) = (Mutex::new(released), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&made);
        let (tell, told) = std::sync::mpsc::channel();
        let workers = Workers::new(
            "item",
            Box::new(move |item: u64| {
                if item == 0 {
                    released.lock().unwrap().recv().unwrap();
                }
                count.fetch_add(1, Ordering::SeqCst);
                tell.send(item).unwrap();
            }),
        );
        assert!((0..100).all(|id| workers.add(id)));
        let mut first: Vec<u64> = told.iter().take(99).collect();
        first.sort_unstable();
        assert_eq!(first, (1..100).collect::<Vec<_>>());
        release.send(()).unwrap();
        close(&workers);
        assert_eq!(made.load(Ordering::SeqCst), 100);
    }

    #[test]
    fn an_item_that_panics_holds_nobody_up() {
        let workers = Workers::new("item", Box::new(|item: u64| assert_ne!(item, 1, "on purpose")));
        assert!((0..3).all(|id| workers.add(id)));
        close(&workers);
        assert_eq!(workers.lock().threads, 0);
    }

    #[test]
    fn items_that_do_not_end_are_given_up_and_counted_until_they_do() {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = Mutex::new(released);
        let waits = move |item: u64| {
            if item < 2 {
                let _ = released.lock().unwrap().recv();
            }
        };
        let (workers, given_up) = (Workers::new("item", Box::new(waits)), GivenUp::default());
        assert!((0..2).all(|id| workers.add(id)));
        workers.let_go();
        assert_eq!(workers.left_after(Duration::from_millis(1)), 2);
        assert_eq!((workers.give_up(&given_up), given_up.count()), (2, 2));
        drop(release);
        close(&workers);
        assert_eq!(given_up.count(), 0);
    }

    #[test]
    fn more_items_than_may_be_under_way_are_refused() {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let waits = Arc::clone(&gate);
        let workers = Workers::new(
            "item",
            Box::new(move |_: u64| {
                let mut open = waits.0.lock().unwrap();
                while !*open {
                    open = waits.1.wait(open).unwrap();
                }
            }),
        );
        assert_eq!((0..ITEMS as u64 + 8).filter(|id| workers.add(*id)).count(), ITEMS);
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        close(&workers);
    }
}

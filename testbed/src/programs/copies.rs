//! Copies from and to memory of a program, and other accesses to its process, for which somebody else may have to answer.
//!
//! The host waits for a page as long as it takes the one who answers for it, which another process may be that does not (userfaultfd, FUSE); and for a process that is becoming another
//! program, which may wait for a file of such a one to be closed. Of a thread nothing ends such a wait but the end of its process.
//! So a copy is made by a thread that holds nothing, from and to bytes of its own, and can be given up by the one who wants it. Whatever else asks the host for something of a program is made likewise.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use super::limits::{LOOK, looks_of};
use super::threads;
use super::workers::{GivenUp, Workers};

/// Makes a copy; called once.
type Act = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// What a look counts at a copy whose thread waits for somebody. One that has a processor, or waits for one, gets on, and has so many times as long: not for ever, whatever the host does for it.
const WHOLE_LOOK: u32 = 4;

/// The state of one copy.
enum State {
    UnderWay,
    Made(io::Result<()>),
    /// Nobody wants it any more. It may be under way still.
    GivenUp,
}

/// A copy from or to memory of a program.
struct Copy {
    state: Mutex<State>,
    changed: Condvar,
    /// Number of the thread that makes it; 0 until one does.
    made_by: AtomicI32,
}

impl Copy {
    fn new() -> Self {
        let (state, changed) = (Mutex::new(State::UnderWay), Condvar::new());
        Self { state, changed, made_by: AtomicI32::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a look at it that finds it under way counts, of [`WHOLE_LOOK`].
    fn counts(&self) -> u32 {
        match self.made_by.load(Ordering::Acquire) {
            0 => 0,
            thread if threads::runs(thread) => 1,
            _ => WHOLE_LOOK,
        }
    }

    /// Waits for it so long at most, from when a thread makes it on; `None` if that was not enough. Counted are looks at it, and less while that thread has no processor.
    fn wait(&self, limit: Duration) -> Option<io::Result<()>> {
        let (mut state, mut left) = (self.lock(), WHOLE_LOOK * looks_of(limit));
        while left > 0 && matches!(*state, State::UnderWay) {
            let waited = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            left = left.saturating_sub(if waited.1.timed_out() { self.counts() } else { 0 });
        }
        match std::mem::replace(&mut *state, State::GivenUp) {
            State::Made(made) => Some(made),
            State::GivenUp => Some(Err(io::Error::from_raw_os_error(libc::EFAULT))),
            State::UnderWay => {
                *state = State::UnderWay;
                None
            }
        }
    }
}

/// Copies of one program that are under way, by number.
#[derive(Default)]
struct UnderWay {
    next: u64,
    copies: BTreeMap<u64, Arc<Copy>>,
    closed: bool,
}

/// State that the copying threads share with those who want copies.
struct Shared {
    under_way: Mutex<UnderWay>,
    fewer: Condvar,
    given_up: GivenUp,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy is made, or will not be.
    fn end(&self, number: u64, made: io::Result<()>) {
        let mut under_way = self.lock();
        if let Some(copy) = under_way.copies.remove(&number) {
            let mut state = copy.lock();
            if matches!(*state, State::UnderWay) {
                *state = State::Made(made);
            } else {
                self.given_up.remove_one();
            }
            drop(state);
            copy.changed.notify_all();
        }
        drop(under_way);
        self.fewer.notify_all();
    }
}

/// The copies of one program.
pub(super) struct Copies {
    shared: Arc<Shared>,
    workers: Arc<Workers<(u64, Arc<Copy>, Act)>>,
}

impl Copies {
    pub(super) fn new(given_up: GivenUp) -> Self {
        let shared = Arc::new(Shared { under_way: Mutex::default(), fewer: Condvar::new(), given_up });
        let of_threads = Arc::clone(&shared);
        let make = move |(number, copy, act): (u64, Arc<Copy>, Act)| {
            copy.made_by.store(threads::this(), Ordering::Release);
            of_threads.end(number, act());
        };
        Self { shared, workers: Workers::new("program's copy", Box::new(make)) }
    }

    /// Makes a copy, and waits so long at most for what it answers; `None` if that was not enough, when it is under way still.
    ///
    /// # Errors
    /// What the copy comes to, or EFAULT if it is given up; ENOMEM if the host has no thread for it.
    pub(super) fn make<T: Send + 'static>(
        &self,
        limit: Duration,
        act: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Option<io::Result<T>> {
        let (of_thread, answered) = mpsc::sync_channel(1);
        let made = self.make_boxed(
            limit,
            Box::new(move || {
                // Nobody wants the answer of one that was given up.
                let _ = of_thread.send(act()?);
                Ok(())
            }),
        );
        made.map(|made| made.and_then(|()| answered.recv().map_err(io::Error::other)))
    }

    fn make_boxed(&self, limit: Duration, act: Act) -> Option<io::Result<()>> {
        let copy = Arc::new(Copy::new());
        let number = {
            let mut under_way = self.shared.lock();
            if under_way.closed {
                return Some(Err(io::Error::from_raw_os_error(libc::EFAULT)));
            }
            under_way.next += 1;
            let number = under_way.next;
            under_way.copies.insert(number, Arc::clone(&copy));
            number
        };
        if !self.workers.add((number, Arc::clone(&copy), act)) {
            self.shared.end(number, Err(io::Error::from_raw_os_error(libc::ENOMEM)));
        }
        copy.wait(limit)
    }

    /// Nobody wants a copy any more, neither those that are under way nor later ones.
    pub(super) fn give_up(&self) {
        let mut under_way = self.shared.lock();
        under_way.closed = true;
        for copy in under_way.copies.values() {
            let mut state = copy.lock();
            if matches!(*state, State::UnderWay) {
                *state = State::GivenUp;
                self.shared.given_up.add(1);
            }
            drop(state);
            copy.changed.notify_all();
        }
        drop(under_way);
        self.workers.let_go();
    }

    /// Number of copies that are under way, once there is none or so much time has passed.
    pub(super) fn left_after(&self, limit: Duration) -> usize {
        let waits = |under_way: &mut UnderWay| !under_way.copies.is_empty();
        let waited = self.shared.fewer.wait_timeout_while(self.shared.lock(), limit, waits);
        waited.unwrap_or_else(PoisonError::into_inner).0.copies.len()
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_copy_that_does_not_end_is_given_up_and_counted_until_it_does() {
        let given_up = GivenUp::default();
        let copies = Copies::new(given_up.clone());
        assert_eq!(copies.make(LONG, || Ok(7)).unwrap().unwrap(), 7, "others end by themselves");
        let (answer, answered) = mpsc::channel::<()>();
        let waits = move || {
            let _ = answered.recv();
            Ok(())
        };
        assert!(copies.make(Duration::ZERO, waits).is_none());
        assert_eq!((copies.left_after(Duration::ZERO), given_up.count()), (1, 0));
        copies.give_up();
        assert_eq!((copies.left_after(Duration::ZERO), given_up.count()), (1, 1));
        let later = copies.make(LONG, || Ok(7)).unwrap();
        assert_eq!(later.unwrap_err().raw_os_error(), Some(libc::EFAULT), "nobody wants one any more");
        drop(answer);
        assert_eq!((copies.left_after(LONG), given_up.count()), (0, 0));
    }

    /// The thread that is to make it waits for a processor.
    #[test]
    fn a_copy_that_no_thread_has_begun_is_not_late() {
        let copy = Copy::new();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| copy.wait(LOOK));
            std::thread::sleep(4 * LOOK);
            *copy.lock() = State::Made(Ok(()));
            copy.changed.notify_all();
            waits.join().unwrap().expect("it was waited for").unwrap();
        });
        let copy = Copy::new();
        copy.made_by.store(-1, Ordering::Release);
        assert!(copy.wait(LOOK).is_none());
    }

    #[test]
    fn whoever_waits_for_a_copy_that_is_given_up_goes_on() {
        let copies = Copies::new(GivenUp::default());
        let (begin, began) = mpsc::channel();
        let (answer, answered) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let waits = move || {
                    let _ = begin.send(());
                    let _ = answered.recv();
                    Ok(())
                };
                copies.make(LONG, waits)
            });
            began.recv().unwrap();
            copies.give_up();
            let made = waiting.join().unwrap().expect("in time");
            assert_eq!(made.unwrap_err().raw_os_error(), Some(libc::EFAULT));
        });
        drop(answer);
    }
}

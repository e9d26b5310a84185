//! Threads that make a program's calls: one for each call that is under way.
//!
//! A call that waits, for a fence or for memory, keeps its thread and nothing else: others go on beside it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use remote::wire::Call;

/// Calls of one program that may be under way at a time; a further one is answered STATUS_INSUFFICIENT_RESOURCES.
pub(super) const CALLS: usize = 1024;
/// Threads that wait for calls; further ones end.
const IDLE: usize = 4;

#[derive(Default)]
struct Waiting {
    calls: VecDeque<Call>,
    threads: usize,
    idle: usize,
    closed: bool,
}

/// The threads of one program.
pub(super) struct Calls {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    make: Box<dyn Fn(Call) + Send + Sync>,
}

impl Calls {
    /// Threads that do `make` with each call.
    pub(super) fn new(make: Box<dyn Fn(Call) + Send + Sync>) -> Arc<Self> {
        Arc::new(Self { waiting: Mutex::default(), changed: Condvar::new(), make })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a call made. False if too many are under way, or the host has no thread left.
    pub(super) fn add(self: &Arc<Self>, call: Call) -> bool {
        let mut waiting = self.lock();
        if waiting.idle > waiting.calls.len() {
            waiting.calls.push_back(call);
            drop(waiting);
            self.changed.notify_one();
            return true;
        }
        if waiting.threads >= CALLS {
            return false;
        }
        waiting.threads += 1;
        drop(waiting);
        // Without a thread it is dropped where it is.
        let counted = Counted(Arc::clone(self));
        thread::Builder::new().name("program's call".to_owned()).spawn(move || counted.0.run(call)).is_ok()
    }

    fn run(&self, first: Call) {
        let mut next = Some(first);
        while let Some(call) = next {
            (self.make)(call);
            next = self.next();
        }
    }

    fn next(&self) -> Option<Call> {
        let mut waiting = self.lock();
        if waiting.idle >= IDLE {
            return waiting.calls.pop_front();
        }
        waiting.idle += 1;
        while waiting.calls.is_empty() && !waiting.closed {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.idle -= 1;
        waiting.calls.pop_front()
    }

    /// Takes no more calls, and returns when none is under way.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        self.changed.notify_all();
        while waiting.threads > 0 {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A thread that is counted until this is dropped, also by a panic.
struct Counted(Arc<Calls>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.lock().threads -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn call(id: u64) -> Call {
        Call { id, thunk: 0, caller: 0, arguments: [0; 5] }
    }

    #[test]
    fn calls_run_beside_one_that_waits_and_all_are_made_before_the_end() {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (released, made) = (Mutex::new(released), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&made);
        let (tell, told) = std::sync::mpsc::channel();
        let calls = Calls::new(Box::new(move |call| {
            if call.id == 0 {
                released.lock().unwrap().recv().unwrap();
            }
            count.fetch_add(1, Ordering::SeqCst);
            tell.send(call.id).unwrap();
        }));
        assert!((0..100).all(|id| calls.add(call(id))));
        let mut first: Vec<u64> = told.iter().take(99).collect();
        first.sort_unstable();
        assert_eq!(first, (1..100).collect::<Vec<_>>());
        release.send(()).unwrap();
        calls.close();
        assert_eq!(made.load(Ordering::SeqCst), 100);
    }

    #[test]
    fn a_call_that_panics_holds_nobody_up() {
        let calls = Calls::new(Box::new(|call| assert_ne!(call.id, 1, "on purpose")));
        assert!((0..3).all(|id| calls.add(call(id))));
        calls.close();
        assert_eq!(calls.lock().threads, 0);
    }

    #[test]
    fn more_calls_than_may_be_under_way_are_refused() {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let waits = Arc::clone(&gate);
        let calls = Calls::new(Box::new(move |_| {
            let mut open = waits.0.lock().unwrap();
            while !*open {
                open = waits.1.wait(open).unwrap();
            }
        }));
        assert_eq!((0..CALLS as u64 + 8).filter(|id| calls.add(call(*id))).count(), CALLS);
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        calls.close();
    }
}

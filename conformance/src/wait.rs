//! Waiting for what must happen.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crate::Failure;

/// How long something that must happen may take, on a machine busy with other things.
const LIMIT: Duration = Duration::from_secs(20);

/// Time limit of a wait once the machine has stopped with a bug check, after which most of what is waited for cannot happen.
const LIMIT_AFTER_STOP: Duration = Duration::from_secs(1);

thread_local! {
    /// True once the machine has stopped on which the case of this thread runs.
    static HAS_STOPPED: RefCell<Option<Box<dyn Fn() -> bool>>> = const { RefCell::new(None) };
}

/// Does `work`, whose waits on this thread end soon after `has_stopped`: on a machine that has stopped, most of what they wait for never happens.
#[cfg(feature = "inside")]
pub(crate) fn on_machine<R>(has_stopped: impl Fn() -> bool + 'static, work: impl FnOnce() -> R) -> R {
    /// Lets go of the machine also when the work panics.
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            HAS_STOPPED.replace(None);
        }
    }
    HAS_STOPPED.replace(Some(Box::new(has_stopped)));
    let _ends = Ends;
    work()
}

/// What threads wait for at the moment, in words, the innermost wait of a thread last.
static WAITS: Mutex<Vec<(ThreadId, String)>> = Mutex::new(Vec::new());

/// The calling thread waits for something until this is dropped.
pub(crate) struct Wait;

impl Wait {
    pub(crate) fn new(what: String) -> Self {
        let this = std::thread::current().id();
        WAITS.lock().unwrap_or_else(PoisonError::into_inner).push((this, what));
        Self
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let this = std::thread::current().id();
        let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = waits.iter().rposition(|(thread, _)| *thread == this) {
            waits.remove(place);
        }
    }
}

/// What a thread waits for at the moment, in words.
#[cfg(feature = "inside")]
pub(crate) fn awaited_by(thread: ThreadId) -> Option<String> {
    let waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
    waits.iter().rfind(|(waiting, _)| *waiting == thread).map(|(_, what)| what.clone())
}

/// Waits until `done`; says `what` never happened otherwise.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) -> Result<(), Failure> {
    let started = Instant::now();
    let mut stopped = None;
    let mut looks = Looks::default();
    let mut told = None;
    while !done() {
        if looks.are_long() {
            told.get_or_insert_with(|| Wait::new(what.to_owned()));
        }
        if started.elapsed() > LIMIT {
            return Err(Failure::new(format!("{what} did not happen within {} s", LIMIT.as_secs())));
        }
        if HAS_STOPPED.with_borrow(|has_stopped| has_stopped.as_ref().is_some_and(|has_stopped| has_stopped()))
            && stopped.get_or_insert_with(Instant::now).elapsed() > LIMIT_AFTER_STOP
        {
            return Err(Failure::new(format!("{what} did not happen")));
        }
        looks.pause();
    }
    Ok(())
}

/// Pauses between two looks at what another thread is about to do: short ones at first, then such that leave the processor to that thread.
#[derive(Default)]
pub(crate) struct Looks(u32);

impl Looks {
    /// Looks after which the pauses are longer.
    const SHORT: u32 = 20;
    /// A long pause.
    const PAUSE: Duration = Duration::from_micros(50);

    /// True once the pauses are long.
    fn are_long(&self) -> bool {
        self.0 > Self::SHORT
    }

    pub(crate) fn pause(&mut self) {
        self.0 = self.0.saturating_add(1);
        if !self.are_long() {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Self::PAUSE);
        }
    }
}

#[cfg(all(test, feature = "inside"))]
mod tests {
    use super::*;

    #[test]
    fn a_wait_on_a_machine_that_has_stopped_ends_soon_and_what_has_happened_counts() {
        let started = Instant::now();
        let failure = on_machine(|| true, || wait_until("the end of the world", || false)).unwrap_err();
        assert_eq!(failure.to_string(), "the end of the world did not happen");
        assert!(started.elapsed() < LIMIT, "the wait took as long as on a machine that goes on");
        assert!(on_machine(|| true, || wait_until("what has happened", || true)).is_ok());
    }

    #[test]
    fn what_a_thread_waits_for_is_known_while_it_does() {
        let this = std::thread::current().id();
        let is_told = || awaited_by(this).is_some_and(|what| what == "a word from itself");
        wait_until("a word from itself", is_told).unwrap();
        let _outer = Wait::new("the outer one".to_owned());
        wait_until("a word from itself", is_told).unwrap();
        assert_eq!(awaited_by(this).as_deref(), Some("the outer one"));
        std::thread::scope(|scope| scope.spawn(|| wait_until("nothing", || true).unwrap()).join().unwrap());
        drop(_outer);
        assert_eq!(awaited_by(this), None);
    }
}

//! Waiting for what must happen.

use std::cell::RefCell;
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

/// Waits until `done`; says `what` never happened otherwise.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) -> Result<(), Failure> {
    let started = Instant::now();
    let mut stopped = None;
    let mut looks = Looks::default();
    while !done() {
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

    pub(crate) fn pause(&mut self) {
        self.0 = self.0.saturating_add(1);
        if self.0 <= Self::SHORT {
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
}

//! A gate at which programs stop while the state of the machine is compared with theirs.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::live::Held;

/// Longest time until every program stands still. The longest wait of a program is for the recovery of an engine, a few seconds.
const TIME_LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
struct State {
    closed: bool,
    /// What the programs have that stand still, with their numbers.
    inside: Vec<(u32, Held)>,
    /// Programs that will not come any more.
    ended: u32,
}

/// A gate that programs pass between two steps of their work.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if programs that pass are to stop.
    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Blocks as long as the gate is closed; `held` is what the program has meanwhile.
    pub(super) fn pass(&self, number: u32, held: Held) {
        let mut state = self.state();
        if !state.closed {
            return;
        }
        state.inside.push((number, held));
        self.changed.notify_all();
        while state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A program has ended, and passes no more.
    pub(super) fn leave(&self) {
        self.state().ended += 1;
        self.changed.notify_all();
    }

    /// Has all of `programs` stand still, and calls `look` with what they have; the error names those that do not come.
    pub(super) fn with_all_inside(&self, programs: u32, look: impl FnOnce(&[(u32, Held)])) -> Result<(), String> {
        let began = Instant::now();
        let mut state = self.state();
        state.closed = true;
        let missing = loop {
            if state.inside.len() as u32 + state.ended >= programs {
                break None;
            }
            let left = TIME_LIMIT.saturating_sub(began.elapsed());
            if left.is_zero() {
                let there = |number: &u32| state.inside.iter().any(|(inside, _)| inside == number);
                break Some((0..programs).filter(|number| !there(number)).collect::<Vec<_>>());
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        let inside = std::mem::take(&mut state.inside);
        drop(state);
        if missing.is_none() {
            look(&inside);
        }
        self.state().closed = false;
        self.changed.notify_all();
        match missing {
            None => Ok(()),
            Some(missing) => Err(format!("programs {missing:?} are stuck in a step since {} s", TIME_LIMIT.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn all_stand_still_with_what_they_have_and_go_on() {
        let gate = Gate::default();
        thread::scope(|scope| {
            for number in 0..4 {
                let gate = &gate;
                scope.spawn(move || {
                    while !gate.is_closed() {
                        thread::yield_now();
                    }
                    gate.pass(number, Held { fences: number as usize, ..Held::default() });
                    gate.leave();
                });
            }
            let mut sum = 0;
            let done = gate.with_all_inside(4, |inside| {
                assert_eq!(inside.len(), 4);
                sum = inside.iter().map(|(_, held)| held.fences).sum();
            });
            assert_eq!((done, sum), (Ok(()), 6));
        });
        // A program that has ended is not waited for.
        assert_eq!(gate.with_all_inside(4, |inside| assert!(inside.is_empty())), Ok(()));
    }
}

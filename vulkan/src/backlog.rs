//! Submissions for which the ring has no free entry.
//!
//! The processor may signal what a submission waits for after vkQueueSubmit has returned. So a submission for which the ring has no free entry while the GPU stands still is kept, and a
//! thread writes it to the ring when there is.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use ash::vk;
use campanile_umd::{Queue as HardwareQueue, Recorder};

use crate::failure::{Answer, result};

/// What of a submission is not in the ring yet: writes the packets that come next, and says whether they are the last ones.
pub(crate) type Rest = Box<dyn FnMut(&mut Recorder<'_>) -> campanile_umd::Result<bool> + Send>;

/// Submissions that are kept until the ring has free entries for them.
#[derive(Default)]
pub(crate) struct Backlog {
    state: Mutex<State>,
    empty: Condvar,
    /// True while a thread writes submissions to the ring, and for ever after one of them has failed. It is set and cleared with the state locked.
    is_in_use: AtomicBool,
}

/// The submissions of a backlog, in order, and whether they get on.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) kept: VecDeque<Rest>,
    /// True while a thread writes them to the ring; all later submissions are kept, too.
    pub(crate) is_written: bool,
    /// Why one of them could not be submitted, so that none that came later was.
    pub(crate) failed: Option<vk::Result>,
}

impl Backlog {
    /// The submissions, which nobody else changes until the guard is dropped.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False if the next submission can go straight to the ring. It then stays false until [`Backlog::begin`], which the thread that submits calls.
    pub(crate) fn is_in_use(&self) -> bool {
        self.is_in_use.load(Ordering::Acquire)
    }

    /// Has all further submissions kept, because a thread begins to write those that are kept.
    pub(crate) fn begin(&self, state: &mut State) {
        state.is_written = true;
        self.is_in_use.store(true, Ordering::Release);
    }

    /// Waits until everything is in the ring.
    ///
    /// # Errors
    /// The error with which a submission ended that was kept.
    pub(crate) fn wait(&self) -> Answer<()> {
        let mut state = self.state();
        while state.is_written {
            state = self.empty.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.failed.map_or(Ok(()), Err)
    }

    /// Writes what is kept to the ring, one after the other, until nothing is left.
    pub(crate) fn write(&self, hardware: &Mutex<HardwareQueue>) {
        loop {
            let mut state = self.state();
            let Some(mut rest) = state.kept.pop_front() else {
                state.is_written = false;
                self.is_in_use.store(state.failed.is_some(), Ordering::Release);
                self.empty.notify_all();
                return;
            };
            drop(state);
            let mut queue = hardware.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let mut is_whole = true;
                match queue.submit(|recorder| rest(recorder).map(|whole| is_whole = whole)) {
                    Ok(_) if is_whole => break,
                    Ok(_) => (),
                    Err(error) => {
                        let mut state = self.state();
                        state.kept.clear();
                        state.failed = Some(result(error));
                        break;
                    }
                }
            }
        }
    }
}

//! Submissions that the ring has no room for.
//!
//! The processor may signal what a submission waits for after vkQueueSubmit has returned. So what the ring has no room for while the GPU stands still is kept, and a
//! thread writes it to the ring when there is.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ash::vk;
use campanile_umd::{Queue as HardwareQueue, Recorder};

use crate::command::Command;
use crate::failure::{Answer, result};
use crate::sync::Point;

/// Bytes of packets after which a submission ends and another one goes on.
const PIECE: usize = 256 << 10;

/// A step of a submission.
pub(crate) enum Step {
    Wait(Point),
    Run(Arc<Vec<Command>>),
    Signal(Point),
}

/// The step, and the command of its buffer, that come next as packets.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reached {
    pub(crate) step: usize,
    command: usize,
}

impl Reached {
    /// Writes packets until there are no more steps, or as many bytes as a submission is to have.
    pub(crate) fn go_on(&mut self, steps: &[Step], to: &mut Recorder<'_>) -> campanile_umd::Result<()> {
        while let Some(step) = steps.get(self.step) {
            match step {
                Step::Wait(point) => to.wait(&point.native, point.value)?,
                Step::Signal(point) => to.signal(&point.native, point.value)?,
                Step::Run(commands) => {
                    while let Some(command) = commands.get(self.command) {
                        if to.recorded() >= PIECE {
                            return Ok(());
                        }
                        command.put(to)?;
                        self.command += 1;
                    }
                    self.command = 0;
                }
            }
            self.step += 1;
        }
        Ok(())
    }
}

/// Steps of a submission that are not in the ring yet, from where they go on.
pub(crate) struct Kept {
    pub(crate) steps: Vec<Step>,
    pub(crate) reached: Reached,
}

/// Submissions that are kept until the ring has room for them.
#[derive(Default)]
pub(crate) struct Backlog {
    state: Mutex<State>,
    empty: Condvar,
}

/// What is kept, and what becomes of it.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) kept: VecDeque<Kept>,
    /// True while a thread writes them to the ring; all later submissions are kept, too.
    pub(crate) is_written: bool,
    /// Why one of them could not be submitted, so that none that came later was.
    pub(crate) failed: Option<vk::Result>,
}

impl Backlog {
    /// What is kept, locked.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
            let Some(Kept { steps, mut reached }) = state.kept.pop_front() else {
                state.is_written = false;
                self.empty.notify_all();
                return;
            };
            drop(state);
            let mut queue = hardware.lock().unwrap_or_else(PoisonError::into_inner);
            while reached.step < steps.len() {
                if let Err(error) = queue.submit(|recorder| reached.go_on(&steps, recorder)) {
                    let mut state = self.state();
                    state.kept.clear();
                    state.failed = Some(result(error));
                    break;
                }
            }
        }
    }
}

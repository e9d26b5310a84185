//! Submission: what batches wait for, do and signal becomes packets in a ring, and one store to a doorbell. No thunk is called.

use campanile_umd::Recorder;

use crate::command::CommandBuffer;
use crate::device::Queue;
use crate::failure::{Answer, result};
use crate::sync::Point;

/// Bytes of packets after which a submission ends and another one goes on.
const PIECE: usize = 256 << 10;

/// A step of a submission.
pub(crate) enum Step<'c> {
    Wait(Point),
    Run(&'c CommandBuffer),
    Signal(Point),
}

/// How far steps have become packets.
#[derive(Default)]
struct Reached {
    step: usize,
    command: usize,
}

impl Reached {
    /// Writes packets until there are no more steps, or as many bytes as a submission is to have.
    fn go_on(&mut self, steps: &[Step<'_>], to: &mut Recorder<'_>) -> campanile_umd::Result<()> {
        while let Some(step) = steps.get(self.step) {
            match step {
                Step::Wait(point) => to.wait(&point.native, point.value)?,
                Step::Signal(point) => to.signal(&point.native, point.value)?,
                Step::Run(buffer) => {
                    let recording = buffer.recording();
                    while let Some(command) = recording.commands().get(self.command) {
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

impl Queue {
    /// Submits steps in order. Waits for the GPU where the ring is full.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn submit(&self, steps: &[Step<'_>]) -> Answer<()> {
        let (mut reached, mut queue) = (Reached::default(), self.hardware());
        while reached.step < steps.len() {
            queue.submit(|recorder| reached.go_on(steps, recorder)).map_err(result)?;
        }
        Ok(())
    }
}

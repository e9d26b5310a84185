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

/// The step, and the command of its buffer, that come next as packets.
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
        for step in steps {
            if let Step::Run(buffer) = step {
                buffer.recording().refresh()?;
            }
        }
        let (mut reached, mut queue) = (Reached::default(), self.hardware());
        while reached.step < steps.len() {
            queue.submit(|recorder| reached.go_on(steps, recorder)).map_err(result)?;
        }
        Ok(())
    }
}

#[cfg(all(test, not(windows)))]
mod tests {
    use campanile_umd::{Adapter, QueueStats, SubmissionModel};

    use super::Step;
    use crate::app::{App, Scope};
    use crate::device::{Device, Queue, QueuesWanted};
    use crate::machine;
    use crate::physical::PhysicalDevice;
    use crate::sync::{Semaphore, wait};

    #[test]
    fn a_submission_is_a_ring_of_the_doorbell_and_no_thunk() {
        let physical = PhysicalDevice::new(Adapter::open(machine::thunks()).expect("an adapter"));
        let device = Device::new(&physical, &[QueuesWanted { family: 0, count: 1, priority: 0 }]).expect("a device");
        let scope = Scope;
        // SAFETY: no pointers but handles of this driver.
        let app = unsafe { App::promised(&scope) };
        let queue = app.object::<Queue>(device.queue(0, 0).expect("a queue")).expect("a queue");
        let semaphore = Semaphore::new(&device, Some(0)).expect("a semaphore");
        for value in 1..=100 {
            queue
                .submit(&[Step::Wait(semaphore.wait(value - 1)), Step::Signal(semaphore.signal(value))])
                .expect("done");
        }
        assert_eq!(wait(&[semaphore.wait(100)], true, u64::MAX), Ok(ash::vk::Result::SUCCESS));
        let hardware = queue.hardware();
        assert_eq!(hardware.model(), SubmissionModel::User);
        let expected = QueueStats { submissions: 100, doorbell_rings: 100, ..QueueStats::default() };
        assert_eq!(hardware.stats(), expected, "a connection or a notification is a thunk");
    }
}

//! Submission: what batches wait for, do and signal becomes packets in a ring, and one store to a doorbell. No thunk is called.

use core::time::Duration;
use std::sync::Arc;
use std::thread;

use ash::vk;
use campanile_umd::{Error, Recorder};
use smallvec::SmallVec;

use crate::command::Commands;
use crate::device::Queue;
use crate::failure::{Answer, result};
use crate::sync::Point;

/// Bytes of packets after which a submission ends and another one goes on.
const PIECE: usize = 256 << 10;
/// How long the GPU stands still before a submission for which the ring has no free entry is kept. Until then vkQueueSubmit waits, so that a program which is faster than the GPU is
/// blocked, and does not fill the memory of the process.
const STANDSTILL: Duration = Duration::from_millis(10);

/// A step of a submission.
pub(crate) enum Step {
    Wait(Point),
    Run(Arc<Commands>),
    Signal(Point),
}

/// Steps of a submission in order. Few are the rule, for which no memory is allocated.
pub(crate) type Steps = SmallVec<[Step; 4]>;

/// The step, and the command of its buffer, that come next as packets.
#[derive(Clone, Copy, Default)]
struct Reached {
    step: usize,
    command: usize,
}

impl Reached {
    /// Writes packets until there are no more steps, or as many bytes as a submission is to have.
    fn go_on(&mut self, steps: &[Step], to: &mut Recorder<'_>) -> campanile_umd::Result<()> {
        while let Some(step) = steps.get(self.step) {
            match step {
                Step::Wait(point) => to.wait(&point.native, point.value)?,
                Step::Signal(point) => to.signal(&point.native, point.value)?,
                Step::Run(commands) => {
                    while let Some(command) = commands.list.get(self.command) {
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
    /// Submits steps in order. Waits while the ring is full and the GPU gets on.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST; VK_ERROR_OUT_OF_HOST_MEMORY if the ring is full, the GPU stands still, and the host has no thread.
    pub(crate) fn submit(&self, steps: Steps) -> Answer<()> {
        let mut reached = Reached::default();
        if !self.backlog().is_in_use() && self.submit_now(&steps, &mut reached)? {
            return Ok(());
        }
        let mut state = self.backlog().state();
        if let Some(failed) = state.failed {
            return Err(failed);
        }
        state.kept.push_back(Box::new(move |recorder| {
            reached.go_on(&steps, recorder)?;
            Ok(reached.step == steps.len())
        }));
        if !state.is_written {
            let (backlog, hardware) = self.shared();
            let writer = thread::Builder::new().name("submissions".into());
            if writer.spawn(move || backlog.write(&hardware)).is_err() {
                state.kept.clear();
                return Err(vk::Result::ERROR_OUT_OF_HOST_MEMORY);
            }
            self.backlog().begin(&mut state);
        }
        Ok(())
    }

    /// Submits steps from where `reached` is. False if the ring is full, and the GPU stands still.
    fn submit_now(&self, steps: &[Step], reached: &mut Reached) -> Answer<bool> {
        let mut queue = self.hardware();
        while reached.step < steps.len() {
            let before = *reached;
            match queue.try_submit(|recorder| reached.go_on(steps, recorder)) {
                Ok(_) => (),
                Err(Error::RingFull | Error::CommandMemoryFull) => {
                    *reached = before;
                    match queue.wait_progress_for(queue.last_submitted().min(queue.progress() + 1), Some(STANDSTILL)) {
                        Ok(()) => (),
                        Err(Error::Timeout) => return Ok(false),
                        Err(error) => return Err(result(error)),
                    }
                }
                Err(error) => return Err(result(error)),
            }
        }
        Ok(true)
    }
}

#[cfg(all(test, not(windows)))]
mod tests {
    use campanile_umd::{Adapter, QueueStats, SubmissionModel};

    use smallvec::smallvec;

    use super::Step;
    use crate::app::{App, Scope};
    use crate::device::{Device, Queue, QueuesWanted};
    use crate::machine;
    use crate::physical::PhysicalDevice;
    use crate::sync::{Semaphore, wait};

    /// A device with one queue.
    fn device() -> Device {
        let physical = PhysicalDevice::new(Adapter::open(machine::thunks()).expect("an adapter"));
        Device::new(&physical, &[QueuesWanted { family: 0, priorities: vec![0] }]).expect("a device")
    }

    fn queue_of(device: &Device) -> &Queue {
        // SAFETY: no pointers but handles of this driver, which are good as long as the device.
        let app = unsafe { App::promised(&Scope) };
        app.object::<Queue>(device.queue(0, 0).expect("a queue")).expect("a queue")
    }

    #[test]
    fn a_submission_is_a_ring_of_the_doorbell_and_no_thunk() {
        let device = device();
        let queue = queue_of(&device);
        let semaphore = Semaphore::new(&device, Some(0), false).expect("a semaphore");
        for value in 1..=100 {
            queue
                .submit(smallvec![Step::Wait(semaphore.point(value - 1)), Step::Signal(semaphore.signal(value))])
                .expect("done");
        }
        assert_eq!(wait(&[semaphore.point(100)], true, u64::MAX), Ok(ash::vk::Result::SUCCESS));
        let hardware = queue.hardware();
        assert_eq!(hardware.model(), SubmissionModel::User);
        let expected = QueueStats { submissions: 100, doorbell_rings: 100, ..QueueStats::default() };
        assert_eq!(hardware.stats(), expected, "a connection or a notification is a thunk");
    }

    /// The ring has 256 entries, none of which becomes free before the signal.
    #[test]
    fn submissions_wait_before_their_signal_though_the_ring_is_full() {
        let device = device();
        let queue = queue_of(&device);
        let (gate, done) = (
            Semaphore::new(&device, Some(0), false).expect("one"),
            Semaphore::new(&device, Some(0), false).expect("two"),
        );
        for value in 1..=1000 {
            queue.submit(smallvec![Step::Wait(gate.point(1)), Step::Signal(done.signal(value))]).expect("taken");
        }
        assert_eq!(done.value(), Ok(0));
        gate.signal_now(1).expect("signalled");
        queue.wait_idle().expect("done");
        assert_eq!(done.value(), Ok(1000));
        queue.submit(smallvec![Step::Signal(done.signal(1001))]).expect("the queue goes on");
        assert_eq!(wait(&[done.point(1001)], true, u64::MAX), Ok(ash::vk::Result::SUCCESS));
        assert_eq!(queue.hardware().stats().submissions, 1001);
    }
}

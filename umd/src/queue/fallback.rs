//! Fallback to kernel-mode submission, as Microsoft's page advises for a doorbell that cannot be connected: the hardware queue is destroyed and
//! created again.
//! [user-mode-work-submission: pseudocode for user-mode submission]

use core::{sync::atomic::Ordering, time::Duration};

use super::{DRAIN_LIMIT, HwQueue, Path, Queue, Target};
use crate::{
    commands::Logs,
    error::{Error, Result},
    fence,
};
use wddm_ddi::{km::D3DDDI_CREATEHWQUEUEFLAGS, status::STATUS_NO_MEMORY};

impl Queue {
    /// The doorbell cannot be connected, for `reason`, after work was written to the ring. That work runs, and what comes later goes
    /// through the kernel; progress values go on.
    ///
    /// The kernel-mode driver is told of the work first, so that a ring whose work waits for a fence is not lost with the queue: it stays
    /// the queue's while its work goes on, and the driver is told of what is submitted meanwhile. It also stays while there is no memory
    /// without which nothing of the process runs; then the next submission or wait returns that error.
    ///
    /// # Errors
    /// `reason` for a queue that insists on its model; [`Error::DeviceLost`].
    pub(super) fn fall_back(&mut self, reason: Error) -> Result<()> {
        self.note_fallback(reason)?;
        self.failed_connects += 1;
        let limit = if self.falls_back { Duration::ZERO } else { DRAIN_LIMIT };
        self.falls_back = true;
        self.notify_pending.store(true, Ordering::Release);
        match self.announce() {
            Ok(()) => {
                self.notifications += 1;
                match self.wait_progress_for(self.last_submitted(), Some(limit)) {
                    Err(Error::Timeout) => return Ok(()),
                    waited => waited?,
                }
            }
            Err(Error::DeviceLost) => return Err(Error::DeviceLost),
            Err(Error::Status(STATUS_NO_MEMORY, _)) => return Ok(()),
            // Destroying the doorbell makes the hardware look at the ring, too.
            Err(_) => {}
        }
        self.fall_back_done()
    }

    /// The doorbell cannot be connected, for `reason`, and nothing was submitted to its ring yet: what comes later goes through the kernel,
    /// and progress values go on.
    ///
    /// # Errors
    /// As [`Self::fall_back`].
    pub(super) fn fall_back_empty(&mut self, reason: Error) -> Result<()> {
        self.note_fallback(reason)?;
        self.falls_back = true;
        self.fall_back_done()
    }

    /// Stores the reason for which the queue submits through the kernel.
    ///
    /// # Errors
    /// `reason` if it does not.
    fn note_fallback(&mut self, reason: Error) -> Result<()> {
        if self.options.model.is_some() || reason == Error::DeviceLost {
            return Err(reason);
        }
        self.fallback = Some(reason);
        Ok(())
    }

    /// Leaves the ring now, or before the next submission if the new queue cannot be created yet.
    fn fall_back_done(&mut self) -> Result<()> {
        match self.kernel_queue() {
            Ok(queue) => self.go_through_kernel(queue),
            Err(Error::DeviceLost) => Err(Error::DeviceLost),
            Err(_) => Ok(()),
        }
    }

    /// Before a submission of a queue whose ring was not done when its doorbell could not be connected.
    ///
    /// # Errors
    /// Why the kernel-mode driver cannot be told of the ring, or the new queue not be created; nothing is changed then. As
    /// [`Self::go_through_kernel`], which ends the queue.
    #[cold]
    pub(super) fn leave_ring(&mut self) -> Result<()> {
        match self.wait_progress_for(self.last_submitted(), Some(Duration::ZERO)) {
            Err(Error::Timeout) => return Ok(()),
            waited => waited?,
        }
        let queue = self.kernel_queue()?;
        self.go_through_kernel(queue).inspect_err(|error| self.failed = Some(*error))
    }

    /// Tells the kernel-mode driver of the work in the ring, if that could not be done before.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], and what the operating system answered.
    pub(super) fn announce(&self) -> Result<()> {
        let Path::User(_, doorbell) = &self.path else { return Ok(()) };
        if self.notify_pending.load(Ordering::Acquire) {
            doorbell.notify()?;
            self.notify_pending.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// A queue for kernel-mode submission, as any queue that goes through the kernel has, see [`Queue::new`].
    fn kernel_queue(&self) -> Result<HwQueue> {
        match &self.target {
            Target::Hardware(_, context) => {
                HwQueue::new(context, D3DDDI_CREATEHWQUEUEFLAGS::new(), self.options.save_bytes)
            }
            Target::Packets(..) => Err(Error::BadArgument("a queue of packets has no doorbell")),
        }
    }

    /// The queue goes on in `fresh`, for kernel-mode submission.
    ///
    /// # Errors
    /// What waiting for the work in the ring returned.
    fn go_through_kernel(&mut self, fresh: HwQueue) -> Result<()> {
        self.falls_back = false;
        self.rung = self.stats().doorbell_rings;
        // The doorbell is destroyed when what was queued through it is done, then the memory of its ring.
        self.path = Path::Kernel;
        self.memory.ring = None;
        let last = self.last_submitted();
        let device = self.core.device.clone();
        fence::wait(&device, self.core.progress.fence, self.core.progress.current, last, Some(DRAIN_LIMIT))?;
        self.earlier += self.core.restart(self.options.ring_entries)?;
        let Target::Hardware(queue, _) = &mut self.target else { return Ok(()) };
        *queue = fresh;
        self.core.progress.continue_in(queue.progress, queue.fence);
        // Queues that go through the kernel have no fence logs.
        self.core.logs = Logs::default();
        self.seen.fetch_max(last, Ordering::AcqRel);
        Ok(())
    }
}

//! The page's answer to a doorbell that cannot be connected: the queue is destroyed and made anew for kernel-mode submission.
//! [user-mode-work-submission: pseudocode for user-mode submission]

use core::{sync::atomic::Ordering, time::Duration};

use super::{HwQueue, Path, Queue, RUN_DRY, Target};
use crate::{
    commands::Logs,
    error::{Error, Result},
    fence,
};
use wddm_ddi::km::D3DDDI_CREATEHWQUEUEFLAGS;

impl Queue {
    /// The doorbell cannot be connected, for `reason`, after work was written to the ring. That work runs, and what comes later goes
    /// through the kernel; progress values go on.
    ///
    /// The kernel-mode driver is told of the work first, so that a ring whose work waits for somebody is not lost with the queue: it
    /// stays the queue's while its work goes on, and the driver is told of what is submitted meanwhile.
    ///
    /// # Errors
    /// `reason` for a queue that insists on its model; [`Error::DeviceLost`]; what creating the new queue returned.
    pub(super) fn fall_back(&mut self, reason: Error) -> Result<()> {
        let Path::User(_, doorbell) = &self.path else { return Err(reason) };
        if self.options.model.is_some() || reason == Error::DeviceLost {
            return Err(reason);
        }
        self.unheard += 1;
        self.fallback = Some(reason);
        match doorbell.notify() {
            Ok(()) => {
                self.notifications += 1;
                let patience = if self.leaves_ring { Duration::ZERO } else { RUN_DRY };
                self.leaves_ring = true;
                match self.wait_progress_for(self.last_submitted(), Some(patience)) {
                    Err(Error::Timeout) => return Ok(()),
                    waited => waited?,
                }
            }
            Err(Error::DeviceLost) => return Err(Error::DeviceLost),
            // Destroying the doorbell makes the hardware look at the ring, too.
            Err(_) => {}
        }
        self.go_through_kernel()
    }

    /// Before a submission of a queue whose ring was not done when its doorbell could not be connected.
    ///
    /// # Errors
    /// As [`Self::fall_back`].
    #[cold]
    pub(super) fn leave_ring(&mut self) -> Result<()> {
        match self.wait_progress_for(self.last_submitted(), Some(Duration::ZERO)) {
            Err(Error::Timeout) => Ok(()),
            waited => waited.and_then(|()| self.go_through_kernel()).inspect_err(|error| self.failed = Some(*error)),
        }
    }

    /// The queue goes on as one for kernel-mode submission.
    fn go_through_kernel(&mut self) -> Result<()> {
        self.leaves_ring = false;
        self.rung = self.stats().doorbell_rings;
        // The doorbell is destroyed when what was queued through it is done, then the memory of its ring.
        self.path = Path::Kernel;
        self.memory.ring = None;
        let last = self.last_submitted();
        let device = self.core.device.clone();
        fence::wait(&device, self.core.progress.fence, self.core.progress.current, last, Some(RUN_DRY))?;
        self.earlier += self.core.restart(self.options.ring_entries)?;
        let Target::Hardware(queue, context) = &mut self.target else { return Ok(()) };
        // As for any queue that goes through the kernel, see [`Queue::new`].
        *queue = HwQueue::new(context, D3DDDI_CREATEHWQUEUEFLAGS::new())?;
        self.core.progress.go_on_in(queue.progress, queue.fence);
        // Queues that go through the kernel have no fence logs.
        self.core.logs = Logs::default();
        self.seen.fetch_max(last, Ordering::AcqRel);
        Ok(())
    }
}

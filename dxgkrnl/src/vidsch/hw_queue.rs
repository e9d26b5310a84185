//! A hardware queue is idle when its progress has reached the last queued value. User mode that raises the two in the wrong order is noted.

use std::sync::atomic::Ordering;

use super::objects::hardware::HwQueue;

impl HwQueue {
    /// Notes, once, a user-mode driver that shows work to the GPU before the last queued value tells of it: the system
    /// would take the queue for idle while it works, and put the engine to sleep or miss a hang.
    /// [user-mode-work-submission: progress fence of a queue]
    pub(crate) fn check_order(&self) {
        if !self.flags.UserModeSubmission() {
            return;
        }
        let progress = self.progress.current();
        // Read after the progress, the value is not older: whoever keeps the order has written it before.
        let queued = self.last_queued();
        // The fences of a lost device have values that nobody queued.
        let lost = self.context.device().error().is_some();
        if progress > queued && !lost && !self.misordered.swap(true, Ordering::AcqRel) {
            let process = self.context.device().process.owner();
            self.sch().verifier.log(format!(
                "{process}: a queue on node {} has done {progress} of its work, but only {queued} was said \
                 to be queued; the last queued value must be written before the work becomes visible",
                self.context.node()
            ));
        }
    }

    /// True if nothing is under way or held.
    pub(crate) fn is_idle(&self) -> bool {
        self.check_order();
        self.is_done()
    }
}

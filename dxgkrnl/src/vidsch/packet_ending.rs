//! How a context of packets ends: its work runs out, or is dropped and taken off the node.

use std::sync::atomic::Ordering;
use std::time::Instant;

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::fence::Wait;

use super::deadline::Waiter;
use super::objects::packet_context::PacketContext;
use super::objects::queue_wait::QueueWait;

impl PacketContext {
    /// Waits until everything submitted is done. False if nothing was done for TdrDelay by the machine's clock.
    pub(super) fn drain(&self) -> bool {
        let sch = self.sch();
        let _running = sch.keep_running_if_work(&self.device, || !self.is_done());
        let clock = sch.timeouts.clock();
        let (mut seen, mut limit) = (None, sch.timeouts.limit());
        loop {
            let look = Wait::of_thread(1);
            let progress = {
                let mut software = lock(&self.software_queue);
                software.held.add_waiter(&look);
                self.run(&mut software);
                (self.finished(), software.held.len())
            };
            if look.outcome() == Some(STATUS_SUCCESS) {
                return true;
            }
            if seen != Some(progress) {
                (seen, limit) = (Some(progress), sch.timeouts.limit());
            }
            if clock.now() >= limit || self.device.error().is_some() || sch.verifier.is_stopped() {
                return false;
            }
            let _waits = clock.deadline(limit);
            let _ = look.block(Some(Instant::now() + sch.timeouts.sleep_time(limit)), |nap| sch.pause(nap));
        }
    }

    /// Drops what waits, and gives up what the context owns: the hardware has nothing of it.
    pub(super) fn drop_held(&self) {
        self.drop_submissions();
        lock(&self.software_queue).held.abandon_mutexes();
    }

    fn drop_submissions(&self) {
        let wait = {
            let mut software = lock(&self.software_queue);
            self.drop_requests(&mut software);
            software.held.take_hold()
        };
        wait.into_iter().for_each(QueueWait::cancel);
        self.run(&mut lock(&self.software_queue));
    }

    /// Nothing of the context runs from now on: what waits or is queued is dropped, and what the hardware has is taken off it. False
    /// if that did not happen in time.
    pub(super) fn abandon(&self, waiter: Waiter) -> bool {
        self.lost.store(true, Ordering::Release);
        self.drop_submissions();
        let sch = self.sch();
        let Some(node) = sch.nodes.get(self.node as usize) else { return true };
        let flies = node.state().drop_context(self);
        node.announce();
        let left = !flies || {
            sch.dispatch(self.node);
            sch.wait_node_within_deadline(self.node, waiter, |state| !state.flies(self))
        };
        // Packets of other contexts that the preemption returned are submitted again.
        sch.dispatch(self.node);
        let mut software = lock(&self.software_queue);
        software.held.abandon_mutexes();
        self.run(&mut software);
        left
    }

    /// Takes submissions again, unless it is being destroyed.
    pub(crate) fn reopen(&self) {
        if !*lock(&self.teardown) {
            self.rundown.reopen();
        }
    }
}

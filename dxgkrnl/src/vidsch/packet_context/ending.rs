//! How a context of packets ends: its work runs out, or is dropped and taken off the node.

use std::sync::atomic::Ordering;
use std::time::Instant;

use nt::lock::lock;
use wddm_ddi::status::*;

use super::{PacketContext, SoftwareQueue};
use crate::fence::Wait;
use crate::vidsch::deadline::Waiter;
use crate::vidsch::queue_wait::QueueWait;

impl PacketContext {
    /// Waits until everything submitted is done. False if nothing was done for TdrDelay by the machine's clock.
    pub(in super::super) fn drain(&self) -> bool {
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
    pub(in super::super) fn drop_held(&self) {
        self.drop_submissions();
        lock(&self.software_queue).held.abandon_mutexes();
    }

    /// Drops every request. The wait of the first stays, to be cancelled without the lock of the queue.
    pub(super) fn drop_requests(&self, software: &mut SoftwareQueue) {
        let dropped = software.held.drain();
        dropped.for_each(|item| self.sch().count_command(&self.device, self.node, item.command(), true));
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
    pub(in super::super) fn abandon(&self, waiter: Waiter) -> bool {
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

    /// Destroys the context, when its work is done or its device lost. Once is enough. [d3dkmddi: DXGKDDI_DESTROYCONTEXT]
    pub(crate) fn destroy(&self) {
        let mut gone = lock(&self.teardown);
        if core::mem::replace(&mut *gone, true) {
            return;
        }
        self.rundown.close();
        let sch = self.sch();
        if !self.drain() {
            sch.lose_blocked(self);
        }
        self.updates.close();
        self.abandon(Waiter::Other);
        // DxgkDdiBuildTestCommandBuffer may be under way on it.
        self.adapter.machine.gate().away(|| self.rundown.wait());
        let status = {
            let mut gone = lock(&self.gone);
            *gone = true;
            self.adapter.miniport.destroy_context(self.kmd.raw())
        };
        sch.must_not_fail(status);
        sch.packet_contexts.retire(self.system);
        sch.remove_packet_context(self);
    }
}

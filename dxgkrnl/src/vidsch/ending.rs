//! Contexts, queues and doorbells are destroyed: what was queued ends first, or its device is lost.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use nt::lock::lock;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;

use super::deadline::Waiter;
use super::doorbell_state::DoorbellEvent;
use super::objects::hardware::{Doorbell, HwContext, HwQueue};
use super::objects::packet_context::PacketContext;

impl Doorbell {
    /// Disconnects the doorbell, waits for what was queued through it, and destroys it. Once is enough.
    /// [user-mode-work-submission: normal process termination]
    pub(crate) fn destroy(&self) {
        self.finish();
        let sch = self.adapter.vidsch();
        if self.is_current() {
            sch.drain(&[&self.queue]);
        }
        let mut exists = self.lock_exists();
        if !core::mem::replace(&mut *exists, false) {
            return;
        }
        // It may have been connected once more before the lock was taken.
        self.take_away(DoorbellEvent::Abort);
        let mut args = DXGKARG_DESTROYDOORBELL::zeroed();
        args.hDoorbell = self.kmd.raw();
        sch.must_not_fail(self.adapter.miniport.destroy_doorbell(&args));
        // The memory manager may be holding its own lock while it takes a doorbell away.
        drop(exists);
        sch.doorbells.retire(self.system);
        self.queue.clear_doorbell(self);
        self.rings.release();
    }
}

impl HwQueue {
    /// Destroys the queue with what is left of its doorbell, and its progress fence. Once is enough.
    /// [d3dkmddi: DXGKDDI_DESTROYHWQUEUE]
    pub(crate) fn destroy(&self) {
        self.rundown.close();
        let mut over = lock(&self.teardown);
        let doorbells: Vec<_> = lock(&self.doorbells).iter().filter_map(Weak::upgrade).collect();
        doorbells.iter().rev().for_each(|doorbell| doorbell.destroy());
        if !core::mem::replace(&mut *over, true) {
            self.sch().drain(&[self]);
            // Whoever is submitting, or making a doorbell, gets through or gives up first.
            self.context.adapter().machine.gate().away(|| self.rundown.wait());
            self.count_completed();
            self.drop_held();
            self.sch().leave_fence_logs(self);
            self.sch().must_not_fail(self.context.adapter().miniport.destroy_hw_queue(self.kmd.raw()));
            self.gone.store(true, Ordering::Release);
            self.sch().detach_fence_logs(self);
            self.sch().queues.retire(self.system);
            self.sch().driver_queues.retire_object(self.kmd, self);
            self.context.remove_queue(self);
            self.leave_active();
            self.progress.destroy();
        }
    }
}

impl HwContext {
    /// Destroys the context with what is left of its queues. Once is enough. [d3dkmddi: DXGKDDI_DESTROYHWCONTEXT]
    pub(crate) fn destroy(&self) {
        self.rundown.close();
        for queue in self.queues().into_iter().rev() {
            queue.destroy();
        }
        self.updates.close();
        // Whoever is making a queue destroys it again; a thread that changes priorities takes the lock below.
        self.adapter.machine.gate().away(|| self.rundown.wait());
        let mut gone = lock(&self.teardown);
        if !core::mem::replace(&mut *gone, true) {
            self.sch().leave_scheduling_log(self);
            let status = {
                let mut gone = lock(&self.suspending);
                *gone = true;
                self.adapter.miniport.destroy_hw_context(self.kmd.raw())
            };
            self.sch().must_not_fail(status);
            self.sch().contexts.retire(self.system);
            self.sch().remove_context(self);
        }
    }
}

impl PacketContext {
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
        if let Some(node) = sch.nodes.get(self.node as usize) {
            // Whoever tells the driver of a dropped packet has the context until that is done.
            let _dispatching = lock(&node.dispatching);
            node.state().end_context(self);
        }
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

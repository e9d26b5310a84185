//! Devices are lost: their work runs out, or is taken off the engines. [user-mode-work-submission: abnormal process termination]

use std::sync::Arc;

use nt::lock::lock;
use wddm_ddi::status::*;

use super::deadline::Waiter;
use super::objects::device::{Device, DeviceError};
use super::objects::fence::SyncObject;
use super::objects::hardware::HwQueue;
use super::objects::packet_context::PacketContext;
use super::objects::timeouts::Subject;
use super::scheduler::VidSch;

impl VidSch {
    /// Waits until `queues` (of one device) have done what they had queued; a device whose work does not end in time is
    /// lost, and so is taken off the hardware one that was lost already.
    pub(super) fn drain(&self, queues: &[&HwQueue]) {
        let Some(first) = queues.first() else { return };
        let device = first.context().device();
        let _running = self.keep_running_if_work(device, || queues.iter().any(|queue| !queue.is_done()));
        // Queued work may still run for as long as an engine may stand still. [tdr-registry-keys: TdrDelay]
        let limit = self.timeouts.limit();
        for queue in queues {
            queue.check_order();
            if let Some(error) = device.error() {
                return self.lose_device(device, error);
            }
            let done = self.wait_by_clock(&[(Arc::clone(queue.progress()), queue.last_queued())], limit);
            if done != STATUS_SUCCESS || !queue.wait_until_empty(limit) {
                self.verifier.log(format!(
                    "a queue was closed at progress {} with {} queued",
                    queue.progress().current(),
                    queue.last_queued()
                ));
                return self.lose_device(device, device.error().unwrap_or(DeviceError::Hung));
            }
        }
    }

    /// The work of a context does not end: its device is lost.
    pub(super) fn lose_blocked(&self, context: &PacketContext) {
        let device = context.device();
        if device.error().is_none() {
            self.verifier.log(format!(
                "a context of packets on node {} was closed with work that does not end: {} submitted, {} held",
                context.node(),
                context.last_submitted(),
                context.held()
            ));
        }
        self.lose_device(device, device.error().unwrap_or(DeviceError::Hung));
    }

    /// The process of a device was terminated: the device is in error, its contexts are suspended, its doorbells
    /// disconnected; nothing is waited for. Its objects can be destroyed afterwards. [user-mode-work-submission: abnormal
    /// process termination]
    pub(crate) fn abandon_device(&self, device: &Arc<Device>) {
        self.lose_device(device, DeviceError::Stopped);
    }

    /// A device could not get memory that it cannot do without.
    pub(crate) fn starve_device(&self, device: &Arc<Device>) {
        self.lose_device(device, DeviceError::OutOfMemory);
    }

    /// User mode gives a device up: it is in error as after a fault of its work. [d3dkmthk: D3DKMTMarkDeviceAsError]
    pub(crate) fn give_device_up(&self, device: &Arc<Device>) {
        self.lose_device(device, DeviceError::Refused);
    }

    /// The device is in error: its doorbells say ABORT, then its waiters are released, then its contexts leave the hardware
    /// and its doorbells are disconnected there. When the call returns, nothing of the device touches memory any more, as
    /// far as its engines obey.
    pub(crate) fn lose_device(&self, device: &Arc<Device>, error: DeviceError) {
        self.lose_device_by(Waiter::Other, device, error);
    }

    /// As [`VidSch::lose_device`], for a thread of either kind.
    pub(crate) fn lose_device_by(&self, waiter: Waiter, device: &Arc<Device>, error: DeviceError) {
        device.set_error(error);
        let work = self.device_work(device);
        let mut lost = work.as_ref().map(|work| lock(&work.lost));
        if lost.as_deref() == Some(&true) {
            return;
        }
        let contexts = self.contexts_of(device);
        let fences = self.release(device);
        // All of them are asked before the first is waited for, so that engines which hang cost no more time than one.
        let limit = self.timeouts.limit();
        let asked: Vec<_> = contexts.iter().map(|context| context.ask_off()).collect();
        for (context, asked) in contexts.iter().zip(&asked) {
            if !context.leaves(asked, limit) {
                self.verifier
                    .log(format!("a context on node {} of a lost device did not leave its engine", context.node()));
                self.recovery().recover_while_losing(device, context.node(), Subject::Context(Arc::clone(context)));
            }
            for queue in context.queues() {
                queue.drop_held();
                // Also of queues that were created meanwhile.
                queue.progress().end(STATUS_DEVICE_REMOVED);
                if let Some(doorbell) = queue.doorbell() {
                    doorbell.abort();
                }
            }
        }
        for context in self.packet_contexts_of(device) {
            if !context.abandon(waiter) {
                self.verifier.log(format!("packets of a lost device did not leave node {}", context.node()));
                let suspects = self.nodes.get(context.node() as usize).and_then(|node| node.state().suspects());
                if let Some(suspects) = suspects {
                    self.recovery().recover_while_losing(device, context.node(), Subject::Packets(suspects));
                }
            }
        }
        for fence in &fences {
            fence.fence().device_lost();
        }
        if let Some(lost) = lost.as_deref_mut() {
            *lost = true;
        }
    }

    /// Ends every wait that a device in error keeps, after its doorbells say ABORT. Its open fences.
    pub(crate) fn release(&self, device: &Device) -> Vec<Arc<SyncObject>> {
        // Whoever is released below finds the reason at its doorbell.
        self.show_aborts(device);
        for queue in self.contexts_of(device).iter().flat_map(|context| context.queues()) {
            queue.count_given_up();
            queue.progress().end(STATUS_DEVICE_REMOVED);
        }
        let opened = self.fences.all().into_iter().flat_map(|fence| fence.opened());
        let fences: Vec<_> = opened.filter(|open| open.device() == device.id()).collect();
        for fence in &fences {
            fence.end(STATUS_DEVICE_REMOVED);
        }
        fences
    }
}

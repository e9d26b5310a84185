//! The work of devices: what belongs to each, and which of its queues may have something to do.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use nt::lock::lock;

use super::objects::active::key;
use super::objects::device::Device;
use super::objects::device_work::DeviceWork;
use super::objects::hardware::{HwContext, HwQueue};
use super::objects::packet_context::PacketContext;
use super::scheduler::VidSch;

impl VidSch {
    pub(super) fn device_work(&self, device: &Device) -> Option<Arc<DeviceWork>> {
        lock(&self.devices).get(&device.id()).cloned()
    }

    pub(super) fn add_context(&self, context: &Arc<HwContext>) {
        let work = Arc::clone(lock(&self.devices).entry(context.device().id()).or_default());
        lock(&work.contexts).insert(context.handles().0.raw().addr(), Arc::downgrade(context));
    }

    pub(super) fn remove_context(&self, context: &HwContext) {
        self.remove_work(context.device(), |work| {
            lock(&work.contexts).remove(&context.handles().0.raw().addr());
        });
    }

    pub(super) fn add_packet_context(&self, context: &Arc<PacketContext>) {
        let work = Arc::clone(lock(&self.devices).entry(context.device().id()).or_default());
        lock(&work.packet_contexts).push(Arc::downgrade(context));
    }

    pub(super) fn remove_packet_context(&self, context: &PacketContext) {
        self.remove_work(context.device(), |work| {
            lock(&work.packet_contexts).retain(|other| !core::ptr::eq(other.as_ptr(), context));
        });
    }

    /// Takes something out of the work of a device, which is forgotten when nothing is left of it.
    fn remove_work(&self, device: &Device, remove: impl FnOnce(&DeviceWork)) {
        let mut devices = lock(&self.devices);
        let Some(work) = devices.get(&device.id()) else { return };
        remove(work);
        let is_unused = Arc::strong_count(work) == 1;
        if is_unused && lock(&work.contexts).is_empty() && lock(&work.packet_contexts).is_empty() {
            devices.remove(&device.id());
        }
    }

    /// Live contexts of packets of a device, oldest first.
    pub(super) fn packet_contexts_of(&self, device: &Device) -> Vec<Arc<PacketContext>> {
        let work = self.device_work(device);
        work.map_or_else(Vec::new, |work| lock(&work.packet_contexts).iter().filter_map(Weak::upgrade).collect())
    }

    /// Live contexts of a device, oldest first.
    pub(super) fn contexts_of(&self, device: &Device) -> Vec<Arc<HwContext>> {
        let work = self.device_work(device);
        work.map_or_else(Vec::new, |work| lock(&work.contexts).values().filter_map(Weak::upgrade).collect())
    }

    /// Queues of all devices that may have work under way; of the others none can ring.
    pub(super) fn active_queues(&self) -> Vec<Arc<HwQueue>> {
        let works: Vec<_> = lock(&self.devices).values().cloned().collect();
        works.iter().flat_map(|work| work.active.queues(&self.looks)).collect()
    }
}

impl HwQueue {
    /// The queue may get work from now on: its doorbell is being connected, its ring looked at, or something was submitted.
    pub(super) fn note_active(&self) {
        if !self.listed.0.swap(true, Ordering::SeqCst)
            && let Some(work) = self.sch().device_work(self.context().device())
        {
            lock(&work.active.queues).insert(key(self), Weak::clone(&self.this));
        }
    }

    /// The queue is gone.
    pub(super) fn leave_active(&self) {
        if let Some(work) = self.sch().device_work(self.context().device()) {
            lock(&work.active.queues).remove(&key(self));
        }
    }
}

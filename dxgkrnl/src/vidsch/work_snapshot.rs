//! Work of a device that was queued at some moment, to be waited for.

use std::sync::{Arc, Weak};

use crate::vidmm::IdlePoint;

use super::objects::device::Device;
use super::objects::hardware::HwQueue;
use super::objects::packet_context::PacketContext;
use super::scheduler::VidSch;

/// What the queues of a device had queued at some moment: a progress value or the number of a packet, and how many requests had come to the software queue.
pub(crate) struct WorkSnapshot {
    queues: Vec<(Weak<HwQueue>, u64, u64)>,
    contexts: Vec<(Weak<PacketContext>, u64, u64)>,
}

impl WorkSnapshot {
    /// True if every command buffer that was queued then is done. User mode may claim work that never comes; its device pays for
    /// that when it is closed.
    pub(crate) fn is_done(&self) -> bool {
        let queues = self.queues.iter().all(|(queue, value, _)| match queue.upgrade() {
            Some(queue) => queue.is_gone() || queue.progress().is_reached(*value),
            None => true,
        });
        let is_finished = |context: &PacketContext, number| context.is_finished(number);
        queues
            && self
                .contexts
                .iter()
                .all(|(context, number, _)| context.upgrade().is_none_or(|context| is_finished(&context, *number)))
    }

    /// True if the waits and signals of software, too, that were queued then are over.
    pub(crate) fn is_over(&self) -> bool {
        let queues = self.queues.iter().filter_map(|(queue, _, added)| Some((queue.upgrade()?, *added)));
        let contexts = self.contexts.iter().filter_map(|(context, _, added)| Some((context.upgrade()?, *added)));
        self.is_done() && { queues }.all(|(queue, added)| queue.is_gone() || queue.requests_passed() >= added) && {
            contexts
        }
        .all(|(context, added)| context.requests_passed() >= added)
    }
}

impl VidSch {
    /// Everything that the queues and packet contexts of `device` have been given until now.
    pub(crate) fn work_of(&self, device: &Device) -> WorkSnapshot {
        let queues = self.device_work(device).map_or_else(Vec::new, |work| work.active.queues(&self.looks));
        let pending = queues.iter().filter(|queue| !queue.is_idle());
        let contexts = self.packet_contexts_of(device);
        WorkSnapshot {
            queues: pending.map(|queue| (Arc::downgrade(queue), queue.last_queued(), queue.requests_added())).collect(),
            contexts: contexts
                .iter()
                .map(|context| (Arc::downgrade(context), context.last_submitted(), context.requests_added()))
                .collect(),
        }
    }
}

impl Device {
    /// What its queues have queued by now, as a test for when they are beyond it.
    pub(crate) fn idle_point(&self) -> IdlePoint {
        let work = self.adapter.vidsch().work_of(self);
        Arc::new(move || work.is_done())
    }
}

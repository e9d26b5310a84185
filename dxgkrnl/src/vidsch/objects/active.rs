//! Queues of a device that may have work under way.
//!
//! If thousands of idle queues were asked one by one what they have queued, the destruction of each allocation and each transition of an engine to F1
//! would cost as much as there are queues. A queue gets work by the kernel's hand, or from user mode, but then only through a
//! doorbell that the kernel connected, or when the kernel has its hardware look at the ring. Each of these lists the
//! queue here first. It is taken off again when it is found idle with its doorbell disconnected: user mode has read the status RETRY
//! by then, or will, and whatever it submits from then on counts when it has connected the doorbell again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use nt::lock::{Mutex, lock};

use crate::rank;

use super::hardware::HwQueue;

/// The queues, by our handle.
#[derive(Default)]
pub(in crate::vidsch) struct Active {
    pub(in crate::vidsch) queues: Mutex<HashMap<usize, Weak<HwQueue>>, rank::ActiveQueues>,
}

pub(in crate::vidsch) fn key(queue: &HwQueue) -> usize {
    queue.handles().0.raw().addr()
}

impl Active {
    /// The listed queues. Those that are idle with a disconnected doorbell are taken off the list. `looks` counts the queues looked at.
    pub(in crate::vidsch) fn queues(&self, looks: &AtomicU64) -> Vec<Arc<HwQueue>> {
        let mut left = Vec::new();
        lock(&self.queues).retain(|_, queue| {
            looks.fetch_add(1, Ordering::Relaxed);
            let Some(queue) = queue.upgrade() else { return false };
            // Cleared first: work that is given to the queue meanwhile either lists it again or is seen by the look below.
            queue.listed.0.store(false, Ordering::SeqCst);
            let inactive = queue.is_inactive();
            if !inactive {
                queue.listed.0.store(true, Ordering::SeqCst);
                left.push(queue);
            }
            !inactive
        });
        left
    }
}

//! Synchronization objects of before monitored fences that contexts wait for and signal: fences without an address, and notifications of the
//! processor.
//!
//! Both are a monitored fence that user mode does not see. A notification counts its signals: each one sets its event when the fence gets there.
//! [d3dukmdt: D3DDDI_FENCE, D3DDDI_CPU_NOTIFICATION]

use std::sync::Arc;

use nt::lock::{Mutex, lock};
use wddm_ddi::status::*;

use super::sync_object::SyncObject;
use crate::fence::Event;

/// Type with which user mode created the object.
enum Kind {
    Fence,
    /// The event, and how many signals there were.
    Notification(Event, Mutex<u64>),
}

/// Such an object.
pub(crate) struct OlderSync {
    kind: Kind,
    fence: Arc<SyncObject>,
}

impl OlderSync {
    /// A fence without an address.
    pub(crate) fn fence(fence: Arc<SyncObject>) -> Arc<Self> {
        Arc::new(Self { kind: Kind::Fence, fence })
    }

    /// An event of the processor that a GPU sets.
    pub(crate) fn notification(fence: Arc<SyncObject>, event: Event) -> Arc<Self> {
        Arc::new(Self { kind: Kind::Notification(event, Mutex::new(0)), fence })
    }

    /// The fence behind it.
    pub(crate) fn object(&self) -> &Arc<SyncObject> {
        &self.fence
    }

    /// What a context waits for when it waits for `value`.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a notification, which the processor waits for.
    pub(crate) fn waited(&self, value: u64) -> Result<(Arc<SyncObject>, u64), NTSTATUS> {
        match self.kind {
            Kind::Fence => Ok((Arc::clone(&self.fence), value)),
            Kind::Notification(..) => Err(STATUS_INVALID_PARAMETER),
        }
    }

    /// What a context signals when it signals `value`; of a notification the value does not matter, and its event is armed for this signal.
    ///
    /// # Errors
    /// Why nobody can wait for the fence any more.
    pub(crate) fn signalled(&self, value: u64) -> Result<(Arc<SyncObject>, u64), NTSTATUS> {
        let Kind::Notification(event, signals) = &self.kind else { return Ok((Arc::clone(&self.fence), value)) };
        let next = {
            let mut signals = lock(signals);
            *signals += 1;
            *signals
        };
        let pair = (Arc::clone(&self.fence), next);
        self.fence.adapter().vidsch().wait_with_event(std::slice::from_ref(&pair), false, event.clone())?;
        Ok(pair)
    }

    /// Ends it.
    pub(crate) fn destroy(&self) {
        self.fence.destroy();
    }
}

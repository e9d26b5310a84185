//! State of the queue of page-table updates of a context.

use std::sync::{Arc, Weak};

use nt::lock::{Mutex, lock};

use crate::rank;
use crate::vidmm::Update;

use super::device::Device;
use super::fence::SyncObject;
use super::request_queue::RequestQueue;

/// Most changes that may be queued when another request comes; it waits until there are no more.
pub(in crate::vidsch) const QUEUED_MAX: usize = 128;

/// One request.
pub(crate) struct Request {
    pub(crate) fence: Arc<SyncObject>,
    /// Value that is waited for; the fence gets the next one.
    pub(crate) value: u64,
    /// Does not wait.
    pub(crate) at_once: bool,
    pub(crate) update: Update,
}

#[derive(Default)]
pub(in crate::vidsch) struct State {
    /// Requests that wait, and threads that wait until fewer changes are queued.
    pub(in crate::vidsch) held: RequestQueue<Request>,
    /// Changes that wait or are being made.
    pub(in crate::vidsch) queued: usize,
    /// A thread is making the first one.
    pub(in crate::vidsch) busy: bool,
    /// Nothing new is accepted.
    pub(in crate::vidsch) closed: bool,
}

/// The update queue of one context.
pub(crate) struct UpdateQueue {
    pub(in crate::vidsch) this: Weak<Self>,
    pub(in crate::vidsch) device: Arc<Device>,
    /// The physical adapter whose page tables change.
    pub(in crate::vidsch) engine: u32,
    pub(in crate::vidsch) state: Mutex<State, rank::SubmissionQueue>,
}

impl UpdateQueue {
    /// The queue of a context of `device` on a physical adapter.
    pub(in crate::vidsch) fn new(device: &Arc<Device>, engine: u32) -> Arc<Self> {
        let device = Arc::clone(device);
        Arc::new_cyclic(|this| Self { this: Weak::clone(this), device, engine, state: Mutex::default() })
    }

    /// The physical adapter whose page tables change.
    pub(crate) fn engine(&self) -> u32 {
        self.engine
    }

    /// True if every request is made or dropped.
    pub(crate) fn is_done(&self) -> bool {
        let state = lock(&self.state);
        state.held.is_empty() && !state.busy
    }
}

impl State {
    pub(in crate::vidsch) fn drop_held(&mut self) {
        let dropped: usize = self.held.drain().map(|request| request.update.len()).sum();
        self.queued -= dropped;
        self.release_waiters();
    }

    /// Wakes the threads that wait until fewer changes are queued, if few enough are.
    pub(in crate::vidsch) fn release_waiters(&mut self) {
        if self.queued <= QUEUED_MAX {
            self.held.release_waiters();
        }
    }
}

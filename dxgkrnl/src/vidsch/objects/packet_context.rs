//! State of a context that is scheduled packet by packet.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use nt::lock::{Mutex, lock};
use wddm_ddi::kmt::D3DDDI_CREATECONTEXTFLAGS;
use wddm_ddi::types::D3DGPU_VIRTUAL_ADDRESS;

use crate::kmd_handle::KmdHandle;
use crate::rank;
use crate::rundown::{Destroyed, Rundown};

use super::device::Device;
use super::priority::{PacketPriority, Priority};
use super::render_adapter::RenderAdapter;
use super::request_queue::{self, RequestQueue};
use super::update_queue::UpdateQueue;

/// A command buffer of user mode.
pub(crate) struct PacketCommands {
    pub(crate) address: D3DGPU_VIRTUAL_ADDRESS,
    pub(crate) size: u32,
    pub(crate) private: Vec<u8>,
    /// Completed without being run.
    pub(crate) null: bool,
}

/// One submission; commands have their number among the packets of the context, and `after` of a signal is such a number.
pub(in crate::vidsch) type Item = request_queue::Item<(PacketCommands, u64)>;

#[derive(Default)]
pub(in crate::vidsch) struct SoftwareQueue {
    /// Submissions that wait, and the threads that wait until everything is done.
    pub(in crate::vidsch) held: RequestQueue<Item>,
    /// Packets submitted.
    pub(in crate::vidsch) submitted: u64,
    /// Packets that went to the node.
    pub(in crate::vidsch) released: u64,
}

/// A context of a device.
pub(crate) struct PacketContext {
    pub(in crate::vidsch) this: Weak<Self>,
    pub(in crate::vidsch) adapter: Arc<RenderAdapter>,
    pub(in crate::vidsch) device: Arc<Device>,
    pub(in crate::vidsch) node: u32,
    pub(in crate::vidsch) system: KmdHandle,
    pub(in crate::vidsch) kmd: KmdHandle,
    pub(in crate::vidsch) flags: D3DDDI_CREATECONTEXTFLAGS,
    /// Handle of its process.
    pub(in crate::vidsch) user_handle: AtomicU32,
    /// Bytes of private data that the driver gets with a packet.
    pub(in crate::vidsch) private_size: u32,
    pub(in crate::vidsch) global: AtomicI32,
    pub(in crate::vidsch) in_process: AtomicI32,
    pub(in crate::vidsch) software_queue: Mutex<SoftwareQueue, rank::SubmissionQueue>,
    pub(in crate::vidsch) updates: Arc<UpdateQueue>,
    /// Packets that are done, run or dropped: all up to this number.
    pub(in crate::vidsch) finished: AtomicU64,
    /// Submissions and threads that wait in the software queue; if there are any, it is looked at whenever a packet is finished.
    pub(in crate::vidsch) attention: AtomicUsize,
    /// Its process is suspended: its packets wait.
    pub(in crate::vidsch) away: AtomicBool,
    /// Nothing of it runs any more.
    pub(in crate::vidsch) lost: AtomicBool,
    /// The driver is about to destroy it, and is told of none of its packets any more.
    pub(in crate::vidsch) ended: AtomicBool,
    /// Closed once nothing new is accepted.
    pub(in crate::vidsch) rundown: Rundown,
    /// Held by whoever destroys the context, so that a second one returns when it is gone; true from then on.
    pub(in crate::vidsch) teardown: Mutex<bool, rank::ContextTeardown>,
    /// The driver does not know it any more. Held while it is told of the context.
    pub(in crate::vidsch) gone: Mutex<bool, rank::Suspending>,
}

impl Destroyed for PacketContext {
    fn rundown(&self) -> &Rundown {
        &self.rundown
    }

    fn is_of_lost_device(&self) -> bool {
        self.device.error().is_some()
    }
}

impl PacketContext {
    /// The device it belongs to.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Page-table updates in the order of its work.
    pub(crate) fn updates(&self) -> &Arc<UpdateQueue> {
        &self.updates
    }

    /// The node its packets run on.
    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// As it was created.
    pub(crate) fn flags(&self) -> D3DDDI_CREATECONTEXTFLAGS {
        self.flags
    }

    /// Our handle and the driver's.
    pub(crate) fn handles(&self) -> (KmdHandle, KmdHandle) {
        (self.system, self.kmd)
    }

    /// Handle of the context in its process; 0 until it is known.
    pub(crate) fn user_handle(&self) -> &AtomicU32 {
        &self.user_handle
    }

    /// True if its packets may run as long as they like. [d3dkmthk: D3DDDI_CREATECONTEXTFLAGS]
    pub(in crate::vidsch) fn is_unlimited(&self) -> bool {
        self.flags.DisableGpuTimeout()
    }

    /// Packets that are done, run or dropped, and packets submitted.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.finished.load(Ordering::Acquire), lock(&self.software_queue).submitted)
    }

    pub(in crate::vidsch) fn is_destroyed(&self) -> bool {
        self.rundown.is_closed()
    }

    /// True if nothing of it runs any more. Takes leaves only.
    pub(in crate::vidsch) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire) || self.device.error().is_some()
    }

    /// True if its packets wait for its process to be resumed. Takes no locks.
    pub(in crate::vidsch) fn is_away(&self) -> bool {
        self.away.load(Ordering::Acquire)
    }

    /// The priorities that the context was given last: among all contexts, and within its process.
    pub(crate) fn priority(&self) -> Priority {
        Priority { global: self.global.load(Ordering::Acquire), in_process: self.in_process.load(Ordering::Acquire) }
    }

    /// Whose packets go before whose.
    pub(in crate::vidsch) fn packet_priority(&self) -> PacketPriority {
        let priority = self.priority();
        let process = &self.device.process;
        PacketPriority {
            among_all: priority.among_all(process.class.get()),
            process: Arc::as_ptr(process).addr(),
            in_process: priority.in_process,
        }
    }

    /// True if the wait of the first submission is met, and its end has yet to be told.
    pub(in crate::vidsch) fn is_about_to_move(&self) -> bool {
        lock(&self.software_queue).held.is_about_to_move()
    }

    /// Number of the last packet submitted.
    pub(crate) fn last_submitted(&self) -> u64 {
        lock(&self.software_queue).submitted
    }

    /// True if the packets up to this number are done, or will never run.
    pub(crate) fn is_finished(&self, number: u64) -> bool {
        self.finished.load(Ordering::Acquire) >= number
    }

    /// Submissions that wait in the system, and signals that wait for packets.
    pub(in crate::vidsch) fn unsettled(&self) -> usize {
        self.attention.load(Ordering::SeqCst)
    }

    /// Requests of software that were ever queued.
    pub(in crate::vidsch) fn requests_added(&self) -> u64 {
        lock(&self.software_queue).held.added()
    }

    /// Of those, the ones that are over.
    pub(in crate::vidsch) fn requests_passed(&self) -> u64 {
        lock(&self.software_queue).held.passed()
    }

    /// Submissions that wait in the system.
    pub(crate) fn held(&self) -> usize {
        lock(&self.software_queue).held.len()
    }

    /// Packets that are done, run or dropped.
    pub(in crate::vidsch) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }

    /// True if the node has packets of it.
    pub(in crate::vidsch) fn runs(&self) -> bool {
        lock(&self.software_queue).released > self.finished()
    }

    /// True if everything that was submitted is done, and every page-table update that was queued.
    pub(crate) fn is_done(&self) -> bool {
        let (finished, submitted) = self.progress();
        finished == submitted && self.held() == 0 && self.updates.is_done()
    }

    /// True if the context owns a mutex.
    pub(crate) fn owns_mutex(&self) -> bool {
        lock(&self.software_queue).held.owns_mutex()
    }
}

//! State of hardware contexts, of their queues, and of the doorbells of those.
//!
//! They stand in one file because each knows the next one: a context has queues, a queue its context and its doorbell, and a doorbell its queue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use nt::lock::{Condvar, Mutex, MutexGuard, lock};
use wddm_ddi::km::*;
use wddm_ddi::types::{D3DGPU_VIRTUAL_ADDRESS, D3DKMT_HANDLE};

use crate::kmd_handle::KmdHandle;
use crate::quota::HardwarePlace;
use crate::rank;
use crate::rundown::{Destroyed, Rundown};

use super::device::Device;
use super::doorbell_memory::{DoorbellWindow, DoorbellWord, Rings};
use super::fence::SyncObject;
use super::priority::{Priority, Told};
use super::render_adapter::RenderAdapter;
use super::request_queue::{self, RequestQueue};
use super::update_queue::UpdateQueue;
use crate::vidsch::doorbell_state::DoorbellState;

#[derive(Clone, Copy, Debug, Default)]
pub(in crate::vidsch) struct Suspension {
    pub(in crate::vidsch) issued: u64,
    /// The last one that the driver reported.
    pub(in crate::vidsch) completed: u64,
    /// The last one that the driver granted at once.
    pub(in crate::vidsch) granted: u64,
    /// The last one before the context was resumed.
    pub(in crate::vidsch) resumed: u64,
    /// Number of those that the driver granted at once although nobody had asked before.
    pub(in crate::vidsch) early: u64,
}

impl Suspension {
    /// The last one that is complete.
    fn answered(&self) -> u64 {
        self.completed.max(self.granted)
    }
}

/// A hardware context of a device.
pub(crate) struct HwContext {
    pub(in crate::vidsch) adapter: Arc<RenderAdapter>,
    pub(in crate::vidsch) device: Arc<Device>,
    pub(in crate::vidsch) node: u32,
    pub(in crate::vidsch) system: KmdHandle,
    pub(in crate::vidsch) kmd: KmdHandle,
    pub(in crate::vidsch) updates: Arc<UpdateQueue>,
    /// Live queues.
    pub(in crate::vidsch) queues: Mutex<Vec<Weak<HwQueue>>>,
    /// Device level takes it.
    pub(in crate::vidsch) suspension: Mutex<Suspension, rank::ContextSuspension>,
    pub(in crate::vidsch) suspended: Condvar,
    /// One thread at a time is in the DDIs that suspend, resume and destroy; true once the driver does not know the context any more. Lock
    /// order: before the adapter's interrupt lock.
    pub(in crate::vidsch) suspending: Mutex<bool, rank::Suspending>,
    /// Closed once it is being destroyed.
    pub(in crate::vidsch) rundown: Rundown,
    /// Held by whoever destroys the context, so that a second one returns when it is gone, and by whoever changes its priority;
    /// true once it is gone.
    pub(in crate::vidsch) teardown: Mutex<bool, rank::ContextTeardown>,
    pub(in crate::vidsch) told: Mutex<Told>,
    /// Counts it among those that the process may have; given back when this is dropped.
    pub(in crate::vidsch) _place: HardwarePlace,
}

impl Destroyed for HwContext {
    fn rundown(&self) -> &Rundown {
        &self.rundown
    }

    fn is_of_lost_device(&self) -> bool {
        self.device.error().is_some()
    }
}

/// A hardware queue of a context.
pub(crate) struct HwQueue {
    pub(in crate::vidsch) this: Weak<Self>,
    pub(in crate::vidsch) context: Arc<HwContext>,
    pub(in crate::vidsch) system: KmdHandle,
    pub(in crate::vidsch) kmd: KmdHandle,
    pub(in crate::vidsch) flags: D3DDDI_CREATEHWQUEUEFLAGS,
    /// True if the queue has fence logs.
    pub(in crate::vidsch) logged: bool,
    pub(in crate::vidsch) progress: Arc<SyncObject>,
    /// Handle of the progress fence in the process.
    pub(in crate::vidsch) progress_handle: D3DKMT_HANDLE,
    /// Its own handle in the process, 0 until it has one.
    pub(in crate::vidsch) user_handle: Arc<AtomicU32>,
    pub(in crate::vidsch) doorbell: Mutex<Option<Arc<Doorbell>>>,
    /// Those that it had before, too.
    pub(in crate::vidsch) doorbells: Mutex<Vec<Weak<Doorbell>>>,
    /// Held while a doorbell of the queue is made: it has one, and which is told to the driver in the same order.
    pub(in crate::vidsch) making_doorbell: Mutex<(), rank::MakingDoorbell>,
    /// The greatest progress value that was submitted through a doorbell that the queue no longer has.
    pub(in crate::vidsch) left_behind: AtomicU64,
    /// It was noted that user mode breaks the order of a submission.
    pub(in crate::vidsch) misordered: AtomicBool,
    /// Progress value of the last buffer that the kernel submitted. Read without the lock, which may be held for long.
    pub(in crate::vidsch) last_submitted: AtomicU64,
    /// Submissions that wait in the system. Read without the lock of the software queue, which is held while the node is woken.
    pub(in crate::vidsch) held: AtomicUsize,
    /// Held by the thread that submits through the kernel, also while it waits for the node to take another buffer.
    pub(in crate::vidsch) submitting: Mutex<(), rank::Submitting>,
    /// Held across DxgkDdiSubmitCommandToHwQueue, which is not re-entered for one queue; never while waiting.
    pub(in crate::vidsch) software_queue: Mutex<SoftwareQueue, rank::SubmissionQueue>,
    /// It is among the queues that may have work under way.
    pub(in crate::vidsch) listed: Listed,
    /// Closed once nothing new is accepted.
    pub(in crate::vidsch) rundown: Rundown,
    /// The driver has let go.
    pub(in crate::vidsch) gone: AtomicBool,
    /// Held by whoever destroys the queue, so that a second one returns when it is gone; true from then on.
    pub(in crate::vidsch) teardown: Mutex<bool, rank::QueueTeardown>,
    /// Counts it among those that the process may have; given back when this is dropped.
    pub(in crate::vidsch) _place: HardwarePlace,
}

impl Destroyed for HwQueue {
    fn rundown(&self) -> &Rundown {
        &self.rundown
    }

    fn is_of_lost_device(&self) -> bool {
        self.context.device().error().is_some()
    }
}

/// True if a queue is listed. Read without the lock.
#[derive(Default)]
pub(in crate::vidsch) struct Listed(pub(in crate::vidsch) AtomicBool);

/// A command buffer.
pub(crate) struct Commands {
    /// Progress value that says it is done.
    pub(crate) progress: u64,
    pub(crate) address: D3DGPU_VIRTUAL_ADDRESS,
    pub(crate) size: u32,
    pub(crate) private: Vec<u8>,
}

/// One submission; `after` of a signal is a progress value of the queue.
pub(in crate::vidsch) type Item = request_queue::Item<Commands>;

/// The software queue of one hardware queue.
#[derive(Default)]
pub(in crate::vidsch) struct SoftwareQueue {
    /// Progress values of the buffers that the driver has and that are not counted as completed yet.
    pub(in crate::vidsch) in_flight: VecDeque<u64>,
    pub(in crate::vidsch) held: RequestQueue<Item>,
    /// Progress value of the last buffer that the driver has.
    pub(in crate::vidsch) handed_over: u64,
}

/// State of a doorbell in the driver, as far as it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vidsch) enum OnDriver {
    /// It may believe that it is connected, and must be told before it is gone. Telling it once too often is harmless.
    Connected,
    /// It was told that it is not, or took it away itself. What user mode has written since is found when it is told again.
    Disconnected,
    /// It was told when the ring came to its end.
    Ended,
}

/// State of a doorbell towards user mode and towards the driver.
pub(in crate::vidsch) struct Shown {
    pub(in crate::vidsch) state: DoorbellState,
    pub(in crate::vidsch) on_driver: OnDriver,
}

/// The doorbell of a queue for user-mode submission.
pub(crate) struct Doorbell {
    pub(in crate::vidsch) adapter: Arc<RenderAdapter>,
    pub(in crate::vidsch) queue: Arc<HwQueue>,
    pub(in crate::vidsch) system: KmdHandle,
    pub(in crate::vidsch) kmd: KmdHandle,
    pub(in crate::vidsch) rings: Rings,
    pub(in crate::vidsch) primary: DoorbellWindow,
    pub(in crate::vidsch) secondary: Option<DoorbellWindow>,
    /// User mode only reads it.
    pub(in crate::vidsch) status: DoorbellWord,
    pub(in crate::vidsch) last_queued: DoorbellWord,
    /// One thread at a time connects, disconnects or destroys; held across those DDIs. True as long as
    /// the doorbell exists.
    pub(in crate::vidsch) exists: Mutex<bool, rank::DoorbellExists>,
    /// Never held across a DDI: the driver takes doorbells away from inside DxgkDdiConnectDoorbell,
    /// of this or any other doorbell, on the same thread or another.
    pub(in crate::vidsch) shown: Mutex<Shown, rank::DoorbellShown>,
}

impl HwContext {
    /// The device it belongs to.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Page-table updates in the order of its work.
    pub(crate) fn updates(&self) -> &Arc<UpdateQueue> {
        &self.updates
    }

    pub(crate) fn adapter(&self) -> &Arc<RenderAdapter> {
        &self.adapter
    }

    /// The node its queues run on.
    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// Our handle and the driver's.
    pub(crate) fn handles(&self) -> (KmdHandle, KmdHandle) {
        (self.system, self.kmd)
    }

    /// True if the context is being destroyed or gone.
    pub(crate) fn is_destroyed(&self) -> bool {
        self.rundown.is_closed()
    }

    /// Live queues, oldest first.
    pub(crate) fn queues(&self) -> Vec<Arc<HwQueue>> {
        lock(&self.queues).iter().filter_map(Weak::upgrade).collect()
    }

    pub(in crate::vidsch) fn add_queue(&self, queue: &Arc<HwQueue>) {
        lock(&self.queues).push(Arc::downgrade(queue));
    }

    pub(in crate::vidsch) fn remove_queue(&self, queue: &HwQueue) {
        lock(&self.queues).retain(|other| !core::ptr::eq(other.as_ptr(), queue));
    }

    /// True if a suspension that was asked for is complete, or a later one is.
    pub(crate) fn has_suspended(&self, fence: u64) -> bool {
        lock(&self.suspension).answered() >= fence
    }

    /// True while a suspension that was asked for is not complete.
    pub(crate) fn is_leaving(&self) -> bool {
        let suspension = lock(&self.suspension);
        suspension.issued > suspension.answered().max(suspension.resumed)
    }

    /// True from a suspension that is complete until the context is resumed.
    pub(crate) fn is_off(&self) -> bool {
        let suspension = lock(&self.suspension);
        suspension.answered() > suspension.resumed
    }

    /// True if the last suspension that was asked for is complete.
    pub(crate) fn has_left(&self) -> bool {
        let suspension = lock(&self.suspension);
        suspension.answered() >= suspension.issued
    }

    /// The driver reports a suspension as complete; at device level. False for a fence that is not under way.
    pub(in crate::vidsch) fn suspend_completed(&self, fence: u64) -> bool {
        let mut suspension = lock(&self.suspension);
        let expected = fence > suspension.completed && fence <= suspension.issued;
        if expected {
            suspension.completed = fence;
        }
        expected
    }

    /// Wakes whoever waits for a suspension.
    pub(in crate::vidsch) fn announce_suspended(&self) {
        self.suspended.notify_all();
    }

    /// Number of suspensions that the driver said were done already, which were not.
    pub(crate) fn early_suspensions(&self) -> u64 {
        lock(&self.suspension).early
    }

    /// Suspensions asked for, and the last one answered, for reports.
    pub(crate) fn suspensions(&self) -> (u64, u64) {
        let suspension = lock(&self.suspension);
        (suspension.issued, suspension.completed.max(suspension.granted))
    }

    /// The priorities that the driver was told last: among all contexts, and within the process.
    pub(crate) fn priority(&self) -> Priority {
        lock(&self.told).priority
    }
}

impl HwQueue {
    /// The context it belongs to.
    pub(crate) fn context(&self) -> &Arc<HwContext> {
        &self.context
    }

    /// Our handle and the driver's.
    pub(crate) fn handles(&self) -> (KmdHandle, KmdHandle) {
        (self.system, self.kmd)
    }

    /// Flags it was created with.
    pub(crate) fn flags(&self) -> D3DDDI_CREATEHWQUEUEFLAGS {
        self.flags
    }

    /// True if a log tells what it signals.
    pub(in crate::vidsch) fn is_logged(&self) -> bool {
        self.logged
    }

    /// The progress fence.
    pub(crate) fn progress(&self) -> &Arc<SyncObject> {
        &self.progress
    }

    /// Handle of its progress fence in the process.
    pub(crate) fn progress_handle(&self) -> D3DKMT_HANDLE {
        self.progress_handle
    }

    /// Its own handle in the process, 0 until it has one.
    pub(crate) fn user_handle(&self) -> &Arc<AtomicU32> {
        &self.user_handle
    }

    /// The doorbell; `None` for a queue that was created without one or whose doorbell was destroyed.
    pub(crate) fn doorbell(&self) -> Option<Arc<Doorbell>> {
        lock(&self.doorbell).clone()
    }

    /// True if the queue is being destroyed or gone.
    pub(crate) fn is_destroyed(&self) -> bool {
        self.rundown.is_closed()
    }

    /// True if the hardware does not run it any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Makes `doorbell` the queue's in the place of `old`, if that is the one it has.
    pub(in crate::vidsch) fn set_doorbell(&self, doorbell: &Arc<Doorbell>, old: Option<&Doorbell>) -> bool {
        let mut place = lock(&self.doorbell);
        let expected = place.as_deref().map(core::ptr::from_ref) == old.map(core::ptr::from_ref);
        if expected {
            *place = Some(Arc::clone(doorbell));
        }
        expected
    }

    /// `doorbell` is there, and is destroyed before the queue.
    pub(in crate::vidsch) fn add_doorbell(&self, doorbell: &Arc<Doorbell>) {
        lock(&self.doorbells).push(Arc::downgrade(doorbell));
    }

    /// `doorbell` is gone, with what it had queued.
    pub(in crate::vidsch) fn clear_doorbell(&self, doorbell: &Doorbell) {
        lock(&self.doorbells).retain(|other| !core::ptr::eq(other.as_ptr(), doorbell));
        let mut place = lock(&self.doorbell);
        if place.as_deref().is_some_and(|current| core::ptr::eq(current, doorbell)) {
            self.left_behind.fetch_max(doorbell.last_queued(), Ordering::AcqRel);
            *place = None;
        }
    }

    /// Progress value at which everything that was submitted until now is done. User mode writes it and may lie.
    pub(crate) fn last_queued(&self) -> u64 {
        if self.flags.UserModeSubmission() {
            let doorbell = lock(&self.doorbell).as_ref().map_or(0, |doorbell| doorbell.last_queued());
            doorbell.max(self.left_behind.load(Ordering::Acquire))
        } else {
            self.last_submitted.load(Ordering::Acquire)
        }
    }

    /// Submissions that the system has still to hand over, because they wait.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// As [`HwQueue::is_idle`], without a look at what user mode does wrong.
    pub(crate) fn is_done(&self) -> bool {
        self.held.load(Ordering::Acquire) == 0 && self.progress.is_reached(self.last_queued())
    }

    /// Nothing is under way, and nothing can come without [`HwQueue::note_active`].
    pub(in crate::vidsch) fn is_inactive(&self) -> bool {
        // The doorbell before the value: what came through it was counted before it was disconnected.
        self.doorbell().is_none_or(|doorbell| doorbell.is_disconnected()) && self.is_done()
    }

    /// True if the wait of the first submission is met, and its end has yet to be told.
    pub(in crate::vidsch) fn is_about_to_move(&self) -> bool {
        lock(&self.software_queue).held.is_about_to_move()
    }

    /// Requests of software that were ever queued.
    pub(in crate::vidsch) fn requests_added(&self) -> u64 {
        lock(&self.software_queue).held.added()
    }

    /// Of those, the ones that are over.
    pub(in crate::vidsch) fn requests_passed(&self) -> u64 {
        lock(&self.software_queue).held.passed()
    }

    /// Progress value at which the hardware has done everything that it has of the queue, whatever still waits in the system.
    pub(in crate::vidsch) fn on_hardware(&self) -> u64 {
        if self.flags().UserModeSubmission() { self.last_queued() } else { lock(&self.software_queue).handed_over }
    }
}

impl Doorbell {
    /// The queue it belongs to.
    pub(crate) fn queue(&self) -> &Arc<HwQueue> {
        &self.queue
    }

    /// Our handle and the driver's.
    pub(crate) fn handles(&self) -> (KmdHandle, KmdHandle) {
        (self.system, self.kmd)
    }

    /// Where user mode rings, and the second place if it asked for one.
    pub(crate) fn user_addresses(&self) -> (usize, usize) {
        let address = |window: &DoorbellWindow| window.mapping.address();
        (address(&self.primary), self.secondary.as_ref().map_or(0, address))
    }

    /// User-mode address of the status word.
    pub(crate) fn user_status(&self) -> usize {
        self.status.mapping.address()
    }

    /// User-mode address of the last-queued value.
    pub(crate) fn user_last_queued(&self) -> usize {
        self.last_queued.mapping.address()
    }

    /// The status word.
    pub(crate) fn status(&self) -> u64 {
        self.status.get().load(Ordering::Acquire)
    }

    /// The progress value that user mode queued last, as it says.
    pub(crate) fn last_queued(&self) -> u64 {
        self.last_queued.get().load(Ordering::Acquire)
    }

    /// State that user mode sees.
    pub(crate) fn state(&self) -> DoorbellState {
        lock(&self.shown).state
    }

    /// True if no physical doorbell is shown or about to be. While the process is asked to show another page, which may take its time, the answer is no.
    pub(crate) fn is_disconnected(&self) -> bool {
        let shown = self.shown.try_lock();
        shown.is_some_and(|shown| matches!(shown.state, DoorbellState::Disconnected | DoorbellState::Aborted))
    }

    /// True if the queue's ring is this doorbell's, not that of one which took its place.
    pub(in crate::vidsch) fn is_current(&self) -> bool {
        self.queue.doorbell().is_some_and(|doorbell| core::ptr::eq(&*doorbell, self))
    }

    /// A thread that makes a doorbell for a queue locks the old one first, whose handle is smaller.
    pub(in crate::vidsch) fn lock_exists(&self) -> MutexGuard<'_, bool, rank::DoorbellExists> {
        self.exists.lock_in_order(self.system.raw().addr() as u64)
    }
}

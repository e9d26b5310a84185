//! Hardware queues: creation with a progress fence, destruction. Submission through the kernel is in [`super::software_queue`].

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use nt::lock::{Mutex, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::ddi_buffer::LentBytes;
use crate::kmd_handle::KmdHandle;
use crate::rank;
use crate::refusal::{Failure, refused};
use crate::rundown::{Destroyed, Rundown};

use super::VidSch;
use super::active::Listed;
use super::doorbell::Doorbell;
use super::hw_context::HwContext;
use super::native_fence::FenceOptions;
use super::software_queue::SoftwareQueue;
use super::sync_object::SyncObject;

/// A hardware queue of a context.
pub(crate) struct HwQueue {
    pub(super) this: Weak<Self>,
    context: Arc<HwContext>,
    system: KmdHandle,
    kmd: KmdHandle,
    flags: D3DDDI_CREATEHWQUEUEFLAGS,
    /// True if the queue has fence logs.
    logged: bool,
    progress: Arc<SyncObject>,
    /// Handle of the progress fence in the process.
    progress_handle: D3DKMT_HANDLE,
    /// Its own handle in the process, 0 until it has one.
    user_handle: Arc<AtomicU32>,
    doorbell: Mutex<Option<Arc<Doorbell>>>,
    /// Those that it had before, too.
    doorbells: Mutex<Vec<Weak<Doorbell>>>,
    /// Held while a doorbell of the queue is made: it has one, and which is told to the driver in the same order.
    pub(super) making_doorbell: Mutex<(), rank::MakingDoorbell>,
    /// The greatest progress value that was submitted through a doorbell that the queue no longer has.
    left_behind: AtomicU64,
    /// It was noted that user mode breaks the order of a submission.
    misordered: AtomicBool,
    /// Progress value of the last buffer that the kernel submitted. Read without the lock, which may be held for long.
    pub(super) last_submitted: AtomicU64,
    /// Submissions that wait in the system. Read without the lock of the software queue, which is held while the node is woken.
    pub(super) held: AtomicUsize,
    /// Held by the thread that submits through the kernel, also while it waits for the node to take another buffer.
    pub(super) submitting: Mutex<(), rank::Submitting>,
    /// Held across DxgkDdiSubmitCommandToHwQueue, which is not re-entered for one queue; never while waiting.
    pub(super) software_queue: Mutex<SoftwareQueue, rank::SubmissionQueue>,
    /// It is among the queues that may have work under way.
    pub(super) listed: Listed,
    /// Closed once nothing new is accepted.
    rundown: Rundown,
    /// The driver has let go.
    gone: AtomicBool,
    /// Held by whoever destroys the queue, so that a second one returns when it is gone; true from then on.
    teardown: Mutex<bool, rank::QueueTeardown>,
}

impl VidSch {
    /// Checks that a queue with these flags may exist in `context`.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for flags that contradict each other or the node; STATUS_NOT_SUPPORTED for features
    /// that are off.
    pub(crate) fn check_queue_flags(
        &self,
        context: &HwContext,
        flags: D3DDDI_CREATEHWQUEUEFLAGS,
        private_size: usize,
    ) -> Result<(), Failure> {
        const KNOWN: u32 = 0x7f;
        let caps = context.adapter().caps();
        let node = caps.nodes.get(context.node() as usize).ok_or(STATUS_INVALID_PARAMETER)?;
        let (invalid, unsupported) = (STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED);
        let refusal = match flags {
            _ if flags.into_bits() & !KNOWN != 0 => (invalid, "Flags has bits that no flag of queues has"),
            _ if flags.NativeProgressFence() && !caps.features.native_fence => {
                (unsupported, "Flags.NativeProgressFence is set, and the adapter is without DXGK_FEATURE_NATIVE_FENCE")
            }
            _ if flags.UserModeSubmission()
                && (!caps.features.user_mode_submission || caps.user_mode_submission.is_none()) =>
            {
                (
                    unsupported,
                    "Flags.UserModeSubmission is set, and the adapter is without DXGK_FEATURE_USER_MODE_SUBMISSION",
                )
            }
            _ if flags.UserModeSubmission() && !node.user_mode_submission => {
                (invalid, "Flags.UserModeSubmission is set, and the node is without UserModeSubmissionSupported")
            }
            // The GPU itself must be able to wait for such a queue.
            _ if flags.UserModeSubmission() && !flags.NativeProgressFence() => {
                (invalid, "Flags.UserModeSubmission is set without NativeProgressFence")
            }
            _ if flags.TestQueue() && !caps.features.kernel_mode_testing => {
                (unsupported, "Flags.TestQueue is set, and the adapter is without DXGK_FEATURE_KERNEL_MODE_TESTING")
            }
            _ if flags.TestQueue() && private_size != 0 => {
                (invalid, "PrivateDriverDataSize is not 0, and a queue with Flags.TestQueue has no private data")
            }
            _ if flags.TestQueue() && flags.UserModeSubmission() => {
                (invalid, "Flags.TestQueue and UserModeSubmission are set together")
            }
            _ => return Ok(()),
        };
        Err(refused(refusal.0, refusal.1))
    }

    /// Creates the progress fence of a queue with `flags`.
    ///
    /// # Errors
    /// No memory, or what the driver answered.
    pub(crate) fn create_progress_fence(
        &self,
        context: &HwContext,
        flags: D3DDDI_CREATEHWQUEUEFLAGS,
    ) -> Result<Arc<SyncObject>, Failure> {
        let options = FenceOptions { of_queue: true, ..FenceOptions::default() };
        if flags.NativeProgressFence() {
            self.create_native_fence(context.device(), options, &mut [0; 64])
        } else {
            self.create_monitored_fence(context.device(), options)
        }
    }

    /// Creates a queue whose progress fence has the user handle `progress_handle`. [d3dkmddi: DXGKARG_CREATEHWQUEUE]
    ///
    /// # Errors
    /// What the driver answered; the fence is left to the caller.
    pub(crate) fn create_hw_queue(
        &self,
        context: &Arc<HwContext>,
        flags: D3DDDI_CREATEHWQUEUEFLAGS,
        private: &mut [u8],
        progress: Arc<SyncObject>,
        progress_handle: D3DKMT_HANDLE,
    ) -> Result<Arc<HwQueue>, Failure> {
        let _running = self.enter()?;
        let _running = self.keep_running(context.device())?;
        let adapter = context.adapter();
        if context.is_destroyed() {
            return Err(STATUS_INVALID_HANDLE.into());
        }
        let logs = if flags.UserModeSubmission() { self.new_fence_logs(context.device())? } else { None };
        let system = self.queues.reserve();
        let mut args = DXGKARG_CREATEHWQUEUE::zeroed();
        (args.hHwQueue, args.Flags, args.hHwQueueProgressFence) = (system.raw(), flags, progress_handle);
        let mut lent = LentBytes::new(private);
        (args.pPrivateDriverData, args.PrivateDriverDataSize) = lent.place();
        args.HwQueueProgressFenceCPUVirtualAddress = progress.kernel_address().cast();
        args.HwQueueProgressFenceGPUVirtualAddress = progress.gpu_address();
        let status = adapter.miniport.create_hw_queue(context.handles().1.raw(), &mut args);
        lent.end(adapter.machine.verifier(), "DxgkDdiCreateHwQueue", "pPrivateDriverData");
        status.ok()?;
        let member = ("DXGKARG_CREATEHWQUEUE", "hHwQueue");
        let kmd = KmdHandle::new(args.hHwQueue);
        let kmd = kmd.answered(system.raw(), "DxgkDdiCreateHwQueue", member)?;
        let queue = Arc::new_cyclic(|this| HwQueue {
            this: Weak::clone(this),
            context: Arc::clone(context),
            system,
            kmd,
            flags,
            logged: logs.is_some(),
            progress,
            progress_handle,
            user_handle: Arc::new(AtomicU32::new(0)),
            doorbell: Mutex::new(None),
            doorbells: Mutex::default(),
            making_doorbell: Mutex::new(()),
            left_behind: AtomicU64::new(0),
            last_submitted: AtomicU64::new(0),
            misordered: AtomicBool::new(false),
            held: AtomicUsize::new(0),
            submitting: Mutex::new(()),
            software_queue: Mutex::default(),
            listed: Listed::default(),
            rundown: Rundown::default(),
            gone: AtomicBool::new(false),
            teardown: Mutex::new(false),
        });
        if let Some(logs) = logs
            && let Err(failure) = self.attach_fence_logs(&queue, logs)
        {
            let destroyed = adapter.miniport.destroy_hw_queue(kmd.raw());
            self.must_not_fail(destroyed);
            return Err(failure);
        }
        self.queues.publish(system, &queue);
        self.driver_queues.publish(kmd, &queue);
        context.add_queue(&queue);
        if context.is_destroyed() {
            queue.destroy();
            return Err(STATUS_INVALID_HANDLE.into());
        }
        Ok(queue)
    }
}

impl Destroyed for HwQueue {
    fn rundown(&self) -> &Rundown {
        &self.rundown
    }

    fn is_of_lost_device(&self) -> bool {
        self.context.device().error().is_some()
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
    pub(super) fn is_logged(&self) -> bool {
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

    pub(super) fn sch(&self) -> &Arc<VidSch> {
        self.context.adapter().vidsch()
    }

    /// Makes `doorbell` the queue's in the place of `old`, if that is the one it has.
    pub(super) fn set_doorbell(&self, doorbell: &Arc<Doorbell>, old: Option<&Doorbell>) -> bool {
        let mut place = lock(&self.doorbell);
        let expected = place.as_deref().map(core::ptr::from_ref) == old.map(core::ptr::from_ref);
        if expected {
            *place = Some(Arc::clone(doorbell));
        }
        expected
    }

    /// `doorbell` is there, and is destroyed before the queue.
    pub(super) fn add_doorbell(&self, doorbell: &Arc<Doorbell>) {
        lock(&self.doorbells).push(Arc::downgrade(doorbell));
    }

    /// `doorbell` is gone, with what it had queued.
    pub(super) fn clear_doorbell(&self, doorbell: &Doorbell) {
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

    /// True if nothing is under way or held.
    pub(crate) fn is_idle(&self) -> bool {
        self.check_order();
        self.is_done()
    }

    /// As [`HwQueue::is_idle`], without a look at what user mode does wrong.
    pub(crate) fn is_done(&self) -> bool {
        self.held.load(Ordering::Acquire) == 0 && self.progress.is_reached(self.last_queued())
    }

    /// Notes, once, a user-mode driver that shows work to the GPU before the last queued value tells of it: the system
    /// would take the queue for idle while it works, and put the engine to sleep or miss a hang.
    /// [user-mode-work-submission: progress fence of a queue]
    pub(crate) fn check_order(&self) {
        if !self.flags.UserModeSubmission() {
            return;
        }
        let progress = self.progress.current();
        // Read after the progress, the value is not older: whoever keeps the order has written it before.
        let queued = self.last_queued();
        // The fences of a lost device have values that nobody queued.
        let lost = self.context.device().error().is_some();
        if progress > queued && !lost && !self.misordered.swap(true, Ordering::AcqRel) {
            let process = self.context.device().process.owner();
            self.sch().verifier.log(format!(
                "{process}: a queue on node {} has done {progress} of its work, but only {queued} was said \
                 to be queued; the last queued value must be written before the work becomes visible",
                self.context.node()
            ));
        }
    }

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

//! Hardware contexts: creation, suspension, destruction.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nt::lock::{Condvar, Mutex, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::ddi_buffer::LentBytes;
use crate::kmd_handle::KmdHandle;
use crate::rank;
use crate::refusal::{Failure, refused};
use crate::rescue::Rescue;
use crate::rundown::{Destroyed, Rundown};
use crate::vidsch::{Device, RenderAdapter};

use super::VidSch;
use super::hw_queue::HwQueue;
use super::priority::{Priority, Told};
use super::process_suspension::NotRunning;
use super::update_queue::UpdateQueue;

/// Time between two looks for a report that is late.
const NAP: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, Default)]
struct Suspension {
    issued: u64,
    /// The last one that the driver reported.
    completed: u64,
    /// The last one that the driver granted at once.
    granted: u64,
    /// The last one before the context was resumed.
    resumed: u64,
    /// Number of those that the driver granted at once although nobody had asked before.
    early: u64,
}

impl Suspension {
    /// The last one that is complete.
    fn answered(&self) -> u64 {
        self.completed.max(self.granted)
    }
}

/// The suspension of a context was requested.
pub(super) struct Asked {
    /// What [`HwContext::begin_suspension`] answered.
    pub(super) answer: Result<Option<u64>, NTSTATUS>,
    /// Resets of the engine until then, and those that were begun.
    resets: u64,
    begun: u64,
}

/// A hardware context of a device.
pub(crate) struct HwContext {
    adapter: Arc<RenderAdapter>,
    device: Arc<Device>,
    node: u32,
    system: KmdHandle,
    kmd: KmdHandle,
    updates: Arc<UpdateQueue>,
    /// Live queues.
    queues: Mutex<Vec<Weak<HwQueue>>>,
    /// Device level takes it.
    suspension: Mutex<Suspension, rank::ContextSuspension>,
    suspended: Condvar,
    /// One thread at a time is in the DDIs that suspend, resume and destroy; true once the driver does not know the context any more. Lock
    /// order: before the adapter's interrupt lock.
    suspending: Mutex<bool, rank::Suspending>,
    /// Closed once it is being destroyed.
    rundown: Rundown,
    /// Held by whoever destroys the context, so that a second one returns when it is gone, and by whoever changes its priority;
    /// true once it is gone.
    pub(super) teardown: Mutex<bool, rank::ContextTeardown>,
    pub(super) told: Mutex<Told>,
}

impl VidSch {
    /// Creates a hardware context on a node of the engine that an affinity means, with the page tables of the device's process and normal priority, ready
    /// for its first submission. [d3dkmddi: DXGKARG_CREATEHWCONTEXT]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a node without hardware contexts, or an affinity that is not one engine; STATUS_NOT_SUPPORTED without hardware scheduling;
    /// what the driver answered.
    pub(crate) fn create_hw_context(
        &self,
        device: &Arc<Device>,
        node_ordinal: u32,
        engine_affinity: u32,
        private: &mut [u8],
    ) -> Result<Arc<HwContext>, Failure> {
        let _running = self.enter()?;
        let _running = self.keep_running(device)?;
        let adapter = &device.adapter;
        let caps = adapter.caps();
        if !caps.features.hardware_scheduling {
            return Err(refused(
                STATUS_NOT_SUPPORTED,
                "the adapter is without DXGK_FEATURE_HWSCH, hardware scheduling",
            ));
        }
        let (node, engine) = caps.named_node(node_ordinal, engine_affinity)?;
        if !caps.nodes.get(node as usize).is_some_and(|node| node.context_scheduling) {
            let why = format!(
                "NodeOrdinal {node_ordinal} is a node without ContextSchedulingSupported [d3dkmddi: DXGK_NODEMETADATA_FLAGS]"
            );
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        self.setup_priority_bands(adapter)?;
        let system = self.contexts.reserve();
        let mut args = DXGKARG_CREATEHWCONTEXT::zeroed();
        args.hHwContext = system.raw();
        (args.NodeOrdinal, args.EngineAffinity) = (node_ordinal, 1 << engine);
        let mut lent = LentBytes::new(private);
        (args.pPrivateDriverData, args.PrivateDriverDataSize) = lent.place();
        let status = adapter.miniport.create_hw_context(device.kmd.raw(), &mut args);
        lent.end(adapter.machine.verifier(), "DxgkDdiCreateHwContext", "pPrivateDriverData");
        status.ok()?;
        let member = ("DXGKARG_CREATEHWCONTEXT", "hHwContext");
        let kmd = KmdHandle::new(args.hHwContext);
        let kmd = kmd.answered(system.raw(), "DxgkDdiCreateHwContext", member)?;
        let context = Arc::new(HwContext {
            adapter: Arc::clone(adapter),
            device: Arc::clone(device),
            node,
            system,
            kmd,
            updates: UpdateQueue::new(device, engine),
            queues: Mutex::new(Vec::new()),
            suspension: Mutex::new(Suspension::default()),
            suspended: Condvar::new(),
            suspending: Mutex::new(false),
            rundown: Rundown::default(),
            teardown: Mutex::new(false),
            told: Mutex::default(),
        });
        self.contexts.publish(system, &context);
        self.add_context(&context);
        self.add_to_scheduling_log(&context);
        context.set_root(&NotRunning::of_new_context());
        if let Err(status) = context.set_priority(|priority| *priority = Priority::default()) {
            context.destroy();
            return Err(status);
        }
        Ok(context)
    }
}

impl Destroyed for HwContext {
    fn rundown(&self) -> &Rundown {
        &self.rundown
    }

    fn is_of_lost_device(&self) -> bool {
        self.device.error().is_some()
    }
}

impl HwContext {
    /// Tells the driver where the root page table of its process is.
    fn set_root(&self, stands: &NotRunning<'_>) {
        super::packet::set_root_page_table(&self.adapter, self.kmd, self.node, &self.device.process.space, stands);
    }

    /// As when it was made: the page tables came back to another place while it was suspended.
    pub(super) fn follow_root(&self, stands: &NotRunning<'_>) {
        let _working = self.adapter.use_node(self.node);
        let gone = lock(&self.suspending);
        if !*gone {
            self.set_root(stands);
        }
    }

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

    fn sch(&self) -> &Arc<VidSch> {
        self.adapter.vidsch()
    }

    /// Live queues, oldest first.
    pub(crate) fn queues(&self) -> Vec<Arc<HwQueue>> {
        lock(&self.queues).iter().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn add_queue(&self, queue: &Arc<HwQueue>) {
        lock(&self.queues).push(Arc::downgrade(queue));
    }

    pub(super) fn remove_queue(&self, queue: &HwQueue) {
        lock(&self.queues).retain(|other| !core::ptr::eq(other.as_ptr(), queue));
    }

    /// As [`HwContext::begin_suspension`], for whoever waits until the context has left its engine.
    pub(super) fn ask_off(&self) -> Asked {
        let (resets, begun) = (self.sch().timeouts.resets_of(self.node), self.resets_begun());
        Asked { answer: self.begin_suspension(), resets, begun }
    }

    /// True when the context has left its engine, when the machine's clock shows `limit` at the latest. From then on its queues do not touch
    /// memory any more. A reset of the engine since `asked` may have stopped what kept the context there, so the wait begins anew, unless the
    /// reset has put the context's device in error: then the recovery that asked for the reset takes the context off, and may be waiting for the caller.
    pub(super) fn leaves(&self, asked: &Asked, mut limit: Duration) -> bool {
        let Asked { answer, mut resets, begun } = *asked;
        let Ok(fence) = answer else { return false };
        let Some(fence) = fence else { return true };
        let began = Instant::now();
        loop {
            if self.wait_suspended(fence, limit) || self.has_left_unheard(fence, began, begun) {
                return true;
            }
            let known = core::mem::replace(&mut resets, self.sch().timeouts.resets_of(self.node));
            if known == resets || self.is_given_up() || self.device().error().is_some() {
                return false;
            }
            limit = self.sch().timeouts.limit();
        }
    }

    /// Resets of the engine that were begun.
    pub(crate) fn resets_begun(&self) -> u64 {
        self.sch().timeouts.resets_begun(self.node)
    }

    /// True for a context that left its engine, though the report of suspension `fence` was lost: a second question brings it, or is answered
    /// by it. Nothing was lost where a reset has been begun since `begun` were: it may have let the context go at any moment until now.
    fn has_left_unheard(&self, fence: u64, began: Instant, begun: u64) -> bool {
        if self.is_given_up() {
            return false;
        }
        if self.is_reported_in_time(fence, began) {
            return true;
        }
        let answer = self.begin_suspension();
        self.adapter.flush_interrupts();
        let left = answer.is_ok_and(|fence| fence.is_none()) || self.has_suspended(fence);
        if left && self.resets_begun() == begun {
            self.sch().rescued(Rescue::UnreportedSuspension, 1);
        }
        left
    }

    /// True if suspension `fence`, which was asked for at `asked`, is reported before the host's time for it is over: the machine's clock may have been moved on
    /// by hand.
    pub(crate) fn is_reported_in_time(&self, fence: u64, asked: Instant) -> bool {
        let limit = self.sch().timeouts.long_stall();
        loop {
            self.adapter.flush_interrupts();
            if self.has_suspended(fence) {
                return true;
            }
            if asked.elapsed() >= limit || self.is_given_up() || self.adapter.is_gone() {
                return false;
            }
            if !self.adapter.relax() {
                std::thread::sleep(NAP);
            }
        }
    }

    /// A reset of the adapter takes everything off its engines; a machine that has stopped takes nothing.
    fn is_given_up(&self) -> bool {
        let sch = self.sch();
        sch.timeouts.is_abandoning() || sch.verifier.is_stopped()
    }

    /// Asks the driver to take the context off its engine; the value that it will report, or `None` if the context was
    /// off it already. [d3dkmddi: DXGKARG_SUSPENDCONTEXT]
    ///
    /// # Errors
    /// What the driver answered, after the bugcheck that a refusal is.
    pub(crate) fn begin_suspension(&self) -> Result<Option<u64>, NTSTATUS> {
        // The driver sees the values in order.
        let gone = lock(&self.suspending);
        if *gone {
            return Ok(None);
        }
        let (fence, was_asked) = {
            let mut suspension = lock(&self.suspension);
            let was_asked = suspension.issued > suspension.resumed;
            suspension.issued += 1;
            (suspension.issued, was_asked)
        };
        let mut args = DXGKARG_SUSPENDCONTEXT::zeroed();
        args.hContext = self.kmd.raw();
        args.contextSuspendFence = fence;
        let answer = self.adapter.miniport.suspend_context(self.adapter.context().raw(), &args);
        match answer.status() {
            STATUS_SUCCESS => {
                if !was_asked {
                    self.note_early_grant(fence);
                }
                // This value is not reported; reports of earlier ones may still be under way.
                lock(&self.suspension).granted = fence;
                Ok(None)
            }
            STATUS_PENDING => Ok(Some(fence)),
            status => {
                self.sch().must_not_fail(answer);
                Err(status)
            }
        }
    }

    /// The driver says that the context was suspended already, and nobody had asked for that since it was created or resumed: its engine may still use memory
    /// that is about to be moved. A reset takes contexts off by itself, and what runs on a lost device is nobody's any more.
    /// [d3dkmddi: DXGKDDI_SUSPENDCONTEXT]
    fn note_early_grant(&self, fence: u64) {
        if self.is_given_up() || self.adapter.is_gone() || self.device().error().is_some() {
            return;
        }
        lock(&self.suspension).early += 1;
        self.sch().rescued(Rescue::EarlySuspension, 1);
        self.sch().verifier.log(format!(
            "DxgkDdiSuspendContext answered STATUS_SUCCESS for a context of node {} that was not suspended, and expected was STATUS_PENDING and \
             DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED with contextSuspendFence {fence:#x}: STATUS_SUCCESS is for a context that is suspended already \
             [d3dkmddi: DXGKDDI_SUSPENDCONTEXT]",
            self.node
        ));
    }

    /// Puts the context back on its engine. [d3dkmddi: DXGKARG_RESUMECONTEXT]
    pub(crate) fn resume(&self) {
        let _working = self.adapter.use_node(self.node);
        let gone = lock(&self.suspending);
        if *gone {
            return;
        }
        // The hardware looks at their rings.
        self.queues().iter().for_each(|queue| queue.note_active());
        {
            let mut suspension = lock(&self.suspension);
            suspension.resumed = suspension.issued;
        }
        let args = DXGKARG_RESUMECONTEXT { hContext: self.kmd.raw() };
        self.sch().must_not_fail(self.adapter.miniport.resume_context(self.adapter.context().raw(), &args));
    }

    /// Waits until a suspension is complete, at most until the machine's clock shows `limit`.
    fn wait_suspended(&self, fence: u64, limit: Duration) -> bool {
        let sch = self.sch();
        let clock = sch.timeouts.clock();
        let _waits = clock.deadline(limit);
        let pumped = !self.adapter.machine.config().interrupt_thread;
        let mut suspension = lock(&self.suspension);
        while suspension.completed < fence {
            // A device that was pulled out executes nothing, so its contexts count as suspended.
            if self.adapter.is_gone() {
                return true;
            }
            let left = limit.saturating_sub(clock.now());
            if left.is_zero() || self.is_given_up() {
                return false;
            }
            if pumped {
                drop(suspension);
                if !self.adapter.relax() {
                    std::thread::yield_now();
                }
                suspension = lock(&self.suspension);
            } else {
                let nap = sch.timeouts.sleep_time(limit).min(Duration::from_millis(200));
                suspension = self.suspended.wait_timeout(suspension, nap);
            }
        }
        true
    }

    /// True if a suspension that was asked for is complete, or a later one is.
    pub(crate) fn has_suspended(&self, fence: u64) -> bool {
        lock(&self.suspension).answered() >= fence
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
    pub(super) fn suspend_completed(&self, fence: u64) -> bool {
        let mut suspension = lock(&self.suspension);
        let expected = fence > suspension.completed && fence <= suspension.issued;
        if expected {
            suspension.completed = fence;
        }
        expected
    }

    /// Wakes whoever waits for a suspension.
    pub(super) fn announce_suspended(&self) {
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

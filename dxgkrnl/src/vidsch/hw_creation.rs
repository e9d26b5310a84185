//! Hardware contexts are created, and their queues, each with a progress fence.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};

use nt::lock::{Condvar, Mutex};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::ddi_buffer::LentBytes;
use crate::kmd_handle::KmdHandle;
use crate::quota::{HardwarePlace, HardwareQuota};
use crate::refusal::{Failure, refused};
use crate::rundown::Rundown;

use super::not_running::NotRunning;
use super::objects::device::Device;
use super::objects::fence::SyncObject;
use super::objects::fence_options::FenceOptions;
use super::objects::hardware::{HwContext, HwQueue, Listed, Suspension};
use super::objects::priority::Priority;
use super::objects::update_queue::UpdateQueue;
use super::scheduler::VidSch;

/// Counts one more of these for a process.
///
/// # Errors
/// STATUS_INSUFFICIENT_RESOURCES if it has as many on the adapter as it may.
fn take_place(quota: &HardwareQuota, what: &str) -> Result<HardwarePlace, Failure> {
    let why = || format!("the process has as many {what} on the adapter as one program of its machine may have");
    quota.take().map_err(|status| refused(status, why()))
}

impl VidSch {
    /// Creates a hardware context on a node of the engine that an affinity means, with the page tables of the device's process and normal priority, ready
    /// for its first submission. [d3dkmddi: DXGKARG_CREATEHWCONTEXT]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a node without hardware contexts, or an affinity that is not one engine; STATUS_NOT_SUPPORTED without hardware scheduling;
    /// STATUS_INSUFFICIENT_RESOURCES if the process has as many as it may; what the driver answered.
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
        let place = take_place(&device.process.contexts, "hardware contexts")?;
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
            _place: place,
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
    /// STATUS_INSUFFICIENT_RESOURCES if the process has as many as it may; what the driver answered. The fence is left to the caller.
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
        let place = take_place(&context.device().process.queues, "hardware queues")?;
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
        let (kmd, member) = (KmdHandle::new(args.hHwQueue), ("DXGKARG_CREATEHWQUEUE", "hHwQueue"));
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
            _place: place,
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

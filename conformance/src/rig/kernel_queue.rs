//! Hardware queues for kernel-mode submission, with the waits and signals that the kernel schedules; monitored fences.

use campanile_hw::packet::{self, Packet};
use campanile_hw::private::Placement;
use wddm_ddi::Zeroed;
use wddm_ddi::km::D3DDDI_CREATEHWQUEUEFLAGS;
use wddm_ddi::kmt::*;
use wddm_ddi::types::*;

use super::queue::SAVE_SIZE;
use super::{KernelHandle, Memory, RawFence, Rig, View, wait_until};
use crate::kmt::Word;
use crate::{Failure, granted};

/// Command memory of one submission.
const COMMANDS_SIZE: u64 = 512;
/// Submissions that command memory has space for.
const SLOTS: u64 = 128;

/// A hardware queue for kernel-mode submission.
pub struct KernelQueue {
    pub context: D3DKMT_HANDLE,
    pub queue: D3DKMT_HANDLE,
    pub progress: Word,
    /// Handle of its progress fence, a monitored one.
    pub progress_fence: D3DKMT_HANDLE,
    commands: Memory,
    view: View,
    /// Last progress value, and submissions so far.
    submitted: u64,
    count: u64,
}

/// A list of fences with one value each, for the length of a call.
struct Lists {
    fences: Vec<D3DKMT_HANDLE>,
    values: Vec<u64>,
}

impl Lists {
    fn new(fences: &[(D3DKMT_HANDLE, u64)]) -> Self {
        let (fences, values) = fences.iter().copied().unzip();
        Self { fences, values }
    }
}

/// Calls a thunk that is not in the table.
fn call<T>(thunk: unsafe extern "win64" fn(*mut T) -> NTSTATUS, arguments: &mut T) -> NTSTATUS {
    // SAFETY: a valid structure of the thunk's type; the thunk checks every pointer inside it.
    unsafe { thunk(arguments) }
}

impl Rig {
    /// A queue on `node` for kernel-mode submission.
    pub fn kernel_queue(&self, node: u32) -> Result<KernelQueue, Failure> {
        let text = |what: &'static str| move |status: NTSTATUS| Failure::new(format!("{what}: {status}"));
        let context = self.context(node).map_err(text("D3DKMTCreateHwContext"))?;
        let created = self.hw_queue_with_area(context, D3DDDI_CREATEHWQUEUEFLAGS::new(), SAVE_SIZE);
        let created = created.map_err(text("D3DKMTCreateHwQueue"))?;
        let commands = self.memory(SLOTS * COMMANDS_SIZE, Placement::System)?;
        Ok(KernelQueue {
            context,
            queue: created.hHwQueue,
            progress: Word::new(created.HwQueueProgressFenceCPUVirtualAddress, "the progress fence")?,
            progress_fence: created.hHwQueueProgressFence,
            commands,
            view: self.view(commands)?,
            submitted: 0,
            count: 0,
        })
    }

    /// Submits packets through the kernel; the progress value that marks their end.
    pub fn kernel_submit(&self, queue: &mut KernelQueue, packets: &[Packet]) -> Result<u64, Failure> {
        wait_until("space for commands", || queue.progress.load() + SLOTS > queue.submitted)?;
        let value = queue.submitted + 1;
        granted(self.try_kernel_submit(queue, packets, value)?, "D3DKMTSubmitCommandToHwQueue")?;
        Ok(value)
    }

    /// Submits packets with a progress value of the case's choice, which the case must wait for before it goes on; what the thunk returned.
    pub fn try_kernel_submit(
        &self,
        queue: &mut KernelQueue,
        packets: &[Packet],
        value: u64,
    ) -> Result<NTSTATUS, Failure> {
        let mut bytes = Vec::new();
        for packet in packets.iter().chain([&Packet::Progress(packet::Progress { handle: 0, value })]) {
            bytes.extend_from_slice(&packet.encode()[..packet.size()]);
        }
        ensure!(bytes.len() as u64 <= COMMANDS_SIZE, "the case's command buffer is too long");
        let offset = queue.count % SLOTS * COMMANDS_SIZE;
        queue.view.write(offset, &bytes);
        let mut arguments = D3DKMT_SUBMITCOMMANDTOHWQUEUE::zeroed();
        arguments.hHwQueue = queue.queue;
        arguments.HwQueueProgressFenceId = value;
        arguments.CommandBuffer = queue.commands.address + offset;
        arguments.CommandLength = bytes.len() as u32;
        let status = self.kmt.call(self.kmt.table().D3DKMTSubmitCommandToHwQueue, &mut arguments);
        if status.is_success() {
            (queue.submitted, queue.count) = (value, queue.count + 1);
        }
        Ok(status)
    }

    /// Destroys a hardware queue; what the thunk returned.
    pub fn destroy_hw_queue(&self, queue: D3DKMT_HANDLE) -> NTSTATUS {
        self.kmt.call(self.kmt.table().D3DKMTDestroyHwQueue, &mut D3DKMT_DESTROYHWQUEUE { hHwQueue: queue })
    }

    /// Lets what is submitted to the queue next wait for fences.
    pub fn queue_wait(&self, queue: D3DKMT_HANDLE, fences: &[(D3DKMT_HANDLE, u64)]) -> NTSTATUS {
        let mut lists = Lists::new(fences);
        let mut arguments = D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE::zeroed();
        arguments.hHwQueue = queue;
        arguments.ObjectCount = fences.len() as u32;
        arguments.ObjectHandleArray = lists.fences.as_mut_ptr();
        arguments.FenceValueArray = lists.values.as_mut_ptr();
        call(self.kmt.table().D3DKMTSubmitWaitForSyncObjectsToHwQueue, &mut arguments)
    }

    /// Signals fences when what was submitted to the queue is done.
    pub fn queue_signal(
        &self,
        queues: &[D3DKMT_HANDLE],
        fences: &[(D3DKMT_HANDLE, u64)],
        flags: D3DDDICB_SIGNALFLAGS,
    ) -> NTSTATUS {
        let (mut lists, mut queues) = (Lists::new(fences), queues.to_vec());
        let mut arguments = D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE::zeroed();
        arguments.Flags = flags;
        arguments.BroadcastHwQueueCount = queues.len() as u32;
        arguments.BroadcastHwQueueArray = queues.as_mut_ptr();
        arguments.ObjectCount = fences.len() as u32;
        arguments.ObjectHandleArray = lists.fences.as_mut_ptr();
        arguments.FenceValueArray = lists.values.as_mut_ptr();
        call(self.kmt.table().D3DKMTSubmitSignalSyncObjectsToHwQueue, &mut arguments)
    }

    /// Lets what is submitted to the context next wait for fences.
    pub fn context_wait(&self, context: D3DKMT_HANDLE, fences: &[(D3DKMT_HANDLE, u64)]) -> NTSTATUS {
        let mut lists = Lists::new(fences);
        let mut arguments = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU::zeroed();
        arguments.hContext = context;
        arguments.ObjectCount = fences.len() as u32;
        arguments.ObjectHandleArray = lists.fences.as_mut_ptr();
        arguments.u.MonitoredFenceValueArray = lists.values.as_mut_ptr();
        call(self.kmt.table().D3DKMTWaitForSynchronizationObjectFromGpu, &mut arguments)
    }

    /// Signals fences when what was submitted to the context is done.
    pub fn context_signal(&self, context: D3DKMT_HANDLE, fences: &[(D3DKMT_HANDLE, u64)]) -> NTSTATUS {
        let mut lists = Lists::new(fences);
        let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU::zeroed();
        arguments.hContext = context;
        arguments.ObjectCount = fences.len() as u32;
        arguments.ObjectHandleArray = lists.fences.as_mut_ptr();
        arguments.u.MonitoredFenceValueArray = lists.values.as_mut_ptr();
        call(self.kmt.table().D3DKMTSignalSynchronizationObjectFromGpu, &mut arguments)
    }

    /// Gives a context a priority, from -7 to 7.
    pub fn set_priority(&self, context: D3DKMT_HANDLE, priority: i32) -> NTSTATUS {
        let mut arguments = D3DKMT_SETCONTEXTSCHEDULINGPRIORITY { hContext: context, Priority: priority };
        self.kmt.call(self.kmt.table().D3DKMTSetContextSchedulingPriority, &mut arguments)
    }

    /// As [`Rig::context_signal`], with flags and a list of contexts.
    pub fn context_signal2(
        &self,
        contexts: &[D3DKMT_HANDLE],
        fences: &[(D3DKMT_HANDLE, u64)],
        flags: D3DDDICB_SIGNALFLAGS,
    ) -> NTSTATUS {
        let (mut lists, mut contexts) = (Lists::new(fences), contexts.to_vec());
        let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2::zeroed();
        arguments.Flags = flags;
        arguments.BroadcastContextCount = contexts.len() as u32;
        arguments.BroadcastContextArray = contexts.as_mut_ptr();
        arguments.ObjectCount = fences.len() as u32;
        arguments.ObjectHandleArray = lists.fences.as_mut_ptr();
        arguments.u.MonitoredFenceValueArray = lists.values.as_mut_ptr();
        call(self.kmt.further().D3DKMTSignalSynchronizationObjectFromGpu2, &mut arguments)
    }

    /// Creates a synchronization object of this kind; what the thunk returned.
    pub fn create_sync_object(
        &self,
        kind: D3DDDI_SYNCHRONIZATIONOBJECT_TYPE,
        initial: u64,
        flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    ) -> Result<RawFence, NTSTATUS> {
        let mut arguments = D3DKMT_CREATESYNCHRONIZATIONOBJECT2::zeroed();
        arguments.hDevice = self.device;
        arguments.Info.Type = kind;
        arguments.Info.Flags = flags;
        let mut fence = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_MonitoredFence::zeroed();
        (fence.InitialFenceValue, fence.EngineAffinity) = (initial, self.affinity());
        arguments.Info.u.MonitoredFence = fence;
        call(self.kmt.table().D3DKMTCreateSynchronizationObject2, &mut arguments).ok()?;
        // SAFETY: every arm of the union is plain numbers.
        let made = unsafe { arguments.Info.u.MonitoredFence };
        let value = Word::new(made.FenceValueCPUVirtualAddress, "the fence's value").map_err(|_| NTSTATUS(-1))?;
        let (handle, current) = (arguments.hSyncObject, made.FenceValueGPUVirtualAddress);
        Ok(RawFence { handle, value, current, monitored: 0 })
    }

    /// Creates a monitored fence.
    pub fn monitored_fence(
        &self,
        initial: u64,
        flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    ) -> Result<RawFence, Failure> {
        self.create_sync_object(D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE, initial, flags)
            .map_err(|status| Failure::new(format!("D3DKMTCreateSynchronizationObject2: {status}")))
    }

    /// Opens a fence as a monitored one; what the thunk returned.
    pub fn try_open_monitored(&self, handle: KernelHandle) -> Result<RawFence, NTSTATUS> {
        self.try_open_monitored_with(handle, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())
    }

    /// Opens a fence as a monitored one with these flags; what the thunk returned.
    pub fn try_open_monitored_with(
        &self,
        handle: KernelHandle,
        flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    ) -> Result<RawFence, NTSTATUS> {
        let mut arguments = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2::zeroed();
        (arguments.hNtHandle, arguments.hDevice, arguments.Flags) = (handle.raw(), self.device, flags);
        call(self.kmt.table().D3DKMTOpenSyncObjectFromNtHandle2, &mut arguments).ok()?;
        // SAFETY: every arm of the union is plain numbers.
        let opened = unsafe { arguments.u.MonitoredFence };
        let value = Word::new(opened.FenceValueCPUVirtualAddress, "the fence's value").map_err(|_| NTSTATUS(-1))?;
        let (handle, current) = (arguments.hSyncObject, opened.FenceValueGPUVirtualAddress);
        Ok(RawFence { handle, value, current, monitored: 0 })
    }

    /// Opens a fence as a monitored one.
    pub fn open_monitored(&self, handle: KernelHandle) -> Result<RawFence, Failure> {
        self.try_open_monitored(handle)
            .map_err(|status| Failure::new(format!("D3DKMTOpenSyncObjectFromNtHandle2: {status}")))
    }
}

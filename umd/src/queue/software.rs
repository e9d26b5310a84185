//! Submission through the kernel: command buffers, and the waits and signals that the operating system executes between them.

use alloc::vec::Vec;
use core::mem;

use wddm_ddi::{
    Zeroed,
    kmt::*,
    types::{D3DGPU_VIRTUAL_ADDRESS, D3DKMT_HANDLE},
};

use super::{Path, Queue, Target};
use crate::{
    commands::KernelWait,
    device::Device,
    error::{Error, Result},
    fence::Fence,
    thunks::invoke,
    trace::QueueEvent,
};

impl Queue {
    /// Hands over what was recorded up to `cursor`: a command buffer before each wait for a monitored fence, and one behind the last. Returns
    /// the progress value of that.
    #[cold]
    pub(super) fn submit_to_kernel(&mut self, cursor: usize) -> Result<u64> {
        let before = self.core.progress.submitted;
        let mut waits = mem::take(&mut self.core.kernel_waits);
        let all = waits.len();
        let outcome = self.hand_over(&mut waits, cursor);
        if let Err(error) = outcome
            && (self.core.progress.submitted != before || waits.len() != all)
        {
            // Part of the submission is in progress, or waits in the operating system, and cannot be taken back.
            self.failed = Some(error);
        }
        outcome
    }

    /// Hands the operating system the command buffers and the waits between them, and takes from `waits` the waits that it has accepted.
    fn hand_over(&mut self, waits: &mut Vec<KernelWait>, cursor: usize) -> Result<u64> {
        let start = self.core.memory.start();
        waits.reverse();
        while let Some(KernelWait { at, fence, value }) = waits.last() {
            let end = start + at;
            if self.core.memory.start() < end {
                self.submit_piece(end)?;
            }
            self.target.wait(&self.core.device, fence, *value)?;
            waits.pop();
        }
        self.submit_piece(cursor)
    }

    /// Submits the command buffer that ends at `end`. Nothing is taken before the operating system has accepted it.
    fn submit_piece(&mut self, end: usize) -> Result<u64> {
        let submission = self.core.progress.submitted + 1;
        let value = self.core.progress.value(submission);
        let start = self.core.memory.start();
        let (address, size) = (self.core.memory.gpu + start as D3DGPU_VIRTUAL_ADDRESS, (end - start) as u32);
        let device = &self.core.device;
        let submitted = match &self.target {
            Target::Hardware(queue, _) => {
                let mut args = D3DKMT_SUBMITCOMMANDTOHWQUEUE::zeroed();
                (args.hHwQueue, args.HwQueueProgressFenceId) = (queue.handle, value);
                (args.CommandBuffer, args.CommandLength) = (address, size);
                invoke!(device.thunks(), D3DKMTSubmitCommandToHwQueue, &mut args)
            }
            Target::Packets(context, _) => {
                let mut args = D3DKMT_SUBMITCOMMAND::zeroed();
                (args.Commands, args.CommandLength) = (address, size);
                args.BroadcastContextCount = 1;
                args.BroadcastContext[0] = context.handle;
                invoke!(device.thunks(), D3DKMTSubmitCommand, &mut args)
            }
        };
        submitted.map_err(|error| device.explain(error))?;
        let _ = self.core.memory.take(submission, end);
        self.core.progress.submitted = submission;
        self.core.trace(QueueEvent::Submitted { progress: value, rung: false });
        Ok(value)
    }

    /// Has the operating system delay what is submitted from now on until the fence's value is at least `value`. Returns at once.
    ///
    /// # Errors
    /// [`Error::NeedsKernelSubmission`]; [`Error::ForeignFence`], [`Error::SignalOnlyFence`], [`Error::OutOfReach`]; [`Error::Status`],
    /// among others with STATUS_INSUFFICIENT_RESOURCES if too much waits already; [`Error::DeviceLost`]. [d3dkmthk:
    /// D3DKMTWaitForSynchronizationObjectFromGpu, D3DKMTSubmitWaitForSyncObjectsToHwQueue]
    pub fn enqueue_wait(&mut self, fence: &Fence, value: u64) -> Result<()> {
        self.check_software(fence)?;
        fence.check_wait()?;
        fence.check_reach_up(value)?;
        self.target.wait(&self.core.device, fence, value)?;
        self.core.trace(QueueEvent::WaitQueued { fence: fence.handle(), value });
        Ok(())
    }

    /// Has the operating system signal the fence when all is done that was submitted so far, for a fence that the GPU does not write. Returns at
    /// once.
    ///
    /// # Errors
    /// [`Error::NeedsKernelSubmission`]; [`Error::ForeignFence`], [`Error::WaitOnlyFence`], [`Error::OutOfReach`];
    /// [`Error::Status`], [`Error::DeviceLost`].
    /// [d3dkmthk: D3DKMTSignalSynchronizationObjectFromGpu, D3DKMTSubmitSignalSyncObjectsToHwQueue]
    pub fn enqueue_signal(&mut self, fence: &Fence, value: u64) -> Result<()> {
        self.check_software(fence)?;
        fence.check_signal()?;
        fence.check_reach(value)?;
        self.target.signal(&self.core.device, fence, value)?;
        self.core.trace(QueueEvent::SignalQueued { fence: fence.handle(), value });
        Ok(())
    }

    fn check_software(&self, fence: &Fence) -> Result<()> {
        match (&self.path, self.failed) {
            (_, Some(error)) => Err(error),
            (Path::User(..), None) => Err(Error::NeedsKernelSubmission),
            _ if fence.luid() != self.core.luid => Err(Error::ForeignFence),
            _ => Ok(()),
        }
    }
}

impl Target {
    fn wait(&self, device: &Device, fence: &Fence, value: u64) -> Result<()> {
        let (mut object, mut value): (D3DKMT_HANDLE, u64) = (fence.handle(), value);
        let waited = match self {
            Self::Hardware(queue, _) => {
                let mut args = D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE::zeroed();
                (args.hHwQueue, args.ObjectCount) = (queue.handle, 1);
                (args.ObjectHandleArray, args.FenceValueArray) = (&raw mut object, &raw mut value);
                invoke!(device.thunks(), D3DKMTSubmitWaitForSyncObjectsToHwQueue, &mut args)
            }
            Self::Packets(context, _) => {
                let mut args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU::zeroed();
                (args.hContext, args.ObjectCount) = (context.handle, 1);
                (args.ObjectHandleArray, args.u.MonitoredFenceValueArray) = (&raw mut object, &raw mut value);
                invoke!(device.thunks(), D3DKMTWaitForSynchronizationObjectFromGpu, &mut args)
            }
        };
        waited.map_err(|error| device.explain(error))
    }

    fn signal(&self, device: &Device, fence: &Fence, value: u64) -> Result<()> {
        let (mut object, mut value): (D3DKMT_HANDLE, u64) = (fence.handle(), value);
        let signalled = match self {
            Self::Hardware(queue, _) => {
                let mut handle = queue.handle;
                let mut args = D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE::zeroed();
                (args.BroadcastHwQueueArray, args.BroadcastHwQueueCount) = (&raw mut handle, 1);
                (args.ObjectHandleArray, args.ObjectCount) = (&raw mut object, 1);
                args.FenceValueArray = &raw mut value;
                invoke!(device.thunks(), D3DKMTSubmitSignalSyncObjectsToHwQueue, &mut args)
            }
            Self::Packets(context, _) => {
                let mut args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU::zeroed();
                (args.hContext, args.ObjectCount) = (context.handle, 1);
                (args.ObjectHandleArray, args.u.MonitoredFenceValueArray) = (&raw mut object, &raw mut value);
                invoke!(device.thunks(), D3DKMTSignalSynchronizationObjectFromGpu, &mut args)
            }
        };
        signalled.map_err(|error| device.explain(error))
    }
}

//! A process that works with contexts of packets.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use dxgkrnl::{Process, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use super::{Machine, call};

/// A device of a process.
pub(crate) struct App {
    pub(crate) process: Arc<Process>,
    pub(crate) device: D3DKMT_HANDLE,
}

/// A test that fails says so: nobody plays the GPU any more, for which the end of the process would wait.
impl Drop for App {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(Arc::clone(&self.process));
        }
    }
}

impl App {
    pub(crate) fn new(machine: &Machine) -> Self {
        let process = Process::new(&machine.bench.machine, "test");
        let _attached = process.attach();
        let open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: machine.luid, hAdapter: 0 };
        let adapter = call(thunks().D3DKMTOpenAdapterFromLuid, open).unwrap().hAdapter;
        let mut args = D3DKMT_CREATEDEVICE::zeroed();
        args.u.hAdapter = adapter;
        let device = call(thunks().D3DKMTCreateDevice, args).unwrap().hDevice;
        drop(_attached);
        Self { process, device }
    }

    pub(crate) fn try_context(
        &self,
        change: impl FnOnce(&mut D3DKMT_CREATECONTEXTVIRTUAL),
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let _attached = self.process.attach();
        let mut args = D3DKMT_CREATECONTEXTVIRTUAL { hDevice: self.device, EngineAffinity: 1, ..Zeroed::zeroed() };
        change(&mut args);
        call(thunks().D3DKMTCreateContextVirtual, args).map(|args| args.hContext)
    }

    pub(crate) fn context(&self) -> D3DKMT_HANDLE {
        self.try_context(|_| ()).unwrap()
    }

    pub(crate) fn try_submit(&self, change: impl FnOnce(&mut D3DKMT_SUBMITCOMMAND)) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        let mut args = D3DKMT_SUBMITCOMMAND { BroadcastContextCount: 1, ..Zeroed::zeroed() };
        change(&mut args);
        call(thunks().D3DKMTSubmitCommand, args).map(|_| ())
    }

    /// Submits the buffer at `address`.
    pub(crate) fn submit(&self, context: D3DKMT_HANDLE, address: u64) {
        let submitted = self.try_submit(|args| {
            args.BroadcastContext[0] = context;
            (args.Commands, args.CommandLength) = (address, 64);
        });
        submitted.unwrap();
    }

    pub(crate) fn prioritise(&self, context: D3DKMT_HANDLE, priority: i32) {
        let _attached = self.process.attach();
        let args = D3DKMT_SETCONTEXTSCHEDULINGPRIORITY { hContext: context, Priority: priority };
        call(dxgkrnl::D3DKMTSetContextSchedulingPriority, args).unwrap();
    }

    pub(crate) fn prioritise_in_process(&self, context: D3DKMT_HANDLE, priority: i32) {
        let _attached = self.process.attach();
        let args = D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY { hContext: context, Priority: priority };
        call(dxgkrnl::D3DKMTSetContextInProcessSchedulingPriority, args).unwrap();
    }

    pub(crate) fn set_class(&self, class: D3DKMT_SCHEDULINGPRIORITYCLASS) {
        let _attached = self.process.attach();
        let current = std::ptr::without_provenance_mut(usize::MAX);
        // SAFETY: takes any arguments.
        let status = unsafe { dxgkrnl::D3DKMTSetProcessSchedulingPriorityClass(current, class) };
        assert_eq!(status, wddm_ddi::status::STATUS_SUCCESS);
    }

    pub(crate) fn destroy_context(&self, context: D3DKMT_HANDLE) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        call(thunks().D3DKMTDestroyContext, D3DKMT_DESTROYCONTEXT { hContext: context }).map(|_| ())
    }

    /// Puts the device into error.
    pub(crate) fn mark_as_error(&self) {
        let _attached = self.process.attach();
        let mut args = D3DKMT_MARKDEVICEASERROR::zeroed();
        args.hDevice = self.device;
        args.Reason = D3DKMT_DEVICE_ERROR_REASON::D3DKMT_DEVICE_ERROR_REASON_GENERIC;
        call(dxgkrnl::further_thunks().D3DKMTMarkDeviceAsError, args).unwrap();
    }

    pub(crate) fn state(&self) -> D3DKMT_DEVICEEXECUTION_STATE {
        let _attached = self.process.attach();
        let mut args = D3DKMT_GETDEVICESTATE::zeroed();
        args.hDevice = self.device;
        args.StateType = D3DKMT_DEVICESTATE_TYPE::D3DKMT_DEVICESTATE_EXECUTION;
        let args = call(thunks().D3DKMTGetDeviceState, args).unwrap();
        // SAFETY: the kind asked for is answered by this arm.
        unsafe { args.u.ExecutionState }
    }

    /// A monitored fence at 0.
    pub(crate) fn fence(&self) -> D3DKMT_HANDLE {
        self.fence_with_value().0
    }

    /// A monitored fence at 0, and where user mode reads its value.
    pub(crate) fn fence_with_value(&self) -> (D3DKMT_HANDLE, *mut c_void) {
        let _attached = self.process.attach();
        let mut args = D3DKMT_CREATESYNCHRONIZATIONOBJECT2::zeroed();
        args.hDevice = self.device;
        args.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE;
        let made = call(dxgkrnl::D3DKMTCreateSynchronizationObject2, args).unwrap();
        // SAFETY: every arm of the union is plain numbers.
        (made.hSyncObject, unsafe { made.Info.u.MonitoredFence }.FenceValueCPUVirtualAddress)
    }

    pub(crate) fn gpu_wait(&self, context: D3DKMT_HANDLE, fence: D3DKMT_HANDLE, value: u64) {
        let _attached = self.process.attach();
        let (mut fence, mut value) = (fence, value);
        let mut args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU::zeroed();
        (args.hContext, args.ObjectCount, args.ObjectHandleArray) = (context, 1, &raw mut fence);
        args.u.MonitoredFenceValueArray = &raw mut value;
        call(dxgkrnl::D3DKMTWaitForSynchronizationObjectFromGpu, args).unwrap();
    }

    pub(crate) fn gpu_signal(&self, context: D3DKMT_HANDLE, fence: D3DKMT_HANDLE, value: u64) {
        let _attached = self.process.attach();
        let (mut fence, mut value) = (fence, value);
        let mut args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU::zeroed();
        (args.hContext, args.ObjectCount, args.ObjectHandleArray) = (context, 1, &raw mut fence);
        args.u.MonitoredFenceValueArray = &raw mut value;
        call(dxgkrnl::D3DKMTSignalSynchronizationObjectFromGpu, args).unwrap();
    }

    pub(crate) fn cpu_signal(&self, fence: D3DKMT_HANDLE, value: u64) {
        let _attached = self.process.attach();
        let (mut fence, mut value) = (fence, value);
        let mut args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
        (args.hDevice, args.ObjectCount) = (self.device, 1);
        (args.ObjectHandleArray, args.FenceValueArray) = (&raw mut fence, &raw mut value);
        call(thunks().D3DKMTSignalSynchronizationObjectFromCpu, args).unwrap();
    }

    /// A wait that sets an event, and does not block.
    pub(crate) fn cpu_wait_by_event(&self, fence: D3DKMT_HANDLE, value: u64, event: &OwnedFd) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        let (mut fence, mut value) = (fence, value);
        let mut args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
        (args.hDevice, args.ObjectCount) = (self.device, 1);
        (args.ObjectHandleArray, args.FenceValueArray) = (&raw mut fence, &raw mut value);
        args.hAsyncEvent = std::ptr::without_provenance_mut(event.as_raw_fd() as usize);
        call(thunks().D3DKMTWaitForSynchronizationObjectFromCpu, args).map(|_| ())
    }

    pub(crate) fn cpu_wait(&self, fence: D3DKMT_HANDLE, value: u64) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        let (mut fence, mut value) = (fence, value);
        let mut args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
        (args.hDevice, args.ObjectCount) = (self.device, 1);
        (args.ObjectHandleArray, args.FenceValueArray) = (&raw mut fence, &raw mut value);
        call(thunks().D3DKMTWaitForSynchronizationObjectFromCpu, args).map(|_| ())
    }
}

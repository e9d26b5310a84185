//! A process that works with a hardware queue of the tiny miniport.

use std::sync::Arc;

use dxgkrnl::{Process, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::types::{D3DKMT_HANDLE, LUID, NTSTATUS};

use super::Bench;

/// Calls a thunk and answers its arguments.
pub(crate) fn call<A>(thunk: unsafe extern "win64" fn(*mut A) -> NTSTATUS, mut args: A) -> Result<A, NTSTATUS> {
    // SAFETY: the structure lives across the call and its pointers are NULL or good.
    unsafe { thunk(&raw mut args) }.ok().map(|()| args)
}

/// A hardware queue of a process.
pub(crate) struct Queue {
    pub(crate) process: Arc<Process>,
    pub(crate) adapter: D3DKMT_HANDLE,
    pub(crate) device: D3DKMT_HANDLE,
    pub(crate) context: D3DKMT_HANDLE,
    pub(crate) queue: D3DKMT_HANDLE,
    pub(crate) progress: D3DKMT_HANDLE,
}

/// A process with a hardware queue. The calling thread must stay attached by its own guard to use it.
pub(crate) fn open(bench: &Bench, luid: LUID) -> Result<Queue, NTSTATUS> {
    let process = Process::new(&bench.machine, "test");
    let _attached = process.attach();
    let thunks = thunks();
    let open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 };
    let adapter = call(thunks.D3DKMTOpenAdapterFromLuid, open)?.hAdapter;
    let mut args = D3DKMT_CREATEDEVICE::zeroed();
    args.u.hAdapter = adapter;
    let device = call(thunks.D3DKMTCreateDevice, args)?.hDevice;
    let args = D3DKMT_CREATEHWCONTEXT { hDevice: device, EngineAffinity: 1, ..Zeroed::zeroed() };
    let context = call(thunks.D3DKMTCreateHwContext, args)?.hHwContext;
    let args = D3DKMT_CREATEHWQUEUE { hHwContext: context, ..Zeroed::zeroed() };
    let made = call(thunks.D3DKMTCreateHwQueue, args)?;
    let (queue, progress) = (made.hHwQueue, made.hHwQueueProgressFence);
    Ok(Queue { process, adapter, device, context, queue, progress })
}

impl Queue {
    pub(crate) fn submit(&self, value: u64) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        let args = D3DKMT_SUBMITCOMMANDTOHWQUEUE {
            hHwQueue: self.queue,
            HwQueueProgressFenceId: value,
            CommandBuffer: 0x1_0000,
            CommandLength: 8,
            ..Zeroed::zeroed()
        };
        call(thunks().D3DKMTSubmitCommandToHwQueue, args).map(|_| ())
    }

    pub(crate) fn wait(&self, value: u64) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        let (mut handle, mut value) = (self.progress, value);
        let args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: self.device,
            ObjectCount: 1,
            ObjectHandleArray: &raw mut handle,
            FenceValueArray: &raw mut value,
            ..Zeroed::zeroed()
        };
        call(thunks().D3DKMTWaitForSynchronizationObjectFromCpu, args).map(|_| ())
    }

    pub(crate) fn close(self) -> Result<(), NTSTATUS> {
        let _attached = self.process.attach();
        let thunks = thunks();
        call(thunks.D3DKMTDestroyHwQueue, D3DKMT_DESTROYHWQUEUE { hHwQueue: self.queue })?;
        call(thunks.D3DKMTDestroyHwContext, D3DKMT_DESTROYHWCONTEXT { hHwContext: self.context })?;
        call(thunks.D3DKMTDestroyDevice, D3DKMT_DESTROYDEVICE { hDevice: self.device })?;
        call(thunks.D3DKMTCloseAdapter, D3DKMT_CLOSEADAPTER { hAdapter: self.adapter })?;
        assert_eq!(self.process.handle_count(), 0);
        self.process.exit();
        Ok(())
    }
}

//! Devices: what owns allocations, queues and fences of this process, and the paging queue behind them.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use wddm_ddi::{
    Zeroed,
    kmt::*,
    types::{D3DKMT_HANDLE, HANDLE},
};

use crate::{
    adapter::Adapter,
    error::{Error, Result},
    shared::SharedWord,
    thunks::{Thunks, call, invoke},
};

/// A device on an adapter. Clones share it; it is destroyed with the last of them and of what was made on it.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

/// Fields are dropped in order: the paging queue goes before its device.
struct Inner {
    paging: PagingQueue,
    handle: DeviceHandle,
}

struct DeviceHandle {
    adapter: Adapter,
    handle: D3DKMT_HANDLE,
}

struct PagingQueue {
    adapter: Adapter,
    handle: D3DKMT_HANDLE,
    /// Monitored fence that paging requests are counted by; belongs to the paging queue.
    fence: D3DKMT_HANDLE,
    /// Its value, read-only for us.
    value: SharedWord,
}

impl Drop for DeviceHandle {
    fn drop(&mut self) {
        let mut args = D3DKMT_DESTROYDEVICE { hDevice: self.handle };
        self.adapter.count_teardown(call!(self.adapter.thunks(), D3DKMTDestroyDevice, &mut args));
    }
}

impl Drop for PagingQueue {
    fn drop(&mut self) {
        let mut args = D3DDDI_DESTROYPAGINGQUEUE { hPagingQueue: self.handle };
        self.adapter.count_teardown(call!(self.adapter.thunks(), D3DKMTDestroyPagingQueue, &mut args));
    }
}

impl Device {
    /// Creates a device with its paging queue.
    ///
    /// # Errors
    /// [`Error::Status`], [`Error::BadAnswer`], [`Error::DeviceLost`]. [d3dkmthk: D3DKMTCreateDevice, D3DKMTCreatePagingQueue]
    pub fn new(adapter: &Adapter) -> Result<Self> {
        let mut create = D3DKMT_CREATEDEVICE::zeroed();
        create.u.hAdapter = adapter.handle();
        invoke!(adapter.thunks(), D3DKMTCreateDevice, &mut create)?;
        if create.hDevice == 0 {
            return Err(Error::BadAnswer("D3DKMTCreateDevice gave no handle"));
        }
        let handle = DeviceHandle { adapter: adapter.clone(), handle: create.hDevice };
        let paging = PagingQueue::new(&handle)?;
        Ok(Self { inner: Arc::new(Inner { paging, handle }) })
    }

    /// The adapter it was created on.
    pub fn adapter(&self) -> &Adapter {
        &self.inner.handle.adapter
    }

    /// Asks the operating system whether the device still works.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] after a reset, fault or removal, [`Error::Status`] if the question fails.
    /// [d3dkmthk: D3DKMTGetDeviceState]
    pub fn check(&self) -> Result<()> {
        let mut state = D3DKMT_GETDEVICESTATE::zeroed();
        state.hDevice = self.handle();
        state.StateType = D3DKMT_DEVICESTATE_TYPE::D3DKMT_DEVICESTATE_EXECUTION;
        invoke!(self.thunks(), D3DKMTGetDeviceState, &mut state)?;
        // SAFETY: the union was zeroed and is answered for the kind asked; every bit pattern is a valid number.
        let execution = unsafe { state.u.ExecutionState };
        if execution == D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE {
            Ok(())
        } else {
            Err(Error::DeviceLost)
        }
    }

    /// [`Error::DeviceLost`] if that is what is behind `error`, `error` itself otherwise.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match self.check() {
            Err(Error::DeviceLost) => Error::DeviceLost,
            _ => error,
        }
    }

    pub(crate) fn thunks(&self) -> &'static Thunks {
        self.adapter().thunks()
    }

    pub(crate) fn handle(&self) -> D3DKMT_HANDLE {
        self.inner.handle.handle
    }

    pub(crate) fn paging_queue(&self) -> D3DKMT_HANDLE {
        self.inner.paging.handle
    }

    /// Waits until the paging queue has done request `value`, if it is `pending`; both are what the request returned.
    pub(crate) fn wait_paging(&self, pending: bool, value: u64) -> Result<()> {
        // Zero means that nothing was queued. A request that is not pending may still carry the number of its last step.
        if !pending || value == 0 {
            return Ok(());
        }
        self.wait_blocking(self.inner.paging.fence, self.inner.paging.value, value)
    }

    /// Blocks the thread until `object`, whose value shows in `current`, has reached `value`.
    pub(crate) fn wait_blocking(&self, object: D3DKMT_HANDLE, current: SharedWord, value: u64) -> Result<()> {
        if current.load(Ordering::Acquire) < value {
            self.wait_thunk(object, value, core::ptr::null_mut())?;
        }
        self.reached(current, value)
    }

    /// True if a wait that ended was satisfied by the GPU. A lost device ends every wait as well, and may leave a value of all ones behind.
    pub(crate) fn reached(&self, current: SharedWord, value: u64) -> Result<()> {
        match current.load(Ordering::Acquire) {
            u64::MAX if value != u64::MAX => self.check(),
            now if now >= value => Ok(()),
            _ => Err(self.explain(Error::BadAnswer(
                "D3DKMTWaitForSynchronizationObjectFromCpu ended before the value was reached",
            ))),
        }
    }

    /// [d3dkmthk: D3DKMTWaitForSynchronizationObjectFromCpu]
    pub(crate) fn wait_thunk(&self, object: D3DKMT_HANDLE, value: u64, event: HANDLE) -> Result<()> {
        self.wait_for(&[object], &[value], event, D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS::new())
    }

    /// As [`Device::wait_thunk`], for the first of several objects, with a value for each.
    /// [d3dukmdt: D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS]
    pub(crate) fn wait_any_thunk(&self, objects: &[D3DKMT_HANDLE], values: &[u64], event: HANDLE) -> Result<()> {
        let any = D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS::new().with_WaitAny(true);
        self.wait_for(objects, values, event, any)
    }

    fn wait_for(
        &self,
        objects: &[D3DKMT_HANDLE],
        values: &[u64],
        event: HANDLE,
        flags: D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS,
    ) -> Result<()> {
        let mut args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: self.handle(),
            ObjectCount: objects.len().min(values.len()) as u32,
            ObjectHandleArray: objects.as_ptr().cast_mut(),
            FenceValueArray: values.as_ptr().cast_mut(),
            hAsyncEvent: event,
            Flags: flags,
        };
        invoke!(self.thunks(), D3DKMTWaitForSynchronizationObjectFromCpu, &mut args)
            .map_err(|error| self.explain(error))
    }
}

impl PagingQueue {
    fn new(device: &DeviceHandle) -> Result<Self> {
        let mut create = D3DKMT_CREATEPAGINGQUEUE::zeroed();
        create.hDevice = device.handle;
        create.Priority = D3DDDI_PAGINGQUEUE_PRIORITY::D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL;
        invoke!(device.adapter.thunks(), D3DKMTCreatePagingQueue, &mut create)?;
        // SAFETY: the system maps the paging fence's value, 8 bytes and 8-aligned, as long as the paging queue lives.
        let value = unsafe { SharedWord::new(create.FenceValueCPUVirtualAddress) };
        match value {
            Some(value) => Ok(Self {
                adapter: device.adapter.clone(),
                handle: create.hPagingQueue,
                fence: create.hSyncObject,
                value,
            }),
            None => {
                let mut args = D3DDDI_DESTROYPAGINGQUEUE { hPagingQueue: create.hPagingQueue };
                device.adapter.count_teardown(call!(device.adapter.thunks(), D3DKMTDestroyPagingQueue, &mut args));
                Err(Error::BadAnswer("D3DKMTCreatePagingQueue gave no fence address"))
            }
        }
    }
}

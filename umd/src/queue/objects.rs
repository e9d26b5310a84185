//! Contexts and hardware queues of the operating system, destroyed when they are dropped.

use core::ffi::c_void;

use campanile_hw::private::{HwQueueData, MAGIC};
use wddm_ddi::{Zeroed, km::D3DDDI_CREATEHWQUEUEFLAGS, kmt::*, types::D3DKMT_HANDLE};

use super::Node;
use crate::{
    device::Device,
    error::{Error, Result},
    fence::FIRST_ADAPTER,
    shared::SharedWord,
    thunks::{call, invoke},
};

/// A context whose hardware queues the GPU schedules itself.
pub(super) struct HwContext {
    pub(super) device: Device,
    pub(super) handle: D3DKMT_HANDLE,
}

impl HwContext {
    pub(super) fn new(device: &Device, node: Node) -> Result<Self> {
        let mut create = D3DKMT_CREATEHWCONTEXT::zeroed();
        create.hDevice = device.handle();
        create.NodeOrdinal = node.ordinal();
        create.EngineAffinity = FIRST_ADAPTER;
        invoke!(device.thunks(), D3DKMTCreateHwContext, &mut create)?;
        if create.hHwContext == 0 {
            return Err(Error::BadAnswer("D3DKMTCreateHwContext gave no handle"));
        }
        Ok(Self { device: device.clone(), handle: create.hHwContext })
    }
}

impl Drop for HwContext {
    fn drop(&mut self) {
        let mut args = D3DKMT_DESTROYHWCONTEXT { hHwContext: self.handle };
        self.device.adapter().count_teardown(call!(self.device.thunks(), D3DKMTDestroyHwContext, &mut args));
    }
}

/// A context of packets.
pub(super) struct PacketContext {
    pub(super) device: Device,
    pub(super) handle: D3DKMT_HANDLE,
}

impl PacketContext {
    /// [d3dkmthk: D3DKMTCreateContextVirtual]
    pub(super) fn new(device: &Device, node: Node) -> Result<Self> {
        let mut create = D3DKMT_CREATECONTEXTVIRTUAL::zeroed();
        create.hDevice = device.handle();
        create.NodeOrdinal = node.ordinal();
        create.EngineAffinity = FIRST_ADAPTER;
        invoke!(device.thunks(), D3DKMTCreateContextVirtual, &mut create)?;
        if create.hContext == 0 {
            return Err(Error::BadAnswer("D3DKMTCreateContextVirtual gave no handle"));
        }
        Ok(Self { device: device.clone(), handle: create.hContext })
    }
}

impl Drop for PacketContext {
    fn drop(&mut self) {
        let mut args = D3DKMT_DESTROYCONTEXT { hContext: self.handle };
        self.device.adapter().count_teardown(call!(self.device.thunks(), D3DKMTDestroyContext, &mut args));
    }
}

/// A hardware queue with its progress fence.
pub(super) struct HwQueue {
    pub(super) device: Device,
    pub(super) handle: D3DKMT_HANDLE,
    /// Handle of the progress fence; belongs to the queue.
    pub(super) fence: D3DKMT_HANDLE,
    pub(super) progress: SharedWord,
}

impl HwQueue {
    pub(super) fn new(context: &HwContext, flags: D3DDDI_CREATEHWQUEUEFLAGS, save_bytes: u32) -> Result<Self> {
        #[repr(align(8))]
        struct Aligned([u8; HwQueueData::SIZE]);
        let device = context.device.clone();
        let mut data = Aligned(HwQueueData { magic: MAGIC, save_size: save_bytes }.to_bytes());
        let mut create = D3DKMT_CREATEHWQUEUE::zeroed();
        create.hHwContext = context.handle;
        create.Flags = flags;
        create.PrivateDriverDataSize = HwQueueData::SIZE as u32;
        create.pPrivateDriverData = data.0.as_mut_ptr().cast::<c_void>();
        invoke!(device.thunks(), D3DKMTCreateHwQueue, &mut create)?;
        // SAFETY: the system maps the progress fence's value, 8 bytes and 8-aligned, until the queue is destroyed.
        let progress = unsafe { SharedWord::new(create.HwQueueProgressFenceCPUVirtualAddress) };
        let (handle, fence) = (create.hHwQueue, create.hHwQueueProgressFence);
        match progress {
            Some(progress) => Ok(Self { device, handle, fence, progress }),
            None => {
                destroy_hw_queue(&device, handle);
                Err(Error::BadAnswer("D3DKMTCreateHwQueue gave no progress fence address"))
            }
        }
    }
}

impl Drop for HwQueue {
    fn drop(&mut self) {
        destroy_hw_queue(&self.device, self.handle);
    }
}

fn destroy_hw_queue(device: &Device, handle: D3DKMT_HANDLE) {
    let mut args = D3DKMT_DESTROYHWQUEUE { hHwQueue: handle };
    device.adapter().count_teardown(call!(device.thunks(), D3DKMTDestroyHwQueue, &mut args));
}

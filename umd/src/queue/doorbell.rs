//! Doorbells, and the memory of the rings that they are rung for.

use core::ffi::c_void;

use campanile_hw::{
    private::{DoorbellAnswer, DoorbellData},
    queue::{CONTROL_SIZE, RING_ENTRY_SIZE},
};
use wddm_ddi::{Zeroed, kmt::*, status::STATUS_DEVICE_NOT_READY, types::D3DKMT_HANDLE};

use super::HwQueue;
use crate::{
    buffer::Mapping,
    device::Device,
    error::{Error, Result},
    ring::{DoorbellWords, Status, UserRing},
    shared::SharedWord,
    thunks::{call, invoke},
};

/// Memory for a ring and its control page, mapped.
pub(super) fn ring_memory(device: &Device, entries: u32) -> Result<(Mapping, Mapping)> {
    let shared = device.adapter().shared_placement();
    let ring = device.create_buffer(u64::from(entries) * RING_ENTRY_SIZE, shared)?.map()?;
    Ok((ring, device.create_buffer(CONTROL_SIZE, shared)?.map()?))
}

/// Connects the doorbell of an empty ring.
pub(super) fn first_connection(ring: &UserRing, doorbell: &Doorbell) -> Result<()> {
    doorbell.connect()?;
    match ring.status() {
        // Taken away again already: the first submission will reconnect.
        Status::Connected | Status::ConnectedNotify | Status::Retry => Ok(()),
        Status::Abort => Err(Error::Status(STATUS_DEVICE_NOT_READY, "connecting the doorbell")),
        Status::Unknown(word) => Err(Error::DoorbellStatus(word)),
    }
}

/// A doorbell, destroyed when it is dropped.
pub(super) struct Doorbell {
    device: Device,
    handle: D3DKMT_HANDLE,
}

impl Doorbell {
    /// The doorbell of a queue for its ring. With `resize` it takes the place of the one that the queue has.
    pub(super) fn new(
        queue: &HwQueue,
        ring: &Mapping,
        control: &Mapping,
        resize: bool,
    ) -> Result<(Self, DoorbellWords)> {
        #[repr(align(8))]
        struct Aligned([u8; DoorbellData::SIZE]);
        let data = DoorbellData { ring: ring.buffer().gpu_address(), control: control.buffer().gpu_address() };
        let mut data = Aligned(data.to_bytes());
        let mut create = D3DKMT_CREATE_DOORBELL::zeroed();
        create.hHwQueue = queue.handle;
        create.hRingBuffer = ring.buffer().handle();
        create.hRingBufferControl = control.buffer().handle();
        create.Flags = D3DKMT_CREATE_DOORBELL_FLAGS::new().with_ResizeRingBufferOperation(resize);
        create.PrivateDriverDataSize = DoorbellData::SIZE as u32;
        create.PrivateDriverData = data.0.as_mut_ptr().cast::<c_void>();
        invoke!(queue.device.thunks(), D3DKMTCreateDoorbell, &mut create)?;
        let doorbell = Self { device: queue.device.clone(), handle: create.hDoorbell };
        let word = |address: *mut c_void| {
            // SAFETY: the system maps the word, 8 bytes and 8-aligned, until the doorbell is destroyed; doorbell and last
            // queued value are writable.
            unsafe { SharedWord::new(address) }
                .ok_or(Error::BadAnswer("D3DKMTCreateDoorbell gave no address for a word"))
        };
        let queue = queue_number(&queue.device, &data.0)?;
        let words = DoorbellWords {
            queue,
            doorbell: word(create.DoorbellCPUVirtualAddress)?,
            status: word(create.DoorbellStatusCPUVirtualAddress)?,
            last_queued: word(create.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress)?,
        };
        Ok((doorbell, words))
    }

    /// [d3dkmthk: D3DKMTConnectDoorbell]
    pub(super) fn connect(&self) -> Result<()> {
        let mut args = D3DKMT_CONNECT_DOORBELL::zeroed();
        args.hDoorbell = self.handle;
        let outcome = invoke!(self.device.thunks(), D3DKMTConnectDoorbell, &mut args);
        outcome.map_err(|error| self.device.explain(error))
    }

    /// [d3dkmthk: D3DKMTNotifyWorkSubmission]
    pub(super) fn notify(&self) -> Result<()> {
        let mut args = D3DKMT_NOTIFY_WORK_SUBMISSION::zeroed();
        args.hDoorbell = self.handle;
        let outcome = invoke!(self.device.thunks(), D3DKMTNotifyWorkSubmission, &mut args);
        outcome.map_err(|error| self.device.explain(error))
    }
}

/// The queue's number, which the kernel-mode driver writes to the private data on a GPU whose doorbell is shared by all queues; 0 on others.
fn queue_number(device: &Device, data: &[u8; DoorbellData::SIZE]) -> Result<u16> {
    if !device.adapter().caps().global_doorbell() {
        return Ok(0);
    }
    let answer = DoorbellAnswer::from_bytes(data);
    match u16::try_from(answer.queue) {
        // Data that the driver has not changed has the address of the ring control in bytes that an answer leaves zero.
        Ok(queue) if answer.to_bytes() == *data => Ok(queue),
        _ => {
            Err(Error::BadAnswer("the doorbell is shared by all queues and the driver did not say the queue's number"))
        }
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        let mut args = D3DKMT_DESTROY_DOORBELL { hDoorbell: self.handle };
        self.device.adapter().count_teardown(call!(self.device.thunks(), D3DKMTDestroyDoorbell, &mut args));
    }
}

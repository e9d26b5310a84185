//! User mode by hand: device, memory, queue, doorbell and fence over the raw thunks.
//!
//! Does what the user-mode driver does, one visible step at a time, so that a case can leave a step out, reorder it or put a hostile
//! value in its place. Nothing is destroyed here: a case that does not destroy leaves it to the exit of its process.

mod fence;
mod kernel_queue;
mod memory;
mod packet;
mod pages;
mod queue;
mod share;
mod update;

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::types::*;

use crate::kmt::{Kmt, Word};
use crate::{Failure, granted};

pub use crate::wait::wait_until;
pub use fence::RawFence;
pub use kernel_queue::KernelQueue;
pub use memory::{Memory, View, copy, fill};
pub use packet::PacketQueue;
pub use pages::PagedMemory;
pub use queue::{RING_ENTRIES, RawDoorbell, RawQueue, user_mode_flags};
pub use share::{KernelHandle, shared_flags};
pub use update::{NO_ACCESS, ZERO, copy_operation, map_operation, protect_operation, unmap_operation};

/// A device and its paging queue.
pub struct Rig {
    pub kmt: Kmt,
    pub adapter: D3DKMT_HANDLE,
    pub device: D3DKMT_HANDLE,
    /// Which engine of its nodes everything is for; 0 unless adapters are linked.
    pub engine: u32,
    pub paging_queue: D3DKMT_HANDLE,
    paging_fence: D3DKMT_HANDLE,
    paging_value: Word,
    /// The adapter snoops the caches of the processor.
    coherent: bool,
}

impl Rig {
    /// Opens the adapter and creates a device with a paging queue.
    pub fn open(luid: LUID) -> Result<Self, Failure> {
        let kmt = Kmt::new();
        let adapter = kmt.open_adapter(luid).map_err(|status| Failure::new(format!("open adapter: {status}")))?;
        Self::on_adapter(kmt, adapter)
    }

    /// Creates another device on an opened adapter.
    pub fn on_adapter(kmt: Kmt, adapter: D3DKMT_HANDLE) -> Result<Self, Failure> {
        Self::on_engine(kmt, adapter, 0)
    }

    /// As [`Rig::on_adapter`], for one of the engines of linked adapters.
    pub fn on_engine(kmt: Kmt, adapter: D3DKMT_HANDLE, engine: u32) -> Result<Self, Failure> {
        let mut device = D3DKMT_CREATEDEVICE::zeroed();
        device.u = D3DKMT_CREATEDEVICE_Union { hAdapter: adapter };
        granted(kmt.call(kmt.table().D3DKMTCreateDevice, &mut device), "D3DKMTCreateDevice")?;
        let mut paging = D3DKMT_CREATEPAGINGQUEUE::zeroed();
        (paging.hDevice, paging.PhysicalAdapterIndex) = (device.hDevice, engine);
        granted(kmt.call(kmt.table().D3DKMTCreatePagingQueue, &mut paging), "D3DKMTCreatePagingQueue")?;
        Ok(Self {
            kmt,
            adapter,
            device: device.hDevice,
            engine,
            paging_queue: paging.hPagingQueue,
            paging_fence: paging.hSyncObject,
            paging_value: Word::new(paging.FenceValueCPUVirtualAddress, "the paging fence")?,
            coherent: kmt.is_coherent(adapter)?,
        })
    }

    /// The engine, as contexts and fences name it.
    pub fn affinity(&self) -> u32 {
        1 << self.engine
    }

    /// True if the GPU's accesses to memory snoop the caches of the processor, so that nothing has to be flushed.
    pub fn is_coherent(&self) -> bool {
        self.coherent
    }

    /// Destroys the device with everything on it.
    pub fn destroy(&self) -> NTSTATUS {
        let mut arguments = D3DKMT_DESTROYDEVICE { hDevice: self.device };
        self.kmt.call(self.kmt.table().D3DKMTDestroyDevice, &mut arguments)
    }

    /// The word of the paging fence in this process, and its value.
    pub fn paging_fence(&self) -> (Word, u64) {
        (self.paging_value, self.paged())
    }

    /// Current value of the paging fence.
    pub fn paged(&self) -> u64 {
        self.paging_value.load()
    }

    /// Waits for a paging request that was answered with `status`.
    pub fn settle(&self, status: NTSTATUS, value: u64, what: &str) -> Result<(), Failure> {
        granted(status, what)?;
        if self.paging_value.load() < value {
            granted(self.wait(&[self.paging_fence], &[value], false), "the wait for the paging fence")?;
        }
        ensure!(self.paging_value.load() >= value, "the wait for {what} ended before its paging fence value");
        Ok(())
    }
}

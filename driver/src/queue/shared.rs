//! Memory that a hardware queue shares with the device: the ring, if the kernel writes it, the save area, and the values of the progress fence.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

use campanile_hw::isa::SAVE_SIZE_MAX;
use campanile_hw::private::{self, HwQueueData};
use campanile_hw::queue::{Location, SYSTEM_PAGE_SIZE};
use campanile_hw::registers::NODE_COMPUTE;
use wddm_ddi::km::DXGKARG_CREATEHWQUEUE;
use wddm_ddi::status::STATUS_INVALID_PARAMETER;

use crate::dxgk::ContiguousMemory;
use crate::gpu::Gpu;
use crate::handle::Handle;
use crate::irql::Passive;
use crate::node::ring::{RING_ENTRIES, RING_SIZE, Ring};
use crate::pool::{PoolVec, Tag};
use crate::refusal::{Reason, Refused, refused, refused_with};

/// The ring of a queue that the kernel writes.
pub(super) struct KernelRing {
    pub(super) ring: Ring,
    pub(super) memory: ContiguousMemory,
    /// Progress value by slot, for faults. Written before the entry is published, read at device level.
    pub(super) fences: PoolVec<AtomicU64>,
}

/// The progress fence of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProgressFence {
    pub(super) current: u64,
    /// `None` for a monitored fence, which raises an interrupt each time.
    pub(super) monitored: Option<u64>,
}

/// The location by which the device reaches memory of the system.
pub(super) fn location(memory: &ContiguousMemory) -> Location {
    Location::new().with_address(memory.address).with_system(true)
}

/// Bytes of the save area that the private data of a queue ask for, 0 for none.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for private data that are something else, or ask for more than any program needs.
pub(super) fn save_size(gpu: &Gpu, node: u32, args: &DXGKARG_CREATEHWQUEUE) -> Result<u32, Refused> {
    if args.PrivateDriverDataSize == 0 {
        return Ok(0);
    }
    if args.PrivateDriverDataSize as usize != HwQueueData::SIZE {
        return Err(refused(Reason::PrivateData));
    }
    let data =
        NonNull::new(args.pPrivateDriverData.cast::<[u8; HwQueueData::SIZE]>()).ok_or(refused(Reason::NullPointer))?;
    // SAFETY: the operating system captured PrivateDriverDataSize bytes; bytes need no alignment.
    let data = HwQueueData::from_bytes(&unsafe { data.read() });
    if data.magic != private::MAGIC || data.save_size > SAVE_SIZE_MAX {
        return Err(refused(Reason::PrivateData));
    }
    let saves = node == NODE_COMPUTE && gpu.hardware.save_size != 0;
    Ok(if saves { data.save_size.min(gpu.hardware.save_size).next_multiple_of(SYSTEM_PAGE_SIZE as u32) } else { 0 })
}

pub(super) fn kernel_ring(irql: &Passive, gpu: &Gpu) -> Result<KernelRing, Refused> {
    let fences = PoolVec::filled(RING_ENTRIES as usize, Tag::QUEUE, |_| AtomicU64::new(0))?;
    let memory = gpu.dxgk.allocate_contiguous(irql, RING_SIZE as usize, gpu.layout.caching())?;
    match Ring::new(memory.mapping, location(&memory)) {
        Some(ring) => Ok(KernelRing { ring, memory, fences }),
        None => {
            gpu.dxgk.free_contiguous(irql, memory);
            Err(refused(Reason::NoMemory))
        }
    }
}

/// The progress fence that the arguments of a queue name.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for an address that can be none, and for a fence that is not open in the process.
pub(super) fn progress_fence(
    irql: &Passive,
    gpu: &Gpu,
    process: Handle,
    args: &DXGKARG_CREATEHWQUEUE,
) -> Result<ProgressFence, Refused> {
    let current = args.HwQueueProgressFenceGPUVirtualAddress;
    if current == 0 || !current.is_multiple_of(8) {
        return Err(refused(Reason::Address));
    }
    let monitored = if args.Flags.NativeProgressFence() {
        if !gpu.claims.native_fence {
            return Err(refused_with(Reason::NotOffered, STATUS_INVALID_PARAMETER));
        }
        // The handle in the arguments has 32 bits and cannot be the driver's; the address names the fence as well.
        Some(gpu.fences.monitored_address(irql, &gpu.dxgk, process, current).ok_or(refused(Reason::ProgressFence))?)
    } else {
        None
    };
    Ok(ProgressFence { current, monitored })
}

//! A paging queue as the memory manager has it, and what its fence owes.

use std::sync::Arc;

use nt::lock::Mutex;

use crate::rank;
use crate::rescue::Rescue;
use crate::vidmm::address_space::AddressSpace;
use crate::vidmm::driver::Driver;
use crate::vidmm::paging_work::PagingFence;
use crate::vidmm::scheduler::MemoryOwner;

/// Where residency requests of a device are ordered. [d3dkmthk: D3DKMT_CREATEPAGINGQUEUE]
pub(crate) struct ResidencyQueue {
    pub(super) device: Arc<dyn MemoryOwner>,
    /// The physical adapter whose page tables are meant by requests here, and which signals the fence.
    pub(super) engine: u32,
    pub(super) system_space: Arc<AddressSpace>,
    /// Page of the fence in the paging process, and the fence in it.
    pub(super) page: u64,
    pub(super) offset: u64,
    pub(super) fence: Arc<dyn QueueFence>,
    /// Taken under the memory lock, so that values and packets have one order.
    pub(super) values: Mutex<Values, rank::PagingValue>,
}

/// The fence of a paging queue as its waiters have it.
pub(crate) trait QueueFence: Send + Sync {
    /// The value in memory.
    fn current(&self) -> u64;
    /// True if somebody waits for a value that it does not have.
    fn is_awaited(&self) -> bool;
}

/// Values of the fence of a paging queue.
#[derive(Default)]
pub(super) struct Values {
    /// The last one that was handed out.
    pub(super) last: u64,
    /// The packet that writes it, or one behind which it is written.
    pub(super) packet: Option<PagingFence>,
    /// The oldest one that the fence did not have when a later one was handed out.
    pub(super) owed: Option<Owed>,
    /// The fence had a value beyond `last`.
    is_overshot: bool,
}

/// A value that the driver was asked to have written.
pub(super) struct Owed {
    pub(super) value: u64,
    /// The packet behind whose commands it is written; `None` if there was none, because the driver had nothing for the GPU to do.
    pub(super) packet: Option<PagingFence>,
    /// The packet was complete at an earlier look, and the value not there.
    pub(super) late: bool,
}

impl Values {
    pub(super) fn note(&mut self, packet: Option<PagingFence>, current: u64) {
        self.packet = packet;
        if self.owed.as_ref().is_none_or(|owed| owed.value <= current) {
            self.owed = Some(Owed { value: self.last, packet, late: false });
        }
    }
}

impl ResidencyQueue {
    /// The physical adapter it is of.
    pub(crate) fn engine(&self) -> u32 {
        self.engine
    }

    /// A fence with a value beyond the last one that the driver was asked to write is a finding, once for a queue. It is no bug check: a program's own commands reach the page too. The fence of
    /// a lost device has the largest value, from the system.
    pub(super) fn note_overshot(&self, driver: &Driver, values: &mut Values) {
        let (last, current) = (values.last, self.fence.current());
        if values.is_overshot || current <= last || current == u64::MAX {
            return;
        }
        values.is_overshot = true;
        driver.rescues.add(Rescue::OvershotFence, 1);
        driver.verifier.log(format!(
            "the fence of a paging queue has a value that nobody asked for: the last MonitoredFenceValue of DXGK_OPERATION_SIGNAL_MONITORED_FENCE on engine {} at MonitoredFenceGpuVa {:#x} \
             was {last:#x}, and the fence has {current:#x}; the commands of DxgkDdiBuildPagingBuffer store another value than MonitoredFenceValue, or the program has written there \
             [d3dkmddi: DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE]",
            self.engine,
            self.page + self.offset
        ));
    }
}

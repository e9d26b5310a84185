//! The properties in which pieces of silicon differ, and the register values by which software reads them.

use campanile_hw::registers::{
    Caps, PAGE_TABLES_BY_WRITE, PAGE_TABLES_BY_WRITE_PHYSICAL, PREEMPTION_BUFFER, PREEMPTION_DISPATCH,
    PREEMPTION_INSTRUCTION, PREEMPTION_WORKGROUP, VRAM_PAGE_SIZE,
};
use serde::{Deserialize, Serialize};

/// Largest VRAM in bytes.
const VRAM_MAX: u64 = 1 << 40;
/// Most doorbell pages.
const DOORBELLS_MAX: u32 = 65_536;
/// Most queues: a global doorbell names a queue in 16 bits.
const QUEUES_MAX: u32 = 65_536;
/// Most fences that are reached through the paging process.
const FENCES_MAX: u32 = 1 << 20;

/// Properties of a function that differ between pieces of silicon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Size of VRAM in bytes, a multiple of 4096.
    pub vram_size: u64,
    /// Size of BAR4, a power of two, at least 4096 and at most `vram_size`. It shows VRAM from offset 0, up to the host aperture.
    pub vram_window: u64,
    /// Size of the host aperture at the end of BAR4, a multiple of 4096 and less than `vram_window`; 0 for none.
    pub host_aperture: u64,
    /// Number of doorbell pages, at least 1. A function with a global doorbell has one.
    pub doorbells: u32,
    /// True: one doorbell page for all queues. False: one for each connected doorbell.
    pub global_doorbell: bool,
    /// True if doorbell pages are not polled: only commands make the scheduler look at queues.
    pub notify_doorbells: bool,
    /// True if fence values are written as single 64-bit stores. Otherwise only their low halves are written, and there are no native
    /// fences.
    pub atomics64: bool,
    /// True if WAIT, and SIGNAL with a monitored value, are implemented.
    pub native_fence: bool,
    /// True if DMA does not snoop CPU caches.
    pub non_coherent: bool,
    /// True if the host is simulated as one whose caches never write a line back: DMA that does not snoop sees other contents than the
    /// processors.
    pub cached_host: bool,
    /// True if entries of fence logs stay in the scheduler until FlushFenceLogs, although the position counts them.
    pub delayed_log_writes: bool,
    /// True if interrupts of native fences name the queue that signalled, and only its fence log says which fences.
    pub optimised_fence_interrupt: bool,
    /// True if interrupts of fences name neither the fence nor its kind.
    pub one_fence_event: bool,
    /// True if the scheduler reaches fences and their logs through the paging process.
    pub system_process_fences: bool,
    /// Most fences that it can so reach, 1 to 2^20.
    pub fence_limit: u32,
    /// Distance in bytes that values of fences are to have, a multiple of 8 up to 4096; 0 leaves it to software.
    pub fence_stride: u32,
    /// True if VRAM keeps its contents in D3hot. Otherwise they are lost there.
    pub vram_kept_in_d3: bool,
    /// The unit that should write page tables, which CAPS tells the driver.
    pub page_table_updates: PageTableUpdates,
    /// True for one of the two functions of a linked adapter. Each looks again and again at the fences in system memory that its queues
    /// wait for, as the other may write them.
    pub linked: bool,
    /// True if register writes arrive after a delay and commands take a while, as on a physical bus. Otherwise both are done at once.
    pub posted_writes: bool,
    /// True if programs are interpreted only. Otherwise those that run long are compiled for the host's processor.
    pub interpreter: bool,
    /// Granularity of preemption: the points at which a queue that has begun a DISPATCH can leave the node.
    pub preemption: Preemption,
    /// Ticks (nanoseconds) after which a node without work reports that it is idle; 0 for a function that never does.
    pub idle_ticks: u64,
    /// Most queues, 1 to 65536.
    pub queue_limit: u32,
    /// Chooses the order in which [`crate::Gpu::step`] offers a slice to the nodes.
    pub seed: u64,
}

/// The unit that writes page tables, as CAPS asks the driver to have it; the function accepts every way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum PageTableUpdates {
    /// The processor.
    #[default]
    Cpu = 0,
    /// The paging node, by addresses of the paging process.
    GpuVirtual = PAGE_TABLES_BY_WRITE,
    /// The paging node, by locations.
    GpuPhysical = PAGE_TABLES_BY_WRITE_PHYSICAL,
}

/// Where a queue of the compute node can be stopped that has begun a DISPATCH, the coarsest granularity first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum Preemption {
    /// At the end of the command buffer.
    Buffer = PREEMPTION_BUFFER,
    /// Between two packets.
    Dispatch = PREEMPTION_DISPATCH,
    /// Also between two workgroups of the DISPATCH.
    Workgroup = PREEMPTION_WORKGROUP,
    /// Also between two instructions.
    #[default]
    Instruction = PREEMPTION_INSTRUCTION,
}

impl Preemption {
    /// True if a queue can leave the node in a DISPATCH that it has begun.
    pub(crate) fn leaves_dispatches(self) -> bool {
        matches!(self, Self::Workgroup | Self::Instruction)
    }
}

impl Default for Variant {
    /// 256 MiB of VRAM, all of it visible, 64 dedicated doorbells, 16384 queues, every feature.
    fn default() -> Self {
        Self {
            vram_size: 256 << 20,
            vram_window: 256 << 20,
            host_aperture: 0,
            doorbells: 64,
            global_doorbell: false,
            notify_doorbells: false,
            atomics64: true,
            native_fence: true,
            non_coherent: false,
            cached_host: false,
            delayed_log_writes: false,
            optimised_fence_interrupt: false,
            one_fence_event: false,
            system_process_fences: false,
            fence_limit: 1 << 18,
            fence_stride: 0,
            vram_kept_in_d3: false,
            page_table_updates: PageTableUpdates::Cpu,
            linked: false,
            posted_writes: false,
            interpreter: false,
            preemption: Preemption::Instruction,
            idle_ticks: 0,
            queue_limit: 16_384,
            seed: 1,
        }
    }
}

impl Variant {
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.vram_size == 0 || !self.vram_size.is_multiple_of(VRAM_PAGE_SIZE) || self.vram_size > VRAM_MAX {
            return Err("vram_size must be a multiple of 4096, above 0 and at most 1 TiB");
        }
        if !self.vram_window.is_power_of_two() || self.vram_window < VRAM_PAGE_SIZE || self.vram_window > self.vram_size
        {
            return Err("vram_window must be a power of two from 4096 to vram_size");
        }
        if !self.host_aperture.is_multiple_of(VRAM_PAGE_SIZE) || self.host_aperture >= self.vram_window {
            return Err("host_aperture must be a multiple of 4096 and less than vram_window");
        }
        if self.doorbells == 0 || self.doorbells > DOORBELLS_MAX {
            return Err("doorbells must be 1 to 65536");
        }
        if self.queue_limit == 0 || self.queue_limit > QUEUES_MAX {
            return Err("queue_limit must be 1 to 65536");
        }
        if !self.fence_stride.is_multiple_of(8) || self.fence_stride > 4096 {
            return Err("fence_stride must be a multiple of 8 up to 4096");
        }
        if self.fence_limit == 0 || self.fence_limit > FENCES_MAX {
            return Err("fence_limit must be 1 to 1048576");
        }
        Ok(())
    }

    /// The part of BAR4 that shows VRAM as it is.
    pub(crate) fn linear_window(&self) -> u64 {
        self.vram_window - self.host_aperture
    }

    pub(crate) fn doorbell_count(&self) -> u32 {
        if self.global_doorbell { 1 } else { self.doorbells }
    }

    pub(crate) fn fence_limit(&self) -> Option<u32> {
        self.system_process_fences.then_some(self.fence_limit)
    }

    /// True if the function has native fences: it has their packets and 64-bit atomics.
    pub(crate) fn has_native_fences(&self) -> bool {
        self.native_fence && self.atomics64
    }

    pub(crate) fn caps(&self) -> Caps {
        Caps::new()
            .with_global_doorbell(self.global_doorbell)
            .with_atomics64(self.atomics64)
            .with_native_fence(self.has_native_fences())
            .with_non_coherent(self.non_coherent)
            .with_system_process_fences(self.system_process_fences)
            .with_log_flush(self.delayed_log_writes)
            .with_optimised_fence_interrupt(self.optimised_fence_interrupt)
            .with_one_fence_event(self.one_fence_event)
            .with_vram_kept_in_d3(self.vram_kept_in_d3)
            .with_page_table_updates(self.page_table_updates as u8)
            .with_notify_doorbells(self.notify_doorbells)
            .with_preemption(self.preemption as u8)
    }
}

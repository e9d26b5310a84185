//! Everything under the memory lock: address spaces with their page tables, and where each allocation is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::kmd_handle::KmdHandle;
use crate::vidmm::allocation::Allocation;
use crate::vidmm::aperture_pages::BarFiles;
use crate::vidmm::budget_group::Demands;
use crate::vidmm::counts::{ResidencyCounts, Totals};
use crate::vidmm::driver::Driver;
use crate::vidmm::fence_place::FencePageState;
use crate::vidmm::ids::{AllocationId, FencePageId, SpaceId};
use crate::vidmm::location::Location;
use crate::vidmm::locked_views::{Ended, Lock};
use crate::vidmm::offered::Offered;
use crate::vidmm::page_table::PageTables;
use crate::vidmm::paging_work::{Paging, PagingFence};
use crate::vidmm::scheduler::IdlePoint;
use crate::vidmm::segment::Segments;
use crate::vidmm::sharing::Closed;
use crate::vidmm::system_memory::SystemMemory;
use crate::vidmm::table::Table;
use crate::vidmm::table_operation::Flush;
use crate::vidmm::va_space::VaSpace;

/// Normal priority. [d3dukmdt: D3DDDI_ALLOCATIONPRIORITY_NORMAL]
pub(crate) const PRIORITY_NORMAL: u32 = 0x7800_0000;

/// One address space: what a process has mapped on one engine. Its regions are the same on every engine.
pub(crate) struct Space {
    pub(super) engine: u32,
    /// The first of the same process.
    pub(super) first: SpaceId,
    /// The driver's handle of the process.
    pub(crate) process: KmdHandle,
    pub(crate) paging_process: bool,
    pub(crate) va: VaSpace,
    /// `None` while they are evicted, the process being suspended. What is mapped is only noted meanwhile.
    pub(super) tables: Option<PageTables<Table>>,
    /// Where the contexts of the process find its root, as the driver knows it.
    pub(super) told: Option<(u32, u64)>,
    /// Segment and offset of the root page table when the process worked last.
    pub(super) before: (u32, u64),
    pub(super) process_state: ProcessState,
    /// Time when its process last asked for something that needs the tables.
    pub(super) last_use: u64,
    /// Bytes of its allocations that have left a memory segment with their contents; counted for the first one of a process.
    pub(super) evicted: u64,
}

/// Translations of an address space between two addresses, or all of them for two zeros.
pub(super) fn flush_of(engine: u32, process: KmdHandle, tables: &PageTables<Table>, start: u64, end: u64) -> Flush {
    Flush { engine, process, root: tables.root().address(), start, end }
}

/// State of an allocation that the memory manager's lock guards.
pub(crate) struct AllocationState {
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) place: Location,
    /// Its page-table entries are valid: it has been made resident and was not evicted since.
    pub(crate) accessible: bool,
    /// It left its place although engines need it there, and comes back when its process works again.
    pub(super) away: bool,
    /// MakeResident calls that no Evict has answered.
    pub(crate) listed: u32,
    /// Doorbells that use it.
    pub(crate) references: u32,
    /// Address spaces that map it.
    pub(crate) spaces: BTreeSet<SpaceId>,
    pub(crate) lock: Option<Lock>,
    /// Time of the last request that concerned it.
    pub(crate) last_use: u64,
    /// Last paging packet that reads or writes it.
    pub(crate) busy: Option<PagingFence>,
    /// Where its bytes are while the device is not in D0, if they are not in their place.
    pub(crate) parked: Option<SystemMemory>,
    /// When it left the residency list or was destroyed: the queues that may still use it.
    pub(crate) idle: Option<IdlePoint>,
    pub(crate) destroyed: bool,
    /// What has a lower number leaves memory earlier. [d3dukmdt: D3DDDI_ALLOCATIONPRIORITY]
    pub(crate) priority: u32,
    /// User mode can do without its contents.
    pub(crate) offered: Option<Offered>,
}

impl AllocationState {
    /// A new allocation, nowhere yet.
    pub(crate) fn new(allocation: Arc<Allocation>, now: u64) -> Self {
        Self {
            allocation,
            place: Location::Uncommitted,
            accessible: false,
            away: false,
            listed: 0,
            references: 0,
            spaces: BTreeSet::new(),
            lock: None,
            last_use: now,
            busy: None,
            parked: None,
            idle: None,
            destroyed: false,
            priority: PRIORITY_NORMAL,
            offered: None,
        }
    }
}

/// The state behind the memory lock.
pub(crate) struct Memory {
    pub(crate) driver: Arc<Driver>,
    pub(crate) segments: Segments,
    pub(crate) spaces: BTreeMap<SpaceId, Space>,
    pub(crate) allocations: BTreeMap<AllocationId, AllocationState>,
    pub(crate) paging: Paging,
    /// Files behind bus addresses, for showing CPU-visible segments to user mode.
    pub(crate) bars: BarFiles,
    /// Destroyed allocations by device, in the order in which they become free.
    pub(super) destroyed: BTreeMap<u64, VecDeque<AllocationId>>,
    /// Openings of shared allocations that were closed, whose mappings queues may still use.
    pub(super) closed: Vec<Closed>,
    /// Addresses that processes are to give back, by number.
    pub(super) ended: BTreeMap<u64, Ended>,
    /// True if some allocation may be away, as [`AllocationState`] has it: none is before the first one was.
    pub(super) some_away: bool,
    /// Allocations that were looked at one by one, for the destroyed ones that become free and for those that are away.
    #[cfg(test)]
    pub(crate) looks: u64,
    /// Allocations that are gone for everybody but the driver, which must be told without the memory lock.
    pub(crate) gone: Vec<Arc<Allocation>>,
    /// Pages of fence values that belong in memory segments.
    pub(crate) fence_pages: BTreeMap<FencePageId, FencePageState>,
    /// The device is not in D0; true if without power.
    pub(crate) standby: Option<bool>,
    pub(crate) counts: ResidencyCounts,
    pub(super) totals: Totals,
    /// Memory that processes reserved, or wait for.
    pub(crate) demands: Demands,
    /// The device was out of D0 since the last periodic trim.
    pub(crate) slept: bool,
    clock: u64,
    pub(super) next_space: u64,
}

impl Memory {
    pub(crate) fn new(driver: Arc<Driver>, mut segments: Segments, paging: Paging, bars: BarFiles) -> Self {
        segments.table_work = driver.tables_by_gpu(false).then(Vec::new);
        Self {
            driver,
            segments,
            spaces: BTreeMap::new(),
            allocations: BTreeMap::new(),
            some_away: false,
            paging,
            bars,
            destroyed: BTreeMap::new(),
            closed: Vec::new(),
            ended: BTreeMap::new(),
            #[cfg(test)]
            looks: 0,
            gone: Vec::new(),
            fence_pages: BTreeMap::new(),
            standby: None,
            counts: ResidencyCounts::default(),
            totals: Totals::default(),
            demands: Demands::default(),
            slept: false,
            clock: 0,
            next_space: 1,
        }
    }

    /// The time of this request, for what was used last.
    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

/// Says if the GPU may be walking the page tables of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessState {
    /// It may: the process is not suspended.
    Running,
    /// It does not, until the process is resumed.
    Suspended,
}

/// True if an allocation cannot move before processes have been asked for something, or have answered.
pub(super) fn must_be_asked(state: &AllocationState) -> bool {
    state.lock.as_ref().is_some_and(Lock::must_be_asked)
}

#[cfg(test)]
#[path = "fake_gpu.rs"]
mod fake_gpu;
#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;

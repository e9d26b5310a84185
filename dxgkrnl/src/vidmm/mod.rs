//! VidMm: GPU address spaces, allocations, residency, and the paging process.
//!
//! Page tables lie where the driver wants them. They are written by the driver with the CPU, through the kernel's mapping of that
//! memory, before BuildPagingBuffer returns, or if it claims that by the GPU (see `table_work`). Moving and clearing memory is work for
//! the paging node, packed into buffers of the paging process. Requests never wait for that work unless memory is short or the CPU wants to see the result; they hand out a value of the
//! paging queue's fence instead.
//!
//! It knows the [`port`](crate::port) to the driver and nothing above itself: the scheduler is a [`Scheduler`] that plug and play gives it, and who
//! asks for memory is a [`MemoryOwner`].
//!
//! Its files import one another from the top down only. At the bottom are data: identities, places, views of locked allocations, paging work, requests. Above them stands [`memory`],
//! the state behind the memory lock, and above that are the operations, each of which adds its functions to that state and to [`VidMm`].
//!
//! No process is waited for with the memory lock held: see [`moving`].
//!
//! No DDI but BuildPagingBuffer, submission and those of the CPU host aperture is called with the memory lock held. The order of its locks is
//! in [`rank`](crate::rank).

mod address_space;
mod addresses;
mod allocation;
mod answer;
mod aperture_pages;
mod budget;
mod budget_change;
mod budget_group;
mod copy_entries;
mod counts;
mod cpu_cache;
mod creation;
mod driver;
mod eviction;
mod existing;
mod fence_pages;
mod fence_storage;
mod host_aperture;
mod ids;
pub(crate) mod joint_limit;
mod location;
mod lock;
mod locked_views;
mod mapping;
mod memory;
mod moving;
mod notify;
mod offer;
mod offered;
mod page_size;
mod page_table;
mod paging;
mod paging_queue;
mod paging_work;
mod placement;
mod query;
mod reclaim;
mod request;
mod request_queue;
mod reset;
mod residency;
mod scheduler;
mod search;
mod segment;
mod shared_resource;
mod sharing;
mod standby;
mod start;
mod suspended;
mod system_memory;
mod table;
mod table_memory;
mod table_operation;
mod table_tree;
mod table_work;
mod transfer;
mod trim;
mod update;
mod user_mapping;
mod user_memory;
mod va_space;
mod written_tables;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Weak};

use nt::lock::{Mutex, RwLock, RwLockReadGuard};
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::handles::HandleTable;
use crate::kmd_handle::KmdHandle;
use crate::rank;
use crate::refusal::{DriverAnswer, Failure, refused};
use nt::bugcheck::Bugcheck;

pub(crate) use address_space::{AddressSpace, Protection};
pub(crate) use addresses::{MapRequest, Shows};
pub(crate) use allocation::{Allocation, Request as AllocationRequest, Resource};
pub(crate) use answer::Backing;
pub(crate) use budget_change::BudgetRegistration;
pub(crate) use budget_group::Group;
pub use counts::ResidencyCounts;
pub(crate) use counts::Total;
pub(crate) use cpu_cache::SharedPages;
use driver::Driver;
pub(crate) use fence_pages::FencePage;
pub(crate) use fence_pages::FencePageAccess;
pub(crate) use fence_pages::PagePin;
pub(crate) use fence_storage::FenceValueKind;
use ids::AllocationId;
pub(crate) use ids::SpaceId;
use memory::{AllocationState, Memory};
pub(crate) use notify::InProcess;
pub(crate) use offered::OfferPriority;
pub(crate) use offered::OfferTerms;
pub(crate) use paging_queue::{QueueFence, ResidencyQueue};
pub(crate) use query::{ResidencyStatus, SegmentFigures};
pub(crate) use scheduler::IdlePoint;
pub(crate) use scheduler::{MemoryOwner, PagingContext, Running, Scheduler, SuspendOutcome};
pub(crate) use search::EvictionSearch;
pub(crate) use shared_resource::ResourceData;
pub(crate) use shared_resource::SharedResource;
use start::System;
pub(crate) use start::next_device_id;
pub(crate) use trim::TrimRegistration;
pub(crate) use update::{Change, Span, Update};
pub(crate) use user_mapping::{Kept, UserMapping};
pub(crate) use va_space::{Access, REGION_ALIGN};

/// The memory manager of one adapter.
pub(crate) struct VidMm {
    this: Weak<VidMm>,
    driver: Arc<Driver>,
    memory: Mutex<Memory, rank::Memory>,
    /// What the driver's handles of DxgkCbGetHandleData mean. The driver asks from inside DDIs.
    globals: Mutex<HandleTable<Global>>,
    /// Whoever tells the driver of allocations that are gone: when a device is destroyed, nobody does that any more of one of its allocations.
    reporting_freed: Mutex<(), rank::FreeingAllocations>,
    system: Mutex<Option<System>, rank::SystemProcess>,
    /// Devices by identity and processes that the driver knows.
    known: Mutex<Known>,
    /// Held for reading around DDIs that are called without the memory lock; true once the adapter has stopped. Never taken twice by a thread.
    stopped: RwLock<bool, rank::MemoryStopped>,
    /// The registrations that are called when memory is to be trimmed.
    trims: Mutex<Vec<Weak<TrimRegistration>>>,
    /// Registrations that are told when budgets change.
    budget_listeners: Mutex<Vec<budget_change::Listener>, rank::BudgetListeners>,
    /// Paging queues of all processes.
    paging_queues: Mutex<Vec<Weak<ResidencyQueue>>>,
    /// Requests that need the memory of processes with work.
    requests: request_queue::RequestQueue,
    /// Processes that are asked for something by threads of the memory manager.
    asking: moving::Asking,
    /// The driver's own range of addresses in every process, empty for none.
    driver_range: (u64, u64),
}

/// Objects that the driver created and has to destroy.
#[derive(Default)]
struct Known {
    devices: BTreeMap<u64, KmdHandle>,
    processes: Vec<KmdHandle>,
    spaces: BTreeMap<SpaceId, Weak<AddressSpace>>,
}

/// An allocation or resource as DxgkCbGetHandleData answers it.
pub(crate) struct Global {
    resource: bool,
    data: KmdHandle,
    device_specific: KmdHandle,
}

impl VidMm {
    /// Keeps the adapter from stopping while a DDI is called.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED once it has stopped.
    pub(crate) fn enter(&self) -> Result<RwLockReadGuard<'_, bool, rank::MemoryStopped>, NTSTATUS> {
        let stopped = self.stopped.read();
        if *stopped { Err(STATUS_DEVICE_REMOVED) } else { Ok(stopped) }
    }

    /// DxgkCbGetHandleData and DxgkCbAcquireHandleData: the driver's pointer for a kernel handle of an allocation or resource, NULL for
    /// any other. Inside OpenAllocation there is no device-specific pointer yet. [d3dkmddi: DXGKARGCB_GETHANDLEDATA]
    pub(crate) fn handle_data(&self, data: &DXGKARGCB_GETHANDLEDATA) -> *mut c_void {
        let globals = nt::lock::lock(&self.globals);
        let Some(entry) = globals.get(data.hObject) else { return std::ptr::null_mut() };
        let wanted = match data.Type {
            DXGK_HANDLE_TYPE::DXGK_HANDLE_ALLOCATION => !entry.resource,
            DXGK_HANDLE_TYPE::DXGK_HANDLE_RESOURCE => entry.resource,
            _ => false,
        };
        match (wanted, data.Flags.DeviceSpecific()) {
            (false, _) => std::ptr::null_mut(),
            (true, false) => entry.data.raw(),
            (true, true) => entry.device_specific.raw(),
        }
    }

    /// A question of the user-mode driver to its kernel-mode driver.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED once the adapter has stopped; what the driver answered.
    pub(crate) fn query_driver(&self, query: &DXGKARG_QUERYADAPTERINFO) -> Result<(), Failure> {
        let _running = self.enter()?;
        let answer = self.driver.miniport.query_adapter_info(self.driver.context.raw(), query);
        if answer.is_success() || self.driver.verifier.is_stopped() {
            return answer.ok();
        }
        Err(refused(answer.status(), format!("{answer} to DXGKQAITYPE_UMDRIVERPRIVATE")))
    }

    /// Ends what is left of a device's memory. Its queues are gone.
    pub(crate) fn release_device(&self, device: u64) {
        let mut memory = nt::lock::lock(&self.memory);
        let of_device = |(id, state): (&_, &AllocationState)| (state.allocation.device() == device).then_some(*id);
        let ids: Vec<AllocationId> = memory.allocations.iter().filter_map(of_device).collect();
        for id in ids {
            memory.end_lock(id);
            if let Some(state) = memory.allocations.get_mut(&id) {
                state.references = 0;
            }
            memory.destroy_when_idle(id, None);
        }
        drop(memory);
        self.collect();
    }

    /// Frees destroyed allocations that no queue can use any more, and what finished paging work held.
    pub(crate) fn collect(&self) {
        let mut memory = nt::lock::lock(&self.memory);
        let collected = memory.retire().and_then(|_| memory.free_destroyed()).and_then(|_| memory.submit());
        drop(memory);
        self.note_failure("freeing memory", collected);
        self.report_freed();
    }

    /// Waits until no paging work is under way.
    pub(crate) fn finish_paging(&self) {
        let mut memory = nt::lock::lock(&self.memory);
        let finished = memory.submit().and_then(|()| {
            while memory.wait_oldest()? {}
            Ok(())
        });
        drop(memory);
        self.note_failure("finishing paging work", finished);
        self.report_freed();
    }

    /// Work that nobody waits for could not be done.
    fn note_failure<T>(&self, what: &str, result: Result<T, NTSTATUS>) {
        if let Err(status) = result
            && !self.driver.verifier.is_stopped()
        {
            self.driver.verifier.log(format!("{what} ended with {status}"));
        }
    }

    /// A DDI that may not fail.
    fn must_succeed(&self, answer: DriverAnswer) {
        if !answer.is_success() && !self.driver.verifier.is_stopped() {
            let (code, reason) = (Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR, answer.may_not_fail());
            self.driver.verifier.raise(Bugcheck::new(code, [0; 4], reason));
        }
    }
}

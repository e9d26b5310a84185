//! The memory manager of one adapter: what it consists of, and what it can say without touching memory.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Weak};

use nt::bugcheck::Bugcheck;
use nt::lock::{Mutex, RwLock, RwLockReadGuard, lock};
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::handles::{HandleTable, Part};
use crate::kmd_handle::KmdHandle;
use crate::rank;
use crate::refusal::{DriverAnswer, Failure, refused};
use crate::vidmm::address_space::AddressSpace;
use crate::vidmm::aperture_pages::BarFiles;
use crate::vidmm::asking::Asking;
use crate::vidmm::driver::Driver;
use crate::vidmm::ids::SpaceId;
use crate::vidmm::memory::Memory;
use crate::vidmm::notices::{BudgetListener, TrimRegistration};
use crate::vidmm::paging_work::Paging;
use crate::vidmm::request_queue::RequestQueue;
use crate::vidmm::residency_queue::ResidencyQueue;
use crate::vidmm::scheduler::PagingContext;
use crate::vidmm::segment::Segments;

/// The memory manager of one adapter.
pub(crate) struct VidMm {
    pub(super) this: Weak<VidMm>,
    pub(super) driver: Arc<Driver>,
    pub(super) memory: Mutex<Memory, rank::Memory>,
    /// What the driver's handles of DxgkCbGetHandleData mean. The driver asks from inside DDIs.
    pub(super) globals: Mutex<HandleTable<Global>>,
    /// The part of the driver's kernel handles that those are of.
    _part_of_handles: Part,
    /// Whoever tells the driver of allocations that are gone: when a device is destroyed, nobody does that any more of one of its allocations.
    pub(super) reporting_freed: Mutex<(), rank::FreeingAllocations>,
    pub(super) system: Mutex<Option<System>, rank::SystemProcess>,
    /// Devices by identity and processes that the driver knows.
    pub(super) known: Mutex<Known>,
    /// Held for reading around DDIs that are called without the memory lock; true once the adapter has stopped. Never taken twice by a thread.
    pub(super) stopped: RwLock<bool, rank::MemoryStopped>,
    /// The registrations that are called when memory is to be trimmed.
    pub(super) trims: Mutex<Vec<Weak<TrimRegistration>>>,
    /// Registrations that are told when budgets change.
    pub(super) budget_listeners: Mutex<Vec<BudgetListener>, rank::BudgetListeners>,
    /// Paging queues of all processes.
    pub(super) paging_queues: Mutex<Vec<Weak<ResidencyQueue>>>,
    /// Requests that need the memory of processes with work.
    pub(super) requests: RequestQueue,
    /// Processes that are asked for something by threads of the memory manager.
    pub(super) asking: Asking,
    /// The driver's own range of addresses in every process, empty for none.
    pub(super) driver_range: (u64, u64),
}

/// Objects that the driver created and has to destroy.
#[derive(Default)]
pub(super) struct Known {
    pub(super) devices: BTreeMap<u64, KmdHandle>,
    pub(super) processes: Vec<KmdHandle>,
    pub(super) spaces: BTreeMap<SpaceId, Weak<AddressSpace>>,
}

/// An allocation or resource as DxgkCbGetHandleData answers it.
pub(crate) struct Global {
    pub(super) resource: bool,
    pub(super) data: KmdHandle,
    pub(super) device_specific: KmdHandle,
    /// The resource of an allocation, 0 for none.
    pub(super) parent: u32,
    /// The allocations of a resource, in the order of their creation.
    pub(super) children: Vec<u32>,
}

impl Global {
    /// An object that belongs to no other one.
    pub(super) fn new(resource: bool, data: KmdHandle) -> Self {
        Self { resource, data, device_specific: KmdHandle::NULL, parent: 0, children: Vec::new() }
    }
}

/// The system process on an adapter.
pub(crate) struct System {
    pub(super) process: KmdHandle,
    pub(super) space: Arc<AddressSpace>,
    pub(super) devices: Vec<KmdHandle>,
    pub(super) contexts: Vec<Arc<dyn PagingContext>>,
}

impl VidMm {
    /// A memory manager that has not started.
    pub(crate) fn of_parts(
        driver: Driver,
        segments: Segments,
        paging: Paging,
        bars: BarFiles,
        driver_range: (u64, u64),
    ) -> Arc<Self> {
        let part = driver.miniport.part_of_handles();
        let driver = Arc::new(driver);
        let memory = Memory::new(Arc::clone(&driver), segments, paging, bars);
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            driver,
            memory: Mutex::new(memory),
            globals: Mutex::new(HandleTable::of_part(part.number())),
            _part_of_handles: part,
            reporting_freed: Mutex::new(()),
            system: Mutex::new(None),
            driver_range,
            known: Mutex::default(),
            stopped: RwLock::new(false),
            trims: Mutex::default(),
            budget_listeners: Mutex::default(),
            paging_queues: Mutex::default(),
            requests: Default::default(),
            asking: Default::default(),
        })
    }

    /// Keeps the adapter from stopping while a DDI is called.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED once it has stopped.
    pub(crate) fn enter(&self) -> Result<RwLockReadGuard<'_, bool, rank::MemoryStopped>, NTSTATUS> {
        let stopped = self.stopped.read();
        if *stopped { Err(STATUS_DEVICE_REMOVED) } else { Ok(stopped) }
    }

    /// Address space of the paging (system) process.
    ///
    /// # Errors
    /// STATUS_DEVICE_NOT_READY before start and after stop.
    pub(crate) fn system_space(&self) -> Result<Arc<AddressSpace>, NTSTATUS> {
        lock(&self.system).as_ref().map(|system| Arc::clone(&system.space)).ok_or(STATUS_DEVICE_NOT_READY)
    }

    /// DxgkCbGetHandleData and DxgkCbAcquireHandleData: the driver's pointer for a kernel handle of an allocation or resource, NULL for
    /// any other. Inside OpenAllocation there is no device-specific pointer yet. [d3dkmddi: DXGKARGCB_GETHANDLEDATA]
    pub(crate) fn handle_data(&self, data: &DXGKARGCB_GETHANDLEDATA) -> *mut c_void {
        let globals = lock(&self.globals);
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

    /// DxgkCbGetHandleParent: the kernel handle of the resource that an allocation belongs to. [d3dkmddi: DXGKCB_GETHANDLEPARENT]
    pub(crate) fn handle_parent(&self, allocation: u32) -> Option<u32> {
        let globals = lock(&self.globals);
        globals.get(allocation).map(|entry| entry.parent).filter(|parent| *parent != 0)
    }

    /// DxgkCbEnumHandleChildren: the kernel handle of an allocation of a resource, by its place. [d3dkmddi: DXGKCB_ENUMHANDLECHILDREN]
    pub(crate) fn handle_child(&self, resource: u32, index: u32) -> Option<u32> {
        let globals = lock(&self.globals);
        globals.get(resource)?.children.get(usize::try_from(index).ok()?).copied()
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

    /// Work that nobody waits for could not be done.
    pub(super) fn note_failure<T>(&self, what: &str, result: Result<T, NTSTATUS>) {
        if let Err(status) = result
            && !self.driver.verifier.is_stopped()
        {
            self.driver.verifier.log(format!("{what} ended with {status}"));
        }
    }

    /// A DDI that may not fail.
    pub(super) fn must_succeed(&self, answer: DriverAnswer) {
        if !answer.is_success() && !self.driver.verifier.is_stopped() {
            let (code, reason) = (Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR, answer.may_not_fail());
            self.driver.verifier.raise(Bugcheck::new(code, [0; 4], reason));
        }
    }
}

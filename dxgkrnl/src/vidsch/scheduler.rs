//! The scheduler of an adapter: what it has, and what every part of it needs. Its [`objects`](super::objects) lead to it by their adapter.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use nt::bugcheck::Bugcheck;
use nt::lock::{Mutex, RwLock, RwLockReadGuard, lock};
use nt::verifier::{Listener, Verifier};
use wddm_ddi::status::*;
use wddm_ddi::types::{HANDLE, NTSTATUS};

use crate::rank;
use crate::refusal::DriverAnswer;
use crate::rescue::{Rescue, Rescues};
use crate::scheduler_class::SchedulerClass;

use super::objects::call_mapping::CallMappings;
use super::objects::device_work::DeviceWork;
use super::objects::fence::Fence;
use super::objects::fence_log::FenceLogs;
use super::objects::hardware::{Doorbell, HwContext, HwQueue};
use super::objects::node::Node;
use super::objects::overdue::Overdue;
use super::objects::packet::SystemContext;
use super::objects::packet_context::PacketContext;
use super::objects::pending::{Pending, SetAside};
use super::objects::process_adapter::ProcessAdapter;
use super::objects::render_adapter::RenderAdapter;
use super::objects::residency_slices::ResidencySlices;
use super::objects::scheduling_log::SchedulingLogs;
use super::objects::signalled::Names;
use super::objects::storage::Storage;
use super::objects::timeouts::{Recovery, Timeouts};
use super::objects::update_queue::UpdateQueue;
use super::objects::worker::{Work, Worker};
use super::registry::Registry;
use super::report::Limits;

/// Most private data that a thunk may hand through to the driver, in bytes.
pub(crate) const PRIVATE_DATA_MAX: u32 = 1 << 16;

/// The scheduler of one adapter.
pub(crate) struct VidSch {
    adapter: Weak<RenderAdapter>,
    pub(super) verifier: Arc<Verifier>,
    rescues: Arc<Rescues>,
    pub(super) limits: Limits,
    pub(super) nodes: Vec<Node>,
    pub(super) contexts: Registry<HwContext>,
    pub(super) queues: Registry<HwQueue>,
    /// The same queues by the driver's handles.
    pub(super) driver_queues: Registry<HwQueue>,
    pub(super) doorbells: Registry<Doorbell>,
    pub(super) fences: Registry<Fence>,
    pub(super) system_contexts: Registry<SystemContext>,
    pub(super) packet_contexts: Registry<PacketContext>,
    /// Processes that use the adapter.
    pub(super) processes: Mutex<Vec<Weak<ProcessAdapter>>>,
    /// Work of each device, by its identity.
    pub(super) devices: Mutex<HashMap<u64, Arc<DeviceWork>>, rank::Devices>,
    /// Number of times that the scheduler has looked for the last submission of a queue.
    pub(super) looks: AtomicU64,
    /// Fence storage of each process, by address of the process.
    storages: Mutex<HashMap<usize, Weak<Storage>>>,
    /// Fences that somebody waits for: native, monitored.
    watched: [Mutex<HashMap<usize, Weak<Fence>>>; 2],
    /// Waits whose fences were signalled, as the watchdog has found them.
    pub(super) overdue_waits: Overdue,
    /// Fences of several adapters whose members were not told of a signal, as the watchdog has found them.
    pub(super) overdue_members: Overdue,
    /// Reported, not yet acted upon. Device level takes it.
    pub(super) pending: Mutex<Pending>,
    /// What the DPC acts upon; swapped with `pending`, so that both keep their memory.
    pub(super) acting: Mutex<Pending, rank::ReportsActedUpon>,
    /// Said by engines that are being reset. Device level takes it.
    pub(super) aside: Mutex<Vec<SetAside>, rank::SetAside>,
    /// Only one thread is inside the DDIs of the GPU scheduler class.
    pub(super) class: SchedulerClass,
    /// Answer of DxgkDdiSetupPriorityBands.
    pub(super) bands: OnceLock<DriverAnswer>,
    /// What was unfinished when the driver said that an engine is idle, by node.
    pub(super) claims: Mutex<HashMap<u32, u64>>,
    pub(super) worker: Worker<Work>,
    /// Told when the machine stops.
    pub(super) stop_listener: OnceLock<Arc<Listener>>,
    /// Makes page-table updates that waited.
    pub(super) updates: Worker<Weak<UpdateQueue>>,
    pub(super) residency_slices: ResidencySlices,
    pub(super) fence_logs: FenceLogs,
    pub(super) scheduling_logs: SchedulingLogs,
    pub(super) names: Names,
    pub(super) timeouts: Timeouts,
    /// Addresses for DDI calls that update fence values, on a machine that takes them away afterwards.
    pub(super) call_mappings: Option<CallMappings>,
    /// True once stopping has begun. Held for reading while objects are created. Never taken twice by a thread.
    pub(super) stopped: RwLock<bool, rank::SchedulerStopped>,
}

impl VidSch {
    /// The scheduler of an adapter whose capabilities are known, and from whose timeouts `recovery` recovers.
    pub(crate) fn new(adapter: &Arc<RenderAdapter>, recovery: Arc<dyn Recovery>) -> Arc<Self> {
        let caps = adapter.caps();
        let nodes = caps.nodes.len();
        let cancels = caps.driver.SchedulingCaps.CancelCommandAware();
        Arc::new(Self {
            adapter: Arc::downgrade(adapter),
            verifier: Arc::clone(adapter.machine.verifier()),
            processes: Mutex::default(),
            rescues: Arc::clone(adapter.machine.rescues()),
            limits: Limits {
                nodes: caps.nodes_of_engine(),
                engines: caps.engines,
                optimized: caps.driver.SchedulingCaps.OptimizedNativeFenceSignaledInterrupt(),
            },
            nodes: (0..nodes).map(|node| Node::new(caps.cannot_stop_packets(node), cancels)).collect(),
            contexts: Registry::new(),
            queues: Registry::new(),
            driver_queues: Registry::new(),
            doorbells: Registry::new(),
            fences: Registry::new(),
            system_contexts: Registry::new(),
            packet_contexts: Registry::new(),
            devices: Mutex::new(HashMap::new()),
            looks: AtomicU64::new(0),
            storages: Mutex::new(HashMap::new()),
            watched: Default::default(),
            overdue_waits: Overdue::default(),
            overdue_members: Overdue::default(),
            pending: Mutex::new(Pending::default()),
            acting: Mutex::new(Pending::default()),
            aside: Mutex::default(),
            class: SchedulerClass::default(),
            bands: OnceLock::new(),
            claims: Mutex::default(),
            worker: Worker::default(),
            stop_listener: OnceLock::new(),
            updates: Worker::default(),
            residency_slices: ResidencySlices::default(),
            fence_logs: FenceLogs::default(),
            scheduling_logs: SchedulingLogs::default(),
            names: Names::default(),
            timeouts: Timeouts::new(&adapter.machine, recovery),
            call_mappings: adapter.machine.config().short_lived_addresses.then(CallMappings::new).and_then(Result::ok),
            stopped: RwLock::new(false),
        })
    }

    /// The adapter.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED when it is gone.
    pub(super) fn adapter(&self) -> Result<Arc<RenderAdapter>, NTSTATUS> {
        self.adapter.upgrade().ok_or(STATUS_DEVICE_REMOVED)
    }

    /// The nodes of the adapter, by number.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Every hardware context.
    pub(crate) fn hw_contexts(&self) -> Vec<Arc<HwContext>> {
        self.contexts.all()
    }

    /// The hardware context with this handle of ours.
    pub(crate) fn hw_context_of(&self, handle: HANDLE) -> Option<Arc<HwContext>> {
        self.contexts.get(handle)
    }

    /// Every hardware queue.
    pub(crate) fn hw_queues(&self) -> Vec<Arc<HwQueue>> {
        self.queues.all()
    }

    /// Every context of packets.
    pub(crate) fn packet_contexts(&self) -> Vec<Arc<PacketContext>> {
        self.packet_contexts.all()
    }

    /// True if a context of any kind has this handle, the system's or the driver's.
    pub(crate) fn has_context(&self, handle: HANDLE) -> bool {
        let hardware = self.contexts.all().into_iter().map(|context| context.handles());
        let packets = self.packet_contexts.all().into_iter().map(|context| context.handles());
        let paging = self.system_contexts.all().into_iter().map(|context| (context.system, context.kmd));
        hardware.chain(packets).chain(paging).any(|(system, driver)| [system.raw(), driver.raw()].contains(&handle))
    }

    /// Keeps the scheduler from stopping while something is created that stopping would not find.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED once the scheduler is being stopped.
    pub(crate) fn enter(&self) -> Result<RwLockReadGuard<'_, bool, rank::SchedulerStopped>, NTSTATUS> {
        let stopped = self.stopped.read();
        if *stopped { Err(STATUS_DEVICE_REMOVED) } else { Ok(stopped) }
    }

    /// Raises a bugcheck if a DDI failed that may not, unless the machine has stopped and the DDI was not even called, or there is no
    /// hardware any more.
    pub(super) fn must_succeed(&self, status: NTSTATUS, bugcheck: impl FnOnce() -> Bugcheck) {
        let failed = !status.is_success() || status == STATUS_PENDING;
        if failed && self.is_judged() {
            self.verifier.raise(bugcheck());
        }
    }

    /// True if a function of the adapter was pulled out, also if nobody has told of it yet: the driver reads all ones, and what it says of them breaks no rule.
    pub(super) fn is_of_absent_function(&self) -> bool {
        self.adapter.upgrade().is_some_and(|adapter| adapter.is_absent())
    }

    /// True until the machine has stopped or a function of the adapter was pulled out: what a driver does after that breaks no rule.
    pub(super) fn is_judged(&self) -> bool {
        !self.verifier.is_stopped() && !self.is_of_absent_function()
    }

    /// As [`VidSch::must_succeed`], for DDIs whose failure has no documented parameters.
    pub(crate) fn must_not_fail(&self, answer: DriverAnswer) {
        self.must_succeed(answer.status(), || {
            Bugcheck::new(Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR, [0; 4], answer.may_not_fail())
        });
    }

    /// Counts something that was made good although a driver or a device should have reported it.
    pub(crate) fn rescued(&self, rescue: Rescue, count: u64) {
        self.rescues.add(rescue, count);
        self.verifier.log(format!("made good: {rescue}, {count} times"));
    }

    /// Counts what looks like a mistake of the driver and is no bug check, since a program can have the same come about. The log has what it is.
    pub(super) fn found(&self, finding: Rescue, told: String) {
        self.rescues.add(finding, 1);
        self.verifier.log(told);
    }

    /// The driver broke a rule that has no documented parameters.
    pub(super) fn broken(&self, rule: String) {
        self.verifier.raise(Bugcheck::new(Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR, [0; 4], rule));
    }

    /// The queue with this handle, the system's or the driver's.
    pub(super) fn find_queue(&self, handle: HANDLE) -> Option<Arc<HwQueue>> {
        self.queues.get(handle).or_else(|| self.driver_queues.get(handle))
    }

    /// The context with this handle, the system's or the driver's.
    pub(super) fn find_context(&self, handle: HANDLE) -> Option<Arc<HwContext>> {
        self.contexts
            .get(handle)
            .or_else(|| self.contexts.all().into_iter().find(|context| context.handles().1.raw() == handle))
    }

    /// The doorbell with this handle, the system's or the driver's.
    pub(super) fn find_doorbell(&self, handle: HANDLE) -> Option<Arc<Doorbell>> {
        self.doorbells
            .get(handle)
            .or_else(|| self.doorbells.all().into_iter().find(|doorbell| doorbell.handles().1.raw() == handle))
    }

    /// Fence storage of a process.
    pub(super) fn storage(&self, process: &Arc<ProcessAdapter>) -> Arc<Storage> {
        let mut storages = lock(&self.storages);
        let key = Arc::as_ptr(process).addr();
        if let Some(storage) = storages.get(&key).and_then(Weak::upgrade) {
            return storage;
        }
        storages.retain(|_, storage| storage.strong_count() > 0);
        let storage = Storage::new(process);
        storages.insert(key, Arc::downgrade(&storage));
        storage
    }

    pub(super) fn watched(&self, native: bool) -> &Mutex<HashMap<usize, Weak<Fence>>> {
        let [natives, monitored] = &self.watched;
        if native { natives } else { monitored }
    }

    /// Somebody waits for `fence`.
    pub(super) fn watch(&self, fence: &Arc<Fence>) {
        lock(self.watched(fence.is_native())).insert(Arc::as_ptr(fence).addr(), Arc::downgrade(fence));
    }

    /// Nobody waits for `fence` any more.
    pub(super) fn unwatch(&self, fence: &Fence) {
        lock(self.watched(fence.is_native())).remove(&core::ptr::from_ref(fence).addr());
    }

    /// The fences of a kind that somebody waits for, perhaps on another adapter.
    pub(super) fn watched_fences(&self, native: bool) -> Vec<Arc<Fence>> {
        lock(self.watched(native)).values().filter_map(Weak::upgrade).collect()
    }

    /// Puts the calling thread to sleep for at most `nap`; a status once nobody will wake it any more.
    pub(super) fn pause(&self, nap: Duration) -> Option<NTSTATUS> {
        match self.adapter() {
            Ok(adapter) if !adapter.machine.config().interrupt_thread => {
                if !adapter.relax() {
                    std::thread::yield_now();
                }
            }
            Ok(_) => std::thread::park_timeout(nap),
            Err(status) => return Some(status),
        }
        self.verifier.is_stopped().then_some(STATUS_DEVICE_REMOVED)
    }

    /// Timeouts as the scheduler knows them.
    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// Recovery from timeouts, as plug and play handed it to the scheduler at start.
    pub(crate) fn recovery(&self) -> &dyn Recovery {
        &*self.timeouts.recovery
    }
}

impl RenderAdapter {
    /// Start has created the scheduler.
    pub(crate) fn set_scheduler(&self, vidsch: Arc<VidSch>) {
        let _ = self.scheduler.set(Box::new(vidsch));
    }

    /// The scheduler. Only valid once it was created during start.
    pub(crate) fn vidsch(&self) -> &Arc<VidSch> {
        self.scheduler().expect("the scheduler exists before anything can be submitted")
    }

    /// The scheduler, if start has come that far.
    pub(crate) fn scheduler(&self) -> Option<&Arc<VidSch>> {
        self.scheduler.get().and_then(|scheduler| scheduler.downcast_ref())
    }
}

impl Fence {
    pub(super) fn sch(&self) -> &Arc<VidSch> {
        self.adapter.vidsch()
    }
}

impl HwContext {
    pub(super) fn sch(&self) -> &Arc<VidSch> {
        self.adapter.vidsch()
    }
}

impl HwQueue {
    pub(super) fn sch(&self) -> &Arc<VidSch> {
        self.context.adapter().vidsch()
    }
}

impl PacketContext {
    pub(super) fn sch(&self) -> &Arc<VidSch> {
        self.adapter.vidsch()
    }
}

impl UpdateQueue {
    pub(super) fn sch(&self) -> &Arc<VidSch> {
        self.device.adapter.vidsch()
    }
}

impl SystemContext {
    /// The scheduler of the context's adapter.
    pub(super) fn scheduler(&self) -> &VidSch {
        self.adapter.vidsch()
    }
}

//! VidSch: contexts, queues, doorbells, fences and everything the driver reports about them.
//!
//! From an interrupt to the waiting thread there are two hops: the interrupt thread reads the report at device level
//! ([`VidSch::notify_interrupt`], which only notes it) and in the DPC right after ([`VidSch::notify_dpc`]) wakes
//! whoever's fence value is reached. Work that calls DDIs of PASSIVE_LEVEL goes to a worker thread. A fence nobody
//! waits for raises no interrupt at all.
//!
//! It stands above the memory manager and the [`port`](crate::port) to the driver, and below recovery from timeouts ([`tdr`](crate::tdr)) and the
//! adapter of plug and play. Devices and their objects reach all three through their [`RenderAdapter`]. The memory manager, which knows nothing of the scheduler's types, meets it as
//! [`Scheduler`](crate::vidmm::Scheduler), and a device as [`MemoryOwner`](crate::vidmm::MemoryOwner).
//!
//! The order of its locks is in [`rank`](crate::rank).

mod active;
mod batch;
mod call_mapping;
mod close;
mod cross_adapter;
mod deadline;
mod device;
mod doorbell;
mod doorbell_memory;
mod doorbell_state;
mod fence;
mod fence32;
mod fence_log;
mod for_memory;
mod hw_context;
mod hw_queue;
mod inspect;
mod interrupt;
mod native_fence;
mod node;
mod older_sync;
mod overdue;
mod overview;
mod packet;
mod packet_context;
pub(crate) mod priority;
mod process_adapter;
mod process_suspension;
mod queue_wait;
mod registry;
mod render_adapter;
mod report;
mod request_queue;
mod residency_slices;
mod running;
mod scheduling_log;
mod set_aside;
mod signalled;
mod software_queue;
mod storage;
mod sync_file;
mod sync_object;
mod timeouts;
mod update_queue;
mod work_snapshot;
mod worker;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use nt::lock::{Mutex, RwLock, RwLockReadGuard, lock};
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use crate::fence::{Event, Wait};
use crate::rank;
use crate::refusal::DriverAnswer;
use crate::rescue::{Rescue, Rescues};
use nt::bugcheck::Bugcheck;
use nt::verifier::Verifier;

pub(crate) use batch::signal;
pub(crate) use deadline::Waiter;
pub(crate) use device::{Device, DeviceError};
pub(crate) use doorbell::{Doorbell, Request as DoorbellRequest};
pub(crate) use fence::SharedFence;
pub use fence_log::{GpuClock, QueueFenceLog};
pub(crate) use fence32::{check_signals, check_waits};
pub(crate) use hw_context::HwContext;
pub(crate) use hw_queue::HwQueue;
pub use inspect::{Holdings, Tree};
pub(crate) use native_fence::FenceOptions;
pub(crate) use node::{Aborted, Node, Snapshot, Suspects};
pub(crate) use older_sync::{Kind as OlderKind, OlderSync, OlderSyncHandle, OpenOlderSync, Owner as MutexOwner};
pub use overview::{ProcessOverview, WaitedFence};
use packet::SystemContext;
pub(crate) use packet_context::{PacketCommands, PacketContext};
pub(crate) use process_adapter::ProcessAdapter;
pub(crate) use queue_wait::Objects;
pub(crate) use render_adapter::RenderAdapter;
pub(crate) use report::subcode;
use residency_slices::ResidencySlices;
pub(crate) use running::NodeFigures;
pub use scheduling_log::SchedulingLogCounts;
pub use signalled::FenceReports;
pub(crate) use software_queue::Commands;
pub(crate) use sync_file::SyncFile;
pub(crate) use sync_object::SyncObject;
pub(crate) use timeouts::{Complaint, Recovery, Subject, Timeouts};
pub(crate) use update_queue::{Request as UpdateRequest, UpdateQueue};

use call_mapping::CallMappings;
use close::DeviceWork;
use fence::Fence;
use fence_log::FenceLogs;
use interrupt::Pending;
use overdue::Overdue;
use registry::Registry;
use report::Limits;
use scheduling_log::SchedulingLogs;
use signalled::Names;
use storage::Storage;
use worker::{Work, Worker};

/// Most private data that a thunk may hand through to the driver, in bytes.
pub(crate) const PRIVATE_DATA_MAX: u32 = 1 << 16;

/// The scheduler of one adapter.
pub(crate) struct VidSch {
    adapter: Weak<RenderAdapter>,
    verifier: Arc<Verifier>,
    rescues: Arc<Rescues>,
    limits: Limits,
    nodes: Vec<Node>,
    contexts: Registry<HwContext>,
    queues: Registry<HwQueue>,
    /// The same queues by the driver's handles.
    driver_queues: Registry<HwQueue>,
    doorbells: Registry<Doorbell>,
    fences: Registry<Fence>,
    system_contexts: Registry<SystemContext>,
    packet_contexts: Registry<PacketContext>,
    /// Processes that use the adapter.
    processes: Mutex<Vec<Weak<ProcessAdapter>>>,
    /// Work of each device, by its identity.
    devices: Mutex<HashMap<u64, Arc<DeviceWork>>, rank::Devices>,
    /// Number of times that the scheduler has looked for the last submission of a queue.
    looks: AtomicU64,
    /// Fence storage of each process, by address of the process.
    storages: Mutex<HashMap<usize, Weak<Storage>>>,
    /// Fences that somebody waits for: native, monitored.
    watched: [Mutex<HashMap<usize, Weak<Fence>>>; 2],
    /// Waits whose fences were signalled, as the watchdog has found them.
    overdue_waits: Overdue,
    /// Fences of several adapters whose members were not told of a signal, as the watchdog has found them.
    overdue_members: Overdue,
    /// Reported, not yet acted upon. Device level takes it.
    pending: Mutex<Pending>,
    /// What the DPC acts upon; swapped with `pending`, so that both keep their memory.
    acting: Mutex<Pending, rank::ReportsActedUpon>,
    /// Said by engines that are being reset. Device level takes it.
    aside: Mutex<Vec<set_aside::SetAside>, rank::SetAside>,
    /// Only one thread is inside the DDIs of the GPU scheduler class.
    class: Mutex<(), rank::SchedulingClass>,
    /// Answer of DxgkDdiSetupPriorityBands.
    bands: OnceLock<DriverAnswer>,
    /// What was unfinished when the driver said that an engine is idle, by node.
    claims: Mutex<HashMap<u32, u64>>,
    worker: Worker<Work>,
    /// Makes page-table updates that waited.
    updates: Worker<Weak<UpdateQueue>>,
    residency_slices: ResidencySlices,
    fence_logs: FenceLogs,
    scheduling_logs: SchedulingLogs,
    names: Names,
    timeouts: Timeouts,
    /// Addresses for DDI calls that update fence values, on a machine that takes them away afterwards.
    call_mappings: Option<CallMappings>,
    /// True once stopping has begun. Held for reading while objects are created. Never taken twice by a thread.
    stopped: RwLock<bool, rank::SchedulerStopped>,
}

impl VidSch {
    /// The scheduler of an adapter whose capabilities are known, and from whose timeouts `recovery` recovers.
    pub(crate) fn new(adapter: &Arc<RenderAdapter>, recovery: Arc<dyn Recovery>) -> Arc<Self> {
        let caps = adapter.caps();
        let nodes = caps.nodes.len();
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
            nodes: (0..nodes).map(|node| Node::new(caps.cannot_stop_packets(node))).collect(),
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
            class: Mutex::new(()),
            bands: OnceLock::new(),
            claims: Mutex::default(),
            worker: Worker::default(),
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

    /// Starts the threads. They look at the adapter, so that its scheduler and its memory manager have to be known before.
    pub(crate) fn start_threads(self: &Arc<Self>) {
        let target = Arc::downgrade(self);
        self.worker.start("vidsch", self, move |receive| worker::run(&receive, &target));
        self.updates.start("vidsch-updates", self, |receive| update_queue::run(&receive));
    }

    /// The adapter.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED when it is gone.
    fn adapter(&self) -> Result<Arc<RenderAdapter>, NTSTATUS> {
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

    /// Everything that was submitted counts as complete. [tdr-changes-in-windows-8]
    pub(crate) fn abandon_packets(&self) {
        for node in &self.nodes {
            node.state().start_over();
            node.announce();
        }
    }

    /// Keeps the scheduler from stopping while something is created that stopping would not find.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED once the scheduler is being stopped.
    pub(crate) fn enter(&self) -> Result<RwLockReadGuard<'_, bool, rank::SchedulerStopped>, NTSTATUS> {
        let stopped = self.stopped.read();
        if *stopped { Err(STATUS_DEVICE_REMOVED) } else { Ok(stopped) }
    }

    /// Ends all work of processes: devices are lost, and everything made for them is destroyed on the driver. System
    /// contexts stay usable until VidMm destroys them.
    pub(crate) fn stop(&self) {
        {
            let mut stopped = self.stopped.write();
            if core::mem::replace(&mut *stopped, true) {
                return;
            }
        }
        self.residency_slices.stop();
        self.worker.stop();
        self.updates.stop();
        self.recovery().stop();
        self.close_everything();
        self.stop_scheduling_logs();
    }

    /// Raises a bugcheck if a DDI failed that may not, unless the machine has stopped and the DDI was not even called, or there is no
    /// hardware any more.
    fn must_succeed(&self, status: NTSTATUS, bugcheck: impl FnOnce() -> Bugcheck) {
        let failed = !status.is_success() || status == STATUS_PENDING;
        if failed && !self.verifier.is_stopped() && !self.is_of_absent_function() {
            self.verifier.raise(bugcheck());
        }
    }

    /// True if a function of the adapter was pulled out, also if nobody has told of it yet: the driver reads all ones, and what it says of them breaks no rule.
    fn is_of_absent_function(&self) -> bool {
        self.adapter.upgrade().is_some_and(|adapter| adapter.is_absent())
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

    /// The driver broke a rule that has no documented parameters.
    fn broken(&self, rule: String) {
        self.verifier.raise(Bugcheck::new(Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR, [0; 4], rule));
    }

    /// The queue with this handle, the system's or the driver's.
    fn find_queue(&self, handle: HANDLE) -> Option<Arc<HwQueue>> {
        self.queues.get(handle).or_else(|| self.driver_queues.get(handle))
    }

    /// The context with this handle, the system's or the driver's.
    fn find_context(&self, handle: HANDLE) -> Option<Arc<HwContext>> {
        self.contexts
            .get(handle)
            .or_else(|| self.contexts.all().into_iter().find(|context| context.handles().1.raw() == handle))
    }

    /// The doorbell with this handle, the system's or the driver's.
    fn find_doorbell(&self, handle: HANDLE) -> Option<Arc<Doorbell>> {
        self.doorbells
            .get(handle)
            .or_else(|| self.doorbells.all().into_iter().find(|doorbell| doorbell.handles().1.raw() == handle))
    }

    /// Fence storage of a process.
    fn storage(&self, process: &Arc<ProcessAdapter>) -> Arc<Storage> {
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

    fn watched(&self, native: bool) -> &Mutex<HashMap<usize, Weak<Fence>>> {
        let [natives, monitored] = &self.watched;
        if native { natives } else { monitored }
    }

    /// Somebody waits for `fence`.
    fn watch(&self, fence: &Arc<Fence>) {
        lock(self.watched(fence.is_native())).insert(Arc::as_ptr(fence).addr(), Arc::downgrade(fence));
    }

    /// Nobody waits for `fence` any more.
    fn unwatch(&self, fence: &Fence) {
        lock(self.watched(fence.is_native())).remove(&core::ptr::from_ref(fence).addr());
    }

    /// The fences of a kind that somebody waits for, perhaps on another adapter.
    fn watched_fences(&self, native: bool) -> Vec<Arc<Fence>> {
        lock(self.watched(native)).values().filter_map(Weak::upgrade).collect()
    }

    /// Looks at every fence of a kind that somebody waits for, perhaps on another adapter.
    fn evaluate_watched(&self, native: bool) {
        let fences = self.watched_fences(native);
        batch::evaluate(&fences);
        cross_adapter::propagate(&fences);
    }

    /// Puts the calling thread to sleep for at most `nap`; a status once nobody will wake it any more.
    fn pause(&self, nap: Duration) -> Option<NTSTATUS> {
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

    /// Blocks until all (or `any`) of the fences have reached their values: STATUS_SUCCESS, STATUS_TIMEOUT at
    /// `deadline`, or why the wait was given up.
    pub(crate) fn wait(&self, conditions: &[(Arc<SyncObject>, u64)], any: bool, deadline: Option<Instant>) -> NTSTATUS {
        self.wait_pausing(conditions, any, deadline, |nap| self.pause(nap))
    }

    /// As [`VidSch::wait`] for all of the fences, until `left` says that no time is left: the thread sleeps for no longer than that says. A value that is there and of which nobody
    /// has told for long ends the wait too, and is counted.
    pub(super) fn wait_told(&self, conditions: &[(Arc<SyncObject>, u64)], left: impl Fn() -> Duration) -> NTSTATUS {
        let found = Cell::new(None::<Instant>);
        self.wait_pausing(conditions, false, None, |nap| {
            if let Some(status) = self.pause(nap.min(left())) {
                return Some(status);
            }
            if !is_met(conditions, false) {
                return left().is_zero().then_some(STATUS_TIMEOUT);
            }
            let since = found.get().unwrap_or_else(Instant::now);
            found.set(Some(since));
            (since.elapsed() >= self.timeouts.long_stall()).then(|| {
                self.rescued(Rescue::UnreportedSignal, 1);
                STATUS_SUCCESS
            })
        })
    }

    /// As [`VidSch::wait`]; `pause` is that of [`Wait::block`].
    fn wait_pausing(
        &self,
        conditions: &[(Arc<SyncObject>, u64)],
        any: bool,
        deadline: Option<Instant>,
        pause: impl Fn(Duration) -> Option<NTSTATUS>,
    ) -> NTSTATUS {
        if is_met(conditions, any) {
            // All ones may be what the loss of a device left, which ends the instance first.
            let left = conditions.iter().filter(|(fence, _)| fence.current() == u64::MAX);
            return left.filter_map(|(fence, _)| fence.check().err()).next().unwrap_or(STATUS_SUCCESS);
        }
        let wait = Wait::of_thread(if any { 1 } else { conditions.len() as u32 });
        if let Err(status) = batch::add_waits(conditions, &wait) {
            wait.finish(status);
        }
        let status = wait.block(deadline, pause);
        if conditions.len() > 1 || status != STATUS_SUCCESS {
            batch::remove_waits(conditions, &wait);
        }
        status
    }

    /// As [`VidSch::wait`], but returns at once; `event` is signalled when the wait is over.
    ///
    /// # Errors
    /// A fence is closed or its device lost.
    pub(crate) fn wait_with_event(
        self: &Arc<Self>,
        conditions: &[(Arc<SyncObject>, u64)],
        any: bool,
        event: Event,
    ) -> Result<(), NTSTATUS> {
        let others: Vec<_> = conditions.iter().map(|(open, _)| Arc::downgrade(open.fence())).collect();
        let sch = Arc::downgrade(self);
        let forget = move || {
            if let Some(sch) = sch.upgrade() {
                sch.worker.add(Work::ForgetWaits(others.clone()));
            }
        };
        let count = if any { 1 } else { conditions.len() as u32 };
        let over: Option<Box<dyn Fn() + Send + Sync>> =
            if conditions.len() > 1 { Some(Box::new(forget)) } else { None };
        let wait = Wait::of_event(count, event, over);
        batch::add_waits(conditions, &wait).inspect_err(|_| batch::remove_waits(conditions, &wait))
    }
}

/// True if a wait would be over before it begins.
fn is_met(conditions: &[(Arc<SyncObject>, u64)], any: bool) -> bool {
    let mut met = conditions.iter().map(|(fence, value)| fence.current() >= *value);
    if any { met.any(|met| met) } else { met.all(|met| met) }
}

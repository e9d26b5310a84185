//! The order in which the locks of the graphics kernel are taken, outermost first.
//!
//! Each of these is the rank of one lock, or of locks of which a thread holds one at a time. A lock without a rank of its own is a
//! [`Leaf`](nt::lock::Leaf), under which nothing but an [`Innermost`](nt::lock::Innermost) lock is taken. Device level takes leaves, and those of the last
//! ranks that say so: it may have interrupted whoever holds another lock.

nt::ranks! {
    pub(crate) from 0;
    /// `MachineInner::pnp`: whole operations of plug and play.
    PlugAndPlay,
    /// `Adapter::idle`.
    IdlePolicy,
    /// `Process::changing_class`.
    PriorityClass,
    /// `VidSch::stopped`: objects are created only before stopping has begun.
    SchedulerStopped,
    /// `HwContext::teardown`, `PacketContext::teardown`.
    ContextTeardown,
    /// `HwQueue::teardown`.
    QueueTeardown,
    /// `Tdr::watch`.
    TdrWatch,
    /// `Tdr::probes`.
    TdrProbes,
    /// `Tdr::recovering`.
    Recovering,
    /// `PowerGate::users`: no device changes its power state while somebody is inside.
    PowerGate: tried,
    /// `Adapter::asleep`.
    DevicePower,
    /// `DeviceWork::lost`.
    DeviceLost,
    /// `HwQueue::making_doorbell`.
    MakingDoorbell,
    /// `HwQueue::submitting`.
    Submitting,
    /// `ProcessSuspension::suspended`.
    Suspended: tried,
    /// `CrossAdapter::making`.
    MakingCrossAdapterFence,
    /// `Fence::opens`.
    FenceOpens,
    /// `Storage::pages`.
    FenceStorage,
    /// `Process::adapters`.
    ProcessAdapters,
    /// `VidMm::stopped`: DDIs that are called without the memory lock.
    MemoryStopped,
    /// `Doorbell::exists`, by handle.
    DoorbellExists: several,
    /// `ProcessSuspension::to_resume`.
    ContextsToResume,
    /// `ProcessSuspension::time_slice`.
    TimeSlice,
    /// `HwContext::suspending`, `PacketContext::gone`.
    Suspending,
    /// The queues of submissions: `HwQueue::software_queue`, `PacketContext::software_queue`, `UpdateQueue::state`.
    SubmissionQueue,
    /// `VidMm::burying`.
    FreeingAllocations,
    /// `VidMm::budget_listeners`.
    BudgetListeners,
    /// `VidMm::system`.
    SystemProcess,
    /// `VidMm::memory`: allocations, segments, address spaces.
    Memory,
    /// `ResidencyQueue::values`.
    PagingValue,
    /// `CrossAdapter::signalling`, by number of the fence.
    CrossAdapterSignal: several,
    /// `SchedulingLogs::nodes`.
    SchedulingLogs,
    /// `Node::dispatching`.
    Dispatching,
    /// `SchedulerClass::one`.
    SchedulingClass,
    /// `Interrupts::delivering`.
    DeliveringInterrupts,
    /// `Component::uses`.
    PowerComponent,
    /// `Active::queues`.
    ActiveQueues,
    /// `VidSch::acting`.
    ReportsActedUpon,
    /// `Fence::waits`, by number of the fence.
    FenceWaits: several,
    /// `OlderSync::state`, by number of the object.
    OlderSync: several,
    /// `Fence::home`.
    FenceHome,
    /// `Spot::moving`: the page of a fence stays where it is.
    FencePage: tried,
    /// `Interrupts::line`: the adapter's interrupt lock.
    InterruptLock,
    /// `fence_log::Reader::state`.
    FenceLogReader,
    /// `VidSch::devices`.
    Devices,
    /// `Process::handles`.
    Handles,
    /// `Process::kernel_handles`.
    KernelHandles,
    /// `Rundown::state`.
    Rundown,
    /// `Tdr::offences`.
    Offences,
    /// `HwContext::suspension`. Device level takes it.
    ContextSuspension,
    /// `Doorbell::shown`.
    DoorbellShown,
    /// `VidSch::aside`. Device level takes it.
    SetAside,
    /// `Node::state`. Device level takes it.
    NodeState,
}

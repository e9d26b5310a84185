//! Devices, packet contexts and hardware contexts.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use campanile_hw::queue::Location;
use campanile_hw::registers::{Command, NODE_PAGING, NODES};
use wddm_ddi::km::*;
use wddm_ddi::status::{NTSTATUS, STATUS_PENDING, STATUS_SUCCESS};
use wddm_ddi::types::HANDLE;

use crate::adapter::{Adapter, UserDevice};
use crate::caps::{DMA_BUFFER_SEGMENTS, DMA_BUFFER_SIZE};
use crate::gpu::Gpu;
use crate::handle::{Handle, Kind, Object};
use crate::irql::{Device, Passive};
use crate::lock::{DeviceLock, PushLock};
use crate::node::flight::PreemptedBuffer;
use crate::node::priority::Priority;
use crate::pool::{PoolVec, Tag};
use crate::queue::Drain;
use crate::queue::hw_queue::{self, HwQueue};
use crate::queue::properties::ContextProperties;
use crate::queue::suspend::{Purpose, Suspension, Suspensions};
use crate::refusal::{Reason, Refused, refused};
use crate::report;
use crate::root_word::{NO_ROOT, bits_of, root_of};

/// Cookie of a suspension whose answer no thread waits for.
const NO_COOKIE: u64 = 0;

/// A context that the operating system schedules packet by packet.
pub(crate) struct Context {
    pub(crate) node: u32,
    engine: u32,
    pub(crate) system: bool,
    pub(crate) process: Handle,
    root: AtomicU64,
    /// The buffer that was preempted: the bytes of it that have run, then its address, 0 for none.
    preempted_executed: AtomicU32,
    preempted: AtomicU64,
}

impl Object for Context {
    const KIND: Kind = Kind::Context;

    fn engine(&self) -> u32 {
        self.engine
    }
}

impl Context {
    /// Checks the arguments of DxgkDdiCreateContext and describes the DMA buffers.
    ///
    /// # Errors
    /// STATUS_GRAPHICS_DRIVER_MISMATCH, the only refusal this DDI knows besides no memory: a node or engine that does not exist, a GDI
    /// context, or physical addressing.
    pub(crate) fn new(
        adapter: &Adapter,
        device: &UserDevice,
        args: &mut DXGKARG_CREATECONTEXT,
    ) -> Result<Self, Refused> {
        let engine = adapter.engine_of_affinity(args.EngineAffinity).map_err(|_| refused(Reason::ContextFlags))?;
        if args.NodeOrdinal >= NODES || args.Flags.GdiContext() || !args.Flags.VirtualAddressing() {
            return Err(refused(Reason::ContextFlags));
        }
        args.ContextInfo.DmaBufferSize = DMA_BUFFER_SIZE;
        args.ContextInfo.DmaBufferSegmentSet = DMA_BUFFER_SEGMENTS;
        args.ContextInfo.DmaBufferPrivateDataSize = 0;
        args.ContextInfo.AllocationListSize = 0;
        args.ContextInfo.PatchLocationListSize = 0;
        args.ContextInfo.Caps = DXGK_CONTEXTINFO_CAPS::new().with_NoPatchingRequired(true);
        args.ContextInfo.PagingCompanionNodeId = NODE_PAGING;
        Ok(Self {
            node: args.NodeOrdinal,
            engine,
            system: args.Flags.SystemContext(),
            process: device.process,
            root: AtomicU64::new(NO_ROOT),
            preempted_executed: AtomicU32::new(0),
            preempted: AtomicU64::new(0),
        })
    }

    /// Notes that a buffer of the context was preempted; it is the next one that the operating system submits.
    pub(crate) fn note_preempted(&self, preempted: PreemptedBuffer) {
        self.preempted_executed.store(preempted.executed, Ordering::Relaxed);
        self.preempted.store(preempted.buffer, Ordering::Release);
    }

    /// The bytes of `buffer` that ran before it was preempted; `again` is true if it is submitted again. A new submission drops the note, for
    /// the preempted buffer will not be submitted any more.
    pub(crate) fn take_executed(&self, buffer: u64, again: bool) -> u32 {
        let preempted = self.preempted.swap(0, Ordering::AcqRel);
        if again && preempted == buffer { self.preempted_executed.load(Ordering::Relaxed) } else { 0 }
    }

    /// Root page table, once it was set.
    pub(crate) fn root(&self) -> Option<Location> {
        root_of(&self.root)
    }

    /// True if packets of the context are in progress that need its address space.
    pub(crate) fn runs(&self, irql: &Passive, gpu: &Gpu, handle: Handle) -> bool {
        let node = gpu.nodes.get(self.node as usize);
        node.is_some_and(|node| node.has_packets_of(irql, &gpu.dxgk, handle.into_bits()))
    }

    /// The root page table is another one, or none is there.
    pub(crate) fn set_root(&self, root: Option<Location>) {
        self.root.store(bits_of(root), Ordering::Release);
    }
}

/// A context whose queues the hardware schedules.
pub(crate) struct HwContext {
    /// Handle of the operating system, for reports.
    dxgk: usize,
    pub(crate) properties: ContextProperties,
    /// Queues of the context. Taken before the locks of the queues.
    pub(crate) queues: PushLock<PoolVec<Handle>>,
    suspensions: DeviceLock<Suspensions>,
}

impl Object for HwContext {
    const KIND: Kind = Kind::HwContext;

    fn engine(&self) -> u32 {
        self.properties.engine
    }
}

impl HwContext {
    /// Checks the arguments of DxgkDdiCreateHwContext. The context starts resumed.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a node or engine that does not exist.
    pub(crate) fn new(
        adapter: &Adapter,
        device: &UserDevice,
        args: &mut DXGKARG_CREATEHWCONTEXT,
    ) -> Result<Self, Refused> {
        let engine = adapter.engine_of_affinity(args.EngineAffinity)?;
        if args.NodeOrdinal >= NODES {
            return Err(refused(Reason::NoSuchNode));
        }
        args.ContextCaps = DXGK_HWCONTEXT_CAPS::new();
        Ok(Self {
            dxgk: args.hHwContext.addr(),
            properties: ContextProperties::new(args.NodeOrdinal, engine, device.process),
            queues: PushLock::new(PoolVec::new(Tag::OBJECT)),
            suspensions: DeviceLock::new(Suspensions::new()),
        })
    }

    /// The operating system's handle.
    pub(crate) fn dxgk(&self) -> HANDLE {
        core::ptr::without_provenance_mut(self.dxgk)
    }

    /// True if its queues run on this node of this engine.
    pub(crate) fn runs_on(&self, node: u32, engine: u32) -> bool {
        (self.properties.node, self.properties.engine) == (node, engine)
    }

    /// Calls `body` for each queue.
    fn for_queues(&self, irql: &Passive, adapter: &Adapter, mut body: impl FnMut(&HwQueue)) {
        let queues = self.queues.lock(irql);
        for queue in queues.iter().filter_map(|handle| adapter.objects.get::<HwQueue>(*handle).ok()) {
            body(queue);
        }
    }

    /// True if the hardware has queues of the context and may run them.
    pub(crate) fn runs(&self, irql: &Passive, adapter: &Adapter) -> bool {
        let mut mapped = false;
        self.for_queues(irql, adapter, |queue| mapped |= hw_queue::is_mapped(irql, queue));
        mapped && !self.properties.is_suspended()
    }

    /// The root page table is another one, or none is there. Queues that the hardware has are told; queues that waited for one are mapped.
    pub(crate) fn set_root(&self, irql: &Passive, adapter: &Adapter, gpu: &Gpu, root: Option<Location>) {
        if self.properties.set_root(root) {
            self.for_queues(irql, adapter, |queue| hw_queue::update_root(irql, gpu, &self.properties, queue));
        }
    }

    /// DxgkDdiSetContextSchedulingProperties: queues that the hardware has are told, with whatever work is under way; others are
    /// mapped with the new priority.
    ///
    /// # Errors
    /// As [`Priority::of`]; nothing is changed then.
    pub(crate) fn set_properties(
        &self,
        irql: &Passive,
        adapter: &Adapter,
        gpu: &Gpu,
        args: &DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES,
    ) -> Result<(), Refused> {
        let wanted = Priority::of(args)?;
        if self.properties.set_priority(irql, wanted) {
            self.for_queues(irql, adapter, |queue| hw_queue::update_priority(irql, gpu, &self.properties, queue));
        }
        Ok(())
    }

    /// DxgkDdiSuspendContext, and the suspending half of DxgkDdiUpdateHwContextState.
    ///
    /// Returns STATUS_SUCCESS if the context was suspended already, else STATUS_PENDING; the suspension is then reported once every queue has
    /// stopped.
    pub(crate) fn suspend(
        &self,
        irql: &Passive,
        adapter: &Adapter,
        gpu: &Gpu,
        (fence, purpose): (u64, Purpose),
        drain: Drain,
    ) -> Result<NTSTATUS, Refused> {
        let queues = self.queues.lock(irql);
        if purpose == Purpose::Suspend && self.properties.is_suspended() {
            let done = gpu.dxgk.synchronize(irql, |device| self.suspensions.with(device, |list| list.is_empty()))?;
            if done {
                return Ok(STATUS_SUCCESS);
            }
        }
        // What is asked again was noted when it was asked first: the node may have done much since.
        let there = || queues.iter().filter_map(|handle| adapter.objects.get::<HwQueue>(*handle).ok());
        if !there().any(|queue| queue.is_being_suspended(irql))
            && let Some(node) = gpu.nodes.get(self.properties.node as usize)
        {
            gpu.note_stop_requested(node);
        }
        // Answers that are in the event ring already free a place for one more.
        let begin = |device: &Device| {
            drain(device, adapter, gpu);
            self.suspensions.with(device, |list| list.begin(fence, purpose))
        };
        let cookie = gpu.dxgk.synchronize(irql, begin)?.ok_or(refused(Reason::TableFull))?;
        self.properties.set_suspended(true);
        for queue in there() {
            if !hw_queue::is_mapped(irql, queue) {
                continue;
            }
            let expect = |device: &Device| self.suspensions.with(device, |list| list.expect(cookie));
            gpu.dxgk.synchronize(irql, expect)?;
            if queue.suspend(irql, gpu, cookie) {
                continue;
            }
            // Refused when the ring of events is full.
            gpu.dxgk.synchronize(irql, |device| drain(device, adapter, gpu))?;
            // A queue that still refuses does not run, which is as good as stopped.
            if !queue.suspend(irql, gpu, cookie) {
                gpu.dxgk.synchronize(irql, |device| self.answer(device, gpu, cookie))?;
            }
        }
        gpu.dxgk.synchronize(irql, |device| {
            self.answer(device, gpu, cookie);
            gpu.dxgk.queue_dpc();
        })?;
        Ok(STATUS_PENDING)
    }

    /// DxgkDdiResumeContext.
    pub(crate) fn resume(&self, irql: &Passive, adapter: &Adapter, gpu: &Gpu) {
        let queues = self.queues.lock(irql);
        self.properties.set_suspended(false);
        for queue in queues.iter().filter_map(|handle| adapter.objects.get::<HwQueue>(*handle).ok()) {
            hw_queue::map_saved(irql, gpu, &self.properties, queue);
            if hw_queue::is_mapped(irql, queue) {
                // Refused by a queue that faulted, and by one that `map_saved` has just resumed.
                let _ = gpu.cmp.run(irql, Command::ResumeQueue, &[u64::from(queue.number)]);
            }
        }
    }

    /// Called after a queue was unmapped: completes the suspension that the queue has not answered, because an unmapped queue does not run.
    pub(crate) fn answer_for_unmapped(
        &self,
        irql: &Passive,
        adapter: &Adapter,
        gpu: &Gpu,
        queue: &HwQueue,
        drain: Drain,
    ) {
        let answer = |device: &Device| {
            drain(device, adapter, gpu);
            let cookie = queue.suspending.swap(0, Ordering::AcqRel);
            if cookie != 0 {
                self.answer(device, gpu, cookie);
                gpu.dxgk.queue_dpc();
            }
        };
        // Without an interrupt nothing can be reported either.
        let _ = gpu.dxgk.synchronize(irql, answer);
    }

    /// A queue of the context stopped. Reports every suspension that is complete with it.
    pub(crate) fn answer(&self, irql: &Device, gpu: &Gpu, cookie: u64) {
        self.suspensions.with(irql, |list| list.answer(cookie));
        self.report(irql, gpu);
    }

    /// Reports every suspension that is complete, unless the engine is between reset and resume.
    pub(crate) fn report(&self, irql: &Device, gpu: &Gpu) {
        if gpu.nodes.get(self.properties.node as usize).is_none_or(|node| node.is_muted()) {
            return;
        }
        while let Some(Suspension { fence, purpose, .. }) = self.suspensions.with(irql, Suspensions::take_complete) {
            match purpose {
                Purpose::Suspend => report::suspended(irql, &gpu.dxgk, self.dxgk(), fence),
                Purpose::Switch => report::switched(irql, &gpu.dxgk, self.properties.node, fence),
            }
        }
    }
}

/// DxgkDdiSwitchToHwContextList: the contexts named run on the node, all others of it do not.
pub(crate) fn switch_list(
    irql: &Passive,
    adapter: &Adapter,
    args: &DXGKARG_SWITCHTOHWCONTEXTLIST,
) -> Result<(), Refused> {
    let gpu = adapter.started_engine(args.EngineOrdinal)?;
    if args.NodeOrdinal >= NODES {
        return Err(refused(Reason::NoSuchNode));
    }
    let is_there = |context: &HwContext| context.runs_on(args.NodeOrdinal, args.EngineOrdinal);
    let named = [args.hHwContextFirst, args.hHwContextSecond].map(Handle::of);
    for (raw, handle) in [args.hHwContextFirst, args.hHwContextSecond].into_iter().zip(named) {
        if !raw.is_null() && !is_there(adapter.objects.get::<HwContext>(handle)?) {
            return Err(refused(Reason::NoSuchNode));
        }
    }
    let all = adapter.objects.all::<HwContext>(irql, adapter.handle())?;
    for handle in all.iter() {
        let Ok(context) = adapter.objects.get::<HwContext>(*handle) else { continue };
        if !is_there(context) {
            continue;
        }
        if named.contains(handle) {
            context.resume(irql, adapter, gpu);
        } else {
            context.stop_queues(irql, adapter, gpu);
        }
    }
    Ok(())
}

impl HwContext {
    /// Suspends without a report.
    fn stop_queues(&self, irql: &Passive, adapter: &Adapter, gpu: &Gpu) {
        let queues = self.queues.lock(irql);
        self.properties.set_suspended(true);
        for queue in queues.iter().filter_map(|handle| adapter.objects.get::<HwQueue>(*handle).ok()) {
            if hw_queue::is_mapped(irql, queue) {
                // Cookie 0 belongs to no suspension, so its event is ignored.
                let _ = gpu.cmp.run(irql, Command::SuspendQueue, &[u64::from(queue.number), NO_COOKIE]);
            }
        }
    }

    /// DxgkDdiUpdateHwContextState.
    pub(crate) fn update_state(
        &self,
        irql: &Passive,
        adapter: &Adapter,
        gpu: &Gpu,
        args: &DXGKARG_UPDATEHWCONTEXTSTATE,
        drain: Drain,
    ) -> Result<(), Refused> {
        let interrupt = args.Flags.InterruptOnSwitchCompletion();
        match (args.Flags.Suspended(), interrupt) {
            (true, true) => {
                self.suspend(irql, adapter, gpu, (args.ContextSwitchFence, Purpose::Switch), drain).map(drop)?;
            }
            (true, false) => self.stop_queues(irql, adapter, gpu),
            (false, _) => {
                self.resume(irql, adapter, gpu);
                if interrupt {
                    gpu.dxgk.synchronize(irql, |device| {
                        report::switched(device, &gpu.dxgk, self.properties.node, args.ContextSwitchFence);
                        gpu.dxgk.queue_dpc();
                    })?;
                }
            }
        }
        Ok(())
    }
}

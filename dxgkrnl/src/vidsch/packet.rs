//! Packet scheduling: system contexts, and how packets of every context get to the driver.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nt::bugcheck::Bugcheck;
use nt::lock::lock;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::nt::{DISPATCH_LEVEL, PASSIVE_LEVEL};
use wddm_ddi::status::*;

use crate::ddi_buffer::LentBytes;
use crate::kmd_handle::KmdHandle;
use crate::refusal::{Failure, refused};
use crate::scheduler_class::InClass;
use crate::vidmm::AddressSpace;

use super::deadline::Waiter;
use super::not_running::NotRunning;
use super::objects::device::DeviceError;
use super::objects::node::{Node, NodeState};
use super::objects::packet::{Next, Owner, Packet, SystemContext};
use super::objects::packet_context::PacketContext;
use super::objects::preempting::Stood;
use super::objects::render_adapter::RenderAdapter;
use super::objects::timeouts::POLL_INTERVAL;
use super::objects::worker::Work;
use super::report::subcode;
use super::scheduler::VidSch;

/// A packet that takes longer than this will never end.
const PACKET_LIMIT: Duration = Duration::from_secs(60);

/// Interval at which a thread that waits for a packet checks whether the machine has stopped.
const STOP_CHECK: Duration = Duration::from_millis(200);

impl Packet {
    /// The packet is done, run or dropped.
    pub(super) fn finish(&self) {
        if let Owner::Render(context, number) = &self.owner {
            context.note_finished(*number);
        }
    }
}

impl Node {
    /// Tells contexts of packets that are done, and wakes the waiters for one.
    pub(crate) fn announce(&self) {
        let finished = core::mem::take(&mut self.state().finished);
        for packet in finished {
            packet.finish();
        }
        self.completed.notify_all();
    }
}

impl PacketContext {
    /// A packet is done, run or dropped. Takes no locks but the worker's.
    fn note_finished(&self, number: u64) {
        self.finished.fetch_max(number, Ordering::SeqCst);
        if self.attention.load(Ordering::SeqCst) != 0 {
            self.sch().worker.add(Work::AdvanceContext(Weak::clone(&self.this)));
        }
    }
}

impl VidSch {
    /// Everything that was submitted counts as complete. [tdr-changes-in-windows-8]
    pub(crate) fn abandon_packets(&self) {
        for node in &self.nodes {
            node.state().start_over();
            node.announce();
        }
    }
}

impl SystemContext {
    /// Destroys the context; its packets are complete. Once is enough.
    pub(crate) fn destroy(&self) {
        if !self.destroyed.swap(true, Ordering::AcqRel) {
            let status = self.adapter.miniport.destroy_context(self.kmd.raw());
            let sch = self.adapter.vidsch();
            sch.must_not_fail(status);
            sch.system_contexts.retire(self.system);
        }
    }
}

/// DxgkDdiSetRootPageTable for a context of either kind on a node, which does not run. [d3dkmddi: DXGKARG_SETROOTPAGETABLE]
pub(super) fn set_root_page_table(
    adapter: &RenderAdapter,
    context: KmdHandle,
    node: u32,
    space: &AddressSpace,
    _stands: &NotRunning<'_>,
) {
    let Some((segment, offset)) = adapter.vidmm().root(space, adapter.caps().ordinals(node).1) else { return };
    let mut args = DXGKARG_SETROOTPAGETABLE::zeroed();
    args.hContext = context.raw();
    args.Address.SegmentId = segment;
    args.Address.SegmentOffset = offset;
    args.NumEntries = space.root_entries();
    let _class = adapter.vidsch().scheduler_class("DxgkDdiSetRootPageTable");
    adapter.miniport.set_root_page_table(adapter.context().raw(), &args);
}

/// DxgkDdiCreateContext for a virtual context, with the rules for what the driver says of it; its handle and what it said.
/// [d3dkmddi: DXGKARG_CREATECONTEXT]
///
/// # Errors
/// STATUS_INVALID_PARAMETER for a context that breaks the rules, which is destroyed; what the driver answered.
pub(super) fn create_context(
    adapter: &RenderAdapter,
    device: KmdHandle,
    args: &mut DXGKARG_CREATECONTEXT,
) -> Result<(KmdHandle, DXGK_CONTEXTINFO), Failure> {
    let system = args.hContext;
    adapter.miniport.create_context(device.raw(), args).ok()?;
    let member = ("DXGKARG_CREATECONTEXT", "hContext");
    let kmd = KmdHandle::new(args.hContext);
    let kmd = kmd.answered(system, "DxgkDdiCreateContext", member)?;
    let info = args.ContextInfo;
    if let Err(failure) = check_context_info(adapter, args.NodeOrdinal, &info) {
        let destroyed = adapter.miniport.destroy_context(kmd.raw());
        adapter.vidsch().must_not_fail(destroyed);
        return Err(failure);
    }
    Ok((kmd, info))
}

/// What a driver says of a context. `DmaBufferSize` may be anything, 0 as well: its page says what a DMA buffer must hold (a command that cannot be split, a
/// rectangle of DxgkDdiPresent) and gives no least number, and a context with virtual addressing is given the command buffers of user mode, so that no
/// DMA buffer is made from it. [d3dkmddi: DXGK_CONTEXTINFO]
///
/// # Errors
/// STATUS_INVALID_PARAMETER with the rule. That private data of a packet and the lists have limits is this project's rule: the page has none.
fn check_context_info(adapter: &RenderAdapter, node: u32, info: &DXGK_CONTEXTINFO) -> Result<(), Failure> {
    const MOST: u32 = 1 << 20;
    /// Elements of a list, which no packet with virtual addressing has.
    const LIST_MOST: u32 = 1 << 16;
    adapter.check_dma_buffer_segment_set(node, info.DmaBufferSegmentSet).map_err(|error| {
        let why = error.to_string();
        refused(adapter.refuse(error), why)
    })?;
    let size = info.DmaBufferPrivateDataSize;
    let lists =
        [("AllocationListSize", info.AllocationListSize), ("PatchLocationListSize", info.PatchLocationListSize)];
    let (caps, nodes) = (info.Caps.into_bits(), adapter.caps().nodes_of_engine());
    let rule = if caps & !0b111 != 0 {
        format!(
            "answered ContextInfo.Caps {caps:#x}: the bits {:#x} of it are reserved, and expected is 0",
            caps & !0b111
        )
    } else if info.Reserved != 0 {
        format!("answered ContextInfo.Reserved {:#x}, which is reserved, and expected is 0", info.Reserved)
    } else if let Some((member, size)) = lists.into_iter().find(|(_, size)| *size > LIST_MOST) {
        format!("answered ContextInfo.{member} {size:#x}, and at most {LIST_MOST:#x} elements are possible here")
    } else if info.PagingCompanionNodeId >= nodes {
        let node = info.PagingCompanionNodeId;
        format!(
            "answered ContextInfo.PagingCompanionNodeId {node:#x}, and the adapter has {nodes} node{}",
            plural(nodes)
        )
    } else if !info.Caps.NoPatchingRequired() {
        "answered ContextInfo.Caps.NoPatchingRequired 0, and a context with virtual addressing has nothing to patch"
            .into()
    } else if size > MOST {
        format!(
            "asked for too much in ContextInfo.DmaBufferPrivateDataSize: {size:#x} bytes for each packet, at most {MOST:#x} are possible here"
        )
    } else {
        return Ok(());
    };
    let why = format!("DxgkDdiCreateContext on node {node} {rule} [d3dkmddi: DXGK_CONTEXTINFO]");
    Err(refused(STATUS_INVALID_PARAMETER, why))
}

/// The end of a word that is counted.
fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

impl VidSch {
    /// Only one thread is inside the DDIs of the GPU scheduler class (BuildPagingBuffer, SubmitCommand, PreemptCommand,
    /// SetRootPageTable): whoever calls one holds this. Taken after every other lock of the scheduler but
    /// `Node::state` and leaves; never held while waiting. [threading-and-synchronization: first level]
    pub(crate) fn scheduler_class(&self, ddi: &'static str) -> InClass<'_> {
        self.class.enter(ddi)
    }

    /// The DDI of that class that a thread is inside.
    pub(crate) fn inside_scheduler_class(&self) -> Option<&'static str> {
        self.class.inside()
    }

    /// Creates a context of the system device `device` on `node` and sets its page tables. [d3dkmddi:
    /// DXGKARG_CREATECONTEXT]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a node that does not exist or a context that breaks the rules for virtual ones;
    /// what the driver answered.
    pub(crate) fn create_system_context(
        &self,
        device: KmdHandle,
        node: u32,
        space: &AddressSpace,
    ) -> Result<Arc<SystemContext>, Failure> {
        let adapter = self.adapter()?;
        if node as usize >= self.nodes.len() {
            return Err(STATUS_INVALID_PARAMETER.into());
        }
        let system = self.system_contexts.reserve();
        let mut args = DXGKARG_CREATECONTEXT::zeroed();
        args.hContext = system.raw();
        let (ordinal, engine) = adapter.caps().ordinals(node);
        (args.NodeOrdinal, args.EngineAffinity) = (ordinal, 1 << engine);
        args.Flags = DXGK_CREATECONTEXTFLAGS::new().with_SystemContext(true).with_VirtualAddressing(true);
        let (kmd, _) = create_context(&adapter, device, &mut args)?;
        let context = Arc::new(SystemContext { adapter, node, kmd, system, destroyed: AtomicBool::new(false) });
        self.system_contexts.publish(system, &context);
        set_root_page_table(&context.adapter, kmd, node, space, &NotRunning::of_new_context());
        Ok(context)
    }

    /// Submits a paging buffer at a virtual address of the paging process; the answer is its fence on the context's
    /// node. [d3dkmddi: DXGKARG_SUBMITCOMMANDVIRTUAL]
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED on a stopped adapter, and after the bugcheck that a refusal by the driver is.
    pub(crate) fn submit_paging(
        &self,
        context: &Arc<SystemContext>,
        buffer_va: u64,
        size: u32,
        private_data: &[u8],
    ) -> Result<u32, NTSTATUS> {
        let node = self.nodes.get(context.node as usize).ok_or(STATUS_INVALID_PARAMETER)?;
        if self.timeouts.is_abandoning() {
            // Whatever it did, the reset would undo.
            return Err(STATUS_DEVICE_REMOVED);
        }
        let packet = Packet {
            owner: Owner::Paging(Arc::clone(context)),
            address: buffer_va,
            size,
            private: private_data.to_vec(),
            user_private: 0,
            null: false,
            again: false,
            id: 0,
            refused: false,
            stood: Stood::default(),
        };
        let id = node.state().queue_paging(packet);
        self.dispatch(context.node);
        if self.verifier.is_stopped() { Err(STATUS_DEVICE_REMOVED) } else { Ok(id) }
    }

    /// Hands packets of a node to the driver, or asks it for a preemption, until there is nothing more to do for now. At
    /// PASSIVE_LEVEL, with no lock held that comes after `Node::dispatching`.
    pub(crate) fn dispatch(&self, number: u32) {
        let (Some(node), Ok(adapter)) = (self.nodes.get(number as usize), self.adapter()) else { return };
        if !node.state().has_waiting() {
            return;
        }
        let _working = adapter.use_node(number);
        let _dispatching = lock(&node.dispatching);
        let preemptible = adapter.caps().driver.SchedulingCaps.PreemptionAware();
        while !self.verifier.is_stopped() {
            let next = node.state().next(preemptible, self.timeouts.clock().now());
            match next {
                Next::Nothing => {
                    self.cancel_dropped(&adapter, node);
                    // Packets that were dropped instead of submitted have ended: waiters are told.
                    node.announce();
                    if node.state().is_contended() {
                        self.worker.add(Work::CheckTimeSlices);
                    }
                    break;
                }
                Next::Submit(packet) => self.hand_over(&adapter, node, number, packet),
                Next::Preempt(id) => self.preempt(&adapter, number, id),
            }
        }
    }

    /// True if on some node work waits for the time slice of another context to end.
    pub(super) fn is_contended(&self) -> bool {
        self.nodes.iter().any(|node| node.state().is_contended())
    }

    /// Preempts contexts that have had their node for their quantum.
    pub(super) fn end_time_slices(&self) {
        let now = self.timeouts.clock().now();
        for (number, node) in (0..).zip(&self.nodes) {
            if node.state().ends_slice(now) {
                self.dispatch(number);
            }
        }
    }

    /// [d3dkmddi: DXGKARG_SUBMITCOMMANDVIRTUAL]
    fn hand_over(&self, adapter: &Arc<RenderAdapter>, node: &Node, number: u32, mut packet: Packet) {
        let mut args = DXGKARG_SUBMITCOMMANDVIRTUAL::zeroed();
        let paging = matches!(packet.owner, Owner::Paging(_));
        args.hContext = match &packet.owner {
            Owner::Paging(context) => context.kmd.raw(),
            Owner::Render(context, _) => context.handles().1.raw(),
        };
        args.DmaBufferVirtualAddress = packet.address;
        args.DmaBufferSize = packet.size;
        let mut lent = LentBytes::new(&mut packet.private);
        (args.pDmaBufferPrivateData, args.DmaBufferPrivateDataSize) = lent.place();
        args.DmaBufferUmdPrivateDataSize = packet.user_private;
        args.SubmissionFenceId = packet.id;
        args.Flags = DXGK_SUBMITCOMMANDFLAGS::new()
            .with_Paging(paging)
            .with_NullRendering(packet.null)
            .with_Resubmission(packet.again);
        (args.NodeOrdinal, args.EngineOrdinal) = adapter.caps().ordinals(number);
        let status = {
            let _class = self.scheduler_class("DxgkDdiSubmitCommandVirtual");
            adapter.miniport.submit_command_virtual(adapter.context().raw(), &args).status()
        };
        lent.end(&self.verifier, "DxgkDdiSubmitCommandVirtual", "pDmaBufferPrivateData");
        node.state().keep_private(&packet);
        match (status, &packet.owner) {
            (STATUS_SUCCESS, _) => {}
            // The one refusal that the DDI knows: the packet completes in order, and its device is in error.
            (STATUS_INVALID_PARAMETER, Owner::Render(context, _)) if !self.verifier.is_stopped() => {
                let device = Arc::clone(context.device());
                device.set_error(DeviceError::Refused);
                node.state().refuse(packet.id);
                node.announce();
                self.worker.add(Work::Lose(device, DeviceError::Refused));
            }
            (status, _) => self.must_succeed(if status.is_success() { STATUS_UNSUCCESSFUL } else { status }, || {
                let (of, expected) = match paging {
                    true => ("paging packet", "STATUS_SUCCESS"),
                    false => ("packet", "STATUS_SUCCESS, or STATUS_INVALID_PARAMETER for a packet that cannot be run"),
                };
                Bugcheck::scheduler(
                    subcode::SUBMISSION_FAILED,
                    u64::from(status.0 as u32),
                    (&raw const args).addr() as u64,
                    0,
                    format!("DxgkDdiSubmitCommandVirtual answered a {of} with {status}, and expected was {expected} [d3dkmddi: DXGKDDI_SUBMITCOMMANDVIRTUAL]"),
                )
            }),
        }
    }

    /// Tells the driver of the packets that were dropped, each of which is done then. [d3dkmddi: DXGKDDI_CANCELCOMMAND]
    fn cancel_dropped(&self, adapter: &RenderAdapter, node: &Node) {
        while !self.verifier.is_stopped() {
            let dropped = node.state().next_cancelled();
            let Some(packet) = dropped else { return };
            self.cancel(adapter, packet);
            node.state().end_cancelled();
        }
    }

    /// The whole buffer is cancelled: with GPU virtual addresses nothing splits it, and it has no lists. [d3dkmddi: DXGKARG_CANCELCOMMAND]
    fn cancel(&self, adapter: &RenderAdapter, mut packet: Packet) {
        let Some(context) = packet.context().cloned() else { return };
        let mut args = DXGKARG_CANCELCOMMAND::zeroed();
        args.hContext = context.handles().1.raw();
        (args.DmaBufferVirtualAddress, args.DmaBufferSize) = (packet.address, packet.size);
        args.DmaBufferSubmissionEndOffset = packet.size;
        let mut lent = LentBytes::new(&mut packet.private);
        (args.pDmaBufferPrivateData, args.DmaBufferPrivateDataSize) = lent.place();
        args.DmaBufferPrivateDataSubmissionEndOffset = args.DmaBufferPrivateDataSize;
        args.DmaBufferUmdPrivateDataSize = packet.user_private;
        let status = {
            let _class = self.scheduler_class("DxgkDdiCancelCommand");
            adapter.miniport.cancel_command(adapter.context().raw(), &args).status()
        };
        lent.end(&self.verifier, "DxgkDdiCancelCommand", "pDmaBufferPrivateData");
        self.must_succeed(if status == STATUS_SUCCESS { status } else { STATUS_UNSUCCESSFUL }, || {
            Bugcheck::scheduler(
                subcode::CANCELLATION_FAILED,
                u64::from(status.0 as u32),
                (&raw const args).addr() as u64,
                0,
                format!(
                    "DxgkDdiCancelCommand answered {status}, and expected was STATUS_SUCCESS [d3dkmddi: DXGKDDI_CANCELCOMMAND]"
                ),
            )
        });
    }

    /// At PASSIVE_LEVEL where the driver has set LowIrqlPreemptCommand, otherwise at DISPATCH_LEVEL. [d3dkmddi: DXGKDDI_PREEMPTCOMMAND, DXGKARG_PREEMPTCOMMAND;
    /// mcdm-implementation-guidelines: SchedulingCaps requirements]
    fn preempt(&self, adapter: &RenderAdapter, number: u32, id: u32) {
        let mut args = DXGKARG_PREEMPTCOMMAND::zeroed();
        args.PreemptionFenceId = id;
        (args.NodeOrdinal, args.EngineOrdinal) = adapter.caps().ordinals(number);
        let low = adapter.caps().driver.SchedulingCaps.LowIrqlPreemptCommand();
        let level = if low { PASSIVE_LEVEL } else { DISPATCH_LEVEL };
        let status = {
            let _class = self.scheduler_class("DxgkDdiPreemptCommand");
            adapter.miniport.preempt_command(level, adapter.context().raw(), &args).status()
        };
        self.must_succeed(if status == STATUS_SUCCESS { status } else { STATUS_UNSUCCESSFUL }, || {
            Bugcheck::scheduler(
                subcode::SUBMISSION_FAILED,
                u64::from(status.0 as u32),
                (&raw const args).addr() as u64,
                0,
                format!("DxgkDdiPreemptCommand answered {status}"),
            )
        });
    }

    /// Waits until `done`, at most for `limit`; false if it does not come, or the machine has stopped.
    pub(crate) fn wait_node(&self, number: u32, limit: Duration, done: impl Fn(&NodeState) -> bool) -> bool {
        let (Some(node), Ok(adapter)) = (self.nodes.get(number as usize), self.adapter()) else { return false };
        let end = Instant::now() + limit;
        let pumped = !adapter.machine.config().interrupt_thread;
        loop {
            if pumped && !done(&node.state()) && !adapter.relax() {
                std::thread::yield_now();
            }
            if node.sleep_until(if pumped { Duration::ZERO } else { STOP_CHECK }, &done) {
                return true;
            }
            if self.verifier.is_stopped() || Instant::now() > end {
                return false;
            }
        }
    }

    /// Waits until `done`, at most for TdrDelay; false if it does not come, or everything is taken off the engines.
    pub(super) fn wait_node_within_deadline(
        &self,
        number: u32,
        waiter: Waiter,
        done: impl Fn(&NodeState) -> bool,
    ) -> bool {
        let deadline = self.timeouts.deadline(waiter);
        loop {
            let left = deadline.left();
            if self.wait_node(number, left.min(POLL_INTERVAL), &done) {
                return true;
            }
            if left.is_zero() || self.timeouts.is_abandoning() || self.verifier.is_stopped() {
                return false;
            }
        }
    }

    /// Waits until packet `fence` of `node` is complete.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED when the machine has stopped meanwhile.
    pub(crate) fn wait_packet(&self, node: u32, fence: u32) -> Result<(), NTSTATUS> {
        if node as usize >= self.nodes.len() {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let end = Instant::now() + PACKET_LIMIT;
        while !self.verifier.is_stopped() && Instant::now() < end {
            if self.wait_node(node, POLL_INTERVAL, |state| state.fences.is_complete(fence)) {
                return Ok(());
            }
            // A report leaves it to the worker to hand over what waits behind, and the worker is kept out while the device is put to
            // sleep: then it is done by the waiting thread.
            self.dispatch(node);
        }
        if !self.verifier.is_stopped() {
            let reason =
                format!("packet {fence:#x} of node {node} did not end, and a paging packet cannot be given up");
            self.verifier.raise(Bugcheck::new(
                Bugcheck::VIDEO_TDR_FAILURE,
                [0, 0, u64::from(STATUS_TIMEOUT.0 as u32), 0],
                reason,
            ));
        }
        Err(STATUS_DEVICE_REMOVED)
    }

    /// True if packet `fence` of `node` is complete.
    pub(crate) fn is_packet_complete(&self, node: u32, fence: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|node| node.state().fences.is_complete(fence))
    }
}

//! System contexts and packet submission, as paging uses them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::adapter::{Adapter, check_dma_buffer_segment_set};
use crate::machine::lock;
use crate::miniport::KmdHandle;
use crate::verifier::Bugcheck;
use crate::vidmm::AddressSpace;

use super::VidSch;
use super::report::subcode;

/// A packet that takes longer than this will never end.
const PACKET_LIMIT: Duration = Duration::from_secs(60);
/// How often a thread that waits for a packet looks whether the machine has stopped.
const STOP_CHECK: Duration = Duration::from_millis(200);

/// A context of the system on one node, scheduled packet by packet.
pub(crate) struct SystemContext {
    adapter: Arc<Adapter>,
    node: u32,
    kmd: KmdHandle,
    system: KmdHandle,
    destroyed: AtomicBool,
}

impl SystemContext {
    /// The node.
    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// Destroys the context; its packets are complete. Once is enough.
    pub(crate) fn destroy(&self) {
        if !self.destroyed.swap(true, Ordering::AcqRel) {
            let status = self.adapter.miniport.destroy_context(self.kmd.raw());
            let sch = self.adapter.vidsch();
            sch.must_not_fail("DxgkDdiDestroyContext", status);
            sch.system_contexts.retire(self.system);
        }
    }
}

/// DxgkDdiSetRootPageTable for a context of either kind that is not running.
pub(super) fn set_root_page_table(adapter: &Adapter, context: KmdHandle, space: &AddressSpace) {
    let (segment, offset) = space.root();
    let mut args = DXGKARG_SETROOTPAGETABLE::zeroed();
    args.hContext = context.raw();
    args.Address.SegmentId = segment;
    args.Address.SegmentOffset = offset;
    args.NumEntries = space.root_entries();
    let _class = adapter.vidsch().scheduler_class();
    adapter.miniport.set_root_page_table(adapter.context().raw(), &args);
}

impl VidSch {
    /// Only one thread is inside the DDIs of the GPU scheduler class (BuildPagingBuffer, SubmitCommand, PreemptCommand,
    /// SetRootPageTable): whoever calls one holds this. Taken after every other lock of the scheduler but
    /// `Node::fences` and leaves; never held while waiting. [threading-and-synchronization: first level]
    pub(crate) fn scheduler_class(&self) -> MutexGuard<'_, ()> {
        lock(&self.class)
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
    ) -> Result<Arc<SystemContext>, NTSTATUS> {
        let adapter = self.adapter()?;
        if node as usize >= self.nodes.len() {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let system = self.system_contexts.reserve();
        let mut args = DXGKARG_CREATECONTEXT::zeroed();
        args.hContext = system.raw();
        args.NodeOrdinal = node;
        args.EngineAffinity = 1;
        args.Flags = DXGK_CREATECONTEXTFLAGS::new().with_SystemContext(true).with_VirtualAddressing(true);
        adapter.miniport.create_context(device.raw(), &mut args).ok()?;
        let kmd = KmdHandle::new(args.hContext);
        if kmd.is_null() || kmd == system {
            return Err(STATUS_DRIVER_INTERNAL_ERROR);
        }
        let context = Arc::new(SystemContext { adapter, node, kmd, system, destroyed: AtomicBool::new(false) });
        self.system_contexts.publish(system, &context);
        let info = &args.ContextInfo;
        let rule = check_dma_buffer_segment_set(&context.adapter, node, info.DmaBufferSegmentSet);
        let refused = rule.err().map(|error| context.adapter.refuse(error));
        // A context with virtual addressing has nothing to patch.
        let refused = refused.or((!info.Caps.NoPatchingRequired()).then_some(STATUS_INVALID_PARAMETER));
        if let Some(status) = refused {
            context.destroy();
            return Err(status);
        }
        set_root_page_table(&context.adapter, kmd, space);
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
        private_data: &mut [u8],
    ) -> Result<u32, NTSTATUS> {
        let node = self.nodes.get(context.node as usize).ok_or(STATUS_INVALID_PARAMETER)?;
        let mut args = DXGKARG_SUBMITCOMMANDVIRTUAL::zeroed();
        args.hContext = context.kmd.raw();
        args.DmaBufferVirtualAddress = buffer_va;
        args.DmaBufferSize = size;
        if !private_data.is_empty() {
            args.pDmaBufferPrivateData = private_data.as_mut_ptr().cast();
            args.DmaBufferPrivateDataSize = u32::try_from(private_data.len()).map_err(|_| STATUS_INVALID_PARAMETER)?;
        }
        args.Flags = DXGK_SUBMITCOMMANDFLAGS::new().with_Paging(true);
        args.NodeOrdinal = context.node;
        let adapter = &context.adapter;
        if self.tdr.is_abandoning() {
            // Whatever it did, the reset would undo.
            return Err(STATUS_DEVICE_REMOVED);
        }
        let _working = adapter.use_node(context.node);
        let _submitting = lock(&node.submitting);
        // Before the call: the packet may be complete before the driver returns.
        let (id, abandoned) = {
            let mut fences = node.fences();
            (fences.submit(), fences.is_abandoned())
        };
        if abandoned {
            return Ok(id);
        }
        args.SubmissionFenceId = id;
        let status = {
            let _class = self.scheduler_class();
            adapter.miniport.submit_command_virtual(adapter.context().raw(), &args)
        };
        if status == STATUS_SUCCESS {
            return Ok(id);
        }
        self.must_succeed(status, || {
            Bugcheck::scheduler(
                subcode::SUBMISSION_FAILED,
                u64::from(status.0 as u32),
                (&raw const args).addr() as u64,
                0,
                format!("DxgkDdiSubmitCommandVirtual refused a paging packet with {status}"),
            )
        });
        Err(STATUS_DEVICE_REMOVED)
    }

    /// Waits until packet `fence` of `node` is complete.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED when the machine has stopped meanwhile.
    pub(crate) fn wait_packet(&self, node: u32, fence: u32) -> Result<(), NTSTATUS> {
        let adapter = self.adapter()?;
        let node_state = self.nodes.get(node as usize).ok_or(STATUS_INVALID_PARAMETER)?;
        let limit = Instant::now() + PACKET_LIMIT;
        let pumped = !adapter.machine.config().interrupt_thread;
        loop {
            if pumped && !node_state.fences().is_complete(fence) && !adapter.relax() {
                std::thread::yield_now();
            }
            if node_state.sleep_for(fence, if pumped { Duration::ZERO } else { STOP_CHECK }) {
                return Ok(());
            }
            if self.verifier.is_stopped() {
                return Err(STATUS_DEVICE_REMOVED);
            }
            if Instant::now() > limit {
                let reason =
                    format!("packet {fence:#x} of node {node} did not end, and a paging packet cannot be given up");
                self.verifier.raise(Bugcheck::new(
                    Bugcheck::VIDEO_TDR_FAILURE,
                    [0, 0, u64::from(STATUS_TIMEOUT.0 as u32), 0],
                    reason,
                ));
                return Err(STATUS_DEVICE_REMOVED);
            }
        }
    }

    /// Whether packet `fence` of `node` is complete.
    pub(crate) fn is_packet_complete(&self, node: u32, fence: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|node| node.fences().is_complete(fence))
    }
}

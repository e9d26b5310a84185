//! Contexts of packets are created, and take command buffers.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};

use nt::lock::Mutex;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::D3DDDI_CREATECONTEXTFLAGS;
use wddm_ddi::status::*;

use crate::ddi_buffer::LentBytes;
use crate::refusal::{Failure, refused};
use crate::rundown::Rundown;

use super::not_running::NotRunning;
use super::objects::device::Device;
use super::objects::packet_context::{Item, PacketCommands, PacketContext};
use super::objects::render_adapter::RenderAdapter;
use super::objects::update_queue::UpdateQueue;
use super::packet;
use super::scheduler::VidSch;

/// Flags and private data that a context of packets may have.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for others; STATUS_NOT_SUPPORTED for a test on an adapter without tests.
fn check_flags(
    adapter: &RenderAdapter,
    node: u32,
    flags: D3DDDI_CREATECONTEXTFLAGS,
    private: &[u8],
) -> Result<(), Failure> {
    let known = D3DDDI_CREATECONTEXTFLAGS::new()
        .with_NullRendering(true)
        .with_InitialData(true)
        .with_DisableGpuTimeout(true)
        .with_SynchronizationOnly(true)
        .with_TestContext(true);
    if flags.HwQueueSupported() {
        let has_queues = adapter.caps().nodes.get(node as usize).is_some_and(|node| node.context_scheduling);
        let has = if has_queues { "D3DKMTCreateHwContext makes it" } else { "the node has none" };
        let why = format!(
            "Flags.HwQueueSupported asks for a context of hardware queues on node {node}, and this thunk makes contexts of packets: {has}"
        );
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    let other = flags.into_bits() & !known.into_bits();
    if other != 0 {
        let known = "NullRendering, InitialData, DisableGpuTimeout, SynchronizationOnly and TestContext";
        let why = format!("Flags has {other:#x} besides {known}, which a context with virtual addresses may have here");
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    if flags.TestContext() && !adapter.caps().features.kernel_mode_testing {
        let why = "Flags.TestContext is set, and the adapter is without DXGK_FEATURE_KERNEL_MODE_TESTING";
        return Err(refused(STATUS_NOT_SUPPORTED, why));
    }
    // Whoever tests without knowing the driver has nothing private to say.
    if flags.TestContext() && !private.is_empty() {
        let why = format!(
            "PrivateDriverDataSize is {}, and a context with Flags.TestContext has no private data",
            private.len()
        );
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    Ok(())
}

impl VidSch {
    /// Creates a context on a node of the engine that an affinity means, with the page tables of the device's process and normal priority.
    /// [d3dkmddi: DXGKARG_CREATECONTEXT]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a node or engine that does not exist, flags that a context of packets cannot have, and one for tests
    /// with private data; STATUS_NOT_SUPPORTED for one for tests where kernel-mode testing is off; what the driver answered.
    pub(crate) fn create_packet_context(
        &self,
        device: &Arc<Device>,
        node_ordinal: u32,
        engine_affinity: u32,
        flags: D3DDDI_CREATECONTEXTFLAGS,
        private: &mut [u8],
    ) -> Result<Arc<PacketContext>, Failure> {
        let _running = self.enter()?;
        let _running = self.keep_running(device)?;
        let adapter = &device.adapter;
        let (node, engine) = adapter.caps().named_node(node_ordinal, engine_affinity)?;
        check_flags(adapter, node, flags, private)?;
        let system = self.packet_contexts.reserve();
        let mut args = DXGKARG_CREATECONTEXT::zeroed();
        args.hContext = system.raw();
        (args.NodeOrdinal, args.EngineAffinity) = (node_ordinal, 1 << engine);
        args.Flags = DXGK_CREATECONTEXTFLAGS::new().with_VirtualAddressing(true).with_TestContext(flags.TestContext());
        let mut lent = LentBytes::new(private);
        (args.pPrivateDriverData, args.PrivateDriverDataSize) = lent.place();
        let created = packet::create_context(adapter, device.kmd, &mut args);
        lent.end(adapter.machine.verifier(), "DxgkDdiCreateContext", "pPrivateDriverData");
        let (kmd, info) = created?;
        let context = Arc::new_cyclic(|this| PacketContext {
            this: Weak::clone(this),
            adapter: Arc::clone(adapter),
            device: Arc::clone(device),
            node,
            system,
            kmd,
            flags,
            user_handle: AtomicU32::new(0),
            private_size: info.DmaBufferPrivateDataSize,
            global: AtomicI32::new(0),
            in_process: AtomicI32::new(0),
            software_queue: Mutex::default(),
            updates: UpdateQueue::new(device, engine),
            finished: AtomicU64::new(0),
            attention: AtomicUsize::new(0),
            away: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            rundown: Rundown::default(),
            teardown: Mutex::new(false),
            gone: Mutex::new(false),
        });
        self.packet_contexts.publish(system, &context);
        self.add_packet_context(&context);
        context.set_root(&NotRunning::of_new_context());
        Ok(context)
    }
}

impl PacketContext {
    /// Submits a command buffer. [d3dkmddi: DXGKARG_SUBMITCOMMANDVIRTUAL]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a context that only waits and signals, or more private data than its packets have;
    /// STATUS_INSUFFICIENT_RESOURCES if the context holds too much; STATUS_INVALID_HANDLE for a context that is gone.
    pub(crate) fn submit(&self, commands: PacketCommands) -> Result<(), Failure> {
        if self.flags.SynchronizationOnly() {
            return Err(refused(STATUS_INVALID_PARAMETER, "the context was created with Flags.SynchronizationOnly"));
        }
        let (size, most) = (commands.private.len(), self.private_size);
        if u32::try_from(size).is_ok_and(|size| size > most) {
            let why =
                format!("PrivateDriverDataSize is {size:#x}, and ContextInfo.DmaBufferPrivateDataSize is {most:#x}");
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let _running = self.sch().keep_running(&self.device)?;
        self.submit_item(|software| {
            software.submitted += 1;
            Item::Commands((commands, software.submitted))
        })?;
        Ok(())
    }
}

//! Contexts of user mode that are scheduled packet by packet, and the software queue of each.
//!
//! Packets, waits and signals keep the order of their submission. A packet that nothing holds goes to its node, which decides when
//! the hardware gets it; a wait blocks everything behind it until its fences have reached their values, and a signal until every
//! packet before it is done. What follows then is moved on by the worker thread.
//! [context-monitoring: GPU wait, GPU signal; native-gpu-fence-objects]

mod ending;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nt::lock::{Mutex, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::D3DDDI_CREATECONTEXTFLAGS;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DGPU_VIRTUAL_ADDRESS;

use crate::ddi_buffer::LentBytes;
use crate::kmd_handle::KmdHandle;
use crate::rank;
use crate::refusal::{Failure, refused};
use crate::rundown::{Destroyed, Rundown};
use crate::vidsch::{Device, RenderAdapter};

use super::VidSch;
use super::node::{Owner, Packet, Stood};
use super::priority::{PacketPriority, Priority};
use super::process_suspension::NotRunning;
use super::queue_wait::Objects;
use super::request_queue::{self, REQUESTS_MAX, RequestQueue};
use super::update_queue::UpdateQueue;
use super::worker::Work;

/// Interval at which a thread that waits for packets looks at them again.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// A command buffer of user mode.
pub(crate) struct PacketCommands {
    pub(crate) address: D3DGPU_VIRTUAL_ADDRESS,
    pub(crate) size: u32,
    pub(crate) private: Vec<u8>,
    /// Completed without being run.
    pub(crate) null: bool,
}

/// One submission; commands have their number among the packets of the context, and `after` of a signal is such a number.
type Item = request_queue::Item<(PacketCommands, u64)>;

#[derive(Default)]
struct SoftwareQueue {
    /// Submissions that wait, and the threads that wait until everything is done.
    held: RequestQueue<Item>,
    /// Packets submitted.
    submitted: u64,
    /// Packets that went to the node.
    released: u64,
}

/// A context of a device.
pub(crate) struct PacketContext {
    this: Weak<Self>,
    adapter: Arc<RenderAdapter>,
    device: Arc<Device>,
    node: u32,
    system: KmdHandle,
    kmd: KmdHandle,
    flags: D3DDDI_CREATECONTEXTFLAGS,
    /// Handle of its process.
    user_handle: AtomicU32,
    /// Bytes of private data that the driver gets with a packet.
    private_size: u32,
    global: AtomicI32,
    in_process: AtomicI32,
    software_queue: Mutex<SoftwareQueue, rank::SubmissionQueue>,
    updates: Arc<UpdateQueue>,
    /// Packets that are done, run or dropped: all up to this number.
    finished: AtomicU64,
    /// Submissions and threads that wait in the software queue; if there are any, it is looked at whenever a packet is finished.
    attention: AtomicUsize,
    /// Its process is suspended: its packets wait.
    away: AtomicBool,
    /// Nothing of it runs any more.
    lost: AtomicBool,
    /// Closed once nothing new is accepted.
    rundown: Rundown,
    /// Held by whoever destroys the context, so that a second one returns when it is gone; true from then on.
    teardown: Mutex<bool, rank::ContextTeardown>,
    /// The driver does not know it any more. Held while it is told of the context.
    gone: Mutex<bool, rank::Suspending>,
}

impl Destroyed for PacketContext {
    fn rundown(&self) -> &Rundown {
        &self.rundown
    }

    fn is_of_lost_device(&self) -> bool {
        self.device.error().is_some()
    }
}

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
        let created = super::packet::create_context(adapter, device.kmd, &mut args);
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
    /// Tells the driver where the root page table of its process is.
    fn set_root(&self, stands: &NotRunning<'_>) {
        super::packet::set_root_page_table(&self.adapter, self.kmd, self.node, &self.device.process.space, stands);
    }

    /// As when it was made: the page tables came back to another place while nothing of it was under way.
    pub(super) fn follow_root(&self, stands: &NotRunning<'_>) {
        let _working = self.adapter.use_node(self.node);
        let gone = lock(&self.gone);
        if !*gone {
            self.set_root(stands);
        }
    }

    /// The device it belongs to.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Page-table updates in the order of its work.
    pub(crate) fn updates(&self) -> &Arc<UpdateQueue> {
        &self.updates
    }

    /// The node its packets run on.
    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// As it was created.
    pub(crate) fn flags(&self) -> D3DDDI_CREATECONTEXTFLAGS {
        self.flags
    }

    /// Our handle and the driver's.
    pub(crate) fn handles(&self) -> (KmdHandle, KmdHandle) {
        (self.system, self.kmd)
    }

    /// Handle of the context in its process; 0 until it is known.
    pub(crate) fn user_handle(&self) -> &AtomicU32 {
        &self.user_handle
    }

    /// True if its packets may run as long as they like. [d3dkmthk: D3DDDI_CREATECONTEXTFLAGS]
    pub(super) fn is_unlimited(&self) -> bool {
        self.flags.DisableGpuTimeout()
    }

    /// Packets that are done, run or dropped, and packets submitted.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.finished.load(Ordering::Acquire), lock(&self.software_queue).submitted)
    }

    fn sch(&self) -> &Arc<VidSch> {
        self.adapter.vidsch()
    }

    fn is_destroyed(&self) -> bool {
        self.rundown.is_closed()
    }

    /// True if nothing of it runs any more. Takes leaves only.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire) || self.device.error().is_some()
    }

    /// True if its packets wait for its process to be resumed. Takes no locks.
    pub(super) fn is_away(&self) -> bool {
        self.away.load(Ordering::Acquire)
    }

    /// With `away`, holds the packets of the context back from now on and requests a preemption of those that the hardware has; without, hands them over again.
    pub(super) fn set_away(&self, away: bool) {
        let before = self.away.swap(away, Ordering::AcqRel);
        if let Some(node) = self.sch().nodes.get(self.node as usize).filter(|_| before != away) {
            if away {
                node.state().ask_off(self);
            }
            self.sch().dispatch(self.node);
        }
    }

    /// True if the hardware has nothing of it when the machine's clock shows `limit` at the latest.
    pub(super) fn has_left(&self, limit: Duration) -> bool {
        let sch = self.sch();
        let _waits = sch.timeouts.clock().deadline(limit);
        loop {
            if sch.wait_node(self.node, POLL_INTERVAL, |state| !state.flies(self)) {
                return true;
            }
            // A report leaves it to the worker to ask for what was asked for meanwhile.
            sch.dispatch(self.node);
            if sch.timeouts.clock().now() >= limit || sch.timeouts.is_abandoning() || sch.verifier.is_stopped() {
                return false;
            }
        }
    }

    /// The priorities that the context was given last: among all contexts, and within its process.
    pub(crate) fn priority(&self) -> Priority {
        Priority { global: self.global.load(Ordering::Acquire), in_process: self.in_process.load(Ordering::Acquire) }
    }

    /// Whose packets go before whose.
    pub(super) fn packet_priority(&self) -> PacketPriority {
        let priority = self.priority();
        let process = &self.device.process;
        PacketPriority {
            among_all: priority.among_all(process.class.get()),
            process: Arc::as_ptr(process).addr(),
            in_process: priority.in_process,
        }
    }

    /// The class of the process is another one.
    pub(crate) fn follow_class(&self) {
        self.sch().dispatch(self.node);
    }

    /// Changes priorities, also for packets that are queued.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for a context that is gone.
    pub(crate) fn set_priority(&self, change: impl FnOnce(&mut Priority)) -> Result<(), NTSTATUS> {
        if self.is_destroyed() {
            return Err(STATUS_INVALID_HANDLE);
        }
        let mut wanted = self.priority();
        change(&mut wanted);
        self.global.store(wanted.global, Ordering::Release);
        self.in_process.store(wanted.in_process, Ordering::Release);
        self.sch().dispatch(self.node);
        Ok(())
    }

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

    /// What is submitted from now on runs when the fences have reached their values, or when nobody can wait for them any more.
    ///
    /// # Errors
    /// Why a fence is ended; as [`PacketContext::submit`].
    pub(crate) fn submit_wait(&self, conditions: Objects) -> Result<(), NTSTATUS> {
        conditions.check()?;
        self.submit_item(|_| Item::Wait(conditions))
    }

    /// The fences get these values when every packet that was submitted until now is done, or `at_submission`: when all that held
    /// it is over. As signals of a GPU they are written whatever the value was.
    ///
    /// # Errors
    /// As for [`PacketContext::submit_wait`].
    pub(crate) fn submit_signal(&self, signals: Objects, at_submission: bool) -> Result<(), NTSTATUS> {
        signals.check()?;
        self.submit_item(|software| {
            let after = if at_submission { 0 } else { software.submitted };
            Item::Signal { signals, after }
        })
    }

    fn submit_item(&self, item: impl FnOnce(&mut SoftwareQueue) -> Item) -> Result<(), NTSTATUS> {
        {
            let mut software = lock(&self.software_queue);
            if self.is_destroyed() {
                return Err(STATUS_INVALID_HANDLE);
            }
            let under_way = software.released.saturating_sub(self.finished.load(Ordering::Acquire));
            if software.held.len() >= REQUESTS_MAX || under_way >= REQUESTS_MAX as u64 {
                return Err(STATUS_INSUFFICIENT_RESOURCES);
            }
            let item = item(&mut software);
            let command = item.command();
            software.held.push(item)?;
            self.sch().count_command(&self.device, self.node, command, false);
            self.run(&mut software);
        }
        self.sch().dispatch(self.node);
        Ok(())
    }

    /// True if the wait of the first submission is met, and its end has yet to be told.
    pub(super) fn is_about_to_move(&self) -> bool {
        lock(&self.software_queue).held.is_about_to_move()
    }

    /// A wait is over or a packet done. On the worker thread.
    pub(super) fn advance(&self) {
        self.run(&mut lock(&self.software_queue));
        self.sch().dispatch(self.node);
    }

    /// Moves submissions on up to the first that must wait.
    fn run(&self, software: &mut SoftwareQueue) {
        // Noted before the packets that are done are counted: one of the two sees the other.
        self.attention.store(software.held.len() + software.held.waiters(), Ordering::SeqCst);
        if self.is_lost() {
            self.drop_requests(software);
        } else {
            self.move_on(software);
        }
        if software.held.is_empty() && self.finished.load(Ordering::SeqCst) >= software.released {
            software.held.release_waiters();
        }
        self.attention.store(software.held.len() + software.held.waiters(), Ordering::SeqCst);
    }

    fn move_on(&self, software: &mut SoftwareQueue) {
        let Some(mut waited) = software.held.end_wait() else { return };
        while let Some(item) = software.held.pop() {
            let command = item.command();
            match item {
                Item::Commands((commands, number)) => self.release(software, commands, number),
                Item::Wait(conditions) if !waited && !conditions.is_met() => {
                    software.held.put_back(Item::Wait(conditions.clone()));
                    return self.wait_for(software, conditions);
                }
                Item::Wait(_) => waited = false,
                Item::Signal { after, .. } if self.finished.load(Ordering::SeqCst) < after => {
                    return software.held.put_back(item);
                }
                Item::Signal { signals, .. } => software.held.signal(&signals, self.device.id()),
            }
            self.sch().count_command(&self.device, self.node, command, true);
        }
    }

    fn wait_for(&self, software: &mut SoftwareQueue, conditions: Objects) {
        let (sch, context) = (Arc::downgrade(self.sch()), Weak::clone(&self.this));
        software.held.wait_for(conditions, move || {
            if let Some(sch) = sch.upgrade() {
                sch.worker.add(Work::AdvanceContext(Weak::clone(&context)));
            }
        });
    }

    /// Gives a packet to its node.
    fn release(&self, software: &mut SoftwareQueue, commands: PacketCommands, number: u64) {
        let (Some(this), Some(node)) = (self.this.upgrade(), self.sch().nodes.get(self.node as usize)) else { return };
        let user_private = commands.private.len() as u32;
        let mut private = commands.private;
        private.resize(self.private_size as usize, 0);
        software.released = number;
        let packet = Packet {
            owner: Owner::Render(Arc::clone(&this), number),
            address: commands.address,
            size: commands.size,
            private,
            user_private,
            null: commands.null || self.flags.NullRendering(),
            again: false,
            id: 0,
            refused: false,
            stood: Stood::default(),
        };
        node.state().queue(&this, packet);
    }

    /// A packet is done, run or dropped. Takes no locks but the worker's.
    pub(super) fn note_finished(&self, number: u64) {
        self.finished.fetch_max(number, Ordering::SeqCst);
        if self.attention.load(Ordering::SeqCst) != 0 {
            self.sch().worker.add(Work::AdvanceContext(Weak::clone(&self.this)));
        }
    }

    /// Number of the last packet submitted.
    pub(crate) fn last_submitted(&self) -> u64 {
        lock(&self.software_queue).submitted
    }

    /// True if the packets up to this number are done, or will never run.
    pub(crate) fn is_finished(&self, number: u64) -> bool {
        self.finished.load(Ordering::Acquire) >= number
    }

    /// Submissions that wait in the system, and signals that wait for packets.
    pub(super) fn unsettled(&self) -> usize {
        self.attention.load(Ordering::SeqCst)
    }

    /// Requests of software that were ever queued.
    pub(super) fn requests_added(&self) -> u64 {
        lock(&self.software_queue).held.added()
    }

    /// Of those, the ones that are over.
    pub(super) fn requests_passed(&self) -> u64 {
        lock(&self.software_queue).held.passed()
    }

    /// Submissions that wait in the system.
    pub(crate) fn held(&self) -> usize {
        lock(&self.software_queue).held.len()
    }

    /// Packets that are done, run or dropped.
    pub(super) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }

    /// True if the node has packets of it.
    pub(super) fn runs(&self) -> bool {
        lock(&self.software_queue).released > self.finished()
    }

    /// Waits until the node has nothing of it, at most until `end`; false if it still has.
    pub(super) fn wait_until_run(&self, end: Instant) -> bool {
        while self.runs() && Instant::now() < end && self.sch().pause(POLL_INTERVAL).is_none() {}
        !self.runs()
    }

    /// True if everything that was submitted is done, and every page-table update that was queued.
    pub(crate) fn is_done(&self) -> bool {
        let (finished, submitted) = self.progress();
        finished == submitted && self.held() == 0 && self.updates.is_done()
    }

    /// True if the context owns a mutex.
    pub(crate) fn owns_mutex(&self) -> bool {
        lock(&self.software_queue).held.owns_mutex()
    }
}

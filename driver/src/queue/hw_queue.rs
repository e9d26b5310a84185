//! Hardware queues: rings of user mode, or kernel rings for SubmitCommandToHwQueue.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use campanile_hw::event::FaultInfo;
use campanile_hw::queue::{Location, QueueDescriptor, QueueFlags, QueueState, RingEntry, RingFlags};
use campanile_hw::registers::{Command, CommandStatus};
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::types::HANDLE;

use crate::cmp::CommandError;
use crate::cmp::refused_command;
use crate::dxgk::ContiguousMemory;
use crate::fence::log::LogBuffers;
use crate::gpu::Gpu;
use crate::handle::{Handle, Kind, Object};
use crate::irql::{Device, Dispatch, Passive, UpToDispatch};
use crate::lock::{DeviceLock, SpinLock};
use crate::node::ring::RING_ENTRIES;
use crate::pool::{PoolBox, PoolVec, Tag};
use crate::queue::properties::ContextProperties;
use crate::queue::shared::{KernelRing, ProgressFence, kernel_ring, location};
use crate::refusal::{Reason, Refused, refused};
use crate::root_word::bits_of;

/// Every so many entries of a kernel ring, the hardware tells that one retired, so that waiting submissions get the free entries.
const RETIRE_EVERY: u64 = RING_ENTRIES as u64 / 4;

/// The GPU virtual addresses of a user-mode queue's ring in its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserRing {
    pub(crate) ring: u64,
    pub(crate) control: u64,
    pub(crate) entries: u32,
}

/// Arguments of a kernel-mode submission: GPU virtual address and bytes of the command buffer, and the progress fence's value at its end.
#[derive(Clone, Copy)]
struct Submission {
    commands: u64,
    size: u32,
    fence: u64,
}

/// The position at which a queue that is not mapped continues when it is mapped again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SavedPosition {
    /// At the first entry of its ring.
    Start,
    /// At the state that SaveQueue returned.
    At(QueueState),
    /// The position is not known, so the queue cannot be mapped again.
    Lost,
}

struct HwQueueState {
    /// True while the hardware has the queue.
    mapped: bool,
    /// The position of the queue when the device left D0.
    saved: SavedPosition,
    user: Option<UserRing>,
    /// Entries written to the kernel ring since the queue was mapped.
    written: u64,
    /// Submissions that wait for a free ring entry, oldest first. Stays empty while the limit in the node's metadata is kept.
    waiting: PoolVec<Submission>,
    /// Log buffers of native fences.
    logs: LogBuffers,
}

/// A hardware queue.
pub(crate) struct HwQueue {
    /// Handle of the operating system, for callbacks.
    dxgk: usize,
    pub(crate) number: u32,
    pub(crate) node: u32,
    pub(crate) engine: u32,
    pub(crate) context: Handle,
    pub(crate) process: Handle,
    progress: ProgressFence,
    user: bool,
    /// True for a queue of the test interface. Its command buffers have no PROGRESS packet, so its ring entries ask for the progress value.
    test: bool,
    /// The ring, unless user mode writes it.
    kernel: Option<KernelRing>,
    /// The save area, if the queue is to run programs.
    save_area: Option<ContiguousMemory>,
    /// Taken before the lock of [`crate::cmp::Cmp`], that of the context's priority, and device level.
    state: SpinLock<HwQueueState>,
    /// Cookie of a suspension that the queue did not answer yet, 0 for none.
    pub(super) suspending: AtomicU64,
    /// A fault that was not reported because the engine was being reset.
    unreported_fault: DeviceLock<Option<(u64, FaultInfo)>>,
    /// True if the DPC has to look for free entries of the kernel ring.
    needs_refill: AtomicBool,
    /// Number of submissions in `HwQueueState::waiting`.
    waiting: AtomicU32,
    /// Handle bits of the queue's doorbell, 0 for none.
    pub(crate) doorbell: AtomicU64,
}

impl Object for HwQueue {
    const KIND: Kind = Kind::HwQueue;

    fn engine(&self) -> u32 {
        self.engine
    }
}

impl HwQueue {
    /// The operating system's handle.
    pub(crate) fn dxgk(&self) -> HANDLE {
        core::ptr::without_provenance_mut(self.dxgk)
    }

    /// The number of submissions that wait for a free entry of the kernel's ring.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Acquire)
    }

    /// GPU virtual address of the current value of the progress fence.
    pub(crate) fn progress_address(&self) -> u64 {
        self.progress.current
    }

    /// True if user mode writes the ring.
    pub(crate) fn is_user(&self) -> bool {
        self.user
    }

    /// A fault could not be reported.
    pub(crate) fn keep_fault(&self, irql: &Device, address: u64, info: FaultInfo) {
        self.unreported_fault.with(irql, |kept| *kept = Some((address, info)));
    }

    /// The fault that could not be reported since the last question: where, and how.
    pub(crate) fn take_fault(&self, irql: &Device) -> Option<(u64, FaultInfo)> {
        self.unreported_fault.with(irql, Option::take)
    }

    /// Progress value of the submission in ring entry `entry`. Unknown, and 0, for user mode's own rings.
    pub(crate) fn fence_of_entry(&self, entry: u32) -> u64 {
        let Some(kernel) = &self.kernel else { return 0 };
        let slot = (entry % RING_ENTRIES) as usize;
        kernel.fences.get(slot).map_or(0, |fence| fence.load(Ordering::Acquire))
    }

    /// Sends the queue a suspension, which it answers by an event with `cookie`. False if it refuses: then it does not run. A function that
    /// was reset answers nothing: a context with a queue there does not leave its engine, for which the operating system resets that, and,
    /// since it cannot be, the adapter.
    pub(crate) fn suspend(&self, irql: &impl UpToDispatch, gpu: &Gpu, cookie: u64) -> bool {
        self.suspending.store(cookie, Ordering::Release);
        let answer = gpu.cmp.run(irql, Command::SuspendQueue, &[u64::from(self.number), cookie]);
        let sent = matches!(answer, Ok(()) | Err(CommandError::Reset));
        if !sent {
            self.suspending.store(0, Ordering::Release);
        }
        sent
    }

    /// True while the hardware has the queue and has not answered a suspension of it.
    pub(crate) fn is_being_suspended(&self, irql: &impl UpToDispatch) -> bool {
        self.suspending.load(Ordering::Acquire) != 0 && is_mapped(irql, self)
    }

    /// A SUSPENDED event came.
    pub(crate) fn note_suspended(&self, cookie: u64) {
        // Not equal when a later suspension is under way already; that one is still to be answered.
        let _ = self.suspending.compare_exchange(cookie, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Handles a RETIRED event: the ring may have free entries. True if submissions wait for them.
    pub(crate) fn note_retired(&self) -> bool {
        let waits = self.waiting.load(Ordering::Acquire) != 0;
        if waits {
            self.needs_refill.store(true, Ordering::Release);
        }
        waits
    }

    fn descriptor(
        &self,
        irql: &impl UpToDispatch,
        context: &ContextProperties,
        root: Location,
        state: &HwQueueState,
    ) -> Option<QueueDescriptor> {
        let flags = QueueFlags::new()
            .with_native_progress(self.progress.monitored.is_some())
            .with_suspended(context.is_suspended());
        let priority = context.priority(irql);
        let base = match (&self.kernel, state.user) {
            (Some(kernel), _) => kernel.ring.descriptor(self.node),
            (None, Some(user)) => QueueDescriptor {
                ring: user.ring,
                control: user.control,
                ring_entries: user.entries,
                node: self.node,
                ..QueueDescriptor::ZERO
            },
            (None, None) => return None,
        };
        let (waits, signals) = (state.logs.waits, state.logs.signals);
        Some(QueueDescriptor {
            root: root.into_bits(),
            progress_current: self.progress.current,
            progress_monitored: self.progress.monitored.unwrap_or(0),
            flags: base.flags | flags.into_bits(),
            rank: priority.rank.into_bits(),
            quantum: priority.quantum,
            grace_same: priority.grace_same,
            grace_lower: priority.grace_lower,
            // 0 is the number of the nodes' own queues.
            process: context.process.slot() + 1,
            wait_log: waits.map_or(0, |log| log.gpu),
            wait_log_entries: waits.map_or(0, |log| log.entries),
            signal_log: signals.map_or(0, |log| log.gpu),
            signal_log_entries: signals.map_or(0, |log| log.entries),
            context: self.context.into_bits(),
            save_area: self.save_area.as_ref().map_or(0, |area| location(area).into_bits()),
            save_size: self.save_area.as_ref().map_or(0, |area| area.mapping.len() as u32),
            ..base
        })
    }
}

/// The queue without its kernel ring.
pub(super) fn build(
    context_handle: Handle,
    context: &ContextProperties,
    args: &DXGKARG_CREATEHWQUEUE,
    progress: ProgressFence,
    number: u32,
) -> Result<PoolBox<HwQueue>, Refused> {
    let state = HwQueueState {
        mapped: false,
        saved: SavedPosition::Start,
        user: None,
        written: 0,
        waiting: PoolVec::new(Tag::QUEUE),
        logs: LogBuffers::new(),
    };
    let queue = HwQueue {
        dxgk: args.hHwQueue.addr(),
        number,
        node: context.node,
        engine: context.engine,
        context: context_handle,
        process: context.process,
        progress,
        user: args.Flags.UserModeSubmission(),
        test: args.Flags.TestQueue(),
        kernel: None,
        save_area: None,
        state: SpinLock::new(state),
        suspending: AtomicU64::new(0),
        unreported_fault: DeviceLock::new(None),
        needs_refill: AtomicBool::new(false),
        waiting: AtomicU32::new(0),
        doorbell: AtomicU64::new(0),
    };
    Ok(PoolBox::new(queue, Tag::OBJECT)?)
}

/// True if the hardware has the queue.
pub(crate) fn is_mapped(irql: &impl UpToDispatch, queue: &HwQueue) -> bool {
    queue.state.lock(irql).mapped
}

/// Maps the queue if it is not and its ring and address space are known.
///
/// # Errors
/// STATUS_INVALID_PARAMETER when the hardware refuses the ring, STATUS_DEVICE_REMOVED when it does not answer.
pub(crate) fn map(
    irql: &impl UpToDispatch,
    gpu: &Gpu,
    context: &ContextProperties,
    queue: &HwQueue,
) -> Result<(), Refused> {
    let mut state = queue.state.lock(irql);
    let (state, irql) = state.parts();
    map_locked(irql, gpu, context, queue, state)
}

fn map_locked(
    irql: &impl UpToDispatch,
    gpu: &Gpu,
    context: &ContextProperties,
    queue: &HwQueue,
    state: &mut HwQueueState,
) -> Result<(), Refused> {
    let Some(root) = context.root().filter(|_| !state.mapped) else { return Ok(()) };
    let Some(descriptor) = queue.descriptor(irql, context, root, state) else { return Ok(()) };
    if !gpu.is_running() {
        return Err(refused(Reason::NotRunning));
    }
    match state.saved {
        SavedPosition::Lost => return Err(refused(Reason::QueueLost)),
        SavedPosition::At(at) => map_at(irql, gpu, context, queue, descriptor, &at).map_err(refused_command)?,
        SavedPosition::Start => {
            if let Some(kernel) = &queue.kernel {
                kernel.ring.reset();
            }
            gpu.cmp.map_queue(irql, queue.number, &descriptor).map_err(refused_command)?;
            state.written = 0;
        }
    }
    state.mapped = true;
    state.saved = SavedPosition::Start;
    gpu.note(Component::Queue, &Event::QueueMapped { number: queue.number, node: queue.node });
    Ok(())
}

/// Maps a queue at the position that it had when the device left D0.
fn map_at(
    irql: &impl UpToDispatch,
    gpu: &Gpu,
    context: &ContextProperties,
    queue: &HwQueue,
    descriptor: QueueDescriptor,
    at: &QueueState,
) -> Result<(), CommandError> {
    let flags = QueueFlags::from_bits(descriptor.flags).with_suspended(true).into_bits();
    gpu.cmp.map_queue(irql, queue.number, &QueueDescriptor { flags, ..descriptor })?;
    if let Err(error) = gpu.cmp.restore_queue(irql, queue.number, at) {
        // It was mapped just now, so it can be unmapped; a device that is lost has no queue.
        let _ = gpu.cmp.unmap_queue(irql, queue.number);
        return Err(error);
    }
    if !context.is_suspended() {
        // Refused by a queue that had faulted: there is nothing to resume.
        let _ = gpu.cmp.run(irql, Command::ResumeQueue, &[u64::from(queue.number)]);
    }
    Ok(())
}

/// The device is about to leave D0: takes the queue from the hardware and remembers how far it has come. Allocates nothing.
pub(crate) fn save(irql: &impl UpToDispatch, gpu: &Gpu, queue: &HwQueue) {
    let mut state = queue.state.lock(irql);
    let (state, irql) = state.parts();
    if !state.mapped {
        return;
    }
    let mut saved = gpu.cmp.save_queue(irql, queue.number);
    if saved == Err(CommandError::Refused(CommandStatus::BadState)) {
        // The operating system has not suspended it. Cookie 0 belongs to no suspension, so the event of this one is ignored.
        let _ = gpu.cmp.run(irql, Command::SuspendQueue, &[u64::from(queue.number)]);
        saved = gpu.cmp.save_queue(irql, queue.number);
    }
    gpu.note(Component::Queue, &Event::QueueUnmapped { number: queue.number, node: queue.node });
    state.mapped = false;
    state.saved = saved.map_or(SavedPosition::Lost, SavedPosition::At);
}

/// Called when the context has got another root page table, or has lost it: tells the hardware if the queue is mapped, and maps a queue that
/// waited for a root.
pub(crate) fn update_root(irql: &impl UpToDispatch, gpu: &Gpu, context: &ContextProperties, queue: &HwQueue) {
    let mut state = queue.state.lock(irql);
    let (state, irql) = state.parts();
    if !state.mapped {
        // A queue that cannot be mapped refuses connections and submissions later.
        let _ = map_locked(irql, gpu, context, queue, state);
        return;
    }
    let args = [u64::from(queue.number), bits_of(context.root())];
    if let Err(CommandError::Refused(_)) = gpu.cmp.run(irql, Command::SetQueueRoot, &args) {
        // The queue did not stop when its suspension was requested, and must not run with the old root.
        let _ = gpu.cmp.unmap_queue(irql, queue.number);
        (state.mapped, state.saved) = (false, SavedPosition::Lost);
        gpu.note(Component::Queue, &Event::QueueUnmapped { number: queue.number, node: queue.node });
    }
}

/// Maps the queue at the position that it had, if the device lost it in D3.
pub(crate) fn map_saved(irql: &impl UpToDispatch, gpu: &Gpu, context: &ContextProperties, queue: &HwQueue) {
    let mut state = queue.state.lock(irql);
    let (state, irql) = state.parts();
    if state.saved != SavedPosition::Start {
        // A queue that cannot be mapped refuses connections and submissions later.
        let _ = map_locked(irql, gpu, context, queue, state);
    }
}

/// DxgkDdiSetNativeFenceLogBuffer: when this returns, nothing is written to the buffer that the queue had before.
///
/// # Errors
/// As [`LogBuffers::read`]; STATUS_INVALID_PARAMETER for a queue that user mode does not write, or memory that the hardware
/// cannot reach. The queue keeps the log it had.
pub(crate) fn set_log(
    irql: &Dispatch,
    gpu: &Gpu,
    queue: &HwQueue,
    args: &DXGKARG_SETNATIVEFENCELOGBUFFER,
) -> Result<(), Refused> {
    let (kind, buffer) = LogBuffers::read(args, gpu.maps_fences())?;
    if !queue.user {
        return Err(refused(Reason::QueueKind));
    }
    let mut state = queue.state.lock(irql);
    let (state, irql) = state.parts();
    if state.mapped && gpu.is_running() {
        gpu.cmp.set_log(irql, queue.number, kind, buffer.gpu, buffer.entries).map_err(refused_command)?;
    }
    state.logs.put(kind, buffer);
    gpu.note(
        Component::Fence,
        &Event::LogSet { buffer: buffer.gpu, number: queue.number, entries: buffer.entries, kind: kind as u8 },
    );
    Ok(())
}

/// Has the hardware complete what the queue has logged.
pub(crate) fn flush_logs(irql: &Dispatch, gpu: &Gpu, queue: &HwQueue) {
    if gpu.hardware.caps.log_flush() && gpu.is_running() {
        // Refused for a queue that is not mapped: unmapping completed its logs.
        let _ = gpu.cmp.run(irql, Command::FlushFenceLogs, &[u64::from(queue.number)]);
    }
}

/// Takes the queue from the hardware, which then touches nothing for it any more.
pub(crate) fn unmap(irql: &impl UpToDispatch, gpu: &Gpu, queue: &HwQueue) {
    let mut state = queue.state.lock(irql);
    let (state, irql) = state.parts();
    state.saved = SavedPosition::Start;
    if state.mapped {
        state.mapped = false;
        gpu.note(Component::Queue, &Event::QueueUnmapped { number: queue.number, node: queue.node });
        if gpu.is_running() {
            // A device that does not answer touches nothing either.
            let _ = gpu.cmp.unmap_queue(irql, queue.number);
        }
    }
}

/// After a reset the hardware has no queue.
pub(crate) fn forget_mapping(irql: &impl UpToDispatch, queue: &HwQueue) {
    let mut state = queue.state.lock(irql);
    state.mapped = false;
    state.saved = SavedPosition::Start;
    state.waiting.clear();
    queue.waiting.store(0, Ordering::Release);
}

/// Tells the hardware the priority of the context, if it has the queue; it is mapped with that otherwise.
pub(crate) fn update_priority(irql: &impl UpToDispatch, gpu: &Gpu, context: &ContextProperties, queue: &HwQueue) {
    let mut state = queue.state.lock(irql);
    let (state, irql) = state.parts();
    if state.mapped && gpu.is_running() {
        // Read under the lock, under which the queue is mapped as well: the last priority is the one that counts.
        let arguments = context.priority(irql).arguments(queue.number);
        // Refused only by a device that lost the queue.
        let _ = gpu.cmp.run(irql, Command::SetQueuePriority, &arguments);
    }
}

/// Gives a queue that is not mapped its ring, and maps it.
///
/// # Errors
/// As [`map`]; the queue then has no ring.
pub(super) fn give_ring(
    irql: &Passive,
    gpu: &Gpu,
    context: &ContextProperties,
    queue: &HwQueue,
    ring: Option<UserRing>,
) -> Result<(), Refused> {
    let mut state = queue.state.lock(irql);
    let (state, irql) = state.parts();
    state.user = ring;
    let mapped = map_locked(irql, gpu, context, queue, state);
    if mapped.is_err() {
        state.user = None;
    }
    mapped
}

/// The ring of a queue that user mode writes, if it has one.
pub(crate) fn user_ring(irql: &impl UpToDispatch, queue: &HwQueue) -> Option<UserRing> {
    queue.state.lock(irql).user
}

/// DxgkDdiSubmitCommandToHwQueue. Submissions that break a rule of the ring fault the queue, which is what their device gets.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for a queue that user mode writes, STATUS_NO_MEMORY if more is under way than the node allows and
/// there is no memory to keep it.
pub(crate) fn submit(
    irql: &impl UpToDispatch,
    gpu: &Gpu,
    context: &ContextProperties,
    queue: &HwQueue,
    args: &DXGKARG_SUBMITCOMMANDTOHWQUEUE,
) -> Result<(), Refused> {
    let kernel = queue.kernel.as_ref().ok_or(refused(Reason::QueueKind))?;
    let skip = args.Flags.NullRendering() || args.Flags.ContextSwitch();
    let submission = Submission {
        commands: args.DmaBufferVirtualAddress,
        size: if skip { 0 } else { args.DmaBufferSize },
        fence: args.HwQueueProgressFenceId,
    };
    let Submission { commands, size, fence } = submission;
    gpu.note(Component::Queue, &Event::QueueSubmitted { fence, commands, number: queue.number, size });
    let mut state = queue.state.lock(irql);
    let (state, irql) = state.parts();
    map_locked(irql, gpu, context, queue, state)?;
    if state.waiting.is_empty() && kernel.ring.has_free_entry(state.written) {
        write(kernel, queue.test, state, submission);
        // A queue that faulted or is suspended keeps the entry; a lost device is found by a timeout.
        let _ = gpu.cmp.kick(irql, queue.number);
        return Ok(());
    }
    state.waiting.push(submission)?;
    queue.waiting.store(state.waiting.len() as u32, Ordering::Release);
    gpu.note_waiting();
    Ok(())
}

fn write(kernel: &KernelRing, test: bool, state: &mut HwQueueState, submission: Submission) {
    let number = state.written;
    if let Some(fence) = kernel.fences.get((number % u64::from(RING_ENTRIES)) as usize) {
        fence.store(submission.fence, Ordering::Release);
    }
    let flags = RingFlags::new().with_write_progress(test);
    let entry = RingEntry {
        commands: submission.commands,
        size: submission.size,
        flags: flags.with_retire_event(number.is_multiple_of(RETIRE_EVERY)).into_bits(),
        tag: submission.fence,
        root: 0,
    };
    kernel.ring.write(number, &entry);
    state.written = number + 1;
    kernel.ring.publish(state.written);
}

/// Work of the DPC: moves submissions that waited into the ring.
pub(crate) fn refill(irql: &impl UpToDispatch, gpu: &Gpu, queue: &HwQueue) {
    let Some(kernel) = queue.kernel.as_ref().filter(|_| queue.needs_refill.swap(false, Ordering::AcqRel)) else {
        return;
    };
    let mut state = queue.state.lock(irql);
    let (state, irql) = state.parts();
    let mut moved = 0;
    while kernel.ring.has_free_entry(state.written)
        && let Some(submission) = state.waiting.get(moved).copied()
    {
        write(kernel, queue.test, state, submission);
        moved += 1;
    }
    if moved != 0 {
        state.waiting.remove_front(moved);
        queue.waiting.store(state.waiting.len() as u32, Ordering::Release);
        // As for a submission.
        let _ = gpu.cmp.kick(irql, queue.number);
    }
}

impl HwQueue {
    /// Takes the page of the queue's doorbell, if it has one, and the doorbell.
    pub(crate) fn release_doorbell(&self, irql: &Passive, gpu: &Gpu) {
        let bits = self.doorbell.swap(0, Ordering::AcqRel);
        if bits != 0 {
            gpu.doorbells.disconnect(irql, gpu.scheduler(), Handle::from_bits(bits), self.number);
        }
    }

    /// Gives a queue the memory that it shares with the device: the ring that the kernel writes, and a save area of so many bytes.
    pub(super) fn allocate(&mut self, irql: &Passive, gpu: &Gpu, save_size: u32) -> Result<(), Refused> {
        if !self.user {
            self.kernel = Some(kernel_ring(irql, gpu)?);
        }
        if save_size != 0 {
            self.save_area = Some(gpu.dxgk.allocate_contiguous(irql, save_size as usize, gpu.layout.caching())?);
        }
        Ok(())
    }

    /// Frees the memory that a queue shared with the device, which does not have the queue any more.
    pub(crate) fn free_memory(&mut self, irql: &Passive, gpu: &Gpu) {
        let ring = self.kernel.take().map(|kernel| kernel.memory);
        for memory in [ring, self.save_area.take()].into_iter().flatten() {
            gpu.dxgk.free_contiguous(irql, memory);
        }
    }
}

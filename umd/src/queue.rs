//! Queues: creation, submission in either model, waiting.

mod doorbell;
mod fallback;
mod model;
mod objects;
mod options;
mod priority;
mod recover;
mod software;

pub use model::{ModelReason, SubmissionModel};
pub use options::{COMMAND_BYTES_MAX, Node, QueueOptions, RING_ENTRIES_MIN, SAVE_BYTES_MAX};
pub use recover::Unfinished;

use alloc::boxed::Box;
use core::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use campanile_hw::packet;
use wddm_ddi::{
    Zeroed, km::D3DDDI_CREATEHWQUEUEFLAGS, kmt::*, status::STATUS_GRAPHICS_ALLOCATION_BUSY, types::D3DKMT_HANDLE,
};

use doorbell::{Doorbell, first_connection, ring_memory};
use objects::{HwContext, HwQueue, PacketContext};
use options::check_entries;

use crate::{
    buffer::Mapping,
    commands::{CommandMemory, Core, Logs, Progress, Recorder},
    device::Device,
    error::{Error, Result},
    fence::{self, Fence},
    ring::{DoorbellWords, Status, UserRing},
    thunks::invoke,
    trace::{QueueEvent, Tracer},
};

/// Longest time that is waited for the work in a ring that is to be replaced.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);
/// Counts of a queue since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Submissions made.
    pub submissions: u64,
    /// Stores to the doorbell.
    pub doorbell_rings: u64,
    /// Connections asked for because a doorbell had been taken away.
    pub doorbell_reconnects: u64,
    /// Submissions that the kernel-mode driver had to be told of.
    pub notifications: u64,
}

/// A hardware queue, used by one thread at a time.
///
/// A failed [`Queue::submit`] leaves the queue as it was, with one exception: when the operating system fails after the work
/// has reached the ring (the device is lost, or the doorbell cannot be connected again and the queue insists on its model), or after it
/// has taken part of a submission that waits for monitored fences, that error comes back from every later submission too, and the way
/// on is a new queue, or a new device after [`Error::DeviceLost`].
///
/// A queue that may choose its model goes on through the kernel when its doorbell cannot be connected again: what is in its ring runs,
/// progress values go on, and its handle is another one from then on. While memory is so short that no allocation of the process is
/// resident, its ring keeps what was submitted; later submissions and waits are refused with STATUS_NO_MEMORY and change nothing, and the
/// next one of them that finds enough memory has the ring run. [user-mode-work-submission: pseudocode]
///
/// Dropping a queue does not wait; the operating system does so where it must before it frees the memory.
pub struct Queue {
    node: Node,
    options: QueueOptions,
    /// Largest progress value that a read of the progress fence has shown.
    seen: AtomicU64,
    core: Core,
    failed: Option<Error>,
    fallback: Option<Error>,
    reconnects: u64,
    notifications: u64,
    /// Submissions made in rings that this one has replaced.
    earlier: u64,
    /// True once the doorbell could not be connected again: when the work in the ring is done, the queue submits through the kernel.
    falls_back: bool,
    /// True while the kernel-mode driver was not yet notified of the work in that ring, because the call failed.
    notify_pending: AtomicBool,
    /// Connections that failed, after each of which the doorbell was not rung.
    failed_connects: u64,
    /// Stores to the doorbell before the queue submitted through the kernel.
    rung: u64,
    // The fields from here on have objects that must be destroyed in this order: doorbell, queue, context; after that the GPU does not use
    // the memory any more.
    path: Path,
    target: Target,
    memory: Memory,
}

enum Path {
    User(UserRing, Doorbell),
    Kernel,
    Packet,
}

/// The queue's object in the operating system.
enum Target {
    /// A hardware queue. It is dropped, and so destroyed, before its context.
    Hardware(HwQueue, HwContext),
    /// A packet context, and the fence that the last packet of each submission signals.
    Packets(PacketContext, Fence),
}

impl Target {
    fn handle(&self) -> D3DKMT_HANDLE {
        match self {
            Self::Hardware(queue, _) => queue.handle,
            Self::Packets(context, _) => context.handle,
        }
    }

    fn progress(&self) -> Progress {
        match self {
            Self::Hardware(queue, _) => Progress::new(queue.progress, queue.fence),
            Self::Packets(_, fence) => Progress::new(fence.word(), fence.handle()),
        }
    }

    /// What the last packet of a command buffer signals, if it is not the progress fence of a hardware queue.
    fn ending(&self) -> Option<packet::Signal> {
        match self {
            Self::Hardware(..) => None,
            Self::Packets(_, fence) => Some(fence.signal_packet(0)),
        }
    }
}

/// Mappings that the hot path writes through.
struct Memory {
    commands: Mapping,
    ring: Option<(Mapping, Mapping)>,
}

impl Queue {
    /// Creates a queue on a node of the device.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for options out of range, [`Error::UserSubmissionDisabled`] if it was asked for by name,
    /// [`Error::DeviceLost`], and [`Error::Status`] or [`Error::BadAnswer`] from the operating system, with every step undone; among
    /// others STATUS_PRIVILEGE_NOT_HELD for a priority that the process may not have.
    /// [d3dkmthk: D3DKMTCreateHwContext, D3DKMTCreateHwQueue, D3DKMTCreateDoorbell, D3DKMTConnectDoorbell,
    /// D3DKMTCreateContextVirtual, D3DKMTSetContextSchedulingPriority]
    pub fn new(device: &Device, node: Node, options: QueueOptions) -> Result<Self> {
        options.check()?;
        let queue = Self::of_normal_priority(device, node, options)?;
        queue.take_priority()?;
        Ok(queue)
    }

    fn of_normal_priority(device: &Device, node: Node, options: QueueOptions) -> Result<Self> {
        let usable = user_submission_usable(device);
        if options.model == Some(SubmissionModel::User) {
            usable?;
        }
        let shared = device.adapter().shared_placement();
        let commands = device.create_buffer(u64::from(options.command_bytes), shared)?.map()?;
        let packets = |commands: Mapping, fallback| {
            let target = Target::Packets(PacketContext::new(device, node)?, Fence::new(device, 0)?);
            let memory = Memory { commands, ring: None };
            Ok(Self::assemble(device, node, options, Path::Packet, target, memory, fallback))
        };
        if options.model == Some(SubmissionModel::Packet) {
            return packets(commands, None);
        }
        if options.model.is_none() && !device.adapter().hardware_scheduling() {
            return packets(commands, usable.err());
        }
        let context = match HwContext::new(device, node) {
            Ok(context) => context,
            // As with a doorbell that does not connect, a slower way is better than none.
            Err(error) if options.model.is_none() => match device.explain(error) {
                Error::DeviceLost => return Err(Error::DeviceLost),
                reason => return packets(commands, Some(reason)),
            },
            Err(error) => return Err(error),
        };
        let fallback = match (options.model, usable) {
            (Some(SubmissionModel::Kernel), _) => None,
            (None, Err(reason)) => Some(reason),
            (model, _) => {
                let (ring, control) = ring_memory(device, options.ring_entries)?;
                match open_user(&context, (&ring, &control), options.save_bytes) {
                    Ok((path, hw_queue, logs)) => {
                        let memory = Memory { commands, ring: Some((ring, control)) };
                        let target = Target::Hardware(hw_queue, context);
                        let mut queue = Self::assemble(device, node, options, path, target, memory, None);
                        queue.core.logs = logs;
                        return Ok(queue);
                    }
                    // Microsoft's page advises kernel-mode submission for a doorbell that does not connect. [user-mode-work-submission]
                    Err(error) if model.is_none() => match device.explain(error) {
                        Error::DeviceLost => return Err(Error::DeviceLost),
                        reason => Some(reason),
                    },
                    Err(error) => return Err(device.explain(error)),
                }
            }
        };
        // Its progress is a monitored fence, so that the kernel learns of every command buffer that is done: only then does it look at the
        // monitored fences that the buffer has written. A native one interrupts only for its waiters.
        let hw_queue = HwQueue::new(&context, D3DDDI_CREATEHWQUEUEFLAGS::new(), options.save_bytes)?;
        let memory = Memory { commands, ring: None };
        Ok(Self::assemble(device, node, options, Path::Kernel, Target::Hardware(hw_queue, context), memory, fallback))
    }

    /// Largest progress value that is known to be reached. The value that the loss of a device leaves behind is none.
    pub fn seen(&self) -> u64 {
        let progress = self.progress();
        if progress <= self.last_submitted() {
            self.seen.fetch_max(progress, Ordering::AcqRel);
        }
        self.seen.load(Ordering::Acquire)
    }

    fn assemble(
        device: &Device,
        node: Node,
        options: QueueOptions,
        path: Path,
        target: Target,
        memory: Memory,
        fallback: Option<Error>,
    ) -> Self {
        let commands = &memory.commands;
        // SAFETY: `core` and `memory` are dropped together, and nothing records in between.
        let range = unsafe { commands.words() };
        let memory_of_commands = CommandMemory::new(range, commands.buffer().gpu_address(), options.ring_entries);
        let core = Core::new(device, target.progress(), memory_of_commands, target.ending());
        Self {
            node,
            options,
            seen: AtomicU64::new(core.progress.base),
            core,
            failed: None,
            fallback,
            reconnects: 0,
            notifications: 0,
            earlier: 0,
            falls_back: false,
            notify_pending: AtomicBool::new(false),
            failed_connects: 0,
            rung: 0,
            path,
            target,
            memory,
        }
    }

    /// Records commands and submits them; returns the progress value that says they are done. Waits for the GPU when ring or
    /// command memory is full.
    ///
    /// # Errors
    /// What `record` returned, or [`Error::CommandsTooLarge`], [`Error::DeviceLost`], [`Error::Status`],
    /// [`Error::DoorbellStatus`]; see the type for which of them end the queue.
    #[inline]
    pub fn submit(&mut self, record: impl FnOnce(&mut Recorder<'_>) -> Result<()>) -> Result<u64> {
        self.submit_with(true, record)
    }

    /// As [`Queue::submit`], but never waits.
    ///
    /// # Errors
    /// Also [`Error::RingFull`] and [`Error::CommandMemoryFull`].
    #[inline]
    pub fn try_submit(&mut self, record: impl FnOnce(&mut Recorder<'_>) -> Result<()>) -> Result<u64> {
        self.submit_with(false, record)
    }

    #[inline]
    fn submit_with(&mut self, wait: bool, record: impl FnOnce(&mut Recorder<'_>) -> Result<()>) -> Result<u64> {
        self.begin(wait)?;
        let mut recorder = Recorder::new(&mut self.core, 0, wait);
        let outcome = record(&mut recorder);
        let recorded = recorder.recorded();
        outcome.inspect_err(|_| self.cancel())?;
        self.finish(recorded, wait)
    }

    /// Makes sure that a submission can be made.
    #[inline]
    pub(crate) fn begin(&mut self, wait: bool) -> Result<()> {
        if self.falls_back {
            self.leave_ring()?;
        }
        self.core.begin(!matches!(self.path, Path::User(..)));
        match self.failed {
            None => self.core.reserve_entry(wait),
            Some(error) => Err(error),
        }
    }

    /// Forgets what was recorded since [`Queue::begin`], with the fences that it names.
    pub(crate) fn cancel(&mut self) {
        self.core.begin(false);
    }

    /// Continues a submission of which `recorded` bytes exist.
    #[inline]
    pub(crate) fn recorder(&mut self, recorded: usize, wait: bool) -> Recorder<'_> {
        Recorder::new(&mut self.core, recorded, wait)
    }

    /// Submits the `recorded` bytes.
    #[inline]
    pub(crate) fn finish(&mut self, recorded: usize, wait: bool) -> Result<u64> {
        // 1. A new progress value, one above the last; private, never read back.
        // 2. The last packet writes it, so that it shows only when all before it is done.
        let mut recorder = Recorder::new(&mut self.core, recorded, wait);
        let ended = recorder.end();
        let cursor = recorder.cursor();
        let value = ended.inspect_err(|_| self.cancel())?;
        let Path::User(ring, _) = &self.path else { return self.submit_to_kernel(cursor) };
        let submission = self.core.progress.submitted + 1;
        let (commands, size) = self.core.memory.take(submission, cursor);
        self.core.progress.submitted = submission;
        self.core.logs = self.core.picked;
        let status = ring.publish(submission, commands, size, value);
        if status != 0 {
            self.handle_status(status)?;
        }
        self.core.trace(QueueEvent::Submitted { progress: value, rung: true });
        Ok(value)
    }

    /// Handles every doorbell status but CONNECTED, after the work was written to the ring.
    #[cold]
    #[inline(never)]
    fn handle_status(&mut self, status: u64) -> Result<()> {
        self.follow_status(status).inspect_err(|error| {
            self.failed = Some(*error);
        })
    }

    fn follow_status(&mut self, mut word: u64) -> Result<()> {
        let Path::User(ring, doorbell) = &self.path else { return Ok(()) };
        loop {
            match UserRing::read_status(word) {
                Status::Connected => return Ok(()),
                Status::ConnectedNotify => {
                    self.notifications += 1;
                    return doorbell.notify();
                }
                // Disconnected for another queue, or because the node is in F1. Connecting makes the scheduler read the write pointer; the
                // doorbell is rung again after that because Microsoft's page says so, and the status then shows if it is still connected.
                // It may be disconnected any number of times, so that only the operating system ends this loop.
                Status::Retry => {
                    self.reconnects += 1;
                    if let Err(error) = doorbell.connect() {
                        return self.fall_back(error);
                    }
                    let progress = self.core.progress.value(self.core.progress.submitted);
                    self.core.trace(QueueEvent::Reconnected { progress });
                    word = ring.ring_doorbell(self.core.progress.submitted);
                }
                Status::Abort => return Err(Error::DeviceLost),
                Status::Unknown(word) => return Err(self.core.device.explain(Error::DoorbellStatus(word))),
            }
        }
    }

    /// Gives the queue a ring of another number of entries, with whatever is under way: what was submitted ends in the old ring, what
    /// comes later goes into the new one, and progress values go on. Waits until the old ring is empty.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for a number out of range, [`Error::Timeout`] when the work under way does not end within two seconds,
    /// [`Error::DeviceLost`], [`Error::Status`] and [`Error::BadAnswer`]: the queue is as it was. When the doorbell of the new ring
    /// cannot be connected, a queue that may choose its model goes on through the kernel; any other error after the new ring has taken the
    /// old one's place comes back from every later submission, as with [`Queue::submit`].
    /// [d3dkmthk: D3DKMT_CREATE_DOORBELL_FLAGS]
    pub fn resize(&mut self, ring_entries: u32) -> Result<()> {
        check_entries(ring_entries)?;
        if let Some(error) = self.failed {
            return Err(error);
        }
        let (Path::User(..), Target::Hardware(hw_queue, _)) = (&self.path, &self.target) else {
            self.wait_progress_for(self.last_submitted(), Some(DRAIN_LIMIT))?;
            return self.core.restart(ring_entries).map(|count| self.earlier += count);
        };
        let device = self.core.device.clone();
        let (ring, control) = ring_memory(&device, ring_entries)?;
        let made = Doorbell::new(hw_queue, &ring, &control, true).map_err(|error| match error {
            Error::Status(STATUS_GRAPHICS_ALLOCATION_BUSY, _) => Error::Timeout,
            error => device.explain(error),
        });
        let (doorbell, words) = made?;
        // The old doorbell is not the queue's any more, whatever comes.
        self.options.ring_entries = ring_entries;
        self.replace(ring, control, doorbell, words, ring_entries).inspect_err(|error| self.failed = Some(*error))
    }

    /// Replaces the queue's doorbell by `doorbell`, whose ring lies in `ring` and `control`. All work in the old ring is done.
    fn replace(
        &mut self,
        ring: Mapping,
        control: Mapping,
        doorbell: Doorbell,
        words: DoorbellWords,
        entries: u32,
    ) -> Result<()> {
        let user = UserRing::new(&ring, &control, words)?;
        self.earlier += self.core.restart(entries)?;
        // The old doorbell goes first, then the memory of its ring.
        self.path = Path::User(user, doorbell);
        self.memory.ring = Some((ring, control));
        let Path::User(user, doorbell) = &self.path else { return Ok(()) };
        match first_connection(user, doorbell) {
            Ok(()) => Ok(()),
            Err(error) => self.fall_back_empty(self.core.device.explain(error)),
        }
    }

    /// Sets the tracer that is called for every event of the queue from now on; `None` ends tracing.
    pub fn set_tracer(&mut self, tracer: Option<Box<dyn Tracer>>) {
        self.core.tracer = tracer;
    }

    /// Its handle, by which logs and traces name it.
    pub fn handle(&self) -> D3DKMT_HANDLE {
        self.target.handle()
    }

    /// The device it was created on.
    pub fn device(&self) -> &Device {
        &self.core.device
    }

    /// The progress value reached so far.
    #[inline]
    pub fn progress(&self) -> u64 {
        self.core.progress.reached()
    }

    /// The progress value of the latest submission.
    #[inline]
    pub fn last_submitted(&self) -> u64 {
        self.core.progress.value(self.core.progress.submitted)
    }

    /// Waits on the CPU until the submission with this progress value is done.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for a value that was not submitted, [`Error::DeviceLost`], [`Error::Status`].
    pub fn wait_progress(&self, value: u64) -> Result<()> {
        self.wait_progress_for(value, None)
    }

    /// As [`Queue::wait_progress`], with a time limit.
    ///
    /// # Errors
    /// Also [`Error::Timeout`].
    pub fn wait_progress_for(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        if value > self.last_submitted() {
            return Err(Error::BadArgument("no submission has this progress value"));
        }
        let progress = &self.core.progress;
        match self.failed {
            Some(error) if self.progress() < value => Err(error),
            _ if progress.is_of_earlier_fence(value) => Ok(()),
            _ => {
                if self.progress() < value {
                    self.announce()?;
                }
                fence::wait(&self.core.device, progress.fence, progress.current, value, timeout)?;
                self.seen.fetch_max(value, Ordering::AcqRel);
                Ok(())
            }
        }
    }

    /// Counts since the queue was created.
    pub fn stats(&self) -> QueueStats {
        let submissions = self.earlier + self.core.progress.submitted;
        let doorbell_rings = match self.path {
            // One for each submission, one for each connection that was made again.
            Path::User(..) => submissions + self.reconnects - self.failed_connects,
            Path::Kernel | Path::Packet => self.rung,
        };
        QueueStats {
            submissions,
            doorbell_rings,
            doorbell_reconnects: self.reconnects,
            notifications: self.notifications,
        }
    }
}

/// Checks that user-mode submission can be tried on this adapter.
fn user_submission_usable(device: &Device) -> Result<()> {
    if device.adapter().user_mode_submission() { Ok(()) } else { Err(Error::UserSubmissionDisabled) }
}

/// Creates queue and doorbell for user-mode submission, and connects; says where its fence logs are.
fn open_user(
    context: &HwContext,
    (ring, control): (&Mapping, &Mapping),
    save_bytes: u32,
) -> Result<(Path, HwQueue, Logs)> {
    let flags = D3DDDI_CREATEHWQUEUEFLAGS::new().with_UserModeSubmission(true).with_NativeProgressFence(true);
    let queue = HwQueue::new(context, flags, save_bytes)?;
    let mut detail = D3DKMT_GETNATIVEFENCELOGDETAIL::zeroed();
    detail.hHwQueue = queue.handle;
    invoke!(context.device.thunks(), D3DKMTGetNativeFenceLogDetail, &mut detail)?;
    let logs = Logs::new(&detail)?;
    let (doorbell, words) = Doorbell::new(&queue, ring, control, false)?;
    let user = UserRing::new(ring, control, words)?;
    // Connected before the first submission, so that a queue which cannot connect is found out while it is empty.
    first_connection(&user, &doorbell)?;
    Ok((Path::User(user, doorbell), queue, logs))
}

//! Recording: packets written straight into command memory that the GPU reads.
//!
//! Command memory is a ring of bytes. Every submission takes one contiguous piece of it and gives it back when its progress
//! value is reached. Recording starts where the last piece ended; only when a packet does not fit does it look at the GPU's
//! progress, move what it has to the start of the ring, or wait.

mod logs;
mod memory;
mod progress;

use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::Ordering;

use campanile_hw::{
    log::LogOperation,
    packet::{self, COPY_MAX, FILL_MAX, Packet},
    queue::COMMANDS_SIZE_MAX,
};
use wddm_ddi::types::LUID;

use crate::{
    device::Device,
    error::{Error, Result},
    fence::{self, Fence, FenceKind},
    trace::{QueueEvent, Tracer},
};

pub(crate) use logs::Logs;
pub(crate) use memory::CommandMemory;
pub(crate) use progress::Progress;

pub use campanile_hw::packet::{Copy as CopyRows, Dispatch, DispatchReport};

/// Number of reads of the progress fence before a thread that waits for a free ring entry blocks in the kernel.
const SPINS: u32 = 200;
/// Most bytes a single run of a COPY can name, a multiple of 4096.
const COPY_RUN: u64 = COPY_MAX;
/// Most bytes of one FILL, a multiple of 4096.
const FILL_RUN: u64 = FILL_MAX;

/// A wait for a monitored fence in a submission that is being recorded. The operating system delays what is recorded after it.
pub(crate) struct KernelWait {
    /// Bytes of the submission that come before the wait.
    pub(crate) at: usize,
    /// Kept until the operating system has the wait.
    pub(crate) fence: Fence,
    pub(crate) value: u64,
}

/// The part of a queue that recording works on.
pub(crate) struct Core {
    /// The fence logs as of the latest submission.
    pub(crate) logs: Logs,
    /// The fence logs as of the submission that is being recorded.
    pub(crate) picked: Logs,
    pub(crate) device: Device,
    pub(crate) luid: LUID,
    pub(crate) progress: Progress,
    pub(crate) memory: CommandMemory,
    /// The SIGNAL packet that ends each command buffer of a packet context; `None` for a hardware queue, whose command buffers end with PROGRESS.
    pub(crate) ending: Option<packet::Signal>,
    /// True if the operating system is handed every command buffer, so that it can delay one until a fence has a value.
    pub(crate) by_kernel: bool,
    /// Waits for monitored fences in what is being recorded, in order.
    pub(crate) kernel_waits: Vec<KernelWait>,
    /// Pieces of what is being recorded that end before such a wait; each becomes a command buffer with a progress value of its own.
    pieces: u64,
    /// The tracer that is told of every operation, if one was set.
    pub(crate) tracer: Option<Box<dyn Tracer>>,
}

impl Core {
    /// The core of a queue that has submitted nothing.
    pub(crate) fn new(
        device: &Device,
        progress: Progress,
        memory: CommandMemory,
        ending: Option<packet::Signal>,
    ) -> Self {
        let (device, luid) = (device.clone(), device.adapter().luid());
        let (logs, picked) = (Logs::default(), Logs::default());
        let (kernel_waits, by_kernel) = (Vec::new(), true);
        Self { logs, picked, device, luid, progress, memory, ending, by_kernel, kernel_waits, pieces: 0, tracer: None }
    }

    /// Forgets what was recorded, for a submission by the kernel or from user mode.
    #[inline(always)]
    pub(crate) fn begin(&mut self, by_kernel: bool) {
        self.by_kernel = by_kernel;
        self.pieces = 0;
        self.kernel_waits.clear();
        // What was recorded and not submitted has no entries.
        self.picked = self.logs;
    }

    /// Tells the tracer, if there is one.
    #[inline(always)]
    pub(crate) fn trace(&mut self, event: QueueEvent) {
        if self.tracer.is_some() {
            self.tell(event);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell(&mut self, event: QueueEvent) {
        if let Some(tracer) = &mut self.tracer {
            tracer.event(event);
        }
    }

    /// Makes sure that one more ring entry is free.
    #[inline(always)]
    pub(crate) fn reserve_entry(&mut self, wait: bool) -> Result<()> {
        if self.progress.in_flight() < self.memory.ends.len() as u64 { Ok(()) } else { self.free_entry(0, wait) }
    }

    /// Waits until one more entry is free than `taken`, which are fewer than there are.
    #[cold]
    #[inline(never)]
    fn free_entry(&mut self, taken: u64, wait: bool) -> Result<()> {
        self.refresh()?;
        while self.progress.in_flight() + taken >= self.memory.ends.len() as u64 {
            if !wait {
                return Err(Error::RingFull);
            }
            self.wait_for_one()?;
        }
        Ok(())
    }

    /// The queue goes on in an empty ring of `entries`; returns how many submissions were made in the old one.
    ///
    /// # Errors
    /// [`Error::BadAnswer`] if they are not done.
    pub(crate) fn restart(&mut self, entries: u32) -> Result<u64> {
        self.refresh()?;
        if self.progress.in_flight() != 0 {
            return Err(Error::BadAnswer("the ring was replaced while work was under way in it"));
        }
        self.memory.restart(entries);
        Ok(self.progress.restart())
    }

    /// Looks at the progress fence and gives back what is done.
    fn refresh(&mut self) -> Result<()> {
        let seen = self.progress.reached().wrapping_sub(self.progress.base);
        if seen > self.progress.submitted {
            // Nothing writes such a value while the device works; a lost one may show all ones.
            self.device.check()?;
            return Err(Error::BadAnswer("the progress fence shows a value that was never queued"));
        }
        if seen > self.progress.completed {
            self.progress.completed = seen;
        }
        self.memory.release(self.progress.completed, self.progress.in_flight() == 0);
        Ok(())
    }

    /// Waits until one more submission is done: polls for a while, then blocks in the kernel.
    fn wait_for_one(&mut self) -> Result<()> {
        let value = self.progress.value(self.progress.completed + 1);
        for _ in 0..SPINS {
            if self.progress.current.load(Ordering::Relaxed) >= value {
                return self.refresh();
            }
            core::hint::spin_loop();
        }
        fence::wait(&self.device, self.progress.fence, self.progress.current, value, None)?;
        self.refresh()
    }
}

/// Records the commands of one submission.
///
/// They run in order; a copy or fill is complete, and visible to the GPU, before the next command starts. A command that is
/// refused leaves what was recorded before it untouched.
pub struct Recorder<'q> {
    core: &'q mut Core,
    /// Offset of the next packet in command memory.
    cursor: usize,
    wait: bool,
}

impl<'q> Recorder<'q> {
    /// Starts after `recorded` bytes that an earlier recorder of the same submission left.
    #[inline(always)]
    pub(crate) fn new(core: &'q mut Core, recorded: usize, wait: bool) -> Self {
        let cursor = core.memory.start + recorded;
        Self { core, cursor, wait }
    }

    /// Bytes recorded so far.
    #[inline(always)]
    pub fn recorded(&self) -> usize {
        self.cursor - self.core.memory.start
    }

    #[inline(always)]
    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Copies `size` bytes between GPU addresses; source and destination do not overlap.
    ///
    /// # Errors
    /// [`Error::BadPacket`] for size 0 or a range outside the address space; see [`Recorder::nop`] for the others.
    #[inline]
    pub fn copy(&mut self, destination: u64, source: u64, size: u64) -> Result<()> {
        if size > COPY_RUN {
            return self.copy_long(destination, source, size);
        }
        let copy =
            CopyRows { source, destination, row_bytes: size as u32, rows: 1, source_pitch: 0, destination_pitch: 0 };
        self.copy_rows(&copy)
    }

    #[cold]
    fn copy_long(&mut self, destination: u64, source: u64, size: u64) -> Result<()> {
        let end = destination.checked_add(size).and(source.checked_add(size));
        if end.is_none() || size.div_ceil(COPY_RUN) * packet::Copy::SIZE as u64 > u64::from(COMMANDS_SIZE_MAX) {
            return Err(Error::BadPacket(packet::BadPacket::Range));
        }
        let before = self.recorded();
        let mut done = 0;
        while done < size {
            let run = (size - done).min(COPY_RUN);
            if let Err(error) = self.copy(destination + done, source + done, run) {
                self.rewind(before);
                return Err(error);
            }
            done += run;
        }
        Ok(())
    }

    /// Copies `rows` runs of `row_bytes` bytes; run `i` goes from `source + i * source_pitch` to
    /// `destination + i * destination_pitch`. At most 256 MiB.
    ///
    /// # Errors
    /// [`Error::BadPacket`] if a size is zero or too large or a range leaves the address space; see [`Recorder::nop`].
    #[inline]
    pub fn copy_rows(&mut self, copy: &CopyRows) -> Result<()> {
        Packet::Copy(*copy).validate()?;
        self.push(copy.to_words())
    }

    /// Fills `size` bytes with a 32-bit pattern; address and size are multiples of 4.
    ///
    /// # Errors
    /// [`Error::BadPacket`] for a size of 0, misalignment or a range outside the address space; see [`Recorder::nop`].
    #[inline]
    pub fn fill(&mut self, destination: u64, size: u64, pattern: u32) -> Result<()> {
        let fill = packet::Fill { destination, size: size.min(FILL_RUN), pattern };
        Packet::Fill(fill).validate()?;
        if size > FILL_RUN { self.fill_long(destination, size, pattern) } else { self.push(fill.to_words()) }
    }

    #[cold]
    fn fill_long(&mut self, destination: u64, size: u64, pattern: u32) -> Result<()> {
        if size > 1 << 48 || destination.checked_add(size).is_none() {
            return Err(Error::BadPacket(packet::BadPacket::Range));
        }
        let before = self.recorded();
        let mut done = 0;
        while done < size {
            let run = (size - done).min(FILL_RUN);
            if let Err(error) = self.fill(destination + done, run, pattern) {
                self.rewind(before);
                return Err(error);
            }
            done += run;
        }
        Ok(())
    }

    /// Sets the fence's value after every earlier effect of the queue and releases the waiters. The GPU writes the value without the
    /// kernel, which sees that of a monitored fence when it learns that the command buffer is done.
    ///
    /// # Errors
    /// [`Error::ForeignFence`], [`Error::WaitOnlyFence`]; for a monitored fence [`Error::NeedsKernelSubmission`] and
    /// [`Error::OutOfReach`]; see [`Recorder::nop`].
    #[inline]
    pub fn signal(&mut self, fence: &Fence, value: u64) -> Result<()> {
        self.check_fence(fence)?;
        fence.check_signal()?;
        if fence.kind() == FenceKind::Monitored {
            self.check_kernel()?;
            fence.check_reach(value)?;
        }
        let mut picked = self.core.picked;
        let log = picked.signals.pick(LogOperation::SignalExecuted, fence.handle(), value);
        self.push_logged(fence.signal_packet(value).to_words(), log)?;
        self.core.picked = picked;
        self.core.trace(QueueEvent::SignalQueued { fence: fence.handle(), value });
        Ok(())
    }

    /// Has the queue wait until the fence's value is at least `value`, without the CPU.
    ///
    /// The operating system does it for a monitored fence. What was recorded before the wait then becomes a command buffer of its own, with a progress
    /// value of its own, which is handed over before the wait is; what comes after it is not scheduled until the wait is satisfied.
    /// [context-monitoring: GPU wait]
    ///
    /// # Errors
    /// [`Error::ForeignFence`], [`Error::SignalOnlyFence`]; for a monitored fence [`Error::NeedsKernelSubmission`],
    /// [`Error::OutOfReach`], and [`Error::CommandsTooLarge`] for more waits than the queue has ring entries; see [`Recorder::nop`].
    #[inline]
    pub fn wait(&mut self, fence: &Fence, value: u64) -> Result<()> {
        self.check_fence(fence)?;
        fence.check_wait()?;
        match fence.kind() {
            FenceKind::Native => {
                let mut picked = self.core.picked;
                let log = picked.waits.pick(LogOperation::WaitUnblocked, fence.handle(), value);
                self.push_logged(fence.wait_packet(value).to_words(), log)?;
                self.core.picked = picked;
            }
            FenceKind::Monitored => self.hold(fence, value)?,
        }
        self.core.trace(QueueEvent::WaitQueued { fence: fence.handle(), value });
        Ok(())
    }

    #[cold]
    fn hold(&mut self, fence: &Fence, value: u64) -> Result<()> {
        self.check_kernel()?;
        fence.check_reach_up(value)?;
        let entries = self.core.memory.ends.len();
        if self.core.kernel_waits.len() >= entries {
            return Err(Error::CommandsTooLarge);
        }
        if self.recorded() > self.core.kernel_waits.last().map_or(0, |wait| wait.at) {
            let taken = self.core.pieces + 1;
            if taken >= entries as u64 {
                return Err(Error::CommandsTooLarge);
            }
            self.core.free_entry(taken, self.wait)?;
            self.end()?;
            self.core.pieces = taken;
        }
        self.core.kernel_waits.push(KernelWait { at: self.recorded(), fence: fence.clone(), value });
        Ok(())
    }

    /// Refuses a command that needs submission through the kernel if the queue submits from user mode.
    #[inline(always)]
    fn check_kernel(&self) -> Result<()> {
        if self.core.by_kernel { Ok(()) } else { Err(Error::NeedsKernelSubmission) }
    }

    /// Writes the GPU clock as 64 bits to an address that is a multiple of 8.
    ///
    /// # Errors
    /// [`Error::BadPacket`]; see [`Recorder::nop`].
    #[inline]
    pub fn timestamp(&mut self, destination: u64) -> Result<()> {
        let timestamp = packet::Timestamp { destination };
        Packet::Timestamp(timestamp).validate()?;
        self.push(timestamp.to_words())
    }

    /// Runs a program in a grid of workgroups, on a queue of the compute node. The next command begins when it has ended.
    ///
    /// # Errors
    /// [`Error::BadPacket`]; see [`Recorder::nop`].
    #[inline]
    pub fn dispatch(&mut self, dispatch: &Dispatch) -> Result<()> {
        Packet::Dispatch(*dispatch).validate()?;
        self.push(dispatch.to_words())
    }

    /// Does nothing on the GPU.
    ///
    /// # Errors
    /// When command memory must be waited for, [`Error::DeviceLost`] or [`Error::Status`]; [`Error::CommandMemoryFull`] if
    /// the submission must not wait; [`Error::CommandsTooLarge`] if the submission can never fit.
    #[inline]
    pub fn nop(&mut self) -> Result<()> {
        self.push(packet::Nop {}.to_words())
    }

    /// The last packet of every command buffer; returns the progress value that it writes.
    #[inline(always)]
    pub(crate) fn end(&mut self) -> Result<u64> {
        let Progress { fence: handle, submitted, .. } = self.core.progress;
        let value = self.core.progress.value(submitted + self.core.pieces + 1);
        let mut picked = self.core.picked;
        match self.core.ending {
            None => {
                let log = picked.signals.pick(LogOperation::SignalExecuted, handle, value);
                self.push_logged(packet::Progress { handle, value }.to_words(), log)?;
            }
            Some(signal) => self.push(packet::Signal { value, ..signal }.to_words())?,
        }
        self.core.picked = picked;
        Ok(value)
    }

    #[inline(always)]
    fn check_fence(&self, fence: &Fence) -> Result<()> {
        if fence.luid() == self.core.luid { Ok(()) } else { Err(Error::ForeignFence) }
    }

    /// Forgets what was recorded after the first `recorded` bytes.
    fn rewind(&mut self, recorded: usize) {
        self.cursor = self.core.memory.start + recorded;
    }

    #[inline(always)]
    fn push<const N: usize>(&mut self, words: [u64; N]) -> Result<()> {
        let bytes = N * 8;
        if self.core.memory.limit - self.cursor < bytes {
            self.free_memory(bytes)?;
        }
        // SAFETY: `bytes` fit between the cursor and the limit, which is inside the range.
        unsafe { self.core.memory.range.write(self.cursor, words) };
        self.cursor += bytes;
        Ok(())
    }

    /// A packet and the command that logs it, or neither.
    #[inline(always)]
    fn push_logged<const N: usize>(&mut self, words: [u64; N], log: Option<packet::Log>) -> Result<()> {
        let Some(log) = log else { return self.push(words) };
        let bytes = N * 8 + packet::Log::SIZE;
        if self.core.memory.limit - self.cursor < bytes {
            self.free_memory(bytes)?;
        }
        self.push(words)?;
        self.push(log.to_words())
    }

    /// Frees command memory for `bytes` more: by progress, by moving to the start of command memory, by waiting.
    #[cold]
    #[inline(never)]
    fn free_memory(&mut self, bytes: usize) -> Result<()> {
        let recorded = self.recorded();
        let total = recorded + bytes;
        let size = self.core.memory.range.bytes();
        if total > size.min(COMMANDS_SIZE_MAX as usize) {
            return Err(Error::CommandsTooLarge);
        }
        loop {
            self.core.refresh()?;
            let memory = &mut self.core.memory;
            if memory.limit - self.cursor >= bytes {
                return Ok(());
            }
            // The piece would cross the end: it has to start anew at offset 0, and the bytes up to the end are skipped.
            if memory.start + total > size {
                let skipped = (size - memory.start) as u64;
                let idle = memory.in_use() == 0;
                if idle || skipped + total as u64 <= size as u64 - memory.in_use() {
                    memory.range.move_to_start(memory.start, recorded);
                    memory.head += skipped;
                    if idle {
                        memory.tail = memory.head;
                    }
                    memory.start = 0;
                    memory.set_limit();
                    self.cursor = recorded;
                    return Ok(());
                }
            }
            if !self.wait {
                return Err(Error::CommandMemoryFull);
            }
            self.core.wait_for_one()?;
        }
    }
}

//! Buffers of fence logs, and what was read out of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use nt::lock::{Mutex, MutexGuard, lock};
use nt::page::PAGE_SIZE;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::fence::{FenceLog, FenceOperation, Reader, Source};
use crate::kmd_handle::KmdHandle;
use crate::rank;
use crate::vidmm::{GpuMapping, Protection, SharedPages};

use super::device::Device;
use super::hardware::HwQueue;
use super::signalled::Signalled;

const HEADER: usize = size_of::<DXGK_NATIVE_FENCE_LOG_HEADER>();

const ENTRY: usize = size_of::<DXGK_NATIVE_FENCE_LOG_ENTRY>();

/// Entries of a buffer of one page.
const ENTRIES: u32 = ((PAGE_SIZE as usize - HEADER) / ENTRY) as u32;

/// Entries of a log that are kept for [`Machine::fence_log`] while nobody traces.
const KEEP: usize = 256;

/// The same while somebody does.
const KEEP_TRACED: usize = 1 << 20;

/// Logs of one user-mode queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueFenceLog {
    /// Identity of the queue, never used again.
    pub queue: u64,
    /// Node that runs it.
    pub node: u32,
    /// Process that made it.
    pub process: u64,
    /// Handle of its progress fence in the process.
    pub progress_fence: u32,
    /// Handle of the queue in the process.
    pub handle: u32,
    /// Waits that were satisfied.
    pub waits: FenceLog,
    /// Signals that were executed.
    pub signals: FenceLog,
}

/// Both clocks at one moment. [d3dkmdt: DXGK_GPUCLOCKDATA]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuClock {
    /// Ticks a second of the GPU clock.
    pub gpu_frequency: u64,
    /// The GPU clock.
    pub gpu: u64,
    /// The CPU's performance counter, in ticks of 100 ns.
    pub cpu: u64,
}

impl GpuClock {
    /// The performance counter at the moment in which the GPU clock showed `gpu`.
    pub fn cpu_time(&self, gpu: u64) -> i128 {
        let ticks = i128::from(gpu) - i128::from(self.gpu);
        i128::from(self.cpu) + ticks * 10_000_000 / i128::from(self.gpu_frequency.max(1))
    }
}

/// One buffer: where the GPU has it, and its pages, which go after that.
pub(in crate::vidsch) struct Buffer {
    pub(in crate::vidsch) process: GpuMapping,
    /// In the paging process, for a scheduler that writes it there.
    pub(in crate::vidsch) system: GpuMapping,
    pub(in crate::vidsch) pages: SharedPages,
    pub(in crate::vidsch) entries: u32,
}

impl Buffer {
    pub(in crate::vidsch) fn new(
        device: &Device,
        kind: DXGK_NATIVE_FENCE_LOG_TYPE,
        entries: u32,
    ) -> Result<Self, NTSTATUS> {
        let bytes = HEADER as u64 + u64::from(entries) * ENTRY as u64;
        let pages = device.adapter.vidmm().shared_words(bytes)?;
        let mut header = DXGK_NATIVE_FENCE_LOG_HEADER::zeroed();
        header.Type = kind;
        header.NumberOfEntries = u64::from(entries);
        // SAFETY: the pages are this object's own, aligned and larger than a header; the GPU does not know them yet.
        unsafe { pages.seen().kernel_address().cast::<DXGK_NATIVE_FENCE_LOG_HEADER>().write(header) };
        let vidmm = device.adapter.vidmm();
        let map = |space| vidmm.map_pages(space, pages.memory(), Protection::ReadWrite);
        let process = map(&device.process.space)?;
        let system = map(&vidmm.system_space()?)?;
        Ok(Self { process, system, pages, entries })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset as u64 + 8 <= self.pages.memory().len());
        // SAFETY: callers stay inside the header and the entries, which the pages hold.
        let place = unsafe { self.pages.seen().kernel_address().add(offset) };
        // SAFETY: 8-aligned, mapped as long as the pages live, and the GPU writes it as 64 bits at once.
        unsafe { AtomicU64::from_ptr(place.cast().as_ptr()) }
    }

    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        (0..(HEADER + self.entries as usize * ENTRY) / 8).map(|word| self.word(word * 8))
    }

    /// The driver has another one by now.
    pub(in crate::vidsch) fn take_away(&self) {
        self.words().for_each(|word| word.store(TAKEN_AWAY, Ordering::Relaxed));
    }

    /// Nothing was written since [`Buffer::take_away`].
    pub(in crate::vidsch) fn is_untouched(&self) -> bool {
        self.words().all(|word| word.load(Ordering::Relaxed) == TAKEN_AWAY)
    }
}

/// Pattern that is written over a buffer when the GPU has been given another one, so that a case finds an entry that is written there later.
const TAKEN_AWAY: u64 = 0xc5c5_dead_c5c5_dead;

impl Source for Buffer {
    fn position(&self) -> u64 {
        // What is read of the entries afterwards is not older, and what was read before is not newer.
        fence(Ordering::SeqCst);
        self.word(0).load(Ordering::SeqCst)
    }

    fn entry(&self, index: u32) -> [u64; 6] {
        let start = HEADER + (index % self.entries.max(1)) as usize * ENTRY;
        std::array::from_fn(|word| self.word(start + word * 8).load(Ordering::Acquire))
    }
}

pub(in crate::vidsch) struct Log {
    pub(in crate::vidsch) buffer: Buffer,
    pub(in crate::vidsch) reader: Reader,
    /// The buffer before this one, kept to see whether the GPU leaves it alone.
    pub(in crate::vidsch) former: Option<Buffer>,
}

impl Log {
    /// Lets go of the former buffer; false if somebody wrote to it after it was taken away.
    pub(in crate::vidsch) fn release_former(&mut self) -> bool {
        self.former.take().is_none_or(|former| former.is_untouched())
    }

    /// Reads up to `position`, which was found before the buffer was completed. Returns how many rules the log breaks.
    pub(in crate::vidsch) fn read(&mut self, position: u64, process: u64, signalled: &mut Signalled) -> u64 {
        let outcome = self.reader.read(&self.buffer, position, |entry| {
            if entry.operation == FenceOperation::SignalExecuted {
                signalled.add(process, entry.fence);
            }
        });
        if outcome.overrun || outcome.violations != 0 {
            signalled.add_process(process);
        }
        outcome.violations
    }
}

/// Buffers of a queue that does not exist yet: waits, signals.
pub(in crate::vidsch) struct NewBuffers(pub(in crate::vidsch) [Buffer; 2]);

pub(in crate::vidsch) struct QueueLogs {
    pub(in crate::vidsch) system: KmdHandle,
    pub(in crate::vidsch) kmd: KmdHandle,
    pub(in crate::vidsch) device: Arc<Device>,
    pub(in crate::vidsch) node: u32,
    pub(in crate::vidsch) process: u64,
    pub(in crate::vidsch) progress_fence: u32,
    pub(in crate::vidsch) handle: Arc<AtomicU32>,
    /// Waits, signals.
    pub(in crate::vidsch) logs: [Log; 2],
    pub(in crate::vidsch) reported: bool,
    /// The driver is being asked to destroy the queue, and its handle is not passed any more.
    pub(in crate::vidsch) leaving: bool,
}

impl QueueLogs {
    pub(in crate::vidsch) fn fetch(&mut self) -> QueueFenceLog {
        let [waits, signals] = &mut self.logs;
        QueueFenceLog {
            queue: self.system.raw().addr() as u64,
            node: self.node,
            process: self.process,
            progress_fence: self.progress_fence,
            handle: self.handle.load(Ordering::Relaxed),
            waits: waits.reader.fetch(),
            signals: signals.reader.fetch(),
        }
    }

    /// Reads the entries without a barrier, and leaves the position of the next read as it was.
    pub(in crate::vidsch) fn peek(&mut self) -> QueueFenceLog {
        let readers = self.logs.each_ref().map(|log| log.reader.clone());
        let news = self.has_news();
        self.read(news, &mut Signalled::default());
        let found = self.fetch();
        for (log, reader) in self.logs.iter_mut().zip(readers) {
            log.reader = reader;
        }
        found
    }

    pub(in crate::vidsch) fn has_news(&self) -> [Option<u64>; 2] {
        self.logs.each_ref().map(|log| log.reader.peek(&log.buffer))
    }

    /// Reads both logs up to these positions and adds to `signalled` what they say. Returns how many rules they break.
    pub(in crate::vidsch) fn read(&mut self, positions: [Option<u64>; 2], signalled: &mut Signalled) -> u64 {
        let process = self.process;
        let mut violations = 0;
        for (log, position) in self.logs.iter_mut().zip(positions) {
            let Some(position) = position else { continue };
            violations += log.read(position, process, signalled);
        }
        violations
    }
}

#[derive(Default)]
pub(in crate::vidsch) struct FenceLogState {
    /// Queues by identity of their device, in the order of their creation.
    pub(in crate::vidsch) devices: HashMap<u64, Vec<QueueLogs>>,
    /// Entries that a tracer asked for.
    pub(in crate::vidsch) traced: Option<u32>,
    /// Queues that are made get no logs.
    pub(in crate::vidsch) off: bool,
    /// Logs of destroyed queues that a tracer has not fetched.
    pub(in crate::vidsch) finished: Vec<QueueFenceLog>,
}

impl FenceLogState {
    pub(in crate::vidsch) fn entries(&self) -> u32 {
        self.traced.unwrap_or(ENTRIES)
    }

    pub(in crate::vidsch) fn of(&self, queue: &HwQueue) -> Option<&QueueLogs> {
        let of_device = self.devices.get(&queue.context().device().id())?;
        of_device.iter().find(|logs| logs.system == queue.handles().0)
    }

    pub(in crate::vidsch) fn keep(&self) -> usize {
        if self.traced.is_some() { KEEP_TRACED } else { KEEP }
    }
}

/// The fence logs of an adapter.
#[derive(Default)]
pub(in crate::vidsch) struct FenceLogs {
    /// Held across DxgkDdiUpdateNativeFenceLogs and
    /// DxgkDdiSetNativeFenceLogBuffer, so that a reader's barrier and its reading belong together.
    state: Mutex<FenceLogState, rank::FenceLogReader>,
}

impl FenceLogs {
    pub(in crate::vidsch) fn state(&self) -> MutexGuard<'_, FenceLogState, rank::FenceLogReader> {
        lock(&self.state)
    }
}

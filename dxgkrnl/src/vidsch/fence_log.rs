//! Fence log buffers of user-mode queues: made with the queue, read in the DPC of native fence reports, replaced while the
//! queue runs when a tracer wants larger ones.
//!
//! A queue that the kernel submits to has none: its waits and signals are the kernel's own. [native-gpu-fence-objects: log
//! buffer design]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use nt::lock::{Mutex, MutexGuard, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use crate::kmd_handle::KmdHandle;
use crate::rank;
use crate::refusal::DriverAnswer;
use crate::refusal::Failure;
use crate::vidmm::{AddressSpace, Protection, SharedPages};
use crate::vidsch::{Device, RenderAdapter};
use nt::page::PAGE_SIZE;
use nt::ram::Pages;

use super::VidSch;
use super::hw_queue::HwQueue;
use super::signalled::{Signalled, Wanted};
use crate::fence::{FenceLog, FenceLogEntry, FenceOperation, Reader, Source};

const HEADER: usize = size_of::<DXGK_NATIVE_FENCE_LOG_HEADER>();
const ENTRY: usize = size_of::<DXGK_NATIVE_FENCE_LOG_ENTRY>();
/// Entries of a buffer of one page.
const ENTRIES: u32 = ((PAGE_SIZE as usize - HEADER) / ENTRY) as u32;
/// Most entries of a buffer that a tracer may ask for.
const ENTRIES_MAX: u32 = 1 << 16;
/// Entries of a log that are kept for [`Machine::fence_log`] while nobody traces.
const KEEP: usize = 256;
/// The same while somebody does.
const KEEP_TRACED: usize = 1 << 20;
/// Queues that are gone and whose logs are kept for a tracer.
const FINISHED_MAX: usize = 1 << 14;

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

/// Pages in a GPU address space; taken out of it when dropped, at PASSIVE_LEVEL.
pub(super) struct Mapped {
    space: Arc<AddressSpace>,
    pub(super) address: u64,
}

impl Mapped {
    pub(super) fn new(space: Arc<AddressSpace>, pages: &Pages) -> Result<Self, NTSTATUS> {
        let address = space.map_pages(pages, Protection::ReadWrite)?;
        Ok(Self { space, address })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.space.unmap(self.address);
    }
}

/// One buffer: where the GPU has it, and its pages, which go after that.
struct Buffer {
    process: Mapped,
    /// In the paging process, for a scheduler that writes it there.
    system: Mapped,
    pages: SharedPages,
    entries: u32,
}

impl Buffer {
    fn new(device: &Device, kind: DXGK_NATIVE_FENCE_LOG_TYPE, entries: u32) -> Result<Self, NTSTATUS> {
        let bytes = HEADER as u64 + u64::from(entries) * ENTRY as u64;
        let pages = device.adapter.vidmm().shared_words(bytes)?;
        let mut header = DXGK_NATIVE_FENCE_LOG_HEADER::zeroed();
        header.Type = kind;
        header.NumberOfEntries = u64::from(entries);
        // SAFETY: the pages are this object's own, aligned and larger than a header; the GPU does not know them yet.
        unsafe { pages.seen().kernel_address().cast::<DXGK_NATIVE_FENCE_LOG_HEADER>().write(header) };
        let process = Mapped::new(Arc::clone(&device.process.space), pages.memory())?;
        let system = Mapped::new(device.adapter.vidmm().system_space()?, pages.memory())?;
        Ok(Self { process, system, pages, entries })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset as u64 + 8 <= self.pages.memory().len());
        // SAFETY: callers stay inside the header and the entries, which the pages hold.
        let place = unsafe { self.pages.seen().kernel_address().add(offset) };
        // SAFETY: 8-aligned, mapped as long as the pages live, and the GPU writes it as 64 bits at once.
        unsafe { AtomicU64::from_ptr(place.cast().as_ptr()) }
    }
}

/// Pattern that is written over a buffer when the GPU has been given another one, so that a case finds an entry that is written there later.
const TAKEN_AWAY: u64 = 0xc5c5_dead_c5c5_dead;

impl Buffer {
    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        (0..(HEADER + self.entries as usize * ENTRY) / 8).map(|word| self.word(word * 8))
    }

    /// The driver has another one by now.
    fn take_away(&self) {
        self.words().for_each(|word| word.store(TAKEN_AWAY, Ordering::Relaxed));
    }

    /// Nothing was written since [`Buffer::take_away`].
    fn is_untouched(&self) -> bool {
        self.words().all(|word| word.load(Ordering::Relaxed) == TAKEN_AWAY)
    }
}

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

struct Log {
    buffer: Buffer,
    reader: Reader,
    /// The buffer before this one, kept to see whether the GPU leaves it alone.
    former: Option<Buffer>,
}

impl Log {
    /// Lets go of the former buffer; false if somebody wrote to it after it was taken away.
    fn release_former(&mut self) -> bool {
        self.former.take().is_none_or(|former| former.is_untouched())
    }
}

impl Log {
    /// Reads up to `position`, which was found before the buffer was completed. Returns how many rules the log breaks.
    fn read(&mut self, position: u64, process: u64, signalled: &mut Signalled) -> u64 {
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
pub(super) struct NewBuffers([Buffer; 2]);

struct QueueLogs {
    system: KmdHandle,
    kmd: KmdHandle,
    device: Arc<Device>,
    node: u32,
    process: u64,
    progress_fence: u32,
    handle: Arc<AtomicU32>,
    /// Waits, signals.
    logs: [Log; 2],
    reported: bool,
    /// The driver is being asked to destroy the queue, and its handle is not passed any more.
    leaving: bool,
}

impl QueueLogs {
    fn fetch(&mut self) -> QueueFenceLog {
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
    fn peek(&mut self) -> QueueFenceLog {
        let readers = self.logs.each_ref().map(|log| log.reader.clone());
        let news = self.has_news();
        self.read(news, &mut Signalled::default());
        let found = self.fetch();
        for (log, reader) in self.logs.iter_mut().zip(readers) {
            log.reader = reader;
        }
        found
    }

    fn has_news(&self) -> [Option<u64>; 2] {
        self.logs.each_ref().map(|log| log.reader.peek(&log.buffer))
    }

    /// Reads both logs up to these positions and adds to `signalled` what they say. Returns how many rules they break.
    fn read(&mut self, positions: [Option<u64>; 2], signalled: &mut Signalled) -> u64 {
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
struct FenceLogState {
    /// Queues by identity of their device, in the order of their creation.
    devices: HashMap<u64, Vec<QueueLogs>>,
    /// Entries that a tracer asked for.
    traced: Option<u32>,
    /// Queues that are made get no logs.
    off: bool,
    /// Logs of destroyed queues that a tracer has not fetched.
    finished: Vec<QueueFenceLog>,
}

impl FenceLogState {
    fn entries(&self) -> u32 {
        self.traced.unwrap_or(ENTRIES)
    }

    fn of(&self, queue: &HwQueue) -> Option<&QueueLogs> {
        let of_device = self.devices.get(&queue.context().device().id())?;
        of_device.iter().find(|logs| logs.system == queue.handles().0)
    }

    fn keep(&self) -> usize {
        if self.traced.is_some() { KEEP_TRACED } else { KEEP }
    }
}

/// The fence logs of an adapter.
#[derive(Default)]
pub(super) struct FenceLogs {
    /// Held across DxgkDdiUpdateNativeFenceLogs and
    /// DxgkDdiSetNativeFenceLogBuffer, so that a reader's barrier and its reading belong together.
    state: Mutex<FenceLogState, rank::FenceLogReader>,
}

impl FenceLogs {
    fn state(&self) -> MutexGuard<'_, FenceLogState, rank::FenceLogReader> {
        lock(&self.state)
    }
}

const KINDS: [(DXGK_NATIVE_FENCE_LOG_TYPE, FenceOperation); 2] = [
    (DXGK_NATIVE_FENCE_LOG_TYPE::DXGK_NATIVE_FENCE_LOG_TYPE_WAITS, FenceOperation::WaitUnblocked),
    (DXGK_NATIVE_FENCE_LOG_TYPE::DXGK_NATIVE_FENCE_LOG_TYPE_SIGNALS, FenceOperation::SignalExecuted),
];

fn new_buffers(device: &Device, entries: u32) -> Result<[Buffer; 2], NTSTATUS> {
    let [(waits, _), (signals, _)] = KINDS;
    Ok([Buffer::new(device, waits, entries)?, Buffer::new(device, signals, entries)?])
}

/// Tells the driver where a log of a queue is from now on.
fn set(adapter: &RenderAdapter, queue: KmdHandle, buffer: &Buffer) -> DriverAnswer {
    let mut args = DXGKARG_SETNATIVEFENCELOGBUFFER::zeroed();
    args.hHwQueue = queue.raw();
    args.NumberOfEntries = buffer.entries;
    args.LogBufferCpuVa = buffer.pages.seen().kernel_address().cast().as_ptr();
    args.LogBufferGpuVa = buffer.process.address;
    args.LogBufferSystemProcessGpuVa = buffer.system.address;
    adapter.miniport.set_native_fence_log_buffer(&args)
}

impl VidSch {
    /// Makes the two buffers that a queue of `device` will have; `None` where logging is off.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY, or why they cannot be mapped.
    pub(super) fn new_fence_logs(&self, device: &Device) -> Result<Option<NewBuffers>, NTSTATUS> {
        let entries = {
            let state = self.fence_logs.state();
            if state.off {
                return Ok(None);
            }
            state.entries()
        };
        new_buffers(device, entries).map(|buffers| Some(NewBuffers(buffers)))
    }

    /// Gives a queue that was just created its logs.
    ///
    /// # Errors
    /// What the driver answered; the queue then has to go.
    pub(super) fn attach_fence_logs(&self, queue: &HwQueue, buffers: NewBuffers) -> Result<(), Failure> {
        let context = queue.context();
        let (system, kmd) = queue.handles();
        let NewBuffers(buffers) = buffers;
        let mut state = self.fence_logs.state();
        let keep = state.keep();
        for buffer in &buffers {
            set(context.adapter(), kmd, buffer).ok()?;
        }
        let mut kinds = KINDS.iter();
        let logs = buffers.map(|buffer| {
            let operation = kinds.next().map_or(FenceOperation::SignalExecuted, |(_, operation)| *operation);
            Log { reader: Reader::new(operation, buffer.entries, keep), buffer, former: None }
        });
        state.devices.entry(context.device().id()).or_default().push(QueueLogs {
            system,
            kmd,
            device: Arc::clone(context.device()),
            node: context.node(),
            process: context.device().process.id,
            progress_fence: queue.progress_handle(),
            handle: Arc::clone(queue.user_handle()),
            logs,
            reported: false,
            leaving: false,
        });
        Ok(())
    }

    /// Address in the process and number of entries of a queue's logs of waits and of signals; zero without logs.
    pub(crate) fn fence_log_places(&self, queue: &HwQueue) -> [(u64, u32); 2] {
        self.fence_logs.state().of(queue).map_or([(0, 0); 2], |logs| {
            logs.logs.each_ref().map(|log| (log.buffer.process.address, log.buffer.entries))
        })
    }

    /// Where a queue's next wait will be logged; `None` without logs.
    pub(crate) fn position_of_waits(&self, queue: &HwQueue) -> Option<u64> {
        self.fence_logs.state().of(queue).map(|logs| logs.logs[0].buffer.position())
    }

    /// The wait that a queue logged at `position`, as long as its log has it. What the logs say of signals is left for whoever reads them.
    pub(crate) fn wait_logged_at(&self, queue: &HwQueue, position: u64) -> Option<FenceLogEntry> {
        let state = self.fence_logs.state();
        let logs = state.of(queue).filter(|logs| !logs.leaving)?;
        self.complete(&logs.device.adapter, &mut [logs.kmd.raw()]);
        let [waits, _] = &logs.logs;
        waits.reader.entry_behind(&waits.buffer, position)
    }

    /// Has the driver complete the logs of these queues.
    fn complete(&self, adapter: &RenderAdapter, queues: &mut [HANDLE]) {
        let mut args = DXGKARG_UPDATENATIVEFENCELOGS::zeroed();
        args.NumberOfQueues = queues.len() as u32;
        args.hHWQueue = queues.as_mut_ptr();
        self.must_not_fail(adapter.miniport.update_native_fence_logs(&args));
    }

    /// The driver is about to be asked to destroy a queue: nobody asks it about the logs of that queue any more.
    pub(super) fn leave_fence_logs(&self, queue: &HwQueue) {
        let id = queue.context().device().id();
        let mut state = self.fence_logs.state();
        let queues = state.devices.get_mut(&id);
        if let Some(logs) = queues.and_then(|queues| queues.iter_mut().find(|logs| logs.system == queue.handles().0)) {
            logs.leaving = true;
        }
    }

    /// The driver has let go of a queue: its logs are complete and are not written any more.
    pub(super) fn detach_fence_logs(&self, queue: &HwQueue) {
        let id = queue.context().device().id();
        let mut state = self.fence_logs.state();
        let Some(queues) = state.devices.get_mut(&id) else { return };
        let Some(at) = queues.iter().position(|logs| logs.system == queue.handles().0) else { return };
        let mut logs = queues.remove(at);
        if queues.is_empty() {
            state.devices.remove(&id);
        }
        let (news, mut signalled) = (logs.has_news(), Signalled::new(self.limits));
        logs.read(news, &mut signalled);
        if state.traced.is_some() && state.finished.len() < FINISHED_MAX {
            state.finished.push(logs.fetch());
        }
        // The buffers go without the lock: that takes those of the memory manager.
        drop(state);
        for log in &mut logs.logs {
            if !log.release_former() {
                self.written_after_the_call();
            }
        }
        drop(logs);
        self.evaluate_read(&signalled);
    }

    fn written_after_the_call(&self) {
        self.broken(
            "a fence log buffer was written after DxgkDdiSetNativeFenceLogBuffer put another in its place".into(),
        );
    }

    /// Reads what is new in logs, and wakes the waiters for what is found there.
    pub(super) fn read_fence_logs(&self, wanted: Wanted<'_>) {
        let signalled = self.read_logs(wanted);
        self.evaluate_read(&signalled);
    }

    /// Reads what is new in logs. The caller looks at the fences that were signalled.
    pub(super) fn read_logs(&self, wanted: Wanted<'_>) -> Signalled {
        self.read_locked(&mut self.fence_logs.state(), wanted)
    }

    fn read_locked(&self, state: &mut FenceLogState, wanted: Wanted<'_>) -> Signalled {
        let is_wanted = |device: u64, queue: KmdHandle| match wanted {
            Wanted::All => true,
            Wanted::Devices(devices) => devices.contains(&device),
            Wanted::Queues(queues) => queues.contains(&queue),
        };
        let mut news = Vec::new();
        let mut handles: Vec<HANDLE> = Vec::new();
        let mut adapter = None;
        for (id, queues) in &state.devices {
            for (at, logs) in queues.iter().enumerate().filter(|(_, logs)| is_wanted(*id, logs.system)) {
                let positions = logs.has_news();
                if !logs.leaving && positions.iter().any(Option::is_some) {
                    news.push((*id, at, positions));
                    handles.push(logs.kmd.raw());
                    adapter.get_or_insert_with(|| Arc::clone(&logs.device.adapter));
                }
            }
        }
        let mut signalled = Signalled::new(self.limits);
        let Some(adapter) = adapter else { return signalled };
        self.complete(&adapter, &mut handles);
        for (id, at, positions) in news {
            let Some(logs) = state.devices.get_mut(&id).and_then(|queues| queues.get_mut(at)) else { continue };
            let violations = logs.read(positions, &mut signalled);
            if violations != 0 && !std::mem::replace(&mut logs.reported, true) {
                self.verifier.log(format!(
                    "a fence log of a queue on node {} breaks its rules: time went back, or it holds what cannot be",
                    logs.node
                ));
            }
        }
        signalled
    }

    /// Devices that have these fences open.
    pub(super) fn devices_of(fences: &[Arc<super::fence::Fence>]) -> Vec<u64> {
        let mut devices: Vec<u64> =
            fences.iter().flat_map(|fence| fence.opened()).map(|opened| opened.device()).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// Replaces every buffer by one of `entries`, while the queues run.
    fn resize_fence_logs(&self, traced: Option<u32>) -> Result<(), Failure> {
        let targets: Vec<(u64, KmdHandle, Arc<Device>)> = {
            let mut state = self.fence_logs.state();
            state.traced = traced;
            let queues = state.devices.iter().flat_map(|(id, queues)| queues.iter().map(|queue| (*id, queue)));
            queues.map(|(id, queue)| (id, queue.system, Arc::clone(&queue.device))).collect()
        };
        for (id, system, device) in targets {
            // Made without the lock: that takes those of the memory manager.
            let entries = self.fence_logs.state().entries();
            let made = new_buffers(&device, entries);
            let mut state = self.fence_logs.state();
            let keep = state.keep();
            let queue = state.devices.get_mut(&id).and_then(|queues| queues.iter_mut().find(|q| q.system == system));
            // A process that ends meanwhile takes its queues along, and the addresses of their logs. The driver is asked nothing about one that it is asked to destroy.
            let Some(queue) = queue.filter(|queue| !queue.leaving) else { continue };
            let buffers = made?;
            let (kmd, process, mut signalled) = (queue.kmd, queue.process, Signalled::new(self.limits));
            let (mut untouched, mut released) = (true, Vec::new());
            for (log, buffer) in queue.logs.iter_mut().zip(buffers) {
                set(&device.adapter, kmd, &buffer).ok()?;
                // The old buffer is complete and not written any more.
                if let Some(position) = log.reader.peek(&log.buffer) {
                    log.read(position, process, &mut signalled);
                }
                let old = std::mem::replace(&mut log.buffer, buffer);
                old.take_away();
                let former = log.former.replace(old);
                untouched &= former.as_ref().is_none_or(Buffer::is_untouched);
                released.extend(former);
                log.reader.restart(log.buffer.entries, keep);
            }
            drop(state);
            if !untouched {
                self.written_after_the_call();
            }
            drop(released);
            self.evaluate_read(&signalled);
        }
        Ok(())
    }
}

/// Questions about fence logs from other parts.
impl VidSch {
    /// The entries that the fence logs of all queues have got since the last call.
    pub(crate) fn fence_log(&self) -> Vec<QueueFenceLog> {
        let mut state = self.fence_logs.state();
        let signalled = self.read_locked(&mut state, Wanted::All);
        let mut logs = std::mem::take(&mut state.finished);
        logs.extend(state.devices.values_mut().flatten().map(QueueLogs::fetch));
        drop(state);
        self.evaluate_read(&signalled);
        logs.sort_by_key(|log| log.queue);
        logs
    }

    /// What [`VidSch::fence_log`] would find if the driver were not asked to complete the logs first.
    pub(crate) fn fence_log_without_barrier(&self) -> Vec<QueueFenceLog> {
        let mut state = self.fence_logs.state();
        let mut logs: Vec<QueueFenceLog> = state.devices.values_mut().flatten().map(QueueLogs::peek).collect();
        logs.sort_by_key(|log| log.queue);
        logs
    }

    /// Gives every queue, those to come included, logs of `entries`; `None` ends that.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for no entries or more than 65536; STATUS_NO_MEMORY; what the driver answered.
    pub(crate) fn trace_fences(&self, entries: Option<u32>) -> Result<(), Failure> {
        if entries.is_some_and(|entries| entries == 0 || entries > ENTRIES_MAX) {
            return Err(STATUS_INVALID_PARAMETER.into());
        }
        let _running = self.enter()?;
        self.resize_fence_logs(entries)
    }

    /// Switches fence logs on or off for hardware queues that are created from now on.
    pub(crate) fn log_fences(&self, on: bool) {
        self.fence_logs.state().off = !on;
    }
}

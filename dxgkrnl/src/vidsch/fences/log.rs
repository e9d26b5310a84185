//! Fence log buffers of user-mode queues: made with the queue, read in the DPC of native fence reports, replaced while the
//! queue runs when a tracer wants larger ones.
//!
//! A queue that the kernel submits to has none: its waits and signals are the kernel's own. [native-gpu-fence-objects: log
//! buffer design]

use std::sync::Arc;

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use crate::fence::{FenceLogEntry, FenceOperation, Reader, Source};
use crate::kmd_handle::KmdHandle;
use crate::refusal::{DriverAnswer, Failure};

use crate::vidsch::objects::device::Device;
use crate::vidsch::objects::fence_log::{Buffer, FenceLogState, Log, NewBuffers, QueueFenceLog, QueueLogs};
use crate::vidsch::objects::hardware::HwQueue;
use crate::vidsch::objects::render_adapter::RenderAdapter;
use crate::vidsch::objects::signalled::{Signalled, Wanted};
use crate::vidsch::scheduler::VidSch;

/// Most entries of a buffer that a tracer may ask for.
const ENTRIES_MAX: u32 = 1 << 16;

/// Queues that are gone and whose logs are kept for a tracer.
const FINISHED_MAX: usize = 1 << 14;

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
    args.LogBufferGpuVa = buffer.process.address();
    args.LogBufferSystemProcessGpuVa = buffer.system.address();
    adapter.miniport.set_native_fence_log_buffer(&args)
}

impl VidSch {
    /// Makes the two buffers that a queue of `device` will have; `None` where logging is off.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY, or why they cannot be mapped.
    pub(in crate::vidsch) fn new_fence_logs(&self, device: &Device) -> Result<Option<NewBuffers>, NTSTATUS> {
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
    pub(in crate::vidsch) fn attach_fence_logs(&self, queue: &HwQueue, buffers: NewBuffers) -> Result<(), Failure> {
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
            logs.logs.each_ref().map(|log| (log.buffer.process.address(), log.buffer.entries))
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
    pub(in crate::vidsch) fn leave_fence_logs(&self, queue: &HwQueue) {
        let id = queue.context().device().id();
        let mut state = self.fence_logs.state();
        let queues = state.devices.get_mut(&id);
        if let Some(logs) = queues.and_then(|queues| queues.iter_mut().find(|logs| logs.system == queue.handles().0)) {
            logs.leaving = true;
        }
    }

    /// The driver has let go of a queue: its logs are complete and are not written any more.
    pub(in crate::vidsch) fn detach_fence_logs(&self, queue: &HwQueue) {
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
    pub(in crate::vidsch) fn read_fence_logs(&self, wanted: Wanted<'_>) {
        let signalled = self.read_logs(wanted);
        self.evaluate_read(&signalled);
    }

    /// Reads what is new in logs. The caller looks at the fences that were signalled.
    pub(in crate::vidsch) fn read_logs(&self, wanted: Wanted<'_>) -> Signalled {
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

//! Interrupt reports of the driver: they are checked, and change the state of the scheduler.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nt::bugcheck::Bugcheck;
use nt::irql::Raised;
use nt::lock::lock;
use wddm_ddi::km::*;
use wddm_ddi::nt::DISPATCH_LEVEL;

use crate::tdr_report::TdrReason;

use super::fences::{batch, cross_adapter};
use super::objects::fence::Fence;
use super::objects::hardware::HwQueue;
use super::objects::packet_context::PacketContext;
use super::objects::signalled::Wanted;
use super::objects::worker::Work;
use super::report::{self, Report, subcode};
use super::reports::invalid_suspension;
use super::scheduler::VidSch;

impl VidSch {
    /// The adapter has ended, and nobody acts on packets and reports any more. They are dropped: the contexts and queues that they name keep the adapter, which
    /// keeps them.
    pub(crate) fn forget(&self) {
        self.abandon_packets();
        for node in &self.nodes {
            node.state().forget_cancelled();
            node.announce();
        }
        let aside = core::mem::take(&mut *lock(&self.aside));
        let pending = core::mem::take(&mut *lock(&self.pending));
        let acting = core::mem::take(&mut *lock(&self.acting));
        drop((aside, pending, acting));
    }

    /// DxgkCbNotifyInterrupt: at device level with the interrupt lock held. Notes what is reported. A report that breaks a rule while the function does not answer is made of all ones: it
    /// is not held against the driver, and the devices are lost as on an adapter that was pulled out.
    ///
    /// # Errors
    /// The bug check of a broken rule, which names the callback.
    pub(crate) fn notify_interrupt(&self, data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA) -> Result<(), Bugcheck> {
        // SAFETY: the driver filled the arm of its type and keeps the array during the call, as the contract asks.
        let read = unsafe { report::read(data, self.limits) };
        let read = self.check_silence(data).and(read);
        let noted = read.and_then(|report| match self.node_of_report(data).filter(|node| self.is_being_reset(*node)) {
            Some(node) => self.set_aside(node, &report),
            None => self.note(&report),
        });
        noted.or_else(|mut bugcheck| {
            const NAME: &str = "DxgkCbNotifyInterrupt";
            if self.is_of_absent_function() {
                self.verifier.log(format!(
                    "{NAME}: {}, which breaks no rule, for the adapter does not answer any more, as after its function was pulled out: nothing is made of it",
                    bugcheck.reason
                ));
                let resets = self.timeouts.adapter_resets();
                lock(&self.pending).work.push(Work::ResetAdapter(TdrReason::FunctionReset, resets));
                return Ok(());
            }
            if !bugcheck.reason.contains(NAME) {
                bugcheck.reason = format!("{NAME}: {}", bugcheck.reason);
            }
            Err(bugcheck)
        })
    }

    fn note(&self, report: &Report<'_>) -> Result<(), Bugcheck> {
        match *report {
            Report::Completed { node, fence } => self.note_completed(node, fence)?,
            Report::NativeFences { handles, legacy } => {
                let fences = handles.iter().map(|handle| self.reported_fence(*handle));
                let fences = fences.collect::<Result<Vec<_>, _>>()?;
                let mut pending = lock(&self.pending);
                pending.fences.extend(fences);
                pending.scan_monitored |= legacy;
            }
            Report::NativeScan { legacy } => {
                let mut pending = lock(&self.pending);
                pending.scan_native = true;
                pending.scan_monitored |= legacy;
            }
            Report::NativeQueue { queue, legacy } => {
                let queue = self.reported_queue(queue)?;
                let mut pending = lock(&self.pending);
                pending.queues.push(queue);
                pending.scan_monitored |= legacy;
            }
            Report::NativeNode { node, legacy } => {
                let mut pending = lock(&self.pending);
                pending.logged_nodes |= 1 << (node & 63);
                pending.scan_monitored |= legacy;
            }
            Report::MonitoredScan => lock(&self.pending).scan_monitored = true,
            Report::Preempted { node, preemption, completed } => self.note_preempted(node, preemption, completed)?,
            Report::PacketFaulted(fault) => self.note_packet_fault(&fault)?,
            Report::QueueFaulted(fault) => self.note_fault(self.queues_fault(&fault)?),
            Report::Suspended { context, fence } => {
                let found = self.find_context(context).ok_or_else(|| invalid_suspension(context, fence))?;
                self.note_suspension(&found, fence)?;
            }
            Report::SchedulingLog { node } => self.note_scheduling_log(node)?,
            Report::EngineIdle { node } => lock(&self.pending).work.push(Work::EngineIdle(node)),
            Report::EngineHung { node } => {
                lock(&self.pending).work.push(Work::Recover(self.timeouts.complaint(node, TdrReason::ReportedHung)));
            }
            Report::Nothing => {}
        }
        Ok(())
    }

    /// DxgkCbNotifyDpc: at DISPATCH_LEVEL, one at a time for an adapter.
    pub(crate) fn notify_dpc(&self) {
        self.note_set_aside();
        let mut acting = lock(&self.acting);
        core::mem::swap(&mut *acting, &mut *lock(&self.pending));
        // Waiting threads first, everything else is less urgent.
        batch::evaluate(&acting.fences);
        cross_adapter::propagate(&acting.fences);
        let signalled = Self::devices_of(&acting.fences);
        acting.fences.clear();
        let logged_nodes = core::mem::take(&mut acting.logged_nodes);
        if logged_nodes != 0 || !acting.queues.is_empty() {
            self.evaluate_logged(&acting.queues, logged_nodes);
            acting.queues.clear();
        }
        let scan_native = core::mem::take(&mut acting.scan_native);
        if scan_native {
            self.evaluate_watched(true);
        }
        if core::mem::take(&mut acting.scan_monitored) {
            self.evaluate_watched(false);
        }
        let completed = core::mem::take(&mut acting.completed);
        for (index, node) in self.nodes.iter().enumerate() {
            if completed >> (index & 63) & 1 != 0 {
                node.announce();
                if node.state().has_waiting() {
                    self.worker.add(Work::Dispatch(index as u32));
                }
            }
        }
        if !acting.suspended.is_empty() {
            self.worker.add(Work::PutBack);
        }
        for context in acting.suspended.drain(..) {
            context.announce_suspended();
        }
        for work in acting.work.drain(..) {
            self.worker.add(work);
        }
        // Last: nobody waits for what the logs tell.
        if scan_native {
            self.read_fence_logs(Wanted::All);
        } else if !signalled.is_empty() {
            self.read_fence_logs(Wanted::Devices(&signalled));
        }
    }

    /// DxgkDdiResetEngine has returned: what was set aside is acted on, for which no interrupt comes any more.
    pub(crate) fn hear_again(&self) {
        if !lock(&self.aside).is_empty() {
            let _raised = Raised::to(DISPATCH_LEVEL);
            self.notify_dpc();
        }
    }

    /// A report of an engine between its reset and its resumption. [debugger: 0x119]
    ///
    /// # Errors
    /// The bugcheck that it is.
    fn check_silence(&self, data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA) -> Result<(), Bugcheck> {
        if self.timeouts.silent.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        match self.node_of_report(data).filter(|node| self.is_silent(*node)) {
            None => Ok(()),
            Some(node) => Err(Bugcheck::scheduler(
                subcode::REPORT_BEFORE_RESUME,
                u64::from(node),
                data.InterruptType.0 as u64,
                0,
                format!(
                    "interrupt type {} of node {node} between DxgkDdiResetHwEngine and DxgkDdiResumeHwEngine",
                    data.InterruptType.0
                ),
            )),
        }
    }

    /// The node that a report is about, if it is about one.
    fn node_of_report(&self, data: &DXGKARGCB_NOTIFY_INTERRUPT_DATA) -> Option<u32> {
        type T = DXGK_INTERRUPT_TYPE;
        macro_rules! node {
            ($arm:ident) => {{
                // SAFETY: the arm is numbers, handles and addresses, which any bytes are.
                let arm = unsafe { &data.u.$arm };
                (arm.NodeOrdinal, arm.EngineOrdinal)
            }};
        }
        let (node, engine) = match data.InterruptType {
            T::DXGK_INTERRUPT_DMA_COMPLETED => node!(DmaCompleted),
            T::DXGK_INTERRUPT_DMA_PREEMPTED => node!(DmaPreempted),
            T::DXGK_INTERRUPT_DMA_PAGE_FAULTED => node!(DmaPageFaulted),
            T::DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED => node!(MonitoredFenceSignaled),
            T::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED => node!(NativeFenceSignaled),
            T::DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED => node!(HwQueuePageFaulted),
            T::DXGK_INTERRUPT_GPU_ENGINE_TIMEOUT => node!(GpuEngineTimeout),
            T::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE => node!(EngineStateChange),
            T::DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED => {
                // SAFETY: as above.
                let context = unsafe { data.u.SuspendContextCompleted.hContext };
                return Some(self.find_context(context)?.node());
            }
            _ => return None,
        };
        self.limits.node(data.InterruptType, node, engine).ok()
    }

    /// Bits of the nodes that must say nothing at the moment.
    fn is_silent(&self, node: u32) -> bool {
        self.timeouts.silent.load(Ordering::Acquire) >> (node & 63) & 1 != 0
    }

    /// Devices that have these fences open.
    fn devices_of(fences: &[Arc<Fence>]) -> Vec<u64> {
        let mut devices: Vec<u64> =
            fences.iter().flat_map(|fence| fence.opened()).map(|opened| opened.device()).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// Wakes the waiters for what these queues, and the queues of these nodes, have signalled.
    fn evaluate_logged(&self, named: &[Arc<HwQueue>], nodes: u64) {
        self.names.of_queues.fetch_add(named.len() as u64, Ordering::Relaxed);
        self.names.of_nodes.fetch_add(u64::from(nodes.count_ones()), Ordering::Relaxed);
        let mut queues = named.to_vec();
        if nodes != 0 {
            let of_nodes = |queue: &Arc<HwQueue>| nodes >> (queue.context().node() & 63) & 1 != 0;
            queues.extend(self.queues.all().into_iter().filter(of_nodes));
        }
        let handles: Vec<_> = queues.iter().map(|queue| queue.handles().0).collect();
        let mut signalled = self.read_logs(Wanted::Queues(&handles));
        // A queue without log, the kernel's above all, tells nothing; nor does a context of packets, which is meant where no queue is named.
        for process in queues.iter().filter(|queue| !queue.is_logged()).filter_map(|queue| queue.progress().process()) {
            signalled.add_process(process);
        }
        if nodes != 0 {
            let of_nodes = |context: &Arc<PacketContext>| nodes >> (context.node() & 63) & 1 != 0;
            for context in self.packet_contexts.all().into_iter().filter(of_nodes) {
                signalled.add_process(context.device().process.id);
            }
        }
        self.evaluate_read(&signalled);
    }
}

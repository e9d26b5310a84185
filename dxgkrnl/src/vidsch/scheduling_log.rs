//! Scheduling logs: what the hardware tells of which context has a node, and the time of processes on the node by that.
//!
//! A node whose contexts the hardware schedules has two buffers. The hardware writes one of them and interrupts when it is half full; then it is given the
//! other one, and what is left of the first is read. Whoever asks for figures has the buffer in use read as far as it is written. [d3dkmddi:
//! DXGKDDI_SETSCHEDULINGLOGBUFFER]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nt::bugcheck::Bugcheck;
use nt::lock::lock;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;

use crate::refusal::{DriverAnswer, Failure};

use super::objects::hardware::HwContext;
use super::objects::render_adapter::RenderAdapter;
use super::objects::scheduling_log::{
    Buffer, Charge, ENTRIES, Entry, Logged, NodeLog, Reading, SchedulingLogCounts, State, written_since,
};
use super::scheduler::VidSch;

/// A report of a log that was not set.
pub(super) fn never_set(node: u32) -> Bugcheck {
    let reason =
        format!("DxgkCbNotifyInterrupt: SCHEDULING_LOG_INTERRUPT of node {node}, whose scheduling log was never set");
    Bugcheck::new(Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR, [0; 4], reason)
}

/// Tells the driver where a node's log is from now on.
fn set(adapter: &RenderAdapter, node: u32, buffer: &Buffer, quiet: bool) -> DriverAnswer {
    buffer.clear();
    let mut args = DXGKARG_SETSCHEDULINGLOGBUFFER::zeroed();
    (args.NodeOrdinal, args.EngineOrdinal) = adapter.caps().ordinals(node);
    args.NumberOfEntries = ENTRIES;
    args.LogBufferCpuVa = buffer.pages.seen().kernel_address().cast().as_ptr();
    args.LogBufferGpuVa = buffer.mapped.address();
    // There is no such entry where nobody wants to hear of one.
    args.InterruptEntry = if quiet { ENTRIES } else { ENTRIES / 2 };
    adapter.miniport.set_scheduling_log_buffer(adapter.context().raw(), &args)
}

/// The GPU clock and its ticks a second; `None` if the driver does not say.
fn gpu_clock(adapter: &RenderAdapter, node: u32) -> Option<(u64, u64)> {
    let mut data = DXGK_GPUCLOCKDATA::zeroed();
    let (node, engine) = adapter.caps().ordinals(node);
    let status = adapter.miniport.calibrate_gpu_clock(adapter.context().raw(), node, engine, &mut data);
    (status.is_success() && data.GpuFrequency != 0).then_some((data.GpuClockCounter, data.GpuFrequency))
}

fn duration(ticks: u64, frequency: u64) -> Duration {
    let nanoseconds = u128::from(ticks) * 1_000_000_000 / u128::from(frequency.max(1));
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

impl VidSch {
    /// Gives each node whose contexts the hardware schedules its scheduling log, once there is a paging process.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY, or what the driver answered.
    pub(crate) fn start_scheduling_logs(&self, adapter: &RenderAdapter) -> Result<(), Failure> {
        let caps = adapter.caps();
        if !caps.features.hardware_scheduling {
            return Ok(());
        }
        for (node, _) in (0..).zip(&caps.nodes).filter(|(_, node)| node.context_scheduling) {
            let buffers = [Buffer::new(adapter)?, Buffer::new(adapter)?];
            set(adapter, node, &buffers[0], false).ok()?;
            let (reading, contexts) = (Reading::default(), HashMap::new());
            let counts = SchedulingLogCounts::default();
            let log = NodeLog { buffers, read: 0, reading, counts, contexts, told: None };
            lock(&self.scheduling_logs.nodes).insert(node, log);
            self.scheduling_logs.set.fetch_or(1 << (node & 63), Ordering::Release);
        }
        Ok(())
    }

    /// No context is left, so that nothing is written any more.
    pub(super) fn stop_scheduling_logs(&self) {
        let nodes = core::mem::take(&mut *lock(&self.scheduling_logs.nodes));
        drop(nodes);
    }

    /// True if the node has a log. Device level asks.
    pub(super) fn has_scheduling_log(&self, node: u32) -> bool {
        self.scheduling_logs.set.load(Ordering::Acquire) >> (node & 63) & 1 != 0
    }

    /// A context was made: its driver's handle may stand in the log of its node from now on.
    pub(super) fn add_to_scheduling_log(&self, context: &HwContext) {
        if let Some(log) = lock(&self.scheduling_logs.nodes).get_mut(&context.node()) {
            let process = Arc::clone(&context.device().process);
            log.contexts.insert(context.handles().1.raw().addr() as u64, Logged { process, busy: false });
        }
    }

    /// A context without queues is about to be destroyed: nothing more is written of it.
    pub(super) fn leave_scheduling_log(&self, context: &HwContext) {
        let handle = context.handles().1.raw().addr() as u64;
        self.read_scheduling_log(context.node());
        if let Some(log) = lock(&self.scheduling_logs.nodes).get_mut(&context.node()) {
            log.contexts.remove(&handle);
            log.reading.runs = log.reading.runs.filter(|runs| runs.context != handle);
        }
    }

    /// Reads what the log of a node has, and charges the context that has it now for the time until now.
    pub(crate) fn read_scheduling_log(&self, node: u32) {
        let Ok(adapter) = self.adapter() else { return };
        if let Some(log) = lock(&self.scheduling_logs.nodes).get_mut(&node) {
            self.read_log(&adapter, node, log);
            if let Some((now, frequency)) = gpu_clock(&adapter, node)
                && let Some(charge) = log.reading.until(now)
            {
                self.charge(node, log, charge, frequency);
            }
        }
    }

    /// Gives a node its other buffer, and reads what is left in the one that it had.
    pub(crate) fn renew_scheduling_log(&self, node: u32) {
        let Ok(adapter) = self.adapter() else { return };
        let mut nodes = lock(&self.scheduling_logs.nodes);
        let Some(log) = nodes.get_mut(&node) else { return };
        let quiet = self.scheduling_logs.quiet.load(Ordering::Acquire);
        let status = set(&adapter, node, &log.buffers[1], quiet);
        if !status.is_success() {
            self.must_not_fail(status);
            return;
        }
        self.read_log(&adapter, node, log);
        log.counts.renewals += 1;
        log.buffers.swap(0, 1);
        log.read = 0;
    }

    /// As [`VidSch::renew_scheduling_log`], of every node, after a reset of the adapter: nobody has an engine.
    pub(crate) fn renew_scheduling_logs(&self) {
        let nodes: Vec<u32> = lock(&self.scheduling_logs.nodes).keys().copied().collect();
        for node in nodes {
            self.renew_scheduling_log(node);
            if let Some(log) = lock(&self.scheduling_logs.nodes).get_mut(&node) {
                log.forget_states();
            }
        }
    }

    /// True if the hardware says that a context has its node, or has work that could run while another context has the node.
    pub(crate) fn is_busy_by_log(&self, context: &HwContext) -> bool {
        self.read_scheduling_log(context.node());
        let handle = context.handles().1.raw().addr() as u64;
        let nodes = lock(&self.scheduling_logs.nodes);
        nodes.get(&context.node()).and_then(|log| log.contexts.get(&handle)).is_some_and(|context| context.busy)
    }

    /// What was read of the log of a node, after it was read as far as it is written; `None` if the node has none.
    pub(crate) fn scheduling_log(&self, node: u32) -> Option<SchedulingLogCounts> {
        self.read_scheduling_log(node);
        lock(&self.scheduling_logs.nodes).get(&node).map(|log| log.counts)
    }

    /// From now on no scheduling log interrupts: whoever counts interrupts counts those of work.
    pub(crate) fn quiet_scheduling_logs(&self) {
        if !self.scheduling_logs.quiet.swap(true, Ordering::AcqRel) {
            let nodes: Vec<u32> = lock(&self.scheduling_logs.nodes).keys().copied().collect();
            nodes.into_iter().for_each(|node| self.renew_scheduling_log(node));
        }
    }

    fn read_log(&self, adapter: &RenderAdapter, node: u32, log: &mut NodeLog) {
        let [buffer, _] = &log.buffers;
        let found = written_since(buffer.position(), log.read, ENTRIES);
        let Some((numbers, lost)) = found else {
            return self.note_bad_entry(node, &mut log.told, "its position is none of a log of this size");
        };
        if numbers.is_empty() {
            return;
        }
        let entries: Vec<Entry> = numbers.clone().map(|number| buffer.entry(number)).collect();
        // What was overwritten while it was read is lost, too.
        let torn = written_since(buffer.position(), numbers.start, ENTRIES).map_or(0, |(_, torn)| torn);
        let frequency = gpu_clock(adapter, node).map_or(1, |(_, frequency)| frequency);
        log.read = numbers.end;
        if lost + torn != 0 {
            log.counts.lost += lost + torn;
            log.forget_states();
        }
        for entry in entries.into_iter().skip(torn as usize) {
            log.counts.entries += 1;
            let before = log.reading.runs();
            match log.reading.take(entry) {
                Ok(None) => {}
                Ok(Some(charge)) => self.charge(node, log, charge, frequency),
                Err(rule) => self.note_bad_entry(node, &mut log.told, rule),
            }
            if let Some(context) = log.reading.runs().filter(|context| before != Some(*context)) {
                self.count_switch(node, log, context);
            }
            match log.contexts.get_mut(&entry.context) {
                Some(context) => context.busy = entry.state != State::DXGK_SCHEDULING_LOG_CONTEXT_STATE_IDLE.0,
                None => self.note_bad_entry(node, &mut log.told, "it names no context of the node"),
            }
        }
    }

    fn charge(&self, node: u32, log: &NodeLog, charge: Charge, frequency: u64) {
        if let (Some(context), Some(node)) = (log.contexts.get(&charge.context), self.nodes.get(node as usize)) {
            node.state().running.add_time(&context.process, duration(charge.ticks, frequency));
        }
    }

    /// A context has the node that another one, or none, had before.
    fn count_switch(&self, node: u32, log: &NodeLog, context: u64) {
        if let (Some(context), Some(node)) = (log.contexts.get(&context), self.nodes.get(node as usize)) {
            node.state().running.count_switch(&context.process);
        }
    }

    fn note_bad_entry(&self, node: u32, told: &mut Option<&'static str>, rule: &'static str) {
        if told.replace(rule) != Some(rule) {
            self.verifier.log(format!("an entry of the scheduling log of node {node} breaks a rule: {rule}"));
        }
    }
}

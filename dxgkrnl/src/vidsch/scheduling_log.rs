//! Scheduling logs: what the hardware tells of which context has a node, and the time of processes on the node by that.
//!
//! A node whose contexts the hardware schedules has two buffers. The hardware writes one of them and interrupts when it is half full; then it is given the
//! other one, and what is left of the first is read. Whoever asks for figures has the buffer in use read as far as it is written. [d3dkmddi:
//! DXGKDDI_SETSCHEDULINGLOGBUFFER]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Duration;

use nt::bugcheck::Bugcheck;
use nt::lock::{Mutex, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::types::NTSTATUS;

use super::VidSch;
use super::fence_log::Mapped;
use super::hw_context::HwContext;
use crate::rank;
use crate::refusal::DriverAnswer;
use crate::refusal::Failure;
use crate::vidmm::SharedPages;
use crate::vidsch::{ProcessAdapter, RenderAdapter};

type State = DXGK_SCHEDULING_LOG_CONTEXT_STATE;

const HEADER: usize = size_of::<DXGK_SCHEDULING_LOG_HEADER>();
const ENTRY: usize = size_of::<DXGK_SCHEDULING_LOG_ENTRY>();
/// Entries of a buffer.
const ENTRIES: u32 = 8192;

/// One entry, as its words have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    time: u64,
    operation: u64,
    context: u64,
    state: i32,
}

/// Entries that a writer at `position` has written since it had written `read`, of a log of `entries`: those that are still there begin at the number that is
/// answered first, and as many are lost as the second says. `None` for a position that no such log has.
fn written_since(position: u64, read: u64, entries: u32) -> Option<(std::ops::Range<u64>, u64)> {
    let (index, rounds) = (position & u64::from(u32::MAX), position >> 32);
    if index >= u64::from(entries) {
        return None;
    }
    let written = rounds * u64::from(entries) + index;
    let first = written.saturating_sub(entries.into()).max(read);
    Some((first..written.max(first), first - read))
}

struct Buffer {
    mapped: Mapped,
    pages: SharedPages,
}

impl Buffer {
    fn new(adapter: &RenderAdapter) -> Result<Self, NTSTATUS> {
        let pages = adapter.vidmm().shared_words((HEADER + ENTRIES as usize * ENTRY) as u64)?;
        let mapped = Mapped::new(adapter.vidmm().system_space()?, pages.memory())?;
        Ok(Self { mapped, pages })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset as u64 + 8 <= self.pages.memory().len());
        // SAFETY: callers stay inside the header and the entries, which the pages hold.
        let place = unsafe { self.pages.seen().kernel_address().add(offset) };
        // SAFETY: 8-aligned, mapped as long as the pages live, and the GPU writes it as 64 bits at once.
        unsafe { AtomicU64::from_ptr(place.cast().as_ptr()) }
    }

    /// As a driver gets it: nothing written yet.
    fn clear(&self) {
        let header = [0, u64::from(ENTRIES), 0, 0];
        header.iter().enumerate().for_each(|(word, value)| self.word(word * 8).store(*value, Ordering::Release));
    }

    fn position(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.word(0).load(Ordering::SeqCst)
    }

    fn entry(&self, number: u64) -> Entry {
        let start = HEADER + (number % u64::from(ENTRIES)) as usize * ENTRY;
        let [time, operation, context, state] =
            std::array::from_fn(|word| self.word(start + word * 8).load(Ordering::Acquire));
        Entry { time, operation, context, state: state as u32 as i32 }
    }
}

/// The context that has a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Runs {
    context: u64,
    /// GPU clock.
    since: u64,
}

/// Time that a context had a node, in ticks of the GPU clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Charge {
    context: u64,
    ticks: u64,
}

/// The state of a node by the entries that were read: one context at most has it.
#[derive(Debug, Default)]
struct Reading {
    runs: Option<Runs>,
    /// True after entries were lost: which context has the node is not known until the next entry says it.
    gap: bool,
}

impl Reading {
    /// Takes in an entry. Answers the time that a context had the node, if the entry ends that.
    ///
    /// # Errors
    /// The rule that the entry breaks.
    fn take(&mut self, entry: Entry) -> Result<Option<Charge>, &'static str> {
        if entry.operation != 0 {
            return Err("its operation is not a change of a context's state");
        }
        let gap = core::mem::take(&mut self.gap);
        let ends = self.runs.filter(|runs| runs.context == entry.context);
        let charge = |runs: Runs| Charge { context: runs.context, ticks: entry.time.saturating_sub(runs.since) };
        match DXGK_SCHEDULING_LOG_CONTEXT_STATE(entry.state) {
            State::DXGK_SCHEDULING_LOG_CONTEXT_STATE_RUNNING => {
                let runs = self.runs.replace(Runs { context: entry.context, since: entry.time });
                match runs {
                    Some(runs) if runs.context == entry.context => Ok(Some(charge(runs))),
                    Some(_) if !gap => Err("a context runs while another one does"),
                    _ => Ok(None),
                }
            }
            State::DXGK_SCHEDULING_LOG_CONTEXT_STATE_IDLE
            | State::DXGK_SCHEDULING_LOG_CONTEXT_STATE_READY
            | State::DXGK_SCHEDULING_LOG_CONTEXT_STATE_READY_STANDBY => {
                if ends.is_some() {
                    self.runs = None;
                }
                Ok(ends.map(charge))
            }
            _ => Err("it names no state"),
        }
    }

    /// The context that has the node.
    fn runs(&self) -> Option<u64> {
        self.runs.map(|runs| runs.context)
    }

    /// The time until `now` of the context that has the node.
    fn until(&mut self, now: u64) -> Option<Charge> {
        let runs = self.runs.as_mut().filter(|runs| now > runs.since)?;
        Some(Charge { context: runs.context, ticks: now - core::mem::replace(&mut runs.since, now) })
    }
}

/// Counts of what was read from the scheduling log of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulingLogCounts {
    /// Entries.
    pub entries: u64,
    /// Entries that were overwritten before they were read.
    pub lost: u64,
    /// Number of times that the driver was given a new buffer, not counting the first one.
    pub renewals: u64,
}

struct NodeLog {
    /// The one that the hardware writes comes first.
    buffers: [Buffer; 2],
    /// Entries of it that were read.
    read: u64,
    reading: Reading,
    counts: SchedulingLogCounts,
    /// The contexts, by the driver's handles.
    contexts: HashMap<u64, Logged>,
    /// The last entry that broke a rule, so that each kind is told once.
    told: Option<&'static str>,
}

/// A context of a node with a scheduling log.
struct Logged {
    process: Arc<ProcessAdapter>,
    /// True if the last entry that names it says that it has the node, or has work while another one has the node.
    busy: bool,
}

impl NodeLog {
    /// No context has the node, or it is not known which one.
    fn forget_states(&mut self) {
        (self.reading.runs, self.reading.gap) = (None, true);
        self.contexts.values_mut().for_each(|context| context.busy = false);
    }
}

/// The scheduling logs of an adapter, by node.
#[derive(Default)]
pub(super) struct SchedulingLogs {
    nodes: Mutex<HashMap<u32, NodeLog>, rank::SchedulingLogs>,
    /// Nodes that have one, a bit each.
    set: AtomicU64,
    /// True if the hardware is asked for no interrupt, so that entries may be lost.
    quiet: AtomicBool,
}

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
    args.LogBufferGpuVa = buffer.mapped.address;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(time: u64, context: u64, state: i32) -> Entry {
        Entry { time, operation: 0, context, state }
    }

    const IDLE: i32 = 0;
    const RUNNING: i32 = 1;
    const READY: i32 = 2;

    #[test]
    fn a_context_has_the_node_from_running_to_whatever_comes_next() {
        let mut reading = Reading::default();
        let mut charges = Vec::new();
        for (time, context, state) in [
            (10, 1, RUNNING),
            (12, 2, READY),
            (15, 1, READY),
            (15, 2, RUNNING),
            (40, 2, IDLE),
            (50, 1, RUNNING),
            (60, 1, RUNNING),
            (70, 1, IDLE),
            (80, 1, IDLE),
        ] {
            charges.extend(reading.take(entry(time, context, state)).expect("a legal entry"));
        }
        let expected = [(1, 5), (2, 25), (1, 10), (1, 10)].map(|(context, ticks)| Charge { context, ticks });
        assert_eq!(charges, expected);
    }

    #[test]
    fn who_has_the_node_when_figures_are_wanted_is_charged_once() {
        let mut reading = Reading::default();
        assert_eq!(reading.until(100), None);
        assert_eq!(reading.take(entry(10, 7, RUNNING)), Ok(None));
        assert_eq!(reading.until(25), Some(Charge { context: 7, ticks: 15 }));
        assert_eq!(reading.until(20), None, "a clock that was read earlier");
        assert_eq!(reading.take(entry(30, 7, IDLE)), Ok(Some(Charge { context: 7, ticks: 5 })));
    }

    #[test]
    fn entries_that_no_hardware_may_write_are_named() {
        let mut reading = Reading::default();
        assert!(reading.take(Entry { operation: 1, ..entry(1, 1, RUNNING) }).is_err());
        assert!(reading.take(entry(1, 1, 4)).is_err() && reading.take(entry(1, 1, -1)).is_err());
        assert_eq!(reading.take(entry(1, 1, RUNNING)), Ok(None));
        assert!(reading.take(entry(2, 2, RUNNING)).is_err(), "a node runs one context");
        reading.gap = true;
        assert_eq!(reading.take(entry(3, 3, RUNNING)), Ok(None), "what came before is lost");
    }

    #[test]
    fn what_was_written_is_counted_over_the_end_and_what_is_lost_is_known() {
        let position = |rounds: u64, index: u64| rounds << 32 | index;
        assert_eq!(written_since(position(0, 3), 0, 8), Some((0..3, 0)));
        assert_eq!(written_since(position(1, 2), 3, 8), Some((3..10, 0)));
        assert_eq!(written_since(position(2, 2), 3, 8), Some((10..18, 7)));
        assert_eq!(written_since(position(0, 3), 3, 8), Some((3..3, 0)));
        assert_eq!(written_since(position(0, 8), 0, 8), None);
        assert_eq!(written_since(position(0, 1), 3, 8), Some((3..3, 0)), "a position that went back");
    }
}

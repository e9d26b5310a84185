//! Buffers of scheduling logs, and what is known by their entries.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use nt::lock::Mutex;
use wddm_ddi::km::*;
use wddm_ddi::types::NTSTATUS;

use crate::rank;
use crate::vidmm::{GpuMapping, Protection, SharedPages};

use super::process_adapter::ProcessAdapter;
use super::render_adapter::RenderAdapter;

pub(in crate::vidsch) type State = DXGK_SCHEDULING_LOG_CONTEXT_STATE;

const HEADER: usize = size_of::<DXGK_SCHEDULING_LOG_HEADER>();

const ENTRY: usize = size_of::<DXGK_SCHEDULING_LOG_ENTRY>();

/// Entries of a buffer.
pub(in crate::vidsch) const ENTRIES: u32 = 8192;

/// One entry, as its words have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vidsch) struct Entry {
    time: u64,
    operation: u64,
    pub(in crate::vidsch) context: u64,
    pub(in crate::vidsch) state: i32,
}

/// Entries that a writer at `position` has written since it had written `read`, of a log of `entries`: those that are still there begin at the number that is
/// answered first, and as many are lost as the second says. `None` for a position that no such log has.
pub(in crate::vidsch) fn written_since(position: u64, read: u64, entries: u32) -> Option<(std::ops::Range<u64>, u64)> {
    let (index, rounds) = (position & u64::from(u32::MAX), position >> 32);
    if index >= u64::from(entries) {
        return None;
    }
    let written = rounds * u64::from(entries) + index;
    let first = written.saturating_sub(entries.into()).max(read);
    Some((first..written.max(first), first - read))
}

pub(in crate::vidsch) struct Buffer {
    pub(in crate::vidsch) mapped: GpuMapping,
    pub(in crate::vidsch) pages: SharedPages,
}

impl Buffer {
    pub(in crate::vidsch) fn new(adapter: &RenderAdapter) -> Result<Self, NTSTATUS> {
        let vidmm = adapter.vidmm();
        let pages = vidmm.shared_words((HEADER + ENTRIES as usize * ENTRY) as u64)?;
        let mapped = vidmm.map_pages(&vidmm.system_space()?, pages.memory(), Protection::ReadWrite)?;
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
    pub(in crate::vidsch) fn clear(&self) {
        let header = [0, u64::from(ENTRIES), 0, 0];
        header.iter().enumerate().for_each(|(word, value)| self.word(word * 8).store(*value, Ordering::Release));
    }

    pub(in crate::vidsch) fn position(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.word(0).load(Ordering::SeqCst)
    }

    pub(in crate::vidsch) fn entry(&self, number: u64) -> Entry {
        let start = HEADER + (number % u64::from(ENTRIES)) as usize * ENTRY;
        let [time, operation, context, state] =
            std::array::from_fn(|word| self.word(start + word * 8).load(Ordering::Acquire));
        Entry { time, operation, context, state: state as u32 as i32 }
    }
}

/// The context that has a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vidsch) struct Runs {
    pub(in crate::vidsch) context: u64,
    /// GPU clock.
    since: u64,
}

/// Time that a context had a node, in ticks of the GPU clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vidsch) struct Charge {
    pub(in crate::vidsch) context: u64,
    pub(in crate::vidsch) ticks: u64,
}

/// The state of a node by the entries that were read: one context at most has it.
#[derive(Debug, Default)]
pub(in crate::vidsch) struct Reading {
    pub(in crate::vidsch) runs: Option<Runs>,
    /// True after entries were lost: which context has the node is not known until the next entry says it.
    gap: bool,
}

impl Reading {
    /// Takes in an entry. Answers the time that a context had the node, if the entry ends that.
    ///
    /// # Errors
    /// The rule that the entry breaks.
    pub(in crate::vidsch) fn take(&mut self, entry: Entry) -> Result<Option<Charge>, &'static str> {
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
    pub(in crate::vidsch) fn runs(&self) -> Option<u64> {
        self.runs.map(|runs| runs.context)
    }

    /// The time until `now` of the context that has the node.
    pub(in crate::vidsch) fn until(&mut self, now: u64) -> Option<Charge> {
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

pub(in crate::vidsch) struct NodeLog {
    /// The one that the hardware writes comes first.
    pub(in crate::vidsch) buffers: [Buffer; 2],
    /// Entries of it that were read.
    pub(in crate::vidsch) read: u64,
    pub(in crate::vidsch) reading: Reading,
    pub(in crate::vidsch) counts: SchedulingLogCounts,
    /// The contexts, by the driver's handles.
    pub(in crate::vidsch) contexts: HashMap<u64, Logged>,
    /// The last entry that broke a rule, so that each kind is told once.
    pub(in crate::vidsch) told: Option<&'static str>,
}

/// A context of a node with a scheduling log.
pub(in crate::vidsch) struct Logged {
    pub(in crate::vidsch) process: Arc<ProcessAdapter>,
    /// True if the last entry that names it says that it has the node, or has work while another one has the node.
    pub(in crate::vidsch) busy: bool,
}

impl NodeLog {
    /// No context has the node, or it is not known which one.
    pub(in crate::vidsch) fn forget_states(&mut self) {
        (self.reading.runs, self.reading.gap) = (None, true);
        self.contexts.values_mut().for_each(|context| context.busy = false);
    }
}

/// The scheduling logs of an adapter, by node.
#[derive(Default)]
pub(in crate::vidsch) struct SchedulingLogs {
    pub(in crate::vidsch) nodes: Mutex<HashMap<u32, NodeLog>, rank::SchedulingLogs>,
    /// Nodes that have one, a bit each.
    pub(in crate::vidsch) set: AtomicU64,
    /// True if the hardware is asked for no interrupt, so that entries may be lost.
    pub(in crate::vidsch) quiet: AtomicBool,
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

//! The scheduling log of a node, and the states of contexts that it tells.
//!
//! A queue has a state of its own here; that of a context is the busiest of its queues. Without a log nothing is noted and the cost is one comparison.

use super::Cmp;
use super::node::NodeState;
use crate::context::Context;
use crate::memory::{self, Memory};
use crate::mmu::{Fault, Intent, Kept, Tlb};
use crate::queue::{Queue, RunState};
use campanile_hw::event::{EventKind, NO_QUEUE};
use campanile_hw::log::LogPosition;
use campanile_hw::page_table::{PAGE_4K, VA_BITS};
use campanile_hw::queue::Location;
use campanile_hw::registers::CommandStatus;
use campanile_hw::scheduling_log::{
    ContextState, SCHEDULING_LOG_ENTRIES_MAX, SchedulingLogEntry, SchedulingLogHeader, bytes_of, entry_offset,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of an entry.
const WORDS: usize = SchedulingLogEntry::SIZE / 8;

/// One log.
#[derive(Debug)]
pub(super) struct SchedulingLog {
    /// Root of the paging process as it was at the last entry.
    root: Location,
    /// Virtual address of the header.
    header: u64,
    entries: u32,
    /// Entry whose writing is told by an event.
    interrupt: u32,
    /// The position, once the header was there.
    position: Option<LogPosition>,
    /// The page of the header.
    header_page: Kept,
    /// The page of the entry that was written last.
    entry_page: Kept,
}

impl SchedulingLog {
    /// The log with its header at `header` in the paging process. Its pages are looked for when an entry is written.
    fn new(root: Location, [header, entries, interrupt]: [u64; 3]) -> Option<Self> {
        let entries =
            u32::try_from(entries).ok().filter(|entries| (1..=SCHEDULING_LOG_ENTRIES_MAX).contains(entries))?;
        let inside = header.checked_add(bytes_of(entries)).is_some_and(|end| end <= 1 << VA_BITS);
        let legal = inside && header != 0 && header.is_multiple_of(SchedulingLogHeader::SIZE as u64);
        legal.then(|| Self {
            root,
            header,
            entries,
            interrupt: u32::try_from(interrupt).unwrap_or(u32::MAX),
            position: None,
            header_page: Kept::NOTHING,
            entry_page: Kept::NOTHING,
        })
    }

    /// Finds the page of the header. Answers the position's place, which is none where writes are dropped, and the position.
    fn keep_header<'a>(
        &mut self,
        tlb: &mut Tlb,
        context: &Context<'a>,
    ) -> Result<(Option<&'a AtomicU64>, LogPosition), Fault> {
        let page = self.header - self.header % PAGE_4K;
        tlb.keep(context.memory, self.root, page, &mut self.header_page)?;
        let offset = self.header_page.find(self.header).map_or(0, |offset| offset as usize / 8);
        let word = self.header_page.words(context.memory).get(offset);
        let read = || LogPosition::from_bits(word.map_or(0, |word| u64::from_le(word.load(Ordering::Acquire))));
        let position = self.position.unwrap_or_else(read);
        Ok((word, if position.index() < self.entries { position } else { position.with_index(0) }))
    }

    /// Writes an entry, and then the position. True if it is the one that an event tells of.
    ///
    /// # Errors
    /// A page of the log, or the paging process, is not there.
    fn write(&mut self, tlb: &mut Tlb, context: &Context<'_>, entry: [u64; WORDS]) -> Result<bool, Fault> {
        let root = context.paging_root.ok_or(Fault::rootless(self.header, Intent::Write))?;
        if root != self.root {
            (self.root, self.header_page, self.entry_page) = (root, Kept::NOTHING, Kept::NOTHING);
        }
        let (word, position) = self.keep_header(tlb, context)?;
        let va = self.header + entry_offset(position.index());
        tlb.keep(context.memory, root, va - va % PAGE_4K, &mut self.entry_page)?;
        let offset = self.entry_page.find(va).map_or(0, |offset| offset as usize / 8);
        let place = self.entry_page.words(context.memory).get(offset..).and_then(<[_]>::first_chunk::<WORDS>);
        if let Some(place) = place {
            memory::store_all(place, entry);
        }
        let next = position.next(self.entries);
        self.position = Some(next);
        if let Some(word) = word {
            memory::store(word, next.into_bits());
        }
        Ok(position.index() == self.interrupt)
    }
}

/// The order of states: of two queues of a context the one with the higher number gives the context its state.
fn business(state: ContextState) -> u32 {
    match state {
        ContextState::Idle => 0,
        ContextState::Ready => 1,
        ContextState::Running => 2,
    }
}

fn busier(one: ContextState, other: ContextState) -> ContextState {
    if business(one) < business(other) { other } else { one }
}

impl NodeState {
    /// Notes the state of a queue, and writes that of its context if it is another one by that.
    #[inline]
    pub(super) fn log_state(&mut self, number: u32, state: ContextState, context: &Context<'_>) {
        if self.scheduling.is_some() {
            self.log_state_at(context.clock.mark(), number, state, context);
        }
    }

    /// A slice of a queue has ended that began at `began`, when another queue perhaps had the node.
    #[inline]
    pub(super) fn log_slice(&mut self, before: Option<u32>, number: u32, began: u64, context: &Context<'_>) {
        if self.scheduling.is_some() {
            if let Some(preempted) = before.filter(|before| *before != number) {
                self.log_state_at(began, preempted, ContextState::Ready, context);
            }
            self.log_state_at(began, number, ContextState::Running, context);
        }
    }

    fn log_state_at(&mut self, time: u64, number: u32, state: ContextState, context: &Context<'_>) {
        let Some(queue) = self.queue(number).filter(|queue| queue.context != 0 && queue.logged != state) else {
            return;
        };
        let (subject, shared, node) = (queue.context, queue.shares_context, queue.node);
        let before = std::mem::replace(&mut queue.logged, state);
        let others = if shared { self.busiest_other(number, subject) } else { ContextState::Idle };
        let (before, now) = (busier(before, others), busier(state, others));
        let Some(log) = self.scheduling.as_mut().filter(|_| before != now) else { return };
        // An entry without a place is dropped.
        let entry = [time, 0, subject, u64::from(now as u32)];
        if log.write(&mut self.engine.tlb, context, entry).unwrap_or(false) {
            context.report(EventKind::SchedulingLog, node, NO_QUEUE, [0; 2]);
        }
    }

    /// The busiest state of the queues of a context but one.
    fn busiest_other(&self, number: u32, subject: u64) -> ContextState {
        let others = self.queues().filter(|queue| queue.number != number && queue.context == subject);
        // One that has not met another queue on the node is ready without a note of it.
        let state = |queue: &Queue| match queue.state {
            RunState::Runnable => busier(queue.logged, ContextState::Ready),
            _ => queue.logged,
        };
        others.map(state).fold(ContextState::Idle, busier)
    }

    /// Gives the node a log in place of the one that it has. A first one begins with the contexts that are not idle.
    fn replace_log(&mut self, log: Option<SchedulingLog>, context: &Context<'_>) {
        let first = self.scheduling.is_none();
        self.scheduling = log.map(Box::new);
        if !first {
            return;
        }
        let current = self.current();
        let state = |queue: &Queue| match queue.state {
            RunState::Runnable if current == Some(queue.number) => ContextState::Running,
            RunState::Runnable => ContextState::Ready,
            _ => ContextState::Idle,
        };
        let found: Vec<_> = self.queues().map(|queue| (queue.number, state(queue))).collect();
        for (number, state) in found {
            if let Some(queue) = self.queue(number) {
                queue.logged = ContextState::Idle;
            }
            self.log_state(number, state, context);
        }
    }
}

impl Cmp {
    /// SetSchedulingLog: `log` is the header's address, the number of entries and the one that interrupts. The engine runs no slice meanwhile.
    pub(super) fn set_scheduling_log(&self, memory: &Memory, node: u32, log: [u64; 3]) -> Result<u64, CommandStatus> {
        self.with_node(memory, node, |state, context| {
            let log = match log {
                [0, 0, _] => None,
                _ => {
                    let root = context.paging_root.ok_or(CommandStatus::BadState)?;
                    Some(SchedulingLog::new(root, log).ok_or(CommandStatus::BadArgument)?)
                }
            };
            state.replace_log(log, context);
            Ok(0)
        })
    }
}

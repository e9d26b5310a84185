//! The scheduler as a whole: what its nodes share, and its start, stop, reset and slices.

use crate::clock::Clock;
use crate::compiling::Compiling;
use crate::context::fences::FenceTable;
use crate::context::mailbox::Mailbox;
use crate::context::waits::Waits;
use crate::context::{Context, Features, OtherEngines, Tallies};
use crate::event::Events;
use crate::fault::Faults;
use crate::lock::lock;
use crate::memory::{Access, Memory};
use campanile_hw::queue::Location;
use campanile_hw::registers::{NODE_PAGING, NODES, VRAM_PAGE_SIZE};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::node::{Node, NodeState};
use super::power::Power;
use crate::context::doorbells::Doorbells;

impl OtherEngines for [Node; NODES as usize] {
    fn forget(&self, own: u32, root: Location, start: u64, end: u64) {
        for (_, node) in (0..).zip(self).filter(|(number, _)| *number != own) {
            node.claim().engine.tlb.forget(root, start, end);
        }
    }
}

/// Counts of the scheduler's steps, by which tests show that no work grows with the number of idle queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Doorbell words read.
    pub doorbell_reads: u64,
    /// Queues that the scheduler has looked at, to take in news from the mailbox or because they were chosen to run.
    pub queue_visits: u64,
    /// Waiting queues looked at because a fence changed.
    pub waiter_visits: u64,
    /// Places in VRAM or system memory resolved for an access.
    pub memory_accesses: u64,
    /// Page-table walks.
    pub table_walks: u64,
    /// Fences reached through the paging process.
    pub system_fences: u64,
    /// Entries of fence logs that commands picked, since reset.
    pub picked: u64,
}

/// The scheduler.
#[derive(Debug)]
pub(crate) struct Cmp {
    pub(super) nodes: [Node; NODES as usize],
    pub(super) mailbox: Mailbox,
    pub(super) doorbells: Doorbells,
    pub(super) waits: Waits,
    pub(super) events: Events,
    pub(super) clock: Clock,
    pub(super) power: Power,
    pub(super) features: Features,
    pub(super) fences: FenceTable,
    pub(super) faults: Faults,
    pub(super) compiling: Arc<Compiling>,
    /// Bits of PAGING_ROOT.
    pub(super) paging_root: AtomicU64,
    pub(super) running: AtomicBool,
    /// Queue descriptor table, latched when the scheduler was started.
    pub(super) table_base: AtomicU64,
    pub(super) table_count: AtomicU32,
}

impl Cmp {
    /// A scheduler that does not run, for up to `queues` queues.
    pub(crate) fn new(features: Features, queues: u32, doorbells: Doorbells) -> Self {
        Self {
            nodes: std::array::from_fn(|_| Node::default()),
            mailbox: Mailbox::new(queues),
            doorbells,
            waits: Waits::default(),
            events: Events::default(),
            clock: Clock::new(),
            power: Power::new(features.idle_ticks),
            features,
            fences: FenceTable::new(features.system_fences.unwrap_or(0)),
            faults: Faults::default(),
            compiling: Arc::default(),
            paging_root: AtomicU64::new(0),
            running: AtomicBool::new(false),
            table_base: AtomicU64::new(0),
            table_count: AtomicU32::new(0),
        }
    }

    /// The GPU clock.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// CLOCK_SET was written.
    pub(crate) fn set_clock(&self, ticks: u64) {
        self.clock.set(ticks);
    }

    /// True while the scheduler runs.
    pub(crate) fn running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    /// The events of the function.
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// The programs that are to be compiled for the host.
    pub(crate) fn compiling(&self) -> &Arc<Compiling> {
        &self.compiling
    }

    /// Injected faults.
    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Nodes with work, a bit each.
    pub(crate) fn busy(&self) -> u32 {
        let busy = |(number, node): (u32, &Node)| {
            let engaged = || node.engaged.load(Ordering::Acquire);
            // A slice that ends between the first two looks has said before whether there is more to do.
            let runs = self.mailbox.pending(number) || engaged() || self.mailbox.pending(number);
            u32::from(runs || node.tallies.hung.load(Ordering::Acquire)) << number
        };
        (0..NODES).zip(&self.nodes).map(busy).sum()
    }

    /// Doorbell stores seen.
    pub(crate) fn count_doorbells(&self) -> u64 {
        self.doorbells.rings()
    }

    /// Packets that a node executed, and further parts of longer ones.
    pub(crate) fn progress(&self, node: usize) -> u64 {
        self.nodes.get(node).map_or(0, |node| node.tallies.progress.load(Ordering::Relaxed))
    }

    /// Sum of a counter over the nodes.
    pub(crate) fn count(&self, counter: impl Fn(&Tallies) -> &AtomicU64) -> u64 {
        self.nodes.iter().map(|node| counter(&node.tallies).load(Ordering::Relaxed)).sum()
    }

    /// SIGNAL packets that the nodes other than the paging node executed since the function was made.
    pub(crate) fn signals_ever(&self) -> u64 {
        let working = self.nodes.iter().enumerate().filter(|(node, _)| *node != NODE_PAGING as usize);
        let counters = working.flat_map(|(_, node)| [&node.tallies.signals, &node.tallies.past_signals]);
        counters.map(|counter| counter.load(Ordering::Relaxed)).sum()
    }

    /// Number of steps of each kind since the function was made, to compare the cost of two runs.
    pub(crate) fn activity(&self) -> Activity {
        let mut activity = Activity {
            doorbell_reads: self.doorbells.reads(),
            waiter_visits: self.waits.visits(),
            ..Activity::default()
        };
        for node in &self.nodes {
            let state = lock(&node.state);
            activity.system_fences += node.tallies.system_fences.load(Ordering::Relaxed);
            activity.picked += node.tallies.picked.load(Ordering::Relaxed);
            activity.queue_visits += state.visits();
            activity.memory_accesses += state.accesses();
            activity.table_walks += state.engine.tlb.walks();
        }
        activity
    }

    /// Queues that are mapped.
    pub(crate) fn queues_held(&self) -> usize {
        self.mailbox.held()
    }

    /// The number of doorbells that are connected, and of those whose page has a word that is not 0.
    pub(crate) fn doorbells_held(&self) -> (usize, usize) {
        self.doorbells.held()
    }

    /// Queues in the lists of those that wait.
    pub(crate) fn waits_held(&self) -> usize {
        self.waits.held()
    }

    pub(super) fn context<'a>(&'a self, node: &'a Node, memory: &'a Access<'a>) -> Context<'a> {
        Context {
            memory,
            events: &self.events,
            waits: &self.waits,
            mailbox: &self.mailbox,
            clock: &self.clock,
            tallies: &node.tallies,
            fences: self.features.system_fences.is_some().then_some(&self.fences),
            faults: &self.faults,
            paging_root: self.paging_root(),
            features: self.features,
            others: &self.nodes,
            compiling: &self.compiling,
        }
    }

    /// PAGING_ROOT was written.
    pub(crate) fn set_paging_root(&self, bits: u64) {
        self.paging_root.store(bits, Ordering::Release);
    }

    /// The paging process, if PAGING_ROOT names one.
    pub(super) fn paging_root(&self) -> Option<Location> {
        let bits = self.paging_root.load(Ordering::Acquire);
        let root = Location::from_bits(bits);
        (bits != 0 && bits >> 53 == 0 && root.address().is_multiple_of(4096)).then_some(root)
    }

    /// Starts the scheduler with the queue table of `count` descriptors at `base` and the event ring at `event_base`. False, and nothing
    /// started, if one of them is not legal.
    pub(crate) fn start(&self, memory: &Memory, base: u64, count: u32, event_base: u64, event_entries: u32) -> bool {
        let size = u64::from(count) * campanile_hw::queue::QueueDescriptor::SIZE as u64;
        let inside = base.checked_add(size).is_some_and(|end| end <= self.features.vram);
        if !base.is_multiple_of(VRAM_PAGE_SIZE) || count == 0 || count > self.mailbox.capacity() || !inside {
            return false;
        }
        let access = memory.access();
        if !self.events.start(&access, event_base, event_entries) {
            return false;
        }
        self.table_base.store(base, Ordering::Relaxed);
        self.table_count.store(count, Ordering::Relaxed);
        self.power.start();
        self.running.store(true, Ordering::Release);
        true
    }

    /// Stops the scheduler. Nothing is in progress when it returns; queues stay mapped.
    pub(crate) fn stop(&self) {
        self.running.store(false, Ordering::SeqCst);
        for node in &self.nodes {
            drop(node.claim());
        }
    }

    /// Forgets queues, doorbells, waits, translations, events and counters. Nothing is in progress when it returns.
    pub(crate) fn reset(&self) {
        self.running.store(false, Ordering::SeqCst);
        for node in &self.nodes {
            *node.claim() = NodeState::default();
            node.tallies.reset();
        }
        self.doorbells.reset();
        self.waits.reset();
        self.mailbox.reset();
        self.fences.reset();
        self.paging_root.store(0, Ordering::Relaxed);
        self.events.reset();
        self.clock.set(0);
        self.power.reset();
        self.table_count.store(0, Ordering::Relaxed);
    }

    /// Polls doorbells. True if one was rung.
    pub(crate) fn poll(&self) -> bool {
        self.running() && self.doorbells.poll(&self.mailbox, self.power.asleep(), &|| self.faults.misses_ring())
    }

    /// Looks at the fences that another function may have written. True if a queue waits no more.
    pub(crate) fn poll_waits(&self, memory: &Memory) -> bool {
        if !self.features.linked || !self.running() || self.waits.is_empty() {
            return false;
        }
        let access = memory.access();
        access.dma_enabled() && self.waits.look(&self.mailbox, &access)
    }

    /// Work for when there is nothing else to do: looks at the doorbells that were not rung lately, and for stores to a global doorbell that
    /// another store overwrote.
    pub(crate) fn tidy(&self) -> bool {
        let search = || self.doorbells.search(&self.mailbox, self.power.asleep(), &|| self.faults.misses_ring());
        self.running() && (search() || self.doorbells.sweep(&self.mailbox))
    }

    /// Moves events that found the event ring full into it. True if the ring had a free entry for one.
    pub(crate) fn flush_events(&self, memory: &Memory) -> bool {
        if !self.events.has_waiting() || !self.events.flush(&memory.access()) {
            return false;
        }
        if !self.events.stalled() {
            // Buffers that end in an event may go on.
            (0..NODES).for_each(|node| self.mailbox.set_pending(node, true));
        }
        true
    }

    /// Runs one slice of node `number`. True if there was something to do.
    pub(crate) fn run_node(&self, memory: &Memory, number: u32) -> bool {
        let Some(node) = self.nodes.get(number as usize).filter(|_| self.mailbox.pending(number)) else { return false };
        if self.power.is_asleep(number) {
            return false;
        }
        if node.claimed() {
            // A command wants the node: step back, or it might never get it.
            std::thread::yield_now();
            return true;
        }
        let Ok(mut state) = node.state.try_lock() else { return false };
        let access = memory.access();
        // Asked again under the lock, which the command that puts the node to sleep takes too.
        if !self.running() || !access.dma_enabled() || self.power.is_asleep(number) {
            return false;
        }
        self.power.note_activity(number);
        // Before the node stops saying that it has something to do.
        node.engaged.store(true, Ordering::Release);
        self.mailbox.set_pending(number, false);
        let worked = state.run(number, &self.context(node, &access));
        node.tallies.note_hung(state.is_hung());
        if state.has_runnable() {
            self.mailbox.set_pending(number, true);
        }
        state.add_accesses(access.resolved());
        node.engaged.store(false, Ordering::Release);
        worked
    }
}

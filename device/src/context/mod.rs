//! State that the scheduler shares with its engines: wait lists, the mailbox of queues, the table of fences, counters.
//!
//! It knows neither queues nor engines: [`OtherEngines`] is how a packet reaches those of the other nodes.

pub(crate) mod doorbells;
pub(crate) mod fences;
pub(crate) mod mailbox;
pub(crate) mod sync;
pub(crate) mod waits;

use crate::clock::Clock;
use crate::compiling::Compiling;
use crate::event::Events;
use crate::fault::Faults;
use crate::memory::Access;
use crate::variant::Preemption;
use campanile_hw::event::{Event, EventKind};
use campanile_hw::queue::Location;
use fences::FenceTable;
use mailbox::Mailbox;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use waits::Waits;

/// Optional features of this variant of the GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    pub(crate) native_fence: bool,
    pub(crate) atomics64: bool,
    /// True if the function keeps log entries from memory until FlushFenceLogs.
    pub(crate) log_flush: bool,
    /// True if events of native fences name the queue only.
    pub(crate) optimised_fence_interrupt: bool,
    /// True if events of fences name neither the fence nor its kind.
    pub(crate) one_fence_event: bool,
    /// Fences and logs are reached through the paging process; the number of fences that can be.
    pub(crate) system_fences: Option<u32>,
    /// Bytes of VRAM.
    pub(crate) vram: u64,
    /// Ticks until an idle node says so, 0 for never.
    pub(crate) idle_ticks: u64,
    /// True if another function writes fences that queues here wait for.
    pub(crate) linked: bool,
    /// True if programs are never compiled for the host.
    pub(crate) interpreter: bool,
    /// Granularity of preemption: the points at which a queue that has begun a DISPATCH can leave the node.
    pub(crate) preemption: Preemption,
}

/// Counters of one node, written under its lock and read without it.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) waits: AtomicU64,
    pub(crate) signals: AtomicU64,
    pub(crate) retired: AtomicU64,
    /// Fences reached through the paging process.
    pub(crate) system_fences: AtomicU64,
    /// Packets, and further parts of longer ones.
    pub(crate) progress: AtomicU64,
    /// Times that a queue left the node in a dispatch.
    pub(crate) preemptions: AtomicU64,
    /// True while the engine hangs, which it does until the node is reset.
    pub(crate) hung: AtomicBool,
    /// Log entries that LOG packets picked.
    pub(crate) picked: AtomicU64,
    /// Signals before the last reset.
    pub(crate) past_signals: AtomicU64,
}

impl Tallies {
    /// Adds one to a counter that only the holder of the node's lock writes.
    #[inline]
    pub(crate) fn add(counter: &AtomicU64) {
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Notes that the engine hangs, or hangs no more. Called under the node's lock, so that the next thread that takes it sees this.
    pub(crate) fn note_hung(&self, hung: bool) {
        self.hung.store(hung, Ordering::Release);
    }

    pub(crate) fn reset(&self) {
        self.past_signals.fetch_add(self.signals.load(Ordering::Relaxed), Ordering::Relaxed);
        let counters = [&self.waits, &self.signals, &self.retired, &self.system_fences, &self.progress, &self.picked];
        for counter in counters.into_iter().chain([&self.preemptions]) {
            counter.store(0, Ordering::Relaxed);
        }
        self.hung.store(false, Ordering::Release);
    }
}

/// The parts of the function that a node uses during one slice.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) memory: &'a Access<'a>,
    pub(crate) events: &'a Events,
    pub(crate) waits: &'a Waits,
    pub(crate) mailbox: &'a Mailbox,
    pub(crate) clock: &'a Clock,
    pub(crate) tallies: &'a Tallies,
    /// The fences that are reached through the paging process; `None` where they are reached through their own.
    pub(crate) fences: Option<&'a FenceTable>,
    /// The injected faults. A packet asks for them when it begins, so that a rule applies to whatever happens after it was armed.
    pub(crate) faults: &'a Faults,
    pub(crate) paging_root: Option<Location>,
    pub(crate) features: Features,
    pub(crate) others: &'a dyn OtherEngines,
    pub(crate) compiling: &'a Compiling,
}

/// The engines of the other nodes, for TLB invalidations, which concern all of them.
pub(crate) trait OtherEngines: Sync {
    /// Invalidates translations in the TLB of every node but `own`. Slices that are in progress there end first. Only the paging node's engine
    /// waits for the lock of another node while it has its own, so there is no deadlock.
    fn forget(&self, own: u32, root: Location, start: u64, end: u64);
}

impl Context<'_> {
    /// The address space in which the logs of a queue in that of `root` are reached.
    pub(crate) fn log_root(&self, root: Option<Location>) -> Option<Location> {
        if self.fences.is_some() { self.paging_root } else { root }
    }

    /// Reports an event of a queue.
    pub(crate) fn report(&self, kind: EventKind, node: u32, queue: u32, data: [u64; 2]) {
        if kind == EventKind::Suspended && self.faults.loses_suspension() {
            return;
        }
        let [data0, data1] = data;
        let event = Event { kind: kind as u8, node: node as u8, queue, data0, data1, timestamp: self.clock.now() };
        self.events.push(self.memory, event);
    }
}

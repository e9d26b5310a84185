//! Power states of the nodes, and since when each has been idle.

use campanile_hw::registers::NODES;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A node that is not idle.
pub(super) const BUSY: u64 = u64::MAX;

/// When a runner has to step the function next, which decides how long its thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextLook {
    /// Soon: memory has to be polled for a doorbell, or for the read pointer of a full event ring.
    Soon,
    /// After so many ticks, when a node may have been idle for long. A register access may wake the runner earlier.
    After(u64),
    /// At the next register access: nothing else can make work.
    AtRegisterAccess,
}

/// Power states and idle times.
#[derive(Debug)]
pub(crate) struct Power {
    /// Nodes in F1.
    asleep: AtomicU32,
    /// Nodes whose idle time is watched: they are in F0, and no event has said that they are idle since their last activity.
    pub(super) watched: AtomicU32,
    /// Since when a watched node has nothing to do, or [`BUSY`].
    pub(super) since: [AtomicU64; NODES as usize],
    /// 0: nothing is watched.
    pub(super) idle_ticks: u64,
}

impl Power {
    /// All nodes in F0, nothing watched before the scheduler starts.
    pub(crate) fn new(idle_ticks: u64) -> Self {
        Self {
            asleep: AtomicU32::new(0),
            watched: AtomicU32::new(0),
            since: std::array::from_fn(|_| AtomicU64::new(BUSY)),
            idle_ticks,
        }
    }

    /// Nodes in F1, a bit each.
    pub(crate) fn asleep(&self) -> u32 {
        self.asleep.load(Ordering::Acquire)
    }

    /// True if `node` is in F1.
    pub(crate) fn is_asleep(&self, node: u32) -> bool {
        self.asleep() >> node & 1 != 0
    }

    /// Notes that the node has worked: its idle time starts over.
    #[inline]
    pub(crate) fn note_activity(&self, node: u32) {
        if self.idle_ticks == 0 {
            return;
        }
        if let Some(since) = self.since.get(node as usize) {
            since.store(BUSY, Ordering::Release);
        }
        if !self.is_asleep(node) && self.watched.load(Ordering::Relaxed) >> node & 1 == 0 {
            self.watched.fetch_or(1 << node, Ordering::AcqRel);
        }
    }

    /// Starts over as after reset; nodes are watched once the scheduler runs.
    pub(crate) fn reset(&self) {
        self.asleep.store(0, Ordering::Release);
        self.watched.store(0, Ordering::Release);
    }

    /// The scheduler runs.
    pub(crate) fn start(&self) {
        (0..NODES).for_each(|node| self.note_activity(node));
    }

    pub(super) fn set(&self, node: u32, sleeps: bool) -> bool {
        let bit = 1 << node;
        let before = if sleeps {
            self.watched.fetch_and(!bit, Ordering::AcqRel);
            self.asleep.fetch_or(bit, Ordering::AcqRel)
        } else {
            self.asleep.fetch_and(!bit, Ordering::AcqRel)
        };
        self.note_activity(node);
        before & bit != 0
    }
}

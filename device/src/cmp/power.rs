//! Power states of the nodes, and when a node has been idle for long.

use super::Cmp;
use crate::context::Context;
use crate::context::mailbox::Mailbox;
use crate::memory::Memory;
use campanile_hw::event::{EventKind, NO_QUEUE};
use campanile_hw::registers::{CommandStatus, NODES};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A node that is not idle.
const BUSY: u64 = u64::MAX;

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
    watched: AtomicU32,
    /// Since when a watched node has nothing to do, or [`BUSY`].
    since: [AtomicU64; NODES as usize],
    /// 0: nothing is watched.
    idle_ticks: u64,
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

    fn set(&self, node: u32, sleeps: bool) -> bool {
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

impl Cmp {
    /// Nodes in F1, a bit each.
    pub(crate) fn asleep(&self) -> u32 {
        self.power.asleep()
    }

    /// SetNodePower.
    pub(super) fn set_power(&self, node: u32, state: u64) -> Result<u64, CommandStatus> {
        let place = self.nodes.get(node as usize).ok_or(CommandStatus::BadArgument)?;
        if state > 1 {
            return Err(CommandStatus::BadArgument);
        }
        // No slice is in progress while the node's lock is taken, so a node in F1 stands still when the command is done.
        let state_before = {
            let _still = place.claim();
            self.power.set(node, state == 1)
        };
        Ok(u64::from(state_before))
    }

    /// Reports the nodes that have been idle for long. True if there was one. Called when there is nothing else to do.
    pub(crate) fn watch_idle(&self, memory: &Memory) -> bool {
        let watched = self.power.watched.load(Ordering::Acquire);
        if watched == 0 || !self.running() {
            return false;
        }
        let now = self.clock.now();
        let due = |node: &u32| {
            let Some(since) = self.power.since.get(*node as usize).filter(|_| watched >> node & 1 != 0) else {
                return false;
            };
            let start = since.load(Ordering::Acquire);
            if start == BUSY {
                since.store(now, Ordering::Release);
            }
            start != BUSY && now.saturating_sub(start) >= self.power.idle_ticks
        };
        (0..NODES).filter(due).filter(|node| self.report_idle(memory, *node)).count() != 0
    }

    fn report_idle(&self, memory: &Memory, number: u32) -> bool {
        let Some(node) = self.nodes.get(number as usize) else { return false };
        let Ok(state) = node.state.try_lock() else { return false };
        let access = memory.access();
        // Asked again under the lock, which a reset takes too: what is said after it would be said of the function that starts over.
        if !self.running() || self.mailbox.pending(number) || !access.dma_enabled() {
            return false;
        }
        self.power.watched.fetch_and(!(1 << number), Ordering::AcqRel);
        let idle = !state.has_work();
        if idle {
            self.context(node, &access).report(EventKind::NodeIdle, number, NO_QUEUE, [0; 2]);
        }
        idle
    }

    /// Reports by an event that a node hangs, as its own watchdog does.
    pub(crate) fn report_hung(&self, memory: &Memory, number: u32) {
        if let Some(node) = self.nodes.get(number as usize) {
            let access = memory.access();
            let context: Context<'_> = self.context(node, &access);
            context.report(EventKind::NodeHung, number, NO_QUEUE, [0; 2]);
        }
    }

    /// Ends a hang of a node without a reset.
    pub(crate) fn let_go(&self, memory: &Memory, number: u32) {
        // A node that does not exist does not hang.
        let _ = self.with_node(memory, number, |state, context| {
            state.end_hang(context);
            Ok(())
        });
    }

    /// True if the scheduler does not run, or every node is in F1.
    pub(crate) fn stands_still(&self) -> bool {
        !self.running() || self.power.asleep() == (1 << NODES) - 1
    }

    /// When a runner has to step the function next.
    pub(crate) fn next_look(&self) -> NextLook {
        if !self.running() {
            return NextLook::AtRegisterAccess;
        }
        let asleep = self.power.asleep();
        let pending = |mailbox: &Mailbox| (0..NODES).any(|node| asleep >> node & 1 == 0 && mailbox.pending(node));
        if self.faults().has_late()
            || self.doorbells.listens(asleep)
            || self.events.has_waiting()
            || (self.features.linked && !self.waits.is_empty())
            || pending(&self.mailbox)
        {
            NextLook::Soon
        } else if self.power.watched.load(Ordering::Acquire) != 0 {
            NextLook::After(self.power.idle_ticks)
        } else {
            NextLook::AtRegisterAccess
        }
    }
}

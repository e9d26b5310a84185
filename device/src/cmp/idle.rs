//! Nodes that sleep, have been idle for long, or hang.

use campanile_hw::event::{EventKind, NO_QUEUE};
use campanile_hw::registers::{CommandStatus, NODES};
use std::sync::atomic::Ordering;

use super::power::{BUSY, NextLook};
use super::processor::Cmp;
use crate::context::Context;
use crate::context::mailbox::Mailbox;
use crate::memory::Memory;

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

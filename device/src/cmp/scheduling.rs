//! The states of contexts that the scheduling log of a node tells.
//!
//! A queue has a state of its own here; that of a context is the busiest of its queues. Without a log nothing is noted and the cost is one comparison.

use super::node::NodeState;
use super::processor::Cmp;
use super::scheduling_log::SchedulingLog;
use crate::context::Context;
use crate::memory::Memory;
use crate::queue::{Queue, RunState};
use campanile_hw::event::{EventKind, NO_QUEUE};
use campanile_hw::registers::CommandStatus;
use campanile_hw::scheduling_log::ContextState;

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

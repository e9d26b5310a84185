//! A node: its queues, its run list, and one slice of work.
//!
//! The run list says which queue has the node. It has it over several slices, until it is idle, waits, faults, is stopped, or another queue
//! is to run.

use super::scheduling_log::SchedulingLog;
use crate::context::{Context, Tallies};
use crate::engine::{Budget, Engine, Outcome};
use crate::lock::lock;
use crate::mmu::Fault;
use crate::queue::run_list::{RunList, Slice, Terms};
use crate::queue::{Queue, RunState};
use crate::transfer::SLICE_BYTES;
use crate::variant::Preemption;
use campanile_hw::event::{EventKind, FaultInfo, FaultKind, NO_QUEUE};
use campanile_hw::isa::DispatchPosition;
use campanile_hw::scheduling_log::ContextState;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Slices that are run at most when a hang ends without a reset.
const SLICES_LEFT: u32 = 4096;

/// A node and what may be known of it without its lock.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) state: Mutex<NodeState>,
    /// The number of commands that wait for the lock; the engine starts no slice while there are any.
    claims: AtomicU32,
    /// True while a slice is in progress.
    pub(crate) engaged: AtomicBool,
    pub(crate) tallies: Tallies,
}

impl Node {
    /// Takes the node away from its engine after at most one slice.
    pub(crate) fn claim(&self) -> MutexGuard<'_, NodeState> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        let state = lock(&self.state);
        self.claims.fetch_sub(1, Ordering::SeqCst);
        state
    }

    /// True while a command waits for the node; its engine then starts no slice.
    pub(crate) fn claimed(&self) -> bool {
        self.claims.load(Ordering::SeqCst) != 0
    }
}

/// State of a node that its lock guards.
#[derive(Debug, Default)]
pub(crate) struct NodeState {
    /// Queues by number.
    queues: Vec<Option<Box<Queue>>>,
    /// The run list, which chooses the queue that runs.
    pub(crate) run_list: RunList,
    /// Runnable queues whose next command buffer ends in an event for which the event ring has no free entry.
    stalled: Vec<u32>,
    /// True while the engine hangs, which it does until the node is reset.
    hung: bool,
    /// Suspensions that are not answered before the node is reset: queue and cookie, oldest first.
    unanswered: Vec<(u32, u64)>,
    /// Suspensions of the queue that has the node and cannot leave it yet: queue and cookie, oldest first.
    leaving: Vec<(u32, u64)>,
    /// The inbox while it is worked through.
    inbox: Vec<u32>,
    pub(crate) engine: Engine,
    /// The scheduling log, if the node has one.
    pub(super) scheduling: Option<Box<SchedulingLog>>,
    visits: u64,
    accesses: u64,
}

impl NodeState {
    /// Queues looked at so far.
    pub(crate) fn visits(&self) -> u64 {
        self.visits
    }

    /// Memory accesses so far.
    pub(crate) fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Counts accesses of a slice or command.
    pub(crate) fn add_accesses(&mut self, count: u64) {
        self.accesses += count;
    }

    /// True if a queue has the node or waits for it.
    pub(crate) fn has_runnable(&self) -> bool {
        !self.hung && self.run_list.has_runnable()
    }

    /// True if a queue has work that it runs, or that waits for a fence. Suspended and faulted queues do not count.
    pub(crate) fn has_work(&self) -> bool {
        let works = |queue: &Queue| matches!(queue.state, RunState::Runnable | RunState::Waiting { .. });
        self.hung || self.queues.iter().flatten().any(|queue| works(queue))
    }

    /// The queue that has the node.
    pub(crate) fn current(&self) -> Option<u32> {
        self.run_list.current()
    }

    /// True while the engine hangs.
    pub(crate) fn is_hung(&self) -> bool {
        self.hung
    }

    /// True while the engine hangs in this queue.
    pub(crate) fn is_hung_in(&self, number: u32) -> bool {
        self.hung && self.current() == Some(number)
    }

    /// Notes a suspension that only a reset answers.
    pub(crate) fn leave_unanswered(&mut self, number: u32, cookie: u64) {
        self.unanswered.push((number, cookie));
    }

    /// Notes a suspension that is answered when the queue can leave the node.
    pub(crate) fn leave_later(&mut self, number: u32, cookie: u64) {
        self.leaving.push((number, cookie));
    }

    /// True if the queue has been asked to stop and could not leave the node yet.
    pub(crate) fn is_leaving(&self, number: u32) -> bool {
        self.leaving.iter().any(|(queue, _)| *queue == number)
    }

    /// Answers the suspensions that a queue could not answer before.
    pub(crate) fn answer_leaving(&mut self, number: u32, context: &Context<'_>) {
        let (asked, others) = std::mem::take(&mut self.leaving).into_iter().partition(|(queue, _)| *queue == number);
        self.leaving = others;
        let asked: Vec<(u32, u64)> = asked;
        for (_, cookie) in asked {
            let Some(queue) = self.queue(number) else { return };
            context.report(EventKind::Suspended, queue.node, number, [cookie, 0]);
        }
    }

    /// Suspends a queue that was asked to stop, if it can leave the node by now. A hang leaves the answer to the reset.
    fn leave_if_free(&mut self, number: u32, context: &Context<'_>) {
        if !self.is_leaving(number) {
            return;
        }
        if self.hung {
            return self.unanswered.append(&mut self.leaving);
        }
        let preemption = context.features.preemption;
        if self.queue(number).is_some_and(|queue| queue.holds_node(preemption)) {
            return;
        }
        self.stop(number, context);
        self.answer_leaving(number, context);
    }

    /// Suspends a queue that has not faulted and can leave the node: what it has of a dispatch goes to its save area.
    pub(super) fn stop(&mut self, number: u32, context: &Context<'_>) {
        self.unlist(number, context);
        self.save_dispatch(number, context);
        if let Some(queue) = self.queue(number).filter(|queue| queue.state != RunState::Faulted) {
            queue.state = RunState::Suspended;
        }
    }

    /// A queue leaves the node: the state of its dispatch, if it is in one, goes to its save area. A queue whose area cannot take it faults.
    fn save_dispatch(&mut self, number: u32, context: &Context<'_>) {
        let Some(queue) = self.queue(number) else { return };
        let Some(running) = queue.dispatch.take() else { return };
        queue.saved_at = Some(Box::new(DispatchPosition { saved: 1, ..running.position() }));
        match running.save(&queue.save_area, context.memory) {
            Ok(()) => Tallies::add(&context.tallies.preemptions),
            Err(fault) => self.fault(number, &fault, context),
        }
    }

    /// Resets the engine. The queue that had it faults, with a report of the dispatch that it was in, or if there is none the first one whose suspension was not answered; its number is
    /// returned.
    pub(crate) fn reset(&mut self, along: bool, context: &Context<'_>) -> Option<u32> {
        self.hung = false;
        self.engine.tlb.clear();
        let culprit = self.current().or(self.unanswered.first().map(|(number, _)| *number));
        let lost = |number: &u32, queue: &Queue| {
            let works = matches!(queue.state, RunState::Runnable | RunState::Waiting { .. });
            Some(*number) == culprit || along && works && !queue.is_privileged()
        };
        let queues = self.queues.iter().flatten().map(|queue| (queue.number, queue));
        let lost: Vec<u32> = queues.filter(|(number, queue)| lost(number, queue)).map(|(number, _)| number).collect();
        for number in lost {
            if let Some((queue, engine)) = self.queue_and_engine(number)
                && let Some(running) = queue.dispatch.take()
            {
                engine.report_reset(&running, context);
            }
            self.fault(number, &Fault::plain(FaultKind::Reset, 0), context);
        }
        self.answer(context);
        culprit
    }

    /// Ends a hang. Queues whose suspension was not answered during it are suspended now.
    pub(crate) fn end_hang(&mut self, context: &Context<'_>) {
        self.hung = false;
        self.answer(context);
    }

    /// Suspends the queues that were asked to stop and did not.
    fn answer(&mut self, context: &Context<'_>) {
        for (number, cookie) in std::mem::take(&mut self.unanswered) {
            if self.queue(number).is_some_and(|queue| queue.holds_node(context.features.preemption)) {
                self.leave_later(number, cookie);
                continue;
            }
            if self.queue(number).is_some_and(|queue| queue.state != RunState::Faulted) {
                self.stop(number, context);
            }
            if let Some(queue) = self.queue(number) {
                context.report(EventKind::Suspended, queue.node, number, [cookie, 0]);
            }
        }
    }

    /// Ends a hang and runs the node for a bounded time.
    pub(crate) fn let_go(&mut self, node: u32, context: &Context<'_>) {
        self.hung = false;
        for _ in 0..SLICES_LEFT {
            if !self.run(node, context) {
                break;
            }
        }
        self.answer(context);
    }

    /// A queue of this node.
    pub(crate) fn queue(&mut self, number: u32) -> Option<&mut Queue> {
        self.queues.get_mut(number as usize)?.as_deref_mut()
    }

    /// The queues of this node.
    pub(super) fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.iter().flatten().map(Box::as_ref)
    }

    /// A queue of this node and the engine.
    pub(crate) fn queue_and_engine(&mut self, number: u32) -> Option<(&mut Queue, &mut Engine)> {
        Some((self.queues.get_mut(number as usize)?.as_deref_mut()?, &mut self.engine))
    }

    /// Adds a queue; the caller has checked that the number is within the table and free.
    pub(crate) fn insert(&mut self, queue: Queue, process: u32, terms: Terms) {
        let mut queue = queue;
        let alike = |other: &&mut Box<Queue>| queue.context != 0 && other.context == queue.context;
        for other in self.queues.iter_mut().flatten().filter(alike) {
            (other.shares_context, queue.shares_context) = (true, true);
        }
        self.run_list.insert(queue.number, process, terms);
        let at = queue.number as usize;
        if self.queues.len() <= at {
            self.queues.resize_with(at + 1, || None);
        }
        if let Some(slot) = self.queues.get_mut(at) {
            *slot = Some(Box::new(queue));
        }
    }

    /// Removes a queue and all traces of it.
    pub(crate) fn remove(&mut self, number: u32, context: &Context<'_>) {
        self.unlist(number, context);
        self.run_list.remove(number);
        self.unanswered.retain(|(other, _)| *other != number);
        self.leaving.retain(|(other, _)| *other != number);
        if let Some(slot) = self.queues.get_mut(number as usize) {
            *slot = None;
        }
    }

    /// Takes a queue off the run list, the engine and the wait list.
    pub(crate) fn unlist(&mut self, number: u32, context: &Context<'_>) {
        self.run_list.unlist(number);
        self.log_state(number, ContextState::Idle, context);
        self.stalled.retain(|listed| *listed != number);
        if let Some(queue) = self.queue(number)
            && let RunState::Waiting { key } = queue.state
        {
            context.waits.leave(key, number, queue.ticket);
        }
    }

    /// Stops a queue for good and reports the fault.
    pub(crate) fn fault(&mut self, number: u32, fault: &Fault, context: &Context<'_>) {
        self.unlist(number, context);
        let Some(queue) = self.queue(number) else { return };
        queue.state = RunState::Faulted;
        let entry = if queue.buffer.is_some() { queue.fetched.wrapping_sub(1) } else { queue.fetched };
        let info = FaultInfo::new()
            .with_kind(fault.kind as u8)
            .with_write(fault.write)
            .with_level(fault.level)
            .with_rule(fault.rule)
            .with_entry(entry as u32);
        context.report(EventKind::Fault, queue.node, number, [fault.address, info.into_bits()]);
        self.answer_leaving(number, context);
    }

    /// Puts a queue on the run list if it has work and is neither suspended, waiting nor faulted; marks it idle if it has no work.
    pub(crate) fn settle(&mut self, number: u32, context: &Context<'_>) {
        let Some(queue) = self.queue(number) else { return };
        if !queue.has_work() {
            queue.state = RunState::Idle;
            return;
        }
        queue.state = RunState::Runnable;
        self.run_list.push(number);
        if self.current().is_some_and(|current| current != number) {
            self.log_state(number, ContextState::Ready, context);
        }
    }

    /// Takes in a write pointer. `trusted` is true if it was read from the ring-control page, where it never decreases.
    pub(crate) fn observe(&mut self, number: u32, write: u64, trusted: bool, context: &Context<'_>) {
        let Some((queue, engine)) = self.queue_and_engine(number) else { return };
        if matches!(queue.state, RunState::Suspended | RunState::Faulted) || write == queue.write {
            return;
        }
        if write < queue.write && !trusted {
            // A doorbell store that was overtaken by a look at the control page; only that page can tell.
            match queue.read_write_pointer(&mut engine.tlb, context.memory) {
                Ok(write) => self.observe(number, write, true, context),
                Err(fault) => self.fault(number, &fault, context),
            }
            return;
        }
        let forward = write > queue.write;
        if !forward || queue.advance(write).is_err() {
            self.fault(number, &Fault::plain(FaultKind::BadWritePointer, write), context);
        } else if queue.state == RunState::Idle {
            self.settle(number, context);
        }
    }

    /// Reads the write pointer of a queue and takes it in, once memory can be reached at all.
    pub(crate) fn look(&mut self, number: u32, context: &Context<'_>) {
        if !context.memory.dma_enabled() {
            return context.mailbox.look(number);
        }
        let Some((queue, engine)) = self.queue_and_engine(number) else { return };
        match queue.read_write_pointer(&mut engine.tlb, context.memory) {
            Ok(write) => self.observe(number, write, true, context),
            Err(fault) => self.fault(number, &fault, context),
        }
    }

    /// Takes in what the mailbox has for this node. True if there was any news.
    pub(crate) fn drain(&mut self, number: u32, context: &Context<'_>) -> bool {
        let mut inbox = std::mem::take(&mut self.inbox);
        context.mailbox.take_inbox(number, &mut inbox);
        for queue in &inbox {
            self.visits += 1;
            let Some(news) = context.mailbox.open(*queue) else { continue };
            if let Some(ticket) = news.wake {
                self.wake(*queue, ticket, context);
            }
            let listens =
                self.queue(*queue).is_some_and(|queue| !matches!(queue.state, RunState::Suspended | RunState::Faulted));
            if let Some(write) = news.rung.filter(|_| listens) {
                self.observe(*queue, write, false, context);
            }
            if news.look && listens {
                self.look(*queue, context);
            }
        }
        let worked = !inbox.is_empty();
        inbox.clear();
        self.inbox = inbox;
        worked
    }

    /// Makes a queue runnable if it still waits with this ticket; it evaluates its WAIT by itself.
    fn wake(&mut self, number: u32, ticket: u64, context: &Context<'_>) {
        let waits = |queue: &&mut Queue| matches!(queue.state, RunState::Waiting { .. }) && queue.ticket == ticket;
        if self.queue(number).filter(waits).is_some() {
            self.settle(number, context);
        }
    }

    /// Preempts a queue that is neither suspended nor faulted: drops the command buffers that it has not started, and the one in progress
    /// as soon as that is done or waits in a WAIT.
    pub(crate) fn preempt(&mut self, number: u32, cookie: u64, context: &Context<'_>) {
        let Some(queue) = self.queue(number) else { return };
        queue.fetched = queue.write;
        queue.preemption = Some(cookie);
        let runs = queue.buffer.is_some() && queue.state == RunState::Runnable;
        if !runs {
            self.finish_preemption(number, context);
        }
    }

    /// Reports the preemption of a queue that runs nothing, because it is idle or waits in a WAIT.
    fn finish_preemption(&mut self, number: u32, context: &Context<'_>) {
        let Some(cookie) = self.queue(number).and_then(|queue| queue.preemption.take()) else { return };
        // Out of the wait list, or off the run list with entries that were dropped.
        self.unlist(number, context);
        let Some((queue, engine)) = self.queue_and_engine(number) else { return };
        queue.dispatch = None;
        let offset = queue.buffer.take().map_or(0, |buffer| buffer.offset);
        let published = queue.write_read_pointer(&mut engine.tlb, context.memory, queue.fetched);
        context.report(EventKind::Preempted, queue.node, number, [cookie, u64::from(offset)]);
        match published {
            Ok(()) => self.settle(number, context),
            Err(fault) => self.fault(number, &fault, context),
        }
    }

    /// Runs one slice. True if there was work or news.
    pub(crate) fn run(&mut self, node: u32, context: &Context<'_>) -> bool {
        let news = self.drain(node, context);
        if !self.stalled.is_empty() && !context.events.stalled() {
            for number in std::mem::take(&mut self.stalled) {
                self.settle(number, context);
            }
        }
        if self.hung {
            return news;
        }
        let before = self.current();
        let Some(slice) = self.next_slice(context.features.preemption) else { return news };
        if let Some(left) = before.filter(|before| *before != slice.queue) {
            self.save_dispatch(left, context);
        }
        let worked = self.run_slice(node, slice, (before, news), context);
        self.leave_if_free(slice.queue, context);
        worked
    }

    /// The queue that runs next, and for how long: the queue that has the node if it cannot leave it.
    fn next_slice(&mut self, preemption: Preemption) -> Option<Slice> {
        let number = self.current();
        let current = number.and_then(|number| self.queues.get(number as usize)?.as_deref());
        let at_boundary = current.is_none_or(|queue| queue.buffer.is_none());
        let holds = current.is_some_and(|queue| queue.holds_node(preemption));
        let slice = if holds { self.run_list.hold() } else { self.run_list.choose(at_boundary) }?;
        Some(Slice { ends_with_buffer: slice.ends_with_buffer || self.is_leaving(slice.queue), ..slice })
    }

    /// Runs a slice; `before` is the queue that had the node until now. True if there was work, or news before.
    fn run_slice(
        &mut self,
        node: u32,
        slice: Slice,
        (before, news): (Option<u32>, bool),
        context: &Context<'_>,
    ) -> bool {
        let number = slice.queue;
        self.visits += 1;
        let Some(slot) = self.queues.get_mut(number as usize) else { return news };
        let Some(queue) = slot.as_deref_mut() else { return news };
        let ends_with_buffer = slice.ends_with_buffer;
        let leaves = ends_with_buffer && queue.holds_node(context.features.preemption);
        let mut budget = Budget { packets: slice.packets, bytes: SLICE_BYTES, ends_with_buffer, leaves };
        let began = self.scheduling.as_ref().map_or(0, |_| context.clock.mark());
        let outcome = self.engine.run(queue, context, &mut budget);
        match outcome {
            Outcome::Idle => queue.state = RunState::Idle,
            Outcome::Wait { key } => queue.state = RunState::Waiting { key },
            _ => {}
        }
        // Whoever waits for what the slice did need not wait for the log.
        self.log_slice(before, number, began, context);
        let spent = slice.packets - budget.packets + u32::from(budget.bytes == 0);
        self.run_list.charge(spent);
        let progress = &context.tallies.progress;
        progress.store(progress.load(Ordering::Relaxed) + u64::from(spent), Ordering::Relaxed);
        match outcome {
            Outcome::More => return true,
            Outcome::Hang { reported } => {
                self.hung = true;
                if reported {
                    context.report(EventKind::NodeHung, node, NO_QUEUE, [0; 2]);
                }
                return true;
            }
            Outcome::Fault(fault) => {
                self.fault(number, &fault, context);
                return true;
            }
            Outcome::Idle | Outcome::Wait { .. } => {}
            Outcome::Stalled => self.stalled.push(number),
        }
        self.run_list.unlist(number);
        self.log_state(number, ContextState::Idle, context);
        self.finish_preemption(number, context);
        outcome != Outcome::Stalled || budget.packets < slice.packets || self.has_runnable() || news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_claimed_while_a_command_waits_for_it_and_no_longer() {
        let node = Node::default();
        assert!(!node.claimed());
        let slice = lock(&node.state);
        std::thread::scope(|scope| {
            scope.spawn(|| drop(node.claim()));
            // The command waits for the end of the slice.
            while !node.claimed() {
                std::thread::yield_now();
            }
            drop(slice);
        });
        assert!(!node.claimed());
    }
}
